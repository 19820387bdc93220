//! Makes room for a change within one transaction, by the rules of `domain::history::retention`.
//!
//! All processes that use the history decide in transactions that exclude each other, so the limit
//! holds for all of them together. A version that becomes a file gets its room before the file is
//! written: the row of a reservation stands for it until the change is recorded.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, ToSql, params};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::history::retention::{
    Addition, HistoryUse, LastChange, Room, RowOf, VersionClass, class_of, room_for, room_for_row,
    row_of, victims,
};
use stile_domain::records::instant::MICROS_A_SECOND;

use super::CallBy;
use super::change_row::{ChangeRow, integer};
use super::error::NoRoom;
use super::stored_version::{Place, StoredVersion};
use super::undo_room::UndoRoom;
use super::unrecorded::UnrecordedNames;
use crate::now;

/// After this time in microseconds a reservation is of a process that was killed.
const RESERVATION_AGE: i64 = 10 * 60 * MICROS_A_SECOND;

/// Removes the reservations of processes that were killed.
pub(super) fn drop_dead_reservations(connection: &Connection) -> rusqlite::Result<()> {
    let dead = now().0.saturating_sub(RESERVATION_AGE);
    let mut delete = connection.prepare_cached("DELETE FROM reservations WHERE at < ?1")?;
    delete.execute([dead]).map(drop)
}

/// A later version that goes to make room.
struct Later {
    version: i64,
    file: Option<String>,
    stored: u64,
}

/// Which later versions go to make room, and which stay.
#[derive(Default)]
pub(super) struct Laters<'r> {
    /// The change whose file's own versions go first.
    pub(super) of_file: Option<&'r ChangeRow>,
    /// The version that is to be kept, which the history has already.
    pub(super) keep: Option<i64>,
    /// The undo that makes the change, whose versions stay.
    pub(super) undo: Option<&'r UndoRoom>,
}

impl<'r> Laters<'r> {
    /// Returns those that go for a change of an undo, or for any other change.
    pub(super) fn for_undo(undo: &'r Option<Arc<UndoRoom>>) -> Self {
        Self { undo: undo.as_deref(), ..Self::default() }
    }
}

/// Makes room in one transaction.
pub(super) struct RoomMaker<'t> {
    pub(super) transaction: &'t Connection,
    /// The most bytes that the history may take.
    limit: u64,
    /// The bytes of the row that has its room, and is not inserted yet.
    pub(super) row_bytes: u64,
    /// The files of the versions that went.
    pub(super) gone: Vec<String>,
}

impl<'t> RoomMaker<'t> {
    pub(super) fn new(transaction: &'t Connection, limit: u64) -> Self {
        Self { transaction, limit, row_bytes: 0, gone: Vec::new() }
    }

    /// Returns what the version before a change is to its client. For a command of the owner, what
    /// any client made is a later version.
    pub(super) fn class_of(&self, row: &ChangeRow) -> rusqlite::Result<VersionClass> {
        if let Some(class) = row.class {
            return Ok(class);
        }
        let share = match row.by {
            CallBy::Client => Some(row.share.as_str()),
            CallBy::Owner => None,
        };
        let last = |place: &str| {
            let query = format!(
                "SELECT number, kind, after, is_later FROM changes \
                 WHERE space = ?1 AND {place} AND (?3 IS NULL OR share = ?3) \
                 ORDER BY number DESC LIMIT 1"
            );
            let mut query = self.transaction.prepare_cached(&query)?;
            query
                .query_row(params![row.space, row.path, share], |found| {
                    let (number, kind): (i64, String) = (found.get(0)?, found.get(1)?);
                    let after: Option<[u8; 32]> = found.get(2)?;
                    let class = match found.get(3)? {
                        true => VersionClass::Later,
                        false => VersionClass::First,
                    };
                    let kind = PastChangeKind::from_word(&kind).unwrap_or(PastChangeKind::Replaced);
                    let after = after.map(ContentHash::from_bytes);
                    Ok((number, LastChange { kind, after, class }))
                })
                .optional()
        };
        let here = last("path = ?2 AND kind <> 'moved'")?;
        let moved = last("destination = ?2")?;
        let newest = [here, moved].into_iter().flatten().max_by_key(|(number, _)| *number);
        let before = row.before.map(ContentHash::from_bytes);
        Ok(class_of(before, newest.map(|(_, last)| last)))
    }

