//! Tests of the space on a real file system.

#![expect(clippy::disallowed_methods, reason = "a test is its own verified caller")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::io::Read as _;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_domain::limits::FileLimits;
use stile_domain::line_search::LineQuery;
use stile_domain::lines::LineRange;
use stile_domain::listing::EntryKind;
use stile_domain::path::{RESERVED_PREFIX, SpacePath};
use stile_domain::permit::{List, Principal};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_testkit::chance::scaled_long;
use stile_testkit::swapper::Swapper;
use tokio::task::JoinHandle;

use super::lock::{Folders, LockError, Stop, Wait};
use super::names::{ChangeKind, Owner, TemporaryName};
use super::write::{Change, Plan, UNFINISHED};
use super::{
    Cancellation, CreatedFile, EditedFile, FileWindow, Inner, Space, SpaceOptions, WindowStart,
    fault, os,
};

pub(super) struct Rig {
    pub(super) folder: tempfile::TempDir,
    pub(super) space: Space,
    events: Arc<Mutex<Vec<JournalLine>>>,
}

/// Changes a space on the thread of the test, where faults are armed. Waits as the space does.
pub(super) struct OnThisThread<'a>(&'a Space);

impl Deref for OnThisThread<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0.inner
    }
}

impl OnThisThread<'_> {
    fn change<T>(
        &self,
        mut work: impl FnMut(&Change<'_>) -> Result<T, Stop>,
    ) -> Result<T, Refusal> {
        let deadline = Instant::now() + self.options.lock_wait;
        let mut turn = None;
        loop {
            let (inner, cancellation) = (&*self.0.inner, &self.0.cancellation);
            let gives_up = Instant::now() >= deadline;
            let change = Change { inner, cancellation, turn: Cell::new(turn), gives_up };
            turn = match work(&change) {
                Ok(done) => return Ok(done),
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(Stop::MustWait(Wait::Turn(turn))) => turn.blocking_recv().ok(),
                Err(Stop::MustWait(Wait::Others(turn))) => Some(turn),
                Err(Stop::MustWait(Wait::Room)) => None,
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn create(&self, path: &SpacePath, bytes: &[u8]) -> Result<CreatedFile, Refusal> {
        let mut made = Vec::new();
        self.change(|change| change.create(path, bytes, &mut made))
    }

    pub(super) fn remove(&self, path: &SpacePath, base: ContentHash) -> Result<(), Refusal> {
        self.change(|change| change.remove(path, base))
    }

    pub(super) fn edit(
        &self,
        path: &SpacePath,
        base: ContentHash,
        arguments: [&'static str; 2],
        plan: Plan,
    ) -> Result<EditedFile, Refusal> {
        self.change(|change| change.edit(path, base, arguments, &plan))
    }
}

pub(super) fn path(text: &str) -> SpacePath {
    SpacePath::parse(text).unwrap()
}

pub(super) fn hash(text: &str) -> ContentHash {
    ContentHash::digest(text.as_bytes())
}

impl Rig {
    fn new() -> Self {
        Self::with(FileLimits::default())
    }

    fn with(limits: FileLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::on(folder, limits)
    }

    pub(super) fn on(folder: tempfile::TempDir, limits: FileLimits) -> Self {
        Self::with_mounts(folder, limits, Vec::new())
    }

    pub(super) fn with_mounts(
        folder: tempfile::TempDir,
        limits: FileLimits,
        mounts: Vec<SpacePath>,
    ) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let options = SpaceOptions {
            limits,
            mounts,
            lock_wait: Duration::from_secs(20),
            events: Arc::new(move |line| sink.lock().unwrap().push(line)),
        };
        let (space, notices) = Space::open_ambient(folder.path(), options).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        Self { folder, space, events }
    }

    pub(super) fn inner(&self) -> OnThisThread<'_> {
        OnThisThread(&self.space)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn put(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    pub(super) fn read(&self, name: &str, start: i64, end: i64) -> Result<FileWindow, Refusal> {
        self.inner().read(&path(name), &WindowStart::Range(LineRange(start, end)))
    }

    pub(super) fn replace(
        &self,
        name: &str,
        base: &str,
        old: &str,
        new: &str,
    ) -> Result<ContentHash, Refusal> {
        let (old, new) = (old.to_owned(), new.to_owned());
        let plan = Box::new(move |text: &str| edit::replace(text, LineRange::ALL, &old, &new));
        self.inner().edit(&path(name), hash(base), ["lines", "old"], plan).map(|edited| edited.hash)
    }

    /// Returns the names of our own files in the root.
    pub(super) fn hidden(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with(RESERVED_PREFIX))
            .collect()
    }

    fn visible(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| !name.starts_with(RESERVED_PREFIX))
            .collect();
        names.sort();
        names
    }

    pub(super) fn list(
        &self,
        folder: &str,
        claim: &str,
    ) -> Result<Vec<(String, EntryKind)>, Refusal> {
        let permit = principal(claim).gate().permit::<List>(&path(folder))?;
        let page = self.inner().list(&permit, None)?;
        Ok(page.entries.into_iter().map(|entry| (entry.name, entry.kind)).collect())
    }

    fn copies(&self) -> Vec<String> {
        self.visible().into_iter().filter(|name| name.contains("(conflict ")).collect()
    }
}

fn principal(claim: &str) -> Principal {
    let scopes = Scopes::from_claim(claim);
    Principal::assert_verified("ann", None, None, scopes, RecordsClaim::None)
}

fn code<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> &'static str {
    outcome.unwrap_err().code().0
}

#[test]
fn a_file_is_created_with_its_folders_and_read_back() {
    let rig = Rig::new();
    let created = rig.inner().create(&path("a/b/c.md"), b"one\ntwo\n").unwrap();
    assert_eq!(
        (created.hash, created.size_bytes, created.total_lines),
        (hash("one\ntwo\n"), 8, Some(2))
    );
    let window = rig.read("a/b/c.md", 2, 0).unwrap();
    assert_eq!(
        (window.content.as_str(), window.hash, window.total_lines),
        ("two\n", created.hash, 2)
    );
    assert_eq!(code(rig.inner().create(&path("a/b/c.md"), b"x")), "already_exists");
    assert_eq!(code(rig.inner().create(&path("a/b"), b"x")), "already_exists");
    assert_eq!(code(rig.inner().create(&path("/"), b"x")), "already_exists");
    assert_eq!(rig.hidden(), Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_created_leaves_no_folder() {
    let rig = Rig::new();
    rig.put("file", "");
    assert_eq!(code(rig.inner().create(&path("file/below/x"), b"x")), "not_a_directory");
    fault::arm(3, 28);
    assert_eq!(code(rig.inner().create(&path("new/deep/x"), b"x")), "no_space");
    assert_eq!(rig.visible(), ["file"]);
}

#[test]
fn an_edit_needs_the_hash_of_what_it_replaces() {
    let rig = Rig::new();
    rig.put("a.md", "one\ntwo\n");
    assert_eq!(rig.replace("a.md", "one\ntwo\n", "two", "TWO"), Ok(hash("one\nTWO\n")));
    assert_eq!(rig.text("a.md"), "one\nTWO\n");
    assert_eq!(code(rig.replace("a.md", "one\ntwo\n", "one", "x")), "stale");
    assert_eq!(rig.text("a.md"), "one\nTWO\n");
    assert_eq!(code(rig.replace("b.md", "", "one", "x")), "not_found");
}

#[test]
fn a_displaced_file_is_deleted_in_the_end() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    assert_eq!(rig.hidden().len(), 2, "the displaced file and its marker");
    rig.inner().keeper.close();
    assert_eq!(rig.hidden(), Vec::<String>::new());
    assert_eq!(rig.visible(), ["a.md"]);
}

#[test]
fn a_write_through_an_old_descriptor_becomes_a_conflict_copy() {
    use std::io::Write as _;
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let mut editor = fs::OpenOptions::new().append(true).open(rig.file("a.md")).unwrap();
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    editor.write_all(b"typed late\n").unwrap();
    drop(editor);
    rig.inner().keeper.close();
    assert_eq!(rig.text("a.md"), "two\n");
    let [copy] = rig.copies().try_into().unwrap();
    assert_eq!(rig.text(&copy), "one\ntyped late\n");
    let events = rig.events.lock().unwrap();
    assert_eq!(events[0].tool, "conflict_copy");
    assert_eq!(events[0].path.as_ref().map(SpacePath::as_str), Some(format!("/{copy}").as_str()));
}

#[test]
fn a_save_between_the_check_and_the_swap_wins() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    // An editor that renames a new file over the old one.
    let (new, target) = (rig.file("editor.tmp"), rig.file("a.md"));
    fault::on_swap(move || {
        fs::write(&new, "edited\n").unwrap();
        fs::rename(&new, &target).unwrap();
    });
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "two")), "stale");
    assert_eq!(rig.text("a.md"), "edited\n");
    // An editor that overwrites in place.
    let target = rig.file("a.md");
    fault::on_swap(move || fs::write(&target, "again\n").unwrap());
    assert_eq!(code(rig.replace("a.md", "edited\n", "edited", "two")), "stale");
    assert_eq!(rig.text("a.md"), "again\n");
    // An editor that saves just before a removal.
    let target = rig.file("a.md");
    fault::on_swap(move || fs::write(&target, "kept\n").unwrap());
    assert_eq!(code(rig.inner().remove(&path("a.md"), hash("again\n"))), "stale");
    assert_eq!(rig.text("a.md"), "kept\n");
    // An editor that deletes the file: the edit does not bring it back.
    let target = rig.file("a.md");
    fault::on_swap(move || fs::remove_file(&target).unwrap());
    assert_eq!(code(rig.replace("a.md", "kept\n", "kept", "two")), "not_found");
    rig.inner().keeper.close();
    assert_eq!((rig.visible(), rig.hidden()), (vec![], vec![]));
}

