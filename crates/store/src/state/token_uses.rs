//! When each token was last used, to the minute or so.
//!
//! Kept apart from the list of tokens: it is written often, in groups, and decides nothing.

use std::collections::HashMap;

use super::state_dir::StateError;
use super::tables::values;
use super::tokens::TokenStore;

impl TokenStore {
    /// Records when tokens were last used, in UTC seconds since 1970, in one transaction.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails. No use is then recorded.
    pub fn record_uses<'a>(
        &self,
        uses: impl IntoIterator<Item = (&'a str, i64)>,
    ) -> Result<(), StateError> {
        let mut uses: Vec<_> = uses.into_iter().collect();
        // In one order everywhere, so that two servers do not wait for each other.
        uses.sort_unstable();
        self.change_rows("record uses in", |tables| {
            for (jti, used) in &uses {
                tables.execute(
                    "INSERT INTO token_uses (jti, used) \
                     SELECT jti, CAST(?2 AS BIGINT) FROM tokens WHERE jti = ?1 \
                     ON CONFLICT (jti) DO UPDATE SET \
                     used = CASE WHEN token_uses.used > ?2 THEN token_uses.used ELSE ?2 END",
                    values![jti, used],
                )?;
            }
            Ok(())
        })
    }

    /// Returns the authorization of each token that was issued from one.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn authorizations_of_tokens(&self) -> Result<HashMap<String, String>, StateError> {
        let all = "SELECT jti, \"authorization\" FROM authorization_tokens";
        let rows = self.read("list the tokens of", |tables| {
            tables.rows(all, &[], |row| Ok((row.get(0)?, row.get(1)?)))
        })?;
        Ok(rows.into_iter().collect())
    }

    /// Returns when each token that was used was last used, in UTC seconds since 1970.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn uses(&self) -> Result<HashMap<String, i64>, StateError> {
        let all = "SELECT jti, used FROM token_uses";
        let rows = self.read("list the uses in", |tables| {
            tables.rows(all, &[], |row| Ok((row.get(0)?, row.get(1)?)))
        })?;
        Ok(rows.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{StateDir, TokenRecord};

    #[test]
    fn the_latest_use_of_each_token_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        assert_eq!(store.uses().unwrap(), HashMap::new());
        for jti in ["a", "b"] {
            store.record(&TokenRecord::of_test(jti)).unwrap();
        }
        store.record_uses([("a", 5), ("b", 7), ("unknown", 8)]).unwrap();
        store.record_uses([("a", 9), ("b", 6)]).unwrap();
        store.record_uses([]).unwrap();
        let expected = HashMap::from([("a".to_owned(), 9), ("b".to_owned(), 7)]);
        assert_eq!(store.uses().unwrap(), expected);
    }
}
