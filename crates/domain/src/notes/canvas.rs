//! The links of a canvas, a board that shows notes; and the links of any file that may have some: a
//! note or a canvas.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::file_links::{FileLink, Quoting};
use super::links::{LinkKind, LinkSyntax, LinkTarget, NoteLink};
use super::note_facts::{MAX_LINKS, NoteBody, NoteFacts};
use super::note_query::is_canvas;

/// Finds the facts of a file that may have links: a note, or a canvas, which has nothing else.
/// `None` for a note that is too large, and for a canvas that cannot be read.
pub fn facts_of_file(name: &str, text: &str) -> Option<NoteFacts> {
    if !is_canvas(name) {
        return NoteFacts::of(text);
    }
    let links = canvas_links(text)?.into_iter().map(NoteLink::from).collect();
    Some(NoteFacts { links, ..NoteFacts::default() })
}

/// Returns the links that [`facts_of_file`] finds, with their places in the text.
pub(super) fn links_of_file(name: &str, text: &str) -> Option<Vec<FileLink>> {
    if is_canvas(name) {
        return canvas_links(text);
    }
    let body = NoteBody::of(text)?;
    Some(body.file_links(body.links()))
}

/// A canvas: the parts that have links. *Source*: JSON Canvas 1.0, "Nodes".
#[derive(Deserialize)]
struct Canvas<'t> {
    #[serde(default, borrow)]
    nodes: Vec<CanvasNode<'t>>,
}

#[derive(Deserialize)]
struct CanvasNode<'t> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, borrow)]
    file: Option<&'t RawValue>,
    #[serde(default, borrow)]
    text: Option<&'t RawValue>,
    #[serde(default, borrow)]
    background: Option<&'t RawValue>,
}

/// Returns the links of a canvas: the file of each node of the type `file`, the picture behind each
/// node of the type `group`, and the links in the Markdown of each node of the type `text`. An
/// empty file is a canvas without nodes. `None` for a text that cannot be read as a canvas.
fn canvas_links(text: &str) -> Option<Vec<FileLink>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let canvas: Canvas<'_> = serde_json::from_str(text).ok()?;
    let mut links = Vec::new();
    for node in &canvas.nodes {
        let raw = match node.kind.as_str() {
            "file" => node.file,
            "group" => node.background,
            "text" => node.text,
            _ => None,
        };
        let Some(string) = raw.and_then(|raw| JsonString::of(text, raw)) else { continue };
        let before = text.get(..string.start).unwrap_or_default();
        let newlines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
        let line = u32::try_from(newlines + 1).unwrap_or(u32::MAX);
        if node.kind != "text" {
            links.extend(LinkTarget::of_root_path(&string.text).map(|target| FileLink {
                target,
                kind: LinkKind::Embed,
                syntax: LinkSyntax::RootPath,
                line,
                path: string.place(&(0..string.text.len())),
                quoting: Quoting::Double,
            }));
        } else if let Some(body) = NoteBody::of(&string.text) {
            links.extend(body.file_links(body.links()).into_iter().map(|link| FileLink {
                line,
                path: link.path.as_ref().and_then(|path| string.place(path)),
                quoting: Quoting::Double,
                ..link
            }));
        }
        if links.len() > MAX_LINKS {
            break;
        }
    }
    links.sort_by_key(|link| link.line);
    links.truncate(MAX_LINKS);
    Some(links)
}

/// A string of a JSON text and where its characters are.
struct JsonString {
    text: String,
    /// Where the string begins in the JSON text, after its quote.
    start: usize,
    /// The escapes, in their order.
    escapes: Vec<Escape>,
}

/// A character that a JSON text writes with an escape.
struct Escape {
    /// Where the character is in the string.
    character: Range<usize>,
    /// Where the JSON text goes on behind the escape, from the beginning of the string.
    behind: usize,
}

impl JsonString {
    /// Reads a string; `None` for another value.
    fn of(json: &str, raw: &RawValue) -> Option<Self> {
        let text: String = serde_json::from_str(raw.get()).ok()?;
        let start = (raw.get().as_ptr() as usize).checked_sub(json.as_ptr() as usize)? + 1;
        let inside = raw.get().get(1..raw.get().len().checked_sub(1)?)?;
        let (mut escapes, mut at, mut read) = (Vec::new(), 0, 0);
        while let Some(found) = memchr::memchr(b'\\', inside.as_bytes().get(at..)?) {
            let escape = inside.get(at + found..)?;
            let is_unicode = |escape: &str| escape.starts_with("\\u");
            let mut length = if is_unicode(escape) { 6 } else { 2 };
            let is_high = escape.get(2..4).is_some_and(|digits| {
                u8::from_str_radix(digits, 16).is_ok_and(|byte| (0xd8..0xdc).contains(&byte))
            });
            if is_unicode(escape) && is_high {
                length = 12;
            }
            read += found;
            let character = read..read + text.get(read..)?.chars().next()?.len_utf8();
            read = character.end;
            at += found + length;
            escapes.push(Escape { character, behind: at });
        }
        Some(Self { text, start, escapes })
    }

