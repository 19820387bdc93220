//! The spaces that were served with a state folder, and how a root is recognised.
//!
//! A token names the space that it is for in its `aud` claim. The identifier is made on first use
//! and bound to the folder: to its file number and its time of birth. So a folder keeps its tokens
//! when it is renamed, and another folder at the same path does not get them. The device is left
//! out, because its number may change when the machine starts.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::time::UNIX_EPOCH;

use uuid::Uuid;

use super::authorizations::end_all_of_space;
use super::state_dir::{StateError, io_error};
use super::tables::{TableError, Tables, values};
use super::tokens::TokenStore;

/// Selects the spaces that have a path or no folder yet. A folder that another one replaced has no
/// path until it is served again.
const PRESENT: &str = "WHERE path IS NOT NULL OR folder IS NULL";

/// A space that this state knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSpace {
    /// The `aud` of its tokens: `urn:uuid:` and a UUID.
    pub audience: String,
    /// Where its folder was last seen; `None` before the first start.
    pub path: Option<PathBuf>,
}

/// The space of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceOfFolder {
    /// The `aud` of its tokens.
    pub audience: String,
    /// Whether another folder was served at this path before, whose tokens are refused here.
    pub replaces_another: bool,
    /// Whether the state knows no other space, so that nobody has to name this one.
    pub is_only: bool,
    /// Whether tokens may have been made for it before it had a folder, which open this one now.
    pub was_without_folder: bool,
}

/// A space whose folder may have become another one, for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSpace {
    /// The `aud` of its tokens.
    pub audience: String,
    /// What its folder is recognised by.
    pub(crate) identity: String,
    /// Where its folder was last seen; `None` if another folder took that path.
    pub path: Option<PathBuf>,
    /// Whether its folder is there now.
    pub is_there: bool,
}

impl TokenStore {
    /// Returns the spaces that had a folder, except for the space of `folder`.
    ///
    /// # Errors
    /// [`StateError`] if the folder cannot be found or the database fails.
    pub fn other_spaces(&self, folder: &Path) -> Result<Vec<OldSpace>, StateError> {
        let (own, _) = identity_and_path(folder)?;
        let others = "SELECT audience, folder, path FROM spaces \
                      WHERE folder IS NOT NULL AND folder <> ?1 ORDER BY path, audience";
        let mut spaces = self.read("list the spaces of", |tables| {
            tables.rows(others, values![own], |row| {
                let path: Option<String> = row.get(2)?;
                let path = path.map(PathBuf::from);
                let (audience, identity) = (row.get(0)?, row.get(1)?);
                Ok(OldSpace { audience, identity, path, is_there: false })
            })
        })?;
        spaces.retain(|space| !space.identity.starts_with(GIVEN_UP));
        for space in &mut spaces {
            let here = space.path.as_deref().and_then(|path| identity_and_path(path).ok());
            space.is_there = here.is_some_and(|(identity, _)| identity == space.identity);
        }
        Ok(spaces)
    }

    /// Makes a folder the folder of a space. The folder that the space had before is another one
    /// from now on. The space that `folder` had before has none any more, and its tokens and
    /// approvals end.
    ///
    /// # Errors
    /// [`StateError`] if the folder cannot be found or the database fails.
    pub fn adopt(&self, folder: &Path, space: &OldSpace, now: i64) -> Result<(), StateError> {
        let (identity, path) = identity_and_path(folder)?;
        self.change("adopt a folder for", |tables| {
            free_path(tables, &path)?;
            // The identifier stays, so that no folder gets the tokens of that space by chance.
            let own_query = "SELECT audience FROM spaces WHERE folder = ?1 AND audience <> ?2";
            let own = values![identity, space.audience];
            for given_up in tables.rows(own_query, own, |row| row.get::<String>(0))? {
                let give_up = "UPDATE spaces SET folder = ?2, path = NULL WHERE audience = ?1";
                let nowhere = format!("{GIVEN_UP}{given_up}");
                tables.execute(give_up, values![given_up, nowhere])?;
                end_all_of_space(tables, &given_up, now)?;
            }
            let adopt = "UPDATE spaces SET folder = ?2, path = ?3 WHERE audience = ?1";
            tables.execute(adopt, values![space.audience, identity, path])
        })?;
        Ok(())
    }

