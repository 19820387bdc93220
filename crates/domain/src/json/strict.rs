//! JSON that no two parsers read differently, for messages and for tokens.
//!
//! A check that reads one value of a duplicate key is useless if the handler reads the other, so a
//! document with a duplicate key anywhere is refused. So is a message that is nested deeper than
//! any real call. The rest is `serde_json`, which is also what the SDK parses with.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest nesting of arrays and objects. Real calls need five.
pub const MAX_DEPTH: usize = 64;

/// Why bytes were not accepted. It repeats nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJson {
    /// Not JSON at all, or not UTF-8, or a number that no `f64` holds.
    #[error("the message is not valid JSON")]
    Syntax,
    /// JSON that two parsers may read differently, or that is nested too deep.
    #[error("the message repeats a key or is nested deeper than {MAX_DEPTH} levels")]
    Ambiguous,
}

/// Parses one message, with nothing after it, nested at most [`MAX_DEPTH`] levels deep.
pub fn parse(bytes: &[u8]) -> Result<Value, BadJson> {
    parse_to_depth(bytes, MAX_DEPTH)
}

/// Parses the object of a token or of a key set, with nothing after it. Its depth is limited only
/// by `serde_json`, to 127 levels.
pub fn parse_object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match parse_to_depth(bytes, usize::MAX) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

/// Parses a document nested at most `max_depth` levels deep.
fn parse_to_depth(bytes: &[u8], max_depth: usize) -> Result<Value, BadJson> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let root = StrictValue { levels_left: max_depth };
    let value = root.deserialize(&mut deserializer).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => BadJson::Ambiguous,
        _ => BadJson::Syntax,
    })?;
    deserializer.end().map_err(|_| BadJson::Syntax)?;
    Ok(value)
}

/// Parses a value of at most `levels_left` levels of arrays and objects.
#[derive(Clone, Copy)]
struct StrictValue {
    levels_left: usize,
}

impl StrictValue {
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.levels_left.checked_sub(1) {
            Some(levels_left) => Ok(Self { levels_left }),
            None => Err(E::custom("too deep")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(below)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(below)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unambiguous_json_is_read_as_serde_json_reads_it() {
        for text in [
            "null",
            "[]",
            r#"{"a":[1,-2,3.5,"é\u0041",true,null],"b":{"a":{}}}"#,
            " 7 ",
            "18446744073709551615",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(serde_json::from_str(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth_and_in_any_spelling() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"a":3}}]"#, r#"{"a":1,"\u0061":2}"#]
        {
            assert_eq!(parse(text.as_bytes()), Err(BadJson::Ambiguous), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(BadJson::Ambiguous));
        assert_eq!(parse("[".repeat(1_000_000).as_bytes()), Err(BadJson::Ambiguous));
        assert_eq!(parse(r#"{"a":"#.repeat(1_000_000).as_bytes()), Err(BadJson::Ambiguous));
    }

    #[test]
    fn the_object_of_a_token_may_be_nested_127_levels_deep() {
        let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert!(parse_object(nested(127).as_bytes()).is_some());
        for text in [&nested(128), &"{\"a\":".repeat(100_000), "[]", "1e3", "{} {}", ""] {
            assert_eq!(parse_object(text.as_bytes()), None);
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        for bytes in [
            &b""[..],
            b"{",
            b"{} {}",
            b"[1,]",
            b"{\"a\":01}",
            b"1e999",
            b"-1e999",
            b"NaN",
            b"\"\xff\"",
            b"\xef\xbb\xbf{}",
            b"\"\\ud800\"",
            b"\"\n\"",
            b"'a'",
            b"{a:1}",
            b"nul",
        ] {
            assert_eq!(parse(bytes), Err(BadJson::Syntax), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
