//! The page that connects a client: the address to give it, the command, or a token made here.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::authority::{ImportClaim, RecordsClaim};
use stile_domain::records::identifiers::SourceName;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::shell_word::quoted;
use stile_domain::sign_in::asked_access::{LeftRights, in_place_of, narrow, sentence};
use stile_domain::unseen::shown_ends;
use stile_store::state::{StateError, TokenKind, TokenRecord};

use super::access_rows::{grants, is_own, rights_in_words};
use super::access_view::KEPT_FIELD;
use super::consent_page::DURATIONS;
use super::frame::{
    ACCESS_PATH, CONNECT_PATH, GRANT_PATH, MAKE_IMPORT_TOKEN_PATH, MAKE_TOKEN_PATH, SHOW,
};
use super::room::Room;
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::{instant, moment};
use super::token_made::{self, duration_select, in_a_row, life, made, provided};
use crate::auth::{MintError, MintRequest, MintedToken};
use crate::http::metadata::MCP_PATH;
use crate::sign_in::access_choices::{below, two_levels, typed_path};
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (CONNECT_PATH, "Connect a client");
/// How long a token for an import is valid.
const IMPORT_LIFE: Duration = Duration::from_secs(60 * 60);
/// The most folders to choose from.
const MAX_FOLDERS: usize = 200;
/// What a token may do, and the words of the form for it.
const VERBS: [(Verb, &str); 3] = [
    (Verb::Read, "read"),
    (Verb::Write, "read and change"),
    (Verb::Append, "add lines, without reading"),
];
/// The bytes of the folders of a form.
const FOLDER_BYTES: usize = 9_000;
/// The name of the folder that is typed.
const TYPED_FOLDER: &str = "another-folder";
/// What a form says of files if a token sees records alone.
const NO_FILES: &str = "nothing";
/// The bytes of the choices about records.
const RECORD_BYTES: usize = 24_000;
/// The duration of a token that ends when the one in whose place it stands would.
const UNTIL_ITS_END: &str = "end";
const WIDER: &str =
    "This token may not do more than the one in whose place it stands. No token was made.";
const WITHOUT_FILES: &str = "The token in whose place this one should stand may do nothing with \
                             files, so it is not narrowed here. No token was made.";

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        visit.owner_space()?;
        let replaced = replaced(visit)?;
        Ok(markup(visit, replaced.as_ref()))
    })
}

/// A token in whose place another one shall stand.
struct Replaced {
    token: TokenRecord,
    scopes: Scopes,
    /// What it may do, as the rest of a sentence that begins with the client.
    said: Markup,
}

impl Replaced {
    /// Returns the right that the form narrows; `None` if the token may do nothing with files.
    fn first(&self) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.verb().is_right())
    }

    /// Returns what the form keeps or leaves out as it is.
    fn others(&self) -> impl Iterator<Item = &Scope> {
        let first = self.first();
        self.scopes.iter().filter(move |scope| scope.verb() != Verb::Deny && Some(*scope) != first)
    }

    /// Returns whether the token has a right that a verb and a folder narrow.
    fn has(&self, verb: Verb, folder: &SpacePath) -> bool {
        self.scopes.iter().any(|it| narrow(it, verb, folder).is_some())
    }

    /// Returns how long the token is valid from `now` on, in UTC seconds.
    fn rest(&self, now: i64) -> Duration {
        Duration::from_secs(self.token.expires.saturating_sub(now).unsigned_abs())
    }
}