    /// Returns the `aud` of the tokens of a folder; `None` if the folder is of no space yet.
    ///
    /// # Errors
    /// [`StateError`] if the folder cannot be found or the database fails.
    pub fn audience_of(&self, folder: &Path) -> Result<Option<String>, StateError> {
        let (identity, _) = identity_and_path(folder)?;
        let query = "SELECT audience FROM spaces WHERE folder = ?1";
        self.read("look up the space of", |tables| {
            tables.first(query, values![identity], |row| row.get::<String>(0))
        })
    }

    /// Returns the space of a folder. Makes one for a folder that was never seen.
    ///
    /// # Errors
    /// [`StateError`] if the folder cannot be found or the database fails.
    pub fn space_of(&self, folder: &Path) -> Result<SpaceOfFolder, StateError> {
        let (identity, path) = identity_and_path(folder)?;
        // Most starts change nothing, and then nothing is written.
        let bound = self.read("look up the space of", |tables| bound(tables, &identity, &path))?;
        match bound {
            Some(bound) => Ok(bound),
            None => self.change("look up the space of", |tables| bind(tables, &identity, &path)),
        }
    }

    /// Returns the only space of this state, after making one if there is none; `None` if there are
    /// several.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn only_space(&self) -> Result<Option<String>, StateError> {
        self.change("look up the space of", |tables| {
            let mut known = audiences(tables)?;
            if known.is_empty() {
                let audience = new_audience();
                let insert = "INSERT INTO spaces (audience) VALUES (?1)";
                tables.execute(insert, values![audience])?;
                known.push(audience);
            }
            Ok(if known.len() == 1 { known.pop() } else { None })
        })
    }

    /// Returns the spaces in the order of their paths, without those whose folder is no longer at
    /// the path where it was served.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn spaces(&self) -> Result<Vec<KnownSpace>, StateError> {
        let all = format!("SELECT audience, path FROM spaces {PRESENT} ORDER BY path, audience");
        self.read("list the spaces of", |tables| {
            tables.rows(&all, &[], |row| {
                let path: Option<String> = row.get(1)?;
                Ok(KnownSpace { audience: row.get(0)?, path: path.map(PathBuf::from) })
            })
        })
    }

    /// Returns the `aud` of each space that has no folder any more, since its folder became that of
    /// another space. Its tokens and approvals ended then.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn given_up_spaces(&self) -> Result<Vec<String>, StateError> {
        let all = "SELECT audience FROM spaces WHERE folder = ?1 || audience";
        self.read("list the spaces of", |tables| {
            tables.rows(all, values![GIVEN_UP], |row| row.get(0))
        })
    }
}

/// The beginning of what is recorded as the folder of a space that has none any more.
const GIVEN_UP: &str = "given up ";

/// Returns what a folder is recognised by, and its path without links.
fn identity_and_path(folder: &Path) -> Result<(String, String), StateError> {
    let path = folder.canonicalize().map_err(io_error("find", folder))?;
    let metadata = path.metadata().map_err(io_error("find", folder))?;
    Ok((folder_identity(&metadata, &path), path.to_string_lossy().into_owned()))
}

/// Finds the space of a folder that is at the path where it was served last.
fn bound(
    tables: Tables<'_>,
    identity: &str,
    path: &str,
) -> Result<Option<SpaceOfFolder>, TableError> {
    let query = "SELECT audience FROM spaces WHERE folder = ?1 AND path = ?2";
    let known = tables.first(query, values![identity, path], |row| row.get::<String>(0))?;
    let Some(audience) = known else { return Ok(None) };
    let is_only = audiences(tables)?.len() == 1;
    let (replaces_another, was_without_folder) = (false, false);
    Ok(Some(SpaceOfFolder { audience, replaces_another, is_only, was_without_folder }))
}

