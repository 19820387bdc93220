//! Finding the first occurrence of a text in another text that comes in pieces, ignoring case.
//!
//! Simple case folding maps one scalar value to one, so positions refer to the original text;
//! nothing is normalized. A filter over bytes (`anchor`) names the few positions where a match is
//! possible, and each is then compared. A text that defeats the filter is read by the algorithm of
//! Knuth, Morris and Pratt instead, so the time is always linear. Between pieces a finder keeps one
//! number: how much of the needle the last piece ended with. Its memory is that of the needle and
//! one piece, and a match may span any number of pieces.

mod anchor;

use self::anchor::Anchor;
use super::pieces::CharRange;
use crate::line_search::{Pattern, fold_case};

/// The longest needle, in Unicode scalar values.
pub const MAX_NEEDLE_SCALARS: usize = 1024;

/// A text to search for. Line breaks and U+0000 are ordinary characters.
#[derive(Clone, Debug)]
pub struct Needle {
    folded: Pattern<char>,
    anchor: Anchor,
}

impl Needle {
    /// Prepares a text; returns `None` if the text is empty or longer than [`MAX_NEEDLE_SCALARS`].
    pub fn new(text: &str) -> Option<Self> {
        let folded: Vec<char> = text.chars().take(MAX_NEEDLE_SCALARS + 1).map(fold_case).collect();
        if folded.is_empty() || folded.len() > MAX_NEEDLE_SCALARS {
            return None;
        }
        let anchor = Anchor::choose(&folded);
        Some(Self { folded: Pattern::new(folded), anchor })
    }

    /// Returns the length of the needle, and so of every match, in Unicode scalar values.
    fn scalars(&self) -> usize {
        self.folded.items().len()
    }
}

/// A search for a needle in consecutive pieces, up to the first match.
#[derive(Clone, Debug)]
pub struct NeedleFinder<'n> {
    needle: &'n Needle,
    /// The scalar values of the pieces so far.
    passed: u64,
    /// How many of the needle's scalar values end those pieces.
    matched: usize,
}

/// The result of the filter and the comparisons for one piece.
enum ScanResult {
    /// A match begins at this byte.
    Match(usize),
    Nothing,
    /// Too many comparisons failed for the filter to be of use.
    InVain,
}

/// The result of a comparison at one position.
enum Comparison {
    Match(usize),
    Differs,
    /// The piece ended first, so no match that begins here or later ends in the piece.
    Unfinished,
}

impl<'n> NeedleFinder<'n> {
    /// Begins a search before the first piece.
    pub fn new(needle: &'n Needle) -> Self {
        Self { needle, passed: 0, matched: 0 }
    }

    /// Reads the next piece. Returns the leftmost match as soon as a match ends in the piece.
    ///
    /// After a match the search is over, and further pieces have no meaning.
    pub fn feed(&mut self, piece: &str) -> Option<CharRange> {
        let found = self.find(piece);
        if found.is_none() {
            self.passed += piece.chars().count() as u64;
        }
        found
    }

    fn find(&mut self, piece: &str) -> Option<CharRange> {
        match self.finish(piece) {
            Ok(()) => {}
            Err(found) => return found,
        }
        match self.scan(piece) {
            ScanResult::Match(start) => {
                let before = piece.get(..start).map_or(0, |before| before.chars().count());
                Some(self.found_at(self.passed + before as u64))
            }
            ScanResult::Nothing => {
                let from = self.needle.scalars().checked_sub(2);
                let tail =
                    from.map(|nth| piece.char_indices().rev().nth(nth).map_or(0, |(at, _)| at));
                self.read(tail.and_then(|at| piece.get(at..)).unwrap_or_default());
                None
            }
            ScanResult::InVain => {
                let end = self.read(piece)?;
                Some(self.found_at(self.passed + end - self.needle.scalars() as u64))
            }
        }
    }

    fn found_at(&self, start: u64) -> CharRange {
        CharRange { start, end: start + self.needle.scalars() as u64 }
    }

