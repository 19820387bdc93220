//! The journal: one line for each call, written before the answer leaves.
//!
//! Each process writes its own file, and a reader merges all files. A line is written with one
//! system call before its call is answered, so it survives a kill. A background thread syncs at
//! most a second later. Space for further lines is reserved ahead, so that a change that could not
//! be journalled is refused before it happens.
//!
//! After a failure the file stays as it is, and the next line begins a new file. A torn line can
//! therefore only be the last of its file, and readers ignore it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use stile_domain::journal::JournalLine;
use stile_domain::records::instant::Instant;
use uuid::Uuid;

use crate::now;
use crate::state::{StateDir, create_private, make_folder, sync_folder};

const FOLDER: &str = "journal";
const EXTENSION: &str = "jsonl";

/// The length of the longest line in bytes, with its newline.
///
/// A path has at most 4,096 bytes and no control character, so JSON at most doubles it (quotes).
/// Subject, token and client come from one token of at most 8 KiB, whose claims are JSON already
/// and at most 6 KiB. The rest is two hashes and a few words. The sum is less than 15 KiB.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// How many bytes are reserved at a time. [`Journal::check_writable`] requires this much, so that
/// concurrent calls have room for their lines too. Most lines have about 400 bytes.
const STEP: u64 = 64 * 1024;

/// How long after a line its sync begins. The sync itself ends within the same second.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// The journal of this process, to which it appends lines.
pub struct Journal {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

/// The part of the journal that the syncing thread shares.
struct Shared {
    folder: PathBuf,
    /// Creates a file. Tests use a function of their own.
    create: fn(&Path) -> io::Result<File>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The file to write to. `None` before the first line and after a failure.
    current: Option<Current>,
    /// The files with lines that are not synced.
    unsynced: Vec<Arc<File>>,
    closing: bool,
    /// When the last line was written.
    last: Instant,
}

/// The file that lines are written to.
struct Current {
    file: Arc<File>,
    /// The length of the file in bytes.
    written: u64,
    /// The length up to which space is reserved. `None` if the file system cannot reserve.
    reserved: Option<u64>,
}

impl Journal {
    /// Opens the journal of a state folder. The first line creates the file.
    pub fn open(state: &StateDir) -> io::Result<Self> {
        Self::open_with(state, create_private)
    }

    fn open_with(state: &StateDir, create: fn(&Path) -> io::Result<File>) -> io::Result<Self> {
        let folder = state.path().join(FOLDER);
        make_folder(&folder)?;
        sync_folder(state.path())?;
        let state = State { current: None, unsynced: Vec::new(), closing: false, last: Instant(0) };
        let shared =
            Arc::new(Shared { folder, create, state: Mutex::new(state), changed: Condvar::new() });
        let syncing = Arc::clone(&shared);
        let syncer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || syncing.keep_synced())?;
        Ok(Self { shared, syncer: Some(syncer) })
    }

    /// Checks that the next lines can be written: the file exists, it was not deleted, and it has
    /// room. After a failure this function tries again with a new file.
    pub fn check_writable(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        self.shared.prepare(&mut state)?.reserve(STEP).inspect_err(|_| state.current = None)
    }

    /// Writes a line with the present time.
    ///
    /// # Errors
    /// The error of the file system. A part of the line may then be in the file; readers ignore it.
    pub fn append(&self, mut line: JournalLine) -> io::Result<()> {
        let mut state = self.shared.lock();
        // The clock may step back; the lines of a file do not.
        state.last = now().max(state.last);
        line.at = timestamp(state.last);
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        if bytes.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the line is too long"));
        }
        let current = self.shared.prepare(&mut state)?;
        let file = Arc::clone(&current.file);
        current.write(&bytes).inspect_err(|_| state.current = None)?;
        if !state.unsynced.iter().any(|unsynced| Arc::ptr_eq(unsynced, &file)) {
            state.unsynced.push(file);
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Syncs all lines now. Only a process that is about to end needs to call this function.
    pub fn sync(&self) {
        self.shared.sync();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
        self.shared.lock().current = None;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file to write to, after creating it if there is none or if someone deleted it.
    fn prepare<'a>(&self, state: &'a mut State) -> io::Result<&'a mut Current> {
        if state.current.as_ref().is_some_and(|current| !has_a_name(&current.file)) {
            state.current = None;
        }
        let current = match state.current.take() {
            Some(current) => current,
            None => self.begin()?,
        };
        Ok(state.current.insert(current))
    }

