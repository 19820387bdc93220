//! Elements of an XML export, one after the other, each with all that is in it.
//!
//! An export may be longer than memory, so only one element is held at a time. Entities that a
//! document declares are not expanded, and nothing that it refers to is opened.
//!
//! *Source*: Extensible Markup Language 1.0.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::whole_file::ReadRow;
use crate::importer::{ImportRow, ImportRows, LocatedRow, UnusableRow};
use crate::source::InputPath;

/// The most bytes of one element with all that is in it.
const MAX_ELEMENT_BYTES: u64 = 64 * 1024 * 1024;
/// How deep elements may lie in each other.
const MAX_DEPTH: usize = 64;

/// An element with all that is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// The name without a prefix.
    pub(super) name: String,
    /// The attributes, by their names without a prefix.
    pub(super) attributes: Vec<(String, String)>,
    /// The text that is in the element and in none of its children.
    pub(super) text: String,
    /// The elements in this one, in order.
    pub(super) children: Vec<Element>,
}

impl Element {
    /// Returns an attribute, if it is there and not empty.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let found = self.attributes.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the first child of a name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the text of the first child of a name, if it has text.
    pub(super) fn text_of(&self, name: &str) -> Option<String> {
        let text = self.child(name).map(|child| child.text.trim().to_owned());
        text.filter(|text| !text.is_empty())
    }

    /// Returns all children of a name.
    pub(super) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Returns whether a file begins as an XML document whose outermost element has this name.
pub(super) fn is_document_of(beginning: &[u8], name: &str) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<!") => ">",
            _ => break,
        };
        // The declarations of Apple Health are longer than what is looked at.
        let named = rest.strip_prefix("<!DOCTYPE").map(str::trim_start);
        if named.is_some_and(|named| is_named(named, name)) {
            return true;
        }
        let Some(at) = rest.find(end) else { return false };
        rest = rest[at..].trim_start_matches(end).trim_start();
    }
    rest.strip_prefix('<').is_some_and(|rest| is_named(rest, name))
}

fn is_named(text: &str, name: &str) -> bool {
    let rest = text.strip_prefix(name);
    rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric() && next != '-'))
}

/// A part of a document.
pub(super) enum Part {
    /// An element that is in none of the wanted ones begins. It has this name.
    Around(String),
    /// A wanted element, and the line where it begins.
    Whole(u64, Element),
    /// The document ends inside of a wanted element that begins in this line.
    CutOff(u64),
}

/// Reads the elements with certain names, wherever they are, but not inside of each other.
pub(super) struct ElementReader<R> {
    reader: Reader<Counted<R>>,
    wanted: &'static [&'static str],
    buffer: Vec<u8>,
    is_at_end: bool,
}

impl<R: BufRead> ElementReader<R> {
    /// Reads a document from its first byte.
    pub(super) fn new(source: R, wanted: &'static [&'static str]) -> Self {
        let reader = Reader::from_reader(Counted { source, read: 0, most: u64::MAX, lines: 1 });
        Self { reader, wanted, buffer: Vec::new(), is_at_end: false }
    }

    /// Returns the next part; `None` at the end.
    ///
    /// # Errors
    /// The source fails, it is not XML, or a wanted element is too deep or too large.
    pub(super) fn next(&mut self) -> io::Result<Option<Part>> {
        let mut open: Vec<Element> = Vec::new();
        let mut line = 1;
        while !self.is_at_end {
            self.buffer.clear();
            if open.is_empty() {
                let source = self.reader.get_mut();
                source.most = source.read.saturating_add(MAX_ELEMENT_BYTES);
                line = source.lines;
            }
            let event = self.reader.read_event_into(&mut self.buffer).map_err(damaged)?;
            let ended = match event {
                Event::Eof => {
                    self.is_at_end = true;
                    return Ok((!open.is_empty()).then_some(Part::CutOff(line)));
                }
                Event::Start(ref start) | Event::Empty(ref start) => {
                    let name = start.local_name();
                    if open.is_empty() && !self.wanted.contains(&name.as_ref()) {
                        return Ok(Some(Part::Around(name.as_ref().to_owned())));
                    }
                    match event {
                        Event::Empty(_) => Some(element(start)),
                        _ if open.len() == MAX_DEPTH => {
                            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_DEEP));
                        }
                        _ => {
                            open.push(element(start));
                            None
                        }
                    }
                }
                Event::End(_) => open.pop(),
                Event::Text(text) => {
                    push_text(&mut open, &text);
                    None
                }
                Event::CData(text) => {
                    push_text(&mut open, &text);
                    None
                }
                Event::GeneralRef(name) => {
                    let reference = format!("&{};", &*name);
                    // An entity of the document's own is left out.
                    let decoded = quick_xml::escape::unescape(&reference).unwrap_or_default();
                    push_text(&mut open, &decoded);
                    None
                }
                _ => None,
            };
            match (ended, open.last_mut()) {
                (Some(child), Some(parent)) => parent.children.push(child),
                (Some(whole), None) => return Ok(Some(Part::Whole(line, whole))),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    /// Returns how many bytes of the source were read.
    fn consumed(&self) -> u64 {
        self.reader.get_ref().read
    }
}

