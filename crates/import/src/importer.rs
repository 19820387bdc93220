//! What an importer is: one declaration that says how to recognise, read and declare a format.
//!
//! An importer opens a file or folder and returns its rows one after the other. [`crate::run`]
//! turns them into records, with the same rules for every format. [`crate::importers`] lists the
//! importers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::rows::{DecodedRow, RowDecodeError, RowDecoder};
use stile_store::archive::Archive;
use stile_store::files::StreamedText;
use stile_store::foreign_database::ForeignDatabase;

use crate::attachment::Attachment;
use crate::preset::PresetDeclaration;
use crate::source::InputPath;

/// A format that can be imported.
#[derive(Debug)]
pub struct Importer {
    /// The value of `--format` that selects the importer, for example `jsonl`.
    pub name: &'static str,
    /// What the importer reads, with its article, as help lists it: `a mailbox (mbox)`.
    pub description: &'static str,
    /// How the importer is chosen where `--format` is absent.
    pub recognition: Recognition,
    /// Returns how many bytes of a file or folder are rows. Progress is measured against them.
    pub byte_count: fn(&InputPath) -> io::Result<u64>,
    /// Opens a file or folder to read its rows from the first on. References between the rows
    /// name the target.
    pub open: fn(&InputPath, &ImportTarget) -> io::Result<Box<dyn ImportRows>>,
    /// How a new stream is declared.
    pub declaration: StreamDeclaration,
}

/// How an importer is chosen by a path alone.
///
/// Evidence counts in the order of these members: every importer is asked for the name of the
/// file, then every one for the contents, then every one for the extension. Of two importers that
/// recognise a path by the same evidence, the later one of the list is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Recognition {
    /// Returns whether a file with this name has the format whatever its contents. Folders are not
    /// asked for.
    pub file_name: fn(&str) -> bool,
    /// Returns whether a file or folder with these contents has the format.
    pub contents: fn(Contents<'_>) -> bool,
    /// Extensions of files in lower case, without the dot.
    pub extensions: &'static [&'static str],
}

impl Recognition {
    /// Recognises no path. An importer overrides the members that it needs.
    pub const NEVER: Self = Self { file_name: |_| false, contents: |_| false, extensions: &[] };
}

