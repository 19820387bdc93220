//! Tests of undo plans against a model of a disk.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::past_change::{Author, PastChangeKind, UNDO};
use super::*;
use crate::records::instant::Instant;

mod detours;
mod folders;
mod rest;

type Disk = BTreeMap<SpacePath, ContentHash>;

fn path(name: &str) -> SpacePath {
    SpacePath::parse(name).unwrap()
}

fn hash(version: u8) -> ContentHash {
    ContentHash::digest(&[version])
}

/// Returns whether a plan leaves a file that nobody else changed.
fn lacks_something(plan: &UndoPlan) -> bool {
    plan.left.iter().any(|left| !left.why.is_somebodys())
}

/// A disk whose changes are recorded.
#[derive(Clone, Debug, Default)]
struct Recorded {
    disk: Disk,
    folders: BTreeSet<SpacePath>,
    changes: Vec<PastChange>,
    /// Paths with something that is not a file.
    obstacles: BTreeMap<SpacePath, Obstacle>,
    /// Versions that the history does not have.
    lacking: Vec<ContentHash>,
    /// The first change that an undo takes back with the next one.
    takes_back: Option<ChangeNumber>,
    /// The mode of each file, and what it was before each change.
    modes: BTreeMap<SpacePath, u8>,
    modes_before: BTreeMap<ChangeNumber, u8>,
    /// Who makes the changes.
    agent: usize,
}

/// Returns the author of a change of an undo, or of another one.
fn author(is_undo: bool, agent: usize) -> Author {
    let (tool, client) = if is_undo { (UNDO, None) } else { ("file.create", Some(agent)) };
    let client = client.map(|agent| agent.to_string());
    Author { tool: tool.to_owned(), client, ..Author::default() }
}

/// The mode of a new file.
const NEW_FILE: u8 = 0;

impl UndoFacts for &Recorded {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        if let Some(obstacle) = self.obstacles.get(path) {
            return PathNow::Blocked(*obstacle);
        }
        let is_above = |file: &SpacePath| path.as_str().starts_with(&format!("{file}/"));
        if self.disk.keys().any(is_above) {
            return PathNow::Blocked(Obstacle::FileAbove);
        }
        match self.disk.get(path) {
            Some(version) => PathNow::File(*version),
            None if self.folders.contains(path) => PathNow::Blocked(Obstacle::NotAFile),
            None => PathNow::Nothing,
        }
    }

    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason> {
        let UndoStep::Restore { to, .. } = step else { return None };
        self.lacking.contains(to).then_some(LeftReason::NotKept)
    }

    fn is_other_file(&mut self, now: &SpacePath, _: &SpacePath, before: ChangeNumber) -> bool {
        self.modes_before.get(&before).is_some_and(|mode| Some(mode) != self.modes.get(now))
    }
}

/// What somebody does to a file.
#[derive(Clone, Debug)]
enum Deed {
    /// Writes a version, whether the file is there or not.
    Write(SpacePath, u8),
    Remove(SpacePath),
    Move(SpacePath, SpacePath),
    /// Moves all files in a folder, and removes the folder.
    MoveFolder(SpacePath, SpacePath),
    /// Removes a folder if it is empty. No history records that.
    RemoveFolder(SpacePath),
}

impl Recorded {
    fn record(
        &mut self,
        kind: PastChangeKind,
        path: &SpacePath,
        to: Option<SpacePath>,
        [before, after]: [Option<ContentHash>; 2],
    ) {
        let number = ChangeNumber(i64::try_from(self.changes.len()).unwrap() + 1);
        let mode = match kind {
            PastChangeKind::Created => None,
            PastChangeKind::Removed | PastChangeKind::Moved => self.modes.remove(path),
            _ => self.modes.get(path).copied(),
        };
        self.modes_before.extend(mode.map(|mode| (number, mode)));
        let is_there = to.as_ref().unwrap_or(path);
        if after.is_some() {
            self.modes.insert(is_there.clone(), mode.unwrap_or(NEW_FILE));
        }
        self.changes.push(PastChange {
            number,
            call: number,
            at: Instant(number.0),
            kind,
            path: path.clone(),
            to,
            before,
            size_before: 0,
            after,
            author: author(self.takes_back.is_some(), self.agent),
            takes_back: self.takes_back,
        });
    }

