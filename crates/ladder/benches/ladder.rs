//! What does a tool of the ladder cost on top of its request to the resource server, and what does
//! it save a model?
//!
//! Measured: the CPU time (of all threads) of each tool's call, beside that of the same request
//! with the same parameters through the port, in turns. The request runs on a blocking thread and
//! returns JSON text, as in an async server. Then the bytes that a model is shown for a task, text
//! and structure apart, beside fetching the whole records.
//!
//! The corpus is made here: 2,000 messages of 6 to 2,000 words and one of 1 MB, of made-up words
//! drawn evenly.
//!
//! `--only WORDS` measures the calls whose name has these words.
//!
//! What the numbers do not say: what the transport and the SDK cost (`stile-server`'s benchmarks),
//! and a cold disk.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::time::Duration;

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::request::{
    AggregateRecords, GetFieldWindow, GetRecord, GetSchema, ListRecords, ReadRequest, SearchRecords,
};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;
use stile_ladder::Ladder;
use stile_ladder::port::RecordServer as _;
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_server::stored_records::StoredRecords;
use stile_store::records::{IncomingRecord, Records};
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, compare, cpu};
use stile_testkit::chance::Chance;
use stile_tools::toolset::{Caller, Toolset as _};

const MESSAGES: usize = 2_000;
/// Calls that are timed together, because the clock of CPU time is coarse.
const AT_ONCE: u32 = 20;

struct Rig {
    services: RecordService,
    server: StoredRecords,
    ladder: Ladder,
    owner: Principal,
    runtime: tokio::runtime::Runtime,
}

fn main() {
    let plan = Plan::from_arguments();
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
    let services = RecordService::new(records);
    let rig = Rig {
        server: StoredRecords::new(services.clone(), clock),
        ladder: Ladder::new(StoredRecords::new(services.clone(), clock)),
        services,
        owner: Principal::assert_verified(
            "bench",
            Some("t"),
            None,
            Scopes::none(),
            RecordsClaim::Owner,
        ),
        runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
    };
    rig.fill(if plan.smoke { 200 } else { MESSAGES });
    rig.costs(plan);
    rig.savings();
}

fn clock() -> Instant {
    Instant(2_000_000_000_000_000)
}

fn words(chance: &mut Chance, count: usize) -> String {
    const SYLLABLES: [&str; 8] = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri"];
    let mut text = String::new();
    for at in 0..count {
        for _ in 0..2 + chance.below(3) {
            text.push_str(SYLLABLES.get(chance.below(8)).unwrap());
        }
        text.push_str(if at % 12 == 11 { ". " } else { " " });
    }
    text
}

fn message(number: usize) -> RecordFields {
    let mut chance = Chance::of(number as u64);
    let length = [6, 40, 200, 600, 2_000].get(chance.below(5)).copied().unwrap();
    let mut body = words(&mut chance, length);
    if number == 77 {
        body = words(&mut chance, 70_000)
            + "The zanzibar crate left on Friday. It holds seven lamps. "
            + &words(&mut chance, 70_000);
    }
    let text = |text: String| FieldValue::Text(text);
    vec![
        ("id".to_owned(), text(format!("m{number}"))),
        (
            "sent_at".to_owned(),
            text(Instant(1_000_000_000_000_000 + number as i64 * 60_000_000).to_rfc3339()),
        ),
        ("author".to_owned(), text(format!("person {}", number % 9))),
        ("subject".to_owned(), text(words(&mut chance, 6))),
        ("body".to_owned(), text(body)),
    ]
}

