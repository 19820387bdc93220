//! Edits of whole lines: replace, insert, append. Bytes outside the edit never change.
//!
//! Each function takes the whole text of a file and returns the whole new text, or what is added to
//! it. The store writes that or leaves the file as it was. Comparing a caller's lines with the
//! file's lines ignores line terminators and nothing else. A byte order mark belongs to the file
//! and not to the first line, so the mark stays in front of every edit.

use std::ops::Range;

use crate::error::LineExcerpt;
use crate::limits::{MAX_EXCERPT_LINE_CHARS, MAX_EXCERPT_LINES, MAX_LISTED_MATCHES};
use crate::line_search::Pattern;
use crate::lines::{
    BOM, LineRange, LineSpan, ResolvedLines, line_spans, resolve_line, without_final_terminator,
};
use crate::near_miss::NearMiss;
use crate::notes::section::{SectionFault, WantedSection};

pub mod section_edit;

/// Why an edit was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// `lines` or `line` selects nothing.
    Range {
        /// The number of lines in the text.
        total_lines: u64,
    },
    /// The name of a section fits no heading of the note, or several.
    Section(SectionFault),
    /// `old` or `anchor` does not occur in the searched lines.
    NoMatch {
        /// The lines that were searched: 1-based, end exclusive.
        searched: ResolvedLines,
        /// The searched lines as they are now: at most [`MAX_EXCERPT_LINES`].
        lines: Vec<LineExcerpt>,
        /// The 1-based lines where the text occurs instead: at most [`MAX_LISTED_MATCHES`].
        elsewhere: Vec<u64>,
        /// Why the text does not occur although it seems to.
        near_miss: Option<NearMiss>,
    },
    /// `old` occurs more than once in the searched lines.
    Ambiguous {
        /// The 1-based first line of each match: at most [`MAX_LISTED_MATCHES`].
        matches: Vec<u64>,
        /// Whether there are more matches than `matches` lists.
        more: bool,
    },
    /// The new text would be longer than a change may make it.
    TooLarge,
    /// The front matter of a note cannot be changed safely.
    FrontMatter {
        /// Why not, as a clause.
        why: &'static str,
        /// The lines to be edited instead: 1-based, end exclusive.
        searched: ResolvedLines,
        /// These lines as they are now: at most [`MAX_EXCERPT_LINES`].
        lines: Vec<LineExcerpt>,
    },
    /// One of several edits cannot be made.
    Several {
        /// Which one, from 0.
        index: usize,
        /// Why it cannot be made.
        error: Box<EditError>,
    },
}

impl EditError {
    /// Creates the error for lines of a text without a byte order mark.
    pub(crate) fn front_matter(text: &str, why: &'static str, searched: ResolvedLines) -> Self {
        Self::FrontMatter { why, searched, lines: Body::of(text).excerpt(searched) }
    }
}

/// Where an edit looks for the text to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// In some lines.
    Lines(LineRange),
    /// In a section of a note, its heading included.
    Section(WantedSection),
}

impl From<LineRange> for Within {
    fn from(lines: LineRange) -> Self {
        Self::Lines(lines)
    }
}

impl Within {
    /// Returns the lines of a text with `total_lines` lines.
    pub(crate) fn resolve(&self, text: &str, total_lines: u64) -> Result<ResolvedLines, EditError> {
        match self {
            Self::Lines(range) => {
                range.resolve(total_lines).map_err(|_| EditError::Range { total_lines })
            }
            Self::Section(section) => {
                section.find(text).map(|place| place.lines).map_err(EditError::Section)
            }
        }
    }
}

