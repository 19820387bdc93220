//! Moves and removes folders with all that they hold.
//!
//! A folder moves by one rename that never replaces anything, so whoever reads sees all of it at
//! one place. Before the rename every file and every folder in it is recorded in the history as
//! moved, all within the call, so one undo takes all of them back. After the rename the changes
//! that began in the folder end, and the folder is hashed: if it is not what the caller knows, it
//! goes back.
//!
//! A folder with files is removed only if the history has every file of it. It gets a name of ours
//! first, and is hashed; then its files leave it one by one, and are kept for a while as every
//! removed file is. After a kill the next start gives what is left its name back.

use std::fs::File;
use std::io;

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{EditTree, Permit};
use stile_domain::tree_hash::TreeItem;

use crate::cancellation::Cancellation;
use crate::history::{FileMetadata, FolderBefore, NewChange, VersionSource};

use super::folder_rest::ChangedFolder;
use super::folder_tree::{FolderTree, HeldItem, split_below};
use super::lock::{Stop, Wait};
use super::moves::{Destination, refused};
use super::names::{ChangeKind, is_ours};
use super::recorded::Recorded;
use super::write::{Change, LockedFile};
use super::{Inner, os, refusal};

/// The permits to change all of the folder that moves, at its old and at its new place.
pub(super) type FolderPermits = (Permit<EditTree>, Permit<EditTree>);

/// The most files, and about the most bytes, whose versions are stored in one transaction.
const MOST_AT_ONCE: (usize, u64) = (64, 32 * 1024 * 1024);

impl Inner {
    /// Looks at a folder that is to be moved, and refuses the move for anything that stands against
    /// it except for what is at its new place.
    pub(super) fn folder_to_move(
        &self,
        handle: &os::Handle,
        permits: &FolderPermits,
        base: ContentHash,
        cancellation: &Cancellation,
    ) -> Result<FolderTree, Refusal> {
        let (from, to) = permits;
        let tree = self.tree(handle, from, cancellation)?;
        if tree.hash() != base {
            return Err(Refusal::StaleFolder { path: from.path().clone() });
        }
        for entry in &tree.entries {
            let now = entry.path.relocated(from.path(), to.path()).ok_or_else(|| {
                Refusal::invalid_argument("`to` makes the path of something in the folder too long")
            })?;
            let places = [(from, &entry.path), (to, &now)];
            for (permit, path) in places {
                if let Some(guarded) = permit.guarded(path) {
                    return Err(Refusal::Guarded { path: path.clone(), guarded });
                }
            }
            if let Some(refused) = &entry.refused {
                return Err(refused.clone());
            }
        }
        Ok(tree)
    }

    /// Opens a folder that is to be moved to another path.
    ///
    /// # Errors
    /// Also if the folder would move into itself, or is the root.
    pub(super) fn open_to_move(
        &self,
        from: &SpacePath,
        to: &SpacePath,
    ) -> Result<os::Handle, Refusal> {
        if from.is_root() {
            return Err(Refusal::invalid_argument("`path` must be a folder in the space"));
        }
        if from.covers(to) {
            return Err(Refusal::invalid_argument(
                "`to` must be outside of `path`: a folder cannot move into itself",
            ));
        }
        self.root.open_folder(from).map_err(|error| refusal(&error, from))
    }
}

