//! The settings that are kept with the history.
//!
//! Several processes use one history: servers, and the owner's commands, which may know other
//! settings than the server. So the settings are in the database. A server stores those that its
//! owner named; a setting that nobody named stays as it is stored. Commands only read them.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::error::HistoryError;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Changes that are older are removed, in days.
    pub days: u64,
    /// The most bytes that all versions may take, compressed. A tenth of the disk is a limit too.
    pub bytes: u64,
}

/// What happens to a change whose old version cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnkeptChange {
    /// The change is made, and the journal says that nothing was kept.
    GoesOn,
    /// The change is refused.
    IsRefused,
}

/// The settings of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// How much is kept, and for how long.
    pub limits: HistoryLimits,
    /// What happens to a change whose old version cannot be kept.
    pub unkept: UnkeptChange,
}

/// A setting as a server got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSetting<T> {
    /// The owner named this value.
    Named(T),
    /// The owner named nothing. The value counts if none is stored.
    Default(T),
}

/// The settings as a server got them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// How old a change gets, in days.
    pub days: ServerSetting<u64>,
    /// The most bytes that all versions may take.
    pub bytes: ServerSetting<u64>,
    /// What happens to a change whose old version cannot be kept.
    pub unkept: ServerSetting<UnkeptChange>,
}

impl UnkeptChange {
    fn number(self) -> u64 {
        match self {
            Self::GoesOn => 0,
            Self::IsRefused => 1,
        }
    }

    fn from_number(number: u64) -> Self {
        if number == Self::IsRefused.number() { Self::IsRefused } else { Self::GoesOn }
    }
}

impl<T> ServerSetting<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> ServerSetting<U> {
        match self {
            Self::Named(value) => ServerSetting::Named(map(value)),
            Self::Default(value) => ServerSetting::Default(map(value)),
        }
    }
}

const DAYS: &str = "days";
const BYTES: &str = "bytes";
const REFUSES_UNKEPT: &str = "refuses_unkept";

/// Stores the settings of a server that starts, and returns those that hold.
pub(super) fn store(
    connection: &mut Connection,
    server: &ServerSettings,
) -> Result<HistorySettings, HistoryError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let one = |name: &str, setting: ServerSetting<u64>| -> rusqlite::Result<u64> {
        let (statement, value) = match setting {
            ServerSetting::Named(value) => {
                ("INSERT OR REPLACE INTO settings (name, value) VALUES (?1, ?2)", value)
            }
            ServerSetting::Default(value) => {
                ("INSERT OR IGNORE INTO settings (name, value) VALUES (?1, ?2)", value)
            }
        };
        let stored = i64::try_from(value).unwrap_or(i64::MAX);
        transaction.execute(statement, params![name, stored])?;
        Ok(find(&transaction, name)?.unwrap_or(value))
    };
    let limits = HistoryLimits { days: one(DAYS, server.days)?, bytes: one(BYTES, server.bytes)? };
    let refuses = one(REFUSES_UNKEPT, server.unkept.map(UnkeptChange::number))?;
    transaction.commit()?;
    Ok(HistorySettings { limits, unkept: UnkeptChange::from_number(refuses) })
}

/// Returns the stored settings, and `otherwise` where none is stored.
pub(super) fn load(
    connection: &Connection,
    otherwise: &HistorySettings,
) -> rusqlite::Result<HistorySettings> {
    let limits = HistoryLimits {
        days: find(connection, DAYS)?.unwrap_or(otherwise.limits.days),
        bytes: find(connection, BYTES)?.unwrap_or(otherwise.limits.bytes),
    };
    let refuses = find(connection, REFUSES_UNKEPT)?;
    Ok(HistorySettings {
        limits,
        unkept: refuses.map_or(otherwise.unkept, UnkeptChange::from_number),
    })
}

fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<u64>> {
    let mut query = connection.prepare_cached("SELECT value FROM settings WHERE name = ?1")?;
    let value: Option<i64> = query.query_row([name], |row| row.get(0)).optional()?;
    Ok(value.and_then(|value| u64::try_from(value).ok()))
}
