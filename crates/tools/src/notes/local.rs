//! A note tool over a note of a space.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::notes::{MAX_NOTE_BYTES, Note, NoteTooLarge};
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use super::note_tool::{NoteTool, invalid_path};
use crate::answer::Answer;
use crate::arguments::ArgumentError;
use crate::definition::ToolGroup;
use crate::refusal::failure;
use crate::tool::{Denial, Tool, ToolError};

/// A note tool over the notes of a space.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Local<T>(T);

impl<T: NoteTool> JsonSchema for Local<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: NoteTool> Tool for Local<T> {
    const NAME: &'static str = T::NAME;
    const TITLE: &'static str = T::TITLE;
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    const NEXT: &'static str = T::NEXT;
    type Context = Space;
    type Permits = Permit<Read>;
    type Output = T::Answer;
    type Error = NoteError;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, NoteError> {
        gate.permit(self.0.path().space_path()).map_err(NoteError)
    }

    async fn run(self, permit: Permit<Read>, space: &Space) -> Result<T::Answer, NoteError> {
        let Self(tool) = self;
        let path = tool.path().space_path().clone();
        let derive = move |text: &str| T::derive(tool.path(), Note::parse(text));
        let derived = space.derive(permit, MAX_NOTE_BYTES, derive).await.map_err(NoteError)?;
        derived.map_err(|NoteTooLarge| {
            NoteError(Refusal::TooLarge {
                path,
                limit_bytes: MAX_NOTE_BYTES,
                advice: "Call `text.read`, which reads a part of it.",
            })
        })
    }
}

/// A refusal, in the flat form of the note tools.
#[derive(Debug)]
pub(super) struct NoteError(Refusal);

impl NoteError {
    /// Returns what the caller reads. The message holds no more than `text.read` would say.
    fn message(&self) -> String {
        match &self.0 {
            Refusal::InvalidPath { .. } => "Invalid path".to_owned(),
            Refusal::InvalidArgument { .. } => "Invalid arguments".to_owned(),
            Refusal::TooLarge { .. } => "Note too large".to_owned(),
            Refusal::Busy { .. } => "Note is being changed; call again".to_owned(),
            Refusal::Internal { incident } => {
                format!("Internal error; give the user incident number {incident}")
            }
            refusal => match refusal.path() {
                Some(path) => {
                    format!("Note not found: {}", path.as_str().trim_start_matches('/'))
                }
                None => "Note not found".to_owned(),
            },
        }
    }
}

impl ToolError for NoteError {
    fn from_arguments(error: ArgumentError, arguments: &Value) -> Self {
        Self(match invalid_path(&error, arguments) {
            Some(why) => Refusal::InvalidPath { argument: "path".into(), why },
            None => Refusal::invalid_argument("the arguments do not fit"),
        })
    }

    fn internal(incident: u64) -> Self {
        Self(Refusal::Internal { incident })
    }

    fn into_answer(self, tool: &'static str, names: ShownTools) -> Answer {
        if matches!(self.0, Refusal::InsufficientScope { .. }) {
            return self.0.into_answer(tool, names);
        }
        let structured = json!({ "error": self.message(), "code": "RUNTIME_ERROR" });
        Answer::failed(structured, None, failure(&self.0))
    }

    fn into_denial(self, names: ShownTools) -> Option<Denial> {
        self.0.into_denial(names)
    }
}
