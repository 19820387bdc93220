//! The reading operations of `/v1`, each declared once as the type of its requests.
//!
//! The type has the values of a request; its declaration gives them their names in a query, their
//! bounds, and their words in the OpenAPI document. A resource server takes a request from the
//! query that was sent. The content ladder makes a request directly. A client of a resource server
//! elsewhere writes the request as a query.

pub mod aggregate_records;
mod get_field_window;
mod get_record;
mod get_schema;
mod list_records;
pub mod parameters;
mod read_operation;
mod request_value;
mod search_records;
pub mod shared_parameters;

pub use self::aggregate_records::AggregateRecords;
pub use self::get_field_window::GetFieldWindow;
pub use self::get_record::GetRecord;
pub use self::get_schema::GetSchema;
pub use self::list_records::ListRecords;
pub use self::read_operation::{PathNames, ReadOperation};
pub use self::request_value::NamedConnection;
pub use self::search_records::SearchRecords;
use crate::percent::encode_component;

/// One request to a reading operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// `GET /v1/schema`.
    Schema(GetSchema),
    /// `GET /v1/search`.
    Search(SearchRecords),
    /// `GET /v1/streams/{stream}/records`.
    Records(ListRecords),
    /// `GET /v1/streams/{stream}/aggregate`.
    Aggregate(AggregateRecords),
    /// `GET /v1/streams/{stream}/records/{id}`.
    Record(GetRecord),
    /// `GET /v1/streams/{stream}/records/{id}/field-window`.
    FieldWindow(GetFieldWindow),
}

/// Evaluates the same expression for a request, whatever its operation is.
macro_rules! of_each {
    ($request:expr, $asked:ident => $value:expr) => {
        match $request {
            ReadRequest::Schema($asked) => $value,
            ReadRequest::Search($asked) => $value,
            ReadRequest::Records($asked) => $value,
            ReadRequest::Aggregate($asked) => $value,
            ReadRequest::Record($asked) => $value,
            ReadRequest::FieldWindow($asked) => $value,
        }
    };
}

impl ReadRequest {
    /// Returns the operation's identifier in the OpenAPI document.
    pub fn id(&self) -> &'static str {
        of_each!(self, asked => asked.id())
    }

    /// Returns the operation's path, with `{stream}` and `{id}` for its variable segments.
    pub fn declared_path(&self) -> &'static str {
        of_each!(self, asked => asked.declared_path())
    }

    /// Returns the percent-encoded path. Keys are encoded so that no segment can be `.` or `..`.
    pub fn path(&self) -> String {
        of_each!(self, asked => asked.path())
    }

    /// Returns the parameters of the query, not yet percent-encoded.
    pub fn pairs(&self) -> Vec<(String, String)> {
        of_each!(self, asked => asked.pairs())
    }

    /// Returns the value of a parameter of the query; the first one if it is repeated.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.pairs().into_iter().find_map(|(own, value)| (own == name).then_some(value))
    }

    /// Returns the percent-encoded query.
    pub fn query(&self) -> String {
        let pairs = self.pairs().into_iter();
        let encoded = pairs.map(|(name, value)| {
            format!("{}={}", encode_component(&name), encode_component(&value))
        });
        encoded.collect::<Vec<_>>().join("&")
    }

    /// Returns the same request for a page of `limit` items, if the operation has pages.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        match &mut self {
            Self::Search(SearchRecords { limit: own, .. })
            | Self::Records(ListRecords { limit: own, .. })
            | Self::Aggregate(AggregateRecords { limit: own, .. }) => *own = Some(limit),
            Self::Schema(_) | Self::Record(_) | Self::FieldWindow(_) => {}
        }
        self
    }

    /// Returns the same request for an answer with whole values, and without a cursor for each
    /// item. Such an answer is longer and holds the same data.
    #[must_use]
    pub fn without_previews(&self) -> Self {
        let mut whole = self.clone();
        match &mut whole {
            Self::Records(ListRecords { preview_chars, preview_bytes, cursors, .. }) => {
                (*preview_chars, *preview_bytes, *cursors) = (None, None, None);
            }
            Self::Record(GetRecord { preview_chars, preview_bytes, .. }) => {
                (*preview_chars, *preview_bytes) = (None, None);
            }
            Self::Search(SearchRecords { cursors, .. })
            | Self::Aggregate(AggregateRecords { cursors, .. }) => *cursors = None,
            Self::Schema(_) | Self::FieldWindow(_) => {}
        }
        whole
    }
}

/// Makes the request of each operation a [`ReadRequest`].
macro_rules! read_requests {
    ($($operation:ident($asked:ident)),+) => {
        $(impl From<$asked> for ReadRequest {
            fn from(asked: $asked) -> Self {
                Self::$operation(asked)
            }
        })+
    };
}

read_requests! {
    Schema(GetSchema), Search(SearchRecords), Records(ListRecords), Aggregate(AggregateRecords),
    Record(GetRecord), FieldWindow(GetFieldWindow)
}
