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
/// `None` for a note that is too large.
pub fn facts_of_file(name: &str, text: &str) -> Option<NoteFacts> {
    if !is_canvas(name) {
        return NoteFacts::of(text);
    }
    let links = canvas_links(text).into_iter().map(NoteLink::from).collect();
    Some(NoteFacts { links, ..NoteFacts::default() })
}

/// Returns the links that [`facts_of_file`] finds, with their places in the text.
pub(super) fn links_of_file(name: &str, text: &str) -> Option<Vec<FileLink>> {
    if is_canvas(name) {
        return Some(canvas_links(text));
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
}

/// Returns the links of a canvas: the file of each node of the type `file`, and the links in the
/// Markdown of each node of the type `text`. A text that is not a canvas has none.
fn canvas_links(text: &str) -> Vec<FileLink> {
    let Ok(canvas) = serde_json::from_str::<Canvas<'_>>(text) else { return Vec::new() };
    let mut links = Vec::new();
    for node in &canvas.nodes {
        let raw = match node.kind.as_str() {
            "file" => node.file,
            "text" => node.text,
            _ => None,
        };
        let Some(string) = raw.and_then(|raw| JsonString::of(text, raw)) else { continue };
        let before = text.get(..string.start).unwrap_or_default();
        let newlines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
        let line = u32::try_from(newlines + 1).unwrap_or(u32::MAX);
        if node.kind == "file" {
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
    links
}

/// A string of a JSON text and where its characters are.
struct JsonString {
    text: String,
    /// Where the string begins in the JSON text, after its quote.
    start: usize,
    /// For each escape, where the text goes on after it: in `text`, and in the JSON text from
    /// `start`.
    escapes: Vec<(usize, usize)>,
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
            let character = text.get(read..)?.chars().next()?;
            read += character.len_utf8();
            at += found + length;
            escapes.push((read, at));
        }
        Some(Self { text, start, escapes })
    }

    /// Returns where a part of the text is in the JSON text; `None` for a part with an escape.
    fn place(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let before = |at: usize| self.escapes.partition_point(|(read, _)| *read <= at);
        let (from, to) = (before(part.start), before(part.end.max(part.start + 1) - 1));
        let (read, written) = match from.checked_sub(1) {
            Some(last) => *self.escapes.get(last)?,
            None => (0, 0),
        };
        // An escape ends behind its character, so the character may be the first of the part.
        let begins_escaped = self.escapes.get(from).is_some_and(|(read, _)| *read <= part.end);
        let start = self.start + written + (part.start - read);
        (from == to && !begins_escaped).then(|| start..start + part.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "{\"type\":\"group\"}],\"edges\":[]}",
        );
        let found = paths(canvas_links(text), text);
        assert_eq!(found, ["2 f/Note.md", "3 b", "3 c%20d.md", "3 -", "3 -"]);
        let targets: Vec<_> = canvas_links(text).iter().map(|l| l.target.clone()).collect();
        let targets: Vec<&str> = targets.iter().map(LinkTarget::as_str).collect();
        assert_eq!(targets, ["/f/Note.md", "b", "c d.md", "/a/b.md", "ab"]);
        for other in ["", "[]", "{\"nodes\":1}", "{\"nodes\":[{\"type\":\"file\",\"file\":1}]}"] {
            assert_eq!(canvas_links(other), [], "{other}");
        }
    }
}
