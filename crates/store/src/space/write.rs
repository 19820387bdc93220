//! Compare and swap: changes a file if it still is the version that the caller read.
//! [`super::append`] adds to a file as it is.
//!
//! While the folder is locked, the file is read and its hash compared. The new content is written
//! to a file beside it, gets the old file's metadata, is synced, and is exchanged with the old file
//! in one step of the kernel. Then the displaced file is hashed. If another program saved in
//! between, the exchange is undone and the edit refused, so no save is lost. The folder is synced
//! before the call is answered. A crash at any moment leaves the old file or the new one. The
//! displaced file is kept for a while (see [`super::keeper`]).
//!
//! After an error before the exchange only the old file remains. Every later error is
//! [`Refusal::UnknownOutcome`].

mod creation;

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;

use crate::cancellation::Cancellation;
use crate::history::{Call, FileMetadata, NewChange, VersionSource};

use super::edit_refusal::{explain, too_large_to_edit};
use super::edited_text::{Base, EditableText, edited_file};
use super::file_hash::hash_file;
use super::foreign_lock::foreign_holder;
use super::held::Held;
use super::identity::Identity;
use super::keeper::{KeptPlace, MarkedFolder};
use super::lock::{FolderTurn, LockError, LockedFolder, Stop, Turn, Wait};
use super::names::{ChangeKind, TemporaryName};
use super::new_text::NewText;
use super::os;
use super::read::{Opened, regular};
use super::recorded::Recorded;
use super::root::Check;
use super::whole_file::read_whole;
use super::{EditedFile, Inner, fault, refusal};

/// Makes the new text of a file from the old one.
pub(super) type Plan = Box<dyn Fn(&str) -> Result<String, EditError> + Send>;

/// Makes the new bytes of a file from the old ones.
pub(super) type BytesPlan<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>, Refusal> + 'a;

/// A file whose folder is locked for one change.
pub(super) struct LockedFile<'a> {
    pub(super) path: &'a SpacePath,
    pub(super) name: &'a str,
    folder: LockedFolder,
    kept: Arc<MarkedFolder>,
    /// The turn to change a large file, to bound the memory.
    _large: Option<Turn<'a>>,
}

impl LockedFile<'_> {
    pub(super) fn handle(&self) -> &os::Handle {
        &self.folder.handle
    }

    /// Marks the folder, for a file that outlives its lock. Without the marker, a start of another
    /// process may clean the file up early.
    pub(super) fn mark(&self) {
        let _ = self.kept.mark();
    }

    /// Maps errors of the system to refusals.
    pub(super) fn io(&self) -> impl Fn(io::Error) -> Refusal + '_ {
        |error| refusal(&error, self.path)
    }
}

/// Where a new file gets its metadata from.
#[derive(Clone, Copy)]
pub(super) enum Like<'a> {
    /// From an open file.
    File(&'a Opened),
    /// From what the history has of a removed file.
    Removed(&'a FileMetadata),
}

/// A temporary file beside the file that it is for. It is deleted unless it was put in place.
struct Draft<'a> {
    folder: &'a os::Handle,
    name: String,
    file: File,
    is_unused: bool,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.is_unused {
            let _ = os::unlink(self.folder, &self.name);
        }
    }
}

/// One attempt to change a space.
pub(super) struct Change<'a> {
    pub(super) inner: &'a Inner,
    pub(super) cancellation: &'a Cancellation,
    /// The call that the history records as the author.
    pub(super) call: &'a Call,
    /// The turn that an earlier attempt waited for.
    pub(super) turn: Cell<Option<FolderTurn>>,
    /// Whether the time to wait is over, so that nothing is attempted any more.
    pub(super) gives_up: bool,
}

/// The size in bytes from which on few files are changed at once.
pub(super) const LARGE: u64 = 1024 * 1024;

impl Deref for Change<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        self.inner
    }
}

