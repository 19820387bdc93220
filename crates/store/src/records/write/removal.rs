//! Removes streams and records so that they can be restored, restores them, and lets them go for
//! good after 30 days.
//!
//! A removed record loses its place in every index, and the log of changes has its state, as with
//! a record that is deleted. Its row, its long values and its uses of blobs stay, in a stream that
//! nobody can name. To restore it is to store it again: it gets another number, so that clients
//! which were told of the deletion are told of the record.
//!
//! Records leave in steps of bounded size. A stream is hidden with the first of them. What a killed
//! program left is moved by later writes.

use std::io::{self, Read};

use stile_domain::records::grant::Grant;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{RecordBody, StoredValue};
use stile_domain::records::value::{FieldValue, RecordFields};

use super::{WriteBatch, by_slot};
use crate::records::model::{
    IncomingRecord, StreamedField, TargetStream, TextSource, UpsertOutcome,
};
use crate::records::port::RowWriter;
use crate::records::removal::{
    HiddenReason, HiddenStream, KeptRemoval, REMOVED_KEPT, RemovalId, RemovedStream,
};
use crate::records::rows::WholeRecord;

/// The most records that one step moves.
const PAGE: i64 = 500;
/// The rows after which a step ends. The rows of its last record may exceed them.
const ROWS: u64 = 5000;
/// The most bytes of a text that is held in memory while it is restored.
const HELD_BYTES: u64 = 1 << 20;

/// What one step of a restoration did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStep {
    /// The records that are in their stream again.
    pub restored: u64,
    /// The records that stay removed, because the stream has others with their keys.
    pub blocked: u64,
}

