//! Copies a database of SQLite, with its write-ahead log, into memory while other processes use it.
//!
//! SQLite itself opens a log for writing even where it only reads. A gateway must open no file for
//! writing, so it reads the bytes of both files and applies the log here.
//!
//! *Source*: SQLite, Database File Format, 4.1 to 4.4.

use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, MAIN_DB};

/// The length in bytes of the header of a log.
const HEADER: usize = 32;
/// The length in bytes of what stands before each page in a log.
const FRAME: usize = 24;
/// How often the files are read if another process starts the log anew meanwhile.
const MAX_TRIES: usize = 100;

/// Returns whether the database has a write-ahead log while a process has it open.
///
/// *Source*: SQLite, Database File Format, 1.3: the byte at offset 18 is 2 for such a database.
pub(super) fn has_log(database: &Path) -> bool {
    let mut head = [0; 19];
    let read = std::fs::File::open(database).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.last() == Some(&2)
}

/// Opens a copy in memory of what was committed last. Nobody can change the copy.
///
/// # Errors
/// If a file cannot be read, or other processes start the log anew without a pause.
pub(super) fn open(database: &Path) -> rusqlite::Result<Connection> {
    let unreadable = |error: Error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
        rusqlite::Error::SqliteFailure(code, Some(error.kind().to_string()))
    };
    let pages = committed(database).map_err(unreadable)?;
    let mut copy = Connection::open_in_memory()?;
    copy.deserialize_read_exact(MAIN_DB, pages.as_slice(), pages.len(), true)?;
    Ok(copy)
}

/// Reads the database as its last commit left it.
///
/// Pages move from the log into the database while the log stays as it is, so the log is read after
/// the database: each page that came into the database by then stands in the log too. That holds
/// until a process starts the log anew, which changes its header. Then both are read again.
fn committed(database: &Path) -> Result<Vec<u8>> {
    let mut log_path = database.as_os_str().to_owned();
    log_path.push("-wal");
    let log_path = PathBuf::from(log_path);
    for _ in 0..MAX_TRIES {
        let before = generation(database, &log_path)?;
        let mut pages = std::fs::read(database)?;
        let log = read_if_there(&log_path)?;
        if generation(database, &log_path)? != before {
            continue;
        }
        apply(&log, &mut pages);
        // A database in memory has no log: bytes 18 and 19 say which kind of journal there is.
        if let Some(kinds) = pages.get_mut(18..20) {
            kinds.fill(1);
        }
        return Ok(pages);
    }
    Err(Error::from(ErrorKind::ResourceBusy))
}

/// Tells one start of the log from the next. While there is none, a change of the database counts.
fn generation(database: &Path, log: &Path) -> Result<(Vec<u8>, Option<SystemTime>)> {
    let mut header = Vec::new();
    match std::fs::File::open(log) {
        Ok(file) => {
            file.take(HEADER as u64).read_to_end(&mut header)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let changed = match header.len() < HEADER {
        true => Some(database.metadata()?.modified()?),
        false => None,
    };
    Ok((header, changed))
}

fn read_if_there(path: &Path) -> Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Writes the pages of all commits in `log` over `pages`. A log ends before the first page that is
/// not whole or that an earlier log left behind; pages after the last commit do not count.
fn apply(log: &[u8], pages: &mut Vec<u8>) {
    let Some((head, frames)) = log.split_first_chunk::<HEADER>() else { return };
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4).and_then(|part| <[u8; 4]>::try_from(part).ok());
        u32::from_be_bytes(four.unwrap_or_default())
    };
    let size = number(head, 8) as usize;
    let read_word: fn([u8; 4]) -> u32 = match number(head, 0) {
        0x377f_0682 => u32::from_le_bytes,
        0x377f_0683 => u32::from_be_bytes,
        _ => return,
    };
    let mut sum = checksum((0, 0), &head[..24], read_word);
    if sum != (number(head, 24), number(head, 28)) || !(512..=65_536).contains(&size) {
        return;
    }
    let mut waiting = Vec::new();
    for frame in frames.chunks_exact(FRAME + size) {
        let Some((about, page)) = frame.split_first_chunk::<FRAME>() else { return };
        sum = checksum(checksum(sum, &about[..8], read_word), page, read_word);
        if about[8..16] != head[16..24] || sum != (number(about, 16), number(about, 20)) {
            break;
        }
        waiting.push((number(about, 0) as usize, page));
        let pages_after_commit = number(about, 4) as usize;
        if pages_after_commit > 0 {
            pages.resize(pages_after_commit * size, 0);
            for (page_number, page) in waiting.drain(..) {
                let start = page_number.saturating_sub(1) * size;
                if let Some(place) = pages.get_mut(start..start + size) {
                    place.copy_from_slice(page);
                }
            }
        }
    }
}

