//! How records are stored, the same for an ingest and for an import.
//!
//! Both store records in batches, and each batch is one transaction.

use stile_domain::records::declaration::Semantics;
use stile_domain::records::problem::Problem;
use stile_store::records::{
    IncomingRecord, PreparedRecord, TargetStream, UpsertOutcome, WriteBatch,
};

/// The size at which a batch ends, in bytes of input. The last row of a batch may exceed it.
pub const BATCH_BYTES: u64 = 8 << 20;

/// Stores a record, which may have been prepared from the same fields. Leaves an existing record of
/// an append-only stream as it is.
///
/// # Errors
/// What the database reports.
pub fn store_record(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    semantics: Semantics,
    incoming: IncomingRecord<'_>,
    prepared: Option<&mut PreparedRecord>,
) -> Result<UpsertOutcome, Problem> {
    if semantics == Semantics::AppendOnly && batch.contains(target, incoming.key)? {
        return Ok(UpsertOutcome::Unchanged);
    }
    match prepared {
        Some(prepared) => batch.upsert_prepared(target, prepared, incoming),
        None => batch.upsert(target, incoming),
    }
}
