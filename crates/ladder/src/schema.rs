//! `schema`: the streams, and what a caller can do with their fields.

mod field_flags;
mod full_declaration;
mod listed_stream;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use stile_domain::records::handle::SkipCursor;
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::request::GetSchema;
use stile_domain::records::sealed_cursor::Binding;

use self::full_declaration::FullDeclaration;
use self::listed_stream::{Connections, ListedStream, MAX_KEY_BYTES, WireConnector, stream_name};
use super::budget::{json_len, take_fitting};
use super::call_context::CallContext;
use super::error::LadderError;
use super::output::{RecordOutput, Shape};
use super::record_tool::RecordTool;
use super::{text_lines, wire};

/// The most bytes of fields beside the name of a stream when all streams are listed.
const MAX_FIELDS_BYTES: usize = 4 * 1024;
/// Bytes reserved for the first lines of the text and the line that continues.
const RESERVED_TEXT_BYTES: usize = 600;
/// Bytes reserved for the structure's members beside the list.
const RESERVED_STRUCTURE_BYTES: usize = 640;

/// What there is to ask for: streams, their connections and fields. Begin here, or with `search`.
/// Of a field: t= type, eq filter by value, r= ranges, lex searched, a= aggregates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// `full` adds the whole declaration of one `stream`.
    detail: Option<Detail>,
    /// Of this stream, with its fields.
    stream: Option<String>,
    /// Of one connection only.
    connection_id: Option<String>,
    /// `next_cursor` of an answer, with the same other arguments.
    cursor: Option<String>,
}

/// How much an answer says about a stream.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "each is what it is called, and a text for each would stand in every list of tools"
)]
pub enum Detail {
    Compact,
    Full,
}

/// The compact form of the schema in a response.
#[derive(Deserialize)]
struct WireSchema {
    bearer: Option<Json>,
    #[serde(default, deserialize_with = "wire::null_as_default")]
    connectors: Vec<WireConnector>,
}

/// An item of the list: a stream or, for a single stream, a field or a part of its declaration.
enum ListedItem<'a> {
    Stream {
        connections: &'a Connections,
        stream: &'a Map<String, Json>,
        has_call: bool,
        detail: Detail,
    },
    Field {
        name: &'a str,
        flags: &'a Json,
    },
    Part {
        number: usize,
        of: usize,
        json: &'a str,
    },
}

/// The structured answers of `schema`.
#[derive(Serialize, JsonSchema)]
pub struct SchemaAnswer {
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    bearer: Option<Json>,
    #[schemars(with = "Vec<StreamShape>")]
    streams: Json,
    #[schemars(with = "i64")]
    shown: usize,
    #[schemars(with = "i64")]
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Json>>")]
    full: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    full_but_fields: Option<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Json>>")]
    full_parts: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    full_left_out_bytes: Option<usize>,
}

// A stream has more members than each one has.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
struct StreamShape {
    name: Json,
    connections: Json,
}

impl Shape for SchemaAnswer {
    const IS_OPEN: bool = true;
}

impl RecordTool for Schema {
    const NAME: &'static str = "schema";
    const TITLE: &'static str = "What records there are";
    type Shape = SchemaAnswer;

    async fn run(self, context: &CallContext) -> Result<RecordOutput<SchemaAnswer>, LadderError> {
        let request = GetSchema {
            stream: self.stream.clone(),
            connection: self.connection_id.clone().into(),
            ..GetSchema::default()
        };
        let full = match self.detail {
            Some(Detail::Full) => {
                let request = GetSchema { detail: Some("full"), ..request.clone() };
                Some(context.send(request).await?)
            }
            _ => None,
        };
        let text = context.send(GetSchema { view: Some("compact"), ..request }).await?;
        let response: WireSchema = wire::parse(&text)?;
        let connections: Vec<Connections> =
            response.connectors.iter().map(WireConnector::connections).collect();
        let streams = response.connectors.iter().zip(&connections);
        let streams = streams
            .flat_map(|(connector, own)| connector.streams.iter().map(move |stream| (own, stream)));
        let wanted = |(_, stream): &ListedStream<'_>| {
            self.stream.as_deref().is_none_or(|wanted| stream_name(stream) == wanted)
        };
        let streams: Vec<ListedStream<'_>> = streams.filter(wanted).collect();
        self.page(context, &streams, response.bearer, full.as_deref())
    }
}

/// All items, of which an answer shows a page.
struct Listing<'a> {
    /// The single stream that the caller asked for.
    one: Option<&'a ListedStream<'a>>,
    full: Option<&'a FullDeclaration<'a>>,
    /// Parts of a declaration come last.
    items: Vec<ListedItem<'a>>,
    /// How many items are not parts.
    own: usize,
    /// The lines of these items, without schemas.
    lines: Vec<String>,
}

