//! Tests of the history on a real disk.

use std::fs;
use std::sync::Arc;

use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChangeKind};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;

use super::*;

struct Rig {
    folder: tempfile::TempDir,
    history: Arc<History>,
}

const LIMITS: HistoryLimits = HistoryLimits { days: 30, bytes: 1 << 30 };

impl Rig {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: HistoryLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let history = open(&folder, limits).unwrap();
        Self { folder, history: Arc::new(history) }
    }

    /// Records that `after` replaced `before`.
    fn replace(&self, name: &str, before: &[u8], after: &[u8]) -> ChangeNumber {
        keep(&self.history, &author("ann"), name, before, after).unwrap()
    }

    fn version(&self, name: &str, version: &str) -> Result<Vec<u8>, VersionError> {
        let (path, version) = (path(name), OldVersion::parse(version).unwrap());
        let hash = self.history.find_version(&path, &version, None)?;
        self.history.bytes_of(&path, hash, None, u64::MAX)
    }

    fn objects(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.history.objects()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn numbers(&self, query: &ChangeQuery) -> Vec<i64> {
        self.history.changes(query).unwrap().iter().map(|change| change.number.0).collect()
    }
}

fn open(folder: &tempfile::TempDir, limits: HistoryLimits) -> Result<History, HistoryError> {
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    History::open_to_serve(&state, &folder.path().join("root"), &named(limits))
}

/// Returns the settings of a server whose owner named all of them.
fn named(limits: HistoryLimits) -> ServerSettings {
    ServerSettings {
        days: ServerSetting::Named(limits.days),
        bytes: ServerSetting::Named(limits.bytes),
        unkept: ServerSetting::Named(UnkeptChange::GoesOn),
    }
}

/// Opens the history as a command of the owner does.
fn open_for_command(folder: &tempfile::TempDir, limits: HistoryLimits) -> History {
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let otherwise = HistorySettings { limits, unkept: UnkeptChange::GoesOn };
    History::open(&state, &folder.path().join("root"), otherwise).unwrap()
}

fn author(subject: &str) -> Author {
    Author { tool: "text.replace".to_owned(), subject: subject.to_owned(), ..Author::default() }
}

fn path(name: &str) -> SpacePath {
    SpacePath::parse(name).unwrap()
}

fn keep(
    history: &History,
    author: &Author,
    name: &str,
    before: &[u8],
    after: &[u8],
) -> Result<ChangeNumber, HistoryError> {
    let change = NewChange {
        kind: PastChangeKind::Replaced,
        path: &path(name),
        to: None,
        before: Some(ContentHash::digest(before)),
        size_before: before.len() as u64,
        after: Some(ContentHash::digest(after)),
        held: None,
        metadata: None,
        call: &Call::new(author.clone()),
    };
    history.keep(&change, VersionSource::Bytes(before))
}

/// Returns bytes that hardly compress.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_version_is_found_by_the_number_of_its_change_and_by_its_hash() {
    let rig = Rig::new();
    let number = rig.replace("/a.md", b"one\n", b"two\n");
    assert_eq!(rig.version("/a.md", &number.to_string()).unwrap(), b"one\n");
    let digits: String = ContentHash::digest(b"one\n").to_string().chars().take(8).collect();
    assert_eq!(rig.version("/a.md", &digits).unwrap(), b"one\n");
    let unknown = |result: Result<Vec<u8>, VersionError>| {
        assert!(matches!(result, Err(VersionError::Unknown { .. })), "{result:?}");
    };
    unknown(rig.version("/b.md", &number.to_string()));
    unknown(rig.version("/a.md", "99"));
    unknown(rig.version("/a.md", "00000000"));
}

