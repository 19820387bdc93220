//! The whole declaration of a stream, as `detail: full` asks for it.
//!
//! It is shown as it came where there is room for it. Where there is none, each field that is listed has its schema beside
//! it, which is what the words of the compact form do not say, and the rest of the declaration has a line of its own.

use serde_json::{Map, Value as Json, json};

use super::super::budget::json_len;
use super::super::lines;

/// The bytes of one field's schema in a text, and in a structure.
const LINE_SCHEMA_BYTES: usize = 2 * 1024;
const SCHEMA_BYTES: usize = 16 * 1024;

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
}

impl Full {
    /// In at most half of these rooms, beside the fields of a stream, if they are listed.
    pub(super) fn of(told: &str, listed: Option<&str>, room: usize, text_room: usize) -> Option<Self> {
        let told = Json::Object(serde_json::from_str(told).ok()?);
        let place = listed.and_then(|name| place(&told, name));
        let bytes = json_len(&told);
        let text_room = text_room / 2;
        Some(Self { bytes, is_in_rows: bytes * 2 <= room, is_in_text: bytes <= text_room, text_room, place, told })
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
        let left_out = format!("full: left out, {} bytes", self.bytes);
        let Some(declared) = self.stream() else { return Some(left_out) };
        /// What the lines of fields say, and what they say too.
        const OF_FIELDS: [&[&str]; 2] =
            [&["schema", "field_capabilities"], &["schema", "field_capabilities", "query", "primary_key"]];
        let rest = OF_FIELDS.into_iter().map(|left_out| {
            let kept = declared.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
            Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        });
        let line = match rest.into_iter().find(|rest| json_len(rest) <= self.text_room / 2) {
            Some(rest) => lines::plain(format!("full, but for its fields: {rest}")),
            None => left_out + ", but for the schema of each field",
        };
        is_first.then_some(line)
    }

    /// What stands behind a field's line in a text that has not all of it.
    pub(super) fn beside(&self, field: &str) -> String {
        match self.schema(field).filter(|_| !self.is_in_text) {
            None => String::new(),
            Some(schema) if json_len(schema) <= LINE_SCHEMA_BYTES => format!(" schema={schema}"),
            Some(schema) => format!(" schema: left out, {} bytes", json_len(schema)),
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
