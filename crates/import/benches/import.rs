//! How many small records does an import store in a second, and in how much memory?
//!
//! Measured: the import of a file of JSON Lines into a new stream, whole, as `stile import` does it
//! (the pass that infers the declaration, parsing, keys, tokens, storing, with full
//! synchronisation), in seconds and in seconds of processor time, with the memory of the process
//! above what it had before. Beside it as a floor: the same rows parsed by `serde_json` and stored
//! as JSON with two indexes and without search. Then the same import again, which changes nothing,
//! and what searches of the imported records take, in processor time.
//!
//! The corpus is made here, seeded by numbers: records of 360 bytes with seven fields, of which
//! five are texts that are searched. Keys and times have no order; with `--by-time` the times rise.
//! `--million` makes 1,000,000 records; without it there are 100,000. `--keep FOLDER` keeps the
//! database, and only searches it where it is there already. `--alone` leaves out the floor, the
//! second import and the searches.
//!
//! What the numbers do not say: how a slow disk does, or how long a real export's rows are.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark is its own verified owner, makes its own files, and prints"
)]

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_import::importer::ImportTarget;
use stile_import::importers::{self, IMPORTERS};
use stile_import::input::ImportInput;
use stile_import::reading::ReadingOptions;
use stile_import::report::{BadRowPolicy, ImportReport};
use stile_import::run::Import;
use stile_records::RecordService;
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;
use stile_store::records::Records;
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, cpu, peak, timed};
use stile_testkit::chance::Chance;

fn main() {
    let plan = Plan::from_arguments();
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let count = match (plan.smoke, has("--million")) {
        (true, _) => 2_000,
        (false, false) => 100_000,
        (false, true) => 1_000_000,
    };
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::args().skip_while(|argument| argument != "--keep").nth(1);
    let state = kept.map_or_else(|| scratch.path().join("state"), PathBuf::from);
    let is_there = state.join("records.db").exists();
    let file = scratch.path().join("messages.jsonl");
    let records = Records::open(&StateDir::open(&state).unwrap(), Instant(0)).unwrap();
    let services = RecordService::new(records);
    if is_there {
        return searches(&services, plan);
    }
    let size = write_rows(&file, count, has("--by-time"));
    println!("{count} records of {} bytes in JSON Lines", size / count);
    let first =
        measured(count, "import", || assert_eq!(import(&services, &file).added, count as u64));
    if !has("--alone") {
        let plain = plain(&scratch.path().join("plain.db"));
        let floor = measured(count, "floor", || store_plain(&plain, &file));
        println!("  ratio to the floor {:.2}", first.as_secs_f64() / floor.as_secs_f64());
        measured(count, "again", || assert_eq!(import(&services, &file).unchanged, count as u64));
        searches(&services, plan);
    }
    // The last connection writes the log into the database.
    drop(services);
    let bytes = std::fs::metadata(state.join("records.db")).unwrap().len();
    println!("  {} bytes a record on the disk", bytes / count as u64);
}

/// Prints the rate of some work on `count` records, and returns its processor time.
fn measured(count: usize, what: &str, work: impl FnOnce()) -> Duration {
    let (mut took, mut used) = (Duration::ZERO, Duration::ZERO);
    let memory = peak(|| used = cpu(|| took = timed(work)));
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    println!(
        "{what:<8} {:>8.0} a second, {:>8.0} a second of processor time, peak +{} MB",
        rate(took),
        rate(used),
        memory / 1024
    );
    used
}

fn write_rows(path: &Path, count: usize, by_time: bool) -> usize {
    let mut file = BufWriter::new(std::fs::File::create(path).unwrap());
    let mut size = 0;
    for number in 0..count {
        let line = row(number, by_time);
        size += line.len();
        writeln!(file, "{line}").unwrap();
    }
    file.flush().unwrap();
    size
}

