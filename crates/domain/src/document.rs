//! Documents: files that hold text, but not as text, such as PDF and Office files.
//!
//! A reader takes the text out of a document. The text of a document with pages, slides, sheets or
//! chapters has one line before each of them, such as `[page 3]`. So a line number of the text
//! tells the page.

use crate::byte_size::beginning;
use crate::path::SpacePath;

/// The largest document whose text is read, in bytes.
pub const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;

/// A kind of document whose text can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// A book of EPUB.
    Epub,
    /// A text with its formatting, in the Rich Text Format.
    Rtf,
    /// A mail message.
    Mail,
}

/// The kinds with a name, by which a reader is asked for them.
const NAMES: [(&str, DocumentKind); 4] = [
    ("pdf", DocumentKind::Pdf),
    ("ooxml", DocumentKind::OfficeOpenXml),
    ("odf", DocumentKind::OpenDocument),
    ("epub", DocumentKind::Epub),
];

/// The endings of names, in lower case.
const ENDINGS: [(&str, DocumentKind); 19] = [
    ("txt", DocumentKind::Plain),
    ("text", DocumentKind::Plain),
    ("md", DocumentKind::Plain),
    ("csv", DocumentKind::Plain),
    ("tsv", DocumentKind::Plain),
    ("ics", DocumentKind::Plain),
    ("html", DocumentKind::Html),
    ("htm", DocumentKind::Html),
    ("xhtml", DocumentKind::Html),
    ("pdf", DocumentKind::Pdf),
    ("docx", DocumentKind::OfficeOpenXml),
    ("xlsx", DocumentKind::OfficeOpenXml),
    ("pptx", DocumentKind::OfficeOpenXml),
    ("odt", DocumentKind::OpenDocument),
    ("ods", DocumentKind::OpenDocument),
    ("odp", DocumentKind::OpenDocument),
    ("epub", DocumentKind::Epub),
    ("rtf", DocumentKind::Rtf),
    ("eml", DocumentKind::Mail),
];

/// Types of texts that are not shown as they stand.
const MARKED_UP_TYPES: [&str; 2] = ["text/richtext", "text/enriched"];

/// How the zip files begin that Office documents and books are. *Source*: APPNOTE.TXT 6.3.10,
/// section 4.3.7.
const ZIP: &[u8] = b"PK\x03\x04";
/// How a PDF document begins, and within how many bytes. *Source*: ISO 32000-1, annex H, note 13.
const PDF: &[u8] = b"%PDF-";
const PDF_WITHIN: usize = 1024;

impl DocumentKind {
    /// Recognises a document by its media type, or by the ending of its name if the type says
    /// nothing.
    pub fn recognise(media_type: &str, file_name: Option<&str>) -> Option<Self> {
        match media_type {
            "text/html" | "application/xhtml+xml" => return Some(Self::Html),
            "application/pdf" | "application/x-pdf" => return Some(Self::Pdf),
            "application/epub+zip" => return Some(Self::Epub),
            "text/rtf" | "application/rtf" => return Some(Self::Rtf),
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
        of_ending(file_name?).filter(|kind| *kind != Self::Mail)
    }

    /// Recognises a file that is a document and no text, by its name and its first bytes.
    pub fn of_file(path: &SpacePath, head: &[u8]) -> Option<Self> {
        if head.starts_with(ZIP) {
            return Self::of_name(path.as_str()).filter(|kind| *kind != Self::Pdf);
        }
        // A text may speak of PDF, so without the name it counts at the beginning alone.
        let is_named = Self::of_name(path.as_str()) == Some(Self::Pdf);
        let first = head.get(..PDF_WITHIN).unwrap_or(head);
        let at = memchr::memmem::find(first, PDF)?;
        (is_named || at == 0).then_some(Self::Pdf)
    }

    /// Returns whether a file of this kind is a document even where its bytes are valid UTF-8. Some
    /// programs write a PDF in ASCII alone; its name has to say that it is one.
    pub fn is_never_text(self, path: &SpacePath) -> bool {
        self == Self::Pdf && Self::of_name(path.as_str()) == Some(Self::Pdf)
    }

    /// Recognises a document and no text by its name alone.
    pub fn of_name(name: &str) -> Option<Self> {
        of_ending(name).filter(|kind| kind.name().is_some())
    }

    /// Recognises a text that is easier to read once what marks it up is taken out, by its name.
    pub fn of_marked_up_text(path: &SpacePath) -> Option<Self> {
        of_ending(path.as_str()).filter(|kind| matches!(kind, Self::Html | Self::Rtf | Self::Mail))
    }

    /// Returns the name by which a child process is asked for the text. `None` if none is needed.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, kind)| *kind == self).map(|(name, _)| *name)
    }

