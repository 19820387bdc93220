//! Clients that start `stile stdio`: seen, undone and ended under their own names.

use std::process::Output;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde_json::{Value, json};
use stile_testkit::client::Stdio;
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::postgres::{PostgresServer, TestDatabase};
use stile_testkit::process::Rig;

use crate::support::{initialize, meta, request};

struct Owner {
    _folder: tempfile::TempDir,
    rig: Rig,
    /// The database that holds tokens and clients, if it is not the state folder.
    database: Option<TestDatabase>,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir_all(rig.home()).unwrap();
        Self { _folder: folder, rig, database: None }
    }

    /// `None` if there is no PostgreSQL.
    fn on_postgres(test: &str) -> Option<Self> {
        let database = PostgresServer::shared(test)?.database();
        Some(Self { database: Some(database), ..Self::new() })
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let state = self.rig.state.to_str().unwrap();
        let mut command = self.rig.command(&[arguments, &["--state", state]].concat());
        let address = self.database.as_ref().map(TestDatabase::address);
        command.envs(address.map(|address| ("STILE_DATABASE", address))).output().unwrap()
    }

    /// Starts a client.
    fn stdio(&self, arguments: &[&str]) -> Stdio {
        let address = self.database.as_ref().map(TestDatabase::address);
        let database = address.map(|address| ["--database".to_owned(), address]);
        let database = database.iter().flatten().map(String::as_str);
        self.rig.stdio(&arguments.iter().copied().chain(database).collect::<Vec<_>>())
    }

    /// Runs a command that must succeed, and returns its standard output.
    fn said(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn listed(&self, arguments: &[&str]) -> Vec<Value> {
        serde_json::from_str(&self.said(arguments)).unwrap()
    }
}

/// Opens a session under the name that a client gives itself.
fn open(client: &mut Stdio, name: &str) {
    client.send(initialize("2025-11-25", name).to_string().as_bytes()).unwrap();
    assert!(client.receive().unwrap()["result"].is_object());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.send(initialized.to_string().as_bytes()).unwrap();
}

fn call(client: &mut Stdio, tool: &str, arguments: Value) -> Value {
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    client.send(call.to_string().as_bytes()).unwrap();
    client.receive().unwrap()
}

fn create(client: &mut Stdio, path: &str) {
    let answer = call(client, "file.create", json!({ "path": path, "content": "new\n" }));
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
}

fn names<'v>(rows: &'v [Value], key: &str) -> Vec<&'v str> {
    rows.iter().map(|row| row[key].as_str().unwrap_or("-")).collect()
}

#[test]
fn each_client_is_seen_and_undone_under_its_own_name() {
    see_and_undo(&Owner::new());
}

#[test]
fn each_client_is_seen_and_undone_under_its_own_name_with_a_shared_database() {
    let test = "each_client_is_seen_and_undone_under_its_own_name_with_a_shared_database";
    if let Some(owner) = Owner::on_postgres(test) {
        see_and_undo(&owner);
        let clients = owner.listed(&["client", "list", "--json"]);
        let cursor = clients.iter().find(|client| client["name"] == "cursor").unwrap();
        owner.said(&["client", "end", cursor["client_id"].as_str().unwrap()]);
        let refused = owner.stdio(&["--client", "cursor"]).finish();
        assert!(refused.is_ok_and(|status| !status.success()), "cursor has ended");
    }
}