/// Returns the token that another one shall replace; `None` if the query names none.
fn replaced(visit: &Visit<'_>) -> Result<Option<Replaced>, PageError> {
    let Some(jti) = visit.parameters.get("replaces") else { return Ok(None) };
    let found = visit.server.tokens().find(jti)?;
    let may_end = |token: &TokenRecord| visit.session.administers() || is_own(visit.session, token);
    let counts = |token: &TokenRecord| {
        token.revoked.is_none() && token.expires > visit.now && token.kind != TokenKind::Stdio
    };
    let found = found.filter(|token| may_end(token) && counts(token));
    let gone = PageError::Absent("There is no such token, or it has ended.");
    let token = found.ok_or(gone)?;
    let scopes = Scopes::from_claim(&token.scopes);
    let said = in_a_row(&rights_in_words(&scopes, &token.records_claim(), &grants(visit)?));
    Ok(Some(Replaced { token, scopes, said }))
}

/// Makes a token, and shows it once.
pub fn make_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        visit.owner_space()?;
        let replaced = replaced(visit)?;
        let records = visit.records().filter(|_| replaced.is_none());
        let shows_more = records.as_ref().is_some_and(|records| {
            token_made::choices(visit, records).shows_more(visit.parameters)
        });
        if visit.text("do") == SHOW || shows_more {
            return Ok(Outcome::Page(markup(visit, replaced.as_ref())));
        }
        if let Some((order, minted)) = with_records(visit, records.as_ref())? {
            let said = rights_in_words(&order.scopes, &order.records, &grants(visit)?);
            return Ok(Outcome::Page(made(visit, &order, &minted, &said)));
        }
        let order = order(visit, replaced.as_ref())?;
        // The end of the old token was compared at this time.
        let now = UNIX_EPOCH + Duration::from_secs(visit.now.unsigned_abs());
        let refused = |error: MintError| PageError::Refused(error.to_string());
        let minted = visit.once(|| server.minter().mint(&order, now).map_err(refused))?;
        if let Some(Replaced { token, .. }) = replaced {
            match server.tokens().revoke(&token.jti, server.now()) {
                Ok(_) | Err(StateError::UnknownToken { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let said = rights_in_words(&order.scopes, &order.records, &grants(visit)?);
        Ok(Outcome::Page(made(visit, &order, &minted, &said)))
    })
}

/// Makes a grant on records and a token for it, if the form of a token chooses records.
fn with_records(
    visit: &Visit<'_>,
    records: Option<&OwnedRecords>,
) -> Result<Option<(MintRequest, MintedToken)>, PageError> {
    let Some(records) = records else { return Ok(None) };
    let chosen = token_made::choices(visit, records).chosen(visit.parameters);
    let chosen = chosen.map_err(|error| PageError::Refused(error.to_string()))?;
    if chosen.is_empty() {
        return Ok(None);
    }
    let scopes = match visit.text("verb") {
        NO_FILES => Scopes::none(),
        _ => scopes(visit)?,
    };
    let order = (name_of_client(visit)?, scopes);
    visit.once(|| token_made::grant(visit, records, order)).map(Some)
}

/// Reads the name of the client that a token is for.
fn name_of_client<'a>(visit: &Visit<'a>) -> Result<&'a str, PageError> {
    let name = visit.text("name").trim();
    let why = "A token needs the name of the client that it is for.";
    Some(name).filter(|name| !name.is_empty()).ok_or_else(|| PageError::Refused(why.to_owned()))
}

/// Makes a token that imports into one stream of the person's records for an hour, and shows it
/// once.
pub fn make_import_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        visit.owner_space()?;
        visit.records().ok_or(PageError::Absent("There are no records here."))?;
        let name = |field: &str, what: &str| {
            SourceName::parse(visit.text(field).trim()).map_err(|bad| {
                PageError::Refused(format!("“{what}” is written in another way: {bad}."))
            })
        };
        let import = ImportClaim {
            connection: name("connection", "Where the records come from")?,
            stream: name("stream", "What they are")?,
        };
        let order = MintRequest {
            subject: visit.session.subject.clone(),
            scopes: Scopes::none(),
            client: Some(format!("import into {} of {}", import.stream, import.connection)),
            records: RecordsClaim::Import(Arc::new(import.clone())),
            life: IMPORT_LIFE,
        };
        let refused = |error: MintError| PageError::Refused(error.to_string());
        let mint = || server.minter().mint(&order, (server.settings.clock)()).map_err(refused);
        let minted = visit.once(mint)?;
        Ok(Outcome::Page(made_for_import(visit, &import, &minted)))
    })
}

