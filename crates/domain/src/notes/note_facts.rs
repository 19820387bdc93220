//! What can be found of a note: its tags, its properties and its links.
//!
//! One pass over the Markdown finds the places that are not text, such as code. The rules for tags
//! and links then look at the rest. *Source*: the help pages of Obsidian, "Tags", "Properties" and
//! "Internal links"; `docs/notes.md` has each rule and its test.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Tag, TagEnd};

use super::file_links::{FileLink, Quoting, property_links};
use super::front_fences::FrontFences;
use super::limits::MAX_BODY_UNITS;
use super::line_numbers::LineNumbers;
use super::link_places::{SourcePlaces, defined_path, inline_path};
use super::links::{LinkKind, LinkSyntax, LinkTarget, NoteLink, PlacedLink, wikilinks};
use super::note_property::NoteProperty;
use super::tags::{front_matter_tags, inline_tags};
use super::{commonmark, yaml};
use crate::facts::Footprint;

/// The most links of a note that are found. Nobody writes more.
pub const MAX_LINKS: usize = 10_000;

/// The tags, properties and links of one note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteFacts {
    /// The tags without `#`, in lower case, each once, in order.
    pub tags: Box<[Box<str>]>,
    /// The members of the front matter.
    pub properties: Box<[NoteProperty]>,
    /// The links, in document order.
    pub links: Box<[NoteLink]>,
}

impl Footprint for NoteFacts {
    fn heap_bytes(&self) -> usize {
        let texts = |texts: &[Box<str>]| -> usize {
            size_of_val(texts) + texts.iter().map(|text| text.len()).sum::<usize>()
        };
        let properties = self.properties.iter().map(|one| one.name.len() + texts(&one.values));
        texts(&self.tags)
            + size_of_val(&*self.properties)
            + properties.sum::<usize>()
            + size_of_val(&*self.links)
            + self.links.iter().map(|link| link.target.as_str().len()).sum::<usize>()
    }
}

impl NoteFacts {
    /// Finds the facts of a note in the text of its file; `None` for a note that is too large.
    pub fn of(text: &str) -> Option<Self> {
        let body = NoteBody::of(text)?;
        let parts = Parts::of(&body.readable);
        let wikilinks = wikilinks(&body.readable, &parts.not_links);
        let properties = yaml::properties(body.front).unwrap_or_default();
        let mut not_tags = parts.not_tags;
        not_tags.extend(wikilinks.iter().map(|link| link.range.clone()));
        let mut tags: Vec<Box<str>> = front_matter_tags(&properties).collect();
        tags.extend(inline_tags(&body.readable, &merged(not_tags)));
        tags.sort_unstable();
        tags.dedup();
        let links = body.file_links(in_order(parts.links, wikilinks));
        Some(Self {
            tags: tags.into(),
            properties: properties.into(),
            links: links.into_iter().map(NoteLink::from).collect(),
        })
    }
}

impl From<FileLink> for NoteLink {
    fn from(link: FileLink) -> Self {
        Self { target: link.target, kind: link.kind, line: link.line }
    }
}

/// The body of a note, as it is and as the parser reads it.
pub(super) struct NoteBody<'t> {
    /// The length of the byte order mark.
    mark: usize,
    /// The text of the file without a byte order mark.
    text: &'t str,
    front: &'t str,
    /// Where the front matter begins in `text`.
    front_start: usize,
    /// Where the body begins in `text`.
    offset: usize,
    readable: Cow<'t, str>,
}

impl<'t> NoteBody<'t> {
    /// Finds the body in the text of a file; `None` for a note that is too large.
    pub(super) fn of(whole: &'t str) -> Option<Self> {
        let text = whole.strip_prefix(crate::lines::BOM).unwrap_or(whole);
        let fences = FrontFences::find(text);
        let front = fences.as_ref().map_or("", |fences| fences.front(text));
        let front_start = fences.as_ref().map_or(0, |fences| fences.start);
        let offset = fences.as_ref().map_or(0, |fences| fences.body);
        let body = text.get(offset..).unwrap_or_default();
        (body.len() <= MAX_BODY_UNITS).then(|| Self {
            mark: whole.len() - text.len(),
            text,
            front,
            front_start,
            offset,
            readable: commonmark::readable(body),
        })
    }

    /// Returns the links of the body in document order, those that [`NoteFacts::of`] finds.
    pub(super) fn links(&self) -> Vec<PlacedLink> {
        let parts = Parts::of(&self.readable);
        let wikilinks = wikilinks(&self.readable, &parts.not_links);
        in_order(parts.links, wikilinks)
    }