/// Replaces the one occurrence of the lines of `old` inside `within` by the lines of `new`.
///
/// One final terminator of `old` and of `new` is ignored. An empty `new` deletes the lines. The
/// last replaced line keeps its terminator. *Source*: MCP-013, MCP-045.
///
/// # Errors
/// Every [`EditError`].
pub fn replace(
    text: &str,
    within: impl Into<Within>,
    old: &str,
    new: &str,
) -> Result<String, EditError> {
    let body = Body::of(text);
    let total_lines = body.count();
    let within = within.into().resolve(text, total_lines)?;

    let found = body.find_all(within, old, MAX_LISTED_MATCHES + 1);
    let first_lines = |found: &[Match]| {
        found.iter().take(MAX_LISTED_MATCHES).map(|found| found.line + 1).collect()
    };
    let found = match found.as_slice() {
        [found] => found,
        [] => {
            let everywhere = ResolvedLines { start: 1, end: total_lines + 1 };
            let elsewhere = body.find_all(everywhere, old, MAX_LISTED_MATCHES);
            return Err(EditError::NoMatch {
                searched: within,
                lines: body.excerpt(within),
                elsewhere: first_lines(&elsewhere),
                near_miss: NearMiss::find(body.text, body.bytes_of(within), old),
            });
        }
        several => {
            return Err(EditError::Ambiguous {
                matches: first_lines(several),
                more: several.len() > MAX_LISTED_MATCHES,
            });
        }
    };

    let before = body.text.get(..found.first.start).unwrap_or_default();
    let new = body.for_line(found.line, new);
    if new.is_empty() {
        let after = body.text.get(found.last.end..).unwrap_or_default();
        return Ok([body.bom, before, after].concat());
    }
    let after = body.text.get(found.last.content_end..).unwrap_or_default();
    let ending = body.ending_at(found.first, found.last);
    Ok([body.bom, before, &with_ending(without_final_terminator(new), ending), after].concat())
}

/// Inserts `content` as new lines before the line `line`, which must equal `anchor`.
///
/// Exactly one terminator ends the new lines. *Source*: MCP-014, MCP-046.
///
/// # Errors
/// [`EditError::Range`] and [`EditError::NoMatch`].
pub fn insert(text: &str, line: i64, anchor: &str, content: &str) -> Result<String, EditError> {
    let body = Body::of(text);
    let total_lines = body.count();
    let line = resolve_line(line, total_lines).ok_or(EditError::Range { total_lines })?;
    let index = usize::try_from(line).unwrap_or(usize::MAX);
    let span = body.spans().nth(index).ok_or(EditError::Range { total_lines })?;
    let equals_anchor = |span: LineSpan, line: u64| {
        span.content(body.text) == body.for_line(line, without_final_terminator(anchor))
    };
    if !equals_anchor(span, line) {
        let here = ResolvedLines { start: line + 1, end: line + 2 };
        let elsewhere = body.spans().zip(0u64..).filter(|(span, line)| equals_anchor(*span, *line));
        let elsewhere = elsewhere.map(|(_, line)| line + 1).take(MAX_LISTED_MATCHES).collect();
        return Err(EditError::NoMatch {
            searched: here,
            lines: body.excerpt(here),
            elsewhere,
            near_miss: NearMiss::find(body.text, span.start..span.content_end, anchor),
        });
    }
    let ending = body.ending_at(span, span);
    let (before, after) = body.text.split_at_checked(span.start).unwrap_or((body.text, ""));
    let content = without_final_terminator(body.for_line(line, content));
    Ok([body.bom, before, &with_ending(content, ending), ending, after].concat())
}

/// Returns what is added to a text so that `content` becomes its last lines.
///
/// A last line without a terminator gets one first, unless `content` begins with a line break. No
/// final terminator is added. *Source*: MCP-015.
pub fn addition(text: &str, content: &str) -> String {
    let Body { text: body, .. } = Body::of(text);
    // The last terminator shows which ending the file uses, without a walk over the file.
    let ending = match last_newline(body) {
        Some(at) if at > 0 && body.as_bytes().get(at - 1) == Some(&b'\r') => "\r\n",
        _ => "\n",
    };
    let open = !body.is_empty() && !body.ends_with('\n');
    let breaks = content.starts_with('\n') || content.starts_with("\r\n");
    let supplied = if open && !breaks { ending } else { "" };
    [supplied, &with_ending(content, ending)].concat()
}

fn last_newline(text: &str) -> Option<usize> {
    memchr::memrchr(b'\n', text.as_bytes())
}

/// A text without its byte order mark.
struct Body<'t> {
    bom: &'t str,
    text: &'t str,
}

impl<'t> Body<'t> {
    fn of(text: &'t str) -> Self {
        let (bom, text) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
        Self { bom, text }
    }

