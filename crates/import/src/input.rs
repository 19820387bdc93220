//! What an import reads: files of rows, folders of notes and exports of services, each of which can
//! be read again from its beginning.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::files::{self, NoteFile, TextFile};

use super::attachment::Attachment;
use super::exports::{Chats, Days, Mails};
use super::known::{CHATGPT, Known, MAIL, Place, SLACK};
use super::mbox::Mailbox;
use super::{csv, exports, json_array, markdown};
use stile_records::rows::{DecodedRow, RowDecoder, json_lines};

/// How the rows of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// One JSON array of objects.
    Json,
    /// A header and rows, with `,`, `;` or a tab between the cells.
    Csv,
    /// A folder of Markdown, or one file of it.
    Markdown,
    /// A mailbox in one file.
    Mbox,
    /// A ChatGPT export: `conversations.json`, or the folder or zip file that has it.
    ChatGpt,
    /// A Slack export: a folder or a zip file.
    Slack,
}

impl Format {
    /// The format that a path looks like. A folder is one of notes, if it is no export that is
    /// known; a file is what its name ends in, or what its beginning tells.
    ///
    /// # Errors
    /// What the system says of an archive that cannot be opened.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let known = exports::format_of(path)?;
        Ok(known.or_else(|| {
            if files::is_folder(path) { Some(Self::Markdown) } else { Self::named(path) }
        }))
    }

    /// What is declared of the rows of a format that is known.
    pub fn known(self) -> Option<&'static Known> {
        match self {
            Self::Mbox => Some(&MAIL),
            Self::ChatGpt => Some(&CHATGPT),
            Self::Slack => Some(&SLACK),
            _ => None,
        }
    }

    fn named(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "json" => Some(Self::Json),
            "csv" | "tsv" => Some(Self::Csv),
            "md" | "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// One file or folder.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub format: Format,
}

/// A row on its way, and where it came from.
pub(super) struct Item {
    pub(super) file: Arc<str>,
    pub(super) line: u64,
    pub(super) row: Result<Found, (&'static str, String)>,
}

/// A row that was read.
pub(super) struct Found {
    pub(super) fields: RecordFields,
    pub(super) replaced: u64,
    /// A text that stays where it is, and the field that it is of.
    pub(super) text: Option<(&'static str, TextFile)>,
    /// What it refers to.
    pub(super) attachments: Vec<Attachment>,
    /// The format, where it is one that is known.
    pub(super) known: Option<&'static Known>,
}

impl Found {
    pub(super) fn row(fields: RecordFields, replaced: u64) -> Self {
        Self { fields, replaced, text: None, attachments: Vec::new(), known: None }
    }

    /// The fields with something in the place of a text that stays where it is.
    pub(super) fn all_fields(&self) -> RecordFields {
        let mut fields = self.fields.clone();
        fields.extend(
            self.text.iter().map(|(name, _)| ((*name).to_owned(), FieldValue::Text(String::new()))),
        );
        fields
    }
}

/// Gives the rows of one input.
pub(super) trait Rows {
    fn next(&mut self) -> io::Result<Option<Item>>;
    fn consumed(&self) -> u64;
}

impl Input {
    /// How many bytes there are to be read.
    ///
    /// # Errors
    /// What the system says.
    pub fn bytes(&self) -> io::Result<u64> {
        match self.format {
            Format::Markdown => self
                .notes()?
                .iter()
                .try_fold(0, |bytes, note| Ok(bytes + files::open(&note.path)?.bytes)),
            Format::ChatGpt | Format::Slack => exports::bytes(&self.path, self.format),
            _ => Ok(files::open(&self.path)?.bytes),
        }
    }

    /// As a person named it.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn notes(&self) -> io::Result<Vec<NoteFile>> {
        if files::is_folder(&self.path) {
            return files::find_notes(&self.path);
        }
        let name = self.path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        Ok(vec![NoteFile { path: self.path.clone(), name }])
    }

