//! Exports that hold several kinds of data: each part goes to an importer and a stream of its own.
//!
//! A collection is a declaration, as an importer is one: how it is recognised, and how its files
//! are divided. What no importer takes is listed with the reason. [`COLLECTIONS`] lists them all.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_domain::unseen::shown_start;
use stile_store::archive::{Archive, ArchiveEntry};
use stile_store::files;

use crate::importer::Importer;
use crate::importers::wrapped_json::RowsPath;
use crate::input::ImportInput;
use crate::source::{ArchivedFiles, InputPath};

pub mod notion;
pub mod packed_files;
pub mod takeout;

/// An export that holds several kinds of data.
#[derive(Debug)]
pub struct Collection {
    /// The value of `--format` that selects the collection, for example `takeout`.
    pub name: &'static str,
    /// What it is, with its article, as help lists it: `an export of Notion`.
    pub description: &'static str,
    /// Returns whether an archive or a folder is such an export, or a part of one.
    pub recognises: fn(&Path, &Archive) -> bool,
    /// Divides the files of all archives.
    pub divide: fn(&[ArchivedFiles], &mut Division),
    /// What to do about the files that are left out, for the person who imports.
    pub advice: &'static str,
    /// Whether what is in one part of an export depends on another part, so that all are imported
    /// together.
    pub parts_belong_together: bool,
}

/// Every collection, in the order of the help.
pub static COLLECTIONS: &[&Collection] =
    &[&takeout::COLLECTION, &notion::COLLECTION, &packed_files::COLLECTION];

/// Files of an export that go into one stream.
#[derive(Debug)]
pub struct ExportPart {
    /// The stream that is proposed for the rows.
    pub stream: String,
    /// The files, each with its importer.
    pub inputs: Vec<ImportInput>,
}

/// The files of a folder of an export that are not imported, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFiles {
    /// The folder, as it is named in the export; the file, if it is one.
    pub folder: String,
    /// How many files are left out.
    pub files: u64,
    /// Why, as half a sentence.
    pub reason: String,
}

impl SkippedFiles {
    /// Says which files are left out and why, on one line.
    pub fn described(&self) -> String {
        let Self { folder, files, reason } = self;
        let folder = shown_start(folder, 80);
        match files {
            1 => format!("left out: {folder}: {reason}"),
            files => format!("left out: {folder} ({files} files): {reason}"),
        }
    }
}

/// An export whose files are divided.
#[derive(Debug)]
pub struct DividedExport {
    /// What kind of export it is.
    pub collection: &'static Collection,
    /// The parts, by their streams, in the order of the import.
    pub parts: Vec<ExportPart>,
    /// What is left out, by folder.
    pub skipped: Vec<SkippedFiles>,
    /// The names of files beside those that were named which look like further parts of the export.
    pub unnamed: Vec<String>,
}

/// What a collection makes of the files of an export.
#[derive(Debug, Default)]
pub struct Division {
    parts: Vec<ExportPart>,
    skipped: BTreeMap<(String, String), u64>,
}

impl Division {
    /// Adds a file to the part of a stream.
    pub fn add(&mut self, stream: &str, importer: &'static Importer, path: InputPath) {
        self.add_input(stream, ImportInput::whole(path, importer));
    }

    /// Adds a JSON file whose rows are at a path.
    fn add_rows(
        &mut self,
        stream: &str,
        (importer, rows): (&'static Importer, &str),
        path: InputPath,
    ) {
        let rows_path = RowsPath::parse(rows);
        self.add_input(stream, ImportInput { rows_path, ..ImportInput::whole(path, importer) });
    }

    /// Adds a file with what is known of it.
    fn add_input(&mut self, stream: &str, input: ImportInput) {
        match self.parts.iter_mut().find(|part| part.stream == stream) {
            Some(part) => part.inputs.push(input),
            None => {
                self.parts.push(ExportPart { stream: stream.to_owned(), inputs: vec![input] });
            }
        }
    }

    /// Leaves a file out.
    pub fn skip(&mut self, entry: &ArchiveEntry, reason: &str) {
        // A folder of a service has thousands of files in folders of its own.
        let mut parts = entry.name.splitn(3, '/');
        let folder = match (parts.next(), parts.next(), parts.next()) {
            (Some(outer), Some(inner), Some(_)) => format!("{outer}/{inner}"),
            _ => entry.name.clone(),
        };
        *self.skipped.entry((folder, reason.to_owned())).or_default() += 1;
    }

    fn is_taken(&self, stream: &str) -> bool {
        self.parts.iter().any(|part| part.stream == stream)
    }
}

/// Returns the collection of this name.
pub fn named(name: &str) -> Option<&'static Collection> {
    COLLECTIONS.iter().copied().find(|collection| collection.name == name)
}

