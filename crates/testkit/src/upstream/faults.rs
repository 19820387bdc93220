//! The faults that can occur between a gateway and its note store, by name.
//!
//! Every answer here holds [`CANARY`] wherever it has text of its own: in the body, in headers and
//! in the words after the status. [`all_faults`] are the answers of which no note may come;
//! `super::oddities` has those of which one may come.

use std::time::Duration;

use serde_json::{Value, json};

use super::behaviour::{Behaviour, Reply, Step};
use super::bomb;

/// A text in every reply, which must never reach the gateway's caller, log or traces.
pub const CANARY: &str = "canary-7d41-of-the-upstream";

/// The ceiling on a body that the gateway has unless told otherwise, in bytes.
pub const CEILING: usize = 4 << 20;

/// The pause between two bytes of the drips in the tables: short, so that no limit on a single read
/// ends them.
const PAUSE: Duration = Duration::from_millis(20);

/// The status codes that mean a redirect.
const REDIRECTS: [(u16, &str); 5] = [
    (301, "redirect 301 to itself"),
    (302, "redirect 302 to itself"),
    (303, "redirect 303 to itself"),
    (307, "redirect 307 to itself"),
    (308, "redirect 308 to itself"),
];

/// Statuses for the table; a test that wants all calls [`Behaviour::status`] in a loop.
const STATUSES: [(u16, &str); 33] = [
    (100, "status 100"),
    (101, "status 101"),
    (102, "status 102"),
    (103, "status 103"),
    (199, "status 199"),
    (201, "status 201"),
    (202, "status 202"),
    (204, "status 204"),
    (205, "status 205"),
    (206, "status 206"),
    (299, "status 299"),
    (300, "status 300"),
    (304, "status 304"),
    (399, "status 399"),
    (400, "status 400"),
    (401, "status 401"),
    (402, "status 402"),
    (403, "status 403"),
    (404, "status 404"),
    (405, "status 405"),
    (407, "status 407"),
    (408, "status 408"),
    (410, "status 410"),
    (413, "status 413"),
    (418, "status 418"),
    (421, "status 421"),
    (429, "status 429"),
    (431, "status 431"),
    (499, "status 499"),
    (500, "status 500"),
    (502, "status 502"),
    (503, "status 503"),
    (599, "status 599"),
];

/// A note that a store answers when all is well, with the canary in each part.
pub(super) fn good() -> Value {
    json!({ "frontmatter": { "title": CANARY }, "body": format!("# {CANARY}\n\nText of {CANARY}.\n") })
}

/// The head of an answer: the line of the status, the canary in a header, and more headers.
pub(super) fn head(status: &str, headers: &[&str]) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {status}\r\nX-Upstream: {CANARY}\r\nContent-Type: application/json\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// A whole answer with more headers.
pub(super) fn whole(headers: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.as_ref().len());
    [head("200 OK", &[headers, &[&length]].concat()), body.as_ref().to_vec()].concat()
}

pub(super) fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.as_ref().len()).as_bytes(), bytes.as_ref(), b"\r\n"].concat()
}

/// A good note in chunks, without the one that ends it.
pub(super) fn chunks() -> Vec<u8> {
    let text = good().to_string();
    text.as_bytes().chunks(7).flat_map(chunk).collect()
}

pub(super) const CHUNKED: &str = "Transfer-Encoding: chunked";

/// Ways to be slow, or silent.
impl Behaviour {
    /// A header that comes byte by byte and never ends.
    pub fn slow_headers(pause: Duration) -> Self {
        let start = format!("HTTP/1.1 200 OK\r\nX-Upstream: {CANARY}");
        Self::steps(vec![Step::Drip(start.into_bytes(), pause), Step::Repeat(b"x".to_vec(), pause)])
    }

