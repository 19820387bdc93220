//! How a database is opened, and how transactions begin.

use std::sync::{Arc, OnceLock};

use super::condition::{self, DatabaseCondition, Known};
use super::connection::{MAX_WAIT, PgConnection};
use super::error::{DatabaseError, PgError};
use super::outage;
use super::pool::{Borrowed, Doubts, Pool, PoolUse};
use super::pooler;
use super::roles::{self, DatabaseRole};
use super::schema;
use super::settings::Settings;
use super::turns::Turns;
use crate::read_limit::{MAX_READERS, ReadLimit};
use crate::seal::Seals;

/// The most connections that write.
const MAX_WRITERS: usize = 4;
/// The most connections that look up tokens and sign-ins. They are apart from those of records, so
/// that long reads do not keep a token from being looked up.
const MAX_ACCESS: usize = 2;
/// The most connections that change tokens and sign-ins. A commit waits for the disk, and these
/// wait alone.
const MAX_ACCESS_CHANGES: usize = 2;

/// A database on PostgreSQL with the tables of this version. Clones share their connections.
///
/// Every use blocks. A thread that runs futures may use it only in a runtime of several threads.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

struct Shared {
    readers: Pool,
    writers: Pool,
    access: Pool,
    access_changes: Pool,
    turns: Turns,
    condition: Known,
    /// The keys that seal cursors, once they were read.
    seals: OnceLock<Seals>,
}

/// Begins a read: one moment, and nothing is written. The time limit is in milliseconds; 0 is none.
///
/// A prepared statement is planned once, for any tenant: which partition it reads, PostgreSQL finds
/// when it runs. By itself it would plan each statement anew, since it takes a plan for all
/// partitions to be dearer than one for a single partition, and planning takes longer than most
/// statements.
fn begin_read(milliseconds: u128) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
         SET LOCAL search_path = stile, pg_catalog; \
         SET LOCAL plan_cache_mode = force_generic_plan; \
         SET LOCAL statement_timeout = {milliseconds}; \
         SET LOCAL idle_in_transaction_session_timeout = 300000; "
    )
}

/// Begins a write. A commit is on disk before it is acknowledged, whatever the server's default is.
/// It is not `READ WRITE`, which would overrule `default_transaction_read_only`.
const BEGIN_WRITE: &str = "\
    BEGIN ISOLATION LEVEL READ COMMITTED; \
    SET LOCAL search_path = stile, pg_catalog; \
    SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL lock_timeout = 10000; \
    SET LOCAL statement_timeout = 60000; \
    SET LOCAL idle_in_transaction_session_timeout = 300000; \
    SELECT set_config('synchronous_commit', 'on', true) \
    WHERE current_setting('synchronous_commit') = 'off'; ";

impl Database {
    /// Connects to the database at an address such as `postgres://stile@db.example/stile`. Creates
    /// the tables, or migrates them to this version, if needed and if the role of the address may.
    /// Logs a warning if that role skips row-level security.
    ///
    /// From then on the wall clock of this process is the database's.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database cannot be reached, or is behind a pooler that forgets
    /// prepared statements; if its tables are another program's or a newer version's; or if they
    /// are to be made and the database takes no writes.
    pub fn open(address: &str) -> Result<Self, DatabaseError> {
        let settings = Arc::new(Settings::parse(address)?);
        let connection = PgConnection::open(&settings)?;
        let other = pooler::check(&settings, &connection)?;
        let condition = Known::default();
        condition.note(condition::look(&connection)?);
        let migrated = schema::migrate(&connection).map_err(|error| match error.is_read_only() {
            true => DatabaseError::TakesNoWrites,
            false => error.into(),
        });
        migrated?.done()?;
        let role = roles::role_of(&connection)?;
        if role == DatabaseRole::SkipsRowSecurity
            && let Some(caution) = role.caution()
        {
            tracing::warn!("{caution}");
        }
        let doubts = Arc::<Doubts>::default();
        let pool = |most| Pool::new(settings.clone(), doubts.clone(), most);
        let [writers, readers] = [MAX_WRITERS, MAX_READERS].map(pool);
        let [access, access_changes] = [MAX_ACCESS, MAX_ACCESS_CHANGES].map(pool);
        writers.add(connection);
        other.into_iter().for_each(|other| readers.add(other));
        let (turns, seals) = (Turns::default(), OnceLock::new());
        let shared = Shared { readers, writers, access, access_changes, turns, condition, seals };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Asks the database for its time and whether it takes writes, and sets the wall clock of this
    /// process to that time. Logs it if either has changed.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn look(&self) -> Result<DatabaseCondition, DatabaseError> {
        let condition = self.read_access(|connection| {
            // The tables can be read, too.
            connection.batch("SELECT FROM short_lived LIMIT 1")?;
            condition::look(connection)
        });
        let condition = condition.inspect_err(|error: &PgError| {
            if error.is_outage() {
                outage::report(error);
            }
        })?;
        self.shared.condition.note(condition);
        Ok(condition)
    }

    /// Closes the connections that are old or that nobody has used for a while.
    pub fn close_worn_connections(&self) {
        let Shared { readers, writers, access, access_changes, .. } = &*self.shared;
        [readers, writers, access, access_changes].into_iter().for_each(Pool::close_worn);
    }

    /// Borrows a connection and begins a transaction that reads one moment, until `limit` is
    /// reached.
    pub(super) fn begin_read(&self, limit: &ReadLimit) -> Result<Borrowed<'_>, PgError> {
        self.begin_read_with(limit, "")
    }

    /// Borrows a connection and begins a transaction that writes.
    pub(super) fn begin_write(&self) -> Result<Borrowed<'_>, PgError> {
        self.begin_write_with("")
    }

    /// Begins a transaction that reads, with another statement at its beginning.
    pub(super) fn begin_read_with(
        &self,
        limit: &ReadLimit,
        statement: &str,
    ) -> Result<Borrowed<'_>, PgError> {
        let most = limit.time_left().unwrap_or(MAX_WAIT);
        self.shared.readers.begin(&(begin_read(most.as_millis().max(1)) + statement), limit)
    }

    /// Begins a transaction that reads, whose statements may take as long as `limit` allows.
    pub(super) fn begin_long_read_with(
        &self,
        limit: &ReadLimit,
        statement: &str,
    ) -> Result<Borrowed<'_>, PgError> {
        self.shared.readers.begin(&(begin_read(0) + statement), limit)
    }

    /// Begins a transaction that writes, with another statement at its beginning.
    pub(super) fn begin_write_with(&self, statement: &str) -> Result<Borrowed<'_>, PgError> {
        let begin = format!("{BEGIN_WRITE}{}{statement}", schema::announcement());
        self.shared.writers.begin(&begin, &ReadLimit::none())
    }

    /// Returns what the pools of connections have at this moment.
    pub fn pools(&self) -> [PoolUse; 4] {
        let Shared { readers, writers, access, access_changes, .. } = &*self.shared;
        [
            readers.usage("read"),
            writers.usage("write"),
            access.usage("access"),
            access_changes.usage("access_change"),
        ]
    }

    pub(super) fn access_changes(&self) -> &Pool {
        &self.shared.access_changes
    }

    pub(super) fn access(&self) -> &Pool {
        &self.shared.access
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.shared.turns
    }

    pub(super) fn cached_seals(&self) -> &OnceLock<Seals> {
        &self.shared.seals
    }
}
