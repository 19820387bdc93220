//! Writes rows in a transaction of PostgreSQL.
//!
//! Rows of records are [`Pending`] before they are written, many at once. A question about them
//! either takes what is pending into account, or writes it first.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use tokio_postgres::Row;

use super::key_window::{FoundRecord, KeyWindow};
use super::pending::Pending;
use super::read::{column, text_of};
use crate::postgresql::{TenantConnection, TenantSql, Values, params, tenant_sql};
use crate::records::port::{NewBlobUse, NewRecord, OldBlob, RowWriter, StreamDeclaration};
use crate::records::tagged_tokens::TaggedTokens;

/// The number of records at which the tables are counted first.
const FIRST_COUNT: i64 = 1024;

/// The numbers of the last record and of the last change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LastNumbers {
    record: i64,
    change: i64,
}

/// A transaction that writes. No other transaction of the tenant writes until it ends.
pub(super) struct PgWriter<'c> {
    connection: &'c TenantConnection<'c>,
    stored: LastNumbers,
    last: Cell<LastNumbers>,
    /// The last numbers at the beginning of the step.
    at_step: Cell<LastNumbers>,
    pending: RefCell<Pending>,
    window: RefCell<KeyWindow>,
    /// Records that use no blob, of those that were looked up by key.
    without_blobs: RefCell<HashSet<i64>>,
}

impl<'c> PgWriter<'c> {
    /// Waits until no other transaction of the tenant writes. Refuses while the tenant's rows are
    /// copied: a server that opened them before the copy began must not write between its rows.
    pub(super) fn begin(connection: &'c TenantConnection<'c>) -> Result<Self, Problem> {
        // The lock on both rows makes PostgreSQL read both again if this statement had to wait.
        let sql = tenant_sql!(
            "SELECT h.records, h.changes, t.incomplete <> 0 \
             FROM history h JOIN tenants t ON t.number = h.tenant \
             WHERE h.tenant = $1 FOR UPDATE OF h FOR SHARE OF t"
        );
        let row = connection.one(&sql, &[])?.ok_or(Problem::Corrupt)?;
        if column(&row, 2)? {
            tracing::warn!("a copy of a person's records is under way, so a write is refused");
            return Err(Problem::Busy);
        }
        Self::after(connection, &row)
    }

    /// Waits until no other transaction of the tenant writes. Also writes while the tenant's rows
    /// are copied.
    pub(super) fn begin_of_copy(connection: &'c TenantConnection<'c>) -> Result<Self, Problem> {
        let sql = tenant_sql!("SELECT records, changes FROM history WHERE tenant = $1 FOR UPDATE");
        let row = connection.one(&sql, &[])?.ok_or(Problem::Corrupt)?;
        Self::after(connection, &row)
    }

    /// Begins after the numbers in a row of `history`.
    fn after(connection: &'c TenantConnection<'c>, row: &Row) -> Result<Self, Problem> {
        let stored = LastNumbers { record: column(row, 0)?, change: column(row, 1)? };
        Ok(Self {
            connection,
            stored,
            last: Cell::new(stored),
            at_step: Cell::new(stored),
            pending: RefCell::default(),
            window: RefCell::default(),
            without_blobs: RefCell::default(),
        })
    }

    /// Writes what is pending, and then the last numbers.
    pub(super) fn finish(&self) -> Result<(), Problem> {
        self.flush()?;
        let last = self.last.get();
        if last == self.stored {
            return Ok(());
        }
        self.execute(
            &tenant_sql!("UPDATE history SET records = $2, changes = $3 WHERE tenant = $1"),
            params![last.record, last.change],
        )
    }

    /// Returns whether the tenant has had many records, and about twice as many as when they were
    /// counted last.
    pub(super) fn has_doubled(&self) -> bool {
        let (before, now) = (self.stored.record.max(1), self.last.get().record.max(1));
        now >= FIRST_COUNT && now.ilog2() > before.ilog2()
    }

    /// Writes what is pending.
    pub(super) fn flush(&self) -> Result<(), Problem> {
        self.window.borrow_mut().forget();
        self.pending.take().flush(self.connection)
    }

