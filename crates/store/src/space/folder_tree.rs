//! Looks at everything that a folder holds, for the hash of the folder.
//!
//! All folders are opened beneath the handle of the first, so the same handle serves after the
//! folder has moved. Nothing is left out but our own files: neither what the owner leaves out of
//! searches nor what no path can name, since a move takes all of it along.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::limits::{MAX_TREE_BYTES, MAX_TREE_ENTRIES};
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::TreePermit;
use stile_domain::tree_hash::{TreeItem, tree_hash};

use crate::cancellation::Cancellation;

use super::lock::await_lock;
use super::names::is_ours;
use super::read::{regular, scan};
use super::write::LARGE;
use super::{Inner, os, refusal};

/// How long a check waits for changes in the folder that began before it moved.
const PATIENCE: Duration = Duration::from_secs(2);

/// One thing that a folder holds, at any depth.
pub(super) struct HeldItem {
    /// Its path from the folder.
    pub(super) below: String,
    /// Its path in the space; for [`TreeItem::Unnameable`] the folder that has the names.
    pub(super) path: SpacePath,
    pub(super) item: TreeItem,
    /// Whether a change of the file is refused, as that of any such file.
    pub(super) refused: Option<Refusal>,
}

/// Everything that a folder holds, each folder before what it holds.
pub(super) struct FolderTree {
    pub(super) entries: Vec<HeldItem>,
    /// Whether it holds files of ours, which are not among the entries.
    pub(super) has_ours: bool,
}

impl FolderTree {
    /// Returns the hash of the folder.
    pub(super) fn hash(&self) -> ContentHash {
        tree_hash(self.entries.iter().map(|entry| (entry.below.as_str(), &entry.item)))
    }

    /// Returns the folders in the folder, as their paths from it.
    pub(super) fn folders(&self) -> impl DoubleEndedIterator<Item = &HeldItem> {
        self.entries.iter().filter(|entry| entry.item == TreeItem::Folder)
    }

    /// Returns the files, each with its size and its hash. Leaves out those that were not hashed.
    pub(super) fn files(&self) -> impl Iterator<Item = (&HeldItem, u64, ContentHash)> {
        self.entries.iter().filter_map(|entry| match entry.item {
            TreeItem::File { size, hash: Some(hash) } => Some((entry, size, hash)),
            _ => None,
        })
    }
}

/// Returns a path from a folder without its last name, and that name.
pub(super) fn split_below(below: &str) -> (&str, &str) {
    below.rsplit_once('/').unwrap_or(("", below))
}

impl Inner {
    /// Returns the hash of a folder, for `file.list`.
    pub(super) fn tree_hash(
        &self,
        permit: &impl TreePermit,
        cancellation: &Cancellation,
    ) -> Result<ContentHash, Refusal> {
        let path = permit.folder();
        let handle = self.root.open_folder(path).map_err(|error| refusal(&error, path))?;
        Ok(self.tree(&handle, permit, cancellation)?.hash())
    }

    /// Looks at everything that an open folder holds. The folder has the path of the permit, or had
    /// it until it moved.
    pub(super) fn tree(
        &self,
        handle: &os::Handle,
        permit: &impl TreePermit,
        cancellation: &Cancellation,
    ) -> Result<FolderTree, Refusal> {
        let mut scanned = TreeScan {
            inner: self,
            permit,
            tree: FolderTree { entries: Vec::new(), has_ours: false },
            bytes: 0,
        };
        let mut waiting = vec![(String::new(), permit.folder().clone())];
        while let Some((below, path)) = waiting.pop() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            let opened = match below.as_str() {
                "" => None,
                _ => Some(os::open_folder(handle, &below).map_err(|error| refusal(&error, &path))?),
            };
            scanned.add_folder(opened.as_ref().unwrap_or(handle), &below, &path, &mut waiting)?;
        }
        Ok(scanned.tree)
    }

    /// Whether a folder that has just moved still holds what it held. Changes that began in it
    /// before it moved end first: each holds the lock of its own folder.
    pub(super) fn is_still(
        &self,
        handle: &os::Handle,
        (tree, permit): (&FolderTree, &impl TreePermit),
        cancellation: &Cancellation,
    ) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let ends = |folder: &os::Handle| {
            let is_locked = await_lock(folder, deadline).unwrap_or(false);
            if is_locked {
                os::unlock(folder);
            }
            is_locked
        };
        ends(handle)
            && tree
                .folders()
                .all(|entry| os::open_folder(handle, &entry.below).is_ok_and(|it| ends(&it)))
            && self.tree(handle, permit, cancellation).is_ok_and(|now| now.hash() == tree.hash())
    }
}

