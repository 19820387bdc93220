//! Why the history cannot keep or give a version.

use stile_domain::hash::ContentHash;
use stile_domain::history::version::OldVersion;

/// Why the history cannot be used, or a version cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file system refused an operation.
    #[error("the history in the state folder cannot be used: {0}")]
    Io(#[from] std::io::Error),
    /// The database failed.
    #[error("the database of the history failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// A newer version of Stile made the history.
    #[error("the history was made by a newer stile; use that version")]
    Newer,
    /// Another program made the database.
    #[error("the database of the history was made by another program; move it away")]
    Foreign,
    /// There is no room for the version.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The version on the disk is another one than was to be kept.
    #[error("the file changed while it was being kept")]
    Changed,
    /// A server uses the space.
    #[error("a server uses one of the two folders; stop it, and run the command again")]
    InUse,
    /// A thread ended before it recorded the change.
    #[error("the change was not recorded")]
    Stopped,
}

impl HistoryError {
    /// Returns the outcome that a line of the journal has for a version that was not kept.
    pub fn outcome(&self) -> &'static str {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::NoRoom(NoRoom::TooLarge) => "too_large",
            Self::NoRoom(NoRoom::OverShare) => "over_share",
            Self::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded) => "no_space",
            Self::Database(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
                ) =>
            {
                "no_space"
            }
            _ => "failed",
        }
    }
}

/// Why there is no room for a version or a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The version alone is larger than the whole history may be.
    #[error("the version is larger than the history may be")]
    TooLarge,
    /// The client keeps as much of the history as it leaves to others.
    #[error("the client keeps as much of the history as it may")]
    OverShare,
}

/// Why a version cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// No change of this file has the number, or no version of the file has the hash.
    #[error("the history has no version {version} of this file")]
    Unknown {
        /// The version that was asked for.
        version: OldVersion,
    },
    /// Several versions of the file have hashes that begin with these digits.
    #[error("several versions begin with {digits}; give more digits of the hash")]
    Ambiguous {
        /// The digits that were asked for.
        digits: String,
    },
    /// The change created the file, so there is no version before it.
    #[error("the change created the file, so there is no version before it")]
    NoVersionBefore,
    /// The version was removed, since it was old, or never kept.
    #[error("the version {} is not in the history any more", short(.hash))]
    NotKept {
        /// The hash of the version.
        hash: ContentHash,
    },
    /// What is stored is not the version: the disk or somebody changed it.
    #[error("the stored version {} is damaged", short(.hash))]
    Damaged {
        /// The hash of the version.
        hash: ContentHash,
    },
    /// The version is longer than the reader takes.
    #[error("the version has {size} bytes, which is too many to show or restore here")]
    TooLarge {
        /// The size of the version in bytes.
        size: u64,
    },
    /// The history failed.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl From<rusqlite::Error> for VersionError {
    fn from(error: rusqlite::Error) -> Self {
        Self::History(error.into())
    }
}

impl From<std::io::Error> for VersionError {
    fn from(error: std::io::Error) -> Self {
        Self::History(error.into())
    }
}

/// Returns the digits of a hash that people see.
fn short(hash: &ContentHash) -> String {
    hash.to_string().chars().take(12).collect()
}
