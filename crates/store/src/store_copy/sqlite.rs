//! An end of a copy in SQLite.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, TransactionBehavior, params, params_from_iter};
use stile_domain::records::problem::Problem;

use super::end::{Advance, CopyProgress, CopyTarget, History, TableReader};
use super::error::CopyError;
use super::table::{Cell, ColumnKind, Key, Row, Table};
use crate::records::PROGRESS_TABLE;
use crate::records::copying::{self, CopiedRecord, IndexedByStream};
use crate::sql::{Column, Value};

/// A database of SQLite.
pub(super) struct SqliteEnd(pub(super) Connection);

impl SqliteEnd {
    /// Runs `write` in a transaction, which keeps all or nothing.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = write(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }
}

impl TableReader for SqliteEnd {
    fn rows_after(
        &self,
        table: &Table,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Row>, CopyError> {
        let key = table.key_list();
        let marks = vec!["?"; table.key].join(", ");
        let condition = after.map(|_| format!("WHERE ({key}) > ({marks})")).unwrap_or_default();
        let text = format!(
            "SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {limit}",
            table.column_list(),
            table.name
        );
        let mut values = Vec::new();
        for (cell, (_, kind)) in after.iter().flat_map(|key| &key.0).zip(table.columns()) {
            values.push(value(cell, *kind)?);
        }
        let mut query = self.0.prepare_cached(&text)?;
        let mut rows = query.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            // All texts are bytes here.
            let cell = |at| {
                Ok(match Column::of_sqlite(row.get_ref(at)?).map_err(Problem::from)? {
                    Column::Text(text) => Cell::Bytes(text.as_bytes().to_vec()),
                    column => column.to_cell(),
                })
            };
            found.push((0..table.columns().len()).map(cell).collect::<Result<Row, CopyError>>()?);
        }
        Ok(found)
    }

