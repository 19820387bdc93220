//! Tokens, sign-in and the key that signs tokens, which a copy replaces all at once: they are few.

use super::error::CopyError;
use super::table::{Checksum, TableChecksum};
use crate::postgresql::Database;
use crate::state::{ACCESS_TABLES, AccessRow, StateDir, TokenKey, TokenStore};

/// The tokens and the key of one end.
pub(super) struct AccessEnd {
    place: Place,
    /// `None` for a state folder without tokens.
    tokens: Option<TokenStore>,
}

enum Place {
    Folder(StateDir),
    Server(Database),
}

/// All rows of tokens and sign-in, by table, and the key.
#[derive(PartialEq, Eq)]
pub(super) struct Access {
    pub(super) rows: Vec<Vec<AccessRow>>,
    pub(super) key: Option<TokenKey>,
}

impl AccessEnd {
    /// The source in a state folder, of which nothing is created.
    pub(super) fn of_folder(state: StateDir) -> Result<Self, CopyError> {
        let tokens = TokenStore::exists(&state).then(|| TokenStore::open(&state)).transpose()?;
        Ok(Self { place: Place::Folder(state), tokens })
    }

    /// The target in a state folder, whose tables are created if needed.
    pub(super) fn in_folder(state: StateDir) -> Result<Self, CopyError> {
        let tokens = Some(TokenStore::open(&state)?);
        Ok(Self { place: Place::Folder(state), tokens })
    }

    pub(super) fn on_server(database: Database) -> Self {
        let tokens = Some(TokenStore::on(&database));
        Self { place: Place::Server(database), tokens }
    }

    /// Returns whether there is a token, a client, a passkey or a password.
    pub(super) fn holds_access(&self) -> Result<bool, CopyError> {
        Ok(self.tokens.as_ref().map(TokenStore::holds_access).transpose()?.unwrap_or(false))
    }

    pub(super) fn read(&self) -> Result<Access, CopyError> {
        let rows = match &self.tokens {
            Some(tokens) => tokens.all_rows()?,
            None => ACCESS_TABLES.iter().map(|_| Vec::new()).collect(),
        };
        let key = match &self.place {
            Place::Folder(state) => TokenKey::find_in(state)?,
            Place::Server(database) => TokenKey::find(database)?,
        };
        Ok(Access { rows, key })
    }

    pub(super) fn write(&self, Access { rows, key }: &Access) -> Result<(), CopyError> {
        if let Some(tokens) = &self.tokens {
            tokens.replace_all(rows)?;
        }
        match (key, &self.place) {
            // A key that is there signs tokens that nobody has yet.
            (None, _) => {}
            (Some(key), Place::Folder(state)) => key.replace_in(state)?,
            (Some(key), Place::Server(database)) => key.replace(database)?,
        }
        Ok(())
    }
}

/// Copies all, and compares both sides afterwards. Returns the checksums of the target, and the
/// tables that differ.
pub(super) fn copy(
    source: &AccessEnd,
    target: &AccessEnd,
) -> Result<(Vec<TableChecksum>, Vec<&'static str>), CopyError> {
    target.write(&source.read()?)?;
    let (from, to) = (source.read()?, target.read()?);
    let (mut checksums, mut differing) = (Vec::new(), Vec::new());
    for (table, (from, to)) in ACCESS_TABLES.iter().zip(from.rows.iter().zip(&to.rows)) {
        let is = checksum(table.name, to);
        if checksum(table.name, from) != is {
            differing.push(table.name);
        }
        checksums.push(is);
    }
    if from.key.is_some() && from.key != to.key {
        differing.push("token_key");
    }
    Ok((checksums, differing))
}

fn checksum(name: &'static str, rows: &[AccessRow]) -> TableChecksum {
    let mut sum = Checksum::new();
    for row in rows {
        sum.add(row);
    }
    sum.finish(name)
}
