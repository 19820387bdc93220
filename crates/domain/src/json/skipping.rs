//! Finds where JSON values end without reading what they say, in bytes that arrive in pieces.

/// What a byte outside of strings means for the value around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The quote that ends a string which is in no array or object of the value.
    StringEnd,
    /// The bracket that closes the outermost array or object of the value.
    Closed,
    /// A `,`, a `:` or a closing bracket that belongs to what is around the value.
    Outside(u8),
}

/// Where the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Plain,
    Text,
    /// After the `\` in a string.
    Escape,
}

/// Goes through the bytes of a value, and stops at each that may end it.
#[derive(Clone, Debug, Default)]
pub struct ValueScanner {
    /// How many brackets of the value are open.
    depth: usize,
    within: Within,
}

impl ValueScanner {
    /// Returns the next mark and its offset in these bytes; `None` if they have no more. The next
    /// call gets the bytes after that one.
    pub fn next(&mut self, bytes: &[u8]) -> Option<(usize, Mark)> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.within {
                Within::Escape => self.within = Within::Text,
                Within::Text => {
                    at += quote_or_backslash(bytes.get(at..)?)?;
                    if bytes.get(at) == Some(&b'\\') {
                        self.within = Within::Escape;
                    } else {
                        self.within = Within::Plain;
                        if self.depth == 0 {
                            return Some((at, Mark::StringEnd));
                        }
                    }
                }
                Within::Plain => match byte {
                    b'"' => self.within = Within::Text,
                    b'{' | b'[' => self.depth += 1,
                    b',' | b':' | b'}' | b']' if self.depth == 0 => {
                        return Some((at, Mark::Outside(byte)));
                    }
                    b'}' | b']' => {
                        self.depth -= 1;
                        if self.depth == 0 {
                            return Some((at, Mark::Closed));
                        }
                    }
                    _ => {}
                },
            }
            at += 1;
        }
        None
    }

    /// Returns whether the bytes so far are in no string, array or object.
    pub fn is_outermost(&self) -> bool {
        self.depth == 0 && self.within == Within::Plain
    }
}

/// Returns the index of the first quote or backslash.
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    /// Most strings are names, which end within so many words of eight bytes. A wider step would
    /// cost more.
    const SHORT: usize = 3;
    let mut at = 0;
    for _ in 0..SHORT {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { break };
        let found = within_word(*word);
        at += found;
        if found < word.len() {
            return Some(at);
        }
    }
    Some(at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?)
}

/// Returns the index of the first quote or backslash, or 8 if there is none. Looks at all bytes at
/// once.
fn within_word(word: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(word);
    // Sets the highest bit of the first byte that equals `byte`. Bits above it say nothing.
    let equal = |byte: u8| {
        let zeros = word ^ u64::from_le_bytes([byte; 8]);
        zeros.wrapping_sub(u64::from_le_bytes([1; 8])) & !zeros & u64::from_le_bytes([128; 8])
    };
    (equal(b'"') | equal(b'\\')).trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks(pieces: &[&str]) -> Vec<(usize, Mark)> {
        let (mut scan, mut all, mut before) = (ValueScanner::default(), Vec::new(), 0);
        for piece in pieces {
            let mut at = 0;
            while let Some((found, mark)) = scan.next(&piece.as_bytes()[at..]) {
                at += found + 1;
                all.push((before + at - 1, mark));
            }
            before += piece.len();
        }
        assert!(scan.is_outermost());
        all
    }

    #[test]
    fn marks_are_the_same_however_the_bytes_are_cut() {
        let text = r#"{"a":[1,"}\"]"]},"b\\":tru]}"#;
        let whole = marks(&[text]);
        let expected = [
            (15, Mark::Closed),
            (16, Mark::Outside(b',')),
            (21, Mark::StringEnd),
            (22, Mark::Outside(b':')),
            (26, Mark::Outside(b']')),
            (27, Mark::Outside(b'}')),
        ];
        assert_eq!(whole, expected);
        for at in 0..text.len() {
            assert_eq!(marks(&[&text[..at], &text[at..]]), whole, "{at}");
        }
    }

    #[test]
    fn a_value_that_is_not_at_its_end_is_not_outermost() {
        for text in ["[", "\"a", "\"a\\", "{\"a\":1"] {
            let mut scan = ValueScanner::default();
            while scan.next(text.as_bytes()).is_some() {}
            assert!(!scan.is_outermost(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_first_quote_or_backslash_of_a_word_is_found(
            word in proptest::array::uniform8(prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\')]),
        ) {
            let found = word.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(8);
            prop_assert_eq!(within_word(word), found);
        }
    }
}
