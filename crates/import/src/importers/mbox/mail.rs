//! Reads a message of mail: its header, its text and its attachments.
//!
//! *Shape*: `message_id` (the key), `date`, `from`, `to`, `cc`, `subject`, `in_reply_to`,
//! `in_reply_to_ref`, `thread`, `thread_ref`, `labels`, `body`, `attachments`. A field is absent if
//! the message does not have it. A message without an identifier, or with one that is too long for
//! a key, gets `sha256:` and the digest of its bytes. A message without a `Date` that can be read
//! has the time of its last `Received`, which is the first of the header, or else its `Date` as it
//! is written. `thread` is the first identifier in `References`, or else the one in `In-Reply-To`,
//! or else the message's own.

use stile_domain::hash::ContentHash;
use stile_domain::records::value::FieldValue;

use crate::attachment::Attachment;
use crate::importer::{ImportRow, ImportTarget};

mod date;
mod encoded_words;
mod header;
mod parameters;

mod parts;
#[cfg(test)]
mod tests;
mod transfer_encoding;

use header::Header;
pub use parts::MailError;
use parts::{MAX_HEADER_BYTES, MessageParts};

/// The longest identifier that becomes a key, in bytes. The rest of a key's 512 bytes is for the
/// suffix of a second version.
const MAX_ID_BYTES: usize = 480;

/// Reads a message. References to other messages name the target.
pub fn read(raw: &[u8], target: &ImportTarget) -> Result<ImportRow, MailError> {
    let header = header_of(raw)?;
    let mut parts = MessageParts::default();
    let body = parts.read(raw, ("text", "plain"), 0)?.into_plain();
    let fits = |id: &String| id.len() <= MAX_ID_BYTES;
    let first = |name: &str| header.ids(name).into_iter().find(fits);
    let id = first("message-id").unwrap_or_else(|| format!("sha256:{}", ContentHash::digest(raw)));
    let answered = first("in-reply-to");
    let thread = first("references").or_else(|| answered.clone()).unwrap_or_else(|| id.clone());
    let answered_ref = answered.as_ref().map(|answered| target.reference(answered));
    let thread_ref = (thread != id).then(|| target.reference(&thread));
    let text = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("message_id", Some(FieldValue::Text(id))),
        ("date", text(date(&header))),
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
        ("attachments", Attachment::references(&parts.attachments, &[])),
    ];
    Ok(ImportRow::from_message(fields, parts.attachments))
}

/// Returns a message as a person reads it: who, when and about what, the text, and the names of
/// what is attached.
pub fn as_text(raw: &[u8]) -> Result<String, MailError> {
    let header = header_of(raw)?;
    let mut parts = MessageParts::default();
    let body = parts.read(raw, ("text", "plain"), 0)?.into_plain();
    let lines = [
        ("From", header.addresses("from")),
        ("To", header.addresses("to")),
        ("Cc", header.addresses("cc")),
        ("Date", date(&header)),
        ("Subject", header.text("subject")),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let value = value.map(|value| format!("{name}: {value}\n"));
        text.push_str(value.as_deref().unwrap_or_default());
    }
    text.push_str(&format!("\n{}\n", body.unwrap_or_default()));
    for attachment in &parts.attachments {
        let name = attachment.file_name().unwrap_or(attachment.media_type());
        text.push_str(&format!("\n[{name}]"));
    }
    Ok(text)
}

fn header_of(raw: &[u8]) -> Result<Header<'_>, MailError> {
    let header = Header::parse(raw);
    if header.length > MAX_HEADER_BYTES {
        return Err(MailError::HeaderTooLarge);
    }
    if header.is_empty() { Err(MailError::NoHeader) } else { Ok(header) }
}

/// Returns when a message was sent or, if its header does not say so, when it was received last.
fn date(header: &Header<'_>) -> Option<String> {
    let received = || {
        let received = header.raw_text("received")?;
        date::to_rfc3339(received.rsplit_once(';')?.1)
    };
    match header.raw_text("date").filter(|date| !date.is_empty()) {
        None => received(),
        // What nobody can read is kept, and counted as a value that does not fit.
        Some(date) => date::to_rfc3339(&date).or_else(received).or(Some(date)),
    }
}
