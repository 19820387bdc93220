//! `GET /v1/streams/{stream}/aggregate`: counts, sums and extremes over the records that the caller
//! may see, of all of them or for each group.
//!
//! The operation reads the named fields of every matching record, so the values are exact and do
//! not depend on the order of the records. The number of groups and distinct values has a bound,
//! see [`stile_domain::records::aggregator`]. Only records that the caller may see count against
//! that bound, so that its error reveals nothing of others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use stile_domain::records::aggregator::{
    AggregateOverflow, Aggregator, GroupKey, GroupPage, LeftOutValues, MeasuredValue, RecordGroup,
};
use stile_domain::records::filter::Condition;
use stile_domain::records::pieces::INLINE_BYTES;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::{AggregateRecords, ReadOperation as _};
use stile_domain::records::sealed_cursor::{Binding, GroupsCursor};
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::tokenizer::ParsedQuery;
use stile_domain::records::zone::{Granularity, TimeBucket};
use stile_store::records::{LongValueRef, RecordSource, StoredField};

use crate::aggregation_request::{AggregationRequest, DeclaredAggregation};
use crate::context::ReadContext;
use crate::field_selection;
use crate::field_text::format_digest;
use crate::list_response::write_record_cursor;
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::passed_over;
use crate::recurrences::Recurrences;
use crate::request_target::RequestAddress;
use crate::response_meta::{add_warnings, response_meta};
use crate::response_sink::{ResponseSink, write_json_string};
use crate::search_query::{broad_terms, parse_query, query_text, query_warnings};
use crate::unsearched_lists;

/// How much of a long text an answer has as the key of a group, in scalar values.
const MAX_KEY_CHARS: u64 = 256;
/// How much an answer has of a value that was left out, in scalar values.
const MAX_EXAMPLE_CHARS: usize = 80;
/// The longest time for finding the records with the words of `q`.
const MAX_SEARCHING: Duration = Duration::from_secs(20);

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "An exact count, sum, mean, minimum, maximum or grouping over all records that the caller may see.",
    response: ResponseDeclaration::json(
        "aggregation",
        &["object", "stream", "metric", "field", "filtered_record_count", "approximate", "meta"],
    ),
    ..OperationDeclaration::of_requests::<AggregateRecords>()
};

/// Where one occurrence of each long text is, by the digest of the text.
type LongTexts = HashMap<[u8; 32], LongValueRef>;

/// Makes the cursor that continues after a group.
type CursorAfter<'c> = &'c dyn Fn(&RecordGroup) -> Result<String, Problem>;

/// The records that an aggregation is over.
#[derive(Clone)]
struct AggregatedRecords<'r> {
    sources: &'r [RecordSource],
    conditions: Vec<Condition>,
    /// The words that must occur in each record.
    query: Option<ParsedQuery>,
}

