//! Finding names and texts in a folder: patterns, queries, and where a walk continues.
//!
//! The store walks. Here is what it looks for ([`name_pattern`], [`text_query`]), how a long line
//! is shown ([`hit_line`]), which times are meant ([`time_bound`]), where the next call goes on
//! ([`walk_cursor`]), and which names are close to one that is missing ([`near_names`]).

pub mod hit_line;
pub mod name_pattern;
pub mod near_names;
pub mod text_query;
pub mod time_bound;
pub mod walk_cursor;
