//! Which steps take changes back, and which files are left since somebody changed them later.
//!
//! The lives of the files say which changes are taken back: those of each file above which no other
//! change stands. So a plan never goes back through what somebody else did, an undo that is run
//! again finds what the first one left, and two undos by turns come to the same end in either
//! order. What others did above a change is named: see `held`.
//!
//! The plan goes through these changes from the last to the first, and keeps for each path which
//! version the file would have by then. It compares hashes: a change is taken back only if its file
//! would be exactly the version that the change made, so the plan touches nothing that a person
//! wrote later, of which the history knows nothing. What cannot be given back is left with the
//! reason, and the rest is planned without it: a folder or a link at the path of a file, or a
//! version that is not in the history. A path that a file had only in between keeps nothing from
//! going back further: see `detours`.
//!
//! A step may make folders that only an earlier state needs. The plan removes each of them once it
//! is in the way of a file and nothing in it is wanted, or at the end.

use std::collections::BTreeSet;

use crate::hash::ContentHash;
use crate::path::SpacePath;
use crate::shown_paths::ShownPaths;

use super::lives::Lives;
use super::lives::undoing::Holding;
use super::past_change::{ChangeNumber, PastChange};

use super::past_folder::{FolderNow, FolderRest, PastFolder};

mod held;
mod order;
mod planner;

/// One step of an undo. Each is one guarded change of one file or folder.
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
        /// The first change that the step takes back.
        before: ChangeNumber,
    },
    /// Gives a file its earlier path.
    MoveBack {
        /// The path of the file now.
        path: SpacePath,
        /// The version that the file must still be.
        from: ContentHash,
        /// The path that the file had before.
        to: SpacePath,
        /// The move that the step takes back.
        before: ChangeNumber,
    },
    /// Removes a folder that an earlier step made, and that is empty again.
    RemoveFolder {
        /// The folder.
        path: SpacePath,
    },
    /// Makes a folder again that a call removed or moved. What it held beside files and folders
    /// comes back from the folder where that is now.
    GiveFolder {
        /// The folder.
        path: SpacePath,
        /// The permission bits that it gets if it is not there.
        mode: u32,
        /// The folder that a call made of it by a move.
        from: Option<SpacePath>,
        /// What comes back from there.
        rest: FolderRest,
        /// The first change that the step takes back.
        before: ChangeNumber,
    },
    /// Removes a folder that a call made, or to whose path one moved a folder, and that is empty.
    UnmakeFolder {
        /// The folder.
        path: SpacePath,
        /// The change that the step takes back.
        before: ChangeNumber,
    },
    /// Gives a folder the mode that the folder had which was at its path before.
    SetFolderMode {
        /// The folder.
        path: SpacePath,
        /// The permission bits that the folder must still have.
        from: u32,
        /// The permission bits that it gets.
        to: u32,
    },
}

impl UndoStep {
    /// Returns the file or the folder that the step changes.
    pub fn path(&self) -> &SpacePath {
        match self {
            Self::Restore { path, .. }
            | Self::Remove { path, .. }
            | Self::MoveBack { path, .. }
            | Self::RemoveFolder { path }
            | Self::GiveFolder { path, .. }
            | Self::UnmakeFolder { path, .. }
            | Self::SetFolderMode { path, .. } => path,
        }
    }

    /// Returns the paths that the step changes.
    pub fn paths(&self) -> impl Iterator<Item = &SpacePath> {
        let other = match self {
            Self::MoveBack { to, .. } => Some(to),
            Self::GiveFolder { from, .. } => from.as_ref(),
            _ => None,
        };
        std::iter::once(self.path()).chain(other)
    }

    /// Returns the path to which the step brings something, or of what it changes where it is.
    fn path_after(&self) -> &SpacePath {
        match self {
            Self::MoveBack { to, .. } => to,
            step => step.path(),
        }
    }

