//! Which version of the program wrote a state folder, in the file `version.json`.
//!
//! Each database has the number of its own schema. The number here is for the folder as a whole: a
//! version that cannot read the folder refuses it before it opens any file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::private::{create_private, sync_folder};

const NAME: &str = "version.json";
/// The form of the state folder. A change that an older program must not meet adds one.
const FORMAT: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    format: u32,
    /// The version of the program that opened the state last.
    written_by: String,
}

/// Returns the file that says so if a newer version changed the form of a folder. A folder of a
/// version that wrote no such file has the first form.
///
/// # Errors
/// The file, and why it cannot be read.
pub(super) fn newer(folder: &Path) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
    let path = folder.join(NAME);
    match read(&path) {
        Ok(Some(written)) if written.format > FORMAT => Ok(Some(path)),
        Ok(_) => Ok(None),
        Err(error) => Err((path, error)),
    }
}

/// Notes this version in a folder, if another one is noted there.
pub(super) fn note(folder: &Path) -> io::Result<()> {
    let path = folder.join(NAME);
    let now = Written { format: FORMAT, written_by: PROGRAM.to_owned() };
    if read(&path).is_ok_and(|written| written.as_ref() == Some(&now)) {
        return Ok(());
    }
    write(folder, &path, &now)
}

/// Returns what is noted; `None` if there is no file, or none that can be understood.
fn read(path: &Path) -> io::Result<Option<Written>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(folder: &Path, path: &Path, written: &Written) -> io::Result<()> {
    let temporary = folder.join(format!(".version-{}.tmp", Uuid::new_v4().simple()));
    let text = serde_json::to_vec(written)?;
    let renamed = create_private(&temporary)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    renamed.and_then(|()| sync_folder(folder))
}

#[cfg(test)]
mod tests {
    use super::super::{StateDir, StateError, TokenStore};
    use super::*;

    #[test]
    fn the_state_says_which_version_wrote_it_and_an_older_one_refuses_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let path = folder.path().join(NAME);
        assert!(!path.exists());
        TokenStore::open(&state).unwrap();
        let written = read(&path).unwrap().unwrap();
        assert_eq!((written.format, written.written_by.as_str()), (FORMAT, PROGRAM));

        std::fs::write(&path, "{\"format\": 1, \"written_by\": \"0.0.1\"}").unwrap();
        TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().written_by, PROGRAM);

        let newer = "{\"format\": 2, \"written_by\": \"9.9.9\", \"more\": true}";
        std::fs::write(&path, newer).unwrap();
        for opened in [StateDir::open(folder.path()), StateDir::open_existing(folder.path())] {
            assert!(matches!(opened.unwrap_err(), StateError::Newer { .. }));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    }
}
