//! What folders were like before calls removed or moved them, or an undo gave them another mode.
//!
//! A folder that is made again gets the mode that it had, and an undo gives it to another folder at
//! its path. Folders are not versions: a note is small, and without one a folder is made for its
//! owner alone. Of the notes of one client of one path with one mode, the first and the last stay.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, TransactionBehavior, params};
use stile_domain::history::folder_modes::{FolderNote, OWNER_ALONE};
use stile_domain::history::past_change::{ChangeNumber, PastChange, PastChangeKind};
use stile_domain::history::past_folder::PastFolder;
use stile_domain::history::retention::{Room, RowOf, room_for_row};
use stile_domain::path::SpacePath;

use super::change_query::ChangeQuery;
use super::change_row::{ROW_BYTES, integer};
use super::error::HistoryError;
use super::file_metadata::FileMetadata;
use super::folder_before::FolderBefore;
use super::reading::ChangeConditions;
use super::room::{Laters, RoomMaker};
use super::{Call, History};
use crate::now;

impl History {
    /// Notes what folders are like. What there is no room for is counted, so that an undo names it.
    /// A note that is lost in a power cut leaves a folder that only its owner can open.
    pub(crate) fn note_folders(&self, call: &Call, folders: &[FolderBefore]) {
        if let Err(error) = self.try_note_folders(call, folders) {
            tracing::warn!(%error, "the modes of folders are not in the history");
        }
    }

    fn try_note_folders(&self, call: &Call, folders: &[FolderBefore]) -> Result<(), HistoryError> {
        let (limit, share, undo) = (self.most_bytes(), call.share(), call.room());
        let mut connection = self.relaxed();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = RoomMaker::new(&transaction, limit);
        for folder in folders {
            if !call.is_of_owner() {
                self.remove_note_in_between(&transaction, &share, folder)?;
            }
            let bytes = note_bytes(folder);
            match room_for_row(bytes, RowOf::First, &room.history_use(&share)?) {
                Room::Free => {}
                Room::After(excess) => {
                    room.remove_laters(&Laters::for_undo(&undo), excess)?;
                }
                Room::OverShare | Room::TooLarge if call.is_of_owner() => {}
                Room::OverShare | Room::TooLarge => {
                    let client = (share.as_str(), call.author().name());
                    let to = folder.to.as_ref().map(SpacePath::as_str);
                    let named = ((folder.path.as_str(), to), RowOf::First);
                    room.count_without_row(self.space, client, named)?;
                    continue;
                }
            }
            self.insert_note(&transaction, call, (folder, bytes))?;
        }
        let gone = room.gone;
        transaction.commit()?;
        drop(connection);
        self.remove_objects(gone);
        Ok(())
    }

    /// Removes the last note of a client that says the same of a path as the next one will. The
    /// first one stays, so that an undo of all finds it.
    fn remove_note_in_between(
        &self,
        transaction: &Connection,
        share: &str,
        FolderBefore { path, mode, .. }: &FolderBefore,
    ) -> rusqlite::Result<()> {
        transaction
            .prepare_cached(
                "DELETE FROM folders WHERE space = ?1 AND path = ?2 AND share = ?3 AND mode = ?4 \
                 AND number > (SELECT min(number) FROM folders \
                 WHERE space = ?1 AND path = ?2 AND share = ?3 AND mode = ?4)",
            )?
            .execute(params![self.space, path.as_str(), share, mode])?;
        Ok(())
    }

    fn insert_note(
        &self,
        transaction: &Connection,
        call: &Call,
        (FolderBefore { path, mode, to }, bytes): (&FolderBefore, u64),
    ) -> rusqlite::Result<()> {
        let author = call.author();
        transaction
            .prepare_cached(
                "INSERT INTO folders (space, path, mode, destination, call, at, tool, subject, \
                 client, share, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                self.space,
                path.as_str(),
                mode,
                to.as_ref().map(SpacePath::as_str),
                call.number().map_or(0, |number| number.0),
                now().0,
                author.tool,
                author.subject,
                author.client,
                call.share(),
                integer(bytes),
            ])?;
        Ok(())
    }

    /// Returns the mode of the folder that last was at a path before a call removed or moved it.
    pub(crate) fn mode_of_folder(&self, path: &SpacePath) -> Option<u32> {
        let connection = self.relaxed();
        let query = "SELECT mode FROM folders WHERE space = ?1 AND path = ?2 \
                     ORDER BY number DESC LIMIT 1";
        let mut query = connection.prepare_cached(query).ok()?;
        query.query_row(params![self.space, path.as_str()], |row| row.get(0)).optional().ok()?
    }

    /// Finds the notes of the calls that a query is about, at all paths, in the order in which they
    /// were made.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn folder_notes(&self, query: &ChangeQuery) -> Result<Vec<FolderNote>, HistoryError> {
        let mut conditions = ChangeConditions::new(self.space);
        if let Some(ChangeNumber(call)) = query.call {
            conditions.find("call = ?", [call.into()]);
        }
        conditions.add_call_of(query);
        self.notes(&conditions.sql, rusqlite::params_from_iter(conditions.values))
    }

    /// Finds the notes of all calls at these paths, those of one path in the order in which they
    /// were made.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn folder_notes_at<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p SpacePath>,
    ) -> Result<Vec<FolderNote>, HistoryError> {
        let mut notes = Vec::new();
        for path in paths {
            let values = params![self.space, path.as_str()];
            notes.extend(self.notes("space = ?1 AND path = ?2", values)?);
        }
        Ok(notes)
    }

    fn notes(&self, condition: &str, values: impl Params) -> Result<Vec<FolderNote>, HistoryError> {
        let sql = format!(
            "SELECT call, path, mode, tool FROM folders WHERE {condition} ORDER BY +number"
        );
        let connection = self.relaxed();
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(values, |row| {
            let (call, path, mode): (i64, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (call, tool) = (ChangeNumber(call), row.get(3)?);
            Ok(SpacePath::parse(&path).ok().map(|path| FolderNote { call, path, mode, tool }))
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Returns what the folders were before the changes of folders among `changes`, and of those
    /// which a call made, the mode that it gave them, if it knew one.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn past_folders(
        &self,
        changes: &[PastChange],
    ) -> Result<BTreeMap<ChangeNumber, PastFolder>, HistoryError> {
        let connection = self.relaxed();
        let mut query =
            connection.prepare_cached("SELECT mode, attributes FROM changes WHERE number = ?1")?;
        let mut folders = BTreeMap::new();
        for change in changes.iter().filter(|change| change.kind.is_of_folder()) {
            let columns = |row: &Row<'_>| -> rusqlite::Result<(Option<u32>, Option<String>)> {
                Ok((row.get(0)?, row.get(1)?))
            };
            let found = query.query_row([change.number.0], columns).optional()?;
            let (mode, rest) = found.unwrap_or_default();
            if mode.is_none() && change.kind == PastChangeKind::FolderCreated {
                continue;
            }
            // Where a note lacks the mode, only the owner gets in.
            let mode = mode.unwrap_or(OWNER_ALONE);
            let FileMetadata { attributes, .. } = FileMetadata::from_columns(mode, rest.as_deref());
            folders.insert(change.number, PastFolder { mode, rest: attributes });
        }
        Ok(folders)
    }
}

/// Returns the bytes that a note takes in the history.
fn note_bytes(FolderBefore { path, to, .. }: &FolderBefore) -> u64 {
    let paths = 2 * path.as_str().len() + to.as_ref().map_or(0, |to| to.as_str().len());
    ROW_BYTES + paths as u64
}
