//! Which steps take changes back, and which files are left since somebody changed them later.
//!
//! The plan compares hashes alone. It goes through the changes from the last to the first, and
//! keeps for each path which version the file would have by then. A change is taken back only if
//! its file would be exactly the version that the change made. So a plan never touches what anybody
//! else wrote later. What cannot be given back is left with the reason, and the rest is planned
//! without it: a folder or a link at the path of a file, or a version that is not in the history.

use std::collections::{BTreeMap, BTreeSet};

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

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathNow {
    /// A file with this version.
    File(ContentHash),
    /// Nothing.
    Nothing,
    /// Something that is not a file that can be read.
    Blocked(Obstacle),
}

/// What keeps a file from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A folder, or something else that is not a file, has the path.
    NotAFile,
    /// A file has the path of a folder above.
    FileAbove,
    /// The path is a link, or leads through one.
    Link,
    /// The path cannot be read.
    Unreadable,
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
    /// Something that is not a file keeps the file from its path.
    Blocked(Obstacle),
    /// The version that the file would become is not in the history.
    NotKept,
    /// The version that the file would become is damaged.
    Damaged,
    /// The version that the file would become is larger than a file may be.
    TooLarge,
}

impl LeftReason {
    /// Returns the reason as the end of a sentence about the file.
    pub fn text(self) -> &'static str {
        match self {
            Self::ChangedSince => "was changed since",
            Self::GoneSince => "is not there any more",
            Self::PathTaken => "cannot go back, since there is another file at its earlier path",
            Self::Blocked(Obstacle::NotAFile) => {
                "cannot come back, since a folder or something else that is not a file has its path"
            }
            Self::Blocked(Obstacle::FileAbove) => {
                "cannot come back, since a file has the path of its folder"
            }
            Self::Blocked(Obstacle::Link) => {
                "cannot come back, since its path is a link or leads through one"
            }
            Self::Blocked(Obstacle::Unreadable) => {
                "cannot come back, since its path cannot be read"
            }
            Self::NotKept => "cannot come back, since its version is not in the history",
            Self::Damaged => "cannot come back, since its version in the history is damaged",
            Self::TooLarge => "cannot come back, since its version is larger than a file may be",
        }
    }

    /// Whether the undo fails to give something back. Otherwise somebody changed the file since, so
    /// the undo leaves it on purpose.
    pub fn is_failure(self) -> bool {
        match self {
            Self::ChangedSince | Self::GoneSince | Self::PathTaken => false,
            Self::Blocked(_) | Self::NotKept | Self::Damaged | Self::TooLarge => true,
        }
    }
}

/// The steps that take changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps in the order in which they must be made.
    pub steps: Vec<UndoStep>,
    /// The changes that are left. A file that cannot be given back is named once.
    pub left: Vec<LeftChange>,
}

impl UndoPlan {
    /// Whether something cannot be given back.
    pub fn has_failures(&self) -> bool {
        self.left.iter().any(|left| left.why.is_failure())
    }
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
    /// What was at the path at first.
    at_first: PathNow,
}

/// What an undo has to know of the files and the history.
pub trait UndoFacts {
    /// Returns what is at a path now.
    fn now(&mut self, path: &SpacePath) -> PathNow;

    /// Returns why a restoring step cannot be made; `None` if the history can give its version.
    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason>;
}

/// What the plan knows of each path.
struct Planner<'a> {
    facts: &'a mut dyn UndoFacts,
    files: BTreeMap<SpacePath, Planned>,
    /// The files that cannot be given back, which are named already.
    named: BTreeSet<SpacePath>,
    plan: UndoPlan,
}

/// Plans the undo of `changes`, which are in the order of their numbers.
pub fn undo_plan(changes: &[PastChange], facts: &mut dyn UndoFacts) -> UndoPlan {
    let mut planner = Planner {
        facts,
        files: BTreeMap::new(),
        named: BTreeSet::new(),
        plan: UndoPlan::default(),
    };
    for change in changes.iter().rev() {
        match (&change.to, change.kind) {
            (Some(to), PastChangeKind::Moved) => planner.move_back(change, to),
            _ => planner.take_back(change),
        }
    }
    // A path comes before the paths below it, so a file goes before a folder takes its place.
    let paths: Vec<SpacePath> = planner.files.keys().cloned().collect();
    for path in paths {
        planner.settle(&path);
    }
    planner.plan
}

