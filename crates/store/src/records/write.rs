//! Stores records, all of a batch or nothing.
//!
//! An unchanged record is left untouched, and of a changed record only the changed values are
//! written. Values that are too long for the record go into pieces, and searchable text goes into
//! the index of tokens, in the same transaction. A streamed value is read twice, so that it is
//! never in memory as a whole: first to compute its digest, and again to store it if it is new.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ring::digest::{Context, SHA256};
use stile_domain::base64::{Base64Check, is_base64};
use stile_domain::records::filter::record_time;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::order::order_key;
use stile_domain::records::pieces::{self, INLINE_BYTES, MAX_RECORD, MAX_SLOTS, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, BodyWriter, RecordBody, StoredValue};
use stile_domain::records::value::{FieldValue, RecordFields};

use super::field_index::RUN_RECORDS;
use super::model::{
    IncomingRecord, StreamDeclaration, StreamedField, TargetStream, UpsertOutcome, WriteRefusal,
};
use super::port::{NewRecord, RecordContent, RowWriter};
use super::tagged_tokens::TaggedTokens;
use field_values::FieldIndexes;
use index::{Indexer, add_tokens, write_tokens};
use long_texts::{Cutter, each_text, measured, measured_source};

mod blobs;
mod changes;
mod empty;
mod field_values;
mod grants;
mod index;
mod long_texts;
pub(super) mod prepared;
pub(super) mod redeclare;
pub(super) mod removal;

/// A transaction that writes records, blobs, declarations and grants, all or nothing.
///
/// Every method can fail with the error of the database. After a failed write the batch must be
/// abandoned.
pub struct WriteBatch<'t> {
    rows: &'t dyn RowWriter,
    now: Instant,
    /// The number of lines that it added to the log of changes.
    logged: i64,
    /// The number of blobs that it stored.
    stored_blobs: i64,
    field_indexes: FieldIndexes,
    /// Whether the last record was prepared and new.
    expects_new: bool,
}

/// One field that is about to be stored.
struct Part<'a> {
    name: &'a str,
    binary: bool,
    searchable: bool,
    held: StoredValue<'a>,
    /// The text that goes into pieces or into the index.
    text: Option<Text<'a>>,
}

/// The slots of a record, each with the index of its part.
type Slots = Vec<(u16, usize)>;

enum Text<'a> {
    Memory(&'a str),
    /// The index of a streamed field.
    Source(usize),
}

impl<'t> WriteBatch<'t> {
    pub(super) fn new(rows: &'t dyn RowWriter, now: Instant) -> Self {
        let field_indexes = FieldIndexes::new(RUN_RECORDS);
        Self { rows, now, logged: 0, stored_blobs: 0, field_indexes, expects_new: false }
    }

    /// Runs `write`, and then what belongs to every write.
    pub(super) fn run<T>(
        rows: &dyn RowWriter,
        now: Instant,
        run_records: u32,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let field_indexes = FieldIndexes::new(run_records);
        let mut batch = WriteBatch { field_indexes, ..WriteBatch::new(rows, now) };
        let done = write(&mut batch)?;
        batch.continue_removals()?;
        batch.field_indexes.finish(rows)?;
        batch.expire_states()?;
        batch.drop_unused_blobs()?;
        Ok(done)
    }

    /// Finds the stream of a connection.
    pub fn target(
        &self,
        connection: &SourceName,
        stream: &SourceName,
    ) -> Result<Option<TargetStream>, Problem> {
        let found = self.rows.stream(connection.as_str(), stream.as_str())?;
        found.map(|found| self.target_of(found)).transpose()
    }

    pub(super) fn target_of(&self, found: StreamDeclaration) -> Result<TargetStream, Problem> {
        let StreamDeclaration { id, declaration, indexed } = found;
        let indexed: IndexedFields =
            serde_json::from_str(&indexed).map_err(|_| Problem::Corrupt)?;
        let tags = self.tags(id, &indexed)?;
        Ok(TargetStream { id, declaration, indexed, tags })
    }

