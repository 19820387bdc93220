//! What is true in Stile, and nothing that happens.
//!
//! Paths, scopes, permits, hashes, lines, edits, windows, cursors and every error live here as
//! values and pure functions. This crate opens no file, reads no clock and awaits nothing, so each
//! rule can be tested alone and is the same for every transport and every store.

mod civil;
pub mod edit;
pub mod error;
pub mod facts;
pub mod file_cursor;
pub mod hash;
pub mod journal;
pub mod json_string;
pub mod limits;
pub mod line_search;
pub mod lines;
pub mod listing;
pub mod notes;
pub mod path;
pub mod percent;
pub mod permit;
pub mod records;
pub mod role;
pub mod scope;
pub mod window;
