//! Tests of the space on a real file system.

#![expect(clippy::disallowed_methods, reason = "a test is its own verified caller")]

mod appends;
mod changes;
mod encodings;
mod faults;
mod folders;
mod history;
mod kills;
mod link_rewriting;
mod links;
mod listing;
mod moves;
mod reading;
mod recall;
mod searches;
mod taken_back;
mod twins;
mod waiting;
mod walks;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::io::Read as _;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_domain::limits::FileLimits;
use stile_domain::line_search::LineQuery;
use stile_domain::lines::LineRange;
use stile_domain::listing::EntryKind;
use stile_domain::path::{RESERVED_PREFIX, SpacePath};
use stile_domain::permit::{EditTree, List, Permit, Principal};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_testkit::chance::scaled_long;
use stile_testkit::swapper::Swapper;
use tokio::task::JoinHandle;

use crate::history::History;

use super::edited_text::Base;
use super::fault::Effect;
use super::lock::{Folders, LockError, Stop, Wait};
use super::names::{ChangeKind, Owner, TemporaryName};
use super::new_text::NewText;
use super::os::UNFINISHED;
use super::write::{Change, Plan};
use super::{
    Cancellation, CreatedFile, EditedFile, FileWindow, Inner, ReadAs, SearchIgnore, Space,
    SpaceOptions, WindowStart, fault, os,
};

pub(super) struct Rig {
    pub(super) folder: tempfile::TempDir,
    pub(super) space: Space,
    events: Arc<Mutex<Vec<JournalLine>>>,
    /// What recovers appends, where no other rig opens it.
    _appends: Option<tempfile::TempDir>,
}

/// Changes a space on the thread of the test, where faults are armed. Waits as the space does.
pub(super) struct OnThisThread<'a>(&'a Space);

impl Deref for OnThisThread<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        self.0.made_inner()
    }
}

