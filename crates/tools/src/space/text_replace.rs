//! `text.replace`: whole lines become other lines, if the file is still the one that was read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::edit::section_edit::replace_section;
use stile_domain::edit::{self, Within};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::lines::{LineRange, count_lines};
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{CreatedFile, EditedFile, NewText, Space};

use super::text_edit::within;
use super::text_read::stated_encoding;
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Replace whole lines of a text file that you have read. `old` must stand exactly once inside
/// `lines` or `section`; a `section` without `old` gets `new` as its body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextReplace {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// `[start, end]` within which to look, from 1, end exclusive, 0 as end for the end of the
    /// file.
    lines: Option<LineRange>,
    /// A section of a note in place of `lines`, as in `text.read`.
    section: Option<String>,
    /// The full content of consecutive lines, every character, as `text.read` showed them.
    old: Option<String>,
    /// The lines that take their place; empty to delete them.
    new: String,
    /// As read.
    encoding: Option<String>,
}

/// A text file that was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextChanged {
    /// Its canonical path.
    path: SpacePath,
    /// The new hash, which the next change needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<ContentHash>,
    /// The new size.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// How many lines it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl TextChanged {
    pub(crate) fn new(path: SpacePath, base: ContentHash, edited: &EditedFile) -> Self {
        Self {
            path,
            hash: Some(edited.hash),
            size_bytes: Some(edited.size_bytes),
            total_lines: Some(edited.total_lines),
            base: Some(base),
        }
    }

    /// Describes a file that was made.
    pub(crate) fn created(path: SpacePath, created: &CreatedFile) -> Self {
        Self {
            path,
            hash: Some(created.hash),
            size_bytes: Some(created.size_bytes),
            total_lines: created.total_lines,
            base: None,
        }
    }

    /// Describes a change for a caller who may not read the file.
    pub(crate) fn unread(path: SpacePath) -> Self {
        Self { path, hash: None, size_bytes: None, total_lines: None, base: None }
    }
}

impl Output for TextChanged {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, self.hash)
    }
}

impl Tool for TextReplace {
    const NAME: &'static str = "text.replace";
    const TITLE: &'static str = "Replace lines";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = TextChanged;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<TextChanged, Refusal> {
        let Self { path, hash, lines, section, old, new, encoding } = self;
        let within = within(&path, lines, section.as_deref())?.ok_or_else(|| {
            Refusal::invalid_argument("`lines` is missing; send `lines` and `old`, or `section`")
        })?;
        let arguments = ["lines", "old"];
        let encoding = stated_encoding(encoding.as_deref())?;
        let written = NewText { encoding, is_ascii: new.is_ascii() };
        let edited = match (old, within) {
            (Some(old), within) => {
                let plan = move |text: &str| edit::replace(text, within.clone(), &old, &new);
                space.edit(permit, hash, written, arguments, plan).await?
            }
            (None, Within::Section(section)) => {
                let plan = move |text: &str| replace_section(text, &section, &new);
                space.edit(permit, hash, written, arguments, plan).await?
            }
            (None, Within::Lines(_)) => {
                return Err(Refusal::invalid_argument("`old` is missing"));
            }
        };
        Ok(TextChanged::new(path.into(), hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash)).with_changed_lines(
            self.old.as_deref().map_or(0, count_lines).max(count_lines(&self.new)),
        )
    }
}
