//! Does a window cost what the window costs, and what do a page, a grant and an import cost?
//!
//! Measured: a window of 4,096 characters at the beginning, the middle and the end of texts of 100
//! KB to 1 GB, and a search for a text at the end of each, beside SQL over the same text in one
//! row; a page of 25 records of 100,000 (of 1,000,000 with `--million`), by the owner and by a
//! client whose grant has a time and half of the fields; storing small records and long ones,
//! beside bare inserts of the same bytes. All through the operations that `/v1` calls, without
//! HTTP. Memory is the peak of the process above what it had before, reset for each line.
//!
//! `--without-windows` leaves out the first part, which needs 2 GB of disk and a minute.
//!
//! The corpus is made here: numbered sentences, seeded by their number. What the numbers do not
//! say: how a cold disk does, or how long a real export's rows are.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::io::{self, Read};
use std::time::Duration;

use rusqlite::{Connection, params};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::declaration::Declaration;
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
use stile_store::records::{IncomingRecord, Records, StreamedField, TextSource};
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, compare, cpu, peak, timed};

const NEEDLE: &str = "the very last words";

fn main() {
    let plan = Plan::from_arguments();
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
    let rig = Rig {
        services: RecordService::new(records),
        plain: plain(&folder.path().join("plain.db")),
    };
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--without-windows") {
        rig.windows(plan);
    }
    rig.import(plan);
    indexing(plan);
    rig.pages(plan);
    opening(plan, folder.path());
}

/// The same records are stored with the index by value and without it, each time in a new database.
fn indexing(plan: Plan) {
    println!("processor time of an import; floor: the same without the index by value");
    let count = if plan.smoke { 2_100 } else { 50_000 };
    let store = |run_records: Option<u32>| {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
        if let Some(run_records) = run_records {
            records.set_run_records(run_records);
        }
        let plain = Connection::open_in_memory().unwrap();
        let rig = Rig { services: RecordService::new(records), plain };
        cpu(|| rig.store("messages", (0..count).map(message)))
    };
    let what = format!("{count} small records");
    compare(&what, plan.rounds(7), || store(None), "no index", || store(Some(u32::MAX)));
}

/// A database is opened and asked for a stream, beside one that is empty but for that.
fn opening(plan: Plan, full: &std::path::Path) {
    println!(
        "opening a database and reading a record; floor: the same of one with a single record"
    );
    let size: u64 =
        std::fs::read_dir(full).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let small = tempfile::tempdir().unwrap();
    let open = |folder: &std::path::Path| {
        Records::open(&StateDir::open(folder).unwrap(), Instant(0)).unwrap()
    };
    let rig = Rig {
        services: RecordService::new(open(small.path())),
        plain: plain(&small.path().join("plain.db")),
    };
    rig.store("messages", (0..1).map(message));
    let owner = principal(RecordsClaim::Owner);
    let first = |folder: &std::path::Path| {
        let rig = Rig {
            services: RecordService::new(open(folder)),
            plain: Connection::open_in_memory().unwrap(),
        };
        rig.answer(&owner, Operation::ListRecords, "messages", "", &[("limit", "1")])
    };
    let what = format!("{} on disk", bytes(usize::try_from(size).unwrap()));
    compare(
        &what,
        plan.rounds(20),
        || timed(|| first(full)),
        "one record",
        || timed(|| first(small.path())),
    );
}

struct Rig {
    services: RecordService,
    plain: Connection,
}

/// The same database settings, with each record as JSON in one row.
fn plain(path: &std::path::Path) -> Connection {
    let plain = Connection::open(path).unwrap();
    plain
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768",
        )
        .unwrap();
    plain
        .execute_batch(
            "CREATE TABLE texts (size INTEGER PRIMARY KEY, text TEXT);
             CREATE TABLE records (key TEXT PRIMARY KEY, at TEXT, data TEXT);
             CREATE INDEX by_time ON records (at, key);",
        )
        .unwrap();
    plain
}

fn principal(claim: RecordsClaim) -> Principal {
    Principal::assert_verified("bench", Some("t"), None, Scopes::none(), claim)
}

fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

/// Numbered sentences up to a size, with the needle at the end.
struct Sentences {
    size: usize,
}

struct Saying {
    next: u64,
    held: Vec<u8>,
    left: usize,
}

