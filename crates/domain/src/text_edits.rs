//! Several edits of a text as one: each replaces a text that occurs once, or everywhere.
//!
//! The edits run in their order, each on what the ones before it left, and all of them succeed or
//! none does. Which parts of the text changed is tracked on the way, so that the difference of two
//! large texts costs what changed.
//!
//! Memory is that of two texts, however many occurrences are replaced: no list of them is made, no
//! text grows beyond the caller's limit, and beyond a bound changed parts become one.

use std::borrow::Cow;
use std::ops::Range;

use crate::edit::{EditError, Within, excerpt};
use crate::limits::MAX_LISTED_MATCHES;
use crate::lines::{BOM, ResolvedLines, line_spans};
use crate::near_miss::NearMiss;
use crate::sought_text::SoughtText;

/// The most changed parts of a text. If edits change more places, the last part covers all of the
/// remaining places and the unchanged text between them.
const MAX_PARTS: usize = 1 << 16;

/// One replacement of a text by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The text to be replaced, not empty. May begin and end anywhere in a line.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// Where `old` must lie, in the text that the edits before left.
    pub within: Within,
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
    /// The byte range of the original text that was replaced.
    pub original: Range<usize>,
    /// The byte range of the current text that replaces `original`.
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
/// A `\n` of an edit stands for the line endings of the place that it changes (`sought_text`).
///
/// # Errors
/// [`FailedEdit`] for the first edit whose text does not occur, or occurs more than once, or that
/// makes a text of more than `max_bytes` bytes.
pub fn apply(text: &str, edits: &[TextEdit], max_bytes: u64) -> Result<EditedText, FailedEdit> {
    let mut edited = EditedText { text: text.to_owned(), changes: Vec::new() };
    for (index, edit) in edits.iter().enumerate() {
        let failed = |error| FailedEdit { index, error };
        let places = Places::find(&edited.text, edit).map_err(failed)?;
        if places.len_after > u128::from(max_bytes) {
            return Err(failed(EditError::TooLarge));
        }
        edited = edited.replaced(&places);
    }
    Ok(edited)
}

/// The bytes that an edit replaces, and what replaces them.
struct Places<'e> {
    /// The bytes to look in.
    bounds: Range<usize>,
    sought: SoughtText<'e>,
    /// The length of the text after the edit.
    len_after: u128,
}

impl<'e> Places<'e> {
    /// Finds what an edit replaces.
    fn find(text: &str, edit: &'e TextEdit) -> Result<Self, EditError> {
        let total_lines = line_of(text, text.len()) - u64::from(ends_lines(text));
        let within = edit.within.resolve(text, total_lines)?;
        let bounds = byte_range(text, within);
        let mut sought = SoughtText::new(text, &edit.old, &edit.new);
        if edit.occurrences == Occurrences::One {
            sought.prefer_exact(text, &bounds, &edit.old);
            let found = sought.overlapping(text, bounds.clone(), MAX_LISTED_MATCHES + 1);
            if found.len() > 1 {
                let lines = found.iter().map(|place| line_of(text, place.start));
                return Err(EditError::Ambiguous {
                    matches: lines.take(MAX_LISTED_MATCHES).collect(),
                    more: found.len() > MAX_LISTED_MATCHES,
                });
            }
        }
        let mut places = Self { bounds, sought, len_after: text.len() as u128 };
        let (mut old, mut new, mut count) = (0u128, 0u128, 0u64);
        for (place, text) in places.iter(text) {
            old += place.len() as u128;
            new += text.len() as u128;
            count += 1;
        }
        if count == 0 {
            let all = places.sought.places(text, 0..text.len());
            let elsewhere = all.map(|place| line_of(text, place.start));
            return Err(EditError::NoMatch {
                searched: within,
                lines: excerpt(text, line_spans(text, 0), within),
                elsewhere: elsewhere.take(MAX_LISTED_MATCHES).collect(),
                near_miss: NearMiss::find(text, places.bounds, &edit.old),
            });
        }
        places.len_after = text.len() as u128 - old + new;
        Ok(places)
    }