    /// Returns the links of the properties and then `links`, which are those of the body, with
    /// their places in the file.
    pub(super) fn file_links(&self, links: Vec<PlacedLink>) -> Vec<FileLink> {
        let in_front = property_links(self.front).into_iter().map(|(link, quoting)| {
            let start = self.front_start + link.range.start;
            let before = self.text.get(..start).unwrap_or_default();
            let newlines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
            let moved = self.mark + self.front_start;
            FileLink {
                line: u32::try_from(newlines + 1).unwrap_or(u32::MAX),
                path: link.path.map(|path| moved + path.start..moved + path.end),
                target: link.target,
                kind: link.kind,
                syntax: link.syntax,
                quoting,
            }
        });
        let lines = LineNumbers::new(self.text, self.offset, &self.readable);
        let numbers: Vec<u64> = lines.lines_at(links.iter().map(|link| link.range.start)).collect();
        let places = SourcePlaces::new(self.source(), &self.readable);
        let moved = self.mark + self.offset;
        let in_body = links.into_iter().zip(numbers).map(|(link, line)| FileLink {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            path: link
                .path
                .and_then(|path| places.in_source(&path))
                .map(|path| moved + path.start..moved + path.end),
            target: link.target,
            kind: link.kind,
            syntax: link.syntax,
            quoting: Quoting::Bare,
        });
        in_front.chain(in_body).take(MAX_LINKS).collect()
    }

    /// Returns the body as the file has it.
    pub(super) fn source(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }
}

fn in_order(mut links: Vec<PlacedLink>, more: Vec<PlacedLink>) -> Vec<PlacedLink> {
    links.extend(more);
    links.sort_unstable_by_key(|link| link.range.start);
    links.truncate(MAX_LINKS);
    links
}

/// The parts of a body that the Markdown parser tells apart.
struct Parts {
    /// Code, HTML and definitions of references, in which no wikilink is.
    not_links: Vec<Range<usize>>,
    /// The same and the links, in which no tag is.
    not_tags: Vec<Range<usize>>,
    /// The Markdown links and images that lead into the space.
    links: Vec<PlacedLink>,
}

impl Parts {
    fn of(body: &str) -> Self {
        let mut events = commonmark::events_and_definitions(body);
        let definitions = events.definitions();
        let mut parts =
            Self { not_links: definitions.clone(), not_tags: definitions, links: Vec::new() };
        // The links around the event, each with its index and the end of its text so far.
        let mut open: Vec<(Option<usize>, usize)> = Vec::new();
        let mut by_reference = Vec::new();
        for (event, range) in events.by_ref() {
            if let (Some((_, end)), false) = (open.last_mut(), matches!(event, Event::End(_))) {
                *end = range.end.max(*end);
            }
            match event {
                Event::Code(_)
                | Event::Html(_)
                | Event::InlineHtml(_)
                | Event::Start(Tag::CodeBlock(_)) => {
                    parts.not_links.push(range.clone());
                    parts.not_tags.push(range);
                }
                Event::Start(
                    ref tag @ (Tag::Link { link_type, ref dest_url, ref id, .. }
                    | Tag::Image { link_type, ref dest_url, ref id, .. }),
                ) => {
                    let is_image = matches!(tag, Tag::Image { .. });
                    let index = parts.push_link(body, (is_image, link_type, dest_url), &range);
                    open.push((index, range.start + 1 + usize::from(is_image)));
                    by_reference.extend(index.map(|index| (index, id.clone())));
                    parts.not_tags.push(range);
                }
                Event::End(TagEnd::Link | TagEnd::Image) => {
                    let Some((Some(index), end)) = open.pop() else { continue };
                    if let Some(link) = parts.links.get_mut(index) {
                        link.path = inline_path(body, end, range.end);
                    }
                }
                _ => {}
            }
        }
        for (index, id) in by_reference {
            if let Some(link) = parts.links.get_mut(index)
                && link.path.is_none()
                && let Some(span) = events.definition(&id)
            {
                link.path = defined_path(body, &span);
            }
        }
        parts.not_links = merged(parts.not_links);
        parts
    }

    /// Adds a Markdown link that leads into the space. Returns its index.
    fn push_link(
        &mut self,
        body: &str,
        (is_image, link_type, destination): (bool, LinkType, &str),
        range: &Range<usize>,
    ) -> Option<usize> {
        // `[[a]]` is a wikilink, even where a reference `a` is defined.
        let is_wikilink = body.get(..range.start).is_some_and(|b| b.ends_with('['))
            && !matches!(link_type, LinkType::Inline);
        let is_automatic = matches!(link_type, LinkType::Autolink | LinkType::Email);
        if !is_image && (is_automatic || is_wikilink) {
            return None;
        }
        let target = LinkTarget::of_markdown(destination)?;
        let kind = if is_image { LinkKind::Embed } else { LinkKind::Markdown };
        let syntax = LinkSyntax::Markdown;
        self.links.push(PlacedLink { target, kind, syntax, range: range.clone(), path: None });
        Some(self.links.len() - 1)
    }
}

/// Sorts ranges and joins those that overlap.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
