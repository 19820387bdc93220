//! What is in a note, and nothing of what it says.
//!
//! Four answers are derived from one Markdown text: its outline, its tree of headings, its facets,
//! and its sections. The text is borrowed, walked once as a stream of events, and let go; no syntax
//! tree is built and nothing recurses, so the size of a note bounds time and memory. The types that
//! leave ([`answers`]) have no field that a body could be in: what must not be told cannot be told.
//!
//! *Source*: the contract of the note tools; CommonMark 0.31.2 without extensions. "White space"
//! and trimming are JavaScript's here, since the notes' other readers are JavaScript programs.

pub mod answers;
mod commonmark;
mod dates;
mod derive;
mod facets;
mod front_matter;
mod headings;
mod note_path;
pub mod portable;
mod whitespace;
mod yaml;

pub use derive::{NoteTooLarge, document_tree, metadata_facets, note_outline, section_source};
pub use front_matter::{Note, parse_front_matter};
pub use note_path::NotePath;

/// Headings that an answer holds at most. More are a table of contents that nobody reads.
pub const MAX_HEADINGS: usize = 500;
/// Unicode scalar values of a heading's text, and of a title, at most.
pub const MAX_TEXT_CHARS: usize = 1024;
/// Bytes of JSON that an answer has at most, whatever the note.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// Bytes that a note has at most; a larger one is refused unread.
pub const MAX_NOTE_BYTES: u64 = 4 * 1024 * 1024;
/// UTF-16 code units that a body has at most; a longer one is not parsed.
pub const MAX_BODY_UNITS: usize = 1_000_000;
/// Bytes of front matter that are looked at; a longer one counts as none.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 * 1024;
/// Values of a facet that is a list, at most.
pub const MAX_FACET_VALUES: usize = 100;
/// Characters of a facet's value, at most.
pub const MAX_FACET_CHARS: usize = 256;
