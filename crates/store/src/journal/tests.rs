//! Tests of the journal: its lines survive kills, full disks and those who tidy up.

use std::io::{BufRead as _, BufReader};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use stile_domain::hash::ContentHash;
use stile_domain::path::SpacePath;
#[cfg(target_os = "linux")]
use stile_testkit::reading::bytes_read;

use super::*;

/// Verifies the whole journal.
pub(super) fn verify_all(state: &StateDir) -> io::Result<Verification> {
    JournalPlace::new(state.clone(), None).verify(&mut |_| {})
}

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

/// Returns the lines of one file in their order there.
fn lines_of(path: &Path) -> Vec<JournalLine> {
    let text = std::fs::read_to_string(path).unwrap();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
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
    assert!(!state.path().join(FOLDER).exists(), "a process that journals nothing leaves nothing");
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
    let times = lines_of(&files(&state)[0]).into_iter().map(|line| line.at);
    assert!(times.is_sorted());
    let verified = verify_all(&state).unwrap();
    assert_eq!((verified.lines, verified.faults), (800, vec![]));
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
        let lines = lines_of(files(&state).last().unwrap());
        let read: Vec<_> = lines.into_iter().map(|line| line.tool).collect();
        let expected: Vec<_> = (0..read.len()).map(|n| format!("n{n}")).collect();
        assert_eq!(read, expected);
        assert!(read.len() as u64 > last.unwrap());
    }
    assert_eq!(files(&state).len(), 10);
    assert_eq!(verify_all(&state).unwrap().faults, [], "a kill is no fault");
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
fn a_file_that_was_moved_away_is_replaced() {
    let (_folder, state) = state();
    let journal = Journal::open(&state).unwrap();
    journal.append(line("moved")).unwrap();
    let folder = state.path().join(FOLDER);
    std::fs::rename(&folder, folder.with_extension("away")).unwrap();
    journal.append(line("kept")).unwrap();
    assert_eq!(tools(&state), ["kept"]);
    std::fs::rename(&files(&state)[0], state.path().join("aside")).unwrap();
    journal.check_writable().unwrap();
    journal.append(line("after")).unwrap();
    assert_eq!(tools(&state), ["after"]);
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

#[test]
fn lines_are_written_while_the_next_file_is_made_and_none_waits_for_it() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static IN_SECOND: Barrier = Barrier::new(2);
    static SECOND_DONE: Barrier = Barrier::new(2);
    fn create(path: &Path) -> io::Result<File> {
        if MADE.fetch_add(1, Ordering::SeqCst) == 1 {
            IN_SECOND.wait();
            SECOND_DONE.wait();
        }
        create_private(path)
    }
    let (_folder, state) = state();
    let journal = Journal::open_with(&state, JournalOptions::default(), create).unwrap();
    let ages = |quarters: u32| {
        let age = (FILE_LIFE / 4 * quarters).as_micros();
        let mut state = journal.shared.lock();
        let begun = &mut state.current.as_mut().unwrap().begun;
        *begun = Instant(now().0 - i64::try_from(age).unwrap() - 1);
    };
    journal.append(line("one")).unwrap();
    ages(3);
    journal.append(line("two")).unwrap();
    // The thread that syncs now makes the next file, as slowly as a disk may be.
    IN_SECOND.wait();
    journal.append(line("three")).unwrap();
    journal.check_writable().unwrap();
    assert_eq!(files(&state).len(), 1);
    SECOND_DONE.wait();
    while journal.shared.lock().next.is_none() {
        std::thread::yield_now();
    }
    ages(4);
    journal.append(line("four")).unwrap();
    assert_eq!(MADE.load(Ordering::SeqCst), 2, "the line began the file that was ready");
    assert_eq!(tools(&state), ["one", "two", "three", "four"]);
    assert_eq!(files(&state).len(), 2);
}