    /// Gives each file a mode that no other file has.
    fn mark(&mut self) {
        for (at, path) in (NEW_FILE + 1..).zip(self.disk.keys()) {
            self.modes.insert(path.clone(), at);
        }
    }

    /// Returns the files with their versions and modes.
    fn state(&self) -> (Disk, BTreeMap<SpacePath, u8>) {
        (self.disk.clone(), self.modes.clone())
    }

    /// Whether a file can get the path: no folder has it, and no file has the path of a folder
    /// above.
    fn can_hold(&self, path: &SpacePath) -> bool {
        let is_free = !self.folders.contains(path) && !self.obstacles.contains_key(path);
        is_free && folders_above(path).all(|folder| !self.disk.contains_key(&folder))
    }

    fn remove_folder(&mut self, folder: &SpacePath) -> bool {
        let is_within = |path: &SpacePath| folder.covers(path) && path != folder;
        let is_empty = !self.disk.keys().any(is_within) && !self.folders.iter().any(is_within);
        is_empty && self.folders.remove(folder)
    }

    fn remove_empty_folders(&mut self) {
        for folder in self.folders.clone().iter().rev() {
            self.remove_folder(folder);
        }
    }

    fn write(&mut self, path: &SpacePath, version: ContentHash) {
        if !self.can_hold(path) {
            return;
        }
        self.folders.extend(folders_above(path));
        let before = self.disk.insert(path.clone(), version);
        let kind =
            if before.is_some() { PastChangeKind::Replaced } else { PastChangeKind::Created };
        if before != Some(version) {
            self.record(kind, path, None, [before, Some(version)]);
        }
    }

    fn remove(&mut self, path: &SpacePath) {
        if let Some(before) = self.disk.remove(path) {
            self.record(PastChangeKind::Removed, path, None, [Some(before), None]);
        }
    }

    fn rename(&mut self, path: &SpacePath, to: &SpacePath) {
        if self.disk.contains_key(to) || path == to || !self.can_hold(to) {
            return;
        }
        // As the server does it: the folders are made although the file may not be there.
        self.folders.extend(folders_above(to));
        if let Some(version) = self.disk.remove(path) {
            self.disk.insert(to.clone(), version);
            let versions = [Some(version); 2];
            self.record(PastChangeKind::Moved, path, Some(to.clone()), versions);
        }
    }

    fn move_folder(&mut self, folder: &SpacePath, to: &SpacePath) {
        if folder.covers(to) || self.disk.contains_key(to) || !self.can_hold(to) {
            return;
        }
        let files: Vec<SpacePath> = self.disk.keys().cloned().collect();
        for file in files {
            let Some(name) = file.as_str().strip_prefix(&format!("{folder}/")) else { continue };
            self.rename(&file, &path(&format!("{to}/{name}")));
        }
        for inner in self.folders.clone().iter().rev().filter(|inner| folder.covers(inner)) {
            self.remove_folder(inner);
        }
    }

    fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Write(path, version) => self.write(path, hash(*version)),
            Deed::Remove(path) => self.remove(path),
            Deed::Move(path, to) => self.rename(path, to),
            Deed::MoveFolder(folder, to) => self.move_folder(folder, to),
            Deed::RemoveFolder(path) => {
                self.remove_folder(path);
            }
        }
    }

    /// Makes the steps of a plan, and panics if one does not find what it expects.
    fn carry_out(&mut self, plan: &UndoPlan) {
        for step in &plan.steps {
            self.takes_back = step.takes_back();
            match step {
                UndoStep::Restore { path, from, to, before } => {
                    assert_eq!(self.disk.get(path), from.as_ref(), "{step:?}");
                    assert!(self.can_hold(path), "{step:?} of {plan:#?}");
                    let mode = self.modes_before.get(before).copied();
                    let becomes_another = mode.is_some() && mode != self.modes.get(path).copied();
                    if *from == Some(*to) && becomes_another {
                        self.record(PastChangeKind::Replaced, path, None, [Some(*to); 2]);
                    }
                    self.write(path, *to);
                    self.modes.extend(mode.map(|mode| (path.clone(), mode)));
                }
                UndoStep::Remove { path, from, .. } => {
                    assert_eq!(self.disk.get(path), Some(from), "{step:?}");
                    self.remove(path);
                }
                UndoStep::MoveBack { path, from, to, .. } => {
                    assert_eq!(self.disk.get(path), Some(from), "{step:?}");
                    assert_eq!(self.disk.get(to), None, "{step:?}");
                    assert!(self.can_hold(to), "{step:?} of {plan:#?}");
                    self.rename(path, to);
                }
                UndoStep::RemoveFolder { path } => {
                    assert!(self.remove_folder(path), "{step:?} of {plan:#?}");
                }
                UndoStep::SetFolderMode { .. }
                | UndoStep::GiveFolder { .. }
                | UndoStep::UnmakeFolder { .. } => panic!("{step:?} of {plan:#?}"),
            }
        }
        self.takes_back = None;
    }

    fn plan(&self, changes: &[PastChange]) -> UndoPlan {
        undo_plan(changes, &Lives::of(&self.changes), &mut &*self)
    }

    /// Takes changes back, and returns the plan.
    fn undo(&mut self, changes: &[PastChange]) -> UndoPlan {
        let plan = self.plan(changes);
        self.carry_out(&plan);
        plan
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    deeds_at(&["/a", "/b", "/c", "/d/e"])
}

/// Names of which some are folders of others.
fn nested_deeds() -> impl Strategy<Value = Vec<Deed>> {
    deeds_at(&["/a", "/n", "/n/a", "/n/a/b", "/m/a"])
}

