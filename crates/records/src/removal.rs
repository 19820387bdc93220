//! Removes records, streams and connections for the owner, and brings them back.
//!
//! A removal is planned first: the plan says how many records go and which grants end. What is
//! removed can be restored for 30 days, unless it is purged at once. Everyone else sees it gone
//! from the next request on, and clients that ask for changes are told of the deletions. Grants
//! that name what is removed end, and no restoration revives them.

use stile_domain::permit::Principal;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_store::records::{
    GrantRecord, GrantStatus, KeptRemoval, RecordsView, RemovalId, RestoreStep, WriteBatch,
};

use crate::RecordService;
use crate::context::OwnerContext;
use crate::declarations::{describe_primary_key, parse_stored};

/// What the owner wants to remove.
#[derive(Clone, Debug)]
pub struct RemovalRequest {
    /// The connection to remove from.
    pub connection: SourceName,
    /// The stream to remove, or to remove records of. `None` stands for all streams.
    pub stream: Option<SourceName>,
    /// The keys of the records to remove. Empty for whole streams.
    pub keys: Vec<RecordKey>,
    /// What becomes of the records.
    pub fate: Fate,
}

/// What becomes of removed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They can be restored for 30 days.
    Kept,
    /// They go for good at once.
    Purged,
}

/// What a removal would do.
pub struct RemovalPlan {
    /// The streams, each with the number of records that would go.
    pub streams: Vec<(SourceName, u64)>,
    /// The grants that would end.
    pub grants: Vec<GrantRecord>,
}

/// What a removal did.
pub struct Removed {
    /// What [`RecordService::restore_removal`] takes. `None` if the records were purged.
    pub removal: Option<RemovalId>,
    /// The number of the records.
    pub records: u64,
    /// The identifiers of the grants that ended.
    pub grants: Vec<String>,
}

/// Why removed records cannot come back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The caller is not the owner, or the database failed.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// Nothing is kept under the identifier.
    #[error("there is no such removal; `stile records removed` shows those that can be restored")]
    Unknown,
    /// A stream was made anew under the name, with another key.
    #[error(
        "the stream `{stream}` of `{connection}` was made anew with another key, so nothing was \
         restored; remove that stream first"
    )]
    OtherKey {
        /// The connection of the stream.
        connection: SourceName,
        /// The name of the stream.
        stream: SourceName,
    },
}

impl RecordService {
    /// Returns what a removal would do. Changes nothing.
    ///
    /// # Errors
    /// If the caller is not the owner; [`Problem::StreamNotFound`]; [`Problem::NotFound`] if there
    /// is no such connection, or no record with one of the keys; the error of the database.
    pub fn plan_removal(
        &self,
        caller: &Principal,
        now: Instant,
        request: &RemovalRequest,
    ) -> Result<RemovalPlan, Problem> {
        self.run_as_owner(caller, now, |context| context.plan_removal(request))
    }

    /// Removes what a request names, and ends the grants that name it.
    ///
    /// # Errors
    /// As [`RecordService::plan_removal`]. Once a stream is hidden, an error leaves it hidden;
    /// later writes then move the rest of its records.
    pub fn carry_out_removal(
        &self,
        caller: &Principal,
        now: Instant,
        request: &RemovalRequest,
    ) -> Result<Removed, Problem> {
        self.run_as_owner(caller, now, |context| context.carry_out_removal(request))
    }

    /// Returns the removed records that can be restored, the oldest removal first.
    ///
    /// # Errors
    /// If the caller is not the owner; the error of the database.
    pub fn removals(&self, caller: &Principal, now: Instant) -> Result<Vec<KeptRemoval>, Problem> {
        self.run_as_owner(caller, now, |context| context.read(|read| read.view.removals()))
    }

    /// Puts removed records back into their streams. A record stays removed if its stream has
    /// another one with its key by now.
    ///
    /// # Errors
    /// [`RestoreError`]. The records that were restored before an error of the database are back.
    pub fn restore_removal(
        &self,
        caller: &Principal,
        now: Instant,
        removal: &str,
    ) -> Result<RestoreStep, RestoreError> {
        self.run_as_owner(caller, now, |context| context.restore_removal(removal))
    }

    /// Deletes removed records for good. Returns their number.
    ///
    /// # Errors
    /// [`RestoreError::Unknown`]; the error of the database.
    pub fn purge_removal(
        &self,
        caller: &Principal,
        now: Instant,
        removal: &str,
    ) -> Result<u64, RestoreError> {
        self.run_as_owner(caller, now, |context| context.purge_removal(removal))
    }
}

