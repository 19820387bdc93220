//! What an agent can do in a space: the one tool system, and the tools for files and notes.
//!
//! A tool is a file. Its input type declares the name, the description, the schema, the permits and
//! the work ([`tool::Tool`]). A [`toolset::Toolset`] holds the tools over one thing: [`space`] for
//! files, [`remote_notes`] for notes that another server has; records are in a crate of their own.
//! No tool knows a transport or learns who calls, so no tool can decide for a caller.

pub mod answer;
pub mod arguments;
pub mod call_log;
pub mod caller;
pub mod definition;
pub mod note_session;
pub mod notes;
pub mod prompts;
mod refusal;
pub mod remote_notes;
pub mod space;
pub mod tool;
pub mod toolset;

pub use stile_store::{incident, new_incident};