    /// Declares a new stream of a connection. If one of this name was removed, no grant of it
    /// covers the new one.
    pub fn declare(
        &mut self,
        connection: &SourceName,
        stream: &SourceName,
        declaration: &str,
        indexed: &IndexedFields,
    ) -> Result<TargetStream, Problem> {
        let id = match self.take_over_removed(connection, stream)? {
            Some(removed) => {
                self.declare_over(removed, declaration, indexed)?;
                removed
            }
            None => {
                let json = serde_json::to_string(indexed).unwrap_or_default();
                let (connection, stream) = (connection.as_str(), stream.as_str());
                self.rows.insert_stream(connection, stream, declaration, &json)?
            }
        };
        self.field_indexes.declare(self.rows, id, declaration)?;
        let tags = self.tags(id, indexed)?;
        let (declaration, indexed) = (declaration.to_owned(), indexed.clone());
        Ok(TargetStream { id, declaration, indexed, tags })
    }

    /// Returns the tags of a stream's fields, after adding those that searchable fields lack.
    fn tags(&self, stream: i64, indexed: &IndexedFields) -> Result<HashMap<String, i64>, Problem> {
        let tags = self.rows.tags(stream)?;
        let missing = indexed.searchable.iter().filter(|field| !tags.contains_key(*field));
        let mut added = false;
        for field in missing {
            self.rows.add_tag(stream, field)?;
            added = true;
        }
        if added { self.rows.tags(stream) } else { Ok(tags) }
    }

    /// Stores a record, and replaces the record with the same key.
    pub fn upsert(
        &mut self,
        target: &TargetStream,
        mut incoming: IncomingRecord<'_>,
    ) -> Result<UpsertOutcome, Problem> {
        if incoming.streamed.is_empty() {
            return self.store(target, &mut incoming);
        }
        // A streamed text can turn out to have changed when half of it is stored.
        self.rows.begin_step()?;
        let upserted = self.store(target, &mut incoming)?;
        match upserted {
            UpsertOutcome::Refused(_) => self.rows.undo_step()?,
            _ => self.rows.keep_step()?,
        }
        Ok(upserted)
    }

    fn store(
        &mut self,
        target: &TargetStream,
        incoming: &mut IncomingRecord<'_>,
    ) -> Result<UpsertOutcome, Problem> {
        let IncomingRecord { key, emitted, fields, streamed: long } = incoming;
        let parts = match parts(target, fields, long) {
            Ok(parts) => parts,
            Err(refused) => return Ok(UpsertOutcome::Refused(refused)),
        };
        let (body, slots) = match assemble(&parts) {
            Some(assembled) => assembled,
            None => return Ok(UpsertOutcome::Refused(WriteRefusal::TooManyLong)),
        };
        let before = self.stored(target, key)?;
        if before.as_ref().is_some_and(|(_, bytes)| *bytes == body) {
            return Ok(UpsertOutcome::Unchanged);
        }
        // A record without fields has an empty body and is there nonetheless.
        let is_new = before.is_none();
        self.field_indexes.open(self.rows, target.id)?;
        let (record, old) = match before {
            Some((record, old)) => (record, old),
            None => (self.insert(target, key, *emitted, fields, &body)?, Vec::new()),
        };
        if record > MAX_RECORD {
            self.rows.delete_record(record)?;
            return Ok(UpsertOutcome::Refused(WriteRefusal::TooManyRecords));
        }
        let slots = if is_new { slots } else { self.remove_changed(record, &old, &body, slots)? };
        if let Err(refused) = self.store_slots(target, record, &parts, &slots, long)? {
            return Ok(UpsertOutcome::Refused(refused));
        }
        if is_new {
            self.add_blob_uses(record, fields)?;
            self.field_indexes.add(self.rows, target.id, record, None)?;
            return Ok(UpsertOutcome::Added);
        }
        self.replace_blob_uses(record, Some(fields))?;
        self.log_state(record, &old)?;
        self.field_indexes.change(self.rows, target.id, record, &old, Some(&body))?;
        self.update(target, record, fields, &body)?;
        Ok(UpsertOutcome::Changed)
    }

    /// Returns whether a record has this key.
    pub fn contains(&self, target: &TargetStream, key: &RecordKey) -> Result<bool, Problem> {
        self.rows.contains_key(target.id, key.as_str())
    }

    /// Returns whether the record with this key has other values than these fields, apart from the
    /// fields in `ignored`. Fields that cannot be stored count as other values. Returns `false` if
    /// there is no such record.
    pub fn differs_from(
        &self,
        target: &TargetStream,
        key: &RecordKey,
        fields: &RecordFields,
        ignored: &[&str],
    ) -> Result<bool, Problem> {
        let Some((_, stored)) = self.stored(target, key)? else { return Ok(false) };
        let Some((body, _)) =
            parts(target, fields, &mut []).ok().and_then(|parts| assemble(&parts))
        else {
            return Ok(true);
        };
        let mut compared = BTreeSet::new();
        for entry in RecordBody::new(&stored).entries().chain(RecordBody::new(&body).entries()) {
            let name = entry.map_err(|_| Problem::Corrupt)?.name;
            if !ignored.contains(&name) {
                compared.insert(name.to_owned());
            }
        }
        let is_same = RecordBody::new(&stored).is_same(RecordBody::new(&body), Some(&compared));
        is_same.map(|is_same| !is_same).map_err(|_| Problem::Corrupt)
    }