#[test]
fn a_version_of_an_undone_edit_is_kept_for_a_program_that_opened_it() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let target = rig.file("a.md");
    fault::on_swap(move || fs::write(&target, "edited\n").unwrap());
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "two")), "stale");
    // A program opened the file while our version was in place, and writes after the undo.
    let is_ours =
        |name: &String| fs::read_to_string(rig.file(name)).is_ok_and(|text| text == "two\n");
    let [withdrawn] =
        rig.hidden().into_iter().filter(is_ours).collect::<Vec<_>>().try_into().unwrap();
    fs::write(rig.file(&withdrawn), "typed\n").unwrap();
    rig.inner().keeper.close();
    assert_eq!((rig.text("a.md").as_str(), rig.hidden().len()), ("edited\n", 0));
    let [copy] = rig.copies().try_into().unwrap();
    assert_eq!(rig.text(&copy), "typed\n");
}

#[test]
fn exactly_one_of_many_writers_with_the_same_hash_wins() {
    let rig = Rig::new();
    rig.put("a.md", "0\n");
    for round in 0..20 {
        let (base, wins) = (format!("{round}\n"), Mutex::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    match rig.replace("a.md", &base, base.trim(), &(round + 1).to_string()) {
                        Ok(_) => *wins.lock().unwrap() += 1,
                        Err(refusal) => assert_eq!(refusal.code().0, "stale"),
                    }
                });
            }
        });
        assert_eq!(wins.into_inner().unwrap(), 1);
    }
    assert_eq!(rig.text("a.md"), "20\n");
}

