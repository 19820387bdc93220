//! A declaration inferred from the records themselves, for an import without one.
//!
//! An [`Inference`] looks at each row once and keeps a few counts for each field, so its memory
//! does not grow with the file. The owner sees the result with a reason for each decision, and may
//! edit it. Nothing is inferred again later, because what a client may query must not depend on
//! records that the client cannot see.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value as Json;

use super::declaration::{BadDeclaration, Declaration, JsonType, StringFormat, TypeSet};
use super::identifiers;
use super::instant::Instant;
use super::list_members::each_member;
use super::stored_body::StoredValue;
use super::unix_time::{UnixUnit, is_name_of_time};
use super::value::{FieldValue, RecordFields};

mod added;
mod decide;
#[cfg(test)]
mod tests;

pub use self::added::{AddedFields, add_fields, content_key_fields};

/// The most fields that are examined. The declaration leaves out fields that appear after them.
pub const MAX_FIELDS: usize = 4096;
/// The bytes of those fields' names together, in their JSON spelling. A declaration repeats a name
/// up to eight times, so this limit keeps it under its own.
const MAX_NAME_BYTES: usize = 64 * 1024;
/// The rows in which candidates for the key are compared. The import by key detects a value that
/// repeats only after them.
pub const MAX_KEY_ROWS: u64 = 100_000;
/// A field is one of numbers or times if no more than one value in so many is something else.
const SHARE_OF_OTHERS: u64 = 10;
/// How many strings that are no times are passed by at the beginning of a field.
const FEW_OTHERS: u64 = 2;
/// The fields examined as a key at the same time. The hashes of each take about two megabytes.
const MAX_CANDIDATES: usize = 8;

/// How the key is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// The owner names the fields. An empty list means keys made from the content.
    Given(Vec<String>),
    /// The form of the file has a field that tells its rows apart, and the reason in one line.
    OfForm(String, &'static str),
    /// The field that looks like a key is chosen.
    Infer,
}

/// An inferred declaration and the reasons for it.
#[derive(Clone, Debug, PartialEq)]
pub struct InferredDeclaration {
    /// The declaration that fits the rows.
    pub declaration: Declaration,
    /// One line for each decision, for a person to read.
    pub reasons: Vec<String>,
}

/// What is known of the rows so far.
#[derive(Debug, Default)]
pub struct Inference {
    rows: u64,
    seen: Vec<FieldStatistics>,
    by_name: HashMap<String, usize>,
    name_bytes: usize,
    left_out: bool,
    /// The fields that a reader of the file found to be of numbers, and those of times.
    expected: (HashSet<String>, HashSet<String>),
    /// The field with the object around a row. Identifiers may count anew within each.
    parent: Option<&'static str>,
}

#[derive(Debug)]
struct FieldStatistics {
    name: String,
    /// The number of rows with the field, whatever its value.
    rows: u64,
    /// Whether the field is of numbers, or of times, whatever some values are.
    is_expected: (bool, bool),
    types: TypeSet,
    /// The types of the members of lists, an object among them for any that is no scalar.
    members: TypeSet,
    numbers: u64,
    strings: u64,
    /// How many values are times since 1970, in each unit.
    unix_times: [u64; UnixUnit::ALL.len()],
    /// The unit, once it is decided that the field holds such times.
    unit: Option<UnixUnit>,
    /// How many of the strings are days; `times` counts those that are points in time but not days.
    days: u64,
    times: u64,
    /// The hashes of the values while the field may be a key; absent once it cannot be one.
    key: Option<HashSet<u64>>,
}

impl Inference {
    /// Returns an inference that has examined no rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Examines the fields of one row.
    pub fn observe(&mut self, fields: &RecordFields) {
        self.rows += 1;
        let parent = self.parent.and_then(|parent| {
            let value = fields.iter().find(|(name, _)| name == parent);
            value.and_then(|(_, value)| value.scalar_text().map(|text| text.to_string()))
        });
        for (name, value) in fields {
            let Some(seen) = self.index_of(name).and_then(|index| self.seen.get_mut(index)) else {
                self.left_out = true;
                continue;
            };
            seen.observe(value, self.rows, parent.as_deref());
        }
    }

