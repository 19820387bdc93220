//! Rows that a transaction will write, many with one statement.
//!
//! A statement takes a round trip. So a writer keeps the rows of records, pieces and changes until
//! they are many, or until a question depends on them. What it keeps is the difference to the
//! database, and the order of the statements of [`Pending::flush`] gives the same rows as writing
//! each at once. [`pending_words`](super::pending_words) keeps the words, on which no question of a
//! writer depends.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use crate::postgresql::{TenantConnection, TenantSql, params, tenant_sql};
use crate::records::port::{NewBlobUse, NewRecord, RecordContent};

/// The rows and the bytes after which they are written.
const MOST_ROWS: usize = 8192;
const MOST_BYTES: usize = 4 << 20;

/// Rows that are not written yet.
#[derive(Default)]
pub(super) struct Pending {
    /// New records by number.
    records: BTreeMap<i64, PendingRecord>,
    /// Their numbers, by stream and key.
    numbers: BTreeMap<(i64, Vec<u8>), i64>,
    changes: Vec<PendingChange>,
    /// The last state of stored records that change, by number.
    updates: BTreeMap<i64, State>,
    /// The numbers of stored records to delete.
    deleted: BTreeSet<i64>,
    /// The numbers of stored pieces that are deleted.
    deleted_pieces: BTreeSet<i64>,
    /// Texts by the number of their piece.
    pieces: BTreeMap<i64, Vec<u8>>,
    uses: Vec<PendingUse>,
    /// The records that these uses are of.
    users: BTreeSet<i64>,
    rows: usize,
    bytes: usize,
}

struct PendingRecord {
    stream: i64,
    key: Vec<u8>,
    emitted: i64,
    state: State,
}

struct State {
    order_key: Option<Vec<u8>>,
    happened: Option<i64>,
    body: Vec<u8>,
}

struct PendingChange {
    version: i64,
    record: i64,
    at: i64,
    body: Vec<u8>,
}

struct PendingUse {
    digest: Vec<u8>,
    media_type: Vec<u8>,
    record: i64,
    field: Vec<u8>,
}

impl State {
    fn new(state: &RecordContent<'_>) -> Self {
        let RecordContent { order_key, happened, body } = *state;
        Self { order_key: order_key.map(<[u8]>::to_vec), happened, body: body.to_vec() }
    }
}

