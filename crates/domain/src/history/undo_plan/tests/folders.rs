//! Tests of undo plans against a model of a disk whose folders are recorded, with what they hold
//! beside files.

use super::super::super::past_folder::{FolderNow, FolderRest, PastFolder};
use super::*;

/// What is on the disk: the files, and each folder with what it holds beside them, and its mode.
type Tree =
    (BTreeMap<SpacePath, ContentHash>, BTreeMap<SpacePath, FolderRest>, BTreeMap<SpacePath, u32>);

#[derive(Clone, Debug, Default)]
struct World {
    files: BTreeMap<SpacePath, ContentHash>,
    folders: BTreeMap<SpacePath, FolderRest>,
    modes: BTreeMap<SpacePath, u32>,
    changes: Vec<PastChange>,
    past_folders: BTreeMap<ChangeNumber, PastFolder>,
    takes_back: Option<ChangeNumber>,
    /// Whether an undo makes the changes.
    is_undo: bool,
}

impl UndoFacts for &World {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        if folders_above(path).any(|above| self.files.contains_key(&above)) {
            return PathNow::Blocked(Obstacle::FileAbove);
        }
        match self.files.get(path) {
            Some(version) => PathNow::File(*version),
            None if self.folders.contains_key(path) => PathNow::Blocked(Obstacle::NotAFile),
            None => PathNow::Nothing,
        }
    }

    fn lacks(&mut self, _: &UndoStep) -> Option<LeftReason> {
        None
    }

    fn is_other_file(&mut self, _: &SpacePath, _: &SpacePath, _: ChangeNumber) -> bool {
        false
    }

    fn folder(&mut self, path: &SpacePath) -> Option<FolderNow> {
        let rest = self.folders.get(path)?.clone();
        let all = self.files.keys().chain(self.folders.keys());
        let name = |inner: &SpacePath| {
            let (folder, name) = inner.split()?;
            (folder == *path).then(|| name.to_owned())
        };
        Some(FolderNow { mode: self.modes[path], names: all.filter_map(name).collect(), rest })
    }

    fn folder_before(&mut self, change: ChangeNumber) -> PastFolder {
        self.past_folders.get(&change).cloned().unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Write(SpacePath, u8),
    Remove(SpacePath),
    Move(SpacePath, SpacePath),
    Make(SpacePath),
    RemoveFolder(SpacePath),
    MoveFolder(SpacePath, SpacePath),
}

impl World {
    fn tree(&self) -> Tree {
        (self.files.clone(), self.folders.clone(), self.modes.clone())
    }

    fn record(
        &mut self,
        kind: PastChangeKind,
        (path, to): (&SpacePath, Option<&SpacePath>),
        [before, after]: [Option<ContentHash>; 2],
    ) -> ChangeNumber {
        let number = ChangeNumber(i64::try_from(self.changes.len()).unwrap() + 1);
        self.changes.push(PastChange {
            number,
            call: number,
            at: Instant(number.0),
            kind,
            path: path.clone(),
            to: to.cloned(),
            before,
            size_before: 0,
            after,
            author: author(self.is_undo, 0),
            takes_back: self.takes_back,
        });
        number
    }

    fn has(&self, path: &SpacePath) -> bool {
        path.is_root() || self.files.contains_key(path) || self.folders.contains_key(path)
    }

    /// Makes the missing folders above a path. Returns `false` if a file is in the way.
    fn make_above(&mut self, path: &SpacePath) -> bool {
        let above: Vec<SpacePath> = folders_above(path).collect();
        if above.iter().any(|it| self.files.contains_key(it)) {
            return false;
        }
        for folder in above.iter().rev() {
            self.make(folder);
        }
        true
    }

    fn make(&mut self, folder: &SpacePath) {
        if !self.has(folder) {
            self.folders.insert(folder.clone(), FolderRest::new());
            self.modes.insert(folder.clone(), NEW_FOLDER);
            self.record(PastChangeKind::FolderCreated, (folder, None), [None; 2]);
        }
    }

