//! Derives the four answers of the note tools from a note, each within [`MAX_ANSWER_BYTES`].

use std::collections::VecDeque;

use serde::Serialize;

use super::answers::{
    AlwaysFalse, DocumentTree, HeadingId, MetadataFacets, NoteOutline, OutlineHeading, Section,
    SectionSource, TreeNode,
};
use super::front_matter::Note;
use super::headings::{Heading, Headings, headings};
use super::limits::{MAX_ANSWER_BYTES, MAX_BODY_UNITS};
use super::note_path::NotePath;
use super::{facets, whitespace};

/// The error for a body of more than [`MAX_BODY_UNITS`] UTF-16 code units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the note is too large")]
pub struct NoteTooLarge;

/// Derives the headings of a note in document order.
///
/// # Errors
/// [`NoteTooLarge`] where the body is too long to be parsed.
pub fn note_outline(path: &NotePath, note: Note<'_>) -> Result<NoteOutline, NoteTooLarge> {
    let parsed = Parsed::new(path, note)?;
    let mut answer = NoteOutline::new(path, parsed.title, parsed.truncated);
    let mut remaining = RemainingBytes::beside(&answer);
    for (heading, id) in parsed.headings.iter().zip(&parsed.ids) {
        let item =
            OutlineHeading { level: heading.level, text: heading.text.clone(), id: id.clone() };
        if !remaining.take(&item, 1) {
            answer.truncated = true;
            break;
        }
        answer.headings.push(item);
    }
    Ok(answer)
}

/// Derives the headings of a note as a tree.
///
/// # Errors
/// [`NoteTooLarge`] where the body is too long to be parsed.
pub fn document_tree(path: &NotePath, note: Note<'_>) -> Result<DocumentTree, NoteTooLarge> {
    let parsed = Parsed::new(path, note)?;
    let mut answer = DocumentTree::new(path, parsed.title, parsed.truncated);
    let mut remaining = RemainingBytes::beside(&answer);
    let mut nodes = Vec::new();
    for (heading, id) in parsed.headings.iter().zip(&parsed.ids) {
        let node = TreeNode {
            id: id.clone(),
            level: heading.level,
            text: heading.text.clone(),
            children: VecDeque::new(),
        };
        if !remaining.take(&node, 1) {
            answer.truncated = true;
            break;
        }
        nodes.push(node);
    }
    let parents = parents(parsed.headings.iter().take(nodes.len()));
    // From the last to the first, so that each node is complete when its parent takes it.
    for parent in parents.into_iter().rev() {
        let Some(node) = nodes.pop() else { break };
        match parent.and_then(|parent| nodes.get_mut(parent)) {
            Some(parent) => parent.children.push_front(node),
            None => answer.root.children.push_front(node),
        }
    }
    Ok(answer)
}

/// Derives the sections of a note: each heading with its ancestors and children, and whether
/// content follows the heading.
///
/// # Errors
/// [`NoteTooLarge`] where the body is too long to be parsed.
pub fn section_source(path: &NotePath, note: Note<'_>) -> Result<SectionSource, NoteTooLarge> {
    let parsed = Parsed::new(path, note)?;
    let mut answer = SectionSource::new(path, parsed.title, parsed.truncated);
    let mut remaining = RemainingBytes::beside(&answer);
    let parents = parents(parsed.headings.iter());
    let prefix = section_prefix(path);
    for ((heading, id), parent) in parsed.headings.iter().zip(&parsed.ids).zip(parents) {
        let above = parent.and_then(|parent| answer.sections.get(parent));
        let mut heading_path = above.map(|above| above.heading_path.clone()).unwrap_or_default();
        heading_path.push(heading.text.clone());
        let section = Section {
            section_id: format!("{prefix}:{id}"),
            heading_id: id.clone(),
            level: heading.level,
            heading_path,
            heading_text: heading.text.clone(),
            child_section_ids: Vec::new(),
            body_available: heading.body,
            body_returned: AlwaysFalse,
            snippet_returned: AlwaysFalse,
        };
        // The parent lists the id too, with quotes and a comma.
        let listed = if parent.is_some() { section.section_id.len() + 3 } else { 0 };
        if !remaining.take(&section, 1 + listed) {
            answer.truncated = true;
            break;
        }
        if let Some(parent) = parent.and_then(|parent| answer.sections.get_mut(parent)) {
            parent.child_section_ids.push(section.section_id.clone());
        }
        answer.sections.push(section);
    }
    Ok(answer)
}