    /// Names the field with the object around a row. A field may be the key if its values differ
    /// within each.
    pub fn count_within(&mut self, parent: &'static str) {
        self.parent = Some(parent);
    }

    /// Forgets which fields may be the key.
    pub fn forget_keys(&mut self) {
        self.seen.iter_mut().for_each(|seen| seen.key = None);
    }

    /// Returns the number of rows examined.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Says which fields the reader of the file found to be of numbers, and which of times. A few
    /// more values of another kind are then values that do not fit.
    pub fn expect(
        &mut self,
        numbers: impl IntoIterator<Item = String>,
        times: impl IntoIterator<Item = String>,
    ) {
        self.expected.0.extend(numbers);
        self.expected.1.extend(times);
        for seen in &mut self.seen {
            seen.is_expected =
                (self.expected.0.contains(&seen.name), self.expected.1.contains(&seen.name));
        }
    }

    /// Infers the declaration.
    ///
    /// # Errors
    /// [`BadDeclaration`] if the owner's key does not fit: it names a field twice, or a field that
    /// holds arrays or objects.
    pub fn finish(self, key: KeyChoice) -> Result<InferredDeclaration, BadDeclaration> {
        decide::decide(&self, key)
    }

    /// Infers the declaration of rows whose times since 1970 will be stored as RFC 3339 has them,
    /// as [`UnixTimes`](super::unix_time::UnixTimes) does.
    ///
    /// # Errors
    /// As [`Inference::finish`].
    pub fn finish_with_unix_times(
        mut self,
        key: KeyChoice,
    ) -> Result<InferredDeclaration, BadDeclaration> {
        self.seen.iter_mut().for_each(FieldStatistics::decide_unit);
        decide::decide(&self, key)
    }

    /// Returns the index of a field. Adds a new field unless there are too many.
    fn index_of(&mut self, name: &str) -> Option<usize> {
        if let Some(&index) = self.by_name.get(name) {
            return Some(index);
        }
        let bytes = Json::from(name).to_string().len();
        if self.seen.len() >= MAX_FIELDS
            || self.name_bytes + bytes > MAX_NAME_BYTES
            || !identifiers::is_field_name(name)
        {
            return None;
        }
        self.name_bytes += bytes;
        let index = self.seen.len();
        self.by_name.insert(name.to_owned(), index);
        // A field that an earlier row lacks cannot be a key.
        let candidates = self.seen.iter().filter(|seen| seen.key.is_some()).count();
        let may_be_key =
            self.rows == 1 && candidates < MAX_CANDIDATES && decide::key_rank(name).is_some();
        self.seen.push(FieldStatistics {
            name: name.to_owned(),
            rows: 0,
            is_expected: (self.expected.0.contains(name), self.expected.1.contains(name)),
            types: TypeSet::default(),
            members: TypeSet::default(),
            numbers: 0,
            strings: 0,
            unix_times: Default::default(),
            unit: None,
            days: 0,
            times: 0,
            key: may_be_key.then(HashSet::new),
        });
        Some(index)
    }
}

