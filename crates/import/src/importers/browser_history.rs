//! Imports the history of a browser: a record for each visit of a page.
//!
//! Browsers keep it in a database of SQLite, which people copy: `History` of Chrome, Edge and
//! others that are made of Chromium, `places.sqlite` of Firefox, `History.db` of Safari. Google
//! Takeout has that of Chrome as JSON. A database is read a page of visits at a time, by their
//! numbers, and never written.
//!
//! *Source*: `history_database.cc` and `page_transition_types.h` of Chromium (microseconds since
//! 1601), `nsINavHistoryService.idl` of Firefox (microseconds since 1970), and the tables of
//! Safari, which Apple documents nowhere (seconds since 2001).

use std::borrow::Cow;
use std::io::{self, BufRead as _, ErrorKind};
use std::sync::Arc;

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;
use stile_store::foreign_database::{Cell, ForeignDatabase, IN_ARCHIVE, MAGIC, unread_log};

use super::mapped_rows::MappedRow;
use super::wrapped_json::{RowsPath, WrappedRows};
use super::{bookmarks, compact_time, json_members, json_text, mapped_rows};
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, LocatedRow, Recognition,
    StreamDeclaration, file_bytes,
};
use crate::json_object::JsonObject;
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::InputPath;

/// Imports each visit of a page.
pub static IMPORTER: Importer = Importer {
    name: "browser-history",
    description: "the history of a browser (Chrome, Edge, Firefox, Safari)",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Database(database) => matches!(Browser::of(database), Ok(Some(_))),
            Contents::Beginning(bytes) => begins(bytes),
            Contents::Folder(_) | Contents::Zip(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open,
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "history",
    key: "id",
    time: "at",
    fields: &[
        ("id", PresetField::Name),
        ("at", PresetField::Time),
        ("url", PresetField::Name),
        ("host", PresetField::SearchedText),
        ("title", PresetField::SearchedText),
        ("how", PresetField::Name),
        ("from_url", PresetField::Name),
        ("seconds", PresetField::Amount),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is the history of a browser, a record for each visit: `id` is the digest of its address \
         and time",
        "`at` orders the records and is the time by which a grant counts",
        "`title` and `host` can be searched; `how` says how the page was reached, such as `link`, \
         `typed` or `bookmark`",
    ],
};

/// How many visits are read at once.
const PAGE: i64 = 1000;

/// How the history of a browser is asked for its visits.
struct Browser {
    /// The table of the visits, and the columns by which the browser is known.
    visits: (&'static str, &'static [&'static str]),
    /// The table of the pages, likewise.
    pages: (&'static str, &'static [&'static str]),
    /// Selects the number, address, title, time, kind, length in microseconds and previous address
    /// of the visits behind a number. Very long texts are cut, so that a page of rows is bounded.
    query: &'static str,
    /// Returns the time of a visit.
    time: fn(&Cell) -> Option<Instant>,
    /// The names of the kinds of visits, from the kind 0 on.
    kinds: &'static [&'static str],
}

/// Microseconds from 1601 to 1970.
const FROM_1601: i64 = 11_644_473_600_000_000;
/// Seconds from 1970 to 2001.
const TO_2001: f64 = 978_307_200.0;

const BROWSERS: [Browser; 3] = [
    Browser {
        visits: ("visits", &["url", "visit_time", "from_visit", "transition", "visit_duration"]),
        pages: ("urls", &["url", "title"]),
        query: "SELECT v.id, substr(u.url, 1, 65536), substr(u.title, 1, 4096), v.visit_time, \
                v.transition & 255, v.visit_duration, (SELECT substr(w.url, 1, 65536) \
                FROM visits p JOIN urls w ON w.id = p.url WHERE p.id = v.from_visit) \
                FROM visits v JOIN urls u ON u.id = v.url WHERE v.id > ?1 ORDER BY v.id LIMIT ?2",
        time: |cell| match cell {
            Cell::Integer(micros) => micros.checked_sub(FROM_1601).map(Instant),
            _ => None,
        },
        kinds: &[
            "link", "typed", "bookmark", "subframe", "subframe", "generated", "start", "form",
            "reload", "keyword", "keyword",
        ],
    },
    Browser {
        visits: ("moz_historyvisits", &["place_id", "visit_date", "visit_type", "from_visit"]),
        pages: ("moz_places", &["url", "title"]),
        query: "SELECT v.id, substr(u.url, 1, 65536), substr(u.title, 1, 4096), v.visit_date, \
                v.visit_type, NULL, (SELECT substr(w.url, 1, 65536) FROM moz_historyvisits p \
                JOIN moz_places w ON w.id = p.place_id WHERE p.id = v.from_visit) \
                FROM moz_historyvisits v JOIN moz_places u ON u.id = v.place_id \
                WHERE v.id > ?1 ORDER BY v.id LIMIT ?2",
        time: |cell| match cell {
            Cell::Integer(micros) => Some(Instant(*micros)),
            _ => None,
        },
        kinds: &[
            "", "link", "typed", "bookmark", "embed", "redirect", "redirect", "download",
            "subframe", "reload",
        ],
    },
    Browser {
        visits: ("history_visits", &["history_item", "visit_time", "title", "redirect_source"]),
        pages: ("history_items", &["url"]),
        query: "SELECT v.id, substr(u.url, 1, 65536), substr(v.title, 1, 4096), v.visit_time, \
                NULL, NULL, (SELECT substr(w.url, 1, 65536) FROM history_visits p \
                JOIN history_items w ON w.id = p.history_item WHERE p.id = v.redirect_source) \
                FROM history_visits v JOIN history_items u ON u.id = v.history_item \
                WHERE v.id > ?1 ORDER BY v.id LIMIT ?2",
        #[expect(clippy::cast_possible_truncation, reason = "a time outside of the years is none")]
        time: |cell| {
            let seconds = match cell {
                Cell::Real(seconds) => *seconds,
                Cell::Integer(seconds) => f64::from(i32::try_from(*seconds).ok()?),
                _ => return None,
            };
            Some(Instant(((seconds + TO_2001) * 1e6).round() as i64))
        },
        kinds: &[],
    },
];

impl Browser {
    /// Returns the browser whose history a database is; `None` for another database.
    fn of(database: &ForeignDatabase) -> io::Result<Option<&'static Self>> {
        for browser in &BROWSERS {
            let [(visits, of_visits), (pages, of_pages)] = [browser.visits, browser.pages];
            if database.has_table(visits, of_visits)? && database.has_table(pages, of_pages)? {
                return Ok(Some(browser));
            }
        }
        Ok(None)
    }
}

/// Returns whether a file begins as the history of Chrome in Google Takeout.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    const MEMBERS: [&str; 3] = ["Browser History", "Typed Url", "Session"];
    json_members::beginning(bytes).is_some_and(|json| json.is_object_with(&MEMBERS))
}

/// Says that a database has the bookmarks of the browser, too; `None` for any other file.
pub(crate) fn with_bookmarks(path: &InputPath) -> Option<String> {
    let has = path.files().is_none()
        && ForeignDatabase::open(path).and_then(|it| bookmarks::has_bookmarks(&it)).ok()?;
    has.then(|| {
        "it has bookmarks, too: import it again with --format bookmarks --stream bookmarks"
            .to_owned()
    })
}

/// Says that a database has changes which are not in its file; `None` for any other file.
pub(crate) fn unread_visits(path: &InputPath) -> Option<String> {
    let log = unread_log(path)?;
    let name = log.file_name()?.to_string_lossy().into_owned();
    Some(format!(
        "its newest visits are in `{name}`, which is not read: close the browser before you copy \
         the file"
    ))
}

fn open(path: &InputPath, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let mut json = json_text::open(path)?;
    if !json.fill_buf()?.starts_with(MAGIC) {
        let rows = RowsPath::parse("Browser History").ok_or(ErrorKind::InvalidInput)?;
        return Ok(mapped_rows::open(path, WrappedRows::new(json, rows), of_takeout));
    }
    if path.files().is_some() {
        return Err(io::Error::new(ErrorKind::InvalidInput, IN_ARCHIVE));
    }
    let database = ForeignDatabase::open(path)?;
    let Some(browser) = Browser::of(&database)? else {
        let message = "it is no history of Chrome, Edge, Firefox or Safari";
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    };
    let last =
        database.number(&format!("SELECT coalesce(max(id), 0) FROM {}", browser.visits.0))?;
    Ok(Box::new(Visits {
        file: path.display().to_string().into(),
        bytes: path.bytes()?,
        database,
        browser,
        page: Vec::new().into_iter(),
        read: 0,
        last,
        is_over: false,
    }))
}

struct Visits {
    file: Arc<str>,
    bytes: u64,
    database: ForeignDatabase,
    browser: &'static Browser,
    page: std::vec::IntoIter<Vec<Cell>>,
    /// The number of the last visit that was read, and the last of all.
    read: i64,
    last: i64,
    is_over: bool,
}

impl ImportRows for Visits {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        if self.page.as_slice().is_empty() && !self.is_over {
            let rows = self.database.rows(self.browser.query, self.read, PAGE)?;
            self.is_over = rows.is_empty();
            self.page = rows.into_iter();
        }
        let Some(cells) = self.page.next() else { return Ok(None) };
        let [number, url, title, time, kind, length, from] = cells.as_slice() else {
            return Err(ErrorKind::InvalidData.into());
        };
        if let Cell::Integer(number) = number {
            self.read = *number;
        }
        let kind = match kind {
            Cell::Integer(kind) => usize::try_from(*kind).ok(),
            _ => None,
        };
        let kind = kind.and_then(|kind| self.browser.kinds.get(kind)).copied();
        let text = |cell: &Cell| match cell {
            Cell::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let visit = Visit {
            at: (self.browser.time)(time).and_then(compact_time::written),
            url: text(url),
            title: text(title),
            how: kind.filter(|kind| !kind.is_empty()).map(Cow::Borrowed),
            from: text(from),
            micros: match length {
                Cell::Integer(micros) if *micros > 0 => Some(*micros),
                _ => None,
            },
        };
        let line = u64::try_from(self.read).unwrap_or_default();
        Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row: Ok(visit.row()) }))
    }

    fn consumed(&self) -> u64 {
        if self.is_over {
            return self.bytes;
        }
        let share = i128::from(self.bytes) * i128::from(self.read);
        u64::try_from(share / i128::from(self.last.max(1))).unwrap_or(self.bytes).min(self.bytes)
    }
}

