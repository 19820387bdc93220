//! Notes as records that follow their folder: once, while a command runs, and beside a server.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::client::{McpClient as _, Reply};
use stile_testkit::process::{Rig, Server};

/// Longer than a slow machine needs to follow a change.
const PATIENCE: Duration = Duration::from_secs(90);

struct Stage {
    folder: tempfile::TempDir,
    rig: Rig,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        Self { rig, folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        let path = self.rig.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.rig.command(arguments).arg("--state").arg(&self.rig.state).output().unwrap()
    }

    /// `stile import` of the space's folder, with more arguments. Returns the exit code and output.
    fn import(&self, more: &[&str]) -> (i32, String) {
        let root = self.rig.root.to_str().unwrap();
        let stream = ["import", root, "--connection", "own", "--stream", "notes"];
        let ran = self.run(&[&stream[..], more].concat());
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// The keys of the records in the stream `notes`.
    fn keys(&self, server: &Server, token: &str) -> BTreeSet<String> {
        let reply = get(server, token, "/v1/streams/notes/records?limit=100");
        if reply.status == 404 {
            return BTreeSet::new();
        }
        let rows = reply.json();
        assert_eq!(rows["has_more"], json!(false));
        let key = |row: &Value| row["id"].as_str().unwrap().to_owned();
        rows["data"].as_array().unwrap().iter().map(key).collect()
    }
}

fn get(server: &Server, token: &str, target: &str) -> Reply {
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        server.address
    );
    server.client(token).send(head.as_bytes()).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A running `stile import --watch`.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(stage: &Stage) -> Self {
        let mut command = stage.rig.command(&["import"]);
        command.arg(&stage.rig.root).arg("--state").arg(&stage.rig.state);
        command.args(["--connection", "own", "--stream", "notes", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_synced_folder_loses_the_records_of_notes_that_are_gone() {
    let stage = Stage::new();
    for name in ["a.md", "b.md", "work/c.md"] {
        stage.write(name, "# Fern\n");
    }
    assert_eq!(stage.import(&["--sync"]).0, 0);
    std::fs::remove_file(stage.at("a.md")).unwrap();
    std::fs::rename(stage.at("work/c.md"), stage.at("work/d.md")).unwrap();
    let (code, said) = stage.import(&["--sync"]);
    assert_eq!((code, said.as_str()), (0, "added 1, changed 0, unchanged 1, removed 2, bad 0\n"));
    // An empty folder, as an unmounted one is, removes nothing without the owner's word.
    let full = stage.rig.root.with_file_name("full");
    std::fs::rename(&stage.rig.root, &full).unwrap();
    std::fs::create_dir(&stage.rig.root).unwrap();
    let (code, said) = stage.import(&["--sync"]);
    assert!(
        code == 2 && said.contains("Nothing was changed") && said.contains("--remove-all"),
        "{said}"
    );
    let (code, said) = stage.import(&["--sync", "--remove-all", "--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &report["removed"]), (0, &json!(2)), "{said}");
    assert_eq!(report["removed_notes"], json!(["b.md", "work/d.md"]));
}

#[test]
fn a_sync_is_for_one_folder_of_markdown() {
    let stage = Stage::new();
    stage.write("a.md", "# Fern\n");
    let file = stage.folder.path().join("rows.csv");
    std::fs::write(&file, "id,x\n1,a\n").unwrap();
    let (file, root) = (file.to_str().unwrap(), stage.rig.root.to_str().unwrap());
    let one = stage.at("a.md");
    let target = ["--connection", "own", "--stream", "notes"];
    for (files, more) in [
        (vec![file], vec!["--sync"]),
        (vec![root, root], vec!["--sync"]),
        (vec![one.to_str().unwrap()], vec!["--watch"]),
        (vec![root], vec!["--sync", "--key", "text"]),
        (vec![root], vec!["--sync", "--strict"]),
        (vec![root], vec!["--sync", "--watch"]),
        (vec![root], vec!["--remove-all"]),
        (vec![root], vec!["--json"]),
    ] {
        let ran = stage.run(&[&["import"], &files[..], &target[..], &more[..]].concat());
        assert_eq!(ran.status.code(), Some(2), "{files:?} {more:?}");
    }
}

#[test]
fn a_watch_follows_a_storm_to_its_last_state_and_a_kill_loses_nothing() {
    /// How many notes come and go.
    const STORM: usize = 3000;
    let stage = Stage::new();
    stage.write("stays.md", "# Stays\n");
    stage.write("goes.md", "# Goes\n");
    let server = stage.rig.serve(&[]);
    let owner = stage.rig.token(&[], &["--owner"]);
    let mut watch = Watch::start(&stage);
    assert_eq!(watch.next()["added"], json!(2));
    let (code, said) = stage.import(&["--sync"]);
    assert!(code == 1 && said.contains("another process"), "{said}");
    for n in 0..STORM {
        let (one, other) = (stage.at("storm/one.md"), stage.at(&format!("storm/{n}.md")));
        std::fs::write(&one, format!("# {n}\n")).unwrap();
        std::fs::rename(&one, &other).unwrap();
        std::fs::remove_file(&other).unwrap();
    }
    std::fs::remove_file(stage.at("goes.md")).unwrap();
    std::fs::rename(stage.at("storm"), stage.at("calm")).unwrap();
    stage.write("calm/last.md", "# Last\n");
    let expected = names(&["calm/last.md", "stays.md"]);
    eventually("the last state is stored", || stage.keys(&server, &owner) == expected);
    watch.kill();
    std::fs::rename(stage.at("stays.md"), stage.at("renamed.md")).unwrap();
    stage.write("calm/last.md", "# Later\n");
    let mut watch = Watch::start(&stage);
    let first = watch.next();
    assert_eq!(first["removed_notes"], json!(["stays.md"]));
    assert_eq!(stage.keys(&server, &owner), names(&["calm/last.md", "renamed.md"]));
    let process = rustix::process::Pid::from_child(&watch.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(watch.child.wait().unwrap().success());
}

#[test]
fn a_server_keeps_the_notes_of_its_space_as_records() {
    let stage = Stage::new();
    stage.write("plan.md", "# Plan\nferns\n");
    stage.write("deep/er/old.md", "# Old\nmosses\n");
    let guarded = ["id_rsa/n.md", "deep/notes.key/inside.md", "_netrc/x.md"];
    let unlisted = [".hidden.md", ".obsidian/x.md", "node_modules/y.md", "image.txt"];
    for hidden in unlisted.into_iter().chain(guarded) {
        stage.write(hidden, "hidden\n");
    }
    let outside = stage.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.md"), "secret\n").unwrap();
    link(&outside, &stage.at("linked"));
    link(&outside.join("secret.md"), &stage.at("link.md"));
    let server = stage.rig.serve(&["--records-of-space"]);
    let owner = stage.rig.token(&[], &["--owner"]);
    let has = |expected: &[&str]| stage.keys(&server, &owner) == names(expected);
    eventually("the notes are stored", || has(&["deep/er/old.md", "plan.md"]));
    // A change by hand, and one by a tool.
    std::fs::rename(stage.at("plan.md"), stage.at("done.md")).unwrap();
    std::fs::remove_dir_all(stage.at("deep")).unwrap();
    let agent = stage.rig.token(&["write:/", "read:/"], &[]);
    let note = json!({ "path": "/new/by-tool.md", "content": "# New\nlichens\n" });
    server.client(&agent).tool("file.create", note).unwrap();
    eventually("the changes are stored", || has(&["done.md", "new/by-tool.md"]));
    for (query, hits) in [("mosses", 0), ("ferns", 1), ("lichens", 1), ("secret", 0), ("hidden", 0)]
    {
        let found = get(&server, &owner, &format!("/v1/search?q={query}")).json();
        assert_eq!(found["data"].as_array().unwrap().len(), hits, "{query}: {found}");
    }
    // Another server of the same space waits, and goes on once this one has ended.
    let second = stage.rig.serve(&["--records-of-space"]);
    second.said_after("another process keeps these records in step");
    let (status, log) = server.stop();
    let log = String::from_utf8(log).unwrap();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    stage.write("later.md", "# Later\n");
    let expected = names(&["done.md", "later.md", "new/by-tool.md"]);
    eventually("the second goes on", || stage.keys(&second, &owner) == expected);
    assert!(second.stop().0.success());
}

fn link(to: &Path, at: &Path) {
    std::os::unix::fs::symlink(to, at).unwrap();
}
