//! Tests of rows of tokens: the one that the short texts of a record share, and those of earlier
//! versions, which had one for each text.

use rusqlite::Connection;
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::ParsedQuery;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::NAME;
use super::guessed_texts::tests::{fresh, opened_older, records};
use super::tests::{Rig, incoming, name, permits, rig};
use crate::records::model::TargetStream;
use crate::records::write::WriteBatch;
use crate::records::write::redeclare::tests::contents_of_any_rows;
use crate::records::{RecordSearchQuery, RecordsView, SearchOrder};

fn fields(texts: &[(&str, &str)]) -> RecordFields {
    let field =
        |(name, text): &(&str, &str)| ((*name).to_owned(), FieldValue::Text((*text).to_owned()));
    texts.iter().map(field).collect()
}

fn write(rig: &Rig, write: impl FnOnce(&mut WriteBatch<'_>, &TargetStream) -> Result<(), Problem>) {
    let written = rig.records.write(&permits().0, |batch| {
        let target = batch.target(&name("lab"), &name("notes"))?.unwrap();
        write(batch, &target)
    });
    written.unwrap();
}

fn upsert(rig: &Rig, key: &str, fields: &RecordFields) {
    write(rig, |batch, target| {
        batch.upsert(target, incoming(&RecordKey::parse(key).unwrap(), fields)).map(drop)
    });
}

fn redeclare(rig: &Rig, searchable: &[&str]) {
    write(rig, |batch, target| {
        let searchable = searchable.iter().map(|&name| name.to_owned()).collect();
        let indexed = IndexedFields { searchable, ..target.indexed.clone() };
        batch.redeclare(target, "{}", &indexed).map(drop)
    });
}

/// Returns the keys, fields and ranges that a search finds.
fn found(rig: &Rig, text: &str) -> Vec<String> {
    let is_field = |name: &str| ["title", "body", "note", "a", "b", "c"].contains(&name);
    let query = ParsedQuery::parse_with_fields(text, &is_field);
    let find = |view: &RecordsView<'_>| {
        let sources = view.sources_of("notes", None)?;
        let search = RecordSearchQuery {
            query: &query,
            conditions: &[],
            order: SearchOrder::Newest,
            after: None,
            limit: 100,
        };
        let page = view.find_text(&sources, search, &|| Ok(()))?;
        Ok(page.hits.iter().map(|hit| format!("{} {:?}", hit.row.key, hit.matches)).collect())
    };
    rig.records.read(&permits().1, Instant(1), find).unwrap()
}

const SEARCHES: [&str; 14] = [
    "ferns",
    "fern*",
    "ferns -x",
    "-tall ferns",
    "water ferns",
    "\"water the ferns\"",
    "\"tall ferns tall\"",
    "\"garden water\"",
    "title:garden",
    "body:garden",
    "title:garden note:x",
    "plain",
    "\"after the strand\" title:strand",
    "genome tall",
];

