//! Records on PostgreSQL: any number of readers that each see one moment, and one writer at a time.
//!
//! The records of a database belong to tenants, and each [`Postgresql`] is for one of them. A
//! reader is a transaction that sees one moment and writes nothing. A writer holds its tenant's row
//! of `history` until it commits, on whichever server it runs, so writers of different tenants do
//! not wait for each other. All tenants share the connections of a [`Database`]. Whoever waits too
//! long for a connection, or whose connection is lost, gets [`Problem::Busy`] and can send the
//! request again.
//!
//! Conditions that need a record's fields are decided by the domain's code: a query walks an index
//! and returns a bounded number of rows with their bodies, and the next query continues after them.

mod blobs;
mod changes;
mod field_values;
mod key_window;
mod lists;
mod pending;
mod pending_words;
mod posting_lists;
mod postings;
mod read;
mod search;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod words_tests;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::model::RecordsError;
use super::port::{RowWriter, Snapshot};
use crate::cancellation::Cancellation;
use crate::postgresql::{Database, Tenant, TenantConnection, tenant_sql};
use crate::read_limit::ReadLimit;
use crate::seal::Seals;
use crate::state::StateDir;

use read::PgSnapshot;
use write::PgWriter;

/// How long the check of a whole database may take.
const MAX_CHECK: Duration = Duration::from_secs(24 * 60 * 60);

/// The records of one tenant in a database on PostgreSQL.
pub(super) struct Postgresql {
    database: Database,
    tenant: Tenant,
    seals: Seals,
    /// The state folder of this server, for files that wait.
    folder: PathBuf,
}

impl Postgresql {
    /// The records of a batch of a bulk load. Other writers of the tenant wait for a batch.
    pub(super) const BULK_BATCH: usize = 10_000;

    /// Opens the records of a tenant. That takes no connection but for the first tenant.
    pub(super) fn open(
        state: &StateDir,
        database: &Database,
        tenant: &Tenant,
        now: Instant,
    ) -> Result<Self, RecordsError> {
        let seals = database.seals_of(tenant, now)?;
        let (database, tenant) = (database.clone(), tenant.clone());
        Ok(Self { database, tenant, seals, folder: state.path().to_owned() })
    }

    pub(super) fn seals(&self) -> &Seals {
        &self.seals
    }

    /// Reads one moment of the database, until `limit` is reached.
    pub(super) fn read_within<T>(
        &self,
        limit: &ReadLimit,
        read: impl FnOnce(&dyn Snapshot) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = self.database.read_of(&self.tenant, limit)?;
        let done = read(&PgSnapshot::new(&connection));
        connection.roll_back();
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&dyn RowWriter) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = self.database.write_of(&self.tenant)?;
        let done = PgWriter::begin(&connection).and_then(|writer| {
            let done = write(&writer)?;
            writer.finish()?;
            Ok(done)
        });
        match done {
            Err(problem) => {
                connection.roll_back();
                Err(problem)
            }
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
        }
    }

    /// Returns the path of another file in the state folder.
    pub(super) fn sibling(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Refuses: the server of PostgreSQL makes its own copies.
    pub(super) fn backup() -> Result<(), RecordsError> {
        Err(RecordsError::CopiedByServer)
    }

    /// Reads every row that the tenant has in any table, so that the database notices damaged
    /// pages.
    pub(super) fn check(&self) -> Result<(), Problem> {
        const TABLES: [&str; 16] = [
            "history", "connections", "streams", "records", "pieces", "tags", "text_words",
            "word_blocks", "grants", "blobs", "blob_pieces", "blob_uses", "changes",
            "field_indexes", "field_runs", "field_values",
        ];
        let limit = ReadLimit::new(MAX_CHECK, Cancellation::default());
        let connection = self.database.long_read_of(&self.tenant, &limit)?;
        let read = |table: &&str| {
            let select = format!("SELECT sum(length(t::text)) FROM {table} t ");
            let sql = tenant_sql!("WHERE tenant = $1").with_head(&select);
            connection.rows(&sql, &[]).map(drop)
        };
        let done = TABLES.iter().try_for_each(read);
        connection.roll_back();
        Ok(done?)
    }
}

/// Runs `write` in the transaction of a connection, and writes what it left pending.
pub(super) fn write_in(
    connection: &TenantConnection<'_>,
    write: impl FnOnce(&dyn RowWriter) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let writer = PgWriter::begin_of_copy(connection)?;
    write(&writer)?;
    writer.finish()
}