#[test]
fn exactly_one_of_many_creators_wins() {
    let rig = Rig::new();
    for round in 0..20 {
        let (target, wins) = (path(&format!("new/{round}.md")), Mutex::new(0));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (target, wins, rig) = (&target, &wins, &rig);
                scope.spawn(move || {
                    match rig.inner().create(target, format!("{writer}").as_bytes()) {
                        Ok(_) => *wins.lock().unwrap() += 1,
                        Err(refusal) => assert_eq!(refusal.code().0, "already_exists"),
                    }
                });
            }
        });
        assert_eq!(wins.into_inner().unwrap(), 1);
    }
}

#[test]
fn an_edit_keeps_mode_owner_and_attributes() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    fs::set_permissions(rig.file("a.md"), fs::Permissions::from_mode(0o640)).unwrap();
    let has_attributes = rustix::fs::setxattr(
        rig.file("a.md"),
        "user.colour",
        b"green",
        rustix::fs::XattrFlags::empty(),
    )
    .is_ok();
    let before = fs::metadata(rig.file("a.md")).unwrap();
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    let after = fs::metadata(rig.file("a.md")).unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
    if has_attributes {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(rig.file("a.md"), "user.colour", &mut value).unwrap();
        assert_eq!(&value[..length], b"green");
    }
}

#[test]
fn an_edit_without_effect_succeeds_and_changes_no_file() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let before = fs::metadata(rig.file("a.md")).unwrap();
    assert_eq!(rig.replace("a.md", "one\n", "one", "one"), Ok(hash("one\n")));
    let after = fs::metadata(rig.file("a.md")).unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
}

#[test]
fn links_are_not_followed_and_hard_links_not_separated() {
    let rig = Rig::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "canary").unwrap();
    symlink(outside.path(), rig.file("door")).unwrap();
    symlink("real.md", rig.file("alias.md")).unwrap();
    symlink("loop", rig.file("loop")).unwrap();
    rig.put("real.md", "text\n");
    fs::hard_link(rig.file("real.md"), rig.file("twin.md")).unwrap();
    for name in ["door/secret", "alias.md", "loop", "loop/x"] {
        assert_eq!(code(rig.read(name, 0, 0)), "symlink_refused", "{name}");
        assert_eq!(code(rig.replace(name, "canary", "canary", "x")), "symlink_refused", "{name}");
        assert_eq!(
            code(rig.inner().remove(&path(name), hash("canary"))),
            "symlink_refused",
            "{name}"
        );
    }
    assert_eq!(code(rig.inner().create(&path("door/new"), b"x")), "symlink_refused");
    assert_eq!(code(rig.inner().create(&path("alias.md"), b"x")), "already_exists");
    assert_eq!(code(rig.list("door", "read:/")), "symlink_refused");
    assert_eq!(rig.read("real.md", 0, 0).unwrap().content, "text\n");
    assert_eq!(code(rig.replace("real.md", "text\n", "text", "x")), "hard_linked");
    assert_eq!(code(rig.inner().remove(&path("real.md"), hash("text\n"))), "hard_linked");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn the_walk_for_other_systems_follows_no_link() {
    let rig = Rig::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(rig.file("a/b")).unwrap();
    rig.put("a/b/c", "text");
    symlink(outside.path(), rig.file("a/door")).unwrap();
    let root = &rig.inner().root;
    let flags = rustix::fs::OFlags::RDONLY;
    assert!(os::walk_beneath(root, "a/b/c", flags).is_ok());
    for (name, errno) in [
        ("a/door/x", rustix::io::Errno::LOOP),
        ("a/door", rustix::io::Errno::LOOP),
        ("a/x/c", rustix::io::Errno::NOENT),
    ] {
        let error = os::walk_beneath(root, name, flags).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{name}");
    }
}

/// Runs the race of `tests/containment.rs`, which cannot turn off `openat2`.
#[test]
fn the_walk_reads_nothing_outside_while_folders_and_files_become_links() {
    use std::io::Read as _;
    let folder = tempfile::tempdir().unwrap();
    let at = |part: &str| folder.path().join(part);
    for part in ["space/swapped", "space/plain", "outside"] {
        fs::create_dir_all(at(part)).unwrap();
    }
    for (file, text) in [
        ("space/swapped/file.md", "inside"),
        ("space/plain/file.md", "inside"),
        ("outside/file.md", "out"),
    ] {
        fs::write(at(file), text).unwrap();
    }
    symlink("../outside", at("space/other")).unwrap();
    symlink(at("outside/file.md"), at("space/plain/other.md")).unwrap();
    let root = os::open_root(&at("space")).unwrap();
    let folders = Swapper::start(&at("space"), "swapped", "other");
    let files = Swapper::start(&at("space/plain"), "file.md", "other.md");
    let (mut opened, mut tried, goal) = (0, 0, scaled_long(5_000, 200_000, 1_000_000));
    let deadline = Instant::now() + Duration::from_secs(scaled_long(600, 600, 4 * 3600) as u64);
    // This many opens take milliseconds, in which the other threads may not have run.
    let enough = |opened: usize, tried: usize| {
        let swaps = folders.swaps() + files.swaps();
        tried >= goal && opened.min(tried - opened) > goal / 50 && swaps > goal as u64 / 10
    };
    for path in ["swapped/file.md", "plain/file.md"].iter().cycle() {
        if enough(opened, tried) || Instant::now() > deadline {
            break;
        }
        tried += 1;
        if let Ok(file) = os::walk_beneath(&root, path, rustix::fs::OFlags::RDONLY) {
            let mut text = String::new();
            fs::File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{path} was read outside");
            opened += 1;
        }
    }
    assert!(enough(opened, tried), "{opened} of {tried} were opened");
}

