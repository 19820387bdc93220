//! Reads the text of a PDF document, page by page.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pdf_extract::{
    ConvertToFmt, Document, MediaBox, Object, ObjectId, OutputDev, OutputError, PlainTextOutput,
    Transform,
};
use stile_domain::document::{DocumentPart, NoText};
use stile_domain::text_encoding::TextEncoding;

use super::tidy::{Extracted, MAX_TEXT_BYTES};

/// Returns the title, and the text of each page. A page that is a picture has none, and so has one
/// that cannot be read or that the library panics on. Only a child process calls this.
pub(super) fn document(bytes: &[u8]) -> Result<Extracted, NoText> {
    let mut document = Document::load_mem(bytes).map_err(|_| NoText::Damaged)?;
    if document.is_encrypted() {
        // Many documents have the empty password and only forbid to print.
        document.decrypt("").map_err(|_| NoText::Damaged)?;
    }
    place_numbers(&mut document);
    let written = Written::default();
    let mut output = Pages { plain: PlainTextOutput::new(written.clone()), written };
    // One pass keeps the fonts. It ends at a page that cannot be read, so that others come alone.
    if !ends_well(|| pdf_extract::output_doc(&document, &mut output)) {
        let first = u32::try_from(output.written.pages()).unwrap_or(u32::MAX);
        let last = u32::try_from(document.get_pages().len()).unwrap_or(u32::MAX);
        for page in first.saturating_add(1)..=last {
            if output.written.is_full() {
                break;
            }
            ends_well(|| pdf_extract::output_doc_page(&document, &mut output, page));
        }
    }
    let texts = output.written.0.take();
    let is_empty = texts.iter().all(|text| text.trim().is_empty());
    if is_empty && texts.len() < document.get_pages().len() {
        return Err(NoText::Damaged);
    }
    let part =
        |(index, text)| DocumentPart { label: format!("page {}", index + 1), title: None, text };
    let parts = texts.into_iter().enumerate().map(part).collect();
    Ok(Extracted { title: title_of(&document), parts })
}

/// Returns the title in the document information dictionary.
///
/// *Source*: ISO 32000-1, sections 7.9.2.2 (text strings) and 14.3.3.
fn title_of(document: &Document) -> Option<String> {
    let resolved = |object| match object {
        &Object::Reference(id) => document.get_object(id).ok(),
        other => Some(other),
    };
    let information = resolved(document.trailer.get(b"Info").ok()?)?.as_dict().ok()?;
    let bytes = resolved(information.get(b"Title").ok()?)?.as_str().ok()?;
    let text = match bytes {
        [0xfe, 0xff, rest @ ..] => TextEncoding::UTF_16BE.decode(rest)?,
        [0xef, 0xbb, 0xbf, rest @ ..] => TextEncoding::UTF_8.decode(rest)?,
        // The encoding of PDF is Latin-1 for all letters of Western Europe.
        other => TextEncoding::WINDOWS_1252.decode(other)?,
    };
    Some(text.into_owned())
}

/// Whether the library reads pages without an error and without a panic. What was written stays.
fn ends_well(read: impl FnOnce() -> Result<(), OutputError>) -> bool {
    catch_unwind(AssertUnwindSafe(read)).is_ok_and(|read| read.is_ok())
}

/// Puts each number that an array or a dictionary refers to in its place: the library takes widths
/// of characters only so, and panics on others.
fn place_numbers(document: &mut Document) {
    let is_number = |object: &Object| matches!(object, Object::Integer(_) | Object::Real(_));
    let numbers = document.objects.iter().filter(|(_, object)| is_number(object));
    let numbers: HashMap<ObjectId, Object> =
        numbers.map(|(id, object)| (*id, object.clone())).collect();
    let mut objects: Vec<&mut Object> = document.objects.values_mut().collect();
    while let Some(object) = objects.pop() {
        match object {
            Object::Reference(id) => {
                if let Some(number) = numbers.get(id) {
                    *object = number.clone();
                }
            }
            Object::Array(items) => objects.extend(items),
            Object::Dictionary(entries) => objects.extend(entries.iter_mut().map(|(_, it)| it)),
            Object::Stream(stream) => objects.extend(stream.dict.iter_mut().map(|(_, it)| it)),
            _ => {}
        }
    }
}

/// The texts of the pages so far.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<String>>>);

impl Written {
    fn pages(&self) -> usize {
        self.0.borrow().len()
    }

    fn is_full(&self) -> bool {
        self.0.borrow().iter().map(String::len).sum::<usize>() > MAX_TEXT_BYTES
    }
}

impl fmt::Write for Written {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut pages = self.0.borrow_mut();
        let page = pages.last_mut().ok_or(fmt::Error)?;
        // A page that is longer than the bound is cut.
        if page.len() <= MAX_TEXT_BYTES {
            page.push_str(text);
        }
        Ok(())
    }
}

impl ConvertToFmt for Written {
    type Writer = Self;

    fn convert(self) -> Self {
        self
    }
}

/// Writes plain text, each page apart.
struct Pages {
    plain: PlainTextOutput<Written>,
    written: Written,
}

type ArtBox = (f64, f64, f64, f64);

impl OutputDev for Pages {
    fn begin_page(
        &mut self,
        number: u32,
        media_box: &MediaBox,
        art_box: Option<ArtBox>,
    ) -> Result<(), OutputError> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        // A page before this one that could not begin has no text.
        let mut pages = self.written.0.borrow_mut();
        while pages.len() < index {
            pages.push(String::new());
        }
        drop(pages);
        self.plain.begin_page(number, media_box, art_box)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.plain.end_page()
    }

    fn output_character(
        &mut self,
        transform: &Transform,
        width: f64,
        spacing: f64,
        font_size: f64,
        character: &str,
    ) -> Result<(), OutputError> {
        self.plain.output_character(transform, width, spacing, font_size, character)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.plain.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.plain.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.plain.end_line()
    }
}
