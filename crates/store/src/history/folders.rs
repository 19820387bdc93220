//! What folders were like before calls removed or moved them.
//!
//! A folder that an undo makes again gets the mode that it had. Folders are not versions: a note is
//! small, the last one of a path counts, and without one a folder is made for its owner alone.

use rusqlite::{OptionalExtension as _, TransactionBehavior, params};
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::history::retention::{Room, RowOf, room_for_row};
use stile_domain::path::SpacePath;

use super::change_row::{ROW_BYTES, integer};
use super::error::HistoryError;
use super::folder_before::FolderBefore;
use super::room::RoomMaker;
use super::{Call, History};
use crate::now;

impl History {
    /// Notes what folders are like, as far as there is room. A note that is lost in a power cut
    /// leaves a folder that only its owner can open.
    pub(crate) fn note_folders(&self, call: &Call, folders: &[FolderBefore]) {
        if let Err(error) = self.try_note_folders(call, folders) {
            tracing::warn!(%error, "the modes of folders are not in the history");
        }
    }

    fn try_note_folders(&self, call: &Call, folders: &[FolderBefore]) -> Result<(), HistoryError> {
        let (limit, share) = (self.most_bytes(), call.share());
        let mut connection = self.relaxed();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = RoomMaker::new(&transaction, limit);
        for FolderBefore { path, mode, to } in folders {
            let (path, to) = (path.as_str(), to.as_ref().map(SpacePath::as_str));
            transaction
                .prepare_cached("DELETE FROM folders WHERE space = ?1 AND path = ?2")?
                .execute(params![self.space, path])?;
            let bytes = ROW_BYTES + (path.len() + to.map_or(0, str::len)) as u64;
            match room_for_row(bytes, RowOf::First, &room.history_use(&share)?) {
                Room::Free => {}
                Room::After(excess) => room.remove_laters(None, excess, None)?,
                Room::OverShare | Room::TooLarge => break,
            }
            transaction
                .prepare_cached(
                    "INSERT INTO folders (space, path, mode, destination, call, at, share, bytes) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![
                    self.space,
                    path,
                    mode,
                    to,
                    call.number().map_or(0, |number| number.0),
                    now().0,
                    share,
                    integer(bytes),
                ])?;
        }
        let gone = room.gone;
        transaction.commit()?;
        drop(connection);
        self.remove_objects(gone);
        Ok(())
    }

    /// Returns the mode of the folder that last was at a path before a call removed or moved it.
    pub(crate) fn mode_of_folder(&self, path: &SpacePath) -> Option<u32> {
        let connection = self.relaxed();
        let query = "SELECT mode FROM folders WHERE space = ?1 AND path = ?2";
        let mut query = connection.prepare_cached(query).ok()?;
        query.query_row(params![self.space, path.as_str()], |row| row.get(0)).optional().ok()?
    }

    /// Returns where the folders went that the calls of `changes` moved as a whole.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn destinations_of_folders(
        &self,
        changes: &[PastChange],
    ) -> Result<Vec<SpacePath>, HistoryError> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT call, destination FROM folders WHERE space = ?1 AND destination IS NOT NULL",
        )?;
        let found = query.query_map([self.space], |row| {
            Ok((ChangeNumber(row.get(0)?), row.get::<_, String>(1)?))
        })?;
        let mut folders = Vec::new();
        for found in found {
            let (call, folder) = found?;
            if changes.iter().any(|change| change.call == call) {
                folders.extend(SpacePath::parse(&folder));
            }
        }
        Ok(folders)
    }
}
