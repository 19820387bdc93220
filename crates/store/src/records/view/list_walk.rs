//! Walks the records of some sources in the order of lists, as far as a caller may see them.
//!
//! Records with a value to order by come first, by that value; then connection, then key. Those
//! without one come last in both directions. Each source gives its records from an index, some at
//! a time, and the walk merges them.

use std::cmp::Ordering;
use std::collections::VecDeque;

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;

use super::super::model::{RecordRow, RecordSource, Scan, ScanRange, ScanStart, SortOrder};
use super::super::port::{ScannedPart, Snapshot};
use super::matching_rows::{MatchUse, MatchingRows};

/// The most records that one query of a source reads ahead.
const MOST_ROWS: usize = 4096;
/// How many records are walked for each that is wanted before the index by value is asked: so few
/// that small tests do both.
const WALKED_FIRST: usize = 4;

/// A walk in progress.
pub(in crate::records) struct ListWalk<'w> {
    snapshot: &'w dyn Snapshot,
    sources: &'w [RecordSource],
    conditions: &'w [Condition],
    order: SortOrder,
    phase: Phase,
    last_phase: Phase,
    /// What each source has read ahead.
    ahead: Vec<Ahead>,
    ways: Vec<Way>,
    position: Option<ListPosition>,
}

/// The two parts of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Records with an order key.
    Ordered,
    /// Records without one.
    Unordered,
}

/// The records of one source that were read and not taken yet.
struct Ahead {
    rows: VecDeque<RecordRow>,
    /// How many records the next query reads.
    batch: usize,
    /// The last record that was read in this phase.
    last: Option<ListPosition>,
    is_done: bool,
}

/// How the records of one source are found.
enum Way {
    /// Some records are walked first: if many match, that is enough.
    WalkSome,
    Walk,
    /// The index by value named all records that match.
    Found(MatchingRows),
}

/// The place of a record in a list of several sources. Compares like ascending lists, but for
/// records without an order key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::records) struct ListPosition {
    pub(in crate::records) order_key: Option<Vec<u8>>,
    /// The index of the record's source.
    pub(in crate::records) source: usize,
    pub(in crate::records) key: String,
}

impl ListPosition {
    pub(in crate::records) fn of(row: &RecordRow) -> Self {
        Self { order_key: row.order_key.clone(), source: row.source, key: row.key.clone() }
    }

    /// Returns where the list of one source continues. `None` if that list has ended.
    fn start_in(&self, source: usize, order: SortOrder) -> Option<ScanStart<'_>> {
        let side = match order {
            SortOrder::Ascending => source.cmp(&self.source),
            SortOrder::Descending => self.source.cmp(&source),
        };
        match (side, self.order_key.as_deref()) {
            (Ordering::Equal, order_key) => Some(ScanStart::AfterRecord(order_key, &self.key)),
            // Records with the same order key are listed connection by connection.
            (Ordering::Greater, Some(order_key)) => Some(ScanStart::AtOrderKey(order_key)),
            (Ordering::Less, Some(order_key)) => Some(ScanStart::AfterOrderKey(order_key)),
            (Ordering::Greater, None) => Some(ScanStart::Beginning),
            (Ordering::Less, None) => None,
        }
    }
}

impl<'w> ListWalk<'w> {
    /// Begins a walk after a position. `batch` is the number of records that the first query of
    /// each source reads.
    pub(in crate::records) fn new(
        snapshot: &'w dyn Snapshot,
        sources: &'w [RecordSource],
        conditions: &'w [Condition],
        order: SortOrder,
        after: Option<ListPosition>,
        batch: usize,
    ) -> Self {
        let is_unordered = after.as_ref().is_some_and(|after| after.order_key.is_none());
        let phase = if is_unordered { Phase::Unordered } else { Phase::Ordered };
        let ahead = sources.iter().map(|_| Ahead::new(batch)).collect();
        let ways = sources.iter().map(|_| Way::WalkSome).collect();
        let (last_phase, position) = (Phase::Unordered, after);
        Self { snapshot, sources, conditions, order, phase, last_phase, ahead, ways, position }
    }

    /// Leaves out the records without an order key.
    pub(in crate::records) fn only_ordered(self) -> Self {
        Self { last_phase: Phase::Ordered, ..self }
    }

    /// Returns the record that was returned last, or where the walk began.
    pub(in crate::records) fn position(&self) -> Option<&ListPosition> {
        self.position.as_ref()
    }

