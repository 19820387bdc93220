//! Documents of each kind, as small as they can be.

use stile_testkit::zip::{Member, Zip};

/// A PDF document of one page for each text, with a correct table of its objects.
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    pdf_of(&objects_of(pages))
}

/// The same with a title, as a literal or hexadecimal string of PDF.
pub fn pdf_with_title(pages: &[&str], title: &str) -> Vec<u8> {
    let mut objects = objects_of(pages);
    objects.push(format!("<< /Title {title} >>"));
    let info = format!("/Info {} 0 R", objects.len());
    pdf_with_trailer(&objects, &info)
}

fn objects_of(pages: &[&str]) -> Vec<String> {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (number, text) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * number
        ));
        let shown = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{shown}\nendstream", shown.len()));
    }
    objects
}

/// A PDF document of these objects; the first is the catalog.
pub fn pdf_of(objects: &[String]) -> Vec<u8> {
    pdf_with_trailer(objects, "")
}

fn pdf_with_trailer(objects: &[String], more: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", number + 1).bytes());
    }
    let table = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for place in places {
        bytes.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let size = objects.len() + 1;
    let end =
        format!("trailer\n<< /Size {size} /Root 1 0 R {more} >>\nstartxref\n{table}\n%%EOF\n");
    bytes.extend(end.bytes());
    bytes
}

pub fn package(parts: &[(&str, &str)]) -> Vec<u8> {
    let with =
        |zip: Zip, (name, xml): &(&str, &str)| zip.with(&Member::deflated(name, xml.as_bytes()));
    parts.iter().fold(Zip::default(), with).finish()
}

pub fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let paragraphs: String = paragraphs
        .iter()
        .map(|text| {
            format!(
                "<w:p><w:pPr><w:tabs><w:tab w:pos=\"9\"/></w:tabs></w:pPr>\
                 <w:r><w:t>{text}</w:t></w:r></w:p>"
            )
        })
        .collect();
    let xml =
        format!("<?xml version=\"1.0\"?><w:document><w:body>{paragraphs}</w:body></w:document>");
    let header = "<w:hdr><w:p><w:r><w:t>Herons &amp; Sons</w:t></w:r></w:p></w:hdr>";
    package(&[("word/document.xml", &xml), ("word/header2.xml", header)])
}

pub fn xlsx() -> Vec<u8> {
    let strings =
        "<sst><si><t>plum &amp; quince</t></si><si><r><t>pe</t></r><r><t>ar</t></r></si></sst>";
    let sheet = "<worksheet><sheetData>\
        <row><c t=\"s\"><v>0</v></c><c><v>12.5</v></c></row>\
        <row><c s=\"1\"><v>46085</v></c><c s=\"2\"><v>46085.4375</v></c><c s=\"0\"><v>46085</v></c></row>\
        <row><c t=\"s\"><v>1</v></c><c t=\"inlineStr\"><is><t>dear</t></is></c><c><f>A1</f><v>7</v></c></row>\
        </sheetData></worksheet>";
    let styles = "<styleSheet><numFmts><numFmt numFmtId=\"164\" formatCode=\"dd&quot;.&quot;mm h:mm\"/></numFmts>\
        <cellStyleXfs><xf numFmtId=\"14\"/></cellStyleXfs>\
        <cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"164\"/></cellXfs></styleSheet>";
    let workbook = "<workbook><sheets><sheet name=\"Costs &amp; fees\" sheetId=\"4\" r:id=\"rId7\"/>\
        <sheet name=\"gone\" sheetId=\"5\" r:id=\"rId8\"/></sheets></workbook>";
    let relations = "<Relationships><Relationship Id=\"rId7\" Target=\"worksheets/sheet1.xml\"/>\
        <Relationship Id=\"rId9\" Target=\"/xl/styles.xml\"/></Relationships>";
    package(&[
        ("xl/workbook.xml", workbook),
        ("xl/_rels/workbook.xml.rels", relations),
        ("xl/sharedStrings.xml", strings),
        ("xl/styles.xml", styles),
        ("xl/worksheets/sheet1.xml", sheet),
    ])
}

pub fn pptx() -> Vec<u8> {
    let slide = |text: &str| format!("<p:sld><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>");
    package(&[
        ("ppt/slides/slide10.xml", &slide("tenth slide")),
        ("ppt/slides/slide2.xml", &slide("second slide")),
        ("ppt/notesSlides/notesSlide1.xml", &slide("say it slowly")),
    ])
}

pub fn odt() -> Vec<u8> {
    let xml = "<office:document-content><office:body><office:text>\
        <text:h>Minutes</text:h>\n<text:p>The<text:s text:c=\"2\"/>heron<text:tab/>flew<text:line-break/>off</text:p>\
        <table:table><table:table-row>\
        <table:table-cell><text:p>a</text:p></table:table-cell>\
        <table:table-cell table:number-columns-repeated=\"2\"><text:p>b</text:p></table:table-cell>\
        <table:table-cell table:number-columns-repeated=\"16000\"/>\
        </table:table-row></table:table></office:text></office:body></office:document-content>";
    let styles = "<office:document-styles><office:styles><text:p>no</text:p></office:styles>\
        <office:master-styles><style:master-page>\
        <style:header><text:p>Heron society</text:p></style:header>\
        <style:footer-left><text:p>Page <text:page-number>1</text:page-number> of the minutes</text:p></style:footer-left>\
        </style:master-page></office:master-styles></office:document-styles>";
    package(&[("content.xml", xml), ("styles.xml", styles)])
}

pub fn ods() -> Vec<u8> {
    let xml = "<office:document-content><office:body><office:spreadsheet>\
        <table:table table:name=\"Seeds &lt;2026&gt;\"><table:table-row>\
        <table:table-cell><text:p>kale</text:p></table:table-cell></table:table-row></table:table>\
        </office:spreadsheet></office:body></office:document-content>";
    let styles = "<office:document-styles><style:header><text:p>???</text:p></style:header></office:document-styles>";
    package(&[("content.xml", xml), ("styles.xml", styles)])
}

/// A book of two chapters, the first of which is a picture.
pub fn epub() -> Vec<u8> {
    let container =
        "<container><rootfiles><rootfile full-path=\"book/book.opf\"/></rootfiles></container>";
    let book = "<package><manifest><item id=\"cover\" href=\"cover.xhtml\"/>\
        <item id=\"one\" href=\"one.xhtml\"/></manifest>\
        <spine><itemref idref=\"cover\"/><itemref idref=\"one\"/></spine></package>";
    package(&[
        ("META-INF/container.xml", container),
        ("book/book.opf", book),
        ("book/cover.xhtml", "<html><img src=\"cover.png\"/></html>"),
        ("book/one.xhtml", "<html><h1>Of quinces</h1><p>Pick them late.</p></html>"),
    ])
}
