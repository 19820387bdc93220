//! The people of a database as its operator sees them: who they are, how much room their rows take,
//! and how all rows of one are removed.
//!
//! The tables of people are found in the catalog: those of the schema `stile` with a column
//! `tenant`. So a table that a later version adds is measured and emptied like the others.

use std::collections::BTreeMap;

use stile_domain::records::instant::Instant;
use tokio_postgres::Row;

use super::connection::PgConnection;
use super::database::Database;
use super::error::{DatabaseError, PgError};
use super::params::params;
use super::tenant::{Tenant, digest, operators_digest};
use crate::read_limit::ReadLimit;

/// A person who has rows of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPerson {
    /// The identifier of the tenant, which also names the folder of the person's space.
    pub id: String,
    /// When the person was made.
    pub made: Instant,
    /// Who issues the person's tokens.
    pub issuer: Option<String>,
    /// The subject of the person's tokens.
    pub name: Option<String>,
    /// How many records the person has.
    pub records: u64,
    /// The SHA-256 of the issuer, a zero byte, and the subject.
    digest: Vec<u8>,
}

impl KnownPerson {
    /// Returns whether the person is this subject of an issuer.
    pub fn is(&self, issuer: &str, subject: &str) -> bool {
        self.digest == digest(issuer, subject)
    }
}

/// What the rows of one table take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRoom {
    /// The name of the table.
    pub table: String,
    /// The number of rows.
    pub rows: u64,
    /// The bytes of the rows, without indexes.
    pub bytes: u64,
}

impl Database {
    /// Returns the people with rows of their own, the earliest first. The one owner of a database
    /// and the operator are not among them.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn people(&self) -> Result<Vec<KnownPerson>, DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let found = people(&connection);
        connection.end("ROLLBACK");
        Ok(found?)
    }

    /// Returns what the rows of a person take, by table. Reads all of them.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn room_of(&self, tenant: &Tenant) -> Result<Vec<TableRoom>, DatabaseError> {
        let connection = self.begin_long_read_with(&ReadLimit::none(), &announced(tenant))?;
        let found = tables(&connection).and_then(|tables| {
            let room = |table: &String| {
                let text = format!(
                    "SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0)::bigint \
                     FROM {table} AS t WHERE tenant = $1"
                );
                let row = connection.one(&text, params![tenant.number()])?;
                let row = row.ok_or(PgError::NoAnswer)?;
                let (rows, bytes) = (count(&row, 0)?, count(&row, 1)?);
                Ok(TableRoom { table: table.clone(), rows, bytes })
            };
            tables.iter().map(room).collect::<Result<Vec<_>, PgError>>()
        });
        connection.end("ROLLBACK");
        Ok(found?)
    }

    /// Removes a person with all rows, in one transaction, and returns how many rows there were.
    /// The person is another one if they come again.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer; nothing was removed.
    pub fn remove_person(&self, tenant: &Tenant) -> Result<u64, DatabaseError> {
        let connection = self.begin_write_with(&announced(tenant))?;
        match remove_rows(&connection, tenant) {
            Ok(rows) => {
                connection.commit()?;
                Ok(rows)
            }
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error.into())
            }
        }
    }

    /// Gives the records of every tenant another lineage, so that no client goes on from a moment
    /// that this database, which was restored from a backup, has never seen. Returns how many
    /// tenants there are.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer. A part of the tenants may have another
    /// lineage then; the same call can be made again.
    pub fn begin_lineages(&self) -> Result<u64, DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let rows = connection.rows("SELECT number FROM tenants ORDER BY number", &[]);
        connection.end("ROLLBACK");
        let mut changed = 0;
        for row in rows? {
            let number: i64 = row.try_get(0).map_err(PgError::from)?;
            let connection = self.begin_write_with(&announced_number(number))?;
            let text = "UPDATE history SET lineage = uuid_send(gen_random_uuid()) \
                        WHERE tenant = $1";
            match connection.execute(text, params![number]) {
                Ok(rows) => {
                    connection.commit()?;
                    changed += rows;
                }
                Err(error) => {
                    connection.end("ROLLBACK");
                    return Err(error.into());
                }
            }
        }
        Ok(changed)
    }

    /// Returns what the folder of a person's files is recognised by; `None` if none was served yet.
    pub(crate) fn folder_of(&self, tenant: &Tenant) -> Result<Option<String>, PgError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let text = "SELECT folder FROM tenants WHERE number = $1";
        let row = connection.one(text, params![tenant.number()]);
        connection.end("ROLLBACK");
        row?.map_or(Ok(None), |row| Ok(row.try_get(0)?))
    }

    /// Records what the folder of a person's files is recognised by.
    pub(crate) fn set_folder(&self, tenant: &Tenant, folder: &str) -> Result<(), PgError> {
        let connection = self.begin_write()?;
        let text = "UPDATE tenants SET folder = $2 WHERE number = $1";
        match connection.execute(text, params![tenant.number(), folder]) {
            Ok(_) => connection.commit(),
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Returns the identifier of each tenant whose folder was served, and what that folder is
    /// recognised by.
    pub(crate) fn folders(&self) -> Result<Vec<(String, String)>, PgError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let text = "SELECT id, folder FROM tenants WHERE folder IS NOT NULL ORDER BY number";
        let rows = connection.rows(text, &[]);
        connection.end("ROLLBACK");
        rows?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Returns all tenants, that of the one owner and that of the operator too.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn tenants(&self) -> Result<Vec<Tenant>, DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let text = "SELECT number, id, subject IS NULL FROM tenants ORDER BY number";
        let rows = connection.rows(text, &[]);
        connection.end("ROLLBACK");
        Ok(rows?.iter().map(Tenant::of_row).collect::<Result<_, PgError>>()?)
    }
}

