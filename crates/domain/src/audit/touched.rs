//! Which folders a client read and changed, and on which day last: for rights that nobody uses.
//!
//! Where a line of the journal fits several rights, each of them counts as used. So a right that a
//! page calls unused was not used.

use std::collections::BTreeMap;

use super::{CallKind, kind};
use crate::journal::JournalLine;
use crate::path::SpacePath;
use crate::scope::{Scope, Verb};

/// The most folders that are kept of each kind.
const MAX_FOLDERS: usize = 300;

/// The folders that one client read and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedFolders {
    read: LastDays,
    /// The folders that were listed and searched with all that is below.
    walked: LastDays,
    changed: LastDays,
}

/// Folders with the last day on which something was done there, as in `2026-01-31`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LastDays {
    days: BTreeMap<SpacePath, String>,
    /// The last day on which there were more folders than are kept.
    more: Option<String>,
}

impl LastDays {
    fn note(&mut self, folder: SpacePath, day: &str) {
        let is_full = self.days.len() >= MAX_FOLDERS;
        match self.days.get_mut(&folder) {
            Some(last) if last.as_str() >= day => {}
            Some(last) => day.clone_into(last),
            None if is_full => self.more = Some(day.to_owned()),
            None => {
                self.days.insert(folder, day.to_owned());
            }
        }
    }

    fn forget_before(&mut self, first: &str) {
        self.days.retain(|_, day| day.as_str() >= first);
        self.more.take_if(|day| day.as_str() < first);
    }

    fn any(&self, fits: impl Fn(&SpacePath) -> bool) -> bool {
        self.more.is_some() || self.days.keys().any(fits)
    }
}

impl TouchedFolders {
    /// Counts one line. What was refused touched nothing.
    pub fn count(&mut self, line: &JournalLine) {
        let Some(day) = line.at.get(..10).filter(|_| line.outcome == "ok") else { return };
        let touched = match kind(line) {
            CallKind::Event => return,
            CallKind::Change => &mut self.changed,
            CallKind::Read if is_walk(&line.tool) => &mut self.walked,
            CallKind::Read => &mut self.read,
        };
        let mut has_path = false;
        for path in [&line.path, &line.to].into_iter().flatten() {
            has_path = true;
            // Other calls may be about a file or about a folder.
            if !is_walk(&line.tool) {
                let parent = path.split().map_or_else(SpacePath::root, |(parent, _)| parent);
                touched.note(parent, day);
            }
            touched.note(path.clone(), day);
        }
        if !has_path && kind(line) == CallKind::Read {
            self.walked.note(SpacePath::root(), day);
        }
    }

    /// Forgets what was done last before a day, as in `2026-01-31`.
    pub fn forget_before(&mut self, first: &str) {
        for days in [&mut self.read, &mut self.walked, &mut self.changed] {
            days.forget_before(first);
        }
    }

    /// Returns whether the client changed something that the scope names.
    pub fn changed_by(&self, scope: &Scope) -> bool {
        self.changed.any(|folder| scope.path().covers(folder))
    }

    /// Returns whether the client did something that needs the scope. What takes away, and what
    /// lifts a guard, is always used.
    pub fn uses(&self, scope: &Scope) -> bool {
        let is_at = |folder: &SpacePath| scope.path().covers(folder);
        let was_read = || {
            self.read.any(is_at)
                || self.walked.any(|folder| is_at(folder) || folder.covers(scope.path()))
        };
        match scope.verb() {
            Verb::Read => was_read(),
            Verb::Write => self.changed_by(scope) || was_read(),
            Verb::Append => self.changed_by(scope),
            Verb::Deny | Verb::Unguard => true,
        }
    }
}

/// Returns whether a tool looks at what is below a folder.
fn is_walk(tool: &str) -> bool {
    const WALKS: [&str; 6] =
        ["file.find", "file.list", "file.search", "text.search", "note.find", "list"];
    WALKS.contains(&tool)
}

#[cfg(test)]
mod tests {
    use super::super::test_lines;
    use super::*;

    fn line(tool: &str, path: Option<&str>) -> JournalLine {
        JournalLine { at: "2026-01-31T08:00:00Z".to_owned(), ..test_lines::line(tool, path) }
    }

    fn touched(lines: &[JournalLine]) -> TouchedFolders {
        let mut touched = TouchedFolders::default();
        lines.iter().for_each(|line| touched.count(line));
        touched
    }

    fn scope(text: &str) -> Scope {
        Scope::parse_raw(text).unwrap()
    }

    #[test]
    fn a_right_is_used_where_something_was_done_that_needs_it() {
        let refused = JournalLine {
            outcome: "not_granted".to_owned(),
            ..line("text.edit", Some("/secret/a.md"))
        };
        let touched = touched(&[
            line("text.read", Some("/work/plan.md")),
            line("file.list", Some("/notes/2026")),
            line("text.edit", Some("/journal/day.md")),
            refused,
        ]);
        for (right, used) in [
            ("read:/work/", true),
            ("read:/work/plan.md", true),
            ("read:/work/other/", false),
            ("read:/", true),
            ("read:/secret/", false),
            // Whoever walks a folder sees what is below.
            ("read:/notes/2026/may/", true),
            ("read:/notes/2025/", false),
            ("append:/journal/", true),
            ("append:/work/", false),
            ("write:/work/", true),
            ("write:/attic/", false),
            ("deny:/attic", true),
        ] {
            assert_eq!(touched.uses(&scope(right)), used, "{right}");
        }
        assert!(touched.changed_by(&scope("write:/journal/")));
        assert!(!touched.changed_by(&scope("write:/work/")));
    }

    #[test]
    fn what_was_done_long_ago_is_forgotten_and_what_is_not_kept_is_in_doubt() {
        let mut touched = touched(&[line("text.read", Some("/work/plan.md"))]);
        touched.forget_before("2026-01-31");
        assert!(touched.uses(&scope("read:/work/")));
        touched.forget_before("2026-02-01");
        assert!(!touched.uses(&scope("read:/work/")));
        for number in 0..MAX_FOLDERS {
            touched.count(&line("text.edit", Some(&format!("/{number}/a.md"))));
        }
        assert!(touched.uses(&scope("write:/elsewhere/")), "nobody knows");
    }
}
