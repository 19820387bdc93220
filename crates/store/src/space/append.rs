//! Appends to a file as it is: the same file, one write, durable before the answer.
//!
//! A program that has the file open, such as a service with its log, goes on writing to it behind
//! the append. While the folder is locked, the file is read and compared with what the caller knows
//! of it. What is added is written to a slot of the state folder ([`super::append_intent`]), and
//! the version before to the history. Then one write adds it at the end, wherever that is by then,
//! and the file is synced.
//!
//! After the write, the file must still have its name, and the added bytes must still be in it.
//! Otherwise another program saved in the same instant, by a rename or by truncating the file: its
//! save stays, and the append is attempted again on it, with the same comparison. Programs that
//! write to the file without `O_APPEND` are outside of this promise.

use std::fs::File;
use std::io;

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;
use stile_domain::text_encoding::TextEncoding;

use crate::history::NewChange;

use super::append_intent::{AppendIntents, report};
use super::edit_refusal::too_large_to_edit;
use super::edited_text::{Base, EditableText, edited_file};
use super::lock::Stop;
use super::read::{Opened, regular};
use super::whole_file::read_whole;
use super::write::{BytesPlan, Change, LockedFile, source_before_append};
use super::{EditedFile, os, refusal};

/// How often an append is attempted while other programs save the file.
const ATTEMPTS: u32 = 16;
/// How often an append waits for a moment in which nothing is added to a file that only grows.
const QUIET_ATTEMPTS: u32 = 3;

/// An append that is in a file.
struct Written {
    /// The offset of its first byte.
    start: u64,
    /// The offset behind its last byte.
    end: u64,
}

