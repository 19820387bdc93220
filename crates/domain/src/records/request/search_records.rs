//! `GET /v1/search`, as a request.

use super::parameters::{FilterParameter, Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, CURSOR, CURSORS, FILTER, LIMIT, OR, QUERY_TEXT,
};
use crate::records::order::SEARCH_ORDERS;
use crate::records::problem::Problem;

read_operation! {
    /// A request for the records in which words occur.
    SearchRecords() is "search" at "/v1/search" {
        /// The words.
        q: Option<String> = Q;
        /// The order of the hits.
        order: Option<&'static str> = ORDER;
        /// The most hits on the page.
        limit: Option<u64> = LIMIT;
        /// Continues after an earlier page.
        cursor: Option<String> = CURSOR;
        /// Whether each hit has a cursor of its own.
        cursors: Option<&'static str> = CURSORS;
        /// The streams that are searched; empty for all.
        streams: Vec<String> = STREAMS;
        /// The conditions that records must fulfil.
        conditions: Vec<FilterParameter> = FILTER, OR;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

const Q: Parameter = Parameter::required(
    "q",
    QUERY_TEXT,
    "Words, `\"phrases\"` and `prefix*`. All must occur, in any of the searchable fields. A hyphen before one, as in `-moss`, excludes the records in which it occurs; the name of a searchable field and a colon, as in `subject:moss`, choose the field.",
);
const ORDER: Parameter = Parameter::optional(
    "order",
    ParameterType::OneOf(&SEARCH_ORDERS),
    "`newest`, the default: by the time that lists are ordered by, the latest first; records without one come last, those that came in last first. `relevance`: those of the newest 1,000 hits first that have the words as a phrase, near each other, in a field that names the record, or often.",
);
const STREAMS: Parameter = Parameter::optional(
    "streams",
    ParameterType::Names,
    "Only these streams; the default is all streams.",
);
