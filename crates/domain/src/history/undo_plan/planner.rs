//! Goes back through the changes that are taken back, and plans the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::super::lives::undoing::Undoing;
use super::super::lives::{FileNumber, Lives};
use super::super::past_change::{ChangeNumber, PastChange, PastChangeKind};
use super::{
    LeftChange, LeftReason, Obstacle, PathNow, UndoFacts, UndoPlan, UndoStep, folders_above,
};

mod detours;
mod folders;
mod guards;

/// A file on the way through the plan.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// The version that the steps so far make of the file; `None` for no file.
    made: Option<ContentHash>,
    /// The version that the file is to become.
    wanted: Option<ContentHash>,
    /// The first change that is taken back since the last step for the file.
    before: ChangeNumber,
    /// What was at the path at first.
    at_first: PathNow,
    /// Whether a change was taken back since the last step for the file.
    has_changes: bool,
}

impl Planned {
    /// Wants the version before a change, if the change made the one that is wanted so far. Returns
    /// whether it did.
    fn take_back(&mut self, change: &PastChange) -> bool {
        let is_made = self.wanted == change.after;
        if is_made {
            self.wanted = change.before;
            self.before = change.number;
            self.has_changes = true;
        }
        is_made
    }
}

/// A file that cannot come back to a path, with what is left because of that so far.
#[derive(Debug)]
struct Detour {
    file: Whereabouts,
    /// What is left out again if the file goes back further.
    left: Vec<LeftChange>,
}

/// Where a file is that cannot come back to a path.
#[derive(Debug)]
enum Whereabouts {
    /// It stays at another path, to which a change moved it.
    At(SpacePath),
    /// It was removed, and the history has this version of before a change.
    InHistory { version: ContentHash, before: ChangeNumber },
    /// It is not what the changes made of it any more.
    Lost(Lost),
    /// The changes created it, and it goes.
    Going,
    /// It was removed, and this call moved another file of the same content to its path.
    Waiting {
        /// The call.
        call: ChangeNumber,
    },
}

/// A file that is not what the changes made of it any more.
#[derive(Debug)]
struct Lost {
    /// The last path that the changes gave it.
    place: SpacePath,
    why: LeftReason,
    /// Whether the file is not there any more, at that path or where somebody moved it.
    is_gone: bool,
}

/// What the plan knows of each path.
pub(super) struct Planner<'a> {
    facts: &'a mut dyn UndoFacts,
    lives: &'a Lives,
    /// The changes that are to be taken back.
    asked: &'a BTreeSet<ChangeNumber>,
    /// Which file each change that is taken back is one of.
    of_change: BTreeMap<ChangeNumber, Option<FileNumber>>,
    /// Which file is at a path by then, if that is another one than after all changes.
    holders: BTreeMap<SpacePath, Option<FileNumber>>,
    files: BTreeMap<SpacePath, Planned>,
    /// Where the files are now that steps move; `None` for those that steps restore.
    places: BTreeMap<SpacePath, Option<SpacePath>>,
    /// The files that cannot be given back, which are named already.
    named: BTreeSet<SpacePath>,
    /// The folders that were not there before the changes: those that the steps so far made and did
    /// not remove, and those that the changes so far made.
    folders: BTreeSet<SpacePath>,
    known: folders::KnownFolders,
    /// The folders that are there as before changes that removed or moved them.
    folders_as_before: Vec<(SpacePath, ChangeNumber)>,
    /// The files that cannot come back to a path, by that path.
    detours: BTreeMap<(SpacePath, Option<FileNumber>), Detour>,
    /// The first change that concerns each path.
    first_changes: BTreeMap<SpacePath, ChangeNumber>,
    /// The moves of files that the changes created, with the creations.
    moves_of_created: BTreeMap<ChangeNumber, ChangeNumber>,
    pub(super) plan: UndoPlan,
}