    /// Returns how much the history holds, as far as it counts for a share.
    pub(super) fn history_use(&self, share: &str) -> rusqlite::Result<HistoryUse> {
        let sums = |query: &str| -> rusqlite::Result<[u64; 4]> {
            let mut query = self.transaction.prepare_cached(query)?;
            query.query_row([share], |row| {
                let number = |at| -> rusqlite::Result<u64> {
                    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or_default())
                };
                Ok([number(0)?, number(1)?, number(2)?, number(3)?])
            })
        };
        let [used, firsts, own, own_bulk_rows] = sums(
            "SELECT coalesce(sum(firsts + laters), 0), coalesce(sum(firsts), 0), \
             coalesce(sum(firsts) FILTER (WHERE share = ?1), 0), \
             coalesce(sum(bulk_rows) FILTER (WHERE share = ?1), 0) FROM shares",
        )?;
        let [reserved, reserved_firsts, own_reserved, _] = sums(
            "SELECT coalesce(sum(bytes), 0), coalesce(sum(bytes) FILTER (WHERE is_first), 0), \
             coalesce(sum(bytes) FILTER (WHERE is_first AND share = ?1), 0), 0 \
             FROM reservations",
        )?;
        Ok(HistoryUse {
            limit: self.limit,
            used: used + reserved + self.row_bytes,
            firsts: firsts + reserved_firsts + self.row_bytes,
            own_firsts: own + own_reserved + self.row_bytes,
            own_bulk_rows,
        })
    }

    /// Makes room for an addition. Returns why there is none.
    fn make(
        &mut self,
        row: &ChangeRow,
        addition: Addition,
        keep: Option<i64>,
    ) -> rusqlite::Result<Option<NoRoom>> {
        let room = room_for(addition, &self.history_use(&row.share)?);
        self.take(row, room, keep)
    }

    /// Removes what must go for a row or a version. Returns why there is no room.
    fn take(
        &mut self,
        row: &ChangeRow,
        room: Room,
        keep: Option<i64>,
    ) -> rusqlite::Result<Option<NoRoom>> {
        match room {
            Room::Free => Ok(None),
            Room::OverShare => Ok(Some(NoRoom::OverShare)),
            Room::TooLarge => Ok(Some(NoRoom::TooLarge)),
            Room::After(excess) => {
                let goes = Laters { of_file: Some(row), keep, ..Laters::for_undo(&row.room) };
                Ok((!self.remove_laters(&goes, excess)?).then_some(NoRoom::OverShare))
            }
        }
    }

    /// Makes room for the row of a change. A row of the owner finds room always.
    pub(super) fn make_for_row(
        &mut self,
        row: &ChangeRow,
        class: VersionClass,
    ) -> rusqlite::Result<Option<NoRoom>> {
        let bytes = row.bytes();
        self.row_bytes = 0;
        let of = row_of(row.kind, class);
        let room = room_for_row(bytes, of, &self.history_use(&row.share)?);
        let why = self.take(row, room, None)?;
        self.row_bytes = bytes;
        Ok(why.filter(|_| row.by == CallBy::Client))
    }

    /// Makes room for a version. Returns what the version is to be kept as, and why there is no
    /// room for it.
    pub(super) fn make_for_version(
        &mut self,
        row: &ChangeRow,
        class: VersionClass,
        stored: &StoredVersion,
    ) -> rusqlite::Result<(VersionClass, Option<NoRoom>)> {
        if let Some(class) = stored.reserved {
            return Ok((class, None));
        }
        let known: Option<(i64, bool)> = self
            .transaction
            .prepare_cached("SELECT version, is_first FROM versions WHERE hash = ?1")?
            .query_row([stored.hash.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let added = if known.is_some() { 0 } else { stored.stored };
        let is_first = known.is_some_and(|(_, is_first)| is_first);
        let charged = |class| match class {
            VersionClass::First if !is_first => stored.stored,
            _ => 0,
        };
        let keep = known.map(|(version, _)| version);
        if row.room.as_ref().is_some_and(|room| !room.keeps(&stored.hash)) {
            return Ok((class, Some(NoRoom::OverShare)));
        }
        if let (CallBy::Owner, Some(_)) = (row.by, &row.room) {
            let history = self.history_use(&row.share)?;
            let first = room_for(Addition { added, charged: charged(class) }, &history);
            let class = match first {
                Room::Free | Room::After(_) => class,
                Room::OverShare | Room::TooLarge => VersionClass::Later,
            };
            // A version that the history has needs no room, even if rows take more than there is.
            let excess = history.used.saturating_add(added).saturating_sub(self.limit);
            let goes = Laters { of_file: Some(row), keep, ..Laters::for_undo(&row.room) };
            let is_kept = added == 0 || self.remove_laters(&goes, excess)?;
            return Ok((class, (!is_kept).then_some(NoRoom::OverShare)));
        }
        let why = self.make(row, Addition { added, charged: charged(class) }, keep)?;
        match (why, row.by) {
            (None, _) => Ok((class, None)),
            // The owner is never refused: the version may go again where there is no room.
            (Some(_), CallBy::Owner) => {
                let later = VersionClass::Later;
                Ok((later, self.make(row, Addition { added, charged: charged(later) }, keep)?))
            }
            (Some(why), CallBy::Client) => Ok((class, Some(why))),
        }
    }

    /// Reserves room for a version that becomes a file.
    pub(super) fn reserve(
        &mut self,
        row: &ChangeRow,
        stored: &StoredVersion,
    ) -> rusqlite::Result<Result<VersionClass, NoRoom>> {
        drop_dead_reservations(self.transaction)?;
        let class = self.class_of(row)?;
        let (class, why) = self.make_for_version(row, class, stored)?;
        let Place::File(file) = &stored.place else { return Ok(Ok(class)) };
        if let Some(why) = why {
            return Ok(Err(why));
        }
        self.transaction
            .prepare_cached(
                "INSERT INTO reservations (file, share, is_first, bytes, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                file,
                row.share,
                class == VersionClass::First,
                integer(stored.stored),
                now().0,
            ])?;
        Ok(Ok(class))
    }

    /// Stores a version for which there is room, and returns its number.
    pub(super) fn store(
        &mut self,
        row: &ChangeRow,
        class: VersionClass,
        stored: &StoredVersion,
    ) -> rusqlite::Result<i64> {
        let file = match &stored.place {
            Place::Database(_) => None,
            Place::File(name) => Some(name),
        };
        let is_first = class == VersionClass::First;
        self.transaction
            .prepare_cached("DELETE FROM reservations WHERE file = ?1")?
            .execute([file])?;
        let is_new = self
            .transaction
            .prepare_cached(
                "INSERT INTO versions (hash, size, stored, file, share, is_first) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (hash) DO NOTHING",
            )?
            .execute(params![
                stored.hash.as_bytes(),
                integer(stored.size),
                integer(stored.stored),
                file,
                row.share,
                is_first,
            ])?
            > 0;
        stored.is_used.set(is_new);
        let version: i64 = self
            .transaction
            .prepare_cached("SELECT version FROM versions WHERE hash = ?1")?
            .query_row([stored.hash.as_bytes()], |row| row.get(0))?;
        if let (true, Place::Database(bytes)) = (is_new, &stored.place) {
            self.transaction
                .prepare_cached("INSERT INTO contents (version, bytes) VALUES (?1, ?2)")?
                .execute(params![version, bytes])?;
        }
        if is_first {
            self.transaction
                .prepare_cached(
                    "UPDATE versions SET is_first = 1, share = ?2 \
                     WHERE version = ?1 AND is_first = 0",
                )?
                .execute(params![version, row.share])?;
        }
        Ok(version)
    }

    /// Names the last change that needs a version.
    pub(super) fn name_change(&mut self, version: i64, number: i64) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached(
                "UPDATE versions SET last_change = ?2, \
                 last_path = (SELECT path FROM changes WHERE number = ?2), \
                 share = CASE WHEN is_first THEN share \
                 ELSE (SELECT share FROM changes WHERE number = ?2) END WHERE version = ?1",
            )?
            .execute([version, number])?;
        Ok(())
    }

    /// Removes later versions until `excess` bytes are free. Returns `false`, and removes none, if
    /// an undo needs so many that this cannot be. Without an undo, removes all that there are then.
    /// Their changes stay, so that an undo still knows what led to what.
    pub(super) fn remove_laters(
        &mut self,
        goes: &Laters<'_>,
        excess: u64,
    ) -> rusqlite::Result<bool> {
        let mut gone = Vec::new();
        if let Some(row) = goes.of_file {
            let of_file = "AND last_path = ?1 AND share = ?2";
            gone = self.laters_to_go(of_file, &[&row.path, &row.share], (goes, &[]), excess)?;
        }
        let freed: u64 = gone.iter().map(|later| later.stored).sum();
        let before: Vec<i64> = gone.iter().map(|later| later.version).collect();
        gone.extend(self.laters_to_go("", &[], (goes, &before), excess.saturating_sub(freed))?);
        let freed: u64 = gone.iter().map(|later| later.stored).sum();
        if freed < excess && goes.undo.is_some() {
            return Ok(false);
        }
        for Later { version, file, .. } in gone {
            self.remove_version(version)?;
            self.gone.extend(file);
        }
        Ok(true)
    }

    /// Returns the later versions that go first, without those that stay and those of `before`.
    fn laters_to_go(
        &self,
        condition: &str,
        values: &[&dyn ToSql],
        (goes, before): (&Laters<'_>, &[i64]),
        excess: u64,
    ) -> rusqlite::Result<Vec<Later>> {
        let query = format!(
            "SELECT version, stored, file, hash FROM versions WHERE is_first = 0 {condition} \
             ORDER BY last_change"
        );
        let mut query = self.transaction.prepare_cached(&query)?;
        let rows = query.query_map(values, |row| {
            let stored = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
            let later = Later { version: row.get(0)?, file: row.get(2)?, stored };
            Ok((later, ContentHash::from_bytes(row.get(3)?)))
        })?;
        let mut failed = None;
        // Only as many rows are read as must go, beside those that stay.
        let laters = rows.map_while(|row| row.map_err(|error| failed = Some(error)).ok());
        let laters = laters.filter(|(later, hash)| {
            let stays = goes.undo.is_some_and(|undo| undo.needs(hash));
            !stays && goes.keep != Some(later.version) && !before.contains(&later.version)
        });
        let gone = victims(
            laters.map(|(later, _)| {
                let stored = later.stored;
                (later, stored)
            }),
            excess,
        );
        match failed {
            Some(error) => Err(error),
            None => Ok(gone),
        }
    }

    fn remove_version(&self, version: i64) -> rusqlite::Result<()> {
        for statement in [
            "UPDATE changes SET version = NULL WHERE version = ?1",
            "DELETE FROM contents WHERE version = ?1",
            "DELETE FROM versions WHERE version = ?1",
        ] {
            self.transaction.prepare_cached(statement)?.execute([version])?;
        }
        Ok(())
    }

    /// Counts a change that is made without a row.
    pub(super) fn count_unrecorded(&self, row: &ChangeRow, of: RowOf) -> rusqlite::Result<()> {
        let paths = (row.path.as_str(), row.destination.as_deref());
        self.count_without_row(row.space, (&row.share, row.author.name()), (paths, of))
    }

    /// Counts something that a client did at a path and that has no row.
    pub(super) fn count_without_row(
        &self,
        space: i64,
        (share, client): (&str, &str),
        (paths, of): ((&str, Option<&str>), RowOf),
    ) -> rusqlite::Result<()> {
        let known: Option<String> = self
            .transaction
            .prepare_cached("SELECT paths FROM unrecorded WHERE space = ?1 AND share = ?2")?
            .query_row(params![space, share], |row| row.get(0))
            .optional()?;
        let mut names =
            known.map_or_else(UnrecordedNames::default, |it| UnrecordedNames::parse(&it));
        names.add(paths, of == RowOf::Bulk);
        self.transaction
            .prepare_cached(
                "INSERT INTO unrecorded (space, share, client, changes, since, until, paths) \
                 VALUES (?1, ?2, ?3, 1, ?4, ?4, ?5) ON CONFLICT (space, share) \
                 DO UPDATE SET changes = changes + 1, until = ?4, paths = ?5",
            )?
            .execute(params![space, share, client, now().0, names.text()])?;
        Ok(())
    }
}
