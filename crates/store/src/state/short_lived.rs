//! What lives for a short time: sessions of clients, and, for servers that share a database,
//! requests that wait for the owner, challenges that were used, and the servers themselves.
//!
//! A server with a state folder of its own keeps all but the sessions in memory.

use super::authorizations::remove_old_codes;
use super::state_dir::StateError;
use super::tables::{TableError, Tables, values};
use super::tokens::TokenStore;

/// The number of the lock that the server holds which removes what has ended: `Stil`.
const CLEANING: i64 = 0x5374_696c;

/// A thing that ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct ShortLived<'a> {
    /// What kind of thing it is. Keys are unique within a kind.
    pub kind: &'static str,
    /// What names the thing. A secret is named by its digest.
    pub key: &'a str,
    /// Whose share of the kind the thing counts in.
    pub owner: &'a str,
    /// What the servers know of the thing.
    pub value: &'a str,
    /// When the thing ends, in UTC seconds.
    pub ends: i64,
}

/// How many things of a kind are kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// The most things of one owner.
    pub of_owner: usize,
    /// The most things of all owners but one.
    pub of_all: usize,
    /// The owner whose things do not count among those of all.
    pub apart: &'a str,
}

impl TokenStore {
    /// Keeps a thing, in place of one with the same key. If the owner then has more than `most` of
    /// the kind, the oldest are dropped. Returns the keys of those. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn keep_short_lived(
        &self,
        new: ShortLived<'_>,
        most: usize,
        now: i64,
    ) -> Result<Vec<String>, StateError> {
        self.change_rows("keep what lives for a short time in", |tables| {
            take_turns(tables, new.kind, new.owner)?;
            put(tables, new)?;
            drop_surplus(tables, (new.kind, new.owner, new.key), most, now)
        })
    }

    /// Keeps a thing as [`keep_short_lived`](Self::keep_short_lived) does. If the owners but
    /// `apart` then have more than `of_all` of the kind together, drops the oldest of the owner
    /// that has most. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn keep_short_lived_of_many(
        &self,
        new: ShortLived<'_>,
        Bounds { of_owner, of_all, apart }: Bounds<'_>,
        now: i64,
    ) -> Result<(), StateError> {
        self.change_rows("keep what lives for a short time in", |tables| {
            take_turns(tables, new.kind, "")?;
            put(tables, new)?;
            drop_surplus(tables, (new.kind, new.owner, new.key), of_owner, now)?;
            drop_surplus_of_all(tables, new, (of_all, apart), now)
        })
    }

    /// Keeps a thing if there is none with its key. Returns whether there was none.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn keep_once(&self, new: ShortLived<'_>) -> Result<bool, StateError> {
        let ShortLived { kind, key, owner, value, ends } = new;
        let insert = "INSERT INTO short_lived (kind, key, owner, value, made, ends) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
        let made = crate::now().0;
        let row = values![kind, key, owner, value, made, ends];
        Ok(self.execute("keep what lives for a short time in", insert, row)? > 0)
    }

    /// Returns the value of a thing and when it ends; `None` if there is none, or it has ended.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn find_short_lived(
        &self,
        kind: &'static str,
        key: &str,
        now: i64,
    ) -> Result<Option<(String, i64)>, StateError> {
        let one = "SELECT value, ends FROM short_lived WHERE kind = ?1 AND key = ?2 AND ends > ?3";
        self.read("look up what lives for a short time in", |tables| {
            tables.first(one, values![kind, key, now], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// Removes a thing and returns its value; `None` if there is none, or it has ended.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn take_short_lived(
        &self,
        kind: &'static str,
        key: &str,
        now: i64,
    ) -> Result<Option<String>, StateError> {
        let take = "DELETE FROM short_lived WHERE kind = ?1 AND key = ?2 RETURNING value, ends";
        let taken: Option<(String, i64)> = self
            .change_rows("take what lives for a short time from", |tables| {
                tables.first(take, values![kind, key], |row| Ok((row.get(0)?, row.get(1)?)))
            })?;
        Ok(taken.filter(|(_, ends)| now < *ends).map(|(value, _)| value))
    }

    /// Returns how many things of a kind have not ended.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn count_short_lived(&self, kind: &'static str, now: i64) -> Result<usize, StateError> {
        let count = "SELECT count(*) FROM short_lived WHERE kind = ?1 AND ends > ?2";
        let count = self.read("count what lives for a short time in", |tables| {
            tables.first(count, values![kind, now], |row| row.get::<i64>(0))
        })?;
        Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
    }

    /// Removes what has ended, and codes and approvals that nobody can use any more, unless another
    /// server does so at this moment. Returns how many things that live for a short time were
    /// removed.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn remove_ended(&self, now: i64) -> Result<usize, StateError> {
        let lock = "SELECT pg_try_advisory_xact_lock(?1)";
        self.change_rows("remove what has ended from", |tables| {
            let may_clean = match tables {
                Tables::Sqlite(_) => true,
                Tables::Postgresql(_) => tables
                    .first(lock, values![CLEANING], |row| row.get::<bool>(0))?
                    .unwrap_or_default(),
            };
            if !may_clean {
                return Ok(0);
            }
            remove_old_codes(tables, now)?;
            tables.execute("DELETE FROM short_lived WHERE ends <= ?1", values![now])
        })
    }
}

