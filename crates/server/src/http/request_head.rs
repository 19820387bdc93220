//! Judges the raw head of each request before the HTTP library parses it.
//!
//! Request smuggling exploits two parsers that read one byte stream differently, and the library
//! resolves some ambiguities silently: of `Content-Length` and `Transfer-Encoding` together it
//! keeps one. So the same parser reads the raw bytes of each head here first. Then exactly
//! `Content-Length` bytes are skipped to reach the next head. A chunked body is not followed: such
//! a request is the last one on its connection.
//!
//! This is a state machine over bytes and does no I/O. *Source*: RFC 9112 §2.2, §3.2, §6.

/// The longest head in bytes, with the request line.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The longest head in bytes that the HTTP library reads. It answers a longer one without a word,
/// so one that is somewhat too long is read to its end, and its sender learns why it is refused.
pub const MAX_READ_HEAD_BYTES: usize = 2 * MAX_HEAD_BYTES;
/// The most header fields, which is the HTTP library's own limit.
const MAX_FIELDS: usize = 100;

/// What the server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    /// Answer the request and keep the connection.
    Keep,
    /// Answer the request, then close the connection.
    Last,
    /// Answer 400 with this reason, then close the connection.
    Refuse(&'static str),
    /// Answer 431, then close the connection.
    TooLarge,
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPosition {
    /// Between two requests, before the first byte of a head.
    Between,
    /// Inside a head.
    Head,
    /// Inside a body of known length.
    Body,
    /// After the last request that is answered.
    Beyond,
}

/// Finds and judges the request heads of one connection.
#[derive(Debug, Default)]
pub struct HeadScanner {
    state: State,
    head: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Body(u64),
    /// In the rest of a head that is too large.
    TooLarge,
    Beyond,
}

impl HeadScanner {
    /// A scanner for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the part of a request that the next byte belongs to.
    pub fn position(&self) -> StreamPosition {
        match self.state {
            State::Head if self.head.is_empty() => StreamPosition::Between,
            State::Head | State::TooLarge => StreamPosition::Head,
            State::Body(_) => StreamPosition::Body,
            State::Beyond => StreamPosition::Beyond,
        }
    }

    /// Reads the next bytes and calls `found` for each head that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(HeadVerdict)) {
        while !bytes.is_empty() {
            match &mut self.state {
                State::TooLarge | State::Beyond => return,
                State::Body(left) => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= skipped as u64;
                    if *left == 0 {
                        self.state = State::Head;
                    }
                    bytes = bytes.get(skipped..).unwrap_or_default();
                }
                State::Head => {
                    bytes = self.feed_head(bytes);
                    if let Some((verdict, next)) = self.verdict() {
                        self.head = Vec::new();
                        self.state = next;
                        found(verdict);
                    }
                }
            }
        }
    }

    /// Reads bytes up to the end of a line, and returns the rest. Skips empty lines before a
    /// request, as the library does.
    fn feed_head<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        if self.head.is_empty() {
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            bytes = bytes.get(blank..).unwrap_or_default();
        }
        let line =
            bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| newline + 1);
        let room = (MAX_HEAD_BYTES + 1).saturating_sub(self.head.len());
        let (taken, rest) = bytes.split_at_checked(line.min(room)).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(taken);
        rest
    }

    /// Returns the verdict on a complete head and the next state.
    fn verdict(&self) -> Option<(HeadVerdict, State)> {
        if self.head.len() > MAX_HEAD_BYTES {
            return Some((HeadVerdict::TooLarge, State::TooLarge));
        }
        let complete = self.head.ends_with(b"\n\r\n") || self.head.ends_with(b"\n\n");
        if !complete {
            return None;
        }
        Some(match judge(&self.head) {
            Ok(Framing::Length(0)) => (HeadVerdict::Keep, State::Head),
            Ok(Framing::Length(length)) => (HeadVerdict::Keep, State::Body(length)),
            Ok(Framing::Chunked) => (HeadVerdict::Last, State::Beyond),
            Err(why) => (HeadVerdict::Refuse(why), State::Beyond),
        })
    }
}

/// How a body is delimited.
enum Framing {
    Length(u64),
    Chunked,
}

