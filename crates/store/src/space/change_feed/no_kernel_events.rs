//! No events of the kernel: on this system all changes are found by comparison.

use crate::space::os;

/// A folder that the kernel watches. There is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::space) enum FolderWatch {}

/// What the kernel reports.
#[derive(Debug)]
#[expect(dead_code, reason = "no kernel reports anything here")]
pub(in crate::space) enum KernelEvent {
    /// Something happened to this name in the folder.
    Named(FolderWatch, String),
    /// The folder was removed. It is not watched any more.
    Gone(FolderWatch),
    /// There were more events than the kernel keeps.
    Lost,
}

/// The events of all watched folders. There are none.
pub(in crate::space) enum KernelEvents {}

impl KernelEvents {
    /// Returns `None`.
    pub(in crate::space) fn open() -> Option<Self> {
        None
    }

    /// Never called.
    pub(in crate::space) fn watch(&self, _: &os::Handle) -> Option<FolderWatch> {
        match *self {}
    }

    /// Never called.
    pub(in crate::space) fn forget(&self, _: FolderWatch) {
        match *self {}
    }

    /// Never called.
    pub(in crate::space) fn take(&mut self) -> Vec<KernelEvent> {
        match *self {}
    }
}
