//! Tests of the history on a real disk.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChangeKind};
use stile_domain::history::past_folder::FolderRest;
use stile_domain::history::version::OldVersion;
use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;

use super::*;
use crate::journal::{FaultKind, Journal, JournalPlace};

mod appends;
mod many_changes;

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

    /// Returns the bytes that the history takes, by its own count, after checking the count.
    fn used(&self) -> u64 {
        check_count(&self.history);
        retention::used(&self.history.connection()).unwrap()
    }

    /// Returns the bytes of the files of versions.
    fn in_files(&self) -> u64 {
        self.objects().iter().map(|path| path.metadata().unwrap().len()).sum()
    }

    fn version(&self, name: &str, version: &str) -> Result<Vec<u8>, VersionError> {
        self.version_beside(name, version, None)
    }

    /// Returns a version of a file that holds `current` now.
    fn version_beside(
        &self,
        name: &str,
        version: &str,
        current: Option<&[u8]>,
    ) -> Result<Vec<u8>, VersionError> {
        let (path, version) = (path(name), OldVersion::parse(version).unwrap());
        let hash = self.history.find_version(&path, &version, None)?;
        self.history.bytes_of(&path, hash, current, u64::MAX)
    }

    /// Whether the history has bytes as a first version.
    fn has_first(&self, bytes: &[u8]) -> bool {
        let query = "SELECT EXISTS (SELECT 1 FROM versions WHERE hash = ?1 AND is_first)";
        let hash = ContentHash::digest(bytes);
        self.history.connection().query_row(query, [hash.as_bytes()], |row| row.get(0)).unwrap()
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
    let kept = keep_as(history, &Call::new(author.clone()), name, [Some(before), Some(after)])?;
    match kept.lacks {
        None => Ok(kept.made.number().unwrap()),
        Some(why) => Err(why),
    }
}

impl Kept {
    /// Returns the number of a change that has a row of its own.
    fn number(&self) -> ChangeNumber {
        self.made.number().unwrap()
    }
}

/// Records a change of a file from one content to another.
fn keep_as(
    history: &History,
    call: &Call,
    name: &str,
    [before, after]: [Option<&[u8]>; 2],
) -> Result<Kept, HistoryError> {
    let hash = |bytes: Option<&[u8]>| bytes.map(ContentHash::digest);
    let kind = match (before, after) {
        (None, _) => PastChangeKind::Created,
        (_, None) => PastChangeKind::Removed,
        (Some(before), Some(after)) if after.starts_with(before) => PastChangeKind::Appended,
        _ => PastChangeKind::Replaced,
    };
    let change = NewChange {
        kind,
        path: &path(name),
        to: None,
        before: hash(before),
        size_before: before.map_or(0, <[u8]>::len) as u64,
        after: hash(after),
        held: None,
        metadata: None,
        call,
    };
    let source = match before {
        // Of a long file, nothing is stored before something is added to it.
        Some(before) if kind != PastChangeKind::Appended || before.len() <= 64 * 1024 => {
            VersionSource::Bytes(before)
        }
        _ => VersionSource::WithinAfter,
    };
    history.keep(&change, source)
}

