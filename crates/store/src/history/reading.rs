//! Finds changes, and the versions of a file.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Row, params, params_from_iter, types::Value,
};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChange, PastChangeKind};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;

use super::change_query::{ChangeAuthor, ChangeQuery, ClientChanges, NewestFirst};
use super::change_row::OWNER;
use super::error::{HistoryError, VersionError};
use super::file_metadata::{FileMetadata, MetadataOf};
use super::{History, database};
use crate::state::StateDir;

const COLUMNS: &str = "number, call, at, kind, path, destination, before, size_before, after, \
                       tool, subject, client, token, takes_back";

impl History {
    /// Finds changes, the latest first.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn changes(&self, query: &ChangeQuery) -> Result<NewestFirst, HistoryError> {
        let conditions = ChangeConditions::of_changes(self.space, query);
        let order = conditions.newest_first();
        let ChangeConditions { sql, values, .. } = conditions;
        let sql = format!("SELECT {COLUMNS} FROM changes WHERE {sql} ORDER BY {order}");
        let connection = self.relaxed();
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), change)?;
        let mut found = Vec::new();
        for row in rows {
            let row = row?;
            let is_wanted = |row: &PastChange| {
                query.caller.as_ref().is_none_or(|caller| row.author.is_same_caller(caller))
            };
            found.extend(row.filter(is_wanted));
            if query.limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
        }
        Ok(found)
    }

    /// Returns those who made the changes that a query finds, and those whose changes are not in
    /// the history.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn authors(&self, query: &ChangeQuery) -> Result<BTreeSet<ChangeAuthor>, HistoryError> {
        let connection = self.relaxed();
        let mut statement = connection.prepare_cached(
            "SELECT client, CASE WHEN share LIKE 'token %' THEN substr(share, 7) END \
             FROM unrecorded WHERE space = ?1",
        )?;
        let unrecorded = statement.query_map([self.space], author)?;
        let mut authors: BTreeSet<_> = unrecorded.collect::<rusqlite::Result<_>>()?;
        if query.is_of_all() {
            // Each share is one author's, and is found after the one before.
            let mut next = connection
                .prepare_cached("SELECT min(share) FROM changes WHERE space = ?1 AND share > ?2")?;
            let mut of_share = connection.prepare_cached(
                "SELECT coalesce(client, subject), token FROM changes \
                 WHERE space = ?1 AND share = ?2 LIMIT 1",
            )?;
            let mut share = String::new();
            while let Some(found) =
                next.query_row(params![self.space, share], |row| row.get::<_, Option<String>>(0))?
            {
                authors.insert(of_share.query_row(params![self.space, found], author)?);
                share = found;
            }
        } else {
            let ChangeConditions { sql, values, .. } =
                ChangeConditions::of_changes(self.space, query);
            let mut statement = connection.prepare_cached(&format!(
                "SELECT DISTINCT coalesce(client, subject), token FROM changes WHERE {sql}"
            ))?;
            let found = statement.query_map(params_from_iter(values), author)?;
            authors.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(authors)
    }

    /// Finds the changes after `above` of these paths, and of all paths from which or to which one
    /// of them moved something. Returns them in the order of their numbers.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn related_changes(
        &self,
        paths: impl IntoIterator<Item = SpacePath>,
        above: ChangeNumber,
    ) -> Result<Vec<PastChange>, HistoryError> {
        let connection = self.relaxed();
        let sql = format!(
            "SELECT {COLUMNS} FROM changes WHERE number IN (\
             SELECT number FROM changes WHERE space = ?1 AND path = ?2 AND number > ?3 \
             UNION ALL \
             SELECT number FROM changes WHERE space = ?1 AND destination = ?2 AND number > ?3)"
        );
        let mut query = connection.prepare_cached(&sql)?;
        let mut waiting: Vec<SpacePath> = paths.into_iter().collect();
        let (mut seen, mut found) = (BTreeSet::new(), BTreeMap::new());
        while let Some(path) = waiting.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let rows = query.query_map(params![self.space, path.as_str(), above.0], change)?;
            for row in rows {
                let Some(change) = row? else { continue };
                waiting.extend(change.to.iter().chain([&change.path]).cloned());
                found.insert(change.number, change);
            }
        }
        Ok(found.into_values().collect())
    }

    /// Returns when the second of the calls changed something that the history of a state folder
    /// has, of whatever space; `None` if it has fewer, or there is no history. Of the first call, a
    /// kill may have prevented everything else.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn second_call(state: &StateDir) -> Result<Option<Instant>, HistoryError> {
        let path = state.path().join(super::FOLDER).join(database::NAME);
        if !path.exists() {
            return Ok(None);
        }
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let query = "SELECT at FROM changes \
                     WHERE call <> (SELECT call FROM changes ORDER BY number LIMIT 1) \
                     ORDER BY number LIMIT 1";
        Ok(connection.query_row(query, [], |row| row.get(0)).optional()?.map(Instant))
    }

    /// Returns the clients with changes, without the owner's commands, the last one that changed
    /// something first.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn clients(&self) -> Result<Vec<ClientChanges>, HistoryError> {
        let connection = self.relaxed();
        let end = |order: &str| {
            format!(
                "(SELECT at FROM changes WHERE space = ?1 AND coalesce(client, subject) = name \
                 AND share <> ?2 ORDER BY at {order} LIMIT 1)"
            )
        };
        let sql = format!(
            "{AUTHORS} SELECT name, {} AS first, {} AS last FROM authors \
             WHERE name IS NOT NULL AND first IS NOT NULL ORDER BY last DESC",
            end("ASC"),
            end("DESC"),
        );
        let mut query = connection.prepare_cached(&sql)?;
        let clients = query.query_map(params![self.space, OWNER], |row| {
            let (first, last) = (Instant(row.get(1)?), Instant(row.get(2)?));
            Ok(ClientChanges { name: row.get(0)?, first, last })
        })?;
        Ok(clients.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the hash of a version of a file. With `caller`, only versions that a change of this
    /// caller replaced or removed are found.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn find_version(
        &self,
        path: &SpacePath,
        version: &OldVersion,
        caller: Option<&Author>,
    ) -> Result<ContentHash, VersionError> {
        let query = ChangeQuery {
            path: Some(path.clone()),
            caller: caller.cloned(),
            ..ChangeQuery::default()
        };
        let mut changes = self.changes(&query)?;
        changes.retain(|change| change.concerns(path) && !change.kind.is_of_folder());
        let unknown = || VersionError::Unknown { version: version.clone() };
        match version {
            OldVersion::Before(number) => {
                let change = changes.iter().find(|change| change.number == *number);
                change.ok_or_else(unknown)?.before.ok_or(VersionError::NoVersionBefore)
            }
            OldVersion::Hash(digits) => {
                // The version after a change of the caller may hold what others wrote before.
                let after = |change: &PastChange| change.after.filter(|_| caller.is_none());
                let mut found: Vec<ContentHash> = changes
                    .iter()
                    .flat_map(|change| [change.before, after(change)])
                    .flatten()
                    .filter(|hash| hash.to_string().starts_with(digits.as_str()))
                    .collect();
                found.sort();
                found.dedup();
                match found.as_slice() {
                    [] => Err(unknown()),
                    [one] => Ok(*one),
                    _ => Err(VersionError::Ambiguous { digits: digits.clone() }),
                }
            }
        }
    }

    /// Returns the path that a file had at a change, which is at `path` by now. An undo takes a
    /// change back where the file is, and something else may have the path of the change.
    pub(crate) fn path_at_change(
        &self,
        path: &SpacePath,
        ChangeNumber(number): ChangeNumber,
    ) -> rusqlite::Result<SpacePath> {
        let then: Option<String> = self
            .relaxed()
            .prepare_cached(
                "SELECT path FROM changes WHERE number = ?1 AND space = ?2 \
                 AND path <> ?3 AND destination IS NOT ?3",
            )?
            .query_row(params![number, self.space, path.as_str()], |row| row.get(0))
            .optional()?;
        Ok(then.and_then(|then| SpacePath::parse(&then).ok()).unwrap_or_else(|| path.clone()))
    }

    /// Finds what the file that had a version had beside its content. Follows the file through its
    /// moves until it was removed. A later file at the same path is another one.
    pub(crate) fn metadata_of(
        &self,
        path: &SpacePath,
        version: &OldVersion,
        hash: ContentHash,
    ) -> rusqlite::Result<MetadataOf> {
        let connection = self.relaxed();
        let first = match version {
            OldVersion::Before(ChangeNumber(number)) => Some(*number),
            OldVersion::Hash(_) => connection
                .query_row(
                    "SELECT number FROM changes WHERE space = ?1 AND path = ?2 AND before = ?3 \
                     ORDER BY number DESC LIMIT 1",
                    params![self.space, path.as_str(), hash.as_bytes()],
                    |row| row.get(0),
                )
                .optional()?,
        };
        let Some(first) = first else { return Ok(MetadataOf::Unknown) };
        let (mut here, mut from) = (path.as_str().to_owned(), first);
        let mut next = connection.prepare_cached(
            "SELECT number, kind, path, destination, mode, attributes FROM changes \
             WHERE space = ?1 AND number >= ?3 AND (destination = ?2 OR \
             path = ?2 AND (mode IS NOT NULL OR kind NOT IN ('replaced', 'appended'))) \
             AND kind NOT LIKE 'folder%' ORDER BY number LIMIT 1",
        )?;
        loop {
            let found = next.query_row(params![self.space, here, from], next_of_file).optional()?;
            let Some(NextOfFile { number, kind, path, destination, metadata }) = found else {
                let file = SpacePath::parse(&here).map(MetadataOf::File);
                return Ok(file.unwrap_or(MetadataOf::Unknown));
            };
            here = match (PastChangeKind::from_word(&kind), destination) {
                // A change that gave the path the metadata of another file has those of this one.
                (
                    Some(
                        PastChangeKind::Removed
                        | PastChangeKind::Replaced
                        | PastChangeKind::Appended,
                    ),
                    _,
                ) => {
                    return Ok(metadata.map_or(MetadataOf::Unknown, MetadataOf::Removed));
                }
                (Some(PastChangeKind::Moved), Some(to)) if path == here => to,
                // The version before a move is asked for under the later path.
                (Some(PastChangeKind::Moved), Some(to)) if number == first => to,
                // Another file has the path, so somebody took this one away.
                _ => return Ok(MetadataOf::Unknown),
            };
            from = number + 1;
        }
    }

    /// Returns the bytes of a version of a file of at most `limit` bytes. `current` are the bytes
    /// of the file now: the version may be the beginning of them, if content was only added since.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn bytes_of(
        &self,
        path: &SpacePath,
        hash: ContentHash,
        current: Option<&[u8]>,
        limit: u64,
    ) -> Result<Vec<u8>, VersionError> {
        Ok(self.found_bytes(path, hash, current, limit)?.0)
    }

    /// Returns the same as [`History::bytes_of`], and the version in the history from which the
    /// bytes are; `None` if they are from `current`.
    pub(super) fn found_bytes(
        &self,
        path: &SpacePath,
        hash: ContentHash,
        current: Option<&[u8]>,
        limit: u64,
    ) -> Result<(Vec<u8>, Option<ContentHash>), VersionError> {
        if let Some(current) = current.filter(|bytes| ContentHash::digest(bytes) == hash) {
            return Ok((current.to_vec(), None));
        }
        let not_kept = match self.version_bytes(hash, limit) {
            Err(error @ VersionError::NotKept { .. }) => error,
            done => return done.map(|bytes| (bytes, Some(hash))),
        };
        let Some(first) = self.appends_to(hash)?.pop() else { return Err(not_kept) };
        let beginning = |bytes: &[u8]| {
            let beginning = bytes.get(..first.size_before)?;
            (ContentHash::digest(beginning) == hash).then(|| beginning.to_vec())
        };
        if let Some(found) = current.and_then(beginning) {
            return Ok((found, None));
        }
        // What was added to may have been replaced later, and is kept then: a version that appends
        // made, or one to which somebody else added.
        let (mut waiting, mut seen) = (vec![hash], BTreeSet::new());
        while let Some(version) = waiting.pop() {
            for Append { number, after, .. } in self.appends_to(version)? {
                if !seen.insert(after) {
                    continue;
                }
                match self.version_bytes(after, limit) {
                    Ok(bytes) => {
                        let found = beginning(&bytes).ok_or(VersionError::Damaged { hash })?;
                        return Ok((found, Some(after)));
                    }
                    Err(VersionError::NotKept { .. }) => waiting.push(after),
                    Err(error) => return Err(error),
                }
                if version != hash {
                    continue;
                }
                let displaced = self.displaced_after(path, number)?;
                for displaced in displaced {
                    let bytes = self.version_bytes(displaced, limit).ok();
                    if let Some(found) = bytes.and_then(|bytes| beginning(&bytes)) {
                        return Ok((found, Some(displaced)));
                    }
                }
            }
        }
        Err(not_kept)
    }
}

