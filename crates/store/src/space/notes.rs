//! Finds notes by their tags, properties and links, a time slice for each call.
//!
//! What was found of a note is remembered for exactly the state of its file, so a second question
//! reads only the notes that changed. Names that the caller may not read take no part: not as
//! notes, and not as files to which a link might lead.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use stile_domain::error::Refusal;
use stile_domain::facts::StampCache;
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::limits::MAX_FOUND_NAMES;
use stile_domain::listing::EntryKind;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::canvas::facts_of_file;
use stile_domain::notes::links::{LinkedFiles, NoteLink};
use stile_domain::notes::note_facts::NoteFacts;
use stile_domain::notes::note_query::{KnownLinks, NoteQuery, is_canvas, is_note, may_have_links};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Read, Walk};
use stile_domain::text_encoding::utf_8;

use crate::cancellation::Cancellation;

use super::tree::{LONGEST_PART, SLICE};
use super::walk::{Found, WalkOrder, Walker};
use super::walk_pages::{
    FoundOrder, LinkDirection, LinkPage, NotePage, OutLink, TreeEntry, ValueCounts,
};
use super::whole_file::read_whole;
use super::{Inner, os};

/// The order of every walk here: the space remembers the names of folders in this order.
pub(super) const ORDER: WalkOrder = WalkOrder::FoldersFirst;

/// What is known of a note, and the state of its file.
pub(super) struct KnownNote {
    pub(super) facts: Arc<NoteFacts>,
    stamp: stile_domain::facts::FileStamp,
}

/// Returns whether an entry of a walk is a note that the caller may read.
fn is_readable_note(permit: &Permit<Walk>, found: &Found) -> bool {
    is_note(found.name()) && may_have_readable_links(permit, found)
}

/// Returns whether an entry of a walk is a note or a canvas that the caller may read.
pub(super) fn may_have_readable_links(permit: &Permit<Walk>, found: &Found) -> bool {
    found.kind == EntryKind::File && may_have_links(found.name()) && permit.may_read(&found.path)
}

impl Inner {
    /// Finds a page of notes for `note.find`. `names` permits the walk over the files to which
    /// links may lead.
    pub(super) fn find_notes(
        &self,
        permit: &Permit<Walk>,
        names: &Permit<Walk>,
        (query, order): (&NoteQuery, FoundOrder),
        cursor: WalkCursor,
        cancellation: &Cancellation,
    ) -> Result<NotePage, Refusal> {
        let links = self.known_links(names, query, cancellation)?;
        let mut page = NotePage::default();
        let (mut searched, mut skipped) = (0, 0);
        let mut pick = |found: &Found| {
            // A canvas has links, and nothing else that a query asks for.
            let is_wanted = match query.links_to {
                Some(_) => may_have_readable_links(permit, found),
                None => is_readable_note(permit, found),
            };
            let known = is_wanted.then(|| self.known_note(found))?;
            *(if known.is_some() { &mut searched } else { &mut skipped }) += 1;
            let KnownNote { facts, stamp } = known?;
            query.fits(&found.path, &facts, &links).then(|| TreeEntry {
                path: found.path.clone(),
                kind: EntryKind::File,
                size_bytes: Some(stamp.size),
                modified: Some(stamp.modified),
                entry_count: None,
                head: None,
            })
        };
        if order == FoundOrder::Newest {
            let newest = self.newest(permit, usize::MAX, cursor, |found| pick(&found))?;
            (page.notes, page.next) = (newest.entries, newest.next);
            page.unnameable = newest.unnameable;
        } else {
            let deadline = Instant::now() + SLICE;
            let mut walker = Walker::new(self, permit, ORDER, usize::MAX, cursor.after)?;
            let mut last: Option<WalkPosition> = None;
            while let Some(found) = walker.next() {
                if cancellation.is_cancelled() {
                    return Err(Refusal::Cancelled);
                }
                let is_full = page.notes.len() == MAX_FOUND_NAMES;
                if is_full || Instant::now() >= deadline && last.is_some() {
                    page.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                    break;
                }
                last = Some(found.position());
                page.notes.extend(pick(&found));
            }
            page.unnameable = walker.count_unnameable();
        }
        (page.searched, page.skipped) = (searched, skipped);
        Ok(page)
    }

