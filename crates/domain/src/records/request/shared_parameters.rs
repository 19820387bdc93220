//! Query parameters that several operations declare.

use super::super::identifiers::{MAX_FIELD_NAME_BYTES, MAX_NAME_BYTES};
use super::super::selector::MAX_CHARS;
use super::super::tokenizer::MAX_QUERY_SCALARS;
use super::parameters::{AboveMax, NumberError, Parameter, ParameterType};

/// The number of records on a page if the request does not say.
pub const DEFAULT_LIMIT: u64 = 25;
/// The greatest number of records on a page, and of groups in an aggregation.
pub const MAX_LIMIT: u64 = 100;
/// The longest cursor that is decoded, in bytes.
pub(super) const MAX_CURSOR_BYTES: usize = 4096;
pub(super) const FIELD_NAME: ParameterType =
    ParameterType::Text { max_bytes: MAX_FIELD_NAME_BYTES };
/// The values that `q` takes.
pub(super) const QUERY_TEXT: ParameterType =
    ParameterType::Text { max_bytes: 4 * MAX_QUERY_SCALARS };

/// The connection that a request is about.
pub const CONNECTION: Parameter = Parameter::optional(
    "connection_id",
    ParameterType::Text { max_bytes: MAX_NAME_BYTES },
    "Only this connection; the default is all connections that the caller may see.",
);
/// The former name of [`CONNECTION`].
pub const CONNECTION_ALIAS: Parameter = Parameter::optional(
    "connector_instance_id",
    ParameterType::Text { max_bytes: MAX_NAME_BYTES },
    "A former name of `connection_id`.",
);
pub(super) const FIELDS: Parameter = Parameter::optional(
    "fields",
    ParameterType::Names,
    "Only these top-level fields, and those that the schema requires.",
);
pub(super) const FILTER: Parameter = Parameter::optional(
    "filter",
    ParameterType::Conditions,
    "Only records that match: `filter[field]=value`, or `filter[field][gte]=value` with gte, gt, lte or lt; `filter[field][in]=value`, repeated, for one of several values; `filter[field][exists]=false` for records without a value. A value matches a list that has it as a member. The declaration says which filters a field allows.",
);
pub(super) const OR: Parameter = Parameter::optional(
    "or",
    ParameterType::Alternatives,
    "Only records that also match one of several filters: `or[0][field]=value` and `or[1][other][gte]=value`, up to `or[15]`, each written like `filter`. What has one number must hold together.",
);
pub(super) const PREVIEW: Parameter = Parameter::optional(
    "preview_chars",
    number(0, MAX_CHARS, AboveMax::Refused),
    "Truncate longer values to this many characters (Unicode scalar values) and report under `previews` what is missing.",
);
pub(super) const PREVIEW_BYTES: Parameter = Parameter::optional(
    "preview_bytes",
    number(256, 65536, AboveMax::Refused),
    "At most this many bytes of JSON for the members of `data` and `previews` of each record together, but at least one field. `more_fields` says how to get the remaining fields. Needs `preview_chars`.",
);
pub(super) const VIEW: Parameter = Parameter::optional(
    "view",
    ParameterType::Text { max_bytes: MAX_NAME_BYTES },
    "Only the fields of this declared view. For the owner alone; excludes `fields`.",
);
pub(super) const EXPAND: Parameter = Parameter::optional(
    "expand",
    ParameterType::Names,
    "Adds to each record, under `expanded`, the records that these declared relations name. For the owner alone.",
);
pub(super) const EXPAND_LIMIT: Parameter = Parameter::optional(
    "expand_limit",
    ParameterType::RelationLimits,
    "At most this many records of a relation: `expand_limit[relation]=3`.",
);
/// The place after which a list continues.
pub const CURSOR: Parameter = Parameter::optional(
    "cursor",
    ParameterType::Text { max_bytes: MAX_CURSOR_BYTES },
    "Continues after the answer that returned this cursor.",
);
pub(super) const CURSORS: Parameter = Parameter::optional(
    "cursors",
    ParameterType::OneOf(&["page", "each"]),
    "With `each`, every record, hit or group has a `cursor` of its own, which continues after it; the default is `page`.",
);

const _: () = assert!(DEFAULT_LIMIT == 25);
pub(super) const LIMIT: Parameter = Parameter::optional(
    "limit",
    number(1, MAX_LIMIT, AboveMax::Clamped),
    "At most this many records; the default is 25.",
);

/// Declares a whole number whose error is [`NumberError::InvalidRequest`].
pub const fn number(min: u64, max: u64, above_max: AboveMax) -> ParameterType {
    ParameterType::Integer { min, max, above_max, error: NumberError::InvalidRequest }
}
