//! A resource server of another make: it knows what the reference adapter asks for and nothing
//! else, refuses every parameter beyond that, sends records whole, and has no digests and no
//! cursors for windows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::percent;
use stile_testkit::upstream::{Behaviour, Received, Reply, Upstream};

/// Where its interface begins, below its origin.
pub const PREFIX: &str = "/pre/fix";
/// The token that it takes.
pub const TOKEN: &str = "token-of-the-plain-server-4711";

/// The server.
pub struct Plain {
    pub upstream: Upstream,
    records: Records,
}

type Records = Arc<Mutex<Vec<(String, Map<String, Value>)>>>;

/// In what a server is not the plainest.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// It passes over parameters that it does not know.
    pub is_lenient: bool,
    /// It says the digest of a field.
    pub has_digests: bool,
    /// How it refuses a parameter that it does not know, if not as `invalid_request`.
    pub unknown: Option<(u16, &'static str)>,
    /// A window says names that are not those which were asked for.
    pub tells_names: bool,
    /// By what alone a window says that there is more, if not by all that there is.
    pub tells_more_by: Option<&'static str>,
    /// What it counts the characters of windows in.
    pub units: Units,
    /// It has no windows at all.
    pub has_no_windows: bool,
    /// How it returns blobs, if it has any.
    pub blobs: Option<Blobs>,
}

/// How a server returns blobs. Each blob has the bytes of [`blob_bytes`].
#[derive(Clone, Copy, PartialEq)]
pub enum Blobs {
    /// Ranges are returned as asked for.
    Ranges,
    /// A blob is returned whole, whatever the range.
    Whole,
    /// A blob is a redirect to the place where ranges are returned.
    Redirected(Place),
}

/// Where a redirect of a blob leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Below the server's address. The token is needed there.
    Below,
    /// Beside the server's address, at the same origin. The token must not come there.
    Beside,
    /// Another server.
    Elsewhere(SocketAddr),
    /// Below the server's address, which redirects again.
    Again,
    /// Beside the server's address, where nothing is.
    Nothing,
}

/// The bytes of a blob: its name, over and over.
pub fn blob_bytes(blob_id: &str) -> Vec<u8> {
    blob_id.bytes().cycle().take(150_000).collect()
}

/// What a server counts in.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Units {
    #[default]
    Scalars,
    /// It cuts by scalar values and tells lengths in units of UTF-16.
    ToldInUtf16,
    /// It cuts by units of UTF-16, too.
    Utf16,
}

impl Units {
    /// The length of a text that was cut, as it is told.
    fn told_len(self, text: &str) -> usize {
        if self == Self::Scalars { text.chars().count() } else { text.encode_utf16().count() }
    }
}

impl Plain {
    /// With these records, by key.
    pub fn with(records: &[(&str, Value)]) -> Self {
        Self::of(Manner::default(), records)
    }

    /// With these records, by key, and in this manner.
    pub fn of(manner: Manner, records: &[(&str, Value)]) -> Self {
        let records: Vec<_> = records
            .iter()
            .map(|(key, data)| ((*key).to_owned(), data.as_object().unwrap().clone()))
            .collect();
        let records = Arc::new(Mutex::new(records));
        let held = Arc::clone(&records);
        let upstream = Upstream::start(Behaviour::notes(move |received| {
            answer(received, &held.lock().unwrap(), manner)
        }));
        Self { upstream, records }
    }

    /// Changes a field.
    pub fn change(&self, key: &str, field: &str, value: Value) {
        let mut records = self.records.lock().unwrap();
        records
            .iter_mut()
            .find(|(found, _)| found == key)
            .unwrap()
            .1
            .insert(field.to_owned(), value);
    }

    pub fn url(&self) -> String {
        self.upstream.url() + PREFIX
    }

    /// What was asked for since this was called before, without the prefix.
    pub fn asked(&self) -> Vec<String> {
        let requests = self.upstream.take_requests().into_iter();
        requests.map(|request| request.target.strip_prefix(PREFIX).unwrap().to_owned()).collect()
    }
}

fn refusal(status: u16, code: &str, message: &str) -> Reply {
    let error = json!({ "type": "some_error", "code": code, "message": message, "request_id": "r-1", "extra": [1] });
    Reply::json(status, &json!({ "error": error }))
}

