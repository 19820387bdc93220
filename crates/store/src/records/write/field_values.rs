//! Keeps the index by value: what each write changes of it, and the runs that new records become.
//!
//! A record that is stored joins the tail of its stream and writes nothing here. When a transaction
//! ends, it changes the rows of the covered records that it changed or removed, and turns long
//! tails into runs, the values sorted. So a run is written in one place of the table. A transaction
//! makes as many runs as its own records fill, and at most [`MORE_RUNS`] more: of an older
//! database, whose records have no index yet, or of a stream that was declared anew.
//!
//! The rows, and the state that says up to where they are complete, change in one transaction.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque, btree_map};
use std::ops::Bound;

use stile_domain::records::declaration::Declaration;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{DamagedBody, RecordBody};
use stile_domain::records::value_key::{ValueKey, each_key, value_fields};

use crate::records::field_index::{self, BLOCK_KEYS, FieldIndex, FieldValueKey, FieldValueRow};
use crate::records::port::RowWriter;

/// The runs that a transaction makes beyond those that its own records fill.
const MORE_RUNS: i64 = 4;
/// The runs and fields whose rows are read at once to be changed.
const MOST_FIELDS: usize = 16;
/// The changed records that a transaction remembers before it changes their rows.
const MOST_CHANGED: usize = 4096;

/// The fields of a record that are in the index, with the keys of their values.
type RecordKeys = BTreeSet<(i64, ValueKey)>;
/// The same, in the order of the body.
pub(super) type ValueKeys = Vec<(i64, ValueKey)>;

/// What one transaction does to the indexes of streams.
pub(super) struct FieldIndexes {
    run_records: u32,
    streams: HashMap<i64, HeldIndex>,
    /// How many records the transaction added.
    added: i64,
    /// How many runs it made before its end.
    made: i64,
}

struct HeldIndex {
    index: FieldIndex,
    stored: Option<FieldIndex>,
    /// The last records of the tail, if their keys are known, so that no body is read again.
    fresh: VecDeque<(i64, ValueKeys)>,
    /// Covered records that the transaction changed or removed.
    changed: BTreeMap<i64, ChangedRecord>,
}

/// A value key of a record, the record, and whether the key is new to it; otherwise it is gone.
type Move = (ValueKey, i64, bool);

struct ChangedRecord {
    before: RecordKeys,
    /// `None` if the record was removed.
    after: Option<RecordKeys>,
}

impl FieldIndexes {
    pub(super) fn new(run_records: u32) -> Self {
        Self { run_records: run_records.max(1), streams: HashMap::new(), added: 0, made: 0 }
    }

