//! The journal: one line for each call, appended before the answer.
//!
//! One file a process, merged when read, so that no two processes ever write to one file. A line is
//! written with one system call before its call is answered, so it survives a kill; a background
//! thread syncs at most a second later. Space for coming lines is reserved ahead, so that a
//! mutation is refused before it happens where it could not be journalled.
//!
//! After any failure the file is left as it is and the next line begins a new one: a torn line can
//! then only be the last of its file, and readers leave it out.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use stile_domain::journal::JournalLine;
use uuid::Uuid;

use crate::state::{StateDir, create_private, make_folder, sync_folder};

const FOLDER: &str = "journal";
const EXTENSION: &str = "jsonl";

/// The longest line, newline included.
///
/// A path has at most 4,096 bytes and no control character, so JSON at most doubles it (quotes).
/// Subject, token and client come from one token of at most 8 KiB, whose claims are JSON already
/// and at most 6 KiB. The rest is two hashes and a few words. That is less than 15 KiB.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// How much room is reserved at a time. [`Journal::check_writable`] wants this much, so that the calls that
/// are under way at once have room for their lines too, which are some 400 bytes but for the
/// longest paths.
const STEP: u64 = 64 * 1024;

/// A line is synced at most this much later, with time to spare for the sync itself within the
/// second.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Where lines go.
pub struct Journal {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

/// What the syncing thread has too.
struct Shared {
    folder: PathBuf,
    /// How a file is made; another one in tests.
    create: fn(&Path) -> io::Result<File>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// None before the first line and after a failure.
    current: Option<Current>,
    /// The files that hold lines which no sync has covered.
    unsynced: Vec<Arc<File>>,
    closing: bool,
    /// When the last line was written, in microseconds.
    last: i64,
}

/// The file that lines go to.
struct Current {
    file: Arc<File>,
    /// Its length.
    written: u64,
    /// How far room is reserved; `None` where the file system cannot reserve.
    reserved: Option<u64>,
}

impl Journal {
    /// Opens the journal of a state folder. The file is made with the first line.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(state: &StateDir) -> io::Result<Self> {
        Self::open_with(state, create_private)
    }

    fn open_with(state: &StateDir, create: fn(&Path) -> io::Result<File>) -> io::Result<Self> {
        let folder = state.path().join(FOLDER);
        make_folder(&folder)?;
        sync_folder(state.path())?;
        let shared =
            Arc::new(Shared { folder, create, state: Mutex::default(), changed: Condvar::new() });
        let syncing = Arc::clone(&shared);
        let syncer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || syncing.keep_synced())?;
        Ok(Self { shared, syncer: Some(syncer) })
    }

    /// Whether the next lines can be written: there is a file, it has its name, and there is room.
    ///
    /// After a failure this tries again with a new file.
    ///
    /// # Errors
    /// What the file system says.
    pub fn check_writable(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        self.shared.prepare(&mut state)?.reserve(STEP).inspect_err(|_| state.current = None)
    }

    /// Writes a line, with the time of now.
    ///
    /// # Errors
    /// What the file system says. The line may then be in the file in part, and is not read back.
    pub fn append(&self, mut line: JournalLine) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.last = not_before(Utc::now().timestamp_micros(), state.last);
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

    /// Syncs what was written, now. Only a process that is about to end need call it.
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

    /// The file to write to; a new one where there is none, or where someone deleted it.
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

    /// Makes a new file, with room.
    fn begin(&self) -> io::Result<Current> {
        // Someone may have deleted the folder, but a state folder that is gone is not made again.
        match std::fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let started = Utc::now().format("%Y%m%dT%H%M%S%.6fZ");
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
                // The system may have dropped what it could not write, so this file is not to be
                // trusted.
                tracing::error!(kind = ?error.kind(), errno = error.raw_os_error(), "the journal was not synced");
                self.lock().current.take_if(|current| Arc::ptr_eq(&current.file, &file));
            }
        }
    }

    /// Syncs after lines were written, until the journal is closed. Sleeps where nothing is
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
    /// Makes sure that there is room for so many bytes more.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let Some(reserved) = self.reserved else { return Ok(()) };
        if reserved >= self.written + bytes {
            return Ok(());
        }
        self.reserved = reserve_room(&self.file, self.written, bytes + STEP)?
            .then_some(self.written + bytes + STEP);
        Ok(())
    }

    /// Writes a line with one system call.
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
    /// Gives back the room that was reserved, and takes back what a failed line left.
    fn drop(&mut self) {
        let _ = self.file.set_len(self.written);
    }
}

