//! Finds the first occurrence of a search term in a text.

use std::collections::VecDeque;

use super::parsed_query::SearchTerm;
use super::token_iterator::{SearchToken, tokens};
use crate::records::pieces::CharRange;

/// A search for the first occurrence of a term among tokens that come in order.
#[derive(Debug)]
pub struct TermFinder<'q> {
    term: &'q SearchTerm,
    /// The position from which on the occurrence may begin.
    from: u64,
    /// The last tokens, as many as the phrase has, with their positions.
    last: VecDeque<(String, u64)>,
}

impl<'q> TermFinder<'q> {
    /// Begins a search for an occurrence at or after a position, in scalar values.
    pub fn new(term: &'q SearchTerm, from: u64) -> Self {
        Self { term, from, last: VecDeque::new() }
    }

    /// Reads the next token. Returns the range of the term if the term ends with this token.
    pub fn feed(&mut self, token: &SearchToken<'_>) -> Option<CharRange> {
        if token.start < self.from {
            return None;
        }
        let one = CharRange { start: token.start, end: token.end };
        match self.term {
            SearchTerm::Word(word) => (token.text == *word).then_some(one),
            SearchTerm::Prefix(prefix) => token.text.starts_with(prefix.as_str()).then_some(one),
            SearchTerm::Phrase(phrase) => {
                self.last.push_back((token.text.to_string(), token.start));
                if self.last.len() > phrase.len() {
                    self.last.pop_front();
                }
                let is_it = self.last.iter().map(|(text, _)| text).eq(phrase);
                let start = self.last.front().filter(|_| is_it).map(|(_, start)| *start);
                start.map(|start| CharRange { start, end: token.end })
            }
        }
    }
}

/// Returns the first occurrence of a term in a text.
pub fn find(term: &SearchTerm, text: &str) -> Option<CharRange> {
    let mut finder = TermFinder::new(term, 0);
    tokens(text).find_map(|token| finder.feed(&token))
}

/// A place of a text in which terms stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermPlace {
    /// The first term of the place.
    pub range: CharRange,
    /// The number of different terms.
    pub terms: usize,
}

/// Finds the place that holds the most terms, the first of those, among tokens that come in order.
#[derive(Debug)]
pub struct PlaceFinder<'q> {
    finders: Vec<TermFinder<'q>>,
    span: u64,
    /// The occurrences within the span before the last token, each with the index of its term.
    near: VecDeque<(CharRange, usize)>,
    /// How often each term is among them.
    counts: Vec<usize>,
    best: Option<TermPlace>,
}

