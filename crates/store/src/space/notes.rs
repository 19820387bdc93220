//! Finds notes by their tags, properties and links, a time slice for each call.
//!
//! What was found of a note is remembered for exactly the state of its file, so a second question
//! reads only the notes that changed. Names that the caller may not read take no part: not as
//! notes, and not as files to which a link might lead.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use stile_domain::error::Refusal;
use stile_domain::facts::StampCache;
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::limits::MAX_FOUND_NAMES;
use stile_domain::listing::EntryKind;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::links::LinkedFiles;
use stile_domain::notes::note_facts::NoteFacts;
use stile_domain::notes::note_query::{NoteQuery, is_note};
use stile_domain::permit::{Permit, Walk};

use crate::cancellation::Cancellation;

use super::read::read_whole;
use super::tree::SLICE;
use super::walk::{Found, WalkOrder, Walker};
use super::walk_pages::{NotePage, TreeEntry};
use super::{Inner, os};

/// The order of every walk here: the space remembers the names of folders in this order.
const ORDER: WalkOrder = WalkOrder::FoldersFirst;

/// What is known of a note, and the state of its file.
struct KnownNote {
    facts: Arc<NoteFacts>,
    stamp: stile_domain::facts::FileStamp,
}

impl Inner {
    /// Finds a page of notes for `note.find`. `names` permits the walk over the files to which
    /// links may lead.
    pub(super) fn find_notes(
        &self,
        permit: &Permit<Walk>,
        names: &Permit<Walk>,
        query: &NoteQuery,
        cursor: WalkCursor,
        cancellation: &Cancellation,
    ) -> Result<NotePage, Refusal> {
        let deadline = Instant::now() + SLICE;
        let mut walker = Walker::new(self, permit, ORDER, usize::MAX, cursor.after)?;
        let mut files = query.links_to.as_ref().map(LinkedFiles::for_path).unwrap_or_default();
        if query.links_to.is_some() {
            self.add_linked_files(names, &mut files, cancellation)?;
        }
        let mut page = NotePage::default();
        let mut last: Option<WalkPosition> = None;
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if page.notes.len() == MAX_FOUND_NAMES || Instant::now() >= deadline && last.is_some() {
                page.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                break;
            }
            last = Some(found.position());
            if found.kind != EntryKind::File || !is_note(found.name()) {
                continue;
            }
            let Some(note) = self.known_note(&found) else {
                page.skipped += 1;
                continue;
            };
            page.searched += 1;
            if query.fits(&found.path, &note.facts, &files) {
                page.notes.push(TreeEntry {
                    path: found.path,
                    kind: EntryKind::File,
                    size_bytes: Some(note.stamp.size),
                    modified: Some(note.stamp.modified),
                });
            }
        }
        Ok(page)
    }

    /// Adds the files of wanted names, in all that the caller may read. The walk is not cut: a link
    /// is ambiguous or not by all names together.
    fn add_linked_files(
        &self,
        permit: &Permit<Walk>,
        files: &mut LinkedFiles,
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        let mut walker = Walker::new(self, permit, ORDER, usize::MAX, None)?;
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if found.kind == EntryKind::File && files.wants(found.name()) {
                files.add(found.path);
            }
        }
        Ok(())
    }

    /// Returns what is known of a note; `None` for one that is too large, not text, gone, or being
    /// changed.
    fn known_note(&self, found: &Found) -> Option<KnownNote> {
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
        let facts = Arc::new(NoteFacts::of(std::str::from_utf8(&bytes).ok()?)?);
        self.note_facts().insert(stamp, &facts, began);
        Some(KnownNote { facts, stamp })
    }

    fn note_facts(&self) -> std::sync::MutexGuard<'_, StampCache<NoteFacts>> {
        self.note_facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
