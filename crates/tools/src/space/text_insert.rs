//! `text.insert`: new lines before a line that is still the one that was read.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::lines::count_lines;
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::Space;

use super::text_replace::TextChanged;
use crate::tool::Tool;

/// Insert new lines before one line of a text file that you have read. `anchor` is the full content
/// of that line. Refused with `stale` if the file changed since you read it. To add at the end, use
/// `text.append`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextInsert {
    /// Which file.
    path: FilePath,
    /// Its `hash`, from a read or a change.
    hash: ContentHash,
    /// The line before which to insert, from 1; negative numbers count from the end, -1 is the last
    /// line.
    line: i64,
    /// The full content of that line, every character of it.
    anchor: String,
    /// The new lines; exactly one line break will end them.
    content: String,
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

    fn ask(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<TextChanged, Refusal> {
        let Self { path, hash, line, anchor, content } = self;
        let edited = space
            .edit(permit, hash, ["line", "anchor"], move |text| {
                edit::insert(text, line, &anchor, &content)
            })
            .await?;
        Ok(TextChanged::new(path.into(), hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
            .with_changed_lines(count_lines(&self.content))
    }
}
