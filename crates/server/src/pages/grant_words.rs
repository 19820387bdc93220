//! What a grant shows of the records, in sentences with times that a page can show.

use maud::{Markup, PreEscaped, html};
use stile_domain::audit::words::listed;
use stile_domain::records::grant::{StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::unseen::shown_ends;

use super::times::{day_in_words, exact, first_day_from};

/// The most characters of a name in a sentence, and the most connections.
const MAX_NAME: usize = 60;
const MAX_CONNECTIONS: usize = 4;
/// The most fields that a sentence names.
pub const MAX_FIELDS: usize = 12;
/// The most fields that the sentence of something names which is closed, and opens to all.
pub const FEW_FIELDS: usize = 3;

/// The times of the records that somebody sees: from one on, and before another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenTimes {
    /// The bounds, each `None` for no bound.
    pub bounds: [Option<Instant>; 2],
    /// What the field has that they are compared with.
    pub of: TimesOf,
}

/// What a field has that says when a record happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimesOf {
    /// A day, which begins at midnight in UTC and has no zone.
    Days,
    /// A point in time.
    Moments,
    /// One of the two, which is not known here.
    #[default]
    Unknown,
}

impl SeenTimes {
    /// Shows a bound as what it is compared with. Where that is not known, midnight in UTC is a
    /// day that says so, which is true of both.
    fn bound(self, at: Instant) -> Markup {
        let day = first_day_from(at);
        let is_midnight = Instant::parse(&day) == Some(at);
        html! {
            @match self.of {
                TimesOf::Days => { (day_in_words(&day)) }
                TimesOf::Unknown if is_midnight => { (day_in_words(&day)) " (UTC)" }
                _ => { (exact(at)) }
            }
        }
    }
}

/// Returns a sentence without its period that says what a grant shows of a stream. It begins with
/// `may see`, as the rest of a sentence that begins with the client, and names at most `most`
/// fields.
pub(super) fn stream_sentence(stream: &StreamGrant, most: usize) -> Markup {
    let bounds = stream.time.as_ref().map(TimeConstraint::stated_bounds);
    let times = SeenTimes { bounds: bounds.unwrap_or_default(), of: TimesOf::Unknown };
    let sentence = seen_sentence(
        stream.stream.as_str(),
        stream.connections.iter().map(SourceName::as_str),
        stream.fields.iter().map(String::as_str),
        times,
        most,
    );
    html! {
        (sentence)
        @if let Some(keys) = &stream.keys { ", " (keys.len()) " records alone" }
    }
}

/// Returns a sentence as `stream_sentence` does, of names and times that are not granted yet. It
/// names at most `most` fields, and counts the others.
pub fn seen_sentence<'a>(
    stream: &str,
    connections: impl Iterator<Item = &'a str>,
    fields: impl Iterator<Item = &'a str>,
    times: SeenTimes,
    most: usize,
) -> Markup {
    let (fields, more) = named(fields, most);
    let (connections, others) = named(connections, MAX_CONNECTIONS);
    let [since, until] = times.bounds;
    html! {
        "may see "
        @if fields.is_empty() { "no field" } @else { (fields.join(", ")) }
        @if more > 0 { " and " (more) @if more == 1 { " more field" } @else { " more fields" } }
        " of " (shown_ends(stream, MAX_NAME)) " from "
        @if others > 0 {
            (connections.join(", ")) " and " (others)
            @if others == 1 { " more connection" } @else { " more connections" }
        }
        @else { (listed(&connections)) }
        @if let Some(since) = since { ", since " (times.bound(since)) }
        @if let Some(until) = until { ", before " (times.bound(until)) }
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
        let times = |since, of| SeenTimes { bounds: [since, None], of };
        let of = |since, of| {
            seen_sentence("rows", ["bank"].into_iter(), fields.clone(), times(since, of), 12)
        };
        let said = of(since, TimesOf::Moments);
        assert_eq!(
            capitalised(said).into_string(),
            "May see amount, &lt;b&gt; of rows from bank, since <time class=\"exact\" \
             datetime=\"2026-01-31T09:05:00Z\">2026-01-31 09:05 UTC</time>"
        );
        let midnight = Instant::parse("2026-01-31");
        let day = "since <time class=\"date\" datetime=\"2026-01-31\">2026-01-31</time>";
        let said = of(midnight, TimesOf::Days).into_string();
        assert!(said.ends_with(day), "a day has no zone: {said}");
        let said = of(midnight, TimesOf::Unknown).into_string();
        assert!(said.ends_with(&format!("{day} (UTC)")), "{said}");
        let said = of(midnight, TimesOf::Moments).into_string();
        assert!(said.ends_with("2026-01-31 00:00 UTC</time>"), "{said}");
        // The first day that is seen is the one that begins after the time.
        let said = of(since, TimesOf::Days).into_string();
        assert!(said.contains("datetime=\"2026-02-01\""), "{said}");
        let many: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
        let fields = many.iter().map(String::as_str);
        let connections = ["a", "b", "c", "d", "e"].into_iter();
        let said =
            seen_sentence("rows", connections, fields, SeenTimes::default(), 12).into_string();
        assert!(said.contains("f11 and 8 more fields of rows"), "{said}");
        assert!(said.ends_with("from a, b, c, d and 1 more connection"), "{said}");
    }
}
