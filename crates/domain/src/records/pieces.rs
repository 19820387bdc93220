//! Long text in pieces, so that reading a window costs only what the window holds.
//!
//! A value longer than [`INLINE_BYTES`] is kept apart from its record, in pieces of exactly
//! [`PIECE_CHARS`] Unicode scalar values; the last piece may be shorter. Since all pieces have the
//! same length, a division finds the piece of a position, and no earlier piece is read. A piece's
//! number in the database encodes the record, the value and the piece. The index of search tokens
//! uses the same numbers.

/// The longest value that stays in its record, in bytes of UTF-8.
pub const INLINE_BYTES: usize = 1024;

/// The scalar values in a piece, 8 to 32 KiB. A piece fills a few pages of the database, so its
/// overhead is small, and a window of 4,096 scalar values touches at most two pieces.
pub const PIECE_CHARS: u64 = 8192;

/// The largest record number of a database.
pub const MAX_RECORD: i64 = (1 << 31) - 1;
/// The most values of one record that are kept in pieces or indexed for search.
pub const MAX_SLOTS: u16 = 1 << 12;
/// The most pieces of one value.
pub const MAX_PIECES: u64 = 1 << 20;

/// Consecutive characters of a text, counted in Unicode scalar values from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharRange {
    /// The position of the first one.
    pub start: u64,
    /// One past the position of the last one.
    pub end: u64,
}

/// Encodes the number of a piece: 31 bits of record, 12 of slot, 20 of piece. Returns `None` if one
/// of them does not fit.
pub fn number(record: i64, slot: u16, piece: u64) -> Option<i64> {
    let fits = (0..=MAX_RECORD).contains(&record) && slot < MAX_SLOTS && piece < MAX_PIECES;
    let piece = i64::try_from(piece).ok()?;
    fits.then(|| record << 32 | i64::from(slot) << 20 | piece)
}

/// Decodes the number of a piece into record, slot and piece.
pub fn parts(number: i64) -> (i64, u16, u64) {
    let slot = u16::try_from(number >> 20 & 0xfff).unwrap_or_default();
    (number >> 32, slot, u64::try_from(number & 0xf_ffff).unwrap_or_default())
}

/// Returns the greatest number that a piece of a record can have.
pub fn last_of(record: i64) -> i64 {
    record << 32 | 0xffff_ffff
}

/// Counts the scalar values of a text.
pub fn count(text: &str) -> u64 {
    // Every scalar value has exactly one byte that is not a continuation. Counting these is many
    // times faster than decoding, and no text is longer than 2^64.
    text.bytes().filter(|byte| (*byte as i8) >= -0x40).count() as u64
}

/// Returns the byte at which the scalar value number `position` begins, or the text's length if the
/// text has fewer scalar values.
pub fn byte_offset(text: &str, position: u64) -> usize {
    let mut left = position;
    let mut at = 0;
    // Whole blocks first: counting is faster than stepping.
    while let Some(block) = text.as_bytes().get(at..at + 256) {
        let inside = block.iter().filter(|byte| (**byte as i8) >= -0x40).count() as u64;
        if inside > left {
            break;
        }
        left -= inside;
        at += 256;
    }
    // A block may end inside a scalar value, whose first byte was counted.
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    for (offset, byte) in rest.iter().enumerate() {
        if (*byte as i8) >= -0x40 {
            if left == 0 {
                return at + offset;
            }
            left -= 1;
        }
    }
    text.len()
}

/// Returns the scalar values from `start` up to but not including `end`, clipped to the text.
pub fn slice(text: &str, start: u64, end: u64) -> &str {
    let from = byte_offset(text, start);
    let rest = text.get(from..).unwrap_or_default();
    rest.get(..byte_offset(rest, end.saturating_sub(start))).unwrap_or_default()
}

/// Cuts a text into pieces.
pub fn cut(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at_checked(byte_offset(rest, PIECE_CHARS))?;
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_are_counted_in_scalar_values(
            text in "(\\PC|\0|\r\n|e\u{301}|👩‍👧|中){0,900}",
            start in 0u64..1000,
            length in 0u64..1000,
        ) {
            let chars: Vec<char> = text.chars().collect();
            prop_assert_eq!(count(&text), chars.len() as u64);
            let slow: String = chars.iter().skip(start as usize).take(length as usize).collect();
            prop_assert_eq!(slice(&text, start, start + length), slow);
        }

        #[test]
        fn a_piece_number_decodes_to_its_parts(
            record in 0..=MAX_RECORD,
            slot in 0..MAX_SLOTS,
            piece in 0..MAX_PIECES,
        ) {
            let number = number(record, slot, piece).unwrap();
            prop_assert!(number >= 0);
            prop_assert_eq!(parts(number), (record, slot, piece));
            prop_assert!(last_of(record - 1) < number && number <= last_of(record));
        }
    }

    #[test]
    fn pieces_have_one_length_and_concatenate_to_the_text() {
        let text = "a中👩\u{0}".repeat(5000);
        let pieces: Vec<&str> = cut(&text).collect();
        assert_eq!(pieces.concat(), text);
        let (last, whole) = pieces.split_last().unwrap();
        assert!(whole.iter().all(|piece| count(piece) == PIECE_CHARS));
        assert_eq!(count(last), 20_000 % PIECE_CHARS);
        assert_eq!(cut("").count(), 0);
    }

    #[test]
    fn parts_out_of_range_have_no_number() {
        assert_eq!(number(MAX_RECORD + 1, 0, 0), None);
        assert_eq!(number(-1, 0, 0), None);
        assert_eq!(number(0, MAX_SLOTS, 0), None);
        assert_eq!(number(0, 0, MAX_PIECES), None);
    }
}
