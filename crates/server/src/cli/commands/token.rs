//! `stile token`: mints, lists and revokes tokens.

use std::path::PathBuf;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::client_name::in_one_alphabet;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_domain::shortened_id::full as full_id;
use stile_domain::unseen::shown;
use stile_records::grant_answers::status_name;
use stile_store::records::GrantStatus;
use stile_store::state::{KnownSpace, Revocation, TokenKind, TokenRecord, TokenStore};

use super::grant;
use crate::auth::{MintRequest, Minter};
use crate::cli::compose::{Home, found_server, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::access::{print_doubts, records_claim, scopes, with_denials};
use crate::cli::flags::{self, duration};
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::terminal::unix_time::{minute, rfc3339};
use crate::cli::terminal::{self, Colours, table};
use crate::clock::{self, unix_seconds, wall_clock};
use crate::config::declarations::ROOT;
use crate::config::{Config, Environment, Source};

/// Lists or revokes tokens, or mints one if there is no subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => {
            let list = |home: &Home| list(matches, home, colours);
            output.write_all(home(matches, environment)?.with_reserve(list)?.as_bytes())?;
        }
        Some(("revoke", matches)) => {
            let revoke = |home: &Home| revoke(matches, home);
            writeln!(output, "{}", home(matches, environment)?.with_reserve(revoke)?)?;
        }
        _ => {
            let home = home(matches, environment)?.about(flags::text(matches, "user"));
            let mut order = order(matches, environment, &home)?;
            order.records = checked(order.records, &home, environment)?;
            let (key, tokens) = (home.key()?, home.tokens()?);
            let audience = audience(matches, environment, &home, &tokens)?;
            let folder = folder_of(matches, environment, &tokens, &audience)?;
            print_doubts(&order.scopes, folder.as_deref())?;
            if folder.is_none() && !order.scopes.is_empty() {
                terminal::print_to_stderr(OF_FIRST_FOLDER)?;
            }
            if of_provider_alone(&settings(matches, environment)?.config) {
                terminal::print_to_stderr(OF_PROVIDER_ALONE)?;
            }
            let minter = Minter { key: &key, tokens: &tokens, audience: &audience };
            writeln!(output, "{}", minter.mint(&order, wall_clock())?.token)?;
        }
    }
    Ok(())
}

fn list(matches: &ArgMatches, home: &Home, colours: Colours) -> Result<String, Failure> {
    let (store, subject) = (home.tokens()?, home.subject()?);
    let now = unix_seconds(wall_clock());
    let is_json = matches.get_flag("json");
    let (mut tokens, has_more) = match is_json || matches.get_flag("all") {
        true => (store.list()?, false),
        false => live_and_last_ended(&store, subject.as_deref(), now)?,
    };
    let known = Known { spaces: store.spaces()?, given_up: store.given_up_spaces()? };
    tokens.retain(|token| subject.as_ref().is_none_or(|named| *named == token.subject));
    if is_json {
        return Ok(json_list(&tokens, &known, now));
    }
    let listed = terminal::list(table(&tokens, &known, now, colours), tokens.is_empty(), NO_TOKEN)?;
    let more =
        if has_more { "More tokens ended before these. Add --all for every one.\n" } else { "" };
    Ok(listed + more)
}

/// Revokes a token, and returns what that ended, as a sentence.
fn revoke(matches: &ArgMatches, home: &Home) -> Result<String, Failure> {
    let jti = matches.get_one::<String>("jti").map(String::as_str).unwrap_or_default();
    let now = unix_seconds(wall_clock());
    let tokens = home.tokens()?;
    let all = tokens.list_beginning(jti)?;
    let jti = &full_id(jti, all.iter().map(|token| token.jti.as_str()))?;
    let found = all.iter().find(|token| token.jti == *jti);
    let ended = match found {
        Some(token) => ended(token, &tokens.spaces()?),
        None => String::new(),
    };
    Ok(match tokens.revoke(jti, now)? {
        Revocation::Now => {
            format!("{jti} is revoked{ended}; every server refuses it from the next request on")
        }
        Revocation::Before(when) => format!("{jti} was revoked before, on {}", minute(when)),
    })
}