/// Returns the planner after it has gone through all changes.
pub(super) fn planned<'a>(
    Undoing { changes, of_change, .. }: Undoing,
    (lives, asked): (&'a Lives, &'a BTreeSet<ChangeNumber>),
    facts: &'a mut dyn UndoFacts,
) -> Planner<'a> {
    let mut planner = Planner {
        facts,
        lives,
        asked,
        of_change,
        holders: BTreeMap::new(),
        files: BTreeMap::new(),
        places: BTreeMap::new(),
        named: BTreeSet::new(),
        folders: BTreeSet::new(),
        known: folders::KnownFolders::default(),
        folders_as_before: Vec::new(),
        detours: BTreeMap::new(),
        first_changes: detours::first_changes(changes.values()),
        moves_of_created: detours::moves_of_created(changes.values()),
        plan: UndoPlan::default(),
    };
    for change in changes.values().rev() {
        match (&change.to, change.kind) {
            (Some(to), PastChangeKind::Moved) => planner.move_back(change, to),
            _ if change.kind.is_of_folder() => planner.take_back_folder(change),
            _ => planner.take_back(change),
        }
    }
    planner.bring_back_what_waited();
    // A path comes before the paths below it, so a file goes before a folder takes its place.
    let paths: Vec<SpacePath> = planner.files.keys().cloned().collect();
    for path in paths {
        planner.settle(&path);
    }
    planner.remove_empty_folders();
    planner.leave_folders_of_others();
    planner
}

/// Returns the entries below a folder of those that are in the order of their paths.
fn below<'m, V>(
    entries: &'m BTreeMap<SpacePath, V>,
    folder: &'m SpacePath,
) -> impl Iterator<Item = (&'m SpacePath, &'m V)> {
    entries
        .range((Excluded(folder), Unbounded))
        .take_while(|(path, _)| path.as_str().starts_with(folder.as_str()))
        .filter(|(path, _)| folder.covers(path))
}

