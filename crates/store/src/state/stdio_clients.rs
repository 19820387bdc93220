//! The clients that start `stile stdio` on this computer, and what each may do until it is ended.
//!
//! Such a client has no bearer token. Its record is among the tokens all the same
//! ([`TokenKind::Stdio`]), so that lists, revocation and the times of use are those of tokens.

use super::state_dir::StateError;
use super::tables::{TableError, Tables, values};
use super::tokens::{COLUMNS, TokenKind, TokenRecord, TokenStore, insert_token, record};

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
