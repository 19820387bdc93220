//! `file.find`: files and folders by their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::find::name_pattern::NamePattern;
use stile_domain::journal::CallTrace;
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Walk};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{NameQuery, Space, TreePage};

use super::file_list::FileEntry;
use super::walking::{
    OrderArgument, bound_of, cursor_of, is_zero, order_of, walked_answer, whole_space,
};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// Find files and folders by name. A pattern with `*`, `?`, `[` or `{` is a glob, for the path
/// below `path` if it has a `/`, as in `projects/**/*.md`; any other is fuzzy, best first. For what
/// files say, call `file.search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileFind {
    /// What to find, e.g. `budget 2024`, `*.md`. Ignores case unless it has a capital letter.
    #[schemars(length(min = 1, max = 256))]
    pattern: String,
    /// In which folder.
    #[serde(default = "whole_space")]
    path: SpacePath,
    /// Only files or only folders.
    #[serde(rename = "type")]
    kind: Option<FoundType>,
    /// Changed since: a UTC date or time, or an age like `7d`.
    modified_after: Option<String>,
    /// Changed at or before this one.
    modified_before: Option<String>,
    /// `newest`: files alone, changed last first.
    order: Option<OrderArgument>,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// What kind of thing to find.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FoundType {
    File,
    Directory,
}

/// Files and folders whose names fit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundFiles {
    /// The matches, at most 100 at a time.
    matches: Vec<FileEntry>,
    /// How many names this call looked at.
    searched: u64,
    /// If nothing fits: close names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    near: Vec<SpacePath>,
    /// How many entries have names that no path can hold.
    #[serde(skip_serializing_if = "is_zero")]
    unnameable: u64,
    /// Whether there may be more matches.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Output for FoundFiles {
    fn hits(&self) -> Option<usize> {
        Some(self.matches.len())
    }

    /// Renders one line for each match, for a client that shows only text.
    fn render(self, names: ShownTools) -> serde_json::Result<Answer> {
        let search = names.sentence(" `file.search` looks for what files say.");
        let mut lines = vec![match (self.matches.len(), self.searched, self.truncated) {
            (0, searched, false) => {
                format!("None of {searched} names fits. Try fewer letters.{search}")
            }
            (count, searched, _) => format!("{count} of {searched} names fit:"),
        }];
        if !self.near.is_empty() {
            lines.push("The closest names:".to_owned());
            lines.extend(self.near.iter().map(SpacePath::to_string));
        }
        lines.extend(self.matches.iter().map(FileEntry::to_line));
        walked_answer(lines, self.unnameable, self.next_cursor.as_ref(), &self)
    }
}

impl Tool for FileFind {
    const NAME: &'static str = "file.find";
    const TITLE: &'static str = "Find files";
    const GROUP: ToolGroup = ToolGroup::Find;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Walk>;
    type Output = FoundFiles;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Walk>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Walk>, space: &Space) -> Result<FoundFiles, Refusal> {
        let Self { pattern, path, kind, modified_after, modified_before, order, cursor } = &self;
        let asked = (pattern, path.as_str(), kind, modified_after, modified_before, order);
        let query = format!("find {asked:?}");
        let cursor = cursor_of(cursor.as_deref(), &query)?;
        let names = NameQuery {
            pattern: NamePattern::parse(pattern)
                .map_err(|error| Refusal::invalid_argument(format!("`pattern` {error}")))?,
            kind: kind.map(|kind| match kind {
                FoundType::File => EntryKind::File,
                FoundType::Directory => EntryKind::Directory,
            }),
            modified: [
                bound_of("modified_after", modified_after.as_deref())?,
                bound_of("modified_before", modified_before.as_deref())?,
            ],
            order: order_of(*order),
        };
        let TreePage { entries, searched, near, unnameable, next } =
            space.find_names(permit, names, cursor).await?;
        Ok(FoundFiles {
            matches: entries.into_iter().map(FileEntry::from).collect(),
            searched,
            near,
            unnameable,
            truncated: next.is_some(),
            next_cursor: next.map(|next| next.encode(&query)),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
