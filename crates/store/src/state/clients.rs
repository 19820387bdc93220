//! The clients that may ask the owner for access: which were registered, and where their answers
//! go.

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use super::state_dir::StateError;
use super::tokens::{TokenStore, failed};

/// The tables of clients.
pub(super) const MIGRATION: &str = "
    CREATE TABLE clients (
        id TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        redirects TEXT NOT NULL,
        created INTEGER NOT NULL,
        used INTEGER,
        ended INTEGER
    ) STRICT, WITHOUT ROWID;
";

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
    /// When the owner ended the client.
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
        let mut connection = self.lock();
        store(&mut connection, client).map_err(failed("store a client in"))
    }

    /// Returns the client with an identifier; `None` if nobody registered or added it.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn find_client(&self, id: &str) -> Result<Option<ClientRecord>, StateError> {
        let connection = self.lock();
        let one = format!("SELECT {COLUMNS} FROM clients WHERE id = ?1");
        let found = connection
            .prepare_cached(&one)
            .and_then(|mut query| query.query_row([id], client_of).optional());
        found.map_err(failed("look up a client in"))
    }

    /// Returns all clients, in the order in which they became known.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn clients(&self) -> Result<Vec<ClientRecord>, StateError> {
        let connection = self.lock();
        let all = format!("SELECT {COLUMNS} FROM clients ORDER BY created, id");
        let listed = connection
            .prepare_cached(&all)
            .and_then(|mut query| query.query_map([], client_of)?.collect());
        listed.map_err(failed("list the clients of"))
    }
}

fn store(connection: &mut Connection, client: &ClientRecord) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT INTO clients (id, kind, name, redirects, created) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (id) DO UPDATE SET name = ?3, redirects = ?4",
        params![
            client.id,
            client.kind.word(),
            client.name,
            serde_json::to_string(&client.redirects).unwrap_or_default(),
            client.created
        ],
    )?;
    let unused = "kind <> 'added' AND used IS NULL";
    transaction.execute(
        &format!("DELETE FROM clients WHERE {unused} AND created < ?1"),
        [client.created.saturating_sub(UNUSED_CLIENT_SECONDS)],
    )?;
    transaction.execute(
        &format!(
            "DELETE FROM clients WHERE id IN (SELECT id FROM clients WHERE {unused} AND id <> ?1 \
             ORDER BY created DESC, id LIMIT -1 OFFSET ?2)"
        ),
        params![client.id, MAX_UNUSED_CLIENTS - 1],
    )?;
    transaction.commit()
}

fn client_of(row: &Row<'_>) -> rusqlite::Result<ClientRecord> {
    Ok(ClientRecord {
        id: row.get(0)?,
        kind: ClientKind::of_word(&row.get::<_, String>(1)?),
        name: row.get(2)?,
        redirects: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default(),
        created: row.get(4)?,
        used: row.get(5)?,
        ended: row.get(6)?,
    })
}
