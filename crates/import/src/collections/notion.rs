//! Notion's export as Markdown and CSV: the pages, and each database as a table.
//!
//! Names of files end in 32 hexadecimal digits, the identifier of a page or a database. A large
//! export is a zip file with zip files in it (`…-Part-1.zip`). A database is a CSV file, and again
//! with the rows that its view hides (`…_all.csv`), which is the one that is imported; its rows are
//! pages, too. Several exports of one database go into one stream, the newest last.
//!
//! *Source*: Notion's help page "Export your content"; the rest as exports of 2023 to 2026 are.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_domain::records::instant::Instant;
use stile_store::archive::{Archive, ArchiveEntry};

use super::{Collection, Division, all_of};
use crate::export_age::ExportTime;
use crate::importers::notion_pages::{
    folder_of_file, folder_of_page, identified, stem_and_extension, without_identifiers,
};
use crate::importers::notion_rows::DatabasePages;
use crate::importers::{csv, notion_pages};
use crate::input::ImportInput;
use crate::source::{ArchivedFiles, InputPath};

/// An export of Notion.
pub static COLLECTION: Collection = Collection {
    name: "notion",
    description: "an export of Notion (Markdown and CSV)",
    recognises,
    divide,
    advice: "Pictures and files are stored with the page in whose folder they lie",
    parts_belong_together: true,
};

/// The stream of the pages.
const PAGES: &str = "pages";

fn is_part(entry: &ArchiveEntry) -> bool {
    let (stem, extension) = stem_and_extension(&entry.name);
    extension.eq_ignore_ascii_case("zip") && without_number_of_part(stem).is_some()
}

/// Returns what stands before the number of a part of an export; `None` for another name.
fn without_number_of_part(stem: &str) -> Option<&str> {
    let (before, number) = stem.rsplit_once("Part-")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(before)
}

/// What to do with an export in another format.
const HTML: &str = "HTML, which is not read: export again from Notion (Settings, General, \
    Export all workspace content) with the format Markdown & CSV, and import that";

/// Returns whether most Markdown, CSV and HTML files of an archive have an identifier of Notion, or
/// all files are parts of an export.
fn recognises(_: &Path, archive: &Archive) -> bool {
    let entries = archive.entries();
    if !entries.is_empty() && entries.iter().all(is_part) {
        return true;
    }
    let texts = entries.iter().filter(|entry| {
        let (_, extension) = stem_and_extension(&entry.name);
        ["md", "csv", "html"].iter().any(|own| own.eq_ignore_ascii_case(extension))
    });
    let (with, all) = texts.fold((0_usize, 0_usize), |(with, all), entry| {
        (with + usize::from(identified(&entry.name).is_some()), all + 1)
    });
    with * 2 > all
}

/// An export: all its parts.
struct Export {
    /// The path of its files, without the number of a part.
    name: PathBuf,
    files: Vec<ArchivedFiles>,
}

impl Export {
    /// Returns when the export was made: the latest time of its pages and tables.
    ///
    /// Archives keep times in whole seconds, and so does a folder into which one was unpacked with
    /// its times. A time with a part of a second is that of the unpacking, or of an edit since, so
    /// such a folder does not say when the export was made.
    fn time(&self) -> ExportTime {
        const MICROSECONDS: i64 = 1_000_000;
        let entries = self.files.iter().flat_map(ArchivedFiles::entries);
        let texts = entries.filter(|(_, entry)| {
            let (_, extension) = stem_and_extension(&entry.name);
            ["md", "csv"].iter().any(|own| own.eq_ignore_ascii_case(extension))
        });
        let times: Vec<Instant> = texts.filter_map(|(_, entry)| entry.modified).collect();
        let are_kept = times.iter().all(|Instant(time)| time % MICROSECONDS == 0);
        ExportTime(times.into_iter().max().filter(|_| are_kept))
    }
}

/// Returns the exports that some files are of, the newest last. Those that do not say when they
/// were made come first.
fn exports(archives: &[ArchivedFiles], division: &mut Division) -> Vec<(Export, ExportTime)> {
    let mut exports: Vec<Export> = Vec::new();
    for archive in archives {
        let mut files = Vec::new();
        for (_, entry) in archive.entries().filter(|(_, entry)| is_part(entry)) {
            match archive.archive.nested(entry) {
                Ok(inner) => files.push(all_of(Arc::new(inner), &archive.path.join(&entry.name))),
                Err(error) => division.skip(entry, &error.to_string()),
            }
        }
        files.push(archive.clone());
        let path = archive.path.to_string_lossy();
        let stem = path.rsplit_once('.').map_or(&*path, |(stem, _)| stem);
        let name = PathBuf::from(without_number_of_part(stem).unwrap_or(&path));
        match exports.iter_mut().find(|export| export.name == name) {
            Some(export) => export.files.append(&mut files),
            None => exports.push(Export { name, files }),
        }
    }
    let mut exports: Vec<_> = exports
        .into_iter()
        .map(|export| {
            let time = export.time();
            (export, time)
        })
        .collect();
    exports.sort_by_key(|(_, ExportTime(time))| *time);
    exports
}

