//! Names the changes above which others stand, and leaves folders alone that are somebody's.

use std::collections::BTreeSet;

use crate::history::lives::Lives;
use crate::history::lives::undoing::{Held, Holding, Undoing};
use crate::history::past_change::{ChangeNumber, PastChangeKind};
use crate::path::SpacePath;

use super::{LeftChange, LeftReason, PathNow, UndoFacts};

/// Returns why changes are left above which others stand; `None` where nothing is to be done by
/// now.
pub(super) fn left(held: Held, lives: &Lives, facts: &mut dyn UndoFacts) -> Option<LeftChange> {
    let Held { number, is_folder, path, why, is_by_then, by } = held;
    let (to, why) = match why {
        Holding::Moved { now, without } => {
            let is_there = match is_folder {
                true => facts.folder(&now).is_some(),
                false => matches!(facts.now(&now), PathNow::File(_)),
            };
            match (is_there || is_by_then, without) {
                (true, _) => (Some(now), LeftReason::MovedSince),
                (false, Some(without)) => (Some(without), LeftReason::GoneSince),
                (false, None) => return None,
            }
        }
        Holding::Removed { without, version } => {
            let back = without.as_ref().unwrap_or(&path);
            let is_back = match version {
                Some(version) => facts.now(back) == PathNow::File(version),
                None => facts.folder(back).is_some(),
            };
            // What is there instead may be another file, which another undo takes away.
            let other = lives.made_by(back, number, version);
            match other.filter(|other| !other.author.is_of_owner()) {
                _ if !is_back => (without, LeftReason::GoneSince),
                Some(other) => (None, LeftReason::BackThroughOther { call: other.call }),
                None => return None,
            }
        }
        Holding::Written => (None, LeftReason::ChangedSince),
        Holding::Changed { .. } if is_by_then => (None, LeftReason::ChangedSince),
        Holding::Changed { without } => match (facts.now(&path), without) {
            (PathNow::File(now), Some(without)) if now == without => return None,
            (PathNow::Nothing, None) => return None,
            (PathNow::Nothing, Some(_)) => (None, LeftReason::GoneSince),
            _ => (None, LeftReason::ChangedSince),
        },
        Holding::AsBefore => {
            let call = lives.recorded(by?)?.call;
            (None, LeftReason::BackThroughOther { call })
        }
    };
    Some(LeftChange { number, path, to, why })
}

/// Whether something of what a folder held beside files and folders before a move is still to go
/// back to it from the place to which it was moved.
fn is_to_merge(
    number: &ChangeNumber,
    [path, to]: [&SpacePath; 2],
    facts: &mut dyn UndoFacts,
) -> bool {
    let rest = facts.folder_before(*number).rest;
    let there = facts.folder(to).unwrap_or_default().rest;
    facts.folder(path).is_some() && rest.keys().any(|name| there.contains_key(name))
}

impl Undoing {
    /// Leaves folders alone that somebody removed by hand, and ends of moves of folders that are
    /// taken back already.
    pub(super) fn leave_folders_alone(
        &mut self,
        (lives, asked): (&Lives, &BTreeSet<ChangeNumber>),
        facts: &mut dyn UndoFacts,
    ) {
        let [given, taken] = &self.folders;
        self.changes.retain(|number, change| {
            let is_by_hand = |facts: &mut dyn UndoFacts| {
                let made = lives.made_by(&change.path, *number, None);
                made.is_some_and(|made| asked.contains(&made.number))
                    && facts.folder(&change.path).is_none()
            };
            match (change.kind, change.to.take()) {
                (PastChangeKind::FolderRemoved, _) => !is_by_hand(facts),
                // Somebody made one there since.
                (PastChangeKind::FolderCreated, _) => {
                    lives.has_folder(&change.path) != Some(false)
                        || facts.folder(&change.path).is_none()
                }
                (PastChangeKind::FolderMoved, Some(to)) => {
                    let comes = given.contains(&(*number, change.path.clone()));
                    let goes = taken.contains(&(*number, to.clone()));
                    let is_by_hand = comes && is_by_hand(facts);
                    if comes && !goes && !lives.is_held(&to, *number) {
                        change.kind = PastChangeKind::FolderRemoved;
                        return !is_by_hand;
                    }
                    if is_by_hand || !comes && !is_to_merge(number, [&change.path, &to], facts) {
                        (change.kind, change.path) = (PastChangeKind::FolderCreated, to);
                    } else {
                        change.to = Some(to);
                    }
                    true
                }
                (_, to) => {
                    change.to = to;
                    true
                }
            }
        });
    }
}
