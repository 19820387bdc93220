//! One caller does what would stop a server that shares nothing fairly, or three callers do at
//! once, and another caller goes on as before.
//!
//! Law: whatever greedy clients do, no request of the other client is refused, and none takes much
//! longer than without them. The machine of a test run is too busy for figures, so the bound of a
//! second there only tells waiting behind others from being served.
//!
//! `STILE_RIG_BOUND=promised`, with `STILE_RIG_SCALE=full` and an optimised program, asserts the
//! bound that we promise: the 99th percentile within twice the idle one plus 50 ms. Memory stays
//! within 256 MB of idle.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::chance::{scaled, scaled_long};
use stile_testkit::client::Http;
use stile_testkit::hosted::{AUDIENCE, Hosted, Lifecycle, Peer};
use stile_testkit::issuer::Alg;
use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use crate::doors::binary;

/// No limit of the rate, which would hide what is measured.
const UNLIMITED: [&str; 4] = ["--rate-per-second", "1000000", "--rate-burst", "1000000"];

/// What the system counts memory in, on the machines that the rigs run on.
const PAGE_BYTES: usize = 4096;

/// What the system keeps of what an attacker sends.
const SEND_BUFFER_BYTES: usize = 1 << 18;

/// How long a request of the victim may take beside attackers.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    /// How many times the 99th percentile of the victim alone.
    pub(crate) factor: u32,
    /// How much more, in milliseconds, where the promise is asserted.
    pub(crate) promised_millis: u64,
}

impl Bound {
    /// What we promise beside callers who have a token.
    const OF_NEIGHBOURS: Self = Self { factor: 2, promised_millis: 50 };

    fn of(self, idle: Duration) -> Duration {
        let is_promised = std::env::var("STILE_RIG_BOUND").is_ok_and(|bound| bound == "promised");
        let excess = if is_promised { self.promised_millis } else { 1000 };
        idle * self.factor + Duration::from_millis(excess)
    }
}

/// Makes requests one after another until `until` holds, and returns how long each took, sorted.
fn latencies(mut request: impl FnMut(), until: impl Fn(usize) -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !until(took.len()) {
        let since = Instant::now();
        request();
        took.push(since.elapsed());
    }
    took.sort_unstable();
    took
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)]
}

/// The memory of the server's process, in bytes.
fn resident_bytes(server: &Server) -> usize {
    let pages = std::fs::read_to_string(format!("/proc/{}/statm", server.id())).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES
}

/// An attacker, which runs until the flag is set.
pub(crate) type Attacker<'a> = Box<dyn Fn(&AtomicBool) + Sync + 'a>;

/// Measures a victim alone and beside attackers, and asserts the law of neighbours.
fn assert_undisturbed(
    name: &str,
    server: &Server,
    victim: impl FnMut(),
    attackers: Vec<Attacker<'_>>,
) {
    assert_undisturbed_within(Bound::OF_NEIGHBOURS, name, server, victim, attackers);
}

/// Measures a victim alone and beside attackers, and asserts that it keeps to a bound.
#[expect(clippy::print_stdout, reason = "a rig prints its figures")]
pub(crate) fn assert_undisturbed_within(
    bound: Bound,
    name: &str,
    server: &Server,
    mut victim: impl FnMut(),
    attackers: Vec<Attacker<'_>>,
) {
    // Of 200 requests, two decide the percentile.
    let requests = scaled(200, 4_000);
    let idle = latencies(&mut victim, |done| done >= requests);
    let memory = resident_bytes(server);
    let stop = AtomicBool::new(false);
    let (busy, most) = std::thread::scope(|scope| {
        for attack in &attackers {
            let stop = &stop;
            scope.spawn(move || {
                // Attackers leave the processors to the server and the victim, as if they had a
                // machine of their own. On Linux each thread has its own priority.
                #[cfg(target_os = "linux")]
                rustix::process::nice(19).unwrap();
                attack(stop);
            });
        }
        // Attackers end even if the victim's request fails.
        let _stops = SetOnDrop(&stop);
        let most = Mutex::new(memory);
        let began = Instant::now();
        let busy = latencies(
            || {
                victim();
                let mut most = most.lock().unwrap();
                *most = (*most).max(resident_bytes(server));
            },
            // Attackers need some time to get going.
            |done| done >= requests && began.elapsed() > Duration::from_secs(2),
        );
        (busy, most.into_inner().unwrap())
    });
    let ended = Instant::now();
    let (idle, busy) = (p99(&idle), p99(&busy));
    let grown = most.saturating_sub(memory) >> 20;
    println!("{name}: p99 {idle:?} alone, {busy:?} beside; {grown} MB more");
    let bound = bound.of(idle);
    assert!(busy <= bound, "{name}: {busy:?} beside, {idle:?} alone");
    assert!(grown <= 256, "{name}: {grown} MB more");
    while p99(&latencies(&mut victim, |done| done >= 20)) > bound {
        assert!(ended.elapsed() < Duration::from_secs(5), "{name}: it does not end");
    }
}

