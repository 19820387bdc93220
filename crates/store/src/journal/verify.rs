//! Verifies the journal: each file against its chain, and all files against their anchors.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use stile_domain::hash::ContentHash;
use stile_domain::journal_chain::{BrokenLink, JournalChain};
use stile_domain::records::instant::{Instant, MICROS_A_SECOND};

use super::anchors::{self, Anchor, Anchors, AnchorsFault, FilePhase, FoundAnchors};
use super::reading::{FOLDER, journal_files};
use super::shared::{SharedJournal, SharedLine};
use super::timestamp::time_in_name;
use crate::history::History;
use crate::state::StateDir;

/// What the verification of the journal found.
#[derive(Debug, Default)]
pub struct Verification {
    /// How many files there are.
    pub files: usize,
    /// How many lines of them belong to an intact chain.
    pub lines: u64,
    /// How many lines the owner removed, which left their number and their hash.
    pub removed: u64,
    /// How many files were removed because of their age.
    pub retired: usize,
    /// How many files were not read, since the newer ones were as much as was asked for.
    pub unread: usize,
    /// The first fault of each file that has one.
    pub faults: Vec<JournalFault>,
}

/// The first place of a file where the journal is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFault {
    /// The name of the file in the folder of the journal.
    pub file: String,
    /// The line, from 1; `None` if the whole file is meant.
    pub line: Option<u64>,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong with a file of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// A line does not continue the chain.
    #[error("the line {0}")]
    Line(BrokenLink),
    /// The file ends before a line that was synced.
    #[error("the file was cut off: {missing} lines after it are missing")]
    CutOff {
        /// How many lines are missing at least.
        missing: u64,
    },
    /// Lines form a chain with those of a finished file, to which its process added no more.
    #[error("{added} lines were added after the file was finished")]
    Added {
        /// How many lines were added.
        added: u64,
    },
    /// The lines form a chain, but another one than the database of anchors knows.
    #[error("the file was written anew: its lines up to here are not those that were synced")]
    Rewritten,
    /// The database of anchors knows the file, and the folder does not have it.
    #[error("the file is missing, with its {lines} lines")]
    FileMissing {
        /// How many lines the file had at least.
        lines: u64,
    },
    /// The lines form no chain, and the database of anchors does not know the file.
    #[error("the file has no chain, so it was put there by somebody")]
    Foreign,
    /// The lines form a chain, and the database of anchors, which knows each file from before its
    /// first line, does not know the file.
    #[error("the file has no anchor: it was put there, or its anchor was removed")]
    Unanchored,
    /// The anchor of the file was not written with the key of the anchors.
    #[error("the anchor of the file was changed")]
    AnchorChanged,
    /// Other lines were removed than those that the owner removed.
    #[error("{found} lines were removed, of which the owner removed {known}")]
    Removed {
        /// How many lines the file lacks.
        found: u64,
        /// How many of them the owner removed.
        known: u64,
    },
    /// There was a database of anchors, and there is none.
    #[error("the database of anchors is missing, so nothing says how far the files had come")]
    AnchorsMissing,
    /// The key of the anchors is missing.
    #[error("the key of the anchors is missing, so none of them can be believed")]
    KeyMissing,
    /// A start found the database of anchors missing, and made another one.
    #[error("the database of anchors was removed; what it knew of earlier files is lost")]
    AnchorsMadeAnew,
    /// Anchors are missing from their database, with their files or without.
    #[error("{missing} anchors were removed from their database")]
    AnchorsRemoved {
        /// How many are missing.
        missing: u64,
    },
    /// The number of anchors was changed or removed.
    #[error("the number of anchors was changed")]
    AnchorsChanged,
    /// The history has changes of calls from before the first file that the anchors know.
    #[error("the history has calls from before the journal begins: it was removed as a whole")]
    BegunLate,
}

impl FaultKind {
    /// Returns the fault of the database of anchors as the owner reads it.
    fn of_anchors(fault: AnchorsFault) -> Self {
        match fault {
            AnchorsFault::Missing => Self::AnchorsMissing,
            AnchorsFault::KeyMissing => Self::KeyMissing,
            AnchorsFault::MadeAnew => Self::AnchorsMadeAnew,
            AnchorsFault::TakenOut(0) => Self::AnchorsChanged,
            AnchorsFault::TakenOut(missing) => Self::AnchorsRemoved { missing },
        }
    }
}

/// Verifies all files of a state folder. Reads one line at a time, and calls `on_read` with the
/// number of bytes that were read since the last call.
pub(super) fn verify(state: &StateDir, on_read: &mut dyn FnMut(u64)) -> io::Result<Verification> {
    verify_files(state, u64::MAX, on_read)
}