impl AnsweredRequest for AggregateRecords {
    /// Answers with [`Problem::TooManyGroups`] or [`Problem::NumberTooLong`] if the values exceed
    /// the bounds of the aggregator.
    fn answer(
        &self,
        context: ReadContext<'_>,
        _: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let sources = &context.view.sources_of(&self.stream, self.connection.name()?)?;
        let requested = AggregationRequest::parse(self)?;
        let declared = requested.declared(context, sources)?;
        let asked = field_selection::conditions(context, sources, &self.conditions)?;
        let mut conditions = asked.clone();
        let recurrences = Recurrences::let_in(context, sources, &mut conditions)?;
        let query =
            query_text(self.q.as_deref())?.map(|text| parse_query(text, sources)).transpose()?;
        let binding = cursor_binding(context, self);
        let after = context
            .decode_cursor(self.cursor.as_deref(), |bytes| GroupsCursor::decode(bytes, binding))?;
        let records = AggregatedRecords { sources, conditions, query };
        let mut meta = response_meta(&self.clamped, &self.connection);
        add_warnings(&mut meta, records.query.iter().flat_map(query_warnings).collect());
        if after.is_none() {
            let mut count = |other: &[Condition]| {
                let records = AggregatedRecords { conditions: other.to_vec(), ..records.clone() };
                records.count(context, &*out).map(|count| (count, true))
            };
            let warnings = passed_over::warnings(context, sources, &asked, &mut count)?;
            add_warnings(&mut meta, warnings);
            add_warnings(&mut meta, recurrences.warnings());
            if let Some(query) = &records.query {
                let unsearched = unsearched_lists::warning(context, sources, query)?;
                add_warnings(&mut meta, unsearched.into_iter().collect());
            }
            if let Some((field, ..)) = &requested.by_time {
                let conditions = &records.conditions;
                let once = Recurrences::counted_once(context, sources, conditions, field.name)?;
                add_warnings(&mut meta, once);
            }
        }
        out.write("{\"object\":\"aggregation\",\"stream\":");
        write_json_string(out, &self.stream);
        let measured = json!(requested.measured.as_ref().map(|field| field.name));
        out.write(&format!(",\"metric\":\"{}\",\"field\":{measured}", requested.metric));
        if requested.fields().is_empty() {
            let count = records.count(context, &*out)?;
            out.write(&format!(",\"value\":{count},\"filtered_record_count\":{count}"));
            write_grouping(&requested, out);
        } else {
            let (values, long_texts) = records.aggregate(context, (&requested, declared), &*out)?;
            add_warnings(&mut meta, left_out_warnings(&requested, values.left_out()));
            if !requested.is_grouped() {
                out.write(",\"value\":");
                write_value(&values.value(), out);
            }
            out.write(&format!(",\"filtered_record_count\":{}", values.records()));
            write_grouping(&requested, out);
            if requested.is_grouped() {
                let limit = usize::try_from(requested.limit).unwrap_or(usize::MAX);
                let page = values
                    .groups(requested.order, after.map(|cursor| cursor.after), limit)
                    .ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
                let cursor_after = |group: &RecordGroup| {
                    context.view.seal(&GroupsCursor { after: group.id() }.encode(binding))
                };
                write_groups(context, &requested, (&page, &long_texts, &cursor_after), out)?;
                if let Some(last) = page.groups.last().filter(|_| page.has_more) {
                    out.write(&format!(",\"next_cursor\":\"{}\"", cursor_after(last)?));
                }
            }
        }
        out.write(&format!(",\"meta\":{meta}}}"));
        Ok(())
    }
}

impl AggregatedRecords<'_> {
    /// Counts the records. Reads no body if there is neither a condition nor a query.
    fn count(&self, context: ReadContext<'_>, out: &dyn ResponseSink) -> Result<u64, Problem> {
        let Self { sources, conditions, query } = self;
        let Some(query) = query else {
            return context.view.count_matching(sources, conditions);
        };
        let check_limits = searching_limits(query, out);
        let (count, _) =
            context.view.count_text(sources, query, conditions, usize::MAX, &check_limits)?;
        Ok(count as u64)
    }

    /// Aggregates the fields of every record.
    fn aggregate(
        &self,
        context: ReadContext<'_>,
        (requested, declared): (&AggregationRequest<'_>, DeclaredAggregation),
        out: &dyn ResponseSink,
    ) -> Result<(Aggregator, LongTexts), Problem> {
        let param =
            requested.fields().get(declared.plan.measured_fields()).map_or("field", |by| by.param);
        let fields: Vec<&str> = requested.fields().iter().map(|field| field.name).collect();
        let mut values = Aggregator::new(declared.plan, declared.types);
        let mut long_texts = LongTexts::new();
        let mut add = |source, fields: &[Option<StoredField<'_>>]| {
            let own: Vec<_> = fields.iter().map(|field| field.map(|(value, _)| value)).collect();
            values.add(source, &own).map_err(|overflow| match overflow {
                AggregateOverflow::Groups => Problem::TooManyGroups { param },
                AggregateOverflow::Digits => Problem::NumberTooLong,
            })?;
            for (value, long) in fields.iter().flatten() {
                if let (StoredValue::LongText(text), Some(long)) = (value, long) {
                    long_texts.entry(text.digest).or_insert(*long);
                }
            }
            Ok(!out.is_closed())
        };
        let Self { sources, conditions, query } = self;
        let view = context.view;
        match query {
            None => {
                for (at, source) in sources.iter().enumerate() {
                    view.field_values(source, conditions, &fields, &mut |own| add(at, own))?;
                }
            }
            Some(query) => {
                let check_limits = searching_limits(query, out);
                view.each_match(sources, query, conditions, &check_limits, &mut |rows| {
                    for (at, source) in sources.iter().enumerate() {
                        let own: Vec<_> =
                            rows.iter().filter(|row| row.source == at).cloned().collect();
                        if !view.row_values(source, &own, &fields, &mut |own| add(at, own))? {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                })?;
            }
        }
        Ok((values, long_texts))
    }
}

/// Ends a search that takes too long, or that nobody waits for.
fn searching_limits<'q>(
    query: &'q ParsedQuery,
    out: &'q dyn ResponseSink,
) -> impl Fn() -> Result<(), Problem> + use<'q> {
    let start = Instant::now();
    move || match () {
        // The reader is gone, so nobody reads this error.
        () if out.is_closed() => Err(Problem::Busy),
        () if start.elapsed() > MAX_SEARCHING => {
            Err(Problem::SearchTooBroad { terms: broad_terms(query) })
        }
        () => Ok(()),
    }
}