impl Inner {
    /// Returns what an edit would make of a file, and changes nothing.
    pub(super) fn try_edit(
        &self,
        path: &SpacePath,
        (base, new): (ContentHash, NewText),
        plan: &dyn Fn(&str) -> Result<String, EditError>,
    ) -> Result<EditedFile, Refusal> {
        let (limit, path_of) = (self.options.limits.file_size, || path.clone());
        let old = regular(self.root.open_file(path), path)?;
        let is_large = old.status.stamp.size >= LARGE;
        let until = Instant::now() + self.options.lock_wait;
        let large = is_large.then(|| self.large_changes.enter(until));
        if matches!(large, Some(None)) {
            return Err(Refusal::Busy { path: path_of(), is_locked_by_other: false });
        }
        let bytes = read_whole(&old.file, old.status.stamp.size, limit)
            .map_err(|error| refusal(&error, path))?
            .ok_or_else(|| too_large_to_edit(path, limit))?;
        if ContentHash::digest(&bytes) != base {
            return Err(Refusal::Stale { path: path_of(), argument: "hash" });
        }
        let text = EditableText::of(&bytes, path, Base::Whole(base), new.encoding)?;
        let edited =
            plan(&text.text).map_err(|error| explain(error, path, ["lines", "old"], limit))?;
        let new = text.encode(edited, new.is_ascii)?;
        if new.len() as u64 > limit {
            return Err(too_large_to_edit(path, limit));
        }
        Ok(edited_file(&new))
    }
}

