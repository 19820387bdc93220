//! The positions where a needle can occur, found by comparing two bytes.
//!
//! Of the needle's first characters, two that are close together and look rare are chosen, with the
//! bytes that their spellings have at one end. Both bytes are searched for at their distance, 64
//! positions at a time, in a loop that compilers vectorize. The characters that fold to a given
//! character are found once, by folding every character that exists.

use std::sync::LazyLock;

use crate::line_search::fold_case;

/// The positions that are tested together.
const BLOCK: usize = 64;
/// The characters of the needle that are considered.
const CONSIDERED: usize = 64;
/// The largest distance between the two, in characters.
const REACH: usize = 8;
/// The most characters that fold alike; a test checks the number.
const ALIKE: usize = 4;
/// One past the last character that folds to another one; a test checks the number.
const FOLDING_ENDS: u32 = 0x1f000;

/// Every character that folds to another one, after that one, in order.
static UNFOLDED: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let all = (0..FOLDING_ENDS).filter_map(char::from_u32);
    let mut pairs: Vec<(char, char)> =
        all.map(|one| (fold_case(one), one)).filter(|(folded, one)| folded != one).collect();
    pairs.sort_unstable();
    pairs
});

/// Two bytes at a distance, each one of a few values.
#[derive(Clone, Debug)]
pub(super) struct Anchor {
    scalar: usize,
    here: [u8; ALIKE],
    distance: usize,
    there: [u8; ALIKE],
}

impl Anchor {
    /// Chooses the pair that looks rarest in a folded needle.
    pub(super) fn choose(needle: &[char]) -> Self {
        let spellings: Vec<Spellings> =
            needle.iter().take(CONSIDERED).map(|one| Spellings::new(*one)).collect();
        let mut best: Option<(u64, Self)> = None;
        let mut consider = |rarity: u64, anchor: Self| {
            if best.as_ref().is_none_or(|(least, _)| rarity < *least) {
                best = Some((rarity, anchor));
            }
        };
        for (scalar, one) in spellings.iter().enumerate() {
            let (here, common) = (one.last, commonness(&one.last));
            consider(common * 1_000_000, Self { scalar, here, distance: 0, there: here });
            let mut distance = 0;
            for other in spellings.iter().skip(scalar + 1).take(REACH) {
                let first = Self { scalar, here, distance: distance + 1, there: other.first };
                consider(common * commonness(&other.first), first);
                // After a character whose spellings differ in length no distance is fixed.
                let Some(length) = other.length else { break };
                distance += length;
                consider(
                    common * commonness(&other.last),
                    Self { scalar, here, distance, there: other.last },
                );
            }
        }
        best.map_or(
            Self { scalar: 0, here: [0; ALIKE], distance: 0, there: [0; ALIKE] },
            |(_, anchor)| anchor,
        )
    }

    /// Returns the index of the needle's character that a position refers to.
    pub(super) fn scalar(&self) -> usize {
        self.scalar
    }

    /// Returns the next position, from `from` on, at which that character's last byte can be.
    ///
    /// Misses no occurrence, unless the text ends inside the needle.
    pub(super) fn next(&self, text: &[u8], mut from: usize) -> Option<usize> {
        loop {
            let here = text.get(from..).and_then(<[u8]>::first_chunk);
            let there = text.get(from + self.distance..).and_then(<[u8]>::first_chunk);
            let (Some(here), Some(there)) = (here, there) else { break };
            if let Some(position) = first_set(&self.hits(here, there)) {
                return Some(from + position);
            }
            from += BLOCK;
        }
        let here = text.get(from..)?;
        let there = text.get(from + self.distance..)?;
        let hit = |(here, there): (&u8, &u8)| {
            is_one_of(*here, &self.here) && is_one_of(*there, &self.there)
        };
        here.iter().zip(there).position(hit).map(|position| from + position)
    }

    fn hits(&self, here: &[u8; BLOCK], there: &[u8; BLOCK]) -> [u8; BLOCK] {
        let mut hits = [0; BLOCK];
        for ((hit, here), there) in hits.iter_mut().zip(here).zip(there) {
            *hit =
                u8::from(is_one_of(*here, &self.here)) & u8::from(is_one_of(*there, &self.there));
        }
        hits
    }
}

fn is_one_of(byte: u8, [a, b, c, d]: &[u8; ALIKE]) -> bool {
    // No branches, so that the loop can be vectorized.
    (byte == *a) | (byte == *b) | (byte == *c) | (byte == *d)
}

