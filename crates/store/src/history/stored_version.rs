//! A version that is compressed, and where it is kept.

use std::cell::Cell;

use stile_domain::hash::ContentHash;
use stile_domain::history::retention::VersionClass;

/// A version that is compressed, and durable if it is a file.
pub(super) struct StoredVersion {
    pub(super) hash: ContentHash,
    pub(super) size: u64,
    /// The bytes that it takes.
    pub(super) stored: u64,
    pub(super) place: Place,
    /// What the version is kept as, if room is reserved for it.
    pub(super) reserved: Option<VersionClass>,
    /// Whether the database names this copy. Otherwise it has the version already.
    pub(super) is_used: Cell<bool>,
}

/// Where a version is.
pub(super) enum Place {
    /// Its compressed bytes go into the database.
    Database(Vec<u8>),
    /// It is a file with this name, or becomes one.
    File(String),
}