/// Reserves room behind the end of a file without moving the end. Whether the file system can.
#[cfg(target_os = "linux")]
fn reserve_room(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
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
fn reserve_room(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Whether the file was not deleted: a line in a file without a name would be lost.
#[cfg(unix)]
fn has_a_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) > 0)
}

/// Windows deletes no file that is open.
#[cfg(not(unix))]
fn has_a_name(_: &File) -> bool {
    true
}

/// The clock may step back; the lines of a file do not.
fn not_before(now: i64, last: i64) -> i64 {
    now.max(last)
}

/// RFC 3339, UTC, with exactly six decimals, so that times sort as text.
fn timestamp(micros: i64) -> String {
    DateTime::from_timestamp_micros(micros)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The journal of all processes.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All lines, in the order of their times; lines of one file stay in their order.
    pub lines: Vec<JournalLine>,
    /// How many lines could not be read, besides last lines that a kill or a full disk cut short.
    pub damaged: usize,
}

/// Reads what all processes wrote, into memory.
///
/// # Errors
/// What the file system says. A journal that was never written to is empty.
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
        // A kill now would change nothing: the bytes are the system's.
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
    fn a_line_that_a_kill_cut_short_is_left_out() {
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

    /// In the child: journals line after line and says so, until it is killed.
    fn journal_until_killed(folder: &Path) {
        let journal = Journal::open(&StateDir::open(folder).unwrap()).unwrap();
        for n in 0.. {
            journal.check_writable().unwrap();
            journal.append(line(&format!("n{n}"))).unwrap();
            // In one call, so that the kill does not cut it.
            io::stderr().write_all(format!("acknowledged n{n}\n").as_bytes()).unwrap();
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child process is told so by a variable")]
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
            let said = BufReader::new(child.stderr.take().unwrap());
            let mut last = None;
            for said in said.lines() {
                let said = said.unwrap();
                let Some(number) = said.strip_prefix("acknowledged n") else { continue };
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
    fn a_file_that_was_deleted_is_not_written_to() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("lost")).unwrap();
        std::fs::remove_dir_all(state.path().join(FOLDER)).unwrap();
        journal.append(line("kept")).unwrap();
        assert_eq!(tools(&state), ["kept"]);
    }

    #[test]
    fn without_a_state_folder_nothing_is_ready_until_it_is_back() {
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

    /// A file system of one megabyte, in a namespace of its own; nothing to see where that is not
    /// allowed.
    #[cfg(target_os = "linux")]
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child process is told so by a variable")]
    fn ready_fails_before_the_disk_is_full() {
        const CHILD: &str = "STILE_TEST_JOURNAL_SMALL_DISK";
        if let Some(folder) = std::env::var_os(CHILD) {
            let state = StateDir::open(&Path::new(&folder).join("state")).unwrap();
            let journal = Journal::open(&state).unwrap();
            let mut written = 0;
            while journal.check_writable().is_ok() {
                // The longest lines there are, and several under way at once.
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
            .arg("journal::tests::ready_fails_before_the_disk_is_full")
            .arg(folder.path())
            .env(CHILD, folder.path())
            .stdout(std::process::Stdio::null())
            .status();
        // 101 is a failed test; anything else but 0 a machine that allows no namespaces.
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
    fn what_was_written_is_synced_within_a_second_and_idle_threads_sleep() {
        let (_folder, state) = state();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("a")).unwrap();
        assert!(!journal.shared.lock().unsynced.is_empty());
        std::thread::sleep(SYNC_AFTER + Duration::from_millis(400));
        assert!(journal.shared.lock().unsynced.is_empty());
        journal.append(line("b")).unwrap();
        let before = std::time::Instant::now();
        drop(journal);
        assert!(before.elapsed() < SYNC_AFTER, "closing does not wait out the second");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_closed_file_gives_its_room_back() {
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
    fn time_does_not_step_back() {
        assert_eq!(not_before(5, 7), 7);
        assert_eq!(not_before(8, 7), 8);
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(1_767_323_045_123_456), "2026-01-02T03:04:05.123456Z");
    }

    proptest! {
        #[test]
        fn times_sort_as_text(a in 0..253_402_300_799_999_999i64, b in 0..253_402_300_799_999_999i64) {
            prop_assert_eq!(a.cmp(&b), timestamp(a).cmp(&timestamp(b)));
        }
    }
}
