//! `schema`: which streams there are, and what can be done with their fields.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use stile_domain::records::cursor::Binding;
use stile_domain::records::handle::ListedPlace;
use stile_domain::records::problem::BadCursor;

use super::budget::{fitting, json_len};
use super::climb::Climb;
use super::port::Ask;
use super::trouble::Trouble;
use super::{LadderAnswer, Rung, lines, told};
use crate::records::endpoints::SCHEMA;

/// The bytes of a stream's fields that stand beside its name where all streams are asked for.
const FIELDS_BYTES: usize = 4 * 1024;
/// The bytes of a primary key that are told.
const KEY_BYTES: usize = 1024;
/// What a text has besides its list: its first lines, and the one that goes on.
const TEXT_AROUND_BYTES: usize = 600;
/// What a structure has besides its list.
const AROUND_BYTES: usize = 4 * 1024;

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

/// How much is told.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is what it is called, and a text for each would stand in every list of tools")]
pub enum Detail {
    Compact,
    Full,
}

/// The schema as the resource server tells it, in its compact form.
#[derive(Deserialize)]
struct Told {
    bearer: Option<Json>,
    #[serde(default, deserialize_with = "told::or_default")]
    connectors: Vec<Connector>,
}

#[derive(Deserialize)]
struct Connector {
    #[serde(default, deserialize_with = "told::or_default")]
    granted_connections: Vec<Granted>,
    connector_id: Option<String>,
    #[serde(default, deserialize_with = "told::or_default")]
    streams: Vec<Map<String, Json>>,
}

#[derive(Deserialize)]
struct Granted {
    connection_id: String,
}

/// One stream of one connector, or one field of one stream: its member of the structure and its line.
struct Item {
    json: Json,
    line: String,
}

impl Rung for Schema {
    const NAME: &'static str = "schema";
    const TITLE: &'static str = "What records there are";

    fn output() -> Json {
        json!({
            "type": "object",
            "properties": {
                "object": { "type": "string" },
                "streams": { "type": "array", "items": { "type": "object", "required": ["name", "connections"] } },
                "shown": { "type": "integer" }, "total": { "type": "integer" }, "next_cursor": { "type": "string" },
                "full": { "type": "object" }
            },
            "required": ["object", "streams", "shown", "total"]
        })
    }

    async fn run(self, climb: &Climb<'_>) -> Result<LadderAnswer, Trouble> {
        let ask = Ask::of(&SCHEMA)
            .with_some("stream", self.stream.as_deref())
            .with_some("connection_id", self.connection_id.as_deref());
        let full = match self.detail {
            Some(Detail::Full) => Some(climb.ask(ask.clone().with("detail", "full")).await?),
            _ => None,
        };
        let text = climb.ask(ask.with("view", "compact")).await?;
        let told: Told = serde_json::from_str(&text).map_err(|_| Trouble::not_understood())?;
        let (items, streams) = self.items(&told.connectors);
        self.page(climb, &items, &streams, told.bearer, full)
    }
}

impl Schema {
    /// What is listed: the fields of the one stream that was asked for, or all streams. Beside fields, their stream.
    fn items(&self, connectors: &[Connector]) -> (Vec<Item>, Vec<Json>) {
        let all: Vec<(Vec<String>, &Map<String, Json>)> = connectors
            .iter()
            .flat_map(|connector| connector.streams.iter().map(|stream| (connector.connections(), stream)))
            .filter(|(_, stream)| self.stream.as_deref().is_none_or(|wanted| name(stream) == wanted))
            .collect();
        match all.as_slice() {
            [(connections, stream)] if self.stream.is_some() => {
                let items = fields(stream).map(|(name, flags)| Item {
                    json: json!({ name: flags }),
                    line: lines::plain(format!(
                        "  {}: {}",
                        Json::from(name.as_str()),
                        flags.as_str().unwrap_or_default()
                    )),
                });
                (items.collect(), vec![described(connections, stream, false)])
            }
            _ => {
                // Of several connections each is one call away; of all streams that would be too many lines.
                let is_one_stream = self.stream.is_some();
                let items = all.iter().map(|(connections, stream)| Item {
                    json: described(connections, stream, true),
                    line: match is_one_stream {
                        true => format!(
                            "{}\n{}",
                            line(connections, stream),
                            lines::next("schema", &scoped(connections, stream), "")
                        ),
                        false => line(connections, stream),
                    },
                });
                (items.collect(), Vec::new())
            }
        }
    }

