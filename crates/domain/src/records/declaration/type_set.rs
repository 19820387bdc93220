//! The types that a JSON Schema gives a field, as a set.
//!
//! This module reads a small part of JSON Schema: `type`, `format`, and the branches of `anyOf` and
//! `oneOf`, which generators use to write "or null". The other keywords narrow values, not types,
//! and are ignored here. A property without a type may hold anything.

use serde_json::Value as Json;

use super::declaration_fault::DeclarationFault;
use crate::records::stored_body::StoredValue;

/// A type of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JsonType {
    /// The value `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// A text.
    String,
    /// A list of values.
    Array,
    /// A set of named members.
    Object,
}

impl JsonType {
    /// Every type, in the order in which [`TypeSet::iter`] returns them.
    pub const ALL: [Self; 7] = [
        Self::String,
        Self::Number,
        Self::Integer,
        Self::Boolean,
        Self::Array,
        Self::Object,
        Self::Null,
    ];

    /// Returns the type's name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// A set of JSON types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TypeSet(u8);

impl TypeSet {
    /// The set of all types.
    pub const ANY: Self = Self(0x7f);

    /// Adds a type to the set.
    pub fn insert(&mut self, kind: JsonType) {
        self.0 |= 1 << kind as u8;
    }

    /// Removes a type from the set.
    pub fn remove(&mut self, kind: JsonType) {
        self.0 &= !(1 << kind as u8);
    }

    /// Whether the set has a type.
    pub fn contains(self, kind: JsonType) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Returns the types of the set, in the order of [`JsonType::ALL`].
    pub fn iter(self) -> impl Iterator<Item = JsonType> {
        JsonType::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }

    /// Whether one of these types allows a value, which is neither a list nor an object. Every set
    /// allows null, and a set with integers allows numbers with a fraction, too.
    pub fn admit(self, value: StoredValue<'_>) -> bool {
        match value {
            StoredValue::Null => true,
            StoredValue::Bool(_) => self.contains(JsonType::Boolean),
            StoredValue::Number(_) => {
                self.contains(JsonType::Number) || self.contains(JsonType::Integer)
            }
            StoredValue::Text(_) | StoredValue::LongText(_) => self.contains(JsonType::String),
            StoredValue::Json(_) | StoredValue::LongJson(_) => false,
        }
    }

    /// Names the types but null within a sentence, each as `name` has it.
    pub(super) fn named(self, name: fn(JsonType) -> &'static str) -> String {
        let kinds = self.iter().filter(|&kind| kind != JsonType::Null);
        let mut names: Vec<&str> = kinds.map(name).collect();
        // A whole number is a number.
        names.dedup();
        if names.is_empty() { "null".to_owned() } else { names.join(" or ") }
    }

    /// Whether the set is not empty and has neither arrays nor objects.
    pub fn is_scalar(self) -> bool {
        self != Self::default()
            && !self.contains(JsonType::Array)
            && !self.contains(JsonType::Object)
    }

    /// Whether the set has at least one of `kinds` and, besides null, no other types.
    pub fn are_only(self, kinds: &[JsonType]) -> bool {
        self.iter().all(|kind| kind == JsonType::Null || kinds.contains(&kind))
            && kinds.iter().any(|&kind| self.contains(kind))
    }
}

impl FromIterator<JsonType> for TypeSet {
    fn from_iter<I: IntoIterator<Item = JsonType>>(kinds: I) -> Self {
        let mut types = Self::default();
        kinds.into_iter().for_each(|kind| types.insert(kind));
        types
    }
}

/// The meaning of a field's strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringFormat {
    /// A day.
    Date,
    /// A point in time.
    DateTime,
}

impl StringFormat {
    /// Returns the format's name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }
}

/// How deeply `anyOf` and `oneOf` are followed. Deeper branches count as any type.
const MAX_BRANCHES_DEEP: usize = 4;

pub(super) fn parse_property(
    schema: &Json,
) -> Result<(TypeSet, Option<StringFormat>), DeclarationFault> {
    let (types, format) = branch(schema, MAX_BRANCHES_DEEP)?;
    // A format concerns strings only. Beside other types it does not make the field a time.
    Ok((types, format.filter(|_| types.are_only(&[JsonType::String]))))
}

fn branch(
    schema: &Json,
    depth: usize,
) -> Result<(TypeSet, Option<StringFormat>), DeclarationFault> {
    let members = match schema {
        Json::Bool(_) => return Ok((TypeSet::ANY, None)),
        Json::Object(members) => members,
        _ => return Err(DeclarationFault::Kind("a JSON Schema")),
    };
    let format = match members.get("format").and_then(Json::as_str) {
        Some("date") => Some(StringFormat::Date),
        Some("date-time") => Some(StringFormat::DateTime),
        _ => None,
    };
    if let Some(kinds) = members.get("type") {
        return Ok((named(kinds)?, format));
    }
    let branches =
        ["anyOf", "oneOf"].into_iter().find_map(|member| members.get(member)?.as_array());
    let Some(branches) = branches.filter(|branches| depth > 0 && !branches.is_empty()) else {
        return Ok((TypeSet::ANY, format));
    };
    let mut all = TypeSet::default();
    let mut formats = Vec::new();
    for schema in branches {
        let (types, format) = branch(schema, depth - 1)?;
        all.0 |= types.0;
        if types.contains(JsonType::String) {
            formats.push(format);
        }
    }
    // The branches must agree, except that a date-time includes a date.
    let common = match formats.as_slice() {
        [] => None,
        [first, rest @ ..] if rest.iter().all(|other| other == first) => *first,
        several if several.iter().all(Option::is_some) => Some(StringFormat::DateTime),
        _ => None,
    };
    Ok((all, format.or(common)))
}

fn named(kinds: &Json) -> Result<TypeSet, DeclarationFault> {
    let one = |kind: &Json| {
        let name = kind.as_str()?;
        JsonType::ALL.into_iter().find(|kind| kind.name() == name)
    };
    let types: Option<TypeSet> = match kinds {
        Json::Array(kinds) => kinds.iter().map(one).collect(),
        kind => one(kind).map(|kind| [kind].into_iter().collect()),
    };
    types.filter(|types| *types != TypeSet::default()).ok_or(DeclarationFault::Kind(
        "a JSON Schema whose `type` is one or several of null, boolean, integer, number, string, \
         array, object",
    ))
}
