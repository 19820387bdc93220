//! Tests of storing, listing and reading records, on a real database.

use std::io::{Cursor, Read};

use rusqlite::Connection;
use stile_domain::permit::Principal;
use stile_domain::records::authority::{OwnerPermit, RecordsClaim, RecordsPermit};
use stile_domain::records::grant::{Grant, StatedTerms, StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::key_history::ChangeRange;

use super::*;
use crate::records::engine::Engine;
use crate::records::model::*;
use crate::records::tagged_tokens::tag_prefix;
use crate::records::write::WriteBatch;
use crate::records::{RecordQuery, Records, RecordsView};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;

pub(in crate::records) struct Rig {
    pub(in crate::records) folder: tempfile::TempDir,
    pub(in crate::records) records: Records,
}

pub(in crate::records) fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
    Rig { folder, records }
}

#[expect(clippy::disallowed_methods, reason = "a test is its own owner")]
pub(in crate::records) fn permits() -> (OwnerPermit, RecordsPermit) {
    let owner = Principal::assert_verified("ann", None, None, Scopes::none(), RecordsClaim::Owner);
    (owner.gate().owner().unwrap(), owner.gate().records().unwrap())
}

pub(in crate::records) fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

pub(in crate::records) fn indexed() -> IndexedFields {
    IndexedFields {
        cursor_field: Some("at".to_owned()),
        cursor_is_time: true,
        time_field: Some("at".to_owned()),
        searchable: ["text".to_owned()].into(),
        ..IndexedFields::default()
    }
}

pub(in crate::records) fn message(at: &str, text: &str) -> RecordFields {
    vec![
        ("at".to_owned(), FieldValue::Text(at.to_owned())),
        ("text".to_owned(), FieldValue::Text(text.to_owned())),
    ]
}

/// Returns the stream `messages` of the connection `mail`, after declaring it if needed.
pub(in crate::records) fn messages(
    batch: &mut WriteBatch<'_>,
    indexed: &IndexedFields,
) -> Result<TargetStream, Problem> {
    let (mail, messages) = (name("mail"), name("messages"));
    match batch.target(&mail, &messages)? {
        Some(target) => Ok(target),
        None => batch.declare(&mail, &messages, "{}", indexed),
    }
}

/// A record whose fields are all in memory.
pub(in crate::records) fn incoming<'a>(
    key: &'a RecordKey,
    fields: &'a RecordFields,
) -> IncomingRecord<'a> {
    IncomingRecord { key, emitted: Instant(7), fields, streamed: Vec::new() }
}

impl Rig {
    pub(in crate::records) fn sqlite(&self) -> &Sqlite {
        match self.records.engine() {
            Engine::Sqlite(sqlite) => sqlite,
            Engine::Postgresql(_) => panic!("the rig has a database of SQLite"),
        }
    }

    fn upsert(&self, key: &str, fields: &RecordFields) -> UpsertOutcome {
        self.store(incoming(&RecordKey::parse(key).unwrap(), fields))
    }

    /// Stores a record whose field `text` is streamed.
    fn upsert_streamed(
        &self,
        key: &str,
        fields: &RecordFields,
        text: &mut dyn TextSource,
    ) -> UpsertOutcome {
        let streamed = vec![StreamedField { name: "text", text }];
        self.store(IncomingRecord { streamed, ..incoming(&RecordKey::parse(key).unwrap(), fields) })
    }

    fn store(&self, record: IncomingRecord<'_>) -> UpsertOutcome {
        let stored = self.records.write(&permits().0, |batch| {
            let target = messages(batch, &indexed())?;
            batch.upsert(&target, record)
        });
        stored.unwrap()
    }

