//! An end of a copy on PostgreSQL.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::Row as PgRow;
use tokio_postgres::types::{FromSql, ToSql};

use super::end::{Advance, CopyProgress, CopyTarget, History, TableReader};
use super::error::CopyError;
use super::table::{Cell, ColumnKind, Key, Row, Table};
use crate::cancellation::Cancellation;
use crate::postgresql::{
    Database, PersonName, PgError, Tenant, TenantConnection, TenantSql, params, tenant_sql,
};
use crate::read_limit::ReadLimit;
use crate::records::copying::{self, CopiedRecord, IndexedByStream};
use crate::sql::Column;

/// How long counting the rows of a table may take.
const MAX_COUNT: Duration = Duration::from_secs(60 * 60);

/// The rows of a person in a database on PostgreSQL.
///
/// Every statement gets the number of the tenant as `$1`.
pub(super) struct PgEnd {
    database: Database,
    tenant: Tenant,
    /// Whether the copy is one of a whole database. Nobody opens the database meanwhile.
    is_whole: bool,
}

type Value = Box<dyn ToSql + Sync>;

impl PgEnd {
    /// Opens the rows of the only person of a database.
    pub(super) fn of_one_person(database: &Database) -> Result<Self, CopyError> {
        if database.has_subjects()? {
            return Err(CopyError::SeveralPeople);
        }
        let tenant = database.sole_tenant_of_copy()?;
        Ok(Self { database: database.clone(), tenant, is_whole: true })
    }

    /// Opens the rows of a person of a database, to read them.
    pub(super) fn of_person(database: &Database, person: &PersonName) -> Result<Self, CopyError> {
        database.refuse_if_half_copied()?;
        let tenant = database.named_tenant(person)?.ok_or(CopyError::NoPerson("--from"))?;
        Ok(Self { database: database.clone(), tenant, is_whole: false })
    }

    /// Opens the rows of a person of a database, to fill them. Makes a person who is not there yet.
    pub(super) fn for_person(database: &Database, person: &PersonName) -> Result<Self, CopyError> {
        database.refuse_if_half_copied()?;
        let tenant = database.named_or_made_tenant(person)?.ok_or(CopyError::NoPerson("--to"))?;
        Ok(Self { database: database.clone(), tenant, is_whole: false })
    }