#[test]
fn other_kinds_of_files_are_refused_at_once() {
    let rig = Rig::new();
    fs::create_dir(rig.file("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.file("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.file("socket")).unwrap();
    for name in ["folder", "pipe", "socket", "/"] {
        assert_eq!(code(rig.read(name, 0, 0)), "not_a_file", "{name}");
        assert_eq!(code(rig.replace(name, "", "x", "y")), "not_a_file", "{name}");
        assert_eq!(code(rig.inner().remove(&path(name), hash(""))), "not_a_file", "{name}");
    }
    assert_eq!(code(rig.list("pipe", "read:/")), "not_a_directory");
    rig.put("plain", "");
    assert_eq!(code(rig.read("plain/below", 0, 0)), "not_a_directory");
}

#[test]
fn a_binary_file_is_refused_with_its_size_and_hash() {
    let rig = Rig::new();
    fs::write(rig.file("image"), [0xff, 0xd8, 0]).unwrap();
    let Err(Refusal::NotText { size_bytes, hash, .. }) = rig.read("image", 0, 0) else {
        panic!("expected not_text")
    };
    assert_eq!((size_bytes, hash), (3, ContentHash::digest(&[0xff, 0xd8, 0])));
    rig.inner().remove(&path("image"), hash).unwrap();
    assert!(rig.visible().is_empty());
}

#[test]
fn cursors_lead_to_the_end_of_a_file_and_become_stale_with_it() {
    let rig = Rig::with(FileLimits { read_budget: 100, ..FileLimits::default() });
    let text: String =
        (0..300).map(|line| format!("line {line} é\r\n")).chain(["x".repeat(1000)]).collect();
    rig.put("long.md", &text);
    let (mut from, mut whole) = (WindowStart::Range(LineRange::ALL), String::new());
    let last = loop {
        let window = rig.inner().read(&path("long.md"), &from).unwrap();
        assert!(window.content.len() <= 100);
        whole.push_str(&window.content);
        match window.next {
            Some(next) => from = WindowStart::Cursor(next.cursor),
            None => break from,
        }
    };
    assert_eq!(whole, text);
    rig.put("long.md", "short");
    assert_eq!(code(rig.inner().read(&path("long.md"), &last)), "stale");
}

#[test]
fn a_match_is_found_in_a_large_file() {
    let rig = Rig::new();
    let large: String = (0..200_000).map(|line| format!("filler {line}\n")).collect();
    let at = large.find("filler 150000").unwrap();
    let large = format!("{}# Überschrift\n{}", &large[..at], &large[at..]);
    rig.put("large.md", &large);
    let find = |q: &str, range| {
        rig.inner().read(
            &path("large.md"),
            &WindowStart::Match { range, query: LineQuery::new(q, 100).unwrap() },
        )
    };
    std::thread::sleep(Duration::from_millis(30));
    for _ in 0..2 {
        let window = find("überSCHRIFT", LineRange::ALL).unwrap();
        assert_eq!(window.match_line, Some(150_001));
        assert!(window.content.starts_with("# Überschrift\nfiller 150000\n"));
    }
    assert_eq!(code(find("überschrift", LineRange(1, 150_001))), "no_match");
    assert_eq!(find("filler", LineRange(-3, 0)).unwrap().match_line, Some(199_999));
}

#[test]
fn the_facts_of_a_large_file_are_remembered() {
    let rig = Rig::new();
    let text: String = (0..400_000).map(|line| format!("{line}\n")).collect();
    rig.put("large", &text);
    let first = rig.read("large", 200_000, 200_003).unwrap();
    assert_eq!(first.content, "199999\n200000\n200001\n");
    let stamp = os::status(rig.inner().root.open_file(&path("large")).unwrap()).unwrap().stamp;
    assert!(rig.inner().memory().get(&stamp).is_some());
    assert_eq!(rig.read("large", -1, 0).unwrap().content, "399999\n");
    assert_eq!(rig.read("large", 1, 2).unwrap().hash, ContentHash::digest(text.as_bytes()));
}

#[test]
fn a_rewrite_of_the_same_size_is_read_again() {
    let rig = Rig::new();
    for round in 0..300u32 {
        // The write follows a read at once, so both writes have the same time if the clock is
        // coarse.
        let text = format!("{round:04}\n");
        rig.put("hot.md", &text);
        assert_eq!(rig.read("hot.md", 0, 0).unwrap().content, text);
        let text = format!("{:04}\n", round + 5000);
        rig.put("hot.md", &text);
        assert_eq!(rig.read("hot.md", 0, 0).unwrap().hash, hash(&text));
    }
}

#[test]
fn a_listing_is_ordered_and_hides_our_own_files() {
    let rig = Rig::new();
    for name in ["b", "a", "Z"] {
        fs::create_dir(rig.file(name)).unwrap();
    }
    for name in ["ä.md", ".dot", "a.md", "back\\slash"] {
        rig.put(name, "x");
    }
    rig.put(".stile-0000000000000000-0.alive", "");
    symlink("a.md", rig.file("link")).unwrap();
    let names = |claim: &str| {
        rig.list("/", claim).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("read:/"), ["Z", "a", "b", ".dot", "a.md", "link", "ä.md"]);
    assert_eq!(names("read:/*"), names("read:/"));
    assert_eq!(code(rig.list("/", "read:/a/")), "insufficient_scope");
    assert_eq!(code(rig.list("/missing", "read:/")), "not_found");
    assert_eq!(code(rig.list("/a.md", "read:/")), "not_a_directory");
}

#[test]
fn a_listing_counts_the_entries_that_no_path_can_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let rig = Rig::new();
    fs::create_dir_all(rig.file("work/sub")).unwrap();
    for name in ["line\nbreak", "back\\slash", "c1\u{85}control", ".stile-\u{1}", ".stile-x"] {
        rig.put(&format!("work/{name}"), "x");
    }
    rig.put("work/a.md", "x");
    rig.put("C:", "x");
    // A file system of UTF-8 names alone has no such name.
    let raw = std::ffi::OsStr::from_bytes(b"latin-\xe9");
    let has_raw = fs::write(rig.file("work").join(raw), "x").is_ok();
    let unnameable = |folder: &str, claim: &str| {
        let permit = principal(claim).gate().permit::<List>(&path(folder)).unwrap();
        rig.inner().list(&permit, None).unwrap().unnameable_entries
    };
    assert_eq!(unnameable("/work", "read:/"), 3 + u64::from(has_raw));
    assert_eq!(unnameable("/work", "read:/work/*"), 3 + u64::from(has_raw));
    assert_eq!(unnameable("/", "read:/"), 1);
    assert_eq!(unnameable("/work/sub", "read:/"), 0);
    assert_eq!(unnameable("/work/sub", "read:/work/* read:/work/sub/b"), 0);
    for number in 0..250 {
        rig.put(&format!("work/f{number:03}"), "x");
    }
    let permit = principal("read:/").gate().permit::<List>(&path("/work")).unwrap();
    let first = rig.inner().list(&permit, None).unwrap();
    let after = stile_domain::listing::parse_uri(&first.next_uri.unwrap()).unwrap().after;
    let last = rig.inner().list(&permit, after.as_ref()).unwrap();
    assert_eq!(
        (first.unnameable_entries, last.unnameable_entries),
        (3 + u64::from(has_raw), 3 + u64::from(has_raw))
    );
}

