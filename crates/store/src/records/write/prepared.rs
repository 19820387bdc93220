//! Prepares records before the transaction that stores them begins, in any thread.
//!
//! What a record becomes follows from its fields and from the declaration of its stream: the body,
//! the order and the time, the tokens, and the keys of its values. A prepared record remembers the
//! stream that it was prepared for. If the stream is another one by then, declared anew for
//! example, the record is stored as if it had not been prepared.

use std::sync::Arc;

use stile_domain::records::pieces::{self, MAX_RECORD};
use stile_domain::records::problem::Problem;
use stile_domain::records::value::RecordFields;

use super::field_values::{ValueKeys, declared_fields, value_keys};
use super::index::add_tokens;
use super::{WriteBatch, assemble, order_and_time, parts};
use crate::records::model::{IncomingRecord, TargetStream, UpsertOutcome, WriteRefusal};
use crate::records::port::{NewRecord, RecordContent};
use crate::records::tagged_tokens::TaggedTokens;

/// Prepares the records of one stream.
#[derive(Clone)]
pub struct RecordPreparer(Arc<StoredForm>);

/// How the records of a stream are stored.
struct StoredForm {
    target: TargetStream,
    /// The fields of the index by value.
    value_fields: Vec<String>,
}

/// A record that is ready to be stored.
pub struct PreparedRecord {
    form: Arc<StoredForm>,
    body: Vec<u8>,
    order_key: Option<Vec<u8>>,
    happened: Option<i64>,
    /// The tokens of its texts, with the slot of the first of them.
    tokens: Option<(u16, TaggedTokens)>,
    values: ValueKeys,
}

impl RecordPreparer {
    pub(in crate::records) fn new(target: &TargetStream) -> Self {
        let value_fields = declared_fields(&target.declaration);
        Self(Arc::new(StoredForm { target: target.clone(), value_fields }))
    }

    /// Returns the stream that records are prepared for.
    pub fn target(&self) -> &TargetStream {
        &self.0.target
    }

    /// Prepares a record with these fields and no streamed text. Returns `None` if a value is too
    /// long for the record, or cannot be stored.
    pub fn prepare(&self, fields: &RecordFields) -> Option<PreparedRecord> {
        let StoredForm { target, value_fields } = &*self.0;
        let parts = parts(target, fields, &mut []).ok()?;
        if parts.iter().any(|part| part.held.long().is_some()) {
            return None;
        }
        let (body, slots) = assemble(&parts)?;
        let (order_key, happened) = order_and_time(&target.indexed, fields, &body).ok()?;
        let mut tokens: Option<(u16, TaggedTokens)> = None;
        for (slot, at) in slots {
            let part = parts.get(at)?;
            let (_, row) = tokens.get_or_insert_with(|| {
                let mut row = TaggedTokens::default();
                row.reserve(body.len());
                (slot, row)
            });
            if let (Some(text), Some(tag)) = (part.held.searched_text(), target.tags.get(part.name))
            {
                add_tokens(row, *tag, &text);
            }
        }
        let tokens = tokens.filter(|(_, row)| !row.is_empty());
        let values = value_keys(value_fields, &body).ok()?;
        Some(PreparedRecord {
            form: Arc::clone(&self.0),
            body,
            order_key,
            happened,
            tokens,
            values,
        })
    }
}

impl PreparedRecord {
    /// Returns about how many bytes of memory the record takes.
    pub fn bytes(&self) -> usize {
        let tokens = self.tokens.as_ref().map_or(0, |(_, row)| row.as_str().len());
        self.body.len() + tokens + size_of_val(self.values.as_slice())
    }

    fn is_for(&self, target: &TargetStream) -> bool {
        std::ptr::eq(&self.form.target, target) || self.form.target == *target
    }
}

