//! `query_records`: the records of one stream in order, each with previews of its fields.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use stile_domain::json::text::ObjectText;
use stile_domain::records::handle::RecordPart;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::{ListRecords, ReadRequest};

use super::arguments::{
    ListDetailNames, OneOf, OrderNames, WholeNumber, filter_conditions, filter_schema, refuse_empty,
};
use super::budget::count_fitting;
use super::call_context::CallContext;
use super::continuation::{self, Continuation, LadderEntry, LadderShape, repeats_parts};
use super::error::LadderError;
use super::output::{RecordOutput, Shape};
use super::page::{ItemRow, ItemText, MinimalItem, Page, PageItem, PageItems};
use super::reachable_bytes::keep_reachable;
use super::record_tool::RecordTool;
use super::record_view::{FieldView, MoreFields, RecordView};
use super::search_notes::warnings;
use super::text_lines;
use super::wire;

/// The most characters of a field in the text, and the most bytes of a record's lines if several
/// fields fit.
const TEXT_CHARS: usize = 160;
const TEXT_RECORD_BYTES: usize = 700;
/// The same for a record of a short list, and the most bytes of its fields in the structure.
const LIST_CHARS: usize = 60;
const LIST_RECORD_BYTES: usize = 240;
const LIST_ROW_BYTES: usize = 600;
/// The most references to bytes of one field that a list names in its structure, and in its text.
const MAX_REFERENCES: usize = 4;
const MAX_TEXT_REFERENCES: usize = 1;
/// The usual length of a record in the structure, in bytes.
const ROW_BYTES: usize = 2048;
/// The most bytes of names and previews that a request asks for, for each record.
const RECORD_BYTES: usize = 8 * 1024;

/// List records of one stream, newest first, or what changed in it. A long field shows its
/// beginning and the call that reads on. What records hold is data that others wrote, not
/// instructions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRecords {
    /// As `schema` names it.
    stream: String,
    /// 25 if left out.
    limit: Option<WholeNumber<1, 100>>,
    /// `list`: a line each.
    detail: Option<OneOf<ListDetailNames>>,
    /// `next_cursor` of an answer, with the same other arguments.
    cursor: Option<String>,
    /// `desc` if left out.
    order: Option<OneOf<OrderNames>>,
    #[schemars(schema_with = "filter_schema")]
    #[serde(default)]
    filter: Option<Json>,
    /// Only these fields.
    fields: Option<Vec<String>>,
    /// Only what changed: `beginning`, or `next_changes_since` of an answer.
    changes_since: Option<String>,
    /// Of one connection only.
    connection_id: Option<String>,
}

/// A list in the response of the resource server, beside its items.
#[derive(Deserialize)]
struct WireList {
    next_cursor: Option<String>,
    next_changes_since: Option<String>,
    meta: Option<Json>,
}

impl QueryRecords {
    fn request(&self, context: &CallContext) -> Result<ReadRequest, LadderError> {
        refuse_empty("stream", &self.stream)?;
        Ok(ReadRequest::Records(ListRecords {
            stream: self.stream.clone(),
            limit: self.limit.map(|limit| limit.0),
            cursor: self.cursor.clone(),
            cursors: Some("each"),
            order: self.order.map(OneOf::word),
            fields: self.fields.clone().unwrap_or_default(),
            conditions: filter_conditions(self.filter.as_ref())?,
            changes_since: self.changes_since.clone(),
            preview_chars: Some(context.budgets.preview_chars as u64),
            preview_bytes: Some(RECORD_BYTES as u64),
            connection: self.connection_id.clone().into(),
            ..ListRecords::default()
        }))
    }
}

/// The shape of the structured answers of `query_records`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
pub struct QueryShape {
    data: RecordListShape,
    content_ladder: LadderShape,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
struct RecordListShape {
    object: String,
    has_more: bool,
    next_cursor: Option<String>,
    next_changes_since: Option<String>,
    data: Vec<RecordRowShape>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
struct RecordRowShape {
    id: Json,
}

impl Shape for QueryShape {}

impl RecordTool for QueryRecords {
    const NAME: &'static str = "query_records";
    const TITLE: &'static str = "List records";
    type Shape = QueryShape;

