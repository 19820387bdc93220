//! Which steps take changes back, and which files are left since somebody changed them later.
//!
//! The plan compares hashes alone. It goes through the changes from the last to the first, and
//! keeps for each path which version the file would have by then. A change is taken back only if
//! its file would be exactly the version that the change made. So a plan never touches what anybody
//! else wrote later.

use std::collections::BTreeMap;

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::past_change::{ChangeNumber, PastChange, PastChangeKind};

/// One step of an undo. Each is one guarded change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoStep {
    /// Gives a file its earlier content.
    Restore {
        /// The file.
        path: SpacePath,
        /// The version that the file must still be; `None` if there must be no file.
        from: Option<ContentHash>,
        /// The version that the file becomes.
        to: ContentHash,
        /// The first change that the step takes back: the file becomes what it was before.
        before: ChangeNumber,
    },
    /// Removes a file that was created. Its content goes to the history.
    Remove {
        /// The file.
        path: SpacePath,
        /// The version that the file must still be.
        from: ContentHash,
    },
    /// Gives a file its earlier path.
    MoveBack {
        /// The path of the file now.
        path: SpacePath,
        /// The version that the file must still be.
        from: ContentHash,
        /// The path that the file had before.
        to: SpacePath,
    },
}

impl UndoStep {
    /// Returns the file that the step changes.
    pub fn path(&self) -> &SpacePath {
        match self {
            Self::Restore { path, .. }
            | Self::Remove { path, .. }
            | Self::MoveBack { path, .. } => path,
        }
    }
}

/// A change that is not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftChange {
    /// The change that is left as it is.
    pub number: ChangeNumber,
    /// The file that was changed since.
    pub path: SpacePath,
    /// Why the change is left.
    pub why: LeftReason,
}

/// Why a change is not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftReason {
    /// The file is another version than the change made.
    ChangedSince,
    /// The file has gone.
    GoneSince,
    /// Another file has the path to which a file would go back.
    PathTaken,
}

impl LeftReason {
    /// Returns the reason as the end of a sentence about the file.
    pub fn text(self) -> &'static str {
        match self {
            Self::ChangedSince => "was changed since",
            Self::GoneSince => "is not there any more",
            Self::PathTaken => "cannot go back, since there is another file at its earlier path",
        }
    }
}

/// The steps that take changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps in the order in which they must be made.
    pub steps: Vec<UndoStep>,
    /// The changes that are left, the latest first.
    pub left: Vec<LeftChange>,
}

/// A file on the way through the plan.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// The version that the steps so far make of the file; `None` for no file.
    made: Option<ContentHash>,
    /// The version that the file is to become.
    wanted: Option<ContentHash>,
    /// The first change that is taken back since the last step for the file.
    before: ChangeNumber,
}

/// What the plan knows of each path.
struct Planner<'a> {
    current: &'a mut dyn FnMut(&SpacePath) -> Option<ContentHash>,
    files: BTreeMap<SpacePath, Planned>,
    plan: UndoPlan,
}

/// Plans the undo of `changes`, which are in the order of their numbers. `current` returns the
/// present version of a file; `None` where there is none.
pub fn undo_plan(
    changes: &[PastChange],
    current: &mut dyn FnMut(&SpacePath) -> Option<ContentHash>,
) -> UndoPlan {
    let mut planner = Planner { current, files: BTreeMap::new(), plan: UndoPlan::default() };
    for change in changes.iter().rev() {
        match (&change.to, change.kind) {
            (Some(to), PastChangeKind::Moved) => planner.move_back(change, to),
            _ => planner.take_back(change),
        }
    }
    let paths: Vec<SpacePath> = planner.files.keys().cloned().collect();
    for path in paths {
        planner.settle(&path);
    }
    planner.plan
}

impl Planner<'_> {
    fn file(&mut self, path: &SpacePath, number: ChangeNumber) -> &mut Planned {
        self.files.entry(path.clone()).or_insert_with(|| {
            let version = (self.current)(path);
            Planned { made: version, wanted: version, before: number }
        })
    }

    fn leave(&mut self, change: &PastChange, path: &SpacePath, why: LeftReason) {
        self.plan.left.push(LeftChange { number: change.number, path: path.clone(), why });
    }

    fn take_back(&mut self, change: &PastChange) {
        let file = self.file(&change.path, change.number);
        if file.wanted == change.after {
            file.wanted = change.before;
            file.before = change.number;
        } else if file.wanted != change.before {
            let is_gone = file.wanted.is_none();
            let why = if is_gone { LeftReason::GoneSince } else { LeftReason::ChangedSince };
            self.leave(change, &change.path, why);
        }
        // Otherwise the change was taken back before, or never made after it was recorded.
    }

    fn move_back(&mut self, change: &PastChange, to: &SpacePath) {
        let there = self.file(to, change.number).wanted;
        let here = self.file(&change.path, change.number).wanted;
        match (there, here) {
            (Some(version), None) if Some(version) == change.after => {
                // The move is a step of its own, so what was planned for the file comes before.
                self.settle(to);
                self.settle(&change.path);
                let path = to.clone();
                let step = UndoStep::MoveBack { path, from: version, to: change.path.clone() };
                self.plan.steps.push(step);
                self.set(to, None, change.number);
                self.set(&change.path, Some(version), change.number);
            }
            // The move was taken back before, or never made after it was recorded.
            (_, Some(version)) if Some(version) == change.before && there != change.after => {}
            (None, _) => self.leave(change, to, LeftReason::GoneSince),
            (Some(version), Some(_)) if Some(version) == change.after => {
                self.leave(change, to, LeftReason::PathTaken);
            }
            _ => self.leave(change, to, LeftReason::ChangedSince),
        }
    }

    fn set(&mut self, path: &SpacePath, version: Option<ContentHash>, before: ChangeNumber) {
        let planned = Planned { made: version, wanted: version, before };
        self.files.insert(path.clone(), planned);
    }

    /// Adds the step that makes of a file what is wanted, unless it is that already.
    fn settle(&mut self, path: &SpacePath) {
        let Some(file) = self.files.get_mut(path) else { return };
        let Planned { made, wanted, before } = *file;
        if made == wanted {
            return;
        }
        file.made = wanted;
        let path = path.clone();
        self.plan.steps.extend(match (made, wanted) {
            (from, Some(to)) => Some(UndoStep::Restore { path, from, to, before }),
            (Some(from), None) => Some(UndoStep::Remove { path, from }),
            (None, None) => None,
        });
    }
}

#[cfg(test)]
mod tests;
