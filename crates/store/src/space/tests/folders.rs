//! Folders that move and that are removed, with all that they hold.

use std::collections::BTreeMap;

use stile_domain::history::past_change::{PastChange, PastChangeKind};
use stile_domain::history::past_folder::PastFolder;
use stile_domain::permit::{Edit, EditTree, ReadTree};

use super::super::folder_rest;
use super::history::Kept;
use super::moves::{EINVAL, WithoutFlags};
use super::*;

const ALL: &str = "write:/";

/// Puts files into the folder of a rig, with the folders that they need.
fn plant(rig: &Rig, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::create_dir_all(rig.file(name).parent().unwrap()).unwrap();
        rig.put(name, text);
    }
}

/// Returns the text of every visible file below the root, by its path from there. A folder has the
/// text `/`.
fn tree(rig: &Rig) -> BTreeMap<String, String> {
    let (root, mut found) = (rig.folder.path(), BTreeMap::new());
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if name.rsplit('/').next().unwrap().starts_with(RESERVED_PREFIX) {
                continue;
            }
            if entry.is_symlink() {
                found.insert(name, "->".to_owned());
            } else if entry.is_dir() {
                found.insert(name, "/".to_owned());
                folders.push(entry);
            } else {
                found.insert(name, fs::read_to_string(entry).unwrap());
            }
        }
    }
    found
}

fn permits(
    claim: &str,
    from: &str,
    to: &str,
) -> Result<super::super::folder_moves::FolderPermits, Refusal> {
    let principal = principal(claim);
    Ok((principal.gate().permit(&path(from))?, principal.gate().permit(&path(to))?))
}

fn tree_hash_for(rig: &Rig, claim: &str, folder: &str) -> Result<ContentHash, Refusal> {
    let permit = principal(claim).gate().permit::<ReadTree>(&path(folder))?;
    rig.inner().tree_hash(&permit, &Cancellation::default())
}

fn tree_hash(rig: &Rig, folder: &str) -> ContentHash {
    tree_hash_for(rig, ALL, folder).unwrap()
}

/// Moves a folder as the bearer of `claim`, on the thread of the test.
fn moved(rig: &Rig, claim: &str, [from, to]: [&str; 2], base: ContentHash) -> Result<(), Refusal> {
    let (permits, mut made) = (permits(claim, from, to)?, Vec::new());
    rig.inner().change(|change| change.move_folder(&permits, base, &mut made))
}

fn removed(rig: &Rig, folder: &str, base: Option<ContentHash>) -> Result<(), Refusal> {
    let permit = principal(ALL).gate().permit::<EditTree>(&path(folder))?;
    rig.inner().change(|change| change.remove_folder(&permit, base))
}

const FILES: &[(&str, &str)] = &[
    ("old/a.md", "a"),
    ("old/deep/b.md", "b"),
    ("old/deep/c", "c"),
    ("old/.hidden", "d"),
    ("other.md", "o"),
];

fn planted() -> Rig {
    let rig = Rig::new();
    plant(&rig, FILES);
    fs::create_dir(rig.file("old/empty")).unwrap();
    rig
}

/// Returns what `tree` has after the folder `old` has become `new`.
fn renamed(before: &BTreeMap<String, String>, new: &str) -> BTreeMap<String, String> {
    let rename = |name: &String| match name.strip_prefix("old") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{new}{rest}"),
        _ => name.clone(),
    };
    before.iter().map(|(name, text)| (rename(name), text.clone())).collect()
}

#[test]
fn a_folder_moves_with_all_that_it_holds_and_its_missing_parents_are_made() {
    for lacks in [false, true] {
        let _lacking = lacks.then(|| WithoutFlags::answering(EINVAL));
        let rig = if lacks { Rig::without_exchange() } else { Rig::new() };
        plant(&rig, FILES);
        let before = tree(&rig);
        moved(&rig, ALL, ["/old", "/new"], tree_hash(&rig, "/old")).unwrap();
        assert_eq!(tree(&rig), renamed(&before, "new"));
        moved(&rig, ALL, ["/new", "/x/y/new"], tree_hash(&rig, "/new")).unwrap();
        let mut expected = renamed(&before, "x/y/new");
        expected.extend([("x".to_owned(), "/".to_owned()), ("x/y".to_owned(), "/".to_owned())]);
        assert_eq!(tree(&rig), expected);
    }
}

