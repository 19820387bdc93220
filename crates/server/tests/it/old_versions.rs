//! Old versions of files: what the owner's commands show and take back beside a running server, and
//! what agents may take back themselves.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_store::journal;
use stile_store::state::StateDir;
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::process::{Rig, Server};

pub struct Stage {
    folder: tempfile::TempDir,
    pub rig: Rig,
    server: Server,
}

impl Stage {
    pub fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let server = rig.serve(more);
        Self { folder, rig, server }
    }

    pub fn client(&self, name: &str) -> Http {
        self.server.client(&self.rig.token(&["write:/"], &["--client", name]))
    }

    /// Runs a command of the owner.
    pub fn stile(&self, arguments: &[&str]) -> Output {
        let mut command = self.rig.command(arguments);
        // The journal is the same whatever the folder is.
        if arguments[0] != "audit" {
            command.arg("--root").arg(&self.rig.root);
        }
        command.arg("--state").arg(&self.rig.state).output().unwrap()
    }

    /// Runs a command of the owner that is about the state and no folder.
    fn output_of_state(&self, arguments: &[&str]) -> Output {
        let mut command = self.rig.command(arguments);
        command.arg("--state").arg(&self.rig.state).output().unwrap()
    }

    fn stile_of_state(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.output_of_state(arguments).stdout).unwrap()
    }

    pub fn owner(&self, arguments: &[&str]) -> String {
        let output = self.stile(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.rig.root.join(name)).ok()
    }

    pub fn put(&self, name: &str, text: &str) {
        std::fs::write(self.rig.root.join(name), text).unwrap();
    }

    /// Returns the changes of the history, the latest first.
    pub fn changes(&self) -> Vec<Value> {
        serde_json::from_str(&self.owner(&["history", "--json"])).unwrap()
    }
}

pub fn hash(text: &str) -> String {
    ContentHash::digest(text.as_bytes()).to_string()
}

/// Replaces the only line of a file.
pub fn replace(client: &mut Http, path: &str, old: &str, new: &str) -> Value {
    let arguments = json!({
        "path": path, "hash": hash(&format!("{old}\n")), "lines": [1, 0], "old": old, "new": new,
    });
    client.tool("text.replace", arguments).unwrap()
}

fn hidden(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".stile-")).count()
}

#[test]
fn a_version_is_shown_compared_and_restored_beside_a_running_server() {
    let stage = Stage::new(&[]);
    stage.put("plan.md", "one\n");
    let mut agent = stage.client("cursor");
    assert!(replace(&mut agent, "/plan.md", "one", "two")["hash"].is_string());
    assert_eq!(hidden(&stage.rig.root), 0);
    let listed = stage.owner(&["history", "plan.md"]);
    assert!(listed.contains("cursor") && listed.contains("replaced /plan.md"), "{listed}");
    assert_eq!(stage.owner(&["show", "plan.md@1"]), "one\n");
    let short = hash("one\n").chars().take(8).collect::<String>();
    assert_eq!(stage.owner(&["show", &format!("plan.md@{short}")]), "one\n");
    let diff = stage.owner(&["diff", "plan.md"]);
    assert_eq!(diff, "--- /plan.md@1\n+++ /plan.md\n@@ -1 +1 @@\n-one\n+two\n");
    let plan = "restore /plan.md as before change 1\nNothing was changed. Add --yes to do this.\n";
    assert_eq!(stage.owner(&["restore", "plan.md@1"]), plan);
    assert_eq!(stage.text("plan.md").as_deref(), Some("two\n"));
    let done = stage.owner(&["restore", "plan.md@1", "--yes"]);
    assert!(done.ends_with("Done. `stile undo 2` takes this back.\n"), "{done}");
    assert_eq!(stage.text("plan.md").as_deref(), Some("one\n"));
    let again = stage.owner(&["restore", "plan.md@1", "--yes"]);
    assert_eq!(again, "/plan.md is what it was at 1. Nothing is to be done.\n");
    // What the command replaced is kept too.
    stage.owner(&["restore", "plan.md", "--yes"]);
    assert_eq!(stage.text("plan.md").as_deref(), Some("two\n"));
    let state = StateDir::open(&stage.rig.state).unwrap();
    let lines = journal::read_all(&state).unwrap().lines;
    let is_owner = |client: &Option<String>| client.as_deref() == Some("command line");
    let restored =
        lines.iter().filter(|line| line.tool == "file.restore" && is_owner(&line.client));
    assert_eq!(restored.count(), 2);
}

