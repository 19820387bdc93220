//! Tests of the index by value, on both engines: after any writes it names the records that have
//! each value, and answers are those of a naive filter.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;
use stile_domain::records::declaration::{Declaration, RangeOperator};
use stile_domain::records::filter::{Condition, FieldTest, RangeBound, all_hold};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::records::value_key::{KeyRange, each_key, value_fields};
use stile_testkit::chance::{Chance, scaled, seed};
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::field_index::RUN_RECORDS;
use super::model::RecordSource;
use super::sqlite::tests::{incoming, name, permits};
use super::{RecordPreparer, RecordQuery, Records, SortOrder, WriteBatch};
use crate::postgresql::Database;
use crate::state::StateDir;

const STREAMS: [&str; 2] = ["one", "two"];
const KEYS: usize = 40;

/// A database with a folder, and on PostgreSQL with a server.
struct Store {
    records: Records,
    _folder: tempfile::TempDir,
    _hosted: Option<(TestDatabase, Database)>,
}

fn stores(test: &str) -> Vec<Store> {
    let on_server = PostgresServer::shared(test).map(|server| server.database());
    opened(tempfile::tempdir().unwrap(), on_server)
}

fn opened(folder: tempfile::TempDir, on_server: Option<TestDatabase>) -> Vec<Store> {
    let on_server = on_server.map(|database| {
        let opened = Database::open(&database.address()).unwrap();
        (tempfile::tempdir().unwrap(), Some((database, opened)))
    });
    let store = |(folder, hosted): (tempfile::TempDir, Option<(TestDatabase, Database)>)| {
        let state = StateDir::open(folder.path()).unwrap();
        let records = match &hosted {
            None => Records::open(&state, Instant(0)).unwrap(),
            Some((_, database)) => {
                let tenant = database.sole_tenant().unwrap();
                Records::open_at(&state, database, &tenant, Instant(0)).unwrap()
            }
        };
        Store { records, _folder: folder, _hosted: hosted }
    };
    std::iter::once((folder, None)).chain(on_server).map(store).collect()
}

fn declaration(filtered: &[&str]) -> String {
    json!({
        "schema": { "type": "object", "properties": {
            "id": { "type": "string" },
            "at": { "type": "string", "format": "date-time" },
            "word": { "type": ["string", "null"] },
            "n": { "type": ["number", "boolean", "null"] },
        } },
        "primary_key": ["id"],
        "cursor_field": "at",
        "query": { "exact_filters": filtered, "range_filters": {} },
    })
    .to_string()
}

fn indexed() -> IndexedFields {
    IndexedFields {
        cursor_field: Some("at".to_owned()),
        cursor_is_time: true,
        ..IndexedFields::default()
    }
}

fn fields(chance: &mut Chance) -> RecordFields {
    let text = |text: String| FieldValue::Text(text);
    let mut fields = RecordFields::new();
    if chance.happens(90) {
        fields.push(("at".to_owned(), text(format!("2026-01-{:02}", 1 + chance.below(28)))));
    }
    let word = match chance.below(5) {
        0 => FieldValue::Null,
        1 => FieldValue::Json("[1]".to_owned()),
        2 => text(format!("{} long word ", chance.below(3)).repeat(200)),
        _ => text(format!("word {}", chance.below(6))),
    };
    fields.push(("word".to_owned(), word));
    let number = match chance.below(4) {
        0 => FieldValue::Bool(chance.happens(50)),
        1 => FieldValue::Number(format!("{}.50", chance.below(5)).into()),
        _ => FieldValue::Number(chance.below(9).to_string().into()),
    };
    if chance.happens(80) {
        fields.push(("n".to_owned(), number));
    }
    fields
}

/// Writes at random: new records, changed ones, removed ones, and other declarations.
fn write(
    records: &Records,
    preparers: &mut HashMap<&str, RecordPreparer>,
    chance: &mut Chance,
) -> Result<(), Problem> {
    records.write(&permits().0, |batch| {
        for _ in 0..=chance.below(4) {
            let stream = STREAMS[chance.below(STREAMS.len())];
            let target = match batch.target(&name("c"), &name(stream))? {
                Some(target) => target,
                None => {
                    let all = declaration(&["id", "at", "word", "n"]);
                    batch.declare(&name("c"), &name(stream), &all, &indexed())?
                }
            };
            for _ in 0..chance.below(12) {
                let key = format!("k{}", chance.below(KEYS));
                if chance.happens(25) {
                    batch.delete(&target, &key)?;
                } else {
                    let (key, fields) = (RecordKey::parse(&key).unwrap(), fields(chance));
                    // Some are prepared, and some of these for an earlier declaration.
                    let preparer = match preparers.get(stream) {
                        Some(older) if chance.happens(30) => older.clone(),
                        _ => records.preparer(&target),
                    };
                    let prepared = preparer.prepare(&fields).filter(|_| chance.happens(60));
                    preparers.insert(stream, preparer);
                    match prepared {
                        Some(mut prepared) => batch.upsert_prepared(
                            &target,
                            &mut prepared,
                            incoming(&key, &fields),
                        )?,
                        None => batch.upsert(&target, incoming(&key, &fields))?,
                    };
                }
            }
            if chance.happens(8) {
                let all = ["id", "at", "word", "n"];
                let some: Vec<&str> = all.into_iter().filter(|_| chance.happens(60)).collect();
                batch.redeclare(&target, &declaration(&some), &indexed())?;
            }
            if chance.happens(4)
                && let Some(last) = batch.last_record(&target)?
            {
                batch.remove_up_to(&target, last)?;
            }
        }
        // A transaction that fails leaves no trace, and its index neither.
        if chance.happens(15) { Err(Problem::Full) } else { Ok(()) }
    })
}

