//! The member `meta` of an answer: warnings about the request.

use serde_json::{Value as Json, json};
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::ClampedNumber;

/// Returns `meta` with a warning for each number that was lowered to its maximum and for each
/// parameter that was sent by an old name.
pub(crate) fn response_meta(clamped: &[ClampedNumber], connection: &NamedConnection) -> Json {
    let mut warnings: Vec<Json> = Vec::new();
    for ClampedNumber { name, requested, max } in clamped {
        warnings.push(json!({
            "code": "limit_clamped", "param": name,
            "message": format!("`{name}` is at most {max}, which was taken instead"),
            "detail": { "requested_limit": requested, "max_limit": max },
        }));
    }
    if connection.has_former_name() {
        warnings.push(json!({
            "code": "deprecated_alias_used", "param": "connector_instance_id",
            "message": "`connector_instance_id` is an old name of `connection_id`",
        }));
    }
    json!({ "warnings": warnings })
}

/// Adds warnings to `meta`.
pub(crate) fn add_warnings(meta: &mut Json, more: Vec<Json>) {
    if let Some(warnings) = meta.get_mut("warnings").and_then(Json::as_array_mut) {
        warnings.extend(more);
    }
}
