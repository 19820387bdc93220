//! Remembers the words of files for `file.search`, by the state of each file, as facts are.
//!
//! The cache holds words, counts and slots: no text, no heading and no path. It is in memory alone,
//! within a bound, and a walk asks it only for files that the caller may read. Whatever becomes of
//! it, finished answers are the same.
//!
//! A question looks at all files in one order, so a cache that drops the oldest file would drop
//! each one just before it is needed. A full cache drops files that no recent call asked for, and
//! takes no other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use stile_domain::facts::{FileStamp, Footprint as _, UnixNanos};
use stile_domain::recall::file_words::{FileKind, FileWords};
use stile_domain::recall::packed_words::{PackedWords, WordTable};

use super::left_out::LeftOutReason;

/// The memory for the words of files, in bytes: about 100,000 notes of 1.5 KB, or 150 MB of text.
const FILES_BYTES: usize = 128 * 1024 * 1024;
/// The memory for the table of words, in bytes: about 300,000 words.
const TABLE_BYTES: usize = 48 * 1024 * 1024;
/// What a file takes beside its words: its place in the table, at most doubled, and its counts.
const FILE_BYTES: usize = 256;
/// A file that none of the latest calls asked for may be dropped.
const RECENT_CALLS: u64 = 16;
/// A full table begins anew after so many calls: it may hold words that no file has any more.
const CALLS_OF_A_FULL_TABLE: u64 = 1024;

/// The words of the files of a space.
#[derive(Default)]
pub(super) struct WordCache(Mutex<Option<Arc<Generation>>>);

/// A table of words, and the files that are packed with it.
pub(super) struct Generation {
    table: RwLock<WordTable>,
    files: Mutex<KnownFiles>,
}

#[derive(Default)]
struct KnownFiles {
    known: HashMap<(FileStamp, bool), KnownFile>,
    bytes: usize,
    /// How many calls began.
    calls: u64,
    /// The call after which files were dropped last.
    dropped: u64,
}

struct KnownFile {
    content: KnownContent,
    used: u64,
}

/// What is known of a file in one state.
#[derive(Clone)]
pub(super) enum KnownContent {
    Words(Arc<PackedWords>),
    /// The file is not ranked.
    LeftOut(LeftOutReason),
}

impl KnownContent {
    fn bytes(&self) -> usize {
        match self {
            Self::Words(words) => FILE_BYTES + words.heap_bytes(),
            Self::LeftOut(_) => FILE_BYTES,
        }
    }
}

impl WordCache {
    /// Forgets the words of all files.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Begins a call. All that the call does is with the returned table.
    pub(super) fn begin(&self) -> Arc<Generation> {
        let mut generation = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |known: &Arc<Generation>| {
            let calls = known.files().calls;
            calls > CALLS_OF_A_FULL_TABLE && known.table().is_full()
        };
        let current = generation.take().filter(|known| !is_over(known));
        let current = current.unwrap_or_else(|| Arc::new(Generation::new()));
        current.files().calls += 1;
        *generation = Some(Arc::clone(&current));
        current
    }
}

impl Generation {
    fn new() -> Self {
        Self { table: RwLock::new(WordTable::new(TABLE_BYTES)), files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, KnownFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn table(&self) -> RwLockReadGuard<'_, WordTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of the file in exactly this state.
    pub(super) fn get(&self, stamp: FileStamp, kind: FileKind) -> Option<KnownContent> {
        let mut files = self.files();
        let calls = files.calls;
        let known = files.known.get_mut(&(stamp, kind == FileKind::Note))?;
        known.used = calls;
        Some(known.content.clone())
    }

    /// Remembers the words of a file that was read at `began`, when it had this stamp, and returns
    /// them. Does nothing where the stamp has not settled or where there is no room.
    pub(super) fn insert(
        &self,
        (stamp, kind): (FileStamp, FileKind),
        words: &FileWords,
        began: UnixNanos,
    ) -> Option<Arc<PackedWords>> {
        if !stamp.settled_at(began) || !self.files().has_room() {
            return None;
        }
        let mut numbers = self.table().known(words);
        if !numbers.are_all() {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            if !table.add(words, &mut numbers) {
                return None;
            }
        }
        let packed = Arc::new(PackedWords::with(words, &numbers)?);
        self.remember((stamp, kind), KnownContent::Words(Arc::clone(&packed))).then_some(packed)
    }

    /// Remembers that a file is not ranked, as [`Generation::insert`] does.
    pub(super) fn insert_left_out(
        &self,
        file: (FileStamp, FileKind),
        why: LeftOutReason,
        began: UnixNanos,
    ) {
        if file.0.settled_at(began) && self.files().has_room() {
            self.remember(file, KnownContent::LeftOut(why));
        }
    }

    /// Returns whether there was room.
    fn remember(&self, (stamp, kind): (FileStamp, FileKind), content: KnownContent) -> bool {
        let mut files = self.files();
        let (bytes, used) = (content.bytes(), files.calls);
        if files.bytes + bytes > FILES_BYTES {
            return false;
        }
        files.bytes += bytes;
        let known = KnownFile { content, used };
        if let Some(old) = files.known.insert((stamp, kind == FileKind::Note), known) {
            files.bytes -= old.content.bytes();
        }
        true
    }
}

impl KnownFiles {
    /// Whether another file may fit. Drops files that no recent call asked for, once in a while.
    fn has_room(&mut self) -> bool {
        if self.bytes < FILES_BYTES - FILES_BYTES / 16 {
            return true;
        }
        if self.dropped + RECENT_CALLS <= self.calls {
            self.dropped = self.calls;
            let oldest = self.calls.saturating_sub(RECENT_CALLS);
            self.known.retain(|_, known| known.used > oldest);
            let left = self.known.values().map(|known| known.content.bytes());
            self.bytes = left.sum();
        }
        self.bytes < FILES_BYTES - FILES_BYTES / 16
    }
}
