//! Finds a section of a note as a caller names it: by an id of the note tools, by its heading as it
//! is written or read, or by a path of headings such as `Plan > Next`.

use unicode_normalization::UnicodeNormalization as _;

use super::derive::{NoteTooLarge, checked_body, id, parents, section_prefix};
use super::front_matter::{Note, body_offset};
use super::headings::{Heading, headings_in};
use super::line_numbers::LineNumbers;
use super::note_path::NotePath;
use super::{commonmark, whitespace};
use crate::limits::MAX_LISTED_MATCHES;
use crate::lines::{ResolvedLines, count_lines};
use crate::path::SpacePath;

/// The longest name of a section, in characters: that of a heading with all headings above it.
pub const MAX_SECTION_CHARS: usize = 8192;

/// What stands between the headings of a path of headings.
const ABOVE: char = '>';

/// A section of a note that a caller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSection {
    note: NotePath,
    name: String,
}

/// Where a section is in the text of its file. Lines end at `\n`, as in [`crate::lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionPlace {
    /// Its heading, what follows the heading, and its subsections.
    pub lines: ResolvedLines,
    /// The first line after the heading, counted from 1.
    pub body_start: u64,
}

/// Why the name of a section does not lead to exactly one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionFault {
    /// No section has this name.
    NoSuchSection {
        /// The lines of the note's first headings, counted from 1: at most [`MAX_LISTED_MATCHES`].
        headings: Vec<u64>,
    },
    /// Several sections have this name.
    Ambiguous {
        /// The lines of their headings, counted from 1: at most [`MAX_LISTED_MATCHES`].
        headings: Vec<u64>,
        /// Whether more sections have it.
        more: bool,
    },
    /// The note is too long to be parsed.
    TooLarge,
}

impl From<NoteTooLarge> for SectionFault {
    fn from(NoteTooLarge: NoteTooLarge) -> Self {
        Self::TooLarge
    }
}

impl WantedSection {
    /// Names a section of the note at `path`.
    pub fn new(path: &SpacePath, name: &str) -> Option<Self> {
        NotePath::of(path).map(|note| Self { note, name: name.to_owned() })
    }

    /// Finds the section in the text of the note's file.
    ///
    /// A name that is the `section_id` or the `heading_id` of an answer about the same text counts
    /// as that alone. Otherwise the heading is looked for as the caller spells it, and if no
    /// heading is spelled so, without regard to case. The sections of headings without a parent,
    /// and the lines before the first of them, are all lines of the text. Where Markdown reads a
    /// lone carriage return as the end of a line too, sections that share a line each have the
    /// whole line.
    ///
    /// # Errors
    /// [`SectionFault`].
    pub fn find(&self, text: &str) -> Result<SectionPlace, SectionFault> {
        let note = Note::parse(text);
        let body = commonmark::readable(checked_body(note.markdown())?);
        let list = headings_in(&body).list;
        let lines = LineNumbers::new(text, body_offset(text), &body);
        let line_of = |heading: &Heading| lines.line_at(heading.start);
        let listed = |found: &mut dyn Iterator<Item = &Heading>| {
            found.take(MAX_LISTED_MATCHES).map(line_of).collect()
        };
        let found = match self.by_id(&list) {
            Some(found) => vec![found],
            None => self.by_headings(&list, &body),
        };
        match found.as_slice() {
            [heading] => {
                let start = line_of(heading);
                let end = match heading.end {
                    Some(end) => lines.line_at(end).max(start + 1),
                    None => count_lines(text) + 1,
                };
                let heading_end = body.get(..heading.heading_end).unwrap_or_default().trim_end();
                let body_start = (lines.line_at(heading_end.len()) + 1).clamp(start + 1, end);
                Ok(SectionPlace { lines: ResolvedLines { start, end }, body_start })
            }
            [] => Err(SectionFault::NoSuchSection { headings: listed(&mut list.iter()) }),
            several => Err(SectionFault::Ambiguous {
                headings: listed(&mut several.iter().copied()),
                more: several.len() > MAX_LISTED_MATCHES,
            }),
        }
    }

