//! The full declaration of a stream, for `detail: full`.
//!
//! A declaration is shown whole if it fits. Otherwise the answer shows each listed field with its
//! schema, which the flags lack, and the rest of the declaration separately. If that would leave
//! anything out, the declaration's JSON follows the fields in parts. The text and the structure
//! choose their form separately.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::super::budget::{escaped_len, json_len, members_len, prefix_within};
use super::super::error::LadderError;
use super::super::exact_numbers::numbers_are_exact;
use super::super::{text_lines, wire};
use super::field_flags::FieldFlags;
use super::listed_stream::{
    Connections, GrantedConnection, ListedStream, MAX_KEY_BYTES, stream_name,
};

/// The most bytes of a field's name and schema, in the text and in the structure.
const LINE_SCHEMA_BYTES: usize = 2 * 1024;
const SCHEMA_BYTES: usize = 16 * 1024;
/// The most bytes of a part within a JSON string. A constant, so that every page has the same
/// parts.
const PART_BYTES: usize = 2 * 1024;

/// A full declaration, and its form in the text and in the structure.
pub(super) struct FullDeclaration<'t> {
    /// The whole response, if it is short enough to be shown.
    whole: Option<Json>,
    /// The declaration of the listed stream. `None` if the stream is not found, or if parsing would
    /// round its numbers or fail.
    stream: Option<Map<String, Json>>,
    /// The JSON of the stream as the server sent it, or of the whole response if the stream is not
    /// found.
    raw: &'t str,
    pub(super) text: DeclarationForm,
    pub(super) rows: DeclarationForm,
}

/// How a text or a structure shows a declaration.
#[derive(Default)]
pub(super) struct DeclarationForm {
    /// Whether every page shows the whole declaration.
    is_whole: bool,
    /// Whether the JSON follows in parts.
    pub(super) has_parts: bool,
    /// The declaration without its fields, if it is short and not shown whole.
    rest: Option<Json>,
    /// The most bytes of a field's name and schema.
    schema_bytes: usize,
}

/// A response, of which only the names of streams are parsed.
#[derive(Deserialize)]
struct WireDeclaration<'t> {
    #[serde(borrow, default, deserialize_with = "wire::null_as_default")]
    connectors: Vec<WireConnector<'t>>,
}

#[derive(Deserialize)]
struct WireConnector<'t> {
    #[serde(default, deserialize_with = "wire::null_as_default")]
    granted_connections: Vec<GrantedConnection>,
    connector_id: Option<String>,
    #[serde(borrow, default, deserialize_with = "wire::null_as_default")]
    streams: Vec<&'t RawValue>,
}

#[derive(Deserialize)]
struct WireStreamName {
    name: String,
}

impl<'t> FullDeclaration<'t> {
    /// Reads a declaration and chooses its forms. A form takes at most half of its budget, `room`
    /// or `text_room`; the rest is for the fields.
    ///
    /// # Errors
    /// `provider_error` if the response is not an object.
    pub(super) fn of(
        json: &'t str,
        one: Option<&ListedStream<'_>>,
        room: usize,
        text_room: usize,
    ) -> Result<Self, LadderError> {
        let all: &RawValue = wire::parse(json)?;
        if !all.get().starts_with('{') {
            return Err(LadderError::invalid_response());
        }
        // Spaces and escapes may make the response longer than its rendering.
        let may_be_shown = all.get().len() <= room * 4 && numbers_are_exact(all.get());
        let whole: Option<Json> =
            if may_be_shown { serde_json::from_str(all.get()).ok() } else { None };
        let found = one.and_then(|(connections, listed)| {
            find_stream(all.get(), stream_name(listed), connections)
        });
        let stream = found
            .filter(|raw| numbers_are_exact(raw))
            .and_then(|raw| serde_json::from_str(raw).ok());
        let (text, rows) = Default::default();
        let mut full = Self { whole, stream, raw: found.unwrap_or(all.get()), text, rows };
        let bytes = full.whole.as_ref().map(json_len);
        let listed = one.map(|(_, listed)| *listed);
        full.text = full.form(listed, bytes, text_room, LINE_SCHEMA_BYTES);
        full.rows = full.form(listed, bytes, room, SCHEMA_BYTES);
        Ok(full)
    }

