//! What a client accepts as an answer, read from `Accept`.
//!
//! MCP answers with JSON or with an event stream, and its clients name both. Programs that only
//! probe a server send `*/*` or nothing, which accepts everything. *Source*: RFC 9110, section
//! 12.5.1.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

/// What clients of MCP send, as the SDK wants it.
const OF_MCP: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// What opens an event stream, as the SDK wants it.
const OF_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The forms of an answer that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// `application/json`.
    pub(super) json: bool,
    /// `text/event-stream`.
    pub(super) events: bool,
    /// `text/html`, named itself. Only browsers name it.
    pub(super) page: bool,
}

impl Accepted {
    /// Reads the headers of a request. A request without `Accept` accepts everything.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<Range<'_>> = values.flat_map(|text| text.split(',')).map(range).collect();
        let accepts = |kind| ranges.is_empty() || accepts(&ranges, kind);
        Self {
            json: accepts(("application", "json")),
            events: accepts(("text", "event-stream")),
            page: ranges.iter().any(|range| range.is(("text", "html")) && range.is_wanted),
        }
    }
}

/// Writes `Accept` as the SDK wants it for a POST.
pub(super) fn accept_both(headers: &mut HeaderMap) {
    headers.insert(ACCEPT, OF_MCP);
}

/// Writes `Accept` as the SDK wants it for a GET.
pub(super) fn accept_stream(headers: &mut HeaderMap) {
    headers.insert(ACCEPT, OF_STREAM);
}

/// One entry of `Accept`.
struct Range<'a> {
    kind: &'a str,
    subkind: &'a str,
    /// Whether the weight is more than zero.
    is_wanted: bool,
}

impl Range<'_> {
    fn is(&self, (kind, subkind): (&str, &str)) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.subkind.eq_ignore_ascii_case(subkind)
    }
}

fn range(text: &str) -> Range<'_> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let (kind, subkind) = media_type.split_once('/').unwrap_or((media_type, ""));
    let weights = parts.filter_map(|part| part.split_once('='));
    let mut weights = weights.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    // A weight that is not a number excludes nothing.
    let is_wanted = weights.all(|(_, value)| value.trim().parse() != Ok(0.0_f32));
    Range { kind, subkind, is_wanted }
}

/// Returns whether the most specific range that covers a media type wants it.
fn accepts(ranges: &[Range<'_>], (kind, subkind): (&str, &str)) -> bool {
    let wanted = |covers: &dyn Fn(&Range<'_>) -> bool| {
        let mut covering = ranges.iter().filter(|range| covers(range)).peekable();
        covering.peek().is_some().then(|| covering.any(|range| range.is_wanted))
    };
    wanted(&|range| range.is((kind, subkind)))
        .or_else(|| wanted(&|range| range.is((kind, "*"))))
        .or_else(|| wanted(&|range| range.is(("*", "*"))))
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides_and_no_header_accepts_everything() {
        let both = (true, true, false);
        for (values, expected) in [
            (&[][..], both),
            (&["*/*"], both),
            (&["application/json, text/event-stream"], both),
            (&["application/json", "text/event-stream"], both),
            (&["application/*, text/*"], both),
            (&["Application/JSON;q=0.5, text/event-stream; charset=utf-8"], both),
            (&["application/json"], (true, false, false)),
            (&["text/event-stream"], (false, true, false)),
            (&["text/plain"], (false, false, false)),
            (&["*/*, text/event-stream;q=0"], (true, false, false)),
            (&["*/*;q=0.0, application/json"], (true, false, false)),
            (&["text/*;q=0, */*;q=x"], (true, false, false)),
            (&[""], (false, false, false)),
            (
                &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
                (true, true, true),
            ),
            (&["text/html;q=0"], (false, false, false)),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            let Accepted { json, events, page } = Accepted::of(&headers);
            assert_eq!((json, events, page), expected, "{values:?}");
        }
    }
}
