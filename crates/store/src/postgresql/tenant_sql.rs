//! Statements about the rows of one tenant.

use std::borrow::Cow;

/// A statement in which `$1` is the number of a tenant, or a part of one.
///
/// [`tenant_sql!`] makes it of a text that uses `$1`, and the compiler refuses any other text. The
/// parts that code adds stand before and after such a text.
#[derive(Clone, Debug)]
pub(crate) struct TenantSql(Cow<'static, str>);

/// Makes a [`TenantSql`]. The text is a constant, and it does not compile without `$1`.
macro_rules! tenant_sql {
    ($text:expr) => {{
        // The compiler evaluates a constant item whether or not the code around it is used.
        const SQL: $crate::postgresql::TenantSql = $crate::postgresql::TenantSql::checked($text);
        SQL
    }};
}

pub(crate) use tenant_sql;

impl TenantSql {
    /// Takes a text that uses `$1`. Call it through [`tenant_sql!`], so that the compiler checks.
    ///
    /// # Panics
    /// If the text does not use `$1`.
    pub(crate) const fn checked(text: &'static str) -> Self {
        assert!(uses_tenant(text), "a statement names its tenant: it uses `$1`");
        Self(Cow::Borrowed(text))
    }

    /// Adds a text before the statement.
    pub(crate) fn with_head(self, head: &str) -> Self {
        Self(Cow::Owned(format!("{head}{}", self.0)))
    }

    /// Adds a text after the statement.
    pub(crate) fn with_tail(mut self, tail: &str) -> Self {
        self.push(tail);
        self
    }

    /// Adds a text at the end.
    pub(crate) fn push(&mut self, tail: &str) {
        self.0.to_mut().push_str(tail);
    }

    /// Numbers the question marks, from `$2` on.
    pub(crate) fn with_numbered_places(&self) -> Self {
        let mut numbered = String::with_capacity(self.0.len() + 16);
        for (at, part) in self.0.split('?').enumerate() {
            if at > 0 {
                numbered.push_str(&format!("${}", at + 1));
            }
            numbered.push_str(part);
        }
        Self(Cow::Owned(numbered))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Returns whether a text uses `$1`, and not only `$10` or another number.
const fn uses_tenant(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [_, after @ ..] = rest {
        match rest {
            [b'$', b'1', b'0'..=b'9', ..] => {}
            [b'$', b'1', ..] => return true,
            _ => {}
        }
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_that_uses_the_tenant_makes_a_statement() {
        for text in ["SELECT 1 WHERE tenant = $1", "VALUES ($1, $2)", "$1", "$10 = $1"] {
            assert!(uses_tenant(text), "{text}");
        }
        for text in ["", "$", "1", "SELECT count(*) FROM records", "id = $2", "$10 $19", "$ 1"] {
            assert!(!uses_tenant(text), "{text}");
            assert!(std::panic::catch_unwind(|| TenantSql::checked(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn added_parts_stay_around_the_statement() {
        let own = tenant_sql!("WHERE tenant = $1 AND stream = ?");
        let whole = own.with_head("SELECT id FROM records ").with_tail(" AND id > ? LIMIT ?");
        assert_eq!(
            whole.with_numbered_places().text(),
            "SELECT id FROM records WHERE tenant = $1 AND stream = $2 AND id > $3 LIMIT $4"
        );
    }
}