/// Reads what the form orders. What it leaves out is the least. A token in the place of another
/// one is for the same user, says the same about records, and is never more.
fn order(visit: &Visit<'_>, replaced: Option<&Replaced>) -> Result<MintRequest, PageError> {
    let client = Some(name_of_client(visit)?.to_owned());
    let Some(old) = replaced else {
        let (subject, records) = (visit.session.subject.clone(), RecordsClaim::None);
        return Ok(MintRequest {
            subject,
            scopes: scopes(visit)?,
            client,
            records,
            life: life(visit),
        });
    };
    Ok(MintRequest {
        subject: old.token.subject.clone(),
        scopes: left_scopes(visit, old)?,
        client,
        records: old.token.records_claim(),
        life: left_life(visit, old)?,
    })
}

/// Reads what a form allows: a verb in a folder, and a path that stays shut.
fn scopes(visit: &Visit<'_>) -> Result<Scopes, PageError> {
    if visit.text("verb") == NO_FILES {
        let why = "A token that may do nothing with files needs some records. No token was made.";
        return Err(PageError::Refused(why.to_owned()));
    }
    let (verb, folder) = right(visit)?;
    let allowed = scope(&format!("{}:{}/", verb.word(), folder.as_str().trim_end_matches('/')))?;
    Ok([allowed].into_iter().chain(never(visit)?).collect())
}

/// Reads what a form leaves of the scopes of a token.
fn left_scopes(visit: &Visit<'_>, old: &Replaced) -> Result<Scopes, PageError> {
    let refuse = |why: &str| PageError::Refused(why.to_owned());
    if old.first().is_none() {
        return Err(refuse(WITHOUT_FILES));
    }
    let (verb, folder) = right(visit)?;
    let is_kept = |(number, scope): &(usize, &Scope)| {
        visit.text(&format!("{KEPT_FIELD}{number}")) == scope.to_string()
    };
    let kept = old.others().enumerate().filter(is_kept).map(|(_, scope)| scope.clone());
    let left = LeftRights { verb, folder: &folder, kept: kept.collect(), never: never(visit)? };
    in_place_of(&old.scopes, &left).ok_or_else(|| refuse(WIDER))
}

/// Reads how long a token in the place of another one is valid: not beyond the end of that.
fn left_life(visit: &Visit<'_>, old: &Replaced) -> Result<Duration, PageError> {
    let rest = old.rest(visit.now);
    match visit.text("duration") {
        "" | UNTIL_ITS_END => Ok(provided(visit, rest)),
        _ => {
            let wanted = Some(life(visit)).filter(|life| *life <= rest);
            wanted.ok_or_else(|| PageError::Refused(WIDER.to_owned()))
        }
    }
}

/// Reads the verb and the folder of a form. A folder that was typed is the one that is meant.
fn right(visit: &Visit<'_>) -> Result<(Verb, SpacePath), PageError> {
    let verb = VERBS.iter().find(|(verb, _)| verb.word() == visit.text("verb"));
    let folder = match visit.text(TYPED_FOLDER).trim() {
        "" => SpacePath::parse(visit.parameters.get("folder").unwrap_or("/")).ok(),
        "/" => Some(SpacePath::root()),
        typed => typed_path(typed),
    };
    let why = "The folder cannot be read. A path has the names of the folders that lead to it, as \
               in /work/plans.";
    let folder = folder.ok_or_else(|| PageError::Refused(why.to_owned()))?;
    Ok((verb.map_or(Verb::Read, |it| it.0), folder))
}

