//! Reads the journal: merges the files of all processes, one line of each in memory at a time, or
//! takes the lines of all servers from the database that they share.
//!
//! The name of a file says when it began, so a reader has no more files open than had lines at the
//! same time, however many sessions there were. Who follows the journal does not read what was
//! there before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use stile_domain::journal::JournalLine;
use stile_domain::journal_chain::JournalChain;
use stile_domain::records::instant::{Instant, MICROS_A_DAY};

use super::shared::{SharedJournal, SharedLine};
use super::timestamp::{time_in_name, timestamp};
use crate::now;
use crate::state::StateDir;

/// The folder of the journal in the state folder.
pub(super) const FOLDER: &str = "journal";
/// How the names of its files end.
pub(super) const EXTENSION: &str = "jsonl";
/// How long a file is written to. Lines are removed for their age a whole file at a time.
pub(super) const FILE_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How much of the end of a file is read at a time to find its last line, which most lines fit in.
const END_BYTES: u64 = 4 * 1024;

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
    let mut merged = MergedFiles::open(state, None)?;
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

/// Returns the names of the files whose first line has a chain value.
pub(super) fn chained_files(state: &StateDir) -> Vec<String> {
    let is_chained = |path: &PathBuf| {
        let mut line = Vec::new();
        let read = File::open(path).map(BufReader::new);
        let read = read.and_then(|mut file| file.read_until(b'\n', &mut line));
        line.pop();
        read.is_ok() && JournalChain::stated_by(&line).is_some()
    };
    let paths = journal_files(state).unwrap_or_default();
    let chained = paths.iter().filter(|path| is_chained(path));
    chained.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// The lines of a journal in the order of time.
pub struct MergedLines {
    lines: Merged,
    /// Whose lines are returned; `None` for those of everybody.
    subject: Option<Arc<str>>,
}

enum Merged {
    Files(MergedFiles),
    Servers(SharedLines),
}

impl MergedLines {
    /// Opens the lines of a state folder that were written at `since` or later.
    pub(super) fn of_files(state: &StateDir, since: Option<Instant>) -> io::Result<Self> {
        Ok(Self { lines: Merged::Files(MergedFiles::open(state, since)?), subject: None })
    }

    /// Returns only the lines of one subject, if there is one.
    pub(super) fn of_subject(self, subject: Option<Arc<str>>) -> Self {
        Self { subject, ..self }
    }

    /// Opens the lines of all servers that were written at `since` or later.
    pub(super) fn of_servers(journal: &SharedJournal, since: Option<Instant>) -> Self {
        Self { lines: Merged::Servers(SharedLines::new(journal, since)), subject: None }
    }

    /// Returns the next line; `None` after the last.
    ///
    /// # Errors
    /// The error of the file system or of the database.
    pub fn next_line(&mut self) -> io::Result<Option<JournalLine>> {
        loop {
            let line = match &mut self.lines {
                Merged::Files(files) => files.next_line()?,
                Merged::Servers(lines) => lines.next_line()?,
            };
            match line {
                Some(line) if !is_of(&line, self.subject.as_deref()) => {}
                line => return Ok(line),
            }
        }
    }

    /// Returns how many lines so far could not be parsed. Nobody knows whose they were, so among
    /// the lines of one subject there is none.
    pub fn damaged(&self) -> usize {
        match &self.lines {
            _ if self.subject.is_some() => 0,
            Merged::Files(files) => files.damaged(),
            Merged::Servers(lines) => lines.damaged,
        }
    }
}

/// Returns whether a line is about a call of a subject; all lines without one.
fn is_of(line: &JournalLine, subject: Option<&str>) -> bool {
    subject.is_none_or(|subject| line.subject.as_deref() == Some(subject))
}

/// The lines of all servers, read from the database some at a time.
struct SharedLines {
    journal: SharedJournal,
    last: SharedLine,
    ready: VecDeque<SharedLine>,
    damaged: usize,
}

impl SharedLines {
    fn new(journal: &SharedJournal, since: Option<Instant>) -> Self {
        let last = SharedLine { at: since.map(timestamp).unwrap_or_default(), ..<_>::default() };
        Self { journal: journal.clone(), last, ready: VecDeque::new(), damaged: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<JournalLine>> {
        loop {
            if self.ready.is_empty() {
                self.ready = self.journal.lines_by_time(&self.last)?.into();
            }
            let Some(line) = self.ready.pop_front() else { return Ok(None) };
            let parsed = serde_json::from_slice(&line.line);
            let is_left = is_left_of_a_line(&line.line);
            self.last = SharedLine { line: Vec::new(), ..line };
            match parsed {
                Ok(line) => return Ok(Some(line)),
                Err(_) if is_left => {}
                Err(_) => self.damaged += 1,
            }
        }
    }
}

/// The lines of all files in the order of time.
struct MergedFiles {
    /// The files that are not open yet, in the order in which they began.
    waiting: VecDeque<PathBuf>,
    /// The open files, by the order in which they were opened.
    files: BTreeMap<usize, FileLines>,
    opened: usize,
    /// The next line of each open file: its time, and the number of its file.
    next: BinaryHeap<Reverse<(String, usize)>>,
    lines: BTreeMap<usize, JournalLine>,
    since: String,
    /// How many lines of the files that were closed could not be parsed.
    damaged: usize,
}

impl MergedFiles {
    /// Finds all files that may have lines from `since` on; all files without it.
    fn open(state: &StateDir, since: Option<Instant>) -> io::Result<Self> {
        let mut files = journal_files(state)?;
        files.retain(|path| since.is_none_or(|since| was_written_since(path, since)));
        // What has no time in its name may have any lines.
        files.sort_by_key(|path| begun(path).is_some());
        Ok(Self {
            waiting: files.into(),
            files: BTreeMap::new(),
            opened: 0,
            next: BinaryHeap::new(),
            lines: BTreeMap::new(),
            since: since.map(timestamp).unwrap_or_default(),
            damaged: 0,
        })
    }

    fn next_line(&mut self) -> io::Result<Option<JournalLine>> {
        while self.waiting.front().is_some_and(|path| may_be_next(path, &self.next)) {
            let Some(path) = self.waiting.pop_front() else { break };
            match FileLines::open(&path, 0) {
                // Another process removed it meanwhile, for its age.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => drop(self.files.insert(self.opened, file?)),
            }
            self.advance(self.opened)?;
            self.opened += 1;
        }
        let Some(Reverse((_, index))) = self.next.pop() else { return Ok(None) };
        let line = self.lines.remove(&index);
        self.advance(index)?;
        Ok(line)
    }

    fn damaged(&self) -> usize {
        self.damaged + self.files.values().map(|file| file.damaged).sum::<usize>()
    }

    /// Reads the next line of a file that is not too old, or closes the file.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&index) else { return Ok(()) };
        match file.next_line_since(&self.since)? {
            Some(line) => {
                self.next.push(Reverse((line.at.clone(), index)));
                self.lines.insert(index, line);
            }
            None => {
                self.damaged += file.damaged;
                self.files.remove(&index);
            }
        }
        Ok(())
    }
}

/// Whether a file may have a line before the next one of the open files.
fn may_be_next(path: &Path, next: &BinaryHeap<Reverse<(String, usize)>>) -> bool {
    match (begun(path), next.peek()) {
        (Some(begun), Some(Reverse((at, _)))) => begun <= at.replace(['-', ':'], "").as_str(),
        _ => true,
    }
}

/// Returns when a file began, as its name says it; `None` for a name that this program does not
/// give.
fn begun(path: &Path) -> Option<&str> {
    let time = path.file_name()?.to_str()?.get(..time_in_name(Instant(0)).len())?;
    let is_time = time.ends_with('Z') && time.starts_with(|first: char| first.is_ascii_digit());
    is_time.then_some(time)
}

/// Whether a process may still add lines to a file. None does so for longer than [`FILE_LIFE`].
fn may_grow(path: &Path) -> bool {
    let life = i64::try_from(2 * FILE_LIFE.as_micros()).unwrap_or(i64::MAX);
    let oldest = time_in_name(Instant(now().0.saturating_sub(life)));
    begun(path).is_none_or(|begun| begun >= oldest.as_str())
}

/// Follows the journal: returns the lines that were written since the last look.
pub struct NewLines {
    lines: Followed,
    /// Whose lines are returned; `None` for those of everybody.
    subject: Option<Arc<str>>,
}

enum Followed {
    Files(NewFileLines),
    Servers(NewSharedLines),
}

impl NewLines {
    /// Begins after the lines that a state folder has now.
    pub(super) fn of_files(state: StateDir) -> io::Result<Self> {
        Ok(Self { lines: Followed::Files(NewFileLines::after_now(state)?), subject: None })
    }

    /// Returns only the lines of one subject, if there is one.
    pub(super) fn of_subject(self, subject: Option<Arc<str>>) -> Self {
        Self { subject, ..self }
    }

    /// Begins after the lines that the database of all servers has now.
    pub(super) fn of_servers(journal: &SharedJournal) -> io::Result<Self> {
        Ok(Self { lines: Followed::Servers(NewSharedLines::after_now(journal)?), subject: None })
    }

    /// Returns the lines since the last call, in the order of time.
    ///
    /// # Errors
    /// The error of the file system or of the database.
    pub fn take(&mut self) -> io::Result<Vec<JournalLine>> {
        let mut lines = match &mut self.lines {
            Followed::Files(lines) => lines.take()?,
            Followed::Servers(lines) => lines.take()?,
        };
        lines.retain(|line| is_of(line, self.subject.as_deref()));
        lines.sort_by(|a, b| a.at.cmp(&b.at));
        Ok(lines)
    }
}

/// Follows the lines of all servers.
struct NewSharedLines {
    journal: SharedJournal,
    /// How many lines of each file were returned, or were there before.
    positions: BTreeMap<String, u64>,
    /// Files without a line at or after this time get no more lines.
    since: String,
}

impl NewSharedLines {
    fn after_now(journal: &SharedJournal) -> io::Result<Self> {
        /// How late a line may come into the database while the follower waits for it.
        const LATE: i64 = MICROS_A_DAY;
        let positions = journal.files("")?.into_iter().map(|file| (file.file, file.lines));
        let since = timestamp(Instant(crate::now().0 - LATE));
        Ok(Self { journal: journal.clone(), positions: positions.collect(), since })
    }

    fn take(&mut self) -> io::Result<Vec<JournalLine>> {
        let mut lines = Vec::new();
        for file in self.journal.files(&self.since)? {
            let position = self.positions.entry(file.file.clone()).or_default();
            while *position < file.lines {
                let more = self.journal.lines_of_file(&file.file, *position)?;
                let Some(last) = more.last() else { break };
                *position = u64::try_from(last.number).unwrap_or(u64::MAX);
                lines
                    .extend(more.iter().filter_map(|line| serde_json::from_slice(&line.line).ok()));
            }
        }
        Ok(lines)
    }
}

/// Follows the files of a state folder.
struct NewFileLines {
    state: StateDir,
    /// The position after the last whole line of each file.
    positions: BTreeMap<PathBuf, u64>,
}

impl NewFileLines {
    /// Begins after the lines that are there now.
    fn after_now(state: StateDir) -> io::Result<Self> {
        let mut positions = BTreeMap::new();
        for path in journal_files(&state)? {
            let end = if may_grow(&path) { end_of_lines(&path) } else { Ok(u64::MAX) };
            match end {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                end => drop(positions.insert(path, end?)),
            }
        }
        Ok(Self { state, positions })
    }

    fn take(&mut self) -> io::Result<Vec<JournalLine>> {
        let mut lines = Vec::new();
        for path in journal_files(&self.state)? {
            let known = self.positions.get(&path).copied();
            if known.is_some() && !may_grow(&path) {
                continue;
            }
            let position = known.unwrap_or(0);
            // What cannot be looked at is opened, and that says why.
            if path.metadata().is_ok_and(|metadata| metadata.len() <= position) {
                continue;
            }
            let mut file = match FileLines::open(&path, position) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            while let Some(line) = file.next_line()? {
                lines.push(line);
            }
            self.positions.insert(path, file.position);
        }
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
        self.next_line_since("")
    }

    /// Returns the next whole line that can be parsed and that is not older than `since`, which is
    /// empty or a time in the form of a line.
    fn next_line_since(&mut self, since: &str) -> io::Result<Option<JournalLine>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = self.reader.read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                return Ok(None);
            }
            self.position += read as u64;
            if is_older(&bytes, since) {
                continue;
            }
            match serde_json::from_slice::<JournalLine>(&bytes) {
                Ok(line) if line.at.as_str() < since => {}
                Ok(line) => return Ok(Some(line)),
                Err(_) if is_left_of_a_line(&bytes) => {}
                Err(_) => self.damaged += 1,
            }
        }
    }
}

/// Whether a line is older than `since`, as far as its beginning says it: the program writes the
/// time first, always with as many digits. So most old lines are not parsed.
fn is_older(line: &[u8], since: &str) -> bool {
    let time = line.strip_prefix(br#"{"at":""#).and_then(|rest| rest.split_at_checked(since.len()));
    time.is_some_and(|(time, rest)| rest.starts_with(b"\"") && time < since.as_bytes())
}

/// Returns the position after the last whole line of a file.
fn end_of_lines(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut bytes = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(END_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        bytes.clear();
        (&file).take(end - begin).read_to_end(&mut bytes)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Returns whether a line, with its newline, is what is left of one that the owner removed.
fn is_left_of_a_line(line: &[u8]) -> bool {
    JournalChain::is_removed(line.strip_suffix(b"\n").unwrap_or(line))
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
