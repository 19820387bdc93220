//! Imports bookmarks of a browser: a record for each.
//!
//! All browsers export an HTML file. Chrome, Edge and others that are made of Chromium keep theirs
//! in `Bookmarks`, a file of JSON. Firefox keeps them beside its history, in `places.sqlite`, and
//! saves a backup of JSON (`bookmarks-2026-01-05.json`).
//!
//! *Source*: the Netscape bookmark file format; `bookmark_codec.cc` of Chromium;
//! `BookmarkJSONUtils.sys.mjs` and `nsINavBookmarksService.idl` of Firefox.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead as _};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::unix_time::UnixUnit;
use stile_domain::records::value::FieldValue;
use stile_store::foreign_database::{Cell, ForeignDatabase, IN_ARCHIVE, MAGIC};

use super::whole_file::{self, Keys, ReadRow, WholeRows};
use super::{compact_time, json_members};
use crate::html;
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, Recognition, StreamDeclaration,
    file_bytes,
};
use crate::json_object::JsonObject;
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::InputPath;

/// Imports each bookmark of a browser.
pub static IMPORTER: Importer = Importer {
    name: "bookmarks",
    description: "bookmarks of a browser",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Beginning(bytes) => {
                begins(bytes) || begins_as_json(bytes) || begins_as_backup(bytes)
            }
            _ => false,
        },
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open,
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "bookmarks",
    key: "id",
    time: "added",
    fields: &[
        ("id", PresetField::Name),
        ("title", PresetField::SearchedText),
        ("url", PresetField::Name),
        ("folder", PresetField::SearchedText),
        ("tags", PresetField::Names),
        ("note", PresetField::SearchedText),
        ("added", PresetField::Time),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it has bookmarks, a record for each: `id` is the digest of the folder and the address",
        "`added` orders the records and is the time by which a grant counts",
        "`title`, `folder`, `tags` and `note` can be searched",
    ],
};

fn open(path: &InputPath, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    if path.open()?.reader.fill_buf()?.starts_with(MAGIC) {
        if path.files().is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, IN_ARCHIVE));
        }
        let database = ForeignDatabase::open(path)?;
        let file = path.display().to_string();
        return whole_file::of(file, io::empty(), |_| read_database(&database));
    }
    whole_file::open(path, |bytes| match (begins_as_json(bytes), begins_as_backup(bytes)) {
        (true, _) => read_json(bytes),
        (_, true) => read_backup(bytes),
        _ => Ok(read_html(bytes)),
    })
}

/// What is left out of bookmarks, and why.
const SEARCHES: &str = "searches that Firefox keeps among its bookmarks (`place:`), which are none";

/// The bookmarks of a file, as rows.
#[derive(Default)]
struct Bookmarks {
    keys: Keys,
    rows: Vec<ReadRow>,
    searches: u64,
}

impl Bookmarks {
    /// Adds a bookmark. One whose address is a search within Firefox is none, such as "Most
    /// Visited".
    fn add(&mut self, line: u64, bookmark: Bookmark) {
        let scheme = bookmark.url.get(.."place:".len());
        if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("place:")) {
            self.searches += 1;
        } else {
            self.rows.push((line, Ok(bookmark.row(&mut self.keys))));
        }
    }
}

impl From<Bookmarks> for WholeRows {
    fn from(Bookmarks { rows, searches, .. }: Bookmarks) -> Self {
        Self { rows, left_out: (searches > 0).then_some((SEARCHES, searches)) }
    }
}

fn begins(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let word = "<!DOCTYPE NETSCAPE-Bookmark-file-1";
    text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// Returns whether a file begins as the bookmarks of Chromium.
fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.get(..Contents::BEGINNING_BYTES).unwrap_or(bytes);
    json_members::beginning(bytes)
        .is_some_and(|json| json.is_object_with(&["checksum", "roots"]) && json.has(&["roots"]))
}

