//! Walks a folder and what is below it, in a stable order, as far as the caller's scopes reach.
//!
//! Each folder is opened by its name in its open parent, so no link is followed and no mount is
//! entered that the owner did not name. A folder in which the caller may read nothing is not
//! opened. A walk goes on after any path that it returned, whatever came or went meanwhile.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::{BadWalkCursor, WalkPosition};
use stile_domain::listing::{EntryKind, ListPosition};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};

use super::folder_names::{FolderNames, FolderNamesBuilder};
use super::inner::FOLDER_NAMES_BYTES;
use super::left_out::{LeftOut, LeftOutReason};
use super::list::MOST_READS;
use super::names::is_ours;
use super::{Inner, fault, os, refusal};

/// The most names of a folder in memory. A larger folder is read several times.
const MOST_NAMES: usize = 64 * 1024;

/// The most bytes of names of a folder that a walk by name remembers. A larger folder is rare, and
/// is read in parts.
const MOST_KNOWN_BYTES: usize = 2 * 1024 * 1024;

/// The most folders that a walk holds open at once.
const MOST_OPEN: usize = 64;

/// The order of the entries of a folder. What a folder holds always follows the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkOrder {
    /// Folders first, then by name, as in a listing.
    FoldersFirst,
    /// By name.
    ByName,
}

impl WalkOrder {
    fn compare(self, one: (EntryKind, &str), other: (EntryKind, &str)) -> Ordering {
        let is_file = |kind| self == Self::FoldersFirst && kind != EntryKind::Directory;
        (is_file(one.0), one.1).cmp(&(is_file(other.0), other.1))
    }
}

/// One file or folder that a walk found.
pub(super) struct Found {
    pub(super) path: SpacePath,
    pub(super) kind: EntryKind,
    /// The open parent folder; `None` where the caller may not read the parent.
    folder: Option<Arc<os::Handle>>,
    start: Arc<SpacePath>,
}

impl Found {
    /// Returns the file at a position where an earlier walk stopped.
    pub(super) fn at(position: WalkPosition) -> Self {
        let WalkPosition { start, path, is_folder } = position;
        let kind = if is_folder { EntryKind::Directory } else { EntryKind::File };
        Self { path, kind, folder: None, start: Arc::new(start) }
    }

    /// Returns the position from which a later walk goes on.
    pub(super) fn position(&self) -> WalkPosition {
        WalkPosition {
            start: (*self.start).clone(),
            path: self.path.clone(),
            is_folder: self.kind == EntryKind::Directory,
        }
    }

    /// Returns where the walk began that found the file.
    pub(super) fn start(&self) -> &Arc<SpacePath> {
        &self.start
    }

    /// Returns the name of the file in its folder.
    pub(super) fn name(&self) -> &str {
        self.path.as_str().rsplit('/').next().unwrap_or_default()
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, inner: &Inner) -> io::Result<File> {
        match &self.folder {
            Some(folder) => os::open_in(folder, self.name()),
            None => inner.root.open_file(&self.path),
        }
    }

    /// Returns the attributes of the entry; `None` if it is gone, or is a mounted file.
    pub(super) fn status(&self, inner: &Inner) -> Option<os::Status> {
        match &self.folder {
            Some(folder) => {
                let (status, is_mounted) = os::status_and_mount_at(folder, self.name()).ok()?;
                (self.kind != EntryKind::File || !is_mounted).then_some(status)
            }
            None => inner.root.open_file(&self.path).and_then(os::status).ok(),
        }
    }
}

/// A walk in progress.
pub(super) struct Walker<'a> {
    inner: &'a Inner,
    permit: &'a Permit<Walk>,
    order: WalkOrder,
    /// How deep the walk goes: 1 for the entries of the folder alone.
    max_depth: usize,
    starts: VecDeque<SpacePath>,
    start: Arc<SpacePath>,
    /// The folders from the start down to the one that is read now.
    levels: Vec<Level>,
    /// Where an earlier walk stopped, until this walk is there.
    after: Option<WalkPosition>,
    /// The names that no path can hold, in the folders that the walk has finished.
    unnameable: Option<LeftOut>,
}

/// A folder whose entries are being returned.
struct Level {
    /// `None` while the walk is far below, so that a deep walk holds few folders open.
    folder: Option<Arc<os::Handle>>,
    path: SpacePath,
    names: Names,
    /// How many names the folder has that no path can hold.
    unnameable: u64,
    /// Whether the walk may show every entry, whatever its name.
    shows_all: bool,
}

/// The entries of a folder that are left.
enum Names {
    /// Names that were read for this walk.
    Read {
        names: VecDeque<(EntryKind, Box<str>)>,
        /// The last of them, if the folder has more than these.
        last: Option<(EntryKind, Box<str>)>,
    },
    /// Names that the space remembers.
    Known(KnownNames),
}

