//! Servers that share a database, behind a proxy that sends each connection to the next of them.

use serde_json::{Value, json};
use stile_testkit::client::{Http, Reply};
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::issuer::Issuer;
use stile_testkit::issuer::openid::CLIENT_ID;
use stile_testkit::postgres::{PostgresServer, TestDatabase};
use stile_testkit::process::{Rig, Server};
use stile_testkit::spreader::Spreader;

use crate::sign_in_kit::{Browser, ScriptedClient, fetch, location, parameter, text_of};

/// Servers with one database and, on one machine, one folder.
struct Place {
    folder: tempfile::TempDir,
    database: TestDatabase,
    servers: Vec<Server>,
    spreader: Spreader,
}

impl Place {
    /// Starts two servers. `None` if there is no PostgreSQL.
    fn new(test: &str, arguments: &[&str]) -> Option<Self> {
        let database = PostgresServer::shared(test)?.database();
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir(folder.path().join("people")).unwrap();
        std::fs::write(rig.root.join("plan.md"), "the plan\n").unwrap();
        let spreader = Spreader::new();
        let mut place = Self { folder, database, servers: Vec::new(), spreader };
        place.servers = ["one", "two"].map(|state| place.start(state, arguments)).into();
        let addresses = place.servers.iter().map(|server| server.address).collect();
        place.spreader.spread_over(addresses);
        Some(place)
    }

    /// Starts another server, whose state folder has this name.
    fn start(&self, state: &str, arguments: &[&str]) -> Server {
        let rig = Rig::below(self.folder.path(), env!("CARGO_BIN_EXE_stile"));
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--state"]);
        command.arg(self.folder.path().join(state)).args(["--public-url", &self.url()]);
        command.args(arguments);
        match arguments.contains(&"--spaces") {
            true => command.arg(self.folder.path().join("people")),
            false => command.arg(&rig.root),
        };
        Server::start(with_database(command, &self.database))
    }