fn first_set(hits: &[u8; BLOCK]) -> Option<usize> {
    let (words, _) = hits.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    if words.clone().fold(0, |all, word| all | word) == 0 {
        return None;
    }
    words
        .zip(0..)
        .find(|(word, _)| *word != 0)
        .map(|(word, nth)| nth * 8 + word.trailing_zeros() as usize / 8)
}

/// The encodings of all characters that fold to one character.
struct Spellings {
    /// The first byte of each, some repeated.
    first: [u8; ALIKE],
    /// The last byte of each.
    last: [u8; ALIKE],
    /// The number of bytes, if all have the same.
    length: Option<usize>,
}

impl Spellings {
    fn new(folded: char) -> Self {
        let mut buffer = [0; 4];
        let mut bytes = |one: char| {
            let bytes = one.encode_utf8(&mut buffer).as_bytes();
            let ends = bytes.first().copied().zip(bytes.last().copied()).unwrap_or_default();
            (ends, bytes.len())
        };
        let ((first, last), length) = bytes(folded);
        let mut spellings =
            Self { first: [first; ALIKE], last: [last; ALIKE], length: Some(length) };
        for (slot, other) in (1..ALIKE).zip(unfolded(folded)) {
            let ((first, last), other) = bytes(other);
            if let (Some(first_slot), Some(last_slot)) =
                (spellings.first.get_mut(slot), spellings.last.get_mut(slot))
            {
                (*first_slot, *last_slot) = (first, last);
            }
            spellings.length = spellings.length.filter(|length| *length == other);
        }
        spellings
    }
}

/// Returns the other characters that fold to a folded character.
fn unfolded(folded: char) -> impl Iterator<Item = char> {
    let from = UNFOLDED.partition_point(|(other, _)| *other < folded);
    UNFOLDED.iter().skip(from).take_while(move |(other, _)| *other == folded).map(|(_, one)| *one)
}

/// Estimates how many of a million bytes of text are one of these. The guess averages many
/// languages and fits none exactly.
fn commonness(bytes: &[u8; ALIKE]) -> u64 {
    let mut seen = Vec::with_capacity(ALIKE);
    for byte in bytes {
        if !seen.contains(byte) {
            seen.push(*byte);
        }
    }
    seen.into_iter().map(per_million).sum()
}

fn per_million(byte: u8) -> u64 {
    const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgkjqxz";
    let letter = |byte: u8| {
        let rank = LETTERS.iter().position(|letter| *letter == byte).unwrap_or_default();
        100_000 / (rank as u64 + 1) - if rank > 20 { 3_000 } else { 0 }
    };
    match byte {
        b' ' => 150_000,
        b'a'..=b'z' => letter(byte),
        b'A'..=b'Z' => letter(byte.to_ascii_lowercase()) / 10 + 100,
        b'0'..=b'9' => 6_000,
        b'\n' | b',' | b'.' | b'"' => 20_000,
        b'!'..=b'~' => 3_000,
        0..=0x1f | 0x7f => 200,
        0x80..=0xbf => 15_000,
        0xc3 | 0xce | 0xcf | 0xd0 | 0xd1 | 0xd7..=0xd9 | 0xe0..=0xe9 | 0xf0 => 100_000,
        0xc0..=0xff => 2_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_about_case_folding_are_right() {
        assert!(
            (FOLDING_ENDS..0x11_0000).filter_map(char::from_u32).all(|one| fold_case(one) == one)
        );
        let mut alike = std::collections::HashMap::new();
        for one in (0..0x11_0000).filter_map(char::from_u32) {
            *alike.entry(fold_case(one)).or_insert(0) += 1;
            assert_eq!(fold_case(fold_case(one)), fold_case(one), "{one}");
        }
        assert_eq!(alike.values().max(), Some(&ALIKE));
    }

    #[test]
    fn the_other_cases_of_a_letter_are_found() {
        assert_eq!(unfolded('k').collect::<String>(), "K\u{212a}");
        assert_eq!(unfolded('σ').collect::<String>(), "Σς");
        assert_eq!(unfolded('語').count(), 0);
    }

    #[test]
    fn the_rarest_pair_of_a_word_becomes_the_anchor() {
        let anchor = Anchor::choose(&['t', 'h', 'e', ' ', 'z', 'o', 'o']);
        assert_eq!((anchor.scalar(), anchor.distance), (1, 3));
    }
}