    fn page(
        &self,
        climb: &Climb<'_>,
        items: &[Item],
        streams: &[Json],
        bearer: Option<Json>,
        full: Option<String>,
    ) -> Result<LadderAnswer, Trouble> {
        let binding = binding(climb, items);
        let skipped = self.skipped(climb, binding)?;
        let rest = items.get(skipped..).unwrap_or_default();
        let room = climb.budgets.structured.saturating_sub(AROUND_BYTES);
        let text_room = climb.budgets.schema.saturating_sub(TEXT_AROUND_BYTES);
        let full = Full::of(full, room, text_room);
        let fit = |sizes: &mut dyn Iterator<Item = usize>, room| fitting(sizes, room).max(1).min(rest.len());
        let in_rows = fit(&mut rest.iter().map(|item| json_len(&item.json)), room.saturating_sub(full.bytes_shown()));
        let in_text = fit(&mut rest.iter().map(|item| item.line.len() + 1), text_room.saturating_sub(full.line_len()));
        let cursor = |shown: usize| match shown < rest.len() {
            false => Ok(None),
            true => climb.seal(&ListedPlace { told: (skipped + shown) as u64 }.encode(binding)).map(Some),
        };
        let what = if streams.is_empty() { "stream(s)" } else { "field(s)" };
        let mut text = format!("schema: {} {what}. shown={in_text} of {}.", items.len(), rest.len());
        let lines = streams.iter().map(described_line).chain(rest.iter().take(in_text).map(|item| item.line.clone()));
        lines.chain(full.line.clone()).for_each(|line| text = format!("{text}\n{line}"));
        if let Some(cursor) = cursor(in_text)? {
            text = format!("{text}\n{}", lines::again(climb, Self::NAME, &cursor, ""));
        }
        let listed: Vec<Json> = rest.iter().take(in_rows).map(|item| item.json.clone()).collect();
        let listed = if streams.is_empty() { listed.into() } else { with_fields(streams.to_vec(), &listed) };
        let bearer = bearer.filter(|bearer| json_len(bearer) <= KEY_BYTES);
        let told = [
            ("object", Some("schema".into())),
            ("bearer", bearer),
            ("streams", Some(listed)),
            ("shown", Some(in_rows.into())),
            ("total", Some(items.len().into())),
            ("next_cursor", cursor(in_rows)?.map(Json::from)),
            ("full_left_out_bytes", full.left_out().map(Json::from)),
            ("full", full.declaration),
        ];
        let structured = told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Ok(LadderAnswer { text, structured: Json::Object(structured), links: Vec::new(), refusal: None })
    }

    /// How many items the pages before had.
    fn skipped(&self, climb: &Climb<'_>, binding: Binding) -> Result<usize, Trouble> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        let plain = climb.unseal(cursor).ok_or(Trouble::Lost(BadCursor::Malformed))?;
        let place = ListedPlace::decode(&plain, binding).map_err(Trouble::Lost)?;
        Ok(usize::try_from(place.told).unwrap_or(usize::MAX))
    }
}

/// The whole declaration of a stream, as far as there is room for it. Where there is none it is said to be left out; its
/// fields are listed all the same.
#[derive(Default)]
struct Full {
    /// In the structure.
    declaration: Option<Json>,
    /// In the text.
    line: Option<String>,
    /// How long it is.
    bytes: usize,
}

impl Full {
    /// In at most half of these rooms.
    fn of(told: Option<String>, room: usize, text_room: usize) -> Self {
        let told = told.and_then(|told| serde_json::from_str::<Map<String, Json>>(&told).ok());
        let Some(told) = told.map(Json::Object) else { return Self::default() };
        let bytes = json_len(&told);
        let line = match bytes * 2 <= text_room {
            true => lines::plain(format!("full: {told}")),
            false => format!("full: left out, {bytes} bytes"),
        };
        Self { declaration: (bytes * 2 <= room).then_some(told), line: Some(line), bytes }
    }

