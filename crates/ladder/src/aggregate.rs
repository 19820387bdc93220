//! `aggregate`: counts, sums, minima and maxima of one stream, computed by the resource server.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use stile_domain::permit::Gate;
use stile_domain::records::authority::RecordsPermit;
use stile_domain::records::request::{ReadOperation, ReadRequest};
use stile_tools::definition::ToolGroup;
use stile_tools::tool::Tool;

use super::arguments::{
    GranularityNames, MetricNames, OneOf, WholeNumber, filter_parameters, filter_schema,
    refuse_empty,
};
use super::budget::{count_fitting, json_len, members_len, prefix_within, take_fitting};
use super::call_context::CallContext;
use super::error::LadderError;
use super::json_members::present_members;
use super::output::{Nullable, RecordOutput, Shape};
use super::record_view::exact_or_text;
use super::text_lines;
use super::wire;

/// Keys are truncated to [`SHORT_TEXT_KEY_BYTES`] if fewer groups than this would fit into the
/// text.
const TEXT_GROUPS: usize = 10;
/// The most bytes of a key in a text, and the most if space is short.
const TEXT_KEY_BYTES: usize = 240;
const SHORT_TEXT_KEY_BYTES: usize = 80;
/// Bytes reserved for the part of the text that is not groups.
const RESERVED_TEXT_BYTES: usize = 200;
/// Bytes reserved for the members of a structure that are not groups.
const RESERVED_BYTES: usize = 400;
/// The most groups that are taken from a response.
const MOST_GROUPS: usize = 100;
/// The most characters of a key in the structure, and the most if the answer would be too long.
const KEY_CHARS: usize = 240;
const SHORT_KEY_CHARS: usize = 48;

/// Count, sum or compare records of one stream, exactly and without reading them. `schema` says of
/// which fields (`a=`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// As `schema` names it.
    stream: String,
    /// What is computed.
    metric: OneOf<MetricNames>,
    /// For every metric but `count`.
    field: Option<String>,
    /// Groups by a field; only with `count`.
    group_by: Option<String>,
    /// Groups by spans of this time field; needs `granularity`.
    group_by_time: Option<String>,
    /// With `group_by_time`. Weeks begin on Monday.
    granularity: Option<OneOf<GranularityNames>>,
    /// IANA name; UTC if left out.
    time_zone: Option<String>,
    /// Groups; 10 if left out.
    limit: Option<WholeNumber<1, 100>>,
    #[schemars(schema_with = "filter_schema")]
    #[serde(default)]
    filter: Option<Json>,
    /// Of one connection only.
    connection_id: Option<String>,
}

/// The response of the resource server. Numbers keep the spelling that they have there.
#[derive(Deserialize)]
struct WireAggregation<'a> {
    object: String,
    stream: String,
    metric: String,
    field: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    filtered_record_count: Option<u64>,
    approximate: Option<bool>,
    group_by: Option<String>,
    group_by_time: Option<String>,
    granularity: Option<String>,
    time_zone: Option<String>,
    #[serde(borrow)]
    groups: Option<Vec<WireGroup<'a>>>,
    limit: Option<u64>,
    other_count: Option<u64>,
}

#[derive(Deserialize)]
struct WireGroup<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    key_preview: Option<Json>,
    count: u64,
}

impl WireAggregation<'_> {
    fn members(self) -> Map<String, Json> {
        let group = |group: WireGroup<'_>| {
            Json::Object(present_members([
                ("key", Some(exact_or_text(group.key))),
                ("count", Some(group.count.into())),
                ("key_preview", group.key_preview),
            ]))
        };
        let text = |text: Option<String>| text.map(Json::from);
        present_members([
            ("object", Some(self.object.into())),
            ("stream", Some(self.stream.into())),
            ("metric", Some(self.metric.into())),
            ("field", text(self.field)),
            ("value", self.groups.is_none().then(|| self.value.map_or(Json::Null, exact_or_text))),
            ("filtered_record_count", self.filtered_record_count.map(Json::from)),
            ("approximate", self.approximate.map(Json::from)),
            ("group_by", text(self.group_by)),
            ("group_by_time", text(self.group_by_time)),
            ("granularity", text(self.granularity)),
            ("time_zone", text(self.time_zone)),
            (
                "groups",
                self.groups.map(|groups| groups.into_iter().take(MOST_GROUPS).map(group).collect()),
            ),
            ("limit", self.limit.map(Json::from)),
            ("other_count", self.other_count.map(Json::from)),
        ])
    }
}

