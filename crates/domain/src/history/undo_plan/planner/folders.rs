//! Takes changes of folders back.
//!
//! A folder has no versions. What the plan knows of each folder is whether it is there after the
//! steps so far, and what it holds beside files and folders. Going back through a change that made
//! a folder, or that moved one to its place, the folder is one that is to go: once it is in the way
//! of a file, or at the end, if nothing is left in it. Going back through a change that removed or
//! moved a folder, a step makes the folder again, and gives it what it held beside files and
//! folders. Those have changes of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::{LeftChange, LeftReason, Obstacle, PathNow, Planner, UndoStep, below};
use crate::history::folder_modes::OWNER_ALONE;
use crate::history::past_change::{ChangeNumber, PastChange, PastChangeKind};
use crate::history::past_folder::{FolderNow, FolderRest, PastFolder};
use crate::path::SpacePath;

/// What the plan knows of folders.
#[derive(Default)]
pub(super) struct KnownFolders {
    /// What was in the folders before the first step; `None` for no folder.
    at_first: BTreeMap<SpacePath, Option<FolderNow>>,
    /// What is in the folders beside files and folders after the steps so far.
    now: BTreeMap<SpacePath, Option<FolderRest>>,
    /// The modes of folders after the steps so far, as far as they are known.
    modes: BTreeMap<SpacePath, u32>,
    /// The modes that calls left folders with which are to go, as far as they are known.
    left_with: BTreeMap<SpacePath, u32>,
    /// The changes that made those folders which are to go.
    made: BTreeMap<SpacePath, ChangeNumber>,
    /// The steps that make folders again which calls removed, by their places in the plan.
    given: BTreeMap<SpacePath, usize>,
    /// The folders that cannot come back to a path, by that path.
    detours: BTreeMap<SpacePath, FolderDetour>,
}

/// A folder that cannot come back to a path, with what is left because of that so far.
#[derive(Debug)]
struct FolderDetour {
    /// The path at which the folder is; `None` if it was removed.
    place: Option<SpacePath>,
    left: Option<LeftChange>,
}

impl KnownFolders {
    /// Whether a folder is at a path after the steps so far; `None` if no step tells.
    pub(super) fn has(&self, path: &SpacePath) -> Option<bool> {
        self.now.get(path).map(Option::is_some)
    }

    /// Notes that a step makes a folder for a file in it.
    pub(super) fn make(&mut self, path: &SpacePath) {
        if let Some(now) = self.now.get_mut(path) {
            *now = Some(FolderRest::new());
        }
    }
}