/// Reads the bookmarks of Chromium.
///
/// # Errors
/// The file is not JSON.
fn read_json(bytes: &[u8]) -> io::Result<Bookmarks> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let file = JsonObject::parse(&FieldValue::Json(text));
    let roots = file.and_then(|file| file.object("roots")).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is not whole: copy it again")
    })?;
    let mut found = Bookmarks::default();
    for (_, root) in &roots.0 {
        if let Some(root) = JsonObject::parse(root) {
            let mut add = |bookmark| found.add(1, bookmark);
            read_folder(&root, &CHROMIUM, &mut Vec::new(), &mut add);
        }
    }
    Ok(found)
}

/// Returns whether a file begins as the backup of the bookmarks of Firefox.
fn begins_as_backup(bytes: &[u8]) -> bool {
    let bytes = bytes.get(..Contents::BEGINNING_BYTES).unwrap_or(bytes);
    const MEMBERS: [&str; 2] = ["guid", "typeCode"];
    json_members::beginning(bytes).is_some_and(|json| json.has(&MEMBERS))
        && memchr::memmem::find(bytes, b"text/x-moz-place-container").is_some()
}

/// Reads a backup of the bookmarks of Firefox.
///
/// # Errors
/// The file is not JSON.
fn read_backup(bytes: &[u8]) -> io::Result<Bookmarks> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let root = JsonObject::parse(&FieldValue::Json(text)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is not whole: save the backup again")
    })?;
    let mut found = Bookmarks::default();
    let names = FolderNames { name: "title", address: "uri", added: "dateAdded", from: 0 };
    read_folder(&root, &names, &mut Vec::new(), &mut |bookmark| found.add(1, bookmark));
    Ok(found)
}

/// How many bookmarks of a database are read at once.
const PAGE: i64 = 1000;
/// The kinds of a bookmark and of a folder in a database of Firefox.
const KINDS: (i64, i64) = (1, 2);
/// The identifier of the folder whose folders are tags.
const TAGS: &str = "tags________";

/// Returns whether a database is of Firefox and has bookmarks.
pub(crate) fn has_bookmarks(database: &ForeignDatabase) -> io::Result<bool> {
    let columns = ["type", "fk", "parent", "title", "dateAdded", "guid"];
    database.has_table("moz_bookmarks", &columns)
}

