//! Reads values of YAML front matter, each in its spelling in the source.
//!
//! One pass over the parser's events takes the text of the requested values, because facets keep
//! the spelling of a number, a date or a boolean. The same pass checks the whole text
//! ([`CheckedEvents`]) and keeps nothing else. A value whose meaning is elsewhere, such as an alias
//! or a value with a tag, is left out alone. No error leaves this module, because an error could
//! quote the note.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Tag};

use self::checked_events::CheckedEvents;
use super::dates;
use super::limits::MAX_FRONT_MATTER_BYTES;
use super::note_property::NoteProperty;

mod checked_events;

/// A value of the front matter from which a facet can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrontMatterValue<'a> {
    /// A scalar that is not null.
    Scalar(FrontMatterScalar<'a>),
    /// The scalars of a list, without nulls, lists and mappings.
    List {
        scalars: Vec<FrontMatterScalar<'a>>,
        /// Whether every item could be read.
        is_whole: bool,
    },
    /// A value that is there and cannot be read: an alias, a value with a tag, or one that a merge
    /// may bring.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontMatterScalar<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether the scalar has no quotes, so that it may be a number, a date or a boolean.
    pub(super) plain: bool,
}

/// Returns the values of `keys` in the order of `keys`; `None` for a null, for a mapping and for an
/// absent key.
///
/// All are `None` where the front matter is not a valid YAML mapping or is too large.
pub(super) fn values<'a, const N: usize>(
    front: &'a str,
    keys: [&str; N],
) -> [Option<FrontMatterValue<'a>>; N] {
    if front.is_empty() || front.len() > MAX_FRONT_MATTER_BYTES {
        return [const { None }; N];
    }
    let mut events = CheckedEvents::new(front);
    let values = values_in_first_mapping(&mut events, keys);
    if events.finish() { values } else { [const { None }; N] }
}

/// Whether a text is one YAML mapping within the budget, in which no mapping has a key twice.
pub(super) fn is_valid(front: &str) -> bool {
    front.len() <= MAX_FRONT_MATTER_BYTES && CheckedEvents::new(front).finish()
}

/// Returns the members of the front matter as text, in order; `None` for invalid front matter. A
/// key that is not a scalar is omitted.
pub(super) fn properties(front: &str) -> Option<Vec<NoteProperty>> {
    if front.is_empty() || front.len() > MAX_FRONT_MATTER_BYTES {
        return None;
    }
    let mut events = CheckedEvents::new(front);
    let mut properties = Vec::new();
    events.find(|event| matches!(event, Event::MappingStart(..)))?;
    loop {
        let name = match events.next() {
            Some(Event::Scalar(name, ..)) => Some(name),
            Some(Event::MappingEnd | Event::StreamEnd) | None => break,
            Some(other) => {
                skip(&other, &mut events);
                None
            }
        };
        let Some(first) = events.next() else { break };
        let value = value(first, &mut events);
        let texts = match value {
            Some(FrontMatterValue::Scalar(scalar)) => vec![scalar],
            Some(FrontMatterValue::List { scalars, .. }) => scalars,
            Some(FrontMatterValue::Unreadable) | None => Vec::new(),
        };
        let values = texts.into_iter().map(|scalar| scalar.text.into()).collect();
        properties.extend(name.map(|name| NoteProperty { name: name.into(), values }));
    }
    events.finish().then_some(properties)
}

fn values_in_first_mapping<'a, const N: usize>(
    events: &mut impl Iterator<Item = Event<'a>>,
    keys: [&str; N],
) -> [Option<FrontMatterValue<'a>>; N] {
    if !events.any(|event| matches!(event, Event::MappingStart(..))) {
        return [const { None }; N];
    }
    let mut values = [const { None }; N];
    let mut has_merge = false;
    loop {
        let key = match events.next() {
            Some(Event::Scalar(key, style, ..)) => {
                has_merge |= is_merge(&key, style);
                Some(key)
            }
            Some(Event::MappingEnd | Event::StreamEnd) | None => break,
            Some(other) => {
                skip(&other, events);
                None
            }
        };
        let Some(first) = events.next() else { break };
        let index = keys.iter().position(|wanted| key.as_deref() == Some(*wanted));
        match index.and_then(|index| values.get_mut(index)) {
            Some(slot) => *slot = value(first, events),
            None => skip(&first, events),
        }
    }
    if has_merge {
        values
            .iter_mut()
            .for_each(|value| *value = value.take().or(Some(FrontMatterValue::Unreadable)));
    }
    values
}

fn is_merge(key: &str, style: ScalarStyle) -> bool {
    key == MERGE && style == ScalarStyle::Plain
}

/// The key whose value brings members of other mappings.
pub(super) const MERGE: &str = "<<";

/// Returns the JSON object that replaces a value that cannot be read.
pub(super) fn unreadable() -> Json {
    json!({ UNREADABLE: true })
}

