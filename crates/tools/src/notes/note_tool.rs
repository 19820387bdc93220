//! What a note tool declares, and what its local and its remote form share.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stile_domain::notes::answers::{AnswerExtent, NoteAnswer};
use stile_domain::notes::{Note, NotePath, NoteTooLarge};
use stile_domain::path::BadPath;
use stile_domain::role::Role;
use stile_domain::tool_name::ShownTools;

use crate::answer::Answer;
use crate::arguments::ArgumentError;
use crate::tool::Output;

/// Every known role: each may know the structure of a note.
pub const READERS: &[Role] = &[Role::Viewer, Role::Editor, Role::Evaluator, Role::Admin];

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

impl<A: NoteAnswer> Output for A {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn extent(&self) -> Option<AnswerExtent> {
        Some(NoteAnswer::extent(self))
    }
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
