//! A new owner's first hour: a client is connected, the doctor finds what is wrong, the server says
//! when it is ready, and an older state is kept before it is changed.

use std::process::Output;

use serde_json::{Value, json};
use stile_testkit::process::{Rig, Server};

struct Owner {
    _folder: tempfile::TempDir,
    rig: Rig,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir_all(rig.home()).unwrap();
        Self { _folder: folder, rig }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let state = self.rig.state.to_str().unwrap();
        self.rig.command(&[arguments, &["--state", state]].concat()).output().unwrap()
    }

    /// Runs the doctor against a server, and returns its findings and its exit code.
    fn doctor(&self, server: &Server) -> (Value, Option<i32>) {
        let (root, listen) = (self.rig.root.to_str().unwrap(), server.address.to_string());
        let ran = self.run(&["doctor", "--json", "--root", root, "--listen", &listen]);
        (serde_json::from_slice(&ran.stdout).unwrap(), ran.status.code())
    }
}

/// Returns the outcome of a step of a section.
fn outcome<'f>(findings: &'f Value, about: &str, step: &str) -> &'f str {
    let sections = findings.as_array().unwrap();
    let section = sections
        .iter()
        .find(|section| section["about"].as_str().unwrap().starts_with(about))
        .unwrap_or_else(|| panic!("no section {about} in {findings:#}"));
    let checks = section["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["step"] == step);
    check.unwrap_or_else(|| panic!("no step {step} in {findings:#}"))["outcome"].as_str().unwrap()
}

#[test]
fn a_connected_client_works_until_its_token_is_revoked_and_the_doctor_says_so() {
    let owner = Owner::new();
    let server = owner.rig.serve(&[]);
    let listen = server.address.to_string();
    for client in ["cursor", "claude-desktop"] {
        let root = owner.rig.root.to_str().unwrap();
        let ran = owner.run(&["connect", client, "--write", "--listen", &listen, "--root", root]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let file = owner.rig.home().join(".cursor/mcp.json");
    let entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let bearer = entry["mcpServers"]["stile"]["headers"]["Authorization"].as_str().unwrap();
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let reply = server.client(token).post("tools/list", json!({})).unwrap();
    assert_eq!(reply.status, 200);

    let (findings, code) = owner.doctor(&server);
    for step in ["discovery", "challenge", "authentication", "start", "tools/list", "read"] {
        assert_eq!(outcome(&findings, "the server at", step), "ok");
        assert_eq!(outcome(&findings, "Cursor", step), "ok");
    }
    for step in ["command", "start", "tools/list", "read"] {
        assert_eq!(outcome(&findings, "Claude Desktop", step), "ok");
    }
    assert_eq!(outcome(&findings, "this machine", "clock"), "ok");
    assert_eq!(code, Some(0), "{findings:#}");
    assert!(!findings.to_string().contains(token), "the doctor shows no token");

    let listed = owner.run(&["token", "list", "--json"]);
    let tokens: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(tokens.iter().all(|token| token["client"] != "stile-doctor"), "{tokens:?}");
    let listed = owner.run(&["client", "list"]);
    assert!(!String::from_utf8(listed.stdout).unwrap().contains("stile-doctor"));
    let jti = tokens.iter().find(|token| token["client"] == "cursor").unwrap()["jti"].clone();
    owner.run(&["token", "revoke", jti.as_str().unwrap()]);
    let (findings, code) = owner.doctor(&server);
    assert_eq!((outcome(&findings, "Cursor", "token"), code), ("failed", Some(1)));

    let disconnected = owner.run(&["disconnect", "cursor"]);
    assert!(disconnected.status.success() && !file.exists());
    server.kill();
}

#[test]
fn the_doctor_names_a_server_that_does_not_run() {
    let owner = Owner::new();
    let server = owner.rig.serve(&[]);
    let (listen, root) = (server.address.to_string(), owner.rig.root.to_str().unwrap());
    owner.run(&["connect", "zed", "--write", "--listen", &listen, "--root", root]);
    server.kill();
    let ran = owner.run(&["doctor", "--root", root, "--listen", &listen]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("FAIL  reach: nothing answers at http://127.0.0.1:"), "{said}");
    assert!(said.contains("start `stile serve`"), "{said}");
    assert_eq!(ran.status.code(), Some(1));
}

#[cfg(unix)]
#[test]
fn the_service_manager_hears_when_the_server_is_ready_and_when_it_stops() {
    let owner = Owner::new();
    let path = owner.rig.home().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let (root, state) = (owner.rig.root.to_str().unwrap(), owner.rig.state.to_str().unwrap());
    std::fs::create_dir_all(root).unwrap();
    let mut command =
        owner.rig.command(&["serve", root, "--state", state, "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::start(command);
    let heard = || {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(heard().starts_with("READY=1\n"));
    let (status, _) = server.stop();
    assert!(status.success());
    assert_eq!(heard(), "STOPPING=1\n");
}

#[test]
fn a_service_file_is_printed_for_each_system() {
    let owner = Owner::new();
    for (system, word) in [("linux", "Type=notify"), ("macos", "<plist"), ("windows", "<Task")] {
        let ran = owner.run(&["service", "install", "/srv/notes", "--print", "--for", system]);
        let file = String::from_utf8_lossy(&ran.stdout);
        assert!(file.contains(word) && file.contains("/srv/notes"), "{file}");
    }
    assert!(!owner.rig.home().join(".config").exists());
}
