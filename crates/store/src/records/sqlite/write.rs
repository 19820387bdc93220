//! Writes rows in a transaction of SQLite.

use std::collections::HashMap;

use rusqlite::{CachedStatement, OptionalExtension as _, Transaction, params};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::error::problem;
use crate::records::port::{NewBlobUse, NewRecord, OldBlob, RowWriter, StreamDeclaration};
use crate::records::tagged_tokens::TaggedTokens;

/// A transaction that writes.
pub(in crate::records) struct SqliteWriter<'t> {
    transaction: &'t Transaction<'t>,
}

impl<'t> SqliteWriter<'t> {
    pub(in crate::records) fn new(transaction: &'t Transaction<'t>) -> Self {
        Self { transaction }
    }

    pub(super) fn prepare(&self, text: &str) -> Result<CachedStatement<'_>, Problem> {
        self.transaction.prepare_cached(text).map_err(problem)
    }

    pub(super) fn execute(&self, text: &str, values: impl rusqlite::Params) -> Result<(), Problem> {
        self.prepare(text)?.execute(values).map(drop).map_err(problem)
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

    fn stream(&self, connection: &str, stream: &str) -> Result<Option<StreamDeclaration>, Problem> {
        let text = "SELECT s.id, s.declaration, s.terms FROM streams s JOIN connections c ON c.id = s.connection \
                    WHERE c.name = ?1 AND s.name = ?2";
        let mut query = self.prepare(text)?;
        let row = query.query_row([connection, stream], |row| {
            Ok(StreamDeclaration {
                id: row.get(0)?,
                declaration: row.get(1)?,
                indexed: row.get(2)?,
            })
        });
        row.optional().map_err(problem)
    }

    fn insert_stream(
        &self,
        connection: &str,
        stream: &str,
        declaration: &str,
        indexed: &str,
    ) -> Result<i64, Problem> {
        let text = "INSERT INTO connections (name) VALUES (?1) ON CONFLICT DO NOTHING";
        self.execute(text, [connection])?;
        let text = "INSERT INTO streams (connection, name, declaration, terms, revision) \
                    SELECT id, ?2, ?3, ?4, 1 FROM connections WHERE name = ?1";
        self.execute(text, params![connection, stream, declaration, indexed])?;
        Ok(self.transaction.last_insert_rowid())
    }

    fn update_stream(&self, stream: i64, declaration: &str, indexed: &str) -> Result<(), Problem> {
        let text = "UPDATE streams SET declaration = ?2, terms = ?3, revision = revision + 1 WHERE id = ?1";
        self.execute(text, params![stream, declaration, indexed])
    }

    fn add_tag(&self, stream: i64, field: &str) -> Result<(), Problem> {
        let text = "INSERT INTO tags (stream, field) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        self.execute(text, params![stream, field])
    }

    fn tags(&self, stream: i64) -> Result<HashMap<String, i64>, Problem> {
        let mut query = self.prepare("SELECT field, id FROM tags WHERE stream = ?1")?;
        let rows = query.query_map([stream], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem> {
        let text = "SELECT id, body FROM records WHERE stream = ?1 AND key = ?2";
        let mut query = self.prepare(text)?;
        let row =
            query.query_row(params![stream, key.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
        row.optional().map_err(problem)
    }

    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem> {
        let text = "SELECT 1 FROM records WHERE stream = ?1 AND key = ?2";
        self.prepare(text)?.exists(params![stream, key.as_bytes()]).map_err(problem)
    }

    fn has_records(&self, stream: i64) -> Result<bool, Problem> {
        let mut query = self.prepare("SELECT 1 FROM records WHERE stream = ?1")?;
        query.exists([stream]).map_err(problem)
    }

    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem> {
        let NewRecord { stream, key, emitted, order_key, happened, body } = record;
        let text = "INSERT INTO records (stream, key, emitted, ord, happened, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.execute(text, params![stream, key.as_bytes(), emitted.0, order_key, happened, body])?;
        Ok(self.transaction.last_insert_rowid())
    }

    fn insert_if_new(&self, record: &NewRecord<'_>) -> Result<Option<i64>, Problem> {
        let NewRecord { stream, key, emitted, order_key, happened, body } = record;
        let text = "INSERT INTO records (stream, key, emitted, ord, happened, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                    ON CONFLICT (stream, key) DO NOTHING";
        let values = params![stream, key.as_bytes(), emitted.0, order_key, happened, body];
        let inserted = self.prepare(text)?.execute(values).map_err(problem)?;
        Ok((inserted > 0).then(|| self.transaction.last_insert_rowid()))
    }

    fn update_record(
        &self,
        record: i64,
        order_key: Option<&[u8]>,
        happened: Option<i64>,
        body: &[u8],
    ) -> Result<(), Problem> {
        let text = "UPDATE records SET ord = ?2, happened = ?3, body = ?4 WHERE id = ?1";
        self.execute(text, params![record, order_key, happened, body])
    }

    fn delete_record(&self, record: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM records WHERE id = ?1", [record])
    }

    fn body(&self, record: i64) -> Result<Vec<u8>, Problem> {
        let mut query = self.prepare("SELECT body FROM records WHERE id = ?1")?;
        query.query_row([record], |row| row.get(0)).map_err(problem)
    }

    fn last_record(&self, stream: i64) -> Result<Option<i64>, Problem> {
        // The sign keeps SQLite from walking all records of the database.
        let text = "SELECT max(+id) FROM records WHERE stream = ?1";
        self.transaction.query_row(text, [stream], |row| row.get(0)).map_err(problem)
    }

    fn records_up_to(&self, stream: i64, last: i64, limit: i64) -> Result<Vec<i64>, Problem> {
        let text = "SELECT id FROM records WHERE stream = ?1 AND +id <= ?2 LIMIT ?3";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([stream, last, limit], |row| row.get(0));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn keys_after(
        &self,
        stream: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, Problem> {
        let text =
            "SELECT id, key FROM records WHERE stream = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
        let mut query = self.prepare(text)?;
        let rows =
            query.query_map(params![stream, after, limit], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem> {
        let values = params![number, text.as_bytes()];
        self.execute("INSERT INTO pieces (id, text) VALUES (?1, ?2)", values)
    }

    fn renumber_piece(&self, from: i64, to: i64) -> Result<(), Problem> {
        self.execute("UPDATE pieces SET id = ?2 WHERE id = ?1", [from, to])
    }

    fn delete_piece(&self, number: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM pieces WHERE id = ?1", [number])
    }

    fn piece_text(&self, number: i64) -> Result<String, Problem> {
        let mut query = self.prepare("SELECT text FROM pieces WHERE id = ?1")?;
        let bytes: Vec<u8> = query.query_row([number], |row| row.get(0)).map_err(problem)?;
        String::from_utf8(bytes).map_err(|_| Problem::Corrupt)
    }

    fn shares_token_rows(&self) -> bool {
        true
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

    fn delete_changes(&self, before: Instant, limit: i64) -> Result<(), Problem> {
        let text = "DELETE FROM changes WHERE version IN (SELECT version FROM changes WHERE at < ?1 LIMIT ?2)";
        self.execute(text, [before.0, limit])
    }

    fn next_blob(&self) -> Result<i64, Problem> {
        let mut query = self.prepare("SELECT coalesce(max(id), 0) + 1 FROM blobs")?;
        query.query_row([], |row| row.get(0)).map_err(problem)
    }

    fn blob(&self, digest: &[u8; 32]) -> Result<Option<i64>, Problem> {
        let mut query = self.prepare("SELECT id FROM blobs WHERE digest = ?1")?;
        query.query_row([digest], |row| row.get(0)).optional().map_err(problem)
    }

    fn insert_blob(&self, blob: i64, digest: &[u8; 32], bytes: u64) -> Result<(), Problem> {
        let text = "INSERT INTO blobs (id, digest, bytes) VALUES (?1, ?2, ?3)";
        self.execute(text, params![blob, digest, i64::try_from(bytes).unwrap_or(i64::MAX)])
    }

    fn insert_blob_piece(&self, number: i64, bytes: &[u8]) -> Result<(), Problem> {
        self.execute("INSERT INTO blob_pieces (id, data) VALUES (?1, ?2)", params![number, bytes])
    }

    fn delete_blob_pieces(&self, first: i64, end: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM blob_pieces WHERE id >= ?1 AND id < ?2", [first, end])
    }

    fn delete_blob(&self, blob: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM blobs WHERE id = ?1", [blob])
    }

    fn set_blob_put(&self, blob: i64, put: Option<Instant>) -> Result<(), Problem> {
        let values = params![blob, put.map(|put| put.0)];
        self.execute("UPDATE blobs SET put = ?2 WHERE id = ?1", values)
    }

    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem> {
        let NewBlobUse { digest, media_type, record, field } = new;
        let text = "INSERT INTO blob_uses (digest, media_type, record, field) VALUES (?1, ?2, ?3, ?4) \
                    ON CONFLICT DO NOTHING";
        self.execute(text, params![digest, media_type, record, field])
    }

    fn delete_blob_uses(&self, record: i64) -> Result<(), Problem> {
        self.execute("DELETE FROM blob_uses WHERE record = ?1", [record])
    }

    fn blobs_used_by(&self, record: i64) -> Result<Vec<[u8; 32]>, Problem> {
        let text = "SELECT DISTINCT digest FROM blob_uses WHERE record = ?1 ORDER BY digest";
        let mut query = self.prepare(text)?;
        query.query_map([record], |row| row.get(0)).and_then(Iterator::collect).map_err(problem)
    }

    fn is_blob_used(&self, digest: &[u8; 32]) -> Result<bool, Problem> {
        let mut query = self.prepare("SELECT 1 FROM blob_uses WHERE digest = ?1")?;
        query.exists([digest]).map_err(problem)
    }

    fn blob_put_by(&self, digest: &[u8; 32], put: Instant) -> Result<Option<i64>, Problem> {
        let text = "SELECT id FROM blobs WHERE digest = ?1 AND (put IS NULL OR put <= ?2)";
        let mut query = self.prepare(text)?;
        query.query_row(params![digest, put.0], |row| row.get(0)).optional().map_err(problem)
    }

    fn correct_blob_times(&self, latest: Instant, now: Instant, limit: i64) -> Result<(), Problem> {
        let text =
            "UPDATE blobs SET put = ?1 WHERE id IN (SELECT id FROM blobs WHERE put > ?2 LIMIT ?3)";
        self.execute(text, [now.0, latest.0, limit])
    }

    fn old_blobs(&self, put: Instant, limit: i64) -> Result<Vec<OldBlob>, Problem> {
        let text = "SELECT id, digest, bytes FROM blobs WHERE put <= ?1 ORDER BY put LIMIT ?2";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([put.0, limit], |row| {
            Ok(OldBlob { blob: row.get(0)?, digest: row.get(1)?, bytes: row.get(2)? })
        });
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn insert_grant(&self, id: &str, json: &str) -> Result<(), Problem> {
        self.execute("INSERT INTO grants (id, terms) VALUES (?1, ?2)", [id, json])
    }

    fn bind_grant(&self, id: &str, token: &str) -> Result<(), Problem> {
        let text = "UPDATE grants SET bound = ?2 WHERE id = ?1 AND bound IS NULL";
        self.execute(text, [id, token])
    }

    fn revoke_grant(&self, id: &str, now: Instant) -> Result<Option<Option<Instant>>, Problem> {
        let mut query = self.prepare("SELECT revoked FROM grants WHERE id = ?1")?;
        let before: Option<Option<i64>> =
            query.query_row([id], |row| row.get(0)).optional().map_err(problem)?;
        let text = "UPDATE grants SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";
        self.execute(text, params![id, now.0])?;
        Ok(before.map(|revoked| revoked.map(Instant)))
    }
}