    /// Grants the field `text` of all messages within these times. Returns a client's permit.
    #[expect(clippy::disallowed_methods, reason = "a test is its own client")]
    pub(in crate::records) fn client(&self, time: Option<TimeConstraint>) -> RecordsPermit {
        let granted = StreamGrant {
            stream: name("messages"),
            connections: [name("mail")].into(),
            fields: ["text".to_owned()].into(),
            time,
            keys: None,
        };
        let grant = Grant {
            client: "c".to_owned(),
            purpose: None,
            issued: Instant(0),
            expires: None,
            single_use: false,
            stated: StatedTerms::default(),
            streams: vec![granted],
        };
        let id = self.records.grant(&permits().0, &grant).unwrap().unwrap();
        let claim = RecordsClaim::Grant(id.as_str().into());
        let client = Principal::assert_verified("ann", Some("t"), None, Scopes::none(), claim);
        client.gate().records().unwrap()
    }

    /// Counts the rows of a table.
    pub(in crate::records) fn count(&self, table: &str) -> i64 {
        let connection = Connection::open(self.folder.path().join(NAME)).unwrap();
        let count = format!("SELECT count(*) FROM {table}");
        connection.query_row(&count, [], |row| row.get(0)).unwrap()
    }

    fn read<T>(&self, read: impl FnOnce(&RecordsView<'_>) -> Result<T, Problem>) -> T {
        self.records.read(&permits().1, Instant(1), read).unwrap()
    }

    fn keys(&self, order: SortOrder) -> Vec<String> {
        self.read(|view| {
            let sources = view.sources_of("messages", None)?;
            let mut keys = Vec::new();
            let mut after = None;
            loop {
                let query = RecordQuery { order, after: after.as_ref(), conditions: &[], limit: 2 };
                let page = view.list(&sources, query)?;
                keys.extend(page.rows.iter().map(|row| row.key.clone()));
                if !page.has_more {
                    return Ok(keys);
                }
                after = page.rows.last().and_then(|row| view.position_of(&sources, row));
            }
        })
    }

    fn matches(&self, tokens: &str) -> Vec<i64> {
        let connection = Connection::open(self.folder.path().join(NAME)).unwrap();
        let mut query = connection
            .prepare("SELECT rowid FROM tokens WHERE tokens MATCH ?1 ORDER BY rowid")
            .unwrap();
        query.query_map([tokens], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }
}

#[test]
fn storing_a_record_adds_changes_or_leaves_it() {
    let rig = rig();
    let long = "grüße 👩‍👧 ".repeat(3000);
    assert_eq!(rig.upsert("a", &message("2026-01-01", &long)), UpsertOutcome::Added);
    assert_eq!(rig.upsert("a", &message("2026-01-01", &long)), UpsertOutcome::Unchanged);
    assert_eq!(rig.upsert("a", &message("2026-01-02", &long)), UpsertOutcome::Changed);
    let window = rig.read(|view| {
        let sources = view.sources_of("messages", None)?;
        let row = view.find_by_key(&sources, "a")?.remove(0);
        let loaded = view.load_fields(&sources, &row)?;
        let entry = loaded.body().field("text").unwrap().unwrap();
        let value = loaded.long_value(&entry).unwrap();
        assert_eq!(value.value.chars, long.chars().count() as u64);
        view.long_text(value, 8190, 8200)
    });
    assert_eq!(window, long.chars().skip(8190).take(10).collect::<String>());
    assert_eq!(rig.upsert("a", &message("2026-01-02", "short")), UpsertOutcome::Changed);
    assert_eq!(rig.count("pieces"), 0, "no piece of the old text remains");
}

#[test]
fn lists_are_ordered_by_time_then_key_with_undated_records_last() {
    let rig = rig();
    for (key, at) in [
        ("c", "2026-01-02"),
        ("b", "2026-01-02T00:00:00Z"),
        ("a", "2026-01-01"),
        ("z", "soon"),
        ("y", ""),
    ] {
        rig.upsert(key, &message(at, "x"));
    }
    rig.upsert("x", &vec![]);
    assert_eq!(rig.keys(SortOrder::Ascending), ["a", "b", "c", "z", "x", "y"]);
    assert_eq!(rig.keys(SortOrder::Descending), ["z", "c", "b", "a", "y", "x"]);
}

#[test]
fn the_index_has_the_tokens_of_the_stored_text() {
    let rig = rig();
    rig.upsert("a", &message("2026-01-01", "Hello wide world"));
    let tagged = |token: &str| format!("\"{}{token}\"", tag_prefix(1));
    let phrase = format!("\"{0}hello {0}wide\"", tag_prefix(1));
    assert_eq!(rig.matches(&phrase), [pieces_number(1, 0)]);
    rig.upsert("a", &message("2026-01-01", "Goodbye"));
    assert!(rig.matches(&tagged("hello")).is_empty());
    assert_eq!(rig.matches(&tagged("goodbye")), [pieces_number(1, 0)]);
    let text = format!("{} hello wide {}", "x ".repeat(4093), "y ".repeat(5000));
    rig.upsert("a", &message("2026-01-01", &text));
    assert_eq!(
        rig.matches(&phrase).len(),
        1,
        "the row of a piece has a phrase that ends in the next piece"
    );
    assert_eq!(rig.matches(&tagged("goodbye")), Vec::<i64>::new());
    let deleted = rig.records.write(&permits().0, |batch| {
        let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
        batch.delete(&target, "a")
    });
    assert!(deleted.unwrap());
    assert!(rig.matches(&tagged("x")).is_empty());
    let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
    connection.execute("INSERT INTO tokens (tokens) VALUES ('integrity-check')", []).unwrap();
}

fn pieces_number(record: i64, slot: u16) -> i64 {
    stile_domain::records::pieces::number(record, slot, 0).unwrap()
}

/// A text that each read returns seven bytes of.
struct SevenBytes(Vec<u8>);

impl TextSource for SevenBytes {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        struct Dribble<'a>(Cursor<&'a [u8]>);
        impl Read for Dribble<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let few = buffer.len().min(7);
                self.0.read(&mut buffer[..few])
            }
        }
        Ok(Box::new(Dribble(Cursor::new(&self.0))))
    }
}

