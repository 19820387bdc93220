//! Lets one row stand for two changes where there is no room for the second.
//!
//! The row of a client's last change of a file then tells what both changes did together. So an
//! undo gives back what was there before the first, however often the client changes its own files.

use rusqlite::{OptionalExtension as _, params};
use stile_domain::history::past_change::{ChangeNumber, PastChangeKind};
use stile_domain::history::retention::{RowOf, merged};

use super::change_row::ChangeRow;
use super::error::{HistoryError, NoRoom};
use super::room::RoomMaker;
use super::{History, Kept, MadeRow, Waiting};

/// A row as it was before another change was added to it.
#[derive(Clone, Debug)]
pub(crate) struct RowBefore {
    number: i64,
    kind: String,
    after: Option<[u8; 32]>,
    mode: Option<u32>,
    attributes: Option<String>,
}

impl RoomMaker<'_> {
    /// Adds a change without room for a row to the client's last change of the file, and counts it
    /// if that cannot be. The outer error is of the database.
    pub(super) fn merge_or_count(
        &mut self,
        waiting: &Waiting,
        (of, why): (RowOf, NoRoom),
    ) -> rusqlite::Result<Result<Kept, HistoryError>> {
        let row = &waiting.row;
        let Some((before, kind)) = self.row_to_merge(row)? else {
            self.count_unrecorded(row, of)?;
            return Ok(Err(why.into()));
        };
        self.row_bytes = 0;
        if let Some(beginning) = &waiting.beginning {
            self.keep_beginning(beginning)?;
        }
        // Of a file that somebody removed, the mode stays where another one gets its path.
        self.transaction
            .prepare_cached(
                "UPDATE changes SET kind = ?2, after = ?3, mode = coalesce(mode, ?4), \
                 attributes = CASE WHEN mode IS NULL THEN ?5 ELSE attributes END \
                 WHERE number = ?1",
            )?
            .execute(params![before.number, kind.word(), row.after, row.mode, row.attributes])?;
        self.hold(row)?;
        Ok(Ok(Kept { made: MadeRow::Merged(before), lacks: Some(why.into()) }))
    }

    /// Finds the last change of a file if the client made it, and it ended where this one begins.
    fn row_to_merge(
        &self,
        row: &ChangeRow,
    ) -> rusqlite::Result<Option<(RowBefore, PastChangeKind)>> {
        let mut query = self.transaction.prepare_cached(
            "SELECT number, kind, after, mode, attributes, share FROM changes WHERE number = max(\
             (SELECT coalesce(max(number), 0) FROM changes WHERE space = ?1 AND path = ?2), \
             (SELECT coalesce(max(number), 0) FROM changes \
             WHERE space = ?1 AND destination = ?2))",
        )?;
        let last = query
            .query_row(params![row.space, row.path], |found| {
                let last = RowBefore {
                    number: found.get(0)?,
                    kind: found.get(1)?,
                    after: found.get(2)?,
                    mode: found.get(3)?,
                    attributes: found.get(4)?,
                };
                Ok((last, found.get::<_, String>(5)?))
            })
            .optional()?;
        let Some((last, share)) = last else { return Ok(None) };
        let kind = PastChangeKind::from_word(&last.kind).and_then(|kind| merged(kind, row.kind));
        let follows = share == row.share && last.after == row.before;
        Ok(kind.filter(|_| follows).map(|kind| (last, kind)))
    }

    /// Makes a row again what it was before a change was added that was not made.
    pub(super) fn take_apart(&self, before: &RowBefore) -> rusqlite::Result<()> {
        let RowBefore { number, kind, after, mode, attributes } = before;
        self.transaction
            .prepare_cached(
                "UPDATE changes SET kind = ?2, after = ?3, mode = ?4, attributes = ?5 \
                 WHERE number = ?1",
            )?
            .execute(params![number, kind, after, mode, attributes])?;
        Ok(())
    }

    /// Names the path of a file that will be held.
    pub(super) fn hold(&self, row: &ChangeRow) -> rusqlite::Result<()> {
        if let Some(held) = &row.held {
            self.transaction
                .prepare_cached("INSERT OR REPLACE INTO held (name, path) VALUES (?1, ?2)")?
                .execute(params![held, row.path])?;
        }
        Ok(())
    }
}

impl History {
    /// Takes the changes that were not made out of the rows to which they were added.
    pub(super) fn take_apart(&self, rows: &[MadeRow]) -> Result<(), HistoryError> {
        let connection = self.connection();
        let room = RoomMaker::new(&connection, 0);
        for row in rows {
            if let MadeRow::Merged(before) = row {
                room.take_apart(before)?;
            }
        }
        Ok(())
    }
}

impl MadeRow {
    /// Returns the number of a row that was added; `None` if the change has no row of its own.
    pub(crate) fn number(&self) -> Option<ChangeNumber> {
        match self {
            Self::New(number) => Some(*number),
            Self::Merged(_) => None,
        }
    }
}
