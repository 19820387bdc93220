//! Reads the index of search tokens.

use rusqlite::{OptionalExtension as _, params};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::read::SqliteSnapshot;
use crate::records::port::{IndexAccess, IndexLists, PieceQuery, ReadIndex};
use crate::records::tagged_tokens::tag_prefix;
use crate::sql::sqlite_problem;

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
    fn access(&self) -> IndexAccess<'_> {
        IndexAccess::Lists(self)
    }

    fn first_pieces(&self, wanted: &[PieceQuery<'_>]) -> Result<Vec<Option<i64>>, Problem> {
        let text = "SELECT rowid FROM tokens WHERE tokens MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid LIMIT 1";
        let first = |PieceQuery { term, tag, first, last }: &PieceQuery<'_>| {
            let mut query = self.prepare(text)?;
            let values = params![expression(term, &[*tag]), first, last];
            query.query_row(values, |row| row.get(0)).optional().map_err(sqlite_problem)
        };
        wanted.iter().map(first).collect()
    }
}

impl IndexLists for SqliteSnapshot<'_> {
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
        rows.and_then(Iterator::collect).map_err(sqlite_problem)
    }
}

#[cfg(test)]
mod tests;