/// A look at a folder that is not finished.
struct TreeScan<'a, P: TreePermit> {
    inner: &'a Inner,
    permit: &'a P,
    tree: FolderTree,
    /// How many bytes were hashed.
    bytes: u64,
}

impl<P: TreePermit> TreeScan<'_, P> {
    /// Adds what one folder holds, and the folders in it to `waiting`.
    fn add_folder(
        &mut self,
        folder: &os::Handle,
        below: &str,
        path: &SpacePath,
        waiting: &mut Vec<(String, SpacePath)>,
    ) -> Result<(), Refusal> {
        let (mut names, mut unnameable) = (Vec::new(), 0);
        os::entries(folder, |name, _| match name {
            Some(name) if is_ours(name) => self.tree.has_ours = true,
            Some(name) if path.can_hold(name) => names.push(name.to_owned()),
            _ => unnameable += 1,
        })
        .map_err(|error| refusal(&error, path))?;
        let before = if below.is_empty() { String::new() } else { format!("{below}/") };
        if unnameable > 0 {
            let item = TreeItem::Unnameable(unnameable);
            self.add(HeldItem { below: before.clone(), path: path.clone(), item, refused: None })?;
        }
        for name in names {
            let Some(path) = path.child(&name) else { continue };
            let below = format!("{before}{name}");
            // A file that went meanwhile is not there.
            let Ok((status, is_mount)) = os::status_and_mount_at(folder, &name) else { continue };
            if is_mount {
                return Err(Refusal::MountRefused { path });
            }
            let mut refused = None;
            let item = match status.kind {
                EntryKind::Directory => {
                    waiting.push((below.clone(), path.clone()));
                    refused = status.is_protected().then(|| read_only(&path, true));
                    TreeItem::Folder
                }
                EntryKind::File => {
                    if status.links > 1 {
                        refused = Some(Refusal::HardLinked { path: path.clone() });
                    } else if status.is_protected() {
                        refused = Some(read_only(&path, false));
                    }
                    self.file(folder, (&name, &path), status.stamp.size)?
                }
                EntryKind::Symlink => TreeItem::Link,
                EntryKind::Other => TreeItem::Other,
            };
            self.add(HeldItem { below, path, item, refused })?;
        }
        Ok(())
    }

    fn add(&mut self, entry: HeldItem) -> Result<(), Refusal> {
        if self.tree.entries.len() >= MAX_TREE_ENTRIES {
            return Err(self.too_large());
        }
        self.tree.entries.push(entry);
        Ok(())
    }

    fn too_large(&self) -> Refusal {
        Refusal::FolderTooLarge { path: self.permit.folder().clone() }
    }

    /// Hashes a file, unless the caller may not read it.
    fn file(
        &mut self,
        folder: &os::Handle,
        (name, path): (&str, &SpacePath),
        size: u64,
    ) -> Result<TreeItem, Refusal> {
        if !self.permit.may_hash(path) {
            return Ok(TreeItem::File { size, hash: None });
        }
        let io = |error: std::io::Error| refusal(&error, path);
        let opened = regular(os::open_in(folder, name), path)?;
        let stamp = opened.status.stamp;
        if let Some(facts) = self.inner.memory().get(&stamp) {
            return Ok(TreeItem::File { size: stamp.size, hash: Some(facts.hash) });
        }
        self.bytes = self.bytes.saturating_add(stamp.size);
        if self.bytes > MAX_TREE_BYTES {
            return Err(self.too_large());
        }
        let until = Instant::now() + self.inner.options.lock_wait;
        let turn = (stamp.size >= LARGE).then(|| self.inner.first_reads.enter(until));
        if matches!(turn, Some(None)) {
            return Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false });
        }
        let began = os::now();
        let facts = Arc::new(scan(&opened.file).map_err(io)?);
        if os::status(&opened.file).map_err(io)?.stamp == stamp {
            self.inner.memory().insert(stamp, &facts, began);
        }
        Ok(TreeItem::File { size: stamp.size, hash: Some(facts.hash) })
    }
}

fn read_only(path: &SpacePath, is_folder: bool) -> Refusal {
    Refusal::ReadOnly { path: path.clone(), is_folder }
}