#[test]
fn a_streamed_text_is_stored_like_a_text_in_memory() {
    let rig = rig();
    let text = "中文 and emoji 👩‍👧 and\r\nlines\u{0} ".repeat(1200);
    rig.upsert("memory", &message("2026-01-01", &text));
    let fields = vec![("at".to_owned(), FieldValue::Text("2026-01-01".to_owned()))];
    let store = |bytes: Vec<u8>| rig.upsert_streamed("source", &fields, &mut SevenBytes(bytes));
    assert_eq!(store(text.clone().into_bytes()), UpsertOutcome::Added);
    assert_eq!(store(text.clone().into_bytes()), UpsertOutcome::Unchanged);
    assert_eq!(store(b"abc\xff".to_vec()), UpsertOutcome::Refused(WriteRefusal::NotUtf8));
    let read = |key: &str| {
        rig.read(|view| {
            let sources = view.sources_of("messages", None)?;
            let row = view.find_by_key(&sources, key)?.remove(0);
            let loaded = view.load_fields(&sources, &row)?;
            let value = loaded.long_value(&loaded.body().field("text").unwrap().unwrap()).unwrap();
            let mut all = String::new();
            view.long_pieces(value, |piece| {
                all.push_str(piece);
                Ok(true)
            })?;
            Ok((all, value.value))
        })
    };
    assert_eq!(read("memory"), read("source"));
    assert_eq!(read("source").0, text);
}

#[test]
fn a_record_without_fields_can_change() {
    let rig = rig();
    assert_eq!(rig.upsert("a", &vec![]), UpsertOutcome::Added);
    assert_eq!(rig.upsert("a", &vec![]), UpsertOutcome::Unchanged);
    assert_eq!(rig.upsert("a", &message("2026-01-01", "now")), UpsertOutcome::Changed);
    assert_eq!(rig.upsert("a", &message("2026-01-01", "now")), UpsertOutcome::Unchanged);
}

