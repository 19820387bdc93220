//! The database of minted tokens, and which of them were revoked.
//!
//! Several processes use the database at once: `stile token` mints and revokes, while servers look
//! up the token of every request. A revocation therefore holds from the next request on.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use stile_domain::records::authority::RecordsClaim;

use super::log_snapshot;
use super::private::lock_database;
use super::reserve::Reserve;
use super::session_rows::{end_sessions_of, forget_names_of};
use super::sqlite_schema::{Migration, SqliteSchema};
use super::state_dir::{StateDir, StateError, io_error};
use super::tables::{TableError, TableRow, Tables, Value, values};
use super::version;
use crate::on_first_use::OnFirstUse;
use crate::postgresql::{Apart, Database, PgConnection};
use crate::sql::wait_for_disk;

pub(super) const NAME: &str = "stile.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
/// How often a transaction runs if others are in the way.
const MAX_TRIES: usize = 10;
/// The schema of the database. `Stil` tells the database from those of other programs.
const SCHEMA: SqliteSchema =
    SqliteSchema { application: 0x5374_696c, creation: include_str!("tables.sql"), changes: &[] };

/// How many characters of an identifier the index of beginnings has.
const INDEXED_CHARS: usize = 4;
/// The columns of a [`TokenRecord`], in the order in which [`record`] reads them.
pub(super) const COLUMNS: &str = "jti, audience, shown, subject, client, grant_id, owner, scopes, issued, \
                       expires, revoked";

/// How the holder of a token shows that it may act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenKind {
    /// The holder sends the token with each request.
    #[default]
    Bearer,
    /// The same; `stile serve` made the token to show it on a terminal.
    Shown,
    /// The holder is a client that starts `stile stdio` on this computer. The record says what the
    /// client may do and is revoked like a token. No bearer token was made.
    Stdio,
    /// The holder sends the token with each request. It imports records into one stream, and may
    /// do nothing else.
    Import,
}

impl TokenKind {
    /// Returns the number in the column `shown`, which had only 0 and 1 before there was `Stdio`.
    fn number(self) -> i64 {
        match self {
            Self::Bearer => 0,
            Self::Shown => 1,
            Self::Stdio => 2,
            Self::Import => 3,
        }
    }

    fn of_number(number: i64) -> Self {
        match number {
            2 => Self::Stdio,
            3 => Self::Import,
            0 => Self::Bearer,
            _ => Self::Shown,
        }
    }
}

/// A token that was minted here. Times are UTC seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// The identifier of the token.
    pub jti: String,
    /// The space that the token is for; `None` for a token of a version that did not bind them.
    pub audience: Option<String>,
    /// How the holder of the token shows that it may act.
    pub kind: TokenKind,
    /// The user that the token is for.
    pub subject: String,
    /// The client that the token was minted for.
    pub client: Option<String>,
    /// The identifier of the grant that the token names.
    pub grant: Option<String>,
    /// Whether the token belongs to the owner of the records.
    pub owner: bool,
    /// The `scope` claim of the token.
    pub scopes: String,
    /// When the token was minted.
    pub issued: i64,
    /// When the token expires; [`TokenRecord::NEVER`] for a client that starts `stile stdio`.
    pub expires: i64,
    /// When the token was revoked.
    pub revoked: Option<i64>,
}

#[cfg(test)]
impl TokenRecord {
    /// Makes a token for tests, which was valid in the first seconds of 1970.
    pub(crate) fn of_test(jti: &str) -> Self {
        Self {
            jti: jti.to_owned(),
            audience: None,
            kind: TokenKind::Bearer,
            subject: "ann".to_owned(),
            client: None,
            grant: None,
            owner: false,
            scopes: String::new(),
            issued: 1,
            expires: 2,
            revoked: None,
        }
    }
}

impl TokenRecord {
    /// The time at which nothing expires: the last second of the year 9999.
    pub const NEVER: i64 = 253_402_300_799;

