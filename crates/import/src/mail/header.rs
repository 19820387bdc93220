//! The header of a message or of a part of one: fields by name, each read by the library's reader
//! for its kind.
//!
//! The header is taken apart here, since a reader that is given all of it may go past the end of a
//! field. A value that is not UTF-8 is read as windows-1252, as mail programs do.
//!
//! *Source*: RFC 5322, section 2.2.

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, Address, ContentType, HeaderValue};

/// A header.
#[derive(Debug)]
pub(super) struct Header<'m> {
    fields: Vec<(&'m [u8], &'m [u8])>,
    /// How long it is, with the empty line behind it.
    pub(super) length: usize,
}

impl<'m> Header<'m> {
    /// Takes the header of a message or part apart. Lines that belong to no field are passed over.
    pub(super) fn of(part: &'m [u8]) -> Self {
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

    /// Whether there is any field.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of the first field of this name, with the line end that the library's readers
    /// need.
    fn value(&self, name: &str) -> Option<Vec<u8>> {
        let (_, value) =
            self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))?;
        let mut bytes = match std::str::from_utf8(value) {
            Ok(_) => value.to_vec(),
            Err(_) => decoded(value, None).into_owned().into_bytes(),
        };
        bytes.push(b'\n');
        Some(bytes)
    }

    /// A text, with encoded words decoded (RFC 2047).
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        match MessageStream::new(&value).parse_unstructured() {
            HeaderValue::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The value as it stands.
    pub(super) fn plain(&self, name: &str) -> Option<String> {
        String::from_utf8(self.value(name)?).ok().map(|text| text.trim().to_owned())
    }

    /// Addresses in a line: `Ann <ann@example.org>, bob@example.org`.
    pub(super) fn addresses(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let spelled: Vec<String> = match MessageStream::new(&value).parse_address() {
            HeaderValue::Address(Address::List(list)) => list.iter().filter_map(address).collect(),
            HeaderValue::Address(Address::Group(groups)) => {
                groups.iter().flat_map(|group| &group.addresses).filter_map(address).collect()
            }
            _ => Vec::new(),
        };
        Some(spelled.join(", ")).filter(|text| !text.is_empty())
    }

    /// Identifiers without their `<` and `>`.
    pub(super) fn ids(&self, name: &str) -> Vec<String> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let ids = match MessageStream::new(&value).parse_id() {
            HeaderValue::Text(id) => vec![id.into_owned()],
            HeaderValue::TextList(ids) => ids.into_iter().map(Cow::into_owned).collect(),
            _ => Vec::new(),
        };
        ids.into_iter().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect()
    }

    /// A media type or a disposition, with its parameters (RFC 2045, RFC 2183, RFC 2231).
    pub(super) fn content(&self, name: &str) -> Option<Content> {
        let value = self.value(name)?;
        match MessageStream::new(&value).parse_content_type() {
            HeaderValue::ContentType(content) => Some(Content::of(&content)),
            _ => None,
        }
    }
}

/// What a part is, or how it is to be shown.
#[derive(Debug)]
pub(super) struct Content {
    /// Of `text/plain` the `text`; in lower case.
    pub(super) kind: String,
    /// Of `text/plain` the `plain`; in lower case.
    pub(super) subtype: String,
    parameters: Vec<(String, String)>,
}

impl Content {
    fn of(content: &ContentType<'_>) -> Self {
        let parameters = content.attributes().unwrap_or_default().iter();
        Self {
            kind: content.ctype().to_ascii_lowercase(),
            subtype: content.subtype().unwrap_or_default().to_ascii_lowercase(),
            parameters: parameters
                .map(|own| (own.name.to_ascii_lowercase(), own.value.to_string()))
                .collect(),
        }
    }

    /// A parameter that is not empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let named = self.parameters.iter().find(|(own, _)| own == name);
        named.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Notes a field that ends where the next one begins.
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

fn address(addr: &Addr<'_>) -> Option<String> {
    let text = |text: &Option<Cow<'_, str>>| {
        text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match (text(&addr.name), text(&addr.address)) {
        (Some(name), Some(address)) if name != address => Some(format!("{name} <{address}>")),
        (name, address) => address.or(name),
    }
}

/// Bytes as text. Without a charset that is known they are UTF-8 or, where they are not,
/// windows-1252.
pub(super) fn decoded<'b>(bytes: &'b [u8], charset: Option<&str>) -> Cow<'b, str> {
    let is_utf8 = |name: &&str| {
        !["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let named = charset.filter(is_utf8).and_then(|name| charset_decoder(name.as_bytes()));
    if let Some(decode) = named {
        return Cow::Owned(decode(bytes));
    }
    match (std::str::from_utf8(bytes), charset_decoder(b"windows-1252")) {
        (Ok(text), _) => Cow::Borrowed(text),
        (Err(_), Some(decode)) => Cow::Owned(decode(bytes)),
        (Err(_), None) => String::from_utf8_lossy(bytes),
    }
}
