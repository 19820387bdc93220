//! The bytes of a blob as an answer, in parts if the header `Range` names one.
//!
//! The server reads [`PART`] bytes at a time, and the next part only when the connection has room.
//! Between two parts the server holds nothing but the caller and the request. Each part is
//! authorised anew: a grant that is revoked meanwhile breaks the answer off.
//!
//! *Source*: RFC 9110, section 14. One range of bytes is served. Several ranges, another unit and a
//! malformed header are ignored, as is `Range` beside `If-Range`, since no validator could match.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE,
    RANGE,
};
use http::{HeaderMap, Response, StatusCode};
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::operation_declaration::{BlobHandler, OperationCall, OperationMethod};

use super::{Requester, V1, blocking, clock, success_status};
use crate::fair_share::{FairShare, Neighbour};
use crate::http::responses::with_header;

/// The bytes that are read at once.
const PART: u64 = 1 << 20;

/// The bytes of a blob that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedRange {
    Whole,
    /// The bytes from the first offset up to but not including the second; at least one.
    Part(u64, u64),
    /// No byte that the blob has.
    Unsatisfiable,
}

/// A request for a blob, with what each part of the answer is read with.
struct BlobRequest {
    service: RecordService,
    principal: Principal,
    call: OperationCall<BlobHandler>,
    neighbour: Neighbour,
    readers: Arc<FairShare>,
}

impl BlobRequest {
    /// Runs a function on a thread that may block, once the caller may use a database reader.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let reader = self.readers.take(&self.neighbour, 1).await?;
        let request = Arc::clone(self);
        blocking(move || {
            let outcome = read(&request);
            drop(reader);
            outcome
        })
        .await
    }
}

/// Answers with a blob, or for `HEAD` with its headers alone.
pub(super) async fn answer(
    v1: &V1,
    Requester { principal, neighbour, service }: Requester,
    call: OperationCall<BlobHandler>,
    headers: &HeaderMap,
) -> Result<Response<Body>, Problem> {
    let has_body = call.operation.method != OperationMethod::Head;
    let whole = success_status(call.operation);
    let request = Arc::new(BlobRequest {
        service,
        principal,
        call,
        neighbour,
        readers: Arc::clone(&v1.admission.shares().database_readers),
    });
    let head =
        request.read(|it| it.service.blob_head(&it.principal, clock::now(), &it.call)).await?;
    let range = if has_body { requested_range(headers, head.bytes) } else { RequestedRange::Whole };
    let (status, start, end) = match range {
        RequestedRange::Whole => (whole, 0, head.bytes),
        RequestedRange::Part(start, end) => (StatusCode::PARTIAL_CONTENT, start, end),
        RequestedRange::Unsatisfiable => {
            return Err(Problem::RangeNotSatisfiable { bytes: head.bytes });
        }
    };
    let body = if has_body { body(request, start, end) } else { Body::empty() };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let response = with_header(response, CONTENT_TYPE, &head.media_type);
    let response = with_header(response, CONTENT_LENGTH, &(end - start).to_string());
    let response = with_header(response, ACCEPT_RANGES, "bytes");
    let response = if head.is_safe_inline {
        response
    } else {
        with_header(response, CONTENT_DISPOSITION, "attachment")
    };
    if status != StatusCode::PARTIAL_CONTENT {
        return Ok(response);
    }
    let range = format!("bytes {start}-{}/{}", end.saturating_sub(1), head.bytes);
    Ok(with_header(response, CONTENT_RANGE, &range))
}

/// Returns a body of the bytes from `start` up to but not including `end`.
fn body(request: Arc<BlobRequest>, start: u64, end: u64) -> Body {
    Body::from_stream(stream::unfold(Some(start), move |at| {
        let request = Arc::clone(&request);
        async move {
            let at = at.filter(|at| *at < end)?;
            let max = PART.min(end - at);
            let part = request
                .read(move |it| {
                    it.service.blob_part(&it.principal, clock::now(), &it.call, at, max)
                })
                .await;
            match part {
                Ok(part) if !part.is_empty() => {
                    let next = at + part.len() as u64;
                    Some((Ok(Bytes::from(part)), Some(next)))
                }
                // No client mistakes a connection that breaks off for the end.
                _ => Some((Err(io::Error::other("broken off")), None)),
            }
        }
    }))
}