    /// Returns the kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }
}

fn of_ending(name: &str) -> Option<DocumentKind> {
    let (_, ending) = name.rsplit_once('.')?;
    let is = |(own, _): &&(&str, DocumentKind)| ending.eq_ignore_ascii_case(own);
    ENDINGS.iter().find(is).map(|(_, kind)| *kind)
}

/// How far into a page of HTML its title is looked for, in bytes.
const HTML_TITLE_WITHIN: usize = 64 * 1024;
/// The longest title of a page of HTML, in bytes.
const MAX_HTML_TITLE_BYTES: usize = 1024;
/// The character references of titles that are decoded. The first is the last to be decoded.
const REFERENCES: [(&str, &str); 6] = [
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&nbsp;", " "),
];

/// Returns the title of a page of HTML on one line; `None` if the page has none.
pub fn html_title(page: &str) -> Option<String> {
    let head = beginning(page, HTML_TITLE_WITHIN);
    let find = |text: &str, tag: &str| {
        let starts = memchr::memchr_iter(b'<', text.as_bytes());
        let mut starts = starts.filter_map(|at| Some((at, text.get(at..at + tag.len())?)));
        starts.find(|(_, found)| found.eq_ignore_ascii_case(tag)).map(|(at, _)| at + tag.len())
    };
    let named = head.get(find(head, "<title")?..)?;
    let (attributes, content) = named.split_once('>')?;
    if !attributes.is_empty() && !attributes.starts_with([' ', '\t', '\r', '\n']) {
        return None;
    }
    let end = find(content, "</title")?.checked_sub("</title".len())?;
    let content = beginning(content, end.min(MAX_HTML_TITLE_BYTES));
    let decoded =
        REFERENCES.iter().rev().fold(content.to_owned(), |text, (reference, character)| {
            text.replace(reference, character)
        });
    let title = decoded.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = title.replace(char::is_control, "");
    (!title.is_empty()).then_some(title)
}

/// Why a document has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    /// The document is damaged, encrypted, or not what its type says.
    #[error("the document is damaged or encrypted")]
    Damaged,
    /// The document is too large, or reading it takes too much memory or time.
    #[error("the document is too large, or takes too long to read")]
    TooLarge,
    /// No document can be read now, whatever this one holds. A later call may read it.
    #[error("the server can read no document now")]
    NotNow,
}

/// Takes the text out of documents.
pub trait DocumentReader: std::fmt::Debug + Send + Sync {
    /// Returns the text of a document.
    ///
    /// # Errors
    /// Why the document has no text.
    fn text(&self, kind: DocumentKind, bytes: &[u8]) -> Result<DocumentText, NoText>;
}

/// What a page, a slide, a sheet or a chapter of a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPart {
    /// What it is called with its number, such as `page 3`. Empty for a document without parts.
    pub label: String,
    /// The name that its author gave it, such as that of a sheet.
    pub title: Option<String>,
    /// The text that it holds.
    pub text: String,
}

