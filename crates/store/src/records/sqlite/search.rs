//! Reads the index of search tokens.
//!
//! An index row is for one piece of a searchable text. A [`Postings`] is the list of records in
//! which one term occurs, the newest first. It can skip to a record without reading the newer ones.

use std::collections::{HashMap, VecDeque};

use std::rc::Rc;

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::filter::Condition;
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::error::problem;
use super::index::tag_prefix;
use super::read::{Snapshot, Where, record_row};
use crate::records::model::{RecordRow, RecordSource};

/// The number of index rows that the first query and the largest query read.
const FIRST_ROWS: i64 = 32;
const MOST_ROWS: i64 = 4096;
/// The maximum number of fields that one query names. Each has its own list in the index.
const FIELDS_AT_ONCE: usize = 200;

/// The records in which a term occurs, the newest first.
pub(in crate::records) struct Postings {
    parts: Vec<Part>,
}

/// The records in which the term occurs in some of the fields.
struct Part {
    expression: String,
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
    pub(in crate::records) fn new(term: &SearchTerm, tags: &[i64]) -> Self {
        let rows = if matches!(term, SearchTerm::Prefix(_)) { MOST_ROWS } else { FIRST_ROWS };
        let part = |tags: &[i64]| Part {
            expression: expression(term, tags),
            ahead: VecDeque::new(),
            below: i64::MAX,
            ended: false,
            rows,
            gap: 1,
        };
        Self { parts: tags.chunks(FIELDS_AT_ONCE).map(part).collect() }
    }

    /// Returns the newest record of the list that is not newer than `target`.
    pub(in crate::records) fn seek(
        &mut self,
        snapshot: &Snapshot<'_>,
        target: i64,
    ) -> Result<Option<i64>, Problem> {
        let mut newest = None;
        for part in &mut self.parts {
            newest = newest.max(part.seek(snapshot, target)?);
        }
        Ok(newest)
    }

    /// Returns how many records the database has for each record of this list, near the last query.
    pub(in crate::records) fn gap(&self) -> i64 {
        self.parts.iter().map(|part| part.gap).min().unwrap_or(i64::MAX)
    }

    /// Returns whether `target` is so far from the last query that reading on would skip more than
    /// one query returns.
    pub(in crate::records) fn is_far(&self, target: i64) -> bool {
        let far = |part: &Part| {
            let is_read = part.ended || part.ahead.back().is_some_and(|oldest| *oldest <= target);
            !is_read && part.below.saturating_sub(target) > part.gap.saturating_mul(FIRST_ROWS)
        };
        self.parts.iter().any(far)
    }
}

