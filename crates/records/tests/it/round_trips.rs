//! A page takes a few statements of PostgreSQL, however many records it has, and so does a batch
//! that stores records.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_records::operations::Operation;
use stile_store::postgresql::Database;
use stile_store::records::{IncomingRecord, Records};
use stile_store::state::StateDir;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::worlds::{OperationRequest, owner};

/// The most statements of a page, with those that begin and end its transaction.
const MOST: usize = 30;
/// The most statements of a search.
const MOST_OF_SEARCH: usize = 20;

struct Store {
    services: RecordService,
    database: TestDatabase,
    _folder: tempfile::TempDir,
}

fn declaration() -> Json {
    let text = json!({ "type": "string" });
    let bytes = json!({ "type": "string", "contentEncoding": "base64" });
    let relation = |name: &str, cardinality: &str, key: &str| json!({ "name": name, "stream": "s", "cardinality": cardinality, "foreign_key": key });
    json!({
        "schema": { "properties": {
            "at": { "type": "string", "format": "date" }, "title": text, "long": text,
            "encoded": text, "bytes": bytes, "parent": text,
        } },
        "primary_key": ["title"], "cursor_field": "at",
        "query": {
            "search": { "lexical_fields": ["title", "long"] },
            "expand": [{ "name": "children", "max_limit": 5 }, { "name": "parent" }],
        },
        "relationships": [
            relation("children", "has_many", "parent"), relation("parent", "has_one", "parent"),
        ],
    })
}

fn record(number: usize) -> RecordFields {
    let text = |name: &str, text: String| (name.to_owned(), FieldValue::Text(text));
    vec![
        text("at", format!("2026-01-{:02}", number % 28 + 1)),
        text("title", format!("a word {number}")),
        text("long", format!("long text {number} ").repeat(800)),
        text("encoded", format!("{number:04}").repeat(5000)),
        text("bytes", format!("{number:04}").repeat(5000)),
        text("parent", format!("k{}", number / 2)),
    ]
}

/// Stores 120 records, each with long values and with a reference to another.
fn store(test: &str) -> Option<Store> {
    store_with(test, TestDatabase::log_statements)
}

/// Stores the same in a database that was prepared.
fn store_with(test: &str, prepare: impl FnOnce(&TestDatabase)) -> Option<Store> {
    let database = PostgresServer::shared(test)?.database();
    prepare(&database);
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = Database::open(&database.address()).unwrap();
    let tenant = opened.sole_tenant().unwrap();
    let records = Records::open_at(&state, &opened, &tenant, Instant(0)).unwrap();
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let json = declaration();
    let indexed = indexed_fields(&Declaration::parse(&json).unwrap());
    let owner = owner().gate().owner().unwrap();
    let written = records.write_at(&owner, Instant(0), |batch| {
        let target = batch.declare(&connection, &stream, &json.to_string(), &indexed)?;
        for number in 0..120 {
            let key = RecordKey::parse(&format!("k{number}")).unwrap();
            let (fields, emitted) = (&record(number), Instant(0));
            let incoming = IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() };
            batch.upsert(&target, incoming)?;
        }
        Ok(())
    });
    written.unwrap();
    Some(Store { services: RecordService::new(records), database, _folder: folder })
}

impl Store {
    /// Sends a request, and returns how many statements it took and how many records it returned.
    fn count(&self, pairs: &[(&str, &str)]) -> (usize, usize) {
        let before = self.database.logged_statements();
        let returned = self.send(Operation::ListRecords, "s", pairs);
        (self.database.logged_statements() - before, returned)
    }

    /// Sends a request, and returns how many records or hits were returned.
    fn send(&self, operation: Operation, stream: &str, pairs: &[(&str, &str)]) -> usize {
        let request = OperationRequest {
            operation: operation.declaration(),
            stream: stream.to_owned(),
            key: String::new(),
            pairs: pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        };
        let body = request.send_at(&self.services, &owner(), Instant(1)).unwrap();
        let json: Json = serde_json::from_str(&body).unwrap();
        json["data"].as_array().unwrap().len()
    }