    fn form(
        &self,
        listed: Option<&Map<String, Json>>,
        bytes: Option<usize>,
        room: usize,
        schema_bytes: usize,
    ) -> DeclarationForm {
        let schema_bytes = schema_bytes.min(room / 4);
        if bytes.is_some_and(|bytes| bytes * 2 <= room) {
            return DeclarationForm { is_whole: true, has_parts: false, rest: None, schema_bytes };
        }
        let flags = listed
            .and_then(|listed| listed.get("field_capabilities")?.as_object())
            .and_then(FieldFlags::of);
        let key = listed.and_then(|listed| listed.get("primary_key"));
        let rest = self.rest(flags.as_ref(), key, room / 4);
        let is_covered = rest.is_some()
            && flags.is_some_and(|flags| self.is_covered_by_fields(&flags, schema_bytes));
        DeclarationForm {
            is_whole: false,
            has_parts: listed.is_some() && !is_covered,
            rest,
            schema_bytes,
        }
    }

    /// Returns whether the listed fields show everything that the declaration says about fields.
    fn is_covered_by_fields(&self, flags: &FieldFlags<'_>, schema_bytes: usize) -> bool {
        let Some(stream) = &self.stream else { return false };
        let properties = stream.get("schema").and_then(|schema| schema.get("properties"));
        let (Ok(capabilities), Ok(properties)) =
            (members(stream.get("field_capabilities")), members(properties))
        else {
            return false;
        };
        let is_said = |(name, capability): (&String, &Json)| {
            let (own, other) = (capability.get("schema"), properties.and_then(|all| all.get(name)));
            own.zip(other).is_none_or(|(own, other)| own == other)
                && flags.cover_capability(name, capability)
        };
        let is_short = |name: &String| {
            let schema = self.schema(name).map_or(0, json_len);
            schema == 0 || escaped_len(name) + schema <= schema_bytes
        };
        let mut names = capabilities.into_iter().chain(properties).flat_map(Map::keys);
        capabilities.into_iter().flatten().all(is_said)
            && names.all(|name| flags.lists(name) && is_short(name))
    }

