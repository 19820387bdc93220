//! What an import reports: its progress, its counts, its bad rows, and why it stopped.

use std::collections::BTreeMap;
use std::io;

use stile_domain::records::declaration::{BadDeclaration, Declaration};
use stile_domain::records::pieces::INLINE_BYTES;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::table::column::OpenDates;
use stile_domain::records::value::RecordFields;
use stile_domain::unseen::shown_start;
use stile_store::records::{UpsertOutcome, WriteRefusal};

use crate::attachment_text::UnreadDocuments;
use crate::export_age::ExportAge;
use crate::importer::UnusableRow;

/// How many bad rows a report describes. All are counted.
pub const BAD_ROWS_LISTED: usize = 100;

/// How much of a value an example shows, in characters.
const EXAMPLE_CHARS: usize = 40;

/// What a bad row does to the rest of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRowPolicy {
    /// The bad row is reported, and every other row is stored.
    Skip,
    /// The import is one transaction. A bad row stops it, and nothing is stored.
    StoreNothing,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// How many records are new.
    pub added: u64,
    /// How many stored records were replaced by a row that differs.
    pub changed: u64,
    /// How many rows were stored before in the same form, or in a later one.
    pub unchanged: u64,
    /// How many of the unchanged rows are older than the stored records, by the field that says
    /// when a record was changed, with its name; `None` if there is no such row.
    pub older: Option<(String, u64)>,
    /// How many of the unchanged rows differ from the stored records, and are of an older export,
    /// or of one that does not say when it was made.
    pub outdated: u64,
    /// How many of these are of an export that does not say when it was made.
    pub undated: u64,
    /// What was left out of the files, as the end of a sentence, and how many there were.
    pub left_out: BTreeMap<&'static str, u64>,
    /// How many rows could not be stored.
    pub bad_rows: u64,
    /// The first [`BAD_ROWS_LISTED`] rows that could not be stored.
    pub bad: Vec<BadRow>,
    /// How many halves of surrogate pairs became U+FFFD.
    pub replaced: u64,
    /// How many attachments have a text that was read.
    pub texts_read: u64,
    /// How many attached documents have no text that could be read.
    pub unread: UnreadDocuments,
    /// How many attached documents were not read, because the stream does not declare the field
    /// for their text.
    pub undeclared_texts: u64,
    /// The reasons for the declaration, one a line, if this import declared the stream.
    pub declared_because: Vec<String>,
    /// How the files were read and why, one line for each file that shows something.
    pub read_as: Vec<String>,
    /// The fields whose values are of another type than the stream declares, by name. At most
    /// [`FIELDS_LISTED`].
    pub misfits: BTreeMap<String, MisfitValues>,
    /// The fields with lists into which neither a filter nor an aggregate looks, because they are
    /// too long, with the number of their rows. At most [`FIELDS_LISTED`].
    pub long_lists: BTreeMap<String, u64>,
    /// The fields that the stream does not declare, with the number of their rows. At most
    /// [`FIELDS_LISTED`].
    pub undeclared: BTreeMap<String, u64>,
    /// The fields that this import added to the declaration.
    pub added_fields: Vec<String>,
}

/// How many fields a report names that a declaration lacks or whose values do not fit.
pub const FIELDS_LISTED: usize = 20;

/// Values of one field that are of another type than the stream declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisfitValues {
    /// The declared type, as a sentence names it: `a number`.
    pub declared: String,
    /// How many rows have such a value.
    pub rows: u64,
    /// The beginning of the first such value, or of the member of a list that does not fit.
    pub example: String,
    /// Whether the example is a member of a list whose others may fit.
    pub are_members: bool,
    /// The file of the first such value, as the caller named it.
    pub file: String,
    /// The line where its row begins, 1-based.
    pub line: u64,
}

impl ImportReport {
    /// Counts a row that was stored.
    ///
    /// # Errors
    /// [`UnusableRow`] if the store refused the row.
    pub(crate) fn count(&mut self, outcome: UpsertOutcome) -> Result<(), UnusableRow> {
        match outcome {
            UpsertOutcome::Added => self.added += 1,
            UpsertOutcome::Changed => self.changed += 1,
            UpsertOutcome::Unchanged => self.unchanged += 1,
            UpsertOutcome::Refused(refused) => {
                let code = match refused {
                    WriteRefusal::NotUtf8 => "invalid_utf8",
                    WriteRefusal::Unreadable => "unreadable",
                    _ => "not_stored",
                };
                return Err(UnusableRow::new(code, refused));
            }
        }
        Ok(())
    }

    /// Counts a row that is older than the stored record, by a field.
    pub(crate) fn count_older(&mut self, field: &str) {
        self.unchanged += 1;
        self.older.get_or_insert_with(|| (field.to_owned(), 0)).1 += 1;
    }

    /// Counts a row that differs from the stored record and is of an older export, or of one that
    /// does not say when it was made.
    pub(crate) fn count_outdated(&mut self, age: ExportAge) {
        self.unchanged += 1;
        self.outdated += 1;
        self.undated += u64::from(age == ExportAge::Undated);
    }

