//! Copies a whole state folder into one archive, also while servers use it, and brings it back.
//!
//! An archive is a zip file. Its last entry is a manifest with the size and SHA-256 of each file.
//! A database is copied at one moment by SQLite, not byte by byte. Files that are only appended to,
//! such as those of the journal, are copied as long as they are when the copy reaches them.
//!
//! A restore unpacks into a new folder, checks everything there, and only then gives the folder the
//! name of the state folder.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use stile_domain::hash::hex;
use stile_domain::records::instant::{Instant, MICROS_A_SECOND};
use uuid::Uuid;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::staged_uploads;
use crate::state::{StateDir, create_private, make_folder, sync_folder};

const MANIFEST: &str = "manifest.json";
/// The version of the archive's form.
const FORMAT: u32 = 1;
/// The longest manifest that is read, in bytes: about a million files.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;
/// The database that has a copying function of its own.
const RECORDS: &str = "records.db";
const BUFFER: usize = 256 * 1024;
/// The folders of the state that no archive has: files that wait for an import, and archives.
const LEFT_OUT: [&str; 2] = [staged_uploads::FOLDER, FOLDER];
/// The folder of the archives that are kept in the state folder.
const FOLDER: &str = "backups";
/// How many archives are kept there.
const KEPT_ARCHIVES: usize = 2;
/// The file that says when the last archive was made, RFC 3339 in UTC.
const LAST: &str = "last-backup";
/// The file that says of which moment the state is that was brought back, and when that was: two
/// lines, RFC 3339 in UTC.
const RESTORED: &str = "restored";

/// What is in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    format: u32,
    /// The version of the program that made the archive.
    pub made_by: String,
    /// When the archive was made, RFC 3339 in UTC.
    pub made_at: String,
    files: BTreeMap<String, BackedUpFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackedUpFile {
    bytes: u64,
    sha256: String,
}

impl BackupManifest {
    /// Returns how many files there are, and their bytes.
    pub fn totals(&self) -> (usize, u64) {
        (self.files.len(), self.files.values().map(|file| file.bytes).sum())
    }
}

/// Why a state folder was not copied or not brought back.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The system refused an operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// The operation, as an infinitive.
        doing: &'static str,
        /// The file that the operation was for.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A database cannot be copied or is damaged.
    #[error("the database {name} {why}")]
    Database {
        /// The name of the file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The archive is damaged, cut off, or not one of this program.
    #[error("the archive cannot be restored: {0}; nothing was changed")]
    Archive(String),
    /// A newer version of Stile made the archive.
    #[error("the archive was made by a newer stile ({made_by}); use that version")]
    Newer {
        /// The version of the program that made the archive.
        made_by: String,
    },
    /// The state folder has files, and the caller did not ask to replace it.
    #[error(
        "the state folder {} is not empty; name another with --state, or give --replace, which \
         keeps it under another name", .path.display()
    )]
    NotEmpty {
        /// The state folder.
        path: PathBuf,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |error| BackupError::Io { doing, path, error }
}

/// Who makes an archive, and when, for its manifest.
#[derive(Clone, Debug)]
pub struct BackupStamp {
    /// The version of the program.
    pub made_by: String,
    /// The time, RFC 3339 in UTC.
    pub made_at: String,
}

/// Returns how many bytes a state folder has, about as many as the archive's files.
///
/// # Errors
/// The error of the system.
pub fn size(state: &StateDir) -> io::Result<u64> {
    let mut names = Vec::new();
    collect(state.path(), "", &mut names)?;
    let lengths = names.iter().map(|name| state.path().join(name).metadata());
    Ok(lengths.filter_map(|metadata| Some(metadata.ok()?.len())).sum())
}

