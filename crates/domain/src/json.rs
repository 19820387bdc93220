//! JSON: three readers and one writer.
//!
//! `pieces` reads valid JSON that arrives in pieces, `strict` refuses what two parsers may read
//! differently, and `skipping` finds where a value ends without reading it. `text` writes strings
//! and objects. Rows of records have a reader of their own, `records::row`, which keeps the
//! spelling of numbers and says at which byte a row is wrong.

pub(crate) mod pieces;
pub mod skipping;
pub mod strict;
pub mod text;
