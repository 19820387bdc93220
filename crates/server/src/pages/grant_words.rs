//! What a grant shows of the records, in sentences with times that a page can show.

use maud::{Markup, PreEscaped, html};
use stile_domain::audit::words::listed;
use stile_domain::records::grant::StreamGrant;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::unseen::shown_ends;

use super::times::exact;

/// The most characters of a name in a sentence, the most fields, and the most connections.
const MAX_NAME: usize = 60;
const MAX_FIELDS: usize = 12;
const MAX_CONNECTIONS: usize = 4;

/// Returns a sentence without its period that says what a grant shows of a stream. It begins with
/// `may see`, as the rest of a sentence that begins with the client.
pub(super) fn stream_sentence(stream: &StreamGrant) -> Markup {
    let times = stream.time.as_ref().map(|time| [time.since, time.until]);
    let sentence = seen_sentence(
        stream.stream.as_str(),
        stream.connections.iter().map(SourceName::as_str),
        stream.fields.iter().map(String::as_str),
        times.unwrap_or_default(),
    );
    html! {
        (sentence)
        @if let Some(keys) = &stream.keys { ", " (keys.len()) " records alone" }
    }
}

/// Returns a sentence as `stream_sentence` does, of names and times that are not granted yet.
pub fn seen_sentence<'a>(
    stream: &str,
    connections: impl Iterator<Item = &'a str>,
    fields: impl Iterator<Item = &'a str>,
    [since, until]: [Option<Instant>; 2],
) -> Markup {
    let (fields, more) = named(fields, MAX_FIELDS);
    let (connections, others) = named(connections, MAX_CONNECTIONS);
    html! {
        "may see "
        @if fields.is_empty() { "no field" } @else { (fields.join(", ")) }
        @if more > 0 { " and " (more) " more fields" }
        " of " (shown_ends(stream, MAX_NAME)) " from "
        @if others > 0 { (connections.join(", ")) " and " (others) " more connections" }
        @else { (listed(&connections)) }
        @if let Some(since) = since { ", since " (exact(since)) }
        @if let Some(until) = until { ", before " (exact(until)) }
    }
}

/// Returns the first names, and how many others there are.
fn named<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> (Vec<String>, usize) {
    let mut names: Vec<String> = names.map(|name| shown_ends(name, MAX_NAME)).collect();
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    (names, more)
}

/// Returns a sentence with its first letter, one of ASCII, as a capital.
pub(super) fn capitalised(sentence: Markup) -> Markup {
    let PreEscaped(mut text) = sentence;
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    PreEscaped(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_said_with_times_that_are_shown_in_the_zone_of_the_reader() {
        let since = Instant::parse("2026-01-31T09:05:00Z");
        let fields = ["amount", "<b>"].into_iter();
        let said = seen_sentence("rows", ["bank"].into_iter(), fields, [since, None]);
        assert_eq!(
            capitalised(said).into_string(),
            "May see amount, &lt;b&gt; of rows from bank, since <time class=\"exact\" \
             datetime=\"2026-01-31T09:05:00Z\">2026-01-31 09:05 UTC</time>"
        );
        let many: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
        let fields = many.iter().map(String::as_str);
        let connections = ["a", "b", "c", "d", "e"].into_iter();
        let said = seen_sentence("rows", connections, fields, [None, None]).into_string();
        assert!(said.contains("f11 and 8 more fields of rows"), "{said}");
        assert!(said.ends_with("from a, b, c, d and 1 more connections"), "{said}");
    }
}