    fn bytes_shown(&self) -> usize {
        if self.declaration.is_some() { self.bytes } else { 0 }
    }

    fn line_len(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.len() + 1)
    }

    fn left_out(&self) -> Option<usize> {
        (self.bytes > 0 && self.declaration.is_none()).then_some(self.bytes)
    }
}

/// What a cursor is bound to: the caller and the names of all that is listed.
fn binding(climb: &Climb<'_>, items: &[Item]) -> Binding {
    climb.binding(std::iter::once("schema").chain(items.iter().map(|item| item.line.as_str())))
}

impl Connector {
    fn connections(&self) -> Vec<String> {
        let granted: Vec<String> =
            self.granted_connections.iter().map(|granted| granted.connection_id.clone()).collect();
        if granted.is_empty() { self.connector_id.iter().cloned().collect() } else { granted }
    }
}

fn name(stream: &Map<String, Json>) -> &str {
    stream.get("name").and_then(Json::as_str).unwrap_or_default()
}

fn fields(stream: &Map<String, Json>) -> impl Iterator<Item = (&String, &Json)> {
    stream.get("field_capabilities").and_then(Json::as_object).into_iter().flatten()
}

/// A stream of the structure; its fields only where they are few.
fn described(connections: &[String], stream: &Map<String, Json>, with_fields: bool) -> Json {
    let mut told = Map::new();
    told.insert("name".to_owned(), name(stream).into());
    told.insert("connections".to_owned(), connections.iter().map(|id| json!({ "connection_id": id })).collect());
    told.extend(stream.get("cursor_field").map(|value| ("cursor_field".to_owned(), value.clone())));
    if let Some(key) = stream.get("primary_key") {
        // Of a key that is longer than some streams together it is said how many fields it has.
        let (name, value) = match json_len(key) <= KEY_BYTES {
            true => ("primary_key", key.clone()),
            false => ("primary_key_count", key.as_array().map_or(1, Vec::len).into()),
        };
        told.insert(name.to_owned(), value);
    }
    told.insert("field_count".to_owned(), fields(stream).count().into());
    let capabilities: Map<String, Json> = fields(stream).map(|(name, flags)| (name.clone(), flags.clone())).collect();
    let capabilities = Json::Object(capabilities);
    if with_fields && json_len(&capabilities) <= FIELDS_BYTES {
        told.insert("fields".to_owned(), capabilities);
    } else if with_fields {
        told.insert("read".to_owned(), json!({ "tool": "schema", "args": scoped(connections, stream) }));
    }
    Json::Object(told)
}

/// The arguments that show one stream of one connection with its fields.
fn scoped(connections: &[String], stream: &Map<String, Json>) -> Json {
    json!({ "stream": name(stream), "connection_id": connections.first() })
}

/// The one stream with the fields of this page.
fn with_fields(mut streams: Vec<Json>, listed: &[Json]) -> Json {
    let members = listed.iter().filter_map(Json::as_object).flatten();
    let fields: Map<String, Json> = members.map(|(name, flags)| (name.clone(), flags.clone())).collect();
    if let Some(stream) = streams.first_mut().and_then(Json::as_object_mut) {
        stream.insert("fields".to_owned(), Json::Object(fields));
    }
    Json::Array(streams)
}

/// A stream in one line.
fn line(connections: &[String], stream: &Map<String, Json>) -> String {
    described_line(&described(connections, stream, false))
}

fn described_line(stream: &Json) -> String {
    let connections = stream.get("connections").and_then(Json::as_array).into_iter().flatten();
    let connections: Vec<String> =
        connections.filter_map(|connection| connection.get("connection_id")?.as_str()).map(lines::word).collect();
    let member = |name: &str| stream.get(name).filter(|value| !value.is_null()).map(|value| format!(" {name}={value}"));
    lines::plain(format!(
        "stream={} connection_id={}{}{}{}{}",
        stream.get("name").unwrap_or(&Json::Null),
        connections.join("|"),
        member("primary_key").unwrap_or_default(),
        member("primary_key_count").unwrap_or_default(),
        member("cursor_field").unwrap_or_default(),
        member("field_count").unwrap_or_default(),
    ))
}
