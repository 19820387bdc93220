//! Why a row is refused, and the limits of rows.

use crate::records::identifiers;
use crate::unseen::shown_ends;

/// The most arrays and objects inside each other. The row itself is the first.
pub const MAX_DEPTH: usize = 128;
/// The most characters of a number's spelling.
pub const MAX_NUMBER_CHARS: usize = 4096;
/// The most characters of a name in an error.
const MAX_NAME_CHARS: usize = 64;

/// Why a row was refused, and where. Repeats nothing of the row but the name of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at byte {at} of the row)")]
pub struct RowError {
    /// The 0-based offset in the row, in bytes.
    pub at: usize,
    /// The error at that offset.
    pub fault: RowFault,
}

/// An error in a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The bytes are not UTF-8.
    #[error("it is not UTF-8")]
    InvalidUtf8,
    /// The text is not JSON.
    #[error("it is not valid JSON: {0}")]
    InvalidJson(&'static str),
    /// The text is JSON but not an object.
    #[error("it is not a JSON object, such as {{\"text\": \"…\"}}, which each row must be")]
    NotAnObject,
    /// More than [`MAX_DEPTH`] arrays and objects are inside each other.
    #[error("its arrays and objects are more than {MAX_DEPTH} deep")]
    TooDeep,
    /// A name occurs twice in one object.
    #[error("the name `{name}` occurs twice in one object")]
    DuplicateKey {
        /// At most 64 characters of the name, with `?` for control characters.
        name: String,
    },
    /// A member's name cannot be the name of a field.
    #[error(
        "the name of a field must have 1 to {} bytes without U+0000",
        identifiers::MAX_FIELD_NAME_BYTES
    )]
    BadFieldName,
    /// A number has more than [`MAX_NUMBER_CHARS`] characters.
    #[error("a number has more than {MAX_NUMBER_CHARS} characters")]
    NumberTooLong,
}

impl RowFault {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson(_) => "invalid_json",
            Self::NotAnObject => "not_an_object",
            Self::TooDeep => "too_deep",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::BadFieldName => "bad_field_name",
            Self::NumberTooLong => "number_too_long",
        }
    }

    pub(super) fn at(self, at: usize) -> RowError {
        RowError { at, fault: self }
    }

    /// Reports a name that occurs twice, shortened and fit for a line of a terminal.
    pub(super) fn duplicate(name: &str) -> Self {
        Self::DuplicateKey { name: shown_ends(name, MAX_NAME_CHARS) }
    }
}