/// A text that differs each time it is opened.
struct Fickle(u8);

impl TextSource for Fickle {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        self.0 += 1;
        Ok(Box::new(Cursor::new(vec![b'a' + self.0; 100_000])))
    }
}

#[test]
fn a_streamed_text_that_changes_between_reads_leaves_the_record_unchanged() {
    let rig = rig();
    let before = message("2026-01-01", &"words ".repeat(2000));
    rig.upsert("a", &before);
    for key in ["a", "new"] {
        let stored = rig.upsert_streamed(key, &vec![], &mut Fickle(0));
        assert_eq!(stored, UpsertOutcome::Refused(WriteRefusal::Unreadable));
    }
    assert_eq!(rig.keys(SortOrder::Ascending), ["a"]);
    assert_eq!(rig.upsert("a", &before), UpsertOutcome::Unchanged);
    let hits = rig.matches(&format!("\"{}words\"", tag_prefix(1)));
    assert_eq!(hits.len(), 2, "the index still has both pieces");
}

#[test]
fn a_streamed_text_takes_the_position_of_its_field() {
    let rig = rig();
    let long = "words ".repeat(2000);
    let mut fields = message("2026-01-01", &long);
    fields.reverse();
    rig.upsert("a", &fields);
    fields[0].1 = FieldValue::Null;
    let stored = rig.upsert_streamed("a", &fields, &mut SevenBytes(long.into_bytes()));
    assert_eq!(stored, UpsertOutcome::Unchanged);
}

#[test]
fn a_backup_is_a_complete_database() {
    let rig = rig();
    rig.upsert("a", &message("2026-01-01", &"words ".repeat(2000)));
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join(NAME);
    rig.records.backup(&permits().0, &copy).unwrap();
    assert!(
        matches!(rig.records.backup(&permits().0, &copy), Err(RecordsError::Io { .. })),
        "a backup never overwrites a file"
    );
    rig.upsert("b", &message("2026-01-02", "later"));
    let records = Records::open(&StateDir::open(other.path()).unwrap(), Instant(0)).unwrap();
    let copied = Rig { folder: other, records };
    assert_eq!(copied.keys(SortOrder::Ascending), ["a"]);
    assert_eq!(
        copied.upsert("a", &message("2026-01-01", &"words ".repeat(2000))),
        UpsertOutcome::Unchanged
    );
    copied.records.check(&permits().0).unwrap();
}

#[test]
fn a_clock_that_jumps_expires_sync_tokens_instead_of_losing_changes() {
    const DAY: i64 = 86_400 * 1_000_000;
    let rig = rig();
    let write = |now: i64, text: &str| {
        let done = rig.records.write_at(&permits().0, Instant(now), |batch| {
            let target = messages(batch, &indexed())?;
            let (key, fields) = (RecordKey::parse("k").unwrap(), message("2026-01-01", text));
            batch.upsert(&target, incoming(&key, &fields))
        });
        done.unwrap();
    };
    let sync_point =
        |now| rig.records.read(&permits().1, Instant(now), |view| view.sync_point()).unwrap();
    let is_expired = |now, since| {
        let read = rig.records.read(&permits().1, Instant(now), |view| {
            view.is_expired(&ChangeRange { since, until: view.sync_point()? })
        });
        read.unwrap()
    };
    write(100 * DAY, "one");
    let token = sync_point(100 * DAY);
    write(100 * DAY + 1, "two");
    assert!(!is_expired(101 * DAY, token));
    let ahead = sync_point(150 * DAY);
    assert!(
        is_expired(101 * DAY, ahead) && !is_expired(149 * DAY, ahead),
        "a token from the future"
    );
    // The log loses the lines since the token, and the clock is set back.
    write(150 * DAY, "three");
    assert!(is_expired(101 * DAY, token), "before anything is written");
    write(101 * DAY, "four");
    assert!(is_expired(102 * DAY, token), "and after");
    let fresh = sync_point(102 * DAY);
    write(102 * DAY, "five");
    assert!(!is_expired(103 * DAY, fresh), "a new session continues");
    // The clock is set back by hours.
    write(102 * DAY - DAY / 2, "six");
    assert!(!is_expired(102 * DAY, fresh));
}

