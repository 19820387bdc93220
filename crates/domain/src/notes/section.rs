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

    /// Returns the headings with this name: as one heading, else as a path of headings. A heading
    /// in the path may have the character that stands between two headings. Of all ways to read the
    /// name, the one with the fewest headings counts.
    fn by_headings<'h>(&self, list: &'h [Heading], body: &str) -> Vec<&'h Heading> {
        let parents = parents(list.iter());
        let path = HeadingPath { pieces: self.name.split(ABOVE).collect(), list, parents, body };
        for ignores_case in [false, true] {
            let levels = |index| path.levels(index, path.pieces.len(), ignores_case);
            let fitting: Vec<(usize, &Heading)> = list
                .iter()
                .enumerate()
                .filter_map(|(index, heading)| levels(index).map(|levels| (levels, heading)))
                .collect();
            if let Some(fewest) = fitting.iter().map(|(levels, _)| *levels).min() {
                let fitting = fitting.into_iter().filter(|(levels, _)| *levels == fewest);
                return fitting.map(|(_, heading)| heading).collect();
            }
        }
        Vec::new()
    }
}

/// A path of headings that a caller names, and the headings of the note.
struct HeadingPath<'a> {
    /// The name, cut at each [`ABOVE`].
    pieces: Vec<&'a str>,
    list: &'a [Heading],
    /// The index of the parent of each heading.
    parents: Vec<Option<usize>>,
    body: &'a str,
}

impl HeadingPath<'_> {
    /// Returns how many headings the first `end` pieces name, if the last of these is the heading
    /// at `index`, and the others are those above it. The fewest, if there are several ways.
    fn levels(&self, index: usize, end: usize, ignores_case: bool) -> Option<usize> {
        let heading = self.list.get(index)?;
        // A heading takes as many pieces as it has in its text or in its source.
        let pieces = |text: &str| text.matches(ABOVE).count() + 1;
        let counts = [pieces(&heading.text), pieces(source_of(heading, self.body))];
        let level = |count: usize| {
            let start = end.checked_sub(count)?;
            let wanted = self.pieces.get(start..end)?.join(">");
            if !is_named(heading, self.body, &wanted, ignores_case) {
                return None;
            }
            if start == 0 {
                return Some(1);
            }
            let parent = (*self.parents.get(index)?)?;
            self.levels(parent, start, ignores_case).map(|above| above + 1)
        };
        counts.into_iter().filter_map(level).min()
    }
}

/// Returns the first line of a heading in the source.
fn source_of<'b>(heading: &Heading, body: &'b str) -> &'b str {
    let source = body.get(heading.start..heading.heading_end).unwrap_or_default();
    source.lines().next().unwrap_or_default()
}

/// Whether a caller's name is that of a heading: its text, or its first line in the source, with or
/// without `#`.
fn is_named(heading: &Heading, body: &str, wanted: &str, ignores_case: bool) -> bool {
    let source = source_of(heading, body);
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
    fn a_heading_in_a_path_may_have_the_character_between_headings() {
        let path = SpacePath::parse("/n.md").unwrap();
        let text = "# Plan\n## A > B\nx\n### Deep > er\ny\n## A\n### B\nz\n# <b>Q</b>\n## C\n";
        let line = |name: &str| {
            WantedSection::new(&path, name).unwrap().find(text).map(|place| place.lines.start)
        };
        for (name, start) in [
            ("A > B", 2),
            ("Plan > A > B", 2),
            ("plan > a > b > deep > ER", 4),
            ("A > B > Deep > er", 4),
            ("Deep > er", 4),
            ("<b>Q</b> > C", 10),
            ("# <b>Q</b> > C", 10),
        ] {
            assert_eq!(line(name), Ok(start), "{name}");
        }
        assert!(line("B > Deep > er").is_err() && line("A > B > er").is_err());
        assert!(line(&"A > ".repeat(2000)).is_err());
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