/// Reads the paths of a form that stay shut, one on each line. Several on one line would be one
/// path that nobody means.
fn never(visit: &Visit<'_>) -> Result<Vec<Scope>, PageError> {
    let lines = visit.text("never").lines().map(str::trim).filter(|path| !path.is_empty());
    let are_several =
        |line: &str| line.split(',').skip(1).any(|after| after.trim_start().starts_with('/'));
    let path = |line: &str| match are_several(line) {
        true => {
            let why = "Write each path that the client shall never touch on a line of its own.";
            Err(PageError::Refused(why.to_owned()))
        }
        false => scope(&format!("deny:{line}")),
    };
    lines.map(path).collect()
}

fn scope(text: &str) -> Result<Scope, PageError> {
    Scope::parse_raw(text).map_err(|error| PageError::Refused(format!("`{text}`: {error}")))
}

fn markup(visit: &Visit<'_>, replaced: Option<&Replaced>) -> Markup {
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
                code { "--write" } " it shows the entry, to paste it by hand."
            }
            (command_form(visit))
        }
        section class="card" aria-labelledby="token" {
            h2 id="token" { "Anything else: a token" }
            p { "Whoever has the token may do what it says. It is shown once." }
            @match replaced {
                Some(old) if old.first().is_none() => { (narrowed_elsewhere(visit, old)) }
                _ => { (token_form(visit, replaced)) }
            }
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
            form class="filter words" method="post" action=(MAKE_IMPORT_TOKEN_PATH) {
                (visit.csrf_field())
                (Visit::once_field())
                (field("connection", "Where the records come from, as in gmail-work"))
                (field("stream", "What they are, as in messages"))
                div class="actions whole" { button { "Make the token for an import" } }
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
            " of " bdi { (import.connection.as_str()) } " until "
            (moment(visit.now, instant(minted.expires))) ", and may do nothing else."
        }
        label for="made-token" { "The token" }
        textarea id="made-token" readonly rows="4" { (minted.token) }
        label for="made-block" { "Or a command that sends a file with one JSON object on each line" }
        textarea id="made-block" readonly rows="8" { (command) }
        p { a href=(ACCESS_PATH) { "Who may do what" } }
    }
}

/// Returns the form with which the owner chooses a client, a folder and a right, and the command
/// that it chose.
fn command_form(visit: &Visit<'_>) -> Markup {
    let known = &visit.server.settings.connectable;
    let chosen = known.iter().find(|(name, _)| *name == visit.text("connects"));
    html! {
        form class="filter words" method="get" action={ (CONNECT_PATH) "#command" } {
            div {
                label for="connects" { "Client" }
                select id="connects" name="connects" {
                    @for (name, title) in known {
                        option value=(name) selected[chosen.is_some_and(|it| it.0 == *name)] {
                            (title)
                        }
                    }
                }
            }
            (rights_fields(visit, "c-", None))
            div class="actions" { button class="plain" { "Show the command" } }
        }
        @match (chosen, scopes(visit)) {
            (None, _) => {}
            (Some(_), Err(error)) => p class="warning" role="alert" { (reason(&error)) },
            (Some((name, _)), Ok(scopes)) => {
                p { "Run this in a terminal of the computer where the client and Stile are:" }
                p class="copy" { code { (connect_command(name, &scopes)) } }
            }
        }
    }
}

fn reason(error: &PageError) -> &str {
    match error {
        PageError::Refused(why) => why,
        _ => "The choice cannot be read.",
    }
}

/// Returns the command that connects a client with rights, as a person pastes it.
fn connect_command(client: &str, scopes: &Scopes) -> String {
    let scopes = scopes.iter().map(|scope| {
        let raw = scope.to_raw();
        match raw.split_once("deny:") {
            Some(("", path)) => format!(" --deny {}", quoted(path)),
            _ => format!(" --scope {}", quoted(&raw)),
        }
    });
    format!("stile connect {client}{} --write", scopes.collect::<String>())
}

