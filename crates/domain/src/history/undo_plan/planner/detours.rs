//! Files that cannot come back to a path, since something else is there or they are gone.
//!
//! A file may have had that path only in between: it was moved there from another one. Then the
//! path does not matter. The plan remembers where the file is, and goes on with the changes before:
//! the file goes back from there to the earlier path, if that is free. If it is not, or the file is
//! lost, the earlier path is the one that is named, since there the owner looks for the file. A
//! file that a change created has no earlier path, so it just goes, and its place is free at once.

use std::collections::BTreeMap;

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::{Detour, LeftChange, LeftReason, Lost, PathNow, Planner, Whereabouts};
use crate::history::past_change::{ChangeNumber, PastChange, PastChangeKind};

/// Returns the first of `changes` that concerns each path.
pub(super) fn first_changes<'c>(
    changes: impl Iterator<Item = &'c PastChange>,
) -> BTreeMap<SpacePath, ChangeNumber> {
    let mut first = BTreeMap::new();
    for change in changes {
        for path in std::iter::once(&change.path).chain(&change.to) {
            first.entry(path.clone()).or_insert(change.number);
        }
    }
    first
}

/// Returns the moves of files that `changes` created and that nobody else changed in between, each
/// with the creation.
pub(super) fn moves_of_created<'c>(
    changes: impl Iterator<Item = &'c PastChange>,
) -> BTreeMap<ChangeNumber, ChangeNumber> {
    let (mut created, mut moves) = (BTreeMap::new(), BTreeMap::new());
    for change in changes.filter(|change| !change.kind.is_of_folder()) {
        let known = created.remove(&change.path);
        let origin = match (known, change.before) {
            (_, None) => Some(change.number),
            (Some((origin, after)), before) if after == before => Some(origin),
            _ => None,
        };
        let to = change.to.as_ref().unwrap_or(&change.path);
        if let Some(origin) = origin.filter(|_| change.after.is_some()) {
            created.insert(to, (origin, change.after));
            if change.to.is_some() {
                moves.insert(change.number, origin);
            }
        }
    }
    moves
}

