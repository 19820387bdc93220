//! A hosted deployment of processes: an identity provider, servers with notes, gateways before
//! those servers, and clients of every lifecycle.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Http, McpClient, Reply};
use crate::issuer::Issuer;
use crate::process::{Rig, Server};

/// The audience of the tokens for all servers of a deployment.
pub const AUDIENCE: &str = "https://notes.example/mcp";

/// The four note tools in the order of the list, with the subcommands of `stile note` that give
/// the same answers.
pub const NOTE_TOOLS: [(&str, &str); 4] = [
    ("get_document_tree", "tree"),
    ("get_metadata_facets", "facets"),
    ("get_note_outline", "outline"),
    ("get_section_source", "sections"),
];

/// An identity provider, and a folder for the files of its servers.
#[derive(Debug)]
pub struct Hosted {
    /// The identity provider of all servers.
    pub issuer: Issuer,
    binary: PathBuf,
    folder: tempfile::TempDir,
}

impl Hosted {
    /// Starts a provider for the program at `binary`, with an empty folder.
    ///
    /// # Panics
    /// No folder can be made.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        Self { issuer: Issuer::start(), binary: binary.into(), folder }
    }

    /// Returns the folder with the files of the deployment.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of the server with this name.
    pub fn rig(&self, name: &str) -> Rig {
        Rig::below(&self.folder().join(name), &self.binary)
    }

    /// Returns the flags that make a server trust the provider.
    pub fn trust(&self) -> Vec<String> {
        ["--jwks", &self.issuer.jwks_url(), "--issuer", &self.issuer.url(), "--audience", AUDIENCE]
            .map(str::to_owned)
            .to_vec()
    }

    /// Starts a server with the notes of `rig`.
    pub fn origin(&self, rig: &Rig, more: &[&str]) -> Server {
        let trust = self.trust();
        rig.serve(&[trust.iter().map(String::as_str).collect(), more.to_vec()].concat())
    }

    /// Starts a gateway that reads notes from the server at `upstream`.
    pub fn gateway(&self, upstream: &str, more: &[&str]) -> Server {
        let trust = self.trust();
        let flags = [&["--upstream", upstream], more].concat();
        self.rig("gateway").gateway(&[trust.iter().map(String::as_str).collect(), flags].concat())
    }

    /// Writes a file with one line, and returns its path.
    ///
    /// # Panics
    /// The file cannot be written.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn file(&self, name: &str, line: &str) -> String {
        let path = self.folder().join(name);
        std::fs::write(&path, format!("{line}\n")).expect("the file can be written");
        path.to_string_lossy().into_owned()
    }
}

/// Whether a client opens a session, and in which revision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// A session of this revision.
    Session(&'static str),
    /// Requests without a session.
    Sessionless,
}

/// All lifecycles that the server supports.
pub const LIFECYCLES: [Lifecycle; 3] =
    [Lifecycle::Session("2025-06-18"), Lifecycle::Session("2025-11-25"), Lifecycle::Sessionless];

const SESSIONLESS: &str = "2026-07-28";

/// A client of one lifecycle, on one kept connection.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    http: Http,
    lifecycle: Lifecycle,
    /// The token of the next request. A test may change the token between two requests.
    pub token: String,
    /// The session id of the next request.
    pub session: Option<String>,
    /// Headers of every request, in addition to those of the protocol.
    pub headers: Vec<(String, String)>,
    /// The answer to `initialize`; null without a session.
    pub greeting: Value,
    next: u64,
}

impl Peer {
    /// Makes a client that has sent no request.
    pub fn new(address: SocketAddr, token: &str, lifecycle: Lifecycle) -> Self {
        Self {
            address,
            http: Http::new(address, token),
            lifecycle,
            token: token.to_owned(),
            session: None,
            headers: Vec::new(),
            greeting: Value::Null,
            next: 0,
        }
    }

