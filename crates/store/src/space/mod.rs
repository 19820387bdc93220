//! The files of the space, beneath one directory handle.
//!
//! The functions of a [`Space`] take permits. They are asynchronous, and run blocking code on
//! another thread. `os` makes the system calls, `lock` locks folders, `attempt` waits for locks
//! without a thread, `thread_share` is the caller's share of the threads, `foreign_lock` finds out
//! who else holds a lock, `write` compares and swaps, `append` adds to a file as it is,
//! `append_intent` recovers that after a kill, `moves` moves files, `new_folders` makes folders,
//! `folder_moves` moves and removes folders (`folder_tree` looks at all that they hold, and
//! `folder_rest` gives back what of that has no path), `recorded`
//! records changes in the history, `restore` gives files old versions, `conflict` makes conflict
//! copies, `keeper` keeps displaced files, `held` holds them in the state folder, `clean` cleans up
//! after a kill, `edit_refusal` explains refused edits, `edited_text` decodes and encodes what is
//! edited, `document_texts` has the texts of documents, `read` reads windows (`whole_file` whole
//! files), `folder_names` remembers what folders hold, and `names` names our own files. `walk` goes
//! through a folder and what is below it, except for what `search_ignore` leaves out; `tree` lists
//! and finds names on the way, `text_search` finds texts (`hit_lines` collects them, also from
//! `long_lines`), `recall` ranks files by a question (`recall_reads` looks at them, `word_cache`
//! remembers their words, `unfinished_questions` what else was found so far, and `recall_pages` is
//! what it is asked for and answers), `shared_work` gives files to the threads of both, and `notes`
//! finds notes by their facts; `walk_pages` is what the others are asked for and answer, and
//! `left_out` counts what a search did not look into.
//! `disclosure` is what a refusal may tell, and `refusals` keeps to it. `link_rewriting` moves a
//! file and rewrites the links that led to it, `folder_links` a folder. `changes` finds out what
//! changed, and `change_feed` wakes those who watch it. `note_folder` lists, reads and watches all
//! notes for their owner. `opening` opens all this, at the start or for the first call.

mod append;
mod append_intent;
mod attempt;
mod change_feed;
mod changes;
mod clean;
mod conflict;
mod disclosure;
mod document_texts;
mod edit_refusal;
mod edited_text;
mod fault;
mod file_hash;
mod folder_links;
mod folder_moves;
mod folder_names;
mod folder_rest;
mod folder_tree;
mod foreign_lock;
mod held;
mod hit_lines;
mod identity;
mod inner;
mod keeper;
mod left_out;
mod link_rewriting;
mod list;
mod lock;
mod long_lines;
mod moves;
mod names;
mod new_folders;
mod new_text;
pub mod note_folder;
mod notes;
mod opening;
mod options;
mod os;
mod read;
mod recall;
mod recall_pages;
mod recall_reads;
mod recorded;
mod refusals;
mod restore;
mod root;
mod search_ignore;
mod shared_work;
mod text_search;
mod thread_share;
mod tree;
mod unfinished_questions;
mod walk;
mod walk_pages;
mod whole_file;
mod windows;
mod word_cache;
mod write;

#[cfg(test)]
mod mount_tests;
#[cfg(test)]
mod power_cut_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::hash::ContentHash;
use stile_domain::limits::FileLimits;
use stile_domain::listing::{EntryKind, ListPage, ListPosition};
use stile_domain::notes::note_query::NoteQuery;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Append, Edit, EditTree, List, Permit, Read, ReadTree, Walk};
use stile_domain::text_encoding::TextEncoding;

use crate::cancellation::Cancellation;
use crate::history::{Call, History};
use crate::on_first_use::OnFirstUse;

pub use change_feed::{Watch, WatchRefused};
pub use conflict::SpaceEvents;
use disclosure::Disclosure;
use inner::{Abilities, Inner};
pub use left_out::{LeftOut, LeftOutReason};
pub use new_text::NewText;
pub use options::SpaceOptions;
use os::Problem;
pub use recall_pages::{
    RecallBudget, RecallKind, RecallPage, RecallQuery, RecalledFile, RecalledPassage,
};
pub use root::Unserved;
use root::{Check, Root};
pub use search_ignore::{BadIgnoreRule, SEARCH_IGNORE, SearchIgnore};
pub use thread_share::ThreadShare;
pub use walk_pages::{
    FoundOrder, LinkDirection, LinkPage, LinkRewrites, LinkRewriting, NameQuery, NotePage,
    NoteRewrite, OutLink, RewriteOutcome, SearchHit, SearchPage, TextSearch, TreeEntry, TreePage,
    ValueCounts,
};
pub use windows::{DocumentWindow, FileBytes, FileWindow, ReadAs, WindowContinuation, WindowStart};

