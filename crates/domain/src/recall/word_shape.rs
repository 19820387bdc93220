//! What is quickly compared of a word. Most words of a space are none of a question, and their
//! shapes show it without a look at their letters.

use crate::records::tokenizer::is_unspaced;

/// The longest word for which similar ones are looked for, in characters.
pub(super) const LONGEST: usize = 40;
/// The fewest characters of a part of a compound, and of a word that is similar to another.
pub(super) const SHORTEST_PART: usize = 4;

/// The shape of one spelling of a word. Equal spellings have equal shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordShape {
    /// A bit for each letter.
    pub(super) signature: u64,
    /// A bit for each group of three letters; two groups may share one.
    pub(super) trigrams: u64,
    hash: u32,
    /// The first three letters, ten bits of each.
    begin: u32,
    /// The last three letters.
    end: u32,
    pub(super) letters: u8,
    /// How many different groups of three letters there are.
    pub(super) trigram_count: u8,
    has_digit: bool,
    pub(super) is_unspaced: bool,
}

/// The letters of which [`WordShape::begins_as`] compares three, and of shorter words two.
const LONG: u8 = 5;

impl WordShape {
    /// Returns the shape of a spelling, which has no accents.
    pub(super) fn of(spelling: &str) -> Self {
        let letters: Vec<char> = spelling.chars().collect();
        let groups = sorted_trigrams(&letters);
        let bit = |group: &[char; 3]| 1u64 << (packed(group.iter()) % 61);
        let count = |length: usize| u8::try_from(length).unwrap_or(u8::MAX);
        Self {
            signature: signature(&letters),
            trigrams: groups.iter().fold(0, |bits, group| bits | bit(group)),
            hash: hash(spelling),
            begin: packed(letters.iter().take(3)),
            end: packed(letters.iter().rev().take(3)),
            letters: count(letters.len()),
            trigram_count: count(groups.len()),
            has_digit: letters.iter().any(char::is_ascii_digit),
            is_unspaced: letters.iter().any(|letter| is_unspaced(*letter)),
        }
    }

    /// Whether two spellings may be the same.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    /// Whether two spellings begin with the same letters: three of long words, two of others.
    /// Stemmers change the ends of words.
    pub(super) fn begins_as(&self, other: &Self) -> bool {
        let differing = self.begin ^ other.begin;
        let is_long = self.letters.min(other.letters) >= LONG;
        if is_long { differing == 0 } else { differing & 0x000f_ffff == 0 }
    }

    /// Whether a word may be similar to one that is sought, in which `edits` letters may differ.
    pub(super) fn may_be_similar(&self, sought: &Self, edits: u8) -> bool {
        let shorter = usize::from(self.letters.min(sought.letters));
        if self.has_digit || shorter < SHORTEST_PART || usize::from(self.letters) > LONGEST {
            return false;
        }
        let differing = (self.signature ^ sought.signature).count_ones();
        if differing <= 2 * u32::from(edits) && self.letters.abs_diff(sought.letters) <= edits {
            return true;
        }
        // Groups that are in both have their bits in both; groups of one bit count as shared.
        let shared = (self.trigrams & sought.trigrams).count_ones();
        let unseen = |one: &Self| u32::from(one.trigram_count) - one.trigrams.count_ones();
        let most = shared + unseen(self).min(unseen(sought));
        let all = u32::from(self.trigram_count) + u32::from(sought.trigram_count);
        4 * most >= all || self.begin == sought.begin || self.end == sought.end
    }
}

/// Packs up to three letters, ten bits of each, the first in the lowest.
fn packed<'l>(letters: impl Iterator<Item = &'l char>) -> u32 {
    letters.zip([0, 10, 20]).fold(0, |all, (letter, at)| all | (u32::from(*letter) & 0x3ff) << at)
}

/// Returns a hash of a spelling (FNV-1a). Words with one hash are compared by their letters.
fn hash(spelling: &str) -> u32 {
    let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    spelling.bytes().fold(0x811c_9dc5, add)
}

/// Returns the trigrams of a word with its beginning and its end, each once and sorted.
pub(super) fn sorted_trigrams(letters: &[char]) -> Vec<[char; 3]> {
    let padded = [&[' ', ' '], letters, &[' ']].concat();
    let mut groups: Vec<[char; 3]> =
        padded.windows(3).filter_map(|group| <[char; 3]>::try_from(group).ok()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Returns the letters of a word as bits of a number, one bit for each of 64 groups of letters.
/// Words with other bits have other letters.
pub(super) fn signature(letters: &[char]) -> u64 {
    letters.iter().fold(0, |bits, letter| bits | 1u64 << (u32::from(*letter) % 64))
}
