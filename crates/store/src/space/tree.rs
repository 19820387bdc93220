//! Lists a folder and what is below it, and finds files by their names or by the time of their last
//! change, in bounded pages.

use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use stile_domain::find::name_pattern::NamePattern;
use stile_domain::find::near_names::NearNames;
use stile_domain::find::walk_cursor::{MatchRank, WalkCursor, WalkPosition};
use stile_domain::limits::{MAX_FOUND_NAMES, MAX_LIST_ENTRIES, MAX_PAGE_PATH_BYTES};
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};

use super::folder_names::FolderNames;
use super::read::regular;
use super::walk::{Found, WalkOrder, Walker};
use super::walk_pages::{FoundOrder, NameQuery, TreeEntry, TreePage};
use super::whole_file::HEAD;
use super::{Inner, os};

/// How long one call walks. After that it answers with what it has, and the next call goes on.
pub(super) const SLICE: Duration = Duration::from_secs(2);

/// The most names that are counted for one page of a list.
const MOST_COUNTED: usize = 20_000;

/// How long a part may take that was walked in one [`SLICE`] before.
pub(super) const LONGEST_PART: Duration = Duration::from_secs(10);

impl Inner {
    /// Lists a page for `file.list`.
    pub(super) fn list_tree(
        &self,
        permit: &Permit<Walk>,
        max_depth: usize,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let deadline = Instant::now() + SLICE;
        let order = WalkOrder::FoldersFirst;
        let mut walker = Walker::new(self, permit, order, max_depth, cursor.after)?;
        let mut page = TreePage::default();
        let (mut bytes, mut room) = (0, MOST_COUNTED);
        let mut last: Option<WalkPosition> = None;
        while let Some(found) = walker.next() {
            if page.entries.len() == MAX_LIST_ENTRIES
                || bytes >= MAX_PAGE_PATH_BYTES
                || Instant::now() >= deadline && last.is_some()
            {
                page.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                break;
            }
            last = Some(found.position());
            bytes += found.path.as_str().len();
            let is_passed_by = walker.is_at_full_depth() && !walker.has_entered(&found.path);
            let count = is_passed_by.then(|| self.known_count(permit, &found, &mut room));
            page.entries.push(TreeEntry { entry_count: count.flatten(), ..self.tree_entry(found) });
        }
        page.searched = page.entries.len() as u64;
        page.unnameable = walker.count_unnameable();
        Ok(page)
    }

    /// Finds a page of names for `file.find`.
    pub(super) fn find_names(
        &self,
        permit: &Permit<Walk>,
        query: NameQuery,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let is_first = cursor == WalkCursor::default();
        let mut near = NearNames::to(query.pattern.spelled_name());
        let kind = query.kind;
        let mut page = match (&query.pattern, query.order) {
            (_, FoundOrder::Newest) => self.find_newest(permit, query, cursor),
            (NamePattern::Glob(_), FoundOrder::Usual) => self.find_in_order(permit, query, cursor),
            (NamePattern::Fuzzy(_), FoundOrder::Usual) => self.find_best(permit, query, cursor),
        }?;
        if is_first && page.entries.is_empty() && page.next.is_none() {
            // Once more, since most searches find something and need no close names.
            let deadline = Instant::now() + SLICE;
            let mut walker = Walker::new(self, permit, WalkOrder::ByName, usize::MAX, None)?;
            while let Some(found) = walker.next().filter(|_| Instant::now() < deadline) {
                near.offer(&found.path, |_| kind.is_none_or(|kind| kind == found.kind));
            }
            page.near = near.finish();
        }
        Ok(page)
    }

    /// Finds names by a glob, in the order of the walk.
    fn find_in_order(
        &self,
        permit: &Permit<Walk>,
        query: NameQuery,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let NamePattern::Glob(glob) = &query.pattern else { return Ok(TreePage::default()) };
        let deadline = Instant::now() + SLICE;
        let mut walker = Walker::new(self, permit, WalkOrder::ByName, usize::MAX, cursor.after)?;
        let mut page = TreePage::default();
        let mut bytes = 0;
        let mut last: Option<WalkPosition> = None;
        while let Some(found) = walker.next() {
            if page.entries.len() == MAX_FOUND_NAMES
                || bytes >= MAX_PAGE_PATH_BYTES
                || Instant::now() >= deadline && last.is_some()
            {
                page.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                break;
            }
            page.searched += 1;
            last = Some(found.position());
            if query.kind.is_none_or(|kind| kind == found.kind)
                && glob.is_match(below(permit.path(), &found.path), found.name())
            {
                let entry = self.tree_entry(found);
                if query.fits(&entry) {
                    bytes += entry.path.as_str().len();
                    page.entries.push(entry);
                }
            }
        }
        page.unnameable = walker.count_unnameable();
        Ok(page)
    }

