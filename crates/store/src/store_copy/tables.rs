//! The tables of records that a copy takes over, each after the tables that it names.
//!
//! `tokens`, the index of searches, is not among them: the copy makes it anew. `history` has one
//! row, which each engine keeps in its own form.

use super::table::Table;

/// The tables whose rows decide what the index of searches holds.
pub(super) const INDEXED: [&str; 4] = ["streams", "records", "pieces", "tags"];

/// All tables of records.
pub(super) static TABLES: [Table; 11] = [
    Table::new("connections", 1, &[]),
    Table::new("streams", 1, &["connections"]),
    Table::new("tags", 1, &["streams"]),
    Table::new("records", 1, &["streams"]),
    Table::new("pieces", 1, &[]),
    Table::new("blobs", 1, &[]),
    Table::new("blob_pieces", 1, &[]),
    Table::new("blob_uses", 4, &[]),
    Table::new("changes", 1, &["streams"]),
    Table::new("grants", 1, &[]),
    Table::shared("seals", 1),
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
    use crate::records::copying::CREATION;

    #[test]
    fn every_table_of_the_schema_that_is_not_made_anew_is_copied_with_all_its_columns() {
        let made_anew = ["history", "field_indexes", "field_runs", "field_values"];
        let schema = CREATION.split("CREATE TABLE ").skip(1);
        let names = schema.filter_map(|table| table.split(' ').next());
        let copied: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        for name in names.filter(|name| !made_anew.contains(name)) {
            assert!(copied.contains(&name), "{name}");
        }
        let columns =
            |name: &str| TABLES.iter().find(|table| table.name == name).unwrap().column_list();
        assert_eq!(columns("changes"), "version, stream, key, at, record, emitted, body");
        assert_eq!(columns("blob_uses"), "digest, media_type, record, field");
        assert_eq!(columns("blobs"), "id, digest, bytes, put");
    }

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
