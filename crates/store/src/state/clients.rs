//! The clients that the owner added or approved, those that have a document, and where their
//! answers go.
//!
//! A client that registers itself is stored when the owner approves it; until then its identifier
//! is all that there is of it.

use super::state_dir::StateError;
use super::tables::{TableError, TableRow, Tables, values};
use super::tokens::TokenStore;

/// The most clients that the owner did not add and has not approved yet. The oldest goes first.
pub const MAX_UNUSED_CLIENTS: i64 = 1000;
/// How long a client is kept that the owner neither added nor approved, in seconds.
pub const UNUSED_CLIENT_SECONDS: i64 = 24 * 60 * 60;

/// How a client became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// The client registered itself (RFC 7591).
    Registered,
    /// The owner added the client on the command line.
    Added,
    /// The identifier is the address of a document that describes the client.
    Document,
}

impl ClientKind {
    /// Returns the word that the database and lists have.
    pub fn word(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Added => "added",
            Self::Document => "document",
        }
    }

    fn of_word(word: &str) -> Self {
        [Self::Added, Self::Document]
            .into_iter()
            .find(|kind| kind.word() == word)
            .unwrap_or(Self::Registered)
    }
}

/// A client of the authorization server. Times are UTC seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// The `client_id` that requests name.
    pub id: String,
    /// How the client became known.
    pub kind: ClientKind,
    /// The name that the client gave itself. Nobody has checked it.
    pub name: String,
    /// The addresses to which answers may go.
    pub redirects: Vec<String>,
    /// When the client became known.
    pub created: i64,
    /// When the owner last approved the client; `None` if the owner never did.
    pub used: Option<i64>,
    /// When the owner ended what the client was allowed; `None` again after the next approval.
    pub ended: Option<i64>,
}

const COLUMNS: &str = "id, kind, name, redirects, created, used, ended";

impl TokenStore {
    /// Stores a client, durably. Drops registrations that nobody approved and that are old or too
    /// many. A client of the same identifier is replaced, and keeps its times.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn store_client(&self, client: &ClientRecord) -> Result<(), StateError> {
        self.change("store a client in", |tables| store(tables, client))
    }

    /// Returns the client with an identifier; `None` if nobody registered or added it.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn find_client(&self, id: &str) -> Result<Option<ClientRecord>, StateError> {
        let one = format!("SELECT {COLUMNS} FROM clients WHERE id = ?1");
        self.read("look up a client in", |tables| tables.first(&one, values![id], client_of))
    }

    /// Returns all clients, in the order in which they became known.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn clients(&self) -> Result<Vec<ClientRecord>, StateError> {
        let all = format!("SELECT {COLUMNS} FROM clients ORDER BY created, id");
        self.read("list the clients of", |tables| tables.rows(&all, &[], client_of))
    }
}

/// Stores a client that the owner approves now, unless it is stored.
pub(super) fn store_approved(
    tables: Tables<'_>,
    client: &ClientRecord,
    now: i64,
) -> Result<(), TableError> {
    let redirects = serde_json::to_string(&client.redirects).unwrap_or_default();
    tables
        .execute(
            "INSERT INTO clients (id, kind, name, redirects, created, used) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (id) DO UPDATE SET used = ?6, ended = NULL",
            values![client.id, client.kind.word(), client.name, redirects, client.created, now],
        )
        .map(drop)
}

fn store(tables: Tables<'_>, client: &ClientRecord) -> Result<(), TableError> {
    let redirects = serde_json::to_string(&client.redirects).unwrap_or_default();
    tables.execute(
        "INSERT INTO clients (id, kind, name, redirects, created) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (id) DO UPDATE SET name = ?3, redirects = ?4",
        values![client.id, client.kind.word(), client.name, redirects, client.created],
    )?;
    let unused = "kind <> 'added' AND used IS NULL";
    tables.execute(
        &format!("DELETE FROM clients WHERE {unused} AND created < ?1"),
        values![client.created.saturating_sub(UNUSED_CLIENT_SECONDS)],
    )?;
    tables.execute(
        &format!(
            "DELETE FROM clients WHERE {unused} AND id <> ?1 AND id NOT IN \
             (SELECT id FROM clients WHERE {unused} AND id <> ?1 \
             ORDER BY created DESC, id LIMIT ?2)"
        ),
        values![client.id, MAX_UNUSED_CLIENTS - 1],
    )?;
    Ok(())
}

fn client_of(row: &TableRow) -> Result<ClientRecord, TableError> {
    Ok(ClientRecord {
        id: row.get(0)?,
        kind: ClientKind::of_word(&row.get::<String>(1)?),
        name: row.get(2)?,
        redirects: serde_json::from_str(&row.get::<String>(3)?).unwrap_or_default(),
        created: row.get(4)?,
        used: row.get(5)?,
        ended: row.get(6)?,
    })
}
