//! Types that the arguments of several record tools share.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::{Number, Value as Json, json};
use stile_domain::records::aggregator::{GROUP_ORDERS, METRICS};
use stile_domain::records::declaration::RangeOperator;
use stile_domain::records::order::{ORDERS, SEARCH_ORDERS};
use stile_domain::records::request::parameters::{FilterComparison, FilterParameter};
use stile_domain::records::zone::Granularity;
use stile_tools::arguments::{EXACT_FLOATS_END, whole_number};

use super::error::LadderError;

/// A whole number from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeNumber<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for WholeNumber<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let number = whole_number(&number).filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| D::Error::custom("out of range"))
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for WholeNumber<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("WholeNumber{MIN}To{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        schema.insert("type".to_owned(), "integer".into());
        schema.insert("minimum".to_owned(), MIN.into());
        if MAX < i64::MAX as u64 {
            schema.insert("maximum".to_owned(), MAX.into());
        }
        schema
    }
}

/// The words that an argument accepts.
pub trait AllowedWords {
    /// All accepted words, as the resource server spells them.
    const ALL: &'static [&'static str];
}

/// The metrics of `aggregate`, such as `count`.
#[derive(Clone, Copy, Debug)]
pub struct MetricNames;
/// The spans of time that `aggregate` groups by, such as `week`.
#[derive(Clone, Copy, Debug)]
pub struct GranularityNames;
/// The orders of `query_records`: `asc` and `desc`.
#[derive(Clone, Copy, Debug)]
pub struct OrderNames;

impl AllowedWords for MetricNames {
    const ALL: &'static [&'static str] = &METRICS;
}

impl AllowedWords for GranularityNames {
    const ALL: &'static [&'static str] = &Granularity::NAMES;
}

impl AllowedWords for OrderNames {
    const ALL: &'static [&'static str] = &ORDERS;
}

/// The orders of the groups of `aggregate`, such as `value_desc`.
#[derive(Clone, Copy, Debug)]
pub struct GroupOrderNames;

impl AllowedWords for GroupOrderNames {
    const ALL: &'static [&'static str] = &GROUP_ORDERS;
}

/// A text or a list of texts; empty if left out.
#[derive(Clone, Debug, Default)]
pub struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("neither a text nor a list of texts");
        let text = |value| match value {
            Json::String(text) => Ok(text),
            _ => Err(wrong()),
        };
        match Json::deserialize(deserializer)? {
            Json::Null => Ok(Self::default()),
            Json::Array(values) => values.into_iter().map(text).collect::<Result<_, _>>().map(Self),
            value => text(value).map(|text| Self(vec![text])),
        }
    }
}

/// Returns the schema of an argument that is a text or a list of up to three.
pub(super) fn one_or_more_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" } }
    ] })
}

/// The details of a list of hits or records, beside the usual one.
#[derive(Clone, Copy, Debug)]
pub struct ListDetailNames;

impl AllowedWords for ListDetailNames {
    const ALL: &'static [&'static str] = &["list"];
}

/// The orders of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchOrderNames;

impl AllowedWords for SearchOrderNames {
    const ALL: &'static [&'static str] = &SEARCH_ORDERS;
}

/// A word out of [`AllowedWords::ALL`].
#[derive(Clone, Copy, Debug)]
pub struct OneOf<W> {
    word: &'static str,
    words: PhantomData<W>,
}

impl<W> OneOf<W> {
    /// Returns the word as the resource server spells it.
    pub(super) fn word(self) -> &'static str {
        self.word
    }
}

impl<'de, W: AllowedWords> Deserialize<'de> for OneOf<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = String::deserialize(deserializer)?;
        let word = W::ALL
            .iter()
            .find(|word| **word == sent)
            .ok_or_else(|| D::Error::custom("none of the words"))?;
        Ok(Self { word, words: PhantomData })
    }
}