#[test]
fn a_version_is_stored_once_and_a_large_one_as_a_file_for_the_owner_alone() {
    let rig = Rig::new();
    let large = noise(300_000, 7);
    for name in ["/a", "/b", "/c"] {
        rig.replace(name, &large, b"x");
    }
    let [object] = rig.objects().try_into().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(object.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(rig.version("/b", "2").unwrap(), large);
}

#[test]
fn a_file_that_is_longer_than_memory_should_hold_is_compressed_in_pieces() {
    let rig = Rig::new();
    let bytes = noise(5 << 20, 3);
    let at = rig.folder.path().join("large");
    fs::write(&at, &bytes).unwrap();
    let file = fs::File::open(&at).unwrap();
    let (call, path) = (Call::new(author("ann")), path("/large"));
    let change = |hash| NewChange {
        kind: PastChangeKind::Removed,
        path: &path,
        to: None,
        before: Some(hash),
        size_before: bytes.len() as u64,
        after: None,
        held: None,
        metadata: None,
        call: &call,
    };
    let source = VersionSource::File(&file, bytes.len() as u64);
    let other = ContentHash::digest(b"another");
    assert!(matches!(rig.history.keep(&change(other), source), Err(HistoryError::Changed)));
    assert_eq!(rig.objects(), Vec::<PathBuf>::new());
    let number = rig.history.keep(&change(ContentHash::digest(&bytes)), source).unwrap();
    assert_eq!(rig.version("/large", &number.to_string()).unwrap(), bytes);
}

#[test]
fn a_damaged_version_is_named_and_the_others_are_still_there() {
    let rig = Rig::new();
    let (one, two) = (noise(300_000, 1), noise(300_000, 2));
    rig.replace("/a", &one, b"x");
    let [object] = rig.objects().try_into().unwrap();
    rig.replace("/a", &two, b"x");
    let mut bytes = fs::read(&object).unwrap();
    bytes[150_000] ^= 1;
    fs::write(&object, &bytes).unwrap();
    let damaged = rig.version("/a", "1").unwrap_err();
    assert!(matches!(damaged, VersionError::Damaged { .. }), "{damaged}");
    let digits: String = ContentHash::digest(&one).to_string().chars().take(12).collect();
    assert!(damaged.to_string().contains(&digits), "{damaged}");
    assert_eq!(rig.version("/a", "2").unwrap(), two);
    fs::remove_file(&object).unwrap();
    assert!(matches!(rig.version("/a", "1"), Err(VersionError::Damaged { .. })));
}

#[test]
fn the_oldest_changes_go_first_when_there_is_no_room() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 1_000_000 });
    for number in 0..6 {
        rig.replace("/a", &noise(250_000, number), b"x");
    }
    // A version that a later change needs too stays.
    rig.replace("/b", &noise(250_000, 2), b"x");
    rig.history.prune().unwrap();
    let all = rig.numbers(&ChangeQuery::default());
    assert_eq!(all.first(), Some(&7), "{all:?}");
    assert!(!all.contains(&1), "{all:?}");
    let stored: u64 = rig.objects().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(stored <= 1_000_000, "{stored}");
    assert_eq!(rig.version("/b", "7").unwrap(), noise(250_000, 2));
}

#[test]
fn a_version_larger_than_the_history_may_be_is_not_kept() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 100_000 });
    let kept = keep(&rig.history, &author("ann"), "/a", &noise(150_000, 1), b"x");
    assert!(matches!(kept, Err(HistoryError::TooLarge)), "{kept:?}");
    assert_eq!(kept.unwrap_err().outcome(), "too_large");
    assert_eq!(rig.objects(), Vec::<PathBuf>::new());
}

#[test]
fn a_change_that_was_not_made_is_forgotten_with_its_version() {
    let rig = Rig::new();
    let number = rig.replace("/a", &noise(300_000, 1), b"x");
    rig.history.forget(number);
    assert_eq!(rig.numbers(&ChangeQuery::default()), [0; 0]);
    assert_eq!(rig.objects(), Vec::<PathBuf>::new());
    assert_eq!(rig.replace("/a", b"one", b"two"), ChangeNumber(number.0 + 1));
}

#[test]
fn what_only_grew_is_not_stored_again_and_still_found() {
    let rig = Rig::new();
    let call = Call::new(author("ann"));
    let log: Vec<Vec<u8>> = (0..4).map(|line| "a line\n".repeat(line * 2).into_bytes()).collect();
    for pair in log.windows(2) {
        let change = NewChange {
            kind: PastChangeKind::Appended,
            path: &path("/log"),
            to: None,
            before: Some(ContentHash::digest(&pair[0])),
            size_before: pair[0].len() as u64,
            after: Some(ContentHash::digest(&pair[1])),
            held: None,
            metadata: None,
            call: &call,
        };
        rig.history.keep(&change, VersionSource::WithinAfter).unwrap();
    }
    let hash = ContentHash::digest(&log[1]);
    let bytes =
        |current: Option<&[u8]>| rig.history.bytes_of(&path("/log"), hash, current, u64::MAX);
    let grown = [&log[3][..], b"a line of another program\n"].concat();
    assert_eq!(bytes(Some(&log[3])).unwrap(), log[1]);
    assert_eq!(bytes(Some(&grown)).unwrap(), log[1]);
    assert!(matches!(bytes(Some(b"another")), Err(VersionError::NotKept { .. })));
    rig.replace("/log", &log[3], b"another");
    assert_eq!(bytes(Some(b"another")).unwrap(), log[1]);
}