impl History {
    /// Finds the appends to a version, the last one first.
    fn appends_to(&self, hash: ContentHash) -> rusqlite::Result<Vec<Append>> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT number, size_before, after FROM changes \
             WHERE kind = 'appended' AND before = ?1 AND space = ?2 AND after IS NOT NULL \
             ORDER BY number DESC",
        )?;
        let appends = query.query_map(params![hash.as_bytes(), self.space], |row| {
            Ok(Append {
                number: row.get(0)?,
                size_before: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX),
                after: ContentHash::from_bytes(row.get(2)?),
            })
        })?;
        appends.collect()
    }

    /// Returns the versions that the next changes of a file after an append replaced or removed, as
    /// far as they are kept.
    fn displaced_after(&self, path: &SpacePath, number: i64) -> rusqlite::Result<Vec<ContentHash>> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT before FROM changes WHERE space = ?1 AND path = ?2 AND number > ?3 \
             AND version IS NOT NULL AND before IS NOT NULL ORDER BY number LIMIT ?4",
        )?;
        let values = params![self.space, path.as_str(), number, DISPLACED_AFTER_APPEND];
        query.query_map(values, |row| Ok(ContentHash::from_bytes(row.get(0)?)))?.collect()
    }
}

/// The names of those who made changes, each found in the index of authors after the one before.
const AUTHORS: &str = "\
    WITH RECURSIVE authors (name) AS (\
    SELECT min(coalesce(client, subject)) FROM changes WHERE space = ?1 \
    UNION ALL \
    SELECT (SELECT min(coalesce(client, subject)) FROM changes \
    WHERE space = ?1 AND coalesce(client, subject) > name) FROM authors WHERE name IS NOT NULL)";

