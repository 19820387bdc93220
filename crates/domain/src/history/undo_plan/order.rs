//! The order of a plan: what only gives something back comes first.

use std::collections::BTreeMap;

use super::{SpacePath, UndoPlan, UndoStep, folders_above};

impl UndoPlan {
    /// Moves the steps to the front that bring back a file where none is now, and whose path has to
    /// do with no other step. They replace nothing, so they need no room in the history. The steps
    /// after them do: what these keep may push out versions, and must not push out one that is yet
    /// to come back.
    pub fn bring_back_first(&mut self) {
        let mut paths: BTreeMap<SpacePath, usize> = BTreeMap::new();
        for path in self.steps.iter().flat_map(UndoStep::paths) {
            *paths.entry(path.clone()).or_default() += 1;
        }
        let is_first = |step: &UndoStep| match step {
            UndoStep::Restore { path, from: None, .. } => is_alone(path, &paths),
            _ => false,
        };
        let (mut first, rest) = std::mem::take(&mut self.steps).into_iter().partition(is_first);
        Vec::append(&mut first, &mut { rest });
        self.steps = first;
    }
}

/// Whether a path of `paths` occurs once, and none of the others is above it or below it.
fn is_alone(path: &SpacePath, paths: &BTreeMap<SpacePath, usize>) -> bool {
    let below = format!("{path}/");
    let mut after = paths.range(path..).skip(1).map(|(other, _)| other.as_str());
    // Names with characters before `/` stand between a path and what is below it.
    let has_below = after
        .by_ref()
        .take_while(|other| other.starts_with(path.as_str()))
        .any(|other| other.starts_with(&below));
    paths.get(path) == Some(&1)
        && !has_below
        && !folders_above(path).any(|above| paths.contains_key(&above))
}

#[cfg(test)]
mod tests {
    use super::super::ChangeNumber;
    use super::*;
    use crate::hash::ContentHash;

    fn path(text: &str) -> SpacePath {
        SpacePath::parse(text).unwrap()
    }

    #[test]
    fn files_that_are_gone_come_back_before_anything_is_kept() {
        let version = ContentHash::digest(b"x");
        let before = ChangeNumber(1);
        let restore =
            |at: &str, from| UndoStep::Restore { path: path(at), from, to: version, before };
        let remove = |at: &str| UndoStep::Remove { path: path(at), from: version, before };
        let moved = |at: &str, to: &str| UndoStep::MoveBack {
            path: path(at),
            from: version,
            to: path(to),
            before,
        };
        let steps = vec![
            remove("/c.md"),
            restore("/edited.md", Some(version)),
            remove("/d"),
            restore("/d/below.md", None),
            moved("/m.md", "/was.md"),
            restore("/m.md", None),
            restore("/e", None),
            remove("/e-f"),
            remove("/e/g"),
            restore("/own.md", None),
        ];
        let mut plan = UndoPlan { steps, ..UndoPlan::default() };
        plan.bring_back_first();
        let order: Vec<&str> = plan.steps.iter().map(|step| step.path().as_str()).collect();
        let rest = ["/c.md", "/edited.md", "/d", "/d/below.md", "/m.md", "/m.md"];
        assert_eq!(order[0], "/own.md");
        assert_eq!(order[1..7], rest);
        assert_eq!(order[7..], ["/e", "/e-f", "/e/g"]);
    }
}
