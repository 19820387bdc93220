//! A gateway as a process of its own, before a note store that a test commands.

use std::path::PathBuf;

use serde_json::{Value, json};
use stile_testkit::client::{Http, Reply};
use stile_testkit::issuer::{Issuer, Mint};
use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::{Behaviour, Upstream};
use tempfile::TempDir;

use crate::support::{Client, meta, request};

/// The tools that it offers.
pub const TOOLS: [&str; 4] =
    ["get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source"];

/// Where a gateway keeps nothing: a state folder with a key in it, and files that its flags name.
pub struct Ground {
    pub rig: Rig,
    pub folder: TempDir,
    /// Of a local user who may read everything.
    pub token: String,
}

impl Ground {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let token = rig.token(&["read:/"], &[]);
        Self { rig, folder, token }
    }

    /// A file that only its owner may read, as secrets have to be.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A gateway before `upstream` that knows the tokens of this ground.
    pub fn gateway(&self, upstream: &Upstream, more: &[&str]) -> Server {
        self.rig.gateway(&[&["--upstream", &upstream.url()], more].concat())
    }

    /// The same, impatient, since its upstream is going to be slow.
    pub fn impatient(&self, upstream: &Upstream, more: &[&str]) -> Server {
        let limits = ["--upstream-timeout-seconds", "1", "--upstream-connect-seconds", "1"];
        self.gateway(upstream, &[&limits, more].concat())
    }
}

/// What a call was told.
#[derive(Debug)]
pub struct Told {
    /// The words of the error, where it is one.
    pub error: Option<String>,
    /// `structuredContent`.
    pub structured: Value,
}

/// The answer in a reply, which has the one form that answers have here.
pub fn told(reply: &Reply) -> Told {
    let message = reply.json();
    assert_eq!(reply.status, 200, "{message}");
    let result = &message["result"];
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{message}");
    assert_eq!(result["content"][0]["type"], "text");
    let text = result["content"][0]["text"].as_str().unwrap();
    let structured = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    let is_error = result["isError"] == json!(true);
    let error = is_error.then(|| {
        let error = structured["error"].as_str().unwrap().to_owned();
        assert_eq!(structured, json!({ "error": error, "code": "UPSTREAM_ERROR" }));
        error
    });
    assert_eq!(is_error, structured.get("schema").is_none(), "{structured}");
    Told { error, structured }
}

/// Calls a tool and answers the whole reply.
pub fn post(client: &mut Http, tool: &str, arguments: &Value) -> Reply {
    client.post("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap()
}

/// Calls a tool for a note.
pub fn call(client: &mut Http, tool: &str, path: &str) -> Told {
    told(&post(client, tool, &json!({ "path": path })))
}

/// The metrics of a gateway that was started with `--metrics-listen 127.0.0.1:0`.
pub fn metrics(server: &Server) -> Reply {
    let address = server.metrics_address();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    Http::new(address, "").send(request.as_bytes()).unwrap()
}

/// A gateway that takes the tokens of an identity provider.
pub struct Hosted {
    pub ground: Ground,
    pub issuer: Issuer,
    pub upstream: Upstream,
}

/// What tokens for the gateway are addressed to.
pub const GATEWAY: &str = "https://gateway.example/mcp";
/// What tokens for the note store are addressed to.
pub const STORE: &str = "https://notes.example/api";

impl Hosted {
    pub fn new(behaviour: Behaviour) -> Self {
        Self {
            ground: Ground::new(),
            issuer: Issuer::start(),
            upstream: Upstream::start(behaviour),
        }
    }

    /// Flags that name the provider, and the audience of each of the two servers.
    pub fn flags(&self) -> Vec<String> {
        let (jwks, issuer) = (self.issuer.jwks_url(), self.issuer.url());
        let flags = [
            "--jwks", &jwks, "--issuer", &issuer, "--audience", GATEWAY, "--upstream-audience",
            STORE,
        ];
        flags.map(str::to_owned).into()
    }

    pub fn gateway(&self, more: &[&str]) -> Server {
        let flags = self.flags();
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.ground.gateway(&self.upstream, &flags)
    }

    /// Begins a token that is for both servers.
    pub fn mint(&self, subject: &str) -> Mint<'_> {
        self.issuer.mint(subject, GATEWAY).claim("aud", json!([GATEWAY, STORE]))
    }
}

/// Calls a tool with headers beside those that the protocol asks for.
pub fn post_with(
    server: &Server,
    token: &str,
    headers: &[(&str, &str)],
    tool: &str,
    arguments: &Value,
) -> Reply {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta() });
    let protocol =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    let body = request(1, "tools/call", params).to_string();
    let bytes = Client::post_bytes(token, &[&protocol, headers].concat(), body.as_bytes());
    server.client(token).send(&bytes).unwrap()
}
