//! Builds JSON objects from lists of members and from declared answers.

use serde::Serialize;
use serde_json::{Map, Value as Json};

/// Makes an object with the members in this order.
pub(super) fn json_object<const N: usize>(object: [(&str, Json); N]) -> Json {
    Json::Object(members(object))
}

/// Makes the members of an object, in this order.
pub(super) fn members<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    present_members(members.map(|(name, value)| (name, Some(value))))
}

/// Makes the members of an object from those that have a value, in this order.
pub(super) fn present_members<const N: usize>(
    members: [(&str, Option<Json>); N],
) -> Map<String, Json> {
    // `collect` would not know the number of members before.
    let mut object = Map::with_capacity(N);
    object.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    object
}

/// Returns the members of an answer that is declared as a type.
pub(super) fn members_of(answer: &impl Serialize) -> Map<String, Json> {
    match serde_json::to_value(answer) {
        Ok(Json::Object(members)) => members,
        // Each answer is an object of texts, numbers and JSON values.
        _ => Map::new(),
    }
}

/// Parses JSON that this crate wrote.
pub(super) fn tree(json: &str) -> Json {
    serde_json::from_str(json).unwrap_or_default()
}
