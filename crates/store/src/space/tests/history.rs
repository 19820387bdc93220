//! Changes of a space with a history: what is kept, and what leaves the person's folder.

use super::super::LinkRewriting;
use super::moves::{EINVAL, WithoutFlags, all_texts, move_file};
use super::*;
use crate::history::{
    Call, ChangeQuery, History, NewChange, ServerSetting, ServerSettings, UnkeptChange,
    VersionSource,
};
use crate::state::StateDir;
use std::io::Write as _;
use stile_domain::history::lives::Lives;
use stile_domain::history::past_change::{ChangeNumber, PastChange, PastChangeKind};
use stile_domain::history::undo_plan::{LeftReason, PathNow, UndoFacts, UndoStep, undo_plan};
use stile_domain::history::version::OldVersion;

/// A space with a history, in one folder.
pub(super) struct Kept {
    pub(super) rig: Rig,
    state: tempfile::TempDir,
    pub(super) history: Arc<History>,
}

fn open_history(state: &Path, root: &Path, unkept: UnkeptChange) -> Arc<History> {
    let server = ServerSettings {
        days: ServerSetting::Named(30),
        bytes: ServerSetting::Named(1 << 30),
        unkept: ServerSetting::Named(unkept),
    };
    let state = StateDir::open(state).unwrap();
    Arc::new(History::open_to_serve(&state, root, &server).unwrap())
}

impl Kept {
    pub(super) fn new() -> Self {
        Self::with(UnkeptChange::GoesOn)
    }

    fn with(unkept: UnkeptChange) -> Self {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let history = open_history(state.path(), folder.path(), unkept);
        let rig = Rig::with_history(folder, Some(Arc::clone(&history)));
        Self { rig, state, history }
    }

    /// The same on a file system that cannot exchange files. The thread of the test must lack the
    /// flags of renames.
    fn without_exchange() -> Self {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let history = open_history(state.path(), folder.path(), UnkeptChange::GoesOn);
        let rig = Rig::without_exchange_with(folder, Some(Arc::clone(&history)));
        Self { rig, state, history }
    }

    /// Ends the process, as far as that can be done here, and starts another one.
    fn start_again(self) -> Self {
        let Self { rig, state, history } = self;
        let Rig { folder, space, .. } = rig;
        drop((space, history));
        let history = open_history(state.path(), folder.path(), UnkeptChange::GoesOn);
        Self { rig: Rig::with_history(folder, Some(Arc::clone(&history))), state, history }
    }

    pub(super) fn changes(&self) -> Vec<PastChange> {
        self.history.changes(&ChangeQuery::default()).unwrap()
    }

    /// Returns the names of the files that are held.
    fn held(&self) -> Vec<String> {
        let entries = fs::read_dir(self.history.held_folder()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".alive"))
            .collect()
    }

    fn version(&self, name: &str, number: i64) -> String {
        let version = OldVersion::parse(&number.to_string()).unwrap();
        let hash = self.history.find_version(&path(name), &version, None).unwrap();
        let current = fs::read(self.rig.file(name)).ok();
        let bytes = self.history.bytes_of(&path(name), hash, current.as_deref(), u64::MAX);
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    /// Leaves a displaced file as a process that was killed does.
    fn leave_held(&self, name: &str, change: ChangeKind, before: &str, now: &str) {
        let owner = Owner::new(0xdead, 1);
        let original = name.rsplit('/').next().unwrap();
        let held = TemporaryName::new(&owner, 7, change, Some(&hash(before)), None, original);
        let held = held.to_string();
        let change = NewChange {
            kind: PastChangeKind::Replaced,
            path: &path(name),
            to: None,
            before: Some(hash(before)),
            size_before: before.len() as u64,
            after: None,
            held: Some(&held),
            metadata: None,
            call: &Call::default(),
        };
        self.history.keep(&change, VersionSource::Bytes(before.as_bytes())).unwrap();
        fs::write(self.history.held_folder().join(held), now).unwrap();
    }
}

