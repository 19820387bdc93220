//! All notes of a space for its owner: listed folder by folder, read, and watched.
//!
//! Records are made of these notes. What the space hides is hidden here as well: no link is
//! followed, no mount is entered that the owner did not name, and nothing is shown that the owner's
//! rules leave out or that looks like a secret. Names that begin with a dot are left out too, as in
//! an import.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stile_domain::error::Refusal;
use stile_domain::facts::FileStamp;
use stile_domain::guard::Guarded;
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::OwnerPermit;

use super::change_feed::{ChangedFolders, MAX_TREE_WATCHES, Target, Watcher};
use super::os::Problem;
use super::root::Check;
use super::{Inner, Space, os};
use crate::files::{FileOpener, SourceFile, is_note};

/// The notes of a space. All clones are the same.
#[derive(Clone)]
pub struct NoteFolder {
    inner: Arc<Inner>,
}

/// What one folder holds, without what is in its folders.
#[derive(Clone, Debug, Default)]
pub struct FolderNotes {
    /// The notes, in no order, each with the state of its file.
    pub notes: Vec<(SpacePath, FileStamp)>,
    /// The folders, in no order, each with its state.
    pub folders: Vec<(SpacePath, FileStamp)>,
    /// How many notes and folders have a name that no path of a space can have.
    pub unnameable: u64,
}

/// The watches on folders of a space, for its owner. Dropping it ends them.
pub struct NoteWatch {
    inner: Arc<Inner>,
    changes: Arc<ChangedFolders>,
    ids: Mutex<BTreeMap<SpacePath, u64>>,
}

impl Space {
    /// Returns the notes of the space, for its owner. Opens the space if no call did.
    ///
    /// # Errors
    /// A [`Refusal`] if the space cannot be opened.
    pub fn note_folder(&self, _owner: &OwnerPermit) -> Result<NoteFolder, Refusal> {
        Ok(NoteFolder { inner: Arc::clone(Self::opened(&self.inner)?) })
    }
}

impl NoteFolder {
    /// Checks that the path of the space still leads to the folder that was opened.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if another folder or none is there, as when a disk was
    /// unmounted.
    pub fn check(&self) -> io::Result<()> {
        self.inner.root.check(Check::Now).map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, "the folder was moved away or unmounted")
        })
    }

    /// Lists one folder; `None` if no folder is there.
    ///
    /// # Errors
    /// The error of the system.
    pub fn list(&self, folder: &SpacePath) -> io::Result<Option<FolderNotes>> {
        let opened = match self.inner.root.open_folder(folder) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut found = FolderNotes::default();
        let mut entries = Vec::new();
        os::entries(&opened, |name, kind| {
            let is_wanted = kind == EntryKind::Directory
                || kind == EntryKind::File && name.is_none_or(|name| is_note(Path::new(name)));
            match name {
                Some(name) if name.starts_with('.') => {}
                Some(name) if is_wanted => match folder.child(name) {
                    Some(path) if self.leaves_out(&path, kind) => {}
                    Some(path) => entries.push((path, name.to_owned())),
                    None => found.unnameable += 1,
                },
                // The system does not say what it is that has such a name.
                None => found.unnameable += 1,
                Some(_) => {}
            }
        })?;
        for (path, name) in entries {
            // The kind may have changed since the folder was read, or the file may have gone.
            let Ok(status) = os::status_at(&opened, &name) else { continue };
            match status.kind {
                EntryKind::Directory => found.folders.push((path, status.stamp)),
                EntryKind::File if is_note(Path::new(&name)) => {
                    found.notes.push((path, status.stamp));
                }
                _ => {}
            }
        }
        Ok(Some(found))
    }

    /// Opens a note.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::InvalidInput`] for another kind of file.
    pub fn open(&self, note: &SpacePath) -> io::Result<SourceFile> {
        SourceFile::of(self.inner.root.open_file(note)?)
    }

    /// Returns what opens a note as often as it is asked to.
    pub fn opener(&self, note: &SpacePath) -> FileOpener {
        let (folder, note) = (self.clone(), note.clone());
        Arc::new(move || folder.open(&note))
    }

    /// Returns whether a path certainly leads to no note: nothing is there, or something that is
    /// not a note, or what the owner's rules or the guard of secrets leave out. A failure to find
    /// out is no certainty.
    ///
    /// A listing alone does not tell: some systems skip names while a folder changes.
    pub fn is_gone(&self, note: &SpacePath) -> bool {
        let relative = note.as_str().trim_start_matches('/');
        let is_hidden = relative.split('/').any(|name| name.starts_with('.'))
            || self.inner.options.search_ignore.leaves_out_below(note, false)
            || is_secret(note);
        if is_hidden || !is_note(Path::new(relative)) {
            return true;
        }
        let Some((parent, name)) = note.split() else { return true };
        let found =
            self.inner.root.open_folder(&parent).and_then(|folder| os::status_at(&folder, name));
        match found {
            Ok(status) => status.kind != EntryKind::File,
            Err(error) => is_absent(&error),
        }
    }

    /// Begins to watch. No folder is watched until it is added.
    pub fn watch(&self) -> NoteWatch {
        let (inner, changes) = (Arc::clone(&self.inner), Arc::default());
        NoteWatch { inner, changes, ids: Mutex::default() }
    }

    fn leaves_out(&self, path: &SpacePath, kind: EntryKind) -> bool {
        self.inner.options.search_ignore.leaves_out(path, kind == EntryKind::Directory)
            || is_secret(path)
    }
}