#[test]
fn changes_are_found_by_path_client_caller_time_and_call() {
    let rig = Rig::new();
    let cursor = Author { client: Some("cursor".to_owned()), ..author("ann") };
    keep(&rig.history, &author("ann"), "/work/a", b"1", b"2").unwrap();
    keep(&rig.history, &cursor, "/work/b", b"1", b"2").unwrap();
    keep(&rig.history, &author("bob"), "/workshop", b"1", b"2").unwrap();
    let of_path = |name: &str| ChangeQuery { path: Some(path(name)), ..ChangeQuery::default() };
    assert_eq!(rig.numbers(&of_path("/work")), [2, 1]);
    assert_eq!(rig.numbers(&of_path("/work/b")), [2]);
    assert_eq!(rig.numbers(&of_path("/")), [3, 2, 1]);
    let client = Some("cursor".to_owned());
    assert_eq!(rig.numbers(&ChangeQuery { client, ..ChangeQuery::default() }), [2]);
    let caller = Some(author("ann"));
    assert_eq!(rig.numbers(&ChangeQuery { caller, ..ChangeQuery::default() }), [1]);
    let call = Some(ChangeNumber(3));
    assert_eq!(rig.numbers(&ChangeQuery { call, ..ChangeQuery::default() }), [3]);
    let below = Some(ChangeNumber(3));
    let page = ChangeQuery { below, limit: Some(1), ..ChangeQuery::default() };
    assert_eq!(rig.numbers(&page), [2]);
    let since = rig.history.changes(&of_path("/work/b")).unwrap().first().map(|change| change.at);
    let later = rig.numbers(&ChangeQuery { since, ..ChangeQuery::default() });
    assert!(later.starts_with(&[3, 2]), "{later:?}");
}

#[test]
fn another_folder_has_a_history_of_its_own() {
    let rig = Rig::new();
    rig.replace("/a", b"one", b"two");
    let other = rig.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let state = StateDir::open(&rig.folder.path().join("state")).unwrap();
    let other = History::open_to_serve(&state, &other, &named(LIMITS)).unwrap();
    assert_eq!(other.changes(&ChangeQuery::default()).unwrap(), []);
    assert_ne!(other.held_folder(), rig.history.held_folder());
}

#[test]
fn many_threads_and_processes_record_at_once() {
    let rig = Rig::new();
    let other = open(&rig.folder, LIMITS).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let history = if thread % 2 == 0 { &*rig.history } else { &other };
            scope.spawn(move || {
                for change in 0..25_u8 {
                    let name = format!("/{thread}");
                    keep(history, &author("ann"), &name, &[thread, change], b"x").unwrap();
                }
            });
        }
    });
    assert_eq!(rig.numbers(&ChangeQuery::default()).len(), 100);
    for thread in 0..4_u8 {
        let query =
            ChangeQuery { path: Some(path(&format!("/{thread}"))), ..ChangeQuery::default() };
        let mut hashes: Vec<_> = rig
            .history
            .changes(&query)
            .unwrap()
            .iter()
            .filter_map(|change| change.before)
            .collect();
        hashes.reverse();
        let expected: Vec<_> =
            (0..25_u8).map(|change| ContentHash::digest(&[thread, change])).collect();
        assert_eq!(hashes, expected);
    }
}

#[test]
fn a_history_of_a_newer_program_is_left_alone() {
    let rig = Rig::new();
    rig.history.connection().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(open(&rig.folder, LIMITS), Err(HistoryError::Newer)));
}

