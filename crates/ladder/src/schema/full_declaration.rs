//! The whole declaration of a stream, as `detail: full` asks for it.
//!
//! It is shown as it came where there is room for it. Where there is none, each field that is
//! listed has its schema beside it, which is what the words of the compact form do not say, and the
//! rest of the declaration stands by itself. Where that would leave anything out, the JSON comes in
//! parts after the fields, as it was sent. Text and structure each show it in the form that they
//! have room for.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::super::budget::{escaped_len, json_len, members_len, prefix_within};
use super::super::error::LadderError;
use super::super::exact_numbers::numbers_are_exact;
use super::super::{text_lines, wire};
use super::field_flags::FieldFlags;
use super::{Connections, GrantedConnection, ListedStream, MAX_KEY_BYTES};

/// The bytes of a field's name and schema in a text, and in a structure, at most.
const LINE_SCHEMA_BYTES: usize = 2 * 1024;
const SCHEMA_BYTES: usize = 16 * 1024;
/// The bytes of one part inside of a JSON string, at most. It depends on nothing, so that parts are
/// the same ones on every page.
const PART_BYTES: usize = 2 * 1024;

/// A declaration.
pub(super) struct FullDeclaration<'t> {
    /// The answer that has it, where it is short enough to be shown whole.
    whole: Option<Json>,
    /// The stream whose fields are listed. None where it is not found, or this program would round
    /// its numbers or has no room for its depth.
    stream: Option<Map<String, Json>>,
    /// The JSON of that stream as it was sent; of all of it where the stream is not found.
    raw: &'t str,
    pub(super) text: DeclarationForm,
    pub(super) rows: DeclarationForm,
}

/// How a declaration is shown in a text or in a structure.
#[derive(Default)]
pub(super) struct DeclarationForm {
    /// All of it, on every page.
    is_whole: bool,
    /// Its JSON in parts.
    pub(super) has_parts: bool,
    /// What is declared but for single fields, where that is short and not all of it is shown.
    rest: Option<Json>,
    /// The bytes of a field's name and schema, at most.
    schema_bytes: usize,
}

/// An answer, of which only the names of streams are looked at.
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
    /// In at most half of these rooms, beside the fields of a stream, if they are listed.
    ///
    /// # Errors
    /// Where it is no object.
    pub(super) fn of(
        told: &'t str,
        one: Option<&ListedStream<'_>>,
        room: usize,
        text_room: usize,
    ) -> Result<Self, LadderError> {
        let all: &RawValue =
            serde_json::from_str(told).map_err(|_| LadderError::invalid_response())?;
        if !all.get().starts_with('{') {
            return Err(LadderError::invalid_response());
        }
        // Spaces and escapes may make it several times as long as it is shown.
        let may_be_shown = all.get().len() <= room * 4 && numbers_are_exact(all.get());
        let whole: Option<Json> =
            if may_be_shown { serde_json::from_str(all.get()).ok() } else { None };
        let found = one.and_then(|(connections, listed)| {
            find_stream(all.get(), super::stream_name(listed), connections)
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
        let is_told = rest.is_some()
            && flags.is_some_and(|flags| self.is_covered_by_fields(&flags, schema_bytes));
        DeclarationForm {
            is_whole: false,
            has_parts: listed.is_some() && !is_told,
            rest,
            schema_bytes,
        }
    }

    /// Whether all that is declared of single fields stands beside those that are listed.
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

    /// The parts of its JSON.
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

    /// The JSON that the parts are of.
    pub(super) fn raw(&self) -> &'t str {
        self.raw
    }

    /// All of it, where the structure has that.
    pub(super) fn whole(&self) -> Option<&Json> {
        self.whole.as_ref().filter(|_| self.rows.is_whole)
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

    /// A field's schema in a form that has not all of it, or its bytes, where it is too long for
    /// that.
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

    /// What is declared but for single fields, in so many bytes; without what can be asked for and
    /// the key, where these words and this key say the same and there is no room for both.
    fn rest(
        &self,
        flags: Option<&FieldFlags<'_>>,
        key: Option<&Json>,
        most: usize,
    ) -> Option<Json> {
        let declared = self.stream.as_ref()?;
        let mut rest: Map<String, Json> = without(declared, &["field_capabilities", "schema"]);
        let schema = declared.get("schema").map(|schema| match schema {
            Json::Object(own) => Json::Object(without(own, &["properties"])),
            other => other.clone(),
        });
        let schema = schema.filter(|schema| schema.as_object().is_none_or(|own| !own.is_empty()));
        rest.extend(schema.map(|schema| ("schema".to_owned(), schema)));
        let is_short = |rest: &Map<String, Json>| members_len(rest) + 2 <= most;
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

/// The JSON of the stream of that name and one of these connections; of whichever connection where
/// it is the only one.
fn find_stream<'t>(told: &'t str, name: &str, connections: &Connections) -> Option<&'t str> {
    let raw: WireDeclaration<'t> = serde_json::from_str(told).ok()?;
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
