//! Says which versions the history would not have after an undo.
//!
//! An undo replaces and removes files, too, and the history may have no room for what they hold.
//! The owner must know that before. So the changes are recorded with the sizes of their versions,
//! in a transaction that is rolled back.

use std::cell::Cell;
use std::sync::mpsc;

use rusqlite::{Connection, TransactionBehavior, params};
use stile_domain::history::past_change::ChangeNumber;
use stile_domain::path::SpacePath;

use super::error::HistoryError;
use super::foreseen_change::ForeseenChange;
use super::room::RoomMaker;
use super::stored_version::{Place, StoredVersion};
use super::{Call, History, NewChange, Waiting, change_row, database, objects, retention};

impl History {
    /// Returns how many bytes the history has room for before anything must go.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn free_bytes(&self) -> Result<u64, HistoryError> {
        let most = self.most_bytes();
        Ok(most.saturating_sub(retention::used(&self.relaxed())?))
    }

    /// Returns how many bytes a version takes in the history.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn stored_bytes(bytes: &[u8]) -> Result<u64, HistoryError> {
        Ok(zstd::bulk::compress(bytes, objects::LEVEL)?.len() as u64)
    }

    /// Returns the files of those changes whose versions before the history would not have once all
    /// changes were made by a command of the owner. Records nothing.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn foresee_lacking(
        &self,
        call: &Call,
        changes: &[ForeseenChange],
    ) -> Result<Vec<SpacePath>, HistoryError> {
        let (limit, unkept) = (self.most_bytes(), self.settings.unkept);
        let call = Call::of_owner(call.author().clone());
        let mut connection = self.connection();
        // Dropped without a commit, so all of it is rolled back.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = RoomMaker::new(&transaction, limit);
        for change in changes {
            let ForeseenChange { kind, path, to, before, stored, after } = change;
            let new = NewChange {
                kind: *kind,
                path,
                to: to.as_ref(),
                before: *before,
                size_before: *stored,
                after: *after,
                metadata: None,
                held: None,
                call: &call,
            };
            let version = before.filter(|_| *stored > 0).map(|hash| StoredVersion {
                hash,
                size: *stored,
                stored: *stored,
                place: Place::Database(Vec::new()),
                reserved: None,
                is_used: Cell::new(false),
            });
            let row = change_row::ChangeRow::new(self.space, &new);
            let (reply, _) = mpsc::channel();
            let waiting = Waiting { row, version, beginning: None, lacks: None, reply };
            let kept = database::insert(&mut room, &waiting, unkept)??;
            if let Some(number) = kept.made.number() {
                let _ = call.number.set(number);
            }
        }
        call.number().map_or(Ok(Vec::new()), |call| lacking(&transaction, call))
    }

    /// Returns the files of those changes of a call whose versions before the history does not
    /// have.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn lacking(&self, call: ChangeNumber) -> Result<Vec<SpacePath>, HistoryError> {
        lacking(&self.relaxed(), call)
    }
}

/// Returns the files of the changes of a call that replaced or removed a version which is not
/// there.
fn lacking(
    connection: &Connection,
    ChangeNumber(call): ChangeNumber,
) -> Result<Vec<SpacePath>, HistoryError> {
    let mut query = connection.prepare_cached(
        "SELECT path FROM changes WHERE number >= ?1 AND call = ?1 AND version IS NULL \
         AND kind IN ('replaced', 'removed') ORDER BY number",
    )?;
    let paths = query.query_map(params![call], |row| row.get::<_, String>(0))?;
    let paths = paths.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(paths.iter().filter_map(|path| SpacePath::parse(path).ok()).collect())
}
