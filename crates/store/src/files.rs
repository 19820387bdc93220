//! Files that the owner names on the command line: what an import reads and an export writes.
//!
//! These files have nothing to do with a space, its permits or its locks: whoever starts the
//! program can read them anyway. Only the owner can read the files of an export.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{DirEntry, File};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_domain::records::instant::Instant;

use crate::records::TextSource;
use crate::state::{create_private, make_folder, sync_folder};

/// How many bytes of a source are read at once.
const BUFFER: usize = 256 * 1024;
/// The maximum depth of nested folders.
const MAX_DEPTH: usize = 100;

/// A file that is read from its beginning, with its length.
pub struct SourceFile {
    /// A reader at the beginning of the file.
    pub reader: BufReader<File>,
    /// The size in bytes when the file was opened.
    pub bytes: u64,
    /// When the file was last changed. `None` if the system does not know.
    pub modified: Option<Instant>,
}

/// Opens a regular file for reading.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::InvalidInput`] for other kinds of files, since an
/// import reads a file twice.
pub fn open(path: &Path) -> io::Result<SourceFile> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(not_regular());
    }
    SourceFile::of(File::open(path)?)
}

impl SourceFile {
    /// Takes an open file.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) fn of(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        let modified = metadata.modified().ok().and_then(instant);
        let reader = BufReader::with_capacity(BUFFER, file);
        Ok(Self { reader, bytes: metadata.len(), modified })
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Reads a source to its end.
///
/// # Errors
/// The error of the source; [`io::ErrorKind::FileTooLarge`] if it has more than `max_bytes` bytes.
pub fn read_short(source: &mut dyn Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {max_bytes} bytes"),
        ));
    }
    Ok(bytes)
}

fn instant(time: std::time::SystemTime) -> Option<Instant> {
    let micros = |duration: std::time::Duration| i64::try_from(duration.as_micros()).ok();
    match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => micros(after).map(Instant),
        Err(before) => micros(before.duration()).map(|micros| Instant(-micros)),
    }
}

/// Returns whether every user of the machine can read a file.
#[cfg(unix)]
pub fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

/// Returns `false`: the rights of the system are not known.
#[cfg(not(unix))]
pub fn others_can_read(_: &Path) -> bool {
    false
}

/// Returns whether a file begins as a zip file does.
///
/// # Errors
/// As [`open`].
pub fn begins_as_zip(path: &Path) -> io::Result<bool> {
    let mut beginning = [0; 2];
    Ok(open(path)?.reader.read_exact(&mut beginning).is_ok() && &beginning == b"PK")
}

/// Returns whether a path leads to a folder.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// Returns the names in a folder, without those that are not UTF-8.
pub fn entry_names(folder: &Path) -> io::Result<Vec<String>> {
    let names =
        folder.read_dir()?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    names.filter_map(io::Result::transpose).collect()
}

/// A file below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteFile {
    /// The path of the file on the machine.
    pub path: PathBuf,
    /// The path within the folder, with `/` between its parts. `None` if it is not UTF-8.
    pub name: Option<String>,
}

/// Finds the files below a folder that end in `.md` or `.markdown`, ordered by the parts of their
/// paths. Does not follow links, and skips names that begin with a dot.
///
/// # Errors
/// The error of the system for a folder that cannot be read.
pub fn find_notes(folder: &Path) -> io::Result<Vec<NoteFile>> {
    below(folder, &is_note)
}

/// Returns whether a file is a note by its name.
pub(crate) fn is_note(path: &Path) -> bool {
    let extension =
        path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("md" | "markdown"))
}

/// Returns whether a folder is a Maildir: a folder of mail with a file for each message. Programs
/// that copy folders leave out an empty `new`, so one of `cur` and `new` is enough beside `tmp`, or
/// if a file in it has the name of a message.
pub fn is_maildir(folder: &Path) -> bool {
    let inner = ["cur", "new"].map(|inner| folder.join(inner));
    match inner.each_ref().map(|inner| inner.is_dir()) {
        [true, true] => true,
        [false, false] => false,
        [has_cur, _] => {
            let [cur, new] = inner;
            let entries = if has_cur { cur } else { new }.read_dir().into_iter().flatten();
            folder.join("tmp").is_dir()
                || entries
                    .take(MAILDIR_NAMES)
                    .flatten()
                    .any(|entry| is_maildir_name(&entry.file_name()))
        }
    }
}

/// How many names are looked at to see whether a folder is a Maildir.
const MAILDIR_NAMES: usize = 100;

/// Returns whether a file has the name of a message in a Maildir: the time of its delivery in
/// seconds and a point, or marks behind `:2,`, for which some programs write `;2,` or `!2,`.
fn is_maildir_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits >= 9 && name.get(digits) == Some(&b'.'))
        || [&b":2,"[..], b";2,", b"!2,"]
            .iter()
            .any(|marks| name.windows(marks.len()).any(|part| part == *marks))
}

