//! `note.set_property`: one member of a note's front matter, and nothing else.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::notes::property_edit::{
    MAX_PROPERTY_NAME_BYTES, NewScalar, NewValue, set_property,
};
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::{NewText, Space};

use super::text_replace::TextChanged;
use crate::definition::ToolGroup;
use crate::tool::Tool;

/// Set or remove one property in the front matter of a note. All else stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteSetProperty {
    /// Which note.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// Which one.
    name: String,
    /// A text, number, boolean or list of them; null removes.
    value: Value,
}

impl NoteSetProperty {
    fn new_value(&self) -> Result<Option<NewValue>, Refusal> {
        let wrong = || {
            Refusal::invalid_argument(
                "`value` must be a text, a number, a boolean, a list of them, or null",
            )
        };
        let scalar = |value: &Value| match value {
            Value::String(text) => Ok(NewScalar::Text(text.clone())),
            Value::Number(_) | Value::Bool(_) => Ok(NewScalar::Plain(value.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => Err(wrong()),
        };
        match &self.value {
            Value::Null => Ok(None),
            Value::Array(items) => {
                items.iter().map(scalar).collect::<Result<_, _>>().map(|l| Some(NewValue::List(l)))
            }
            one => scalar(one).map(|one| Some(NewValue::Scalar(one))),
        }
    }
}

impl Tool for NoteSetProperty {
    const NAME: &'static str = "note.set_property";
    const TITLE: &'static str = "Set a property";
    const GROUP: ToolGroup = ToolGroup::Notes;
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = TextChanged;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<TextChanged, Refusal> {
        let value = self.new_value()?;
        let Self { path, hash, name, .. } = self;
        if name.is_empty()
            || name.len() > MAX_PROPERTY_NAME_BYTES
            || name.contains(char::is_control)
            || name == "<<"
        {
            return Err(Refusal::invalid_argument(
                "`name` must be one line of 1 to 256 bytes, and not `<<`",
            ));
        }
        let written = NewText {
            encoding: None,
            is_ascii: name.is_ascii() && self.value.to_string().is_ascii(),
        };
        let plan = move |text: &str| set_property(text, &name, value.as_ref());
        let edited = space.edit(permit, hash, written, ["name", "value"], plan).await?;
        Ok(TextChanged::new(path.into(), hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
    }
}
