//! `note.find`: notes by their tags, properties and links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::notes::note_property::{PropertyCondition, WantedProperty};
use stile_domain::notes::note_query::NoteQuery;
use stile_domain::notes::tags::WantedTag;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Read, Walk};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{NotePage, Space};

use super::file_list::FileEntry;
use super::walking::{
    OrderArgument, cursor_of, is_zero, order_of, skipped_words, walked_answer, whole_space,
};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// The most properties that one call may name.
const MAX_CONDITIONS: usize = 8;

/// Find Markdown notes that fit all that is given: tag, properties, link, and what is amiss.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteFind {
    /// In front matter or text; `a` also finds `#a/b`.
    tag: Option<String>,
    /// Of the front matter.
    property: Option<NamedProperty>,
    /// Each must fit; `before` is less, or earlier.
    #[serde(default)]
    #[schemars(length(max = 8))]
    properties: Vec<PropertyArgument>,
    /// A file to which the note links.
    links_to: Option<SpacePath>,
    /// With a link that leads to no file.
    #[serde(default)]
    broken: bool,
    /// With no link to it from another file.
    #[serde(default)]
    orphan: bool,
    /// Without a tag.
    #[serde(default)]
    untagged: bool,
    /// In which folder.
    #[serde(default = "whole_space")]
    path: SpacePath,
    /// `newest`: changed last first.
    order: Option<OrderArgument>,
    /// `next_cursor`.
    cursor: Option<String>,
}

// A member of the front matter, and its value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedProperty {
    name: String,
    value: Option<String>,
}

impl From<NamedProperty> for PropertyArgument {
    fn from(NamedProperty { name, value }: NamedProperty) -> Self {
        Self { name, value, not: None, before: None, after: None, exists: None }
    }
}

// A member of the front matter to find. Without a description: lists of tools are to be short.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PropertyArgument {
    name: String,
    value: Option<String>,
    not: Option<String>,
    before: Option<String>,
    after: Option<String>,
    exists: Option<bool>,
}

impl PropertyArgument {
    /// Returns the conditions of the property: that it is there, where nothing else is said.
    fn wanted(self) -> Vec<WantedProperty> {
        let exists = self.exists.map(|exists| match exists {
            true => PropertyCondition::Exists,
            false => PropertyCondition::Missing,
        });
        let conditions = [
            self.value.map(PropertyCondition::Is),
            self.not.map(PropertyCondition::IsNot),
            self.before.map(PropertyCondition::Before),
            self.after.map(PropertyCondition::After),
            exists,
        ];
        let mut conditions: Vec<PropertyCondition> = conditions.into_iter().flatten().collect();
        if conditions.is_empty() {
            conditions.push(PropertyCondition::Exists);
        }
        let named = |condition| WantedProperty { name: self.name.clone(), condition };
        conditions.into_iter().map(named).collect()
    }
}

/// Notes that fit a question.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundNotes {
    /// The notes, at most 100 at a time.
    matches: Vec<FileEntry>,
    /// How many notes this call looked into.
    searched: u64,
    /// How many it did not: not text, too large, or being changed.
    skipped: u64,
    /// How many entries have names that no path can hold.
    #[serde(skip_serializing_if = "is_zero")]
    unnameable: u64,
    /// Whether there may be more.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Output for FoundNotes {
    fn hits(&self) -> Option<usize> {
        Some(self.matches.len())
    }

    /// Renders one line for each note, for a client that shows only text.
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        let skipped = skipped_words(self.skipped);
        let count = self.matches.len();
        let mut lines = vec![format!("{count} of {} notes fit{skipped}.", self.searched)];
        lines.extend(self.matches.iter().map(FileEntry::to_line));
        walked_answer(lines, self.unnameable, self.next_cursor.as_ref(), &self)
    }
}

impl Tool for NoteFind {
    const NAME: &'static str = "note.find";
    const TITLE: &'static str = "Find notes";
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = ((Permit<Walk>, Permit<Walk>), Option<Permit<Read>>);
    type Output = FoundNotes;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let linked = self.links_to.as_ref().map(|path| gate.permit(path)).transpose()?;
        let folder = gate.permit(&self.path)?;
        Ok(((folder, gate.permit(&SpacePath::root())?), linked))
    }

    async fn run(
        self,
        (walks, linked): Self::Permits,
        space: &Space,
    ) -> Result<FoundNotes, Refusal> {
        let Self { tag, mut properties, links_to, broken, orphan, untagged, path, .. } = self;
        let (order, cursor) = (self.order, self.cursor);
        properties.extend(self.property.map(PropertyArgument::from));
        let has_flag = broken || orphan || untagged;
        if tag.is_none() && properties.is_empty() && links_to.is_none() && !has_flag {
            return Err(Refusal::invalid_argument(
                "one of `tag`, `property`, `properties`, `links_to`, `broken`, `orphan` and \
                 `untagged` must be given",
            ));
        }
        if properties.len() > MAX_CONDITIONS {
            return Err(Refusal::invalid_argument("`properties` must have at most 8 members"));
        }
        if let Some(linked) = linked {
            space.check_file(linked).await?;
        }
        let asked = (&tag, &properties, &links_to, [broken, orphan, untagged], &path, order);
        let query = format!("notes {asked:?}");
        let cursor = cursor_of(cursor.as_deref(), &query)?;
        let wrong_tag = || {
            Refusal::invalid_argument(
                "`tag` must be letters, digits, `_`, `-` and `/`, and not digits alone",
            )
        };
        let wanted = NoteQuery {
            tag: tag.map(|tag| WantedTag::parse(&tag).ok_or_else(wrong_tag)).transpose()?,
            properties: properties.into_iter().flat_map(PropertyArgument::wanted).collect(),
            links_to,
            is_untagged: untagged,
            is_broken: broken,
            is_orphan: orphan,
        };
        let NotePage { notes, searched, skipped, unnameable, next } =
            space.find_notes(walks, (wanted, order_of(order)), cursor).await?;
        Ok(FoundNotes {
            matches: notes.into_iter().map(FileEntry::from).collect(),
            searched,
            skipped,
            unnameable,
            truncated: next.is_some(),
            next_cursor: next.map(|next| next.encode(&query)),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