/// Returns the fields of a form that say what a client may do, where, and where not: of a token in
/// the place of another one, what that may do. The identifiers begin with `prefix`.
fn rights_fields(visit: &Visit<'_>, prefix: &str, old: Option<&Replaced>) -> Markup {
    let first = old.and_then(Replaced::first);
    let [verb, folder, never] = ["verb", "folder", "never"].map(|name| visit.text(name));
    let verb = first.map_or(verb, |first| first.verb().word());
    let folder = first.map_or(folder, |first| first.path().as_str());
    let folders = folders(visit, old);
    let typed = visit.text(TYPED_FOLDER);
    let is_offered = |verb: Verb| old.is_none_or(|old| folders.iter().any(|it| old.has(verb, it)));
    // The form of a command is about files alone.
    let can_be_without = prefix.is_empty() && old.is_none() && visit.records().is_some();
    let verb = if verb.is_empty() { Verb::Read.word() } else { verb };
    let mut room = Room::of(FOLDER_BYTES);
    let option = |known: &SpacePath| {
        html! {
            option value=(known) selected[known.as_str() == folder] {
                @if known.is_root() { "all files" } @else { (shown_ends(known.as_str(), 80)) }
            }
        }
    };
    let fitted = room.fit(&folders, MAX_FOLDERS, option).shown;
    let mut listed: Vec<&SpacePath> = folders.iter().take(fitted).collect();
    // The folder that was chosen is in the list, whatever has room.
    listed.extend(folders.iter().skip(fitted).find(|known| known.as_str() == folder));
    listed.sort_by(|one, other| one.components().cmp(other.components()));
    html! {
        div {
            label for={ (prefix) "verb" } { "It may" }
            select id={ (prefix) "verb" } name="verb" {
                @if can_be_without {
                    option value=(NO_FILES) selected[verb == NO_FILES] { "do nothing with files" }
                }
                @for (known, words) in VERBS {
                    @if is_offered(known) {
                        option value=(known.word()) selected[known.word() == verb] { (words) }
                    }
                }
            }
        }
        div {
            label for={ (prefix) "folder" } { "In" }
            select id={ (prefix) "folder" } name="folder" {
                @for known in &listed { (option(known)) }
            }
        }
        div {
            label for={ (prefix) (TYPED_FOLDER) } { "Or in another folder (optional)" }
            input id={ (prefix) (TYPED_FOLDER) } name=(TYPED_FOLDER) maxlength="1024" value=(typed)
                placeholder="/work/plans" autocomplete="off" autocapitalize="off"
                spellcheck="false";
        }
        div {
            label for={ (prefix) "never" } { "But never (optional, a path on each line)" }
            textarea id={ (prefix) "never" } name="never" maxlength="4096" rows="2"
                placeholder="/work/secrets" autocapitalize="off" spellcheck="false" { (never) }
        }
    }
}

/// Returns the folders that a form offers, the most important first: two levels below all files, or
/// below the folder of the token in whose place another one shall stand.
fn folders(visit: &Visit<'_>, old: Option<&Replaced>) -> Vec<SpacePath> {
    let of_person = (&visit.server.settings.folders, visit.session.subject.as_str());
    let first = old.and_then(Replaced::first).map(|first| first.path().clone());
    let top = first.unwrap_or_else(SpacePath::root);
    let inner = two_levels(top.as_str(), |folder| below(of_person, folder));
    let mut folders: Vec<SpacePath> = std::iter::once(top).chain(inner).collect();
    if let Some(old) = old {
        folders.retain(|folder| VERBS.iter().any(|(verb, _)| old.has(*verb, folder)));
    }
    folders.truncate(MAX_FOLDERS);
    folders
}