    /// Headers that come line by line and never end.
    pub fn endless_headers(pause: Duration) -> Self {
        let line = format!("X-Upstream: {CANARY}\r\n").into_bytes();
        Self::steps(vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Repeat(line, pause)])
    }

    /// A body that comes byte by byte and would take hours.
    pub fn slow_body(pause: Duration) -> Self {
        Self::wire(move |_| {
            let body = note_of(1 << 20);
            vec![
                Step::Send(head("200 OK", &[&format!("Content-Length: {}", body.len())])),
                Step::Drip(body, pause),
                Step::Hang,
            ]
        })
    }

    /// A body in chunks of one byte, which never end.
    pub fn slow_chunks(pause: Duration) -> Self {
        Self::steps(vec![
            Step::Send([head("200 OK", &[CHUNKED]), chunk("{\"body\":\"")].concat()),
            Step::Repeat(chunk("x"), pause),
        ])
    }

    /// A good answer after a while.
    pub fn late(after: Duration) -> Self {
        Self::always(Reply::json(200, &good()).after(after))
    }
}

/// Ways to break off, and to send what is not HTTP.
impl Behaviour {
    /// Sends bytes as they are, and ends the connection in good order.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::steps(vec![Step::Send(bytes.into()), Step::Close])
    }

    /// Sends bytes as they are, and keeps the connection as if an answer was complete.
    pub fn raw_kept(bytes: impl Into<Vec<u8>>) -> Self {
        Self::steps(vec![Step::Send(bytes.into())])
    }

    /// Ends inside the headers.
    pub fn cut_in_headers() -> Self {
        Self::raw(format!("HTTP/1.1 200 OK\r\nX-Upstream: {CANARY}\r\nContent-Le"))
    }

    /// Ends before the body has the length that was said.
    pub fn cut_in_body() -> Self {
        let mut answer = whole(&[], good().to_string());
        answer.truncate(answer.len() - 9);
        Self::raw(answer)
    }

    /// The same, but what arrived is a whole note.
    pub fn cut_after_a_whole_note() -> Self {
        let text = good().to_string();
        Self::raw(
            [head("200 OK", &[&format!("Content-Length: {}", text.len() + 1)]), text.into_bytes()]
                .concat(),
        )
    }

    /// Ends after chunks that hold a whole note, without the chunk that says so.
    pub fn chunks_without_end() -> Self {
        Self::raw([head("200 OK", &[CHUNKED]), chunks()].concat())
    }

    /// Resets the connection inside the body.
    pub fn reset_in_body() -> Self {
        let mut answer = whole(&[], good().to_string());
        answer.truncate(answer.len() - 9);
        Self::steps(vec![Step::Send(answer), Step::Pause(Duration::from_millis(50)), Step::Reset])
    }
}

/// Ways to be huge.
impl Behaviour {
    /// Says that the body has so many bytes, sends a few, and waits.
    pub fn declares(bytes: u64) -> Self {
        Self::steps(vec![
            Step::Send(
                [head("200 OK", &[&format!("Content-Length: {bytes}")]), b"{\"body\":\"".to_vec()]
                    .concat(),
            ),
            Step::Hang,
        ])
    }

    /// Sends without end, in chunks, as fast as it is read.
    pub fn endless_chunks() -> Self {
        Self::wire(|_| {
            vec![
                Step::Send(
                    [head("200 OK", &[CHUNKED]), chunk(format!("{{\"body\":\"{CANARY}"))].concat(),
                ),
                Step::Repeat(chunk(vec![b'x'; 1 << 16]), Duration::ZERO),
            ]
        })
    }

    /// Sends without end and without a length, as an answer that ends with the connection.
    pub fn endless_until_close() -> Self {
        Self::wire(|_| {
            vec![
                Step::Send(
                    [head("200 OK", &["Connection: close"]), b"{\"body\":\"".to_vec()].concat(),
                ),
                Step::Repeat(vec![b'x'; 1 << 16], Duration::ZERO),
            ]
        })
    }

    /// A good note whose JSON has exactly so many bytes, with its length said before.
    pub fn note_of(bytes: usize) -> Self {
        Self::wire(move |_| vec![Step::Send(whole(&[], note_of(bytes)))])
    }

