//! Which modes folders get when changes of files in them are taken back.
//!
//! Folders are not versions, but the history notes the mode of each folder that a call removes or
//! moves. So another folder that has the path by now does not open to others what the first one
//! kept closed. A mode that no note knows was given by somebody, who is not overruled.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::SpacePath;

use super::past_change::{ChangeNumber, PastChange};
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

/// A folder that has files again once changes are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderBefore {
    /// The mode that the folder had before the changes.
    pub mode: u32,
    /// The first call that removed or moved the folder.
    call: ChangeNumber,
}

/// Returns the folders with files that were there before `changes` and that the calls of `notes`
/// removed or moved. Both are in the order in which they were made.
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
    let mut folders = BTreeMap::new();
    for note in notes {
        if first.iter().any(|file| **file != note.path && note.path.covers(file)) {
            let before = FolderBefore { mode: note.given(), call: note.call };
            folders.entry(note.path.clone()).or_insert(before);
        }
    }
    folders
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
/// there. `notes` are those of the calls that are taken back, and `all` those of the history.
pub fn folder_modes(
    before: &BTreeMap<SpacePath, FolderBefore>,
    now: &BTreeMap<SpacePath, u32>,
    [notes, all]: [&[FolderNote]; 2],
) -> FolderModes {
    let mut modes = FolderModes::default();
    for (path, folder) in before {
        let Some(from) = now.get(path).copied() else { continue };
        // A folder that these calls moved has a mode of its own, and one that any call made has
        // that of a note of its path.
        let of_path = all.iter().filter(|note| note.path == *path);
        let known: BTreeSet<u32> = notes.iter().chain(of_path).map(FolderNote::given).collect();
        let (is, to) = (from | OWNER_ALONE, folder.mode);
        // An undo that was interrupted has narrowed the mode already.
        let is_narrowed = known.iter().any(|mode| mode & to == is);
        if is == to {
        } else if known.contains(&is) || is_narrowed {
            modes.steps.push(UndoStep::SetFolderMode { path: path.clone(), from, to });
        } else {
            let (number, why) = (folder.call, LeftReason::FolderModeChanged);
            modes.left.push(LeftChange { number, path: path.clone(), to: None, why });
        }
    }
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
        folder_modes(&folders_before(changes, notes), &now, [notes, notes])
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
    fn a_folder_without_files_of_before_keeps_what_it_has() {
        let changes = [
            change(1, PastChangeKind::Created, "/a/f", None),
            change(2, PastChangeKind::Moved, "/a/f", Some("/x/f")),
        ];
        let notes = [note(2, "/a", 0o700)];
        assert!(folders_before(&changes, &notes).is_empty());
    }

    #[test]
    fn a_mode_that_an_undo_narrowed_before_it_ended_is_set_all_the_same() {
        let changes = [change(1, PastChangeKind::Moved, "/a/f", Some("/x/f"))];
        let notes = [note(1, "/a", 0o750), note(2, "/b", 0o705)];
        let modes = planned(&[("/a", 0o700)], &changes, &notes);
        assert_eq!(modes.steps.len(), 1, "{modes:?}");
    }
}
