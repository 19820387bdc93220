//! Two people's agents talk to any of the servers that share a database, in the middle of which one
//! server is killed, another one starts, and the database is stopped and started.
//!
//! Law: whoever sends a request again that was not answered, or was answered with 503, gets what
//! one server alone would have answered. What was acknowledged is there, sessions go on, a token
//! that was revoked anywhere is refused everywhere, and nothing of one person shows to the other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::chance::{Chance, scaled, seed};
use stile_testkit::client::{Http, Reply};
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::postgres::PostgresServer;
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;

/// How long a client goes on asking.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client waits before it asks again.
const PAUSE: Duration = Duration::from_millis(50);
/// The lifecycles of the clients, one for each class.
const LIFECYCLES: [Lifecycle; 3] =
    [Lifecycle::Session("2025-06-18"), Lifecycle::Sessionless, Lifecycle::Session("2025-11-25")];

/// The servers that requests are spread over.
type Servers = Arc<RwLock<Vec<SocketAddr>>>;

/// How a client reads a record.
#[derive(Clone, Copy, Debug)]
enum Class {
    Text,
    Structure,
    Resources,
}

const CLASSES: [Class; 3] = [Class::Text, Class::Structure, Class::Resources];

/// A client of one person.
struct Agent {
    person: &'static str,
    other: &'static str,
    name: String,
    token: String,
    class: Class,
    lifecycle: Lifecycle,
    session: Option<String>,
    servers: Servers,
    chance: Chance,
}

impl Agent {
    fn new(
        (person, other): (&'static str, &'static str),
        at: usize,
        token: String,
        servers: &Servers,
        chance: Chance,
    ) -> Self {
        let (class, lifecycle) = (CLASSES[at % 3], LIFECYCLES[at % 3]);
        let (name, servers) = (format!("{person}-{at}"), Arc::clone(servers));
        Self { person, other, name, token, class, lifecycle, session: None, servers, chance }
    }

    fn server(&mut self) -> SocketAddr {
        let servers = self.servers.read().unwrap();
        servers[self.chance.below(servers.len())]
    }

