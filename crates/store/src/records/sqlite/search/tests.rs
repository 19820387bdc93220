//! Tests of searches among many records, fields and pieces. The tests of the operations compare
//! what searches find with a naive scan.

use stile_domain::records::grant::TimeConstraint;
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::pieces::CharRange;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::ParsedQuery;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::super::tests::{Rig, incoming, indexed, message, messages, permits, rig};
use crate::records::{RecordSearchQuery, RecordsView, SearchOrder};

fn fill(rig: &Rig, indexed: &IndexedFields, rows: &[RecordFields]) {
    let stored = rig.records.write(&permits().0, |batch| {
        let target = messages(batch, indexed)?;
        for (number, fields) in rows.iter().enumerate() {
            let key = RecordKey::parse(&format!("{number:04}")).unwrap();
            batch.upsert(&target, incoming(&key, fields))?;
        }
        Ok(())
    });
    stored.unwrap();
}

/// Returns the keys of all hits with the first position in each, from pages of two hits.
fn all(view: &RecordsView<'_>, text: &str) -> Vec<(usize, Option<CharRange>)> {
    paged(view, text, 2)
}

fn paged(view: &RecordsView<'_>, text: &str, limit: usize) -> Vec<(usize, Option<CharRange>)> {
    let (sources, query) = (view.sources_of("messages", None).unwrap(), ParsedQuery::parse(text));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let search = RecordSearchQuery {
            query: &query,
            conditions: &[],
            order: SearchOrder::Newest,
            after: after.as_ref(),
            limit,
        };
        let page = view.find_text(&sources, search, &|| Ok(())).unwrap();
        after = page.hits.last().and_then(|hit| view.search_position(&sources, hit, None));
        found.extend(
            page.hits.iter().map(|hit| (hit.row.key.parse().unwrap(), hit.matches[0].position)),
        );
        if !page.has_more {
            return found;
        }
    }
}

fn keys(rig: &Rig, text: &str) -> Vec<usize> {
    let both = |view: &RecordsView<'_>| Ok((all(view, text), paged(view, text, 5_000)));
    let (found, at_once) = rig.records.read(&permits().1, Instant(1), both).unwrap();
    // A page may need more of a list than one query reads.
    assert_eq!(found, at_once, "{text}");
    found.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn rare_and_common_words_are_found_together_in_many_records() {
    let rig = rig();
    let is_in = |word: &str, number: usize| match word {
        "moss" => true,
        "half" => number.is_multiple_of(2),
        "third" => number.is_multiple_of(3),
        "some" => number.is_multiple_of(50),
        "few" => number % 333 == 1,
        "early" => number < 700,
        "late" => number > 2_000 && number.is_multiple_of(7),
        "zygote" => number == 7,
        "zyg" => number == 1_200,
        "zygomorphic" => number == 2_390,
        _ => false,
    };
    let words =
        ["moss", "half", "third", "some", "few", "early", "late", "zygote", "zyg", "zygomorphic"];
    let row = |number: usize| {
        let own: Vec<&str> = words.into_iter().filter(|word| is_in(word, number)).collect();
        message("2026-01-01", &own.join(" and "))
    };
    fill(&rig, &indexed(), &(0..2_400).map(row).collect::<Vec<_>>());
    let naive = |query: &str| -> Vec<usize> {
        let occurs = |term: &str, number: usize| match term.strip_suffix('*') {
            Some(start) => words.iter().any(|word| word.starts_with(start) && is_in(word, number)),
            None => is_in(term, number),
        };
        (0..2_400)
            .rev()
            .filter(|number| query.split(' ').all(|term| occurs(term, *number)))
            .collect()
    };
    for query in [
        "zyg*", "zyg* moss", "moss zygot*", "mo*", "half third", "third half some", "some few",
        "few moss", "moss half few", "early half third", "late early", "late half",
        "some late mos*", "ha* thi* so*", "moss zygomorphic", "nothing moss", "moss",
        "half nothing*", "few ear*", "third early moss",
    ] {
        assert_eq!(keys(&rig, query), naive(query), "{query}");
    }
}

#[test]
fn a_few_visible_records_are_found_among_many_hidden_ones() {
    let rig = rig();
    let at = |number: usize| if number % 1000 == 3 { "2026-05-01" } else { "2025-05-01" };
    let rows: Vec<RecordFields> =
        (0..3_000).map(|number| message(at(number), "ferns and moss")).collect();
    fill(&rig, &indexed(), &rows);
    let time = TimeConstraint::new("at".to_owned(), Instant::parse("2026-01-01"), None);
    let permit = rig.client(Some(time));
    let found =
        rig.records.read(&permit, Instant(1), |view| Ok(all(view, "ferns \"and moss\""))).unwrap();
    assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [2_003, 1_003, 3]);
}

