//! What an undo keeps and gives back, and what its steps will do to the history.

use std::collections::BTreeSet;

use stile_domain::hash::ContentHash;
use stile_domain::history::retention::UndoCopy;
use stile_domain::path::SpacePath;

/// Which versions an undo keeps, and which it gives back.
#[derive(Clone, Debug, Default)]
pub struct UndoRoom {
    /// The versions from which steps give something back. They stay until the undo is made.
    pub(super) needs: BTreeSet<ContentHash>,
    /// What is kept of that which steps replace or remove.
    pub(super) keeps: BTreeSet<ContentHash>,
}

impl UndoRoom {
    /// Whether a version stays until the undo is made.
    pub(super) fn needs(&self, version: &ContentHash) -> bool {
        self.needs.contains(version) || self.keeps.contains(version)
    }

    /// Whether a version is kept that a step replaces or removes.
    pub(super) fn keeps(&self, version: &ContentHash) -> bool {
        self.keeps.contains(version)
    }
}

/// What a step of an undo will do to the history.
#[derive(Clone, Debug, Default)]
pub struct ForeseenStep {
    /// The bytes of the rows that the step adds.
    pub rows: u64,
    /// The version in the history from which the step gives something back.
    pub needs: Option<ContentHash>,
    /// What the step replaces or removes.
    pub copy: Option<ForeseenCopy>,
}

/// A version that a step of an undo replaces or removes.
#[derive(Clone, Debug)]
pub struct ForeseenCopy {
    pub(super) path: SpacePath,
    pub(super) version: UndoCopy,
    /// The first version with which the version begins, if so far only the file holds it.
    pub(super) beginning: Option<UndoCopy>,
}
