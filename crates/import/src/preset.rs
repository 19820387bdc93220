//! The declaration that an importer brings with it: the fields of a format that never vary.
//!
//! Nothing is inferred from the rows of such a format, so a stream is declared in the same way
//! whatever the first file holds.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::{BadDeclaration, Declaration, RangeOperator};

/// A declaration that an importer brings with it.
#[derive(Debug)]
pub struct PresetDeclaration {
    /// The stream that rows are imported into unless the caller names one.
    pub default_stream: &'static str,
    /// The field that is the key.
    pub key: &'static str,
    /// The field that orders the records, and the one that a grant's `--since` looks at.
    pub time: &'static str,
    /// Every field that a row can have, with its type.
    pub fields: &'static [(&'static str, PresetField)],
    /// Whether a stranger can make a row with the key of another row, as the sender of a message
    /// can. A stored record is then only replaced by a row that differs in [`Self::owner_fields`]
    /// alone.
    pub keys_can_be_forged: bool,
    /// The fields that the owner sets, not the sender. Empty unless
    /// [`Self::keys_can_be_forged`].
    pub owner_fields: &'static [&'static str],
    /// The fields that depend on other rows, as the conversation of a message does. A stored record
    /// keeps them when its row comes again, and an import sets them when all is stored.
    pub derived_fields: &'static [&'static str],
    /// The reasons for the declaration, one a line, for the person who imports.
    pub because: &'static [&'static str],
}

/// The type of a field, and what it can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetField {
    /// A text that can be searched and compared.
    SearchedText,
    /// A name or an identifier, which can be compared and not searched.
    Name,
    /// A date and time of RFC 3339, which can be compared by range.
    Time,
    /// A date without a time, which can be compared by range.
    Date,
    /// An amount, which can be compared by range and added up.
    Amount,
    /// A boolean, which can be compared.
    Flag,
    /// A JSON object, for example a reference to a record.
    Object,
    /// A JSON array, for example of attachments.
    List,
    /// A JSON array of texts, whose members can be searched, compared and counted.
    Names,
}

impl PresetDeclaration {
    /// Returns the declaration and the reasons for it, one a line. Fields in `key` replace the
    /// preset key.
    ///
    /// # Errors
    /// [`BadDeclaration`] if `key` names a field that is not declared or cannot be part of a key.
    pub fn declaration(
        &self,
        key: &[String],
    ) -> Result<(Declaration, Vec<String>), BadDeclaration> {
        let names_of = |types: &[PresetField]| -> Vec<&str> {
            self.fields
                .iter()
                .filter(|(_, field)| types.contains(field))
                .map(|(name, _)| *name)
                .collect()
        };
        let properties: Map<String, Json> =
            self.fields.iter().map(|&(name, field)| (name.to_owned(), schema(field))).collect();
        let times = names_of(&[PresetField::Time, PresetField::Date]);
        let amounts = names_of(&[PresetField::Amount]);
        let operators: Vec<&str> =
            RangeOperator::ALL.into_iter().map(RangeOperator::name).collect();
        let ranges: Map<String, Json> =
            times.iter().chain(&amounts).map(|&name| (name.to_owned(), json!(operators))).collect();
        let scalars = names_of(&[
            PresetField::SearchedText,
            PresetField::Name,
            PresetField::Time,
            PresetField::Date,
            PresetField::Flag,
            PresetField::Names,
        ]);
        let searched = names_of(&[PresetField::SearchedText, PresetField::Names]);
        let ordered: Vec<&str> = times.iter().chain(&amounts).copied().collect();
        let own = [self.key.to_owned()];
        let declaration = json!({
            "schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": properties,
            },
            "primary_key": if key.is_empty() { &own } else { key },
            "cursor_field": self.time,
            "consent_time_field": self.time,
            "query": {
                "range_filters": ranges,
                "search": { "lexical_fields": searched },
                "aggregations": {
                    "count": true, "sum": amounts, "min": ordered, "max": ordered,
                    "group_by": scalars, "group_by_time": times, "count_distinct": scalars,
                },
            },
        });
        let because = self.because.iter().map(|&line| line.to_owned()).collect();
        Ok((Declaration::parse(&declaration)?, because))
    }
}

fn schema(field: PresetField) -> Json {
    match field {
        PresetField::SearchedText | PresetField::Name => json!({ "type": "string" }),
        PresetField::Time => json!({ "type": "string", "format": "date-time" }),
        PresetField::Date => json!({ "type": "string", "format": "date" }),
        PresetField::Amount => json!({ "type": "number" }),
        PresetField::Flag => json!({ "type": "boolean" }),
        PresetField::Object => json!({ "type": "object" }),
        PresetField::List => json!({ "type": "array" }),
        PresetField::Names => json!({ "type": "array", "items": { "type": "string" } }),
    }
}

#[cfg(test)]
mod tests {
    use crate::importer::Importer;
    use crate::importers::{IMPORTERS, slack};

    #[test]
    fn each_preset_is_a_valid_declaration_and_another_key_must_be_declared() {
        let presets: Vec<_> = IMPORTERS.iter().copied().filter_map(Importer::preset).collect();
        assert!(!presets.is_empty());
        for preset in presets {
            let (declaration, because) = preset.declaration(&[]).unwrap();
            assert_eq!(declaration.primary_key(), [preset.key]);
            assert_eq!(declaration.consent_time_field(), Some(preset.time));
            assert!(!because.is_empty());
            assert!(preset.declaration(&["nothing".to_owned()]).is_err());
        }
        let slack = slack::IMPORTER.preset().unwrap();
        let (declaration, _) =
            slack.declaration(&["channel_id".to_owned(), "at".to_owned()]).unwrap();
        assert_eq!(declaration.primary_key(), ["channel_id", "at"]);
    }
}