/// The text of a document, with a line before each part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentText {
    /// The text. Lines end with line feeds.
    pub text: String,
    /// The title that the document gives itself.
    pub title: Option<String>,
    /// The number of the first line of each part, from 1. Empty for a document without parts.
    parts: Vec<u64>,
}

impl DocumentText {
    /// Puts the text of a document together.
    pub fn new(parts: &[DocumentPart]) -> Self {
        let (mut text, mut starts, mut line) = (String::new(), Vec::new(), 1);
        for DocumentPart { label, title, text: own } in parts {
            let from = text.len();
            if !text.is_empty() {
                text.push('\n');
            }
            let gap = text.len() - from;
            if !label.is_empty() {
                starts.push(line + gap as u64);
                let title = title.as_ref().map(|title| format!(": {title}")).unwrap_or_default();
                let no_text = if own.is_empty() { " (no text)" } else { "" };
                text.push_str(&format!("[{label}{title}]{no_text}\n"));
            }
            if !own.is_empty() {
                text.push_str(own);
                text.push('\n');
            }
            let added = text.as_bytes().get(from..).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', added).count() as u64;
        }
        Self { text, title: None, parts: starts }
    }

    /// Makes a text of which the first line of each part is known.
    pub fn with_parts(text: String, parts: Vec<u64>) -> Self {
        Self { text, title: None, parts }
    }

    /// Returns the same text with the title that the document gives itself.
    #[must_use]
    pub fn titled(self, title: Option<String>) -> Self {
        Self { title, ..self }
    }

    /// Returns the number of the first line of each part, from 1.
    pub fn part_lines(&self) -> &[u64] {
        &self.parts
    }

    /// Returns how many parts the document has.
    pub fn parts(&self) -> u64 {
        self.parts.len() as u64
    }

    /// Returns the number of the part with a line, from 1. `None` for a document without parts.
    pub fn part_of(&self, line: u64) -> Option<u64> {
        let before = self.parts.partition_point(|first| *first <= line);
        (before > 0).then_some(before as u64)
    }

