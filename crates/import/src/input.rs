//! Reads the files and folders of one import, one after the other, row by row or in batches.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stile_domain::path::SpacePath;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::batch::BATCH_BYTES;
use stile_store::space::note_folder::NoteFolder;

use crate::importer::{ImportRows, ImportTarget, Importer, LocatedRow};
use crate::importers::markdown;
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
    /// The notes to read of a folder of notes; `None` to read all that is there.
    pub selection: Option<SelectedNotes>,
}

impl ImportInput {
    /// Creates an input that is read whole.
    pub fn whole(path: PathBuf, importer: &'static Importer) -> Self {
        Self { path, importer, selection: None }
    }

    /// Returns how many bytes are to be read. An input that cannot be read fails when it is opened.
    fn byte_count(&self) -> u64 {
        match &self.selection {
            Some(selection) => selection.bytes,
            None => (self.importer.byte_count)(&self.path).unwrap_or_default(),
        }
    }

    fn open(&self, target: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
        match &self.selection {
            Some(selection) => Ok(selection.rows()),
            None => (self.importer.open)(&self.path, target),
        }
    }
}

/// Some notes of a folder that is open.
#[derive(Clone)]
pub struct SelectedNotes {
    pub(crate) folder: NoteFolder,
    pub(crate) notes: Arc<[SpacePath]>,
    /// The size of all these notes.
    pub(crate) bytes: u64,
    /// Whether the reading should stop.
    pub(crate) should_stop: Arc<AtomicBool>,
}

impl SelectedNotes {
    fn rows(&self) -> Box<dyn ImportRows> {
        let (notes, should_stop) = (Arc::clone(&self.notes), Arc::clone(&self.should_stop));
        markdown::selected_rows(&self.folder, notes, should_stop)
    }
}

impl fmt::Debug for SelectedNotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.notes.iter()).finish()
    }
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
        let total = inputs.iter().map(ImportInput::byte_count).sum();
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
                    let rows =
                        input.open(&self.target).map_err(|error| unreadable(input, error))?;
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
