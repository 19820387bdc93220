//! Reads the text of Office documents: zip files of XML.
//!
//! Of a text document the paragraphs are read, then headers, footers and notes, of slides those of
//! each slide, then the notes of the speaker, of a sheet its name, then the cells of each row with
//! tabs between them. Layout, comments and formulas are left out; the results of formulas are read.
//! *Source*: ECMA-376, parts 1 and 2; OASIS OpenDocument 1.3, part 3.

use std::collections::HashMap;

use quick_xml::events::BytesStart;
use stile_domain::document::{DocumentPart, NoText};

use super::cell_dates::{self, CellDates};
use super::package::{Package, XmlEvent, attribute, read_xml, unescaped_attribute};
use super::tidy::{Extracted, MAX_TEXT_BYTES};

/// The most styles of cells that are read.
const MAX_STYLES: usize = 65_536;
/// The most repeated cells that are written for one that says how often it stands.
const MAX_REPEATED: usize = 100;

/// Returns the title and the text of a document of Office Open XML: slides, sheets, or one text.
pub(super) fn office_open_xml(bytes: &[u8]) -> Result<Extracted, NoText> {
    let mut package = Package::open(bytes)?;
    let parts = open_xml_parts(&mut package)?;
    Ok(Extracted { title: package.title_in("docProps/core.xml"), parts })
}

fn open_xml_parts(package: &mut Package<'_>) -> Result<Vec<DocumentPart>, NoText> {
    if let Some(part) = package.part("word/document.xml")? {
        return Ok(vec![word(package, part)?]);
    }
    let slides = package.numbered("ppt/slides/slide");
    let sheets = package.numbered("xl/worksheets/sheet");
    if slides.is_empty() && sheets.is_empty() {
        return Err(NoText::Damaged);
    }
    let mut parts = Vec::new();
    for (label, names) in
        [("slide", slides), ("notes", package.numbered("ppt/notesSlides/notesSlide"))]
    {
        for (number, name) in (1..).zip(names) {
            if let Some(part) = package.part(&name)? {
                let text = paragraphs(part)?;
                parts.push(DocumentPart { label: format!("{label} {number}"), title: None, text });
            }
        }
    }
    if !sheets.is_empty() {
        read_sheets(package, sheets, &mut parts)?;
    }
    Ok(parts)
}

/// Returns the text of a document of words, whose pages its file does not know.
fn word(package: &mut Package<'_>, part: Vec<u8>) -> Result<DocumentPart, NoText> {
    let mut text = paragraphs(part)?;
    let mut others = package.numbered("word/header");
    others.extend(package.numbered("word/footer"));
    others.extend(["word/footnotes.xml", "word/endnotes.xml"].map(str::to_owned));
    for name in others {
        text += &package
            .optional(|package| package.part(&name)?.map_or_else(|| Ok(String::new()), paragraphs));
    }
    Ok(whole(text))
}

/// Returns a document without parts.
fn whole(text: String) -> DocumentPart {
    DocumentPart { label: String::new(), title: None, text }
}

fn read_sheets(
    package: &mut Package<'_>,
    sheets: Vec<String>,
    parts: &mut Vec<DocumentPart>,
) -> Result<(), NoText> {
    let shared = match package.part("xl/sharedStrings.xml")? {
        Some(part) => shared_strings(part)?,
        None => Vec::new(),
    };
    let (dates, names) = (package.optional(cell_dates), package.optional(sheet_names));
    let mut bytes = 0;
    for (number, name) in (1..).zip(sheets) {
        if bytes > MAX_TEXT_BYTES {
            break;
        }
        if let Some(part) = package.part(&name)? {
            let text = rows(part, &shared, &dates)?;
            bytes += text.len();
            let title = names.get(&name).cloned();
            parts.push(DocumentPart { label: format!("sheet {number}"), title, text });
        }
    }
    Ok(())
}

/// Returns the title and the text of an OpenDocument: slides, sheets, or one text. Headers and
/// footers count in text documents only: those of a sheet say its name and a number of pages unless
/// somebody changed them.
pub(super) fn open_document(bytes: &[u8]) -> Result<Extracted, NoText> {
    let mut package = Package::open(bytes)?;
    let part = package.part("content.xml")?.ok_or(NoText::Damaged)?;
    let mut content = OpenText::default();
    content.read(part, &|name| name == "body")?;
    if content.is_text_document {
        content.text += &package.optional(headers_and_footers);
    }
    Ok(Extracted { title: package.title_in("meta.xml"), parts: content.into_parts() })
}