    /// Returns how many hits a search has, how often it read the index of words, and how many
    /// statements it took in all.
    fn search(&self, pairs: &[(&str, &str)]) -> (usize, usize, usize) {
        let index = || self.database.logged_statements_with(" word_blocks ");
        let all = || self.database.logged_statements();
        let before = (index(), all());
        let hits = self.send(Operation::Search, "", pairs);
        (hits, index() - before.0, all() - before.1)
    }
}

#[test]
fn a_page_on_postgresql_takes_as_many_statements_for_25_records_as_for_5() {
    let test = "a_page_on_postgresql_takes_as_many_statements_for_25_records_as_for_5";
    let Some(store) = store(test) else { return };
    let pages: [&[(&str, &str)]; 6] = [
        &[],
        &[("preview_chars", "100")],
        &[("preview_chars", "1000"), ("preview_bytes", "4000")],
        &[("preview_chars", "100"), ("expand[]", "parent")],
        &[("preview_chars", "100"), ("expand[]", "children"), ("expand[]", "parent")],
        &[("preview_chars", "100"), ("changes_since", "beginning")],
    ];
    for pairs in pages {
        let [few, many] = ["5", "25"].map(|limit| {
            let pairs = [pairs, &[("limit", limit)]].concat();
            // The first request of a kind may prepare statements and connect.
            store.count(&pairs);
            store.count(&pairs)
        });
        assert_eq!((few.1, many.1), (5, 25), "{pairs:?}");
        assert!(many.0 <= few.0 + 1 && many.0 <= MOST, "{pairs:?}: {few:?}, {many:?}");
    }
}

/// The statements of a list on rows: without the one that begins and the one that ends the
/// transaction.
const MOST_OF_LIST: usize = 3;

/// A request for a list, and the most statements that it takes.
type List<'l> = (Operation, &'l str, &'l [(&'l str, &'l str)], usize);

#[test]
fn a_page_of_a_list_on_postgresql_takes_three_statements() {
    let test = "a_page_of_a_list_on_postgresql_takes_three_statements";
    let Some(store) = store(test) else { return };
    let count = |operation: Operation, stream: &str, pairs: &[(&str, &str)]| {
        // The first request may connect.
        store.send(operation, stream, pairs);
        let before = store.database.logged_statements();
        let returned = store.send(operation, stream, pairs);
        assert!(returned > 0, "{operation:?} {pairs:?}");
        let all = store.database.logged_statements() - before;
        (all - 2, store.database.last_statements(all))
    };
    let lists: [List<'_>; 9] = [
        (Operation::ListStreams, "", &[], 2),
        (Operation::ListRecords, "s", &[("limit", "1")], MOST_OF_LIST),
        (Operation::ListRecords, "s", &[("limit", "25")], MOST_OF_LIST),
        (Operation::ListRecords, "s", &[("limit", "100"), ("fields", "at,title")], 2),
        // The texts of each 25 records more are read when these are written.
        (Operation::ListRecords, "s", &[("limit", "100"), ("order", "asc")], MOST_OF_LIST + 3),
        (
            Operation::ListRecords,
            "s",
            &[("limit", "25"), ("fields", "title,long"), ("preview_chars", "100")],
            MOST_OF_LIST,
        ),
        // The end of a text that may be encoded bytes says how many bytes there are.
        (
            Operation::ListRecords,
            "s",
            &[("limit", "25"), ("preview_chars", "1000")],
            MOST_OF_LIST + 1,
        ),
        (
            Operation::ListRecords,
            "s",
            &[("limit", "100"), ("preview_chars", "100"), ("preview_bytes", "4000")],
            MOST_OF_LIST + 1 + 6,
        ),
        // The first value that does not fit is read, too. The records are so small that all are
        // read at once.
        (
            Operation::ListRecords,
            "s",
            &[("limit", "100"), ("preview_chars", "20"), ("preview_bytes", "256")],
            MOST_OF_LIST + 1,
        ),
    ];
    for (operation, stream, pairs, most) in lists {
        let (statements, told) = count(operation, stream, pairs);
        assert!(statements <= most, "{operation:?} {pairs:?}: {statements}\n{told}");
    }
}

