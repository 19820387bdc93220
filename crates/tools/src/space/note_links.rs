//! `note.links`: where a note leads, and what leads to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Gate, Permit, Read, Walk};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{LinkDirection, LinkPage, Space};

use super::walking::{cursor_of, is_zero, walked_answer};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// List the links of a Markdown note (`out`; `path` is where one leads) and the notes that link to
/// it (`in`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteLinks {
    /// Which note.
    path: FilePath,
    /// Which links.
    #[serde(default)]
    direction: DirectionArgument,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// Which links to list.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DirectionArgument {
    Out,
    In,
    #[default]
    Both,
}

/// The links from and to a note.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinksOfNote {
    /// The links of the note.
    out: Vec<LinkFromNote>,
    /// The links that lead to the note.
    #[serde(rename = "in")]
    links_here: Vec<LinkToNote>,
    /// How many notes could not be looked into.
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

/// A link of the note.
#[derive(Debug, Serialize, JsonSchema)]
struct LinkFromNote {
    /// What the link names.
    target: String,
    /// Where it leads; absent where nothing is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<SpacePath>,
    /// The line of the note, from 1.
    line: u32,
    /// `wikilink`, `markdown` or `embed`.
    kind: &'static str,
}

/// A link that leads to the note.
#[derive(Debug, Serialize, JsonSchema)]
struct LinkToNote {
    /// The note that has the link.
    path: SpacePath,
    /// The line of that note, from 1.
    line: u32,
    /// `wikilink`, `markdown` or `embed`.
    kind: &'static str,
}

impl Output for LinksOfNote {
    /// Renders one line for each link, for a client that shows only text.
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        let mut lines =
            vec![format!("{} links out, {} in.", self.out.len(), self.links_here.len())];
        lines.extend(self.out.iter().map(|link| {
            let path = link.path.as_ref().map_or("nothing", SpacePath::as_str);
            format!("out {}: {} {} -> {path}", link.line, link.kind, link.target)
        }));
        let links_here = self.links_here.iter();
        lines
            .extend(links_here.map(|link| format!("in {}:{} {}", link.path, link.line, link.kind)));
        walked_answer(lines, self.unnameable, self.next_cursor.as_ref(), &self)
    }
}

impl Tool for NoteLinks {
    const NAME: &'static str = "note.links";
    const TITLE: &'static str = "Links of a note";
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = (Permit<Read>, Permit<Walk>);
    type Output = LinksOfNote;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let note = gate.permit(&self.path)?;
        Ok((note, gate.permit(&SpacePath::root())?))
    }

    async fn run(self, permits: Self::Permits, space: &Space) -> Result<LinksOfNote, Refusal> {
        let direction = match self.direction {
            DirectionArgument::Out => LinkDirection::Out,
            DirectionArgument::In => LinkDirection::In,
            DirectionArgument::Both => LinkDirection::Both,
        };
        let query = format!("links {:?}", (self.path.as_str(), direction));
        let cursor = cursor_of(self.cursor.as_deref(), &query)?;
        let LinkPage { out, links_here, skipped, unnameable, next, .. } =
            space.note_links(permits, direction, cursor).await?;
        let out = out.into_iter().map(|found| LinkFromNote {
            target: found.link.target.as_str().to_owned(),
            path: found.path,
            line: found.link.line,
            kind: found.link.kind.word(),
        });
        let links_here = links_here.into_iter().map(|(path, link)| LinkToNote {
            path,
            line: link.line,
            kind: link.kind.word(),
        });
        Ok(LinksOfNote {
            out: out.collect(),
            links_here: links_here.collect(),
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
