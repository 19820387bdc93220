//! What a message is made of: the text that a person reads, and what is attached to it.
//!
//! The structure is walked here and not by the mail library, whose time grows with the square of
//! what a hostile message has of parts, and whose recursion with their depth. Here each level is
//! scanned once, parts deeper than [`MAX_DEPTH`] are attached as they stand, and a message with
//! more than [`MAX_PARTS`] parts is none. Messages in messages are attached, not opened.
//!
//! *Source*: RFC 2046, section 5; RFC 2183.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use stile_domain::records::blob;

use super::header::{Content, Header, decoded};
use super::{BadMessage, MAX_HEADER_BYTES, html};
use crate::attachment::Attachment;

/// How deep parts may stand in each other before they are attached as they stand.
const MAX_DEPTH: usize = 32;
/// The most parts of a message.
pub(super) const MAX_PARTS: usize = 1000;
const ANYTHING: &str = "application/octet-stream";

/// What was found in a message.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What is attached, in its order.
    pub(super) attachments: Vec<Attachment>,
    parts: usize,
}

/// The text of a part.
#[derive(Debug)]
pub(super) enum Text {
    None,
    Plain(String),
    Html(String),
}

impl Text {
    /// As a person reads it.
    pub(super) fn read(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Plain(text) => Some(text),
            Self::Html(page) => Some(html::text(&page)),
        }
        .filter(|text| !text.is_empty())
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// What a part is by its header.
struct Kind {
    kind: String,
    subtype: String,
    content: Option<Content>,
    file_name: Option<String>,
    is_attached: bool,
}

impl Kind {
    fn of(header: &Header<'_>, default: (&str, &str)) -> Self {
        let content = header.content("content-type");
        let (kind, subtype) = match &content {
            Some(content) => (content.kind.clone(), content.subtype.clone()),
            None => (default.0.to_owned(), default.1.to_owned()),
        };
        let disposition = header.content("content-disposition");
        let named = |of: &Option<Content>, name| {
            of.as_ref().and_then(|of| of.parameter(name)).map(str::to_owned)
        };
        let file_name = named(&disposition, "filename").or_else(|| named(&content, "name"));
        let is_attached = disposition.is_some_and(|disposition| disposition.kind == "attachment")
            || file_name.is_some();
        Self { kind, subtype, content, file_name, is_attached }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.content.as_ref()?.parameter(name)
    }

