//! The state folder, and why the state cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use super::private::{self, make_folder};
use super::tables::TableError;
use super::version;
use crate::postgresql::DatabaseError;

/// The state folder, which only its owner can change.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Why the state cannot be used. The message says what the operator can do.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused an operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// The operation, as an infinitive.
        doing: &'static str,
        /// The file that the operation was for.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The path leads to something other than a folder.
    #[error("the state folder {} is not a folder; move it away or name another with --state", .path.display())]
    NotAFolder {
        /// The state folder.
        path: PathBuf,
    },
    /// Other users can write to the folder, so they could put a key there.
    #[error("other users can write to the state folder {0}, so its key cannot be trusted; \
             run `chmod go-w '{0}'`, or name another folder with --state", .path.display())]
    FolderWritable {
        /// The state folder.
        path: PathBuf,
    },
    /// Another user owns the folder or file, so they could put a key there.
    #[error("{} belongs to another user, so it cannot be trusted; \
             run as its owner, or name another state folder with --state", .path.display())]
    Foreign {
        /// The folder or file that another user owns.
        path: PathBuf,
    },
    /// Other users can read the key, so they could mint tokens.
    #[error("other users can read {0}; run `chmod 600 '{0}'`, and if one may have read it, delete it: \
             a new key is made, and all tokens must be minted again", .path.display())]
    Exposed {
        /// The path of the file.
        path: PathBuf,
    },
    /// The key file does not contain a key.
    #[error("{} is damaged; restore it from a backup, or delete it: \
             a new key is made, and all tokens must be minted again", .path.display())]
    DamagedKey {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is another program's database, or is damaged.
    #[error("{} is not a database of stile, or is damaged; restore it from a backup, or delete it: \
             all tokens must then be minted again", .path.display())]
    ForeignDatabase {
        /// The path of the file.
        path: PathBuf,
    },
    /// A newer version of Stile made the database.
    #[error("{} was made by a newer stile; use that version, or name another state folder with --state", .path.display())]
    Newer {
        /// The path of the file.
        path: PathBuf,
    },
    /// The database of tokens failed.
    #[error("cannot {doing} the tokens: {error}")]
    Database {
        /// The operation, as an infinitive.
        doing: &'static str,
        /// The error of the database.
        error: TableError,
    },
    /// A database on PostgreSQL cannot be used.
    #[error(transparent)]
    Hosted(#[from] DatabaseError),
    /// The system gives no random bytes for a key.
    #[error("the system gives no random bytes for a key")]
    Random,
    /// No token has that identifier.
    #[error("there is no token `{jti}`; `stile token list --all` shows all of them")]
    UnknownToken {
        /// The identifier that no token has.
        jti: String,
    },
    /// One folder is inside the other, so an agent could reach the key.
    #[error("the state folder {} and the space {} must lie apart, or agents could reach the key; \
             name another state folder with --state", .state.display(), .root.display())]
    Overlap {
        /// The folder of the space.
        root: PathBuf,
        /// The state folder.
        state: PathBuf,
    },
}

impl StateError {
    /// Returns whether the same operation may pass a moment later: the database on PostgreSQL
    /// cannot answer now, or takes no writes now.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Database { error: TableError::Busy | TableError::Unknown, .. })
    }

    /// Logs what did not happen because of the error. A database that cannot answer has a line in
    /// the log for all that fails meanwhile, so no line is added then.
    pub fn log(&self, what: &str) {
        match self.passes() {
            true => tracing::debug!(error = %self, "{what}"),
            false => tracing::error!(error = %self, "{what}"),
        }
    }
}

/// Adds the operation and the path to an error of the file system.
pub(super) fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |error| StateError::Io { doing, path, error }
}

impl StateDir {
    /// Opens the folder, after creating it and its parents if needed, for the owner alone.
    ///
    /// # Errors
    /// [`StateError`] if the folder cannot be created, is not a folder, or can be changed by
    /// others.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        make_folder(path).map_err(io_error("make", path))?;
        Self::open_checked(path)
    }

    fn open_checked(path: &Path) -> Result<Self, StateError> {
        let metadata = path.metadata().map_err(io_error("open", path))?;
        if !metadata.is_dir() {
            return Err(StateError::NotAFolder { path: path.to_owned() });
        }
        if !private::is_ours(&metadata) {
            return Err(StateError::Foreign { path: path.to_owned() });
        }
        if private::others_can_write(&metadata) {
            return Err(StateError::FolderWritable { path: path.to_owned() });
        }
        match version::newer(path) {
            Ok(None) => {}
            Ok(Some(path)) => return Err(StateError::Newer { path }),
            Err((path, error)) => return Err(io_error("read", &path)(error)),
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Opens the folder without creating it.
    ///
    /// # Errors
    /// The errors of [`StateDir::open`], or that the folder does not exist.
    pub fn open_existing(path: &Path) -> Result<Self, StateError> {
        path.metadata().map_err(io_error("open", path))?;
        Self::open_checked(path)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
