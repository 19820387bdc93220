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
use stile_records::rows::{Decoded, Decoder as _};
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
    current: Option<CurrentArray>,
    /// Bytes of the files before the current one.
    before: u64,
    /// The entry that was last named in a [`LocatedRow`], and its path.
    named: Option<(usize, Arc<str>)>,
}

struct CurrentArray {
    entry: usize,
    array: JsonArray<ArchiveEntryReader>,
    /// How many elements of it were read.
    count: u64,
}

/// Where an element of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElementLocation {
    /// The number of the archive's entry.
    pub(super) entry: usize,
    /// The line where the element begins, 1-based.
    pub(super) line: u64,
    /// The index of the element in its file, from 0 on. Two elements can share a line, and no two
    /// share an index.
    pub(super) index: u64,
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
            named: None,
        }
    }

    /// Returns the next element, or `None` after the last of the last file.
    pub(super) fn next(&mut self) -> Option<ArrayElement> {
        loop {
            let CurrentArray { entry, array, count } = match &mut self.current {
                Some(current) => current,
                None => {
                    let number = self.remaining.next()?;
                    match self.archive.entries().get(number).map(|entry| self.archive.read(entry)) {
                        Some(Ok(reader)) => self.current.insert(CurrentArray {
                            entry: number,
                            array: JsonArray::new(reader),
                            count: 0,
                        }),
                        Some(Err(error)) => {
                            let location = ElementLocation { entry: number, line: 1, index: 0 };
                            return Some(unreadable(location, &error));
                        }
                        None => continue,
                    }
                }
            };
            let (entry, index) = (*entry, *count);
            *count += 1;
            let last = match array.next() {
                Ok(Some(Decoded { line, row })) => {
                    let row = row.map(|row| (row.fields, row.replaced)).map_err(UnusableRow::from);
                    return Some(ArrayElement {
                        location: ElementLocation { entry, line, index },
                        row,
                    });
                }
                Ok(None) => None,
                Err(error) => {
                    let location = ElementLocation { entry, line: array.line(), index };
                    Some(unreadable(location, &error))
                }
            };
            self.before += array.consumed();
            self.current = None;
            if last.is_some() {
                return last;
            }
        }
    }

    /// Returns how many bytes of the files were read.
    pub(super) fn consumed(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |current| current.array.consumed())
    }

    /// Returns the name of an entry; empty if there is no such entry.
    pub(super) fn entry_name(&self, entry: usize) -> &str {
        self.archive.entries().get(entry).map_or("", |entry| entry.name.as_str())
    }

    /// Locates a row that an element became.
    pub(super) fn locate(
        &mut self,
        location: ElementLocation,
        row: Result<ImportRow, UnusableRow>,
    ) -> LocatedRow {
        let file = match &self.named {
            Some((named, file)) if *named == location.entry => Arc::clone(file),
            _ => {
                let file = format!("{}/{}", self.path, self.entry_name(location.entry));
                Arc::clone(&self.named.insert((location.entry, file.into())).1)
            }
        };
        LocatedRow { file, line: location.line, row }
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
