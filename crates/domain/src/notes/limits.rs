//! The limits of notes and of the answers about them.

/// The most headings in an answer. Nobody reads a longer table of contents.
pub const MAX_HEADINGS: usize = 500;
/// The longest heading text or title, in Unicode scalar values.
pub const MAX_TEXT_CHARS: usize = 1024;
/// The largest answer, in bytes of compact JSON.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The largest note, in bytes. A larger file is refused unread.
pub const MAX_NOTE_BYTES: u64 = 4 * 1024 * 1024;
/// The longest body that is parsed, in UTF-16 code units.
pub const MAX_BODY_UNITS: usize = 1_000_000;
/// The longest front matter that is read, in bytes. A longer one counts as absent.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 * 1024;
/// The most values of a facet that is a list.
pub const MAX_FACET_VALUES: usize = 100;
/// The longest value of a facet, in Unicode scalar values.
pub const MAX_FACET_CHARS: usize = 256;
