//! Search over texts of few words, so that terms are frequent, occur in several fields and pieces,
//! and cross from one piece into the next. Each answer equals the oracle's, to the last page, also
//! after the store was changed.

use serde_json::json;
use stile_domain::records::value::FieldValue;
use stile_records::operations::Operation;
use stile_testkit::chance::{Chance, scaled, seed};

use super::oracle_answers::OracleCheck;
use super::worlds::home::Home;
use super::worlds::model::{Grant, Rec, Stored, World, pick, some};
use super::worlds::oracle::{Oracle, Who};
use super::worlds::{OperationRequest, client, owner};

const WORDS: &[&str] = &[
    "fern", "Ferns", "moss", "the", "water", "Wåter", "wat\u{ad}er", "日本", "語", "é", "foo_bar",
    "ann@example.org", "🙂", "2026-01-02", "https://a.example/x?y", "straße", "fe",
];
const BETWEEN: &[&str] = &[" ", " ", " ", ". ", "\r\n", "-", "", "\u{200d}"];

/// Returns a text of about `chars` characters, half of the time with a word that is nowhere else.
fn text(chance: &mut Chance, chars: usize) -> String {
    let mut text = String::new();
    // Mostly of a few of the words.
    let words: Vec<&str> = (0..1 + chance.below(4)).map(|_| pick(chance, WORDS)).collect();
    let rare = chance.happens(50).then(|| chance.below(chars.max(1)));
    let mut count = 0;
    while count < chars {
        if rare.is_some_and(|at| (count..count + 5).contains(&at)) {
            text.push_str(" zygote glyph ");
        }
        let (word, gap) = (pick(chance, &words), pick(chance, BETWEEN));
        text.push_str(word);
        text.push_str(gap);
        count += word.chars().count() + gap.chars().count();
    }
    text
}

/// Returns a list of texts and of what is no text, often too long to stay in its record.
fn list(chance: &mut Chance) -> String {
    let chars = some(chance, &[3, 20, 20, 300, 300, 5000, 20_000]);
    let count = some(chance, &[0, 1, 2, 3, 5]);
    let members = (0..count).map(|_| match chance.below(8) {
        0 => {
            some(chance, &[json!(7), json!(null), json!(["fern moss"]), json!({ "fern": "moss" })])
        }
        1 => json!(format!("\"{}\\\u{1f}\n\t{}", text(chance, chars), text(chance, 3))),
        _ => json!(text(chance, chars)),
    });
    serde_json::Value::from_iter(members).to_string()
}

fn rewrite(chance: &mut Chance, world: &mut World) {
    for source in &mut world.sources {
        for field in &mut source.decl.fields {
            let may_be = match field.name.as_str() {
                "text" | "id" => field.types().contains(&"string"),
                name => name == "tags" && field.member_types().contains(&"string"),
            };
            field.lexical |= may_be && chance.happens(90);
        }
        for record in source.records.values_mut() {
            if record.field("text").is_none() {
                record.fields.push(("text".to_owned(), FieldValue::Null));
            }
            for (name, value) in &mut record.fields {
                let chars = match name.as_str() {
                    "text" => {
                        some(chance, &[3, 40, 40, 40, 900, 1100, 1100, 8150, 8192, 16_400, 45_000])
                    }
                    "id" | "x.y" => some(chance, &[0, 5, 30]),
                    "tags" => {
                        *value = FieldValue::Json(list(chance));
                        continue;
                    }
                    _ => continue,
                };
                *value = FieldValue::Text(text(chance, chars));
            }
        }
    }
}

fn query(chance: &mut Chance, records: &[&Rec]) -> String {
    let own = |chance: &mut Chance| -> String {
        let texts: Vec<&str> = records
            .iter()
            .filter_map(|record| match record.field("text") {
                Some(FieldValue::Text(text)) => Some(text.as_str()),
                _ => None,
            })
            .chain(records.iter().filter_map(|record| match record.field("tags") {
                Some(FieldValue::Json(list)) => Some(list.as_str()),
                _ => None,
            }))
            .collect();
        if texts.is_empty() {
            return "fern".to_owned();
        }
        let text: Vec<char> = pick(chance, &texts).chars().collect();
        // Over the end of a piece, where there is one.
        let ends = text.len() / 8192;
        let at = match ends {
            0 => chance.below(text.len() + 1),
            _ => 8192 * (1 + chance.below(ends)) - chance.below(60),
        };
        text.iter().skip(at).take(1 + chance.below(120)).collect()
    };
    let parts = (0..some(chance, &[1, 1, 2, 3])).map(|_| match chance.below(8) {
        0 | 1 => pick(chance, WORDS).to_owned(),
        2 => format!("\"{} {}\"", pick(chance, WORDS), pick(chance, WORDS)),
        3 => format!("{}*", pick(chance, &["f", "fe", "wa", "2", "s", "zyg"])),
        4 => "zygote".to_owned(),
        5 => "\"glyph fern\"".to_owned(),
        6 => own(chance),
        _ => format!("\"{}\"", own(chance)),
    });
    parts.collect::<Vec<_>>().join(" ").chars().take(1024).collect()
}

#[test]
fn every_search_equals_a_naive_scan() {
    let (asked, found) = compare_searches(&Home::Sqlite, scaled(3, 2000));
    assert!(found * 20 > asked, "{found} of {asked} searches found something");
}

#[test]
fn every_search_on_postgresql_equals_a_naive_scan() {
    if let Some(home) = Home::on_postgresql("every_search_on_postgresql_equals_a_naive_scan") {
        let (asked, _) = compare_searches(&home, scaled(1, 500));
        assert!(asked > 0, "no search was answered");
    }
}

/// Compares searches of some worlds. Returns how many were answered, and how many found something.
#[expect(clippy::print_stdout, reason = "the seed repeats a run that failed")]
fn compare_searches(home: &Home, worlds: usize) -> (usize, usize) {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (mut asked, mut found) = (0, 0);
    for _ in 0..worlds {
        let mut chance = seeds.fork();
        let mut world = World::random(&mut chance);
        rewrite(&mut chance, &mut world);
        let mut grants: Vec<Grant> =
            (0..2).map(|at| Grant::random(&mut chance, &format!("grt_{at}"))).collect();
        for share in grants.iter_mut().flat_map(|grant| &mut grant.shares) {
            // Enough is to be seen that something is found.
            share.keys = None;
            if !share.fields.iter().any(|field| field == "text") {
                share.fields.push("text".to_owned());
            }
        }
        let stored = Stored::at(home, &mut chance, &world, &grants);
        let records: Vec<&Rec> =
            world.sources.iter().flat_map(|source| source.records.values()).collect();
        for grant in std::iter::once(None).chain(grants.iter().map(Some)) {
            let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
            let oracle = Oracle { world: &world, who: grant.map_or(Who::Owner, Who::Client) };
            let bench = OracleCheck { services: &stored.services, caller, oracle };
            for _ in 0..30 {
                let q = query(&mut chance, &records);
                let order = pick(&mut chance, &["newest", "relevance"]).to_owned();
                let pairs = vec![
                    ("q".to_owned(), q),
                    ("order".to_owned(), order),
                    ("limit".to_owned(), (1 + chance.below(9)).to_string()),
                ];
                let request = OperationRequest {
                    operation: Operation::Search.declaration(),
                    stream: String::new(),
                    key: String::new(),
                    pairs,
                };
                if bench.check(&mut chance, &request) {
                    asked += 1;
                    found += usize::from(!bench.is_empty(&request));
                }
            }
        }
    }
    println!("{found} of {asked} searches found something");
    (asked, found)
}
