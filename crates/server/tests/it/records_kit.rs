//! A server with records, its owner, and clients of grants.

use std::process::Output;

use serde_json::{Value, json};
use stile_testkit::client::Reply;
use stile_testkit::process::{Rig, Server};

/// A server, and the folder that it lives in.
pub struct Kit {
    pub folder: tempfile::TempDir,
    pub rig: Rig,
    pub server: Server,
    pub owner: String,
}

impl Kit {
    pub fn new() -> Self {
        Self::with(&["--log", "trace"])
    }

    /// Serves with these flags.
    pub fn with(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let server = rig.serve(flags);
        let owner = rig.token(&[], &["--owner"]);
        Self { folder, rig, server, owner }
    }

    /// Runs a command on the server's state.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.rig.command(arguments);
        command.arg("--state").arg(&self.rig.state);
        command.output().unwrap()
    }

    /// What a command prints, which must succeed.
    pub fn said(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
    }

    /// Makes a grant and a token for it.
    pub fn client(&self, grant: &[&str]) -> (String, String) {
        let id = self.said(&[&["grant", "create", "--client", "test"], grant].concat());
        let token = self.rig.token(&[], &["--grant", &id]);
        (id, token)
    }

    pub fn send(&self, method: &str, target: &str, token: &str, more: &str, body: &str) -> Reply {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n{more}\r\n",
            self.server.address,
            body.len()
        );
        self.server.client(token).send(format!("{head}{body}").as_bytes()).unwrap()
    }

    pub fn get(&self, target: &str, token: &str) -> Reply {
        self.send("GET", target, token, "", "")
    }

    /// The answer, which must be 200.
    pub fn json(&self, target: &str, token: &str) -> Value {
        let reply = self.get(target, token);
        assert_eq!(reply.status, 200, "{target}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    /// The status and code of a refusal, whose shape is checked.
    pub fn refused(&self, target: &str, token: &str) -> (u16, String) {
        refusal(&self.get(target, token))
    }

    /// Takes records in, all of which must be taken.
    pub fn ingest(&self, stream: &str, connection: &str, rows: &[Value]) {
        let body: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let target = format!("/v1/ingest/{stream}?connection_id={connection}");
        let reply = self.send(
            "POST",
            &target,
            &self.owner,
            "Content-Type: application/x-ndjson\r\n",
            &body,
        );
        let answer = reply.json();
        assert_eq!(
            (reply.status, &answer["records_accepted"]),
            (200, &json!(rows.len())),
            "{answer:#}"
        );
    }
}

/// The status and code of a refusal, whose shape is checked.
pub fn refusal(reply: &Reply) -> (u16, String) {
    let answer = reply.json();
    let error = &answer["error"];
    for member in ["type", "code", "message", "request_id"] {
        assert!(error[member].is_string(), "{member}: {answer}");
    }
    assert_eq!(reply.header("request-id"), error["request_id"].as_str());
    (reply.status, error["code"].as_str().unwrap().to_owned())
}