    fn within(&self, folder: &SpacePath) -> (Vec<SpacePath>, Vec<SpacePath>) {
        let is_in = |path: &&SpacePath| folder.covers(path);
        let files = self.files.keys().filter(is_in).cloned().collect();
        (files, self.folders.keys().filter(is_in).rev().cloned().collect())
    }

    fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Write(path, version) => self.write(path, hash(*version)),
            Deed::Remove(path) => {
                if let Some(version) = self.files.remove(path) {
                    self.record(PastChangeKind::Removed, (path, None), [Some(version), None]);
                }
            }
            Deed::Move(path, to) => self.rename(path, to),
            Deed::Make(path) => {
                if !self.has(path) && self.make_above(path) {
                    self.make(path);
                }
            }
            Deed::RemoveFolder(path) => self.remove_folder(path),
            Deed::MoveFolder(path, to) => self.move_folder(path, to),
        }
    }

    fn write(&mut self, path: &SpacePath, version: ContentHash) {
        let before = self.files.get(path).copied();
        if self.folders.contains_key(path) || before == Some(version) || !self.make_above(path) {
            return;
        }
        let kind =
            if before.is_some() { PastChangeKind::Replaced } else { PastChangeKind::Created };
        self.files.insert(path.clone(), version);
        self.record(kind, (path, None), [before, Some(version)]);
    }

    fn rename(&mut self, path: &SpacePath, to: &SpacePath) {
        let Some(version) = self.files.get(path).copied() else { return };
        if self.has(to) || !self.make_above(to) {
            return;
        }
        self.files.remove(path);
        self.files.insert(to.clone(), version);
        self.record(PastChangeKind::Moved, (path, Some(to)), [Some(version); 2]);
    }

    /// Removes a folder with all that it holds, unless that has no path.
    fn remove_folder(&mut self, folder: &SpacePath) {
        let (files, folders) = self.within(folder);
        let is_kept = |path: &SpacePath| self.folders[path].is_empty();
        if !self.folders.contains_key(folder) || !folders.iter().all(is_kept) {
            return;
        }
        for file in files {
            self.act(&Deed::Remove(file));
        }
        for inner in folders {
            self.folders.remove(&inner);
            let mode = self.modes.remove(&inner).unwrap();
            let number = self.record(PastChangeKind::FolderRemoved, (&inner, None), [None; 2]);
            self.past_folders.insert(number, PastFolder { mode, rest: FolderRest::new() });
        }
    }

    fn move_folder(&mut self, folder: &SpacePath, to: &SpacePath) {
        let is_there = self.folders.contains_key(folder) && !folder.covers(to);
        if !is_there || self.has(to) || !self.make_above(to) {
            return;
        }
        let (files, folders) = self.within(folder);
        for file in files {
            let there = file.relocated(folder, to).unwrap();
            let version = self.files.remove(&file).unwrap();
            self.files.insert(there.clone(), version);
            self.record(PastChangeKind::Moved, (&file, Some(&there)), [Some(version); 2]);
        }
        for inner in folders {
            let there = inner.relocated(folder, to).unwrap();
            let rest = self.folders.remove(&inner).unwrap();
            let mode = self.modes.remove(&inner).unwrap();
            self.folders.insert(there.clone(), rest.clone());
            self.modes.insert(there.clone(), mode);
            let moved = PastChangeKind::FolderMoved;
            let number = self.record(moved, (&inner, Some(&there)), [None; 2]);
            self.past_folders.insert(number, PastFolder { mode, rest });
        }
    }

    /// Makes the steps of a plan, and panics if one does not find what it expects.
    fn carry_out(&mut self, plan: &UndoPlan) {
        self.is_undo = true;
        for step in &plan.steps {
            self.takes_back = step.takes_back();
            let before = self.tree();
            match step {
                UndoStep::Restore { path, from, to, .. } => {
                    assert_eq!(self.files.get(path), from.as_ref(), "{step:?}");
                    self.write(path, *to);
                }
                UndoStep::Remove { path, .. } => self.act(&Deed::Remove(path.clone())),
                UndoStep::MoveBack { path, to, .. } => self.rename(path, to),
                UndoStep::RemoveFolder { path } | UndoStep::UnmakeFolder { path, .. } => {
                    assert_eq!(
                        self.within(path),
                        (vec![], vec![path.clone()]),
                        "{step:?} {plan:#?}"
                    );
                    self.remove_folder(path);
                }
                UndoStep::GiveFolder { path, mode, from, rest, .. } => {
                    self.give((path, *mode), from.as_ref(), rest);
                }
                UndoStep::SetFolderMode { .. } => {}
            }
            // A file that a step in between restored may be another one of the same content.
            let is_same = matches!(step, UndoStep::Restore { from, to, .. } if *from == Some(*to));
            assert!(is_same || before != self.tree(), "{step:?} changes nothing: {plan:#?}");
        }
        (self.takes_back, self.is_undo) = (None, false);
    }

    fn give(
        &mut self,
        (path, mode): (&SpacePath, u32),
        from: Option<&SpacePath>,
        rest: &FolderRest,
    ) {
        assert!(self.make_above(path));
        if !self.has(path) {
            self.make(path);
            self.modes.insert(path.clone(), mode);
        }
        let Some(from) = from.filter(|_| !rest.is_empty()) else { return };
        self.folders.get_mut(path).unwrap().extend(rest.clone());
        self.folders.get_mut(from).unwrap().retain(|name, _| !rest.contains_key(name));
        let number = self.record(PastChangeKind::FolderMerged, (from, Some(path)), [None; 2]);
        self.past_folders.insert(number, PastFolder { mode, rest: rest.clone() });
    }

    fn plan(&self, changes: &[PastChange]) -> UndoPlan {
        undo_plan(changes, &Lives::of(&self.changes), &mut &*self)
    }

    /// Gives folders that stayed the modes that those had which were there before: `folder_modes`
    /// does that, apart from the plan.
    fn give_modes(&mut self, before: &Tree, wanted: &Tree) {
        for (path, mode) in &wanted.2 {
            if let Some(now) =
                self.modes.get_mut(path).filter(|now| before.2.get(path) == Some(now))
            {
                *now = *mode;
            }
        }
    }

    fn undo(&mut self, changes: &[PastChange]) -> UndoPlan {
        let plan = self.plan(changes);
        self.carry_out(&plan);
        plan
    }
}

