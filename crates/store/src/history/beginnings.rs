//! Keeps the first version to which a client only added, before the file that holds it goes.
//!
//! Before something is added to the end of a long file, nothing of the file is stored: the version
//! after begins with the version before. That holds until a change displaces the later version,
//! which is the client's own and may go at any time. So this change stores the beginning, too, as
//! the version before the append.

use rusqlite::{OptionalExtension as _, params};
use stile_domain::hash::ContentHash;
use stile_domain::history::retention::{Beginning, PastAppend, VersionClass, beginning_of};

use super::change_row::ChangeRow;
use super::error::{HistoryError, NoRoom};
use super::room::RoomMaker;
use super::stored_version::StoredVersion;
use super::{CallBy, History, VersionSource};

/// A first version that was stored as the beginning of a later one.
pub(super) struct KeptBeginning {
    /// The number of the append that added to it.
    append: i64,
    /// Whose room the version takes, and the file of the append.
    row: ChangeRow,
    pub(super) version: StoredVersion,
}

/// An append before which nothing was stored.
pub(super) struct Unstored {
    number: i64,
    pub(super) before: [u8; 32],
    pub(super) size_before: u64,
    class: VersionClass,
    is_stored: bool,
    share: String,
    path: String,
}

impl History {
    /// Compresses the first version with which the version before a change begins, if so far only
    /// the file holds it.
    pub(super) fn store_beginning(
        &self,
        row: &ChangeRow,
        source: VersionSource<'_>,
    ) -> Result<Option<KeptBeginning>, HistoryError> {
        if matches!(source, VersionSource::WithinAfter) {
            return Ok(None);
        }
        let Some(append) = self.append_to_first(row)? else { return Ok(None) };
        let Unstored { number, before, size_before, share, path, .. } = append;
        let too_short = HistoryError::Changed;
        let beginning = match source {
            VersionSource::WithinAfter => return Ok(None),
            VersionSource::Bytes(bytes) => {
                let size = usize::try_from(size_before).unwrap_or(usize::MAX);
                VersionSource::Bytes(bytes.get(..size).ok_or(too_short)?)
            }
            VersionSource::File(file, _) => VersionSource::File(file, size_before),
        };
        // What a command of the owner displaces counts for the client that appended.
        let share = match row.by {
            CallBy::Client => row.share.clone(),
            CallBy::Owner => share,
        };
        let row = ChangeRow {
            share,
            path,
            by: CallBy::Client,
            class: Some(VersionClass::First),
            ..row.clone()
        };
        let stored = self.store_version(&row, ContentHash::from_bytes(before), beginning)?;
        Ok(stored.map(|version| KeptBeginning { append: number, row, version }))
    }

    /// Finds the last append that added to a first version which is not stored. A version that is
    /// itself a first version is kept whole, so that nothing else need be kept of it.
    fn append_to_first(&self, row: &ChangeRow) -> Result<Option<Unstored>, HistoryError> {
        let Some(append) = self.append_to_unstored(row)? else { return Ok(None) };
        let class = RoomMaker::new(&self.relaxed(), 0).class_of(row)?;
        // The history may drop a version that the owner displaced, even a first one, so its
        // beginning is kept.
        let may_go = class == VersionClass::Later || row.by == CallBy::Owner;
        Ok(may_go.then_some(append))
    }

    /// Finds the last append that added to a first version which is not stored, whatever the
    /// version is that a change displaces.
    pub(super) fn append_to_unstored(
        &self,
        row: &ChangeRow,
    ) -> Result<Option<Unstored>, HistoryError> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT number, before, size_before, is_later, version IS NOT NULL, share, path \
             FROM changes WHERE kind = 'appended' AND after = ?1 AND space = ?2 AND number < ?3 \
             ORDER BY number DESC LIMIT 1",
        )?;
        let (mut after, mut below) = (row.before, i64::MAX);
        while let Some(hash) = after {
            let append = query.query_row(params![hash, row.space, below], unstored).optional()?;
            let Some(append) = append else { break };
            let is_of_other = row.by == CallBy::Client && append.share != row.share;
            let class = if is_of_other { VersionClass::First } else { append.class };
            match beginning_of(&PastAppend { class, is_stored: append.is_stored }) {
                Beginning::IsKept => break,
                Beginning::MayBeginWithFirst => {
                    (after, below) = (Some(append.before), append.number);
                }
                Beginning::IsKeptNow => return Ok(Some(append)),
            }
        }
        Ok(None)
    }
}

impl RoomMaker<'_> {
    /// Makes room for the beginning of a version, and stores it as the version before its append.
    /// Returns why there is no room.
    pub(super) fn keep_beginning(
        &mut self,
        KeptBeginning { append, row, version }: &KeptBeginning,
    ) -> rusqlite::Result<Option<NoRoom>> {
        let is_there: bool = self
            .transaction
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM changes WHERE number = ?1)")?
            .query_row([append], |row| row.get(0))?;
        if !is_there {
            return Ok(None);
        }
        let (class, why) = self.make_for_version(row, VersionClass::First, version)?;
        if why.is_some() {
            return Ok(why);
        }
        let stored = self.store(row, class, version)?;
        self.transaction
            .prepare_cached("UPDATE changes SET version = ?2, is_later = 0 WHERE number = ?1")?
            .execute([*append, stored])?;
        Ok(None)
    }
}

fn unstored(row: &rusqlite::Row<'_>) -> rusqlite::Result<Unstored> {
    Ok(Unstored {
        number: row.get(0)?,
        before: row.get(1)?,
        size_before: u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default(),
        class: match row.get(3)? {
            true => VersionClass::Later,
            false => VersionClass::First,
        },
        is_stored: row.get(4)?,
        share: row.get(5)?,
        path: row.get(6)?,
    })
}
