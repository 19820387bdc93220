//! `aggregate`: counts, sums, minima and maxima of one stream, computed by the resource server.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use stile_domain::records::request::{AggregateRecords, ReadRequest};

use super::arguments::{
    GranularityNames, GroupOrderNames, MetricNames, OneOf, OneOrMore, WholeNumber,
    filter_conditions, filter_schema, one_or_more_schema, refuse_empty,
};
use super::budget::{count_fitting, json_len, members_len, prefix_within, take_fitting};
use super::call_context::CallContext;
use super::error::LadderError;
use super::json_members::present_members;
use super::output::{Nullable, RecordOutput, Shape};
use super::page::bounded_meta;
use super::record_tool::RecordTool;
use super::record_view::exact_or_text;
use super::search_notes::warnings;
use super::text_lines;
use super::wire;

/// Keys are truncated to [`SHORT_TEXT_KEY_BYTES`] if fewer groups than this would fit into the
/// text.
const TEXT_GROUPS: usize = 10;
/// The most bytes of a key in a text, and the most if space is short.
const TEXT_KEY_BYTES: usize = 240;
const SHORT_TEXT_KEY_BYTES: usize = 80;
/// Bytes reserved for the part of the text that is neither groups nor the lines after them.
const RESERVED_TEXT_BYTES: usize = 100;
/// Bytes reserved for the members of a structure that depend on its number of groups, beside a
/// cursor.
const RESERVED_BYTES: usize = 160;
/// The most groups that are taken from a response.
const MOST_GROUPS: usize = 100;
/// The most characters of a key in the structure, and the most if the answer would be too long.
const KEY_CHARS: usize = 240;
const SHORT_KEY_CHARS: usize = 48;

/// Count, sum or compare records of one stream, of all or by group, without reading them.
/// `schema` says of which fields (`a=`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// As `schema` names it.
    stream: String,
    /// What is computed.
    metric: OneOf<MetricNames>,
    /// Not with `count`.
    field: Option<String>,
    /// As in `search`.
    q: Option<String>,
    /// Up to three fields.
    #[schemars(schema_with = "one_or_more_schema")]
    #[serde(default)]
    group_by: OneOrMore,
    /// A time field; needs `granularity`.
    group_by_time: Option<String>,
    /// Weeks begin on Monday.
    granularity: Option<OneOf<GranularityNames>>,
    /// UTC if left out.
    time_zone: Option<String>,
    /// By time `key_asc`.
    order: Option<OneOf<GroupOrderNames>>,
    /// 10 if left out.
    limit: Option<WholeNumber<1, 100>>,
    /// For more groups.
    cursor: Option<String>,
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
    group_by: Option<Json>,
    group_by_time: Option<String>,
    granularity: Option<String>,
    time_zone: Option<String>,
    #[serde(borrow)]
    groups: Option<Vec<WireGroup<'a>>>,
    limit: Option<u64>,
    other_count: Option<u64>,
    next_cursor: Option<String>,
    meta: Option<Json>,
}

#[derive(Deserialize)]
struct WireGroup<'a> {
    #[serde(borrow)]
    key: WireKey<'a>,
    key_preview: Option<Json>,
    count: u64,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    cursor: Option<String>,
}

/// The key of a group, or one for each grouping.
struct WireKey<'a> {
    keys: Vec<&'a RawValue>,
    is_list: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for WireKey<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'a RawValue = Deserialize::deserialize(deserializer)?;
        match raw.get().starts_with('[') {
            true => serde_json::from_str(raw.get())
                .map(|keys| Self { keys, is_list: true })
                .map_err(D::Error::custom),
            false => Ok(Self { keys: vec![raw], is_list: false }),
        }
    }
}

/// The records that share the values of all groupings.
struct Group {
    keys: Vec<Json>,
    /// How much each key is of a long text; null for a whole one.
    previews: Vec<Json>,
    /// Whether there are several groupings.
    is_list: bool,
    count: u64,
    /// What was computed of the records; `None` if they are counted.
    value: Option<Json>,
    /// Continues after the group.
    cursor: Option<String>,
}

