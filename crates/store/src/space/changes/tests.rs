//! Tests of watches: every change wakes who may know of it, and nobody else.

#![expect(clippy::disallowed_methods, reason = "a test is its own verified caller")]

use std::fs;
use std::time::Duration;

use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;

use super::super::change_feed::MAX_WATCHES_PER_SUBJECT;
use super::super::tests::Rig;
use super::*;

/// Longer than a round of comparison takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("work/deep")).unwrap();
    fs::write(folder.path().join("work/plan.md"), "plan\n").unwrap();
    Rig::on(folder, FileLimits::default())
}

async fn try_watch(rig: &Rig, path: &str, scopes: &str) -> Result<Watch, WatchRefused> {
    let scopes = Scopes::from_claim(scopes);
    let ann = Principal::assert_verified("ann", None, None, scopes, RecordsClaim::None);
    let permit = ann.gate().permit::<List>(&SpacePath::parse(path).unwrap()).unwrap();
    rig.space.watch(permit, "ann").await
}

async fn watch(rig: &Rig, path: &str, scopes: &str) -> Watch {
    try_watch(rig, path, scopes).await.unwrap()
}

/// Waits until a watch is woken.
async fn woken(watch: &Watch) {
    tokio::time::timeout(LONG, watch.changed()).await.expect("the watch was not woken");
}

/// Returns whether a watch was woken since the last look.
async fn was_woken(watch: &Watch) -> bool {
    tokio::time::timeout(Duration::ZERO, watch.changed()).await.is_ok()
}

#[tokio::test]
async fn a_folder_wakes_for_its_children_and_for_no_others() {
    let rig = rig();
    let (work, deep) = (watch(&rig, "/work", "read:/").await, watch(&rig, "/work/deep", "read:/"));
    let deep = deep.await;
    assert!(!was_woken(&work).await && !was_woken(&deep).await, "nothing has changed yet");
    let at = |name: &str| rig.folder.path().join("work").join(name);
    let changes: [&dyn Fn(); 5] = [
        &|| fs::write(at("new.md"), "").unwrap(),
        &|| fs::write(at("new.md"), "longer").unwrap(),
        &|| fs::rename(at("new.md"), at("other.md")).unwrap(),
        &|| fs::remove_file(at("other.md")).unwrap(),
        &|| fs::create_dir(at("folder")).unwrap(),
    ];
    for change in changes {
        change();
        woken(&work).await;
    }
    // A change may wake twice, so the old watch may still be woken.
    let work = watch(&rig, "/work", "read:/").await;
    fs::write(at("deep/a.md"), "").unwrap();
    woken(&deep).await;
    assert!(!was_woken(&work).await, "a listing has no grandchildren");
}

#[tokio::test]
async fn a_file_wakes_for_itself_alone() {
    let rig = rig();
    let plan = watch(&rig, "/work/plan.md", "read:/work/plan.md").await;
    let work = watch(&rig, "/work", "read:/").await;
    let at = |name: &str| rig.folder.path().join("work").join(name);
    fs::write(at("other.md"), "").unwrap();
    woken(&work).await;
    assert!(!was_woken(&plan).await);
    // As editors save: another file takes its place.
    fs::write(at("plan.tmp"), "new plan\n").unwrap();
    fs::rename(at("plan.tmp"), at("plan.md")).unwrap();
    woken(&plan).await;
    fs::remove_file(at("plan.md")).unwrap();
    woken(&plan).await;
    fs::write(at("plan.md"), "again\n").unwrap();
    woken(&plan).await;
}

#[tokio::test]
async fn what_the_scopes_hide_wakes_nobody() {
    let rig = rig();
    let part = watch(&rig, "/work", "read:/ deny:/work/secret").await;
    let all = watch(&rig, "/work", "read:/").await;
    let at = |name: &str| rig.folder.path().join("work").join(name);
    for _ in 0..3 {
        fs::write(at("secret"), "x").unwrap();
        woken(&all).await;
        fs::remove_file(at("secret")).unwrap();
        woken(&all).await;
    }
    // A whole round of comparisons takes place as well.
    rig.space.made_inner().changes.compare_all(rig.space.made_inner());
    assert!(!was_woken(&part).await);
    fs::write(at("open.md"), "").unwrap();
    woken(&part).await;
}