/// The mode of a folder that a call makes.
const NEW_FOLDER: u32 = 99;

const FOLDERS: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/d", "/d/b", "/e"];

/// A disk on which some folders hold a link.
fn first() -> impl Strategy<Value = World> {
    let folder = prop::sample::select(FOLDERS.to_vec());
    let folders = prop::collection::vec((folder, any::<bool>()), 0..6);
    (folders, deeds(8)).prop_map(|(folders, deeds)| {
        let mut world = World::default();
        deeds.iter().for_each(|deed| world.act(deed));
        for (at, (name, has_link)) in folders.into_iter().enumerate() {
            world.act(&Deed::Make(path(name)));
            if let Some(mode) = world.modes.get_mut(&path(name)) {
                *mode = at as u32;
            }
            if let Some(rest) = world.folders.get_mut(&path(name)).filter(|_| has_link) {
                rest.insert(format!("link {at}"), vec![0]);
            }
        }
        world.changes.clear();
        world.past_folders.clear();
        world
    })
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<Deed>> {
    let folder = || prop::sample::select(FOLDERS.to_vec()).prop_map(path);
    let files = ["/a/f", "/a/b/f", "/d/b/g", "/g", "/e", "/a"];
    let name = move || prop::sample::select(files.to_vec()).prop_map(path);
    let deed = prop_oneof![
        3 => (name(), 0_u8..4).prop_map(|(path, version)| Deed::Write(path, version)),
        1 => name().prop_map(Deed::Remove),
        2 => (name(), name()).prop_map(|(path, to)| Deed::Move(path, to)),
        1 => folder().prop_map(Deed::Make),
        2 => folder().prop_map(Deed::RemoveFolder),
        4 => (folder(), folder()).prop_map(|(path, to)| Deed::MoveFolder(path, to)),
    ];
    prop::collection::vec(deed, 0..most)
}

proptest! {
    #[test]
    fn an_undo_gives_the_whole_tree_back_with_empty_folders_and_what_has_no_path(
        mut world in first(),
        done in deeds(16),
    ) {
        let first = world.tree();
        done.iter().for_each(|deed| world.act(deed));
        let (changes, undone, after) = (world.changes.clone(), world.changes.len(), world.tree());
        let plan = world.undo(&changes);
        world.give_modes(&after, &first);
        prop_assert_eq!(&plan.left, &[]);
        prop_assert_eq!(&world.tree(), &first, "{:#?}", plan);
        // Again: nothing is to be done. The undo can be undone, and made again.
        let undo = world.changes[undone..].to_vec();
        prop_assert_eq!(&world.undo(&changes), &UndoPlan::default());
        let back = world.undo(&undo);
        world.give_modes(&first, &after);
        prop_assert_eq!(&back.left, &[]);
        prop_assert_eq!(&world.tree(), &after, "{:#?}", back);
        prop_assert_eq!(&world.undo(&changes).left, &[]);
        world.give_modes(&after, &first);
        prop_assert_eq!(world.tree(), first);
    }

    #[test]
    fn an_undo_that_was_interrupted_goes_on(
        mut world in first(),
        done in deeds(10),
        steps in 0_usize..12,
    ) {
        let first = world.tree();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes.clone();
        let after = world.tree();
        let mut plan = world.plan(&changes);
        plan.steps.truncate(steps);
        world.carry_out(&plan);
        let rest = world.undo(&changes);
        world.give_modes(&after, &first);
        prop_assert_eq!(&rest.left, &[]);
        prop_assert_eq!(world.tree(), first, "{:#?} {:#?}", plan, rest);
    }

    #[test]
    fn what_a_person_removed_after_an_undo_stays_away(
        mut world in first(),
        done in deeds(12),
        removed in prop::collection::vec(prop::sample::select(FOLDERS.to_vec()), 1..4),
    ) {
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes.clone();
        world.undo(&changes);
        removed.iter().for_each(|name| drop(world.remove_by_hand(&path(name))));
        let after = world.tree();
        let plan = world.undo(&changes);
        prop_assert_eq!(world.tree(), after, "{:#?}", plan);
    }

    #[test]
    fn no_undo_makes_a_folder_that_a_person_removed_unless_the_client_had_taken_it_away(
        mut world in first(),
        done in deeds(12),
        removed in prop::collection::vec(prop::sample::select(FOLDERS.to_vec()), 1..4),
    ) {
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes.clone();
        let gone: Vec<SpacePath> =
            removed.iter().flat_map(|name| world.remove_by_hand(&path(name))).collect();
        let plan = world.undo(&changes);
        let is_taken = |folder: &SpacePath| {
            let takes = |it: &PastChange| {
                matches!(it.kind, PastChangeKind::FolderRemoved | PastChangeKind::FolderMoved)
            };
            changes.iter().any(|it| it.path == *folder && takes(it))
        };
        for folder in &gone {
            let is_made = |step: &UndoStep| {
                matches!(step, UndoStep::GiveFolder { path, .. } if path == folder)
            };
            prop_assert!(is_taken(folder) || !plan.steps.iter().any(is_made), "{:#?}", plan);
            let below = |path: &&SpacePath| folder.covers(path) && *path != folder;
            let holds = world.files.keys().chain(world.folders.keys()).any(|path| below(&path));
            let is_there = world.folders.contains_key(folder);
            prop_assert!(is_taken(folder) || holds || !is_there, "{} {:#?}", folder, plan);
        }
    }
}

impl World {
    /// Does what a person does who removes a folder without files and links, with the folders in
    /// it. No history records that. Returns what went.
    fn remove_by_hand(&mut self, folder: &SpacePath) -> Vec<SpacePath> {
        let (files, folders) = self.within(folder);
        if !files.is_empty() || !folders.iter().all(|it| self.folders[it].is_empty()) {
            return Vec::new();
        }
        for inner in &folders {
            self.folders.remove(inner);
            self.modes.remove(inner);
        }
        folders
    }
}

#[test]
fn a_folder_that_a_client_made_and_somebody_moved_is_named_until_it_is_gone() {
    let mut world = World::default();
    let changes = recorded(&mut world, &[Deed::Make(path("/n/made")), Deed::Make(path("/own"))]);
    world.act(&Deed::MoveFolder(path("/n"), path("/m")));
    world.act(&Deed::MoveFolder(path("/m/made"), path("/kept")));
    let plan = world.plan(&changes);
    let told: Vec<_> = plan
        .left
        .iter()
        .map(|left| format!("{} {}", left.path, left.text(&ShownPaths::default())))
        .collect();
    let gone = "is not there any more; it is at";
    assert_eq!(told, [format!("/n {gone} /m now"), format!("/n/made {gone} /kept now")]);
    assert_eq!(shown(&plan).0, ["unmake folder /own"]);
    world.remove_by_hand(&path("/m"));
    world.remove_by_hand(&path("/kept"));
    assert_eq!(world.plan(&changes).left, []);
}

#[test]
fn what_somebody_put_into_a_moved_folder_stays_and_is_named() {
    let mut world = World::default();
    world.act(&Deed::Make(path("/a/b")));
    world.folders.get_mut(&path("/a/b")).unwrap().insert("link".to_owned(), vec![0]);
    let from = world.changes.len();
    world.act(&Deed::MoveFolder(path("/a"), path("/d")));
    let changes = world.changes[from..].to_vec();
    world.files.insert(path("/d/b/mine"), hash(1));
    let plan = world.undo(&changes);
    let told: Vec<String> = plan
        .left
        .iter()
        .map(|left| format!("{} {}", left.path, left.text(&ShownPaths::default())))
        .collect();
    assert_eq!(told, ["/d/b stays, since it holds /d/b/mine"]);
    assert!(world.folders[&path("/a/b")].contains_key("link"));
    // What of the rest somebody took away is said, too.
    world.act(&Deed::MoveFolder(path("/a"), path("/e")));
    let changes = world.changes[world.changes.len() - 2..].to_vec();
    world.folders.get_mut(&path("/e/b")).unwrap().clear();
    let plan = world.plan(&changes);
    assert_eq!(plan.left[0].why, LeftReason::LacksParts);
}

/// Takes changes back, and returns what the plan does.
fn steps_of(world: &mut World, changes: &[PastChange]) -> Vec<String> {
    let plan = world.undo(changes);
    assert_eq!(plan.left, []);
    shown(&plan).0
}

/// Returns the changes that some deeds make.
fn recorded(world: &mut World, deeds: &[Deed]) -> Vec<PastChange> {
    let from = world.changes.len();
    deeds.iter().for_each(|deed| world.act(deed));
    world.changes[from..].to_vec()
}

impl World {
    /// Makes or removes an empty folder as a person does it, which no history records.
    fn toggle(&mut self, folder: &SpacePath) {
        if self.folders.remove(folder).is_none() {
            self.folders.insert(folder.clone(), FolderRest::new());
            self.modes.insert(folder.clone(), NEW_FOLDER);
        } else {
            self.modes.remove(folder);
        }
    }
}

#[test]
fn a_folder_that_a_person_made_or_removed_again_after_an_undo_stays_so() {
    let d = || path("/d");
    let (make, remove) = (|| Deed::Make(d()), || Deed::RemoveFolder(d()));
    let away = || Deed::MoveFolder(d(), path("/e"));
    for (first, deeds) in [
        (vec![make()], vec![remove()]),
        (vec![], vec![make()]),
        (vec![make()], vec![remove(), make(), remove()]),
        (vec![], vec![make(), remove(), make()]),
        (vec![make()], vec![away()]),
        (vec![], vec![make(), away()]),
        (vec![make()], vec![remove(), make(), away()]),
    ] {
        let mut world = World::default();
        recorded(&mut world, &first);
        let changes = recorded(&mut world, &deeds);
        assert_ne!(steps_of(&mut world, &changes).len(), 0);
        for _ in 0..2 {
            world.toggle(&d());
            let tree = world.tree();
            assert_eq!(steps_of(&mut world, &changes).len(), 0, "{deeds:?}");
            assert_eq!(world.tree(), tree);
        }
    }
}

#[test]
fn undos_of_two_agents_that_made_and_removed_a_folder_by_turns_come_to_an_end() {
    let d = || path("/d");
    for (rounds, order) in [(1, [0, 1]), (1, [1, 0]), (2, [0, 1]), (2, [1, 0])] {
        let mut world = World::default();
        let mut changes = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            changes[0].extend(recorded(&mut world, &[Deed::Make(d())]));
            changes[1].extend(recorded(&mut world, &[Deed::RemoveFolder(d())]));
        }
        for agent in [order, order].concat() {
            steps_of(&mut world, &changes[agent]);
        }
        assert_eq!(world.folders.len(), 0, "{rounds} {order:?}");
        for agent in order {
            assert_eq!(steps_of(&mut world, &changes[agent]).len(), 0);
        }
    }
}

