//! The types that a schema gives a field, as far as they decide what can be asked of it.
//!
//! A small reading of JSON Schema: `type`, `format`, and the branches of `anyOf` and `oneOf`, which
//! is how generators write "or null". Whatever else a schema says narrows values and not types, and
//! is left to others; a property that says nothing of its type may hold anything.

use serde_json::Value as Json;

use super::DeclarationFault;

/// A type of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JsonType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// Text.
    String,
    /// A list.
    Array,
    /// Named members.
    Object,
}

impl JsonType {
    /// Every one, in the order in which a set tells them.
    pub const ALL: [Self; 7] = [
        Self::String,
        Self::Number,
        Self::Integer,
        Self::Boolean,
        Self::Array,
        Self::Object,
        Self::Null,
    ];

    /// As a schema spells it.
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

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TypeSet(u8);

impl TypeSet {
    /// Every type.
    pub const ANY: Self = Self(0x7f);

    /// Adds a type.
    pub fn insert(&mut self, kind: JsonType) {
        self.0 |= 1 << kind as u8;
    }

    /// Removes a type.
    pub fn remove(&mut self, kind: JsonType) {
        self.0 &= !(1 << kind as u8);
    }

    /// Whether a type is in it.
    pub fn contains(self, kind: JsonType) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// The types in it, in the order of [`JsonType::ALL`].
    pub fn iter(self) -> impl Iterator<Item = JsonType> {
        JsonType::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }

    /// Whether it has a type, and neither arrays nor objects.
    pub fn is_scalar(self) -> bool {
        self != Self::default()
            && !self.contains(JsonType::Array)
            && !self.contains(JsonType::Object)
    }

    /// Whether nothing but these are in it, and null as it pleases, and at least one of them is.
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

/// What the strings of a field are, beyond text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringFormat {
    /// A day.
    Date,
    /// A point in time.
    DateTime,
}

impl StringFormat {
    /// As a schema spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }
}

/// How deep `anyOf` and `oneOf` are followed; what is deeper may hold anything.
const MAX_BRANCHES_DEEP: usize = 4;

/// The types and the format that a property's schema allows.
pub(super) fn of(schema: &Json) -> Result<(TypeSet, Option<StringFormat>), DeclarationFault> {
    let (types, format) = branch(schema, MAX_BRANCHES_DEEP)?;
    // A format says something of strings only; where other values may stand it does not order them.
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
    // The branches must agree, but for a plain date that a point in time includes.
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
        "a JSON Schema whose `type` is one or several of null, boolean, integer, number, string, array, object",
    ))
}
