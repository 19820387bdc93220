//! The value of a record's field.

/// The value of one field. Parsing loses nothing: a number keeps its original spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// The value `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A JSON number in its original spelling.
    Number(Box<str>),
    /// A string, decoded.
    Text(String),
    /// An array or object as compact JSON: no white space outside strings, members in their
    /// original order.
    Json(String),
}

/// The fields of a record in their original order. No name occurs twice.
pub type RecordFields = Vec<(String, FieldValue)>;

impl FieldValue {
    /// Formats the value as JSON.
    pub fn to_json(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(digits) => digits.to_string(),
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Self::Json(json) => json.clone(),
        }
    }

    /// Returns the text that an exact filter compares: a string itself, the JSON of any other
    /// scalar, and `None` for arrays and objects.
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
