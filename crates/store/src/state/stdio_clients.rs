//! The clients that start `stile stdio` on this computer, and what each may do until it is ended.
//!
//! Such a client has no bearer token. Its record is among the tokens all the same
//! ([`TokenKind::Stdio`]), so that lists, revocation and the times of use are those of tokens.
//!
//! Each process has the rights of its own start, and the record those of the last one. Where two
//! processes of one name have other rights, the earlier ones are kept for a day, for lists.

use std::collections::HashMap;

use super::short_lived::{ShortLived, drop_surplus, put};
use super::state_dir::StateError;
use super::tables::{TableError, Tables, values};
use super::tokens::{COLUMNS, TokenKind, TokenRecord, TokenStore, insert_token, record};

/// The kind of the rows with the rights of earlier starts of a client.
const EARLIER: &str = "earlier rights";
/// How long these are kept, in seconds. A process may run for longer, which nobody knows.
const EARLIER_SECONDS: i64 = 24 * 60 * 60;
/// The most that are kept of one client.
const MOST_EARLIER: usize = 8;

/// The rights of a start: scopes, a grant, and whether all records are seen.
pub type StdioStartRights = (String, Option<String>, bool);

/// What happens to a client that the owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterEnd {
    /// The client stays out.
    StaysOut,
    /// The client gets a new record, because the owner connects it again.
    IsLetIn,
}

/// Whether a client may act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StdioAccess {
    /// The record of the client, with the rights that were asked for.
    Allowed(TokenRecord),
    /// The owner ended the client at this time, in UTC seconds since 1970.
    Ended(i64),
}

impl TokenStore {
    /// Returns what is recorded of the client that `wanted` names: that it was ended, or the record
    /// with the rights of `wanted`. Returns `None` if the client is new or has other rights, and
    /// records nothing.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn known_stdio_client(
        &self,
        wanted: &TokenRecord,
    ) -> Result<Option<StdioAccess>, StateError> {
        if !self.has_tables() {
            return Ok(None);
        }
        let last = self.read("look up", |tables| last_record(tables, wanted))?;
        Ok(match last {
            Some(TokenRecord { revoked: Some(when), .. }) => Some(StdioAccess::Ended(when)),
            Some(known) if has_rights_of(&known, wanted) => Some(StdioAccess::Allowed(known)),
            _ => None,
        })
    }

    /// Finds the record of the client that `wanted` names, in the space that `wanted` names, and
    /// gives it the rights of `wanted`. Records `wanted`, durably, if the client is new.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn admit_stdio_client(
        &self,
        wanted: &TokenRecord,
        after_end: AfterEnd,
    ) -> Result<StdioAccess, StateError> {
        // Most starts change nothing, and then nothing is written.
        if let Some(allowed @ StdioAccess::Allowed(_)) = self.known_stdio_client(wanted)? {
            return Ok(allowed);
        }
        self.change("record", |tables| admit(tables, wanted, after_end))
    }

    /// Returns the rights of earlier starts within a day, of clients with records by their `jti`.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn earlier_stdio_rights(
        &self,
        now: i64,
    ) -> Result<HashMap<String, Vec<StdioStartRights>>, StateError> {
        let all = "SELECT owner, value FROM short_lived WHERE kind = ?1 AND ends > ?2 \
                   ORDER BY made, key";
        let rows: Vec<(String, String)> = self.read("list the rights in", |tables| {
            tables.rows(all, values![EARLIER, now], |row| Ok((row.get(0)?, row.get(1)?)))
        })?;
        let mut rights: HashMap<String, Vec<StdioStartRights>> = HashMap::new();
        for (jti, value) in rows {
            if let Ok(start) = serde_json::from_str(&value) {
                rights.entry(jti).or_default().push(start);
            }
        }
        Ok(rights)
    }
}

/// Keeps the rights of a record that gets others, if the client was at work within a day.
fn keep_earlier(tables: Tables<'_>, known: &TokenRecord, now: i64) -> Result<(), TableError> {
    let used = "SELECT used FROM token_uses WHERE jti = ?1";
    let used: Option<i64> = tables.first(used, values![known.jti], |row| row.get(0))?;
    if used.unwrap_or(known.issued).max(known.issued) < now.saturating_sub(EARLIER_SECONDS) {
        return Ok(());
    }
    let rights = serde_json::json!([known.scopes, known.grant, known.owner]).to_string();
    let key = format!("{} {rights}", known.jti);
    let ends = now.saturating_add(EARLIER_SECONDS);
    put(tables, ShortLived { kind: EARLIER, key: &key, owner: &known.jti, value: &rights, ends })?;
    drop_surplus(tables, (EARLIER, &known.jti, &key), MOST_EARLIER, now).map(drop)
}

