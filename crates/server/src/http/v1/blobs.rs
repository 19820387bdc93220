//! `/v1/blobs`: bytes as they are, in parts where `Range` names one.
//!
//! A blob is read a part of [`PART`] bytes at a time, and the next one only once the connection has
//! room for it. Between two parts nothing is held but the caller and the request, and each part is
//! asked for anew: a grant that is revoked meanwhile breaks the answer off.
//!
//! *Source*: RFC 9110, section 14. One range of bytes is served; several, another unit or a
//! malformed header are ignored, as is `Range` beside `If-Range`, for there is no validator that
//! could match.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE,
    RANGE,
};
use http::{HeaderMap, Method, Response, StatusCode};
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::calls::Call;

use super::ingest;
use super::{V1, blocking, json_answer, now, with};

/// Bytes that are read at once.
const PART: u64 = 1 << 20;

/// What a request wants of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// All of it.
    Whole,
    /// The bytes from the first up to but not including the second; at least one.
    Part(u64, u64),
    /// Bytes that there are not.
    Nothing,
}

/// Answers with a blob, or says what would be answered.
pub(super) async fn answer(
    v1: &V1,
    caller: Principal,
    call: Call,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<Body>, Problem> {
    let reading = Arc::new((v1.services.clone(), caller, call));
    let head = {
        let reading = Arc::clone(&reading);
        blocking(move || reading.0.blob(&reading.1, now(), &reading.2)).await?
    };
    let wanted = if *method == Method::HEAD { Wanted::Whole } else { wanted(headers, head.bytes) };
    let (status, start, end) = match wanted {
        Wanted::Whole => (StatusCode::OK, 0, head.bytes),
        Wanted::Part(start, end) => (StatusCode::PARTIAL_CONTENT, start, end),
        Wanted::Nothing => return Err(Problem::RangeNotSatisfiable { bytes: head.bytes }),
    };
    let body = if *method == Method::HEAD { Body::empty() } else { body(reading, start, end) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let response = with(response, CONTENT_TYPE, &head.media_type);
    let response = with(response, CONTENT_LENGTH, &(end - start).to_string());
    let response = with(response, ACCEPT_RANGES, "bytes");
    let response =
        if head.shown { response } else { with(response, CONTENT_DISPOSITION, "attachment") };
    let range = format!("bytes {start}-{}/{}", end.saturating_sub(1), head.bytes);
    Ok(if status == StatusCode::OK { response } else { with(response, CONTENT_RANGE, &range) })
}

/// Stores the body of a request.
pub(super) async fn take(
    v1: &V1,
    caller: Principal,
    call: Call,
    body: Body,
) -> Result<Response<Body>, Problem> {
    let services = v1.services.clone();
    let stored =
        ingest::received(v1, body, move |pieces| services.take_blob(&caller, &call, pieces))
            .await?;
    Ok(json_answer(StatusCode::CREATED, stored.to_string()))
}

/// The bytes from `start` up to but not including `end`.
fn body(reading: Arc<(RecordService, Principal, Call)>, start: u64, end: u64) -> Body {
    Body::from_stream(stream::unfold(Some(start), move |at| {
        let reading = Arc::clone(&reading);
        async move {
            let at = at.filter(|at| *at < end)?;
            let most = PART.min(end - at);
            let part =
                blocking(move || reading.0.blob_part(&reading.1, now(), &reading.2, at, most))
                    .await;
            match part {
                Ok(part) if !part.is_empty() => {
                    let next = at + part.len() as u64;
                    Some((Ok(Bytes::from(part)), Some(next)))
                }
                // No client takes a connection that breaks off for the end.
                _ => Some((Err(io::Error::other("broken off")), None)),
            }
        }
    }))
}

/// What the headers want of a blob of so many bytes.
fn wanted(headers: &HeaderMap, bytes: u64) -> Wanted {
    let mut ranges = headers.get_all(RANGE).iter();
    match (ranges.next().map(|range| range.to_str()), ranges.next()) {
        (Some(Ok(range)), None) if !headers.contains_key(IF_RANGE) => {
            range_of(range, bytes).unwrap_or(Wanted::Whole)
        }
        _ => Wanted::Whole,
    }
}

/// What one range wants; none where it is malformed or not one range of bytes.
fn range_of(range: &str, bytes: u64) -> Option<Wanted> {
    let (unit, set) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    // What is longer than any number of ours is past every end.
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        return Some(match number(last)? {
            0 => Wanted::Nothing,
            _ if bytes == 0 => Wanted::Whole,
            length => Wanted::Part(bytes.saturating_sub(length), bytes),
        });
    }
    let first = number(first)?;
    let end = match last {
        "" => bytes,
        last => number(last).filter(|last| *last >= first)?.saturating_add(1).min(bytes),
    };
    Some(if first < bytes { Wanted::Part(first, end) } else { Wanted::Nothing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_one_of_bytes_or_none() {
        for (range, is) in [
            ("bytes=0-0", Wanted::Part(0, 1)),
            ("bytes=2-", Wanted::Part(2, 10)),
            ("Bytes = 2-5 ", Wanted::Part(2, 6)),
            ("bytes=9-99999999999999999999999", Wanted::Part(9, 10)),
            ("bytes=-3", Wanted::Part(7, 10)),
            ("bytes=-99", Wanted::Part(0, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-20", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=5-2", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=--1", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(range_of(range, 10).unwrap_or(Wanted::Whole), is, "{range}");
        }
        assert_eq!(range_of("bytes=-5", 0), Some(Wanted::Whole));
        assert_eq!(range_of("bytes=0-", 0), Some(Wanted::Nothing));
        let mut headers = HeaderMap::new();
        headers.append(RANGE, "bytes=0-0".parse().unwrap());
        assert_eq!(wanted(&headers, 10), Wanted::Part(0, 1));
        let mut twice = headers.clone();
        twice.append(RANGE, "bytes=1-1".parse().unwrap());
        assert_eq!(wanted(&twice, 10), Wanted::Whole);
        headers.append(IF_RANGE, "\"x\"".parse().unwrap());
        assert_eq!(wanted(&headers, 10), Wanted::Whole);
    }

    proptest! {
        #[test]
        fn any_text_is_a_range_within_the_blob_or_none(range in "(bytes)?=?[0-9,-]{0,24}|\\PC{0,20}", bytes in 0..100u64) {
            if let Some(Wanted::Part(start, end)) = range_of(&range, bytes) {
                prop_assert!(start < end && end <= bytes);
            }
        }
    }
}