/// The names of a folder that the space remembers, and which of them are left.
struct KnownNames {
    names: Arc<FolderNames>,
    /// The folders that are left.
    folders: Range<usize>,
    /// The index of the next entry that is not a folder.
    file: usize,
}

impl KnownNames {
    /// Returns the names after a position.
    fn after(names: Arc<FolderNames>, order: WalkOrder, after: Option<(EntryKind, &str)>) -> Self {
        let first_file = names.first_file();
        let (folder, file) = match after {
            None => (0, first_file),
            Some((_, name)) if order == WalkOrder::ByName => (
                names.index_after_name(0..first_file, name),
                names.index_after_name(first_file..names.count(), name),
            ),
            Some((kind, name)) => {
                let next = names.index_after(Some(&ListPosition::new(kind, name)));
                (next.min(first_file), next.max(first_file))
            }
        };
        Self { names, folders: folder..first_file, file }
    }

    fn next(&mut self, order: WalkOrder) -> Option<(EntryKind, &str)> {
        let folder = self.folders.clone().next().and_then(|folder| self.names.get(folder));
        let file = self.names.get(self.file);
        match (folder, file) {
            (Some(folder), None) => {
                self.folders.start += 1;
                Some(folder)
            }
            (Some(folder), Some(file)) if order.compare(folder, file).is_lt() => {
                self.folders.start += 1;
                Some(folder)
            }
            (_, file) => {
                self.file += 1;
                file
            }
        }
    }
}

impl<'a> Walker<'a> {
    /// Begins a walk, or goes on after a position.
    ///
    /// # Errors
    /// A [`Refusal`] if the folder of the permit cannot be opened.
    pub(super) fn new(
        inner: &'a Inner,
        permit: &'a Permit<Walk>,
        order: WalkOrder,
        max_depth: usize,
        after: Option<WalkPosition>,
    ) -> Result<Self, Refusal> {
        let folder = permit.path();
        if inner.options.search_ignore.leaves_out_below(folder, true) {
            return Err(Refusal::invalid_argument(
                "`path` is in a folder that the owner leaves out of these tools (the setting \
                 `search_ignore`): read it with `list://`, or choose another `path`",
            ));
        }
        if after.as_ref().is_some_and(|after| !after.is_below(folder)) {
            return Err(Refusal::invalid_argument(BadWalkCursor::Malformed.to_string()));
        }
        let mut starts: VecDeque<SpacePath> = permit.starts().into();
        if let Some(after) = &after {
            starts.retain(|start| *start >= after.start);
        }
        // Only a folder that the caller may read is looked at, so only that can be missing.
        if starts.front() == Some(folder)
            && let Err(error) = inner.root.open_file(folder)
        {
            return Err(refusal(&error, folder));
        }
        let start = Arc::new(folder.clone());
        let (levels, unnameable) = (Vec::new(), None);
        Ok(Self { inner, permit, order, max_depth, starts, start, levels, after, unnameable })
    }

    /// Takes the count of the entries that no path can name, in the folders that the walk finished
    /// since the last call. A walk in pages counts each of them in one page. Folders in which the
    /// caller may not see every entry are not counted.
    pub(super) fn take_unnameable(&mut self) -> Option<LeftOut> {
        self.unnameable.take()
    }

    /// Returns the count of [`Walker::take_unnameable`].
    pub(super) fn count_unnameable(&mut self) -> u64 {
        self.take_unnameable().map_or(0, |left| left.count)
    }

    /// Leaves the folder that is read now, after its last entry.
    fn finish_level(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        if level.unnameable == 0 || !level.shows_all {
            return;
        }
        match &mut self.unnameable {
            Some(left) => left.count += level.unnameable,
            None => {
                self.unnameable = Some(LeftOut {
                    why: LeftOutReason::NoPath,
                    count: level.unnameable,
                    is_at_least: false,
                    first: level.path,
                });
            }
        }
    }

    /// Whether the walk goes into no folder that it finds here, since it is too deep.
    pub(super) fn is_at_full_depth(&self) -> bool {
        self.levels.len() >= self.max_depth
    }

    /// Whether the walk goes on in this folder.
    pub(super) fn has_entered(&self, folder: &SpacePath) -> bool {
        self.levels.last().is_some_and(|level| level.path == *folder)
    }

    /// Returns how many folders the walk holds open.
    #[cfg(test)]
    pub(super) fn open_folders(&self) -> usize {
        self.levels.iter().filter(|level| level.folder.is_some()).count()
    }