impl Change<'_> {
    /// Refuses a change that nobody waits for any more, or that would go into a folder that was
    /// moved away. The last step before something is changed.
    pub(super) fn may_begin(&self) -> Result<(), Refusal> {
        fault::before_swap();
        if self.cancellation.is_cancelled() {
            return Err(Refusal::Cancelled);
        }
        self.root.check(Check::Now)
    }

    /// Locks the folder of a file for a change, if that can be done now.
    pub(super) fn lock<'p>(&'p self, path: &'p SpacePath) -> Result<LockedFile<'p>, Stop> {
        let (folder, name) = path.split().ok_or_else(|| Refusal::not_a_file(path))?;
        if !self.can_lock {
            return Err(Refusal::NotPermitted { path: path.clone() }.into());
        }
        if self.cancellation.is_cancelled() {
            return Err(Refusal::Cancelled.into());
        }
        let io = |error: io::Error| refusal(&error, path);
        let open = || self.root.open_folder(&folder);
        if self.gives_up {
            return Err(busy(path, open).into());
        }
        if !self.keeper.has_room() {
            return Err(Stop::MustWait(Wait::Room));
        }
        let locked = self.folders.try_lock(open, &self.turn).map_err(|error| match error {
            LockError::Wait(wait) => Stop::MustWait(wait),
            LockError::Io(error) => io(error).into(),
        })?;
        let is_large =
            os::status_at(&locked.handle, name).is_ok_and(|status| status.stamp.size >= LARGE);
        let large = is_large.then(|| self.large_changes.try_enter());
        if matches!(large, Some(None)) {
            return Err(Stop::MustWait(Wait::Room));
        }
        if os::status(&locked.handle).map_err(io)?.is_protected() {
            return Err(Refusal::ReadOnly { path: path.clone(), is_folder: true }.into());
        }
        let kept = self.keeper.enter(&locked.handle, locked.identity()).map_err(io)?;
        Ok(LockedFile { path, name, folder: locked, kept, _large: large.flatten() })
    }

    /// Changes a text file for `text.replace`, `text.insert` and `text.edit`.
    pub(super) fn edit(
        &self,
        path: &SpacePath,
        (base, new): (Base, NewText),
        arguments: [&'static str; 2],
        plan: &Plan,
    ) -> Result<EditedFile, Stop> {
        let limit = self.options.limits.file_size;
        self.edit_bytes(path, base, &|bytes| {
            let text = EditableText::of(bytes, path, base, new.encoding)?;
            let edited = plan(&text.text);
            let edited = edited.map_err(|error| explain(error, path, arguments, limit))?;
            text.encode(edited, new.is_ascii)
        })
    }

    pub(super) fn edit_bytes(
        &self,
        path: &SpacePath,
        base: Base,
        plan: &BytesPlan<'_>,
    ) -> Result<EditedFile, Stop> {
        self.edit_like(path, base, None, plan)
    }

    /// Changes the bytes of a file, which gets the metadata of `like`, or keeps its own.
    pub(super) fn edit_like(
        &self,
        path: &SpacePath,
        base: Base,
        like: Option<Like<'_>>,
        plan: &BytesPlan<'_>,
    ) -> Result<EditedFile, Stop> {
        let limit = self.options.limits.file_size;
        let target = self.lock(path)?;
        // An undo replaces what a client put in the place of another file that could be written: a
        // copy of a file that nobody may write.
        let was_writable = matches!(like, Some(Like::Removed(before)) if before.mode & 0o222 != 0);
        let old = match self.call.takes_back() {
            Some(_) if was_writable => self.open_alone(&target)?,
            _ => self.open_for_change(&target)?,
        };
        let bytes = read_whole(&old.file, old.status.stamp.size, limit)
            .map_err(target.io())?
            .ok_or_else(|| too_large_to_edit(path, limit))?;
        if !base.is_of(&bytes) {
            return Err(Refusal::Stale { path: path.clone(), argument: "hash" }.into());
        }
        let new = plan(&bytes)?;
        if new.len() as u64 > limit {
            return Err(too_large_to_edit(path, limit).into());
        }
        let edited = edited_file(&new);
        let becomes_another = || match like {
            Some(Like::Removed(metadata)) => os::metadata(&old.file, &old.status) != *metadata,
            Some(Like::File(_)) | None => false,
        };
        if new == bytes && !becomes_another() {
            // The file stays the same, but the answer promises that it is durable.
            os::sync(&old.file).and_then(|()| os::sync(target.handle())).map_err(target.io())?;
            return Ok(edited);
        }
        let replaced = match base {
            Base::Whole(hash) => hash,
            Base::Prefix { .. } | Base::Unread => ContentHash::digest(&bytes),
        };
        self.swap(&target, (&old, like), (&bytes, replaced), (&new, edited.hash))?;
        Ok(edited)
    }

    /// Opens the file that is to be changed. Refuses a file that a change would damage.
    pub(super) fn open_for_change(&self, target: &LockedFile<'_>) -> Result<Opened, Refusal> {
        let old = self.open_alone(target)?;
        if old.status.is_protected() {
            return Err(Refusal::ReadOnly { path: target.path.clone(), is_folder: false });
        }
        Ok(old)
    }

    /// Opens a regular file that has no other name.
    fn open_alone(&self, target: &LockedFile<'_>) -> Result<Opened, Refusal> {
        let old = regular(os::open_in(target.handle(), target.name), target.path)?;
        if old.status.links > 1 {
            return Err(Refusal::HardLinked { path: target.path.clone() });
        }
        Ok(old)
    }

    /// Writes `bytes` to a finished, durable file beside the changed one. The new file gets the
    /// metadata of `like`.
    fn draft<'p>(
        &self,
        target: &'p LockedFile<'_>,
        name: String,
        bytes: &[u8],
        like: Option<Like<'_>>,
    ) -> Result<Draft<'p>, Refusal> {
        let io = target.io();
        // A draft that replaces a file is marked as unfinished from the start: the cleaner must
        // take an empty file without the mark for a save that an editor has begun. A draft of a new
        // file gets its mode from the folder, and the cleaner recognises it by its name.
        let mode = if like.is_some() { os::UNFINISHED } else { os::NEW_FILE };
        let (file, mode) = os::make_file(target.handle(), &name, mode).map_err(&io)?;
        let mut draft = Draft { folder: target.handle(), name, file, is_unused: true };
        os::set_mode(&draft.file, os::UNFINISHED).map_err(&io)?;
        os::write(&mut draft.file, bytes).map_err(&io)?;
        match like {
            // Before the exchange, so that metadata that cannot be kept causes a refusal.
            Some(Like::File(old)) => os::copy_metadata(&old.file, &old.status, &draft.file)
                .map_err(|error| {
                    let refused = refusal(&error, target.path);
                    if matches!(refused, Refusal::NoSpace { .. }) {
                        refused
                    } else {
                        Refusal::NotPermitted { path: target.path.clone() }
                    }
                })?,
            Some(Like::Removed(metadata)) => {
                os::give_metadata(&draft.file, metadata).map_err(&io)?;
            }
            None => os::set_mode(&draft.file, mode).map_err(&io)?,
        }
        os::sync(&draft.file).map_err(&io)?;
        Ok(draft)
    }

    /// Replaces the content of `old`, or refuses the change as stale and leaves the file unchanged.
    fn swap(
        &self,
        target: &LockedFile<'_>,
        (old, like): (&Opened, Option<Like<'_>>),
        (old_bytes, base): (&[u8], ContentHash),
        (bytes, hash): (&[u8], ContentHash),
    ) -> Result<(), Refusal> {
        let change = if self.can_exchange { ChangeKind::Exchange } else { ChangeKind::Replace };
        let name = self.temporary_name(target, change, Some(&base), Some(&hash));
        let displaced = match self.can_exchange {
            true => name.clone(),
            false => self.temporary_name(target, ChangeKind::Exchange, Some(&base), None),
        };
        // The cleaner deletes files that are write-only for their owner, so a displaced file must
        // not be one.
        if old.status.mode & 0o400 == 0 {
            return Err(Refusal::NotPermitted { path: target.path.clone() });
        }
        let (kind, source) = kind_of_edit(old_bytes, bytes);
        let metadata = like.map(|_| os::metadata(&old.file, &old.status));
        let change = NewChange {
            kind,
            path: target.path,
            to: None,
            before: Some(base),
            size_before: old_bytes.len() as u64,
            after: Some(hash),
            held: self.held_name(target, &displaced),
            metadata: metadata.as_ref(),
            call: self.call,
        };
        let (mut recorded, mut draft) = self.inner.record_during(&change, source, || {
            self.draft(target, name, bytes, Some(like.unwrap_or(Like::File(old))))
        })?;
        if !self.can_exchange {
            return self.replace_aside(target, draft, (base, displaced), recorded);
        }
        let ours = os::status(&draft.file).map_err(target.io())?.identity();
        self.may_begin()?;
        os::exchange(target.handle(), &draft.name, target.name).map_err(target.io())?;
        draft.is_unused = false;
        let unknown = |_| Refusal::UnknownOutcome { path: target.path.clone() };
        if !self.is_version(target, &draft.name, base) {
            // A program that read our version meanwhile may save over the save that is put back.
            self.keep_copy(target, &draft.name);
            self.undo(target, &draft.name, (ours, hash, bytes.len() as u64), &recorded);
            os::sync(target.handle()).map_err(unknown)?;
            return Err(Refusal::Stale { path: target.path.clone(), argument: "hash" });
        }
        let size = old.status.stamp.size;
        let synced = self.keep(target, draft.name.clone(), (base, size), &recorded);
        recorded.was_made();
        synced.map_err(unknown)?;
        self.remember_own(ours, &draft.file);
        Ok(())
    }

    /// Takes the displaced file `aside` out of the folder if its content is in the history, syncs
    /// the folder, and keeps the file for a while. Its hash should be `expected`.
    fn keep(
        &self,
        target: &LockedFile<'_>,
        aside: String,
        (expected, size): (ContentHash, u64),
        recorded: &Recorded<'_>,
    ) -> io::Result<()> {
        let held = self.held_for(target).filter(|_| recorded.is_kept());
        let taken = held.is_some_and(|held| held.take(target.handle(), &aside).is_ok());
        if let Some(held) = held.filter(|_| !taken) {
            held.history.release(&aside);
        }
        let synced = os::sync(target.handle());
        if taken {
            self.keep_at(KeptPlace::Held, target, aside, (expected, size));
        } else {
            self.keep_beside(target, aside, (expected, size));
        }
        synced
    }

    /// Returns where displaced files of a folder are held; `None` if they stay in the folder.
    fn held_for(&self, target: &LockedFile<'_>) -> Option<&Held> {
        let held = self.keeper.held.as_ref()?;
        held.may_take_from(target.folder.identity()).then_some(held)
    }

    /// Returns the name under which a displaced file will be held.
    pub(super) fn held_name<'n>(&self, target: &LockedFile<'_>, name: &'n str) -> Option<&'n str> {
        self.held_for(target).map(|_| name)
    }

    /// Keeps the displaced file `aside` in its folder for a while. Its hash should be `expected`.
    pub(super) fn keep_beside(
        &self,
        target: &LockedFile<'_>,
        aside: String,
        version: (ContentHash, u64),
    ) {
        target.mark();
        self.keep_at(KeptPlace::Beside, target, aside, version);
    }

    fn keep_at(
        &self,
        place: KeptPlace,
        target: &LockedFile<'_>,
        aside: String,
        (expected, size): (ContentHash, u64),
    ) {
        let (folder, path) = (Arc::clone(&target.kept), target.path.clone());
        self.keeper.keep(folder, place, aside, path, expected, size);
    }

    /// Takes a file out of a folder that was set aside, and keeps it for a while under the name
    /// `aside`: where displaced files are held, or else beside the folder `target`.
    pub(super) fn keep_from_below(
        &self,
        target: &LockedFile<'_>,
        from: (&os::Handle, &str),
        aside: String,
        (path, expected, size): (SpacePath, ContentHash, u64),
    ) -> io::Result<()> {
        let held = self.held_for(target);
        let place = match held.map(|held| held.take_as(from, &aside)) {
            Some(Ok(())) => KeptPlace::Held,
            _ => {
                target.mark();
                os::move_ours(from, (target.handle(), &aside))?;
                KeptPlace::Beside
            }
        };
        self.keeper.keep(Arc::clone(&target.kept), place, aside, path, expected, size);
        Ok(())
    }

    /// Returns a new temporary name for a change of a file.
    pub(super) fn temporary_name(
        &self,
        target: &LockedFile<'_>,
        change: ChangeKind,
        old: Option<&ContentHash>,
        new: Option<&ContentHash>,
    ) -> String {
        self.temporary_name_of(target, target.name, change, old, new)
    }

    /// Returns a new temporary name, in the folder of `target`, for another file than `target`.
    pub(super) fn temporary_name_of(
        &self,
        target: &LockedFile<'_>,
        original: &str,
        change: ChangeKind,
        old: Option<&ContentHash>,
        new: Option<&ContentHash>,
    ) -> String {
        let sequence = self.keeper.next_sequence();
        TemporaryName::new(&target.kept.owner, sequence, change, old, new, original).to_string()
    }

    /// Returns whether the file with a name is exactly the version `hash`.
    pub(super) fn is_version(
        &self,
        target: &LockedFile<'_>,
        name: &str,
        hash: ContentHash,
    ) -> bool {
        os::open_in(target.handle(), name)
            .and_then(|file| hash_file(&file))
            .is_ok_and(|found| found == hash)
    }

    /// Keeps a copy of another program's save, which is about to be put back, for a while. Without
    /// room for it, the save is put back without a copy.
    fn keep_copy(&self, target: &LockedFile<'_>, aside: &str) {
        let limit = self.options.limits.file_size;
        let saved = os::open_in(target.handle(), aside)
            .and_then(|file| read_whole(&file, os::status(&file)?.stamp.size, limit));
        let Ok(Some(bytes)) = saved else { return };
        let hash = ContentHash::digest(&bytes);
        let name = self.temporary_name(target, ChangeKind::Exchange, Some(&hash), None);
        let made = os::make_file(target.handle(), &name, 0o600)
            .and_then(|(mut file, _)| os::write(&mut file, &bytes));
        if made.is_err() {
            let _ = os::unlink(target.handle(), &name);
            return;
        }
        target.mark();
        self.keep_at(KeptPlace::PutBack, target, name, (hash, bytes.len() as u64));
    }

    /// Undoes an exchange after another program saved just before it. The last save of that program
    /// gets the name of the file, and an older one becomes a conflict copy. Our own version is kept
    /// like a displaced file, since a program may have opened it.
    fn undo(
        &self,
        target: &LockedFile<'_>,
        aside: &str,
        (ours, hash, size): (Identity, ContentHash, u64),
        recorded: &Recorded<'_>,
    ) {
        for _ in 0..16 {
            let Ok(older) = os::status_at(target.handle(), aside) else { return };
            if os::exchange(target.handle(), aside, target.name).is_err() {
                // The other program removed the file. Its earlier save is kept.
                break;
            }
            let back = os::status_at(target.handle(), aside).map(|status| status.identity());
            if back.is_ok_and(|identity| identity == ours) && self.is_version(target, aside, hash) {
                let _ = self.keep(target, aside.to_owned(), (hash, size), recorded);
                return;
            }
            // The program saved once more, so the displaced file is newer than the one in place.
            if os::exchange(target.handle(), aside, target.name).is_err() {
                break;
            }
            if os::status_at(target.handle(), aside)
                .is_ok_and(|status| status.identity() == older.identity())
            {
                break;
            }
        }
        self.keeper.save_copy(target.handle(), aside, target.path);
    }

    /// Replaces a file without an exchange: moves the old file aside and renames the new one. Loses
    /// nothing, but for a moment no file has the name.
    ///
    /// Until the new file durably has the name, the name of the old one tells the cleaner to put it
    /// back after a crash. Then the old file is renamed to `displaced`, as after an exchange. So it
    /// does not come back if the new file is moved or removed later.
    fn replace_aside(
        &self,
        target: &LockedFile<'_>,
        mut draft: Draft<'_>,
        (base, displaced): (ContentHash, String),
        mut recorded: Recorded<'_>,
    ) -> Result<(), Refusal> {
        let aside = self.temporary_name(target, ChangeKind::Replace, Some(&base), None);
        self.may_begin()?;
        os::set_aside(target.handle(), target.name, &aside).map_err(target.io())?;
        let size = os::status_at(target.handle(), &aside).map_or(0, |status| status.stamp.size);
        let fits = self.is_version(target, &aside, base);
        if !fits || os::rename_new(target.handle(), &draft.name, target.name).is_err() {
            self.put_back(target, &aside);
            return Err(Refusal::Stale { path: target.path.clone(), argument: "hash" });
        }
        draft.is_unused = false;
        let renamed = os::sync(target.handle())
            .and_then(|()| os::rename_new(target.handle(), &aside, &displaced));
        let synced = match renamed {
            Ok(()) => self.keep(target, displaced, (base, size), &recorded),
            Err(error) => {
                self.keep_beside(target, aside, (base, size));
                Err(error)
            }
        };
        recorded.was_made();
        synced.map_err(|_| Refusal::UnknownOutcome { path: target.path.clone() })
    }

    /// Gives a file that was moved aside its name again. If the name is in use, the file becomes a
    /// conflict copy.
    pub(super) fn put_back(&self, target: &LockedFile<'_>, aside: &str) {
        if os::rename_new(target.handle(), aside, target.name).is_err() {
            self.keeper.save_copy(target.handle(), aside, target.path);
        }
        let _ = os::sync(target.handle());
    }

    /// Removes a file for `file.remove`.
    pub(super) fn remove(&self, path: &SpacePath, base: ContentHash) -> Result<(), Stop> {
        let target = self.lock(path)?;
        // An undo removes what a client made, although nobody may write it: the client copied a
        // file that is protected so.
        let old = match self.call.takes_back() {
            Some(_) => self.open_alone(&target)?,
            None => self.open_for_change(&target)?,
        };
        let size = old.status.stamp.size;
        if size > self.options.limits.read_size {
            return Err(Refusal::TooLarge {
                path: path.clone(),
                limit_bytes: self.options.limits.read_size,
                advice: "Ask the user to remove it.",
            }
            .into());
        }
        let stale = || Refusal::Stale { path: path.clone(), argument: "hash" };
        if hash_file(&old.file).map_err(target.io())? != base {
            return Err(stale().into());
        }
        let aside = self.temporary_name(&target, ChangeKind::Remove, Some(&base), None);
        let metadata = self.history.is_some().then(|| os::metadata(&old.file, &old.status));
        let change = NewChange {
            kind: PastChangeKind::Removed,
            path,
            to: None,
            before: Some(base),
            size_before: size,
            after: None,
            held: self.held_name(&target, &aside),
            metadata: metadata.as_ref(),
            call: self.call,
        };
        let mut recorded = self.inner.record(&change, VersionSource::File(&old.file, size))?;
        self.may_begin()?;
        os::set_aside(target.handle(), target.name, &aside).map_err(target.io())?;
        if !self.is_version(&target, &aside, base) {
            self.put_back(&target, &aside);
            return Err(stale().into());
        }
        let synced = self.keep(&target, aside, (base, size), &recorded);
        recorded.was_made();
        Ok(synced.map_err(|_| Refusal::UnknownOutcome { path: path.clone() })?)
    }
}

