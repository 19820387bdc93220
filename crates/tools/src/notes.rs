//! What the four note tools share: how they ask and read, and how their refusals are told.
//!
//! Their contract comes from elsewhere, and so does their envelope: a flat object of two strings.
//! Only a scope that does not suffice is told as everywhere, since that is decided before a tool is
//! asked.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::notes::NotePath;
use stile_domain::notes::{MAX_NOTE_BYTES, Note, NoteTooLarge};
use stile_domain::path::{BadPath, SpacePath};
use stile_domain::permit::{Gate, Permit, Read};
use stile_store::space::Space;

use crate::tool::{Answer, Envelope, Output, Tool, common_errors};

/// A tool that tells what is in one note, wherever the note comes from.
///
/// The doc comment of the type is the description that agents read.
pub trait NoteTool: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The name.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;
    /// Which call goes on from here, where the note can be read too.
    const NEXT: &'static str = "";
    /// What it answers.
    type Answer: Output + 'static;

    /// Which note.
    fn path(&self) -> &NotePath;

    /// What is told of it.
    ///
    /// # Errors
    /// [`NoteTooLarge`].
    fn derive(path: &NotePath, note: Note<'_>) -> Result<Self::Answer, NoteTooLarge>;
}

/// Over a space, such a tool is a tool like any other: it reads one note, once.
impl<T: NoteTool> Tool for T {
    const NAME: &'static str = <T as NoteTool>::NAME;
    const TITLE: &'static str = <T as NoteTool>::TITLE;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    const NEXT: &'static str = <T as NoteTool>::NEXT;
    const ENVELOPE: Envelope = Envelope { explain, refused, schemas };
    const NAMES_FILE: bool = false;
    type Permits = Permit<Read>;
    type Output = T::Answer;

    fn ask(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(self.path().space_path())
    }

    async fn run(self, permit: Permit<Read>, space: &Space) -> Result<T::Answer, Refusal> {
        let file = self.path().space_path().clone();
        let derive = move |text: &str| T::derive(self.path(), Note::parse(text));
        space.derive(permit, MAX_NOTE_BYTES, derive).await?.map_err(|NoteTooLarge| {
            Refusal::TooLarge {
                path: file,
                limit_bytes: MAX_NOTE_BYTES,
                advice: "Call `text.read`, which reads a part of it.",
            }
        })
    }

    fn trace(&self) -> (&SpacePath, Option<ContentHash>) {
        (self.path().space_path(), None)
    }
}

fn explain(_: &Map<String, Value>, arguments: &Value) -> Refusal {
    let Value::Object(arguments) = arguments else {
        return Refusal::invalid_argument("`arguments` must be an object");
    };
    if arguments.keys().any(|name| name != "path") {
        return Refusal::invalid_argument("`path` is the only argument");
    }
    let text = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
    Refusal::InvalidPath {
        argument: "path",
        why: NotePath::parse(text).err().unwrap_or(BadPath::Empty),
    }
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
        Refusal::Internal { incident } => {
            format!("Internal error; give the user incident number {incident}")
        }
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
