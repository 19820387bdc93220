//! The links of a file, each with its place in the file's own text: links in the properties of a
//! note and in its body, and links in a canvas.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use super::links::{LinkKind, LinkSyntax, LinkTarget, PlacedLink, wikilinks};
use super::note_facts::{MAX_LINKS, NoteBody};
use super::yaml;
use crate::json_string;

/// How the text around a link writes characters that have a meaning there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// As they are.
    Bare,
    /// In single quotes of YAML, where a quote is written twice.
    Single,
    /// In double quotes of YAML or JSON, with backslashes.
    Double,
}

impl Quoting {
    /// Writes the path of a link.
    pub(super) fn write(self, path: String) -> String {
        match self {
            Self::Bare => path,
            Self::Single => path.replace('\'', "''"),
            Self::Double => json_string::escaped(&path),
        }
    }
}

/// A link with its place in the text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLink {
    pub(super) target: LinkTarget,
    pub(super) kind: LinkKind,
    pub(super) syntax: LinkSyntax,
    /// The line of the file, from 1.
    pub(super) line: u32,
    /// Where its path is, without the heading and the alias. `None` where the file spells the path
    /// otherwise than the link reads.
    pub(super) path: Option<Range<usize>>,
    pub(super) quoting: Quoting,
}

/// Returns the links in the properties of a note: a text, or an item of a list, that is one
/// wikilink and nothing else. Places are those in the front matter; `quoting` says how the value is
/// written.
pub(super) fn property_links(front: &str) -> Vec<(PlacedLink, Quoting)> {
    let has_links = memchr::memmem::find(front.as_bytes(), b"[[").is_some();
    if !has_links || !yaml::is_valid(front) {
        return Vec::new();
    }
    let mut links = Vec::new();
    // For each open mapping, whether a key comes next; `None` for a list.
    let mut open: Vec<Option<bool>> = Vec::new();
    for (event, span) in Parser::new_from_str(front).filter_map(Result::ok) {
        let is_key = matches!(open.last(), Some(Some(true)));
        match event {
            Event::Scalar(text, style, ..) if !is_key => {
                let place = span.start.byte_offset().zip(span.end.byte_offset());
                links
                    .extend(place.and_then(|(from, to)| value_link(front, &text, style, from..to)));
            }
            Event::MappingStart(..) => {
                open.push(Some(true));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(None);
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
            }
            Event::Scalar(..) | Event::Alias(_) | Event::UnresolvedAlias(_) => {}
            _ => continue,
        }
        if let Some(Some(expects_key)) = open.last_mut() {
            *expects_key = !*expects_key;
        }
    }
    links
}

/// Returns the link of a value whose text is one wikilink. `place` is the value as it is written.
fn value_link(
    front: &str,
    text: &str,
    style: ScalarStyle,
    place: Range<usize>,
) -> Option<(PlacedLink, Quoting)> {
    let link = whole_wikilink(text)?;
    let quoting = match style {
        ScalarStyle::SingleQuoted => Quoting::Single,
        ScalarStyle::DoubleQuoted => Quoting::Double,
        _ => Quoting::Bare,
    };
    let written = front.get(place.clone())?;
    let path = link.path.as_ref().and_then(|path| text.trim().get(path.clone())).and_then(|path| {
        let opening = written.find("[[")?;
        let at = opening + written.get(opening..)?.find(path)?;
        Some(place.start + at..place.start + at + path.len())
    });
    Some((PlacedLink { range: place, path, ..link }, quoting))
}

/// Returns the link if a text is one wikilink and nothing else but white space around it.
pub(super) fn whole_wikilink(text: &str) -> Option<PlacedLink> {
    let text = text.trim();
    let [link] = <[PlacedLink; 1]>::try_from(wikilinks(text, &[])).ok()?;
    (link.range == (0..text.len())).then_some(link)
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
pub(super) fn canvas_links(text: &str) -> Vec<FileLink> {
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
    use super::super::note_facts::NoteFacts;
    use super::*;

    /// Returns the paths of the links of a file, as the file spells them, each with its line.
    fn paths(links: Vec<FileLink>, text: &str) -> Vec<String> {
        let place =
            |link: &FileLink| link.path.clone().map_or("-", |place| &text[place]).to_owned();
        links.iter().map(|link| format!("{} {}", link.line, place(link))).collect()
    }

    fn of_note(text: &str) -> Vec<String> {
        let body = NoteBody::of(text).unwrap();
        paths(body.file_links(body.links()), text)
    }

    #[test]
    fn a_property_has_a_link_if_its_value_is_one_wikilink() {
        for (front, expected) in [
            ("up: \"[[Note]]\"", &["2 Note"][..]),
            ("rel:\n  - \"[[a/Note|al]]\"\n  - '[[Note#h]]'", &["3 a/Note", "4 Note"]),
            ("a: {b: \"[[Note]]\"}\nc: [ '[[ x ]]' ]", &["2 Note", "3 x"]),
            ("a: |\n  [[Note]]\n", &["3 Note"]),
            ("a: '[[it''s]]'\nb: \"[[a\\\"b]]\"", &["2 -", "3 -"]),
            ("a: \"see [[Note]]\"\nb: [[Note]]\n\"[[key]]\": x\nc: \"[[a]] [[b]]\"", &[]),
            ("a: 1\na: \"[[Note]]\"", &[]),
        ] {
            let text = format!("---\n{front}\n---\n");
            let found = of_note(&text);
            assert_eq!(found, expected, "{text}");
            let known = NoteFacts::of(&text).unwrap().links.len();
            assert_eq!(known, expected.len(), "{text}");
        }
    }

    #[test]
    fn links_of_properties_come_before_those_of_the_body() {
        let text = "\u{feff}---\r\na: \"[[x]]\"\r\n---\r\n[[y]] [t](z.md)\r\n";
        assert_eq!(of_note(text), ["2 x", "4 y", "4 z.md"]);
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