#[test]
fn a_folder_that_an_undo_gave_back_is_not_the_one_that_another_agent_made_in_between() {
    let d = || path("/d");
    let mut world = World::default();
    recorded(&mut world, &[Deed::Make(d())]);
    let mut changes = recorded(&mut world, &[Deed::RemoveFolder(d())]);
    let between = recorded(&mut world, &[Deed::Make(d())]);
    changes.extend(recorded(&mut world, &[Deed::RemoveFolder(d())]));
    for _ in 0..2 {
        steps_of(&mut world, &changes);
        steps_of(&mut world, &between);
        assert!(world.folders.contains_key(&d()));
    }
}

#[test]
fn a_call_that_an_earlier_undo_took_back_has_nothing_left() {
    let (note, moved) = (path("/e/n"), path("/g"));
    let mut world = World::default();
    recorded(&mut world, &[Deed::Write(note, 1), Deed::Write(moved.clone(), 2)]);
    let first = world.tree();
    let mut changes = recorded(&mut world, &[Deed::RemoveFolder(path("/e"))]);
    let last = recorded(&mut world, &[Deed::Move(moved, path("/e"))]);
    changes.extend(last.clone());
    assert_eq!(world.undo(&changes).left, []);
    assert_eq!(world.tree(), first);
    for changes in [&last, &changes] {
        assert_eq!(world.undo(changes), UndoPlan::default());
    }
}

