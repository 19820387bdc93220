//! Tests of the row of tokens that the short texts of a record share.

use rusqlite::Connection;
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::ParsedQuery;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::NAME;
use super::tests::{Rig, incoming, name, permits, rig};
use crate::records::model::TargetStream;
use crate::records::write::WriteBatch;
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
