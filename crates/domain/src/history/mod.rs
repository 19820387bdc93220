//! What the history keeps of each change of a file, and how such changes are undone.
//!
//! The history is the owner's way back. Its rules are here: what is recorded of a change, how
//! people name a version, in `retention` which versions stay where there is no room for all, in
//! `undo_plan` which steps take changes back, and in `folder_modes` what modes folders get then.

pub mod folder_modes;
pub mod past_change;
pub mod past_folder;
pub mod retention;
pub mod undo_plan;
pub mod version;