#[test]
fn a_listing_never_counts_unnameable_entries_that_scopes_hide() {
    let rig = Rig::new();
    fs::create_dir_all(rig.file("work/sub")).unwrap();
    rig.put("work/sub/b", "x");
    rig.put("work/sub/back\\slash", "x");
    let permit = principal("read:/work/* read:/work/sub/b")
        .gate()
        .permit::<List>(&path("/work/sub"))
        .unwrap();
    let page = rig.inner().list(&permit, None).unwrap();
    assert_eq!((page.entries.len(), page.unnameable_entries), (1, 0));
}

#[test]
fn pages_together_list_the_whole_folder() {
    let rig = Rig::new();
    for number in 0..450 {
        rig.put(&format!("f{number:03}"), "x");
    }
    for number in 0..30 {
        fs::create_dir(rig.file(&format!("d{number:02}"))).unwrap();
    }
    let principal = principal("read:/");
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let permit = principal.gate().permit::<List>(&path("/")).unwrap();
        let page = rig.inner().list(&permit, after.as_ref()).unwrap();
        assert_eq!(page.truncated, page.next_uri.is_some());
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        let Some(uri) = page.next_uri else { break };
        assert_eq!(names.len() % 200, 0);
        after = stile_domain::listing::parse_uri(&uri).unwrap().after;
    }
    assert_eq!(names.len(), 480);
    assert!(names[..30].is_sorted() && names[30..].is_sorted() && names[29].starts_with('d'));
}

/// Lists a folder page by page, and returns the names.
fn names_in_pages(rig: &Rig, folder: &str, principal: &Principal) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let permit = principal.gate().permit::<List>(&path(folder)).unwrap();
        let page = rig.inner().list(&permit, after.as_ref()).unwrap();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        let Some(uri) = page.next_uri else { return names };
        after = stile_domain::listing::parse_uri(&uri).unwrap().after;
    }
}

#[test]
fn remembered_names_are_those_that_the_folder_has() {
    let rig = Rig::new();
    let folder = rig.file("many");
    fs::create_dir(&folder).unwrap();
    let all = principal("read:/");
    let mut expected: Vec<String> = (0..900).map(|number| format!("f{number:04}")).collect();
    for name in &expected {
        fs::write(folder.join(name), "x").unwrap();
    }
    for round in 0..20 {
        assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
        // At the latest when the stamp has settled, the names come from memory.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
            let stamp =
                os::status(rig.inner().root.open_folder(&path("/many")).unwrap()).unwrap().stamp;
            if rig.inner().folder_names().get(&stamp).is_some() {
                break;
            }
            assert!(Instant::now() < deadline, "the names are not remembered");
        }
        assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
        let new = format!("g{round}");
        fs::rename(folder.join(&expected[round * 7 + 20]), folder.join(&new)).unwrap();
        expected.remove(round * 7 + 20);
        expected.push(new);
        expected.sort();
    }
}

