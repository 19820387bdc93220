//! `GET /v1/schema`, as a request.

use super::parameters::{Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{CONNECTION, CONNECTION_ALIAS};
use crate::records::identifiers::MAX_NAME_BYTES;
use crate::records::problem::Problem;

read_operation! {
    /// A request for everything that the caller can ask for.
    GetSchema() is "getSchema" at "/v1/schema" {
        /// How short the answer is.
        view: Option<&'static str> = SCHEMA_VIEW;
        /// Whether the declaration is whole.
        detail: Option<&'static str> = DETAIL;
        /// The one stream of the answer.
        stream: Option<String> = STREAM;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

const SCHEMA_VIEW: Parameter = Parameter::optional(
    "view",
    ParameterType::OneOf(&["compact"]),
    "`compact` describes each field by one short list of words.",
);
const DETAIL: Parameter = Parameter::optional(
    "detail",
    ParameterType::OneOf(&["full"]),
    "`full` gives the whole declaration of one stream; it needs `stream`.",
);
const STREAM: Parameter = Parameter::optional(
    "stream",
    ParameterType::Text { max_bytes: MAX_NAME_BYTES },
    "Only this stream.",
);
