//! Tests of the index of words: what it has after any writes, how the database finds its rows, and
//! how many statements that takes.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::tokenizer::{ParsedQuery, matches};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_testkit::chance::{Chance, seed};
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::pending_words::{APPEND, DELETE_BLOCKS, PUT, STORED_BLOCKS};
use super::postings::{BLOCK_BYTES, BlockReader, TextWords};
use super::search::{NEWEST_BLOCKS, PARTS, PREFIXES};
use super::*;
use crate::postgresql::tests::open_as_servers_do;
use crate::postgresql::{TenantSql, Values, params};
use crate::records::sqlite::tests::{incoming, indexed, message, messages, permits};
use crate::records::{RecordSearchQuery, Records, SearchOrder};

struct Hosted {
    records: Records,
    opened: Database,
    database: TestDatabase,
    _folder: tempfile::TempDir,
}

fn hosted(test: &str) -> Option<Hosted> {
    let database = PostgresServer::shared(test)?.database();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = open_as_servers_do(&database);
    let tenant = opened.sole_tenant().unwrap();
    let records = Records::open_at(&state, &opened, &tenant, Instant(0)).unwrap();
    Some(Hosted { records, opened, database, _folder: folder })
}

/// A posting: the tag, the token, the number of the text, and the places.
type Entry = (i64, Vec<u8>, i64, Vec<u64>);

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

impl Hosted {
    fn rows(&self, text: &str) -> Vec<Vec<String>> {
        let rows = self.database.run(text);
        rows.lines().map(|row| row.split('|').map(str::to_owned).collect()).collect()
    }

    /// Returns what the words of all texts say.
    fn entries_of_texts(&self) -> BTreeSet<Entry> {
        let mut entries = BTreeSet::new();
        for row in self.rows("SELECT number, encode(words, 'hex') FROM stile.text_words") {
            let words = bytes(&row[1]);
            for ((tag, token), places) in TextWords::parse(&words).unwrap().0 {
                let places = super::postings::Places(&places).to_vec().unwrap();
                entries.insert((tag, token.to_vec(), row[0].parse().unwrap(), places));
            }
        }
        entries
    }

    /// Returns what the blocks say, after a look at their order.
    fn entries_of_blocks(&self) -> BTreeSet<Entry> {
        let text = "SELECT tag, encode(token, 'hex'), first, encode(postings, 'hex') \
                    FROM stile.word_blocks ORDER BY tag, token, first";
        let (mut entries, mut last) = (BTreeSet::new(), BTreeMap::new());
        for row in self.rows(text) {
            let (tag, token): (i64, _) = (row[0].parse().unwrap(), bytes(&row[1]));
            let before = last.entry((tag, token.clone())).or_insert(0);
            let first: i64 = row[2].parse().unwrap();
            assert!(*before < first, "a block begins after the block before");
            let postings = bytes(&row[3]);
            // The last posting of a block may be that of a piece with the word in all places.
            assert!(postings.len() < BLOCK_BYTES + 8192, "{}", postings.len());
            let mut reader = BlockReader::new(&postings);
            let mut is_empty = true;
            while let Some((number, places)) = reader.next().unwrap() {
                assert!(number >= first && number > *before, "{number} {first} {before}");
                (*before, is_empty) = (number, false);
                entries.insert((tag, token.clone(), number, places.to_vec().unwrap()));
            }
            assert!(!is_empty, "no row is left without a posting");
        }
        entries
    }

    fn found(&self, query: &str) -> BTreeSet<String> {
        let query = &ParsedQuery::parse(query);
        let all = |view: &crate::records::RecordsView<'_>| {
            let sources = view.sources_of("messages", None)?;
            let search = RecordSearchQuery {
                query,
                conditions: &[],
                order: SearchOrder::Newest,
                after: None,
                limit: 100_000,
            };
            Ok(view.find_text(&sources, search, &|| Ok(()))?.hits)
        };
        let hits = self.records.read(&permits().1, Instant(1), all).unwrap();
        hits.into_iter().map(|hit| hit.row.key).collect()
    }

    fn put(&self, rows: impl Iterator<Item = (String, RecordFields)>) {
        let stored = self.records.write(&permits().0, |batch| {
            let target = messages(batch, &indexed())?;
            for (key, fields) in rows {
                let key = RecordKey::parse(&key).unwrap();
                batch.upsert(&target, incoming(&key, &fields))?;
            }
            Ok(())
        });
        stored.unwrap();
    }
}

