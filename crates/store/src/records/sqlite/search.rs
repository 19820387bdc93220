//! Reads the index of search tokens.

use std::rc::Rc;

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::error::problem;
use super::read::{SqliteSnapshot, Where, record_row};
use crate::records::model::{RecordRow, RecordSource};
use crate::records::port::ReadIndex;
use crate::records::tagged_tokens::tag_prefix;

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

impl ReadIndex for SqliteSnapshot<'_> {
    fn newest_record(&self, target: i64) -> Result<Option<(i64, i64)>, Problem> {
        let mut query =
            self.prepare("SELECT id, stream FROM records WHERE id <= ?1 ORDER BY id DESC LIMIT 1")?;
        query.query_row([target], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(problem)
    }

    fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem> {
        let mut query = self.prepare("SELECT stream FROM records WHERE id = ?1")?;
        query.query_row([record], |row| row.get(0)).optional().map_err(problem)
    }

    fn rows_of(&self, records: &[i64]) -> Result<Vec<(i64, RecordRow)>, Problem> {
        let records: Vec<Sql> = records.iter().copied().map(Sql::Integer).collect();
        let text = "SELECT id, key, emitted, ord, stream FROM records WHERE id IN rarray(?1)";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([Rc::new(records)], |row| Ok((row.get(4)?, record_row(row)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn visible_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        self.numbers(Where::visible(source), limit)
    }

    fn unordered_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let mut filter = Where::visible(source);
        filter.text.push_str(" AND ord IS NULL");
        self.numbers(filter, limit)
    }

    fn first_piece(
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

    fn indexed_pieces(
        &self,
        term: &SearchTerm,
        tags: &[i64],
        last: i64,
        limit: i64,
    ) -> Result<Vec<i64>, Problem> {
        let text = "SELECT rowid FROM tokens WHERE tokens MATCH ?1 AND rowid <= ?2 ORDER BY rowid DESC LIMIT ?3";
        let mut query = self.prepare(text)?;
        let rows = query.query_map(params![expression(term, tags), last, limit], |row| row.get(0));
        rows.and_then(Iterator::collect).map_err(problem)
    }
}

impl SqliteSnapshot<'_> {
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
}

#[cfg(test)]
mod tests;
