//! Declaring a stream anew, with records in it.
//!
//! Where a record stands in lists, when it happened, and what of it is found by a search follow
//! from the declaration, so all of that is made again, in one transaction and one record at a time:
//! afterwards everything is as if the records had come under the new declaration. Their numbers,
//! keys and times of ingest stay. A long text whose slot is another one now is renamed where it
//! lies and not written again.

use rusqlite::params;
use stile_domain::records::filter::record_time;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::order::order_key;
use stile_domain::records::pieces::{self, MAX_SLOTS, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, BodyWriter, RecordBody, StoredValue};
use stile_domain::records::value::FieldValue;

use super::index::Indexer;
use super::problem;
use super::write::{TargetStream, WriteBatch};

/// Records whose keys are held at once.
const PAGE: i64 = 500;

/// A field, and where it was and will be kept.
struct Moving<'a> {
    entry: BodyField<'a>,
    slot: Option<u16>,
    was_indexed: bool,
    indexed: bool,
}

impl WriteBatch<'_> {
    /// Declares a stream anew and makes its records stand as that says.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] where a record has more long and searchable values than it can
    /// have; what the database says. The batch must then be given up.
    pub fn redeclare(
        &mut self,
        target: &TargetStream,
        declaration: &str,
        terms: &IndexedFields,
    ) -> Result<TargetStream, Problem> {
        let text = "UPDATE streams SET declaration = ?2, terms = ?3, revision = revision + 1 WHERE id = ?1";
        let written = serde_json::to_string(terms).unwrap_or_default();
        self.execute(text, params![target.row, declaration, written])?;
        let tags = self.tags(target.row, terms)?;
        let made = TargetStream {
            row: target.row,
            declaration: declaration.to_owned(),
            terms: terms.clone(),
            tags,
        };
        if *terms == target.terms {
            return Ok(made);
        }
        let mut after = Vec::new();
        loop {
            let page = self.page(target.row, &after)?;
            for (record, _) in &page {
                self.place_anew(target, &made, *record)?;
            }
            let Some((_, last)) = page.into_iter().next_back() else { break };
            after = last;
        }
        Ok(made)
    }

    /// Whether the stream has a record.
    ///
    /// # Errors
    /// What the database says.
    pub fn has_records(&self, target: &TargetStream) -> Result<bool, Problem> {
        let query = self.transaction.prepare_cached("SELECT 1 FROM records WHERE stream = ?1");
        query.and_then(|mut query| query.exists([target.row])).map_err(problem)
    }

    /// The next records by key, which is after `after`.
    fn page(&self, stream: i64, after: &[u8]) -> Result<Vec<(i64, Vec<u8>)>, Problem> {
        let text =
            "SELECT id, key FROM records WHERE stream = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
        let mut query = self.transaction.prepare_cached(text).map_err(problem)?;
        let rows =
            query.query_map(params![stream, after, PAGE], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn place_anew(
        &self,
        old: &TargetStream,
        new: &TargetStream,
        record: i64,
    ) -> Result<(), Problem> {
        let mut query = self
            .transaction
            .prepare_cached("SELECT body FROM records WHERE id = ?1")
            .map_err(problem)?;
        let bytes: Vec<u8> = query.query_row([record], |row| row.get(0)).map_err(problem)?;
        let fields = moving(&bytes, &old.terms, &new.terms)?;
        for field in &fields {
            if let Some(slot) = field.entry.slot.filter(|_| field.was_indexed && !field.stays()) {
                self.each_piece(record, slot, &field.entry, |number| {
                    self.execute("DELETE FROM tokens WHERE rowid = ?1", params![number])
                })?;
            }
        }
        // Fields keep their order, so what goes up is in nobody's way from the last, and what goes
        // down from the first.
        fields
            .iter()
            .rev()
            .filter(|field| field.slot > field.entry.slot)
            .try_for_each(|up| self.rename(record, up))?;
        fields
            .iter()
            .filter(|field| field.slot < field.entry.slot)
            .try_for_each(|down| self.rename(record, down))?;
        for field in fields.iter().filter(|field| field.indexed && !field.stays()) {
            self.index(new, record, field)?;
        }
        let mut writer = BodyWriter::default();
        for field in &fields {
            writer.push(&BodyField { slot: field.slot, ..field.entry });
        }
        let order = self.order(&new.terms, record, &fields)?;
        let happened = match &new.terms.time_field {
            None => None,
            Some(field) => record_time(RecordBody::new(&bytes), field)
                .map_err(|_| Problem::Corrupt)?
                .map(|instant| instant.0),
        };
        let text = "UPDATE records SET ord = ?2, happened = ?3, body = ?4 WHERE id = ?1";
        self.execute(text, params![record, order, happened, writer.finish()])
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
    fn rename(&self, record: i64, field: &Moving<'_>) -> Result<(), Problem> {
        let (Some(_), Some(from), Some(to)) =
            (field.entry.value.long(), field.entry.slot, field.slot)
        else {
            return Ok(());
        };
        self.each_piece(record, from, &field.entry, |number| {
            let (_, _, piece) = pieces::parts(number);
            let renamed = pieces::number(record, to, piece).ok_or(Problem::Corrupt)?;
            self.execute("UPDATE pieces SET id = ?2 WHERE id = ?1", params![number, renamed])
        })
    }

    fn index(&self, target: &TargetStream, record: i64, field: &Moving<'_>) -> Result<(), Problem> {
        let (Some(slot), Some(&tag)) = (field.slot, target.tags.get(field.entry.name)) else {
            return Ok(());
        };
        let mut indexer = Indexer::new(tag, record, slot);
        let mut put = |number: i64, tokens: &str| self.insert_tokens(number, tokens);
        match field.entry.value {
            StoredValue::Text(text) => indexer.feed(text, &mut put)?,
            StoredValue::LongText(_) => self.each_piece(record, slot, &field.entry, |number| {
                indexer.feed(&self.piece_text(number)?, &mut put)
            })?,
            _ => {}
        }
        indexer.finish(&mut put)
    }

    fn piece_text(&self, number: i64) -> Result<String, Problem> {
        let mut query = self
            .transaction
            .prepare_cached("SELECT text FROM pieces WHERE id = ?1")
            .map_err(problem)?;
        let bytes: Vec<u8> = query.query_row([number], |row| row.get(0)).map_err(problem)?;
        String::from_utf8(bytes).map_err(|_| Problem::Corrupt)
    }

    fn order(
        &self,
        terms: &IndexedFields,
        record: i64,
        fields: &[Moving<'_>],
    ) -> Result<Option<Vec<u8>>, Problem> {
        let Some(name) = &terms.cursor_field else { return Ok(None) };
        let Some(field) = fields.iter().find(|field| field.entry.name == name) else {
            return Ok(None);
        };
        let value = match field.entry.value {
            StoredValue::Number(digits) => FieldValue::Number(digits.into()),
            StoredValue::Text(text) => FieldValue::Text(text.to_owned()),
            // The place in the order has the beginning of a text, and no long text is a time.
            StoredValue::LongText(long) if long.chars > 0 => {
                let first = field
                    .slot
                    .and_then(|slot| pieces::number(record, slot, 0))
                    .ok_or(Problem::Corrupt)?;
                FieldValue::Text(self.piece_text(first)?)
            }
            _ => return Ok(None),
        };
        Ok(order_key(&value, terms.ordering()))
    }
}

impl Moving<'_> {
    /// Whether its tokens may stay as they are.
    fn stays(&self) -> bool {
        self.was_indexed && self.indexed && self.slot == self.entry.slot
    }
}

/// The fields of a body, with the slots that they would have had under the new terms.
fn moving<'a>(
    bytes: &'a [u8],
    old: &IndexedFields,
    new: &IndexedFields,
) -> Result<Vec<Moving<'a>>, Problem> {
    let mut next = 0;
    let mut fields = Vec::new();
    for entry in RecordBody::new(bytes).entries() {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        let is_text =
            matches!(entry.value, StoredValue::Text(_) | StoredValue::LongText(_)) && !entry.binary;
        let is_long = entry.value.long().is_some();
        let searchable = is_text && new.searchable.contains(entry.name);
        let slot = (is_long || searchable).then_some(next).filter(|next| *next < MAX_SLOTS);
        if is_long && slot.is_none() {
            let message = "a record has more than 4,096 values that are long or searchable; declare fewer of them so";
            return Problem::refuse("query.search.lexical_fields", message);
        }
        next += u16::from(slot.is_some());
        let was_indexed = is_text && entry.slot.is_some() && old.searchable.contains(entry.name);
        fields.push(Moving { entry, slot, was_indexed, indexed: searchable && slot.is_some() });
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::instant::Instant;
    use stile_domain::records::value::RecordFields;

    use super::super::tests::{Rig, name, permits, rig};
    use super::super::{IncomingRecord, NAME};
    use super::*;

    fn terms(
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
        }
    }

    fn records() -> Vec<(String, RecordFields)> {
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

    fn fill(terms: &IndexedFields) -> Rig {
        let rig = rig();
        let filled = rig.records.write(&permits().0, |batch| {
            let target = batch.declare(&name("mail"), &name("messages"), "{}", terms)?;
            for (key, fields) in &records() {
                let key = RecordKey::parse(key).unwrap();
                batch.upsert(
                    &target,
                    IncomingRecord { key: &key, emitted: Instant(7), fields, streamed: Vec::new() },
                )?;
            }
            Ok(())
        });
        filled.unwrap();
        rig
    }

    /// All that a query can tell of the records of a database.
    fn told(rig: &Rig) -> Vec<String> {
        let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
        connection
            .execute_batch(
                "CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'tokens', 'instance')",
            )
            .unwrap();
        connection.execute("INSERT INTO tokens (tokens) VALUES ('integrity-check')", []).unwrap();
        let mut told = Vec::new();
        for query in [
            "SELECT id, CAST(key AS TEXT), hex(ord), happened, hex(body) FROM records ORDER BY id",
            "SELECT id, CAST(text AS TEXT) FROM pieces ORDER BY id",
            "SELECT v.doc, v.offset, t.field, substr(v.term, instr(v.term, char(128))) FROM temp.v v \
             JOIN tags t ON t.id = CAST(v.term AS INTEGER) ORDER BY 1, 2, 3, 4",
        ] {
            let mut query = connection.prepare(query).unwrap();
            let columns = query.column_count();
            let rows = query.query_map([], |row| {
                (0..columns)
                    .map(|at| row.get::<_, rusqlite::types::Value>(at))
                    .collect::<Result<Vec<_>, _>>()
            });
            told.extend(rows.unwrap().map(|row| format!("{:?}", row.unwrap())));
        }
        told
    }

    #[test]
    fn a_stream_declared_anew_is_as_if_its_records_had_come_under_that_declaration() {
        let all = [
            terms(Some("at"), true, Some("at"), &["text"]),
            terms(None, false, None, &[]),
            terms(Some("n"), false, Some("at"), &["big", "text2"]),
            terms(Some("text"), true, Some("title"), &["title", "text", "text2", "at", "big"]),
        ];
        let fresh: Vec<Vec<String>> = all.iter().map(|terms| told(&fill(terms))).collect();
        let rig = fill(&all[0]);
        for at in [1, 2, 3, 0, 3, 2, 1, 0] {
            let redeclared = rig.records.write(&permits().0, |batch| {
                let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
                let declared = batch.redeclare(&target, &format!("{{\"a\":{at}}}"), &all[at])?;
                assert_eq!(
                    batch.target(&name("mail"), &name("messages"))?.unwrap().terms,
                    declared.terms
                );
                Ok(())
            });
            redeclared.unwrap();
            let told = told(&rig);
            let differs = told.iter().zip(&fresh[at]).find(|(is, should)| is != should);
            assert!(told.len() == fresh[at].len() && differs.is_none(), "{at}: {differs:?}");
        }
    }

    #[test]
    fn what_is_given_up_halfway_changes_nothing() {
        let rig = fill(&terms(Some("at"), true, Some("at"), &["text"]));
        let before = told(&rig);
        let failed = rig.records.write(&permits().0, |batch| {
            let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
            batch.redeclare(&target, "{}", &terms(None, false, None, &["title"]))?;
            Err::<(), _>(Problem::Full)
        });
        assert_eq!(failed, Err(Problem::Full));
        assert_eq!(told(&rig), before);
    }
}