#[tokio::test]
async fn an_edit_of_the_server_wakes_once_it_is_made() {
    let rig = rig();
    let plan = watch(&rig, "/work/plan.md", "read:/").await;
    rig.replace("/work/plan.md", "plan\n", "plan", "better").unwrap();
    woken(&plan).await;
}

#[tokio::test]
async fn a_folder_that_is_removed_or_replaced_is_watched_again() {
    let rig = rig();
    let work = watch(&rig, "/work", "read:/").await;
    let root = rig.folder.path();
    fs::rename(root.join("work"), root.join("away")).unwrap();
    woken(&work).await;
    fs::create_dir(root.join("work")).unwrap();
    woken(&work).await;
    // The comparison that woke the watch has the new folder watched.
    while was_woken(&work).await {}
    fs::write(root.join("work/a.md"), "").unwrap();
    woken(&work).await;
}

#[tokio::test]
async fn changes_without_events_are_found_by_comparison() {
    let rig = rig();
    let work = watch(&rig, "/work", "read:/").await;
    let part = watch(&rig, "/work", "read:/ deny:/work/secret").await;
    let feed = &rig.space.made_inner().changes;
    feed.lock().events = None;
    // The loss of the kernel's watches wakes, too.
    feed.compare_all(rig.space.made_inner());
    assert!(was_woken(&work).await && was_woken(&part).await);
    fs::write(rig.folder.path().join("work/secret"), "").unwrap();
    feed.compare_all(rig.space.made_inner());
    woken(&work).await;
    assert!(!was_woken(&part).await);
    fs::write(rig.folder.path().join("work/new.md"), "").unwrap();
    feed.compare_all(rig.space.made_inner());
    woken(&part).await;
}

#[tokio::test]
async fn a_storm_of_changes_is_one_wake_with_the_last_state() {
    let rig = rig();
    let work = watch(&rig, "/work", "read:/").await;
    let file = rig.folder.path().join("work/plan.md");
    // More events than the kernel keeps, of names that alternate, so that none are joined.
    let other = rig.folder.path().join("work/other.md");
    for n in 0..10_000 {
        fs::write(&file, format!("{n}")).unwrap();
        fs::write(&other, "").unwrap();
    }
    woken(&work).await;
    while was_woken(&work).await {}
    fs::write(&file, "last").unwrap();
    woken(&work).await;
}

#[tokio::test]
async fn watches_are_bounded_and_end_when_they_are_dropped() {
    let rig = rig();
    let mut watches = Vec::new();
    for _ in 0..MAX_WATCHES_PER_SUBJECT {
        watches.push(watch(&rig, "/work", "read:/").await);
    }
    let refused = try_watch(&rig, "/work", "read:/").await;
    assert!(matches!(refused, Err(WatchRefused::TooMany)));
    drop(watches);
    let feed = &rig.space.made_inner().changes;
    assert!(feed.lock().watches.is_empty() && feed.lock().by_folder.is_empty());
    watch(&rig, "/work", "read:/").await;
}

#[tokio::test]
async fn what_is_not_there_is_not_watched() {
    let rig = rig();
    std::os::unix::fs::symlink("plan.md", rig.folder.path().join("work/link")).unwrap();
    for path in ["/none", "/work/none.md", "/work/plan.md/x", "/work/link"] {
        let refused = try_watch(&rig, path, "read:/").await;
        assert!(matches!(refused, Err(WatchRefused::Refused(_))), "{path}");
    }
}

#[tokio::test]
async fn a_hidden_parent_that_cannot_be_entered_is_refused_like_an_absent_one() {
    let mut told = Vec::new();
    for parent in ["absent", "file", "link"] {
        let rig = rig();
        let hidden = rig.folder.path().join("hidden");
        match parent {
            "file" => fs::write(hidden, "x").unwrap(),
            "link" => std::os::unix::fs::symlink("work", hidden).unwrap(),
            _ => {}
        }
        for path in ["/hidden/plan.md", "/hidden/deep/x"] {
            let Err(WatchRefused::Refused(refusal)) =
                try_watch(&rig, path, &format!("read:{path}")).await
            else {
                panic!("{parent}: {path} is watched");
            };
            told.push((path, format!("{refusal:?}")));
        }
    }
    assert_eq!(told[..2], told[2..4]);
    assert_eq!(told[..2], told[4..]);
}
