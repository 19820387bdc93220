//! The list of records in which one term occurs, the newest first.
//!
//! An index row is for one piece of a searchable text. A [`Postings`] can skip to a record without
//! reading the newer ones.

use std::collections::VecDeque;

use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::super::port::{IndexAccess, Snapshot};

/// The number of index rows that the first query and the largest query read.
const FIRST_ROWS: i64 = 32;
const MOST_ROWS: i64 = 4096;
/// The maximum number of fields that one query names. Each has its own list in the index.
const FIELDS_AT_ONCE: usize = 200;

/// The records in which a term occurs, the newest first.
pub(super) struct Postings {
    parts: Vec<Part>,
}

/// The records in which the term occurs in some of the fields.
struct Part {
    term: SearchTerm,
    tags: Vec<i64>,
    /// Records that were read and not skipped yet, the newest first.
    ahead: VecDeque<i64>,
    /// Records that were not read yet are older than this one.
    below: i64,
    ended: bool,
    /// The number of index rows that the last query read.
    rows: i64,
    /// How many records the database has for each record of this list, near the last query.
    gap: i64,
}

impl Postings {
    /// Lists the records with a term in the fields with these tags.
    pub(super) fn new(term: &SearchTerm, tags: &[i64]) -> Self {
        let rows = if matches!(term, SearchTerm::Prefix(_)) { MOST_ROWS } else { FIRST_ROWS };
        let part = |tags: &[i64]| Part {
            term: term.clone(),
            tags: tags.to_vec(),
            ahead: VecDeque::new(),
            below: i64::MAX,
            ended: false,
            rows,
            gap: 1,
        };
        Self { parts: tags.chunks(FIELDS_AT_ONCE).map(part).collect() }
    }

    /// Returns the newest record of the list that is not newer than `target`.
    pub(super) fn seek(
        &mut self,
        snapshot: &dyn Snapshot,
        target: i64,
    ) -> Result<Option<i64>, Problem> {
        let mut newest = None;
        for part in &mut self.parts {
            newest = newest.max(part.seek(snapshot, target)?);
        }
        Ok(newest)
    }

    /// Returns how many records the database has for each record of this list, near the last query.
    pub(super) fn gap(&self) -> i64 {
        self.parts.iter().map(|part| part.gap).min().unwrap_or(i64::MAX)
    }

    /// Returns whether `target` is so far from the last query that reading on would skip more than
    /// one query returns.
    pub(super) fn is_far(&self, target: i64) -> bool {
        let far = |part: &Part| {
            let is_read = part.ended || part.ahead.back().is_some_and(|oldest| *oldest <= target);
            !is_read && part.below.saturating_sub(target) > part.gap.saturating_mul(FIRST_ROWS)
        };
        self.parts.iter().any(far)
    }
}

impl Part {
    fn seek(&mut self, snapshot: &dyn Snapshot, target: i64) -> Result<Option<i64>, Problem> {
        loop {
            while self.ahead.front().is_some_and(|record| *record > target) {
                self.ahead.pop_front();
            }
            if let Some(record) = self.ahead.front() {
                return Ok(Some(*record));
            }
            if self.ended {
                return Ok(None);
            }
            let next = self.below.saturating_sub(1);
            // A search that continues within as many rows as were just read will want more.
            self.rows = if target >= next.saturating_sub(self.gap.saturating_mul(self.rows)) {
                (self.rows * 4).min(MOST_ROWS)
            } else {
                FIRST_ROWS.max(self.rows / 4)
            };
            self.read(snapshot, next.min(target))?;
        }
    }

    /// Reads the next records, none of them newer than `target`.
    fn read(&mut self, snapshot: &dyn Snapshot, target: i64) -> Result<(), Problem> {
        let last = pieces::last_of(target.min(pieces::MAX_RECORD));
        let IndexAccess::Lists(index) = snapshot.access() else {
            self.ended = true;
            return Ok(());
        };
        let found = index.indexed_pieces(&self.term, &self.tags, last, self.rows)?;
        let count = i64::try_from(found.len()).unwrap_or(i64::MAX);
        for number in found {
            let (record, ..) = pieces::parts(number);
            if self.ahead.back() != Some(&record) {
                self.ahead.push_back(record);
            }
            self.below = record;
        }
        self.ended = count < self.rows;
        let span = self.ahead.front().map_or(0, |newest| newest - self.below + 1);
        self.gap = if self.ended {
            i64::MAX
        } else {
            span / i64::try_from(self.ahead.len().max(1)).unwrap_or(1)
        };
        Ok(())
    }
}
