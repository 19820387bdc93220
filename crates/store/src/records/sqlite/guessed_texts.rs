//! Makes texts searchable that an earlier version took for bytes by their looks.
//!
//! Schema 8 begins this work, and every start goes on with it until it is done: one bounded
//! transaction after another, each of which writes down how far it came. A text reads as a text at
//! once, whatever its flag; only a search finds it later. Nothing a client sees as a change is
//! written, since the values are the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, TransactionBehavior, params};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, BodyWriter, RecordBody};

use super::error::problem;
use super::write::SqliteWriter;
use crate::records::model::TargetStream;
use crate::records::port::{RowWriter as _, StreamDeclaration};
use crate::records::write::WriteBatch;

/// The limits of one transaction.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The number of records that it looks at.
    pub(super) read: usize,
    /// The number of records that it indexes.
    pub(super) indexed: usize,
    /// The length of their texts in bytes, past which it indexes no further record.
    pub(super) bytes: u64,
}

/// A fraction of a second of work, and less than the log of the database holds.
pub(super) const STEP: Step = Step { read: 50_000, indexed: 500, bytes: 16 * 1024 * 1024 };

/// What a step finds.
struct Found {
    /// The numbers of the records, each with its stream.
    records: Vec<(i64, i64)>,
    /// The last record that was read; `None` after the last of all.
    next: Option<i64>,
}

/// Does one step. Returns whether more remains.
pub(super) fn index_some(
    writer: &mut Connection,
    now: Instant,
    step: Step,
) -> Result<bool, Problem> {
    let transaction =
        writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(problem)?;
    let read = "SELECT guessed_from FROM history";
    let from: Option<i64> = transaction.query_row(read, [], |row| row.get(0)).map_err(problem)?;
    let Some(from) = from else { return Ok(false) };
    let writer = SqliteWriter::new(&transaction);
    let batch = WriteBatch::new(&writer, now);
    let Found { records, next } = writer.guessed_records(from, step)?;
    let mut targets = HashMap::new();
    for (record, stream) in records {
        let target = match targets.entry(stream) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(batch.target_of(writer.declaration(stream)?)?),
        };
        index_guessed(&writer, &batch, target, record)?;
    }
    writer.execute("UPDATE history SET guessed_from = ?1", [next])?;
    transaction.commit().map_err(problem)?;
    Ok(next.is_some())
}

impl SqliteWriter<'_> {
    /// Finds records after the number `from` with such texts.
    fn guessed_records(&self, from: i64, step: Step) -> Result<Found, Problem> {
        let text = "SELECT id, stream, body FROM records WHERE id > ?1 ORDER BY id";
        let mut query = self.prepare(text)?;
        let mut rows = query.query([from]).map_err(problem)?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        for at in 1.. {
            let Some(row) = rows.next().map_err(problem)? else { break };
            let record = row.get(0).map_err(problem)?;
            let body = row.get_ref(2).and_then(|body| Ok(body.as_blob()?)).map_err(problem)?;
            let body = RecordBody::new(body);
            if !body.guessed_fields().map_err(|_| Problem::Corrupt)?.is_empty() {
                records.push((record, row.get(1).map_err(problem)?));
                for entry in body.entries() {
                    let entry = entry.map_err(|_| Problem::Corrupt)?;
                    bytes += entry.value.long().map_or(0, |long| long.bytes);
                }
            }
            if at >= step.read || records.len() >= step.indexed || bytes >= step.bytes {
                return Ok(Found { records, next: Some(record) });
            }
        }
        Ok(Found { records, next: None })
    }

    fn declaration(&self, stream: i64) -> Result<StreamDeclaration, Problem> {
        let mut query = self.prepare("SELECT declaration, terms FROM streams WHERE id = ?1")?;
        let row = query.query_row([stream], |row| {
            Ok(StreamDeclaration { id: stream, declaration: row.get(0)?, indexed: row.get(1)? })
        });
        row.map_err(problem)
    }
}

/// Indexes the texts of a record. If they are too many, they stay readable and unsearched.
fn index_guessed(
    writer: &SqliteWriter<'_>,
    batch: &WriteBatch<'_>,
    target: &TargetStream,
    record: i64,
) -> Result<(), Problem> {
    match batch.reindex(target, target, record) {
        Err(Problem::InvalidRequest { .. }) => {}
        done => return done,
    }
    let bytes = writer.body(record)?;
    let mut body = BodyWriter::default();
    for entry in RecordBody::new(&bytes).entries() {
        let entry: BodyField<'_> = entry.map_err(|_| Problem::Corrupt)?;
        body.push(&entry);
    }
    let text = "UPDATE records SET body = ?2 WHERE id = ?1";
    writer.execute(text, params![record, body.finish()])
}