    /// Continues a match that earlier pieces began, until the match is found or can only begin in
    /// this piece. An error holds the result for the whole piece if that is known now.
    fn finish(&mut self, piece: &str) -> Result<(), Option<CharRange>> {
        for (character, read) in piece.chars().zip(0..) {
            if self.matched <= read {
                return Ok(());
            }
            self.matched = self.needle.folded.step(self.matched, &fold_case(character));
            if self.matched == self.needle.scalars() {
                let end = self.passed + read as u64 + 1;
                return Err(Some(self.found_at(end - self.needle.scalars() as u64)));
            }
        }
        Err(None)
    }

    /// Reads a text as if nothing preceded it. Returns how many characters were read when a match
    /// ended.
    fn read(&mut self, text: &str) -> Option<u64> {
        self.matched = 0;
        for (character, read) in text.chars().zip(1..) {
            self.matched = self.needle.folded.step(self.matched, &fold_case(character));
            if self.matched == self.needle.scalars() {
                return Some(read);
            }
        }
        None
    }

    fn scan(&self, piece: &str) -> ScanResult {
        // Two comparisons for each byte cost about as much as reading the piece once more.
        let mut left = piece.len().saturating_mul(2).saturating_add(self.needle.scalars());
        let mut from = 0;
        while let Some(at) = self.needle.anchor.next(piece.as_bytes(), from) {
            match self.compare(piece, at, &mut left) {
                Comparison::Match(start) => return ScanResult::Match(start),
                Comparison::Unfinished => return ScanResult::Nothing,
                Comparison::Differs if left == 0 => return ScanResult::InVain,
                Comparison::Differs => from = at + 1,
            }
        }
        ScanResult::Nothing
    }

