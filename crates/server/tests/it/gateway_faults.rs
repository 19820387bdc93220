//! A note store that misbehaves: every way of it ends in one of the errors that there are, once,
//! soon, within bounded memory, and with nothing of what the store said.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::client::{Http, Reply as Answered};
use stile_testkit::leaks::Canaries;
use stile_testkit::process::Server;
use stile_testkit::upstream::faults::{self, CANARY};
use stile_testkit::upstream::oddities::all_oddities;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use tokio::net::TcpStream;

use crate::gateway_kit::{Ground, Told, call, metrics, post, told};

const NOTE: &str = "inbox/fault.md";

/// So many gateways are tried at once, since what is slow here is waiting.
const GATEWAYS: usize = 8;

const TIMEOUT: &str = "Upstream timeout";
const UNAVAILABLE: &str = "Upstream unavailable";
const INVALID: &str = "Upstream invalid response";
const TOO_LARGE: &str = "Note too large";

/// A way to misbehave, and what the caller may be told of it.
struct Case {
    name: String,
    behaviour: Behaviour,
    /// `ok` stands for a note.
    expected: Vec<String>,
}

impl Case {
    fn new(name: impl Into<String>, behaviour: Behaviour, expected: &[&str]) -> Self {
        Self {
            name: name.into(),
            behaviour,
            expected: expected.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

/// One gateway and its upstream.
struct Stand {
    upstream: Upstream,
    server: Server,
    client: Http,
    canaries: Canaries,
    calls: usize,
    resident: u64,
    wrong: Vec<String>,
    _ground: Ground,
}

/// The peak of the memory that a process has had, in bytes.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

fn good() -> Reply {
    Reply::note(&json!({ "title": "All is well" }), "# All is well\n")
}

impl Stand {
    fn new() -> Self {
        let (ground, upstream) = (Ground::new(), Upstream::start(Behaviour::always(good())));
        let server =
            ground.impatient(&upstream, &["--log", "trace", "--metrics-listen", "127.0.0.1:0"]);
        let client = server.client(&ground.token);
        let canaries = Canaries::new().plant("what the upstream said", CANARY);
        let mut stand = Self {
            upstream,
            server,
            client,
            canaries,
            calls: 0,
            resident: 0,
            wrong: Vec::new(),
            _ground: ground,
        };
        stand.be_well(false);
        stand.resident = peak(&stand.server);
        stand
    }

    fn call(&mut self) -> (Answered, Told) {
        self.calls += 1;
        let reply = post(&mut self.client, "get_section_source", &json!({ "path": NOTE }));
        let told = told(&reply);
        (reply, told)
    }

    /// Has the upstream answer well once more, and leaves the gateway with a connection to it, or
    /// with none.
    fn be_well(&mut self, keep: bool) {
        let reply = if keep { good() } else { good().with_header("Connection", "close") };
        self.upstream.set(Behaviour::always(reply));
        // A connection that the last fault has ended may not have been seen to end, and then the
        // call fails with it; there are not more of those than calls.
        for _ in 0..self.calls + 1 {
            let (_, told) = self.call();
            match told.error.as_deref() {
                None => {
                    assert_eq!(
                        told.structured["title"], "All is well",
                        "an answer to another call"
                    );
                    self.upstream.take_requests();
                    return;
                }
                Some(error) => assert!([UNAVAILABLE, TIMEOUT].contains(&error), "{error}"),
            }
        }
        panic!("the gateway is not well again");
    }

    /// Meets a fault, on a connection that is new or was used before.
    fn meet(&mut self, case: &Case, keep: bool) {
        let mut wrong = self.try_to_meet(case, keep);
        // The gateway has little patience here, and the machine may be busy.
        for _ in 0..2 {
            if wrong.iter().any(|wrong| wrong.contains(TIMEOUT)) {
                wrong = self.try_to_meet(case, keep);
            }
        }
        let state = if keep { "a used" } else { "a new" };
        self.wrong.extend(
            wrong.into_iter().map(|wrong| format!("{} on {state} connection: {wrong}", case.name)),
        );
    }

    /// What is wrong with the outcome.
    fn try_to_meet(&mut self, case: &Case, keep: bool) -> Vec<String> {
        self.be_well(keep);
        self.upstream.set(case.behaviour.clone());
        let (reply, told) = self.call();
        let mut wrong = Vec::new();
        let outcome = told.error.as_deref().unwrap_or("ok");
        if !case.expected.iter().any(|expected| expected == outcome) {
            wrong.push(format!("{outcome}, not {:?}", case.expected));
        }
        let requests = self.upstream.requests().len();
        // Whether a store that does not read, or not at all, has got the request is not for the
        // gateway to say.
        let unread =
            matches!(case.behaviour, Behaviour::Refuse | Behaviour::CloseAtOnce | Behaviour::Deaf);
        if requests != 1 && !(unread && requests == 0) {
            wrong.push(format!("{requests} requests"));
        }
        wrong.extend(
            leaked(&self.canaries, &reply, &told).map(|found| format!("gives away {found}")),
        );
        wrong
    }

    /// What was wrong, after the last look at everything that the gateway has said.
    fn finish(mut self) -> Vec<String> {
        self.be_well(true);
        let grown = peak(&self.server).saturating_sub(self.resident);
        if grown > 64 << 20 {
            self.wrong.push(format!("the gateway's memory grew by {grown} bytes"));
        }
        let metrics = metrics(&self.server);
        assert_eq!(metrics.status, 200);
        self.canaries.assert_absent("the metrics", &metrics.bytes());
        let (status, log) = self.server.stop();
        assert!(status.success(), "{status}");
        let lines = String::from_utf8(log.clone()).unwrap();
        assert_eq!(
            lines.lines().filter(|line| line.contains("tool=")).count(),
            self.calls,
            "a line for each call"
        );
        assert!(!lines.contains("panicked") && !lines.contains(NOTE), "{lines}");
        self.canaries.assert_absent("the log", &log);
        self.wrong
    }
}

/// What a reply holds of the upstream's words outside headings and the title.
fn leaked(canaries: &Canaries, reply: &Answered, told: &Told) -> Option<String> {
    let head: String =
        reply.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let mut found = canaries.find(head.as_bytes());
    if told.error.is_some() {
        found.extend(canaries.find(&reply.body));
    } else {
        let mut rest = told.structured.clone();
        if rest["path"] != NOTE {
            found.push(format!("another path {}", rest["path"]));
        }
        rest["title"] = Value::Null;
        for section in rest["sections"].as_array_mut().unwrap() {
            let words = section["heading_text"].as_str().unwrap();
            if words.contains("Text of") || words.contains("Stolen") {
                found.push("the text".to_owned());
            }
            // Ids are made of the words of the heading.
            for field in
                ["heading_text", "heading_path", "heading_id", "section_id", "child_section_ids"]
            {
                section[field] = Value::Null;
            }
        }
        found.extend(canaries.find(rest.to_string().as_bytes()));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Meets all the cases, on new connections and on used ones, with several gateways at once.
fn meet_all(cases: Vec<Case>, keeping: &[bool]) {
    let count = cases.len();
    assert!(count > 20, "a table is nearly empty");
    let queue = Mutex::new(VecDeque::from(cases));
    let worker = || {
        let mut stand = Stand::new();
        loop {
            let Some(case) = queue.lock().unwrap().pop_front() else { return stand.finish() };
            for keep in keeping {
                stand.meet(&case, *keep);
            }
        }
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..GATEWAYS.min(count)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} wrong outcomes:\n{}", wrong.len(), wrong.join("\n"));
}

/// What the caller is told of a fault, where its name does not say it.
const FAULTS: &[(&[&str], &[&str])] = &[
    // Time is up, whatever was sent until then.
    (&["reads nothing", "never answers", "slow headers", "slow body", "slow chunks"], &[TIMEOUT]),
    (&["endless interim answers", "slow interim answers"], &[TIMEOUT]),
    // A server that hangs up, and one that does not speak HTTP.
    (&["refuses connections", "closes at once", "resets instead of answering"], &[UNAVAILABLE]),
    (&["closes instead of answering", "cut in the headers", "cut in the body"], &[UNAVAILABLE]),
    (&["cut after a whole note", "chunks without an end", "reset in the body"], &[UNAVAILABLE]),
    (
        &["not HTTP", "noise", "a TLS alert", "HTTP/2 in clear", "the note without a head"],
        &[UNAVAILABLE],
    ),
    (&["a status that is no number", "a status of two digits", "another version"], &[UNAVAILABLE]),
    (
        &["two lengths", "a negative length", "a length with a sign", "a length that is no number"],
        &[UNAVAILABLE],
    ),
    (
        &["a length beyond 64 bits", "a header without a colon", "a header with a zero byte"],
        &[UNAVAILABLE],
    ),
    (&["a chunk size that is no number", "a chunk size beyond 64 bits"], &[UNAVAILABLE]),
    (&["a chunk longer than it says", "headers without end"], &[UNAVAILABLE]),
    // What is around a note and is too much is ended by whichever limit is met first.
    (&["an endless extension of a chunk", "endless trailers"], &[UNAVAILABLE, TOO_LARGE, TIMEOUT]),
    (&["a header of a megabyte", "10,000 headers"], &[UNAVAILABLE]),
    // No length of HTTP's, to some, and to others one that is too large.
    (&["declares all that 64 bits can"], &[UNAVAILABLE, TOO_LARGE]),
    (&["declares a byte more than the ceiling", "declares a terabyte"], &[TOO_LARGE]),
    (&["a byte more than the ceiling", "a byte more than the ceiling in chunks"], &[TOO_LARGE]),
    (&["endless chunks", "endless until the close"], &[TOO_LARGE]),
    (
        &[
            "a bomb in gzip",
            "a bomb in deflate",
            "a bomb in deflate without a frame",
            "a bomb in brotli",
        ],
        &[INVALID],
    ),
    // Answers that came well and are no note.
    (
        &["a page", "a page labelled as JSON", "an empty body", "a body of spaces", "half a note"],
        &[INVALID],
    ),
    (
        &[
            "a note and more", "lines of notes", "an event stream", "UTF-16",
            "a byte that is not UTF-8",
        ],
        &[INVALID],
    ),
    (
        &["a surrogate in UTF-8", "half a surrogate pair", "a control character in a string"],
        &[INVALID],
    ),
    (
        &["not a number", "a number without end", "single quotes", "a comma too many", "a comment"],
        &[INVALID],
    ),
    (&["nothing but 100,000 arrays", "100,000 arrays that do not end"], &[INVALID]),
    (&["100,000 objects that do not end", "a body of 100,000 arrays", "no body"], &[INVALID]),
    (&["a body that is a number", "a body that is null", "a body that is true"], &[INVALID]),
    (
        &["a body that is an array", "a body that is an object", "a body under another name"],
        &[INVALID],
    ),
    (&["a note inside the answer", "an array", "a string", "null", "a number", "true"], &[INVALID]),
    (&["an empty object", "an error with 200"], &[INVALID]),
];

/// The odd answers of which no note is made.
const ODDITIES: &[(&[&str], &[&str])] = &[
    // They are as long as an answer may be, and longer than a note that is parsed.
    (
        &["exactly the ceiling", "exactly the ceiling in chunks", "a note of nothing but headings"],
        &[TOO_LARGE],
    ),
    (&["a heading of a megabyte"], &[TOO_LARGE]),
    // Forbidden in HTTP for long.
    (&["a folded header"], &[UNAVAILABLE]),
    (
        &[
            "labelled as compressed, but not",
            "a byte order mark",
            "two bodies",
            "two bodies of two types",
        ],
        &[INVALID],
    ),
    (&["front matter as a number", "front matter as an array", "front matter as true"], &[INVALID]),
    (
        &["front matter twice", "front matter of 100,000 arrays", "front matter of 100 arrays"],
        &[INVALID],
    ),
    (&["a title in 100,000 arrays"], &[INVALID]),
];

fn in_table(
    table: &[(&[&str], &'static [&'static str])],
    name: &str,
) -> Option<&'static [&'static str]> {
    table.iter().find(|(names, _)| names.contains(&name)).map(|(_, expected)| *expected)
}

/// What is told of an answer with this status, which may look like a note.
fn of_status(code: u16) -> String {
    match code {
        200 => "ok".to_owned(),
        // The one interim status after which nothing else comes.
        101 => "Upstream 101".to_owned(),
        // The final answer is still to come, and what comes is none.
        100..=199 => UNAVAILABLE.to_owned(),
        _ => format!("Upstream {code}"),
    }
}

#[test]
fn every_upstream_fault_gives_one_known_error_and_reveals_nothing() {
    let cases = faults::all_faults().into_iter().map(|(name, behaviour)| {
        let word = |index| name.split(' ').nth(index).and_then(|word: &str| word.parse().ok());
        match (name, word(1)) {
            ("redirect without a location" | "redirect to a file", _) => {
                Case::new(name, behaviour, &["Upstream 302"])
            }
            (_, Some(code)) => Case::new(name, behaviour, &[&of_status(code)]),
            _ => {
                let expected = in_table(FAULTS, name);
                Case::new(
                    name,
                    behaviour,
                    expected.unwrap_or_else(|| panic!("what is told of {name}?")),
                )
            }
        }
    });
    meet_all(cases.collect(), &[false, true]);
}

#[test]
fn an_odd_upstream_answer_becomes_a_note_or_an_error_and_leaks_nowhere() {
    let cases = all_oddities().into_iter();
    let cases = cases.map(|(name, behaviour)| {
        Case::new(name, behaviour, in_table(ODDITIES, name).unwrap_or(&["ok"]))
    });
    meet_all(cases.collect(), &[false, true]);
}

#[test]
fn an_error_for_a_status_other_than_200_has_only_its_number() {
    let cases = (100..=599)
        .map(|code| Case::new(code.to_string(), Behaviour::status(code), &[&of_status(code)]));
    meet_all(cases.collect(), &[false]);
}

#[test]
fn the_gateway_follows_no_redirect() {
    let elsewhere = Upstream::start(Behaviour::always(good()));
    let cases = faults::redirects(&elsewhere.url()).into_iter().map(|(name, behaviour)| {
        let code = name.split(' ').next().unwrap().to_owned();
        Case::new(name, behaviour, &[&format!("Upstream {code}")])
    });
    meet_all(cases.collect(), &[false, true]);
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn the_gateway_reads_a_body_of_the_maximum_and_refuses_one_byte_more() {
    let (ground, upstream) = (Ground::new(), Upstream::start(Behaviour::Silence));
    let server = ground.gateway(&upstream, &["--upstream-max-bytes", "10000"]);
    let mut client = server.client(&ground.token);
    for (behaviour, expected) in [
        (Behaviour::note_of(10_000), None),
        (Behaviour::note_of_in_chunks(10_000), None),
        (Behaviour::note_of(10_001), Some(TOO_LARGE)),
        (Behaviour::note_of_in_chunks(10_001), Some(TOO_LARGE)),
    ] {
        upstream.set(behaviour);
        assert_eq!(call(&mut client, "get_note_outline", NOTE).error.as_deref(), expected);
    }
}

#[test]
fn the_gateway_abandons_an_endless_body() {
    let (ground, upstream) = (Ground::new(), Upstream::start(Behaviour::endless_chunks()));
    let server = ground.impatient(&upstream, &[]);
    let mut client = server.client(&ground.token);
    for _ in 0..10 {
        assert_eq!(call(&mut client, "get_note_outline", NOTE).error.as_deref(), Some(TOO_LARGE));
    }
    // What is in buffers between the two of them is sent and not read.
    assert!(upstream.bytes_sent() < 10 * (32 << 20), "{} bytes", upstream.bytes_sent());
}

/// The waiting room of a port that nobody accepts from is full, so a connection is neither made nor
/// refused.
#[tokio::test]
async fn a_connection_that_is_never_established_times_out() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 100, "the system accepts connections without end");
    }
    let ground = Ground::new();
    let limits = ["--upstream-connect-seconds", "1", "--upstream-timeout-seconds", "30"];
    let server =
        ground.rig.gateway(&[&["--upstream", &format!("http://{address}")], &limits[..]].concat());
    let began = Instant::now();
    let mut client = server.client(&ground.token);
    let told = tokio::task::spawn_blocking(move || call(&mut client, "get_note_outline", NOTE))
        .await
        .unwrap();
    assert_eq!(told.error.as_deref(), Some(TIMEOUT));
    assert!(began.elapsed() < Duration::from_secs(20), "the limit on connecting is its own");
}
