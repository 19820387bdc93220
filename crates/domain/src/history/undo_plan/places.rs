//! Where files and folders are by now that somebody moved.
//!
//! A plan goes through the changes that are taken back, and not through those of others. So it does
//! not see that a file or a folder which is not at its path any more is still there, elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangeNumber, PastChange, PastChangeKind, SpacePath};

/// What took files and folders from their paths.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The changes after which what was at a path was something else or nothing, in the order of
    /// their numbers.
    ends: BTreeMap<SpacePath, Vec<End>>,
}

/// The end of a file or a folder at a path.
#[derive(Clone, Debug)]
struct End {
    number: ChangeNumber,
    /// The path that it got; `None` if it was removed, or gone already.
    to: Option<SpacePath>,
    /// Whether the change is to be taken back.
    is_asked: bool,
}

impl Places {
    /// Follows files and folders through `all` changes, in the order of their numbers. `asked` are
    /// those that are to be taken back.
    pub fn after(all: &[PastChange], asked: &[PastChange]) -> Self {
        let asked: BTreeSet<_> = asked.iter().map(|change| change.number).collect();
        let mut places = Self::default();
        for change in all {
            let number = change.number;
            let is_asked = asked.contains(&number);
            let mut end = |path: &SpacePath, to: Option<SpacePath>| {
                let ends = places.ends.entry(path.clone()).or_default();
                ends.push(End { number, to, is_asked });
            };
            match (change.kind, &change.to) {
                (PastChangeKind::Moved | PastChangeKind::FolderMoved, Some(to)) => {
                    end(&change.path, Some(to.clone()));
                    end(to, None);
                }
                (
                    PastChangeKind::Created
                    | PastChangeKind::Removed
                    | PastChangeKind::FolderCreated
                    | PastChangeKind::FolderRemoved,
                    _,
                ) => end(&change.path, None),
                _ => {}
            }
        }
        places
    }

    /// Returns where the file or the folder is by now that a change left at a path, if a change
    /// that is not to be taken back moved it from there.
    pub fn moved_from(&self, path: &SpacePath, number: ChangeNumber) -> Option<SpacePath> {
        let (mut place, mut since) = (path, number);
        while let Some(end) = self.ends.get(place).and_then(|ends| {
            let next = ends.partition_point(|end| end.number <= since);
            ends.get(next)
        }) {
            if place == path && since == number && end.is_asked {
                return None;
            }
            (place, since) = (end.to.as_ref()?, end.number);
        }
        (place != path).then(|| place.clone())
    }
}
