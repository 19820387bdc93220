//! The space of this server for its one owner, as the owner's page uses it.
//!
//! The page adds no operation of its own: it stands on [`OwnerFiles`], as `stile history` and
//! `stile undo` do, on the journal, as `stile audit` and `stile activity` do, and on the findings
//! of [`crate::checkup`], as `stile doctor` does.

mod chain_check;
mod journal_digest;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use stile_domain::records::instant::Instant;
use stile_store::history::History;
use stile_store::journal::JournalPlace;
use stile_store::space::Unserved;
use stile_store::state::StateDir;
use stile_tools::space::SpaceTools;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::owner_at_the_page;
use crate::checkup::{self, Finding};
use crate::owner_backup::PageBackup;
use crate::owner_files::OwnerFiles;

use chain_check::ChainCheck;
use journal_digest::JournalDigest;
pub use journal_digest::{CHART_DAYS, Digest, SEEN_DAYS};

/// The space of this server, with its journal and its history.
pub struct OwnedSpace {
    /// The folder that is served.
    pub root: PathBuf,
    /// The state folder of this server.
    pub state: StateDir,
    /// The journal, of all servers if they share one.
    pub journal: JournalPlace,
    /// The backup of the page.
    pub backup: Arc<PageBackup>,
    tools: SpaceTools,
    history: Option<Arc<History>>,
    digest: JournalDigest,
    chain: Arc<ChainCheck>,
    /// Places for pages that follow the journal.
    live_places: Arc<Semaphore>,
    /// Why no file of the space is served; `None` if they are.
    unserved: Option<Unserved>,
}

/// What a page says while another folder is at the place of a person's files.
const ANOTHER_FOLDER: &str = "Another folder is at the place of your files, perhaps one from a \
    backup. No file in it is read or changed before the operator of this server says that it is the \
    same.";

/// What a page says while the folder of a person's files is missing.
const MISSING_FOLDER: &str = "The folder of your files is missing: it is not at its place, or \
    something else is there. Nothing was made in its place, and your records go on. The operator of this server \
    puts it back.";

/// The most pages that follow the journal at once.
const LIVE_PLACES: usize = 8;

impl OwnedSpace {
    /// Names what belongs to the space. `history` is absent if old versions are not kept.
    pub fn new(
        (root, state): (PathBuf, StateDir),
        tools: SpaceTools,
        history: Option<Arc<History>>,
        journal: JournalPlace,
    ) -> Self {
        let digest = JournalDigest::new(journal.clone());
        let live_places = Arc::new(Semaphore::new(LIVE_PLACES));
        let chain = Arc::new(ChainCheck::new(state.clone()));
        let backup = Arc::default();
        Self {
            root,
            state,
            journal,
            backup,
            tools,
            history,
            digest,
            chain,
            live_places,
            unserved: None,
        }
    }

    /// Says that the folder at the place of the space is served to nobody.
    #[must_use]
    pub fn unserved(self, why: Unserved) -> Self {
        Self { unserved: Some(why), ..self }
    }

    /// Checks the folder of the files, which the finding names as `shown`.
    pub fn check_files(&self, shown: &str) -> Finding {
        let step = match self.unserved {
            None => return checkup::folder("files", shown, &self.root),
            Some(Unserved::Missing) => "ask the operator to put it back from a backup",
            Some(_) => "ask the operator to run `stile space adopt --person` for you",
        };
        Finding::bad("files", self.why_no_files("").trim_end_matches('.'), step)
    }

    /// Returns why [`OwnedSpace::files`] returns nothing: what `otherwise` says, unless the folder
    /// at the place of the space is served to nobody.
    pub fn why_no_files(&self, otherwise: &'static str) -> &'static str {
        match self.unserved {
            None => otherwise,
            Some(Unserved::Missing) => MISSING_FOLDER,
            Some(_) => ANOTHER_FOLDER,
        }
    }

    /// Lets a thread count the journal before somebody looks at a page.
    pub fn count_ahead(&self) {
        self.digest.count_in_thread();
    }

    /// Begins a session of the owner with the files, whose changes count as one call of the tool
    /// `tool`; `None` if old versions are not kept.
    pub fn files(&self, owner: &str, tool: &str) -> Option<OwnerFiles> {
        let history = Arc::clone(self.history.as_ref()?);
        Some(OwnerFiles::new(self.tools.clone(), history, owner_at_the_page(owner), tool))
    }

    /// Takes a place for a page that follows the journal; `None` if all are taken.
    pub fn live_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.live_places).try_acquire_owned().ok()
    }

    /// Returns the history of the space, if old versions are kept.
    pub fn history(&self) -> Option<&History> {
        self.history.as_deref()
    }

    /// Returns what the journal says of all clients until `now`; `None` while a long journal is
    /// being counted.
    ///
    /// # Errors
    /// The error of the file system or of the database.
    pub fn digest(&self, now: Instant) -> io::Result<Option<Arc<Digest>>> {
        self.digest.until(now)
    }

    /// Checks the journal and its chain, and waits for it.
    pub fn check_journal(&self, now: Instant) -> Vec<Finding> {
        self.chain.check(now)
    }

    /// Returns what the last check of the journal and its chain found. A check that is an hour old
    /// is made again; that of a long journal by a thread.
    pub fn journal_findings(&self, now: Instant) -> Vec<Finding> {
        self.chain.latest(now)
    }
}
