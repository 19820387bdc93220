//! An end of a copy on PostgreSQL.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::Row as PgRow;
use tokio_postgres::types::{FromSql, ToSql};

use super::CopyError;
use super::end::{Advance, CopyProgress, CopyTarget, History, TableReader};
use super::table::{Cell, ColumnKind, Key, Row, Table};
use crate::cancellation::Cancellation;
use crate::postgresql::{Database, PgConnection, PgError, params};
use crate::read_limit::ReadLimit;
use crate::records::PROGRESS_TABLE;
use crate::records::copying::{self, CopiedRecord, IndexedByStream};

/// How long counting the rows of a table may take.
const MAX_COUNT: Duration = Duration::from_secs(60 * 60);

/// A database on PostgreSQL.
pub(super) struct PgEnd(pub(super) Database);

type Value = Box<dyn ToSql + Sync>;

impl PgEnd {
    fn read<T>(
        &self,
        read: impl FnOnce(&PgConnection) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let connection = self.0.begin_read(&ReadLimit::none())?;
        let done = read(&connection);
        connection.end("ROLLBACK");
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    fn write<T>(
        &self,
        write: impl FnOnce(&PgConnection) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let connection = self.0.begin_write()?;
        match write(&connection) {
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }
}

impl TableReader for PgEnd {
    fn rows_after(
        &self,
        table: &Table,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Row>, CopyError> {
        let key = table.key_list();
        let places = |(at, (_, kind)): (usize, &(&str, ColumnKind))| {
            format!("${}::{}", at + 1, sql_type(*kind))
        };
        let places: Vec<String> =
            table.columns.iter().take(table.key).enumerate().map(places).collect();
        let condition =
            after.map(|_| format!("WHERE ({key}) > ({})", places.join(", "))).unwrap_or_default();
        let text = format!(
            "SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {limit}",
            table.column_list(),
            table.name
        );
        let values: Vec<Value> = after.iter().flat_map(|key| &key.0).map(value).collect();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
        let rows = self.read(|connection| Ok(connection.rows(&text, &values)?))?;
        rows.iter().map(|row| cells(row, table)).collect()
    }

    fn history(&self) -> Result<History, CopyError> {
        let text = "SELECT records, changes, lineage, forgotten FROM history";
        let row = self.read(|connection| Ok(connection.one(text, &[])?))?;
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
        let connection = self.0.begin_long_read(&limit)?;
        let counted = connection.one(&format!("SELECT count(*) FROM {}", table.name), &[]);
        connection.end("ROLLBACK");
        let count: i64 = get(&counted?.ok_or(CopyError::Damaged)?, 0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

impl CopyTarget for PgEnd {
    fn progress(&self) -> Result<Option<CopyProgress>, CopyError> {
        self.read(|connection| {
            let found = connection.one("SELECT to_regclass($1)::text", params![PROGRESS_TABLE])?;
            if found.map(|row| get::<Option<String>>(&row, 0)).transpose()?.flatten().is_none() {
                return Ok(None);
            }
            let text = format!("SELECT name, last, done FROM {PROGRESS_TABLE}");
            let rows = connection.rows(&text, &[])?;
            let rows = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?)));
            let rows = rows.collect::<Result<Vec<_>, CopyError>>()?;
            CopyProgress::parse(rows).map(Some).ok_or(CopyError::Damaged)
        })
    }

    fn begin(&mut self, source: &History, forget: &BTreeSet<&str>) -> Result<(), CopyError> {
        self.write(|connection| {
            connection.batch(&format!(
                "CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} \
                 (name bytea PRIMARY KEY, last bytea, done bigint NOT NULL)"
            ))?;
            let text = format!(
                "INSERT INTO {PROGRESS_TABLE} (name, last, done) VALUES ($1, $2, 0) \
                 ON CONFLICT (name) DO UPDATE SET last = excluded.last"
            );
            connection.rows(&text, params![CopyProgress::SOURCE.as_bytes(), source.encode()])?;
            let text = format!("DELETE FROM {PROGRESS_TABLE} WHERE name = $1");
            for name in forget {
                connection.rows(&text, params![name.as_bytes()])?;
            }
            Ok(())
        })
    }

    fn begin_table(&mut self, name: &str) -> Result<(), CopyError> {
        let text = format!(
            "INSERT INTO {PROGRESS_TABLE} (name, done) VALUES ($1, 0) \
             ON CONFLICT DO NOTHING RETURNING 1"
        );
        let begun = self.write(|connection| Ok(connection.one(&text, params![name.as_bytes()])?));
        begun?.map(drop).ok_or(CopyError::Taken)
    }

    fn put(&mut self, table: &Table, rows: &[Row], advance: &Advance<'_>) -> Result<(), CopyError> {
        let mut places = Vec::new();
        let mut columns: Vec<Value> = Vec::new();
        for (at, (_, kind)) in table.columns.iter().enumerate() {
            places.push(format!("${}::{}[]", at + 1, sql_type(*kind)));
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
        let text = format!(
            "INSERT INTO {} ({}) SELECT * FROM unnest({})",
            table.name,
            table.column_list(),
            places.join(", ")
        );
        let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(AsRef::as_ref).collect();
        self.write(|connection| {
            connection.rows(&text, &values)?;
            move_mark(connection, advance)
        })
    }

    fn remove_some(&mut self, table: &Table, limit: usize) -> Result<usize, CopyError> {
        let (name, key) = (table.name, table.key_list());
        let text = format!(
            "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} LIMIT {limit}) \
             AND NOT EXISTS (SELECT 1 FROM {PROGRESS_TABLE} WHERE name = $1) RETURNING 1"
        );
        self.write(|connection| Ok(connection.rows(&text, params![name.as_bytes()])?.len()))
    }

    fn remove_some_index(&mut self, limit: usize) -> Result<bool, CopyError> {
        let text = format!(
            "DELETE FROM tokens WHERE (tag, token, number) IN \
             (SELECT tag, token, number FROM tokens LIMIT {limit}) \
             AND NOT EXISTS (SELECT 1 FROM {PROGRESS_TABLE} WHERE name = $1) RETURNING 1"
        );
        let name = CopyProgress::INDEX.as_bytes();
        self.write(|connection| Ok(!connection.rows(&text, params![name])?.is_empty()))
    }

    fn index(
        &mut self,
        streams: &IndexedByStream,
        records: &[CopiedRecord],
        advance: &Advance<'_>,
    ) -> Result<(), CopyError> {
        self.write(|connection| {
            copying::index_on_postgresql(connection, streams, records)?;
            move_mark(connection, advance)
        })
    }

    fn put_history(&mut self, history: &History) -> Result<(), CopyError> {
        let History { records, changes, lineage, forgotten } = history;
        let text = "UPDATE history SET records = $1, changes = $2, lineage = $3, forgotten = $4";
        self.write(|connection| {
            connection.rows(text, params![*records, *changes, lineage, *forgotten])?;
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.write(|connection| Ok(connection.batch(&format!("DROP TABLE {PROGRESS_TABLE}"))?))
    }
}

fn move_mark(
    connection: &PgConnection,
    Advance { name, from, to }: &Advance<'_>,
) -> Result<(), CopyError> {
    let text = format!(
        "UPDATE {PROGRESS_TABLE} SET last = $2, done = $3 \
         WHERE name = $1 AND last IS NOT DISTINCT FROM $4 AND done = $5 RETURNING 1"
    );
    let [last, before] = [to, from].map(|mark| mark.last.as_ref().map(Key::encode));
    let [is_done, was_done] = [to, from].map(|mark| i64::from(mark.is_done));
    let moved = connection.one(&text, params![name.as_bytes(), last, is_done, before, was_done])?;
    moved.map(drop).ok_or(CopyError::Taken)
}

fn sql_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "bigint",
        ColumnKind::Text | ColumnKind::Bytes => "bytea",
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Box::new(None::<i64>),
        Cell::Number(number) => Box::new(*number),
        Cell::Bytes(bytes) => Box::new(bytes.clone()),
    }
}

fn cells(row: &PgRow, table: &Table) -> Result<Row, CopyError> {
    let cell = |(at, (_, kind)): (usize, &(&str, ColumnKind))| {
        Ok(match kind {
            ColumnKind::Number => get::<Option<i64>>(row, at)?.map(Cell::Number),
            ColumnKind::Text | ColumnKind::Bytes => {
                get::<Option<Vec<u8>>>(row, at)?.map(Cell::Bytes)
            }
        }
        .unwrap_or(Cell::Null))
    };
    table.columns.iter().enumerate().map(cell).collect()
}

fn get<'r, T: FromSql<'r>>(row: &'r PgRow, at: usize) -> Result<T, CopyError> {
    Ok(row.try_get(at).map_err(PgError::from)?)
}