#[test]
fn versions_that_no_row_names_are_removed_when_they_are_old() {
    let rig = Rig::new();
    rig.replace("/a", &noise(300_000, 1), b"x");
    let [known] = rig.objects().try_into().unwrap();
    let [old, new] = ["old.zst", "new.zst"].map(|name| rig.history.objects().join(name));
    for path in [&old, &new] {
        fs::write(path, b"x").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for path in [&old, &known] {
        fs::File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    open(&rig.folder, LIMITS).unwrap();
    assert_eq!([old, new, known].map(|path| path.exists()), [false, true, true]);
}

#[test]
fn a_history_of_the_first_version_keeps_its_changes_and_gets_room_for_metadata() {
    let rig = Rig::new();
    let number = rig.replace("/a.md", b"one", b"two");
    let Rig { folder, history } = rig;
    drop(history);
    // The first version of the schema had no metadata.
    let database = rusqlite::Connection::open(folder.path().join("state/history/history.db"));
    let first = "ALTER TABLE changes DROP COLUMN mode; ALTER TABLE changes DROP COLUMN attributes; \
                 DROP TABLE settings; PRAGMA user_version = 1;";
    database.unwrap().execute_batch(first).unwrap();
    let history = Arc::new(open(&folder, LIMITS).unwrap());
    let rig = Rig { folder, history };
    assert_eq!(rig.version("/a.md", &number.0.to_string()).unwrap(), b"one");
    let hash = ContentHash::digest(b"one");
    assert_eq!(rig.history.metadata_of(&path("/a.md"), hash), None);
    rig.replace("/a.md", b"two", b"three");
}

#[test]
fn a_recorded_change_survives_a_power_cut_since_its_connection_syncs_each_commit() {
    let rig = Rig::new();
    let full: i64 =
        rig.history.connection().pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(full, 2, "2 stands for FULL");
}

#[test]
fn reading_removes_nothing_whatever_the_settings_of_the_reader_are() {
    let rig = Rig::new();
    let number = rig.replace("/a.md", b"one\n", b"two\n");
    rig.history.connection().execute("UPDATE changes SET at = 0", []).unwrap();
    let orphan = rig.history.objects().join("orphan.zst");
    fs::write(&orphan, b"x").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::options().append(true).open(&orphan).unwrap().set_modified(long_ago).unwrap();
    let reader = open_for_command(&rig.folder, HistoryLimits { days: 0, bytes: 0 });
    // A long undo records many changes, and removes none of them either.
    reader.since_prune.store(CHANGES_BETWEEN_PRUNES, Ordering::Relaxed);
    reader.prune_if_due();
    assert_eq!(rig.version("/a.md", &number.to_string()).unwrap(), b"one\n");
    assert!(orphan.exists());
}

#[test]
fn the_settings_of_the_last_server_hold_and_what_nobody_named_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("root")).unwrap();
    let limits = |days, bytes| HistoryLimits { days, bytes };
    // A history whose server never stored its settings has those of the reader.
    assert_eq!(open_for_command(&folder, limits(1, 2)).settings().limits, limits(1, 2));
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let serve = |days, bytes| {
        let unkept = ServerSetting::Default(UnkeptChange::GoesOn);
        let server = ServerSettings { days, bytes, unkept };
        let root = folder.path().join("root");
        History::open_to_serve(&state, &root, &server).unwrap().settings().limits
    };
    use ServerSetting::{Default, Named};
    assert_eq!(serve(Default(30), Named(500)), limits(30, 500));
    assert_eq!(serve(Named(365), Default(1 << 30)), limits(365, 500));
    assert_eq!(serve(Default(30), Default(1 << 30)), limits(365, 500));
    assert_eq!(open_for_command(&folder, limits(1, 2)).settings().limits, limits(365, 500));
}

#[test]
fn a_server_removes_by_the_settings_that_another_one_stored_meanwhile() {
    let rig = Rig::with(HistoryLimits { days: 1, bytes: 1 << 30 });
    let number = rig.replace("/a.md", b"one\n", b"two\n");
    let two_days_ago = crate::now().0 - 2 * 86_400 * 1_000_000;
    let age = "UPDATE changes SET at = ?1";
    rig.history.connection().execute(age, [two_days_ago]).unwrap();
    open(&rig.folder, HistoryLimits { days: 365, bytes: 1 << 30 }).unwrap();
    rig.history.prune().unwrap();
    assert_eq!(rig.version("/a.md", &number.to_string()).unwrap(), b"one\n");
    open(&rig.folder, HistoryLimits { days: 1, bytes: 1 << 30 }).unwrap();
    assert_eq!(rig.numbers(&ChangeQuery::default()), [0; 0]);
}
