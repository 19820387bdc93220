//! The place in a record that a window is of.

use serde_json::Value as Json;
use stile_domain::records::request::{ReadOperation, ReadRequest};

/// The place that a request for a window names: a field, or a value within it.
pub(super) struct FieldPlace<'r> {
    pub(super) request: &'r ReadRequest,
    field: &'r str,
}

impl<'r> FieldPlace<'r> {
    /// Returns the place of a request. `None` if the request is not for a window.
    pub(super) fn of(request: &'r ReadRequest) -> Option<Self> {
        let place = Self { request, field: "" };
        let field = place.parameter("field")?;
        (request.operation == ReadOperation::FieldWindow).then_some(Self { request, field })
    }

    /// The field's name, perhaps with a JSON pointer behind it.
    pub(super) fn field(&self) -> &'r str {
        self.field
    }

    /// Returns whether the place may be within a field.
    pub(super) fn may_be_inner(&self) -> bool {
        self.field.contains('/')
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&'r str> {
        let found = self.request.parameters.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the request for the record.
    pub(super) fn record(&self) -> ReadRequest {
        let ReadRequest { stream, key, .. } = self.request.clone();
        let request = ReadRequest { stream, key, ..ReadRequest::new(ReadOperation::Record) };
        request.with_some("connection_id", self.parameter("connection_id"))
    }

    /// Returns the value that a record has at the place. If a field has the whole path as its
    /// name, that field.
    pub(super) fn value_in<'j>(&self, record: &'j Json) -> Option<&'j Json> {
        let data = record.get("data")?;
        let inner = || {
            let slashes = self.field.match_indices('/').map(|(at, _)| at);
            let mut places = slashes.filter_map(|at| self.field.split_at_checked(at));
            places.find_map(|(name, pointer)| data.get(name)?.pointer(pointer))
        };
        data.get(self.field).or_else(inner)
    }
}