/// What is said where there is no token, and what makes one.
const NO_TOKEN: &str = "There is no token yet. `stile token --scope read:/` makes one, and `stile \
    connect CLIENT --write` makes one for a client.";

/// How many tokens that ended a table shows.
const ENDED_SHOWN: usize = 100;

/// Returns the tokens that count and the last ones that ended, in the order in which they were
/// minted, and whether more ended before.
fn live_and_last_ended(
    store: &TokenStore,
    subject: Option<&str>,
    now: i64,
) -> Result<(Vec<TokenRecord>, bool), Failure> {
    let mut ended = store.list_ended(now, subject, ENDED_SHOWN + 1)?;
    let has_more = ended.len() > ENDED_SHOWN;
    ended.truncate(ENDED_SHOWN);
    let mut tokens = store.list_live(now)?;
    tokens.append(&mut ended);
    tokens.sort_by(|a, b| (a.issued, &a.jti).cmp(&(b.issued, &b.jti)));
    Ok((tokens, has_more))
}

fn home(matches: &ArgMatches, environment: Environment<'_>) -> Result<Home, Failure> {
    Ok(Home::open(&settings(matches, environment)?.config)?)
}

/// Returns the `aud` of the space that a new token is for: the folder that `--root` or a setting
/// names, the one that is served now, or the only space of the state.
pub(super) fn audience(
    matches: &ArgMatches,
    environment: Environment<'_>,
    home: &Home,
    tokens: &TokenStore,
) -> Result<String, Failure> {
    let resolved = settings(matches, environment)?;
    if *resolved.source(&ROOT) != Source::Default {
        return Ok(tokens.space_of(&resolved.config.root)?.audience);
    }
    if let Some(server) = found_server::found(&resolved, home, tokens)? {
        return Ok(server.audience);
    }
    if let Some(audience) = tokens.only_space()? {
        return Ok(audience);
    }
    let known = tokens.spaces()?.into_iter().filter_map(|space| space.path);
    let known: Vec<String> = known.map(|path| format!("  --root {}", path.display())).collect();
    Err(Failure::Usage(format!(
        "a token is for one space, and several were served with this state; name one of them:\n{}",
        known.join("\n")
    )))
}

/// Returns where the folder of a space was last seen, or the one that is named; `None` if none was
/// served yet.
pub(super) fn folder_of(
    matches: &ArgMatches,
    environment: Environment<'_>,
    tokens: &TokenStore,
    audience: &str,
) -> Result<Option<PathBuf>, Failure> {
    let resolved = settings(matches, environment)?;
    if *resolved.source(&ROOT) != Source::Default {
        return Ok(Some(resolved.config.root));
    }
    let known = tokens.spaces()?.into_iter().find(|space| space.audience == audience);
    Ok(known.and_then(|space| space.path))
}

/// Returns whether the settings are those of people whom an identity provider knows, and no client
/// of the provider signs them in.
fn of_provider_alone(config: &Config) -> bool {
    (config.jwks.is_some() || config.issuer.is_some()) && config.sign_in_client.is_none()
}

/// What is said of a token that a server with an identity provider alone refuses.
const OF_PROVIDER_ALONE: &str = "warning: a server with --jwks takes this token only if it has \
    --sign-in-client too. Without that it takes tokens of the identity provider alone, and refuses \
    this one with 401";

/// What is said of a token that is made before a folder is served.
const OF_FIRST_FOLDER: &str = "note: no folder was served with this state yet, so this token opens \
    the one that is served first: `stile serve FOLDER` chooses it";

const ALLOWS_NOTHING: &str = "\
a token without a scope would allow nothing; say what it is for, as in

  stile token --scope read:/
  stile token --scope read:/ --scope write:/notes/

or for records with --owner or --grant; `stile token --help` explains all of them";

