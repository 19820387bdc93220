//! Encodings of text: what is recognised is valid and is written back exactly, part by part.
//!
//! The first byte of an input chooses an encoding that a caller states, the second a place in the
//! text, and the rest are the bytes of a file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::text_encoding::{
    EncodingSource, TextEncoding, may_be_text, recognise, text_of, utf_8,
};

const STATED: [&str; 12] = [
    "utf-8", "utf-16le", "utf-16be", "windows-1252", "iso-8859-2", "iso-8859-15", "koi8-r",
    "shift_jis", "gbk", "gb18030", "euc-kr", "big5",
];

fuzz_target!(|input: &[u8]| {
    let [choice, place, bytes @ ..] = input else { return };
    recognised_bytes_are_text(bytes);
    let name = STATED[usize::from(*choice) % STATED.len()];
    let encoding = TextEncoding::named(name).unwrap();
    assert_eq!(encoding.to_string(), name);
    let Some(text) = encoding.decode(bytes) else { return };
    if encoding.is_exact(bytes, &text) {
        parts_are_written_back(encoding, bytes, &text, usize::from(*place));
    }
    match name {
        "utf-8" => assert_eq!(std::str::from_utf8(bytes), Ok(&*text)),
        "utf-16le" => assert_eq!(utf_16(bytes, u16::from_le_bytes), Some(text.into_owned())),
        "utf-16be" => assert_eq!(utf_16(bytes, u16::from_be_bytes), Some(text.into_owned())),
        // Every byte is a character, and none is lost.
        "windows-1252" => {
            assert_eq!(text.chars().count(), bytes.len());
            assert!(encoding.is_exact(bytes, &text));
        }
        _ => {}
    }
});

fn recognised_bytes_are_text(bytes: &[u8]) {
    match (utf_8(bytes), recognise(bytes)) {
        (Some(text), _) => {
            assert_eq!(std::str::from_utf8(bytes), Ok(text));
            assert_eq!(text_of(bytes).as_deref(), Some(text));
        }
        (None, None) => assert_eq!(text_of(bytes), None),
        (None, Some(decoded)) => {
            let mark = if decoded.has_mark { "\u{feff}" } else { "" };
            let whole = format!("{mark}{}", decoded.text);
            assert_eq!(decoded.encoding.decode(bytes).as_deref(), Some(whole.as_str()));
            assert_eq!(text_of(bytes).as_deref(), Some(&*decoded.text));
            assert!(may_be_text(bytes));
            assert!(!decoded.text.contains('\0'));
            assert!(decoded.has_mark || decoded.source == EncodingSource::Guessed);
        }
    }
}

/// The bytes of a text are those of its parts, so an edit leaves the bytes around it alone.
fn parts_are_written_back(encoding: TextEncoding, bytes: &[u8], text: &str, place: usize) {
    let boundaries: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
    let (head, tail) = text.split_at(boundaries[place % boundaries.len()]);
    let parts = [head, tail].map(|part| encoding.encode(part).unwrap());
    assert_eq!(parts.concat(), bytes);
}

/// Decodes UTF-16 by hand; `None` for half a character.
fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.ok().filter(|_| rest.is_empty())
}