    /// Returns the next file or folder. An entry that cannot be opened is skipped.
    pub(super) fn next(&mut self) -> Option<Found> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                match self.begin_next_start()? {
                    Some(found) => return Some(found),
                    None => continue,
                }
            };
            let open = match &level.folder {
                Some(folder) => Some(Arc::clone(folder)),
                // The walk comes back from far below.
                None => self.inner.root.open_folder(&level.path).map(Arc::new).ok(),
            };
            let Some(folder) = open else {
                self.levels.pop();
                continue;
            };
            level.folder = Some(Arc::clone(&folder));
            let Some((kind, path)) = next_entry(self.inner, self.order, level, &folder) else {
                self.finish_level();
                continue;
            };
            let Some(path) = path else { continue };
            let is_folder = kind == EntryKind::Directory;
            if !(level.shows_all || self.permit.may_show(&path))
                || self.inner.options.search_ignore.leaves_out(&path, is_folder)
            {
                continue;
            }
            let found = Found { path, kind, folder: Some(folder), start: Arc::clone(&self.start) };
            if is_folder {
                self.enter(&found.path, None);
            }
            return Some(found);
        }
    }

    /// Begins at the next start. Returns the start itself, if the walk shows it. The outer `None`
    /// means that no start is left.
    #[expect(clippy::option_option, reason = "the end of the walk is not the lack of an entry")]
    fn begin_next_start(&mut self) -> Option<Option<Found>> {
        let start = self.starts.pop_front()?;
        self.start = Arc::new(start.clone());
        let after = self.after.take().filter(|after| after.start == start);
        let is_folder = self.inner.root.open_folder(&start).is_ok();
        if self.inner.options.search_ignore.leaves_out_below(&start, is_folder) {
            return Some(None);
        }
        if is_folder {
            match &after {
                Some(after) => self.go_to(&start, after),
                None => {
                    self.enter(&start, None);
                }
            }
        }
        let is_new = after.is_none() && (start != *self.permit.path() || !is_folder);
        if !is_new {
            return Some(None);
        }
        let kind = if is_folder { EntryKind::Directory } else { EntryKind::File };
        let found = Found { path: start, kind, folder: None, start: Arc::clone(&self.start) };
        // A start may be missing: its scope names a path and not a file.
        Some(found.status(self.inner).is_some_and(|status| status.kind == kind).then_some(found))
    }

    /// Enters the folders on the way to the position after which the walk goes on.
    fn go_to(&mut self, start: &SpacePath, after: &WalkPosition) {
        let depth = start.components().count();
        let mut folder = start.clone();
        let mut rest = after.path.components().skip(depth).peekable();
        while let Some(name) = rest.next() {
            let is_last = rest.peek().is_none();
            let kind =
                if is_last && !after.is_folder { EntryKind::File } else { EntryKind::Directory };
            if !self.enter(&folder, Some((kind, name))) {
                return;
            }
            match folder.child(name) {
                Some(child)
                    if kind == EntryKind::Directory
                        && !self.inner.options.search_ignore.leaves_out(&child, true) =>
                {
                    folder = child;
                }
                _ => return,
            }
        }
        self.enter(&folder, None);
    }

    /// Opens a folder, unless it is too deep or nothing in it may be shown. Returns whether the
    /// walk goes on in the folder, with the entries after a name.
    fn enter(&mut self, path: &SpacePath, after: Option<(EntryKind, &str)>) -> bool {
        if self.levels.len() >= self.max_depth || !self.permit.may_enter(path) {
            return false;
        }
        let Ok(folder) = self.open(path) else { return false };
        let Ok((names, unnameable)) = self.names(&folder, path, after) else { return false };
        let folder = Some(Arc::new(folder));
        let shows_all = self.permit.may_show_all(path);
        self.levels.push(Level { folder, path: path.clone(), names, unnameable, shows_all });
        let far = self.levels.len().checked_sub(MOST_OPEN + 1);
        if let Some(level) = far.and_then(|far| self.levels.get_mut(far)) {
            level.folder = None;
        }
        true
    }

    fn open(&self, path: &SpacePath) -> io::Result<os::Handle> {
        fault::point(fault::Call::OpenFolder)?;
        match self.levels.last().zip(path.split()) {
            // A mount that the owner named is entered along the path.
            Some((Level { folder: Some(folder), path: above, .. }, (parent, name)))
                if *above == parent =>
            {
                os::open_folder(folder, name).or_else(|_| self.inner.root.open_folder(path))
            }
            _ => self.inner.root.open_folder(path),
        }
    }

    fn names(
        &self,
        folder: &os::Handle,
        path: &SpacePath,
        after: Option<(EntryKind, &str)>,
    ) -> io::Result<(Names, u64)> {
        let stamp = os::status(folder)?.stamp;
        let known = self.inner.folder_names().get(&stamp);
        if let Some(names) = known.filter(|names| names.are_for(path)) {
            let unnameable = names.unnameable;
            return Ok((Names::Known(KnownNames::after(names, self.order, after)), unnameable));
        }
        read_names(self.inner, self.order, folder, path, after)
    }
}