/// Finds the space of a folder, or binds the one that has no folder yet, or makes one.
fn bind(tables: Tables<'_>, identity: &str, path: &str) -> Result<SpaceOfFolder, TableError> {
    let one = |condition: &str, values: &[_]| {
        let query = format!("SELECT audience FROM spaces WHERE {condition} LIMIT 1");
        tables.first(&query, values, |row| row.get::<String>(0))
    };
    let known = one("folder = ?1", values![identity])?;
    let unbound = one("folder IS NULL", &[])?;
    let before = one("path = ?1", values![path])?;
    let replaces_another = known.is_none() && before.is_some();
    let was_without_folder = known.is_none() && unbound.is_some();
    let audience = known.or(unbound).unwrap_or_else(new_audience);
    free_path(tables, path)?;
    let store = "INSERT INTO spaces (audience, folder, path) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (audience) DO UPDATE SET folder = ?2, path = ?3";
    tables.execute(store, values![audience, identity, path])?;
    let is_only = audiences(tables)?.len() == 1;
    Ok(SpaceOfFolder { audience, replaces_another, is_only, was_without_folder })
}

/// Takes a path from the space that has it. A path leads to one folder at a time.
fn free_path(tables: Tables<'_>, path: &str) -> Result<(), TableError> {
    let text = "UPDATE spaces SET path = NULL WHERE path = ?1";
    tables.execute(text, values![path]).map(drop)
}

fn audiences(tables: Tables<'_>) -> Result<Vec<String>, TableError> {
    tables.rows(&format!("SELECT audience FROM spaces {PRESENT}"), &[], |row| row.get(0))
}

fn new_audience() -> String {
    Uuid::new_v4().urn().to_string()
}

/// Returns what a folder is recognised by: its file number and its time of birth in nanoseconds, or
/// its path if the file system keeps no time of birth. *Example*: `812-1763800000123456789`.
#[cfg(unix)]
pub(crate) fn folder_identity(metadata: &Metadata, path: &Path) -> String {
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    match born {
        Some(born) => format!("{}-{}", file_number(metadata), born.as_nanos()),
        None => format!("{}-{}", file_number(metadata), path.display()),
    }
}