fn sources(records: &Records) -> Vec<RecordSource> {
    records.read(&permits().1, Instant(1), |view| view.sources()).unwrap()
}

/// Returns the numbers, keys and bodies of all records of a source.
fn all_records(records: &Records, source: &RecordSource) -> Vec<(i64, String, Vec<u8>)> {
    let read = records.engine().read(|snapshot, _| {
        let rows = snapshot.in_ingest_order(std::slice::from_ref(source), 0, usize::MAX)?;
        rows.into_iter()
            .map(|row| Ok((row.number, row.key, snapshot.granted_body(source, row.number)?)))
            .collect()
    });
    read.unwrap()
}

/// Checks that the index has the keys of the covered records, and no others.
fn check_index(records: &Records, source: &RecordSource) -> usize {
    let all = all_records(records, source);
    let read = records.engine().read(|snapshot, _| {
        let Some(found) = snapshot.field_runs(source.id)? else {
            assert!(all.is_empty());
            return Ok(0);
        };
        let json = serde_json::from_str(source.declaration()).unwrap();
        let fields = value_fields(&Declaration::parse(&json).unwrap());
        assert_eq!(found.index.fields.as_deref(), Some(fields.as_slice()));
        let (covered, tail): (Vec<_>, Vec<_>) =
            all.iter().partition(|(number, ..)| *number <= found.index.covered);
        let counts = (found.index.indexed, found.index.tail);
        assert_eq!(counts, (covered.len() as i64, tail.len() as i64));
        for (field, position) in fields.iter().zip(0..) {
            let mut expected = Vec::new();
            for (number, _, body) in &covered {
                let entry = RecordBody::new(body).field(field).unwrap();
                let mut keys = Vec::new();
                if let Some(entry) = entry {
                    each_key(entry.value, &mut |key| keys.push(key));
                    expected.push(*number);
                }
                for key in keys {
                    let key = key.as_bytes().to_vec();
                    let one = [KeyRange { first: key.clone(), last: key }];
                    let named =
                        snapshot.records_with_values(&found.runs, position, &one, usize::MAX)?;
                    assert!(named.unwrap().contains(number), "{field} of {number}");
                }
            }
            let whole = [KeyRange { first: vec![], last: vec![u8::MAX] }];
            let named = snapshot.records_with_values(&found.runs, position, &whole, usize::MAX)?;
            let mut named = named.unwrap();
            named.sort_unstable();
            named.dedup();
            assert_eq!(named, expected, "{field}");
        }
        Ok(covered.len())
    });
    read.unwrap()
}

fn conditions(chance: &mut Chance) -> Vec<Condition> {
    let one = |chance: &mut Chance| {
        let number = chance.below(9).to_string();
        let (field, test) = match chance.below(6) {
            0 => ("word", FieldTest::Is(format!("word {}", chance.below(9)))),
            1 => ("word", FieldTest::Exists(chance.happens(50))),
            2 => ("n", FieldTest::Is(number)),
            3 => ("n", FieldTest::RefersToAny([number, "true".to_owned()].into())),
            4 => {
                let operator = RangeOperator::ALL[chance.below(4)];
                ("n", FieldTest::Range(operator, RangeBound::Number(number)))
            }
            _ => {
                let operator = RangeOperator::ALL[chance.below(4)];
                let day = format!("2026-01-{:02}", 1 + chance.below(28));
                let bound = RangeBound::Time(Instant::parse(&day).unwrap());
                ("at", FieldTest::Range(operator, bound))
            }
        };
        Condition::on(field, test)
    };
    (0..=chance.below(3)).map(|_| one(chance)).collect()
}

