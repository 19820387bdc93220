//! Writes rows in a transaction of SQLite.

use rusqlite::{CachedStatement, OptionalExtension as _, Transaction, params};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use crate::records::port::{NewBlobUse, NewRecord, RecordContent, RowWriter};
use crate::records::rows::{PieceRows as _, Rows, WriteRecordRows as _};
use crate::records::tagged_tokens::TaggedTokens;
use crate::sql::{Door, sqlite_problem};

/// A transaction that writes.
pub(in crate::records) struct SqliteWriter<'t> {
    transaction: &'t Transaction<'t>,
}

impl<'t> SqliteWriter<'t> {
    pub(in crate::records) fn new(transaction: &'t Transaction<'t>) -> Self {
        Self { transaction }
    }

    pub(super) fn prepare(&self, text: &str) -> Result<CachedStatement<'_>, Problem> {
        self.transaction.prepare_cached(text).map_err(sqlite_problem)
    }

    pub(super) fn execute(&self, text: &str, values: impl rusqlite::Params) -> Result<(), Problem> {
        self.prepare(text)?.execute(values).map(drop).map_err(sqlite_problem)
    }

    /// Inserts a record, with a clause about a record that has the same key. Returns how many rows
    /// there are more.
    fn insert_or(&self, record: &NewRecord<'_>, on_conflict: &str) -> Result<usize, Problem> {
        let NewRecord { stream, key, emitted, state } = record;
        let RecordContent { order_key, happened, body } = state;
        let text = format!(
            "INSERT INTO records (stream, key, emitted, ord, happened, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6){on_conflict}"
        );
        let values = params![stream, key.as_bytes(), emitted.0, order_key, happened, body];
        self.prepare(&text)?.execute(values).map_err(sqlite_problem)
    }
}

impl Rows for SqliteWriter<'_> {
    fn door(&self) -> Door<'_> {
        Door::Sqlite(self.transaction)
    }
}

impl RowWriter for SqliteWriter<'_> {
    fn begin_step(&self) -> Result<(), Problem> {
        self.execute("SAVEPOINT step", [])
    }

    fn keep_step(&self) -> Result<(), Problem> {
        self.execute("RELEASE step", [])
    }

    fn undo_step(&self) -> Result<(), Problem> {
        self.execute("ROLLBACK TO step", [])?;
        self.execute("RELEASE step", [])
    }

    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem> {
        let text = "SELECT id, body FROM records WHERE stream = ?1 AND key = ?2";
        let mut query = self.prepare(text)?;
        let row =
            query.query_row(params![stream, key.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
        row.optional().map_err(sqlite_problem)
    }

    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem> {
        let text = "SELECT 1 FROM records WHERE stream = ?1 AND key = ?2";
        self.prepare(text)?.exists(params![stream, key.as_bytes()]).map_err(sqlite_problem)
    }

    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem> {
        self.insert_or(record, "").map(|_| self.transaction.last_insert_rowid())
    }

    fn insert_if_new(&self, record: &NewRecord<'_>) -> Result<Option<i64>, Problem> {
        let inserted = self.insert_or(record, " ON CONFLICT (stream, key) DO NOTHING")?;
        Ok((inserted > 0).then(|| self.transaction.last_insert_rowid()))
    }

    fn update_record(&self, record: i64, state: &RecordContent<'_>) -> Result<(), Problem> {
        let RecordContent { order_key, happened, body } = state;
        let text = "UPDATE records SET ord = ?2, happened = ?3, body = ?4 WHERE id = ?1";
        self.execute(text, params![record, order_key, happened, body])
    }

    fn delete_record(&self, record: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM records WHERE id = ?1", [record])
    }

    fn body(&self, record: i64) -> Result<Vec<u8>, Problem> {
        self.stored_body(record)
    }

    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem> {
        let values = params![number, text.as_bytes()];
        self.execute("INSERT INTO pieces (id, text) VALUES (?1, ?2)", values)
    }

    fn delete_piece(&self, number: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM pieces WHERE id = ?1", [number])
    }

    fn piece_text(&self, number: i64) -> Result<String, Problem> {
        self.stored_piece(number)
    }

    fn insert_tokens(&self, number: i64, tokens: &TaggedTokens) -> Result<(), Problem> {
        let values = params![number, tokens.as_str()];
        self.execute("INSERT INTO tokens (rowid, text) VALUES (?1, ?2)", values)
    }

    fn delete_tokens(&self, number: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM tokens WHERE rowid = ?1", [number])
    }

    fn insert_change(&self, record: i64, at: Instant, body: &[u8]) -> Result<(), Problem> {
        let text = "INSERT INTO changes (stream, key, at, record, emitted, body) \
                    SELECT stream, key, ?2, id, emitted, ?3 FROM records WHERE id = ?1";
        self.execute(text, params![record, at.0, body])
    }

    fn note_forgotten(&self, oldest: Instant, newest: Instant) -> Result<(), Problem> {
        let anew =
            "UPDATE history SET lineage = randomblob(16), forgotten = ?1 WHERE forgotten > ?2";
        self.execute(anew, [oldest.0, newest.0])?;
        self.execute("UPDATE history SET forgotten = ?1 WHERE forgotten < ?1", [oldest.0])
    }

    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem> {
        let NewBlobUse { digest, media_type, record, field } = new;
        let text = "INSERT INTO blob_uses (digest, media_type, record, field) VALUES (?1, ?2, ?3, ?4) \
                    ON CONFLICT DO NOTHING";
        self.execute(text, params![digest, media_type, record, field])
    }
}
