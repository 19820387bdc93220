//! `stile client`: lists, shows, adds and ends the clients that the owner let in.

use std::collections::{HashMap, HashSet};

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::client_name::is_reserved;
use stile_domain::scope::Scopes;
use stile_domain::sign_in::asked_access::rights;
use stile_domain::sign_in::client_metadata::ClientName;
use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_domain::unseen::shown;
use stile_store::records::GrantStatus;
use stile_store::state::{
    AuthorizationRecord, ClientKind, ClientRecord, TokenKind, TokenRecord, TokenStore,
};

use crate::cli::compose::{Home, Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::{beginning, text, texts};
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::table::{cell, table};
use crate::cli::terminal::unix_time::{minute, rfc3339};
use crate::cli::terminal::{self, Colours};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let home = Home::open(&settings(matches, environment)?.config)?;
    let tokens = home.tokens()?;
    let now = unix_seconds(wall_clock());
    match name {
        "list" => {
            let grants = Grants::of(&home, environment)?;
            let (mut all, mut local) =
                (known(&tokens, &grants)?, StdioClients::of(&tokens, &grants)?);
            if let Some(subject) = home.subject()? {
                all.retain_mut(|known| known.leave_only(&subject));
                local.records.retain(|record| record.subject == subject);
            }
            if matches.get_flag("json") {
                let all = all.iter().map(|known| known.to_json(now)).chain(local.to_json());
                return Ok(terminal::write_json(output, &Value::from_iter(all))?);
            }
            Ok(output.write_all(client_table(&all, &local, now, colours).as_bytes())?)
        }
        "show" => {
            let id = text(matches, "id").unwrap_or_default();
            let grants = Grants::of(&home, environment)?;
            let mut all = known(&tokens, &grants)?;
            if let Some(subject) = home.subject()? {
                all.retain_mut(|known| known.leave_only(&subject));
            }
            let local = StdioClients::of(&tokens, &grants)?;
            let ids = all.iter().map(|known| known.client.id.as_str());
            let id = beginning::full(id, ids.chain(local.ids()))?;
            let found = match all.into_iter().find(|known| known.client.id == id) {
                Some(found) => found.to_json(now),
                None => local.find(&id).ok_or_else(|| unknown(&id))?,
            };
            Ok(terminal::write_json(output, &found)?)
        }
        "add" => {
            let client = new_client(matches, now)?;
            tokens.store_client(&client)?;
            Ok(writeln!(output, "{}", client.id)?)
        }
        "end" => {
            let grants = Grants::of(&home, environment)?;
            let ended = end((matches, environment), &home, (&tokens, &grants), now)?;
            Ok(writeln!(
                output,
                "{ended}; every server refuses its tokens from the next request on"
            )?)
        }
        _ => Ok(()),
    }
}

/// The grants on records that count now.
struct Grants {
    /// `None` where each person has grants of their own: all of them are shown.
    active: Option<HashSet<String>>,
}

impl Grants {
    fn of(home: &Home, environment: Environment<'_>) -> Result<Self, Failure> {
        if !home.has_records() {
            return Ok(Self { active: Some(HashSet::new()) });
        }
        if home.check_named().is_err() {
            return Ok(Self { active: None });
        }
        let records = home.records(crate::clock::now())?;
        let Owner { services, caller, now } = owner::of_records(records, environment);
        let all = services.grants(&caller)?.into_iter();
        let active = all.filter(|grant| grant.status(now) == GrantStatus::Active);
        Ok(Self { active: Some(active.map(|grant| grant.id).collect()) })
    }

    /// Returns the grant if it counts.
    fn active(&self, grant: Option<String>) -> Option<String> {
        grant.filter(|grant| self.active.as_ref().is_none_or(|active| active.contains(grant)))
    }
}

/// Returns whether scopes allow something with files.
fn allow_something(scopes: &str) -> bool {
    Scopes::from_claim(scopes).iter().any(|scope| scope.verb().is_right())
}

/// A client with what the owner approved for it.
struct KnownClient {
    client: ClientRecord,
    authorizations: Vec<AuthorizationRecord>,
}

/// Returns the clients, with the grants that count.
fn known(tokens: &TokenStore, grants: &Grants) -> Result<Vec<KnownClient>, Failure> {
    let mut authorizations = tokens.authorizations()?;
    for authorization in &mut authorizations {
        authorization.grant = grants.active(authorization.grant.take());
    }
    let clients = tokens.clients()?.into_iter().map(|client| {
        let (own, others) = std::mem::take(&mut authorizations)
            .into_iter()
            .partition(|authorization| authorization.client == client.id);
        authorizations = others;
        KnownClient { client, authorizations: own }
    });
    Ok(clients.collect())
}

