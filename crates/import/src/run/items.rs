//! The rows of some inputs, one after the other, and how far it is.

use stile_domain::records::value::{FieldValue, RecordFields};

use stile_records::batch::BATCH_BYTES;

use super::{BATCH_ROWS, Progress, Watch, Why};
use crate::input::{Input, Item, Rows};
use crate::known::Place;

/// The rows of some inputs, one after the other.
pub(super) struct Items<'i> {
    left: std::slice::Iter<'i, Input>,
    current: Option<(&'i Input, Box<dyn Rows>)>,
    /// Bytes of the inputs before the current one.
    before: u64,
    told: u64,
    total: u64,
    place: Place,
}

impl<'i> Items<'i> {
    pub(super) fn new(inputs: &'i [Input], place: Place) -> Self {
        // What cannot be read says so when it is.
        let total = inputs.iter().map(|input| input.bytes().unwrap_or_default()).sum();
        Self { left: inputs.iter(), current: None, before: 0, told: 0, total, place }
    }

    pub(super) fn next(&mut self) -> Result<Option<Item>, Why> {
        loop {
            let (input, rows) = match &mut self.current {
                Some((input, rows)) => (*input, rows),
                None => {
                    let Some(input) = self.left.next() else { return Ok(None) };
                    let rows = input
                        .open(&self.place)
                        .map_err(|error| Why::Read { file: input.shown(), error })?;
                    (input, &mut self.current.insert((input, rows)).1)
                }
            };
            match rows.next().map_err(|error| Why::Read { file: input.shown(), error })? {
                Some(item) => return Ok(Some(item)),
                None => {
                    self.before += rows.consumed();
                    self.current = None;
                }
            }
        }
    }

    pub(super) fn batch(&mut self) -> Result<Vec<Item>, Why> {
        let mut rows = Vec::new();
        let begun = self.consumed();
        // A row may be longer than what was read of it, and come behind others of the same bytes.
        let mut held = 0;
        while rows.len() < BATCH_ROWS && held.max(self.consumed() - begun) < BATCH_BYTES {
            let Some(item) = self.next()? else { break };
            held += item.row.as_ref().map_or(0, |found| bytes_of(&found.fields));
            rows.push(item);
        }
        Ok(rows)
    }

    fn consumed(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |(_, rows)| rows.consumed())
    }

    /// Says how far it is, not more often than each batch.
    pub(super) fn tell(&mut self, watch: Watch<'_>, storing: bool) {
        const STEP: u64 = 64 * 1024;
        let bytes = self.consumed();
        if bytes.saturating_sub(self.told) >= STEP || bytes >= self.total {
            self.told = bytes;
            watch(Progress { storing, bytes, total: self.total });
        }
    }
}

/// About how much memory some fields take.
fn bytes_of(fields: &RecordFields) -> u64 {
    let of = |(name, value): &(String, FieldValue)| match value {
        FieldValue::Text(text) | FieldValue::Json(text) => name.len() + text.len(),
        FieldValue::Number(digits) => name.len() + digits.len(),
        FieldValue::Null | FieldValue::Bool(_) => name.len(),
    };
    fields.iter().map(of).sum::<usize>() as u64
}