const WORDS: [&str; 9] = ["the", "of", "fern", "moss", "ferns", "rare", "fe", "zygote", "the the"];

fn text(chance: &mut Chance) -> String {
    // A long text has pieces of its own.
    let count = if chance.happens(2) { 4000 } else { 1 + chance.below(8) };
    // The first words are frequent.
    let mut word = || {
        let most = 1 + chance.below(WORDS.len());
        WORDS[chance.below(most)]
    };
    (0..count).map(|_| word()).collect::<Vec<_>>().join(" ")
}

#[test]
fn after_any_writes_the_blocks_have_what_the_texts_say_and_searches_find_it() {
    let test = "after_any_writes_the_blocks_have_what_the_texts_say_and_searches_find_it";
    let Some(hosted) = hosted(test) else { return };
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let both = IndexedFields { searchable: ["note".into(), "text".into()].into(), ..indexed() };
    let mut world: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for round in 0..12 {
        let many = if round < 3 { 700 } else { 40 };
        let write = hosted.records.write(&permits().0, |batch| {
            let target = messages(batch, &both)?;
            let mut late = Vec::new();
            for _ in 0..many {
                let key = format!("k{}", chance.below(900));
                if chance.happens(20) {
                    batch.delete(&target, &key)?;
                    world.remove(&key);
                    continue;
                }
                let own = [text(&mut chance), text(&mut chance)];
                let day = format!("2026-01-{:02}", 1 + chance.below(28));
                let mut fields = message(&day, &own[0]);
                fields.push(("note".to_owned(), FieldValue::Text(own[1].clone())));
                // A record without words gets some after newer records.
                if chance.happens(20) {
                    let without = message(&day, "")[..1].to_vec();
                    late.push((key.clone(), std::mem::replace(&mut fields, without), own));
                } else {
                    world.insert(key.clone(), own);
                }
                batch.upsert(&target, incoming(&RecordKey::parse(&key).unwrap(), &fields))?;
            }
            for (key, fields, own) in late.drain(..) {
                batch.upsert(&target, incoming(&RecordKey::parse(&key).unwrap(), &fields))?;
                world.insert(key, own);
            }
            Ok(())
        });
        write.unwrap();
        if round % 4 == 3 {
            let of_texts = hosted.entries_of_texts();
            assert!(of_texts == hosted.entries_of_blocks(), "round {round}");
        }
    }
    for query in [
        "the", "rare", "fern moss", "\"the of\"", "\"the the of\"", "fe*", "f* rare", "zyg* -the",
        "the -moss", "nothing", "of the fern moss rare zygote",
    ] {
        let parsed = ParsedQuery::parse(query);
        let naive: BTreeSet<String> = world
            .iter()
            .filter(|(_, [text, note])| matches(&[text, note], &parsed))
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(hosted.found(query), naive, "{query}");
    }
    let keys: Vec<String> = world.into_keys().collect();
    let removed = hosted.records.write(&permits().0, |batch| {
        let target = messages(batch, &both)?;
        keys.iter().try_for_each(|key| batch.delete(&target, key).map(drop))
    });
    removed.unwrap();
    let left =
        "SELECT count(*) FROM stile.text_words UNION ALL SELECT count(*) FROM stile.word_blocks";
    assert_eq!(hosted.database.run(left), "0\n0\n", "nothing is left of removed records");
}