impl WriteBatch<'_> {
    /// Hides a stream from now on, with all its records. [`WriteBatch::continue_removals`] then
    /// moves them. `removal` is `None` for a stream that goes for good.
    pub fn remove_stream(
        &mut self,
        target: &TargetStream,
        names: (&SourceName, &SourceName),
        removal: Option<&RemovalId>,
    ) -> Result<(), Problem> {
        let to =
            removal.map(|removal| self.keep_beside(target, names, true, removal)).transpose()?;
        self.rows.hide_stream(target.id, &HiddenReason::Leaving { to })
    }

    /// Removes some records of a stream, which can be restored. Returns how many there were.
    pub fn remove_records(
        &mut self,
        target: &TargetStream,
        names: (&SourceName, &SourceName),
        keys: &[RecordKey],
        removal: &RemovalId,
    ) -> Result<u64, Problem> {
        let mut moved = Vec::new();
        for key in keys {
            if let Some((record, body)) = self.stored(target, key)? {
                self.withdraw(target.id, record, &body)?;
                moved.push(record);
            }
        }
        if !moved.is_empty() {
            let to = self.keep_beside(target, names, false, removal)?;
            self.rows.move_records(&moved, to)?;
        }
        Ok(moved.len() as u64)
    }

    /// Makes the stream that keeps removed records of another one.
    fn keep_beside(
        &self,
        target: &TargetStream,
        (connection, stream): (&SourceName, &SourceName),
        is_whole: bool,
        removal: &RemovalId,
    ) -> Result<i64, Problem> {
        // No caller can send a name with a line end.
        let name = format!("{}\n{}", removal.as_str(), stream);
        let kept = HiddenReason::Keeping(RemovedStream {
            removal: removal.clone(),
            at: self.now.0,
            connection: connection.clone(),
            stream: stream.clone(),
            is_whole,
            declaration: target.declaration.clone(),
            indexed: target.indexed.clone(),
        });
        self.rows.insert_hidden_stream(target.id, &name, &kept)
    }

    /// Moves or deletes some records of streams that were removed, and some of those that were kept
    /// for 30 days. Returns whether records of a removed stream may be left.
    pub fn continue_removals(&mut self) -> Result<bool, Problem> {
        let mut is_left = false;
        for HiddenStream { id, reason, .. } in self.rows.hidden_streams()? {
            match reason {
                HiddenReason::Gone => {}
                HiddenReason::Leaving { to } => is_left |= !self.leave_some(id, to)?,
                HiddenReason::Keeping(kept)
                    if kept.at.saturating_add(REMOVED_KEPT) <= self.now.0 =>
                {
                    self.discard_some(id)?;
                }
                HiddenReason::Keeping(_) => {}
            }
        }
        Ok(is_left)
    }

    /// Moves all records of a removed stream, and gives its row to a stream of the same name. Ends
    /// the grants that name it. Returns the number of the stream; `None` if there is none.
    pub(super) fn take_over_removed(
        &mut self,
        connection: &SourceName,
        stream: &SourceName,
    ) -> Result<Option<i64>, Problem> {
        let Some(number) = self.rows.connection_number(connection.as_str())? else {
            return Ok(None);
        };
        let hidden = self.rows.hidden_streams()?;
        let found = hidden
            .into_iter()
            .find(|hidden| hidden.connection == number && hidden.name == stream.as_str());
        let Some(HiddenStream { id, reason, .. }) = found else { return Ok(None) };
        if let HiddenReason::Leaving { to } = reason {
            while !self.leave_some(id, to)? {}
        }
        self.end_grants(connection, stream, &[])?;
        Ok(Some(id))
    }

    /// Moves or deletes some records of a removed stream. Returns whether none is left.
    fn leave_some(&mut self, stream: i64, to: Option<i64>) -> Result<bool, Problem> {
        let (mut rows, mut moved) = (0, Vec::new());
        let page = self.rows.whole_records_after(stream, &[], PAGE)?;
        let mut is_done = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        for WholeRecord { record, body, .. } in page {
            if rows >= ROWS {
                is_done = false;
                break;
            }
            rows += self.withdraw(stream, record, &body)?;
            match to {
                Some(_) => moved.push(record),
                None => self.discard(record, &body)?,
            }
        }
        if let Some(to) = to.filter(|_| !moved.is_empty()) {
            self.rows.move_records(&moved, to)?;
        }
        if is_done {
            self.rows.hide_stream(stream, &HiddenReason::Gone)?;
        }
        Ok(is_done)
    }

    /// Takes a record out of the indexes, and logs its state. Its row, its pieces and its uses of
    /// blobs stay. Returns about how many rows that were.
    fn withdraw(&mut self, stream: i64, record: i64, body: &[u8]) -> Result<u64, Problem> {
        let mut rows = 1;
        for (slot, entry) in &by_slot(body)? {
            if !entry.value.may_have_words() {
                continue;
            }
            let count = entry.value.long().map_or(1, |long| long.chars.div_ceil(PIECE_CHARS));
            for piece in 0..count {
                let number = pieces::number(record, *slot, piece).ok_or(Problem::Corrupt)?;
                self.rows.delete_tokens(number)?;
            }
            rows += count;
        }
        self.log_state(record, body)?;
        self.field_indexes.change(self.rows, stream, record, body, None)?;
        Ok(rows)
    }

    /// Deletes what is left of a record that was taken out of the indexes.
    fn discard(&self, record: i64, body: &[u8]) -> Result<(), Problem> {
        for (slot, entry) in &by_slot(body)? {
            let chars = entry.value.long().map_or(0, |long| long.chars);
            for piece in 0..chars.div_ceil(PIECE_CHARS) {
                let number = pieces::number(record, *slot, piece).ok_or(Problem::Corrupt)?;
                self.rows.delete_piece(number)?;
            }
        }
        self.replace_blob_uses(record, None)?;
        self.rows.delete_record(record)
    }

    /// Deletes some records that were kept, and the stream that kept them when none is left.
    /// Returns whether none is left.
    fn discard_some(&self, kept_in: i64) -> Result<bool, Problem> {
        let page = self.rows.whole_records_after(kept_in, &[], PAGE)?;
        for WholeRecord { record, body, .. } in &page {
            self.discard(*record, body)?;
        }
        let is_done = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        if is_done {
            self.forget_kept(kept_in)?;
        }
        Ok(is_done)
    }

    /// Deletes the stream that kept records, if it has none. Records that are still on their way to
    /// it then go for good.
    fn forget_kept(&self, kept_in: i64) -> Result<(), Problem> {
        if self.rows.has_records(kept_in)? {
            return Ok(());
        }
        for HiddenStream { id, reason, .. } in self.rows.hidden_streams()? {
            if reason == (HiddenReason::Leaving { to: Some(kept_in) }) {
                self.rows.hide_stream(id, &HiddenReason::Leaving { to: None })?;
            }
        }
        self.rows.delete_stream(kept_in)
    }

    /// Deletes some records of a removal for good. Returns whether none is left.
    pub fn purge_removal(&mut self, removal: &KeptRemoval) -> Result<bool, Problem> {
        self.discard_some(removal.kept_in)
    }

    /// Puts some removed records back into their stream, which is declared again if it is not
    /// there. `after` is the key of the last record of the step before, empty at first. Returns
    /// what the step did and its last key; `None` if no record is left.
    pub fn restore_some(
        &mut self,
        removal: &KeptRemoval,
        after: &[u8],
    ) -> Result<Option<(RestoreStep, Vec<u8>)>, Problem> {
        let RemovedStream { connection, stream, declaration, indexed, .. } = &removal.stream;
        while self.continue_removals()? {}
        let target = match self.target(connection, stream)? {
            Some(target) => target,
            None => self.declare(connection, stream, declaration, indexed)?,
        };
        let page = self.rows.whole_records_after(removal.kept_in, after, PAGE)?;
        let Some(last) = page.last().map(|record| record.key.clone()) else {
            self.forget_kept(removal.kept_in)?;
            return Ok(None);
        };
        let mut step = RestoreStep::default();
        for record in page {
            match self.put_back(&target, &record)? {
                true => step.restored += 1,
                false => step.blocked += 1,
            }
        }
        Ok(Some((step, last)))
    }

    /// Stores a removed record again. Returns `false` if the stream has another one with its key.
    fn put_back(&mut self, target: &TargetStream, record: &WholeRecord) -> Result<bool, Problem> {
        let key = std::str::from_utf8(&record.key).map_err(|_| Problem::Corrupt)?;
        let key = RecordKey::parse(key).map_err(|_| Problem::Corrupt)?;
        if self.contains(target, &key)? {
            return Ok(false);
        }
        let rows = self.rows;
        let (fields, mut texts) = fields_of(rows, record)?;
        let streamed = texts.iter_mut().map(|(name, text)| {
            let text: &mut dyn TextSource = text;
            StreamedField { name, text }
        });
        let (emitted, streamed) = (record.emitted, streamed.collect());
        let incoming = IncomingRecord { key: &key, emitted, fields: &fields, streamed };
        if let UpsertOutcome::Refused(_) = self.upsert(target, incoming)? {
            return Ok(false);
        }
        self.discard(record.record, &record.body)?;
        Ok(true)
    }

    /// Revokes the grants that name a stream of a connection; with keys, only those that name one
    /// of the records. Returns their identifiers.
    pub fn end_grants(
        &mut self,
        connection: &SourceName,
        stream: &SourceName,
        keys: &[RecordKey],
    ) -> Result<Vec<String>, Problem> {
        let mut ended = Vec::new();
        for row in self.rows.grants()? {
            let Ok(grant) = Grant::parse(&row.json) else { continue };
            let has_ended =
                row.revoked.is_some() || grant.expires.is_some_and(|end| end <= self.now);
            if !has_ended && grant.names(connection, stream, keys) {
                self.rows.revoke_grant(&row.id, self.now)?;
                ended.push(row.id);
            }
        }
        Ok(ended)
    }

    /// Gives the row of a removed stream to one that is declared anew.
    pub(super) fn declare_over(
        &mut self,
        removed: i64,
        declaration: &str,
        indexed: &IndexedFields,
    ) -> Result<(), Problem> {
        let json = serde_json::to_string(indexed).unwrap_or_default();
        self.rows.update_stream(removed, declaration, &json)
    }
}