fn divide(archives: &[ArchivedFiles], division: &mut Division) {
    let exports = exports(archives, division);
    let all = || {
        exports.iter().flat_map(|(export, time)| export.files.iter().map(move |own| (own, *time)))
    };
    // The streams of databases, by their identifiers. Several exports have the same one.
    let mut streams: HashMap<String, String> = HashMap::new();
    // The tables first: their names are the streams that people look for.
    for (files, time) in all() {
        for (number, entry) in files.entries() {
            let (stem, extension) = stem_and_extension(&entry.name);
            if !extension.eq_ignore_ascii_case("csv") {
                continue;
            }
            let whole = format!("{stem}_all.csv");
            if !stem.ends_with("_all") && files.entries().any(|(_, it)| it.name == whole) {
                division.skip(entry, "its rows are in the file that ends in `_all.csv`");
                continue;
            }
            let named = identified(&entry.name);
            let known = named.as_ref().and_then(|(_, id)| streams.get(id)).cloned();
            let stream = known.unwrap_or_else(|| stream_of(&entry.name, division));
            streams.extend(named.map(|(_, id)| (id, stream.clone())));
            let place = InputPath::archived(&files.archive, &files.path, number);
            let pages = Some(Arc::new(DatabasePages::new(pages_of(files, stem))));
            let whole = ImportInput::whole(place, &csv::IMPORTER);
            let input = ImportInput { pages, exported: Some(time), ..whole };
            division.add_input(&stream, input);
        }
    }
    for (files, time) in all() {
        let mut pages = Vec::new();
        let is_page = |name: &str| stem_and_extension(name).1.eq_ignore_ascii_case("md");
        let of_pages: HashSet<String> = files
            .entries()
            .filter(|(_, entry)| is_page(&entry.name))
            .map(|(_, entry)| folder_of_page(&entry.name))
            .collect();
        for (number, entry) in files.entries() {
            match stem_and_extension(&entry.name).1.to_ascii_lowercase().as_str() {
                "md" => pages.push(number),
                "csv" => {}
                _ if is_part(entry) => {}
                "html" => division.skip(entry, HTML),
                _ if of_pages.contains(&folder_of_file(&entry.name)) => pages.push(number),
                _ => division.skip(entry, "a file that lies in the folder of no page"),
            }
        }
        if !of_pages.is_empty() {
            let place = InputPath::several(&files.archive, &files.path, pages);
            let whole = ImportInput::whole(place, &notion_pages::IMPORTER);
            division.add_input(PAGES, ImportInput { exported: Some(time), ..whole });
        }
    }
}

/// Returns the pages of a database, which are in a folder of its name beside its table. Some
/// exports leave the identifier out of the names of folders.
fn pages_of(files: &ArchivedFiles, table: &str) -> ArchivedFiles {
    let table = table.trim_end_matches("_all");
    let is_of = |name: &str| {
        let (stem, extension) = stem_and_extension(name);
        let folder = stem.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_named = folder == table || folder == without_identifiers(table);
        extension.eq_ignore_ascii_case("md") && is_named
    };
    let numbers = files.entries().filter(|(_, entry)| is_of(&entry.name));
    let numbers = numbers.map(|(number, _)| number).collect();
    ArchivedFiles { numbers, ..files.clone() }
}

/// How many digits of the identifier of a database the name of its stream ends in.
const SHOWN_DIGITS: usize = 8;

/// Returns the stream of the same database under another name, of those that a connection has:
/// `books-01234567` for `reading-list-01234567`. `None` if the connection has the stream itself, or
/// none or several of this database.
pub fn stored_as<'s>(stream: &str, stored: impl Iterator<Item = &'s str>) -> Option<String> {
    let ending = |name: &'s str| name.rsplit_once('-').map(|(_, digits)| digits);
    let (_, digits) = stream.rsplit_once('-')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != SHOWN_DIGITS || !digits.bytes().all(is_digit) {
        return None;
    }
    let same: Vec<&str> = stored.filter(|name| ending(name) == Some(digits)).collect();
    match same.as_slice() {
        [only] if *only != stream => Some((*only).to_owned()),
        _ => None,
    }
}

/// Returns a name for the stream of a database that no other one has: `reading-list-01234567` for
/// `Reading List 0123456789….csv`. Two databases of one title never share a stream, in whatever
/// order exports have them: a grant of one would show the other.
fn stream_of(name: &str, division: &Division) -> String {
    let (title, id) = identified(name).map_or_else(
        || (stem_and_extension(name).0.rsplit('/').next().unwrap_or_default().to_owned(), None),
        |(title, id)| (title, Some(id)),
    );
    let words = title.split(|next: char| !next.is_ascii_alphanumeric());
    let words: Vec<String> =
        words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    let mut stream = words.join("-");
    stream.truncate(50);
    if stream.is_empty() {
        "database".clone_into(&mut stream);
    }
    if let Some(digits) = id.as_deref().and_then(|id| id.get(..SHOWN_DIGITS)) {
        stream = format!("{stream}-{digits}");
    }
    let is_free = |name: &str| name != PAGES && !division.is_taken(name);
    if is_free(&stream) {
        return stream;
    }
    (2..=usize::MAX)
        .map(|number| format!("{stream}-{number}"))
        .find(|name| is_free(name))
        .unwrap_or(stream)
}