    /// Runs a command of the owner, whose state folder is another one than the servers have.
    fn stile(&self, arguments: &[&str]) -> String {
        let rig = Rig::below(self.folder.path(), env!("CARGO_BIN_EXE_stile"));
        let mut command = rig.command(arguments);
        command.arg("--state").arg(self.folder.path().join("desk"));
        let output = with_database(command, &self.database).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn url(&self) -> String {
        format!("http://{}", self.spreader.address)
    }

    /// Calls a tool on a connection of its own, in no session.
    fn call(&self, token: &str, tool: &str, arguments: &Value) -> Reply {
        let call = json!({ "name": tool, "arguments": arguments });
        Http::new(self.spreader.address, token).post("tools/call", call).unwrap()
    }

    fn get(&self, token: &str, target: &str) -> Reply {
        let authorization = format!("Bearer {token}");
        fetch("GET", &(self.url() + target), &[("Authorization", &authorization)], "")
    }
}

fn with_database(
    mut command: std::process::Command,
    database: &TestDatabase,
) -> std::process::Command {
    command.env("STILE_DATABASE", database.address());
    command
}

#[test]
fn a_client_signs_in_at_two_servers_as_at_one() {
    let test = "a_client_signs_in_at_two_servers_as_at_one";
    let Some(place) = Place::new(test, &[]) else { return };
    let client = ScriptedClient::connect(&format!("{}/mcp", place.url()));
    let mut browser = Browser::default();
    // Each request of the browser is a connection, and so goes to the other server.
    for turn in 0..3 {
        let asked = client.authorization_url(&[("scope", "read:/")]);
        let mut page = browser.open(&asked);
        if turn == 0 {
            let link = place.stile(&["sign-in"]);
            let code = parameter(link.lines().next().unwrap(), "code").unwrap();
            let returned = browser.submit(&place.url(), &page, &[("code", &code)]);
            let told = text_of(&returned);
            let consent = location(&returned).unwrap_or_else(|| panic!("{told}")).to_owned();
            page = browser.get(&(place.url() + &consent));
        }
        if turn == 1 {
            // An odd number of requests, so that the steps meet the other servers.
            assert_eq!(fetch("GET", &(place.url() + "/health"), &[], "").status, 200);
        }
        let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
        let code = parameter(location(&answer).unwrap(), "code").unwrap();
        let tokens = client.redeem(&code).json();
        let access = tokens["access_token"].as_str().unwrap_or_else(|| panic!("{tokens}"));
        for _ in 0..2 {
            let read = place.call(access, "text.read", &json!({ "path": "/plan.md" }));
            assert_eq!(read.status, 200);
        }
        let again = client.redeem(&code);
        assert_eq!(again.status, 400, "a code is good once, at whichever server");
        for _ in 0..2 {
            let read = place.call(access, "text.read", &json!({ "path": "/plan.md" }));
            assert_eq!(read.status, 401, "what was issued from it has ended at every server");
        }
    }
}

#[test]
fn a_sign_in_at_a_provider_begins_at_one_server_and_ends_at_the_other() {
    let test = "a_sign_in_at_a_provider_begins_at_one_server_and_ends_at_the_other";
    let issuer = Issuer::start();
    let (keys, url) = (issuer.jwks_url(), issuer.url());
    let provider = [
        ["--jwks", &keys],
        ["--issuer", &url],
        ["--audience", "https://notes.example/mcp"],
        ["--sign-in-client", CLIENT_ID],
    ];
    let Some(place) = Place::new(test, provider.as_flattened()) else { return };
    issuer.openid().person("ann", Some("editor"));
    let exchanges = || issuer.requests().iter().filter(|asked| asked.target == "/token").count();
    let client = ScriptedClient::connect(&format!("{}/mcp", place.url()));
    for turn in 0..2 {
        let mut browser = Browser::default();
        let page = text_of(&browser.open(&client.authorization_url(&[("scope", "read:/")])));
        let (_, rest) = page.split_once("href=\"/sign-in/provider").unwrap();
        let query = rest.split_once('"').unwrap().0.replace("&amp;", "&");
        if turn == 1 {
            // One request more, so that the other server begins.
            assert_eq!(fetch("GET", &(place.url() + "/health"), &[], "").status, 200);
        }
        let leads = browser.get(&format!("{}/sign-in/provider{query}", place.url()));
        let before = browser.cookies.clone();
        // The provider checks the address, and at the end the secret of PKCE. The servers check
        // the nonce in the token.
        let back = fetch("GET", location(&leads).unwrap(), &[], "");
        let callback = location(&back).unwrap();
        // The next connection goes to the server that did not begin.
        let finished = browser.get(callback);
        assert_eq!(finished.status, 303, "{}", text_of(&finished));
        assert_eq!(exchanges(), turn + 1);
        for _ in 0..2 {
            let mut replaying = Browser { cookies: before.clone() };
            let refused = replaying.get(callback);
            assert_eq!(refused.status, 403, "no server finishes a sign-in twice");
            assert!(text_of(&refused).contains("finished before"), "{}", text_of(&refused));
            assert_eq!(Browser::default().get(callback).status, 403, "nor for another browser");
        }
        assert_eq!(exchanges(), turn + 1, "the provider was not asked for the replay");
        for _ in 0..2 {
            let page = browser.open(&format!("{}/owner/clients", place.url()));
            assert!(text_of(&page).contains("Who may do what"), "{}", text_of(&page));
        }
        let tokens = client.tokens(&mut browser, "read:/");
        let access = tokens["access_token"].as_str().unwrap();
        for _ in 0..2 {
            let read = place.call(access, "text.read", &json!({ "path": "/plan.md" }));
            assert_eq!(read.status, 200);
        }
    }
}

#[test]
fn servers_count_those_that_start_and_forget_those_that_stop_or_die() {
    let test = "servers_count_those_that_start_and_forget_those_that_stop_or_die";
    let Some(place) = Place::new(test, &["--metrics-listen", "127.0.0.1:0"]) else { return };
    let rows = |what: &str| {
        let of = "FROM stile_access.short_lived WHERE kind = 'server'";
        place.database.run(&format!("SELECT {what} {of}")).trim().to_owned()
    };
    // The first heartbeat is beside the start.
    let counts = |server: &Server, servers: usize| {
        let url = format!("http://{}/metrics", server.metrics_address());
        let began = std::time::Instant::now();
        let line = format!("stile_servers {servers}\n");
        while !text_of(&fetch("GET", &url, &[], "")).contains(&line) {
            assert!(began.elapsed().as_secs() < 60, "the server does not count {servers}");
        }
    };
    while rows("count(*)") != "2" {}
    let seconds = rows("min(ends - made / 1000000) || ' ' || max(ends - made / 1000000)");
    assert!(["14 14", "14 15", "15 15"].contains(&&*seconds), "{seconds}");
    let start = |name: &str| place.start(name, &["--metrics-listen", "127.0.0.1:0"]);
    let three = start("three");
    counts(&three, 3);
    assert!(three.stop().0.success());
    assert_eq!(rows("count(*)"), "2", "a server that stops is gone at once");
    let others = rows("string_agg(key, ',')");
    let four = start("four");
    counts(&four, 3);
    four.kill();
    assert_eq!(rows("count(*)"), "3", "a server that was killed counts for a while");
    // As if 15 seconds had passed since its last heartbeat.
    place.database.run(&format!(
        "UPDATE stile_access.short_lived SET ends = ends - 15 \
         WHERE kind = 'server' AND position(key in '{others}') = 0"
    ));
    counts(&start("five"), 3);
}

#[test]
fn a_session_goes_on_at_another_server_and_ends_at_all() {
    let test = "a_session_goes_on_at_another_server_and_ends_at_all";
    let Some(mut place) = Place::new(test, &["--sessions-per-subject", "2"]) else { return };
    let root = place.folder.path().join("space");
    let root = root.to_str().unwrap();
    let token = place.stile(&["token", "--root", root, "--scope", "read:/"]);
    let other = place.stile(&["token", "--root", root, "--scope", "read:/", "--user", "other"]);
    let revision = Lifecycle::Session("2025-06-18");
    let read = json!({ "name": "text.read", "arguments": { "path": "/plan.md" } });
    let at = |server: usize, token: &str, session: Option<&String>| {
        let mut peer = Peer::new(place.servers[server].address, token, revision);
        peer.session = session.cloned();
        peer
    };
    let open = || Peer::open(&place.servers[0], &token, revision).session.unwrap();
    let session = open();
    for server in [1, 0, 1] {
        let reply = at(server, &token, Some(&session)).post("tools/call", read.clone()).unwrap();
        let told = message_of(&reply);
        assert_eq!(told["result"]["structuredContent"]["content"], "the plan\n", "{told}");
    }
    let stranger = at(1, &other, Some(&session)).post("tools/call", read.clone()).unwrap();
    assert_eq!(stranger.status, 404, "another caller has no such session");
    // The third session of a subject ends the one that was idle longest, at every server.
    let (_second, _third) = (open(), open());
    for server in [0, 1] {
        let ended = at(server, &token, Some(&session)).post("tools/call", read.clone()).unwrap();
        assert_eq!(ended.status, 404);
    }
    let last = open();
    assert_eq!(at(1, &token, Some(&last)).bodiless("DELETE").unwrap().status, 204);
    let ended = at(0, &token, Some(&last)).post("tools/call", read.clone()).unwrap();
    assert_eq!(ended.status, 404);
    // All servers are killed, and others are started.
    let kept = open();
    for server in place.servers.drain(..) {
        server.kill();
    }
    place.servers = ["one", "three"].map(|state| place.start(state, &[])).into();
    for server in [1, 0] {
        let mut peer = Peer::new(place.servers[server].address, &token, revision);
        peer.session = Some(kept.clone());
        let told = message_of(&peer.post("tools/call", read.clone()).unwrap());
        assert_eq!(told["result"]["structuredContent"]["content"], "the plan\n", "{told}");
        peer.session = Some(last.clone());
        assert_eq!(peer.post("tools/call", read.clone()).unwrap().status, 404, "it has ended");
    }
}

#[test]
fn the_owner_reads_in_one_place_what_all_servers_did() {
    let test = "the_owner_reads_in_one_place_what_all_servers_did";
    let Some(place) = Place::new(test, &[]) else { return };
    let root = place.folder.path().join("space");
    let token = place.stile(&["token", "--root", root.to_str().unwrap(), "--scope", "read:/"]);
    let read = json!({ "name": "text.read", "arguments": { "path": "/plan.md" } });
    let calls = 6;
    for call in 0..calls {
        let address = place.servers[call % 2].address;
        let reply = Http::new(address, &token).post("tools/call", read.clone()).unwrap();
        assert_eq!(reply.status, 200);
    }
    // A line comes into the database within about a second.
    let told = loop {
        let told = place.stile(&["audit", "--tool", "text.read"]);
        if told.lines().count() == calls {
            break told;
        }
    };
    assert!(told.lines().all(|line| line.ends_with("read /plan.md")), "{told}");
    let verified = place.stile(&["audit", "verify"]);
    assert_eq!(verified, "6 lines in 2 files belong to an intact chain");
    let activity = place.stile(&["activity"]);
    assert!(activity.contains("6 reads, 0 changes, 0 refused"), "{activity}");
}

#[test]
fn each_person_has_a_space_and_records_of_their_own() {
    let test = "each_person_has_a_space_and_records_of_their_own";
    let Some(place) = Place::new(test, &["--spaces"]) else { return };
    let people = place.folder.path().join("people");
    let root = people.to_str().unwrap();
    let token = |person: &str| {
        place.stile(&["person", "add", person]);
        let of = ["token", "--root", root, "--user", person, "--scope", "write:/", "--owner"];
        place.stile(&of)
    };
    // Names that would lead elsewhere if a path were made of them.
    let names = ["ann", "../ann", "ANN", "ann/../../x", "."];
    let tokens = names.map(token);
    for (name, token) in names.iter().zip(&tokens) {
        let note = json!({ "path": "/mine.md", "content": format!("of {name}\n") });
        let created = place.call(token, "file.create", &note);
        assert_eq!(created.json()["result"]["isError"], false, "{}", created.json());
        let row = json!({ "data": { "id": "r", "text": format!("the heron of {name}") } });
        let authorization = format!("Bearer {token}");
        let headers =
            [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
        let url = format!("{}/v1/ingest/rows?connection_id=c", place.url());
        let stored = fetch("POST", &url, &headers, &(row.to_string() + "\n"));
        assert_eq!(stored.status, 200, "{}", stored.json());
    }
    for (name, token) in names.iter().zip(&tokens) {
        // Twice, since each connection goes to the other server.
        for _ in 0..2 {
            let listed = place.call(token, "file.list", &json!({})).json();
            let entries = listed["result"]["structuredContent"]["entries"].as_array().unwrap();
            assert_eq!(entries.len(), 1, "{listed}");
            let read = place.call(token, "text.read", &json!({ "path": "/mine.md" })).json();
            let content = &read["result"]["structuredContent"]["content"];
            assert_eq!(content, &format!("of {name}\n"));
            let found = place.get(token, "/v1/search?q=heron").json();
            let hits = found["data"].as_array().unwrap();
            assert_eq!(hits.len(), 1, "{found}");
            assert!(hits[0]["snippet"]["text"].as_str().unwrap().ends_with(name), "{found}");
        }
    }
    // One folder for each person, with names that say nothing.
    let folders: Vec<String> = std::fs::read_dir(&people)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders.len(), names.len(), "{folders:?}");
    let is_opaque = |name: &String| name.len() == 32 && name.chars().all(|c| c.is_ascii_hexdigit());
    assert!(folders.iter().all(is_opaque), "{folders:?}");
}

#[test]
fn readiness_tells_of_the_database_and_health_does_not() {
    let test = "readiness_tells_of_the_database_and_health_does_not";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--state"]);
    command.arg(&rig.state).arg(&rig.root).args(["--metrics-listen", "127.0.0.1:0"]);
    let server = Server::start(with_database(command, &database));
    let mut command = rig.command(&["token", "--scope", "read:/", "--state"]);
    command.arg(&rig.state).arg("--root").arg(&rig.root);
    let token = with_database(command, &database).output().unwrap().stdout;
    let token = String::from_utf8(token).unwrap().trim().to_owned();
    let get = |path: &str| fetch("GET", &format!("http://{}{path}", server.address), &[], "");
    let call = || {
        let call = json!({ "name": "file.list", "arguments": {} });
        Http::new(server.address, &token).post("tools/call", call).unwrap()
    };
    assert_eq!((get("/ready").status, get("/health").status, call().status), (200, 200, 200));
    postgres.stop();
    assert_eq!((get("/ready").status, get("/health").status), (503, 200));
    let refused = call();
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["error"], "tokens_unavailable");
    assert!(refused.header("retry-after").is_some());
    postgres.start();
    assert_eq!((get("/ready").status, call().status), (200, 200), "nothing was restarted");
    let metrics = fetch("GET", &format!("http://{}/metrics", server.metrics_address()), &[], "");
    let metrics = String::from_utf8(metrics.body).unwrap();
    assert!(metrics.contains("stile_servers 1\n"), "{metrics}");
    assert!(metrics.contains("stile_database_connections{pool=\"access\"} "), "{metrics}");
}

#[test]
fn spaces_of_people_need_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let mut command = rig.command(&["serve", "--spaces"]);
    let output = command.arg(&rig.root).arg("--state").arg(&rig.state).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--spaces needs --database"), "{said}");
    assert!(!said.contains(folder.path().to_str().unwrap()));
}
