//! Numbers in as few bytes as they need, for what is stored often.

/// Adds a number to `bytes`: seven bits in each byte, the lowest first, and the highest bit set in
/// all bytes but the last. One to ten bytes.
pub fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

/// Takes a number off the beginning of `bytes`; `None` if they end within it, or if it has more
/// than ten bytes.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Most numbers have one byte.
    if let [byte @ 0..0x80, after @ ..] = *bytes {
        *bytes = after;
        return Some(u64::from(*byte));
    }
    take_long(bytes)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_added_is_taken_and_half_of_it_is_nothing(numbers: Vec<u64>, cut in 1usize..9) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| push(&mut bytes, *number));
            let mut rest = &bytes[..];
            for number in &numbers {
                prop_assert_eq!(take(&mut rest), Some(*number));
            }
            prop_assert_eq!((take(&mut rest), rest.len()), (None, 0));
            let mut long = Vec::new();
            push(&mut long, u64::MAX);
            prop_assert_eq!(take(&mut &long[..cut]), None);
            prop_assert_eq!(take(&mut &[0xff; 11][..]), None);
        }
    }
}