    /// The same in chunks, without a length.
    pub fn note_of_in_chunks(bytes: usize) -> Self {
        Self::wire(move |_| {
            let chunks = note_of(bytes).chunks(1 << 16).map(chunk).collect::<Vec<_>>().concat();
            vec![Step::Send([head("200 OK", &[CHUNKED]), chunks, b"0\r\n\r\n".to_vec()].concat())]
        })
    }

    /// A header of so many bytes before a good note.
    pub fn huge_header(bytes: usize) -> Self {
        let header =
            move || format!("X-Huge: {CANARY}{}", "x".repeat(bytes.saturating_sub(CANARY.len())));
        Self::wire(move |_| vec![Step::Send(whole(&[&header()], good().to_string()))])
    }

    /// So many headers before a good note.
    pub fn many_headers(count: usize) -> Self {
        Self::wire(move |_| {
            let headers: Vec<_> =
                (0..count).map(|number| format!("X-Many-{number}: {CANARY}")).collect();
            let headers: Vec<_> = headers.iter().map(String::as_str).collect();
            vec![Step::Send(whole(&headers, good().to_string()))]
        })
    }

    /// A good note of 256 MiB in a small body, labelled with a coding. Codings are `gzip`,
    /// `deflate`, `deflate without a frame` and `br`.
    ///
    /// # Panics
    /// Where the coding is another.
    #[expect(
        clippy::panic,
        reason = "a misspelt coding would prove something else than was asked for"
    )]
    pub fn bomb(coding: &str) -> Self {
        let (label, body) = match coding {
            "gzip" => ("gzip", bomb::gzip()),
            "deflate" => ("deflate", bomb::zlib()),
            "deflate without a frame" => ("deflate", bomb::raw()),
            "br" => ("br", bomb::brotli()),
            _ => panic!("there is no bomb in `{coding}`"),
        };
        Self::raw_kept(whole(&[&format!("Content-Encoding: {label}")], body))
    }
}

/// Other statuses than 200.
impl Behaviour {
    /// A status with the canary in the words after it, in headers and in the body, which looks like
    /// a note too. Below 200, and for 204 and 304, it is a body that such a status cannot have, and
    /// no other answer follows.
    pub fn status(code: u16) -> Self {
        let body = json!({ "error": CANARY, "code": CANARY, "frontmatter": { "title": CANARY }, "body": CANARY });
        let body = body.to_string();
        let length = format!("Content-Length: {}", body.len());
        let challenge = format!("WWW-Authenticate: Bearer realm=\"{CANARY}\"");
        let headers = [length.as_str(), challenge.as_str(), "Retry-After: 0"];
        let answer = [head(&format!("{code} {CANARY}"), &headers), body.into_bytes()].concat();
        Self::raw_kept(answer)
    }

    /// A redirect. The location is sent as it is.
    pub fn redirect(code: u16, location: impl Into<String>) -> Self {
        let location = location.into();
        Self::wire(move |_| {
            let headers = [format!("Location: {location}"), "Content-Length: 0".to_owned()];
            vec![Step::Send(head(
                &format!("{code} {CANARY}"),
                &headers.each_ref().map(String::as_str),
            ))]
        })
    }

    /// A redirect to whatever was asked for.
    pub fn redirect_to_itself(code: u16) -> Self {
        Self::wire(move |received| {
            let headers =
                [format!("Location: {}", received.target), "Content-Length: 0".to_owned()];
            vec![Step::Send(head(
                &format!("{code} {CANARY}"),
                &headers.each_ref().map(String::as_str),
            ))]
        })
    }

    /// So many interim answers before a good note.
    pub fn interim(count: usize) -> Self {
        let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: </{CANARY}>\r\n\r\n").into_bytes();
        Self::wire(move |_| {
            vec![Step::Send([hint.repeat(count), whole(&[], good().to_string())].concat())]
        })
    }

