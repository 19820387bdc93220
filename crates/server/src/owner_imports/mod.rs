//! The owner's imports: what `stile import` and the owner's page do alike.
//!
//! [`input`] recognises a file, [`stream_of`] names the stream that its rows go into, and [`words`]
//! tells what an import found and did. The import itself is `stile_import`'s. [`uploads`] has the
//! files that were sent to the page.

pub mod uploads;
pub mod words;

use std::path::{Path, PathBuf};

use stile_import::attachment_text::TextReader;
use stile_import::collections::{self, DividedExport};
use stile_import::importer::Importer;
use stile_import::importers;
use stile_import::input::ImportInput;

/// How many rows a preview shows.
pub const PREVIEW_ROWS: usize = 5;

/// Why a file cannot be an input of an import.
#[derive(Debug, thiserror::Error)]
pub enum UnknownInput {
    /// The file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file, as the caller named it.
        file: String,
        /// The failure that the system reports.
        error: std::io::Error,
    },
    /// No importer knows its format.
    #[error("{file} is not of a format that Stile recognises: {found}. Nothing was stored")]
    Format {
        /// The file, as the caller named it.
        file: String,
        /// What the file is, as far as one can tell.
        found: String,
    },
}

/// Finds the importer of a file or folder, or takes the one that `format` names.
///
/// # Errors
/// [`UnknownInput`].
pub fn input(
    importers: &[&'static Importer],
    file: &str,
    format: Option<&str>,
) -> Result<ImportInput, UnknownInput> {
    let path = PathBuf::from(file);
    let importer = match format.and_then(|name| importers::named(importers, name)) {
        Some(importer) => Some(importer),
        None => importers::recognise(importers, &path)
            .map_err(|error| UnknownInput::Read { file: file.to_owned(), error })?,
    };
    let unknown = || UnknownInput::Format {
        file: file.to_owned(),
        found: importers::unknown::describe(Path::new(file)),
    };
    importer.map(|importer| ImportInput::whole(path, importer)).ok_or_else(unknown)
}

/// Divides an export that holds several kinds of data; `None` if the files are none.
///
/// # Errors
/// [`UnknownInput`], if some of the files are not of the export.
pub fn divided(
    files: &[String],
    format: Option<&str>,
) -> Result<Option<DividedExport>, UnknownInput> {
    let paths: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    collections::divide(&paths, format)
        .map_err(|error| UnknownInput::Read { file: files.join(", "), error })
}

/// Returns the stream that the importers of all inputs propose; `None` if they do not agree, or if
/// one proposes none.
pub fn stream_of(inputs: &[ImportInput]) -> Option<&'static str> {
    let mut defaults =
        inputs.iter().map(|input| Some(input.importer.preset()?.default_stream)).peekable();
    let first = defaults.peek().copied().flatten();
    first.filter(|_| defaults.all(|default| default == first))
}

/// Returns what reads attached documents: this program, in a process of its own.
///
/// # Errors
/// The system does not say which program this is.
pub fn text_reader() -> std::io::Result<TextReader> {
    std::env::current_exe().map(TextReader::new)
}