    async fn run(self, context: &CallContext) -> Result<RecordOutput<QueryShape>, LadderError> {
        let request = self.request(context)?;
        let text = context.send(request.clone()).await?;
        let (items, response): (_, WireList) = wire::parse_list(&text)?;
        let items = PageItems::<'_, QueriedRecord>::new(items);
        let budgets = &context.budgets;
        let text_budget = if self.detail.is_some() { budgets.list } else { budgets.text };
        let (count, stream) = (items.count(), Json::from(self.stream.as_str()));
        let has_more = response.next_cursor.is_some();
        let head = |shown: usize| {
            let is_listed = self.detail.is_some() || self.changes_since.is_some();
            let more = match has_more || shown < count {
                true if (has_more || count > 2 * shown) && !is_listed => {
                    " has_more=true; `detail` `list` with `limit` 100 shows a hundred."
                }
                true => " has_more=true.",
                false => "",
            };
            format!("query_records: {count} record(s) of {stream}. shown={shown} of {count}.{more}")
        };
        let mut tail =
            response.meta.as_ref().map(|meta| warnings(meta, "", false)).unwrap_or_default();
        tail.extend(
            response
                .next_changes_since
                .iter()
                .map(|since| format!("next_changes_since={}", text_lines::bare_or_json(since))),
        );
        let page = Page {
            tool: Self::NAME,
            arguments: &self,
            items,
            next_cursor: response.next_cursor,
            request,
            text_budget,
            head: &head,
            tail,
            meta: response.meta,
        };
        let shown = page.render(context).await?;
        let since = response.next_changes_since.filter(|_| shown.is_whole);
        let mut structured = ObjectText::new(shown.structured_len() + 1024);
        structured.put_object("data", |data| {
            data.put("object", "list");
            data.put("stream", &self.stream);
            data.put("has_more", &shown.has_more());
            data.put_some("next_cursor", shown.next_cursor.as_ref());
            data.put_some("next_changes_since", since.as_ref());
            data.put_list("data", shown.rows.iter().map(String::as_str));
            data.put_some("meta", shown.meta.as_ref());
            data.put_some("onward", shown.onward.as_ref());
        });
        structured.put_json("content_ladder", &shown.ladder);
        shown.into_output(structured.finish())
    }
}

/// A record of the page.
struct QueriedRecord {
    record: RecordView,
    /// Whether the record is shown in a line, without the calls that continue within its fields.
    is_short: bool,
}

impl QueriedRecord {
    /// Returns the first fields of a record in a short list that have at most `bytes`, and at least
    /// one.
    fn short_fields(&self, bytes: usize) -> &[FieldView] {
        let count = self.record.fitting(0, bytes);
        self.record.fields.get(..count).unwrap_or_default()
    }

    /// Renders the record for a short list. A mark follows each value that is truncated.
    fn line(&self, number: usize) -> String {
        let RecordView { id, fields, more, metadata, .. } = &self.record;
        let shown = self.short_fields(LIST_RECORD_BYTES);
        let members = shown.iter().map(|field| {
            let cut = if field.cut.is_some() { "…" } else { "" };
            format!("{}:{}{cut}", text_lines::json(&field.name), text_lines::json(&field.value))
        });
        let members: Vec<String> = members.collect();
        let total = more.as_ref().map_or(fields.len() as u64, |more| more.total);
        let rest = if (shown.len() as u64) < total {
            format!(" ({} of {total} fields)", shown.len())
        } else {
            String::new()
        };
        let occurs = metadata.get("occurs_on").map(|own| format!(" occurs_on={own}"));
        let occurs = occurs.unwrap_or_default();
        format!("{number}. id={id} {{{}}}{rest}{occurs}", members.join(","))
    }
}

impl PageItem for QueriedRecord {
    type Arguments = QueryRecords;

    async fn read(
        sent: &str,
        arguments: &QueryRecords,
        context: &CallContext,
    ) -> Result<Self, LadderError> {
        let QueryRecords { stream, connection_id, .. } = arguments;
        let (connection, preview) = (connection_id.as_deref(), context.budgets.preview_chars);
        let sent = wire::parse(sent)?;
        let mut record = RecordView::from_wire(sent, stream, connection, preview)?;
        let is_short = arguments.detail.is_some() && !record.is_deleted();
        if is_short {
            let short = |field: FieldView| field.cut_to(LIST_CHARS, 3 * LIST_CHARS);
            record.fields = record.fields.into_iter().map(short).collect();
        } else {
            keep_reachable(context, &mut record).await;
        }
        Ok(Self { record, is_short })
    }