/// Returns the headers and footers of an OpenDocument.
fn headers_and_footers(package: &mut Package<'_>) -> Result<String, NoText> {
    let Some(part) = package.part("styles.xml")? else { return Ok(String::new()) };
    let mut styles = OpenText::default();
    styles.read(part, &|name| name.starts_with("header") || name.starts_with("footer"))?;
    Ok(styles.text)
}

/// The text of a part of an OpenDocument so far.
#[derive(Default)]
struct OpenText {
    /// The parts that have ended, and the label and title of the present one, if it has any.
    parts: Vec<DocumentPart>,
    present: Option<(String, Option<String>)>,
    /// The text of the present part.
    text: String,
    /// The bytes of the parts that have ended.
    bytes: usize,
    is_text_document: bool,
    is_spreadsheet: bool,
    is_presentation: bool,
    /// How many elements are open whose text counts, such as the body or a footer.
    regions: usize,
    /// How many elements are open from the outermost of these on.
    depth: usize,
    /// How many paragraphs are open. Between them there is only layout.
    paragraphs: usize,
    /// How many fields are open that hold the number of a page.
    page_numbers: usize,
    /// Where the present cell begins, and how often it stands there.
    cell: usize,
    repeated: usize,
}

impl OpenText {
    /// Reads the text within the elements of a part for which `is_region` returns `true`.
    fn read(&mut self, part: Vec<u8>, is_region: &dyn Fn(&str) -> bool) -> Result<(), NoText> {
        read_xml(part, &mut |event| {
            match event {
                XmlEvent::Start(name, start) => {
                    self.regions += usize::from(is_region(name));
                    if self.regions > 0 {
                        self.depth += 1;
                        self.begin(name, start);
                    }
                }
                XmlEvent::End(name) if self.regions > 0 => {
                    self.end(name);
                    self.regions -= usize::from(is_region(name));
                    self.depth = self.depth.saturating_sub(1);
                }
                XmlEvent::Text(own) if self.paragraphs > 0 && self.page_numbers == 0 => {
                    self.text.push_str(own);
                }
                _ => {}
            }
            self.bytes + self.text.len() <= MAX_TEXT_BYTES
        })
    }

    /// Begins a slide or a sheet.
    fn begin_part(&mut self, what: &str, title: Option<String>) {
        self.end_part();
        self.present = Some((format!("{what} {}", self.parts.len() + 1), title));
    }

    /// Ends the present part. What stands before the first one belongs to it.
    fn end_part(&mut self) {
        if let Some((label, title)) = self.present.take() {
            let text = std::mem::take(&mut self.text);
            self.bytes += text.len();
            self.parts.push(DocumentPart { label, title, text });
        }
    }

    fn into_parts(mut self) -> Vec<DocumentPart> {
        self.end_part();
        if self.parts.is_empty() { vec![whole(self.text)] } else { self.parts }
    }

    fn begin(&mut self, name: &str, start: &BytesStart<'_>) {
        match name {
            // Deeper, it is a control of a form.
            "text" if self.depth == 2 => self.is_text_document = true,
            "spreadsheet" => self.is_spreadsheet = true,
            // The tables of a text document have names that programs gave them.
            "table" if self.is_spreadsheet => {
                self.begin_part("sheet", unescaped_attribute(start, "name"));
            }
            "presentation" => self.is_presentation = true,
            "page" if self.is_presentation => self.begin_part("slide", None),
            "p" | "h" => self.paragraphs += 1,
            "page-number" | "page-count" => self.page_numbers += 1,
            "tab" => self.text.push('\t'),
            "line-break" => self.text.push('\n'),
            "s" => {
                let count = attribute(start, "c").and_then(|count| count.parse().ok());
                self.text.extend(std::iter::repeat_n(' ', count.unwrap_or(1).min(MAX_REPEATED)));
            }
            "table-cell" => {
                self.cell = self.text.len();
                let count = attribute(start, "number-columns-repeated");
                self.repeated = count.and_then(|count| count.parse().ok()).unwrap_or(1);
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" | "h" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                self.text.push('\n');
            }
            "page-number" | "page-count" => {
                self.page_numbers = self.page_numbers.saturating_sub(1);
            }
            "table-cell" => {
                let own = self.text.get(self.cell..).unwrap_or_default().trim_end().to_owned();
                self.text.truncate(self.cell);
                // Empty cells fill a sheet up to its last column.
                let count = if own.is_empty() { 1 } else { self.repeated.min(MAX_REPEATED) };
                (0..count).for_each(|_| self.text.extend([own.as_str(), "\t"]));
            }
            "table-row" => self.text.push('\n'),
            _ => {}
        }
    }
}