/// Waits until no other transaction of another server counts the things of a kind and an owner: two
/// that each add one at once would not see the other's. A file has one writer at a time.
fn take_turns(tables: Tables<'_>, kind: &str, owner: &str) -> Result<(), TableError> {
    let wait = "SELECT true FROM pg_advisory_xact_lock(hashtextextended(?1, 0))";
    match tables {
        Tables::Sqlite(_) => Ok(()),
        Tables::Postgresql(_) => {
            tables.first(wait, values![format!("{kind}\n{owner}")], |_| Ok(())).map(drop)
        }
    }
}

/// Puts a thing into the table, in place of one with the same key.
pub(super) fn put(tables: Tables<'_>, new: ShortLived<'_>) -> Result<(), TableError> {
    let ShortLived { kind, key, owner, value, ends } = new;
    let insert = "INSERT INTO short_lived (kind, key, owner, value, made, ends) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, key) DO UPDATE \
                  SET owner = ?3, value = ?4, made = ?5, ends = ?6";
    let made = crate::now().0;
    tables.execute(insert, values![kind, key, owner, value, made, ends]).map(drop)
}

/// Drops the oldest of a kind and an owner that are more than `most`, and returns their keys. The
/// thing with the key `newest` stays.
pub(super) fn drop_surplus(
    tables: Tables<'_>,
    (kind, owner, newest): (&'static str, &str, &str),
    most: usize,
    now: i64,
) -> Result<Vec<String>, TableError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let drop = "DELETE FROM short_lived WHERE kind = ?1 AND owner = ?2 AND key NOT IN \
                (SELECT key FROM short_lived WHERE kind = ?1 AND owner = ?2 AND ends > ?3 \
                ORDER BY key = ?4 DESC, made DESC, key LIMIT ?5) RETURNING key";
    tables.rows(drop, values![kind, owner, now, newest, most], |row| row.get(0))
}

