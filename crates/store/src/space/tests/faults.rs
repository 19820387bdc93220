//! Failing calls, unfinished work of another process, and syncs.

use super::*;

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
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_secs(1),
        events: Arc::new(|_| panic!("no event was expected")),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    Space::open_ambient(rig.folder.path(), options).unwrap();
    assert_eq!(rig.hidden(), before);
}
