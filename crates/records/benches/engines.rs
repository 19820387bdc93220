//! The same requests, on SQLite and on PostgreSQL in turns.
//!
//! Both engines store the same records and long texts, through the same operations without HTTP.
//! Measured: a window of 4,096 characters at the beginning and the end of texts of 100 KB to 100 MB
//! (1 GB with `--gigabyte`), a search for a text at the end of each, a page of 25, a filter that
//! matches few, a filter that matches nothing, filters by value and by range that match very few, a
//! count by a field, and searches. The ratio of each
//! line is PostgreSQL's time by SQLite's. Beside windows and searches within a text: the memory of
//! this process above what it had before. PostgreSQL is a temporary server on a socket of this
//! machine, whose commits do not wait for the disk.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::io::{self, Read};

use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;
use stile_store::postgresql::Database;
use stile_store::records::{IncomingRecord, Records, StreamedField, TextSource};
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, compare, peak, timed};
use stile_testkit::postgres::PostgresServer;

const LINE: &str = "The ferns in the second bed were watered again before noon, said the log. ";
/// A range of a field, in which few records are.
const FEW: [(&str, &str); 2] = [("filter[n][gte]", "7000"), ("filter[n][lt]", "7010")];
const NEEDLE: &str = "the very last words";

/// The records of one engine.
struct Engine {
    services: RecordService,
    owner: Principal,
}

/// A text of some size with the needle at its end.
struct Lines(usize);

impl TextSource for Lines {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        let body = io::repeat(0).take(0);
        let lines = Repeated { at: 0 }.take((self.0 - NEEDLE.len()) as u64);
        Ok(Box::new(body.chain(lines).chain(NEEDLE.as_bytes())))
    }
}

/// The line again and again.
struct Repeated {
    at: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let line = LINE.as_bytes();
        for place in buffer.iter_mut() {
            *place = line.get(self.at % line.len()).copied().unwrap_or(b' ');
            self.at += 1;
        }
        Ok(buffer.len())
    }
}

fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

fn message(number: usize) -> RecordFields {
    let words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron"];
    let word = |at: usize| words.get((number * 7 + at * 13) % words.len()).copied().unwrap_or("");
    let text: Vec<&str> = (0..40).map(word).collect();
    let at =
        format!("2026-{:02}-{:02}T12:{:02}:00Z", 1 + number % 12, 1 + number % 28, number % 60);
    let fields = [
        ("id", format!("m{number}")),
        ("at", at),
        ("kind", format!("kind-{}", number % 1000)),
        ("text", format!("{} w{number}", text.join(" "))),
    ];
    let texts = fields.map(|(name, text)| (name.to_owned(), FieldValue::Text(text)));
    let n = FieldValue::Number((number.wrapping_mul(7_919) % 100_003).to_string().into());
    texts.into_iter().chain([("n".to_owned(), n)]).collect()
}

impl Engine {
    fn new(records: Records) -> Self {
        let claim = RecordsClaim::Owner;
        let owner = Principal::assert_verified("bench", Some("t"), None, Scopes::none(), claim);
        Self { services: RecordService::new(records), owner }
    }

    fn answer(
        &self,
        operation: Operation,
        stream: &str,
        key: &str,
        query: &[(&str, &str)],
    ) -> usize {
        let target = RequestTarget::new(stream, key, query);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.services.answer(&self.owner, Instant(1), &call, &mut out).unwrap();
        out.len()
    }

    fn store_messages(&self, count: usize) {
        let permit = self.owner.gate().owner().unwrap();
        for first in (0..count).step_by(1000) {
            let rows: Vec<_> = (first..count.min(first + 1000)).map(message).collect();
            let written = self.services.records.write(&permit, |batch| {
                let (connection, stream) = (name("bench"), name("messages"));
                let target = match batch.target(&connection, &stream)? {
                    Some(target) => target,
                    None => {
                        let mut inference = Inference::new();
                        rows.iter().for_each(|fields| inference.observe(fields));
                        let found = inference.finish(KeyChoice::Infer).unwrap().declaration;
                        let text = found.to_json().to_string();
                        batch.declare(&connection, &stream, &text, &indexed_fields(&found))?
                    }
                };
                for (at, fields) in rows.iter().enumerate() {
                    let key = RecordKey::parse(&format!("m{}", first + at)).unwrap();
                    let (key, emitted, streamed) = (&key, Instant(0), Vec::new());
                    batch.upsert(&target, IncomingRecord { key, emitted, fields, streamed })?;
                }
                Ok(())
            });
            written.unwrap();
        }
    }