/// Returns the paragraphs of a part, each on a line.
fn paragraphs(part: Vec<u8>) -> Result<String, NoText> {
    let (mut text, mut is_text, mut is_run) = (String::new(), false, false);
    read_xml(part, &mut |event| {
        match event {
            XmlEvent::Start("r", _) => is_run = true,
            XmlEvent::End("r") => is_run = false,
            XmlEvent::Start("t", _) => is_text = true,
            XmlEvent::End("t") => is_text = false,
            // Elsewhere a tab is a position on the page.
            XmlEvent::End("tab") if is_run => text.push('\t'),
            XmlEvent::End("br" | "cr" | "p") => text.push('\n'),
            // A cell of a table ends with a paragraph.
            XmlEvent::Text(own) if is_text => text.push_str(own),
            _ => {}
        }
        text.len() <= MAX_TEXT_BYTES
    })?;
    Ok(text)
}

/// Returns the texts that cells refer to by number.
fn shared_strings(part: Vec<u8>) -> Result<Vec<String>, NoText> {
    let (mut strings, mut is_text, mut is_spoken) = (Vec::new(), false, false);
    let mut own = String::new();
    let mut bytes = 0;
    read_xml(part, &mut |event| {
        match event {
            XmlEvent::Start("t", _) => is_text = true,
            XmlEvent::End("t") => is_text = false,
            // How the text is pronounced.
            XmlEvent::Start("rPh", _) => is_spoken = true,
            XmlEvent::End("rPh") => is_spoken = false,
            XmlEvent::End("si") => strings.push(std::mem::take(&mut own)),
            XmlEvent::Text(text) if is_text && !is_spoken => {
                bytes += text.len();
                own.push_str(text);
            }
            _ => {}
        }
        bytes <= 8 * MAX_TEXT_BYTES
    })?;
    Ok(strings)
}

/// Reads which styles of cells are dates.
fn cell_dates(package: &mut Package<'_>) -> Result<CellDates, NoText> {
    let mut dates = CellDates::default();
    if let Some(part) = package.part("xl/workbook.xml")? {
        read_xml(part, &mut |event| {
            if let XmlEvent::Start("workbookPr", start) = event {
                dates.since_1904 =
                    attribute(start, "date1904").is_some_and(|is| is == "1" || is == "true");
            }
            true
        })?;
    }
    let Some(part) = package.part("xl/styles.xml")? else { return Ok(dates) };
    let (mut own, mut is_of_cells) = (Vec::new(), false);
    let format =
        |start: &BytesStart<'_>| -> Option<u32> { attribute(start, "numFmtId")?.parse().ok() };
    read_xml(part, &mut |event| {
        match event {
            XmlEvent::Start("numFmt", start) => {
                let code = unescaped_attribute(start, "formatCode").unwrap_or_default();
                own.extend(format(start).filter(|_| cell_dates::is_date(&code)));
            }
            XmlEvent::Start("cellXfs", _) => is_of_cells = true,
            XmlEvent::End("cellXfs") => is_of_cells = false,
            XmlEvent::Start("xf", start) if is_of_cells => {
                let is_date = |id: u32| cell_dates::is_known_date(id) || own.contains(&id);
                dates.styles.push(format(start).is_some_and(is_date));
            }
            _ => {}
        }
        own.len().max(dates.styles.len()) <= MAX_STYLES
    })?;
    Ok(dates)
}

/// Returns the names of the sheets by their parts, such as `xl/worksheets/sheet1.xml`.
fn sheet_names(package: &mut Package<'_>) -> Result<HashMap<String, String>, NoText> {
    let mut parts = HashMap::new();
    if let Some(part) = package.part("xl/_rels/workbook.xml.rels")? {
        read_xml(part, &mut |event| {
            if let XmlEvent::Start("Relationship", start) = event
                && let (Some(id), Some(target)) =
                    (attribute(start, "Id"), unescaped_attribute(start, "Target"))
            {
                // A target is beside the workbook, or begins at the root of the package.
                let part = target.strip_prefix('/').map(str::to_owned);
                parts.insert(id, part.unwrap_or_else(|| format!("xl/{target}")));
            }
            parts.len() <= super::package::MAX_PARTS
        })?;
    }
    let mut names = HashMap::new();
    if let Some(part) = package.part("xl/workbook.xml")? {
        read_xml(part, &mut |event| {
            if let XmlEvent::Start("sheet", start) = event
                && let Some(part) = attribute(start, "id").and_then(|id| parts.remove(&id))
            {
                names.extend(unescaped_attribute(start, "name").map(|name| (part, name)));
            }
            true
        })?;
    }
    Ok(names)
}

