//! Room that the state keeps on its disk, so that an access can be ended when the disk is full.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;

use rusqlite::ErrorCode;

use super::private::create_private;
use super::state_dir::{StateDir, StateError};

const NAME: &str = "reserve";
/// A revocation writes a page or two of the database, and their journal: 20 KiB at most.
const BYTES: usize = 256 * 1024;
/// A disk that has no room for as much is full.
const PROBED_BYTES: usize = 64 * 1024;

/// A file of the state folder that does nothing but take up room.
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(super) fn of(state: &StateDir) -> Self {
        Self { path: state.path().join(NAME) }
    }

    /// Makes the file if it is missing or too short. A disk without room gets it at a later start.
    pub(super) fn fill(&self) {
        let length = self.path.metadata().map_or(0, |metadata| metadata.len());
        if length >= BYTES as u64 {
            return;
        }
        // A file of zeros could be stored without any room.
        let filling: Vec<u8> =
            (0..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        let written = match create_private(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).truncate(true).open(&self.path)
            }
            made => made,
        }
        .and_then(|mut file| file.write_all(&filling).and_then(|()| file.sync_all()));
        if written.is_err() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Runs `work`. If the disk is full, gives up the file, runs `work` once more, and makes the
    /// file again if there is room.
    pub(super) fn spend_if_full<T>(
        &self,
        work: impl FnMut() -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.spend_if(is_full, work)
    }

    fn spend_if<T, E>(
        &self,
        is_full: impl Fn(&E) -> bool,
        mut work: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        match work() {
            Err(error) if is_full(&error) && std::fs::remove_file(&self.path).is_ok() => {
                let done = work();
                self.fill();
                done
            }
            done => done,
        }
    }
}

/// Runs work that ends an access, or that lists what can be ended. If it fails on a full disk,
/// gives up the room that the state keeps for this, runs it once more, and takes room again if
/// there is some. The work opens the tables with [`super::TokenStore::open_on_any_disk`].
///
/// # Errors
/// The errors of the work.
pub fn with_reserve<T, E>(state: &StateDir, work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    Reserve::of(state).spend_if(|_| is_disk_full(state), work)
}

/// Returns whether the disk of the state has no room for what ending an access writes.
pub fn is_disk_full(state: &StateDir) -> bool {
    let path = state.path().join(format!("{NAME}-probe-{}", std::process::id()));
    let written = create_private(&path)
        .and_then(|mut probe| probe.write_all(&[7; PROBED_BYTES]).and_then(|()| probe.sync_all()));
    let _ = std::fs::remove_file(&path);
    written.is_err_and(|error| means_full(&error))
}

fn means_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns whether an error may mean that the disk is full.
fn is_full(error: &StateError) -> bool {
    match error {
        StateError::Io { error, .. } => means_full(error),
        // SQLite reports a full disk for the files beside the database as other errors.
        StateError::Database { error, .. } => matches!(
            error.sqlite_code(),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{Revocation, TokenKind, TokenRecord, TokenStore};
    use super::*;

    fn full() -> StateError {
        let error = io::Error::from(io::ErrorKind::StorageFull);
        StateError::Io { doing: "write", path: PathBuf::new(), error }
    }

    #[test]
    fn the_reserve_is_given_up_once_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let reserve = Reserve::of(&state);
        reserve.fill();
        let size = || reserve.path.metadata().map(|metadata| metadata.len()).ok();
        assert_eq!(size(), Some(BYTES as u64));

        let mut calls = 0;
        let done = reserve.spend_if_full(|| {
            calls += 1;
            // The disk is full as long as the reserve is there.
            if reserve.path.exists() { Err(full()) } else { Ok(calls) }
        });
        assert_eq!((done.unwrap(), size()), (2, Some(BYTES as u64)));

        // Another error gives up nothing.
        let unknown = || Err::<(), _>(StateError::UnknownToken { jti: "a".to_owned() });
        assert!(reserve.spend_if_full(unknown).is_err());
        assert!(size().is_some());

        // Without a reserve, the error stays.
        std::fs::remove_file(&reserve.path).unwrap();
        assert!(reserve.spend_if_full(|| Err::<(), _>(full())).is_err());
    }

    /// A small file system of its own, which only the administrator of the machine can mount.
    #[cfg(target_os = "linux")]
    struct SmallDisk(tempfile::TempDir);

    #[cfg(target_os = "linux")]
    impl SmallDisk {
        fn mount() -> Option<Self> {
            let folder = tempfile::tempdir().unwrap();
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]).arg(folder.path());
            let mounted = mount.stderr(std::process::Stdio::null()).status();
            mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
        }
    }

    #[cfg(target_os = "linux")]
    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    fn token() -> TokenRecord {
        TokenRecord {
            jti: "a".to_owned(),
            audience: None,
            kind: TokenKind::Bearer,
            subject: "ann".to_owned(),
            client: None,
            grant: None,
            owner: false,
            scopes: String::new(),
            issued: 1,
            expires: 2,
            revoked: None,
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_token_is_revoked_on_a_disk_that_is_really_full() {
        let Some(disk) = SmallDisk::mount() else {
            return eprintln!("skipped: this user cannot mount a small disk");
        };
        let state = StateDir::open(disk.0.path()).unwrap();
        let running = TokenStore::open(&state).unwrap();
        running.record(&token()).unwrap();
        // Fill the disk to the last byte.
        let mut filler = create_private(&disk.0.path().join("filler")).unwrap();
        for size in [65_536, 4_096, 512, 1] {
            while filler.write_all(&vec![7; size]).is_ok() {}
        }
        // A server runs meanwhile.
        let refused = running.revoke("a", 5);
        assert!(refused.is_err(), "the disk is not full");
        assert_eq!(TokenStore::revoke_in(&state, "a", 5).unwrap(), Revocation::Now);
        assert!(!running.is_live("a").unwrap());
        // Without a server, and with room for the reserve again.
        drop(running);
        drop(filler);
        std::fs::remove_file(disk.0.path().join("filler")).unwrap();
        assert_eq!(TokenStore::revoke_in(&state, "a", 9).unwrap(), Revocation::Before(5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_can_be_ended_is_listed_and_ended_on_a_full_disk_without_a_server() {
        let Some(disk) = SmallDisk::mount() else {
            return eprintln!("skipped: this user cannot mount a small disk");
        };
        let state = StateDir::open(disk.0.path()).unwrap();
        TokenStore::open(&state).unwrap().record(&token()).unwrap();
        assert!(!is_disk_full(&state));
        let mut filler = create_private(&disk.0.path().join("filler")).unwrap();
        for size in [65_536, 4_096, 512, 1] {
            while filler.write_all(&vec![7; size]).is_ok() {}
        }
        // Nobody has the tables open, so even a look at them wants room.
        assert!(is_disk_full(&state) && TokenStore::open(&state).is_err());
        let listed = with_reserve(&state, || TokenStore::open_on_any_disk(&state)?.list());
        assert_eq!(listed.unwrap().len(), 1);
        let ended = with_reserve(&state, || {
            let tokens = TokenStore::open_on_any_disk(&state)?;
            tokens.list()?;
            tokens.revoke("a", 5)
        });
        assert_eq!(ended.unwrap(), Revocation::Now);
        let listed = with_reserve(&state, || TokenStore::open_on_any_disk(&state)?.list());
        assert_eq!(listed.unwrap()[0].revoked, Some(5));
    }
}
