//! Lines of a text: their definition, the lines that a range selects, and the index of line starts.
//!
//! A line ends at `\n`. A `\r` directly before the `\n` belongs to the terminator. The last line
//! may have no terminator. So `""` has 0 lines, `"a"` 1, `"a\n"` 1 and `"a\n\n"` 2. A [`LineIndex`]
//! is sparse: it holds one line start about every [`STRIDE`] bytes. So a window costs at most one
//! extra stride of reading, and the index of a gigabyte stays in the hundreds of kilobytes.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::inline_schema::inline_schema;

/// The byte order mark, which belongs to the file and not to its first line.
pub(crate) const BOM: char = '\u{feff}';

/// A range of lines as a caller writes it: `[start, end)`, 1-indexed, end exclusive.
///
/// Negative numbers count from the end: `-1` is the last line. A start of `0` is the first line,
/// and an end of `0` is the end of the file. *Source*: MCP-040 to MCP-042.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange(pub i64, pub i64);

impl LineRange {
    /// The range of every line.
    pub const ALL: Self = Self(0, 0);
}

inline_schema!(LineRange, {
    "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2
});

/// The lines of a file that a [`LineRange`] selects; `start <= end <= total + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ResolvedLines {
    /// The first line, counted from 1.
    pub start: u64,
    /// One past the last line, counted from 1.
    pub end: u64,
}

impl ResolvedLines {
    /// Returns the number of selected lines.
    pub fn count(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The error for a range that selects no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyRange;

impl LineRange {
    /// Resolves the range for a file with `total` lines. A start or end outside the file is
    /// clipped.
    ///
    /// # Errors
    /// [`EmptyRange`] where the range selects no line of a file that has lines, or where the start
    /// lies after the end.
    pub fn resolve(self, total: u64) -> Result<ResolvedLines, EmptyRange> {
        let total = i128::from(total);
        let position = |number: i64, open: i128| match i128::from(number) {
            0 => open,
            negative if negative < 0 => total + 1 + negative,
            positive => positive,
        };
        let start = position(self.0, 1);
        let end = position(self.1, i128::MAX);
        if start > end || (total > 0 && (start == end || start > total || end < 2)) {
            return Err(EmptyRange);
        }
        let clip = |number: i128| u64::try_from(number.clamp(1, total + 1)).unwrap_or(1);
        Ok(ResolvedLines { start: clip(start), end: clip(end) })
    }
}

/// Returns the 0-based line for a caller's line number: from 1, negative from the end. Returns
/// `None` for 0 and for a number outside the file.
pub fn resolve_line(number: i64, total: u64) -> Option<u64> {
    let total = i128::from(total);
    let line = if number < 0 { total + 1 + i128::from(number) } else { i128::from(number) };
    (line >= 1 && line <= total).then(|| u64::try_from(line - 1).ok()).flatten()
}

/// The byte offsets of one line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpan {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the content, where the terminator begins.
    pub content_end: usize,
    /// The offset after the terminator; equal to `content_end` for a line without a terminator.
    pub end: usize,
}

impl LineSpan {
    /// Returns the terminator: `"\n"`, `"\r\n"` or the empty string.
    pub fn terminator<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.content_end..self.end).unwrap_or_default()
    }

    /// Returns the content without the terminator.
    pub fn content<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start..self.content_end).unwrap_or_default()
    }
}

/// An iterator over the lines of a text; made by [`line_spans`].
#[derive(Clone, Debug)]
pub struct LineSpans<'t> {
    text: &'t [u8],
    at: usize,
}

/// Returns the lines of `text` from the byte offset `at`, which must be the start of a line.
pub fn line_spans(text: &str, at: usize) -> LineSpans<'_> {
    LineSpans { text: text.as_bytes(), at }
}

impl Iterator for LineSpans<'_> {
    type Item = LineSpan;

    fn next(&mut self) -> Option<LineSpan> {
        let rest = self.text.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let start = self.at;
        let span = match memchr::memchr(b'\n', rest) {
            Some(length) => {
                let end = start + length;
                let carriage = length > 0 && rest.get(length - 1) == Some(&b'\r');
                LineSpan { start, content_end: end - usize::from(carriage), end: end + 1 }
            }
            None => LineSpan { start, content_end: self.text.len(), end: self.text.len() },
        };
        self.at = span.end;
        Some(span)
    }
}