/// Sets a flag when dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens a connection and sends the head of a request, and as much of the body as the system takes.
fn begin(server: &Server, head: &str, token: &str, body: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(server.address).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(100))).ok()?;
    let head = format!("{head}\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n", server.address);
    stream.write_all(head.as_bytes()).ok()?;
    // The attacker's own system keeps what the server does not take. In one system for both, the
    // bodies of 300 connections would use up the memory that all connections share.
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES).ok()?;
    stream.set_nonblocking(true).ok()?;
    let _ = stream.write_all(body);
    stream.set_nonblocking(false).ok()?;
    Some(stream)
}

/// Sends a request and waits for its end or the flag.
fn finish(mut stream: TcpStream, stop: &AtomicBool) {
    let mut part = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut part) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn until_stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server with a small note, records and tokens of several clients.
struct Place {
    _folder: tempfile::TempDir,
    rig: Rig,
    greedy: Vec<String>,
    victim: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), binary());
        std::fs::write(rig.root.join("small.md"), "# Small\n").unwrap();
        let mint = || rig.token(&["write:/"], &["--owner"]);
        let greedy = (0..3).map(|_| mint()).collect();
        let victim = mint();
        Self { _folder: folder, rig, greedy, victim }
    }

    /// Tokens of three clients of a subject.
    fn tokens(&self, subject: &str) -> Vec<String> {
        (0..3).map(|_| self.rig.token(&["write:/"], &["--owner", "--user", subject])).collect()
    }

    /// Writes the large file that [`STALE_CHANGES`] names.
    fn write_large(&self) {
        let text = "a line of sixty-four bytes, so that a file has many of them....\n";
        let text = text.repeat(scaled(1 << 17, 49 << 14));
        std::fs::write(self.rig.root.join("large.md"), text).unwrap();
    }

    /// Writes a folder of many files, to search in.
    fn write_many(&self) {
        let text = "a line of sixty-four bytes, so that a file has many of them....\n".repeat(64);
        for folder in 0..scaled(10, 100) {
            let folder = self.rig.root.join(format!("many/{folder}"));
            std::fs::create_dir_all(&folder).unwrap();
            for file in 0..100 {
                std::fs::write(folder.join(format!("{file}.md")), &text).unwrap();
            }
        }
    }

    fn serve(&self) -> Server {
        self.rig.serve(&UNLIMITED)
    }

    /// Stores `rows` records with a text of `bytes` bytes each.
    fn import(&self, stream: &str, rows: usize, bytes: usize) {
        let file = self.rig.state.with_file_name("rows.jsonl");
        let text = "word ".repeat(bytes.div_ceil(5));
        let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
        for row in 0..rows {
            let line = json!({ "id": format!("r{row}"), "n": row, "kind": row % 7, "text": text });
            writeln!(out, "{line}").unwrap();
        }
        drop(out);
        let mut command = self.rig.command(&["import"]);
        command.arg(&file).args(["--stream", stream, "--connection", "rig", "--state"]);
        let output = command.arg(&self.rig.state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn read_small(client: &mut Http) {
    let call = json!({ "name": "text.read", "arguments": { "path": "/small.md" } });
    let reply = client.twice(|client| client.post("tools/call", call.clone())).unwrap();
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    assert_eq!(reply.json()["result"]["isError"], false, "{}", reply.json());
}

fn get(client: &mut Http, server: &Server, token: &str, target: &str) -> u16 {
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        server.address
    );
    client.twice(|client| client.send(head.as_bytes())).unwrap().status
}

/// What one subject does, with as many threads as a scale says.
struct Attack {
    name: &'static str,
    threads: fn() -> usize,
    run: fn(&Server, &str, &AtomicBool),
}

impl Attack {
    /// The threads of the attack, which share out the tokens.
    fn begin<'a>(&self, server: &'a Server, tokens: &'a [String]) -> Vec<Attacker<'a>> {
        let run = self.run;
        (0..(self.threads)())
            .map(|number| {
                let token = &tokens[number % tokens.len()];
                Box::new(move |stop: &AtomicBool| run(server, token, stop)) as Attacker<'a>
            })
            .collect()
    }
}

/// Needs the stream `long`.
const UNREAD_LISTS: Attack = Attack {
    name: "unread lists",
    threads: || 3,
    run: |server, token, stop| {
        let head = "GET /v1/streams/long/records?limit=100 HTTP/1.1";
        let unread: Vec<_> = (0..8).map(|_| begin(server, head, token, b"\r\n")).collect();
        until_stopped(stop);
        drop(unread);
    },
};

const QUESTION: &str = "/v1/streams/rows/aggregate?metric=count&group_by=kind";

/// Needs the stream `rows`.
const AGGREGATES: Attack = Attack {
    name: "aggregates",
    threads: || scaled(12, 40),
    run: |server, token, stop| {
        let head = format!("GET {QUESTION} HTTP/1.1");
        while !stop.load(Ordering::Relaxed) {
            if let Some(stream) = begin(server, &head, token, b"Connection: close\r\n\r\n") {
                finish(stream, stop);
            }
        }
    },
};

fn stale_append() -> Value {
    json!({ "name": "text.append", "arguments": {
        "path": "/large.md", "hash": "0".repeat(64), "content": "more"
    } })
}

/// Needs the large file.
const STALE_CHANGES: Attack = Attack {
    name: "stale changes",
    threads: || scaled(60, 600),
    run: |server, token, stop| {
        let mut client = server.client(token);
        while !stop.load(Ordering::Relaxed) {
            let _ = client.post("tools/call", stale_append());
        }
    },
};

const POST: &str = "POST /mcp HTTP/1.1\r\nContent-Type: application/json";

const UNFINISHED_BODIES: Attack = Attack {
    name: "unfinished bodies",
    threads: || 1,
    run: |server, token, stop| {
        let body = [b"Content-Length: 4000000\r\n\r\n".as_slice(), &vec![b' '; 3_900_000]].concat();
        let held: Vec<_> =
            (0..scaled(40, 300)).map(|_| begin(server, POST, token, &body)).collect();
        until_stopped(stop);
        drop(held);
    },
};

const STALLED_BODIES: Attack = Attack {
    name: "stalled bodies",
    threads: || 1,
    run: |server, token, stop| {
        let body = b"Content-Length: 4000000\r\n\r\n{";
        let held: Vec<_> =
            (0..scaled(300, 4_300)).map(|_| begin(server, POST, token, body)).collect();
        until_stopped(stop);
        drop(held);
    },
};

/// Needs the folder of [`Place::write_many`].
const SEARCHES: Attack = Attack {
    name: "searches",
    threads: || 24,
    run: |server, token, stop| {
        let mut client = server.client(token);
        while !stop.load(Ordering::Relaxed) {
            let _ = client.post("tools/call", search());
        }
    },
};

fn search() -> Value {
    json!({ "name": "text.search", "arguments": { "q": "what no file has" } })
}

fn small_list(client: &mut Http, server: &Server, token: &str, stream: &str) {
    let target = format!("/v1/streams/{stream}/records?limit=1&fields=n");
    assert_eq!(get(client, server, token, &target), 200);
}

#[test]
fn answers_that_nobody_reads_hold_no_reader() {
    let place = Place::new();
    place.import("long", scaled(10, 67), 1 << 20);
    let server = place.serve();
    let mut client = server.client(&place.victim);
    let attack = UNREAD_LISTS.begin(&server, &place.greedy);
    let victim = || small_list(&mut client, &server, &place.victim, "long");
    assert_undisturbed(UNREAD_LISTS.name, &server, victim, attack);
    assert!(server.stop().0.success());
}

#[test]
fn dear_questions_keep_nobody_else_waiting() {
    let place = Place::new();
    place.import("rows", scaled(20_000, 200_000), 40);
    let server = place.serve();
    let mut client = server.client(&place.victim);
    assert_eq!(get(&mut client, &server, &place.victim, QUESTION), 200, "the attack is a question");
    let attack = AGGREGATES.begin(&server, &place.greedy);
    let victim = || small_list(&mut client, &server, &place.victim, "rows");
    assert_undisturbed(AGGREGATES.name, &server, victim, attack);
    assert!(server.stop().0.success());
}

fn assert_stale(client: &mut Http) {
    let refused = client.post("tools/call", stale_append()).unwrap().json();
    let code = refused.pointer("/result/structuredContent/error/code");
    assert_eq!(code, Some(&json!("stale")), "the attack reads the file: {refused}");
}

#[test]
fn stale_changes_of_a_large_file_keep_nobody_else_waiting() {
    let place = Place::new();
    place.write_large();
    let server = place.serve();
    let mut client = server.client(&place.victim);
    assert_stale(&mut client);
    let attack = STALE_CHANGES.begin(&server, &place.greedy);
    assert_undisturbed(STALE_CHANGES.name, &server, || read_small(&mut client), attack);
    assert!(server.stop().0.success());
}

#[test]
fn greedy_searches_keep_nobody_else_waiting() {
    let place = Place::new();
    place.write_many();
    let server = place.serve();
    let mut client = server.client(&place.victim);
    let found = client.post("tools/call", search()).unwrap().json();
    assert_eq!(found["result"]["isError"], false, "the attack is a search: {found}");
    let attack = SEARCHES.begin(&server, &place.greedy[..1]);
    assert_undisturbed(SEARCHES.name, &server, || read_small(&mut client), attack);
    assert!(server.stop().0.success());
}

#[test]
fn unfinished_bodies_take_bounded_memory_and_no_connection_of_others() {
    let place = Place::new();
    let server = place.serve();
    // A new connection for each request: the stalled ones take none away.
    let victim = || read_small(&mut server.client(&place.victim));
    let attack = UNFINISHED_BODIES.begin(&server, &place.greedy[..1]);
    assert_undisturbed(UNFINISHED_BODIES.name, &server, victim, attack);
    let attack = STALLED_BODIES.begin(&server, &place.greedy[1..2]);
    assert_undisturbed(STALLED_BODIES.name, &server, victim, attack);
    assert!(server.stop().0.success());
}

/// The first three of these attacks, one subject each. A long run does every three of them, and
/// each three times, except for stalled bodies: so many connections at once fill the system's queue
/// of new ones, and the system tries again after a second.
#[test]
fn three_greedy_subjects_at_once_keep_a_fourth_from_nothing() {
    const ATTACKS: [Attack; 5] =
        [UNREAD_LISTS, AGGREGATES, STALE_CHANGES, UNFINISHED_BODIES, STALLED_BODIES];
    let place = Place::new();
    place.import("long", scaled(4, 67), 1 << 20);
    place.import("rows", scaled(5_000, 200_000), 40);
    place.write_large();
    let subjects = ["ann", "bea", "cal"].map(|subject| place.tokens(subject));
    let victim = place.rig.token(&["write:/"], &["--owner", "--user", "dan"]);
    let all = 0..ATTACKS.len();
    let different = all.clone().flat_map(|third| {
        let pairs = (0..third).flat_map(|second| (0..second).map(move |first| (first, second)));
        pairs.map(move |(first, second)| [first, second, third])
    });
    let same = all.take(4).map(|attack| [attack; 3]);
    for three in different.chain(same).take(scaled_long(1, 5, 14)) {
        let server = place.serve();
        let mut client = server.client(&victim);
        assert_stale(&mut client);
        assert_eq!(get(&mut client, &server, &victim, QUESTION), 200, "the attack is a question");
        let three = three.map(|attack| &ATTACKS[attack]);
        let name = three.map(|attack| attack.name).join(", ");
        let attackers: Vec<_> = three
            .iter()
            .zip(&subjects)
            .flat_map(|(attack, tokens)| attack.begin(&server, tokens))
            .collect();
        let mut number = 0;
        // Files, records, and a new connection in turn.
        let request = || {
            number += 1;
            match number % 3 {
                0 => read_small(&mut client),
                1 => small_list(&mut client, &server, &victim, "rows"),
                _ => read_small(&mut server.client(&victim)),
            }
        };
        assert_undisturbed(&name, &server, request, attackers);
        assert!(server.stop().0.success());
    }
}

#[test]
fn calls_that_wait_for_a_slow_upstream_keep_no_other_user_waiting() {
    let hosted = Hosted::new(binary());
    let upstream = Upstream::start(Behaviour::notes(|received| {
        let note = Reply::note(&json!({ "title": "A note" }), "# A note\n");
        let is_slow = received.note().is_some_and(|path| path.starts_with("slow"));
        note.after(if is_slow { Duration::from_secs(3) } else { Duration::ZERO })
    }));
    let gateway = hosted.gateway(&upstream.url(), &UNLIMITED);
    let mint =
        |user: &str| hosted.issuer.mint(user, AUDIENCE).vault("v").role("admin").token(Alg::Es256);
    let (greedy, victim) = (mint("greedy"), mint("victim"));
    let attacks: Vec<_> = (0..scaled(100, 200))
        .map(|_| {
            let (gateway, greedy) = (&gateway, &greedy);
            Box::new(move |stop: &AtomicBool| {
                let mut peer = Peer::open(gateway, greedy, Lifecycle::Sessionless);
                while !stop.load(Ordering::Relaxed) {
                    let call = json!({
                        "name": "get_note_outline", "arguments": { "path": "slow.md" }
                    });
                    let _ = peer.post("tools/call", call);
                }
            }) as Attacker<'_>
        })
        .collect();
    let mut peer = Peer::open(&gateway, &victim, Lifecycle::Sessionless);
    let victim = || {
        let told = peer.told("get_note_outline", "quick.md");
        assert!(told.contains("A note"), "{told}");
    };
    assert_undisturbed("a slow upstream", &gateway, victim, attacks);
    assert!(gateway.stop().0.success());
}