const UNREADABLE: &str = "stile:unreadable";

/// Whether a JSON value is the object that [`unreadable`] returns.
pub(super) fn is_unreadable(value: &Json) -> bool {
    value.get(UNREADABLE).is_some()
}

/// The front matter as JSON.
pub(super) struct FrontMatterJson {
    pub(super) members: Map<String, Json>,
    /// Whether nothing of the front matter is missing or stands for what could not be read.
    pub(super) is_whole: bool,
}

/// How the JSON of front matter has a date without a time in `date` or `updated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainDates {
    /// As the day that is written, which is the same in each time zone.
    Days,
    /// As a time, midnight UTC, for readers who need one.
    Times,
}

/// Returns the whole front matter as JSON, each value in its spelling in the source; `None` for
/// invalid front matter. A key that is not a scalar is omitted, and so is the key of
/// [`unreadable`]. A timestamp in `date` or `updated` becomes ISO 8601.
pub(super) fn members(front: &str, plain_dates: PlainDates) -> Option<FrontMatterJson> {
    if front.len() > MAX_FRONT_MATTER_BYTES || !CheckedEvents::new(front).finish() {
        return None;
    }
    let mut is_whole = true;
    let mut events =
        Parser::new_from_str(front).filter_map(|event| event.ok().map(|(event, _)| event));
    if !events.any(|event| matches!(event, Event::MappingStart(..))) {
        return None;
    }
    let mut members = mapping(&mut events, &mut is_whole)?;
    for key in ["date", "updated"] {
        let Some(member) = members.get_mut(key) else { continue };
        let [value] = values(front, [key]);
        if let Some(FrontMatterValue::Scalar(FrontMatterScalar { text, plain: true })) = value
            && let Some(iso) = dates::iso(&text)
            && !(plain_dates == PlainDates::Days && dates::is_day(&text))
        {
            *member = iso.into();
        }
    }
    Some(FrontMatterJson { members, is_whole })
}

/// Returns the members of a mapping that has begun. [`CheckedEvents`] has bounded the recursion.
fn mapping<'a>(
    events: &mut impl Iterator<Item = Event<'a>>,
    is_whole: &mut bool,
) -> Option<Map<String, Json>> {
    let mut members = Map::new();
    loop {
        let key = match events.next()? {
            Event::MappingEnd => return Some(members),
            Event::Scalar(key, style, ..) if is_merge(&key, style) => {
                skip(&events.next()?, events);
                *is_whole = false;
                members.insert(MERGE.to_owned(), unreadable());
                continue;
            }
            // A note may not write what replaces an unreadable value.
            Event::Scalar(key, ..) if key != UNREADABLE => Some(key),
            other => {
                skip(&other, events);
                *is_whole = false;
                None
            }
        };
        let first = events.next()?;
        match key {
            Some(key) => {
                members.insert(key.into_owned(), node(first, events, is_whole)?);
            }
            None => skip(&first, events),
        }
    }
}

fn node<'a>(
    first: Event<'a>,
    events: &mut impl Iterator<Item = Event<'a>>,
    is_whole: &mut bool,
) -> Option<Json> {
    if !is_readable(&first) {
        skip(&first, events);
        *is_whole = false;
        return Some(unreadable());
    }
    Some(match first {
        Event::Scalar(text, style, _, tag) => {
            scalar(text, style, tag.is_some()).map_or(Json::Null, json)
        }
        Event::MappingStart(..) => Json::Object(mapping(events, is_whole)?),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next()? {
                    Event::SequenceEnd => break Json::Array(items),
                    item => items.push(node(item, events, is_whole)?),
                }
            }
        }
        _ => Json::Null,
    })
}

/// Converts a scalar to JSON: to a number or a boolean only where JSON has the same spelling.
fn json(scalar: FrontMatterScalar<'_>) -> Json {
    if scalar.plain
        && let Ok(value @ (Json::Number(_) | Json::Bool(_))) =
            serde_json::from_str::<Json>(&scalar.text)
        && value.to_string() == scalar.text
    {
        return value;
    }
    Json::String(scalar.text.into_owned())
}

fn value<'a>(
    first: Event<'a>,
    events: &mut impl Iterator<Item = Event<'a>>,
) -> Option<FrontMatterValue<'a>> {
    if !is_readable(&first) {
        skip(&first, events);
        return Some(FrontMatterValue::Unreadable);
    }
    match first {
        Event::Scalar(text, style, _, tag) => {
            scalar(text, style, tag.is_some()).map(FrontMatterValue::Scalar)
        }
        Event::SequenceStart(..) => {
            let (mut scalars, mut is_whole) = (Vec::new(), true);
            loop {
                match events.next()? {
                    Event::SequenceEnd => {
                        return Some(FrontMatterValue::List { scalars, is_whole });
                    }
                    item if !is_readable(&item) => {
                        skip(&item, events);
                        is_whole = false;
                    }
                    Event::Scalar(text, style, _, tag) => {
                        scalars.extend(scalar(text, style, tag.is_some()));
                    }
                    other => skip(&other, events),
                }
            }
        }
        other => {
            skip(&other, events);
            None
        }
    }
}