    fn held(&mut self, rows: &dyn RowWriter, stream: i64) -> Result<&mut HeldIndex, Problem> {
        match self.streams.entry(stream) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(new) => {
                let stored = rows.field_index(stream)?;
                let index = match &stored {
                    Some(index) => index.clone(),
                    None => {
                        let tail = rows.count_after(stream, 0)?;
                        FieldIndex { tail, ..FieldIndex::default() }
                    }
                };
                Ok(new.insert(HeldIndex {
                    index,
                    stored,
                    fresh: VecDeque::new(),
                    changed: BTreeMap::new(),
                }))
            }
        }
    }

    /// Reads the index of a stream. The records may have to be counted, so this comes before a
    /// record is inserted.
    pub(super) fn open(&mut self, rows: &dyn RowWriter, stream: i64) -> Result<(), Problem> {
        self.held(rows, stream).map(drop)
    }

    /// Notes a new record, with the keys of its values in some fields if they are known.
    pub(super) fn add(
        &mut self,
        rows: &dyn RowWriter,
        stream: i64,
        record: i64,
        known: Option<(&[String], ValueKeys)>,
    ) -> Result<(), Problem> {
        let run_records = self.run_records as usize;
        let held = self.held(rows, stream)?;
        held.index.tail += 1;
        match known.filter(|(fields, _)| held.index.fields.as_deref() == Some(*fields)) {
            Some((_, keys)) => held.fresh.push_back((record, keys)),
            None => held.fresh.clear(),
        }
        // The keys are at hand, so they need not wait for the end.
        let is_full = held.fresh.len() >= run_records && held.has_fresh_tail();
        self.added += 1;
        if is_full && self.make_run(rows, stream)? {
            self.made += 1;
        }
        Ok(())
    }

    /// Notes that the fields of a record change, or that the record is removed.
    pub(super) fn change(
        &mut self,
        rows: &dyn RowWriter,
        stream: i64,
        record: i64,
        before: &[u8],
        after: Option<&[u8]>,
    ) -> Result<(), Problem> {
        let held = self.held(rows, stream)?;
        let removed = i64::from(after.is_none());
        if record > held.index.covered {
            held.index.tail -= removed;
            held.fresh.clear();
            return Ok(());
        }
        held.index.indexed -= removed;
        let fields = held.index.fields.as_deref().unwrap_or_default();
        let after = after.map(|body| keys_of(fields, body).unwrap_or_default());
        match held.changed.get_mut(&record) {
            Some(changed) => changed.after = after,
            None => {
                let before = keys_of(fields, before).unwrap_or_default();
                held.changed.insert(record, ChangedRecord { before, after });
            }
        }
        if held.changed.len() >= MOST_CHANGED { held.flush(rows, stream) } else { Ok(()) }
    }

    /// Begins the index of a stream anew if the declaration names other fields than the index has.
    pub(super) fn declare(
        &mut self,
        rows: &dyn RowWriter,
        stream: i64,
        declaration: &str,
    ) -> Result<(), Problem> {
        let fields = Some(declared_fields(declaration));
        let held = self.held(rows, stream)?;
        if held.index.fields == fields {
            return Ok(());
        }
        held.changed.clear();
        held.fresh.clear();
        rows.delete_runs(stream)?;
        let tail = held.index.indexed + held.index.tail;
        held.index = FieldIndex { fields, tail, ..FieldIndex::default() };
        Ok(())
    }

    /// Writes what the transaction changed of the indexes, and makes runs of long tails.
    pub(super) fn finish(&mut self, rows: &dyn RowWriter) -> Result<(), Problem> {
        for (stream, held) in &mut self.streams {
            held.flush(rows, *stream)?;
        }
        let run_records = i64::from(self.run_records);
        let mut left = self.added / run_records + MORE_RUNS - self.made;
        let touched: Vec<i64> = self.streams.keys().copied().collect();
        for stream in touched {
            while left > 0 && self.make_run(rows, stream)? {
                left -= 1;
            }
            self.save(rows, stream)?;
        }
        while left > 0
            && let Some(stream) = rows.stream_behind(run_records)?
        {
            // A stream without fields, and one that was not looked at yet, only gets its state.
            let is_done = !self.make_run(rows, stream)?;
            self.save(rows, stream)?;
            if is_done && rows.stream_behind(run_records)? == Some(stream) {
                break;
            }
            left -= 1;
        }
        Ok(())
    }

    /// Turns the first records of a tail into a run, if they are enough. Returns whether it did.
    fn make_run(&mut self, rows: &dyn RowWriter, stream: i64) -> Result<bool, Problem> {
        let run_records = self.run_records;
        let held = self.held(rows, stream)?;
        let is_fresh = held.has_fresh_tail();
        let index = &mut held.index;
        if index.fields.is_none() {
            index.fields = Some(declared_fields(&rows.declaration(stream)?));
        }
        let fields = index.fields.as_deref().unwrap_or_default();
        if fields.is_empty() || index.tail < i64::from(run_records) {
            return Ok(false);
        }
        let (mut first, mut last, mut count) = (None, index.covered, 0);
        let mut values: Vec<(i64, ValueKey, i64)> = Vec::new();
        let mut add = |record, keys: ValueKeys| {
            first.get_or_insert(record);
            (last, count) = (record, count + 1);
            values.extend(keys.into_iter().map(|(field, value)| (field, value, record)));
        };
        if is_fresh {
            let taken = held.fresh.len().min(run_records as usize);
            held.fresh.drain(..taken).for_each(|(record, keys)| add(record, keys));
        } else {
            rows.bodies_after(stream, index.covered, run_records, &mut |record, body| {
                // What is damaged has no key. Whoever reads all records finds the damage.
                add(record, value_keys(fields, body).unwrap_or_default());
            })?;
            held.fresh.retain(|(record, _)| *record > last);
        }
        let Some(run) = first else {
            index.tail = 0;
            return Ok(false);
        };
        values.sort_unstable();
        rows.set_run(stream, run, count)?;
        rows.insert_field_values(&grouped(run, values))?;
        index.covered = last;
        index.indexed += count;
        index.tail -= count;
        Ok(true)
    }

    fn save(&mut self, rows: &dyn RowWriter, stream: i64) -> Result<(), Problem> {
        let held = self.held(rows, stream)?;
        if held.stored.as_ref() != Some(&held.index) {
            rows.put_field_index(stream, &held.index)?;
            held.stored = Some(held.index.clone());
        }
        Ok(())
    }
}

