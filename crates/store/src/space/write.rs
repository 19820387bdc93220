//! Compare and swap: a file becomes what a plan makes of it, if it still is what the caller read.
//!
//! Under the folder's lock the file is read and compared. The new content is written beside it,
//! given the old one's metadata, synced, and exchanged with it in one step of the kernel. What was
//! displaced is hashed: if another program saved in between, the exchange is undone and the edit
//! refused, and no save is lost. Then the folder is synced, and only then is the call answered. So
//! a crash at any instant leaves the old file or the new one. What was displaced is kept a while
//! (see [`super::keeper`]).
//!
//! Every error before the exchange leaves the old file and nothing else; every error after it is
//! [`Refusal::UnknownOutcome`].

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::facts::FileFacts;
use stile_domain::hash::ContentHash;
use stile_domain::lines;
use stile_domain::path::SpacePath;

use super::keeper::Kept;
use super::lock::{LockError, LockedFolder};
use super::names::{Deed, Name};
use super::os::{self, Identity};
use super::read::{Opened, facts_of, hash_file, read_whole, regular, relative};
use super::{CreatedFile, EditedFile, Inner, fault, refusal};

/// A text that is to take a file's place.
pub(super) type Plan = Box<dyn FnOnce(&str) -> Result<String, EditError> + Send>;

/// A mode that says "not finished" to the cleaner: nobody's file is write-only for its owner.
pub(super) const UNFINISHED: u32 = 0o200;

/// A folder locked for one change, and the name in it that changes.
struct Place<'a> {
    path: &'a SpacePath,
    name: &'a str,
    folder: LockedFolder,
    kept: Arc<Kept>,
}

impl Place<'_> {
    fn handle(&self) -> &OwnedFd {
        &self.folder.handle
    }

    fn io(&self) -> impl Fn(io::Error) -> Refusal + '_ {
        |error| refusal(&error, self.path)
    }
}

/// A new file beside the one it is for; removed again unless it was used.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    armed: bool,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.armed {
            let _ = os::unlink(self.folder, &self.name);
        }
    }
}

