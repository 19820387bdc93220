//! Which of two versions of a record is the older one, by what its source says.
//!
//! Many exports say of each record when it was changed last. An older export that is imported after
//! a newer one would put back what was changed since.

use super::declaration::Declaration;
use super::field_name;
use super::stored_body::StoredValue;
use super::value::{FieldValue, RecordFields};

/// The plain names of fields that have the time of the last change, in order of preference: in
/// English, and as programs and people name it in German, French, Spanish, Italian, Portuguese,
/// Dutch, Japanese, Korean and Chinese.
const NAMES: &str = "updated updatedat updatedon updatetime lastupdated lastupdate modified \
    modifiedat modifiedon modifiedtime lastmodified lastmodifiedat lastmodifiedtime \
    lastmodifieddate lastedited lasteditedtime lasteditedat editedat edited editedtimestamp \
    timestampedited \
    letzteänderung letzteänderungum letzteänderungam zuletztgeändert zuletztgeändertam \
    zuletztbearbeitet zuletztbearbeitetam geändert geändertam geändertum bearbeitet bearbeitetam \
    aktualisiert aktualisiertam änderungsdatum dernièremodification datededernièremodification \
    modifiéle modifié datedemodification misàjourle últimaedición últimamodificación \
    horadelaúltimaedición horadeúltimaedición fechadeúltimaedición fechademodificación modificado \
    editado actualizado ultimamodifica oradellultimamodifica modificatoil modificato \
    últimaedição horadaúltimaedição últimaatualização editadoem atualizado atualizadoem \
    modificadoem laatstbewerkt laatstebewerking laatstbewerktom laatstgewijzigd bewerkt gewijzigd \
    最終更新日時 最終更新 更新日時 更新日 최종편집일시 최종편집 수정일 수정일시 上次编辑时间 \
    最后编辑时间 更新时间 修改时间 上次編輯時間 最後編輯時間";

/// The beginning or the end of the names of fields that only a changed record has, or that are null
/// in others.
const EDITED: &str = "edited";
/// The beginning of the names of fields that have the last of many changes.
const LAST: &str = "last";

/// The field that has the time at which a record was changed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeTimeField {
    /// The name of the field.
    pub name: String,
    /// Whether a record that lacks the field was never changed. Otherwise nothing is known of it.
    is_absent_before: bool,
}

/// Whether a field or property has the time of the last change, by its name.
pub fn is_time_of_change(name: &str) -> bool {
    field_name::rank(name, NAMES).is_some()
}

impl ChangeTimeField {
    /// Finds the field among those that hold times; `None` if none of them is named so.
    pub fn of(declaration: &Declaration) -> Option<Self> {
        let times = declaration.fields().iter().filter(|field| field.format.is_some());
        let named =
            times.filter_map(|field| Some((field_name::rank(&field.name, NAMES)?, &field.name)));
        let (_, name) = named.min_by_key(|(rank, _)| *rank)?;
        Some(Self::named(name))
    }

    fn named(name: &str) -> Self {
        let plain = field_name::plain(name);
        let is_absent_before =
            plain.starts_with(EDITED) || (plain.ends_with(EDITED) && !plain.starts_with(LAST));
        Self { name: name.to_owned(), is_absent_before }
    }

    /// Finds the field by which a row and the record that is stored tell which is the older
    /// version, whether the stream declares it or not: an export has no time of change before its
    /// first change. Returns whether the row is the older one; `None` if no field tells.
    pub fn that_tells(row: &RecordFields, stored: &RecordFields) -> Option<(Self, bool)> {
        let mut names: Vec<(usize, &str)> = row
            .iter()
            .chain(stored)
            .filter_map(|(name, _)| Some((field_name::rank(name, NAMES)?, name.as_str())))
            .collect();
        names.sort_unstable();
        names.into_iter().find_map(|(_, name)| {
            let value = |fields: &'_ RecordFields| {
                fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
            };
            let field = Self::named(name);
            let is_older = field.is_older(value(row).as_ref(), value(stored).as_ref())?;
            Some((field, is_older))
        })
    }

    /// Returns whether a row is of an older version than the record that is stored, by the values
    /// that both have of the field. `None` if these do not tell.
    pub fn is_older(&self, row: Option<&FieldValue>, stored: Option<&FieldValue>) -> Option<bool> {
        let time = |value: Option<&FieldValue>| value.and_then(|it| StoredValue::from(it).time());
        let is_absent = |value: Option<&FieldValue>| value.is_none_or(|it| *it == FieldValue::Null);
        match (time(row), time(stored)) {
            (Some(row), Some(stored)) => Some(row < stored),
            (None, Some(_)) => (self.is_absent_before && is_absent(row)).then_some(true),
            (Some(_), None) => (self.is_absent_before && is_absent(stored)).then_some(false),
            (None, None) => None,
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
        for (name, is_absent_before) in
            [("Last edited time", false), ("edited_at", true), ("timestampEdited", true)]
        {
            let field = field(name, "date-time").unwrap();
            let is_older = |row, stored| field.is_older(row, stored);
            assert_eq!(is_older(Some(&old), Some(&new)), Some(true), "{name}");
            assert_eq!(is_older(Some(&new), Some(&old)), Some(false));
            assert_eq!(is_older(Some(&new), Some(&new)), Some(false));
            assert_eq!(is_older(None, None), None);
            let absent = |is_older| is_absent_before.then_some(is_older);
            assert_eq!(is_older(None, Some(&new)), absent(true), "{name}");
            assert_eq!(is_older(Some(&new), None), absent(false), "{name}");
            assert_eq!(is_older(Some(&FieldValue::Null), Some(&new)), absent(true), "{name}");
            assert_eq!(is_older(Some(&at("soon")), Some(&new)), None, "nothing is known");
        }
    }
}