#[test]
fn a_file_that_was_made_before_it_was_needed_goes_with_the_journal() {
    let (_folder, state) = state();
    let journal = Journal::open(&state).unwrap();
    journal.append(line("one")).unwrap();
    let next = journal.shared.begin().unwrap();
    journal.shared.lock().next = Some(next);
    assert_eq!(files(&state).len(), 2);
    drop(journal);
    assert_eq!(files(&state).len(), 1);
    assert_eq!(tools(&state), ["one"]);
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
    let journal = Journal::open_with(&state, JournalOptions::default(), create).unwrap();
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
                journal.append(JournalLine { subject, ..line("long") }).expect("there was room");
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
    let (_folder, after) = self::state();
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
    let name = file.file_name().unwrap().to_str().unwrap();
    let linked = r#"{"at":"9999-12-31T23:58:20.120000Z","tool":"text.read","outcome":"ok","n":1"#;
    let start = ContentHash::digest(format!("stile journal 1\n{name}").as_bytes());
    let chain = ContentHash::digest(&[&start.as_bytes()[..], linked.as_bytes()].concat());
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!("{linked},\"chain\":\"{chain}\"}}\n")
    );
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

/// Writes a file with one line for each of several sessions, one after another.
fn sessions(state: &StateDir, count: usize) {
    for number in 0..count {
        let journal = Journal::open(state).unwrap();
        journal.append(line(&format!("tool-{number}"))).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_has_few_files_open_however_many_sessions_there_were() {
    let (folder, state) = state();
    sessions(&state, 40);
    let open_files = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let paths = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        paths.filter(|path| path.starts_with(folder.path())).count()
    };
    let mut lines = JournalPlace::new(state, None).lines(None).unwrap();
    let (mut read, mut most) = (Vec::new(), 0);
    while let Some(line) = lines.next_line().unwrap() {
        most = most.max(open_files());
        read.push(line.tool);
    }
    let written: Vec<String> = (0..40).map(|number| format!("tool-{number}")).collect();
    assert_eq!(read, written);
    assert!(most <= 2, "{most} files were open at a time");
}

#[cfg(target_os = "linux")]
#[test]
fn who_follows_the_journal_does_not_read_what_was_there() {
    let (_folder, state) = state();
    let journal = Journal::open(&state).unwrap();
    for _ in 0..2_000 {
        journal.append(line("before")).unwrap();
    }
    let place = JournalPlace::new(state.clone(), None);
    assert!(place.bytes().unwrap() > 200_000);
    let (read, mut new) = bytes_read(|| place.new_lines().unwrap());
    assert!(read < 30_000, "{read} bytes were read");
    let tools = |new: &mut NewLines| -> Vec<String> {
        new.take().unwrap().into_iter().map(|line| line.tool).collect()
    };
    assert!(tools(&mut new).is_empty());
    journal.append(line("after")).unwrap();
    sessions(&state, 1);
    let (read, after) = bytes_read(|| tools(&mut new));
    assert_eq!(after, ["after", "tool-0"]);
    assert!(read < 30_000, "{read} bytes were read");
}

#[test]
fn who_follows_the_journal_is_shown_a_line_once_it_is_whole() {
    let (_folder, state) = state();
    sessions(&state, 1);
    let file = files(&state).remove(0);
    let whole = std::fs::read(&file).unwrap();
    let (torn, rest) = whole.split_at(whole.len() / 2);
    std::fs::write(&file, torn).unwrap();
    let mut new = JournalPlace::new(state, None).new_lines().unwrap();
    assert_eq!(new.take().unwrap(), []);
    std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(rest).unwrap();
    assert_eq!(new.take().unwrap().len(), 1);
    assert_eq!(new.take().unwrap(), []);
}

#[test]
fn lines_from_a_time_on_are_the_same_whether_old_ones_are_parsed_or_not() {
    let (_folder, state) = state();
    sessions(&state, 3);
    let all = read_all(&state).unwrap().lines;
    let since = Instant::parse(&all[1].at).unwrap();
    let read = |state: &StateDir| {
        let mut lines = JournalPlace::new(state.clone(), None).lines(Some(since)).unwrap();
        std::iter::from_fn(|| lines.next_line().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(read(&state), all[1..]);
    // Another program may write the time at another place.
    for file in files(&state) {
        let text = std::fs::read_to_string(&file).unwrap();
        let (time, rest) = text.split_once(',').unwrap();
        let at = time.trim_start_matches('{');
        let (members, end) = rest.rsplit_once('}').unwrap();
        std::fs::write(&file, format!("{{{members},{at}}}{end}")).unwrap();
    }
    assert_eq!(read(&state), all[1..]);
}