fn answer(received: &Received, records: &[(String, Map<String, Value>)], manner: Manner) -> Reply {
    if let Some(id) = received.target.strip_prefix("/signed/") {
        assert_eq!(received.header("authorization"), None, "the token came beside the address");
        return ranged(id.trim_end_matches("?s=1"), received.header("range"));
    }
    if received.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return refusal(401, "authentication_error", "who are you");
    }
    let target = received.target.strip_prefix(PREFIX).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs: Vec<(String, String)> =
        query.split('&').filter(|pair| !pair.is_empty()).map(decoded).collect();
    let get =
        |name: &str| pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let parts: Vec<String> =
        path.split('/').skip(1).map(|part| percent::decode(part).unwrap()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let known: &[&str] = match parts.as_slice() {
        ["v1", "schema"] => &["view", "detail", "stream", "connection_id"],
        ["v1", "search"] => &["q", "limit", "cursor", "streams", "connection_id"],
        ["v1", "streams", "messages", "records"] => {
            &["limit", "cursor", "order", "fields", "connection_id"]
        }
        ["v1", "streams", "messages", "aggregate"] => &["metric", "field", "connection_id"],
        ["v1", "streams", "messages", "records", _] => &["fields", "connection_id"],
        ["v1", "streams", "messages", "records", _, "field-window"]
            if manner.tells_more_by == Some("next_cursor") =>
        {
            &["field", "connection_id", "offset_chars", "limit_chars", "cursor"]
        }
        ["v1", "streams", "messages", "records", _, "field-window"] => &[
            "field", "connection_id", "offset_chars", "limit_chars", "q", "before_chars",
            "after_chars",
        ],
        ["v1", "blobs", id] if manner.blobs.is_some() => {
            return blob(id, received.header("range"), manner);
        }
        ["raw", id] => return ranged(id, received.header("range")),
        ["again", id] => return redirect(format!("{PREFIX}/raw/{id}")),
        _ => return refusal(404, "not_found", "no such stream"),
    };
    if let (false, Some((name, _))) =
        (manner.is_lenient, pairs.iter().find(|(name, _)| !known.contains(&name.as_str())))
    {
        let (status, code) = manner.unknown.unwrap_or((400, "invalid_request"));
        return refusal(status, code, &format!("there is no parameter {name}"));
    }
    let record = |key: &str| records.iter().find(|(found, _)| found == key);
    match parts.as_slice() {
        ["v1", "schema"] => Reply::json(200, &schema()),
        ["v1", "search"] => {
            let all = search(records, get("q").unwrap_or_default());
            let first = get("cursor").map_or(0, |cursor| cursor["hits-".len()..].parse().unwrap());
            let limit = get("limit").map_or(25, |limit| limit.parse().unwrap());
            let end = all.len().min(first + limit);
            let mut page =
                json!({ "object": "list", "data": all[first..end], "has_more": end < all.len() });
            if end < all.len() {
                page["next_cursor"] = format!("hits-{end}").into();
            }
            Reply::json(200, &page)
        }
        ["v1", "streams", _, "aggregate"] => Reply::json(
            200,
            &json!({ "object": "aggregation", "stream": "messages", "metric": "count", "value": records.len() }),
        ),
        ["v1", "streams", _, "records"] => {
            let first = get("cursor")
                .map_or(0, |cursor| cursor.trim_start_matches("page-").parse().unwrap());
            list(records, first, get("limit").map_or(25, |limit| limit.parse().unwrap()))
        }
        ["v1", "streams", _, "records", key] => match record(key) {
            Some((key, data)) => Reply::json(200, &told(key, data)),
            None => refusal(404, "not_found", "no such record"),
        },
        ["v1", "streams", _, "records", _, _] if manner.has_no_windows => {
            refusal(404, "not_found", "no such path")
        }
        ["v1", "streams", _, "records", key, _] => {
            match record(key).and_then(|(_, data)| data.get(get("field")?)) {
                Some(Value::String(text)) => window(text, key, manner, &get),
                Some(_) => refusal(422, "field_not_text", "the field is no text"),
                None => refusal(404, "field_not_found", "no such field"),
            }
        }
        _ => refusal(404, "not_found", "nothing"),
    }
}

fn blob(id: &str, range: Option<&str>, manner: Manner) -> Reply {
    if !id.starts_with("blob") {
        return refusal(404, "blob_not_found", "no such blob");
    }
    match manner.blobs {
        Some(Blobs::Ranges) => ranged(id, range),
        Some(Blobs::Redirected(place)) => redirect(match place {
            Place::Below => format!("{PREFIX}/raw/{id}"),
            Place::Beside => format!("/signed/{id}?s=1"),
            Place::Elsewhere(address) => format!("http://{address}/signed/{id}"),
            Place::Again => format!("{PREFIX}/again/{id}"),
            Place::Nothing => "/pre/nothing".to_owned(),
        }),
        _ => Reply::bytes(200, "image/png", blob_bytes(id)),
    }
}

fn redirect(location: String) -> Reply {
    Reply::bytes(302, "text/plain", "").with_header("Location", &location)
}

