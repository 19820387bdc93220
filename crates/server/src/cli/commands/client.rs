//! `stile client`: lists, shows, adds and ends the clients that the owner let in.

mod client_names;
mod live_grants;
mod token_clients;

use std::collections::{BTreeSet, HashSet};
use std::io::Write as _;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::client_name::is_reserved;
use stile_domain::shell_word::quoted;
use stile_domain::shortened_id::{full as full_id, shortened};
use stile_domain::sign_in::client_metadata::ClientName;
use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_domain::unseen::shown;
use stile_store::state::{
    AfterEnd, AuthorizationRecord, ClientKind, ClientRecord, StdioAccess, TokenKind, TokenRecord,
    TokenStore,
};

use crate::auth::last_uses;
use crate::cli::compose::{Home, Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, text, texts};
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::table::{cell, table};
use crate::cli::terminal::unix_time::rfc3339;
use crate::cli::terminal::{self, Colours};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;
use client_names::{Named, id_of_name};
use live_grants::{Grants, allow_something};
use token_clients::{TokenClients, to_the_minute};

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let home = Home::open(&settings(matches, environment)?.config)?;
    let answered = |home: &Home| {
        let mut answer = Vec::new();
        answer_command(name, (matches, environment), home, (&mut answer, colours))?;
        Ok(answer)
    };
    let answer = match name {
        "list" | "show" | "end" => home.with_reserve(answered)?,
        _ => answered(&home)?,
    };
    Ok(output.write_all(&answer)?)
}