/// A visit of a page.
struct Visit {
    at: Option<String>,
    url: Option<String>,
    title: Option<String>,
    how: Option<Cow<'static, str>>,
    from: Option<String>,
    /// How long the page was open.
    micros: Option<i64>,
}

impl Visit {
    fn row(self) -> ImportRow {
        let named = [&self.url, &self.at].map(|text| text.as_deref().unwrap_or_default());
        let id = format!("sha256:{}", ContentHash::digest(named.join("\n").as_bytes()));
        let host = self.url.as_deref().and_then(host_of);
        let own = |text: Option<String>| text.map(FieldValue::Text);
        let seconds = self.micros.map(|micros| {
            let tenths = micros / 100_000;
            FieldValue::Number(format!("{}.{}", tenths / 10, tenths % 10).into())
        });
        let fields = [
            ("id", Some(FieldValue::Text(id))),
            ("at", own(self.at)),
            ("host", host.map(FieldValue::Text)),
            ("url", own(self.url)),
            ("title", own(self.title)),
            ("how", self.how.map(|how| FieldValue::Text(how.into_owned()))),
            ("from_url", own(self.from)),
            ("seconds", seconds),
        ];
        ImportRow::from_message(fields, Vec::new())
    }
}

/// Returns the name of the server in an address, in lower case and without a user and a port.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.split_once(']') {
        Some((address, _)) => format!("{address}]"),
        None => host.split(':').next()?.to_ascii_lowercase(),
    };
    Some(host).filter(|host| !host.is_empty())
}

