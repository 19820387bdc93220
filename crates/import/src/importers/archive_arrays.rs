//! Reads files of an archive that are JSON arrays, as the exports of ChatGPT and Slack are.
//!
//! An archive is a zip file or a folder. Its files are read by the names that the service gives;
//! an importer looks at any other file only if a message names it. A file that cannot be read is
//! one bad row, and so is an entry that the store refuses. The other files are read all the same.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use stile_domain::records::value::RecordFields;
use stile_records::rows::{DecodedRow, RowDecoder as _};
use stile_store::archive::{Archive, ArchiveEntryReader, RefusedArchiveEntry};

use super::json_array::JsonArray;
use crate::importer::{ImportRow, LocatedRow, UnusableRow};

/// The elements of some files of an archive.
pub(super) struct ArchiveArrays {
    archive: Arc<Archive>,
    /// The path of the archive, as a person reads it.
    path: String,
    /// The numbers of the entries that were not opened yet.
    remaining: std::vec::IntoIter<usize>,
    /// The file that is read, with the location of its next element.
    current: Option<(ElementLocation, JsonArray<ArchiveEntryReader>)>,
    /// Bytes of the files before the current one.
    before: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ElementLocation {
    file: Arc<str>,
    pub(super) entry: usize,
    line: u64,
    /// The index of the element in its file, from 0 on. Two elements can share a line, and no two
    /// share an index.
    pub(super) index: u64,
}

impl ElementLocation {
    /// Locates the row that the element became.
    pub(super) fn locate(&self, row: Result<ImportRow, UnusableRow>) -> LocatedRow {
        LocatedRow { file: Arc::clone(&self.file), line: self.line, row }
    }
}

/// An element of an array, or why it cannot be used.
pub(super) struct ArrayElement {
    pub(super) location: ElementLocation,
    /// The members of the element, and how many halves of surrogate pairs became U+FFFD.
    pub(super) row: Result<(RecordFields, u64), UnusableRow>,
}

impl ArchiveArrays {
    /// Reads these entries of an archive, in this order.
    pub(super) fn new(archive: &Arc<Archive>, path: &Path, entries: Vec<usize>) -> Self {
        Self {
            archive: Arc::clone(archive),
            path: path.display().to_string(),
            remaining: entries.into_iter(),
            current: None,
            before: 0,
        }
    }

    /// Returns the next element, or `None` after the last of the last file.
    pub(super) fn next(&mut self) -> Option<ArrayElement> {
        loop {
            let (mut location, mut array) = match self.current.take() {
                Some(current) => current,
                None => {
                    let entry = self.remaining.next()?;
                    let Some(found) = self.archive.entries().get(entry) else { continue };
                    let file = format!("{}/{}", self.path, found.name).into();
                    let location = ElementLocation { file, entry, line: 1, index: 0 };
                    match self.archive.read(found) {
                        Ok(reader) => (location, JsonArray::new(reader)),
                        Err(error) => return Some(unreadable(location, &error)),
                    }
                }
            };
            match array.next() {
                Ok(Some(DecodedRow { line, row })) => {
                    location.line = line;
                    let row = row.map(|row| (row.fields, row.replaced)).map_err(UnusableRow::from);
                    let element = ArrayElement { location: location.clone(), row };
                    location.index += 1;
                    self.current = Some((location, array));
                    return Some(element);
                }
                Ok(None) => self.before += array.consumed(),
                Err(error) => {
                    self.before += array.consumed();
                    location.line = array.line();
                    return Some(unreadable(location, &error));
                }
            }
        }
    }

    /// Returns how many bytes of the files were read.
    pub(super) fn consumed(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |(_, array)| array.consumed())
    }

    /// Returns the name of an entry; empty if there is no such entry.
    pub(super) fn entry_name(&self, entry: usize) -> &str {
        self.archive.entries().get(entry).map_or("", |entry| entry.name.as_str())
    }

    /// Returns a bad row for each entry of the archive that the store refuses.
    pub(super) fn refused_entries(&self) -> VecDeque<LocatedRow> {
        let row = |refused: &RefusedArchiveEntry| LocatedRow {
            file: format!("{}/{}", self.path, refused.name).into(),
            line: 1,
            row: Err(UnusableRow::new(refused.error.code(), refused.error)),
        };
        self.archive.refused().iter().map(row).collect()
    }
}

fn unreadable(location: ElementLocation, error: &io::Error) -> ArrayElement {
    let reason = format!("the file could not be read to its end: {error}");
    ArrayElement { location, row: Err(UnusableRow::new("unreadable", reason)) }
}

/// Returns the number and the name of each entry.
pub(super) fn entry_names(archive: &Archive) -> impl Iterator<Item = (usize, &str)> {
    archive.entries().iter().map(|entry| entry.name.as_str()).enumerate()
}

/// Returns the folder of an entry with the `/` at its end; `""` at the top.
pub(super) fn folder_of(name: &str) -> &str {
    name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default()
}

/// Returns how many bytes some entries have together when they are unpacked.
pub(super) fn bytes_of(archive: &Archive, entries: &[usize]) -> u64 {
    entries
        .iter()
        .filter_map(|&number| archive.entries().get(number))
        .map(|entry| entry.bytes)
        .sum()
}