#[test]
fn a_change_of_one_word_leaves_the_blocks_of_the_others_alone() {
    let test = "a_change_of_one_word_leaves_the_blocks_of_the_others_alone";
    let Some(hosted) = hosted(test) else { return };
    hosted.put((0..50).map(|at| (format!("k{at}"), message("2026-01-01", "fern moss rare"))));
    let blocks = || hosted.rows("SELECT encode(token, 'escape'), xmin FROM stile.word_blocks");
    let before = blocks();
    hosted.put([("k7".to_owned(), message("2026-01-01", "fern moss zygote"))].into_iter());
    let after = blocks();
    let same = |word: &str| {
        let row = |rows: &[Vec<String>]| rows.iter().find(|row| row[0] == word).cloned();
        row(&before) == row(&after)
    };
    assert_eq!(["fern", "moss", "rare", "zygote"].map(same), [true, true, false, false]);
}

/// Returns how PostgreSQL runs a statement as the user of the servers.
fn plan(hosted: &Hosted, sql: &TenantSql, values: Values<'_>) -> String {
    let tenant = hosted.opened.sole_tenant().unwrap();
    let connection = hosted.opened.write_of(&tenant).unwrap();
    let explain = sql.clone().with_head("EXPLAIN (COSTS OFF) ");
    let rows = connection.rows(&explain, values).unwrap();
    connection.roll_back();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

#[test]
fn below_row_level_security_each_statement_finds_its_blocks_by_the_primary_key() {
    let test = "below_row_level_security_each_statement_finds_its_blocks_by_the_primary_key";
    let Some(hosted) = hosted(test) else { return };
    let words = |at: usize| format!("fern moss word{} rare{}", at % 50, at);
    hosted.put((0..3000).map(|at| (format!("k{at}"), message("2026-01-01", &words(at)))));
    // The plan is the same whether or not anybody has counted what the tables have.
    assert_plans(&hosted);
    hosted.database.run("ANALYZE");
    assert_plans(&hosted);
}

/// Returns whether a line of a plan reads an index of a partition by its primary key.
fn is_step_down(line: &str) -> bool {
    line.contains("using word_blocks_") && line.contains("_pkey on word_blocks_")
}

/// Returns the partitions whose rows a plan reads.
fn partitions_of(plan: &str) -> BTreeSet<&str> {
    let reads = plan.lines().filter(|line| line.contains("Scan"));
    let names = reads.filter_map(|line| line.split_once(" on word_blocks_")?.1.split(' ').next());
    names.collect()
}

fn assert_plans(hosted: &Hosted) {
    let (one, text): (Vec<i64>, Vec<&[u8]>) = (vec![1], vec![b"fern"]);
    let (last, limit, most) = (i64::MAX, 32_i64, 1024_i32);
    let statements: [(&str, String); 7] = [
        ("newest", plan(hosted, &NEWEST_BLOCKS, params![one, text, last, limit])),
        ("parts", plan(hosted, &PARTS, params![one, one, text, one, one])),
        ("prefixes", plan(hosted, &PREFIXES, params![one, text, text])),
        ("append", plan(hosted, &APPEND, params![one, text, one, text, most])),
        ("put", plan(hosted, &PUT, params![one, text, one, text])),
        ("stored", plan(hosted, &STORED_BLOCKS, params![one, text, one])),
        ("delete", plan(hosted, &DELETE_BLOCKS, params![one, text, one])),
    ];
    for (name, plan) in &statements {
        // A table as a whole is never read, and a condition on a token is never a filter.
        assert!(!plan.contains("Seq Scan on word_blocks"), "{name}\n{plan}");
        assert_eq!(partitions_of(plan).len(), usize::from(*name != "put"), "{name}\n{plan}");
        let filters = plan.lines().filter(|line| line.contains("Filter:"));
        assert!(!filters.clone().any(|line| line.contains("token")), "{name}\n{plan}");
        let reads = plan.lines().filter(|line| is_step_down(line)).count();
        let keys = plan.lines().filter(|line| {
            line.contains("Index Cond:") && line.contains("tag") && line.contains("token")
        });
        assert_eq!(keys.count(), reads, "{name}\n{plan}");
        assert!(*name == "put" || reads > 0, "{name}\n{plan}");
    }
}
