//! How much do several servers with one database answer?
//!
//! Fills a database on PostgreSQL with records and grants, starts 1, 2 and 4 servers, and sends
//! pages, searches and windows of all grants, each to a server at random, from more and more
//! clients at once. Prints for each number of servers and clients the answers a second, the median
//! and the 99th percentile of their times, and the memory of the servers. Then makes many people
//! with a few records each, and compares a page of one of them with a page of the one who has all
//! records.
//!
//! The clients run on the same machine. `--database ADDRESS` names a database, which stays filled;
//! without it a temporary one is made, whose commits do not wait for the disk. `--records`,
//! `--grants`, `--people`, `--seconds`, `--servers` and `--clients` change the sizes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark prints and panics"
)]

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_testkit::bench::Plan;
use stile_testkit::chance::Chance;
use stile_testkit::client::{Http, Reply};
use stile_testkit::postgres::{PostgresServer, TestDatabase};
use stile_testkit::process::{Rig, Server};

/// Records of one request that stores.
const BATCH: usize = 5_000;
/// Words of a text, of which each record has some.
const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "islet", "jetty",
    "knoll", "larch", "marsh", "north", "otter", "pines",
];

/// Every so many records have a long text.
const LONG: usize = 1_000;

/// The sizes of a run.
struct Sizes {
    records: usize,
    grants: usize,
    people: usize,
    time: Duration,
    servers: Vec<usize>,
    clients: Vec<usize>,
}

impl Sizes {
    fn from_arguments() -> Self {
        let smoke = Plan::from_arguments().smoke;
        let number = |name: &str, full: usize, few: usize| {
            option(name).map_or(if smoke { few } else { full }, |text| text.parse().unwrap())
        };
        let list = |name: &str, full: &[usize], few: &[usize]| match option(name) {
            Some(text) => text.split(',').map(|part| part.parse().unwrap()).collect(),
            None => if smoke { few } else { full }.to_vec(),
        };
        Self {
            records: number("--records", 1_000_000, 200),
            grants: number("--grants", 500, 4),
            people: number("--people", 100_000, 4),
            time: Duration::from_millis(1000 * number("--seconds", 20, 0) as u64 + 200),
            servers: list("--servers", &[1, 2, 4], &[2]),
            clients: list("--clients", &[1, 2, 4, 8, 16, 32], &[2]),
        }
    }
}

/// Returns the argument after a name.
fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// The database, and the folders of the servers.
struct Place {
    folder: tempfile::TempDir,
    address: String,
    /// The temporary database; `None` for one that an argument names.
    database: Option<TestDatabase>,
}

impl Place {
    /// Returns `None`, after a line about it, if there is no PostgreSQL.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("space")).unwrap();
        if let Some(address) = option("--database") {
            return Some(Self { folder, address, database: None });
        }
        let database = PostgresServer::shared("scale")?.database();
        Some(Self { folder, address: database.address(), database: Some(database) })
    }

    fn rig(&self, state: &str) -> Rig {
        let mut rig = Rig::below(self.folder.path(), env!("CARGO_BIN_EXE_stile"));
        rig.state = self.folder.path().join(state);
        rig
    }

    fn serve(&self, state: &str) -> Server {
        let rig = self.rig(state);
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg(&rig.root).arg("--state").arg(&rig.state);
        command.args(["--rate-per-second", "1000000", "--rate-burst", "1000000"]);
        Server::start(command_with(command, &self.address))
    }

    fn owner_token(&self) -> String {
        let rig = self.rig("desk");
        let mut command = rig.command(&["token", "--owner"]);
        command.arg("--state").arg(&rig.state).arg("--root").arg(&rig.root);
        let output = command_with(command, &self.address).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn command_with(mut command: std::process::Command, address: &str) -> std::process::Command {
    command.env("STILE_DATABASE", address);
    command
}

fn request(http: &mut Http, server: SocketAddr, token: &str, line: &str, body: &str) -> Reply {
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let reply = http.twice(|http| http.send(request.as_bytes())).unwrap();
    let text = || String::from_utf8_lossy(&reply.body).into_owned();
    assert!((200..300).contains(&reply.status), "{line}: {} {}", reply.status, text());
    reply
}

/// Returns a record of some 365 bytes. One in 1,000 has a text of 20,000 characters.
fn row(number: usize, chance: &mut Chance) -> String {
    let mut words = || WORDS[chance.below(WORDS.len())];
    let count = if number.is_multiple_of(LONG) { 3_300 } else { 30 };
    let text: Vec<&str> = (0..count).map(|_| words()).collect();
    let at = format!("2026-{:02}-{:02}T12:00:00Z", 1 + number % 12, 1 + number % 28);
    json!({ "data": {
        "id": format!("r{number}"), "n": number, "kind": number % 7, "at": at,
        "text": format!("{} w{number}", text.join(" ")),
    }})
    .to_string()
}

/// Stores the records that are missing.
fn fill(server: &Server, owner: &str, records: usize) {
    let mut http = server.client(owner);
    let streams = request(&mut http, server.address, owner, "GET /v1/streams", "").json();
    let present = streams["data"][0]["record_count"].as_u64().unwrap_or(0) as usize;
    let (mut chance, began) = (Chance::of(1), Instant::now());
    let rows: Vec<String> = (0..records).map(|number| row(number, &mut chance)).collect();
    let mut stored = 0;
    for batch in rows.get(present..).unwrap_or_default().chunks(BATCH) {
        let body = batch.join("\n") + "\n";
        let line = "POST /v1/ingest/rows?connection_id=bench";
        request(&mut http, server.address, owner, line, &body);
        stored += batch.len();
    }
    if stored > 0 {
        let rate = stored as f64 / began.elapsed().as_secs_f64();
        println!("stored {stored} records, {rate:.0} a second");
    }
}

/// Makes grants of different fields, and a token of each.
fn grants(server: &Server, owner: &str, count: usize) -> Vec<String> {
    let mut http = server.client(owner);
    let token = |number: usize, http: &mut Http| {
        let fields = [&["id", "n", "text"][..], &["id", "at", "kind", "text"], &["id", "text"]];
        let grant = json!({
            "client": { "client_id": format!("client-{number}") },
            "purpose_description": "to measure",
            "streams": [{
                "name": "rows", "connection_ids": ["bench"], "fields": fields[number % fields.len()],
            }],
        });
        let made = request(http, server.address, owner, "POST /v1/grants", &grant.to_string());
        let made = made.json();
        let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}"));
        let line = format!("POST /v1/grants/{id}/tokens");
        let made = request(http, server.address, owner, &line, "{}").json();
        ["access_token", "token"].iter().find_map(|name| made[name].as_str()).unwrap().to_owned()
    };
    (0..count).map(|number| token(number, &mut http)).collect()
}