/// The shape of the structured answers of `aggregate`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
pub struct AggregateShape {
    object: String,
    stream: String,
    metric: String,
    filtered_record_count: Option<i64>,
    groups: Option<Nullable<Vec<Map<String, Json>>>>,
}

impl Shape for AggregateShape {
    const IS_OPEN: bool = true;
}

impl Tool for Aggregate {
    const NAME: &'static str = "aggregate";
    const TITLE: &'static str = "Count and compare records";

    const GROUP: ToolGroup = ToolGroup::Records;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = CallContext;
    type Permits = RecordsPermit;
    type Output = RecordOutput<AggregateShape>;
    type Error = LadderError;

    fn ask(&self, gate: Gate<'_>) -> Result<RecordsPermit, LadderError> {
        Ok(gate.records()?)
    }

    async fn run(
        self,
        _: RecordsPermit,
        context: &CallContext,
    ) -> Result<Self::Output, LadderError> {
        refuse_empty("stream", &self.stream)?;
        let mut ask = ReadRequest {
            stream: self.stream.clone(),
            ..ReadRequest::new(ReadOperation::Aggregate)
        }
        .with("metric", self.metric.word())
        .with_some("field", self.field.as_deref())
        .with_some("group_by", self.group_by.as_deref())
        .with_some("group_by_time", self.group_by_time.as_deref())
        .with_some("granularity", self.granularity.map(OneOf::word))
        .with_some("time_zone", self.time_zone.as_deref())
        .with_some("limit", self.limit.map(|limit| limit.0))
        .with_some("connection_id", self.connection_id.as_deref());
        ask.parameters.extend(filter_parameters(self.filter.as_ref())?);
        let text = context.ask(ask).await?;
        let response: WireAggregation<'_> = wire::parse(&text)?;
        let members = response.members();
        let (mut text, in_text) = self.text(&members, context.budgets.text);
        text = text_lines::escape_line_breaks(text);
        let room = context.budgets.structured_beside(text.len());
        let mut structured = with_short_texts(&members, KEY_CHARS);
        if members_len(&structured) > room {
            structured = with_short_texts(&members, SHORT_KEY_CHARS);
            keep_groups(&mut structured, in_text, room.saturating_sub(RESERVED_BYTES));
        }
        let left = group_count(&members) - in_text;
        let in_structure = group_count(&structured) - in_text;
        if left > 0 {
            text += &format!("\nnote: {left} more group(s)");
            if in_structure < left {
                text += &format!(", {in_structure} of them in the structured answer");
            } else {
                text += " are in the structured answer";
            }
            text += "; a narrower `filter` shows them here";
        }
        let structured = Json::Object(structured);
        RecordOutput::new(text, structured, Vec::new())
    }
}

impl Aggregate {
    /// Renders the result as one line of at most `room` bytes, and counts its groups.
    fn text(&self, members: &Map<String, Json>, room: usize) -> (String, usize) {
        let over = self
            .field
            .as_deref()
            .map(|field| format!(" of {}", Json::from(field)))
            .unwrap_or_default();
        let head = format!(
            "aggregate: {}{over} in {}",
            self.metric.word(),
            Json::from(self.stream.as_str())
        );
        let count = members
            .get("filtered_record_count")
            .map(|count| format!(" over {count} record(s)"))
            .unwrap_or_default();
        let Some(groups) = members.get("groups").and_then(Json::as_array) else {
            let value = members.get("value").unwrap_or(&Json::Null);
            let value = key_text(value, TEXT_KEY_BYTES);
            return (format!("{head} = {value}{count}."), 0);
        };
        let by = Json::from(
            self.group_by.as_deref().or(self.group_by_time.as_deref()).unwrap_or_default(),
        );
        let head = format!("{head} by {by}{count}: {} group(s)", groups.len());
        let shown = shown_groups(groups, room.saturating_sub(head.len() + RESERVED_TEXT_BYTES));
        let rest = groups.get(shown.len()..).unwrap_or_default();
        let others = other_count(members, rest);
        let line =
            format!("{head}, shown={}: {}. other_count={others}.", shown.len(), shown.join(", "));
        (line, shown.len())
    }
}

