//! The folder of a space, held open, and whether its path still leads to it.
//!
//! All work goes through the open folder, wherever the folder is moved. Its owner goes by the path.
//! A change that is written into a folder that was moved away, or covered by a mount, would be lost
//! with it.
//!
//! A mount beneath the folder is entered only where the owner named its path.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use stile_domain::path::SpacePath;

use super::identity::Identity;
use super::os;

/// How long a read relies on the last check.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The open folder of a space.
pub(super) struct Root {
    handle: os::Handle,
    path: PathBuf,
    identity: Identity,
    /// The mount points that the owner named, each after those above it.
    mounts: Vec<SpacePath>,
    /// When the path led to the folder last.
    checked: Mutex<Instant>,
    /// Why every call is refused; `None` for a folder that is served.
    unserved: Option<Unserved>,
}

/// Why a folder is served to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// It is another one than before, and its operator has not adopted it.
    Another,
    /// It is not there, and was served before. In its place an empty folder without a name is open.
    Missing,
    /// The folders of people lie in it, each of which is served on its own.
    OfPeople,
}

/// How old a check may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// At most a second, for reads.
    Recent,
    /// Made now, for changes.
    Now,
}

impl Root {
    /// Opens the folder by a path of the machine. Follows links.
    pub(super) fn open(path: &Path, mounts: &[SpacePath]) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let handle = os::open_root(&path)?;
        let identity = os::status(&handle)?.identity();
        let mut mounts: Vec<_> = mounts.iter().filter(|path| !path.is_root()).cloned().collect();
        mounts.sort();
        let checked = Mutex::new(Instant::now());
        Ok(Self { handle, path, identity, mounts, checked, unserved: None })
    }

    /// Opens a folder that is served to nobody: every check refuses it.
    pub(super) fn open_unserved(path: &Path, why: Unserved) -> io::Result<Self> {
        let unserved = Some(why);
        if why != Unserved::Missing {
            return Ok(Self { unserved, ..Self::open(path, &[])? });
        }
        // The folder of all people takes new folders; on some machines that of the system does not.
        let around = path.ancestors().skip(1).find(|folder| folder.is_dir());
        let places = [around.map(Path::to_owned), Some(std::env::temp_dir())];
        let mut opened = Err(io::ErrorKind::NotFound.into());
        for place in places.iter().flatten() {
            opened = opened.or_else(|_| Self::open_removed(place));
        }
        Ok(Self { unserved, path: std::path::absolute(path)?, ..opened? })
    }

    /// Opens a folder that is then removed: nothing can be read or made in it.
    fn open_removed(place: &Path) -> io::Result<Self> {
        let empty = place.join(format!(".stile-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&empty)?;
        let opened = Self::open(&empty, &[]);
        std::fs::remove_dir(&empty)?;
        opened
    }

    /// Returns the mount points that the owner named, each after those above it.
    pub(super) fn mounts(&self) -> &[SpacePath] {
        &self.mounts
    }

    /// Opens a folder of the space, on the file system of the root or of a named mount.
    pub(super) fn open_folder(&self, path: &SpacePath) -> io::Result<os::Handle> {
        self.open_with(path, os::open_folder)
    }

    /// Opens a file of any kind for reading, on the file system of the root or of a named mount.
    pub(super) fn open_file(&self, path: &SpacePath) -> io::Result<File> {
        self.open_with(path, os::open_file)
    }

    /// Enters the named mounts on the way to `path`, and calls `open` for the remaining path.
    fn open_with<T>(
        &self,
        path: &SpacePath,
        open: impl Fn(&os::Handle, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut rest = relative(path);
        let mut inner: Option<os::Handle> = None;
        let mut entered = "";
        for mount in self.mounts.iter().filter(|mount| mount.covers(path)) {
            let mount = relative(mount);
            let below = below(mount, entered);
            if !below.is_empty() {
                inner = Some(os::open_mount(inner.as_ref().unwrap_or(&self.handle), below)?);
                rest = self::below(relative(path), mount);
                entered = mount;
            }
        }
        open(inner.as_ref().unwrap_or(&self.handle), rest)
    }

    /// Checks that the folder is served, and that the path leads to it. Once the folder is back,
    /// everything goes on.
    pub(super) fn check(&self, check: Check) -> Result<(), Refusal> {
        match self.unserved {
            Some(Unserved::Another) => return Err(Refusal::RootReplaced),
            Some(Unserved::Missing | Unserved::OfPeople) => return Err(Refusal::RootMissing),
            None => {}
        }
        match check {
            Check::Recent if self.was_checked() => Ok(()),
            Check::Recent | Check::Now => self.check_place(),
        }
    }

    /// Whether the path led to this folder within the last second.
    pub(super) fn was_checked(&self) -> bool {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < MAX_AGE
    }

    /// Checks that the path leads to this folder, whether it is served or not.
    pub(super) fn check_place(&self) -> Result<(), Refusal> {
        let now = Instant::now();
        let found = os::open_root(&self.path).and_then(os::status);
        if !found.is_ok_and(|status| status.identity() == self.identity) {
            return Err(Refusal::RootMoved);
        }
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }
}

/// Returns a path relative to the root, as system calls need it. The path of the root is empty.
fn relative(path: &SpacePath) -> &str {
    path.as_str().trim_start_matches('/')
}

/// Returns what a relative path has below a folder that leads to it.
fn below<'a>(path: &'a str, folder: &str) -> &'a str {
    path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/')
}

impl std::ops::Deref for Root {
    type Target = os::Handle;
    fn deref(&self) -> &os::Handle {
        &self.handle
    }
}
