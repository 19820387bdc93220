//! Where an input is: a file or folder of the machine, or files in an archive that is open.
//!
//! An importer opens its input through this, and need not know which of the two it is. An archive
//! that holds several kinds of data is opened once, and each of its parts names its own files.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_store::archive::{Archive, ArchiveEntry, ArchiveEntryReader};
use stile_store::files::{self, SourceReader};

/// The place of an input.
#[derive(Clone, Debug)]
pub struct InputPath {
    /// The path as a person reads it. For a single file of an archive, that of the archive with
    /// the name of the file behind it; for several, that of the archive.
    path: PathBuf,
    files: Option<ArchivedFiles>,
}

/// Some files of an archive, in their order.
#[derive(Clone, Debug)]
pub struct ArchivedFiles {
    /// The archive, which is open.
    pub archive: Arc<Archive>,
    /// The path of the archive, as a person reads it.
    pub path: PathBuf,
    /// The numbers of the files among the entries of the archive.
    pub numbers: Arc<[usize]>,
}

impl ArchivedFiles {
    /// Returns the entries, each with its number.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &ArchiveEntry)> {
        let all = self.archive.entries();
        self.numbers.iter().filter_map(|&number| Some((number, all.get(number)?)))
    }

    /// Returns how many bytes the files have together when they are unpacked.
    pub fn bytes(&self) -> u64 {
        self.entries().map(|(_, entry)| entry.bytes).sum()
    }

    /// Returns the path of an entry as a person reads it.
    pub fn name_of(&self, entry: &ArchiveEntry) -> String {
        format!("{}/{}", self.path.display(), entry.name)
    }
}

impl InputPath {
    /// Returns the place of a single file of an archive.
    pub fn archived(archive: &Arc<Archive>, path: &Path, number: usize) -> Self {
        let mut place = Self::several(archive, path, vec![number]);
        if let Some(entry) = archive.entries().get(number) {
            place.path.push(&entry.name);
        }
        place
    }

    /// Returns the place of several files of an archive, which an importer reads as one.
    pub fn several(archive: &Arc<Archive>, path: &Path, numbers: Vec<usize>) -> Self {
        let path = path.to_owned();
        let files = ArchivedFiles {
            archive: Arc::clone(archive),
            path: path.clone(),
            numbers: numbers.into(),
        };
        Self { path, files: Some(files) }
    }

    /// Returns the files of an archive that the input is. `None` for a path of the machine.
    pub fn files(&self) -> Option<&ArchivedFiles> {
        self.files.as_ref()
    }

    /// Returns the files of the input: those of the archive, or all of a folder or zip file.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn all_files(&self) -> io::Result<ArchivedFiles> {
        if let Some(files) = &self.files {
            return Ok(files.clone());
        }
        let archive = Arc::new(Archive::open(&self.path)?);
        let numbers = (0..archive.entries().len()).collect();
        // A single file is the only entry of its folder.
        let is_single = !files::is_folder(&self.path)
            && archive.entries().first().is_some_and(|entry| self.path.ends_with(&entry.name));
        let path = match self.path.parent() {
            Some(parent) if is_single => parent.to_owned(),
            _ => self.path.clone(),
        };
        Ok(ArchivedFiles { archive, path, numbers })
    }

    /// Opens the input, which is a single file, from its beginning.
    ///
    /// # Errors
    /// The error of the system; [`ErrorKind::InvalidInput`] if the input is a folder or several
    /// files of an archive.
    pub fn open(&self) -> io::Result<InputFile> {
        let Some(files) = &self.files else {
            let file = files::open(&self.path)?;
            return Ok(InputFile { reader: InputReader::File(file.reader), bytes: file.bytes });
        };
        let mut entries = files.entries();
        let (Some((_, entry)), None) = (entries.next(), entries.next()) else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a single file"));
        };
        let reader = InputReader::Archived(Box::new(files.archive.read(entry)?));
        Ok(InputFile { reader, bytes: entry.bytes })
    }

    /// Returns how many bytes the input has, if it is a file or files of an archive.
    ///
    /// # Errors
    /// The error of the system.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.files {
            Some(files) => Ok(files.bytes()),
            None => Ok(files::open(&self.path)?.bytes),
        }
    }
}

impl Deref for InputPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for InputPath {
    fn from(path: PathBuf) -> Self {
        Self { path, files: None }
    }
}

impl From<&Path> for InputPath {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

/// A file that is read from its beginning, with its length.
pub struct InputFile {
    /// A reader at the beginning of the file.
    pub reader: InputReader,
    /// The size in bytes, unpacked.
    pub bytes: u64,
}

/// A reader of a file of the machine or of an archive.
pub enum InputReader {
    /// A file of the machine.
    File(BufReader<SourceReader>),
    /// A file in an archive.
    Archived(Box<ArchiveEntryReader>),
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Archived(entry) => entry.read(buffer),
        }
    }
}

impl BufRead for InputReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::File(file) => file.fill_buf(),
            Self::Archived(entry) => entry.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::File(file) => file.consume(amount),
            Self::Archived(entry) => entry.consume(amount),
        }
    }
}
