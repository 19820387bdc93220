//! `GET /v1/streams/{stream}/records`, as a request.

use super::parameters::{FilterParameter, Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, CURSOR, CURSORS, EXPAND, EXPAND_LIMIT, FIELDS, FILTER, LIMIT,
    MAX_CURSOR_BYTES, OR, PREVIEW, PREVIEW_BYTES, VIEW,
};
use crate::records::identifiers::MAX_FIELD_NAME_BYTES;
use crate::records::order::ORDERS;
use crate::records::problem::Problem;

read_operation! {
    /// A request for the records of a stream in order, a page at a time, or for what changed.
    ListRecords(stream) is "listRecords" at "/v1/streams/{stream}/records" {
        /// The most records on the page.
        limit: Option<u64> = LIMIT;
        /// Continues after an earlier page.
        cursor: Option<String> = CURSOR;
        /// Whether each record has a cursor of its own.
        cursors: Option<&'static str> = CURSORS;
        /// The direction.
        order: Option<&'static str> = ORDER;
        /// The direction, by the name of the cursor field.
        sort: Option<String> = SORT;
        /// Whether the records on all pages are counted.
        count: Option<&'static str> = COUNT;
        /// The selected fields; empty for all.
        fields: Vec<String> = FIELDS;
        /// The declared view whose fields are selected.
        view: Option<String> = VIEW;
        /// The relations to follow.
        expand: Vec<String> = EXPAND;
        /// The most records of each relation.
        expand_limit: Vec<(String, u64)> = EXPAND_LIMIT;
        /// The conditions that records must fulfil.
        conditions: Vec<FilterParameter> = FILTER, OR;
        /// Only what changed since then.
        changes_since: Option<String> = CHANGES_SINCE;
        /// The length at which values are truncated.
        preview_chars: Option<u64> = PREVIEW;
        /// The most bytes of a record's fields.
        preview_bytes: Option<u64> = PREVIEW_BYTES;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

const ORDER: Parameter = Parameter::optional(
    "order",
    ParameterType::OneOf(&ORDERS),
    "The direction; the default is `desc`.",
);
const SORT: Parameter = Parameter::optional(
    "sort",
    ParameterType::Text { max_bytes: MAX_FIELD_NAME_BYTES + 1 },
    "The stream's cursor field, with `-` before it for descending: another way to send `order`.",
);
const COUNT: Parameter = Parameter::optional(
    "count",
    ParameterType::OneOf(&["none", "estimated", "exact"]),
    "Whether `meta.count` has the number of records on all pages. The number is always exact.",
);
const CHANGES_SINCE: Parameter = Parameter::optional(
    "changes_since",
    ParameterType::Text { max_bytes: MAX_CURSOR_BYTES },
    "Only records that changed or were deleted since the answer that returned this as `next_changes_since`; `beginning` for the first time. Excludes all parameters but `limit`, `cursor`, `cursors`, `fields`, `preview_chars`, `preview_bytes` and `connection_id`.",
);
