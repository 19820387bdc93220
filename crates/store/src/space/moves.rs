//! Moves and copies files, and makes folders. [`super::folder_moves`] moves folders.
//!
//! A move is one rename that never replaces anything. The moved file is hashed after the rename: if
//! another program saved in between, the file goes back and the move is refused. A file system
//! without such a rename moves the file aside first, and then links it to its new name. Both
//! folders are locked, and both are durable before the call is answered. Nobody waits for the
//! second lock while holding the first, so no two moves wait for each other.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;

use crate::history::{NewChange, VersionSource};

use super::file_hash::hash_file;
use super::lock::{Stop, Wait};
use super::names::ChangeKind;
use super::read::regular;
use super::recorded::Recorded;
use super::whole_file::read_whole;
use super::write::{Change, LARGE, Like, LockedFile};
use super::{CreatedFile, os, refusal};

/// Where a move or a copy puts a file: an open, locked folder, and the name in it.
pub(super) struct Destination<'a> {
    pub(super) path: &'a SpacePath,
    pub(super) name: &'a str,
    /// `None` if the file stays in its folder.
    pub(super) locked: Option<LockedFile<'a>>,
}

impl Change<'_> {
    /// Moves a file for `file.move`. `made` are the folders that earlier attempts created.
    pub(super) fn move_file(
        &self,
        path: &SpacePath,
        base: ContentHash,
        to: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<(), Stop> {
        // Before any folder is made: most wrong moves are of a file that is not there.
        regular(self.root.open_file(path), path)?;
        let moved = self
            .make_parents(to, made)
            .map_err(Stop::from)
            .and_then(|()| self.move_between(path, base, to));
        if matches!(moved, Err(Stop::Refused(_))) {
            self.remove_folders(made);
        }
        moved
    }

    fn move_between(
        &self,
        path: &SpacePath,
        base: ContentHash,
        to: &SpacePath,
    ) -> Result<(), Stop> {
        let (source, destination) = self.lock_both(path, to)?;
        let old = self.open_for_change(&source)?;
        if hash_file(&old.file).map_err(source.io())? != base {
            return Err(Refusal::Stale { path: path.clone(), argument: "hash" }.into());
        }
        let folder = destination.locked.as_ref().map_or(source.handle(), LockedFile::handle);
        if os::status_at(folder, destination.name).is_ok() {
            return Err(Refusal::AlreadyExists { path: to.clone() }.into());
        }
        let mut recorded = self.record_move(path, to, base)?;
        self.may_begin()?;
        let (from, new) = ((source.handle(), source.name), (folder, destination.name));
        let moved = match os::move_new(from, new) {
            Ok(()) => self.finish_move(&source, folder, &destination, base),
            Err(error) if os::is_unsupported(&error) => {
                self.move_by_link(&source, new, to, base, old.status.stamp.size)
            }
            Err(error) => Err(refused(&error, to)),
        };
        if matches!(moved, Ok(()) | Err(Refusal::UnknownOutcome { .. })) {
            recorded.was_made();
        }
        moved?;
        self.remember_own(old.status.identity(), &old.file);
        Ok(())
    }

    /// Checks a file that was moved in one step, and makes both folders durable. The file goes back
    /// if it is not the version `base`.
    fn finish_move(
        &self,
        source: &LockedFile<'_>,
        folder: &os::Handle,
        destination: &Destination<'_>,
        base: ContentHash,
    ) -> Result<(), Refusal> {
        let (from, new) = ((source.handle(), source.name), (folder, destination.name));
        let is_same = os::open_in(folder, destination.name)
            .and_then(|file| hash_file(&file))
            .is_ok_and(|hash| hash == base);
        let synced = os::sync(folder).and_then(|()| match &destination.locked {
            Some(_) => os::sync(source.handle()),
            None => Ok(()),
        });
        if !is_same {
            // Another program saved just before. Its save gets its name back, or a name of its own
            // where that program has saved once more.
            if os::move_new(new, from).is_err() {
                self.keeper.save_copy(folder, destination.name, destination.path);
            }
            let _ = os::sync(folder).and_then(|()| os::sync(source.handle()));
            return Err(Refusal::Stale { path: source.path.clone(), argument: "hash" });
        }
        synced.map_err(|_| Refusal::UnknownOutcome { path: destination.path.clone() })
    }

    /// Moves a file on a file system that has no rename that refuses to replace.
    ///
    /// The file is set aside under a name of ours, checked, linked to its new name, and unlinked
    /// from the name of ours. So each step that removes a name removes one that no other program
    /// writes, and a save in between stays. Each step is durable before the next one: after a crash
    /// the cleaner finds the file under one of its two names, or under the new one and ours.
    fn move_by_link(
        &self,
        source: &LockedFile<'_>,
        new: (&os::Handle, &str),
        to: &SpacePath,
        base: ContentHash,
        size: u64,
    ) -> Result<(), Refusal> {
        let aside = self.temporary_name(source, ChangeKind::Move, Some(&base), None);
        os::set_aside(source.handle(), source.name, &aside).map_err(source.io())?;
        if !self.is_version(source, &aside, base) {
            self.put_back(source, &aside);
            return Err(Refusal::Stale { path: source.path.clone(), argument: "hash" });
        }
        let linked =
            os::sync(source.handle()).and_then(|()| os::link_new((source.handle(), &aside), new));
        if let Err(error) = linked {
            match os::rename_new(source.handle(), &aside, source.name) {
                // Another program has saved over the name: the file is a version that it replaced.
                // The record of a move has no bytes, so the history does not have this version.
                Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {
                    self.keep_beside(source, aside, (base, size));
                }
                Err(_) => self.keeper.save_copy(source.handle(), &aside, source.path),
                Ok(()) => {}
            }
            let _ = os::sync(source.handle());
            return Err(refused(&error, to));
        }
        // If the new name may not be durable, the name of ours stays for the next start.
        os::sync(new.0)
            .inspect_err(|_| source.mark())
            .and_then(|()| os::unlink(source.handle(), &aside))
            .and_then(|()| os::sync(source.handle()))
            .map_err(|_| Refusal::UnknownOutcome { path: to.clone() })
    }

    /// Locks the folders of two files, the folder with the smaller identity first.
    pub(super) fn lock_both<'p>(
        &'p self,
        path: &'p SpacePath,
        to: &'p SpacePath,
    ) -> Result<(LockedFile<'p>, Destination<'p>), Stop> {
        let (_, name) = to.split().ok_or_else(|| Refusal::AlreadyExists { path: to.clone() })?;
        let identity = |path: &SpacePath| {
            let folder = path.split().map_or_else(SpacePath::root, |(folder, _)| folder);
            let folder = self.root.open_folder(&folder).map_err(|error| refusal(&error, path))?;
            os::status(folder)
                .map(|status| status.identity())
                .map_err(|error| refusal(&error, path))
        };
        let (source_folder, to_folder) = (identity(path)?, identity(to)?);
        if source_folder == to_folder {
            let source = self.lock(path)?;
            return Ok((source, Destination { path: to, name, locked: None }));
        }
        let (source, locked) = if source_folder < to_folder {
            let source = self.lock(path)?;
            (source, self.lock(to)?)
        } else {
            let locked = self.lock(to)?;
            (self.lock(path)?, locked)
        };
        Ok((source, Destination { path: to, name, locked: Some(locked) }))
    }

    /// Copies a file for `file.copy`. `made` are the folders that earlier attempts created.
    pub(super) fn copy_file(
        &self,
        path: &SpacePath,
        base: ContentHash,
        to: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<CreatedFile, Stop> {
        let limit = self.options.limits.file_size;
        let source = regular(self.root.open_file(path), path)?;
        let is_large = source.status.stamp.size >= LARGE;
        let large = is_large.then(|| self.large_changes.try_enter());
        if matches!(large, Some(None)) {
            return Err(if self.gives_up {
                Refusal::Busy { path: path.clone(), is_locked_by_other: false }.into()
            } else {
                Stop::MustWait(Wait::Room)
            });
        }
        let io = |error: io::Error| refusal(&error, path);
        let bytes = read_whole(&source.file, source.status.stamp.size, limit)
            .map_err(io)?
            .ok_or_else(|| Refusal::TooLarge {
                path: path.clone(),
                limit_bytes: limit,
                advice: "Ask the user to copy it, or to raise the server's limit.",
            })?;
        if ContentHash::digest(&bytes) != base {
            return Err(Refusal::Stale { path: path.clone(), argument: "hash" }.into());
        }
        self.create_like(to, &bytes, made, Some(Like::File(&source)))
    }

    /// Makes a folder for `folder.create`, with its parents. Returns whether it was not there.
    pub(super) fn create_folder(
        &self,
        path: &SpacePath,
        made: &mut Vec<SpacePath>,
    ) -> Result<bool, Stop> {
        let done = self.may_begin().and_then(|()| self.make_folders(path, path, made));
        if let Err(error) = done {
            self.remove_folders(made);
            return Err(error.into());
        }
        Ok(made.contains(path))
    }
}

impl<'a> Change<'a> {
    /// Returns what the history records of a move.
    pub(super) fn moved<'p>(
        &'p self,
        path: &'p SpacePath,
        to: &'p SpacePath,
        hash: ContentHash,
    ) -> NewChange<'p> {
        NewChange {
            kind: PastChangeKind::Moved,
            path,
            to: Some(to),
            before: Some(hash),
            size_before: 0,
            after: Some(hash),
            held: None,
            metadata: None,
            call: self.call,
        }
    }

    /// Records a move.
    pub(super) fn record_move(
        &self,
        path: &SpacePath,
        to: &SpacePath,
        hash: ContentHash,
    ) -> Result<Recorded<'a>, Refusal> {
        self.inner.record(&self.moved(path, to, hash), VersionSource::WithinAfter)
    }
}

/// Maps an error of a rename that must not replace anything.
pub(super) fn refused(error: &io::Error, to: &SpacePath) -> Refusal {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            Refusal::AlreadyExists { path: to.clone() }
        }
        _ => refusal(error, to),
    }
}
