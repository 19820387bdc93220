//! Edits where a section of a note is named in place of lines: its body is replaced, or lines are
//! added at its beginning or at its end.

use super::{Body, EditError, with_ending};
use crate::lines::{LineSpan, without_final_terminator};
use crate::notes::section::WantedSection;

/// Where in a section lines are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionEdge {
    /// Directly after the heading.
    Start,
    /// After the last line of the section and of its subsections that is not blank.
    End,
}

/// A section in the lines of a text.
struct SectionLines {
    /// The last line of the heading.
    heading: LineSpan,
    /// The first and the last line below it that are not blank; `None` if there is none.
    body: Option<(LineSpan, LineSpan)>,
}

impl SectionLines {
    fn find(text: &str, lines: &Body<'_>, section: &WantedSection) -> Result<Self, EditError> {
        let place = section.find(text).map_err(EditError::Section)?;
        let index = |line: u64| usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let (from, to) = (index(place.body_start), index(place.lines.end));
        let mut spans = lines.spans().skip(from.saturating_sub(1)).take(to + 1 - from.min(to));
        let heading = spans.next().ok_or(EditError::Range { total_lines: lines.count() })?;
        let mut body: Option<(LineSpan, LineSpan)> = None;
        for span in spans.filter(|span| !span.content(lines.text).trim().is_empty()) {
            body = Some(body.map_or((span, span), |(first, _)| (first, span)));
        }
        Ok(Self { heading, body })
    }
}

/// Replaces the body of a section: what stands between its heading and the next heading of its
/// level or above. The blank lines at both ends of the body stay. An empty `new` deletes the rest.
///
/// # Errors
/// [`EditError::Section`].
pub fn replace_section(
    text: &str,
    section: &WantedSection,
    new: &str,
) -> Result<String, EditError> {
    let lines = Body::of(text);
    let found = SectionLines::find(text, &lines, section)?;
    let new = without_blank_ends(new);
    let Some((first, last)) = found.body else {
        return Ok(match new {
            "" => text.to_owned(),
            new => lines.with_lines_after(found.heading, new),
        });
    };
    let before = lines.text.get(..first.start).unwrap_or_default();
    let kept_from = if new.is_empty() { last.end } else { last.content_end };
    let after = lines.text.get(kept_from..).unwrap_or_default();
    let new = with_ending(new, lines.ending_at(first, last));
    Ok([lines.bom, before, &new, after].concat())
}

/// Adds lines to a section. Exactly one terminator ends them, or none at the end of a file without
/// one.
///
/// # Errors
/// [`EditError::Section`].
pub fn insert_in_section(
    text: &str,
    section: &WantedSection,
    edge: SectionEdge,
    content: &str,
) -> Result<String, EditError> {
    let lines = Body::of(text);
    let found = SectionLines::find(text, &lines, section)?;
    let after = match (edge, found.body) {
        (SectionEdge::End, Some((_, last))) => last,
        _ => found.heading,
    };
    Ok(lines.with_lines_after(after, without_final_terminator(content)))
}

impl Body<'_> {
    /// Returns the text with new lines after a line.
    fn with_lines_after(&self, line: LineSpan, content: &str) -> String {
        let ending = self.ending_at(line, line);
        let (before, after) = self.text.split_at_checked(line.end).unwrap_or((self.text, ""));
        let content = with_ending(content, ending);
        let parts = match line.terminator(self.text) {
            "" => [self.bom, before, ending, &content, after],
            _ => [self.bom, before, &content, ending, after],
        };
        parts.concat()
    }
}

/// Returns a caller's text without the blank lines at its ends and without its last terminator.
fn without_blank_ends(mut text: &str) -> &str {
    while let Some((line, rest)) = text.split_once('\n')
        && line.trim().is_empty()
    {
        text = rest;
    }
    text.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::SpacePath;

    fn section(name: &str) -> WantedSection {
        WantedSection::new(&SpacePath::parse("/n.md").unwrap(), name).unwrap()
    }

    #[test]
    fn the_body_of_a_section_is_replaced_and_its_heading_and_blank_lines_stay() {
        let text = "# A\n\none\n\ntwo\n\n## B\nthree\n# C\n";
        for (name, new, expected) in [
            ("A", "new", "# A\n\nnew\n# C\n"),
            ("B", "\n\nx\ny\n\n", "# A\n\none\n\ntwo\n\n## B\nx\ny\n# C\n"),
            ("B", "", "# A\n\none\n\ntwo\n\n## B\n# C\n"),
            ("C", "  last", "# A\n\none\n\ntwo\n\n## B\nthree\n# C\n  last\n"),
            ("C", "\n", text),
        ] {
            assert_eq!(replace_section(text, &section(name), new).as_deref(), Ok(expected));
        }
        let windows = "\u{feff}# A\r\n\r\none\r\n\r\n# B";
        let replaced = replace_section(windows, &section("A"), "x\ny");
        assert_eq!(replaced.as_deref(), Ok("\u{feff}# A\r\n\r\nx\r\ny\r\n\r\n# B"));
        let added = replace_section(windows, &section("B"), "x");
        assert_eq!(added.as_deref(), Ok("\u{feff}# A\r\n\r\none\r\n\r\n# B\r\nx"));
    }

    #[test]
    fn lines_are_added_at_the_start_and_at_the_end_of_a_section() {
        use SectionEdge::{End, Start};
        let text = "# A\n\none\n\n## B\n\n# C\nx";
        for (name, edge, expected) in [
            ("A", Start, "# A\n- n\n\none\n\n## B\n\n# C\nx"),
            ("A", End, "# A\n\none\n\n## B\n- n\n\n# C\nx"),
            ("B", End, "# A\n\none\n\n## B\n- n\n\n# C\nx"),
            ("C", End, "# A\n\none\n\n## B\n\n# C\nx\n- n"),
            ("C", Start, "# A\n\none\n\n## B\n\n# C\n- n\nx"),
        ] {
            let inserted = insert_in_section(text, &section(name), edge, "- n\n");
            assert_eq!(inserted.as_deref(), Ok(expected), "{name} {edge:?}");
        }
        let setext = insert_in_section("A\n==\nx\n", &section("A"), Start, "n");
        assert_eq!(setext.as_deref(), Ok("A\n==\nn\nx\n"));
    }

    #[test]
    fn a_section_that_is_not_there_changes_nothing() {
        let missing = replace_section("# A\n", &section("B"), "x");
        assert!(matches!(missing, Err(EditError::Section(_))));
    }
}
