//! Parses a caller's JSON into a tool's input type and explains what does not fit.
//!
//! The input types do the checking, so the schema that is advertised is the one that is enforced.
//! When a type refuses, `serde_path_to_error` finds the argument, and its schema explains what the
//! argument must be. An explanation never repeats a value, since an argument may hold content that
//! belongs in a file. It repeats a wrong name only if the name resembles a right one or is a plain
//! identifier of at most 32 ASCII letters, digits and `_`: that is a key and no content.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;
use stile_domain::hash::ContentHash;
use stile_domain::path::{BadPath, FilePath};

use crate::definition::input_schema;

/// The first number from which on a float no longer holds every whole number (2^53).
pub const EXACT_FLOATS_END: f64 = 9_007_199_254_740_992.0;

/// Why arguments do not fit a tool's input schema. Names an argument as `edits`, a member of one as
/// `property.value`, and an item of one as `edits[0].old`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The arguments are not a JSON object.
    #[error("`arguments` must be an object")]
    NotAnObject,
    /// A required argument is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A required member of an argument is missing.
    #[error("`{name}` is missing; the members of `{within}` are {}", quoted(.members))]
    MissingMember {
        /// The member.
        name: String,
        /// The argument that must have the member.
        within: String,
        /// The members that the schema knows.
        members: Vec<String>,
    },
    /// The schema does not know the name of an argument, or of a member of one.
    #[error("{}", unknown_name(.0))]
    Unknown(UnknownName),
    /// An argument is text but not a path of the space.
    #[error("`{name}`: {why}")]
    Path {
        /// The argument.
        name: String,
        /// What is wrong with the path.
        why: BadPath,
    },
    /// An argument has the wrong type or is out of range.
    #[error("`{name}` must be {expected}")]
    Mismatch {
        /// The argument.
        name: String,
        /// What the argument must be, as a noun phrase.
        expected: String,
    },
}

/// A name that a schema does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The argument that has the member; empty for an argument itself.
    pub within: String,
    /// The wrong name; `None` for one that may be content.
    pub wrong: Option<String>,
    /// The name that was probably meant.
    pub meant: Option<String>,
    /// The names that the schema knows.
    pub known: Vec<String>,
}

fn unknown_name(UnknownName { within, wrong, meant, known }: &UnknownName) -> String {
    let known = quoted(known);
    let kind = if within.is_empty() { "argument" } else { "member" };
    let of = if within.is_empty() { String::new() } else { format!(" of `{within}`") };
    let meant = meant.as_ref().map(|right| format!(": call it `{right}`")).unwrap_or_default();
    match wrong {
        Some(wrong) => {
            let wrong = member(within, wrong);
            format!("`{wrong}` is an unknown {kind}{meant}; the {kind}s{of} are {known}")
        }
        None => format!("there is an unknown {kind}{of}; the {kind}s are {known}"),
    }
}

/// The most characters of a wrong name that is repeated although no name resembles it.
const MOST_IDENTIFIER: usize = 32;

/// Whether a name is a plain identifier.
fn is_identifier(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MOST_IDENTIFIER).contains(&name.len()) && name.bytes().all(is_plain)
}

fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Parses the arguments of one call. `null` means no arguments.
pub fn parse<T: DeserializeOwned + JsonSchema>(arguments: &Value) -> Result<T, ArgumentError> {
    let none = Value::Object(Map::new());
    let arguments = if arguments.is_null() { &none } else { arguments };
    // Serde also reads a struct from an array of its fields, which no schema here allows.
    if !arguments.is_object() {
        return Err(ArgumentError::NotAnObject);
    }
    T::deserialize(arguments).map_err(|_| {
        // Again, since following the place of a fault costs time that only a fault is worth.
        let place = match serde_path_to_error::deserialize::<_, T>(arguments) {
            Ok(_) => Vec::new(),
            Err(error) => error.path().iter().cloned().collect(),
        };
        explain(&Value::Object(input_schema::<T>()), arguments, "", &place)
    })
}