impl WriteBatch<'_> {
    /// Does what [`WriteBatch::upsert`] does, with a record that was prepared from the same fields.
    /// It cannot be stored again.
    pub fn upsert_prepared(
        &mut self,
        target: &TargetStream,
        prepared: &mut PreparedRecord,
        incoming: IncomingRecord<'_>,
    ) -> Result<UpsertOutcome, Problem> {
        if !prepared.is_for(target) || !incoming.streamed.is_empty() {
            return self.upsert(target, incoming);
        }
        self.field_indexes.open(self.rows, target.id)?;
        let new = NewRecord {
            stream: target.id,
            key: incoming.key.as_str(),
            emitted: incoming.emitted,
            state: RecordContent::new(
                prepared.order_key.as_deref(),
                prepared.happened,
                &prepared.body,
            ),
        };
        // An attempt to insert a key that is there costs a number, so it follows a new record only.
        let inserted = if self.expects_new { self.rows.insert_if_new(&new)? } else { None };
        self.expects_new = false;
        let record = match inserted {
            Some(record) => record,
            None => match self.stored(target, incoming.key)? {
                Some((_, body)) if body == prepared.body => return Ok(UpsertOutcome::Unchanged),
                Some(_) => return self.upsert(target, incoming),
                None => self.rows.insert_record(&new)?,
            },
        };
        if record > MAX_RECORD {
            self.rows.delete_record(record)?;
            return Ok(UpsertOutcome::Refused(WriteRefusal::TooManyRecords));
        }
        if let Some((slot, row)) = &prepared.tokens {
            let number = pieces::number(record, *slot, 0).ok_or(Problem::Corrupt)?;
            self.rows.insert_tokens(number, row)?;
        }
        self.add_blob_uses(record, incoming.fields)?;
        let values = std::mem::take(&mut prepared.values);
        let keys = Some((prepared.form.value_fields.as_slice(), values));
        self.field_indexes.add(self.rows, target.id, record, keys)?;
        self.expects_new = true;
        Ok(UpsertOutcome::Added)
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::indexed_fields::IndexedFields;
    use stile_domain::records::value::FieldValue;

    use super::*;
    use crate::records::sqlite::tests::{Rig, incoming, name, permits, rig};
    use crate::records::write::redeclare::tests::{contents, indexed, records};

    fn declared(indexed: &IndexedFields) -> (Rig, TargetStream) {
        let rig = rig();
        let declare = |batch: &mut WriteBatch<'_>| {
            batch.declare(&name("mail"), &name("messages"), "{}", indexed)
        };
        let target = rig.records.write(&permits().0, declare).unwrap();
        (rig, target)
    }

    /// Stores records that `preparer` prepared, or without one. Returns what happened to each.
    fn store(
        rig: &Rig,
        target: &TargetStream,
        preparer: Option<&RecordPreparer>,
        records: &[(String, RecordFields)],
    ) -> Vec<UpsertOutcome> {
        let store = |batch: &mut WriteBatch<'_>| {
            let store = |(key, fields): &(String, RecordFields)| {
                let key = RecordKey::parse(key).unwrap();
                match preparer.and_then(|preparer| preparer.prepare(fields)) {
                    Some(mut prepared) => {
                        batch.upsert_prepared(target, &mut prepared, incoming(&key, fields))
                    }
                    None => batch.upsert(target, incoming(&key, fields)),
                }
            };
            records.iter().map(store).collect()
        };
        rig.records.write(&permits().0, store).unwrap()
    }

    fn same(rig: &Rig, other: &Rig) {
        let (ours, theirs) = (contents(rig), contents(other));
        let differs = ours.iter().zip(&theirs).find(|(is, should)| is != should);
        assert!(ours.len() == theirs.len() && differs.is_none(), "{differs:?}");
    }

    fn declarations() -> [IndexedFields; 4] {
        [
            indexed(Some("at"), true, Some("at"), &["text", "title"]),
            indexed(Some("n"), false, Some("at"), &["big", "text2", "n"]),
            indexed(None, false, None, &[]),
            IndexedFields {
                binary: ["big", "n", "title"].map(str::to_owned).into(),
                ..indexed(Some("text"), true, Some("title"), &["big", "text", "title", "at"])
            },
        ]
    }

    #[test]
    fn a_prepared_record_is_stored_like_any_other() {
        for indexed in &declarations() {
            let ((plain, target), (prepared, same_target)) = (declared(indexed), declared(indexed));
            let preparer = prepared.records.preparer(&same_target);
            let mut records = records();
            assert!(records.iter().any(|(_, fields)| preparer.prepare(fields).is_none()));
            // Afterwards, new records are followed by those that are there.
            for (rig, target) in [(&plain, &target), (&prepared, &same_target)] {
                store(rig, target, None, &records[300..]);
            }
            for change in 0..3 {
                let outcomes = store(&plain, &target, None, &records);
                assert_eq!(store(&prepared, &target, Some(&preparer), &records), outcomes);
                same(&prepared, &plain);
                let changed = FieldValue::Text(format!("changed {change}"));
                for (_, fields) in records.iter_mut().step_by(2 + change) {
                    fields.retain(|(name, _)| name != "title");
                    fields.push(("title".to_owned(), changed.clone()));
                }
            }
        }
    }

    #[test]
    fn a_record_prepared_for_another_declaration_is_stored_by_the_one_that_counts() {
        let [before, after, ..] = declarations();
        let ((plain, target), (prepared, older)) = (declared(&after), declared(&before));
        let preparer = prepared.records.preparer(&older);
        let redeclare = |batch: &mut WriteBatch<'_>| batch.redeclare(&older, "{}", &after);
        let newer = prepared.records.write(&permits().0, redeclare).unwrap();
        store(&plain, &target, None, &records());
        store(&prepared, &newer, Some(&preparer), &records());
        same(&prepared, &plain);
    }
}
