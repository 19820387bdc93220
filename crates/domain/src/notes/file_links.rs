//! The links of a file, each with its place in the file's own text, and the links in the properties
//! of a note.

use std::ops::Range;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use super::links::{LinkKind, LinkSyntax, LinkTarget, PlacedLink, wikilinks};
use super::yaml;
use crate::json::text;

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
            Self::Double => text::escaped(&path),
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

#[cfg(test)]
mod tests {
    use super::super::note_facts::{NoteBody, NoteFacts};
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
}
