//! Guesses that a whole text is bytes in base64: a data URI, one long run, or lines as mail wraps
//! them. The guess says what a preview is of. The text stays a text.

use super::{decoded_len, is_letter};

/// What a text seems to encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedText {
    /// The type that a data URI names, or that the first bytes show; otherwise
    /// `application/octet-stream`.
    pub mime_type: String,
    /// The number of bytes.
    pub size_bytes: u64,
}

/// The characters of the beginning of a text that [`guess`] needs.
pub const HEAD_CHARS: u64 = 256;
/// The characters of the end of a text that [`guess`] needs.
pub const TAIL_CHARS: u64 = 8;
/// The lengths of lines that wrapped base64 has.
const LINES: std::ops::RangeInclusive<usize> = 40..=200;
/// The longest name of a type that an answer repeats, in bytes.
const MAX_TYPE: usize = 100;
/// How the base64 of well-known types begins.
const BEGINNINGS: [(&str, &str); 6] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
    ("UEsDB", "application/zip"),
];

/// Guesses from the beginning and the end of a text of `chars` characters what it encodes. `None`
/// if the text does not look encoded.
pub fn guess(head: &str, tail: &str, chars: u64) -> Option<EncodedText> {
    let (named, payload) = match head.strip_prefix("data:") {
        Some(rest) => {
            let (kind, payload) = rest.split_once(";base64,")?;
            (Some(kind.split(';').next().unwrap_or_default()), payload)
        }
        None if chars >= HEAD_CHARS => (None, head),
        None => return None,
    };
    let letters = |text: &str| text.bytes().take_while(|byte| is_letter(*byte)).count();
    let width = letters(payload);
    let after = payload.get(width..).unwrap_or_default();
    let end = match after.as_bytes() {
        [b'\r', b'\n', ..] => "\r\n",
        [b'\n', ..] => "\n",
        [] | [b'=', ..] => "",
        _ => return None,
    };
    let is_wrapped = !end.is_empty() && !tail.trim_end_matches(['\r', '\n']).is_empty();
    if is_wrapped && !(LINES.contains(&width) && has_equal_lines(after, end, width)) {
        return None;
    }
    let is_mixed = named.is_some() || CharacterSet::of(payload.as_bytes()).is_mixed();
    let stem = tail.trim_end_matches(['\r', '\n']);
    if !is_mixed || !stem.bytes().all(|byte| is_letter(byte) || b"=\r\n".contains(&byte)) {
        return None;
    }
    let outside = (head.len() - payload.len()) as u64 + (tail.len() - stem.len()) as u64;
    let written = chars.checked_sub(outside)?;
    let padding = stem.bytes().rev().take_while(|byte| *byte == b'=').count() as u64;
    let breaks = if is_wrapped { line_breaks(written, width as u64, end.len() as u64) } else { 0 };
    let letters = written.checked_sub(breaks + padding)?;
    let mime_type = named.filter(|kind| kind.contains('/') && kind.len() <= MAX_TYPE);
    let shown = BEGINNINGS.iter().find(|(beginning, _)| payload.starts_with(beginning));
    Some(EncodedText {
        mime_type: mime_type
            .or(shown.map(|(_, mime_type)| *mime_type))
            .unwrap_or("application/octet-stream")
            .to_owned(),
        size_bytes: decoded_len(letters),
    })
}

/// Whether the lines after the first one are as long, apart from the last one.
fn has_equal_lines(mut after: &str, end: &str, width: usize) -> bool {
    while let Some(line) = after.strip_prefix(end) {
        let letters = line.bytes().take_while(|byte| is_letter(*byte) || *byte == b'=').count();
        let rest = line.get(letters..).unwrap_or_default();
        if letters > width || (letters < width && !rest.trim_end_matches(['\r', '\n']).is_empty()) {
            return false;
        }
        after = rest;
    }
    after.trim_end_matches(['\r', '\n']).is_empty()
}

/// Counts the characters between lines of `width` that have `chars` characters together.
fn line_breaks(chars: u64, width: u64, end: u64) -> u64 {
    chars.saturating_sub(1) / (width + end) * end
}

