//! The tables of tokens and sign-in as a copy from one database to the other sees them.
//!
//! Both databases have the same tables and columns. A copy reads all rows, since there are few, and
//! puts them in the place of the other's in one transaction.

use super::private::create_private;
use super::state_dir::{StateDir, StateError, io_error};
use super::tables::{Cell, TableError, Tables, Value};
use super::tokens::TokenStore;

/// A table of tokens or sign-in.
#[derive(Debug)]
pub(crate) struct AccessTable {
    pub(crate) name: &'static str,
    /// Whether a row of the table is something that a person would lose.
    is_kept: bool,
}

const fn table(name: &'static str) -> AccessTable {
    AccessTable { name, is_kept: false }
}

const fn kept(name: &'static str) -> AccessTable {
    AccessTable { name, is_kept: true }
}

/// All tables of tokens and sign-in. One text makes them in both databases, so their columns have
/// one order.
pub(crate) static ACCESS_TABLES: [AccessTable; 12] = [
    kept("tokens"),
    table("spaces"),
    kept("clients"),
    kept("authorizations"),
    table("authorization_codes"),
    table("refresh_tokens"),
    table("authorization_tokens"),
    table("browser_sessions"),
    table("sign_in_links"),
    kept("owner_password"),
    kept("passkeys"),
    table("token_uses"),
];

/// The values of a row.
pub(crate) type AccessRow = Vec<Cell>;

impl AccessTable {
    fn select(&self) -> String {
        format!("SELECT * FROM {}", self.name)
    }
}

impl TokenStore {
    /// Returns whether the state folder has tables of tokens, which [`TokenStore::open`] would not
    /// create.
    pub(crate) fn exists(state: &StateDir) -> bool {
        state.path().join(super::tokens::NAME).exists()
    }

    /// Returns whether there is a token, a client, a passkey or a password.
    pub(crate) fn holds_access(&self) -> Result<bool, StateError> {
        self.read("look up", |tables| {
            for table in ACCESS_TABLES.iter().filter(|table| table.is_kept) {
                let text = format!("{} LIMIT 1", table.select());
                if tables.first(&text, &[], |_| Ok(()))?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Reads the rows of all tables at one moment, in the order of [`ACCESS_TABLES`]. The rows of a
    /// table have an order that is the same in both databases.
    pub(crate) fn all_rows(&self) -> Result<Vec<Vec<AccessRow>>, StateError> {
        self.read("read", |tables| {
            let rows = |table: &AccessTable| {
                let mut rows = tables.rows(&table.select(), &[], |row| Ok(row.cells().to_vec()))?;
                rows.sort();
                Ok(rows)
            };
            ACCESS_TABLES.iter().map(rows).collect()
        })
    }

    /// Puts rows that [`TokenStore::all_rows`] returned in the place of all rows.
    pub(crate) fn replace_all(&self, rows: &[Vec<AccessRow>]) -> Result<(), StateError> {
        self.change("replace", |tables| replace(tables, rows))
    }
}

fn replace(tables: Tables<'_>, rows: &[Vec<AccessRow>]) -> Result<(), TableError> {
    for (table, rows) in ACCESS_TABLES.iter().zip(rows) {
        tables.execute(&format!("DELETE FROM {}", table.name), &[])?;
        for row in rows {
            let places: Vec<String> = (1..=row.len()).map(|at| format!("?{at}")).collect();
            let insert = format!("INSERT INTO {} VALUES ({})", table.name, places.join(", "));
            let values: Vec<Value<'_>> = row.iter().map(Cell::as_value).collect();
            tables.execute(&insert, &values)?;
        }
    }
    Ok(())
}

/// Puts a file in the place of another one, which nobody can read half of.
pub(super) fn replace_file(state: &StateDir, name: &str, bytes: &[u8]) -> Result<(), StateError> {
    use std::io::Write as _;
    let path = state.path().join(name);
    let temporary = state.path().join(format!(".{name}-{}.tmp", uuid::Uuid::new_v4().simple()));
    create_private(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, &path))
        .and_then(|()| super::private::sync_folder(state.path()))
        .map_err(io_error("replace", &path))
}
