//! Reads the index of search tokens.
//!
//! `tokens` has a row for each token of a piece, with the positions of the token among the tokens
//! of the piece. A phrase occurs in a piece if its tokens have consecutive positions there.

use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::read::{PgSnapshot, column};
use crate::postgresql::{TenantSql, params, tenant_sql};
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
        self.rows(&sql, &all)?.first().map(|row| column(row, 0)).transpose()
    }
}
