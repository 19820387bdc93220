//! Finding names and texts in a folder: patterns, queries, and where a walk continues.
//!
//! The store walks. Here is what it looks for ([`name_pattern`], [`text_query`]), how a long line
//! is shown ([`hit_line`]), and where the next call goes on ([`walk_cursor`]).

pub mod hit_line;
pub mod name_pattern;
pub mod text_query;
pub mod walk_cursor;
