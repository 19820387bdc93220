//! Names the changes above which others stand.

use crate::history::lives::{Held, Holding, Lives};

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
