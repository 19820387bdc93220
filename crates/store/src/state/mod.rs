//! The server's own state: its key, its tokens, its journal. Never inside the space.
//!
//! Everything lives in one folder that only its owner may change. Whatever makes the folder or a
//! file in it unsafe to trust is an error that names the remedy; nothing is repaired behind the
//! operator's back.

mod key;
mod private;
mod tokens;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use key::TokenKey;
pub(crate) use private::{create_private, make_folder, sync_folder};
pub use tokens::{Revocation, TokenRecord, TokenStore};

/// The largest settings file that is read.
const SETTINGS_BYTES: u64 = 1 << 20;

/// The folder that holds the state.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Why the state is not used as it is. The message says what the operator can do.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something else than a folder has the name.
    #[error("the state folder {} is not a folder; move it away or name another with --state", .path.display())]
    NotAFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Someone else could put a key there.
    #[error("other users can write to the state folder {0}, so its key cannot be trusted; \
             run `chmod go-w '{0}'`, or name another folder with --state", .path.display())]
    FolderWritable {
        /// The folder.
        path: PathBuf,
    },
    /// Someone else could put a key there.
    #[error("{} belongs to another user, so it cannot be trusted; \
             run as its owner, or name another state folder with --state", .path.display())]
    Foreign {
        /// The folder or file.
        path: PathBuf,
    },
    /// Someone else could mint tokens.
    #[error("other users can read {0}; run `chmod 600 '{0}'`, and if one may have read it, delete it: \
             a new key is made, and all tokens must be minted again", .path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The key file does not hold a key.
    #[error("{} is damaged; restore it from a backup, or delete it: \
             a new key is made, and all tokens must be minted again", .path.display())]
    DamagedKey {
        /// The file.
        path: PathBuf,
    },
    /// The database is not ours.
    #[error("{} is not a database of stile, or is damaged; restore it from a backup, or delete it: \
             all tokens must then be minted again", .path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database is from the future.
    #[error("{} was made by a newer stile; use that version, or name another state folder with --state", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot {doing} the tokens: {error}")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// What SQLite said.
        error: rusqlite::Error,
    },
    /// No token has that identifier.
    #[error("there is no token `{jti}`; `stile token list` shows all of them")]
    UnknownToken {
        /// The identifier.
        jti: String,
    },
    /// An agent could reach the key.
    #[error("the state folder {} and the space {} must lie apart, or agents could reach the key; \
             name another state folder with --state", .state.display(), .root.display())]
    Overlap {
        /// The space.
        root: PathBuf,
        /// The state folder.
        state: PathBuf,
    },
}

/// Turns an error of the file system into one that says where.
fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |error| StateError::Io { doing, path, error }
}

impl StateDir {
    /// Opens the folder; makes it, with its parents and for its owner alone, where it is not.
    ///
    /// # Errors
    /// [`StateError`] where it cannot be made, is no folder, or others could have changed it.
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
        Ok(Self { path: path.to_owned() })
    }

    /// Opens the folder as it is; nothing is made.
    ///
    /// # Errors
    /// As [`StateDir::open`], and where there is none.
    pub fn open_existing(path: &Path) -> Result<Self, StateError> {
        path.metadata().map_err(io_error("open", path))?;
        Self::open_checked(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a state folder inside the space and a space inside the state folder, links resolved.
/// Neither needs to exist.
///
/// # Errors
/// [`StateError::Overlap`]; [`StateError::Io`] where a path cannot be resolved.
pub fn check_disjoint(root: &Path, state: &Path) -> Result<(), StateError> {
    let (real_root, real_state) = (resolve(root)?, resolve(state)?);
    if real_root.starts_with(&real_state) || real_state.starts_with(&real_root) {
        return Err(StateError::Overlap { root: root.to_owned(), state: state.to_owned() });
    }
    Ok(())
}

/// Whether a file lies in a folder, links resolved.
///
/// # Errors
/// [`StateError::Io`] where a path cannot be resolved.
pub fn is_inside(file: &Path, folder: &Path) -> Result<bool, StateError> {
    Ok(resolve(file)?.starts_with(resolve(folder)?))
}

/// The real path of what exists, followed by the rest as written.
fn resolve(path: &Path) -> Result<PathBuf, StateError> {
    let absolute = std::path::absolute(path).map_err(io_error("resolve", path))?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(mut real) => {
                let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
                let mut turned_back = false;
                for part in rest.components() {
                    // What is not there yet is no link, so `..` leads back to where it was added.
                    if part == std::path::Component::ParentDir {
                        turned_back = true;
                        real.pop();
                    } else {
                        real.push(part);
                    }
                }
                // Beside what is not there may be something that is.
                return if turned_back { resolve(&real) } else { Ok(real) };
            }
            // A link that leads nowhere would be followed when the folder is made, to who knows
            // where.
            Err(error)
                if error.kind() != io::ErrorKind::NotFound
                    || ancestor.symlink_metadata().is_ok() =>
            {
                return Err(StateError::Io { doing: "resolve", path: path.to_owned(), error });
            }
            Err(_) => {}
        }
    }
    Ok(absolute)
}

