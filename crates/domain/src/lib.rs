//! The rules of Stile as values and pure functions.
//!
//! Paths, scopes, permits, hashes, lines, edits, windows, cursors and every error are defined here.
//! This crate opens no file, reads no clock and awaits nothing. So a test can check each rule
//! alone, and every transport and every store follows the same rule.

pub mod append_recovery;
pub mod ascii_name;
pub mod audit;
pub mod base64;
pub mod byte_size;
mod civil;
pub mod client_file;
pub mod client_name;
pub mod document;
pub mod edit;
pub mod error;
pub mod facts;
pub mod file_cursor;
pub mod file_uri;
pub mod find;
pub mod form_upload;
pub mod guard;
pub mod hash;
pub mod history;
mod inline_schema;
pub mod journal;
pub mod journal_chain;
pub mod json;
pub mod limits;
pub mod line_search;
pub mod lines;
pub mod listing;
pub mod media_type;
pub mod near_miss;
pub mod notes;
pub mod owner_password;
pub mod path;
pub mod percent;
pub mod permit;
pub mod prompts;
pub mod recall;
pub mod records;
pub mod role;
mod same_name;
pub mod scope;
pub mod shell_word;
pub mod shortened_id;
pub mod shown_paths;
pub mod sign_in;
mod sought_text;
pub mod text_diff;
pub mod text_edits;
pub mod text_encoding;
pub mod tool_name;
pub mod tree_hash;
pub mod unseen;
pub mod varint;
pub mod window;
pub mod windows_names;
