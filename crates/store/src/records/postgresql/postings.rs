//! The bytes of the index of words: blocks of postings, and the words of a text.
//!
//! A block has the numbers of texts in which a token occurs, in ascending order, each with the
//! places of the token among the tokens of its field. A number is stored as the difference of its
//! record to the record before, so most postings take two or three bytes. A block may be appended
//! to another one as it is: it begins with a mark after which differences begin at 0.
//!
//! The words of a text are stored beside its number, so that what the index has of it can be taken
//! out again.

use std::collections::BTreeMap;

use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::varint;

use crate::records::tagged_tokens::TaggedTokens;

/// The bytes after which a block is full. A row with such a block needs no place beside its page.
pub(super) const BLOCK_BYTES: usize = 1024;

/// The mark after which differences begin at 0.
const RESET: u64 = 0;

/// The places of one posting, still packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places<'b>(pub(super) &'b [u8]);

/// Writes the postings of one token, in ascending order.
#[derive(Default)]
pub(super) struct ListWriter {
    full: Vec<Block>,
    open: Block,
    record: i64,
    slot: u16,
    piece: u64,
}

/// Postings of one token, and the first of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first: i64,
    pub(super) bytes: Vec<u8>,
}

impl ListWriter {
    /// Adds a posting. Its number is greater than all before. Returns how many bytes that took.
    pub(super) fn push(&mut self, number: i64, Places(places): Places<'_>) -> usize {
        let (record, slot, piece) = pieces::parts(number);
        if self.open.bytes.len() >= BLOCK_BYTES {
            self.full.push(std::mem::take(&mut self.open));
        }
        let out = &mut self.open.bytes;
        let before = out.len();
        if before == 0 {
            self.open.first = number;
            varint::push(out, RESET);
            (self.record, self.slot, self.piece) = (0, 0, 0);
        }
        let moved = record.saturating_sub(self.record).unsigned_abs();
        let is_elsewhere = (slot, piece) != (self.slot, self.piece);
        varint::push(out, moved << 1 | u64::from(is_elsewhere));
        if is_elsewhere {
            varint::push(out, slot.into());
            varint::push(out, piece);
        }
        (self.record, self.slot, self.piece) = (record, slot, piece);
        out.extend_from_slice(places);
        out.len() - before
    }

    /// Returns the blocks. All but the last are full.
    pub(super) fn finish(mut self) -> Vec<Block> {
        if !self.open.bytes.is_empty() {
            self.full.push(self.open);
        }
        self.full
    }
}

/// Reads the postings of a block.
pub(super) struct BlockReader<'b> {
    rest: &'b [u8],
    record: i64,
    slot: u16,
    piece: u64,
}

impl<'b> BlockReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, record: 0, slot: 0, piece: 0 }
    }

    /// Returns the next number with its places. `None` at the end.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] if the bytes are not those of a block.
    pub(super) fn next(&mut self) -> Result<Option<(i64, Places<'b>)>, Problem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut head = take(&mut self.rest)?;
        if head == RESET {
            (self.record, self.slot, self.piece) = (0, 0, 0);
            head = take(&mut self.rest)?;
        }
        let moved = i64::try_from(head >> 1).map_err(|_| Problem::Corrupt)?;
        self.record = self.record.checked_add(moved).ok_or(Problem::Corrupt)?;
        if head & 1 == 1 {
            self.slot = u16::try_from(take(&mut self.rest)?).map_err(|_| Problem::Corrupt)?;
            self.piece = take(&mut self.rest)?;
        }
        let number = pieces::number(self.record, self.slot, self.piece).ok_or(Problem::Corrupt)?;
        Ok(Some((number, take_places(&mut self.rest)?)))
    }
}

impl Places<'_> {
    /// Returns the places, in ascending order.
    pub(super) fn to_vec(self) -> Result<Vec<u64>, Problem> {
        let (mut rest, mut place, mut all) = (self.0, 0_u64, Vec::new());
        while !rest.is_empty() {
            place = place.checked_add(take(&mut rest)? >> 1).ok_or(Problem::Corrupt)?;
            all.push(place);
        }
        Ok(all)
    }
}

/// Takes the bytes of the places of one posting: of each place the difference to the one before,
/// and whether another follows.
fn take_places<'b>(rest: &mut &'b [u8]) -> Result<Places<'b>, Problem> {
    let all = *rest;
    while take(rest)? & 1 == 1 {}
    let length = all.len() - rest.len();
    all.get(..length).map(Places).ok_or(Problem::Corrupt)
}

/// The words of a text, or of short texts that share a number: for each field and token, the packed
/// places.
#[derive(Debug, Default)]
pub(super) struct TextWords<'t>(pub(super) BTreeMap<(i64, &'t [u8]), Vec<u8>>);

