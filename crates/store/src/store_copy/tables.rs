//! The tables of records that a copy takes over, each after the tables that it names.
//!
//! `tokens`, the index of searches, is not among them: the copy makes it anew. `history` has one
//! row, which each engine keeps in its own form.

use super::table::ColumnKind::{Bytes, Number, Text};
use super::table::Table;

/// The tables whose rows decide what the index of searches holds.
pub(super) const INDEXED: [&str; 4] = ["streams", "records", "pieces", "tags"];

/// All tables of records.
pub(super) static TABLES: [Table; 11] = [
    Table {
        name: "connections",
        columns: &[("id", Number), ("name", Text)],
        key: 1,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "streams",
        columns: &[
            ("id", Number),
            ("connection", Number),
            ("name", Text),
            ("declaration", Text),
            ("terms", Text),
            ("revision", Number),
        ],
        key: 1,
        names_rows_of: &["connections"],
        is_shared: false,
    },
    Table {
        name: "tags",
        columns: &[("id", Number), ("stream", Number), ("field", Text)],
        key: 1,
        names_rows_of: &["streams"],
        is_shared: false,
    },
    Table {
        name: "records",
        columns: &[
            ("id", Number),
            ("stream", Number),
            ("key", Bytes),
            ("emitted", Number),
            ("ord", Bytes),
            ("happened", Number),
            ("body", Bytes),
        ],
        key: 1,
        names_rows_of: &["streams"],
        is_shared: false,
    },
    Table {
        name: "pieces",
        columns: &[("id", Number), ("text", Bytes)],
        key: 1,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "blobs",
        columns: &[("id", Number), ("digest", Bytes), ("bytes", Number), ("put", Number)],
        key: 1,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "blob_pieces",
        columns: &[("id", Number), ("data", Bytes)],
        key: 1,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "blob_uses",
        columns: &[("digest", Bytes), ("media_type", Text), ("record", Number), ("field", Text)],
        key: 4,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "changes",
        columns: &[
            ("version", Number),
            ("stream", Number),
            ("key", Bytes),
            ("at", Number),
            ("record", Number),
            ("emitted", Number),
            ("body", Bytes),
        ],
        key: 1,
        names_rows_of: &["streams"],
        is_shared: false,
    },
    Table {
        name: "grants",
        columns: &[("id", Text), ("terms", Text), ("revoked", Number), ("bound", Text)],
        key: 1,
        names_rows_of: &[],
        is_shared: false,
    },
    Table {
        name: "seals",
        columns: &[("id", Bytes), ("secret", Bytes), ("made", Number)],
        key: 1,
        names_rows_of: &[],
        is_shared: true,
    },
];

/// Returns these tables and all that name rows of them, directly or not.
pub(super) fn with_dependents(names: &[&'static str]) -> Vec<&'static str> {
    let mut all = names.to_vec();
    for table in &TABLES {
        let depends = table.names_rows_of.iter().any(|name| all.contains(name));
        if depends && !all.contains(&table.name) {
            all.push(table.name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_after_those_that_it_names() {
        for (at, table) in TABLES.iter().enumerate() {
            for name in table.names_rows_of {
                assert!(TABLES[..at].iter().any(|before| before.name == *name), "{}", table.name);
            }
        }
        assert_eq!(
            with_dependents(&["connections", "seals"]),
            ["connections", "seals", "streams", "tags", "records", "changes"]
        );
        assert_eq!(with_dependents(&["grants"]), ["grants"]);
    }
}