/// Drops things of the kind of `newest` until the owners other than `apart` have at most `most`:
/// each time the oldest of the owner that has most, and never `newest`.
fn drop_surplus_of_all(
    tables: Tables<'_>,
    newest: ShortLived<'_>,
    (most, apart): (usize, &str),
    now: i64,
) -> Result<(), TableError> {
    let count = "SELECT count(*) FROM short_lived WHERE kind = ?1 AND owner <> ?2 AND ends > ?3";
    let oldest_of_most = "DELETE FROM short_lived WHERE kind = ?1 AND key = (\
             SELECT key FROM short_lived WHERE kind = ?1 AND key <> ?4 AND ends > ?3 AND owner = (\
                 SELECT owner FROM short_lived WHERE kind = ?1 AND owner <> ?2 AND ends > ?3 \
                 GROUP BY owner ORDER BY count(*) DESC, min(made), owner LIMIT 1) \
             ORDER BY made, key LIMIT 1)";
    let (kind, key) = (newest.kind, newest.key);
    let found = tables.first(count, values![kind, apart, now], |row| row.get::<i64>(0))?;
    let found = usize::try_from(found.unwrap_or_default()).unwrap_or_default();
    for _ in most..found {
        tables.execute(oldest_of_most, values![kind, apart, now, key])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stile_testkit::postgres::PostgresServer;

    use super::*;
    use crate::postgresql::Database;
    use crate::state::StateDir;

    fn thing<'a>(key: &'a str, owner: &'a str, ends: i64) -> ShortLived<'a> {
        ShortLived { kind: "session", key, owner, value: key, ends }
    }

    #[test]
    fn things_end_by_time_and_the_oldest_of_an_owner_make_room() {
        let test = "things_end_by_time_and_the_oldest_of_an_owner_make_room";
        let folder = tempfile::tempdir().unwrap();
        let open = || TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        check_ends(&open(), &open());
        let Some(server) = PostgresServer::shared(test) else { return };
        let database = server.database();
        let open = || TokenStore::on(&Database::open(&database.address()).unwrap());
        check_ends(&open(), &open());
    }

    fn check_ends(one: &TokenStore, other: &TokenStore) {
        for (at, key) in ["a", "b", "c"].into_iter().enumerate() {
            let dropped = one.keep_short_lived(thing(key, "ann", 100), 3, at as i64).unwrap();
            assert!(dropped.is_empty());
        }
        one.keep_short_lived(thing("x", "bob", 100), 1, 3).unwrap();
        other.keep_short_lived(thing("a", "ann", 200), 3, 4).unwrap();
        assert_eq!(other.keep_short_lived(thing("d", "ann", 90), 3, 5).unwrap(), ["b"]);
        let found = |key: &str, now| one.find_short_lived("session", key, now).unwrap();
        assert_eq!(found("a", 150), Some(("a".to_owned(), 200)));
        assert_eq!(found("d", 89), Some(("d".to_owned(), 90)));
        assert_eq!(found("d", 90), None);
        assert_eq!(found("b", 6), None);
        assert_eq!(one.count_short_lived("session", 6).unwrap(), 4);
        assert_eq!(other.take_short_lived("session", "c", 6).unwrap(), Some("c".to_owned()));
        assert_eq!(one.take_short_lived("session", "c", 6).unwrap(), None);
        assert_eq!(other.remove_ended(100).unwrap(), 2);
        assert_eq!(one.count_short_lived("session", 0).unwrap(), 1);
    }

    #[test]
    fn all_owners_together_have_a_bound_and_the_owner_that_has_most_loses_first() {
        let test = "all_owners_together_have_a_bound_and_the_owner_that_has_most_loses_first";
        let folder = tempfile::tempdir().unwrap();
        let open = || TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        check_bound_of_all(&open());
        let Some(server) = PostgresServer::shared(test) else { return };
        let database = server.database();
        check_bound_of_all(&TokenStore::on(&Database::open(&database.address()).unwrap()));
    }

    fn check_bound_of_all(store: &TokenStore) {
        let keep = |key: &str, owner: &str| {
            let bounds = Bounds { of_owner: 3, of_all: 5, apart: "apart" };
            store.keep_short_lived_of_many(thing(key, owner, 100), bounds, 1).unwrap();
        };
        store.keep_short_lived(thing("reserved", "apart", 100), 9, 1).unwrap();
        for (key, owner) in
            [("a", "ann"), ("b1", "bob"), ("b2", "bob"), ("b3", "bob"), ("c", "cid")]
        {
            keep(key, owner);
        }
        let found = |key: &str| store.find_short_lived("session", key, 1).unwrap().is_some();
        // Bob has most, so his oldest goes, and then that of the next owner who has most.
        keep("d", "dan");
        assert_eq!(
            ["a", "b1", "b2", "b3", "c", "d"].map(found),
            [true, false, true, true, true, true]
        );
        for number in 0..20 {
            keep(&format!("x{number}"), &format!("owner {number}"));
        }
        assert_eq!(store.count_short_lived("session", 1).unwrap(), 6);
        assert!(found("x19") && found("reserved"));
    }

    #[test]
    fn of_many_servers_one_keeps_a_thing_that_is_kept_once() {
        let test = "of_many_servers_one_keeps_a_thing_that_is_kept_once";
        let Some(server) = PostgresServer::shared(test) else { return };
        let database = server.database();
        let kept: Vec<bool> = std::thread::scope(|scope| {
            let keep = || {
                let store = TokenStore::on(&Database::open(&database.address()).unwrap());
                store.keep_once(thing("once", "", 100)).unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(keep)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(kept.iter().filter(|kept| **kept).count(), 1);
    }
}