/// What came of one number of clients.
struct Load {
    answers: usize,
    took: Vec<Duration>,
}

/// Sends requests from `clients` threads for a time.
fn load(servers: &[Server], tokens: &[String], clients: usize, sizes: &Sizes) -> Load {
    let (took, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (took, stop, sent) = (&took, &stop, &sent);
            scope.spawn(move || {
                let mut chance = Chance::of(client as u64 + 100);
                let mut connections: Vec<Http> =
                    servers.iter().map(|server| server.client("")).collect();
                let mut own = Vec::new();
                // At least one request, however slow the machine is.
                while own.is_empty() || !stop.load(Ordering::Relaxed) {
                    let at = chance.below(servers.len());
                    let token = &tokens[chance.below(tokens.len())];
                    let line = line(&mut chance, sizes.records);
                    let began = Instant::now();
                    request(&mut connections[at], servers[at].address, token, &line, "");
                    own.push(began.elapsed());
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                took.lock().unwrap().extend(own);
            });
        }
        std::thread::sleep(sizes.time);
        stop.store(true, Ordering::Relaxed);
    });
    let mut took = took.into_inner().unwrap();
    took.sort_unstable();
    Load { answers: sent.into_inner(), took }
}

/// A page in four of eight requests, a search in two, a window of a long text in two.
fn line(chance: &mut Chance, most: usize) -> String {
    let (one, other) = (WORDS[chance.below(WORDS.len())], WORDS[chance.below(WORDS.len())]);
    match chance.below(8) {
        0..4 => "GET /v1/streams/rows/records?limit=25".to_owned(),
        4..6 => format!("GET /v1/search?q={one}+{other}&limit=10"),
        _ => {
            let record = LONG * chance.below(most.div_ceil(LONG));
            let offset = chance.below(16_000);
            format!(
                "GET /v1/streams/rows/records/r{record}/field-window?field=text&offset_chars={offset}"
            )
        }
    }
}

fn resident_megabytes(server: &Server) -> usize {
    let pages = std::fs::read_to_string(format!("/proc/{}/statm", server.id())).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096 / (1 << 20)
}