/// Finds the messages of mail below a folder: files that end in `.eml` or `.emlx`, the files in
/// `cur` and `new` of each Maildir, and those files for which `begins_as_mail` returns `true`. It
/// is asked for names without an extension (numbers of MH, `mbox` of Apple Mail, `Inbox` of
/// Thunderbird), for those that end in `.mbox`, and for all in a folder `cur` or `new`, which may
/// be what is left of a Maildir. A name that begins with `,` or `#` is a message that MH deleted.
/// Ordered like [`find_notes`]. Of names that begin with a dot, only folders that are Maildirs are
/// read: mail servers keep the folders of a mailbox so. The paths are absolute.
///
/// # Errors
/// The error of the system for a folder that cannot be read.
pub fn find_messages(
    folder: &Path,
    begins_as_mail: &dyn Fn(&Path) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let wanted = |path: &Path| is_message(path, begins_as_mail);
    let search = FileSearch { wanted: &wanted, enters_hidden: &is_maildir };
    let mut found = Vec::new();
    // A Maildir is known by the name of a folder, which `.` does not say.
    walk(&folder.canonicalize()?, &search, &mut Vec::new(), &mut found)?;
    Ok(found.into_iter().map(|file| file.path).collect())
}

/// Finds a message of a Maildir that a mail program has moved since [`find_messages`]: in `cur`,
/// under the same name up to its marks.
pub fn find_moved_message(path: &Path) -> Option<PathBuf> {
    let unmarked = |name: &OsStr| {
        let is_mark = |byte: &u8| matches!(byte, b':' | b';' | b'!');
        name.as_encoded_bytes().split(is_mark).next().unwrap_or_default().to_vec()
    };
    let maildir = path.parent()?.parent().filter(|folder| is_maildir(folder))?;
    let name = unmarked(path.file_name()?);
    let mut entries = maildir.join("cur").read_dir().ok()?.flatten();
    let is_moved = |entry: &DirEntry| {
        unmarked(&entry.file_name()) == name && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    entries.find(is_moved).map(|entry| entry.path())
}

fn is_message(path: &Path, begins_as_mail: &dyn Fn(&Path) -> bool) -> bool {
    let maildir_part = || {
        let inner = path.parent()?;
        let name = inner.file_name()?.to_str()?;
        let is_part = matches!(name, "cur" | "new" | "tmp") && is_maildir(inner.parent()?);
        is_part.then_some(name)
    };
    if let Some(part) = maildir_part() {
        // A message in `tmp` is not delivered yet.
        return part != "tmp";
    }
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    if matches!(name.first(), Some(b',' | b'#')) {
        return false;
    }
    let is_in = |name: &str| path.parent().is_some_and(|inner| inner.ends_with(name));
    match path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
        Some("eml" | "emlx") => true,
        Some("mbox") | None => begins_as_mail(path),
        Some(_) => (is_in("cur") || is_in("new")) && begins_as_mail(path),
    }
}

/// Finds the files below a folder for which `wanted` returns `true`, like [`find_notes`].
pub(crate) fn below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<Vec<NoteFile>> {
    let search = FileSearch { wanted, enters_hidden: &|_| false };
    let mut found = Vec::new();
    walk(folder, &search, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// What a search below a folder looks for.
struct FileSearch<'s> {
    /// Returns whether a file is to be found.
    wanted: &'s dyn Fn(&Path) -> bool,
    /// Returns whether a folder is read although its name begins with a dot.
    enters_hidden: &'s dyn Fn(&Path) -> bool,
}

fn walk(
    folder: &Path,
    search: &FileSearch<'_>,
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
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_hidden && !(kind.is_dir() && (search.enters_hidden)(&path)) {
            continue;
        }
        let is_found = kind.is_dir() || (kind.is_file() && (search.wanted)(&path));
        if !is_found {
            continue;
        }
        parts.push(name.into_string().ok());
        if kind.is_dir() {
            walk(&path, search, parts, found)?;
        } else {
            let name =
                parts.iter().cloned().collect::<Option<Vec<String>>>().map(|parts| parts.join("/"));
            found.push(NoteFile { path, name });
        }
        parts.pop();
    }
    Ok(())
}

/// Opens one file from its beginning, as often as it is asked to.
pub type FileOpener = Arc<dyn Fn() -> io::Result<SourceFile> + Send + Sync>;

/// The text of a file from an offset on, which can be read repeatedly.
#[derive(Clone)]
pub struct StreamedText {
    /// What opens the file.
    pub opener: FileOpener,
    /// The offset of the text in bytes.
    pub from: u64,
}

