//! How the owner makes running servers forget what they remember of files.
//!
//! Nothing of that is on disk. The command makes a file in the state folder anew, without content,
//! and each server that runs with the folder looks at the file's time and number at every call.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::private::create_private;
use super::state_dir::StateDir;

const MARK: &str = "caches-cleared";

/// Returns the path of the mark in the state folder.
pub fn mark_in(state: &Path) -> PathBuf {
    state.join(MARK)
}

/// Makes each server that runs with the state folder forget what it remembers of files, with its
/// next call.
///
/// # Errors
/// The error of the file system.
pub fn clear_caches(state: &StateDir) -> io::Result<()> {
    // Both files are there at once, so they have different numbers.
    let new = state.path().join(format!("{MARK}.{}", Uuid::new_v4().simple()));
    create_private(&new)?;
    std::fs::rename(&new, mark_in(state.path())).inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}