impl Group {
    fn read(sent: WireGroup<'_>, is_counted: bool) -> Self {
        let WireKey { keys, is_list } = sent.key;
        let previews = match sent.key_preview {
            Some(Json::Array(previews)) if is_list => previews,
            preview => vec![preview.unwrap_or_default()],
        };
        let value = sent.value.map_or(Json::Null, exact_or_text);
        Self {
            previews: (0..keys.len())
                .map(|at| previews.get(at).cloned().unwrap_or_default())
                .collect(),
            keys: keys.into_iter().map(exact_or_text).collect(),
            is_list,
            count: sent.count,
            value: (!is_counted).then_some(value),
            cursor: sent.cursor,
        }
    }

    /// Renders the group for the text: `key=count`, or `key=value (count)`.
    fn text(&self, key_bytes: usize) -> String {
        let keys: Vec<String> = self.keys.iter().map(|key| key_text(key, key_bytes)).collect();
        let key = if self.is_list { format!("[{}]", keys.join(", ")) } else { keys.concat() };
        match &self.value {
            None => format!("{key}={}", self.count),
            Some(value) => format!("{key}={} ({})", key_text(value, key_bytes), self.count),
        }
    }

    /// Renders the group for the structure, with texts truncated to `chars`.
    fn json(&self, chars: usize) -> Json {
        let (mut keys, mut previews) = (self.keys.clone(), self.previews.clone());
        for (key, preview) in keys.iter_mut().zip(&mut previews) {
            shorten(key, preview, chars);
        }
        let (mut value, mut value_preview) = (self.value.clone(), Json::Null);
        if let Some(value) = &mut value {
            shorten(value, &mut value_preview, chars);
        }
        let has_preview = previews.iter().any(|preview| !preview.is_null());
        let whole = |mut all: Vec<Json>| match self.is_list {
            true => Json::Array(all),
            false => all.pop().unwrap_or_default(),
        };
        Json::Object(present_members([
            ("key", Some(whole(keys))),
            ("count", Some(self.count.into())),
            ("value", value),
            ("key_preview", has_preview.then(|| whole(previews))),
            ("value_preview", Some(value_preview).filter(|preview| !preview.is_null())),
        ]))
    }
}

/// Where an answer goes on after some of the groups, and what is then left.
struct Rest {
    /// The groups that are left of the response.
    groups: usize,
    /// The records in all groups that are left.
    records: u64,
    /// Continues after the groups that are shown.
    cursor: Option<String>,
}

/// The response, taken apart.
struct Aggregation {
    /// All members that an answer repeats, but those about groups.
    members: Map<String, Json>,
    groups: Option<Vec<Group>>,
    other_count: u64,
    next_cursor: Option<String>,
    meta: Option<Json>,
}

impl Aggregation {
    fn read(sent: WireAggregation<'_>) -> Self {
        let is_counted = sent.metric == "count";
        let text = |text: Option<String>| text.map(Json::from);
        let value = || {
            let mut value = sent.value.map_or(Json::Null, exact_or_text);
            let mut preview = Json::Null;
            shorten(&mut value, &mut preview, KEY_CHARS);
            (value, Some(preview).filter(|preview| !preview.is_null()))
        };
        let (value, preview) = sent.groups.is_none().then(value).unzip();
        let members = present_members([
            ("object", Some(sent.object.into())),
            ("stream", Some(sent.stream.into())),
            ("metric", Some(sent.metric.into())),
            ("field", text(sent.field)),
            ("value", value),
            ("value_preview", preview.flatten()),
            ("filtered_record_count", sent.filtered_record_count.map(Json::from)),
            ("approximate", sent.approximate.map(Json::from)),
            ("group_by", sent.group_by),
            ("group_by_time", text(sent.group_by_time)),
            ("granularity", text(sent.granularity)),
            ("time_zone", text(sent.time_zone)),
            ("limit", sent.limit.map(Json::from)),
        ]);
        let groups = sent.groups.map(|groups| {
            groups.into_iter().take(MOST_GROUPS).map(|own| Group::read(own, is_counted)).collect()
        });
        let (other_count, next_cursor) = (sent.other_count.unwrap_or(0), sent.next_cursor);
        Self { members, groups, other_count, next_cursor, meta: sent.meta }
    }

