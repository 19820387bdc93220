//! The whole declaration of a stream, as `detail: full` asks for it.
//!
//! It is shown as it came where there is room for it. Where there is none, each field that is listed has its schema beside
//! it, which is what the words of the compact form do not say, and the rest of the declaration stands by itself. Where
//! that would leave anything out, the JSON comes in parts after the fields, as it was sent. Text and structure each show
//! it in the form that they have room for.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::super::budget::{beginning, escaped_len, json_len, members_len};
use super::super::exact::is_exact;
use super::super::trouble::Trouble;
use super::super::{lines, told};
use super::KEY_BYTES;

/// The bytes of a field's name and schema in a text, and in a structure, at most.
const LINE_SCHEMA_BYTES: usize = 2 * 1024;
const SCHEMA_BYTES: usize = 16 * 1024;
/// The bytes of one part inside of a JSON string, at most.
const PART_BYTES: usize = 2 * 1024;

/// A declaration.
pub(super) struct Full<'t> {
    /// The answer that has it. Null where this program would round its numbers or has no room for its depth.
    told: Json,
    bytes: usize,
    /// Where in it the stream is of which the fields are listed: its connector, and its place there.
    place: Option<(usize, usize)>,
    /// The JSON of that stream as it was sent; of all of it where the stream is not found.
    raw: &'t str,
    part_bytes: usize,
    pub(super) text: Form,
    pub(super) rows: Form,
}

/// How a declaration is shown in a text or in a structure.
#[derive(Default)]
pub(super) struct Form {
    /// All of it, on every page.
    is_whole: bool,
    /// Its JSON in parts.
    pub(super) has_parts: bool,
    /// What is declared but for single fields, where that is short and not all of it is shown.
    rest: Option<Json>,
    /// The bytes of a field's name and schema, at most.
    schema_bytes: usize,
}

/// An answer, of which only the JSON of streams is looked at.
#[derive(Deserialize)]
struct Raw<'t> {
    #[serde(borrow, default, deserialize_with = "told::or_default")]
    connectors: Vec<RawConnector<'t>>,
}

#[derive(Deserialize)]
struct RawConnector<'t> {
    #[serde(borrow, default, deserialize_with = "told::or_default")]
    streams: Vec<&'t RawValue>,
}

impl<'t> Full<'t> {
    /// In at most half of these rooms, beside the fields of a stream, if they are listed.
    ///
    /// # Errors
    /// Where it is no object.
    pub(super) fn of(
        told: &'t str,
        listed: Option<&Map<String, Json>>,
        room: usize,
        text_room: usize,
    ) -> Result<Self, Trouble> {
        let all: &RawValue = serde_json::from_str(told).map_err(|_| Trouble::not_understood())?;
        if !all.get().starts_with('{') {
            return Err(Trouble::not_understood());
        }
        let told: Json = serde_json::from_str(told).ok().filter(|_| is_exact(told)).unwrap_or_default();
        let place = listed.and_then(|stream| place(&told, super::name(stream)));
        let raw = place.and_then(|place| raw_stream(all.get(), place)).unwrap_or(all.get());
        let (bytes, part_bytes) = (json_len(&told), PART_BYTES.min(text_room / 4));
        let (text, rows) = Default::default();
        let mut full = Self { told, bytes, place, raw, part_bytes, text, rows };
        full.text = full.form(listed, text_room, LINE_SCHEMA_BYTES);
        full.rows = full.form(listed, room, SCHEMA_BYTES);
        Ok(full)
    }

    fn form(&self, listed: Option<&Map<String, Json>>, room: usize, schema_bytes: usize) -> Form {
        let schema_bytes = schema_bytes.min(room / 4);
        if self.told.is_object() && self.bytes * 2 <= room {
            return Form { is_whole: true, has_parts: false, rest: None, schema_bytes };
        }
        let rest = self.rest(room / 4);
        let is_told = |listed| rest.is_some() && self.is_told_beside(listed, schema_bytes);
        let has_parts = listed.is_some_and(|listed| !is_told(listed));
        Form { is_whole: false, has_parts, rest, schema_bytes }
    }