impl Planner<'_> {
    /// Takes a change of a folder back.
    pub(super) fn take_back_folder(&mut self, change: &PastChange) {
        match (change.kind, &change.to) {
            (PastChangeKind::FolderMoved | PastChangeKind::FolderMerged, Some(to)) => {
                match self.end_detour(to) {
                    None => self.move_folder_back(change, to),
                    Some(Some(place)) => self.move_folder_back(change, &place),
                    Some(None) => self.give_folder_back(change),
                }
            }
            (PastChangeKind::FolderRemoved, _) => {
                self.known.detours.remove(&change.path);
                self.give_folder_back(change);
            }
            _ => match self.end_detour(&change.path) {
                None => self.let_folder_go(&change.path, change.number),
                Some(Some(place)) => self.let_folder_go(&place, change.number),
                Some(None) => {}
            },
        }
    }

    /// Returns where the folder is that cannot come back to a path. What is left because of that is
    /// left out, since the folder may go back to an earlier path, or was not there before.
    fn end_detour(&mut self, path: &SpacePath) -> Option<Option<SpacePath>> {
        let FolderDetour { place, left } = self.known.detours.remove(path)?;
        self.leave_out(left.as_slice());
        Some(place)
    }

    fn add_folder_detour(
        &mut self,
        path: &SpacePath,
        place: Option<&SpacePath>,
        left: Option<LeftChange>,
    ) {
        let detour = FolderDetour { place: place.cloned(), left };
        self.known.detours.insert(path.clone(), detour);
    }

    /// Returns what a folder holds beside files and folders after the steps so far; `None` if there
    /// is no folder.
    fn folder(&mut self, path: &SpacePath) -> Option<FolderRest> {
        match self.known.now.get(path) {
            Some(now) => now.clone(),
            None if self.folders.contains(path) => Some(FolderRest::new()),
            None => self.folder_at_first(path).map(|folder| folder.rest),
        }
    }

    fn folder_at_first(&mut self, path: &SpacePath) -> Option<FolderNow> {
        if let Some(known) = self.known.at_first.get(path) {
            return known.clone();
        }
        let found = self.facts.folder(path);
        if let Some(found) = &found {
            self.known.modes.entry(path.clone()).or_insert(found.mode);
        }
        self.known.at_first.insert(path.clone(), found.clone());
        found
    }

    /// Lets a folder go that was not there before a change, once nothing is in it.
    fn let_folder_go(&mut self, path: &SpacePath, number: ChangeNumber) {
        if let Some(rest) = self.folder(path) {
            let PastFolder { mode, .. } = self.facts.folder_before(number);
            self.let_folder_with_go(path, (rest, mode), number);
        }
    }

    /// Lets a folder go that holds this beside files and folders, and to which a change left this
    /// mode; 0 if that is not known.
    fn let_folder_with_go(
        &mut self,
        path: &SpacePath,
        (rest, mode): (FolderRest, u32),
        number: ChangeNumber,
    ) {
        self.folder_at_first(path);
        self.known.left_with.remove(path);
        if mode != 0 {
            self.known.left_with.insert(path.clone(), mode);
        }
        self.known.now.insert(path.clone(), Some(rest));
        self.known.made.insert(path.clone(), number);
        self.folders.insert(path.clone());
    }

    /// Keeps a folder that was there before a change.
    fn keep_folder(&mut self, path: &SpacePath) {
        self.folders.remove(path);
        self.known.made.remove(path);
    }

    fn give_folder_back(&mut self, change: &PastChange) {
        let (path, number) = (&change.path, change.number);
        let PastFolder { mode, .. } = self.facts.folder_before(number);
        self.clear_other_folder(path, mode);
        if self.folder(path).is_none() {
            if let Some((place, why)) = self.bar_to_folder(path, number) {
                let left = self.leave_at((path, place.as_ref()), number, why);
                return self.add_folder_detour(path, None, left);
            }
            self.add_given(path, (None, FolderRest::new()), mode, number);
            self.known.given.insert(path.clone(), self.plan.steps.len() - 1);
        } else if let Some(step) = self.known.given.get(path)
            && let Some(UndoStep::GiveFolder { before, .. }) = self.plan.steps.get_mut(*step)
        {
            // The step takes this removal back, too.
            *before = number;
        } else {
            self.folders_as_before.push((path.clone(), number));
        }
        self.keep_folder(path);
    }

    fn move_folder_back(&mut self, change: &PastChange, to: &SpacePath) {
        let (from, number) = (&change.path, change.number);
        let PastFolder { mode, rest } = self.facts.folder_before(number);
        if change.kind == PastChangeKind::FolderMoved && self.folder(to).is_some() {
            self.clear_other_folder(from, mode);
        }
        let (there, here) = (self.folder(to), self.folder(from));
        let given = here.clone().unwrap_or_default();
        let (mut moving, mut is_taken, mut is_lost) = (FolderRest::new(), false, false);
        for (name, kind) in rest {
            let is_there = there.as_ref().is_some_and(|it| it.get(&name) == Some(&kind));
            if given.get(&name) == Some(&kind) {
            } else if !is_there {
                is_lost = true;
            } else if given.contains_key(&name) || self.has_name(from, &name) {
                is_taken = true;
            } else {
                moving.insert(name, kind);
            }
        }
        let Some(mut there) = there else {
            match here {
                Some(_) if !is_lost => {
                    self.folders_as_before.push((from.clone(), number));
                    self.keep_folder(from);
                }
                _ => drop(self.leave_at((to, Some(from)), number, LeftReason::GoneSince)),
            }
            return;
        };
        if here.is_none() || !moving.is_empty() {
            if here.is_none()
                && let Some((_, why)) = self.bar_to_folder(from, number)
            {
                let left = self.leave_at((to, Some(from)), number, why);
                if self.is_first_at(change, to) {
                    self.add_folder_detour(from, Some(to), left);
                }
                return;
            }
            there.retain(|name, _| !moving.contains_key(name));
            let now_given = given.into_iter().chain(moving.clone()).collect();
            // Whoever closed the folder where it is wants it closed.
            let now = self.known.modes.get(to).copied();
            let now = now.filter(|now| here.is_none() && *now != mode);
            let closed = now.map_or(mode, |now| mode & (now | OWNER_ALONE));
            let is_new = here.is_none();
            self.add_given(from, (Some(to), moving), closed, number);
            if is_new {
                self.known.given.insert(from.clone(), self.plan.steps.len() - 1);
            }
            // A path that the folder has in between is not the one to name.
            let is_closed = |why| matches!(why, LeftReason::FolderStaysClosed { .. });
            self.plan.left.retain(|left| left.path != *to || !is_closed(left.why));
            if closed != mode {
                let why = LeftReason::FolderStaysClosed { mode: closed, was: mode };
                self.leave(number, from, why);
            }
            self.known.now.insert(from.clone(), Some(now_given));
        }
        self.keep_folder(from);
        self.let_folder_with_go(to, (there, mode), number);
        if change.kind == PastChangeKind::FolderMerged {
            // The other folder was there before.
            self.keep_folder(to);
        }
        if is_taken {
            self.leave_at((to, Some(from)), number, LeftReason::PathTaken);
        }
        if is_lost {
            self.leave(number, to, LeftReason::LacksParts);
        }
    }

    /// Removes another folder that took the place of one, if it has another mode, which nobody gave
    /// it since, and nothing is left in it. The first one is made again then.
    fn clear_other_folder(&mut self, path: &SpacePath, mode: u32) {
        let left_with = self.known.left_with.get(path).copied();
        let is_as_left = |now: u32| left_with.is_none_or(|left| left == now);
        let is_other = self.folders.contains(path)
            && self.known.modes.get(path).is_some_and(|now| *now != mode && is_as_left(*now));
        if is_other {
            self.remove_folder(path);
        }
    }

    /// Adds the step that makes a folder again, with what is moved into it from another one.
    fn add_given(
        &mut self,
        path: &SpacePath,
        (from, rest): (Option<&SpacePath>, FolderRest),
        mode: u32,
        before: ChangeNumber,
    ) {
        self.folder_at_first(path);
        self.make_folders(path);
        self.known.now.insert(path.clone(), Some(FolderRest::new()));
        self.known.modes.entry(path.clone()).or_insert(mode);
        let from = from.cloned();
        self.plan.steps.push(UndoStep::GiveFolder { path: path.clone(), mode, from, rest, before });
    }

    /// Returns what keeps a folder from a path, and the path if it is to be named.
    fn bar_to_folder(
        &mut self,
        path: &SpacePath,
        number: ChangeNumber,
    ) -> Option<(Option<SpacePath>, LeftReason)> {
        let file = self.file(path, number);
        if file.made.is_some() && file.wanted.is_none() {
            self.settle(path);
        }
        if self.file(path, number).made.is_some() {
            return Some((Some(path.clone()), LeftReason::PathTaken));
        }
        let obstacle = self.obstacle(path).or_else(|| self.bar_of_folder(path));
        obstacle.map(|obstacle| (None, LeftReason::Blocked(obstacle)))
    }

    /// Whether a file or a folder has a name in a folder after the steps so far.
    fn has_name(&mut self, folder: &SpacePath, name: &str) -> bool {
        let Some(path) = folder.child(name) else { return false };
        if self.known.has(&path) == Some(true) {
            return true;
        }
        if let Some(file) = self.files.get(&path).filter(|file| is_of_file(file.at_first)) {
            return file.made.is_some();
        }
        let was_there = self.folder_at_first(folder).is_some_and(|it| it.names.contains(name));
        self.known.has(&path).unwrap_or(was_there)
    }

    /// Returns the names that keep a folder from going after the steps so far.
    fn held_in(&mut self, folder: &SpacePath) -> BTreeSet<String> {
        let name_in = |path: &SpacePath| {
            let depth = folder.components().count();
            path.components().nth(depth).unwrap_or_default().to_owned()
        };
        let files = below(&self.files, folder).filter(|(_, file)| file.made.is_some());
        let mut held: BTreeSet<String> = files.map(|(path, _)| name_in(path)).collect();
        let folders = below(&self.known.now, folder).filter(|(_, now)| now.is_some());
        held.extend(folders.map(|(path, _)| name_in(path)));
        let Some(Some(rest)) = self.known.now.get(folder).cloned() else { return held };
        held.extend(rest.into_keys());
        let names = self.folder_at_first(folder).map(|first| first.names).unwrap_or_default();
        for name in names {
            if self.has_name(folder, &name) {
                held.insert(name);
            }
        }
        held
    }

    /// Whether nothing would be left in a folder that is in the way, once the folders in it that
    /// are to go and the files that are not wanted are gone.
    pub(super) fn can_be_emptied(&mut self, folder: &SpacePath) -> bool {
        let going = self.folders.iter().filter(|inner| folder.covers(inner));
        let going: Vec<SpacePath> = going.cloned().collect();
        going.iter().all(|inner| {
            self.held_in(inner).into_iter().all(|name| {
                let Some(path) = inner.child(&name) else { return false };
                let file = self.files.get(&path);
                let is_unwanted = file.is_some_and(|it| it.made.is_some() && it.wanted.is_none());
                is_unwanted || self.folders.contains(&path)
            })
        })
    }

    /// Adds the step that removes an empty folder.
    pub(super) fn add_removal(&mut self, path: SpacePath) {
        self.known.now.insert(path.clone(), None);
        self.known.modes.remove(&path);
        self.known.given.remove(&path);
        self.plan.steps.push(match self.known.made.remove(&path) {
            Some(before) => UndoStep::UnmakeFolder { path, before },
            None => UndoStep::RemoveFolder { path },
        });
    }

    /// Leaves the removals and moves of folders that are there only through changes of others,
    /// whose undo would take them away. One into which a step brings something, or of which
    /// something is named already, stays then or is named.
    pub(super) fn leave_folders_of_others(&mut self) {
        for (path, number) in std::mem::take(&mut self.folders_as_before) {
            let stays = self.plan.steps.iter().any(|step| path.covers(step.path_after()));
            let is_named = self.plan.left.iter().any(|left| path.covers(&left.path));
            if stays || is_named {
                continue;
            }
            if let Some(other) = self.made_by_other(&path, number, None) {
                let why = LeftReason::BackThroughOther { call: other.call };
                self.leave(number, &path, why);
            }
        }
    }

    /// Adds the step that removes an empty folder, unless it or the folder above is protected.
    fn remove_or_leave(&mut self, folder: SpacePath, staying: &mut BTreeSet<SpacePath>) {
        let made = self.known.made.get(&folder).copied();
        let bar = made.and_then(|_| {
            let is_protected = self.facts.guard(&folder).map(|_| Obstacle::Protected);
            is_protected.or_else(|| self.bar_of_folder(&folder))
        });
        match (made, bar) {
            (Some(number), Some(bar)) => {
                self.leave(number, &folder, LeftReason::Stays(bar));
                staying.insert(folder);
            }
            _ => self.add_removal(folder),
        }
    }

    /// Adds the steps that remove the empty ones of the folders that are to go. Leaves those which
    /// a change made and that hold something.
    pub(super) fn remove_empty_folders(&mut self) {
        let mut staying = BTreeSet::new();
        // A folder comes before those in it.
        while let Some(folder) = self.folders.pop_last() {
            let held = self.held_in(&folder);
            let Some(first) = held.first() else {
                self.remove_or_leave(folder, &mut staying);
                continue;
            };
            let Some(number) = self.known.made.remove(&folder) else { continue };
            // What stays in a folder that is named already needs no other name.
            let is_named = |name: &String| {
                folder.child(name).is_some_and(|path| {
                    staying.contains(&path) || self.plan.left.iter().any(|it| it.path == path)
                })
            };
            if !held.iter().all(is_named) {
                let why = LeftReason::Holds { others: held.len() - 1 };
                let named = folder.child(first).unwrap_or_else(|| folder.clone());
                self.leave_at((&folder, Some(&named)), number, why);
            }
            staying.insert(folder);
        }
    }
}

/// Whether a file or nothing was at a path at first.
fn is_of_file(at_first: PathNow) -> bool {
    matches!(at_first, PathNow::File(_) | PathNow::Nothing)
}