impl Change<'_> {
    /// Moves a folder for `folder.move`. `made` are the folders that earlier attempts created.
    pub(super) fn move_folder(
        &self,
        permits: &FolderPermits,
        base: ContentHash,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Stop> {
        let (from, to) = (permits.0.path(), permits.1.path());
        // Before anything is locked or made: hashing a folder may take long, and is remembered.
        let handle = self.open_to_move(from, to)?;
        self.folder_to_move(&handle, permits, base, self.cancellation)?;
        let moved = self
            .make_parents(to, made)
            .map_err(Stop::from)
            .and_then(|()| self.move_folder_between(permits, base));
        if matches!(moved, Err(Stop::Refused(_))) {
            self.remove_folders(made);
        }
        moved
    }

    fn move_folder_between(&self, permits: &FolderPermits, base: ContentHash) -> Result<(), Stop> {
        let (from, to) = (permits.0.path(), permits.1.path());
        let (source, destination) = self.lock_both(from, to)?;
        let handle = os::open_folder(source.handle(), source.name).map_err(source.io())?;
        refuse_protected(&handle, from)?;
        let folder = destination.locked.as_ref().map_or(source.handle(), LockedFile::handle);
        if os::status_at(folder, destination.name).is_ok() {
            return Err(Refusal::AlreadyExists { path: to.clone() }.into());
        }
        let tree = self.folder_to_move(&handle, permits, base, self.cancellation)?;
        if tree.has_ours {
            self.keeper.hurry();
            return Err(Stop::MustWait(Wait::Room));
        }
        let mut recorded = self.record_moves((&handle, &tree), from, to)?;
        self.note_folders(&handle, (from, Some(to)), tree.folders());
        self.may_begin()?;
        os::move_folder_new((source.handle(), source.name), (folder, destination.name))
            .map_err(|error| refused(&error, to))?;
        let moved = match self.is_still(&handle, (&tree, &permits.0), self.cancellation) {
            true => self.sync_move(&source, folder, &destination),
            false => self.take_folder_back(&source, folder, &destination),
        };
        if matches!(moved, Ok(()) | Err(Refusal::UnknownOutcome { .. })) {
            recorded.was_made();
        }
        Ok(moved?)
    }

    /// Notes the modes of a folder that is moved or removed, and of those in it.
    fn note_folders<'e>(
        &self,
        folder: &os::Handle,
        (path, to): (&SpacePath, Option<&SpacePath>),
        inner: impl IntoIterator<Item = &'e HeldItem>,
    ) {
        let Some(history) = &self.history else { return };
        let mode = |folder: &os::Handle| os::status(folder).map(|status| status.mode & 0o777);
        let mut folders = Vec::new();
        if let Ok(mode) = mode(folder) {
            folders.push(FolderBefore { path: path.clone(), mode, to: to.cloned() });
        }
        folders.extend(inner.into_iter().filter_map(|entry| {
            let mode = os::open_folder(folder, &entry.below).and_then(|it| mode(&it)).ok()?;
            Some(FolderBefore { path: entry.path.clone(), mode, to: None })
        }));
        history.note_folders(self.call, &folders);
    }

    /// Makes both folders of a move durable.
    fn sync_move(
        &self,
        source: &LockedFile<'_>,
        folder: &os::Handle,
        destination: &Destination<'_>,
    ) -> Result<(), Refusal> {
        os::sync(folder)
            .and_then(|()| match &destination.locked {
                Some(_) => os::sync(source.handle()),
                None => Ok(()),
            })
            .map_err(|_| Refusal::UnknownOutcome { path: destination.path.clone() })
    }

    /// Takes back the move of a folder in which somebody has changed something.
    fn take_folder_back(
        &self,
        source: &LockedFile<'_>,
        folder: &os::Handle,
        destination: &Destination<'_>,
    ) -> Result<(), Refusal> {
        let (from, new) = ((source.handle(), source.name), (folder, destination.name));
        let is_back = os::move_folder_new(new, from).is_ok();
        let _ = self.sync_move(source, folder, destination);
        Err(match is_back {
            true => Refusal::StaleFolder { path: source.path.clone() },
            // Another program has taken the name. The folder is whole at its new place.
            false => Refusal::UnknownOutcome { path: destination.path.clone() },
        })
    }

    /// Records every file of a folder as moved, and then the folder and those in it.
    fn record_moves(
        &self,
        (folder, tree): (&os::Handle, &FolderTree),
        from: &SpacePath,
        to: &SpacePath,
    ) -> Result<Recorded<'_>, Refusal> {
        let files: Vec<(&SpacePath, SpacePath, ContentHash)> = tree
            .files()
            .filter_map(|(file, _, hash)| Some((&file.path, file.path.relocated(from, to)?, hash)))
            .collect();
        let folders = ChangedFolder::all_of(folder, (from, Some(to)), tree)?;
        let moves = files.iter().map(|(path, to, hash)| self.moved(path, to, *hash));
        let changes = moves.chain(folders.iter().map(|folder| folder.change(self)));
        let changes: Vec<_> = changes.map(|it| (it, VersionSource::WithinAfter)).collect();
        self.inner.record_all(self.call, &changes)
    }

    /// Removes a folder for `folder.remove`: an empty one, or with all that it holds if that has
    /// the hash `base`. Waits until the server's own files in it, which are kept for a while, are
    /// gone.
    pub(super) fn remove_folder(
        &self,
        permit: &Permit<EditTree>,
        base: Option<ContentHash>,
    ) -> Result<(), Stop> {
        let path = permit.path();
        let Some(base) = base else { return self.remove_empty_folder(path) };
        let handle = self.root.open_folder(path).map_err(|error| refusal(&error, path))?;
        // Before anything is locked: hashing a folder may take long, and then is remembered.
        self.folder_to_remove(&handle, permit, base)?;
        drop(handle);
        let target = self.lock(path)?;
        let handle = os::open_folder(target.handle(), target.name).map_err(target.io())?;
        let tree = self.folder_to_remove(&handle, permit, base)?;
        if tree.has_ours {
            self.keeper.hurry();
            return Err(Stop::MustWait(Wait::Room));
        }
        let removed = RemovedFolder { target: &target, handle: &handle, tree: &tree, permit };
        if tree.entries.is_empty() {
            self.may_begin()?;
            return Ok(self.unlink_folder(&target, &handle)?);
        }
        Ok(self.remove_tree(&removed, base)?)
    }

    /// Looks at a folder that is to be removed, and refuses that for anything that stands against
    /// it.
    fn folder_to_remove(
        &self,
        handle: &os::Handle,
        permit: &Permit<EditTree>,
        base: ContentHash,
    ) -> Result<FolderTree, Refusal> {
        refuse_protected(handle, permit.path())?;
        let tree = self.tree(handle, permit, self.cancellation)?;
        if tree.hash() != base {
            return Err(Refusal::StaleFolder { path: permit.path().clone() });
        }
        for entry in &tree.entries {
            if let Some(guarded) = permit.guarded(&entry.path) {
                return Err(Refusal::Guarded { path: entry.path.clone(), guarded });
            }
            if let Some(refused) = &entry.refused {
                return Err(refused.clone());
            }
            let is_kept = match entry.item {
                TreeItem::Folder => true,
                TreeItem::File { hash, .. } => hash.is_some() && self.history.is_some(),
                TreeItem::Link | TreeItem::Other | TreeItem::Unnameable(_) => false,
            };
            if !is_kept {
                return Err(Refusal::FolderNotKept { path: entry.path.clone() });
            }
        }
        Ok(tree)
    }

    fn remove_empty_folder(&self, path: &SpacePath) -> Result<(), Stop> {
        let target = self.lock(path)?;
        let io = |error: io::Error| refusal(&error, path);
        let folder = self.root.open_folder(path).map_err(io)?;
        refuse_protected(&folder, path)?;
        let (mut has_files, mut has_ours) = (false, false);
        os::entries(&folder, |name, _| {
            let is_ours = name.is_some_and(is_ours);
            has_ours |= is_ours;
            has_files |= !is_ours;
        })
        .map_err(io)?;
        if has_files {
            return Err(Refusal::FolderNotEmpty { path: path.clone() }.into());
        }
        if has_ours {
            self.keeper.hurry();
            return Err(Stop::MustWait(Wait::Room));
        }
        self.may_begin()?;
        Ok(self.unlink_folder(&target, &folder)?)
    }

    /// Removes an empty folder, durably.
    fn unlink_folder(&self, target: &LockedFile<'_>, folder: &os::Handle) -> Result<(), Refusal> {
        let path = target.path;
        let nothing = FolderTree { entries: Vec::new(), has_ours: false };
        let folders = ChangedFolder::all_of(folder, (path, None), &nothing)?;
        let mut recorded = self.record_folders(&folders)?;
        self.note_folders(folder, (path, None), []);
        match os::remove_folder(target.handle(), target.name) {
            Ok(()) => recorded.was_made(),
            // Somebody put a file into it just now.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Err(Refusal::FolderNotEmpty { path: path.clone() });
            }
            Err(error) => return Err(refusal(&error, path)),
        }
        os::sync(target.handle()).map_err(|_| Refusal::UnknownOutcome { path: path.clone() })
    }

    /// Removes a folder with files, after the history has all of them.
    fn remove_tree(&self, removed: &RemovedFolder<'_>, base: ContentHash) -> Result<(), Refusal> {
        let RemovedFolder { target, handle, tree, permit } = removed;
        let files = self.named_files(removed);
        let mut recorded = self.record_removals(removed, &files)?;
        let folders = ChangedFolder::all_of(handle, (target.path, None), tree)?;
        recorded.push(self.record_folders(&folders)?);
        self.note_folders(handle, (target.path, None), tree.folders());
        self.may_begin()?;
        let aside = self.temporary_name(target, ChangeKind::Remove, Some(&base), None);
        let (visible, hidden) = ((target.handle(), target.name), (target.handle(), &*aside));
        os::move_folder_new(visible, hidden).map_err(target.io())?;
        let put_back = || {
            if os::move_folder_new(hidden, visible).is_err() {
                self.keeper.save_copy(target.handle(), &aside, target.path);
            }
            let _ = os::sync(target.handle());
        };
        if !self.is_still(handle, (*tree, *permit), self.cancellation) {
            put_back();
            return Err(Refusal::StaleFolder { path: target.path.clone() });
        }
        recorded.iter_mut().for_each(Recorded::was_made);
        let unknown = || Refusal::UnknownOutcome { path: target.path.clone() };
        let emptied = os::sync(target.handle())
            .and_then(|()| self.empty_folder(removed, files))
            .and_then(|()| os::remove_folder(target.handle(), &aside));
        if emptied.is_err() {
            // Another program has put something into the folder. What is left gets its name back.
            put_back();
            return Err(unknown());
        }
        os::sync(target.handle()).map_err(|_| unknown())
    }

    /// Returns the files of a folder that is removed, each with the name under which it is kept.
    fn named_files<'r>(&self, removed: &RemovedFolder<'r>) -> Vec<NamedFile<'r>> {
        let files = removed.tree.files().map(|(entry, size, hash)| {
            let (_, name) = split_below(&entry.below);
            let change = ChangeKind::Remove;
            let aside = self.temporary_name_of(removed.target, name, change, Some(&hash), None);
            NamedFile { entry, size, hash, aside }
        });
        files.collect()
    }

    /// Stores every file of a folder in the history, and records its removal.
    fn record_removals(
        &self,
        removed: &RemovedFolder<'_>,
        files: &[NamedFile<'_>],
    ) -> Result<Vec<Recorded<'_>>, Refusal> {
        let mut recorded = Vec::new();
        let mut rest = files;
        while !rest.is_empty() {
            let mut bytes = 0_u64;
            let fits = |file: &&NamedFile<'_>| {
                bytes = bytes.saturating_add(file.size);
                bytes <= MOST_AT_ONCE.1
            };
            let count = rest.iter().take(MOST_AT_ONCE.0).take_while(fits).count().max(1);
            let (batch, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            let opened = batch.iter().map(|file| removed.open(file));
            let opened = opened.collect::<Result<Vec<_>, Refusal>>()?;
            let changes: Vec<_> = batch
                .iter()
                .zip(&opened)
                .map(|(named, (file, metadata))| {
                    let change = NewChange {
                        kind: PastChangeKind::Removed,
                        path: &named.entry.path,
                        to: None,
                        before: Some(named.hash),
                        size_before: named.size,
                        after: None,
                        held: self.held_name(removed.target, &named.aside),
                        metadata: Some(metadata),
                        call: self.call,
                    };
                    (change, VersionSource::File(file, named.size))
                })
                .collect();
            let not_kept = |path: &SpacePath| Refusal::FolderNotKept { path: path.clone() };
            let kept = self
                .inner
                .record_all(self.call, &changes)
                .map_err(|refused| not_kept(refused.path().unwrap_or(removed.target.path)))?;
            if !kept.is_kept() {
                return Err(not_kept(removed.target.path));
            }
            recorded.push(kept);
        }
        Ok(recorded)
    }

    /// Takes all files out of a folder that was set aside, and removes the folders in it.
    fn empty_folder(
        &self,
        removed: &RemovedFolder<'_>,
        files: Vec<NamedFile<'_>>,
    ) -> io::Result<()> {
        for NamedFile { entry, size, hash, aside } in files {
            let (folder, name) = split_below(&entry.below);
            let folder = os::open_folder(removed.handle, folder)?;
            let version = (entry.path.clone(), hash, size);
            self.keep_from_below(removed.target, (&folder, name), aside, version)?;
        }
        // A folder comes before those that it holds.
        for entry in removed.tree.folders().rev() {
            let (folder, name) = split_below(&entry.below);
            os::remove_folder(&os::open_folder(removed.handle, folder)?, name)?;
        }
        Ok(())
    }
}

