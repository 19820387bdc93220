//! Every tool there is, in reading order.

use crate::tool::Declared;
use crate::{
    file_create, file_remove, note_facets, note_outline, note_sections, note_tree, text_append,
    text_insert, text_read, text_replace,
};

/// All tools. The list that a caller sees is filtered by its scopes and sorted by name.
pub const TOOLS: &[Declared] = &[
    Declared::of::<file_create::FileCreate>(),
    Declared::of::<file_remove::FileRemove>(),
    Declared::of::<text_read::TextRead>(),
    Declared::of::<text_replace::TextReplace>(),
    Declared::of::<text_insert::TextInsert>(),
    Declared::of::<text_append::TextAppend>(),
    Declared::of::<note_outline::GetNoteOutline>(),
    Declared::of::<note_tree::GetDocumentTree>(),
    Declared::of::<note_facets::GetMetadataFacets>(),
    Declared::of::<note_sections::GetSectionSource>(),
];

/// How many of them are about files; those that tell the structure of a note come after.
const FILE_TOOLS: usize = 6;

/// All tools but those that tell the structure of a note.
pub const FILES: &[Declared] = TOOLS.split_at(FILE_TOOLS).0;

/// The tool of that name, in either spelling: `file.create` or `file_create`.
pub fn find(tools: &[Declared], name: &str) -> Option<Declared> {
    tools.iter().find(|tool| tool.name == name || underscored(tool.name) == name).copied()
}

/// The spelling for clients that refuse dots in tool names.
pub fn underscored(name: &str) -> String {
    name.replace('.', "_")
}
