//! The structure of a Markdown note: outline, heading tree, facets and sections, without its text.
//!
//! The functions of `derive` borrow the text and walk its Markdown events once. They build no
//! syntax tree and never recurse, so the size of a note bounds time and memory. The types of
//! [`answers`] have no field for a body, so no code can leak one. The other modules read front
//! matter, YAML, and notes that travel as JSON ([`portable`]).
//! *Source*: the contract of the note tools; CommonMark 0.31.2 without extensions. White space and
//! trimming follow JavaScript, because the other readers of the notes are JavaScript programs.

pub mod answers;
pub mod canvas;
mod commonmark;
mod dates;
mod derive;
mod facets;
mod file_links;
mod front_fences;
mod front_matter;
mod headings;
mod limits;
mod line_numbers;
mod link_places;
pub mod link_rewrite;
mod link_spelling;
pub mod links;
pub mod note_facts;
mod note_path;
pub mod note_property;
pub mod note_query;
pub mod portable;
pub mod property_edit;
pub mod section;
pub mod tags;
mod whitespace;
mod yaml;

pub use derive::{
    NoteTooLarge, document_tree, metadata_facets, note_outline, note_title, section_source,
};
pub(crate) use front_fences::FrontFences;
pub use front_matter::{Note, parse_front_matter};
pub use limits::{
    MAX_ANSWER_BYTES, MAX_BODY_UNITS, MAX_FACET_CHARS, MAX_FACET_VALUES, MAX_FRONT_MATTER_BYTES,
    MAX_HEADINGS, MAX_NOTE_BYTES, MAX_TEXT_CHARS,
};
pub use note_path::NotePath;