impl fmt::Debug for StreamedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StreamedText").field("from", &self.from).finish_non_exhaustive()
    }
}

impl TextSource for StreamedText {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        let mut file = (self.opener)()?.reader;
        file.seek(SeekFrom::Start(self.from))?;
        Ok(Box::new(file))
    }
}

/// The text of a file of the machine from an offset on, which can be read repeatedly.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// The path of the file on the machine.
    pub path: PathBuf,
    /// The offset of the text in bytes.
    pub from: u64,
}

impl TextSource for TextFile {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        let mut file = open(&self.path)?.reader;
        file.seek(SeekFrom::Start(self.from))?;
        Ok(Box::new(file))
    }
}

/// The folder that an export writes its files to.
#[derive(Debug)]
pub struct ExportFolder {
    path: PathBuf,
}

impl ExportFolder {
    /// Creates the folder, or takes an empty one.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`] for a folder with files; the error of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        make_folder(path)?;
        if path.read_dir()?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Creates a file, and the folders that its name contains. Returns `None` if a file has that
    /// name.
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

/// A reader of a file that the owner named.
pub type SourceReader = File;

/// Opens a file that was opened before, for a second look.
///
/// # Errors
/// The error of the system.
pub fn open_again(path: &Path) -> io::Result<SourceReader> {
    File::open(path)
}

/// A new file of the owner, which nobody else can read.
#[derive(Debug)]
pub struct NewFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl NewFile {
    /// Creates a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the file exists; the error of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER, create_private(path)?);
        Ok(Self { file, path: path.to_owned() })
    }

    /// Syncs the file and its name.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        sync_folder(folder.unwrap_or(Path::new(".")))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file of an export. The file gets its name when it is complete.
#[derive(Debug)]
pub struct ExportFile {
    file: BufWriter<File>,
    part: PathBuf,
    to: PathBuf,
}

impl ExportFile {
    /// Syncs the file and gives it its name.
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
    fn notes_are_found_in_order_without_following_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for inner in ["b/deep", ".hidden", "x.md"] {
            std::fs::create_dir_all(at(inner)).unwrap();
        }
        for name in [
            "z.md", "a.MD", "b/one.markdown", "b/deep/two.md", "b/no.txt", ".hidden/x.md",
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
    fn messages_are_found_by_their_names_and_in_maildirs() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in [
            "a.EML",
            "b.txt",
            "in/c.eml",
            ".d.eml",
            ".hidden/e.eml",
            "plain/cur/1.txt",
            "box/cur/1:2,S",
            "box/new/2",
            "box/tmp/3",
            "box/tmp/3.eml",
            "box/dovecot.index",
            "box/.Sent/cur/4",
            "tmp/f.eml",
            "box/.Sent/new/.5",
            "box/cur/.6",
            "copied/cur/1772636065.M1.host",
            "copied/tmp/7.eml",
            "copied/.Sent/cur/8!2,S",
            "Mail/In.mbox/mbox",
            "Mail/In.mbox/table_of_contents",
            "mh/17",
            "mh/18",
            "1.emlx",
            "all.mbox",
            "Profile/Inbox",
            "Profile/Inbox.msf",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let begins_as_mail = |path: &Path| {
            ["mbox", "17", "all.mbox", "Inbox"].iter().any(|name| path.ends_with(name))
        };
        let found = find_messages(folder.path(), &begins_as_mail).unwrap();
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        let expected = [
            "1.emlx",
            "Mail/In.mbox/mbox",
            "Profile/Inbox",
            "a.EML",
            "all.mbox",
            "box/.Sent/cur/4",
            "box/cur/1:2,S",
            "box/new/2",
            "copied/.Sent/cur/8!2,S",
            "copied/cur/1772636065.M1.host",
            "in/c.eml",
            "mh/17",
            "tmp/f.eml",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_text_file_is_read_repeatedly_from_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        std::fs::write(&path, "headtext").unwrap();
        let mut source = TextFile { path, from: 4 };
        for _ in 0..2 {
            let mut text = String::new();
            source.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        assert!(open(folder.path()).is_err(), "a folder is not a file");
    }

    #[test]
    fn an_export_needs_an_empty_folder_and_its_files_appear_complete() {
        let outer = tempfile::tempdir().unwrap();
        let folder = ExportFolder::create(&outer.path().join("new/export")).unwrap();
        let mut file = folder.create_file("texts/a.txt").unwrap().unwrap();
        file.write_all(b"hello").unwrap();
        let path = outer.path().join("new/export/texts/a.txt");
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello");
        assert!(folder.create_file("texts/a.txt").unwrap().is_none(), "the file exists");
        let error = ExportFolder::create(&outer.path().join("new/export")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
    }
}