#[test]
fn a_replaced_version_is_kept_and_nothing_stays_in_the_folder() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    kept.rig.replace("a.md", "one\n", "one", "two").unwrap();
    assert_eq!(kept.rig.hidden(), Vec::<String>::new());
    assert_eq!(kept.held().len(), 1);
    let [change] = kept.changes().try_into().unwrap();
    assert_eq!((change.kind, change.call), (PastChangeKind::Replaced, change.number));
    assert_eq!((change.before, change.after), (Some(hash("one\n")), Some(hash("two\n"))));
    assert_eq!(kept.version("a.md", change.number.0), "one\n");
    kept.rig.inner().keeper.close();
    assert_eq!((kept.rig.visible(), kept.held()), (vec!["a.md".to_owned()], vec![]));
}

#[test]
fn each_kind_of_change_is_recorded() {
    let kept = Kept::new();
    let inner = kept.rig.inner();
    inner.create(&path("a.md"), b"one\n").unwrap();
    let more = Box::new(|text: &str| Ok(format!("{text}more\n")));
    inner.edit(&path("a.md"), hash("one\n"), ["", ""], more).unwrap();
    let mut made = Vec::new();
    let base = hash("one\nmore\n");
    inner.change(|change| change.move_file(&path("a.md"), base, &path("b.md"), &mut made)).unwrap();
    inner.remove(&path("b.md"), base).unwrap();
    let kinds: Vec<_> = kept.changes().iter().rev().map(|change| change.kind).collect();
    use PastChangeKind::{Appended, Created, Moved, Removed};
    assert_eq!(kinds, [Created, Appended, Moved, Removed]);
    assert_eq!(kept.rig.hidden(), Vec::<String>::new());
    assert_eq!(kept.version("b.md", 4), "one\nmore\n");
    assert_eq!(kept.version("a.md", 2), "one\n");
}

#[test]
fn a_write_through_an_old_descriptor_becomes_a_conflict_copy_out_of_the_held_file() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    let mut editor = fs::OpenOptions::new().append(true).open(kept.rig.file("a.md")).unwrap();
    kept.rig.replace("a.md", "one\n", "one", "two").unwrap();
    editor.write_all(b"typed late\n").unwrap();
    drop(editor);
    kept.rig.inner().keeper.close();
    let [copy] = kept.rig.copies().try_into().unwrap();
    assert_eq!(kept.rig.text(&copy), "one\ntyped late\n");
    assert_eq!((kept.held(), kept.rig.hidden()), (vec![], vec![]));
    assert_eq!(kept.version("a.md", 1), "one\n");
}

