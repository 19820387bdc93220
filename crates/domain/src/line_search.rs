//! Finds the first line of a file that contains a text, ignoring case, while the file is read.
//!
//! Simple case folding maps one scalar value to one, so byte positions need no translation and no
//! buffer. The matcher runs the algorithm of Knuth, Morris and Pratt over folded characters and
//! starts anew on each line.

/// A sequence to search for, with its failure table (Knuth, Morris and Pratt). A search takes
/// linear time, whatever the sequence and the text repeat.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<T> {
    items: Vec<T>,
    failure: Vec<usize>,
}

impl<T: PartialEq> Pattern<T> {
    /// Prepares a sequence. An empty sequence never matches.
    pub(crate) fn new(items: Vec<T>) -> Self {
        let mut pattern = Self { failure: Vec::with_capacity(items.len()), items };
        let mut matched = 0;
        for at in 0..pattern.items.len() {
            if at > 0
                && let Some(item) = pattern.items.get(at)
            {
                matched = pattern.step(matched, item);
            }
            pattern.failure.push(matched);
        }
        pattern
    }

    /// Returns the number of matching items after `item`, where `matched` items matched before.
    /// After a complete match the search continues with an overlapping one.
    pub(crate) fn step(&self, mut matched: usize, item: &T) -> usize {
        loop {
            if self.items.get(matched) == Some(item) {
                return matched + 1;
            }
            let Some(last) = matched.checked_sub(1) else { return 0 };
            matched = self.failure.get(last).copied().unwrap_or(0);
        }
    }

    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }
}

/// A text to search for within one line, prepared for matching.
#[derive(Clone, Debug)]
pub struct LineQuery {
    folded: Pattern<char>,
}

/// Returns the simple case folding of a scalar value (Unicode `CaseFolding.txt`, statuses C and S).
pub fn fold_case(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_lowercase();
    }
    unicode_case_mapping::case_folded(character)
        .and_then(|folded| char::from_u32(folded.get()))
        .unwrap_or(character)
}

impl LineQuery {
    /// Prepares a query. Returns `None` for a text that is empty, holds a line break, or has more
    /// than `max_chars` scalar values.
    pub fn new(text: &str, max_chars: usize) -> Option<Self> {
        let folded: Vec<char> = text.chars().take(max_chars + 1).map(fold_case).collect();
        if folded.is_empty() || folded.len() > max_chars || folded.contains(&'\n') {
            return None;
        }
        Some(Self { folded: Pattern::new(folded) })
    }

    /// Returns a matcher that starts at the beginning of a line.
    pub fn matcher(&self) -> LineMatcher<'_> {
        LineMatcher { query: self, matched: 0, line: 0, line_start: 0, at: 0 }
    }
}

/// The state of a search in a stream of text.
#[derive(Clone, Debug)]
pub struct LineMatcher<'q> {
    query: &'q LineQuery,
    matched: usize,
    line: u64,
    line_start: u64,
    at: u64,
}

/// The first line that contains the query, relative to the start of the matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineMatch {
    /// The number of lines before the line.
    pub line: u64,
    /// The number of bytes before the first byte of the line.
    pub line_start: u64,
}

impl LineMatcher<'_> {
    /// Searches the next piece of text. Returns the first matching line, or `None` so far.
    pub fn feed(&mut self, piece: &str) -> Option<LineMatch> {
        for character in piece.chars() {
            self.at += character.len_utf8() as u64;
            if character == '\n' {
                self.matched = 0;
                self.line += 1;
                self.line_start = self.at;
                continue;
            }
            self.matched = self.query.folded.step(self.matched, &fold_case(character));
            if self.matched == self.query.folded.items().len() {
                return Some(LineMatch { line: self.line, line_start: self.line_start });
            }
        }
        None
    }

    /// Returns the number of line breaks passed so far.
    pub fn line(&self) -> u64 {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(text: &str, query: &str) -> Option<LineMatch> {
        LineQuery::new(query, 100).and_then(|query| query.matcher().feed(text))
    }

    #[test]
    fn a_match_ignores_case_and_stays_within_a_line() {
        assert_eq!(find("a\nb WATER c", "water"), Some(LineMatch { line: 1, line_start: 2 }));
        assert_eq!(find("STRASSE", "straße"), None);
        assert_eq!(find("ΑΣ", "ας"), Some(LineMatch { line: 0, line_start: 0 }));
        assert_eq!(find("ÉTÉ", "été"), Some(LineMatch { line: 0, line_start: 0 }));
        assert_eq!(find("wat\ner", "water"), None);
        assert_eq!(find("aab", "ab"), Some(LineMatch { line: 0, line_start: 0 }));
    }

    #[test]
    fn an_empty_long_or_multiline_query_is_refused() {
        assert!(LineQuery::new("", 10).is_none());
        assert!(LineQuery::new("a\nb", 10).is_none());
        assert!(LineQuery::new("aaaa", 3).is_none());
        assert!(LineQuery::new("aaa", 3).is_some());
    }

    proptest! {
        #[test]
        fn a_search_in_pieces_agrees_with_a_scan_of_lines(
            text in "(a|b|A|\n|é|É){0,30}", query in "(a|b|B|é){1,4}", cut in 0usize..30
        ) {
            let folded = |text: &str| text.chars().map(fold_case).collect::<String>();
            let expected = text.split('\n').position(|line| folded(line).contains(&folded(&query)));
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let prepared = LineQuery::new(&query, 100).unwrap();
            let mut matcher = prepared.matcher();
            let found = matcher.feed(&text[..cut]).or_else(|| matcher.feed(&text[cut..]));
            prop_assert_eq!(found.map(|found| found.line as usize), expected);
            if let Some(found) = found {
                let before = text.split('\n').take(found.line as usize);
                let start: usize = before.map(|line| line.len() + 1).sum();
                prop_assert_eq!(found.line_start as usize, start);
            }
        }
    }
}