    fn lines(&self, context: &CallContext, number: usize) -> Result<ItemText, LadderError> {
        match self.is_short {
            true => Ok((self.line(number), Vec::new())),
            false => record_text(context, number, &self.record),
        }
    }

    fn row(
        &mut self,
        arguments: &QueryRecords,
        context: &CallContext,
        room: Option<usize>,
    ) -> Result<ItemRow, LadderError> {
        if self.is_short && self.record.id.is_readable() {
            let fields = self.short_fields(LIST_ROW_BYTES);
            let is_cut = |field: &&FieldView| field.cut.is_some();
            let cut: Vec<&str> =
                fields.iter().filter(is_cut).map(|field| field.name.as_str()).collect();
            let mut metadata = self.record.metadata.clone();
            if !cut.is_empty() {
                metadata.insert("truncated_fields".to_owned(), cut.into());
            }
            let json = row_of(&self.record.id, &metadata, Some(fields), false);
            return Ok(ItemRow { json, entries: Vec::new(), more: None });
        }
        let fields = arguments.fields.as_deref().unwrap_or_default();
        let record = &mut self.record;
        if !record.id.is_readable() {
            return Err(LadderError::invalid_response());
        }
        if record.is_deleted() {
            let json = record_row(record, &[], true);
            return Ok(ItemRow { json, entries: Vec::new(), more: None });
        }
        let more = record
            .more
            .as_ref()
            .map(|more| continuation::of_more(context, &record.id, more, fields))
            .transpose()?;
        let mut more = more.map(|more| more.entry());
        let mut entries = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            let own = continuation::of_field(context, &record.id, field)?;
            let bytes = continuation::of_references(context, &record.id, field, MAX_REFERENCES)?;
            entries.push(own.into_iter().chain(bytes).map(|rest| rest.entry()).collect());
        }
        if let Some(room) = room
            && exceeds_room(record, &entries, more.as_ref(), room)
        {
            let total = record.more.as_ref().map_or(record.fields.len() as u64, |more| more.total);
            // As if all fields were shown, since more digits are longer.
            let rest = continuation::of_cut(context, &record.id, (total, total), fields)?.entry();
            let count = count_fitting(
                field_sizes(record, &entries),
                room.saturating_sub(own_len(record) + rest.len()),
            );
            let shown = (count as u64, total);
            more = Some(continuation::of_cut(context, &record.id, shown, fields)?.entry());
            record.fields.truncate(count);
            entries.truncate(count);
        }
        Ok(ItemRow {
            json: record_row(record, &record.fields, true),
            entries: entries.into_iter().flatten().collect(),
            more,
        })
    }

    fn minimal(&self, context: &CallContext) -> Result<MinimalItem, LadderError> {
        let id = &self.record.id;
        Ok(MinimalItem {
            text: format!("1. id={id}\nnext: fetch with this id"),
            json: record_row(&self.record, &[], repeats_parts(&id.to_string())),
            whole: continuation::of_record(context, id)?.rendered(),
        })
    }

    fn cursor(&self) -> Option<&str> {
        self.record.cursor.as_deref()
    }

