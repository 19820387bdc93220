//! One connection to the database, for code that blocks.
//!
//! The client library is asynchronous. Each connection has a small runtime of its own, which runs
//! while a statement is waited for. So a wait can end early: at a time limit, or when nobody waits
//! for the answer any more. The connection is then closed, since its state is unknown.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::error::PgError;
use super::settings::Settings;
use crate::read_limit::ReadLimit;

/// The most statements that stay prepared.
const MAX_PREPARED: usize = 256;
/// How long one statement may take if nothing else limits it. The database ends a statement of a
/// read before.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// The values of a statement.
pub(crate) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// A connection.
pub(crate) struct PgConnection {
    /// `None` only while the connection is dropped.
    runtime: Option<Runtime>,
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    limit: RefCell<ReadLimit>,
    /// Whether a wait ended early, so that the state of the connection is unknown.
    is_broken: Cell<bool>,
}

impl PgConnection {
    /// Connects to the database.
    pub(crate) fn open(settings: &Settings) -> Result<Self, PgError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|_| PgError::NoAnswer)?;
        let client = blocking(|| {
            runtime.block_on(async {
                tokio::time::timeout(settings.connect_timeout(), settings.connect())
                    .await
                    .unwrap_or(Err(PgError::NoAnswer))
            })
        })?;
        Ok(Self {
            runtime: Some(runtime),
            client,
            statements: RefCell::default(),
            limit: RefCell::new(ReadLimit::none()),
            is_broken: Cell::new(false),
        })
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

    /// Runs a statement and returns its rows.
    pub(crate) fn rows(&self, text: &str, values: Values<'_>) -> Result<Vec<Row>, PgError> {
        let statement = self.prepared(text)?;
        self.wait(self.client.query(&statement, values))
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
        let limit = self.limit.borrow().clone();
        if limit.is_reached() {
            return Err(PgError::LimitReached);
        }
        let Some(runtime) = &self.runtime else { return Err(PgError::NoAnswer) };
        let most = limit.time_left().unwrap_or(MAX_WAIT);
        let answered = blocking(|| {
            runtime.block_on(async {
                tokio::select! {
                    answered = tokio::time::timeout(most, answer) => answered.ok(),
                    () = limit.cancelled() => None,
                }
            })
        });
        match answered {
            Some(answered) => Ok(answered?),
            None => {
                self.is_broken.set(true);
                Err(if limit.is_reached() { PgError::LimitReached } else { PgError::NoAnswer })
            }
        }
    }
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

impl Drop for PgConnection {
    fn drop(&mut self) {
        // A connection may be dropped on a thread of another runtime, where no wait is allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
