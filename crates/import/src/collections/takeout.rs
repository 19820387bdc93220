//! Google Takeout: everything that a person asked Google for, in one or several zip files, or as
//! the folder in them.
//!
//! The folders are named in the language of the account, so a file is known by its contents, not by
//! its folder: `Takeout/Kalender/Privat.ics` is a calendar. HTML files beside JSON files have the
//! same data, and are left out.
//!
//! *Source*: Google's help pages on Takeout for the files, and those that the importers name.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use stile_store::archive::{Archive, ArchiveEntry};

use super::{Collection, Division};
use crate::importer::{Contents, Importer};
use crate::importers::{
    bookmarks, browser_history, calendar, contacts, google_activity, json_array, keep, mbox,
    timeline,
};
use crate::source::{ArchivedFiles, InputPath};

/// An export of Google Takeout.
pub static COLLECTION: Collection = Collection {
    name: "takeout",
    description: "an export of Google Takeout",
    recognises,
    divide,
    advice: "To import a file that is left out, unpack it and name it: `stile import FILE` says \
             what it is. Activity that Takeout wrote as HTML has to be ordered again as JSON \
             (\"Multiple formats\" beside the product)",
    parts_belong_together: false,
};

/// How many bytes of a JSON file show what it is.
const BEGINNING: u64 = 4096;

/// Returns whether an archive is an export of Takeout: all is in a folder `Takeout`, or the path is
/// that folder.
fn recognises(path: &Path, archive: &Archive) -> bool {
    let in_takeout = |entry: &ArchiveEntry| entry.name.starts_with("Takeout/");
    let names = archive.entries();
    let is_folder = || {
        path.file_name().is_some_and(|name| name == "Takeout")
            || names.iter().any(|entry| entry.name == "archive_browser.html")
    };
    !names.is_empty() && (names.iter().all(in_takeout) || is_folder())
}

/// What the name of a file says about it, without looking into it.
const NAMES: &[(&[&str], Kind)] = &[
    (&["mbox"], Kind::Mail),
    (&["ics"], Kind::One("events", &calendar::IMPORTER)),
    (&["vcf"], Kind::One("contacts", &contacts::IMPORTER)),
    (
        &[
            "jpg", "jpeg", "png", "gif", "heic", "webp", "mp4", "mov", "avi", "mp3", "wav", "m4a",
            "3gp", "dng", "tif", "tiff", "bmp", "mkv", "ogg", "opus", "amr",
        ],
        Kind::Skipped("pictures, recordings and films are no records"),
    ),
    (
        &["pdf", "docx", "xlsx", "pptx", "odt", "ods", "odp", "txt", "md", "zip"],
        Kind::Skipped("documents are no records; put them into a folder, and serve that"),
    ),
    (&["csv", "tsv"], Kind::Skipped("a table of its own, which `stile import` takes alone")),
];

/// What is done with a file.
#[derive(Clone, Copy)]
enum Kind {
    /// All mailboxes of an archive are one input.
    Mail,
    /// The notes of an archive are one input.
    Note,
    /// A file for a stream.
    One(&'static str, &'static Importer),
    /// A JSON file for a stream, whose rows are at a path.
    Rows(&'static str, &'static str),
    Skipped(&'static str),
}

fn divide(archives: &[ArchivedFiles], division: &mut Division) {
    for files in archives {
        let (mut mail, mut notes, mut media) = (Vec::new(), Vec::new(), Vec::new());
        for (number, entry) in files.entries() {
            let place = || InputPath::archived(&files.archive, &files.path, number);
            match kind_of(&files.archive, entry) {
                Kind::Mail => mail.push(number),
                Kind::Note => notes.push(number),
                Kind::One(stream, importer) => division.add(stream, importer, place()),
                Kind::Rows(stream, rows) => {
                    division.add_rows(stream, (&json_array::IMPORTER, rows), place());
                }
                Kind::Skipped(reason) if keep::is_media(&entry.name) => media.push((entry, reason)),
                Kind::Skipped(reason) => division.skip(entry, reason),
            }
        }
        // What lies beside notes is attached to them.
        let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let of_notes: HashSet<Option<String>> = notes
            .iter()
            .filter_map(|&number| files.archive.entries().get(number))
            .map(|entry| folder(&entry.name))
            .collect();
        for (entry, reason) in media {
            if !of_notes.contains(&folder(&entry.name)) {
                division.skip(entry, reason);
            }
        }
        for (stream, importer, numbers) in
            [("mail", &mbox::IMPORTER, mail), ("notes", &keep::IMPORTER, notes)]
        {
            if !numbers.is_empty() {
                let place = InputPath::several(&files.archive, &files.path, numbers);
                division.add(stream, importer, place);
            }
        }
    }
}

fn kind_of(archive: &Archive, entry: &ArchiveEntry) -> Kind {
    // These can have any format, and are the person's own.
    if entry.name.starts_with("Takeout/Drive/") || entry.name.starts_with("Drive/") {
        return Kind::Skipped("files of Google Drive; put them into a folder, and serve that");
    }
    let extension = entry.name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let extension = extension.to_ascii_lowercase();
    let by_name = NAMES.iter().find(|(extensions, _)| extensions.contains(&extension.as_str()));
    if let Some((_, kind)) = by_name {
        return *kind;
    }
    if !matches!(extension.as_str(), "json" | "html" | "htm") {
        return Kind::Skipped("Stile has no importer for it");
    }
    let mut bytes = Vec::new();
    let read = archive.read(entry).and_then(|it| it.take(BEGINNING).read_to_end(&mut bytes));
    if read.is_err() {
        return Kind::Skipped("it cannot be read; download the export again");
    }
    let beginning = bytes.get(..Contents::BEGINNING_BYTES).unwrap_or(&bytes);
    let is = |importer: &Importer| {
        (importer.recognition.contents)(Contents::Beginning(beginning))
            || (importer.recognition.contents)(Contents::Beginning(&bytes))
    };
    if extension != "json" {
        return match is(&bookmarks::IMPORTER) {
            true => Kind::One("bookmarks", &bookmarks::IMPORTER),
            false => {
                Kind::Skipped("HTML, which has no rows; order the product as JSON if it can be")
            }
        };
    }
    if is(&keep::IMPORTER) {
        return Kind::Note;
    }
    for (stream, importer) in [
        ("history", &browser_history::IMPORTER),
        ("activity", &google_activity::IMPORTER),
        ("places", &timeline::IMPORTER),
        ("locations", &timeline::POINTS),
    ] {
        if is(importer) {
            return Kind::One(stream, importer);
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("tasks#taskLists") {
        return Kind::Rows("tasks", "items/*/items");
    }
    if text.contains("\"photoTakenTime\"") {
        return Kind::Skipped("what Google Photos says about a picture is no record");
    }
    Kind::Skipped("JSON of a product that Stile has no importer for")
}