    /// Returns the lines of a part, the end exclusive. The end of the last one is [`u64::MAX`].
    pub fn lines_of(&self, part: u64) -> Option<std::ops::Range<u64>> {
        let index = usize::try_from(part.checked_sub(1)?).ok()?;
        let start = *self.parts.get(index)?;
        Some(start..self.parts.get(index + 1).copied().unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SpacePath {
        SpacePath::parse(text).unwrap()
    }

    #[test]
    fn a_type_decides_and_a_name_only_where_the_type_says_nothing() {
        let of = DocumentKind::recognise;
        let word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        assert_eq!(of(word, None), Some(DocumentKind::OfficeOpenXml));
        assert_eq!(of("application/pdf", Some("x.txt")), Some(DocumentKind::Pdf));
        assert_eq!(of("application/octet-stream", Some("a.b.PDF")), Some(DocumentKind::Pdf));
        assert_eq!(of("application/zip", Some("a.odt")), Some(DocumentKind::OpenDocument));
        assert_eq!(of("application/epub+zip", None), Some(DocumentKind::Epub));
        assert_eq!(of("text/rtf", Some("x.txt")), Some(DocumentKind::Rtf));
        for plain in ["text/plain", "text/csv", "text/x-diff", "text/calendar"] {
            assert_eq!(of(plain, Some("x.pdf")), Some(DocumentKind::Plain), "{plain}");
        }
        for (media_type, name) in [
            ("image/png", Some("x.pdf")),
            ("application/octet-stream", None),
            ("application/octet-stream", Some("pdf")),
            ("application/octet-stream", Some("a.eml")),
            ("application/zip", Some("photos.zip")),
            ("application/msword", Some("old.doc")),
            ("text/richtext", Some("old.rtf")),
        ] {
            assert_eq!(of(media_type, name), None, "{media_type}");
        }
        for (name, kind) in NAMES {
            assert_eq!((kind.name(), DocumentKind::named(name)), (Some(name), Some(kind)));
        }
    }

    #[test]
    fn a_file_is_a_document_by_its_first_bytes_and_a_zip_by_its_name_too() {
        let of = |name, head: &[u8]| DocumentKind::of_file(&path(name), head);
        assert_eq!(of("/a.pdf", b"%PDF-1.7"), Some(DocumentKind::Pdf));
        assert_eq!(of("/a", b"%PDF-1.7"), Some(DocumentKind::Pdf));
        assert_eq!(of("/a.pdf", b"\xef\xbb\xbf\n%PDF-1.7"), Some(DocumentKind::Pdf));
        assert_eq!(of("/a.md", b"f\xfcr %PDF-1.7"), None);
        assert_eq!(of("/a.DOCX", b"PK\x03\x04"), Some(DocumentKind::OfficeOpenXml));
        assert_eq!(of("/a.epub", b"PK\x03\x04"), Some(DocumentKind::Epub));
        for (name, head) in [
            ("/a.pdf", &b"hello"[..]),
            ("/a.docx", b"hello"),
            ("/a.zip", b"PK\x03\x04"),
            ("/a.html", b"PK\x03\x04"),
            ("/a.html", b"<p>"),
        ] {
            assert_eq!(of(name, head), None, "{name}");
        }
        assert_eq!(of("/a.pdf", &[&[b' '; PDF_WITHIN][..], b"%PDF-"].concat()), None);
        let marked_up = |name| DocumentKind::of_marked_up_text(&path(name));
        assert_eq!(marked_up("/a.HTM"), Some(DocumentKind::Html));
        assert_eq!(marked_up("/a.rtf"), Some(DocumentKind::Rtf));
        assert_eq!(marked_up("/a.eml"), Some(DocumentKind::Mail));
        assert_eq!((marked_up("/a.md"), marked_up("/a.pdf")), (None, None));
    }

    #[test]
    fn a_page_of_html_has_the_title_of_its_head() {
        for (page, title) in [
            (
                "<html><head><TITLE lang='en'>Moss &amp;\n ferns</Title></head>",
                Some("Moss & ferns"),
            ),
            ("<title>a &amp;lt; b</title><title>c</title>", Some("a &lt; b")),
            ("<title> </title>", None),
            ("<titles>x</titles>", None),
            ("<title>never ends", None),
            ("no page", None),
            ("é<tit", None),
        ] {
            assert_eq!(html_title(page).as_deref(), title, "{page}");
        }
        assert_eq!(html_title(&format!("{}<title>x</title>", "é".repeat(40_000))), None);
    }

    #[test]
    fn a_line_tells_the_part_that_has_it_and_a_part_its_lines() {
        let part = |label: &str, title: Option<&str>, text: &str| DocumentPart {
            label: label.to_owned(),
            title: title.map(str::to_owned),
            text: text.to_owned(),
        };
        let read = DocumentText::new(&[
            part("page 1", None, "one\ntwo"),
            part("page 2", None, ""),
            part("page 3", Some("End"), "three"),
        ]);
        assert_eq!(read.text, "[page 1]\none\ntwo\n\n[page 2] (no text)\n\n[page 3: End]\nthree\n");
        assert_eq!(read.parts(), 3);
        assert_eq!(read.lines_of(1), Some(1..5));
        assert_eq!(read.lines_of(2), Some(5..7));
        assert_eq!(read.lines_of(3), Some(7..u64::MAX));
        assert_eq!((read.lines_of(0), read.lines_of(4)), (None, None));
        for part in 1..=3 {
            let lines = read.lines_of(part).unwrap();
            assert_eq!(read.part_of(lines.start), Some(part));
            assert_eq!(read.part_of(lines.end - 1), Some(part));
        }
        let whole = DocumentText::new(&[part("", None, "text")]);
        assert_eq!((whole.text.as_str(), whole.parts(), whole.part_of(1)), ("text\n", 0, None));
        assert_eq!(DocumentText::new(&[]), DocumentText::default());
    }
}
