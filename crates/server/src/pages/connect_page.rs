//! The page that connects a client: the address to give it, the command, or a token made here.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use serde_json::json;
use stile_domain::percent::encode_component;
use stile_domain::records::authority::{ImportClaim, RecordsClaim};
use stile_domain::records::identifiers::SourceName;
use stile_domain::scope::{Scope, Scopes};
use stile_domain::sign_in::asked_access::rights;
use stile_domain::unseen::shown_start;

use super::consent_page::{DURATIONS, PROPOSED_DURATION};
use super::frame::{
    ACCESS_PATH, CONNECT_PATH, GRANT_PATH, MAKE_IMPORT_TOKEN_PATH, MAKE_TOKEN_PATH,
};
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::minute;
use crate::auth::{MintRequest, MintedToken};
use crate::http::metadata::MCP_PATH;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (CONNECT_PATH, "Connect a client");
/// How long a token for an import is valid.
const IMPORT_LIFE: Duration = Duration::from_secs(60 * 60);
/// The most folders to choose from.
const MAX_FOLDERS: usize = 200;
/// What a token may do: the word of its scope, and the words of the form.
const VERBS: [(&str, &str); 3] =
    [("read", "read"), ("write", "read and change"), ("append", "add lines, without reading")];

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        visit.owner_space()?;
        Ok(markup(visit))
    })
}

/// Makes a token, and shows it once.
pub fn make_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        visit.owner_space()?;
        let order = order(visit)?;
        let minted = server.minter().mint(&order, (server.settings.clock)());
        let minted = minted.map_err(|error| PageError::Refused(error.to_string()))?;
        let said = rights(&order.scopes, &order.records).join(", ");
        Ok(Outcome::Page(made(visit, &order, &minted, &said)))
    })
}

/// Makes a token that imports into one stream of the person's records for an hour, and shows it
/// once.
pub fn make_import_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        visit.owner_space()?;
        visit.records().ok_or(PageError::Absent("There are no records here."))?;
        let name = |field: &str, what: &str| {
            SourceName::parse(visit.text(field).trim())
                .map_err(|bad| PageError::Refused(format!("The {what} has another form: {bad}.")))
        };
        let import = ImportClaim {
            connection: name("connection", "connection")?,
            stream: name("stream", "stream")?,
        };
        let order = MintRequest {
            subject: visit.session.subject.clone(),
            scopes: Scopes::none(),
            client: Some(format!("import into {} of {}", import.stream, import.connection)),
            records: RecordsClaim::Import(Arc::new(import.clone())),
            life: IMPORT_LIFE,
        };
        let minted = server.minter().mint(&order, (server.settings.clock)());
        let minted = minted.map_err(|error| PageError::Refused(error.to_string()))?;
        Ok(Outcome::Page(made_for_import(visit, &import, &minted)))
    })
}

/// Reads what the form orders. What it leaves out is the least.
fn order(visit: &Visit<'_>) -> Result<MintRequest, PageError> {
    let refuse = |why: String| PageError::Refused(why);
    let name = visit.text("name").trim();
    if name.is_empty() {
        return Err(refuse("A token needs the name of the client that it is for.".to_owned()));
    }
    let verb = VERBS.iter().find(|(verb, _)| *verb == visit.text("verb")).map_or("read", |it| it.0);
    let folder = visit.parameters.get("folder").unwrap_or("/");
    let scope = |text: String| {
        Scope::parse_raw(&text).map_err(|error| refuse(format!("`{text}`: {error}")))
    };
    let mut scopes = vec![scope(format!("{verb}:{}/", folder.trim_end_matches('/')))?];
    if let Some(denied) = visit.parameters.get("never").filter(|path| !path.trim().is_empty()) {
        scopes.push(scope(format!("deny:{}", denied.trim()))?);
    }
    let life = life(visit);
    Ok(MintRequest {
        subject: visit.session.subject.clone(),
        scopes: Scopes::from_iter(scopes),
        client: Some(name.to_owned()),
        records: RecordsClaim::None,
        life,
    })
}

/// Returns how long the form wants a token to be valid. A value that is not on the page is a day.
pub(super) fn life(visit: &Visit<'_>) -> Duration {
    let wanted = visit.parameters.get("duration").unwrap_or(PROPOSED_DURATION);
    let seconds = DURATIONS.iter().find(|(value, ..)| *value == wanted).map_or(86_400, |it| it.2);
    let life = Duration::from_secs(seconds.unsigned_abs());
    // Who has left the provider keeps no token beyond what the provider would give.
    let is_provided = visit.server.methods.provider.is_some();
    if is_provided { life.min(visit.server.settings.access_life) } else { life }
}

