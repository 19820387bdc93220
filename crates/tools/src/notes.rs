//! What the four note tools share: how they read, and how their refusals are told.
//!
//! Their contract comes from elsewhere, and so does their envelope: a flat object of two strings. Only a scope
//! that does not suffice is told as everywhere, since that is decided before a tool is asked.

use serde_json::{Map, Value, json};
use stile_domain::error::Refusal;
use stile_domain::notes::path::NotePath;
use stile_domain::notes::{MAX_NOTE_BYTES, Note, TooLarge};
use stile_domain::path::BadPath;
use stile_domain::permit::{Permit, Read};
use stile_store::space::Space;

use crate::tool::{Answer, Envelope, Tool, common_errors};

/// The envelope of the note tools.
pub(crate) const ENVELOPE: Envelope = Envelope { explain, refused, schemas };

/// A tool that tells what is in one note, wherever the note comes from.
pub(crate) trait NoteTool: Tool {
    /// Which note.
    fn into_path(self) -> NotePath;

    /// What is told of it.
    fn derive(path: &NotePath, note: Note<'_>) -> Result<Self::Output, TooLarge>;
}

/// Reads one note of the space once, and answers what the tool tells of it.
pub(crate) async fn read<T: NoteTool>(tool: T, permit: Permit<Read>, space: &Space) -> Result<T::Output, Refusal> {
    let path = tool.into_path();
    let file = path.space_path().clone();
    let derived = space.derive(permit, MAX_NOTE_BYTES, move |text| T::derive(&path, Note::of_file(text))).await?;
    derived.map_err(|TooLarge| Refusal::TooLarge {
        path: file,
        limit_bytes: MAX_NOTE_BYTES,
        advice: "Call `text.read`, which reads a part of it.",
    })
}

fn explain(_: &Map<String, Value>, arguments: &Value) -> Refusal {
    let Value::Object(arguments) = arguments else {
        return Refusal::invalid_argument("`arguments` must be an object");
    };
    if arguments.keys().any(|name| name != "path") {
        return Refusal::invalid_argument("`path` is the only argument");
    }
    let text = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
    Refusal::InvalidPath { argument: "path", why: NotePath::parse(text).err().unwrap_or(BadPath::Empty) }
}

fn refused(refusal: Refusal) -> Answer {
    if matches!(refusal, Refusal::InsufficientScope { .. }) {
        return Answer::refused(refusal);
    }
    let structured = json!({ "error": message(&refusal), "code": "RUNTIME_ERROR" });
    Answer { text: structured.to_string(), structured, refusal: Some(refusal) }
}

/// What a reader is told, which is no more than `text.read` would tell.
fn message(refusal: &Refusal) -> String {
    match refusal {
        Refusal::InvalidPath { .. } => "Invalid path".to_owned(),
        Refusal::InvalidArgument { .. } => "Invalid arguments".to_owned(),
        Refusal::TooLarge { .. } => "Note too large".to_owned(),
        Refusal::Busy { .. } => "Note is being changed; call again".to_owned(),
        Refusal::Internal { incident } => format!("Internal error; give the user incident number {incident}"),
        _ => match refusal.path() {
            Some(path) => format!("Note not found: {}", path.as_str().trim_start_matches('/')),
            None => "Note not found".to_owned(),
        },
    }
}

fn schemas() -> Vec<Value> {
    let flat = json!({
        "type": "object",
        "properties": { "error": { "type": "string" }, "code": { "type": "string", "const": "RUNTIME_ERROR" } },
        "required": ["error", "code"],
        "additionalProperties": false
    });
    std::iter::once(flat).chain(common_errors()).collect()
}
