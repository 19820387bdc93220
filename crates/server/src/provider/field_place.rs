//! The place in a record that a window is of.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
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

    /// Returns the JSON text that a record has at the place, spelled as the server spelled it. If a
    /// field has the whole path as its name, that field's text.
    ///
    /// The record is never parsed as a whole: parsing would round numbers, and fails for some.
    pub(super) fn json_in<'j>(&self, record: &'j str) -> Option<&'j str> {
        let data = member(record, "data")?;
        let inner = || {
            let slashes = self.field.match_indices('/').map(|(at, _)| at);
            let mut places = slashes.filter_map(|at| self.field.split_at_checked(at));
            places.find_map(|(name, pointer)| at_pointer(member(data, name)?, pointer))
        };
        member(data, self.field).or_else(inner)
    }
}

/// Returns the JSON text of a member of an object; the last one of that name.
fn member<'j>(object: &'j str, name: &str) -> Option<&'j str> {
    let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|raw| raw.get())
}

/// Returns the JSON text at a JSON pointer (RFC 6901), which is empty or begins with a slash.
fn at_pointer<'j>(value: &'j str, pointer: &str) -> Option<&'j str> {
    pointer.split('/').skip(1).try_fold(value, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !value.starts_with('[') {
            return member(value, &step);
        }
        let is_index = step == "0" || !step.starts_with(['0', '+']);
        let index: usize = step.parse().ok().filter(|_| is_index)?;
        let items: Vec<&RawValue> = serde_json::from_str(value).ok()?;
        items.get(index).map(|raw| raw.get())
    })
}