/// Derives the facets of a note from its front matter and its path.
///
/// # Errors
/// [`NoteTooLarge`] where the body is too long to be parsed.
pub fn metadata_facets(path: &NotePath, note: Note<'_>) -> Result<MetadataFacets, NoteTooLarge> {
    checked_body(note.markdown())?;
    Ok(facets::facets(path, note.front))
}

/// Returns the title of a note: from its front matter, else from its name.
pub fn note_title(path: &NotePath, note: Note<'_>) -> Option<String> {
    facets::title(path, note.front).0
}

struct Parsed {
    title: Option<String>,
    headings: Vec<Heading>,
    ids: Vec<HeadingId>,
    truncated: bool,
}

impl Parsed {
    fn new(path: &NotePath, note: Note<'_>) -> Result<Self, NoteTooLarge> {
        let Headings { list, truncated } = headings(checked_body(note.markdown())?);
        let (title, cut) = facets::title(path, note.front);
        let ids = list.iter().zip(1..).map(|(heading, ordinal)| id(heading, ordinal)).collect();
        Ok(Self { title, headings: list, ids, truncated: truncated || cut })
    }
}

/// Returns the body, or refuses one of more than [`MAX_BODY_UNITS`].
pub(super) fn checked_body(body: &str) -> Result<&str, NoteTooLarge> {
    // A text never has more UTF-16 code units than bytes.
    if body.len() > MAX_BODY_UNITS
        && body.chars().map(char::len_utf16).sum::<usize>() > MAX_BODY_UNITS
    {
        return Err(NoteTooLarge);
    }
    Ok(body)
}

/// Returns what all section ids of a note begin with, before the colon.
pub(super) fn section_prefix(path: &NotePath) -> String {
    let prefix = whitespace::slug(path.as_str());
    if prefix.is_empty() { "note".to_owned() } else { prefix }
}

pub(super) fn id(heading: &Heading, ordinal: usize) -> HeadingId {
    let slug = whitespace::slug(&heading.text);
    let slug = if slug.is_empty() { "heading" } else { &slug };
    format!("h{}-{slug}-{ordinal:04}", heading.level)
}

/// Returns for each heading the index of its parent: the nearest earlier heading of a lower level.
pub(super) fn parents<'a>(headings: impl Iterator<Item = &'a Heading>) -> Vec<Option<usize>> {
    let mut open: Vec<(u8, usize)> = Vec::new();
    headings
        .enumerate()
        .map(|(index, heading)| {
            while open.pop_if(|(level, _)| *level >= heading.level).is_some() {}
            let parent = open.last().map(|(_, parent)| *parent);
            open.push((heading.level, index));
            parent
        })
        .collect()
}

/// The remaining bytes of an answer.
struct RemainingBytes(usize);

impl RemainingBytes {
    /// Returns what [`MAX_ANSWER_BYTES`] leaves beside an answer without headings.
    fn beside(answer: &impl Serialize) -> Self {
        Self(MAX_ANSWER_BYTES.saturating_sub(size(answer)))
    }

    /// Takes the bytes of one item and `extra` bytes, such as the comma. Returns whether they fit.
    fn take(&mut self, item: &impl Serialize, extra: usize) -> bool {
        let left = self.0.checked_sub(size(item).saturating_add(extra));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Returns the bytes of a value as compact JSON; `usize::MAX` for a value that has no JSON.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}
