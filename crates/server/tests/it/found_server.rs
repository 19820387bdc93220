//! Commands find the server that runs, and no token goes to a program that is not it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use stile_testkit::process::Rig;

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

    fn entry_url(&self) -> String {
        let file = self.rig.home().join(".cursor/mcp.json");
        let entry: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        entry["mcpServers"]["stile"]["url"].as_str().unwrap().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Answers like a server that asks for a token, and returns what it hears.
fn stranger(listener: TcpListener) -> Arc<Mutex<Vec<u8>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    // The thread ends with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut bytes = [0; 16 * 1024];
            let read = stream.read(&mut bytes).unwrap_or(0);
            hearing.lock().unwrap().extend_from_slice(&bytes[..read]);
            let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n";
            let body = "{\"resource\":\"x\",\"version\":\"1\"}";
            let head =
                if text(&bytes[..read]).starts_with("GET ") { "HTTP/1.1 200 OK\r\n" } else { head };
            let answer = format!(
                "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    heard
}

#[test]
fn commands_use_the_server_that_runs_without_its_folder_or_address() {
    let owner = Owner::new();
    let other = Rig { root: owner.rig.root.with_file_name("other"), ..owner.rig.clone() };
    std::fs::create_dir_all(&other.root).unwrap();
    // Two folders were served with the state, and one is served now.
    drop(other.serve(&[]));
    let server = owner.rig.serve(&[]);
    let origin = format!("http://{}", server.address);

    let ran = owner.run(&["sign-in"]);
    let (link, said) = (text(&ran.stdout), text(&ran.stderr));
    assert!(link.starts_with(&format!("{origin}/sign-in?code=")), "{link}{said}");
    assert_eq!(link.lines().count(), 1);
    let code = link.trim().rsplit('=').next().unwrap();
    assert!(said.lines().any(|line| line.trim() == code), "the code stands apart: {said}");

    let ran = owner.run(&["connect", "cursor", "--write"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(owner.entry_url().split('?').next(), Some(format!("{origin}/mcp").as_str()));
    assert!(text(&ran.stdout).contains("Cursor may read, change, make and remove all files"));
    let ran = owner.run(&["doctor"]);
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let found = text(&ran.stdout);
    assert!(found.contains(&format!("the server at {origin}/mcp")), "{found}");
    assert!(found.contains(&format!("ok    root: {}", owner.rig.root.display())), "{found}");
    assert!(!found.contains(owner.rig.home().join("stile").to_str().unwrap()), "{found}");
    let listed = owner.run(&["client", "list", "--json"]);
    assert!(listed.status.success());

    // Where two folders are served at once, a command asks which is meant.
    let second = other.serve(&[]);
    let ran = owner.run(&["sign-in"]);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stdout));
    let said = text(&ran.stderr);
    for (root, address) in [(&owner.rig.root, server.address), (&other.root, second.address)] {
        let line = format!("--root {}    (http://{address})", root.display());
        assert!(said.contains(&line), "{said}");
    }
    let ran = owner.run(&["sign-in", "--root", other.root.to_str().unwrap()]);
    let link = text(&ran.stdout);
    assert!(link.starts_with(&format!("http://{}/sign-in?", second.address)), "{link}");
    let ran = owner.run(&["connect", "cursor", "--write", "--root", other.root.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(owner.entry_url().starts_with(&format!("http://{}/mcp", second.address)));
}

#[test]
fn a_server_that_stopped_is_not_found() {
    let owner = Owner::new();
    owner.rig.serve(&[]).kill();
    let ran = owner.run(&["sign-in"]);
    assert!(text(&ran.stderr).contains("no server runs with this state"), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).starts_with("http://127.0.0.1:9999/sign-in?code="));
    let notes = std::fs::read_dir(owner.rig.state.join("running")).unwrap();
    assert_eq!(notes.count(), 0, "what a killed server left is removed");
}

#[test]
fn commands_that_name_no_folder_name_those_that_were_served_while_none_is() {
    let owner = Owner::new();
    let other = Rig { root: owner.rig.root.with_file_name("other"), ..owner.rig.clone() };
    std::fs::create_dir_all(&other.root).unwrap();
    drop(other.serve(&[]));
    drop(owner.rig.serve(&[]));

    let ran = owner.run(&["doctor"]);
    let said = text(&ran.stdout);
    let line = said.lines().find(|line| line.contains("root:")).unwrap_or_default();
    assert!(line.contains("several folders were served, and none is now"), "{said}");
    let ran = owner.run(&["history"]);
    assert_eq!(ran.status.code(), Some(2));
    for root in [&owner.rig.root, &other.root] {
        let root = root.to_str().unwrap();
        assert!(line.contains(root) && text(&ran.stderr).contains(root), "{said}");
    }
}

#[test]
fn no_token_goes_to_a_program_that_took_the_port_of_a_killed_server() {
    let owner = Owner::new();
    let server = owner.rig.serve(&[]);
    let ran = owner.run(&["connect", "cursor", "--write"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let address = server.address;
    server.kill();

    let heard = stranger(TcpListener::bind(address).unwrap());
    let ran = owner.run(&["doctor", "--root", owner.rig.root.to_str().unwrap()]);
    let said = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("another program than a server of this state answers there"), "{said}");
    let heard = text(&heard.lock().unwrap());
    assert!(heard.contains("/.well-known/oauth-protected-resource"), "{heard}");
    assert!(!heard.to_ascii_lowercase().contains("authorization:"), "{heard}");
}

#[test]
fn a_client_gets_no_token_for_an_address_at_which_another_program_answers() {
    let owner = Owner::new();
    let _server = owner.rig.serve(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = stranger(listener);
    let (listen, public) = (address.to_string(), format!("http://{address}"));
    for named in [["--listen", &listen], ["--public-url", &public]] {
        let ran = owner.run(&[&["connect", "cursor", "--write"][..], &named].concat());
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("another program than a server of this state answers there"));
        assert!(said.contains("no token was made"), "{said}");
    }
    assert!(!owner.rig.home().join(".cursor/mcp.json").exists());
    let tokens = owner.run(&["token", "list", "--json"]);
    assert_eq!(text(&tokens.stdout).trim(), "[]");
    let heard = text(&heard.lock().unwrap());
    assert!(!heard.to_ascii_lowercase().contains("authorization:"), "{heard}");
}

#[test]
fn a_server_with_a_public_address_is_found_under_it() {
    let owner = Owner::new();
    let public = "https://notes.example.org";
    let _server = owner.rig.serve(&["--public-url", public, "--behind-proxy", "127.0.0.1"]);
    let link = text(&owner.run(&["sign-in"]).stdout);
    assert!(link.starts_with(&format!("{public}/sign-in?code=")), "{link}");
    let ran = owner.run(&["connect", "cursor", "--write"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(owner.entry_url().starts_with(&format!("{public}/mcp")));
}
