//! Windows: the part of a text that fits into one answer, as whole lines and whole characters.
//!
//! The budget counts bytes of content, because bytes are the cost of an answer. A window ends at a
//! line boundary, because an agent can name lines. Only a single line that is longer than the whole
//! budget is cut inside, at a character boundary. Only a cursor continues such a window.

/// The end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowEnd {
    /// The number of bytes that belong to the window.
    pub bytes: usize,
    /// The 1-based line of the first byte after the window.
    pub line: u64,
    /// Whether the window ends inside `line` and not at the beginning of `line`.
    pub inside: bool,
}

/// What the bytes given to [`find_end`] hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowInput {
    /// Every byte up to the end of the file.
    ToEndOfFile,
    /// More bytes than the budget, but not the rest of the file.
    Partial,
}

/// Finds the end of a window of `bytes`, which begin in line `first` (1-based). The window ends
/// before line `end` and has at most `budget` bytes. A budget is at least 4 bytes, one character.
pub fn find_end(
    bytes: &[u8],
    first: u64,
    end: u64,
    budget: usize,
    input: WindowInput,
) -> WindowEnd {
    let whole = input == WindowInput::ToEndOfFile;
    let mut taken = 0;
    let mut line = first;
    while line < end {
        let rest = bytes.get(taken..).unwrap_or_default();
        let next = match memchr::memchr(b'\n', rest) {
            Some(newline) => taken + newline + 1,
            None if whole && rest.is_empty() => break,
            None if whole => bytes.len(),
            None => usize::MAX,
        };
        if next > budget {
            if taken > 0 {
                return WindowEnd { bytes: taken, line, inside: false };
            }
            return WindowEnd { bytes: floor_char_boundary(bytes, budget), line, inside: true };
        }
        taken = next;
        line += 1;
    }
    WindowEnd { bytes: taken, line, inside: false }
}

/// Divides a budget among several windows: nobody gets more than is wanted, and what one leaves is
/// shared by the others, the smallest first. The shares are in the order of `wanted`.
pub fn fair_shares(budget: usize, wanted: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; wanted.len()];
    let mut order: Vec<(usize, usize)> = wanted.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let (mut left, mut waiting) = (budget, order.len());
    for (wanted, index) in order {
        let share = wanted.min(left / waiting.max(1));
        (left, waiting) = (left - share, waiting - 1);
        if let Some(slot) = shares.get_mut(index) {
            *slot = share;
        }
    }
    shares
}

/// Returns the last character boundary at or before `at`. The bytes are UTF-8 up to there.
fn floor_char_boundary(bytes: &[u8], at: usize) -> usize {
    if at >= bytes.len() {
        return bytes.len();
    }
    (0..=at).rev().find(|at| bytes.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::WindowInput::{Partial, ToEndOfFile};
    use super::*;
    use crate::lines;
    use proptest::prelude::*;

    #[test]
    fn a_window_holds_as_many_whole_lines_as_fit() {
        assert_eq!(
            find_end(b"ab\ncd\n", 1, 3, 10, ToEndOfFile),
            WindowEnd { bytes: 6, line: 3, inside: false }
        );
        assert_eq!(
            find_end(b"ab\ncd\n", 1, 2, 10, ToEndOfFile),
            WindowEnd { bytes: 3, line: 2, inside: false }
        );
        assert_eq!(
            find_end(b"ab\ncd\n", 1, 3, 5, ToEndOfFile),
            WindowEnd { bytes: 3, line: 2, inside: false }
        );
        assert_eq!(
            find_end(b"ab\ncd", 1, 3, 5, ToEndOfFile),
            WindowEnd { bytes: 5, line: 3, inside: false }
        );
        assert_eq!(
            find_end("aéé\n".as_bytes(), 1, 2, 4, ToEndOfFile),
            WindowEnd { bytes: 3, line: 1, inside: true }
        );
    }

    proptest! {
        /// No window that is smaller than its share keeps anything from another one, and no window
        /// is cut while another one that is cut has more.
        #[test]
        fn shares_are_fair_and_use_the_budget(
            budget in 0usize..200,
            wanted in proptest::collection::vec(0usize..60, 0..8),
        ) {
            let shares = fair_shares(budget, &wanted);
            prop_assert!(shares.iter().zip(&wanted).all(|(share, wanted)| share <= wanted));
            let given: usize = shares.iter().sum();
            prop_assert!(given <= budget);
            let cut: Vec<usize> =
                shares.iter().zip(&wanted).filter(|(a, b)| a < b).map(|(a, _)| *a).collect();
            prop_assert!(cut.is_empty() || budget - given < wanted.len());
            let largest = shares.iter().max().copied().unwrap_or(0);
            prop_assert!(cut.iter().all(|share| share + 1 >= largest), "{shares:?}");
        }

        #[test]
        fn windows_concatenate_to_the_text(text in "(a|é|🜨|\n|\r\n){0,40}", budget in 4usize..12) {
            let total = lines::count_lines(&text);
            let (mut at, mut line, mut read) = (0, 1, String::new());
            for _ in 0..200 {
                if at == text.len() { break }
                let rest = &text.as_bytes()[at..];
                // As the store does: the rest of the file, or a little more than the budget.
                let whole = rest.len() <= budget + 4;
                let piece = if whole { rest } else { &rest[..budget + 4] };
                let input = if whole { ToEndOfFile } else { Partial };
                let end = find_end(piece, line, total + 1, budget, input);
                prop_assert!(end.bytes > 0 && end.bytes <= budget);
                read.push_str(&text[at..at + end.bytes]);
                at += end.bytes;
                let breaks = text[..at].matches('\n').count() as u64;
                let open_end = at == text.len() && !text.ends_with('\n');
                prop_assert_eq!(end.line, breaks + 1 + u64::from(open_end));
                line = end.line;
            }
            prop_assert_eq!(read, text);
        }
    }
}