    /// Compares the needle with the text around `at`, the last byte of the anchor: back to the
    /// needle's beginning, then on to its end.
    fn compare(&self, piece: &str, at: usize, left: &mut usize) -> Comparison {
        let Some((before, after)) = piece.split_at_checked(at + 1) else {
            return Comparison::Differs;
        };
        let needle = self.needle.folded.items();
        let Some((first, last)) = needle.split_at_checked(self.needle.anchor.scalar() + 1) else {
            return Comparison::Differs;
        };
        let mut start = before.len();
        let mut back = before.char_indices().rev();
        for wanted in first.iter().rev() {
            *left = left.saturating_sub(1);
            match back.next() {
                Some((at, character)) if fold_case(character) == *wanted => start = at,
                _ => return Comparison::Differs,
            }
        }
        let mut on = after.chars();
        for wanted in last {
            *left = left.saturating_sub(1);
            match on.next() {
                Some(character) if fold_case(character) == *wanted => {}
                Some(_) => return Comparison::Differs,
                None => return Comparison::Unfinished,
            }
        }
        Comparison::Match(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow reference: folds everything and tries every position.
    fn naive(text: &str, needle: &str) -> Option<CharRange> {
        let text: Vec<char> = text.chars().map(fold_case).collect();
        let needle: Vec<char> = needle.chars().map(fold_case).collect();
        let start = text.windows(needle.len()).position(|window| window == needle)? as u64;
        Some(CharRange { start, end: start + needle.len() as u64 })
    }

    fn find(pieces: &[&str], needle: &str) -> Option<CharRange> {
        let needle = Needle::new(needle).unwrap();
        let mut finder = NeedleFinder::new(&needle);
        pieces.iter().find_map(|piece| finder.feed(piece))
    }

    fn at(start: u64, end: u64) -> Option<CharRange> {
        Some(CharRange { start, end })
    }

    #[test]
    fn positions_count_scalar_values_of_the_original_text() {
        assert_eq!(find(&["é🙂 Water"], "WATER"), at(3, 8));
        assert_eq!(find(&["日本", "語の", "文"], "語の文"), at(2, 5));
        assert_eq!(find(&["a\0b\nc"], "B\nC"), at(2, 5));
        assert_eq!(find(&["\0"], "\0"), at(0, 1));
        // No normalization: the accent is a character of its own.
        assert_eq!(find(&["cafe\u{301}"], "café"), None);
    }

    #[test]
    fn a_match_may_differ_from_the_needle_in_encoded_length() {
        assert_eq!(find(&["300 \u{212a} mi\u{17f}s"], "k MISS"), at(4, 10));
        assert_eq!(find(&["GRO\u{1e9e}E"], "große"), at(0, 5));
        assert_eq!(find(&["große"], "GROSSE"), None);
        assert_eq!(find(&["ΟΔΟΣ"], "οδος"), at(0, 4));
        assert_eq!(find(&["\u{130}"], "i"), None);
        assert_eq!(find(&["x\u{1fbe}\u{345}"], "Ιι"), at(1, 3));
    }

    #[test]
    fn the_leftmost_match_is_found_across_pieces() {
        assert_eq!(find(&["xa", "b", "", "a", "bc"], "ABABC"), at(1, 6));
        assert_eq!(find(&["aa", "ab"], "aab"), at(1, 4));
        assert_eq!(find(&["ab ab", "ab"], "ab"), at(0, 2));
        assert_eq!(find(&[], "ab"), None);
    }

    #[test]
    fn a_needle_has_one_to_1024_scalar_values() {
        assert!(Needle::new("").is_none());
        assert_eq!(Needle::new(&"語".repeat(1024)).unwrap().scalars(), 1024);
        assert!(Needle::new(&"a".repeat(1025)).is_none());
    }

    #[test]
    fn a_text_that_defeats_the_filter_is_read_in_linear_time() {
        let text = "a".repeat(400_000);
        for needle in ["a".repeat(500) + "b", "b".to_owned() + &"a".repeat(500), "ab".repeat(400)] {
            assert_eq!(find(&[&text, &text], &needle), None);
        }
        let text = "aab".repeat(100_000);
        let needle = "baa".repeat(300) + "bab";
        assert_eq!(
            find(&[&text, "ab", &text], &needle),
            naive(&format!("{text}ab{text}"), &needle)
        );
    }

    fn alphabet() -> impl Strategy<Value = String> {
        let few =
            "[abABkK\u{212a}sS\u{17f}ßẞİiıéÉe\u{301}σςΣ語言🙂👍\u{0}\n\u{345}ιΙ\u{1fbe}жЖ]{0,60}";
        prop_oneof![few, "[abA]{0,200}", "\\PC{0,80}", "(語|言|語言){0,80}"]
    }

    fn pieces<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
        let floor = |cut: &usize| {
            (0..=cut % (text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap()
        };
        let mut cuts: Vec<usize> = cuts.iter().map(floor).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn any_split_into_pieces_gives_the_match_of_a_naive_search(
            before in alphabet(),
            needle in alphabet(),
            after in alphabet(),
            is_there: bool,
            (from, length) in (0usize..60, 1usize..40),
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            let inserted = if is_there { needle.as_str() } else { "" };
            let text = format!("{before}{inserted}{after}");
            // Part of the needle, sometimes in upper case.
            let needle: String = needle.chars().skip(from % 30).take(length).collect();
            let needle = if from % 2 == 0 { needle.to_uppercase() } else { needle };
            prop_assume!(!needle.is_empty());
            prop_assert_eq!(find(&pieces(&text, &cuts), &needle), naive(&text, &needle));
        }

        #[test]
        fn a_long_repetitive_text_is_searched_correctly(
            unit in "[ab語é]{1,6}",
            times in 1usize..400,
            needle in "[ab語É]{1,9}",
            times_needle in 1usize..20,
            cuts in prop::collection::vec(any::<usize>(), 0..4),
        ) {
            let (text, needle) = (unit.repeat(times), needle.repeat(times_needle));
            prop_assert_eq!(find(&pieces(&text, &cuts), &needle), naive(&text, &needle));
        }
    }
}