fn last_record(
    tables: Tables<'_>,
    wanted: &TokenRecord,
) -> Result<Option<TokenRecord>, TableError> {
    let last = format!(
        "SELECT {COLUMNS} FROM tokens WHERE shown = 2 AND client = ?1 AND audience = ?2 \
         AND subject = ?3 ORDER BY CASE WHEN revoked IS NULL THEN 0 ELSE 1 END, issued DESC, jti \
         LIMIT 1"
    );
    tables.first(&last, values![wanted.client, wanted.audience, wanted.subject], record)
}

fn has_rights_of(known: &TokenRecord, wanted: &TokenRecord) -> bool {
    (&known.scopes, &known.grant, known.owner) == (&wanted.scopes, &wanted.grant, wanted.owner)
}

fn admit(
    tables: Tables<'_>,
    wanted: &TokenRecord,
    after_end: AfterEnd,
) -> Result<StdioAccess, TableError> {
    let wanted = TokenRecord { kind: TokenKind::Stdio, ..wanted.clone() };
    match last_record(tables, &wanted)? {
        Some(TokenRecord { revoked: Some(when), .. }) if after_end == AfterEnd::StaysOut => {
            Ok(StdioAccess::Ended(when))
        }
        Some(known) if known.revoked.is_none() => {
            keep_earlier(tables, &known, wanted.issued)?;
            tables.execute(
                "UPDATE tokens SET scopes = ?2, grant_id = ?3, owner = ?4 WHERE jti = ?1",
                values![known.jti, wanted.scopes, wanted.grant, wanted.owner],
            )?;
            let TokenRecord { scopes, grant, owner, .. } = wanted;
            Ok(StdioAccess::Allowed(TokenRecord { scopes, grant, owner, ..known }))
        }
        _ => {
            insert_token(tables, &wanted)?;
            Ok(StdioAccess::Allowed(wanted))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state_dir::StateDir;
    use super::*;

    fn wanted(jti: &str, client: &str, scopes: &str) -> TokenRecord {
        TokenRecord {
            jti: jti.to_owned(),
            audience: Some("urn:uuid:1".to_owned()),
            kind: TokenKind::Stdio,
            subject: "ann".to_owned(),
            client: Some(client.to_owned()),
            grant: None,
            owner: false,
            scopes: scopes.to_owned(),
            issued: 1,
            expires: TokenRecord::NEVER,
            revoked: None,
        }
    }

    #[test]
    fn a_client_keeps_its_record_and_gets_the_rights_of_its_last_start() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let admit = |wanted: &TokenRecord, after_end| match store
            .admit_stdio_client(wanted, after_end)
            .unwrap()
        {
            StdioAccess::Allowed(record) => (record.jti, record.scopes),
            StdioAccess::Ended(when) => (format!("ended {when}"), String::new()),
        };
        let pair = |jti: &str, scopes: &str| (jti.to_owned(), scopes.to_owned());
        let out = AfterEnd::StaysOut;
        assert_eq!(admit(&wanted("a", "desktop", "read:/"), out), pair("a", "read:/"));
        assert_eq!(admit(&wanted("b", "desktop", "write:/"), out), pair("a", "write:/"));
        assert_eq!(admit(&wanted("c", "other", "write:/"), out), pair("c", "write:/"));
        let elsewhere = TokenRecord {
            audience: Some("urn:uuid:2".to_owned()),
            ..wanted("d", "desktop", "read:/")
        };
        assert_eq!(admit(&elsewhere, out), pair("d", "read:/"), "another space");
        assert_eq!(store.find("a").unwrap().unwrap().scopes, "write:/");
        assert_eq!(store.find("a").unwrap().unwrap().kind, TokenKind::Stdio);
    }

    #[test]
    fn an_ended_client_stays_out_until_the_owner_lets_it_in() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let first = wanted("a", "desktop", "read:/");
        store.admit_stdio_client(&first, AfterEnd::StaysOut).unwrap();
        store.revoke("a", 7).unwrap();
        let again = wanted("b", "desktop", "read:/");
        let start = |record| store.admit_stdio_client(record, AfterEnd::StaysOut).unwrap();
        assert_eq!(start(&again), StdioAccess::Ended(7));
        let let_in = store.admit_stdio_client(&again, AfterEnd::IsLetIn).unwrap();
        assert_eq!(let_in, StdioAccess::Allowed(again.clone()));
        assert_eq!(start(&wanted("c", "desktop", "read:/")), StdioAccess::Allowed(again));
    }
}