impl FieldStatistics {
    fn observe(&mut self, value: &FieldValue, row: u64, parent: Option<&str>) {
        self.rows += 1;
        self.types.insert(kind(value));
        if let FieldValue::Number(digits) = value {
            self.numbers += 1;
            self.count_unix_time(digits);
        }
        if let FieldValue::Json(json) = value {
            each_member(json, &mut |member| self.members.insert(member_kind(member)));
        }
        if let FieldValue::Text(text) = value {
            self.strings += 1;
            self.count_unix_time(text);
            // Some strings that are no times decide for the field, so most fields of text are
            // parsed a few times only.
            let others = self.strings - 1 - self.days - self.times;
            let may_be_times =
                self.is_expected.1 || others <= FEW_OTHERS + self.strings / SHARE_OF_OTHERS;
            if may_be_times && Instant::parse(text).is_some() {
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
            // The field was missing in an earlier row.
            Some(_) if self.rows != row => false,
            Some(_) if row > MAX_KEY_ROWS => true,
            Some(text) => hashes.insert(hash(text, parent)),
            None => false,
        };
        if !unique {
            self.key = None;
        }
    }

    fn count_unix_time(&mut self, digits: &str) {
        let unit = UnixUnit::of(digits).map_or(UnixUnit::ALL.len(), |unit| unit as usize);
        if let Some(count) = self.unix_times.get_mut(unit) {
            *count += 1;
        }
    }

    /// Decides whether the field holds times since 1970, and in which unit.
    fn decide_unit(&mut self) {
        let values = self.numbers + self.strings;
        let is_plain =
            self.types.are_only(&[JsonType::Integer, JsonType::Number, JsonType::String]);
        let mut units = UnixUnit::ALL.into_iter().zip(self.unix_times);
        self.unit = units
            .find(|(_, count)| *count > 0 && nearly_all(*count, values))
            .map(|(unit, _)| unit)
            .filter(|_| is_plain && is_name_of_time(&self.name));
        if self.unit.is_some() {
            self.types.remove(JsonType::Integer);
            self.types.remove(JsonType::Number);
            self.types.insert(JsonType::String);
            self.strings = values;
            self.times = self.unix_times.into_iter().max().unwrap_or_default();
            (self.numbers, self.days) = (0, 0);
        }
    }

    /// Returns the types of the members, if all values are lists of texts, numbers or booleans.
    fn list_members(&self) -> Option<TypeSet> {
        let is_list = self.types.are_only(&[JsonType::Array]) && self.members.is_scalar();
        is_list.then_some(self.members)
    }

    /// Whether requests may compare and count the values, or the members of lists.
    fn is_comparable(&self) -> bool {
        self.types.is_scalar() || self.list_members().is_some()
    }

    /// Returns the format of nearly all strings, if the field holds only strings and null.
    fn format(&self) -> Option<StringFormat> {
        let is_text = self.types.are_only(&[JsonType::String]);
        let times = self.days + self.times;
        let is_expected = self.is_expected.1 && times > 0;
        if !is_text || !(is_expected || nearly_all(times, self.strings)) {
            return None;
        }
        Some(if self.times == 0 { StringFormat::Date } else { StringFormat::DateTime })
    }

    /// Returns how many values do not have the type and the format that the field is declared with.
    fn others(&self) -> u64 {
        match self.format() {
            Some(_) => self.strings - self.days - self.times,
            None if self.types().contains(JsonType::String) => 0,
            None => self.strings,
        }
    }

    /// Returns the types as a schema names them: a number includes the integers, and a few strings
    /// among numbers are values that do not fit.
    fn types(&self) -> TypeSet {
        let mut types = self.types;
        let kinds = [JsonType::Integer, JsonType::Number, JsonType::String];
        let values = self.numbers + self.strings;
        // A key has to fit.
        let may_differ = self.key.is_none() && self.numbers > 0;
        let is_of_numbers = self.is_expected.0 || nearly_all(self.numbers, values);
        if types.are_only(&kinds) && may_differ && is_of_numbers {
            types.remove(JsonType::String);
        }
        if types.contains(JsonType::Number) {
            types.remove(JsonType::Integer);
        }
        types
    }
}

/// Returns whether so many of all values have a form that the others are values that do not fit:
/// all, or nine of ten.
fn nearly_all(count: u64, all: u64) -> bool {
    count == all || all - count <= all / SHARE_OF_OTHERS
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

/// Returns the type of a member of a list; `None` stands for a list or an object.
fn member_kind(member: Option<StoredValue<'_>>) -> JsonType {
    match member {
        Some(StoredValue::Null) => JsonType::Null,
        Some(StoredValue::Bool(_)) => JsonType::Boolean,
        Some(StoredValue::Number(_)) => JsonType::Number,
        Some(StoredValue::Text(_)) => JsonType::String,
        _ => JsonType::Object,
    }
}

/// Hashes a text, equally in every run, so that a decision can be repeated.
fn hash(text: &str, parent: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    if let Some(parent) = parent {
        parent.hash(&mut hasher);
    }
    hasher.finish()
}