/// A set of ASCII characters.
#[derive(Clone, Copy, Debug, Default)]
pub struct CharacterSet(u128);

impl CharacterSet {
    /// Collects the characters of a text in the alphabet of base64.
    pub fn of(text: &[u8]) -> Self {
        let mut set = Self::default();
        text.iter().for_each(|byte| set.insert(*byte));
        set
    }

    /// Adds an ASCII character to the set.
    pub fn insert(&mut self, byte: u8) {
        self.0 |= 1 << (byte & 127);
    }

    /// Whether the set has letters of both cases, digits, and as many characters as encoded bytes
    /// have. Paths, digits, DNA, hexadecimal digits and long words seldom do.
    pub fn is_mixed(self) -> bool {
        /// The fewest different characters.
        const KINDS: u32 = 16;
        const DIGITS: u128 = 0x3ff << b'0';
        const CAPITALS: u128 = 0x3ff_ffff << b'A';
        const SMALL: u128 = 0x3ff_ffff << b'a';
        let has_all = [DIGITS, CAPITALS, SMALL].iter().all(|kind| self.0 & kind != 0);
        has_all && self.0.count_ones() >= KINDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `bytes` bytes in base64.
    fn base64(bytes: usize) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letters = (bytes * 4).div_ceil(3);
        let mut text: String = (0..letters).map(|at| char::from(LETTERS[at * 37 % 61])).collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    fn guessed(text: &str) -> Option<(String, u64)> {
        let (head, tail) = (&text[..text.len().min(256)], &text[text.len().saturating_sub(8)..]);
        guess(head, tail, text.len() as u64).map(|encoded| (encoded.mime_type, encoded.size_bytes))
    }

    #[test]
    fn the_size_of_wrapped_and_padded_base64_is_exact() {
        for bytes in (190..260).chain([3000, 3001, 3002]) {
            let text = base64(bytes);
            let is = Some(("application/octet-stream".to_owned(), bytes as u64));
            assert_eq!(guessed(&text), if text.len() < 256 { None } else { is.clone() }, "{bytes}");
            for (width, end) in [(64, "\n"), (76, "\r\n"), (40, "\n"), (60, "\r\n")] {
                let lines: Vec<&str> = text
                    .as_bytes()
                    .chunks(width)
                    .map(|line| std::str::from_utf8(line).unwrap())
                    .collect();
                for wrapped in [lines.join(end), lines.join(end) + end] {
                    let expected = if wrapped.len() < 256 { None } else { is.clone() };
                    assert_eq!(guessed(&wrapped), expected, "{bytes} {width}");
                }
            }
        }
    }

    #[test]
    fn a_data_uri_and_well_known_beginnings_name_their_type() {
        let named = |text: &str| guessed(text).map(|(kind, size)| format!("{kind} {size}"));
        let uri = format!("data:image/svg+xml;charset=utf-8;base64,{}", base64(10));
        assert_eq!(named(&uri).as_deref(), Some("image/svg+xml 10"));
        let long = format!("data:;base64,{}", base64(1000));
        assert_eq!(named(&long).as_deref(), Some("application/octet-stream 1000"));
        let png = format!("iVBORw0KGgo{}", &base64(1000)[11..]);
        assert_eq!(named(&png).as_deref(), Some("image/png 1000"));
    }

    #[test]
    fn other_texts_are_not_guessed() {
        let words = "One of 7 Words ".repeat(40);
        for text in [
            "GATTACA".repeat(90),
            "0123456789abcdef".repeat(40),
            words,
            "/srv/photos/2026/".repeat(40),
            "data:text/plain,hello".to_owned(),
            format!("{}\n\n{}", base64(60), base64(600)),
            format!("{} and more", base64(600)),
            "é".repeat(300),
            String::new(),
        ] {
            let chars: Vec<char> = text.chars().collect();
            let head: String = chars.iter().take(256).collect();
            let tail: String = chars[chars.len().saturating_sub(8)..].iter().collect();
            assert_eq!(guess(&head, &tail, chars.len() as u64), None, "{head}");
        }
    }
}
