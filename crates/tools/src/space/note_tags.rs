//! `note.tags`: which tags notes have, or which values a property of them has, with counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::journal::CallTrace;
use stile_domain::limits::MAX_FOUND_NAMES;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Walk};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{Space, ValueCounts};

use super::walking::{cursor_of, is_zero, skipped_words, walked_answer, whole_space};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// The most characters of a value that an answer shows.
const MAX_VALUE_CHARS: usize = 200;

/// Count the tags of notes, or the values of one property, the most frequent first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteTags {
    /// Its values in place of tags.
    property: Option<String>,
    /// In which folder.
    #[serde(default = "whole_space")]
    path: SpacePath,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// How many notes have each tag or value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CountedTags {
    /// The tags or values, at most 100 at a time.
    values: Vec<CountedValue>,
    /// How many there are.
    total: usize,
    /// How many notes were looked into.
    searched: u64,
    /// How many were not: not text, too large, or being changed.
    skipped: u64,
    /// How many entries have names that no path can hold.
    #[serde(skip_serializing_if = "is_zero")]
    unnameable: u64,
    /// Whether there are more values.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A tag or a value.
#[derive(Debug, Serialize, JsonSchema)]
struct CountedValue {
    value: String,
    /// How many notes have it.
    notes: u64,
}

impl Output for CountedTags {
    /// Renders one line for each value, for a client that shows only text.
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        let skipped = skipped_words(self.skipped);
        let mut lines = vec![format!("{} in {} notes{skipped}.", self.total, self.searched)];
        lines.extend(self.values.iter().map(|one| format!("{}  {}", one.notes, one.value)));
        walked_answer(lines, self.unnameable, self.next_cursor.as_ref(), &self)
    }
}

impl Tool for NoteTags {
    const NAME: &'static str = "note.tags";
    const TITLE: &'static str = "Count tags";
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Walk>;
    type Output = CountedTags;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Walk>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Walk>, space: &Space) -> Result<CountedTags, Refusal> {
        let Self { property, path, cursor } = self;
        let query = format!("tags {:?}", (&property, &path));
        let shown = usize::try_from(cursor_of(cursor.as_deref(), &query)?.line);
        let ValueCounts { counts, searched, skipped, unnameable } =
            space.count_values(permit, property).await?;
        let total = counts.len();
        let page = counts.into_iter().skip(shown.unwrap_or(usize::MAX)).take(MAX_FOUND_NAMES);
        let values: Vec<CountedValue> = page
            .map(|(value, notes)| CountedValue {
                value: value.chars().take(MAX_VALUE_CHARS).collect(),
                notes,
            })
            .collect();
        let end = shown.unwrap_or(usize::MAX).saturating_add(values.len());
        let next = (end < total)
            .then(|| WalkCursor { line: end as u64, ..WalkCursor::default() }.encode(&query));
        Ok(CountedTags {
            values,
            total,
            searched,
            skipped,
            unnameable,
            truncated: next.is_some(),
            next_cursor: next,
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