fn answer_command(
    name: &str,
    (matches, environment): (&ArgMatches, Environment<'_>),
    home: &Home,
    (output, colours): (&mut Vec<u8>, Colours),
) -> Result<(), Failure> {
    let tokens = home.tokens()?;
    let now = unix_seconds(wall_clock());
    match name {
        "list" => {
            let grants = Grants::of(home, environment)?;
            let mut all = known(&tokens, &grants)?;
            let mut local = TokenClients::of(&tokens, &grants, now)?;
            if let Some(subject) = home.subject()? {
                all.retain_mut(|known| known.leave_only(&subject));
                local.leave_only(&subject);
            }
            local.leave_out_unused(now);
            if matches.get_flag("json") {
                let all = all.iter().map(|known| known.to_json(now)).chain(local.to_json(now));
                return Ok(terminal::write_json(output, &Value::from_iter(all))?);
            }
            let is_empty = all.is_empty() && local.rows(now).next().is_none();
            let table = client_table(&all, &local, now, colours);
            Ok(output.write_all(terminal::list(table, is_empty, NO_CLIENT)?.as_bytes())?)
        }
        "show" => {
            let id = text(matches, "id").unwrap_or_default();
            let grants = Grants::of(home, environment)?;
            let mut all = known(&tokens, &grants)?;
            if let Some(subject) = home.subject()? {
                all.retain_mut(|known| known.leave_only(&subject));
            }
            let local = TokenClients::of(&tokens, &grants, now)?;
            let clients = all.iter().map(|known| known.named(now));
            let named: Vec<Named<'_>> = clients.chain(local.named(now)).collect();
            let id = full_id(&id_of_name(id, &named)?, named.iter().map(|named| named.id))?;
            let found = match all.into_iter().find(|known| known.client.id == id) {
                Some(found) => found.to_json(now),
                None => local.find(&id, now).ok_or_else(|| unknown(&id))?,
            };
            Ok(terminal::write_json(output, &found)?)
        }
        "add" => {
            let client = new_client(matches, now)?;
            tokens.store_client(&client)?;
            Ok(writeln!(output, "{}", client.id)?)
        }
        "end" => {
            let grants = Grants::of(home, environment)?;
            let ended = end((matches, environment), home, (&tokens, &grants), now)?;
            Ok(writeln!(output, "{ended}")?)
        }
        "allow" => {
            let allowed = allow((matches, environment), home, &tokens, now)?;
            Ok(writeln!(output, "{allowed}")?)
        }
        _ => Ok(()),
    }
}

/// What is said where no client is known, and what lets one in.
const NO_CLIENT: &str = "There is no client yet. One that can sign in asks you on your page; `stile \
    connect CLIENT --write` connects one of this machine, and `stile token --scope read:/` makes a \
    token for any other.";

/// Lets a client in again that starts `stile stdio` and has ended. Returns what was done, as a
/// sentence.
fn allow(
    (matches, environment): (&ArgMatches, Environment<'_>),
    home: &Home,
    tokens: &TokenStore,
    now: i64,
) -> Result<String, Failure> {
    let grants = Grants::of(home, environment)?;
    let mut all = known(tokens, &grants)?;
    let mut local = TokenClients::of(tokens, &grants, now)?;
    if let Some(subject) = home.subject()? {
        all.retain_mut(|known| known.leave_only(&subject));
        local.leave_only(&subject);
    }
    let named: Vec<Named<'_>> =
        all.iter().map(|known| known.named(now)).chain(local.named(now)).collect();
    let typed = text(matches, "id").unwrap_or_default();
    let id = full_id(&id_of_name(typed, &named)?, named.iter().map(|named| named.id))?;
    let client = named.iter().find(|named| named.id == id).ok_or_else(|| unknown(&id))?;
    let name = shown(client.name);
    let record = tokens.find(&id)?.filter(|record| local.records().any(|it| it.jti == record.jti));
    match record {
        Some(record) if record.kind == TokenKind::Stdio => {
            let jti = uuid::Uuid::new_v4().to_string();
            let wanted = TokenRecord { jti, issued: now, revoked: None, ..record.clone() };
            let access = tokens.admit_stdio_client(&wanted, AfterEnd::StaysOut)?;
            if matches!(access, StdioAccess::Allowed(_)) {
                return Ok(format!("{name} is let in already"));
            }
            tokens.admit_stdio_client(&wanted, AfterEnd::IsLetIn)?;
            Ok(format!(
                "{name} is let in again, with the rights in its own settings; it may have to be \
                 started anew"
            ))
        }
        Some(_) => Err(Failure::Usage(format!(
            "a token that ended does not come back, so nothing was changed; `stile token --client \
             {}` makes {name} another one",
            quoted(client.name)
        ))),
        None => Err(Failure::Usage(format!(
            "{name} asks you in the browser, so nothing was changed: let it sign in again"
        ))),
    }
}

/// A client with what the owner approved for it.
struct ApprovedClient {
    client: ClientRecord,
    authorizations: Vec<AuthorizationRecord>,
}

/// Returns the clients, with the grants that count and the last uses of what was approved.
fn known(tokens: &TokenStore, grants: &Grants) -> Result<Vec<ApprovedClient>, Failure> {
    let mut authorizations = tokens.authorizations()?;
    let uses = last_uses(&tokens.authorizations_of_tokens()?, &tokens.uses()?);
    for authorization in &mut authorizations {
        authorization.used = uses.get(&authorization.id).copied();
        authorization.grant = grants.active(authorization.grant.take());
    }
    let clients = tokens.clients()?.into_iter().map(|client| {
        let (own, others) = std::mem::take(&mut authorizations)
            .into_iter()
            .partition(|authorization| authorization.client == client.id);
        authorizations = others;
        ApprovedClient { client, authorizations: own }
    });
    Ok(clients.collect())
}

/// Returns whether an authorization allows something. Its grant must be one that counts.
fn is_live(authorization: &AuthorizationRecord, now: i64) -> bool {
    authorization.ended.is_none()
        && now < authorization.expires
        && (authorization.grant.is_some() || allow_something(&authorization.scopes))
}

impl ApprovedClient {
    /// Leaves what one person approved; returns whether that is anything.
    fn leave_only(&mut self, subject: &str) -> bool {
        self.authorizations.retain(|authorization| authorization.subject == subject);
        !self.authorizations.is_empty()
    }

    fn live(&self, now: i64) -> impl Iterator<Item = &AuthorizationRecord> {
        self.authorizations.iter().filter(move |authorization| is_live(authorization, now))
    }

    fn named(&self, now: i64) -> Named<'_> {
        let is_live = self.live(now).next().is_some();
        Named { id: &self.client.id, name: &self.client.name, is_live }
    }

    fn last_use(&self) -> Option<i64> {
        self.authorizations.iter().filter_map(|authorization| authorization.used).max()
    }

    fn state(&self, now: i64) -> &'static str {
        match self.client.ended {
            Some(_) if self.live(now).next().is_none() => "ended",
            _ if self.live(now).next().is_some() => "allowed",
            _ => "asked",
        }
    }

    fn to_json(&self, now: i64) -> Value {
        let authorizations = self.authorizations.iter().map(|authorization| {
            json!({
                "id": authorization.id,
                "user": authorization.subject,
                "scopes": authorization.scopes,
                "grant": authorization.grant,
                "single_use": authorization.single_use,
                "approved": rfc3339(authorization.created),
                "expires": rfc3339(authorization.expires),
                "last_used": authorization.used.map(rfc3339),
                "ended": authorization.ended.map(rfc3339),
                "state": if is_live(authorization, now) { "live" } else { "ended" },
            })
        });
        json!({
            "client_id": self.client.id,
            "name": self.client.name,
            "kind": self.client.kind.word(),
            "redirect_uris": self.client.redirects,
            "known_since": rfc3339(self.client.created),
            "ended": self.client.ended.map(rfc3339),
            "state": self.state(now),
            "authorizations": authorizations.collect::<Vec<_>>(),
        })
    }
}

