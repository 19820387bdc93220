//! Reads exports, which services offer as a folder or as a zip file, without unpacking them.
//!
//! A zip file is checked before any entry is read. An entry is refused if its name points outside
//! of the archive, or if it is encrypted, a link, or compressed in an unusual way. A whole file is
//! refused if it has more than [`MAX_ENTRIES`] entries, or if it claims to hold more than
//! [`MAX_RATIO`] times its own size. Exactly the stated size of an entry is read: one byte more is
//! an error, and so is a wrong checksum. An archive within an archive is opened where its reader
//! asks for it, since services pack the parts of a large export into another zip file.
//!
//! *Source*: APPNOTE.TXT 6.3.10, sections 4.3.7 (the header before an entry's data) and 4.4.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufReader, Error, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use stile_domain::records::instant::Instant;
use zip::CompressionMethod;
use zip::read::{Config, ZipFileEntry};
use zip::unstable::read::ZipIterable;

use crate::files;
use crate::platform;
use crate::state::create_private;

/// The maximum number of entries of a zip file.
pub const MAX_ENTRIES: usize = 1_000_000;
/// How many times its own size a zip file may hold, if it holds more than [`FREE_BYTES`]. Text
/// usually shrinks to a tenth.
pub const MAX_RATIO: u64 = 1000;
/// The number of bytes that any zip file may hold, whatever its size.
pub const FREE_BYTES: u64 = 100_000_000;
/// The largest zip file that is unpacked from within another one, in bytes.
const MAX_NESTED: u64 = 8 << 30;
/// The maximum number of refused entries. An archive with more is refused.
const MAX_REFUSED: usize = 1000;
/// How many bytes of the directory are read at once. An entry takes about a hundred.
const DIRECTORY_BUFFER: usize = 1024;
const BUFFER: usize = 64 * 1024;
/// The maximum length of a name in a report, in characters.
const MAX_NAME_CHARS: usize = 100;

/// An export: a folder or a zip file.
#[derive(Debug)]
pub struct Archive {
    location: Location,
    entries: Vec<ArchiveEntry>,
    refused: Vec<RefusedArchiveEntry>,
}

#[derive(Debug)]
enum Location {
    Folder(PathBuf),
    Zip(Arc<File>),
}

/// A file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The path of the entry, with `/` between its parts. It is never absolute, and has no part `.`
    /// or `..`, no backslash and no control character.
    pub name: String,
    /// The size of the unpacked entry in bytes.
    pub bytes: u64,
    /// When the file was changed last, as far as the archive says. A zip file says it by the clock
    /// of the place where it was written, which is taken for UTC.
    pub modified: Option<Instant>,
    packed: Option<ZipEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct ZipEntry {
    header: u64,
    bytes: u64,
    crc: u32,
    is_deflated: bool,
}

/// An entry that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedArchiveEntry {
    /// The name of the entry: at most 100 characters, none of them a control character.
    pub name: String,
    /// Why the entry is not read.
    pub error: ArchiveEntryError,
}

/// Why an entry is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveEntryError {
    /// The name could point outside of the archive, or is not UTF-8.
    #[error(
        "the name of the entry is not a plain path inside of the archive (absolute, `..`, a backslash, a control character, or not UTF-8); it was not read"
    )]
    Name,
    /// An earlier entry has the same name.
    #[error("the archive has an entry of this name already; only the first is read")]
    Twice,
    /// The content of the entry is encrypted.
    #[error("the entry is encrypted; unpack the archive and import the folder")]
    Encrypted,
    /// The entry is a symbolic link.
    #[error("the entry is a link; it was not followed")]
    Link,
    /// The compression method is not supported.
    #[error("the entry is neither stored nor deflated; unpack the archive and import the folder")]
    Method,
}

impl ArchiveEntryError {
    /// The code of the error, which never changes.
    pub fn code(self) -> &'static str {
        match self {
            Self::Name => "unsafe_name",
            Self::Twice => "duplicate_entry",
            Self::Encrypted => "encrypted",
            Self::Link => "link",
            Self::Method => "unsupported_method",
        }
    }
}

