//! Faults of a database on PostgreSQL, and what a server, its operator and its log say then.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_testkit::client::{Http, Reply};
use stile_testkit::hosted::{Lifecycle, Peer};
use stile_testkit::postgres::{PostgresServer, TestDatabase};
use stile_testkit::process::{Rig, Server};
use stile_testkit::silencer::Silencer;

use crate::sign_in_kit::{Browser, ScriptedClient, fetch, form_to, text_of};

/// A request waits no longer than this for a database that fell silent, on a machine with much else
/// to do.
const SOON: Duration = Duration::from_secs(15);

/// A server of one owner, and its operator.
struct Hosted {
    folder: tempfile::TempDir,
    address: String,
}

impl Hosted {
    fn with(address: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, address }
    }

    fn rig(&self) -> Rig {
        Rig::below(self.folder.path(), env!("CARGO_BIN_EXE_stile"))
    }

    fn serve(&self) -> Server {
        Server::start(self.serving())
    }

    fn serving(&self) -> Command {
        self.serving_with("state")
    }

    /// Returns what starts a server with this state folder.
    fn serving_with(&self, state: &str) -> Command {
        let rig = self.rig();
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--state"]);
        command.arg(rig.state.with_file_name(state)).arg(&rig.root);
        command.env("STILE_DATABASE", &self.address);
        command
    }

    /// Runs a command of the operator.
    fn run(&self, arguments: &[&str]) -> Output {
        let rig = self.rig();
        let mut command = rig.command(arguments);
        command.arg("--state").arg(&rig.state).env("STILE_DATABASE", &self.address);
        command.output().unwrap()
    }

    /// Returns a token of the owner that lives so long.
    fn token(&self, life: &str) -> String {
        let root = self.rig().root;
        let root = root.to_str().unwrap();
        let token = ["token", "--root", root, "--scope", "write:/", "--owner", "--expires", life];
        let output = self.run(&token);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns what the doctor finds, one step a line.
    fn doctor(&self, more: &[&str]) -> String {
        let root = self.rig().root;
        let all = [&["doctor", "--root", root.to_str().unwrap()], more].concat();
        String::from_utf8(self.run(&all).stdout).unwrap()
    }
}

fn ready(server: &Server) -> (u16, String) {
    let reply = fetch("GET", &format!("http://{}/ready", server.address), &[], "");
    (reply.status, reply.json()["status"].as_str().unwrap().to_owned())
}

fn list(server: &Server, token: &str) -> Reply {
    let call = json!({ "name": "file.list", "arguments": {} });
    Http::new(server.address, token).post("tools/call", call).unwrap()
}

fn send(server: &Server, token: &str, method: &str, target: &str, body: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", &*authorization), ("Content-Type", "application/x-ndjson")];
    fetch(method, &format!("http://{}{target}", server.address), &headers, body)
}

fn store(server: &Server, token: &str, id: &str) -> Reply {
    let row = json!({ "data": { "id": id, "text": "the heron" } }).to_string() + "\n";
    send(server, token, "POST", "/v1/ingest/rows?connection_id=c", &row)
}

/// Runs statements as the owner of the database's settings.
fn set(database: &TestDatabase, setting: &str) {
    database.run(&format!(
        "SET default_transaction_read_only = off; \
         DO $$BEGIN EXECUTE format('ALTER DATABASE %I {setting}', current_database()); END$$; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'stile' AND datname = current_database()"
    ));
}

/// Returns how many lines of a log have these words.
fn lines_with(log: &[u8], words: &str) -> usize {
    String::from_utf8_lossy(log).lines().filter(|line| line.contains(words)).count()
}

