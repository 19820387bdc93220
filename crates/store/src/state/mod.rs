//! The state of the server: its key, its tokens, its records and its journal, never in the space.
//!
//! All of these are in one folder that only its owner may change. If the folder or a file in it
//! cannot be trusted, an error names the remedy. Nothing is repaired without the operator.

mod authorizations;
mod browser_sessions;
pub mod cleared_caches;
mod client_sessions;
mod clients;
mod copying;
mod key;
mod log_snapshot;
mod own_names;
mod owner_credentials;
mod private;
pub mod reserve;
mod running_servers;
mod served_folders;
#[cfg(test)]
mod server_tests;
mod session_bounds;
mod session_rows;
mod short_lived;
#[cfg(test)]
mod sign_in_tests;
mod spaces;
mod sqlite_schema;
mod standing;
mod state_dir;
mod stdio_clients;
mod sync_lock;
mod tables;
mod token_uses;
mod tokens;
mod version;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use authorizations::{
    AuthorizationRecord, CODE_SECONDS, CodeSpent, Issued, NewCode, REFRESH_GRACE_SECONDS,
    RefreshSpent, SpentCode,
};
pub use browser_sessions::{
    LINK_SECONDS, OpenSession, SESSION_IDLE_SECONDS, SESSION_SECONDS, SecretDigest,
};
pub use client_sessions::{CLIENT_SESSION_SECONDS, OpenedSession};
pub use clients::{ClientKind, ClientRecord, MAX_UNUSED_CLIENTS, UNUSED_CLIENT_SECONDS};
pub(crate) use copying::{ACCESS_TABLES, AccessRow};
pub use key::TokenKey;
pub use owner_credentials::{Passkey, PasskeyAdded, PasskeyUse, StoredPassword};
pub(crate) use private::{
    create_private, lock_database, make_folder, make_private_folder, sync_folder,
};
pub use running_servers::{RunningNote, RunningServer, running_servers};
pub use served_folders::{ServedFolder, UnservedFolders};
pub use session_bounds::{Counted, surplus};
pub use session_rows::ClientSession;
pub use short_lived::{Bounds, ShortLived};
pub(crate) use spaces::folder_identity;
pub use spaces::{KnownSpace, OldSpace, SpaceOfFolder};
pub(crate) use sqlite_schema::{Migration, SqliteSchema};
pub use standing::{ApprovedRights, TokenStanding};
use state_dir::io_error;
pub use state_dir::{StateDir, StateError};
pub use stdio_clients::{AfterEnd, StdioAccess, StdioStartRights};
pub use sync_lock::SyncLock;
pub use tables::TableError;
pub use tokens::{Revocation, TokenKind, TokenRecord, TokenStore};

/// The size of the largest settings file that is read, in bytes.
const SETTINGS_BYTES: u64 = 1 << 20;

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

/// Checks that folders can be made in a folder, which is made if it is not there.
///
/// # Errors
/// The error of the file system.
pub fn check_takes_folders(path: &Path) -> io::Result<()> {
    create_space_folder(path)?;
    let tried = path.join(format!(".stile-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&tried)?;
    std::fs::remove_dir(&tried)
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

/// Returns who owns a folder, if that is not the user of this process: the name in the password
/// file, or the number.
///
/// # Errors
/// The error of the file system.
#[cfg(unix)]
pub fn other_owner(folder: &Path) -> io::Result<Option<String>> {
    let metadata = folder.metadata()?;
    if private::is_ours(&metadata) {
        return Ok(None);
    }
    let number = std::os::unix::fs::MetadataExt::uid(&metadata);
    let name = std::fs::read_to_string("/etc/passwd").ok().and_then(|it| user_in(&it, number));
    Ok(Some(name.unwrap_or_else(|| format!("#{number}"))))
}

/// Returns `None`: the system does not say who owns a folder.
#[cfg(not(unix))]
pub fn other_owner(_: &Path) -> io::Result<Option<String>> {
    Ok(None)
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
