//! Removes the oldest changes, and the versions that no change needs any more.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use stile_domain::history::retention::victims;
use stile_domain::records::instant::Instant;

use super::error::HistoryError;
use super::room::{Laters, RoomMaker, drop_dead_reservations};
use super::settings::{self, HistoryLimits};
use super::unrecorded::UnrecordedNames;
use super::{History, UnrecordedChanges};
use crate::now;
use crate::platform;

/// The share of the disk that the history may take: one part of so many.
const SHARE_OF_DISK: u64 = 10;
/// How many changes one transaction removes, so that no call waits long for the database.
const AT_ONCE: i64 = 256;
/// Counts a version for the changes that still need it.
const NEEDED_BY_OTHERS: &str = "
    UPDATE versions SET
        is_first = EXISTS (SELECT 1 FROM changes WHERE version = ?1 AND is_later = 0),
        share = (SELECT share FROM changes WHERE version = ?1 ORDER BY is_later, number LIMIT 1),
        last_change = (SELECT max(number) FROM changes WHERE version = ?1),
        last_path = (SELECT path FROM changes WHERE version = ?1 ORDER BY number DESC LIMIT 1)
    WHERE version = ?1";
/// How many free pages of the database are given back at once.
const FREED_PAGES: u32 = 1024;

impl History {
    /// Returns the most bytes that all versions may take.
    pub(super) fn most_bytes(&self) -> u64 {
        self.limits().bytes.min(disk_bytes(&self.folder) / SHARE_OF_DISK)
    }

    /// Returns the limits that hold now. Another server may have stored others since this process
    /// opened the history.
    fn limits(&self) -> HistoryLimits {
        let stored = settings::load(&self.relaxed(), &self.settings);
        stored.unwrap_or(self.settings).limits
    }

    /// Removes changes that are too old. Where the versions take too much room by the settings of
    /// now, removes later versions, and if that is not enough, the oldest changes.
    pub(super) fn prune(&self) -> Result<(), HistoryError> {
        let days = i64::try_from(self.limits().days).unwrap_or(i64::MAX);
        let oldest = now().plus_days(-days).0;
        let most = self.most_bytes();
        self.relaxed().execute("DELETE FROM unrecorded WHERE until < ?1", [oldest])?;
        self.relaxed().execute("DELETE FROM folders WHERE at < ?1", [oldest])?;
        self.prune_laters(most)?;
        loop {
            let connection = self.relaxed();
            let mut numbers = too_old(&connection, oldest)?;
            if numbers.is_empty() {
                numbers = too_many(&connection, used(&connection)?.saturating_sub(most))?;
            }
            if numbers.is_empty() {
                if used(&connection)? > most {
                    connection.execute_batch("DELETE FROM folders")?;
                }
                let freed = format!("PRAGMA incremental_vacuum({FREED_PAGES})");
                return Ok(connection.execute_batch(&freed)?);
            }
            drop(connection);
            self.remove_changes(&numbers)?;
        }
    }

    /// Removes later versions while all versions take more than `most` bytes.
    fn prune_laters(&self, most: u64) -> Result<(), HistoryError> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let excess = used(&transaction)?.saturating_sub(most);
        let mut room = RoomMaker::new(&transaction, most);
        room.remove_laters(&Laters::default(), excess)?;
        let gone = room.gone;
        transaction.commit()?;
        drop(connection);
        self.remove_objects(gone);
        Ok(())
    }
}

