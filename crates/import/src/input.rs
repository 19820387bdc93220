//! Reads the files and folders of one import, one after the other, row by row, or ahead of the
//! thread that stores the rows.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use stile_domain::path::SpacePath;
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::table::written_date::DateOrder;
use stile_domain::records::value::FieldValue;
use stile_store::records::PreparedRecord;
use stile_store::space::note_folder::NoteFolder;

use crate::attachment::Attachment;
use crate::export_age::{ExportAge, ExportTime};
use crate::importer::{ImportRows, ImportTarget, Importer, LeftOutRows, LocatedRow};
use crate::importers::contacts::StoredCards;
use crate::importers::csv::form::CsvForm;
use crate::importers::json_text::RepairedRows;
use crate::importers::notion_rows::DatabasePages;
use crate::importers::wrapped_json::RowsPath;
use crate::importers::{contacts, csv, markdown, whatsapp, wrapped_json};
use crate::report::{ImportError, ImportProgress, ImportReport, OnProgress};
use crate::source::InputPath;

/// The rows that one thread hands to the other at once, a part, end at this many rows, or with the
/// row that reaches this many bytes.
const MOST_ROWS: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;
/// How many parts can wait for the thread that stores. While those that wait have more bytes than
/// the second number, the other thread reads nothing. So a part with a long row waits alone, or
/// behind shorter ones.
const READ_AHEAD: usize = 4;
const MOST_BYTES_AHEAD: u64 = MOST_BYTES * READ_AHEAD as u64;
/// How long a transaction waits for the next rows. On a busy machine the thread that reads can be
/// late.
const PATIENCE: Duration = Duration::from_millis(100);

/// A file or folder to import. Each pass reads it from its beginning.
#[derive(Clone, Debug)]
pub struct ImportInput {
    /// The file or folder to read.
    pub path: InputPath,
    /// The importer that reads it.
    pub importer: &'static Importer,
    /// The notes to read of a folder of notes; `None` to read all that is there.
    pub selection: Option<SelectedNotes>,
    /// How a CSV file is laid out and spelled; `None` until it is found, and for other formats.
    pub csv_form: Option<Arc<CsvForm>>,
    /// Where the rows of a JSON file are; `None` if the file is an array of them, and for other
    /// formats.
    pub rows_path: Option<RowsPath>,
    /// Whether the texts of a JSON file were encoded twice, and are repaired.
    pub repairs_text: bool,
    /// The order of day and month in a chat; `None` if its dates show it, and for other formats.
    pub dates: Option<DateOrder>,
    /// The pages that the rows of a database of Notion are; `None` for other files.
    pub pages: Option<Arc<DatabasePages>>,
    /// The contacts that the stream has already; `None` for other formats.
    pub(crate) cards: Option<Arc<StoredCards>>,
    /// When the export was made that the file is of; `None` for a format whose rows replace what is
    /// stored whenever they are imported.
    pub exported: Option<ExportTime>,
    /// How the export stands to those in the stream; `None` until that is found, and for other
    /// formats.
    pub(crate) age: Option<ExportAge>,
}

impl ImportInput {
    /// Creates an input that is read whole.
    pub fn whole(path: impl Into<InputPath>, importer: &'static Importer) -> Self {
        Self {
            path: path.into(),
            importer,
            selection: None,
            csv_form: None,
            rows_path: None,
            repairs_text: false,
            dates: None,
            pages: None,
            cards: None,
            exported: None,
            age: None,
        }
    }

    /// Returns how many bytes are to be read. An input that cannot be read fails when it is opened.
    fn byte_count(&self) -> u64 {
        match &self.selection {
            Some(selection) => selection.bytes,
            None => (self.importer.byte_count)(&self.path).unwrap_or_default(),
        }
    }

    fn open(&self, target: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
        if let (Some(pages), Some(form)) = (&self.pages, &self.csv_form) {
            return pages.rows(&|| csv::open(&self.path, form), form.first_column.as_deref());
        }
        if let Some(cards) = &self.cards {
            return contacts::open_among(&self.path, cards);
        }
        let rows = self.open_as_written(target)?;
        Ok(if self.repairs_text { Box::new(RepairedRows(rows)) } else { rows })
    }

