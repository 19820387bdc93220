//! Listing URIs and cursors: what is read is exactly what is written for it, and nothing else is
//! taken for it.
//!
//! An input is text: a path or a URI and, after the first line break, a cursor or another URI.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::file_cursor::{BadFileCursor, FileCursor};
use stile_domain::hash::ContentHash;
use stile_domain::listing::{BadListUri, SCHEME, next_page_uri, parse_uri, uri};
use stile_domain::path::SpacePath;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let (first, second) = input.split_once('\n').unwrap_or((&input, &input));
    for text in [first, second] {
        a_link_leads_where_its_uri_led(text);
        a_link_leads_where_its_uri_led(&format!("{SCHEME}{text}"));
        if let Ok(hash) = ContentHash::parse(text) {
            assert_eq!(hash.to_string(), text);
        }
    }
    let path = SpacePath::parse(first).unwrap_or_else(|_| SpacePath::root());
    a_cursor_has_one_text(second, &path);
    a_changed_cursor_is_none(second.as_bytes(), &path);
});

fn a_link_leads_where_its_uri_led(text: &str) {
    let request = match parse_uri(text) {
        Ok(request) => request,
        Err(error) => {
            return assert_eq!(error == BadListUri::Scheme, !text.starts_with(SCHEME), "{text:?}");
        }
    };
    let link = match &request.after {
        None => uri(&request.path),
        Some(after) => next_page_uri(&request.path, after),
    };
    assert!(
        link.bytes().all(|byte| byte.is_ascii_graphic()) && link.starts_with("list:///"),
        "{link}"
    );
    assert_eq!(parse_uri(&link), Ok(request));
}

fn a_cursor_has_one_text(text: &str, path: &SpacePath) {
    if let Ok(cursor) = FileCursor::decode(text, path) {
        assert_eq!(cursor.encode(path), text);
        assert_eq!(FileCursor::decode(text, &another(path)), Err(BadFileCursor::Mismatch));
    }
}

/// A cursor holds a checksum that no mutation will hit, so one is made of the bytes, and then
/// damaged.
fn a_changed_cursor_is_none(bytes: &[u8], path: &SpacePath) {
    let mut rest = bytes;
    let mut number = || {
        let (taken, after) = rest.split_at(rest.len().min(8));
        rest = after;
        taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (offset, line, end, at, to) = (number(), number(), number(), number(), number());
    let cursor = FileCursor { hash: ContentHash::digest(bytes), offset, line, end };
    let text = cursor.encode(path);
    assert_eq!(text.len(), 99);
    assert_eq!(FileCursor::decode(&text, path), Ok(cursor));
    assert_eq!(FileCursor::decode(&text, &another(path)), Err(BadFileCursor::Mismatch));

    let at = usize::try_from(at % 99).expect("it is below 99");
    let mut changed = text.clone();
    changed.replace_range(at..=at, &char::from(to.to_le_bytes()[0] & 0x7f).to_string());
    if changed != text {
        assert_eq!(FileCursor::decode(&changed, path), Err(BadFileCursor::Malformed));
    }
    for changed in [&text[at + 1..], &text[..at], &format!("{text}="), &format!("{text}A")] {
        assert_eq!(FileCursor::decode(changed, path), Err(BadFileCursor::Malformed));
    }
}

fn another(path: &SpacePath) -> SpacePath {
    let other = if path.is_root() { "/a" } else { "/" };
    SpacePath::parse(other).expect("it is a path")
}
