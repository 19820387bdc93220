//! Which steps take changes back, and which files are left since somebody changed them later.
//!
//! The lives of the files say which changes are taken back: those of each file above which no other
//! change stands. So a plan never goes back through what somebody else did, an undo that is run
//! again finds what the first one left, and two undos by turns come to the same end in either order.
//! What others did above a change is named: see `held`.
//!
//! The plan goes through these changes from the last to the first, and keeps for each path which
//! version the file would have by then. It compares hashes: a change is taken back only if its file
//! would be exactly the version that the change made, so the plan touches nothing that a person
//! wrote later, of which the history knows nothing. What cannot be given back is left with the
//! reason, and the rest is planned without it: a folder or a link at the path of a file, or a version
//! that is not in the history. A path that a file had only in between keeps nothing from going back
//! further: see `detours`.
//!
//! A step may make folders that only an earlier state needs. The plan removes each of them once it
//! is in the way of a file and nothing in it is wanted, or at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::hash::ContentHash;
use crate::path::SpacePath;
use crate::shown_paths::ShownPaths;

use super::lives::{FileNumber, Holding, Lives, Undoing};
use super::past_change::{ChangeNumber, PastChange, PastChangeKind};
use super::past_folder::{FolderNow, FolderRest, PastFolder};

mod detours;
mod folders;
mod guards;
mod held;
mod order;

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
    /// The first change of the file that is taken back.
    first: Option<ChangeNumber>,
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
            self.first = Some(change.number);
        }
        is_made
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
struct Planner<'a> {
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
    plan: UndoPlan,
}

/// Plans the undo of `changes`. `lives` are those of the files and folders through all changes since
/// the first of them.
pub fn undo_plan(changes: &[PastChange], lives: &Lives, facts: &mut dyn UndoFacts) -> UndoPlan {
    let asked = changes.iter().map(|change| change.number).collect();
    let mut undoing = lives.undoing(&asked);
    undoing.leave_folders_alone((lives, &asked), facts);
    let (held, places) = (std::mem::take(&mut undoing.held), std::mem::take(&mut undoing.places));
    let mut planner = planned(undoing, (lives, &asked), facts);
    planner.leave_out_ways(&places);
    let Planner { mut plan, .. } = planner;
    for held in held {
        // A folder into which something comes back, or of which something is named, stays or is
        // named.
        let is_in = |path: &SpacePath| held.is_folder && held.path.covers(path);
        let comes = plan.steps.iter().any(|step| is_in(step.path_after()));
        let is_told = comes || plan.left.iter().any(|left| is_in(&left.path));
        if held.why != Holding::AsBefore || !is_told {
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
    fn leave_folders_alone(
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

/// Returns the planner after it has gone through all changes.
fn planned<'a>(
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

/// Returns the folders above a path without the root, the nearest first.
pub fn folders_above(path: &SpacePath) -> impl Iterator<Item = SpacePath> {
    let above = |path: &SpacePath| path.split().map(|(folder, _)| folder);
    std::iter::successors(above(path), move |folder| above(folder)).filter(|it| !it.is_root())
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
    /// Returns the last change after `after` that made what is at a path, the file with a version or
    /// the folder for `None`, if it is not to be taken back and not one of the owner's.
    fn made_by_other(
        &self,
        path: &SpacePath,
        after: ChangeNumber,
        version: Option<ContentHash>,
    ) -> Option<&PastChange> {
        let made = self.lives.made_by(path, after, version)?;
        (!made.author.is_of_owner() && !self.asked.contains(&made.number)).then_some(made)
    }

    /// Leaves out what is said of the ways of files that are where they were before.
    fn leave_out_ways(&mut self, places: &BTreeMap<FileNumber, SpacePath>) {
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
            Planned { made, wanted, before: number, at_first, has_changes: false, first: None }
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
        let step = UndoStep::MoveBack {
            path: to.clone(),
            from,
            to: change.path.clone(),
            before: change.number,
        };
        self.make_folders(&change.path);
        self.plan.steps.push(step);
        let place = self.places.remove(to).unwrap_or_else(|| Some(to.clone()));
        self.places.insert(change.path.clone(), place);
        self.set(to, None, change.number);
        self.set(&change.path, Some(from), change.number);
        self.holders.insert(to.clone(), None);
        self.holders.insert(change.path.clone(), self.number_of(change));
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
        (file.has_changes, file.first) = (false, Some(before));
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

#[cfg(test)]
mod tests;