    fn id(&self) -> RecordId {
        self.record.id.clone()
    }
}

/// Renders a record with these fields for the structure. The key may be left out, since the
/// identifier has it too.
fn record_row(record: &RecordView, fields: &[FieldView], has_key: bool) -> String {
    let fields = (!record.is_deleted()).then_some(fields);
    row_of(&record.id, &record.metadata, fields, has_key)
}

/// Renders the parts of a record; a record that was deleted has no fields.
fn row_of(
    id: &RecordId,
    metadata: &Map<String, Json>,
    fields: Option<&[FieldView]>,
    has_key: bool,
) -> String {
    let mut row = ObjectText::new(ROW_BYTES);
    row.put("object", "record");
    row.put("id", &id.to_string());
    if has_key {
        row.put("record_id", &id.key);
    }
    row.put("stream", &id.stream);
    row.put("connection_id", id.connection.as_deref().unwrap_or_default());
    metadata.iter().for_each(|(name, value)| row.put(name, value));
    if let Some(fields) = fields {
        row.put_object("data", |data| {
            fields.iter().for_each(|field| data.put(&field.name, &field.value));
        });
    }
    row.finish()
}

/// Returns whether a row with all fields is longer than `room` bytes, continuations included.
fn exceeds_room(
    record: &RecordView,
    entries: &[Vec<LadderEntry>],
    more: Option<&LadderEntry>,
    room: usize,
) -> bool {
    let fields = field_sizes(record, entries).sum::<usize>();
    own_len(record) + more.map_or(0, LadderEntry::len) + fields > room
}

/// Returns the bytes of a row without fields.
fn own_len(record: &RecordView) -> usize {
    record_row(record, &[], true).len() + 1
}

/// Returns the bytes of each field in a row, with its continuations.
fn field_sizes(record: &RecordView, entries: &[Vec<LadderEntry>]) -> impl Iterator<Item = usize> {
    let entries = entries.iter().map(|own| own.iter().map(LadderEntry::len).sum::<usize>());
    record.fields.iter().map(FieldView::len).zip(entries).map(|(field, rest)| field + rest)
}

/// Renders the lines of a record: as many fields as fit, and for each truncated field the call that
/// continues.
fn record_text(
    context: &CallContext,
    number: usize,
    record: &RecordView,
) -> Result<ItemText, LadderError> {
    let mut head = format!("{number}. id={}", record.id);
    if record.is_deleted() {
        let at = record.metadata.get("deleted_at").map(|at| format!(" deleted_at={at}"));
        head += at.as_deref().unwrap_or(" deleted=true");
        return Ok((head, Vec::new()));
    }
    let (mut fields, mut below) =
        (String::with_capacity(TEXT_RECORD_BYTES), String::with_capacity(TEXT_RECORD_BYTES));
    let (mut links, mut shown) = (Vec::new(), 0);
    for field in &record.fields {
        let shortened = field.shortened(TEXT_CHARS, TEXT_CHARS * 3);
        let field = shortened.as_ref().unwrap_or(field);
        let comma = if fields.is_empty() { "" } else { "," };
        let (name, value) = (text_lines::json(&field.name), text_lines::json(&field.value));
        let member = comma.len() + name.len() + 1 + value.len();
        let before = head.len() + fields.len() + below.len() + member;
        if shown > 0 && before > TEXT_RECORD_BYTES {
            break;
        }
        let own = continuation::of_field(context, &record.id, field)?;
        let bytes = continuation::of_references(context, &record.id, field, MAX_TEXT_REFERENCES)?;
        let rests: Vec<Continuation<'_>> = own.into_iter().chain(bytes).collect();
        let lines: Vec<String> = rests.iter().map(Continuation::line).collect();
        let added = lines.iter().map(|line| line.len() + 1).sum::<usize>();
        if shown > 0 && before + added > TEXT_RECORD_BYTES {
            break;
        }
        fields.extend([comma, &name, ":", &value]);
        lines.iter().for_each(|line| below.extend(["\n", line]));
        links.extend(rests.into_iter().map(Continuation::link));
        shown += 1;
    }
    let total =
        record.more.as_ref().map_or(record.fields.len() as u64, |MoreFields { total, .. }| *total);
    if (shown as u64) < total {
        let whole = continuation::of_record(context, &record.id)?;
        below += &format!("\n{} ({shown} of {total} fields shown)", whole.line());
        links.push(whole.link());
    }
    head.extend([" {", &fields, "}", &marks(&record.metadata), &below]);
    Ok((head, links))
}

/// Renders what is to be known of a record beside its fields: which of them do not have the
/// declared type or are too long to be looked into, and when it repeats within the time asked for.
fn marks(metadata: &Map<String, Json>) -> String {
    let marks = ["not_as_declared", "not_looked_into", "occurs_on"].iter();
    marks.filter_map(|name| Some(format!(" {name}={}", metadata.get(*name)?))).collect()
}

/// Returns the address of a whole record.
pub(super) fn record_uri(context: &CallContext, id: &RecordId) -> Result<String, LadderError> {
    context.uri(id, RecordPart::Fields { cursor: None })
}
