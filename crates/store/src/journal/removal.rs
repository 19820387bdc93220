//! Removes lines for good, as a person may ask of the owner. Each leaves its number and its chain
//! value, so that the journal still verifies and says how many lines were removed.
//!
//! A line is overwritten where it is and keeps its length, so a process may go on writing behind
//! it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use stile_domain::journal::JournalLine;
use stile_domain::journal_chain::JournalChain;

use super::anchors::Anchors;
use super::reading::{chained_files, journal_files};
use crate::state::StateDir;

/// What a removal found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedLines {
    /// How many lines are removed.
    pub lines: u64,
    /// In how many files.
    pub files: usize,
    /// How many lines stay, since they are of an older version, which gave them no chain value.
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
        let found = find(&path, is_meant)?;
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
        let found = find(&path, is_meant)?;
        result.count(&found);
        if found.places.is_empty() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // First, so that a removal that a kill ends can be run again.
        let removed = found.removed_before + found.places.len() as u64;
        anchors.set_removed(&name, removed).map_err(io::Error::other)?;
        overwrite(&path, &found.places)?;
    }
    Ok(result)
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

fn find(path: &Path, is_meant: &dyn Fn(&JournalLine) -> bool) -> io::Result<Found> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut found, mut offset, mut line) = (Found::default(), 0, Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)? as u64;
        if line.pop() != Some(b'\n') {
            return Ok(found);
        }
        if JournalChain::is_removed(&line) {
            found.removed_before += 1;
        } else if serde_json::from_slice(&line).is_ok_and(|line| is_meant(&line)) {
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