/// The fields of a removed record: those in memory, and the names and sources of the others.
type RestoredFields<'r> = (RecordFields, Vec<(String, KeptText<'r>)>);

fn fields_of<'r>(
    rows: &'r dyn RowWriter,
    record: &WholeRecord,
) -> Result<RestoredFields<'r>, Problem> {
    let (mut fields, mut texts) = (RecordFields::new(), Vec::new());
    for entry in RecordBody::new(&record.body).entries() {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        let name = entry.name.to_owned();
        let kept = entry.slot.zip(entry.value.long()).map(|(slot, long)| KeptText {
            rows,
            record: record.record,
            slot,
            count: long.chars.div_ceil(PIECE_CHARS),
        });
        let value = match (entry.value, kept) {
            (StoredValue::Null, _) => FieldValue::Null,
            (StoredValue::Bool(value), _) => FieldValue::Bool(value),
            (StoredValue::Number(digits), _) => FieldValue::Number(digits.into()),
            (StoredValue::Text(text), _) => FieldValue::Text(text.to_owned()),
            (StoredValue::Json(json), _) => FieldValue::Json(json.to_owned()),
            (StoredValue::LongJson(_), Some(kept)) => FieldValue::Json(kept.whole()?),
            (StoredValue::LongText(long), Some(kept)) if long.bytes > HELD_BYTES => {
                texts.push((name.clone(), kept));
                FieldValue::Null
            }
            (StoredValue::LongText(_), Some(kept)) => FieldValue::Text(kept.whole()?),
            (StoredValue::LongText(_) | StoredValue::LongJson(_), None) => {
                return Err(Problem::Corrupt);
            }
        };
        fields.push((name, value));
    }
    Ok((fields, texts))
}

/// A long value of a removed record.
struct KeptText<'r> {
    rows: &'r dyn RowWriter,
    record: i64,
    slot: u16,
    count: u64,
}

impl KeptText<'_> {
    fn piece(&self, piece: u64) -> Result<String, Problem> {
        let number = pieces::number(self.record, self.slot, piece).ok_or(Problem::Corrupt)?;
        self.rows.piece_text(number)
    }

    fn whole(&self) -> Result<String, Problem> {
        (0..self.count).map(|piece| self.piece(piece)).collect()
    }
}

impl TextSource for KeptText<'_> {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(KeptReader { text: self, next: 0, held: Vec::new(), read: 0 }))
    }
}

/// Reads a long value piece by piece.
struct KeptReader<'k> {
    text: &'k KeptText<'k>,
    next: u64,
    held: Vec<u8>,
    read: usize,
}

impl Read for KeptReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.held.len() && self.next < self.text.count {
            self.held = self.text.piece(self.next).map_err(io::Error::other)?.into_bytes();
            (self.next, self.read) = (self.next + 1, 0);
        }
        let mut rest = self.held.get(self.read..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.read += count;
        Ok(count)
    }
}