/// Copies the state folder to a new archive, which only its owner can read. `copy_records` copies
/// the database of records to a path. `on_copied` is called with the number of bytes that were
/// copied since the last call.
///
/// # Errors
/// [`BackupError`]; there is no archive then.
pub fn create(
    state: &StateDir,
    to: &Path,
    stamp: BackupStamp,
    copy_records: &mut dyn FnMut(&Path) -> Result<(), String>,
    on_copied: &mut dyn FnMut(u64),
) -> Result<BackupManifest, BackupError> {
    if to.try_exists().map_err(failed("make", to))? {
        return Err(failed("make", to)(io::ErrorKind::AlreadyExists.into()));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.metadata().map_err(failed("find the folder", folder))?;
    let mut part = to.as_os_str().to_owned();
    part.push(format!(".{}.part", Uuid::new_v4().simple()));
    let part = PathBuf::from(part);
    let made = write_archive(state, &part, stamp, copy_records, on_copied).and_then(|manifest| {
        // Linking fails if another program has made the file meanwhile.
        std::fs::hard_link(&part, to).map_err(failed("make", to))?;
        Ok(manifest)
    });
    let _ = std::fs::remove_file(&part);
    let manifest = made?;
    sync_folder(folder).map_err(failed("make", to))?;
    // The archive is there in any case. Without the note it only looks older.
    let _ = note_last(state, &manifest.made_at);
    Ok(manifest)
}

/// Copies the state folder as [`create`] does, to an archive in the state folder itself, and
/// removes all but the newest of those, and what a killed process left there. Returns the archive.
///
/// # Errors
/// As [`create`].
pub fn create_kept(
    state: &StateDir,
    stamp: BackupStamp,
    copy_records: &mut dyn FnMut(&Path) -> Result<(), String>,
    on_copied: &mut dyn FnMut(u64),
) -> Result<(PathBuf, BackupManifest), BackupError> {
    let folder = state.path().join(FOLDER);
    make_folder(&folder).map_err(failed("make", &folder))?;
    remove_left(&folder);
    // A name has digits alone and a fixed length, so that names sort by time.
    let second = stamp.made_at.chars().take("2026-01-31T09:05:00".len());
    let second: String = second.filter(char::is_ascii_alphanumeric).collect();
    let micros =
        Instant::parse(&stamp.made_at).map_or(0, |made| made.0.rem_euclid(MICROS_A_SECOND));
    let to = folder.join(format!("stile-{second}-{micros:06}.zip"));
    let manifest = create(state, &to, stamp, copy_records, on_copied)?;
    let mut archives: Vec<PathBuf> = folder
        .read_dir()
        .map_err(failed("read", &folder))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "zip"))
        .collect();
    archives.sort_unstable_by(|one, other| other.cmp(one));
    for old in archives.iter().skip(KEPT_ARCHIVES) {
        std::fs::remove_file(old).map_err(failed("remove", old))?;
    }
    Ok((to, manifest))
}

/// Removes what a process that was killed left of an archive.
fn remove_left(folder: &Path) {
    /// No archive takes so long.
    const LONG: Duration = Duration::from_secs(24 * 60 * 60);
    for path in folder.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
    {
        let is_part = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".part"));
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > LONG));
        if is_part && is_old {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Returns when the last archive of a state folder was made; `None` if none was, or if nobody
/// knows.
pub fn last(state: &StateDir) -> Option<Instant> {
    let text = std::fs::read_to_string(state.path().join(LAST)).ok()?;
    Instant::parse(text.trim())
}

fn note_last(state: &StateDir, made_at: &str) -> io::Result<()> {
    note(state, LAST, made_at)
}

fn note(state: &StateDir, name: &str, text: &str) -> io::Result<()> {
    let part = state.path().join(format!("{name}.{}.tmp", Uuid::new_v4().simple()));
    create_private(&part)?.write_all(text.as_bytes())?;
    std::fs::rename(&part, state.path().join(name))
}

/// When a state folder was brought back from an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredState {
    /// When the archive was made.
    pub made: Instant,
    /// When it was brought back.
    pub restored: Instant,
}

/// Returns when a state folder was brought back; `None` if it never was, or if nobody knows.
pub fn last_restored(state: &StateDir) -> Option<RestoredState> {
    let text = std::fs::read_to_string(state.path().join(RESTORED)).ok()?;
    let (made, restored) = text.trim().split_once('\n')?;
    Some(RestoredState { made: Instant::parse(made)?, restored: Instant::parse(restored)? })
}

/// Notes in a state folder that it was brought back from an archive at this moment, so that its
/// pages can say so.
///
/// # Errors
/// The error of the system.
pub fn note_restored(state: &StateDir, manifest: &BackupManifest, now: Instant) -> io::Result<()> {
    note(state, RESTORED, &format!("{}\n{}\n", manifest.made_at, now.to_rfc3339()))
}

