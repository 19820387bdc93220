//! What an undo will do to the history.

use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;

/// A change that an undo will make.
#[derive(Clone, Debug)]
pub struct ForeseenChange {
    /// What the change will do.
    pub kind: PastChangeKind,
    /// The file; for a move, the path before.
    pub path: SpacePath,
    /// The path that a move gives the file.
    pub to: Option<SpacePath>,
    /// The version before the change.
    pub before: Option<ContentHash>,
    /// The bytes that the version before takes in the history; 0 where nothing is stored.
    pub stored: u64,
    /// The version that the change makes.
    pub after: Option<ContentHash>,
}