#[test]
fn a_start_gives_a_late_save_that_a_killed_process_held_a_visible_name() {
    let kept = Kept::new();
    fs::create_dir(kept.rig.file("d")).unwrap();
    kept.rig.put("d/a.md", "two\n");
    kept.leave_held("d/a.md", ChangeKind::Exchange, "one\n", "one\ntyped late\n");
    kept.leave_held("d/b.md", ChangeKind::Exchange, "one\n", "one\n");
    kept.leave_held("d/c.md", ChangeKind::Remove, "one\n", "one\nback\n");
    kept.leave_held("gone/d.md", ChangeKind::Exchange, "one\n", "one\nelsewhere\n");
    let kept = kept.start_again();
    assert_eq!(kept.held(), Vec::<String>::new());
    assert_eq!(kept.rig.text("d/c.md"), "one\nback\n");
    let mut names: Vec<String> = fs::read_dir(kept.rig.file("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].starts_with("a (conflict "), "{names:?}");
    assert_eq!(kept.rig.text(&format!("d/{}", names[0])), "one\ntyped late\n");
    let [copy] = kept.rig.copies().try_into().unwrap();
    assert_eq!(kept.rig.text(&copy), "one\nelsewhere\n");
}

#[test]
fn a_start_leaves_the_held_files_of_a_living_process_alone() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    let mut editor = fs::OpenOptions::new().append(true).open(kept.rig.file("a.md")).unwrap();
    kept.rig.replace("a.md", "one\n", "one", "two").unwrap();
    editor.write_all(b"late\n").unwrap();
    let other = open_history(kept.state.path(), kept.rig.folder.path(), UnkeptChange::GoesOn);
    let options = SpaceOptions { events: Arc::new(|_| {}), ..(*kept.rig.inner().options).clone() };
    Space::open_ambient_with(kept.rig.folder.path(), options, Some(other)).unwrap();
    assert_eq!((kept.held().len(), kept.rig.copies()), (1, vec![]));
}

#[test]
fn a_change_that_another_program_forestalled_is_not_in_the_history() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    let target = kept.rig.file("a.md");
    fault::on_swap(move || fs::write(&target, "edited\n").unwrap());
    assert_eq!(code(kept.rig.replace("a.md", "one\n", "one", "two")), "stale");
    assert_eq!((kept.changes(), kept.rig.text("a.md")), (vec![], "edited\n".to_owned()));
    kept.rig.inner().keeper.close();
    assert_eq!((kept.held(), kept.rig.copies()), (vec![], vec![]));
}

#[test]
fn a_change_goes_on_or_is_refused_when_the_history_fails_as_the_owner_wants() {
    for (unkept, refused) in [(UnkeptChange::GoesOn, false), (UnkeptChange::IsRefused, true)] {
        let kept = Kept::with(unkept);
        kept.rig.put("a.md", "one\n");
        kept.history.break_for_test();
        let done = kept.rig.replace("a.md", "one\n", "one", "two");
        assert_eq!(done.is_err(), refused);
        if refused {
            assert_eq!(code(done), "not_kept");
        }
        let text = if refused { "one\n" } else { "two\n" };
        assert_eq!(kept.rig.text("a.md"), text);
        let events = kept.rig.events.lock().unwrap();
        assert_eq!(
            (events[0].tool.as_str(), events[0].outcome.as_str()),
            ("history_not_kept", "failed")
        );
        // What could not be kept is treated as without a history.
        assert_eq!(kept.rig.hidden().len(), if refused { 0 } else { 2 });
    }
}

#[test]
fn a_folder_can_be_removed_at_once_after_its_last_file() {
    let kept = Kept::new();
    fs::create_dir(kept.rig.file("d")).unwrap();
    kept.rig.put("d/a.md", "one\n");
    let inner = kept.rig.inner();
    inner.remove(&path("d/a.md"), hash("one\n")).unwrap();
    let began = Instant::now();
    inner.change(|change| change.remove_folder(&all_of("/d"), None)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_save_at_any_moment_of_a_change_is_kept_with_a_history_too() {
    type Act = fn(&Rig) -> Result<(), Refusal>;
    let changes: [Act; 3] = [
        |rig| rig.replace("a", "x", "x", "y").map(|_| ()),
        |rig| rig.inner().remove(&path("/a"), hash("x")),
        |rig| move_file(rig, "/a", "x", "/b"),
    ];
    for (change, lacks, in_place) in changes.into_iter().flat_map(|change| {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(lacks, in_place)| (change, lacks, in_place))
    }) {
        for moment in 0.. {
            let _lacking = lacks.then(|| WithoutFlags::answering(EINVAL));
            let kept = if lacks { Kept::without_exchange() } else { Kept::new() };
            kept.rig.put("a", "x");
            let saved = Arc::new(AtomicBool::new(false));
            let (did, file, beside) =
                (Arc::clone(&saved), kept.rig.file("a"), kept.rig.file("beside"));
            fault::on_call(moment, move || {
                if in_place {
                    fs::write(&file, "saved").unwrap();
                } else {
                    fs::write(&beside, "saved").unwrap();
                    fs::rename(&beside, &file).unwrap();
                }
                did.store(true, Ordering::Relaxed);
            });
            let done = change(&kept.rig);
            fault::on_call(u32::MAX, || {});
            kept.rig.inner().keeper.close();
            let texts = all_texts(&kept.rig);
            assert_eq!((kept.held(), kept.rig.hidden()), (vec![], vec![]));
            if !saved.load(Ordering::Relaxed) {
                done.unwrap();
                assert!(moment > 3, "a change has several moments");
                break;
            }
            assert!(texts.contains(&"saved".to_owned()), "moment {moment}: {texts:?} {done:?}");
        }
    }
}

#[test]
fn a_file_that_a_refused_move_displaced_stays_in_the_folder_since_no_version_is_kept() {
    let _lacking = WithoutFlags::answering(EINVAL);
    for moment in 0.. {
        assert!(moment < 100, "a move has a moment at which the file has no visible name");
        let kept = Kept::without_exchange();
        kept.rig.put("a", "x");
        let (file, to) = (kept.rig.file("a"), kept.rig.file("b"));
        let between = Arc::new(AtomicBool::new(false));
        let is_between = Arc::clone(&between);
        fault::on_call(moment, move || {
            if !file.exists() && !to.exists() {
                fs::write(&file, "saved").unwrap();
                fs::write(&to, "other").unwrap();
                is_between.store(true, Ordering::Relaxed);
            }
        });
        let done = move_file(&kept.rig, "/a", "x", "/b");
        fault::on_call(u32::MAX, || {});
        if !between.load(Ordering::Relaxed) {
            continue;
        }
        assert_eq!(code(done), "already_exists");
        assert_eq!((kept.changes(), kept.held()), (vec![], vec![]));
        let hidden = kept.rig.hidden();
        let aside = hidden.iter().find(|name| TemporaryName::parse(name).is_some()).unwrap();
        assert_eq!(kept.rig.text(aside), "x");
        assert!(hidden.iter().any(|name| name.ends_with(".alive")), "{hidden:?}");
        return;
    }
}

/// The facts for an undo whose history has every version. The function returns where a file is.
struct Files<'a>(&'a dyn Fn(&SpacePath) -> PathBuf);

impl UndoFacts for Files<'_> {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        let read = fs::read(self.0(path));
        read.map_or(PathNow::Nothing, |bytes| PathNow::File(ContentHash::digest(&bytes)))
    }

    fn lacks(&mut self, _: &UndoStep) -> Option<LeftReason> {
        None
    }

    fn is_other_file(&mut self, _: &SpacePath, _: &SpacePath, _: ChangeNumber) -> bool {
        false
    }
}