    /// Interim answers without end.
    pub fn endless_interim(pause: Duration) -> Self {
        let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: </{CANARY}>\r\n\r\n").into_bytes();
        Self::steps(vec![Step::Repeat(hint, pause)])
    }
}

/// Answers in good HTTP with something else than a good note in them.
impl Behaviour {
    /// 200 with these bytes, labelled as JSON.
    pub fn body(bytes: impl Into<Vec<u8>>) -> Self {
        Self::always(Reply::bytes(200, "application/json", bytes).with_header("X-Upstream", CANARY))
    }

    /// A note with this front matter.
    pub fn front_matter(value: &Value) -> Self {
        Self::body(json!({ "frontmatter": value, "body": format!("# {CANARY}\n") }).to_string())
    }

    /// A good note whose `path` points elsewhere.
    pub fn path(path: &str) -> Self {
        let mut note = good();
        if let Some(members) = note.as_object_mut() {
            members.insert("path".to_owned(), path.into());
        }
        Self::body(note.to_string())
    }
}

/// A good note whose JSON has exactly so many bytes.
pub(super) fn note_of(bytes: usize) -> Vec<u8> {
    let start = format!("{{\"frontmatter\":{{}},\"body\":\"# {CANARY}\\n\\n");
    let fill = bytes.saturating_sub(start.len() + 2);
    [start.as_bytes(), &vec![b'x'; fill], b"\"}"].concat()
}

/// A value in so many arrays.
pub(super) fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Redirects with each status to another server, which should receive nothing; `elsewhere` is a
/// URL.
pub fn redirects(elsewhere: &str) -> Vec<(String, Behaviour)> {
    let locations = [
        elsewhere.to_owned(),
        format!("{elsewhere}/api/v1/notes/x.md"),
        elsewhere.trim_start_matches("http:").to_owned(),
    ];
    let statuses = REDIRECTS.iter().map(|(code, _)| *code).chain([201, 300, 304, 305]);
    let pairs = statuses.flat_map(|code| locations.iter().map(move |location| (code, location)));
    pairs
        .map(|(code, location)| {
            (format!("{code} to {location}"), Behaviour::redirect(code, location))
        })
        .collect()
}

/// Everything of which no note may come.
pub fn all_faults() -> Vec<(&'static str, Behaviour)> {
    let redirects = REDIRECTS.map(|(code, name)| (name, Behaviour::redirect_to_itself(code)));
    let statuses = STATUSES.map(|(code, name)| (name, Behaviour::status(code)));
    [
        connections(),
        malformed(),
        huge(),
        redirects.into(),
        statuses.into(),
        not_json(),
        not_a_note(),
    ]
    .concat()
}

/// Connections that fail or do not get on.
fn connections() -> Vec<(&'static str, Behaviour)> {
    vec![
        ("refuses connections", Behaviour::Refuse),
        ("closes at once", Behaviour::CloseAtOnce),
        ("reads nothing", Behaviour::Deaf),
        ("never answers", Behaviour::Silence),
        ("resets instead of answering", Behaviour::steps(vec![Step::Reset])),
        ("closes instead of answering", Behaviour::steps(vec![Step::Close])),
        ("slow headers", Behaviour::slow_headers(PAUSE)),
        ("headers without end", Behaviour::endless_headers(Duration::ZERO)),
        ("slow body", Behaviour::slow_body(PAUSE)),
        ("slow chunks", Behaviour::slow_chunks(PAUSE)),
        ("cut in the headers", Behaviour::cut_in_headers()),
        ("cut in the body", Behaviour::cut_in_body()),
        ("cut after a whole note", Behaviour::cut_after_a_whole_note()),
        ("chunks without an end", Behaviour::chunks_without_end()),
        ("reset in the body", Behaviour::reset_in_body()),
        ("endless interim answers", Behaviour::endless_interim(Duration::ZERO)),
        ("slow interim answers", Behaviour::endless_interim(PAUSE)),
        (
            "redirect without a location",
            Behaviour::raw_kept(head("302 Found", &["Content-Length: 0"])),
        ),
        ("redirect to a file", Behaviour::redirect(302, "file:///etc/passwd")),
    ]
}

