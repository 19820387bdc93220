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
    /// What its value must be.
    pub condition: PropertyCondition,
}

/// What the value of a property must be. Of a list, one item is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyCondition {
    /// Anything: the note has the property.
    Exists,
    /// The note does not have the property.
    Missing,
    /// This, as the front matter spells it.
    Is(String),
    /// Anything else; a note without the property counts too.
    IsNot(String),
    /// Less than this, or earlier.
    Before(String),
    /// More than this, or later.
    After(String),
}

impl WantedProperty {
    pub(super) fn is_among(&self, properties: &[NoteProperty]) -> bool {
        let named = || properties.iter().filter(|one| *one.name == *self.name.as_str());
        let any = |fits: &dyn Fn(&str) -> bool| {
            named().flat_map(|property| &property.values).any(|value| fits(value))
        };
        match &self.condition {
            PropertyCondition::Exists => named().next().is_some(),
            PropertyCondition::Missing => named().next().is_none(),
            PropertyCondition::Is(wanted) => any(&|value| value == wanted),
            PropertyCondition::IsNot(wanted) => !any(&|value| value == wanted),
            PropertyCondition::Before(bound) => any(&|value| compared(value, bound).is_lt()),
            PropertyCondition::After(bound) => any(&|value| compared(value, bound).is_gt()),
        }
    }
}

/// Compares values as numbers if both are, and else as texts, in which dates and times of one form
/// are in order. A value that begins with the bound, as a time of that day does, is equal to it.
fn compared(value: &str, bound: &str) -> std::cmp::Ordering {
    match (value.parse::<f64>(), bound.parse::<f64>()) {
        (Ok(value), Ok(bound)) => value.total_cmp(&bound),
        _ => value.get(..bound.len()).unwrap_or(value).cmp(bound),
    }
}
