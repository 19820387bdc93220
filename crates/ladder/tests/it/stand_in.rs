//! A resource server of another make, reached over HTTP as `stile mcp` reaches one.
//!
//! It serves a stream of a world by what `/v1` requires and nothing more: it refuses every other
//! parameter, sends records whole, has windows of texts only, without digests and cursors, and
//! returns blobs by range.

use serde_json::json;
use stile_domain::percent;
use stile_domain::records::value::FieldValue;
use stile_ladder::port::MAX_ANSWER_BYTES;
use stile_server::outbound::{OutboundClient, OutboundLimits};
use stile_server::provider::HttpRecordServer;
use stile_testkit::upstream::{Behaviour, Received, Reply, Upstream};

use std::sync::Arc;
use std::time::Duration;

use super::records::blobs::BLOBS;
use super::records::model::Source;

const TOKEN: &str = "token-of-the-stand-in";
/// The most characters of a window.
const MAX_WINDOW: usize = 16_384;

/// What a stand-in counts the characters of windows in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Units {
    Scalars,
    /// Windows end where they have so many units of UTF-16, and say these numbers.
    Utf16,
}

/// A running server, and how to ask it.
pub(super) struct StandIn {
    /// Kept alive while the test asks.
    _upstream: Upstream,
    pub(super) provider: HttpRecordServer,
}

impl StandIn {
    pub(super) fn of(source: Source, units: Units) -> Self {
        let upstream =
            Upstream::start(Behaviour::notes(move |asked| answer(asked, &source, units)));
        let outbound = OutboundClient::new(None, Duration::from_secs(5)).unwrap();
        let bounds =
            OutboundLimits { total: Duration::from_secs(60), body_bytes: MAX_ANSWER_BYTES };
        let read = Arc::new(|| Some(TOKEN.to_owned()));
        let provider =
            HttpRecordServer::new(outbound, &upstream.url(), TOKEN, read, bounds).unwrap();
        Self { _upstream: upstream, provider }
    }
}

/// A request, taken apart.
struct Asked {
    parts: Vec<String>,
    pairs: Vec<(String, String)>,
}

impl Asked {
    fn of(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decoded = |text: &str| percent::decode(text).unwrap();
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (decoded(name), decoded(value))
        };
        Self {
            parts: path.split('/').skip(2).map(decoded).collect(),
            pairs: query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect(),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str, usual: usize) -> usize {
        self.get(name).map_or(usual, |value| value.parse().unwrap())
    }

    fn knows(&self, known: &[&str]) -> Result<(), Reply> {
        match self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(refusal(400, "invalid_request", &format!("unknown: {name}"))),
            None => Ok(()),
        }
    }
}

fn refusal(status: u16, code: &str, message: &str) -> Reply {
    let error = json!({ "type": "invalid_request_error", "code": code, "message": message });
    Reply::json(status, &json!({ "error": error }))
}

fn answer(received: &Received, source: &Source, units: Units) -> Reply {
    if received.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return refusal(401, "invalid_token", "who are you");
    }
    let asked = Asked::of(&received.target);
    let parts: Vec<&str> = asked.parts.iter().map(String::as_str).collect();
    let answered = match parts.as_slice() {
        ["streams", stream, ..] if *stream != source.stream => Err(no("stream")),
        ["streams", _, "records"] => list(&asked, source),
        ["streams", _, "records", key] => {
            asked.knows(&["fields", "connection_id"]).and_then(|()| record(source, key))
        }
        ["streams", _, "records", key, "field-window"] => window(&asked, source, key, units),
        ["blobs", id] => blob(id, received.header("range")),
        _ => Err(no("path")),
    };
    answered.unwrap_or_else(|refused| refused)
}

fn no(what: &str) -> Reply {
    refusal(404, "not_found", &format!("no such {what}"))
}

