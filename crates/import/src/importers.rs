//! The importers: one file for each, the list of all, and the search for the one that fits a path.
//!
//! To add an importer, write a file with an `IMPORTER` and add it to [`IMPORTERS`]. The command
//! line takes the values of `--format`, its help and its errors from the list. Functions take the
//! list as an argument, so a test can add an importer of its own.

use std::io::{self, Read as _};
use std::path::Path;

use stile_store::archive::Archive;
use stile_store::files;
use stile_store::foreign_database::{ForeignDatabase, MAGIC};

use crate::importer::{Contents, Importer, Recognition};

mod archive_arrays;
pub mod bookmarks;
pub mod browser_history;
pub mod calendar;
mod calendar_zones;
pub mod chatgpt;
mod compact_time;
pub mod contacts;
mod content_lines;
pub mod csv;
pub mod evernote;
pub mod google_activity;
pub mod health;
pub mod json_array;
pub mod json_lines;
mod json_members;
pub mod json_text;
pub mod keep;
pub mod mail_files;
mod mapped_rows;
pub mod markdown;
pub mod mbox;
pub mod notion_pages;
pub mod notion_rows;
pub mod outline;
pub mod places;
pub mod slack;
pub mod statement;
pub mod timeline;
pub mod unknown;
pub mod whatsapp;
pub mod whole_file;
pub mod wrapped_json;
mod xml_elements;

/// Every importer, in the order of the help.
///
/// The list runs from general formats to special ones, and [`recognise`] searches it from its end.
/// So a folder that holds a Slack export is a Slack export before it is a folder of notes.
pub static IMPORTERS: &[&Importer] = &[
    &json_lines::IMPORTER,
    &json_array::IMPORTER,
    &csv::IMPORTER,
    &calendar::IMPORTER,
    &contacts::IMPORTER,
    &statement::OFX,
    &statement::CAMT,
    &bookmarks::IMPORTER,
    &browser_history::IMPORTER,
    &google_activity::IMPORTER,
    &timeline::IMPORTER,
    &timeline::POINTS,
    &outline::IMPORTER,
    &places::IMPORTER,
    &evernote::IMPORTER,
    &health::IMPORTER,
    &markdown::IMPORTER,
    &keep::IMPORTER,
    &notion_pages::IMPORTER,
    &mbox::IMPORTER,
    &mail_files::IMPORTER,
    &whatsapp::IMPORTER,
    &chatgpt::IMPORTER,
    &chatgpt::CLAUDE,
    &chatgpt::grok_export::IMPORTER,
    &slack::IMPORTER,
];

/// Returns the importer with this name.
pub fn named(importers: &[&'static Importer], name: &str) -> Option<&'static Importer> {
    importers.iter().copied().find(|importer| importer.name == name)
}

/// Returns the importer for a path, chosen as [`Recognition`] says; `None` if no importer
/// recognises the path. A file that cannot be opened is recognised by its name alone: reading it
/// reports the failure.
///
/// # Errors
/// The beginning of the file cannot be read, or the file begins as a zip file and is not one.
pub fn recognise(
    importers: &[&'static Importer],
    path: &Path,
) -> io::Result<Option<&'static Importer>> {
    let by_contents =
        |contents: Contents<'_>| last(importers, &|recognition| (recognition.contents)(contents));
    if files::is_folder(path) {
        return Ok(by_contents(Contents::Folder(path)));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(importer) = last(importers, &|recognition| (recognition.file_name)(name)) {
        return Ok(Some(importer));
    }
    if let Ok(file) = files::open(path) {
        let mut beginning = Vec::with_capacity(Contents::BEGINNING_BYTES);
        file.reader.take(Contents::BEGINNING_BYTES as u64).read_to_end(&mut beginning)?;
        let found = if beginning.starts_with(b"PK") {
            by_contents(Contents::Zip(&Archive::open(path)?))
        } else if beginning.starts_with(MAGIC) {
            // A damaged database is of no format, and is described as one.
            ForeignDatabase::open(path)
                .ok()
                .and_then(|database| by_contents(Contents::Database(&database)))
        } else {
            by_contents(Contents::Beginning(&beginning))
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(by_extension(importers, name))
}

/// Returns the importer for a file in an archive, by its first bytes or its extension.
pub fn recognise_archived(
    importers: &[&'static Importer],
    name: &str,
    beginning: &[u8],
) -> Option<&'static Importer> {
    let contents = Contents::Beginning(beginning);
    last(importers, &|recognition| (recognition.contents)(contents))
        .or_else(|| by_extension(importers, name))
}

/// Returns whether an importer takes an archive as a whole.
pub fn takes_archive(importers: &[&'static Importer], archive: &Archive) -> bool {
    last(importers, &|recognition| (recognition.contents)(Contents::Zip(archive))).is_some()
}

fn last(
    importers: &[&'static Importer],
    recognises: &dyn Fn(&Recognition) -> bool,
) -> Option<&'static Importer> {
    importers.iter().copied().rev().find(|importer| recognises(&importer.recognition))
}

fn by_extension(importers: &[&'static Importer], name: &str) -> Option<&'static Importer> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    last(importers, &|recognition| recognition.extensions.contains(&extension.as_str()))
}

/// Returns whether [`recognise`] took a folder for a folder of notes although it has none: no
/// importer finds anything in it.
pub fn is_folder_of_nothing(importer: &Importer, path: &Path) -> bool {
    importer.name == markdown::IMPORTER.name
        && files::is_folder(path)
        && files::find_notes(path).is_ok_and(|notes| notes.is_empty())
}

#[cfg(test)]
mod tests;
