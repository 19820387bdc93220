//! Records changes of folders, and gives folders back with what they held beside files.
//!
//! Links, sockets, and entries whose names no path can hold are in no change of a file. A folder
//! that moves takes them along, so the change of each folder names them, and an undo moves them
//! back, one by one, and never over anything. Their names and kinds count, and where a link leads;
//! what a file without a path holds does not, since no call can change that.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::hash::{ContentHash, hex};
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::history::past_folder::{
    FolderNow, FolderRest, PastFolder, rest_name, rest_name_bytes,
};
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, Permit, Read};

use crate::history::{FileMetadata, NewChange, VersionSource};

use super::disclosure::Disclosure;
use super::folder_tree::FolderTree;
use super::lock::Stop;
use super::names::is_ours;
use super::recorded::Recorded;
use super::write::{Change, LockedFile};
use super::{Inner, Space, os, refusal};

/// How many characters of the hash of its target tell a link from another one.
const TARGET_DIGITS: usize = 16;

/// A folder that a call is about to change.
pub(super) struct ChangedFolder {
    path: SpacePath,
    to: Option<SpacePath>,
    before: FileMetadata,
}

impl ChangedFolder {
    /// Looks at a folder that moves to another path, or is removed.
    fn of(folder: &os::Handle, path: &SpacePath, to: Option<SpacePath>) -> Result<Self, Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let mode = os::status(folder).map_err(io)?.mode;
        let attributes = contents(folder, path).map_err(io)?.rest;
        Ok(Self { path: path.clone(), to, before: FileMetadata { mode, attributes } })
    }

    /// Looks at a folder with all folders in it, the deepest first.
    pub(super) fn all_of(
        folder: &os::Handle,
        (path, to): (&SpacePath, Option<&SpacePath>),
        tree: &FolderTree,
    ) -> Result<Vec<Self>, Refusal> {
        let mut folders = Vec::new();
        for entry in tree.folders().rev() {
            let io = |error: io::Error| refusal(&error, &entry.path);
            let opened = os::open_folder(folder, &entry.below).map_err(io)?;
            let there = to.and_then(|to| entry.path.relocated(path, to));
            folders.push(Self::of(&opened, &entry.path, there)?);
        }
        folders.push(Self::of(folder, path, to.cloned())?);
        Ok(folders)
    }

    /// Returns what the history records of the folder.
    pub(super) fn change<'c>(&'c self, change: &'c Change<'_>) -> NewChange<'c> {
        let kind = match self.to {
            Some(_) => PastChangeKind::FolderMoved,
            None => PastChangeKind::FolderRemoved,
        };
        let before = Some(&self.before);
        NewChange { metadata: before, ..of_folder(change, kind, (&self.path, self.to.as_ref())) }
    }
}

/// Returns what the history records of a change of a folder.
fn of_folder<'c>(
    change: &'c Change<'_>,
    kind: PastChangeKind,
    (path, to): (&'c SpacePath, Option<&'c SpacePath>),
) -> NewChange<'c> {
    NewChange {
        kind,
        path,
        to,
        before: None,
        size_before: 0,
        after: None,
        held: None,
        metadata: None,
        call: change.call,
    }
}

/// Returns what an open folder holds. Leaves out our own files.
pub(super) fn contents(folder: &os::Handle, path: &SpacePath) -> io::Result<FolderNow> {
    let mode = os::status(folder)?.mode;
    let mut found = FolderNow { mode, ..FolderNow::default() };
    os::named_entries(folder, |name, kind, target| {
        let text = std::str::from_utf8(name).ok();
        if text.is_some_and(is_ours) {
            return;
        }
        let is_kind_of_path = matches!(kind, EntryKind::File | EntryKind::Directory);
        match text.filter(|name| is_kind_of_path && path.can_hold(name)) {
            Some(name) => {
                found.names.insert(name.to_owned());
            }
            None => {
                found.rest.insert(rest_name(name), kind_of_rest(kind, target));
            }
        }
    })?;
    Ok(found)
}

/// Returns what tells an entry from another one of the same name.
fn kind_of_rest(kind: EntryKind, target: Option<&[u8]>) -> Vec<u8> {
    match kind {
        EntryKind::File => b"f".to_vec(),
        EntryKind::Directory => b"d".to_vec(),
        EntryKind::Other => b"o".to_vec(),
        EntryKind::Symlink => {
            let digits = hex(ContentHash::digest(target.unwrap_or_default()).as_bytes());
            format!("l{}", digits.get(..TARGET_DIGITS).unwrap_or_default()).into_bytes()
        }
    }
}

impl Space {
    /// Returns what a folder holds; `None` if there is no folder.
    ///
    /// # Errors
    /// A [`Refusal`] if the space cannot be used.
    pub async fn folder_now(&self, permit: Permit<Read>) -> Result<Option<FolderNow>, Refusal> {
        self.answer(Disclosure::of(&permit), move |inner| {
            let path = permit.path();
            let folder = inner.root.open_folder(path);
            Ok(folder.and_then(|folder| contents(&folder, path)).ok())
        })
        .await
    }