/// Returns a record as JSON, with all numbers as they are stored.
fn record_json(source: &Source, key: &str) -> Option<String> {
    let fields = &source.records.get(key)?.fields;
    let text = |text: &str| json!(text).to_string();
    let members: Vec<String> = fields
        .iter()
        .map(|(name, value)| {
            let value = match value {
                FieldValue::Null => "null".to_owned(),
                FieldValue::Bool(value) => value.to_string(),
                FieldValue::Number(digits) => digits.to_string(),
                FieldValue::Text(value) => text(value),
                FieldValue::Json(json) => json.clone(),
            };
            format!("{}:{value}", text(name))
        })
        .collect();
    Some(format!(
        "{{\"object\":\"record\",\"id\":{},\"stream\":{},\"connection_id\":{},\"data\":{{{}}}}}",
        text(key),
        text(&source.stream),
        text(&source.connection),
        members.join(","),
    ))
}

fn record(source: &Source, key: &str) -> Result<Reply, Reply> {
    let record = record_json(source, key).ok_or_else(|| no("record"))?;
    Ok(Reply::bytes(200, "application/json", record))
}

fn list(asked: &Asked, source: &Source) -> Result<Reply, Reply> {
    asked.knows(&["limit", "cursor", "order", "fields", "connection_id"])?;
    let first: usize = asked.get("cursor").map_or(0, |cursor| cursor[5..].parse().unwrap());
    let limit = asked.number("limit", 25);
    let keys = source.records.keys().skip(first).take(limit);
    let rows: Vec<String> = keys.map(|key| record_json(source, key).unwrap()).collect();
    let next = first + limit;
    let has_more = next < source.records.len();
    let cursor = if has_more { json!(format!("page-{next}")) } else { json!(null) };
    let page = format!(
        "{{\"object\":\"list\",\"has_more\":{has_more},\"next_cursor\":{cursor},\"data\":[{}]}}",
        rows.join(",")
    );
    Ok(Reply::bytes(200, "application/json", page))
}

fn window(asked: &Asked, source: &Source, key: &str, units: Units) -> Result<Reply, Reply> {
    asked.knows(&[
        "field", "connection_id", "offset_chars", "limit_chars", "q", "before_chars", "after_chars",
    ])?;
    let stored = source.records.get(key).ok_or_else(|| no("record"))?;
    let field = asked.get("field").unwrap_or_default();
    let value = stored.fields.iter().find(|(name, _)| name == field);
    let Some((_, value)) = value else {
        return Err(refusal(404, "field_not_found", "no such field"));
    };
    let FieldValue::Text(text) = value else {
        return Err(refusal(422, "field_not_text", "the field is no text"));
    };
    let units: Vec<Vec<u16>> = match units {
        Units::Scalars => text.chars().map(|c| c.encode_utf16(&mut [0; 2]).to_vec()).collect(),
        Units::Utf16 => text.encode_utf16().map(|unit| vec![unit]).collect(),
    };
    let limit = asked.number("limit_chars", 4096).min(MAX_WINDOW);
    let start = asked.number("offset_chars", 0).min(units.len());
    let end = (start + limit).min(units.len());
    let shown = String::from_utf16_lossy(&units[start..end].concat());
    let next = (end < units.len()).then_some(end);
    Ok(Reply::json(
        200,
        &json!({ "object": "field_window", "field": { "path": field, "type": "string" }, "window": {
            "text": shown, "total_chars": units.len(), "start_chars": start, "end_chars": end,
            "limit_chars": limit, "complete": start == 0 && next.is_none(),
            "has_more": next.is_some(), "next_offset_chars": next,
            "previous_offset_chars": (start > 0).then(|| start.saturating_sub(limit)) } }),
    ))
}

fn blob(id: &str, range: Option<&str>) -> Result<Reply, Reply> {
    let stored = BLOBS.iter().find(|(name, _)| name == id);
    let (_, bytes) = stored.ok_or_else(|| refusal(404, "blob_not_found", "no such blob"))?;
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((start, last)) = range else {
        return Ok(Reply::bytes(200, "application/octet-stream", bytes.as_slice()));
    };
    let (start, last): (usize, usize) = (start.parse().unwrap(), last.parse().unwrap());
    if start >= bytes.len() {
        let reply = Reply::bytes(416, "application/octet-stream", "");
        return Err(reply.with_header("Content-Range", &format!("bytes */{}", bytes.len())));
    }
    let last = last.min(bytes.len() - 1);
    let reply = Reply::bytes(206, "application/octet-stream", &bytes[start..=last]);
    Ok(reply.with_header("Content-Range", &format!("bytes {start}-{last}/{}", bytes.len())))
}
