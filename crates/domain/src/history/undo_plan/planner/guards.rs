//! What may not be written: a step that would be refused is not planned, and the file is named.
//!
//! A person may have protected a file or a folder since, or given a file a second name. The facts
//! tell what is so now, and the plan asks about what no step has brought there.

use super::{ChangeNumber, Obstacle, PathNow, Planner, SpacePath, folders_above};

impl Planner<'_> {
    /// Returns what keeps a path from getting or losing anything: the nearest folder above that is
    /// there now is protected.
    pub(super) fn bar_of_folder(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let above = folders_above(path).chain([SpacePath::root()]);
        for folder in above {
            let is_there = folder.is_root()
                || matches!(self.facts.now(&folder), PathNow::Blocked(Obstacle::NotAFile));
            if is_there {
                return self.facts.guard(&folder).map(|_| Obstacle::ProtectedFolder);
            }
        }
        None
    }

    /// Returns what keeps the file at a path from being replaced by what was there before a change.
    /// A protected file that a client put in the place of another one may be replaced.
    pub(super) fn bar_to_replace(
        &mut self,
        path: &SpacePath,
        before: ChangeNumber,
    ) -> Option<Obstacle> {
        match self.bar_of_file(path)? {
            Obstacle::Protected if self.is_other_file(path, before) => None,
            obstacle => Some(obstacle),
        }
    }

    /// Returns what keeps the file at a path from being removed. A protected one may be: a client
    /// may have copied a file that is protected so.
    pub(super) fn bar_to_remove(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let bar = self.bar_of_file(path).filter(|bar| *bar != Obstacle::Protected);
        self.bar_of_folder(path).or(bar)
    }

    /// Returns what keeps the file at a path from being moved to another one.
    pub(super) fn bar_to_move(&mut self, path: &SpacePath, to: &SpacePath) -> Option<Obstacle> {
        let bar = self.bar_of_folder(path).or_else(|| self.bar_of_folder(to));
        bar.or_else(|| self.bar_of_file(path))
    }

    /// Returns what keeps the file at a path from being changed. What a step restores is not so.
    fn bar_of_file(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let now = self.places.get(path).cloned().unwrap_or_else(|| Some(path.clone()))?;
        self.facts.guard(&now)
    }
}