/// The cache, the log and the synchronisation of the writer.
fn writer_settings(rig: &Rig) -> [i64; 3] {
    let writer = lock(&rig.sqlite().writer);
    ["cache_size", "wal_autocheckpoint", "synchronous"]
        .map(|name| writer.pragma_query_value(None, name, |row| row.get(0)).unwrap())
}

/// The bytes of tokens that SQLite gathers in memory.
fn gathered_tokens(rig: &Rig) -> i64 {
    let text = "SELECT v FROM tokens_config WHERE k = 'hashsize'";
    lock(&rig.sqlite().writer).query_row(text, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_bulk_load_has_more_memory_until_it_ends_and_stays_durable() {
    let rig = rig();
    let usual = writer_settings(&rig);
    assert_eq!(gathered_tokens(&rig), TOKENS);
    assert_eq!(usual, [-WRITER_CACHE, LOG_PAGES, 2]);
    let load = rig.records.bulk_load(&permits().0).unwrap();
    assert_eq!(writer_settings(&rig), [-BULK_CACHE, BULK_LOG_PAGES, 2]);
    assert_eq!(gathered_tokens(&rig), BULK_TOKENS);
    rig.upsert("during", &message("2026-01-01", "ferns"));
    drop(load);
    assert_eq!((writer_settings(&rig), gathered_tokens(&rig)), (usual, TOKENS));
    rig.upsert("after", &message("2026-01-01", "ferns"));
    assert_eq!(rig.keys(SortOrder::Ascending), ["after", "during"]);
}

/// The settings with which SQLite promises that a commit survives a power cut.
#[test]
fn every_commit_is_synced_before_it_is_acknowledged() {
    let rig = rig();
    let writer = lock(&rig.sqlite().writer);
    let mode: String = writer.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    let full: i32 = writer.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!((mode.as_str(), full), ("wal", 2));
    // A connection that reads never writes.
    let reader = open_to_read(&rig.sqlite().path).unwrap();
    assert!(reader.execute("DELETE FROM history", []).is_err());
}

#[test]
fn what_reveals_hidden_records_is_refused_to_a_client() {
    let rig = rig();
    rig.upsert("a", &message("2026-01-01", "one"));
    let client = rig.client(None);
    let in_order = |view: &RecordsView<'_>| {
        view.in_ingest_order(&view.sources_of("messages", None)?, None, 9).map(drop)
    };
    let blobs = |view: &RecordsView<'_>| {
        let found = view.find_by_key(&view.sources_of("messages", None)?, "a")?;
        view.blobs_of(&found[0]).map(drop)
    };
    rig.records.read(&permits().1, Instant(1), in_order).unwrap();
    rig.records.read(&permits().1, Instant(1), blobs).unwrap();
    for refused in [
        rig.records.read(&client, Instant(1), in_order),
        rig.records.read(&client, Instant(1), blobs),
    ] {
        assert!(matches!(refused, Err(Problem::InsufficientScope { .. })), "{refused:?}");
    }
}