/// Goes on with the checksum of a log over `bytes`, whose number is a multiple of eight.
fn checksum(from: (u32, u32), bytes: &[u8], read_word: fn([u8; 4]) -> u32) -> (u32, u32) {
    let (words, _) = bytes.as_chunks::<4>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().fold(from, |(first, second), [one, other]| {
        let first = first.wrapping_add(read_word(*one)).wrapping_add(second);
        (first, second.wrapping_add(read_word(*other)).wrapping_add(first))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(connection: &Connection) -> Vec<(i64, i64)> {
        let mut all = connection.prepare("SELECT id, length(body) FROM t ORDER BY id").unwrap();
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    fn writer(path: &Path, page_size: u32) -> Connection {
        let writer = Connection::open(path).unwrap();
        writer.pragma_update(None, "page_size", page_size).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 4).unwrap();
        writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)").unwrap();
        writer
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The oracle is SQLite: after each step, a copy has what SQLite reads from the same files.
        #[test]
        fn a_copy_is_what_was_committed_last(
            size in prop::sample::select(vec![512_u32, 1024, 4096, 65_536]),
            steps in prop::collection::vec((0_u8..7, 0_i64..40, 1_i64..9_000), 1..60),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let mut writer = writer(&path, size);
            let mut reader = Connection::open(&path).unwrap();
            for (kind, id, length) in steps {
                let put = "INSERT OR REPLACE INTO t VALUES (?1, zeroblob(?2))";
                match kind {
                    0 => { writer.execute("DELETE FROM t WHERE id < ?1", [id]).unwrap(); }
                    1 => { writer.execute_batch("VACUUM").unwrap(); }
                    2 => {
                        let undone = writer.transaction().unwrap();
                        undone.pragma_update(None, "cache_size", 1).unwrap();
                        undone.execute(put, [id, length * 20]).unwrap();
                        prop_assert_eq!(values(&open(&path).unwrap()), values(&reader));
                        undone.rollback().unwrap();
                    }
                    3 => {
                        drop((writer, reader));
                        writer = Connection::open(&path).unwrap();
                        reader = Connection::open(&path).unwrap();
                    }
                    _ => { writer.execute(put, [id, length]).unwrap(); }
                }
                prop_assert!(has_log(&path));
                prop_assert_eq!(values(&open(&path).unwrap()), values(&reader));
            }
        }
    }

    #[test]
    fn a_copy_taken_while_others_write_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut writer = writer(&path, 512);
        // Each commit gives all rows the same length, so a torn copy shows two.
        let set = |writer: &mut Connection, length: i64| {
            let all = writer.transaction().unwrap();
            for id in 0..20 {
                all.execute("INSERT OR REPLACE INTO t VALUES (?1, zeroblob(?2))", [id, length])
                    .unwrap();
            }
            all.commit().unwrap();
        };
        set(&mut writer, 1);
        std::thread::scope(|scope| {
            let work = scope.spawn(|| (2..400).for_each(|length| set(&mut writer, length * 7)));
            let mut newest = 0;
            while !work.is_finished() {
                let Ok(copy) = open(&path) else { continue };
                let seen = values(&copy);
                assert_eq!(seen.len(), 20);
                assert!(seen.iter().all(|row| row.1 == seen[0].1), "{seen:?}");
                assert!(seen[0].1 >= newest, "a copy is older than the one before it");
                newest = seen[0].1;
            }
        });
    }

    #[test]
    fn a_log_that_is_no_log_changes_nothing() {
        for log in [vec![], vec![7; 31], vec![0; 4096], {
            let mut fine = 0x377f_0682_u32.to_be_bytes().to_vec();
            fine.resize(8192, 0xff);
            fine
        }] {
            let mut pages = vec![5; 1024];
            apply(&log, &mut pages);
            assert_eq!(pages, [5; 1024]);
        }
    }
}
