//! Old versions of files: lists them, reads them, and gives a file one of them again.

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChange};
use stile_domain::history::undo_plan::Obstacle;
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, Permit, Read};

use crate::history::{ChangeQuery, FileMetadata, History, MetadataOf, VersionError};

use super::disclosure::Disclosure;
use super::edited_text::Base;
use super::lock::Stop;
use super::os;
use super::read::regular;
use super::whole_file::read_whole;
use super::write::{Change, Like};
use super::{HistoryReach, Inner, RestoredFile, Space};

impl Space {
    /// Returns the same space for a caller who may see all changes, as the owner may.
    #[must_use]
    pub fn with_whole_history(self) -> Self {
        Self { history_reach: HistoryReach::AllChanges, ..self }
    }

    /// Returns the caller whose changes alone may be seen.
    fn only_caller(&self) -> Option<Author> {
        match self.history_reach {
            HistoryReach::OwnChanges => Some(self.call.author().clone()),
            HistoryReach::AllChanges => None,
        }
    }

    /// Returns the changes of a file with numbers below `below`, at most `limit`, the latest first.
    ///
    /// # Errors
    /// [`Refusal::NoVersion`] if there is no history.
    pub async fn past_changes(
        &self,
        permit: Permit<Read>,
        below: Option<ChangeNumber>,
        limit: usize,
    ) -> Result<Vec<PastChange>, Refusal> {
        let (to, caller) = (Disclosure::of(&permit), self.only_caller());
        self.answer(to, move |inner| {
            let path = permit.path();
            let query = ChangeQuery {
                path: Some(path.clone()),
                caller,
                below,
                limit: Some(limit),
                ..ChangeQuery::default()
            };
            let found = inner.known_history(path)?.changes(&query);
            let mut changes = found.map_err(|error| no_version(path, error.into()))?;
            changes.retain(|change| change.concerns(path));
            let sight = permit.sight();
            let seen = changes.into_iter().map(|it| it.as_seen(|path| sight.may_see(path)));
            Ok(seen.collect())
        })
        .await
    }

    /// Returns the bytes of an old version.
    ///
    /// # Errors
    /// [`Refusal::NoVersion`].
    pub async fn read_version(
        &self,
        permit: Permit<Read>,
        version: OldVersion,
    ) -> Result<Vec<u8>, Refusal> {
        let (to, caller) = (Disclosure::of(&permit), self.only_caller());
        self.answer(to, move |inner| {
            let path = permit.path();
            inner.version([path, path], &version, caller.as_ref())
        })
        .await
    }

    /// Whether the file `now` is another file than the one that had a version of the file `of`: it
    /// has another mode, or other attributes.
    ///
    /// # Errors
    /// [`Refusal::NoVersion`], or that the file cannot be read.
    pub async fn is_other_file(
        &self,
        now: Permit<Read>,
        of: Permit<Read>,
        (version, hash): (OldVersion, ContentHash),
    ) -> Result<bool, Refusal> {
        self.answer(Disclosure::of(&now), move |inner| {
            let then = inner.path_then(of.path(), &version)?;
            let Some(was) = inner.metadata_of([of.path(), &then], &version, hash)? else {
                return Ok(false);
            };
            let now = regular(inner.root.open_file(now.path()), now.path())?;
            Ok(os::metadata(&now.file, &now.status) != was)
        })
        .await
    }

    /// Returns the permission bits of a folder; `None` if there is no folder.
    ///
    /// # Errors
    /// A [`Refusal`] if the space cannot be used.
    pub async fn folder_mode(&self, permit: Permit<Read>) -> Result<Option<u32>, Refusal> {
        self.answer(Disclosure::of(&permit), move |inner| {
            let folder = inner.root.open_folder(permit.path());
            let status = folder.and_then(|folder| os::status(&folder));
            Ok(status.ok().map(|status| status.mode & 0o777))
        })
        .await
    }

    /// Returns what keeps the file or the folder at a path from being changed, as the changes of
    /// files refuse it; `None` if there is neither.
    ///
    /// # Errors
    /// A [`Refusal`] if the space cannot be used.
    pub async fn guard(&self, permit: Permit<Read>) -> Result<Option<Obstacle>, Refusal> {
        self.answer(Disclosure::of(&permit), move |inner| {
            let path = permit.path();
            if let Ok(folder) = inner.root.open_folder(path) {
                let status = os::status(&folder).ok();
                let is_protected = status.is_some_and(|status| status.is_protected());
                let is_barred = is_protected || !os::may_write_in(&folder);
                return Ok(is_barred.then_some(Obstacle::Protected));
            }
            let Ok(file) = regular(inner.root.open_file(path), path) else { return Ok(None) };
            Ok(match (file.status.links, file.status.is_protected()) {
                (2.., _) => Some(Obstacle::HardLinked),
                (_, true) => Some(Obstacle::Protected),
                _ => None,
            })
        })
        .await
    }

