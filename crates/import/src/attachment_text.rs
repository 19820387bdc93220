//! The text of attachments: a field beside the bytes that is searched, read and granted like any
//! other.
//!
//! Whoever sends a mail chooses its attachments, so a document may be made to break the program
//! that reads it. PDF and Office documents are read in a child process with limits on its memory,
//! its time and its answer ([`child`]). A library that fails there costs the text of one
//! attachment. Plain text and HTML are read in time linear in their length, in this process.

use std::io::{self, Read as _};

use stile_domain::records::value::FieldValue;

use crate::attachment::Attachment;
use crate::charset::decode_text;
use crate::html;

mod cell_dates;
pub mod child;
mod document;
mod document_text;
mod office;
mod pdf;

pub use child::TextReader;
pub use document::DocumentKind;
use document_text::{NoText, prefix, tidy};

/// The field that holds the texts of a record's attachments.
pub const FIELD: &str = "attachment_text";

/// The most bytes of a document that is read.
const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The most bytes of the texts of one record's attachments. The rest is left out.
const MAX_TEXTS_BYTES: usize = 16 * 1024 * 1024;

/// The texts of a record's attachments, and how many could be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttachmentTexts {
    /// For each attachment with a text, its name in brackets on a line, and its text.
    pub text: String,
    /// How many attachments have a text.
    pub read: u64,
    /// How many documents have no text that could be read, by reason.
    pub unread: UnreadDocuments,
}

/// How many documents have no text that could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadDocuments {
    /// Damaged, encrypted, or not what their type says.
    pub damaged: u64,
    /// Too large, or too much work.
    pub too_large: u64,
    /// Documents of pages or paragraphs without any text, such as scanned pages.
    pub without_text: u64,
}

impl AttachmentTexts {
    /// Reads the texts of attachments. Without a reader, only those that need no child process.
    ///
    /// # Errors
    /// No child process can be started.
    pub fn of(attachments: &[Attachment], reader: Option<&TextReader>) -> io::Result<Self> {
        let mut texts = Self::default();
        for attachment in attachments {
            let Some(kind) = DocumentKind::of(attachment) else { continue };
            match text_of(attachment, kind, reader)? {
                None => {}
                Some(Ok(text)) if text.is_empty() => {
                    // An empty page of text or HTML lacks nothing.
                    texts.unread.without_text += u64::from(kind.name().is_some());
                }
                Some(Ok(text)) => {
                    texts.push(attachment.file_name().unwrap_or(attachment.media_type()), &text)
                }
                Some(Err(NoText::Damaged)) => texts.unread.damaged += 1,
                Some(Err(NoText::TooLarge)) => texts.unread.too_large += 1,
            }
        }
        Ok(texts)
    }

    /// Returns the texts as the value of a field. `None` if there is none.
    pub fn field(&self) -> Option<FieldValue> {
        (!self.text.is_empty()).then(|| FieldValue::Text(self.text.clone()))
    }

    fn push(&mut self, name: &str, text: &str) {
        let between = if self.text.is_empty() { "" } else { "\n\n" };
        let part = format!("{between}[{}]\n{text}", name.replace(['\r', '\n'], " "));
        let room = MAX_TEXTS_BYTES.saturating_sub(self.text.len());
        self.text.push_str(prefix(&part, room));
        self.read += 1;
    }
}

/// Returns the text of an attachment. `None` if that needs a child process and there is none.
fn text_of(
    attachment: &Attachment,
    kind: DocumentKind,
    reader: Option<&TextReader>,
) -> io::Result<Option<Result<String, NoText>>> {
    let mut bytes = Vec::new();
    let read = attachment
        .open()
        .and_then(|source| source.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes));
    // What cannot be read here cannot be stored either, which is reported then.
    if read.is_err() {
        return Ok(None);
    }
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Ok(Some(Err(NoText::TooLarge)));
    }
    let text = match (kind, reader) {
        (DocumentKind::Plain, _) => Ok(decode_text(&bytes, None).into_owned()),
        (DocumentKind::Html, _) => Ok(html::to_text(&decode_text(&bytes, None))),
        (_, None) => return Ok(None),
        (_, Some(reader)) => reader.read(kind, &bytes)?,
    };
    Ok(Some(text.map(|text| tidy(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_follows_the_name_of_its_file() {
        let file = |bytes: &str, media_type: &str, name: Option<&str>| {
            let name = name.map(str::to_owned);
            Attachment::in_memory(bytes.as_bytes().to_vec(), media_type.to_owned(), name)
        };
        let attachments = [
            file("<p>The <b>ferns</b>", "text/html", Some("a\nb.html")),
            file("moss\r\n", "text/plain", None),
            file("\u{1}\u{2}", "image/png", Some("photo.png")),
            file("date,cost\n1,2", "application/octet-stream", Some("Costs.CSV")),
            file(" \n", "text/plain", Some("empty.txt")),
        ];
        let texts = AttachmentTexts::of(&attachments, None).unwrap();
        let expected = "[a b.html]\nThe ferns\n\n[text/plain]\nmoss\n\n[Costs.CSV]\ndate,cost\n1,2";
        assert_eq!((texts.text.as_str(), texts.read), (expected, 3));
        assert_eq!(texts.unread, UnreadDocuments::default());
    }
}
