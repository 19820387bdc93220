//! [`SharedJournal`]: the lines of all servers that share a database.
//!
//! Each server writes its lines to files of its own first, and then copies them into the database,
//! in order and without a gap. A file keeps its name, its numbers and its chain there. The database
//! also keeps how far each file was copied, so that any process can go on with a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use stile_domain::hash::ContentHash;
use stile_domain::journal_chain::JournalChain;
use stile_domain::records::instant::Instant;
use tokio_postgres::Row;

use super::anchors::{Anchor, FilePhase};
use super::timestamp::timestamp;
use crate::postgresql::{Database, PgConnection, PgError, params, report_outage};

/// How many lines one transaction copies at most.
const BATCH_LINES: usize = 1_000;
/// How many bytes of lines one transaction copies, but for the last line of them.
const BATCH_BYTES: usize = 1024 * 1024;
/// How many lines one statement reads.
const PAGE: i64 = 1_000;
/// How often a transaction is run again that another one was in the way of.
const ATTEMPTS: usize = 5;
/// The number of the lock that the server holds which removes old lines: `Stij`.
const CLEANING: i64 = 0x5374_696a;

/// The journal of all servers that share a database.
#[derive(Clone)]
pub struct SharedJournal {
    database: Database,
}

/// How far a file was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CopiedFile {
    pub(super) file: String,
    /// The number of lines.
    pub(super) lines: u64,
    /// The number of bytes of the file that these lines take.
    pub(super) bytes: u64,
    /// The chain value of the last line; `None` where an older version wrote it.
    head: Option<ContentHash>,
    /// The time of the last line, as the line has it.
    last: String,
    /// Whether the lines were removed because of their age.
    pub(super) retired: bool,
    /// How many of the lines the owner removed.
    removed: u64,
}

impl CopiedFile {
    /// Returns how far the file had come, if its lines have a chain.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        let (file, lines, removed) = (self.file.clone(), self.lines, self.removed);
        let phase = if self.retired { FilePhase::Retired } else { FilePhase::Open };
        self.head.map(|head| Anchor { file, lines, head, phase, removed })
    }
}

/// A line in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SharedLine {
    /// The time of the line, as the line has it.
    pub(super) at: String,
    pub(super) file: String,
    /// The number of the line in its file, from 1.
    pub(super) number: i64,
    /// The line without its newline.
    pub(super) line: Vec<u8>,
}

/// What is left of a line that is removed.
pub(super) struct LeftLine {
    /// The number of the line in its file, from 1.
    pub(super) number: i64,
    /// The line with its number and its chain value alone, without its newline.
    pub(super) line: Vec<u8>,
}

/// The part of a line that orders it among the lines of all files.
#[derive(Deserialize)]
struct Time {
    at: String,
}

impl SharedJournal {
    /// Returns the journal in a database.
    pub fn of(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// Copies the whole lines of a file that the database does not have yet.
    ///
    /// # Errors
    /// The error of the file system or of the database. What was copied before stays.
    pub(super) fn copy(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        loop {
            let copied = self.read(|connection| copied_file(connection, &name)).map_err(failed)?;
            let copied =
                copied.unwrap_or_else(|| CopiedFile { file: name.clone(), ..<_>::default() });
            if copied.retired {
                return Ok(());
            }
            let (lines, next) = lines_after(path, &copied)?;
            if lines.is_empty() {
                return Ok(());
            }
            self.change(|connection| append(connection, &copied, &lines, &next)).map_err(failed)?;
        }
    }

    /// Returns how far the files were copied that have a line at `since` or later, in order.
    pub(super) fn files(&self, since: &str) -> io::Result<Vec<CopiedFile>> {
        let text = format!("{FILES} WHERE last >= $1 ORDER BY file");
        let files = self.read(|connection| {
            let rows = connection.rows(&text, params![since])?;
            rows.iter().map(file_of).collect::<Result<Vec<_>, PgError>>()
        });
        files.map_err(failed)
    }

    /// Returns the next lines of all files in the order of time. None means that no more follow.
    pub(super) fn lines_by_time(&self, after: &SharedLine) -> io::Result<Vec<SharedLine>> {
        let SharedLine { at, file, number, .. } = after;
        let text = "SELECT at, file, n, line FROM journal_lines \
                    WHERE (at, file, n) > ($1, $2, $3) ORDER BY at, file, n LIMIT $4";
        self.lines(text, params![at, file, number, PAGE])
    }

    /// Returns the next lines of one file. None means that no more follow.
    pub(super) fn lines_of_file(&self, file: &str, after: u64) -> io::Result<Vec<SharedLine>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let text = "SELECT at, file, n, line FROM journal_lines \
                    WHERE file = $1 AND n > $2 ORDER BY n LIMIT $3";
        self.lines(text, params![file, after, PAGE])
    }