impl<'q> PlaceFinder<'q> {
    /// Begins a search for a place of at most `span` scalar values, at or after a position.
    pub fn new(terms: &[&'q SearchTerm], span: u64, from: u64) -> Self {
        let finders: Vec<_> = terms.iter().map(|&term| TermFinder::new(term, from)).collect();
        let counts = vec![0; finders.len()];
        Self { finders, span, near: VecDeque::new(), counts, best: None }
    }

    /// Reads the next token. Returns whether the place found holds all terms.
    pub fn feed(&mut self, token: &SearchToken<'_>) -> bool {
        let Self { finders, span, near, counts, best } = self;
        for (term, finder) in finders.iter_mut().enumerate() {
            let Some(range) = finder.feed(token) else { continue };
            near.push_back((range, term));
            if let Some(count) = counts.get_mut(term) {
                *count += 1;
            }
        }
        let is_near = |range: &CharRange| range.start.saturating_add(*span) >= token.end;
        // A phrase begins before a word in it that was found first.
        near.retain(|(range, term)| {
            let stays = is_near(range);
            if let Some(count) = counts.get_mut(*term).filter(|_| !stays) {
                *count -= 1;
            }
            stays
        });
        let terms = counts.iter().filter(|count| **count > 0).count();
        if let Some((range, _)) = near.front()
            && best.is_none_or(|best| best.terms < terms)
        {
            *best = Some(TermPlace { range: *range, terms });
        }
        terms == counts.len()
    }

    /// Returns the best place so far.
    pub fn best(&self) -> Option<TermPlace> {
        self.best
    }
}

/// Returns the place of a text that holds the most terms within `span` scalar values.
pub fn best_place(terms: &[&SearchTerm], text: &str, span: u64) -> Option<TermPlace> {
    let mut finder = PlaceFinder::new(terms, span, 0);
    let _ = tokens(text).any(|token| finder.feed(&token));
    finder.best()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::records::pieces;

    use super::super::parsed_query::{ParsedQuery, matches};
    use super::*;

    #[test]
    fn the_first_occurrence_is_found() {
        let found = |query: &str, text: &str| {
            let query = ParsedQuery::parse(query);
            find(&query.terms[0].term, text).map(|range| (range.start, range.end))
        };
        assert_eq!(found("ferns", "Water the Ferns, the ferns!"), Some((10, 15)));
        assert_eq!(found("\"the ferns\"", "the moss, the – ferns"), Some((10, 21)));
        assert_eq!(found("\"a a b\"", "a a a b"), Some((2, 7)));
        assert_eq!(found("fer*", "é ÉTÉ FÉRNS"), Some((6, 11)));
        assert_eq!(found("moss", "mosses"), None);
    }

    #[test]
    fn the_best_place_holds_the_most_terms_and_is_the_first_of_those() {
        let best = |query: &str, text: &str, span: u64| {
            let query = ParsedQuery::parse(query);
            let terms: Vec<_> = query.terms.iter().map(|term| &term.term).collect();
            let place = best_place(&terms, text, span)?;
            Some((place.range.start, place.range.end, place.terms))
        };
        let text = "ferns. A long while later: water the ferns, and later the moss and ferns";
        assert_eq!(best("ferns water", text, 20), Some((27, 32, 2)));
        assert_eq!(best("ferns water moss", text, 10), Some((0, 5, 1)));
        assert_eq!(best("ferns moss", text, 20), Some((58, 62, 2)));
        assert_eq!(best("\"the ferns\" wat*", text, 20), Some((27, 32, 2)));
        assert_eq!(best("heron", text, 20), None);
    }

    proptest! {
        #[test]
        fn no_place_holds_more_terms_than_the_best(
            text in "([abc]{1,2}|[ .]|語){0,40}",
            words in "(([abc]{1,2}\\*?|\"[abc] [abc]{1,2}( [abc])?\") ?){1,4}",
            span in 1u64..30,
        ) {
            let query = ParsedQuery::parse(&words);
            let terms: Vec<_> = query.terms.iter().map(|term| &term.term).collect();
            let best = best_place(&terms, &text, span);
            let chars: Vec<char> = text.chars().collect();
            // A place is counted from its first term to the end of the last.
            let mut most = 0;
            for token in tokens(&text) {
                let end = token.start + span;
                let inside = tokens(&text).filter(|other| {
                    other.start >= token.start && other.end <= end.min(chars.len() as u64)
                });
                let inside: Vec<_> = inside.collect();
                let held = terms.iter().filter(|term| {
                    let mut finder = TermFinder::new(term, 0);
                    inside.iter().any(|token| finder.feed(token).is_some())
                });
                most = most.max(held.count());
            }
            prop_assert_eq!(best.map_or(0, |best| best.terms), most);
        }
        #[test]
        fn a_term_is_found_exactly_if_it_matches(
            text in "([ab]{1,2}|[ .]|語|É){0,30}",
            words in "(\"?([ab]{1,2}|語)\\*?( |\"| ){0,1}){1,4}",
        ) {
            let cut = |text: &str| -> Vec<String> {
                tokens(text).map(|token| token.text.into_owned()).collect()
            };
            for term in ParsedQuery::parse(&words).terms {
                let alone = ParsedQuery { terms: vec![term.clone()], ..ParsedQuery::default() };
                let range = find(&term.term, &text);
                prop_assert_eq!(range.is_some(), matches(&[&text], &alone));
                if let Some(range) = range {
                    let at = pieces::slice(&text, range.start, range.end);
                    prop_assert!(matches(&[at], &alone), "{:?} at {:?}", term, range);
                    let before = pieces::slice(&text, 0, range.end - 1);
                    if cut(&text)[..cut(before).len()] == cut(before)[..] {
                        prop_assert!(!matches(&[before], &alone));
                    }
                }
            }
        }
    }
}