fn write_archive(
    state: &StateDir,
    part: &Path,
    stamp: BackupStamp,
    copy_records: &mut dyn FnMut(&Path) -> Result<(), String>,
    on_copied: &mut dyn FnMut(u64),
) -> Result<BackupManifest, BackupError> {
    create_private(part).map_err(failed("make", part))?;
    // The head of each entry is written again once its size is known, so not only at the end.
    let file = OpenOptions::new().write(true).open(part).map_err(failed("open", part))?;
    let mut archive = ZipWriter::new(BufWriter::with_capacity(BUFFER, file));
    let mut files = BTreeMap::new();
    let mut names = Vec::new();
    collect(state.path(), "", &mut names).map_err(failed("read", state.path()))?;
    // Databases first: what they name was there before, and is only added to.
    names.sort_by_key(|name| (!is_database(name), name.clone()));
    for name in names {
        let path = state.path().join(&name);
        let copy = is_database(&name)
            .then(|| copy_database(&path, &name, part, copy_records))
            .transpose()?;
        let source = copy.as_ref().map_or(path.as_path(), |copy| copy.0.as_path());
        match add_file(&mut archive, &name, source, on_copied) {
            Ok(file) => {
                files.insert(name, file);
            }
            // A file of the journal or a lock may end at any moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("copy", &path)(error)),
        }
    }
    let BackupStamp { made_by, made_at } = stamp;
    let manifest = BackupManifest { format: FORMAT, made_by, made_at, files };
    let text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::from);
    let written = text.and_then(|text| {
        archive.start_file(MANIFEST, options())?;
        archive.write_all(&text)?;
        let mut buffered = archive.finish()?;
        buffered.flush()?;
        buffered.get_ref().sync_all()
    });
    written.map_err(failed("write", part))?;
    Ok(manifest)
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().large_file(true)
}

/// A copy of a database, which is removed when it is dropped.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn copy_database(
    path: &Path,
    name: &str,
    part: &Path,
    copy_records: &mut dyn FnMut(&Path) -> Result<(), String>,
) -> Result<Copy, BackupError> {
    let mut to = part.as_os_str().to_owned();
    to.push(".db");
    let copy = Copy(PathBuf::from(to));
    let copied = if name == RECORDS { copy_records(&copy.0) } else { vacuum(path, &copy.0) };
    copied.map_err(|why| BackupError::Database {
        name: name.to_owned(),
        why: format!("cannot be copied: {why}"),
    })?;
    Ok(copy)
}

fn vacuum(path: &Path, to: &Path) -> Result<(), String> {
    let text = to.to_str().ok_or("its path is not UTF-8")?;
    // SQLite takes an existing empty file, and keeps its rights.
    create_private(to).map_err(|error| error.to_string())?;
    let copy = || -> rusqlite::Result<()> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.execute("VACUUM INTO ?1", params![text]).map(drop)
    };
    copy().map_err(|error| error.to_string())
}

fn add_file<W: Write + io::Seek>(
    archive: &mut ZipWriter<W>,
    name: &str,
    path: &Path,
    on_copied: &mut dyn FnMut(u64),
) -> io::Result<BackedUpFile> {
    let file = File::open(path)?;
    // A file that grows is copied up to its length now.
    let bytes = file.metadata()?.len();
    archive.start_file(name, options())?;
    let mut source = BufReader::with_capacity(BUFFER, file).take(bytes);
    let (bytes, sha256) = copy_hashed(&mut source, archive, on_copied)?;
    Ok(BackedUpFile { bytes, sha256 })
}

fn copy_hashed(
    from: &mut impl Read,
    to: &mut impl Write,
    on_copied: &mut dyn FnMut(u64),
) -> io::Result<(u64, String)> {
    let (mut buffer, mut hasher, mut bytes) = (vec![0; BUFFER], Context::new(&SHA256), 0);
    loop {
        let read = from.read(&mut buffer)?;
        let part = buffer.get(..read).unwrap_or_default();
        if part.is_empty() {
            return Ok((bytes, hex(hasher.finish().as_ref())));
        }
        hasher.update(part);
        to.write_all(part)?;
        bytes += part.len() as u64;
        on_copied(part.len() as u64);
    }
}

fn is_database(name: &str) -> bool {
    name.ends_with(".db")
}

/// Returns whether a file is of no use to another state folder: room that is kept free, what a
/// database keeps beside itself, copies of older databases, and files that are being written.
fn is_passing(name: &str) -> bool {
    let ends = [".tmp", ".part", "-wal", "-shm", "-journal", ".lock"];
    let is_old_copy = name.contains(".db.schema-");
    name == "reserve"
        || name == LAST
        || name == RESTORED
        || is_old_copy
        || ends.iter().any(|end| name.ends_with(end))
}

