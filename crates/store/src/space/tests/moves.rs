//! Moves, copies, folders, and what is added to the end of a file.

use stile_domain::permit::{EditTree, Walk};

use super::*;

pub(super) fn move_file(rig: &Rig, from: &str, base: &str, to: &str) -> Result<(), Refusal> {
    let mut made = Vec::new();
    rig.inner().change(|change| change.move_file(&path(from), hash(base), &path(to), &mut made))
}

fn copy_file(rig: &Rig, from: &str, base: &str, to: &str) -> Result<CreatedFile, Refusal> {
    let mut made = Vec::new();
    rig.inner().change(|change| change.copy_file(&path(from), hash(base), &path(to), &mut made))
}

fn append(rig: &Rig, name: &str, base: Base, more: &str) -> Result<EditedFile, Refusal> {
    let more = more.to_owned();
    let plan: Plan = Box::new(move |text| Ok(text.to_owned() + &edit::addition(text, &more)));
    let base = (base, NewText::default());
    rig.inner().change(|change| change.edit(&path(name), base, ["content", "content"], &plan))
}

#[test]
fn a_move_keeps_the_file_and_its_metadata() {
    let rig = Rig::new();
    rig.put("a", "x");
    fs::set_permissions(rig.file("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(rig.file("a")).unwrap();
    move_file(&rig, "/a", "x", "/new/deep/b").unwrap();
    let after = fs::metadata(rig.file("new/deep/b")).unwrap();
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    assert_eq!((rig.text("new/deep/b").as_str(), rig.file("a").exists()), ("x", false));
    move_file(&rig, "/new/deep/b", "x", "/new/deep/c").unwrap();
    assert_eq!(rig.text("new/deep/c"), "x");
    assert_eq!(rig.hidden(), Vec::<String>::new());
}

#[test]
fn a_refused_move_changes_nothing_and_leaves_no_folder() {
    let rig = Rig::new();
    rig.put("a", "x");
    rig.put("b", "y");
    fs::create_dir(rig.file("folder")).unwrap();
    symlink("a", rig.file("link")).unwrap();
    for (from, base, to, expected) in [
        ("/a", "x", "/b", "already_exists"),
        ("/a", "x", "/a", "already_exists"),
        ("/a", "x", "/folder", "already_exists"),
        ("/a", "x", "/link", "already_exists"),
        ("/a", "x", "/", "already_exists"),
        ("/a", "old", "/made/c", "stale"),
        ("/none", "x", "/made/c", "not_found"),
        ("/folder", "x", "/made/c", "not_a_file"),
        ("/link", "x", "/made/c", "symlink_refused"),
        ("/a", "x", "/b/c", "not_a_directory"),
    ] {
        assert_eq!(code(move_file(&rig, from, base, to)), expected, "{from} {to}");
    }
    assert_eq!(rig.visible(), ["a", "b", "folder", "link"]);
    assert_eq!((rig.text("a"), rig.text("b")), ("x".to_owned(), "y".to_owned()));
}

#[test]
fn a_save_just_before_a_move_keeps_its_name() {
    let rig = Rig::new();
    rig.put("a", "x");
    fs::create_dir(rig.file("to")).unwrap();
    let (file, beside) = (rig.file("a"), rig.file("beside"));
    fault::on_swap(move || {
        fs::write(&beside, "saved by an editor").unwrap();
        fs::rename(&beside, &file).unwrap();
    });
    assert_eq!(code(move_file(&rig, "/a", "x", "/to/b")), "stale");
    assert_eq!((rig.text("a").as_str(), rig.file("to/b").exists()), ("saved by an editor", false));
}

#[test]
fn a_file_that_appears_just_before_a_move_is_not_replaced() {
    let rig = Rig::new();
    rig.put("a", "x");
    let taken = rig.file("b");
    fault::on_swap(move || fs::write(&taken, "somebody's").unwrap());
    assert_eq!(code(move_file(&rig, "/a", "x", "/b")), "already_exists");
    assert_eq!((rig.text("a").as_str(), rig.text("b").as_str()), ("x", "somebody's"));
}

#[test]
fn a_move_is_durable_in_both_folders_before_it_is_answered() {
    let rig = Rig::new();
    rig.put("a", "x");
    fs::create_dir(rig.file("to")).unwrap();
    fault::record_effects();
    move_file(&rig, "/a", "x", "/to/b").unwrap();
    let effects = fault::recorded();
    let identity = |name: &str| {
        let metadata = fs::metadata(rig.file(name)).unwrap();
        (metadata.dev(), metadata.ino())
    };
    let moved = effects.iter().position(|effect| matches!(effect, Effect::Renamed { .. })).unwrap();
    for folder in ["to", ""] {
        let synced = effects[moved..].iter().any(
            |effect| matches!(effect, Effect::Synced(what) if (what.0, what.1) == identity(folder)),
        );
        assert!(synced, "{folder}");
    }
}

#[test]
fn a_fault_of_the_system_never_loses_a_file_that_is_moved() {
    for after in 0..12 {
        let rig = Rig::new();
        rig.put("a", "x");
        fs::create_dir(rig.file("to")).unwrap();
        fault::arm(after, 5);
        let done = move_file(&rig, "/a", "x", "/to/b");
        let is_pending = fault::disarm();
        let there = [rig.file("a").exists(), rig.file("to/b").exists()];
        assert_eq!(there.iter().filter(|there| **there).count(), 1, "{after}");
        match done {
            Ok(()) => assert!(there[1], "{after}"),
            Err(Refusal::UnknownOutcome { .. }) => {}
            Err(_) => assert!(there[0], "{after}"),
        }
        if is_pending {
            return;
        }
    }
    panic!("a move makes fewer calls");
}

#[test]
fn moves_between_two_folders_in_both_directions_never_wait_for_each_other() {
    let rig = Rig::new();
    for folder in ["one", "two"] {
        fs::create_dir(rig.file(folder)).unwrap();
    }
    for number in 0..8 {
        rig.put(&format!("one/a{number}"), "x");
        rig.put(&format!("two/b{number}"), "x");
    }
    std::thread::scope(|scope| {
        for number in 0..8 {
            let rig = &rig;
            scope.spawn(move || {
                let (a, b) = (format!("a{number}"), format!("b{number}"));
                move_file(rig, &format!("/one/{a}"), "x", &format!("/two/{a}")).unwrap();
                move_file(rig, &format!("/two/{b}"), "x", &format!("/one/{b}")).unwrap();
            });
        }
    });
    for number in 0..8 {
        assert_eq!(rig.text(&format!("two/a{number}")), "x");
        assert_eq!(rig.text(&format!("one/b{number}")), "x");
    }
}

#[test]
fn a_copy_has_the_bytes_and_the_mode_and_replaces_nothing() {
    let rig = Rig::new();
    fs::write(rig.file("a"), [0, 255, 7]).unwrap();
    fs::set_permissions(rig.file("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let base = ContentHash::digest(&[0, 255, 7]);
    let mut made = Vec::new();
    let copied = rig
        .inner()
        .change(|change| change.copy_file(&path("/a"), base, &path("/d/b"), &mut made))
        .unwrap();
    assert_eq!((copied.hash, copied.size_bytes, copied.total_lines), (base, 3, None));
    assert_eq!(fs::read(rig.file("d/b")).unwrap(), [0, 255, 7]);
    assert_eq!(fs::metadata(rig.file("d/b")).unwrap().mode() & 0o777, 0o640);
    rig.put("c", "y");
    assert_eq!(code(copy_file(&rig, "/c", "y", "/d/b")), "already_exists");
    assert_eq!(code(copy_file(&rig, "/c", "old", "/e/b")), "stale");
    assert_eq!(rig.visible(), ["a", "c", "d"]);
}

#[test]
fn folders_are_made_with_parents_and_removed_when_empty() {
    let rig = Rig::new();
    let create = |name: &str| {
        let mut made = Vec::new();
        rig.inner().change(|change| change.create_folder(&path(name), &mut made))
    };
    let remove =
        |name: &str| rig.inner().change(|change| change.remove_folder(&all_of(name), None));
    assert!(create("/a/b").unwrap());
    assert!(!create("/a/b").unwrap() && !create("/").unwrap());
    rig.put("a/file", "x");
    assert_eq!(code(create("/a/file")), "not_a_directory");
    assert_eq!(code(remove("/a")), "folder_not_empty");
    assert_eq!(code(remove("/a/file")), "not_a_directory");
    assert_eq!(code(remove("/none")), "not_found");
    assert_eq!(code(remove("/")), "not_a_file");
    remove("/a/b").unwrap();
    // The removed file is kept for a moment, in which a removal of the folder waits.
    rig.inner().remove(&path("/a/file"), hash("x")).unwrap();
    remove("/a").unwrap();
    assert_eq!(rig.visible(), Vec::<String>::new());
}

#[test]
fn a_folder_is_removed_only_by_who_may_change_all_of_it() {
    let permits = |claim: &str, folder: &str| {
        principal(claim).gate().permit::<EditTree>(&path(folder)).is_ok()
    };
    assert!(permits("write:/a/", "/a") && permits("write:/", "/a/b"));
    assert!(!permits("write:/a/*", "/a") && !permits("read:/ write:/a/b/", "/a"));
    assert!(!permits("write:/ deny:/a/secret", "/a"));
    assert!(principal("read:/a/b").gate().permit::<Walk>(&path("/a")).is_ok());
}

#[test]
fn an_append_to_a_file_that_grows_goes_on_while_what_was_seen_is_unchanged() {
    let rig = Rig::new();
    rig.put("log", "one\n");
    let seen = Base::Prefix { hash: hash("one\n"), size: 4 };
    fs::write(rig.file("log"), "one\ntwo\n").unwrap();
    assert_eq!(code(append(&rig, "/log", Base::Whole(hash("one\n")), "mine\n")), "stale");
    let edited = append(&rig, "/log", seen, "mine\n").unwrap();
    assert_eq!((rig.text("log").as_str(), edited.size_bytes), ("one\ntwo\nmine\n", 13));
    fs::write(rig.file("log"), "One\ntwo\n").unwrap();
    assert_eq!(code(append(&rig, "/log", seen, "mine\n")), "stale");
    fs::write(rig.file("log"), "one").unwrap();
    assert_eq!(code(append(&rig, "/log", seen, "mine\n")), "stale");
    append(&rig, "/log", Base::Unread, "unread").unwrap();
    assert_eq!(rig.text("log"), "one\nunread");
    fs::write(rig.file("log"), b"\xff").unwrap();
    assert_eq!(code(append(&rig, "/log", Base::Unread, "x")), "not_text");
}

#[test]
fn bytes_are_added_to_a_file_of_any_kind() {
    let rig = Rig::new();
    fs::write(rig.file("a"), [0, 255]).unwrap();
    let base = ContentHash::digest(&[0, 255]);
    let add = || {
        rig.inner()
            .change(|change| change.append(&path("/a"), Base::Whole(base), &|_| Ok(vec![254])))
    };
    assert_eq!(add().unwrap().size_bytes, 3);
    assert_eq!(fs::read(rig.file("a")).unwrap(), [0, 255, 254]);
    assert_eq!(code(add()), "stale");
}

#[test]
fn copies_and_trials_of_large_files_take_turns() {
    let rig = Rig::with_wait(Duration::from_millis(30));
    let text = "x".repeat(1 << 20);
    rig.put("a", &text);
    let inner = rig.inner();
    let turns: Vec<_> = std::iter::from_fn(|| inner.large_changes.try_enter()).collect();
    let try_edit = || {
        inner.try_edit(&path("/a"), (hash(&text), NewText::default()), &|text: &str| {
            Ok(text.to_owned())
        })
    };
    assert_eq!(code(copy_file(&rig, "/a", &text, "/b")), "busy");
    assert_eq!(code(try_edit()), "busy");
    drop(turns);
    assert!(copy_file(&rig, "/a", &text, "/b").is_ok() && try_edit().is_ok());
}

/// A file system without renames that exchange or refuse to replace, on this thread.
pub(super) struct WithoutFlags;

impl WithoutFlags {
    pub(super) fn answering(errno: i32) -> Self {
        fault::lack_flags(Some(errno));
        Self
    }
}

impl Drop for WithoutFlags {
    fn drop(&mut self) {
        fault::lack_flags(None);
    }
}

pub(super) const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

/// Returns the text of every visible file, below folders too.
pub(super) fn all_texts(rig: &Rig) -> Vec<String> {
    let mut folders = vec![rig.folder.path().to_owned()];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_ours = entry.file_name().unwrap().to_str().unwrap().starts_with(RESERVED_PREFIX);
            match entry.is_dir() {
                true => folders.push(entry),
                false if !is_ours => texts.push(fs::read_to_string(entry).unwrap()),
                false => {}
            }
        }
    }
    texts
}

#[test]
fn a_move_without_the_rename_of_the_kernel_is_the_same_move() {
    for errno in [EINVAL, ENOSYS] {
        let _lacking = WithoutFlags::answering(errno);
        let rig = Rig::without_exchange();
        rig.put("a", "x");
        rig.put("b", "y");
        let inode = fs::metadata(rig.file("a")).unwrap().ino();
        assert_eq!(code(move_file(&rig, "/a", "x", "/b")), "already_exists");
        assert_eq!(code(move_file(&rig, "/a", "old", "/c")), "stale");
        move_file(&rig, "/a", "x", "/new/c").unwrap();
        let moved = fs::metadata(rig.file("new/c")).unwrap();
        assert_eq!((moved.ino(), moved.nlink()), (inode, 1));
        assert_eq!(rig.visible(), ["b", "new"]);
        move_file(&rig, "/new/c", "x", "/new/d").unwrap();
        assert_eq!(all_texts(&rig).len(), 2);
        rig.inner().keeper.close();
        assert_eq!(rig.hidden(), Vec::<String>::new());
    }
}

/// Runs `change` once for each moment of it, with a save by an editor at that moment.
fn with_a_save_at_each_moment(
    lacks: bool,
    in_place: bool,
    change: impl Fn(&Rig) -> Result<(), Refusal>,
) {
    for moment in 0.. {
        let _lacking = lacks.then(|| WithoutFlags::answering(EINVAL));
        let rig = if lacks { Rig::without_exchange() } else { Rig::new() };
        rig.put("a", "x");
        fs::create_dir(rig.file("to")).unwrap();
        let saved = Arc::new(AtomicBool::new(false));
        let (did, file, beside) = (Arc::clone(&saved), rig.file("a"), rig.file("beside"));
        fault::on_call(moment, move || {
            if in_place {
                fs::write(&file, "saved").unwrap();
            } else {
                fs::write(&beside, "saved").unwrap();
                fs::rename(&beside, &file).unwrap();
            }
            did.store(true, Ordering::Relaxed);
        });
        let done = change(&rig);
        fault::on_call(u32::MAX, || {});
        rig.inner().keeper.close();
        let texts = all_texts(&rig);
        if saved.load(Ordering::Relaxed) {
            assert!(texts.contains(&"saved".to_owned()), "moment {moment}: {texts:?} {done:?}");
        } else {
            done.unwrap();
            assert!(moment > 3, "a change has several moments");
            return;
        }
    }
}

#[test]
fn a_save_at_any_moment_of_a_move_is_kept() {
    for lacks in [false, true] {
        for in_place in [false, true] {
            with_a_save_at_each_moment(lacks, in_place, |rig| move_file(rig, "/a", "x", "/to/b"));
            with_a_save_at_each_moment(lacks, in_place, |rig| move_file(rig, "/a", "x", "/b"));
        }
    }
}

#[test]
fn a_save_at_any_moment_of_a_removal_or_an_edit_is_kept_without_the_rename_of_the_kernel() {
    for in_place in [false, true] {
        with_a_save_at_each_moment(true, in_place, |rig| {
            rig.inner().remove(&path("/a"), hash("x"))
        });
        with_a_save_at_each_moment(true, in_place, |rig| {
            rig.replace("a", "x", "x", "y").map(|_| ())
        });
    }
}

#[test]
fn a_fault_of_the_system_never_loses_a_file_that_is_moved_by_a_link() {
    let _lacking = WithoutFlags::answering(EINVAL);
    for after in 0..20 {
        let rig = Rig::without_exchange();
        rig.put("a", "x");
        fs::create_dir(rig.file("to")).unwrap();
        fault::arm(after, 5);
        let done = move_file(&rig, "/a", "x", "/to/b");
        let is_pending = fault::disarm();
        rig.inner().keeper.close();
        let there = [rig.file("a").exists(), rig.file("to/b").exists()];
        assert_eq!(all_texts(&rig), ["x"], "{after}");
        match done {
            Ok(()) => assert!(there[1], "{after}"),
            Err(Refusal::UnknownOutcome { .. }) => assert!(there[1], "{after}"),
            Err(_) => assert!(there[0] || rig.copies().len() == 1, "{after}"),
        }
        if is_pending {
            return;
        }
    }
    panic!("a move makes fewer calls");
}

#[test]
fn an_edited_file_that_is_moved_or_removed_stays_so_after_a_kill_without_an_exchange() {
    let _lacking = WithoutFlags::answering(EINVAL);
    for is_moved in [true, false] {
        let rig = Rig::without_exchange();
        rig.put("a", "x");
        rig.replace("a", "x", "x", "y").unwrap();
        if is_moved {
            move_file(&rig, "/a", "y", "/b").unwrap();
        } else {
            rig.inner().remove(&path("/a"), hash("y")).unwrap();
        }
        // A copy has no locks, as after a kill.
        let killed = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(rig.folder.path()).unwrap().map(|entry| entry.unwrap()) {
            fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
        }
        let started = Rig::on_any(killed);
        let expected: &[&str] = if is_moved { &["y"] } else { &[] };
        assert_eq!(all_texts(&started), expected);
        assert_eq!(started.hidden(), Vec::<String>::new());
    }
}