#[test]
fn a_list_of_streams_on_postgresql_counts_no_records() {
    let test = "a_list_of_streams_on_postgresql_counts_no_records";
    let Some(store) = store_with(test, TestDatabase::log_plans) else { return };
    add(&store, (0..3000).map(|at| format!("other {at}")), 20);
    let counts = || {
        let request = OperationRequest {
            operation: Operation::ListStreams.declaration(),
            stream: String::new(),
            key: String::new(),
            pairs: Vec::new(),
        };
        let body = request.send_at(&store.services, &owner(), Instant(1)).unwrap();
        let json: Json = serde_json::from_str(&body).unwrap();
        let row = &json["data"][0];
        (row["record_count"].as_u64().unwrap(), row["last_updated"].to_string())
    };
    let counted = || {
        let text = "SELECT count(*), max(emitted) FROM stile.records";
        let row = store.database.run(text).trim().to_owned();
        let (count, latest) = row.split_once('|').unwrap();
        let latest = Instant(latest.parse().unwrap()).to_rfc3339();
        (count.parse::<u64>().unwrap(), json!(latest).to_string())
    };
    assert_eq!(counts(), counted());
    let delete = |from: usize, to: usize| {
        let (connection, stream) =
            (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
        let owner = owner().gate().owner().unwrap();
        let deleted = store.services.records.write_at(&owner, Instant(3), |batch| {
            let target = batch.target(&connection, &stream)?.unwrap();
            (from..to).try_for_each(|at| batch.delete(&target, &format!("other {at}")).map(drop))
        });
        deleted.unwrap();
    };
    for (from, to) in [(0, 10), (10, 2999), (2999, 3000)] {
        delete(from, to);
        assert_eq!(counts(), counted(), "after {from} to {to}");
    }
    // Of the plans, those of the list read at most a row of a stream.
    let plans = store.database.logged_plans();
    let of_list: Vec<&String> =
        plans.iter().filter(|plan| plan.contains("FROM stream_counts")).collect();
    assert_eq!(of_list.len(), 4);
    for plan in of_list {
        assert!(plan.contains("Limit") && plan.contains("using records_"), "{plan}");
    }
}

#[test]
fn storing_a_thousand_records_on_postgresql_takes_a_few_statements() {
    let test = "storing_a_thousand_records_on_postgresql_takes_a_few_statements";
    let Some(store) = store(test) else { return };
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let owner = owner().gate().owner().unwrap();
    let keep = |text: &str| {
        let before = store.database.logged_statements();
        let written = store.services.records.write_at(&owner, Instant(2), |batch| {
            let target = batch.target(&connection, &stream)?.unwrap();
            for number in 0..1000 {
                let key = RecordKey::parse(&format!("n{number:04}")).unwrap();
                let mut fields = record(number);
                fields.truncate(1);
                fields.push(("title".to_owned(), FieldValue::Text(format!("{text} {number}"))));
                let (fields, emitted) = (&fields, Instant(2));
                let incoming = IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() };
                batch.upsert(&target, incoming)?;
            }
            Ok(())
        });
        written.unwrap();
        store.database.logged_statements() - before
    };
    for (kind, text) in [("new", "first"), ("unchanged", "first"), ("changed", "second")] {
        let statements = keep(text);
        assert!(statements <= 40, "{kind}: {statements}");
    }
}