    /// Whether all that is declared of single fields stands beside those that are listed.
    fn is_told_beside(&self, listed: &Map<String, Json>, schema_bytes: usize) -> bool {
        /// What the words of the compact form say, and the schema.
        const KNOWN: [&str; 6] = ["granted", "schema", "exact_filter", "range_filter", "lexical_search", "aggregation"];
        let Some(stream) = self.stream() else { return false };
        let capabilities = members(stream.get("field_capabilities"));
        let properties = members(stream.get("schema").and_then(|schema| schema.get("properties")));
        let listed = members(listed.get("field_capabilities"));
        let (Ok(capabilities), Ok(properties), Ok(Some(listed))) = (capabilities, properties, listed) else {
            return false;
        };
        let known = |(name, capability): (&String, &Json)| {
            let own = capability.as_object();
            let is_known = own.is_some_and(|own| own.keys().all(|member| KNOWN.contains(&member.as_str())));
            let (own, other) = (capability.get("schema"), properties.and_then(|all| all.get(name)));
            is_known && own.zip(other).is_none_or(|(own, other)| own == other)
        };
        let is_short = |name: &String| {
            let schema = self.schema(name).map_or(0, json_len);
            schema == 0 || escaped_len(name) + schema <= schema_bytes
        };
        let mut names = capabilities.into_iter().chain(properties).flat_map(Map::keys);
        listed.values().all(Json::is_string)
            && capabilities.into_iter().flatten().all(known)
            && names.all(|name| listed.contains_key(name) && is_short(name))
    }