impl TextSource for Sentences {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(Saying { next: 0, held: Vec::new(), left: self.size - NEEDLE.len() }))
    }
}

impl Read for Saying {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.held.is_empty() {
            let text = format!(
                "Sentence {} says that the ferns were watered on day {}. ",
                self.next,
                self.next % 365
            );
            self.next += 1;
            let mut bytes = text.into_bytes();
            if bytes.len() >= self.left {
                bytes.truncate(self.left);
                if self.left > 0 {
                    bytes.extend(NEEDLE.as_bytes());
                }
                self.left = 0;
            } else {
                self.left -= bytes.len();
            }
            self.held = bytes;
        }
        let taken = self.held.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.held[..taken]);
        self.held.drain(..taken);
        Ok(taken)
    }
}

impl Rig {
    fn answer(
        &self,
        caller: &Principal,
        operation: Operation,
        stream: &str,
        key: &str,
        query: &[(&str, &str)],
    ) -> usize {
        let target = RequestTarget::new(stream, key, query);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.services.answer(caller, Instant(1), &call, &mut out).unwrap();
        out.len()
    }

    fn windows(&self, plan: Plan) {
        println!("windows of 4,096 characters; floor: substr() and instr() of the text in one row");
        let sizes: &[usize] = if plan.smoke {
            &[100_000, 1_000_000]
        } else {
            &[100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
        };
        let owner = principal(RecordsClaim::Owner);
        for &size in sizes {
            let seeded = timed(|| self.seed_text(size));
            println!(
                "{} seeded in {:.2} s, {:.0} MB/s",
                bytes(size),
                seeded.as_secs_f64(),
                size as f64 / 1e6 / seeded.as_secs_f64()
            );
            let key = size.to_string();
            let floor = size.min(100_000_000);
            for (place, at) in [("start", 0), ("middle", size / 2), ("end", size - 4096)] {
                let at_text = at.to_string();
                let window = || {
                    self.answer(
                        &owner,
                        Operation::GetFieldWindow,
                        "texts",
                        &key,
                        &[("field", "text"), ("offset_chars", &at_text)],
                    )
                };
                window();
                let memory = peak(window);
                let rounds = plan.rounds(if size > 1_000_000 { 60 } else { 500 });
                // Beside the floor, which reads all of a long text, ours finds the processor's
                // caches emptied.
                let mut alone: Vec<Duration> = (0..rounds).map(|_| timed(window)).collect();
                alone.sort_unstable();
                let alone = alone[alone.len() / 2].as_micros();
                let label =
                    format!("{} {place}, peak +{memory} KiB, alone {alone} µs", bytes(size));
                let rounds = if floor > 10_000_000 { rounds.min(9) } else { rounds };
                compare(
                    &label,
                    rounds,
                    || timed(window),
                    &format!("{} in one row", bytes(floor)),
                    || timed(|| self.plain_window(floor, at.min(floor - 4096))),
                );
            }
            let search = || {
                self.answer(
                    &owner,
                    Operation::GetFieldWindow,
                    "texts",
                    &key,
                    &[("field", "text"), ("q", "The VERY last words")],
                )
            };
            search();
            let memory = peak(search);
            let rounds = plan.rounds(if size > 1_000_000 { 5 } else { 50 });
            let mut fastest = Duration::MAX;
            compare(
                &format!("{} q at the end, peak +{memory} KiB", bytes(size)),
                rounds,
                || {
                    let took = timed(search);
                    fastest = fastest.min(took);
                    took
                },
                &format!("{} in one row", bytes(floor)),
                || timed(|| self.plain_search(floor)),
            );
            println!("  {:.0} MB/s at best", size as f64 / 1e6 / fastest.as_secs_f64());
        }
    }

    fn seed_text(&self, size: usize) {
        let permit = principal(RecordsClaim::Owner).gate().owner().unwrap();
        let stored = self.services.records.write(&permit, |batch| {
            let (connection, stream) = (name("bench"), name("texts"));
            let target = match batch.target(&connection, &stream)? {
                Some(target) => target,
                None => {
                    // Not searchable: what is measured here is windows. Imports are measured with
                    // the index.
                    let declaration = serde_json::json!({
                        "schema": { "type": "object", "properties": { "id": { "type": "string" }, "text": { "type": "string" } } },
                        "primary_key": ["id"],
                    });
                    let parsed = Declaration::parse(&declaration).unwrap();
                    let mut terms = indexed_fields(&parsed);
                    terms.searchable.clear();
                    batch.declare(&connection, &stream, &declaration.to_string(), &terms)?
                }
            };
            let key = RecordKey::parse(&size.to_string()).unwrap();
            let fields = vec![("id".to_owned(), FieldValue::Text(size.to_string()))];
            let mut source = Sentences { size };
            let long = vec![StreamedField { name: "text", text: &mut source }];
            let record = IncomingRecord {
                key: &key,
                emitted: Instant(0),
                fields: &fields,
                streamed: long,
            };
            batch.upsert(&target, record)
        });
        stored.unwrap();
        if size <= 100_000_000 {
            let mut text = String::new();
            Sentences { size }.open().unwrap().read_to_string(&mut text).unwrap();
            self.plain
                .execute("INSERT INTO texts VALUES (?1, ?2)", params![size as i64, text])
                .unwrap();
        }
    }

    fn plain_window(&self, size: usize, at: usize) -> usize {
        let query = "SELECT substr(text, ?2 + 1, 4096), length(text) FROM texts WHERE size = ?1";
        let mut query = self.plain.prepare_cached(query).unwrap();
        query
            .query_row(params![size as i64, at as i64], |row| Ok(row.get::<_, String>(0)?.len()))
            .unwrap()
    }

    fn plain_search(&self, size: usize) -> usize {
        let query = "SELECT instr(lower(text), ?2) FROM texts WHERE size = ?1";
        self.plain
            .prepare_cached(query)
            .unwrap()
            .query_row(params![size as i64, NEEDLE], |row| row.get::<_, i64>(0))
            .unwrap() as usize
    }

    fn import(&self, plan: Plan) {
        println!(
            "import, in batches of 1,000 with full synchronisation; floor: the same rows as JSON, two indexes, no search"
        );
        let count = match (plan.smoke, std::env::args().any(|argument| argument == "--million")) {
            (true, _) => 2_000,
            (false, false) => 100_000,
            (false, true) => 1_000_000,
        };
        let rows = move || (0..count).map(message);
        let mut ours = Duration::ZERO;
        let memory = peak(|| ours = timed(|| self.store("messages", rows())));
        let floor = timed(|| self.store_plain(rows()));
        rate("small records", count, ours, floor, memory);
        let rows = move || (0..count / 100).map(article);
        let memory = peak(|| ours = timed(|| self.store("articles", rows())));
        let floor = timed(|| self.store_plain(rows()));
        let size: usize = article(1).iter().map(|(_, value)| value.to_json().len()).sum();
        rate(&format!("records of {size} bytes"), count / 100, ours, floor, memory);
        println!("  {:.1} MB/s", (size * count / 100) as f64 / 1e6 / ours.as_secs_f64());
    }

    fn store(&self, stream: &str, mut rows: impl Iterator<Item = RecordFields>) -> usize {
        let permit = principal(RecordsClaim::Owner).gate().owner().unwrap();
        let (connection, stream) = (name("bench"), name(stream));
        let mut stored = 0;
        loop {
            let batch: Vec<RecordFields> = rows.by_ref().take(1000).collect();
            if batch.is_empty() {
                return stored;
            }
            let written = self.services.records.write(&permit, |writer| {
                let target = match writer.target(&connection, &stream)? {
                    Some(target) => target,
                    None => {
                        let mut inference = Inference::new();
                        batch.iter().for_each(|fields| inference.observe(fields));
                        let declaration = inference.finish(KeyChoice::Infer).unwrap().declaration;
                        writer.declare(
                            &connection,
                            &stream,
                            &declaration.to_json().to_string(),
                            &indexed_fields(&declaration),
                        )?
                    }
                };
                for fields in &batch {
                    let key = RecordKey::parse(fields[0].1.scalar_text().unwrap()).unwrap();
                    writer.upsert(
                        &target,
                        IncomingRecord {
                            key: &key,
                            emitted: Instant(0),
                            fields,
                            streamed: Vec::new(),
                        },
                    )?;
                }
                Ok(batch.len())
            });
            stored += written.unwrap();
        }
    }

    fn store_plain(&self, mut rows: impl Iterator<Item = RecordFields>) -> usize {
        let mut stored = 0;
        loop {
            let batch: Vec<RecordFields> = rows.by_ref().take(1000).collect();
            if batch.is_empty() {
                return stored;
            }
            let transaction = self.plain.unchecked_transaction().unwrap();
            for fields in &batch {
                let data = stile_domain::records::row::to_json(fields);
                let text = |at: usize| fields[at].1.scalar_text().unwrap().to_owned();
                let insert = "INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3)";
                transaction
                    .prepare_cached(insert)
                    .unwrap()
                    .execute(params![text(0), text(1), data])
                    .unwrap();
            }
            transaction.commit().unwrap();
            stored += batch.len();
        }
    }

    fn pages(&self, plan: Plan) {
        println!("a page of 25 records; floor: the same rows as JSON by an index");
        let owner = principal(RecordsClaim::Owner);
        let rounds = plan.rounds(2000);
        let plain = || {
            let query = "SELECT data FROM records ORDER BY at DESC, key DESC LIMIT 25";
            let mut query = self.plain.prepare_cached(query).unwrap();
            query
                .query_map([], |row| Ok(row.get::<_, String>(0)?.len()))
                .unwrap()
                .map(Result::unwrap)
                .sum::<usize>()
        };
        let page = |caller: &Principal| {
            self.answer(caller, Operation::ListRecords, "messages", "", &[("preview_chars", "512")])
        };
        compare("as the owner", rounds, || timed(|| page(&owner)), "bare SQL", || timed(plain));
        let all =
            self.grant(["id", "sent_at", "author", "thread", "stars", "text"].into_iter(), None);
        compare(
            "with a grant of all",
            rounds,
            || timed(|| page(&all)),
            "as the owner",
            || timed(|| page(&owner)),
        );
        let some = self.grant(["sent_at", "author", "text"].into_iter(), Some("2001-01-01"));
        compare(
            "with a time and half of the fields",
            rounds,
            || timed(|| page(&some)),
            "as the owner",
            || timed(|| page(&owner)),
        );
    }

    fn grant<'f>(&self, fields: impl Iterator<Item = &'f str>, since: Option<&str>) -> Principal {
        let time = since
            .map(|since| TimeConstraint::new("sent_at".to_owned(), Instant::parse(since), None));
        let share = StreamGrant {
            stream: name("messages"),
            connections: [name("bench")].into(),
            fields: fields.map(str::to_owned).collect(),
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

fn message(number: usize) -> RecordFields {
    let text = |text: String| FieldValue::Text(text);
    vec![
        ("id".to_owned(), text(format!("m{}", number.wrapping_mul(7_919) % 10_000_019))),
        (
            "sent_at".to_owned(),
            text(Instant(1_000_000_000_000_000 + number as i64 * 60_000_000).to_rfc3339()),
        ),
        ("author".to_owned(), text(format!("person {}", number % 97))),
        ("thread".to_owned(), text(format!("t{}", number / 12))),
        ("stars".to_owned(), FieldValue::Number((number % 5).to_string().into())),
        (
            "text".to_owned(),
            text(format!(
                "Message {number}: the ferns on shelf {} want water, and so do we.",
                number % 31
            )),
        ),
    ]
}

fn article(number: usize) -> RecordFields {
    let mut fields = message(number);
    let body: String = (0..300)
        .map(|line| {
            format!("Line {line} of article {number} is about plant {}. ", (line * number) % 1009)
        })
        .collect();
    fields.push(("body".to_owned(), FieldValue::Text(body)));
    fields
}

fn rate(what: &str, count: usize, ours: Duration, floor: Duration, memory: u64) {
    let each = |took: Duration| count as f64 / took.as_secs_f64();
    println!(
        "{what:<28} {:>9.0} a second, peak +{memory} KiB   floor {:>9.0} a second   ratio {:.2}",
        each(ours),
        each(floor),
        ours.as_secs_f64() / floor.as_secs_f64()
    );
}

fn bytes(size: usize) -> String {
    match size {
        1_000_000_000.. => format!("{} GB", size / 1_000_000_000),
        1_000_000.. => format!("{} MB", size / 1_000_000),
        _ => format!("{} KB", size / 1000),
    }
}