    fn history(&self) -> Result<History, CopyError> {
        let text = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'records'), 0), \
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0), \
                    lineage, forgotten FROM history";
        let history = self.0.query_row(text, [], |row| {
            Ok(History {
                records: row.get(0)?,
                changes: row.get(1)?,
                lineage: row.get::<_, Option<Vec<u8>>>(2)?.unwrap_or_default(),
                forgotten: row.get(3)?,
            })
        })?;
        Ok(history)
    }

    fn count(&self, table: &Table) -> Result<u64, CopyError> {
        let text = format!("SELECT count(*) FROM {}", table.name);
        let count: i64 = self.0.query_row(&text, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

impl CopyTarget for SqliteEnd {
    fn progress(&self) -> Result<Option<CopyProgress>, CopyError> {
        if !self.0.table_exists(None, PROGRESS_TABLE)? {
            return Ok(None);
        }
        let text = format!("SELECT name, last, done FROM {PROGRESS_TABLE}");
        let mut query = self.0.prepare(&text)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let rows = rows.collect::<rusqlite::Result<_>>()?;
        CopyProgress::parse(rows).map(Some).ok_or(CopyError::Damaged)
    }

    fn begin(&mut self, source: &History, forget: &BTreeSet<&str>) -> Result<(), CopyError> {
        self.write(|transaction| {
            transaction.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} \
                 (name BLOB PRIMARY KEY, last BLOB, done INTEGER NOT NULL) STRICT"
            ))?;
            let text = format!(
                "INSERT INTO {PROGRESS_TABLE} (name, last, done) VALUES (?1, ?2, 0) \
                 ON CONFLICT (name) DO UPDATE SET last = excluded.last"
            );
            transaction
                .execute(&text, params![CopyProgress::SOURCE.as_bytes(), source.encode()])?;
            let text = format!("DELETE FROM {PROGRESS_TABLE} WHERE name = ?1");
            for name in forget {
                transaction.execute(&text, [name.as_bytes()])?;
            }
            Ok(())
        })
    }

    fn begin_table(&mut self, name: &str) -> Result<(), CopyError> {
        let text = format!(
            "INSERT INTO {PROGRESS_TABLE} (name, done) VALUES (?1, 0) ON CONFLICT DO NOTHING"
        );
        match self.0.execute(&text, [name.as_bytes()])? {
            1 => Ok(()),
            _ => Err(CopyError::Taken),
        }
    }

    fn put(&mut self, table: &Table, rows: &[Row], advance: &Advance<'_>) -> Result<(), CopyError> {
        let marks = vec!["?"; table.columns().len()].join(", ");
        let columns = table.column_list();
        let text = format!("INSERT INTO {} ({columns}) VALUES ({marks})", table.name);
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached(&text)?;
            for row in rows {
                let mut values = Vec::new();
                for (cell, (_, kind)) in row.iter().zip(table.columns()) {
                    values.push(value(cell, *kind)?);
                }
                insert.execute(params_from_iter(values))?;
            }
            move_mark(transaction, advance)
        })
    }

    fn remove_some(&mut self, table: &Table, limit: usize) -> Result<usize, CopyError> {
        let (name, key) = (table.name, table.key_list());
        let text = format!(
            "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} LIMIT {limit}) \
             AND NOT EXISTS (SELECT 1 FROM {PROGRESS_TABLE} WHERE name = ?1)"
        );
        Ok(self.0.execute(&text, [name.as_bytes()])?)
    }

    fn remove_some_index(&mut self, _limit: usize) -> Result<bool, CopyError> {
        let text = format!("SELECT 1 FROM {PROGRESS_TABLE} WHERE name = ?1");
        self.write(|transaction| {
            if transaction.prepare(&text)?.exists([CopyProgress::INDEX.as_bytes()])? {
                return Err(CopyError::Taken);
            }
            // FTS5 drops all entries at once.
            transaction.execute("INSERT INTO tokens (tokens) VALUES ('delete-all')", [])?;
            Ok(false)
        })
    }

    fn index(
        &mut self,
        streams: &IndexedByStream,
        records: &[CopiedRecord],
        advance: &Advance<'_>,
    ) -> Result<(), CopyError> {
        self.write(|transaction| {
            copying::index_in_sqlite(transaction, streams, records)?;
            move_mark(transaction, advance)
        })
    }

    fn put_history(&mut self, history: &History) -> Result<(), CopyError> {
        self.write(|transaction| {
            for (table, last) in [("records", history.records), ("changes", history.changes)] {
                transaction.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
                let text = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                transaction.execute(text, params![table, last])?;
            }
            let text = "UPDATE history SET lineage = ?1, forgotten = ?2";
            transaction.execute(text, params![history.lineage, history.forgotten])?;
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.0.execute_batch(&format!("DROP TABLE {PROGRESS_TABLE}"))?;
        Ok(())
    }
}

fn move_mark(
    transaction: &Transaction<'_>,
    Advance { name, from, to }: &Advance<'_>,
) -> Result<(), CopyError> {
    let text = format!(
        "UPDATE {PROGRESS_TABLE} SET last = ?2, done = ?3 \
         WHERE name = ?1 AND last IS ?4 AND done = ?5"
    );
    let [last, before] = [to, from].map(|mark| mark.last.as_ref().map(Key::encode));
    let values = params![name.as_bytes(), last, to.is_done, before, from.is_done];
    match transaction.execute(&text, values)? {
        1 => Ok(()),
        _ => Err(CopyError::Taken),
    }
}

/// Returns a value for a column: bytes that PostgreSQL keeps of a text are a text again.
fn value(cell: &Cell, kind: ColumnKind) -> Result<Value<'_>, CopyError> {
    Ok(match cell.bytes() {
        Some(bytes) if kind == ColumnKind::Text => {
            let text = std::str::from_utf8(bytes);
            Value::Text(text.map_err(|_| CopyError::Problem(Problem::Corrupt))?)
        }
        _ => cell.as_value(),
    })
}
