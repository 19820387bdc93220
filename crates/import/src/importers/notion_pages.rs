//! Imports the pages of an export of Notion, which are Markdown: a record for each page.
//!
//! The name of a file ends in the identifier of its page. A page of a database begins with its
//! properties, one a line, below its title. They stay in the text, and the table of the database
//! has them as columns.
//!
//! *Source*: Notion's help page "Export your content"; the rest as exports of 2023 to 2026 are.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use stile_domain::hash::ContentHash;
use stile_domain::records::field_name;
use stile_domain::records::instant::Instant;
use stile_domain::records::source_version::is_time_of_change;
use stile_domain::records::table::written_date;
use stile_domain::records::value::FieldValue;
use stile_store::files;

use super::compact_time;
use crate::attachment::{self, Attachment};
use crate::exported_files;
use crate::importer::{
    ImportRow, ImportRows, ImportTarget, Importer, LocatedRow, Recognition, StreamDeclaration,
    UnusableRow,
};
use crate::json_object::truncate_name;
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::{ArchivedFiles, InputPath};

/// The largest page, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// How many lines below the title can be properties.
const MAX_PROPERTIES: usize = 200;

/// The plain names of a property that has the time at which a page was made, in the languages that
/// Notion speaks. Its owner can name it otherwise.
const CREATED: &str = "created createdtime createdat createdon datecreated erstellt erstelltam \
    erstelltum erstellungsdatum erstellungszeit datedecréation créé crééle horadecreación \
    fechadecreación creado creadoel datadicreazione creato creatoil datadecriação criado criadoem \
    horadacriação aangemaakt aangemaaktop 作成日時 作成日 생성일시 생성일 创建时间 建立時間";

/// Imports each page. A whole export has databases besides, so it is recognised as a collection.
pub static IMPORTER: Importer = Importer {
    name: "notion-pages",
    description: "pages of Notion",
    recognition: Recognition::NEVER,
    byte_count: |path| Ok(path.all_files()?.bytes()),
    open: |path, target| Ok(Box::new(Pages::open(path, target)?)),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "pages",
    key: "id",
    time: "created",
    fields: &[
        ("id", PresetField::Name),
        ("title", PresetField::SearchedText),
        ("path", PresetField::SearchedText),
        ("parent_id", PresetField::Name),
        ("parent_ref", PresetField::Object),
        ("database", PresetField::SearchedText),
        ("created", PresetField::Time),
        ("updated", PresetField::Time),
        ("text", PresetField::SearchedText),
        ("attachments", PresetField::List),
        (attachment::TEXT_FIELD, PresetField::SearchedText),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it has pages of Notion, a record for each: `id` is the identifier in the name of its file",
        "`created` orders the records and is the time by which a grant counts: only a page of a \
         database that shows when it was created has it, and its clock is taken for UTC",
        "`title`, `path` (the pages that it is in), `database`, `text` and `attachment_text` can \
         be searched",
        "`attachments` refers to blobs: the pictures and files in the folder of a page",
    ],
};

/// Splits the name of a file before its extension, which is empty if there is none.
pub(crate) fn stem_and_extension(name: &str) -> (&str, &str) {
    let last = name.rfind('/').map_or(0, |at| at + 1);
    match name.rfind('.').filter(|at| *at > last) {
        Some(at) => (name.get(..at).unwrap_or(name), name.get(at + 1..).unwrap_or_default()),
        None => (name, ""),
    }
}

/// Returns the title and the identifier that the name of a file or folder has. `None` if it does
/// not end in an identifier.
pub(crate) fn identified(name: &str) -> Option<(String, String)> {
    let stem = stem_and_extension(name).0.trim_end_matches("_all");
    titled(stem.rsplit('/').next()?)
}

fn titled(name: &str) -> Option<(String, String)> {
    const DIGITS: usize = 32;
    let (title, id) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_apart = title.is_empty() || title.ends_with([' ', '-']);
    (is_id && is_apart).then(|| (title.trim_end().to_owned(), id.to_ascii_lowercase()))
}