    /// Returns the first change that the step takes back; `None` for a folder, which no history
    /// records.
    pub fn takes_back(&self) -> Option<ChangeNumber> {
        match self {
            Self::Restore { before, .. }
            | Self::Remove { before, .. }
            | Self::MoveBack { before, .. }
            | Self::GiveFolder { before, .. }
            | Self::UnmakeFolder { before, .. } => Some(*before),
            Self::RemoveFolder { .. } | Self::SetFolderMode { .. } => None,
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
    /// The folder of the path is protected, so nothing in it can be changed.
    ProtectedFolder,
    /// The file is protected.
    Protected,
    /// The file has several names.
    HardLinked,
}

/// A change that is not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftChange {
    /// The change that is left as it is.
    pub number: ChangeNumber,
    /// The file that was changed since, or that cannot be given back.
    pub path: SpacePath,
    /// The path to which the file cannot go back, the earliest one that is known; `None` if the
    /// file would stay at its path. For a folder that holds something, what that is, and for a
    /// file that somebody moved, where it is.
    pub to: Option<SpacePath>,
    /// Why the change is left.
    pub why: LeftReason,
}

impl LeftChange {
    /// Returns the reason as the end of a sentence about the file, for the owner, in an output with
    /// other paths.
    pub fn text(&self, paths: &ShownPaths) -> String {
        let named = self.to.as_ref().map(|to| paths.show(to));
        match (&named, self.why) {
            (Some(held), LeftReason::Holds { others: 0 }) => {
                format!("stays, since it holds {held}")
            }
            (_, why @ LeftReason::Stays(_)) => format!("stays, since {}", why.text()),
            (Some(held), LeftReason::Holds { others }) => {
                format!("stays, since it holds {held} and {others} more")
            }
            (Some(place), LeftReason::MovedSince) => {
                format!("is not there any more; it is at {place} now")
            }
            (_, LeftReason::FolderStaysClosed { mode, was }) => format!(
                "keeps the mode {mode:03o}, although the folder that was there had {was:03o}, \
                 since an undo opens no folder that is closed"
            ),
            (_, LeftReason::BackThroughOther { call }) => format!(
                "is as it was, but only through call {call}; take that back, and then this again"
            ),
            (Some(_), LeftReason::PathTaken) if self.to.as_ref() == Some(&self.path) => {
                format!("cannot come back, since {}", self.why.text())
            }
            (Some(to), why) if why.is_of_file_itself() => {
                format!("cannot go back to {to}, since it {}", why.text())
            }
            (Some(to), why) => format!("cannot go back to {to}, since {}", why.text()),
            (None, why) if why.is_somebodys() => why.text().to_owned(),
            (None, why) => format!("cannot come back, since {}", why.text()),
        }
    }
}

/// Why a change is not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftReason {
    /// The file is another version than the change made.
    ChangedSince,
    /// The file has gone.
    GoneSince,
    /// As `ChangedSince`, where the history lacks changes that may have done it.
    MaybeChangedUnrecorded,
    /// As `GoneSince`, where the history lacks changes that may have done it.
    MaybeGoneUnrecorded,
    /// Somebody moved the file elsewhere.
    MovedSince,
    /// The folder has a mode that no call gave it.
    FolderModeChanged,
    /// The folder has fewer rights than the one that was there before, and an undo opens none.
    FolderStaysClosed {
        /// The mode that the folder keeps.
        mode: u32,
        /// The mode of the folder before.
        was: u32,
    },
    /// The file or folder is as it was, but only through this later call, which is not taken back:
    /// the undo of that one takes it away again.
    BackThroughOther {
        /// The later call.
        call: ChangeNumber,
    },
    /// Another file has the path to which a file would go back.
    PathTaken,
    /// A folder that a call made holds something, which is named, and so many others.
    Holds {
        /// How many others.
        others: usize,
    },
    /// A folder that a call moved holds no longer all that it held.
    LacksParts,
    /// Something that is not a file keeps the file from its path, or the file or a folder may not
    /// be written.
    Blocked(Obstacle),
    /// A file or a folder that a call made stays, since it may not be removed.
    Stays(Obstacle),
    /// The version that the file would become is not in the history.
    NotKept,
    /// The version that the file would become is damaged.
    Damaged,
    /// The version that the file would become is larger than a file may be.
    TooLarge,
}

