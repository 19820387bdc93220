//! The start of `stile stdio`: what it does before the first lists, and what the first call waits
//! for.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use stile_testkit::client::{McpClient as _, Stdio};
use stile_testkit::process::Rig;

use crate::support::initialize;

struct Place {
    _folder: tempfile::TempDir,
    rig: Rig,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::write(rig.root.join("a.md"), "one\n").unwrap();
        std::fs::create_dir_all(rig.home()).unwrap();
        Self { _folder: folder, rig }
    }

    /// Starts the program, opens a session and asks for all lists that need no file.
    fn listed(&self, more: &[&str]) -> Stdio {
        let mut client = self.rig.stdio(more);
        client.send(initialize("2025-11-25", "editor").to_string().as_bytes()).unwrap();
        assert!(client.receive().unwrap()["result"].is_object());
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.send(initialized.to_string().as_bytes()).unwrap();
        for (method, member) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let answer = client.request(method, json!({})).unwrap();
            assert!(answer["result"][member].is_array(), "{answer}");
        }
        client
    }
}

fn call(client: &mut Stdio, tool: &str, arguments: Value) -> Value {
    client.request("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap()
}

fn read(client: &mut Stdio, path: &str) -> Value {
    let answer = call(client, "text.read", json!({ "path": path }));
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    answer["result"]["structuredContent"].clone()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn hidden(folder: &Path) -> usize {
    names(folder).iter().filter(|name| name.starts_with(".stile-")).count()
}

#[test]
fn lists_are_answered_before_anything_is_made_in_the_state_or_in_the_space() {
    let place = Place::new();
    let mut client = place.listed(&[]);
    // The lock that says that the folder is served.
    assert_eq!(names(&place.rig.state), BTreeSet::from(["served".to_owned()]));
    assert_eq!(names(&place.rig.root), BTreeSet::from(["a.md".to_owned()]));

    assert_eq!(read(&mut client, "/a.md")["total_lines"], 1);
    let made = names(&place.rig.state);
    for name in ["appends", "history", "journal", "reserve", "stile.db", "version.json"] {
        assert!(made.contains(name), "{name} is missing in {made:?}");
    }
    client.finish().unwrap();
}

#[test]
fn a_second_start_writes_to_no_database_before_the_first_call() {
    let place = Place::new();
    let mut first = place.listed(&["--client", "editor"]);
    read(&mut first, "/a.md");
    first.finish().unwrap();

    let mut second = place.listed(&["--client", "editor"]);
    let length = |name: &str| {
        std::fs::metadata(place.rig.state.join(name)).map_or(0, |metadata| metadata.len())
    };
    assert_eq!(length("history/history.db-wal"), 0);
    assert_eq!(length("stile.db-wal"), 0);
    read(&mut second, "/a.md");
    assert!(length("history/history.db-wal") > 0, "the first call opens the history");
}

#[test]
fn what_a_killed_process_left_is_cleaned_before_the_first_call_is_answered() {
    let place = Place::new();
    // Without a history, a displaced file stays beside the new one for a while.
    let mut killed = place.listed(&["--history", "off"]);
    let hash = read(&mut killed, "/a.md")["hash"].clone();
    let edits = json!([{ "old": "one", "new": "two" }]);
    let edit = json!({ "path": "/a.md", "hash": hash, "edits": edits });
    let edited = call(&mut killed, "text.edit", edit);
    assert_eq!(edited["result"]["isError"], json!(false), "{edited}");
    killed.child().kill().unwrap();
    killed.child().wait().unwrap();
    assert!(hidden(&place.rig.root) > 0, "a kill leaves the displaced file");

    let mut client = place.listed(&["--history", "off"]);
    assert!(hidden(&place.rig.root) > 0, "lists touch no file");
    let listed = call(&mut client, "file.list", json!({ "path": "/" }));
    assert_eq!(listed["result"]["isError"], json!(false), "{listed}");
    assert_eq!(hidden(&place.rig.root), 0);
    assert_eq!(std::fs::read_to_string(place.rig.root.join("a.md")).unwrap(), "two\n");
}

#[test]
fn a_history_that_cannot_be_opened_stops_the_start_of_an_owner_who_requires_it() {
    let place = Place::new();
    std::fs::create_dir_all(&place.rig.state).unwrap();
    let mut state = place.rig.command(&["stdio"]);
    std::fs::write(place.rig.state.join("history"), "no folder").unwrap();
    state.arg(&place.rig.root).arg("--state").arg(&place.rig.state).args(["--history", "require"]);
    let ended = state.output().unwrap();
    assert_eq!((ended.status.success(), ended.stdout.len()), (false, 0));
    // Everybody else is served without old versions, as before.
    let mut client = place.listed(&[]);
    read(&mut client, "/a.md");
}

#[test]
fn a_folder_that_is_not_there_and_a_damaged_database_of_tokens_stop_the_start() {
    let place = Place::new();
    let refused = |root: &Path| {
        let mut start = place.rig.command(&["stdio"]);
        let ended = start.arg(root).arg("--state").arg(&place.rig.state).output().unwrap();
        assert_eq!((ended.status.success(), ended.stdout.len()), (false, 0));
        String::from_utf8(ended.stderr).unwrap()
    };
    let said = refused(&place.rig.root.join("nowhere"));
    assert!(said.contains("there is no folder "), "{said}");
    std::fs::write(place.rig.state.join("stile.db"), "no database".repeat(100)).unwrap();
    let said = refused(&place.rig.root);
    assert!(said.contains("is not a database of stile"), "{said}");
}