/// Checks the bytes that the triggers count against a slow count.
fn check_count(history: &History) {
    let connection = history.connection();
    let sum = |query: &str| -> i64 { connection.query_row(query, [], |row| row.get(0)).unwrap() };
    let firsts = "SELECT (SELECT coalesce(sum(bytes), 0) FROM changes) + \
                  (SELECT coalesce(sum(bytes), 0) FROM folders) + \
                  (SELECT coalesce(sum(stored), 0) FROM versions WHERE is_first)";
    let laters = "SELECT coalesce(sum(stored), 0) FROM versions WHERE NOT is_first";
    assert_eq!(sum("SELECT coalesce(sum(firsts), 0) FROM shares"), sum(firsts));
    assert_eq!(sum("SELECT coalesce(sum(laters), 0) FROM shares"), sum(laters));
    let wrong = "SELECT count(*) FROM versions WHERE is_first <> \
                 EXISTS (SELECT 1 FROM changes WHERE version = versions.version AND is_later = 0)";
    assert_eq!(sum(wrong), 0);
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
    let kept = rig.history.keep(&change(ContentHash::digest(&bytes)), source).unwrap();
    assert_eq!(rig.version("/large", &kept.number().to_string()).unwrap(), bytes);
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
fn later_versions_of_the_file_go_first_and_then_the_oldest_and_their_changes_stay() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 1_000_000 });
    let version = |number| noise(150_000, number);
    // The first version of each file is somebody else's. The later ones are the client's own.
    for number in 0..3 {
        rig.replace("/a", &version(number), &version(number + 1));
    }
    for number in 10..14 {
        rig.replace("/b", &version(number), &version(number + 1));
        assert!(rig.used() <= 1_000_000 && rig.in_files() <= 1_000_000, "{}", rig.used());
    }
    let has = |name: &str, number: i64| rig.version(name, &number.to_string()).is_ok();
    // The fourth version of /b took the room of its second one.
    assert_eq!([1, 2, 3].map(|number| has("/a", number)), [true; 3]);
    assert_eq!([4, 5, 6, 7].map(|number| has("/b", number)), [true, false, true, true]);
    rig.replace("/c", &version(20), &version(21));
    assert!(!has("/a", 2), "the oldest later version of all goes");
    assert!(has("/a", 1) && has("/b", 4), "first versions stay");
    assert_eq!(rig.numbers(&ChangeQuery::default()), [8, 7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn a_client_over_its_share_is_not_kept_and_others_and_the_owner_are() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 1_000_000 });
    let client = |name: &str| Call::new(Author { client: Some(name.to_owned()), ..author("ann") });
    let remove = |call: &Call, number: u64, length: usize| {
        let bytes = noise(length, number);
        keep_as(&rig.history, call, &format!("/{number}"), [Some(&bytes), None]).unwrap()
    };
    let greedy = client("greedy");
    for number in 0..8 {
        let lacks = remove(&greedy, number, 150_000).lacks;
        let is_over = matches!(lacks, Some(HistoryError::NoRoom(NoRoom::OverShare)));
        assert_eq!(is_over, number >= 3, "{lacks:?}");
        assert_eq!(lacks.map(|lacks| lacks.outcome()), is_over.then_some("over_share"));
    }
    assert!(remove(&client("modest"), 100, 200_000).lacks.is_none());
    // An undo of the owner displaces what the client made. It is kept while there is room.
    let made = noise(300_000, 50);
    keep_as(&rig.history, &greedy, "/made", [None, Some(&made)]).unwrap();
    let owner = Call::of_owner(author("ann"));
    assert!(keep_as(&rig.history, &owner, "/made", [Some(&made), None]).unwrap().lacks.is_none());
    assert!(rig.used() <= 1_000_000 && rig.in_files() <= 1_000_000);
    assert!(remove(&client("other"), 200, 100_000).lacks.is_none(), "the owner's version goes");
    assert!(rig.version("/made", "11").is_err());
    for number in 0..3 {
        let kept = rig.version(&format!("/{number}"), &(number + 1).to_string());
        assert_eq!(kept.unwrap(), noise(150_000, number));
    }
}

#[test]
fn a_change_that_must_be_kept_is_refused_only_for_the_client_over_its_share() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 1_000_000 });
    let state = StateDir::open(&rig.folder.path().join("state")).unwrap();
    let server = ServerSettings {
        unkept: ServerSetting::Named(UnkeptChange::IsRefused),
        ..named(HistoryLimits { days: 30, bytes: 1_000_000 })
    };
    let strict = History::open_to_serve(&state, &rig.folder.path().join("root"), &server).unwrap();
    let remove = |call: &Call, number: u64| {
        let bytes = noise(400_000, number);
        keep_as(&strict, call, &format!("/{number}"), [Some(&bytes), None]).map(|_| ())
    };
    let greedy = Call::new(author("ann"));
    remove(&greedy, 1).unwrap();
    assert!(matches!(remove(&greedy, 2), Err(HistoryError::NoRoom(NoRoom::OverShare))));
    assert_eq!(rig.numbers(&ChangeQuery::default()), [1], "a refused change has no row");
    remove(&Call::of_owner(author("ann")), 3).unwrap();
    assert!(rig.used() <= 1_000_000 && rig.in_files() <= 1_000_000);
}

