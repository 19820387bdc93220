//! What a field holds.

/// The value of one field. Nothing is lost on the way in: a number keeps its digits as they were
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A JSON number, as it was written.
    Number(Box<str>),
    /// A string, decoded.
    Text(String),
    /// An array or object as compact JSON: no white space outside strings, members in the order
    /// given.
    Json(String),
}

/// The fields of a record in the order given. No name occurs twice.
pub type RecordFields = Vec<(String, FieldValue)>;

impl FieldValue {
    /// As JSON.
    pub fn to_json(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(digits) => digits.to_string(),
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Self::Json(json) => json.clone(),
        }
    }

    /// A scalar as the text that an exact filter is compared with: a string is itself, everything
    /// else its JSON. None for arrays and objects.
    pub fn scalar_text(&self) -> Option<&str> {
        match self {
            Self::Null => Some("null"),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Number(digits) => Some(digits),
            Self::Text(text) => Some(text),
            Self::Json(_) => None,
        }
    }
}