/// Verifies the newest files of the journal, at most `max_bytes` of them, and of all others only
/// whether they are missing and whether they have anchors.
///
/// # Errors
/// The error of the file system or of the database of anchors.
pub fn verify_newest(state: &StateDir, max_bytes: u64) -> io::Result<Verification> {
    verify_files(state, max_bytes, &mut |_| {})
}

/// Returns how many bytes the files of a state folder have.
pub(super) fn journal_bytes(state: &StateDir) -> io::Result<u64> {
    Ok(journal_files(state)?.iter().map(|path| file_bytes(path)).sum())
}

/// Returns how many bytes the lines of all servers have, as far as they are kept.
pub(super) fn shared_bytes(journal: &SharedJournal) -> io::Result<u64> {
    let kept = journal.files("")?.into_iter().filter(|file| !file.retired);
    Ok(kept.map(|file| file.bytes).sum())
}

/// Verifies the lines of all servers in their database, against how far each file was copied, and
/// against the anchors in the state folder of this server.
pub(super) fn verify_shared(
    journal: &SharedJournal,
    state: &StateDir,
    on_read: &mut dyn FnMut(u64),
) -> io::Result<Verification> {
    let found = Anchors::read_all(state.path()).map_err(io::Error::other)?;
    let anchors: BTreeMap<&str, &Anchor> =
        found.anchors.iter().map(|anchor| (anchor.file.as_str(), anchor)).collect();
    let mut result = Verification::default();
    result.faults.extend(begun_late(state, &found)?);
    result.faults.extend(found.fault.map(fault_of_anchors));
    result.faults.extend(found.forged.iter().map(|file| changed_anchor(file)));
    for copied in journal.files("")? {
        if copied.retired {
            result.retired += 1;
            continue;
        }
        let last = copied.anchor();
        let earlier = anchors.get(copied.file.as_str()).copied();
        let known = Known { last: last.as_ref(), earlier, anchored: Anchored::Elsewhere };
        let (mut ready, mut read) = (VecDeque::new(), 0);
        let mut next_line = || {
            if ready.is_empty() {
                ready = journal.lines_of_file(&copied.file, read)?.into();
            }
            let line = ready.pop_front();
            read += 1;
            Ok(line.map(|line: SharedLine| line.line))
        };
        verify_lines(&copied.file, &mut next_line, known, &mut result, on_read)?;
    }
    Ok(result)
}

/// Returns the fault of a journal that knows nothing of calls which the history has.
fn begun_late(state: &StateDir, found: &FoundAnchors) -> io::Result<Option<JournalFault>> {
    // What else is wrong with the anchors is a fault already.
    if found.fault.is_some() || !found.forged.is_empty() {
        return Ok(None);
    }
    let Some(Instant(call)) = History::second_call(state).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let latest = time_in_name(Instant(call.saturating_add(MOST_CALL)));
    let is_late = found.anchors.iter().all(|anchor| anchor.file > latest);
    let (file, kind) = (FOLDER.to_owned(), FaultKind::BegunLate);
    Ok(is_late.then_some(JournalFault { file, line: None, kind }))
}

/// How long after a change was recorded the line of its call is written at the latest, in
/// microseconds.
const MOST_CALL: i64 = 10 * 60 * MICROS_A_SECOND;

fn file_bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn verify_files(
    state: &StateDir,
    max_bytes: u64,
    on_read: &mut dyn FnMut(u64),
) -> io::Result<Verification> {
    // The files first: a file that begins in between then has an anchor.
    let paths = journal_files(state)?;
    let found = Anchors::read_all(state.path()).map_err(io::Error::other)?;
    let mut result = Verification::default();
    result.faults.extend(begun_late(state, &found)?);
    let mut anchors: BTreeMap<String, Anchor> =
        found.anchors.into_iter().map(|anchor| (anchor.file.clone(), anchor)).collect();
    result.faults.extend(found.fault.map(fault_of_anchors));
    result.faults.extend(found.forged.iter().map(|file| changed_anchor(file)));
    let oldest = first_within(&paths, max_bytes);
    for (at, path) in paths.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let anchor = anchors.remove(&name);
        if at < oldest {
            result.unread += 1;
            if anchor.is_none() && !found.forged.contains(&name) && file_bytes(path) > 0 {
                let kind = FaultKind::Unanchored;
                result.faults.push(JournalFault { file: name, line: None, kind });
            }
            continue;
        }
        // A file with a fault of its own already needs no second one.
        let anchored = match found.forged.contains(&name) {
            true => Anchored::Elsewhere,
            false => Anchored::Here,
        };
        let known = Known { last: anchor.as_ref(), earlier: None, anchored };
        match verify_file(path, &name, known, &mut result, on_read) {
            // The file was removed because of its age in this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            verified => verified?,
        }
    }
    for (file, anchor) in anchors {
        if anchor.phase == FilePhase::Retired {
            result.retired += 1;
        } else if anchor.lines > 0 {
            let kind = FaultKind::FileMissing { lines: anchor.lines };
            result.faults.push(JournalFault { file, line: None, kind });
        }
    }
    Ok(result)
}

