//! Declares a stream again that has records.
//!
//! The order of a record in lists, its time, and what a search finds of it depend on the
//! declaration. All of these are computed again, in one transaction and one record at a time.
//! Afterwards everything is as if the records had been stored under the new declaration. Their
//! numbers, keys and times of ingest stay. If the slot of a long text changes, its pieces get new
//! numbers and are not written again.

use stile_domain::base64::Base64Check;
use stile_domain::records::filter::record_time;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::order::order_key;
use stile_domain::records::pieces::{self, MAX_SLOTS, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, BodyWriter, RecordBody, StoredValue};
use stile_domain::records::value::FieldValue;

use super::index::{Indexer, add_tokens, write_tokens};
use super::{WriteBatch, is_short_text};
use crate::records::model::TargetStream;
use crate::records::port::RecordContent;
use crate::records::tagged_tokens::TaggedTokens;

/// The number of keys that one query reads.
const PAGE: i64 = 500;

/// A field, with its old slot in `entry` and its new one.
struct MovedField<'a> {
    entry: BodyField<'a>,
    slot: Option<u16>,
    was_searchable: bool,
    is_searchable: bool,
}

impl WriteBatch<'_> {
    /// Declares a stream again, and indexes its records by the new declaration.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] if a record has more long and searchable values than it can
    /// have; the error of the database. The batch must then be abandoned.
    pub fn redeclare(
        &mut self,
        target: &TargetStream,
        declaration: &str,
        indexed: &IndexedFields,
    ) -> Result<TargetStream, Problem> {
        let json = serde_json::to_string(indexed).unwrap_or_default();
        self.rows.update_stream(target.id, declaration, &json)?;
        self.field_indexes.declare(self.rows, target.id, declaration)?;
        let tags = self.tags(target.id, indexed)?;
        let made = TargetStream {
            id: target.id,
            declaration: declaration.to_owned(),
            indexed: indexed.clone(),
            tags,
        };
        if *indexed == target.indexed {
            return Ok(made);
        }
        let mut after = Vec::new();
        loop {
            let page = self.rows.keys_after(target.id, &after, PAGE)?;
            for (record, _) in &page {
                self.reindex(target, &made, *record)?;
            }
            let Some((_, last)) = page.into_iter().next_back() else { break };
            after = last;
        }
        Ok(made)
    }

    /// Returns whether the stream has a record.
    pub fn has_records(&self, target: &TargetStream) -> Result<bool, Problem> {
        self.rows.has_records(target.id)
    }

    /// Indexes a record by the declaration `new`, which was stored under `old`.
    fn reindex(&self, old: &TargetStream, new: &TargetStream, record: i64) -> Result<(), Problem> {
        let bytes = self.rows.body(record)?;
        let fields = self.moved_fields(record, &bytes, &old.indexed, &new.indexed)?;
        let mut short = fields.iter().filter(|field| field.is_short_text() && field.has_tokens());
        let keeps_short = short.all(|field| field.keeps_tokens());
        let is_kept = |field: &MovedField<'_>| {
            field.keeps_tokens() && (keeps_short || !field.is_short_text())
        };
        for field in &fields {
            if let Some(slot) = field.entry.slot.filter(|_| field.was_searchable && !is_kept(field))
            {
                self.each_piece(record, slot, &field.entry, |number| {
                    self.rows.delete_tokens(number)
                })?;
            }
        }
        // Fields keep their order. Slots that grow are free from the last field on, and slots that
        // shrink from the first.
        fields
            .iter()
            .rev()
            .filter(|field| field.slot > field.entry.slot)
            .try_for_each(|up| self.renumber(record, up))?;
        fields
            .iter()
            .filter(|field| field.slot < field.entry.slot)
            .try_for_each(|down| self.renumber(record, down))?;
        let indexed = fields.iter().filter(|field| field.is_searchable && !is_kept(field));
        self.index_fields(new, record, &indexed.collect::<Vec<_>>())?;
        let mut writer = BodyWriter::default();
        for field in &fields {
            writer.push(&BodyField { slot: field.slot, ..field.entry });
        }
        let order = self.order(&new.indexed, record, &fields)?;
        let happened = match &new.indexed.time_field {
            None => None,
            Some(field) => record_time(RecordBody::new(&bytes), field)
                .map_err(|_| Problem::Corrupt)?
                .map(|instant| instant.0),
        };
        let body = writer.finish();
        self.rows.update_record(record, &RecordContent::new(order.as_deref(), happened, &body))
    }

    /// Writes the index of a record that has none, as its declaration wants it.
    pub(in crate::records) fn index_anew(
        &self,
        target: &TargetStream,
        record: i64,
        body: &[u8],
    ) -> Result<(), Problem> {
        let mut fields = Vec::new();
        for entry in RecordBody::new(body).entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            let has_words = entry.value.may_have_words() && !entry.binary;
            if has_words && target.indexed.searchable.contains(entry.name) {
                let slot = entry.slot;
                let is_searchable = slot.is_some();
                fields.push(MovedField { entry, slot, was_searchable: false, is_searchable });
            }
        }
        let indexed = fields.iter().filter(|field| field.is_searchable);
        self.index_fields(target, record, &indexed.collect::<Vec<_>>())
    }

    /// Writes the index of some fields of a record: of all its short texts and lists, which share a
    /// row, or of none of them.
    fn index_fields(
        &self,
        target: &TargetStream,
        record: i64,
        fields: &[&MovedField<'_>],
    ) -> Result<(), Problem> {
        let mut shared = TaggedTokens::default();
        for field in fields {
            if let Some(text) = field.entry.value.searched_text()
                && let Some(tag) = target.tags.get(field.entry.name)
            {
                add_tokens(&mut shared, *tag, &text);
            }
        }
        let first = fields.iter().find(|field| field.is_short_text()).and_then(|field| field.slot);
        for field in fields {
            if !field.is_short_text() {
                self.index(target, record, field)?;
            } else if let Some(slot) = first.filter(|slot| field.slot == Some(*slot)) {
                write_tokens(self.rows, record, slot, &shared)?;
            }
        }
        Ok(())
    }

    /// Returns the fields of a body, with their slots under the new declaration.
    fn moved_fields<'a>(
        &self,
        record: i64,
        bytes: &'a [u8],
        old: &IndexedFields,
        new: &IndexedFields,
    ) -> Result<Vec<MovedField<'a>>, Problem> {
        let mut next = 0;
        let mut fields = Vec::new();
        for entry in RecordBody::new(bytes).entries() {
            let stored = entry.map_err(|_| Problem::Corrupt)?;
            let entry = BodyField { binary: self.is_binary(record, &stored, old, new)?, ..stored };
            let has_words = entry.value.may_have_words();
            let is_long = entry.value.long().is_some();
            let searchable = has_words && !entry.binary && new.searchable.contains(entry.name);
            let slot = (is_long || searchable).then_some(next).filter(|next| *next < MAX_SLOTS);
            if is_long && slot.is_none() {
                let message = "a record has more than 4,096 values that are long or searchable; declare fewer of them so";
                return Problem::refuse("query.search.lexical_fields", message);
            }
            next += u16::from(slot.is_some());
            let had_tokens = has_words && !stored.binary && entry.slot.is_some();
            let was_searchable = had_tokens && old.searchable.contains(entry.name);
            let is_searchable = searchable && slot.is_some();
            fields.push(MovedField { entry, slot, was_searchable, is_searchable });
        }
        Ok(fields)
    }

    /// Whether a field holds bytes under the new declaration.
    fn is_binary(
        &self,
        record: i64,
        stored: &BodyField<'_>,
        old: &IndexedFields,
        new: &IndexedFields,
    ) -> Result<bool, Problem> {
        let is_declared = |indexed: &IndexedFields| indexed.binary.contains(stored.name);
        if !is_declared(new) || is_declared(old) {
            return Ok(is_declared(new) && stored.binary);
        }
        let mut check = Base64Check::default();
        match (stored.value, stored.slot) {
            (StoredValue::Text(text), _) => check.feed(text),
            (StoredValue::LongText(_), Some(slot)) => {
                self.each_piece(record, slot, stored, |number| {
                    check.feed(&self.rows.piece_text(number)?);
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(check.is_base64())
    }

    fn each_piece(
        &self,
        record: i64,
        slot: u16,
        entry: &BodyField<'_>,
        mut act: impl FnMut(i64) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let chars = entry.value.long().map_or(1, |long| long.chars);
        (0..chars.div_ceil(PIECE_CHARS))
            .try_for_each(|piece| act(pieces::number(record, slot, piece).ok_or(Problem::Corrupt)?))
    }

    /// Gives the pieces of a long value the numbers of its new slot.
    fn renumber(&self, record: i64, field: &MovedField<'_>) -> Result<(), Problem> {
        let (Some(_), Some(from), Some(to)) =
            (field.entry.value.long(), field.entry.slot, field.slot)
        else {
            return Ok(());
        };
        self.each_piece(record, from, &field.entry, |number| {
            let (_, _, piece) = pieces::parts(number);
            let new_number = pieces::number(record, to, piece).ok_or(Problem::Corrupt)?;
            self.rows.renumber_piece(number, new_number)
        })
    }

    /// Writes the index of a field that is kept in pieces.
    fn index(
        &self,
        target: &TargetStream,
        record: i64,
        field: &MovedField<'_>,
    ) -> Result<(), Problem> {
        let (Some(slot), Some(&tag)) = (field.slot, target.tags.get(field.entry.name)) else {
            return Ok(());
        };
        let mut indexer = Indexer::new(self.rows, tag, record, slot, &field.entry.value);
        self.each_piece(record, slot, &field.entry, |number| {
            indexer.feed(&self.rows.piece_text(number)?)
        })?;
        indexer.finish()
    }

    fn order(
        &self,
        indexed: &IndexedFields,
        record: i64,
        fields: &[MovedField<'_>],
    ) -> Result<Option<Vec<u8>>, Problem> {
        let Some(name) = &indexed.cursor_field else { return Ok(None) };
        let Some(field) = fields.iter().find(|field| field.entry.name == name) else {
            return Ok(None);
        };
        let value = match field.entry.value {
            StoredValue::Number(digits) => FieldValue::Number(digits.into()),
            StoredValue::Text(text) => FieldValue::Text(text.to_owned()),
            // An order key has the beginning of a text, and no long text is a time.
            StoredValue::LongText(long) if long.chars > 0 => {
                let first = field
                    .slot
                    .and_then(|slot| pieces::number(record, slot, 0))
                    .ok_or(Problem::Corrupt)?;
                FieldValue::Text(self.rows.piece_text(first)?)
            }
            _ => return Ok(None),
        };
        Ok(order_key(&value, indexed.ordering()))
    }
}

impl MovedField<'_> {
    fn is_short_text(&self) -> bool {
        is_short_text(&self.entry.value)
    }

    fn has_tokens(&self) -> bool {
        self.was_searchable || self.is_searchable
    }

    /// Returns whether the tokens of the field stay as they are.
    fn keeps_tokens(&self) -> bool {
        self.was_searchable && self.is_searchable && self.slot == self.entry.slot
    }
}

#[cfg(test)]
pub(in crate::records) mod tests {
    use rusqlite::Connection;
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::value::RecordFields;

    use super::*;
    use crate::records::sqlite::NAME;
    use crate::records::sqlite::tests::{Rig, incoming, name, permits, rig};

    pub(in crate::records) fn indexed(
        cursor: Option<&str>,
        is_time: bool,
        time: Option<&str>,
        searchable: &[&str],
    ) -> IndexedFields {
        IndexedFields {
            cursor_field: cursor.map(str::to_owned),
            cursor_is_time: is_time,
            time_field: time.map(str::to_owned),
            searchable: searchable.iter().map(|&name| name.to_owned()).collect(),
            ..IndexedFields::default()
        }
    }

    pub(in crate::records) fn records() -> Vec<(String, RecordFields)> {
        let text = |text: &str| FieldValue::Text(text.to_owned());
        let mut records: Vec<(String, RecordFields)> = Vec::new();
        for at in 0..603 {
            let mut fields: RecordFields = vec![
                ("at".to_owned(), text(&format!("2026-01-{:02}", at % 28 + 1))),
                ("title".to_owned(), text(&format!("Title {at}"))),
                ("n".to_owned(), FieldValue::Number(at.to_string().into())),
                ("text".to_owned(), text(&format!("some words of {at}"))),
            ];
            match at % 100 {
                0 => {
                    fields.insert(1, ("big".to_owned(), text(&format!("long {at} ").repeat(2000))))
                }
                1 => fields.push(("text2".to_owned(), text(&"wörter 👩‍👧 ".repeat(3000)))),
                2 => fields.insert(
                    0,
                    ("json".to_owned(), FieldValue::Json(format!("[{}1]", "1,".repeat(1000)))),
                ),
                3 => fields
                    .iter_mut()
                    .for_each(|(_, value)| *value = text(&"the same long words ".repeat(600))),
                4 => fields.clear(),
                5 => fields.push(("big".to_owned(), text(&"abcdEFGH0123".repeat(200)))),
                _ => {}
            }
            records.push((format!("k{at}"), fields));
        }
        records
    }

    fn fill(indexed: &IndexedFields) -> Rig {
        let rig = rig();
        let filled = rig.records.write(&permits().0, |batch| {
            let target = batch.declare(&name("mail"), &name("messages"), "{}", indexed)?;
            for (key, fields) in &records() {
                let key = RecordKey::parse(key).unwrap();
                batch.upsert(&target, incoming(&key, fields))?;
            }
            Ok(())
        });
        filled.unwrap();
        rig
    }

    /// Reads all that a query can read of the records of a database.
    pub(in crate::records) fn contents(rig: &Rig) -> Vec<String> {
        let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
        connection
            .execute_batch(
                "CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'tokens', 'instance')",
            )
            .unwrap();
        connection.execute("INSERT INTO tokens (tokens) VALUES ('integrity-check')", []).unwrap();
        let mut contents = Vec::new();
        for query in [
            "SELECT id, CAST(key AS TEXT), hex(ord), happened, hex(body) FROM records ORDER BY id",
            "SELECT id, CAST(text AS TEXT) FROM pieces ORDER BY id",
            "SELECT v.doc, v.offset, t.field, substr(v.term, instr(v.term, char(128))) \
             FROM temp.v v JOIN tags t ON t.id = CAST(v.term AS INTEGER) ORDER BY 1, 2, 3, 4",
        ] {
            let mut query = connection.prepare(query).unwrap();
            let columns = query.column_count();
            let rows = query.query_map([], |row| {
                (0..columns)
                    .map(|at| row.get::<_, rusqlite::types::Value>(at))
                    .collect::<Result<Vec<_>, _>>()
            });
            contents.extend(rows.unwrap().map(|row| format!("{:?}", row.unwrap())));
        }
        contents
    }

    #[test]
    fn records_of_a_redeclared_stream_equal_records_stored_under_that_declaration() {
        let all = [
            indexed(Some("at"), true, Some("at"), &["text"]),
            indexed(None, false, None, &[]),
            indexed(Some("n"), false, Some("at"), &["big", "text2"]),
            indexed(Some("text"), true, Some("title"), &["title", "text", "text2", "at", "big"]),
            IndexedFields {
                binary: ["big", "n", "title"].map(str::to_owned).into(),
                ..indexed(Some("at"), true, None, &["big", "text", "title"])
            },
        ];
        let fresh: Vec<Vec<String>> = all.iter().map(|indexed| contents(&fill(indexed))).collect();
        let rig = fill(&all[0]);
        for at in [1, 2, 4, 3, 4, 0, 3, 4, 1, 4, 2, 1, 0] {
            let redeclared = rig.records.write(&permits().0, |batch| {
                let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
                let declared = batch.redeclare(&target, &format!("{{\"a\":{at}}}"), &all[at])?;
                assert_eq!(
                    batch.target(&name("mail"), &name("messages"))?.unwrap().indexed,
                    declared.indexed
                );
                Ok(())
            });
            redeclared.unwrap();
            let now = contents(&rig);
            let differs = now.iter().zip(&fresh[at]).find(|(is, should)| is != should);
            assert!(now.len() == fresh[at].len() && differs.is_none(), "{at}: {differs:?}");
        }
    }

    #[test]
    fn an_abandoned_redeclaration_changes_nothing() {
        let rig = fill(&indexed(Some("at"), true, Some("at"), &["text"]));
        let before = contents(&rig);
        let failed = rig.records.write(&permits().0, |batch| {
            let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
            batch.redeclare(&target, "{}", &indexed(None, false, None, &["title"]))?;
            Err::<(), _>(Problem::Full)
        });
        assert_eq!(failed, Err(Problem::Full));
        assert_eq!(contents(&rig), before);
    }
}
