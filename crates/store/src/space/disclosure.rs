//! What a refusal may tell its caller: nothing of a parent that the scopes hide, nothing of a file
//! that the caller may only append to, and names close to one that is missing.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::find::near_names::NearNames;
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Action, Permit, Sight};

use super::{Inner, os};

/// What the refusal of one call may tell.
#[derive(Clone, Debug)]
pub(super) struct Disclosure {
    sight: Sight,
    /// The path that the call makes, with its missing parents.
    made: Option<SpacePath>,
    /// Whether the call appends to a file that was not read.
    is_unread: bool,
}

impl Disclosure {
    /// Returns what may be told to the holder of a permit.
    pub(super) fn of<A: Action>(permit: &Permit<A>) -> Self {
        Self { sight: permit.sight(), made: None, is_unread: false }
    }

    /// Returns the same for a call that makes the path of a permit.
    pub(super) fn making<A: Action>(self, permit: &Permit<A>) -> Self {
        Self { made: Some(permit.path().clone()), ..self }
    }

    /// Returns the same for a call that appends to a file that was not read.
    pub(super) fn unread(self) -> Self {
        Self { is_unread: true, ..self }
    }
}

impl Inner {
    /// Returns a refusal as its caller may know it.
    pub(super) fn disclosed(&self, refusal: Refusal, to: &Disclosure) -> Refusal {
        let Some(path) = refusal.path().cloned() else { return refusal };
        if to.is_unread {
            match refusal {
                // Another program saved just now. The caller knows no version that could be stale.
                Refusal::Stale { .. } => return Refusal::Busy { path, is_locked_by_other: false },
                Refusal::Busy { .. } | Refusal::NoSpace { .. } | Refusal::UnknownOutcome { .. } => {
                    return refusal;
                }
                _ if !to.sight.may_see(&path) => return Refusal::NotAppendable { path },
                _ => {}
            }
        }
        let is_of_lookup = matches!(
            refusal,
            Refusal::NotFound { .. }
                | Refusal::NotADirectory { .. }
                | Refusal::NotAFile { .. }
                | Refusal::SymlinkRefused { .. }
                | Refusal::MountRefused { .. }
                | Refusal::NotPermitted { .. }
                | Refusal::ReadOnly { is_folder: true, .. }
        );
        if !is_of_lookup {
            return refusal;
        }
        // Why the parent cannot be opened would tell what it is.
        let hidden = to.sight.hidden_parent(&path);
        if hidden.is_some_and(|parent| self.root.open_folder(&parent).is_err()) {
            return if to.made.as_ref() == Some(&path) {
                Refusal::NotPermitted { path }
            } else {
                Refusal::not_found(&path)
            };
        }
        match refusal {
            Refusal::NotFound { path, list, .. } => {
                let near = self.near_names(&path, &to.sight).unwrap_or_default();
                Refusal::NotFound { path, list, near }
            }
            refusal => refusal,
        }
    }

    /// Returns the names closest to the first part of a path that is missing, in a folder that the
    /// caller may read.
    fn near_names(&self, missing: &SpacePath, sight: &Sight) -> io::Result<Vec<SpacePath>> {
        let (mut path, mut is_last) = (missing.clone(), true);
        loop {
            let Some((folder, name)) = path.split() else { return Ok(Vec::new()) };
            if !sight.may_see(&folder) {
                return Ok(Vec::new());
            }
            let open = match self.root.open_folder(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    (path, is_last) = (folder, false);
                    continue;
                }
                open => open?,
            };
            let mut near = NearNames::to(name);
            os::entries(&open, |name, kind| {
                let is_folder = kind == EntryKind::Directory;
                // Only a folder can stand in the middle of a path.
                let fits = is_folder || is_last && kind == EntryKind::File;
                if let Some(child) = name.filter(|_| fits).and_then(|name| folder.child(name)) {
                    let ignore = &self.options.search_ignore;
                    near.offer(&child, |path| {
                        sight.may_see(path) && !ignore.leaves_out_below(path, is_folder)
                    });
                }
            })?;
            return Ok(near.finish());
        }
    }
}