fn row(number: usize, by_time: bool) -> String {
    const SYLLABLES: [&str; 8] = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri"];
    let mut chance = Chance::of(number as u64);
    let mut body = String::new();
    for _ in 0..33 {
        for _ in 0..2 + chance.below(3) {
            body.push_str(SYLLABLES.get(chance.below(8)).unwrap());
        }
        body.push(' ');
    }
    let place = if by_time { number } else { number.wrapping_mul(104_729) % 1_000_003 };
    json!({
        "id": format!("m{}", number.wrapping_mul(7_919) % 10_000_019),
        "sent_at": Instant(1_000_000_000_000_000 + place as i64 * 60_000_000).to_rfc3339(),
        "author": format!("person {}", number % 97),
        "thread": format!("t{}", number / 12),
        "stars": number % 5,
        "folder": format!("folder {}", number % 31),
        "body": body,
    })
    .to_string()
}

fn owner() -> Principal {
    Principal::assert_verified("bench", Some("t"), None, Scopes::none(), RecordsClaim::Owner)
}

fn import(services: &RecordService, file: &Path) -> ImportReport {
    let target = ImportTarget {
        connection: SourceName::parse("bench").unwrap(),
        stream: SourceName::parse("messages").unwrap(),
    };
    let owner = owner();
    let importer = importers::recognise(IMPORTERS, file).unwrap().unwrap();
    let import = Import {
        services,
        caller: &owner,
        target: &target,
        key: &[],
        reading: &ReadingOptions::default(),
        bad_rows: BadRowPolicy::Skip,
        now: Instant(0),
        text_reader: None,
        on_rejected: None,
    };
    import.run(&[ImportInput::whole(file.to_owned(), importer)], &mut |_| ()).unwrap()
}

/// Prints the median processor time of some searches, and the number of hits on their first page.
fn searches(services: &RecordService, plan: Plan) {
    let owner = owner();
    let answer = |operation: Operation, stream: &str, pairs: &[(&str, &str)]| -> String {
        let target = RequestTarget::new(stream, "", pairs);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        services.answer(&owner, Instant(1), &call, &mut out).unwrap();
        out
    };
    let show = |what: &str, work: &dyn Fn() -> String| {
        let hits = work().matches("\"record_id\"").count();
        let rounds = plan.rounds(30);
        let mut times: Vec<Duration> = (0..rounds).map(|_| cpu(work)).collect();
        times.sort_unstable();
        let median = times.get(rounds / 2).unwrap().as_secs_f64() * 1e3;
        println!("  {what:<32} {median:>8.3} ms, {hits} ids");
    };
    for query in [
        "bade", "bademu kilona", "badekilo", "badekilo mupe", "person author:42",
        "\"folder 12\" bade", "t4711", "m7919", "badeki*", "bade -kilo", "\"pebade kilomu\"",
    ] {
        show(query, &|| answer(Operation::Search, "", &[("q", query)]));
    }
    show("a page", &|| answer(Operation::ListRecords, "messages", &[]));
}

/// The same database settings, with each record as JSON in one row.
fn plain(path: &Path) -> Connection {
    let plain = Connection::open(path).unwrap();
    plain
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768;
             CREATE TABLE records (key TEXT PRIMARY KEY, at TEXT, data TEXT);
             CREATE INDEX by_time ON records (at, key);",
        )
        .unwrap();
    plain
}

fn store_plain(plain: &Connection, file: &Path) {
    let mut lines = BufReader::new(std::fs::File::open(file).unwrap()).lines();
    loop {
        let batch: Vec<String> = lines.by_ref().take(10_000).map(Result::unwrap).collect();
        if batch.is_empty() {
            return;
        }
        let transaction = plain.unchecked_transaction().unwrap();
        for line in batch {
            let row: Json = serde_json::from_str(&line).unwrap();
            let text = |name: &str| row.get(name).unwrap().as_str().unwrap().to_owned();
            let insert = "INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(insert).unwrap();
            insert.execute(params![text("id"), text("sent_at"), line]).unwrap();
        }
        transaction.commit().unwrap();
    }
}