/// Returns whether a file, or a folder around it, looks like a secret. Whoever may see records sees
/// them without a scope on files, and so without the owner's `unguard:`.
fn is_secret(path: &SpacePath) -> bool {
    Guarded::of(path) == Some(Guarded::Secret)
}

/// Returns whether an error says that nothing is there, or a link in place of a folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || os::problem(error) == Problem::Link
}

impl NoteWatch {
    /// Watches a folder. If it is watched already, and another folder is there now, watches that
    /// one. Changes after this call are not missed.
    pub fn add(&self, folder: &SpacePath) {
        let feed = &self.inner.changes;
        let mut ids = self.ids();
        if let Some(id) = ids.get(folder) {
            feed.compare(&self.inner, *id);
            return;
        }
        if ids.len() >= MAX_TREE_WATCHES {
            return;
        }
        let target = Target { permit: None, folder: folder.clone(), file: None };
        let watcher = Watcher::Tree(Arc::clone(&self.changes));
        // Without a thread there are no events. A look at all folders finds the changes.
        if let Ok(id) = self.inner.add_watch(&mut feed.lock(), target, None, watcher) {
            ids.insert(folder.clone(), id);
        }
    }

    /// Watches a folder, and all below it, no longer.
    pub fn remove(&self, folder: &SpacePath) {
        let mut ids = self.ids();
        let below: Vec<SpacePath> = ids
            .range(folder..)
            .map(|(path, _)| path)
            .take_while(|path| path.as_str().starts_with(folder.as_str()))
            .filter(|path| folder.covers(path))
            .cloned()
            .collect();
        let mut table = self.inner.changes.lock();
        for path in below {
            if let Some(id) = ids.remove(&path) {
                table.remove(id);
            }
        }
    }

    /// Waits until something changed since the last call. May return although nothing changed.
    pub async fn changed(&self) {
        self.changes.changed.notified().await;
    }

    /// Takes the folders in which something changed since the last call.
    pub fn take(&self) -> BTreeSet<SpacePath> {
        self.changes.take()
    }

    fn ids(&self) -> MutexGuard<'_, BTreeMap<SpacePath, u64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NoteWatch {
    fn drop(&mut self) {
        let ids = std::mem::take(&mut *self.ids());
        let mut table = self.inner.changes.lock();
        ids.into_values().for_each(|id| table.remove(id));
    }
}

#[cfg(test)]
mod tests;