/// Takes the next entry of a level. Reads the folder again if it has more names than fit in memory.
/// The path is `None` for a name that no path can hold.
fn next_entry(
    inner: &Inner,
    order: WalkOrder,
    level: &mut Level,
    folder: &os::Handle,
) -> Option<(EntryKind, Option<SpacePath>)> {
    let Level { path, names, .. } = level;
    match names {
        Names::Known(known) => {
            let (kind, name) = known.next(order)?;
            Some((kind, path.child(name)))
        }
        Names::Read { names: left, last } => {
            if let Some((kind, name)) = left.pop_front() {
                return Some((kind, path.child(&name)));
            }
            let (kind, name) = last.take()?;
            let after = Some((kind, &*name));
            (*names, _) = read_names(inner, order, folder, path, after).ok()?;
            match names {
                Names::Read { names: left, .. } => {
                    left.pop_front().map(|(kind, name)| (kind, path.child(&name)))
                }
                Names::Known(_) => None,
            }
        }
    }
}

/// Reads the first names after a position, and counts those that no path can hold. Reads again if
/// the folder changed while the system gave its names in parts.
fn read_names(
    inner: &Inner,
    order: WalkOrder,
    folder: &os::Handle,
    path: &SpacePath,
    after: Option<(EntryKind, &str)>,
) -> io::Result<(Names, u64)> {
    let mut reads_left = MOST_READS;
    loop {
        reads_left -= 1;
        let began = os::now();
        let stamp = os::status(folder)?.stamp;
        let mut first: Vec<(EntryKind, Box<str>)> = Vec::new();
        let in_order = |one: &(EntryKind, Box<str>), other: &(EntryKind, Box<str>)| {
            order.compare((one.0, &one.1), (other.0, &other.1))
        };
        let mut has_more = false;
        let mut unnameable = 0;
        let mut all = FolderNamesBuilder::new(match order {
            WalkOrder::FoldersFirst => FOLDER_NAMES_BYTES,
            WalkOrder::ByName => MOST_KNOWN_BYTES,
        });
        let is_of_one_moment = os::entries(folder, |name, kind| {
            let Some(name) = name.filter(|name| path.can_hold(name)) else {
                unnameable += u64::from(!name.is_some_and(is_ours));
                return;
            };
            all.push(kind, name);
            if after.is_some_and(|after| order.compare((kind, name), after).is_le()) {
                return;
            }
            first.push((kind, name.into()));
            if first.len() >= 2 * MOST_NAMES {
                first.select_nth_unstable_by(MOST_NAMES, in_order);
                first.truncate(MOST_NAMES);
                has_more = true;
            }
        })?;
        let is_unchanged = os::status(folder)?.stamp == stamp;
        if is_unchanged && let Some(names) = all.build(path, unnameable) {
            inner.folder_names().insert(stamp, &Arc::new(names), began);
        }
        if is_unchanged || is_of_one_moment || reads_left == 0 {
            first.sort_unstable_by(in_order);
            has_more |= first.len() > MOST_NAMES;
            first.truncate(MOST_NAMES);
            let names = VecDeque::from(first);
            let last = names.back().filter(|_| has_more).cloned();
            return Ok((Names::Read { names, last }, unnameable));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = (EntryKind, String)> {
        let kinds = [EntryKind::Directory, EntryKind::File, EntryKind::Symlink];
        (prop::sample::select(kinds.to_vec()), "[a-cé]{1,3}")
    }

    proptest! {
        #[test]
        fn remembered_names_are_those_of_a_sorted_list_in_either_order(
            entries in prop::collection::vec(entry(), 0..20),
            at in prop::option::of(entry()),
            is_by_name in any::<bool>(),
        ) {
            let order = if is_by_name { WalkOrder::ByName } else { WalkOrder::FoldersFirst };
            let mut entries = entries;
            entries.sort_by(|one, other| one.1.cmp(&other.1));
            entries.dedup_by(|one, other| one.1 == other.1);
            let mut builder = FolderNamesBuilder::new(1 << 20);
            entries.iter().for_each(|(kind, name)| builder.push(*kind, name));
            let names = Arc::new(builder.build(&SpacePath::root(), 0).unwrap());
            let at = at.as_ref().map(|(kind, name)| (*kind, name.as_str()));
            let mut known = KnownNames::after(names, order, at);
            let found: Vec<(EntryKind, String)> =
                std::iter::from_fn(|| known.next(order).map(|(kind, name)| (kind, name.to_owned())))
                    .collect();
            entries.retain(|(kind, name)| {
                at.is_none_or(|at| order.compare((*kind, name), at).is_gt())
            });
            entries.sort_by(|one, other| order.compare((one.0, &one.1), (other.0, &other.1)));
            prop_assert_eq!(found, entries);
        }
    }
}