impl Schema {
    fn page(
        &self,
        context: &CallContext,
        streams: &[ListedStream<'_>],
        bearer: Option<Json>,
        full: Option<&str>,
    ) -> Result<RecordOutput<SchemaAnswer>, LadderError> {
        let one = match streams {
            [one] if self.stream.is_some() => Some(one),
            _ => None,
        };
        let head = one.map(|(connections, stream)| stream_line(connections, stream));
        let most = context.budgets.structured_beside(context.budgets.schema);
        let room = most.saturating_sub(RESERVED_STRUCTURE_BYTES);
        let reserved = RESERVED_TEXT_BYTES + head.as_ref().map_or(0, |head| head.len() + 1);
        let text_room = context.budgets.schema.saturating_sub(reserved);
        let full = full.map(|json| FullDeclaration::of(json, one, room, text_room)).transpose()?;
        let parts = full.as_ref().map(FullDeclaration::parts).unwrap_or_default();
        let listing = Listing::of(one, full.as_ref(), self.items(one, streams, &parts));
        let skipped = listing.skipped(context, self.cursor.as_deref())?;
        let (mut text, in_text) = listing.text(skipped, text_room, head);
        let of_text = listing.cursor(
            context,
            skipped + in_text,
            listing.count(|full| full.text.has_parts),
        )?;
        if let Some(cursor) = of_text {
            text += &format!("\n{}", context.next_page(Self::NAME, &cursor));
        }
        let bearer = bearer.filter(|bearer| json_len(bearer) <= MAX_KEY_BYTES);
        let reserved = RESERVED_STRUCTURE_BYTES + bearer.as_ref().map_or(0, json_len);
        let room = context.budgets.structured_beside(text.len()).saturating_sub(reserved);
        let rows = listing.rows(skipped, room);
        let of_rows = listing.cursor(
            context,
            skipped + rows.len(),
            listing.count(|full| full.rows.has_parts),
        )?;
        let structured = listing.structure(skipped, rows, bearer, of_rows);
        RecordOutput::of(text, &structured, Vec::new())
    }

    /// Returns the items: the fields of a single stream and the parts of its declaration, or all
    /// streams.
    fn items<'a>(
        &self,
        one: Option<&'a ListedStream<'a>>,
        streams: &'a [ListedStream<'a>],
        parts: &[&'a str],
    ) -> Vec<ListedItem<'a>> {
        if let Some((_, stream)) = one {
            let fields = fields(stream).map(|(name, flags)| ListedItem::Field { name, flags });
            let parts = parts.iter().zip(1..).map(|(json, number)| ListedItem::Part {
                json,
                number,
                of: parts.len(),
            });
            return fields.chain(parts).collect();
        }
        // A stream with several connections gets a call for each. Among all streams that would be
        // too many lines.
        let (has_call, detail) = (self.stream.is_some(), self.detail.unwrap_or(Detail::Compact));
        streams
            .iter()
            .map(|(connections, stream)| ListedItem::Stream {
                connections,
                stream,
                has_call,
                detail,
            })
            .collect()
    }
}

impl<'a> Listing<'a> {
    fn of(
        one: Option<&'a ListedStream<'a>>,
        full: Option<&'a FullDeclaration<'a>>,
        items: Vec<ListedItem<'a>>,
    ) -> Self {
        let own = items.iter().filter(|item| !matches!(item, ListedItem::Part { .. })).count();
        Self {
            one,
            full,
            lines: items.iter().take(own).map(ListedItem::line).collect(),
            own,
            items,
        }
    }

