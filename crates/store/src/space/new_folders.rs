//! Makes folders for files and for themselves, and removes those that were made in vain.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::history::undo_plan::folders_above;
use stile_domain::path::SpacePath;

use crate::history::FolderBefore;

use super::write::Change;
use super::{os, refusal};

impl Change<'_> {
    /// Creates the missing parents of `path`, durably, and adds them to `made`, the outermost
    /// first.
    pub(super) fn make_parents(
        &self,
        path: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Refusal> {
        match path.split() {
            Some((folder, _)) => self.make_folders(&folder, path, made),
            None => Ok(()),
        }
    }

    /// Creates a folder and its missing parents, durably, and adds them to `made`, the outermost
    /// first. A refusal names `path`.
    pub(super) fn make_folders(
        &self,
        folder: &SpacePath,
        path: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let mut missing = Vec::new();
        for above in std::iter::once(folder.clone()).chain(folders_above(folder)) {
            match self.root.open_folder(&above) {
                Ok(opened) => {
                    let is_protected = os::status(&opened).map_err(io)?.is_protected();
                    if is_protected && !missing.is_empty() {
                        return Err(Refusal::ReadOnly { path: path.clone(), is_folder: true });
                    }
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(above),
                Err(error) => return Err(io(error)),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.reverse();
        let mut recorded = self.record_new_folders(&missing)?;
        let before = made.len();
        for folder in &missing {
            self.make_folder_at(folder, path, made)?;
        }
        recorded.was_made();
        // Somebody else made these just now.
        missing.retain(|folder| !made.get(before..).unwrap_or_default().contains(folder));
        self.inner.forget_made_folders(self.call, &missing);
        Ok(())
    }

    /// Creates one folder, durably, unless it is there, and adds it to `made`. A refusal names
    /// `path`.
    pub(super) fn make_folder_at(
        &self,
        folder: &SpacePath,
        path: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let Some((above, name)) = folder.split() else { return Ok(()) };
        let parent = self.root.open_folder(&above).map_err(io)?;
        if os::status(&parent).map_err(io)?.is_protected() {
            return Err(Refusal::ReadOnly { path: path.clone(), is_folder: true });
        }
        let mode = self.mode_of_new_folder(folder);
        if os::make_folder(&parent, name, mode).map_err(io)? {
            made.push(folder.clone());
            self.widen_folder(folder, mode).map_err(io)?;
        }
        os::sync(&parent).map_err(io)
    }

    /// Returns the mode of a folder that is made: the one that an undo knows, or that the folder
    /// had which a call removed or moved away last; for an undo that knows neither, one for the
    /// owner alone.
    pub(super) fn mode_of_new_folder(&self, path: &SpacePath) -> Option<u32> {
        let of_history = || self.history.as_ref().and_then(|it| it.mode_of_folder(path));
        let known = self.call.folder_mode(path).or_else(of_history);
        // The server itself must be able to put the files into it.
        let known = known.map(|mode| mode | os::OWNER_ALONE);
        known.or_else(|| self.call.is_of_owner().then_some(os::OWNER_ALONE))
    }

    /// Gives a folder another mode for an undo, if it still has the mode `from`, or only those of
    /// its rights that it keeps. Notes what it had.
    pub(super) fn set_folder_mode(
        &self,
        path: &SpacePath,
        from: u32,
        to: u32,
    ) -> Result<(), Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let folder = self.root.open_folder(path).map_err(io)?;
        let now = os::status(&folder).map_err(io)?.mode & 0o777;
        let is_narrowed = now == from & to || now == from & (to | os::OWNER_ALONE);
        if now != from && now != to && !is_narrowed {
            return Err(Refusal::StaleFolder { path: path.clone() });
        }
        self.may_begin()?;
        // Also of one that was narrowed before the call had a number, so that its undo finds it.
        if let Some(history) = &self.history
            && from != to
        {
            let before = FolderBefore { path: path.clone(), mode: from, to: None };
            history.note_folders(self.call, &[before]);
        }
        if now == to {
            return Ok(());
        }
        os::set_mode(&folder, to).and_then(|()| os::sync(&folder)).map_err(io)
    }

    /// Gives a folder that was made for its owner alone its mode.
    fn widen_folder(&self, path: &SpacePath, mode: Option<u32>) -> io::Result<()> {
        match mode {
            Some(mode) if mode != os::OWNER_ALONE => {
                os::set_mode(self.root.open_folder(path)?, mode)
            }
            _ => Ok(()),
        }
    }

    /// Removes folders that were created for a file that could not be. A folder in use stays.
    pub(super) fn remove_folders(&self, made: &[SpacePath]) {
        for (above, name) in made.iter().rev().filter_map(SpacePath::split) {
            if let Ok(parent) = self.root.open_folder(&above) {
                let _ = os::remove_folder(&parent, name);
            }
        }
        self.inner.forget_made_folders(self.call, made);
    }
}