fn deeds_at(names: &[&'static str]) -> impl Strategy<Value = Vec<Deed>> + use<> {
    let name = prop::sample::select(names.to_vec()).prop_map(path);
    let folder = prop::sample::select(vec!["/n", "/n/a", "/m", "/d"]).prop_map(path);
    let deed = prop_oneof![
        2 => folder.clone().prop_map(Deed::RemoveFolder),
        1 => (folder.clone(), folder).prop_map(|(folder, to)| Deed::MoveFolder(folder, to)),
        4 => (name.clone(), 0_u8..5).prop_map(|(path, version)| Deed::Write(path, version)),
        1 => name.clone().prop_map(Deed::Remove),
        2 => (name.clone(), name).prop_map(|(path, to)| Deed::Move(path, to)),
    ];
    prop::collection::vec(deed, 0..24)
}

proptest! {
    #[test]
    fn the_undo_of_all_changes_brings_the_first_disk_back(before in deeds(), done in deeds()) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        world.mark();
        let first = world.state();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let plan = world.plan(&world.changes[from..]);
        prop_assert_eq!(&plan.left, &[]);
        world.carry_out(&plan);
        prop_assert_eq!(world.state(), first);
    }

    #[test]
    fn the_undo_of_an_undo_changes_nothing(before in deeds(), done in deeds()) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        world.mark();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let last = world.state();
        let undone = world.changes.len();
        world.carry_out(&world.plan(&world.changes[from..]));
        let again = world.plan(&world.changes[undone..]);
        prop_assert_eq!(&again.left, &[]);
        world.carry_out(&again);
        prop_assert_eq!(world.state(), last);
    }

    #[test]
    fn an_undo_that_was_made_has_no_more_steps(before in deeds(), done in deeds()) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        world.mark();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes[from..].to_vec();
        world.carry_out(&world.plan(&changes));
        let again = world.undo(&changes);
        prop_assert_eq!((again.steps, again.left), (vec![], vec![]));
    }

    #[test]
    fn once_an_obstacle_is_gone_an_undo_that_is_run_again_brings_the_rest_back(
        before in deeds(),
        done in deeds(),
        blocked in prop::sample::select(vec!["/a", "/b", "/c", "/d/e"]).prop_map(path),
        runs in 1_usize..3,
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        world.mark();
        let first = world.state();
        let is_back = |world: &Recorded| world.state() == first;
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes[from..].to_vec();
        if !world.disk.contains_key(&blocked) {
            world.obstacles.insert(blocked, Obstacle::NotAFile);
        }
        for _ in 0..runs {
            let plan = world.undo(&changes);
            prop_assert!(is_back(&world) || lacks_something(&plan), "{:#?}", plan);
        }
        world.obstacles.clear();
        let plan = world.undo(&changes);
        prop_assert_eq!(&plan.left, &[]);
        prop_assert!(is_back(&world), "{:#?}", world.state());
    }

    #[test]
    fn every_step_finds_its_path_free_and_an_undo_leaves_no_empty_folder_that_it_made(
        before in nested_deeds(),
        done in nested_deeds(),
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let first = world.disk.clone();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes[from..].to_vec();
        let folders = world.folders.clone();
        let plan = world.undo(&changes);
        prop_assert!(world.disk == first || lacks_something(&plan), "{:#?}", plan);
        let needed: BTreeSet<SpacePath> = world.disk.keys().flat_map(folders_above).collect();
        prop_assert!(world.folders.iter().all(|it| folders.contains(it) || needed.contains(it)));
        // The owner removes the folders in the way.
        for _ in 0..2 {
            world.remove_empty_folders();
            let plan = world.undo(&changes);
            prop_assert!(world.disk == first || lacks_something(&plan), "{:#?}", plan);
        }
    }

    #[test]
    fn no_step_touches_a_file_that_somebody_else_changed_since(
        before in deeds(),
        done in deeds(),
        names in prop::collection::btree_set(
            prop::sample::select(vec!["/a", "/b", "/c", "/d/e"]), 0..4
        ),
        is_undone_before in any::<bool>(),
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes[from..].to_vec();
        if is_undone_before {
            world.undo(&changes);
        }
        // No change made these versions.
        let foreign: Disk =
            names.iter().enumerate().map(|(at, name)| (path(name), hash(100 + at as u8))).collect();
        world.disk.extend(foreign.clone());
        let plan = world.undo(&changes);
        for (path, version) in &foreign {
            prop_assert_eq!(world.disk.get(path), Some(version), "{:?}", plan);
        }
    }
}

#[test]
fn a_file_that_was_created_and_moved_goes_back_and_is_removed() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    world.write(&path("/a"), hash(2));
    world.rename(&path("/a"), &path("/b"));
    world.write(&path("/b"), hash(3));
    let plan = world.plan(&world.changes);
    let kinds: Vec<&str> = plan
        .steps
        .iter()
        .map(|step| match step {
            UndoStep::Restore { .. } => "restore",
            UndoStep::Remove { .. } => "remove",
            UndoStep::MoveBack { .. } => "move back",
            UndoStep::RemoveFolder { .. } => "remove folder",
            UndoStep::SetFolderMode { .. } => "set mode",
            UndoStep::GiveFolder { .. } | UndoStep::UnmakeFolder { .. } => "folder",
        })
        .collect();
    assert_eq!(kinds, ["restore", "move back", "remove"]);
    assert_eq!(plan.steps[0].path(), &path("/b"));
}