    /// Returns what the token says about records.
    pub fn records_claim(&self) -> RecordsClaim {
        match &self.grant {
            Some(grant) => RecordsClaim::Grant(grant.as_str().into()),
            None if self.owner => RecordsClaim::Owner,
            None => RecordsClaim::None,
        }
    }
}

/// The result of revoking a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// This call revoked the token.
    Now,
    /// The token was revoked before, at this time.
    Before(i64),
}

/// The tokens of one state folder, or of all servers that share a database on PostgreSQL.
pub struct TokenStore {
    place: TablePlace,
}

/// Where the tables are.
enum TablePlace {
    /// A file of SQLite with a write-ahead log, and its path.
    File(OnFirstUse<Connections, StateError>, PathBuf),
    /// A file of SQLite that is only read. Each lookup opens it again.
    ReadFile(Mutex<Connection>, PathBuf),
    /// A database on PostgreSQL.
    Server(Database),
}

/// The connections to a file. A lookup uses a connection of its own and reads what was committed
/// last, so it waits neither for a transaction nor for a sync of the disk.
struct Connections {
    changes: Mutex<Connection>,
    lookups: Mutex<Connection>,
}

impl TokenStore {
    /// Opens the database. Creates it, or migrates it to this version, if needed.
    ///
    /// # Errors
    /// [`StateError`] if the file is damaged, another program's, or a newer version's.
    pub fn open(state: &StateDir) -> Result<Self, StateError> {
        Ok(Self::of_file(state, OnFirstUse::made(Connections::open(state)?)))
    }

    /// Opens the database if there is one. Otherwise the first change or lookup creates it.
    ///
    /// # Errors
    /// The errors of [`TokenStore::open`], for a database that is there.
    pub fn open_on_first_use(state: &StateDir) -> Result<Self, StateError> {
        let later = state.clone();
        let store = Self::of_file(state, OnFirstUse::new(move || Connections::open(&later)));
        if store.has_tables() { Self::open(state) } else { Ok(store) }
    }

    fn of_file(state: &StateDir, connections: OnFirstUse<Connections, StateError>) -> Self {
        Self { place: TablePlace::File(connections, state.path().join(NAME)) }
    }

    /// Whether there are tables. If not, no token was ever recorded.
    pub fn has_tables(&self) -> bool {
        match &self.place {
            TablePlace::File(connections, path) => connections.if_made().is_some() || path.exists(),
            TablePlace::ReadFile(..) | TablePlace::Server(_) => true,
        }
    }

    /// Opens the database without making the reserve, which a revocation may just have given up.
    ///
    /// # Errors
    /// The errors of [`TokenStore::open`].
    pub fn open_on_any_disk(state: &StateDir) -> Result<Self, StateError> {
        Ok(Self::of_file(state, OnFirstUse::made(Connections::open_on_any_disk(state)?)))
    }

    /// Opens an existing database for lookups only. Creates no file, and opens none for
    /// writing.
    ///
    /// # Errors
    /// [`StateError`] if there is no database, or if it is another program's.
    pub fn open_to_read(state: &StateDir) -> Result<Self, StateError> {
        let path = state.path().join(NAME);
        path.metadata().map_err(io_error("open", &path))?;
        let connection = open_to_read(&path).map_err(failed("open"))?;
        Ok(Self { place: TablePlace::ReadFile(Mutex::new(connection), path) })
    }

    /// Uses the tables of a database on PostgreSQL, which has those of this version.
    pub fn on(database: &Database) -> Self {
        Self { place: TablePlace::Server(database.clone()) }
    }