impl OnThisThread<'_> {
    pub(super) fn change<T>(
        &self,
        mut work: impl FnMut(&Change<'_>) -> Result<T, Stop>,
    ) -> Result<T, Refusal> {
        let deadline = Instant::now() + self.options.lock_wait;
        let mut turn = None;
        loop {
            let (inner, cancellation) = (&**self, &self.0.cancellation);
            let gives_up = Instant::now() >= deadline;
            let (call, turn_now) = (&*self.0.call, Cell::new(turn));
            let change = Change { inner, cancellation, call, turn: turn_now, gives_up };
            turn = match work(&change) {
                Ok(done) => return Ok(done),
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(Stop::MustWait(Wait::Turn(turn))) => turn.blocking_recv().ok(),
                Err(Stop::MustWait(Wait::Others(turn))) => Some(turn),
                Err(Stop::MustWait(Wait::Room)) => None,
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn create(&self, path: &SpacePath, bytes: &[u8]) -> Result<CreatedFile, Refusal> {
        let mut made = Vec::new();
        self.change(|change| change.create(path, bytes, &mut made))
    }

    pub(super) fn remove(&self, path: &SpacePath, base: ContentHash) -> Result<(), Refusal> {
        self.change(|change| change.remove(path, base))
    }

    pub(super) fn edit(
        &self,
        path: &SpacePath,
        base: ContentHash,
        arguments: [&'static str; 2],
        plan: Plan,
    ) -> Result<EditedFile, Refusal> {
        let base = (Base::Whole(base), NewText { encoding: None, is_ascii: true });
        self.change(|change| change.edit(path, base, arguments, &plan))
    }
}

pub(super) fn path(text: &str) -> SpacePath {
    SpacePath::parse(text).unwrap()
}

pub(super) fn hash(text: &str) -> ContentHash {
    ContentHash::digest(text.as_bytes())
}

impl Rig {
    fn new() -> Self {
        Self::with(FileLimits::default())
    }

    fn with(limits: FileLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::on(folder, limits)
    }

    pub(super) fn on(folder: tempfile::TempDir, limits: FileLimits) -> Self {
        Self::with_mounts(folder, limits, Vec::new())
    }

    pub(super) fn with_mounts(
        folder: tempfile::TempDir,
        limits: FileLimits,
        mounts: Vec<SpacePath>,
    ) -> Self {
        Self::waiting(folder, limits, mounts, Duration::from_secs(20))
    }

    /// Returns a rig whose changes wait as long as this.
    fn with_wait(lock_wait: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::waiting(folder, FileLimits::default(), Vec::new(), lock_wait)
    }

    fn waiting(
        folder: tempfile::TempDir,
        limits: FileLimits,
        mounts: Vec<SpacePath>,
        lock_wait: Duration,
    ) -> Self {
        let (rig, notices) = Self::opened(folder, (limits, mounts, lock_wait), None);
        assert_eq!(notices, Vec::<String>::new());
        rig
    }

    fn with_history(folder: tempfile::TempDir, history: Option<Arc<History>>) -> Self {
        let options = (FileLimits::default(), Vec::new(), Duration::from_secs(20));
        let (rig, notices) = Self::opened(folder, options, history);
        assert_eq!(notices, Vec::<String>::new());
        rig
    }

    fn opened(
        folder: tempfile::TempDir,
        (limits, mounts, lock_wait): (FileLimits, Vec<SpacePath>, Duration),
        history: Option<Arc<History>>,
    ) -> (Self, Vec<String>) {
        let appends = tempfile::tempdir().unwrap();
        let at = appends.path().to_owned();
        let (rig, notices) = Self::recovering(folder, (limits, mounts, lock_wait), history, &at);
        (Self { _appends: Some(appends), ..rig }, notices)
    }

    /// Opens a rig whose start recovers the appends of a folder.
    pub(super) fn recovering(
        folder: tempfile::TempDir,
        (limits, mounts, lock_wait): (FileLimits, Vec<SpacePath>, Duration),
        history: Option<Arc<History>>,
        appends: &Path,
    ) -> (Self, Vec<String>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let options = SpaceOptions {
            limits,
            mounts,
            search_ignore: SearchIgnore::default(),
            lock_wait,
            events: Arc::new(move |line| sink.lock().unwrap().push(line)),
            appends_folder: Some(appends.to_owned()),
            cleared: None,
            documents: None,
        };
        let (space, notices) = Space::open_ambient_with(folder.path(), options, history).unwrap();
        (Self { folder, space, events, _appends: None }, notices)
    }

    /// Returns a rig on a file system that cannot exchange files. The thread of the test must lack
    /// the flags of renames.
    fn without_exchange() -> Self {
        Self::without_exchange_with(tempfile::tempdir().unwrap(), None)
    }

    fn without_exchange_with(folder: tempfile::TempDir, history: Option<Arc<History>>) -> Self {
        let options = (FileLimits::default(), Vec::new(), Duration::from_secs(20));
        let (rig, notices) = Self::opened(folder, options, history);
        assert_eq!(notices.len(), 1, "the probe finds that the exchange is missing");
        rig
    }

    /// Returns a rig, whatever the file system can do.
    pub(super) fn on_any(folder: tempfile::TempDir) -> Self {
        Self::on_any_with(folder, None)
    }

    pub(super) fn on_any_with(folder: tempfile::TempDir, history: Option<Arc<History>>) -> Self {
        let options = (FileLimits::default(), Vec::new(), Duration::from_secs(20));
        Self::opened(folder, options, history).0
    }

    pub(super) fn inner(&self) -> OnThisThread<'_> {
        OnThisThread(&self.space)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn put(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    pub(super) fn read(&self, name: &str, start: i64, end: i64) -> Result<FileWindow, Refusal> {
        self.inner().read(
            &path(name),
            &WindowStart::Range(LineRange(start, end)),
            ReadAs::Recognised,
        )
    }

    pub(super) fn replace(
        &self,
        name: &str,
        base: &str,
        old: &str,
        new: &str,
    ) -> Result<ContentHash, Refusal> {
        let (old, new) = (old.to_owned(), new.to_owned());
        let plan = Box::new(move |text: &str| edit::replace(text, LineRange::ALL, &old, &new));
        self.inner().edit(&path(name), hash(base), ["lines", "old"], plan).map(|edited| edited.hash)
    }

    /// Appends to a file that still is `base`.
    pub(super) fn append(&self, name: &str, base: &str, more: &str) -> Result<EditedFile, Refusal> {
        self.append_with(name, Base::Whole(hash(base)), more)
    }

    pub(super) fn append_with(
        &self,
        name: &str,
        base: Base,
        more: &str,
    ) -> Result<EditedFile, Refusal> {
        let added = |text: &str| edit::addition(text, more);
        self.inner().change(|change| change.append_text(&path(name), (base, None), &added))
    }

    /// Returns the names of our own files in the root.
    pub(super) fn hidden(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with(RESERVED_PREFIX))
            .collect()
    }

    fn visible(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| !name.starts_with(RESERVED_PREFIX))
            .collect();
        names.sort();
        names
    }

    pub(super) fn list(
        &self,
        folder: &str,
        claim: &str,
    ) -> Result<Vec<(String, EntryKind)>, Refusal> {
        let permit = principal(claim).gate().permit::<List>(&path(folder))?;
        let page = self.inner().list(&permit, None)?;
        Ok(page.entries.into_iter().map(|entry| (entry.name, entry.kind)).collect())
    }

    fn copies(&self) -> Vec<String> {
        self.visible().into_iter().filter(|name| name.contains("(conflict ")).collect()
    }
}

fn principal(claim: &str) -> Principal {
    let scopes = Scopes::from_claim(claim);
    Principal::assert_verified("ann", None, None, scopes, RecordsClaim::None)
}

/// Returns the permit to change all of a folder.
fn all_of(folder: &str) -> Permit<EditTree> {
    principal("write:/").gate().permit(&path(folder)).unwrap()
}

fn code<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> &'static str {
    outcome.unwrap_err().code().0
}
