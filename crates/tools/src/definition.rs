//! A tool as clients see it, and the schemas of its types in a form that clients accept.

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value};

/// The groups of tools from which a client chooses what it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolGroup {
    /// Reading and changing files.
    Files,
    /// Finding names and texts.
    Find,
    /// The structure of notes.
    Notes,
    /// Records.
    Records,
}

/// A tool as clients see it in `tools/list`.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The canonical name of the tool.
    pub name: &'static str,
    /// A short title for people.
    pub title: &'static str,
    /// The group that shows the tool.
    pub group: ToolGroup,
    /// What agents read about the tool.
    pub description: String,
    /// The flat, closed schema of the arguments.
    pub input: Map<String, Value>,
    /// Derives the schema of the structured answer, which admits a refusal. No list shows it, and
    /// deriving the schemas of all tools takes longer than the rest of a start.
    pub output: fn() -> Map<String, Value>,
    /// `readOnlyHint`: true if the tool's permits allow no change.
    pub read_only: bool,
    /// `destructiveHint`: true if the tool may destroy what it changes.
    pub destructive: bool,
    /// `idempotentHint`: true if repeating a call changes nothing more.
    pub idempotent: bool,
}

/// Returns the doc comment of a type, which is the description of a tool.
pub(crate) fn description<T: JsonSchema>() -> String {
    schema::<T>(Contract::Deserialize)
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Returns the schema of a type without its description.
pub(crate) fn input_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = schema::<T>(Contract::Deserialize);
    schema.remove("description");
    schema
}

/// Returns the schema of an answer, which does not require what may be left out, without its
/// description and without the bounds of its values,
/// which help nobody who reads an answer.
pub(crate) fn output_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = Value::Object(input_schema::<T>());
    require_in_both(&mut schema, &Value::Object(self::schema::<T>(Contract::Serialize)));
    unbound(&mut schema);
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Requires only the members that `other`, a schema of the same type, requires too.
fn require_in_both(schema: &mut Value, other: &Value) {
    match (schema, other) {
        (Value::Object(one), Value::Object(other)) => {
            if let Some(Value::Array(required)) = one.get_mut("required") {
                let others = other.get("required").and_then(Value::as_array);
                required.retain(|name| others.is_some_and(|others| others.contains(name)));
            }
            for (keyword, value) in one {
                if let Some(other) = other.get(keyword) {
                    require_in_both(value, other);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            one.iter_mut().zip(other).for_each(|(one, other)| require_in_both(one, other));
        }
        _ => {}
    }
}

/// Removes the bounds of texts, numbers and lists.
fn unbound(value: &mut Value) {
    const BOUNDS: [&str; 7] =
        ["minLength", "maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems"];
    match value {
        Value::Object(object) => {
            object
                .retain(|keyword, bound| !BOUNDS.contains(&keyword.as_str()) || bound.is_object());
            object.values_mut().for_each(unbound);
        }
        Value::Array(items) => items.iter_mut().for_each(unbound),
        _ => {}
    }
}

/// Returns the schema of a type as it is read or as it is written.
fn schema<T: JsonSchema>(contract: Contract) -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
            settings.contract = contract;
        })
        .into_generator();
    let mut schema = Value::from(generator.into_root_schema_for::<T>());
    simplify(&mut schema);
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Removes what some clients refuse a whole tool list for: `$schema`, titles, any `format` but
/// `uri` and nullable unions.
fn simplify(value: &mut Value) {
    if let Value::Object(object) = value {
        if !object.get("format").is_some_and(|format| format == "uri") {
            object.remove("format");
        }
        object.remove("title");
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::String(description)) = object.get_mut("description") {
            // The doc comment is wrapped for readers of the source.
            *description = description.replace('\n', " ");
        }
        object.remove("$schema");
        // A schema that admits everything is left out: some clients refuse boolean schemas.
        if object.get("items") == Some(&Value::Bool(true)) {
            object.remove("items");
        }
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            properties.retain(|_, schema| *schema != true);
            if properties.is_empty() {
                object.remove("properties");
            }
        }
        if object.get("additionalProperties") == Some(&Value::Bool(true)) {
            object.remove("additionalProperties");
        }
        if let Some(Value::Array(words)) = object.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        for (keyword, value) in object {
            match value {
                // These names are a tool's own and not keywords of the schema language.
                Value::Object(properties) if keyword == "properties" => {
                    properties.values_mut().for_each(simplify);
                }
                _ => simplify(value),
            }
        }
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(simplify);
    }
}