fn markup(visit: &Visit<'_>) -> Markup {
    let address = format!("{}{MCP_PATH}", visit.origin);
    html! {
        h1 { "Connect a client" }
        section class="card" aria-labelledby="sign-in" {
            h2 id="sign-in" { "A client that can sign in" }
            p {
                "Claude, ChatGPT, Cursor, VS Code and others need nothing but this address. They \
                 then open a page here, on which you decide what they may do:"
            }
            p class="copy" { code { (address) } }
        }
        section class="card" aria-labelledby="command" {
            h2 id="command" { "A client on the computer of this server" }
            p {
                "One command changes nothing but the entry in the client's own file. Without "
                code { "--write" } " it shows the entry. " code { "stile connect --help" }
                " names the clients that it knows."
            }
            p class="copy" { code { "stile connect cursor --scope read:/notes/ --write" } }
        }
        section class="card" aria-labelledby="token" {
            h2 id="token" { "Anything else: a token" }
            p { "Whoever has the token may do what it says. It is shown once." }
            (token_form(visit))
        }
        @if visit.records().is_some() {
            section class="card" aria-labelledby="of-records" {
                h2 id="of-records" { "A client that sees some of your records" }
                p {
                    "Choose the stream, the fields and the time, and see what the client would see."
                }
                p { a class="button" href=(GRANT_PATH) { "Make a grant" } }
            }
            (import_form(visit))
        }
    }
}

fn import_form(visit: &Visit<'_>) -> Markup {
    let field = |name: &str, label: &str| {
        html! {
            div {
                label for=(name) { (label) }
                input id=(name) name=(name) required maxlength="128" autocomplete="off";
            }
        }
    };
    html! {
        section class="card" aria-labelledby="import" {
            h2 id="import" { "A program that imports your records" }
            p {
                "The token stores records in one stream, for an hour. It reads nothing. A record \
                 with the key of another one replaces that."
            }
            form class="filter" method="post" action=(MAKE_IMPORT_TOKEN_PATH) {
                (visit.csrf_field())
                (field("connection", "Where the records come from, as in gmail-work"))
                (field("stream", "What they are, as in messages"))
                div class="actions" { button { "Make the token for an import" } }
            }
        }
    }
}

/// Shows a new token for an import, with a command that uses it.
fn made_for_import(visit: &Visit<'_>, import: &ImportClaim, minted: &MintedToken) -> Markup {
    let address = format!(
        "{}/v1/ingest/{}?connection_id={}",
        visit.origin,
        encode_component(import.stream.as_str()),
        encode_component(import.connection.as_str())
    );
    let command = format!(
        "curl --data-binary @records.jsonl -H 'Content-Type: application/x-ndjson' \\\n  \
         -H 'Authorization: Bearer {}' \\\n  '{address}'",
        minted.token
    );
    html! {
        h1 { "The token is made" }
        p class="warning" role="status" {
            "This page shows the token once. It imports into " bdi { (import.stream.as_str()) }
            " of " bdi { (import.connection.as_str()) } " until " (minute(minted.expires))
            " UTC, and may do nothing else."
        }
        label for="made-token" { "The token" }
        textarea id="made-token" readonly rows="4" { (minted.token) }
        label for="made-block" { "Or a command that sends a file with one JSON object on each line" }
        textarea id="made-block" readonly rows="8" { (command) }
        p { a href=(ACCESS_PATH) { "Who may do what" } }
    }
}

fn token_form(visit: &Visit<'_>) -> Markup {
    let lister = &visit.server.settings.folders;
    let mut folders = Vec::new();
    for folder in lister(&visit.session.subject, "/") {
        let below = lister(&visit.session.subject, &format!("{folder}/"));
        folders.push(folder);
        folders.extend(below);
    }
    folders.truncate(MAX_FOLDERS);
    html! {
        form class="filter" method="post" action=(MAKE_TOKEN_PATH) {
            (visit.csrf_field())
            div {
                label for="name" { "Name of the client" }
                input id="name" name="name" required maxlength="200" autocomplete="off";
            }
            div {
                label for="verb" { "It may" }
                select id="verb" name="verb" {
                    @for (verb, words) in VERBS { option value=(verb) { (words) } }
                }
            }
            div {
                label for="folder" { "In" }
                select id="folder" name="folder" {
                    option value="/" { "all files" }
                    @for folder in &folders {
                        option value=(folder) { (shown_start(folder, 80)) }
                    }
                }
            }
            div {
                label for="never" { "But never (optional)" }
                input id="never" name="never" maxlength="1024" placeholder="/work/secrets";
            }
            div {
                label for="duration" { "For" }
                select id="duration" name="duration" {
                    @for (value, words, _) in DURATIONS {
                        option value=(value) selected[value == PROPOSED_DURATION] { (words) }
                    }
                }
            }
            div class="actions" { button { "Make the token" } }
        }
    }
}

/// Shows a new token, with the block that most clients take. `said` is what its client may do, as
/// the rest of a sentence that begins with the client.
pub(super) fn made(
    visit: &Visit<'_>,
    order: &MintRequest,
    minted: &MintedToken,
    said: &str,
) -> Markup {
    let block = json!({ "mcpServers": { "stile": {
        "type": "http",
        "url": format!("{}{MCP_PATH}", visit.origin),
        "headers": { "Authorization": format!("Bearer {}", minted.token) },
    } } });
    let name = order.client.as_deref().unwrap_or_default();
    html! {
        h1 { "The token is made" }
        p class="warning" role="status" {
            "This page shows the token once. Copy it now, and give it to nobody but the client."
        }
        p {
            bdi { (shown_start(name, 80)) } " " (said) ", until " (minute(minted.expires)) " UTC."
        }
        label for="made-token" { "The token" }
        textarea id="made-token" readonly rows="4" { (minted.token) }
        label for="made-block" { "Or the block for the client's settings" }
        textarea id="made-block" readonly rows="12" { (format!("{block:#}")) }
        p { a href=(ACCESS_PATH) { "Who may do what" } }
    }
}
