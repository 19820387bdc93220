//! Where a command finds the files of the person whom it is about, and their old versions.

use std::io;
use std::path::{Path, PathBuf};

use stile_store::person_folder::{FolderStanding, PersonFiles};
use stile_store::postgresql::{Database, Tenant};
use stile_store::state::other_owner;

use super::home::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::required;
use crate::config::declarations::ROOT;
use crate::config::{Config, Resolved, Source};

/// The name of the space in the folder of a person.
pub(crate) const NOTES: &str = "notes";
/// The name of the folder beside it, which has the history.
pub(crate) const STATE: &str = "state";

/// Returns where the files in the folder of a person are.
pub(crate) fn files_in(folder: &Path) -> PersonFiles {
    PersonFiles { notes: folder.join(NOTES), state: folder.join(STATE) }
}

/// The folder of a person with a space of their own.
pub(crate) struct PersonFolder {
    pub(crate) files: PersonFiles,
    pub(crate) tenant: Tenant,
    pub(crate) database: Database,
}

impl PersonFolder {
    /// Returns the folder of the person whom the settings name; `None` if they name none.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is no such person, if the settings do not say where people have
    /// their folders, if the person has none yet, if another user owns it, or if it is another
    /// folder than the one that was served.
    pub(crate) fn of(home: &Home, config: &Config) -> Result<Option<Self>, Failure> {
        let Some(found) = Self::of_any(home, config)? else { return Ok(None) };
        refuse_unserved(&found.files, &found.database, &found.tenant)?;
        Ok(Some(found))
    }

    /// Returns the same, also if it is another folder than the one that was served.
    ///
    /// # Errors
    /// The other errors of [`PersonFolder::of`].
    pub(crate) fn of_any(home: &Home, config: &Config) -> Result<Option<Self>, Failure> {
        if config.person.is_none() {
            return Ok(None);
        }
        let (Some(tenant), Some(database)) = (home.tenant()?, home.database()) else {
            return Ok(None);
        };
        let spaces = required(
            &config.spaces,
            "--spaces",
            "the folder in which servers keep the spaces of people",
        )?;
        let folder = spaces.join(tenant.id());
        let files = files_in(&folder);
        [&folder, &files.notes, &files.state].into_iter().try_for_each(|it| refuse_foreign(it))?;
        if !files.notes.is_dir() {
            refuse_unserved(&files, database, &tenant)?;
            return Err(Failure::Usage(
                "this person has no files in the folder that --spaces names".to_owned(),
            ));
        }
        Ok(Some(Self { files, tenant, database: database.clone() }))
    }

    /// The folder with the person's files.
    pub(crate) fn root(&self) -> PathBuf {
        self.files.notes.clone()
    }

    /// The folder with the history of the files.
    pub(crate) fn state(&self) -> PathBuf {
        self.files.state.clone()
    }
}

/// Refuses the folder of a person if it is not the one that was served.
///
/// # Errors
/// [`Failure::Usage`] if it is another folder, or none.
pub(crate) fn refuse_unserved(
    files: &PersonFiles,
    database: &Database,
    tenant: &Tenant,
) -> Result<(), Failure> {
    let adopt = format!("`stile space adopt --person {} --spaces DIR`", tenant.id());
    Err(Failure::Usage(match files.standing(database, tenant)? {
        FolderStanding::New | FolderStanding::Same => return Ok(()),
        FolderStanding::Another => format!(
            "the folder of this person is another one than the one that was served, as after a \
             restore from a backup; nothing was changed. If it is the same, say so first: {adopt}"
        ),
        FolderStanding::Missing => format!(
            "the folder of this person is missing in the folder that --spaces names; nothing was \
             changed. Put it back there. If it is gone for good, make an empty one and say so: \
             {adopt}"
        ),
    }))
}

/// Refuses the folder of a person if it is a link, or holds the files or the history by one. What
/// copies or removes the folder follows none, and would leave the files out.
///
/// # Errors
/// [`Failure::Usage`] if one of the three is a link.
pub(crate) fn refuse_links(folder: &Path) -> Result<(), Failure> {
    let PersonFiles { notes, state } = files_in(folder);
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    match [folder, &notes, &state].into_iter().any(is_link) {
        false => Ok(()),
        true => Err(Failure::Usage(
            "the folder of this person is kept behind a symbolic link, which is not followed; put \
             the folder itself there; nothing was changed"
                .to_owned(),
        )),
    }
}

/// Refuses a folder of another user: what this one writes there, the servers could not change any
/// more.
fn refuse_foreign(folder: &Path) -> Result<(), Failure> {
    let user = match other_owner(folder) {
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(Some(owner)) => format!("belongs to the user `{owner}`, whom the servers run as"),
        Err(error) => format!("cannot be read by you ({error}), but by the user of the servers"),
    };
    Err(Failure::Usage(format!(
        "the folder of this person {user}: run this command as that user (`sudo -u`), with a \
         --state of that user; nothing was changed"
    )))
}

/// Returns the settings with the root of the person whom they name.
///
/// # Errors
/// [`Failure::Usage`] if each person has a space, and no person is named.
pub(crate) fn with_root_of_person(mut resolved: Resolved) -> Result<Resolved, Failure> {
    if resolved.config.database.is_none() && resolved.config.person.is_none() {
        return Ok(resolved);
    }
    if *resolved.source(&ROOT) != Source::Default && resolved.config.person.is_some() {
        let why = "a person's files have one place, so name --person or --root, and not both";
        return Err(Failure::Usage(why.to_owned()));
    }
    let home = Home::open(&resolved.config)?;
    match PersonFolder::of(&home, &resolved.config)? {
        Some(folder) => resolved.config.root = folder.root(),
        None => home.check_named()?,
    }
    Ok(resolved)
}
