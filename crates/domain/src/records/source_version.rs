//! Which of two versions of a record is the older one, by what its source says.
//!
//! Many exports say of each record when it was changed last. An older export that is imported after
//! a newer one would put back what was changed since.

use super::declaration::Declaration;
use super::field_name;
use super::stored_body::StoredValue;
use super::value::FieldValue;

/// The plain names of fields that have the time of the last change, in order of preference.
const NAMES: &str = "updated updatedat updatedon updatetime lastupdated lastupdate modified \
    modifiedat modifiedon modifiedtime lastmodified lastmodifiedat lastmodifiedtime \
    lastmodifieddate lastedited lasteditedtime lasteditedat editedat edited";

/// The beginning of the names of fields that only a changed record has.
const EDITED: &str = "edited";

/// The field that has the time at which a record was changed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeTimeField {
    /// The name of the field.
    pub name: String,
    /// Whether a record that lacks the field was never changed. Otherwise nothing is known of it.
    is_absent_before: bool,
}

impl ChangeTimeField {
    /// Finds the field among those that hold times; `None` if none of them is named so.
    pub fn of(declaration: &Declaration) -> Option<Self> {
        let times = declaration.fields().iter().filter(|field| field.format.is_some());
        let named =
            times.filter_map(|field| Some((field_name::rank(&field.name, NAMES)?, &field.name)));
        let (_, name) = named.min_by_key(|(rank, _)| *rank)?;
        let is_absent_before = field_name::plain(name).starts_with(EDITED);
        Some(Self { name: name.clone(), is_absent_before })
    }

    /// Returns whether a row is of an older version than the record that is stored, by the values
    /// that both have of the field.
    pub fn is_older(&self, row: Option<&FieldValue>, stored: Option<&FieldValue>) -> bool {
        let time = |value: Option<&FieldValue>| value.and_then(|it| StoredValue::from(it).time());
        match (time(row), time(stored)) {
            (Some(row), Some(stored)) => row < stored,
            (None, Some(_)) => self.is_absent_before && row.is_none(),
            (_, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_of_a_row_is_told_by_the_time_of_its_change() {
        let field = |name: &str, format: &str| {
            let declared = json!({
                "schema": { "type": "object", "properties": {
                    "id": { "type": "string" }, name: { "type": "string", "format": format },
                } },
                "primary_key": ["id"],
            });
            ChangeTimeField::of(&Declaration::parse(&declared).unwrap())
        };
        assert_eq!(field("created", "date-time"), None);
        assert_eq!(field("updated", "uuid"), None, "it holds no times");
        let at = |text: &str| FieldValue::Text(text.to_owned());
        let (old, new) = (at("2026-01-05T10:00:00+01:00"), at("2026-01-05T09:00:01Z"));
        for (name, is_absent_before) in [("Last edited time", false), ("edited_at", true)] {
            let field = field(name, "date-time").unwrap();
            assert!(field.is_older(Some(&old), Some(&new)), "{name}");
            assert!(!field.is_older(Some(&new), Some(&old)) && !field.is_older(Some(&new), None));
            assert!(!field.is_older(Some(&new), Some(&new)) && !field.is_older(None, None));
            assert_eq!(field.is_older(None, Some(&new)), is_absent_before, "{name}");
            assert!(!field.is_older(Some(&at("soon")), Some(&new)), "nothing is known");
        }
    }
}