#[cfg(test)]
pub(super) mod tests {
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::value::{FieldValue, RecordFields};

    use super::super::tests::{Rig, incoming, name, permits, rig};
    use super::super::{NAME, open_to_write, schema};
    use super::*;
    use crate::records::Records;
    use crate::records::write::redeclare::tests::contents_of_any_rows as contents;
    use crate::state::StateDir;

    /// What the version before schema 8 wrote for [`records`].
    const OLDER: &str = include_str!("store_of_schema_7.sql");

    pub(in crate::records::sqlite) fn records() -> Vec<(&'static str, RecordFields)> {
        let record = |id: &'static str, title: &str, body: &str, note: &str| {
            let fields = [("id", id), ("title", title), ("body", body), ("note", note)];
            let text = |text: &str| FieldValue::Text(text.to_owned());
            (id, fields.map(|(name, value)| (name.to_owned(), text(value))).to_vec())
        };
        let path = format!("/srv/photos/2026/{}picture1x/a", "holiday/".repeat(29));
        let dna = format!("{}GATT", "GATTACA".repeat(80));
        vec![
            record("dna", "strand", &dna, "after the strand"),
            record("path", &path, "plain words about a fern", "n"),
            record("long", "genome", &"ACGTTGCA".repeat(1400), &"tall ferns ".repeat(300)),
            record("plain", "garden", "water the ferns", "x"),
        ]
    }

    /// Makes the database of an earlier version, with its schema.
    fn older() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let older = Connection::open(folder.path().join(NAME)).unwrap();
        schema::MIGRATIONS[..7].iter().for_each(|step| older.execute_batch(step).unwrap());
        older.execute_batch(OLDER).unwrap();
        older.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
        older.pragma_update(None, "user_version", 7).unwrap();
        folder
    }

    /// Opens the database of an earlier version.
    pub(in crate::records::sqlite) fn opened_older() -> Rig {
        opened(older())
    }

    fn opened(folder: tempfile::TempDir) -> Rig {
        let state = StateDir::open(folder.path()).unwrap();
        Rig { records: Records::open(&state, Instant(0)).unwrap(), folder }
    }

    /// Stores the same records anew, under the declaration of the older database.
    pub(in crate::records::sqlite) fn fresh() -> Rig {
        let older = opened(older());
        let rig = rig();
        let (lab, notes) = (name("lab"), name("notes"));
        let target = older.records.write(&permits().0, |batch| batch.target(&lab, &notes));
        let target = target.unwrap().unwrap();
        let stored = rig.records.write(&permits().0, |batch| {
            let target = batch.declare(&lab, &notes, &target.declaration, &target.indexed)?;
            for (key, fields) in &records() {
                batch.upsert(&target, incoming(&RecordKey::parse(key).unwrap(), fields))?;
            }
            Ok(())
        });
        stored.unwrap();
        rig
    }

    #[test]
    fn texts_that_an_earlier_version_took_for_base64_are_searchable_once_opened() {
        let rig = opened(older());
        assert_eq!(contents(&rig), contents(&fresh()));
        let again = rig.folder;
        drop(rig.records);
        assert_eq!(contents(&opened(again)), contents(&fresh()), "opened again");
    }

    #[test]
    fn indexing_guessed_texts_goes_on_where_it_was_broken_off() {
        let steps = |read, indexed, bytes| Step { read, indexed, bytes };
        for step in [steps(1, 9, 1 << 20), steps(9, 1, 1 << 20), steps(9, 9, 1)] {
            for done in 0..6 {
                let folder = older();
                let mut writer = open_to_write(&folder.path().join(NAME)).unwrap();
                assert_eq!(schema::migrate(&mut writer).unwrap(), schema::Migration::Done);
                for _ in 0..done {
                    let _ = index_some(&mut writer, Instant(0), step).unwrap();
                }
                drop(writer);
                assert_eq!(contents(&opened(folder)), contents(&fresh()), "{done} steps");
            }
        }
    }

    #[test]
    fn storing_such_a_record_again_changes_nothing() {
        let rig = opened(older());
        let outcomes = rig.records.write(&permits().0, |batch| {
            let target = batch.target(&name("lab"), &name("notes"))?.unwrap();
            records()
                .iter()
                .map(|(key, fields)| {
                    batch.upsert(&target, incoming(&RecordKey::parse(key).unwrap(), fields))
                })
                .collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(outcomes.unwrap(), [crate::records::model::UpsertOutcome::Unchanged; 4]);
    }
}
