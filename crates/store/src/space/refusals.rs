//! Makes of a refusal what its caller may know, with names close to one that is missing.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::find::near_names::{NearNames, is_twin};
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::Sight;

use super::disclosure::Disclosure;
use super::{Inner, os};

impl Inner {
    /// Returns a refusal as its caller may know it.
    pub(super) fn disclosed(&self, refusal: Refusal, to: &Disclosure) -> Refusal {
        let Some(path) = refusal.path().cloned() else { return refusal };
        if to.is_unread {
            match refusal {
                // Another program saved just now. The caller knows no version that could be stale.
                Refusal::Stale { .. } => return Refusal::Busy { path, is_locked_by_other: false },
                Refusal::Busy { .. }
                | Refusal::NoSpace { .. }
                | Refusal::NotKept { .. }
                | Refusal::UnknownOutcome { .. } => return refusal,
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

    /// Refuses to make a path beside a file or folder that a person sees as the same, since its
    /// name is composed otherwise. Names that the caller may not see do not count. Two callers who
    /// make both names at the same moment may get both.
    pub(super) fn refuse_twin(&self, to: &Disclosure) -> Result<(), Refusal> {
        let made = to.made.as_ref().filter(|path| !path.as_str().is_ascii());
        let mut above = SpacePath::root();
        for name in made.into_iter().flat_map(SpacePath::components) {
            if let Some(path) = self.twin(&above, name, &to.sight) {
                return Err(Refusal::AlreadyExists { path });
            }
            let Some(here) = above.child(name) else { break };
            above = here;
        }
        Ok(())
    }

    /// Returns the entry of a folder that the caller may see and that a person sees as `name`,
    /// where the folder has no entry of exactly this name.
    fn twin(&self, folder: &SpacePath, name: &str, sight: &Sight) -> Option<SpacePath> {
        if name.is_ascii() {
            return None;
        }
        let open = self.root.open_folder(folder).ok()?;
        if os::status_at(&open, name).is_ok() {
            return None;
        }
        let mut twin = None;
        os::entries(&open, |other, _| {
            let other = other.filter(|other| twin.is_none() && is_twin(name, other));
            let path = other.and_then(|other| folder.child(other));
            twin = twin.take().or(path.filter(|path| sight.may_see(path)));
        })
        .ok()?;
        twin
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
