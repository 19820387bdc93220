//! Windows of values that a server has no windows of.
//!
//! A server of another make has windows of texts, and perhaps none at all. A number, a list or a
//! value within a list is then read from the record itself, and the window is cut here. So is any
//! window of a server that counts other characters.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use stile_domain::hash::{ContentHash, hex};
use stile_domain::records::blob::{
    BlobId, FoundReference, found_references, is_blob_reference, media_type,
};
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::pieces::{self, CharRange};
use stile_domain::records::selector::{MAX_CHARS, TextSelector, WindowBounds};
use stile_ladder::port::ErrorResponse;

use super::field_place::FieldPlace;

/// Returns whether a refusal may mean that the server has no window of this value, and not that the
/// caller may not read it.
pub(super) fn may_lack_window(refused: &ErrorResponse, place: &FieldPlace<'_>) -> bool {
    match (refused.status, refused.code()) {
        (422, "field_not_text") | (404, "not_found") => true,
        (400 | 403 | 404 | 422, code) => place.may_be_inner() && code != "query_not_found",
        _ => false,
    }
}

/// Returns whether a window has another number of Unicode scalar values than it says. Its server
/// counts UTF-16, say, so no offset means the same there and here.
pub(super) fn is_counted_otherwise(window: &str) -> bool {
    let Ok(json) = serde_json::from_str::<Json>(window) else { return false };
    let number = |name: &str| json.pointer(name).and_then(Json::as_u64);
    let text = json.pointer("/window/text").and_then(Json::as_str);
    let bounds = number("/window/start_chars").zip(number("/window/end_chars"));
    bounds.zip(text).is_some_and(|((start, end), text)| {
        end.checked_sub(start).is_some_and(|told| told != pieces::count(text))
    })
}

/// Returns the requested window of a value. `None` if the record has no such value, if the value is
/// bytes, or if the request continues a window of the server.
///
/// # Errors
/// The error of the interface for a text that does not occur.
pub(super) fn window(
    place: &FieldPlace<'_>,
    record: &str,
) -> Option<Result<String, ErrorResponse>> {
    let json = place.json_in(record)?;
    let is_text = is_text(json);
    let text: Cow<'_, str> =
        if is_text { serde_json::from_str::<String>(json).ok()?.into() } else { json.into() };
    if !is_text && is_blob_reference(json) {
        return None;
    }
    let (bounds, found) = match requested_bounds(place, &text)? {
        Ok(bounds) => bounds,
        Err(refused) => return Some(Err(refused)),
    };
    let total = bounds.total;
    let shown = pieces::slice(&text, bounds.start, bounds.end);
    let references = if is_text { Vec::new() } else { found_references(json) };
    let ends_inside =
        |found: &&FoundReference| (bounds.start + 1..=bounds.end).contains(&found.end_chars);
    let references: Vec<Json> = references
        .iter()
        .filter(ends_inside)
        .map(|found| reference_json(place.field(), found))
        .collect();
    let window = json!({
        "object": "field_window",
        "stream": place.request.stream,
        "record_id": place.request.key,
        "connection_id": place.connection(),
        "field": {
            "path": place.field(),
            "text_like": is_text,
            "mime_type": if is_text { "text/plain" } else { "application/json" },
            "digest": format!("sha256:{}", ContentHash::digest(text.as_bytes())),
        },
        "window": {
            "text": shown,
            "total_chars": total,
            "start_chars": bounds.start,
            "end_chars": bounds.end,
            "limit_chars": bounds.limit,
            "complete": bounds.is_complete(),
            "has_more": bounds.end < total,
            "next_offset_chars": bounds.next().map(|(start, _)| start),
            "previous_offset_chars": bounds.previous().map(|(start, _)| start),
            "match_start_chars": found.map(|found| found.start),
            "match_end_chars": found.map(|found| found.end),
            "references": references,
        },
    });
    Some(Ok(window.to_string()))
}

/// Returns whether the JSON text of a value is that of a string.
pub(super) fn is_text(json: &str) -> bool {
    json.starts_with('"')
}

/// Returns which characters of a text a request selects, and where the searched text is. `None` for
/// a request that continues a window of the server, or that no window can answer.
fn requested_bounds(
    place: &FieldPlace<'_>,
    text: &str,
) -> Option<Result<(WindowBounds, Option<CharRange>), ErrorResponse>> {
    let request = place.request;
    let selector = TextSelector::new(
        request.cursor.as_deref(),
        request.offset_chars,
        request.limit_chars,
        request.q.as_deref(),
        request.before_chars,
        request.after_chars,
    );
    let total = pieces::count(text);
    match selector.ok()? {
        TextSelector::At { start, limit } => {
            let limit = limit.clamp(1, MAX_CHARS);
            Some(Ok((WindowBounds::from_offset(start, limit, total), None)))
        }
        TextSelector::Around { q, before, after, limit } => {
            let needle = Needle::new(&q)?;
            let Some(found) = NeedleFinder::new(&needle).feed(text) else {
                return Some(Err(query_not_found()));
            };
            let limit = limit.map(|limit| limit.clamp(1, MAX_CHARS));
            let bounds = WindowBounds::around(found.start, found.end, before, after, limit, total)?;
            Some(Ok((bounds, Some(found))))
        }
        TextSelector::After { .. } => None,
    }
}

fn query_not_found() -> ErrorResponse {
    let error = json!({
        "type": "not_found_error", "code": "query_not_found", "param": "q",
        "message": "`q` does not occur in the field",
    });
    ErrorResponse { status: 404, error: error.as_object().cloned().unwrap_or_default() }
}

fn reference_json(field: &str, found: &FoundReference) -> Json {
    let digest = BlobId::parse(&found.blob_id).map(|id| format!("sha256:{}", hex(id.digest())));
    json!({
        "path": format!("{field}{}", found.pointer),
        "mime_type": found.mime_type.as_deref().and_then(media_type),
        "size_bytes": found.size_bytes,
        "digest": digest,
        "end_chars": found.end_chars,
    })
}
