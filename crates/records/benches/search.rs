//! How long does a search take, what does it cost beside the bare index, and what does the index
//! cost?
//!
//! Measured: storing the corpus in batches of 10,000; then pages of 25 hits for a mix of queries
//! (rare, middling and common words, two words, a phrase, a prefix) as the owner and as a client
//! whose grant has a time and some of the fields; and a page of the list. All through the
//! operations that `/v1` calls, without HTTP. The floor of a query is the same index asked for the
//! same words, without a grant, a record or an excerpt. Memory is the peak of the process above
//! what it had before.
//!
//! The corpus is made here: records of 2,000 bytes on average, 40 to 10,000, of words drawn so that
//! the word of rank n is n times rarer than the first (Zipf's law) out of 200,000. `--million`
//! makes 1,000,000 records, 2 GB of text; without it there are 20,000. `--keep FOLDER` keeps the
//! database, and uses it where it is there already.
//!
//! What the numbers do not say: how a cold disk does, and how people search.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::grant::{Grant, StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;
use stile_store::records::{IncomingRecord, Records};
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, compare, peak, timed};
use stile_testkit::chance::Chance;

const WORDS: f64 = 200_000.0;
/// Between the mark of a field and its token, as the store writes it.
const MARK_END: char = '\u{80}';

fn main() {
    let plan = Plan::from_arguments();
    let arguments: Vec<String> = std::env::args().collect();
    let kept = arguments
        .iter()
        .position(|argument| argument == "--keep")
        .and_then(|at| arguments.get(at + 1));
    let count = match (plan.smoke, arguments.iter().any(|argument| argument == "--million")) {
        (true, _) => 2_000,
        (false, false) => 20_000,
        (false, true) => 1_000_000,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = kept.map_or_else(|| folder.path().to_owned(), PathBuf::from);
    let is_there = path.join("records.db").exists();
    let records = Records::open(&StateDir::open(&path).unwrap(), Instant(0)).unwrap();
    let rig = Rig {
        services: RecordService::new(records),
        bare: Connection::open(path.join("records.db")).unwrap(),
    };
    if !is_there {
        rig.fill(count, &path);
    }
    rig.searches(plan, count);
}

struct Rig {
    services: RecordService,
    bare: Connection,
}

fn principal(claim: RecordsClaim) -> Principal {
    Principal::assert_verified("bench", Some("t"), None, Scopes::none(), claim)
}

fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

/// The word of a rank, from 0.
fn word(mut rank: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "ze", "shi", "gro",
        "qua", "fle",
    ];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES.get((rank % 16) as usize).unwrap());
        rank /= 16;
        if rank == 0 {
            return word;
        }
    }
}

fn some_word(chance: &mut Chance) -> String {
    let part = chance.below(1 << 30) as f64 / f64::from(1u32 << 30);
    word((part * WORDS.ln()).exp() as u64 - 1)
}

fn words(chance: &mut Chance, count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        text.push_str(&some_word(chance));
        text.push_str(if at % 12 == 11 { ". " } else { " " });
    }
    text
}

fn message(number: usize) -> RecordFields {
    let mut chance = Chance::of(number as u64);
    let text = |text: String| FieldValue::Text(text);
    let most = [12, 60, 200, 400, 900, 1_500];
    let long = most.get(chance.below(most.len())).copied().unwrap();
    let length = 6 + chance.below(long);
    vec![
        ("id".to_owned(), text(format!("m{}", number.wrapping_mul(7_919) % 10_000_019))),
        (
            "sent_at".to_owned(),
            text(Instant(1_000_000_000_000_000 + number as i64 * 60_000_000).to_rfc3339()),
        ),
        ("author".to_owned(), text(format!("person {}", number % 97))),
        ("subject".to_owned(), text(words(&mut chance, 6))),
        ("body".to_owned(), text(words(&mut chance, length))),
    ]
}

impl Rig {
    fn fill(&self, count: usize, path: &Path) {
        let mut raw = 0;
        let mut took = Duration::ZERO;
        let memory = peak(|| {
            for first in (0..count).step_by(10_000) {
                let batch: Vec<RecordFields> =
                    (first..count.min(first + 10_000)).map(message).collect();
                raw += batch
                    .iter()
                    .map(|fields| stile_domain::records::row::to_json(fields).len())
                    .sum::<usize>();
                took += timed(|| self.store(&batch));
            }
        });
        let size: u64 = std::fs::read_dir(path)
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        println!(
            "{count} records, {:.2} GB as JSON: {:.0} a second, {:.1} MB/s; database {:.2} GB, {:.2} times that; peak +{memory} KiB with a batch",
            raw as f64 / 1e9,
            count as f64 / took.as_secs_f64(),
            raw as f64 / 1e6 / took.as_secs_f64(),
            size as f64 / 1e9,
            size as f64 / raw as f64,
        );
    }

