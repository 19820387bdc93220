//! How similar a word is to one that is nowhere: a slip of the finger, or a compound with the same
//! parts.

use super::word_shape::{LONGEST, SHORTEST_PART, WordShape, signature, sorted_trigrams};
use crate::find::near_names::{Extent, changed_letters};

/// The fewest characters of a word for which one edit is tried.
const ONE_EDIT: usize = 4;
/// The fewest characters of a word for which two edits are tried.
const TWO_EDITS: usize = 8;
/// How similar a word is after one edit, in percent.
const AFTER_ONE: u8 = 95;
/// How similar a word is after two edits, in percent.
const AFTER_TWO: u8 = 85;
/// How similar a word is at most that shares trigrams alone, in percent.
const BY_TRIGRAMS: f64 = 80.0;
/// The least share of trigrams that counts.
const LEAST_SHARE: f64 = 0.5;

/// A word for which similar ones are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SoughtWord {
    letters: Vec<char>,
    /// The groups of three letters, each once and sorted.
    trigrams: Vec<[char; 3]>,
    shape: WordShape,
}

impl SoughtWord {
    /// Prepares a word without accents; `None` for one that is too short or too long.
    pub(super) fn new(word: &str) -> Option<Self> {
        let letters: Vec<char> = word.chars().collect();
        let is_compared = (ONE_EDIT..=LONGEST).contains(&letters.len());
        let is_number = letters.iter().all(char::is_ascii_digit);
        (is_compared && !is_number).then(|| Self {
            trigrams: sorted_trigrams(&letters),
            shape: WordShape::of(word),
            letters,
        })
    }

    /// How many letters of a similar word may differ.
    fn edits(&self) -> u8 {
        if self.letters.len() < TWO_EDITS { 1 } else { 2 }
    }

    /// Whether a word of this shape may be similar. Every word with a similarity has such a shape.
    pub(super) fn may_be_similar(&self, shape: &WordShape) -> bool {
        shape.may_be_similar(&self.shape, self.edits())
    }

    /// Returns how similar a word without accents is, in percent; `None` if it is not.
    pub(super) fn similarity(&self, word: &str) -> Option<u8> {
        let bytes = word.len();
        if !(SHORTEST_PART..=4 * LONGEST).contains(&bytes) {
            return None;
        }
        let letters: Vec<char> = word.chars().collect();
        let is_number = letters.iter().any(char::is_ascii_digit);
        if is_number || !(SHORTEST_PART..=LONGEST).contains(&letters.len()) {
            return None;
        }
        let differing = (signature(&letters) ^ self.shape.signature).count_ones() as usize;
        let most = usize::from(self.edits());
        if differing <= 2 * most {
            let changed = if is_swapped(&self.letters, &letters) {
                Some(1)
            } else {
                changed_letters(&self.letters, &letters, most, Extent::Whole)
            };
            if let Some(changed) = changed {
                return Some(if changed <= 1 { AFTER_ONE } else { AFTER_TWO });
            }
        }
        self.by_trigrams(&letters)
    }

    fn by_trigrams(&self, letters: &[char]) -> Option<u8> {
        let shorter = letters.len().min(self.letters.len());
        let others = sorted_trigrams(letters);
        let is_shared = |group: &&[char; 3]| self.trigrams.binary_search(group).is_ok();
        let shared = others.iter().filter(is_shared).count() as f64;
        let all = (others.len() + self.trigrams.len()) as f64;
        let mut share = 2.0 * shared / all;
        // A part of a compound, such as the `rinne` of `dachrinne`.
        let (long, short) = if shorter == letters.len() {
            (&*self.letters, letters)
        } else {
            (letters, &*self.letters)
        };
        let is_part = long.starts_with(short) || long.ends_with(short);
        if is_part && shorter >= SHORTEST_PART {
            share = share.max(LEAST_SHARE);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 80")]
        #[expect(clippy::cast_sign_loss, reason = "a share is positive")]
        let percent = (share * BY_TRIGRAMS) as u8;
        (share >= LEAST_SHARE).then_some(percent)
    }
}

/// Whether two neighbours of one word stand the other way round in the other.
fn is_swapped(one: &[char], other: &[char]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut differing = one.iter().zip(other).enumerate().filter(|(_, (a, b))| a != b);
    match (differing.next(), differing.next(), differing.next()) {
        (Some((at, (a, b))), Some((next, (c, d))), None) => at + 1 == next && a == d && b == c,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(sought: &str, word: &str) -> Option<u8> {
        SoughtWord::new(sought).unwrap().similarity(word)
    }

    #[test]
    fn a_slip_of_the_finger_is_very_similar() {
        assert_eq!(similarity("garden", "gadren"), Some(AFTER_ONE));
        assert_eq!(similarity("garden", "garen"), Some(AFTER_ONE));
        assert_eq!(similarity("kubernets", "kubernetes"), Some(AFTER_ONE));
        assert_eq!(similarity("kubrnets", "kubernetes"), Some(AFTER_TWO));
        assert_eq!(similarity("garden", "window"), None);
        assert_eq!(similarity("plan", "plum"), None);
    }

    #[test]
    fn a_compound_is_similar_to_its_parts() {
        for (sought, word) in
            [("dachrinne", "rinne"), ("rinne", "dachrinne"), ("kaffeebohnen", "bohnenkaffee")]
        {
            let similarity = similarity(sought, word);
            assert!(similarity.is_some_and(|percent| percent < AFTER_TWO), "{sought} {word}");
        }
    }

    #[test]
    fn numbers_and_short_words_are_similar_to_nothing() {
        assert_eq!(SoughtWord::new("2024"), None);
        assert_eq!(SoughtWord::new("cat"), None);
        assert_eq!(similarity("abc1", "abc2"), None);
    }
}