/// Binds a cursor to every parameter but the size of a page.
fn cursor_binding(context: ReadContext<'_>, request: &AggregateRecords) -> Binding {
    let whole = AggregateRecords { limit: None, cursor: None, ..request.clone() };
    let mut pairs = whole.pairs();
    // A cursor is good for the same parameters in any order. Only the fields of `group_by` have an
    // order that means something, and a stable sort keeps it.
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let pairs = pairs.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let parts = ["aggregate", context.view.caller(), &request.stream];
    Binding::new(parts.into_iter().chain(pairs))
}

/// Returns a warning for each field with values that do not count, and for each with lists some of
/// whose members do not.
fn left_out_warnings(requested: &AggregationRequest<'_>, left_out: &[LeftOutValues]) -> Vec<Json> {
    let granularity = requested.by_time.as_ref().map(|(_, granularity, _)| *granularity);
    let mut warnings = Vec::new();
    for (field, left_out) in requested.fields().into_iter().zip(left_out) {
        let fault = match (field.param, granularity) {
            ("group_by_time", Some(Granularity::HourOfDay)) => "that has no time of the day",
            ("group_by_time", _) => "that is not a time",
            _ => "that does not fit the declared type",
        };
        let end = match field.param {
            "field" => "was left out",
            _ => "counts in the group `null`",
        };
        let LeftOutValues { values, example, long_lists, lists, member } = left_out;
        let end = format!("which {end}");
        let of_values = (format!("a value {fault}"), *values, end.clone(), example);
        let long = format!("a list longer than {INLINE_BYTES} bytes");
        let of_long_lists = (long, *long_lists, end, &None);
        let others = "of which the other members count".to_owned();
        let of_members = (format!("a list with a member {fault}"), *lists, others, member);
        for (code, (has, records, end, example)) in [
            ("values_left_out", of_values),
            ("long_lists_left_out", of_long_lists),
            ("members_left_out", of_members),
        ] {
            if records == 0 {
                continue;
            }
            let example = example
                .as_ref()
                .map(|text| text.chars().take(MAX_EXAMPLE_CHARS).collect::<String>());
            let such = example
                .as_ref()
                .map_or_else(String::new, |text| format!(", such as {}", json!(text)));
            let name = field.name;
            warnings.push(json!({
                "code": code, "param": field.param,
                "message": format!("`{name}` has {has} in {records} record(s), {end}{such}"),
                "detail": { "field": name, "values": records, "example": example },
            }));
        }
    }
    warnings
}

