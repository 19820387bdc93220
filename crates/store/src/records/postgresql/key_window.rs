//! Finds stored records by their keys, with fewer round trips than keys.
//!
//! A batch stores records one after the other, mostly in the order of their keys, or with keys
//! after all others. So a lookup also reads some records that follow, and remembers up to which key
//! it knows the stream. A key in between that was not read is not there. How many it reads grows as
//! long as what it read is used.

use std::collections::BTreeMap;

use stile_domain::records::problem::Problem;

use super::read::column;
use crate::postgresql::{TenantConnection, params, tenant_sql};

/// The most records that a lookup reads.
const MOST_RECORDS: i64 = 128;

/// A stored record.
#[derive(Clone)]
pub(super) struct FoundRecord {
    pub(super) number: i64,
    pub(super) body: Vec<u8>,
    /// Whether the record uses a blob.
    pub(super) uses_blobs: bool,
}

/// The records of a stream between two keys, as they are stored.
#[derive(Default)]
pub(super) struct KeyWindow {
    /// `None` if nothing is known.
    range: Option<WindowKeys>,
    records: BTreeMap<Vec<u8>, FoundRecord>,
    /// How many records the last lookup read, and how many keys it answered.
    size: i64,
    answered: i64,
}

struct WindowKeys {
    stream: i64,
    first: Vec<u8>,
    /// `None` if the stream ends with the window.
    last: Option<Vec<u8>>,
}

impl WindowKeys {
    fn covers(&self, stream: i64, key: &[u8]) -> bool {
        self.stream == stream
            && self.first.as_slice() <= key
            && self.last.as_ref().is_none_or(|last| key <= last.as_slice())
    }
}

impl KeyWindow {
    /// Forgets the records, since they are about to change.
    pub(super) fn forget(&mut self) {
        self.range = None;
        self.records.clear();
    }

    /// Finds the record with a key as it is stored.
    pub(super) fn find(
        &mut self,
        connection: &TenantConnection<'_>,
        stream: i64,
        key: &str,
    ) -> Result<Option<&FoundRecord>, Problem> {
        let key = key.as_bytes();
        if !self.range.as_ref().is_some_and(|range| range.covers(stream, key)) {
            self.read(connection, stream, key)?;
        }
        self.answered += 1;
        Ok(self.records.get(key))
    }

    fn read(
        &mut self,
        connection: &TenantConnection<'_>,
        stream: i64,
        key: &[u8],
    ) -> Result<(), Problem> {
        let was_used = 2 * self.answered > self.size;
        let size = if was_used { 2 * self.size } else { self.size / 2 };
        self.size = size.clamp(1, MOST_RECORDS);
        self.answered = 0;
        self.forget();
        let sql = tenant_sql!(
            "SELECT key, id, body, EXISTS (SELECT 1 FROM blob_uses \
             WHERE blob_uses.tenant = $1 AND record = id) \
             FROM records WHERE records.tenant = $1 AND stream = $2 AND key >= $3 \
             ORDER BY key LIMIT $4"
        );
        let rows = connection.rows(&sql, params![stream, key, self.size])?;
        for row in &rows {
            let (number, body, uses_blobs) = (column(row, 1)?, column(row, 2)?, column(row, 3)?);
            self.records.insert(column(row, 0)?, FoundRecord { number, body, uses_blobs });
        }
        let is_end = (rows.len() as i64) < self.size;
        let last = self.records.last_key_value().map(|(key, _)| key.clone());
        let last = last.filter(|_| !is_end);
        self.range = Some(WindowKeys { stream, first: key.to_vec(), last });
        Ok(())
    }
}