/// Listings of a folder in memory, where the order of entries depends on what happened to them.
#[cfg(target_os = "linux")]
#[test]
fn a_listing_misses_no_file_that_others_replace_meanwhile() {
    const FILES: usize = 40;
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let rig = Rig::on(folder, FileLimits::default());
    let expected: Vec<String> = (0..FILES).map(|number| format!("f{number:02}")).collect();
    expected.iter().for_each(|name| rig.put(name, "x"));
    let root = rig.folder.path().to_owned();
    let stop = AtomicBool::new(false);
    let listings = scaled_long(3_000, 30_000, 300_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut displaced = VecDeque::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let temporary = root.join(format!(".stile-{number:0>150}"));
                fs::write(&temporary, "y").unwrap();
                let file = root.join(&expected[number * 7 % FILES]);
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &temporary,
                    rustix::fs::CWD,
                    &file,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                displaced.push_back(temporary);
                if displaced.len() > 30 {
                    fs::remove_file(displaced.pop_front().unwrap()).unwrap();
                }
            }
        });
        let all = principal("read:/");
        let missed = (0..listings).filter(|_| names_in_pages(&rig, "/", &all) != expected).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(missed, 0, "of {listings} listings");
    });
}

#[test]
fn a_file_beyond_the_limits_is_refused_before_a_write() {
    let rig = Rig::with(FileLimits { file_size: 10, read_size: 20, ..FileLimits::default() });
    assert_eq!(code(rig.inner().create(&path("a"), b"01234567890")), "too_large");
    rig.put("b", "12345\n");
    assert_eq!(code(rig.replace("b", "12345\n", "12345", "1234567890")), "too_large");
    rig.put("c", "012345678901234567890");
    assert_eq!(code(rig.read("c", 0, 0)), "too_large");
    assert_eq!(code(rig.replace("c", "012345678901234567890", "x", "")), "too_large");
    assert_eq!((rig.text("b").as_str(), rig.hidden().len()), ("12345\n", 0));
}

#[test]
fn a_file_that_its_owner_may_not_read_is_not_changed() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    rig.put("a", "1\n");
    fs::set_permissions(rig.file("a"), fs::Permissions::from_mode(0o200)).unwrap();
    assert_eq!(code(rig.replace("a", "1\n", "1", "2")), "not_permitted");
    fs::set_permissions(rig.file("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!((rig.text("a").as_str(), rig.hidden().len()), ("1\n", 0));
}

#[test]
fn an_edit_may_leave_a_file_as_long_as_the_limit() {
    let rig = Rig::with(FileLimits { file_size: 10, read_size: 20, ..FileLimits::default() });
    rig.put("a", "12345\n");
    rig.replace("a", "12345\n", "12345", "123456789").unwrap();
    assert_eq!(rig.text("a"), "123456789\n");
}

#[test]
fn a_fault_at_any_call_leaves_only_the_old_or_the_new_file() {
    for errno in [5, 28] {
        for after in 0.. {
            let rig = Rig::new();
            rig.put("a.md", "one\n");
            fault::arm(after, errno);
            let outcome = rig.replace("a.md", "one\n", "one", "two");
            let untouched = fault::disarm();
            rig.inner().keeper.close();
            assert!(
                rig.hidden().is_empty() && rig.copies().is_empty(),
                "after {after}: {:?}",
                rig.visible()
            );
            match outcome {
                Ok(_) if untouched => break,
                Ok(_) => assert_eq!(rig.text("a.md"), "two\n"),
                Err(Refusal::UnknownOutcome { .. }) => assert_eq!(rig.text("a.md"), "two\n"),
                Err(refusal) => {
                    assert!(
                        ["no_space", "internal", "not_permitted", "stale"]
                            .contains(&refusal.code().0),
                        "{refusal:?}"
                    );
                    assert_eq!(rig.text("a.md"), "one\n", "after {after}");
                }
            }
            assert!(
                rig.replace("a.md", &rig.text("a.md"), rig.text("a.md").trim(), "three").is_ok()
            );
            assert!(after < 50, "every number of calls failed");
        }
    }
}

/// Checks the order of calls. A kill cannot show a missing sync; only a power cut can.
#[test]
fn content_is_synced_before_the_rename_and_the_folder_after() {
    use fault::Call::{Open, Rename, Sync, Write};
    let rig = Rig::new();
    let order = || fault::calls().into_iter().filter(|call| *call != Open).collect::<Vec<_>>();
    order();
    rig.inner().create(&path("a.md"), b"one\n").unwrap();
    assert_eq!(order(), [Write, Sync, Rename, Sync], "a file is created");
    rig.inner().create(&path("b/c/d.md"), b"one\n").unwrap();
    assert_eq!(
        order(),
        [Sync, Sync, Write, Sync, Rename, Sync],
        "the parent of each new folder is synced"
    );
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    assert_eq!(order(), [Write, Sync, Rename, Sync], "a file is changed");
    rig.replace("a.md", "two\n", "two", "two").unwrap();
    assert_eq!(order(), [Sync, Sync], "an unchanged file is made durable");
    rig.inner().remove(&path("a.md"), hash("two\n")).unwrap();
    assert_eq!(order(), [Rename, Sync], "a file is removed");
}

#[test]
fn an_edit_without_an_exchange_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::on(folder, FileLimits::default());
    let Rig { folder, space, events } = rig;
    let mut inner = Arc::into_inner(space.inner).unwrap();
    inner.can_exchange = false;
    let rig = Rig { folder, space: Space { inner: Arc::new(inner), ..space }, events };
    rig.put("a.md", "one\n");
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    assert_eq!(rig.text("a.md"), "two\n");
    let target = rig.file("a.md");
    fault::on_swap(move || fs::write(&target, "edited\n").unwrap());
    assert_eq!(code(rig.replace("a.md", "two\n", "two", "three")), "stale");
    assert_eq!(rig.text("a.md"), "edited\n");
    rig.inner().keeper.close();
    assert_eq!((rig.visible(), rig.hidden().len()), (vec!["a.md".to_owned()], 0));
}

