//! `GET /v1/streams/{stream}/records/{id}`, as a request.

use super::parameters::{Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, EXPAND, EXPAND_LIMIT, FIELDS, MAX_CURSOR_BYTES, PREVIEW,
    PREVIEW_BYTES, VIEW,
};
use crate::records::problem::Problem;

read_operation! {
    /// A request for one record.
    GetRecord(stream, key) is "getRecord" at "/v1/streams/{stream}/records/{id}" {
        /// The selected fields; empty for all.
        fields: Vec<String> = FIELDS;
        /// The declared view whose fields are selected.
        view: Option<String> = VIEW;
        /// The relations to follow.
        expand: Vec<String> = EXPAND;
        /// The most records of each relation.
        expand_limit: Vec<(String, u64)> = EXPAND_LIMIT;
        /// The length at which values are truncated.
        preview_chars: Option<u64> = PREVIEW;
        /// The most bytes of the record's fields.
        preview_bytes: Option<u64> = PREVIEW_BYTES;
        /// Continues with the remaining fields.
        fields_cursor: Option<String> = FIELDS_CURSOR;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

const FIELDS_CURSOR: Parameter = Parameter::optional(
    "fields_cursor",
    ParameterType::Text { max_bytes: MAX_CURSOR_BYTES },
    "Continues with the remaining fields, by the `next_cursor` of `more_fields`. Needs `preview_bytes`.",
);