    /// Creates a file and reserves space in it.
    fn begin(&self) -> io::Result<Current> {
        // Someone may have deleted the folder. A deleted state folder is not made again.
        match std::fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let started = timestamp(now()).replace(['-', ':'], "");
        let name =
            format!("{started}-{}-{}.{EXTENSION}", std::process::id(), Uuid::new_v4().simple());
        let path = self.folder.join(name);
        let mut current =
            Current { file: Arc::new((self.create)(&path)?), written: 0, reserved: Some(0) };
        // An empty file for each failed attempt would fill the folder.
        current.reserve(STEP).and_then(|()| sync_folder(&self.folder)).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })?;
        Ok(current)
    }

    fn sync(&self) {
        let unsynced = std::mem::take(&mut self.lock().unsynced);
        for file in unsynced {
            if let Err(error) = file.sync_data() {
                // The system may have dropped what it could not write, so the file is given up.
                tracing::error!(kind = ?error.kind(), errno = error.raw_os_error(), "the journal was not synced");
                self.lock().current.take_if(|current| Arc::ptr_eq(&current.file, &file));
            }
        }
    }

    /// Syncs after lines were written, until the journal is closed. Sleeps while no line is
    /// written.
    fn keep_synced(&self) {
        let mut state = self.lock();
        loop {
            while state.unsynced.is_empty() && !state.closing {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.closing {
                let more =
                    self.changed.wait_timeout_while(state, SYNC_AFTER, |state| !state.closing);
                state = more.unwrap_or_else(PoisonError::into_inner).0;
            }
            let closing = state.closing;
            drop(state);
            self.sync();
            if closing {
                return;
            }
            state = self.lock();
        }
    }
}

impl Current {
    /// Reserves space for `bytes` more bytes.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let Some(reserved) = self.reserved else { return Ok(()) };
        if reserved >= self.written + bytes {
            return Ok(());
        }
        self.reserved = reserve_space(&self.file, self.written, bytes + STEP)?
            .then_some(self.written + bytes + STEP);
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let written = loop {
            match (&*self.file).write(line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written < line.len() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "only a part of the line was written",
            ));
        }
        self.written += line.len() as u64;
        Ok(())
    }
}

impl Drop for Current {
    /// Releases the reserved space, and removes what a failed line left.
    fn drop(&mut self) {
        let _ = self.file.set_len(self.written);
    }
}

/// Reserves space beyond the end of a file. Returns whether the file system can.
#[cfg(target_os = "linux")]
fn reserve_space(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL | Errno::SPIPE) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve_space(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Returns whether the file still has a name. A line in a deleted file would be lost.
#[cfg(unix)]
fn has_a_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) > 0)
}

/// Windows does not delete open files.
#[cfg(not(unix))]
fn has_a_name(_: &File) -> bool {
    true
}

/// Formats a time as RFC 3339 in UTC with exactly six decimals, so that times sort as text.
fn timestamp(Instant(micros): Instant) -> String {
    let fraction = micros.rem_euclid(1_000_000);
    let seconds = Instant(micros - fraction).to_rfc3339();
    format!("{}.{fraction:06}Z", seconds.trim_end_matches('Z'))
}

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
    let entries = match std::fs::read_dir(state.path().join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(JournalContents::default());
        }
        entries => entries?,
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    let mut merged = JournalContents::default();
    for path in paths {
        read_file(&path, &mut merged)?;
    }
    merged.lines.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(merged)
}