#[test]
fn old_versions_come_back_with_a_backup() {
    let stage = Stage::new(&[]);
    stage.put("plan.md", "one\n");
    // Too long for the database even when compressed, so this version is a file.
    let long: String = (0..8_000).map(|line: u32| hash(&line.to_string()) + "\n").collect();
    stage.put("long.md", &long);
    let mut agent = stage.client("cursor");
    replace(&mut agent, "/plan.md", "one", "two");
    let removal = json!({ "path": "/long.md", "hash": hash(&long) });
    agent.tool("file.remove", removal).unwrap();
    let archive = stage.folder.path().join("backup.zip");
    let other = stage.folder.path().join("other");
    for (command, state) in [("backup", &stage.rig.state), ("restore-backup", &other)] {
        let mut command = stage.rig.command(&[command, archive.to_str().unwrap()]);
        let output = command.arg("--state").arg(state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let Stage { folder, rig, server } = stage;
    server.kill();
    let rig = Rig { state: other, ..rig };
    let restored = Stage { server: rig.serve(&[]), rig, folder };
    assert_eq!(restored.owner(&["show", "plan.md@1"]), "one\n");
    assert_eq!(restored.owner(&["show", "long.md@2"]), long);
    let undone = restored.owner(&["undo", "2", "--yes"]);
    assert!(undone.contains("1 of 1 done."), "{undone}");
    assert_eq!(restored.text("long.md"), Some(long));
}

#[test]
fn an_afternoon_is_taken_back_and_what_a_person_changed_is_left() {
    let stage = Stage::new(&[]);
    for name in ["edited.md", "mine.md", "removed.md", "moved.md"] {
        stage.put(name, "one\n");
    }
    let (mut cursor, mut other) = (stage.client("cursor"), stage.client("codex"));
    replace(&mut cursor, "/edited.md", "one", "two");
    replace(&mut cursor, "/edited.md", "two", "three");
    replace(&mut cursor, "/mine.md", "one", "two");
    let one = hash("one\n");
    cursor.tool("file.remove", json!({ "path": "/removed.md", "hash": one })).unwrap();
    let moving = json!({ "path": "/moved.md", "hash": one, "to": "/d/moved.md" });
    cursor.tool("file.move", moving).unwrap();
    replace(&mut cursor, "/d/moved.md", "one", "two");
    cursor.tool("file.create", json!({ "path": "/created.md", "content": "new\n" })).unwrap();
    other.tool("file.create", json!({ "path": "/others.md", "content": "new\n" })).unwrap();
    stage.put("mine.md", "typed by hand\n");
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    let ran = |more: &[&str]| {
        let output = stage.stile(&[&undo[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "one file is left");
        String::from_utf8(output.stdout).unwrap()
    };
    insta::assert_snapshot!(ran(&[]), @r"
    bring back /removed.md as before change 4
    restore    /d/moved.md as before change 7
    move back  /d/moved.md to /moved.md
    remove     /created.md, which was created
    restore    /edited.md as before change 1
    remove     /d, a folder that was made
    leave      /mine.md, which was changed since (change 3)
    Nothing was changed. Add --yes to do this.
    ");
    let json: Value = serde_json::from_str(&ran(&["--json"])).unwrap();
    let restore = json!({ "step": "restore", "path": "/d/moved.md", "before_change": 7 });
    assert_eq!((&json["steps"][1], json["steps"].as_array().unwrap().len()), (&restore, 6));
    let left = json!([{ "path": "/mine.md", "change": 3, "why": "was changed since" }]);
    assert_eq!(json["left"], left);
    assert_eq!(stage.text("edited.md").as_deref(), Some("three\n"));
    let done = ran(&["--yes"]);
    assert!(done.ends_with("6 of 6 done. `stile undo 10` takes this back.\n"), "{done}");
    for name in ["edited.md", "removed.md", "moved.md"] {
        assert_eq!(stage.text(name).as_deref(), Some("one\n"), "{name}");
    }
    assert_eq!(stage.text("mine.md").as_deref(), Some("typed by hand\n"));
    assert_eq!((stage.text("created.md"), stage.text("d/moved.md")), (None, None));
    assert_eq!(stage.text("others.md").as_deref(), Some("new\n"));
    assert_eq!(hidden(&stage.rig.root), 0);
    // The undo is one call, and is taken back like one.
    assert_eq!(stage.changes()[0]["call"], 10);
    stage.owner(&["undo", "10", "--yes"]);
    assert_eq!(stage.text("edited.md").as_deref(), Some("three\n"));
    assert_eq!(stage.text("d/moved.md").as_deref(), Some("two\n"));
    assert_eq!(stage.text("created.md").as_deref(), Some("new\n"));
    assert_eq!((stage.text("removed.md"), stage.text("moved.md")), (None, None));
}

#[test]
fn what_the_audit_tells_has_the_number_that_undo_takes_and_agents_do_not_see_it() {
    let stage = Stage::new(&[]);
    stage.put("plan.md", "one\n");
    let mut agent = stage.client("cursor");
    replace(&mut agent, "/plan.md", "one", "two");
    let answer = replace(&mut agent, "/plan.md", "two", "three");
    assert_eq!(answer.get("call"), None);
    replace(&mut agent, "/plan.md", "one", "stale");
    let told = stage.owner(&["audit", "--path", "/plan.md"]);
    let sentences: Vec<&str> = told.lines().filter_map(|line| line.get(21..)).collect();
    assert_eq!(
        sentences,
        [
            "cursor changed 1 line of /plan.md (call 1)",
            "cursor changed 1 line of /plan.md (call 2)",
            "cursor would have changed /plan.md, but it had changed since the client read it",
        ]
    );
    stage.owner(&["undo", "2", "--yes"]);
    assert_eq!(stage.text("plan.md").as_deref(), Some("two\n"));
    let told = stage.owner(&["audit", "--tool", "file.restore", "--json"]);
    let line: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(line["call"], stage.changes()[0]["call"], "an undo has a number too");
    stage.owner(&["undo", &line["call"].to_string(), "--yes"]);
    assert_eq!(stage.text("plan.md").as_deref(), Some("three\n"));
}

#[test]
fn commands_find_the_only_folder_that_was_served_and_ask_if_there_were_several() {
    let stage = Stage::new(&[]);
    stage.put("plan.md", "one\n");
    replace(&mut stage.client("cursor"), "/plan.md", "one", "two");
    let home = stage.folder.path().join("home");
    let undo = || {
        let mut command = stage.rig.command(&["undo", "1", "--yes", "--state"]);
        command.arg(&stage.rig.state).env("HOME", &home).output().unwrap()
    };
    let done = undo();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(stage.text("plan.md").as_deref(), Some("one\n"));
    let other = stage.folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut token = stage.rig.command(&["token", "--scope", "read:/", "--root"]);
    token.arg(&other).arg("--state").arg(&stage.rig.state);
    assert!(token.output().unwrap().status.success());
    assert_eq!(undo().status.code(), Some(0), "the folder is meant that is served now");
    drop(stage.server);
    let asked = undo();
    assert_eq!(asked.status.code(), Some(2));
    let error = String::from_utf8_lossy(&asked.stderr);
    assert!(error.contains("--root") && error.contains("other"), "{error}");
    assert!(!home.exists(), "no folder is made");
}

#[test]
fn a_damaged_version_is_named_and_the_rest_is_taken_back() {
    let stage = Stage::new(&[]);
    // A long text that does not compress well is a file of its own.
    let noise: String = (0..8000).map(|line| format!("{}\n", hash(&line.to_string()))).collect();
    stage.put("large.md", &noise);
    stage.put("small.md", "one\n");
    let mut agent = stage.client("cursor");
    agent.tool("file.remove", json!({ "path": "/large.md", "hash": hash(&noise) })).unwrap();
    replace(&mut agent, "/small.md", "one", "two");
    let objects = stage.rig.state.join("history/objects");
    let [object] = std::fs::read_dir(objects)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let mut bytes = std::fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    let output = stage.stile(&["undo", "--client", "cursor", "--since", "1h", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/large.md cannot come back"), "{error}");
    assert!(error.contains("is damaged"), "{error}");
    assert_eq!(stage.text("small.md").as_deref(), Some("one\n"));
    assert_eq!(stage.text("large.md"), None);
}

#[test]
fn a_save_that_an_agent_displaced_is_there() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    let mut agent = stage.client("cursor");
    replace(&mut agent, "/a.md", "one", "two");
    stage.put("a.md", "typed by hand\n");
    replace(&mut agent, "/a.md", "typed by hand", "three");
    assert_eq!(stage.owner(&["show", "a.md@2"]), "typed by hand\n");
}

#[test]
fn agents_take_back_their_own_changes_alone_and_only_if_the_owner_allows_it() {
    let names = |client: &mut Http| -> Vec<String> {
        let listed = client.request("tools/list", json!({})).unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().replace('_', ".")).collect()
    };
    let offers = |names: &[String]| names.iter().any(|name| name == "file.restore");
    let stage = Stage::new(&[]);
    assert!(!offers(&names(&mut stage.client("cursor"))));

    let stage = Stage::new(&["--agent-undo"]);
    stage.put("a.md", "one\n");
    let (mut cursor, mut codex) = (stage.client("cursor"), stage.client("codex"));
    assert!(offers(&names(&mut cursor)));
    replace(&mut cursor, "/a.md", "one", "two");
    replace(&mut codex, "/a.md", "two", "three");
    let history =
        |client: &mut Http| client.tool("file.history", json!({ "path": "/a.md" })).unwrap();
    let mine = history(&mut cursor);
    assert_eq!(mine["changes"].as_array().unwrap().len(), 1, "{mine}");
    assert_eq!((&mine["changes"][0]["change"], &mine["truncated"]), (&json!(1), &json!(false)));
    assert_eq!(history(&mut codex)["changes"][0]["change"], 2);
    // Any client may register under a name. The token counts.
    assert_eq!(history(&mut stage.client("cursor"))["changes"], json!([]));
    // The version before the change of another caller is nobody else's business.
    let now = hash("three\n");
    let restore = |client: &mut Http, version: &str, hash: &str| {
        client
            .tool("file.restore", json!({ "path": "/a.md", "version": version, "hash": hash }))
            .unwrap()
    };
    assert_eq!(restore(&mut cursor, "2", &now)["error"]["code"], "no_version");
    let whole = hash("two\n");
    assert_eq!(restore(&mut cursor, &whole[..16], &now)["error"]["code"], "no_version");
    assert_eq!(restore(&mut cursor, "1", &hash("two\n"))["error"]["code"], "stale");
    assert_eq!(restore(&mut cursor, "1", &now)["hash"], hash("one\n"));
    assert_eq!(stage.text("a.md").as_deref(), Some("one\n"));
    // A scope that does not cover the file covers its history no more.
    let token = stage.rig.token(&["read:/b/"], &["--client", "cursor"]);
    let outside = stage
        .server
        .client(&token)
        .post("tools/call", json!({ "name": "file.history", "arguments": { "path": "/a.md" } }));
    assert_eq!(outside.unwrap().status, 403);
    drop(stage.folder);
}

#[test]
fn a_change_whose_old_version_cannot_be_kept_is_refused_if_the_owner_wants_that() {
    let noise: String = (0..200).map(|line| hash(&line.to_string())).collect();
    for (mode, refused) in [("require", true), ("keep", false)] {
        // No long version fits into so little.
        let stage = Stage::new(&["--history", mode, "--history-bytes", "1024"]);
        stage.put("a.md", &format!("{noise}\n"));
        let answer = replace(&mut stage.client("cursor"), "/a.md", &noise, "two");
        if refused {
            assert_eq!(answer["error"]["code"], "not_kept", "{answer}");
        } else {
            assert_eq!(answer["hash"], hash("two\n"), "{answer}");
        }
        let state = StateDir::open(&stage.rig.state).unwrap();
        let lines = journal::read_all(&state).unwrap().lines;
        let said = lines.iter().find(|line| line.tool == "history_not_kept").unwrap();
        assert_eq!(said.outcome, "too_large");
    }
}

#[test]
fn an_undo_that_is_killed_leaves_whole_files_and_goes_on_when_it_is_run_again() {
    let stage = Stage::new(&[]);
    let names: Vec<String> = (0..40).map(|number| format!("{number}.md")).collect();
    let mut agent = stage.client("cursor");
    for name in &names {
        stage.put(name, "one\n");
        replace(&mut agent, &format!("/{name}"), "one", "two");
    }
    let undo = ["undo", "--client", "cursor", "--since", "1h", "--yes"];
    let mut command = stage.rig.command(&undo);
    command.arg("--root").arg(&stage.rig.root).arg("--state").arg(&stage.rig.state);
    let mut running = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let is_back = |name: &String| stage.text(name).as_deref() == Some("one\n");
    while !names.iter().any(is_back) && running.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    for name in &names {
        let text = stage.text(name).unwrap();
        assert!(["one\n", "two\n"].contains(&text.as_str()), "{name}: {text:?}");
    }
    stage.owner(&undo);
    assert!(names.iter().all(is_back));
    assert_eq!(hidden(&stage.rig.root), 0);
    assert_eq!(std::fs::read_dir(&stage.rig.root).unwrap().count(), names.len());
}

#[test]
fn reading_deletes_nothing_and_says_when_its_settings_are_not_those_of_the_server() {
    let stage = Stage::new(&["--history-days", "365"]);
    let noise: String = (0..200).map(|line| hash(&line.to_string())).collect();
    stage.put("a.md", &format!("{noise}\n"));
    let removal = json!({ "path": "/a.md", "hash": hash(&format!("{noise}\n")) });
    stage.client("cursor").tool("file.remove", removal).unwrap();
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    for command in [&["history"][..], &["show", "a.md@1"], &["diff", "a.md"], &undo] {
        let output = stage.stile(&[command, &["--history-bytes", "1024"]].concat());
        let note = String::from_utf8(output.stderr).unwrap();
        let expected = "note: history_bytes is 1024 here, but 1073741824 for the server that keeps \
                        this history, and the server's setting counts\n";
        assert!(note.starts_with(expected), "{command:?}: {note}");
    }
    let days = stage.stile(&["history", "--history-days", "30", "--history", "off"]);
    let notes = String::from_utf8(days.stderr).unwrap();
    assert!(notes.contains("history_days is 30 here, but 365 for the server"), "{notes}");
    assert!(notes.contains("history is off here, but keep for the server"), "{notes}");
    // The server's own settings, and none, are no disagreement.
    assert_eq!(stage.stile(&["history", "--history-days", "365"]).stderr, b"");
    let done = stage.owner(&[&undo[..], &["--yes"]].concat());
    assert!(done.contains("1 of 1 done."), "{done}");
    assert_eq!(stage.text("a.md"), Some(format!("{noise}\n")));
}

#[test]
fn a_blocked_path_is_left_and_named_and_the_rest_is_taken_back() {
    let stage = Stage::new(&[]);
    std::fs::create_dir(stage.rig.root.join("d")).unwrap();
    for name in ["x.md", "d/inside.md", "link.md", "plain.md"] {
        stage.put(name, "one\n");
    }
    let mut agent = stage.client("cursor");
    let one = hash("one\n");
    for name in ["/x.md", "/d/inside.md"] {
        agent.tool("file.remove", json!({ "path": name, "hash": one })).unwrap();
    }
    replace(&mut agent, "/link.md", "one", "two");
    replace(&mut agent, "/plain.md", "one", "two");
    // A folder in place of a file, and a file in place of a folder.
    std::fs::create_dir(stage.rig.root.join("x.md")).unwrap();
    agent.tool("folder.remove", json!({ "path": "/d" })).unwrap();
    agent.tool("file.create", json!({ "path": "/d", "content": "in the way\n" })).unwrap();
    std::fs::remove_file(stage.rig.root.join("link.md")).unwrap();
    std::os::unix::fs::symlink("plain.md", stage.rig.root.join("link.md")).unwrap();
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    let planned = stage.stile(&undo);
    assert_eq!(planned.status.code(), Some(1), "a plan that lacks something fails");
    insta::assert_snapshot!(String::from_utf8(planned.stdout).unwrap());
    let done = stage.stile(&[&undo[..], &["--yes"]].concat());
    assert_eq!(done.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(done.stderr).unwrap());
    assert_eq!(stage.text("plain.md").as_deref(), Some("one\n"));
    assert_eq!(stage.text("d/inside.md").as_deref(), Some("one\n"));
    assert!(stage.rig.root.join("x.md").is_dir());
    // With the folder out of the way, the same command brings the file back.
    std::fs::remove_dir(stage.rig.root.join("x.md")).unwrap();
    stage.stile(&[&undo[..], &["--yes"]].concat());
    assert_eq!(stage.text("x.md").as_deref(), Some("one\n"));
}

#[test]
fn an_undo_names_what_the_history_had_no_room_for() {
    let stage = Stage::new(&["--history-bytes", "64KiB"]);
    let noise = |number: u32| -> String {
        let lines = (0..1_200).map(|line| format!("{}\n", hash(&format!("{number} {line}"))));
        lines.collect()
    };
    let mut agent = stage.client("cursor");
    stage.put("small.md", "one\n");
    stage.put("large.md", &noise(0));
    replace(&mut agent, "/small.md", "one", "two");
    // Bulk that the agent made itself takes no room from what it found.
    agent.tool("file.create", json!({ "path": "/bulk.md", "content": noise(1) })).unwrap();
    let removal = |number| json!({ "path": "/bulk.md", "hash": hash(&noise(number)) });
    agent.tool("file.remove", removal(1)).unwrap();
    let large = json!({ "path": "/large.md", "hash": hash(&noise(0)) });
    assert_eq!(agent.tool("file.remove", large).unwrap()["path"], "/large.md");
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    for more in [&[][..], &["--yes"]] {
        let output = stage.stile(&[&undo[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        let named = "/large.md cannot come back, since its version is not in the history";
        assert!(error.contains(named), "{error}");
    }
    assert_eq!(stage.text("small.md").as_deref(), Some("one\n"));
    assert_eq!(stage.text("large.md"), None);
}

#[test]
fn a_restored_folder_is_adopted_by_its_owner_alone() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    let token = stage.rig.token(&["write:/"], &["--client", "cursor"]);
    let ended = stage.rig.token(&["read:/"], &["--client", "codex"]);
    replace(&mut stage.server.client(&token), "/a.md", "one", "two");
    let stile = |arguments: &[&str]| {
        let mut command = stage.rig.command(arguments);
        command.arg("--state").arg(&stage.rig.state).output().unwrap()
    };
    let list = stile(&["token", "list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let codex = list.as_array().unwrap().iter().find(|token| token["client"] == "codex").unwrap();
    assert!(stile(&["token", "revoke", codex["jti"].as_str().unwrap()]).status.success());
    let root = stage.rig.root.to_str().unwrap().to_owned();
    let copy = stage.folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("a.md"), "two\n").unwrap();
    let adopt =
        |more: &[&str]| stile(&[&["space", "adopt", copy.to_str().unwrap()], more].concat());
    // A folder that is there is adopted only if its owner names it, and never while it is served.
    assert_eq!(adopt(&["--yes"]).status.code(), Some(2));
    let served = adopt(&["--from", &root, "--yes"]);
    let error = String::from_utf8(served.stderr).unwrap();
    assert!(error.contains("a server uses one of the two folders"), "{error}");
    let Stage { folder, rig, server } = stage;
    server.kill();
    let away = folder.path().join("away");
    std::fs::rename(&rig.root, &away).unwrap();
    std::fs::rename(&copy, &rig.root).unwrap();
    let stage = Stage { server: rig.serve(&[]), rig, folder };
    let refused = stage.server.client(&token).post("tools/list", json!({})).unwrap();
    assert_eq!(refused.status, 401, "no folder is adopted by itself");
    let Stage { folder, rig, server } = stage;
    server.kill();
    let stile = |arguments: &[&str]| {
        let mut command = rig.command(arguments);
        command.arg("--state").arg(&rig.state).output().unwrap()
    };
    let planned = stile(&["space", "adopt", &root]);
    let plan = String::from_utf8(planned.stdout).unwrap();
    let position = |text: &str| plan.find(text).unwrap_or_else(|| panic!("{text}: {plan}"));
    assert!(position("These will open the new folder") < position("of cursor, `write:/`, until"));
    assert!(position("These ended, and stay ended:") < position("of codex, `read:/`: revoked on"));
    assert!(plan.ends_with("Nothing was changed. Add --yes to do this.\n"), "{plan}");
    assert!(stile(&["space", "adopt", &root, "--yes"]).status.success());
    let stage = Stage { server: rig.serve(&[]), rig, folder };
    let status =
        |token: &str| stage.server.client(token).post("tools/list", json!({})).unwrap().status;
    assert_eq!((status(&token), status(&ended)), (200, 401));
    stage.owner(&["undo", "1", "--yes"]);
    assert_eq!(stage.text("a.md").as_deref(), Some("one\n"));
}

#[test]
fn an_undo_makes_no_folder_that_keeps_a_file_from_its_path() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    stage.put("n", "two\n");
    let mut agent = stage.client("cursor");
    let mut remove = |path: &str, text: &str| {
        agent.tool("file.remove", json!({ "path": path, "hash": hash(text) })).unwrap();
    };
    remove("/n", "two\n");
    let moving = json!({ "path": "/a.md", "hash": hash("one\n"), "to": "/n/x.md" });
    stage.client("cursor").tool("file.move", moving).unwrap();
    remove("/n/x.md", "one\n");
    agent.tool("folder.remove", json!({ "path": "/n" })).unwrap();
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    insta::assert_snapshot!(stage.owner(&undo), @r"
    bring back /n/x.md as before change 4
    move back  /n/x.md to /a.md
    remove     /n, which this undo made
    bring back /n as before change 1
    Nothing was changed. Add --yes to do this.
    ");
    let done = stage.owner(&[&undo[..], &["--yes"]].concat());
    assert!(done.contains("4 of 4 done."), "{done}");
    assert_eq!(stage.text("a.md").as_deref(), Some("one\n"));
    assert_eq!(stage.text("n").as_deref(), Some("two\n"));
}

#[test]
fn an_undo_that_is_run_again_goes_on_where_an_obstacle_stopped_it() {
    let stage = Stage::new(&[]);
    std::fs::create_dir(stage.rig.root.join("d")).unwrap();
    let files = [("a.md", "one\n"), ("d/a.md", "two\n"), ("b.md", "three\n")];
    for (name, text) in files {
        stage.put(name, text);
    }
    let mut agent = stage.client("cursor");
    for (path, text, to) in [
        ("/b.md", "three\n", "/o.md"),
        ("/d/a.md", "two\n", "/b.md"),
        ("/a.md", "one\n", "/d/a.md"),
    ] {
        let moving = json!({ "path": path, "hash": hash(text), "to": to });
        agent.tool("file.move", moving).unwrap();
    }
    agent.tool("file.remove", json!({ "path": "/b.md", "hash": hash("two\n") })).unwrap();
    std::fs::create_dir(stage.rig.root.join("a.md")).unwrap();
    let undo = ["undo", "--client", "cursor", "--since", "1h", "--yes"];
    let first = stage.stile(&undo);
    assert_eq!(first.status.code(), Some(1));
    let error = String::from_utf8(first.stderr).unwrap();
    assert!(error.contains("/d/a.md cannot go back to /a.md, since a folder"), "{error}");
    std::fs::remove_dir(stage.rig.root.join("a.md")).unwrap();
    stage.owner(&undo);
    for (name, text) in files {
        assert_eq!(stage.text(name).as_deref(), Some(text), "{name}");
    }
    // An undo that was made has nothing to do.
    assert!(stage.owner(&undo).ends_with("Nothing is to be done.\n"));
}

#[test]
fn an_undo_says_which_of_its_steps_the_history_has_no_room_for() {
    let stage = Stage::new(&["--history", "require", "--history-bytes", "64KiB"]);
    let mut agent = stage.client("cursor");
    let made: Vec<String> = (0..260).map(|number| format!("/f{number}.md")).collect();
    for path in &made {
        stage.put(&path[1..], path);
        let append = json!({ "path": path, "hash": hash(path), "content": "more" });
        let _ = agent.tool("text.append", append);
    }
    let undo = ["undo", "--client", "cursor", "--since", "1h"];
    for more in [&[][..], &["--json"], &["--yes"]] {
        let output = stage.stile(&[&undo[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("steps cannot be taken back: /f"), "{error}");
        assert!(error.lines().count() < 5, "one summary: {error}");
        if more == ["--json"] {
            let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(plan["not_kept"].as_array().unwrap().len() > 8, "{plan}");
        }
    }
    assert!(made.iter().all(|path| stage.text(&path[1..]).as_deref() == Some(path)));
}

#[test]
fn a_folder_is_not_adopted_while_it_is_served_without_a_history_and_lost_tokens_are_named() {
    let Stage { folder, rig, server } = Stage::new(&["--history", "off"]);
    rig.token(&["write:/"], &["--client", "cursor"]);
    let new = Rig { root: folder.path().join("new"), ..Rig::below(folder.path(), &rig.binary) };
    std::fs::create_dir(&new.root).unwrap();
    let old_root = rig.root.to_str().unwrap().to_owned();
    let adopt = |more: &[&str]| {
        let mut command = new.command(&["space", "adopt"]);
        command.arg(&new.root).args(["--from", &old_root]).args(more);
        let output = command.arg("--state").arg(&new.state).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let is_refused = || {
        let (code, text) = adopt(&["--yes"]);
        assert!(text.contains("a server uses one of the two folders"), "{text}");
        code == Some(1)
    };
    assert!(is_refused(), "the old folder is served");
    server.kill();
    let mut client = new.stdio(&["--history", "off"]);
    client.tool("file.list", json!({})).unwrap();
    new.token(&["read:/"], &["--client", "codex"]);
    assert!(is_refused(), "the new folder is served over stdio");
    drop(client);
    let (code, plan) = adopt(&[]);
    let lost = plan.split("will open nothing any more:").nth(1).unwrap_or_default();
    assert!(code == Some(0) && lost.contains("of codex, `read:/`, until"), "{plan}");
    assert!(!lost.contains("cursor"), "{plan}");
    assert_eq!(adopt(&["--yes"]).0, Some(0));
    // What opens nothing any more does not stand as live.
    let list = |more: &[&str]| {
        let mut command = new.command(&["token", "list"]);
        let output = command.args(more).arg("--state").arg(&new.state).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (listed, json) = (list(&[]), list(&["--json"]));
    let line = |client: &str| listed.lines().find(|line| line.contains(client)).unwrap();
    assert!(line("codex").contains("revoked (its folder was adopted)"), "{listed}");
    assert!(line("cursor").contains("live"), "{listed}");
    assert!(json.contains("its folder was adopted"), "{json}");
}

#[test]
fn a_folder_that_was_moved_or_removed_comes_back_with_one_undo() {
    let stage = Stage::new(&[]);
    std::fs::create_dir_all(stage.rig.root.join("old/deep")).unwrap();
    let files = [("old/a.md", "[b](deep/b.md)\n"), ("old/deep/b.md", "[o](../../o.md)\n")];
    for (name, text) in files.iter().chain(&[("o.md", "[[old/a]]\n")]) {
        stage.put(name, text);
    }
    let folders = [("old", 0o700), ("old/deep", 0o750)];
    for (name, mode) in folders {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(stage.rig.root.join(name), mode).unwrap();
    }
    let have_their_modes = || {
        folders.iter().all(|(name, mode)| {
            let found = stage.rig.root.join(name).metadata().unwrap().permissions().mode();
            found & 0o777 == *mode
        })
    };
    let mut agent = stage.client("cursor");
    let tree_hash = |agent: &mut Http, path: &str| {
        agent.tool("file.list", json!({ "path": path, "tree_hash": true })).unwrap()["tree_hash"]
            .clone()
    };
    let hash = tree_hash(&mut agent, "/old");
    let to = "/x/y/new";
    let moved = agent.tool("folder.move", json!({ "path": "/old", "hash": hash, "to": to }));
    let moved = moved.unwrap();
    assert_eq!(moved["links"]["links"], 2, "{moved}");
    assert_eq!(moved["tree_hash"], tree_hash(&mut agent, to));
    assert_eq!(stage.text("o.md").as_deref(), Some("[[x/y/new/a]]\n"));
    assert_eq!(stage.text("x/y/new/deep/b.md").as_deref(), Some("[o](../../../../o.md)\n"));
    let calls: Vec<Value> = stage.changes().iter().map(|change| change["call"].clone()).collect();
    assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
    let undone = stage.owner(&["undo", &calls[0].to_string(), "--yes"]);
    assert!(undone.contains("10 of 10 done."), "{undone}");
    for (name, text) in files {
        assert_eq!(stage.text(name).as_deref(), Some(text), "{name}");
    }
    assert_eq!(stage.text("o.md").as_deref(), Some("[[old/a]]\n"));
    assert!(!stage.rig.root.join("x").exists(), "the call made the folder above, too");
    assert!(have_their_modes());
    // A folder that only gets another name leaves nothing behind either.
    let hash = tree_hash(&mut agent, "/old");
    let renamed = json!({ "path": "/old", "hash": hash, "to": "/other" });
    agent.tool("folder.move", renamed).unwrap();
    let call = stage.changes()[0]["call"].to_string();
    stage.owner(&["undo", &call, "--yes"]);
    assert!(have_their_modes() && !stage.rig.root.join("other").exists());

    let hash = tree_hash(&mut agent, "/old");
    agent.tool("folder.remove", json!({ "path": "/old", "hash": hash })).unwrap();
    assert!(!stage.rig.root.join("old").exists());
    let call = stage.changes()[0]["call"].to_string();
    let undone = stage.owner(&["undo", &call, "--yes"]);
    assert!(undone.contains("4 of 4 done."), "{undone}");
    for (name, text) in files {
        assert_eq!(stage.text(name).as_deref(), Some(text), "{name}");
    }
    assert!(have_their_modes());
    assert_eq!(hidden(&stage.rig.root), 0);
}

#[test]
fn without_a_history_no_folder_with_files_is_removed() {
    let stage = Stage::new(&["--history", "off"]);
    std::fs::create_dir(stage.rig.root.join("d")).unwrap();
    stage.put("d/a.md", "one\n");
    let mut agent = stage.client("cursor");
    let listed = agent.tool("file.list", json!({ "path": "/d", "tree_hash": true })).unwrap();
    let removal = json!({ "path": "/d", "hash": listed["tree_hash"] });
    let refused = agent.tool("folder.remove", removal).unwrap();
    assert_eq!(refused["error"]["code"], "not_kept", "{refused}");
    assert_eq!(stage.text("d/a.md").as_deref(), Some("one\n"));
}

#[test]
fn an_undo_keeps_what_an_undo_of_another_clients_changes_gave_back() {
    let stage = Stage::new(&[]);
    stage.put("keep.md", "mine\n");
    let (mut one, mut other) = (stage.client("one"), stage.client("other"));
    one.tool("file.remove", json!({ "path": "/keep.md", "hash": hash("mine\n") })).unwrap();
    let made = other.tool("file.create", json!({ "path": "/keep.md", "content": "theirs\n" }));
    assert_eq!(made.unwrap()["hash"], hash("theirs\n"));
    other.tool("file.remove", json!({ "path": "/keep.md", "hash": hash("theirs\n") })).unwrap();
    for client in ["one", "other", "one", "other"] {
        stage.stile(&["undo", "--client", client, "--since", "1h", "--yes"]);
        assert_eq!(stage.text("keep.md").as_deref(), Some("mine\n"), "after the undo of {client}");
    }
    // By the number of each call, too.
    for call in ["1", "2", "3"] {
        stage.stile(&["undo", call, "--yes"]);
        assert_eq!(stage.text("keep.md").as_deref(), Some("mine\n"), "after the undo of {call}");
    }
}

#[test]
fn an_undo_of_everybody_since_a_time_needs_no_client() {
    let stage = Stage::new(&[]);
    for (client, name) in [("one", "a.md"), ("other", "b.md")] {
        stage.put(name, "mine\n");
        replace(&mut stage.client(client), &format!("/{name}"), "mine", "theirs");
    }
    let plan = stage.owner(&["undo", "--since", "1h"]);
    assert!(plan.contains("/a.md") && plan.contains("/b.md"), "{plan}");
    assert_eq!(stage.text("a.md").as_deref(), Some("theirs\n"));
    stage.owner(&["undo", "--since", "1h", "--yes"]);
    for name in ["a.md", "b.md"] {
        assert_eq!(stage.text(name).as_deref(), Some("mine\n"));
    }
}

#[test]
fn a_journal_that_was_removed_as_a_whole_is_an_alarm_while_the_history_knows_of_its_calls() {
    let stage = Stage::new(&[]);
    for name in ["a.md", "b.md"] {
        stage.put(name, "one\n");
        replace(&mut stage.client("cursor"), &format!("/{name}"), "one", "two");
    }
    let verify = |rig: &Rig| {
        let mut command = rig.command(&["audit", "verify"]);
        let output = command.arg("--state").arg(&rig.state).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let Stage { folder: _folder, rig, server } = stage;
    server.kill();
    assert_eq!(verify(&rig).0, Some(0));
    std::fs::remove_dir_all(rig.state.join("journal")).unwrap();
    for name in std::fs::read_dir(&rig.state).unwrap().map(|entry| entry.unwrap().path()) {
        if name.file_name().unwrap().to_string_lossy().starts_with("journal.") {
            std::fs::remove_file(name).unwrap();
        }
    }
    let (code, text) = verify(&rig);
    assert!(code == Some(1) && text.contains("it was removed as a whole"), "{text}");
    let mut doctor = rig.command(&["doctor"]);
    let doctor = doctor.arg("--root").arg(&rig.root).arg("--state").arg(&rig.state).output();
    let doctor = String::from_utf8(doctor.unwrap().stdout).unwrap();
    assert!(doctor.contains("the journal was changed in one place"), "{doctor}");
}

#[test]
fn a_long_history_shows_what_came_last_and_says_that_there_is_more() {
    let stage = Stage::new(&[]);
    let folder = stage.rig.root.join("many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..1_010 {
        std::fs::write(folder.join(format!("{number:04}.md")), "x\n").unwrap();
    }
    let mut agent = stage.client("cursor");
    let listed = agent.tool("file.list", json!({ "path": "/many", "tree_hash": true })).unwrap();
    let removal = json!({ "path": "/many", "hash": listed["tree_hash"] });
    let removed = agent.tool("folder.remove", removal).unwrap();
    assert!(!folder.exists(), "{removed}");
    let all = stage.changes().len();
    assert!(all >= 1_010, "{all} changes, all of which --json has");
    let shown = stage.owner(&["history"]);
    let more = "These are the latest 1,000 changes. Add --all for every one, or name a file, a \
                --client or a --since.";
    assert_eq!((shown.lines().count(), shown.lines().last()), (1_002, Some(more)));
    assert_eq!(stage.owner(&["history", "--all"]).lines().count(), all + 1);
    assert_eq!(stage.owner(&["history", "many/0007.md"]).lines().count(), 2);
}

#[test]
fn a_list_of_tokens_shows_those_that_ended_last_and_says_that_there_are_more() {
    let stage = Stage::new(&[]);
    let state = StateDir::open(&stage.rig.state).unwrap();
    let tokens = stile_store::state::TokenStore::open(&state).unwrap();
    let live = stage.rig.token(&["read:/"], &["--client", "live"]);
    assert!(!live.is_empty());
    let known = tokens.list().unwrap().pop().unwrap();
    for number in 0..110_i64 {
        let ended = stile_store::state::TokenRecord {
            jti: format!("ended-{number:03}"),
            expires: 1_000 + number,
            ..known.clone()
        };
        tokens.record(&ended).unwrap();
    }
    let shown = stage.stile_of_state(&["token", "list"]);
    assert!(shown.contains("live") && shown.contains("ended-109"), "{shown}");
    assert!(shown.contains("ended-010") && !shown.contains("ended-009"), "{shown}");
    let more = "More tokens ended before these. Add --all for every one.";
    assert_eq!(shown.lines().last(), Some(more));
    assert!(stage.stile_of_state(&["token", "list", "--all"]).contains("ended-000"));
    assert!(stage.stile_of_state(&["token", "list", "--json"]).contains("ended-000"));
}

#[test]
fn a_dry_run_is_nothing_that_an_undo_or_the_history_knows() {
    let stage = Stage::new(&[]);
    std::fs::create_dir(stage.rig.root.join("d")).unwrap();
    stage.put("d/a.md", "one\n");
    let mut agent = stage.client("cursor");
    let listed = agent.tool("file.list", json!({ "path": "/d", "tree_hash": true })).unwrap();
    let file = json!({ "path": "/d/a.md", "hash": hash("one\n"), "dry_run": true });
    let with = |more: Value| {
        let mut arguments = file.clone();
        let members = more.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(members);
        arguments
    };
    let folder = json!({
        "path": "/d", "hash": listed["tree_hash"], "to": "/e", "dry_run": true,
    });
    for (tool, arguments) in [
        ("text.edit", with(json!({ "edits": [{ "old": "one", "new": "two" }] }))),
        ("file.move", with(json!({ "to": "/b.md" }))),
        ("folder.move", folder),
    ] {
        let answer = agent.tool(tool, arguments).unwrap();
        assert!(answer.get("error").is_none(), "{tool}: {answer}");
    }
    assert_eq!(stage.changes(), Vec::<Value>::new());
    let undo = stage.stile(&["undo", "--client", "cursor"]);
    let told = String::from_utf8(undo.stderr).unwrap();
    assert!(told.contains("the history has no changes yet"), "{told}");
    let activity = stage.stile_of_state(&["activity", "--json"]);
    let activity: Value = serde_json::from_str(&activity).unwrap();
    assert_eq!((&activity[0]["changes"], &activity[0]["reads"]), (&json!(0), &json!(4)));
}

#[test]
fn no_command_prints_characters_that_nobody_sees() {
    const UNSEEN: [char; 3] = ['\u{202e}', '\u{200b}', '\u{7}'];
    let stage = Stage::new(&[]);
    let (created, moved, left) = ("/a\u{202e}dm.md", "/z\u{200b}w.md", "/mine\u{202e}.md");
    let mut agent = stage.client("cursor");
    agent.tool("file.create", json!({ "path": created, "content": "one\n" })).unwrap();
    stage.put(&moved[1..], "two\n");
    let moving = json!({ "path": moved, "hash": hash("two\n"), "to": "/q\u{200b}.md" });
    agent.tool("file.move", moving).unwrap();
    stage.put(&left[1..], "x\n");
    agent.tool("file.remove", json!({ "path": left, "hash": hash("x\n") })).unwrap();
    stage.put(&left[1..], "typed by hand\n");
    agent.tool("text.read", json!({ "path": "/no\u{202e}.md" })).unwrap();
    let (created, left) = (&created[1..], &left[1..]);
    let of_root = [
        &["history"][..],
        &["history", created],
        &["history", "no\u{202e}.md"],
        &["diff", left],
        &["restore", left],
        &["restore", "no\u{202e}.md"],
        &["show", "mine\u{202e}.md@99"],
        &["search", "one"],
        &["undo", "--client", "cursor"],
        &["undo", "--client", "cur\u{202e}sor"],
        &["undo", "--client", "cursor", "--path", "x\u{202e}"],
        &["undo", "--client", "cursor", "--json"],
        &["undo", "--client", "cursor", "--yes"],
    ];
    let of_state = [
        &["audit"][..],
        &["audit", "--refused"],
        &["audit", "--json"],
        &["activity"],
        &["token", "list"],
        &["token", "revoke", "x\u{202e}"],
        &["client", "list"],
        &["client", "show", "cur\u{202e}sor"],
        &["client", "end", "x\u{202e}"],
    ];
    let mut escaped = 0;
    let outputs = of_root.iter().map(|arguments| (arguments, stage.stile(arguments)));
    let of_state = of_state.iter().map(|arguments| (arguments, stage.output_of_state(arguments)));
    for (arguments, output) in outputs.chain(of_state) {
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!told.contains(UNSEEN), "{arguments:?}: {told}");
        escaped += usize::from(told.contains(r"\u{202e}") || told.contains(r"\u202e"));
    }
    assert!(escaped > 12, "the names are told: {escaped}");
}
