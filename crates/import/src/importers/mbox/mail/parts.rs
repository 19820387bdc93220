//! Reads the parts of a message: its text and its attachments.
//!
//! This module walks the parts itself, because `mail-parser` takes time quadratic in the number of
//! parts and recurses as deep as they are nested, and a hostile sender chooses both. Here each
//! level is scanned once. Parts deeper than [`MAX_DEPTH`] are attached whole, and a message with
//! more than [`MAX_PARTS`] parts is refused. A message in a message is attached whole.
//!
//! *Source*: RFC 2046, section 5; RFC 2183.

use std::borrow::Cow;

use stile_domain::records::blob;

use super::header::Header;
use super::parameters::ParameterizedValue;
use super::transfer_encoding;
use crate::attachment::Attachment;
use crate::charset::decode_text;
use crate::html;

/// The most bytes of a header. Mail servers allow a tenth of that.
pub(super) const MAX_HEADER_BYTES: usize = 1024 * 1024;
/// How deep parts are walked.
const MAX_DEPTH: usize = 32;
/// How many parts a message may have.
const MAX_PARTS: usize = 1000;
const ANY_TYPE: &str = "application/octet-stream";

/// Why a message of mail is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// The message does not begin with a header field.
    #[error(
        "the message has no header: a message begins with lines such as `From: ann@example.org`"
    )]
    NoHeader,
    /// The header of the message or of a part has more than 1 MiB.
    #[error("a header of the message has more than 1 MiB")]
    HeaderTooLarge,
    /// The message has more than 1,000 parts.
    #[error("the message has more than 1,000 parts")]
    TooManyParts,
}

impl MailError {
    /// Returns the stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoHeader => "no_header",
            Self::HeaderTooLarge => "header_too_large",
            Self::TooManyParts => "too_many_parts",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct MessageParts {
    /// The attachments, in the order of the message.
    pub(super) attachments: Vec<Attachment>,
    parts: usize,
}

#[derive(Debug)]
pub(super) enum PartText {
    None,
    Plain(String),
    Html(String),
}

impl PartText {
    /// Returns the text without markup; `None` if it is empty.
    pub(super) fn into_plain(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Plain(text) => Some(text),
            Self::Html(page) => Some(html::to_text(&page)),
        }
        .filter(|text| !text.is_empty())
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The header fields of a part that decide how it is read.
struct PartHeader {
    kind: String,
    subtype: String,
    content_type: Option<ParameterizedValue>,
    file_name: Option<String>,
    is_attached: bool,
}

impl PartHeader {
    fn new(header: &Header<'_>, default: (&str, &str)) -> Self {
        let content_type = header.parameterized("content-type");
        let (kind, subtype) = match &content_type {
            Some(value) => (value.kind.clone(), value.subtype.clone()),
            None => (default.0.to_owned(), default.1.to_owned()),
        };
        let disposition = header.parameterized("content-disposition");
        let parameter = |value: &Option<ParameterizedValue>, name| {
            value.as_ref().and_then(|value| value.parameter(name)).map(str::to_owned)
        };
        let file_name =
            parameter(&disposition, "filename").or_else(|| parameter(&content_type, "name"));
        let is_attached = disposition.is_some_and(|disposition| disposition.kind == "attachment")
            || file_name.is_some();
        Self { kind, subtype, content_type, file_name, is_attached }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.content_type.as_ref()?.parameter(name)
    }

    fn media_type(&self) -> String {
        blob::media_type(&format!("{}/{}", self.kind, self.subtype))
            .unwrap_or_else(|| ANY_TYPE.to_owned())
    }
}

impl MessageParts {
    /// Reads a part with its header and the parts in it, and returns the text that is not attached.
    /// `default` is the media type of a part without one.
    pub(super) fn read(
        &mut self,
        part: &[u8],
        default: (&str, &str),
        depth: usize,
    ) -> Result<PartText, MailError> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(MailError::TooManyParts);
        }
        let header = Header::parse(part);
        if header.length > MAX_HEADER_BYTES {
            return Err(MailError::HeaderTooLarge);
        }
        let body = part.get(header.length..).unwrap_or_default();
        let part = PartHeader::new(&header, default);
        if part.kind == "multipart" && depth < MAX_DEPTH {
            let parts = part
                .parameter("boundary")
                .map(|boundary| split(body, boundary.trim_end().as_bytes()));
            if let Some(parts) = parts.filter(|parts| !parts.is_empty()) {
                return self.multipart(&part.subtype, &parts, depth + 1);
            }
            return Ok(PartText::Plain(with_lf(decode_text(body, None))));
        }
        let encoding = header.raw_text("content-transfer-encoding").unwrap_or_default();
        let bytes = transfer_encoding::undo(body, &encoding);
        let charset = part.parameter("charset");
        match (part.kind.as_str(), part.subtype.as_str()) {
            ("text", "plain" | "markdown") if !part.is_attached => {
                Ok(PartText::Plain(with_lf(decode_text(&bytes, charset))))
            }
            ("text", "html") if !part.is_attached => {
                Ok(PartText::Html(decode_text(&bytes, charset).into_owned()))
            }
            _ => {
                self.attachments.push(Attachment::in_memory(
                    bytes.into_owned(),
                    part.media_type(),
                    part.file_name,
                ));
                Ok(PartText::None)
            }
        }
    }

    fn multipart(
        &mut self,
        subtype: &str,
        parts: &[&[u8]],
        depth: usize,
    ) -> Result<PartText, MailError> {
        let default = if subtype == "digest" { ("message", "rfc822") } else { ("text", "plain") };
        let texts = parts
            .iter()
            .map(|part| self.read(part, default, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let mut texts = texts.into_iter().filter(|text| !text.is_none());
        if subtype == "alternative" {
            // One text in several forms. Plain text is preferred, then the last form, which is the
            // richest.
            return Ok(texts
                .reduce(|one, next| if matches!(one, PartText::Plain(_)) { one } else { next })
                .unwrap_or(PartText::None));
        }
        let Some(first) = texts.next() else { return Ok(PartText::None) };
        let more: Vec<String> = texts.filter_map(PartText::into_plain).collect();
        if more.is_empty() {
            return Ok(first);
        }
        let first = first.into_plain().into_iter();
        Ok(PartText::Plain(
            first
                .chain(more)
                .map(|text| text.trim_end().to_owned())
                .collect::<Vec<_>>()
                .join("\n\n"),
        ))
    }
}

/// Returns the parts between the lines with the boundary. The last part may be cut off. What comes
/// before the first boundary and after the last is ignored.
fn split<'b>(body: &'b [u8], boundary: &[u8]) -> Vec<&'b [u8]> {
    let mut parts = Vec::new();
    if boundary.is_empty() {
        return parts;
    }
    let delimiter = [b"--", boundary].concat();
    let mut begun: Option<usize> = None;
    for at in memchr::memmem::find_iter(body, &delimiter) {
        let before = body.get(..at).unwrap_or_default();
        // Checked first, so that each line is searched for its end at most once.
        if !(before.is_empty() || before.ends_with(b"\n")) {
            continue;
        }
        let behind = body.get(at + delimiter.len()..).unwrap_or_default();
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
        begun = Some(at + delimiter.len() + line);
    }
    parts.extend(begun.and_then(|begun| body.get(begun..)));
    parts
}

/// Replaces CRLF by LF.
fn with_lf(text: Cow<'_, str>) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n") } else { text.into_owned() }
}
