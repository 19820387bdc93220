//! The clients that hold a token of `stile token` or `stile serve`, or that start `stile stdio`.
//!
//! Such a client asked for nothing: the owner pasted its token, or wrote its entry. It has the name
//! that the owner gave it; or else the name that it gave itself when it opened a session, which
//! says so; or else the name of the user.

use std::collections::HashMap;

use serde_json::{Value, json};
use stile_domain::scope::Scopes;
use stile_domain::sign_in::asked_access::rights;
use stile_domain::sign_in::client_metadata::name_of_itself;
use stile_store::state::{StdioStartRights, TokenKind, TokenRecord, TokenStore};

use super::client_names::Named;
use super::live_grants::{Grants, allow_something};
use crate::cli::failure::Failure;
use crate::cli::terminal::table::cell;
use crate::cli::terminal::unix_time::{minute, rfc3339};

/// The clients, with when each was last used.
pub(super) struct TokenClients {
    records: Vec<TokenRecord>,
    uses: HashMap<String, i64>,
    /// What other processes of a client may do that it started within a day, by its `jti`.
    earlier: HashMap<String, Vec<StdioStartRights>>,
}

impl TokenClients {
    /// Returns the clients, with the grants that count.
    pub(super) fn of(tokens: &TokenStore, grants: &Grants, now: i64) -> Result<Self, Failure> {
        let of_approvals = tokens.authorizations_of_tokens()?;
        let own_names = tokens.self_given_names(now)?;
        let mut records = tokens.list()?;
        records.retain(|record| {
            record.kind != TokenKind::Import && !of_approvals.contains_key(&record.jti)
        });
        for record in &mut records {
            record.grant = grants.active(record.grant.take());
            let own = || own_names.get(&record.jti).and_then(|name| name_of_itself(name));
            record.client = record.client.take().or_else(own);
        }
        let earlier = tokens.earlier_stdio_rights(now)?;
        Ok(Self { records, uses: tokens.uses()?, earlier })
    }

    /// Leaves the clients of one person.
    pub(super) fn leave_only(&mut self, subject: &str) {
        self.records.retain(|record| record.subject == subject);
    }

    /// Leaves out tokens that nobody ever used and nobody can use any more.
    pub(super) fn leave_out_unused(&mut self, now: i64) {
        let uses = &self.uses;
        self.records.retain(|record| {
            let may_matter = record.kind == TokenKind::Stdio || may_act(record, now);
            may_matter || uses.contains_key(&record.jti)
        });
    }

    /// Returns the records of the tokens that were not left out.
    pub(super) fn records(&self) -> impl Iterator<Item = &TokenRecord> {
        self.records.iter()
    }

    /// Returns how a command may name each client.
    pub(super) fn named(&self, now: i64) -> impl Iterator<Item = Named<'_>> {
        self.records.iter().map(move |record| Named {
            id: &record.jti,
            name: record.client.as_deref().unwrap_or(&record.subject),
            is_live: may_act(record, now),
        })
    }

    /// Says what other processes of the client may do that it started within a day, where that is
    /// something else.
    fn other_starts(&self, record: &TokenRecord) -> Vec<Vec<String>> {
        let earlier = self.earlier.get(&record.jti).into_iter().flatten();
        let own = (&record.scopes, &record.grant, record.owner);
        let others = earlier.filter(|(scopes, grant, owner)| (scopes, grant, *owner) != own);
        let others = others.cloned().map(|(scopes, grant, owner)| {
            said(&TokenRecord { scopes, grant, owner, ..record.clone() })
        });
        others.collect()
    }

    /// Says what a client may do, in all processes that it started within a day.
    fn allowed(&self, record: &TokenRecord) -> String {
        let others = self.other_starts(record);
        let others =
            others.iter().map(|rights| format!(". Started otherwise: {}", rights.join("; ")));
        said(record).join("; ") + &others.collect::<String>()
    }

    fn last_use(&self, record: &TokenRecord) -> Option<i64> {
        self.uses.get(&record.jti).copied()
    }

    /// Returns the client with this identifier as JSON.
    pub(super) fn find(&self, id: &str, now: i64) -> Option<Value> {
        self.records.iter().find(|record| record.jti == id).map(|record| self.json_of(record, now))
    }

    fn json_of(&self, record: &TokenRecord, now: i64) -> Value {
        json!({
            "client_id": record.jti,
            "name": record.client,
            "kind": kind(record),
            "user": record.subject,
            "scopes": record.scopes,
            "grant": record.grant,
            "owner": record.owner,
            "rights": said(record),
            "rights_of_other_starts": self.other_starts(record),
            "known_since": rfc3339(record.issued),
            "last_used": self.last_use(record).map(rfc3339),
            "ended": record.revoked.map(rfc3339),
            "state": state(record, now),
        })
    }

    /// Returns all clients as JSON.
    pub(super) fn to_json(&self, now: i64) -> impl Iterator<Item = Value> {
        self.records.iter().map(move |record| self.json_of(record, now))
    }

    /// Returns the rows of the table.
    pub(super) fn rows(&self, now: i64) -> impl Iterator<Item = [String; 6]> {
        self.records.iter().map(move |record| {
            [
                record.jti.clone(),
                cell(record.client.as_deref()),
                kind(record).to_owned(),
                state(record, now).to_owned(),
                to_the_minute(self.last_use(record)),
                if may_act(record, now) { self.allowed(record) } else { String::new() },
            ]
        })
    }
}

/// Says what a client may do, in words.
fn said(record: &TokenRecord) -> Vec<String> {
    rights(&Scopes::from_claim(&record.scopes), &record.records_claim())
}

fn may_act(record: &TokenRecord, now: i64) -> bool {
    let is_of_records = record.owner || record.grant.is_some();
    let is_valid = record.revoked.is_none() && now < record.expires;
    is_valid && (is_of_records || allow_something(&record.scopes))
}

fn kind(record: &TokenRecord) -> &'static str {
    if record.kind == TokenKind::Stdio { "stdio" } else { "token" }
}

fn state(record: &TokenRecord, now: i64) -> &'static str {
    if may_act(record, now) { "allowed" } else { "ended" }
}

/// Returns a time of use to the minute, or a dash.
pub(super) fn to_the_minute(used: Option<i64>) -> String {
    used.map_or_else(|| "-".to_owned(), minute)
}