impl OwnerContext<'_> {
    fn plan_removal(&self, request: &RemovalRequest) -> Result<RemovalPlan, Problem> {
        let streams = self.read(|read| counted_streams(read.view, request))?;
        let grants = self.records.grants(self.owner)?.into_iter().filter(|grant| {
            let names = |(stream, _): &(SourceName, u64)| {
                let terms = grant.grant.as_ref();
                terms.is_some_and(|it| it.names(&request.connection, stream, &request.keys))
            };
            grant.status(self.now) == GrantStatus::Active && streams.iter().any(names)
        });
        let grants = grants.collect();
        Ok(RemovalPlan { streams, grants })
    }

    fn carry_out_removal(&self, request: &RemovalRequest) -> Result<Removed, Problem> {
        let streams = self.read(|read| counted_streams(read.view, request))?;
        let removal = (request.fate == Fate::Kept).then(RemovalId::random);
        let counted = streams.iter().map(|(_, records)| records).sum();
        let mut removed = Removed { removal, records: counted, grants: Vec::new() };
        let mut hide = |batch: &mut WriteBatch<'_>| {
            for (stream, _) in &streams {
                removed.grants.extend(hide_in(batch, request, stream, removed.removal.as_ref())?);
            }
            Ok(())
        };
        self.records.write_at(self.owner, self.now, &mut hide)?;
        if request.keys.is_empty() {
            while self.records.write_at(self.owner, self.now, |batch| batch.continue_removals())? {}
        }
        removed.grants.sort_unstable();
        removed.grants.dedup();
        Ok(removed)
    }

    /// Returns what is kept of a removal, at least one stream.
    fn kept(&self, removal: &str) -> Result<Vec<KeptRemoval>, RestoreError> {
        let mut kept = self.read(|read| read.view.removals())?;
        kept.retain(|kept| kept.stream.removal.as_str() == removal);
        if kept.is_empty() { Err(RestoreError::Unknown) } else { Ok(kept) }
    }

    fn restore_removal(&self, removal: &str) -> Result<RestoreStep, RestoreError> {
        let all = self.kept(removal)?;
        for kept in &all {
            self.check_key(kept)?;
        }
        let mut done = RestoreStep::default();
        for kept in &all {
            let mut after = Vec::new();
            while let Some((step, last)) = self
                .records
                .write_at(self.owner, self.now, |batch| batch.restore_some(kept, &after))?
            {
                done.restored += step.restored;
                done.blocked += step.blocked;
                after = last;
            }
        }
        Ok(done)
    }

    fn purge_removal(&self, removal: &str) -> Result<u64, RestoreError> {
        let all = self.kept(removal)?;
        for kept in &all {
            while !self.records.write_at(self.owner, self.now, |batch| batch.purge_removal(kept))? {
            }
        }
        Ok(all.iter().map(|kept| kept.records).sum())
    }

    /// Refuses to restore records into a stream whose keys are made in another way.
    fn check_key(&self, kept: &KeptRemoval) -> Result<(), RestoreError> {
        let (connection, stream) = (&kept.stream.connection, &kept.stream.stream);
        let found = self.read(|read| {
            match read.view.sources_of(stream.as_str(), Some(connection.as_str())) {
                Ok(sources) => Ok(sources.first().map(|source| source.declaration().clone())),
                Err(Problem::StreamNotFound { .. }) => Ok(None),
                Err(problem) => Err(problem),
            }
        })?;
        let Some(present) = found else { return Ok(()) };
        let key = |text: &str| {
            parse_stored(text).map(|declared| describe_primary_key(declared.primary_key()))
        };
        if key(&present)? == key(&kept.stream.declaration)? {
            return Ok(());
        }
        let (connection, stream) = (connection.clone(), stream.clone());
        Err(RestoreError::OtherKey { connection, stream })
    }
}

/// Hides one stream, or removes some of its records. Returns the grants that ended.
fn hide_in(
    batch: &mut WriteBatch<'_>,
    request: &RemovalRequest,
    stream: &SourceName,
    removal: Option<&RemovalId>,
) -> Result<Vec<String>, Problem> {
    let names = (&request.connection, stream);
    let Some(target) = batch.target(names.0, names.1)? else { return Ok(Vec::new()) };
    match (request.keys.as_slice(), removal) {
        ([], removal) => batch.remove_stream(&target, names, removal)?,
        (keys, Some(removal)) => {
            batch.remove_records(&target, names, keys, removal)?;
        }
        (keys, None) => {
            for key in keys {
                batch.delete(&target, key.as_str())?;
            }
        }
    }
    batch.end_grants(names.0, names.1, &request.keys)
}

/// Returns the streams that a request names, each with the number of records that would go.
fn counted_streams(
    view: &RecordsView<'_>,
    request: &RemovalRequest,
) -> Result<Vec<(SourceName, u64)>, Problem> {
    let connection = request.connection.as_str();
    let mut sources = match &request.stream {
        Some(stream) => view.sources_of(stream.as_str(), Some(connection))?,
        None => view.sources()?,
    };
    sources.retain(|source| *source.connection() == request.connection);
    if sources.is_empty() {
        return Err(Problem::NotFound);
    }
    if request.keys.is_empty() {
        let counted = sources.iter().map(|it| Ok((it.stream().clone(), view.count(it)?.0)));
        return counted.collect();
    }
    for key in &request.keys {
        if view.find_by_key(&sources, key.as_str())?.is_empty() {
            return Err(Problem::NotFound);
        }
    }
    let records = request.keys.len() as u64;
    Ok(sources.iter().map(|source| (source.stream().clone(), records)).collect())
}
