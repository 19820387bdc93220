//! A declaration made from the records themselves, for an import that comes without one.
//!
//! An [`Inference`] looks at each row once and remembers a few counts for each field, so that its
//! memory does not grow with the file. What it decides is shown to the owner with a reason for each
//! decision, and is theirs to edit; nothing infers again by itself, reasons what a client may ask
//! must not follow from records it cannot see.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value as Json;

use super::declaration::{BadDeclaration, Declaration, JsonType, StringFormat, TypeSet};
use super::identifiers;
use super::instant::Instant;
use super::value::{FieldValue, RecordFields};

mod decide;
#[cfg(test)]
mod tests;

/// Fields that are looked at; those that appear after them are left out of the declaration.
pub const MAX_FIELDS: usize = 4096;
/// Bytes that the names of those fields have together, as JSON writes them. A name stands in a
/// declaration up to eight times, so this keeps it under its own limit.
const MAX_NAME_BYTES: usize = 64 * 1024;
/// Rows in which a key is looked for. A value that comes again only after so many goes unseen; the
/// upsert by key then tells.
pub const MAX_KEY_ROWS: u64 = 100_000;
/// Fields that are looked at as a key at once. At about two megabytes each for their hashes.
const MAX_CANDIDATES: usize = 8;

/// Which fields the key is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// Those that the owner names. None of them: the key is made from the content.
    Given(Vec<String>),
    /// The field that looks like one.
    Infer,
}

/// What was inferred.
#[derive(Clone, Debug, PartialEq)]
pub struct InferredDeclaration {
    /// The declaration.
    pub declaration: Declaration,
    /// Why it is so: plain lines for a person, one for each decision.
    pub reasons: Vec<String>,
}

/// What is remembered of the rows so far.
#[derive(Debug, Default)]
pub struct Inference {
    rows: u64,
    seen: Vec<Seen>,
    places: HashMap<String, usize>,
    name_bytes: usize,
    left_out: bool,
}

/// What is remembered of one field.
#[derive(Debug)]
struct Seen {
    name: String,
    /// In how many rows it was, whatever it held.
    rows: u64,
    types: TypeSet,
    strings: u64,
    /// How many of the strings are days, and how many are points in time and no days.
    days: u64,
    times: u64,
    /// The hashes of its values while it may be a key; none where it cannot be one.
    key: Option<HashSet<u64>>,
}

impl Inference {
    /// Begins with no rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at one row.
    pub fn observe(&mut self, fields: &RecordFields) {
        self.rows += 1;
        for (name, value) in fields {
            let Some(seen) = self.place(name).and_then(|place| self.seen.get_mut(place)) else {
                self.left_out = true;
                continue;
            };
            seen.observe(value, self.rows);
        }
    }

    /// How many rows were looked at.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Decides.
    ///
    /// # Errors
    /// [`BadDeclaration`] where the owner's key does not fit: a field twice, or one that holds
    /// arrays or objects.
    pub fn finish(self, key: KeyChoice) -> Result<InferredDeclaration, BadDeclaration> {
        decide::decide(&self, key)
    }

    /// Where a field is remembered; a new one begins there, unless there are too many.
    fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(&place) = self.places.get(name) {
            return Some(place);
        }
        let bytes = Json::from(name).to_string().len();
        if self.seen.len() >= MAX_FIELDS
            || self.name_bytes + bytes > MAX_NAME_BYTES
            || !identifiers::is_field_name(name)
        {
            return None;
        }
        self.name_bytes += bytes;
        let place = self.seen.len();
        self.places.insert(name.to_owned(), place);
        // A field that a row before this one lacks is no key.
        let candidates = self.seen.iter().filter(|seen| seen.key.is_some()).count();
        let may_be_key =
            self.rows == 1 && candidates < MAX_CANDIDATES && decide::key_rank(name).is_some();
        self.seen.push(Seen {
            name: name.to_owned(),
            rows: 0,
            types: TypeSet::default(),
            strings: 0,
            days: 0,
            times: 0,
            key: may_be_key.then(HashSet::new),
        });
        Some(place)
    }
}

impl Seen {
    fn observe(&mut self, value: &FieldValue, row: u64) {
        self.rows += 1;
        self.types.insert(kind(value));
        if let FieldValue::Text(text) = value {
            self.strings += 1;
            // Once one string is no time, the field is none; most text is told apart by its first
            // string.
            if self.days + self.times + 1 == self.strings && Instant::parse(text).is_some() {
                match text.len() {
                    10 => self.days += 1,
                    _ => self.times += 1,
                }
            }
        }
        let Some(hashes) = &mut self.key else { return };
        let usable = match value.scalar_text() {
            Some(text) if *value != FieldValue::Null => {
                (1..=identifiers::MAX_KEY_BYTES).contains(&text.len()).then_some(text)
            }
            _ => None,
        };
        let unique = match usable {
            // Without a row of its own here it was missing in one before.
            Some(_) if self.rows != row => false,
            Some(_) if row > MAX_KEY_ROWS => true,
            Some(text) => hashes.insert(hash(text)),
            None => false,
        };
        if !unique {
            self.key = None;
        }
    }

    /// What its strings are; only where it holds nothing else but null.
    fn format(&self) -> Option<StringFormat> {
        if !self.types.are_only(&[JsonType::String]) || self.days + self.times != self.strings {
            return None;
        }
        Some(if self.times == 0 { StringFormat::Date } else { StringFormat::DateTime })
    }

    /// Its types as a schema names them: every integer is a number.
    fn types(&self) -> TypeSet {
        let mut types = self.types;
        if types.contains(JsonType::Number) {
            types.remove(JsonType::Integer);
        }
        types
    }
}

fn kind(value: &FieldValue) -> JsonType {
    match value {
        FieldValue::Null => JsonType::Null,
        FieldValue::Bool(_) => JsonType::Boolean,
        FieldValue::Number(digits) if digits.contains(['.', 'e', 'E']) => JsonType::Number,
        FieldValue::Number(_) => JsonType::Integer,
        FieldValue::Text(_) => JsonType::String,
        FieldValue::Json(json) if json.starts_with('[') => JsonType::Array,
        FieldValue::Json(_) => JsonType::Object,
    }
}

/// The same for the same text in every run, so that a decision can be repeated.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