fn of_takeout(visit: JsonObject) -> MappedRow {
    let at = visit.integer("time_usec").map(Instant).and_then(compact_time::written);
    let text = |name: &str| visit.text(name).map(str::to_owned);
    let how = text("page_transition").map(|how| match how.as_str() {
        "AUTO_BOOKMARK" => Cow::Borrowed("bookmark"),
        "FORM_SUBMIT" => Cow::Borrowed("form"),
        "AUTO_TOPLEVEL" => Cow::Borrowed("start"),
        "AUTO_SUBFRAME" | "MANUAL_SUBFRAME" => Cow::Borrowed("subframe"),
        other => Cow::Owned(other.to_ascii_lowercase()),
    });
    let visit = Visit { at, url: text("url"), title: text("title"), how, from: None, micros: None };
    Ok(Some(visit.row()))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use serde_json::{Value, json};

    use super::super::xml_elements::tests::rows_of;
    use super::*;
    use crate::importers::{IMPORTERS, recognise, unknown};
    use crate::report::BadRowPolicy;
    use crate::rig::{Rig, counts, recognised, rig};

    /// Makes a database in the folder of a rig, with this name and content.
    fn database(rig: &Rig, name: &str, sql: &str) -> std::path::PathBuf {
        let path = rig.write(name, "");
        let made = Connection::open(&path).unwrap();
        made.execute_batch(sql).unwrap();
        path
    }

    fn import(rig: &Rig, path: &std::path::Path) -> (u64, u64, u64, u64) {
        counts(&rig.import(&[recognised(path)], &[], BadRowPolicy::Skip, |_| ()).unwrap())
    }

    fn only(rig: &Rig) -> Value {
        let keys = rig.keys();
        assert_eq!(keys.len(), 1, "{keys:?}");
        rig.record(&keys[0])
    }

    const CHROME: &str =
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR,
        visit_count INTEGER, typed_count INTEGER, last_visit_time INTEGER, hidden INTEGER);
        CREATE TABLE visits (id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER,
        from_visit INTEGER, transition INTEGER, segment_id INTEGER, visit_duration INTEGER);
        INSERT INTO urls (id, url, title) VALUES (7, 'https://Birds.example:8080/h?q=1', 'Herons'),
        (8, 'https://a.example/', 'Start');";

    #[test]
    fn visits_of_chrome_have_times_since_1601() {
        let rig = rig();
        let sql = format!(
            "{CHROME} INSERT INTO visits VALUES (3, 8, 13412080200000000, 0, 805306368, 0, 0),
             (4, 7, 13412081472123456, 3, 838860801, 0, 2550000);"
        );
        let path = database(&rig, "History", &sql);
        assert_eq!(import(&rig, &path), (2, 0, 0, 0));
        assert_eq!(import(&rig, &path), (0, 0, 2, 0));
        let record = rig.record(&rig.keys()[1]);
        assert_eq!(
            record,
            json!({
                "id": record["id"], "at": "2026-01-05T10:11:12.123456Z",
                "url": "https://Birds.example:8080/h?q=1", "host": "birds.example",
                "title": "Herons", "how": "typed", "from_url": "https://a.example/",
                "seconds": 2.5,
            })
        );
        // The same visit in Google Takeout is the same record.
        let takeout = rig.write(
            "History.json",
            r#"{"Session": [], "Browser History": [{"page_transition": "TYPED", "title": "Herons",
            "url": "https://Birds.example:8080/h?q=1", "time_usec": 1767607872123456}]}"#,
        );
        let rows = rig.import(&[recognised(&takeout)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(counts(&rows), (0, 1, 0, 0));
    }

    #[test]
    fn visits_of_firefox_and_safari_have_their_times() {
        let rig = rig();
        let path = database(
            &rig,
            "copy of places",
            "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT, title TEXT);
             CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER,
             place_id INTEGER, visit_date INTEGER, visit_type INTEGER);
             INSERT INTO moz_places VALUES (1, 'https://f.example/', NULL);
             INSERT INTO moz_historyvisits VALUES (9, 0, 1, 1767607872123456, 3);",
        );
        assert_eq!(import(&rig, &path), (1, 0, 0, 0));
        let record = only(&rig);
        assert_eq!(
            (&record["at"], &record["how"], record.get("title")),
            (&json!("2026-01-05T10:11:12.123456Z"), &json!("bookmark"), None)
        );
        let rig = self::rig();
        let path = database(
            &rig,
            "History.db",
            "CREATE TABLE history_items (id INTEGER PRIMARY KEY, url TEXT);
             CREATE TABLE history_visits (id INTEGER PRIMARY KEY, history_item INTEGER,
             visit_time REAL, title TEXT, redirect_source INTEGER);
             INSERT INTO history_items VALUES (1, 'https://s.example/');
             INSERT INTO history_visits VALUES (1, 1, 789300672.5, 'S', NULL);",
        );
        assert_eq!(import(&rig, &path), (1, 0, 0, 0));
        let record = only(&rig);
        assert_eq!(
            (&record["at"], &record["title"], &record["host"]),
            (&json!("2026-01-05T10:11:12.500Z"), &json!("S"), &json!("s.example"))
        );
    }

    #[test]
    fn a_long_history_is_read_page_by_page_and_a_log_beside_it_is_said() {
        let rig = rig();
        let sql = format!(
            "{CHROME} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
             INSERT INTO visits SELECT i * 3, 7, 13412081472000000 + i, 0, 0, 0, 0 FROM n;"
        );
        let path = database(&rig, "History", &sql);
        rig.write("History-wal", "changes");
        let report = rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(counts(&report), (2500, 0, 0, 0));
        assert!(report.read_as.iter().any(|line| line.contains("`History-wal`")), "{report:?}");
    }

    #[test]
    fn another_database_is_none_and_is_described() {
        let rig = rig();
        let path = database(&rig, "x.db", "CREATE TABLE urls (url, title)");
        assert!(recognise(IMPORTERS, &path).unwrap().is_none());
        assert!(unknown::describe(&path).contains("sqlite3"), "{}", unknown::describe(&path));
        let torn = rig.write("places.sqlite", [MAGIC, &[7; 600]].concat());
        assert!(recognise(IMPORTERS, &torn).unwrap().is_none());
    }

    #[test]
    fn takeout_has_the_history_of_chrome_as_json() {
        let text = r#"{"Browser History": [{"favicon_url": "x", "page_transition": "LINK",
            "title": "Ferns", "url": "http://[::1]:80/f", "client_id": "c",
            "time_usec": 1767607872123456}], "Typed Url": []}"#;
        let rows = rows_of(&IMPORTER, "json", text);
        assert_eq!(
            (&rows[0]["host"], &rows[0]["how"], &rows[0]["at"]),
            (&json!("[::1]"), &json!("link"), &json!("2026-01-05T10:11:12.123456Z"))
        );
        assert_eq!(host_of("about:blank"), None);
        assert_eq!(host_of("https://ann:x@A.example?q").as_deref(), Some("a.example"));
    }
}