/// Whether a node means what it says: it is no alias, and has no tag but that of a text.
fn is_readable(first: &Event<'_>) -> bool {
    match first {
        Event::Alias(_) | Event::UnresolvedAlias(_) => false,
        Event::Scalar(_, _, _, Some(tag)) => is_text(tag),
        Event::SequenceStart(_, _, tag) | Event::MappingStart(_, _, tag) => tag.is_none(),
        _ => true,
    }
}

/// Whether a tag is `!!str`, or `!` alone, which both say that a scalar is a text.
fn is_text(tag: &Tag) -> bool {
    (tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "str")
        || (tag.handle().trim_start_matches('!').is_empty()
            && tag.suffix().trim_start_matches('!').is_empty())
}

/// Returns a scalar that is not null. A scalar that has the tag of a text is neither null nor a
/// number.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tagged: bool) -> Option<FrontMatterScalar<'_>> {
    let plain = style == ScalarStyle::Plain && !tagged;
    let null = plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
    (!null).then_some(FrontMatterScalar { text, plain })
}

/// Skips the rest of a node that began with `first`.
fn skip<'a>(first: &Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) {
    let mut depth =
        usize::from(matches!(first, Event::SequenceStart(..) | Event::MappingStart(..)));
    while depth > 0 {
        match events.next() {
            Some(Event::SequenceStart(..) | Event::MappingStart(..)) => depth += 1,
            Some(Event::SequenceEnd | Event::MappingEnd) => depth -= 1,
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(front: &str) -> Vec<String> {
        values(front, ["a", "b"])
            .into_iter()
            .map(|value| match value {
                None => "-".to_owned(),
                Some(FrontMatterValue::Scalar(scalar)) => {
                    format!("{}{}", scalar.text, if scalar.plain { "" } else { "\"" })
                }
                Some(FrontMatterValue::List { scalars, is_whole }) => {
                    let items = scalars.iter().map(|scalar| format!("[{}]", scalar.text));
                    items.collect::<String>() + if is_whole { "" } else { "…" }
                }
                Some(FrontMatterValue::Unreadable) => "?".to_owned(),
            })
            .collect()
    }

    #[test]
    fn values_keep_their_spelling_in_the_source() {
        for (front, a, b) in [
            ("a: 0x1F\nb: 007", "0x1F", "007"),
            ("a: 2025-03-01\nb: '2025-03-01'", "2025-03-01", "2025-03-01\""),
            ("a: yes\nb: 123456789012345678901234567890", "yes", "123456789012345678901234567890"),
            ("a: ~\nb:", "-", "-"),
            ("a: \"~\"\nb: ''", "~\"", "\""),
            ("a: |\n  x\n  y\nb: >-\n  x\n  y", "x\ny\n\"", "x y\""),
            ("b: [1, ~, [x, {y: z}], {q: r}, t]\na: {b: c}", "-", "[1][t]"),
            ("x: {a: 1}\ny: [b, {b: 2}]\n? [a, b]\n: c\n? {a: b}\n: {b: a}\na: 3", "3", "-"),
            ("# note\na: 1 # one\nb: 2", "1", "2"),
            ("'a': 1\n\"b\": 2", "1", "2"),
            ("{a: 1, b: [x]}", "1", "[x]"),
            ("a: 12e4567\nb: .nan", "12e4567", ".nan"),
            ("a: &x 1\nb: *x", "1", "?"),
            ("a: !!binary YQ==\nb: !!str 007", "?", "007\""),
            ("x: &x [1]\na: [1, *x, !y 2, 3]\nb: !set {c: d}", "[1][3]…", "?"),
            ("x: &x {a: 1}\n<<: *x\nb: 2", "?", "2"),
        ] {
            assert_eq!(texts(front), [a, b], "{front}");
        }
    }

    #[test]
    fn anything_but_a_mapping_within_the_budget_has_no_values() {
        let deep = format!("a: 1\nc: {}{}", "[".repeat(40), "]".repeat(40));
        let many = format!("a: 1\nc: [{}]", "1,".repeat(6_000));
        let long = format!("a: 1\nc: {}", "x".repeat(MAX_FRONT_MATTER_BYTES));
        for front in [
            "", "a", "- a: 1", "a: [1", "a: 1\na: 2", "a: 1\nc: {d: 1, d: 2}",
            "a: 1\nc: [{d: 1, d: 2}]", "a: 1\nc: *x", "a: 1\n---\nb: 2", "a: 1\n\tb: 2",
            "a: 1\nb: @", &deep, &many, &long,
        ] {
            assert_eq!(texts(front), ["-", "-"], "{}", &front[..front.len().min(40)]);
        }
    }
}