impl History {
    /// Removes changes, and the versions that no other change needs.
    pub(super) fn remove_changes(&self, numbers: &[i64]) -> Result<(), HistoryError> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let gone = remove(&transaction, numbers)?;
        transaction.commit()?;
        drop(connection);
        self.remove_objects(gone);
        Ok(())
    }

    /// Removes files of versions that a killed process wrote and never recorded, and the
    /// reservations of such processes.
    pub(super) fn remove_orphans(&self) -> Result<(), HistoryError> {
        drop_dead_reservations(&self.relaxed())?;
        for entry in std::fs::read_dir(self.objects())? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // A file is reserved before it is written, and recorded in the same transaction in
            // which its reservation goes.
            let is_known: bool = self.relaxed().query_row(
                "SELECT EXISTS (SELECT 1 FROM versions WHERE file = ?1 \
                 UNION ALL SELECT 1 FROM reservations WHERE file = ?1)",
                [name],
                |row| row.get(0),
            )?;
            if !is_known {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the changes that were made without a row, since there was no room for one.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn unrecorded(&self) -> Result<Vec<UnrecordedChanges>, HistoryError> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT client, changes, since, until, paths, share FROM unrecorded \
             WHERE space = ?1 ORDER BY share",
        )?;
        let rows = query.query_map([self.space], |row| {
            Ok(UnrecordedChanges {
                names: UnrecordedNames::parse(&row.get::<_, String>(4)?).names(),
                client: row.get(0)?,
                share: row.get(5)?,
                changes: u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default(),
                since: Instant(row.get(2)?),
                until: Instant(row.get(3)?),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Returns the bytes that the history takes.
pub(super) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let used: i64 = connection
        .prepare_cached("SELECT coalesce(sum(firsts + laters), 0) FROM shares")?
        .query_row([], |row| row.get(0))?;
    Ok(u64::try_from(used).unwrap_or_default())
}

/// Returns changes of one space that were made before a time, the earliest first.
fn too_old(connection: &Connection, oldest: i64) -> rusqlite::Result<Vec<i64>> {
    let mut spaces = connection.prepare_cached("SELECT space FROM spaces")?;
    let mut query = connection.prepare_cached(
        "SELECT number FROM changes WHERE space = ?1 AND at < ?2 ORDER BY at, number LIMIT ?3",
    )?;
    for space in spaces.query_map([], |row| row.get::<_, i64>(0))? {
        let numbers = query.query_map([space?, oldest, AT_ONCE], |row| row.get(0))?;
        let numbers: Vec<i64> = numbers.collect::<rusqlite::Result<_>>()?;
        if !numbers.is_empty() {
            return Ok(numbers);
        }
    }
    Ok(Vec::new())
}

/// Returns changes that take `excess` bytes with their versions: those of the client that keeps the
/// most, first those without a version, and then the oldest. So what an undo adds for the bulk of
/// one client takes nothing from the others.
fn too_many(connection: &Connection, excess: u64) -> rusqlite::Result<Vec<i64>> {
    if excess == 0 {
        return Ok(Vec::new());
    }
    let mut query = connection.prepare_cached(
        "SELECT number, changes.bytes + coalesce(stored, 0) FROM changes \
         LEFT JOIN versions ON versions.version = changes.version \
         WHERE changes.share = (SELECT share FROM shares ORDER BY firsts + laters DESC LIMIT 1) \
         ORDER BY changes.version IS NOT NULL, number LIMIT ?1",
    )?;
    let oldest = query.query_map([AT_ONCE], |row| {
        Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default()))
    })?;
    Ok(victims(oldest.collect::<rusqlite::Result<Vec<_>>>()?, excess))
}

/// Removes changes, and the versions that no other change needs. Returns those that are files.
fn remove(transaction: &Connection, numbers: &[i64]) -> rusqlite::Result<Vec<String>> {
    let mut files = Vec::new();
    for number in numbers {
        let version: Option<i64> = transaction
            .prepare_cached("DELETE FROM changes WHERE number = ?1 RETURNING version")?
            .query_row([number], |row| row.get(0))
            .optional()?
            .flatten();
        let Some(version) = version else { continue };
        let is_needed: bool = transaction
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM changes WHERE version = ?1)")?
            .query_row([version], |row| row.get(0))?;
        if is_needed {
            transaction.prepare_cached(NEEDED_BY_OTHERS)?.execute([version])?;
            continue;
        }
        transaction
            .prepare_cached("DELETE FROM contents WHERE version = ?1")?
            .execute([version])?;
        let file: Option<String> = transaction
            .prepare_cached("DELETE FROM versions WHERE version = ?1 RETURNING file")?
            .query_row([version], |row| row.get(0))?;
        files.extend(file);
    }
    Ok(files)
}

/// Returns the size of the disk with a folder, in bytes; the greatest number if it is unknown.
fn disk_bytes(folder: &std::path::Path) -> u64 {
    platform::disk_bytes(folder).unwrap_or(u64::MAX)
}
