//! Decides, before the first step of an undo, what the undo keeps.
//!
//! An undo replaces and removes files as any call does, and the history keeps what they held. Two
//! things must not happen then: that what one step keeps pushes out the version that another step
//! gives back, and that the owner learns only afterwards what could not be kept. So
//! [`History::undo_room`] decides for all steps at once, by `domain::history::retention`, and each
//! step does what was decided.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, params};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{ChangeNumber, PastChangeKind};
use stile_domain::history::past_folder::FolderRest;
use stile_domain::history::retention::{UndoCopy, kept_by_undo};
use stile_domain::path::SpacePath;

use super::change_row::{ChangeRow, OWNER, row_bytes};
use super::error::{HistoryError, VersionError};
use super::file_metadata::FileMetadata;
use super::room::RoomMaker;
use super::undo_room::{ForeseenCopy, ForeseenStep, UndoRoom};
use super::{Call, History, NewChange, objects, retention};

impl History {
    /// Returns how many bytes the history has room for before anything must go.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn free_bytes(&self) -> Result<u64, HistoryError> {
        let most = self.most_bytes();
        Ok(most.saturating_sub(retention::used(&self.relaxed())?))
    }

    /// Returns the bytes of the row of a change, with what a folder holds beside files.
    pub fn bytes_of_row(path: &SpacePath, to: Option<&SpacePath>, rest: &FolderRest) -> u64 {
        let before = FileMetadata { mode: 0, attributes: rest.clone() };
        let attributes = before.attribute_text().map_or(0, |text| text.len());
        let to = to.map_or(0, |to| to.as_str().len());
        row_bytes([path.as_str().len(), to], attributes)
    }

    /// Returns the version in the history from which an undo takes the version `wanted` of a file,
    /// which may be the beginning of another one; `None` if it takes the version from the file.
    /// `current` is what the file holds by then.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn needed_for(
        &self,
        path: &SpacePath,
        wanted: ContentHash,
        current: Option<&[u8]>,
        limit: u64,
    ) -> Result<Option<ContentHash>, VersionError> {
        if stored(&self.relaxed(), wanted)?.is_some() {
            return Ok(Some(wanted));
        }
        Ok(self.found_bytes(path, wanted, current, limit)?.1)
    }

    /// Returns what it takes to keep the version of a file that a step of an undo replaces with
    /// `wanted`, or removes; `None` if the file only gets longer, so that nothing need be kept.
    /// `bytes` is what the file holds by then.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn foresee_copy(
        &self,
        call: &Call,
        (path, wanted): (&SpacePath, Option<&[u8]>),
        (version, bytes): (ContentHash, &[u8]),
    ) -> Result<Option<ForeseenCopy>, HistoryError> {
        let kind = match wanted {
            Some(wanted) => PastChangeKind::of_edit(bytes, wanted),
            None => PastChangeKind::Removed,
        };
        if kind == PastChangeKind::Appended {
            return Ok(None);
        }
        let change = NewChange {
            kind,
            path,
            to: None,
            before: Some(version),
            size_before: bytes.len() as u64,
            after: None,
            metadata: None,
            held: None,
            call,
        };
        let append = self.append_to_unstored(&ChangeRow::new(self.space, &change))?;
        let beginning = append.and_then(|append| {
            let size = usize::try_from(append.size_before).unwrap_or(usize::MAX);
            Some((ContentHash::from_bytes(append.before), bytes.get(..size)?))
        });
        let copy = |(version, bytes)| -> Result<UndoCopy, HistoryError> {
            let bytes = match stored(&self.relaxed(), version)? {
                Some(stored) => stored.bytes_of_later(),
                None => objects::compressed_size(kind, bytes)?,
            };
            Ok(UndoCopy { version, bytes })
        };
        Ok(Some(ForeseenCopy {
            path: path.clone(),
            version: copy((version, bytes))?,
            beginning: beginning.map(copy).transpose()?,
        }))
    }

    /// Decides what an undo keeps. Returns the files, too, of which it does not keep what its steps
    /// replace or remove. Changes nothing.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn undo_room(
        &self,
        steps: &[ForeseenStep],
    ) -> Result<(UndoRoom, Vec<SpacePath>), HistoryError> {
        let limit = self.most_bytes();
        let connection = self.relaxed();
        let firsts = RoomMaker::new(&connection, limit).history_use(OWNER)?.firsts;
        let needs: BTreeSet<_> = steps.iter().filter_map(|step| step.needs).collect();
        let mut stays = firsts;
        for version in &needs {
            stays += stored(&connection, *version)?.map_or(0, |stored| stored.bytes_of_later());
        }
        stays += steps.iter().map(|step| step.rows).sum::<u64>();
        let copies = || steps.iter().filter_map(|step| step.copy.as_ref());
        let beginnings = copies().filter_map(|copy| copy.beginning);
        let all = beginnings.chain(copies().map(|copy| copy.version)).map(|copy| {
            let bytes = if needs.contains(&copy.version) { 0 } else { copy.bytes };
            UndoCopy { bytes, ..copy }
        });
        let keeps = kept_by_undo(limit.saturating_sub(stays), all);
        let lacks = |copy: &&ForeseenCopy| !keeps.contains(&copy.version.version);
        let lacking = copies().filter(lacks).map(|copy| copy.path.clone()).collect();
        Ok((UndoRoom { needs, keeps }, lacking))
    }

    /// Returns the files of those changes of a call whose versions before the history does not
    /// have.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn lacking(
        &self,
        ChangeNumber(call): ChangeNumber,
    ) -> Result<Vec<SpacePath>, HistoryError> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT path FROM changes WHERE number >= ?1 AND call = ?1 AND version IS NULL \
             AND kind IN ('replaced', 'removed') ORDER BY number",
        )?;
        let paths = query.query_map(params![call], |row| row.get::<_, String>(0))?;
        let paths = paths.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(paths.iter().filter_map(|path| SpacePath::parse(path).ok()).collect())
    }
}

/// A version that the history has.
struct Stored {
    bytes: u64,
    is_first: bool,
}

impl Stored {
    /// Returns the bytes of a version that may go; 0 for one that stays in any case.
    fn bytes_of_later(&self) -> u64 {
        if self.is_first { 0 } else { self.bytes }
    }
}

fn stored(connection: &Connection, version: ContentHash) -> rusqlite::Result<Option<Stored>> {
    connection
        .prepare_cached("SELECT stored, is_first FROM versions WHERE hash = ?1")?
        .query_row([version.as_bytes()], |row| {
            let bytes = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
            Ok(Stored { bytes, is_first: row.get(1)? })
        })
        .optional()
}