#[test]
fn a_start_deletes_our_files_and_rescues_saves_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Owner::new(7, 0);
    let (old, new) = (hash("old\n"), hash("new\n"));
    let leave = |change, original: &str, text: &str, mode: u32| {
        let base = (change != ChangeKind::Create).then_some(&old);
        let made = (change != ChangeKind::Remove).then_some(&new);
        let name = TemporaryName::new(
            &dead,
            u64::from(mode) + text.len() as u64,
            change,
            base,
            made,
            original,
        )
        .to_string();
        let file = folder.path().join(&name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::write(folder.path().join(dead.marker()), "").unwrap();
    fs::write(folder.path().join("a.md"), "new\n").unwrap();
    leave(ChangeKind::Exchange, "a.md", "old\n", 0o644);
    leave(ChangeKind::Exchange, "b.md", "new\n", 0o644);
    leave(ChangeKind::Exchange, "a.md", "a save of an editor\n", 0o644);
    leave(ChangeKind::Exchange, "a.md", "half a n", UNFINISHED);
    leave(ChangeKind::Remove, "gone.md", "old\n", 0o600);
    leave(ChangeKind::Remove, "saved.md", "saved before it was removed\n", 0o600);
    leave(ChangeKind::Replace, "aside.md", "old\n", 0o644);
    leave(ChangeKind::Create, "c.md", "new\n", 0o644);
    let rig = Rig::on(folder, FileLimits::default());
    let [copy] = rig.copies().try_into().unwrap();
    assert_eq!(rig.text(&copy), "a save of an editor\n");
    assert_eq!(rig.visible(), [copy.as_str(), "a.md", "aside.md", "saved.md"]);
    assert_eq!(rig.text("a.md"), "new\n");
    assert_eq!(rig.text("aside.md"), "old\n");
    assert_eq!(rig.hidden(), Vec::<String>::new());
    assert_eq!(rig.events.lock().unwrap().len(), 1);
}

#[test]
fn a_start_leaves_the_files_of_a_living_process() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    let before = rig.hidden();
    assert_eq!(before.len(), 2);
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        lock_wait: Duration::from_secs(1),
        events: Arc::new(|_| panic!("no event was expected")),
    };
    Space::open_ambient(rig.folder.path(), options).unwrap();
    assert_eq!(rig.hidden(), before);
}

#[test]
fn a_folder_that_another_process_locked_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        lock_wait: Duration::from_millis(30),
        events: Arc::new(|_| {}),
    };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    fs::write(folder.path().join("a.md"), "one\n").unwrap();
    let other = os::open_root(folder.path()).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let edit = || {
        let plan = Box::new(|text: &str| Ok(edit::append(text, "two\n")));
        OnThisThread(&space).edit(&path("a.md"), hash("one\n"), ["", ""], plan)
    };
    assert_eq!(code(edit()), "busy");
    drop(other);
    edit().unwrap();
}

/// A space, its folder, and a runtime with one thread that may block.
fn space_with_one_thread(
    lock_wait: Duration,
) -> (tokio::runtime::Runtime, tempfile::TempDir, Space) {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        lock_wait,
        events: Arc::new(|_| {}),
    };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_time().build();
    (runtime.unwrap(), folder, space)
}

/// Creates files, one after the other, by tasks of their own.
fn create_files(space: &Space, names: &[String]) -> Vec<JoinHandle<Result<CreatedFile, Refusal>>> {
    let principal = principal("write:/");
    let permits = names.iter().map(|name| principal.gate().permit(&path(name)).unwrap());
    permits
        .map(|permit| {
            let space = space.clone();
            tokio::spawn(async move { space.create(permit, b"text\n".to_vec()).await })
        })
        .collect()
}

#[test]
fn a_change_that_waits_for_a_folder_holds_no_thread() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    for name in ["locked", "free"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let other = os::open_root(&folder.path().join("locked")).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let names: Vec<_> = (0..20).map(|n| format!("/locked/{n}.md")).collect();
    runtime.block_on(async {
        let waiting = create_files(&space, &names);
        let began = Instant::now();
        for n in 0..50 {
            let [done] = create_files(&space, &[format!("/free/{n}.md")]).try_into().unwrap();
            done.await.unwrap().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        drop(other);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    });
    assert_eq!(fs::read_dir(folder.path().join("locked")).unwrap().count(), names.len());
}

#[test]
fn a_change_that_waits_ends_when_it_is_cancelled() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    let other = os::open_root(folder.path()).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let cancellation = Cancellation::default();
    let names = ["/a.md", "/new/b.md"].map(str::to_owned);
    runtime.block_on(async {
        let waiting = create_files(&space.until(cancellation.clone()), &names[..1]);
        tokio::time::sleep(Duration::from_millis(30)).await;
        cancellation.cancel();
        for waiting in waiting {
            assert_eq!(code(waiting.await.unwrap()), "cancelled");
        }
        drop(other);
        let [next] = create_files(&space, &names[1..]).try_into().unwrap();
        next.await.unwrap().unwrap();
    });
    assert!(!folder.path().join("a.md").exists());
}