    fn lines(
        &self,
        text: &str,
        values: crate::postgresql::Values<'_>,
    ) -> io::Result<Vec<SharedLine>> {
        let lines = self.read(|connection| {
            let rows = connection.rows(text, values)?;
            rows.iter().map(line_of).collect::<Result<Vec<_>, PgError>>()
        });
        lines.map_err(failed)
    }

    /// Removes the lines of files whose last line is from before a time, unless another server does
    /// so at this moment.
    ///
    /// # Errors
    /// The error of the database.
    pub(super) fn remove_before(&self, time: Instant) -> io::Result<()> {
        let before = timestamp(time);
        loop {
            let removed = self.change(|connection| remove_one(connection, &before));
            if !removed.map_err(failed)? {
                return Ok(());
            }
        }
    }

    /// Leaves of some lines of a file what is given, for good. Returns how many of the lines were
    /// not removed before.
    ///
    /// # Errors
    /// The error of the database.
    pub(super) fn overwrite(&self, file: &str, left: &[LeftLine]) -> io::Result<u64> {
        self.change(|connection| overwrite(connection, file, left)).map_err(failed)
    }

    /// Returns the files of which lines were removed, and the numbers of these lines.
    ///
    /// # Errors
    /// The error of the database.
    pub(super) fn removed_lines(&self) -> io::Result<Vec<(String, BTreeSet<u64>)>> {
        let files = self.files("")?.into_iter().filter(|file| file.removed > 0 && !file.retired);
        let numbers = files.map(|CopiedFile { file, .. }| {
            let mut numbers = BTreeSet::new();
            self.each_page(&file, &mut |lines| {
                let removed = lines.iter().filter(|line| JournalChain::is_removed(&line.line));
                numbers.extend(removed.filter_map(|line| u64::try_from(line.number).ok()));
                Ok(())
            })?;
            Ok((file, numbers))
        });
        numbers.collect()
    }

    /// Calls `see` with the lines of a file, some at a time.
    ///
    /// # Errors
    /// The error of the database, or of `see`.
    pub(super) fn each_page(
        &self,
        file: &str,
        see: &mut dyn FnMut(Vec<SharedLine>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut last = 0;
        loop {
            let lines = self.lines_of_file(file, last)?;
            let Some(line) = lines.last() else { return Ok(()) };
            last = u64::try_from(line.number).unwrap_or(u64::MAX);
            see(lines)?;
        }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&PgConnection) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        self.database.read_access(read)
    }

    /// Runs a transaction, and again if another one was in the way.
    fn change<T>(
        &self,
        change: impl Fn(&PgConnection) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        for _ in 1..ATTEMPTS {
            match self.database.change_access(&change) {
                Err(error) if error.is_conflict() => {}
                done => return done,
            }
        }
        self.database.change_access(&change)
    }
}

const FILES: &str = "SELECT file, lines, bytes, chain, last, retired, removed FROM journal_files";

fn copied_file(connection: &PgConnection, name: &str) -> Result<Option<CopiedFile>, PgError> {
    let row = connection.one(&format!("{FILES} WHERE file = $1"), params![name])?;
    row.as_ref().map(file_of).transpose()
}

fn file_of(row: &Row) -> Result<CopiedFile, PgError> {
    let count = |at: usize| -> Result<u64, PgError> {
        Ok(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or_default())
    };
    let head: Option<Vec<u8>> = row.try_get(3)?;
    let head = head.and_then(|head| Some(ContentHash::from_bytes(head.try_into().ok()?)));
    Ok(CopiedFile {
        file: row.try_get(0)?,
        lines: count(1)?,
        bytes: count(2)?,
        head,
        last: row.try_get(4)?,
        retired: count(5)? != 0,
        removed: count(6)?,
    })
}

fn line_of(row: &Row) -> Result<SharedLine, PgError> {
    Ok(SharedLine {
        at: row.try_get(0)?,
        file: row.try_get(1)?,
        number: row.try_get(2)?,
        line: row.try_get(3)?,
    })
}