/// What happens to the records of a store.
type Change = (&'static str, fn(&Rig));

const CHANGES: [Change; 8] = [
    ("nothing", |_| ()),
    ("one short text changes", |rig| {
        let texts =
            [("id", "plain"), ("title", "yard"), ("body", "water the ferns"), ("note", "x")];
        upsert(rig, "plain", &fields(&texts));
    }),
    ("a short text goes", |rig| {
        upsert(rig, "plain", &fields(&[("id", "plain"), ("body", "water the ferns")]));
    }),
    ("the first short text gets long", |rig| {
        let long = "plain ferns ".repeat(3000);
        let texts =
            [("title", long.as_str()), ("id", "plain"), ("body", "the yard"), ("note", "x")];
        upsert(rig, "plain", &fields(&texts));
    }),
    ("a long text gets short", |rig| {
        let texts = [("id", "long"), ("title", "genome"), ("body", "ACGT"), ("note", "tall ferns")];
        upsert(rig, "long", &fields(&texts));
    }),
    ("only a long text changes", |rig| {
        let mut texts = records().swap_remove(2).1;
        texts[3].1 = FieldValue::Text("tall garden ferns ".repeat(900));
        upsert(rig, "long", &texts);
    }),
    ("records go", |rig| {
        write(rig, |batch, target| {
            batch.delete(target, "plain")?;
            batch.delete(target, "long").map(drop)
        });
    }),
    ("the declaration changes", |rig| {
        redeclare(rig, &["body", "note"]);
        redeclare(rig, &["title", "note"]);
        redeclare(rig, &["id", "title", "body", "note"]);
    }),
];

#[test]
fn a_store_with_a_row_for_each_text_is_searched_and_changed_like_a_new_one() {
    for (what, change) in CHANGES {
        let (older, fresh) = (opened_older(), fresh());
        assert!(older.count("tokens") > fresh.count("tokens"), "the rows differ at first");
        change(&older);
        change(&fresh);
        for search in SEARCHES {
            assert_eq!(found(&older, search), found(&fresh, search), "{what}: {search}");
        }
        assert_eq!(contents_of_any_rows(&older), contents_of_any_rows(&fresh), "{what}");
        for rig in [&older, &fresh] {
            write(rig, |batch, target| {
                records().iter().try_for_each(|(key, _)| batch.delete(target, key).map(drop))
            });
            assert_eq!(rig.count("tokens"), 0, "{what}: no row remains of deleted records");
        }
    }
}

#[test]
fn searches_of_the_stored_records_find_what_they_say() {
    let rig = opened_older();
    let keys = |search: &str| -> Vec<String> {
        let all = found(&rig, search);
        all.iter().map(|hit| hit.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(keys("ferns"), ["plain", "long"]);
    assert_eq!(keys("\"water the ferns\""), ["plain"]);
    assert_eq!(keys("title:garden -tall"), ["plain"]);
    assert_eq!(keys("body:garden"), Vec::<String>::new());
}

#[test]
fn short_texts_share_a_row_in_which_no_phrase_goes_from_one_to_the_next() {
    let rig = rig();
    let searchable = ["a", "b", "c"].map(str::to_owned).into();
    let indexed = IndexedFields { searchable, ..IndexedFields::default() };
    let declared = rig.records.write(&permits().0, |batch| {
        batch.declare(&name("lab"), &name("notes"), "{}", &indexed).map(drop)
    });
    declared.unwrap();
    upsert(&rig, "1", &fields(&[("a", "..."), ("b", "water the"), ("c", "the ferns")]));
    assert_eq!(rig.count("tokens"), 1);
    let long = "moss ".repeat(300);
    upsert(&rig, "2", &fields(&[("a", &long), ("b", "water"), ("c", "ferns")]));
    assert_eq!(rig.count("tokens"), 3);
    let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
    let mut numbers = connection.prepare("SELECT id FROM tokens_docsize ORDER BY id").unwrap();
    let numbers = numbers.query_map([], |row| row.get(0)).unwrap();
    let numbers: Vec<i64> = numbers.map(Result::unwrap).collect();
    let number = |record, slot| stile_domain::records::pieces::number(record, slot, 0).unwrap();
    assert_eq!(numbers, [number(1, 0), number(2, 0), number(2, 1)]);
    let count = |search: &str| found(&rig, search).len();
    assert_eq!(["water", "ferns", "water ferns", "\"the ferns\""].map(count), [2, 2, 2, 1]);
    assert_eq!(["\"the the\"", "\"water ferns\"", "\"moss water\""].map(count), [0; 3]);
    assert_eq!(["b:the", "c:the", "b:ferns", "a:moss -c:the"].map(count), [1, 1, 0, 1]);
    upsert(&rig, "1", &fields(&[("a", "!"), ("b", "?"), ("c", "")]));
    assert_eq!((rig.count("tokens"), count("the")), (2, 0), "a record without a token has no row");
}
