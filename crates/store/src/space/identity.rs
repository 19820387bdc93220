//! The identity of a file or folder, which stays the same when its name changes.

/// The identity of a file or folder: its device and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Identity(pub(super) u64, pub(super) u64);