fn see_and_undo(owner: &Owner) {
    let mut named = owner.stdio(&["--client", "cursor"]);
    open(&mut named, "claude-ai");
    create(&mut named, "/by-cursor.md");
    let mut unnamed = owner.stdio(&[]);
    open(&mut unnamed, "claude-ai");
    create(&mut unnamed, "/by-claude.md");

    let self_named = "claude-ai (self-named)";
    assert_eq!(names(&owner.listed(&["history", "--json"]), "client"), [self_named, "cursor"]);
    let mut clients = owner.listed(&["client", "list", "--json"]);
    // Both may have become known in one second.
    clients.sort_by_key(|client| client["name"] != "cursor");
    assert_eq!(names(&clients, "name"), ["cursor", self_named]);
    assert_eq!(names(&clients, "kind"), ["stdio", "stdio"]);
    assert_eq!(
        clients[0]["rights"],
        json!(["may read, change, make and remove all files", "sees no records"])
    );
    let audit = owner.said(&["audit", "--since", "1h"]);
    assert!(audit.contains("cursor created /by-cursor.md"), "{audit}");
    assert!(audit.contains("claude-ai (self-named) created /by-claude.md"), "{audit}");
    named.finish().unwrap();
    let listed = owner.listed(&["client", "list", "--json"]);
    let cursor = listed.iter().find(|client| client["name"] == "cursor").unwrap();
    assert!(cursor["last_used"].is_string(), "the use is written at the end");

    owner.said(&["undo", "--client", self_named, "--since", "1h", "--yes"]);
    assert!(owner.rig.root.join("by-cursor.md").exists());
    assert!(!owner.rig.root.join("by-claude.md").exists());
    let changes = owner.listed(&["history", "--json"]);
    assert_eq!(names(&changes, "client"), ["command line", self_named, "cursor"]);
    let activity = owner.said(&["activity"]);
    for name in ["command line\n", "claude-ai (self-named)\n", "cursor\n"] {
        assert!(activity.contains(name), "{activity}");
    }
}

/// The lists show a long name cut.
#[test]
fn a_self_given_name_is_taken_as_each_list_shows_it_with_its_mark_or_without() {
    let owner = Owner::new();
    let long = "a client with quite a long name of its own";
    for (own, path) in [("goose", "/goose.md"), (long, "/long.md")] {
        let mut client = owner.stdio(&[]);
        open(&mut client, own);
        create(&mut client, path);
        client.finish().unwrap();
    }
    let mut named = owner.stdio(&["--client", "cursor"]);
    open(&mut named, "x");
    create(&mut named, "/cursor.md");
    let mut taken = owner.stdio(&[]);
    open(&mut taken, "cursor");
    create(&mut taken, "/self-named-cursor.md");

    let listed = owner.said(&["client", "list"]);
    let cut = listed.lines().find_map(|line| line.find("a client with").map(|at| &line[at..]));
    let cut = cut.unwrap().split("  ").next().unwrap().to_owned();
    assert!(cut.ends_with('…') && cut != long, "{listed}");
    for (typed, whole, path) in [
        ("goose", "goose (self-named)", "goose.md"),
        (cut.as_str(), "a client with quite a long name of its own (self-named)", "long.md"),
        ("cursor", "cursor", "cursor.md"),
    ] {
        for name in [typed, whole] {
            let history = owner.listed(&["history", "--client", name, "--json"]);
            assert_eq!(names(&history, "client"), [whole], "{name}");
            let audit = owner.said(&["audit", "--client", name]);
            assert_eq!(audit.lines().count(), 1, "{name}: {audit}");
            let shown: Value =
                serde_json::from_str(&owner.said(&["client", "show", name])).unwrap();
            assert_eq!(shown["name"], whole);
        }
        owner.said(&["undo", "--client", typed, "--since", "1h", "--yes"]);
        assert!(!owner.rig.root.join(path).exists(), "{typed}");
        assert!(owner.said(&["client", "end", typed]).starts_with(whole), "{typed}");
    }
    assert!(owner.rig.root.join("self-named-cursor.md").exists());
    let ended = owner.listed(&["client", "list", "--json"]);
    let live = ended.iter().filter(|row| row["state"] == "allowed").collect::<Vec<_>>();
    assert_eq!(live.len(), 1, "{ended:?}");
    assert_eq!(live[0]["name"], "cursor (self-named)");
}

#[test]
fn a_beginning_that_two_names_have_in_a_list_is_refused_with_both() {
    let owner = Owner::new();
    let names = ["one", "two"].map(|end| format!("a client with quite a long name, number {end}"));
    for name in &names {
        let mut client = owner.stdio(&[]);
        open(&mut client, name);
        create(&mut client, &format!("/{}.md", &name[name.len() - 3..]));
        client.finish().unwrap();
    }
    let cut = format!("{}…", &names[0][..39]);
    for command in [
        &["undo", "--client", &cut, "--since", "1h", "--yes"][..],
        &["history", "--client", &cut],
        &["audit", "--client", &cut],
        &["client", "end", &cut],
    ] {
        let ran = owner.run(command);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{command:?}: {said}");
        assert!(names.iter().all(|name| said.contains(name.as_str())), "{command:?}: {said}");
    }
    assert!(owner.rig.root.join("one.md").exists() && owner.rig.root.join("two.md").exists());
}

