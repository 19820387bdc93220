//! From a caller's JSON to a tool's input type. The schema that is advertised is the one that is
//! enforced.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Number, Value as Json, json};
use std::borrow::Cow;
use std::marker::PhantomData;

use super::trouble::Trouble;
use stile_domain::records::aggregator::METRICS;
use stile_domain::records::order::ORDERS;
use stile_domain::records::zone::Granularity;
use stile_tools::tool;

/// From here on not every whole number is a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The whole number that a number is, also where it is written `2.0`, as clients do that have no
/// other numbers.
fn whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float =
            number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..EXACT).contains(float))?;
        format!("{float:.0}").parse().ok()
    })
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const LEAST: u64, const MOST: u64>(pub u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let number = whole(&number).filter(|number| (LEAST..=MOST).contains(number));
        number.map(Self).ok_or_else(|| D::Error::custom("out of range"))
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Whole<LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        format!("Whole{LEAST}To{MOST}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        schema.insert("type".to_owned(), "integer".into());
        schema.insert("minimum".to_owned(), LEAST.into());
        if MOST < i64::MAX as u64 {
            schema.insert("maximum".to_owned(), MOST.into());
        }
        schema
    }
}

/// The words that a parameter of the resource server takes.
pub trait Words {
    /// All of them.
    const ALL: &'static [&'static str];
}

/// What can be computed.
#[derive(Clone, Copy, Debug)]
pub struct Metrics;
/// Spans of time.
#[derive(Clone, Copy, Debug)]
pub struct Granularities;
/// Ends of an order.
#[derive(Clone, Copy, Debug)]
pub struct Orders;

impl Words for Metrics {
    const ALL: &'static [&'static str] = &METRICS;
}

impl Words for Granularities {
    const ALL: &'static [&'static str] = &Granularity::NAMES;
}

impl Words for Orders {
    const ALL: &'static [&'static str] = &ORDERS;
}

/// One of these words.
#[derive(Clone, Copy, Debug)]
pub struct OneOf<W> {
    word: &'static str,
    words: PhantomData<W>,
}

impl<W> OneOf<W> {
    /// The word.
    pub(super) fn word(self) -> &'static str {
        self.word
    }
}

impl<'de, W: Words> Deserialize<'de> for OneOf<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = String::deserialize(deserializer)?;
        let word = W::ALL
            .iter()
            .find(|word| **word == sent)
            .ok_or_else(|| D::Error::custom("none of the words"))?;
        Ok(Self { word, words: PhantomData })
    }
}

impl<W: Words> JsonSchema for OneOf<W> {
    fn schema_name() -> Cow<'static, str> {
        W::ALL.concat().into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": W::ALL })
    }
}

/// Parses the arguments of one call.
///
/// # Errors
/// [`Trouble::Call`], which names the argument and repeats no value.
pub(super) fn parse<T: DeserializeOwned + JsonSchema>(arguments: &Json) -> Result<T, Trouble> {
    let none = Json::Object(Map::new());
    let arguments = if arguments.is_null() { &none } else { arguments };
    // A struct can also be read from an array of its fields, which no schema of ours allows.
    let input = if arguments.is_object() { T::deserialize(arguments).ok() } else { None };
    input.ok_or_else(|| explain(&tool::closed_schema::<T>(), arguments))
}

