//! Reads the journal: merges the files of all processes, one line of each in memory at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use stile_domain::journal::JournalLine;
use stile_domain::records::instant::Instant;

use super::timestamp::timestamp;
use crate::state::StateDir;

/// The folder of the journal in the state folder.
pub(super) const FOLDER: &str = "journal";
/// How the names of its files end.
pub(super) const EXTENSION: &str = "jsonl";

/// The lines of all processes.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All lines, ordered by time. Lines of one file keep their order.
    pub lines: Vec<JournalLine>,
    /// How many lines could not be parsed. Last lines that a kill or a full disk cut do not count.
    pub damaged: usize,
}

/// Reads the lines of all processes into memory. A journal that was never written to is empty.
pub fn read_all(state: &StateDir) -> io::Result<JournalContents> {
    let mut merged = MergedLines::open(state, None)?;
    let mut lines = Vec::new();
    while let Some(line) = merged.next_line()? {
        lines.push(line);
    }
    Ok(JournalContents { lines, damaged: merged.damaged() })
}

/// Returns the files of the journal, ordered by name, which is the order in which they began.
pub(super) fn journal_files(state: &StateDir) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(state.path().join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    Ok(paths)
}

/// The lines of all files in the order of time.
pub struct MergedLines {
    files: Vec<FileLines>,
    /// The next line of each file that has one: its time, and the index of its file.
    next: BinaryHeap<Reverse<(String, usize)>>,
    lines: BTreeMap<usize, JournalLine>,
    since: String,
}

impl MergedLines {
    /// Opens all files that may have lines from `since` on; all files without it.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open(state: &StateDir, since: Option<Instant>) -> io::Result<Self> {
        let mut merged = Self {
            files: Vec::new(),
            next: BinaryHeap::new(),
            lines: BTreeMap::new(),
            since: since.map(timestamp).unwrap_or_default(),
        };
        for path in journal_files(state)? {
            if since.is_none_or(|since| was_written_since(&path, since)) {
                merged.files.push(FileLines::open(&path, 0)?);
            }
        }
        for index in 0..merged.files.len() {
            merged.advance(index)?;
        }
        Ok(merged)
    }

    /// Returns the next line; `None` after the last.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn next_line(&mut self) -> io::Result<Option<JournalLine>> {
        let Some(Reverse((_, index))) = self.next.pop() else { return Ok(None) };
        let line = self.lines.remove(&index);
        self.advance(index)?;
        Ok(line)
    }

    /// Returns how many lines so far could not be parsed.
    pub fn damaged(&self) -> usize {
        self.files.iter().map(|file| file.damaged).sum()
    }

    /// Reads the next line of a file that is not too old.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let Some(file) = self.files.get_mut(index) else { return Ok(()) };
        while let Some(line) = file.next_line()? {
            if line.at >= self.since {
                self.next.push(Reverse((line.at.clone(), index)));
                self.lines.insert(index, line);
                break;
            }
        }
        Ok(())
    }
}

/// Follows the journal: returns the lines that were written since the last look.
pub struct NewLines {
    state: StateDir,
    /// The position after the last whole line of each file.
    positions: BTreeMap<PathBuf, u64>,
}

impl NewLines {
    /// Begins after the lines that are there now.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn after_now(state: StateDir) -> io::Result<Self> {
        let mut new_lines = Self { state, positions: BTreeMap::new() };
        new_lines.take()?;
        Ok(new_lines)
    }

    /// Returns the lines since the last call, in the order of time.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn take(&mut self) -> io::Result<Vec<JournalLine>> {
        let mut lines = Vec::new();
        for path in journal_files(&self.state)? {
            let position = self.positions.get(&path).copied().unwrap_or(0);
            let mut file = match FileLines::open(&path, position) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            while let Some(line) = file.next_line()? {
                lines.push(line);
            }
            self.positions.insert(path, file.position);
        }
        lines.sort_by(|a, b| a.at.cmp(&b.at));
        Ok(lines)
    }
}

/// The lines of one file.
struct FileLines {
    reader: BufReader<File>,
    /// The position after the last whole line.
    position: u64,
    damaged: usize,
}

impl FileLines {
    fn open(path: &Path, position: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(position))?;
        Ok(Self { reader: BufReader::new(file), position, damaged: 0 })
    }

    /// Returns the next whole line that can be parsed.
    fn next_line(&mut self) -> io::Result<Option<JournalLine>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = self.reader.read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                return Ok(None);
            }
            self.position += read as u64;
            match serde_json::from_slice(&bytes) {
                Ok(line) => return Ok(Some(line)),
                Err(_) => self.damaged += 1,
            }
        }
    }
}

/// Returns whether a file was written to at `since` or later, as far as the file system knows.
fn was_written_since(path: &Path, Instant(since): Instant) -> bool {
    /// How coarse the times of a file system and how far apart clocks may be.
    const SLACK: Duration = Duration::from_secs(60 * 60);
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| {
        let micros = (modified + SLACK).duration_since(UNIX_EPOCH).map_or(0, |age| age.as_micros());
        i128::try_from(micros).is_ok_and(|micros| micros >= i128::from(since))
    })
}