    /// Makes a client that is ready to call, in an open session if the lifecycle has sessions.
    ///
    /// # Panics
    /// The server opens no session.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn open(server: &Server, token: &str, lifecycle: Lifecycle) -> Self {
        let mut peer = Self::new(server.address, token, lifecycle);
        if let Lifecycle::Session(_) = lifecycle {
            let reply = peer.initialize().expect("the server answers");
            assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
            peer.session = reply.header("mcp-session-id").map(str::to_owned);
            peer.greeting = message_of(&reply);
            let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            assert_eq!(peer.send(&done, None).expect("the server answers").status, 202);
        }
        peer
    }

    /// Asks the server for a session.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn initialize(&mut self) -> io::Result<Reply> {
        let revision =
            if let Lifecycle::Session(revision) = self.lifecycle { revision } else { SESSIONLESS };
        self.post(
            "initialize",
            json!({
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": { "name": "testkit", "version": "1" },
            }),
        )
    }

    /// Posts a method call and returns the reply.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn post(&mut self, method: &str, mut params: Value) -> io::Result<Reply> {
        self.next += 1;
        let name = params
            .get("name")
            .or_else(|| params.get("uri"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        if let (Lifecycle::Sessionless, Some(params)) = (self.lifecycle, params.as_object_mut()) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": SESSIONLESS,
                "io.modelcontextprotocol/clientInfo": { "name": "testkit", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {}
            });
            params.insert("_meta".to_owned(), meta);
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.send(&message, Some((method, name)))
    }

    /// Sends a request without a body, such as `GET` or `DELETE`, to `/mcp`.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn bodiless(&mut self, method: &str) -> io::Result<Reply> {
        let head = self.head(method);
        self.http.send(format!("{head}Accept: text/event-stream\r\n\r\n").as_bytes())
    }

    fn send(
        &mut self,
        message: &Value,
        method: Option<(&str, Option<String>)>,
    ) -> io::Result<Reply> {
        let mut head = self.head("POST");
        if let (Lifecycle::Sessionless, Some((method, name))) = (self.lifecycle, method) {
            head.push_str(&format!(
                "MCP-Protocol-Version: {SESSIONLESS}\r\nMcp-Method: {method}\r\n"
            ));
            if let Some(name) = name {
                head.push_str(&format!("Mcp-Name: {name}\r\n"));
            }
        }
        let body = message.to_string();
        let length = body.len();
        head.push_str(
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
        );
        self.http.send(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())
    }

    /// Returns the head that all requests share, without the empty line at its end.
    fn head(&self, method: &str) -> String {
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: {}\r\n", self.address);
        if !self.token.is_empty() {
            head.push_str(&format!("Authorization: Bearer {}\r\n", self.token));
        }
        if let Some(session) = &self.session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// Calls a tool and returns the result, or the response if it is a protocol error.
    ///
    /// # Panics
    /// The server does not answer.
    #[expect(clippy::expect_used, reason = "a helper of a test fails the test")]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut response = self.request("tools/call", params).expect("the server answers");
        response.get_mut("result").map(Value::take).unwrap_or(response)
    }

    /// Calls a tool with a path and returns the text block. Checks that the structured result is
    /// the same.
    ///
    /// # Panics
    /// The text and the structured result differ.
    #[expect(clippy::expect_used, reason = "a helper of a test fails the test")]
    pub fn told(&mut self, tool: &str, path: &str) -> String {
        let result = self.call(tool, &json!({ "path": path }));
        let text = result
            .pointer("/content/0/text")
            .and_then(Value::as_str)
            .expect("there is a text block");
        assert_eq!(result.pointer("/content/1"), None, "{result}");
        let structured = result.get("structuredContent").map(Value::to_string);
        assert_eq!(structured.as_deref(), Some(text), "both are the same, in the same order");
        let is_error = result.get("isError") == Some(&json!(true));
        assert_eq!(is_error, text.starts_with("{\"error\""), "{result}");
        text.to_owned()
    }
}

impl McpClient for Peer {
    fn request(&mut self, method: &str, params: Value) -> io::Result<Value> {
        let reply = self.post(method, params)?;
        let message = message_of(&reply);
        if message.is_object() {
            return Ok(message);
        }
        Err(io::Error::other(format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body))))
    }
}

/// Returns the message of a reply: its body, or the last event of a stream.
pub fn message_of(reply: &Reply) -> Value {
    let text = String::from_utf8_lossy(&reply.body);
    let is_stream =
        reply.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let message =
        if is_stream { events.rfind(|data| !data.is_empty()).unwrap_or_default() } else { &text };
    serde_json::from_str(message).unwrap_or_default()
}

/// Returns the text of a gateway's refusal.
pub fn refusal(error: &str) -> String {
    json!({ "error": error, "code": "UPSTREAM_ERROR" }).to_string()
}