fn read_file(path: &Path, merged: &mut JournalContents) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        let whole = bytes.last() == Some(&b'\n');
        match serde_json::from_slice(&bytes) {
            Ok(line) if whole => merged.lines.push(line),
            _ => merged.damaged += usize::from(whole),
        }
        bytes.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use proptest::prelude::*;
    use stile_domain::hash::ContentHash;
    use stile_domain::path::SpacePath;

    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        (folder, state)
    }

    fn line(tool: &str) -> JournalLine {
        JournalLine { tool: tool.to_owned(), outcome: "ok".to_owned(), ..JournalLine::default() }
    }

    fn tools(state: &StateDir) -> Vec<String> {
        read_all(state).unwrap().lines.into_iter().map(|line| line.tool).collect()
    }

    fn files(state: &StateDir) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(state.path().join(FOLDER)).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn a_line_is_in_the_file_when_append_returns() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        assert!(files(&state).is_empty(), "a process that journals nothing leaves no file");
        let path = SpacePath::parse("/a\"b").unwrap();
        let written = JournalLine {
            path: Some(path),
            after: Some(ContentHash::digest(b"x")),
            ..line("file.create")
        };
        journal.append(written.clone()).unwrap();
        // A kill would change nothing now: the system has the bytes.
        let read = read_all(&state).unwrap().lines;
        assert_eq!(read, [JournalLine { at: read[0].at.clone(), ..written }]);
        assert_eq!(read[0].at.len(), "2026-01-02T03:04:05.123456Z".len());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(files(&state)[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn the_files_of_many_writers_are_merged_in_time_order() {
        let (_folder, state) = state();
        let (one, two) = (Journal::open(&state).unwrap(), Journal::open(&state).unwrap());
        for n in 0..20 {
            let journal = if n % 3 == 0 { &one } else { &two };
            journal.append(line(&format!("{n:02}"))).unwrap();
            std::thread::sleep(Duration::from_micros(20));
        }
        assert_eq!(files(&state).len(), 2);
        let read = tools(&state);
        assert!(read.len() == 20 && read.is_sorted(), "{read:?}");
    }

    #[test]
    fn threads_of_one_process_write_whole_lines_in_time_order() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let journal = &journal;
                scope.spawn(move || {
                    (0..100).for_each(|_| journal.append(line(&n.to_string())).unwrap())
                });
            }
        });
        let merged = read_all(&state).unwrap();
        assert_eq!((merged.lines.len(), merged.damaged, files(&state).len()), (800, 0, 1));
        let mut in_file = JournalContents::default();
        read_file(&files(&state)[0], &mut in_file).unwrap();
        assert!(in_file.lines.is_sorted_by_key(|line| line.at.clone()));
    }

    #[test]
    fn a_line_that_a_kill_cut_is_ignored() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("whole")).unwrap();
        drop(journal);
        let path = files(&state).remove(0);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
            let merged = read_all(&state).unwrap();
            assert_eq!((merged.lines.len(), merged.damaged), (1, 0), "cut at {cut}");
        }
        std::fs::write(&path, [b"{}\n\0\0\n", &whole[..]].concat()).unwrap();
        let merged = read_all(&state).unwrap();
        assert_eq!((merged.lines.len(), merged.damaged), (1, 2));
    }

    /// Appends line after line in a child process, and reports each, until the process is killed.
    fn journal_until_killed(folder: &Path) {
        let journal = Journal::open(&StateDir::open(folder).unwrap()).unwrap();
        for n in 0.. {
            journal.check_writable().unwrap();
            journal.append(line(&format!("n{n}"))).unwrap();
            // One call, so that a kill does not cut the report.
            io::stderr().write_all(format!("acknowledged n{n}\n").as_bytes()).unwrap();
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a variable tells the test that it is the child")]
    fn acknowledged_lines_survive_a_kill() {
        const CHILD: &str = "STILE_TEST_JOURNAL";
        if let Some(folder) = std::env::var_os(CHILD) {
            return journal_until_killed(Path::new(&folder));
        }
        let (_folder, state) = state();
        for round in 1..=10u64 {
            let name = "journal::tests::acknowledged_lines_survive_a_kill";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args([name, "--exact", "--nocapture", "--test-threads=1"])
                .env(CHILD, state.path())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let output = BufReader::new(child.stderr.take().unwrap());
            let mut last = None;
            for reported in output.lines() {
                let reported = reported.unwrap();
                let Some(number) = reported.strip_prefix("acknowledged n") else { continue };
                let number: u64 = number.parse().unwrap();
                last = Some(number);
                if number == round * 7 {
                    child.kill().unwrap();
                }
            }
            child.wait().unwrap();
            let mut merged = JournalContents::default();
            read_file(files(&state).last().unwrap(), &mut merged).unwrap();
            let read: Vec<_> = merged.lines.into_iter().map(|line| line.tool).collect();
            let expected: Vec<_> = (0..read.len()).map(|n| format!("n{n}")).collect();
            assert_eq!(read, expected);
            assert!(read.len() as u64 > last.unwrap());
        }
        assert_eq!(files(&state).len(), 10);
    }

    #[test]
    fn a_deleted_file_is_replaced() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("lost")).unwrap();
        std::fs::remove_dir_all(state.path().join(FOLDER)).unwrap();
        journal.append(line("kept")).unwrap();
        assert_eq!(tools(&state), ["kept"]);
    }

    #[test]
    fn without_a_state_folder_the_journal_is_not_writable() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("before")).unwrap();
        let away = state.path().with_extension("away");
        std::fs::remove_dir_all(state.path().join(FOLDER)).unwrap();
        std::fs::rename(state.path(), &away).unwrap();
        assert!(journal.check_writable().is_err());
        assert!(journal.append(line("lost")).is_err());
        std::fs::rename(&away, state.path()).unwrap();
        journal.check_writable().unwrap();
        journal.append(line("after")).unwrap();
        assert_eq!(tools(&state), ["after"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_fails_the_line_and_the_next_one_begins_a_new_file() {
        static FULL: AtomicBool = AtomicBool::new(false);
        fn create(path: &Path) -> io::Result<File> {
            if FULL.load(Ordering::Relaxed) {
                create_private(path)?;
                File::options().append(true).open("/dev/full")
            } else {
                create_private(path)
            }
        }
        let (_folder, state) = state();
        let journal = Journal::open_with(&state, create).unwrap();
        journal.append(line("one")).unwrap();
        FULL.store(true, Ordering::Relaxed);
        journal.shared.lock().current = None;
        let error = journal.append(line("lost")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(journal.append(line("lost")).is_err());
        FULL.store(false, Ordering::Relaxed);
        journal.check_writable().unwrap();
        journal.append(line("two")).unwrap();
        assert_eq!(tools(&state), ["one", "two"]);
    }

    /// Runs in a file system of one megabyte, in its own namespace. Checks nothing on a machine
    /// that does not allow namespaces.
    #[cfg(target_os = "linux")]
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a variable tells the test that it is the child")]
    fn the_writability_check_fails_before_the_disk_is_full() {
        const CHILD: &str = "STILE_TEST_JOURNAL_SMALL_DISK";
        if let Some(folder) = std::env::var_os(CHILD) {
            let state = StateDir::open(&Path::new(&folder).join("state")).unwrap();
            let journal = Journal::open(&state).unwrap();
            let mut written = 0;
            while journal.check_writable().is_ok() {
                // Several calls at once, with the longest lines.
                for _ in 0..3 {
                    let subject = Some("x".repeat(MAX_LINE_BYTES - 200));
                    journal
                        .append(JournalLine { subject, ..line("long") })
                        .expect("there was room");
                    written += 1;
                }
                assert!(written < 1000, "the disk is not small");
            }
            assert!(written > 30);
            assert_eq!(read_all(&state).unwrap().lines.len(), written);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let script =
            "mount -t tmpfs -o size=1m,mode=700 none \"$2\" || exit 77; exec \"$0\" \"$1\" --exact";
        let status = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg("journal::tests::the_writability_check_fails_before_the_disk_is_full")
            .arg(folder.path())
            .env(CHILD, folder.path())
            .stdout(std::process::Stdio::null())
            .status();
        // 101 is a failed test. Other codes than 0 come from machines without namespaces.
        assert_ne!(status.ok().and_then(|status| status.code()), Some(101));
    }

    #[test]
    fn the_longest_line_that_a_token_and_a_path_make_fits() {
        let path = vec!["\"".repeat(250); 16].join("/");
        let long = JournalLine {
            subject: Some("\u{1}".repeat(1000)),
            token: Some("t".repeat(60)),
            client: Some("c".repeat(60)),
            path: Some(SpacePath::parse(&path).unwrap()),
            before: Some(ContentHash::digest(b"")),
            after: Some(ContentHash::digest(b"")),
            incident: Some(u64::MAX),
            ..line("text.replace")
        };
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(long).unwrap();
        assert!(
            journal
                .append(JournalLine { subject: Some("x".repeat(MAX_LINE_BYTES)), ..line("x") })
                .is_err()
        );
        journal.append(line("after")).unwrap();
        assert_eq!((read_all(&state).unwrap().lines.len(), files(&state).len()), (2, 1));
    }

    #[test]
    fn a_line_is_synced_within_a_second() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("a")).unwrap();
        assert!(!journal.shared.lock().unsynced.is_empty());
        std::thread::sleep(SYNC_AFTER + Duration::from_millis(400));
        assert!(journal.shared.lock().unsynced.is_empty());
        journal.append(line("b")).unwrap();
        let before = std::time::Instant::now();
        drop(journal);
        assert!(before.elapsed() < SYNC_AFTER, "closing syncs at once");
    }

    #[test]
    fn after_a_power_cut_synced_lines_are_there_and_the_rest_is_whole_or_ignored() {
        const SECTOR: usize = 512;
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        let lines = |from: usize, to: usize| {
            (from..to).for_each(|n| journal.append(line(&format!("{n:0200}"))).unwrap());
            std::fs::read(&files(&state)[0]).unwrap()
        };
        let synced = lines(0, 3).len();
        journal.sync();
        let all = lines(3, 20);
        let written = tools(&state);
        let (_folder, after) = self::tests::state();
        std::fs::create_dir(after.path().join(FOLDER)).unwrap();
        let check = |bytes: &[u8]| {
            std::fs::write(after.path().join(FOLDER).join("a.jsonl"), bytes).unwrap();
            let left = tools(&after);
            assert_eq!(left[..3], written[..3]);
            assert!(left.is_sorted() && left.iter().all(|tool| written.contains(tool)));
            left.len()
        };
        assert_eq!(check(&all), 20);
        // The file ends anywhere after what was synced.
        (synced..all.len()).for_each(|end| assert!(check(&all[..end]) < 20));
        // Any of the sectors after what was synced is not written.
        for lost in 0..1 << (all.len() - synced).div_ceil(SECTOR) {
            let mut bytes = all.clone();
            for (number, sector) in bytes[synced..].chunks_mut(SECTOR).enumerate() {
                if lost >> number & 1 == 1 {
                    sector.fill(0);
                }
            }
            check(&bytes);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn closing_releases_the_reserved_space() {
        use std::os::unix::fs::MetadataExt as _;
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("a")).unwrap();
        let path = files(&state).remove(0);
        let reserves = journal.shared.lock().current.as_ref().unwrap().reserved.is_some();
        assert!(!reserves || path.metadata().unwrap().blocks() * 512 >= STEP);
        drop(journal);
        assert!(path.metadata().unwrap().blocks() * 512 < STEP);
        assert_eq!(tools(&state), ["a"]);
    }

    #[test]
    fn lines_are_dated_no_earlier_than_the_line_before() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.shared.lock().last = Instant::LAST;
        journal.append(line("later")).unwrap();
        assert_eq!(read_all(&state).unwrap().lines[0].at, "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn a_line_is_written_byte_for_byte_as_documented() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.shared.lock().last = Instant(253_402_300_700_120_000);
        journal.append(line("text.read")).unwrap();
        let file = files(&state).remove(0);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "{\"at\":\"9999-12-31T23:58:20.120000Z\",\"tool\":\"text.read\",\"outcome\":\"ok\"}\n"
        );
        let name = file.file_name().unwrap().to_str().unwrap();
        let (started, rest) = name.split_once('-').unwrap();
        let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
        assert_eq!(started.chars().map(shape).collect::<String>(), "00000000T000000.000000Z");
        assert!(rest.starts_with(&format!("{}-", std::process::id())), "{name}");
    }

    #[test]
    fn timestamps_have_six_decimals() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_767_323_045_123_456, "2026-01-02T03:04:05.123456Z"),
            (1_767_323_045_120_000, "2026-01-02T03:04:05.120000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(timestamp(Instant(micros)), text);
        }
    }

    proptest! {
        #[test]
        fn times_sort_as_text(
            a in 0..=Instant::LAST.0,
            b in 0..=Instant::LAST.0,
        ) {
            prop_assert_eq!(a.cmp(&b), timestamp(Instant(a)).cmp(&timestamp(Instant(b))));
        }
    }
}
