//! Files of the owner's, named on the command line: what an import reads and an export writes.
//!
//! They have nothing to do with a space, its permits or its locks: whoever may start the program
//! may read them anyway. What an export makes is for its owner alone.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use stile_domain::records::instant::Instant;

use crate::records::TextSource;
use crate::state::{create_private, make_folder, sync_folder};

/// How much of a source is read at once.
const BUFFER: usize = 256 * 1024;
/// How deep folders may stand in each other before a walk gives up.
const MAX_DEPTH: usize = 100;

/// A file that is read from its beginning, with its length.
pub struct SourceFile {
    /// Its bytes.
    pub reader: BufReader<File>,
    /// How many there were when it was opened.
    pub bytes: u64,
    /// When it was last changed, where the system knows.
    pub modified: Option<Instant>,
}

/// Opens a file to read it.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file, since an
/// import reads a file twice.
pub fn open(path: &Path) -> io::Result<SourceFile> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let modified = metadata.modified().ok().and_then(instant);
    Ok(SourceFile {
        reader: BufReader::with_capacity(BUFFER, file),
        bytes: metadata.len(),
        modified,
    })
}

fn instant(time: std::time::SystemTime) -> Option<Instant> {
    let micros = |duration: std::time::Duration| i64::try_from(duration.as_micros()).ok();
    match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => micros(after).map(Instant),
        Err(before) => micros(before.duration()).map(|micros| Instant(-micros)),
    }
}

/// Whether there is a folder at a path.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// What the files and folders of a folder are called, as far as that is UTF-8.
///
/// # Errors
/// What the system says.
pub fn entry_names(folder: &Path) -> io::Result<Vec<String>> {
    let names =
        folder.read_dir()?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    names.filter_map(io::Result::transpose).collect()
}

/// A note in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its path in the folder, `/` between its parts; none where that is not UTF-8.
    pub name: Option<String>,
}

/// Every file below a folder that ends in `.md` or `.markdown`, ordered by its parts. Links are not
/// followed, and what begins with a dot is passed over.
///
/// # Errors
/// What the system says of a folder that cannot be read.
pub fn find_notes(folder: &Path) -> io::Result<Vec<NoteFile>> {
    let is_note = |path: &Path| {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        matches!(extension.as_deref(), Some("md" | "markdown"))
    };
    below(folder, &is_note)
}

/// Every file below a folder that is wanted, ordered by its parts. Links are not followed, and what
/// begins with a dot is passed over.
pub(crate) fn below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<Vec<NoteFile>> {
    let mut found = Vec::new();
    walk(folder, wanted, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn walk(
    folder: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    parts: &mut Vec<Option<String>>,
    found: &mut Vec<NoteFile>,
) -> io::Result<()> {
    if parts.len() > MAX_DEPTH {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "its folders are more than 100 deep",
        ));
    }
    let mut entries = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (kind, path, name) = (entry.file_type()?, entry.path(), entry.file_name());
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_found = kind.is_dir() || (kind.is_file() && wanted(&path));
        if !is_found {
            continue;
        }
        parts.push(name.into_string().ok());
        if kind.is_dir() {
            walk(&path, wanted, parts, found)?;
        } else {
            let name =
                parts.iter().cloned().collect::<Option<Vec<String>>>().map(|parts| parts.join("/"));
            found.push(NoteFile { path, name });
        }
        parts.pop();
    }
    Ok(())
}

/// The text of a file from some byte on, read where it is and as often as it is asked for.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Which file.
    pub path: PathBuf,
    /// How many bytes of it come before the text.
    pub from: u64,
}

impl TextSource for TextFile {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        let mut file = open(&self.path)?.reader;
        file.seek(SeekFrom::Start(self.from))?;
        Ok(Box::new(file))
    }
}

/// A folder that an export fills.
#[derive(Debug)]
pub struct ExportFolder {
    path: PathBuf,
}

impl ExportFolder {
    /// Makes the folder, or takes one that is empty.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]; what the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        make_folder(path)?;
        if path.read_dir()?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Makes a file in it, and the folder that its name has before a `/`. None where there is one
    /// of that name.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_file(&self, name: &str) -> io::Result<Option<ExportFile>> {
        let to = self.path.join(name);
        if to.try_exists()? {
            return Ok(None);
        }
        if let Some(parent) = to.parent() {
            make_folder(parent)?;
        }
        let mut part = to.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = create_private(&part)?;
        Ok(Some(ExportFile { file: BufWriter::with_capacity(BUFFER, file), part, to }))
    }
}

/// A file of an export. It has its name once it is whole.
#[derive(Debug)]
pub struct ExportFile {
    file: BufWriter<File>,
    part: PathBuf,
    to: PathBuf,
}

impl ExportFile {
    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        std::fs::rename(&self.part, &self.to)?;
        self.to.parent().map_or(Ok(()), sync_folder)
    }
}

impl Write for ExportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_walked_in_order_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for inner in ["b/deep", ".hidden", "x.md"] {
            std::fs::create_dir_all(at(inner)).unwrap();
        }
        for name in [
            "z.md",
            "a.MD",
            "b/one.markdown",
            "b/deep/two.md",
            "b/no.txt",
            ".hidden/x.md",
            "x.md/in.md",
        ] {
            std::fs::write(at(name), name).unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("z.md"), at("link.md")).unwrap();
            std::os::unix::fs::symlink(at("b"), at("c")).unwrap();
        }
        let names: Vec<String> =
            find_notes(folder.path()).unwrap().into_iter().filter_map(|note| note.name).collect();
        assert_eq!(names, ["a.MD", "b/deep/two.md", "b/one.markdown", "x.md/in.md", "z.md"]);
    }

    #[test]
    fn a_text_is_read_from_its_place_as_often_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        std::fs::write(&path, "headtext").unwrap();
        let mut source = TextFile { path, from: 4 };
        for _ in 0..2 {
            let mut text = String::new();
            source.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        assert!(open(folder.path()).is_err(), "a folder is no file");
    }

    #[test]
    fn an_export_goes_to_an_empty_folder_and_its_files_appear_whole() {
        let outer = tempfile::tempdir().unwrap();
        let folder = ExportFolder::create(&outer.path().join("new/export")).unwrap();
        let mut file = folder.create_file("texts/a.txt").unwrap().unwrap();
        file.write_all(b"hello").unwrap();
        let path = outer.path().join("new/export/texts/a.txt");
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello");
        assert!(folder.create_file("texts/a.txt").unwrap().is_none(), "it is there");
        let error = ExportFolder::create(&outer.path().join("new/export")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
    }
}
