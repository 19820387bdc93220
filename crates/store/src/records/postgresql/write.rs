//! Writes rows in a transaction of PostgreSQL.
//!
//! Rows of records are [`Pending`] before they are written, many at once. A question about them
//! either takes what is pending into account, or writes it first. [`PendingWords`] wait until they
//! are many, or for the end.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use tokio_postgres::Row;

use super::key_window::{FoundRecord, KeyWindow};
use super::pending::Pending;
use super::pending_words::PendingWords;
use super::read::column;
use crate::postgresql::{TenantConnection, TenantSql, Values, params, tenant_sql};
use crate::records::port::{NewBlobUse, NewRecord, RecordContent, RowWriter};
use crate::records::rows::{PieceRows as _, Rows, WriteRecordRows as _};
use crate::records::tagged_tokens::TaggedTokens;
use crate::sql::Door;

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
    words: RefCell<PendingWords>,
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
            words: RefCell::default(),
            window: RefCell::default(),
            without_blobs: RefCell::default(),
        })
    }

    /// Writes what is pending, and then the last numbers.
    pub(super) fn finish(&self) -> Result<(), Problem> {
        self.settle()?;
        self.words.borrow_mut().flush(self.connection)?;
        let last = self.last.get();
        if last == self.stored {
            return Ok(());
        }
        self.execute(
            &tenant_sql!("UPDATE history SET records = $2, changes = $3 WHERE tenant = $1"),
            params![last.record, last.change],
        )
    }

    /// Changes what is pending, and writes it if it is much.
    fn pend(&self, change: impl FnOnce(&mut Pending)) -> Result<(), Problem> {
        let mut pending = self.pending.borrow_mut();
        change(&mut pending);
        let is_full = pending.is_full();
        drop(pending);
        if is_full { self.settle() } else { Ok(()) }
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
}

impl Rows for PgWriter<'_> {
    fn door(&self) -> Door<'_> {
        Door::Postgresql(self.connection)
    }

    fn settle(&self) -> Result<(), Problem> {
        self.window.borrow_mut().forget();
        self.pending.take().flush(self.connection)
    }
}

impl RowWriter for PgWriter<'_> {
    fn begin_step(&self) -> Result<(), Problem> {
        self.settle()?;
        self.words.borrow_mut().flush(self.connection)?;
        self.at_step.set(self.last.get());
        Ok(self.connection.begin_step()?)
    }

    fn keep_step(&self) -> Result<(), Problem> {
        Ok(self.connection.keep_step()?)
    }

    fn undo_step(&self) -> Result<(), Problem> {
        self.last.set(self.at_step.get());
        self.pending.take();
        self.words.take();
        self.window.borrow_mut().forget();
        self.without_blobs.borrow_mut().clear();
        Ok(self.connection.undo_step()?)
    }

    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem> {
        self.find(stream, key, |number, body| (number, body.to_vec()))
    }

    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem> {
        Ok(self.find(stream, key, |_, _| ())?.is_some())
    }

    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem> {
        // The new record may have the key of a deleted one.
        if self.pending.borrow().has_deleted_records() {
            self.settle()?;
        }
        let mut last = self.last.get();
        last.record += 1;
        self.last.set(last);
        self.without_blobs.borrow_mut().insert(last.record);
        self.pend(|pending| pending.insert_record(last.record, record))?;
        Ok(last.record)
    }

    fn update_record(&self, record: i64, state: &RecordContent<'_>) -> Result<(), Problem> {
        self.pend(|pending| pending.update_record(record, state))
    }

    fn delete_record(&self, record: i64) -> Result<(), Problem> {
        // Changes of the record are written before the record is deleted.
        if self.pending.borrow().is_new(record) {
            self.settle()?;
        }
        self.pend(|pending| pending.delete_record(record))
    }

    fn body(&self, record: i64) -> Result<Vec<u8>, Problem> {
        if let Some(body) = self.pending.borrow().body(record) {
            return Ok(body.to_vec());
        }
        self.stored_body(record)
    }

    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem> {
        self.pend(|pending| pending.insert_piece(number, text))
    }

    fn delete_piece(&self, number: i64) -> Result<(), Problem> {
        self.pend(|pending| pending.delete_piece(number))
    }

    fn piece_text(&self, number: i64) -> Result<String, Problem> {
        if let Some(text) = self.pending.borrow().piece(number) {
            return String::from_utf8(text.to_vec()).map_err(|_| Problem::Corrupt);
        }
        self.stored_piece(number)
    }

    fn insert_tokens(&self, number: i64, tokens: &TaggedTokens) -> Result<(), Problem> {
        let mut words = self.words.borrow_mut();
        words.insert(self.connection, number, tokens)?;
        if words.is_full() { words.flush(self.connection) } else { Ok(()) }
    }

    fn delete_tokens(&self, number: i64) -> Result<(), Problem> {
        let mut words = self.words.borrow_mut();
        if words.has(number) {
            words.flush(self.connection)?;
        }
        words.delete(number);
        Ok(())
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

    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem> {
        self.without_blobs.borrow_mut().remove(&new.record);
        self.pend(|pending| pending.add_blob_use(new))
    }

    fn uses_no_blob(&self, record: i64) -> bool {
        self.without_blobs.borrow().contains(&record)
    }
}