#[tokio::test]
async fn a_move_and_the_notes_that_it_rewrites_are_one_call_that_can_be_undone() {
    let kept = Kept::new();
    fs::create_dir(kept.rig.file("d")).unwrap();
    let files = [("/a.md", "[[b]] [b](b.md)\n"), ("/b.md", "[a](a.md)\n"), ("/c.md", "[[a]]\n")];
    for (name, text) in files {
        kept.rig.put(&name[1..], text);
    }
    let (principal, root) = (principal("write:/"), SpacePath::root());
    let gate = principal.gate();
    let space = kept.rig.space.clone().for_call(Arc::new(Call::default()));
    let paths = (gate.permit(&path("/a.md")).unwrap(), gate.permit(&path("/d/n.md")).unwrap());
    let below = (gate.permit(&root).unwrap(), gate.permit(&root).unwrap());
    let request = LinkRewriting { base: hash(files[0].1), is_dry: false, cursor: None };
    space.move_with_links(paths, below, request).await.unwrap();
    let mut changes = kept.changes();
    changes.reverse();
    use PastChangeKind::{Moved, Replaced};
    let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [Moved, Replaced, Replaced, Replaced]);
    assert!(changes.iter().all(|change| change.call == changes[0].number), "{changes:?}");
    assert_eq!(kept.rig.hidden(), Vec::<String>::new());
    for change in &changes[1..] {
        let now = kept.rig.text(change.path.as_str().trim_start_matches('/'));
        assert_eq!(change.after, Some(hash(&now)));
        let name = change.path.as_str();
        let before = if name == "/d/n.md" { "/a.md" } else { name };
        let (_, text) = files.iter().find(|(name, _)| *name == before).unwrap();
        assert_eq!(kept.version(&name[1..], change.number.0), *text);
    }
    let file = |path: &SpacePath| kept.rig.file(path.as_str().trim_start_matches('/'));
    let plan = undo_plan(&changes, &Lives::of(&changes), &mut Files(&file));
    assert!(plan.left.is_empty());
    let back = plan.steps.iter().filter(|step| matches!(step, UndoStep::Restore { .. })).count();
    assert_eq!((plan.steps.len(), back), (4, 3));
}