/// What turns an element into rows.
type ToRows = Box<dyn FnMut(&Element) -> Vec<Result<ImportRow, UnusableRow>>>;

/// Opens a file, and makes rows of the elements with these names.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn open(
    path: &InputPath,
    wanted: &'static [&'static str],
    to_rows: impl FnMut(&Element) -> Vec<Result<ImportRow, UnusableRow>> + 'static,
) -> io::Result<Box<dyn ImportRows>> {
    let (file, source) = (path.display().to_string(), path.open()?.reader);
    Ok(Box::new(ElementRows::new(file, source, wanted, Box::new(to_rows))))
}

/// The rows of the elements with certain names.
struct ElementRows<R> {
    file: Arc<str>,
    elements: ElementReader<R>,
    to_rows: ToRows,
    rows: VecDeque<ReadRow>,
}

impl<R: BufRead> ElementRows<R> {
    /// Makes rows of the elements with these names.
    fn new(file: String, source: R, wanted: &'static [&'static str], to_rows: ToRows) -> Self {
        let elements = ElementReader::new(source, wanted);
        Self { file: file.into(), elements, to_rows, rows: VecDeque::new() }
    }
}

impl<R: BufRead> ImportRows for ElementRows<R> {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        while self.rows.is_empty() {
            match self.elements.next()? {
                None => break,
                Some(Part::Around(_)) => {}
                Some(Part::Whole(line, whole)) => {
                    let rows = (self.to_rows)(&whole).into_iter();
                    self.rows.extend(rows.map(|row| (line, row)));
                }
                Some(Part::CutOff(line)) => {
                    let cut = UnusableRow::new("cut_off", "the file ends inside of it");
                    self.rows.push_back((line, Err(cut)));
                }
            }
        }
        let next = self.rows.pop_front();
        Ok(next.map(|(line, row)| LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.elements.consumed()
    }
}

const TOO_DEEP: &str = "its elements lie more than 64 deep in each other";

fn damaged(error: quick_xml::Error) -> io::Error {
    match error {
        quick_xml::Error::Io(error) => io::Error::new(error.kind(), error.to_string()),
        other => io::Error::new(io::ErrorKind::InvalidData, format!("it is not XML: {other}")),
    }
}

fn push_text(open: &mut [Element], text: &str) {
    if let Some(innermost) = open.last_mut() {
        innermost.text.push_str(text);
    }
}

fn element(start: &BytesStart<'_>) -> Element {
    let attributes = start.attributes().flatten().map(|attribute| {
        let value = quick_xml::escape::unescape(&attribute.value);
        let value = value.map_or_else(|_| attribute.value.to_string(), |value| value.into_owned());
        (attribute.key.local_name().as_ref().to_owned(), value)
    });
    Element {
        name: start.local_name().as_ref().to_owned(),
        attributes: attributes.collect(),
        ..Element::default()
    }
}

/// A source that counts its bytes and lines, and that refuses to give more than `most` bytes.
struct Counted<R> {
    source: R,
    read: u64,
    most: u64,
    lines: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(to.len());
        for (to, from) in to.iter_mut().zip(available) {
            *to = *from;
        }
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read > self.most {
            let message = "one of its elements has more than 64 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.source.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if let Ok(available) = self.source.fill_buf() {
            let read = available.get(..count).unwrap_or_default();
            self.lines += memchr::memchr_iter(b'\n', read).count() as u64;
        }
        self.read += count as u64;
        self.source.consume(count);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;
    use stile_domain::records::identifiers::SourceName;
    use stile_domain::records::row;
    use stile_domain::records::value::FieldValue;