/// A folder that agents are let into. All clones are the same space. A method that takes a permit
/// fails with a [`Refusal`] for the agent.
#[derive(Clone)]
pub struct Space {
    /// What serves the calls. The first call that touches files opens it, if no start did.
    inner: Arc<OnFirstUse<Arc<Inner>, OpenError>>,
    options: Arc<SpaceOptions>,
    cancellation: Cancellation,
    call: Arc<Call>,
    history_reach: HistoryReach,
    thread_share: Option<Arc<dyn ThreadShare>>,
}

/// The error if the root of a space cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the space cannot be opened: {0}")]
pub struct OpenError(#[from] io::Error);

impl OpenError {
    /// Returns which kind of error the system gave.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

/// A file that was created.
#[derive(Clone, Copy, Debug)]
pub struct CreatedFile {
    /// The hash of the bytes.
    pub hash: ContentHash,
    /// The size of the file in bytes.
    pub size_bytes: u64,
    /// The number of lines. `None` if the file is not text.
    pub total_lines: Option<u64>,
}

/// A file that was changed.
#[derive(Clone, Copy, Debug)]
pub struct EditedFile {
    /// The hash of the new bytes.
    pub hash: ContentHash,
    /// The new size in bytes.
    pub size_bytes: u64,
    /// The number of lines of the new text; 0 for a file that is not text.
    pub total_lines: u64,
}

/// Whose changes a caller may see and take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryReach {
    /// The changes of the caller alone.
    #[default]
    OwnChanges,
    /// All changes, for the owner.
    AllChanges,
}

/// A file that got an old version.
#[derive(Clone, Copy, Debug)]
pub struct RestoredFile {
    /// The hash of the version.
    pub hash: ContentHash,
    /// The size of the file in bytes.
    pub size_bytes: u64,
}

/// What the first call that touches files needs to open a space.
pub struct FirstUse {
    /// Opens the history; `None` for a space that keeps no old versions.
    pub history: Box<dyn FnMut() -> Option<Arc<History>> + Send>,
    /// Tells the person who started the program what the folder lacks.
    pub notices: Box<dyn FnMut(Vec<String>) + Send>,
}

impl Space {
    /// Opens a folder of the machine, by the authority of the person who started the program.
    /// Cleans up after killed processes. Also returns notices for that person.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be opened.
    pub fn open_ambient(
        root: &Path,
        options: SpaceOptions,
    ) -> Result<(Self, Vec<String>), OpenError> {
        Self::open_ambient_with(root, options, None)
    }

    /// Opens a folder of the machine as [`Space::open_ambient`] does. Its changes are recorded in
    /// the history, if there is one.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be opened.
    pub fn open_ambient_with(
        root: &Path,
        options: SpaceOptions,
        history: Option<Arc<History>>,
    ) -> Result<(Self, Vec<String>), OpenError> {
        let root = Arc::new(Root::open(root, &options.mounts)?);
        let options = Arc::new(options);
        let (inner, notices) = Inner::open(root, &options, history)?;
        Ok((Self::of(OnFirstUse::made(Arc::new(inner)), options), notices))
    }

    /// Opens the root folder of a space alone. The first call that touches files opens the rest as
    /// [`Space::open_ambient_with`] does, with what `first` gives, and is answered after that.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be opened. A later failure refuses the call, and the next
    /// call tries again.
    pub fn open_ambient_on_first_use(
        root: &Path,
        options: SpaceOptions,
        mut first: FirstUse,
    ) -> Result<Self, OpenError> {
        let root = Arc::new(Root::open(root, &options.mounts)?);
        let options = Arc::new(options);
        let opened = Arc::clone(&options);
        let inner = OnFirstUse::new(move || {
            let (inner, notices) = Inner::open(Arc::clone(&root), &opened, (first.history)())?;
            (first.notices)(notices);
            Ok(Arc::new(inner))
        });
        Ok(Self::of(inner, options))
    }

    /// Opens a folder of the machine for reading, by the authority of the person who started the
    /// program. Writes nothing to the folder, and every change is refused.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be opened.
    pub fn open_ambient_to_read(root: &Path, options: SpaceOptions) -> Result<Self, OpenError> {
        Ok(Self::of_root_to_read(Root::open(root, &options.mounts)?, options))
    }

    /// Opens a folder of the machine that is served to nobody. Reads and writes nothing in the
    /// folder, and every call is refused.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be opened.
    pub fn open_ambient_unserved(
        root: &Path,
        why: Unserved,
        options: SpaceOptions,
    ) -> Result<Self, OpenError> {
        Ok(Self::of_root_to_read(Root::open_unserved(root, why)?, options))
    }

    fn of_root_to_read(root: Root, options: SpaceOptions) -> Self {
        let abilities = Abilities { lock: false, exchange: None };
        let (root, options) = (Arc::new(root), Arc::new(options));
        let keeper = keeper::Keeper::new(0, None, Arc::clone(&options.events));
        let kept = (None, keeper, None);
        let inner = Inner::new(root, Arc::default(), abilities, Arc::clone(&options), kept);
        Self::of(OnFirstUse::made(Arc::new(inner)), options)
    }

    fn of(inner: OnFirstUse<Arc<Inner>, OpenError>, options: Arc<SpaceOptions>) -> Self {
        let (cancellation, call) = (Cancellation::default(), Arc::default());
        let history_reach = HistoryReach::default();
        let (inner, thread_share) = (Arc::new(inner), None);
        Self { inner, options, cancellation, call, history_reach, thread_share }
    }

    /// Reads lines of a text file.
    pub async fn read(
        &self,
        permit: Permit<Read>,
        from: WindowStart,
        encoding: ReadAs,
    ) -> Result<FileWindow, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.read(permit.path(), &from, encoding)).await
    }

    /// Reads at most `length` bytes of a file of any kind.
    pub async fn read_bytes(
        &self,
        permit: Permit<Read>,
        offset: u64,
        length: usize,
    ) -> Result<FileBytes, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.read_bytes(permit.path(), offset, length)).await
    }

    /// Reads a whole text file of at most `max_bytes` bytes, and returns what `derive` makes of its
    /// text. Opens the file once, and remembers nothing of the text.
    pub async fn derive<T: Send + 'static>(
        &self,
        permit: Permit<Read>,
        max_bytes: u64,
        derive: impl FnOnce(&str) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let to = Disclosure::of(&permit);
        let read = move |inner: &Inner| inner.read_text(permit.path(), max_bytes);
        self.answer(to, move |inner| read(inner).map(|text| derive(&text))).await
    }

    /// Lists a page of the entries of a directory that the caller may see.
    pub async fn list(
        &self,
        permit: Permit<List>,
        after: Option<ListPosition>,
    ) -> Result<ListPage, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.list(&permit, after.as_ref())).await
    }

    /// Returns names of a folder that no path can express, `most` at most: those that are not
    /// UTF-8 or have a control character, and others. Bytes that are not part of a character are
    /// written as `\\xff`.
    pub async fn odd_names(
        &self,
        permit: Permit<List>,
        most: usize,
    ) -> Result<Vec<String>, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.odd_names(&permit, most)).await
    }

    /// Lists a page of a folder and what is below it, `max_depth` folders deep.
    pub async fn list_tree(
        &self,
        permit: Permit<Walk>,
        max_depth: usize,
        order: FoundOrder,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| match order {
            FoundOrder::Usual => inner.list_tree(&permit, max_depth, cursor),
            FoundOrder::Newest => inner.list_newest(&permit, max_depth, cursor),
        })
        .await
    }

    /// Finds a page of files and folders by their names.
    pub async fn find_names(
        &self,
        permit: Permit<Walk>,
        query: NameQuery,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.find_names(&permit, query, cursor)).await
    }

    /// Finds a page of the files that were changed last, the newest first.
    pub async fn recent_files(
        &self,
        permit: Permit<Walk>,
        cursor: WalkCursor,
    ) -> Result<TreePage, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.recent_files(&permit, cursor)).await
    }

    /// Finds a page of lines in files.
    pub async fn search_text(
        &self,
        permit: Permit<Walk>,
        search: TextSearch,
        cursor: WalkCursor,
    ) -> Result<SearchPage, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.search_text(&permit, &search, cursor, &cancellation))
            .await
    }

    /// Finds the files that fit a question best. `key` is the same for the same arguments: a
    /// question that is not finished is known by it.
    pub async fn recall(
        &self,
        permit: Permit<Walk>,
        (key, query): (String, RecallQuery),
        cursor: WalkCursor,
    ) -> Result<RecallPage, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&permit);
        let budget = recall::CALL_BUDGET;
        self.answer(to, move |inner| {
            inner.recall(&permit, (&key, &query), cursor, budget, &cancellation)
        })
        .await
    }

    /// Refuses the path of a file that is not there, with the names that are close to it.
    ///
    /// # Errors
    /// A [`Refusal`].
    pub async fn check_file(&self, permit: Permit<Read>) -> Result<(), Refusal> {
        let (to, path) = (Disclosure::of(&permit), permit.path().clone());
        self.answer(to, move |inner| read::regular(inner.root.open_file(&path), &path).map(|_| ()))
            .await
    }

    /// Counts the files that one caller may read and another may not, below the folder of both.
    ///
    /// # Errors
    /// A [`Refusal`].
    pub async fn count_hidden(
        &self,
        (all, shown): (Permit<Walk>, Permit<Walk>),
    ) -> Result<u64, Refusal> {
        let to = Disclosure::of(&all);
        self.answer(to, move |inner| {
            let order = walk::WalkOrder::ByName;
            let mut walker = walk::Walker::new(inner, &all, order, usize::MAX, None)?;
            let is_hidden = |found: &walk::Found| {
                found.kind == EntryKind::File
                    && all.may_read(&found.path)
                    && !shown.may_read(&found.path)
            };
            Ok(std::iter::from_fn(|| walker.next()).filter(is_hidden).count() as u64)
        })
        .await
    }

    /// Finds a page of notes by their tags, properties and links. The second permit is for the
    /// names to which links may lead.
    pub async fn find_notes(
        &self,
        (permit, names): (Permit<Walk>, Permit<Walk>),
        (query, order): (NoteQuery, FoundOrder),
        cursor: WalkCursor,
    ) -> Result<NotePage, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| {
            inner.find_notes(&permit, &names, (&query, order), cursor, &cancellation)
        })
        .await
    }

    /// Returns a page of the links from and to a note. The second permit is for the whole space.
    pub async fn note_links(
        &self,
        (note, names): (Permit<Read>, Permit<Walk>),
        direction: LinkDirection,
        cursor: WalkCursor,
    ) -> Result<LinkPage, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&note);
        self.answer(to, move |inner| {
            inner.note_links(&note, &names, direction, cursor, &cancellation)
        })
        .await
    }

    /// Counts the tags of notes, or the values of one property of them.
    pub async fn count_values(
        &self,
        permit: Permit<Walk>,
        property: Option<String>,
    ) -> Result<ValueCounts, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| {
            inner.count_values(&permit, property.as_deref(), &cancellation)
        })
        .await
    }

    /// Creates a file.
    ///
    /// # Errors
    /// A [`Refusal`]; no file is then created.
    pub async fn create(
        &self,
        permit: Permit<Edit>,
        bytes: Vec<u8>,
    ) -> Result<CreatedFile, Refusal> {
        let mut made = Vec::new();
        let to = Disclosure::of(&permit).making(&permit);
        self.change(to, move |change| change.create(permit.path(), &bytes, &mut made)).await
    }

    /// Creates a file with a text in an encoding.
    ///
    /// # Errors
    /// A [`Refusal`], also if the encoding lacks a character; no file is then created.
    pub async fn create_text(
        &self,
        permit: Permit<Edit>,
        text: &str,
        encoding: TextEncoding,
    ) -> Result<CreatedFile, Refusal> {
        let bytes = edited_text::encoded(permit.path(), encoding, text)?;
        self.create(permit, bytes).await
    }

    /// Removes a file if it still is the version `base`.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn remove(&self, permit: Permit<Edit>, base: ContentHash) -> Result<(), Refusal> {
        let to = Disclosure::of(&permit);
        self.change(to, move |change| change.remove(permit.path(), base)).await
    }

    /// Replaces the text of a file by what `plan` makes of it, if the file still is the version
    /// `base`. `new` says what `plan` writes. `arguments` are the names of the call's arguments for
    /// the range and the text, which a refusal can mention.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn edit(
        &self,
        permit: Permit<Edit>,
        base: ContentHash,
        new: NewText,
        arguments: [&'static str; 2],
        plan: impl Fn(&str) -> Result<String, EditError> + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        let plan: write::Plan = Box::new(plan);
        let base = edited_text::Base::Whole(base);
        let to = Disclosure::of(&permit);
        self.change(to, move |change| change.edit(permit.path(), (base, new), arguments, &plan))
            .await
    }

    /// Returns what [`Space::edit`] would make of the file, and changes nothing.
    ///
    /// # Errors
    /// The [`Refusal`] of the edit.
    pub async fn try_edit(
        &self,
        permit: Permit<Edit>,
        base: ContentHash,
        new: NewText,
        plan: impl Fn(&str) -> Result<String, EditError> + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.try_edit(permit.path(), (base, new), &plan)).await
    }

    /// Adds text to the end of a file if it still is the version `base`. `added` makes the text
    /// from that of the file. `encoding` is that of the file, if the caller states it.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn append(
        &self,
        permit: Permit<Edit>,
        base: ContentHash,
        encoding: Option<TextEncoding>,
        added: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        let (to, base) = (Disclosure::of(&permit), edited_text::Base::Whole(base));
        self.change(to, move |change| change.append_text(permit.path(), (base, encoding), &added))
            .await
    }

    /// Adds text to the end of a file that still begins with what the caller knows of it: `size`
    /// bytes with this hash. The file may have grown since.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn append_to_grown(
        &self,
        permit: Permit<Edit>,
        (hash, size): (ContentHash, u64),
        encoding: Option<TextEncoding>,
        added: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        let (to, base) = (Disclosure::of(&permit), edited_text::Base::Prefix { hash, size });
        self.change(to, move |change| change.append_text(permit.path(), (base, encoding), &added))
            .await
    }

    /// Adds text to the end of a file of which the caller knows nothing.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn append_unread(
        &self,
        permit: Permit<Append>,
        added: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        let to = Disclosure::of(&permit).unread();
        self.change(to, move |change| {
            change.append_text(permit.path(), (edited_text::Base::Unread, None), &added)
        })
        .await
    }

    /// Adds bytes to the end of a file if it still is the version `base`.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then unchanged.
    pub async fn append_bytes(
        &self,
        permit: Permit<Edit>,
        base: ContentHash,
        bytes: Vec<u8>,
    ) -> Result<EditedFile, Refusal> {
        let to = Disclosure::of(&permit);
        self.change(to, move |change| {
            change.append(permit.path(), edited_text::Base::Whole(base), &|_| Ok(bytes.clone()))
        })
        .await
    }

    /// Moves a file if it still is the version `base`, and never over anything.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then where it was.
    pub async fn move_file(
        &self,
        (from, to): (Permit<Edit>, Permit<Edit>),
        base: ContentHash,
    ) -> Result<(), Refusal> {
        let mut made = Vec::new();
        let told = Disclosure::of(&from).making(&to);
        self.change(told, move |change| change.move_file(from.path(), base, to.path(), &mut made))
            .await
    }

    /// Copies a file if it still is the version `base`, and never over anything.
    ///
    /// # Errors
    /// A [`Refusal`]; no copy is then made.
    pub async fn copy_file(
        &self,
        (from, to): (Permit<Read>, Permit<Edit>),
        base: ContentHash,
    ) -> Result<CreatedFile, Refusal> {
        let mut made = Vec::new();
        let told = Disclosure::of(&from).making(&to);
        self.change(told, move |change| change.copy_file(from.path(), base, to.path(), &mut made))
            .await
    }

    /// Makes a folder and its parents. Returns whether it was not there yet.
    ///
    /// # Errors
    /// A [`Refusal`]; no folder is then made.
    pub async fn create_folder(&self, permit: Permit<Edit>) -> Result<bool, Refusal> {
        let mut made = Vec::new();
        let to = Disclosure::of(&permit).making(&permit);
        self.change(to, move |change| change.create_folder(permit.path(), &mut made)).await
    }

    /// Removes an empty folder, or a folder with all that it holds if that has the hash `base`.
    ///
    /// # Errors
    /// A [`Refusal`]; the folder is then unchanged.
    pub async fn remove_folder(
        &self,
        permit: Permit<EditTree>,
        base: Option<ContentHash>,
    ) -> Result<(), Refusal> {
        let to = Disclosure::of(&permit);
        self.change(to, move |change| change.remove_folder(&permit, base)).await
    }

    /// Moves a folder with all that it holds if that has the hash `base`, and never over anything.
    ///
    /// # Errors
    /// A [`Refusal`]; the folder is then where it was.
    pub async fn move_folder(
        &self,
        permits: (Permit<EditTree>, Permit<EditTree>),
        base: ContentHash,
    ) -> Result<(), Refusal> {
        let mut made = Vec::new();
        let told = Disclosure::of(&permits.0).making(&permits.1);
        self.change(told, move |change| change.move_folder(&permits, base, &mut made)).await
    }

    /// Returns the hash of a folder, over the paths, sizes and hashes of all that it holds.
    ///
    /// # Errors
    /// A [`Refusal`], also if the folder holds too much.
    pub async fn tree_hash(&self, permit: Permit<ReadTree>) -> Result<ContentHash, Refusal> {
        let cancellation = self.cancellation.clone();
        let to = Disclosure::of(&permit);
        self.answer(to, move |inner| inner.tree_hash(&permit, &cancellation)).await
    }

    /// Returns the same space, whose changes stop before anything is changed once `cancellation` is
    /// cancelled.
    #[must_use]
    pub fn until(&self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self.clone() }
    }

    /// Returns the same space, whose changes are recorded as those of this call.
    #[must_use]
    pub fn for_call(self, call: Arc<Call>) -> Self {
        Self { call, ..self }
    }

    /// Returns the history of the space, if it has one and is open.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.inner.if_made().and_then(|inner| inner.history.as_ref())
    }

    /// Returns the same space for a call that holds `share`, and that gives it back while it waits.
    #[must_use]
    pub fn with_thread_share(self, share: Option<Arc<dyn ThreadShare>>) -> Self {
        Self { thread_share: share, ..self }
    }

    /// Returns the limits on files and answers.
    pub fn limits(&self) -> &FileLimits {
        &self.options.limits
    }

    /// Checks that the folder of the space is where it was when the space was opened.
    ///
    /// # Errors
    /// [`Refusal::RootMoved`].
    pub async fn check_root(&self) -> Result<(), Refusal> {
        self.run_unchecked(|inner| inner.root.check_place()).await
    }

    /// Whether the folder of the space was seen at its place within the last second.
    pub fn was_in_place(&self) -> bool {
        self.inner.if_made().is_none_or(|inner| inner.root.was_checked())
    }

    /// Whether the folder of the space is where it was when the space was opened. Blocks.
    pub fn is_in_place(&self) -> bool {
        self.inner.if_made().is_none_or(|inner| inner.root.check_place().is_ok())
    }

    /// Releases all displaced files that are still kept. Takes a second at most.
    pub async fn close(&self) {
        // No file is kept for a space that nobody used.
        let Some(inner) = self.inner.if_made().map(Arc::clone) else { return };
        let _ = tokio::task::spawn_blocking(move || inner.keeper.close()).await;
    }

    #[cfg(test)]
    fn made_inner(&self) -> &Arc<Inner> {
        self.inner.if_made().unwrap()
    }

    /// Runs blocking code for a caller. A refusal tells what `to` allows.
    async fn answer<T: Send + 'static>(
        &self,
        to: Disclosure,
        work: impl FnOnce(&Inner) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.run(move |inner| work(inner).map_err(|refusal| inner.disclosed(refusal, &to))).await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.run_unchecked(move |inner| {
            inner.root.check(Check::Recent)?;
            work(inner)
        })
        .await
    }

    async fn run_unchecked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let space = Arc::clone(&self.inner);
        let run = move || {
            let inner = Self::opened(&space)?;
            inner.forget_if_cleared();
            work(inner)
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(done) => done,
            Err(error) => Err(crate::incident("space", &error.into())),
        }
    }
}

/// Maps an error of the system to a refusal.
fn refusal(error: &io::Error, path: &SpacePath) -> Refusal {
    let path = path.clone();
    match os::problem(error) {
        Problem::Absent => Refusal::not_found(&path),
        Problem::NotAFolder => Refusal::NotADirectory { path },
        Problem::Mount => Refusal::MountRefused { path },
        Problem::Link => Refusal::SymlinkRefused { path },
        Problem::Denied => Refusal::NotPermitted { path },
        Problem::NotAFile => Refusal::not_a_file(&path),
        Problem::NoSpace => Refusal::NoSpace { path },
        Problem::Busy => Refusal::Busy { path, is_locked_by_other: false },
        Problem::Other => crate::incident("file", error),
    }
}
