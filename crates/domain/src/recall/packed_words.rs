//! The words of a file in little memory, for a cache: numbers of words, and the slots where each
//! stands. The cache holds neither text nor headings.
//!
//! The words themselves are in a table that many files share. Whoever looks up a number must have
//! it from a file that the caller may read.

use super::file_words::{
    FileWords, HashedWord, PassageWords, Weight, WordIndex, WordLetters, WordPlace,
};
use super::word_shape::WordShape;
use super::words::spellings;
use crate::facts::Footprint;
use crate::varint;

/// What a word of the table takes beside its letters, in bytes: where it ends, its place in the
/// hash table, and its shape, each with room to grow.
const WORD_BYTES: usize = 144;

/// Words and their numbers.
#[derive(Debug)]
pub struct WordTable {
    letters: WordLetters,
    index: WordIndex,
    /// The shape of each spelling of each word, with the number of the word, in their order.
    shapes: Vec<(u32, WordShape)>,
    bytes: usize,
    max_bytes: usize,
}

impl WordTable {
    /// Creates a table that takes at most `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        let (letters, index) = (WordLetters::default(), WordIndex::default());
        Self { letters, index, shapes: Vec::new(), bytes: 0, max_bytes }
    }

    /// Returns the number of words.
    pub fn count(&self) -> usize {
        self.letters.count()
    }

    /// Whether another word may be too much.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.max_bytes
    }

    /// Returns the word with a number; the empty word for one that the table has not.
    pub(super) fn word(&self, number: u32) -> &str {
        self.letters.get(number as usize)
    }

    /// Returns the shapes of the words from one on, each with its number.
    pub(super) fn shapes_from(&self, at: usize) -> &[(u32, WordShape)] {
        self.shapes.get(at..).unwrap_or_default()
    }

    /// Returns the numbers of the words of a file, as far as the table has the words.
    pub fn known(&self, file: &FileWords) -> WordNumbers {
        let numbers = file.words().map(|(word, _)| self.index.get(word, &self.letters));
        WordNumbers(numbers.collect())
    }

    /// Adds the words of a file that have no number yet. Returns whether there was room.
    pub fn add(&mut self, file: &FileWords, numbers: &mut WordNumbers) -> bool {
        let mut words = file.words().zip(&mut numbers.0);
        words.all(|((word, _), number)| {
            *number = number.or_else(|| self.number(word));
            number.is_some()
        })
    }

    /// Returns the number of a word, which is added if there is room.
    fn number(&mut self, word: HashedWord<'_>) -> Option<u32> {
        let known = self.index.get(word, &self.letters);
        if known.is_some() || self.is_full() {
            return known;
        }
        let number = self.index.push(word, &mut self.letters)?;
        for spelling in spellings(word.text) {
            self.bytes += WORD_BYTES + word.text.len();
            self.shapes.push((number, WordShape::of(&spelling)));
        }
        Some(number)
    }
}

/// The numbers of the words of a file, in their order; of some there may be none.
#[derive(Clone, Debug)]
pub struct WordNumbers(Vec<Option<u32>>);

impl WordNumbers {
    /// Whether each word has a number.
    pub fn are_all(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }
}

/// The words of one file, by their numbers in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedWords {
    words: Box<[u32]>,
    /// For each word the length of its places in bytes, and its places: the distance to the slot of
    /// the place before, and the weight in the last two bits. All are numbers of 7 bits a byte.
    places: Box<[u8]>,
    passages: Box<[PassageWords]>,
}

impl Footprint for PackedWords {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words) + self.places.len() + size_of_val(&*self.passages)
    }
}

impl PackedWords {
    /// Packs the words of a file; `None` if the table has no room for them.
    pub fn of(file: &FileWords, table: &mut WordTable) -> Option<Self> {
        let mut numbers = table.known(file);
        table.add(file, &mut numbers).then(|| Self::with(file, &numbers)).flatten()
    }

    /// Packs the words of a file with their numbers; `None` if a word has none.
    pub fn with(file: &FileWords, numbers: &WordNumbers) -> Option<Self> {
        let mut words = Vec::with_capacity(file.count());
        let mut places = Vec::with_capacity(4 * file.count());
        for ((_, of_word), number) in file.words().zip(&numbers.0) {
            words.push((*number)?);
            let begin = places.len();
            places.push(0);
            let mut last = 0;
            for place in of_word {
                let distance = u64::from(place.slot - last);
                varint::push(&mut places, distance << 2 | place.weight as u64);
                last = place.slot;
            }
            set_length(&mut places, begin);
        }
        let passages = file.passages.as_slice().into();
        Some(Self { words: words.into(), places: places.into(), passages })
    }

    /// The numbers of the words.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.words
    }

    pub(super) fn passages(&self) -> &[PassageWords] {
        &self.passages
    }

    /// Calls `take` with the number and the places of each word.
    pub(super) fn each_word(&self, mut take: impl FnMut(u32, PackedPlaces<'_>)) {
        let mut rest = &*self.places;
        for number in &self.words {
            let length = varint::take(&mut rest).unwrap_or_default();
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (own, others) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = others;
            take(*number, PackedPlaces(own));
        }
    }
}

/// The places of a word.
#[derive(Clone, Copy)]
pub(super) struct PackedPlaces<'p>(&'p [u8]);

impl PackedPlaces<'_> {
    pub(super) fn to_vec(self) -> Vec<WordPlace> {
        let (mut rest, mut slot) = (self.0, 0u32);
        let mut places = Vec::new();
        while !rest.is_empty() {
            let number = varint::take(&mut rest).unwrap_or_default();
            slot = slot.saturating_add(u32::try_from(number >> 2).unwrap_or(u32::MAX));
            let weight = match number & 3 {
                1 => Weight::Body,
                2 => Weight::Heading,
                _ => Weight::Name,
            };
            places.push(WordPlace { slot, weight });
        }
        places
    }
}

/// Writes how many bytes follow the one at `begin`, in its place.
fn set_length(bytes: &mut Vec<u8>, begin: usize) {
    let length = bytes.len() - begin - 1;
    match (u8::try_from(length), bytes.get_mut(begin)) {
        (Ok(length @ ..0x80), Some(own)) => *own = length,
        _ => {
            let mut number = Vec::new();
            varint::push(&mut number, length as u64);
            bytes.splice(begin..=begin, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_words::FileKind;
    use super::*;

    #[test]
    fn a_full_table_packs_only_files_with_known_words() {
        let mut table = WordTable::new(1);
        let file = |text: &str| FileWords::of(text, FileKind::Text);
        assert!(PackedWords::of(&file("roof roof"), &mut table).is_some());
        assert!(table.is_full());
        assert!(PackedWords::of(&file("roof"), &mut table).is_some());
        assert_eq!(PackedWords::of(&file("shed"), &mut table), None);
    }
}
