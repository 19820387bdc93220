//! Cleans up at the start what killed processes left, without losing anybody's save.
//!
//! The name of a temporary file has the hashes of the old and the new version. A file with the new
//! version was never put in place, and one with the old version was displaced: both are deleted.
//! Any other content is another program's save that exists nowhere else. It gets its name back, or
//! becomes a conflict copy. Files of a living process are left alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::listing::EntryKind;
use stile_domain::path::{RESERVED_PREFIX, SpacePath};

use super::conflict::{SpaceEvents, make_conflict_copy, report_copy};
use super::file_hash::hash_file;
use super::lock::Folders;
use super::names::{ChangeKind, Owner, TemporaryName, marker_owner, short};
use super::os;
use super::root::Root;

/// How long the cleaner waits for a folder. If the wait is longer, a living process works there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cleans every folder of a space. Enters no mount but those that the owner named.
pub(super) fn clean(root: &Root, folders: &Arc<Folders>, events: &SpaceEvents) {
    let mut waiting = vec![SpacePath::root()];
    while let Some(path) = waiting.pop() {
        let Ok(handle) = root.open_folder(&path) else { continue };
        let mut has_ours = false;
        // A folder that cannot be read could not be edited either, so there is nothing to clean.
        let _ = os::entries(&handle, |name, kind| {
            let Some(name) = name else { return };
            if name.starts_with(RESERVED_PREFIX) {
                has_ours = true;
            } else if kind == EntryKind::Directory {
                waiting.extend(path.child(name));
            }
        });
        if has_ours {
            let deadline = Instant::now() + PATIENCE;
            let open = || root.open_folder(&path);
            if let Some(locked) = folders.lock_by(open, deadline) {
                clean_folder(&locked.handle, &path, events);
                let _ = os::sync(&*locked.handle);
            }
        }
    }
}

fn clean_folder(folder: &os::Handle, path: &SpacePath, events: &SpaceEvents) {
    let mut names = Vec::new();
    let mut alive: HashMap<Owner, bool> = HashMap::new();
    let _ = os::entries(folder, |name, _| {
        if let Some(name) = name.filter(|name| name.starts_with(RESERVED_PREFIX)) {
            names.push(name.to_owned());
        }
    });
    for name in &names {
        if let Some(owner) = marker_owner(name) {
            alive.insert(owner, !take_dead_marker(folder, name));
        }
    }
    for (text, name) in names.iter().filter_map(|text| Some((text, TemporaryName::parse(text)?))) {
        if !alive.get(&name.owner).copied().unwrap_or(false) {
            clean_file(folder, path, text, &name, events);
        }
    }
}

/// Removes the marker of a dead process. Returns `false` if the process lives.
fn take_dead_marker(folder: &os::Handle, name: &str) -> bool {
    match os::open_in(folder, name) {
        Ok(marker) => os::try_lock(&marker).unwrap_or(false) && os::unlink(folder, name).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Deletes, restores or copies one file that a dead process left.
fn clean_file(
    folder: &os::Handle,
    path: &SpacePath,
    text: &str,
    name: &TemporaryName,
    events: &SpaceEvents,
) {
    let Ok(status) = os::status_at(folder, text) else { return };
    if status.kind == EntryKind::File && status.mode == os::UNFINISHED {
        let _ = os::unlink(folder, text);
        return;
    }
    let hash = os::open_in(folder, text).and_then(|file| hash_file(&file)).ok();
    let found = short(hash.as_ref());
    let is_old = hash.is_some() && found == name.old;
    let is_new = hash.is_some() && found == name.new;
    let absent = || os::status_at(folder, &name.original).is_err();
    let copy = || {
        if let Some(copy) = make_conflict_copy(folder, folder, text, &name.original) {
            let beside = path.child(&name.original).unwrap_or_else(|| path.clone());
            report_copy(events, &beside, &copy);
        }
    };
    match name.change {
        // The process died after it had given the file its new name.
        ChangeKind::Move if status.links > 1 => {
            let _ = os::unlink(folder, text);
        }
        // The process died after it moved the old file aside and before the new one had its name.
        ChangeKind::Replace | ChangeKind::Move if is_old && !is_new && name.whole && absent() => {
            let _ = os::rename_new(folder, text, &name.original);
        }
        // Whether a file of that name is there cannot be known, since the name is not whole. So
        // this may be the only file with this version.
        ChangeKind::Replace | ChangeKind::Move if is_old && !name.whole => copy(),
        _ if is_old || is_new => {
            let _ = os::unlink(folder, text);
        }
        ChangeKind::Create => {
            // Our own torn write of a new file, which was never put in place.
            let _ = os::unlink(folder, text);
        }
        ChangeKind::Remove | ChangeKind::Replace | ChangeKind::Move
            if name.whole && os::rename_new(folder, text, &name.original).is_ok() => {}
        _ => copy(),
    }
}
