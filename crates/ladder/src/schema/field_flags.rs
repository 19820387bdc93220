//! Compares the compact form of a field with its full form: whether the flags say everything but
//! the schema.

use serde_json::{Map, Value as Json};
use stile_domain::records::declaration::Aggregation;

/// The flags of a stream's fields by field name, such as `t=string,eq,r=gte|lt,lex,a=sum|max`.
pub(super) struct FieldFlags<'a>(&'a Map<String, Json>);

impl<'a> FieldFlags<'a> {
    /// Returns `None` if any flags are not a string.
    pub(super) fn of(fields: &'a Map<String, Json>) -> Option<Self> {
        fields.values().all(Json::is_string).then_some(Self(fields))
    }

    /// Returns whether the field is listed.
    pub(super) fn lists(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn has_flag(&self, field: &str, word: &str) -> bool {
        self.flags_of(field).any(|own| own == word)
    }

    fn has_aggregation(&self, field: &str, kind: &str) -> bool {
        self.flags_of(field)
            .filter_map(|own| own.strip_prefix("a="))
            .any(|kinds| kinds.split('|').any(|own| own == kind))
    }

    fn flags_of(&self, field: &str) -> impl Iterator<Item = &'a str> {
        self.0.get(field).and_then(Json::as_str).unwrap_or_default().split(',')
    }

    /// Returns whether the flags say everything that `field_capabilities` says of a field.
    pub(super) fn cover_capability(&self, field: &str, capability: &Json) -> bool {
        let says = |word: &str| self.has_flag(field, word);
        let all = capability.as_object().map(|members| {
            members.iter().all(|(member, value)| match member.as_str() {
                "schema" => true,
                "granted" => *value == Json::Bool(true),
                "exact_filter" => {
                    usable(value, false).is_some_and(|(is_usable, _)| !is_usable || says("eq"))
                }
                "lexical_search" => {
                    usable(value, false).is_some_and(|(is_usable, _)| !is_usable || says("lex"))
                }
                "range_filter" => usable(value, true).is_some_and(|(is_usable, operators)| {
                    is_usable != operators.is_empty()
                        && (!is_usable || says(&format!("r={operators}")))
                }),
                "aggregation" => value.as_object().is_some_and(|kinds| {
                    let is_covered = |(kind, value): (&String, &Json)| {
                        usable(value, false).is_some_and(|(is_usable, _)| is_usable)
                            && self.has_aggregation(field, kind)
                    };
                    kinds.iter().all(is_covered)
                }),
                _ => false,
            })
        });
        all == Some(true)
    }

    /// Returns whether the flags say everything that the member `query` says.
    pub(super) fn cover_query(&self, query: &Json) -> bool {
        let all = |names: &Json, is_covered: &dyn Fn(&str) -> bool| {
            names
                .as_array()
                .is_some_and(|names| names.iter().all(|name| name.as_str().is_some_and(is_covered)))
        };
        members(query, |member, value| match member {
            "exact_filters" => all(value, &|name| self.has_flag(name, "eq")),
            "range_filters" => members(value, |field, operators| {
                joined(operators)
                    .is_some_and(|operators| self.has_flag(field, &format!("r={operators}")))
            }),
            "search" => members(value, |member, names| {
                member == "lexical_fields" && all(names, &|name| self.has_flag(name, "lex"))
            }),
            "aggregations" => members(value, |kind, names| {
                let is_known = Aggregation::ALL.into_iter().any(|known| known.name() == kind);
                is_known && all(names, &|name| self.has_aggregation(name, kind))
            }),
            _ => false,
        })
    }
}

/// Returns whether a value is null, or an object whose members all pass `is_one`.
fn members(value: &Json, is_one: impl Fn(&str, &Json) -> bool) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|all| all.iter().all(|(name, value)| is_one(name, value)))
}