    /// Returns how many items a form shows. `has_parts` says whether it shows parts.
    fn count(&self, has_parts: impl Fn(&FullDeclaration<'_>) -> bool) -> usize {
        if self.full.is_some_and(has_parts) { self.items.len() } else { self.own }
    }

    /// Returns the digest to which a cursor is bound: the list, and within the parts also the
    /// declaration.
    fn binding(&self, context: &CallContext, is_in_parts: bool) -> Binding {
        let raw = self.full.filter(|_| is_in_parts).map(FullDeclaration::raw);
        context.binding(
            std::iter::once("schema").chain(self.lines.iter().map(String::as_str)).chain(raw),
        )
    }

    /// Returns how many items the earlier pages showed.
    fn skipped(&self, context: &CallContext, cursor: Option<&str>) -> Result<usize, LadderError> {
        let Some(cursor) = cursor else { return Ok(0) };
        let plain = context.unseal(cursor).ok_or(LadderError::Cursor(CursorProblem::Malformed))?;
        let decode = |is_in_parts| SkipCursor::decode(&plain, self.binding(context, is_in_parts));
        let cursor = decode(false).or_else(|_| decode(true)).map_err(LadderError::Cursor)?;
        Ok(usize::try_from(cursor.skip).unwrap_or(usize::MAX))
    }

    /// Makes the cursor after the first `shown` items; `None` at the end of the list.
    fn cursor(
        &self,
        context: &CallContext,
        shown: usize,
        count: usize,
    ) -> Result<Option<String>, LadderError> {
        if shown >= count {
            return Ok(None);
        }
        let cursor = SkipCursor { skip: shown as u64 };
        context.seal(&cursor.encode(self.binding(context, shown > self.own))).map(Some)
    }

    /// Returns the items after the first `skipped` that a form shows.
    fn items(
        &self,
        skipped: usize,
        has_parts: impl Fn(&FullDeclaration<'_>) -> bool,
    ) -> impl Iterator<Item = &ListedItem<'a>> {
        let count = self.count(has_parts).saturating_sub(skipped);
        self.items.iter().skip(skipped).take(count)
    }

    /// Renders the rows that fit into the structure, and at least one, each with its field's
    /// schema.
    fn rows(&self, skipped: usize, room: usize) -> Vec<(Json, Option<Json>)> {
        let room = room.saturating_sub(self.full.map_or(0, |full| full.bytes_shown(skipped == 0)));
        let member = |item: &ListedItem<'_>| {
            let (full, field) = self.full.zip(item.field())?;
            Some(json!({ field: full.member(field)? }))
        };
        let rows =
            self.items(skipped, |full| full.rows.has_parts).map(|item| (item.json(), member(item)));
        take_fitting(rows, room, |(row, beside)| {
            json_len(row) + beside.as_ref().map_or(0, json_len)
        })
    }

    /// Renders the text without the line that continues, and counts its items.
    fn text(&self, skipped: usize, room: usize, head: Option<String>) -> (String, usize) {
        let full = self.full.and_then(|full| full.line(skipped == 0));
        let room = room.saturating_sub(full.as_ref().map_or(0, |line| line.len() + 1));
        let line = |item: &ListedItem<'_>| {
            let beside = self.full.zip(item.field()).map(|(full, field)| full.beside(field));
            item.line() + &text_lines::escape_line_breaks(beside.unwrap_or_default())
        };
        let has_parts = |full: &FullDeclaration<'_>| full.text.has_parts;
        let shown =
            take_fitting(self.items(skipped, has_parts).map(line), room, |line| line.len() + 1);
        let (count, parts) = (self.count(has_parts), self.count(has_parts) - self.own);
        let what = if self.one.is_some() { "field(s)" } else { "stream(s)" };
        let parts =
            if parts > 0 { format!(", {parts} part(s) of the declaration") } else { String::new() };
        let (in_text, rest) = (shown.len(), count.saturating_sub(skipped));
        let mut text = format!("schema: {} {what}{parts}. shown={in_text} of {rest}.", self.own);
        head.into_iter().chain(shown).chain(full).for_each(|line| text += &format!("\n{line}"));
        (text, in_text)
    }

    /// Builds the structure with these rows.
    fn structure(
        &self,
        skipped: usize,
        rows: Vec<(Json, Option<Json>)>,
        bearer: Option<Json>,
        cursor: Option<String>,
    ) -> SchemaAnswer {
        let (shown, mut parts, mut own, mut members) =
            (rows.len(), Vec::new(), Vec::new(), Vec::new());
        for (item, (row, member)) in self.items.iter().skip(skipped).zip(rows) {
            match item {
                ListedItem::Part { .. } => parts.push(row),
                ListedItem::Stream { .. } | ListedItem::Field { .. } => own.push(row),
            }
            members.extend(member);
        }
        let listed = match self.one {
            None => own.into(),
            Some((connections, stream)) => {
                let mut described = stream_json(connections, stream, None);
                insert_fields(&mut described, "fields", own.into_iter());
                if self.full.is_some_and(|full| full.whole().is_none()) {
                    insert_fields(&mut described, "schemas", members.into_iter());
                }
                Json::Array(vec![described])
            }
        };
        SchemaAnswer {
            object: "schema".to_owned(),
            bearer,
            streams: listed,
            shown,
            total: self.count(|full| full.rows.has_parts),
            next_cursor: cursor,
            full: self.full.and_then(FullDeclaration::whole).cloned(),
            full_but_fields: self.full.and_then(|full| full.but_fields(skipped == 0)).cloned(),
            full_parts: parts,
            full_left_out_bytes: self.full.and_then(FullDeclaration::left_out),
        }
    }
}