#[test]
fn connections_that_fall_silent_delay_a_request_by_moments_and_not_by_minutes() {
    let test = "connections_that_fall_silent_delay_a_request_by_moments_and_not_by_minutes";
    let Some(postgres) = PostgresServer::on_network(test, None) else { return };
    let database = postgres.database();
    let silencer = Silencer::before(postgres.address());
    let host = format!("127.0.0.1:{}", silencer.address.port());
    let hosted = Hosted::with(database.network_address(&host, "sslmode=disable"));
    let server = hosted.serve();
    let token = hosted.token("1h");
    for round in ["a", "b", "c"] {
        let began = Instant::now();
        assert_eq!(list(&server, &token).status, 200);
        let stored = store(&server, &token, round);
        assert_eq!(stored.status, 200, "{}", stored.json());
        let listed = send(&server, &token, "GET", "/v1/streams", "");
        assert_eq!(listed.status, 200, "{}", listed.json());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        silencer.fall_silent();
    }
    assert_eq!(ready(&server), (200, "ok".to_owned()));
}

#[test]
fn the_clock_of_the_database_decides_and_a_server_whose_clock_is_another_is_not_ready() {
    let test = "the_clock_of_the_database_decides_and_a_server_whose_clock_is_another_is_not_ready";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    assert_eq!((ready(&server), list(&server, &token).status), ((200, "ok".to_owned()), 200));
    assert!(hosted.doctor(&[]).contains("this machine and the database agree"));
    // The servers find this function before that of PostgreSQL.
    database.run(
        "CREATE FUNCTION stile_access.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
         AS $$SELECT pg_catalog.clock_timestamp() + interval '2 hours'$$",
    );
    let (status, why) = ready(&server);
    assert_eq!(status, 503, "{why}");
    let behind = " seconds behind the database's, and 5 are allowed";
    assert!(why.starts_with("the clock of this machine is 7") && why.ends_with(behind), "{why}");
    assert_eq!(list(&server, &token).status, 401, "by the database's clock the token has ended");
    let told = hosted.doctor(&[]);
    assert!(told.contains("seconds behind the database's"), "{told}");
    // The heartbeat of the server goes by the same clock as those of other servers.
    let beats = "SELECT count(*) FROM stile_access.short_lived WHERE kind = 'server' \
                 AND ends > extract(epoch FROM now() + interval '1 hour')";
    let began = Instant::now();
    while database.run(beats).trim() != "1" {
        assert!(began.elapsed() < Duration::from_secs(60), "no heartbeat");
    }
    assert_eq!(ready(&server).0, 503);
    database.run("DROP FUNCTION stile_access.clock_timestamp()");
    assert_eq!((ready(&server), list(&server, &token).status), ((200, "ok".to_owned()), 200));
    let (_, log) = server.stop();
    assert_eq!(lines_with(&log, "the clock of this machine is"), 1);
    assert_eq!(lines_with(&log, "agrees with the database's again"), 1);
}

#[test]
fn a_database_that_only_reads_by_default_answers_reads_and_refuses_writes_with_a_reason() {
    let test = "a_database_that_only_reads_by_default_answers_reads_and_refuses_writes";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    assert_eq!(store(&server, &token, "a").status, 200);
    set(&database, "SET default_transaction_read_only = on");
    let why = "the database takes no writes, since `default_transaction_read_only` is on";
    assert_eq!(ready(&server), (200, why.to_owned()));
    for _ in 0..2 {
        let refused = store(&server, &token, "b");
        assert_eq!(refused.status, 503, "{}", refused.json());
        let said = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("takes no writes") && said.contains("nothing was stored"), "{said}");
        assert!(refused.header("retry-after").is_some());
        let read = send(&server, &token, "GET", "/v1/streams", "").json();
        assert_eq!(read["data"][0]["record_count"], 1, "{read}");
        assert_eq!(list(&server, &token).status, 200);
    }
    let told = hosted.doctor(&[]);
    assert!(told.contains(why), "{told}");
    set(&database, "RESET default_transaction_read_only");
    assert_eq!(ready(&server), (200, "ok".to_owned()));
    assert_eq!(store(&server, &token, "b").status, 200);
    let (_, log) = server.stop();
    assert_eq!(lines_with(&log, why), 1, "{}", String::from_utf8_lossy(&log));
    assert_eq!(lines_with(&log, "the database takes writes again"), 1);
}