    /// Returns the lines. A file that holds only a mark has one empty line.
    fn spans(&self) -> impl Iterator<Item = LineSpan> + 't {
        let lone = (self.text.is_empty() && !self.bom.is_empty()).then_some(LineSpan {
            start: 0,
            content_end: 0,
            end: 0,
        });
        lone.into_iter().chain(line_spans(self.text, 0))
    }

    fn count(&self) -> u64 {
        self.spans().count() as u64
    }

    /// Returns the bytes of some lines.
    fn bytes_of(&self, lines: ResolvedLines) -> Range<usize> {
        let start_of = |line: u64| {
            let index = usize::try_from(line - 1).unwrap_or(usize::MAX);
            self.spans().nth(index).map_or(self.text.len(), |span| span.start)
        };
        start_of(lines.start)..start_of(lines.end)
    }

    /// Returns a caller's text for the 0-based line `line`, without the file's mark.
    ///
    /// A caller who read the first line also read the mark. On every other line the same character
    /// is content.
    fn for_line<'c>(&self, line: u64, text: &'c str) -> &'c str {
        if line == 0 && !self.bom.is_empty() {
            text.strip_prefix(BOM).unwrap_or(text)
        } else {
            text
        }
    }

    /// Returns the first `max` matches of the lines of `old` inside `within`. Matches may overlap.
    fn find_all(&self, within: ResolvedLines, old: &str, max: usize) -> Vec<Match> {
        let old_lines = content_lines(old);
        let bare = content_lines(self.for_line(0, old));
        if bare == old_lines || within.start > 1 {
            return find_all(self, within, &old_lines, max);
        }
        // On the first line the mark belongs to the file. From the second line on it is content.
        let top = ResolvedLines { start: 1, end: within.end.min(bare.len() as u64 + 1) };
        let mut found = find_all(self, top, &bare, 1);
        let below = ResolvedLines { start: within.end.min(2), end: within.end };
        found.extend(find_all(self, below, &old_lines, max - found.len()));
        found
    }

    /// Returns the line ending of an edited region: its own first one, else that of the line
    /// before.
    fn ending_at(&self, first: LineSpan, last: LineSpan) -> &'static str {
        let own = line_spans(self.text, first.start)
            .take_while(|span| span.start <= last.start)
            .map(|span| span.terminator(self.text))
            .find(|terminator| !terminator.is_empty());
        let is_crlf = match own {
            Some(terminator) => terminator == "\r\n",
            None => self.text.get(..first.start).is_some_and(|before| before.ends_with("\r\n")),
        };
        if is_crlf { "\r\n" } else { "\n" }
    }

    /// Returns the lines of a range, bounded in number and length.
    fn excerpt(&self, lines: ResolvedLines) -> Vec<LineExcerpt> {
        excerpt(self.text, self.spans(), lines)
    }
}