fn order(
    matches: &ArgMatches,
    environment: Environment<'_>,
    home: &Home,
) -> Result<MintRequest, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let records = records_claim(matches)?;
    let scopes = match scopes(matches)? {
        Some(scopes) => with_denials(scopes, matches)?,
        // A token for records needs no scope, because scopes are about files.
        None if records != RecordsClaim::None => Scopes::none(),
        None => return Err(Failure::Usage(ALLOWS_NOTHING.to_owned())),
    };
    let expires = text("expires").unwrap_or_default();
    let life = duration::parse(&expires).ok_or_else(|| {
        Failure::Usage(format!(
            "--expires: `{expires}` is not a duration such as 45s, 90m, 12h or 30d"
        ))
    })?;
    let subject = match text("user") {
        Some(user) if home.has_people()? => {
            // A mistyped name makes nobody.
            home.tenant()?;
            user
        }
        Some(user) => user,
        None => {
            home.check_named()?;
            home.subject()?.unwrap_or_else(|| user_name(environment))
        }
    };
    Ok(MintRequest { subject, scopes, client: text("client"), records, life })
}

/// Refuses a grant that does not exist, since a server would refuse it only when the token is used.
/// Returns the claim with the whole identifier of a grant that its beginning named.
pub(super) fn checked(
    claim: RecordsClaim,
    home: &Home,
    environment: Environment<'_>,
) -> Result<RecordsClaim, Failure> {
    let RecordsClaim::Grant(id) = &claim else { return Ok(claim) };
    let owner = owner::of_records(home.records(clock::now())?, environment);
    let found = grant::find(&owner, id)?;
    let (id, status) = (&found.id, found.status(owner.now));
    if status != GrantStatus::Active {
        terminal::print_to_stderr(&format!(
            "warning: the grant {id} is {}, so the token will be refused",
            status_name(status)
        ))?;
    }
    Ok(RecordsClaim::Grant(id.as_str().into()))
}

/// Says what a token allowed that is revoked, as the rest of a sentence.
fn ended(token: &TokenRecord, spaces: &[KnownSpace]) -> String {
    let who = token.client.as_deref().unwrap_or(&token.subject);
    let mut allowed: Vec<String> = Vec::new();
    if !token.scopes.is_empty() {
        let place = folder(token, spaces).map(|path| format!(" in {path}")).unwrap_or_default();
        allowed.push(format!("{}{place}", token.scopes));
    }
    if let Some(grant) = &token.grant {
        allowed.push(format!("the records of the grant {grant}"));
    }
    if token.owner {
        allowed.push("all records".to_owned());
    }
    shown(&format!(": it allowed {who} {}", allowed.join(" and "))).into_owned()
}

/// The spaces that tokens are for.
struct Known {
    spaces: Vec<KnownSpace>,
    /// The `aud` of each space that has no folder any more.
    given_up: Vec<String>,
}

/// Returns why a token ended that opens a space without a folder.
fn why_ended(token: &TokenRecord, given_up: &[String]) -> Option<&'static str> {
    let is_given_up = token.audience.as_ref().is_some_and(|audience| given_up.contains(audience));
    is_given_up.then_some("its folder was adopted")
}

fn state_name(token: &TokenRecord, now: i64) -> &'static str {
    match token.revoked {
        Some(_) => "revoked",
        None if token.expires <= now => "expired",
        None => "live",
    }
}

/// Returns when a token expires, in UTC seconds; `None` for one that does not.
pub(super) fn expiry(token: &TokenRecord) -> Option<i64> {
    (token.expires < TokenRecord::NEVER).then_some(token.expires)
}

/// Returns the folder that a token is for, as it was last seen; `None` for a token that opens none,
/// and for a space that was not served yet.
fn folder(token: &TokenRecord, spaces: &[KnownSpace]) -> Option<String> {
    let known = spaces.iter().find(|space| token.audience.as_ref() == Some(&space.audience))?;
    Some(known.path.as_ref()?.to_string_lossy().into_owned())
}