/// A folder with files that is being removed.
struct RemovedFolder<'r> {
    target: &'r LockedFile<'r>,
    handle: &'r os::Handle,
    tree: &'r FolderTree,
    permit: &'r Permit<EditTree>,
}

/// A file of a folder that is being removed.
struct NamedFile<'r> {
    entry: &'r HeldItem,
    size: u64,
    hash: ContentHash,
    /// The name under which it is kept for a while.
    aside: String,
}

impl RemovedFolder<'_> {
    /// Opens a file, and reads what it has beside its content.
    fn open(&self, file: &NamedFile<'_>) -> Result<(File, FileMetadata), Refusal> {
        let io = |error: io::Error| refusal(&error, &file.entry.path);
        let (folder, name) = split_below(&file.entry.below);
        let folder = os::open_folder(self.handle, folder).map_err(io)?;
        let opened = os::open_in(&folder, name).map_err(io)?;
        let status = os::status(&opened).map_err(io)?;
        let metadata = os::metadata(&opened, &status);
        Ok((opened, metadata))
    }
}

/// Refuses to move or remove a folder that nobody may write to. Whatever brings it back works in
/// it, and so would leave it open.
fn refuse_protected(handle: &os::Handle, path: &SpacePath) -> Result<(), Refusal> {
    match os::status(handle).map_err(|error| refusal(&error, path))?.is_protected() {
        true => Err(Refusal::ReadOnly { path: path.clone(), is_folder: true }),
        false => Ok(()),
    }
}