impl Archive {
    /// Opens a folder, a zip file, or any other file as the only entry of its folder.
    ///
    /// # Errors
    /// The error of the system; [`ErrorKind::InvalidData`] for a zip file that is damaged or
    /// refused as a whole.
    pub fn open(path: &Path) -> io::Result<Self> {
        if files::is_folder(path) {
            return Self::folder(path);
        }
        let mut source = files::open(path)?;
        if is_zip(&mut source.reader)? {
            return Self::zip(source.reader.into_inner(), source.bytes);
        }
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidFilename)?;
        let entries = vec![ArchiveEntry {
            name: name.to_owned(),
            bytes: source.bytes,
            modified: path.metadata().ok().and_then(|found| modified_on_disk(&found)),
            packed: None,
        }];
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { location: Location::Folder(folder), entries, refused: Vec::new() })
    }

    /// The entries that can be read, in the order of the zip file, or by name for a folder.
    pub fn entries(&self) -> &[ArchiveEntry] {
        &self.entries
    }

    /// The entries that are not read.
    pub fn refused(&self) -> &[RefusedArchiveEntry] {
        &self.refused
    }

    /// Opens an entry of this archive.
    ///
    /// # Errors
    /// The error of the system, now or during a read; [`ErrorKind::InvalidData`] if the content
    /// does not match the stated size and checksum.
    pub fn read(&self, entry: &ArchiveEntry) -> io::Result<ArchiveEntryReader> {
        let inner = match (&self.location, &entry.packed) {
            (Location::Zip(file), Some(packed)) => Content::packed(file, packed)?,
            (Location::Folder(folder), _) => {
                Content::Plain(files::open(&folder.join(&entry.name))?.reader.into_inner())
            }
            (Location::Zip(_), None) => return Err(ErrorKind::NotFound.into()),
        };
        let expected = entry.packed.as_ref().map(|packed| packed.crc);
        let checked =
            Checked { inner, left: entry.bytes, crc: Crc::new(), expected, is_over: false };
        Ok(ArchiveEntryReader(BufReader::with_capacity(BUFFER, checked)))
    }

    /// Opens a zip file that is an entry of this archive. It is copied to a file without a name in
    /// the system's folder for temporary files, which the system removes with this archive.
    ///
    /// # Errors
    /// The error of the system; [`ErrorKind::InvalidData`] for an entry that is no zip file, is
    /// damaged or has more than 8 GiB.
    pub fn nested(&self, entry: &ArchiveEntry) -> io::Result<Self> {
        if entry.bytes > MAX_NESTED {
            return Err(bad(
                "a zip file within the archive has more than 8 GiB; unpack the archive, and import \
                 the folder",
            ));
        }
        let path = std::env::temp_dir().join(format!("stile-{}", uuid::Uuid::new_v4()));
        let mut copy = create_private(&path)?;
        let opened = File::open(&path);
        std::fs::remove_file(&path)?;
        let mut file = opened?;
        let length = io::copy(&mut self.read(entry)?, &mut copy)?;
        match is_zip(&mut file)? {
            true => Self::zip(file, length),
            false => Err(broken()),
        }
    }

    fn folder(path: &Path) -> io::Result<Self> {
        let (mut entries, mut refused) = (Vec::new(), Vec::new());
        for found in files::below(path, &|_| true)? {
            match found.name {
                Some(name) if is_plain(&name) => {
                    let metadata = found.path.metadata()?;
                    let (bytes, modified) = (metadata.len(), modified_on_disk(&metadata));
                    entries.push(ArchiveEntry { name, bytes, modified, packed: None });
                }
                _ => refuse(
                    &mut refused,
                    found.path.as_os_str().as_encoded_bytes(),
                    ArchiveEntryError::Name,
                )?,
            }
        }
        Ok(Self { location: Location::Folder(path.to_owned()), entries, refused })
    }

    fn zip(file: File, length: u64) -> io::Result<Self> {
        let file = Arc::new(file);
        let directory = BufReader::with_capacity(
            DIRECTORY_BUFFER,
            SharedReader { file: Arc::clone(&file), at: 0, length },
        );
        let mut directory =
            ZipIterable::try_new(directory, Config::default()).map_err(|_| broken())?;
        if directory.len() > MAX_ENTRIES {
            return Err(bad(
                "the archive has more than 1,000,000 entries; unpack it and import the folder",
            ));
        }
        let (mut entries, mut refused) = (Vec::new(), Vec::new());
        // Hashes instead of names save memory. Their key is random, so nobody can make them
        // collide.
        let (hasher, mut names) = (RandomState::new(), HashSet::new());
        let mut total: u64 = 0;
        for found in directory.files().map_err(|_| broken())? {
            let found = found.map_err(|_| broken())?;
            let name = found.name_raw();
            if name.ends_with(b"/") || is_hidden(name) {
                continue;
            }
            match check(&found) {
                Ok(entry) if names.insert(hasher.hash_one(&entry.name)) => {
                    total = total.saturating_add(entry.bytes);
                    entries.push(entry);
                }
                Ok(_) => refuse(&mut refused, name, ArchiveEntryError::Twice)?,
                Err(error) => refuse(&mut refused, name, error)?,
            }
        }
        if total > FREE_BYTES && total / MAX_RATIO > length {
            return Err(bad(
                "the archive claims to hold more than 1,000 times its own size; it was not read",
            ));
        }
        Ok(Self { location: Location::Zip(file), entries, refused })
    }
}

/// Returns whether a file begins like a zip file, and rewinds the file.
fn is_zip(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    let mut first = Vec::with_capacity(4);
    file.by_ref().take(4).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(first == b"PK\x03\x04" || first == b"PK\x05\x06")
}

fn broken() -> Error {
    bad("it is not a whole zip file; download it again")
}