#[test]
fn a_folder_that_was_made_for_a_file_is_removed_if_the_file_could_not_be_made() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    drop(space.cancellation.on_drop());
    runtime.block_on(async {
        let [refused] = create_files(&space, &["/new/b.md".to_owned()]).try_into().unwrap();
        assert_eq!(code(refused.await.unwrap()), "cancelled");
    });
    assert!(!folder.path().join("new").exists());
}

#[test]
fn changes_of_a_folder_take_turns_in_the_order_in_which_they_came() {
    let folders = Arc::new(Folders::default());
    let folder = tempfile::tempdir().unwrap();
    let open = || os::open_root(folder.path());
    let first = folders.try_lock(open, None).unwrap();
    let mut waiting: Vec<_> = std::iter::repeat_with(|| match folders.try_lock(open, None) {
        Err(LockError::Wait(Wait::Turn(turn))) => turn,
        other => panic!("{other:?}"),
    })
    .take(4)
    .collect();
    // The second change has gone, so its turn passes on.
    drop(waiting.remove(1));
    drop(first);
    for mut next in waiting {
        let turn = next.try_recv().unwrap();
        drop(folders.try_lock(open, Some(turn)).unwrap());
    }
    folders.try_lock(open, None).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_another_program_locked_is_reported_as_locked() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_millis(50));
    let mut program = std::process::Command::new("flock")
        .arg(folder.path())
        .args(["sh", "-c", "echo locked; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut report = [0; 7];
    program.stdout.take().unwrap().read_exact(&mut report).unwrap();
    let create = || {
        runtime.block_on(async {
            let [created] = create_files(&space, &["/a.md".to_owned()]).try_into().unwrap();
            created.await.unwrap()
        })
    };
    let refused = create().unwrap_err();
    assert_eq!(refused, Refusal::Busy { path: path("/a.md"), is_locked_by_other: true });
    drop(program.stdin.take());
    program.wait().unwrap();
    create().unwrap();
}

#[test]
fn utf8_is_checked_across_pieces() {
    let rig = Rig::new();
    // A character of four bytes crosses every boundary of a piece.
    let text = "a".repeat(3) + &"🜨".repeat(400_000);
    rig.put("text", &text);
    assert_eq!(rig.read("text", 0, 0).unwrap().hash, hash(&text));
    let mut bytes = text.into_bytes();
    bytes.pop();
    fs::write(rig.file("cut"), bytes).unwrap();
    assert_eq!(code(rig.read("cut", 0, 0)), "not_text");
}

#[test]
fn a_derived_text_is_read_with_one_open_and_not_remembered() {
    let rig = Rig::new();
    rig.put("a.md", "# One\n");
    std::thread::sleep(Duration::from_millis(30));
    fault::calls();
    assert_eq!(rig.inner().read_text(&path("a.md"), 100), Ok("# One\n".to_owned()));
    assert_eq!(fault::calls(), [fault::Call::Open]);
    assert_eq!(rig.inner().memory().footprint(), 0);
    assert_eq!(code(rig.inner().read_text(&path("a.md"), 5)), "too_large");
}

#[test]
fn a_protected_file_or_folder_is_not_changed() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let protect = |name: &str, mode| {
        fs::set_permissions(rig.file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    protect("a.md", 0o444);
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "two")), "not_permitted");
    assert_eq!(code(rig.inner().remove(&path("a.md"), hash("one\n"))), "not_permitted");
    protect("a.md", 0o6755);
    rig.replace("a.md", "one\n", "one", "two").unwrap();
    let mode = fs::metadata(rig.file("a.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "the bits that give the file's rights away are dropped");
    fs::create_dir(rig.file("b")).unwrap();
    rig.put("b/c.md", "one\n");
    protect("b", 0o555);
    assert_eq!(code(rig.replace("b/c.md", "one\n", "one", "two")), "not_permitted");
    assert_eq!(code(rig.inner().create(&path("b/d.md"), b"x")), "not_permitted");
    assert_eq!(code(rig.inner().create(&path("b/d/e.md"), b"x")), "not_permitted");
    assert_eq!(rig.text("b/c.md"), "one\n");
    protect("b", 0o755);
}

#[test]
fn a_root_that_was_moved_is_not_changed_until_it_is_back() {
    let above = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (above.path().join("space"), above.path().join("moved"));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.md"), "one\n").unwrap();
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        lock_wait: Duration::from_secs(5),
        events: Arc::new(|_| {}),
    };
    let (space, _) = Space::open_ambient(&root, options).unwrap();
    let append = |base: &str| {
        let plan = Box::new(|text: &str| Ok(edit::append(text, "two\n")));
        OnThisThread(&space).edit(&path("a.md"), hash(base), ["", ""], plan)
    };
    fs::rename(&root, &elsewhere).unwrap();
    assert_eq!(code(append("one\n")), "root_moved");
    fs::create_dir(&root).unwrap();
    assert_eq!(code(append("one\n")), "root_moved");
    assert_eq!(fs::read_to_string(elsewhere.join("a.md")).unwrap(), "one\n");
    fs::remove_dir(&root).unwrap();
    fs::rename(&elsewhere, &root).unwrap();
    append("one\n").unwrap();
}

#[test]
fn a_change_that_is_cancelled_while_it_waits_writes_nothing() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    drop(rig.space.cancellation.on_drop());
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "two")), "cancelled");
    assert_eq!(code(rig.inner().create(&path("b.md"), b"x")), "cancelled");
    assert_eq!(code(rig.inner().remove(&path("a.md"), hash("one\n"))), "cancelled");
    assert_eq!((rig.text("a.md"), rig.file("b.md").exists()), ("one\n".to_owned(), false));
}