    /// Counts the tags of the notes in a folder, or the values of one property of them.
    pub(super) fn count_values(
        &self,
        permit: &Permit<Walk>,
        property: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<ValueCounts, Refusal> {
        let mut counts: HashMap<Box<str>, u64> = HashMap::new();
        let mut result = ValueCounts::default();
        let unnameable = self.each_known(permit, cancellation, |found, known| {
            if !is_note(found.name()) {
                return;
            }
            let Some(known) = known else {
                result.skipped += 1;
                return;
            };
            result.searched += 1;
            let mut values: Vec<&Box<str>> = match property {
                None => known.facts.tags.iter().collect(),
                Some(name) => {
                    let named = known.facts.properties.iter().filter(|one| *one.name == *name);
                    named.flat_map(|property| &property.values).collect()
                }
            };
            values.sort_unstable();
            values.dedup();
            for value in values {
                *counts.entry(value.clone()).or_default() += 1;
            }
        })?;
        result.unnameable = unnameable;
        result.counts = counts.into_iter().collect();
        result.counts.sort_unstable_by(|(one, a), (other, b)| (b, one).cmp(&(a, other)));
        Ok(result)
    }

    /// Learns where links lead, as far as a question needs it. The walk is not cut: a link is
    /// ambiguous or not by all names together.
    fn known_links(
        &self,
        names: &Permit<Walk>,
        query: &NoteQuery,
        cancellation: &Cancellation,
    ) -> Result<KnownLinks, Refusal> {
        let mut links = KnownLinks::default();
        let mut all: Vec<(SpacePath, Arc<NoteFacts>)> = Vec::new();
        if query.asks_for_all_links() {
            self.each_known(names, cancellation, |found, known| {
                all.extend(known.map(|known| (found.path.clone(), known.facts)));
            })?;
            let targets = all.iter().flat_map(|(_, facts)| &facts.links).map(|link| &link.target);
            links.files = LinkedFiles::for_targets(targets);
        }
        if let Some(path) = &query.links_to {
            links.files = links.files.and_for_path(path);
        }
        if query.links_to.is_some() || query.asks_for_all_links() {
            self.add_linked_files(names, &mut links.files, cancellation)?;
        }
        for (path, facts) in all.iter().filter(|_| query.is_orphan) {
            links.add(path, facts);
        }
        Ok(links)
    }

    /// Visits each note and canvas that the caller may read, with what is known of it; `None` for
    /// one that cannot be looked into. Returns how many entries no path can name.
    fn each_known(
        &self,
        permit: &Permit<Walk>,
        cancellation: &Cancellation,
        mut visit: impl FnMut(&Found, Option<KnownNote>),
    ) -> Result<u64, Refusal> {
        let patience = Instant::now() + LONGEST_PART;
        let mut walker = Walker::new(self, permit, ORDER, usize::MAX, None)?;
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            // What was read is remembered, so the next try gets further.
            if Instant::now() >= patience {
                return Err(Refusal::Busy { path: found.path, is_locked_by_other: false });
            }
            if may_have_readable_links(permit, &found) {
                visit(&found, self.known_note(&found));
            }
        }
        Ok(walker.count_unnameable())
    }

    /// Returns a page of the links from and to a note, for `note.links`. `names` permits the walk
    /// over the whole space.
    ///
    /// A cursor without a path counts the links from the note that were shown. One with a path is
    /// at a note that links here, and counts its links that were shown; 0 if all were.
    pub(super) fn note_links(
        &self,
        permit: &Permit<Read>,
        names: &Permit<Walk>,
        direction: LinkDirection,
        cursor: WalkCursor,
        cancellation: &Cancellation,
    ) -> Result<LinkPage, Refusal> {
        let deadline = Instant::now() + SLICE;
        let note = permit.path();
        let too_large = || Refusal::TooLarge {
            path: note.clone(),
            limit_bytes: MAX_NOTE_BYTES,
            advice: "Call `text.read`, which reads a part of it.",
        };
        let text = self.read_text(note, MAX_NOTE_BYTES)?;
        let unread = || is_canvas(note.as_str()).then(NoteFacts::default).ok_or_else(too_large);
        // A canvas that cannot be read has no links.
        let facts = facts_of_file(note.as_str(), &text).map_or_else(unread, Ok)?;
        let mut page = LinkPage::default();
        if direction != LinkDirection::In && cursor.after.is_none() {
            let mut files = LinkedFiles::for_targets(facts.links.iter().map(|link| &link.target));
            self.add_linked_files(names, &mut files, cancellation)?;
            let shown = usize::try_from(cursor.line).unwrap_or(usize::MAX);
            let left = facts.links.get(shown..).unwrap_or_default();
            page.out.extend(left.iter().take(MAX_FOUND_NAMES).map(|link| OutLink {
                path: files.resolve(&link.target, note).cloned(),
                link: link.clone(),
            }));
            let line = cursor.line.saturating_add(page.out.len() as u64);
            let is_more = left.len() > page.out.len();
            if is_more || page.is_full() && direction == LinkDirection::Both {
                page.next = Some(WalkCursor { line, ..WalkCursor::default() });
                return Ok(page);
            }
        }
        if direction != LinkDirection::Out {
            self.add_links_to(note, names, &mut page, cursor, deadline, cancellation)?;
        }
        Ok(page)
    }

