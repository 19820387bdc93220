//! Removes lines for good, as a person may ask of the owner. Each leaves its number and its chain
//! value, so that the journal still verifies and says how many lines were removed.
//!
//! A line is overwritten where it is and keeps its length, so a process may go on writing behind
//! it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use stile_domain::journal::JournalLine;
use stile_domain::journal_chain::JournalChain;

use super::anchors::Anchors;
use super::reading::{chained_files, journal_files};
use super::shared::{LeftLine, SharedJournal, SharedLine};
use crate::state::StateDir;

/// What a removal found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedLines {
    /// How many lines are removed.
    pub lines: u64,
    /// In how many files.
    pub files: usize,
    /// How many lines stay, since they have no chain value: this program did not write them.
    pub unchained: u64,
}

/// A line that is removed: where it begins in its file, and what is left of it.
struct Place {
    offset: u64,
    left: Vec<u8>,
}

/// Returns which lines a removal would remove, and changes nothing.
pub(super) fn plan(
    state: &StateDir,
    is_meant: &dyn Fn(&JournalLine) -> bool,
) -> io::Result<RemovedLines> {
    let mut result = RemovedLines::default();
    for path in journal_files(state)? {
        let found = find(&path, &|_, line| is_line(line, is_meant))?;
        result.count(&found);
    }
    Ok(result)
}

/// Removes the lines that are meant.
pub(super) fn remove(
    state: &StateDir,
    is_meant: &dyn Fn(&JournalLine) -> bool,
) -> io::Result<RemovedLines> {
    let mut result = RemovedLines::default();
    let mut anchors =
        Anchors::open(state.path(), || chained_files(state)).map_err(io::Error::other)?;
    for path in journal_files(state)? {
        let found = remove_from(&path, &mut anchors, &|_, line| is_line(line, is_meant))?;
        result.count(&found);
    }
    Ok(result)
}

/// Removes the lines of one file that have these numbers, from 1, unless they are removed.
pub(super) fn remove_numbered(
    state: &StateDir,
    path: &Path,
    numbers: &BTreeSet<u64>,
) -> io::Result<()> {
    let mut anchors =
        Anchors::open(state.path(), || chained_files(state)).map_err(io::Error::other)?;
    remove_from(path, &mut anchors, &|number, _| numbers.contains(&number))?;
    Ok(())
}

/// Counts the lines in the database of several servers that are meant, and changes nothing.
///
/// # Errors
/// The error of the database.
pub(super) fn plan_shared(
    journal: &SharedJournal,
    is_meant: &dyn Fn(&JournalLine) -> bool,
) -> io::Result<RemovedLines> {
    each_meant(journal, is_meant, &|_, left| Ok(left.len() as u64))
}

/// Removes the lines in the database of several servers that are meant.
///
/// # Errors
/// The error of the database. What was removed before stays removed.
pub(super) fn remove_shared(
    journal: &SharedJournal,
    is_meant: &dyn Fn(&JournalLine) -> bool,
) -> io::Result<RemovedLines> {
    each_meant(journal, is_meant, &|file, left| journal.overwrite(file, left))
}

/// Calls `remove` with a file, and what is left of some of its lines that are meant. Counts what
/// `remove` returns.
fn each_meant(
    journal: &SharedJournal,
    is_meant: &dyn Fn(&JournalLine) -> bool,
    remove: &dyn Fn(&str, &[LeftLine]) -> io::Result<u64>,
) -> io::Result<RemovedLines> {
    let mut result = RemovedLines::default();
    for copied in journal.files("")?.into_iter().filter(|file| !file.retired) {
        let mut removed = 0;
        journal.each_page(&copied.file, &mut |lines| {
            let mut left = Vec::new();
            for SharedLine { number, line, .. } in lines {
                match is_line(&line, is_meant).then(|| JournalChain::remove(&line)) {
                    Some(Some(line)) => left.push(LeftLine { number, line }),
                    Some(None) => result.unchained += 1,
                    None => {}
                }
            }
            removed += if left.is_empty() { 0 } else { remove(&copied.file, &left)? };
            Ok(())
        })?;
        result.lines += removed;
        result.files += usize::from(removed > 0);
    }
    Ok(result)
}

/// Returns whether a removal means a line.
fn is_line(line: &[u8], is_meant: &dyn Fn(&JournalLine) -> bool) -> bool {
    serde_json::from_slice(line).is_ok_and(|line| is_meant(&line))
}

fn remove_from(
    path: &Path,
    anchors: &mut Anchors,
    is_meant: &dyn Fn(u64, &[u8]) -> bool,
) -> io::Result<Found> {
    let found = find(path, is_meant)?;
    if !found.places.is_empty() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // First, so that a removal that a kill ends can be run again.
        let removed = found.removed_before + found.places.len() as u64;
        anchors.set_removed(&name, removed).map_err(io::Error::other)?;
        overwrite(path, &found.places)?;
    }
    Ok(found)
}

/// What a file has of the lines that are meant.
#[derive(Default)]
struct Found {
    places: Vec<Place>,
    removed_before: u64,
    unchained: u64,
}

impl RemovedLines {
    fn count(&mut self, found: &Found) {
        self.lines += found.places.len() as u64;
        self.files += usize::from(!found.places.is_empty());
        self.unchained += found.unchained;
    }
}

/// Finds the lines of a file that are meant by their number, from 1, and their bytes.
fn find(path: &Path, is_meant: &dyn Fn(u64, &[u8]) -> bool) -> io::Result<Found> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut found, mut offset, mut number, mut line) = (Found::default(), 0, 0, Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)? as u64;
        if line.pop() != Some(b'\n') {
            return Ok(found);
        }
        number += 1;
        if JournalChain::is_removed(&line) {
            found.removed_before += 1;
        } else if is_meant(number, &line) {
            match JournalChain::remove(&line) {
                Some(left) => found.places.push(Place { offset, left }),
                None => found.unchained += 1,
            }
        }
        offset += read;
    }
}

fn overwrite(path: &Path, places: &[Place]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    for Place { offset, left } in places {
        file.seek(SeekFrom::Start(*offset))?;
        file.write_all(left)?;
    }
    file.sync_data()
}