impl<W: AllowedWords> JsonSchema for OneOf<W> {
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

/// Returns the schema of the argument `filter`.
pub(super) fn filter_schema(_: &mut SchemaGenerator) -> Schema {
    let schema = json!({
        "type": ["object", "array"],
        "description": "Field: value, [any], range; array: any",
        "additionalProperties": { "anyOf": [
            { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "array", "items": {} },
            { "type": "object", "properties": { "gte": {}, "gt": {}, "lte": {}, "lt": {}, "exists": {} }, "additionalProperties": false }
        ] }
    });
    Schema::try_from(schema).unwrap_or_default()
}

/// Refuses an empty name, which would make a different path.
pub(super) fn refuse_empty(param: &'static str, name: &str) -> Result<(), LadderError> {
    match name {
        "" => Err(LadderError::call(
            "invalid_arguments",
            param,
            format!("`{param}` is empty; `schema` shows what there is"),
        )),
        _ => Ok(()),
    }
}

/// Converts a filter, or a list of filters of which one is enough, to conditions of a request.
///
/// # Errors
/// `invalid_filter`, whose message shows the right form.
pub(super) fn filter_conditions(
    filter: Option<&Json>,
) -> Result<Vec<FilterParameter>, LadderError> {
    let Some(filter) = filter else { return Ok(Vec::new()) };
    let conditions = match filter {
        // One alternative is none.
        Json::Array(filters) if filters.len() != 1 => {
            let all = filters.iter().enumerate();
            let all = all.map(|(number, filter)| conditions_of(filter, Some(number)));
            let all = all.collect::<Option<Vec<_>>>().map(|all| all.concat());
            all.filter(|all| !all.is_empty())
        }
        Json::Array(filters) => filters.first().and_then(|filter| conditions_of(filter, None)),
        filter => conditions_of(filter, None),
    };
    conditions.ok_or_else(|| {
        let form = "`filter` is an object: {\"author\":\"ann\"}, {\"author\":[\"ann\",\"bob\"]}, {\"author\":null} \
                    or {\"sent_at\":{\"gte\":\"2026-01-01\",\"lt\":\"2026-02-01\"}}, with plain field names and text, numbers or booleans; \
                    or an array of such objects, of which one must match; \
                    long numbers as text, as in {\"n\":\"100000000000000000001\"}, since they would be rounded";
        LadderError::call("invalid_filter", "filter", form)
    })
}

/// Returns the conditions of one filter, which is an alternative or the only one. `None` if the
/// filter has another form.
fn conditions_of(filter: &Json, alternative: Option<usize>) -> Option<Vec<FilterParameter>> {
    let fields = filter.as_object().filter(|fields| !fields.is_empty())?;
    let mut conditions = Vec::new();
    for (field, condition) in fields {
        if field.is_empty() || field.contains(['[', ']']) {
            return None;
        }
        let mut add = |comparison| {
            conditions.push(FilterParameter { field: field.clone(), comparison, alternative });
        };
        match condition {
            Json::Object(ranges) if !ranges.is_empty() => {
                for (operator, value) in ranges {
                    add(match operator.as_str() {
                        "exists" => FilterComparison::Exists(value.as_bool()?),
                        name => {
                            let mut all = RangeOperator::ALL.into_iter();
                            let operator = all.find(|known| known.name() == name)?;
                            FilterComparison::Range(operator, scalar(value)?)
                        }
                    });
                }
            }
            Json::Array(values) if !values.is_empty() => {
                add(FilterComparison::In(values.iter().map(scalar).collect::<Option<_>>()?));
            }
            Json::Null => add(FilterComparison::Exists(false)),
            value => add(FilterComparison::Is(scalar(value)?)),
        }
    }
    Some(conditions)
}

fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Bool(_) => Some(value.to_string()),
        // A number that was rounded on its way here would match another value. Above this bound,
        // nobody can tell whether a float was rounded.
        Json::Number(number) => {
            let digits = number.to_string();
            let is_small = number.as_f64().is_some_and(|float| float.abs() < EXACT_FLOATS_END);
            let is_exact = !number.is_f64()
                || is_small && digits.bytes().filter(u8::is_ascii_digit).count() <= 15;
            is_exact.then_some(digits)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::records::request::{ListRecords, ReadOperation as _};

    use super::*;

    #[test]
    fn a_filter_becomes_parameters_or_is_refused() {
        let pairs = |filter: Json| {
            let conditions = filter_conditions(Some(&filter))?;
            Ok::<_, LadderError>(ListRecords { conditions, ..ListRecords::default() }.pairs())
        };
        let good = json!({ "a": "x", "b": 7, "c": true, "d": { "gte": "2026", "lt": 3 }, "e": 1.5e9, "f": u64::MAX,
            "g": ["x", 1], "h": null, "i": { "exists": true } });
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
                text("filter[g][in]", "x"),
                text("filter[g][in]", "1"),
                text("filter[h][exists]", "false"),
                text("filter[i][exists]", "true"),
            ])
        );
        assert_eq!(filter_conditions(None), Ok(Vec::new()));
        assert_eq!(
            pairs(json!([{ "a": "x", "b": { "gt": 1 } }, { "c": null }])),
            Ok(vec![
                text("or[0][a]", "x"),
                text("or[0][b][gt]", "1"),
                text("or[1][c][exists]", "false"),
            ])
        );
        assert_eq!(pairs(json!([{ "a": 1 }])), Ok(vec![text("filter[a]", "1")]));
        for bad in [
            json!("a=b"),
            json!({}),
            json!([]),
            json!([{ "a": 1 }, {}]),
            json!(["a"]),
            json!({ "a[gte]": 1 }),
            json!({ "": 1 }),
            json!({ "a": {} }),
            json!({ "a": { "ne": 1 } }),
            json!({ "a": { "gte": {} } }),
            json!({ "a": { "exists": "true" } }),
            json!({ "a": 123_456_789.012_345_67 }),
            json!({ "a": 1e20 }),
            json!({ "a": { "gte": -9_007_199_254_740_992.0 } }),
            serde_json::from_str(r#"{"a":100000000000000000001}"#).unwrap(),
            json!({ "a": [] }),
            json!({ "a": [["x"]] }),
        ] {
            let error = pairs(bad.clone()).unwrap_err().to_json();
            assert_eq!(error["code"], "invalid_filter", "{bad}");
        }
    }
}