    /// Changes what is pending, and writes it if it is much.
    fn pend(&self, change: impl FnOnce(&mut Pending)) -> Result<(), Problem> {
        let mut pending = self.pending.borrow_mut();
        change(&mut pending);
        let is_full = pending.is_full();
        drop(pending);
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Finds the stored record with a key as it will be after what is pending.
    fn find<T>(
        &self,
        stream: i64,
        key: &str,
        take: impl FnOnce(i64, &[u8]) -> T,
    ) -> Result<Option<T>, Problem> {
        let pending = self.pending.borrow();
        if let Some((number, body)) = pending.new_record(stream, key) {
            return Ok(Some(take(number, body)));
        }
        let mut window = self.window.borrow_mut();
        let found = window.find(self.connection, stream, key)?;
        let Some(FoundRecord { number, body, uses_blobs }) = found else { return Ok(None) };
        if pending.is_deleted(*number) {
            return Ok(None);
        }
        if !uses_blobs && !pending.gets_blob_use(*number) {
            self.without_blobs.borrow_mut().insert(*number);
        }
        Ok(Some(take(*number, pending.body(*number).unwrap_or(body))))
    }

    pub(super) fn execute(&self, sql: &TenantSql, values: Values<'_>) -> Result<(), Problem> {
        Ok(self.connection.rows(sql, values).map(drop)?)
    }

    pub(super) fn rows(&self, sql: &TenantSql, values: Values<'_>) -> Result<Vec<Row>, Problem> {
        Ok(self.connection.rows(sql, values)?)
    }

    pub(super) fn one(&self, sql: &TenantSql, values: Values<'_>) -> Result<Option<Row>, Problem> {
        Ok(self.connection.one(sql, values)?)
    }

    /// Returns a number in the first row, if there is one.
    pub(super) fn number(
        &self,
        sql: &TenantSql,
        values: Values<'_>,
    ) -> Result<Option<i64>, Problem> {
        let row = self.one(sql, values)?;
        Ok(row.map(|row| column::<Option<i64>>(&row, 0)).transpose()?.flatten())
    }
}

impl RowWriter for PgWriter<'_> {
    fn begin_step(&self) -> Result<(), Problem> {
        self.flush()?;
        self.at_step.set(self.last.get());
        Ok(self.connection.begin_step()?)
    }

    fn keep_step(&self) -> Result<(), Problem> {
        Ok(self.connection.keep_step()?)
    }

    fn undo_step(&self) -> Result<(), Problem> {
        self.last.set(self.at_step.get());
        self.pending.take();
        self.window.borrow_mut().forget();
        self.without_blobs.borrow_mut().clear();
        Ok(self.connection.undo_step()?)
    }

    fn stream(&self, connection: &str, stream: &str) -> Result<Option<StreamDeclaration>, Problem> {
        let sql = tenant_sql!(
            "SELECT s.id, s.declaration, s.terms \
             FROM streams s JOIN connections c \
             ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND c.name = $2 AND s.name = $3"
        );
        let row = self.one(&sql, params![connection.as_bytes(), stream.as_bytes()])?;
        let declaration = |row: &Row| {
            Ok(StreamDeclaration {
                id: column(row, 0)?,
                declaration: text_of(row, 1)?.to_owned(),
                indexed: text_of(row, 2)?.to_owned(),
            })
        };
        row.as_ref().map(declaration).transpose()
    }

    fn insert_stream(
        &self,
        connection: &str,
        stream: &str,
        declaration: &str,
        indexed: &str,
    ) -> Result<i64, Problem> {
        let name = connection.as_bytes();
        let sql = tenant_sql!(
            "INSERT INTO connections (tenant, id, name) \
             SELECT $1, coalesce(max(id), 0) + 1, $2 FROM connections WHERE tenant = $1 \
             ON CONFLICT DO NOTHING"
        );
        self.execute(&sql, params![name])?;
        let sql = tenant_sql!(
            "INSERT INTO streams (tenant, id, connection, name, declaration, terms, revision) \
             SELECT $1, (SELECT coalesce(max(id), 0) + 1 FROM streams WHERE tenant = $1), \
             id, $3, $4, $5, 1 \
             FROM connections WHERE tenant = $1 AND name = $2 RETURNING id"
        );
        let (stream, declaration, indexed) =
            (stream.as_bytes(), declaration.as_bytes(), indexed.as_bytes());
        let stream = self.number(&sql, params![name, stream, declaration, indexed])?;
        stream.ok_or(Problem::Corrupt)
    }