/// Explains why `value`, which is called `name`, does not fit `schema`. `place` leads from the
/// value to what its type refused.
fn explain(schema: &Value, value: &Value, name: &str, place: &[Segment]) -> ArgumentError {
    let names_fault = value.as_object().and_then(|object| wrong_name(schema, object, name));
    let deeper = || {
        let (first, rest) = place.split_first()?;
        let (inner, value, place) = match first {
            Segment::Map { key } => {
                (schema.get("properties")?.get(key)?, value.get(key)?, member(name, key))
            }
            Segment::Seq { index } => {
                let items =
                    schema.get("items").filter(|items| items.get("properties").is_some())?;
                (items, value.get(index)?, format!("{name}[{index}]"))
            }
            _ => return None,
        };
        Some(with_members(explain(inner, value, &place, rest), schema, name))
    };
    names_fault.or_else(deeper).unwrap_or_else(|| mismatch(schema, value, name))
}

/// Adds to an error in a member of `object` which members the object has, since a caller who got
/// one wrong may not know the others.
fn with_members(error: ArgumentError, object: &Value, name: &str) -> ArgumentError {
    let Some(members) = object.get("properties").and_then(Value::as_object) else { return error };
    let members = quoted(&members.keys().collect::<Vec<_>>());
    match error {
        ArgumentError::Mismatch { name: member, expected } if !name.is_empty() => {
            let expected = format!("{expected}; the members of `{name}` are {members}");
            ArgumentError::Mismatch { name: member, expected }
        }
        error => error,
    }
}

/// Returns the name of a member of `within`, which is empty for an argument.
fn member(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") }
}

/// Finds a name that is missing in an object or that its schema does not know.
fn wrong_name(schema: &Value, object: &Map<String, Value>, within: &str) -> Option<ArgumentError> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<&str> = required.filter(|name| !object.contains_key(*name)).collect();
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let unknown = |wrong: Option<&String>, meant: Option<&str>| {
        ArgumentError::Unknown(UnknownName {
            within: within.to_owned(),
            wrong: wrong.cloned(),
            meant: meant.map(str::to_owned),
            known: known.iter().map(|name| (*name).to_owned()).collect(),
        })
    };
    let mut strangers = object.keys().filter(|name| is_closed && !properties.contains_key(*name));
    let absent: Vec<&str> =
        known.iter().copied().filter(|name| !object.contains_key(*name)).collect();
    let mut only = strangers.clone().filter(|name| is_identifier(name));
    let meant = strangers
        .clone()
        .find_map(|wrong| {
            let right = probably_meant(wrong, &missing).or_else(|| probably_meant(wrong, &absent));
            Some((wrong, right?))
        })
        // One name too many and one too few: the one stands for the other.
        .or_else(|| match (only.next(), only.next(), missing.as_slice()) {
            (Some(wrong), None, [right]) => Some((wrong, *right)),
            _ => None,
        })
        .or_else(|| {
            strangers.clone().find_map(|wrong| Some((wrong, probably_meant(wrong, &known)?)))
        });
    if let Some((wrong, right)) = meant {
        return Some(unknown(Some(wrong), Some(right)));
    }
    let named = strangers.clone().find(|name| is_identifier(name));
    // A caller who took another name for a member sees both names at once.
    if let (Some(wrong), false) = (named, within.is_empty()) {
        return Some(unknown(Some(wrong), None));
    }
    if let Some(missing) = missing.first() {
        let name = member(within, missing);
        return Some(match within {
            "" => ArgumentError::Missing(name),
            _ => ArgumentError::MissingMember {
                name,
                within: within.to_owned(),
                members: known.iter().map(|name| (*name).to_owned()).collect(),
            },
        });
    }
    strangers.next().map(|_| unknown(named, None))
}

/// Words that callers use for a name of ours, because other tools do.
const OTHER_WORDS: [(&str, &str); 14] = [
    ("search", "old"),
    ("find", "old"),
    ("replace", "new"),
    ("replacement", "new"),
    ("query", "q"),
    ("pattern", "q"),
    ("text", "content"),
    ("body", "content"),
    ("file", "path"),
    ("filename", "path"),
    ("destination", "to"),
    ("target", "to"),
    ("sha256", "hash"),
    ("key", "name"),
];

