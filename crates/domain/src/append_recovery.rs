//! What an interrupted append left at the end of a file, and what a start does about it.

/// What stands behind the bytes that a file had when an append to it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendRemains {
    /// Nothing of the append: it was not written.
    Absent,
    /// The whole append. Other programs may have added more.
    Whole,
    /// A part of the append, and nothing behind it. A start cuts this part off.
    Unfinished,
    /// A part of the append, perhaps, with something else before or behind it. A start leaves all
    /// of that and reports it, since it may be somebody's.
    Mixed,
}

impl AppendRemains {
    /// Judges `tail`, which is what the file has behind the bytes that it had before, for an append
    /// of `added`, which is not empty.
    ///
    /// After a power cut a file may have its new length before its new bytes; the missing bytes are
    /// then zeros. So a zero counts as a byte of the append that did not reach the disk.
    pub fn of(tail: &[u8], added: &[u8]) -> Self {
        let ours = tail.iter().zip(added).take_while(|(one, ours)| one == ours || **one == 0);
        let ours = ours.count();
        if tail.is_empty() {
            Self::Absent
        } else if memchr::memmem::find(tail, added).is_some() {
            Self::Whole
        } else if ours == tail.len() {
            Self::Unfinished
        } else if ours > 0 {
            Self::Mixed
        } else {
            Self::Absent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_part_of_the_append_at_the_end_is_unfinished() {
        for (tail, expected) in [
            ("", AppendRemains::Absent),
            ("a", AppendRemains::Unfinished),
            ("ab", AppendRemains::Unfinished),
            ("\0\0", AppendRemains::Unfinished),
            ("a\0\0", AppendRemains::Unfinished),
            ("abc", AppendRemains::Whole),
            ("abcx", AppendRemains::Whole),
            ("xabc", AppendRemains::Whole),
            ("abx", AppendRemains::Mixed),
            ("a\0\0x", AppendRemains::Mixed),
            ("x", AppendRemains::Absent),
            ("xa", AppendRemains::Absent),
        ] {
            assert_eq!(AppendRemains::of(tail.as_bytes(), b"abc"), expected, "{tail:?}");
        }
    }

    proptest! {
        #[test]
        fn a_byte_of_another_program_is_never_cut_off(
            ours in 0usize..5, others in "[x-z]{1,4}", added in "[a-w]{1,5}",
        ) {
            let written = &added.as_bytes()[..ours.min(added.len())];
            let tail = [written, others.as_bytes()].concat();
            prop_assert_ne!(AppendRemains::of(&tail, added.as_bytes()), AppendRemains::Unfinished);
            let tail = [others.as_bytes(), written].concat();
            prop_assert_ne!(AppendRemains::of(&tail, added.as_bytes()), AppendRemains::Unfinished);
        }
    }
}
