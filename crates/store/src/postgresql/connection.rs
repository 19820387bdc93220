//! One connection to the database, for code that blocks.
//!
//! The client library is asynchronous. Each connection has a small runtime of its own, which runs
//! while a statement is waited for. So a wait can end early: at a time limit, or when nobody waits
//! for the answer any more. The connection is then closed, since its state is unknown.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::error::PgError;
use super::settings::Settings;
use crate::read_limit::ReadLimit;

/// The most statements that stay prepared.
const MAX_PREPARED: usize = 256;
/// How long one statement may take if nothing else limits it. The database ends a statement of a
/// read before.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long a connection is used at most: half an hour, and up to five minutes more, so that the
/// connections of several servers do not all end at once. Then a pooler, a proxy or another address
/// behind the same name gets its part of the connections.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How many seconds a connection may be used beyond its lifetime.
const SPREAD_SECONDS: u64 = 300;

/// The values of a statement.
pub(crate) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// A connection.
pub(crate) struct PgConnection {
    runtime: OwnRuntime,
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    limit: RefCell<ReadLimit>,
    /// Whether a wait ended early, so that the state of the connection is unknown.
    is_broken: Cell<bool>,
    /// From when on the connection is not used again.
    retires: Instant,
}

impl PgConnection {
    /// Connects to the database.
    pub(crate) fn open(settings: &Settings) -> Result<Self, PgError> {
        let runtime = OwnRuntime::new()?;
        let client = runtime
            .wait(async {
                tokio::time::timeout(settings.connect_timeout(), settings.connect())
                    .await
                    .unwrap_or(Err(PgError::NoAnswer))
            })
            .ok_or(PgError::NoAnswer)??;
        Ok(Self {
            runtime,
            client,
            statements: RefCell::default(),
            limit: RefCell::new(ReadLimit::none()),
            is_broken: Cell::new(false),
            retires: Instant::now() + lifetime(),
        })
    }

    /// Returns whether the connection has been used long enough.
    pub(crate) fn is_worn(&self, now: Instant) -> bool {
        now >= self.retires
    }

    /// Returns whether the connection can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_broken.get() && !self.client.is_closed()
    }

    /// Ends each wait from now on when `limit` is reached.
    pub(crate) fn set_limit(&self, limit: ReadLimit) {
        self.limit.replace(limit);
    }

    /// Runs statements that have no values.
    pub(crate) fn batch(&self, text: &str) -> Result<(), PgError> {
        self.wait(self.client.batch_execute(text))
    }

    /// Runs statements that have no values, which take no longer than `most` where the database can
    /// be reached.
    pub(crate) fn batch_within(&self, text: &str, most: Duration) -> Result<(), PgError> {
        self.wait_within(most, self.client.batch_execute(text))
    }

    /// Runs one statement that has no values and is not prepared, and returns its first row as
    /// texts.
    pub(crate) fn texts(&self, text: &str) -> Result<Vec<Option<String>>, PgError> {
        let answer = self.wait(self.client.simple_query(text))?;
        let row = answer.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or(PgError::NoAnswer)?;
        Ok((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
    }

    /// Runs a statement and returns its rows.
    pub(crate) fn rows(&self, text: &str, values: Values<'_>) -> Result<Vec<Row>, PgError> {
        let statement = self.prepared(text)?;
        self.wait(self.client.query(&statement, values))
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) fn execute(&self, text: &str, values: Values<'_>) -> Result<u64, PgError> {
        let statement = self.prepared(text)?;
        self.wait(self.client.execute(&statement, values))
    }

    /// Runs a statement and returns its first row.
    pub(crate) fn one(&self, text: &str, values: Values<'_>) -> Result<Option<Row>, PgError> {
        Ok(self.rows(text, values)?.into_iter().next())
    }

    fn prepared(&self, text: &str) -> Result<Statement, PgError> {
        if let Some(statement) = self.statements.borrow().get(text) {
            return Ok(statement.clone());
        }
        let statement = self.wait(self.client.prepare(text))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= MAX_PREPARED {
            statements.clear();
        }
        statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Waits for an answer of the database.
    fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PgError> {
        let most = self.limit.borrow().time_left().unwrap_or(MAX_WAIT);
        self.wait_within(most, answer)
    }

    /// Waits for an answer of the database for so long, and no longer than the limit allows.
    fn wait_within<T>(
        &self,
        most: Duration,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PgError> {
        let limit = self.limit.borrow().clone();
        if limit.is_reached() {
            return Err(PgError::LimitReached);
        }
        let most = limit.time_left().map_or(most, |left| left.min(most));
        let answered = self.runtime.wait(async {
            tokio::select! {
                answered = tokio::time::timeout(most, answer) => answered.ok(),
                () = limit.cancelled() => None,
            }
        });
        match answered.flatten() {
            Some(answered) => Ok(answered?),
            None => {
                self.is_broken.set(true);
                Err(if limit.is_reached() { PgError::LimitReached } else { PgError::NoAnswer })
            }
        }
    }
}

/// Returns how long a new connection may be used.
fn lifetime() -> Duration {
    let (chance, _) = uuid::Uuid::new_v4().as_u64_pair();
    LIFETIME + Duration::from_secs(chance % SPREAD_SECONDS)
}

/// Runs code that blocks. On a thread that runs futures, the runtime first gives its other futures
/// to another thread.
pub(super) fn blocking<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(run)
        }
        _ => run(),
    }
}

/// The runtime of one connection.
struct OwnRuntime {
    /// `None` only while the runtime is dropped.
    runtime: Option<Runtime>,
}

impl OwnRuntime {
    fn new() -> Result<Self, PgError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { runtime: Some(runtime.map_err(|_| PgError::NoAnswer)?) })
    }

    /// Waits for a future.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.runtime.as_ref().map(|runtime| blocking(|| runtime.block_on(future)))
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // A connection, or an attempt to connect, may end on a thread of another runtime, where no
        // wait is allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
