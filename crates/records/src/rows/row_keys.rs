//! The key of a row: the values of its primary key, or without a primary key a digest of the row.
//!
//! A key from the content is the first half of a SHA-256 over the row with its fields sorted by
//! name, and the number of equal rows up to this one in the same run. Only the fields that the
//! stream declared at first count, so that another column in the next export changes no key. So a
//! second run of the same file finds every row again, and two equal rows of a bank statement stay
//! two records. The counts take about 44 MB for each million rows during a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stile_domain::hash::{ContentHash, hex};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{MAX_KEY_BYTES, RecordKey};
use stile_domain::records::infer::content_key_fields;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};

use crate::printable::printable;

/// The bytes of the digest that a key has.
const DIGEST_BYTES: usize = 16;

/// The keys of the rows of one run.
#[derive(Clone, Debug)]
pub struct RowKeys {
    primary: Vec<String>,
    /// The fields that a key from the content is made of; `None` if all are.
    counted: Option<Arc<HashSet<String>>>,
    seen: HashMap<[u8; DIGEST_BYTES], u32>,
}

/// Why a row cannot have a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowKeyError {
    /// A field of the key is absent, null or empty.
    #[error("the field `{}`, which the key is made of, is missing or empty", printable(.field))]
    Missing {
        /// The field.
        field: String,
    },
    /// A field of the key holds more than one value.
    #[error("the field `{}`, which the key is made of, holds a list or an object", printable(.field))]
    NotScalar {
        /// The field.
        field: String,
    },
    /// The key has more than [`MAX_KEY_BYTES`].
    #[error("the key has more than {MAX_KEY_BYTES} bytes")]
    TooLong,
}

impl RowKeyError {
    /// Returns the stable code that answers and reports have.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "key_missing",
            Self::NotScalar { .. } => "key_not_scalar",
            Self::TooLong => "key_too_long",
        }
    }
}

impl RowKeys {
    /// Makes keys for a stream with this primary key. If the primary key is empty, keys are made
    /// from the content.
    pub fn new(primary: &[String]) -> Self {
        Self { primary: primary.to_vec(), counted: None, seen: HashMap::new() }
    }

    /// Makes keys for a stream with this declaration.
    pub fn of(declaration: &Declaration) -> Self {
        let counted = Some(Arc::new(content_key_fields(declaration)));
        Self { counted, ..Self::new(declaration.primary_key()) }
    }

    /// Returns whether keys are made from the content.
    pub fn are_from_content(&self) -> bool {
        self.primary.is_empty()
    }

    /// Returns whether the primary key is this one field.
    pub fn is_single_field(&self, field: &str) -> bool {
        matches!(self.primary.as_slice(), [only] if only == field)
    }

    /// Makes the key of the next row.
    ///
    /// # Errors
    /// [`RowKeyError`], if a field of the primary key is unusable.
    pub fn next_key(&mut self, fields: &RecordFields) -> Result<RecordKey, RowKeyError> {
        if self.are_from_content() {
            return self.content(fields);
        }
        self.primary(fields)
    }

    /// Makes the key that the primary key gives these fields. Only for a stream with a primary key:
    /// see [`RowKeys::are_from_content`].
    pub fn primary(&self, fields: &RecordFields) -> Result<RecordKey, RowKeyError> {
        let mut parts = Vec::with_capacity(self.primary.len());
        for field in &self.primary {
            let missing = || RowKeyError::Missing { field: field.clone() };
            let value = fields.iter().find(|(name, _)| name == field).map(|(_, value)| value);
            let value = value.filter(|value| **value != FieldValue::Null).ok_or_else(missing)?;
            let text = value
                .scalar_text()
                .ok_or_else(|| RowKeyError::NotScalar { field: field.clone() })?;
            parts.push(Some(text).filter(|text| !text.is_empty()).ok_or_else(missing)?);
        }
        let key = match parts.as_slice() {
            [only] => (*only).to_owned(),
            parts => serde_json::Value::from(parts).to_string(),
        };
        RecordKey::parse(&key).map_err(|_| RowKeyError::TooLong)
    }

