//! The database as its users hold it: [`Records`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU32};

use stile_domain::records::authority::{OwnerPermit, RecordsPermit};
use stile_domain::records::grant::{BadGrant, Grant};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::engine::Engine;
use super::field_index::RUN_RECORDS;
use super::grants::{self, Access, GrantCache, GrantRecord};
use super::model::{RecordsError, TargetStream};
use super::spool_file::SpoolFile;
use super::view::RecordsView;
use super::write::WriteBatch;
use super::write::prepared::RecordPreparer;
use crate::now;
use crate::postgresql::{Database, Tenant};
use crate::read_limit::ReadLimit;
use crate::state::StateDir;

/// The database of records. All clones are the same database. Every method that reads or writes can
/// fail with the error of the database.
#[derive(Clone)]
pub struct Records {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    grants: GrantCache,
    /// The records of a run of the index by value.
    run_records: AtomicU32,
}

impl Records {
    fn of(engine: Engine) -> Self {
        let (grants, run_records) = (GrantCache::default(), AtomicU32::new(RUN_RECORDS));
        Self { inner: Arc::new(Inner { engine, grants, run_records }) }
    }

    /// Sets how many new records of a stream the index by value takes up at once. The usual number
    /// suits large streams. With a small one, a test has an index in a stream of few records.
    pub fn set_run_records(&self, records: u32) {
        self.inner.run_records.store(records, atomic::Ordering::Relaxed);
    }

    /// Opens the database. Creates it, or migrates it to this version, if needed.
    ///
    /// # Errors
    /// [`RecordsError`] if the file is damaged, another program's, or a newer version's.
    pub fn open(state: &StateDir, now: Instant) -> Result<Self, RecordsError> {
        let engine = Engine::open(state, now)?;
        Ok(Self::of(engine))
    }

    /// Opens the records of a tenant in a database on PostgreSQL. Files that wait are in the state
    /// folder. Blocks, as every method of the database does. It is cheap: all tenants share the
    /// connections of the database, and only the first one opened reads from it.
    ///
    /// # Errors
    /// [`RecordsError`] if the database does not answer.
    pub fn open_at(
        state: &StateDir,
        database: &Database,
        tenant: &Tenant,
        now: Instant,
    ) -> Result<Self, RecordsError> {
        let engine = Engine::open_at(state, database, tenant, now)?;
        Ok(Self::of(engine))
    }

