//! Finds a text in a file whose lines may end in `\n`, in `\r\n`, or some in one and some in the
//! other, and gives the text that takes its place the line endings of the place.
//!
//! A caller who writes `\n` may mean either ending. So a `\n` of the sought text matches both, but
//! where the very bytes occur, only they are found. A match never begins between the `\r` and the
//! `\n` of one line ending. Each search takes linear time, whatever the texts repeat.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;

use crate::edit::with_ending;
use crate::line_search::Pattern;

/// The line endings of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endings {
    /// Every line ends in `\n`, or no line is ended.
    Lf,
    /// Every line ends in `\r\n`.
    CrLf,
    /// Some lines end in `\n` and some in `\r\n`.
    Mixed,
}

impl Endings {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        if memchr::memchr(b'\r', bytes).is_none() {
            return Self::Lf;
        }
        let mut endings = memchr::memchr_iter(b'\n', bytes).map(|at| ending_at(text, at));
        match endings.next() {
            None => Self::Lf,
            Some(first) if endings.any(|ending| ending != first) => Self::Mixed,
            Some("\r\n") => Self::CrLf,
            Some(_) => Self::Lf,
        }
    }
}

/// Returns the line ending whose `\n` is at a byte offset.
fn ending_at(text: &str, newline: usize) -> &'static str {
    let before = newline.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    if before == Some(&b'\r') { "\r\n" } else { "\n" }
}

/// A text to find in one file, and the text that takes its place.
pub(crate) struct SoughtText<'e> {
    needle: Needle,
    new: Cow<'e, str>,
    endings: Endings,
}

enum Needle {
    /// These bytes.
    Bytes(Box<Finder<'static>>),
    /// These bytes, and either line ending for each `\n`.
    AnyEnding(Pattern<u8>),
}

impl<'e> SoughtText<'e> {
    /// Prepares the search of `old` in `text`, with `new` to take its place.
    pub(crate) fn new(text: &str, old: &str, new: &'e str) -> Self {
        let has_lines = old.contains('\n') || new.contains('\n');
        let endings = if has_lines { Endings::of(text) } else { Endings::Lf };
        let needle = match endings {
            Endings::Lf => Needle::bytes(old),
            Endings::CrLf => Needle::bytes(&with_ending(old, "\r\n")),
            // A caller who writes `\r\n` means these bytes.
            Endings::Mixed if old.contains("\r\n") || !old.contains('\n') => Needle::bytes(old),
            Endings::Mixed => Needle::AnyEnding(Pattern::new(old.as_bytes().to_vec())),
        };
        let new = match endings {
            Endings::CrLf => Cow::Owned(with_ending(new, "\r\n")),
            Endings::Lf | Endings::Mixed => Cow::Borrowed(new),
        };
        Self { needle, new, endings }
    }

    /// Finds `old` byte for byte from now on, if its very bytes occur within `bounds`.
    pub(crate) fn prefer_exact(&mut self, text: &str, bounds: &Range<usize>, old: &str) {
        if matches!(self.needle, Needle::AnyEnding(_)) {
            let exact = Needle::bytes(old);
            if exact.next(text, bounds.clone()).is_some() {
                self.needle = exact;
            }
        }
    }

    /// Returns the first `max` places within `bounds`, also those that overlap.
    pub(crate) fn overlapping(
        &self,
        text: &str,
        bounds: Range<usize>,
        max: usize,
    ) -> Vec<Range<usize>> {
        let (mut found, mut from) = (Vec::new(), bounds.start);
        while found.len() < max
            && let Some(place) = self.needle.next(text, from..bounds.end)
        {
            let step = text.get(place.start..).and_then(|rest| rest.chars().next());
            from = place.start + step.map_or(1, char::len_utf8);
            found.push(place);
        }
        found
    }

    /// Returns the places within `bounds` in order, none of which overlaps another.
    pub(crate) fn places<'t>(
        &'t self,
        text: &'t str,
        bounds: Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> + 't {
        let mut from = bounds.start;
        std::iter::from_fn(move || {
            let place = self.needle.next(text, from..bounds.end)?;
            from = place.end;
            Some(place)
        })
    }

