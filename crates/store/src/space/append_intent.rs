//! What an append leaves in the state folder, so that a start after a kill or a power cut finds the
//! append whole or absent.
//!
//! Before an append is written, its bytes, its file and the size of that file are written to a slot
//! and synced. A slot is a file of the state folder that one process keeps locked and uses for one
//! append at a time. It is cleared, durably, before the append is answered: a slot that outlived
//! its append could make a start cut off what a person has changed since.
//!
//! *Shape* of a slot: the 8 bytes of [`MAGIC`]; the SHA-256 hash of all that follows, as 64
//! hexadecimal digits; the length of all that follows the length; the length of the header; the
//! header as JSON; the bytes. Both lengths are 8 bytes, little-endian. A slot whose hash is wrong
//! was not finished, and its append was never written.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stile_domain::append_recovery::AppendRemains;
use stile_domain::facts::UnixNanos;
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;

use crate::state::make_folder;

use super::conflict::SpaceEvents;
use super::identity::Identity;
use super::lock::{Folders, await_lock};
use super::os;
use super::root::Root;
use super::whole_file::read_whole;

/// The first bytes of a slot that is in use.
const MAGIC: &[u8; 8] = b"append1\n";
/// The length of the hash in a slot, in hexadecimal digits.
const HASH_BYTES: usize = 64;
/// The end of the name of each slot.
const SLOT: &str = ".append";
/// How long a start waits for another one that uses the folder, or for a folder of the space.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after its intent an append is written at the latest, unless the process is halted. What
/// stands in the file since a later time may be somebody else's.
const WRITTEN_WITHIN: UnixNanos = 60_000_000_000;

/// The slots of this process.
pub(super) struct AppendIntents {
    folder: os::Handle,
    root: Identity,
    process: u64,
    made: AtomicU64,
    free: Mutex<Vec<Slot>>,
    /// The slots of appends that may not be on the disk, for the next start.
    left: Mutex<Vec<Slot>>,
}

struct Slot {
    name: String,
    /// Open and locked, which tells other processes that this one lives.
    file: File,
}

/// An append that is about to be written, for as long as a start may have to recover it.
pub(super) struct Intent<'a> {
    intents: &'a AppendIntents,
    slot: Option<Slot>,
}

/// What a slot says of its append.
#[derive(Serialize, Deserialize)]
struct Header {
    /// The device and inode of the root of the space.
    root: (u64, u64),
    path: SpacePath,
    /// The device and inode of the file.
    file: (u64, u64),
    /// The size of the file before the append, in bytes.
    size: u64,
    /// When the intent was written, in nanoseconds since 1970.
    at: UnixNanos,
}

impl AppendIntents {
    /// Opens the folder for the slots of a process, and makes it on first use.
    pub(super) fn open(folder: &Path, root: &Root, process: u64) -> io::Result<Self> {
        make_folder(folder)?;
        Ok(Self {
            folder: os::open_root(folder)?,
            root: os::status(&**root)?.identity(),
            process,
            made: AtomicU64::new(0),
            free: Mutex::default(),
            left: Mutex::default(),
        })
    }

    /// Records an append of `bytes` to a file of `size` bytes, durably.
    pub(super) fn begin(
        &self,
        path: &SpacePath,
        file: Identity,
        size: u64,
        bytes: &[u8],
    ) -> io::Result<Intent<'_>> {
        let free = self.free().pop();
        let slot = match free {
            Some(slot) => slot,
            None => self.make_slot()?,
        };
        let header = Header {
            root: (self.root.0, self.root.1),
            path: path.clone(),
            file: (file.0, file.1),
            size,
            at: os::now(),
        };
        os::overwrite(&slot.file, &written(&header, bytes)?)?;
        os::sync_data(&slot.file)?;
        Ok(Intent { intents: self, slot: Some(slot) })
    }

    fn free(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a slot. While the folder is locked, no start of another process can find the slot
    /// before it is locked.
    fn make_slot(&self) -> io::Result<Slot> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:016x}-{number:x}{SLOT}", self.process);
        let is_locked = await_lock(&self.folder, Instant::now() + PATIENCE)?;
        let made = os::make_file(&self.folder, &name, 0o600).and_then(|(file, _)| {
            if os::try_lock(&file)? { Ok(file) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        if is_locked {
            os::unlock(&self.folder);
        }
        let file = made?;
        os::sync(&self.folder)?;
        Ok(Slot { name, file })
    }
}

impl Drop for AppendIntents {
    fn drop(&mut self) {
        for slot in std::mem::take(&mut *self.free()) {
            let _ = os::unlink(&self.folder, &slot.name);
        }
    }
}

impl Intent<'_> {
    /// Clears the slot, durably, since no start has to recover the append any more.
    pub(super) fn clear(mut self) -> io::Result<()> {
        let Some(slot) = self.slot.take() else { return Ok(()) };
        os::overwrite(&slot.file, &[0; MAGIC.len()])?;
        let synced = os::sync_data(&slot.file);
        self.intents.free().push(slot);
        synced
    }

    /// Leaves the slot as it is for the next start, since it is unknown what the disk has.
    pub(super) fn leave(mut self) {
        let left = &self.intents.left;
        left.lock().unwrap_or_else(PoisonError::into_inner).extend(self.slot.take());
    }
}

impl Drop for Intent<'_> {
    /// Clears the slot of an append that was not made. If that is not on the disk after a power
    /// cut, the start finds nothing of the append.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && os::overwrite(&slot.file, &[0; MAGIC.len()]).is_ok()
        {
            self.intents.free().push(slot);
        }
    }
}

