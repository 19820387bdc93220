//! A note tool over a note that another server has.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use stile_domain::notes::NoteTooLarge;
use stile_domain::permit::{Gate, Permit, Read};

use super::error::RemoteNoteError;
use super::source::{NoteRequest, NoteSource};
use crate::definition::ToolGroup;
use crate::note_session::NoteSession;
use crate::notes::note_tool::NoteTool;
use crate::tool::Tool;

/// The bytes of a body from which on the note is parsed on a blocking thread, so that no other call
/// waits for the parser.
const LONG_BODY_BYTES: usize = 32 * 1024;

/// What one call works on: the server that has the notes, and the session to ask it in.
pub struct RemoteNote {
    pub(super) source: Arc<dyn NoteSource>,
    pub(super) session: NoteSession,
}

/// A note tool over a note that another server has. The definition names no tool that is missing
/// there.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Remote<T>(T);

impl<T: NoteTool> JsonSchema for Remote<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: NoteTool> Tool for Remote<T> {
    const NAME: &'static str = T::NAME;
    const TITLE: &'static str = T::TITLE;
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = RemoteNote;
    type Permits = Option<Permit<Read>>;
    type Output = T::Answer;
    type Error = RemoteNoteError;

    /// Asks as the tool for a note of a space does. The role table has allowed the tool already,
    /// and the session says whether the caller's path scopes or the server that has the notes
    /// decide about the path.
    fn permits(&self, gate: Gate<'_>) -> Result<Option<Permit<Read>>, RemoteNoteError> {
        Ok(gate.permit(self.0.path().space_path()).ok())
    }

    async fn run(
        self,
        permit: Option<Permit<Read>>,
        context: &RemoteNote,
    ) -> Result<T::Answer, RemoteNoteError> {
        let Self(tool) = self;
        let request = NoteRequest::new(tool.path(), &context.session, permit)
            .map_err(RemoteNoteError::Upstream)?;
        let note = context.source.read(request).await.map_err(RemoteNoteError::Upstream)?;
        let body_bytes = note.body_bytes();
        let derive = move || {
            T::derive(tool.path(), note.as_note()).map_err(|NoteTooLarge| RemoteNoteError::TooLarge)
        };
        if body_bytes <= LONG_BODY_BYTES {
            return derive();
        }
        tokio::task::spawn_blocking(derive).await.unwrap_or_else(|_| {
            Err(RemoteNoteError::Internal { incident: stile_store::new_incident() })
        })
    }
}