fn announced(tenant: &Tenant) -> String {
    announced_number(tenant.number())
}

/// Says whose rows a transaction sees.
fn announced_number(number: i64) -> String {
    format!("SELECT set_config('stile.tenant', '{number}', true); ")
}

fn count(row: &Row, at: usize) -> Result<u64, PgError> {
    Ok(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or_default())
}

fn people(connection: &PgConnection) -> Result<Vec<KnownPerson>, PgError> {
    let text = "SELECT number, id, made, subject, issuer, name FROM tenants \
                WHERE subject IS NOT NULL AND subject <> $1 ORDER BY number";
    let rows = connection.rows(text, params![operators_digest()])?;
    let mut people = Vec::new();
    for row in rows {
        let number: i64 = row.try_get(0)?;
        connection.batch(&announced_number(number))?;
        // Each row of `history` is seen by its tenant alone.
        let records = "SELECT records FROM history WHERE tenant = $1";
        let records = connection.one(records, params![number])?;
        let records = records.map(|row| count(&row, 0)).transpose()?.unwrap_or_default();
        let (id, made) = (row.try_get(1)?, Instant(row.try_get(2)?));
        let (issuer, name) = (row.try_get(4)?, row.try_get(5)?);
        people.push(KnownPerson { id, made, issuer, name, records, digest: row.try_get(3)? });
    }
    Ok(people)
}

/// Returns the names of the tables with rows of tenants.
fn tables(connection: &PgConnection) -> Result<Vec<String>, PgError> {
    let text = "SELECT quote_ident(c.relname) FROM pg_class c \
                JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'stile' \
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' \
                WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped \
                ORDER BY 1";
    connection.rows(text, &[])?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Returns which table refers to which other one.
fn references(connection: &PgConnection) -> Result<Vec<(String, String)>, PgError> {
    let text = "SELECT quote_ident(f.relname), quote_ident(t.relname) FROM pg_constraint k \
                JOIN pg_class f ON f.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid \
                JOIN pg_namespace n ON n.oid = f.relnamespace AND n.nspname = 'stile' \
                WHERE k.contype = 'f' AND k.conparentid = 0";
    let rows = connection.rows(text, &[])?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Puts tables before those that they refer to.
fn in_order_of_removal(tables: Vec<String>, references: &[(String, String)]) -> Vec<String> {
    let mut left: BTreeMap<String, ()> = tables.into_iter().map(|table| (table, ())).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_referred_to = |table: &&String| {
            references
                .iter()
                .any(|(from, to)| to == *table && from != to && left.contains_key(from))
        };
        let free: Vec<String> =
            left.keys().filter(|table| !is_referred_to(table)).cloned().collect();
        // Tables that refer to each other in a circle are left to the database.
        let next = if free.is_empty() { left.keys().cloned().collect() } else { free };
        left.retain(|table, ()| !next.contains(table));
        order.extend(next);
    }
    order
}

fn remove_rows(connection: &PgConnection, tenant: &Tenant) -> Result<u64, PgError> {
    // Another server may write for the person: the row of the person's history is its lock.
    let lock = "SELECT tenant FROM history WHERE tenant = $1 FOR UPDATE";
    connection.rows(lock, params![tenant.number()])?;
    let order = in_order_of_removal(tables(connection)?, &references(connection)?);
    let mut removed = 0;
    connection.batch("SET LOCAL statement_timeout = 0")?;
    for table in order {
        let text = format!("DELETE FROM {table} WHERE tenant = $1");
        removed += connection.execute(&text, params![tenant.number()])?;
    }
    connection.execute("DELETE FROM tenants WHERE number = $1", params![tenant.number()])?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_emptied_before_those_that_it_refers_to() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let refers = [("records", "streams"), ("streams", "connections"), ("tags", "streams")];
        let refers: Vec<_> = refers.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let order = in_order_of_removal(names("connections records streams tags"), &refers);
        assert_eq!(order, names("records tags streams connections"));
        let circle = [("a".to_owned(), "b".to_owned()), ("b".to_owned(), "a".to_owned())];
        assert_eq!(in_order_of_removal(names("a b"), &circle), names("a b"));
    }
}