impl Part {
    fn seek(&mut self, snapshot: &Snapshot<'_>, target: i64) -> Result<Option<i64>, Problem> {
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
    fn read(&mut self, snapshot: &Snapshot<'_>, target: i64) -> Result<(), Problem> {
        let text = "SELECT rowid FROM tokens WHERE tokens MATCH ?1 AND rowid <= ?2 ORDER BY rowid DESC LIMIT ?3";
        let mut query = snapshot.prepare(text)?;
        let last = pieces::last_of(target.min(pieces::MAX_RECORD));
        let mut rows = query.query(params![self.expression, last, self.rows]).map_err(problem)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(problem)? {
            let (record, ..) = pieces::parts(row.get(0).map_err(problem)?);
            if self.ahead.back() != Some(&record) {
                self.ahead.push_back(record);
            }
            self.below = record;
            count += 1;
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

/// Returns the full-text query for a term in the fields with these tags.
fn expression(term: &SearchTerm, tags: &[i64]) -> String {
    let one = |tag: &i64| {
        let prefix = tag_prefix(*tag);
        match term {
            SearchTerm::Word(word) => format!("\"{prefix}{word}\""),
            SearchTerm::Prefix(start) => format!("\"{prefix}{start}\" *"),
            SearchTerm::Phrase(phrase) => {
                let tokens: Vec<String> =
                    phrase.iter().map(|token| format!("{prefix}{token}")).collect();
                format!("\"{}\"", tokens.join(" "))
            }
        }
    };
    tags.iter().map(one).collect::<Vec<_>>().join(" OR ")
}

impl Snapshot<'_> {
    /// Returns the tags of a stream's fields, even of fields that are no longer searchable.
    pub(in crate::records) fn tags(
        &self,
        source: &RecordSource,
    ) -> Result<HashMap<String, i64>, Problem> {
        let mut query = self.prepare("SELECT field, id FROM tags WHERE stream = ?1")?;
        let rows = query.query_map([source.id], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    /// Returns the newest record of all streams that is not newer than `target`, and its stream.
    pub(in crate::records) fn newest_record(
        &self,
        target: i64,
    ) -> Result<Option<(i64, i64)>, Problem> {
        let mut query =
            self.prepare("SELECT id, stream FROM records WHERE id <= ?1 ORDER BY id DESC LIMIT 1")?;
        query.query_row([target], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(problem)
    }

    pub(in crate::records) fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem> {
        let mut query = self.prepare("SELECT stream FROM records WHERE id = ?1")?;
        query.query_row([record], |row| row.get(0)).optional().map_err(problem)
    }

    /// Returns records with the numbers of their streams, hidden ones too.
    pub(in crate::records) fn rows_of(
        &self,
        records: &[i64],
    ) -> Result<Vec<(i64, RecordRow)>, Problem> {
        let records: Vec<Sql> = records.iter().copied().map(Sql::Integer).collect();
        let text = "SELECT id, key, emitted, ord, stream FROM records WHERE id IN rarray(?1)";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([Rc::new(records)], |row| Ok((row.get(4)?, record_row(row)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    /// Finds a visible record of a source by number, if the conditions hold.
    pub(in crate::records) fn find_with_conditions(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let row = self.find_in_time(source, record, conditions)?;
        let sees =
            |row: &RecordRow| source.visibility.keys().is_none_or(|keys| keys.contains(&row.key));
        Ok(row.filter(sees))
    }

    /// Finds a record of a source by number, if the caller may see its time and the conditions
    /// hold. Does not check the key.
    pub(in crate::records) fn find_in_time(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Where::in_time(source);
        filter.conditions(conditions)?;
        filter.and(" AND id = ?", record);
        self.one(&filter)
    }

    /// Returns the numbers of the visible records of a source, in order. `None` if there are more
    /// than `limit`.
    pub(in crate::records) fn visible_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        self.numbers(Where::visible(source), limit)
    }

    /// Returns the numbers of the visible records of a source without an order key, in order.
    /// `None` if there are more than `limit`.
    pub(in crate::records) fn unordered_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let mut filter = Where::visible(source);
        filter.text.push_str(" AND ord IS NULL");
        self.numbers(filter, limit)
    }

    fn numbers(&self, mut filter: Where, limit: i64) -> Result<Option<Vec<i64>>, Problem> {
        filter.values.push(Box::new(limit.saturating_add(1)));
        let mut query =
            self.prepare(&format!("SELECT id FROM records WHERE {} LIMIT ?", filter.text))?;
        let rows = query.query_map(params_from_iter(&filter.values), |row| row.get(0));
        let mut records: Vec<i64> = rows.and_then(Iterator::collect).map_err(problem)?;
        records.sort_unstable();
        let fits = i64::try_from(records.len()).is_ok_and(|count| count <= limit);
        Ok(fits.then_some(records))
    }

    /// Returns the first index row with a term, among the rows of one value of a record.
    pub(in crate::records) fn first_piece(
        &self,
        term: &SearchTerm,
        tag: i64,
        first: i64,
        last: i64,
    ) -> Result<Option<i64>, Problem> {
        let text = "SELECT rowid FROM tokens WHERE tokens MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid LIMIT 1";
        let mut query = self.prepare(text)?;
        let found =
            query.query_row(params![expression(term, &[tag]), first, last], |row| row.get(0));
        found.optional().map_err(problem)
    }
}

#[cfg(test)]
mod tests;
