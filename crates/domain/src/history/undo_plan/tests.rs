//! Tests of undo plans against a model of a disk.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::past_change::Author;
use super::*;
use crate::records::instant::Instant;

type Disk = BTreeMap<SpacePath, ContentHash>;

fn path(name: &str) -> SpacePath {
    SpacePath::parse(name).unwrap()
}

fn hash(version: u8) -> ContentHash {
    ContentHash::digest(&[version])
}

/// A disk whose changes are recorded.
#[derive(Clone, Default)]
struct Recorded {
    disk: Disk,
    changes: Vec<PastChange>,
    /// Paths with something that is not a file.
    obstacles: BTreeMap<SpacePath, Obstacle>,
    /// Versions that the history does not have.
    lacking: Vec<ContentHash>,
}

impl UndoFacts for &Recorded {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        if let Some(obstacle) = self.obstacles.get(path) {
            return PathNow::Blocked(*obstacle);
        }
        let is_above = |file: &SpacePath| path.as_str().starts_with(&format!("{file}/"));
        if self.disk.keys().any(is_above) {
            return PathNow::Blocked(Obstacle::FileAbove);
        }
        self.disk.get(path).map_or(PathNow::Nothing, |version| PathNow::File(*version))
    }

    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason> {
        let UndoStep::Restore { to, .. } = step else { return None };
        self.lacking.contains(to).then_some(LeftReason::NotKept)
    }
}

/// What somebody does to a file.
#[derive(Clone, Debug)]
enum Deed {
    /// Writes a version, whether the file is there or not.
    Write(SpacePath, u8),
    Remove(SpacePath),
    Move(SpacePath, SpacePath),
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
            author: Author::default(),
        });
    }

    fn write(&mut self, path: &SpacePath, version: ContentHash) {
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
        if self.disk.contains_key(to) || path == to {
            return;
        }
        if let Some(version) = self.disk.remove(path) {
            self.disk.insert(to.clone(), version);
            let versions = [Some(version); 2];
            self.record(PastChangeKind::Moved, path, Some(to.clone()), versions);
        }
    }

    fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Write(path, version) => self.write(path, hash(*version)),
            Deed::Remove(path) => self.remove(path),
            Deed::Move(path, to) => self.rename(path, to),
        }
    }

    /// Makes the steps of a plan, and panics if one does not find what it expects.
    fn carry_out(&mut self, plan: &UndoPlan) {
        for step in &plan.steps {
            match step {
                UndoStep::Restore { path, from, to, .. } => {
                    assert_eq!(self.disk.get(path), from.as_ref(), "{step:?}");
                    self.write(path, *to);
                }
                UndoStep::Remove { path, from } => {
                    assert_eq!(self.disk.get(path), Some(from), "{step:?}");
                    self.remove(path);
                }
                UndoStep::MoveBack { path, from, to } => {
                    assert_eq!(self.disk.get(path), Some(from), "{step:?}");
                    assert_eq!(self.disk.get(to), None, "{step:?}");
                    self.rename(path, to);
                }
            }
        }
    }

    fn plan(&self, changes: &[PastChange]) -> UndoPlan {
        undo_plan(changes, &mut &*self)
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let name = prop::sample::select(vec!["/a", "/b", "/c", "/d/e"]).prop_map(path);
    let deed = prop_oneof![
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
        let first = world.disk.clone();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let plan = world.plan(&world.changes[from..]);
        prop_assert_eq!(&plan.left, &[]);
        world.carry_out(&plan);
        prop_assert_eq!(world.disk, first);
    }

    #[test]
    fn the_undo_of_an_undo_changes_nothing(before in deeds(), done in deeds()) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let last = world.disk.clone();
        let undone = world.changes.len();
        world.carry_out(&world.plan(&world.changes[from..]));
        let again = world.plan(&world.changes[undone..]);
        prop_assert_eq!(&again.left, &[]);
        world.carry_out(&again);
        prop_assert_eq!(world.disk, last);
    }

    #[test]
    fn an_undo_that_was_made_has_no_more_steps(done in deeds()) {
        let mut world = Recorded::default();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes.clone();
        world.carry_out(&world.plan(&changes));
        // What a later change put to another path may be recreated there by an older one, so only a
        // history in which no path comes twice is sure to have nothing left to do.
        let mut paths: Vec<&SpacePath> = changes.iter().map(|change| &change.path).collect();
        paths.extend(changes.iter().filter_map(|change| change.to.as_ref()));
        paths.sort();
        if paths.windows(2).all(|pair| pair[0] != pair[1]) {
            prop_assert_eq!(world.plan(&changes).steps, []);
        }
    }

    #[test]
    fn no_step_touches_a_file_that_somebody_else_changed_since(
        before in deeds(),
        done in deeds(),
        names in prop::collection::btree_set(
            prop::sample::select(vec!["/a", "/b", "/c", "/d/e"]), 0..4
        ),
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        // No change made these versions.
        let foreign: Disk =
            names.iter().enumerate().map(|(at, name)| (path(name), hash(100 + at as u8))).collect();
        world.disk.extend(foreign.clone());
        let plan = world.plan(&world.changes[from..]);
        world.carry_out(&plan);
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
    let changes = world.changes.split_off(3);
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
    assert!(left.iter().all(|(_, why)| !why.text().is_empty()));
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
    assert!(plan.has_failures());
    world.carry_out(&plan);
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
    // The move of a file goes back only with the content that it had when it was moved.
    assert_eq!(steps, ["restore /c"]);
    assert_eq!(left, ["/m: NotKept", "/a: GoneSince", "/b: NotKept"]);
    world.carry_out(&plan);
    assert_eq!((world.disk[&path("/m")], world.disk[&path("/c")]), (hash(8), hash(3)));
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
    let (steps, left) = shown(&plan);
    assert_eq!(
        (steps, left),
        (
            vec!["restore /a".to_owned()],
            vec!["/a: PathTaken".to_owned(), "/n: ChangedSince".to_owned()],
        )
    );
    world.carry_out(&plan);
    assert_eq!((world.disk[&path("/a")], world.disk[&path("/n")]), (hash(1), hash(9)));
}
