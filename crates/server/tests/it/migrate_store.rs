//! `stile migrate-store`: a client does not notice that its records moved to another engine.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use stile_testkit::postgres::PostgresServer;
use stile_testkit::process::{Rig, Server};

use crate::records_kit::Kit;
use crate::sign_in_kit::fetch;

/// What a client asks.
const REQUESTS: [&str; 6] = [
    "/v1/schema",
    "/v1/streams/messages/records/m2",
    "/v1/streams/messages/records/m1/field-window?field=body&offset_chars=9000&limit_chars=500",
    "/v1/search?q=fern",
    "/v1/search?q=%22changed%20later%22",
    "/v1/streams/messages/aggregate?metric=count",
];

/// Puts a mark in the place of each cursor, which is sealed anew each time.
fn without_cursors(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_cursors),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value.is_string() && (name.ends_with("cursor") || name == "next") {
                    true => *value = json!("…"),
                    false => without_cursors(value),
                }
            }
        }
        _ => {}
    }
}

/// Runs `stile migrate-store` with a database in the environment.
fn migrate(rig: &Rig, from: &str, to: &str, database: &str, more: &[&str]) -> Output {
    let mut command = rig.command(&["migrate-store", "--from", from, "--to", to]);
    command.args(more).env("STILE_OTHER", database).output().unwrap()
}