#[test]
fn what_was_changed_removed_or_replaced_since_is_left_with_the_reason() {
    let mut world = Recorded::default();
    for name in ["/a", "/b", "/c"] {
        world.write(&path(name), hash(1));
    }
    world.write(&path("/a"), hash(2));
    world.write(&path("/b"), hash(2));
    world.rename(&path("/c"), &path("/d"));
    let changes = world.changes[3..].to_vec();
    world.disk.insert(path("/a"), hash(9));
    world.disk.remove(&path("/b"));
    world.disk.insert(path("/c"), hash(9));
    let plan = world.plan(&changes);
    assert_eq!(plan.steps, []);
    let left: Vec<_> = plan.left.iter().map(|left| (left.path.as_str(), left.why)).collect();
    let expected = [
        ("/d", LeftReason::PathTaken),
        ("/b", LeftReason::GoneSince),
        ("/a", LeftReason::ChangedSince),
    ];
    assert_eq!(left, expected);
    let said: Vec<String> = plan.left.iter().map(|it| it.text(&ShownPaths::default())).collect();
    let expected = [
        "cannot go back to /c, since there is another file",
        "is not there any more",
        "was changed since",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_change_that_was_recorded_and_never_made_is_passed_over() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    world.write(&path("/a"), hash(2));
    let never = [Some(hash(2)), Some(hash(7))];
    world.record(PastChangeKind::Replaced, &path("/a"), None, never);
    world.write(&path("/a"), hash(3));
    let plan = world.plan(&world.changes[1..]);
    assert_eq!(plan.left, []);
    world.carry_out(&plan);
    assert_eq!(world.disk[&path("/a")], hash(1));
}

/// Returns what a plan leaves, and its steps as words with paths.
fn shown(plan: &UndoPlan) -> (Vec<String>, Vec<String>) {
    let step = |step: &UndoStep| match step {
        UndoStep::Restore { path, .. } => format!("restore {path}"),
        UndoStep::Remove { path, .. } => format!("remove {path}"),
        UndoStep::MoveBack { path, to, .. } => format!("move {path} to {to}"),
        UndoStep::RemoveFolder { path } => format!("remove folder {path}"),
        UndoStep::SetFolderMode { path, to, .. } => format!("set mode of {path} to {to:o}"),
        UndoStep::GiveFolder { path, .. } => format!("give folder {path}"),
        UndoStep::UnmakeFolder { path, .. } => format!("unmake folder {path}"),
    };
    let left = |left: &LeftChange| format!("{}: {:?}", left.path, left.why);
    (plan.steps.iter().map(step).collect(), plan.left.iter().map(left).collect())
}

#[test]
fn a_path_that_is_blocked_is_named_once_and_the_rest_is_taken_back() {
    let mut world = Recorded::default();
    for name in ["/a", "/b", "/c", "/d"] {
        world.write(&path(name), hash(1));
    }
    let from = world.changes.len();
    for version in 2..5 {
        world.write(&path("/a"), hash(version));
    }
    world.remove(&path("/a"));
    world.write(&path("/b"), hash(2));
    world.remove(&path("/c"));
    world.rename(&path("/d"), &path("/e"));
    // The path of nothing that is to come back may be blocked.
    world.write(&path("/new"), hash(7));
    world.remove(&path("/new"));
    world.disk.remove(&path("/b"));
    for (name, obstacle) in [
        ("/a", Obstacle::NotAFile),
        ("/b", Obstacle::Link),
        ("/d", Obstacle::Unreadable),
        ("/new", Obstacle::NotAFile),
    ] {
        world.obstacles.insert(path(name), obstacle);
    }
    let plan = world.plan(&world.changes[from..]);
    let (steps, left) = shown(&plan);
    assert_eq!(steps, ["restore /c"]);
    assert_eq!(left, ["/e: Blocked(Unreadable)", "/b: Blocked(Link)", "/a: Blocked(NotAFile)"],);
    assert!(lacks_something(&plan));
    let said: Vec<String> = plan.left.iter().map(|it| it.text(&ShownPaths::default())).collect();
    let expected = [
        "cannot go back to /d, since that path cannot be read",
        "cannot come back, since that path is a link or leads through one",
        "cannot come back, since a folder or something else that is not a file has that path",
    ];
    assert_eq!(said, expected);
    world.carry_out(&plan);
}

#[test]
fn a_folder_that_only_a_step_needs_goes_before_a_file_takes_its_path() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    world.write(&path("/n"), hash(2));
    let first = world.disk.clone();
    let from = world.changes.len();
    world.remove(&path("/n"));
    world.rename(&path("/a"), &path("/n/x"));
    world.remove(&path("/n/x"));
    world.remove_folder(&path("/n"));
    let plan = world.plan(&world.changes[from..]);
    assert_eq!(
        shown(&plan).0,
        ["restore /n/x", "move /n/x to /a", "remove folder /n", "restore /n"]
    );
    assert_eq!(plan.left, []);
    world.carry_out(&plan);
    assert_eq!(world.disk, first);
}