/// Counts the lines of a text.
pub fn count_lines(text: &str) -> u64 {
    let mut scanner = LineScanner::default();
    scanner.feed(text.as_bytes());
    scanner.finish().total_lines()
}

/// Whether a file has all lines of an earlier version of it, in any order.
pub fn has_lines_of(now: &[u8], earlier: &[u8]) -> bool {
    let now: HashSet<&[u8]> = now.split(|byte| *byte == b'\n').collect();
    earlier.split(|byte| *byte == b'\n').all(|line| now.contains(line))
}

/// Returns the text without one final terminator.
pub fn without_final_terminator(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(body) => body.strip_suffix('\r').unwrap_or(body),
        None => text,
    }
}

/// The distance between two indexed line starts, in bytes, rounded up to the next line start.
pub const STRIDE: u64 = 64 * 1024;

/// A sparse index of the line starts of a file, with the number of its lines and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineIndex {
    total_lines: u64,
    size_bytes: u64,
    /// Pairs of a 0-based line and its byte offset, ascending. The first is `(0, 0)`.
    marks: Box<[(u64, u64)]>,
}

impl LineIndex {
    /// Returns the number of lines in the file.
    pub fn total_lines(&self) -> u64 {
        self.total_lines
    }

    /// Returns the size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the last indexed line start at or before the 0-based `line`: its 0-based line and
    /// its byte offset.
    pub fn nearest(&self, line: u64) -> (u64, u64) {
        let after = self.marks.partition_point(|(marked, _)| *marked <= line);
        after.checked_sub(1).and_then(|index| self.marks.get(index)).copied().unwrap_or((0, 0))
    }

    /// Returns the memory of the index in bytes.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + size_of_val::<[(u64, u64)]>(&self.marks)
    }
}

/// A builder of a [`LineIndex`] from a file that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct LineScanner {
    newlines: u64,
    bytes: u64,
    ends_open: bool,
    marks: Vec<(u64, u64)>,
}

