//! JSON as the oracle sees it: numbers keep their digits, members have no order, and a name that
//! occurs twice is a failure.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;
use stile_domain::records::value::FieldValue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum J {
    Null,
    Bool(bool),
    Num(String),
    Str(String),
    Arr(Vec<J>),
    Obj(BTreeMap<String, J>),
}

impl J {
    pub(crate) fn parse(text: &str) -> Self {
        let (value, rest) = read(text);
        assert!(rest.trim_start().is_empty(), "after the value stands {rest:.200}");
        value
    }

    pub(crate) fn of(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::Num(number.to_string()),
            Json::String(text) => Self::Str(text.clone()),
            Json::Array(items) => Self::Arr(items.iter().map(Self::of).collect()),
            Json::Object(members) => Self::Obj(
                members.iter().map(|(name, value)| (name.clone(), Self::of(value))).collect(),
            ),
        }
    }

    pub(crate) fn of_value(value: &FieldValue) -> Self {
        match value {
            FieldValue::Null => Self::Null,
            FieldValue::Bool(value) => Self::Bool(*value),
            FieldValue::Number(digits) => Self::Num(digits.to_string()),
            FieldValue::Text(text) => Self::Str(text.clone()),
            FieldValue::Json(json) => Self::parse(json),
        }
    }

    pub(crate) fn get(&self, name: &str) -> &J {
        match self {
            Self::Obj(members) => members.get(name).unwrap_or(&J::Null),
            _ => &J::Null,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Fails at the first place where two values differ, and shows no more than that.
    pub(crate) fn assert_is(&self, expected: &J, what: &dyn fmt::Debug) {
        if let Some((place, own, other)) = self.difference(expected, String::new()) {
            panic!("{what:?}\nat {place}\n  is {own}\n  must be {other}");
        }
    }

    fn difference(&self, other: &J, place: String) -> Option<(String, String, String)> {
        let short = |value: Option<&J>| {
            value.map_or("absent".to_owned(), |value| {
                format!("{value:?}").chars().take(300).collect()
            })
        };
        match (self, other) {
            (own, other) if own == other => None,
            (Self::Obj(own), Self::Obj(other)) => own.keys().chain(other.keys()).find_map(|name| {
                let place = format!("{place}.{name:.40}");
                match (own.get(name), other.get(name)) {
                    (Some(own), Some(other)) => own.difference(other, place),
                    (own, other) => Some((place, short(own), short(other))),
                }
            }),
            (Self::Arr(own), Self::Arr(other)) => (0..own.len().max(other.len())).find_map(|at| {
                let place = format!("{place}[{at}]");
                match (own.get(at), other.get(at)) {
                    (Some(own), Some(other)) => own.difference(other, place),
                    (own, other) => Some((place, short(own), short(other))),
                }
            }),
            (own, other) => Some((place, short(Some(own)), short(Some(other)))),
        }
    }

    pub(crate) fn items(&self) -> &[J] {
        match self {
            Self::Arr(items) => items,
            _ => &[],
        }
    }

    /// Without a member, and that.
    pub(crate) fn take(&mut self, name: &str) -> J {
        match self {
            Self::Obj(members) => members.remove(name).unwrap_or(J::Null),
            _ => J::Null,
        }
    }
}

/// Reads the value at the beginning of a text. Returns the rest too.
pub(crate) fn read(text: &str) -> (J, &str) {
    let text = text.trim_start();
    match text.as_bytes().first().unwrap() {
        b'n' => (J::Null, text.strip_prefix("null").unwrap()),
        b't' => (J::Bool(true), text.strip_prefix("true").unwrap()),
        b'f' => (J::Bool(false), text.strip_prefix("false").unwrap()),
        b'"' => {
            let (string, rest) = after_string(text);
            (J::Str(string), rest)
        }
        b'[' => {
            let mut items = Vec::new();
            let mut rest = text[1..].trim_start();
            while !rest.starts_with(']') {
                let (item, after) = read(rest);
                items.push(item);
                rest = after.trim_start();
                rest = rest.strip_prefix(',').unwrap_or_else(|| {
                    assert!(rest.starts_with(']'), "{rest:.100}");
                    rest
                });
            }
            (J::Arr(items), &rest[1..])
        }
        b'{' => {
            let mut members = BTreeMap::new();
            let mut rest = text[1..].trim_start();
            while !rest.starts_with('}') {
                let (name, after) = after_string(rest.trim_start());
                let (value, after) = read(after.trim_start().strip_prefix(':').unwrap());
                assert!(members.insert(name.clone(), value).is_none(), "`{name}` occurs twice");
                rest = after.trim_start();
                rest = rest.strip_prefix(',').unwrap_or_else(|| {
                    assert!(rest.starts_with('}'), "{rest:.100}");
                    rest
                });
            }
            (J::Obj(members), &rest[1..])
        }
        _ => {
            let end = text
                .find(|c: char| !c.is_ascii_digit() && !matches!(c, '+' | '-' | '.' | 'e' | 'E'));
            let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
            assert!(!digits.is_empty(), "{text:.100}");
            (J::Num(digits.to_owned()), rest)
        }
    }
}

/// Reads the JSON string at the beginning of a text. Returns the rest too.
pub(crate) fn after_string(text: &str) -> (String, &str) {
    let bytes = text.as_bytes();
    let mut at = 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (serde_json::from_str(&text[..=at]).unwrap(), &text[at + 1..])
}
