//! Where a command finds keys, tokens and records: the state folder, and the database on PostgreSQL
//! if the settings name one.

use stile_domain::records::instant::Instant;
use stile_store::journal::{JournalPlace, SharedJournal};
use stile_store::postgresql::Database;
use stile_store::records::{Records, RecordsError};
use stile_store::state::{Revocation, StateDir, StateError, TokenKey, TokenStore};

use crate::config::Config;

/// The state of this server, or of all servers that share a database.
#[derive(Clone)]
pub(super) struct Home {
    state: StateDir,
    database: Option<Database>,
}

impl Home {
    /// Opens the state folder, after making it if needed, and the database.
    pub(super) fn open(config: &Config) -> Result<Self, StateError> {
        Self::with(StateDir::open(&config.state)?, config)
    }

    /// Opens the same, and makes no folder.
    pub(super) fn open_existing(config: &Config) -> Result<Self, StateError> {
        Self::with(StateDir::open_existing(&config.state)?, config)
    }

    /// Adds the database that the settings name.
    pub(super) fn with(state: StateDir, config: &Config) -> Result<Self, StateError> {
        let address = config.database.as_ref();
        let database = address.map(|address| Database::open(address.reveal())).transpose();
        Ok(Self { state, database: database? })
    }

    /// The state folder, which has what belongs to this server alone.
    pub(super) fn state(&self) -> &StateDir {
        &self.state
    }

    /// The database that this server shares with others.
    pub(super) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Returns the journal that all servers share, if there is a database.
    pub(super) fn shared_journal(&self) -> Option<SharedJournal> {
        self.database.as_ref().map(SharedJournal::of)
    }

    /// Returns where the owner reads the journal: of all servers, or of this one.
    pub(super) fn journal(&self) -> JournalPlace {
        JournalPlace::new(self.state.clone(), self.shared_journal())
    }

    /// Opens the tables of tokens and sign-in.
    pub(super) fn tokens(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None => TokenStore::open(&self.state),
        }
    }

    /// Opens the tables of tokens and sign-in, and makes none before the first use.
    pub(super) fn tokens_on_first_use(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None => TokenStore::open_on_first_use(&self.state),
        }
    }

    /// Opens the tables of tokens for lookups, and writes to no file.
    pub(super) fn tokens_to_read(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None => TokenStore::open_to_read(&self.state),
        }
    }

    /// Reads the key that signs tokens, after making one if there is none.
    pub(super) fn key(&self) -> Result<TokenKey, StateError> {
        match &self.database {
            Some(database) => TokenKey::of(database),
            None => TokenKey::open(&self.state),
        }
    }

    /// Reads the key that signs tokens, and makes no file.
    pub(super) fn existing_key(&self) -> Result<TokenKey, StateError> {
        match &self.database {
            Some(database) => TokenKey::of(database),
            None => TokenKey::open_existing(&self.state),
        }
    }

    /// Revokes a token. On a full disk, uses the room that the state folder keeps for this.
    pub(super) fn revoke(&self, jti: &str, now: i64) -> Result<Revocation, StateError> {
        match &self.database {
            Some(database) => TokenStore::on(database).revoke(jti, now),
            None => TokenStore::revoke_in(&self.state, jti, now),
        }
    }

    /// Returns whether there is a database of records, which [`Home::records`] would not make.
    pub(super) fn has_records(&self) -> bool {
        self.database.is_some() || Records::exists(&self.state)
    }

    /// Opens the records of the owner.
    pub(super) fn records(&self, now: Instant) -> Result<Records, RecordsError> {
        match &self.database {
            Some(database) => {
                Records::open_at(&self.state, database, &database.sole_tenant()?, now)
            }
            None => Records::open(&self.state, now),
        }
    }
}
