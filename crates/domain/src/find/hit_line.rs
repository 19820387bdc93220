//! The line of a hit, truncated around the hit.

use serde::Serialize;

/// The most characters of a line in a hit, in Unicode scalar values.
pub const MAX_HIT_CHARS: usize = 320;

/// A line with a hit, at most [`MAX_HIT_CHARS`] of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HitLine {
    /// The position of the hit in the whole line, in Unicode scalar values, from 1.
    pub column: u64,
    /// The line without its terminator, or a part of it that contains the beginning of the hit.
    pub text: String,
    /// Whether the line has more before `text`.
    pub cut_before: bool,
    /// Whether the line has more after `text`.
    pub cut_after: bool,
}

impl HitLine {
    /// Truncates a line around the hit at the byte offset `at`. `line` has no terminator.
    pub fn new(line: &str, at: usize) -> Self {
        let before = line.get(..at).unwrap_or_default();
        let column = before.chars().count();
        // A third of the room is for what stands before the hit.
        let first = match line.chars().count() {
            count if count <= MAX_HIT_CHARS => 0,
            count => column.saturating_sub(MAX_HIT_CHARS / 3).min(count - MAX_HIT_CHARS),
        };
        let mut rest = line.chars().skip(first);
        let text: String = rest.by_ref().take(MAX_HIT_CHARS).collect();
        Self {
            column: column as u64 + 1,
            text,
            cut_before: first > 0,
            cut_after: rest.next().is_some(),
        }
    }

    /// Truncates a line that stands beside a hit.
    pub fn of_context(line: &str) -> String {
        line.chars().take(MAX_HIT_CHARS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_is_a_bounded_part_of_the_line_with_the_hit(
            before in "[aé🙂]{0,700}", after in "[bé]{0,700}",
        ) {
            let line = format!("{before}X{after}");
            let hit = HitLine::new(&line, before.len());
            prop_assert!(hit.text.chars().count() <= MAX_HIT_CHARS);
            prop_assert!(line.contains(&hit.text) && hit.text.contains('X'));
            prop_assert_eq!(hit.column, before.chars().count() as u64 + 1);
            prop_assert_eq!(hit.cut_before, !line.starts_with(&hit.text));
            prop_assert_eq!(hit.cut_after, !line.ends_with(&hit.text));
            let is_whole = !hit.cut_before && !hit.cut_after;
            prop_assert_eq!(is_whole, line.chars().count() <= MAX_HIT_CHARS);
        }
    }
}