    fn open_as_written(&self, target: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
        match (&self.selection, &self.csv_form, &self.rows_path) {
            (Some(selection), ..) => Ok(selection.rows()),
            (None, Some(form), _) => csv::open(&self.path, form),
            (None, None, Some(path)) => wrapped_json::open(&self.path, path),
            (None, None, None) if self.dates.is_some() => {
                whatsapp::open_with(&self.path, self.dates)
            }
            (None, None, None) => (self.importer.open)(&self.path, target),
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

/// The key of the record that a row becomes, and the record if it is prepared.
pub(crate) type RowRecord = (RecordKey, Option<PreparedRecord>);

/// A row with the importer that read it.
pub(crate) struct InputRow {
    pub(crate) importer: &'static Importer,
    /// How the export of the row stands to those in the stream; `None` for other formats.
    pub(crate) age: Option<ExportAge>,
    pub(crate) located: LocatedRow,
    /// `None` unless the row is complete.
    pub(crate) record: Option<RowRecord>,
}

/// A part of the rows, read ahead.
pub(crate) struct ReadRows {
    pub(crate) rows: Vec<InputRow>,
    /// How many of the rows are stored.
    stored: usize,
    /// How many bytes the rows take in memory.
    bytes: u64,
    /// What the reading counted.
    pub(crate) report: ImportReport,
    /// How far the reading is after these rows.
    pub(crate) progress: ImportProgress,
}

impl ReadRows {
    /// Returns the next row to store.
    pub(crate) fn next(&mut self) -> Option<&mut InputRow> {
        let row = self.rows.get_mut(self.stored);
        self.stored += usize::from(row.is_some());
        row
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.stored == self.rows.len()
    }
}

/// Receives the rows of an import that another thread reads.
pub(crate) struct RowsAhead {
    parts: Receiver<Result<ReadRows, ImportError>>,
    /// Tells the thread that reads how many bytes wait no longer.
    taken: Sender<u64>,
    /// Returns stored rows to the thread that reads.
    stored: Sender<Vec<InputRow>>,
}

impl RowsAhead {
    /// Waits for the next rows. Returns `None` after the last.
    pub(crate) fn wait(&self) -> Option<Result<ReadRows, ImportError>> {
        self.parts.recv().ok().map(|part| self.take(part))
    }

    /// Returns the next rows if they are read, or will be within [`PATIENCE`].
    pub(crate) fn soon(&self) -> Option<Result<ReadRows, ImportError>> {
        self.parts.recv_timeout(PATIENCE).ok().map(|part| self.take(part))
    }

    /// Lets the thread that reads free the memory of stored rows, which it allocated. The thread
    /// that stores has more to do. Frees a long part at once, so that it does not wait for that.
    pub(crate) fn give_back(&self, part: ReadRows) {
        if part.bytes <= MOST_BYTES_AHEAD {
            // After the last part nobody receives them, and they are freed here.
            let _ = self.stored.send(part.rows);
        }
    }

    fn take(&self, part: Result<ReadRows, ImportError>) -> Result<ReadRows, ImportError> {
        if let Ok(part) = &part {
            // After the last part nobody asks for it.
            let _ = self.taken.send(part.bytes);
        }
        part
    }
}

/// Runs `store` while another thread reads the rows and completes each with `complete`. No row
/// follows a failed read.
///
/// # Errors
/// The error of `store`, or no thread can be started.
pub(crate) fn read_ahead(
    inputs: &[ImportInput],
    target: &ImportTarget,
    mut complete: impl FnMut(&mut InputRow, &mut ImportReport) -> Result<(), ImportError> + Send,
    store: impl FnOnce(&RowsAhead) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    thread::scope(|scope| {
        let (sender, parts) = mpsc::sync_channel(READ_AHEAD);
        let (taken, no_longer_waiting) = mpsc::channel();
        let (stored, to_free) = mpsc::channel();
        let read = move || {
            let mut rows = InputRows::new(inputs, target.clone());
            let mut waiting = 0;
            while let Some(read) = rows.next_some(&mut complete).transpose() {
                let is_last = read.is_err();
                waiting += read.as_ref().map_or(0, |part| part.bytes);
                // Nobody receives the rows after `store` has failed.
                if sender.send(read).is_err() || is_last {
                    return;
                }
                while waiting > MOST_BYTES_AHEAD {
                    let Ok(bytes) = no_longer_waiting.recv() else { return };
                    waiting -= bytes;
                }
                waiting -= no_longer_waiting.try_iter().sum::<u64>();
                to_free.try_iter().for_each(drop);
            }
        };
        let reader = thread::Builder::new().name("import".to_owned());
        reader.spawn_scoped(scope, read).map_err(ImportError::NoReader)?;
        let ahead = RowsAhead { parts, taken, stored };
        store(&ahead)
    })
}

pub(crate) struct InputRows<'i> {
    remaining: std::slice::Iter<'i, ImportInput>,
    current: Option<(&'i ImportInput, Box<dyn ImportRows>)>,
    /// Bytes of the inputs before the current one.
    before: u64,
    reported: u64,
    total: u64,
    target: ImportTarget,
    /// What the inputs that are read leave out, until [`Self::take_left_out`].
    left_out: Vec<LeftOutRows>,
}

impl<'i> InputRows<'i> {
    pub(crate) fn new(inputs: &'i [ImportInput], target: ImportTarget) -> Self {
        let total = inputs.iter().map(ImportInput::byte_count).sum();
        let (remaining, left_out) = (inputs.iter(), Vec::new());
        Self { remaining, current: None, before: 0, reported: 0, total, target, left_out }
    }

    /// Reports what the inputs that are read leave out.
    pub(crate) fn take_left_out(&mut self, report: &mut ImportReport) {
        for (what, count) in self.left_out.drain(..) {
            *report.left_out.entry(what).or_default() += count;
        }
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
                    let ImportInput { importer, age, .. } = *input;
                    return Ok(Some(InputRow { importer, age, located, record: None }));
                }
                None => {
                    self.before += rows.consumed();
                    self.left_out.extend(rows.left_out());
                    self.current = None;
                }
            }
        }
    }