    /// Finds names that fit, the best first.
    fn find_best(
        &self,
        permit: &Permit<Walk>,
        mut query: NameQuery,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let has_times = query.has_times();
        let rank = |found: Found| self.rank(permit, &mut query, found);
        let mut page = self.best(permit, usize::MAX, cursor, rank)?;
        if !has_times {
            page.entries = page.entries.into_iter().map(|entry| self.with_status(entry)).collect();
        }
        Ok(page)
    }

    /// Finds files whose names fit, those changed last first.
    fn find_newest(
        &self,
        permit: &Permit<Walk>,
        mut query: NameQuery,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        self.newest(permit, usize::MAX, cursor, |found| {
            let below = below(permit.path(), &found.path);
            let has_name = match &mut query.pattern {
                NamePattern::Glob(glob) => glob.is_match(below, found.name()),
                NamePattern::Fuzzy(fuzzy) => fuzzy.score(below, found.name()).is_some(),
            };
            let entry = has_name.then(|| self.tree_entry(found))?;
            query.fits(&entry).then_some(entry)
        })
    }

    /// Lists the files of a folder, and of its folders down to a depth, those changed last first.
    pub(super) fn list_newest(
        &self,
        permit: &Permit<Walk>,
        max_depth: usize,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        self.newest(permit, max_depth, cursor, |found| Some(self.tree_entry(found)))
    }

    /// Finds the files that were changed last, and reads the first bytes of those on the page,
    /// since a client is told their media types. That is one small read for each of the at most
    /// [`MAX_FOUND_NAMES`] files, however many the walk passes.
    pub(super) fn recent_files(
        &self,
        permit: &Permit<Walk>,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let mut page = self.newest(permit, usize::MAX, cursor, |found| {
            permit.may_read(&found.path).then(|| self.tree_entry(found))
        })?;
        for entry in &mut page.entries {
            entry.head = self.head(&entry.path);
        }
        Ok(page)
    }

    /// Reads the first bytes of a file; `None` for one that went away.
    fn head(&self, path: &SpacePath) -> Option<Vec<u8>> {
        let opened = regular(self.root.open_file(path), path).ok()?;
        let mut head = vec![0; HEAD];
        let read = os::read_at(&opened.file, &mut head, 0).ok()?;
        head.truncate(read);
        Some(head)
    }

    /// Finds the files that `pick` picks, those changed last first.
    pub(super) fn newest(
        &self,
        permit: &Permit<Walk>,
        max_depth: usize,
        cursor: WalkCursor,
        mut pick: impl FnMut(Found) -> Option<TreeEntry>,
    ) -> Result<TreePage, Refusal> {
        self.best(permit, max_depth, cursor, |found| {
            let entry = (found.kind == EntryKind::File).then(|| pick(found))??;
            Some((u64::try_from(entry.modified?).unwrap_or(0), entry))
        })
    }

    /// Finds the entries with the highest scores, and among equals by path. `score` gives an entry
    /// its score, or `None` to leave it out. The walk is ranked in parts of [`SLICE`], so that the
    /// best of a part are shown before the next part is walked.
    fn best(
        &self,
        permit: &Permit<Walk>,
        max_depth: usize,
        cursor: WalkCursor,
        mut score: impl FnMut(Found) -> Option<(u64, TreeEntry)>,
    ) -> Result<TreePage, Refusal> {
        let deadline = Instant::now() + SLICE;
        let patience = Instant::now() + LONGEST_PART;
        let WalkCursor { after: begin, until, rank: shown, .. } = cursor;
        let mut walker = Walker::new(self, permit, WalkOrder::ByName, max_depth, begin.clone())?;
        let mut page = TreePage::default();
        let mut best: Vec<(MatchRank, TreeEntry)> = Vec::new();
        let mut has_more = false;
        let mut end = None;
        while let Some(found) = walker.next() {
            // The end of the part may be gone since. What follows it is ranked with the next part.
            if let Some(until) = until.as_ref().filter(|until| found.position().is_after(until)) {
                end = Some(until.clone());
                break;
            }
            let now = Instant::now();
            if now >= patience {
                return Err(Refusal::Busy { path: found.path, is_locked_by_other: false });
            }
            page.searched += 1;
            let is_late = until.is_none() && now >= deadline;
            let position = is_late.then(|| found.position());
            if let Some((score, entry)) = score(found) {
                let rank = MatchRank { score, path: entry.path.clone() };
                if shown.as_ref().is_none_or(|shown| shown.is_before(&rank)) {
                    best.push((rank, entry));
                }
            }
            if best.len() >= 2 * MAX_FOUND_NAMES {
                has_more |= keep_best(&mut best);
            }
            if position.is_some() {
                end = position;
                break;
            }
        }
        // The pages of one part walk it again, and all but the last leave the count to that one.
        page.unnameable = walker.count_unnameable();
        has_more |= keep_best(&mut best);
        has_more |= keep_bytes(&mut best);
        page.next = match (best.last(), end) {
            // The rest of this part.
            (Some((rank, _)), until) if has_more => {
                page.unnameable = 0;
                Some(WalkCursor { after: begin, line: 0, until, rank: Some(rank.clone()) })
            }
            // The next part.
            (_, Some(end)) => Some(WalkCursor { after: Some(end), ..WalkCursor::default() }),
            (_, None) => None,
        };
        page.entries = best.into_iter().map(|(_, entry)| entry).collect();
        Ok(page)
    }

