//! Finds the records that refer to some keys, in one walk for all of these keys.

use std::collections::{BTreeSet, HashMap};

use stile_domain::records::filter::{Condition, FieldTest, referenced_key};
use stile_domain::records::problem::Problem;

use super::{ListWalk, RecordPage, RecordsView};
use crate::records::model::{RecordSource, SortOrder};

/// The most records that the first query of a walk reads.
const MOST_ROWS: usize = 4096;
/// The records whose fields are read at once.
const ROWS_AHEAD: usize = 256;

impl RecordsView<'_> {
    /// Returns for each key the last records that have the key in `field`, a field that the caller
    /// may see: at most `limit`, in descending order.
    ///
    /// # Errors
    /// The error of the database.
    pub fn list_referring(
        &self,
        sources: &[RecordSource],
        field: &str,
        keys: impl IntoIterator<Item = String>,
        limit: usize,
    ) -> Result<HashMap<String, RecordPage>, Problem> {
        let empty = || RecordPage { rows: Vec::new(), has_more: false };
        let mut pages: HashMap<String, RecordPage> =
            keys.into_iter().map(|key| (key, empty())).collect();
        let mut position = None;
        loop {
            let is_open =
                |(key, page): (&String, &RecordPage)| (!page.has_more).then(|| key.clone());
            let open: BTreeSet<String> = pages.iter().filter_map(is_open).collect();
            if open.is_empty() {
                return Ok(pages);
            }
            let batch = open.len().saturating_mul(limit.saturating_add(1)).min(MOST_ROWS);
            let test = FieldTest::RefersToAny(open);
            let conditions = [Condition::on(field, test)];
            let (order, snapshot) = (SortOrder::Descending, self.snapshot);
            let mut walk = ListWalk::new(snapshot, sources, &conditions, order, position, batch);
            // Records of keys that have enough. If there are many, the walk begins anew without
            // these keys.
            let mut surplus = 0;
            while surplus < batch {
                let mut rows = Vec::new();
                while rows.len() < ROWS_AHEAD.min(batch)
                    && let Some(row) = walk.next()?
                {
                    rows.push(row);
                }
                if rows.is_empty() {
                    return Ok(pages);
                }
                self.read_ahead(rows.iter().map(|row| (sources, row)))?;
                for row in rows {
                    let loaded = self.load_fields(sources, &row)?;
                    let entry = loaded.body().field(field).map_err(|_| Problem::Corrupt)?;
                    let key = entry.and_then(|entry| referenced_key(entry.value));
                    let page = key.and_then(|key| pages.get_mut(key)).ok_or(Problem::Corrupt)?;
                    if page.rows.len() < limit {
                        page.rows.push(row);
                    } else {
                        page.has_more = true;
                        surplus += 1;
                    }
                }
            }
            position = walk.position().cloned();
        }
    }
}