/// Reads the next whole lines of a file, and returns how far the file is copied with them.
fn lines_after(path: &Path, copied: &CopiedFile) -> io::Result<(Vec<SharedLine>, CopiedFile)> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(copied.bytes))?;
    let mut reader = BufReader::new(file);
    let (mut lines, mut next) = (Vec::new(), copied.clone());
    while lines.len() < BATCH_LINES && next.bytes - copied.bytes < BATCH_BYTES as u64 {
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        next.lines += 1;
        next.bytes += read as u64;
        next.head = JournalChain::stated_by(&line).map(|chain| chain.head());
        next.last = time_of(&line).unwrap_or(next.last);
        let number = i64::try_from(next.lines).unwrap_or(i64::MAX);
        let (at, file) = (next.last.clone(), next.file.clone());
        lines.push(SharedLine { at, file, number, line });
    }
    Ok((lines, next))
}

/// Returns the time of a line; `None` if somebody damaged the line.
fn time_of(line: &[u8]) -> Option<String> {
    const MOST: usize = 40;
    let Time { at } = serde_json::from_slice(line).ok()?;
    (at.len() <= MOST && at.bytes().all(|byte| byte.is_ascii_graphic())).then_some(at)
}

/// Stores lines, unless another process stored them since `copied` was read.
fn append(
    connection: &PgConnection,
    copied: &CopiedFile,
    lines: &[SharedLine],
    next: &CopiedFile,
) -> Result<(), PgError> {
    let now = copied_file(connection, &copied.file)?;
    if now.as_ref().is_some_and(|now| now != copied) {
        return Ok(());
    }
    let numbers: Vec<i64> = lines.iter().map(|line| line.number).collect();
    let times: Vec<&str> = lines.iter().map(|line| line.at.as_str()).collect();
    let texts: Vec<&[u8]> = lines.iter().map(|line| line.line.as_slice()).collect();
    let insert = "INSERT INTO journal_lines (file, n, at, line) SELECT $1, new.n, new.at, new.line \
                  FROM unnest($2::bigint[], $3::text[], $4::bytea[]) AS new (n, at, line)";
    connection.execute(insert, params![copied.file, numbers, times, texts])?;
    let upsert = "INSERT INTO journal_files (file, lines, bytes, chain, last) \
                  VALUES ($1, $2, $3, $4, $5) ON CONFLICT (file) \
                  DO UPDATE SET lines = $2, bytes = $3, chain = $4, last = $5";
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let head = next.head.as_ref().map(|head| head.as_bytes().as_slice());
    let (lines, bytes) = (number(next.lines), number(next.bytes));
    connection.execute(upsert, params![next.file, lines, bytes, head, next.last])?;
    Ok(())
}

/// Leaves of some lines of a file what is given, and counts them as removed. Returns how many of
/// them were not removed before.
fn overwrite(connection: &PgConnection, file: &str, left: &[LeftLine]) -> Result<u64, PgError> {
    let numbers: Vec<i64> = left.iter().map(|line| line.number).collect();
    let lines: Vec<&[u8]> = left.iter().map(|left| left.line.as_slice()).collect();
    let update = "UPDATE journal_lines SET line = new.line \
                  FROM unnest($2::bigint[], $3::bytea[]) AS new (n, line) \
                  WHERE file = $1 AND journal_lines.n = new.n AND journal_lines.line <> new.line";
    let removed = connection.execute(update, params![file, numbers, lines])?;
    let count = "UPDATE journal_files SET removed = removed + $2 WHERE file = $1";
    connection.execute(count, params![file, i64::try_from(removed).unwrap_or(i64::MAX)])?;
    Ok(removed)
}

/// Removes the lines of one file that is old enough. Returns whether there was one.
fn remove_one(connection: &PgConnection, before: &str) -> Result<bool, PgError> {
    let lock = connection.one("SELECT pg_try_advisory_xact_lock($1)", params![CLEANING])?;
    if !lock.map(|row| row.try_get::<_, bool>(0)).transpose()?.unwrap_or_default() {
        return Ok(false);
    }
    let text = "SELECT file FROM journal_files WHERE last < $1 AND retired = 0 LIMIT 1";
    let Some(row) = connection.one(text, params![before])? else { return Ok(false) };
    let file: String = row.try_get(0)?;
    connection.execute("UPDATE journal_files SET retired = 1 WHERE file = $1", params![file])?;
    connection.execute("DELETE FROM journal_lines WHERE file = $1", params![file])?;
    Ok(true)
}

/// Names an outage of the database, which has its line in the log, by its kind.
fn failed(error: PgError) -> io::Error {
    if error.is_outage() {
        report_outage(&error);
        return io::Error::new(io::ErrorKind::NotConnected, error.to_string());
    }
    io::Error::other(error.to_string())
}
