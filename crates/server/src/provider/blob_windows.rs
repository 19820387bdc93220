//! Windows of bytes from a server that has blobs and knows no windows of bytes.
//!
//! The ladder reads bytes by a path into a field. A server of another make may not know such paths.
//! Its records name blobs, and it returns a blob, or a range of it, at `/v1/blobs`. So the record
//! is read, the reference is looked up at the path, and the range becomes the response that a
//! server of this program would have sent. Each of these requests carries the caller's token, so
//! that server decides.

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use stile_domain::base64;
use stile_domain::percent::encode_component;
use stile_domain::records::blob::media_type;
use stile_domain::records::request::ReadRequest;

use super::field_place::FieldPlace;
use crate::outbound::OutboundResponse;

/// The most bytes of a window.
const MAX_BYTES: u64 = 64 * 1024;
const ANY_TYPE: &str = "application/octet-stream";

/// A request for a window of bytes.
pub(super) struct ByteWindowRequest<'r> {
    pub(super) place: FieldPlace<'r>,
    start: u64,
    limit: u64,
}

/// A blob that a record refers to.
pub(super) struct NamedBlob {
    pub(super) blob_id: String,
    media_type: Option<String>,
    sha256: Option<String>,
}

/// A reference to bytes in a record. Its other members may hold what no parser takes.
#[derive(Deserialize)]
struct WireReference<'a> {
    blob_id: String,
    #[serde(borrow)]
    mime_type: Option<&'a RawValue>,
    #[serde(borrow)]
    sha256: Option<&'a RawValue>,
}

impl<'r> ByteWindowRequest<'r> {
    /// Returns what a request asks for. `None` if it does not ask for bytes at an offset.
    pub(super) fn of(request: &'r ReadRequest) -> Option<Self> {
        let place = FieldPlace::of(request)?;
        let (start, limit) = (place.request.offset_bytes?, place.request.limit_bytes?);
        Some(Self { place, start, limit: limit.clamp(1, MAX_BYTES) })
    }

    /// Returns the first byte and the number of bytes.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.limit)
    }

    /// Returns the blob that a record names at the requested path.
    pub(super) fn blob_in(&self, record: &str) -> Option<NamedBlob> {
        let reference: WireReference<'_> =
            serde_json::from_str(self.place.json_in(record)?).ok()?;
        let text = |raw: Option<&RawValue>| serde_json::from_str::<String>(raw?.get()).ok();
        Some(NamedBlob {
            blob_id: reference.blob_id,
            media_type: text(reference.mime_type).as_deref().and_then(media_type),
            sha256: text(reference.sha256).filter(|hex| hex.len() == 64),
        })
    }

    /// Returns the path and the query of a blob.
    pub(super) fn target(&self, blob: &NamedBlob) -> String {
        let path = format!("/v1/blobs/{}", encode_component(&blob.blob_id));
        match self.place.connection() {
            Some(connection) => format!("{path}?connection_id={}", encode_component(connection)),
            None => path,
        }
    }

    /// Returns the window as the response that a server of this program sends. `None` if the
    /// response is not that range of the blob.
    pub(super) fn window(&self, blob: &NamedBlob, response: &OutboundResponse) -> Option<String> {
        let (start, bytes, total) = match response.status {
            StatusCode::PARTIAL_CONTENT => {
                let (start, total) = content_range(&response.headers)?;
                (start, response.body.as_slice(), total)
            }
            // The server sent the blob from its beginning, and the bytes before the range were
            // skipped.
            StatusCode::OK => {
                let total = number(&response.headers, CONTENT_LENGTH.as_str());
                let start = total.map_or(self.start, |total| self.start.min(total));
                (start, response.body.as_slice(), total)
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let (_, total) = content_range(&response.headers)?;
                (total?, &[][..], total)
            }
            _ => return None,
        };
        let end = start + bytes.len() as u64;
        let is_requested = start == self.start || bytes.is_empty();
        if !is_requested || bytes.len() as u64 > self.limit {
            return None;
        }
        let goes_on = match total {
            Some(total) => end < total,
            None => bytes.len() as u64 == self.limit,
        };
        let sent = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mime_type = blob.media_type.clone().or_else(|| sent.and_then(media_type));
        let digest = blob.sha256.as_ref().map(|hex| format!("sha256:{hex}"));
        let window = json!({
            "object": "field_window",
            "stream": self.place.request.stream,
            "record_id": self.place.request.key,
            "connection_id": self.place.connection(),
            "field": {
                "path": self.place.field(),
                "mime_type": mime_type.as_deref().unwrap_or(ANY_TYPE),
                "digest": digest,
            },
            "window": {
                "base64": base64::standard(bytes),
                "total_bytes": total,
                "start_bytes": start,
                "end_bytes": end,
                "limit_bytes": self.limit,
                "next_offset_bytes": (goes_on && !bytes.is_empty()).then_some(end),
                "previous_offset_bytes":
                    (start > 0).then(|| start.saturating_sub(self.limit)),
            },
        });
        Some(window.to_string())
    }
}