    /// Returns the next part: at most [`MOST_ROWS`], of which all but the last have fewer than
    /// [`MOST_BYTES`]. `None` after the last row.
    fn next_some(
        &mut self,
        complete: &mut impl FnMut(&mut InputRow, &mut ImportReport) -> Result<(), ImportError>,
    ) -> Result<Option<ReadRows>, ImportError> {
        let (mut rows, mut report) = (Vec::new(), ImportReport::default());
        let begun = self.consumed();
        // A row can take more memory than the bytes that were read for it: one conversation is
        // read at once and becomes many messages.
        let mut in_memory = 0;
        while rows.len() < MOST_ROWS && in_memory.max(self.consumed() - begun) < MOST_BYTES {
            let Some(mut row) = self.next()? else { break };
            complete(&mut row, &mut report)?;
            in_memory += memory_of(&row);
            rows.push(row);
        }
        let progress = ImportProgress { storing: true, bytes: self.consumed(), total: self.total };
        self.take_left_out(&mut report);
        if rows.is_empty() && report.left_out.is_empty() {
            return Ok(None);
        }
        Ok(Some(ReadRows { rows, stored: 0, bytes: in_memory, report, progress }))
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

/// Counts the bytes of a row's names and values, of the texts of its attachments, of the
/// attachments that are in memory, and of the record that was prepared.
fn memory_of(InputRow { located, record, .. }: &InputRow) -> u64 {
    let Ok(row) = &located.row else { return 0 };
    let value_bytes = |value: &FieldValue| match value {
        FieldValue::Text(text) | FieldValue::Json(text) => text.len(),
        FieldValue::Number(digits) => digits.len(),
        FieldValue::Null | FieldValue::Bool(_) => 0,
    };
    let fields = row.fields.iter().map(|(name, value)| name.len() + value_bytes(value));
    let text = row.attachment_text.as_ref().map_or(0, value_bytes);
    let attachments = row.attachments.iter().map(Attachment::bytes_in_memory);
    let prepared = record.iter().filter_map(|(_, prepared)| prepared.as_ref());
    let prepared = prepared.map(PreparedRecord::bytes).sum::<usize>();
    (fields.sum::<usize>() + text + attachments.sum::<usize>() + prepared) as u64
}