/// Returns why a plan is not one that finds the rows of one tenant by an index. `None` if it is.
fn fault_of(plan: &str) -> Option<&'static str> {
    const LARGE: [&str; 9] = [
        "blob_pieces", "blob_uses", "blobs", "changes", "field_values", "pieces", "records",
        "text_words", "word_blocks",
    ];
    let part_of = |name: &str| {
        let (table, part) = name.rsplit_once('_')?;
        LARGE.contains(&table).then(|| part.parse::<u8>().ok()).flatten()
    };
    let mut parts = BTreeSet::new();
    for line in plan.lines().filter(|line| line.contains(" Scan") && line.contains(" on ")) {
        let Some(table) = line.split_once(" on ").and_then(|(_, rest)| rest.split(' ').next())
        else {
            continue;
        };
        let part = part_of(table);
        if part.is_some() && line.contains("Seq Scan") {
            return Some("it reads a partition as a whole");
        }
        parts.extend(part);
    }
    (parts.len() > 1).then_some("it reads several partitions")
}

#[test]
fn every_statement_on_a_large_table_finds_its_rows_by_an_index_of_one_partition() {
    let test = "every_statement_on_a_large_table_finds_its_rows_by_an_index_of_one_partition";
    let Some(store) = store_with(test, TestDatabase::log_plans) else { return };
    add(&store, (0..300).map(|at| format!("common{} rare{at}", at % 3)), 20);
    add(&store, (0..10).map(|at| format!("long {at}")), 90_000);
    let pages: [&[(&str, &str)]; 6] = [
        &[("preview_chars", "1000"), ("preview_bytes", "4000"), ("limit", "25")],
        &[("order", "asc"), ("limit", "5"), ("count", "exact")],
        &[("expand[]", "children"), ("expand[]", "parent"), ("limit", "5")],
        &[("changes_since", "beginning"), ("limit", "5")],
        &[("filter[title]", "long 3")],
        &[("filter[parent]", "k3")],
    ];
    // A plan is made once, and stays when the tables have grown.
    for pairs in pages.iter().cycle().take(2 * pages.len()) {
        store.send(Operation::ListRecords, "s", pairs);
    }
    for query in ["word", "common1 rare4", "\"end of\"", "rare* common2", "lon* end", "-word long"]
    {
        for order in ["newest", "relevance"] {
            store.send(Operation::Search, "", &[("q", query), ("order", order), ("limit", "5")]);
        }
    }
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let changed =
        store.services.records.write_at(&owner().gate().owner().unwrap(), Instant(3), |batch| {
            let target = batch.target(&connection, &stream)?.unwrap();
            (0..40).try_for_each(|at| batch.delete(&target, &format!("k{at}")).map(drop))?;
            for number in 40..60 {
                let key = RecordKey::parse(&format!("k{number}")).unwrap();
                let (fields, emitted) = (&record(number + 1), Instant(3));
                let incoming = IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() };
                batch.upsert(&target, incoming)?;
            }
            Ok(())
        });
    changed.unwrap();
    let bad =
        ["Seq Scan on records_03 r", "Index Scan using a on pieces_01 p\n Scan on pieces_02 p"];
    assert!(bad.iter().all(|plan| fault_of(&format!("->  {plan}")).is_some()));
    let plans = store.database.logged_plans();
    let about = |name: &str| plans.iter().filter(|plan| plan.contains(name)).count();
    for name in ["records", "pieces", "word_blocks", "text_words", "changes", "field_values"] {
        assert!(about(&format!(" on {name}")) > 0, "{name}");
    }
    let faults: BTreeMap<&str, &String> = plans
        .iter()
        .filter_map(|plan| {
            let statement = plan.lines().next().unwrap_or_default();
            fault_of(plan).map(|_| (statement, plan))
        })
        .collect();
    let told: Vec<String> = faults
        .values()
        .map(|plan| format!("{}\n{plan}", fault_of(plan).unwrap_or_default()))
        .collect();
    assert!(told.is_empty(), "{} statements\n{}", told.len(), told.join("\n"));
}