    fn groups(&self) -> &[Group] {
        self.groups.as_deref().unwrap_or_default()
    }

    /// Returns what is left after the first `shown` groups.
    fn rest(&self, shown: usize) -> Rest {
        let left = self.groups().get(shown..).unwrap_or_default();
        let counts = left.iter().map(|group| group.count);
        let last = shown.checked_sub(1).and_then(|last| self.groups().get(last));
        let own = || last.and_then(|group| group.cursor.clone());
        let cursor = if left.is_empty() { self.next_cursor.clone() } else { own() };
        let records = counts.fold(self.other_count, u64::saturating_add);
        Rest { groups: left.len(), records, cursor }
    }

    /// Returns the structure with as many groups as fit into `room` bytes, and at least `least`.
    /// Also returns how many groups it has.
    fn structure(&self, least: usize, room: usize) -> (Json, usize) {
        let mut members = self.members.clone();
        if let Some(meta) = &self.meta {
            members.insert("meta".to_owned(), bounded_meta(meta));
        }
        let Some(groups) = &self.groups else { return (Json::Object(members), 0) };
        let cursor = self.rest(groups.len().min(1)).cursor.map_or(0, |cursor| cursor.len());
        let room = room.saturating_sub(members_len(&members) + cursor + RESERVED_BYTES);
        let of = |chars| groups.iter().map(|group| group.json(chars)).collect::<Vec<_>>();
        let fitting = |groups: &[Json]| count_fitting(groups.iter().map(json_len), room);
        let mut shown = of(KEY_CHARS);
        if fitting(&shown) < shown.len() {
            shown = of(SHORT_KEY_CHARS);
            shown.truncate(fitting(&shown).max(least));
        }
        let (count, rest) = (shown.len(), self.rest(shown.len()));
        members.insert("groups".to_owned(), shown.into());
        members.insert("other_count".to_owned(), rest.records.into());
        if rest.groups > 0 {
            members.insert("groups_left_out".to_owned(), rest.groups.into());
        }
        if let Some(cursor) = rest.cursor {
            members.insert("next_cursor".to_owned(), cursor.into());
        }
        (Json::Object(members), count)
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

impl RecordTool for Aggregate {
    const NAME: &'static str = "aggregate";
    const TITLE: &'static str = "Count and compare records";
    type Shape = AggregateShape;

    async fn run(self, context: &CallContext) -> Result<RecordOutput<AggregateShape>, LadderError> {
        let sent = context.send(self.request()?).await?;
        let answer = Aggregation::read(wire::parse(&sent)?);
        let mut tail =
            answer.meta.as_ref().map(|meta| warnings(meta, "", false)).unwrap_or_default();
        let cursor_bytes =
            answer.rest(answer.groups().len().saturating_sub(1)).cursor.map_or(0, |own| own.len());
        let next_bytes = context.next_page(Self::NAME, &"x".repeat(cursor_bytes)).len();
        let tail_bytes = tail.iter().map(|line| line.len() + 1).sum::<usize>() + next_bytes;
        let room = context.budgets.text.saturating_sub(tail_bytes + RESERVED_TEXT_BYTES);
        let (text, in_text) = self.text(&answer, room);
        let rest = answer.rest(in_text);
        let room = context.budgets.structured_beside(text.len() + tail_bytes);
        let (structured, in_structure) = answer.structure(in_text, room);
        if rest.groups > 0 {
            let more = in_structure - in_text;
            let place = match more < rest.groups {
                true => format!(", {more} of them in the structured answer"),
                false => " are in the structured answer".to_owned(),
            };
            let hint = match rest.cursor {
                Some(_) => "",
                None => "; a narrower `filter` shows them here",
            };
            tail.push(format!("note: {} more group(s){place}{hint}", rest.groups));
        }
        tail.extend(rest.cursor.map(|cursor| context.next_page(Self::NAME, &cursor)));
        let lines: Vec<String> = std::iter::once(text).chain(tail).collect();
        let text = text_lines::escape_line_breaks(lines.join("\n"));
        RecordOutput::new(text, structured, Vec::new())
    }
}

impl Aggregate {
    fn request(&self) -> Result<ReadRequest, LadderError> {
        refuse_empty("stream", &self.stream)?;
        let is_grouped = !self.group_by.0.is_empty() || self.group_by_time.is_some();
        Ok(ReadRequest::Aggregate(AggregateRecords {
            stream: self.stream.clone(),
            metric: Some(self.metric.word()),
            field: self.field.clone(),
            q: self.q.clone(),
            group_by: self.group_by.0.clone(),
            group_by_time: self.group_by_time.clone(),
            granularity: self.granularity.map(OneOf::word),
            time_zone: self.time_zone.clone(),
            order: self.order.map(OneOf::word),
            limit: self.limit.map(|limit| limit.0),
            cursor: self.cursor.clone(),
            cursors: is_grouped.then_some("each"),
            conditions: filter_conditions(self.filter.as_ref())?,
            connection: self.connection_id.clone().into(),
            ..AggregateRecords::default()
        }))
    }

    /// Renders the result as one line of about `room` bytes, and counts its groups.
    fn text(&self, answer: &Aggregation, room: usize) -> (String, usize) {
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
        let count = answer
            .members
            .get("filtered_record_count")
            .map(|count| format!(" over {count} record(s)"))
            .unwrap_or_default();
        let Some(groups) = &answer.groups else {
            let value = answer.members.get("value").unwrap_or(&Json::Null);
            let value = key_text(value, TEXT_KEY_BYTES);
            return (format!("{head} = {value}{count}."), 0);
        };
        let by: Vec<String> = self
            .group_by
            .0
            .iter()
            .chain(&self.group_by_time)
            .map(|name| Json::from(name.as_str()).to_string())
            .collect();
        let head = format!("{head} by {}{count}: {} group(s)", by.join(", "), groups.len());
        let shown = shown_groups(groups, room.saturating_sub(head.len()));
        let others = answer.rest(shown.len()).records;
        let line =
            format!("{head}, shown={}: {}. other_count={others}.", shown.len(), shown.join(", "));
        (line, shown.len())
    }
}

/// Renders the groups that fit into `room` bytes, and at least one.
fn shown_groups(groups: &[Group], room: usize) -> Vec<String> {
    let of = |bytes: usize| {
        take_fitting(groups.iter().map(|group| group.text(bytes)), room, |text| text.len() + 2)
    };
    let long = of(TEXT_KEY_BYTES);
    if long.len() >= groups.len().min(TEXT_GROUPS) { long } else { of(SHORT_TEXT_KEY_BYTES) }
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

/// Truncates a long text to `chars`, and notes in its preview how long the text is.
fn shorten(value: &mut Json, preview: &mut Json, chars: usize) {
    let Json::String(text) = value else { return };
    let (shown, count) = prefix_within(text, chars, chars * 4);
    if shown.len() == text.len() {
        return;
    }
    let mut sizes = match std::mem::take(preview) {
        Json::Object(sizes) => sizes,
        _ => Map::from_iter([("size_chars".to_owned(), text.chars().count().into())]),
    };
    sizes.insert("shown_chars".to_owned(), count.into());
    (*value, *preview) = (shown.into(), Json::Object(sizes));
}