#[test]
fn a_search_ends_when_a_limit_is_exceeded() {
    let rig = rig();
    let word = |number: usize| if number.is_multiple_of(2) { "moss" } else { "ferns" };
    fill(
        &rig,
        &indexed(),
        &(0..1_000).map(|number| message("2026-01-01", word(number))).collect::<Vec<_>>(),
    );
    let checks = std::cell::Cell::new(0);
    let check_limits = || {
        checks.set(checks.get() + 1);
        if checks.get() == 3 { Err(Problem::Busy) } else { Ok(()) }
    };
    let found = rig.records.read(&permits().1, Instant(1), |view| {
        let (sources, query) =
            (view.sources_of("messages", None)?, ParsedQuery::parse("moss ferns"));
        view.find_text(
            &sources,
            RecordSearchQuery {
                query: &query,
                conditions: &[],
                order: SearchOrder::Newest,
                after: None,
                limit: 2,
            },
            &check_limits,
        )
    });
    assert_eq!((found.err(), checks.get()), (Some(Problem::Busy), 3));
}

#[test]
fn more_fields_than_one_query_names_are_searched() {
    let rig = rig();
    let field = |number: usize| format!("f{number}");
    let indexed = IndexedFields { searchable: (0..450).map(field).collect(), ..indexed() };
    let rows: Vec<RecordFields> = (0..450)
        .map(|number| vec![(field(number), FieldValue::Text(format!("fern {}", number / 10)))])
        .collect();
    fill(&rig, &indexed, &rows);
    assert_eq!(keys(&rig, "fern"), (0..450).rev().collect::<Vec<_>>());
    assert_eq!(keys(&rig, "fern 43"), (430..440).rev().collect::<Vec<_>>());
}

#[test]
fn a_hit_far_into_a_text_without_spaces_has_no_position() {
    let rig = rig();
    // Every token is 64 characters of one run, whose beginning decides where tokens begin.
    let run = |last: &str| format!("{}{last}", "ab".repeat(96_000));
    let rows = [
        message("2026-01-01", &run(" end")),
        message("2026-01-01", &format!("{} fern", "x. ".repeat(60_000))),
    ];
    fill(&rig, &indexed(), &rows);
    let positions = |text: &str| {
        rig.records.read(&permits().1, Instant(1), |view| Ok(all(view, text))).unwrap()
    };
    assert_eq!(positions("end"), [(0, Some(CharRange { start: 192_001, end: 192_004 }))]);
    assert_eq!(positions("fern"), [(1, Some(CharRange { start: 180_001, end: 180_005 }))]);
    let token = "ab".repeat(32);
    assert_eq!(positions(&token), [(0, Some(CharRange { start: 0, end: 64 }))]);
    // Fewer characters before the hit than a search reads backwards, and more.
    for (before, has_position) in [(100_000, true), (150_000, false)] {
        let cut = before % 64;
        let last = format!("{}x", "ab".repeat(cut / 2));
        let text = format!(".{}x", "ab".repeat(before / 2));
        fill(&rig, &indexed(), &[message("2026-01-01", &text)]);
        let start = u64::try_from(1 + before - cut).unwrap();
        let expected = CharRange { start, end: start + last.len() as u64 };
        assert_eq!(positions(&last), [(0, has_position.then_some(expected))], "{before}");
    }
}
