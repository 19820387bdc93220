//! Which modes folders get when changes of files in them are taken back.
//!
//! Folders are not versions, but the history notes the mode of each folder that a call removes or
//! moves. So another folder that has the path by now does not open to others what the first one
//! kept closed. A mode that no note knows was given by somebody, who is not overruled. Nor is a
//! folder opened that is closed now: somebody may have made it so, and put into it what only they
//! may read. An undo of an undo alone gives a folder back the wider mode that the undo took.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::SpacePath;

use super::past_change::{ChangeNumber, PastChange, PastChangeKind, UNDO};
use super::undo_plan::{LeftChange, LeftReason, UndoStep};

/// The permissions that every folder leaves its owner, since the server has to work in it.
pub const OWNER_ALONE: u32 = 0o700;

/// What a folder was like before a call removed or moved it, or gave it another mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderNote {
    /// The call; 0 for one that changed no file.
    pub call: ChangeNumber,
    /// The path that the folder had.
    pub path: SpacePath,
    /// The permission bits that the folder had.
    pub mode: u32,
    /// The tool of the call.
    pub tool: String,
}

impl FolderNote {
    /// Returns the mode that a folder gets which is made again.
    pub fn given(&self) -> u32 {
        self.mode | OWNER_ALONE
    }
}

/// A folder that is there again once changes are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderBefore {
    /// The mode that the folder gets if a step makes it again.
    pub mode: u32,
    /// The mode that the folder had before the changes. It may leave the server less than it needs
    /// to work in the folder.
    exact: u32,
    /// The first call that removed or moved the folder, or gave it another mode.
    call: ChangeNumber,
    /// Whether an undo gave the folder another mode, which is taken back now.
    is_set: bool,
}

/// Returns the folders that were there before `changes`, and that the calls of `notes` removed or
/// moved, or to which an undo gave another mode. Both are in the order in which they were made.
pub fn folders_before(
    changes: &[PastChange],
    notes: &[FolderNote],
) -> BTreeMap<SpacePath, FolderBefore> {
    let (mut seen, mut first) = (BTreeSet::new(), BTreeSet::new());
    for change in changes {
        if seen.insert(&change.path) && change.before.is_some() {
            first.insert(&change.path);
        }
        seen.extend(&change.to);
    }
    let were_there = folders_at_first(changes);
    let mut folders = BTreeMap::new();
    for note in notes {
        let has_files = || first.iter().any(|file| **file != note.path && note.path.covers(file));
        let is_set = is_of_set_mode(note, changes);
        if is_set || were_there.contains(&note.path) || has_files() {
            let (mode, exact) = (note.given(), note.mode & 0o777);
            let before = FolderBefore { mode, exact, call: note.call, is_set };
            folders.entry(note.path.clone()).or_insert(before);
        }
    }
    folders
}

/// Returns the folders that the first changes of their paths found there.
fn folders_at_first(changes: &[PastChange]) -> BTreeSet<SpacePath> {
    let (mut seen, mut there) = (BTreeSet::new(), BTreeSet::new());
    for change in changes.iter().filter(|change| change.kind.is_of_folder()) {
        let is_new = seen.insert(&change.path);
        if is_new && change.kind != PastChangeKind::FolderCreated {
            there.insert(change.path.clone());
        }
        seen.extend(&change.to);
    }
    there
}

/// Whether a note is of a folder to which an undo gave another mode, and which it left where it is.
fn is_of_set_mode(note: &FolderNote, changes: &[PastChange]) -> bool {
    let is_of_note = |change: &PastChange| change.call == note.call && change.path == note.path;
    let is_kept = |change: &PastChange| change.kind.is_of_folder() && is_of_note(change);
    note.tool == UNDO && !changes.iter().any(is_kept)
}

/// What becomes of the modes of folders that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderModes {
    /// The steps that give folders their modes.
    pub steps: Vec<UndoStep>,
    /// The folders to which somebody gave another mode.
    pub left: Vec<LeftChange>,
}