/// Returns a range of a blob, or the whole if no range is asked for.
fn ranged(id: &str, range: Option<&str>) -> Reply {
    let bytes = blob_bytes(id);
    let Some((start, last)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
    else {
        return Reply::bytes(200, "image/png", bytes);
    };
    let (start, last): (usize, usize) = (start.parse().unwrap(), last.parse().unwrap());
    let last = last.min(bytes.len() - 1);
    let range = format!("bytes {start}-{last}/{}", bytes.len());
    Reply::bytes(206, "image/png", &bytes[start..=last]).with_header("Content-Range", &range)
}

fn decoded(pair: &str) -> (String, String) {
    let (name, value) = pair.split_once('=').unwrap();
    (percent::decode(name).unwrap(), percent::decode(value).unwrap())
}

fn schema() -> Value {
    json!({ "object": "schema", "connectors": [{ "connector_id": "mail", "granted_connections": [{ "connection_id": "mail" }],
        "streams": [{ "name": "messages", "primary_key": ["id"], "field_capabilities": { "id": "t=string", "body": "t=string,lex" } }] }] })
}

fn told(key: &str, data: &Map<String, Value>) -> Value {
    json!({ "object": "record", "id": key, "stream": "messages", "connection_id": "mail", "data": data,
        "emitted_at": "2026-01-01T00:00:00Z", "links": {} })
}

fn list(records: &[(String, Map<String, Value>)], first: usize, limit: usize) -> Reply {
    let rows: Vec<Value> =
        records.iter().skip(first).take(limit).map(|(key, data)| told(key, data)).collect();
    let mut page = json!({ "object": "list", "data": rows, "has_more": first + limit < records.len(), "links": {} });
    if first + limit < records.len() {
        page["next_cursor"] = format!("page-{}", first + limit).into();
    }
    Reply::json(200, &page)
}

fn search(records: &[(String, Map<String, Value>)], q: &str) -> Vec<Value> {
    let hits = records.iter().filter_map(|(key, data)| {
        let text = data.get("body")?.as_str()?;
        let at = text.find(q)?;
        let preview: String = text[at..].chars().take(60).collect();
        Some(json!({ "object": "search_result", "stream": "messages", "record_key": key, "connection_id": "mail",
            "emitted_at": "2026-01-01T00:00:00Z", "snippet": { "field": "body", "text": preview },
            "evidence_excerpts": [{ "object": "evidence_excerpt", "field_path": "body", "preview_text": preview,
                "provenance": "lexical_match", "truncated": true }] }))
    });
    hits.collect()
}

/// The characters of a text as a server cuts them, in UTF-16.
fn letters(text: &str, units: Units) -> Vec<Vec<u16>> {
    match units {
        Units::Utf16 => text.encode_utf16().map(|unit| vec![unit]).collect(),
        _ => text.chars().map(|c| c.encode_utf16(&mut [0; 2]).to_vec()).collect(),
    }
}

fn window<'a>(
    text: &str,
    key: &str,
    manner: Manner,
    get: &impl Fn(&str) -> Option<&'a str>,
) -> Reply {
    let whole = letters(text, manner.units);
    let number =
        |name: &str, default: usize| get(name).map_or(default, |value| value.parse().unwrap());
    let limit = number("limit_chars", 4096).min(16_384);
    let found = match get("q") {
        None => None,
        Some(q) => match text.find(q) {
            Some(at) => Some((letters(&text[..at], manner.units).len(), manner.units.told_len(q))),
            None => return refusal(404, "query_not_found", "it does not occur"),
        },
    };
    let start = match found {
        Some((at, _)) => at.saturating_sub(number("before_chars", 0)),
        None => match get("cursor").filter(|_| manner.tells_more_by == Some("next_cursor")) {
            Some(cursor) => cursor.strip_prefix("at-").unwrap().parse().unwrap(),
            None => number("offset_chars", 0).min(whole.len()),
        },
    };
    let end = (start + limit).min(whole.len());
    let shown = whole[start..end].concat();
    let shown = String::from_utf16_lossy(&shown);
    let end = start + manner.units.told_len(&shown);
    let digest =
        manner.has_digests.then(|| format!("sha256:{}", ContentHash::digest(text.as_bytes())));
    let (connection, path) = match manner.tells_names {
        true => (Some("mail"), Some("$.body")),
        false => (None, get("field")),
    };
    let mut told = json!({ "object": "field_window", "stream": "messages", "record_id": key, "connection_id": connection,
            "field": { "path": path, "type": "string", "digest": digest },
            "window": { "text": shown, "total_chars": whole.len(), "start_chars": start, "end_chars": end,
                "limit_chars": limit, "complete": start == 0 && end == whole.len(), "has_more": end < whole.len(),
                "next_offset_chars": (end < whole.len()).then_some(end),
                "previous_offset_chars": (start > 0).then(|| start.saturating_sub(limit)),
                "match_start_chars": found.map(|(at, _)| at), "match_end_chars": found.map(|(at, len)| at + len) } });
    if let Some(by) = manner.tells_more_by {
        let window = told["window"].as_object_mut().unwrap();
        window.retain(|name, _| {
            name == by
                || !["total_chars", "has_more", "next_offset_chars", "complete"]
                    .contains(&name.as_str())
        });
        window.entry("complete").or_insert(true.into());
        if by == "next_cursor" && end < whole.len() {
            window.insert(by.to_owned(), format!("at-{end}").into());
        }
    }
    Reply::json(200, &told)
}
