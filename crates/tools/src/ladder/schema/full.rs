//! The whole declaration of a stream, as `detail: full` asks for it.
//!
//! It is shown as it came where there is room for it. Where there is none, each field that is listed has its schema beside
//! it, which is what the words of the compact form do not say, and the rest of the declaration has a line of its own. What
//! is too long for that is in the parts of the declaration's JSON, which are listed after the fields.

use serde_json::{Map, Value as Json, json};

use super::super::budget::{beginning, json_len};
use super::super::lines;

/// The bytes of one field's schema in a text, and in a structure.
const LINE_SCHEMA_BYTES: usize = 2 * 1024;
const SCHEMA_BYTES: usize = 16 * 1024;

/// The bytes of one part inside of a JSON string, at most, and beside it in its line.
const PART_BYTES: usize = 2 * 1024;
const PART_AROUND_BYTES: usize = 64;

/// A declaration.
pub(super) struct Full {
    told: Json,
    /// Where in it the stream is of which the fields are listed: its connector, and its place there.
    place: Option<(usize, usize)>,
    bytes: usize,
    /// Whether all of it is in the structure.
    pub(super) is_in_rows: bool,
    /// Whether all of it is in the text.
    is_in_text: bool,
    /// The bytes that a text has for all of it.
    text_room: usize,
    /// The JSON that is told in parts, where an answer leaves something out.
    in_parts: Option<String>,
}

impl Full {
    /// In at most half of these rooms, beside the fields of a stream, if they are listed.
    pub(super) fn of(told: &str, listed: Option<&Map<String, Json>>, room: usize, text_room: usize) -> Option<Self> {
        let told = Json::Object(serde_json::from_str(told).ok()?);
        let place = listed.and_then(|stream| place(&told, super::name(stream)));
        let bytes = json_len(&told);
        let text_room = text_room / 2;
        let (is_in_rows, is_in_text) = (bytes * 2 <= room, bytes <= text_room);
        let mut full = Self { bytes, is_in_rows, is_in_text, text_room, place, told, in_parts: None };
        if listed.is_some_and(|listed| full.leaves_out(listed)) {
            full.in_parts =
                Some(full.stream().map_or_else(|| full.told.to_string(), |stream| json!(stream).to_string()));
        }
        Some(full)
    }

    /// Whether the structure has not all of it, or the text not even what is said of it beside the fields.
    fn leaves_out(&self, listed: &Map<String, Json>) -> bool {
        let is_short = |name: &String| self.schema(name).is_none_or(|schema| json_len(schema) <= LINE_SCHEMA_BYTES);
        let is_in_lines = || self.rest().is_some() && super::fields(listed).all(|(name, _)| is_short(name));
        !(self.is_in_rows && (self.is_in_text || is_in_lines()))
    }

    /// The parts of its JSON, which together are all of what the fields' lines are of.
    pub(super) fn parts(&self) -> Vec<&str> {
        let mut rest = self.in_parts.as_deref().unwrap_or_default();
        let most = self.text_room.saturating_sub(PART_AROUND_BYTES).min(PART_BYTES);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, _) = beginning(rest, usize::MAX, most);
            // A character at least, however little room there is.
            let end = if part.is_empty() { rest.chars().next().map_or(rest.len(), char::len_utf8) } else { part.len() };
            let (part, after) = rest.split_at(end);
            parts.push(part);
            rest = after;
        }
        parts
    }

    /// All of it, where that is in the structure, and how long it is where it is not.
    pub(super) fn declaration(&self) -> Result<&Json, usize> {
        if self.is_in_rows { Ok(&self.told) } else { Err(self.bytes) }
    }

    /// The bytes that it has in the structure.
    pub(super) fn bytes_shown(&self) -> usize {
        if self.is_in_rows { self.bytes } else { 0 }
    }

    /// In a text: all of it on every page, or on the first one what is not of single fields.
    pub(super) fn line(&self, is_first: bool) -> Option<String> {
        if self.is_in_text {
            return Some(lines::plain(format!("full: {}", self.told)));
        }
        let line = match self.rest() {
            Some(rest) => lines::plain(format!("full, but for its fields: {rest}")),
            None if self.in_parts.is_some() => format!("full: {} bytes, in the parts after the fields", self.bytes),
            None => format!("full: left out, {} bytes", self.bytes),
        };
        is_first.then_some(line)
    }

    /// What is declared but for single fields, if that is short.
    fn rest(&self) -> Option<Json> {
        /// What the lines of fields say, and what they say too.
        const OF_FIELDS: [&[&str]; 2] =
            [&["schema", "field_capabilities"], &["schema", "field_capabilities", "query", "primary_key"]];
        let declared = self.stream()?;
        let rest = OF_FIELDS.into_iter().map(|left_out| {
            let kept = declared.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
            Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        });
        rest.into_iter().find(|rest| json_len(rest) <= self.text_room / 2)
    }

    /// What stands behind a field's line in a text that has not all of it.
    pub(super) fn beside(&self, field: &str) -> String {
        match self.schema(field).filter(|_| !self.is_in_text) {
            None => String::new(),
            Some(schema) if json_len(schema) <= LINE_SCHEMA_BYTES => format!(" schema={schema}"),
            Some(schema) => format!(" schema: {} bytes, in the parts after the fields", json_len(schema)),
        }
    }

    /// A field's schema in a structure that has not all of it.
    pub(super) fn member(&self, field: &str) -> Option<Json> {
        let schema = self.schema(field).filter(|_| !self.is_in_rows)?;
        let bytes = json_len(schema);
        Some(if bytes <= SCHEMA_BYTES { schema.clone() } else { json!({ "left_out_bytes": bytes }) })
    }

    fn schema(&self, field: &str) -> Option<&Json> {
        let declared = self.stream()?;
        let own = declared.get("field_capabilities").and_then(|fields| fields.get(field)?.get("schema"));
        let own = own.or_else(|| declared.get("schema")?.get("properties")?.get(field));
        own.filter(|schema| !schema.is_null())
    }

    /// The stream whose fields are listed.
    fn stream(&self) -> Option<&Map<String, Json>> {
        let (connector, stream) = self.place?;
        self.told.get("connectors")?.get(connector)?.get("streams")?.get(stream)?.as_object()
    }
}

/// Where the first stream of that name is.
fn place(told: &Json, name: &str) -> Option<(usize, usize)> {
    let streams = |connector: &Json| -> Option<usize> {
        let streams = connector.get("streams")?.as_array()?;
        streams.iter().position(|stream| stream.as_object().is_some_and(|stream| super::name(stream) == name))
    };
    let mut connectors = told.get("connectors")?.as_array()?.iter().enumerate();
    connectors.find_map(|(at, connector)| Some((at, streams(connector)?)))
}