fn write_grouping(requested: &AggregationRequest<'_>, out: &mut dyn ResponseSink) {
    let names: Vec<&str> = requested.by_value.iter().map(|field| field.name).collect();
    let by_value = match names.as_slice() {
        [] => Json::Null,
        [one] => json!(one),
        several => json!(several),
    };
    let by_time = requested.by_time.as_ref();
    let granularity = by_time.and_then(|(_, own, _)| {
        Granularity::ALL.into_iter().find_map(|(known, name)| (known == *own).then_some(name))
    });
    let (field, zone) = (by_time.map(|(field, ..)| field.name), by_time.map(|by| by.2.name()));
    out.write(&format!(
        ",\"approximate\":false,\"group_by\":{by_value},\"group_by_time\":{},\"granularity\":{},\"time_zone\":{}",
        json!(field),
        json!(granularity),
        json!(zone)
    ));
}

fn write_value(value: &MeasuredValue, out: &mut dyn ResponseSink) {
    match value {
        MeasuredValue::Whole(count) => out.write(&count.to_string()),
        MeasuredValue::Number(digits) => out.write(digits),
        MeasuredValue::Time { written, .. } => write_json_string(out, written),
        MeasuredValue::None => out.write("null"),
    }
}

fn write_groups(
    context: ReadContext<'_>,
    requested: &AggregationRequest<'_>,
    (page, long_texts, cursor_after): (&GroupPage, &LongTexts, CursorAfter<'_>),
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let GroupPage { groups, others, .. } = page;
    out.write(",\"groups\":[");
    for (index, group) in groups.iter().enumerate() {
        let RecordGroup { keys, count, value } = group;
        out.write(if index > 0 { ",{\"key\":" } else { "{\"key\":" });
        let mut previews = Vec::new();
        // One grouping has a key, several have a list of keys.
        let (open, close) = if keys.len() == 1 { ("", "") } else { ("[", "]") };
        for (index, key) in keys.iter().enumerate() {
            out.write(if index > 0 { "," } else { open });
            previews.push(write_key(context, key, long_texts, out)?);
        }
        out.write(close);
        if previews.iter().any(|preview| !preview.is_null()) {
            let previews = match previews.as_slice() {
                [one] => one.clone(),
                _ => Json::Array(previews),
            };
            out.write(&format!(",\"key_preview\":{previews}"));
        }
        out.write(&format!(",\"count\":{count}"));
        if requested.measured.is_some() {
            out.write(",\"value\":");
            write_value(value, out);
        }
        if requested.has_cursors {
            write_record_cursor(&cursor_after(group)?, out);
        }
        out.write("}");
    }
    out.write(&format!("],\"limit\":{},\"other_count\":{others}", requested.limit));
    Ok(())
}

/// Writes the key of a group. Returns how much it is of a long text, and otherwise null.
fn write_key(
    context: ReadContext<'_>,
    key: &GroupKey,
    long_texts: &LongTexts,
    out: &mut dyn ResponseSink,
) -> Result<Json, Problem> {
    match key {
        GroupKey::Bool(value) => out.write(if *value { "true" } else { "false" }),
        GroupKey::Number(digits) => out.write(digits),
        GroupKey::Text(text) => write_json_string(out, text),
        GroupKey::Time(TimeBucket::Span(start)) => write_json_string(out, &start.to_rfc3339()),
        GroupKey::Time(TimeBucket::Hour(hour)) => out.write(&hour.to_string()),
        GroupKey::Time(TimeBucket::Weekday(day)) => {
            let name = TimeBucket::WEEKDAYS.get(usize::from(*day)).copied();
            write_json_string(out, name.unwrap_or_default());
        }
        GroupKey::None => out.write("null"),
        GroupKey::LongText { digest, chars } => {
            let long = long_texts.get(digest).ok_or(Problem::Corrupt)?;
            write_json_string(out, &context.view.long_text(*long, 0, MAX_KEY_CHARS)?);
            let shown = MAX_KEY_CHARS.min(*chars);
            return Ok(json!({
                "shown_chars": shown, "size_chars": chars, "digest": format_digest(digest),
            }));
        }
    }
    Ok(Json::Null)
}
