//! A message of mail, from its bytes to fields.
//!
//! *Shape*: `message_id` (the key), `date`, `from`, `to`, `cc`, `subject`, `in_reply_to`,
//! `in_reply_to_ref`, `thread`, `thread_ref`, `labels`, `body`, `attachments`; what a message does
//! not have is absent. A message without an identifier, or with one that is too long to be a key,
//! has `sha256:` and the digest of its bytes. `thread` is the first message that it refers to, or
//! else the one that it answers, or else itself.

use stile_domain::hash::ContentHash;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::attachment::Attachment;
use super::known::Place;

mod date;
mod header;
mod html;
mod parts;
#[cfg(test)]
mod tests;

use header::Header;
use parts::Found;

/// The most bytes of a header. Programs that deliver mail allow a tenth of it.
const MAX_HEADER_BYTES: usize = 1024 * 1024;
/// The longest identifier that is used as it is; the rest of a key's 512 bytes is for the mark of a
/// second version.
const MAX_ID_BYTES: usize = 480;

/// A message that was read.
#[derive(Debug)]
pub struct Mail {
    /// Its fields.
    pub fields: RecordFields,
    /// What is attached to it.
    pub attachments: Vec<Attachment>,
}

/// Why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// It has no header.
    #[error("the message has no header")]
    NoHeader,
    /// It, or a part of it, has a header of more than 1 MiB.
    #[error("a header of the message has more than 1 MiB")]
    HeaderTooLarge,
    /// It has too many parts.
    #[error("the message has more than 1,000 parts")]
    TooManyParts,
}

impl BadMessage {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoHeader => "no_header",
            Self::HeaderTooLarge => "header_too_large",
            Self::TooManyParts => "too_many_parts",
        }
    }
}

/// Reads a message.
///
/// # Errors
/// [`BadMessage`].
pub fn read(raw: &[u8], place: &Place) -> Result<Mail, BadMessage> {
    let header = Header::of(raw);
    if header.length > MAX_HEADER_BYTES {
        return Err(BadMessage::HeaderTooLarge);
    }
    if header.is_empty() {
        return Err(BadMessage::NoHeader);
    }
    let mut found = Found::default();
    let body = found.part(raw, ("text", "plain"), 0)?.read();
    let fits = |id: &String| id.len() <= MAX_ID_BYTES;
    let first = |name: &str| header.ids(name).into_iter().find(fits);
    let id = first("message-id").unwrap_or_else(|| format!("sha256:{}", ContentHash::digest(raw)));
    let answered = first("in-reply-to");
    let thread = first("references").or_else(|| answered.clone()).unwrap_or_else(|| id.clone());
    let answered_ref = answered.as_ref().map(|answered| place.reference(answered));
    let thread_ref = (thread != id).then(|| place.reference(&thread));
    let text = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("message_id", Some(FieldValue::Text(id))),
        ("date", text(header.plain("date").and_then(|date| date::read(&date)))),
        ("from", text(header.addresses("from"))),
        ("to", text(header.addresses("to"))),
        ("cc", text(header.addresses("cc"))),
        ("subject", text(header.text("subject"))),
        ("in_reply_to", text(answered)),
        ("in_reply_to_ref", answered_ref),
        ("thread", Some(FieldValue::Text(thread))),
        ("thread_ref", thread_ref),
        ("labels", text(header.text("x-gmail-labels"))),
        ("body", text(body)),
        ("attachments", Attachment::references(&found.attachments, &[])),
    ];
    let fields =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Ok(Mail { fields, attachments: found.attachments })
}