impl Planner<'_> {
    /// Returns the last change after `after` that made what is at a path, the file with a version
    /// or the folder for `None`, if it is not to be taken back and not one of the owner's.
    fn made_by_other(
        &self,
        path: &SpacePath,
        after: ChangeNumber,
        version: Option<ContentHash>,
    ) -> Option<&PastChange> {
        let made = self.lives.made_by(path, after, version)?;
        (!made.author.is_of_owner() && !self.asked.contains(&made.number)).then_some(made)
    }

    /// Leaves out each single move that could not be taken back, if its file is at its first path
    /// after all.
    pub(super) fn leave_out_moves_of_returned(&mut self, places: &BTreeMap<FileNumber, SpacePath>) {
        let left = std::mem::take(&mut self.plan.left);
        let is_back = |left: &LeftChange| {
            let file = self.of_change.get(&left.number).copied().flatten();
            let place = file.and_then(|file| places.get(&file)).filter(|_| left.to.is_some());
            place.is_some_and(|place| self.holder(place) == file)
        };
        self.plan.left = left.into_iter().filter(|left| !is_back(left)).collect();
    }

    /// Returns which file is at a path by then, as far as that is known.
    fn holder(&self, path: &SpacePath) -> Option<FileNumber> {
        self.holders.get(path).copied().unwrap_or_else(|| self.lives.file_at(path))
    }

    /// Returns which file a change is one of, if it is known to be one alone.
    fn number_of(&self, change: &PastChange) -> Option<FileNumber> {
        self.of_change.get(&change.number).copied().flatten()
    }

    /// Whether another file is at a path by then than the one of a change, whatever their contents.
    fn is_taken(&mut self, path: &SpacePath, change: &PastChange) -> bool {
        let is_there = self.file(path, change.number).wanted.is_some();
        let holder = self.holder(path).filter(|_| is_there);
        let of_change = self.number_of(change);
        holder.zip(of_change).is_some_and(|(holder, file)| holder != file)
    }

    /// Leaves a change of a file whose path another one has. If that one has the same content, the
    /// file is as before, and the undo of what brought the other one there is to come first.
    fn leave_out_of_taken(&mut self, change: &PastChange) {
        let (path, number) = (&change.path, change.number);
        let is_same = self.file(path, number).wanted == change.before;
        let (lives, asked) = (self.lives, self.asked);
        let (place, made) = self.holder(path).map_or((None, None), |it| lives.left(it, asked));
        let made = made.filter(|made| place == Some(path) && is_same && made.number > number);
        match made.map(|made| (made.call, made.author.is_of_owner())) {
            None => {
                let left = self.leave_at((path, Some(path)), number, LeftReason::PathTaken);
                if let (PastChangeKind::Removed, Some(version)) = (change.kind, change.before) {
                    let file = Whereabouts::InHistory { version, before: number };
                    self.add_detour(change, file, left);
                }
            }
            Some((_, true)) => {}
            Some((call, false)) => {
                self.leave(number, path, LeftReason::BackThroughOther { call });
                if change.kind == PastChangeKind::Removed {
                    self.add_detour(change, Whereabouts::Waiting { call }, None);
                }
            }
        }
    }

    fn file(&mut self, path: &SpacePath, number: ChangeNumber) -> &mut Planned {
        self.files.entry(path.clone()).or_insert_with(|| {
            let at_first = self.facts.now(path);
            let version = match at_first {
                PathNow::File(version) => Some(version),
                PathNow::Nothing | PathNow::Blocked(_) => None,
            };
            let (made, wanted) = (version, version);
            Planned { made, wanted, before: number, at_first, has_changes: false }
        })
    }

    fn leave(&mut self, number: ChangeNumber, path: &SpacePath, why: LeftReason) {
        self.leave_at((path, None), number, why);
    }

    /// Leaves a change of a file, which cannot go back to the path `to` if there is one. Returns
    /// what was added, so that it can be left out again.
    fn leave_at(
        &mut self,
        (path, to): (&SpacePath, Option<&SpacePath>),
        number: ChangeNumber,
        why: LeftReason,
    ) -> Option<LeftChange> {
        if !why.is_somebodys() && !self.named.insert(path.clone()) {
            return None;
        }
        let left = LeftChange { number, path: path.clone(), to: to.cloned(), why };
        self.plan.left.push(left.clone());
        Some(left)
    }

    fn take_back(&mut self, change: &PastChange) {
        if self.take_back_on_detour(change) {
            return;
        }
        if self.is_taken(&change.path, change) {
            return self.leave_out_of_taken(change);
        }
        let file = self.file(&change.path, change.number);
        if file.take_back(change) {
            let holder = change.before.and(self.number_of(change));
            self.holders.insert(change.path.clone(), holder);
            return;
        }
        if file.wanted == change.before {
            return self.go_on_as_before(&change.path, change);
        }
        let is_gone = file.wanted.is_none();
        let missing = if is_gone { LeftReason::GoneSince } else { LeftReason::ChangedSince };
        let why = match file.at_first {
            PathNow::Blocked(obstacle) if is_gone => LeftReason::Blocked(obstacle),
            _ => missing,
        };
        let left = self.leave_at((&change.path, None), change.number, why);
        if let (PastChangeKind::Removed, Some(version)) = (change.kind, change.before) {
            let file = Whereabouts::InHistory { version, before: change.number };
            self.add_detour(change, file, left);
        }
    }

    /// Goes on where the file at a path is what it was before a change. The change was taken back
    /// already, or never made after it was recorded. Or a change that is not taken back made the
    /// file so, and the undo of that one will take it away: then this is named.
    fn go_on_as_before(&mut self, path: &SpacePath, change: &PastChange) {
        let Some(version) = change.before else { return };
        if *path == change.path && self.is_taken(path, change) {
            return self.leave_out_of_taken(change);
        }
        let other = self.made_by_other(path, change.number, Some(version));
        let Some((call, is_move)) = other.map(|other| (other.call, other.kind.is_move())) else {
            return;
        };
        self.leave(change.number, path, LeftReason::BackThroughOther { call });
        if change.kind == PastChangeKind::Removed && is_move {
            // The file that is there is another one, of which nothing is to be taken back.
            self.add_detour(change, Whereabouts::Waiting { call }, None);
        }
    }

    fn move_back(&mut self, change: &PastChange, to: &SpacePath) {
        let detour = self.detours.remove(&(to.clone(), self.number_of(change)));
        if let Some(detour) = &detour {
            // The file may go back to the earlier path, or that is the one to name.
            self.leave_out(&detour.left);
        }
        match detour.map(|detour| detour.file) {
            None => self.move_back_from(change, to),
            Some(Whereabouts::At(place)) => self.move_back_from(change, &place),
            Some(Whereabouts::InHistory { version, before }) => {
                self.bring_back_moved(change, to, (version, before));
            }
            Some(Whereabouts::Lost(lost)) => self.lose_further(change, lost),
            Some(Whereabouts::Going) => self.add_detour(change, Whereabouts::Going, None),
            Some(Whereabouts::Waiting { call }) => {
                let why = LeftReason::BackThroughOther { call };
                self.leave(change.number, &change.path, why);
                self.add_detour(change, Whereabouts::Waiting { call }, None);
            }
        }
    }

    /// Takes a move back of a file that is at the path `to` by now.
    fn move_back_from(&mut self, change: &PastChange, to: &SpacePath) {
        let there = self.file(to, change.number).wanted;
        let here = self.file(&change.path, change.number).wanted;
        if self.is_taken(to, change) {
            return match Some(here) == Some(change.before) && here.is_some() {
                true => self.go_on_as_before(&change.path, change),
                false => self.lose(change, to, LeftReason::ChangedSince),
            };
        }
        match (there, here) {
            (Some(version), None) if Some(version) == change.after => {
                // The move is a step of its own, so what was planned for the files comes before.
                self.settle(&change.path);
                let is_in_history = self.file(to, change.number).made.is_none();
                if is_in_history && self.obstacle(to).is_some() {
                    let file = self.file(to, change.number);
                    file.wanted = None;
                    let before = file.before;
                    return self.give_on(&change.path, before, version);
                }
                if self.obstacle(&change.path).is_some() && self.let_created_go(change, to) {
                    return;
                }
                if self.lacks_wanted(to) {
                    return self.move_back_as_it_is(change, to, version);
                }
                self.settle(to);
                let left = self.file(to, change.number).made != Some(version);
                let why = match left {
                    true => Some(LeftReason::NotKept),
                    false => {
                        let obstacle = self.obstacle(&change.path);
                        obstacle
                            .or_else(|| self.bar_to_move(to, &change.path))
                            .map(LeftReason::Blocked)
                    }
                };
                match why {
                    None => self.add_move_back(change, to, version),
                    Some(why @ LeftReason::Blocked(_)) => {
                        let left = self.leave_at((to, Some(&change.path)), change.number, why);
                        self.add_detour_at(change, to, left);
                    }
                    Some(why) => {
                        self.leave_at((to, Some(&change.path)), change.number, why);
                    }
                }
            }
            (_, Some(version)) if Some(version) == change.before && there != change.after => {
                self.go_on_as_before(&change.path, change);
            }
            (None, _) => match self.file(to, change.number).at_first {
                PathNow::Blocked(Obstacle::Unreadable) => {
                    let why = LeftReason::Blocked(Obstacle::Unreadable);
                    let left = self.leave_at((to, None), change.number, why);
                    let lost =
                        Lost { place: to.clone(), why: LeftReason::GoneSince, is_gone: false };
                    self.add_detour(change, Whereabouts::Lost(lost), left);
                }
                _ => self.lose(change, to, LeftReason::GoneSince),
            },
            (Some(version), Some(_)) if Some(version) == change.after => {
                if self.let_created_go(change, to) {
                    return;
                }
                let file = self.file(to, change.number);
                let (is_there, before) = (file.made.is_some(), file.before);
                if !is_there {
                    // The place of a file that is only in the history may be that of another one.
                    file.wanted = None;
                }
                let place = if is_there { to } else { &change.path };
                let place = (place, Some(&change.path));
                let left = self.leave_at(place, change.number, LeftReason::PathTaken);
                match is_there {
                    true => self.add_detour_at(change, to, left),
                    false => {
                        let file = Whereabouts::InHistory { version, before };
                        self.add_detour(change, file, left);
                    }
                }
            }
            _ => self.lose(change, to, LeftReason::ChangedSince),
        }
    }

    fn add_move_back(&mut self, change: &PastChange, to: &SpacePath, from: ContentHash) {
        let file = self.number_of(change);
        self.add_move([to, &change.path], (from, file), change.number);
    }

    /// Adds the step that moves a file with a version from one path to another.
    fn add_move(
        &mut self,
        [place, path]: [&SpacePath; 2],
        (from, file): (ContentHash, Option<FileNumber>),
        before: ChangeNumber,
    ) {
        let (path, to) = (place.clone(), path.clone());
        self.make_folders(&to);
        self.plan.steps.push(UndoStep::MoveBack { path, from, to: to.clone(), before });
        let first = self.places.remove(place).unwrap_or_else(|| Some(place.clone()));
        self.places.insert(to.clone(), first);
        self.set(place, None, before);
        self.set(&to, Some(from), before);
        self.holders.insert(place.clone(), None);
        self.holders.insert(to, file);
    }

    /// Takes a move back of a file whose version at the time of the move the history lacks. The
    /// file moves as it is by now, if it is there, and a version of before the move may come back.
    fn move_back_as_it_is(&mut self, change: &PastChange, to: &SpacePath, version: ContentHash) {
        if let Some(from) = self.file(to, change.number).made {
            let obstacle = self.obstacle(&change.path);
            if let Some(obstacle) = obstacle.or_else(|| self.bar_to_move(to, &change.path)) {
                let place = (to, Some(&change.path));
                self.leave_at(place, change.number, LeftReason::Blocked(obstacle));
                return;
            }
            self.add_move_back(change, to, from);
        }
        self.file(to, change.number).wanted = None;
        let file = self.file(&change.path, change.number);
        (file.wanted, file.before) = (Some(version), change.number);
    }

    /// Whether the history lacks the version that a file is to become.
    fn lacks_wanted(&mut self, path: &SpacePath) -> bool {
        let Some(Planned { made: from, wanted: Some(to), before, .. }) =
            self.files.get(path).copied()
        else {
            return false;
        };
        let step = UndoStep::Restore { path: path.clone(), from, to, before };
        from != Some(to) && self.facts.lacks(&step).is_some()
    }

    /// Whether a file that has its content is another one than before a change. A file that a step
    /// restores may have been one in between.
    fn is_other_file(&mut self, path: &SpacePath, before: ChangeNumber) -> bool {
        match self.places.get(path).unwrap_or(&Some(path.clone())) {
            Some(now) => self.facts.is_other_file(now, path, before),
            None => true,
        }
    }

    fn set(&mut self, path: &SpacePath, version: Option<ContentHash>, before: ChangeNumber) {
        let file = self.file(path, before);
        (file.made, file.wanted, file.before) = (version, version, before);
        file.has_changes = false;
    }

    /// Returns what will keep a file from a path after the steps so far. A file above that is not
    /// wanted any more goes here, and so does a folder that a step made and nothing in which is
    /// wanted.
    fn obstacle(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let at_first = self.files.get(path)?.at_first;
        let mut was_above = false;
        for folder in folders_above(path) {
            let Some(above) = self.files.get(&folder).copied() else { continue };
            if above.made.is_some() && above.wanted.is_none() {
                self.settle(&folder);
            }
            if self.files.get(&folder).is_some_and(|file| file.made.is_some()) {
                return Some(Obstacle::FileAbove);
            }
            was_above |= matches!(above.at_first, PathNow::File(_));
        }
        let has_folder = self.known.has(path);
        match at_first {
            // A step may have made the folder where a file was above at first.
            _ if has_folder == Some(true) && !self.folders.contains(path) => {
                return Some(Obstacle::NotAFile);
            }
            PathNow::Blocked(Obstacle::FileAbove) if was_above => {}
            PathNow::Blocked(Obstacle::NotAFile) if has_folder.is_some() => {}
            PathNow::Blocked(obstacle) => return Some(obstacle),
            PathNow::File(_) | PathNow::Nothing => {}
        }
        let is_in_the_way = self.folders.contains(path) && !self.remove_folder(path);
        is_in_the_way.then_some(Obstacle::NotAFile)
    }

    /// Notes the folders that a step makes for a file at a path.
    fn make_folders(&mut self, path: &SpacePath) {
        for folder in folders_above(path) {
            let is_there = self.known.has(&folder).unwrap_or_else(|| {
                // A file there is gone by now: it would be an obstacle.
                matches!(self.facts.now(&folder), PathNow::Blocked(it) if it != Obstacle::FileAbove)
            });
            if is_there || !self.folders.insert(folder.clone()) {
                break;
            }
            self.known.make(&folder);
        }
    }

    /// Adds the steps that remove a folder that a step made, and all that is in it. Returns `false`
    /// if a file in it is wanted.
    fn remove_folder(&mut self, folder: &SpacePath) -> bool {
        if !self.can_be_emptied(folder) {
            return false;
        }
        let files = below(&self.files, folder).filter(|(_, file)| file.made.is_some());
        let (files, are_wanted): (Vec<SpacePath>, Vec<bool>) =
            files.map(|(path, file)| (path.clone(), file.wanted.is_some())).unzip();
        if are_wanted.contains(&true) {
            return false;
        }
        for path in files {
            self.settle(&path);
        }
        let inner = self.folders.iter().rev().filter(|inner| folder.covers(inner));
        let gone: Vec<SpacePath> = inner.cloned().collect();
        for path in gone {
            self.folders.remove(&path);
            self.add_removal(path);
        }
        true
    }

    /// Adds the step that makes of a file what is wanted, unless it is that already. If that cannot
    /// be done, the file stays as the steps so far make it.
    fn settle(&mut self, path: &SpacePath) {
        let Some(Planned { made, wanted, before, has_changes, .. }) = self.files.get(path).copied()
        else {
            return;
        };
        if made == wanted && !(has_changes && made.is_some() && self.is_other_file(path, before)) {
            return;
        }
        let step = match (made, wanted) {
            (from, Some(to)) => UndoStep::Restore { path: path.clone(), from, to, before },
            (Some(from), None) => UndoStep::Remove { path: path.clone(), from, before },
            (None, None) => return,
        };
        let why = match step {
            UndoStep::Restore { from, .. } => {
                let obstacle = self.obstacle(path).or_else(|| {
                    let is_there = from.is_some();
                    let bar = self.bar_of_folder(path);
                    bar.or_else(|| if is_there { self.bar_to_replace(path, before) } else { None })
                });
                obstacle.map(LeftReason::Blocked).or_else(|| self.facts.lacks(&step))
            }
            _ => self.bar_to_remove(path).map(LeftReason::Stays),
        };
        let becomes = if why.is_some() { made } else { wanted };
        if let Some(file) = self.files.get_mut(path) {
            (file.made, file.wanted) = (becomes, becomes);
            file.has_changes = false;
        }
        match why {
            Some(why) => self.leave(before, path, why),
            None => {
                if let UndoStep::Restore { from: None, .. } = step {
                    self.make_folders(path);
                }
                self.places.insert(path.clone(), None);
                self.plan.steps.push(step);
            }
        }
    }
}