/// Divides an export with several kinds of data. `None` if the first path is not one, and `format`
/// does not say so.
///
/// # Errors
/// An archive cannot be read, or some of the paths are not of the same export.
pub fn divide(paths: &[PathBuf], format: Option<&str>) -> io::Result<Option<DividedExport>> {
    let said = format.and_then(named);
    if format.is_some() && said.is_none() {
        return Ok(None);
    }
    let mut collection = said;
    let mut archives = Vec::with_capacity(paths.len());
    for (index, path) in paths.iter().enumerate() {
        let Some(archive) = open(path, said.is_some())? else {
            return if index == 0 { Ok(None) } else { Err(other(path, collection)) };
        };
        if said.is_none() {
            let recognises = |found: &&Collection| (found.recognises)(path, &archive);
            let found = COLLECTIONS.iter().copied().find(recognises);
            match (index, found) {
                (0, None) => return Ok(None),
                (0, found) => collection = found,
                (_, found) if found.map(|it| it.name) == collection.map(|it| it.name) => {}
                _ => return Err(other(path, collection)),
            }
        }
        archives.push(all_of(Arc::new(archive), path));
    }
    let Some(collection) = collection else { return Ok(None) };
    let mut division = Division::default();
    (collection.divide)(&archives, &mut division);
    let skipped = division.skipped.into_iter();
    let mut skipped: Vec<SkippedFiles> =
        skipped.map(|((folder, reason), files)| SkippedFiles { folder, files, reason }).collect();
    for refused in archives.iter().flat_map(|files| files.archive.refused()) {
        let reason = refused.error.to_string();
        skipped.push(SkippedFiles { folder: refused.name.clone(), files: 1, reason });
    }
    let unnamed = paths
        .iter()
        .flat_map(|path| [other_part(path, 1), other_part(path, -1)])
        .flatten()
        .filter(|next| !paths.contains(next) && next.try_exists().unwrap_or(false));
    let unnamed = unnamed.map(|next| next.file_name().unwrap_or_default().to_string_lossy().into());
    Ok(Some(DividedExport {
        collection,
        parts: division.parts,
        skipped,
        unnamed: unnamed.collect(),
    }))
}

/// Returns the path that the part of an export behind this one or before it has:
/// `takeout-1-002.zip` for `takeout-1-001.zip`. `None` for a file without such a number.
fn other_part(path: &Path, step: i32) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let digits = stem.len() - stem.trim_end_matches(|next: char| next.is_ascii_digit()).len();
    let (start, number) = stem.split_at(stem.len() - digits);
    let is_part = start.ends_with('-') && (1..=4).contains(&digits);
    let other = number.parse::<i32>().ok()?.checked_add(step).filter(|number| *number > 0)?;
    is_part.then(|| path.with_file_name(format!("{start}{other:0digits$}.{extension}")))
}

/// Returns all files of an archive.
fn all_of(archive: Arc<Archive>, path: &Path) -> ArchivedFiles {
    let numbers = (0..archive.entries().len()).collect();
    ArchivedFiles { archive, path: path.to_owned(), numbers }
}

/// Opens a folder or a zip file. `None` for any other file, and for one that cannot be opened: its
/// importer reports that.
fn open(path: &Path, must_open: bool) -> io::Result<Option<Archive>> {
    if !must_open && !files::is_folder(path) && !files::begins_as_zip(path).unwrap_or(false) {
        return Ok(None);
    }
    match Archive::open(path) {
        Ok(archive) => Ok(Some(archive)),
        Err(error) if must_open => Err(error),
        Err(_) => Ok(None),
    }
}

fn other(path: &Path, collection: Option<&Collection>) -> io::Error {
    let whole = collection.map_or("an export", |collection| collection.description);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("`{name}` is not a part of {whole}, as the first file is. Import it on its own"),
    )
}

#[cfg(test)]
mod tests;
