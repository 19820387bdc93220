//! What an agent can do: one file per tool, resources beside them.
//!
//! A tool's input struct is the tool: its doc comment is the description, its fields are the
//! schema, `ask` says which permits it needs and `run` uses them. No tool knows a transport or
//! learns who is asking, so none can decide for them. [`registry::TOOLS`] lists them all.

pub mod arguments;
pub mod calls;
pub mod hosted;
pub mod registry;
pub mod tool;
pub mod whole_note;

pub mod file_create;
pub mod file_remove;
pub mod list;
pub mod note_facets;
pub mod note_outline;
pub mod note_sections;
pub mod note_tree;
mod notes;
pub mod text_append;
pub mod text_insert;
pub mod text_read;
pub mod text_replace;

pub use stile_store::{incident, new_incident};