#[tokio::test]
async fn a_removed_file_comes_back_with_its_mode_and_attributes() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    let file = kept.rig.file("a.md");
    let set = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::setxattr(&file, "user.colour", b"green", set).is_ok();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4640)).unwrap();
    kept.rig.inner().remove(&path("a.md"), hash("one\n")).unwrap();
    // A later file of the same name and another content has its own mode.
    kept.rig.put("a.md", "two\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    kept.rig.inner().remove(&path("a.md"), hash("two\n")).unwrap();
    let principal = principal("write:/");
    let permit = principal.gate().permit(&path("a.md")).unwrap();
    let version = OldVersion::parse("1").unwrap();
    kept.rig.space.clone().with_whole_history().restore(permit, None, version).await.unwrap();
    assert_eq!(kept.rig.text("a.md"), "one\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
    if has_attributes {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&file, "user.colour", &mut value).unwrap();
        assert_eq!(&value[..length], b"green");
    }
}

#[tokio::test]
async fn a_file_comes_back_with_the_mode_that_it_had_when_it_was_removed() {
    for is_made_again in [false, true] {
        let kept = Kept::new();
        kept.rig.put("a.md", "one\n");
        let file = kept.rig.file("a.md");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        kept.rig.replace("a.md", "one\n", "one", "two").unwrap();
        let inner = kept.rig.inner();
        inner.remove(&path("a.md"), hash("two\n")).unwrap();
        let base = is_made_again.then(|| {
            inner.create(&path("a.md"), b"three\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            hash("three\n")
        });
        let principal = principal("write:/");
        let permit = principal.gate().permit(&path("a.md")).unwrap();
        let version = OldVersion::parse("1").unwrap();
        let space = kept.rig.space.clone().with_whole_history();
        space.restore(permit, base, version).await.unwrap();
        assert_eq!(kept.rig.text("a.md"), "one\n");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_file_that_was_only_edited_keeps_the_mode_that_somebody_gave_it_since() {
    let kept = Kept::new();
    kept.rig.put("a.md", "one\n");
    kept.rig.replace("a.md", "one\n", "one", "two").unwrap();
    let file = kept.rig.file("a.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let principal = principal("write:/");
    let permit = principal.gate().permit(&path("a.md")).unwrap();
    let version = OldVersion::parse("1").unwrap();
    let space = kept.rig.space.clone().with_whole_history();
    space.restore(permit, Some(hash("two\n")), version).await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn a_version_has_the_mode_of_its_own_file_and_not_of_a_later_one_at_its_path() {
    for goes_back in [true, false] {
        let kept = Kept::new();
        kept.rig.put("s.md", "secret\n");
        let (file, moved) = (kept.rig.file("s.md"), kept.rig.file("t.md"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        kept.rig.replace("s.md", "secret\n", "secret", "x").unwrap();
        move_file(&kept.rig, "s.md", "x\n", "t.md").unwrap();
        kept.rig.inner().create(&path("s.md"), b"y\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let base = if goes_back {
            kept.rig.inner().remove(&path("s.md"), hash("y\n")).unwrap();
            move_file(&kept.rig, "t.md", "x\n", "s.md").unwrap();
            "x\n"
        } else {
            // The file with the version is elsewhere, where its owner gave it another mode.
            fs::set_permissions(&moved, fs::Permissions::from_mode(0o640)).unwrap();
            "y\n"
        };
        let principal = principal("write:/");
        let permit = principal.gate().permit(&path("s.md")).unwrap();
        let version = OldVersion::parse("1").unwrap();
        let space = kept.rig.space.clone().with_whole_history();
        space.restore(permit, Some(hash(base)), version).await.unwrap();
        assert_eq!(kept.rig.text("s.md"), "secret\n");
        let expected = if goes_back { 0o600 } else { 0o640 };
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, expected);
    }
}

#[tokio::test]
async fn a_version_that_was_replaced_with_another_files_has_its_own_mode_again() {
    let kept = Kept::new();
    kept.rig.put("run.sh", "owner\n");
    let file = kept.rig.file("run.sh");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    kept.rig.inner().remove(&path("run.sh"), hash("owner\n")).unwrap();
    kept.rig.inner().create(&path("run.sh"), b"agent\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let steps = [("agent\n", "1", 0o755), ("owner\n", "3", 0o640), ("agent\n", "4", 0o755)];
    for (base, version, mode) in steps {
        let principal = principal("write:/");
        let permit = principal.gate().permit(&path("run.sh")).unwrap();
        let space = kept.rig.space.clone().with_whole_history();
        let version = OldVersion::parse(version).unwrap();
        space.restore(permit, Some(hash(base)), version).await.unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, mode, "over {base}");
    }
}