/// Returns the index of the oldest file from which on all files have at most `max_bytes` together.
fn first_within(paths: &[PathBuf], max_bytes: u64) -> usize {
    let mut left = max_bytes;
    let fits = |path: &&PathBuf| match left.checked_sub(file_bytes(path)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    paths.len() - paths.iter().rev().take_while(fits).count()
}

fn verify_file(
    path: &Path,
    name: &str,
    known: Known<'_>,
    result: &mut Verification,
    on_read: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut next_line = || {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        Ok((line.pop() == Some(b'\n')).then_some(line))
    };
    verify_lines(name, &mut next_line, known, result, on_read)
}

/// What is known of a file besides its lines.
#[derive(Clone, Copy)]
struct Known<'a> {
    /// How far the file had come at least.
    last: Option<&'a Anchor>,
    /// How far the file came at some time, as another place knows.
    earlier: Option<&'a Anchor>,
    /// Where its anchor must be.
    anchored: Anchored,
}

/// Whether the database of anchors that is read must know a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchored {
    /// The database names the file.
    Here,
    /// The file may be another server's, or has a fault already.
    Elsewhere,
}

/// Returns the fault of the database of anchors.
fn fault_of_anchors(fault: AnchorsFault) -> JournalFault {
    let file = anchors::NAME.to_owned();
    JournalFault { file, line: None, kind: FaultKind::of_anchors(fault) }
}

/// Returns the fault of a file whose anchor is not bound to the key.
fn changed_anchor(file: &str) -> JournalFault {
    JournalFault { file: file.to_owned(), line: None, kind: FaultKind::AnchorChanged }
}

fn verify_lines(
    name: &str,
    next_line: &mut dyn FnMut() -> io::Result<Option<Vec<u8>>>,
    known: Known<'_>,
    result: &mut Verification,
    on_read: &mut dyn FnMut(u64),
) -> io::Result<()> {
    result.files += 1;
    let mut chain = JournalChain::of_file(name);
    let (mut number, mut removed) = (0, 0);
    let fault = loop {
        let Some(line) = next_line()? else { break end_fault(&chain, removed, known) };
        on_read(line.len() as u64 + 1);
        number += 1;
        match chain.check(&line) {
            Ok(next) => {
                chain = next;
                removed += u64::from(JournalChain::is_removed(&line));
                if differs(&chain, known.last) || differs(&chain, known.earlier) {
                    break Some((chain.lines(), FaultKind::Rewritten));
                }
            }
            Err(BrokenLink::Unchained) if chain.lines() == 0 && known.last.is_none() => {
                break Some((number, FaultKind::Foreign));
            }
            Err(broken) => break Some((number, FaultKind::Line(broken))),
        }
    };
    result.lines += chain.lines() - removed;
    result.removed += removed;
    if let Some((line, kind)) = fault {
        result.faults.push(JournalFault { file: name.to_owned(), line: Some(line), kind });
    }
    Ok(())
}

/// Returns the fault of a file that ends here, after a chain of which `removed` lines are removed.
fn end_fault(chain: &JournalChain, removed: u64, known: Known<'_>) -> Option<(u64, FaultKind)> {
    let Some(anchor) = known.last else {
        let unknown = known.anchored == Anchored::Here && chain.lines() > 0;
        return unknown.then_some((chain.lines(), FaultKind::Unanchored));
    };
    let missing = anchor.lines.saturating_sub(chain.lines());
    if missing > 0 {
        return Some((chain.lines(), FaultKind::CutOff { missing }));
    }
    let added = chain.lines().saturating_sub(anchor.lines);
    if added > 0 && anchor.phase != FilePhase::Open {
        return Some((anchor.lines + 1, FaultKind::Added { added }));
    }
    let expected = anchor.removed.max(known.earlier.map_or(0, |earlier| earlier.removed));
    let kind = FaultKind::Removed { found: removed, known: expected };
    (removed != expected).then_some((chain.lines(), kind))
}

/// Returns whether the file has come as far as its anchor, and with other lines.
fn differs(chain: &JournalChain, anchor: Option<&Anchor>) -> bool {
    let head = |anchor: &Anchor| -> Option<ContentHash> {
        (anchor.lines == chain.lines()).then_some(anchor.head)
    };
    anchor.and_then(head).is_some_and(|head| head != chain.head())
}
