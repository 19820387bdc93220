//! The words of a table that are words of a question, found once for all files.
//!
//! The shapes of the words are compared first, so a table of 100,000 words takes milliseconds. What
//! is found of a file depends on its own words alone, and not on the other words of the table.

use std::collections::HashMap;

use super::packed_words::{PackedWords, WordTable};
use super::question::{RecallQuestion, TermRule, WordMatch};
use super::word_shape::WordShape;
use super::words::spellings;
use crate::records::tokenizer::{SearchTerm, find};

/// The words of phrases that are looked for among the words of files. Of further ones only the text
/// tells.
const MOST_TERM_WORDS: usize = 64;

/// What the words of a file tell about the phrases of a question and what must not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermVerdict {
    /// All phrases occur, and nothing that must not.
    Fits,
    /// A phrase is missing, or something occurs that must not.
    Unfit,
    /// Only the text tells.
    NeedsText,
}

/// The words of a table that a question has.
pub struct TableMatches<'q> {
    pub(super) question: &'q RecallQuestion,
    shapes_seen: usize,
    /// The words that are one of the question, by number.
    any: BitSet,
    /// The words that are one of the question that is not light.
    heavy: BitSet,
    matches: HashMap<u32, Box<[WordMatch]>>,
    terms: Vec<Term<'q>>,
    term_words: Vec<(String, WordShape)>,
    /// Which of `term_words` a word of the table is.
    of_terms: HashMap<u32, u64>,
}

struct Term<'q> {
    term: &'q SearchTerm,
    rule: TermRule,
    /// The words of [`TableMatches::term_words`] that a text with the term has.
    needed: u64,
}

#[derive(Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn insert(&mut self, number: u32) {
        let at = number as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(at) {
            *bits |= 1 << (number % 64);
        }
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|bits| bits & 1 << (number % 64) != 0)
    }
}

impl<'q> TableMatches<'q> {
    /// Begins with a question and no words.
    pub fn new(question: &'q RecallQuestion) -> Self {
        let mut matches = Self {
            question,
            shapes_seen: 0,
            any: BitSet::default(),
            heavy: BitSet::default(),
            matches: HashMap::new(),
            terms: Vec::new(),
            term_words: Vec::new(),
            of_terms: HashMap::new(),
        };
        for (term, rule) in question.terms() {
            let needed = words_of(term).iter().fold(0, |all, word| all | matches.term_word(word));
            matches.terms.push(Term { term, rule, needed });
        }
        matches
    }

    /// Returns the bit of a word of a term; 0 for a word that only the text tells. A word in ASCII
    /// is spelled so in each text that has it.
    fn term_word(&mut self, word: &str) -> u64 {
        let known = self.term_words.iter().position(|(known, _)| known == word);
        let at = known.unwrap_or(self.term_words.len());
        if !word.is_ascii() || at >= MOST_TERM_WORDS {
            return 0;
        }
        if known.is_none() {
            self.term_words.push((word.to_owned(), WordShape::of(word)));
        }
        1 << at
    }

    /// Looks at the words that a table has got since the last time. It is always the same table.
    pub fn learn(&mut self, table: &WordTable) {
        let question = self.question;
        let new = table.shapes_from(self.shapes_seen);
        self.shapes_seen += new.len();
        for (number, shape) in new {
            for (bit, (word, of_word)) in self.term_words.iter().enumerate() {
                if of_word.may_be(shape) && spellings(table.word(*number)).contains(word) {
                    *self.of_terms.entry(*number).or_default() |= 1 << bit;
                }
            }
            if !question.may_have(shape) {
                continue;
            }
            let matches = question.matches(table.word(*number));
            if matches.is_empty() {
                continue;
            }
            self.any.insert(*number);
            if matches.iter().any(|found| question.is_heavy(found.word)) {
                self.heavy.insert(*number);
            }
            self.matches.insert(*number, matches.into());
        }
    }

    /// Returns what the words of a file tell about phrases and what must not occur. `name` is the
    /// name of the file.
    pub fn verdict(&self, file: &PackedWords, name: &str) -> TermVerdict {
        let words = file.numbers().iter().filter_map(|number| self.of_terms.get(number));
        let present = words.fold(0, |all, word| all | word);
        let mut verdict = TermVerdict::Fits;
        for Term { term, rule, needed } in &self.terms {
            let may_occur = present & needed == *needed;
            match (rule, find(term, name).is_some()) {
                (TermRule::MustOccur, true) => {}
                (TermRule::MustNotOccur, true) => return TermVerdict::Unfit,
                (TermRule::MustOccur, false) if !may_occur => return TermVerdict::Unfit,
                _ if may_occur => verdict = TermVerdict::NeedsText,
                _ => {}
            }
        }
        verdict
    }

    /// Whether a file has a word of the question that is not light.
    pub(super) fn has_heavy(&self, file: &PackedWords) -> bool {
        file.numbers().iter().any(|number| self.heavy.has(*number))
    }

    /// Returns the words of the question that a word of the table is.
    pub(super) fn of_word(&self, number: u32) -> &[WordMatch] {
        if !self.any.has(number) {
            return &[];
        }
        self.matches.get(&number).map(|matches| &**matches).unwrap_or_default()
    }
}

/// Returns the words that a text with the term has. A question has no prefixes, and the words that
/// begin with one would not be known.
fn words_of(term: &SearchTerm) -> &[String] {
    match term {
        SearchTerm::Word(word) => std::slice::from_ref(word),
        SearchTerm::Prefix(_) => &[],
        SearchTerm::Phrase(words) => words,
    }
}