#[test]
fn whatever_writes_to_a_database_that_only_reads_says_why_and_that_nothing_was_stored() {
    let test = "whatever_writes_to_a_database_that_only_reads_says_why";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    assert_eq!(store(&server, &token, "a").status, 200);
    let url = format!("http://{}", server.address);
    let grant = ["grant", "create", "--client", "agent", "--stream", "rows"];
    let made = hosted.run(&grant);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let link = String::from_utf8(hosted.run(&["sign-in", "--address", &url]).stdout).unwrap();
    let mut owner = Browser::default();
    let page = owner.get(link.lines().next().unwrap());
    assert_eq!(owner.submit(&url, &page, &[]).status, 303);
    let access = owner.get(&format!("{url}/owner/clients"));
    let link = String::from_utf8(hosted.run(&["sign-in", "--address", &url]).stdout).unwrap();
    let mut browser = Browser::default();
    let page = browser.get(link.lines().next().unwrap());
    let client = ScriptedClient::connect(&url);
    let ask = client.authorization_url(&[]);
    set(&database, "SET default_transaction_read_only = on");
    let says = |what: &str, said: &str| {
        let said = said.to_lowercase();
        let is_said = said.contains("takes no writes") && said.contains("nothing was stored");
        assert!(is_said, "{what}: {said}");
    };
    let tokens = format!("/v1/grants/{made}/tokens");
    let refused = [
        ("import", store(&server, &token, "b")),
        ("a token of a grant", send(&server, &token, "POST", &tokens, "{}")),
        ("the end of a grant", send(&server, &token, "DELETE", &format!("/v1/grants/{made}"), "")),
        ("a link to sign in", browser.submit(&url, &page, &[])),
        ("a request of a client", fetch("GET", &ask, &[], "")),
        ("the end of a grant on the page", {
            let form = form_to(&access, "/owner/clients/revoke-grant");
            let fields: Vec<(&str, &str)> =
                form.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            owner.post(&format!("{url}/owner/clients/revoke-grant"), &fields)
        }),
    ];
    for (what, reply) in refused {
        assert_eq!(reply.status, 503, "{what}: {}", text_of(&reply));
        says(what, &text_of(&reply));
    }
    for command in [&grant[..], &["grant", "revoke", &made], &["sign-in", "--address", &url]] {
        let refused = hosted.run(command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        says(command[0], &String::from_utf8_lossy(&refused.stderr));
    }
    set(&database, "RESET default_transaction_read_only");
    assert_eq!(browser.submit(&url, &page, &[]).status, 303, "the link was not spent");
}

#[test]
fn a_session_that_cannot_be_stored_goes_on_at_another_server() {
    let test = "a_session_that_cannot_be_stored_goes_on_at_another_server";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    let root = hosted.rig().root;
    let of_other = ["token", "--user", "other", "--scope", "read:/", "--root"];
    let other = hosted.run(&[&of_other[..], &[root.to_str().unwrap()]].concat()).stdout;
    let other = String::from_utf8(other).unwrap().trim().to_owned();
    let second = Server::start(hosted.serving_with("second"));
    set(&database, "SET default_transaction_read_only = on");
    let revision = Lifecycle::Session("2025-11-25");
    let session = Peer::open(&server, &token, revision).session.unwrap();
    let ask = |server: &Server, token: &str| {
        let mut peer = Peer::new(server.address, token, revision);
        peer.session = Some(session.clone());
        peer.post("tools/call", json!({ "name": "file.list", "arguments": {} })).unwrap().status
    };
    for at in [&second, &server, &second] {
        assert_eq!(ask(at, &token), 200);
    }
    assert_eq!(ask(&second, &other), 404, "another user has no such session");
    // It outlives both servers and the fault.
    set(&database, "RESET default_transaction_read_only");
    drop((server, second));
    let server = hosted.serve();
    assert_eq!(ask(&server, &token), 200);
    let mut peer = Peer::new(server.address, &token, revision);
    peer.session = Some(session.clone());
    assert_eq!(peer.bodiless("DELETE").unwrap().status, 204);
    assert_eq!(ask(&server, &token), 404);
}

#[test]
fn a_server_starts_on_a_standby_for_reads_and_writes_once_it_is_promoted() {
    let test = "a_server_starts_on_a_standby_for_reads_and_writes_once_it_is_promoted";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let empty = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    assert_eq!(store(&server, &token, "a").status, 200);
    drop(server);
    postgres.stop();
    postgres.make_replica();
    postgres.start();
    let server = hosted.serve();
    let why = "the database takes no writes, since it is a standby";
    assert_eq!(ready(&server), (200, why.to_owned()));
    let read = send(&server, &token, "GET", "/v1/streams", "").json();
    assert_eq!(read["data"][0]["record_count"], 1, "{read}");
    assert_eq!(list(&server, &token).status, 200);
    assert_eq!(store(&server, &token, "b").status, 503);
    assert!(hosted.doctor(&[]).contains(why));
    let refused = Hosted::with(empty.address()).serving().output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("connect to the primary first"), "{said}");
    assert_eq!(database.run("SELECT pg_promote()").trim(), "t");
    assert_eq!(ready(&server), (200, "ok".to_owned()));
    assert_eq!(store(&server, &token, "b").status, 200);
}

