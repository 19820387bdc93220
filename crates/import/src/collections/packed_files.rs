//! A zip file of files that importers take one by one: the statements of a bank (CAMT.053),
//! calendars of Google, or what Apple Health exports.
//!
//! Only formats that bring a declaration are read, since a table or a file of JSON says nothing of
//! the stream that it belongs to.

use std::io::Read as _;
use std::path::Path;

use stile_store::archive::{Archive, ArchiveEntry};
use stile_store::files;

use super::{Collection, Division};
use crate::importer::{Contents, Importer};
use crate::importers::{self, IMPORTERS, markdown};
use crate::source::{ArchivedFiles, InputPath};

/// How many files are looked into to see whether an importer takes one.
const LOOKED_INTO: usize = 10_000;

/// A zip file of files.
pub static COLLECTION: Collection = Collection {
    name: "files",
    description: "a zip file of calendars, contacts, statements, tracks or notes",
    recognises,
    divide,
    advice: "To import a file that is left out, unpack it and name it: `stile import FILE` says \
             what it is",
    parts_belong_together: false,
};

/// Returns whether a zip file has a file that an importer takes, and none takes it as a whole.
fn recognises(path: &Path, archive: &Archive) -> bool {
    let takes_one = |entry: &ArchiveEntry| importer_of(archive, entry).is_some();
    !files::is_folder(path)
        && !importers::takes_archive(IMPORTERS, archive)
        && archive.entries().iter().take(LOOKED_INTO).any(takes_one)
}

fn divide(archives: &[ArchivedFiles], division: &mut Division) {
    for files in archives {
        for (number, entry) in files.entries() {
            let preset = importer_of(&files.archive, entry);
            match preset.and_then(|importer| Some((importer, importer.preset()?.default_stream))) {
                Some((importer, stream)) => {
                    let place = InputPath::archived(&files.archive, &files.path, number);
                    division.add(stream, importer, place);
                }
                None => division.skip(entry, reason(&entry.name)),
            }
        }
    }
}

fn reason(name: &str) -> &'static str {
    match extension(name).to_ascii_lowercase().as_str() {
        "csv" | "tsv" => "a table of its own, which `stile import` takes alone",
        "json" | "jsonl" | "ndjson" => "JSON of its own, which `stile import` takes alone",
        _ => "no importer takes it",
    }
}

/// Returns the importer of a file. A note of Markdown has none: a folder of notes is more than its
/// files.
fn importer_of(archive: &Archive, entry: &ArchiveEntry) -> Option<&'static Importer> {
    if markdown::IMPORTER.recognition.extensions.contains(&extension(&entry.name)) {
        return None;
    }
    let mut beginning = Vec::with_capacity(Contents::BEGINNING_BYTES);
    let reader = archive.read(entry).ok()?;
    reader.take(Contents::BEGINNING_BYTES as u64).read_to_end(&mut beginning).ok()?;
    let importer = importers::recognise_archived(IMPORTERS, &entry.name, &beginning);
    importer.filter(|importer| importer.preset().is_some())
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}
