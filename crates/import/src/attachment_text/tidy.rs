//! The form and the bound of the text of one document, and how a child process sends it.

use stile_domain::byte_size::beginning;
use stile_domain::document::DocumentPart;

/// What was taken out of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extracted {
    /// The title that the document gives itself.
    pub(super) title: Option<String>,
    /// The texts of its parts.
    pub(super) parts: Vec<DocumentPart>,
}

/// The most bytes of one document's text. The rest is left out.
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of the title of a part.
const MAX_TITLE_BYTES: usize = 256;

/// Returns a text with line feeds alone, without other control characters and without more than one
/// empty line in a row, cut to [`MAX_TEXT_BYTES`].
pub(super) fn tidy(text: &str) -> String {
    let mut tidied = String::new();
    let mut breaks = 0;
    for line in text.split(['\n', '\u{b}', '\u{c}']) {
        let line = line.trim_end();
        breaks += 1;
        if line.is_empty() {
            continue;
        }
        if !tidied.is_empty() {
            tidied.push_str(if breaks > 1 { "\n\n" } else { "\n" });
        }
        breaks = 0;
        tidied.extend(line.chars().filter(|c| !c.is_control() || *c == '\t'));
        if tidied.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    tidied.truncate(beginning(&tidied, MAX_TEXT_BYTES).len());
    tidied
}

/// Stands before each part of a document as a child process sends it. No tidied text has it.
const BEGIN: char = '\u{c}';

/// Returns a document with tidied texts, which have [`MAX_TEXT_BYTES`] together.
pub(super) fn tidied(Extracted { title, parts }: Extracted) -> Extracted {
    let mut room = MAX_TEXT_BYTES;
    let on_a_line = |title: Option<String>| {
        title.map(|title| one_line(&title)).filter(|title| !title.is_empty())
    };
    let mut tidied = Vec::with_capacity(parts.len());
    for part in parts {
        let text = beginning(&tidy(&part.text), room).to_owned();
        room -= text.len();
        let title = on_a_line(part.title);
        tidied.push(DocumentPart { label: part.label, title, text });
    }
    Extracted { title: on_a_line(title), parts: tidied }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    beginning(&line, MAX_TITLE_BYTES).replace(char::is_control, "")
}

/// Writes a document as a child process sends it: its title, and then the parts, each of which
/// begins with a line of its label and its title.
pub(super) fn to_wire(Extracted { title, parts }: &Extracted) -> String {
    let mut wire = title.clone().unwrap_or_default();
    for DocumentPart { label, title, text } in parts {
        let title = title.as_deref().unwrap_or_default();
        wire.push_str(&format!("{BEGIN}{label}\t{title}\n{text}"));
    }
    wire
}

/// Reads what [`to_wire`] wrote. `None` if it is not that.
pub(super) fn of_wire(wire: &str) -> Option<Extracted> {
    let mut pieces = wire.split(BEGIN);
    let title = pieces.next().filter(|title| !title.contains('\n'))?;
    let title = (!title.is_empty()).then(|| title.to_owned());
    let part = |piece: &str| {
        let (head, text) = piece.split_once('\n')?;
        let (label, title) = head.split_once('\t')?;
        let title = (!title.is_empty()).then(|| title.to_owned());
        Some(DocumentPart { label: label.to_owned(), title, text: text.to_owned() })
    };
    let parts = pieces.map(part).collect::<Option<_>>()?;
    Some(Extracted { title, parts })
}

/// Returns the text of a document without the labels of its parts. Titles stand before the texts.
pub(super) fn without_labels(parts: &[DocumentPart]) -> String {
    let mut text = String::new();
    for part in parts {
        let title = part.title.as_deref();
        for own in title.into_iter().chain([part.text.as_str()]).filter(|own| !own.is_empty()) {
            if !text.is_empty() {
                text.push_str(if Some(own) == title || title.is_none() { "\n\n" } else { "\n" });
            }
            text.push_str(own);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_of_a_child_as_they_went_in() {
        let part = |label: &str, title: Option<&str>, text: &str| DocumentPart {
            label: label.to_owned(),
            title: title.map(str::to_owned),
            text: text.to_owned(),
        };
        let title = Some("The\nreport".to_owned());
        let document = |parts| Extracted { title: title.clone(), parts };
        let read = tidied(document(vec![
            part("sheet 1", Some("a\tb\n c"), "x\u{c}y\r\n"),
            part("sheet 2", Some(" "), ""),
            part("", None, "z"),
        ]));
        let expected = [
            part("sheet 1", Some("a b c"), "x\ny"),
            part("sheet 2", None, ""),
            part("", None, "z"),
        ];
        assert_eq!((read.title.as_deref(), &read.parts[..]), (Some("The report"), &expected[..]));
        assert_eq!(of_wire(&to_wire(&read)).as_ref(), Some(&read));
        let empty = Extracted::default();
        assert_eq!(of_wire(&to_wire(&empty)), Some(empty));
        for wrong in ["a\nb", "\u{c}sheet 1", "\u{c}sheet 1\n"] {
            assert_eq!(of_wire(wrong), None, "{wrong}");
        }
        assert_eq!(without_labels(&read.parts), "a b c\nx\ny\n\nz");
    }

    #[test]
    fn all_parts_together_have_a_bound() {
        let page = DocumentPart {
            label: "page 1".to_owned(),
            title: None,
            text: "x".repeat(MAX_TEXT_BYTES / 2 + 1),
        };
        let sizes =
            tidied(Extracted { title: None, parts: vec![page.clone(), page.clone(), page] });
        let sizes = sizes.parts.into_iter().map(|it| it.text.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [MAX_TEXT_BYTES / 2 + 1, MAX_TEXT_BYTES / 2 - 1, 0]);
    }

    #[test]
    fn texts_are_tidied() {
        assert_eq!(tidy("\r\n a\u{0}b \t\r\n\r\n\n\nc\u{c}d\r\n"), " ab\n\nc\nd");
        assert_eq!(tidy(&"é\n".repeat(MAX_TEXT_BYTES)).len(), MAX_TEXT_BYTES - 1);
    }
}
