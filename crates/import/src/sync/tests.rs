//! Tests of the sync: the records are always those of a fresh import, and the guards hold.

#![expect(clippy::disallowed_methods, reason = "a test makes its own files")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value as Json;
use stile_domain::records::identifiers::SourceName;
use stile_records::operations::Operation;
use stile_store::space::SpaceOptions;

use super::*;
use crate::rig::{Rig, owner, recognised, rig, target};

struct World {
    rig: Rig,
    space: Space,
}

impl World {
    fn new(files: &[&str]) -> Self {
        let rig = rig();
        fs::create_dir(rig.folder.path().join("notes")).unwrap();
        for name in files {
            rig.write(&format!("notes/{name}"), format!("# {name}\n"));
        }
        let space = Space::open_ambient_to_read(
            &rig.folder.path().join("notes"),
            SpaceOptions::of_import(),
        );
        Self { space: space.unwrap(), rig }
    }

    fn folder(&self) -> PathBuf {
        self.rig.folder.path().join("notes")
    }

    fn open(&self) -> Result<NoteSync, SyncError> {
        NoteSync::open(self.rig.services.clone(), owner(), target(), &self.space)
    }

    fn first(&self, guard: RemovalGuard) -> Result<SyncReport, SyncError> {
        self.open()?.sync_first(guard, Instant(7), &mut |_| ())
    }

    fn records(&self, stream: &str) -> Vec<(String, Json)> {
        if !self.rig.streams().iter().any(|own| own["name"] == stream) {
            return Vec::new();
        }
        let query = [("limit", "100"), ("order", "asc")];
        let list = self.rig.get(Operation::ListRecords, stream, "", &query);
        let rows = list["data"].as_array().unwrap().iter();
        let mut rows: Vec<_> =
            rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row["data"].clone())).collect();
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        rows
    }

    fn keys(&self) -> Vec<String> {
        self.records("s").into_iter().map(|(key, _)| key).collect()
    }

    /// Imports the folder into a new stream.
    fn fresh(&self, stream: &str) -> Vec<(String, Json)> {
        let connection = SourceName::parse("fresh").unwrap();
        let target = ImportTarget { connection, stream: SourceName::parse(stream).unwrap() };
        let import = Import {
            services: &self.rig.services,
            caller: &owner(),
            target: &target,
            key: &[],
            reading: &ReadingOptions::default(),
            bad_rows: BadRowPolicy::Skip,
            now: Instant(7),
            text_reader: None,
            on_rejected: None,
        };
        import.run(&[recognised(&self.folder())], &mut |_| ()).unwrap();
        self.records(stream)
    }

    /// How many records a search finds.
    fn hits(&self, query: &str) -> usize {
        let found = self.rig.get(Operation::Search, "", "", &[("q", query)]);
        found["data"].as_array().unwrap().len()
    }
}

/// Where the steps of a random sequence happen. `b` is a folder in some sequences and a note's
/// folder in others; `c.md` can be either.
const NAMES: [&str; 7] =
    ["a.md", "b/a.md", "b/c/a.md", "b-c.md", "c.md", "c.md/x.md", "b/c/ä ö.markdown"];
const FOLDERS: [&str; 4] = ["b", "b/c", "c.md", "d"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, &'static [u8]),
    Remove(usize),
    Rename(usize, usize),
    RenameFolder(usize, usize),
    RemoveFolder(usize),
    SyncChanged,
    SyncAgain,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    let folder = 0..FOLDERS.len();
    let text = prop::sample::select(&[
        b"# One\n" as &[u8],
        b"---\ntags: [x]\n---\nother words\n",
        b"",
        b"not \xff UTF-8",
    ]);
    prop_oneof![
        4 => (name.clone(), text).prop_map(|(name, text)| Step::Write(name, text)),
        2 => name.clone().prop_map(Step::Remove),
        2 => (name.clone(), name).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (folder.clone(), folder.clone()).prop_map(|(from, to)| Step::RenameFolder(from, to)),
        1 => folder.prop_map(Step::RemoveFolder),
        3 => Just(Step::SyncChanged),
        1 => Just(Step::SyncAgain),
        1 => Just(Step::Restart),
    ]
}