/// What is wrong with arguments that did not parse.
fn explain(schema: &Map<String, Json>, arguments: &Json) -> Trouble {
    let Json::Object(arguments) = arguments else {
        return Trouble::arguments("`arguments` must be an object");
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
    let required =
        schema.get("required").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    if let Some(name) =
        required.iter().filter_map(Json::as_str).find(|name| !arguments.contains_key(*name))
    {
        return Trouble::arguments(format!("`{name}` is missing"));
    }
    if arguments.keys().any(|name| !properties.contains_key(name)) {
        let names: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        return Trouble::arguments(format!(
            "there is an unknown argument; the arguments are {}",
            names.join(", ")
        ));
    }
    for (name, property) in properties {
        if let Some(expected) = arguments.get(name).and_then(|value| mismatch(property, value)) {
            return Trouble::arguments(format!("`{name}` must be {expected}"));
        }
    }
    Trouble::arguments("the arguments do not fit the tool's input schema")
}

/// What a value must be, if it is not.
fn mismatch(property: &Json, value: &Json) -> Option<String> {
    if let Some(words) = property.get("enum").and_then(Json::as_array) {
        let named: Vec<String> =
            words.iter().filter_map(Json::as_str).map(|word| format!("`{word}`")).collect();
        return (!words.contains(value)).then(|| format!("one of {}", named.join(", ")));
    }
    let bound = |name: &str| property.get(name).and_then(Json::as_u64);
    match property.get("type").and_then(Json::as_str) {
        Some("string") => (!value.is_string()).then(|| "a string".to_owned()),
        Some("integer") => {
            let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum"));
            let number = value.as_number().and_then(whole);
            let fits = number
                .is_some_and(|number| number >= least && most.is_none_or(|most| number <= most));
            (!fits).then(|| match most {
                Some(most) => format!("a whole number from {least} to {most}"),
                None => format!("a whole number from {least} on"),
            })
        }
        Some("array") => {
            let fits = value.as_array().is_some_and(|items| items.iter().all(Json::is_string));
            (!fits).then(|| "an array of strings".to_owned())
        }
        _ => None,
    }
}

/// The schema of `filter`.
pub(super) fn filter_schema(_: &mut SchemaGenerator) -> Schema {
    let schema = json!({
        "type": "object",
        "description": "Field to value, or to {gte,gt,lte,lt}. Fields as `schema` shows them.",
        "additionalProperties": { "anyOf": [
            { "type": "string" }, { "type": "number" }, { "type": "boolean" },
            { "type": "object", "properties": { "gte": {}, "gt": {}, "lte": {}, "lt": {} }, "additionalProperties": false }
        ] }
    });
    Schema::try_from(schema).unwrap_or_default()
}

/// Refuses a name that is none: in a path it would be another path.
pub(super) fn not_empty(param: &'static str, name: &str) -> Result<(), Trouble> {
    match name {
        "" => Err(Trouble::call(
            "invalid_arguments",
            param,
            format!("`{param}` is empty; `schema` shows what there is"),
        )),
        _ => Ok(()),
    }
}

/// A filter as the parameters that it is at `/v1`.
///
/// # Errors
/// `invalid_filter`, with the form that is right.
pub(super) fn filter_pairs(filter: Option<&Json>) -> Result<Vec<(String, String)>, Trouble> {
    let wrong = || {
        let form = "`filter` is an object: {\"author\":\"ann\"} or {\"sent_at\":{\"gte\":\"2026-01-01\",\"lt\":\"2026-02-01\"}}, \
                    with plain field names and text, numbers or booleans; \
                    long numbers as text, as in {\"n\":\"100000000000000000001\"}, since they would be rounded";
        Trouble::call("invalid_filter", "filter", form)
    };
    let Some(filter) = filter else { return Ok(Vec::new()) };
    let fields = filter.as_object().filter(|fields| !fields.is_empty()).ok_or_else(wrong)?;
    let mut pairs = Vec::new();
    for (field, condition) in fields {
        if field.is_empty() || field.contains(['[', ']']) {
            return Err(wrong());
        }
        match condition {
            Json::Object(ranges) if !ranges.is_empty() => {
                for (operator, value) in ranges {
                    let known = ["gte", "gt", "lte", "lt"].contains(&operator.as_str());
                    let value = scalar(value).filter(|_| known).ok_or_else(wrong)?;
                    pairs.push((format!("filter[{field}][{operator}]"), value));
                }
            }
            value => pairs.push((format!("filter[{field}]"), scalar(value).ok_or_else(wrong)?)),
        }
    }
    Ok(pairs)
}

fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Bool(_) => Some(value.to_string()),
        // A number that was rounded on its way here would look for another one. Of a float from
        // there on nobody can tell.
        Json::Number(number) => {
            let digits = number.to_string();
            let is_small = number.as_f64().is_some_and(|float| float.abs() < EXACT);
            let is_exact = !number.is_f64()
                || is_small && digits.bytes().filter(u8::is_ascii_digit).count() <= 15;
            is_exact.then_some(digits)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_parameters_or_is_refused() {
        let pairs = |filter: Json| filter_pairs(Some(&filter));
        let good = json!({ "a": "x", "b": 7, "c": true, "d": { "gte": "2026", "lt": 3 }, "e": 1.5e9, "f": u64::MAX });
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs(good),
            Ok(vec![
                text("filter[a]", "x"),
                text("filter[b]", "7"),
                text("filter[c]", "true"),
                text("filter[d][gte]", "2026"),
                text("filter[d][lt]", "3"),
                text("filter[e]", "1500000000.0"),
                text("filter[f]", "18446744073709551615"),
            ])
        );
        assert_eq!(filter_pairs(None), Ok(Vec::new()));
        for bad in [
            json!("a=b"),
            json!({}),
            json!([]),
            json!({ "a[gte]": 1 }),
            json!({ "": 1 }),
            json!({ "a": {} }),
            json!({ "a": { "ne": 1 } }),
            json!({ "a": { "gte": {} } }),
            json!({ "a": null }),
            json!({ "a": 123_456_789.012_345_67 }),
            json!({ "a": 1e20 }),
            json!({ "a": { "gte": -9_007_199_254_740_992.0 } }),
            serde_json::from_str(r#"{"a":100000000000000000001}"#).unwrap(),
            json!({ "a": ["x"] }),
        ] {
            let trouble = pairs(bad.clone()).unwrap_err().to_json();
            assert_eq!(trouble["code"], "invalid_filter", "{bad}");
        }
    }
}
