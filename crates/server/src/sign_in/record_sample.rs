//! Two records as a client would see them, for the owner who decides about its request.
//!
//! The sample comes from the operation that answers the client later, with the fields that the
//! client asks for. A request that is limited to some records or to a time has no sample, since
//! the latest records need not be among them.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::{Map, Value};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::request::ReadOperation;
use stile_domain::unseen::{shown, shown_start};
use stile_records::RecordService;
use stile_records::grant_request::StreamGrantRequest;
use stile_records::operation_declaration::OperationCall;
use stile_records::request_target::RequestTarget;
use stile_store::cancellation::Cancellation;
use stile_store::read_limit::ReadLimit;

/// How long the records may take. The page is shown without them otherwise.
const MAX_READ: Duration = Duration::from_millis(500);
/// The most characters of a value.
const MAX_VALUE: usize = 120;
/// The number of records, and the most characters of a value that are read.
const PARAMETERS: [(&str, &str); 2] = [("limit", "2"), ("preview_chars", "200")];

/// Returns the latest records of a stream of a request with these fields, and no others. Empty if
/// there are none, or if the request is limited to some records.
pub(super) fn sample(
    (service, owner): (&RecordService, &Principal),
    now: Instant,
    stream: &StreamGrantRequest,
    fields: &[String],
) -> Vec<Map<String, Value>> {
    let is_limited = stream.time_constraint.is_some()
        || stream.time_range.is_some()
        || stream.resources.is_some();
    let connections = stream.connection_ids.as_deref().unwrap_or_default();
    if is_limited || connections.len() > 1 {
        return Vec::new();
    }
    let names = fields.join(",");
    let mut parameters = vec![("fields", names.as_str())];
    parameters.extend(PARAMETERS);
    parameters.extend(connections.first().map(|name| ("connection_id", name.as_str())));
    let target = RequestTarget::new(&stream.name, "", &parameters);
    let call = OperationCall::from_read_operation(ReadOperation::Records, target);
    let limit = ReadLimit::new(MAX_READ, Cancellation::default());
    let service = service.clone().within(limit);
    let mut text = String::new();
    if service.answer_unjournalled(owner, now, &call, &mut text).is_err() {
        return Vec::new();
    }
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let found = answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let data = found.iter().filter_map(|record| record.get("data")?.as_object());
    // A stream of several connections may have more fields in one of them.
    let is_asked = |name: &String| fields.contains(name);
    data.map(|data| {
        let kept = data.iter().filter(|(name, _)| is_asked(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    })
    .collect()
}

/// Shows the records, and the names of the fields that the client does not see.
pub(super) fn shown_sample(sample: &[Map<String, Value>], hidden: &[String]) -> Markup {
    html! {
        @if !sample.is_empty() {
            details open {
                summary { "The latest records, as it would see them" }
                @for record in sample {
                    dl class="sample" {
                        @for (name, value) in record {
                            dt { (shown(name)) }
                            dd { (value_text(value)) }
                        }
                    }
                }
            }
        }
        @if !hidden.is_empty() {
            p class="muted" { "It does not see: " (shown(&hidden.join(", "))) "." }
        }
    }
}

fn value_text(value: &Value) -> String {
    let whole = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let start = shown_start(&whole, MAX_VALUE);
    if whole.chars().nth(MAX_VALUE).is_some() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_records_are_text_and_short() {
        let record = json!({ "body": format!("<b>\u{202e}{}", "x".repeat(4000)), "amount": 4.5 });
        let sample = [record.as_object().unwrap().clone()];
        let page = shown_sample(&sample, &["iban".to_owned()]).into_string();
        assert!(page.contains("&lt;b&gt;\\u{202e}xx") && page.contains("…</dd>"), "{page}");
        assert!(page.contains("<dd>4.5</dd>") && page.contains("not see: iban"), "{page}");
        assert!(page.len() < 1000, "{}", page.len());
        assert_eq!(shown_sample(&[], &[]).into_string(), "");
    }
}
