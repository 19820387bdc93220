//! Tests of the notes of a space: what is listed, what is certainly gone, and what is watched.

#![expect(clippy::disallowed_methods, reason = "a test is its own owner")]

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use stile_domain::limits::FileLimits;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;

use super::super::tests::Rig;
use super::*;

/// Longer than a round of comparison takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn rig() -> (Rig, NoteFolder) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("work/deep")).unwrap();
    let rig = Rig::on(folder, FileLimits::default());
    let ann = Principal::assert_verified("ann", None, None, Scopes::none(), RecordsClaim::Owner);
    let notes = rig.space.note_folder(&ann.gate().owner().unwrap()).unwrap();
    (rig, notes)
}

fn path(text: &str) -> SpacePath {
    SpacePath::parse(text).unwrap()
}

#[test]
fn a_listing_has_the_notes_and_folders_that_the_space_shows() {
    let (rig, notes) = rig();
    let at = |name: &str| rig.folder.path().join("work").join(name);
    for name in ["a.md", "B.MARKDOWN", "c.txt", ".hidden.md", ".stile-x.md", "back\\slash.md"] {
        fs::write(at(name), name).unwrap();
    }
    for name in [".git", "node_modules", "x.md"] {
        fs::create_dir(at(name)).unwrap();
    }
    symlink(at("a.md"), at("link.md")).unwrap();
    symlink(at("deep"), at("linked")).unwrap();
    let found = notes.list(&path("/work")).unwrap().unwrap();
    let names = |found: &[(SpacePath, FileStamp)]| {
        let mut names: Vec<_> = found.iter().map(|(path, _)| path.as_str().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&found.notes), ["/work/B.MARKDOWN", "/work/a.md"]);
    assert_eq!(names(&found.folders), ["/work/deep", "/work/x.md"]);
    assert_eq!(found.unnameable, 1, "the one with a backslash");
    for absent in ["/none", "/work/a.md", "/work/linked"] {
        assert!(notes.list(&path(absent)).unwrap().is_none(), "{absent}");
    }
}

#[test]
fn a_note_is_gone_if_nothing_or_something_else_is_there() {
    let (rig, notes) = rig();
    let at = |name: &str| rig.folder.path().join(name);
    fs::write(at("a.md"), "").unwrap();
    fs::write(at("a.txt"), "").unwrap();
    fs::write(at(".a.md"), "").unwrap();
    fs::create_dir(at("folder.md")).unwrap();
    fs::create_dir(at("node_modules")).unwrap();
    fs::write(at("node_modules/a.md"), "").unwrap();
    symlink(at("a.md"), at("link.md")).unwrap();
    symlink(at("work"), at("linked")).unwrap();
    fs::write(at("work/b.md"), "").unwrap();
    assert!(!notes.is_gone(&path("/a.md")) && !notes.is_gone(&path("/work/b.md")));
    for gone in [
        "/none.md", "/none/a.md", "/a.txt", "/.a.md", "/folder.md", "/node_modules/a.md",
        "/link.md", "/linked/b.md", "/a.md/b.md", "/",
    ] {
        assert!(notes.is_gone(&path(gone)), "{gone}");
    }
    assert!(notes.open(&path("/link.md")).is_err() && notes.open(&path("/linked/b.md")).is_err());
}

#[test]
fn a_folder_that_was_moved_away_is_refused() {
    let (rig, notes) = rig();
    notes.check().unwrap();
    let away = rig.folder.path().with_extension("away");
    fs::rename(rig.folder.path(), &away).unwrap();
    assert_eq!(notes.check().unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::create_dir(rig.folder.path()).unwrap();
    assert!(notes.check().is_err(), "another folder is there");
    fs::remove_dir(rig.folder.path()).unwrap();
    fs::rename(&away, rig.folder.path()).unwrap();
    notes.check().unwrap();
}

async fn changed(watch: &NoteWatch) -> Vec<String> {
    loop {
        tokio::time::timeout(LONG, watch.changed()).await.expect("nothing was reported");
        let folders = watch.take();
        if !folders.is_empty() {
            return folders.iter().map(|folder| folder.as_str().to_owned()).collect();
        }
    }
}

#[tokio::test]
async fn a_watch_says_which_of_its_folders_changed() {
    let (rig, notes) = rig();
    let watch = notes.watch();
    for folder in ["/", "/work"] {
        watch.add(&path(folder));
    }
    assert!(watch.take().is_empty(), "nothing has changed yet");
    let at = |name: &str| rig.folder.path().join(name);
    fs::write(at("work/a.md"), "").unwrap();
    assert_eq!(changed(&watch).await, ["/work"]);
    fs::write(at("work/deep/a.md"), "").unwrap();
    fs::write(at("b.md"), "").unwrap();
    assert_eq!(changed(&watch).await, ["/"], "nobody watches the deep folder");
    // A watch of a client is no watch of the tree, and is counted apart.
    watch.remove(&path("/"));
    assert!(watch.ids().is_empty() && rig.space.made_inner().changes.lock().watches.is_empty());
    watch.add(&path("/work"));
    drop(watch);
    assert!(rig.space.made_inner().changes.lock().watches.is_empty(), "a dropped watch ends");
}

#[tokio::test]
async fn a_folder_in_the_place_of_another_is_watched_once_it_is_added_again() {
    let (rig, notes) = rig();
    let watch = notes.watch();
    watch.add(&path("/work"));
    let at = |name: &str| rig.folder.path().join(name);
    fs::rename(at("work"), at("old")).unwrap();
    fs::create_dir(at("work")).unwrap();
    watch.add(&path("/work"));
    while !watch.take().is_empty() {}
    fs::write(at("work/a.md"), "").unwrap();
    assert_eq!(changed(&watch).await, ["/work"]);
}

#[tokio::test]
async fn lost_events_mark_every_folder() {
    let (rig, notes) = rig();
    let watch = notes.watch();
    for folder in ["/", "/work", "/work/deep"] {
        watch.add(&path(folder));
    }
    // Nobody takes events while the table is locked, and these are more than the kernel keeps. The
    // names alternate, so that none are joined.
    let table = rig.space.made_inner().changes.lock();
    for n in 0..10_000 {
        fs::write(rig.folder.path().join("a.md"), format!("{n}")).unwrap();
        fs::write(rig.folder.path().join("b.md"), format!("{n}")).unwrap();
    }
    drop(table);
    let mut marked = BTreeSet::new();
    while marked.len() < 3 {
        marked.extend(changed(&watch).await);
    }
    assert_eq!(marked.into_iter().collect::<Vec<_>>(), ["/", "/work", "/work/deep"]);
}
