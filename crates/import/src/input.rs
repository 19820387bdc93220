//! Reads the files and folders of one import, one after the other, row by row or in batches.

use std::path::PathBuf;

use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::batch::BATCH_BYTES;

use crate::importer::{ImportRows, ImportTarget, Importer, LocatedRow};
use crate::report::{ImportError, ImportProgress, OnProgress};

/// The most rows of a batch. Each batch writes every page of an index that it touches, and rows of
/// an export touch pages all over, so a batch of few rows writes many times what it stores.
pub const BATCH_ROWS: usize = 10_000;

/// A file or folder to import. Each pass reads it from its beginning.
#[derive(Clone, Debug)]
pub struct ImportInput {
    /// The file or folder to read.
    pub path: PathBuf,
    /// The importer that reads it.
    pub importer: &'static Importer,
}

/// A row with the importer that read it.
pub(crate) struct InputRow {
    pub(crate) importer: &'static Importer,
    pub(crate) located: LocatedRow,
}

pub(crate) struct InputRows<'i> {
    remaining: std::slice::Iter<'i, ImportInput>,
    current: Option<(&'i ImportInput, Box<dyn ImportRows>)>,
    /// Bytes of the inputs before the current one.
    before: u64,
    reported: u64,
    total: u64,
    target: ImportTarget,
}

impl<'i> InputRows<'i> {
    pub(crate) fn new(inputs: &'i [ImportInput], target: ImportTarget) -> Self {
        // An input that cannot be read fails when it is opened.
        let total = inputs
            .iter()
            .map(|input| (input.importer.byte_count)(&input.path).unwrap_or_default())
            .sum();
        Self { remaining: inputs.iter(), current: None, before: 0, reported: 0, total, target }
    }

    /// Returns the next row, or `None` after the last row of the last input.
    pub(crate) fn next(&mut self) -> Result<Option<InputRow>, ImportError> {
        let unreadable = |input: &ImportInput, error| ImportError::Read {
            file: input.path.display().to_string(),
            error,
        };
        loop {
            let (input, rows) = match &mut self.current {
                Some((input, rows)) => (*input, rows),
                None => {
                    let Some(input) = self.remaining.next() else { return Ok(None) };
                    let rows = (input.importer.open)(&input.path, &self.target)
                        .map_err(|error| unreadable(input, error))?;
                    (input, &mut self.current.insert((input, rows)).1)
                }
            };
            match rows.next().map_err(|error| unreadable(input, error))? {
                Some(located) => {
                    return Ok(Some(InputRow { importer: input.importer, located }));
                }
                None => {
                    self.before += rows.consumed();
                    self.current = None;
                }
            }
        }
    }

    /// Returns the next rows: at most [`BATCH_ROWS`] or about [`BATCH_BYTES`]. Empty after the last
    /// row.
    pub(crate) fn next_batch(&mut self) -> Result<Vec<InputRow>, ImportError> {
        let mut rows = Vec::new();
        let begun = self.consumed();
        // A row can take more memory than the bytes that were read for it: one conversation is
        // read at once and becomes many messages.
        let mut in_memory = 0;
        while rows.len() < BATCH_ROWS && in_memory.max(self.consumed() - begun) < BATCH_BYTES {
            let Some(row) = self.next()? else { break };
            in_memory += row.located.row.as_ref().map_or(0, |row| memory_of(&row.fields));
            rows.push(row);
        }
        Ok(rows)
    }

    fn consumed(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |(_, rows)| rows.consumed())
    }

    /// Reports the progress if 64 KiB were read since the last report, or all.
    pub(crate) fn report_progress(&mut self, on_progress: OnProgress<'_>, storing: bool) {
        const STEP: u64 = 64 * 1024;
        let bytes = self.consumed();
        if bytes.saturating_sub(self.reported) >= STEP || bytes >= self.total {
            self.reported = bytes;
            on_progress(ImportProgress { storing, bytes, total: self.total });
        }
    }
}

/// Estimates how many bytes of memory some fields take.
fn memory_of(fields: &RecordFields) -> u64 {
    let bytes = |(name, value): &(String, FieldValue)| match value {
        FieldValue::Text(text) | FieldValue::Json(text) => name.len() + text.len(),
        FieldValue::Number(digits) => name.len() + digits.len(),
        FieldValue::Null | FieldValue::Bool(_) => name.len(),
    };
    fields.iter().map(bytes).sum::<usize>() as u64
}