    /// Gives a folder another mode, if it still has the mode `from`.
    ///
    /// # Errors
    /// A [`Refusal`]; the folder then has the mode that it had.
    pub async fn set_folder_mode(
        &self,
        permit: Permit<Edit>,
        from: u32,
        to: u32,
    ) -> Result<(), Refusal> {
        self.change(Disclosure::of(&permit), move |change| {
            Ok(change.set_folder_mode(permit.path(), from, to)?)
        })
        .await
    }

    /// Gives a file an old version, if the file still is the version `base`, or if there is no file
    /// and `base` is `None`.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn restore(
        &self,
        permit: Permit<Edit>,
        base: Option<ContentHash>,
        version: OldVersion,
    ) -> Result<RestoredFile, Refusal> {
        let (caller, mut made) = (self.only_caller(), Vec::new());
        let to = match base {
            Some(_) => Disclosure::of(&permit),
            None => Disclosure::of(&permit).making(&permit),
        };
        self.change(to, move |change| {
            change.restore(permit.path(), base, (&version, caller.as_ref()), &mut made)
        })
        .await
    }
}

impl Inner {
    fn known_history(&self, path: &SpacePath) -> Result<&History, Refusal> {
        let none = || Refusal::NoVersion {
            path: path.clone(),
            why: "this server keeps no history".to_owned(),
        };
        self.history.as_deref().ok_or_else(none)
    }

    /// Returns the path that a file had at the change before which it had a version.
    fn path_then(&self, path: &SpacePath, version: &OldVersion) -> Result<SpacePath, Refusal> {
        let OldVersion::Before(number) = version else { return Ok(path.clone()) };
        let then = self.known_history(path)?.path_at_change(path, *number);
        then.map_err(|error| no_version(path, error.into()))
    }

    /// Returns a version that a file had at the path `then`. The file is at `path` now.
    fn version(
        &self,
        [path, then]: [&SpacePath; 2],
        version: &OldVersion,
        caller: Option<&Author>,
    ) -> Result<Vec<u8>, Refusal> {
        let (history, limit) = (self.known_history(path)?, self.options.limits.file_size);
        // The version may be the beginning of the file, if a file is there.
        let current = regular(self.root.open_file(path), path)
            .ok()
            .and_then(|now| read_whole(&now.file, now.status.stamp.size, limit).ok().flatten());
        history
            .find_version(then, version, caller)
            .and_then(|hash| history.bytes_of(path, hash, current.as_deref(), limit))
            .map_err(|error| no_version(path, error))
    }
}

impl Change<'_> {
    fn restore(
        &self,
        path: &SpacePath,
        base: Option<ContentHash>,
        (version, caller): (&OldVersion, Option<&Author>),
        made: &mut Vec<SpacePath>,
    ) -> Result<RestoredFile, Stop> {
        // Only an undo takes changes back where the file is by now.
        let is_taken_back =
            matches!(version, OldVersion::Before(it) if self.call.takes_back() == Some(*it));
        let then = if is_taken_back { self.path_then(path, version)? } else { path.clone() };
        let bytes = self.version([path, &then], version, caller)?;
        let hash = ContentHash::digest(&bytes);
        let metadata = self.metadata_of([path, &then], version, hash)?;
        let like = metadata.as_ref().map(Like::Removed);
        Ok(match base {
            Some(base) => {
                // Another file may have the path now, which has a mode of its own.
                let edited =
                    self.edit_like(path, Base::Whole(base), like, &|_| Ok(bytes.clone()))?;
                RestoredFile { hash: edited.hash, size_bytes: edited.size_bytes }
            }
            None => {
                let created = self.create_like(path, &bytes, made, like)?;
                RestoredFile { hash: created.hash, size_bytes: created.size_bytes }
            }
        })
    }
}

impl Inner {
    /// Returns what the file that had a version at the path `then` has or had beside its content;
    /// `None` if that is the file at `path`, which keeps what it has, or if nothing is known of it.
    fn metadata_of(
        &self,
        [path, then]: [&SpacePath; 2],
        version: &OldVersion,
        hash: ContentHash,
    ) -> Result<Option<FileMetadata>, Refusal> {
        let found = self.known_history(path)?.metadata_of(then, version, hash);
        Ok(match found.map_err(|error| no_version(path, error.into()))? {
            MetadataOf::Removed(metadata) => Some(metadata),
            MetadataOf::File(now) if now != *path => regular(self.root.open_file(&now), &now)
                .ok()
                .map(|file| os::metadata(&file.file, &file.status)),
            MetadataOf::File(_) | MetadataOf::Unknown => None,
        })
    }
}

/// Maps an error of the history to a refusal.
fn no_version(path: &SpacePath, error: VersionError) -> Refusal {
    match error {
        VersionError::History(error) => {
            tracing::error!(%error, "the history failed");
            crate::incident("history", &std::io::Error::other("the history failed"))
        }
        error => Refusal::NoVersion { path: path.clone(), why: error.to_string() },
    }
}
