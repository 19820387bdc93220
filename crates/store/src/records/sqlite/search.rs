//! Questions to the index of tokens.
//!
//! An index row is a piece of a searchable text; what is asked for are records. A [`Postings`]
//! gives the records in which one term occurs, the newest first, and can pass over those above a
//! record without reading them.

use std::collections::{HashMap, VecDeque};

use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::filter::Condition;
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::super::view::{RecordRow, RecordSource};
use super::index::mark;
use super::problem;
use super::read::{Snapshot, Where};

/// Index rows that are read at first, and at most at once.
const FIRST_ROWS: i64 = 32;
const MOST_ROWS: i64 = 4096;
/// How many fields one question names. Each is a list of its own to the index.
const FIELDS_AT_ONCE: usize = 200;

/// The records in which a term occurs, the newest first.
pub(in super::super) struct Postings {
    parts: Vec<Part>,
}

/// The same of some of the fields.
struct Part {
    expression: String,
    /// Records that were read and not passed yet, the newest first.
    ahead: VecDeque<i64>,
    /// What was not read yet is older than this one.
    below: i64,
    ended: bool,
    /// Index rows that were read last.
    rows: i64,
    /// How many records of the store there are to one of these, where it was read last.
    gap: i64,
}

impl Postings {
    /// Of a term in the fields with these marks.
    pub(in super::super) fn new(term: &SearchTerm, tags: &[i64]) -> Self {
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

    /// The newest record that is not newer than `target`.
    pub(in super::super) fn seek(
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

    /// How many records of the store there are to one of these, where they were read last.
    pub(in super::super) fn gap(&self) -> i64 {
        self.parts.iter().map(|part| part.gap).min().unwrap_or(i64::MAX)
    }

    /// Whether `target` is so far from what was read that reading on would pass over more than it
    /// gives.
    pub(in super::super) fn is_far(&self, target: i64) -> bool {
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
            // One who goes on where the last rows ended will want more of them.
            self.rows = if target >= next {
                (self.rows * 4).min(MOST_ROWS)
            } else {
                FIRST_ROWS.max(self.rows / 4)
            };
            self.read(snapshot, next.min(target))?;
        }
    }

    /// Reads records that are not newer than `target`.
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

/// What the index is asked for.
fn expression(term: &SearchTerm, tags: &[i64]) -> String {
    let one = |tag: &i64| {
        let mark = mark(*tag);
        match term {
            SearchTerm::Word(word) => format!("\"{mark}{word}\""),
            SearchTerm::Prefix(prefix) => format!("\"{mark}{prefix}\" *"),
            SearchTerm::Phrase(phrase) => {
                let tokens: Vec<String> =
                    phrase.iter().map(|token| format!("{mark}{token}")).collect();
                format!("\"{}\"", tokens.join(" "))
            }
        }
    };
    tags.iter().map(one).collect::<Vec<_>>().join(" OR ")
}

impl Snapshot<'_> {
    /// The marks of a stream's fields, those among them that are searchable no more included.
    pub(in super::super) fn tags(
        &self,
        source: &RecordSource,
    ) -> Result<HashMap<String, i64>, Problem> {
        let mut query = self.prepare("SELECT field, id FROM tags WHERE stream = ?1")?;
        let rows = query.query_map([source.row], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    /// The newest record of all that is not newer than `target`, and its stream.
    pub(in super::super) fn newest(&self, target: i64) -> Result<Option<(i64, i64)>, Problem> {
        let mut query =
            self.prepare("SELECT id, stream FROM records WHERE id <= ?1 ORDER BY id DESC LIMIT 1")?;
        query.query_row([target], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(problem)
    }

    /// The stream of a record.
    pub(in super::super) fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem> {
        let mut query = self.prepare("SELECT stream FROM records WHERE id = ?1")?;
        query.query_row([record], |row| row.get(0)).optional().map_err(problem)
    }

    /// A record of a source, if it is at a time that the caller may see and the conditions hold.
    pub(in super::super) fn timely(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let mut seen = Where::timely(source);
        seen.passing(conditions)?;
        seen.and(" AND id = ?", record);
        self.one(&seen)
    }

    /// The records of a source that the caller may see, in order; none where there are more than
    /// `most`.
    pub(in super::super) fn visible(
        &self,
        source: &RecordSource,
        most: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let mut seen = Where::seen(source)?;
        seen.values.push(Box::new(most.saturating_add(1)));
        let mut query =
            self.prepare(&format!("SELECT id FROM records WHERE {} LIMIT ?", seen.text))?;
        let rows = query.query_map(params_from_iter(&seen.values), |row| row.get(0));
        let mut records: Vec<i64> = rows.and_then(Iterator::collect).map_err(problem)?;
        records.sort_unstable();
        let fits = i64::try_from(records.len()).is_ok_and(|count| count <= most);
        Ok(fits.then_some(records))
    }

    /// The first index row in which a term of a field occurs, among those of one value of a record.
    pub(in super::super) fn first_piece(
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