fn said(ran: &Output) -> (Option<i32>, String) {
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Asks everything as a client, and goes on with the cursor and the sync token that it has.
fn answers(server: &Server, token: &str, cursor: &str, since: &str) -> Vec<String> {
    let get = |target: &str| {
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            server.address
        );
        let reply = server.client(token).send(head.as_bytes()).unwrap();
        assert_eq!(reply.status, 200, "{target}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    };
    let whole = |target: &&str| {
        let mut answer = get(target);
        without_cursors(&mut answer);
        answer.to_string()
    };
    let mut all: Vec<String> = REQUESTS.iter().map(whole).collect();
    for parameter in [format!("cursor={cursor}"), format!("changes_since={since}")] {
        let target = format!("/v1/streams/messages/records?limit=50&{parameter}");
        let mut body = get(&target);
        without_cursors(&mut body);
        assert!(body["data"].as_array().is_some_and(|data| !data.is_empty()), "{target}: {body}");
        all.push(body["data"].to_string());
    }
    all
}

#[test]
fn a_client_goes_on_with_its_token_and_its_cursors_after_records_moved_there_and_back() {
    let test = "a_client_goes_on_with_its_token_and_its_cursors_after_records_moved_there_and_back";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let kit = Kit::new();
    let long = "wörter vom fern ".repeat(2000);
    let row = |id: &str, body: &str| json!({ "data": { "id": id, "body": body } });
    kit.ingest(
        "messages",
        "mail",
        &[row("m1", &long), row("m2", "a fern\u{0}"), row("m3", "other")],
    );
    let (_, token) = kit.client(&["--stream", "messages"]);
    let page = kit.json("/v1/streams/messages/records?limit=1", &token);
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let all = kit.json("/v1/streams/messages/records?limit=50&changes_since=beginning", &token);
    let since = all["next_changes_since"].as_str().unwrap().to_owned();
    kit.ingest("messages", "mail", &[row("m3", "changed later"), row("m4", "new")]);
    let before = answers(&kit.server, &token, &cursor, &since);
    assert!(before.iter().any(|answer| answer.contains("changed later")), "{before:#?}");
    let Kit { folder, rig, server, .. } = kit;
    drop(server);

    let state = rig.state.to_str().unwrap().to_owned();
    let address = database.address();
    let ran = migrate(&rig, &state, "env:STILE_OTHER", &address, &["--json"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran).1);
    let there: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let table = |name: &str| {
        let tables = there["tables"].as_array().unwrap();
        tables.iter().find(|table| table["table"] == name).unwrap_or_else(|| panic!("{there}"))
    };
    assert_eq!(table("records")["rows"], 4);
    assert_eq!(table("records")["sha256"].as_str().map(str::len), Some(64));

    let back: PathBuf = folder.path().join("back");
    let back_text = back.to_str().unwrap();
    let ran = migrate(&rig, "env:STILE_OTHER", back_text, &address, &["--json"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran).1);
    assert_eq!(serde_json::from_slice::<Value>(&ran.stdout).unwrap(), there);

    let on_postgresql = Rig { state: folder.path().join("other"), ..rig.clone() };
    let on_postgresql = on_postgresql.serve(&["--database", &address]);
    assert_eq!(answers(&on_postgresql, &token, &cursor, &since), before);
    let again = Rig { state: back, ..rig }.serve(&[]);
    assert_eq!(answers(&again, &token, &cursor, &since), before);
}

#[test]
fn a_copy_into_records_or_from_nothing_is_refused_and_says_what_to_do() {
    let kit = Kit::new();
    kit.ingest("messages", "mail", &[json!({ "data": { "id": "a" } })]);
    let Kit { folder, rig, server, .. } = kit;
    drop(server);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let state = rig.state.to_str().unwrap().to_owned();
    let run = |from: &str, to: &str| said(&migrate(&rig, from, to, "", &[]));
    assert_eq!(run(&state, &path("copy")).0, Some(0));
    for (from, to, why) in [
        (state.clone(), path("copy"), "complete copy"),
        (state.clone(), state.clone(), "the database of --from"),
        (path("space"), path("new"), "no records"),
        ("env:STILE_NOWHERE".to_owned(), path("new"), "has no variable STILE_NOWHERE"),
    ] {
        let (code, errors) = run(&from, &to);
        assert_eq!(code, Some(2), "{from} {to}: {errors}");
        assert!(errors.contains(why), "{from} {to}: {errors}");
    }
    assert!(!folder.path().join("new").exists(), "a refused copy made a folder");
}

/// Runs a command of the owner that uses a database, and returns what it prints.
fn owner(rig: &Rig, arguments: &[&str], database: &str) -> String {
    let mut command = rig.command(arguments);
    command.arg("--state").arg(&rig.state).env("STILE_DATABASE", database);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends a request of `/v1`, and returns the answer to it.
fn ask(server: &Server, method: &str, target: &str, token: &str, body: &str) -> Value {
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", &*authorization), ("Content-Type", "application/json")];
    let url = format!("http://{}{target}", server.address);
    let reply = fetch(method, &url, &headers, body);
    assert_eq!(reply.status, 200, "{target}: {}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

/// Returns whose record the holder of a token finds.
fn herons(server: &Server, token: &str) -> Vec<String> {
    let found = ask(server, "GET", "/v1/search?q=heron", token, "");
    let hits = found["data"].as_array().unwrap().iter();
    hits.map(|hit| hit["snippet"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn one_of_several_people_moves_to_a_server_of_their_own_and_back_to_others() {
    let test = "one_of_several_people_moves_to_a_server_of_their_own_and_back_to_others";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let (several, others) = (postgres.database(), postgres.database());
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let hosted = |name: &str, database: &str| {
        let (people, state) =
            (folder.path().join(name), folder.path().join(name.to_owned() + "-state"));
        std::fs::create_dir_all(&people).unwrap();
        let rig = Rig { root: people.clone(), state, ..rig.clone() };
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--spaces"]);
        command.arg(&people).arg("--state").arg(&rig.state).env("STILE_DATABASE", database);
        (Server::start(command), rig)
    };
    let token = |rig: &Rig, person: &str, database: &str| {
        let root = rig.root.to_str().unwrap();
        owner(rig, &["person", "add", person], database);
        let of = ["token", "--root", root, "--user", person, "--scope", "write:/", "--owner"];
        owner(rig, &of, database)
    };
    let (server, of_several) = hosted("people", &several.address());
    for person in ["ann", "bob"] {
        let row = json!({ "data": { "id": "r", "text": format!("the heron of {person}") } });
        let token = token(&of_several, person, &several.address());
        let target = "/v1/ingest/rows?connection_id=c";
        ask(&server, "POST", target, &token, &(row.to_string() + "\n"));
        assert_eq!(herons(&server, &token), [format!("the heron of {person}")]);
    }
    drop(server);

    let alone = folder.path().join("alone").to_str().unwrap().to_owned();
    let refused = migrate(&rig, "env:STILE_OTHER", &alone, &several.address(), &[]);
    let (code, errors) = said(&refused);
    assert!(code == Some(2) && errors.contains("--user or --person"), "{errors}");
    let of_ann = ["--user", "ann", "--json"];
    let moved = migrate(&rig, "env:STILE_OTHER", &alone, &several.address(), &of_ann);
    assert_eq!(moved.status.code(), Some(0), "{}", said(&moved).1);
    let there: Value = serde_json::from_slice(&moved.stdout).unwrap();
    let own = of_several.root.join(there["person"].as_str().unwrap()).join("notes");
    let own = Rig { root: own, state: alone.clone().into(), ..rig.clone() };
    assert!(own.root.is_dir(), "the command names the folder of the person's space");
    let server = own.serve(&[]);
    let own_token = own.token(&["write:/"], &["--owner"]);
    assert_eq!(herons(&server, &own_token), ["the heron of ann"]);
    drop(server);

    let moved = migrate(&rig, &alone, "env:STILE_OTHER", &others.address(), &of_ann);
    assert_eq!(moved.status.code(), Some(0), "{}", said(&moved).1);
    let back: Value = serde_json::from_slice(&moved.stdout).unwrap();
    assert_eq!(back["tables"], there["tables"]);
    let (server, of_others) = hosted("others", &others.address());
    let of = |person: &str| herons(&server, &token(&of_others, person, &others.address()));
    assert_eq!((of("ann"), of("bob")), (vec!["the heron of ann".to_owned()], vec![]));
}
