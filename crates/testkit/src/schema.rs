//! Checks answers against their advertised schemas.
//!
//! The check knows the keywords of JSON Schema that Stile uses. An unknown keyword is a failure, so
//! that nothing is skipped.

use serde_json::Value;

/// Checks that `value` fits `schema`.
///
/// # Errors
/// The place and the reason of the first misfit.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at("$", schema, value)
}

fn at(place: &str, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == &Value::Bool(true) {
            Ok(())
        } else {
            Err(format!("{place}: nothing is allowed"))
        };
    };
    for (keyword, rule) in keywords {
        let fits = match keyword.as_str() {
            "type" => is_type(rule, value),
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(value) = value.get(name) {
                        at(&format!("{place}.{name}"), schema, value)?;
                    }
                }
                true
            }
            "required" => rule
                .as_array()
                .into_iter()
                .flatten()
                .all(|name| value.get(name.as_str().unwrap_or("")).is_some()),
            "additionalProperties" => {
                let known = |name: &String| {
                    keywords.get("properties").and_then(|properties| properties.get(name)).is_some()
                };
                rule != &Value::Bool(false)
                    || value.as_object().is_none_or(|object| object.keys().all(known))
            }
            "anyOf" => {
                rule.as_array().into_iter().flatten().any(|schema| at(place, schema, value).is_ok())
            }
            "oneOf" => {
                rule.as_array()
                    .into_iter()
                    .flatten()
                    .filter(|schema| at(place, schema, value).is_ok())
                    .count()
                    == 1
            }
            "const" => rule == value,
            "enum" => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    at(&format!("{place}[{index}]"), rule, item)?;
                }
                true
            }
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap_or(0)),
            "maxItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap_or(0)),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap_or(0)),
            "maxLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 <= rule.as_u64().unwrap_or(0)),
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap_or(0)),
            // The only pattern in use is that of a hash.
            "pattern" => value.as_str().is_none_or(|text| {
                text.len() == 64
                    && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            }),
            "description" | "default" => true,
            _ => return Err(format!("{place}: the keyword `{keyword}` is not known")),
        };
        if !fits {
            return Err(format!("{place}: does not fit `{keyword}`"));
        }
    }
    Ok(())
}

fn is_type(rule: &Value, value: &Value) -> bool {
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}
