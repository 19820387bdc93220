//! The state of the server: its key, its tokens, its records and its journal, never in the space.
//!
//! All of these are in one folder that only its owner may change. If the folder or a file in it
//! cannot be trusted, an error names the remedy. Nothing is repaired without the operator.

mod key;
mod private;
mod tokens;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use key::TokenKey;
pub(crate) use private::{create_private, lock_database, make_folder, sync_folder};
pub use tokens::{Revocation, TokenRecord, TokenStore};

/// The size of the largest settings file that is read, in bytes.
const SETTINGS_BYTES: u64 = 1 << 20;

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
        /// The error of SQLite.
        error: rusqlite::Error,
    },
    /// No token has that identifier.
    #[error("there is no token `{jti}`; `stile token list` shows all of them")]
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

/// Adds the operation and the path to an error of the file system.
fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
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

/// Refuses a state folder inside the space, and a space inside the state folder. Resolves links.
/// Neither folder needs to exist.
///
/// # Errors
/// [`StateError::Overlap`] if one folder is inside the other; [`StateError::Io`] if a path cannot
/// be resolved.
pub fn check_disjoint(root: &Path, state: &Path) -> Result<(), StateError> {
    let (real_root, real_state) = (resolve(root)?, resolve(state)?);
    if real_root.starts_with(&real_state) || real_state.starts_with(&real_root) {
        return Err(StateError::Overlap { root: root.to_owned(), state: state.to_owned() });
    }
    Ok(())
}

/// Returns whether a file is inside a folder, after resolving links.
///
/// # Errors
/// [`StateError::Io`] if a path cannot be resolved.
pub fn is_inside(file: &Path, folder: &Path) -> Result<bool, StateError> {
    Ok(resolve(file)?.starts_with(resolve(folder)?))
}

/// Resolves the part of a path that exists, and appends the rest as written.
fn resolve(path: &Path) -> Result<PathBuf, StateError> {
    let absolute = std::path::absolute(path).map_err(io_error("resolve", path))?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(mut real) => {
                let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
                let mut went_up = false;
                for part in rest.components() {
                    // A part that does not exist is not a link, so `..` undoes it.
                    if part == std::path::Component::ParentDir {
                        went_up = true;
                        real.pop();
                    } else {
                        real.push(part);
                    }
                }
                // After `..` the path may exist again.
                return if went_up { resolve(&real) } else { Ok(real) };
            }
            // Creating the folder would follow a dangling link to an unknown place.
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

/// Creates the folder of a space and its parents, unless they exist.
pub fn create_space_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Reads a settings file, or a file that a setting names.
///
/// # Errors
/// The error of the file system, or that the file is not UTF-8 or larger than 1 MiB.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(SETTINGS_BYTES).read_to_string(&mut text)?;
    if read as u64 == SETTINGS_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is too large for settings"));
    }
    Ok(text)
}

/// Returns the name of the user that this process runs as, from the password file.
#[cfg(unix)]
pub fn system_user_name() -> Option<String> {
    user_in(&std::fs::read_to_string("/etc/passwd").ok()?, rustix::process::getuid().as_raw())
}

/// Returns `None`: the system has no password file.
#[cfg(not(unix))]
pub fn system_user_name() -> Option<String> {
    None
}

/// Finds the name of a user number in a password file.
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
    fn a_user_name_is_found_by_number() {
        let record = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:\nbroken\n";
        assert_eq!(user_in(record, 1000).as_deref(), Some("ann"));
        assert_eq!(user_in(record, 1), None);
    }

    #[test]
    fn the_folder_and_its_parents_are_created_for_the_owner_alone() {
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
    fn a_file_instead_of_the_folder_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("state");
        std::fs::write(&path, "").unwrap();
        assert!(StateDir::open(&path).is_err());
    }

    #[test]
    fn the_state_folder_and_the_space_must_be_disjoint() {
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
