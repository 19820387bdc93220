//! JSON in which no object has a name twice.
//!
//! Parsers disagree on which of two equal names counts, so a token that has two means different
//! things to whoever signed it and whoever reads it.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};

/// Parses a type after looking at every object in the text, whether the type keeps it or not.
pub(super) fn parse_unique<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice::<Unique>(text).ok()?;
    serde_json::from_slice(text).ok()
}

/// Any value without repeated names. It keeps nothing.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unique)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, _)) = members.next_entry::<String, Unique>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a name is repeated"));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_repeated_name_is_refused_at_any_depth_and_in_any_spelling() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":1,"\u0061":2}"#,
            "{",
            "",
            "{} {}",
        ] {
            assert_eq!(parse_unique::<Value>(text.as_bytes()), None, "{text}");
        }
        for text in [r#"{"a":{"a":1.5},"b":[null,true,-1,"x"]}"#, "[]", "1e3"] {
            assert!(parse_unique::<Value>(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        assert_eq!(parse_unique::<Value>("[".repeat(100_000).as_bytes()), None);
        assert_eq!(parse_unique::<Value>("{\"a\":".repeat(100_000).as_bytes()), None);
    }
}