impl Change<'_> {
    /// Adds to the end of a text file what `added` makes of its text, in the encoding that the
    /// caller states, or else in the one that is recognised.
    pub(super) fn append_text(
        &self,
        path: &SpacePath,
        (base, encoding): (Base, Option<TextEncoding>),
        added: &dyn Fn(&str) -> String,
    ) -> Result<EditedFile, Stop> {
        self.append(path, base, &|bytes| {
            let text = EditableText::of(bytes, path, base, encoding)?;
            text.encode_added(&added(&text.text))
        })
    }

    /// Adds to the end of a file what `added` makes of its bytes.
    pub(super) fn append(
        &self,
        path: &SpacePath,
        base: Base,
        added: &BytesPlan<'_>,
    ) -> Result<EditedFile, Stop> {
        let Some(intents) = &self.append_intents else {
            return self.edit_bytes(path, base, &|bytes| Ok([bytes, &added(bytes)?].concat()));
        };
        let target = self.lock(path)?;
        for attempt in 0..ATTEMPTS {
            // A caller who knows the whole file does not know what it grew by.
            let may_grow = attempt >= QUIET_ATTEMPTS && !matches!(base, Base::Whole(_));
            if let Some(edited) = self.try_append(&target, base, added, (intents, may_grow))? {
                return Ok(edited);
            }
        }
        Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false }.into())
    }

    /// Attempts an append. Returns `None` if another program saved the file meanwhile.
    fn try_append(
        &self,
        target: &LockedFile<'_>,
        base: Base,
        added: &BytesPlan<'_>,
        (intents, may_grow): (&AppendIntents, bool),
    ) -> Result<Option<EditedFile>, Refusal> {
        let (path, limit) = (target.path, self.options.limits.file_size);
        let Some(old) = self.open_to_append(target)? else { return Ok(None) };
        let mut bytes = read_whole(&old.file, old.status.stamp.size, limit)
            .map_err(target.io())?
            .ok_or_else(|| too_large_to_edit(path, limit))?;
        if !base.is_of(&bytes) {
            return Err(Refusal::Stale { path: path.clone(), argument: "hash" });
        }
        let (size, more) = (bytes.len(), added(&bytes)?);
        let before = match base {
            Base::Whole(hash) => hash,
            Base::Prefix { .. } | Base::Unread => ContentHash::digest(&bytes),
        };
        bytes.extend_from_slice(&more);
        if bytes.len() as u64 > limit {
            return Err(too_large_to_edit(path, limit));
        }
        let edited = edited_file(&bytes);
        if more.is_empty() {
            // The file stays the same, but the answer promises that it is durable.
            os::sync(&old.file).and_then(|()| os::sync(target.handle())).map_err(target.io())?;
            return Ok(Some(edited));
        }
        let change = NewChange {
            kind: PastChangeKind::Appended,
            path,
            to: None,
            before: Some(before),
            size_before: size as u64,
            after: Some(edited.hash),
            held: None,
            metadata: None,
            call: self.call,
        };
        let source = source_before_append(bytes.get(..size).unwrap_or_default());
        let (mut recorded, intent) = self.inner.record_during(&change, source, || {
            let file = old.status.identity();
            intents.begin(path, file, size as u64, &more).map_err(|error| refusal(&error, path))
        })?;
        self.may_begin()?;
        if !is_as_read(target, &old, size as u64, may_grow).map_err(target.io())? {
            return Ok(None);
        }
        let written = self.write_once(target, &old, &more)?;
        let unknown = |_| Refusal::UnknownOutcome { path: path.clone() };
        if let Err(error) = os::sync(&old.file).and_then(|()| os::sync(target.handle())) {
            recorded.was_made();
            intent.leave();
            return Err(unknown(error));
        }
        super::fault::before_check();
        let is_there = is_in(&old.file, &more, &written).map_err(unknown)?;
        let has_name = os::status_at(target.handle(), target.name)
            .is_ok_and(|status| status.identity() == old.status.identity());
        let edited = match (is_there && has_name, written.start == size as u64) {
            (true, true) => Some(edited),
            // Another program added something just before.
            (true, false) => Some(version_until(&old.file, written.end).map_err(unknown)?),
            (false, _) => self.saved_with(target, &more, &written),
        };
        if edited.is_some() {
            recorded.was_made();
            self.remember_own(old.status.identity(), &old.file);
        }
        if let Err(error) = intent.clear() {
            tracing::error!(%error, "what recovers an append could not be cleared");
        }
        Ok(edited)
    }

    /// Opens a file to append to it. Refuses a file that a change would damage.
    /// Returns `None` if the file was replaced just now.
    fn open_to_append(&self, target: &LockedFile<'_>) -> Result<Option<Opened>, Refusal> {
        // Only a regular file is opened for writing: another kind may act on it.
        let read = self.open_for_change(target)?;
        let opened = regular(os::open_to_append(target.handle(), target.name), target.path)?;
        Ok((opened.status.identity() == read.status.identity()).then_some(opened))
    }

    /// Adds bytes with one write. Takes a short write on a full disk back.
    fn write_once(
        &self,
        target: &LockedFile<'_>,
        old: &Opened,
        more: &[u8],
    ) -> Result<Written, Refusal> {
        // The bits that give the rights of the file's owner away are for the old content.
        if old.status.mode & 0o6000 != 0 {
            os::set_mode(&old.file, old.status.mode & !0o6000).map_err(target.io())?;
        }
        let length = os::append_once(&old.file, more).map_err(target.io())?;
        let end = os::append_position(&old.file).map_err(target.io())?;
        let start = end.saturating_sub(length as u64);
        if length == more.len() {
            return Ok(Written { start, end });
        }
        let is_last = os::status(&old.file).is_ok_and(|status| status.stamp.size == end);
        let is_taken_back =
            is_last && os::truncate(&old.file, start).is_ok() && os::sync(&old.file).is_ok();
        if is_taken_back {
            return Err(Refusal::NoSpace { path: target.path.clone() });
        }
        report(&self.options.events, target.path, "left");
        Err(Refusal::UnknownOutcome { path: target.path.clone() })
    }

    /// Returns the version of another program's save, if that has the append already: the program
    /// read the file after the append, and then saved it.
    fn saved_with(
        &self,
        target: &LockedFile<'_>,
        more: &[u8],
        written: &Written,
    ) -> Option<EditedFile> {
        let file = os::open_in(target.handle(), target.name).ok()?;
        if !is_in(&file, more, written).ok()? {
            return None;
        }
        let size = os::status(&file).ok()?.stamp.size;
        os::sync(&file).ok()?;
        version_until(&file, size).ok()
    }
}

/// Whether a file still has its name and its bytes, as they were read. A file that only grew is the
/// same with `may_grow`.
fn is_as_read(
    target: &LockedFile<'_>,
    old: &Opened,
    size: u64,
    may_grow: bool,
) -> io::Result<bool> {
    let now = os::status(&old.file)?;
    let named = os::status_at(target.handle(), target.name);
    let has_name = named.is_ok_and(|named| named.identity() == now.identity());
    let is_same = now.stamp == old.status.stamp && now.stamp.size == size;
    Ok(has_name && now.links == 1 && (is_same || may_grow && now.stamp.size > size))
}

/// Whether a file has an append where it was written.
fn is_in(file: &File, more: &[u8], written: &Written) -> io::Result<bool> {
    let mut found = vec![0; more.len()];
    let read = os::read_at(file, &mut found, written.start)?;
    Ok(found.get(..read) == Some(more))
}

/// Returns the version that the first `end` bytes of a file are.
fn version_until(file: &File, end: u64) -> io::Result<EditedFile> {
    let mut bytes = vec![0; usize::try_from(end).unwrap_or(0)];
    let read = os::read_at(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(edited_file(&bytes))
}