#[test]
fn what_an_undo_made_does_not_count_as_somebodys_when_the_undo_is_run_again() {
    let mut world = Recorded::default();
    for (name, version) in [("/a", 1), ("/d/a", 2), ("/b", 3)] {
        world.write(&path(name), hash(version));
    }
    let first = world.disk.clone();
    let from = world.changes.len();
    world.rename(&path("/b"), &path("/o"));
    world.rename(&path("/d/a"), &path("/b"));
    world.rename(&path("/a"), &path("/d/a"));
    world.remove(&path("/b"));
    world.obstacles.insert(path("/a"), Obstacle::NotAFile);
    let changes = world.changes[from..].to_vec();
    let plan = world.undo(&changes);
    assert!(lacks_something(&plan) && world.disk.contains_key(&path("/b")));
    // While the folder is there, another run says the same and changes nothing.
    let (disk, again) = (world.disk.clone(), world.undo(&changes));
    assert_eq!((again.steps, again.left.len()), (vec![], plan.left.len()));
    assert_eq!(world.disk, disk);
    world.obstacles.clear();
    let last = world.undo(&changes);
    assert_eq!((last.left, &world.disk), (vec![], &first));
}

#[test]
fn a_file_that_an_agent_put_in_the_place_of_a_folder_goes_first() {
    let mut world = Recorded::default();
    world.write(&path("/d/a"), hash(1));
    world.write(&path("/d/b"), hash(2));
    let first = world.disk.clone();
    let from = world.changes.len();
    world.remove(&path("/d/a"));
    world.rename(&path("/d/b"), &path("/b"));
    world.remove_folder(&path("/d"));
    world.write(&path("/d"), hash(9));
    let plan = world.plan(&world.changes[from..]);
    assert_eq!(shown(&plan).0, ["remove /d", "move /b to /d/b", "restore /d/a"]);
    assert_eq!(plan.left, []);
    world.carry_out(&plan);
    assert_eq!(world.disk, first);
}

#[test]
fn a_file_of_a_person_in_the_place_of_a_folder_stays() {
    let mut world = Recorded::default();
    world.write(&path("/d/a"), hash(1));
    let from = world.changes.len();
    world.remove(&path("/d/a"));
    world.disk.insert(path("/d"), hash(9));
    let (steps, left) = shown(&world.plan(&world.changes[from..]));
    assert_eq!((steps.len(), left), (0, vec!["/d/a: Blocked(FileAbove)".to_owned()]));
}

#[test]
fn a_version_that_the_history_lacks_leaves_its_file_and_nothing_else() {
    let mut world = Recorded::default();
    for (name, version) in [("/a", 1), ("/b", 2), ("/c", 3)] {
        world.write(&path(name), hash(version));
    }
    let from = world.changes.len();
    for name in ["/a", "/b", "/c"] {
        world.write(&path(name), hash(7));
    }
    world.rename(&path("/a"), &path("/m"));
    world.write(&path("/m"), hash(8));
    world.lacking = vec![hash(2), hash(7)];
    let plan = world.plan(&world.changes[from..]);
    let (steps, left) = shown(&plan);
    // The version that the file had when it was moved is not needed.
    assert_eq!(steps, ["move /m to /a", "restore /a", "restore /c"]);
    assert_eq!(left, ["/b: NotKept"]);
    world.carry_out(&plan);
    assert_eq!((world.disk[&path("/a")], world.disk[&path("/c")]), (hash(1), hash(3)));
}