/// Returns the condition that a change is of a path or of what is below.
fn concerns(space: i64, path: &str) -> (String, Vec<Value>) {
    // All paths below a folder lie between `folder/` and `folder0`, since `0` follows `/`.
    let (mut ranges, mut values) = (Vec::new(), Vec::new());
    for column in ["path", "destination"] {
        ranges.push(format!("SELECT number FROM changes WHERE space = ? AND {column} = ?"));
        values.extend([Value::Integer(space), Value::Text(path.to_owned())]);
        ranges.push(format!(
            "SELECT number FROM changes WHERE space = ? AND {column} >= ? AND {column} < ?"
        ));
        let below = [format!("{path}/"), format!("{path}0")].map(Value::Text);
        values.extend(std::iter::once(Value::Integer(space)).chain(below));
    }
    (format!("number IN ({})", ranges.join(" UNION ALL ")), values)
}

/// What rows of a space have to be.
///
/// The first condition that an index answers is the one that the rows are found by. SQLite does not
/// know how many rows a condition lets through, so it may not choose an index for the others: a `+`
/// before a column says that to it.
pub(super) struct ChangeConditions {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    /// Whether a condition so far finds the rows.
    finds: bool,
}

impl ChangeConditions {
    pub(super) fn new(space: i64) -> Self {
        let (sql, values) = ("space = ?".to_owned(), vec![Value::Integer(space)]);
        Self { sql, values, finds: false }
    }