    /// Returns the places in order, none of which overlaps another, each with what takes it.
    fn iter<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = (Range<usize>, Cow<'t, str>)> + 't {
        let places = self.sought.places(text, self.bounds.clone());
        places.map(move |place| (place.clone(), self.sought.new_at(text, &place)))
    }
}

/// Returns the number of the line that a byte is in, from 1.
fn line_of(text: &str, at: usize) -> u64 {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    memchr::memchr_iter(b'\n', before).count() as u64 + 1
}

/// Whether no line follows the last terminator, as in an empty text.
fn ends_lines(text: &str) -> bool {
    text.is_empty() || text.ends_with('\n')
}

/// Returns the bytes of some lines with their terminators, without the file's byte order mark.
fn byte_range(text: &str, lines: ResolvedLines) -> Range<usize> {
    let start_of = |line: u64| match usize::try_from(line.saturating_sub(2)) {
        Ok(_) if line < 2 => 0,
        Ok(breaks) => {
            let mut breaks_at = memchr::memchr_iter(b'\n', text.as_bytes());
            breaks_at.nth(breaks).map_or(text.len(), |at| at + 1)
        }
        Err(_) => text.len(),
    };
    let mark = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    start_of(lines.start).max(mark)..start_of(lines.end).max(mark)
}

impl EditedText {
    /// Replaces parts of the current text.
    fn replaced(self, places: &Places<'_>) -> Self {
        let mut text = String::with_capacity(usize::try_from(places.len_after).unwrap_or(0));
        let mut end = 0;
        for (place, new) in places.iter(&self.text) {
            text.push_str(self.text.get(end..place.start).unwrap_or_default());
            text.push_str(&new);
            end = place.end;
        }
        text.push_str(self.text.get(end..).unwrap_or_default());
        let places = places.iter(&self.text).map(|(place, new)| (place, new.len()));
        Self { changes: merged(&self.changes, places), text }
    }
}

/// Returns the changed parts after another edit replaced `places` of the current text, each by the
/// given number of bytes. Parts that touch each other become one, and so do those beyond
/// [`MAX_PARTS`].
fn merged(
    changes: &[ChangedPart],
    places: impl Iterator<Item = (Range<usize>, usize)>,
) -> Vec<ChangedPart> {
    let mut result: Vec<ChangedPart> = Vec::new();
    let (mut changes, mut places) = (changes.iter().peekable(), places.peekable());
    // What an offset of the current text is more than one of the original text, and one of the new
    // text more than one of the current text.
    let (mut to_current, mut to_new) = (0i128, 0i128);
    let shifted = |at: usize, by: i128| usize::try_from(at as i128 + by).unwrap_or(0);
    loop {
        let start = match (changes.peek(), places.peek()) {
            (None, None) => return result,
            (Some(change), None) => change.current.start,
            (None, Some((place, _))) => place.start,
            (Some(change), Some((place, _))) => change.current.start.min(place.start),
        };
        let (mut end, before, new_start) = (start, to_current, shifted(start, to_new));
        loop {
            if let Some(change) = changes.next_if(|change| change.current.start <= end) {
                end = end.max(change.current.end);
                to_current += change.current.len() as i128 - change.original.len() as i128;
            } else if let Some((place, new_len)) = places.next_if(|(place, _)| place.start <= end) {
                end = end.max(place.end);
                to_new += new_len as i128 - place.len() as i128;
            } else {
                break;
            }
        }
        let part = ChangedPart {
            original: shifted(start, -before)..shifted(end, -to_current),
            current: new_start..shifted(end, to_new),
        };
        let is_full = result.len() >= MAX_PARTS;
        match result.last_mut() {
            Some(last) if is_full => {
                last.original.end = part.original.end;
                last.current.end = part.current.end;
            }
            _ => result.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineRange;
    use proptest::prelude::*;

    fn edit(old: &str, new: &str) -> TextEdit {
        TextEdit {
            old: old.to_owned(),
            new: new.to_owned(),
            within: LineRange::ALL.into(),
            occurrences: Occurrences::One,
        }
    }

    fn made(text: &str, edits: &[TextEdit]) -> Result<EditedText, FailedEdit> {
        apply(text, edits, u64::MAX)
    }

    #[test]
    fn edits_see_what_the_ones_before_left_and_fail_together() {
        let done = made("one two three", &[edit("two", "2"), edit("one 2", "1-2")]).unwrap();
        assert_eq!(done.text, "1-2 three");
        assert_eq!(done.changes, [ChangedPart { original: 0..7, current: 0..3 }]);
        let failed = made("one two", &[edit("two", "2"), edit("two", "3")]).unwrap_err();
        assert_eq!(failed.index, 1);
        assert!(matches!(failed.error, EditError::NoMatch { .. }));
        let failed = made("aaa", &[edit("aa", "b")]).unwrap_err();
        assert_eq!(failed.error, EditError::Ambiguous { matches: vec![1, 1], more: false });
    }

    #[test]
    fn lines_narrow_an_edit_and_each_occurrence_can_be_replaced() {
        let text = "x\nx\nx\n";
        let narrow = TextEdit { within: LineRange(2, 3).into(), ..edit("x", "y") };
        assert_eq!(made(text, &[narrow]).unwrap().text, "x\ny\nx\n");
        let each = TextEdit { occurrences: Occurrences::Each, ..edit("x", "yy") };
        assert_eq!(made(text, std::slice::from_ref(&each)).unwrap().text, "yy\nyy\nyy\n");
        let two = TextEdit { within: LineRange(2, 0).into(), ..each };
        assert_eq!(made(text, &[two]).unwrap().text, "x\nyy\nyy\n");
        let outside = TextEdit { within: LineRange(1, 2).into(), ..edit("x\nx", "y") };
        let error = made(text, &[outside]).unwrap_err().error;
        assert!(matches!(error, EditError::NoMatch { elsewhere, .. } if elsewhere == [1]));
    }

    #[test]
    fn a_file_of_mixed_line_endings_is_edited_as_it_is() {
        for (text, old, new, expected) in [
            ("a\r\nb\nc\r\nd\n", "b\nc", "B\nC", "a\r\nB\nC\r\nd\n"),
            ("a\r\nb\nc\r\nd\n", "b\nc\r\n", "B\nC\r\n", "a\r\nB\nC\r\nd\n"),
            ("one\ntwo\r\nthree\nfour\n", "two\nthree", "2\n3", "one\n2\r\n3\nfour\n"),
            ("x\ny\nz\r\n", "y\nz\n", "Y\nZ\n", "x\nY\nZ\r\n"),
            ("a\r\nb\nc\nd\n", "b\nc\nd", "B\nC\nD", "a\r\nB\nC\nD\n"),
            // New lines within a line end like the line.
            ("a\nb c\r\n", "b c", "b\nc", "a\nb\r\nc\r\n"),
            ("a\r\nb c\nd\r\n", "b c", "b\nc", "a\r\nb\nc\nd\r\n"),
            // The very bytes win over the same text with other line endings.
            ("a\r\nb\na\nb\n", "a\nb", "c", "a\r\nb\nc\n"),
        ] {
            assert_eq!(made(text, &[edit(old, new)]).unwrap().text, expected, "{text:?}");
        }
        let each = TextEdit { occurrences: Occurrences::Each, ..edit("a\nb", "c\nd") };
        assert_eq!(made("a\r\nb\na\nb\n", &[each]).unwrap().text, "c\r\nd\nc\nd\n");
        let twice = made("a\r\nb\na\r\nb\n", &[edit("a\nb", "c")]).unwrap_err().error;
        assert_eq!(twice, EditError::Ambiguous { matches: vec![1, 3], more: false });
    }

    #[test]
    fn line_endings_and_the_byte_order_mark_are_those_of_the_file() {
        let done = made("\u{feff}a\r\nb\r\n", &[edit("a\nb", "c\nd")]).unwrap();
        assert_eq!(done.text, "\u{feff}c\r\nd\r\n");
        assert!(made("\u{feff}a", &[edit("\u{feff}", "")]).is_err());
    }

    #[test]
    fn no_text_grows_beyond_the_limit_on_the_way() {
        let each =
            |old: &str, new: &str| TextEdit { occurrences: Occurrences::Each, ..edit(old, new) };
        // Each edit alone is small, and together they make 2^64 bytes.
        let failed = apply("a", &vec![each("a", "aa"); 64], 1000).unwrap_err();
        assert_eq!((failed.index, failed.error), (9, EditError::TooLarge));
        let all = apply(&"a".repeat(1 << 20), &[each("a", &"b".repeat(1 << 20))], 1 << 26);
        assert_eq!(all.unwrap_err().error, EditError::TooLarge);
        assert_eq!(apply("aa", &[each("a", "bb")], 4).unwrap().text, "bbbb");
        // A text that would be too long on the way, and not in the end.
        assert!(apply("aa", &[each("a", "bbb"), each("b", "")], 5).is_err());
    }

    #[test]
    fn very_many_changed_parts_become_one_at_the_end() {
        let (text, each) = ("ab".repeat(2 * MAX_PARTS), Occurrences::Each);
        let edits = [TextEdit { occurrences: each, ..edit("a", "cc") }];
        let EditedText { text: new, changes } = made(&text, &edits).unwrap();
        assert_eq!(changes.len(), MAX_PARTS);
        let last = changes.last().unwrap();
        assert_eq!(text[last.original.end..], new[last.current.end..]);
        assert_eq!(last.current.len(), last.original.len() + MAX_PARTS + 1);
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

    #[test]
    fn a_text_that_differs_in_what_is_not_seen_is_explained() {
        let missed = |text: &str, old: &str| match made(text, &[edit(old, "")]) {
            Err(FailedEdit { error: EditError::NoMatch { near_miss, .. }, .. }) => near_miss,
            other => panic!("{other:?}"),
        };
        assert_eq!(missed("one\ntwo", "two\n"), Some(NearMiss::FinalBreak));
        assert_eq!(missed("one\ntwo", "two\r\n"), Some(NearMiss::FinalBreak));
        let space = |line, found, sought| Some(NearMiss::Space { line, found, sought });
        assert_eq!(missed("a\nb\u{a0}c\n", "b c"), space(2, '\u{a0}', ' '));
        assert_eq!(missed("b c\n", "b\u{202f}c"), space(1, ' ', '\u{202f}'));
        assert_eq!(missed("a\n", "b"), None);
    }

    fn edits() -> impl Strategy<Value = Vec<TextEdit>> {
        let one = ("[abé\n]{1,3}", "[abcé\n]{0,4}", any::<bool>()).prop_map(|(old, new, each)| {
            let occurrences = if each { Occurrences::Each } else { Occurrences::One };
            TextEdit { old, new, within: LineRange::ALL.into(), occurrences }
        });
        proptest::collection::vec(one, 1..5)
    }

    proptest! {
        #[test]
        fn edits_agree_with_the_slow_ones(text in "[abé\n]{1,14}", edits in edits()) {
            let fast = made(&text, &edits);
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