    fn store_text(&self, size: usize) {
        let permit = self.owner.gate().owner().unwrap();
        let written = self.services.records.write(&permit, |batch| {
            let (connection, stream) = (name("bench"), name("texts"));
            let target = match batch.target(&connection, &stream)? {
                Some(target) => target,
                None => {
                    let declaration = serde_json::json!({
                        "schema": { "type": "object", "properties": {
                            "id": { "type": "string" }, "text": { "type": "string" },
                        } },
                        "primary_key": ["id"],
                    });
                    let mut indexed = indexed_fields(&Declaration::parse(&declaration).unwrap());
                    // What is measured is windows, and not the index of words.
                    indexed.searchable.clear();
                    batch.declare(&connection, &stream, &declaration.to_string(), &indexed)?
                }
            };
            let key = RecordKey::parse(&size.to_string()).unwrap();
            let fields = vec![("id".to_owned(), FieldValue::Text(size.to_string()))];
            let mut source = Lines(size);
            let streamed = vec![StreamedField { name: "text", text: &mut source }];
            let (key, emitted, fields) = (&key, Instant(0), &fields);
            batch.upsert(&target, IncomingRecord { key, emitted, fields, streamed })
        });
        written.unwrap();
    }
}

fn main() {
    let plan = Plan::from_arguments();
    let Some(server) = PostgresServer::shared("engines") else { return };
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = Database::open(&database.address()).unwrap();
    let tenant = opened.sole_tenant().unwrap();
    let engines = [
        Engine::new(Records::open_at(&state, &opened, &tenant, Instant(0)).unwrap()),
        Engine::new(Records::open(&state, Instant(0)).unwrap()),
    ];
    let [postgresql, sqlite] = &engines;
    let both = |what: &str, rounds: usize, ask: &dyn Fn(&Engine) -> usize| {
        assert_eq!(ask(postgresql) > 0, ask(sqlite) > 0);
        let rounds = plan.rounds(rounds);
        compare(what, rounds, || timed(|| ask(postgresql)), "SQLite", || timed(|| ask(sqlite)));
    };
    let memory = |ask: &dyn Fn(&Engine) -> usize| {
        let [hosted, file] = [postgresql, sqlite].map(|engine| peak(|| ask(engine)));
        println!("    memory: {hosted} KB, on SQLite {file} KB");
    };
    let mut sizes = vec![100_000, 1_000_000];
    if !plan.smoke {
        sizes.extend([10_000_000, 100_000_000]);
    }
    if std::env::args().any(|argument| argument == "--gigabyte") {
        sizes.push(1_000_000_000);
    }
    for size in sizes {
        let [hosted, file] = [postgresql, sqlite].map(|engine| timed(|| engine.store_text(size)));
        println!("{size} characters stored in {hosted:.2?}, on SQLite in {file:.2?}");
        let key = size.to_string();
        for (place, at) in [("the start", 0), ("the end", size - 4096)] {
            let (what, at) = (format!("window at {place} of {size}"), at.to_string());
            let query = [("field", "text"), ("offset_chars", at.as_str())];
            let window = |it: &Engine| it.answer(Operation::GetFieldWindow, "texts", &key, &query);
            both(&what, 200, &window);
            memory(&window);
        }
        let query = [("field", "text"), ("q", "The VERY last words")];
        let what = format!("`q` at the end of {size}");
        let found = |it: &Engine| it.answer(Operation::GetFieldWindow, "texts", &key, &query);
        both(&what, 5, &found);
        memory(&found);
    }
    let count = if plan.smoke { 500 } else { 100_000 };
    let [hosted, file] = [postgresql, sqlite].map(|engine| timed(|| engine.store_messages(count)));
    println!("{count} records stored in {hosted:.2?}, on SQLite in {file:.2?}");
    let list = |query: &'static [(&str, &str)]| {
        move |it: &Engine| it.answer(Operation::ListRecords, "messages", "", query)
    };
    both("page of 25", 200, &list(&[("limit", "25")]));
    both(
        "filter that matches 1 in 1,000",
        10,
        &list(&[("limit", "25"), ("filter[kind]", "kind-7")]),
    );
    both("filter that matches nothing", 20, &list(&[("filter[kind]", "no such kind")]));
    both("filter that matches 1 in 100,000", 20, &list(&[("filter[id]", "m7")]));
    both("filter by range that matches 10", 20, &list(&FEW));
    both("count of the same", 20, &|it| {
        let query = [("metric", "count"), FEW[0], FEW[1]];
        it.answer(Operation::AggregateRecords, "messages", "", &query)
    });
    let counted = [("metric", "count"), ("group_by", "kind")];
    both("count by a field", 5, &|it| {
        it.answer(Operation::AggregateRecords, "messages", "", &counted)
    });
    // `amber` stands before `fjord` in each record, and before `delta` in none.
    for q in ["heron w77", "\"amber fjord\"", "\"amber delta\"", "w7*", "amber birch"] {
        let query = [("q", q), ("limit", "10")];
        both(&format!("search for {q}"), 20, &|it| it.answer(Operation::Search, "", "", &query));
    }
}
