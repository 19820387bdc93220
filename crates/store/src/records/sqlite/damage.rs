//! Tests of a full disk, a damaged file and another program's file: the errors, and that nothing is
//! lost or invented.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, TransactionBehavior};
use stile_domain::records::identifiers::RecordKey;
use stile_testkit::chance::{Chance, scaled, seed};

use super::tests::{Rig, incoming, indexed, message, messages, permits, rig};
use super::*;
use crate::records::{RecordQuery, Records, RecordsError, SortOrder};

fn fill(rig: &Rig, from: usize, count: usize) -> Result<(), Problem> {
    rig.records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        for number in from..from + count {
            let key = RecordKey::parse(&number.to_string()).unwrap();
            let fields = message("2026-01-01", &format!("{number} ").repeat(400));
            batch.upsert(&target, incoming(&key, &fields))?;
        }
        Ok(())
    })
}

/// Reads everything, and returns the number of records.
fn read_all(records: &Records) -> Result<usize, Problem> {
    records.read(&permits().1, Instant(1), |view| {
        let sources = view.sources_of("messages", None)?;
        let query = RecordQuery {
            order: SortOrder::Ascending,
            after: None,
            conditions: &[],
            limit: 10_000,
        };
        let page = view.list(&sources, query)?;
        for row in &page.rows {
            let loaded = view.load_fields(&sources, row)?;
            for entry in loaded.body().entries() {
                let entry = entry.map_err(|_| Problem::Corrupt)?;
                if let Some(long) = loaded.long_value(&entry) {
                    view.long_pieces(long, |_| Ok(true))?;
                }
            }
        }
        Ok(page.rows.len())
    })
}

#[test]
fn a_full_disk_refuses_the_batch_and_keeps_the_rest() {
    let rig = rig();
    fill(&rig, 0, 50).unwrap();
    {
        let writer = lock(&rig.sqlite().writer);
        let pages: i64 = writer.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        writer.pragma_update(None, "max_page_count", pages + 4).unwrap();
    }
    assert_eq!(fill(&rig, 50, 500), Err(Problem::Full));
    assert_eq!(read_all(&rig.records), Ok(50), "the batch is lost, and nothing else");
    {
        let writer = lock(&rig.sqlite().writer);
        writer.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    }
    fill(&rig, 50, 500).unwrap();
    assert_eq!(read_all(&rig.records), Ok(550), "with free space the batch succeeds");
    rig.records.check(&permits().0).unwrap();
}

#[test]
fn a_damaged_database_causes_errors_and_no_panic() {
    let whole = rig();
    fill(&whole, 0, 40).unwrap();
    let copy = whole.folder.path().join("copy.db");
    whole.records.backup(&permits().0, &copy).unwrap();
    let bytes = std::fs::read(&copy).unwrap();
    let mut chance = Chance::of(seed());
    let mut damaged = 0;
    for _ in 0..scaled(40, 2000) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let mut bytes = bytes.clone();
        match chance.below(3) {
            0 => bytes.truncate(chance.below(bytes.len())),
            1 => {
                let at = chance.below(bytes.len());
                bytes[at] ^= 1 << chance.below(8);
            }
            _ => {
                let (at, end) = (chance.below(bytes.len()), bytes.len());
                bytes[at..(at + 5000).min(end)].fill(chance.below(256) as u8);
            }
        }
        std::fs::write(folder.path().join(NAME), &bytes).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| match Records::open(&state, Instant(0)) {
            Err(error) => {
                assert!(
                    matches!(error, RecordsError::Damaged { .. } | RecordsError::Newer { .. }),
                    "{error}"
                );
                false
            }
            // Some damage hits unused bytes.
            Ok(records) => match read_all(&records) {
                Ok(_) => true,
                Err(problem) => {
                    let expected = matches!(
                        problem,
                        Problem::Corrupt
                            | Problem::StreamNotFound { .. }
                            | Problem::Internal { .. }
                    );
                    assert!(expected, "{problem:?}");
                    false
                }
            },
        }));
        damaged += usize::from(!outcome.expect("no panic"));
    }
    assert!(damaged > 0, "some damage was noticed");
}

#[test]
fn another_programs_database_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let path = folder.path().join(NAME);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Records::open(&state, Instant(0)).map(drop).unwrap_err();
    assert!(matches!(error, RecordsError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    drop(Records::open(&state, Instant(0)).unwrap());
    let path = folder.path().join(NAME);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let error = Records::open(&state, Instant(0)).map(drop).unwrap_err();
    assert!(error.to_string().contains("newer stile"), "{error}");
}

#[test]
fn a_backup_during_writes_has_one_moment() {
    let rig = rig();
    fill(&rig, 0, 10).unwrap();
    let copies = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..20).for_each(|batch| fill(&rig, batch * 10, 10).unwrap()));
        for number in 0..5 {
            rig.records.backup(&permits().0, &copies.path().join(number.to_string())).unwrap();
        }
    });
    for number in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(copies.path().join(number.to_string()), folder.path().join(NAME)).unwrap();
        let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
        records.check(&permits().0).unwrap();
        assert_eq!(read_all(&records).unwrap() % 10, 0, "whole batches");
    }
    let again = rig.records.backup(&permits().0, &copies.path().join("0"));
    assert!(again.is_err(), "a backup overwrites nothing");
}

#[test]
fn who_opens_the_records_does_not_wait_for_an_import() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    drop(Records::open(&state, Instant(0)).unwrap());
    let mut import = Connection::open(state.path().join(NAME)).unwrap();
    let writes = import.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let records = Records::open(&state, Instant(0)).unwrap();
    records.read(&permits().1, Instant(0), |view| view.seal(b"x")).unwrap();
    drop(writes);
}

#[test]
fn many_first_runs_at_once_make_one_database() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let seals: Vec<String> = std::thread::scope(|scope| {
        let opened: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Records::open(&state, Instant(0)).unwrap())).collect();
        let opened: Vec<Records> =
            opened.into_iter().map(|opened| opened.join().unwrap()).collect();
        let sealed: Vec<String> = opened
            .iter()
            .map(|records| records.read(&permits().1, Instant(0), |view| view.seal(b"x")).unwrap())
            .collect();
        for records in &opened {
            for text in &sealed {
                records.read(&permits().1, Instant(0), |view| view.unseal(text)).unwrap();
            }
        }
        sealed
    });
    assert_eq!(seals.len(), 8);
}
