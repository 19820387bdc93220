//! What the owner says about how files are read, and how that is settled before the first row.
//!
//! The form of each CSV file is found once, and what is found counts for the next file of the same
//! stream. The declaration of the stream remembers it for later imports.

use std::io::{self, BufRead as _};
use std::sync::Arc;

use stile_domain::records::declaration::Declaration;
use stile_domain::records::table::written_date::DateOrder;

use crate::importers::csv::form::{CsvForm, CsvFormError};
use crate::importers::csv::options::CsvOptions;
use crate::importers::wrapped_json::RowsPath;
use crate::importers::{
    browser_history, csv, json_array, json_text, statement, whatsapp, wrapped_json,
};
use crate::input::ImportInput;
use crate::report::ImportError;

/// What the owner says about how files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingOptions {
    /// How CSV is laid out and spelled.
    pub csv: CsvOptions,
    /// Where the rows of JSON files are. What is absent is found by looking at the file.
    pub rows: Option<RowsPath>,
    /// What happens to fields that the stream does not declare.
    pub undeclared: UndeclaredFields,
}

/// What an import does with fields that the stream does not declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndeclaredFields {
    /// It stores them and reports them. Only the owner sees them.
    #[default]
    Report,
    /// It adds them to the declaration.
    Declare,
}

/// Inputs whose form is known.
pub(crate) struct ReadInputs {
    /// The inputs, each with the form of its file.
    pub(crate) inputs: Vec<ImportInput>,
    /// How the files are read and why, a line for each decision.
    pub(crate) reasons: Vec<String>,
    /// The options of CSV that the declaration keeps, so that later imports read alike.
    pub(crate) memory: CsvOptions,
}

impl ReadInputs {
    /// Finds the form of each file. `stream` is the declaration of the stream, if there is one.
    pub(crate) fn find(
        inputs: &[ImportInput],
        options: &ReadingOptions,
        stream: Option<&Declaration>,
    ) -> Result<Self, ImportError> {
        let remembered = stream.map(CsvOptions::remembered).unwrap_or_default();
        let mut memory = options.csv.clone().or(remembered);
        let mut found = Vec::with_capacity(inputs.len());
        let mut reasons = Vec::new();
        for input in inputs {
            let mut input = input.clone();
            if input.importer.name == csv::IMPORTER.name {
                let file = input.path.display().to_string();
                let form = CsvForm::find(&input.path, &options.csv, &memory, stream);
                let form = form.map_err(|error| match error {
                    CsvFormError::Read(error) => ImportError::Read { file: file.clone(), error },
                    CsvFormError::OpenDates(dates) => {
                        ImportError::OpenDates { file: file.clone(), dates }
                    }
                })?;
                if !form.reasons.is_empty() {
                    reasons.push(format!("{file}: {}", form.reasons.join("; ")));
                }
                let spelling = CsvOptions {
                    spelling: form.spelling,
                    currencies: form.currencies.clone(),
                    sides: form.sides.clone(),
                    ..CsvOptions::default()
                };
                memory = memory.or(spelling);
                input.csv_form = Some(Arc::new(form));
            } else if input.importer.name == whatsapp::IMPORTER.name {
                let order = order_of_chat(&input, options, &memory)?;
                memory.spelling.dates = memory.spelling.dates.or(Some(order));
                input.dates = Some(order);
            } else if input.importer.name == json_array::IMPORTER.name {
                // A part of an export knows where its rows are.
                if input.rows_path.is_none() {
                    input.rows_path = options.rows.clone().map_or_else(
                        || guessed_path(&input, stream.is_some()),
                        |path| Ok(Some(path)),
                    )?;
                }
                input.repairs_text = encoded_twice(&input)?;
                if input.repairs_text {
                    reasons.push(format!(
                        "{}: its texts were encoded twice, as Instagram and Facebook do, and are repaired",
                        input.path.display()
                    ));
                }
                if let Some(path) = &input.rows_path {
                    reasons.push(format!("{}: the rows are in `{path}`", input.path.display()));
                }
            }
            let file = || input.path.display().to_string();
            if input.importer.name == browser_history::IMPORTER.name {
                let unread = browser_history::unread_visits(&input.path);
                let more = unread.into_iter().chain(browser_history::with_bookmarks(&input.path));
                reasons.extend(more.map(|line| format!("{}: {line}", file())));
            }
            let currencies = statement::currencies(&input.path, input.importer)
                .map_err(|error| ImportError::Read { file: file(), error })?;
            if currencies.len() > 1 {
                let list: Vec<String> = currencies.into_iter().collect();
                reasons.push(format!(
                    "{}: its amounts are in several currencies ({}), so add them up by `currency`",
                    file(),
                    list.join(", ")
                ));
            }
            let reads_tables = [csv::IMPORTER.name, whatsapp::IMPORTER.name];
            if options.csv != CsvOptions::default() && !reads_tables.contains(&input.importer.name)
            {
                reasons.push(format!(
                    "{}: it is no table, so --decimal, --dates, --encoding, --skip, --header and \
                     --delimiter change nothing",
                    input.path.display()
                ));
            }
            found.push(input);
        }
        Ok(Self { inputs: found, reasons, memory })
    }
}

/// Returns the order of the dates of a chat: what the owner says, what all dates of the file show,
/// or what is remembered of the stream.
fn order_of_chat(
    input: &ImportInput,
    options: &ReadingOptions,
    memory: &CsvOptions,
) -> Result<DateOrder, ImportError> {
    if let Some(said) = options.csv.spelling.dates {
        return Ok(said);
    }
    let file = || input.path.display().to_string();
    let found = whatsapp::find_order(&input.path)
        .map_err(|error| ImportError::Read { file: file(), error })?;
    found
        .or_else(|dates| memory.spelling.dates.ok_or(dates))
        .map_err(|dates| ImportError::OpenDates { file: file(), dates })
}

fn encoded_twice(input: &ImportInput) -> Result<bool, ImportError> {
    let file = || input.path.display().to_string();
    json_text::is_encoded_twice(&input.path)
        .map_err(|error| ImportError::Read { file: file(), error })
}

/// Guesses where the rows of a JSON file are. What a stream has from the elements of an array stays
/// so.
fn guessed_path(input: &ImportInput, is_declared: bool) -> Result<Option<RowsPath>, ImportError> {
    let read = || -> io::Result<Option<RowsPath>> {
        let mut reader = json_text::open(&input.path)?;
        let beginning = reader.fill_buf()?;
        let beginning = beginning.strip_prefix("\u{feff}".as_bytes()).unwrap_or(beginning);
        if is_declared && beginning.trim_ascii_start().starts_with(b"[") {
            return Ok(None);
        }
        let found = wrapped_json::guess(reader)?;
        if found.is_none()
            && let Some(members) = wrapped_json::members(json_text::open(&input.path)?)?
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, members.advice()));
        }
        Ok(found)
    };
    let file = || input.path.display().to_string();
    read().map_err(|error| ImportError::Read { file: file(), error })
}