/// Makes a folder of the user's, with its parents, where there is none.
///
/// # Errors
/// What the file system says.
pub fn create_space_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Reads a settings file, or a file that a setting names, whole.
///
/// # Errors
/// What the file system says; a file that is not UTF-8 or unreasonably large.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(SETTINGS_BYTES).read_to_string(&mut text)?;
    if read as u64 == SETTINGS_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is too large for settings"));
    }
    Ok(text)
}

/// The name under which the system has this process's user on record.
#[cfg(unix)]
pub fn system_user_name() -> Option<String> {
    user_in(&std::fs::read_to_string("/etc/passwd").ok()?, rustix::process::getuid().as_raw())
}

/// Only systems with a record of that kind are asked.
#[cfg(not(unix))]
pub fn system_user_name() -> Option<String> {
    None
}

/// The name of a user number in a password file.
#[cfg(unix)]
fn user_in(record: &str, number: u32) -> Option<String> {
    record.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(number) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_user_is_found_by_number() {
        let record = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:\nbroken\n";
        assert_eq!(user_in(record, 1000).as_deref(), Some("ann"));
        assert_eq!(user_in(record, 1), None);
    }

    #[test]
    fn the_folder_is_made_with_its_parents_for_its_owner_alone() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/b");
        StateDir::open(&path).unwrap();
        StateDir::open(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let outer = tempfile::tempdir().unwrap();
        for mode in [0o770, 0o702, 0o777] {
            std::fs::set_permissions(outer.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let error = StateDir::open(outer.path()).unwrap_err();
            assert!(error.to_string().contains("chmod go-w"), "{error}");
        }
        std::fs::set_permissions(outer.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        StateDir::open(outer.path()).unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("state");
        std::fs::write(&path, "").unwrap();
        assert!(StateDir::open(&path).is_err());
    }

    #[test]
    fn state_and_space_must_lie_apart() {
        let outer = tempfile::tempdir().unwrap();
        let at = |name: &str| outer.path().join(name);
        std::fs::create_dir_all(at("space/inner")).unwrap();
        for (root, state, apart) in [
            ("space", "state", true),
            ("space", "space2", true),
            ("space", "space", false),
            ("space", "space/inner", false),
            ("space", "space/new/deep", false),
            ("space", "elsewhere/../space/new", false),
            ("space/inner", "space", false),
            ("new/space", "new", false),
            ("new/space", "new/state", true),
        ] {
            assert_eq!(check_disjoint(&at(root), &at(state)).is_ok(), apart, "{root} {state}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_that_state_is_inside_the_space() {
        let outer = tempfile::tempdir().unwrap();
        let at = |name: &str| outer.path().join(name);
        std::fs::create_dir_all(at("space/inner")).unwrap();
        std::os::unix::fs::symlink(at("space/inner"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("space/nowhere"), at("dangling")).unwrap();
        assert!(check_disjoint(&at("space"), &at("link/state")).is_err());
        assert!(check_disjoint(&at("space"), &at("dangling")).is_err());
        assert!(check_disjoint(&at("space"), &at("missing/../link/state")).is_err());
        assert!(check_disjoint(&at("link"), &at("space")).is_err());
    }
}
