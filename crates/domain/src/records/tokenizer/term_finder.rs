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
            find(&query.terms[0], text).map(|range| (range.start, range.end))
        };
        assert_eq!(found("ferns", "Water the Ferns, the ferns!"), Some((10, 15)));
        assert_eq!(found("\"the ferns\"", "the moss, the – ferns"), Some((10, 21)));
        assert_eq!(found("\"a a b\"", "a a a b"), Some((2, 7)));
        assert_eq!(found("fer*", "é ÉTÉ FÉRNS"), Some((6, 11)));
        assert_eq!(found("moss", "mosses"), None);
    }

    proptest! {
        #[test]
        fn a_term_is_found_exactly_if_it_matches(
            text in "([ab]{1,2}|[ .]|語|É){0,30}",
            words in "(\"?([ab]{1,2}|語)\\*?( |\"| ){0,1}){1,4}",
        ) {
            let cut = |text: &str| -> Vec<String> {
                tokens(text).map(|token| token.text.into_owned()).collect()
            };
            for term in ParsedQuery::parse(&words).terms {
                let alone = ParsedQuery { terms: vec![term.clone()], left_out: 0 };
                let range = find(&term, &text);
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