    /// The parts of its JSON.
    pub(super) fn parts(&self) -> Vec<&'t str> {
        if !(self.text.has_parts || self.rows.has_parts) {
            return Vec::new();
        }
        let (mut parts, mut rest) = (Vec::new(), self.raw);
        while !rest.is_empty() {
            let (part, _) = beginning(rest, usize::MAX, self.part_bytes);
            // A character at least, however little room there is.
            let end = if part.is_empty() { rest.chars().next().map_or(rest.len(), char::len_utf8) } else { part.len() };
            let (part, after) = rest.split_at(end);
            parts.push(part);
            rest = after;
        }
        parts
    }

    /// The JSON that the parts are of.
    pub(super) fn raw(&self) -> &'t str {
        self.raw
    }

    /// All of it, where the structure has that.
    pub(super) fn whole(&self) -> Option<&Json> {
        Some(&self.told).filter(|_| self.rows.is_whole)
    }

    /// What is declared but for single fields, where the structure has not all of it.
    pub(super) fn but_fields(&self, is_first: bool) -> Option<&Json> {
        self.rows.rest.as_ref().filter(|_| is_first)
    }

    /// How many bytes there are, where the structure has nothing of them.
    pub(super) fn left_out(&self) -> Option<usize> {
        let is_left_out = !self.rows.is_whole && !self.rows.has_parts && self.rows.rest.is_none();
        is_left_out.then_some(self.raw.len())
    }

    /// The bytes of what the structure has of it beside the fields.
    pub(super) fn bytes_shown(&self, is_first: bool) -> usize {
        self.whole().or(self.but_fields(is_first)).map_or(0, json_len)
    }

    /// In a text: all of it on every page, or on the first one what is not of single fields.
    pub(super) fn line(&self, is_first: bool) -> Option<String> {
        if self.text.is_whole {
            return Some(lines::plain(format!("full: {}", self.told)));
        }
        let line = match (&self.text.rest, self.text.has_parts) {
            (Some(rest), _) => lines::plain(format!("full, but for its fields: {rest}")),
            (None, true) => format!("full: {} bytes, in the parts after the fields", self.raw.len()),
            (None, false) => {
                format!("full: {} bytes are left out; ask for one `stream` of one connection", self.raw.len())
            }
        };
        is_first.then_some(line)
    }

    /// What stands behind a field's line in a text that has not all of it.
    pub(super) fn beside(&self, field: &str) -> String {
        match self.schema_in(&self.text, field) {
            None => String::new(),
            Some(Ok(schema)) => format!(" schema={schema}"),
            Some(Err(bytes)) => format!(" schema: {bytes} bytes, in the parts after the fields"),
        }
    }

    /// A field's schema in a structure that has not all of it; none where it is in the parts.
    pub(super) fn member(&self, field: &str) -> Option<Json> {
        self.schema_in(&self.rows, field)?.ok().cloned()
    }

    /// A field's schema in a form that has not all of it, or its bytes, where it is too long for that.
    fn schema_in(&self, form: &Form, field: &str) -> Option<Result<&Json, usize>> {
        let schema = self.schema(field).filter(|_| !form.is_whole)?;
        let bytes = json_len(schema);
        Some(if escaped_len(field) + bytes <= form.schema_bytes { Ok(schema) } else { Err(bytes) })
    }

    fn schema(&self, field: &str) -> Option<&Json> {
        let declared = self.stream()?;
        let own = declared.get("field_capabilities").and_then(|fields| fields.get(field)?.get("schema"));
        let own = own.or_else(|| declared.get("schema")?.get("properties")?.get(field));
        own.filter(|schema| !schema.is_null())
    }

    /// What is declared but for single fields, in so many bytes.
    fn rest(&self, most: usize) -> Option<Json> {
        let declared = self.stream()?;
        let mut rest: Map<String, Json> = without(declared, &["field_capabilities", "schema"]);
        let schema = declared.get("schema").map(|schema| match schema {
            Json::Object(own) => Json::Object(without(own, &["properties"])),
            other => other.clone(),
        });
        let schema = schema.filter(|schema| schema.as_object().is_none_or(|own| !own.is_empty()));
        rest.extend(schema.map(|schema| ("schema".to_owned(), schema)));
        let is_short = |rest: &Map<String, Json>| members_len(rest) + 2 <= most;
        if !is_short(&rest) && is_repeated(&rest) {
            rest.retain(|name, _| !matches!(name.as_str(), "query" | "primary_key"));
        }
        Some(rest).filter(is_short).map(Json::Object)
    }

    /// The stream whose fields are listed.
    fn stream(&self) -> Option<&Map<String, Json>> {
        let (connector, stream) = self.place?;
        self.told.get("connectors")?.get(connector)?.get("streams")?.get(stream)?.as_object()
    }
}

/// Whether the key and what can be asked for stand in the lines of the stream and of its fields too.
fn is_repeated(declared: &Map<String, Json>) -> bool {
    let is_of = |value: Option<&Json>, names: &[&str]| match members(value) {
        Ok(members) => members.is_none_or(|members| members.keys().all(|name| names.contains(&name.as_str()))),
        Err(()) => false,
    };
    let query = declared.get("query");
    is_of(query, &["range_filters", "exact_filters", "search", "aggregations"])
        && is_of(query.and_then(|query| query.get("search")), &["lexical_fields"])
        && declared.get("primary_key").is_none_or(|key| json_len(key) <= KEY_BYTES)
}

/// The members of an object, if there is one.
///
/// # Errors
/// Where it is something else.
fn members(value: Option<&Json>) -> Result<Option<&Map<String, Json>>, ()> {
    match value {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(members)) => Ok(Some(members)),
        Some(_) => Err(()),
    }
}

fn without(object: &Map<String, Json>, names: &[&str]) -> Map<String, Json> {
    let kept = object.iter().filter(|(name, _)| !names.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
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

/// The JSON of the stream at a place.
fn raw_stream(told: &str, (connector, stream): (usize, usize)) -> Option<&str> {
    let raw: Raw<'_> = serde_json::from_str(told).ok()?;
    Some(raw.connectors.get(connector)?.streams.get(stream)?.get())
}
