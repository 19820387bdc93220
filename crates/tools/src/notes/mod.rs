//! The four note tools: what is in one note, wherever the note comes from.
//!
//! A note tool is declared once. [`NoteToolEntry`] makes two tools of the declaration: a local one
//! over a space and a remote one over a server that has the notes. The contract of the note tools
//! comes from elsewhere, and so does the form of their refusals: a flat object of two strings. Only
//! a missing scope reads as it does for every other tool, since it is decided before a tool runs.

use stile_domain::role::Role;
use stile_store::space::Space;

use self::local::Local;
use self::note_tool::NoteTool;
use crate::remote_notes::tool::{Remote, RemoteNote};
use crate::tool::ToolEntry;

pub mod facets;
mod local;
pub mod note_tool;
pub mod outline;
pub mod sections;
pub mod tree;

/// The note tools, in reading order.
pub const NOTE_TOOLS: &[NoteToolEntry] = &[
    NoteToolEntry::new::<outline::GetNoteOutline>(),
    NoteToolEntry::new::<tree::GetDocumentTree>(),
    NoteToolEntry::new::<facets::GetMetadataFacets>(),
    NoteToolEntry::new::<sections::GetSectionSource>(),
];

/// A note tool in its two forms.
pub struct NoteToolEntry {
    /// The tool over the notes of a space.
    pub local: ToolEntry<Space>,
    /// The tool over notes that another server has.
    pub remote: ToolEntry<RemoteNote>,
    /// The roles that may use the remote tool.
    pub roles: &'static [Role],
}

impl NoteToolEntry {
    /// Declares both forms of a note tool.
    pub const fn new<T: NoteTool>() -> Self {
        Self {
            local: ToolEntry::new::<Local<T>>(),
            remote: ToolEntry::new::<Remote<T>>(),
            roles: T::ROLES,
        }
    }
}
