//! Reads the index of search tokens.
//!
//! `tokens` has a row for each token of a piece, with the positions of the token among the tokens
//! of the piece. A phrase occurs in a piece if its tokens have consecutive positions there.

use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;
use tokio_postgres::Row;

use super::read::{COLUMNS, PgSnapshot, Residue, Where, column, record_row};
use crate::postgresql::{TenantSql, params, tenant_sql};
use crate::records::model::{RecordRow, RecordSource};
use crate::records::port::ReadIndex;

/// The positions of a phrase's first token that are compared without a query for each row. Most
/// rows have fewer.
const COMPARED: usize = 8;

/// The condition on rows of `tokens` that one term makes, and its values.
struct TermRows {
    /// The tables, without the tag: `a` is the table of the first token.
    sql: TenantSql,
    values: Vec<Vec<u8>>,
}

impl TermRows {
    /// Writes the values from the parameter number `first` on.
    fn new(term: &SearchTerm, first: usize) -> Self {
        match term {
            SearchTerm::Word(word) => Self {
                sql: tenant_sql!("FROM tokens a WHERE a.tenant = $1")
                    .with_tail(&format!(" AND a.token = ${first}")),
                values: vec![word.as_bytes().to_vec()],
            },
            SearchTerm::Prefix(start) => Self {
                sql: tenant_sql!("FROM tokens a WHERE a.tenant = $1")
                    .with_tail(&format!(" AND a.token >= ${first} AND a.token < ${}", first + 1)),
                values: vec![start.as_bytes().to_vec(), after_prefix(start)],
            },
            SearchTerm::Phrase(phrase) => {
                let mut tables = "FROM tokens a".to_owned();
                let (mut positions, mut may_follow) = (String::new(), String::new());
                for at in 1..phrase.len() {
                    tables.push_str(&format!(
                        " JOIN tokens b{at} ON b{at}.tenant = a.tenant AND b{at}.tag = a.tag \
                         AND b{at}.number = a.number AND b{at}.token = ${}",
                        first + at
                    ));
                    positions.push_str(&format!(" AND (p + {at}) = ANY(b{at}.positions)"));
                    may_follow.push_str(&may_follow_at(at));
                }
                Self {
                    sql: tenant_sql!(" WHERE a.tenant = $1").with_head(&tables).with_tail(
                        &format!(
                            " AND a.token = ${first}{may_follow} \
                         AND EXISTS (SELECT 1 FROM unnest(a.positions) AS p WHERE true{positions})"
                        ),
                    ),
                    values: phrase.iter().map(|token| token.as_bytes().to_vec()).collect(),
                }
            }
        }
    }
}

/// Returns a condition that holds wherever the token number `at` of a phrase follows the first one.
///
/// PostgreSQL decides it in a fifth of the time that the exact condition takes, which runs a query
/// for each row, and so decides it first. Positions after the first [`COMPARED`] are not looked at.
fn may_follow_at(at: usize) -> String {
    let wanted: Vec<String> =
        (1..=COMPARED).map(|place| format!("a.positions[{place}] + {at}")).collect();
    format!(
        " AND (ARRAY[{}] && b{at}.positions OR a.positions[{}] IS NOT NULL)",
        wanted.join(", "),
        COMPARED + 1
    )
}

/// Returns the least bytes that are greater than all texts with a prefix.
fn after_prefix(start: &str) -> Vec<u8> {
    let mut bytes = start.as_bytes().to_vec();
    // No byte of UTF-8 is 0xff.
    if let Some(last) = bytes.last_mut() {
        *last = last.saturating_add(1);
    }
    bytes
}

impl ReadIndex for PgSnapshot<'_> {
    fn newest_record(&self, target: i64) -> Result<Option<(i64, i64)>, Problem> {
        let sql = tenant_sql!(
            "SELECT id, stream FROM records WHERE tenant = $1 AND id <= $2 \
             ORDER BY id DESC LIMIT 1"
        );
        let row = self.first(&sql, params![target])?;
        row.map(|row| Ok((column(&row, 0)?, column(&row, 1)?))).transpose()
    }

    fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem> {
        let sql = tenant_sql!("SELECT stream FROM records WHERE tenant = $1 AND id = $2");
        let row = self.first(&sql, params![record])?;
        row.map(|row| column(&row, 0)).transpose()
    }

    fn rows_of(&self, records: &[i64]) -> Result<Vec<(i64, RecordRow)>, Problem> {
        let sql = tenant_sql!(" FROM records WHERE tenant = $1 AND id = ANY($2)")
            .with_head(&format!("SELECT {COLUMNS}, stream"));
        let rows = self.rows(&sql, params![records])?;
        rows.iter().map(|row| Ok((column(row, 4)?, record_row(row)?))).collect()
    }

    fn visible_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        self.numbers(source, "", limit)
    }

    fn unordered_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        self.numbers(source, " AND ord IS NULL", limit)
    }

    fn indexed_pieces(
        &self,
        term: &SearchTerm,
        tags: &[i64],
        last: i64,
        limit: i64,
    ) -> Result<Vec<i64>, Problem> {
        // Each tag has its own list in the index, of which no more than the limit is read.
        let TermRows { sql, values } = TermRows::new(term, 5);
        let sql = sql
            .with_head(
                "SELECT DISTINCT found.number FROM unnest($2::bigint[]) AS wanted (tag) \
                 CROSS JOIN LATERAL (SELECT DISTINCT a.number ",
            )
            .with_tail(
                " AND a.tag = wanted.tag AND a.number <= $3 ORDER BY a.number DESC LIMIT $4) \
                 AS found ORDER BY found.number DESC LIMIT $4",
            );
        let mut all = vec![];
        all.extend_from_slice(params![tags, last, limit]);
        all.extend(values.iter().map(|value| value as &(dyn tokio_postgres::types::ToSql + Sync)));
        self.rows(&sql, &all)?.iter().map(|row| column(row, 0)).collect()
    }

    fn first_piece(
        &self,
        term: &SearchTerm,
        tag: i64,
        first: i64,
        last: i64,
    ) -> Result<Option<i64>, Problem> {
        let TermRows { sql, values } = TermRows::new(term, 5);
        let sql = sql
            .with_head("SELECT a.number ")
            .with_tail(" AND a.tag = $2 AND a.number BETWEEN $3 AND $4 ORDER BY a.number LIMIT 1");
        let mut all = vec![];
        all.extend_from_slice(params![tag, first, last]);
        all.extend(values.iter().map(|value| value as &(dyn tokio_postgres::types::ToSql + Sync)));
        self.first(&sql, &all)?.map(|row| column(&row, 0)).transpose()
    }
}

impl PgSnapshot<'_> {
    fn numbers(
        &self,
        source: &RecordSource,
        bounds: &str,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let residue = Residue::new(source, &[]);
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut records: Vec<i64> = Vec::new();
        if residue.is_empty() {
            let mut filter = Where::visible(source);
            filter.end(bounds);
            filter.and(" LIMIT ?", limit.saturating_add(1));
            let rows: Vec<Row> = self.filtered("SELECT id FROM records WHERE ", &filter)?;
            records = rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        } else {
            self.each_visible(source, residue, &mut |row, _| {
                records.push(row.number);
                Ok(records.len() <= most)
            })?;
            if !bounds.is_empty() {
                let timed = self.rows_of(&records)?;
                records = timed
                    .into_iter()
                    .filter(|(_, row)| row.order_key.is_none())
                    .map(|(_, row)| row.number)
                    .collect();
            }
        }
        records.sort_unstable();
        Ok((records.len() <= most).then_some(records))
    }
}