    fn content(&mut self, fields: &RecordFields) -> Result<RecordKey, RowKeyError> {
        let is_counted =
            |name: &String| self.counted.as_ref().is_none_or(|counted| counted.contains(name));
        let counted = fields.iter().filter(|(name, _)| is_counted(name)).count();
        // The key of a row that has none of these fields is made of all that it has.
        let counts_all = counted == 0 || counted == fields.len();
        let sorted = fields.is_sorted_by(|(a, _), (b, _)| a <= b);
        let json = if sorted && counts_all {
            row::to_json(fields)
        } else {
            let mut fields = fields.clone();
            fields.retain(|(name, _)| counts_all || is_counted(name));
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            row::to_json(&fields)
        };
        let hash = ContentHash::digest(json.as_bytes());
        let digest = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        let count = self.seen.entry(digest).or_insert(0);
        *count += 1;
        RecordKey::parse(&format!("{}-{count}", hex(&digest))).map_err(|_| RowKeyError::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> RecordFields {
        row::parse(json.as_bytes()).unwrap().fields
    }

    fn key(primary: &[&str], json: &str) -> Result<String, &'static str> {
        let primary: Vec<String> = primary.iter().map(|&name| name.to_owned()).collect();
        let key = RowKeys::new(&primary).next_key(&fields(json));
        key.map(|key| key.to_string()).map_err(|why| why.code())
    }

    #[test]
    fn a_key_is_the_value_or_the_list_of_values_as_text() {
        assert_eq!(key(&["id"], r#"{"id":"a b"}"#).unwrap(), "a b");
        assert_eq!(key(&["id"], r#"{"id":1.50}"#).unwrap(), "1.50");
        assert_eq!(key(&["id"], r#"{"id":true}"#).unwrap(), "true");
        assert_eq!(key(&["b", "a"], r#"{"a":1,"b":"x\"y"}"#).unwrap(), r#"["x\"y","1"]"#);
        for (json, code) in [
            ("{}", "key_missing"),
            (r#"{"id":null}"#, "key_missing"),
            (r#"{"id":""}"#, "key_missing"),
            (r#"{"id":[1]}"#, "key_not_scalar"),
            (&format!(r#"{{"id":"{}"}}"#, "ä".repeat(257)), "key_too_long"),
        ] {
            assert_eq!(key(&["id"], json), Err(code), "{json}");
        }
    }

    #[test]
    fn equal_rows_get_distinct_keys_that_a_second_run_repeats() {
        let run = || {
            let mut keys = RowKeys::new(&[]);
            [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"a":1,"b":3}"#, "{}"]
                .map(|json| keys.next_key(&fields(json)).unwrap().to_string())
        };
        let first = run();
        assert_eq!(first, run());
        let (one, another) = (first[0].split_once('-').unwrap(), first[1].split_once('-').unwrap());
        assert_eq!((one.0, one.1, another.1), (another.0, "1", "2"));
        assert!(first[2].ends_with("-1") && first[2] != first[0] && first[0].len() == 34);
    }

    #[test]
    fn a_field_that_the_stream_did_not_declare_at_first_changes_no_key() {
        let declaration = Declaration::parse(&serde_json::json!({ "schema": {
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        } }))
        .unwrap();
        let key = |json| RowKeys::of(&declaration).next_key(&fields(json)).unwrap();
        let own = RowKeys::new(&[]).next_key(&fields(r#"{"a":1,"b":2}"#)).unwrap();
        for json in [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"a":1,"b":2,"c":3}"#] {
            assert_eq!(key(json), own, "{json}");
        }
        assert_ne!(key(r#"{"a":1,"b":3,"c":3}"#), own);
        assert_ne!(key(r#"{"c":3}"#), key(r#"{"c":4}"#));
    }
}
