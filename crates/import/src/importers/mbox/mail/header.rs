//! Parses the header of a message or of a part: fields by name.
//!
//! This module splits the header into fields and gives each value to the parser of `mail-parser`
//! for its type, because those parsers can read past the end of a field. A value that is not UTF-8
//! is decoded as [`decode_text`] says. Raw bytes within an encoded word are in the charset of the
//! word.
//!
//! *Source*: RFC 5322, section 2.2.

use std::borrow::Cow;

use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, Address, HeaderValue};

use super::encoded_words;
use super::parameters::ParameterizedValue;
use crate::charset::decode_text;

#[derive(Debug)]
pub(super) struct Header<'m> {
    fields: Vec<(&'m [u8], &'m [u8])>,
    /// The length in bytes, with the empty line that ends the header.
    pub(super) length: usize,
}

impl<'m> Header<'m> {
    /// Parses the header at the beginning of a message or part. Lines that belong to no field are
    /// skipped.
    pub(super) fn parse(part: &'m [u8]) -> Self {
        let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
        let (mut at, mut open) = (0, None);
        while let Some(line) = part.get(at..).filter(|rest| !rest.is_empty()) {
            let length = memchr::memchr(b'\n', line).map_or(line.len(), |at| at + 1);
            let line = line.get(..length).unwrap_or_default();
            if matches!(line, b"\n" | b"\r\n") {
                close(&mut fields, part, open.take(), at);
                return Self { fields, length: at + length };
            }
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            if !is_folded {
                close(&mut fields, part, open.take(), at);
                open = memchr::memchr(b':', line).map(|colon| (at, at + colon));
            }
            at += length;
        }
        close(&mut fields, part, open, at);
        Self { fields, length: part.len() }
    }

    /// Returns whether there is no field.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the value of the first field of this name, with the line end that `mail-parser`
    /// needs.
    fn value(&self, name: &str) -> Option<Vec<u8>> {
        let (_, value) =
            self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))?;
        let mut bytes = match std::str::from_utf8(value) {
            Ok(_) => value.to_vec(),
            Err(_) => decode_text(&with_escaped_words(value), None).into_owned().into_bytes(),
        };
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Returns a text, with encoded words decoded (RFC 2047).
    pub(super) fn text(&self, name: &str) -> Option<String> {
        encoded_words::decoded(&self.value(name)?)
    }

    /// Returns a value that is not decoded, trimmed.
    pub(super) fn raw_text(&self, name: &str) -> Option<String> {
        String::from_utf8(self.value(name)?).ok().map(|text| text.trim().to_owned())
    }

    /// Returns addresses in one line: `Ann <ann@example.org>, bob@example.org`.
    pub(super) fn addresses(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let value = encoded_words::join(&value);
        let spelled: Vec<String> = match MessageStream::new(&value).parse_address() {
            HeaderValue::Address(Address::List(list)) => list.iter().filter_map(address).collect(),
            HeaderValue::Address(Address::Group(groups)) => {
                groups.iter().flat_map(|group| &group.addresses).filter_map(address).collect()
            }
            _ => Vec::new(),
        };
        Some(spelled.join(", ")).filter(|text| !text.is_empty())
    }

    /// Returns identifiers without `<` and `>`.
    pub(super) fn ids(&self, name: &str) -> Vec<String> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let ids = match MessageStream::new(&value).parse_id() {
            HeaderValue::Text(id) => vec![id.into_owned()],
            HeaderValue::TextList(ids) => ids.into_iter().map(Cow::into_owned).collect(),
            _ => Vec::new(),
        };
        ids.into_iter().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect()
    }

    /// Returns a media type or a disposition with its parameters (RFC 2045, RFC 2183, RFC 2231).
    pub(super) fn parameterized(&self, name: &str) -> Option<ParameterizedValue> {
        let value = self.value(name)?;
        ParameterizedValue::parse(&String::from_utf8_lossy(&value))
    }
}

/// Adds the open field, which ends at `end`.
fn close<'m>(
    fields: &mut Vec<(&'m [u8], &'m [u8])>,
    part: &'m [u8],
    open: Option<(usize, usize)>,
    end: usize,
) {
    let Some((begin, colon)) = open else { return };
    let name = part.get(begin..colon).unwrap_or_default().trim_ascii();
    fields.push((name, part.get(colon + 1..end).unwrap_or_default().trim_ascii()));
}

/// Escapes the bytes above 127 within encoded words of the encoding `Q` (RFC 2047, section 4.2), so
/// that they are decoded with the rest of the word. Some old programs left them as they were.
fn with_escaped_words(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(begin) = memchr::memmem::find(rest, b"=?") {
        let (before, word) = rest.split_at(begin);
        escaped.extend_from_slice(before);
        let Some(length) = length_of_word(word) else {
            escaped.extend_from_slice(b"=?");
            rest = word.get(2..).unwrap_or_default();
            continue;
        };
        let (word, after) = word.split_at(length);
        for &byte in word {
            if byte.is_ascii() {
                escaped.push(byte);
            } else {
                escaped.extend(format!("={byte:02X}").into_bytes());
            }
        }
        rest = after;
    }
    escaped.extend_from_slice(rest);
    escaped
}

/// Returns the length of the encoded word at the beginning, if its encoding is `Q`.
fn length_of_word(value: &[u8]) -> Option<usize> {
    let mut parts = value.get(2..)?.splitn(3, |&byte| byte == b'?');
    let (charset, encoding, text) = (parts.next()?, parts.next()?, parts.next()?);
    let end = memchr::memmem::find(text, b"?=")?;
    let is_word = charset.is_ascii() && encoding.eq_ignore_ascii_case(b"q");
    is_word.then_some(2 + charset.len() + 1 + encoding.len() + 1 + end + 2)
}

fn address(addr: &Addr<'_>) -> Option<String> {
    let text = |text: &Option<Cow<'_, str>>| {
        text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match (text(&addr.name), text(&addr.address)) {
        (Some(name), Some(address)) if name != address => {
            Some(format!("{} <{address}>", quoted_where_needed(name)))
        }
        (name, address) => address.or(name),
    }
}

/// Quotes a display name that holds a character which would end or begin something else in a list
/// of addresses (RFC 5322, section 3.2.3). A point needs no quotes, as in `J. Doe`.
fn quoted_where_needed(name: String) -> String {
    if !name.contains(['(', ')', '<', '>', '[', ']', ':', ';', '@', '\\', ',', '"']) {
        return name;
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
