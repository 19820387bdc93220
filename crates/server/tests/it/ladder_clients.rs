//! From a question to the sentence after the match in a text of a megabyte, by three classes of
//! clients that see only what their class shows, over every transport.

use std::fmt::Write as _;

use serde_json::{Value, json};
use stile_testkit::client::McpClient;
use stile_testkit::hosted::{LIFECYCLES, Lifecycle, Peer};
use stile_testkit::process::{Piped, Rig};
use stile_testkit::readers::{CLASSES, Question, Reader, Spent};

use crate::records_kit::Kit;

/// What a quotation may cost.
const MOST_CALLS: usize = 6;
const MOST_BYTES: usize = 12 * 1024;
/// What a body has, at least.
const MEGABYTE: usize = 1024 * 1024;

/// Sentences that bodies are filled with. Each of the words that are asked for stands in one of
/// them, alone.
const FILLER: [&str; 12] = [
    "Nothing of note was said at the table that evening. ",
    "Die Fähre nach Grünau fährt seit Dienstag wieder, täglich um sieben. ",
    "В библиотеке пахло кожей и старой бумагой. ",
    "港の灯台は雨の中でも見えた。 ",
    "كانت الرسالة قصيرة ولم يقرأها أحد. ",
    "The children drew boats 🚢🏮👩‍👧 on the wall, e\u{301}ven a whale 🐋. ",
    "She had seventeen reasons, and a brass key, and no lanterns. ",
    "Le café était froid ; le quatrième violon manquait. ",
    "A velvet chair stood in for the cartographer, one copper coin for the astrolabe. ",
    "Someone had drawn an amber circle around the word metronome \"twice\". ",
    "Zinc is dear, said the quiet man under his umbrella, and walnut dearer. ",
    "A compass, a marble, a staircase: all upside down in the sketch. ",
];

struct Case {
    name: &'static str,
    query: &'static str,
    phrase: &'static str,
    answer: String,
    /// Where the record is, for `/v1`.
    path: &'static str,
}

fn filler(bytes: usize, from: usize) -> String {
    let mut text = String::with_capacity(bytes + 256);
    let mut number = from;
    while text.len() < bytes {
        text += FILLER[number % FILLER.len()];
        number += 1;
    }
    text
}

/// A body of a megabyte around a sentence and the one to quote.
fn around(sentences: &str) -> String {
    filler(MEGABYTE / 2, 0) + sentences + &filler(MEGABYTE / 2, 5)
}

/// A sentence that begins so and goes on for so many letters.
fn long(beginning: &str, letters: usize) -> String {
    let more = ", and then the pier".repeat(letters / 19);
    format!("{beginning}{more}. ")
}

const MIDDLE: &str = "The eighteenth hangs in Inês's kitchen 🏮, behind the blue door.";
const FIRST: &str = "Its pointer lies in drawer four, wrapped in 和紙.";
const GOAT: &str = "It names nine ships and one goat 🐐, all lost.";
const LAST: &str = "It was three minutes to nine, and nobody wound it again.";

/// What is asked, and the rows that hold the answers, one body of a megabyte for the first four.
fn cases() -> (Vec<Case>, Vec<Value>, Vec<Value>) {
    let left_out = long("What she left out", 1400).trim_end().to_owned();
    let body = format!(
        "Copper astrolabe arrived broken. {FIRST} {}At dusk the seventeen brass lanterns were counted. {MIDDLE} {}{}{left_out} {}\
         The osprey ledger of Grimsby was sealed. {GOAT} And so the list ended. \
         At last the amber metronome stopped. {LAST}",
        filler(MEGABYTE / 2, 0),
        filler(MEGABYTE / 4, 3),
        long("The velvet cartographer wrote", 3300),
        filler(MEGABYTE / 4, 7),
    );
    let keyed = |words: &str, answer: &str| around(&format!("We met the {words} there. {answer} "));
    let case = |name, query, phrase, answer: &str, path| Case {
        name,
        query,
        phrase,
        answer: answer.to_owned(),
        path,
    };
    let big = "/v1/streams/mail/records/m-117";
    let url_path =
        "/v1/streams/mail/records/https%3A%2F%2Fmail.example%2Fi%3Fid%3D7%26x%3Da%2Fb%23c%20d";
    let cases = vec![
        case("middle", "\"seventeen brass lanterns\"", "seventeen brass lanterns", MIDDLE, big),
        case("beginning", "\"copper astrolabe arrived\"", "Copper astrolabe arrived", FIRST, big),
        case("words", "osprey ledger Grimsby", "osprey ledger", GOAT, big),
        case("end", "\"amber metronome stopped\"", "amber metronome stopped", LAST, big),
        case("long", "\"velvet cartographer wrote\"", "velvet cartographer wrote", &left_out, big),
        case("url", "\"quiet zinc umbrella\"", "quiet zinc umbrella", "The URL said so.", url_path),
        case(
            "dots",
            "\"upside marble staircase\"",
            "upside marble staircase",
            "Two dots, no more.",
            "/v1/streams/mail/records/%2E%2E",
        ),
        case(
            "compound",
            "\"third walnut compass\"",
            "third walnut compass",
            "It points to tea.",
            "/v1/streams/threads/records/%5B%22a%2Fb%22%2C%223%22%5D",
        ),
    ];
    let mails = vec![
        json!({ "id": "m-117", "subject": "Inventory", "body": body }),
        json!({ "id": "https://mail.example/i?id=7&x=a/b#c d", "subject": "A link", "body": keyed("quiet zinc umbrella", "The URL said so.") }),
        json!({ "id": "..", "subject": "Up", "body": keyed("upside marble staircase", "Two dots, no more.") }),
    ];
    let threads = vec![
        json!({ "thread": "a/b", "number": 3, "body": keyed("third walnut compass", "It points to tea.") }),
        json!({ "thread": "a/b", "number": 4, "body": "The third of them, walnut, without a compass." }),
    ];
    (cases, mails, threads)
}

