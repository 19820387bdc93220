//! The answers of the record tools.
//!
//! An answer has a text and a structure, and each is complete without the other. A type in each
//! tool's file declares the structure: the output schema is derived from that type, and so is the
//! JSON of an answer. Pages of lists are the exception: they have many small objects and are
//! written as text within a budget of bytes, so their types lend their schema alone. The tests
//! check every answer against its schema.

use std::borrow::Cow;
use std::marker::PhantomData;
use stile_domain::tool_name::ShownTools;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value as Json;
use stile_domain::records::shown_records::StreamTally;
use stile_tools::answer::{Answer, ResourceLink, Structured};
use stile_tools::tool::Output;

use super::budget::{MAX_ANSWER_PART_BYTES, exceeds};
use super::error::LadderError;
use super::json_members::members_of;
use super::port::too_large;

/// The shape of a tool's structured answers.
pub trait Shape: JsonSchema + Send + 'static {
    /// Whether answers may have members that the shape does not name.
    const IS_OPEN: bool = false;
}

/// A finished answer with the shape `S`.
pub struct RecordOutput<S> {
    text: String,
    structured: Structured,
    links: Vec<ResourceLink>,
    shown: Vec<StreamTally>,
    shape: PhantomData<fn() -> S>,
}

impl<S> RecordOutput<S> {
    /// Adds how many records of each stream the answer shows, for the journal.
    pub(crate) fn with_shown(self, shown: Vec<StreamTally>) -> Self {
        Self { shown, ..self }
    }

    /// Creates an answer of its declaration.
    ///
    /// # Errors
    /// `answer_too_large` if a part exceeds [`MAX_ANSWER_PART_BYTES`].
    pub(crate) fn of(
        text: String,
        structured: &S,
        links: Vec<ResourceLink>,
    ) -> Result<Self, LadderError>
    where
        S: Serialize,
    {
        Self::new(text, Json::Object(members_of(structured)), links)
    }

    /// Creates an answer.
    ///
    /// # Errors
    /// `answer_too_large` if a part exceeds [`MAX_ANSWER_PART_BYTES`].
    pub(crate) fn new(
        text: String,
        structured: Json,
        links: Vec<ResourceLink>,
    ) -> Result<Self, LadderError> {
        let is_long = exceeds(&structured, MAX_ANSWER_PART_BYTES);
        Self::checked(text, Structured::Tree(structured), links, is_long)
    }

    /// Creates an answer whose structure is compact JSON.
    ///
    /// # Errors
    /// `answer_too_large` if a part exceeds [`MAX_ANSWER_PART_BYTES`].
    pub(crate) fn of_json(
        text: String,
        json: String,
        links: Vec<ResourceLink>,
    ) -> Result<Self, LadderError> {
        let is_long = json.len() > MAX_ANSWER_PART_BYTES;
        Self::checked(text, Structured::Json(json), links, is_long)
    }

    fn checked(
        text: String,
        structured: Structured,
        links: Vec<ResourceLink>,
        is_long: bool,
    ) -> Result<Self, LadderError> {
        let link_bytes: usize = links.iter().map(ResourceLink::byte_len).sum();
        if is_long || text.len() > MAX_ANSWER_PART_BYTES || link_bytes > MAX_ANSWER_PART_BYTES {
            return Err(too_large().into());
        }
        Ok(Self { text, structured, links, shown: Vec::new(), shape: PhantomData })
    }
}

impl<S: Shape> JsonSchema for RecordOutput<S> {
    fn schema_name() -> Cow<'static, str> {
        S::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        S::json_schema(generator)
    }
}

impl<S: Shape> Output for RecordOutput<S> {
    const IS_OPEN: bool = S::IS_OPEN;

    fn records(&self) -> Vec<StreamTally> {
        self.shown.clone()
    }

    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        let Self { text, structured, links, .. } = self;
        Ok(Answer { links, ..Answer::new(text, structured) })
    }
}

/// A member that is always present and may be `null`.
pub struct Nullable<T>(PhantomData<fn() -> T>);

impl<T: JsonSchema> JsonSchema for Nullable<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Nullable{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let schema = T::json_schema(generator);
        schemars::json_schema!({ "anyOf": [schema, { "type": "null" }] })
    }
}