    /// Makes a folder if there is none, and moves what it held beside files into it from the folder
    /// `from`. Never over anything.
    ///
    /// # Errors
    /// A [`Refusal`]. Part of it may have moved then, and the history knows.
    pub async fn give_folder(
        &self,
        (folder, from): (Permit<Edit>, Option<Permit<Edit>>),
        given: PastFolder,
    ) -> Result<(), Refusal> {
        let mut made = Vec::new();
        self.change(Disclosure::of(&folder).making(&folder), move |change| {
            let from = from.as_ref().map(Permit::path);
            let done = change.give_folder((folder.path(), from), &given, &mut made);
            if matches!(done, Err(Stop::Refused(_))) {
                change.remove_folders(&made);
            }
            done
        })
        .await
    }
}

impl Inner {
    /// Forgets the records of folders that a call made and removed again.
    pub(super) fn forget_made_folders(&self, call: &crate::history::Call, made: &[SpacePath]) {
        if let Some(history) = self.history.as_ref().filter(|_| !made.is_empty()) {
            history.forget_made_folders(call, made);
        }
    }
}

impl Change<'_> {
    /// Records folders that are about to be made.
    pub(super) fn record_new_folders(
        &self,
        folders: &[SpacePath],
    ) -> Result<Recorded<'_>, Refusal> {
        // So an undo can tell a mode that somebody gave the folder later.
        let mode = |path| {
            let mode = self.mode_of_new_folder(path)?;
            Some(FileMetadata { mode, attributes: FolderRest::new() })
        };
        let modes: Vec<_> = folders.iter().map(mode).collect();
        let changes = folders.iter().zip(&modes).map(|(path, mode)| NewChange {
            metadata: mode.as_ref(),
            ..of_folder(self, PastChangeKind::FolderCreated, (path, None))
        });
        let changes: Vec<_> = changes.map(|it| (it, VersionSource::WithinAfter)).collect();
        self.inner.record_all(self.call, &changes)
    }

    /// Records folders that are about to move or to be removed.
    pub(super) fn record_folders(
        &self,
        folders: &[ChangedFolder],
    ) -> Result<Recorded<'_>, Refusal> {
        let changes = folders.iter().map(|it| (it.change(self), VersionSource::WithinAfter));
        self.inner.record_all(self.call, &changes.collect::<Vec<_>>())
    }

    pub(super) fn give_folder(
        &self,
        (path, from): (&SpacePath, Option<&SpacePath>),
        given: &PastFolder,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Stop> {
        self.call.set_folder_mode(path, given.mode);
        self.make_folders(path, path, made)?;
        match from.filter(|_| !given.rest.is_empty()) {
            Some(from) => self.move_rest((from, path), given),
            None => Ok(()),
        }
    }

    /// Moves what has no path from a folder to another one.
    fn move_rest(
        &self,
        (from, to): (&SpacePath, &SpacePath),
        given: &PastFolder,
    ) -> Result<(), Stop> {
        // Whatever is in both folders: their locks count, and no name.
        let any = |folder: &SpacePath| folder.child("-").ok_or_else(|| Refusal::not_found(folder));
        let (source, target) = (any(from)?, any(to)?);
        let (source, target) = self.lock_both(&source, &target)?;
        let Some(target) = &target.locked else { return Ok(()) };
        let io = |error: io::Error| refusal(&error, to);
        let now = contents(source.handle(), from).map_err(io)?.rest;
        if given.rest.iter().any(|(name, kind)| now.get(name) != Some(kind)) {
            return Err(Refusal::StaleFolder { path: from.clone() }.into());
        }
        let mode = os::status(source.handle()).map_err(io)?.mode;
        let before = FileMetadata { mode, attributes: given.rest.clone() };
        let merged = of_folder(self, PastChangeKind::FolderMerged, (from, Some(to)));
        let merged = NewChange { metadata: Some(&before), ..merged };
        let mut recorded = self.inner.record(&merged, VersionSource::WithinAfter)?;
        self.may_begin()?;
        let mut moved = Vec::new();
        for name in given.rest.keys() {
            let name = rest_name_bytes(name);
            if let Err(error) = os::move_named(source.handle(), target.handle(), &name) {
                self.move_named_back(&moved, (target, &source));
                return Err(super::moves::refused(&error, to).into());
            }
            moved.push(name);
        }
        recorded.was_made();
        let synced = os::sync(target.handle()).and_then(|()| os::sync(source.handle()));
        synced.map_err(|_| Refusal::UnknownOutcome { path: to.clone() })?;
        Ok(())
    }

    fn move_named_back(&self, names: &[Vec<u8>], (from, to): (&LockedFile<'_>, &LockedFile<'_>)) {
        for name in names {
            let _ = os::move_named(from.handle(), to.handle(), name);
        }
        let _ = os::sync(to.handle());
    }
}