    /// Adds a condition that an index answers.
    pub(super) fn find(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        match self.finds {
            true => self.add(&format!("+{condition}"), values),
            false => self.add(condition, values),
        }
        self.finds = true;
    }

    /// Adds a condition that names the rows by their numbers, which need no index of the space.
    fn find_numbers(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        if !self.finds {
            self.sql.insert(0, '+');
        }
        self.find(condition, values);
    }

    /// Returns the order from the latest change to the earliest. What was found by a condition is
    /// sorted; all changes of a space are read in the order of their times.
    fn newest_first(&self) -> &'static str {
        if self.finds { "+number DESC" } else { "at DESC, number DESC" }
    }

    /// Returns the conditions of the rows of changes that a query finds.
    fn of_changes(space: i64, query: &ChangeQuery) -> Self {
        let mut conditions = Self::new(space);
        if let Some(ChangeNumber(call)) = query.call {
            // The number of a call is that of its first change.
            conditions.find("call = ?", [call.into()]);
            conditions.add("number >= ?", [call.into()]);
        }
        if let Some(path) = query.path.as_ref().filter(|path| !path.is_root()) {
            let (condition, values) = concerns(space, path.as_str());
            conditions.find_numbers(&condition, values);
        }
        conditions.add_call_of(query);
        if let Some(ChangeNumber(above)) = query.above {
            conditions.add("number > ?", [above.into()]);
        }
        if let Some(ChangeNumber(below)) = query.below {
            conditions.add("number < ?", [below.into()]);
        }
        conditions
    }

    pub(super) fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    /// Adds what a query says of who called, with which tool and when.
    pub(super) fn add_call_of(&mut self, query: &ChangeQuery) {
        // The index of authors has the times of each, that of tools has not.
        let has_times = !self.finds
            && query.callers.is_none()
            && (query.client.is_some() || query.tool.is_none());
        let column = if has_times { "at" } else { "+at" };
        if let Some(client) = &query.client {
            // Who has no client is known by the subject, as in the journal.
            self.find("coalesce(client, subject) = ?", [Value::Text(client.clone())]);
        }
        if let Some(callers) = &query.callers {
            let places = vec!["?"; callers.len()].join(", ");
            let shares = callers.iter().map(|caller| Value::Text(Author::share_of(caller)));
            self.find(&format!("share IN ({places})"), shares);
        }
        if let Some(caller) = &query.caller {
            self.add("subject = ?", [Value::Text(caller.subject.clone())]);
        }
        if let Some(tool) = &query.tool {
            self.find("tool = ?", [Value::Text(tool.clone())]);
        }
        if let Some(Instant(since)) = query.since {
            self.add(&format!("{column} >= ?"), [Value::Integer(since)]);
        }
        if let Some(Instant(until)) = query.until {
            self.add(&format!("{column} < ?"), [Value::Integer(until)]);
        }
        self.finds |= query.since.or(query.until).is_some();
    }
}