    /// Returns the text that takes a place: each `\n` of it becomes the line ending that the place
    /// has there, from the first on, and then the last one again. A place within a line has the
    /// ending of that line.
    pub(crate) fn new_at(&self, text: &str, place: &Range<usize>) -> Cow<'_, str> {
        if self.endings != Endings::Mixed || !self.new.contains('\n') {
            return Cow::Borrowed(&self.new);
        }
        let bytes = text.as_bytes();
        let newlines = memchr::memchr_iter(b'\n', bytes.get(place.clone()).unwrap_or_default());
        let mut own = newlines.map(|at| ending_at(text, place.start + at));
        let mut ending = own.next().unwrap_or_else(|| ending_near(text, place.end));
        let mut new = String::with_capacity(self.new.len() + self.new.len() / 32);
        let mut lines = self.new.split('\n').peekable();
        while let Some(line) = lines.next() {
            new.push_str(line);
            if lines.peek().is_some() {
                new.push_str(if line.ends_with('\r') { "\n" } else { ending });
                ending = own.next().unwrap_or(ending);
            }
        }
        Cow::Owned(new)
    }
}

/// Returns the ending of the line that a byte is in; of the line before, if the line has none.
fn ending_near(text: &str, at: usize) -> &'static str {
    let (before, after) = text.as_bytes().split_at_checked(at).unwrap_or_default();
    let newline = memchr::memchr(b'\n', after).map(|newline| at + newline);
    let newline = newline.or_else(|| memchr::memrchr(b'\n', before));
    newline.map_or("\n", |newline| ending_at(text, newline))
}

impl Needle {
    fn bytes(old: &str) -> Self {
        Self::Bytes(Box::new(Finder::new(old).into_owned()))
    }

    /// Returns the first place within `bounds`.
    fn next(&self, text: &str, bounds: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Bytes(finder) => {
                let old = finder.needle();
                let mut from = bounds.start;
                loop {
                    let start = from + finder.find(text.as_bytes().get(from..bounds.end)?)?;
                    let is_inside = old.first() == Some(&b'\n') && ending_at(text, start) == "\r\n";
                    if !is_inside {
                        return Some(start..start + old.len());
                    }
                    from = start + 1;
                }
            }
            Self::AnyEnding(pattern) => next_with_any_ending(pattern, text, bounds),
        }
    }
}

/// Finds the first place whose bytes are those of `pattern` where each `\r\n` counts as `\n`.
fn next_with_any_ending(
    pattern: &Pattern<u8>,
    text: &str,
    bounds: Range<usize>,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_ending = |at: usize| {
        bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n') && at + 1 < bounds.end
    };
    let mut matched = 0;
    for (at, byte) in bounds.clone().zip(bytes.get(bounds.clone())?) {
        if is_ending(at) {
            continue;
        }
        matched = pattern.step(matched, byte);
        if matched == pattern.items().len() {
            let mut start = at + 1;
            for _ in 0..matched {
                start -= 1;
                let before = start.checked_sub(1).filter(|before| *before >= bounds.start);
                start = before.filter(|before| is_ending(*before)).unwrap_or(start);
            }
            return Some(start..at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns where each place begins and ends.
    fn places(text: &str, old: &str) -> Vec<(usize, usize)> {
        let sought = SoughtText::new(text, old, "");
        let places = sought.places(text, 0..text.len());
        places.map(|place| (place.start, place.end)).collect()
    }

    #[test]
    fn a_line_ending_is_never_split() {
        assert_eq!(places("a\r\nb\nc", "\nb"), [(1, 4)]);
        assert_eq!(places("a\r\nb\n", "\r\n"), [(1, 3)]);
        assert_eq!(places("a\r\nb\r\n", "\nb"), [(1, 4)]);
        assert_eq!(places("a\r\nb\n", "b\n"), [(3, 5)]);
        assert_eq!(places("\r\r\na\n", "\na"), [(1, 4)]);
    }

    proptest! {
        #[test]
        fn what_is_found_is_the_sought_text_without_its_carriage_returns(
            text in "(a|b|\n|\r\n|é){0,14}", old in "[ab\n]{1,3}",
        ) {
            let bare = |text: &str| text.replace("\r\n", "\n");
            let found = places(&text, &old);
            for (start, end) in &found {
                prop_assert_eq!(bare(&text[*start..*end]), old.clone());
            }
            prop_assert_eq!(found.len(), bare(&text).matches(&old).count());
        }

        #[test]
        fn the_new_text_differs_from_what_was_sent_in_line_endings_alone(
            text in "(a|b|\n|\r\n){1,14}", old in "[ab\n]{1,3}", new in "(x|\n|\r\n){0,5}",
        ) {
            let sought = SoughtText::new(&text, &old, &new);
            for place in sought.places(&text, 0..text.len()) {
                let made = sought.new_at(&text, &place);
                prop_assert_eq!(made.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
                // The same text in its place changes nothing.
                let same = SoughtText::new(&text, &old, &old);
                prop_assert_eq!(same.new_at(&text, &place), &text[place.clone()]);
            }
        }
    }
}
