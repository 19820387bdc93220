//! Finding the first line that contains a text, by simple case folding, as the file streams past.
//!
//! Simple folding maps one scalar value to one, so positions stay positions and nothing is
//! buffered. The matcher is Knuth, Morris and Pratt over folded characters and starts anew on each
//! line.

/// A sequence that is looked for, and how much of it still matches when a match breaks off (Knuth,
/// Morris and Pratt): linear, whatever the pattern and the text repeat.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<T> {
    items: Vec<T>,
    failure: Vec<usize>,
}

impl<T: PartialEq> Pattern<T> {
    /// Prepares a sequence; one that is empty is never found.
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

    /// How many items match once `item` follows, where `matched` did before it. After a whole match
    /// it goes on with one that overlaps it.
    pub(crate) fn step(&self, mut matched: usize, item: &T) -> usize {
        loop {
            if self.items.get(matched) == Some(item) {
                return matched + 1;
            }
            let Some(last) = matched.checked_sub(1) else { return 0 };
            matched = self.failure.get(last).copied().unwrap_or(0);
        }
    }

    /// What is looked for.
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }
}

/// A query that is ready to be matched.
#[derive(Clone, Debug)]
pub struct LineQuery {
    folded: Pattern<char>,
}

/// The simple case folding of one scalar value (Unicode `CaseFolding.txt`, statuses C and S).
pub fn fold_case(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_lowercase();
    }
    unicode_case_mapping::case_folded(character)
        .and_then(|folded| char::from_u32(folded.get()))
        .unwrap_or(character)
}

impl LineQuery {
    /// Prepares a query; `None` where it is empty, holds a line break, or has more than `most`
    /// characters.
    pub fn new(text: &str, most: usize) -> Option<Self> {
        let folded: Vec<char> = text.chars().take(most + 1).map(fold_case).collect();
        if folded.is_empty() || folded.len() > most || folded.contains(&'\n') {
            return None;
        }
        Some(Self { folded: Pattern::new(folded) })
    }

    /// A matcher at the beginning of a line.
    pub fn matcher(&self) -> LineMatcher<'_> {
        LineMatcher { query: self, matched: 0, line: 0, line_start: 0, at: 0 }
    }
}

/// Where a matcher stands in a stream of text.
#[derive(Clone, Debug)]
pub struct LineMatcher<'q> {
    query: &'q LineQuery,
    matched: usize,
    line: u64,
    line_start: u64,
    at: u64,
}

/// The first line that contains the query, relative to where the matcher began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineMatch {
    /// Lines that were passed before it.
    pub line: u64,
    /// Bytes that were passed before its first.
    pub line_start: u64,
}

impl LineMatcher<'_> {
    /// Reads the next piece of text, which is whole characters.
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

    /// Lines passed so far.
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
    fn case_does_not_matter_and_lines_do() {
        assert_eq!(find("a\nb WATER c", "water"), Some(LineMatch { line: 1, line_start: 2 }));
        assert_eq!(find("STRASSE", "straße"), None);
        assert_eq!(find("ΑΣ", "ας"), Some(LineMatch { line: 0, line_start: 0 }));
        assert_eq!(find("ÉTÉ", "été"), Some(LineMatch { line: 0, line_start: 0 }));
        assert_eq!(find("wat\ner", "water"), None);
        assert_eq!(find("aab", "ab"), Some(LineMatch { line: 0, line_start: 0 }));
    }

    #[test]
    fn what_is_no_query_is_refused() {
        assert!(LineQuery::new("", 10).is_none());
        assert!(LineQuery::new("a\nb", 10).is_none());
        assert!(LineQuery::new("aaaa", 3).is_none());
        assert!(LineQuery::new("aaa", 3).is_some());
    }

    proptest! {
        #[test]
        fn pieces_find_what_a_scan_of_lines_finds(text in "(a|b|A|\n|é|É){0,30}", query in "(a|b|B|é){1,4}", cut in 0usize..30) {
            let folded = |text: &str| text.chars().map(fold_case).collect::<String>();
            let expected = text.split('\n').position(|line| folded(line).contains(&folded(&query)));
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let prepared = LineQuery::new(&query, 100).unwrap();
            let mut matcher = prepared.matcher();
            let found = matcher.feed(&text[..cut]).or_else(|| matcher.feed(&text[cut..]));
            prop_assert_eq!(found.map(|found| found.line as usize), expected);
            if let Some(found) = found {
                let start: usize = text.split('\n').take(found.line as usize).map(|line| line.len() + 1).sum();
                prop_assert_eq!(found.line_start as usize, start);
            }
        }
    }
}