/// Returns the name of a folder or of a file as it is without an identifier.
fn untitled(name: &str) -> String {
    titled(name).map_or_else(|| name.to_owned(), |(title, _)| title)
}

struct Pages {
    files: ArchivedFiles,
    target: ImportTarget,
    remaining: std::vec::IntoIter<usize>,
    /// The identifiers of pages, by the paths that the folders of their pages have. Some exports
    /// leave the identifier out of the names of folders.
    parents: HashMap<String, String>,
    /// The names of databases, by the paths that the folders of their pages have.
    databases: HashMap<String, String>,
    /// The numbers of the files of pages, by the paths of their folders.
    attached: HashMap<String, Vec<usize>>,
    consumed: u64,
}

/// Returns the path that the folder of a page's files has, of the name of its Markdown.
pub(crate) fn folder_of_page(name: &str) -> String {
    without_identifiers(stem_and_extension(name).0)
}

/// Returns the path of the folder of a file, as [`folder_of_page`] has it.
pub(crate) fn folder_of_file(name: &str) -> String {
    without_identifiers(name.rsplit_once('/').map_or("", |(folder, _)| folder))
}

impl Pages {
    fn open(path: &InputPath, target: &ImportTarget) -> io::Result<Self> {
        let files = path.all_files()?;
        let (mut remaining, mut parents, mut databases) =
            (Vec::new(), HashMap::new(), HashMap::new());
        let mut attached: HashMap<String, Vec<usize>> = HashMap::new();
        let is = |extension: &str, wanted: &str| extension.eq_ignore_ascii_case(wanted);
        for entry in files.archive.entries() {
            let (stem, extension) = stem_and_extension(&entry.name);
            let stem = stem.trim_end_matches("_all");
            if let Some((title, _)) = identified(&entry.name).filter(|_| is(extension, "csv")) {
                databases.insert(without_identifiers(stem), title);
            }
        }
        for (number, entry) in files.entries() {
            let (stem, extension) = stem_and_extension(&entry.name);
            if is(extension, "md") {
                remaining.push(number);
                if let Some((_, id)) = identified(&entry.name) {
                    parents.insert(without_identifiers(stem), id);
                }
            } else if !["csv", "html", "zip"].iter().any(|other| is(extension, other)) {
                attached.entry(folder_of_file(&entry.name)).or_default().push(number);
            }
        }
        let (remaining, target) = (remaining.into_iter(), target.clone());
        Ok(Self { files, target, remaining, parents, databases, attached, consumed: 0 })
    }

    /// Gives a page the files in its folder.
    fn attach(&self, row: &mut ImportRow, name: &str) {
        let numbers = self.attached.get(&folder_of_page(name)).map(Vec::as_slice);
        let mut missing = Vec::new();
        for &number in numbers.unwrap_or_default().iter().take(exported_files::MAX_FILES) {
            match exported_files::attach(&self.files.archive, number) {
                Ok(found) => row.attachments.push(found),
                // It is named as a file that the export lacks.
                Err(_) => {
                    let entry = self.files.archive.entries().get(number);
                    let name = entry.and_then(|entry| entry.name.rsplit('/').next());
                    missing.extend(name.map(|name| truncate_name(name).to_owned()));
                }
            }
        }
        let references = Attachment::references(&row.attachments, &missing);
        row.fields.extend(references.map(|list| ("attachments".to_owned(), list)));
    }

