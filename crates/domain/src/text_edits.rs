//! Several edits of a text as one: each replaces a text that occurs once, or everywhere.
//!
//! The edits run in their order, each on what the ones before it left, and all of them succeed or
//! none does. Which parts of the text changed is tracked on the way, so that the difference of two
//! large texts costs what changed.

use std::ops::Range;

use crate::edit::{BOM, EditError, excerpt, with_ending};
use crate::limits::MAX_LISTED_MATCHES;
use crate::lines::{LineRange, LineSpan, ResolvedLines, line_spans};

/// One replacement of a text by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The text to be replaced, not empty. May begin and end anywhere in a line.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// The lines in which `old` must lie, of the text that the edits before left.
    pub lines: LineRange,
    /// Which occurrences are replaced.
    pub occurrences: Occurrences,
}

/// Which occurrences of a text an edit replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// The only one. Several are an error.
    One,
    /// Each one, from left to right. An occurrence that overlaps the one before it does not count.
    Each,
}

/// A part of a text that differs from the original text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPart {
    /// The bytes of the original text.
    pub original: Range<usize>,
    /// The bytes of the current text that stand in their place.
    pub current: Range<usize>,
}

/// A text after some edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    /// The text as it is now.
    pub text: String,
    /// The parts that changed, in order, without overlaps.
    pub changes: Vec<ChangedPart>,
}

/// Which edit cannot be made, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedEdit {
    /// The index of the edit, from 0.
    pub index: usize,
    /// Why it cannot be made.
    pub error: EditError,
}

/// Makes edits one after another.
///
/// A file whose first line ends in `\r\n` is searched for, and gets, `\r\n` where an edit has `\n`.
///
/// # Errors
/// [`FailedEdit`] for the first edit whose text does not occur, or occurs more than once.
pub fn apply(text: &str, edits: &[TextEdit]) -> Result<EditedText, FailedEdit> {
    let mut edited = EditedText { text: text.to_owned(), changes: Vec::new() };
    for (index, edit) in edits.iter().enumerate() {
        let places = places(&edited.text, edit).map_err(|error| FailedEdit { index, error })?;
        let ending = ending_of(&edited.text);
        edited = edited.replaced(&places, &with_ending(&edit.new, ending));
    }
    Ok(edited)
}