    /// Returns those fields of a record with the names wanted that are stored in it and not in
    /// pieces. Empty if there is no such record.
    pub fn short_values(
        &self,
        target: &TargetStream,
        key: &RecordKey,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<RecordFields, Problem> {
        let Some((_, body)) = self.stored(target, key)? else { return Ok(RecordFields::new()) };
        let mut found = RecordFields::new();
        for entry in RecordBody::new(&body).entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            if let Some(value) = entry.value.short().filter(|_| is_wanted(entry.name)) {
                found.push((entry.name.to_owned(), value));
            }
        }
        Ok(found)
    }

    /// Changes fields of a record that are neither searched nor stored in pieces. Changes nothing
    /// and returns `false` if there is no such record, if one of the fields is another kind of
    /// field or absent, or if nothing differs.
    pub fn change_short(
        &mut self,
        target: &TargetStream,
        key: &RecordKey,
        fields: &RecordFields,
    ) -> Result<bool, Problem> {
        let Some((record, old)) = self.stored(target, key)? else { return Ok(false) };
        let mut writer = BodyWriter::default();
        let (mut changed, mut cursor) = (0, RecordFields::new());
        for entry in RecordBody::new(&old).entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            let new = fields.iter().find(|(name, _)| name == entry.name);
            let is_short = entry.slot.is_none() && entry.value.long().is_none();
            let value = match new {
                Some((_, value)) if is_short => StoredValue::from(value),
                _ => entry.value,
            };
            changed += usize::from(new.is_some() && is_short);
            if target.indexed.cursor_field.as_deref() == Some(entry.name)
                && let Some(value) = value.short()
            {
                cursor.push((entry.name.to_owned(), value));
            }
            writer.push(&BodyField { value, ..entry });
        }
        let body = writer.finish();
        if changed < fields.len() || body == old {
            return Ok(false);
        }
        self.field_indexes.open(self.rows, target.id)?;
        self.log_state(record, &old)?;
        self.field_indexes.change(self.rows, target.id, record, &old, Some(&body))?;
        self.update(target, record, &cursor, &body)?;
        Ok(true)
    }

    /// Removes a record. Returns whether it existed.
    pub fn delete(&mut self, target: &TargetStream, key: &str) -> Result<bool, Problem> {
        let Ok(key) = RecordKey::parse(key) else { return Ok(false) };
        let Some((record, body)) = self.stored(target, &key)? else { return Ok(false) };
        self.remove(target, record, &body)?;
        Ok(true)
    }

    /// Removes a record with its pieces and tokens. Returns about how many rows that were.
    fn remove(&mut self, target: &TargetStream, record: i64, body: &[u8]) -> Result<u64, Problem> {
        let mut rows = 1;
        for (slot, entry) in &by_slot(body)? {
            self.remove_slot(record, *slot, entry)?;
            rows += entry.value.long().map_or(1, |long| long.chars.div_ceil(PIECE_CHARS));
        }
        self.replace_blob_uses(record, None)?;
        self.log_state(record, body)?;
        self.field_indexes.change(self.rows, target.id, record, body, None)?;
        self.rows.delete_record(record)?;
        Ok(rows)
    }

    fn stored(
        &self,
        target: &TargetStream,
        key: &RecordKey,
    ) -> Result<Option<(i64, Vec<u8>)>, Problem> {
        self.rows.record_by_key(target.id, key.as_str())
    }

    fn insert(
        &self,
        target: &TargetStream,
        key: &RecordKey,
        emitted: Instant,
        fields: &RecordFields,
        body: &[u8],
    ) -> Result<i64, Problem> {
        let (order, happened) = order_and_time(&target.indexed, fields, body)?;
        self.rows.insert_record(&NewRecord {
            stream: target.id,
            key: key.as_str(),
            emitted,
            state: RecordContent::new(order.as_deref(), happened, body),
        })
    }

    fn update(
        &self,
        target: &TargetStream,
        record: i64,
        fields: &RecordFields,
        body: &[u8],
    ) -> Result<(), Problem> {
        let (order, happened) = order_and_time(&target.indexed, fields, body)?;
        self.rows.update_record(record, &RecordContent::new(order.as_deref(), happened, body))
    }

    /// Removes the pieces and tokens of a record that change with its body. Returns which of the
    /// slots of the new body must be stored.
    fn remove_changed(
        &self,
        record: i64,
        old: &[u8],
        new: &[u8],
        mut slots: Slots,
    ) -> Result<Slots, Problem> {
        let (old, new) = (by_slot(old)?, by_slot(new)?);
        let short = |(_, entry): &(&u16, &BodyField<'_>)| is_short_text(&entry.value);
        let keeps_short = old.iter().filter(short).eq(new.iter().filter(short));
        let is_kept = |slot: u16| match old.get(&slot) {
            Some(entry) if new.get(&slot) == Some(entry) => {
                keeps_short || !is_short_text(&entry.value)
            }
            _ => false,
        };
        for (slot, entry) in &old {
            if !is_kept(*slot) {
                self.remove_slot(record, *slot, entry)?;
            }
        }
        slots.retain(|(slot, _)| !is_kept(*slot));
        Ok(slots)
    }

    fn remove_slot(&self, record: i64, slot: u16, entry: &BodyField<'_>) -> Result<(), Problem> {
        let chars = entry.value.long().map_or(1, |long| long.chars);
        for piece in 0..chars.div_ceil(PIECE_CHARS) {
            let number = pieces::number(record, slot, piece).ok_or(Problem::Corrupt)?;
            if entry.value.may_have_words() {
                self.rows.delete_tokens(number)?;
            }
            if entry.value.long().is_some() {
                self.rows.delete_piece(number)?;
            }
        }
        Ok(())
    }

    /// Stores the pieces and tokens of some values of a record: of all its short texts and lists,
    /// which share a row, or of none of them.
    fn store_slots(
        &self,
        target: &TargetStream,
        record: i64,
        parts: &[Part<'_>],
        slots: &[(u16, usize)],
        long: &mut [StreamedField<'_>],
    ) -> Result<Result<(), WriteRefusal>, Problem> {
        let stored = || slots.iter().filter_map(|(slot, at)| Some((*slot, parts.get(*at)?)));
        let mut shared = TaggedTokens::default();
        let mut first = None;
        for (slot, part) in stored().filter(|(_, part)| is_short_text(&part.held)) {
            first = first.or(Some(slot));
            if let (Some(text), Some(tag)) = (part.held.searched_text(), target.tags.get(part.name))
            {
                add_tokens(&mut shared, *tag, &text);
            }
        }
        for (slot, part) in stored() {
            if is_short_text(&part.held) {
                // The index is written fastest in the order of numbers.
                if first == Some(slot) {
                    write_tokens(self.rows, record, slot, &shared)?;
                }
            } else if let Err(refused) = self.store_slot(target, record, slot, part, long)? {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }

    /// Stores the pieces and tokens of one value.
    fn store_slot(
        &self,
        target: &TargetStream,
        record: i64,
        slot: u16,
        part: &Part<'_>,
        long: &mut [StreamedField<'_>],
    ) -> Result<Result<(), WriteRefusal>, Problem> {
        let tag = part.searchable.then(|| target.tags.get(part.name).copied()).flatten();
        let mut indexer = tag.map(|tag| Indexer::new(self.rows, tag, record, slot, &part.held));
        let mut cutter = part.held.long().map(|_| Cutter::new(record, slot));
        let mut digest = Context::new(&SHA256);
        let mut store = |text: &str| -> Result<(), Problem> {
            if let Some(indexer) = &mut indexer {
                indexer.feed(text)?;
            }
            if let Some(cutter) = &mut cutter {
                cutter.feed(text, &mut |number, piece| self.rows.insert_piece(number, piece))?;
            }
            Ok(())
        };
        match part.text {
            None => {}
            Some(Text::Memory(text)) => store(text)?,
            Some(Text::Source(at)) => {
                let Some(field) = long.get_mut(at) else { return Ok(Ok(())) };
                let read = each_text(field.text, &mut |text| {
                    digest.update(text.as_bytes());
                    store(text)
                });
                if let Err(refused) = read? {
                    return Ok(Err(refused));
                }
                // The body has the digest of the first read.
                if part.held.long().is_none_or(|long| long.digest != *digest.finish().as_ref()) {
                    return Ok(Err(WriteRefusal::Unreadable));
                }
            }
        }
        if let Some(indexer) = indexer {
            indexer.finish()?;
        }
        if let Some(cutter) = cutter {
            cutter.finish(&mut |number, piece| self.rows.insert_piece(number, piece))?;
        }
        Ok(Ok(()))
    }
}

/// Returns the order key and the time of a record.
fn order_and_time(
    indexed: &IndexedFields,
    fields: &RecordFields,
    body: &[u8],
) -> Result<(Option<Vec<u8>>, Option<i64>), Problem> {
    let cursor = indexed
        .cursor_field
        .as_deref()
        .and_then(|name| fields.iter().find(|(field, _)| field == name));
    let order = cursor.and_then(|(_, value)| order_key(value, indexed.ordering()));
    let happened = match &indexed.time_field {
        None => None,
        Some(field) => record_time(RecordBody::new(body), field).map_err(|_| Problem::Corrupt)?,
    };
    Ok((order, happened.map(|Instant(micros)| micros)))
}

/// Decides for each value whether it stays in the record.
fn parts<'a>(
    target: &TargetStream,
    fields: &'a RecordFields,
    long: &mut [StreamedField<'a>],
) -> Result<Vec<Part<'a>>, WriteRefusal> {
    let mut parts = Vec::with_capacity(fields.len() + long.len());
    for (name, value) in fields {
        let (text, json) = match value {
            FieldValue::Text(text) => (Some(text.as_str()), false),
            FieldValue::Json(json) => (Some(json.as_str()), true),
            _ => (None, false),
        };
        let is_declared = target.indexed.binary.contains(name);
        let binary = is_declared && !json && text.is_some_and(is_base64);
        let searchable = !binary
            && StoredValue::from(value).may_have_words()
            && target.indexed.searchable.contains(name);
        let is_long = text.is_some_and(|text| text.len() > INLINE_BYTES);
        let held = match text.filter(|_| is_long) {
            Some(text) if json => StoredValue::LongJson(measured(text)?),
            Some(text) => StoredValue::LongText(measured(text)?),
            None => StoredValue::from(value),
        };
        let text = text.filter(|_| is_long || searchable).map(Text::Memory);
        parts.push(Part { name, binary, searchable, held, text });
    }
    for (at, field) in long.iter_mut().enumerate() {
        let mut check = target.indexed.binary.contains(field.name).then(Base64Check::default);
        let held = StoredValue::LongText(measured_source(field.text, check.as_mut())?);
        let binary = check.is_some_and(|check| check.is_base64());
        let searchable = !binary && target.indexed.searchable.contains(field.name);
        let part =
            Part { name: field.name, binary, searchable, held, text: Some(Text::Source(at)) };
        match parts.iter_mut().find(|part| part.name == field.name) {
            Some(place) => *place = part,
            None => parts.push(part),
        }
    }
    Ok(parts)
}

/// Writes a body, and assigns slots to its parts. Returns `None` if there are too many.
fn assemble(parts: &[Part<'_>]) -> Option<(Vec<u8>, Slots)> {
    let mut slots = Slots::new();
    let mut writer = BodyWriter::default();
    for (at, part) in parts.iter().enumerate() {
        let next = u16::try_from(slots.len()).ok().filter(|next| *next < MAX_SLOTS);
        let slot = match (&part.text, next) {
            (None, _) => None,
            (Some(_), Some(next)) => Some(next),
            // A short text can go without an index entry. A long one cannot be stored.
            (Some(_), None) if part.held.long().is_none() => None,
            (Some(_), None) => return None,
        };
        slots.extend(slot.map(|slot| (slot, at)));
        writer.push(&BodyField { name: part.name, slot, binary: part.binary, value: part.held });
    }
    Some((writer.finish(), slots))
}

/// Returns whether a value is a text or list that stays in its record. It has a slot if it is
/// searched.
fn is_short_text(value: &StoredValue<'_>) -> bool {
    value.long().is_none() && value.may_have_words()
}

fn by_slot(body: &[u8]) -> Result<BTreeMap<u16, BodyField<'_>>, Problem> {
    let entries = RecordBody::new(body).entries().filter_map(|entry| match entry {
        Ok(entry) => entry.slot.map(|slot| Ok((slot, entry))),
        Err(_) => Some(Err(Problem::Corrupt)),
    });
    entries.collect()
}