    fn update_stream(&self, stream: i64, declaration: &str, indexed: &str) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "UPDATE streams SET declaration = $3, terms = $4, revision = revision + 1 \
             WHERE tenant = $1 AND id = $2"
        );
        self.execute(&sql, params![stream, declaration.as_bytes(), indexed.as_bytes()])
    }

    fn add_tag(&self, stream: i64, field: &str) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "INSERT INTO tags (tenant, id, stream, field) \
             SELECT $1, coalesce(max(id), 0) + 1, $2, $3 FROM tags WHERE tenant = $1 \
             ON CONFLICT DO NOTHING"
        );
        self.execute(&sql, params![stream, field.as_bytes()])
    }

    fn tags(&self, stream: i64) -> Result<HashMap<String, i64>, Problem> {
        let sql = tenant_sql!("SELECT field, id FROM tags WHERE tenant = $1 AND stream = $2");
        let rows = self.rows(&sql, params![stream])?;
        rows.iter().map(|row| Ok((text_of(row, 0)?.to_owned(), column(row, 1)?))).collect()
    }

    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem> {
        self.find(stream, key, |number, body| (number, body.to_vec()))
    }

    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem> {
        Ok(self.find(stream, key, |_, _| ())?.is_some())
    }

    fn has_records(&self, stream: i64) -> Result<bool, Problem> {
        self.flush()?;
        let sql = tenant_sql!("SELECT id FROM records WHERE tenant = $1 AND stream = $2 LIMIT 1");
        Ok(self.number(&sql, params![stream])?.is_some())
    }

    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem> {
        // The new record may have the key of a deleted one.
        if self.pending.borrow().has_deleted_records() {
            self.flush()?;
        }
        let mut last = self.last.get();
        last.record += 1;
        self.last.set(last);
        self.without_blobs.borrow_mut().insert(last.record);
        self.pend(|pending| pending.insert_record(last.record, record))?;
        Ok(last.record)
    }

    fn update_record(
        &self,
        record: i64,
        order_key: Option<&[u8]>,
        happened: Option<i64>,
        body: &[u8],
    ) -> Result<(), Problem> {
        self.pend(|pending| pending.update_record(record, order_key, happened, body))
    }

    fn delete_record(&self, record: i64) -> Result<(), Problem> {
        // Changes of the record are written before the record is deleted.
        if self.pending.borrow().is_new(record) {
            self.flush()?;
        }
        self.pend(|pending| pending.delete_record(record))
    }

    fn body(&self, record: i64) -> Result<Vec<u8>, Problem> {
        if let Some(body) = self.pending.borrow().body(record) {
            return Ok(body.to_vec());
        }
        let sql = tenant_sql!("SELECT body FROM records WHERE tenant = $1 AND id = $2");
        let row = self.one(&sql, params![record])?;
        column(&row.ok_or(Problem::Corrupt)?, 0)
    }

    fn last_record(&self, stream: i64) -> Result<Option<i64>, Problem> {
        self.flush()?;
        // The sum keeps PostgreSQL from walking all records of the database.
        self.number(
            &tenant_sql!("SELECT max(id + 0) FROM records WHERE tenant = $1 AND stream = $2"),
            params![stream],
        )
    }

    fn records_up_to(&self, stream: i64, last: i64, limit: i64) -> Result<Vec<i64>, Problem> {
        self.flush()?;
        let sql = tenant_sql!(
            "SELECT id FROM records WHERE tenant = $1 AND stream = $2 AND id + 0 <= $3 LIMIT $4"
        );
        let rows = self.rows(&sql, params![stream, last, limit])?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    fn keys_after(
        &self,
        stream: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, Problem> {
        self.flush()?;
        let sql = tenant_sql!(
            "SELECT id, key FROM records WHERE tenant = $1 AND stream = $2 AND key > $3 \
             ORDER BY key LIMIT $4"
        );
        let rows = self.rows(&sql, params![stream, after, limit])?;
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
    }

    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem> {
        self.pend(|pending| pending.insert_piece(number, text))
    }

    fn renumber_piece(&self, from: i64, to: i64) -> Result<(), Problem> {
        self.flush()?;
        self.execute(
            &tenant_sql!("UPDATE pieces SET id = $3 WHERE tenant = $1 AND id = $2"),
            params![from, to],
        )
    }

    fn delete_piece(&self, number: i64) -> Result<(), Problem> {
        self.pend(|pending| pending.delete_piece(number))
    }

    fn piece_text(&self, number: i64) -> Result<String, Problem> {
        if let Some(text) = self.pending.borrow().piece(number) {
            return String::from_utf8(text.to_vec()).map_err(|_| Problem::Corrupt);
        }
        let sql = tenant_sql!("SELECT text FROM pieces WHERE tenant = $1 AND id = $2");
        let row = self.one(&sql, params![number])?;
        text_of(&row.ok_or(Problem::Corrupt)?, 0).map(str::to_owned)
    }

    fn shares_token_rows(&self) -> bool {
        // Each token has its own row.
        false
    }

    fn insert_tokens(&self, number: i64, tokens: &TaggedTokens) -> Result<(), Problem> {
        self.pend(|pending| pending.insert_tokens(number, tokens))
    }

    fn delete_tokens(&self, number: i64) -> Result<(), Problem> {
        self.pend(|pending| pending.delete_tokens(number))
    }

    fn insert_change(&self, record: i64, at: Instant, body: &[u8]) -> Result<(), Problem> {
        let mut last = self.last.get();
        last.change += 1;
        self.last.set(last);
        self.pend(|pending| pending.insert_change(last.change, record, at, body))
    }

    fn note_forgotten(&self, oldest: Instant, newest: Instant) -> Result<(), Problem> {
        // A right-hand side sees the row as it was.
        let sql = tenant_sql!(
            "UPDATE history SET forgotten = $2, lineage = CASE WHEN forgotten > $3 \
             THEN uuid_send(gen_random_uuid()) ELSE lineage END \
             WHERE tenant = $1 AND (forgotten > $3 OR forgotten < $2)"
        );
        self.execute(&sql, params![oldest.0, newest.0])
    }

    fn delete_changes(&self, before: Instant, limit: i64) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "DELETE FROM changes WHERE tenant = $1 AND version = ANY(ARRAY( \
             SELECT version FROM changes WHERE tenant = $1 AND at < $2 LIMIT $3))"
        );
        self.execute(&sql, params![before.0, limit])
    }

    fn next_blob(&self) -> Result<i64, Problem> {
        let sql = tenant_sql!("SELECT coalesce(max(id), 0) + 1 FROM blobs WHERE tenant = $1");
        let next = self.number(&sql, &[])?;
        next.ok_or(Problem::Corrupt)
    }

    fn blob(&self, digest: &[u8; 32]) -> Result<Option<i64>, Problem> {
        let sql = tenant_sql!("SELECT id FROM blobs WHERE tenant = $1 AND digest = $2");
        self.number(&sql, params![&digest[..]])
    }

    fn insert_blob(&self, blob: i64, digest: &[u8; 32], bytes: u64) -> Result<(), Problem> {
        let sql =
            tenant_sql!("INSERT INTO blobs (tenant, id, digest, bytes) VALUES ($1, $2, $3, $4)");
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.execute(&sql, params![blob, &digest[..], bytes])
    }

    fn insert_blob_piece(&self, number: i64, bytes: &[u8]) -> Result<(), Problem> {
        let sql = tenant_sql!("INSERT INTO blob_pieces (tenant, id, data) VALUES ($1, $2, $3)");
        self.execute(&sql, params![number, bytes])
    }

    fn delete_blob_pieces(&self, first: i64, end: i64) -> Result<(), Problem> {
        let sql = tenant_sql!("DELETE FROM blob_pieces WHERE tenant = $1 AND id >= $2 AND id < $3");
        self.execute(&sql, params![first, end])
    }

    fn delete_blob(&self, blob: i64) -> Result<(), Problem> {
        self.execute(&tenant_sql!("DELETE FROM blobs WHERE tenant = $1 AND id = $2"), params![blob])
    }

    fn set_blob_put(&self, blob: i64, put: Option<Instant>) -> Result<(), Problem> {
        let values = params![blob, put.map(|put| put.0)];
        self.execute(
            &tenant_sql!("UPDATE blobs SET put = $3 WHERE tenant = $1 AND id = $2"),
            values,
        )
    }

    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem> {
        self.without_blobs.borrow_mut().remove(&new.record);
        self.pend(|pending| pending.add_blob_use(new))
    }

    fn delete_blob_uses(&self, record: i64) -> Result<(), Problem> {
        self.flush()?;
        self.execute(
            &tenant_sql!("DELETE FROM blob_uses WHERE tenant = $1 AND record = $2"),
            params![record],
        )
    }

    fn blobs_used_by(&self, record: i64) -> Result<Vec<[u8; 32]>, Problem> {
        if self.without_blobs.borrow().contains(&record) {
            return Ok(Vec::new());
        }
        self.flush()?;
        let sql = tenant_sql!(
            "SELECT DISTINCT digest FROM blob_uses \
             WHERE tenant = $1 AND record = $2 ORDER BY digest"
        );
        let rows = self.rows(&sql, params![record])?;
        rows.iter().map(digest_of).collect()
    }

    fn is_blob_used(&self, digest: &[u8; 32]) -> Result<bool, Problem> {
        if self.pending.borrow().has_blob_uses() {
            self.flush()?;
        }
        let sql =
            tenant_sql!("SELECT record FROM blob_uses WHERE tenant = $1 AND digest = $2 LIMIT 1");
        Ok(self.number(&sql, params![&digest[..]])?.is_some())
    }

    fn blob_put_by(&self, digest: &[u8; 32], put: Instant) -> Result<Option<i64>, Problem> {
        let sql = tenant_sql!(
            "SELECT id FROM blobs \
             WHERE tenant = $1 AND digest = $2 AND (put IS NULL OR put <= $3)"
        );
        self.number(&sql, params![&digest[..], put.0])
    }

    fn correct_blob_times(&self, latest: Instant, now: Instant, limit: i64) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "UPDATE blobs SET put = $2 WHERE tenant = $1 AND id = ANY(ARRAY( \
             SELECT id FROM blobs WHERE tenant = $1 AND put > $3 LIMIT $4))"
        );
        self.execute(&sql, params![now.0, latest.0, limit])
    }

    fn old_blobs(&self, put: Instant, limit: i64) -> Result<Vec<OldBlob>, Problem> {
        let sql = tenant_sql!(
            "SELECT digest, id, bytes FROM blobs \
             WHERE tenant = $1 AND put <= $2 ORDER BY put, id LIMIT $3"
        );
        let rows = self.rows(&sql, params![put.0, limit])?;
        let blob = |row: &Row| {
            Ok(OldBlob { blob: column(row, 1)?, digest: digest_of(row)?, bytes: column(row, 2)? })
        };
        rows.iter().map(blob).collect()
    }

    fn insert_grant(&self, id: &str, json: &str) -> Result<(), Problem> {
        let values = params![id.as_bytes(), json.as_bytes()];
        self.execute(
            &tenant_sql!("INSERT INTO grants (tenant, id, terms) VALUES ($1, $2, $3)"),
            values,
        )
    }

    fn bind_grant(&self, id: &str, token: &str) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "UPDATE grants SET bound = $3 WHERE tenant = $1 AND id = $2 AND bound IS NULL"
        );
        self.execute(&sql, params![id.as_bytes(), token.as_bytes()])
    }

    fn revoke_grant(&self, id: &str, now: Instant) -> Result<Option<Option<Instant>>, Problem> {
        let id = id.as_bytes();
        let row = self.one(
            &tenant_sql!("SELECT revoked FROM grants WHERE tenant = $1 AND id = $2"),
            params![id],
        )?;
        let before: Option<Option<i64>> = row.map(|row| column(&row, 0)).transpose()?;
        let sql = tenant_sql!(
            "UPDATE grants SET revoked = $3 WHERE tenant = $1 AND id = $2 AND revoked IS NULL"
        );
        self.execute(&sql, params![id, now.0])?;
        Ok(before.map(|revoked| revoked.map(Instant)))
    }
}

fn digest_of(row: &Row) -> Result<[u8; 32], Problem> {
    let digest: &[u8] = column(row, 0)?;
    digest.try_into().map_err(|_| Problem::Corrupt)
}
