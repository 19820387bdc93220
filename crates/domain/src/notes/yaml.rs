//! Reads values of YAML front matter, each in its spelling in the source.
//!
//! One pass over the parser's events takes the text of the requested values, because facets keep
//! the spelling of a number, a date or a boolean. The same pass checks whether the YAML is so plain
//! that it is valid for certain ([`WatchedEvents`]). For other YAML a second pass decides:
//! `serde-saphyr` reads all of it under a budget and refuses duplicate keys. Neither pass keeps
//! anything else. No error leaves this module, because an error could quote the note.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use self::plain::{MAX_DEPTH, MAX_NODES, WatchedEvents};
use super::dates;
use super::limits::{MAX_FACET_VALUES, MAX_FRONT_MATTER_BYTES};

#[cfg(test)]
mod one_pass_tests;
mod plain;

/// A value of the front matter from which a facet can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrontMatterValue<'a> {
    /// A scalar that is not null.
    Scalar(FrontMatterScalar<'a>),
    /// The scalars of a list, without nulls, lists and mappings.
    List(Vec<FrontMatterScalar<'a>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontMatterScalar<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether the scalar has no quotes, so that it may be a number, a date or a boolean.
    pub(super) plain: bool,
}

/// Returns the values of `keys` in the order of `keys`; `None` for a null and for an absent key.
///
/// All are `None` where the front matter is not a valid YAML mapping or is too large.
pub(super) fn values<'a, const N: usize>(
    front: &'a str,
    keys: [&str; N],
) -> [Option<FrontMatterValue<'a>>; N] {
    if front.is_empty() || front.len() > MAX_FRONT_MATTER_BYTES {
        return [const { None }; N];
    }
    let mut events = WatchedEvents::new(front);
    let values = values_in_first_mapping(&mut events, keys);
    if events.plain() || is_valid(front) { values } else { [const { None }; N] }
}

fn values_in_first_mapping<'a, const N: usize>(
    events: &mut impl Iterator<Item = Event<'a>>,
    keys: [&str; N],
) -> [Option<FrontMatterValue<'a>>; N] {
    if !events.any(|event| matches!(event, Event::MappingStart(..))) {
        return [const { None }; N];
    }
    let mut values = [const { None }; N];
    loop {
        let key = match events.next() {
            Some(Event::Scalar(key, ..)) => Some(key),
            Some(Event::MappingEnd | Event::StreamEnd) | None => return values,
            Some(other) => {
                skip(&other, events);
                None
            }
        };
        let Some(first) = events.next() else { return values };
        let index = keys.iter().position(|wanted| key.as_deref() == Some(*wanted));
        match index.and_then(|index| values.get_mut(index)) {
            Some(slot) => *slot = value(first, events),
            None => skip(&first, events),
        }
    }
}

/// Returns the whole front matter as JSON, each value in its spelling in the source; `None` for
/// invalid front matter. A key that is not a scalar is omitted.
pub(super) fn members(front: &str) -> Option<Map<String, Json>> {
    if front.len() > MAX_FRONT_MATTER_BYTES || !is_valid(front) {
        return None;
    }
    let mut events =
        Parser::new_from_str(front).filter_map(|event| event.ok().map(|(event, _)| event));
    if !events.any(|event| matches!(event, Event::MappingStart(..))) {
        return None;
    }
    let mut members = mapping(&mut events)?;
    for key in ["date", "updated"] {
        let Some(member) = members.get_mut(key) else { continue };
        let [value] = values(front, [key]);
        if let Some(FrontMatterValue::Scalar(FrontMatterScalar { text, plain: true })) = value
            && let Some(iso) = dates::iso(&text)
        {
            *member = iso.into();
        }
    }
    Some(members)
}

/// Returns the members of a mapping that has begun. [`is_valid`] has bounded the recursion.
fn mapping<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Option<Map<String, Json>> {
    let mut members = Map::new();
    loop {
        let key = match events.next()? {
            Event::MappingEnd => return Some(members),
            Event::Scalar(key, ..) => Some(key),
            other => {
                skip(&other, events);
                None
            }
        };
        let first = events.next()?;
        match key {
            Some(key) => {
                members.insert(key.into_owned(), node(first, events)?);
            }
            None => skip(&first, events),
        }
    }
}

fn node<'a>(first: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Option<Json> {
    Some(match first {
        Event::Scalar(text, style, ..) => scalar(text, style).map_or(Json::Null, json),
        Event::MappingStart(..) => Json::Object(mapping(events)?),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next()? {
                    Event::SequenceEnd => break Json::Array(items),
                    item => items.push(node(item, events)?),
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
    match first {
        Event::Scalar(text, style, ..) => scalar(text, style).map(FrontMatterValue::Scalar),
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            loop {
                match events.next()? {
                    Event::SequenceEnd => return Some(FrontMatterValue::List(list)),
                    Event::Scalar(text, style, ..) => list.extend(scalar(text, style)),
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

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Option<FrontMatterScalar<'_>> {
    let plain = style == ScalarStyle::Plain;
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

/// Whether a text is a valid YAML mapping within the budget.
fn is_valid(front: &str) -> bool {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 20_000,
            max_documents: 1,
            max_total_scalar_bytes: MAX_FRONT_MATTER_BYTES,
        },
        strict_booleans: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        // Without this an error would quote the front matter.
        with_snippet: false,
    };
    matches!(serde_saphyr::from_str_with_options(front, options), Ok(Shape::Mapping))
}

const _: () = assert!(MAX_FACET_VALUES < MAX_NODES);

/// The kind of the root of a document. Deserializing visits the whole document, so that any fault
/// is found, and keeps nothing.
enum Shape {
    Mapping,
    Other,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

// Scalars of every type are treated the same.
macro_rules! other {
    ($($name:ident($type:ty)),*) => {
        $(fn $name<E>(self, _: $type) -> Result<Shape, E> { Ok(Shape::Other) })*
    };
}

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("YAML")
    }

    other!(
        visit_bool(bool),
        visit_i64(i64),
        visit_i128(i128),
        visit_u64(u64),
        visit_u128(u128),
        visit_f64(f64)
    );
    other!(visit_str(&str), visit_bytes(&[u8]));

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Other)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Other)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        Shape::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Shape, D::Error> {
        Shape::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        while items.next_element::<Shape>()?.is_some() {}
        Ok(Shape::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        while entries.next_entry::<Shape, Shape>()?.is_some() {}
        Ok(Shape::Mapping)
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
                Some(FrontMatterValue::List(list)) => list
                    .iter()
                    .map(|scalar| format!("[{}]", scalar.text))
                    .collect::<Vec<_>>()
                    .concat(),
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
            "a: 1\nc: [{d: 1, d: 2}]", "a: &x 1\nb: *x", "a: 1\nc: &x 1",
            "c: {d: 1}\na: 1\n<<: {b: 2}", "a: 1\n---\nb: 2", "a: 1\n\tb: 2", "a: 1\nb: @", &deep,
            &many, &long,
        ] {
            assert_eq!(texts(front), ["-", "-"], "{}", &front[..front.len().min(40)]);
        }
    }
}