/// Returns faults that break the syntax of HTTP.
fn malformed() -> Vec<(&'static str, Behaviour)> {
    let text = good().to_string();
    let with = |headers: &[&str]| {
        Behaviour::raw([head("200 OK", headers), text.clone().into_bytes()].concat())
    };
    let length = format!("Content-Length: {}", text.len());
    let more = format!("Content-Length: {}", text.len() + 1);
    vec![
        ("not HTTP", Behaviour::raw(format!("220 {CANARY} ESMTP\r\n500 {CANARY}\r\n"))),
        ("noise", Behaviour::raw((0..=255_u8).cycle().take(5_000).collect::<Vec<_>>())),
        ("a TLS alert", Behaviour::raw([0x15, 3, 1, 0, 2, 2, 70])),
        ("HTTP/2 in clear", Behaviour::raw([0, 0, 0, 4, 0, 0, 0, 0, 0])),
        ("the note without a head", Behaviour::raw(text.clone())),
        (
            "a status that is no number",
            Behaviour::raw(format!("HTTP/1.1 {CANARY}\r\n{length}\r\n\r\n{text}")),
        ),
        (
            "a status of two digits",
            Behaviour::raw(format!("HTTP/1.1 20 OK\r\n{length}\r\n\r\n{text}")),
        ),
        ("another version", Behaviour::raw(format!("HTTP/7.3 200 OK\r\n{length}\r\n\r\n{text}"))),
        ("two lengths", with(&[&length, &more])),
        ("a negative length", with(&["Content-Length: -1"])),
        ("a length with a sign", with(&[&length.replace(": ", ": +")])),
        ("a length that is no number", with(&["Content-Length: ten"])),
        ("a length beyond 64 bits", with(&["Content-Length: 184467440737095516160"])),
        ("a header without a colon", with(&[CANARY, &length])),
        ("a header with a zero byte", with(&[&format!("X-Zero: a\0{CANARY}"), &length])),
        ("a chunk size that is no number", with(&[CHUNKED])),
        (
            "a chunk size beyond 64 bits",
            Behaviour::raw(
                [head("200 OK", &[CHUNKED]), b"fffffffffffffffff\r\n".to_vec(), chunks()].concat(),
            ),
        ),
        (
            "a chunk longer than it says",
            Behaviour::raw(
                [head("200 OK", &[CHUNKED]), b"2\r\n".to_vec(), text.clone().into_bytes()].concat(),
            ),
        ),
        (
            "an endless extension of a chunk",
            Behaviour::steps(vec![
                Step::Send([head("200 OK", &[CHUNKED]), b"5;x=".to_vec()].concat()),
                Step::Repeat(vec![b'x'; 1 << 16], Duration::ZERO),
            ]),
        ),
        (
            "endless trailers",
            Behaviour::steps(vec![
                Step::Send([head("200 OK", &[CHUNKED]), chunks(), b"0\r\n".to_vec()].concat()),
                Step::Repeat(
                    format!("X-Trailer: {CANARY}\r\n").into_bytes().repeat(1_000),
                    Duration::ZERO,
                ),
            ]),
        ),
    ]
}

