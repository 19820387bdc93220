//! The rows that keep sessions of MCP clients and the names of these, and what ends them.
//!
//! [`super::client_sessions`] opens sessions. What ends a token or an authorization ends its
//! sessions here, in the same transaction. What narrows an authorization ends them too, but for
//! clients that listen: a narrowed session is none for anybody, until the server on which its
//! client listens, and so is told, takes it up again.

use super::tables::{TableError, Tables, values};

/// The kind of the rows.
pub(super) const KIND: &str = "session";
/// The kind of the rows of sessions that ended because their rights were narrowed.
const NARROWED: &str = "narrowed session";
/// The kind of the rows with the names that clients give themselves.
pub(super) const OWN_NAME: &str = "own name";

/// What is kept of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// The identifier of the authorization, or of the token of `stile token`, that the session was
    /// opened with. Has no line end.
    pub origin: String,
    /// Whose the session is, as the server compares it.
    pub owner: String,
    /// The revision of the protocol.
    pub revision: String,
    /// The name of the client.
    pub client: String,
}

impl ClientSession {
    /// Returns the value of the row.
    pub(super) fn to_value(&self) -> String {
        let Self { origin, owner, revision, client } = self;
        let rest = serde_json::json!([owner, revision, client]);
        format!("{origin}\n{rest}")
    }

    /// Reads the value of a row; `None` for one of another form.
    pub(super) fn of_value(value: &str) -> Option<Self> {
        let (origin, rest) = value.split_once('\n')?;
        let (owner, revision, client) = serde_json::from_str(rest).ok()?;
        Some(Self { origin: origin.to_owned(), owner, revision, client })
    }
}

/// Ends all sessions that were opened with an authorization or a token.
pub(super) fn end_sessions_of(tables: Tables<'_>, origin: &str) -> Result<(), TableError> {
    for kind in [KIND, NARROWED] {
        sessions_of(tables, kind, origin)?.iter().try_for_each(|id| end(tables, id))?;
    }
    Ok(())
}

/// Ends all sessions that were opened with an authorization, which allows less now. A client that
/// listens may have its session taken up again.
pub(super) fn narrow_sessions_of(tables: Tables<'_>, origin: &str) -> Result<(), TableError> {
    let narrow = "UPDATE short_lived SET kind = ?3 WHERE kind = ?1 AND key = ?2";
    sessions_of(tables, KIND, origin)?
        .iter()
        .try_for_each(|id| tables.execute(narrow, values![KIND, id, NARROWED]).map(drop))
}

/// Takes a narrowed session up again. Returns whether there is one.
pub(super) fn take_up(tables: Tables<'_>, id: &str) -> Result<bool, TableError> {
    let take_up = "UPDATE short_lived SET kind = ?3 WHERE kind = ?1 AND key = ?2";
    Ok(tables.execute(take_up, values![NARROWED, id, KIND])? > 0)
}

/// Returns the sessions that were opened with an authorization or a token.
fn sessions_of(tables: Tables<'_>, kind: &str, origin: &str) -> Result<Vec<String>, TableError> {
    let of_subject = "SELECT key, value FROM short_lived WHERE kind = ?1 AND owner IN \
                      (SELECT subject FROM tokens WHERE jti = ?2 UNION \
                      SELECT subject FROM authorizations WHERE id = ?2)";
    let rows: Vec<(String, String)> =
        tables.rows(of_subject, values![kind, origin], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_of = |value: &str| value.split('\n').next() == Some(origin);
    Ok(rows.into_iter().filter(|(_, value)| is_of(value)).map(|(id, _)| id).collect())
}

/// Ends a session.
pub(super) fn end(tables: Tables<'_>, id: &str) -> Result<(), TableError> {
    let end = "DELETE FROM short_lived WHERE kind IN (?1, ?3) AND key = ?2";
    tables.execute(end, values![KIND, id, NARROWED]).map(drop)
}

/// Forgets the names of the clients of a person.
pub(super) fn forget_names_of(tables: Tables<'_>, subject: &str) -> Result<(), TableError> {
    let forget = "DELETE FROM short_lived WHERE kind = ?1 AND owner = ?2";
    tables.execute(forget, values![OWN_NAME, subject]).map(drop)
}
