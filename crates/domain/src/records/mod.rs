//! A person's records: what they are, who may see which part of them, and how they are read in
//! pieces.
//!
//! A *connection* is one configured source, a *stream* a named set of records in it, a *record* an
//! object of named [`value::Value`]s under a key. What a source may hold is its [`declaration`];
//! what a client may see is a [`grant`]. Text is counted in Unicode scalar values everywhere, and
//! kept in [`pieces`] once it is long.
//!
//! Pure like all of this crate: rows come in as bytes, times as numbers, and a store runs what is
//! decided here.

pub mod aggregator;
pub mod authority;
pub mod blob;
pub mod decimal;
pub mod declaration;
pub mod filter;
pub mod find;
pub mod grant;
pub mod handle;
pub mod identifiers;
pub mod indexed_fields;
pub mod infer;
pub mod instant;
pub mod key_history;
pub mod order;
pub mod pieces;
pub mod problem;
pub mod record_id;
pub mod request;
pub mod row;
pub mod sealed_cursor;
pub mod selector;
pub mod stored_body;
pub mod tokenizer;
pub mod value;
pub mod zone;