/// Returns the rows of a sheet, with tabs between the cells.
fn rows(part: Vec<u8>, shared: &[String], dates: &CellDates) -> Result<String, NoText> {
    let (mut text, mut value, mut is_value, mut is_shared) =
        (String::new(), String::new(), false, false);
    // The style of a cell that holds a number.
    let mut style = None;
    read_xml(part, &mut |event| {
        match event {
            XmlEvent::Start("c", start) => {
                let kind = attribute(start, "t");
                is_shared = kind.as_deref() == Some("s");
                style = match kind.as_deref() {
                    None | Some("n") => attribute(start, "s").and_then(|style| style.parse().ok()),
                    Some(_) => None,
                };
                value.clear();
            }
            XmlEvent::Start("v" | "t", _) => is_value = true,
            XmlEvent::End("v" | "t") => is_value = false,
            XmlEvent::End("c") => {
                let named = value.parse().ok().and_then(|number: usize| shared.get(number));
                let date = style.and_then(|style| dates.date(style, &value));
                let shown = date.as_ref().or(named.filter(|_| is_shared));
                text.push_str(shown.unwrap_or(&value));
                text.push('\t');
            }
            XmlEvent::End("row") => text.push('\n'),
            XmlEvent::Text(own) if is_value => value.push_str(own),
            _ => {}
        }
        text.len() <= MAX_TEXT_BYTES
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::package::MAX_UNPACKED;
    use super::super::package::tests::package;
    use super::*;

    fn text(read: Result<Extracted, NoText>) -> String {
        super::super::tidy::without_labels(&read.unwrap().parts)
    }

    /// A part whose elements do not end in their order.
    const DAMAGED: &str = "<a><b></a>";

    #[test]
    fn a_damaged_or_huge_part_costs_what_it_adds_and_not_the_document() {
        let huge = format!("<a>{}</a>", " ".repeat(MAX_UNPACKED as usize));
        let sheet = "<row><c><v>7</v></c></row>";
        let document = "<p><r><t>ferns</t></r></p>";
        let content = "<body><text><p>moss</p></text></body>";
        for bad in [DAMAGED, &huge] {
            let workbook = package(&[
                ("xl/workbook.xml", bad),
                ("xl/_rels/workbook.xml.rels", bad),
                ("xl/styles.xml", bad),
                ("xl/worksheets/sheet1.xml", sheet),
            ]);
            assert_eq!(text(office_open_xml(&workbook)).trim(), "7");
            let document = package(&[("word/document.xml", document), ("word/header1.xml", bad)]);
            assert_eq!(text(office_open_xml(&document)).trim(), "ferns");
            let document = package(&[("content.xml", content), ("styles.xml", bad)]);
            assert_eq!(text(open_document(&document)).trim(), "moss");
        }
        let body = package(&[("content.xml", DAMAGED)]);
        assert!(matches!(open_document(&body), Err(NoText::Damaged)));
    }

    #[test]
    fn a_document_has_the_title_of_its_properties() {
        let core = "<cp:coreProperties><dc:title>Roof &amp; gutter</dc:title></cp:coreProperties>";
        let word = ("word/document.xml", "<p><r><t>ferns</t></r></p>");
        let open = ("content.xml", "<body><text><p>moss</p></text></body>");
        let meta = "<office:meta><dc:title> Roof\n&amp; gutter</dc:title></office:meta>";
        let title =
            |read: Result<Extracted, NoText>| super::super::tidy::tidied(read.unwrap()).title;
        let expected = Some("Roof & gutter".to_owned());
        assert_eq!(
            title(office_open_xml(&package(&[word, ("docProps/core.xml", core)]))),
            expected
        );
        assert_eq!(title(open_document(&package(&[open, ("meta.xml", meta)]))), expected);
        let empty = "<cp:coreProperties><dc:title> </dc:title></cp:coreProperties>";
        for none in [empty, DAMAGED] {
            let document = package(&[word, ("docProps/core.xml", none)]);
            assert_eq!(title(office_open_xml(&document)), None);
        }
    }

    #[test]
    fn a_sheet_with_a_control_for_text_is_no_text_document() {
        let styles = ("styles.xml", "<footer><p>page</p></footer>");
        let of = |body: &str| {
            let content = format!("<c><body>{body}</body></c>");
            text(open_document(&package(&[("content.xml", &content), styles])))
        };
        assert_eq!(of("<text><p>moss</p></text>"), "moss\npage\n");
        let sheet = of("<spreadsheet><forms><form><text/></form></forms><p>7</p></spreadsheet>");
        assert_eq!(sheet, "7\n");
    }
}
