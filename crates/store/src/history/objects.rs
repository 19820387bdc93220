//! Versions as they are stored: compressed with zstd, small ones in the database, large ones as
//! files that are named by their hash.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;

use rusqlite::{OptionalExtension as _, TransactionBehavior};
use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::history::retention::VersionClass;

use super::change_row::ChangeRow;
use super::error::{HistoryError, VersionError};
use super::room::RoomMaker;
use super::stored_version::{Place, StoredVersion};
use super::{History, VersionSource};
use crate::platform;
use crate::state::{create_private, sync_folder};

/// The folder of the versions that are files, in the folder of the history.
pub(super) const OBJECTS: &str = "objects";
/// The level of compression. The fastest one: a call waits for it.
pub(super) const LEVEL: i32 = 1;
/// The most bytes of a compressed version that the database holds.
const MOST_IN_DATABASE: usize = 128 * 1024;
/// Longer versions are compressed piece by piece into a file.
const MOST_IN_MEMORY: u64 = 4 * 1024 * 1024;

impl History {
    /// Compresses a version, and makes a file of a large one once there is room for it. Returns
    /// `None` if the source has nothing to store.
    pub(super) fn store_version(
        &self,
        row: &ChangeRow,
        hash: ContentHash,
        source: VersionSource<'_>,
    ) -> Result<Option<StoredVersion>, HistoryError> {
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
                return self.store_file(row, hash, (file, size)).map(Some);
            }
        };
        let size = bytes.len() as u64;
        // The version may be there already; the transaction decides, since others may remove it.
        let compressed = zstd::bulk::compress(bytes, LEVEL)?;
        let stored = compressed.len() as u64;
        let version = |place| StoredVersion {
            hash,
            size,
            stored,
            place,
            reserved: None,
            is_used: Cell::new(false),
        };
        if compressed.len() <= MOST_IN_DATABASE {
            return Ok(Some(version(Place::Database(compressed))));
        }
        let version = version(Place::File(new_object(hash)));
        self.write_reserved(row, version, |file| file.write_all(&compressed)).map(Some)
    }

    /// Compresses a large file piece by piece: once to know its size, and once there is room for
    /// it, into a file.
    fn store_file(
        &self,
        row: &ChangeRow,
        hash: ContentHash,
        (file, size): (&File, u64),
    ) -> Result<StoredVersion, HistoryError> {
        let mut counted = Counted(0);
        if compress((file, size), &mut counted)? != hash {
            return Err(HistoryError::Changed);
        }
        let place = Place::File(new_object(hash));
        let (stored, is_used) = (counted.0, Cell::new(false));
        let version = StoredVersion { hash, size, stored, place, reserved: None, is_used };
        let mut is_same = false;
        let version = self.write_reserved(row, version, |object| {
            is_same = compress((file, size), object)? == hash;
            Ok(())
        })?;
        if !is_same {
            self.drop_unused(&version);
            return Err(HistoryError::Changed);
        }
        Ok(version)
    }

    /// Reserves room for a version, and writes its file, durably.
    fn write_reserved(
        &self,
        row: &ChangeRow,
        mut version: StoredVersion,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<StoredVersion, HistoryError> {
        let Place::File(name) = &version.place else { return Ok(version) };
        let path = self.objects().join(name);
        version.reserved = Some(self.reserve(row, &version)?);
        let written = (|| {
            let mut file = create_private(&path)?;
            write(&mut file)?;
            file.sync_all()?;
            sync_folder(&self.objects())?;
            file.metadata().map(|metadata| metadata.len())
        })();
        match written {
            Ok(length) if length == version.stored => Ok(version),
            Ok(_) => {
                self.drop_unused(&version);
                Err(HistoryError::Changed)
            }
            Err(error) => {
                self.drop_unused(&version);
                Err(error.into())
            }
        }
    }

    /// Makes room for a version that becomes a file, and reserves it.
    fn reserve(
        &self,
        row: &ChangeRow,
        version: &StoredVersion,
    ) -> Result<VersionClass, HistoryError> {
        let limit = self.most_bytes();
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = RoomMaker::new(&transaction, limit);
        let reserved = room.reserve(row, version)?;
        let gone = room.gone;
        transaction.commit()?;
        drop(connection);
        self.remove_objects(gone);
        Ok(reserved?)
    }

    /// Removes files of versions that the database does not name any more.
    pub(super) fn remove_objects(&self, names: Vec<String>) {
        for name in names {
            let _ = std::fs::remove_file(self.objects().join(name));
        }
    }

    /// Removes the file of a version that the database does not name.
    pub(super) fn drop_unused(&self, version: &StoredVersion) {
        if let (Place::File(name), false) = (&version.place, version.is_used.get()) {
            let _ = std::fs::remove_file(self.objects().join(name));
            let _ = self.relaxed().execute("DELETE FROM reservations WHERE file = ?1", [name]);
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

/// Returns the name of a new file for a version. Each file has a name of its own, so that no
/// process removes the file of another.
fn new_object(hash: ContentHash) -> String {
    format!("{hash}-{}.zst", uuid::Uuid::new_v4().simple())
}

/// Returns the bytes that a version takes once it is stored for a change of this kind.
pub(super) fn compressed_size(kind: PastChangeKind, bytes: &[u8]) -> io::Result<u64> {
    // The file of an edit is in memory, and that of a removal is read piece by piece.
    if kind != PastChangeKind::Removed || bytes.len() as u64 <= MOST_IN_MEMORY {
        return Ok(zstd::bulk::compress(bytes, LEVEL)?.len() as u64);
    }
    let mut counted = Counted(0);
    compress_pieces(bytes, &mut counted)?;
    Ok(counted.0)
}

/// Compresses the first `size` bytes of a file piece by piece. Returns the hash of what was read.
fn compress((file, size): (&File, u64), to: impl io::Write) -> io::Result<ContentHash> {
    compress_pieces(Pieces { file, offset: 0 }.take(size), to)
}

/// Compresses all that can be read. Returns the hash of what was read.
fn compress_pieces(mut pieces: impl Read, to: impl io::Write) -> io::Result<ContentHash> {
    let mut encoder = zstd::stream::write::Encoder::new(to, LEVEL)?;
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; 256 * 1024];
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
    Ok(hasher.finish())
}

/// Counts bytes, and keeps none.
struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its beginning without moving the position that others read from.
struct Pieces<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = platform::read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Reads the first `size` bytes of a file.
fn read_at_most(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    Pieces { file, offset: 0 }.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}