fn group_count(members: &Map<String, Json>) -> usize {
    members.get("groups").and_then(Json::as_array).map_or(0, Vec::len)
}

/// Returns how many records are in no group, or in one of those that are not shown.
fn other_count(members: &Map<String, Json>, not_shown: &[Json]) -> u64 {
    let others = members.get("other_count").and_then(Json::as_u64).unwrap_or(0);
    let counts = not_shown.iter().filter_map(|group| group.get("count")?.as_u64());
    counts.fold(others, u64::saturating_add)
}

/// Keeps the first groups: as many as fit into `room` bytes, and at least `least`.
fn keep_groups(members: &mut Map<String, Json>, least: usize, room: usize) {
    let Some(groups) = members.get("groups").and_then(Json::as_array) else { return };
    let fitting = count_fitting(groups.iter().map(json_len), room).max(least);
    let rest = groups.get(fitting..).unwrap_or_default();
    let (others, left_out) = (other_count(members, rest), rest.len());
    if let Some(groups) = members.get_mut("groups").and_then(Json::as_array_mut) {
        groups.truncate(fitting);
    }
    if left_out > 0 {
        members.insert("other_count".to_owned(), others.into());
        members.insert("groups_left_out".to_owned(), left_out.into());
    }
}

/// Renders the groups that fit into `room` bytes, and at least one.
fn shown_groups(groups: &[Json], room: usize) -> Vec<String> {
    let of = |bytes: usize| {
        take_fitting(groups.iter().map(|members| group_text(members, bytes)), room, |members| {
            members.len() + 2
        })
    };
    let long = of(TEXT_KEY_BYTES);
    if long.len() >= groups.len().min(TEXT_GROUPS) { long } else { of(SHORT_TEXT_KEY_BYTES) }
}

fn group_text(group: &Json, key_bytes: usize) -> String {
    let key = key_text(group.get("key").unwrap_or(&Json::Null), key_bytes);
    format!("{key}={}", group.get("count").unwrap_or(&Json::Null))
}

/// Renders a value as JSON, with a string truncated to `bytes`.
fn key_text(value: &Json, bytes: usize) -> String {
    match value {
        Json::String(text) => {
            let (shown, _) = prefix_within(text, bytes, bytes);
            let cut = if shown.len() < text.len() { "…" } else { "" };
            format!("{}{cut}", text_lines::escape_line_breaks(Json::from(shown).to_string()))
        }
        value => value.to_string(),
    }
}

/// Returns the result with long keys and values truncated to `chars`, and the length of each.
fn with_short_texts(members: &Map<String, Json>, chars: usize) -> Map<String, Json> {
    let mut members = members.clone();
    for group in members.get_mut("groups").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(group) = group.as_object_mut() {
            shorten_member(group, "key", "key_preview", chars);
        }
    }
    shorten_member(&mut members, "value", "value_preview", chars);
    members
}

fn shorten_member(members: &mut Map<String, Json>, name: &str, preview: &str, chars: usize) {
    let Some(text) = members.get(name).and_then(Json::as_str) else { return };
    let (shown, count) = prefix_within(text, chars, chars * 4);
    if shown.len() == text.len() {
        return;
    }
    let all = text.chars().count();
    let shown = shown.to_owned();
    let mut sizes = match members.remove(preview) {
        Some(Json::Object(sizes)) => sizes,
        _ => Map::from_iter([("size_chars".to_owned(), all.into())]),
    };
    sizes.insert("shown_chars".to_owned(), count.into());
    members.insert(name.to_owned(), shown.into());
    members.insert(preview.to_owned(), Json::Object(sizes));
}
