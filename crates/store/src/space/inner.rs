//! What is behind all clones of a space: its root, its locks, and what it remembers of files.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use stile_domain::facts::{FileFacts, FileStamp, StampCache};
use stile_domain::notes::note_facts::NoteFacts;

use super::folder_names::FolderNames;
use super::identity::Identity;
use super::options::SpaceOptions;
use super::root::Root;
use super::unfinished_questions::UnfinishedQuestions;
use super::{append_intent, change_feed, document_texts, keeper, lock, os, word_cache};
use crate::history::History;

/// The memory for facts about files, in bytes.
const MEMORY_BYTES: usize = 32 * 1024 * 1024;
/// The memory for the names in folders, in bytes: for about a million names.
pub(super) const FOLDER_NAMES_BYTES: usize = 32 * 1024 * 1024;
/// The memory for the tags, properties and links of notes, in bytes.
const NOTE_FACTS_BYTES: usize = 32 * 1024 * 1024;
/// How many large files are hashed for the first time, or edited, at once.
const LARGE_AT_ONCE: usize = 2;
/// How many of our own writes are remembered, so that reads of them need not wait.
const OWN_WRITES: usize = 1024;

/// What a space keeps of changes: old versions, displaced files, and what recovers appends.
pub(super) type Kept =
    (Option<Arc<History>>, Arc<keeper::Keeper>, Option<append_intent::AppendIntents>);

/// What serves the calls of a space.
pub(super) struct Inner {
    pub(super) root: Arc<Root>,
    pub(super) options: Arc<SpaceOptions>,
    /// Whether the file system has advisory locks on folders. Without them every change is refused.
    pub(super) can_lock: bool,
    /// Whether the file system can exchange two names in one step.
    pub(super) can_exchange: bool,
    pub(super) folders: Arc<lock::Folders>,
    pub(super) keeper: Arc<keeper::Keeper>,
    pub(super) history: Option<Arc<History>>,
    pub(super) append_intents: Option<append_intent::AppendIntents>,
    pub(super) memory: Mutex<StampCache<FileFacts>>,
    pub(super) changes: Arc<change_feed::ChangeFeed>,
    pub(super) folder_names: Mutex<StampCache<FolderNames>>,
    pub(super) note_facts: Mutex<StampCache<NoteFacts>>,
    pub(super) unfinished: UnfinishedQuestions,
    pub(super) words: word_cache::WordCache,
    pub(super) documents: Arc<document_texts::DocumentTexts>,
    pub(super) own: Mutex<VecDeque<FileStamp>>,
    /// The state of the mark of [`SpaceOptions::cleared`] that was seen last.
    cleared: Mutex<Option<MarkState>>,
    pub(super) first_reads: lock::Turnstile,
    pub(super) large_changes: lock::Turnstile,
    /// The threads that help with searches, of all callers together.
    pub(super) search_helpers: lock::Turnstile,
}

impl Inner {
    pub(super) fn new(
        root: Arc<Root>,
        folders: Arc<lock::Folders>,
        abilities: Abilities,
        options: Arc<SpaceOptions>,
        (history, keeper, append_intents): Kept,
    ) -> Self {
        Self {
            root,
            can_lock: abilities.lock,
            can_exchange: abilities.exchange.unwrap_or(true),
            folders,
            keeper,
            history,
            append_intents,
            memory: Mutex::new(StampCache::new(MEMORY_BYTES)),
            changes: change_feed::ChangeFeed::new(),
            folder_names: Mutex::new(StampCache::new(FOLDER_NAMES_BYTES)),
            note_facts: Mutex::new(StampCache::new(NOTE_FACTS_BYTES)),
            unfinished: UnfinishedQuestions::default(),
            words: word_cache::WordCache::default(),
            documents: Arc::new(document_texts::DocumentTexts::new(options.documents.clone())),
            own: Mutex::default(),
            cleared: Mutex::new(options.cleared.as_deref().and_then(mark_state)),
            first_reads: lock::Turnstile::new(LARGE_AT_ONCE),
            large_changes: lock::Turnstile::new(LARGE_AT_ONCE),
            search_helpers: lock::Turnstile::new(search_helpers()),
            options,
        }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, StampCache<FileFacts>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is remembered of files, if the owner has asked for it since the last call.
    pub(super) fn forget_if_cleared(&self) {
        let Some(mark) = &self.options.cleared else { return };
        let now = mark_state(mark);
        let mut seen = self.cleared.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        *seen = now;
        drop(seen);
        *self.memory() = StampCache::new(MEMORY_BYTES);
        forget(&self.folder_names, StampCache::new(FOLDER_NAMES_BYTES));
        forget(&self.note_facts, StampCache::new(NOTE_FACTS_BYTES));
        self.unfinished.forget();
        self.words.forget();
        self.documents.forget();
    }

    /// Remembers the state of a file after our own write.
    pub(super) fn remember_own(&self, identity: Identity, file: &File) {
        let Ok(status) = os::status(file) else { return };
        if status.identity() == identity {
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            if own.len() == OWN_WRITES {
                own.pop_front();
            }
            own.push_back(status.stamp);
        }
    }

    /// Returns whether our own write left a file in exactly this state.
    pub(super) fn is_own(&self, stamp: &FileStamp) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().any(|own| own == stamp)
    }
}

/// The state of a file that is made anew each time: when it was made, and its number.
type MarkState = (Option<SystemTime>, Option<u64>);

fn mark_state(mark: &Path) -> Option<MarkState> {
    let metadata = std::fs::metadata(mark).ok()?;
    #[cfg(unix)]
    let inode = Some(std::os::unix::fs::MetadataExt::ino(&metadata));
    #[cfg(not(unix))]
    let inode = None;
    Some((metadata.modified().ok(), inode))
}

fn forget<T>(known: &Mutex<T>, empty: T) {
    *known.lock().unwrap_or_else(PoisonError::into_inner) = empty;
}

/// Returns how many threads help with searches at once: with the thread that walks, as many as the
/// machine has processors, and no more than four.
fn search_helpers() -> usize {
    std::thread::available_parallelism().map_or(0, |count| count.get().min(4) - 1)
}

/// The abilities of a file system.
pub(super) struct Abilities {
    pub(super) lock: bool,
    /// `None` if the probe failed, as in a folder that is not writable.
    pub(super) exchange: Option<bool>,
}

impl Abilities {
    /// Returns what two file systems both can do.
    pub(super) fn and(&self, other: &Self) -> Self {
        let exchange = match (self.exchange, other.exchange) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.or(other),
        };
        Self { lock: self.lock && other.lock, exchange }
    }
}