#[test]
fn a_list_cursor_is_stale_once_texts_are_ordered_as_times() {
    let rig = rig();
    for (from, to) in [(true, false), (false, true), (true, true)] {
        let declare = |cursor_is_time: bool| {
            let indexed = IndexedFields { cursor_is_time, ..indexed() };
            let declared = rig.records.write(&permits().0, |batch| {
                let target = messages(batch, &indexed)?;
                batch.redeclare(&target, "{}", &indexed).map(drop)
            });
            declared.unwrap();
        };
        declare(from);
        for key in ["a", "b"] {
            rig.upsert(key, &message("2026-01-01", "one"));
        }
        let query =
            |after| RecordQuery { order: SortOrder::Ascending, conditions: &[], after, limit: 1 };
        let cursor = rig.read(|view| {
            let sources = view.sources_of("messages", None)?;
            let page = view.list(&sources, query(None))?;
            Ok(view.position_of(&sources, &page.rows[0]).unwrap())
        });
        declare(to);
        let next = rig.records.read(&permits().1, Instant(1), |view| {
            view.list(&view.sources_of("messages", None)?, query(Some(&cursor)))
        });
        let keys = next.map(|page| page.rows.into_iter().map(|row| row.key).collect::<Vec<_>>());
        let expected = match from == to {
            true => Ok(vec!["b".to_owned()]),
            false => Err(Problem::InvalidCursor(CursorProblem::Stale)),
        };
        assert_eq!(keys, expected, "{from} {to}");
    }
}

#[test]
fn a_client_learns_nothing_of_the_end_of_a_record_outside_its_times() {
    let rig = rig();
    let time = |text: &str| Instant::parse(text);
    let (since, until) = (time("2026-01-01"), time("2026-02-01"));
    let client = rig.client(Some(TimeConstraint::new("at".to_owned(), since, until)));
    let days = ["2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01", "2026-02-02"];
    for day in days {
        rig.upsert(day, &message(day, "text"));
    }
    let since = rig.read(|view| view.sync_point());
    let removed = rig.records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        days.iter().try_for_each(|day| batch.delete(&target, day).map(drop))
    });
    removed.unwrap();
    let ended = rig.records.read(&client, Instant(1), |view| {
        let session = ChangeRange { since, until: view.sync_point()? };
        let sources = view.sources_of("messages", None)?;
        let (changes, _) = view.changes(&sources, &session, None, 9)?;
        Ok(changes.iter().map(|change| change.source_and_key().1.to_owned()).collect::<Vec<_>>())
    });
    // The beginning of the times is within them, and their end is not.
    assert_eq!(ended.unwrap(), ["2026-01-01", "2026-01-31"]);
}

#[test]
fn the_number_of_records_of_a_stream_is_kept_and_not_counted() {
    let rig = rig();
    let counts = || {
        rig.read(|view| {
            let sources = view.sources_of("messages", None)?;
            Ok(view.counts(&sources)?[0])
        })
    };
    let counted = || {
        let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
        let text = "SELECT count(*), max(emitted) FROM records";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
        let (count, latest): (i64, _) = connection.query_row(text, [], row).unwrap();
        (count as u64, latest.map(Instant))
    };
    let store = |key: &str, emitted: i64, text: &str| {
        let (key, fields) = (RecordKey::parse(key).unwrap(), message("2026-01-01", text));
        rig.store(IncomingRecord { emitted: Instant(emitted), ..incoming(&key, &fields) })
    };
    for (key, emitted, text) in [("a", 5, "x"), ("b", 9, "x"), ("c", 7, "x"), ("b", 11, "y")] {
        store(key, emitted, text);
        assert_eq!(counts(), counted(), "{key}");
    }
    for key in ["b", "a", "a", "c"] {
        let deleted = rig.records.write_at(&permits().0, Instant(12), |batch| {
            let target = messages(batch, &indexed())?;
            batch.delete(&target, key)
        });
        deleted.unwrap();
        assert_eq!(counts(), counted(), "without {key}");
    }
    store("d", 13, "z");
    // The answer comes from the kept row, and the latest record from the end of an index.
    let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
    connection.execute("UPDATE field_indexes SET tail = tail + 1000", []).unwrap();
    assert_eq!(counts(), (1001, Some(Instant(13))));
    let plan = "EXPLAIN QUERY PLAN SELECT max(emitted) FROM records WHERE stream = 1";
    let plan: String = connection.query_row(plan, [], |row| row.get(3)).unwrap();
    assert!(plan.contains("COVERING INDEX records_by_ingest (stream=?)"), "{plan}");
}