    /// Returns the identifier of the person, which names the folder of their space.
    pub(super) fn person(&self) -> &str {
        self.tenant.id()
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&TenantConnection<'_>) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let connection = self.database.read_of(&self.tenant, &ReadLimit::none())?;
        let done = read(&connection);
        connection.roll_back();
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    fn write<T>(
        &self,
        write: impl FnOnce(&TenantConnection<'_>) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let connection = self.database.write_of(&self.tenant)?;
        match write(&connection) {
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
            Err(error) => {
                connection.roll_back();
                Err(error)
            }
        }
    }
}

impl PgEnd {
    /// Writes down the history of the source and forgets marks, in a transaction that is open.
    fn begin_in(
        &self,
        connection: &TenantConnection<'_>,
        source: &History,
        forget: &BTreeSet<&str>,
    ) -> Result<(), CopyError> {
        let sql = tenant_sql!("UPDATE tenants SET incomplete = $2 WHERE number = $1");
        connection.rows(&sql, params![if self.is_whole { 2_i64 } else { 1 }])?;
        let sql = tenant_sql!(
            "INSERT INTO person_copies (tenant, name, last, done) VALUES ($1, $2, $3, 0) \
             ON CONFLICT (tenant, name) DO UPDATE SET last = excluded.last"
        );
        connection.rows(&sql, params![CopyProgress::SOURCE.as_bytes(), source.encode()])?;
        let sql = tenant_sql!("DELETE FROM person_copies WHERE tenant = $1 AND name = $2");
        for name in forget {
            connection.rows(&sql, params![name.as_bytes()])?;
        }
        Ok(())
    }

    fn move_mark(
        connection: &TenantConnection<'_>,
        Advance { name, from, to }: &Advance<'_>,
    ) -> Result<(), CopyError> {
        let sql = tenant_sql!(
            "UPDATE person_copies SET last = $3, done = $4 WHERE tenant = $1 AND name = $2 \
             AND last IS NOT DISTINCT FROM $5 AND done = $6 RETURNING 1"
        );
        let [last, before] = [to, from].map(|mark| mark.last.as_ref().map(Key::encode));
        let [is_done, was_done] = [to, from].map(|mark| i64::from(mark.is_done));
        let moved =
            connection.one(&sql, params![name.as_bytes(), last, is_done, before, was_done])?;
        moved.map(drop).ok_or(CopyError::Taken)
    }
}

/// Refuses tables that have rows.
fn refuse_rows(connection: &TenantConnection<'_>, tables: &[&Table]) -> Result<(), CopyError> {
    for table in tables {
        let select = format!("SELECT 1 FROM {} ", table.name);
        let sql = own_rows(table).with_head(&select).with_tail(" LIMIT 1");
        if connection.one(&sql, &[])?.is_some() {
            return Err(CopyError::NotEmpty);
        }
    }
    Ok(())
}

/// Returns the condition that chooses the rows of a table.
fn own_rows(table: &Table) -> TenantSql {
    match table.is_shared {
        true => tenant_sql!("WHERE $1::bigint IS NOT NULL"),
        false => tenant_sql!("WHERE tenant = $1"),
    }
}

/// Ends a statement that removes rows: it removes none if the copy of a table is done, and returns
/// a row for each that is removed.
const UNLESS_DONE: &str =
    " AND NOT EXISTS (SELECT 1 FROM person_copies WHERE tenant = $1 AND name = $2) RETURNING 1";

impl TableReader for PgEnd {
    fn rows_after(
        &self,
        table: &Table,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Row>, CopyError> {
        let key = table.key_list();
        let places = |(at, (_, kind)): (usize, &(&str, ColumnKind))| {
            format!("${}::{}", at + 2, sql_type(*kind))
        };
        let places: Vec<String> =
            table.columns().iter().take(table.key).enumerate().map(places).collect();
        let condition =
            after.map(|_| format!(" AND ({key}) > ({})", places.join(", "))).unwrap_or_default();
        let sql = own_rows(table)
            .with_head(&format!("SELECT {} FROM {} ", table.column_list(), table.name))
            .with_tail(&format!("{condition} ORDER BY {key} LIMIT {limit}"));
        let values: Vec<_> = after.iter().flat_map(|key| &key.0).map(Cell::as_value).collect();
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.read(|connection| Ok(connection.rows(&sql, &values)?))?;
        let cell = |row, at| Ok(Column::of_postgresql(row, at)?.to_cell());
        let cells = |row| (0..table.columns().len()).map(|at| cell(row, at)).collect();
        rows.iter().map(cells).collect()
    }

    fn history(&self) -> Result<History, CopyError> {
        let sql = tenant_sql!(
            "SELECT records, changes, lineage, forgotten FROM history WHERE tenant = $1"
        );
        let row = self.read(|connection| Ok(connection.one(&sql, &[])?))?;
        let row = row.ok_or(CopyError::Damaged)?;
        Ok(History {
            records: get(&row, 0)?,
            changes: get(&row, 1)?,
            lineage: get(&row, 2)?,
            forgotten: get(&row, 3)?,
        })
    }

    fn count(&self, table: &Table) -> Result<u64, CopyError> {
        let limit = ReadLimit::new(MAX_COUNT, Cancellation::default());
        let connection = self.database.long_read_of(&self.tenant, &limit)?;
        let sql = own_rows(table).with_head(&format!("SELECT count(*) FROM {} ", table.name));
        let counted = connection.one(&sql, &[]);
        connection.roll_back();
        let count: i64 = get(&counted?.ok_or(CopyError::Damaged)?, 0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

impl CopyTarget for PgEnd {
    fn progress(&self) -> Result<Option<CopyProgress>, CopyError> {
        self.read(|connection| {
            let sql = tenant_sql!("SELECT name, last, done FROM person_copies WHERE tenant = $1");
            let rows = connection.rows(&sql, &[])?;
            if rows.is_empty() {
                return Ok(None);
            }
            let rows = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?)));
            let rows = rows.collect::<Result<Vec<_>, CopyError>>()?;
            CopyProgress::parse(rows).map(Some).ok_or(CopyError::Damaged)
        })
    }

    fn begin_empty(&mut self, source: &History, tables: &[&Table]) -> Result<(), CopyError> {
        self.write(|connection| {
            // Every write of records waits for this lock, and then finds the tenant incomplete.
            connection
                .rows(&tenant_sql!("SELECT 1 FROM history WHERE tenant = $1 FOR UPDATE"), &[])?;
            let sql = tenant_sql!("SELECT 1 FROM tenants WHERE number = $1 AND incomplete <> 0");
            if connection.one(&sql, &[])?.is_some() {
                return Err(CopyError::Taken);
            }
            refuse_rows(connection, tables)?;
            self.begin_in(connection, source, &BTreeSet::new())
        })
    }

    fn begin(&mut self, source: &History, forget: &BTreeSet<&str>) -> Result<(), CopyError> {
        self.write(|connection| self.begin_in(connection, source, forget))
    }

    fn begin_table(&mut self, name: &str) -> Result<(), CopyError> {
        let sql = tenant_sql!(
            "INSERT INTO person_copies (tenant, name, done) VALUES ($1, $2, 0) \
             ON CONFLICT DO NOTHING RETURNING 1"
        );
        let begun = self.write(|connection| Ok(connection.one(&sql, params![name.as_bytes()])?));
        begun?.map(drop).ok_or(CopyError::Taken)
    }

    fn put(&mut self, table: &Table, rows: &[Row], advance: &Advance<'_>) -> Result<(), CopyError> {
        let mut places = Vec::new();
        let mut columns: Vec<Value> = Vec::new();
        for (at, (_, kind)) in table.columns().iter().enumerate() {
            places.push(format!("${}::{}[]", at + 2, sql_type(*kind)));
            let cells = rows.iter().map(|row| row.get(at));
            columns.push(match kind {
                ColumnKind::Number => {
                    Box::new(cells.map(|cell| cell?.number()).collect::<Vec<Option<i64>>>())
                }
                ColumnKind::Text | ColumnKind::Bytes => {
                    let bytes = cells.map(|cell| cell?.bytes().map(<[u8]>::to_vec));
                    Box::new(bytes.collect::<Vec<Option<Vec<u8>>>>())
                }
            });
        }
        let (name, list, places) = (table.name, table.column_list(), places.join(", "));
        let sql = match table.is_shared {
            true => own_rows(table).with_head(&format!(
                "INSERT INTO {name} ({list}) SELECT new.* FROM unnest({places}) AS new "
            )),
            false => tenant_sql!("SELECT $1::bigint, new.* FROM")
                .with_head(&format!("INSERT INTO {name} (tenant, {list}) "))
                .with_tail(&format!(" unnest({places}) AS new")),
        };
        let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(AsRef::as_ref).collect();
        self.write(|connection| {
            connection.rows(&sql, &values)?;
            Self::move_mark(connection, advance)
        })
    }

    fn remove_some(&mut self, table: &Table, limit: usize) -> Result<usize, CopyError> {
        let (name, key) = (table.name, table.key_list());
        let some = own_rows(table)
            .with_head(&format!(" AND ({key}) IN (SELECT {key} FROM {name} "))
            .with_tail(&format!(" LIMIT {limit})"));
        let sql = own_rows(table)
            .with_head(&format!("DELETE FROM {name} "))
            .with_tail(some.text())
            .with_tail(UNLESS_DONE);
        self.write(|connection| Ok(connection.rows(&sql, params![name.as_bytes()])?.len()))
    }

    fn remove_some_index(&mut self, limit: usize) -> Result<bool, CopyError> {
        let name = CopyProgress::INDEX.as_bytes();
        self.write(|connection| {
            // As long as one table has rows, the next call removes more.
            for (table, key) in [("word_blocks", "tag, token, first"), ("text_words", "number")] {
                let some = format!(
                    "DELETE FROM {table} WHERE tenant = $1 AND ({key}) IN (SELECT {key} FROM {table}"
                );
                let sql = tenant_sql!(" WHERE tenant = $1")
                    .with_head(&some)
                    .with_tail(&format!(" LIMIT {limit})"))
                    .with_tail(UNLESS_DONE);
                if !connection.rows(&sql, params![name])?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn index(
        &mut self,
        streams: &IndexedByStream,
        records: &[CopiedRecord],
        advance: &Advance<'_>,
    ) -> Result<(), CopyError> {
        self.write(|connection| {
            copying::index_on_postgresql(connection, streams, records)?;
            Self::move_mark(connection, advance)
        })
    }

    fn put_history(&mut self, history: &History) -> Result<(), CopyError> {
        let History { records, changes, lineage, forgotten } = history;
        let sql = tenant_sql!(
            "UPDATE history SET records = $2, changes = $3, lineage = $4, forgotten = $5 \
             WHERE tenant = $1"
        );
        self.write(|connection| {
            connection.rows(&sql, params![*records, *changes, lineage, *forgotten])?;
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.write(|connection| {
            connection.rows(&tenant_sql!("DELETE FROM person_copies WHERE tenant = $1"), &[])?;
            connection
                .rows(&tenant_sql!("UPDATE tenants SET incomplete = 0 WHERE number = $1"), &[])?;
            Ok(())
        })
    }
}

fn sql_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "bigint",
        ColumnKind::Text | ColumnKind::Bytes => "bytea",
    }
}

fn get<'r, T: FromSql<'r>>(row: &'r PgRow, at: usize) -> Result<T, CopyError> {
    Ok(row.try_get(at).map_err(PgError::from)?)
}
