//! Files and folders for their owner alone. Where the system has no modes, the folder's place in
//! the user's profile is what protects it.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder and its parents, mode 0700; one that exists is left as it is.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a new file, mode 0600, to be appended to.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes durable which names a folder holds.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows opens no folder as a file, and needs no such call.
    if cfg!(windows) { Ok(()) } else { File::open(path)?.sync_all() }
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(metadata)
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> u32 {
    0
}

/// Whether the user of this process owns it.
#[cfg(unix)]
pub(super) fn is_ours(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
pub(super) fn is_ours(_: &Metadata) -> bool {
    true
}

/// Whether group or others may write.
pub(super) fn others_can_write(metadata: &Metadata) -> bool {
    mode(metadata) & 0o022 != 0
}

/// Whether group or others may do anything.
pub(super) fn others_can_open(metadata: &Metadata) -> bool {
    mode(metadata) & 0o077 != 0
}