#[test]
fn a_change_in_the_very_microsecond_is_since_then() {
    let rig = Rig::new();
    rig.replace("/a", b"1", b"2");
    let last = rig.replace("/a", b"2", b"3");
    let at = rig.history.changes(&ChangeQuery::default()).unwrap()[0].at;
    let since = |micros| {
        let since = Some(Instant(at.0 + micros));
        rig.numbers(&ChangeQuery { since, ..ChangeQuery::default() })
    };
    assert_eq!((since(0), since(1)), (vec![last.0], vec![]));
}

#[test]
fn changes_that_have_no_room_for_a_row_are_counted() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 4_000 });
    let call = Call::new(Author { client: Some("greedy".to_owned()), ..author("ann") });
    let made: Vec<_> = (0..20)
        .map(|number| keep_as(&rig.history, &call, &format!("/{number}"), [None, Some(b"x")]))
        .collect();
    let recorded = made.iter().filter(|made| made.is_ok()).count();
    assert!((2..4).contains(&recorded), "{recorded}");
    // What somebody else made still has its row.
    let removed = keep_as(&rig.history, &call, "/precious", [Some(b"only copy"), None]).unwrap();
    assert!(removed.lacks.is_none());
    let [unrecorded] = rig.history.unrecorded().unwrap().try_into().unwrap();
    assert_eq!((unrecorded.client.as_str(), unrecorded.changes), ("greedy", 20 - recorded as u64));
    assert_eq!(unrecorded.paths().last(), Some(&path("/19")));
    // A token that names no client is known by its user.
    for number in 20..40 {
        let call = Call::new(author("ann"));
        let _ = keep_as(&rig.history, &call, &format!("/{number}"), [None, Some(b"x")]);
    }
    let [_, of_user] = rig.history.unrecorded().unwrap().try_into().unwrap();
    assert_eq!(of_user.client, "ann");
    assert!(rig.used() <= 4_000);
}

#[test]
fn a_clients_later_change_without_room_for_a_row_is_added_to_its_row_of_the_file() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 8_000 });
    let call = || Call::new(author("ann"));
    let change = |from: &[u8], to| keep_as(&rig.history, &call(), "/note", [Some(from), to]);
    let row = || {
        let found = rig.history.changes(&ChangeQuery::default()).unwrap();
        let found = found.into_iter().find(|change| change.path == path("/note")).unwrap();
        (found.number.0, found.kind, found.before, found.after)
    };
    let hash = |bytes: &[u8]| Some(ContentHash::digest(bytes));
    change(b"first", Some(b"evil")).unwrap();
    for at in 0..20 {
        let _ = keep_as(&rig.history, &call(), &format!("/{at}"), [None, Some(b"x")]);
    }
    let added = change(b"evil", Some(b"worse")).unwrap();
    assert_eq!(added.lacks.unwrap().outcome(), "over_share");
    let replaced = (1, PastChangeKind::Replaced, hash(b"first"), hash(b"worse"));
    assert_eq!(row(), replaced);
    let removed = change(b"worse", None).unwrap();
    assert_eq!(row(), (1, PastChangeKind::Removed, hash(b"first"), None));
    // A change that was not made leaves the row as it was.
    rig.history.forget(&[removed.made]);
    assert_eq!(row(), replaced);
    assert_eq!(rig.version("/note", "1").unwrap(), b"first");
    // What somebody else wrote meanwhile is not the client's, so nothing is added to its row.
    change(b"by a person", Some(b"x")).unwrap();
    assert_ne!(row().0, 1);
}

#[test]
fn a_version_larger_than_the_history_may_be_is_not_kept() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 100_000 });
    let kept = keep(&rig.history, &author("ann"), "/a", &noise(150_000, 1), b"x");
    assert!(matches!(kept, Err(HistoryError::NoRoom(NoRoom::TooLarge))), "{kept:?}");
    assert_eq!(kept.unwrap_err().outcome(), "too_large");
    assert_eq!(rig.objects(), Vec::<PathBuf>::new());
}

