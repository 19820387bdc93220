//! What is true in Stile, and nothing that happens.
//!
//! Paths, scopes, permits, hashes, lines, edits, windows, cursors and every error live here as values
//! and pure functions. This crate opens no file, reads no clock and awaits nothing, so each rule can be
//! tested alone and is the same for every transport and every store.

pub mod path;
pub mod scope;
pub mod permit;
pub mod hash;
pub mod lines;
pub mod edit;
pub mod search;
pub mod window;
pub mod cursor;
pub mod listing;
pub mod facts;
pub mod journal;
pub mod limits;
pub mod error;