    /// Returns the score of a found entry, and the entry, if it fits.
    fn rank(
        &self,
        permit: &Permit<Walk>,
        query: &mut NameQuery,
        found: Found,
    ) -> Option<(u64, TreeEntry)> {
        if query.kind.is_some_and(|kind| kind != found.kind) {
            return None;
        }
        let NamePattern::Fuzzy(fuzzy) = &mut query.pattern else { return None };
        let score = fuzzy.score(below(permit.path(), &found.path), found.name())?;
        let entry = if query.has_times() {
            self.tree_entry(found)
        } else {
            TreeEntry {
                path: found.path,
                kind: found.kind,
                size_bytes: None,
                modified: None,
                entry_count: None,
                head: None,
            }
        };
        query.fits(&entry).then_some((u64::from(score), entry))
    }

    fn tree_entry(&self, found: Found) -> TreeEntry {
        let status = match found.kind {
            EntryKind::File => found.status(self),
            _ => None,
        };
        // A mounted file is not a file of the space, and a file may have gone.
        let kind = match (found.kind, status) {
            (EntryKind::File, None) => EntryKind::Other,
            (kind, _) => kind,
        };
        let stamp =
            status.filter(|status| status.kind == EntryKind::File).map(|status| status.stamp);
        TreeEntry {
            path: found.path,
            kind,
            size_bytes: stamp.map(|stamp| stamp.size),
            modified: stamp.map(|stamp| stamp.modified),
            entry_count: None,
            head: None,
        }
    }

    /// Returns how many entries of a folder of several pages a list would show, if the space
    /// remembers its names and the caller may see all of them. `room` is how many names may be
    /// looked at for that.
    fn known_count(&self, permit: &Permit<Walk>, found: &Found, room: &mut usize) -> Option<u64> {
        if found.kind != EntryKind::Directory || !permit.may_show_all(&found.path) {
            return None;
        }
        let stamp = found.status(self)?.stamp;
        let is_long =
            |names: &FolderNames| names.are_for(&found.path) && names.count() > MAX_LIST_ENTRIES;
        let names = self.folder_names().get(&stamp).filter(|names| is_long(names))?;
        *room = room.checked_sub(names.count())?;
        let ignore = &self.options.search_ignore;
        let is_shown = |(kind, name): &(EntryKind, &str)| {
            found
                .path
                .child(name)
                .is_some_and(|path| !ignore.leaves_out(&path, *kind == EntryKind::Directory))
        };
        Some(names.after(None).filter(is_shown).count() as u64)
    }

    /// Adds the attributes of a file, which only a match that is shown needs.
    fn with_status(&self, mut entry: TreeEntry) -> TreeEntry {
        if entry.kind == EntryKind::File
            && let Ok(status) = self.root.open_file(&entry.path).and_then(super::os::status)
        {
            entry.size_bytes = Some(status.stamp.size);
            entry.modified = Some(status.stamp.modified);
        }
        entry
    }
}

/// Sorts matches, and drops those that the page has no room for. Returns whether it dropped any.
fn keep_best(best: &mut Vec<(MatchRank, TreeEntry)>) -> bool {
    best.sort_unstable_by(|(one, _), (other, _)| {
        (other.score, &one.path).cmp(&(one.score, &other.path))
    });
    let has_more = best.len() > MAX_FOUND_NAMES;
    best.truncate(MAX_FOUND_NAMES);
    has_more
}

/// Drops matches whose paths make the page too long. Returns whether it dropped any.
fn keep_bytes(best: &mut Vec<(MatchRank, TreeEntry)>) -> bool {
    let mut bytes = 0;
    let fitting = best.iter().take_while(|(rank, _)| {
        let fits = bytes < MAX_PAGE_PATH_BYTES;
        bytes += rank.path.as_str().len();
        fits
    });
    let (count, all) = (fitting.count(), best.len());
    best.truncate(count);
    count < all
}

/// Returns a path as it stands below a folder, without a `/` in front.
pub(super) fn below<'p>(folder: &SpacePath, path: &'p SpacePath) -> &'p str {
    let prefix = if folder.is_root() { "" } else { folder.as_str() };
    path.as_str().strip_prefix(prefix).unwrap_or(path.as_str()).trim_start_matches('/')
}
