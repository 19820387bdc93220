//! `text.insert`: new lines before a line that is still the one that was read.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::edit;
use stile_domain::edit::section_edit::{SectionEdge, insert_in_section};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::lines::count_lines;
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::{NewText, Space};

use super::text_read::{stated_encoding, wanted_section};
use super::text_replace::TextChanged;
use crate::tool::Tool;

/// Insert new lines into a text file that you have read: before a `line`, whose full content is
/// `anchor`, or in a `section` of a note, `at` its start or end. At the end of the file, use
/// `text.append`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextInsert {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// The line before which to insert, from 1; -1 is the last line.
    line: Option<i64>,
    /// The full content of that line.
    anchor: Option<String>,
    /// A section of a note in place of `line` and `anchor`, as in `text.read`.
    section: Option<String>,
    /// Where in the section: `start` is below its heading.
    at: Option<Edge>,
    /// The new lines; exactly one line break will end them.
    content: String,
    /// As read.
    encoding: Option<String>,
}

/// Where in a section lines are inserted.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Edge {
    Start,
    End,
}

impl From<Edge> for SectionEdge {
    fn from(edge: Edge) -> Self {
        match edge {
            Edge::Start => Self::Start,
            Edge::End => Self::End,
        }
    }
}

impl Tool for TextInsert {
    const NAME: &'static str = "text.insert";
    const TITLE: &'static str = "Insert lines";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = TextChanged;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<TextChanged, Refusal> {
        let Self { path, hash, line, anchor, section, at, content, encoding } = self;
        let encoding = stated_encoding(encoding.as_deref())?;
        let written = NewText { encoding, is_ascii: content.is_ascii() };
        let edited = match (line, anchor, section, at) {
            (Some(line), Some(anchor), None, None) => {
                let plan = move |text: &str| edit::insert(text, line, &anchor, &content);
                space.edit(permit, hash, written, ["line", "anchor"], plan).await?
            }
            (None, None, Some(section), Some(at)) => {
                let section = wanted_section(&path, &section)?;
                let plan = move |text: &str| insert_in_section(text, &section, at.into(), &content);
                space.edit(permit, hash, written, ["section", "section"], plan).await?
            }
            _ => {
                return Err(Refusal::invalid_argument(
                    "send `line` and `anchor`, or `section` and `at`",
                ));
            }
        };
        Ok(TextChanged::new(path.into(), hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
            .with_changed_lines(count_lines(&self.content))
    }
}
