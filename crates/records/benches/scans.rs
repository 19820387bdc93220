//! What do requests cost that no index answers?
//!
//! Measured: storing a stream of records of 365 bytes in batches of 1,000; then, over that stream,
//! the CPU time of filters that match nothing and little, counts by a field, related records of a
//! page, a prefix that few new and many old records have, and a page and a search with a grant of
//! very many keys. The floor of each is a page of 25 records without a condition. All through the
//! operations that `/v1` calls, without HTTP.
//!
//! The corpus is made here, seeded by numbers. Its keys and its times have no order, so that no
//! index has the order of the file; with `--by-time` the times rise. `--million` makes 1,000,000
//! records; without it there are 100,000. `--keep FOLDER` keeps the database, and uses it where it
//! is there already. `--only WORDS` measures the requests whose name has these words.
//!
//! What the numbers do not say: how a cold disk does.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::grant::{Grant, StreamGrant};
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
use stile_testkit::bench::{Plan, compare, cpu, timed};
use stile_testkit::chance::Chance;

fn main() {
    let plan = Plan::from_arguments();
    let count = match (plan.smoke, std::env::args().any(|argument| argument == "--million")) {
        (true, _) => 2_000,
        (false, false) => 100_000,
        (false, true) => 1_000_000,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = argument("--keep").map_or_else(|| folder.path().to_owned(), PathBuf::from);
    let is_there = path.join("records.db").exists();
    let records = Records::open(&StateDir::open(&path).unwrap(), Instant(0)).unwrap();
    let rig = Rig { services: RecordService::new(records) };
    if !is_there {
        rig.fill(count);
    }
    rig.requests(plan, count);
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

struct Rig {
    services: RecordService,
}

fn principal(claim: RecordsClaim) -> Principal {
    Principal::assert_verified("bench", Some("t"), None, Scopes::none(), claim)
}

fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

fn key(number: usize) -> String {
    format!("m{}", number.wrapping_mul(7_919) % 10_000_019)
}

/// A name, who asks, for what of which stream, and the parameters.
type Request<'r> = (&'r str, &'r Principal, (Operation, &'r str), &'r [(&'r str, &'r str)]);

/// The place of a message among all by time.
fn place(number: usize) -> usize {
    static BY_TIME: LazyLock<bool> =
        LazyLock::new(|| std::env::args().any(|one| one == "--by-time"));
    if *BY_TIME { number } else { number.wrapping_mul(104_729) % 1_000_003 }
}

fn message(number: usize) -> RecordFields {
    const SYLLABLES: [&str; 8] = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri"];
    let mut chance = Chance::of(number as u64);
    let text = |text: String| FieldValue::Text(text);
    let mut body = String::new();
    for _ in 0..33 {
        for _ in 0..2 + chance.below(3) {
            body.push_str(SYLLABLES.get(chance.below(8)).unwrap());
        }
        body.push(' ');
    }
    // Many old records have a word with this beginning, and few new ones.
    let is_old = number < 900_000 && number.is_multiple_of(3);
    if is_old || number.is_multiple_of(20_000) {
        body.push_str(&format!("zy{}", number % 997));
    }
    vec![
        ("id".to_owned(), text(key(number))),
        (
            "sent_at".to_owned(),
            text(Instant(1_000_000_000_000_000 + place(number) as i64 * 60_000_000).to_rfc3339()),
        ),
        ("author".to_owned(), text(format!("person {}", number % 97))),
        ("thread".to_owned(), text(format!("t{}", number / 12))),
        ("stars".to_owned(), FieldValue::Number((number % 5).to_string().into())),
        ("folder".to_owned(), text(format!("folder {}", number % 31))),
        ("body".to_owned(), text(body)),
    ]
}

fn thread(number: usize) -> RecordFields {
    let text = |text: String| FieldValue::Text(text);
    vec![("id".to_owned(), text(format!("t{number}"))), ("topic".to_owned(), text("ferns".into()))]
}

fn inferred(rows: &[RecordFields]) -> Declaration {
    let mut inference = Inference::new();
    rows.iter().for_each(|fields| inference.observe(fields));
    inference.finish(KeyChoice::Infer).unwrap().declaration
}

impl Rig {
    fn fill(&self, count: usize) {
        let first: Vec<RecordFields> = (0..1000).map(message).collect();
        let bytes: usize =
            first.iter().map(|fields| stile_domain::records::row::to_json(fields).len()).sum();
        let declaration = inferred(&first);
        let mut took = Duration::ZERO;
        for start in (0..count).step_by(1000) {
            let batch: Vec<RecordFields> = (start..start + 1000).map(message).collect();
            took += timed(|| self.store("messages", &declaration, &batch));
        }
        println!(
            "{count} records of {} bytes: {:.0} a second",
            bytes / 1000,
            count as f64 / took.as_secs_f64()
        );
        let threads: Vec<RecordFields> =
            (0..count / 12).step_by(1 + count / 2400).map(thread).collect();
        let mut declaration = inferred(&threads).to_json().clone();
        declaration["relationships"] = json!([{
            "name": "messages", "stream": "messages", "foreign_key": "thread",
            "cardinality": "has_many",
        }]);
        declaration["query"]["expand"] = json!([{ "name": "messages" }]);
        self.store("threads", &Declaration::parse(&declaration).unwrap(), &threads);
    }

    fn store(&self, stream: &str, declaration: &Declaration, batch: &[RecordFields]) {
        let permit = principal(RecordsClaim::Owner).gate().owner().unwrap();
        let (connection, stream) = (name("bench"), name(stream));
        let written = self.services.records.write(&permit, |writer| {
            let target = match writer.target(&connection, &stream)? {
                Some(target) => target,
                None => {
                    let indexed = indexed_fields(declaration);
                    let declaration = declaration.to_json().to_string();
                    writer.declare(&connection, &stream, &declaration, &indexed)?
                }
            };
            for fields in batch {
                let key = fields.first().and_then(|(_, value)| value.scalar_text()).unwrap();
                let key = RecordKey::parse(key).unwrap();
                let emitted = Instant(0);
                writer.upsert(
                    &target,
                    IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() },
                )?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn answer(
        &self,
        caller: &Principal,
        (operation, stream): (Operation, &str),
        query: &[(&str, &str)],
    ) -> String {
        let target = RequestTarget::new(stream, "", query);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.services.answer(caller, Instant(1), &call, &mut out).unwrap();
        out
    }

    /// Returns a client with a grant of every tenth key.
    fn client_of_keys(&self, count: usize) -> Principal {
        let first = message(0);
        let share = StreamGrant {
            stream: name("messages"),
            connections: [name("bench")].into(),
            fields: first.into_iter().map(|(name, _)| name).collect(),
            time: None,
            keys: Some((0..count).step_by(10).map(key).collect()),
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

    fn requests(&self, plan: Plan, count: usize) {
        use Operation::{AggregateRecords, ListRecords, ListStreams, Search};
        let owner = principal(RecordsClaim::Owner);
        let client = self.client_of_keys(count);
        let (list, count_by) = ((ListRecords, "messages"), (AggregateRecords, "messages"));
        let search = (Search, "");
        let last = format!("person {}", (count - 1) % 97);
        let thread = format!("t{}", count / 24);
        let requests: &[Request<'_>] = &[
            ("filter, matches nothing", &owner, list, &[("filter[author]", "nobody")]),
            ("filter, matches 12 in the middle", &owner, list, &[("filter[thread]", &thread)]),
            ("filter, matches one of 97", &owner, list, &[("filter[author]", &last)]),
            (
                "filter, ascending, matches nothing",
                &owner,
                list,
                &[("filter[author]", "nobody"), ("order", "asc")],
            ),
            ("filter by range, matches nothing", &owner, list, &[("filter[stars][gt]", "5")]),
            ("count by author", &owner, count_by, &[("metric", "count"), ("group_by", "author")]),
            ("sum of stars", &owner, count_by, &[("metric", "sum"), ("field", "stars")]),
            (
                "expand 12 of each of 25",
                &owner,
                (ListRecords, "threads"),
                &[("expand", "messages")],
            ),
            ("prefix, few new and many old", &owner, search, &[("q", "zy*")]),
            ("two middling words", &owner, search, &[("q", "bade kilo")]),
            ("many keys, a page", &client, list, &[]),
            ("many keys, a search", &client, search, &[("q", "zy*")]),
            ("many keys, the streams", &client, (ListStreams, ""), &[]),
            (
                "many keys, a filter, matches nothing",
                &client,
                list,
                &[("filter[author]", "nobody")],
            ),
        ];
        let only = argument("--only");
        let plain = || cpu(|| self.answer(&owner, list, &[]));
        for (what, caller, operation, query) in requests {
            if only.as_ref().is_some_and(|only| !what.contains(only)) {
                continue;
            }
            let ours = || cpu(|| self.answer(caller, *operation, query));
            compare(what, plan.rounds(5), ours, "a page of 25", plain);
        }
    }
}
