//! The four note tools: what is in one note, wherever the note comes from.
//!
//! A note tool is declared once. [`NoteToolEntry`] makes two tools of the declaration: a local one
//! over a space and a remote one over a server that has the notes. The contract of the note tools
//! comes from elsewhere, and so does the form of their refusals: a flat object of two strings. Only
//! a missing scope reads as it does for every other tool, since it is decided before a tool runs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::notes::answers::{AnswerExtent, NoteAnswer};
use stile_domain::notes::{MAX_NOTE_BYTES, Note, NotePath, NoteTooLarge};
use stile_domain::path::BadPath;
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::role::Role;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::arguments::ArgumentError;
use crate::refusal::failure;
use crate::remote_notes::RemoteNote;
use crate::remote_notes::tool::Remote;
use crate::tool::{Denial, Output, Tool, ToolEntry, ToolError};

pub mod facets;
pub mod outline;
pub mod sections;
pub mod tree;

/// The note tools, in reading order.
pub const NOTE_TOOLS: &[NoteToolEntry] = &[
    NoteToolEntry::new::<outline::GetNoteOutline>(),
    NoteToolEntry::new::<tree::GetDocumentTree>(),
    NoteToolEntry::new::<facets::GetMetadataFacets>(),
    NoteToolEntry::new::<sections::GetSectionSource>(),
];

/// A tool that describes one note, wherever the note comes from.
///
/// The doc comment of the implementing type is the description that agents read.
pub trait NoteTool: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The name.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;
    /// Which call continues from here, where the caller can read the note as well.
    const NEXT: &'static str = "";
    /// The roles that may use the tool through a gateway.
    const ROLES: &'static [Role];
    /// What the tool answers.
    type Answer: Output + 'static;

    /// Returns the path of the note.
    fn path(&self) -> &NotePath;

    /// Describes the note.
    fn derive(path: &NotePath, note: Note<'_>) -> Result<Self::Answer, NoteTooLarge>;
}

/// A note tool in its two forms.
pub struct NoteToolEntry {
    /// The tool over the notes of a space.
    pub local: ToolEntry<Space>,
    /// The tool over notes that another server has.
    pub remote: ToolEntry<RemoteNote>,
    /// The roles that may use the remote tool.
    pub roles: &'static [Role],
}

impl NoteToolEntry {
    /// Declares both forms of a note tool.
    pub const fn new<T: NoteTool>() -> Self {
        Self {
            local: ToolEntry::new::<Local<T>>(),
            remote: ToolEntry::new::<Remote<T>>(),
            roles: T::ROLES,
        }
    }
}

/// A note tool over the notes of a space.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Local<T>(T);

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
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    const NEXT: &'static str = T::NEXT;
    type Context = Space;
    type Permits = Permit<Read>;
    type Output = T::Answer;
    type Error = NoteError;

    fn ask(&self, gate: Gate<'_>) -> Result<Permit<Read>, NoteError> {
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

impl<A: NoteAnswer> Output for A {
    fn render(self) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn extent(&self) -> Option<AnswerExtent> {
        Some(NoteAnswer::extent(self))
    }
}

/// A refusal, in the flat form of the note tools.
#[derive(Debug)]
pub struct NoteError(Refusal);

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
            Some(why) => Refusal::InvalidPath { argument: "path", why },
            None => Refusal::invalid_argument("the arguments do not fit"),
        })
    }

    fn internal(incident: u64) -> Self {
        Self(Refusal::Internal { incident })
    }

    fn into_answer(self, tool: &'static str) -> Answer {
        if matches!(self.0, Refusal::InsufficientScope { .. }) {
            return self.0.into_answer(tool);
        }
        let structured = json!({ "error": self.message(), "code": "RUNTIME_ERROR" });
        Answer::failed(structured, None, failure(&self.0))
    }

    fn into_denial(self) -> Denial {
        self.0.into_denial()
    }

    fn schemas() -> Vec<Value> {
        let flat = flat_error_schema("RUNTIME_ERROR");
        std::iter::once(flat).chain(Refusal::schemas()).collect()
    }
}

/// Returns the schema of a flat refusal with this code.
pub(crate) fn flat_error_schema(code: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "error": { "type": "string" },
            "code": { "type": "string", "const": code }
        },
        "required": ["error", "code"],
        "additionalProperties": false
    })
}

/// Returns what is wrong with the path, if the path is all that is wrong with the arguments. `path`
/// is the only argument of a note tool.
pub(crate) fn invalid_path(error: &ArgumentError, arguments: &Value) -> Option<BadPath> {
    let arguments = arguments.as_object();
    if *error == ArgumentError::NotAnObject
        || arguments.is_some_and(|arguments| arguments.keys().any(|name| name != "path"))
    {
        return None;
    }
    let path = arguments.and_then(|arguments| arguments.get("path")?.as_str());
    Some(NotePath::parse(path.unwrap_or_default()).err().unwrap_or(BadPath::Empty))
}
