//! The text of attachments: a field beside the bytes that is searched, read and granted like any
//! other. It names every file, so that a search finds those that have no text too.
//!
//! Whoever sends a mail chooses its attachments, so a document may be made to break the program
//! that reads it. PDF and Office documents are read in a child process with limits on its memory,
//! its time and its answer ([`child`]). A library that fails there costs the text of one
//! attachment. Plain text and HTML are read in time linear in their length, in this process.

use std::io::{self, Read as _};

use stile_domain::byte_size::beginning;
use stile_domain::document::{DocumentKind, NoText};
use stile_domain::records::value::FieldValue;

use crate::attachment::Attachment;

mod cell_dates;
pub mod child;
mod epub;
mod in_process;
mod office;
mod package;
mod pdf;
mod rtf;
mod tidy;

pub use child::TextReader;
use in_process::in_this_process;
use tidy::without_labels;

/// The most bytes of a document that is read.
const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The most bytes of the texts of one record's attachments. The rest is left out, but for the names
/// of the files.
const MAX_TEXTS_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of the name of a file. A row has at most 1,000 files.
const MAX_NAME_BYTES: usize = 1024;

/// The texts of a record's attachments, and how many could be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttachmentTexts {
    /// For each attachment its name in brackets on a line, and its text if it could be read.
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
    /// Reads the names and texts of attachments. Without a reader, the texts of those alone that
    /// need no child process.
    ///
    /// # Errors
    /// No child process can be started.
    pub fn of(attachments: &[Attachment], reader: Option<&TextReader>) -> io::Result<Self> {
        let mut texts = Self::default();
        for attachment in attachments {
            let kind = kind_of(attachment);
            let text = match kind {
                Some(_) if texts.text.len() >= MAX_TEXTS_BYTES => Some(Err(NoText::TooLarge)),
                Some(kind) => text_of(attachment, kind, reader)?,
                None => None,
            };
            match text {
                Some(Ok(text)) if !text.is_empty() => {
                    texts.push(attachment, &text);
                    continue;
                }
                Some(Ok(_)) => {
                    // An empty page of text or HTML lacks nothing.
                    let lacks_text = kind.is_some_and(|kind| kind.name().is_some());
                    texts.unread.without_text += u64::from(lacks_text);
                }
                Some(Err(NoText::Damaged)) => texts.unread.damaged += 1,
                Some(Err(NoText::TooLarge | NoText::NotNow)) => texts.unread.too_large += 1,
                None => {}
            }
            if let Some(name) = attachment.file_name() {
                texts.push_name(name);
            }
        }
        Ok(texts)
    }

    /// Returns names and texts as the value of a field. `None` if there is none.
    pub fn field(&self) -> Option<FieldValue> {
        (!self.text.is_empty()).then(|| FieldValue::Text(self.text.clone()))
    }

    /// Adds a text below the name of its file, as much of it as there is room for.
    fn push(&mut self, attachment: &Attachment, text: &str) {
        self.push_name(attachment.file_name().unwrap_or(attachment.media_type()));
        match beginning(text, MAX_TEXTS_BYTES.saturating_sub(self.text.len())) {
            "" => self.unread.too_large += 1,
            text => {
                self.text.push('\n');
                self.text.push_str(text);
                self.read += 1;
            }
        }
    }

    fn push_name(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let name = beginning(name, MAX_NAME_BYTES).replace(char::is_control, " ");
        self.text.push_str(&format!("[{name}]"));
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
    let read = match (in_this_process(kind, &bytes), reader) {
        (Some(read), _) => read,
        (None, None) => return Ok(None),
        (None, Some(reader)) => reader.read(kind, &bytes)?,
    };
    Ok(Some(read.map(|read| without_labels(&read.parts))))
}

/// Recognises an attached document.
pub(crate) fn kind_of(attachment: &Attachment) -> Option<DocumentKind> {
    DocumentKind::recognise(attachment.media_type(), attachment.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_named_and_each_text_follows_the_name_of_its_file() {
        let file = |bytes: &str, media_type: &str, name: Option<&str>| {
            let name = name.map(str::to_owned);
            Attachment::in_memory(bytes.as_bytes().to_vec(), media_type.to_owned(), name)
        };
        let attachments = [
            file(
                "<TITLE>Beds &amp; paths</TITLE>\n<p>The <b>ferns</b>",
                "text/html",
                Some("a\nb.html"),
            ),
            file("moss\r\n", "text/plain", None),
            file("\u{1}\u{2}", "image/png", Some("photo.png")),
            file("\u{1}\u{2}", "image/png", None),
            file("%PDF-1.4", "application/pdf", Some("a\r\nb.pdf")),
            file("date,cost\n1,2", "application/octet-stream", Some("Costs.CSV")),
            file(" \n", "text/plain", Some("empty.txt")),
        ];
        let texts = AttachmentTexts::of(&attachments, None).unwrap();
        let expected = "[a b.html]\nBeds & paths\nThe ferns\n\n[text/plain]\nmoss\n\n[photo.png]\n\n[a  b.pdf]\n\n\
            [Costs.CSV]\ndate,cost\n1,2\n\n[empty.txt]";
        assert_eq!((texts.text.as_str(), texts.read), (expected, 3));
        assert_eq!(texts.unread, UnreadDocuments::default());
        let unnamed = [file("\u{1}", "image/png", None)];
        assert_eq!(AttachmentTexts::of(&unnamed, None).unwrap().field(), None);
        assert_eq!(AttachmentTexts::of(&[], None).unwrap().field(), None);
    }

    #[test]
    fn names_are_kept_where_the_texts_are_cut() {
        let file = |bytes: Vec<u8>, name: &str| {
            Attachment::in_memory(bytes, "text/plain".to_owned(), Some(name.to_owned()))
        };
        let long = vec![b'x'; MAX_TEXTS_BYTES / 4];
        let mut attachments: Vec<_> =
            (0..6).map(|number| file(long.clone(), &format!("{number}.txt"))).collect();
        attachments.push(file(b"the end".to_vec(), "last.txt"));
        let text = AttachmentTexts::of(&attachments, None).unwrap().text;
        assert!(text.len() <= MAX_TEXTS_BYTES + MAX_NAME_BYTES, "{}", text.len());
        assert!(
            text.ends_with("x\n\n[4.txt]\n\n[5.txt]\n\n[last.txt]"),
            "{}",
            &text[text.len() - 60..]
        );
    }
}
