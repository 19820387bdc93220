//! The records that fulfil conditions, found by the index of values.
//!
//! The index names candidates. Each candidate is then looked at as a walk would: the caller must be
//! allowed to see it, and the conditions must hold of its fields. The same is done with the records
//! that the index does not cover yet. So both ways find the same records.

use std::cmp::Ordering;
use std::collections::HashSet;

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::key_ranges;

use crate::records::model::{RecordRow, RecordSource, Scan, ScanRange, ScanStart, SortOrder};
use crate::records::port::Snapshot;

/// The most records without index that are read beside it. Only a stream that was
/// declared anew, or a copied one, has more of them.
const MOST_TAIL: i64 = 16_384;
/// So few candidates are read without looking for fewer.
const FEW: usize = 64;
/// A list reads at least so many candidates rather than walk on.
const LEAST_LISTED: usize = 1024;
/// A search looks for its words in so many records rather than in the index of words.
pub(super) const MOST_SEARCHED: usize = 256;
/// If all records that match are needed, the stream is read in order if more than this part of it,
/// and more than so many records, are candidates.
const COUNTED_PART: i64 = 16;
const LEAST_COUNTED: usize = 64;

/// What the records are needed for, which decides how many candidates are too many.
#[derive(Clone, Copy)]
pub(super) enum MatchUse {
    /// A page of this number of records. A walk finds it soon if many records match.
    Page(usize),
    /// All records.
    All,
    /// All records, to look for words in each.
    Search,
}

/// All records of a source that the caller may see and of which the conditions hold.
pub(super) struct MatchingRows(pub(super) Vec<RecordRow>);

impl MatchUse {
    /// Returns the most candidates that are cheaper than a walk, among this number of records.
    fn most(self, records: i64) -> usize {
        match self {
            // If the matches are spread evenly, a walk reads about `records * page / candidates`.
            Self::Page(page) => {
                let page = i64::try_from(page).unwrap_or(i64::MAX);
                let most = records.max(0).saturating_mul(page.saturating_mul(4)).isqrt();
                usize::try_from(most).unwrap_or(usize::MAX).max(LEAST_LISTED)
            }
            Self::Search => MOST_SEARCHED,
            Self::All => {
                usize::try_from(records / COUNTED_PART).unwrap_or_default().max(LEAST_COUNTED)
            }
        }
    }
}

impl MatchingRows {
    /// Finds the records by the index. `None` if the stream has no index, if no condition is on a
    /// field of the index, or if there are too many candidates.
    pub(super) fn find(
        snapshot: &dyn Snapshot,
        source: &RecordSource,
        conditions: &[Condition],
        needed: MatchUse,
    ) -> Result<Option<Self>, Problem> {
        if conditions.is_empty() {
            return Ok(None);
        }
        let Some(found) = snapshot.field_runs(source.id)? else { return Ok(None) };
        let (index, runs) = (found.index, found.runs);
        if index.indexed == 0 || index.tail > MOST_TAIL {
            return Ok(None);
        }
        let most = needed.most(index.indexed + index.tail);
        let fields = index.fields.unwrap_or_default();
        let mut candidates: Option<Vec<i64>> = None;
        for (field, ranges) in key_ranges(conditions) {
            if candidates.as_ref().is_some_and(|candidates| candidates.len() <= FEW) {
                break;
            }
            let Some(field) = fields.iter().zip(0..).find(|(name, _)| *name == field) else {
                continue;
            };
            let named = snapshot.records_with_values(&runs, field.1, &ranges, most)?;
            candidates = match (candidates, named) {
                (Some(before), Some(named)) => {
                    let named: HashSet<i64> = named.into_iter().collect();
                    Some(before.into_iter().filter(|record| named.contains(record)).collect())
                }
                (before, named) => before.or(named),
            };
        }
        let Some(mut candidates) = candidates else { return Ok(None) };
        // A record with a list may have several values in the ranges.
        candidates.sort_unstable();
        candidates.dedup();
        let mut rows = match candidates.is_empty() {
            true => Vec::new(),
            false => snapshot.visible_among(source, &candidates, conditions)?,
        };
        rows.extend(snapshot.visible_after(source, index.covered, conditions)?);
        Ok(Some(Self(rows)))
    }

    /// Answers a scan of the source with the same conditions.
    pub(super) fn scan(&self, scan: &Scan<'_>) -> Vec<RecordRow> {
        let row = |row: &RecordRow| {
            let order_key = match scan.range {
                ScanRange::Ordered => Some(row.order_key.clone()?),
                ScanRange::WithoutOrder if row.order_key.is_some() => return None,
                ScanRange::WithoutOrder | ScanRange::ByKey => None,
            };
            let row = RecordRow { order_key, ..row.clone() };
            follows(&row, scan).then_some(row)
        };
        let mut rows: Vec<RecordRow> = self.0.iter().filter_map(row).collect();
        rows.sort_unstable_by(|a, b| {
            let order = (&a.order_key, &a.key).cmp(&(&b.order_key, &b.key));
            if scan.order == SortOrder::Descending { order.reverse() } else { order }
        });
        rows.truncate(scan.limit);
        rows
    }
}

/// Returns whether a record lies after the start of a scan.
fn follows(row: &RecordRow, scan: &Scan<'_>) -> bool {
    let order_key = row.order_key.as_deref();
    let (order, at_bound) = match scan.start {
        ScanStart::Beginning => return true,
        ScanStart::AfterRecord(value, key) => {
            ((order_key, row.key.as_str()).cmp(&(value, key)), false)
        }
        ScanStart::AfterOrderKey(value) => (order_key.cmp(&Some(value)), false),
        ScanStart::AtOrderKey(value) => (order_key.cmp(&Some(value)), true),
    };
    match (order, scan.order) {
        (Ordering::Equal, _) => at_bound,
        (Ordering::Greater, SortOrder::Ascending) => true,
        (Ordering::Less, SortOrder::Descending) => true,
        _ => false,
    }
}
