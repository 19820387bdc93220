//! Files are created, edited, displaced and kept.

use super::*;
use stile_domain::edit::EditError;
use stile_domain::lines::ResolvedLines;

use crate::on_first_use::OnFirstUse;

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
fn a_failed_match_says_which_lines_were_searched() {
    let rig = Rig::new();
    rig.put("a.md", "one\ntwo\nthree\n");
    for (end, place) in [(3, "at line 2"), (4, "in lines 2 to 3")] {
        let plan = Box::new(move |_: &str| {
            let searched = ResolvedLines { start: 2, end };
            Err(EditError::NoMatch {
                searched,
                lines: Vec::new(),
                elsewhere: Vec::new(),
                near_miss: None,
            })
        });
        let edited = rig.inner().edit(&path("a.md"), hash("one\ntwo\nthree\n"), ["", "old"], plan);
        let said = edited.unwrap_err().to_string();
        assert!(said.contains(place), "{said}");
    }
}

#[test]
fn a_file_may_be_created_as_long_as_the_limit() {
    let rig = Rig::with(FileLimits { file_size: 10, read_size: 20, ..FileLimits::default() });
    rig.inner().create(&path("a"), b"123456789\n").unwrap();
    assert_eq!(code(rig.inner().create(&path("b"), b"1234567890\n")), "too_large");
    assert_eq!(rig.visible(), ["a"]);
}

#[test]
fn a_file_may_be_removed_if_it_is_no_longer_than_what_can_be_read() {
    let rig = Rig::with(FileLimits { file_size: 10, read_size: 20, ..FileLimits::default() });
    let (longest, longer) = ("x".repeat(20), "x".repeat(21));
    rig.put("a", &longest);
    rig.put("b", &longer);
    rig.inner().remove(&path("a"), hash(&longest)).unwrap();
    assert_eq!(code(rig.inner().remove(&path("b"), hash(&longer))), "too_large");
    assert_eq!(rig.visible(), ["b"]);
}

#[test]
fn a_file_that_another_program_makes_at_the_last_moment_stays() {
    let rig = Rig::new();
    let file = rig.file("a.md");
    fault::on_swap(move || fs::write(file, "theirs\n").unwrap());
    assert_eq!(code(rig.inner().create(&path("a.md"), b"ours\n")), "already_exists");
    assert_eq!(rig.text("a.md"), "theirs\n");
    assert_eq!(rig.hidden(), Vec::<String>::new());
}

#[test]
fn an_edit_without_an_exchange_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::on(folder, FileLimits::default());
    let Rig { folder, space, events, _appends } = rig;
    let mut space = space;
    let opened = Arc::get_mut(&mut space.inner).and_then(OnFirstUse::if_made_mut).unwrap();
    Arc::get_mut(opened).unwrap().can_exchange = false;
    let rig = Rig { folder, space, events, _appends };
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
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_secs(5),
        events: Arc::new(|_| {}),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let (space, _) = Space::open_ambient(&root, options).unwrap();
    let append = |base: &str| {
        let plan = Box::new(|text: &str| Ok(text.to_owned() + &edit::addition(text, "two\n")));
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
