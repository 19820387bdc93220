//! Heads of requests: what is let through has one reading, and how the bytes arrive makes no
//! difference.
//!
//! An input is text: digits for the sizes of pieces and, after the first line break, what a client
//! sends. There a line break is CR LF, `|` is a bare line feed, and `~` 2000 letters, so that
//! limits are near.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_server::http::request_head::{HeadScanner, HeadVerdict, MAX_HEAD_BYTES, StreamPosition};

/// Sent bytes are cut at about this many: more than a few heads of any size.
const SENT_BYTES: usize = 4 * MAX_HEAD_BYTES;
const MAX_FIELDS: usize = 100;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (sizes, typed) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut sent = Vec::new();
    for byte in typed {
        match byte {
            b'\n' => sent.extend(b"\r\n"),
            b'|' => sent.push(b'\n'),
            b'~' if sent.len() < SENT_BYTES => sent.extend([b'l'; 2000]),
            other => sent.push(*other),
        }
    }
    let whole = verdicts([sent.as_slice()]);
    // The cube of a digit: up to 729 bytes at once.
    let sizes = sizes.iter().map(|byte| usize::from(byte % 10).pow(3));
    let sizes: Vec<usize> = if sizes.len() == 0 { vec![1] } else { sizes.collect() };
    assert_eq!(verdicts(pieces(&sent, sizes)), whole);
    assert_eq!(verdicts(sent.chunks(1)), whole);
    the_twin_finds_the_same_requests(&sent, whole);
});

fn verdicts<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<HeadVerdict>, StreamPosition) {
    let mut scanner = HeadScanner::new();
    let mut found = Vec::new();
    pieces.into_iter().for_each(|piece| scanner.feed(piece, |verdict| found.push(verdict)));
    (found, scanner.position())
}

/// Pieces of these sizes again and again, empty ones too.
fn pieces(mut bytes: &[u8], sizes: Vec<usize>) -> impl Iterator<Item = &[u8]> {
    let endless = if sizes.iter().all(|size| *size == 0) { vec![1] } else { sizes };
    endless.into_iter().cycle().map_while(move |size| {
        let (piece, rest) = bytes.split_at(bytes.len().min(size));
        (!bytes.is_empty()).then(|| bytes = rest).map(|()| piece)
    })
}

/// Walks over whole heads and bodies. Which heads pass is known exactly for plain ones; of the
/// others it is known what they must not be.
fn the_twin_finds_the_same_requests(
    mut sent: &[u8],
    (found, place): (Vec<HeadVerdict>, StreamPosition),
) {
    for (at, verdict) in found.iter().enumerate() {
        if matches!(verdict, HeadVerdict::TooLarge) {
            // The head need not be whole, and nothing is read after it.
            assert!(at + 1 == found.len() && place == StreamPosition::Head);
            return;
        }
        let head = next_head(sent).expect("there is a head to each verdict");
        sent = &after_blanks(sent)[head.len()..];
        let is_last = at + 1 == found.len();
        let passes = match verdict {
            HeadVerdict::Keep => {
                let length = one_reading(head).expect("a request that is followed has a length");
                sent = &sent[sent.len().min(usize::try_from(length).unwrap_or(usize::MAX))..];
                true
            }
            HeadVerdict::Last => {
                assert_eq!(one_reading(head), None);
                assert!(is_last && place == StreamPosition::Beyond);
                true
            }
            HeadVerdict::Refuse(_) | HeadVerdict::TooLarge => {
                assert!(is_last && place == StreamPosition::Beyond);
                false
            }
        };
        assert!(passes || !is_plain(head), "{:?} {verdict:?}", String::from_utf8_lossy(head));
    }
    if place != StreamPosition::Beyond {
        assert_eq!(next_head(sent), None, "no head is passed over");
        assert_eq!(place == StreamPosition::Head, !after_blanks(sent).is_empty());
    }
}

fn after_blanks(sent: &[u8]) -> &[u8] {
    &sent[sent.iter().take_while(|byte| b"\r\n".contains(byte)).count()..]
}

/// The next head with its empty line, or as much of it as is too much.
fn next_head(sent: &[u8]) -> Option<&[u8]> {
    let sent = after_blanks(sent);
    let end = (0..=sent.len()).find(|end| {
        *end > MAX_HEAD_BYTES
            || sent[..*end].ends_with(b"\n\r\n")
            || sent[..*end].ends_with(b"\n\n")
    });
    end.map(|end| &sent[..end])
}

/// What a head that passed cannot be if all readers are to agree about it. Gives the length of its
/// body, or `None` for one in chunks.
fn one_reading(head: &[u8]) -> Option<u64> {
    let said = String::from_utf8_lossy(head);
    assert!(head.len() <= MAX_HEAD_BYTES && !head.contains(&0), "{said:?}");
    let lines = head.strip_suffix(b"\r\n\r\n").expect("it ends with an empty line");
    // Split by hand at every CR LF, and there is neither in what remains.
    let mut split: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
    let last = split.len() - 1;
    for line in &mut split[..last] {
        *line = line.strip_suffix(b"\r").unwrap_or_else(|| panic!("{said:?} has a bare line feed"));
    }
    assert!(split.iter().all(|line| !line.contains(&b'\r')), "{said:?} has a bare carriage return");

    let request: Vec<&[u8]> = split[0].split(|byte| *byte == b' ').collect();
    let [method, target, version] = request.as_slice() else {
        panic!("{said:?} does not have a request line")
    };
    assert!(!method.is_empty() && target.starts_with(b"/"), "{said:?}");
    assert!(matches!(*version, b"HTTP/1.1" | b"HTTP/1.0"), "{said:?}");

    let mut hosts = 0;
    let mut lengths = Vec::new();
    let mut codings = 0;
    assert!(split.len() - 1 <= MAX_FIELDS, "{said:?}");
    for line in &split[1..] {
        let colon =
            line.iter().position(|byte| *byte == b':').unwrap_or_else(|| panic!("{said:?}"));
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        assert!(
            !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'_'),
            "{said:?}"
        );
        match name.to_ascii_lowercase().as_slice() {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => codings += 1,
            _ => {}
        }
    }
    assert_eq!(hosts, 1, "{said:?}");
    match (lengths.as_slice(), codings) {
        ([], 0) => Some(0),
        ([], _) => None,
        ([length], 0) => {
            assert!(length.iter().all(u8::is_ascii_digit), "{said:?}");
            Some(length.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
        }
        _ => panic!("{said:?} has two framings"),
    }
}

/// Whether no reader could object to anything: these must not be refused.
fn is_plain(head: &[u8]) -> bool {
    let Some(lines) = std::str::from_utf8(head).ok().and_then(|head| head.strip_suffix("\r\n\r\n"))
    else {
        return false;
    };
    let mut lines = lines.split("\r\n");
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let request: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = request.as_slice() else { return false };
    let fields: Option<Vec<(String, &str)>> = lines
        .map(|line| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value)))
        .collect();
    let Some(fields) = fields else { return false };
    let count = |name: &str| fields.iter().filter(|field| field.0 == name).count();
    head.len() <= MAX_HEAD_BYTES
        && is_word(method)
        && target.strip_prefix('/').is_some_and(|rest| rest.is_empty() || is_word(rest))
        && fields.len() <= MAX_FIELDS
        && fields.iter().all(|(name, value)| is_word(name) && is_word(value))
        && count("host") == 1
        && count("content-length") + count("transfer-encoding") <= 1
        && fields.iter().all(|(name, value)| {
            name != "content-length"
                || (value.len() <= 18 && value.bytes().all(|byte| byte.is_ascii_digit()))
        })
}
