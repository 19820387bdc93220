//! The place in a record that a window is of.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use stile_domain::records::request::{GetFieldWindow, GetRecord, ReadRequest};

/// The place that a request for a window names: a field, or a value within it.
pub(super) struct FieldPlace<'r> {
    pub(super) request: &'r GetFieldWindow,
    field: &'r str,
}

impl<'r> FieldPlace<'r> {
    /// Returns the place of a request. `None` if the request is not for a window.
    pub(super) fn of(request: &'r ReadRequest) -> Option<Self> {
        let ReadRequest::FieldWindow(request) = request else { return None };
        Some(Self { request, field: request.field.as_deref()? })
    }

    /// The field's name, perhaps with a JSON pointer behind it.
    pub(super) fn field(&self) -> &'r str {
        self.field
    }

    /// Returns whether the place may be within a field.
    pub(super) fn may_be_inner(&self) -> bool {
        self.field.contains('/')
    }

    /// Returns the connection that the request names.
    pub(super) fn connection(&self) -> Option<&'r str> {
        self.request.connection.name().ok().flatten()
    }

    /// Returns the request for the record.
    pub(super) fn record(&self) -> GetRecord {
        let GetFieldWindow { stream, key, connection, .. } = self.request.clone();
        GetRecord { stream, key, connection, ..GetRecord::default() }
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
