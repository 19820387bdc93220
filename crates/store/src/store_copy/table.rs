//! A table as a copy sees it: columns, rows in the order of the key, and a checksum of them.
//!
//! All texts are bytes here, since PostgreSQL keeps them as bytes. Both engines order numbers by
//! size and bytes one by one, so the rows of equal tables come in the same order.

use std::sync::OnceLock;

use ring::digest::{Context, SHA256};

use crate::records::copying::CREATION;
pub(crate) use crate::sql::Cell;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// An integer of 64 bits.
    Number,
    /// A text in SQLite, and the bytes of its UTF-8 on PostgreSQL.
    Text,
    /// Bytes on both engines.
    Bytes,
}

/// A table that both engines have.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: OnceLock<Vec<(&'static str, ColumnKind)>>,
    /// The number of columns that the key has.
    pub(crate) key: usize,
    /// The tables whose rows this table names.
    pub(crate) names_rows_of: &'static [&'static str],
    /// Whether the rows belong to no person alone on PostgreSQL.
    pub(crate) is_shared: bool,
}

impl Table {
    /// Describes a table whose rows belong to one person each.
    pub(crate) const fn new(
        name: &'static str,
        key: usize,
        names_rows_of: &'static [&'static str],
    ) -> Self {
        Self { name, columns: OnceLock::new(), key, names_rows_of, is_shared: false }
    }

    /// Describes a table whose rows belong to no person alone on PostgreSQL.
    pub(crate) const fn shared(name: &'static str, key: usize) -> Self {
        Self { name, columns: OnceLock::new(), key, names_rows_of: &[], is_shared: true }
    }

    /// Returns the columns as the schema in SQLite has them; those of the key come first.
    pub(crate) fn columns(&self) -> &[(&'static str, ColumnKind)] {
        self.columns.get_or_init(|| columns_of(self.name))
    }

    /// Returns the names of all columns, with commas between them.
    pub(crate) fn column_list(&self) -> String {
        let names: Vec<&str> = self.columns().iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// Returns the names of the columns of the key, with commas between them.
    pub(crate) fn key_list(&self) -> String {
        let names: Vec<&str> =
            self.columns().iter().take(self.key).map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// Returns the value of a column in a row; `None` if there is no such column.
    pub(crate) fn cell<'r>(&self, row: &'r [Cell], column: &str) -> Option<&'r Cell> {
        let at = self.columns().iter().position(|(name, _)| *name == column)?;
        row.get(at)
    }

    /// Returns the key of a row.
    pub(crate) fn key_of(&self, row: &[Cell]) -> Key {
        Key(row.iter().take(self.key).cloned().collect())
    }
}

impl Cell {
    const NULL: u8 = 0;
    const NUMBER: u8 = 1;
    const BYTES: u8 = 2;

    /// Returns the size of the value in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Integer(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns the number; `None` for anything else.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the bytes, also of a text; `None` for anything else.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Passes the value to `take`, so that no two lists of values give the same bytes. A text is
    /// its bytes.
    fn encode(&self, take: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Null => take(&[Self::NULL]),
            Self::Integer(number) => {
                take(&[Self::NUMBER]);
                take(&number.to_be_bytes());
            }
            Self::Text(_) | Self::Bytes(_) => {
                let bytes = self.bytes().unwrap_or_default();
                take(&[Self::BYTES]);
                take(&(bytes.len() as u64).to_be_bytes());
                take(bytes);
            }
        }
    }
}

/// Reads the columns of a table from the text that makes the tables in SQLite: a line for each.
fn columns_of(table: &str) -> Vec<(&'static str, ColumnKind)> {
    let begin = format!("CREATE TABLE {table} (");
    let lines = CREATION.lines().skip_while(|line| *line != begin).skip(1);
    let column = |line: &'static str| {
        let (name, rest) = line.trim().split_once(' ')?;
        let kind = match rest.split([' ', ',']).next()? {
            "INTEGER" => ColumnKind::Number,
            "TEXT" => ColumnKind::Text,
            "BLOB" => ColumnKind::Bytes,
            // A comment, or a key of several columns.
            _ => return None,
        };
        Some((name, kind))
    };
    lines.take_while(|line| !line.starts_with(')')).filter_map(column).collect()
}

/// The values of a row, in the order of the columns.
pub(crate) type Row = Vec<Cell>;

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) Vec<Cell>);

impl Key {
    /// Encodes the key for the record of progress.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for cell in &self.0 {
            cell.encode(&mut |part| bytes.extend_from_slice(part));
        }
        bytes
    }

    /// Decodes what [`Key::encode`] made. Returns `None` for other bytes.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut cells = Vec::new();
        while let Some((kind, rest)) = bytes.split_first() {
            let (cell, rest) = match *kind {
                Cell::NULL => (Cell::Null, rest),
                Cell::NUMBER => {
                    let (number, rest) = rest.split_first_chunk()?;
                    (Cell::Integer(i64::from_be_bytes(*number)), rest)
                }
                Cell::BYTES => {
                    let (length, rest) = rest.split_first_chunk()?;
                    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
                    let (value, rest) = rest.split_at_checked(length)?;
                    (Cell::Bytes(value.to_vec()), rest)
                }
                _ => return None,
            };
            cells.push(cell);
            bytes = rest;
        }
        Some(Self(cells))
    }
}

/// The number of rows of a table, and the SHA-256 over all of them in the order of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableChecksum {
    /// The name of the table.
    pub table: &'static str,
    /// The number of rows.
    pub rows: u64,
    /// The digest of all rows.
    pub sha256: [u8; 32],
}

/// A checksum of rows that come one after another.
pub(crate) struct Checksum {
    digest: Context,
    rows: u64,
}

impl Checksum {
    pub(crate) fn new() -> Self {
        Self { digest: Context::new(&SHA256), rows: 0 }
    }

    pub(crate) fn add(&mut self, row: &[Cell]) {
        self.rows += 1;
        self.digest.update(&(row.len() as u64).to_be_bytes());
        for cell in row {
            cell.encode(&mut |part| self.digest.update(part));
        }
    }

    pub(crate) fn finish(self, table: &'static str) -> TableChecksum {
        let mut sha256 = [0; 32];
        for (to, from) in sha256.iter_mut().zip(self.digest.finish().as_ref()) {
            *to = *from;
        }
        TableChecksum { table, rows: self.rows, sha256 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_decodes_to_what_it_was_and_cut_bytes_to_nothing() {
        let key = Key(vec![Cell::Bytes(b"a\0b".to_vec()), Cell::Null, Cell::Integer(-7)]);
        let bytes = key.encode();
        assert_eq!(Key::decode(&bytes).as_ref(), Some(&key));
        assert_eq!(Key::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Key::decode(&[9]), None);
    }

    #[test]
    fn rows_that_differ_only_in_where_a_value_ends_have_other_checksums() {
        let sum = |rows: &[&[&str]]| {
            let mut sum = Checksum::new();
            for row in rows {
                let cells: Row =
                    row.iter().map(|text| Cell::Bytes(text.as_bytes().to_vec())).collect();
                sum.add(&cells);
            }
            sum.finish("t").sha256
        };
        let all = [sum(&[&["ab", "c"]]), sum(&[&["a", "bc"]]), sum(&[&["ab"], &["c"]]), sum(&[])];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
