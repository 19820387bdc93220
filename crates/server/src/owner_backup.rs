//! The owner's backup: what `stile backup` and the owner's page do alike.

use std::path::{Path, PathBuf};

use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_records::RecordService;
use stile_store::state::StateDir;
use stile_store::state_backup::{self, BackupError, BackupManifest, BackupStamp};

/// The records of the state, and their owner; `None` if the state has none.
pub type OwnersRecords<'a> = Option<(&'a RecordService, &'a Principal)>;

/// Copies the state to a new archive. `on_copied` is called with the bytes since the last call.
///
/// # Errors
/// [`BackupError`]; there is no archive then.
pub fn to_file(
    state: &StateDir,
    file: &Path,
    records: OwnersRecords<'_>,
    now: Instant,
    on_copied: &mut dyn FnMut(u64),
) -> Result<BackupManifest, BackupError> {
    let mut copy = |to: &Path| copy_records(records, to);
    state_backup::create(state, file, stamp(now), &mut copy, on_copied)
}

/// Copies the state to a new archive in the state folder, and returns the archive. The newest two
/// are kept there.
///
/// # Errors
/// [`BackupError`]; there is no archive then.
pub fn to_state(
    state: &StateDir,
    records: OwnersRecords<'_>,
    now: Instant,
) -> Result<(PathBuf, BackupManifest), BackupError> {
    state_backup::create_kept(state, stamp(now), &mut |to| copy_records(records, to))
}

fn stamp(now: Instant) -> BackupStamp {
    BackupStamp { made_by: env!("CARGO_PKG_VERSION").to_owned(), made_at: now.to_rfc3339() }
}

fn copy_records(records: OwnersRecords<'_>, to: &Path) -> Result<(), String> {
    let Some((service, owner)) = records else {
        return Err("it has just appeared; run this again".to_owned());
    };
    match service.backup(owner, to) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(problem) => Err(problem.to_string()),
    }
}