/// How many later versions of a file are searched for one to whose beginning somebody added.
const DISPLACED_AFTER_APPEND: i64 = 2;

/// An append to a version.
struct Append {
    number: i64,
    /// The size of the version in bytes.
    size_before: usize,
    after: ContentHash,
}

/// The next change of a file that may take its path from it.
struct NextOfFile {
    number: i64,
    kind: String,
    path: String,
    destination: Option<String>,
    metadata: Option<FileMetadata>,
}

fn next_of_file(row: &Row<'_>) -> rusqlite::Result<NextOfFile> {
    let (mode, attributes): (Option<u32>, Option<String>) = (row.get(4)?, row.get(5)?);
    Ok(NextOfFile {
        number: row.get(0)?,
        kind: row.get(1)?,
        path: row.get(2)?,
        destination: row.get(3)?,
        metadata: mode.map(|mode| FileMetadata::from_columns(mode, attributes.as_deref())),
    })
}

/// Reads a row; `None` if it has a path or a kind that this version does not know.
fn author(row: &Row<'_>) -> rusqlite::Result<ChangeAuthor> {
    Ok(ChangeAuthor { name: row.get(0)?, token: row.get(1)? })
}

fn change(row: &Row<'_>) -> rusqlite::Result<Option<PastChange>> {
    let hash = |bytes: Option<[u8; 32]>| bytes.map(ContentHash::from_bytes);
    let (kind, path, to): (String, String, Option<String>) =
        (row.get(3)?, row.get(4)?, row.get(5)?);
    let to = to.map(|to| SpacePath::parse(&to)).transpose();
    let (Some(kind), Ok(path), Ok(to)) =
        (PastChangeKind::from_word(&kind), SpacePath::parse(&path), to)
    else {
        return Ok(None);
    };
    Ok(Some(PastChange {
        number: ChangeNumber(row.get(0)?),
        call: ChangeNumber(row.get(1)?),
        at: Instant(row.get(2)?),
        kind,
        path,
        to,
        before: hash(row.get(6)?),
        size_before: u64::try_from(row.get::<_, i64>(7)?).unwrap_or_default(),
        after: hash(row.get(8)?),
        author: Author {
            tool: row.get(9)?,
            subject: row.get(10)?,
            client: row.get(11)?,
            token: row.get(12)?,
        },
        takes_back: row.get::<_, Option<i64>>(13)?.map(ChangeNumber),
    }))
}
