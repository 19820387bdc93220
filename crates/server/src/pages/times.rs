//! Times on a page: how long ago, with the exact time beside it.
//!
//! A page is rendered without knowing the zone of its reader, so the exact time is in UTC and says
//! so. A script of the page shows it in the reader's zone.

use maud::{Markup, html};
use stile_domain::records::instant::Instant;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Returns a time as an instant. Times of the state are UTC seconds since 1970.
pub(super) fn instant(seconds: i64) -> Instant {
    Instant::from_seconds(seconds)
}

/// Formats an instant to the minute, in UTC.
fn minute_of_instant(instant: Instant) -> String {
    let text = instant.to_rfc3339();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

/// Returns the day of an instant, as in `2026-01-31`, in UTC. It is for addresses and keys;
/// [`shown_day`] shows one.
pub(super) fn day_of_instant(instant: Instant) -> String {
    instant.to_rfc3339().get(..10).unwrap_or_default().to_owned()
}

/// Returns how far `at` lies from `now`, both in UTC seconds: `3 hours ago`, `in 5 days`. What is
/// to come is rounded to the nearest unit: what ends in ninety days does so a second later, too.
pub(super) fn distance(now: i64, at: i64) -> String {
    let seconds = now.saturating_sub(at);
    let far = seconds.saturating_abs();
    let of = |unit: i64| match seconds >= 0 {
        true => far / unit,
        false => far.saturating_add(unit / 2) / unit,
    };
    let (count, unit) = match far {
        far if far < MINUTE && seconds >= 0 => return "just now".to_owned(),
        far if far < MINUTE => return "in a moment".to_owned(),
        far if far < HOUR => (of(MINUTE), "minute"),
        far if far < 2 * DAY => (of(HOUR), "hour"),
        _ => (of(DAY), "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    match seconds >= 0 {
        true => format!("{count} {unit}{plural} ago"),
        false => format!("in {count} {unit}{plural}"),
    }
}

/// Shows how far a time lies from `now`, without the exact time.
pub(super) fn ago(now: i64, at: i64) -> Markup {
    let exact = format!("{} UTC", minute_of_instant(instant(at)));
    html! {
        time datetime=(instant(at).to_rfc3339()) title=(exact) { (distance(now, at)) }
    }
}

/// Shows how far a time lies from `now`, and the exact time beside it.
pub(super) fn when(now: i64, at: i64) -> Markup {
    html! { (ago(now, at)) " " (exact(instant(at))) }
}

/// Shows a time within a sentence: the exact one, and in brackets how far it lies from `now`.
pub(super) fn moment(now: i64, at: Instant) -> Markup {
    html! { (exact(at)) " (" (ago(now, at.seconds())) ")" }
}

/// Shows the exact time. Every time of a page comes from here or from `ago`, so that the script
/// finds it and shows it in the zone of its reader.
pub fn exact(at: Instant) -> Markup {
    html! {
        time class="exact" datetime=(at.to_rfc3339()) { (minute_of_instant(at)) " UTC" }
    }
}

/// Shows a day as in `2026-01-31`, which the script shows as its reader writes days.
pub(super) fn shown_day(day: &str) -> Markup {
    html! { time class="day" datetime=(day) { (day) } }
}

/// Shows a day as in `2026-01-31` within a sentence. It has no zone.
pub fn day_in_words(day: &str) -> Markup {
    html! { time class="date" datetime=(day) { (day) } }
}

/// Whether a form needs a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// The browser sends the form only with a time.
    Yes,
    /// The form may be sent without a time.
    No,
}

/// Returns an input for a date and a time with its label. Its value is in UTC, `2026-01-31T09:05`,
/// and the label says so. The script of the page shows and takes times in the reader's zone.
pub fn time_input(name: &str, label: &str, value: &str, required: Required) -> Markup {
    html! {
        label for=(name) { (label) " " span class="zone" { "(UTC)" } }
        input type="datetime-local" id=(name) name=(name) value=(value) data-utc autocomplete="off"
            required[required == Required::Yes];
    }
}

/// Returns an input for a day with its label. A day has no zone: its value is the day itself.
pub fn day_input(name: &str, label: &str, value: &str) -> Markup {
    html! {
        label for=(name) { (label) }
        input type="date" id=(name) name=(name) value=(value) autocomplete="off";
    }
}

/// Returns the first day that begins at a time or after it, as in `2026-01-31`. A day begins at
/// midnight in UTC where it is compared with a time.
pub fn first_day_from(at: Instant) -> String {
    let days = at.day() + i64::from(at > Instant::from_day(at.day()));
    day_of_instant(Instant::from_day(days))
}

/// Returns a time as the value of an input for a date and a time.
pub fn input_value(at: Instant) -> String {
    minute_of_instant(at).replace(' ', "T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_one_number_and_one_unit() {
        let now = 1_800_000_000;
        for (at, said) in [
            (now, "just now"),
            (now - 59, "just now"),
            (now + 30, "in a moment"),
            (now - 60, "1 minute ago"),
            (now - 3 * HOUR, "3 hours ago"),
            (now - 47 * HOUR, "47 hours ago"),
            (now - 2 * DAY, "2 days ago"),
            (now + 90 * DAY, "in 90 days"),
            (now + 90 * DAY - 5, "in 90 days"),
            (now + 7 * DAY - 5, "in 7 days"),
            (now + DAY - 5, "in 24 hours"),
            (now + 90 * DAY - 13 * HOUR, "in 89 days"),
            (i64::MIN, "106751991167300 days ago"),
        ] {
            assert_eq!(distance(now, at), said, "{at}");
        }
    }

    #[test]
    fn the_exact_time_stands_beside_and_says_its_zone() {
        let shown = when(1_769_850_300, 1_769_850_300).into_string();
        assert_eq!(
            shown,
            "<time datetime=\"2026-01-31T09:05:00Z\" title=\"2026-01-31 09:05 UTC\">just \
             now</time> <time class=\"exact\" datetime=\"2026-01-31T09:05:00Z\">2026-01-31 09:05 \
             UTC</time>"
        );
    }
}