/// Returns faults that send too much.
fn huge() -> Vec<(&'static str, Behaviour)> {
    vec![
        ("declares a byte more than the ceiling", Behaviour::declares(CEILING as u64 + 1)),
        ("declares a terabyte", Behaviour::declares(1 << 40)),
        ("declares all that 64 bits can", Behaviour::declares(u64::MAX)),
        ("a byte more than the ceiling", Behaviour::note_of(CEILING + 1)),
        ("a byte more than the ceiling in chunks", Behaviour::note_of_in_chunks(CEILING + 1)),
        ("endless chunks", Behaviour::endless_chunks()),
        ("endless until the close", Behaviour::endless_until_close()),
        ("a header of a megabyte", Behaviour::huge_header(1_000_000)),
        ("10,000 headers", Behaviour::many_headers(10_000)),
        ("a bomb in gzip", Behaviour::bomb("gzip")),
        ("a bomb in deflate", Behaviour::bomb("deflate")),
        ("a bomb in deflate without a frame", Behaviour::bomb("deflate without a frame")),
        ("a bomb in brotli", Behaviour::bomb("br")),
    ]
}

/// Bodies that are not JSON.
fn not_json() -> Vec<(&'static str, Behaviour)> {
    let text = good().to_string();
    let page = format!("<!doctype html><title>{CANARY}</title><h1>{CANARY}</h1>");
    let half = text.get(..text.len() / 2).unwrap_or_default();
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        ("a page", Behaviour::always(Reply::bytes(200, "text/html", page.clone()))),
        ("a page labelled as JSON", Behaviour::body(page)),
        ("an empty body", Behaviour::body("")),
        ("a body of spaces", Behaviour::body(" \n".repeat(1_000))),
        ("half a note", Behaviour::body(half)),
        ("a note and more", Behaviour::body(format!("{text}{text}"))),
        ("lines of notes", Behaviour::body(format!("{text}\n{text}\n"))),
        ("an event stream", Behaviour::body(format!("data: {text}\n\n"))),
        ("UTF-16", Behaviour::body(wide)),
        ("a byte that is not UTF-8", Behaviour::body(*b"{\"frontmatter\":{},\"body\":\"# \xff\"}")),
        (
            "a surrogate in UTF-8",
            Behaviour::body(*b"{\"frontmatter\":{},\"body\":\"# \xed\xa0\x80\"}"),
        ),
        ("half a surrogate pair", Behaviour::body(r#"{"frontmatter":{},"body":"\ud800"}"#)),
        (
            "a control character in a string",
            Behaviour::body("{\"frontmatter\":{},\"body\":\"a\u{1}\"}"),
        ),
        ("not a number", Behaviour::body(r#"{"frontmatter":{},"body":"a","size":NaN}"#)),
        (
            "a number without end",
            Behaviour::body(format!(r#"{{"frontmatter":{{}},"body":{}"#, "1".repeat(100_000))),
        ),
        ("single quotes", Behaviour::body("{'frontmatter':{},'body':'a'}")),
        ("a comma too many", Behaviour::body(r##"{"frontmatter":{},"body":"# a",}"##)),
        ("a comment", Behaviour::body(r##"{"frontmatter":{},/* */"body":"# a"}"##)),
        ("nothing but 100,000 arrays", Behaviour::body(nested(100_000))),
        ("100,000 arrays that do not end", Behaviour::body("[".repeat(100_000))),
        ("100,000 objects that do not end", Behaviour::body(r#"{"body":"#.repeat(100_000))),
    ]
}

/// JSON that is not a note.
fn not_a_note() -> Vec<(&'static str, Behaviour)> {
    let whole = |value: Value| Behaviour::body(value.to_string());
    let body = |value: Value| whole(json!({ "frontmatter": {}, "body": value, "error": CANARY }));
    vec![
        ("a body that is a number", body(json!(7))),
        ("a body that is null", body(Value::Null)),
        ("a body that is true", body(json!(true))),
        ("a body that is an array", body(json!([CANARY]))),
        ("a body that is an object", body(json!({ "text": CANARY }))),
        (
            "a body of 100,000 arrays",
            Behaviour::body(format!(r#"{{"frontmatter":{{}},"body":{}}}"#, nested(100_000))),
        ),
        ("no body", whole(json!({ "frontmatter": { "title": CANARY } }))),
        (
            "a body under another name",
            whole(json!({ "frontmatter": {}, "Body": CANARY, "content": CANARY })),
        ),
        ("a note inside the answer", whole(json!({ "note": good(), "data": good() }))),
        ("an array", whole(json!([good()]))),
        ("a string", whole(json!(good().to_string()))),
        ("null", whole(Value::Null)),
        ("a number", whole(json!(1e300))),
        ("true", whole(json!(true))),
        ("an empty object", whole(json!({}))),
        ("an error with 200", whole(json!({ "error": CANARY, "code": "NOT_FOUND" }))),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;
    use crate::client::Http;
    use crate::upstream::Upstream;
    use crate::upstream::oddities::all_oddities;

    const REQUEST: &[u8] = b"GET /api/v1/notes/a.md HTTP/1.1\r\nHost: store\r\n\r\n";

    /// What a client sees of a behaviour that lets go of it, or within a moment.
    fn answer(upstream: &Upstream) -> Vec<u8> {
        let Ok(mut stream) = TcpStream::connect(upstream.address()) else { return Vec::new() };
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let _ = stream.write_all(REQUEST);
        // Whoever would keep the connection sees that no more is asked.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let mut first = None;
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..read]);
            // A drip goes on for ever, and so does a flood.
            let trickles =
                first.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(100);
            if trickles && read < 100 || bytes.len() > 2 * CEILING {
                break;
            }
        }
        bytes
    }

    #[test]
    fn fault_names_are_distinct() {
        let names: Vec<_> =
            [all_faults(), all_oddities()].concat().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }

    #[test]
    fn every_fault_can_be_served_and_abandoned() {
        let upstream = Upstream::start(Behaviour::Silence);
        for (name, behaviour) in [all_faults(), all_oddities()].concat() {
            upstream.set(behaviour.clone());
            let answer = answer(&upstream);
            let mute = matches!(
                behaviour,
                Behaviour::Refuse | Behaviour::CloseAtOnce | Behaviour::Deaf | Behaviour::Silence
            ) || name.ends_with("instead of answering");
            assert_eq!(answer.is_empty(), mute, "{name}");
        }
    }

    #[test]
    fn redirects_point_to_their_targets() {
        let (upstream, other) =
            (Upstream::start(Behaviour::Silence), Upstream::start(Behaviour::Silence));
        let mut client = Http::new(upstream.address(), "");
        for (name, behaviour) in redirects(&other.url()) {
            upstream.set(behaviour);
            let location = client.send(REQUEST).unwrap().header("location").unwrap().to_owned();
            assert!(location.contains(&other.address().to_string()), "{name}");
        }
        upstream.set(Behaviour::redirect_to_itself(307));
        let reply = client.send(REQUEST).unwrap();
        assert_eq!((reply.status, reply.header("location")), (307, Some("/api/v1/notes/a.md")));
        assert_eq!(upstream.connections(), 1);
        assert_eq!(other.connections(), 0);
    }

    #[test]
    fn bodies_have_exact_sizes() {
        let upstream = Upstream::start(Behaviour::note_of(CEILING));
        let mut client = Http::new(upstream.address(), "");
        for (behaviour, bytes) in [
            (Behaviour::note_of(CEILING), CEILING),
            (Behaviour::note_of(CEILING + 1), CEILING + 1),
            (Behaviour::note_of_in_chunks(CEILING), CEILING),
        ] {
            upstream.set(behaviour);
            let reply = client.send(REQUEST).unwrap();
            assert_eq!(reply.body.len(), bytes);
            assert!(reply.json()["body"].as_str().unwrap().contains(CANARY));
        }
    }

    #[test]
    fn endless_answers_stop_when_the_client_leaves() {
        let upstream = Upstream::start(Behaviour::endless_chunks());
        assert!(answer(&upstream).len() > CEILING);
        let deadline = Instant::now() + Duration::from_secs(10);
        while upstream.open_connections() > 0 {
            assert!(Instant::now() < deadline, "the connection is still open");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(upstream.bytes_sent() >= CEILING as u64);
    }
}