    fn media_type(&self) -> String {
        blob::media_type(&format!("{}/{}", self.kind, self.subtype))
            .unwrap_or_else(|| ANYTHING.to_owned())
    }
}

impl Found {
    /// Walks a part with its header, and gives the text of it that is no attachment.
    pub(super) fn part(
        &mut self,
        part: &[u8],
        default: (&str, &str),
        depth: usize,
    ) -> Result<Text, BadMessage> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(BadMessage::TooManyParts);
        }
        let header = Header::of(part);
        if header.length > MAX_HEADER_BYTES {
            return Err(BadMessage::HeaderTooLarge);
        }
        let body = part.get(header.length..).unwrap_or_default();
        let kind = Kind::of(&header, default);
        if kind.kind == "multipart" && depth < MAX_DEPTH {
            let parts = kind
                .parameter("boundary")
                .map(|boundary| split(body, boundary.trim_end().as_bytes()));
            if let Some(parts) = parts.filter(|parts| !parts.is_empty()) {
                return self.multipart(&kind.subtype, &parts, depth + 1);
            }
            return Ok(Text::Plain(lines(decoded(body, None))));
        }
        let encoding = header.plain("content-transfer-encoding").unwrap_or_default();
        let bytes = unpacked(body, &encoding);
        let charset = kind.parameter("charset");
        match (kind.kind.as_str(), kind.subtype.as_str()) {
            ("text", "plain" | "markdown") if !kind.is_attached => {
                Ok(Text::Plain(lines(decoded(&bytes, charset))))
            }
            ("text", "html") if !kind.is_attached => {
                Ok(Text::Html(decoded(&bytes, charset).into_owned()))
            }
            _ => {
                self.attachments.push(Attachment::of(
                    bytes.into_owned(),
                    kind.media_type(),
                    kind.file_name,
                ));
                Ok(Text::None)
            }
        }
    }

    fn multipart(
        &mut self,
        subtype: &str,
        parts: &[&[u8]],
        depth: usize,
    ) -> Result<Text, BadMessage> {
        let default = if subtype == "digest" { ("message", "rfc822") } else { ("text", "plain") };
        let texts = parts
            .iter()
            .map(|part| self.part(part, default, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let mut texts = texts.into_iter().filter(|text| !text.is_none());
        if subtype == "alternative" {
            // The same in several forms: the plain one, or else the last, which is the richest.
            return Ok(texts
                .reduce(|one, next| if matches!(one, Text::Plain(_)) { one } else { next })
                .unwrap_or(Text::None));
        }
        let Some(first) = texts.next() else { return Ok(Text::None) };
        let more: Vec<String> = texts.filter_map(Text::read).collect();
        if more.is_empty() {
            return Ok(first);
        }
        let first = first.read().into_iter();
        Ok(Text::Plain(
            first
                .chain(more)
                .map(|text| text.trim_end().to_owned())
                .collect::<Vec<_>>()
                .join("\n\n"),
        ))
    }
}

/// The parts between the lines that are the boundary. The last one may be cut off; what stands
/// before the first line and behind the last belongs to nobody.
fn split<'b>(body: &'b [u8], boundary: &[u8]) -> Vec<&'b [u8]> {
    let mut parts = Vec::new();
    if boundary.is_empty() {
        return parts;
    }
    let mark = [b"--", boundary].concat();
    let mut begun: Option<usize> = None;
    for at in memchr::memmem::find_iter(body, &mark) {
        let before = body.get(..at).unwrap_or_default();
        // Asked first: what begins no line costs nothing more, so each line is looked through once.
        if !(before.is_empty() || before.ends_with(b"\n")) {
            continue;
        }
        let behind = body.get(at + mark.len()..).unwrap_or_default();
        let line = memchr::memchr(b'\n', behind).map_or(behind.len(), |at| at + 1);
        let tail = behind.get(..line).unwrap_or_default();
        let is_last = tail.starts_with(b"--");
        let tail = if is_last { tail.get(2..).unwrap_or_default() } else { tail };
        if !tail.trim_ascii().is_empty() {
            continue;
        }
        if let Some(begun) = begun.take() {
            // The line end before the boundary belongs to it.
            let end = at - if before.ends_with(b"\r\n") { 2 } else { 1 };
            parts.push(body.get(begun..end.max(begun)).unwrap_or_default());
        }
        if is_last || parts.len() > MAX_PARTS {
            return parts;
        }
        begun = Some(at + mark.len() + line);
    }
    parts.extend(begun.and_then(|begun| body.get(begun..)));
    parts
}

/// The bytes of a part before they were encoded. What is not encoded as it says is taken as it
/// stands.
fn unpacked<'b>(body: &'b [u8], encoding: &str) -> Cow<'b, [u8]> {
    if encoding.eq_ignore_ascii_case("base64") {
        // Decoders are to ignore what is no base64 (RFC 2045, section 6.8).
        let lenient = || {
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            base64_decode(&body.iter().copied().filter(fits).collect::<Vec<u8>>())
        };
        return base64_decode(body).or_else(lenient).map_or(Cow::Borrowed(body), Cow::Owned);
    }
    if encoding.eq_ignore_ascii_case("quoted-printable") {
        return quoted_printable_decode(body).map_or(Cow::Borrowed(body), Cow::Owned);
    }
    Cow::Borrowed(body)
}

/// A text whose lines end in LF.
fn lines(text: Cow<'_, str>) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n") } else { text.into_owned() }
}