    fn by_id<'h>(&self, list: &'h [Heading]) -> Option<&'h Heading> {
        let wanted = match self.name.split_once(':') {
            Some((prefix, heading)) if prefix == section_prefix(&self.note) => heading,
            Some(_) => return None,
            None => self.name.as_str(),
        };
        list.iter().zip(1..).find(|(one, ordinal)| id(one, *ordinal) == wanted).map(|(one, _)| one)
    }

    /// Returns the headings with this name: as one heading, else as a path of headings.
    fn by_headings<'h>(&self, list: &'h [Heading], body: &str) -> Vec<&'h Heading> {
        let parents = parents(list.iter());
        let path: Vec<&str> = self.name.split(ABOVE).map(str::trim).collect();
        let whole = [self.name.trim()];
        let ways = [(&whole[..], false), (&path[..], false), (&whole[..], true), (&path[..], true)];
        let fits = |index: usize, path: &[&str], ignores_case: bool| {
            let mut at = Some(index);
            path.iter().rev().all(|wanted| {
                let here = at.and_then(|at| list.get(at));
                at = at.and_then(|at| *parents.get(at)?);
                here.is_some_and(|heading| is_named(heading, body, wanted, ignores_case))
            })
        };
        for (path, ignores_case) in ways {
            let fitting = (0..list.len()).filter(|index| fits(*index, path, ignores_case));
            let found: Vec<_> = fitting.filter_map(|index| list.get(index)).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

/// Whether a caller's name is that of a heading: its text, or its first line in the source, with or
/// without `#`.
fn is_named(heading: &Heading, body: &str, wanted: &str, ignores_case: bool) -> bool {
    let source = body.get(heading.start..heading.heading_end).unwrap_or_default();
    let source = source.lines().next().unwrap_or_default();
    let bare = |text: &str| {
        let text = text.trim();
        let without = text.trim_start_matches('#');
        let is_marked = text.len() - without.len() <= 6 && without.starts_with([' ', '\t']);
        let text = if is_marked { without.trim_end_matches('#') } else { text };
        let text = whitespace::normalize(text);
        if ignores_case { text.to_lowercase().nfc().collect() } else { text }
    };
    let wanted = bare(wanted);
    !wanted.is_empty() && (bare(&heading.text) == wanted || bare(source) == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = "---\na: 1\n---\n# Plan\n\none\n\n## Next\ntwo\n### Deep\n\n# Other\n\n\
                        ## Next ##\n\nthree\n\nA *b* > c\n===\nfour";

    fn find(name: &str) -> Result<(u64, u64, u64), SectionFault> {
        let path = SpacePath::parse("/f/n.md").unwrap();
        let place = WantedSection::new(&path, name).unwrap().find(NOTE)?;
        Ok((place.lines.start, place.body_start, place.lines.end))
    }

    #[test]
    fn a_section_is_found_by_an_id_a_heading_or_a_path_of_headings() {
        for (name, place) in [
            ("h1-plan-0001", (4, 5, 12)),
            ("f-n-md:h1-plan-0001", (4, 5, 12)),
            ("Plan", (4, 5, 12)),
            ("# Plan", (4, 5, 12)),
            ("plan", (4, 5, 12)),
            ("Plan > Next", (8, 9, 12)),
            ("## Other>## next", (14, 15, 18)),
            ("Plan > Next > Deep", (10, 11, 12)),
            ("next > deep", (10, 11, 12)),
            ("A b > c", (18, 20, 21)),
            ("A *b* > c", (18, 20, 21)),
        ] {
            assert_eq!(find(name), Ok(place), "{name}");
        }
    }

    #[test]
    fn several_sections_or_none_are_named_by_their_lines() {
        let several = SectionFault::Ambiguous { headings: vec![8, 14], more: false };
        assert_eq!(find("Next"), Err(several));
        for none in ["Nex", "Other > Deep", "Plan > Deep", "", "#", "x:h1-plan-0001"] {
            let fault = SectionFault::NoSuchSection { headings: vec![4, 8, 10, 12, 14, 18] };
            assert_eq!(find(none), Err(fault), "{none}");
        }
    }

    #[test]
    fn a_heading_spelled_so_comes_before_one_in_another_case() {
        let path = SpacePath::parse("/n.md").unwrap();
        let line = |text: &str, name: &str| {
            WantedSection::new(&path, name).unwrap().find(text).map(|place| place.lines.start)
        };
        assert_eq!(line("# next\n# Next\n", "Next"), Ok(2));
        assert_eq!(line("# caf\u{e9}\n", "CAFE\u{301}"), Ok(1));
        assert_eq!(line("\u{feff}# A\r\n\r\n# B\r\n", "B"), Ok(3));
    }
}
