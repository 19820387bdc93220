//! Removes the oldest changes, and the versions that no change needs any more.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::History;
use super::error::HistoryError;
use super::settings::{self, HistoryLimits};
use crate::clock::wall_clock;
use crate::now;

const MICROS_A_DAY: i64 = 86_400 * 1_000_000;
/// The share of the disk that the history may take: one part of so many.
const SHARE_OF_DISK: u64 = 10;
/// How many changes one transaction removes, so that no call waits long for the database.
const AT_ONCE: i64 = 256;
/// After this time a version that no row names was not about to be recorded.
const ORPHAN_AGE: Duration = Duration::from_secs(3600);
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

    /// Removes changes that are too old, and the oldest ones while the versions take too much room.
    pub(super) fn prune(&self) -> Result<(), HistoryError> {
        let days = i64::try_from(self.limits().days).unwrap_or(i64::MAX);
        let oldest = now().0.saturating_sub(days.saturating_mul(MICROS_A_DAY));
        let most = i64::try_from(self.most_bytes()).unwrap_or(i64::MAX);
        loop {
            let connection = self.relaxed();
            let mut numbers = too_old(&connection, oldest)?;
            if numbers.is_empty() {
                numbers = too_many(&connection, most)?;
            }
            if numbers.is_empty() {
                let freed = format!("PRAGMA incremental_vacuum({FREED_PAGES})");
                return Ok(connection.execute_batch(&freed)?);
            }
            drop(connection);
            self.remove_changes(&numbers)?;
        }
    }
}

impl History {
    /// Removes changes, and the versions that no other change needs.
    pub(super) fn remove_changes(&self, numbers: &[i64]) -> Result<(), HistoryError> {
        let mut connection = self.relaxed();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let gone = remove(&transaction, numbers)?;
        transaction.commit()?;
        drop(connection);
        for name in gone {
            let _ = std::fs::remove_file(self.objects().join(name));
        }
        Ok(())
    }

    /// Removes files of versions that a killed process wrote and never recorded.
    pub(super) fn remove_orphans(&self) -> Result<(), HistoryError> {
        for entry in std::fs::read_dir(self.objects())? {
            let entry = entry?;
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old = written.is_ok_and(|written| {
                wall_clock().duration_since(written).is_ok_and(|age| age > ORPHAN_AGE)
            });
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| is_old) else { continue };
            let is_known: bool = self.relaxed().query_row(
                "SELECT EXISTS (SELECT 1 FROM versions WHERE file = ?1)",
                [name],
                |row| row.get(0),
            )?;
            if !is_known {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Returns changes that were made before a time.
fn too_old(connection: &Connection, oldest: i64) -> rusqlite::Result<Vec<i64>> {
    let query = "SELECT number FROM changes WHERE at < ?1 ORDER BY number LIMIT ?2";
    let mut query = connection.prepare_cached(query)?;
    query.query_map([oldest, AT_ONCE], |row| row.get(0))?.collect()
}

/// Returns the oldest changes whose versions take what is above `most` bytes.
fn too_many(connection: &Connection, most: i64) -> rusqlite::Result<Vec<i64>> {
    let total: i64 = connection
        .prepare_cached("SELECT coalesce(sum(stored), 0) FROM versions")?
        .query_row([], |row| row.get(0))?;
    let mut excess = total.saturating_sub(most);
    let mut query = connection.prepare_cached(
        "SELECT number, coalesce(stored, 0) FROM changes LEFT JOIN versions USING (version) \
         ORDER BY number LIMIT ?1",
    )?;
    let mut numbers = Vec::new();
    for row in query.query_map([AT_ONCE], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))? {
        if excess <= 0 {
            break;
        }
        let (number, stored) = row?;
        excess -= stored;
        numbers.push(number);
    }
    Ok(numbers)
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
#[cfg(unix)]
fn disk_bytes(folder: &std::path::Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn disk_bytes(_: &std::path::Path) -> u64 {
    u64::MAX
}