    /// Returns where a part of the text is in the JSON text.
    fn place(&self, part: &Range<usize>) -> Option<Range<usize>> {
        Some(self.written(part.start)?..self.written(part.end)?)
    }

    /// Returns where the JSON text writes what begins at `at` in the text; `None` within a
    /// character.
    fn written(&self, at: usize) -> Option<usize> {
        let before = self.escapes.partition_point(|escape| escape.character.end <= at);
        if self.escapes.get(before).is_some_and(|escape| escape.character.start < at) {
            return None;
        }
        let last = before.checked_sub(1).and_then(|last| self.escapes.get(last));
        let (read, behind) = last.map_or((0, 0), |last| (last.character.end, last.behind));
        Some(self.start + behind + (at - read))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a text as JSON, with an escape of hexadecimal digits for each character of `escaped`.
    fn json_of(text: &str, escaped: &[bool]) -> String {
        let mut written = String::from(" \"");
        for (index, character) in text.chars().enumerate() {
            if escaped.get(index).copied().unwrap_or_default() {
                let units = character.encode_utf16(&mut [0; 2]).to_vec();
                units.iter().for_each(|unit| written += &format!("\\u{unit:04x}"));
            } else {
                written += &crate::json::text::escaped(character.encode_utf8(&mut [0; 4]));
            }
        }
        written + "\""
    }

    proptest! {
        #[test]
        fn the_place_of_a_part_reads_as_the_part(
            text in "[a-c\"\\\\/\nüß中😀]{0,10}",
            escaped in proptest::collection::vec(any::<bool>(), 10),
        ) {
            let json = json_of(&text, &escaped);
            let raw: &RawValue = serde_json::from_str(&json).unwrap();
            let string = JsonString::of(&json, raw).unwrap();
            prop_assert_eq!(&string.text, &text);
            let is_end = |at: &usize| text.is_char_boundary(*at);
            let ends: Vec<usize> = (0..=text.len()).filter(is_end).collect();
            for start in &ends {
                for end in ends.iter().filter(|end| *end >= start) {
                    let place = string.place(&(*start..*end)).unwrap();
                    let quoted = format!("\"{}\"", &json[place]);
                    let read: String = serde_json::from_str(&quoted).unwrap();
                    prop_assert_eq!(read, &text[*start..*end]);
                }
            }
        }
    }

    /// Returns the paths of the links of a file, as the file spells them, each with its line.
    fn paths(links: Vec<FileLink>, text: &str) -> Vec<String> {
        let place =
            |link: &FileLink| link.path.clone().map_or("-", |place| &text[place]).to_owned();
        links.iter().map(|link| format!("{} {}", link.line, place(link))).collect()
    }

    #[test]
    fn a_canvas_has_the_files_of_its_nodes_and_the_links_of_its_texts() {
        let text = concat!(
            "{\"nodes\":[\n{\"id\":\"1\",\"type\":\"file\",\"file\":\"f/Note.md\"},\n",
            "{\"type\":\"text\",\"text\":\"\\u00e9\\ud83d\\ude00 \\\"[[b]]\\\"\\n[t](c%20d.md#x)\"},",
            "{\"type\":\"file\",\"file\":\"a\\/b.md\"},{\"type\":\"text\",\"text\":\"[[\\u0061b]]\"},",
            "{\"type\":\"link\",\"url\":\"x\",\"file\":\"no.md\"},{\"type\":\"file\"},",
            "{\"type\":\"group\",\"background\":\"\\u00fc.png\"},{\"type\":\"group\"}],\"edges\":[]}",
        );
        let links = canvas_links(text).unwrap();
        let found = paths(links.clone(), text);
        let written =
            ["2 f/Note.md", "3 b", "3 c%20d.md", "3 a\\/b.md", "3 \\u0061b", "3 \\u00fc.png"];
        assert_eq!(found, written);
        let targets: Vec<_> = links.iter().map(|l| l.target.clone()).collect();
        let targets: Vec<&str> = targets.iter().map(LinkTarget::as_str).collect();
        assert_eq!(targets, ["/f/Note.md", "b", "c d.md", "/a/b.md", "ab", "/ü.png"]);
        for empty in ["", " \n", "{}", "{\"nodes\":[{\"type\":\"file\",\"file\":1}]}"] {
            assert_eq!(canvas_links(empty), Some(Vec::new()), "{empty}");
        }
        for other in ["{\"nodes\":1}", "{\"nodes\":[", "x"] {
            assert_eq!(canvas_links(other), None, "{other}");
        }
    }
}
