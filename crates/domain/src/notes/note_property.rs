//! Properties of notes: the members of their front matter, as text.

/// A member of the front matter, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteProperty {
    /// The key of the member.
    pub name: Box<str>,
    /// The value as the source spells it, or each scalar of a list. Empty for a mapping, for null
    /// and for a value that cannot be read.
    pub values: Box<[Box<str>]>,
}

/// A property to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedProperty {
    /// The key of the member.
    pub name: String,
    /// The value, or an item of a list, as the front matter spells it; `None` for any value.
    pub value: Option<String>,
}

impl WantedProperty {
    pub(super) fn is_among(&self, properties: &[NoteProperty]) -> bool {
        properties.iter().any(|property| {
            let has = |value: &String| property.values.iter().any(|one| **one == *value.as_str());
            *property.name == *self.name.as_str() && self.value.as_ref().is_none_or(has)
        })
    }
}