#[test]
fn an_outage_is_one_line_in_the_log_whatever_the_number_of_requests() {
    let test = "an_outage_is_one_line_in_the_log_whatever_the_number_of_requests";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let server = hosted.serve();
    let token = hosted.token("1h");
    assert_eq!((list(&server, &token).status, store(&server, &token, "a").status), (200, 200));
    postgres.stop();
    for _ in 0..20 {
        assert_eq!(list(&server, &token).status, 503);
        assert_eq!(store(&server, &token, "b").status, 503);
        assert_eq!(fetch("GET", &format!("http://{}/owner", server.address), &[], "").status, 303);
        assert_eq!(ready(&server), (503, "the database does not answer".to_owned()));
    }
    postgres.start();
    assert_eq!(store(&server, &token, "b").status, 200);
    let (_, log) = server.stop();
    let told = String::from_utf8_lossy(&log);
    // The start says, too, that this role owns the tables.
    let is_worth = |line: &&str| {
        (line.contains("WARN") || line.contains("ERROR")) && !line.contains("prepare")
    };
    let lines: Vec<&str> = told.lines().filter(is_worth).collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].contains("the database cannot answer"), "{told}");
    assert!(lines[1].contains("the database answers again"), "{told}");
}

#[test]
fn the_doctor_finds_a_broken_page_of_one_person_among_others() {
    let test = "the_doctor_finds_a_broken_page_of_one_person_among_others";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let hosted = Hosted::with(database.address());
    let people: Vec<String> = ["ann", "bob", "cleo"]
        .map(|name| {
            let added = hosted.run(&["person", "add", name]);
            let file = hosted.folder.path().join("letters.jsonl");
            // Rows of each person on pages of their own.
            let letters = (0..400).map(|at| {
                json!({ "id": format!("{name}-{at}"), "text": "heron ".repeat(20) }).to_string()
            });
            std::fs::write(&file, letters.collect::<Vec<_>>().join("\n")).unwrap();
            let stored = hosted.run(&[
                "import",
                file.to_str().unwrap(),
                "--person",
                name,
                "--connection",
                "c",
                "--stream",
                "letters",
            ]);
            assert!(stored.status.success(), "{}", String::from_utf8_lossy(&stored.stderr));
            String::from_utf8(added.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
        })
        .into();
    let whole = hosted.doctor(&["--deep"]);
    assert!(whole.contains("every page is whole"), "{whole}");
    let of_bob = format!("tenant = (SELECT number FROM stile.tenants WHERE id = '{}')", people[1]);
    database.break_pages("stile.records", &of_bob);
    let told = hosted.doctor(&["--deep"]);
    assert!(told.contains("1 of 3 have records that cannot be read"), "{told}");
    assert!(told.contains(&people[1]) && !told.contains(&people[0]), "{told}");
}
