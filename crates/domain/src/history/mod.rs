//! What the history keeps of each change of a file, and how such changes are undone.
//!
//! With the history the owner takes back what agents did. Its rules are here: what is recorded of a
//! change, and how people name a version. `retention` decides which versions stay when there is no
//! room for all, `lives` follows each file through all changes, `undo_plan` decides which steps
//! take changes back, and `folder_modes` which modes folders get then.

pub mod folder_modes;
pub mod lives;
pub mod past_change;
pub mod past_folder;
pub mod retention;
mod timeline;
pub mod undo_plan;
pub mod version;