fn main() {
    let sizes = Sizes::from_arguments();
    let Some(place) = Place::new() else { return };
    let owner = place.owner_token();
    let first = place.serve("state-0");
    fill(&first, &owner, sizes.records);
    let tokens = grants(&first, &owner, sizes.grants);
    let mut servers = vec![first];
    for &count in &sizes.servers {
        while servers.len() < count {
            servers.push(place.serve(&format!("state-{}", servers.len())));
        }
        for &clients in &sizes.clients {
            let load = load(&servers[..count], &tokens, clients, &sizes);
            let at =
                |part: usize| load.took[(load.took.len() * part / 100).min(load.took.len() - 1)];
            let memory: Vec<usize> = servers[..count].iter().map(resident_megabytes).collect();
            println!(
                "{count} servers, {clients:>2} clients: {:>6.0} answers a second, p50 {:>9.2?}, \
                 p99 {:>9.2?}, {memory:?} MB",
                load.answers as f64 / sizes.time.as_secs_f64(),
                at(50),
                at(99),
            );
        }
    }
    drop(servers);
    if place.database.is_some() {
        people(&place, &sizes);
    }
}

/// Makes people with ten records each, copies of the first one, and measures what one of them
/// costs: room, a first page, which opens their service, and another page.
fn people(place: &Place, sizes: &Sizes) {
    // Beside the records of one owner there are no people.
    let Some(postgres) = PostgresServer::shared("scale") else { return };
    let database = postgres.database();
    let folder = place.folder.path().join("people");
    std::fs::create_dir(&folder).unwrap();
    let rig = place.rig("state-people");
    let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--spaces"]);
    command.arg(&folder).arg("--state").arg(&rig.state);
    let server = Server::start(command_with(command, &database.address()));
    let stile = |arguments: &[&str]| {
        let mut command = rig.command(arguments);
        command.arg("--state").arg(&rig.state);
        let output = command_with(command, &database.address()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let token = |person: usize| {
        let (name, root) = (format!("p{person}"), folder.to_str().unwrap());
        stile(&["person", "add", &name]);
        stile(&["token", "--owner", "--user", &name, "--root", root])
    };
    let mut http = server.client("");
    let mut chance = Chance::of(2);
    let rows: Vec<String> = (1..=10).map(|number| row(number, &mut chance)).collect();
    let line = "POST /v1/ingest/rows?connection_id=bench";
    request(&mut http, server.address, &token(0), line, &(rows.join("\n") + "\n"));
    let room = || -> u64 {
        let size = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c \
                    JOIN pg_namespace n ON n.oid = c.relnamespace \
                    WHERE n.nspname = 'stile' AND c.relkind = 'r'";
        database.run(size).trim().parse().unwrap()
    };
    let before = room();
    database.run(&copies_of_the_first_person(sizes.people));
    let each = (room() - before) / sizes.people as u64;
    println!("{} people with 10 records each take {each} bytes each", sizes.people);
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for at in 0..20.min(sizes.people) {
        let token = token(1 + at * sizes.people / 20.min(sizes.people));
        for took in [&mut first, &mut again] {
            let began = Instant::now();
            let line = "GET /v1/streams/rows/records?limit=10";
            let page = request(&mut http, server.address, &token, line, "").json();
            took.push(began.elapsed());
            assert_eq!(page["data"].as_array().unwrap().len(), 10, "{page}");
        }
    }
    for took in [&mut first, &mut again] {
        took.sort_unstable();
    }
    let middle = first.len() / 2;
    println!(
        "a person's first page of 10: {:.2?}, another one: {:.2?}, memory {} MB",
        first[middle],
        again[middle],
        resident_megabytes(&server)
    );
}

/// Returns statements that copy all rows of the person `p0` to `count` people `p1`, `p2` and so on.
fn copies_of_the_first_person(count: usize) -> String {
    format!(
        "INSERT INTO stile.tenants (id, subject, made)
         SELECT md5('p' || n), sha256(convert_to('stile', 'UTF8') || '\\x00'::bytea
             || convert_to('p' || n, 'UTF8')), 0
         FROM generate_series(1, {count}) n;
         CREATE TEMP TABLE copied AS SELECT number AS person FROM stile.tenants
             WHERE id IN (SELECT md5('p' || n) FROM generate_series(1, {count}) n);
         DO $$
         DECLARE
             name text; columns text; first bigint;
         BEGIN
             SELECT number INTO first FROM stile.tenants WHERE subject =
                 sha256(convert_to('stile', 'UTF8') || '\\x00'::bytea || convert_to('p0', 'UTF8'));
             FOREACH name IN ARRAY ARRAY['history', 'connections', 'streams', 'records', 'pieces',
                 'tags', 'text_words', 'word_blocks', 'changes']
             LOOP
                 SELECT string_agg(column_name, ', ') INTO columns
                     FROM information_schema.columns
                     WHERE table_schema = 'stile' AND table_name = name
                     AND column_name <> 'tenant';
                 EXECUTE format('INSERT INTO stile.%I (tenant, %s) SELECT c.person, %s '
                     'FROM stile.%I t, copied c WHERE t.tenant = %s ON CONFLICT DO NOTHING',
                     name, columns, columns, name, first);
             END LOOP;
         END
         $$;"
    )
}