/// What is known of the contents of a path that is to be recognised.
#[derive(Clone, Copy)]
pub enum Contents<'a> {
    /// A folder with this path.
    Folder(&'a Path),
    /// A zip file, opened without unpacking it.
    Zip(&'a Archive),
    /// A database of SQLite, opened to be read.
    Database(&'a ForeignDatabase),
    /// Any other file: its first bytes, at most [`Contents::BEGINNING_BYTES`].
    Beginning(&'a [u8]),
}

impl Contents<'_> {
    /// How many bytes at the beginning of a file an importer may look at.
    pub const BEGINNING_BYTES: usize = 512;
}

/// How a stream is declared that an import creates.
#[derive(Clone, Copy, Debug)]
pub enum StreamDeclaration {
    /// The importer brings the declaration. Its rows are not read to declare the stream.
    Preset(&'static PresetDeclaration),
    /// The declaration is inferred from the rows, and so is the key.
    Inferred,
    /// The declaration is inferred from the rows, with this field as the key.
    InferredWithKey {
        /// The field that identifies a row.
        field: &'static str,
        /// Why the field is the key, for the person who imports.
        reason: &'static str,
    },
}

impl Importer {
    /// Returns the declaration that the importer brings; `None` if it is inferred.
    pub fn preset(&self) -> Option<&'static PresetDeclaration> {
        match self.declaration {
            StreamDeclaration::Preset(preset) => Some(preset),
            StreamDeclaration::Inferred | StreamDeclaration::InferredWithKey { .. } => None,
        }
    }
}

impl Importer {
    /// Whether numbers of a new stream may be times since 1970. Other formats spell their times.
    pub(crate) fn reads_numbers_as_times(&self) -> bool {
        ["jsonl", "json"].contains(&self.name)
    }
}

/// The stream that rows are imported into.
#[derive(Clone, Debug)]
pub struct ImportTarget {
    /// The connection that the rows come from.
    pub connection: SourceName,
    /// The stream that the rows become records of.
    pub stream: SourceName,
}

impl ImportTarget {
    /// Returns a `resource_ref` to the record of this stream with this key.
    pub fn reference(&self, key: &str) -> FieldValue {
        let (source, stream) = (self.connection.as_str(), self.stream.as_str());
        FieldValue::Json(
            json!({ "source_id": source, "stream": stream, "record_id": key }).to_string(),
        )
    }
}

/// The rows of one file or folder, in order.
pub trait ImportRows {
    /// Returns the next row, or `None` after the last.
    ///
    /// # Errors
    /// A failure to read, after which no row follows. A row that cannot be used is not an error.
    fn next(&mut self) -> io::Result<Option<LocatedRow>>;

    /// Returns what is left out of the rows, once all are read.
    fn left_out(&self) -> Option<LeftOutRows> {
        None
    }

    /// Returns how many of the importer's [`byte_count`](Importer::byte_count) were read.
    fn consumed(&self) -> u64;
}

/// What an importer leaves out of a file and why, as the end of a sentence, and how many there are.
pub type LeftOutRows = (&'static str, u64);

/// A row with its place in the input.
#[derive(Debug)]
pub struct LocatedRow {
    /// The file, as a person reads it; for an entry of an archive both paths.
    pub file: Arc<str>,
    /// The line where the row begins, 1-based.
    pub line: u64,
    /// The row, or why it cannot be used.
    pub row: Result<ImportRow, UnusableRow>,
}

/// A row that an importer read.
#[derive(Debug)]
pub struct ImportRow {
    /// The fields, without the streamed text.
    pub fields: RecordFields,
    /// How many halves of surrogate pairs became U+FFFD.
    pub replaced: u64,
    /// A text that is read when the row is stored, and the field that it belongs to.
    pub streamed_text: Option<(&'static str, StreamedText)>,
    /// The files that the fields refer to.
    pub attachments: Vec<Attachment>,
    /// The texts of these files, once they are read.
    pub attachment_text: Option<FieldValue>,
}

impl ImportRow {
    /// Creates a row without text to stream and without attachments.
    pub fn new(fields: RecordFields) -> Self {
        Self {
            fields,
            replaced: 0,
            streamed_text: None,
            attachments: Vec::new(),
            attachment_text: None,
        }
    }

    /// Creates a row with attachments from the fields that are present.
    pub(crate) fn from_message(
        fields: impl IntoIterator<Item = (&'static str, Option<FieldValue>)>,
        attachments: Vec<Attachment>,
    ) -> Self {
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self { attachments, ..Self::new(fields.collect()) }
    }
}

/// Why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableRow {
    /// The stable code, for example `invalid_json`.
    pub code: &'static str,
    /// The reason, in words.
    pub reason: String,
}

impl UnusableRow {
    /// Creates a refusal with a stable code and a reason for a person.
    pub fn new(code: &'static str, reason: impl ToString) -> Self {
        Self { code, reason: reason.to_string() }
    }
}

impl From<RowDecodeError> for UnusableRow {
    fn from(bad: RowDecodeError) -> Self {
        Self::new(bad.code(), bad)
    }
}

/// Returns the length of a file.
pub(crate) fn file_bytes(path: &InputPath) -> io::Result<u64> {
    path.bytes()
}

/// Returns the rows of a file that a decoder reads alone.
pub(crate) fn decoded_rows(path: &Path, decoder: impl RowDecoder + 'static) -> Box<dyn ImportRows> {
    Box::new(DecodedRows { file: path.display().to_string().into(), decoder })
}

struct DecodedRows<D> {
    file: Arc<str>,
    decoder: D,
}

impl<D: RowDecoder> ImportRows for DecodedRows<D> {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(DecodedRow { line, row }) = self.decoder.next()? else { return Ok(None) };
        let row = row
            .map(|row| ImportRow { replaced: row.replaced, ..ImportRow::new(row.fields) })
            .map_err(UnusableRow::from);
        Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.decoder.consumed()
    }
}