#[cfg(unix)]
fn file_number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// Returns what a folder is recognised by: its number, which counts how often it was given away,
/// and that of its volume. *Example*: `1125899906842624-2892161536`.
#[cfg(windows)]
pub(crate) fn folder_identity(_: &Metadata, path: &Path) -> String {
    match crate::platform::identity(path) {
        Ok((volume, number)) => format!("{number}-{volume}"),
        Err(_) => format!("0-{}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state_dir::StateDir;
    use super::*;

    struct Folders {
        folder: tempfile::TempDir,
        tokens: TokenStore,
    }

    impl Folders {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let state = StateDir::open(&folder.path().join("state")).unwrap();
            let tokens = TokenStore::open(&state).unwrap();
            Self { folder, tokens }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn make(&self, name: &str) -> SpaceOfFolder {
            std::fs::create_dir(self.at(name)).unwrap();
            self.tokens.space_of(&self.at(name)).unwrap()
        }
    }

    #[test]
    fn each_folder_is_a_space_of_its_own_and_stays_the_same_one() {
        let folders = Folders::new();
        let (one, two) = (folders.make("one"), folders.make("two"));
        assert_ne!(one.audience, two.audience);
        assert!(one.audience.starts_with("urn:uuid:") && !one.replaces_another);
        assert!(one.is_only && !two.is_only);
        let again = folders.tokens.space_of(&folders.at("one")).unwrap();
        assert_eq!((again.audience, again.is_only), (one.audience, false));
        assert_eq!(folders.tokens.only_space().unwrap(), None);
        assert_eq!(folders.tokens.spaces().unwrap().len(), 2);
    }

    #[test]
    fn a_renamed_folder_keeps_its_space() {
        let folders = Folders::new();
        let one = folders.make("one");
        std::fs::rename(folders.at("one"), folders.at("other")).unwrap();
        assert_eq!(folders.tokens.space_of(&folders.at("other")).unwrap(), one);
    }

    #[test]
    fn another_folder_at_the_same_path_is_another_space() {
        let folders = Folders::new();
        let one = folders.make("one");
        std::fs::rename(folders.at("one"), folders.at("away")).unwrap();
        let new = folders.make("one");
        assert!(new.replaces_another && new.audience != one.audience);
        // Nothing can be asked for the folder that is gone, so the new one needs no name.
        assert_eq!(folders.tokens.only_space().unwrap(), Some(new.audience));
        // The first folder comes back under a third name.
        let back = folders.tokens.space_of(&folders.at("away")).unwrap();
        assert_eq!(back.audience, one.audience);
        assert_eq!(folders.tokens.only_space().unwrap(), None);
    }

    #[test]
    fn the_first_token_is_for_the_first_folder_that_is_served() {
        let folders = Folders::new();
        let early = folders.tokens.only_space().unwrap().unwrap();
        assert_eq!(folders.tokens.only_space().unwrap().as_ref(), Some(&early));
        assert_eq!(folders.make("one").audience, early);
        assert_eq!(folders.tokens.only_space().unwrap().as_ref(), Some(&early));
        assert_ne!(folders.make("two").audience, early);
    }

    #[test]
    fn an_adopted_folder_is_the_same_space_and_the_old_folder_is_another_one() {
        let folders = Folders::new();
        let old = folders.make("old");
        let new = folders.make("new");
        let [space] = folders.tokens.other_spaces(&folders.at("new")).unwrap().try_into().unwrap();
        assert_eq!((&space.audience, space.is_there), (&old.audience, true));
        folders.tokens.adopt(&folders.at("new"), &space, 7).unwrap();
        let audience = |name| folders.tokens.space_of(&folders.at(name)).unwrap().audience;
        assert_eq!(audience("new"), old.audience);
        let other = audience("old");
        assert!(other != old.audience && other != new.audience);
        assert_eq!(folders.tokens.given_up_spaces().unwrap(), std::slice::from_ref(&new.audience));
        // No folder gets the tokens of the space that the new folder had for a while.
        assert_ne!(folders.make("third").audience, new.audience);
        assert_eq!(folders.tokens.audience_of(&folders.at("new")).unwrap(), Some(old.audience));
        let others = folders.tokens.other_spaces(&folders.at("new")).unwrap();
        assert!(others.iter().all(|space| space.audience != new.audience));
    }

    #[test]
    fn a_folder_at_the_path_of_another_one_can_be_adopted_before_and_after_it_is_served() {
        for is_served in [false, true] {
            let folders = Folders::new();
            let old = folders.make("one");
            std::fs::rename(folders.at("one"), folders.at("away")).unwrap();
            std::fs::create_dir(folders.at("one")).unwrap();
            if is_served {
                folders.tokens.space_of(&folders.at("one")).unwrap();
            }
            let others = folders.tokens.other_spaces(&folders.at("one")).unwrap();
            let [space] = others.try_into().unwrap();
            assert_eq!((space.path.is_none(), space.is_there), (is_served, false));
            folders.tokens.adopt(&folders.at("one"), &space, 7).unwrap();
            let again = folders.tokens.space_of(&folders.at("one")).unwrap();
            assert_eq!((again.audience, again.replaces_another), (old.audience, false));
        }
    }

    #[test]
    fn a_folder_that_does_not_exist_has_no_space() {
        let folders = Folders::new();
        assert!(folders.tokens.space_of(&folders.at("none")).is_err());
        assert_eq!(folders.tokens.spaces().unwrap(), []);
    }
}
