//! Tests of scans with conditions, which change from the index to the order of the file, on records
//! whose times, keys and numbers have different orders.

use stile_domain::records::filter::{Condition, FieldTest};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::instant::Instant;

use super::super::super::tests::{Rig, incoming, indexed, message, messages, permits, rig};
use crate::records::{RecordQuery, RecordsView, SortOrder};

const RECORDS: usize = 600;

/// The place of a record by time; `None` for a record without a time.
fn place(number: usize) -> Option<usize> {
    (!number.is_multiple_of(10)).then_some(number * 7_919 % 601)
}

fn key(number: usize) -> String {
    format!("{:04}", number * 104_729 % 1_009)
}

/// The text of a record: common, rare, or in one record.
fn text(number: usize) -> &'static str {
    match number {
        333 => "once",
        _ if number % 97 == 5 => "rare",
        _ if number.is_multiple_of(3) => "third",
        _ => "other",
    }
}

fn filled() -> Rig {
    let rig = rig();
    let stored = rig.records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        for number in 0..RECORDS {
            let at = place(number).map(|place| Instant(place as i64 * 60_000_000).to_rfc3339());
            let fields = message(&at.unwrap_or_default(), text(number));
            let key = RecordKey::parse(&key(number)).unwrap();
            batch.upsert(&target, incoming(&key, &fields))?;
        }
        Ok(())
    });
    stored.unwrap();
    rig
}

fn is(wanted: &str) -> Condition {
    Condition::on("text", FieldTest::Is(wanted.to_owned()))
}

/// Returns the keys that a naive sort gives.
fn naive(wanted: &str, order: SortOrder) -> Vec<String> {
    let matching = (0..RECORDS).filter(|number| text(*number) == wanted);
    let mut all: Vec<(Option<usize>, String)> =
        matching.map(|number| (place(number), key(number))).collect();
    all.sort();
    if order == SortOrder::Descending {
        all.reverse();
    }
    // Records without a time come last in both directions.
    all.sort_by_key(|(place, _)| place.is_none());
    all.into_iter().map(|(_, key)| key).collect()
}

fn paged(view: &RecordsView<'_>, wanted: &str, order: SortOrder, limit: usize) -> Vec<String> {
    let sources = view.sources_of("messages", None).unwrap();
    let conditions = [is(wanted)];
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let query = RecordQuery { order, after: after.as_ref(), conditions: &conditions, limit };
        let page = view.list(&sources, query).unwrap();
        after = page.rows.last().and_then(|row| view.position_of(&sources, row));
        keys.extend(page.rows.into_iter().map(|row| row.key));
        if !page.has_more {
            return keys;
        }
    }
}

#[test]
fn pages_of_a_filter_are_those_of_a_naive_sort() {
    let rig = filled();
    let check = |view: &RecordsView<'_>| {
        for order in [SortOrder::Ascending, SortOrder::Descending] {
            for wanted in ["other", "third", "rare", "once", "never"] {
                for limit in [1, 7, 25, 1_000] {
                    let found = paged(view, wanted, order, limit);
                    assert_eq!(found, naive(wanted, order), "{wanted} {order:?} {limit}");
                }
            }
        }
        Ok(())
    };
    rig.records.read(&permits().1, Instant(1), check).unwrap();
}

#[test]
fn counts_with_a_filter_are_those_of_a_naive_count() {
    let rig = filled();
    let check = |view: &RecordsView<'_>| {
        let sources = view.sources_of("messages", None)?;
        for wanted in ["other", "third", "rare", "once", "never"] {
            let expected = (0..RECORDS).filter(|number| text(*number) == wanted).count() as u64;
            assert_eq!(view.count_matching(&sources, &[is(wanted)])?, expected, "{wanted}");
            let mut seen = 0;
            view.field_values(&sources[0], &[is(wanted)], &["text"], &mut |values| {
                seen += u64::from(values[0].is_some());
                Ok(true)
            })?;
            assert_eq!(seen, expected, "{wanted}");
        }
        Ok(())
    };
    rig.records.read(&permits().1, Instant(1), check).unwrap();
}

#[test]
fn references_to_many_keys_are_those_to_each_key() {
    let rig = filled();
    let check = |view: &RecordsView<'_>| {
        let sources = view.sources_of("messages", None)?;
        let wanted = ["other", "third", "rare", "once", "never"];
        for limit in [0, 1, 3, 10, 1_000] {
            let keys = wanted.map(str::to_owned);
            let pages = view.list_referring(&sources, "text", keys, limit)?;
            assert_eq!(pages.len(), wanted.len());
            for key in wanted {
                let mut expected = naive(key, SortOrder::Descending);
                let has_more = expected.len() > limit;
                expected.truncate(limit);
                let found: Vec<&str> = pages[key].rows.iter().map(|row| row.key.as_str()).collect();
                assert_eq!(
                    (found, pages[key].has_more),
                    (expected.iter().map(String::as_str).collect(), has_more)
                );
            }
        }
        Ok(())
    };
    rig.records.read(&permits().1, Instant(1), check).unwrap();
}