    /// Asks any server until one answers with something else than 503.
    fn ask(
        &mut self,
        what: &str,
        mut send: impl FnMut(&mut Self, SocketAddr) -> std::io::Result<Reply>,
    ) -> (Reply, usize) {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let server = self.server();
            tries += 1;
            match send(self, server) {
                Ok(reply) if reply.status != 503 && !is_busy(&reply) => return (reply, tries),
                _ => assert!(began.elapsed() < PATIENCE, "{}: {what} is not answered", self.name),
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn peer(&self, server: SocketAddr) -> Peer {
        let mut peer = Peer::new(server, &self.token, self.lifecycle);
        peer.session.clone_from(&self.session);
        peer
    }

    /// Opens a session, if the lifecycle has sessions.
    fn begin(&mut self) {
        if let Lifecycle::Session(_) = self.lifecycle {
            let (reply, _) = self.ask("initialize", |it, server| it.peer(server).initialize());
            assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
            self.session = reply.header("mcp-session-id").map(str::to_owned);
            assert!(self.session.is_some());
        }
    }

    fn post(&mut self, method: &str, params: &Value) -> (Value, usize) {
        let (reply, tries) =
            self.ask(method, |it, server| it.peer(server).post(method, params.clone()));
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{} {method} {params}: {text}", self.name);
        assert!(!text.contains(&secret_of(self.other)), "{} sees {text}", self.name);
        (message_of(&reply)["result"].clone(), tries)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> (Value, usize) {
        self.post("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn http(&mut self, method: &str, target: &str, body: &str) -> Reply {
        let (reply, _) = self.ask(target, |it, server| {
            let head = format!(
                "{method} {target} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                it.token,
                body.len()
            );
            let reply = Http::new(server, &it.token).send(head.as_bytes())?;
            // The server lost its database during a commit, and does not know whether the row is
            // stored. Storing the same row again changes nothing.
            match reply.status {
                500 => Err(std::io::ErrorKind::ConnectionAborted.into()),
                _ => Ok(reply),
            }
        });
        reply
    }

    /// Writes a note and a record, and reads both.
    fn round(&mut self, round: usize) {
        let secret = secret_of(self.person);
        let path = format!("/{}/{round}.md", self.name);
        let text = format!("# Round {round}\n\n{secret}\n");
        let (created, tries) = self.call("file.create", json!({ "path": path, "content": text }));
        // The answer to the first try may have been lost with its server.
        let is_there = created.to_string().contains("already_exists");
        assert!(created["isError"] == false || (tries > 1 && is_there), "{created}");
        let (read, _) = self.call("text.read", json!({ "path": path }));
        assert_eq!(read["structuredContent"]["content"], text, "{read}");
        let id = format!("{}-{round}", self.name);
        let long = format!("{secret} {id} ").repeat(20);
        let row = json!({ "data": { "id": id, "text": long } }).to_string() + "\n";
        let stored = self.http("POST", "/v1/ingest/rows?connection_id=rig", &row);
        assert_eq!(stored.status, 200, "{}", String::from_utf8_lossy(&stored.body));
        assert_eq!(stored.json()["records_rejected"], 0, "{}", stored.json());
        self.read_record(&id, &long);
    }

    /// Reads a record to its end in the way of the client's class.
    fn read_record(&mut self, id: &str, long: &str) {
        let arguments = json!({ "id": format!("rig/rows:{id}") });
        let (record, _) = self.call("fetch", arguments.clone());
        assert_eq!(record["isError"], false, "{record}");
        match self.class {
            Class::Text => {
                let text = record["content"][0]["text"].as_str().unwrap();
                assert!(text.contains(id), "{text}");
                let mut arguments = arguments;
                arguments["field_path"] = "text".into();
                let (field, _) = self.call("read_record_field", arguments);
                let text = field["content"][0]["text"].as_str().unwrap();
                assert!(text.contains(long.trim_end()), "{text}");
            }
            Class::Structure => {
                assert!(record["structuredContent"].to_string().contains(id), "{record}");
            }
            Class::Resources => {
                let (found, _) =
                    self.call("query_records", json!({ "stream": "rows", "limit": 1 }));
                let blocks = found["content"].as_array().unwrap();
                let link = blocks.iter().find(|block| block["type"] == "resource_link").unwrap();
                let (read, _) = self.post("resources/read", &json!({ "uri": link["uri"] }));
                let text = read["contents"][0]["text"].as_str().unwrap();
                assert!(text.contains(&secret_of(self.person)), "{read}");
            }
        }
    }
}

/// Returns whether a call was refused because the database could not answer.
fn is_busy(reply: &Reply) -> bool {
    let text = String::from_utf8_lossy(&reply.body);
    text.contains("\\\"code\\\":\\\"busy\\\"") || text.contains("\"code\":\"busy\"")
}

/// Stands in all that a person writes.
fn secret_of(person: &str) -> String {
    format!("heron-of-{person}")
}

/// The folder of all people, the servers and their database.
struct Place {
    folder: tempfile::TempDir,
    address: String,
}

impl Place {
    fn rig(&self, state: &str) -> Rig {
        let mut rig = Rig::below(self.folder.path(), binary());
        rig.state = self.folder.path().join(state);
        rig
    }

    fn people(&self) -> String {
        self.folder.path().join("people").to_str().unwrap().to_owned()
    }

    /// Starts a server whose own state is in the folder `state`.
    fn serve(&self, state: &str) -> Server {
        let rig = self.rig(state);
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--spaces"]);
        command.arg(self.people()).arg("--state").arg(&rig.state);
        command.args(["--rate-per-second", "100000", "--rate-burst", "100000"]);
        command.env("STILE_DATABASE", &self.address);
        Server::start(command)
    }

    fn run(&self, arguments: &[&str]) -> String {
        let rig = self.rig("desk");
        let mut command = rig.command(arguments);
        command.arg("--state").arg(&rig.state).env("STILE_DATABASE", &self.address);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn token(&self, person: &str) -> String {
        let people = self.people();
        self.run(&["person", "add", person]);
        let of = ["token", "--root", &people, "--user", person, "--scope", "write:/", "--owner"];
        self.run(&of)
    }
}

/// Counts the files below a folder whose path holds a word and whose text does not hold another.
fn files_without(folder: &Path, word: &str, text: &str) -> (usize, usize) {
    let (mut with, mut without) = (0, 0);
    crate::servers::walk(folder, &mut |path| {
        if path.to_string_lossy().contains(word) {
            match std::fs::read_to_string(path).unwrap().contains(text) {
                true => with += 1,
                false => without += 1,
            }
        }
    });
    (with, without)
}

#[test]
fn nobody_notices_that_a_server_dies_and_the_database_restarts() {
    let test = "nobody_notices_that_a_server_dies_and_the_database_restarts";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let database = postgres.database();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("people")).unwrap();
    let place = Place { folder, address: database.address() };
    let tokens = ["ann", "bob"].map(|person| place.token(person));
    let (one, two) = (place.serve("one"), place.serve("two"));
    let servers: Servers = Arc::new(RwLock::new(vec![one.address, two.address]));
    let rounds = scaled(6, 60);
    let done = AtomicUsize::new(0);
    let (agents, failed) = (6, AtomicBool::new(false));
    let at_least = |part: usize| {
        let began = Instant::now();
        while done.load(Ordering::Relaxed) < part && !failed.load(Ordering::Relaxed) {
            assert!(began.elapsed() < 5 * PATIENCE, "the agents stand still");
            std::thread::sleep(PAUSE);
        }
    };
    let three = std::thread::scope(|scope| {
        for at in 0..agents {
            let people = if at % 2 == 0 { ("ann", "bob") } else { ("bob", "ann") };
            let token = tokens[at % 2].clone();
            let mut agent = Agent::new(people, at / 2, token, &servers, chance.fork());
            let (done, failed) = (&done, &failed);
            scope.spawn(move || {
                let _noted = NoteFailure(failed);
                agent.begin();
                for round in 0..rounds {
                    agent.round(round);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        at_least(agents * rounds / 4);
        // Requests still go to the dead server, and are sent again.
        two.kill();
        at_least(agents * rounds / 2);
        postgres.stop();
        postgres.start();
        let three = place.serve("three");
        *servers.write().unwrap() = vec![one.address, three.address];
        three
    });
    let people = place.folder.path().join("people");
    for person in ["ann", "bob"] {
        let notes = files_without(&people, &format!("/notes/{person}-"), &secret_of(person));
        assert_eq!(notes, (3 * rounds, 0), "every acknowledged note is there and whole");
    }
    for (token, person) in tokens.iter().zip(["ann", "bob"]) {
        let head = format!(
            "GET /v1/streams HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            one.address
        );
        let streams = one.client(token).send(head.as_bytes()).unwrap().json();
        assert_eq!(streams["data"][0]["record_count"], 3 * rounds, "{person}: {streams}");
    }
    // What is revoked by a command counts at every server with the next request.
    let listed: Value = serde_json::from_str(&place.run(&["token", "list", "--json"])).unwrap();
    let of_ann = listed.as_array().unwrap().iter().find(|token| token["user"] == "ann").unwrap();
    place.run(&["token", "revoke", of_ann["jti"].as_str().unwrap()]);
    for server in [&one, &three] {
        let call = json!({ "name": "file.list", "arguments": {} });
        let refused = server.client(&tokens[0]).post("tools/call", call).unwrap();
        assert_eq!(refused.status, 401);
    }
    for server in [one, three] {
        let (status, log) = server.stop();
        let log = String::from_utf8_lossy(&log);
        assert!(status.success(), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Sets a flag if its thread panics, so that the test ends at once.
struct NoteFailure<'a>(&'a AtomicBool);

impl Drop for NoteFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