fn client_table(
    all: &[ApprovedClient],
    local: &TokenClients,
    now: i64,
    colours: Colours,
) -> String {
    let headings = ["CLIENT", "NAME", "KIND", "STATE", "LAST USE (UTC)", "ALLOWED"];
    let (ended, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|known| known.state(now) == "ended");
    // What has ended stands last: it asks the owner again before it may do anything.
    let rows = others.into_iter().chain(ended).map(|known| {
        // A client that asked again for what it has has two approvals of the same.
        let allowed = known.live(now).map(|live| {
            let allowed = [live.scopes.as_str(), live.grant.as_deref().unwrap_or("")].join(" ");
            allowed.trim().to_owned()
        });
        let allowed: BTreeSet<String> = allowed.collect();
        let allowed: Vec<String> = allowed.into_iter().collect();
        [
            shortened(&known.client.id).into_owned(),
            cell(Some(&known.client.name)),
            known.client.kind.word().to_owned(),
            known.state(now).to_owned(),
            to_the_minute(known.last_use()),
            allowed.join("; "),
        ]
    });
    table(colours, headings, rows.chain(local.rows(now)))
}

fn unknown(id: &str) -> Failure {
    Failure::Usage(format!(
        "there is no client `{}`; `stile client list` shows all",
        id.escape_debug()
    ))
}

fn new_client(matches: &ArgMatches, now: i64) -> Result<ClientRecord, Failure> {
    let name = text(matches, "name").unwrap_or_default();
    let name = ClientName::clean(name)
        .ok_or_else(|| Failure::Usage("--name: the name has nothing that can be seen".into()))?;
    flags::access::check_client_name(name.as_str(), "no client was added")?;
    if is_reserved(name.as_str()) {
        let why = "--name: this program keeps that name for itself; no client was added";
        return Err(Failure::Usage(why.into()));
    }
    let redirects = texts(matches, "redirect");
    for redirect in &redirects {
        RedirectUri::parse_of_owner(redirect).map_err(|bad| {
            Failure::Usage(format!("--redirect: `{}`: {bad}", redirect.escape_debug()))
        })?;
    }
    Ok(ClientRecord {
        id: uuid::Uuid::new_v4().to_string(),
        kind: ClientKind::Added,
        name: name.as_str().to_owned(),
        redirects,
        created: now,
        used: None,
        ended: None,
    })
}

/// Says what was approved and ends now, as the rest of a sentence.
fn allowed(approvals: &[&AuthorizationRecord]) -> String {
    let allowed: Vec<String> = approvals
        .iter()
        .map(|approval| {
            let grant = approval.grant.as_ref().map(|grant| format!("the grant {grant}"));
            let scopes = Some(approval.scopes.clone()).filter(|scopes| !scopes.is_empty());
            scopes.into_iter().chain(grant).collect::<Vec<_>>().join(" and ")
        })
        .collect();
    match allowed.as_slice() {
        [] => String::new(),
        allowed => format!(", with what you allowed: {}", allowed.join("; ")),
    }
}

/// What ends with a client.
struct Ending<'a> {
    approvals: Vec<&'a AuthorizationRecord>,
    /// The records of clients that hold a token or start `stile stdio`.
    records: Vec<&'a TokenRecord>,
    /// The live tokens that were issued under the approvals, and those of the records.
    tokens: usize,
    sessions: usize,
}

impl<'a> Ending<'a> {
    /// Counts what ends with approvals and records.
    fn of(
        tokens: &TokenStore,
        approvals: Vec<&'a AuthorizationRecord>,
        records: Vec<&'a TokenRecord>,
        now: i64,
    ) -> Result<Self, Failure> {
        let of_tokens = tokens.authorizations_of_tokens()?;
        let is_live = |token: &TokenRecord| token.revoked.is_none() && now < token.expires;
        let is_issued = |token: &TokenRecord| {
            let approval = of_tokens.get(&token.jti);
            approval.is_some_and(|id| approvals.iter().any(|ended| ended.id == *id))
        };
        let issued = tokens
            .list_live(now)?
            .iter()
            .filter(|token| is_live(token) && is_issued(token))
            .count();
        let held = |record: &&&TokenRecord| record.kind != TokenKind::Stdio && is_live(record);
        let held = records.iter().filter(held).count();
        let origins = approvals.iter().map(|approval| approval.id.as_str());
        let origins: HashSet<&str> =
            origins.chain(records.iter().map(|record| record.jti.as_str())).collect();
        let open = tokens.client_sessions(now)?;
        let sessions = open.iter().filter(|open| origins.contains(open.origin.as_str())).count();
        Ok(Self { approvals, records, tokens: issued + held, sessions })
    }