#[test]
fn a_removed_file_comes_back_although_another_one_was_moved_to_its_path_and_cannot_go_back() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    let from = world.changes.len();
    world.remove(&path("/a"));
    world.write(&path("/n"), hash(2));
    world.rename(&path("/n"), &path("/a"));
    world.remove(&path("/a"));
    // Somebody saves a file where the moved one was.
    world.disk.insert(path("/n"), hash(9));
    let plan = world.plan(&world.changes[from..]);
    // The agent's own file, which it moved and removed, need not come back.
    assert_eq!(shown(&plan), (vec!["restore /a".to_owned()], vec![]));
    world.carry_out(&plan);
    assert_eq!((world.disk[&path("/a")], world.disk[&path("/n")]), (hash(1), hash(9)));
}

#[test]
fn a_file_whose_content_an_undo_took_for_a_created_one_is_named_and_comes_back_later() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    let first = world.disk.clone();
    let from = world.changes.len();
    // The agent makes a file with the same content, and moves the other one to its path.
    world.write(&path("/c"), hash(1));
    world.rename(&path("/c"), &path("/b"));
    world.rename(&path("/a"), &path("/c"));
    world.obstacles.insert(path("/a"), Obstacle::NotAFile);
    let changes = world.changes[from..].to_vec();
    for _ in 0..3 {
        assert!(lacks_something(&world.undo(&changes)));
    }
    world.obstacles.clear();
    assert_eq!(world.undo(&changes).left, []);
    assert_eq!(world.disk, first);
}

/// A world in which two agents work on the same files, and whose owner takes back the work of the
/// one, or of the other.
struct TwoAgents {
    world: Recorded,
    /// The changes of each agent.
    changes: [Vec<PastChange>; 2],
}

impl TwoAgents {
    fn after(first: &[Deed], deeds: &[(usize, Deed)]) -> Self {
        let mut world = Recorded::default();
        first.iter().for_each(|deed| world.act(deed));
        let mut changes = [Vec::new(), Vec::new()];
        for (agent, deed) in deeds {
            let before = world.changes.len();
            world.agent = 1 + agent;
            world.act(deed);
            changes[*agent].extend_from_slice(&world.changes[before..]);
        }
        Self { world, changes }
    }

    /// Takes back what one agent did. Panics if a version goes from the disk that this agent did
    /// not make.
    fn undo(&mut self, agent: usize) -> UndoPlan {
        let changes = self.changes[agent].clone();
        let made = |version| changes.iter().any(|change| change.after == Some(version));
        let disk = self.world.disk.clone();
        let plan = self.world.undo(&changes);
        for (path, version) in &disk {
            let is_kept = self.world.disk.values().any(|kept| kept == version);
            assert!(is_kept || made(*version), "{path} was of somebody else");
        }
        plan
    }
}

#[test]
fn an_undo_of_one_agent_keeps_what_an_undo_of_another_gave_back() {
    let note = path("/keep.md");
    let deeds = [
        (0, Deed::Remove(note.clone())),
        (1, Deed::Write(note.clone(), 2)),
        (1, Deed::Remove(note.clone())),
    ];
    let mut agents = TwoAgents::after(&[Deed::Write(note.clone(), 1)], &deeds);
    for agent in [0, 1, 0, 1] {
        agents.undo(agent);
        assert_eq!(agents.world.disk.get(&note), Some(&hash(1)));
    }
}