/// Stores records that are older than all others, with these titles, and texts of some characters.
fn add(store: &Store, titles: impl Iterator<Item = String>, chars: usize) {
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let owner = owner().gate().owner().unwrap();
    let written = store.services.records.write_at(&owner, Instant(2), |batch| {
        let target = batch.target(&connection, &stream)?.unwrap();
        for title in titles {
            let key = RecordKey::parse(&title).unwrap();
            let long = format!("{} end of {title}", "some words ".repeat(chars / 11));
            let fields = [("at", "2025-01-01".to_owned()), ("title", title), ("long", long)];
            let fields = fields.map(|(name, text)| (name.to_owned(), FieldValue::Text(text)));
            let (fields, emitted) = (&fields.to_vec(), Instant(2));
            let incoming = IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() };
            batch.upsert(&target, incoming)?;
        }
        Ok(())
    });
    written.unwrap();
}

#[test]
fn a_search_on_postgresql_takes_a_handful_of_statements_whatever_it_finds() {
    let test = "a_search_on_postgresql_takes_a_handful_of_statements_whatever_it_finds";
    let Some(store) = store(test) else { return };
    add(&store, (0..3000).map(|at| format!("common{} half{} rare{at}", at % 3, at % 2)), 20);
    // Texts of many pieces, of which only the index tells what they have.
    add(&store, (0..40).map(|at| format!("long {at}")), 90_000);
    for (query, hits) in [
        ("word", 120),
        ("half1", 1500),
        ("half1 common2", 500),
        ("half0 rare1448", 1),
        ("half0 rare1449", 0),
        ("\"common2 half0\"", 500),
        ("\"half0 common2\"", 0),
        ("rare*", 3000),
        ("rare14* half1", 55),
        ("half1 -common0 -common1", 500),
        ("nothing", 0),
        ("end", 3040),
        ("\"end of long\"", 40),
        ("some of long", 40),
        ("lon* end", 40),
    ] {
        for order in ["newest", "relevance"] {
            for limit in ["5", "50"] {
                let pairs = [("q", query), ("order", order), ("limit", limit)];
                let (found, _, first) = store.search(&pairs);
                let (again, index, statements) = store.search(&pairs);
                println!("{query:?} {order} {limit}: {found}, {index} of {statements} ({first})");
                assert_eq!(found, hits.min(limit.parse().unwrap()), "{query}");
                assert_eq!(found, again, "{query}");
                let by_order = if order == "relevance" { 2 } else { 1 };
                // The place of a prefix far into a long text is looked for piece by piece.
                let of_texts = if query.contains('*') && hits == 40 { 8 * found } else { 0 };
                let most = by_order * MOST_OF_SEARCH + of_texts;
                let told = store.database.last_statements(statements);
                assert!(statements <= most, "{query} {order} {limit}: {statements}\n{told}");
            }
        }
    }
}

#[test]
fn a_phrase_on_postgresql_is_found_after_any_number_of_occurrences_of_its_first_word() {
    let test = "a_phrase_on_postgresql_is_found_after_any_number_of_occurrences_of_its_first_word";
    let Some(store) = store(test) else { return };
    let titles = (1..=20).flat_map(|count| {
        let ferns = "fern ".repeat(count);
        [format!("{ferns}moss {count}"), format!("moss {ferns}{count}")]
    });
    // More records than a search looks through without the index, and these are the oldest.
    add(&store, (0..200).map(|at| format!("other {at}")), 20);
    add(&store, titles, 20);
    for (query, hits) in [("\"fern moss\"", 20), ("\"fern fern moss\"", 19), ("\"moss fern\"", 20)]
    {
        let (found, reads, _) = store.search(&[("q", query), ("limit", "50")]);
        assert_eq!(found, hits, "{query}");
        assert!(reads > 0, "{query}");
    }
}