/// Returns the refusal of a change whose time to wait is over. The owner's log has the process that
/// locks the folder, if it is another program.
fn busy(path: &SpacePath, open: impl Fn() -> io::Result<os::Handle>) -> Refusal {
    let folder = open().and_then(os::status).map(|status| status.identity());
    let holder = folder.ok().and_then(foreign_holder);
    if let Some(process) = holder {
        tracing::warn!(process, "another program holds a lock on a folder of the space");
    }
    Refusal::Busy { path: path.clone(), is_locked_by_other: holder.is_some() }
}

/// The most bytes of a version that is stored although the version after begins with it.
const MOST_STORED_TWICE: usize = 64 * 1024;

/// Returns what an edit does, and what of the old version the history stores. A long file to whose
/// end a program keeps adding is not stored again each time.
fn kind_of_edit<'b>(old: &'b [u8], new: &[u8]) -> (PastChangeKind, VersionSource<'b>) {
    let kind = PastChangeKind::of_edit(old, new);
    let source = match kind {
        PastChangeKind::Appended => source_before_append(old),
        _ => VersionSource::Bytes(old),
    };
    (kind, source)
}

/// Returns what of a version the history stores before something is added to it.
pub(super) fn source_before_append(old: &[u8]) -> VersionSource<'_> {
    if old.len() <= MOST_STORED_TWICE {
        VersionSource::Bytes(old)
    } else {
        VersionSource::WithinAfter
    }
}
