//! `note.find`: notes by their tags, properties and links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::notes::note_property::WantedProperty;
use stile_domain::notes::note_query::NoteQuery;
use stile_domain::notes::tags::WantedTag;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Read, Walk};
use stile_domain::tool_name::Spelling;
use stile_store::space::{NotePage, Space};

use super::file_list::FileEntry;
use super::walking::{cursor_of, whole_space};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// Find Markdown notes that have a tag, a property and a link, as far as given. While `truncated`
/// is true, call again with `next_cursor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteFind {
    /// In front matter or text; `a` also finds `#a/b`.
    tag: Option<String>,
    /// Of the front matter.
    property: Option<PropertyArgument>,
    /// A file to which the note links.
    links_to: Option<SpacePath>,
    /// In which folder.
    #[serde(default = "whole_space")]
    path: SpacePath,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// A member of the front matter to find.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PropertyArgument {
    name: String,
    /// As written, or an item of a list.
    value: Option<String>,
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
    /// Whether there may be more.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Output for FoundNotes {
    /// Renders one line for each note, for a client that shows only text.
    fn render(self, _: Spelling) -> serde_json::Result<Answer> {
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!(", {count} skipped"),
        };
        let count = self.matches.len();
        let mut lines = vec![format!("{count} of {} notes fit{skipped}.", self.searched)];
        lines.extend(self.matches.iter().map(FileEntry::to_line));
        lines.extend(self.next_cursor.as_ref().map(|cursor| {
            format!("truncated: continue with the same arguments and cursor {cursor}")
        }));
        Answer::with_text(lines.join("\n"), &self)
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

    fn ask(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let linked = self.links_to.as_ref().map(|path| gate.permit(path)).transpose()?;
        let folder = gate.permit(&self.path)?;
        Ok(((folder, gate.permit(&SpacePath::root())?), linked))
    }

    async fn run(self, (walks, _): Self::Permits, space: &Space) -> Result<FoundNotes, Refusal> {
        let Self { tag, property, links_to, path, cursor } = self;
        if tag.is_none() && property.is_none() && links_to.is_none() {
            return Err(Refusal::invalid_argument(
                "one of `tag`, `property` and `links_to` must be given",
            ));
        }
        let name = property.as_ref().map(|property| (&property.name, &property.value));
        let query = format!("notes {:?}", (&tag, name, &links_to, &path));
        let cursor = cursor_of(cursor.as_deref(), &query)?;
        let wrong_tag = || {
            Refusal::invalid_argument(
                "`tag` must be letters, digits, `_`, `-` and `/`, and not digits alone",
            )
        };
        let wanted = NoteQuery {
            tag: tag.map(|tag| WantedTag::parse(&tag).ok_or_else(wrong_tag)).transpose()?,
            property: property
                .map(|PropertyArgument { name, value }| WantedProperty { name, value }),
            links_to,
        };
        let NotePage { notes, searched, skipped, next } =
            space.find_notes(walks, wanted, cursor).await?;
        Ok(FoundNotes {
            matches: notes.into_iter().map(FileEntry::from).collect(),
            searched,
            skipped,
            truncated: next.is_some(),
            next_cursor: next.map(|next| next.encode(&query)),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
