//! The endpoints, each with what it takes. Requests are checked against this and the OpenAPI
//! document is made of it.

use super::aggregate::DEFAULT_GROUPS;
use super::list::DEFAULT_LIMIT;
use super::parameters::{Parameter, Shape};
use stile_domain::records::aggregator::METRICS;
use stile_domain::records::identifiers::MAX_FIELD_NAME_BYTES;
use stile_domain::records::order::ORDERS;
use stile_domain::records::request::ReadOperation;
use stile_domain::records::selector::{MAX_BYTES, MAX_CHARS, MAX_CONTEXT, MAX_QUERY_CHARS};
use stile_domain::records::tokenizer::MAX_QUERY_SCALARS;
use stile_domain::records::zone::Granularity;

/// One endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The operation, as the OpenAPI document names it.
    pub id: &'static str,
    /// The method.
    pub method: &'static str,
    /// The path, with `{…}` for its variable segments.
    pub path: &'static str,
    /// A sentence for people.
    pub about: &'static str,
    /// What it takes besides its path.
    pub parameters: &'static [Parameter],
    /// Whether the owner alone may use it.
    pub owner_only: bool,
}

impl Endpoint {
    /// Returns the declaration of a reading operation.
    pub fn of(operation: ReadOperation) -> &'static Self {
        match operation {
            ReadOperation::Schema => &SCHEMA,
            ReadOperation::Search => &SEARCH,
            ReadOperation::Records => &RECORDS,
            ReadOperation::Aggregate => &AGGREGATE,
            ReadOperation::Record => &RECORD,
            ReadOperation::FieldWindow => &FIELD_WINDOW,
        }
    }
}

/// The most of a page.
pub const MAX_LIMIT: u64 = 100;
/// The longest cursor that is looked at, in bytes.
const MAX_CURSOR: usize = 4096;

const CONNECTION: Parameter = Parameter {
    name: "connection_id",
    shape: Shape::Text { most: 64 },
    about: "Of which connection. Without it, of all that the caller may see.",
};
const CONNECTION_ALIAS: Parameter = Parameter {
    name: "connector_instance_id",
    shape: Shape::Text { most: 64 },
    about: "An old name of `connection_id`.",
};
const FIELDS: Parameter = Parameter {
    name: "fields",
    shape: Shape::Names,
    about: "Only these top-level fields, and those that the schema requires.",
};
const FILTER: Parameter = Parameter {
    name: "filter",
    shape: Shape::Conditions,
    about: "Only records of which this holds: `filter[field]=value`, or `filter[field][gte]=value` with gte, gt, lte or lt, on fields that are declared for it.",
};
const FIELD_NAME: Shape = Shape::Text { most: MAX_FIELD_NAME_BYTES };
const PREVIEW: Parameter = Parameter {
    name: "preview_chars",
    shape: Shape::Whole { least: 0, most: MAX_CHARS, clamped: false, window: false },
    about: "Cut longer values after so many characters (Unicode scalar values) and say under `previews` what is missing.",
};
const PREVIEW_BYTES: Parameter = Parameter {
    name: "preview_bytes",
    shape: Shape::Whole { least: 256, most: 65536, clamped: false, window: false },
    about: "Put fields of each record only while the members of `data` and `previews` together have at most so many bytes of JSON, and one at least; `more_fields` says how to go on. Needs `preview_chars`.",
};
const FIELDS_CURSOR: Parameter = Parameter {
    name: "fields_cursor",
    shape: Shape::Text { most: MAX_CURSOR },
    about: "Go on with the fields of a record where `more_fields` had this as its `next_cursor`. Needs `preview_bytes`.",
};
const VIEW: Parameter = Parameter {
    name: "view",
    shape: Shape::Text { most: 64 },
    about: "Only the fields of this declared view. For the owner alone; excludes `fields`.",
};
const EXPAND: Parameter = Parameter {
    name: "expand",
    shape: Shape::Names,
    about: "Under `expanded` also the records that belong to each by these declared relations. For the owner alone.",
};
const EXPAND_LIMIT: Parameter = Parameter {
    name: "expand_limit",
    shape: Shape::Limits,
    about: "At most so many of them: `expand_limit[relation]=3`.",
};
const CURSOR: Parameter = Parameter {
    name: "cursor",
    shape: Shape::Text { most: MAX_CURSOR },
    about: "Go on where the answer stopped that had this as its cursor.",
};

const CURSORS: Parameter = Parameter {
    name: "cursors",
    shape: Shape::OneOf(&["page", "each"]),
    about: "With `each`, every record or hit has a `cursor` too, which goes on right after it; `page` is the default.",
};
const LIMIT: Parameter = Parameter {
    name: "limit",
    shape: Shape::Whole { least: 1, most: MAX_LIMIT, clamped: true, window: false },
    about: "At most so many records; 25 where it is not sent.",
};
const fn part(
    name: &'static str,
    least: u64,
    most: u64,
    clamped: bool,
    about: &'static str,
) -> Parameter {
    Parameter { name, shape: Shape::Whole { least, most, clamped, window: true }, about }
}