    /// Begins to read it.
    pub(super) fn open(&self, place: &Place) -> io::Result<Box<dyn Rows>> {
        let (shown, place) = (self.shown(), place.clone());
        match self.format {
            Format::Markdown => {
                return Ok(Box::new(Notes { left: self.notes()?.into_iter(), consumed: 0 }));
            }
            Format::ChatGpt => return Ok(Box::new(Chats::open(&self.path, &shown, place)?)),
            Format::Slack => return Ok(Box::new(Days::open(&self.path, &shown, place)?)),
            _ => {}
        }
        let reader = files::open(&self.path)?.reader;
        if self.format == Format::Mbox {
            return Ok(Box::new(Mails {
                name: shown.into(),
                mailbox: Mailbox::new(reader),
                place,
            }));
        }
        let decoder: Box<dyn RowDecoder> = match self.format {
            Format::JsonLines => Box::new(json_lines::JsonLines::new(reader)),
            Format::Json => Box::new(json_array::JsonArray::new(reader)),
            _ => Box::new(csv::Csv::new(reader, None)),
        };
        Ok(Box::new(File { name: shown.into(), decoder }))
    }
}

struct File {
    name: Arc<str>,
    decoder: Box<dyn RowDecoder>,
}

impl Rows for File {
    fn next(&mut self) -> io::Result<Option<Item>> {
        let Some(DecodedRow { line, row }) = self.decoder.next()? else { return Ok(None) };
        let row = match row {
            Ok(row) => Ok(Found::row(row.fields, row.replaced)),
            Err(bad) => Err((bad.code(), bad.to_string())),
        };
        Ok(Some(Item { file: Arc::clone(&self.name), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.decoder.consumed()
    }
}

struct Notes {
    left: std::vec::IntoIter<NoteFile>,
    consumed: u64,
}

impl Rows for Notes {
    fn next(&mut self) -> io::Result<Option<Item>> {
        let Some(note) = self.left.next() else { return Ok(None) };
        let file = note.path.display().to_string().into();
        let row = match &note.name {
            None => Err(("invalid_utf8", "the file's name is not UTF-8; rename it".to_owned())),
            // One file that cannot be read costs itself; the others are there all the same.
            Some(name) => self.read(&note.path, name).unwrap_or_else(|error| {
                let code = if error.kind() == io::ErrorKind::InvalidData {
                    "invalid_utf8"
                } else {
                    "unreadable"
                };
                Err((code, format!("the file could not be read: {error}")))
            }),
        };
        Ok(Some(Item { file, line: 1, row }))
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

impl Notes {
    fn read(
        &mut self,
        path: &Path,
        name: &str,
    ) -> io::Result<Result<Found, (&'static str, String)>> {
        let mut file = files::open(path)?;
        self.consumed += file.bytes;
        if file.bytes <= markdown::HEAD_BYTES as u64 {
            let mut text = String::new();
            // A file that grows meanwhile is read no further than it was.
            file.reader.take(markdown::HEAD_BYTES as u64).read_to_string(&mut text)?;
            let fields = markdown::note(name, file.modified, &text);
            return Ok(Ok(Found::row(fields, 0)));
        }
        let mut first = Vec::with_capacity(markdown::HEAD_BYTES);
        file.reader.by_ref().take(markdown::HEAD_BYTES as u64).read_to_end(&mut first)?;
        let first = match std::str::from_utf8(&first) {
            Ok(first) => first,
            Err(error) if error.error_len().is_none() => {
                let whole = first.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            Err(_) => {
                return Ok(Err((
                    "invalid_utf8",
                    "the file is not UTF-8; convert it first".to_owned(),
                )));
            }
        };
        let head = markdown::head(first);
        let text = TextFile { path: path.to_owned(), from: head.text_starts as u64 };
        let fields = head.fields(name, file.modified);
        Ok(Ok(Found { text: Some((markdown::TEXT, text)), ..Found::row(fields, 0) }))
    }
}