fn table(tokens: &[TokenRecord], known: &Known, now: i64, colours: Colours) -> String {
    let headings = [
        "JTI", "USER", "CLIENT", "STATE", "MINTED (UTC)", "EXPIRES (UTC)", "RECORDS", "SCOPES",
        "FOLDER", "BY",
    ];
    let rows = tokens.iter().map(|token| {
        [
            token.jti.clone(),
            token.subject.clone(),
            token.client.as_deref().map(|name| in_one_alphabet(name).into_owned()).unwrap_or_else(
                || if token.kind == TokenKind::Shown { "(terminal)" } else { "-" }.to_owned(),
            ),
            match why_ended(token, &known.given_up) {
                Some(why) => format!("{} ({why})", state_name(token, now)),
                None => state_name(token, now).to_owned(),
            },
            minute(token.issued),
            expiry(token).map_or_else(|| "never".to_owned(), minute),
            match (token.owner, token.kind) {
                (true, _) => "owner".to_owned(),
                (false, TokenKind::Import) => "import".to_owned(),
                (false, _) => token.grant.clone().unwrap_or_else(|| "-".to_owned()),
            },
            token.scopes.clone(),
            folder(token, &known.spaces).unwrap_or_else(|| "-".to_owned()),
            if token.kind == TokenKind::Stdio { "stdio" } else { "http" }.to_owned(),
        ]
    });
    table::table(colours, headings, rows)
}

fn json_list(tokens: &[TokenRecord], known: &Known, now: i64) -> String {
    let rows = tokens.iter().map(|token| {
        json!({
            "jti": token.jti,
            "user": token.subject,
            "client": token.client,
            "scopes": token.scopes,
            "folder": folder(token, &known.spaces),
            "shown": token.kind == TokenKind::Shown,
            "transport": if token.kind == TokenKind::Stdio { "stdio" } else { "http" },
            "grant": token.grant,
            "owner": token.owner,
            "import": token.kind == TokenKind::Import,
            "issued": rfc3339(token.issued),
            "expires": expiry(token).map(rfc3339),
            "revoked": token.revoked.map(rfc3339),
            "state": state_name(token, now),
            "why": why_ended(token, &known.given_up),
        })
    });
    terminal::json_lines(&Value::Array(rows.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<TokenRecord> {
        let token = TokenRecord {
            jti: "0c6e3a9e-6a0b-4c2e-9a55-3d8f4f1b2a01".to_owned(),
            audience: None,
            kind: TokenKind::Bearer,
            subject: "ann".to_owned(),
            client: None,
            grant: None,
            owner: false,
            scopes: "read:/ write:/my%20notes/".to_owned(),
            issued: 1_800_000_000,
            expires: 1_802_592_000,
            revoked: None,
        };
        let client = Some("editor".to_owned());
        vec![
            token.clone(),
            TokenRecord {
                jti: "t2".to_owned(),
                revoked: Some(1_800_000_100),
                client,
                ..token.clone()
            },
            TokenRecord {
                jti: "t3".to_owned(),
                subject: "Zoë".to_owned(),
                expires: 1_800_000_200,
                ..token.clone()
            },
            TokenRecord {
                jti: "t4".to_owned(),
                owner: true,
                scopes: String::new(),
                ..token.clone()
            },
            TokenRecord {
                jti: "t5".to_owned(),
                audience: Some("urn:uuid:1".to_owned()),
                grant: Some("g-1".to_owned()),
                ..token.clone()
            },
            TokenRecord {
                jti: "t6".to_owned(),
                audience: Some("urn:uuid:1".to_owned()),
                kind: TokenKind::Stdio,
                client: Some("claude-desktop".to_owned()),
                expires: TokenRecord::NEVER,
                ..token
            },
        ]
    }

    fn known() -> Known {
        let audience = "urn:uuid:1".to_owned();
        let spaces = vec![KnownSpace { audience, path: Some("/srv/notes".into()) }];
        Known { spaces, given_up: Vec::new() }
    }

    #[test]
    fn tokens_are_listed_as_a_table_and_as_json() {
        insta::assert_snapshot!(
            "token_table",
            table(&tokens(), &known(), 1_800_000_300, Colours::Plain)
        );
        insta::assert_snapshot!("token_json", json_list(&tokens(), &known(), 1_800_000_300));
        insta::assert_snapshot!("token_table_empty", table(&[], &known(), 0, Colours::Plain));
    }
}
