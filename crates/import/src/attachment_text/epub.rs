//! Reads the text of a book: a zip file of pages of HTML, in the order of its spine.
//!
//! *Source*: EPUB 3.3, sections 4.2 (container) and 5 (package document).

use std::collections::HashMap;

use stile_domain::document::{DocumentPart, NoText};
use stile_domain::percent;

use super::package::{MAX_PARTS, Package, Title, XmlEvent, read_xml, unescaped_attribute};
use super::tidy::{Extracted, MAX_TEXT_BYTES};
use crate::charset::decode_text;
use crate::html;

/// Where every book says which of its parts is the package document.
const CONTAINER: &str = "META-INF/container.xml";

/// Returns the title of a book, and the text of each chapter. One that is missing or damaged has
/// none.
pub(super) fn book(bytes: &[u8]) -> Result<Extracted, NoText> {
    let mut package = Package::open(bytes)?;
    let container = package.part(CONTAINER)?.ok_or(NoText::Damaged)?;
    let mut root = None;
    read_xml(container, &mut |event| {
        if let XmlEvent::Start("rootfile", start) = event {
            root = unescaped_attribute(start, "full-path");
        }
        root.is_none()
    })?;
    let root = root.ok_or(NoText::Damaged)?;
    let document = package.part(&root)?.ok_or(NoText::Damaged)?;
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut bytes = 0;
    let mut chapters = Vec::new();
    let (title, spine) = title_and_spine(document)?;
    for (number, href) in (1..).zip(spine) {
        let name = part_name(folder, &href);
        let page = package.part(&name).ok().flatten().unwrap_or_default();
        let text = html::to_text(&decode_text(&page, None));
        bytes += text.len();
        chapters.push(DocumentPart { label: format!("chapter {number}"), title: None, text });
        if bytes > MAX_TEXT_BYTES {
            break;
        }
    }
    Ok(Extracted { title, parts: chapters })
}

/// Returns the title in the package document, and the references of the chapters in their order.
fn title_and_spine(document: Vec<u8>) -> Result<(Option<String>, Vec<String>), NoText> {
    let (mut items, mut order) = (HashMap::new(), Vec::new());
    let mut title = Title::default();
    read_xml(document, &mut |event| {
        title.take(&event);
        match event {
            XmlEvent::Start("item", start) => {
                let named =
                    unescaped_attribute(start, "id").zip(unescaped_attribute(start, "href"));
                items.extend(named);
            }
            XmlEvent::Start("itemref", start) => order.extend(unescaped_attribute(start, "idref")),
            _ => {}
        }
        items.len().max(order.len()) <= MAX_PARTS
    })?;
    Ok((title.found(), order.iter().filter_map(|id| items.get(id).cloned()).collect()))
}

/// Returns the name in the package of what the package document in a folder refers to.
fn part_name(folder: &str, href: &str) -> String {
    let href = href.split(['#', '?']).next().unwrap_or_default();
    let href = percent::decode(href).unwrap_or_else(|| href.to_owned());
    let mut segments: Vec<&str> = folder.split('/').filter(|one| !one.is_empty()).collect();
    for segment in href.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    const OPF: &str = r#"<package><metadata><dc:title>Fern &amp; moss</dc:title><dc:title>x</dc:title></metadata>
        <manifest><item id="b" href="text/two%20.xhtml"/>
        <item id="a" href="../one.xhtml#top"/><item id="c" href="gone.xhtml"/></manifest>
        <spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine></package>"#;
    const ROOT: &str = r#"<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles>
        </container>"#;

    #[test]
    fn chapters_come_in_the_order_of_the_spine() {
        let book = package(&[
            ("META-INF/container.xml", ROOT),
            ("OEBPS/book.opf", OPF),
            ("OEBPS/text/two .xhtml", "<html><head><title>x</title></head><p>moss</p></html>"),
            ("one.xhtml", "<html><h1>Ferns</h1><p>grow &amp; spread</p></html>"),
        ]);
        let read = super::book(&book).unwrap();
        assert_eq!(read.title.as_deref(), Some("Fern & moss"));
        let texts: Vec<_> =
            read.parts.iter().map(|it| (it.label.as_str(), it.text.as_str())).collect();
        let expected =
            [("chapter 1", "Ferns\ngrow & spread"), ("chapter 2", "moss"), ("chapter 3", "")];
        assert_eq!(texts, expected);
        assert_eq!(super::book(&package(&[("a", "")])), Err(NoText::Damaged));
    }
}