impl<'t> TextWords<'t> {
    /// Counts the tokens of each field from 0.
    pub(super) fn of(tokens: &'t TaggedTokens) -> Self {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        let mut places: BTreeMap<(i64, &[u8]), Vec<u64>> = BTreeMap::new();
        tokens.each(|tag, token| {
            let count = counts.entry(tag).or_default();
            places.entry((tag, token.as_bytes())).or_default().push(*count);
            *count += 1;
        });
        let packed = |places: Vec<u64>| {
            let (mut bytes, mut before) = (Vec::with_capacity(places.len()), 0);
            for (left, place) in (0..places.len()).rev().zip(&places) {
                varint::push(&mut bytes, (place - before) << 1 | u64::from(left > 0));
                before = *place;
            }
            bytes
        };
        Self(places.into_iter().map(|(key, places)| (key, packed(places))).collect())
    }

    /// Packs them: the tag of each field with the number of its tokens, and each token.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut left = self.0.iter().peekable();
        while let Some(((tag, _), _)) = left.peek() {
            let tag = *tag;
            let own = self.0.range((tag, &[][..])..).take_while(|((own, _), _)| *own == tag);
            varint::push(&mut bytes, tag.unsigned_abs());
            varint::push(&mut bytes, own.count() as u64);
            while let Some(((_, token), places)) = left.next_if(|((own, _), _)| *own == tag) {
                varint::push(&mut bytes, token.len() as u64);
                bytes.extend_from_slice(token);
                bytes.extend_from_slice(places);
            }
        }
        bytes
    }

    /// Reads what [`TextWords::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] if the bytes are others.
    pub(super) fn parse(mut rest: &'t [u8]) -> Result<Self, Problem> {
        let mut words = Self::default();
        while !rest.is_empty() {
            let tag = i64::try_from(take(&mut rest)?).map_err(|_| Problem::Corrupt)?;
            for _ in 0..take(&mut rest)? {
                let length = usize::try_from(take(&mut rest)?).map_err(|_| Problem::Corrupt)?;
                let (token, after) = rest.split_at_checked(length).ok_or(Problem::Corrupt)?;
                rest = after;
                let Places(places) = take_places(&mut rest)?;
                words.0.insert((tag, token), places.to_vec());
            }
        }
        Ok(words)
    }
}

fn take(rest: &mut &[u8]) -> Result<u64, Problem> {
    varint::take(rest).ok_or(Problem::Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a block has.
    fn read(bytes: &[u8]) -> Vec<(i64, Vec<u64>)> {
        let mut reader = BlockReader::new(bytes);
        let mut all = Vec::new();
        while let Some((number, places)) = reader.next().unwrap() {
            all.push((number, places.to_vec().unwrap()));
        }
        all
    }

    fn tokens(text: &str) -> TaggedTokens {
        let mut tokens = TaggedTokens::default();
        text.split(' ').for_each(|token| tokens.push("7\u{80}", token));
        tokens
    }

    #[test]
    fn blocks_give_back_what_was_pushed_and_may_be_appended_to_each_other() {
        let number = |record, slot, piece| pieces::number(record, slot, piece).unwrap();
        let numbers = [
            number(1, 0, 0),
            number(2, 0, 0),
            number(2, 3, 0),
            number(2, 3, 1),
            number(900, 3, 1),
            number(pieces::MAX_RECORD, 4095, 1_048_575),
        ];
        for cut in 0..numbers.len() {
            let mut bytes = Vec::new();
            for part in [&numbers[..cut], &numbers[cut..]] {
                let mut writer = ListWriter::default();
                for number in part {
                    writer.push(*number, Places(&[3, 8]));
                }
                writer.finish().iter().for_each(|block| bytes.extend_from_slice(&block.bytes));
            }
            let read: Vec<i64> = read(&bytes).into_iter().map(|(number, _)| number).collect();
            assert_eq!(read, numbers);
        }
    }

    #[test]
    fn a_long_list_is_cut_into_blocks_that_name_their_first_numbers() {
        let mut writer = ListWriter::default();
        for record in 1..5000 {
            writer.push(pieces::number(record, 0, 0).unwrap(), Places(&[8]));
        }
        let blocks = writer.finish();
        assert!(blocks.len() > 5);
        let mut all = Vec::new();
        for block in &blocks {
            let read = read(&block.bytes);
            assert_eq!(read[0].0, block.first);
            assert!(block.bytes.len() <= BLOCK_BYTES + 16);
            all.extend(read.into_iter().map(|(number, _)| number >> 32));
        }
        assert_eq!(all, (1..5000).collect::<Vec<_>>());
    }

    #[test]
    fn the_words_of_a_text_have_their_places_and_come_back() {
        let tokens = tokens("b a b c b");
        let words = TextWords::of(&tokens);
        let places = |token: &str| Places(&words.0[&(7, token.as_bytes())]).to_vec().unwrap();
        assert_eq!([places("a"), places("b"), places("c")], [vec![1], vec![0, 2, 4], vec![3]]);
        let bytes = words.to_bytes();
        assert_eq!(TextWords::parse(&bytes).unwrap().0, words.0);
        for end in 1..bytes.len() {
            assert_eq!(TextWords::parse(&bytes[..end]).err(), Some(Problem::Corrupt), "{end}");
        }
    }
}