/// Returns what a slot holds for an append.
fn written(header: &Header, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let header = serde_json::to_vec(header)?;
    let rest = [&(header.len() as u64).to_le_bytes(), header.as_slice(), bytes].concat();
    let length = (rest.len() as u64).to_le_bytes();
    let rest = [length.as_slice(), &rest].concat();
    let hash = ContentHash::digest(&rest).to_string();
    Ok([MAGIC.as_slice(), hash.as_bytes(), &rest].concat())
}

/// Parses what a slot holds. `None` for a slot that is cleared or was not finished.
fn parse(slot: &[u8]) -> Option<(Header, Vec<u8>)> {
    let (hash, rest) = slot.strip_prefix(MAGIC)?.split_at_checked(HASH_BYTES)?;
    let number = |bytes: &[u8]| -> Option<usize> {
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    // An earlier, longer append may have left more behind.
    let length = number(rest.get(..8)?)?;
    let rest = rest.get(..length.checked_add(8)?)?;
    if ContentHash::digest(rest).to_string().as_bytes() != hash {
        return None;
    }
    let (header_length, rest) = rest.get(8..)?.split_at_checked(8)?;
    let (header, bytes) = rest.split_at_checked(number(header_length)?)?;
    Some((serde_json::from_slice(header).ok()?, bytes.to_vec()))
}

/// Deals with the appends of killed processes to files of a space.
pub(super) fn recover(
    intents: &AppendIntents,
    root: &Root,
    folders: &Arc<Folders>,
    events: &SpaceEvents,
) {
    let deadline = Instant::now() + PATIENCE;
    if !matches!(await_lock(&intents.folder, deadline), Ok(true)) {
        return;
    }
    let mut names = Vec::new();
    let _ = os::entries(&intents.folder, |name, _| {
        names.extend(name.filter(|name| name.ends_with(SLOT)).map(str::to_owned));
    });
    for name in &names {
        let Ok(slot) = os::open_in(&intents.folder, name) else { continue };
        if !os::try_lock(&slot).unwrap_or(false) {
            continue;
        }
        let bytes = read_whole(&slot, 0, u64::MAX).ok().flatten().unwrap_or_default();
        let is_done = match parse(&bytes) {
            // The append of another space, which this state folder was used for.
            Some((header, _)) if header.root != (intents.root.0, intents.root.1) => false,
            Some((header, added)) => {
                let done = recover_file(&header, &added, root, folders, events);
                if let Err(error) = &done {
                    tracing::error!(%error, "an append of an earlier run could not be checked");
                }
                done.is_ok()
            }
            None => true,
        };
        if is_done {
            let _ = os::unlink(&intents.folder, name);
        }
    }
    let _ = os::sync(&intents.folder);
    os::unlock(&intents.folder);
}

/// Cuts an unfinished append off its file.
fn recover_file(
    header: &Header,
    added: &[u8],
    root: &Root,
    folders: &Arc<Folders>,
    events: &SpaceEvents,
) -> io::Result<()> {
    let Some((folder, name)) = header.path.split() else { return Ok(()) };
    let open = || root.open_folder(&folder);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let locked = folders.lock_by(open, Instant::now() + PATIENCE);
    let locked = locked.ok_or(io::ErrorKind::WouldBlock)?;
    let file = match os::open_to_append(&locked.handle, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let status = os::status(&file)?;
    // Another file has the name now, with what its program wanted in it.
    if status.identity() != Identity(header.file.0, header.file.1) {
        return Ok(());
    }
    let length = status.stamp.size.saturating_sub(header.size);
    // What is behind the append by far is not looked at.
    let most = added.len().saturating_mul(2).saturating_add(64 << 10) as u64;
    let mut tail = vec![0; usize::try_from(length.min(most)).unwrap_or(0)];
    let read = os::read_at(&file, &mut tail, header.size)?;
    tail.truncate(read);
    let is_of_then = status.stamp.modified <= header.at.saturating_add(WRITTEN_WITHIN);
    match AppendRemains::of(&tail, added) {
        AppendRemains::Absent => Ok(()),
        AppendRemains::Whole => os::sync(&file),
        AppendRemains::Unfinished if is_of_then => {
            os::truncate(&file, header.size)?;
            os::sync(&file)?;
            report(events, &header.path, "cut");
            Ok(())
        }
        AppendRemains::Unfinished | AppendRemains::Mixed => {
            report(events, &header.path, "left");
            Ok(())
        }
    }
}

/// Reports an append that was not finished, in the journal.
pub(super) fn report(events: &SpaceEvents, path: &SpacePath, outcome: &str) {
    tracing::warn!(outcome, "an append was interrupted");
    events(JournalLine {
        tool: "unfinished_append".to_owned(),
        path: Some(path.clone()),
        outcome: outcome.to_owned(),
        ..JournalLine::default()
    });
}

#[cfg(test)]
pub(super) mod of_test {
    use super::*;

    /// Gives the slots in a folder the numbers of a root and of files that a test has copied to
    /// another place. `file_of` returns the number of the copy of a file, by its number and path.
    pub(in crate::space) fn renumber(
        folder: &Path,
        root: (u64, u64),
        file_of: impl Fn((u64, u64), &SpacePath) -> Option<(u64, u64)>,
    ) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let at = entry.unwrap().path();
            let bytes = std::fs::read(&at).unwrap();
            let Some((header, added)) = parse(&bytes) else { continue };
            let file = file_of(header.file, &header.path).unwrap_or((0, 0));
            let header = Header { root, file, at: os::now(), ..header };
            std::fs::write(&at, written(&header, &added).unwrap()).unwrap();
        }
    }
}
