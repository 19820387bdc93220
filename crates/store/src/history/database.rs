//! The database of the history: changes, versions, and what is held.
//!
//! One connection syncs at each commit. The other one does not, for what may be lost in a power
//! cut. The write-ahead log keeps both in order.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};
use stile_domain::history::past_change::ChangeNumber;
use stile_domain::history::retention::{RowOf, VersionClass, row_of};

use super::change_row::integer;
use super::error::HistoryError;
use super::room::RoomMaker;
use super::settings::UnkeptChange;
use super::{CallBy, Kept, MadeRow, Waiting};
use crate::sql::wait_for_disk;
use crate::state::{Migration, SqliteSchema, lock_database};

pub(super) const NAME: &str = "history.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
/// The schema of the database. `Stih` tells the database from those of other programs.
const SCHEMA: SqliteSchema =
    SqliteSchema { application: 0x5374_6968, creation: include_str!("schema.sql"), changes: &[] };

/// Opens the database in `folder`, and makes it on first use. Returns the connection that syncs and
/// the one that does not.
pub(super) fn open(folder: &Path) -> Result<(Connection, Connection), HistoryError> {
    let path = folder.join(NAME);
    let _queue = lock_database(&path).map_err(|(_, error)| error)?;
    let mut connection = connect(&path, "FULL")?;
    match SCHEMA.migrate(&mut connection)? {
        Migration::Done => {}
        Migration::Foreign => return Err(HistoryError::Foreign),
        Migration::Newer => return Err(HistoryError::Newer),
    }
    Ok((connection, connect(&path, "NORMAL")?))
}

fn connect(path: &Path, synchronous: &'static str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Takes effect before the first table is made, and is ignored afterwards.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    wait_for_disk(&connection, synchronous)?;
    Ok(connection)
}

/// Returns the number of a space, which is recognised by its folder.
pub(super) fn space(
    connection: &mut Connection,
    folder: &str,
    path: &str,
) -> Result<i64, HistoryError> {
    let store = "INSERT INTO spaces (folder, path) VALUES (?1, ?2) \
                 ON CONFLICT (folder) DO UPDATE SET path = ?2 RETURNING space";
    Ok(connection.query_row(store, [folder, path], |row| row.get(0))?)
}

/// Returns the number of each space, and what its folder is recognised by, the earliest first.
pub(super) fn spaces(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut query = connection.prepare("SELECT space, folder FROM spaces ORDER BY space")?;
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Gives the space `to` another folder, with what was recorded for the spaces `joined`, of which
/// one may have that folder.
pub(super) fn adopt(
    connection: &mut Connection,
    (to, joined): (i64, &[i64]),
    (folder, path): (&str, &str),
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for &from in joined {
        transaction.execute("UPDATE changes SET space = ?2 WHERE space = ?1", [from, to])?;
        let unrecorded = "UPDATE OR REPLACE unrecorded SET space = ?2 WHERE space = ?1";
        transaction.execute(unrecorded, [from, to])?;
        transaction.execute("UPDATE folders SET space = ?2 WHERE space = ?1", [from, to])?;
        transaction.execute("DELETE FROM spaces WHERE space = ?1", [from])?;
    }
    let adopt = "UPDATE spaces SET folder = ?2, path = ?3 WHERE space = ?1";
    transaction.execute(adopt, params![to, folder, path])?;
    transaction.commit()
}

/// Records all changes that wait in one transaction, and replies to each. Returns the files of the
/// versions that went to make room.
pub(super) fn record(
    connection: &mut Connection,
    waiting: &[Waiting],
    (limit, unkept): (u64, UnkeptChange),
) -> Vec<String> {
    let recorded: rusqlite::Result<_> = (|| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = RoomMaker::new(&transaction, limit);
        let replies: rusqlite::Result<Vec<_>> =
            waiting.iter().map(|change| insert(&mut room, change, unkept)).collect();
        let (replies, gone) = (replies?, room.gone);
        transaction.commit()?;
        Ok((replies, gone))
    })();
    match recorded {
        Ok((replies, gone)) => {
            for (change, reply) in waiting.iter().zip(replies) {
                let _ = change.reply.send(reply);
            }
            gone
        }
        Err(error) => {
            for version in waiting.iter().flat_map(Waiting::versions) {
                version.is_used.set(false);
            }
            let code = |error: &rusqlite::Error| match error {
                rusqlite::Error::SqliteFailure(code, _) => {
                    rusqlite::Error::SqliteFailure(*code, None)
                }
                _ => rusqlite::Error::InvalidQuery,
            };
            for change in waiting {
                let _ = change.reply.send(Err(HistoryError::Database(code(&error))));
            }
            Vec::new()
        }
    }
}

/// Records a change, after making room for it. The outer error is of the database, the inner one
/// says why the change cannot be recorded.
pub(super) fn insert(
    room: &mut RoomMaker<'_>,
    waiting: &Waiting,
    unkept: UnkeptChange,
) -> rusqlite::Result<Result<Kept, HistoryError>> {
    let Waiting { row, version, .. } = waiting;
    let transaction = room.transaction;
    let class = room.class_of(row)?;
    let refuses = unkept == UnkeptChange::IsRefused && row.by == CallBy::Client;
    if let Some(why) = room.make_for_row(row, class)? {
        return Ok(match refuses {
            true => Err(why.into()),
            false => room.merge_or_count(waiting, (row_of(row.kind, class), why))?,
        });
    }
    let beginning = waiting.beginning.as_ref().map(|beginning| room.keep_beginning(beginning));
    let beginning = beginning.transpose()?.flatten().or(waiting.lacks);
    let (class, lacks) = match version {
        None => (class, waiting.lacks),
        Some(stored) => room.make_for_version(row, class, stored)?,
    };
    let why_not_all = beginning.or(lacks);
    if let Some(why) = why_not_all.filter(|_| refuses) {
        return Ok(Err(why.into()));
    }
    let version = match version.as_ref().filter(|_| lacks.is_none()) {
        None => None,
        Some(stored) => Some(room.store(row, class, stored)?),
    };
    let mut insert = transaction.prepare_cached(
        "INSERT INTO changes (space, call, at, kind, path, destination, before, size_before, \
         after, version, tool, subject, client, token, mode, attributes, share, is_later, is_bulk, \
         bytes, takes_back) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
         ?19, ?20, ?21)",
    )?;
    insert.execute(params![
        row.space,
        row.call.unwrap_or(0),
        row.at,
        row.kind.word(),
        row.path,
        row.destination,
        row.before,
        row.size_before,
        row.after,
        version,
        row.author.tool,
        row.author.subject,
        row.author.client,
        row.author.token,
        row.mode,
        row.attributes,
        row.share,
        class == VersionClass::Later,
        row_of(row.kind, class) == RowOf::Bulk,
        integer(row.bytes()),
        row.takes_back,
    ])?;
    let number = transaction.last_insert_rowid();
    room.row_bytes = 0;
    if let Some(version) = version {
        room.name_change(version, number)?;
    }
    if row.call.is_none() {
        transaction
            .prepare_cached("UPDATE changes SET call = number WHERE number = ?1")?
            .execute([number])?;
    }
    room.hold(row)?;
    let lacks = why_not_all.map(HistoryError::from);
    Ok(Ok(Kept { made: MadeRow::New(ChangeNumber(number)), lacks }))
}
