//! The kinds of documents whose text can be read, and how a file is recognised as one.

use crate::attachment::Attachment;

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// A text that is shown as it stands.
    Plain,
    /// A page of HTML.
    Html,
    /// A PDF document.
    Pdf,
    /// A text document, a table or slides of Office Open XML.
    OfficeOpenXml,
    /// The same in the OpenDocument format.
    OpenDocument,
}

/// The kinds that a child process reads, with their names on its command line.
const NAMES: [(&str, DocumentKind); 3] = [
    ("pdf", DocumentKind::Pdf),
    ("ooxml", DocumentKind::OfficeOpenXml),
    ("odf", DocumentKind::OpenDocument),
];

const EXTENSIONS: [(&str, DocumentKind); 15] = [
    ("txt", DocumentKind::Plain),
    ("text", DocumentKind::Plain),
    ("md", DocumentKind::Plain),
    ("csv", DocumentKind::Plain),
    ("tsv", DocumentKind::Plain),
    ("ics", DocumentKind::Plain),
    ("html", DocumentKind::Html),
    ("htm", DocumentKind::Html),
    ("pdf", DocumentKind::Pdf),
    ("docx", DocumentKind::OfficeOpenXml),
    ("xlsx", DocumentKind::OfficeOpenXml),
    ("pptx", DocumentKind::OfficeOpenXml),
    ("odt", DocumentKind::OpenDocument),
    ("ods", DocumentKind::OpenDocument),
    ("odp", DocumentKind::OpenDocument),
];

/// Types of texts that are not shown as they stand.
const MARKED_UP_TYPES: [&str; 3] = ["text/rtf", "text/richtext", "text/enriched"];

impl DocumentKind {
    /// Recognises an attached document.
    pub fn of(attachment: &Attachment) -> Option<Self> {
        Self::recognise(attachment.media_type(), attachment.file_name())
    }

    /// Recognises a document by its media type, or by the extension of its name if the type says
    /// nothing.
    pub fn recognise(media_type: &str, file_name: Option<&str>) -> Option<Self> {
        match media_type {
            "text/html" | "application/xhtml+xml" => return Some(Self::Html),
            "application/pdf" | "application/x-pdf" => return Some(Self::Pdf),
            marked_up if MARKED_UP_TYPES.contains(&marked_up) => return None,
            plain if plain.starts_with("text/") => return Some(Self::Plain),
            other if other.starts_with("application/vnd.openxmlformats-officedocument.") => {
                return Some(Self::OfficeOpenXml);
            }
            other if other.starts_with("application/vnd.oasis.opendocument.") => {
                return Some(Self::OpenDocument);
            }
            "application/octet-stream" | "application/x-zip-compressed" | "application/zip" => {}
            _ => return None,
        }
        let (_, extension) = file_name?.rsplit_once('.')?;
        let is = |(own, _): &&(&str, Self)| extension.eq_ignore_ascii_case(own);
        EXTENSIONS.iter().find(is).map(|(_, kind)| *kind)
    }

    /// Returns the name on the command line of a child process. `None` if none reads it.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, kind)| *kind == self).map(|(name, _)| *name)
    }

    /// Returns the kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_decides_and_a_name_only_where_the_type_says_nothing() {
        let of = DocumentKind::recognise;
        let word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        assert_eq!(of(word, None), Some(DocumentKind::OfficeOpenXml));
        assert_eq!(of("application/pdf", Some("x.txt")), Some(DocumentKind::Pdf));
        assert_eq!(of("application/octet-stream", Some("a.b.PDF")), Some(DocumentKind::Pdf));
        assert_eq!(of("application/zip", Some("a.odt")), Some(DocumentKind::OpenDocument));
        for plain in ["text/plain", "text/csv", "text/x-diff", "text/calendar"] {
            assert_eq!(of(plain, Some("x.pdf")), Some(DocumentKind::Plain), "{plain}");
        }
        for (media_type, name) in [
            ("image/png", Some("x.pdf")),
            ("application/octet-stream", None),
            ("application/octet-stream", Some("pdf")),
            ("application/zip", Some("photos.zip")),
            ("application/msword", Some("old.doc")),
            ("text/rtf", Some("old.rtf")),
        ] {
            assert_eq!(of(media_type, name), None, "{media_type}");
        }
        for (name, kind) in NAMES {
            assert_eq!((kind.name(), DocumentKind::named(name)), (Some(name), Some(kind)));
        }
    }
}
