//! The names that clients give themselves, where their tokens name no client.
//!
//! A name is a row of [`super::short_lived`] under the `jti` of its token, and goes with the token.
//! It decides nothing: the owner sees it in lists.

use std::collections::HashMap;

use super::session_rows::OWN_NAME;
use super::state_dir::StateError;
use super::tables::values;
use super::tokens::TokenStore;

impl TokenStore {
    /// Records what clients call themselves, each under the `jti` of its token, in one transaction.
    /// A token that names its client keeps that name.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails. No name is then recorded.
    pub fn record_self_given_names(&self, names: &[(String, String)]) -> Result<(), StateError> {
        let mut names: Vec<_> = names.iter().collect();
        // In one order everywhere, so that two servers do not wait for each other.
        names.sort_unstable();
        let made = crate::now().0;
        self.change_rows("record names in", |tables| {
            for (jti, name) in &names {
                tables.execute(
                    "INSERT INTO short_lived (kind, key, owner, value, made, ends) \
                     SELECT CAST(?1 AS TEXT), jti, subject, CAST(?3 AS TEXT), \
                     CAST(?4 AS BIGINT), expires FROM tokens WHERE jti = ?2 AND client IS NULL \
                     ON CONFLICT (kind, key) DO UPDATE SET value = CAST(?3 AS TEXT), \
                     made = CAST(?4 AS BIGINT)",
                    values![OWN_NAME, jti, name, made],
                )?;
            }
            Ok(())
        })
    }

    /// Returns the name that the client of each token gave itself when it was last heard of, or in
    /// the session that was used last and has not ended at `now`, in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn self_given_names(&self, now: i64) -> Result<HashMap<String, String>, StateError> {
        let sessions = self.client_sessions(now)?.into_iter();
        let mut names: HashMap<_, _> =
            sessions.map(|session| (session.origin, session.client)).collect();
        let all = "SELECT key, value FROM short_lived WHERE kind = ?1 AND ends > ?2";
        let rows: Vec<(String, String)> = self.read("list the names in", |tables| {
            tables.rows(all, values![OWN_NAME, now], |row| Ok((row.get(0)?, row.get(1)?)))
        })?;
        names.extend(rows);
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use stile_testkit::postgres::PostgresServer;

    use super::*;
    use crate::postgresql::Database;
    use crate::state::{StateDir, TokenRecord};

    fn check(store: &TokenStore) {
        let now = crate::now().seconds();
        for (jti, client) in [("a", None), ("b", None), ("named", Some("editor".to_owned()))] {
            let expires = now + 60;
            let token = TokenRecord { client, expires, ..TokenRecord::of_test(jti) };
            store.record(&token).unwrap();
        }
        let record = |names: &[(&str, &str)]| {
            let names = names.iter().map(|(jti, name)| ((*jti).to_owned(), (*name).to_owned()));
            store.record_self_given_names(&names.collect::<Vec<_>>()).unwrap();
        };
        record(&[("a", "goose"), ("named", "goose"), ("unknown", "goose")]);
        record(&[("b", "zed"), ("a", "cline")]);
        store.revoke("a", now).unwrap();
        let expected = [("a", "cline"), ("b", "zed")];
        let expected = expected.map(|(jti, name)| (jti.to_owned(), name.to_owned())).into();
        assert_eq!(
            store.self_given_names(now).unwrap(),
            expected,
            "a revoked token keeps its name"
        );
        assert_eq!(store.self_given_names(now + 60).unwrap(), HashMap::new());
        store.forget_person("ann", now).unwrap();
        assert_eq!(store.self_given_names(now).unwrap(), HashMap::new());
    }

    #[test]
    fn the_last_name_of_each_token_without_a_client_is_kept_as_long_as_the_token() {
        let folder = tempfile::tempdir().unwrap();
        check(&TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap());
        let test = "the_last_name_of_each_token_without_a_client_is_kept_as_long_as_the_token";
        let Some(server) = PostgresServer::shared(test) else { return };
        check(&TokenStore::on(&Database::open(&server.database().address()).unwrap()));
    }
}