    /// Returns the parts of the JSON.
    pub(super) fn parts(&self) -> Vec<&'t str> {
        if !(self.text.has_parts || self.rows.has_parts) {
            return Vec::new();
        }
        let (mut parts, mut rest) = (Vec::new(), self.raw);
        while !rest.is_empty() {
            let (part, _) = prefix_within(rest, usize::MAX, PART_BYTES);
            let (part, after) = rest.split_at(part.len());
            parts.push(part);
            rest = after;
        }
        parts
    }

    /// Returns the JSON that the parts make up.
    pub(super) fn raw(&self) -> &'t str {
        self.raw
    }

    /// Returns the whole declaration, if the structure shows it.
    pub(super) fn whole(&self) -> Option<&Json> {
        self.whole.as_ref().filter(|_| self.rows.is_whole)
    }

    /// Returns the declaration without fields, if the structure shows it on this page.
    pub(super) fn but_fields(&self, is_first: bool) -> Option<&Json> {
        self.rows.rest.as_ref().filter(|_| is_first)
    }

    /// Returns the length of the JSON if the structure shows nothing of the declaration.
    pub(super) fn left_out(&self) -> Option<usize> {
        let is_left_out = !self.rows.is_whole && !self.rows.has_parts && self.rows.rest.is_none();
        is_left_out.then_some(self.raw.len())
    }

    /// Returns the length of the declaration beside the fields in the structure.
    pub(super) fn bytes_shown(&self, is_first: bool) -> usize {
        self.whole().or(self.but_fields(is_first)).map_or(0, json_len)
    }

    /// Renders the text's line: the whole declaration on every page, or on the first page what is
    /// not about fields.
    pub(super) fn line(&self, is_first: bool) -> Option<String> {
        if let Some(whole) = self.whole.as_ref().filter(|_| self.text.is_whole) {
            return Some(text_lines::escape_line_breaks(format!("full: {whole}")));
        }
        let line = match (&self.text.rest, self.text.has_parts) {
            (Some(rest), _) => {
                text_lines::escape_line_breaks(format!("full, but for its fields: {rest}"))
            }
            (None, true) => {
                format!("full: {} bytes, in the parts after the fields", self.raw.len())
            }
            (None, false) => {
                format!(
                    "full: {} bytes are left out; ask for one `stream` of one connection",
                    self.raw.len()
                )
            }
        };
        is_first.then_some(line)
    }

    /// Renders what follows a field's line in the text.
    pub(super) fn beside(&self, field: &str) -> String {
        match self.schema_in(&self.text, field) {
            None => String::new(),
            Some(Ok(schema)) => format!(" schema={schema}"),
            Some(Err(bytes)) => format!(" schema: {bytes} bytes, in the parts after the fields"),
        }
    }

    /// Returns a field's schema for the structure; `None` if the schema is in the parts or in the
    /// whole.
    pub(super) fn member(&self, field: &str) -> Option<Json> {
        self.schema_in(&self.rows, field)?.ok().cloned()
    }

    /// Returns a field's schema in a form, or its length if it is too long. `None` if the form
    /// shows the whole declaration.
    fn schema_in(&self, form: &DeclarationForm, field: &str) -> Option<Result<&Json, usize>> {
        let schema = self.schema(field).filter(|_| !form.is_whole)?;
        let bytes = json_len(schema);
        Some(if escaped_len(field) + bytes <= form.schema_bytes { Ok(schema) } else { Err(bytes) })
    }

    fn schema(&self, field: &str) -> Option<&Json> {
        let declared = self.stream.as_ref()?;
        let own =
            declared.get("field_capabilities").and_then(|fields| fields.get(field)?.get("schema"));
        let own = own.or_else(|| declared.get("schema")?.get("properties")?.get(field));
        own.filter(|schema| !schema.is_null())
    }

    /// Returns the declaration without fields, in at most `most` bytes. If there is not enough
    /// room, leaves out `query` and `primary_key` where the flags and `key` say the same.
    fn rest(
        &self,
        flags: Option<&FieldFlags<'_>>,
        key: Option<&Json>,
        max_bytes: usize,
    ) -> Option<Json> {
        let declared = self.stream.as_ref()?;
        let mut rest: Map<String, Json> = without(declared, &["field_capabilities", "schema"]);
        let schema = declared.get("schema").map(|schema| match schema {
            Json::Object(own) => Json::Object(without(own, &["properties"])),
            other => other.clone(),
        });
        let schema = schema.filter(|schema| schema.as_object().is_none_or(|own| !own.is_empty()));
        rest.extend(schema.map(|schema| ("schema".to_owned(), schema)));
        let is_short = |rest: &Map<String, Json>| members_len(rest) + 2 <= max_bytes;
        if !is_short(&rest) {
            let is_said = |query: &Json| flags.is_some_and(|flags| flags.cover_query(query));
            rest.retain(|name, value| match name.as_str() {
                "query" => !is_said(value),
                "primary_key" => key != Some(value) || json_len(value) > MAX_KEY_BYTES,
                _ => true,
            });
        }
        Some(rest).filter(is_short).map(Json::Object)
    }
}

/// Returns the members of an object; `None` if the value is absent or null.
///
/// # Errors
/// If the value is something else.
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

/// Finds the JSON of a stream by its name and connection. A stream that has another connection
/// counts if no other has the name.
fn find_stream<'t>(json: &'t str, name: &str, connections: &Connections) -> Option<&'t str> {
    let raw: WireDeclaration<'t> = serde_json::from_str(json).ok()?;
    let is_named = |stream: &&&RawValue| {
        serde_json::from_str::<WireStreamName>(stream.get()).is_ok_and(|own| own.name == name)
    };
    let (mut own, mut others) = (None, Vec::new());
    for WireConnector { granted_connections, connector_id, streams } in &raw.connectors {
        let ids =
            granted_connections.iter().map(|granted| &granted.connection_id).chain(connector_id);
        let is_own = ids.into_iter().any(|id| connections.named.contains(id));
        for stream in streams.iter().filter(is_named) {
            match is_own {
                true => own = own.or(Some(stream.get())),
                false => others.push(stream.get()),
            }
        }
    }
    own.or(others.first().copied().filter(|_| others.len() == 1))
}
