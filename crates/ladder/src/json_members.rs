//! Builds JSON objects from lists of members, as trees and as texts.

use serde::Serialize;
use serde_json::{Map, Value as Json};

/// Makes an object with the members in this order.
pub(super) fn json_object<const N: usize>(object: [(&str, Json); N]) -> Json {
    Json::Object(members(object))
}

/// Makes the members of an object, in this order.
pub(super) fn members<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    present_members(members.map(|(name, value)| (name, Some(value))))
}

/// Makes the members of an object from those that have a value, in this order.
pub(super) fn present_members<const N: usize>(
    members: [(&str, Option<Json>); N],
) -> Map<String, Json> {
    // `collect` would not know the number of members before.
    let mut object = Map::with_capacity(N);
    object.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    object
}

/// A JSON object as compact text, written one member after another.
///
/// A list has many small objects. As texts they cost a fraction of what trees cost, and the
/// transport sends texts as they are.
pub(super) struct ObjectText {
    /// What is written so far, without the bracket at the end.
    bytes: Vec<u8>,
}

impl ObjectText {
    /// Begins an object. `capacity` is its likely length in bytes.
    pub(super) fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(b'{');
        Self { bytes }
    }

    /// Adds a member.
    pub(super) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        self.value(value);
    }

    /// Adds a member if it has a value.
    pub(super) fn put_some(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Adds a member whose value is JSON text.
    pub(super) fn put_json(&mut self, name: &str, json: &str) {
        self.name(name);
        self.bytes.extend_from_slice(json.as_bytes());
    }

    /// Adds a member that is an object itself, whose members `write` adds.
    pub(super) fn put_object(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.name(name);
        self.bytes.push(b'{');
        write(self);
        self.bytes.push(b'}');
    }

    /// Adds a list of values that are JSON texts.
    pub(super) fn put_list<'a>(&mut self, name: &str, items: impl IntoIterator<Item = &'a str>) {
        self.name(name);
        let mut before = b'[';
        for item in items {
            self.bytes.push(before);
            self.bytes.extend_from_slice(item.as_bytes());
            before = b',';
        }
        if before == b'[' {
            self.bytes.push(before);
        }
        self.bytes.push(b']');
    }

    /// Returns the bytes that are written so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the object.
    pub(super) fn finish(mut self) -> String {
        self.bytes.push(b'}');
        // Only texts are written.
        String::from_utf8(self.bytes).unwrap_or_default()
    }

    fn name(&mut self, name: &str) {
        // After a bracket comes the first member. No value ends with that bracket.
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.value(name);
        self.bytes.push(b':');
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing texts, numbers and trees to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.bytes, value);
    }
}

/// Parses JSON that this crate wrote.
pub(super) fn tree(json: &str) -> Json {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_as_text_is_what_a_parser_reads_back() {
        let mut object = ObjectText::new(0);
        object.put("a\"b", "line\n\u{2028}");
        object.put_some("none", None::<&str>);
        object.put_some("some", Some(&json!([1, null])));
        object.put_json("json", "{\"x\":1}");
        object.put_list("none of them", []);
        object.put_list("list", ["1", "\"two\""]);
        object.put_object("empty", |_| ());
        object.put_object("{", |inner| {
            inner.put("brackets", "{");
            inner.put_object("deep", |deep| deep.put("x", &1));
        });
        object.put("last", &true);
        let expected = json!({
            "a\"b": "line\n\u{2028}", "some": [1, null], "json": { "x": 1 }, "none of them": [],
            "list": [1, "two"], "empty": {}, "{": { "brackets": "{", "deep": { "x": 1 } },
            "last": true,
        });
        assert_eq!(object.finish(), expected.to_string());
        assert_eq!(ObjectText::new(9).finish(), "{}");
    }
}