    /// Returns whether the state folder has a database, which [`Records::open`] would not create.
    pub fn exists(state: &StateDir) -> bool {
        Engine::exists(state)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Reads one moment of the database, as the caller may see it. Blocks.
    ///
    /// # Errors
    /// The error of `read`, or why the caller's grant does not count.
    pub fn read<T>(
        &self,
        permit: &RecordsPermit,
        now: Instant,
        read: impl FnOnce(&RecordsView<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.read_within(&ReadLimit::none(), permit, now, read)
    }

    /// Reads as [`Records::read`] does, until `limit` is reached.
    ///
    /// # Errors
    /// The errors of [`Records::read`]; [`Problem::QueryTooBroad`] if the limit was reached.
    pub fn read_within<T>(
        &self,
        limit: &ReadLimit,
        permit: &RecordsPermit,
        now: Instant,
        read: impl FnOnce(&RecordsView<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let engine = self.engine();
        let mut read = Some(read);
        for _ in 0..2 {
            let done = engine.read_within(limit, |snapshot, seals| {
                match grants::access(snapshot, permit.caller(), now, &self.inner.grants)? {
                    Access::Unbound => Ok(None),
                    Access::Granted(authority) => {
                        let view = RecordsView::new(snapshot, authority, seals, now);
                        read.take().map(|read| read(&view)).transpose()
                    }
                }
            })?;
            match done {
                Some(done) => return Ok(done),
                None => grants::bind(engine, permit.caller(), now)?,
            }
        }
        Err(Problem::GrantConsumed)
    }

    /// Seals state that a client will send back, with the key that also seals cursors.
    ///
    /// # Errors
    /// [`Problem::Internal`] if the system gives no random bytes.
    pub fn seal(&self, plain: &[u8]) -> Result<String, Problem> {
        self.engine().seals().seal_for_client(plain)
    }

    /// Opens what [`Records::seal`] made, on this server or another one with the same database.
    /// Returns `None` for every other text.
    pub fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.engine().seals().open(text)
    }

    /// Stores all that `write` does, durably, or nothing if it fails. Blocks.
    ///
    /// # Errors
    /// The error of `write` or of the database.
    pub fn write<T>(
        &self,
        permit: &OwnerPermit,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.write_at(permit, now(), write)
    }

    /// Does what [`Records::write`] does, at a time that the caller names.
    ///
    /// # Errors
    /// The errors of [`Records::write`].
    pub fn write_at<T>(
        &self,
        _permit: &OwnerPermit,
        now: Instant,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let run_records = self.inner.run_records.load(atomic::Ordering::Relaxed);
        self.engine().write_with(run_records, now, write)
    }

    /// Returns what prepares the records of a stream, before a write stores them.
    pub fn preparer(&self, target: &TargetStream) -> RecordPreparer {
        RecordPreparer::new(target)
    }

    /// Copies one moment of the database to a new file, while others read and write. Blocks.
    ///
    /// # Errors
    /// [`RecordsError`]; the file then does not exist.
    pub fn backup(&self, _permit: &OwnerPermit, to: &Path) -> Result<(), RecordsError> {
        self.engine().backup(to)
    }

    /// Checks every page and index of the database. Blocks for long.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] if the check finds damage.
    pub fn check(&self, _permit: &OwnerPermit) -> Result<(), Problem> {
        self.engine().check()
    }

    /// Stores a new grant, durably, and returns its identifier.
    ///
    /// # Errors
    /// The error of the database. The inner [`BadGrant`] names what an incomplete grant lacks.
    pub fn grant(
        &self,
        _permit: &OwnerPermit,
        grant: &Grant,
    ) -> Result<Result<String, BadGrant>, Problem> {
        let json = match grant.to_json() {
            Ok(json) => json,
            Err(bad) => return Ok(Err(bad)),
        };
        let id = format!("grt_{}", uuid::Uuid::new_v4().simple());
        self.engine().write(now(), |batch| batch.insert_grant(&id, &json))?;
        Ok(Ok(id))
    }

    /// Returns all grants, the oldest first.
    pub fn grants(&self, _permit: &OwnerPermit) -> Result<Vec<GrantRecord>, Problem> {
        let rows = self.engine().read(|snapshot, _| snapshot.grants())?;
        let mut grants: Vec<GrantRecord> = rows.into_iter().map(GrantRecord::parse).collect();
        grants.sort_by_key(|grant| grant.grant.as_ref().map(|grant| grant.issued));
        Ok(grants)
    }

    /// Returns one grant; `None` if it does not exist.
    ///
    /// # Errors
    /// The error of the database.
    pub fn find_grant(
        &self,
        _permit: &OwnerPermit,
        id: &str,
    ) -> Result<Option<GrantRecord>, Problem> {
        let row = self.engine().read(|snapshot, _| snapshot.grant(id))?;
        Ok(row.map(GrantRecord::parse))
    }

    /// Revokes a grant, durably: it no longer counts from the next request on. Returns `None`
    /// for an unknown grant. The inner value is the time of an earlier revocation, if any.
    pub fn revoke(
        &self,
        _permit: &OwnerPermit,
        id: &str,
        now: Instant,
    ) -> Result<Option<Option<Instant>>, Problem> {
        self.engine().write(now, |batch| batch.revoke_grant(id, now))
    }

    /// Creates a file for bytes that wait: to be written to the database, or for their reader.
    pub fn create_spool_file(&self) -> io::Result<SpoolFile> {
        let name = format!("spool-{}", uuid::Uuid::new_v4().simple());
        SpoolFile::create(&self.engine().sibling(&name))
    }
}