/// `GET /v1/streams`.
pub const STREAMS: Endpoint = Endpoint {
    id: "listStreams",
    method: "get",
    path: "/v1/streams",
    about: "The streams that the caller may see, one row for each connection that has one.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: false,
};

/// `GET /v1/streams/{stream}`.
pub const STREAM: Endpoint = Endpoint {
    id: "getStream",
    method: "get",
    path: "/v1/streams/{stream}",
    about: "What is declared of a stream, as far as its fields are granted.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: false,
};

/// `GET /v1/schema`.
pub const SCHEMA: Endpoint = Endpoint {
    id: "getSchema",
    method: "get",
    path: "/v1/schema",
    about: "All that the caller can ask for: connections, streams, fields and what can be done with them.",
    parameters: &[
        Parameter {
            name: "view",
            shape: Shape::OneOf(&["compact"]),
            about: "`compact` says of each field in one word list what can be done with it.",
        },
        Parameter {
            name: "detail",
            shape: Shape::OneOf(&["full"]),
            about: "`full` gives the whole declaration of one stream; it needs `stream`.",
        },
        Parameter { name: "stream", shape: Shape::Text { most: 64 }, about: "Of one stream only." },
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

const _: () = assert!(DEFAULT_LIMIT == 25);

/// `GET /v1/streams/{stream}/records`.
pub const RECORDS: Endpoint = Endpoint {
    id: "listRecords",
    method: "get",
    path: "/v1/streams/{stream}/records",
    about: "Records, ordered by the stream's cursor field, then connection, then key.",
    parameters: &[
        LIMIT,
        CURSOR,
        CURSORS,
        Parameter { name: "order", shape: Shape::OneOf(&ORDERS), about: "`desc` is the default." },
        Parameter {
            name: "sort",
            shape: Shape::Text { most: MAX_FIELD_NAME_BYTES + 1 },
            about: "The stream's cursor field, with `-` before it for descending: `order` in other words.",
        },
        Parameter {
            name: "count",
            shape: Shape::OneOf(&["none", "estimated", "exact"]),
            about: "Whether `meta.count` says how many records there are on all pages. It is always exact.",
        },
        FIELDS,
        VIEW,
        EXPAND,
        EXPAND_LIMIT,
        FILTER,
        Parameter {
            name: "changes_since",
            shape: Shape::Text { most: MAX_CURSOR },
            about: "Only what changed since an answer whose `next_changes_since` this was, with what is gone; `beginning` for the first time. Goes with `limit`, `cursor`, `cursors`, `fields`, `preview_chars`, `preview_bytes` and `connection_id` alone.",
        },
        PREVIEW,
        PREVIEW_BYTES,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

const _: () = assert!(DEFAULT_GROUPS == 10);

/// `GET /v1/streams/{stream}/aggregate`.
pub const AGGREGATE: Endpoint = Endpoint {
    id: "aggregateRecords",
    method: "get",
    path: "/v1/streams/{stream}/aggregate",
    about: "A count, a sum, an extreme or groups over all records that the caller may see, exactly.",
    parameters: &[
        Parameter {
            name: "metric",
            shape: Shape::OneOf(&METRICS),
            about: "What is computed. `count` alone can be grouped.",
        },
        Parameter {
            name: "field",
            shape: FIELD_NAME,
            about: "Over which field; not with `count`.",
        },
        Parameter {
            name: "group_by",
            shape: FIELD_NAME,
            about: "A count for each value of this field.",
        },
        Parameter {
            name: "group_by_time",
            shape: FIELD_NAME,
            about: "A count for each span of time that this field lies in. Needs `granularity`.",
        },
        Parameter {
            name: "granularity",
            shape: Shape::OneOf(&Granularity::NAMES),
            about: "How long a span of time is. Weeks begin on Monday.",
        },
        Parameter {
            name: "time_zone",
            shape: Shape::Text { most: 64 },
            about: "Where days begin: a name of the IANA time zone database; UTC where it is not sent.",
        },
        Parameter {
            name: "limit",
            shape: Shape::Whole { least: 1, most: MAX_LIMIT, clamped: true, window: false },
            about: "At most so many groups; 10 where it is not sent. `other_count` says how many records are in the others.",
        },
        FILTER,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

/// `GET /v1/streams/{stream}/records/{id}`.
pub const RECORD: Endpoint = Endpoint {
    id: "getRecord",
    method: "get",
    path: "/v1/streams/{stream}/records/{id}",
    about: "One record, whole unless `preview_chars` is sent.",
    parameters: &[
        FIELDS,
        VIEW,
        EXPAND,
        EXPAND_LIMIT,
        PREVIEW,
        PREVIEW_BYTES,
        FIELDS_CURSOR,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

const _: () = assert!(MAX_QUERY_CHARS == 1024);

/// `GET /v1/streams/{stream}/records/{id}/field-window`.
pub const FIELD_WINDOW: Endpoint = Endpoint {
    id: "getFieldWindow",
    method: "get",
    path: "/v1/streams/{stream}/records/{id}/field-window",
    about: "A part of one field, at the cost of that part however long the field is.",
    parameters: &[
        Parameter {
            name: "field",
            shape: Shape::Text { most: 4096 },
            about: "Which top-level field.",
        },
        CURSOR,
        part(
            "offset_chars",
            0,
            i64::MAX as u64,
            false,
            "From this character on (Unicode scalar values from 0).",
        ),
        part(
            "limit_chars",
            1,
            MAX_CHARS,
            true,
            "At most so many characters; 4096 where it is not sent.",
        ),
        Parameter {
            name: "q",
            shape: Shape::Text { most: 4 * MAX_QUERY_CHARS },
            about: "Around the first place where this text occurs, by simple case folding. Excludes `offset_chars`.",
        },
        part(
            "before_chars",
            0,
            MAX_CONTEXT,
            false,
            "So many characters before it; 2048 where it is not sent.",
        ),
        part(
            "after_chars",
            0,
            MAX_CONTEXT,
            false,
            "So many characters after it; 2048 where it is not sent.",
        ),
        part(
            "offset_bytes",
            0,
            i64::MAX as u64,
            false,
            "Of a binary field: from this byte on. Excludes `q` and all that counts characters.",
        ),
        part(
            "limit_bytes",
            1,
            MAX_BYTES,
            true,
            "Of a binary field: at most so many bytes; 65536 where it is not sent.",
        ),
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

/// `GET /v1/search`.
pub const SEARCH: Endpoint = Endpoint {
    id: "search",
    method: "get",
    path: "/v1/search",
    about: "The records in which all words of `q` occur, the newest first, and where in them.",
    parameters: &[
        Parameter {
            name: "q",
            shape: Shape::Text { most: 4 * MAX_QUERY_SCALARS },
            about: "Words, `\"phrases\"` and `prefix*`. All must occur, in any of the searchable fields.",
        },
        LIMIT,
        CURSOR,
        CURSORS,
        Parameter {
            name: "streams",
            shape: Shape::Names,
            about: "Only in these streams; all where it is not sent.",
        },
        FILTER,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    owner_only: false,
};

/// `DELETE /v1/streams/{stream}/records/{id}`.
pub const DELETE_RECORD: Endpoint = Endpoint {
    id: "deleteRecord",
    method: "delete",
    path: "/v1/streams/{stream}/records/{id}",
    about: "Removes a record. Doing so again changes nothing. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: true,
};

/// `DELETE /v1/streams/{stream}/records`.
pub const DELETE_RECORDS: Endpoint = Endpoint {
    id: "deleteRecords",
    method: "delete",
    path: "/v1/streams/{stream}/records",
    about: "Removes all records that one connection's stream has. The stream stays declared. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: true,
};

/// `POST /v1/ingest/{stream}`.
pub const INGEST: Endpoint = Endpoint {
    id: "ingestRecords",
    method: "post",
    path: "/v1/ingest/{stream}",
    about: "Stores records that come as JSON Lines. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: true,
};

/// `GET /v1/blobs/{blob_id}`.
pub const BLOB: Endpoint = Endpoint {
    id: "getBlob",
    method: "get",
    path: "/v1/blobs/{blob_id}",
    about: "The bytes of a blob that a record exposes in a granted field, or those of them that one range of `Range` names.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    owner_only: false,
};

/// `HEAD /v1/blobs/{blob_id}`.
pub const BLOB_HEAD: Endpoint = Endpoint {
    id: "headBlob",
    method: "head",
    about: "What is said of a blob before its bytes.",
    ..BLOB
};

/// `POST /v1/blobs`.
pub const PUT_BLOB: Endpoint = Endpoint {
    id: "putBlob",
    method: "post",
    path: "/v1/blobs",
    about: "Stores the bytes of the body, of any type, for records that name them. For the owner alone.",
    parameters: &[],
    owner_only: true,
};

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    SCHEMA,
    STREAMS,
    STREAM,
    RECORDS,
    AGGREGATE,
    RECORD,
    DELETE_RECORD,
    DELETE_RECORDS,
    FIELD_WINDOW,
    SEARCH,
    INGEST,
    BLOB,
    BLOB_HEAD,
    PUT_BLOB,
];