/// Says where a token that may do nothing with files is narrowed.
fn narrowed_elsewhere(visit: &Visit<'_>, old: &Replaced) -> Markup {
    let name = old.token.client.as_deref().unwrap_or(&old.token.subject);
    html! {
        p class="notice" {
            "The token of " bdi { (shown_ends(name, 80)) } " may do nothing with files. "
            @if old.token.kind == TokenKind::Import {
                "It imports into one stream, and cannot be narrower."
            } @else {
                "A new grant says what a client sees of your records, and comes with a token."
            }
        }
        p class="links" {
            @if old.token.kind != TokenKind::Import && visit.records().is_some() {
                a class="button" href=(GRANT_PATH) { "Make a grant" }
            }
            a href=(ACCESS_PATH) { "Back to the clients" }
        }
    }
}

fn token_form(visit: &Visit<'_>, replaced: Option<&Replaced>) -> Markup {
    let token = replaced.map(|old| &old.token);
    let name =
        token.map_or(visit.text("name"), |token| token.client.as_deref().unwrap_or(&token.subject));
    let records = visit.records().filter(|_| replaced.is_none());
    let choices = records.as_ref().map(|records| token_made::choices(visit, records));
    let choices = choices.filter(|choices| !choices.is_empty());
    html! {
        @if let Some(old) = replaced {
            p class="notice" {
                "The new token takes the place of that of " bdi { (shown_ends(name, 80)) } ", which "
                (old.said)
                ". It may do the same or less, and what the old one never touches stays shut. The \
                 old one is revoked in the same step, so give the new one to the client."
            }
        }
        form method="post" action=(MAKE_TOKEN_PATH) autocomplete="off" data-follow[choices.is_some()] {
            (visit.csrf_field())
            (Visit::once_field())
            @if let Some(token) = token {
                input type="hidden" name="replaces" value=(token.jti);
            }
            div class="filter words" {
                div {
                    label for="name" { "Name of the client" }
                    input id="name" name="name" required maxlength="200" autocomplete="off"
                        value=(name);
                }
                (rights_fields(visit, "", replaced))
                div { (duration_field(visit, replaced)) }
            }
            @if let Some(choices) = &choices {
                h3 { "Records that it may see (optional)" }
                (choices.form(Some(visit.parameters)).markup(RECORD_BYTES))
            }
            @if let Some(old) = replaced { (kept_fields(old)) }
            div class="actions" {
                button name="do" value="make" {
                    @if replaced.is_some() { "Make the token, and revoke the old one" }
                    @else { "Make the token" }
                }
                @if choices.is_some() {
                    button class="plain" name="do" value=(SHOW) formnovalidate {
                        "Show what it will see"
                    }
                }
            }
        }
    }
}

/// Returns the field for the duration: of a token in the place of another one, up to its end.
fn duration_field(visit: &Visit<'_>, replaced: Option<&Replaced>) -> Markup {
    let Some(old) = replaced else { return duration_select(visit) };
    let rest = old.rest(visit.now).as_secs();
    html! {
        label for="duration" { "For" }
        select id="duration" name="duration" {
            option value=(UNTIL_ITS_END) selected { "as long as the old one" }
            @for (value, words, seconds) in DURATIONS {
                @if seconds.unsigned_abs() < rest { option value=(value) { (words) } }
            }
        }
        p class="muted" {
            "The old one ends " (moment(visit.now, instant(old.token.expires))) "."
        }
    }
}

/// Returns the fields for the rights that a token in the place of another one may keep as they are.
fn kept_fields(old: &Replaced) -> Markup {
    html! {
        @for (number, scope) in old.others().enumerate() {
            label {
                input type="checkbox" name={ (KEPT_FIELD) (number) } value=(scope) checked;
                span { "It may also " (sentence(scope)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_the_rights_that_were_chosen_and_each_is_one_word() {
        let of = |claim: &str| connect_command("cursor", &Scopes::from_claim(claim));
        assert_eq!(of("read:/notes/"), "stile connect cursor --scope read:/notes/ --write");
        assert_eq!(
            of("write:/my%20notes/ deny:/my%20notes/%27x"),
            r"stile connect cursor --scope 'write:/my notes/' --deny '/my notes/'\''x' --write"
        );
    }
}