impl ListedItem<'_> {
    /// Renders the item for the structure.
    fn json(&self) -> Json {
        match self {
            Self::Stream { connections, stream, detail, .. } => {
                stream_json(connections, stream, Some(*detail))
            }
            Self::Field { name, flags } => json!({ *name: flags }),
            Self::Part { number, of, json } => json!({ "part": number, "of": of, "json": json }),
        }
    }

    /// Renders the item for the text.
    fn line(&self) -> String {
        match self {
            Self::Stream { connections, stream, has_call: true, detail } => {
                let way = text_lines::next_call(
                    Schema::NAME,
                    &scoped_arguments(connections, stream, *detail),
                    "",
                );
                format!("{}\n{way}", stream_line(connections, stream))
            }
            Self::Stream { connections, stream, has_call: false, .. } => {
                stream_line(connections, stream)
            }
            Self::Field { name, flags } => text_lines::escape_line_breaks(format!(
                "  {}: {}",
                Json::from(*name),
                flags.as_str().unwrap_or_default()
            )),
            Self::Part { number, of, json } => text_lines::escape_line_breaks(format!(
                "full, part {number} of {of}: {}",
                Json::from(*json)
            )),
        }
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Field { name, .. } => Some(name),
            Self::Stream { .. } | Self::Part { .. } => None,
        }
    }
}

fn fields(stream: &Map<String, Json>) -> impl Iterator<Item = (&String, &Json)> {
    stream.get("field_capabilities").and_then(Json::as_object).into_iter().flatten()
}

/// Renders a stream for the structure. If `fields_in` is given and the fields are few, they are
/// included.
fn stream_json(
    connections: &Connections,
    stream: &Map<String, Json>,
    fields_in: Option<Detail>,
) -> Json {
    let mut members = Map::new();
    members.insert("name".to_owned(), stream_name(stream).into());
    let Connections { named, count } = connections;
    members.insert(
        "connections".to_owned(),
        named.iter().map(|id| json!({ "connection_id": id })).collect(),
    );
    if *count > named.len() {
        members.insert("connection_count".to_owned(), (*count).into());
    }
    let cursor_field = stream.get("cursor_field").filter(|value| json_len(value) <= MAX_KEY_BYTES);
    members.extend(cursor_field.map(|value| ("cursor_field".to_owned(), value.clone())));
    if let Some(key) = stream.get("primary_key") {
        // A key may be longer than several streams, so a long one is shown by its number of fields.
        let (name, value) = match json_len(key) <= MAX_KEY_BYTES {
            true => ("primary_key", key.clone()),
            false => ("primary_key_count", key.as_array().map_or(1, Vec::len).into()),
        };
        members.insert(name.to_owned(), value);
    }
    members.insert("field_count".to_owned(), fields(stream).count().into());
    if let Some(detail) = fields_in {
        let capabilities: Map<String, Json> =
            fields(stream).map(|(name, flags)| (name.clone(), flags.clone())).collect();
        let capabilities = Json::Object(capabilities);
        let (is_few, is_compact) =
            (json_len(&capabilities) <= MAX_FIELDS_BYTES, detail == Detail::Compact);
        if is_few {
            members.insert("fields".to_owned(), capabilities);
        }
        if !(is_few && is_compact) {
            members.insert(
                "read".to_owned(),
                json!({ "tool": "schema", "args": scoped_arguments(connections, stream, detail) }),
            );
        }
    }
    Json::Object(members)
}

/// Returns the arguments of `schema` for one stream of one connection.
fn scoped_arguments(connections: &Connections, stream: &Map<String, Json>, detail: Detail) -> Json {
    let mut args =
        json!({ "stream": stream_name(stream), "connection_id": connections.named.first() });
    if let (Detail::Full, Some(args)) = (detail, args.as_object_mut()) {
        args.insert("detail".to_owned(), "full".into());
    }
    args
}

/// Inserts members of this page's fields under `name`.
fn insert_fields(described: &mut Json, name: &str, fields: impl Iterator<Item = Json>) {
    let mut all = Map::new();
    fields.for_each(|field| {
        if let Json::Object(members) = field {
            all.extend(members)
        }
    });
    if let Some(described) = described.as_object_mut() {
        described.insert(name.to_owned(), all.into());
    }
}

/// Renders a stream as one line.
fn stream_line(connections: &Connections, stream: &Map<String, Json>) -> String {
    let described = stream_json(connections, stream, None);
    let named: Vec<String> =
        connections.named.iter().map(|id| text_lines::bare_or_json(id)).collect();
    let member = |name: &str| match described.get(name).filter(|value| !value.is_null()) {
        Some(value) => format!(" {name}={value}"),
        None => String::new(),
    };
    let members =
        ["connection_count", "primary_key", "primary_key_count", "cursor_field", "field_count"]
            .map(member);
    let name = Json::from(stream_name(stream));
    text_lines::escape_line_breaks(format!(
        "stream={name} connection_id={}{}",
        named.join("|"),
        members.concat()
    ))
}