/// Returns whether an authorization allows something. Its grant must be one that counts.
fn is_live(authorization: &AuthorizationRecord, now: i64) -> bool {
    authorization.ended.is_none()
        && now < authorization.expires
        && (authorization.grant.is_some() || allow_something(&authorization.scopes))
}

impl KnownClient {
    /// Leaves what one person approved; returns whether that is anything.
    fn leave_only(&mut self, subject: &str) -> bool {
        self.authorizations.retain(|authorization| authorization.subject == subject);
        !self.authorizations.is_empty()
    }

    fn live(&self, now: i64) -> impl Iterator<Item = &AuthorizationRecord> {
        self.authorizations.iter().filter(move |authorization| is_live(authorization, now))
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

/// The clients that start `stile stdio` on this computer, with when each was last used.
struct StdioClients {
    records: Vec<TokenRecord>,
    uses: HashMap<String, i64>,
}

impl StdioClients {
    /// Returns the clients, with the grants that count.
    fn of(tokens: &TokenStore, grants: &Grants) -> Result<Self, Failure> {
        let mut records = tokens.list()?;
        records.retain(|record| record.kind == TokenKind::Stdio);
        for record in &mut records {
            record.grant = grants.active(record.grant.take());
        }
        Ok(Self { records, uses: tokens.uses()? })
    }

    fn last_use(&self, record: &TokenRecord) -> Option<i64> {
        self.uses.get(&record.jti).copied()
    }

    /// Says what a client may do, in words.
    fn rights(record: &TokenRecord) -> Vec<String> {
        rights(&Scopes::from_claim(&record.scopes), &record.records_claim())
    }

    fn may_act(record: &TokenRecord) -> bool {
        let is_of_records = record.owner || record.grant.is_some();
        record.revoked.is_none() && (is_of_records || allow_something(&record.scopes))
    }

    fn state(record: &TokenRecord) -> &'static str {
        if Self::may_act(record) { "allowed" } else { "ended" }
    }

    fn json_of(&self, record: &TokenRecord) -> Value {
        json!({
            "client_id": record.jti,
            "name": record.client,
            "kind": "stdio",
            "user": record.subject,
            "scopes": record.scopes,
            "grant": record.grant,
            "owner": record.owner,
            "rights": Self::rights(record),
            "known_since": rfc3339(record.issued),
            "last_used": self.last_use(record).map(rfc3339),
            "ended": record.revoked.map(rfc3339),
            "state": Self::state(record),
        })
    }

    fn to_json(&self) -> impl Iterator<Item = Value> {
        self.records.iter().map(|record| self.json_of(record))
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.records.iter().map(|record| record.jti.as_str())
    }

    fn name(&self, id: &str) -> Option<&str> {
        self.records.iter().find(|record| record.jti == id)?.client.as_deref()
    }

    fn find(&self, id: &str) -> Option<Value> {
        self.records.iter().find(|record| record.jti == id).map(|record| self.json_of(record))
    }

    fn rows(&self) -> impl Iterator<Item = [String; 6]> {
        self.records.iter().map(|record| {
            [
                record.jti.clone(),
                cell(record.client.as_deref()),
                "stdio".to_owned(),
                Self::state(record).to_owned(),
                to_the_minute(self.last_use(record)),
                if Self::may_act(record) { Self::rights(record).join("; ") } else { String::new() },
            ]
        })
    }
}

/// Returns a time of use to the minute, or a dash.
fn to_the_minute(used: Option<i64>) -> String {
    used.map_or_else(|| "-".to_owned(), minute)
}

fn client_table(all: &[KnownClient], local: &StdioClients, now: i64, colours: Colours) -> String {
    let headings = ["CLIENT", "NAME", "KIND", "STATE", "LAST USE (UTC)", "ALLOWED"];
    let (ended, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|known| known.state(now) == "ended");
    // What has ended stands last: it asks the owner again before it may do anything.
    let rows = others.into_iter().chain(ended).map(|known| {
        let allowed: Vec<String> = known
            .live(now)
            .map(|live| [live.scopes.as_str(), live.grant.as_deref().unwrap_or("")].join(" "))
            .collect();
        [
            short_id(&known.client),
            cell(Some(&known.client.name)),
            known.client.kind.word().to_owned(),
            known.state(now).to_owned(),
            to_the_minute(known.last_use()),
            allowed.join("; ").trim().to_owned(),
        ]
    });
    table(colours, headings, rows.chain(local.rows()))
}

/// The length of an identifier as a list shows it, in bytes. Of a sealed identifier these name the
/// key and begin a random number, so two clients do not share them.
const SHORT_ID_BYTES: usize = 20;

/// Returns what a list shows of an identifier: a long one of a client that registered itself is
/// shortened.
fn short_id(client: &ClientRecord) -> String {
    match client.id.get(..SHORT_ID_BYTES) {
        Some(beginning) if client.kind == ClientKind::Registered && client.id.len() > 40 => {
            format!("{beginning}…")
        }
        _ => client.id.clone(),
    }
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

/// Ends a client that starts `stile stdio`; returns false if there is none with this identifier.
fn end_stdio(tokens: &TokenStore, id: &str, now: i64) -> Result<bool, Failure> {
    let record = tokens.find(id)?.filter(|record| record.kind == TokenKind::Stdio);
    record.as_ref().map(|record| tokens.revoke(&record.jti, now)).transpose()?;
    Ok(record.is_some())
}

/// Says what was approved and ends now, as the rest of a sentence.
fn ended(approvals: &[&AuthorizationRecord]) -> String {
    let allowed: Vec<String> = approvals
        .iter()
        .map(|approval| {
            let grant = approval.grant.as_ref().map(|grant| format!("the grant {grant}"));
            let scopes = Some(approval.scopes.clone()).filter(|scopes| !scopes.is_empty());
            scopes.into_iter().chain(grant).collect::<Vec<_>>().join(" and ")
        })
        .collect();
    match approvals.len() {
        0 => String::new(),
        1 => format!(", with what you allowed it: {}", allowed.join("")),
        many => format!(", with {many} approvals: {}", allowed.join("; ")),
    }
}

/// Ends a client, one of its authorizations, or all. Revokes the grants that were made for them.
fn end(
    (matches, environment): (&ArgMatches, Environment<'_>),
    home: &Home,
    (tokens, grants): (&TokenStore, &Grants),
    now: i64,
) -> Result<String, Failure> {
    let person = home.subject()?;
    let clients = tokens.clients()?;
    let mut local = StdioClients::of(tokens, grants)?;
    let mut authorizations = tokens.authorizations()?;
    if let Some(person) = &person {
        local.records.retain(|record| record.subject == *person);
        authorizations.retain(|found| found.subject == *person);
    }
    let ids = clients.iter().map(|client| client.id.as_str()).chain(local.ids());
    let ids = ids.chain(authorizations.iter().map(|found| found.id.as_str()));
    let id = text(matches, "id").map(|id| beginning::full(id, ids)).transpose()?;
    let id = id.as_deref();
    let is_meant = |authorization: &AuthorizationRecord| {
        id.is_none_or(|id| authorization.client == id || authorization.id == id)
    };
    let meant: Vec<&AuthorizationRecord> =
        authorizations.iter().filter(|found| found.ended.is_none() && is_meant(found)).collect();
    let ended = match id {
        // The client may have been let in by others too, whose approvals stay.
        _ if person.is_some() => {
            for found in &meant {
                tokens.end_authorization(&found.id, now)?;
            }
            let stdio = local.records.iter().filter(|it| id.is_none_or(|id| it.jti == id));
            let stdio = stdio.map(|record| tokens.revoke(&record.jti, now));
            let stdio = stdio.collect::<Result<Vec<_>, _>>()?;
            match meant.len() + stdio.len() {
                0 => return Err(unknown(id.unwrap_or_default())),
                many => format!("{many} approvals have ended{}", ended(&meant)),
            }
        }
        Some(id) => {
            let is_known = tokens.end_client(id, now)?
                || tokens.end_authorization(id, now)?
                || end_stdio(tokens, id, now)?;
            if !is_known {
                return Err(unknown(id));
            }
            let named = clients.iter().find(|client| client.id == id).map(|it| it.name.as_str());
            let named = named.or_else(|| local.name(id)).map(|name| format!("{name} ({id})"));
            format!("{} has ended{}", shown(&named.unwrap_or_else(|| id.to_owned())), ended(&meant))
        }
        None => {
            for client in &clients {
                tokens.end_client(&client.id, now)?;
            }
            for record in &local.records {
                tokens.revoke(&record.jti, now)?;
            }
            let count = clients.len() + local.records.len();
            format!("all {count} clients have ended{}", ended(&meant))
        }
    };
    let has_people = home.has_people()?;
    for found in meant {
        let Some(grant) = &found.grant else { continue };
        let whose = home.clone().about(has_people.then_some(found.subject.as_str()));
        let records = whose.records(crate::clock::now())?;
        let Owner { services, caller, now } = owner::of_records(records, environment);
        services.revoke_grant(&caller, grant, now)?;
    }
    Ok(ended)
}
