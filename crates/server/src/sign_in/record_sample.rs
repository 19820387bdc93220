//! Two records as a client would see them, for the owner who decides about its request.
//!
//! The sample comes from the operation that answers the client later, with the fields that the
//! client asks for. Where the client sees records of some times alone, the sample is of the latest
//! records that are of these times.

use std::time::Duration;

use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::request::ListRecords;
use stile_domain::records::visible_time::VisibleTime;
use stile_domain::unseen::{shown_ends, shown_start};
use stile_records::RecordService;
use stile_store::cancellation::Cancellation;
use stile_store::read_limit::ReadLimit;

/// How long the records may take. The page is shown without them otherwise.
const MAX_READ: Duration = Duration::from_millis(500);
/// The most characters of a value, and of the name of a field.
const MAX_VALUE: usize = 120;
const MAX_NAME: usize = 80;
/// How many records are shown.
const SHOWN: usize = 2;
/// How many of the latest records are read where only those of a time are shown.
const READ: usize = 40;
/// The most characters of a value that are read.
const PREVIEW_CHARS: u64 = 200;

/// Which records of a stream are shown.
#[derive(Clone, Debug)]
pub struct SampleOf<'a> {
    /// The name of the stream.
    pub stream: &'a str,
    /// The connection; `None` for all that have the stream.
    pub connection: Option<&'a str>,
    /// The fields that are shown.
    pub fields: &'a [String],
    /// The field that has the time of a record, and the times that are shown; `None` for all.
    pub time: Option<(&'a str, VisibleTime)>,
}

/// Returns the latest records of a stream with these fields, and no others. Empty if there are
/// none, or if the latest are of other times.
pub fn sample(
    (service, owner): (&RecordService, &Principal),
    now: Instant,
    of: &SampleOf<'_>,
) -> Vec<Map<String, Value>> {
    let mut fields = of.fields.to_vec();
    fields.extend(of.time.map(|(field, _)| field.to_owned()));
    if fields.is_empty() {
        return Vec::new();
    }
    let request = ListRecords {
        stream: of.stream.to_owned(),
        limit: Some(if of.time.is_some() { READ } else { SHOWN } as u64),
        fields,
        preview_chars: Some(PREVIEW_CHARS),
        connection: of.connection.map(str::to_owned).into(),
        ..ListRecords::default()
    };
    let limit = ReadLimit::new(MAX_READ, Cancellation::default());
    let service = service.clone().within(limit);
    let mut text = String::new();
    if service.answer_unjournalled(owner, now, &request.into(), &mut text).is_err() {
        return Vec::new();
    }
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let found = answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let data = found.iter().filter_map(|record| record.get("data")?.as_object());
    let is_of_time = |data: &&Map<String, Value>| match of.time {
        None => true,
        Some((field, times)) => {
            let happened = data.get(field).and_then(Value::as_str);
            times.shows(happened.and_then(Instant::parse))
        }
    };
    // A stream of several connections may have more fields in one of them.
    let is_asked = |name: &String| of.fields.contains(name);
    data.filter(is_of_time)
        .take(SHOWN)
        .map(|data| {
            let kept = data.iter().filter(|(name, _)| is_asked(name));
            kept.map(|(name, value)| (name.clone(), value.clone())).collect()
        })
        .collect()
}

/// Shows records with what the client sees of each, and beside it what it does not. Fields that do
/// not fit into `bytes` are counted.
pub fn shown_beside(
    sample: &[Map<String, Value>],
    is_seen: impl Fn(&str) -> bool,
    bytes: usize,
) -> Markup {
    html! {
        @for record in sample {
            div class="beside" {
                div {
                    h3 { "It will see" }
                    (shown_record(record.iter().filter(|(name, _)| is_seen(name)), bytes / 2))
                }
                div class="unseen-part" {
                    h3 { "It will not see" }
                    @if record.keys().all(|name| is_seen(name)) { p { "Nothing is left out." } }
                    (shown_record(record.iter().filter(|(name, _)| !is_seen(name)), bytes / 2))
                }
            }
        }
    }
}

/// Shows fields of a record, each with its name and the beginning of its value, as long as they fit
/// into `bytes`.
pub fn shown_record<'a>(
    fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
    bytes: usize,
) -> Markup {
    let (mut left, mut more) = (bytes, 0_usize);
    let mut shown = String::new();
    for (name, value) in fields {
        let PreEscaped(row) = html! {
            dt { (shown_ends(name, MAX_NAME)) }
            dd { (value_text(value)) }
        };
        match left.checked_sub(row.len()) {
            Some(rest) if more == 0 => {
                left = rest;
                shown.push_str(&row);
            }
            _ => more += 1,
        }
    }
    html! {
        @if !shown.is_empty() { dl class="sample" { (PreEscaped(shown)) } }
        @if more > 0 { p class="muted" { "And " (more) " more fields." } }
    }
}

fn value_text(value: &Value) -> String {
    let whole = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // The end of the last line is no content that anybody asks about.
    let whole = whole.trim_end_matches(['\r', '\n']);
    let start = shown_start(whole, MAX_VALUE);
    if whole.chars().nth(MAX_VALUE).is_some() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_records_are_text_and_short() {
        let record = json!({ "body": format!("<b>\u{202e}{}", "x".repeat(4000)), "amount": 4.5,
            "end": "one\r\n" });
        let sample = [record.as_object().unwrap().clone()];
        let page = shown_beside(&sample, |name| name == "amount", 5_000).into_string();
        assert!(page.contains("&lt;b&gt;\\u{202e}xx") && page.contains("…</dd>"), "{page}");
        let (shown, hidden) = page.split_once("It will not see").unwrap();
        assert!(shown.contains("<dd>4.5</dd>") && !shown.contains("&lt;b&gt;"), "{page}");
        assert!(hidden.contains("&lt;b&gt;") && !hidden.contains("4.5"), "{page}");
        assert!(hidden.contains("<dd>one</dd>"), "the end of a line is not shown: {page}");
        assert!(page.len() < 1000, "{}", page.len());
        let wide: Map<String, Value> =
            (0..300).map(|number| (format!("<{number}"), json!("x".repeat(4000)))).collect();
        let page = shown_beside(&[wide], |_| true, 5_000).into_string();
        assert!(page.len() < 3_000 && page.contains("more fields."), "{page}");
    }
}
