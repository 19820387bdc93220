//! From a caller's JSON to a tool's input type, and a helpful word when it does not fit.
//!
//! The types do the checking. When they refuse, the tool's own schema explains: which argument, and
//! what it must be. Values are never repeated, since an argument may hold content that belongs
//! nowhere but in the file.

use serde_json::{Map, Value};
use stile_domain::error::Refusal;
use stile_domain::path::SpacePath;

use crate::tool::Tool;

/// Parses the arguments of one call.
///
/// # Errors
/// [`Refusal::InvalidPath`] or [`Refusal::InvalidArgument`].
pub fn parse<T: Tool>(arguments: &Value) -> Result<T, Refusal> {
    let none = Value::Object(Map::new());
    let arguments = if arguments.is_null() { &none } else { arguments };
    // A struct can also be read from an array of its fields, which no schema of ours allows.
    let input = if arguments.is_object() { T::deserialize(arguments).ok() } else { None };
    input.ok_or_else(|| (T::ENVELOPE.explain)(&crate::tool::input_schema::<T>(), arguments))
}

/// What is wrong with arguments that did not parse, in the words that all tools have but those with
/// their own.
pub(crate) fn explain(schema: &Map<String, Value>, arguments: &Value) -> Refusal {
    let Value::Object(arguments) = arguments else {
        return Refusal::invalid_argument("`arguments` must be an object");
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required =
        schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        if !arguments.contains_key(name) {
            return Refusal::invalid_argument(format!("`{name}` is missing"));
        }
    }
    if arguments.keys().any(|name| !properties.contains_key(name)) {
        let names: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        return Refusal::invalid_argument(format!(
            "there is an unknown argument; the arguments are {}",
            names.join(", ")
        ));
    }
    for (name, property) in properties {
        let Some(value) = arguments.get(name) else { continue };
        if name == "path"
            && let Some(text) = value.as_str()
            && let Err(why) = SpacePath::parse(text)
        {
            return Refusal::InvalidPath { argument: "path", why };
        }
        if let Some(expected) = mismatch(property, value) {
            return Refusal::invalid_argument(format!("`{name}` must be {expected}"));
        }
    }
    Refusal::invalid_argument("the arguments do not fit the tool's input schema")
}

/// What a value must be, if it is not.
fn mismatch(property: &Value, value: &Value) -> Option<String> {
    if let Some(allowed) = property.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            allowed.iter().map(|word| format!("`{}`", word.as_str().unwrap_or_default())).collect();
        return (!allowed.contains(value)).then(|| format!("one of {}", words.join(", ")));
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string") => {
            let Some(text) = value.as_str() else { return Some("a string".to_owned()) };
            if property.get("pattern").is_some() {
                let hash = stile_domain::hash::ContentHash::parse(text);
                return hash.is_err().then(|| {
                    "the 64 lower-case hexadecimal digits of a hash, as `text.read` returned it"
                        .to_owned()
                });
            }
            let most = property.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
            let least = property.get("minLength").and_then(Value::as_u64).unwrap_or(0);
            let length = text.chars().count() as u64;
            if length < least {
                return Some("a string that is not empty".to_owned());
            }
            (length > most).then(|| format!("a string of at most {most} characters"))
        }
        Some("integer") => (!value.is_i64()).then(|| "an integer".to_owned()),
        Some("array") => {
            let pair = value
                .as_array()
                .is_some_and(|items| items.len() == 2 && items.iter().all(Value::is_i64));
            (!pair).then(|| "an array of two integers, `[start, end]`".to_owned())
        }
        Some("boolean") => (!value.is_boolean()).then(|| "true or false".to_owned()),
        _ => None,
    }
}
