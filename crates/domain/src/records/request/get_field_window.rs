//! `GET /v1/streams/{stream}/records/{id}/field-window`, as a request.

use super::parameters::{AboveMax, NumberError, Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{CONNECTION, CONNECTION_ALIAS, CURSOR};
use crate::records::problem::Problem;
use crate::records::selector::{MAX_BYTES, MAX_CHARS, MAX_CONTEXT, MAX_QUERY_CHARS};

read_operation! {
    /// A request for a part of one field.
    GetFieldWindow(stream, key) is
        "getFieldWindow" at "/v1/streams/{stream}/records/{id}/field-window" {
        /// The field, perhaps with a JSON pointer behind it.
        field: Option<String> = FIELD;
        /// Continues an earlier window.
        cursor: Option<String> = CURSOR;
        /// The first character, from 0.
        offset_chars: Option<u64> = OFFSET_CHARS;
        /// The most characters.
        limit_chars: Option<u64> = LIMIT_CHARS;
        /// The text around which the window is.
        q: Option<String> = Q;
        /// The most characters before the text.
        before_chars: Option<u64> = BEFORE_CHARS;
        /// The most characters after the text.
        after_chars: Option<u64> = AFTER_CHARS;
        /// The first byte, from 0.
        offset_bytes: Option<u64> = OFFSET_BYTES;
        /// The most bytes.
        limit_bytes: Option<u64> = LIMIT_BYTES;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

const FIELD: Parameter = Parameter::required(
    "field",
    ParameterType::Text { max_bytes: 4096 },
    "A field, or a place within its value: the field's name and a JSON pointer behind it, such as `attachments/0`.",
);
const OFFSET_CHARS: Parameter = window_number(
    "offset_chars",
    (0, i64::MAX as u64),
    AboveMax::Refused,
    "The first character of the window (Unicode scalar values, from 0).",
);
const LIMIT_CHARS: Parameter = window_number(
    "limit_chars",
    (1, MAX_CHARS),
    AboveMax::Clamped,
    "At most this many characters; the default is 4096.",
);
const Q: Parameter = Parameter::optional(
    "q",
    ParameterType::Text { max_bytes: 4 * MAX_QUERY_CHARS },
    "Selects the window around the first occurrence of this text, by simple case folding. Excludes `offset_chars`.",
);
const BEFORE_CHARS: Parameter = window_number(
    "before_chars",
    (0, MAX_CONTEXT),
    AboveMax::Refused,
    "At most this many characters before the occurrence; the default is 2048.",
);
const AFTER_CHARS: Parameter = window_number(
    "after_chars",
    (0, MAX_CONTEXT),
    AboveMax::Refused,
    "At most this many characters after the occurrence; the default is 2048.",
);
const OFFSET_BYTES: Parameter = window_number(
    "offset_bytes",
    (0, i64::MAX as u64),
    AboveMax::Refused,
    "For a binary field: the first byte of the window. Excludes `q` and all parameters that count characters.",
);
const LIMIT_BYTES: Parameter = window_number(
    "limit_bytes",
    (1, MAX_BYTES),
    AboveMax::Clamped,
    "For a binary field: at most this many bytes; the default is 65536.",
);

const fn window_number(
    name: &'static str,
    (min, max): (u64, u64),
    above_max: AboveMax,
    about: &'static str,
) -> Parameter {
    let error = NumberError::InvalidWindow;
    Parameter::optional(name, ParameterType::Integer { min, max, above_max, error }, about)
}
