//! A person's records: what they are, who may see which parts of them, and how long values are read
//! in pieces.
//!
//! A *connection* is one configured source. A *stream* is a named set of records in a connection. A
//! *record* is an object of named [`value::FieldValue`]s under a key. A [`declaration`] says what a
//! stream may hold, and a [`grant`] says what a client may see. Text is counted in Unicode scalar
//! values everywhere, and a long text is kept in [`pieces`].
//!
//! This module is pure, like the whole crate. Rows come in as bytes and times as numbers; the store
//! acts on what is decided here.

pub mod aggregator;
pub mod authority;
pub mod blob;
pub mod decimal;
pub mod declaration;
pub mod field_name;
pub mod filter;
pub mod find;
pub mod grant;
pub mod half_day;
pub mod handle;
pub mod identifiers;
pub mod indexed_fields;
pub mod infer;
pub mod instant;
pub mod json_pointer;
pub mod key_history;
pub mod list_members;
pub mod list_text;
pub mod order;
pub mod pieces;
pub mod problem;
pub mod record_id;
pub mod recurrence;
pub mod relevance;
pub mod request;
pub mod row;
pub mod sealed_cursor;
pub mod selector;
pub mod shown_records;
pub mod source_version;
pub mod stored_body;
pub mod table;
pub mod tokenizer;
pub mod unix_time;
pub mod value;
pub mod value_key;
pub mod visible_time;
pub mod zone;