#[test]
fn a_move_that_is_refused_leaves_everything_and_makes_no_folder() {
    let rig = planted();
    let (before, base) = (tree(&rig), tree_hash(&rig, "/old"));
    for (from, to, base, expected) in [
        ("/old", "/new/x", hash("wrong"), "stale"),
        ("/old", "/other.md", base, "already_exists"),
        ("/old/deep", "/old", tree_hash(&rig, "/old/deep"), "already_exists"),
        ("/old", "/old/deep/old", base, "invalid_argument"),
        ("/old", "/old", base, "invalid_argument"),
        ("/", "/new", base, "invalid_argument"),
        ("/none", "/new/x", base, "not_found"),
        ("/other.md", "/new/x", base, "not_a_directory"),
    ] {
        assert_eq!(code(moved(&rig, ALL, [from, to], base)), expected, "{from} {to}");
    }
    fs::create_dir(rig.file("taken")).unwrap();
    assert_eq!(code(moved(&rig, ALL, ["/old", "/taken"], base)), "already_exists");
    fs::remove_dir(rig.file("taken")).unwrap();
    assert_eq!(tree(&rig), before);
}

#[test]
fn the_hash_of_a_folder_is_of_all_that_it_holds_and_of_nothing_else() {
    let rig = planted();
    let base = tree_hash(&rig, "/old");
    rig.put("other.md", "changed");
    rig.put("old/.stile-0000000000000000-0.alive", "");
    assert_eq!(tree_hash(&rig, "/old"), base);
    let changes: [&dyn Fn(); 7] = [
        &|| rig.put("old/a.md", "A"),
        &|| rig.put("old/deep/new", ""),
        &|| fs::rename(rig.file("old/deep/c"), rig.file("old/deep/d")).unwrap(),
        &|| fs::remove_dir(rig.file("old/empty")).unwrap(),
        &|| fs::create_dir(rig.file("old/deep/empty")).unwrap(),
        &|| symlink("nowhere", rig.file("old/link")).unwrap(),
        &|| {
            use std::os::unix::ffi::OsStrExt as _;
            fs::write(rig.file("old").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        },
    ];
    let mut hashes = vec![base];
    for change in changes {
        change();
        hashes.push(tree_hash(&rig, "/old"));
    }
    let mut different = hashes.clone();
    different.sort_by_key(ToString::to_string);
    different.dedup();
    assert_eq!(different.len(), hashes.len());
    assert_eq!(code(tree_hash_for(&rig, ALL, "/other.md")), "not_a_directory");
}

#[test]
fn a_file_of_somebody_that_is_named_like_ours_moves_along_and_is_not_waited_for() {
    let rig = planted();
    fs::create_dir(rig.file("bare")).unwrap();
    for name in ["old/.stile-x", "bare/.stile-x.alive"] {
        rig.put(name, "mine");
    }
    assert_eq!(code(removed(&rig, "/bare", None)), "folder_not_empty");
    moved(&rig, ALL, ["/old", "/new"], tree_hash(&rig, "/old")).unwrap();
    assert_eq!(code(removed(&rig, "/new", Some(tree_hash(&rig, "/new")))), "not_kept");
    for name in ["new/.stile-x", "bare/.stile-x.alive"] {
        assert_eq!(fs::read_to_string(rig.file(name)).unwrap(), "mine");
    }
}

#[test]
fn only_who_may_read_all_of_a_folder_gets_its_hash_and_only_who_may_write_all_moves_it() {
    let rig = planted();
    let base = tree_hash(&rig, "/old");
    for claim in ["read:/old/deep/", "read:/old/*", "read:/ deny:/old/deep", "write:/other.md"] {
        assert_eq!(code(tree_hash_for(&rig, claim, "/old")), "insufficient_scope", "{claim}");
    }
    for claim in [
        "write:/old/ read:/new/", "write:/new/ read:/old/", "write:/old/* write:/new/",
        "write:/ deny:/old/deep", "write:/ deny:/new/x",
    ] {
        let refused = moved(&rig, claim, ["/old", "/new"], base);
        assert_eq!(code(refused), "insufficient_scope", "{claim}");
    }
    moved(&rig, "write:/old/ write:/new/", ["/old", "/new"], base).unwrap();
}

#[test]
fn a_guarded_file_counts_by_its_size_and_keeps_its_folder_where_it_is() {
    let rig = planted();
    rig.put("old/.env", "secret");
    let base = tree_hash(&rig, "/old");
    rig.put("old/.env", "SECRET");
    assert_eq!(tree_hash(&rig, "/old"), base, "the content is not hashed for a caller");
    assert_eq!(code(moved(&rig, ALL, ["/old", "/new"], base)), "guarded");
    assert_eq!(code(removed(&rig, "/old", Some(base))), "guarded");
    // Whoever may read the file gets a hash of its content too.
    let unguarded = "write:/ unguard:/old/.env";
    let base = tree_hash_for(&rig, unguarded, "/old").unwrap();
    assert_eq!(code(moved(&rig, unguarded, ["/old", "/new"], base)), "guarded");
    let unguarded = "write:/ unguard:/old/.env unguard:/new/.env";
    moved(&rig, unguarded, ["/old", "/new"], base).unwrap();
    assert_eq!(rig.text("new/.env"), "SECRET");
}

#[test]
fn a_path_that_becomes_guarded_keeps_its_folder_where_it_is() {
    let rig = Rig::new();
    plant(&rig, &[("old/plugins/a.js", "x")]);
    let base = tree_hash(&rig, "/old");
    let refused = moved(&rig, ALL, ["/old", "/.obsidian"], base).unwrap_err();
    assert_eq!((refused.code().0, refused.path()), ("guarded", Some(&path("/.obsidian/plugins"))));
    assert_eq!(rig.text("old/plugins/a.js"), "x");
}

#[test]
fn a_file_that_no_call_may_change_keeps_its_folder_where_it_is() {
    let rig = planted();
    fs::hard_link(rig.file("old/a.md"), rig.file("second")).unwrap();
    let base = tree_hash(&rig, "/old");
    assert_eq!(code(moved(&rig, ALL, ["/old", "/new"], base)), "hard_linked");
    fs::remove_file(rig.file("second")).unwrap();
    fs::set_permissions(rig.file("old/a.md"), fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(code(moved(&rig, ALL, ["/old", "/new"], base)), "not_permitted");
    fs::set_permissions(rig.file("old/a.md"), fs::Permissions::from_mode(0o644)).unwrap();
    moved(&rig, ALL, ["/old", "/new"], base).unwrap();
}

#[test]
fn a_folder_that_nobody_may_write_to_stays_where_it_is() {
    let rig = planted();
    let hash = tree_hash(&rig, "/old");
    fs::create_dir(rig.file("empty")).unwrap();
    let protect = |mode: u32| {
        for name in ["old", "empty"] {
            fs::set_permissions(rig.file(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    for mode in [0o555, 0o1500] {
        protect(mode);
        assert_eq!(code(moved(&rig, ALL, ["/old", "/new"], hash)), "not_permitted");
        assert_eq!(code(removed(&rig, "/old", Some(hash))), "not_permitted");
        assert_eq!(code(removed(&rig, "/empty", None)), "not_permitted");
    }
    protect(0o755);
    assert!(rig.file("empty").exists());
    removed(&rig, "/empty", None).unwrap();
}

#[test]
fn a_folder_that_somebody_changes_at_any_moment_moves_whole_or_not_at_all() {
    for moment in 0..200 {
        let rig = planted();
        let base = tree_hash(&rig, "/old");
        let (old, new) = (rig.file("old/deep/b.md"), rig.file("x/new/deep/b.md"));
        let saved = Arc::new(AtomicBool::new(false));
        let did = Arc::clone(&saved);
        // An editor saves the file where it is by then.
        fault::on_call(moment, move || {
            let there = if old.exists() { old } else { new };
            fs::write(there, "saved").unwrap();
            did.store(true, Ordering::Relaxed);
        });
        let done = moved(&rig, ALL, ["/old", "/x/new"], base);
        fault::on_call(u32::MAX, || {});
        let is_moved = rig.file("x/new").exists();
        assert_ne!(is_moved, rig.file("old").exists(), "{moment}");
        assert_eq!(is_moved, done.is_ok(), "{moment}");
        if !saved.load(Ordering::Relaxed) {
            done.unwrap();
            assert!(moment > 5, "a move has several moments");
            return;
        }
        let there = if is_moved { "x/new/deep/b.md" } else { "old/deep/b.md" };
        assert_eq!(rig.text(there), "saved", "{moment}");
        assert!(is_moved || code(done) == "stale", "{moment}");
        assert_eq!(rig.file("x").exists(), is_moved, "a folder that was made is removed again");
    }
    panic!("a move makes fewer calls");
}

#[test]
fn an_edit_that_began_before_a_move_is_in_the_folder_or_refused() {
    let rig = planted();
    let base = tree_hash(&rig, "/old");
    // The edit holds the lock of its folder when the move begins, and ends after the rename.
    let (handle, done) = (os::open_folder(&open_root(&rig), "old/deep").unwrap(), rig.file("new"));
    assert!(os::try_lock(&handle).unwrap());
    std::thread::scope(|scope| {
        let edit = scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(60);
            while !done.exists() && Instant::now() < until {
                std::thread::yield_now();
            }
            fs::write(done.join("deep/b.md"), "edited").unwrap();
            os::unlock(&handle);
        });
        assert_eq!(code(moved(&rig, ALL, ["/old", "/new"], base)), "stale");
        edit.join().unwrap();
    });
    assert_eq!(rig.text("old/deep/b.md"), "edited");
}

fn open_root(rig: &Rig) -> os::Handle {
    os::open_root(rig.folder.path()).unwrap()
}

#[test]
fn a_fault_at_any_call_leaves_a_folder_whole_at_one_place() {
    for after in 0..100 {
        let rig = planted();
        let (before, base) = (tree(&rig), tree_hash(&rig, "/old"));
        fault::arm(after, 5);
        let done = moved(&rig, ALL, ["/old", "/new"], base);
        let is_pending = fault::disarm();
        let is_moved = rig.file("new").exists();
        let expected = if is_moved { renamed(&before, "new") } else { before };
        assert_eq!(tree(&rig), expected, "{after}");
        let is_unknown = matches!(done, Err(Refusal::UnknownOutcome { .. }));
        assert!(is_unknown || is_moved == done.is_ok(), "{after}: {done:?}");
        if is_pending {
            return;
        }
    }
    panic!("a move makes fewer calls");
}

#[test]
fn the_files_of_a_folder_that_moves_are_recorded_as_changes_of_one_call() {
    let rig = Kept::new();
    plant(&rig.rig, FILES);
    moved(&rig.rig, ALL, ["/old", "/new"], tree_hash(&rig.rig, "/old")).unwrap();
    let (folders, changes) = by_kind(rig.changes());
    let call = changes[0].call;
    assert!(changes.iter().all(|change| change.kind == PastChangeKind::Moved));
    // The folder comes last, so that an undo begins with it.
    let told: Vec<_> = folders.iter().map(PastChange::in_words).collect();
    assert_eq!(told, ["moved folder /old to /new", "moved folder /old/deep to /new/deep"]);
    assert!(folders.iter().all(|it| it.call == call && it.number > changes[0].number));
    assert!(changes.iter().all(|change| change.call == call && change.before == change.after));
    let mut moves: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_string(), change.to.as_ref().unwrap().to_string()))
        .collect();
    moves.sort();
    let expected = ["/.hidden", "/a.md", "/deep/b.md", "/deep/c"]
        .map(|name| (format!("/old{name}"), format!("/new{name}")));
    assert_eq!(moves, expected);
    // A refused move leaves no record.
    assert_eq!(
        code(moved(&rig.rig, ALL, ["/new", "/other.md"], tree_hash(&rig.rig, "/new"))),
        "already_exists"
    );
    assert_eq!(rig.changes().len(), 6);
}

/// Parts the changes of folders from those of files.
fn by_kind(changes: Vec<PastChange>) -> (Vec<PastChange>, Vec<PastChange>) {
    changes.into_iter().partition(|change| change.kind.is_of_folder())
}

#[test]
fn a_change_of_a_folder_knows_its_mode_and_what_it_held_beside_files() {
    use std::os::unix::ffi::OsStrExt as _;
    let rig = Kept::new();
    plant(&rig.rig, FILES);
    symlink("nowhere", rig.rig.file("old/link")).unwrap();
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(rig.rig.file("old").join(latin), "").unwrap();
    fs::create_dir(rig.rig.file("old/back\\slash")).unwrap();
    fs::set_permissions(rig.rig.file("old"), fs::Permissions::from_mode(0o1750)).unwrap();
    moved(&rig.rig, ALL, ["/old", "/new"], tree_hash(&rig.rig, "/old")).unwrap();
    let (folders, _) = by_kind(rig.changes());
    let known = rig.history.past_folders(&folders).unwrap();
    let folder = &known[&folders[0].number];
    assert_eq!(folder.mode, 0o1750);
    assert_eq!(folder.rest.keys().collect::<Vec<_>>(), ["back\\slash", "caf%E9", "link"]);
    assert!(known[&folders[1].number].rest.is_empty());
}

#[test]
fn empty_folders_are_recorded_when_they_are_made_and_when_they_go() {
    let rig = Kept::new();
    let mut made = Vec::new();
    rig.rig.inner().change(|change| change.create_folder(&path("/x/y"), &mut made)).unwrap();
    removed(&rig.rig, "/x/y", None).unwrap();
    removed(&rig.rig, "/x", Some(tree_hash(&rig.rig, "/x"))).unwrap();
    let told =
        |rig: &Kept| rig.changes().iter().rev().map(PastChange::in_words).collect::<Vec<_>>();
    let expected =
        ["created folder /x", "created folder /x/y", "removed folder /x/y", "removed folder /x"];
    assert_eq!(told(&rig), expected);
    // What a refused call made in between leaves no record.
    rig.rig.put("taken", "x");
    let wrong = hash("wrong");
    let refused = rig.rig.inner().change(|change| {
        change.move_file(&path("/taken"), wrong, &path("/z/taken"), &mut Vec::new())
    });
    assert_eq!(code(refused), "stale");
    assert!(!rig.rig.file("z").exists());
    assert_eq!(told(&rig), expected);
}

#[test]
fn a_folder_is_given_back_with_what_has_no_path_or_as_far_as_a_fault_lets_it() {
    for after in 0..60 {
        let rig = planted();
        symlink("one", rig.file("old/link")).unwrap();
        rig.put("old/back\\slash", "b");
        let permit = |name: &str| principal(ALL).gate().permit::<Edit>(&path(name)).unwrap();
        let now = rig.inner().root.open_folder(&path("/old")).unwrap();
        let rest = folder_rest::contents(&now, &path("/old")).unwrap().rest;
        assert_eq!(rest.len(), 2);
        let (folder, from) = (permit("/back"), permit("/old"));
        let given = PastFolder { mode: 0o711, rest };
        fault::arm(after, 5);
        let mut made = Vec::new();
        let done = rig.inner().change(|change| {
            change.give_folder((folder.path(), Some(from.path())), &given, &mut made)
        });
        let is_pending = fault::disarm();
        // Each is in one place, whatever happens.
        for name in ["link", "back\\slash"] {
            let places =
                ["old", "back"].map(|at| rig.file(at).join(name).symlink_metadata().is_ok());
            assert_ne!(places[0], places[1], "{after} {name}: {done:?}");
            assert!(done.is_err() || places[1], "{after} {name}: {done:?}");
        }
        if is_pending {
            let mode = rig.file("back").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o711);
            return;
        }
    }
    panic!("giving a folder back makes fewer calls");
}

#[test]
fn a_folder_is_removed_with_its_files_only_after_the_history_has_all_of_them() {
    let rig = Kept::new();
    plant(&rig.rig, FILES);
    let base = tree_hash(&rig.rig, "/old");
    let before = tree(&rig.rig);
    assert_eq!(code(removed(&rig.rig, "/old", None)), "folder_not_empty");
    assert_eq!(code(removed(&rig.rig, "/old", Some(hash("wrong")))), "stale");
    symlink("nowhere", rig.rig.file("old/link")).unwrap();
    let with_link = tree_hash(&rig.rig, "/old");
    assert_eq!(code(removed(&rig.rig, "/old", Some(with_link))), "not_kept");
    fs::remove_file(rig.rig.file("old/link")).unwrap();
    assert_eq!(tree(&rig.rig), before);
    assert_eq!(rig.changes().len(), 0);
    removed(&rig.rig, "/old", Some(base)).unwrap();
    assert_eq!(tree(&rig.rig), BTreeMap::from([("other.md".to_owned(), "o".to_owned())]));
    let (folders, changes) = by_kind(rig.changes());
    assert_eq!((folders.len(), changes.len()), (2, 4));
    let call = changes[0].call;
    for change in &changes {
        assert_eq!((change.kind, change.call), (PastChangeKind::Removed, call));
        let kept = rig.history.bytes_of(&change.path, change.before.unwrap(), None, 1024);
        let name = change.path.as_str().trim_start_matches('/');
        assert_eq!(kept.unwrap(), before[name].as_bytes(), "{name}");
    }
    rig.rig.inner().keeper.close();
    assert_eq!(rig.rig.hidden(), Vec::<String>::new());
    assert_eq!(rig.rig.visible(), ["other.md"]);
}

#[test]
fn a_folder_with_files_stays_where_there_is_no_history_or_it_cannot_keep_them() {
    let rig = planted();
    let (before, base) = (tree(&rig), tree_hash(&rig, "/old"));
    assert_eq!(code(removed(&rig, "/old", Some(base))), "not_kept");
    assert_eq!(tree(&rig), before);
    let kept = Kept::new();
    plant(&kept.rig, FILES);
    kept.history.break_for_test();
    let base = tree_hash(&kept.rig, "/old");
    assert_eq!(code(removed(&kept.rig, "/old", Some(base))), "not_kept");
    assert_eq!(kept.rig.text("old/deep/b.md"), "b");
    // An empty folder needs no history.
    fs::create_dir(rig.file("old/empty/e")).unwrap();
    let empty = tree_hash(&rig, "/old/empty/e");
    removed(&rig, "/old/empty/e", Some(empty)).unwrap();
    assert!(!rig.file("old/empty/e").exists());
}

#[test]
fn a_kill_at_any_moment_of_a_removal_leaves_each_file_in_the_folder_or_in_the_history() {
    for moment in 0..200 {
        let rig = Kept::new();
        plant(&rig.rig, FILES);
        let base = tree_hash(&rig.rig, "/old");
        let killed = tempfile::tempdir().unwrap();
        let (from, to) = (rig.rig.folder.path().to_owned(), killed.path().to_owned());
        let reached = Arc::new(AtomicBool::new(false));
        let did = Arc::clone(&reached);
        fault::on_call(moment, move || {
            copy_tree(&from, &to);
            did.store(true, Ordering::Relaxed);
        });
        removed(&rig.rig, "/old", Some(base)).unwrap();
        fault::on_call(u32::MAX, || {});
        if !reached.load(Ordering::Relaxed) {
            assert!(moment > 10, "a removal has many moments");
            return;
        }
        let again = Rig::on_any(killed);
        let (left, recorded) = (tree(&again), rig.changes());
        assert_eq!(again.hidden(), Vec::<String>::new(), "{moment}");
        for (name, text) in FILES {
            let is_there = left.get(*name).is_some_and(|now| now == text);
            let is_recorded =
                recorded.iter().any(|change| change.path.as_str().trim_start_matches('/') == *name);
            assert!(is_there || is_recorded, "{moment}: {name} {left:?}");
        }
        assert!(left.keys().all(|name| !name.contains("conflict")), "{moment}: {left:?}");
    }
    panic!("a removal makes fewer calls");
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
fn a_save_at_any_moment_of_the_removal_of_a_folder_is_kept() {
    for moment in 0..200 {
        let rig = Kept::new();
        plant(&rig.rig, FILES);
        let base = tree_hash(&rig.rig, "/old");
        // A program has the file open, and writes to it at this moment.
        let file = fs::File::options().write(true).open(rig.rig.file("old/deep/b.md")).unwrap();
        let saved = Arc::new(AtomicBool::new(false));
        let did = Arc::clone(&saved);
        fault::on_call(moment, move || {
            use std::os::unix::fs::FileExt as _;
            file.write_all_at(b"saved", 0).unwrap();
            did.store(true, Ordering::Relaxed);
        });
        let done = removed(&rig.rig, "/old", Some(base));
        fault::on_call(u32::MAX, || {});
        rig.rig.inner().keeper.close();
        if !saved.load(Ordering::Relaxed) {
            done.unwrap();
            return;
        }
        let texts: Vec<String> = tree(&rig.rig).into_values().collect();
        assert!(texts.contains(&"saved".to_owned()), "{moment}: {texts:?} {done:?}");
    }
    panic!("a removal makes fewer calls");
}

#[test]
fn a_folder_that_holds_too_much_is_refused() {
    let rig = Rig::new();
    fs::create_dir(rig.file("many")).unwrap();
    for number in 0..=stile_domain::limits::MAX_TREE_ENTRIES {
        fs::create_dir(rig.file(&format!("many/{number}"))).unwrap();
    }
    assert_eq!(code(tree_hash_for(&rig, ALL, "/many")), "too_large");
    fs::remove_dir(rig.file("many/0")).unwrap();
    tree_hash(&rig, "/many");
}