    /// Adds the counts and bad rows of another import.
    pub(crate) fn add(&mut self, other: Self) {
        self.added += other.added;
        self.changed += other.changed;
        self.unchanged += other.unchanged;
        if let Some((field, rows)) = other.older {
            self.older.get_or_insert((field, 0)).1 += rows;
        }
        self.outdated += other.outdated;
        self.undated += other.undated;
        for (what, count) in other.left_out {
            *self.left_out.entry(what).or_default() += count;
        }
        self.bad_rows += other.bad_rows;
        self.bad.extend(other.bad);
        self.bad.truncate(BAD_ROWS_LISTED);
        self.replaced += other.replaced;
        self.texts_read += other.texts_read;
        self.unread.damaged += other.unread.damaged;
        self.unread.too_large += other.unread.too_large;
        self.unread.without_text += other.unread.without_text;
        self.undeclared_texts += other.undeclared_texts;
        self.declared_because.extend(other.declared_because);
        self.read_as.extend(other.read_as);
        self.added_fields.extend(other.added_fields);
        for (name, found) in other.misfits {
            self.add_misfits(name, found);
        }
        for (name, rows) in other.undeclared {
            add_rows(&mut self.undeclared, &name, rows);
        }
        for (name, rows) in other.long_lists {
            add_rows(&mut self.long_lists, &name, rows);
        }
    }

    /// Counts the fields of a row that the stream does not declare, and those whose values are of
    /// another type than declared.
    pub(crate) fn compare(
        &mut self,
        declaration: &Declaration,
        fields: &RecordFields,
        (file, line): (&str, u64),
    ) {
        for (name, value) in fields {
            let Some(declared) = declaration.field(name) else {
                add_rows(&mut self.undeclared, name, 1);
                continue;
            };
            let value = StoredValue::from(value);
            if !declared.admits(value) {
                let member = declared.misfit_member(value);
                let are_members = member.is_some();
                let example = member.unwrap_or_else(|| value.shown());
                let example = shown_start(&example, EXAMPLE_CHARS);
                let (declared, file) = (declared.described_type(), file.to_owned());
                let found = MisfitValues { declared, rows: 1, example, are_members, file, line };
                self.add_misfits(name.clone(), found);
            }
            let is_long = matches!(value, StoredValue::Json(json) if json.len() > INLINE_BYTES);
            if is_long && declared.is_list() {
                add_rows(&mut self.long_lists, name, 1);
            }
        }
    }

    fn add_misfits(&mut self, name: String, found: MisfitValues) {
        let has_room = self.misfits.len() < FIELDS_LISTED;
        match self.misfits.get_mut(&name) {
            Some(known) => known.rows += found.rows,
            None if has_room => drop(self.misfits.insert(name, found)),
            None => {}
        }
    }

    /// Counts a bad row, and lists it if there is room.
    pub(crate) fn add_bad_row(&mut self, bad: BadRow) {
        self.bad_rows += 1;
        if self.bad.len() < BAD_ROWS_LISTED {
            self.bad.push(bad);
        }
    }
}

/// Counts rows of a field among at most [`FIELDS_LISTED`].
fn add_rows(of: &mut BTreeMap<String, u64>, name: &str, rows: u64) {
    let has_room = of.len() < FIELDS_LISTED;
    match of.get_mut(name) {
        Some(known) => *known += rows,
        None if has_room => drop(of.insert(name.to_owned(), rows)),
        None => {}
    }
}

/// A row that could not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file, as the caller named it.
    pub file: String,
    /// The line where the row begins, 1-based.
    pub line: u64,
    /// The stable code, for example `invalid_json`.
    pub code: &'static str,
    /// The reason, in words.
    pub reason: String,
}

impl BadRow {
    /// Locates a row that cannot be used.
    pub(crate) fn new(file: &str, line: u64, UnusableRow { code, reason }: UnusableRow) -> Self {
        Self { file: file.to_owned(), line, code, reason }
    }
}

/// An import that stopped before its end.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StoppedImport {
    /// Why the import stopped.
    pub error: ImportError,
    /// The rows that were stored before, in whole batches. Nothing with
    /// [`BadRowPolicy::StoreNothing`].
    pub report: ImportReport,
}

impl StoppedImport {
    /// An import that stored nothing.
    pub(crate) fn before_any_row(error: ImportError) -> Box<Self> {
        Box::new(Self { error, report: ImportReport::default() })
    }
}

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The database failed, or the caller is not the owner.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// A file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file, as the caller named it.
        file: String,
        /// The failure that the system reports.
        error: io::Error,
    },
    /// The dates of a file can be read in two ways.
    #[error(
        "{file}: {}. Add --dates {}. Nothing was stored",
        .dates.described(), .dates.orders().join(" or --dates ")
    )]
    OpenDates {
        /// The file, as the caller named it.
        file: String,
        /// The column and an example.
        dates: OpenDates,
    },
    /// No thread can be started that reads the rows.
    #[error("cannot start a thread that reads the rows: {0}")]
    NoReader(io::Error),
    /// No process can be started that reads attached documents.
    #[error("cannot start a process that reads attached documents: {0}")]
    NoTextReader(io::Error),
    /// The stream has another key.
    #[error(
        "the key of this stream is {declared} and cannot change while it has records; \
         import without --key, or into another stream"
    )]
    OtherKey {
        /// The key of the stream, in words.
        declared: String,
    },
    /// The key that the caller names does not fit the rows.
    #[error("{0}")]
    Key(BadDeclaration),
    /// A row cannot be stored, and the policy is [`BadRowPolicy::StoreNothing`].
    #[error(
        "{}:{}: {} ({}). Nothing was written, since the import is strict",
        .0.file, .0.line, .0.reason, .0.code
    )]
    BadRow(BadRow),
    /// The stream was declared anew by another program while the import ran.
    #[error("the stream was declared anew while this ran; run it again")]
    Redeclared,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// Whether rows are stored. `false` while rows are read to declare the stream.
    pub storing: bool,
    /// How many bytes this pass has read.
    pub bytes: u64,
    /// How many bytes this pass will read.
    pub total: u64,
}

/// Receives the progress of an import, at most once a batch.
pub type OnProgress<'w> = &'w mut dyn FnMut(ImportProgress);
