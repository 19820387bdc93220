//! Steps that every way of storing records shares.

use stile_domain::records::declaration::{Declaration, Semantics};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::RecordFields;
use stile_store::records::{IncomingRecord, TargetStream, UpsertOutcome, WriteBatch};

/// The most bytes of a batch, not counting its last row.
pub const BATCH_BYTES: u64 = 8 << 20;

/// Stores a record, unless the stream is one that records are only added to and it is there.
///
/// # Errors
/// What the database says.
pub fn put(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    semantics: Semantics,
    incoming: IncomingRecord<'_>,
) -> Result<UpsertOutcome, Problem> {
    if semantics == Semantics::AppendOnly && batch.contains(target, incoming.key)? {
        return Ok(UpsertOutcome::Unchanged);
    }
    batch.upsert(target, incoming)
}

/// A record without long texts.
pub fn incoming<'a>(
    key: &'a RecordKey,
    emitted: Instant,
    fields: &'a RecordFields,
) -> IncomingRecord<'a> {
    IncomingRecord { key, emitted, fields, streamed: Vec::new() }
}

/// A declaration as it is stored.
pub fn read_declaration(text: &str) -> Result<Declaration, Problem> {
    let json = serde_json::from_str(text).map_err(|_| Problem::Corrupt)?;
    Declaration::parse_stored(&json).map_err(|_| Problem::Corrupt)
}

/// A key, for a sentence.
pub fn key_in_words(key: &[String]) -> String {
    match key {
        [] => "made from the content".to_owned(),
        key => key
            .iter()
            .map(|name| format!("`{}`", super::rows::keys::shown(name)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