/// Collects the names of the files below a folder, with `/` between their parts. Follows no link.
fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (kind, path) = (entry.file_type()?, format!("{prefix}{name}"));
        if kind.is_dir() {
            if prefix.is_empty() && LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            collect(&entry.path(), &format!("{path}/"), names)?;
        } else if kind.is_file() && !is_passing(&name) {
            names.push(path);
        }
    }
    Ok(())
}

/// What happens to a state folder that has files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// The restore is refused.
    Refuse,
    /// The folder gets another name, and stays.
    KeepAside,
}

/// A restored state folder.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What was in the archive.
    pub manifest: BackupManifest,
    /// Where the earlier state folder is now.
    pub aside: Option<PathBuf>,
}

/// Brings a state folder back from an archive, after checking each file of the archive. Calls
/// `on_copied` with the number of bytes that were copied and that there are.
///
/// # Errors
/// [`BackupError`]; the state folder is as it was then.
pub fn restore(
    archive: &Path,
    state: &Path,
    present: Present,
    on_copied: &mut dyn FnMut(u64, u64),
) -> Result<Restored, BackupError> {
    let state = std::path::absolute(state).map_err(failed("find", state))?;
    let is_empty = match state.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed("read", &state)(error)),
    };
    if !is_empty && present == Present::Refuse {
        return Err(BackupError::NotEmpty { path: state });
    }
    let parent = state.parent().unwrap_or(Path::new("/")).to_owned();
    make_folder(&parent).map_err(failed("make", &parent))?;
    let id = Uuid::new_v4().simple().to_string();
    let beside = |what: &str| {
        let mut name = state.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{what}-{}", id.get(..8).unwrap_or_default()));
        parent.join(name)
    };
    let new = beside("restoring");
    make_folder(&new).map_err(failed("make", &new))?;
    let moved = unpack(archive, &new, on_copied).and_then(|manifest| {
        let aside = (!is_empty).then(|| beside("before-restore"));
        match &aside {
            Some(aside) => std::fs::rename(&state, aside).map_err(failed("move", &state))?,
            // An empty folder gives way.
            None => match std::fs::remove_dir(&state) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("replace", &state)(error));
                }
                _ => {}
            },
        }
        if let Err(error) = std::fs::rename(&new, &state) {
            if let Some(aside) = &aside {
                let _ = std::fs::rename(aside, &state);
            }
            return Err(failed("move", &new)(error));
        }
        Ok(Restored { manifest, aside })
    });
    if moved.is_err() {
        let _ = std::fs::remove_dir_all(&new);
    }
    let restored = moved?;
    sync_folder(&parent).map_err(failed("write", &parent))?;
    Ok(restored)
}

/// Unpacks an archive into an empty folder and checks each file.
fn unpack(
    path: &Path,
    folder: &Path,
    on_copied: &mut dyn FnMut(u64, u64),
) -> Result<BackupManifest, BackupError> {
    let damaged = |why: String| BackupError::Archive(why);
    let file = File::open(path).map_err(failed("open", path))?;
    let mut archive = ZipArchive::new(BufReader::with_capacity(BUFFER, file))
        .map_err(|error| damaged(error.to_string()))?;
    let manifest = read_manifest(&mut archive)?;
    if archive.len() != manifest.files.len() + 1 {
        return Err(damaged("it has other files than its manifest says".to_owned()));
    }
    let (mut done, (_, total)) = (0, manifest.totals());
    for (name, expected) in &manifest.files {
        if !is_plain(name) {
            return Err(damaged(format!("`{}` is not a name of a file", name.escape_debug())));
        }
        let mut entry =
            archive.by_name(name).map_err(|error| damaged(format!("{name}: {error}")))?;
        let to = folder.join(name);
        if let Some(parent) = to.parent() {
            make_folder(parent).map_err(failed("make", parent))?;
        }
        let mut file = create_private(&to).map_err(failed("make", &to))?;
        // A byte more than the manifest says is enough to see that a file is too long.
        let mut bytes = (&mut entry).take(expected.bytes + 1);
        let copied = copy_hashed(&mut bytes, &mut file, &mut |bytes| {
            done += bytes;
            on_copied(done, total);
        });
        let (bytes, sha256) = copied.map_err(|error| damaged(format!("{name}: {error}")))?;
        file.sync_all().map_err(failed("write", &to))?;
        if bytes != expected.bytes || sha256 != expected.sha256 {
            return Err(damaged(format!("{name} is not what the manifest says")));
        }
        if is_database(name) {
            check_database(&to, name)?;
        }
    }
    sync_folder(folder).map_err(failed("write", folder))?;
    Ok(manifest)
}

