//! The structure of a Markdown note: outline, heading tree, facets and sections, without its text.
//!
//! The functions of `derive` borrow the text and walk its Markdown events once. They build no
//! syntax tree and never recurse, so the size of a note bounds time and memory. The types of
//! [`answers`] have no field for a body, so no code can leak one. The other modules read front
//! matter, YAML, and notes that travel as JSON ([`portable`]).
//! *Source*: the contract of the note tools; CommonMark 0.31.2 without extensions. White space and
//! trimming follow JavaScript, because the other readers of the notes are JavaScript programs.

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
