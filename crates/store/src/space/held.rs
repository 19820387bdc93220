//! Holds displaced files in the state folder, where no person and no other program sees them.
//!
//! A program that had a displaced file open may still write to it. The file therefore must not be
//! deleted at once, but its content is in the history already, so the file need not stay in the
//! person's folder. It is renamed into a folder of the history, as it is: whoever has it open
//! writes to it there. That works on one file system. On another one the file stays where it is, as
//! without a history.
//!
//! After a kill, the next start finds the held files. It deletes those that are the version that
//! the history has, and makes a conflict copy of every other one.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::path::{RESERVED_PREFIX, SpacePath};

use crate::history::History;

use super::conflict::{SpaceEvents, make_conflict_copy, report_copy};
use super::file_hash::hash_file;
use super::identity::Identity;
use super::lock::await_lock;
use super::names::{ChangeKind, Owner, TemporaryName, marker_owner, short};
use super::os;
use super::root::Root;

/// How long a start waits for another one that uses the folder.
const PATIENCE: Duration = Duration::from_secs(2);

/// The folder of the history with the displaced files of one space.
pub(super) struct Held {
    pub(super) handle: os::Handle,
    pub(super) history: Arc<History>,
    device: u64,
    marker: String,
    /// The open marker, which holds the lock that tells other processes that this one lives.
    _marker: File,
}

impl Held {
    /// Opens the folder, and marks the files of this process in it as those of a living process.
    pub(super) fn open(history: Arc<History>, process: u64) -> io::Result<Self> {
        let handle = os::open_root(&history.held_folder())?;
        let Identity(device, _) = os::status(&handle)?.identity();
        let marker = Owner::new(process, 0).marker();
        // While the folder is locked, no other start can find the marker before it is locked.
        let locked = await_lock(&handle, Instant::now() + PATIENCE)?;
        let made = os::make_file(&handle, &marker, 0o600).and_then(|(file, _)| {
            if os::try_lock(&file)? { Ok(file) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        if locked {
            os::unlock(&handle);
        }
        Ok(Self { handle, history, device, marker, _marker: made? })
    }

    /// Returns whether files of a folder may be moved here: both are on one file system.
    pub(super) fn may_take_from(&self, folder: Identity) -> bool {
        folder.0 == self.device
    }

    /// Takes a displaced file out of a folder.
    pub(super) fn take(&self, folder: &os::Handle, name: &str) -> io::Result<()> {
        self.take_as((folder, name), name)
    }

    /// Takes a file out of a folder under another name, which must be one that this program gives
    /// its unfinished files.
    pub(super) fn take_as(&self, from: (&os::Handle, &str), name: &str) -> io::Result<()> {
        os::move_ours(from, (&self.handle, name))
    }

    /// Deletes a held file.
    pub(super) fn delete(&self, name: &str) {
        if os::unlink(&self.handle, name).is_ok() {
            self.history.release(name);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = os::unlink(&self.handle, &self.marker);
    }
}

/// Deals with the files that killed processes held.
pub(super) fn clean(held: &Held, root: &Root, events: &SpaceEvents) {
    if !matches!(await_lock(&held.handle, Instant::now() + PATIENCE), Ok(true)) {
        return;
    }
    let mut names = Vec::new();
    let _ = os::entries(&held.handle, |name, _| {
        names.extend(name.filter(|name| name.starts_with(RESERVED_PREFIX)).map(str::to_owned));
    });
    let mut alive = HashSet::new();
    for name in &names {
        if let Some(owner) = marker_owner(name) {
            let dead = os::open_in(&held.handle, name)
                .is_ok_and(|marker| os::try_lock(&marker).unwrap_or(false));
            if dead {
                let _ = os::unlink(&held.handle, name);
            } else {
                alive.insert(owner.process().to_owned());
            }
        }
    }
    for (text, name) in names.iter().filter_map(|text| Some((text, TemporaryName::parse(text)?))) {
        if !alive.contains(name.owner.process()) {
            clean_file(held, root, text, &name, events);
        }
    }
    os::unlock(&held.handle);
}

/// Deletes a file that a dead process held, or gives it a visible name in the space.
fn clean_file(held: &Held, root: &Root, text: &str, name: &TemporaryName, events: &SpaceEvents) {
    let hash = os::open_in(&held.handle, text).and_then(|file| hash_file(&file)).ok();
    let found = short(hash.as_ref());
    if hash.is_some() && (found == name.old || found == name.new) {
        return held.delete(text);
    }
    let known = held.history.held_path(text);
    let path = known.or_else(|| SpacePath::root().child(&name.original));
    let Some(path) = path.filter(|path| !path.is_root()) else { return };
    let original = path.split().map_or(name.original.as_str(), |(_, name)| name).to_owned();
    // The folder may have gone since. The copy then goes into the nearest folder that is there.
    let mut folder = path.split().map(|(folder, _)| folder);
    while let Some(here) = folder {
        if let Ok(open) = root.open_folder(&here) {
            let is_removed = matches!(name.change, ChangeKind::Remove | ChangeKind::Replace);
            let is_back = is_removed
                && here.child(&original).as_ref() == Some(&path)
                && os::move_ours((&held.handle, text), (&open, &original)).is_ok();
            if is_back {
                let _ = os::sync(&open);
            } else if let Some(copy) = make_conflict_copy(&held.handle, &open, text, &original)
                && let Some(beside) = here.child(&original)
            {
                report_copy(events, &beside, &copy);
            }
            return held.history.release(text);
        }
        folder = here.split().map(|(above, _)| above);
    }
}