/// At first a file is above the path, and by then a step has made a folder there.
#[test]
fn a_file_does_not_come_back_to_the_path_of_a_folder_that_a_step_makes_again() {
    let (d, inner) = (path("/d"), path("/d/e"));
    let mut world = World::default();
    recorded(&mut world, &[Deed::Write(inner.clone(), 1)]);
    let mut changes = recorded(&mut world, &[Deed::Remove(inner.clone())]);
    recorded(&mut world, &[Deed::Make(inner.clone())]);
    let away = Deed::MoveFolder(d.clone(), path("/x"));
    changes.extend(recorded(&mut world, &[away, Deed::Write(d, 2)]));
    let plan = world.undo(&changes);
    let left: Vec<_> = plan.left.iter().map(|left| (&left.path, left.why)).collect();
    assert_eq!(left, [(&inner, LeftReason::Blocked(Obstacle::NotAFile))]);
}

#[test]
fn what_a_change_of_another_client_made_again_is_named() {
    let (f, g) = (path("/f"), path("/g"));
    let by_other = |call| LeftReason::BackThroughOther { call: ChangeNumber(call) };
    for (own, others, named) in [
        (vec![Deed::Remove(f.clone())], vec![Deed::Write(f.clone(), 1)], Some(3)),
        (vec![Deed::Write(f.clone(), 2)], vec![Deed::Write(f.clone(), 1)], Some(3)),
        (vec![Deed::Move(f.clone(), g.clone())], vec![Deed::Move(g.clone(), f.clone())], Some(3)),
        (vec![Deed::Write(g.clone(), 2)], vec![Deed::Remove(g.clone())], None),
    ] {
        let mut world = World::default();
        recorded(&mut world, &[Deed::Write(f.clone(), 1)]);
        let changes = recorded(&mut world, &own);
        recorded(&mut world, &others);
        let plan = world.undo(&changes);
        let left: Vec<_> = plan.left.iter().map(|left| left.why).collect();
        assert_eq!(left, named.map(by_other).into_iter().collect::<Vec<_>>(), "{own:?}");
        assert_eq!(plan.steps, []);
    }
}