fn bad(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

fn refuse(
    refused: &mut Vec<RefusedArchiveEntry>,
    name: &[u8],
    error: ArchiveEntryError,
) -> io::Result<()> {
    if refused.len() >= MAX_REFUSED {
        return Err(bad("more than 1,000 entries of the archive cannot be read"));
    }
    let fit = |character: char| if character.is_control() { '?' } else { character };
    let name = String::from_utf8_lossy(name).chars().take(MAX_NAME_CHARS).map(fit).collect();
    refused.push(RefusedArchiveEntry { name, error });
    Ok(())
}

/// Returns whether an entry is metadata of a system: a part of its name begins with a dot, or it is
/// in the folder of macOS.
fn is_hidden(name: &[u8]) -> bool {
    let mut parts = name.split(|&byte| byte == b'/');
    name.starts_with(b"__MACOSX/")
        || parts.any(|part| part.starts_with(b".") && part != b"." && part != b"..")
}

fn is_plain(name: &str) -> bool {
    let is_drive = name.as_bytes().get(1) == Some(&b':');
    let fits = |part: &str| !matches!(part, "" | "." | "..");
    !is_drive && !name.contains(|c: char| c == '\\' || c.is_control()) && name.split('/').all(fits)
}

fn check(found: &ZipFileEntry<'_>) -> Result<ArchiveEntry, ArchiveEntryError> {
    const KIND: u32 = 0o170_000;
    const LINK: u32 = 0o120_000;
    let name = std::str::from_utf8(found.name_raw())
        .ok()
        .filter(|name| is_plain(name))
        .ok_or(ArchiveEntryError::Name)?;
    if found.encrypted() {
        return Err(ArchiveEntryError::Encrypted);
    }
    if (found.external_attributes() >> 16) & KIND == LINK {
        return Err(ArchiveEntryError::Link);
    }
    let is_deflated = match found.compression() {
        CompressionMethod::Deflated => true,
        CompressionMethod::Stored => false,
        _ => return Err(ArchiveEntryError::Method),
    };
    let packed = ZipEntry {
        header: found.header_start(),
        bytes: found.compressed_size(),
        crc: found.crc32(),
        is_deflated,
    };
    let (name, modified) = (name.to_owned(), modified_in_zip(found));
    Ok(ArchiveEntry { name, bytes: found.size(), modified, packed: Some(packed) })
}

fn modified_on_disk(metadata: &Metadata) -> Option<Instant> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok().map(Instant)
}

/// Returns the time of an entry. `None` for the first moment of 1980, which programs write that
/// know no time.
fn modified_in_zip(found: &ZipFileEntry<'_>) -> Option<Instant> {
    let time = found.last_modified().filter(|time| *time != zip::DateTime::default())?;
    let (year, month, day) = (time.year(), time.month(), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    Instant::parse(&format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// Reads the bytes of an entry, exactly as many as the archive states.
pub struct ArchiveEntryReader(BufReader<Checked>);

impl Read for ArchiveEntryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl io::BufRead for ArchiveEntryReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

/// Checks the size and the checksum of an entry while it is read.
struct Checked {
    inner: Content,
    left: u64,
    crc: Crc,
    /// The checksum. `None` for a file of a folder, which may have grown meanwhile.
    expected: Option<u32>,
    is_over: bool,
}

enum Content {
    Plain(File),
    Stored(io::Take<SharedReader>),
    Deflated(DeflateDecoder<io::Take<SharedReader>>),
}

impl Content {
    fn packed(file: &Arc<File>, packed: &ZipEntry) -> io::Result<Self> {
        let mut header = [0; 30];
        let from = |at| SharedReader { file: Arc::clone(file), at, length: u64::MAX };
        from(packed.header).read_exact(&mut header).map_err(|_| broken())?;
        let [b'P', b'K', 3, 4, .., names, more_names, extra, more_extra] = header else {
            return Err(broken());
        };
        let skipped = u64::from(u16::from_le_bytes([names, more_names]))
            + u64::from(u16::from_le_bytes([extra, more_extra]));
        let at = packed.header.checked_add(30 + skipped).ok_or_else(broken)?;
        let data = from(at).take(packed.bytes);
        Ok(if packed.is_deflated {
            Self::Deflated(DeflateDecoder::new(data))
        } else {
            Self::Stored(data)
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Stored(data) => data.read(buffer),
            Self::Deflated(data) => data.read(buffer),
        }
    }
}

impl Checked {
    /// Checks the end: no more bytes follow, and the checksum is right.
    fn finish(&mut self) -> io::Result<()> {
        self.is_over = true;
        let Some(expected) = self.expected else { return Ok(()) };
        if self.inner.read(&mut [0])? > 0 {
            return Err(bad("an entry of the archive holds more than it says"));
        }
        if self.crc.sum() != expected {
            return Err(bad("an entry of the archive is damaged; download it again"));
        }
        Ok(())
    }
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_over || buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return self.finish().map(|()| 0);
        }
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..count).unwrap_or_default();
        let count = self.inner.read(part)?;
        if count == 0 {
            return Err(bad("a file of the export is shorter than it says; download it again"));
        }
        if self.expected.is_some() {
            self.crc.update(part.get(..count).unwrap_or_default());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// A reader of a shared file, with its own offset.
struct SharedReader {
    file: Arc<File>,
    at: u64,
    length: u64,
}

impl Read for SharedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = platform::read_at(&self.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for SharedReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests;
