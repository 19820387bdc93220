//! The settings of a space.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::document::DocumentReader;
use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;

use super::conflict::SpaceEvents;
use super::search_ignore::SearchIgnore;

/// The settings of a space.
#[derive(Clone)]
pub struct SpaceOptions {
    /// The limits on files and answers.
    pub limits: FileLimits,
    /// The mount points inside the space that are entered. Calls at any other are refused.
    pub mounts: Vec<SpacePath>,
    /// How long a change waits for other changes before it is refused as busy.
    pub lock_wait: Duration,
    /// What listing, finding and searching leave out.
    pub search_ignore: SearchIgnore,
    /// Receives journal lines of events that no call caused, such as a conflict copy.
    pub events: SpaceEvents,
    /// The folder for what recovers an append after a kill, on the machine and outside of the
    /// space. Without it an append replaces the file, as every other change does.
    pub appends_folder: Option<PathBuf>,
    /// A file that is made anew when the space is to forget what it remembers of files.
    pub cleared: Option<PathBuf>,
    /// Takes the text out of documents. Without it they are no text.
    pub documents: Option<Arc<dyn DocumentReader>>,
}

impl SpaceOptions {
    /// Returns the options for a folder whose notes are imported: nothing is left out, and nothing
    /// is written.
    pub fn of_import() -> Self {
        Self {
            limits: FileLimits::default(),
            mounts: Vec::new(),
            lock_wait: Duration::ZERO,
            search_ignore: SearchIgnore::nothing(),
            events: Arc::new(|_| ()),
            appends_folder: None,
            cleared: None,
            documents: None,
        }
    }
}