impl Planner<'_> {
    fn file(&mut self, path: &SpacePath, number: ChangeNumber) -> &mut Planned {
        self.files.entry(path.clone()).or_insert_with(|| {
            let at_first = self.facts.now(path);
            let version = match at_first {
                PathNow::File(version) => Some(version),
                PathNow::Nothing | PathNow::Blocked(_) => None,
            };
            Planned { made: version, wanted: version, before: number, at_first }
        })
    }

    fn leave(&mut self, number: ChangeNumber, path: &SpacePath, why: LeftReason) {
        if why.is_failure() && !self.named.insert(path.clone()) {
            return;
        }
        self.plan.left.push(LeftChange { number, path: path.clone(), why });
    }

    fn take_back(&mut self, change: &PastChange) {
        let file = self.file(&change.path, change.number);
        if file.wanted == change.after {
            file.wanted = change.before;
            file.before = change.number;
        } else if file.wanted != change.before {
            let is_gone = file.wanted.is_none();
            let missing = if is_gone { LeftReason::GoneSince } else { LeftReason::ChangedSince };
            let why = match file.at_first {
                PathNow::Blocked(obstacle) if is_gone => LeftReason::Blocked(obstacle),
                _ => missing,
            };
            self.leave(change.number, &change.path, why);
        }
        // Otherwise the change was taken back before, or never made after it was recorded.
    }

    fn move_back(&mut self, change: &PastChange, to: &SpacePath) {
        let there = self.file(to, change.number).wanted;
        let here = self.file(&change.path, change.number).wanted;
        match (there, here) {
            (Some(version), None) if Some(version) == change.after => {
                // The move is a step of its own, so what was planned for the files comes before.
                self.settle(to);
                self.settle(&change.path);
                let left = self.file(to, change.number).made != Some(version);
                let why = match self.obstacle(&change.path) {
                    _ if left => Some(LeftReason::NotKept),
                    obstacle => obstacle.map(LeftReason::Blocked),
                };
                if let Some(why) = why {
                    return self.leave(change.number, to, why);
                }
                let path = to.clone();
                let step = UndoStep::MoveBack { path, from: version, to: change.path.clone() };
                self.plan.steps.push(step);
                self.set(to, None, change.number);
                self.set(&change.path, Some(version), change.number);
            }
            // The move was taken back before, or never made after it was recorded.
            (_, Some(version)) if Some(version) == change.before && there != change.after => {}
            (None, _) => {
                let why = match self.file(to, change.number).at_first {
                    PathNow::Blocked(obstacle) => LeftReason::Blocked(obstacle),
                    PathNow::File(_) | PathNow::Nothing => LeftReason::GoneSince,
                };
                self.leave(change.number, to, why);
            }
            (Some(version), Some(_)) if Some(version) == change.after => {
                let file = self.file(to, change.number);
                if file.made.is_none() {
                    // The file is only in the history. Its place may be that of an earlier file.
                    file.wanted = None;
                }
                self.leave(change.number, to, LeftReason::PathTaken);
            }
            _ => self.leave(change.number, to, LeftReason::ChangedSince),
        }
    }

    fn set(&mut self, path: &SpacePath, version: Option<ContentHash>, before: ChangeNumber) {
        let file = self.file(path, before);
        (file.made, file.wanted, file.before) = (version, version, before);
    }

    /// Returns what will keep a file from a path after the steps so far. Those steps may have
    /// removed the file that has the path of a folder above, once that is settled here.
    fn obstacle(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let PathNow::Blocked(obstacle) = self.files.get(path)?.at_first else { return None };
        if obstacle != Obstacle::FileAbove {
            return Some(obstacle);
        }
        let mut above = path.split().map(|(folder, _)| folder);
        while let Some(folder) = above {
            let file = self.files.get(&folder).copied();
            if let Some(Planned { at_first: PathNow::File(_), .. }) = file {
                self.settle(&folder);
                let stays = self.files.get(&folder).is_some_and(|file| file.made.is_some());
                return stays.then_some(obstacle);
            }
            above = folder.split().map(|(folder, _)| folder);
        }
        Some(obstacle)
    }

    /// Adds the step that makes of a file what is wanted, unless it is that already. If that cannot
    /// be done, the file stays as the steps so far make it.
    fn settle(&mut self, path: &SpacePath) {
        let Some(Planned { made, wanted, before, .. }) = self.files.get(path).copied() else {
            return;
        };
        if made == wanted {
            return;
        }
        let step = match (made, wanted) {
            (from, Some(to)) => UndoStep::Restore { path: path.clone(), from, to, before },
            (Some(from), None) => UndoStep::Remove { path: path.clone(), from },
            (None, None) => return,
        };
        let why = match step {
            UndoStep::Restore { .. } => match self.obstacle(path) {
                Some(obstacle) => Some(LeftReason::Blocked(obstacle)),
                None => self.facts.lacks(&step),
            },
            _ => None,
        };
        let becomes = if why.is_some() { made } else { wanted };
        if let Some(file) = self.files.get_mut(path) {
            (file.made, file.wanted) = (becomes, becomes);
        }
        match why {
            Some(why) => self.leave(before, path, why),
            None => self.plan.steps.push(step),
        }
    }
}

#[cfg(test)]
mod tests;
