//! `GET /v1/streams/{stream}/aggregate`, as a request.

use super::parameters::{AboveMax, FilterParameter, Parameter, ParameterType, Parameters};
use super::read_operation::{PathNames, read_operation};
use super::request_value::{NamedConnection, RequestValue};
use super::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, CURSOR, CURSORS, FIELD_NAME, FILTER, MAX_LIMIT, OR, QUERY_TEXT,
    number,
};
use crate::records::aggregator::{GROUP_ORDERS, METRICS};
use crate::records::problem::Problem;
use crate::records::zone::Granularity;

read_operation! {
    /// A request for a count, a sum, an extreme or a grouping of records.
    AggregateRecords(stream) is "aggregateRecords" at "/v1/streams/{stream}/aggregate" {
        /// What is computed.
        metric: Option<&'static str> = METRIC;
        /// The field that is measured.
        field: Option<String> = FIELD;
        /// Words that must occur in each record.
        q: Option<String> = Q;
        /// The fields by whose values groups are made.
        group_by: Vec<String> = GROUP_BY;
        /// The field by whose times groups are made.
        group_by_time: Option<String> = GROUP_BY_TIME;
        /// The length of a span of time.
        granularity: Option<&'static str> = GRANULARITY;
        /// The time zone in which days begin.
        time_zone: Option<String> = TIME_ZONE;
        /// The order of groups.
        order: Option<&'static str> = ORDER;
        /// The most groups.
        limit: Option<u64> = GROUP_LIMIT;
        /// Continues after an earlier page of groups.
        cursor: Option<String> = CURSOR;
        /// Whether each group has a cursor of its own.
        cursors: Option<&'static str> = CURSORS;
        /// The conditions that records must fulfil.
        conditions: Vec<FilterParameter> = FILTER, OR;
        /// The connection.
        connection: NamedConnection = CONNECTION, CONNECTION_ALIAS;
    }
}

/// The number of groups of an answer if the request does not say.
pub const DEFAULT_GROUPS: u64 = 10;
/// The most fields that groups are made by, beside one of times.
const MAX_GROUP_FIELDS: usize = 3;

const _: () = assert!(DEFAULT_GROUPS == 10 && MAX_GROUP_FIELDS == 3);

const METRIC: Parameter = Parameter::required(
    "metric",
    ParameterType::OneOf(&METRICS),
    "What to compute. `avg` is rounded to ten places after the point, or as many as the sum has.",
);
const FIELD: Parameter = Parameter::optional(
    "field",
    FIELD_NAME,
    "The field to aggregate; not with `count`. `avg` needs a field that is declared for `sum`.",
);
const Q: Parameter = Parameter::optional(
    "q",
    QUERY_TEXT,
    "Only records in which all of these words occur, as in a search.",
);
const GROUP_BY: Parameter = Parameter::optional(
    "group_by",
    ParameterType::RepeatedName { max: MAX_GROUP_FIELDS },
    "The metric for each value of this field. Repeated up to three times, for each combination of values.",
);
const GROUP_BY_TIME: Parameter = Parameter::optional(
    "group_by_time",
    FIELD_NAME,
    "The metric for each span of time, by the time in this field; also together with `group_by`. Needs `granularity`.",
);
const GRANULARITY: Parameter = Parameter::optional(
    "granularity",
    ParameterType::OneOf(&Granularity::NAMES),
    "The length of a span of time, or `hour_of_day` (0 to 23) or `weekday`. Weeks begin on Monday.",
);
const TIME_ZONE: Parameter = Parameter::optional(
    "time_zone",
    ParameterType::Text { max_bytes: 64 },
    "The time zone in which days begin: a name of the IANA time zone database; the default is UTC. A date without a time is the same date in every zone.",
);
const ORDER: Parameter = Parameter::optional(
    "order",
    ParameterType::OneOf(&GROUP_ORDERS),
    "The order of groups: by value (of a count, by size) or by key. The default is `key_asc` with `group_by_time`, and else `value_desc`.",
);
const GROUP_LIMIT: Parameter = Parameter::optional(
    "limit",
    number(1, MAX_LIMIT, AboveMax::Clamped),
    "At most this many groups; the default is 10. `other_count` has the number of records in the groups after them, and `next_cursor` continues there.",
);
