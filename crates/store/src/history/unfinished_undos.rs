//! The undos that began and did not end.
//!
//! The history has a change before the folder has it. An undo that is killed in between leaves the
//! record of a step that it did not make, and nothing but the beginning that is noted here tells it
//! from one that it made. A beginning is the number of the last change before it, and stands beside
//! the settings.

use rusqlite::params;
use stile_domain::history::past_change::ChangeNumber;

use super::History;
use super::error::HistoryError;

fn name(begun: ChangeNumber) -> String {
    format!("undo after {begun}")
}

impl History {
    /// Notes that an undo begins. Returns its beginning, for [`History::end_undo`].
    ///
    /// # Errors
    /// [`HistoryError`] if the database fails.
    pub fn begin_undo(&self) -> Result<ChangeNumber, HistoryError> {
        let connection = self.connection();
        let last = "SELECT coalesce(max(number), 0) FROM changes";
        let begun = ChangeNumber(connection.query_row(last, [], |row| row.get(0))?);
        let note = "INSERT OR REPLACE INTO settings (name, value) VALUES (?1, ?2)";
        connection.execute(note, params![name(begun), begun.0])?;
        Ok(begun)
    }

    /// Notes that all steps of an undo were tried.
    ///
    /// # Errors
    /// [`HistoryError`] if the database fails.
    pub fn end_undo(&self, begun: ChangeNumber) -> Result<(), HistoryError> {
        let connection = self.connection();
        connection.execute("DELETE FROM settings WHERE name = ?1", [name(begun)])?;
        Ok(())
    }

    /// Returns the beginnings of the undos that did not end.
    ///
    /// # Errors
    /// [`HistoryError`] if the database fails.
    pub fn unfinished_undos(&self) -> Result<Vec<ChangeNumber>, HistoryError> {
        let connection = self.relaxed();
        let text = "SELECT value FROM settings WHERE name LIKE 'undo after %' ORDER BY value";
        let mut query = connection.prepare_cached(text)?;
        let rows = query.query_map([], |row| row.get(0).map(ChangeNumber))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