/// Returns the bytes that the headers ask for, of a blob with `bytes` bytes.
fn requested_range(headers: &HeaderMap, bytes: u64) -> RequestedRange {
    let mut ranges = headers.get_all(RANGE).iter();
    match (ranges.next().map(|range| range.to_str()), ranges.next()) {
        (Some(Ok(range)), None) if !headers.contains_key(IF_RANGE) => {
            parse_range(range, bytes).unwrap_or(RequestedRange::Whole)
        }
        _ => RequestedRange::Whole,
    }
}

/// Parses one range. Returns `None` if the text is malformed or not one range of bytes.
fn parse_range(range: &str, bytes: u64) -> Option<RequestedRange> {
    let (unit, set) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    // A number that overflows is past every end.
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        return Some(match number(last)? {
            0 => RequestedRange::Unsatisfiable,
            _ if bytes == 0 => RequestedRange::Whole,
            length => RequestedRange::Part(bytes.saturating_sub(length), bytes),
        });
    }
    let first = number(first)?;
    let end = match last {
        "" => bytes,
        last => number(last).filter(|last| *last >= first)?.saturating_add(1).min(bytes),
    };
    Some(if first < bytes {
        RequestedRange::Part(first, end)
    } else {
        RequestedRange::Unsatisfiable
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_one_range_of_bytes_or_ignored() {
        for (range, is) in [
            ("bytes=0-0", RequestedRange::Part(0, 1)),
            ("bytes=2-", RequestedRange::Part(2, 10)),
            ("Bytes = 2-5 ", RequestedRange::Part(2, 6)),
            ("bytes=9-99999999999999999999999", RequestedRange::Part(9, 10)),
            ("bytes=-3", RequestedRange::Part(7, 10)),
            ("bytes=-99", RequestedRange::Part(0, 10)),
            ("bytes=10-", RequestedRange::Unsatisfiable),
            ("bytes=10-20", RequestedRange::Unsatisfiable),
            ("bytes=-0", RequestedRange::Unsatisfiable),
            ("bytes=99999999999999999999999-", RequestedRange::Unsatisfiable),
            ("bytes=5-2", RequestedRange::Whole),
            ("bytes=0-1,3-4", RequestedRange::Whole),
            ("bytes=--1", RequestedRange::Whole),
            ("bytes=+1-2", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("items=0-1", RequestedRange::Whole),
            ("bytes", RequestedRange::Whole),
            ("", RequestedRange::Whole),
        ] {
            assert_eq!(parse_range(range, 10).unwrap_or(RequestedRange::Whole), is, "{range}");
        }
        assert_eq!(parse_range("bytes=-5", 0), Some(RequestedRange::Whole));
        assert_eq!(parse_range("bytes=0-", 0), Some(RequestedRange::Unsatisfiable));
        let mut headers = HeaderMap::new();
        headers.append(RANGE, "bytes=0-0".parse().unwrap());
        assert_eq!(requested_range(&headers, 10), RequestedRange::Part(0, 1));
        let mut twice = headers.clone();
        twice.append(RANGE, "bytes=1-1".parse().unwrap());
        assert_eq!(requested_range(&twice, 10), RequestedRange::Whole);
        headers.append(IF_RANGE, "\"x\"".parse().unwrap());
        assert_eq!(requested_range(&headers, 10), RequestedRange::Whole);
    }

    proptest! {
        #[test]
        fn any_text_is_a_range_within_the_blob_or_ignored(range in "(bytes)?=?[0-9,-]{0,24}|\\PC{0,20}", bytes in 0..100u64) {
            if let Some(RequestedRange::Part(start, end)) = parse_range(&range, bytes) {
                prop_assert!(start < end && end <= bytes);
            }
        }
    }
}