/// Returns whether a response has a window of bytes.
pub(super) fn is_byte_window(response: &str) -> bool {
    serde_json::from_str::<Json>(response)
        .is_ok_and(|json| json.pointer("/window/base64").is_some_and(Json::is_string))
}

/// Returns the first byte and the length of the whole: `bytes 0-9/100`, `bytes */100`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let start = range.split_once('-').map_or(Some(0), |(start, _)| start.parse().ok())?;
    Some((start, total.parse().ok()))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use stile_domain::records::request::GetFieldWindow;

    use super::*;

    fn request(field: &str, start: u64, limit: u64) -> ReadRequest {
        ReadRequest::FieldWindow(GetFieldWindow {
            stream: "s".into(),
            key: "k".into(),
            field: Some(field.into()),
            connection: Some("a b".to_owned()).into(),
            offset_bytes: Some(start),
            limit_bytes: Some(limit),
            ..GetFieldWindow::default()
        })
    }

    fn response(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> OutboundResponse {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
        });
        let status = StatusCode::from_u16(status).unwrap();
        OutboundResponse { status, headers: headers.collect(), body: body.to_vec() }
    }

    #[test]
    fn a_reference_is_looked_up_at_its_path() {
        let blob = |id: &str| json!({ "blob_id": id, "mime_type": "Image/PNG" });
        let record = json!({ "data": {
            "one": blob("1"), "many": [{ "in/side": blob("2") }], "a/b": blob("3"), "a": { "b": blob("4") },
            "text": "x",
        } })
        .to_string();
        let found = |field: &str| {
            let request = request(field, 0, 9);
            let wanted = ByteWindowRequest::of(&request).unwrap();
            wanted.blob_in(&record).map(|blob| blob.blob_id)
        };
        assert_eq!(found("one").as_deref(), Some("1"));
        assert_eq!(found("many/0/in~1side").as_deref(), Some("2"));
        assert_eq!(found("a/b").as_deref(), Some("3"), "the field with the whole path as its name");
        for none in ["text", "many/1", "nothing", "a/c", ""] {
            assert_eq!(found(none), None, "{none}");
        }
        let request = request("one", 0, 9);
        let wanted = ByteWindowRequest::of(&request).unwrap();
        let target = wanted.target(&wanted.blob_in(&record).unwrap());
        assert_eq!(target, "/v1/blobs/1?connection_id=a%20b");
    }

    #[test]
    fn a_range_or_the_whole_becomes_a_window_and_anything_else_does_not() {
        let request = request("one", 10, 4);
        let wanted = ByteWindowRequest::of(&request).unwrap();
        let blob = NamedBlob { blob_id: "1".into(), media_type: None, sha256: None };
        let window = |response: OutboundResponse| {
            let window = wanted.window(&blob, &response)?;
            assert!(is_byte_window(&window));
            let window: Json = serde_json::from_str(&window).unwrap();
            let part = &window["window"];
            let numbers = ["start_bytes", "end_bytes", "total_bytes", "next_offset_bytes"];
            Some(numbers.map(|name| part[name].as_u64()))
        };
        let range = |range| [("content-range", range)];
        for (sent, numbers) in [
            (
                response(206, &range("bytes 10-13/20"), b"abcd"),
                [Some(10), Some(14), Some(20), Some(14)],
            ),
            (
                response(206, &range("bytes 10-13/14"), b"abcd"),
                [Some(10), Some(14), Some(14), None],
            ),
            (response(206, &range("bytes 10-13/*"), b"abcd"), [Some(10), Some(14), None, Some(14)]),
            (
                response(200, &[("content-length", "20")], b"abcd"),
                [Some(10), Some(14), Some(20), Some(14)],
            ),
            (response(200, &[], b"ab"), [Some(10), Some(12), None, None]),
            (response(416, &range("bytes */8"), b""), [Some(8), Some(8), Some(8), None]),
            (response(200, &[("content-length", "8")], b""), [Some(8), Some(8), Some(8), None]),
        ] {
            assert_eq!(window(sent.clone()), Some(numbers), "{sent:?}");
        }
        for bad in [
            response(206, &range("bytes 9-12/20"), b"abcd"),
            response(206, &[], b"abcd"),
            response(206, &range("bytes 10-14/20"), b"abcde"),
            response(302, &[], b""),
            response(404, &[], b"abcd"),
        ] {
            assert_eq!(window(bad.clone()), None, "{bad:?}");
        }
    }
}
