//! The answers of the record tools.
//!
//! An answer has a text and a structure, each enough by itself. The structure is built as JSON
//! within a budget of bytes; a type that stands beside each tool gives its shape, from which the
//! output schema is derived. The tests hold every answer to its schema.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value as Json;
use stile_tools::answer::{Answer, ResourceLink, Structured};
use stile_tools::tool::Output;

use super::budget::{MAX_ANSWER_PART_BYTES, exceeds};
use super::error::LadderError;
use super::port::too_large;

/// The shape of a tool's structured answers.
pub trait Shape: JsonSchema + Send + 'static {
    /// Whether answers may have members that the shape does not name.
    const IS_OPEN: bool = false;
}

/// A finished answer with the shape `S`.
pub struct RecordOutput<S> {
    text: String,
    structured: Json,
    links: Vec<ResourceLink>,
    shape: PhantomData<fn() -> S>,
}

impl<S> RecordOutput<S> {
    /// Creates an answer.
    ///
    /// # Errors
    /// If the answer is longer than any honest resource server makes it.
    pub(crate) fn new(
        text: String,
        structured: Json,
        links: Vec<ResourceLink>,
    ) -> Result<Self, LadderError> {
        let link_bytes: usize = links.iter().map(ResourceLink::byte_len).sum();
        if text.len() > MAX_ANSWER_PART_BYTES
            || link_bytes > MAX_ANSWER_PART_BYTES
            || exceeds(&structured, MAX_ANSWER_PART_BYTES)
        {
            return Err(too_large().into());
        }
        Ok(Self { text, structured, links, shape: PhantomData })
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

    fn render(self) -> serde_json::Result<Answer> {
        let Self { text, structured, links, .. } = self;
        Ok(Answer { links, ..Answer::new(text, Structured::Tree(structured)) })
    }
}

/// A member that is always there and may be `null`. Its schema says both.
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