impl HeldIndex {
    /// Returns whether the keys of all records of the tail are known.
    fn has_fresh_tail(&self) -> bool {
        usize::try_from(self.index.tail) == Ok(self.fresh.len())
    }

    /// Changes the rows of the records that were changed or removed.
    fn flush(&mut self, rows: &dyn RowWriter, stream: i64) -> Result<(), Problem> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return Ok(());
        }
        let runs: BTreeMap<i64, i64> = rows.runs(stream)?.into_iter().collect();
        let mut left = runs.clone();
        // The records that each value of a run and field loses and gains.
        let mut moves: BTreeMap<(i64, i64), Vec<Move>> = BTreeMap::new();
        for (record, ChangedRecord { before, after }) in changed {
            let Some((&run, _)) = runs.range(..=record).next_back() else {
                return Err(Problem::Corrupt);
            };
            if let (None, Some(left)) = (&after, left.get_mut(&run)) {
                *left -= 1;
            }
            let after = after.unwrap_or_default();
            for (field, value) in before.difference(&after) {
                moves.entry((run, *field)).or_default().push((*value, record, false));
            }
            for (field, value) in after.difference(&before) {
                moves.entry((run, *field)).or_default().push((*value, record, true));
            }
        }
        let fields: Vec<(i64, i64)> = moves.keys().copied().collect();
        for some in fields.chunks(MOST_FIELDS) {
            let mut stored: BTreeMap<(i64, i64), BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
            for FieldValueRow { key, entries } in rows.field_value_rows(some)? {
                stored.entry((key.run, key.field)).or_default().insert(key.value, entries);
            }
            let mut put = Vec::new();
            for field in some {
                let blocks = stored.remove(field).unwrap_or_default();
                let moves = moves.remove(field).unwrap_or_default();
                put.extend(moved(*field, &blocks, &moves)?);
            }
            rows.put_field_values(&put)?;
        }
        for (run, count) in left {
            if runs.get(&run) != Some(&count) {
                rows.set_run(stream, run, count.max(0))?;
            }
        }
        Ok(())
    }
}

/// Returns the fields that a stored declaration lets requests filter by. A text that is not a
/// declaration names none.
pub(super) fn declared_fields(declaration: &str) -> Vec<String> {
    let json = serde_json::from_str(declaration).ok();
    let parsed = json.and_then(|json| Declaration::parse_stored(&json).ok());
    parsed.map(|declaration| value_fields(&declaration)).unwrap_or_default()
}

