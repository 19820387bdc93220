//! The folder of a person with a space of their own, as the operator measures, copies and removes
//! it, and whether it is the one that was served before: the files, and their old versions beside
//! them.
//!
//! The database of people has what the folder of each person's files is recognised by. A folder
//! that came back from a backup is another one. Nobody but the operator can know that it is the
//! same, so it is served to nobody before the operator has said so.
//!
//! Nothing follows a symbolic link. A copy leaves links and other special files out.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use stile_domain::records::instant::Instant;

use crate::history::{History, HistoryError};
use crate::postgresql::{Database, DatabaseError, Tenant};
use crate::state::{StateDir, folder_identity};

/// Whether the folder with a person's files is the one that was served before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderStanding {
    /// None was served before.
    New,
    /// It is the one that was served before.
    Same,
    /// It is another folder, as after a restore, until the operator adopts it.
    Another,
    /// There is no folder where one was served before, or something else is at its place.
    Missing,
}

/// Why it is not known whether a folder is the one that was served before.
#[derive(Debug, thiserror::Error)]
pub enum StandingError {
    /// The database of people failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The history in the person's folder failed.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The folder, or old versions beside it, are recorded as those of another person.
    #[error(
        "this is the folder of the person {0}, or old versions of that person's files are beside \
         it: put this person's own folder there; nothing was changed"
    )]
    OfAnother(String),
    /// The file system refused an operation.
    #[error("the folder of the person cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The folder with a person's files, and that of their history.
#[derive(Clone, Debug)]
pub struct PersonFiles {
    /// The folder with the files.
    pub notes: PathBuf,
    /// The folder with the history of the files.
    pub state: PathBuf,
}

impl PersonFiles {
    /// Returns whether the files are in the folder that was served before. Changes nothing.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing(
        &self,
        database: &Database,
        tenant: &Tenant,
    ) -> Result<FolderStanding, StandingError> {
        let known = database.folder_of(tenant).map_err(DatabaseError::from)?;
        let found = compare(&self.notes, known.as_deref())?;
        if found != FolderStanding::New {
            return Ok(found);
        }
        if is_obstructed(&self.notes) {
            return Ok(FolderStanding::Missing);
        }
        // The history knows a folder that came with its history into another database.
        let of_history = History::folders(&self.state)?;
        let here = identity(&self.notes)?;
        let is_known = here.is_none_or(|here| of_history.contains(&here));
        Ok(match of_history.is_empty() || is_known {
            true => FolderStanding::New,
            false => FolderStanding::Another,
        })
    }

    /// Records that the files are in the folder that is there now. A database that takes no writes
    /// records nothing, and the next start does.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn record(&self, database: &Database, tenant: &Tenant) -> Result<(), StandingError> {
        let Some(here) = identity(&self.notes)? else { return Ok(()) };
        match database.set_folder(tenant, &here) {
            Err(error) if !error.is_read_only() => Err(DatabaseError::from(error).into()),
            _ => Ok(()),
        }
    }

    /// Makes the folder that is there now the one of the person's files, with all that the history
    /// beside it has.
    ///
    /// # Errors
    /// [`HistoryError::InUse`] while a server holds the history; [`StandingError`].
    pub fn adopt(&self, database: &Database, tenant: &Tenant) -> Result<(), StandingError> {
        self.compared(database, tenant)?;
        let state = StateDir::open(&self.state).map_err(io::Error::other)?;
        // The history comes first: after an interruption the command can be run again.
        History::adopt_all(&state, &self.notes)?;
        let here =
            identity(&self.notes)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(database.set_folder(tenant, &here).map_err(DatabaseError::from)?)
    }

    /// Returns the folder that was served, the one that is there, and those of the history.
    ///
    /// # Errors
    /// [`StandingError::OfAnother`] if one of them is recorded for another person;
    /// [`StandingError`].
    pub fn compared(
        &self,
        database: &Database,
        tenant: &Tenant,
    ) -> Result<ComparedFolders, StandingError> {
        let compared = ComparedFolders {
            served: database.folder_of(tenant).map_err(DatabaseError::from)?,
            here: identity(&self.notes)?,
            of_history: History::folders(&self.state)?,
        };
        let is_among = |folder: &String| {
            compared.here.as_ref() == Some(folder) || compared.of_history.contains(folder)
        };
        let known = database.folders().map_err(DatabaseError::from)?;
        let other = known.into_iter().find(|(id, folder)| id != tenant.id() && is_among(folder));
        match other {
            Some((id, _)) => Err(StandingError::OfAnother(id)),
            None => Ok(compared),
        }
    }
}

/// What folders of one person are recognised by.
#[derive(Clone, Debug)]
pub struct ComparedFolders {
    /// The one that was served before.
    pub served: Option<String>,
    /// The one that is there now.
    pub here: Option<String>,
    /// Those whose changes the history has.
    pub of_history: Vec<String>,
}