#[test]
fn an_undo_of_one_agent_keeps_what_an_undo_of_another_gave_back_although_both_made_the_same() {
    let (note, other) = (path("/keep.md"), path("/other.md"));
    let start = [Deed::Write(note.clone(), 1)];
    let made_again = [
        (0, Deed::Remove(note.clone())),
        (1, Deed::Write(note.clone(), 1)),
        (0, Deed::Remove(note.clone())),
    ];
    let moved_there = [
        (0, Deed::Remove(note.clone())),
        (1, Deed::Write(other.clone(), 1)),
        (1, Deed::Move(other, note.clone())),
        (0, Deed::Remove(note.clone())),
    ];
    for deeds in [&made_again[..], &moved_there] {
        let mut agents = TwoAgents::after(&start, deeds);
        // The first undo takes the second removal back alone, and the next one the first.
        for agent in [0, 1, 0, 1, 0, 1] {
            agents.undo(agent);
        }
        assert_eq!(agents.world.disk, Disk::from([(note.clone(), hash(1))]));
        for agent in [0, 1] {
            assert_eq!(agents.undo(agent), UndoPlan::default());
        }
    }
}

#[test]
fn undos_of_two_agents_that_made_and_removed_a_file_by_turns_come_to_an_end() {
    let note = path("/f");
    let deeds = [
        (0, Deed::Write(note.clone(), 1)),
        (1, Deed::Remove(note.clone())),
        (0, Deed::Write(note.clone(), 2)),
        (1, Deed::Remove(note.clone())),
    ];
    for order in [[0, 1], [1, 0]] {
        let mut agents = TwoAgents::after(&[], &deeds);
        for agent in [order, order, order].concat() {
            agents.undo(agent);
        }
        assert_eq!(agents.world.disk.get(&note), None);
        for agent in order {
            assert_eq!(agents.undo(agent), UndoPlan::default());
        }
    }
}

#[test]
fn what_somebody_did_again_after_an_undo_stays() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    world.write(&path("/b"), hash(1));
    let from = world.changes.len();
    world.write(&path("/a"), hash(2));
    world.remove(&path("/b"));
    let changes = world.changes[from..].to_vec();
    world.undo(&changes);
    // A person takes the agent's text after all, and removes the file again.
    world.disk.insert(path("/a"), hash(2));
    world.disk.remove(&path("/b"));
    assert_eq!(world.undo(&changes), UndoPlan::default());
}

#[test]
fn a_file_that_was_made_again_with_the_same_content_gets_its_mode_once() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    world.mark();
    let first = world.state();
    let from = world.changes.len();
    world.remove(&path("/a"));
    world.write(&path("/a"), hash(1));
    assert_ne!(world.state(), first);
    let changes = world.changes[from..].to_vec();
    assert_eq!(shown(&world.undo(&changes)).0, ["restore /a"]);
    assert_eq!(world.state(), first);
    assert_eq!(world.undo(&changes), UndoPlan::default());
    // A person opens the file for others.
    world.modes.insert(path("/a"), 99);
    assert_eq!(world.undo(&changes), UndoPlan::default());
}

#[test]
fn undos_of_two_agents_that_changed_a_file_in_turn_reach_the_text_of_before() {
    let note = path("/a");
    let deeds = [0, 1, 0, 1, 0, 1]
        .into_iter()
        .zip(2..)
        .map(|(agent, version)| (agent, Deed::Write(note.clone(), version)));
    let mut agents = TwoAgents::after(&[Deed::Write(note.clone(), 1)], &deeds.collect::<Vec<_>>());
    for agent in [1, 0, 1, 0, 1, 0] {
        agents.undo(agent);
    }
    assert_eq!(agents.world.disk.get(&note), Some(&hash(1)));
    for agent in [1, 0, 0, 1] {
        agents.undo(agent);
        assert_eq!(agents.world.disk.get(&note), Some(&hash(1)), "an undo brings nothing back");
    }
}

proptest! {
    #[test]
    fn an_undo_changes_only_files_that_its_own_agent_or_its_own_undo_made(
        first in deeds(),
        (deeds, agents, order) in deeds().prop_flat_map(|deeds| {
            let agents = prop::collection::vec(0_usize..2, deeds.len());
            (Just(deeds), agents, prop::collection::vec(0_usize..2, 1..5))
        }),
    ) {
        let deeds: Vec<(usize, Deed)> = agents.into_iter().zip(deeds).collect();
        let mut agents = TwoAgents::after(&first, &deeds);
        for agent in order {
            agents.undo(agent);
        }
    }
}
