//! `file.create`: a new file, and never over an old one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::base64;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{CreatedFile, EditedFile, Space};

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Make a new file, and missing folders. Refused with `already_exists` if anything is at the path:
/// this never overwrites.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileCreate {
    /// Where to make it, from the root of the space, e.g. `/notes/today.md`.
    path: FilePath,
    /// All of the file: text, or base64 when `encoding` says so.
    content: String,
    /// `utf-8` (the default) or `base64`.
    #[serde(default)]
    encoding: ContentEncoding,
}

/// How `content` is written.
#[derive(Clone, Copy, Debug, Default, JsonSchema)]
pub(super) enum ContentEncoding {
    #[default]
    #[schemars(rename = "utf-8")]
    Utf8,
    #[schemars(rename = "base64")]
    Base64,
}

impl ContentEncoding {
    /// Decodes the argument `content` to the bytes of the file.
    ///
    /// # Errors
    /// [`Refusal::InvalidArgument`] for text that is not base64 with padding.
    pub(super) fn decode(self, content: String) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Utf8 => Ok(content.into_bytes()),
            Self::Base64 => base64::from_standard(content).ok_or_else(|| {
                Refusal::invalid_argument(
                    "`content` must be base64 with padding when `encoding` is `base64`",
                )
            }),
        }
    }
}

/// By hand, because a derived one also takes `{"base64": null}`, which the schema does not.
impl<'de> Deserialize<'de> for ContentEncoding {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "utf-8" => Ok(Self::Utf8),
            "base64" => Ok(Self::Base64),
            _ => Err(serde::de::Error::custom("not an encoding")),
        }
    }
}

/// A file that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileCreated {
    /// Its canonical path.
    path: SpacePath,
    /// The hash of its bytes.
    hash: ContentHash,
    /// Its size.
    size_bytes: u64,
    /// How many lines it has; absent where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl FileCreated {
    pub(super) fn new(path: SpacePath, created: &CreatedFile) -> Self {
        let CreatedFile { hash, size_bytes, total_lines } = *created;
        Self { path, hash, size_bytes, total_lines, base: None }
    }

    /// Describes a file that was made longer.
    pub(super) fn of_edited(path: SpacePath, base: ContentHash, edited: &EditedFile) -> Self {
        let EditedFile { hash, size_bytes, total_lines } = *edited;
        let total_lines = (total_lines > 0).then_some(total_lines);
        Self { path, hash, size_bytes, total_lines, base: Some(base) }
    }
}

impl Output for FileCreated {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, Some(self.hash))
    }
}

impl Tool for FileCreate {
    const NAME: &'static str = "file.create";
    const TITLE: &'static str = "Create a file";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FileCreated;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FileCreated, Refusal> {
        let bytes = self.encoding.decode(self.content)?;
        let created = space.create(permit, bytes).await?;
        Ok(FileCreated::new(self.path.into(), &created))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
