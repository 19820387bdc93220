//! The engine that stores records, and how a database is opened.
//!
//! [`database`](super::database) uses the engine by [`Engine`]. What an engine must do is in
//! [`port`](super::port).

use std::path::{Path, PathBuf};

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::field_index::RUN_RECORDS;
use super::model::RecordsError;
use super::port::{RowWriter, Snapshot};
use super::postgresql::Postgresql;
use super::sqlite::Sqlite;
use super::write::WriteBatch;
use crate::postgresql::{Database, Tenant};
use crate::read_limit::ReadLimit;
use crate::seal::Seals;
use crate::state::StateDir;

/// A database in one of the engines.
pub(super) enum Engine {
    Sqlite(Sqlite),
    Postgresql(Postgresql),
}

/// Names the problem of a write, which was undone. A database cancels a write as it ends a read
/// that takes long, and no advice about fewer records helps then.
fn undone(problem: Problem) -> Problem {
    match problem {
        Problem::Busy | Problem::QueryTooBroad => Problem::NotStored,
        other => other,
    }
}

impl Engine {
    pub(super) fn exists(state: &StateDir) -> bool {
        Sqlite::exists(state)
    }

    /// Opens the database in the state folder.
    pub(super) fn open(state: &StateDir, now: Instant) -> Result<Self, RecordsError> {
        Sqlite::open(state, now).map(Self::Sqlite)
    }

    /// Opens the records of a tenant in a database on PostgreSQL.
    pub(super) fn open_at(
        state: &StateDir,
        database: &Database,
        tenant: &Tenant,
        now: Instant,
    ) -> Result<Self, RecordsError> {
        Postgresql::open(state, database, tenant, now).map(Self::Postgresql)
    }

    pub(super) fn seals(&self) -> &Seals {
        match self {
            Self::Sqlite(engine) => engine.seals(),
            Self::Postgresql(engine) => engine.seals(),
        }
    }

    /// Reads one moment of the database.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&dyn Snapshot, &Seals) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.read_within(&ReadLimit::none(), read)
    }

    /// Does what [`Self::read`] does, until `limit` is reached.
    pub(super) fn read_within<T>(
        &self,
        limit: &ReadLimit,
        read: impl FnOnce(&dyn Snapshot, &Seals) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match self {
            Self::Sqlite(engine) => {
                engine.read_within(limit, |snapshot| read(snapshot, engine.seals()))
            }
            Self::Postgresql(engine) => {
                engine.read_within(limit, |snapshot| read(snapshot, engine.seals()))
            }
        }
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    pub(super) fn write<T>(
        &self,
        now: Instant,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.write_with(RUN_RECORDS, now, write)
    }

    /// Does what [`Self::write`] does, with runs of so many records in the index by value.
    pub(super) fn write_with<T>(
        &self,
        run_records: u32,
        now: Instant,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let run = |rows: &dyn RowWriter| WriteBatch::run(rows, now, run_records, write);
        let done = match self {
            Self::Sqlite(engine) => engine.write(run),
            Self::Postgresql(engine) => engine.write(run),
        };
        done.map_err(undone)
    }

    /// Prepares for many batches. Returns how many records each should have.
    pub(super) fn begin_bulk_load(&self) -> Result<usize, Problem> {
        match self {
            Self::Sqlite(engine) => engine.begin_bulk_load(),
            Self::Postgresql(_) => Ok(Postgresql::BULK_BATCH),
        }
    }

    /// Undoes what [`Self::begin_bulk_load`] did.
    pub(super) fn end_bulk_load(&self) -> Result<(), Problem> {
        match self {
            Self::Sqlite(engine) => engine.end_bulk_load(),
            Self::Postgresql(_) => Ok(()),
        }
    }

    /// Returns the path of another file in the state folder.
    pub(super) fn sibling(&self, name: &str) -> PathBuf {
        match self {
            Self::Sqlite(engine) => engine.sibling(name),
            Self::Postgresql(engine) => engine.sibling(name),
        }
    }

    /// Copies one moment of the database to a new file.
    pub(super) fn backup(&self, to: &Path) -> Result<(), RecordsError> {
        match self {
            Self::Sqlite(engine) => engine.backup(to),
            Self::Postgresql(_) => Postgresql::backup(),
        }
    }

    /// Checks the whole database for damage.
    pub(super) fn check(&self) -> Result<(), Problem> {
        match self {
            Self::Sqlite(engine) => engine.check(),
            Self::Postgresql(engine) => engine.check(),
        }
    }
}