    /// Adds the links of other notes to `note`, until the page is full or the time is over.
    fn add_links_to(
        &self,
        note: &SpacePath,
        names: &Permit<Walk>,
        page: &mut LinkPage,
        cursor: WalkCursor,
        deadline: Instant,
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        let mut files = LinkedFiles::for_path(note);
        self.add_linked_files(names, &mut files, cancellation)?;
        let begun = cursor.after.clone().filter(|at| cursor.line > 0 && names.may_read(&at.path));
        let mut walker = Walker::new(self, names, ORDER, usize::MAX, cursor.after)?;
        let mut begun = begun.map(|at| (Found::at(at), cursor.line));
        let mut last = None;
        while let Some((found, shown)) =
            begun.take().or_else(|| walker.next().map(|found| (found, 0)))
        {
            page.unnameable += walker.count_unnameable();
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if last.is_some() && (page.is_full() || Instant::now() >= deadline) {
                page.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                return Ok(());
            }
            last = Some(found.position());
            if !may_have_readable_links(names, &found) {
                continue;
            }
            let Some(known) = self.known_note(&found) else {
                page.skipped += 1;
                continue;
            };
            page.searched += 1;
            let leads = |link: &&NoteLink| {
                files.may_lead(&link.target)
                    && files.resolve(&link.target, &found.path) == Some(note)
            };
            let shown_before = usize::try_from(shown).unwrap_or(usize::MAX);
            let leading = known.facts.links.iter().filter(leads).skip(shown_before);
            for (link, count) in leading.zip(shown..) {
                if page.is_full() {
                    page.next = Some(WalkCursor { after: last, line: count, ..Default::default() });
                    return Ok(());
                }
                page.links_here.push((found.path.clone(), link.clone()));
            }
        }
        page.unnameable += walker.count_unnameable();
        Ok(())
    }

    /// Adds the files of wanted names, in all that the caller may read. The walk is not cut: a link
    /// is ambiguous or not by all names together.
    fn add_linked_files(
        &self,
        permit: &Permit<Walk>,
        files: &mut LinkedFiles,
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        self.add_to_each(permit, [files], cancellation)
    }

    /// Adds files to several sets, as [`Inner::add_linked_files`] does, in one walk.
    pub(super) fn add_to_each<const SETS: usize>(
        &self,
        permit: &Permit<Walk>,
        mut sets: [&mut LinkedFiles; SETS],
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        let mut walker = Walker::new(self, permit, ORDER, usize::MAX, None)?;
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if found.kind != EntryKind::File {
                continue;
            }
            for files in &mut sets {
                if files.wants(found.name()) {
                    files.add(found.path.clone());
                }
            }
        }
        Ok(())
    }

    /// Returns what is known of a note; `None` for one that is too large, not text, gone, or being
    /// changed.
    pub(super) fn known_note(&self, found: &Found) -> Option<KnownNote> {
        let status = found.status(self).filter(|status| status.kind == EntryKind::File)?;
        let stamp = status.stamp;
        if stamp.size > MAX_NOTE_BYTES {
            return None;
        }
        if let Some(facts) = self.note_facts().get(&stamp) {
            return Some(KnownNote { facts, stamp });
        }
        let file = found.open(self).ok()?;
        let began = os::now();
        let stamp = os::status(&file).ok().filter(|status| status.kind == EntryKind::File)?.stamp;
        let bytes = read_whole(&file, stamp.size, MAX_NOTE_BYTES).ok()??;
        if os::status(&file).ok()?.stamp != stamp {
            return None;
        }
        let text = utf_8(&bytes)?;
        let facts = Arc::new(facts_of_file(found.name(), text)?);
        self.note_facts().insert(stamp, &facts, began);
        Some(KnownNote { facts, stamp })
    }

    fn note_facts(&self) -> std::sync::MutexGuard<'_, StampCache<NoteFacts>> {
        self.note_facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