/// Checks that the pages of a list and a count are those of a naive filter.
fn check_answers(records: &Records, chance: &mut Chance, sources: &[RecordSource]) {
    let conditions = conditions(chance);
    let mut expected = BTreeSet::new();
    for source in sources {
        for (_, key, body) in all_records(records, source) {
            if all_hold(&conditions, RecordBody::new(&body)).unwrap() {
                expected.insert((source.stream.as_str().to_owned(), key));
            }
        }
    }
    let order = if chance.happens(50) { SortOrder::Ascending } else { SortOrder::Descending };
    let limit = 1 + chance.below(4);
    let read = records.read(&permits().1, Instant(1), |view| {
        assert_eq!(view.count_matching(sources, &conditions)?, expected.len() as u64);
        let whole = RecordQuery { order, after: None, conditions: &[], limit: 10_000 };
        let in_order = view.list(sources, whole)?.rows;
        let place = |row: &super::RecordRow| {
            (sources[row.source].stream.as_str().to_owned(), row.key.clone())
        };
        let expected: Vec<_> =
            in_order.iter().map(place).filter(|place| expected.contains(place)).collect();
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let query =
                RecordQuery { order, after: after.as_ref(), conditions: &conditions, limit };
            let page = view.list(sources, query)?;
            listed.extend(page.rows.iter().map(place));
            after = page.rows.last().and_then(|row| view.position_of(sources, row));
            if !page.has_more {
                break;
            }
        }
        assert_eq!(listed, expected, "{conditions:?}");
        let mut seen = 0;
        for source in sources {
            view.field_values(source, &conditions, &["n"], &mut |_| {
                seen += 1;
                Ok(true)
            })?;
        }
        assert_eq!(seen, expected.len());
        Ok(())
    });
    read.unwrap();
}

#[test]
fn after_any_writes_the_index_names_the_records_that_have_each_value() {
    for Store { records, .. } in
        &stores("after_any_writes_the_index_names_the_records_that_have_each_value")
    {
        records.set_run_records(5);
        let mut chance = Chance::of(seed());
        let (mut covered, mut preparers) = (0, HashMap::new());
        for _ in 0..scaled(40, 1000) {
            match write(records, &mut preparers, &mut chance) {
                Ok(()) | Err(Problem::Full) => {}
                Err(problem) => panic!("{problem:?}"),
            }
            let sources = sources(records);
            for source in &sources {
                covered = covered.max(check_index(records, source));
            }
            check_answers(records, &mut chance, &sources);
        }
        assert!(covered > 10, "{covered} records were in an index");
    }
}

fn fill(batch: &mut WriteBatch<'_>, from: usize, count: usize) -> Result<(), Problem> {
    let target = match batch.target(&name("c"), &name("one"))? {
        Some(target) => target,
        None => batch.declare(&name("c"), &name("one"), &declaration(&["n"]), &indexed())?,
    };
    for at in from..from + count {
        let key = RecordKey::parse(&format!("k{at}")).unwrap();
        let number = FieldValue::Number((at % 100).to_string().into());
        let fields = vec![("n".to_owned(), number)];
        batch.upsert(&target, incoming(&key, &fields))?;
    }
    Ok(())
}

#[test]
fn records_are_taken_into_the_index_in_bounded_steps_by_later_writes() {
    for Store { records, .. } in
        &stores("records_are_taken_into_the_index_in_bounded_steps_by_later_writes")
    {
        let covered = || {
            let sources = sources(records);
            sources.first().map_or(0, |source| check_index(records, source))
        };
        let owner = permits().0;
        // Nothing is indexed while runs are long.
        records.set_run_records(1_000_000);
        records.write(&owner, |batch| fill(batch, 0, 200)).unwrap();
        assert_eq!(covered(), 0);
        records.set_run_records(10);
        let mut steps = 0;
        while covered() < 200 {
            let before = covered();
            records.write(&owner, |_| Ok(())).unwrap();
            let step = covered() - before;
            assert!((1..=40).contains(&step), "{step}");
            steps += 1;
        }
        assert_eq!(steps, 5);
        // Each write takes in as many records as it adds.
        records.write(&owner, |batch| fill(batch, 200, 9)).unwrap();
        assert_eq!(covered(), 200, "less than a run is no run");
        records.write(&owner, |batch| fill(batch, 209, 100)).unwrap();
        assert_eq!(covered(), 300);
    }
}

#[test]
fn a_stream_of_few_records_has_no_index() {
    for Store { records, .. } in &stores("a_stream_of_few_records_has_no_index") {
        let owner = permits().0;
        let few = RUN_RECORDS as usize - 1;
        records.write(&owner, |batch| fill(batch, 0, few)).unwrap();
        assert_eq!(check_index(records, &sources(records)[0]), 0);
        records.write(&owner, |batch| fill(batch, few, 1)).unwrap();
        assert_eq!(check_index(records, &sources(records)[0]), few + 1);
    }
}