fn ending_of(text: &str) -> &'static str {
    match memchr::memchr(b'\n', text.as_bytes()) {
        Some(at) if at > 0 && text.as_bytes().get(at - 1) == Some(&b'\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns the bytes that an edit replaces, in order.
fn places(text: &str, edit: &TextEdit) -> Result<Vec<Range<usize>>, EditError> {
    let spans: Vec<LineSpan> = line_spans(text, 0).collect();
    let total_lines = spans.len() as u64;
    let within = match edit.lines.resolve(total_lines) {
        Ok(lines) => lines,
        Err(_) => return Err(EditError::Range { total_lines }),
    };
    let old = with_ending(&edit.old, ending_of(text));
    let bounds = byte_range(text, &spans, within);
    let mut found = Vec::new();
    let mut from = bounds.start;
    while let Some(at) = text.get(from..bounds.end).and_then(|rest| rest.find(&old)) {
        let start = from + at;
        found.push(start..start + old.len());
        from = match edit.occurrences {
            Occurrences::Each => start + old.len(),
            // Overlapping occurrences are ambiguous, too.
            Occurrences::One => {
                start
                    + text
                        .get(start..)
                        .and_then(|rest| rest.chars().next())
                        .map_or(1, char::len_utf8)
            }
        };
        if edit.occurrences == Occurrences::One && found.len() > MAX_LISTED_MATCHES {
            break;
        }
    }
    let line_of = |at: usize| spans.partition_point(|span| span.start <= at) as u64;
    match (found.len(), edit.occurrences) {
        (0, _) => {
            let elsewhere = text.match_indices(&old).map(|(at, _)| line_of(at));
            Err(EditError::NoMatch {
                searched: within,
                lines: excerpt(text, spans.iter().copied(), within),
                elsewhere: elsewhere.take(MAX_LISTED_MATCHES).collect(),
            })
        }
        (1, _) | (_, Occurrences::Each) => Ok(found),
        (count, Occurrences::One) => Err(EditError::Ambiguous {
            matches: found
                .iter()
                .take(MAX_LISTED_MATCHES)
                .map(|place| line_of(place.start))
                .collect(),
            more: count > MAX_LISTED_MATCHES,
        }),
    }
}

/// Returns the bytes of some lines with their terminators, without the file's byte order mark.
fn byte_range(text: &str, spans: &[LineSpan], lines: ResolvedLines) -> Range<usize> {
    let index = |line: u64| usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let mark = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let start = spans.get(index(lines.start)).map_or(text.len(), |span| span.start);
    let end = spans.get(index(lines.end)).map_or(text.len(), |span| span.start);
    start.max(mark)..end.max(mark)
}

impl EditedText {
    /// Replaces parts of the current text, which are in order and do not overlap.
    fn replaced(self, places: &[Range<usize>], new: &str) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let mut end = 0;
        for place in places {
            text.push_str(self.text.get(end..place.start).unwrap_or_default());
            text.push_str(new);
            end = place.end;
        }
        text.push_str(self.text.get(end..).unwrap_or_default());
        Self { changes: merged(&self.changes, places, new.len()), text }
    }
}

/// Returns the changed parts after another edit replaced `places` of the current text, each by
/// `new_len` bytes. Parts that touch each other become one.
fn merged(changes: &[ChangedPart], places: &[Range<usize>], new_len: usize) -> Vec<ChangedPart> {
    let mut result: Vec<ChangedPart> = Vec::with_capacity(changes.len() + places.len());
    let (mut changes, mut places) = (changes.iter().peekable(), places.iter().peekable());
    // What an offset of the current text is more than one of the original text, and one of the new
    // text more than one of the current text.
    let (mut to_current, mut to_new) = (0i128, 0i128);
    let shifted = |at: usize, by: i128| usize::try_from(at as i128 + by).unwrap_or(0);
    loop {
        let start = match (changes.peek(), places.peek()) {
            (None, None) => return result,
            (Some(change), None) => change.current.start,
            (None, Some(place)) => place.start,
            (Some(change), Some(place)) => change.current.start.min(place.start),
        };
        let (mut end, before, new_start) = (start, to_current, shifted(start, to_new));
        loop {
            if let Some(change) = changes.next_if(|change| change.current.start <= end) {
                end = end.max(change.current.end);
                to_current += change.current.len() as i128 - change.original.len() as i128;
            } else if let Some(place) = places.next_if(|place| place.start <= end) {
                end = end.max(place.end);
                to_new += new_len as i128 - place.len() as i128;
            } else {
                break;
            }
        }
        result.push(ChangedPart {
            original: shifted(start, -before)..shifted(end, -to_current),
            current: new_start..shifted(end, to_new),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edit(old: &str, new: &str) -> TextEdit {
        TextEdit {
            old: old.to_owned(),
            new: new.to_owned(),
            lines: LineRange::ALL,
            occurrences: Occurrences::One,
        }
    }

    #[test]
    fn edits_see_what_the_ones_before_left_and_fail_together() {
        let done = apply("one two three", &[edit("two", "2"), edit("one 2", "1-2")]).unwrap();
        assert_eq!(done.text, "1-2 three");
        assert_eq!(done.changes, [ChangedPart { original: 0..7, current: 0..3 }]);
        let failed = apply("one two", &[edit("two", "2"), edit("two", "3")]).unwrap_err();
        assert_eq!(failed.index, 1);
        assert!(matches!(failed.error, EditError::NoMatch { .. }));
        let failed = apply("aaa", &[edit("aa", "b")]).unwrap_err();
        assert_eq!(failed.error, EditError::Ambiguous { matches: vec![1, 1], more: false });
    }

    #[test]
    fn lines_narrow_an_edit_and_each_occurrence_can_be_replaced() {
        let text = "x\nx\nx\n";
        let narrow = TextEdit { lines: LineRange(2, 3), ..edit("x", "y") };
        assert_eq!(apply(text, &[narrow]).unwrap().text, "x\ny\nx\n");
        let each = TextEdit { occurrences: Occurrences::Each, ..edit("x", "yy") };
        assert_eq!(apply(text, std::slice::from_ref(&each)).unwrap().text, "yy\nyy\nyy\n");
        let two = TextEdit { lines: LineRange(2, 0), ..each };
        assert_eq!(apply(text, &[two]).unwrap().text, "x\nyy\nyy\n");
        let outside = TextEdit { lines: LineRange(1, 2), ..edit("x\nx", "y") };
        let error = apply(text, &[outside]).unwrap_err().error;
        assert!(matches!(error, EditError::NoMatch { elsewhere, .. } if elsewhere == [1]));
    }

    #[test]
    fn line_endings_and_the_byte_order_mark_are_those_of_the_file() {
        let done = apply("\u{feff}a\r\nb\r\n", &[edit("a\nb", "c\nd")]).unwrap();
        assert_eq!(done.text, "\u{feff}c\r\nd\r\n");
        assert!(apply("\u{feff}a", &[edit("\u{feff}", "")]).is_err());
    }

    /// Makes an edit by trying every place.
    fn slow_apply(text: &str, edits: &[TextEdit]) -> Option<String> {
        let mut text: Vec<char> = text.chars().collect();
        for edit in edits {
            let old: Vec<char> = edit.old.chars().collect();
            let places: Vec<usize> =
                (0..text.len()).filter(|at| text[*at..].starts_with(&old)).collect();
            if places.is_empty() || places.len() > 1 && edit.occurrences == Occurrences::One {
                return None;
            }
            let (mut new, mut at) = (Vec::new(), 0);
            while at < text.len() {
                if text[at..].starts_with(&old) {
                    new.extend(edit.new.chars());
                    at += old.len();
                } else {
                    new.push(text[at]);
                    at += 1;
                }
            }
            text = new;
        }
        Some(text.into_iter().collect())
    }

    fn edits() -> impl Strategy<Value = Vec<TextEdit>> {
        let one = ("[abé\n]{1,3}", "[abcé\n]{0,4}", any::<bool>()).prop_map(|(old, new, each)| {
            let occurrences = if each { Occurrences::Each } else { Occurrences::One };
            TextEdit { old, new, lines: LineRange::ALL, occurrences }
        });
        proptest::collection::vec(one, 1..5)
    }

    proptest! {
        #[test]
        fn edits_agree_with_the_slow_ones(text in "[abé\n]{1,14}", edits in edits()) {
            let fast = apply(&text, &edits);
            let slow = slow_apply(&text, &edits);
            prop_assert_eq!(fast.as_ref().ok().map(|done| done.text.clone()), slow);
            if let Ok(EditedText { text: new, changes }) = fast {
                // Putting the changed parts into the original text makes the new text.
                let (mut built, mut end) = (String::new(), 0);
                for part in &changes {
                    prop_assert!(part.original.start >= end);
                    built.push_str(&text[end..part.original.start]);
                    prop_assert_eq!(built.len(), part.current.start);
                    built.push_str(&new[part.current.clone()]);
                    end = part.original.end;
                }
                built.push_str(&text[end..]);
                prop_assert_eq!(built, new);
            }
        }
    }
}