#[test]
fn the_last_use_of_a_client_is_listed_at_once_and_after_it_was_ended_and_killed() {
    let owner = Owner::new();
    let mut client = owner.stdio(&["--client", "cursor"]);
    open(&mut client, "x");
    create(&mut client, "/a.md");
    let last_use = || owner.listed(&["client", "list", "--json"])[0]["last_used"].clone();
    let began = std::time::Instant::now();
    while last_use().is_null() {
        assert!(began.elapsed() < crate::support::PATIENCE, "the use is not listed");
    }
    owner.said(&["client", "end", "cursor"]);
    client.child().kill().unwrap();
    client.child().wait().unwrap();
    assert!(last_use().is_string());
}

/// Revision 2026-07-28 ends a subscription with the result of its request.
#[test]
fn a_listener_on_stdio_is_answered_when_its_client_is_ended_and_so_is_what_it_asks_then() {
    let owner = Owner::new();
    std::fs::create_dir_all(&owner.rig.root).unwrap();
    std::fs::write(owner.rig.root.join("a.md"), "a\n").unwrap();
    let mut client = owner.stdio(&["--client", "cursor"]);
    let ask = |client: &mut Stdio, id: i64, method: &str, mut params: Value| {
        params["_meta"] = meta();
        client.send(request(id, method, params).to_string().as_bytes()).unwrap();
    };
    let wanted = json!({
        "toolsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["space:///a.md", "space:///"],
    });
    ask(&mut client, 7, "subscriptions/listen", json!({ "notifications": wanted }));
    // What it names is told once at the beginning.
    while client.receive().unwrap()["method"] != "notifications/resources/updated" {}
    owner.said(&["client", "end", "cursor"]);
    let last = loop {
        let message = client.receive().unwrap();
        if message["id"] == 7 {
            break message;
        }
    };
    assert!(last["result"].is_object(), "{last}");
    for (id, method, params) in [
        (8, "tools/list", json!({})),
        (9, "tools/call", json!({ "name": "text.read", "arguments": { "path": "/a.md" } })),
        (10, "resources/read", json!({ "uri": "space:///a.md" })),
        (11, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
    ] {
        ask(&mut client, id, method, params);
        let mut answer = client.receive().unwrap();
        if answer["id"].is_null() {
            answer = client.receive().unwrap();
        }
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(answer["id"], id, "{answer}");
        assert!(message.contains("the owner ended the access of cursor"), "{method}: {answer}");
    }
}

#[test]
fn a_call_on_stdio_that_waits_when_its_client_is_ended_changes_nothing() {
    let owner = Owner::new();
    let mut client = owner.stdio(&["--client", "cursor"]);
    open(&mut client, "x");
    create(&mut client, "/work/a.md");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let work = owner.rig.root.join("work");
    let locked = rustix::fs::open(&work, flags, Mode::empty()).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    for (id, meta) in [(8, json!({})), (9, json!({ "progressToken": "p" }))] {
        let arguments = json!({ "path": format!("/work/{id}.md"), "content": "x\n" });
        let mut body = crate::support::call(id, "file.create", arguments);
        if meta != json!({}) {
            body["params"]["_meta"] = meta;
        }
        client.send(body.to_string().as_bytes()).unwrap();
    }
    owner.said(&["client", "end", "cursor"]);
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let message = client.receive().unwrap();
        if let Some(id) = message["id"].as_i64() {
            let text = message.to_string();
            assert!(text.contains("cancelled") || text.contains("ended"), "{text}");
            answered.push(id);
        }
    }
    drop(locked);
    client.finish().unwrap();
    assert!(!work.join("8.md").exists() && !work.join("9.md").exists());
}

#[test]
fn no_client_bears_a_name_that_this_program_gives_its_own_calls() {
    let owner = Owner::new();
    for name in ["command line", "Command\u{a0}Line", "stile-doctor", "cursor (self-named)"] {
        let refused = owner.rig.stdio(&["--client", name]).finish();
        assert!(refused.is_ok_and(|status| !status.success()), "{name}");
    }
    assert_eq!(owner.listed(&["client", "list", "--json"]), [] as [Value; 0]);
}