    /// Says what ended, as the rest of a sentence that begins with who.
    fn said(&self) -> String {
        let counted = [
            (self.approvals.len(), "approval"),
            (self.tokens, "token"),
            (self.sessions, "session"),
        ];
        let counted = counted.iter().filter(|(count, _)| *count > 0);
        let counted: Vec<String> = counted
            .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        let counted = match counted.as_slice() {
            [] => String::new(),
            counted => format!(" (ended: {})", counted.join(", ")),
        };
        format!("{}{counted}", allowed(&self.approvals))
    }
}

/// What holds of everything that ended.
const REFUSED: &str = "every server refuses its tokens from the next request on";

/// Says how a client comes back that has ended.
fn way_back(record: Option<&TokenRecord>) -> &'static str {
    match record.map(|record| record.kind) {
        None => "Its registration stays: it may ask you again",
        Some(TokenKind::Stdio) => "`stile client allow` lets it in again",
        Some(_) => "A new token of `stile token` lets it in again",
    }
}

/// Ends a client, one of its authorizations, or all. Revokes the grants that were made for them.
/// Returns what ended, in sentences.
fn end(
    (matches, environment): (&ArgMatches, Environment<'_>),
    home: &Home,
    (tokens, grants): (&TokenStore, &Grants),
    now: i64,
) -> Result<String, Failure> {
    let person = home.subject()?;
    let clients = known(tokens, grants)?;
    let mut local = TokenClients::of(tokens, grants, now)?;
    let mut authorizations = tokens.authorizations()?;
    if let Some(person) = &person {
        local.leave_only(person);
        authorizations.retain(|found| found.subject == *person);
    }
    let named = clients.iter().map(|known| known.named(now)).chain(local.named(now));
    let named: Vec<Named<'_>> = named.collect();
    let ids = named.iter().map(|named| named.id);
    let ids = ids.chain(authorizations.iter().map(|found| found.id.as_str()));
    let id = match text(matches, "id") {
        Some(id) => Some(full_id(&id_of_name(id, &named)?, ids.clone())?),
        None => None,
    };
    let id = id.as_deref();
    let is_meant = |authorization: &AuthorizationRecord| {
        id.is_none_or(|id| authorization.client == id || authorization.id == id)
    };
    let approvals = authorizations.iter().filter(|found| found.ended.is_none() && is_meant(found));
    let records = local.records().filter(|record| id.is_none_or(|id| record.jti == id));
    let ending = Ending::of(tokens, approvals.collect(), records.collect(), now)?;
    let ends_nothing = ending.approvals.is_empty() && ending.records.is_empty();
    if let Some(id) = id
        && (!ids.clone().any(|known| known == id) || (person.is_some() && ends_nothing))
    {
        return Err(unknown(id));
    }
    for approval in &ending.approvals {
        tokens.end_authorization(&approval.id, now)?;
    }
    // The client may have been let in by others too, whose approvals stay.
    let ended = clients.iter().filter(|known| id.is_none_or(|id| known.client.id == id));
    let ended: Vec<&ApprovedClient> = ended.filter(|_| person.is_none()).collect();
    for known in &ended {
        tokens.end_client(&known.client.id, now)?;
    }
    for record in &ending.records {
        tokens.revoke(&record.jti, now)?;
    }
    revoke_grants(&ending.approvals, home, environment)?;
    let what = ending.said();
    let Some(id) = id else {
        let count = ended.len().max(ending.approvals.len()) + ending.records.len();
        return Ok(format!("all {count} clients have ended{what}; {REFUSED}"));
    };
    let client = named.iter().find(|named| named.id == id);
    let who = client.map_or_else(|| id.to_owned(), |named| format!("{} ({id})", named.name));
    let back = client.map(|_| format!(". {}", way_back(ending.records.first().copied())));
    Ok(format!("{} has ended{what}; {REFUSED}{}", shown(&who), back.unwrap_or_default()))
}

/// Revokes the grants that were made for approvals which have ended.
fn revoke_grants(
    approvals: &[&AuthorizationRecord],
    home: &Home,
    environment: Environment<'_>,
) -> Result<(), Failure> {
    let has_people = home.has_people()?;
    for found in approvals {
        let Some(grant) = &found.grant else { continue };
        let whose = home.clone().about(has_people.then_some(found.subject.as_str()));
        let records = whose.records(crate::clock::now())?;
        let Owner { services, caller, now } = owner::of_records(records, environment);
        services.revoke_grant(&caller, grant, now)?;
    }
    Ok(())
}