/// Returns the lines of a range of a text, bounded in number and length.
pub(crate) fn excerpt(
    text: &str,
    spans: impl IntoIterator<Item = LineSpan>,
    lines: ResolvedLines,
) -> Vec<LineExcerpt> {
    let from = usize::try_from(lines.start - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(lines.count()).unwrap_or(usize::MAX).min(MAX_EXCERPT_LINES);
    let chosen = spans.into_iter().zip(1u64..).skip(from).take(count);
    let cut = |text: &str| text.chars().take(MAX_EXCERPT_LINE_CHARS).collect();
    chosen.map(|(span, line)| LineExcerpt { line, text: cut(span.content(text)) }).collect()
}

/// Converts each bare `\n` of a caller's text to the ending that the edited region uses.
pub(crate) fn with_ending(content: &str, ending: &str) -> String {
    if ending == "\n" {
        return content.to_owned();
    }
    let mut converted = String::with_capacity(content.len() + content.len() / 32);
    let mut previous = '\0';
    for character in content.chars() {
        if character == '\n' && previous != '\r' {
            converted.push('\r');
        }
        converted.push(character);
        previous = character;
    }
    converted
}

/// Splits a caller's text into lines without their terminators.
fn content_lines(text: &str) -> Vec<&str> {
    let text = without_final_terminator(text);
    let mut lines: Vec<&str> = text.split('\n').collect();
    let last = lines.len() - 1;
    for line in lines.iter_mut().take(last) {
        *line = line.strip_suffix('\r').unwrap_or(line);
    }
    lines
}

struct Match {
    /// The first line, 0-based.
    line: u64,
    first: LineSpan,
    last: LineSpan,
}

/// Returns the first `max` matches of `sought` as consecutive whole lines inside `within`. Matches
/// may overlap. Time is linear in the number of lines, whatever they hold (Knuth, Morris and
/// Pratt).
fn find_all(body: &Body<'_>, within: ResolvedLines, sought: &[&str], max: usize) -> Vec<Match> {
    let pattern = Pattern::new(sought.to_vec());
    let mut found = Vec::new();
    let mut matched = 0;
    let from = usize::try_from(within.start - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(within.count()).unwrap_or(usize::MAX);
    // The spans of the lines that the current match covers, oldest first.
    let mut recent = std::collections::VecDeque::with_capacity(sought.len().min(1024));
    for (span, line) in body.spans().zip(0u64..).skip(from).take(count) {
        recent.push_back(span);
        if recent.len() > sought.len() {
            recent.pop_front();
        }
        matched = pattern.step(matched, &span.content(body.text));
        if matched == sought.len() {
            if let Some(first) = recent.front() {
                found.push(Match {
                    line: line + 1 - sought.len() as u64,
                    first: *first,
                    last: span,
                });
            }
            if found.len() == max {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: LineRange = LineRange::ALL;

    fn append(text: &str, content: &str) -> String {
        text.to_owned() + &addition(text, content)
    }

    #[test]
    fn a_replacement_changes_only_the_matched_lines() {
        assert_eq!(replace("a\nb\nc", ALL, "b", "x\ny"), Ok("a\nx\ny\nc".into()));
        assert_eq!(replace("a\nb\nc", ALL, "b\n", "x\n"), Ok("a\nx\nc".into()));
        assert_eq!(replace("a\nb\nc", ALL, "c", "x"), Ok("a\nb\nx".into()));
        assert_eq!(replace("a\nb\nc", ALL, "b", ""), Ok("a\nc".into()));
        assert_eq!(replace("a\nb\nc", ALL, "c", ""), Ok("a\nb\n".into()));
        assert_eq!(replace("a\nb\nc", ALL, "b", "\n"), Ok("a\n\nc".into()));
        assert_eq!(replace("a\n\nc", ALL, "", "b"), Ok("a\nb\nc".into()));
        assert_eq!(replace("a\nb\nc\n", ALL, "a\nb", "z"), Ok("z\nc\n".into()));
    }

    #[test]
    fn new_lines_take_the_ending_of_the_edited_region() {
        assert_eq!(replace("a\r\nb\r\nc", ALL, "b", "x\ny"), Ok("a\r\nx\r\ny\r\nc".into()));
        assert_eq!(replace("a\r\nb\r\nc", ALL, "a\nb", "x\r\ny\nz"), Ok("x\r\ny\r\nz\r\nc".into()));
        assert_eq!(replace("a\r\nb", ALL, "b", "x\ny"), Ok("a\r\nx\r\ny".into()));
        assert_eq!(replace("a\nb\r\n", ALL, "a", "x\ny"), Ok("x\ny\nb\r\n".into()));
        assert_eq!(insert("a\r\nb", 2, "b", "x\ny"), Ok("a\r\nx\r\ny\r\nb".into()));
        assert_eq!(append("a\r\nb", "c\nd"), "a\r\nb\r\nc\r\nd");
    }

    #[test]
    fn matching_ignores_terminators_and_nothing_else() {
        for old in [" b", "b ", "B", "b\n\n"] {
            assert!(
                matches!(replace("a\nb\nc", ALL, old, "x"), Err(EditError::NoMatch { .. })),
                "{old:?}"
            );
        }
        assert_eq!(replace("a\r\nb\nc", ALL, "a\nb\r\n", "x"), Ok("x\nc".into()));
    }

    #[test]
    fn a_missing_match_lists_the_searched_lines_and_other_occurrences() {
        let Err(EditError::NoMatch { searched, lines, elsewhere, near_miss: None }) =
            replace("a\nb\nc\nb", LineRange(3, 4), "b", "x")
        else {
            panic!("expected no match");
        };
        assert_eq!(searched, ResolvedLines { start: 3, end: 4 });
        assert_eq!(lines, [LineExcerpt { line: 3, text: "c".into() }]);
        assert_eq!(elsewhere, [2, 4]);
    }

    #[test]
    fn overlapping_matches_are_ambiguous() {
        assert_eq!(
            replace("a\na\na", ALL, "a\na", "x"),
            Err(EditError::Ambiguous { matches: vec![1, 2], more: false })
        );
        assert_eq!(replace("a\nb\na", LineRange(2, 0), "a", "x"), Ok("a\nb\nx".into()));
    }

    #[test]
    fn an_insertion_goes_before_its_anchor() {
        assert_eq!(insert("a\nb", 2, "b", "x"), Ok("a\nx\nb".into()));
        assert_eq!(insert("a\nb", -1, "b\n", "x\n"), Ok("a\nx\nb".into()));
        assert_eq!(insert("a\nb", 1, "a", "x\n\n"), Ok("x\n\na\nb".into()));
        assert_eq!(insert("a\nb", 3, "b", "x"), Err(EditError::Range { total_lines: 2 }));
        assert_eq!(
            insert("a\nb\nc", 1, "c", "x"),
            Err(EditError::NoMatch {
                searched: ResolvedLines { start: 1, end: 2 },
                lines: vec![LineExcerpt { line: 1, text: "a".into() }],
                elsewhere: vec![3],
                near_miss: None,
            })
        );
    }

    #[test]
    fn appending_first_terminates_the_last_line() {
        assert_eq!(append("a", "b"), "a\nb");
        assert_eq!(append("a\n", "b"), "a\nb");
        assert_eq!(append("a", "\nb"), "a\nb");
        assert_eq!(append("", "b"), "b");
        assert_eq!(append("a", "b\n"), "a\nb\n");
    }

    #[test]
    fn a_byte_order_mark_stays_in_front() {
        assert_eq!(replace("\u{feff}a\nb", ALL, "a", "x"), Ok("\u{feff}x\nb".into()));
        assert_eq!(
            replace("\u{feff}a\nb", ALL, "\u{feff}a", "\u{feff}x"),
            Ok("\u{feff}x\nb".into())
        );
        assert_eq!(insert("\u{feff}a", 1, "a", "x"), Ok("\u{feff}x\na".into()));
        assert_eq!(append("\u{feff}", "x"), "\u{feff}x");
        assert_eq!(insert("\u{feff}a", 1, "\u{feff}a", "\u{feff}x"), Ok("\u{feff}x\na".into()));
        assert_eq!(insert("\u{feff}", 1, "\u{feff}", "x"), Ok("\u{feff}x\n".into()));
        assert_eq!(replace("\u{feff}", ALL, "", "x"), Ok("\u{feff}x".into()));
    }

    #[test]
    fn a_callers_mark_on_the_first_line_is_the_files_mark() {
        let none =
            |outcome| assert!(matches!(outcome, Err(EditError::NoMatch { .. })), "{outcome:?}");
        let doubled = "\u{feff}\u{feff}a\n\u{feff}a";
        assert_eq!(replace(doubled, ALL, "\u{feff}a", "x"), Ok("\u{feff}\u{feff}a\nx".into()));
        assert_eq!(
            replace(doubled, ALL, "\u{feff}\u{feff}a", "x"),
            Ok("\u{feff}x\n\u{feff}a".into())
        );
        none(replace(doubled, LineRange(1, 2), "\u{feff}a", "x"));
        none(insert(doubled, 1, "\u{feff}a", "x"));
    }

    #[test]
    fn a_mark_on_any_other_line_is_content() {
        let none =
            |outcome| assert!(matches!(outcome, Err(EditError::NoMatch { .. })), "{outcome:?}");
        none(replace("\u{feff}a\nb\nc", ALL, "\u{feff}b", "x"));
        none(insert("\u{feff}a\nc\nd", 3, "\u{feff}d", "x"));
        assert_eq!(
            replace("\u{feff}a\nc\n\u{feff}b", ALL, "\u{feff}b", "x"),
            Ok("\u{feff}a\nc\nx".into())
        );
        assert_eq!(
            replace("\u{feff}a\nd", ALL, "d", "\u{feff}x"),
            Ok("\u{feff}a\n\u{feff}x".into())
        );
        assert_eq!(
            replace("\u{feff}a\n\u{feff}a", ALL, "\u{feff}a", "x"),
            Err(EditError::Ambiguous { matches: vec![1, 2], more: false })
        );
    }

    #[test]
    fn a_repetitive_old_is_searched_in_linear_time() {
        let file = "a\n".repeat(200_000);
        let old = format!("{}b", "a\n".repeat(100_000));
        assert!(matches!(replace(&file, ALL, &old, "x"), Err(EditError::NoMatch { .. })));
    }

    fn joined(lines: &[(String, String)]) -> String {
        lines.iter().map(|(content, terminator)| format!("{content}{terminator}")).collect()
    }

    /// Splits a text into pairs of content and terminator.
    fn model(text: &str) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (line, tail) = match rest.find('\n') {
                Some(at) => rest.split_at(at + 1),
                None => (rest, ""),
            };
            let content = without_final_terminator(line);
            lines.push((content.to_owned(), line[content.len()..].to_owned()));
            rest = tail;
        }
        lines
    }

    proptest! {
        #[test]
        fn replace_agrees_with_the_oracle(
            text in "(a|b|\n|\r\n){0,14}", old in "(a|b|\n|\r\n){0,5}", new in "(x|y|\n){0,5}",
            start in -5i64..6, end in -5i64..6
        ) {
            let lines = model(&text);
            let wanted: Vec<String> = {
                let stripped = without_final_terminator(&old);
                // A `\r` at the very end of `old` is content, because no `\n` follows it.
                stripped.replace("\r\n", "\n").split('\n').map(str::to_owned).collect()
            };
            let outcome = replace(&text, LineRange(start, end), &old, &new);
            match LineRange(start, end).resolve(lines.len() as u64) {
                Err(_) => {
                    let refused = matches!(outcome, Err(EditError::Range { .. }));
                    prop_assert!(refused);
                }
                Ok(within) => {
                    let places: Vec<usize> = (0..lines.len())
                        .filter(|at| *at + 1 >= within.start as usize)
                        .filter(|at| at + wanted.len() < within.end as usize)
                        .filter(|at| {
                            let found = lines[*at..].iter().map(|(content, _)| content);
                            found.take(wanted.len()).eq(&wanted)
                        })
                        .collect();
                    match places.as_slice() {
                        [] => {
                            let refused = matches!(outcome, Err(EditError::NoMatch { .. }));
                            prop_assert!(refused);
                        }
                        [at] => {
                            let result = outcome.unwrap();
                            let before = joined(&lines[..*at]);
                            let after = joined(&lines[at + wanted.len()..]);
                            prop_assert!(result.starts_with(&before) && result.ends_with(&after));
                            let middle = &result[before.len()..result.len() - after.len()];
                            if new.is_empty() {
                                prop_assert_eq!(middle, "");
                            } else {
                                let last_end = &lines[at + wanted.len() - 1].1;
                                prop_assert!(middle.ends_with(last_end.as_str()));
                                let content = &middle[..middle.len() - last_end.len()];
                                let expected = without_final_terminator(&new);
                                prop_assert_eq!(content.replace("\r\n", "\n"), expected);
                            }
                        }
                        _ => {
                            let refused = matches!(outcome, Err(EditError::Ambiguous { .. }));
                            prop_assert!(refused);
                        }
                    }
                }
            }
        }

        #[test]
        fn an_insertion_keeps_every_other_byte(
            text in "(a|b|\n|\r\n){1,14}", line in -6i64..7, content in "(x|\n){0,4}"
        ) {
            let lines = model(&text);
            if let Some(at) = resolve_line(line, lines.len() as u64) {
                let at = at as usize;
                let result = insert(&text, line, &lines[at].0, &content).unwrap();
                let before = joined(&lines[..at]);
                let after = &text[before.len()..];
                prop_assert!(result.starts_with(&before) && result.ends_with(after));
                let middle = &result[before.len()..result.len() - after.len()];
                let expected = format!("{}\n", without_final_terminator(&content));
                prop_assert_eq!(middle.replace("\r\n", "\n"), expected);
            }
        }

        #[test]
        fn appending_keeps_every_byte_of_the_text(
            text in "(a|\n|\r\n){0,9}", content in "(x|\n){1,5}"
        ) {
            let result = append(&text, &content);
            prop_assert!(result.starts_with(&text));
            let added = &result[text.len()..];
            prop_assert!(added.replace("\r\n", "\n").ends_with(&content));
            prop_assert!(result.contains(&content) || result.contains("\r\n"));
        }
    }
}