impl LeftReason {
    /// Returns the reason as a sentence about the file, or about what keeps the file from its path.
    fn text(self) -> &'static str {
        match self {
            Self::ChangedSince => "was changed since",
            Self::GoneSince | Self::MovedSince => "is not there any more",
            Self::MaybeChangedUnrecorded => {
                "was changed since, maybe by a change that is not in the history"
            }
            Self::MaybeGoneUnrecorded => {
                "is not there any more, maybe through a change that is not in the history"
            }
            Self::FolderModeChanged => {
                "is a folder with another mode than it had, which somebody gave it since"
            }
            Self::FolderStaysClosed { .. } => "is a folder that stays closed",
            Self::BackThroughOther { .. } => "is as it was, but only through a later call",
            Self::PathTaken => "there is another file",
            Self::Holds { .. } => "holds something",
            Self::LacksParts => "does not hold all any more that it held",
            Self::Blocked(Obstacle::NotAFile) => {
                "a folder or something else that is not a file has that path"
            }
            Self::Blocked(Obstacle::FileAbove) => "a file has the path of its folder",
            Self::Blocked(Obstacle::Link) => "that path is a link or leads through one",
            Self::Blocked(Obstacle::Unreadable) => "that path cannot be read",
            Self::Blocked(Obstacle::ProtectedFolder) | Self::Stays(Obstacle::ProtectedFolder) => {
                "its folder is protected against writing"
            }
            Self::Blocked(Obstacle::Protected) | Self::Stays(Obstacle::Protected) => {
                "it is protected against writing"
            }
            Self::Blocked(Obstacle::HardLinked) | Self::Stays(Obstacle::HardLinked) => {
                "the file has several names (hard links)"
            }
            Self::Stays(_) => "it cannot be removed",
            Self::NotKept => "its version is not in the history",
            Self::Damaged => "its version in the history is damaged",
            Self::TooLarge => "its version is larger than a file may be",
        }
    }

    /// Returns the reason where the history lacks changes after the one that is left.
    #[must_use]
    pub fn beside_unrecorded(self) -> Self {
        match self {
            Self::ChangedSince => Self::MaybeChangedUnrecorded,
            Self::GoneSince => Self::MaybeGoneUnrecorded,
            why => why,
        }
    }

    /// Whether other clients may have done what is in the way.
    pub fn is_behind_others(self) -> bool {
        matches!(self, Self::MovedSince | Self::PathTaken | Self::BackThroughOther { .. })
    }

    /// Whether the reason tells of the file, and not of what has the path to which it would go.
    fn is_of_file_itself(self) -> bool {
        matches!(
            self,
            Self::ChangedSince
                | Self::GoneSince
                | Self::MaybeChangedUnrecorded
                | Self::MaybeGoneUnrecorded
        )
    }

    /// Whether somebody changed the file since, so that the undo leaves what is theirs. Otherwise
    /// something keeps the undo from giving the file back.
    fn is_somebodys(self) -> bool {
        match self {
            Self::ChangedSince
            | Self::GoneSince
            | Self::MaybeChangedUnrecorded
            | Self::MaybeGoneUnrecorded
            | Self::MovedSince
            | Self::FolderModeChanged
            | Self::FolderStaysClosed { .. }
            | Self::BackThroughOther { .. }
            | Self::PathTaken
            | Self::Holds { .. }
            | Self::LacksParts => true,
            Self::Blocked(_) | Self::Stays(_) | Self::NotKept | Self::Damaged | Self::TooLarge => {
                false
            }
        }
    }
}

/// The steps that take changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps in the order in which they must be made.
    pub steps: Vec<UndoStep>,
    /// The changes that are left. A file is named once for each reason.
    pub left: Vec<LeftChange>,
}

