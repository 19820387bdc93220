//! Versions as they are stored: compressed with zstd, small ones in the database, large ones as
//! files that are named by their hash.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;

use rusqlite::OptionalExtension as _;
use stile_domain::hash::{ContentHash, ContentHasher};

use super::error::{HistoryError, VersionError};
use super::{History, VersionSource};
use crate::state::{create_private, sync_folder};

/// The folder of the versions that are files, in the folder of the history.
pub(super) const OBJECTS: &str = "objects";
/// The level of compression. The fastest one: a call waits for it.
const LEVEL: i32 = 1;
/// The most bytes of a compressed version that the database holds.
const MOST_IN_DATABASE: usize = 128 * 1024;
/// Longer versions are compressed piece by piece into a file.
const MOST_IN_MEMORY: u64 = 4 * 1024 * 1024;

/// A version that is compressed, and durable if it is a file.
pub(super) struct StoredVersion {
    pub(super) hash: ContentHash,
    pub(super) size: u64,
    /// The bytes that it takes.
    pub(super) stored: u64,
    pub(super) place: Place,
    /// Whether the database names this copy. Otherwise it has the version already.
    pub(super) is_used: Cell<bool>,
}

/// Where a version is.
pub(super) enum Place {
    /// Its compressed bytes go into the database.
    Database(Vec<u8>),
    /// It is a file with this name already. Each copy has a name of its own, so that no process
    /// removes the file of another.
    File(String),
}

impl History {
    /// Compresses a version, and makes a file of a large one. Returns `None` if the source has
    /// nothing to store.
    pub(super) fn store_version(
        &self,
        hash: ContentHash,
        source: VersionSource<'_>,
    ) -> Result<Option<StoredVersion>, HistoryError> {
        let limit = self.most_bytes();
        let bytes;
        let bytes: &[u8] = match source {
            VersionSource::WithinAfter => return Ok(None),
            VersionSource::Bytes(bytes) => bytes,
            VersionSource::File(file, size) if size <= MOST_IN_MEMORY => {
                bytes = read_at_most(file, size)?;
                if ContentHash::digest(&bytes) != hash {
                    return Err(HistoryError::Changed);
                }
                &bytes
            }
            VersionSource::File(file, size) => {
                return self.store_file(hash, file, size, limit).map(Some);
            }
        };
        let size = bytes.len() as u64;
        // The version may be there already; the transaction decides, since others may remove it.
        let compressed = zstd::bulk::compress(bytes, LEVEL)?;
        let stored = compressed.len() as u64;
        if stored > limit {
            return Err(HistoryError::TooLarge);
        }
        let place = if compressed.len() <= MOST_IN_DATABASE {
            Place::Database(compressed)
        } else {
            Place::File(self.write_object(hash, |file| file.write_all(&compressed))?.0)
        };
        Ok(Some(StoredVersion { hash, size, stored, place, is_used: Cell::new(false) }))
    }

    /// Compresses a large file piece by piece.
    fn store_file(
        &self,
        hash: ContentHash,
        file: &File,
        size: u64,
        limit: u64,
    ) -> Result<StoredVersion, HistoryError> {
        let mut is_same = false;
        let (name, stored) = self.write_object(hash, |object| {
            let mut encoder = zstd::stream::write::Encoder::new(object, LEVEL)?;
            let mut hasher = ContentHasher::default();
            let mut buffer = vec![0; 256 * 1024];
            let mut pieces = Pieces { file, offset: 0 };
            loop {
                let read = match pieces.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read?,
                };
                let piece = buffer.get(..read).unwrap_or_default();
                if piece.is_empty() {
                    break;
                }
                hasher.update(piece);
                encoder.write_all(piece)?;
            }
            encoder.finish()?;
            is_same = hasher.finish() == hash;
            Ok(())
        })?;
        if !is_same || stored > limit {
            let _ = std::fs::remove_file(self.objects().join(name));
            return Err(if is_same { HistoryError::TooLarge } else { HistoryError::Changed });
        }
        let place = Place::File(name);
        Ok(StoredVersion { hash, size, stored, place, is_used: Cell::new(false) })
    }

    /// Writes a version as a file, durably. Returns its name and its length.
    fn write_object(
        &self,
        hash: ContentHash,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(String, u64), HistoryError> {
        let name = format!("{hash}-{}.zst", uuid::Uuid::new_v4().simple());
        let path = self.objects().join(&name);
        let written = (|| {
            let mut file = create_private(&path)?;
            write(&mut file)?;
            file.sync_all()?;
            sync_folder(&self.objects())?;
            file.metadata().map(|metadata| metadata.len())
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        Ok((name, written?))
    }

    /// Removes the file of a version that the database does not name.
    pub(super) fn drop_unused(&self, version: &StoredVersion) {
        if let (Place::File(name), false) = (&version.place, version.is_used.get()) {
            let _ = std::fs::remove_file(self.objects().join(name));
        }
    }

    /// Returns the folder of the versions that are files.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.join(OBJECTS)
    }

    /// Returns the bytes of a version of at most `limit` bytes, checked against its hash.
    ///
    /// # Errors
    /// [`VersionError::NotKept`], [`VersionError::Damaged`], or [`VersionError::TooLarge`].
    pub fn version_bytes(&self, hash: ContentHash, limit: u64) -> Result<Vec<u8>, VersionError> {
        let found = self
            .relaxed()
            .query_row(
                "SELECT size, file, bytes FROM versions LEFT JOIN contents USING (version) \
                 WHERE hash = ?1",
                [hash.as_bytes()],
                |row| {
                    let bytes: Option<Vec<u8>> = row.get(2)?;
                    Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?, bytes))
                },
            )
            .optional()?;
        let Some((size, file, bytes)) = found else {
            return Err(VersionError::NotKept { hash });
        };
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        if size > limit {
            return Err(VersionError::TooLarge { size });
        }
        let damaged = || VersionError::Damaged { hash };
        let compressed = match (file, bytes) {
            (Some(name), _) => {
                std::fs::read(self.objects().join(name)).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => damaged(),
                    _ => error.into(),
                })?
            }
            (None, Some(bytes)) => bytes,
            (None, None) => return Err(damaged()),
        };
        let mut version = Vec::new();
        let read = zstd::stream::read::Decoder::new(compressed.as_slice())
            .and_then(|decoder| decoder.take(size.saturating_add(1)).read_to_end(&mut version));
        if read.is_err() || ContentHash::digest(&version) != hash {
            return Err(damaged());
        }
        Ok(version)
    }
}

/// Reads a file from its beginning without moving the position that others read from.
struct Pieces<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Pieces<'_> {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file;
        file.read(buffer)
    }
}

/// Reads a file of about `size` bytes.
fn read_at_most(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    Pieces { file, offset: 0 }.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
