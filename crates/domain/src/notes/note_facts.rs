//! What can be found of a note: its tags, its properties and its links.
//!
//! One pass over the Markdown finds the places that are not text, such as code. The rules for tags
//! and links then look at the rest. *Source*: the help pages of Obsidian, "Tags", "Properties" and
//! "Internal links"; `docs/notes.md` has each rule and its test.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Tag};

use super::front_fences::FrontFences;
use super::limits::MAX_BODY_UNITS;
use super::line_numbers::LineNumbers;
use super::links::{LinkKind, LinkTarget, NoteLink, PlacedLink, wikilinks};
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
        let text = text.strip_prefix(crate::edit::BOM).unwrap_or(text);
        let fences = FrontFences::find(text);
        let front = fences.as_ref().map_or("", |fences| fences.front(text));
        let body_offset = fences.as_ref().map_or(0, |fences| fences.body);
        let body = text.get(body_offset..).unwrap_or_default();
        if body.len() > MAX_BODY_UNITS {
            return None;
        }
        let body = commonmark::readable(body);
        let parts = Parts::of(&body);
        let lines = LineNumbers::new(text, body_offset, &body);
        let wikilinks = wikilinks(&body, &parts.not_links);
        let properties = yaml::properties(front).unwrap_or_default();
        let mut not_tags = parts.not_tags;
        not_tags.extend(wikilinks.iter().map(|(_, _, range)| range.clone()));
        let mut tags: Vec<Box<str>> = front_matter_tags(&properties).collect();
        tags.extend(inline_tags(&body, &merged(not_tags)));
        tags.sort_unstable();
        tags.dedup();
        let mut links = parts.links;
        links.extend(wikilinks);
        links.sort_unstable_by_key(|(_, _, range)| range.start);
        links.truncate(MAX_LINKS);
        let numbers = lines.lines_at(links.iter().map(|(_, _, range)| range.start));
        let numbered = links.iter().zip(numbers).map(|((target, kind, _), line)| NoteLink {
            target: target.clone(),
            kind: *kind,
            line: u32::try_from(line).unwrap_or(u32::MAX),
        });
        Some(Self { tags: tags.into(), properties: properties.into(), links: numbered.collect() })
    }
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
        let (mut not_links, mut not_tags, mut links) =
            (definitions.clone(), definitions, Vec::new());
        for (event, range) in events.by_ref() {
            match event {
                Event::Code(_)
                | Event::Html(_)
                | Event::InlineHtml(_)
                | Event::Start(Tag::CodeBlock(_)) => {
                    not_links.push(range.clone());
                    not_tags.push(range);
                }
                Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                    // `[[a]]` is a wikilink, even where a reference `a` is defined.
                    let is_wikilink = body.get(..range.start).is_some_and(|b| b.ends_with('['))
                        && !matches!(link_type, LinkType::Inline);
                    if !matches!(link_type, LinkType::Autolink | LinkType::Email) && !is_wikilink {
                        let target = LinkTarget::of_markdown(&dest_url);
                        let kind = LinkKind::Markdown;
                        links.extend(target.map(|target| (target, kind, range.clone())));
                    }
                    not_tags.push(range);
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let target = LinkTarget::of_markdown(&dest_url);
                    links.extend(target.map(|target| (target, LinkKind::Embed, range.clone())));
                    not_tags.push(range);
                }
                _ => {}
            }
        }
        Self { not_links: merged(not_links), not_tags, links }
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
