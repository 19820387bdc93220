//! `text.append`: new lines at the end of a file that is still the one that was read.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::Space;

use super::text_replace::TextChanged;
use crate::tool::Tool;

/// Add new lines at the end of a text file that you have read. Refused with `stale` if the file
/// changed since you read it. A large file is made by `file.create` and then appending to it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextAppend {
    /// Which file, from the root of the space.
    path: FilePath,
    /// The `hash` that `text.read` or the last change returned for it.
    hash: ContentHash,
    /// The new lines, stored as given: end them with a line break if the file should end with one.
    content: String,
}

impl Tool for TextAppend {
    const NAME: &'static str = "text.append";
    const TITLE: &'static str = "Append lines";
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
        let Self { path, hash, content } = self;
        let edited = space
            .edit(permit, hash, ["content", "content"], move |text| {
                Ok(edit::append(text, &content))
            })
            .await?;
        Ok(TextChanged::new(path.into(), hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
    }
}
