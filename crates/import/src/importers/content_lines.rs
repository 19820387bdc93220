//! The lines of calendars and contacts: a name, parameters and a value, folded where they are long.
//!
//! *Source*: RFC 5545, section 3.1; RFC 6350, section 3.2; vCard 2.1, section 2.1.3 for
//! quoted-printable values.

use std::borrow::Cow;

use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use serde_json::Value;
use stile_domain::records::value::FieldValue;

use super::whole_file::ReadRow;
use crate::charset::decode_text;
use crate::importer::{ImportRow, UnusableRow};

/// A line, as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentLine {
    /// The number of its first line in the file, from 1.
    pub(super) number: u64,
    /// The name in upper case, without the group that it may belong to.
    pub(super) name: String,
    parameters: Vec<(String, String)>,
    /// The value as it stands, with escapes.
    pub(super) value: String,
}

impl ContentLine {
    /// Returns a parameter; its name is in upper case.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value without escapes.
    pub(super) fn text(&self) -> String {
        unescaped(&self.value)
    }

    /// Returns the values of a list, or the components of a structured value, without escapes.
    pub(super) fn parts(&self, separator: char) -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut is_escaped = false;
        for character in self.value.chars() {
            if character == separator && !is_escaped {
                parts.push(String::new());
            } else if let Some(part) = parts.last_mut() {
                part.push(character);
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        parts.iter().map(|part| unescaped(part)).collect()
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n' | 'N') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            (other, false) => plain.push(other),
        }
    }
    plain.trim().to_owned()
}

