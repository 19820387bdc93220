//! The row of a change, as it is recorded.

use std::sync::Arc;

use stile_domain::history::past_change::{Author, PastChangeKind};
use stile_domain::history::retention::VersionClass;

use super::file_metadata::FileMetadata;
use super::undo_room::UndoRoom;
use super::{Call, CallBy, NewChange};
use crate::now;

/// The bytes that the row of a change takes beside its texts, with its places in the indexes.
pub(super) const ROW_BYTES: u64 = 300;

/// The row of a change, without its number.
#[derive(Clone)]
pub(super) struct ChangeRow {
    pub(super) space: i64,
    /// The number of the call, if it made a change before.
    pub(super) call: Option<i64>,
    pub(super) at: i64,
    pub(super) kind: PastChangeKind,
    pub(super) path: String,
    pub(super) destination: Option<String>,
    pub(super) before: Option<[u8; 32]>,
    pub(super) size_before: i64,
    pub(super) after: Option<[u8; 32]>,
    pub(super) author: Author,
    /// The name under which the history counts what the change keeps.
    pub(super) share: String,
    pub(super) by: CallBy,
    pub(super) mode: Option<u32>,
    pub(super) attributes: Option<String>,
    pub(super) held: Option<String>,
    /// The first change that an undo takes back with this one.
    pub(super) takes_back: Option<i64>,
    /// What the version before is to the client; `None` if the rows before decide that.
    pub(super) class: Option<VersionClass>,
    /// What an undo keeps, if one makes the change.
    pub(super) room: Option<Arc<UndoRoom>>,
}

impl ChangeRow {
    pub(super) fn new(space: i64, change: &NewChange<'_>) -> Self {
        Self {
            space,
            call: change.call.number().map(|number| number.0),
            at: now().0,
            kind: change.kind,
            path: change.path.as_str().to_owned(),
            destination: change.to.map(|path| path.as_str().to_owned()),
            before: change.before.map(|hash| *hash.as_bytes()),
            size_before: integer(change.size_before),
            after: change.after.map(|hash| *hash.as_bytes()),
            author: change.call.author().clone(),
            share: change.call.share(),
            by: change.call.by,
            mode: change.metadata.map(|metadata| metadata.mode),
            attributes: change.metadata.and_then(FileMetadata::attribute_text),
            held: change.held.map(str::to_owned),
            takes_back: change.call.takes_back().map(|number| number.0),
            class: None,
            room: change.call.room(),
        }
    }

    /// Returns the bytes that the row takes in the history.
    pub(super) fn bytes(&self) -> u64 {
        let to = self.destination.as_ref().map_or(0, String::len);
        row_bytes([self.path.len(), to], self.attributes.as_ref().map_or(0, String::len))
    }
}

/// Returns the bytes that a row takes in the history, with paths and attributes of these lengths.
pub(super) fn row_bytes([path, to]: [usize; 2], attributes: usize) -> u64 {
    ROW_BYTES + (2 * (path + to) + attributes) as u64
}

impl Call {
    /// Returns the name under which the history counts what the call keeps.
    pub(super) fn share(&self) -> String {
        match self.by {
            CallBy::Client => self.author.share(),
            CallBy::Owner => OWNER.to_owned(),
        }
    }
}

/// The name of the share of the owner's commands.
pub(super) const OWNER: &str = "owner";

/// Returns a number as the database keeps it.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
