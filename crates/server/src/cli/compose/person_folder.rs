//! Where a command finds the files of the person whom it is about, and their old versions.

use std::path::PathBuf;

use super::home::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::required;
use crate::config::declarations::ROOT;
use crate::config::{Config, Resolved, Source};

/// The name of the space in the folder of a person.
pub(crate) const NOTES: &str = "notes";
/// The name of the folder beside it, which has the history.
pub(crate) const STATE: &str = "state";

/// The folder of a person with a space of their own.
pub(crate) struct PersonFolder {
    folder: PathBuf,
}

impl PersonFolder {
    /// Returns the folder of the person whom the settings name; `None` if they name none.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is no such person, if the settings do not say where people have
    /// their folders, or if the person has none yet.
    pub(crate) fn of(home: &Home, config: &Config) -> Result<Option<Self>, Failure> {
        if config.person.is_none() {
            return Ok(None);
        }
        let Some(tenant) = home.tenant()? else { return Ok(None) };
        let spaces = required(
            &config.spaces,
            "--spaces",
            "the folder in which servers keep the spaces of people",
        )?;
        let folder = spaces.join(tenant.id());
        match folder.join(NOTES).is_dir() {
            true => Ok(Some(Self { folder })),
            false => Err(Failure::Usage(
                "this person has no files in the folder that --spaces names".to_owned(),
            )),
        }
    }

    /// The folder with the person's files.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join(NOTES)
    }

    /// The folder with the history of the files.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join(STATE)
    }
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
