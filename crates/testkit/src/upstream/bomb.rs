//! Small bodies that expand hugely: `{"body":"xxx…"}`, 256 MiB of it, compressed in four ways and
//! correct in each, so that a client that expands what it did not ask to be compressed finds a
//! note, if it lives to see it.

use std::sync::OnceLock;

/// How many times the letter stands in the note.
const LETTERS: u64 = 256 << 20;
const BEFORE: &[u8] = b"{\"body\":\"";
const LETTER: u8 = b'x';
const AFTER: &[u8] = b"\"}";

/// In the format of RFC 1952.
pub(super) fn gzip() -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bytes.extend(block());
    bytes.extend(crc(LETTERS).to_le_bytes());
    // The format keeps the length modulo 2^32.
    bytes.extend(((BEFORE.len() + AFTER.len()) as u32).wrapping_add(LETTERS as u32).to_le_bytes());
    bytes
}

/// In the format of RFC 1950, which HTTP means by `deflate`.
pub(super) fn zlib() -> Vec<u8> {
    let mut bytes = vec![0x78, 0x01];
    bytes.extend(block());
    bytes.extend(adler(LETTERS).to_be_bytes());
    bytes
}

/// In the format of RFC 1951 alone, which some servers mean by `deflate`.
pub(super) fn raw() -> Vec<u8> {
    block().to_vec()
}

/// In the format of RFC 7932; made with a compressor, since no part of it can be written by hand.
pub(super) fn brotli() -> Vec<u8> {
    include_bytes!("bomb.br").to_vec()
}

/// The block that three of them share, which is made once.
fn block() -> &'static [u8] {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    BLOCK.get_or_init(|| deflate(LETTERS))
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u32,
    used: u32,
}

impl Bits {
    /// At most 24 bits, lowest first.
    fn push(&mut self, bits: u32, count: u32) {
        self.pending |= bits << self.used;
        self.used += count;
        while self.used >= 8 {
            self.bytes.push((self.pending & 0xff) as u8);
            self.pending >>= 8;
            self.used -= 8;
        }
    }

    /// A code of the fixed Huffman table, which goes highest bit first. All of our bytes are below
    /// 144.
    fn literal(&mut self, byte: u8) {
        self.push((0x30 + u32::from(byte)).reverse_bits() >> 24, 8);
    }
}

/// One block under the fixed Huffman codes: the letter once, and then matches of 258 letters one
/// letter back.
fn deflate(letters: u64) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, and its type, 1, in two bits.
    bits.push(0b011, 3);
    BEFORE.iter().for_each(|byte| bits.literal(*byte));
    let matches = (letters - 1) / 258;
    for _ in 0..letters - matches * 258 {
        bits.literal(LETTER);
    }
    for _ in 0..matches {
        // Length 258 is code 285, which is 11000101 from its highest bit; distance 1 is code 0 in
        // five bits.
        bits.push(0b1010_0011, 13);
    }
    AFTER.iter().for_each(|byte| bits.literal(*byte));
    // The end of the block is code 256, seven bits of 0, and up to seven more fill the last byte.
    bits.push(0, 14);
    bits.bytes
}

/// The CRC of a byte more.
fn crc_of(state: u32, byte: u8) -> u32 {
    (0..8).fold(state ^ u32::from(byte), |state, _| {
        (state >> 1) ^ (0xedb8_8320 & (state & 1).wrapping_neg())
    })
}

/// What many bytes do to a CRC: where each bit of the state goes, and what is added.
#[derive(Clone)]
struct Effect {
    bits: Vec<u32>,
    constant: u32,
}

impl Effect {
    fn of(byte: u8) -> Self {
        let constant = crc_of(0, byte);
        Self { bits: (0..32).map(|bit| crc_of(1 << bit, byte) ^ constant).collect(), constant }
    }

    fn linear(&self, state: u32) -> u32 {
        (0..32)
            .zip(&self.bits)
            .filter(|(bit, _)| state >> bit & 1 == 1)
            .fold(0, |sum, (_, image)| sum ^ image)
    }

    fn apply(&self, state: u32) -> u32 {
        self.linear(state) ^ self.constant
    }

    fn twice(&self) -> Self {
        Self {
            bits: self.bits.iter().map(|image| self.linear(*image)).collect(),
            constant: self.apply(self.constant),
        }
    }
}

/// The CRC of the whole, without looking at each of its letters.
fn crc(letters: u64) -> u32 {
    let mut state = BEFORE.iter().fold(u32::MAX, |state, byte| crc_of(state, *byte));
    let mut effect = Effect::of(LETTER);
    let mut left = letters;
    while left > 0 {
        if left & 1 == 1 {
            state = effect.apply(state);
        }
        effect = effect.twice();
        left >>= 1;
    }
    !AFTER.iter().fold(state, |state, byte| crc_of(state, *byte))
}

/// The checksum of RFC 1950 of the whole, by the sums' closed form.
fn adler(letters: u64) -> u32 {
    const MODULUS: u64 = 65_521;
    let more = |(a, b): (u64, u64), byte: &u8| {
        let a = (a + u64::from(*byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    };
    let (a, b) = BEFORE.iter().fold((1, 0), more);
    let triangle = letters * (letters + 1) / 2 % MODULUS;
    let b = (b + letters % MODULUS * a + u64::from(LETTER) * triangle) % MODULUS;
    let a = (a + letters % MODULUS * u64::from(LETTER)) % MODULUS;
    let (a, b) = AFTER.iter().fold((a, b), more);
    u32::try_from(b << 16 | a).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_checksums_equal_the_slow_ones() {
        for letters in [1, 2, 3, 257, 258, 259, 70_001] {
            let letters_count = usize::try_from(letters).unwrap();
            let whole = [BEFORE, &[LETTER].repeat(letters_count), AFTER].concat();
            let crc_whole = !whole.iter().fold(u32::MAX, |state, byte| crc_of(state, *byte));
            assert_eq!(crc(letters), crc_whole);
            let (mut a, mut b) = (1_u32, 0_u32);
            for byte in whole {
                a = (a + u32::from(byte)) % 65_521;
                b = (b + a) % 65_521;
            }
            assert_eq!(adler(letters), b << 16 | a);
        }
    }

    #[test]
    fn the_bodies_are_far_below_the_ceiling() {
        for body in [gzip(), zlib(), raw(), brotli()] {
            assert!(body.len() < 2 << 20, "{}", body.len());
        }
    }
}