impl LineScanner {
    /// Scans the next piece of the file.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut counted_to = 0;
        while let Some(rest) = piece.get(counted_to..) {
            // Jump to the first newline after which the next mark is due. Count the newlines before
            // it in bulk.
            let due = self.marks.last().map_or(0, |(_, byte)| byte + STRIDE);
            let here = self.bytes + counted_to as u64;
            let skip =
                usize::try_from(due.saturating_sub(here + 1)).unwrap_or(usize::MAX).min(rest.len());
            let (before, after) = rest.split_at_checked(skip).unwrap_or((rest, &[]));
            self.newlines += memchr::memchr_iter(b'\n', before).count() as u64;
            let Some(newline) = memchr::memchr(b'\n', after) else { break };
            self.newlines += 1;
            counted_to += skip + newline + 1;
            self.marks.push((self.newlines, self.bytes + counted_to as u64));
        }
        self.bytes += piece.len() as u64;
        if let Some(last) = piece.last() {
            self.ends_open = *last != b'\n';
        }
    }

    /// Returns the index of all pieces.
    pub fn finish(self) -> LineIndex {
        let mut marks = Vec::with_capacity(self.marks.len() + 1);
        marks.push((0, 0));
        marks.extend(self.marks.into_iter().filter(|(_, byte)| *byte < self.bytes));
        LineIndex {
            total_lines: self.newlines + u64::from(self.ends_open),
            size_bytes: self.bytes,
            marks: marks.into_boxed_slice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_final_terminator_does_not_begin_a_line() {
        for (text, lines) in
            [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n", 1), ("\r\n", 1), ("a\rb", 1)]
        {
            assert_eq!(count_lines(text), lines, "{text:?}");
        }
    }

    #[test]
    fn a_version_without_a_line_of_the_one_before_does_not_have_its_lines() {
        assert!(has_lines_of(b"b\na\nc", b"a\nb"));
        assert!(has_lines_of(b"a\n", b"") && has_lines_of(b"", b""));
        assert!(!has_lines_of(b"a\nc\n", b"a\nb\n") && !has_lines_of(b"", b"a"));
    }

    #[test]
    fn ranges_resolve_and_clip_to_the_file() {
        let lines = |start, end| Ok(ResolvedLines { start, end });
        for (range, total, expected) in [
            ((0, 0), 10, lines(1, 11)),
            ((1, 3), 10, lines(1, 3)),
            ((-2, 0), 10, lines(9, 11)),
            ((-1, 0), 10, lines(10, 11)),
            ((1, -1), 10, lines(1, 10)),
            ((-3, -1), 10, lines(8, 10)),
            ((5, 99), 10, lines(5, 11)),
            ((-99, 3), 10, lines(1, 3)),
            ((11, 0), 10, Err(EmptyRange)),
            ((11, 20), 10, Err(EmptyRange)),
            ((3, 3), 10, Err(EmptyRange)),
            ((5, 2), 10, Err(EmptyRange)),
            ((1, -10), 10, Err(EmptyRange)),
            ((0, -99), 10, Err(EmptyRange)),
            ((0, 0), 0, lines(1, 1)),
            ((1, 5), 0, lines(1, 1)),
            ((3, 0), 0, lines(1, 1)),
            ((5, 2), 0, Err(EmptyRange)),
            ((i64::MIN, i64::MAX), 10, lines(1, 11)),
            ((i64::MAX, i64::MIN), 10, Err(EmptyRange)),
        ] {
            assert_eq!(
                LineRange(range.0, range.1).resolve(total),
                expected,
                "{range:?} of {total}"
            );
        }
    }

    #[test]
    fn a_line_number_counts_from_either_end() {
        assert_eq!(resolve_line(1, 3), Some(0));
        assert_eq!(resolve_line(-1, 3), Some(2));
        assert_eq!(resolve_line(0, 3), None);
        assert_eq!(resolve_line(4, 3), None);
        assert_eq!(resolve_line(-4, 3), None);
        assert_eq!(resolve_line(i64::MIN, 3), None);
    }

    proptest! {
        #[test]
        fn a_resolved_range_equals_a_slice_of_a_list(
            start in -12i64..12, end in -12i64..12, total in 0u64..10
        ) {
            let lines: Vec<u64> = (1..=total).collect();
            let first = match start { 0 => 1, s if s < 0 => total as i64 + 1 + s, s => s };
            let last = match end { 0 => i64::MAX, e if e < 0 => total as i64 + 1 + e, e => e };
            let is_chosen = |line: &u64| (*line as i64) >= first && (*line as i64) < last;
            let chosen: Vec<u64> = lines.into_iter().filter(is_chosen).collect();
            match LineRange(start, end).resolve(total) {
                Ok(lines) => prop_assert_eq!((lines.start..lines.end).collect::<Vec<_>>(), chosen),
                Err(EmptyRange) => prop_assert!(chosen.is_empty() && (total > 0 || first > last)),
            }
        }

        #[test]
        fn spans_cover_the_text_and_agree_with_counting(text in "(a|\r|\n|\r\n|é){0,40}") {
            let all: Vec<LineSpan> = line_spans(&text, 0).collect();
            prop_assert_eq!(all.len() as u64, count_lines(&text));
            let mut at = 0;
            for span in &all {
                prop_assert_eq!(span.start, at);
                prop_assert!(!span.content(&text).contains('\n'));
                prop_assert!(matches!(span.terminator(&text), "\n" | "\r\n" | ""));
                at = span.end;
            }
            prop_assert_eq!(at, text.len());
        }

        #[test]
        fn the_index_finds_every_line_start(
            lengths in proptest::collection::vec(0usize..90_000, 0..8), cut in 1usize..70_000
        ) {
            let text: Vec<u8> = lengths.iter().flat_map(|length| {
                let mut line = vec![b'x'; *length];
                line.push(b'\n');
                line
            }).collect();
            let mut scanner = LineScanner::default();
            text.chunks(cut).for_each(|piece| scanner.feed(piece));
            let index = scanner.finish();
            prop_assert_eq!(index.total_lines(), lengths.len() as u64);
            let mut start = 0u64;
            for (line, length) in lengths.iter().enumerate() {
                let (marked, byte) = index.nearest(line as u64);
                prop_assert!(marked <= line as u64 && byte <= start);
                let between = memchr::memchr_iter(b'\n', &text[byte as usize..start as usize]);
                let between = between.count() as u64;
                prop_assert_eq!(between, line as u64 - marked);
                prop_assert!(start - byte < STRIDE + 90_001);
                start += *length as u64 + 1;
            }
        }
    }
}