impl Inner {
    /// Locks the folder of `path` for a change.
    fn lock<'a>(&self, path: &'a SpacePath) -> Result<Place<'a>, Refusal> {
        let (folder, name) = path.split().ok_or_else(|| Refusal::not_a_file(path))?;
        if !self.can_lock {
            return Err(Refusal::NotPermitted { path: path.clone() });
        }
        let deadline = Instant::now() + self.options.lock_wait;
        if !self.keeper.await_room(deadline) {
            return Err(Refusal::Busy { path: path.clone() });
        }
        let open = || os::open_folder(&self.root, relative(&folder));
        let locked = self.folders.lock(open, deadline).map_err(|error| match error {
            LockError::Busy => Refusal::Busy { path: path.clone() },
            LockError::Io(error) => refusal(&error, path),
        })?;
        let kept = self
            .keeper
            .enter(&locked.handle, locked.identity)
            .map_err(|error| refusal(&error, path))?;
        let name = path
            .split()
            .map(|_| name.len())
            .and_then(|length| path.as_str().get(path.as_str().len() - length..));
        Ok(Place { path, name: name.unwrap_or_default(), folder: locked, kept })
    }

    /// Changes a text file; the body of `text.replace`, `text.insert` and `text.append`.
    pub(super) fn edit(
        &self,
        path: &SpacePath,
        base: ContentHash,
        arguments: [&'static str; 2],
        plan: Plan,
    ) -> Result<EditedFile, Refusal> {
        let limit = self.options.limits.file_size;
        let place = self.lock(path)?;
        let old = self.open_for_change(&place)?;
        let _turn = self.large_edit(&old, path)?;
        let too_large = || Refusal::TooLarge {
            path: path.clone(),
            limit_bytes: limit,
            advice: "Put the text into another file, or ask the user to raise the server's limit.",
        };
        let bytes = read_whole(&old.file, old.status.stamp.size, limit)
            .map_err(place.io())?
            .ok_or_else(too_large)?;
        if ContentHash::digest(&bytes) != base {
            return Err(Refusal::Stale { path: path.clone(), argument: "hash" });
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| Refusal::NotText {
            path: path.clone(),
            size_bytes: bytes.len() as u64,
            hash: base,
        })?;
        let new = plan(text).map_err(|error| explain(error, path, arguments))?;
        if new.len() as u64 > limit {
            return Err(too_large());
        }
        let hash = ContentHash::digest(new.as_bytes());
        let total_lines = lines::count_lines(&new);
        if new == text {
            // Nothing to change, and what the answer says must be as durable as after any other
            // edit.
            os::sync(&old.file).and_then(|()| os::sync(place.handle())).map_err(place.io())?;
            return Ok(EditedFile { hash, total_lines });
        }
        self.swap(&place, &old, base, new.as_bytes(), hash)?;
        Ok(EditedFile { hash, total_lines })
    }

    /// Opens the file that is to be changed, and refuses what a change would damage.
    fn open_for_change(&self, place: &Place<'_>) -> Result<Opened, Refusal> {
        let old = regular(os::open_in(place.handle(), place.name), place.path)?;
        if old.status.links > 1 {
            return Err(Refusal::HardLinked { path: place.path.clone() });
        }
        Ok(old)
    }

    /// Two large files at once in memory and no more.
    fn large_edit(
        &self,
        old: &Opened,
        path: &SpacePath,
    ) -> Result<Option<super::lock::Turn<'_>>, Refusal> {
        if old.status.stamp.size < 1024 * 1024 {
            return Ok(None);
        }
        let turn = self.large_edits.enter(Instant::now() + self.options.lock_wait);
        turn.map(Some).ok_or_else(|| Refusal::Busy { path: path.clone() })
    }

    /// Writes `bytes` as a finished, durable file beside the one it is for.
    fn draft<'p>(
        &self,
        place: &'p Place<'_>,
        name: &Name,
        bytes: &[u8],
        like: Option<&Opened>,
    ) -> Result<Draft<'p>, Refusal> {
        let io = place.io();
        let name = name.to_string();
        // In the place of another it is unfinished from its first instant: what is empty, and not
        // marked so, the cleaner must take for a save that an editor has just begun. Only a new
        // file needs to ask the folder for its mode, and the cleaner knows it by its name.
        let mode = if like.is_some() { UNFINISHED } else { os::NEW_FILE };
        let (file, mode) = os::make_file(place.handle(), &name, mode).map_err(&io)?;
        let mut draft = Draft { folder: place.handle(), name, file, armed: true };
        os::set_mode(&draft.file, UNFINISHED).map_err(&io)?;
        fault::point(fault::Call::Write).and_then(|()| draft.file.write_all(bytes)).map_err(&io)?;
        match like {
            // Before the exchange, so that what cannot be preserved is refused and nothing is
            // written.
            Some(old) => {
                os::copy_metadata(&old.file, &old.status, &draft.file).map_err(|error| {
                    let refused = refusal(&error, place.path);
                    if matches!(refused, Refusal::NoSpace { .. }) {
                        refused
                    } else {
                        Refusal::NotPermitted { path: place.path.clone() }
                    }
                })?
            }
            None => os::set_mode(&draft.file, mode).map_err(&io)?,
        }
        os::sync(&draft.file).map_err(&io)?;
        Ok(draft)
    }

    /// Puts new content in the place of `old`, or refuses as stale with everything as it was.
    fn swap(
        &self,
        place: &Place<'_>,
        old: &Opened,
        base: ContentHash,
        bytes: &[u8],
        hash: ContentHash,
    ) -> Result<(), Refusal> {
        let deed = if self.can_exchange { Deed::Exchange } else { Deed::Replace };
        let name = Name::new(
            &place.kept.owner,
            self.keeper.next_sequence(),
            deed,
            Some(&base),
            Some(&hash),
            place.name,
        );
        // The cleaner deletes what is write-only for its owner, so nothing that is may come under
        // our names.
        if old.status.mode & 0o400 == 0 {
            return Err(Refusal::NotPermitted { path: place.path.clone() });
        }
        let mut draft = self.draft(place, &name, bytes, Some(old))?;
        if !self.can_exchange {
            return self.replace_aside(place, draft, base, old.status.stamp.size);
        }
        let ours = os::look(&draft.file).map_err(place.io())?.identity();
        fault::before_swap();
        os::exchange(place.handle(), &draft.name, place.name).map_err(place.io())?;
        draft.armed = false;
        let unknown = |_| Refusal::UnknownOutcome { path: place.path.clone() };
        if !self.is_version(place, &draft.name, base) {
            self.undo(place, &draft.name, ours, hash, bytes.len() as u64);
            os::sync(place.handle()).map_err(unknown)?;
            return Err(Refusal::Stale { path: place.path.clone(), argument: "hash" });
        }
        let kept = || {
            let kept = Arc::clone(&place.kept);
            self.keeper.keep(
                kept,
                draft.name.clone(),
                place.path.clone(),
                base,
                old.status.stamp.size,
            );
        };
        let synced = os::sync(place.handle());
        kept();
        synced.map_err(unknown)?;
        self.remember_own(ours, &draft.file);
        Ok(())
    }

    /// Whether the file under a name is exactly the version `hash`.
    fn is_version(&self, place: &Place<'_>, name: &str, hash: ContentHash) -> bool {
        os::open_in(place.handle(), name)
            .and_then(|file| hash_file(&file))
            .is_ok_and(|found| found == hash)
    }

    /// Takes an exchange back after another program saved just before it. Whatever that program
    /// saved last ends up under the file's name, and anything older of its that we displaced as a
    /// conflict copy. Our own version is kept a while like any other that was in place: a program
    /// may have opened it.
    fn undo(&self, place: &Place<'_>, aside: &str, ours: Identity, hash: ContentHash, size: u64) {
        for _ in 0..16 {
            let Ok(older) = os::look_at(place.handle(), aside) else { return };
            if os::exchange(place.handle(), aside, place.name).is_err() {
                // The name is gone, so the other program removed it; what it had saved before is
                // kept.
                break;
            }
            let back = os::look_at(place.handle(), aside).map(|status| status.identity());
            if back.is_ok_and(|identity| identity == ours) && self.is_version(place, aside, hash) {
                self.keeper.keep(
                    Arc::clone(&place.kept),
                    aside.to_owned(),
                    place.path.clone(),
                    hash,
                    size,
                );
                return;
            }
            // It saved once more in between, so what came back is newer than what went in: swap
            // again.
            if os::exchange(place.handle(), aside, place.name).is_err() {
                break;
            }
            if os::look_at(place.handle(), aside)
                .is_ok_and(|status| status.identity() == older.identity())
            {
                break;
            }
        }
        self.keeper.save_copy(place.handle(), aside, place.path);
    }

    /// Where the file system cannot exchange: the old file goes aside and the new one takes its
    /// name. Nothing is lost either, but the name is absent for an instant.
    fn replace_aside(
        &self,
        place: &Place<'_>,
        mut draft: Draft<'_>,
        base: ContentHash,
        size: u64,
    ) -> Result<(), Refusal> {
        let owner = &place.kept.owner;
        let aside = Name::new(
            owner,
            self.keeper.next_sequence(),
            Deed::Replace,
            Some(&base),
            None,
            place.name,
        )
        .to_string();
        fault::before_swap();
        os::rename_new(place.handle(), place.name, &aside).map_err(place.io())?;
        let fits = self.is_version(place, &aside, base);
        if !fits || os::rename_new(place.handle(), &draft.name, place.name).is_err() {
            self.put_back(place, &aside);
            return Err(Refusal::Stale { path: place.path.clone(), argument: "hash" });
        }
        draft.armed = false;
        let synced = os::sync(place.handle());
        self.keeper.keep(Arc::clone(&place.kept), aside, place.path.clone(), base, size);
        synced.map_err(|_| Refusal::UnknownOutcome { path: place.path.clone() })
    }

    /// Gives a file that was moved aside its name again, or a visible one where that is taken by
    /// now.
    fn put_back(&self, place: &Place<'_>, aside: &str) {
        if os::rename_new(place.handle(), aside, place.name).is_err() {
            self.keeper.save_copy(place.handle(), aside, place.path);
        }
        let _ = os::sync(place.handle());
    }

    /// Makes a file; the body of `file.create`.
    pub(super) fn create(&self, path: &SpacePath, bytes: &[u8]) -> Result<CreatedFile, Refusal> {
        if bytes.len() as u64 > self.options.limits.file_size {
            return Err(Refusal::TooLarge {
                path: path.clone(),
                limit_bytes: self.options.limits.file_size,
                advice: "Split it over several files, or ask the user to raise the server's limit.",
            });
        }
        if path.is_root() {
            return Err(Refusal::AlreadyExists { path: path.clone() });
        }
        let made = self.make_parents(path)?;
        let created = self.create_in_folder(path, bytes);
        if created.is_err() {
            self.unmake(&made);
        }
        created
    }

    fn create_in_folder(&self, path: &SpacePath, bytes: &[u8]) -> Result<CreatedFile, Refusal> {
        let place = self.lock(path)?;
        if os::look_at(place.handle(), place.name).is_ok() {
            return Err(Refusal::AlreadyExists { path: path.clone() });
        }
        let FileFacts { hash, lines } = facts_of(bytes);
        let name = Name::new(
            &place.kept.owner,
            self.keeper.next_sequence(),
            Deed::Create,
            None,
            Some(&hash),
            place.name,
        );
        let mut draft = self.draft(&place, &name, bytes, None)?;
        os::rename_new(place.handle(), &draft.name, place.name).map_err(|error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => Refusal::AlreadyExists { path: path.clone() },
                _ => refusal(&error, path),
            }
        })?;
        draft.armed = false;
        os::sync(place.handle()).map_err(|_| Refusal::UnknownOutcome { path: path.clone() })?;
        if let Ok(status) = os::look(&draft.file) {
            self.remember_own(status.identity(), &draft.file);
        }
        Ok(CreatedFile {
            hash,
            size_bytes: bytes.len() as u64,
            total_lines: lines.map(|lines| lines.total_lines()),
        })
    }

    /// Makes the folders that `path` needs, durably, and says which they were, outermost first.
    fn make_parents(&self, path: &SpacePath) -> Result<Vec<SpacePath>, Refusal> {
        let mut made = Vec::new();
        let Some((folder, _)) = path.split() else { return Ok(made) };
        let io = |error: io::Error| refusal(&error, path);
        if os::open_folder(&self.root, relative(&folder)).is_ok() {
            return Ok(made);
        }
        let mut above = SpacePath::root();
        for name in folder.components() {
            let here = above.child(name).ok_or_else(|| Refusal::not_found(path))?;
            let parent = os::open_folder(&self.root, relative(&above)).map_err(io)?;
            match os::open_folder(&self.root, relative(&here)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let new = os::make_folder(&parent, name).map_err(|error| {
                        self.unmake(&made);
                        io(error)
                    })?;
                    if new {
                        made.push(here.clone());
                    }
                    os::sync(&parent).map_err(|error| {
                        self.unmake(&made);
                        io(error)
                    })?;
                }
                Err(error) => return Err(io(error)),
            }
            above = here;
        }
        Ok(made)
    }

    /// Removes folders that were made for a file that then was not; one that is in use by now
    /// stays.
    fn unmake(&self, made: &[SpacePath]) {
        for (above, name) in made.iter().rev().filter_map(SpacePath::split) {
            if let Ok(parent) = os::open_folder(&self.root, relative(&above)) {
                let _ = os::remove_folder(&parent, name);
            }
        }
    }

    /// Removes a file; the body of `file.remove`.
    pub(super) fn remove(&self, path: &SpacePath, base: ContentHash) -> Result<(), Refusal> {
        let place = self.lock(path)?;
        let old = self.open_for_change(&place)?;
        let size = old.status.stamp.size;
        if size > self.options.limits.read_size {
            return Err(Refusal::TooLarge {
                path: path.clone(),
                limit_bytes: self.options.limits.read_size,
                advice: "Ask the user to remove it.",
            });
        }
        let stale = || Refusal::Stale { path: path.clone(), argument: "hash" };
        if hash_file(&old.file).map_err(place.io())? != base {
            return Err(stale());
        }
        let owner = &place.kept.owner;
        let aside = Name::new(
            owner,
            self.keeper.next_sequence(),
            Deed::Remove,
            Some(&base),
            None,
            place.name,
        )
        .to_string();
        fault::before_swap();
        os::rename_new(place.handle(), place.name, &aside).map_err(place.io())?;
        if !self.is_version(&place, &aside, base) {
            self.put_back(&place, &aside);
            return Err(stale());
        }
        let synced = os::sync(place.handle());
        self.keeper.keep(Arc::clone(&place.kept), aside, path.clone(), base, size);
        synced.map_err(|_| Refusal::UnknownOutcome { path: path.clone() })
    }
}

/// Tells a caller why its edit does not fit the text that is there.
fn explain(error: EditError, path: &SpacePath, [range, text]: [&'static str; 2]) -> Refusal {
    match error {
        EditError::Range { total_lines } => Refusal::InvalidRange { argument: range, total_lines },
        EditError::Ambiguous { matches, more } => {
            Refusal::AmbiguousMatch { path: path.clone(), matches, more }
        }
        EditError::NoMatch { searched, lines, elsewhere } => {
            let place = match searched.count() {
                1 => format!("at line {}", searched.start),
                _ => format!(
                    "in lines {} to {}",
                    searched.start,
                    searched.end.saturating_sub(1).max(searched.start)
                ),
            };
            let hint = match elsewhere.as_slice() {
                [] => String::new(),
                lines => {
                    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                    format!(" It stands at line {} instead.", lines.join(", "))
                }
            };
            Refusal::NoMatch { path: path.clone(), argument: text, place, hint, lines, elsewhere }
        }
    }
}
