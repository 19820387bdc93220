//! Parses a caller's JSON into a tool's input type and explains what does not fit.
//!
//! The input types do the checking, so the schema that is advertised is the one that is enforced.
//! When a type refuses, its schema explains which argument is wrong and what it must be. An
//! explanation never repeats a value, since an argument may hold content that belongs in a file.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use stile_domain::hash::ContentHash;
use stile_domain::path::{BadPath, SpacePath};

use crate::definition::input_schema;

/// The first number from which on a float no longer holds every whole number (2^53).
pub const EXACT_FLOATS_END: f64 = 9_007_199_254_740_992.0;

/// Why arguments do not fit a tool's input schema.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// The arguments are not a JSON object.
    #[error("`arguments` must be an object")]
    NotAnObject,
    /// A required argument is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// An argument has a name that the schema does not know. Holds the known names.
    #[error("there is an unknown argument; the arguments are {}", quoted(.0))]
    Unknown(Vec<String>),
    /// `path` is text but not a path of the space.
    #[error("`path`: {0}")]
    Path(BadPath),
    /// An argument has the wrong type or is out of range.
    #[error("`{name}` must be {expected}")]
    Mismatch {
        /// The argument.
        name: String,
        /// What the argument must be, as a noun phrase.
        expected: String,
    },
    /// The arguments do not fit in a way that the schema does not express.
    #[error("the arguments do not fit the tool's input schema")]
    Other,
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Parses the arguments of one call. `null` means no arguments.
pub fn parse<T: DeserializeOwned + JsonSchema>(arguments: &Value) -> Result<T, ArgumentError> {
    let none = Value::Object(Map::new());
    let arguments = if arguments.is_null() { &none } else { arguments };
    // Serde also reads a struct from an array of its fields, which no schema here allows.
    let input = if arguments.is_object() { T::deserialize(arguments).ok() } else { None };
    input.ok_or_else(|| explain(&input_schema::<T>(), arguments))
}

/// Finds the first thing in `arguments` that does not fit `schema`.
fn explain(schema: &Map<String, Value>, arguments: &Value) -> ArgumentError {
    let Value::Object(arguments) = arguments else { return ArgumentError::NotAnObject };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required =
        schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut required = required.iter().filter_map(Value::as_str);
    if let Some(name) = required.find(|name| !arguments.contains_key(*name)) {
        return ArgumentError::Missing(name.to_owned());
    }
    if arguments.keys().any(|name| !properties.contains_key(name)) {
        return ArgumentError::Unknown(properties.keys().cloned().collect());
    }
    for (name, property) in properties {
        let Some(value) = arguments.get(name) else { continue };
        if name == "path"
            && let Some(text) = value.as_str()
            && let Err(why) = SpacePath::parse(text)
        {
            return ArgumentError::Path(why);
        }
        if let Some(expected) = mismatch(property, value) {
            return ArgumentError::Mismatch { name: name.clone(), expected };
        }
    }
    ArgumentError::Other
}

/// Says what `value` must be, if it does not fit the schema of its property.
fn mismatch(property: &Value, value: &Value) -> Option<String> {
    if let Some(allowed) = property.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            allowed.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return (!allowed.contains(value)).then(|| format!("one of {}", words.join(", ")));
    }
    let limit = |name: &str| property.get(name).and_then(Value::as_u64);
    match property.get("type").and_then(Value::as_str) {
        Some("string") => {
            let Some(text) = value.as_str() else { return Some("a string".to_owned()) };
            if property.get("pattern").is_some() {
                return ContentHash::parse(text).is_err().then(|| {
                    "the 64 lower-case hexadecimal digits of a hash, as `text.read` returned it"
                        .to_owned()
                });
            }
            let length = text.chars().count() as u64;
            if length < limit("minLength").unwrap_or(0) {
                return Some("a string that is not empty".to_owned());
            }
            let most = limit("maxLength").unwrap_or(u64::MAX);
            (length > most).then(|| format!("a string of at most {most} characters"))
        }
        Some("integer") => match limit("minimum") {
            None => (!value.is_i64()).then(|| "an integer".to_owned()),
            Some(least) => not_in_range(value, least, limit("maximum")),
        },
        Some("array") => not_an_array_of(property.pointer("/items/type"), value),
        Some("boolean") => (!value.is_boolean()).then(|| "true or false".to_owned()),
        _ => None,
    }
}

fn not_in_range(value: &Value, least: u64, most: Option<u64>) -> Option<String> {
    let fits = value
        .as_number()
        .and_then(whole_number)
        .is_some_and(|number| number >= least && most.is_none_or(|most| number <= most));
    (!fits).then(|| match most {
        Some(most) => format!("a whole number from {least} to {most}"),
        None => format!("a whole number from {least} on"),
    })
}

fn not_an_array_of(item_type: Option<&Value>, value: &Value) -> Option<String> {
    let items = value.as_array();
    if item_type.and_then(Value::as_str) == Some("string") {
        let fits = items.is_some_and(|items| items.iter().all(Value::is_string));
        return (!fits).then(|| "an array of strings".to_owned());
    }
    let pair = items.is_some_and(|items| items.len() == 2 && items.iter().all(Value::is_i64));
    (!pair).then(|| "an array of two integers, `[start, end]`".to_owned())
}

/// Returns a JSON number as a whole number. `2.0` counts as 2, since some clients have no other
/// numbers; `None` for a fraction, a negative number and a float of 2^53 or more.
pub fn whole_number(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number
            .as_f64()
            .filter(|float| float.fract() == 0.0 && (0.0..EXACT_FLOATS_END).contains(float))?;
        format!("{float:.0}").parse().ok()
    })
}