impl Planner<'_> {
    /// Lets a file go that changes created, before it was moved to the path `to` from one to which
    /// it cannot go back. Returns `false` for any other file.
    pub(super) fn let_created_go(&mut self, change: &PastChange, to: &SpacePath) -> bool {
        let Some(origin) = self.moves_of_created.get(&change.number).copied() else { return false };
        let file = self.file(to, change.number);
        (file.wanted, file.before) = (None, origin);
        file.has_changes = true;
        self.add_detour(change, Whereabouts::Going, None);
        true
    }

    pub(super) fn add_detour(
        &mut self,
        change: &PastChange,
        file: Whereabouts,
        left: Option<LeftChange>,
    ) {
        let left = left.into_iter().collect();
        let of = (change.path.clone(), self.number_of(change));
        self.detours.insert(of, Detour { file, left });
    }

    /// Notes that a file stays at the path `to`, to which a change moved it.
    pub(super) fn add_detour_at(
        &mut self,
        change: &PastChange,
        to: &SpacePath,
        left: Option<LeftChange>,
    ) {
        self.add_detour(change, Whereabouts::At(to.clone()), left);
    }

    /// Whether no change before this one concerns a path.
    pub(super) fn is_first_at(&self, change: &PastChange, path: &SpacePath) -> bool {
        self.first_changes.get(path).is_none_or(|first| *first >= change.number)
    }

    /// Leaves out what was left, since it comes back after all, or something else names it.
    pub(super) fn leave_out(&mut self, left: &[LeftChange]) {
        self.plan.left.retain(|other| !left.contains(other));
        for left in left {
            self.named.remove(&left.path);
        }
    }

    /// Takes back a change of a file that cannot come back to its path. Returns `false` for a
    /// change of another file that had the path before.
    pub(super) fn take_back_on_detour(&mut self, change: &PastChange) -> bool {
        let of = (change.path.clone(), self.number_of(change));
        let Some(mut detour) = self.detours.remove(&of) else { return false };
        if change.kind == PastChangeKind::Removed {
            return false;
        }
        let is_creation = change.before.is_none();
        let mut is_of_file = true;
        match &mut detour.file {
            Whereabouts::At(place) => {
                let place = place.clone();
                let file = self.file(&place, change.number);
                match file.take_back(change) {
                    true => {}
                    false if file.wanted == change.before => self.go_on_as_before(&place, change),
                    false => {
                        is_of_file = false;
                        self.leave(change.number, &place, LeftReason::ChangedSince);
                    }
                }
            }
            Whereabouts::InHistory { version, before } => match change.before {
                // Another client's changes in between are not taken back.
                Some(_) if change.after != Some(*version) => return false,
                None if change.after != Some(*version) => is_of_file = false,
                Some(earlier) => (*version, *before) = (earlier, change.number),
                None => {}
            },
            Whereabouts::Lost(lost) => {
                is_of_file = lost.is_gone;
                // An earlier undo may have taken back the move and not this change.
                let left = detour.left.first().cloned();
                let left = left.map(|left| LeftChange { number: change.number, ..left });
                self.plan.left.extend(left.clone());
                detour.left.extend(left);
            }
            Whereabouts::Going | Whereabouts::Waiting { .. } => {}
        }
        match is_creation {
            false => drop(self.detours.insert(of, detour)),
            // There was no file before.
            true if is_of_file => self.leave_out(&detour.left),
            true => {}
        }
        true
    }

    /// Takes a move back of a file that was removed and cannot come back to the path `to`, to which
    /// the change moved it: the file comes back to the path before.
    pub(super) fn bring_back_moved(
        &mut self,
        change: &PastChange,
        to: &SpacePath,
        (version, before): (ContentHash, ChangeNumber),
    ) {
        let (number, path) = (change.number, &change.path);
        let here = self.file(path, number).wanted;
        if change.after != Some(version) {
            // Another client's changes in between are not taken back.
            return self.move_back_from(change, to);
        }
        match here {
            None => self.give_on(path, before, version),
            Some(here) if Some(here) == change.before => self.go_on_as_before(path, change),
            Some(_) => {
                let left = self.leave_at((path, Some(path)), number, LeftReason::PathTaken);
                self.add_detour(change, Whereabouts::InHistory { version, before }, left);
            }
        }
    }

    /// Gives a file of which only the history has a version, which it had before a change, to the
    /// path that it had before a move.
    pub(super) fn give_on(&mut self, path: &SpacePath, number: ChangeNumber, version: ContentHash) {
        let file = self.file(path, number);
        (file.wanted, file.before) = (Some(version), number);
        file.has_changes = true;
        let holder = self.of_change.get(&number).copied().flatten();
        self.holders.insert(path.clone(), holder);
    }

    /// Brings back files whose path another one had, which has gone on from there.
    pub(super) fn bring_back_what_waited(&mut self) {
        for ((path, file), Detour { file: is, left }) in std::mem::take(&mut self.detours) {
            let is_taken = |left: &LeftChange| left.why == LeftReason::PathTaken;
            let Some(number) = left.first().map(|left| left.number) else { continue };
            if !left.iter().all(is_taken) || self.file(&path, number).wanted.is_some() {
                continue;
            }
            match is {
                Whereabouts::InHistory { version, before } => {
                    self.give_on(&path, before, version);
                    self.leave_out(&left);
                }
                Whereabouts::At(place) if self.holder(&place) == file => {
                    for path in [&path, &place] {
                        self.settle(path);
                    }
                    let Some(version) = self.file(&place, number).made else { continue };
                    let bar = self.obstacle(&path).or_else(|| self.bar_to_move(&place, &path));
                    if bar.is_none() {
                        self.add_move([&place, &path], (version, file), number);
                        self.leave_out(&left);
                    }
                }
                _ => {}
            }
        }
    }

    /// Leaves a move of a file that is not there any more, or not what the move left, and names the
    /// path before the move.
    pub(super) fn lose(&mut self, change: &PastChange, place: &SpacePath, why: LeftReason) {
        let moved = self.lives.place_of(change.number).filter(|moved| *moved != place);
        let is_elsewhere =
            moved.is_some_and(|moved| matches!(self.facts.now(moved), PathNow::File(_)));
        let is_gone = why == LeftReason::GoneSince && !is_elsewhere;
        self.lose_further(change, Lost { place: place.clone(), why, is_gone });
    }

    /// Names an earlier path of a file that is lost.
    pub(super) fn lose_further(&mut self, change: &PastChange, lost: Lost) {
        let left = self.leave_at((&lost.place, Some(&change.path)), change.number, lost.why);
        self.add_detour(change, Whereabouts::Lost(lost), left);
    }
}