/// Mails of which each has single words of some question; one in eight is long.
fn decoys() -> Vec<Value> {
    let mails = (0..300).map(|number: usize| {
        let word = ["osprey", "ledger", "Grimsby"][number % 3];
        let text = format!(
            "About {word}. {}",
            filler(if number.is_multiple_of(8) { 20_000 } else { 200 }, number)
        );
        json!({ "id": format!("d-{number}"), "subject": format!("Mail {number}"), "body": text })
    });
    mails.collect()
}

struct Library {
    kit: Kit,
    cases: Vec<Case>,
    grant: String,
    token: String,
}

impl Library {
    fn new() -> Self {
        let kit = Kit::new();
        let (cases, mails, threads) = cases();
        let import = |name: &str, rows: &[Value], keys: &[&str]| {
            let file = kit.folder.path().join(format!("{name}.jsonl"));
            let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
            std::fs::write(&file, lines.join("\n")).unwrap();
            let keys: Vec<&str> = keys.iter().flat_map(|key| ["--key", key]).collect();
            let path = file.to_str().unwrap();
            let said = kit.said(
                &[&["import", path, "--connection", "own", "--stream", name], &keys[..]].concat(),
            );
            assert!(
                said.starts_with(&format!("added {}, changed 0, unchanged 0, bad 0", rows.len())),
                "{said}"
            );
        };
        import("mail", &[decoys(), mails].concat(), &["id"]);
        import("threads", &threads, &["thread", "number"]);
        let grant = kit.folder.path().join("grant.json");
        std::fs::write(
            &grant,
            json!({ "streams": [{ "name": "mail" }, { "name": "threads" }] }).to_string(),
        )
        .unwrap();
        let (grant, token) = kit.client(&["--from", grant.to_str().unwrap()]);
        Self { kit, cases, grant, token }
    }

    /// Asks everything over one connection in all three ways, and says what it cost.
    fn quoted(&self, transport: &str, client: &mut dyn McpClient, table: &mut String) {
        let mut all_within = true;
        for class in CLASSES {
            for case in &self.cases {
                let question =
                    Question { query: case.query.to_owned(), phrase: case.phrase.to_owned() };
                let mut reader = Reader::new(class, client);
                let quoted = reader.quote(&question);
                let Spent { calls, bytes } = reader.spent;
                let figures =
                    format!("{transport} {class:?} {}: {calls} calls, {bytes} bytes", case.name);
                let _ = writeln!(table, "{figures}");
                assert_eq!(quoted.as_ref(), Ok(&case.answer), "{figures}");
                all_within &= calls <= MOST_CALLS && bytes <= MOST_BYTES;
            }
        }
        assert!(all_within, "more than {MOST_CALLS} calls or {MOST_BYTES} bytes:\n{table}");
    }

    /// What it costs to fetch each record whole.
    fn whole(&self, table: &mut String) {
        for case in &self.cases {
            let reply = self.kit.get(case.path, &self.token);
            assert_eq!(reply.status, 200, "{}", case.path);
            assert!(reply.body.len() > MEGABYTE, "{}", reply.body.len());
            let _ = writeln!(table, "/v1 whole {}: 1 call, {} bytes", case.name, reply.body.len());
        }
    }
}

#[test]
fn three_classes_of_clients_quote_from_a_megabyte_over_http() {
    let library = Library::new();
    let mut table = String::new();
    library.whole(&mut table);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&library.kit.server, &library.token, lifecycle);
        let name = match lifecycle {
            Lifecycle::Session(revision) => format!("http session {revision}"),
            Lifecycle::Sessionless => "http sessionless".to_owned(),
        };
        library.quoted(&name, &mut peer, &mut table);
    }
    println!("{table}");
}

#[test]
fn three_classes_of_clients_quote_from_a_megabyte_over_stdio() {
    let library = Library::new();
    let mut table = String::new();
    let elsewhere =
        Rig { root: library.kit.folder.path().join("another-space"), ..library.kit.rig.clone() };
    std::fs::create_dir(&elsewhere.root).unwrap();
    let mut stdio = elsewhere.stdio(&["--grant", &library.grant]);
    library.quoted("stdio --grant", &mut stdio, &mut table);
    drop(stdio);
    let mut owner = elsewhere.stdio(&["--owner"]);
    library.quoted("stdio, owner", &mut owner, &mut table);
    println!("{table}");
}

#[test]
fn three_classes_of_clients_quote_from_a_megabyte_through_an_adapter() {
    let library = Library::new();
    let mut table = String::new();
    let token = library.kit.folder.path().join("token");
    for (name, bearer) in [("grant", &library.token), ("owner", &library.kit.owner)] {
        std::fs::write(&token, format!("{bearer}\n")).unwrap();
        let provider = format!("http://{}", library.kit.server.address);
        let mut command =
            library.kit.rig.command(&["mcp", "--provider", &provider, "--token-file"]);
        command.arg(&token);
        let piped = Piped::start(command);
        library.quoted(&format!("stile mcp, {name}"), &mut piped.client(), &mut table);
        let (status, _) = piped.stop();
        assert!(status.success(), "{status}");
    }
    println!("{table}");
}