impl Pending {
    /// Returns whether so much is pending that it is time to write it.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES
    }

    pub(super) fn has_deleted_records(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Returns whether a record gets a use of a blob.
    pub(super) fn gets_blob_use(&self, record: i64) -> bool {
        self.users.contains(&record)
    }

    fn count(&mut self, rows: usize, bytes: usize) {
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Returns the new record with a key, and its body.
    pub(super) fn new_record(&self, stream: i64, key: &str) -> Option<(i64, &[u8])> {
        let number = *self.numbers.get(&(stream, key.as_bytes().to_vec()))?;
        Some((number, self.body(number)?))
    }

    /// Returns whether a record is new.
    pub(super) fn is_new(&self, record: i64) -> bool {
        self.records.contains_key(&record)
    }

    /// Returns the body of a record, if the record is new or its body changes.
    pub(super) fn body(&self, record: i64) -> Option<&[u8]> {
        let new = self.records.get(&record).map(|record| &record.state);
        new.or_else(|| self.updates.get(&record)).map(|state| state.body.as_slice())
    }

    pub(super) fn is_deleted(&self, record: i64) -> bool {
        self.deleted.contains(&record)
    }

    pub(super) fn insert_record(&mut self, number: i64, record: &NewRecord<'_>) {
        let NewRecord { stream, key, emitted, state } = *record;
        self.count(1, key.len() + state.body.len());
        let (key, state) = (key.as_bytes().to_vec(), State::new(&state));
        self.numbers.insert((stream, key.clone()), number);
        self.records.insert(number, PendingRecord { stream, key, emitted: emitted.0, state });
    }

    pub(super) fn update_record(&mut self, record: i64, state: &RecordContent<'_>) {
        self.count(1, state.body.len());
        let state = State::new(state);
        match self.records.get_mut(&record) {
            Some(new) => new.state = state,
            None => drop(self.updates.insert(record, state)),
        }
    }

    /// Deletes a record that is not new.
    pub(super) fn delete_record(&mut self, record: i64) {
        self.count(1, 0);
        self.updates.remove(&record);
        self.deleted.insert(record);
    }

    pub(super) fn insert_change(&mut self, version: i64, record: i64, at: Instant, body: &[u8]) {
        self.count(1, body.len());
        self.changes.push(PendingChange { version, record, at: at.0, body: body.to_vec() });
    }

    pub(super) fn insert_piece(&mut self, number: i64, text: &str) {
        self.count(1, text.len());
        self.pieces.insert(number, text.as_bytes().to_vec());
    }

    pub(super) fn delete_piece(&mut self, number: i64) {
        self.count(1, 0);
        self.pieces.remove(&number);
        self.deleted_pieces.insert(number);
    }

    /// Returns the text of a new piece.
    pub(super) fn piece(&self, number: i64) -> Option<&[u8]> {
        self.pieces.get(&number).map(Vec::as_slice)
    }

    pub(super) fn add_blob_use(&mut self, new: &NewBlobUse<'_>) {
        let NewBlobUse { digest, media_type, record, field } = *new;
        self.count(1, media_type.len() + field.len());
        let (media_type, field) = (media_type.as_bytes().to_vec(), field.as_bytes().to_vec());
        self.users.insert(record);
        self.uses.push(PendingUse { digest: digest.to_vec(), media_type, record, field });
    }

    /// Writes all rows.
    pub(super) fn flush(self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        self.flush_records(connection)?;
        self.flush_changes(connection)?;
        self.flush_updates(connection)?;
        let delete = |sql: &TenantSql, numbers: BTreeSet<i64>| -> Result<(), Problem> {
            if numbers.is_empty() {
                return Ok(());
            }
            let numbers: Vec<i64> = numbers.into_iter().collect();
            Ok(connection.rows(sql, params![numbers]).map(drop)?)
        };
        let sql = tenant_sql!("DELETE FROM records WHERE tenant = $1 AND id = ANY($2)");
        delete(&sql, self.deleted)?;
        let sql = tenant_sql!("DELETE FROM pieces WHERE tenant = $1 AND id = ANY($2)");
        delete(&sql, self.deleted_pieces)?;
        if !self.pieces.is_empty() {
            let (numbers, texts): (Vec<i64>, Vec<Vec<u8>>) = self.pieces.into_iter().unzip();
            let sql = tenant_sql!(
                "INSERT INTO pieces (tenant, id, text) \
                 SELECT $1, id, text FROM unnest($2::bigint[], $3::bytea[]) AS new (id, text)"
            );
            connection.rows(&sql, params![numbers, texts])?;
        }
        flush_uses(connection, &self.uses)
    }

    fn flush_records(&self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        let records = &self.records;
        if records.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = records.keys().copied().collect();
        let streams: Vec<i64> = records.values().map(|record| record.stream).collect();
        let keys: Vec<&[u8]> = records.values().map(|record| record.key.as_slice()).collect();
        let emitted: Vec<i64> = records.values().map(|record| record.emitted).collect();
        let states = States::new(records.values().map(|record| &record.state));
        let sql = tenant_sql!(
            "INSERT INTO records (tenant, id, stream, key, emitted, ord, happened, body) \
             SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], \
             $5::bigint[], $6::bytea[], $7::bigint[], $8::bytea[]) AS new"
        );
        let States { order_keys, happened, bodies } = states;
        let values = params![numbers, streams, keys, emitted, order_keys, happened, bodies];
        Ok(connection.rows(&sql, values).map(drop)?)
    }

    fn flush_changes(&self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        let changes = &self.changes;
        if changes.is_empty() {
            return Ok(());
        }
        let versions: Vec<i64> = changes.iter().map(|change| change.version).collect();
        let records: Vec<i64> = changes.iter().map(|change| change.record).collect();
        let times: Vec<i64> = changes.iter().map(|change| change.at).collect();
        let bodies: Vec<&[u8]> = changes.iter().map(|change| change.body.as_slice()).collect();
        let sql = tenant_sql!(
            "INSERT INTO changes (tenant, version, stream, key, at, record, emitted, body) \
             SELECT $1, new.version, stream, key, new.at, id, emitted, new.body \
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) \
             AS new (version, record, at, body) \
             JOIN records ON tenant = $1 AND id = new.record"
        );
        Ok(connection.rows(&sql, params![versions, records, times, bodies]).map(drop)?)
    }

    fn flush_updates(&self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        if self.updates.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = self.updates.keys().copied().collect();
        let States { order_keys, happened, bodies } = States::new(self.updates.values());
        let sql = tenant_sql!(
            "UPDATE records SET ord = new.ord, happened = new.happened, body = new.body \
             FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) \
             AS new (id, ord, happened, body) \
             WHERE records.tenant = $1 AND records.id = new.id"
        );
        Ok(connection.rows(&sql, params![numbers, order_keys, happened, bodies]).map(drop)?)
    }
}

/// The columns of some states.
struct States<'s> {
    order_keys: Vec<Option<&'s [u8]>>,
    happened: Vec<Option<i64>>,
    bodies: Vec<&'s [u8]>,
}

impl<'s> States<'s> {
    fn new(states: impl Iterator<Item = &'s State> + Clone) -> Self {
        Self {
            order_keys: states.clone().map(|state| state.order_key.as_deref()).collect(),
            happened: states.clone().map(|state| state.happened).collect(),
            bodies: states.map(|state| state.body.as_slice()).collect(),
        }
    }
}

fn flush_uses(connection: &TenantConnection<'_>, uses: &[PendingUse]) -> Result<(), Problem> {
    if uses.is_empty() {
        return Ok(());
    }
    let digests: Vec<&[u8]> = uses.iter().map(|one| one.digest.as_slice()).collect();
    let media_types: Vec<&[u8]> = uses.iter().map(|one| one.media_type.as_slice()).collect();
    let records: Vec<i64> = uses.iter().map(|one| one.record).collect();
    let fields: Vec<&[u8]> = uses.iter().map(|one| one.field.as_slice()).collect();
    let sql = tenant_sql!(
        "INSERT INTO blob_uses (tenant, digest, media_type, record, field) \
         SELECT $1, new.* FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bytea[]) \
         AS new ON CONFLICT DO NOTHING"
    );
    Ok(connection.rows(&sql, params![digests, media_types, records, fields]).map(drop)?)
}
