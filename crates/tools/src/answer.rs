//! A finished call, ready for every transport.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use stile_domain::notes::answers::AnswerExtent;

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The one text block.
    pub text: String,
    /// The answer as JSON, for `structuredContent`.
    pub structured: Structured,
    /// An image or a sound that the answer shows.
    pub media: Option<Media>,
    /// Links to resources that the answer refers to.
    pub links: Vec<ResourceLink>,
    /// Why the call failed; `None` if it succeeded.
    pub failure: Option<Failure>,
    /// How much of a note's structure the answer holds, for the journal and the log.
    pub extent: Option<AnswerExtent>,
}

/// The structured form of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Structured {
    /// A JSON tree.
    Tree(Value),
    /// Compact JSON as text.
    Json(String),
    /// The text block is compact JSON and is the structured answer, too.
    SameAsText,
}

/// An image or a sound, as the protocol shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is to the protocol.
    pub kind: MediaKind,
    /// The media type, such as `image/png`.
    pub mime_type: String,
    /// The bytes as base64.
    pub data: String,
}

/// What a client does with media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// Shows an image.
    Image,
    /// Plays a sound.
    Audio,
}

/// A link to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLink {
    /// The address of the resource.
    pub uri: String,
    /// One word for what the resource is.
    pub name: String,
    /// What the resource holds, for a model that sees nothing else of it.
    pub description: String,
    /// The resource's media type.
    pub mime_type: String,
}

/// A failed call as the journal and the metrics record it. Holds no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The stable code, for the journal.
    pub code: Cow<'static, str>,
    /// Names the line in the server's log, if the failure is an internal error.
    pub incident: Option<u64>,
    /// The outcome label of the metrics.
    pub outcome: &'static str,
    /// The metrics' label for the status of the server behind this one; `none` if the call reached
    /// no such server.
    pub upstream: &'static str,
}

impl Answer {
    /// Creates a successful answer without links.
    pub fn new(text: String, structured: Structured) -> Self {
        Self { text, structured, media: None, links: Vec::new(), failure: None, extent: None }
    }

    /// Creates a successful answer whose text is its structure as compact JSON.
    ///
    /// # Errors
    /// If `output` cannot be serialized.
    pub fn json(output: &impl Serialize) -> serde_json::Result<Self> {
        let text = serde_json::to_string(output)?;
        Ok(Self::new(text, Structured::SameAsText))
    }

    /// Creates a successful answer with a text of its own.
    ///
    /// # Errors
    /// If `output` cannot be serialized.
    pub fn with_text(text: String, output: &impl Serialize) -> serde_json::Result<Self> {
        let structured = Structured::Tree(serde_json::to_value(output)?);
        Ok(Self::new(text, structured))
    }

    /// Creates the answer to a failed call. The text is the structure as compact JSON unless `text`
    /// is given.
    pub fn failed(structured: Value, text: Option<String>, failure: Failure) -> Self {
        let text = text.unwrap_or_else(|| structured.to_string());
        Self { failure: Some(failure), ..Self::new(text, Structured::Tree(structured)) }
    }

    /// Returns the structured answer as a JSON tree.
    pub fn to_tree(&self) -> Cow<'_, Value> {
        match &self.structured {
            Structured::Tree(tree) => Cow::Borrowed(tree),
            Structured::Json(json) => Cow::Owned(serde_json::from_str(json).unwrap_or_default()),
            Structured::SameAsText => {
                Cow::Owned(serde_json::from_str(&self.text).unwrap_or_default())
            }
        }
    }
}

impl ResourceLink {
    /// Returns the bytes of all its members together.
    pub fn byte_len(&self) -> usize {
        [&self.uri, &self.name, &self.description, &self.mime_type]
            .into_iter()
            .map(String::len)
            .sum()
    }
}
