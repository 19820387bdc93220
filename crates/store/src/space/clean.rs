//! What a start does before it serves: find what a killed process left, and lose nothing of
//! anybody.
//!
//! Every file of ours says in its name what it should hold. One that holds the new version was
//! never put in place, and one that holds the old version was displaced: both can go. Anything else
//! is a save of another program that only we still have, so it goes back under its name or becomes
//! a conflict copy. Files of a process that lives are left alone.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::listing::EntryKind;
use stile_domain::path::{RESERVED_PREFIX, SpacePath};

use super::keeper::{SpaceEvents, make_conflict_copy, report_copy};
use super::lock::Folders;
use super::names::{Deed, Name, Owner, marker_owner, short};
use super::os;
use super::read::{hash_file, relative};
use super::write::UNFINISHED;

/// How long the cleaner waits for a folder; longer than that means that somebody alive is at work
/// there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cleans every folder of a space.
pub(super) fn clean(root: &OwnedFd, folders: &Arc<Folders>, events: &SpaceEvents) {
    let mut waiting = vec![SpacePath::root()];
    while let Some(path) = waiting.pop() {
        let Ok(handle) = os::open_folder(root, relative(&path)) else { continue };
        let mut is_ours = false;
        // A folder that cannot be read cannot be cleaned, and no edit was possible there either.
        let _ = os::entries(&handle, |name, kind| {
            if name.starts_with(RESERVED_PREFIX) {
                is_ours = true;
            } else if kind == EntryKind::Directory {
                waiting.extend(path.child(name));
            }
        });
        if is_ours {
            let open = || os::open_folder(root, relative(&path));
            if let Ok(locked) = folders.lock(open, Instant::now() + PATIENCE) {
                clean_folder(&locked.handle, &path, events);
                let _ = os::sync(&*locked.handle);
            }
        }
    }
}

/// Cleans one locked folder.
fn clean_folder(folder: &OwnedFd, path: &SpacePath, events: &SpaceEvents) {
    let mut names = Vec::new();
    let mut alive: HashMap<Owner, bool> = HashMap::new();
    let _ = os::entries(folder, |name, _| {
        if name.starts_with(RESERVED_PREFIX) {
            names.push(name.to_owned());
        }
    });
    for name in &names {
        if let Some(owner) = marker_owner(name) {
            alive.insert(owner, !take_dead_marker(folder, name));
        }
    }
    for (text, name) in names.iter().filter_map(|text| Some((text, Name::parse(text)?))) {
        if !alive.get(&name.owner).copied().unwrap_or(false) {
            settle(folder, path, text, &name, events);
        }
    }
}

/// Removes a marker whose process is gone; `false` where it lives.
fn take_dead_marker(folder: &OwnedFd, name: &str) -> bool {
    match os::open_in(folder, name) {
        Ok(marker) => os::try_lock(&marker).unwrap_or(false) && os::unlink(folder, name).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Decides about one file that a dead process left.
fn settle(folder: &OwnedFd, path: &SpacePath, text: &str, name: &Name, events: &SpaceEvents) {
    let Ok(status) = os::look_at(folder, text) else { return };
    if status.kind == EntryKind::File && status.mode == UNFINISHED {
        let _ = os::unlink(folder, text);
        return;
    }
    let hash = os::open_in(folder, text).and_then(|file| hash_file(&file)).ok();
    let found = short(hash.as_ref());
    let is_old = hash.is_some() && found == name.old;
    let is_new = hash.is_some() && found == name.new;
    let absent = || os::look_at(folder, &name.about).is_err();
    match name.deed {
        // The old one was aside and the new one not yet in place when the process died.
        Deed::Replace if is_old && !is_new && name.whole && absent() => {
            let _ = os::rename_new(folder, text, &name.about);
        }
        _ if is_old || is_new => {
            let _ = os::unlink(folder, text);
        }
        Deed::Create => {
            // Finished and never put in place, but not what it should be: a torn write of our own.
            let _ = os::unlink(folder, text);
        }
        Deed::Remove | Deed::Replace
            if name.whole && os::rename_new(folder, text, &name.about).is_ok() => {}
        _ => {
            if let Some(copy) = make_conflict_copy(folder, text, &name.about) {
                let beside = path.child(&name.about).unwrap_or_else(|| path.clone());
                report_copy(events, &beside, &copy);
            }
        }
    }
}