    use super::*;
    use crate::importer::{ImportTarget, Importer};
    use crate::importers::{IMPORTERS, recognise};
    use crate::rig::rig;

    /// Returns the rows of a file, which the importer must be chosen for.
    pub(in super::super) fn rows_of(
        importer: &Importer,
        extension: &str,
        text: &str,
    ) -> Vec<Value> {
        let rig = rig();
        let path = rig.write(&format!("export.{extension}"), text.as_bytes());
        let chosen = recognise(IMPORTERS, &path).unwrap().unwrap();
        assert_eq!(chosen.name, importer.name);
        let name = |name: &str| SourceName::parse(name).unwrap();
        let target = ImportTarget { connection: name("a"), stream: name("b") };
        let mut rows = (importer.open)(&path.into(), &target).unwrap();
        let mut all = Vec::new();
        while let Some(LocatedRow { row, .. }) = rows.next().unwrap() {
            all.push(serde_json::from_str(&row::to_json(&row.unwrap().fields)).unwrap());
        }
        assert_eq!(rows.consumed(), text.len() as u64);
        all
    }

    fn names(text: &str) -> Vec<(u64, Result<String, &'static str>)> {
        let to_rows = |element: &Element| {
            let said = format!("{element:?}");
            let row = ImportRow::from_message([("said", Some(FieldValue::Text(said)))], Vec::new());
            vec![Ok(row)]
        };
        let wanted = &["note"];
        let mut rows = ElementRows::new("x".to_owned(), text.as_bytes(), wanted, Box::new(to_rows));
        let mut all = Vec::new();
        while let Some(LocatedRow { line, row, .. }) = rows.next().unwrap() {
            all.push((line, row.map(|row| format!("{:?}", row.fields)).map_err(|bad| bad.code)));
        }
        assert_eq!(rows.consumed(), text.len() as u64);
        all
    }

    #[test]
    fn each_element_comes_with_all_that_is_in_it() {
        let text = "<?xml version='1.0'?>\n<all>\n<note a='1 &amp; 2'>x<b>y</b>&lt;<![CDATA[z]]>\n\
            <note/></note>\n<x:note/>&own;\n<other/></all>";
        let read = names(text);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].0, read[1].0), (3, 5));
        let first = read[0].1.as_ref().unwrap();
        for part in ["1 & 2", "x<z", "y"] {
            assert!(first.contains(part), "{first}");
        }
        assert_eq!(names("<all><note>cut"), [(1, Err("cut_off"))]);
    }

    #[test]
    fn elements_that_lie_too_deep_end_the_file() {
        let deep = format!("<note>{}", "<a>".repeat(70));
        let to_rows: ToRows = Box::new(|_| Vec::new());
        let mut rows = ElementRows::new("x".to_owned(), deep.as_bytes(), &["note"], to_rows);
        assert_eq!(rows.next().unwrap_err().to_string(), TOO_DEEP);
    }

    #[test]
    fn a_document_is_known_by_its_outermost_element() {
        let is_gpx = |text: &str| is_document_of(text.as_bytes(), "gpx");
        assert!(is_gpx("\u{feff}<?xml version=\"1.0\"?>\n<!-- a > b -->\n<gpx version='1.1'>"));
        assert!(is_gpx("<!DOCTYPE gpx [\n<!ELEMENT"));
        for other in ["<gpxx>", "<html><gpx>", "gpx", "", "<?xml", "<!DOCTYPE html><gpx-a>"] {
            assert!(!is_gpx(other), "{other}");
        }
    }
}