#[test]
fn a_smaller_limit_takes_effect_when_the_server_starts() {
    let rig = Rig::new();
    for number in 0..4 {
        rig.replace("/a", &noise(150_000, number), &noise(150_000, number + 1));
    }
    rig.replace("/b", &noise(150_000, 9), b"x");
    open(&rig.folder, HistoryLimits { days: 30, bytes: 400_000 }).unwrap();
    assert!(rig.version("/a", "1").is_ok() && rig.version("/b", "5").is_ok());
    assert_eq!(rig.numbers(&ChangeQuery::default()).len(), 5);
    open(&rig.folder, HistoryLimits { days: 30, bytes: 200_000 }).unwrap();
    assert!(rig.version("/a", "1").is_err() && rig.version("/b", "5").is_ok());
    assert!(rig.used() <= 200_000 && rig.in_files() <= 200_000);
}

#[test]
fn a_change_that_was_not_made_is_forgotten_with_its_version() {
    let rig = Rig::new();
    let number = rig.replace("/a", &noise(300_000, 1), b"x");
    rig.history.forget(&[MadeRow::New(number)]);
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
fn files_of_versions_that_a_killed_process_left_are_removed() {
    let rig = Rig::new();
    rig.replace("/a", &noise(300_000, 1), b"x");
    let [known] = rig.objects().try_into().unwrap();
    let [left, reserved] =
        ["left.zst", "reserved.zst"].map(|name| rig.history.objects().join(name));
    for path in [&left, &reserved] {
        fs::write(path, b"x").unwrap();
    }
    let reserve = "INSERT INTO reservations (file, share, is_first, bytes, at) \
                   VALUES ('reserved.zst', 's', 1, 400, ?1)";
    rig.history.connection().execute(reserve, [crate::now().0]).unwrap();
    open(&rig.folder, LIMITS).unwrap();
    assert_eq!([&left, &reserved, &known].map(|path| path.exists()), [false, true, true]);
    rig.history.connection().execute("UPDATE reservations SET at = 0", []).unwrap();
    open(&rig.folder, LIMITS).unwrap();
    assert_eq!([&reserved, &known].map(|path| path.exists()), [false, true]);
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

#[test]
fn an_adopted_folder_has_the_history_of_the_old_one_and_its_own() {
    let rig = Rig::new();
    rig.replace("/a", b"one", b"two");
    let state = StateDir::open(&rig.folder.path().join("state")).unwrap();
    let tokens = crate::state::TokenStore::open(&state).unwrap();
    let (old, new) = (rig.folder.path().join("root"), rig.folder.path().join("new"));
    fs::create_dir(&new).unwrap();
    tokens.space_of(&old).unwrap();
    let [space] = tokens.other_spaces(&new).unwrap().try_into().unwrap();
    let held = rig.history.held_folder();
    {
        let history = History::open_to_serve(&state, &new, &named(LIMITS)).unwrap();
        keep(&history, &author("ann"), "/b", b"1", b"2").unwrap();
        fs::write(history.held_folder().join(".stile-left"), b"x").unwrap();
    }
    let marker = fs::File::create(held.join("server.alive")).unwrap();
    marker.lock().unwrap();
    assert!(matches!(History::adopt(&state, &new, &space), Err(HistoryError::InUse)));
    drop(marker);
    History::adopt(&state, &new, &space).unwrap();
    tokens.adopt(&new, &space, 0).unwrap();
    let adopted = History::open_to_serve(&state, &new, &named(LIMITS)).unwrap();
    assert_eq!(adopted.changes(&ChangeQuery::default()).unwrap().len(), 2);
    assert!(adopted.held_folder().join(".stile-left").exists());
    let other = History::open_to_serve(&state, &old, &named(LIMITS)).unwrap();
    assert_eq!(other.changes(&ChangeQuery::default()).unwrap(), []);
}

#[test]
fn a_folder_of_a_person_has_the_history_of_all_folders_that_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let roots = ["one", "two", "three"].map(|name| folder.path().join(name));
    assert_eq!(History::folders(state.path()).unwrap(), [""; 0]);
    History::adopt_all(&state, folder.path()).unwrap();
    assert!(!state.path().join("history").exists(), "none is made");
    for root in &roots {
        fs::create_dir(root).unwrap();
        let history = History::open_to_serve(&state, root, &named(LIMITS)).unwrap();
        keep(&history, &author("ann"), "/a", b"1", b"2").unwrap();
    }
    assert_eq!(History::folders(state.path()).unwrap().len(), 3);
    // The folder has a history of its own already, which is neither the first nor the last.
    History::adopt_all(&state, &roots[1]).unwrap();
    let adopted = History::open_to_serve(&state, &roots[1], &named(LIMITS)).unwrap();
    assert_eq!(adopted.changes(&ChangeQuery::default()).unwrap().len(), 3);
    assert_eq!(History::folders(state.path()).unwrap().len(), 1);
    drop(adopted);
    History::adopt_all(&state, &roots[1]).unwrap();
    let adopted = History::open_to_serve(&state, &roots[1], &named(LIMITS)).unwrap();
    assert_eq!(adopted.changes(&ChangeQuery::default()).unwrap().len(), 3, "nothing is to be done");
}

#[test]
fn what_the_history_said_it_keeps_is_there_under_every_limit() {
    for (limit, seed) in [(60_000, 1), (400_000, 2), (400_000, 3), (1_500_000, 4), (1 << 30, 5)] {
        let rig = Rig::with(HistoryLimits { days: 30, bytes: limit });
        let mut chance = stile_testkit::chance::Chance::of(seed);
        let client = |name: &str| Author { client: Some(name.to_owned()), ..author("ann") };
        let authors = [client("one"), client("two"), client("three")];
        let mut files: Vec<Option<Vec<u8>>> = vec![None; 6];
        // What each client last made of each file.
        let mut made: HashMap<(usize, usize), Option<Vec<u8>>> = HashMap::new();
        let mut promised: Vec<(String, ChangeNumber, Vec<u8>)> = Vec::new();
        for step in 0..120_u64 {
            let at = chance.below(files.len());
            let who = chance.below(5);
            let length = [0, 90, 4_000, 140_000, 200_000][chance.below(5)];
            let mut content = (chance.below(6) > 0).then(|| noise(length, seed * 1_000 + step));
            let earlier = promised.get(chance.below(promised.len().max(1)) % promised.len().max(1));
            match (chance.below(3), &files[at], earlier) {
                // Something is added to the file, or an earlier version comes back.
                (0, Some(now), _) => {
                    content = Some([&now[..], &noise(90, seed * 1_000 + step)].concat());
                }
                (1, _, Some((name, _, bytes))) if *name == format!("/{at}") => {
                    content = Some(bytes.clone());
                }
                _ => {}
            }
            let before = std::mem::replace(&mut files[at], content.clone());
            // A person saves without the history, and an owner's command is never refused.
            let call = match who {
                4 => None,
                3 => Some(Call::of_owner(author("ann"))),
                who => Some(Call::new(authors[who].clone())),
            };
            let name = format!("/{at}");
            let mut is_all_kept = before == content;
            if let Some(call) = call.filter(|_| before != content) {
                let versions = [before.as_deref(), content.as_deref()];
                if let Ok(kept) = keep_as(&rig.history, &call, &name, versions) {
                    is_all_kept = kept.lacks.is_none();
                    let last = made.insert((who, at), content);
                    let is_first = who != 3 && last != Some(before.clone());
                    let number = kept.made.number();
                    let promise = (number, kept.lacks, before.clone(), is_first);
                    if let (Some(number), None, Some(bytes), true) = promise {
                        promised.push((name.clone(), number, bytes));
                    }
                }
            }
            if !is_all_kept {
                // What only the file held may be lost to a person's save, and to a change of which
                // the history said that it is not kept.
                promised.retain(|(file, _, bytes)| {
                    let is_in_file = before.as_ref().is_some_and(|file| file.starts_with(bytes));
                    *file != name || !is_in_file || rig.has_first(bytes)
                });
            }
            assert!(rig.used() <= limit, "step {step} of {limit}: {}", rig.used());
            assert!(rig.in_files() <= limit, "step {step} of {limit}");
            for (name, number, bytes) in &promised {
                let now = files[name[1..].parse::<usize>().unwrap()].as_deref();
                let found = rig.version_beside(name, &number.to_string(), now);
                assert!(found.is_ok_and(|it| it == *bytes), "step {step} of {limit}: {name}");
            }
        }
        assert!(promised.len() > 5, "{} of {limit}", promised.len());
        let modest = Call::new(client("modest"));
        let kept = keep_as(&rig.history, &modest, "/modest", [Some(b"note"), None]).unwrap();
        assert!(kept.lacks.is_none(), "{limit}: {:?}", kept.lacks);
    }
}

#[test]
fn what_an_undo_cannot_keep_is_foreseen_and_takes_nothing_from_others() {
    let limit = 60_000;
    let rig = Rig::with(HistoryLimits { days: 30, bytes: limit });
    let client = |name: &str| Author { client: Some(name.to_owned()), ..author("ann") };
    let modest = Call::new(client("modest"));
    let note = keep_as(&rig.history, &modest, "/note", [Some(b"only copy"), None]).unwrap();
    // One client replaces files until not even a row has room.
    let files: Vec<(String, Vec<u8>)> =
        (0..400).map(|at| (format!("/f{at}"), noise(60, at))).collect();
    let made = |(name, content): &&(String, Vec<u8>)| {
        let call = Call::new(client("bulk"));
        keep_as(&rig.history, &call, name, [Some(name.as_bytes()), Some(content)]).is_ok()
    };
    let files: Vec<_> = files.iter().filter(made).collect();
    let undo = Call::of_owner(author("ann"));
    let foreseen = files.iter().map(|(name, content)| foreseen(&rig, &undo, (name, content), None));
    let (foreseen, used): (Vec<_>, _) = (foreseen.collect(), rig.used());
    let (room, lacking) = rig.history.undo_room(&foreseen).unwrap();
    assert!(lacking.len() > 20 && lacking.len() <= files.len(), "{}", lacking.len());
    assert_eq!(rig.used(), used, "foresight records nothing");
    undo.set_room(room);
    for (name, content) in &files {
        keep_as(&rig.history, &undo, name, [Some(content), None]).unwrap();
    }
    assert_eq!(rig.history.lacking(undo.number().unwrap()).unwrap(), lacking);
    rig.history.prune().unwrap();
    assert!(rig.used() <= limit, "{}", rig.used());
    assert_eq!(rig.version("/note", &note.number().to_string()).unwrap(), b"only copy");
}

/// Foresees the removal of a file by an undo, or that another version replaces it.
fn foreseen(
    rig: &Rig,
    undo: &Call,
    (name, content): (&str, &[u8]),
    given: Option<&[u8]>,
) -> ForeseenStep {
    let file = path(name);
    let version = (ContentHash::digest(content), content);
    ForeseenStep {
        rows: History::bytes_of_row(&file, None, &FolderRest::new()),
        needs: given.map(ContentHash::digest),
        copy: rig.history.foresee_copy(undo, (&file, None), version).unwrap(),
    }
}

#[test]
fn an_undo_that_the_history_has_room_for_lacks_nothing() {
    let rig = Rig::new();
    let undo = Call::of_owner(author("ann"));
    let content = noise(300_000, 1);
    let foreseen = foreseen(&rig, &undo, ("/a", &content), None);
    assert_eq!(rig.history.undo_room(&[foreseen]).unwrap().1, []);
    assert!(rig.history.free_bytes().unwrap() > 300_000);
}

#[test]
fn what_an_undo_keeps_pushes_out_nothing_that_it_gives_back() {
    let limit = 40_000;
    let rig = Rig::with(HistoryLimits { days: 30, bytes: limit });
    let client = Call::new(Author { client: Some("one".to_owned()), ..author("ann") });
    // The client's own version of `/b` may go, and is what an undo of its last call gives back.
    let (a, b, own) = (noise(20_000, 1), noise(15_000, 2), noise(15_000, 3));
    keep_as(&rig.history, &client, "/b", [None, Some(&own)]).unwrap();
    keep_as(&rig.history, &client, "/b", [Some(&own), Some(&b)]).unwrap();
    let undo = Call::of_owner(author("ann"));
    let steps =
        [foreseen(&rig, &undo, ("/a", &a), None), foreseen(&rig, &undo, ("/b", &b), Some(&own))];
    let (room, lacking) = rig.history.undo_room(&steps).unwrap();
    assert_eq!(lacking, [path("/b")]);
    undo.set_room(room);
    keep_as(&rig.history, &undo, "/a", [Some(&a), None]).unwrap();
    assert_eq!(rig.history.version_bytes(ContentHash::digest(&own), 1 << 20).unwrap(), own);
    keep_as(&rig.history, &undo, "/b", [Some(&b), Some(&own)]).unwrap();
    assert_eq!(rig.history.lacking(undo.number().unwrap()).unwrap(), lacking);
    assert!(rig.used() <= limit, "{}", rig.used());
    // Once the undo is made, its versions count as any others do.
    let next = Call::new(Author { client: Some("next".to_owned()), ..author("ann") });
    keep_as(&rig.history, &next, "/c", [Some(&noise(12_000, 4)), None]).unwrap();
    assert!(rig.history.version_bytes(ContentHash::digest(&own), 1 << 20).is_err());
}

#[test]
fn a_journal_that_begins_after_calls_of_the_history_is_an_alarm() {
    let rig = Rig::new();
    rig.replace("/a.md", b"one\n", b"two\n");
    rig.replace("/a.md", b"two\n", b"three\n");
    let state = StateDir::open(&rig.folder.path().join("state")).unwrap();
    let journal = Journal::open(&state).unwrap();
    journal.append(JournalLine { tool: "text.edit".to_owned(), ..JournalLine::default() }).unwrap();
    drop(journal);
    let faults = || -> Vec<FaultKind> {
        let found = JournalPlace::new(state.clone(), None).verify(&mut |_| {}).unwrap();
        found.faults.iter().map(|fault| fault.kind).collect()
    };
    assert_eq!(faults(), []);
    let run = |statement: &str| rig.history.connection().execute(statement, []).unwrap();
    run("UPDATE changes SET at = at - 3600000000");
    assert_eq!(faults(), [FaultKind::BegunLate]);
    // A kill may have come between the first change of all and its line.
    run("DELETE FROM changes WHERE number > 1");
    assert_eq!(faults(), []);
}

#[test]
fn what_is_young_enough_outlives_each_start_and_what_is_too_old_goes() {
    for (days, seed) in [(1_u64, 1), (7, 2), (30, 3), (30, 4)] {
        let limits = HistoryLimits { days, bytes: 1 << 30 };
        let mut rig = Rig::with(limits);
        let mut chance = stile_testkit::chance::Chance::of(seed);
        let hours = days * 24;
        // What each file holds, and each change with the version before it and its age in hours.
        let mut files: Vec<Vec<u8>> = vec![Vec::new(); 4];
        let mut kept: Vec<(String, ChangeNumber, Vec<u8>, u64)> = Vec::new();
        for step in 0..80_u64 {
            let at = chance.below(files.len());
            // Few contents, so that old and young changes need the same version.
            let length = [90, 3_000, 150_000][chance.below(3)];
            let content = noise(length, chance.below(5) as u64);
            let before = std::mem::replace(&mut files[at], content.clone());
            if before != content {
                let (name, client) = (format!("/{at}"), format!("client {}", chance.below(3)));
                let number = keep(&rig.history, &author(&client), &name, &before, &content);
                kept.push((name, number.unwrap(), before, 0));
            }
            if !chance.happens(40) {
                continue;
            }
            // The time goes on. No age is ever a whole number of days.
            let later = 11 * (1 + chance.below(hours as usize / 11) as u64);
            let micros = later * 3_600 * 1_000_000;
            let ages = format!("UPDATE changes SET at = at - {micros}");
            rig.history.connection().execute_batch(&ages).unwrap();
            kept.iter_mut().for_each(|(.., age)| *age += later);
            drop(std::mem::replace(&mut rig.history, Arc::new(open(&rig.folder, limits).unwrap())));
            for (name, number, bytes, age) in &kept {
                let found = rig.version(name, &number.to_string());
                match *age > hours {
                    true => assert!(found.is_err(), "seed {seed}, step {step}: {age} hours"),
                    false => assert_eq!(found.unwrap(), *bytes, "seed {seed}, step {step}"),
                }
            }
            kept.retain(|(.., age)| *age <= hours);
            assert_eq!(rig.numbers(&ChangeQuery::default()).len(), kept.len());
            check_count(&rig.history);
        }
    }
}