/// Takes a step on the files, if it is possible now. Returns the paths that it touched.
fn take(root: &Path, step: &Step) -> Vec<&'static str> {
    match *step {
        Step::Write(name, text) => {
            let path = root.join(NAMES[name]);
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let _ = fs::write(path, text);
            }
            vec![NAMES[name]]
        }
        Step::Remove(name) => {
            let _ = fs::remove_file(root.join(NAMES[name]));
            vec![NAMES[name]]
        }
        Step::Rename(from, to) => {
            let _ = fs::rename(root.join(NAMES[from]), root.join(NAMES[to]));
            vec![NAMES[from], NAMES[to]]
        }
        Step::RenameFolder(from, to) => {
            if root.join(FOLDERS[from]).is_dir() {
                let _ = fs::rename(root.join(FOLDERS[from]), root.join(FOLDERS[to]));
            }
            vec![FOLDERS[from], FOLDERS[to]]
        }
        Step::RemoveFolder(folder) => {
            if root.join(FOLDERS[folder]).is_dir() {
                fs::remove_dir_all(root.join(FOLDERS[folder])).unwrap();
            }
            vec![FOLDERS[folder]]
        }
        Step::SyncChanged | Step::SyncAgain | Step::Restart => Vec::new(),
    }
}

/// The folders in which a change of this path, and of the folders on the way, is an event.
fn parents(path: &str) -> Vec<SpacePath> {
    let whole = SpacePath::parse(&format!("/{path}")).unwrap();
    std::iter::successors(whole.split().map(|(parent, _)| parent), |path| {
        path.split().map(|(parent, _)| parent)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn after_a_sync_the_records_are_those_of_a_fresh_import(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let world = World::new(&[]);
        let mut sync = world.open().unwrap();
        sync.sync_first(RemovalGuard::RemoveAll, Instant(7), &mut |_| ()).unwrap();
        let mut events = BTreeSet::new();
        let steps = steps.into_iter().chain([Step::SyncChanged, Step::Restart]);
        for (index, step) in steps.enumerate() {
            events.extend(take(&world.folder(), &step).into_iter().flat_map(parents));
            match step {
                Step::SyncChanged => {
                    sync.sync_folders(std::mem::take(&mut events), Instant(8)).unwrap();
                }
                Step::SyncAgain => {
                    events.clear();
                    sync.sync_again(Instant(8)).unwrap();
                }
                Step::Restart => {
                    events.clear();
                    sync = world.open().unwrap();
                    sync.sync_first(RemovalGuard::RemoveAll, Instant(8), &mut |_| ()).unwrap();
                }
                _ => continue,
            }
            prop_assert_eq!(world.records("s"), world.fresh(&format!("f{index}")));
        }
    }
}

#[test]
fn a_renamed_and_a_deleted_note_are_removed_and_no_search_finds_them() {
    let world = World::new(&["ferns.md", "moss.md", "work/plan.md"]);
    let report = world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    assert_eq!((report.import.added, report.removed), (3, 0));
    let mut other = world.rig.write("other.jsonl", "{\"id\":\"moss.md\",\"text\":\"moss\"}\n");
    let inputs = [recognised(&other)];
    for stream in ["s", "t"] {
        let (connection, stream) =
            (SourceName::parse("d").unwrap(), SourceName::parse(stream).unwrap());
        let target = ImportTarget { connection, stream };
        let import = Import {
            services: &world.rig.services,
            caller: &owner(),
            target: &target,
            key: &[],
            reading: &ReadingOptions::default(),
            bad_rows: BadRowPolicy::Skip,
            now: Instant(7),
            text_reader: None,
            on_rejected: None,
        };
        import.run(&inputs, &mut |_| ()).unwrap();
    }
    assert_eq!((world.hits("moss"), world.hits("plan")), (3, 1));
    other = world.folder();
    fs::remove_file(other.join("moss.md")).unwrap();
    fs::rename(other.join("work/plan.md"), other.join("work/done.md")).unwrap();
    let report = world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    assert_eq!(report.removed_notes, ["moss.md", "work/plan.md"]);
    assert_eq!(report.import.added, 1);
    // The records of another connection and of another stream have the same key, and stay.
    assert_eq!(world.hits("moss"), 2);
    assert_eq!(world.hits("plan"), 1, "the renamed note has the same text");
    let again = world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    assert!(!again.has_changes() && again.import.unchanged == 2, "{again:?}");
}

#[test]
fn a_sync_reads_only_the_notes_whose_files_changed() {
    let world = World::new(&["a.md", "b.md", "c/d.md"]);
    let mut sync = world.open().unwrap();
    sync.sync_first(RemovalGuard::RefuseToRemoveAll, Instant(7), &mut |_| ()).unwrap();
    world.rig.write("notes/b.md", "# New\n");
    let report = sync.sync_again(Instant(8)).unwrap();
    assert_eq!(report.read_notes, ["b.md"]);
    assert_eq!(report.import.changed, 1);
    let again = sync.sync_again(Instant(8)).unwrap();
    assert!(!again.has_changes() && again.read_notes.is_empty() && again.problems().is_empty());
}

#[test]
fn a_first_sync_that_leaves_no_stored_record_changes_nothing_without_the_owners_word() {
    let world = World::new(&["a.md", "b.md"]);
    world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    for name in ["a.md", "b.md"] {
        fs::remove_file(world.folder().join(name)).unwrap();
    }
    for other in [None, Some("other.md")] {
        if let Some(name) = other {
            world.rig.write(&format!("notes/{name}"), "x");
        }
        // However often it is run.
        for _ in 0..2 {
            let refused = world.first(RemovalGuard::RefuseToRemoveAll).unwrap_err();
            assert!(matches!(refused, SyncError::WouldRemoveAll { stored: 2 }), "{refused}");
            assert_eq!(world.keys(), ["a.md", "b.md"]);
        }
    }
    assert_eq!(world.first(RemovalGuard::RemoveAll).unwrap().removed, 2);
    assert_eq!(world.keys(), ["other.md"]);
}

#[test]
fn a_sync_that_runs_follows_the_removal_of_every_note() {
    let world = World::new(&["a.md"]);
    let mut sync = world.open().unwrap();
    sync.sync_first(RemovalGuard::RefuseToRemoveAll, Instant(7), &mut |_| ()).unwrap();
    fs::rename(world.folder().join("a.md"), world.folder().join("b.md")).unwrap();
    assert_eq!(sync.sync_again(Instant(8)).unwrap().removed, 1);
    assert_eq!(world.keys(), ["b.md"]);
}

#[test]
fn a_folder_that_is_not_there_any_more_removes_nothing() {
    let world = World::new(&["a.md", "b.md"]);
    let mut sync = world.open().unwrap();
    sync.sync_first(RemovalGuard::RefuseToRemoveAll, Instant(7), &mut |_| ()).unwrap();
    let away = world.rig.folder.path().join("away");
    fs::rename(world.folder(), &away).unwrap();
    let refused = sync.sync_again(Instant(8)).unwrap_err();
    assert!(matches!(refused, SyncError::Folder(_)), "{refused}");
    // As an empty mount point is.
    fs::create_dir(world.folder()).unwrap();
    assert!(matches!(sync.sync_again(Instant(8)), Err(SyncError::Folder(_))));
    assert_eq!(world.keys(), ["a.md", "b.md"]);
    fs::remove_dir(world.folder()).unwrap();
    fs::remove_file(away.join("a.md")).unwrap();
    fs::rename(&away, world.folder()).unwrap();
    assert_eq!(sync.sync_again(Instant(8)).unwrap().removed, 1);
}

#[test]
fn a_link_takes_the_place_of_a_note_and_its_record_goes() {
    let world = World::new(&["a.md", "b.md", "c/d.md", "e.md"]);
    let outside = world.rig.write("outside/d.md", "secret");
    world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    let at = |name: &str| world.folder().join(name);
    fs::remove_file(at("a.md")).unwrap();
    fs::remove_dir_all(at("c")).unwrap();
    std::os::unix::fs::symlink(&outside, at("a.md")).unwrap();
    std::os::unix::fs::symlink(outside.parent().unwrap(), at("c")).unwrap();
    let report = world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    assert_eq!(report.removed_notes, ["a.md", "c/d.md"]);
    assert_eq!((world.keys().len(), world.hits("secret")), (2, 0));
}

#[test]
fn a_stream_with_another_key_is_refused() {
    let world = World::new(&["a.md"]);
    let rows = world.rig.write("a.jsonl", "{\"id\":1,\"path\":\"x\"}\n");
    world.rig.import(&[recognised(&rows)], &["id"], BadRowPolicy::Skip, |_| ()).unwrap();
    let refused = world.first(RemovalGuard::RemoveAll).unwrap_err();
    assert!(matches!(refused, SyncError::OtherKey { .. }), "{refused}");
    assert_eq!(world.keys(), ["1"]);
}

#[test]
fn a_sync_that_is_stopped_removes_nothing_and_the_next_one_goes_on() {
    let world = World::new(&["a.md", "b.md"]);
    world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    fs::remove_file(world.folder().join("a.md")).unwrap();
    let mut sync = world.open().unwrap();
    sync.should_stop().store(true, Ordering::Relaxed);
    let stopped = sync.sync_first(RemovalGuard::RefuseToRemoveAll, Instant(8), &mut |_| ());
    assert!(matches!(stopped, Err(SyncError::Stopped)));
    assert_eq!(world.keys(), ["a.md", "b.md"]);
    world.first(RemovalGuard::RefuseToRemoveAll).unwrap();
    assert_eq!(world.keys(), ["b.md"]);
}