impl Rig {
    fn fill(&self, count: usize) {
        let name = |text: &str| SourceName::parse(text).unwrap();
        let batch: Vec<RecordFields> = (0..count).map(message).collect();
        let mut inference = Inference::new();
        batch.iter().for_each(|fields| inference.observe(fields));
        let declaration = inference.finish(KeyChoice::Infer).unwrap().declaration;
        let owner = self.owner.gate().owner().unwrap();
        let written = self.services.records.write(&owner, |store| {
            let terms = indexed_fields(&declaration);
            let target = store.declare(
                &name("mail"),
                &name("messages"),
                &declaration.to_json().to_string(),
                &terms,
            )?;
            for fields in &batch {
                let key = RecordKey::parse(
                    fields.first().and_then(|(_, value)| value.scalar_text()).unwrap(),
                )
                .unwrap();
                store.upsert(
                    &target,
                    IncomingRecord { key: &key, emitted: Instant(0), fields, streamed: Vec::new() },
                )?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn call(&self, tool: &str, arguments: &Json) -> stile_tools::answer::Answer {
        let tool = self.ladder.find(tool).unwrap();
        let caller = Caller::local(self.owner.clone());
        let call = self.ladder.call(tool, arguments.clone(), &caller);
        let answer = self.runtime.block_on(call).unwrap();
        assert!(answer.failure.is_none(), "{tool}: {}", answer.text);
        answer
    }

    fn ask(&self, ask: &ReadRequest) -> String {
        self.runtime.block_on(self.server.send(&self.owner, ask.clone())).unwrap()
    }

    fn costs(&self, plan: Plan) {
        let search = |q: &str| SearchRecords {
            q: Some(q.to_owned()),
            cursors: Some("each"),
            ..SearchRecords::default()
        };
        let mail = || Some("mail".to_owned()).into();
        let window = || GetFieldWindow {
            stream: "messages".to_owned(),
            key: "m77".to_owned(),
            field: Some("body".to_owned()),
            connection: mail(),
            ..GetFieldWindow::default()
        };
        let id = "mail/messages:m77";
        let is_short = |number: &usize| {
            message(*number)
                .iter()
                .all(|(_, value)| value.scalar_text().is_some_and(|text| text.len() < 400))
        };
        let short = format!("m{}", (0..200).find(is_short).unwrap());
        let cases: [(&str, &str, Json, ReadRequest); 8] = [
            (
                "schema of a stream",
                "schema",
                json!({ "stream": "messages" }),
                GetSchema {
                    view: Some("compact"),
                    stream: Some("messages".to_owned()),
                    ..GetSchema::default()
                }
                .into(),
            ),
            (
                "search, 25 hits of a common word",
                "search",
                json!({ "q": "ba*" }),
                search("ba*").into(),
            ),
            (
                "search, one hit in 1 MB",
                "search",
                json!({ "q": "zanzibar" }),
                search("zanzibar").into(),
            ),
            (
                "query_records, 25",
                "query_records",
                json!({ "stream": "messages" }),
                ListRecords {
                    stream: "messages".to_owned(),
                    preview_chars: Some(512),
                    preview_bytes: Some(8192),
                    cursors: Some("each"),
                    ..ListRecords::default()
                }
                .into(),
            ),
            (
                "aggregate by author",
                "aggregate",
                json!({ "stream": "messages", "metric": "count", "group_by": "author" }),
                AggregateRecords {
                    stream: "messages".to_owned(),
                    metric: Some("count"),
                    group_by: vec!["author".to_owned()],
                    ..AggregateRecords::default()
                }
                .into(),
            ),
            (
                "fetch, a short record",
                "fetch",
                json!({ "id": format!("mail/messages:{short}") }),
                GetRecord {
                    stream: "messages".to_owned(),
                    key: short.clone(),
                    preview_chars: Some(512),
                    preview_bytes: Some(8192),
                    connection: mail(),
                    ..GetRecord::default()
                }
                .into(),
            ),
            (
                "read_record_field, 4096 of 1 MB",
                "read_record_field",
                json!({ "id": id, "field_path": "body", "offset_chars": 400_000 }),
                GetFieldWindow { offset_chars: Some(400_000), limit_chars: Some(4096), ..window() }
                    .into(),
            ),
            (
                "read_record_field, around a text in 1 MB",
                "read_record_field",
                json!({ "id": id, "field_path": "body", "q": "zanzibar" }),
                GetFieldWindow {
                    q: Some("zanzibar".to_owned()),
                    before_chars: Some(2048),
                    after_chars: Some(2048),
                    ..window()
                }
                .into(),
            ),
        ];
        println!("CPU of {AT_ONCE} calls");
        let words: Vec<String> = std::env::args().collect();
        let only = words.iter().position(|word| word == "--only").and_then(|at| words.get(at + 1));
        for (what, tool, arguments, ask) in cases {
            if only.is_some_and(|only| !what.contains(only)) {
                continue;
            }
            let ours = || many(|| drop(self.call(tool, &arguments)));
            let theirs = || many(|| drop(self.ask(&ask)));
            compare(what, plan.rounds(40), ours, "the same at /v1", theirs);
        }
    }

    /// Counts what a model is shown until it has the sentence after the match.
    fn savings(&self) {
        let search = self.call("search", &json!({ "q": "zanzibar crate" }));
        let tree = search.to_tree();
        let read = tree.pointer("/content_ladder/entries/0/read/args").cloned().unwrap_or_default();
        let window = self.call("read_record_field", &read);
        assert!(window.text.contains("It holds seven lamps."));
        let text = search.text.len() + window.text.len();
        let structured = search.to_tree().to_string().len() + window.to_tree().to_string().len();
        let whole = self
            .ask(&ReadRequest::Record(GetRecord {
                stream: "messages".to_owned(),
                key: "m77".to_owned(),
                ..GetRecord::default()
            }))
            .len();
        println!(
            "the sentence after a match in 1 MB: {text} bytes of text or {structured} of structure in 2 calls; the whole record {whole}"
        );
        let list = self.call("query_records", &json!({ "stream": "messages" }));
        let page = self
            .ask(&ReadRequest::Records(ListRecords {
                stream: "messages".to_owned(),
                ..ListRecords::default()
            }))
            .len();
        println!(
            "a page of 25: {} bytes of text or {} of structure; whole records {page}",
            list.text.len(),
            list.to_tree().to_string().len()
        );
    }
}

fn many(work: impl Fn()) -> Duration {
    cpu(|| (0..AT_ONCE).for_each(|_| work()))
}