fn read_manifest(archive: &mut ZipArchive<BufReader<File>>) -> Result<BackupManifest, BackupError> {
    let no_manifest = || BackupError::Archive("it has no manifest".to_owned());
    let mut text = Vec::new();
    let entry = archive.by_name(MANIFEST).map_err(|_| no_manifest())?;
    entry.take(MAX_MANIFEST_BYTES).read_to_end(&mut text).map_err(|_| no_manifest())?;
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|_| no_manifest())?;
    let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or_default();
    if format > u64::from(FORMAT) {
        let made_by = value.get("made_by").and_then(serde_json::Value::as_str).unwrap_or("?");
        return Err(BackupError::Newer { made_by: made_by.to_owned() });
    }
    serde_json::from_value(value).map_err(|_| no_manifest())
}

/// Returns whether a name is a path below a folder: no part is empty, `.` or `..`.
fn is_plain(name: &str) -> bool {
    let is_part =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', ':', '\0']);
    name.split('/').all(is_part)
}

fn check_database(path: &Path, name: &str) -> Result<(), BackupError> {
    let checked = Connection::open(path).and_then(|connection| {
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match checked {
        Ok(text) if text == "ok" => Ok(()),
        _ => Err(BackupError::Database { name: name.to_owned(), why: "is damaged".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{TokenKey, TokenStore};

    fn stamp() -> BackupStamp {
        BackupStamp { made_by: "0".to_owned(), made_at: "2026-01-01T00:00:00Z".to_owned() }
    }

    fn no_records(_: &Path) -> Result<(), String> {
        Err("there are none".to_owned())
    }

    fn restore_all(
        archive: &Path,
        state: &Path,
        present: Present,
    ) -> Result<Restored, BackupError> {
        let mut last = 0;
        let restored = restore(archive, state, present, &mut |done, _| last = done)?;
        assert_eq!(restored.manifest.totals().1, last);
        Ok(restored)
    }

    /// Makes a state folder with a key, tokens and a journal, and an archive of it.
    fn backed_up(outer: &Path) -> (PathBuf, PathBuf, TokenKey) {
        let (state_path, archive) = (outer.join("state"), outer.join("backup.zip"));
        let state = StateDir::open(&state_path).unwrap();
        let key = TokenKey::open(&state).unwrap();
        let tokens = TokenStore::open(&state).unwrap();
        std::fs::create_dir_all(state_path.join("journal/old")).unwrap();
        std::fs::write(state_path.join("journal/old/a.jsonl"), "{}\n".repeat(1000)).unwrap();
        std::fs::write(state_path.join("stile.db-wal"), "").unwrap();
        // The database stays open, as a server keeps it.
        let mut copied = 0;
        let made = create(&state, &archive, stamp(), &mut no_records, &mut |bytes| copied += bytes)
            .unwrap();
        assert_eq!(made.totals().1, copied);
        assert!(made.files.contains_key("journal/old/a.jsonl"), "{:?}", made.files);
        assert!(!made.files.keys().any(|name| name == "reserve" || name.ends_with("-wal")));
        drop(tokens);
        (state_path, archive, key)
    }

    #[test]
    fn a_state_folder_comes_back_from_its_archive() {
        let outer = tempfile::tempdir().unwrap();
        let (state, archive, key) = backed_up(outer.path());
        let to = outer.path().join("new/state");
        restore_all(&archive, &to, Present::Refuse).unwrap();
        let restored = StateDir::open(&to).unwrap();
        assert_eq!(TokenKey::open(&restored).unwrap(), key);
        TokenStore::open(&restored).unwrap();
        let name = "journal/old/a.jsonl";
        assert_eq!(std::fs::read(to.join(name)).unwrap(), std::fs::read(state.join(name)).unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&to), mode(&to.join("key.json"))), (0o700, 0o600));
            assert_eq!(mode(&archive), 0o600);
        }
        // The earlier state folder is refused, or kept aside.
        let refused = restore_all(&archive, &state, Present::Refuse).unwrap_err();
        assert!(matches!(refused, BackupError::NotEmpty { .. }), "{refused}");
        let restored = restore_all(&archive, &state, Present::KeepAside).unwrap();
        assert!(restored.aside.unwrap().join("key.json").exists());
        assert!(state.join("key.json").exists());
    }

    #[test]
    fn the_newest_archives_are_kept_in_the_state_folder_and_none_has_another() {
        let outer = tempfile::tempdir().unwrap();
        let state = StateDir::open(&outer.path().join("state")).unwrap();
        TokenKey::open(&state).unwrap();
        assert_eq!(last(&state), None);
        std::fs::create_dir_all(state.path().join("uploads/1")).unwrap();
        std::fs::write(state.path().join("uploads/1/bank.csv"), "a").unwrap();
        let make = |made_at: &str| {
            let stamp = BackupStamp { made_at: made_at.to_owned(), ..stamp() };
            let mut copied = 0;
            let mut on_copied = |bytes| copied += bytes;
            let (path, manifest) =
                create_kept(&state, stamp, &mut no_records, &mut on_copied).unwrap();
            assert_eq!(manifest.totals().1, copied);
            let names: Vec<String> = manifest.files.into_keys().collect();
            assert!(names.iter().all(|name| !name.contains('/')), "{names:?}");
            path
        };
        // A process that was killed two days ago, and one that is making an archive.
        let [left, making] = ["a.zip.1.part", "b.zip.2.part"].map(|name| {
            let path = state.path().join(FOLDER).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        });
        let file = File::options().write(true).open(&left).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - Duration::from_secs(2 * 24 * 60 * 60)).unwrap();
        let times = ["2026-01-31T09:05:00Z", "2026-01-31T09:05:00.5Z", "2026-01-31T09:05:00.25Z"];
        let made = times.map(make);
        assert_eq!(last(&state), Instant::parse(times[2]));
        let kept = made.map(|path| path.exists());
        assert_eq!(kept, [false, true, true], "the newest two by their time");
        assert!(!left.exists() && making.exists());
    }

    #[test]
    fn an_existing_file_is_never_an_archive() {
        let outer = tempfile::tempdir().unwrap();
        let (state, archive, _) = backed_up(outer.path());
        let before = std::fs::read(&archive).unwrap();
        let state = StateDir::open(&state).unwrap();
        let error = create(&state, &archive, stamp(), &mut no_records, &mut |_| {}).unwrap_err();
        assert!(matches!(error, BackupError::Io { .. }), "{error}");
        assert_eq!(std::fs::read(&archive).unwrap(), before);
    }

    #[test]
    fn a_damaged_archive_restores_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let (_, archive, _) = backed_up(outer.path());
        let good = std::fs::read(&archive).unwrap();
        let to = outer.path().join("new");
        let steps = good.len() / 97;
        for step in 0..97 {
            let mut bad = good.clone();
            bad[step * steps] ^= 0x55;
            std::fs::write(&archive, &bad).unwrap();
            // A bit in a header that nothing reads may change without harm.
            if restore_all(&archive, &to, Present::Refuse).is_ok() {
                std::fs::remove_dir_all(&to).unwrap();
                continue;
            }
            assert!(!to.exists(), "step {step}");
        }
        std::fs::write(&archive, &good[..good.len() / 2]).unwrap();
        assert!(restore_all(&archive, &to, Present::Refuse).is_err());
        assert_eq!(crate::files::entry_names(outer.path()).unwrap().len(), 2, "no rest is left");
    }

    #[test]
    fn a_name_that_leads_out_of_the_folder_is_refused() {
        for (name, plain) in [
            ("a/b", true),
            ("a", true),
            ("../a", false),
            ("a/../b", false),
            ("/a", false),
            ("a//b", false),
            ("a\\b", false),
            ("C:a", false),
            ("./a", false),
            ("", false),
        ] {
            assert_eq!(is_plain(name), plain, "{name}");
        }
    }

    #[test]
    fn a_newer_archive_is_refused_by_the_version_of_its_form() {
        let outer = tempfile::tempdir().unwrap();
        let archive = outer.path().join("new.zip");
        let mut zip = ZipWriter::new(File::create(&archive).unwrap());
        zip.start_file(MANIFEST, options()).unwrap();
        zip.write_all(b"{\"format\":2,\"made_by\":\"9.9\",\"more\":1}").unwrap();
        zip.finish().unwrap();
        let error = restore_all(&archive, &outer.path().join("s"), Present::Refuse).unwrap_err();
        assert!(error.to_string().contains("newer stile (9.9)"), "{error}");
    }
}