/// Reads the bookmarks of Firefox.
///
/// # Errors
/// The database is damaged, or another one.
fn read_database(database: &ForeignDatabase) -> io::Result<Bookmarks> {
    if !has_bookmarks(database)? {
        let message = "it is a database without the bookmarks of Firefox";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    const QUERY: &str = "SELECT b.id, b.type, b.parent, substr(b.title, 1, 4096), b.dateAdded, \
        b.guid, b.fk, substr(p.url, 1, 65536) FROM moz_bookmarks b \
        LEFT JOIN moz_places p ON p.id = b.fk WHERE b.id > ?1 ORDER BY b.id LIMIT ?2";
    let mut all = Vec::new();
    loop {
        let after = all.last().map_or(0, |stored: &StoredBookmark| stored.number);
        let page = database.rows(QUERY, after, PAGE)?;
        if page.is_empty() {
            break;
        }
        all.extend(page.iter().map(|cells| StoredBookmark::of(cells)));
    }
    let by_number: HashMap<i64, &StoredBookmark> = all.iter().map(|it| (it.number, it)).collect();
    let is_tag = |folder: &StoredBookmark| {
        by_number.get(&folder.parent).is_some_and(|outer| outer.guid == TAGS)
    };
    let mut tags: HashMap<i64, Vec<&str>> = HashMap::new();
    for own in all.iter().filter(|own| own.kind == KINDS.0) {
        if let (Some(page), Some(tag)) =
            (own.page, by_number.get(&own.parent).filter(|it| is_tag(it)))
        {
            tags.entry(page).or_default().push(&tag.title);
        }
    }
    let mut found = Bookmarks::default();
    for own in all.iter().filter(|own| own.kind == KINDS.0) {
        let (mut names, mut outer) = (Vec::new(), by_number.get(&own.parent));
        if outer.is_some_and(|folder| is_tag(folder)) {
            continue;
        }
        while let Some(folder) = outer.filter(|_| names.len() < MOST_FOLDERS) {
            names.push(folder.title.as_str());
            outer = by_number.get(&folder.parent);
        }
        let named = names.into_iter().rev().filter(|name| !name.is_empty());
        let tags = own.page.and_then(|page| tags.get(&page));
        let bookmark = Bookmark {
            title: own.title.clone(),
            url: own.url.clone(),
            folder: named.collect::<Vec<_>>().join(" / "),
            tags: tags.map(|tags| tags.join(",")).unwrap_or_default(),
            added: own.added.map(|micros| micros / 1_000_000),
            note: String::new(),
        };
        if !bookmark.url.is_empty() {
            let line = u64::try_from(own.number).unwrap_or_default();
            found.add(line, bookmark);
        }
    }
    Ok(found)
}

/// A row of the bookmarks of Firefox.
struct StoredBookmark {
    number: i64,
    kind: i64,
    parent: i64,
    title: String,
    /// When it was added, in microseconds since 1970.
    added: Option<i64>,
    guid: String,
    /// The number of the page.
    page: Option<i64>,
    url: String,
}

impl StoredBookmark {
    fn of(cells: &[Cell]) -> Self {
        let number = |at: usize| match cells.get(at) {
            Some(Cell::Integer(number)) => Some(*number),
            _ => None,
        };
        let text = |at: usize| match cells.get(at) {
            Some(Cell::Text(text)) => text.clone(),
            _ => String::new(),
        };
        Self {
            number: number(0).unwrap_or(i64::MAX),
            kind: number(1).unwrap_or_default(),
            parent: number(2).unwrap_or_default(),
            title: text(3),
            added: number(4).filter(|&micros| micros > 0),
            guid: text(5),
            page: number(6),
            url: text(7),
        }
    }
}

/// How deep folders of bookmarks may lie in each other.
const MOST_FOLDERS: usize = 32;
/// Seconds from 1601 to 1970.
const FROM_1601: i64 = 11_644_473_600;

/// The names of the members of bookmarks in JSON.
struct FolderNames {
    name: &'static str,
    address: &'static str,
    /// The time when it was added, in microseconds.
    added: &'static str,
    /// Seconds from the first moment of these times to 1970.
    from: i64,
}

const CHROMIUM: FolderNames =
    FolderNames { name: "name", address: "url", added: "date_added", from: FROM_1601 };

fn read_folder(
    folder: &JsonObject,
    members: &FolderNames,
    names: &mut Vec<String>,
    add: &mut dyn FnMut(Bookmark),
) {
    names.push(folder.text(members.name).unwrap_or_default().to_owned());
    for child in folder.objects("children") {
        let Some(url) = child.text(members.address) else {
            if names.len() < MOST_FOLDERS {
                read_folder(&child, members, names, add);
            }
            continue;
        };
        let named = names.iter().filter(|name| !name.is_empty());
        let added = child.integer(members.added).filter(|&micros| micros > 0);
        add(Bookmark {
            title: child.text(members.name).unwrap_or_default().to_owned(),
            url: url.to_owned(),
            folder: named.map(String::as_str).collect::<Vec<_>>().join(" / "),
            tags: child.text("tags").unwrap_or_default().to_owned(),
            added: added.map(|micros| micros / 1_000_000 - members.from),
            note: String::new(),
        });
    }
    names.pop();
}

/// Reads all bookmarks of a file of HTML, and skips tags that belong to none.
pub fn read(bytes: &[u8]) -> Vec<ReadRow> {
    read_html(bytes).rows
}

fn read_html(bytes: &[u8]) -> Bookmarks {
    let text = String::from_utf8_lossy(bytes);
    // The names of the open folders. A list that has no name gets an empty one.
    let mut folders: Vec<String> = Vec::new();
    let mut named = String::new();
    let mut found: Vec<(u64, Bookmark)> = Vec::new();
    let (mut line, mut rest) = (1, &*text);
    while let Some((tag, before, after)) = next_tag(rest) {
        line += lines_of(before) + lines_of(tag);
        rest = after;
        let (name, attributes) = tag.split_at(tag.find(char::is_whitespace).unwrap_or(tag.len()));
        match name.to_ascii_lowercase().as_str() {
            "h3" => named = content(after),
            "dl" => folders.push(std::mem::take(&mut named)),
            "/dl" => drop(folders.pop()),
            "a" => {
                let Some(url) = attribute(attributes, "href") else { continue };
                let names = folders.iter().filter(|name| !name.is_empty());
                let folder = names.map(String::as_str).collect::<Vec<_>>().join(" / ");
                let bookmark = Bookmark {
                    title: content(after),
                    url: url.into_owned(),
                    folder,
                    tags: attribute(attributes, "tags").map(Cow::into_owned).unwrap_or_default(),
                    added: attribute(attributes, "add_date").and_then(|at| seconds_of(&at)),
                    note: String::new(),
                };
                found.push((line, bookmark));
            }
            "dd" => {
                if let Some((_, bookmark)) = found.last_mut() {
                    bookmark.note = content(after);
                }
            }
            _ => {}
        }
    }
    let mut all = Bookmarks::default();
    found.into_iter().for_each(|(line, bookmark)| all.add(line, bookmark));
    all
}

struct Bookmark {
    title: String,
    url: String,
    folder: String,
    /// Tags with commas between them.
    tags: String,
    /// When it was added, in seconds since 1970.
    added: Option<i64>,
    note: String,
}

impl Bookmark {
    fn row(self, keys: &mut Keys) -> ImportRow {
        let named = format!("{}\n{}", self.folder, self.url);
        let id = keys.take(format!("sha256:{}", ContentHash::digest(named.as_bytes())));
        let said = |text: String| (!text.is_empty()).then_some(FieldValue::Text(text));
        let tags = self.tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
        let tags: Vec<&str> = tags.collect();
        let added = self.added.and_then(|seconds| seconds.checked_mul(1_000_000));
        let fields = [
            ("id", said(id)),
            ("title", said(self.title)),
            ("url", said(self.url)),
            ("folder", said(self.folder)),
            ("tags", (!tags.is_empty()).then(|| FieldValue::Json(json!(tags).to_string()))),
            ("note", said(self.note)),
            ("added", added.map(Instant).and_then(compact_time::written).map(FieldValue::Text)),
        ];
        ImportRow::from_message(fields, Vec::new())
    }
}

/// Returns the next tag without its brackets, the text before it and the text after it.
fn next_tag(text: &str) -> Option<(&str, &str, &str)> {
    let (before, from) = text.split_once('<')?;
    let mut quote = None;
    let end = from.char_indices().find(|(_, next)| match (quote, next) {
        (None, '>') => true,
        (None, '"' | '\'') => {
            quote = Some(*next);
            false
        }
        (Some(open), next) if open == *next => {
            quote = None;
            false
        }
        _ => false,
    });
    let (at, _) = end?;
    let (tag, after) = from.split_at(at);
    Some((tag, before, after.strip_prefix('>').unwrap_or(after)))
}

fn lines_of(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Returns the text up to the next tag, with its character references decoded.
fn content(after: &str) -> String {
    let end = after.find('<').unwrap_or(after.len());
    html::to_text(after.get(..end).unwrap_or_default()).trim().to_owned()
}

/// Returns the value of an attribute of a tag, if it is there and not empty.
fn attribute<'t>(attributes: &'t str, name: &str) -> Option<Cow<'t, str>> {
    let mut rest = attributes;
    while let Some((before, after)) = rest.split_once('=') {
        let own = before.split_whitespace().next_back().unwrap_or_default();
        let after = after.trim_start();
        let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let (value, next) = match quote {
            Some(quote) => after.get(1..)?.split_once(quote)?,
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        if own.eq_ignore_ascii_case(name) {
            let value = quick_xml::escape::unescape(value).unwrap_or(Cow::Borrowed(value));
            return Some(value).filter(|value| !value.is_empty());
        }
        rest = next;
    }
    None
}

/// Returns the seconds since 1970 that a number says. Some programs write milliseconds or
/// microseconds.
fn seconds_of(digits: &str) -> Option<i64> {
    let unit = UnixUnit::of(digits).unwrap_or(UnixUnit::Seconds);
    unit.instant(digits).map(|Instant(micros)| micros / 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::xml_elements::tests::rows_of;
    use super::*;
    use crate::report::BadRowPolicy;

    #[test]
    fn each_bookmark_is_a_record_with_its_folder() {
        let text = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<META HTTP-EQUIV=\"Content-Type\">\n\
            <TITLE>Bookmarks</TITLE>\n<H1>Bookmarks</H1>\n<DL><p>\n\
            <DT><A HREF=\"https://a.example/?x=1&amp;y=2\" ADD_DATE=\"1767600000\" TAGS=\"a, b\">\
            A &gt; B</A>\n<DD>a note\n<DT><H3 ADD_DATE=\"1\">Birds</H3>\n<DL><p>\n\
            <DT><H3>Herons</H3>\n<DL><p>\n<DT><A HREF='https://h.example'>H</A>\n</DL><p>\n</DL><p>\n\
            <DT><A>no address</A>\n<DT><A HREF=\"https://h.example\">H</A>\n</DL><p>\n";
        let rows = rows_of(&IMPORTER, "html", text);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "title": "A > B", "url": "https://a.example/?x=1&y=2",
                "tags": ["a", "b"], "note": "a note", "added": "2026-01-05T08:00:00Z",
            })
        );
        assert_eq!(
            (&rows[1]["folder"], &rows[1]["url"]),
            (&json!("Birds / Herons"), &json!("https://h.example"))
        );
        assert_eq!((rows.len(), rows[2].get("folder")), (3, None));
    }

    #[test]
    fn the_bookmarks_that_chromium_keeps_are_read_with_their_folders() {
        let text = r#"{"checksum": "x", "roots": {"bookmark_bar": {"children": [
            {"date_added": "13412073600000000", "id": "5", "name": "A", "type": "url",
            "url": "https://a.example/"}, {"children": [{"name": "H", "type": "url",
            "url": "https://h.example/"}], "name": "Birds", "type": "folder"}],
            "name": "Bookmarks bar", "type": "folder"}, "sync_transaction_version": "1"}}"#;
        let rows = rows_of(&IMPORTER, "x", text);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "title": "A", "url": "https://a.example/",
                "folder": "Bookmarks bar", "added": "2026-01-05T08:00:00Z",
            })
        );
        assert_eq!((rows.len(), &rows[1]["folder"]), (2, &json!("Bookmarks bar / Birds")));
        assert!(read_json(b"{\"checksum\": \"x\", \"roots\"").is_err());
    }

    #[test]
    fn the_bookmarks_of_firefox_are_read_from_its_backup_and_from_its_database() {
        let text = r#"{"guid":"root________","title":"","index":0,"dateAdded":1767600000000000,
            "id":1,"typeCode":2,"type":"text/x-moz-place-container","root":"placesRoot","children":[
            {"guid":"menu________","title":"menu","typeCode":2,"type":"text/x-moz-place-container",
            "children":[{"guid":"a","title":"A","typeCode":1,"dateAdded":1767600000000000,
            "tags":"x,y z","type":"text/x-moz-place","uri":"https://a.example/"},
            {"guid":"q","title":"Most Visited","typeCode":1,"type":"text/x-moz-place",
            "uri":"place:sort=8&maxResults=10"},
            {"guid":"s","typeCode":3,"type":"text/x-moz-place-separator"}]}]}"#;
        let of_backup = rows_of(&IMPORTER, "json", text);
        let rig = crate::rig::rig();
        let path = rig.folder.path().join("places.sqlite");
        let made = rusqlite::Connection::open(&path).unwrap();
        made.execute_batch(
            "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT, title TEXT);
             CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER,
             parent INTEGER, title TEXT, dateAdded INTEGER, guid TEXT);
             INSERT INTO moz_places VALUES (7, 'https://a.example/', 'not the title'),
             (8, 'place:type=6&sort=14', NULL);
             INSERT INTO moz_bookmarks VALUES (1, 2, NULL, 0, '', 1, 'root________'),
             (2, 2, NULL, 1, 'menu', 1, 'menu________'), (3, 2, NULL, 1, 'tags', 1, 'tags________'),
             (4, 2, NULL, 3, 'x', 1, 'x'), (5, 1, 7, 4, NULL, 1, 'tx'),
             (6, 2, NULL, 3, 'y z', 1, 'y'), (8, 1, 7, 6, NULL, 1, 'ty'),
             (9, 1, 7, 2, 'A', 1767600000000000, 'a'), (10, 3, NULL, 2, NULL, 1, 's'),
             (11, 1, 8, 2, 'Recent Tags', 1, 'q');",
        )
        .unwrap();
        drop(made);
        let target = crate::rig::target();
        let mut rows = (IMPORTER.open)(&path.as_path().into(), &target).unwrap();
        let row = rows.next().unwrap().unwrap().row.unwrap();
        let of_database: serde_json::Value =
            serde_json::from_str(&stile_domain::records::row::to_json(&row.fields)).unwrap();
        assert!(rows.next().unwrap().is_none(), "tags and searches are no bookmarks");
        assert_eq!(rows.left_out(), Some((SEARCHES, 1)));
        assert_eq!(
            of_database,
            json!({
                "id": of_database["id"], "title": "A", "url": "https://a.example/",
                "folder": "menu", "tags": ["x", "y z"], "added": "2026-01-05T08:00:00Z",
            })
        );
        assert_eq!(of_backup, [of_database], "they are the same record");
        assert!(read_backup(b"{\"guid\": 1, \"typeCode\"").is_err());
    }

    #[test]
    fn searches_that_firefox_keeps_are_left_out_and_counted() {
        let page = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n\
            <DT><A HREF=\"place:sort=8&amp;maxResults=10\">Most Visited</A>\n\
            <DT><A HREF=\"PLACE:type=6\">Recent Tags</A>\n\
            <DT><A HREF=\"https://a.example/\">A</A>\n</DL>";
        let rig = crate::rig::rig();
        let path = rig.write("bookmarks.html", page);
        let report =
            rig.import(&[crate::rig::recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(crate::rig::counts(&report), (1, 0, 0, 0));
        assert_eq!(report.left_out, BTreeMap::from([(SEARCHES, 2)]));
        let only = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><A HREF='place:x'>S</A></DL>";
        for policy in [BadRowPolicy::Skip, BadRowPolicy::StoreNothing] {
            let rig = crate::rig::rig();
            let path = rig.write("only.html", only);
            let report = rig.import(&[crate::rig::recognised(&path)], &[], policy, |_| ()).unwrap();
            assert_eq!(report.left_out, BTreeMap::from([(SEARCHES, 1)]), "{policy:?}");
        }
    }

    #[test]
    fn the_time_may_be_in_milliseconds_or_microseconds() {
        for (digits, seconds) in [
            ("1767600000", Some(1_767_600_000)),
            ("1767600000123", Some(1_767_600_000)),
            ("1767600000123456", Some(1_767_600_000)),
            ("1", Some(1)),
            ("soon", None),
        ] {
            assert_eq!(seconds_of(digits), seconds, "{digits}");
        }
    }

    #[test]
    fn a_torn_file_gives_what_is_whole() {
        for text in ["<a", "<a href=\"x", "<dd>x", "</dl></dl><a href=x>y", "<a href='a\">"] {
            assert!(read(text.as_bytes()).len() <= 1, "{text}");
        }
    }
}
