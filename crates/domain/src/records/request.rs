//! The reading operations of `/v1`, as requests that a client sends.
//!
//! The content ladder makes these requests. A resource server answers them, in this process or over
//! HTTP.

use super::record_id::encode_key;
use crate::percent::encode_component;

/// The reading operations that a client of `/v1` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadOperation {
    /// `GET /v1/schema`.
    Schema,
    /// `GET /v1/search`.
    Search,
    /// `GET /v1/streams/{stream}/records`.
    Records,
    /// `GET /v1/streams/{stream}/aggregate`.
    Aggregate,
    /// `GET /v1/streams/{stream}/records/{id}`.
    Record,
    /// `GET /v1/streams/{stream}/records/{id}/field-window`.
    FieldWindow,
}

impl ReadOperation {
    /// Returns the operation's identifier in the OpenAPI document.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Schema => "getSchema",
            Self::Search => "search",
            Self::Records => "listRecords",
            Self::Aggregate => "aggregateRecords",
            Self::Record => "getRecord",
            Self::FieldWindow => "getFieldWindow",
        }
    }

    /// Returns the path, with `{stream}` and `{id}` for its variable segments.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Schema => "/v1/schema",
            Self::Search => "/v1/search",
            Self::Records => "/v1/streams/{stream}/records",
            Self::Aggregate => "/v1/streams/{stream}/aggregate",
            Self::Record => "/v1/streams/{stream}/records/{id}",
            Self::FieldWindow => "/v1/streams/{stream}/records/{id}/field-window",
        }
    }
}

/// One request to a reading operation.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The operation that the request is for.
    pub operation: ReadOperation,
    /// The stream in the path; empty if the path has none.
    pub stream: String,
    /// The record key in the path; empty if the path has none.
    pub key: String,
    /// The query parameters, not yet percent-encoded.
    pub parameters: Vec<(String, String)>,
}

impl ReadRequest {
    /// Creates a request without stream, key and parameters.
    pub fn new(operation: ReadOperation) -> Self {
        Self { operation, stream: String::new(), key: String::new(), parameters: Vec::new() }
    }

    /// Adds a query parameter, not yet percent-encoded.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Adds a parameter if it has a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value.to_string()),
            None => self,
        }
    }

    /// Adds one name to a list parameter. The name gets `[]` where the value has a comma, since a
    /// comma would otherwise separate two values.
    #[must_use]
    pub fn with_name(self, list: &str, name: &str) -> Self {
        let list = if name.contains(',') { format!("{list}[]") } else { list.to_owned() };
        self.with(list, name)
    }

    /// Returns the percent-encoded path. Keys are encoded so that no segment can be `.` or `..`.
    pub fn path(&self) -> String {
        self.operation
            .path()
            .replace("{stream}", &encode_key(&self.stream))
            .replace("{id}", &encode_key(&self.key))
    }

    /// Returns the percent-encoded query.
    pub fn query(&self) -> String {
        let encoded = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
        encoded.collect::<Vec<_>>().join("&")
    }
}