fn judge(head: &[u8]) -> Result<Framing, &'static str> {
    if has_bare_line_feed(head) {
        return Err("a line of the head does not end with CR LF");
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    if request.parse(head) != Ok(httparse::Status::Complete(head.len())) {
        return Err("the head of the request is malformed");
    }
    if !request.path.is_some_and(|target| target.starts_with('/')) {
        return Err("the request target is not a path");
    }
    let named = |name: &str| {
        let name = name.to_owned();
        request
            .headers
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(&name))
            .map(|field| field.value)
    };
    if request.headers.iter().any(|field| field.name.contains('_')) {
        return Err("a header name contains an underscore");
    }
    if named("host").count() != 1 {
        return Err("the request has not exactly one Host");
    }
    let chunked = named("transfer-encoding").next().is_some();
    let mut lengths = named("content-length");
    match (lengths.next(), lengths.next()) {
        (Some(_), _) if chunked => Err("the request has both Content-Length and Transfer-Encoding"),
        (Some(_), Some(_)) => Err("the request has more than one Content-Length"),
        (Some(length), None) => {
            decimal(length).map(Framing::Length).ok_or("Content-Length is not a number")
        }
        (None, _) if chunked => Ok(Framing::Chunked),
        (None, _) => Ok(Framing::Length(0)),
    }
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    let before = std::iter::once(&b'\n').chain(head);
    head.iter().zip(before).any(|(byte, before)| *byte == b'\n' && *before != b'\r')
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(pieces: &[&[u8]]) -> (Vec<HeadVerdict>, StreamPosition) {
        let mut scanner = HeadScanner::new();
        let mut found = Vec::new();
        for piece in pieces {
            scanner.feed(piece, |verdict| found.push(verdict));
        }
        (found, scanner.position())
    }

    fn verdict(head: &str) -> HeadVerdict {
        let (found, _) = verdicts(&[head.as_bytes()]);
        assert_eq!(found.len(), 1, "{head}");
        found[0]
    }

    const TWO: &[u8] = b"\r\nPOST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nGET / H\r\n\
        GET /health HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        GET /smuggled HTTP/1.1\r\n\r\n";

    #[test]
    fn heads_are_found_however_the_bytes_are_split() {
        let whole =
            (vec![HeadVerdict::Keep, HeadVerdict::Keep, HeadVerdict::Last], StreamPosition::Beyond);
        assert_eq!(verdicts(&[TWO]), whole);
        for first in 0..TWO.len() {
            for second in first..TWO.len() {
                let pieces = [&TWO[..first], &TWO[first..second], &TWO[second..]];
                assert_eq!(verdicts(&pieces), whole, "{first} {second}");
            }
        }
        let bytes: Vec<&[u8]> = TWO.chunks(1).collect();
        assert_eq!(verdicts(&bytes), whole);
    }

    #[test]
    fn the_position_is_known_after_every_byte() {
        let mut scanner = HeadScanner::new();
        let mut seen = Vec::new();
        for piece in [
            "",
            "\r\n",
            "P",
            "OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
            "a",
            "b",
            "G",
        ] {
            scanner.feed(piece.as_bytes(), |_| {});
            seen.push(scanner.position());
        }
        assert_eq!(
            seen,
            [
                StreamPosition::Between,
                StreamPosition::Between,
                StreamPosition::Head,
                StreamPosition::Body,
                StreamPosition::Body,
                StreamPosition::Between,
                StreamPosition::Head
            ]
        );
    }

    #[test]
    fn a_head_that_two_parsers_may_read_differently_is_refused() {
        for head in [
            "POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncontent-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\n",
            "POST / HTTP/1.1\nHost: a\n\n",
            "POST / HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
        ] {
            assert!(matches!(verdict(head), HeadVerdict::Refuse(_)), "{head}");
        }
    }

    #[test]
    fn an_ordinary_request_passes() {
        for (head, expected) in [
            ("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", HeadVerdict::Keep),
            ("GET /health HTTP/1.0\r\nhost: a\r\n\r\n", HeadVerdict::Keep),
            ("POST /mcp?x=1 HTTP/1.1\r\nHOST:a\r\nContent-Length: 0\r\n\r\n", HeadVerdict::Keep),
            (
                "POST /mcp HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n",
                HeadVerdict::Last,
            ),
        ] {
            assert_eq!(verdict(head), expected, "{head}");
        }
    }

    #[test]
    fn an_endless_head_is_refused() {
        let long =
            [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), vec![b'x'; MAX_HEAD_BYTES]].concat();
        let (found, place) = verdicts(&[&long]);
        assert_eq!(found, [HeadVerdict::TooLarge]);
        // Its rest has the time that a head has.
        assert_eq!(place, StreamPosition::Head);
    }

    proptest::proptest! {
        #[test]
        fn verdicts_do_not_depend_on_how_the_bytes_are_split(
            bytes in proptest::collection::vec(proptest::prop_oneof![
                proptest::prelude::Just(b"\r\n".to_vec()), proptest::prelude::Just(b"\r\n\r\n".to_vec()),
                proptest::prelude::Just(b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec()),
                proptest::prelude::Just(b"Content-Length: 3\r\n".to_vec()),
                proptest::collection::vec(proptest::prelude::any::<u8>(), 0..5),
            ], 0..12),
            at in proptest::prelude::any::<proptest::sample::Index>(),
        ) {
            let bytes = bytes.concat();
            let at = at.index(bytes.len() + 1);
            proptest::prop_assert_eq!(verdicts(&[&bytes]), verdicts(&[&bytes[..at], &bytes[at..]]));
        }
    }
}
