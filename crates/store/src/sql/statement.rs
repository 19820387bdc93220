//! A statement on records that both databases run.
//!
//! The text is PostgreSQL's: `$1` is the number of the tenant, and the values begin at `$2`. It
//! does not compile without the tenant, and PostgreSQL cannot run it without one. A database in
//! SQLite belongs to one person and has no column for the tenant, so its text is made by taking the
//! tenant out.

use std::sync::OnceLock;

use crate::postgresql::TenantSql;

/// A statement with its tenant, and without.
pub(crate) struct Statement {
    pub(super) of_tenant: TenantSql,
    alone: OnceLock<String>,
}

/// Makes a [`Statement`] that lasts as long as the program. The text is a constant, and it does not
/// compile without `$1`.
macro_rules! statement {
    ($text:expr) => {{
        static STATEMENT: $crate::sql::Statement = $crate::sql::Statement::checked($text);
        &STATEMENT
    }};
}

pub(crate) use statement;

impl Statement {
    /// Takes a text that uses `$1`. Call it through [`statement!`], so that the compiler checks.
    pub(crate) const fn checked(text: &'static str) -> Self {
        Self { of_tenant: TenantSql::checked(text), alone: OnceLock::new() }
    }

    /// Returns the text for a database of one person.
    pub(super) fn alone(&self) -> &str {
        self.alone.get_or_init(|| without_tenant(self.of_tenant.text()))
    }
}

/// Takes the tenant out of a text: from lists of columns and values, and from conditions.
fn without_tenant(text: &str) -> String {
    let mut alone = text
        .replace("(tenant, ", "(")
        .replace("VALUES ($1, ", "VALUES (")
        .replace("SELECT $1, ", "SELECT ");
    while let Some(at) = alone.find("tenant = ") {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // The name of a table may stand before the column, and before the other side.
        let before = alone.get(..at).unwrap_or_default();
        let start = match before.strip_suffix('.') {
            Some(table) => table.trim_end_matches(is_name).len(),
            None => at,
        };
        let other = alone.get(at + "tenant = ".len()..).unwrap_or_default();
        let rest = other.trim_start_matches(|c| is_name(c) || c == '.' || c == '$');
        let rest = match rest.strip_prefix(" AND ") {
            Some(rest) => rest.to_owned(),
            None => format!("TRUE{rest}"),
        };
        alone.truncate(start);
        alone.push_str(&rest);
    }
    // A list of rows that another query names.
    if alone.contains("= ANY(ARRAY(")
        && let Some(end) = alone.rfind("))")
    {
        alone.remove(end);
        alone = alone.replace("= ANY(ARRAY(", "IN (");
    }
    let alone = alone.replace("= ANY($", "IN rarray($").replace('$', "?");
    debug_assert!(!alone.contains("tenant") && !alone.contains("?1 "), "{alone}");
    alone
}

#[cfg(test)]
mod tests {
    use super::without_tenant;

    #[test]
    fn the_tenant_goes_from_lists_and_conditions_and_other_places_keep_their_numbers() {
        for (of_tenant, alone) in [
            ("SELECT a FROM t WHERE tenant = $1 AND b = $2", "SELECT a FROM t WHERE b = ?2"),
            (
                "SELECT a FROM t WHERE tenant = $1 ORDER BY a",
                "SELECT a FROM t WHERE TRUE ORDER BY a",
            ),
            ("INSERT INTO t (tenant, a) VALUES ($1, $2)", "INSERT INTO t (a) VALUES (?2)"),
            (
                "SELECT s.a FROM s JOIN c ON c.tenant = s.tenant AND c.id = s.c WHERE s.tenant = $1",
                "SELECT s.a FROM s JOIN c ON c.id = s.c WHERE TRUE",
            ),
            (
                "DELETE FROM t WHERE tenant = $1 AND a = ANY(ARRAY( \
                 SELECT a FROM t WHERE tenant = $1 AND b < $2 LIMIT $10))",
                "DELETE FROM t WHERE a IN ( SELECT a FROM t WHERE b < ?2 LIMIT ?10)",
            ),
            (
                "SELECT a FROM t WHERE tenant = $1 AND a = ANY($2)",
                "SELECT a FROM t WHERE a IN rarray(?2)",
            ),
            (
                "INSERT INTO t (tenant, a, b) SELECT $1, max(a), $2 FROM t WHERE tenant = $1 \
                 ON CONFLICT (tenant, a) DO NOTHING",
                "INSERT INTO t (a, b) SELECT max(a), ?2 FROM t WHERE TRUE ON CONFLICT (a) DO NOTHING",
            ),
        ] {
            assert_eq!(without_tenant(of_tenant), alone);
        }
    }
}