    fn row(&self, name: &str, text: &str) -> ImportRow {
        let (stem, _) = stem_and_extension(name);
        let (folder, own_name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let named = titled(own_name);
        let title = title_of(text).or_else(|| {
            Some(named.as_ref().map_or_else(|| own_name.to_owned(), |(title, _)| title.clone()))
        });
        let id = named.map_or_else(
            || format!("sha256:{}", ContentHash::digest(name.as_bytes())),
            |(_, id)| id,
        );
        let folder = without_identifiers(folder);
        let parent = self.parents.get(&folder).filter(|parent| **parent != id);
        let database = self.databases.get(&folder);
        let (mut created, mut updated) = (None, None);
        if database.is_some() {
            for (property, value) in properties(text) {
                // Of `5/3/2026` nothing in a single page says whether May or March is meant.
                let time = written_date::in_any_order(value);
                let time = time.and_then(|time| compact_time::written(Instant::parse(&time)?));
                if field_name::rank(property, CREATED).is_some() {
                    created = created.or(time);
                } else if is_time_of_change(property) {
                    updated = updated.or(time);
                }
            }
        }
        let own = |text: Option<String>| text.filter(|text| !text.is_empty()).map(FieldValue::Text);
        let fields = [
            ("id", own(Some(id))),
            ("title", own(title)),
            ("path", own(Some(folder.replace('/', " / ")))),
            ("parent_id", own(parent.cloned())),
            ("parent_ref", parent.map(|parent| self.target.reference(parent))),
            ("database", own(database.cloned())),
            ("created", own(created)),
            ("updated", own(updated)),
            ("text", Some(FieldValue::Text(text.to_owned()))),
        ];
        ImportRow::from_message(fields, Vec::new())
    }
}

/// Returns the title with which a page begins.
pub(super) fn title_of(text: &str) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let heading = text.lines().next()?.strip_prefix("# ")?.trim();
    (!heading.is_empty()).then(|| heading.to_owned())
}

/// Returns a path whose parts have no identifiers.
pub(crate) fn without_identifiers(path: &str) -> String {
    path.split('/').map(untitled).collect::<Vec<_>>().join("/")
}

/// Returns the properties of a page: the lines `name: value` between its title and the next empty
/// line.
fn properties(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let below = text.lines().skip(1).skip_while(|line| line.trim().is_empty());
    let block = below.take_while(|line| !line.trim().is_empty()).take(MAX_PROPERTIES);
    block.filter_map(|line| line.split_once(": ").map(|(name, value)| (name.trim(), value.trim())))
}

impl ImportRows for Pages {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let archive = Arc::clone(&self.files.archive);
        let next = self.remaining.by_ref().find_map(|number| archive.entries().get(number));
        let Some(entry) = next else { return Ok(None) };
        let file: Arc<str> = self.files.name_of(entry).into();
        let read = archive.read(entry).and_then(|mut it| files::read_short(&mut it, MAX_BYTES));
        self.consumed += entry.bytes;
        // A file that cannot be read is one bad row. The other files are read all the same.
        let row = match read {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                let mut row = self.row(&entry.name, text);
                self.attach(&mut row, &entry.name);
                Ok(row)
            }
            Err(error) => Err(UnusableRow::new("unreadable", error)),
        };
        Ok(Some(LocatedRow { file, line: 1, row }))
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_title_and_an_identifier() {
        let id = "0123456789abcdef0123456789ABCDEF";
        let found = |name: &str| identified(&name.replace("ID", id)).map(|(title, _)| title);
        assert_eq!(found("a/My page ID.md").as_deref(), Some("My page"));
        assert_eq!(found("a/Books ID_all.csv").as_deref(), Some("Books"));
        assert_eq!(found("ID.md").as_deref(), Some(""));
        for name in ["a.md", "xID.md", "a ID/b.md", "é0123456789abcdef0123456789abcde.md", ""] {
            assert_eq!(found(name), None, "{name}");
        }
        assert_eq!(stem_and_extension("a.b/c"), ("a.b/c", ""));
        assert_eq!(stem_and_extension("a/.md"), ("a/.md", ""));
        let all: Vec<_> = properties("# T\n\nA: 1\nno\nB: x: y\n\nC: 2").collect();
        assert_eq!(all, [("A", "1"), ("B", "x: y")]);
    }
}