/// Returns the lines of a file.
///
/// Lines are unfolded before they are decoded, since some programs fold within a character.
fn content_lines(bytes: &[u8]) -> Vec<ContentLine> {
    let mut lines: Vec<(u64, Cow<'_, [u8]>)> = Vec::new();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_soft = lines.last().is_some_and(|(_, before)| is_soft_break(before));
        match (lines.last_mut(), line) {
            (Some((_, before)), line) if is_soft => {
                let before = before.to_mut();
                before.pop();
                before.extend_from_slice(line);
            }
            (Some((_, before)), [b' ' | b'\t', rest @ ..]) => {
                before.to_mut().extend_from_slice(rest);
            }
            _ => lines.push((number, line.into())),
        }
    }
    let read =
        |(number, line): &(u64, Cow<'_, [u8]>)| content_line(*number, &decode_text(line, None));
    lines.iter().filter_map(read).collect()
}

/// Whether a quoted-printable value goes on in the next line.
fn is_soft_break(line: &[u8]) -> bool {
    let head = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let head = String::from_utf8_lossy(head).to_ascii_uppercase();
    line.ends_with(b"=") && head.contains("QUOTED-PRINTABLE")
}

fn content_line(number: u64, line: &str) -> Option<ContentLine> {
    let mut is_quoted = false;
    let colon = line.char_indices().find(|(_, character)| {
        is_quoted ^= *character == '"';
        *character == ':' && !is_quoted
    });
    let (head, value) = line.split_at(colon?.0);
    let value = value.strip_prefix(':')?.to_owned();
    let mut parts = split_unquoted(head);
    let name = parts.next()?.rsplit('.').next()?.trim().to_ascii_uppercase();
    let parameter = |part: &str| match part.split_once('=') {
        Some((name, value)) => (name.to_ascii_uppercase(), value.trim_matches('"').to_owned()),
        // vCard 2.1 writes encodings and types without their names.
        None if part.eq_ignore_ascii_case("QUOTED-PRINTABLE") => {
            ("ENCODING".to_owned(), part.to_owned())
        }
        None => ("TYPE".to_owned(), part.to_owned()),
    };
    let parameters = parts.map(parameter).collect();
    let mut line = ContentLine { number, name, parameters, value };
    let encoding = line.parameter("ENCODING").unwrap_or_default();
    if encoding.eq_ignore_ascii_case("QUOTED-PRINTABLE")
        && let Some(bytes) = quoted_printable_decode(line.value.as_bytes())
    {
        line.value = decode_text(&bytes, line.parameter("CHARSET")).into_owned();
    }
    Some(line)
}

fn split_unquoted(head: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    head.split(move |character: char| {
        is_quoted ^= character == '"';
        character == ';' && !is_quoted
    })
}

/// A component, such as an event or a card: what stands between its `BEGIN` and its `END`.
pub(super) struct Component {
    /// The line of its `BEGIN`.
    pub(super) number: u64,
    /// What it is, in words.
    pub(super) kind: &'static str,
    pub(super) lines: Vec<ContentLine>,
    has_end: bool,
}

impl Component {
    /// Returns the row that `make` makes of the lines, or that the component was cut off.
    pub(super) fn row(&self, make: impl FnOnce(&[ContentLine]) -> ImportRow) -> ReadRow {
        let cut = || UnusableRow::new("cut_off", format!("the {} does not end", self.kind));
        (self.number, if self.has_end { Ok(make(&self.lines)) } else { Err(cut()) })
    }
}

/// Splits a file into the components with these names, and the lines that belong to none of them.
/// What lies within a component, such as an alarm, is left out.
pub(super) fn components(
    bytes: &[u8],
    names: &[(&str, &'static str)],
) -> (Vec<Component>, Vec<ContentLine>) {
    let (mut found, mut others): (Vec<Component>, Vec<ContentLine>) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for line in content_lines(bytes) {
        let value = line.value.trim();
        let named = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
        let open = found.last_mut().filter(|last| !last.has_end);
        match (line.name.as_str(), open, named) {
            ("BEGIN", None, Some((_, kind))) => {
                let (number, lines) = (line.number, Vec::new());
                found.push(Component { number, kind, lines, has_end: false });
            }
            ("BEGIN", Some(_), _) => depth += 1,
            ("END", Some(_), _) if depth > 0 => depth -= 1,
            ("END", Some(open), Some(_)) => open.has_end = true,
            (_, Some(open), _) if depth == 0 => open.lines.push(line),
            (_, Some(_), _) => {}
            (_, None, _) => others.push(line),
        }
    }
    (found, others)
}

/// Returns texts as the value of a field; `None` if there is none.
pub(super) fn list(texts: Vec<String>) -> Option<FieldValue> {
    let texts: Vec<Value> =
        texts.into_iter().filter(|text| !text.is_empty()).map(Value::from).collect();
    (!texts.is_empty()).then(|| FieldValue::Json(Value::from(texts).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_unfolded_split_and_unescaped() {
        let text = "BEGIN:VCARD\r\nitem1.EMAIL;TYPE=\"work;x\";PREF=1:ann@exam\r\n ple.org\r\n\
            NOTE:one\\, two\\nthree\\\\\r\nno colon\r\n\
            FN;CHARSET=utf-8;QUOTED-PRINTABLE:Z=C3=BC=\r\nrich\r\nADR:;;Main St\\; 1;Z;;8000;";
        let lines = content_lines(text.as_bytes());
        let shown: Vec<_> =
            lines.iter().map(|line| (line.number, line.name.as_str(), line.text())).collect();
        assert_eq!(shown[1], (2, "EMAIL", "ann@example.org".to_owned()));
        assert_eq!(shown[2], (4, "NOTE", "one, two\nthree\\".to_owned()));
        assert_eq!(shown[3], (6, "FN", "Zürich".to_owned()));
        assert_eq!(lines[1].parameter("TYPE"), Some("work;x"));
        assert_eq!(lines[4].parts(';'), ["", "", "Main St; 1", "Z", "", "8000", ""]);
        assert_eq!(list(vec![String::new()]), None);
        let android = "ADR;HOME;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=53=74=\r\n =C3=9F";
        assert_eq!(content_lines(android.as_bytes())[0].text(), "St ß");
        assert_eq!(content_lines(b"SUMMARY:M\xc3\r\n \xbcller")[0].text(), "Müller");
    }
}