    fn store(&self, batch: &[RecordFields]) {
        let permit = principal(RecordsClaim::Owner).gate().owner().unwrap();
        let (connection, stream) = (name("bench"), name("messages"));
        let written = self.services.records.write(&permit, |writer| {
            let target = match writer.target(&connection, &stream)? {
                Some(target) => target,
                None => {
                    let mut inference = Inference::new();
                    batch.iter().for_each(|fields| inference.observe(fields));
                    let declaration = inference.finish(KeyChoice::Infer).unwrap().declaration;
                    let terms = indexed_fields(&declaration);
                    writer.declare(
                        &connection,
                        &stream,
                        &declaration.to_json().to_string(),
                        &terms,
                    )?
                }
            };
            for fields in batch {
                let key = fields.first().and_then(|(_, value)| value.scalar_text()).unwrap();
                let key = RecordKey::parse(key).unwrap();
                writer.upsert(
                    &target,
                    IncomingRecord { key: &key, emitted: Instant(0), fields, streamed: Vec::new() },
                )?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn answer(&self, caller: &Principal, operation: Operation, query: &[(&str, &str)]) -> String {
        let target = RequestTarget::new("messages", "", query);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.services.answer(caller, Instant(1), &call, &mut out).unwrap();
        out
    }

    /// The newest index rows in which these tokens of one field occur.
    fn bare(&self, query: &str) -> usize {
        let text = "SELECT rowid FROM tokens WHERE tokens MATCH ?1 ORDER BY rowid DESC LIMIT 26";
        let mut statement = self.bare.prepare_cached(text).unwrap();
        statement.query_map(params![query], |row| row.get::<_, i64>(0)).unwrap().count()
    }

    fn searches(&self, plan: Plan, count: usize) {
        let tag = |field: &str| -> i64 {
            self.bare
                .query_row("SELECT id FROM tags WHERE field = ?1", [field], |row| row.get(0))
                .unwrap()
        };
        let marks = ["subject", "body"].map(|field| format!("{}{MARK_END}", tag(field)));
        let token = |word: &str| {
            let tokens: Vec<String> =
                marks.iter().map(|mark| format!("\"{mark}{word}\"")).collect();
            format!("({})", tokens.join(" OR "))
        };
        let owner = principal(RecordsClaim::Owner);
        let late = Instant(1_000_000_000_000_000 + count as i64 * 54_000_000).to_rfc3339();
        let late = self.grant(&["id", "sent_at", "subject", "body"], Some(&late));
        let all = self.grant(&["id", "sent_at", "author", "subject", "body"], None);
        let [rare, middling, common] = [150_000, 3_000, 20].map(word);
        let two = [
            ("common common", word(5), word(31)),
            ("common rare", word(8), word(120_001)),
            ("middling middling", word(2_000), word(1_111)),
        ];
        let mut mix: Vec<(String, String, Option<String>)> = vec![
            ("rare".to_owned(), rare.clone(), Some(token(&rare))),
            ("middling".to_owned(), middling.clone(), Some(token(&middling))),
            ("common".to_owned(), common.clone(), Some(token(&common))),
        ];
        for (what, one, other) in &two {
            mix.push((
                (*what).to_owned(),
                format!("{one} {other}"),
                Some(format!("{} AND {}", token(one), token(other))),
            ));
        }
        let phrase = format!("{} {}", word(3), word(9));
        let tokens: Vec<String> =
            marks.iter().map(|mark| format!("\"{mark}{} {mark}{}\"", word(3), word(9))).collect();
        mix.push(("phrase".to_owned(), format!("\"{phrase}\""), Some(tokens.join(" OR "))));
        let beginning = word(40_000).chars().take(6).collect::<String>();
        let tokens: Vec<String> =
            marks.iter().map(|mark| format!("\"{mark}{beginning}\" *")).collect();
        mix.push(("prefix of 6".to_owned(), format!("{beginning}*"), Some(tokens.join(" OR "))));
        let tokens: Vec<String> = marks.iter().map(|mark| format!("\"{mark}ba\" *")).collect();
        mix.push(("prefix of 2".to_owned(), "ba*".to_owned(), Some(tokens.join(" OR "))));
        println!("a page of 25 hits; floor: the bare index asked for the same words");
        let memory = peak(|| {
            for (who, caller) in
                [("owner", &owner), ("all granted", &all), ("a tenth granted", &late)]
            {
                for (what, query, floor) in &mix {
                    let hits = self
                        .answer(caller, Operation::Search, &[("q", query)])
                        .matches("\"search_result\"")
                        .count();
                    // The floor of a short prefix takes seconds.
                    let rounds = plan.rounds(if what == "prefix of 2" { 3 } else { 200 });
                    let label = format!("{what}, {who}, {hits} hits");
                    let floor = floor.as_deref().unwrap();
                    let search = || self.answer(caller, Operation::Search, &[("q", query)]);
                    compare(
                        &label,
                        rounds,
                        || timed(search),
                        "bare index",
                        || timed(|| self.bare(floor)),
                    );
                }
            }
        });
        println!("  peak +{memory} KiB over all of them");
        let page = |caller: &Principal| {
            self.answer(caller, Operation::ListRecords, &[("preview_chars", "512")]).len()
        };
        compare(
            "a page of the list, a tenth granted",
            plan.rounds(500),
            || timed(|| page(&late)),
            "as the owner",
            || timed(|| page(&owner)),
        );
    }

    fn grant(&self, fields: &[&str], since: Option<&str>) -> Principal {
        let time = since
            .map(|since| TimeConstraint::new("sent_at".to_owned(), Instant::parse(since), None));
        let share = StreamGrant {
            stream: name("messages"),
            connections: [name("bench")].into(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            time,
            keys: None,
        };
        let grant = Grant {
            client: "bench".to_owned(),
            purpose: None,
            issued: Instant(0),
            expires: None,
            single_use: false,
            stated: Default::default(),
            streams: vec![share],
        };
        let permit = principal(RecordsClaim::Owner).gate().owner().unwrap();
        let id = self.services.records.grant(&permit, &grant).unwrap().unwrap();
        principal(RecordsClaim::Grant(id.as_str().into()))
    }
}