/// Reads a capability: whether it is usable, and its operators. `None` if it says more, or is
/// declared but not usable, or the reverse.
fn usable(value: &Json, has_operators: bool) -> Option<(bool, String)> {
    let members = value.as_object()?;
    let is_known = |name: &str| {
        matches!(name, "declared" | "usable") || (has_operators && name == "operators")
    };
    let is_usable = members.get("usable")?.as_bool()?;
    let operators = members.get("operators").map_or(Some(String::new()), joined)?;
    let is_whole = members.keys().all(|name| is_known(name))
        && members.get("declared")?.as_bool()? == is_usable;
    is_whole.then_some((is_usable, operators))
}

/// Joins a list of strings with `|`, as flags do.
fn joined(list: &Json) -> Option<String> {
    let texts: Option<Vec<&str>> = list.as_array()?.iter().map(Json::as_str).collect();
    texts.map(|texts| texts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields() -> Map<String, Json> {
        let fields = json!({ "size": "t=integer,eq,r=gte|lt,a=sum|max", "body": "t=string,lex", "id": "t=string" });
        fields.as_object().unwrap().clone()
    }

    #[test]
    fn flags_cover_a_capability_that_says_no_more() {
        let fields = fields();
        let flags = FieldFlags::of(&fields).unwrap();
        let on = json!({ "declared": true, "usable": true });
        let off = json!({ "declared": false, "usable": false });
        let range =
            |operators: Json| json!({ "declared": true, "usable": true, "operators": operators });
        for (field, capability, is_covered) in [
            (
                "size",
                json!({ "granted": true, "schema": { "type": "integer" }, "exact_filter": on }),
                true,
            ),
            (
                "size",
                json!({ "range_filter": range(json!(["gte", "lt"])), "aggregation": { "max": on } }),
                true,
            ),
            ("size", json!({ "lexical_search": off, "aggregation": {} }), true),
            (
                "id",
                json!({ "range_filter": { "declared": false, "usable": false, "operators": [] } }),
                true,
            ),
            ("size", json!({ "granted": false }), false),
            ("size", json!({ "lexical_search": on }), false),
            ("body", json!({ "exact_filter": on }), false),
            ("size", json!({ "exact_filter": { "declared": true, "usable": false } }), false),
            (
                "size",
                json!({ "exact_filter": { "declared": true, "usable": true, "reason": "x" } }),
                false,
            ),
            ("size", json!({ "range_filter": range(json!(["gte"])) }), false),
            ("size", json!({ "range_filter": range(json!([])) }), false),
            ("size", json!({ "range_filter": on }), false),
            ("size", json!({ "aggregation": { "min": on } }), false),
            ("size", json!({ "aggregation": { "max": off } }), false),
            ("size", json!({ "semantics": "x" }), false),
            ("size", json!("x"), false),
        ] {
            assert_eq!(
                flags.cover_capability(field, &capability),
                is_covered,
                "{field} {capability}"
            );
        }
    }

    #[test]
    fn a_query_is_covered_where_the_words_of_each_field_say_it() {
        let fields = fields();
        let flags = FieldFlags::of(&fields).unwrap();
        for (query, is_covered) in [
            (json!(null), true),
            (
                json!({ "exact_filters": ["size"], "range_filters": { "size": ["gte", "lt"] } }),
                true,
            ),
            (
                json!({ "search": { "lexical_fields": ["body"] }, "aggregations": { "sum": ["size"], "max": [] } }),
                true,
            ),
            (json!({ "exact_filters": ["body"] }), false),
            (json!({ "range_filters": { "size": ["gte"] } }), false),
            (json!({ "range_filters": { "size": { "operators": ["gte", "lt"] } } }), false),
            (json!({ "search": { "lexical_fields": ["size"] } }), false),
            (json!({ "search": { "ranked": true } }), false),
            (json!({ "aggregations": { "count": true } }), false),
            (json!({ "aggregations": { "percentile": ["size"] } }), false),
            (json!({ "aggregations": { "min": ["size"] } }), false),
            (json!({ "expand": [] }), false),
            (json!([]), false),
        ] {
            assert_eq!(flags.cover_query(&query), is_covered, "{query}");
        }
        let no_words = json!({ "size": "eq", "body": { "x": 1 } });
        assert!(FieldFlags::of(no_words.as_object().unwrap()).is_none());
    }
}