fn keys_of(fields: &[String], body: &[u8]) -> Result<RecordKeys, DamagedBody> {
    Ok(value_keys(fields, body)?.into_iter().collect())
}

/// Returns the positions of the fields that a record has, with the keys of their values.
pub(super) fn value_keys(fields: &[String], body: &[u8]) -> Result<ValueKeys, DamagedBody> {
    let mut keys = ValueKeys::with_capacity(fields.len());
    for entry in RecordBody::new(body).entries() {
        let entry = entry?;
        let position = fields.iter().zip(0..).find(|(name, _)| *name == entry.name);
        if let Some((_, field)) = position {
            let first = keys.len();
            each_key(entry.value, &mut |key| {
                if !keys.get(first..).is_some_and(|own| own.contains(&(field, key))) {
                    keys.push((field, key));
                }
            });
        }
    }
    Ok(keys)
}

/// Returns the rows of a run and field that change when records get or lose values.
fn moved(
    (run, field): (i64, i64),
    blocks: &BTreeMap<Vec<u8>, Vec<u8>>,
    moves: &[Move],
) -> Result<Vec<FieldValueRow>, Problem> {
    // A key before all rows makes one.
    let least = moves.iter().map(|(key, ..)| key.as_bytes()).min().unwrap_or_default();
    let block_of = |key: &[u8]| {
        let mut begins = blocks.range::<[u8], _>((Bound::Unbounded, Bound::Included(key)));
        begins.next_back().map_or(least, |(begin, _)| begin.as_slice())
    };
    let mut changed: BTreeMap<&[u8], BTreeMap<Vec<u8>, BTreeSet<i64>>> = BTreeMap::new();
    for (key, record, is_gained) in moves {
        let begin = block_of(key.as_bytes());
        let entries = match changed.entry(begin) {
            btree_map::Entry::Occupied(open) => open.into_mut(),
            btree_map::Entry::Vacant(new) => {
                let mut entries: BTreeMap<Vec<u8>, BTreeSet<i64>> = BTreeMap::new();
                let stored = blocks.get(begin).map_or(&[][..], Vec::as_slice);
                field_index::unpack(run, stored, |key, record| {
                    entries.entry(key.to_vec()).or_default().insert(record);
                })?;
                new.insert(entries)
            }
        };
        let records = entries.entry(key.as_bytes().to_vec()).or_default();
        if *is_gained {
            records.insert(*record)
        } else {
            records.remove(record)
        };
    }
    let row = |(begin, keys): (&[u8], BTreeMap<Vec<u8>, BTreeSet<i64>>)| {
        let mut entries = Vec::new();
        for (key, records) in keys.into_iter().filter(|(_, records)| !records.is_empty()) {
            let records: Vec<i64> = records.into_iter().collect();
            field_index::pack(run, &key, &records, &mut entries);
        }
        FieldValueRow { key: FieldValueKey { run, field, value: begin.to_vec() }, entries }
    };
    Ok(changed.into_iter().map(row).collect())
}

/// Makes rows of sorted values.
fn grouped(run: i64, values: Vec<(i64, ValueKey, i64)>) -> Vec<FieldValueRow> {
    let mut rows = Vec::new();
    let mut records = Vec::new();
    for of_field in values.chunk_by(|a, b| a.0 == b.0) {
        let mut keys = of_field.chunk_by(|a, b| a.1 == b.1).peekable();
        while let Some((field, value, _)) = keys.peek().and_then(|group| group.first()) {
            let key = FieldValueKey { run, field: *field, value: value.as_bytes().to_vec() };
            let mut entries = Vec::new();
            for group in keys.by_ref().take(BLOCK_KEYS) {
                let Some((_, value, _)) = group.first() else { continue };
                records.clear();
                records.extend(group.iter().map(|(.., record)| *record));
                field_index::pack(run, value.as_bytes(), &records, &mut entries);
            }
            rows.push(FieldValueRow { key, entries });
        }
    }
    rows
}