/// Returns which of `names` a wrong name was probably meant to be: the one that is a word of it, as
/// `old` is of `old_string` and `oldText`, or for which it is another word.
fn probably_meant<'n>(wrong: &str, names: &[&'n str]) -> Option<&'n str> {
    let words = words_of(wrong);
    let is_meant = |name: &&&str| {
        let own = words_of(name);
        let is_within = words.windows(own.len().max(1)).any(|part| part == own.as_slice());
        is_within || OTHER_WORDS.iter().any(|(word, meant)| *word == wrong && meant == *name)
    };
    names.iter().find(is_meant).copied()
}

/// Splits a name into its words in lower case, as `replace_all` and `replaceAll` into two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        let is_separator = !character.is_alphanumeric();
        if (is_separator || character.is_uppercase()) && words.last().is_some_and(|w| !w.is_empty())
        {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_separator) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// Says what a value must be that its type refused.
fn mismatch(schema: &Value, value: &Value, name: &str) -> ArgumentError {
    let fits_as_text = value.is_string()
        && schema.get("type").and_then(Value::as_str) == Some("string")
        && wrong_text(schema, value).is_none();
    if let Some(text) = value.as_str().filter(|_| fits_as_text)
        && let Err(why) = FilePath::parse(text)
    {
        return ArgumentError::Path { name: name.to_owned(), why };
    }
    let mut expected = expected(schema, value);
    let is_json = |text: &str| text.trim_start().starts_with(['[', '{']);
    if schema.get("type").is_some_and(|kind| kind == "array" || kind == "object")
        && value.as_str().is_some_and(is_json)
    {
        expected.push_str(", not a string that contains JSON");
    }
    let name = if name.is_empty() { "arguments" } else { name };
    ArgumentError::Mismatch { name: name.to_owned(), expected }
}

/// Describes what `schema` expects, above all where `value` differs.
fn expected(schema: &Value, value: &Value) -> String {
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => wrong_text(schema, value)
            .unwrap_or_else(|| "a string as the tool's input schema describes it".to_owned()),
        Some("integer") => match (limit("minimum"), limit("maximum")) {
            (None, _) => "an integer".to_owned(),
            (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
            (Some(least), None) => format!("a whole number from {least} on"),
        },
        Some("number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => expected_array(schema),
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => {
                format!("an object with {}", quoted(&properties.keys().collect::<Vec<_>>()))
            }
            None => "an object as the tool's input schema describes it".to_owned(),
        },
        _ => match schema.get("anyOf").and_then(Value::as_array) {
            Some(choices) => {
                let choices: Vec<_> = choices.iter().map(|one| expected(one, value)).collect();
                choices.join(" or ")
            }
            None => "a value as the tool's input schema describes it".to_owned(),
        },
    }
}

fn expected_array(schema: &Value) -> String {
    let items = schema.get("items").unwrap_or(&Value::Null);
    let length = (schema.get("minItems"), schema.get("maxItems"));
    let is_pair = length.0.is_some() && length.0 == length.1;
    match items.get("type").and_then(Value::as_str) {
        Some("integer") if is_pair => "an array of two whole numbers, `[start, end]`".to_owned(),
        Some("string") => match items.get("enum").and_then(Value::as_array) {
            Some(words) => {
                let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
                format!("an array of some of {}", quoted(&words))
            }
            None => "an array of strings".to_owned(),
        },
        Some("object") => match items.get("properties").and_then(Value::as_object) {
            Some(properties) => format!(
                "an array of objects with {}",
                quoted(&properties.keys().collect::<Vec<_>>())
            ),
            None => "an array of objects".to_owned(),
        },
        _ => "an array as the tool's input schema describes it".to_owned(),
    }
}

/// Says what a text must be that does not fit the schema of a string. `None` for a text that fits.
fn wrong_text(schema: &Value, value: &Value) -> Option<String> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return (!allowed.contains(value)).then(|| format!("one of {}", quoted(&words)));
    }
    let Some(text) = value.as_str() else { return Some("a string".to_owned()) };
    if schema.get("pattern").is_some() {
        return ContentHash::parse(text).is_err().then(|| {
            "the 64 lower-case hexadecimal digits of a hash, as a read or a change returned it"
                .to_owned()
        });
    }
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    let length = text.chars().count() as u64;
    if length < limit("minLength").unwrap_or(0) {
        return Some("a string that is not empty".to_owned());
    }
    let most = limit("maxLength").unwrap_or(u64::MAX);
    (length > most).then(|| format!("a string of at most {most} characters"))
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