    /// Records a new token, durably, which makes it valid.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn record(&self, token: &TokenRecord) -> Result<(), StateError> {
        self.change_rows("record", |tables| insert_token(tables, token))
    }

    /// Returns all tokens in the order in which they were minted. One that was issued under an
    /// approval is shown with what the approval allows now.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn list(&self) -> Result<Vec<TokenRecord>, StateError> {
        self.listed("TRUE ORDER BY issued, jti", &[])
    }

    /// Returns those of the tokens that are neither revoked nor expired, in the order of
    /// [`TokenStore::list`]. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn list_live(&self, now: i64) -> Result<Vec<TokenRecord>, StateError> {
        let live = "coalesce(revoked, expires) > ?1 AND revoked IS NULL ORDER BY issued, jti";
        self.listed(live, values![now])
    }

    /// Returns the tokens that ended last, of one person or of all, but none that was issued under
    /// an approval. The last one is first. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn list_ended(
        &self,
        now: i64,
        subject: Option<&str>,
        most: usize,
    ) -> Result<Vec<TokenRecord>, StateError> {
        let ended = "coalesce(revoked, expires) <= ?1 AND (CAST(?2 AS TEXT) IS NULL OR subject = ?2) \
                     AND NOT EXISTS (SELECT 1 FROM authorization_tokens AS issued \
                     WHERE issued.jti = tokens.jti) \
                     ORDER BY coalesce(revoked, expires) DESC, jti DESC LIMIT ?3";
        self.listed(ended, values![now, subject, i64::try_from(most).unwrap_or(i64::MAX)])
    }

    /// Returns the tokens whose identifiers begin with the first four characters of a text, as it
    /// is or in small letters; all tokens for a shorter text.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn list_beginning(&self, text: &str) -> Result<Vec<TokenRecord>, StateError> {
        let Some(beginning) = text.get(..INDEXED_CHARS) else { return self.list() };
        let small = beginning.to_ascii_lowercase();
        let begins = "substr(jti, 1, 4) IN (?1, ?2) ORDER BY issued, jti";
        self.listed(begins, values![beginning, small])
    }

    /// Returns the tokens that a condition, with its order, selects.
    fn listed(&self, which: &str, values: &[Value<'_>]) -> Result<Vec<TokenRecord>, StateError> {
        let approved = |column: &str| {
            format!(
                "(SELECT approval.{column} FROM authorization_tokens AS issued \
                 JOIN authorizations AS approval ON approval.id = issued.\"authorization\" \
                 WHERE issued.jti = tokens.jti)"
            )
        };
        let now = |own: &str, column: &str| {
            let (id, approved) = (approved("id"), approved(column));
            format!("CASE WHEN {id} IS NULL THEN {own} ELSE {approved} END")
        };
        let (grant, scopes) = (now("grant_id", "grant_id"), now("scopes", "scopes"));
        let ended = approved("ended");
        let all = format!(
            "SELECT jti, audience, shown, subject, client, {grant}, owner, {scopes}, issued, \
             expires, coalesce(revoked, {ended}) FROM tokens WHERE {which}"
        );
        self.read("list", |tables| tables.rows(&all, values, record))
    }

    /// Returns the subjects that tokens, approvals, sessions and links name, each once.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn subjects(&self) -> Result<Vec<String>, StateError> {
        let all = "SELECT subject FROM tokens UNION SELECT subject FROM authorizations \
                   UNION SELECT subject FROM browser_sessions \
                   UNION SELECT subject FROM sign_in_links";
        self.read("list the people of", |tables| tables.rows(all, &[], |row| row.get(0)))
    }

    /// Returns the people whom tokens, approvals and sessions name, with the time of the last use,
    /// in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn last_uses_of_people(&self) -> Result<Vec<(String, Option<i64>)>, StateError> {
        let all = "SELECT named.subject, max(named.used) FROM ( \
                   SELECT t.subject, u.used FROM tokens t LEFT JOIN token_uses u ON u.jti = t.jti \
                   UNION ALL SELECT subject, used FROM authorizations \
                   UNION ALL SELECT subject, used FROM browser_sessions) AS named \
                   GROUP BY named.subject ORDER BY named.subject";
        self.read("list the people of", |tables| {
            tables.rows(all, &[], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// Ends and forgets all tokens, approvals, sessions and links of a person, durably. `now` is in
    /// UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails. Nothing is changed then.
    pub fn forget_person(&self, subject: &str, now: i64) -> Result<(), StateError> {
        const OF_APPROVALS: &str = "IN (SELECT id FROM authorizations WHERE subject = ?1)";
        self.change("forget a person of", |tables| {
            let approvals = "SELECT id FROM authorizations WHERE subject = ?1";
            let approvals: Vec<String> =
                tables.rows(approvals, values![subject], |row| row.get(0))?;
            let jtis = "SELECT jti FROM tokens WHERE subject = ?1";
            let jtis: Vec<String> = tables.rows(jtis, values![subject], |row| row.get(0))?;
            approvals.iter().chain(&jtis).try_for_each(|id| end_sessions_of(tables, id))?;
            // What running servers remember of a token ends with the token.
            let revoke = "UPDATE tokens SET revoked = ?2 WHERE subject = ?1 AND revoked IS NULL";
            tables.execute(revoke, values![subject, now])?;
            for table in ["authorization_codes", "refresh_tokens", "authorization_tokens"] {
                let text = format!("DELETE FROM {table} WHERE \"authorization\" {OF_APPROVALS}");
                tables.execute(&text, values![subject])?;
            }
            let uses = "DELETE FROM token_uses WHERE jti IN \
                        (SELECT jti FROM tokens WHERE subject = ?1)";
            tables.execute(uses, values![subject])?;
            forget_names_of(tables, subject)?;
            for table in
                ["authorizations", "tokens", "browser_sessions", "sign_in_links", "passkeys"]
            {
                let text = format!("DELETE FROM {table} WHERE subject = ?1");
                tables.execute(&text, values![subject])?;
            }
            Ok(())
        })
    }

    /// Returns the token with this identifier; `None` if it was never minted here.
    ///
    /// # Errors
    /// [`StateError::Database`].
    pub fn find(&self, jti: &str) -> Result<Option<TokenRecord>, StateError> {
        let one = format!("SELECT {COLUMNS} FROM tokens WHERE jti = ?1");
        self.read("look up", |tables| tables.first(&one, values![jti], record))
    }

    /// Revokes a token, durably. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::UnknownToken`] if there is no such token; [`StateError::Database`].
    pub fn revoke(&self, jti: &str, now: i64) -> Result<Revocation, StateError> {
        let revoke = "UPDATE tokens SET revoked = ?2 WHERE jti = ?1 AND revoked IS NULL";
        let revoked = self.change("revoke", |tables| {
            end_sessions_of(tables, jti)?;
            tables.execute(revoke, values![jti, now])
        })?;
        if revoked > 0 {
            return Ok(Revocation::Now);
        }
        let before = self.find(jti)?.and_then(|token| token.revoked);
        before
            .map(Revocation::Before)
            .ok_or_else(|| StateError::UnknownToken { jti: jti.to_owned() })
    }

    /// Forgets a token that was revoked, as if it had never been there.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn forget_revoked(&self, jti: &str) -> Result<(), StateError> {
        self.change_rows("forget a token of", |tables| {
            let forget = "DELETE FROM tokens WHERE jti = ?1 AND revoked IS NOT NULL";
            if tables.execute(forget, values![jti])? > 0 {
                tables.execute("DELETE FROM token_uses WHERE jti = ?1", values![jti])?;
            }
            Ok(())
        })
    }

    /// Opens the database and revokes a token, durably. If the disk is full, uses the room that the
    /// state keeps for this. `now` is in UTC seconds.
    ///
    /// # Errors
    /// The errors of [`TokenStore::open`] and [`TokenStore::revoke`].
    pub fn revoke_in(state: &StateDir, jti: &str, now: i64) -> Result<Revocation, StateError> {
        Reserve::of(state).spend_if_full(|| Self::open_on_any_disk(state)?.revoke(jti, now))
    }

    /// Returns whether a token was minted and not revoked, by any process, at this moment.
    ///
    /// # Errors
    /// [`StateError::Database`]; the token must then be refused.
    pub fn is_live(&self, jti: &str) -> Result<bool, StateError> {
        let live = "SELECT revoked IS NULL FROM tokens WHERE jti = ?1";
        let live =
            self.read("look up", |tables| tables.first(live, values![jti], |row| row.get(0)));
        Ok(live?.unwrap_or(false))
    }

    /// Returns whether nobody but one owner has a space and records where the tables are. A
    /// database that cannot say it has none.
    pub fn has_one_owner(&self) -> bool {
        match &self.place {
            TablePlace::File(..) | TablePlace::ReadFile(..) => true,
            TablePlace::Server(database) => {
                database.has_people().is_ok_and(|has_people| !has_people)
            }
        }
    }

    /// Returns whether the tables are in a database that other servers may use.
    pub fn is_shared(&self) -> bool {
        matches!(self.place, TablePlace::Server(_))
    }

    /// Runs statements that read.
    pub(super) fn read<T>(
        &self,
        doing: &'static str,
        read: impl Fn(Tables<'_>) -> Result<T, TableError>,
    ) -> Result<T, StateError> {
        let done = match &self.place {
            TablePlace::File(connections, _) => {
                read(Tables::Sqlite(&lock(&connections.get()?.lookups)))
            }
            TablePlace::ReadFile(connection, path) => {
                let mut connection = lock(connection);
                *connection = open_to_read(path).map_err(failed("open"))?;
                read(Tables::Sqlite(&connection))
            }
            TablePlace::Server(database) => {
                database.read_access(|connection| read(Tables::Postgresql(connection)))
            }
        };
        done.map_err(failed(doing))
    }

    /// Runs statements as one transaction, durably. The transaction sees no change of another one
    /// that is under way; if one was in the way, all statements run again.
    pub(super) fn change<T>(
        &self,
        doing: &'static str,
        change: impl Fn(Tables<'_>) -> Result<T, TableError>,
    ) -> Result<T, StateError> {
        self.change_apart(doing, Apart::FromAll, change)
    }

    /// Runs statements as one transaction, durably, which itself locks the rows that it decides by.
    /// Changes of other rows are never in the way. A file has one writer at a time.
    pub(super) fn change_rows<T>(
        &self,
        doing: &'static str,
        change: impl Fn(Tables<'_>) -> Result<T, TableError>,
    ) -> Result<T, StateError> {
        self.change_apart(doing, Apart::ByRows, change)
    }

    fn change_apart<T>(
        &self,
        doing: &'static str,
        apart: Apart,
        change: impl Fn(Tables<'_>) -> Result<T, TableError>,
    ) -> Result<T, StateError> {
        let done = match &self.place {
            TablePlace::File(connections, _) => {
                change_file(&mut lock(&connections.get()?.changes), &change)
            }
            TablePlace::ReadFile(connection, _) => change_file(&mut lock(connection), &change),
            TablePlace::Server(database) => change_server(database, apart, &change),
        };
        done.map_err(failed(doing))
    }

    /// Runs one statement, durably, and returns the number of rows that it changed.
    pub(super) fn execute(
        &self,
        doing: &'static str,
        text: &str,
        values: &[Value<'_>],
    ) -> Result<usize, StateError> {
        // One statement locks the rows that it changes.
        self.change_rows(doing, |tables| tables.execute(text, values))
    }
}

impl Connections {
    fn open(state: &StateDir) -> Result<Self, StateError> {
        let opened = Self::open_on_any_disk(state)?;
        Reserve::of(state).fill();
        // A disk without room gets the note at a later start, like the reserve.
        let _ = version::note(state.path());
        Ok(opened)
    }

    fn open_on_any_disk(state: &StateDir) -> Result<Self, StateError> {
        let path = state.path().join(NAME);
        let _queue =
            lock_database(&path).map_err(|(doing, error)| io_error(doing, &path)(error))?;
        let mut connection = open(&path).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                StateError::ForeignDatabase { path: path.clone() }
            }
            _ => StateError::Database { doing: "open", error: error.into() },
        })?;
        let copied = SCHEMA.copy_older(&connection, &path);
        copied.map_err(failed("copy, before a change of their tables,"))?;
        migrate(&mut connection, path.clone())?;
        let lookups = open(&path).map_err(failed("open"))?;
        lookups.pragma_update(None, "query_only", true).map_err(failed("open"))?;
        Ok(Self { changes: Mutex::new(connection), lookups: Mutex::new(lookups) })
    }
}

impl std::fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenStore").finish_non_exhaustive()
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change_file<T>(
    connection: &mut Connection,
    change: impl Fn(Tables<'_>) -> Result<T, TableError>,
) -> Result<T, TableError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = change(Tables::Sqlite(&transaction))?;
    transaction.commit()?;
    Ok(done)
}

fn change_server<T>(
    database: &Database,
    apart: Apart,
    change: impl Fn(Tables<'_>) -> Result<T, TableError>,
) -> Result<T, TableError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let run = |connection: &PgConnection| change(Tables::Postgresql(connection));
        match database.change_access_apart(apart, run) {
            Err(TableError::Conflict) if tries < MAX_TRIES => {}
            Err(TableError::Conflict) => return Err(TableError::Busy),
            done => return done,
        }
    }
}

/// Adds a token to the list.
pub(super) fn insert_token(tables: Tables<'_>, token: &TokenRecord) -> Result<(), TableError> {
    let insert = "INSERT INTO tokens \
                  (jti, audience, shown, subject, client, grant_id, owner, scopes, issued, \
                  expires, revoked) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let kind = token.kind.number();
    let row = values![
        token.jti, token.audience, kind, token.subject, token.client, token.grant, token.owner,
        token.scopes, token.issued, token.expires, token.revoked,
    ];
    tables.execute(insert, row).map(drop)
}

pub(super) fn record(row: &TableRow) -> Result<TokenRecord, TableError> {
    Ok(TokenRecord {
        jti: row.get(0)?,
        audience: row.get(1)?,
        kind: TokenKind::of_number(row.get(2)?),
        subject: row.get(3)?,
        client: row.get(4)?,
        grant: row.get(5)?,
        owner: row.get(6)?,
        scopes: row.get(7)?,
        issued: row.get(8)?,
        expires: row.get(9)?,
        revoked: row.get(10)?,
    })
}

fn failed<E: Into<TableError>>(doing: &'static str) -> impl FnOnce(E) -> StateError {
    move |error| StateError::Database { doing, error: error.into() }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // A commit is durable before it is acknowledged, also while the file has no log yet.
    wait_for_disk(&connection, "EXTRA")?;
    Ok(connection)
}

/// Opens the database without opening any file for writing. The connection is good for one lookup:
/// of a database with a log it is a copy. A version before this one left databases without a log.
fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    if log_snapshot::has_log(path) {
        return log_snapshot::open(path);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Checks that the database is ours, and migrates it to this version.
fn migrate(connection: &mut Connection, path: PathBuf) -> Result<(), StateError> {
    match SCHEMA.migrate(connection) {
        Ok(Migration::Done) => {
            // Last, so that another program's database stays as it was.
            let _ = connection.pragma_update(None, "journal_mode", "WAL");
            Ok(())
        }
        Ok(Migration::Foreign) => Err(StateError::ForeignDatabase { path }),
        Ok(Migration::Newer) => Err(StateError::Newer { path }),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Err(StateError::ForeignDatabase { path })
            }
            _ => Err(StateError::Database { doing: "open", error: error.into() }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        (folder, state)
    }

    fn token(jti: &str) -> TokenRecord {
        let scopes = "read:/".to_owned();
        TokenRecord { scopes, issued: 100, expires: 200, ..TokenRecord::of_test(jti) }
    }

    #[test]
    fn a_token_is_live_from_its_recording_to_its_revocation() {
        let (_folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        assert!(!tokens.is_live("a").unwrap());
        tokens.record(&token("a")).unwrap();
        assert!(tokens.is_live("a").unwrap());
        assert_eq!(tokens.revoke("a", 150).unwrap(), Revocation::Now);
        assert!(!tokens.is_live("a").unwrap());
        assert_eq!(tokens.revoke("a", 160).unwrap(), Revocation::Before(150));
        assert_eq!(tokens.list().unwrap(), [TokenRecord { revoked: Some(150), ..token("a") }]);
    }

    /// Returns the identifiers of tokens.
    fn named(tokens: Result<Vec<TokenRecord>, StateError>) -> Vec<String> {
        tokens.unwrap().into_iter().map(|token| token.jti).collect()
    }

    #[test]
    fn tokens_that_count_and_tokens_that_ended_are_listed_apart() {
        let (_folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        for (jti, subject, expires) in
            [("aaaa1", "ann", 200), ("aaaa2", "ann", 300), ("bbbb1", "bob", 150)]
        {
            let subject = subject.to_owned();
            tokens.record(&TokenRecord { subject, expires, ..token(jti) }).unwrap();
        }
        tokens.revoke("aaaa2", 120).unwrap();
        assert_eq!(named(tokens.list_live(199)), ["aaaa1"]);
        assert_eq!(named(tokens.list_ended(199, None, 9)), ["bbbb1", "aaaa2"]);
        assert_eq!(named(tokens.list_ended(200, None, 1)), ["aaaa1"]);
        assert_eq!(named(tokens.list_ended(200, Some("bob"), 9)), ["bbbb1"]);
        assert_eq!(named(tokens.list_beginning("AAAA2")), ["aaaa1", "aaaa2"]);
        assert_eq!(named(tokens.list_beginning("bbbb")), ["bbbb1"]);
        assert_eq!(named(tokens.list_beginning("b")).len(), 3);
    }

    #[test]
    fn what_the_owner_asks_costs_nothing_for_tokens_that_ended_long_ago() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU64, Ordering};

        let steps = |old: u32| {
            let (_folder, state) = state();
            let tokens = TokenStore::open(&state).unwrap();
            tokens.record(&TokenRecord { expires: 300, ..token("live") }).unwrap();
            let add = |tables: Tables<'_>| {
                (0..old).try_for_each(|number| {
                    insert_token(
                        tables,
                        &TokenRecord { expires: 101, ..token(&format!("{number:08}")) },
                    )
                })
            };
            tokens.change("record", add).unwrap();
            let TablePlace::File(connections, _) = &tokens.place else { panic!("no file") };
            let count = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&count);
            let handler = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            lock(&connections.get().unwrap().lookups).progress_handler(1, Some(handler)).unwrap();
            assert_eq!(named(tokens.list_live(200)), ["live"]);
            assert_eq!(tokens.list_ended(200, None, 5).unwrap().len(), 5);
            assert_eq!(named(tokens.list_beginning("live")), ["live"]);
            count.load(Ordering::Relaxed)
        };
        let (few, many) = (steps(20), steps(5_000));
        assert!(many < few + few / 4, "{few} and {many} steps of the database");
    }

    #[test]
    fn a_token_that_was_never_minted_cannot_be_revoked() {
        let (_folder, state) = state();
        let error = TokenStore::open(&state).unwrap().revoke("a", 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no token `a`; `stile token list --all` shows all of them"
        );
    }

    #[test]
    fn a_database_that_is_opened_on_first_use_is_made_by_the_first_lookup_or_change() {
        let (folder, state) = state();
        let tokens = TokenStore::open_on_first_use(&state).unwrap();
        assert!(!tokens.has_tables());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(!tokens.is_live("a").unwrap());
        assert!(tokens.has_tables());
        tokens.record(&token("a")).unwrap();
        assert!(TokenStore::open(&state).unwrap().is_live("a").unwrap());
        // One that is there is opened at once, so that a damaged one is refused at once.
        std::fs::write(folder.path().join(NAME), "no database".repeat(100)).unwrap();
        assert!(TokenStore::open_on_first_use(&state).is_err());
    }

    #[test]
    fn an_identifier_is_used_once() {
        let (_folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        tokens.record(&token("a")).unwrap();
        assert!(tokens.record(&token("a")).is_err());
    }

    #[test]
    fn a_revocation_through_another_connection_is_seen_at_once() {
        let (_folder, state) = state();
        let (server, command) =
            (TokenStore::open(&state).unwrap(), TokenStore::open(&state).unwrap());
        for n in 0..50 {
            let jti = format!("t{n}");
            command.record(&token(&jti)).unwrap();
            assert!(server.is_live(&jti).unwrap());
            command.revoke(&jti, 1).unwrap();
            assert!(!server.is_live(&jti).unwrap());
        }
    }

    #[test]
    fn many_first_runs_at_once_make_one_database() {
        for _ in 0..10 {
            let (_folder, state) = state();
            std::thread::scope(|scope| {
                for n in 0..8 {
                    let state = &state;
                    scope.spawn(move || {
                        TokenStore::open(state).unwrap().record(&token(&n.to_string())).unwrap()
                    });
                }
            });
            assert_eq!(TokenStore::open(&state).unwrap().list().unwrap().len(), 8);
        }
    }

    #[test]
    fn writes_are_durable_before_they_are_acknowledged() {
        let (_folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        let TablePlace::File(connections, _) = &tokens.place else { panic!("a file") };
        let connection = lock(&connections.get().unwrap().changes);
        let mode: String =
            connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        let synchronous: i32 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!((mode.as_str(), synchronous), ("wal", 3));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_open_the_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        tokens.record(&token("a")).unwrap();
        let mut files = 0;
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{:?}",
                entry.file_name()
            );
            files += 1;
        }
        assert_eq!(files, 5, "the database, its log with an index, the reserve, the version");
    }

    #[test]
    fn another_programs_file_is_refused_and_left_alone() {
        let (folder, state) = state();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "not a database, but long enough to be looked at".repeat(40))
            .unwrap();
        assert!(matches!(TokenStore::open(&state), Err(StateError::ForeignDatabase { .. })));

        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(TokenStore::open(&state), Err(StateError::ForeignDatabase { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_token_is_looked_up_while_another_change_is_not_yet_on_the_disk() {
        let (folder, state) = state();
        let tokens = TokenStore::open(&state).unwrap();
        tokens.record(&token("a")).unwrap();
        // The lock that another process has while it makes its commit durable.
        let other = Connection::open(folder.path().join(NAME)).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE; UPDATE tokens SET revoked = 7").unwrap();
        assert!(tokens.is_live("a").unwrap());
        other.execute_batch("ROLLBACK").unwrap();
        // A change of this process that takes its time.
        let (inside, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let revoke = "UPDATE tokens SET revoked = 8";
                let slow = tokens.change("revoke", |tables| {
                    tables.execute(revoke, &[])?;
                    inside.wait();
                    done.wait();
                    Ok(())
                });
                slow.unwrap();
            });
            inside.wait();
            let answer = tokens.is_live("a");
            done.wait();
            assert!(answer.unwrap());
        });
        // It counts from the moment at which it is durable.
        assert!(!tokens.is_live("a").unwrap());
    }

    #[test]
    fn a_newer_database_is_refused() {
        let (folder, state) = state();
        drop(TokenStore::open(&state).unwrap());
        let connection = Connection::open(folder.path().join(NAME)).unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        drop(connection);
        let error = TokenStore::open(&state).unwrap_err().to_string();
        assert!(error.contains("newer stile"), "{error}");
    }

    #[test]
    fn a_reading_store_sees_every_change_and_creates_no_file() {
        let (folder, state) = state();
        assert!(TokenStore::open_to_read(&state).is_err());
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        assert!(names().is_empty());
        let own = TokenStore::open(&state).unwrap();
        own.record(&token("a")).unwrap();
        let reading = TokenStore::open_to_read(&state).unwrap();
        assert!(reading.is_live("a").unwrap() && !reading.is_live("b").unwrap());
        own.record(&token("b")).unwrap();
        own.revoke("a", 5).unwrap();
        assert!(reading.is_live("b").unwrap() && !reading.is_live("a").unwrap());
        assert!(reading.record(&token("c")).is_err());
        drop(own);
        let alone = names();
        assert!(reading.is_live("b").unwrap() && !reading.is_live("a").unwrap());
        drop(reading);
        assert_eq!(names(), alone);
        TokenStore::open(&state).unwrap().revoke("b", 6).unwrap();
        assert!(!TokenStore::open_to_read(&state).unwrap().is_live("b").unwrap());
    }
}