#[test]
fn any_client_that_was_ended_is_let_in_again_by_its_name() {
    let owner = Owner::new();
    // One has a name of the owner's, the other names itself.
    for (given, named) in [(&["--client", "My Ed"][..], "My Ed"), (&[], "claude-ai (self-named)")] {
        let mut client = owner.rig.stdio(given);
        open(&mut client, "claude-ai");
        call(&mut client, "file.list", json!({ "path": "/" }));
        let ended = owner.said(&["client", "end", named]);
        assert!(ended.contains("`stile client allow` lets it in again"), "{ended}");
        let refused = call(&mut client, "file.list", json!({ "path": "/" }));
        assert!(refused["error"].is_object(), "{refused}");
        let allowed = owner.said(&["client", "allow", named]);
        assert!(allowed.starts_with(&format!("{named} is let in again")), "{allowed}");
        let again = owner.said(&["client", "allow", named]);
        assert!(again.contains("is let in already"), "{again}");
        let mut client = owner.rig.stdio(given);
        open(&mut client, "claude-ai");
        let listed = call(&mut client, "file.list", json!({ "path": "/" }));
        assert!(listed["result"].is_object(), "{listed}");
    }
    let unknown = owner.run(&["client", "allow", "nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn an_ended_client_is_refused_until_it_is_connected_again() {
    let owner = Owner::new();
    let start = || owner.rig.stdio(&["--client", "claude-desktop"]);
    let mut client = start();
    open(&mut client, "claude-ai");
    create(&mut client, "/one.md");
    let tokens = owner.listed(&["token", "list", "--json"]);
    let id = tokens[0]["jti"].as_str().unwrap();
    assert_eq!((&tokens[0]["transport"], &tokens[0]["expires"]), (&json!("stdio"), &Value::Null));

    owner.said(&["client", "end", id]);
    let answer = call(&mut client, "file.create", json!({ "path": "/two.md", "content": "" }));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the owner ended the access of claude-desktop"), "{message}");
    assert!(!owner.rig.root.join("two.md").exists());
    let refused =
        owner.run(&["stdio", owner.rig.root.to_str().unwrap(), "--client", "claude-desktop"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`stile client allow claude-desktop` lets it in again"), "{said}");
    // Another client is not concerned.
    open(&mut owner.rig.stdio(&["--client", "cursor"]), "cursor");

    let root = owner.rig.root.to_str().unwrap();
    let connect = || owner.said(&["connect", "claude-desktop", "--root", root, "--write"]);
    let again = "Claude Desktop is let in again, after you ended its access";
    assert!(connect().contains(again));
    assert!(connect().contains("Claude Desktop is connected already"));

    let ended = owner.listed(&["client", "list", "--json"]);
    let ended = ended.iter().find(|row| row["state"] == "allowed" && row["name"] != "cursor");
    owner.said(&["client", "end", ended.unwrap()["client_id"].as_str().unwrap()]);
    let found = owner.run(&["doctor", "--root", root]);
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.contains("FAIL  access: the owner ended the access on "), "{found}");
    assert!(found.contains("to let it in again, run `stile connect claude-desktop --write`"));
    let said = connect();
    assert!(said.contains(again) && !said.contains("already"), "{said}");

    let mut again = start();
    open(&mut again, "claude-ai");
    create(&mut again, "/three.md");
    owner.said(&["disconnect", "claude-desktop"]);
    let answer = call(&mut again, "file.create", json!({ "path": "/four.md", "content": "" }));
    assert!(answer["error"].is_object(), "{answer}");
}

#[test]
fn the_doctor_tries_an_entry_under_its_own_name() {
    let owner = Owner::new();
    let root = owner.rig.root.to_str().unwrap();
    owner.said(&["connect", "claude-desktop", "--root", root, "--write"]);
    let before = owner.listed(&["client", "list", "--json"]);
    let found = owner.run(&["doctor", "--root", root, "--json"]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(found.to_string().contains("Claude Desktop"), "{found:#}");
    assert_eq!(owner.listed(&["client", "list", "--json"]), before, "the client was not used");
    let audit = owner.said(&["audit", "--since", "1h"]);
    assert!(audit.contains("stile-doctor listed /"), "{audit}");
    assert!(!audit.contains("claude-desktop"), "{audit}");
}

#[test]
fn a_dry_run_is_told_as_one_and_counts_as_a_read() {
    let owner = Owner::new();
    let mut client = owner.rig.stdio(&["--client", "cursor"]);
    open(&mut client, "cursor");
    create(&mut client, "/a.md");
    let read = call(&mut client, "text.read", json!({ "path": "/a.md" }));
    let hash = read["result"]["structuredContent"]["hash"].as_str().unwrap().to_owned();
    let moved = call(
        &mut client,
        "file.move",
        json!({ "path": "/a.md", "hash": hash, "to": "/b.md", "rewrite_links": true, "dry_run": true }),
    );
    assert_eq!(moved["result"]["isError"], json!(false), "{moved}");
    let audit = owner.said(&["audit", "--since", "1h"]);
    assert!(
        audit.contains("cursor would have moved /a.md to /b.md (dry run, nothing was changed)"),
        "{audit}"
    );
    let activity = owner.listed(&["activity", "--json"]);
    assert_eq!((&activity[0]["changes"], &activity[0]["reads"]), (&json!(1), &json!(2)));
}

/// Returns whether the answer to `tools/list` has the tools for records.
fn has_record_tools(list: &Value) -> bool {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().any(|tool| tool["name"] == "query_records")
}

#[test]
fn a_grant_that_is_revoked_alone_takes_the_record_tools_away_and_says_so() {
    let owner = Owner::new();
    let rows = owner.rig.home().join("rows.jsonl");
    std::fs::write(&rows, "{\"id\":\"1\",\"subject\":\"hello\"}\n").unwrap();
    let rows = rows.to_str().unwrap();
    owner.said(&["import", rows, "--connection", "mail", "--stream", "messages", "--key", "id"]);
    let grant = owner.said(&["grant", "create", "--client", "editor", "--stream", "messages"]);
    let grant = grant.trim();
    let server = owner.rig.serve(&[]);
    let token = owner.rig.token(&["read:/"], &["--grant", grant]);
    let listed = || {
        let mut peer = Peer::open(&server, &token, Lifecycle::Session("2025-11-25"));
        message_of(&peer.post("tools/list", json!({})).unwrap())
    };
    let list = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list" }).to_string();
    let mut client = owner.rig.stdio(&["--client", "editor", "--grant", grant]);
    open(&mut client, "editor");
    client.send(list.as_bytes()).unwrap();
    assert!(has_record_tools(&client.receive().unwrap()));
    assert!(has_record_tools(&listed()));

    owner.said(&["grant", "revoke", grant]);
    while client.receive().unwrap()["method"] != "notifications/tools/list_changed" {}
    client.send(list.as_bytes()).unwrap();
    let after = client.receive().unwrap();
    assert!(!has_record_tools(&after), "{after}");
    assert!(!has_record_tools(&listed()));
    let clients = owner.listed(&["client", "list", "--json"]);
    let client = clients.iter().find(|client| client["kind"] == "stdio").unwrap();
    assert_eq!((&client["grant"], &client["rights"][1]), (&Value::Null, &json!("sees no records")));
}

/// Each process has the rights of its own start, whatever another one of its name has.
#[test]
fn a_list_says_what_each_of_two_processes_of_one_client_may_do() {
    let owner = Owner::new();
    let mut one = owner.stdio(&["--client", "Zed", "--scope", "write:/"]);
    open(&mut one, "zed");
    create(&mut one, "/a.md");
    let row = |owner: &Owner| {
        let rows = owner.listed(&["client", "list", "--json"]);
        rows.into_iter().find(|row| row["name"] == "Zed").unwrap()
    };
    let rights = row(&owner)["rights"].clone();
    assert_eq!(row(&owner)["rights_of_other_starts"], json!([]));
    let mut two = owner.stdio(&["--client", "Zed", "--scope", "read:/"]);
    open(&mut two, "zed");
    let refused = call(&mut two, "file_create", json!({ "path": "/b.md", "content": "x" }));
    assert_ne!(refused["result"]["isError"], json!(false), "{refused}");
    create(&mut one, "/c.md");
    assert_ne!(row(&owner)["rights"], rights);
    assert_eq!(row(&owner)["rights_of_other_starts"], json!([rights]));
    let said = owner.said(&["client", "list"]);
    let wide = rights[0].as_str().unwrap();
    assert!(said.contains(&format!("Started otherwise: {wide}")), "{said}");
}