/// Plans what gives the folders of `before` their modes. `now` are the modes of those that are
/// there, and `made` those that steps give folders which they make. `notes` are those of the calls
/// that are taken back, and `all` those of the history. A folder gets no right that it has not
/// now, unless an undo took that right from it.
pub fn folder_modes(
    before: &BTreeMap<SpacePath, FolderBefore>,
    [now, made]: [&BTreeMap<SpacePath, u32>; 2],
    [notes, all]: [&[FolderNote]; 2],
) -> FolderModes {
    let mut modes = FolderModes::default();
    for (path, folder) in before {
        // What the server needs goes once all is in the folder.
        let without_need = |mode: u32| mode & !OWNER_ALONE | folder.exact & OWNER_ALONE;
        let mut close = |from: u32| {
            let to = without_need(from);
            if from != to {
                modes.steps.push(UndoStep::SetFolderMode { path: path.clone(), from, to });
            }
        };
        let Some(from) = now.get(path).copied() else {
            made.get(path).copied().into_iter().for_each(close);
            continue;
        };
        // A folder that these calls moved has a mode of its own, and one that any call made has
        // that of a note of its path.
        let of_path = all.iter().filter(|note| note.path == *path);
        let known: BTreeSet<u32> = notes.iter().chain(of_path).map(FolderNote::given).collect();
        let (is, was) = (from | OWNER_ALONE, folder.mode);
        let is_known = known.contains(&is);
        let to = if folder.is_set { was } else { is & was };
        let mut leave = |why| {
            let number = folder.call;
            modes.left.push(LeftChange { number, path: path.clone(), to: None, why });
        };
        if is == was {
            // A call made the folder again, with what the server needs.
            if from == was {
                close(from);
            }
            continue;
        }
        if !is_known && to != is {
            leave(LeftReason::FolderModeChanged);
            continue;
        }
        if to != was {
            leave(LeftReason::FolderStaysClosed { mode: to, was });
        }
        if to != is {
            modes.steps.push(UndoStep::SetFolderMode { path: path.clone(), from, to });
        }
    }
    // A folder is closed after those in it.
    modes.steps.reverse();
    modes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ContentHash;
    use crate::history::past_change::{Author, PastChangeKind};
    use crate::records::instant::Instant;

    fn path(name: &str) -> SpacePath {
        SpacePath::parse(name).unwrap()
    }

    fn change(number: i64, kind: PastChangeKind, name: &str, to: Option<&str>) -> PastChange {
        let version = Some(ContentHash::digest(b"x"));
        PastChange {
            number: ChangeNumber(number),
            call: ChangeNumber(number),
            at: Instant(number),
            kind,
            path: path(name),
            to: to.map(path),
            before: version.filter(|_| kind != PastChangeKind::Created),
            size_before: 1,
            after: version.filter(|_| kind != PastChangeKind::Removed),
            author: Author::default(),
            takes_back: None,
        }
    }

    fn note(call: i64, name: &str, mode: u32) -> FolderNote {
        FolderNote { call: ChangeNumber(call), path: path(name), mode, tool: String::new() }
    }

    /// A closed folder went, and an open one took its place.
    fn displaced() -> (Vec<PastChange>, Vec<FolderNote>) {
        let changes = vec![
            change(1, PastChangeKind::Moved, "/a/f", Some("/x/f")),
            change(2, PastChangeKind::Moved, "/b/g", Some("/a/g")),
        ];
        (changes, vec![note(1, "/a", 0o700), note(2, "/b", 0o755)])
    }

    fn planned(now: &[(&str, u32)], changes: &[PastChange], notes: &[FolderNote]) -> FolderModes {
        let now = now.iter().map(|(name, mode)| (path(name), *mode)).collect();
        folder_modes(&folders_before(changes, notes), [&now, &BTreeMap::new()], [notes, notes])
    }

    #[test]
    fn a_folder_in_the_place_of_another_one_gets_that_ones_mode() {
        let (changes, notes) = displaced();
        let step = |from| UndoStep::SetFolderMode { path: path("/a"), from, to: 0o700 };
        let modes = planned(&[("/a", 0o755)], &changes, &notes);
        assert_eq!((modes.steps, modes.left), (vec![step(0o755)], Vec::new()));
        // What has its mode already, or is made again, needs no step.
        assert_eq!(planned(&[("/a", 0o700)], &changes, &notes), FolderModes::default());
        assert_eq!(planned(&[], &changes, &notes), FolderModes::default());
    }

    #[test]
    fn a_folder_that_is_made_again_gets_its_exact_mode_once_all_is_in_it() {
        let removed = |name: &str| change(1, PastChangeKind::FolderRemoved, name, None);
        let changes = [removed("/a/b"), removed("/a")];
        let notes = [note(1, "/a/b", 0o077), note(1, "/a", 0o300)];
        let step = |name: &str, from, to| UndoStep::SetFolderMode { path: path(name), from, to };
        let made = BTreeMap::from([(path("/a"), 0o700), (path("/a/b"), 0o777)]);
        let before = folders_before(&changes, &notes);
        let modes = folder_modes(&before, [&BTreeMap::new(), &made], [&notes, &notes]);
        let closed = [step("/a/b", 0o777, 0o077), step("/a", 0o700, 0o300)];
        assert_eq!((&modes.steps[..], modes.left), (&closed[..], Vec::new()));
        // Also where the call made it again itself. By then nothing is to be done.
        let closed = [step("/a", 0o700, 0o300)];
        assert_eq!(planned(&[("/a", 0o700)], &changes, &notes).steps, closed);
        assert_eq!(planned(&[("/a", 0o300)], &changes, &notes), FolderModes::default());
    }

    #[test]
    fn the_first_note_of_a_path_counts() {
        let (mut changes, mut notes) = displaced();
        changes.push(change(3, PastChangeKind::Moved, "/a/g", Some("/c/g")));
        notes.push(note(3, "/a", 0o755));
        let before = folders_before(&changes, &notes);
        assert_eq!(before[&path("/a")].mode, 0o700);
        assert_eq!(before[&path("/b")].mode, 0o755);
        // An inner folder of the place that a folder went to had no files before.
        assert_eq!(before.len(), 2);
    }

    #[test]
    fn a_mode_that_somebody_gave_a_folder_stays_and_is_named() {
        let (changes, notes) = displaced();
        let modes = planned(&[("/a", 0o711)], &changes, &notes);
        assert!(modes.steps.is_empty(), "{modes:?}");
        assert_eq!(modes.left[0].why, LeftReason::FolderModeChanged);
        assert_eq!(modes.left[0].path, path("/a"));
    }

    #[test]
    fn a_folder_that_was_not_there_before_keeps_what_it_has() {
        let changes = [
            change(1, PastChangeKind::Created, "/a/f", None),
            change(2, PastChangeKind::FolderCreated, "/a", None),
            change(3, PastChangeKind::Moved, "/a/f", Some("/x/f")),
            change(3, PastChangeKind::FolderMoved, "/a", Some("/x")),
        ];
        let notes = [note(3, "/a", 0o700)];
        assert!(folders_before(&changes, &notes).is_empty());
    }

    #[test]
    fn an_empty_folder_that_somebody_made_again_with_another_mode_is_named() {
        let changes = [change(1, PastChangeKind::FolderRemoved, "/a", None)];
        let notes = [note(1, "/a", 0o750)];
        let left = |mode: u32| {
            let modes = planned(&[("/a", mode)], &changes, &notes);
            assert!(modes.steps.is_empty(), "{modes:?}");
            modes.left.iter().map(|left| left.why).collect::<Vec<_>>()
        };
        assert_eq!(left(0o755), [LeftReason::FolderModeChanged]);
        let closed = LeftReason::FolderStaysClosed { mode: 0o700, was: 0o750 };
        assert_eq!((left(0o700), left(0o750)), (vec![closed], vec![]));
    }

    #[test]
    fn no_undo_opens_a_folder_that_is_closed_now() {
        let changes = [
            change(1, PastChangeKind::FolderMoved, "/a", Some("/x")),
            change(2, PastChangeKind::FolderMoved, "/a", Some("/y")),
        ];
        let notes = [note(1, "/a", 0o775), note(2, "/a", 0o700)];
        let modes = planned(&[("/a", 0o700)], &changes, &notes);
        let closed = LeftReason::FolderStaysClosed { mode: 0o700, was: 0o775 };
        assert_eq!((modes.steps, modes.left[0].why), (Vec::new(), closed));
        // Of two modes, each with a right that the other lacks, both rights go.
        let notes = [note(1, "/a", 0o750), note(2, "/a", 0o705)];
        let modes = planned(&[("/a", 0o705)], &changes, &notes);
        let step = UndoStep::SetFolderMode { path: path("/a"), from: 0o705, to: 0o700 };
        let closed = LeftReason::FolderStaysClosed { mode: 0o700, was: 0o750 };
        assert_eq!((modes.steps, modes.left[0].why), (vec![step], closed));
    }

    #[test]
    fn an_undo_of_an_undo_gives_the_mode_back_that_the_undo_took() {
        let of_agent = [note(1, "/a", 0o700), note(2, "/b", 0o755), note(3, "/a", 0o755)];
        let set = FolderNote { tool: UNDO.to_owned(), ..note(4, "/a", 0o755) };
        let all = [&of_agent[..], std::slice::from_ref(&set)].concat();
        let changes = [change(4, PastChangeKind::Moved, "/x/f", Some("/a/f"))];
        let before = folders_before(&changes, std::slice::from_ref(&set));
        let now = BTreeMap::from([(path("/a"), 0o700)]);
        let notes = [std::slice::from_ref(&set), &all[..]];
        let modes = folder_modes(&before, [&now, &BTreeMap::new()], notes);
        let step = UndoStep::SetFolderMode { path: path("/a"), from: 0o700, to: 0o755 };
        assert_eq!((modes.steps, modes.left), (vec![step], Vec::new()));
    }
}