impl UndoPlan {
    /// Returns the paths that the plan names.
    pub fn paths(&self) -> impl Iterator<Item = &SpacePath> {
        let steps = self.steps.iter().flat_map(UndoStep::paths);
        steps.chain(self.left.iter().flat_map(|left| std::iter::once(&left.path).chain(&left.to)))
    }
}

/// What an undo has to know of the files and the history.
pub trait UndoFacts {
    /// Returns what is at a path now.
    fn now(&mut self, path: &SpacePath) -> PathNow;

    /// Returns why a restoring step cannot be made; `None` if the history can give its version.
    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason>;

    /// Whether a file that has the content of before a change is another file, with another mode or
    /// other attributes than the one that had it then. The file is at the path `now` so far.
    fn is_other_file(&mut self, now: &SpacePath, path: &SpacePath, before: ChangeNumber) -> bool;

    /// Returns what keeps the file or the folder that is at a path now from being changed, or from
    /// getting other entries: `Protected` or `HardLinked`.
    fn guard(&mut self, _path: &SpacePath) -> Option<Obstacle> {
        None
    }

    /// Returns the mode of a folder and the names of everything in it as they are now; `None` if no
    /// folder is at the path.
    fn folder(&mut self, _path: &SpacePath) -> Option<FolderNow> {
        None
    }

    /// Returns what a folder was before a change of it; for one that the change made, which mode it
    /// got.
    fn folder_before(&mut self, _change: ChangeNumber) -> PastFolder {
        PastFolder::default()
    }
}

/// Plans the undo of `changes`. `lives` are those of the files and folders through all changes
/// since the first of them.
pub fn undo_plan(changes: &[PastChange], lives: &Lives, facts: &mut dyn UndoFacts) -> UndoPlan {
    let asked = changes.iter().map(|change| change.number).collect();
    let mut undoing = lives.undoing(&asked);
    undoing.leave_folders_alone((lives, &asked), facts);
    let (held, places) = (std::mem::take(&mut undoing.held), std::mem::take(&mut undoing.places));
    let mut planner = planner::planned(undoing, (lives, &asked), facts);
    planner.leave_out_moves_of_returned(&places);
    let planner::Planner { mut plan, .. } = planner;
    for held in held {
        if held.why != Holding::AsBefore || !(held.is_folder && stays(&held.path, &plan, facts)) {
            plan.left.extend(held::left(held, lives, facts));
        }
    }
    // What is known to be elsewhere is not named as gone, too.
    let moved = plan.left.iter().filter(|left| left.why == LeftReason::MovedSince);
    let moved: BTreeSet<_> = moved.map(|left| left.path.clone()).collect();
    plan.left.retain(|left| left.why != LeftReason::GoneSince || !moved.contains(&left.path));
    // Several changes of one file are left for one reason.
    let mut named = BTreeSet::new();
    plan.left.retain(|left| named.insert((left.path.clone(), left.to.clone(), left.why)));
    plan
}

/// Whether no other undo can take a folder away, or it is told already that something in it stays:
/// it holds something, or something comes back into it, or something in it is named.
fn stays(folder: &SpacePath, plan: &UndoPlan, facts: &mut dyn UndoFacts) -> bool {
    let holds = |it: FolderNow| !it.names.is_empty() || !it.rest.is_empty();
    plan.steps.iter().any(|step| folder.covers(step.path_after()))
        || plan.left.iter().any(|left| folder.covers(&left.path))
        || facts.folder(folder).is_some_and(holds)
}

/// Returns the folders above a path without the root, the nearest first.
pub fn folders_above(path: &SpacePath) -> impl Iterator<Item = SpacePath> {
    let above = |path: &SpacePath| path.split().map(|(folder, _)| folder);
    std::iter::successors(above(path), move |folder| above(folder)).filter(|it| !it.is_root())
}

#[cfg(test)]
mod tests;