/// Returns the identifiers of the people whose files are not in the folder that was served before,
/// each with what is there. `notes` returns where the files of an identifier are.
///
/// # Errors
/// [`StandingError`].
pub fn unsettled(
    database: &Database,
    notes: &dyn Fn(&str) -> PathBuf,
) -> Result<Vec<(String, FolderStanding)>, StandingError> {
    let mut found = Vec::new();
    for (id, folder) in database.folders().map_err(DatabaseError::from)? {
        let standing = compare(&notes(&id), Some(&folder))?;
        if standing != FolderStanding::Same {
            found.push((id, standing));
        }
    }
    Ok(found)
}

fn compare(notes: &Path, known: Option<&str>) -> io::Result<FolderStanding> {
    let here = identity(notes)?;
    Ok(match (known, here) {
        (None, _) => FolderStanding::New,
        (Some(_), None) => FolderStanding::Missing,
        (Some(known), Some(here)) if known == here => FolderStanding::Same,
        (Some(_), Some(_)) => FolderStanding::Another,
    })
}

/// Returns what a folder is recognised by; `None` if it is not there, also if something that is no
/// folder is at its place or above it.
fn identity(folder: &Path) -> io::Result<Option<String>> {
    let path = match folder.canonicalize() {
        Err(error) if is_absence(&error) => return Ok(None),
        path => path?,
    };
    let metadata = path.metadata()?;
    Ok(metadata.is_dir().then(|| folder_identity(&metadata, &path)))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether something that is no folder is at the place of a folder or above it.
fn is_obstructed(folder: &Path) -> bool {
    match folder.metadata() {
        Ok(found) => !found.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotADirectory,
    }
}

/// Returns the file number of a folder by what it is recognised by, and when the folder was made,
/// if the file system says.
pub fn number_and_birth(identity: &str) -> (&str, Option<Instant>) {
    let (number, born) = identity.split_once('-').unwrap_or((identity, ""));
    let microseconds = born.parse::<i128>().ok().map(|nanoseconds| nanoseconds / 1000);
    (number, microseconds.and_then(|born| i64::try_from(born).ok()).map(Instant))
}

/// What a folder holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderRoom {
    /// The number of regular files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// Counts the files in a folder and below it. A missing folder has none.
///
/// # Errors
/// The error of the file system.
pub fn room(folder: &Path) -> io::Result<FolderRoom> {
    let mut room = FolderRoom::default();
    visit(folder, &mut |_, metadata| {
        if metadata.is_file() {
            room.files += 1;
            room.bytes += metadata.len();
        }
        Ok(())
    })?;
    Ok(room)
}

/// Copies the files of a folder into another one, which is made, and returns what was copied.
///
/// # Errors
/// The error of the file system. A part of the files may have been copied.
pub fn copy(folder: &Path, to: &Path) -> io::Result<FolderRoom> {
    let mut room = FolderRoom::default();
    fs::create_dir_all(to)?;
    visit(folder, &mut |entry, metadata| {
        let path = entry.path();
        let Ok(relative) = path.strip_prefix(folder) else { return Ok(()) };
        let target = to.join(relative);
        if metadata.is_dir() {
            fs::create_dir_all(target)
        } else if metadata.is_file() {
            room.bytes += fs::copy(&path, target)?;
            room.files += 1;
            Ok(())
        } else {
            Ok(())
        }
    })?;
    Ok(room)
}

/// Removes a folder with all that it holds. A missing folder is no error.
///
/// # Errors
/// The error of the file system. A part of the files may be gone.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What is done with each entry below a folder.
type OnEntry<'v> = &'v mut dyn FnMut(&DirEntry, &fs::Metadata) -> io::Result<()>;

/// Calls `on_entry` for all that is below a folder, a folder before what it holds.
fn visit(folder: &Path, on_entry: OnEntry<'_>) -> io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // The metadata of the entry itself, not of what a link leads to.
            let metadata = entry.metadata()?;
            on_entry(&entry, &metadata)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_counted_copied_and_removed_without_what_links_lead_to() {
        let place = tempfile::tempdir().unwrap();
        let (folder, copied) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir_all(folder.join("notes/deep")).unwrap();
        fs::write(folder.join("notes/deep/one.md"), "12345").unwrap();
        fs::write(folder.join("two.md"), "1").unwrap();
        fs::write(place.path().join("other.md"), "not the person's").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(place.path(), folder.join("link")).unwrap();
        let all = FolderRoom { files: 2, bytes: 6 };
        assert_eq!(room(&folder).unwrap(), all);
        assert_eq!(copy(&folder, &copied).unwrap(), all);
        assert_eq!(room(&copied).unwrap(), all);
        assert_eq!(fs::read(copied.join("notes/deep/one.md")).unwrap(), b"12345");
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists() && place.path().join("other.md").exists());
        assert_eq!(room(&folder).unwrap(), FolderRoom::default());
    }
}
