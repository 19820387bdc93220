//! Grants as the owner is shown them: on the command line, in answers of `/v1`, and in
//! introspection.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_store::records::{GrantRecord, GrantStatus};

use crate::grant_document::REQUEST_TYPE;

/// The members of every grant in an answer of `/v1`.
pub(crate) const GRANT_MEMBERS: &[&str] =
    &["object", "id", "status", "revoked_at", "bound_to", "grant"];

/// Returns the name of a state.
pub fn status_name(status: GrantStatus) -> &'static str {
    match status {
        GrantStatus::Active => "active",
        GrantStatus::Expired => "expired",
        GrantStatus::Revoked => "revoked",
        GrantStatus::Invalid => "damaged",
    }
}

/// Returns a grant and its state at the time `now`. The terms are `null` if they are damaged.
pub fn grant_json(record: &GrantRecord, now: Instant) -> Json {
    json!({
        "id": record.id,
        "status": status_name(record.status(now)),
        "revoked_at": record.revoked.map(Instant::to_rfc3339),
        "bound_to": record.bound,
        "grant": record.grant.as_ref().and_then(terms),
    })
}

/// Returns the same with the member `object`, for an answer of `/v1`.
pub(crate) fn grant_object(record: &GrantRecord, now: Instant) -> Map<String, Json> {
    let mut object = Map::from_iter([("object".to_owned(), "grant".into())]);
    if let Json::Object(mut members) = grant_json(record, now) {
        object.append(&mut members);
    }
    object
}

/// Returns the terms of a grant as a server enforces them. *Source*: RFC 9396, section 2.
pub fn authorization_detail(grant: &Grant) -> Option<Json> {
    let Some(Json::Object(mut detail)) = terms(grant) else { return None };
    for member in ["version", "issued_at", "client", "expires_at"] {
        detail.remove(member);
    }
    for stream in detail.get_mut("streams").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(stream) = stream.as_object_mut()
            && let Some(connections) = stream.remove("connection_ids")
        {
            stream.insert("instance_ids".to_owned(), connections);
        }
    }
    let mut object = Map::from_iter([("type".to_owned(), REQUEST_TYPE.into())]);
    object.append(&mut detail);
    Some(Json::Object(object))
}

fn terms(grant: &Grant) -> Option<Json> {
    serde_json::from_str(&grant.to_json().ok()?).ok()
}