    /// Returns the next record.
    pub(in crate::records) fn next(&mut self) -> Result<Option<RecordRow>, Problem> {
        loop {
            for source in 0..self.sources.len() {
                self.fill(source)?;
            }
            let fronts = self.ahead.iter().enumerate();
            let fronts = fronts.filter_map(|(at, ahead)| Some((at, ahead.rows.front()?)));
            let first = fronts.min_by(|(_, a), (_, b)| {
                let order = (&a.order_key, a.source, &a.key).cmp(&(&b.order_key, b.source, &b.key));
                if self.order == SortOrder::Descending { order.reverse() } else { order }
            });
            let first = first.map(|(at, _)| at);
            let row = first.and_then(|at| self.ahead.get_mut(at)?.rows.pop_front());
            if let Some(row) = row {
                self.position = Some(ListPosition::of(&row));
                return Ok(Some(row));
            }
            if self.phase == self.last_phase {
                return Ok(None);
            }
            self.phase = Phase::Unordered;
            self.ahead.iter_mut().for_each(|ahead| *ahead = Ahead::new(ahead.batch));
        }
    }

    /// Reads the next records of a source if none is left.
    fn fill(&mut self, at: usize) -> Result<(), Problem> {
        let (Some(source), Some(ahead), Some(way)) =
            (self.sources.get(at), self.ahead.get_mut(at), self.ways.get_mut(at))
        else {
            return Ok(());
        };
        if ahead.is_done || !ahead.rows.is_empty() {
            return Ok(());
        }
        let by_order = source.ordered_by().is_some();
        let range = match self.phase {
            Phase::Ordered if !by_order => None,
            Phase::Ordered => Some(ScanRange::Ordered),
            Phase::Unordered if by_order => Some(ScanRange::WithoutOrder),
            Phase::Unordered => Some(ScanRange::ByKey),
        };
        let is_ordered = self.phase == Phase::Ordered;
        let began = self.position.as_ref().filter(|after| after.order_key.is_some() == is_ordered);
        let start = match (&ahead.last, began) {
            (Some(last), _) => last.start_in(at, self.order),
            (None, Some(after)) => after.start_in(at, self.order),
            (None, None) => Some(ScanStart::Beginning),
        };
        let (Some(range), Some(start)) = (range, start) else {
            ahead.is_done = true;
            return Ok(());
        };
        let (order, conditions, limit) = (self.order, self.conditions, ahead.batch);
        let scan = Scan { range, order, start, conditions, limit };
        let rows = way.scan(self.snapshot, source, &scan)?;
        ahead.is_done = rows.len() < limit;
        ahead.batch = limit.max((2 * limit).min(MOST_ROWS));
        ahead.rows = rows.into_iter().map(|row| RecordRow { source: at, ..row }).collect();
        ahead.last = ahead.rows.back().map(ListPosition::of);
        Ok(())
    }
}

impl Way {
    /// Returns the next records of a source that fulfil the conditions of the walk.
    fn scan(
        &mut self,
        snapshot: &dyn Snapshot,
        source: &RecordSource,
        scan: &Scan<'_>,
    ) -> Result<Vec<RecordRow>, Problem> {
        match self {
            Self::Found(matching) => return Ok(matching.scan(scan)),
            Self::WalkSome if !scan.conditions.is_empty() => {}
            Self::WalkSome | Self::Walk => return snapshot.scan(source, scan),
        }
        let most = scan.limit.saturating_mul(WALKED_FIRST);
        let ScannedPart { mut rows, stopped_after } = snapshot.scan_some(source, scan, most)?;
        let Some(last) = stopped_after else { return Ok(rows) };
        let needed = MatchUse::Page(scan.limit);
        *self = match MatchingRows::find(snapshot, source, scan.conditions, needed)? {
            Some(matching) => Self::Found(matching),
            None => Self::Walk,
        };
        let start = ScanStart::AfterRecord(last.order_key.as_deref(), &last.key);
        let rest = Scan { start, limit: scan.limit - rows.len(), ..*scan };
        rows.extend(self.scan(snapshot, source, &rest)?);
        Ok(rows)
    }
}

impl Ahead {
    fn new(batch: usize) -> Self {
        Self { rows: VecDeque::new(), batch, last: None, is_done: false }
    }
}
