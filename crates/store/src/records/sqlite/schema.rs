//! The tables of records.
//!
//! `records` has the fields of a record without its long values. `pieces` has the long values,
//! under numbers that [`stile_domain::records::pieces`] makes. `tokens` is the index of search
//! tokens: one row for each piece of a long text, under the same number, and one for all short
//! texts of a record, under the number of the first. The domain cuts texts into tokens, and the
//! tokenizer of the table only splits at spaces. Before each token is the number of its stream and
//! field in `tags`, so that a search reads the lists of granted fields only. `field_values` is the
//! index by value, which `field_index` describes.

use crate::state::SqliteSchema;

/// Makes all tables.
pub(in crate::records) const CREATION: &str = include_str!("schema.sql");

/// The schema of the database. `Stir` tells the database from those of other programs.
pub(super) const SCHEMA: SqliteSchema =
    SqliteSchema { application: 0x5374_6972, creation: CREATION, changes: &[] };
