//! What a folder was like before a call removed or moved it.

use stile_domain::path::SpacePath;

/// A folder that a call is about to remove or to move.
pub(crate) struct FolderBefore {
    pub(crate) path: SpacePath,
    /// The permission bits.
    pub(crate) mode: u32,
    /// The path to which the folder itself moves; `None` for one that is in it, or is removed.
    pub(crate) to: Option<SpacePath>,
}
