//! Calls that mean harm, or are broken, and the answer that each of them must get.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};
use stile_testkit::client::{Http, Reply};

use super::OUTSIDE;
use super::caller::Caller;
use crate::servers::CANARY;

/// How a call is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Malformed,
    Unauthorised,
    Oversize,
    Traversal,
    Stale,
    Cancelled,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Malformed,
        Self::Unauthorised,
        Self::Oversize,
        Self::Traversal,
        Self::Stale,
        Self::Cancelled,
    ];
}

/// The most bytes that a body may have.
const MOST_BODY: usize = 4 << 20;

/// Bodies that are no request.
const BODIES: [&str; 8] = [
    "",
    "{",
    "[]",
    "null",
    r#"{"jsonrpc":"2.0","id":1e999,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#,
];

/// Heads that two parsers may read differently, without the header that authorizes.
const HEADS: [&str; 4] = [
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 0\r\n",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n",
    "POST http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n",
];

/// Paths that lead out of the space, or to what is not for agents.
const PATHS: [&str; 10] = [
    "/../outside.md", "/c0/../../outside.md", "../outside.md", "/link.md", "/link.md/x",
    "/.stile-new", "/c0/..\\..\\outside.md", "/c0/./../../outside.md", "/%2e%2e/outside.md",
    "/c0/\u{0}",
];

impl Caller<'_> {
    /// Makes one hostile call.
    pub(super) fn attack(&mut self, kind: Kind) -> Result<(), String> {
        match kind {
            Kind::Malformed => self.malformed(),
            Kind::Unauthorised => self.unauthorised(),
            Kind::Oversize => self.oversize(),
            Kind::Traversal => self.traversal(),
            Kind::Stale => self.stale(),
            Kind::Cancelled => self.cancelled(),
        }
    }

    fn head(&self) -> String {
        let (address, token) = (self.place.server.address, &self.place.tokens.owner);
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        )
    }

    /// Sends bytes on a new connection, and holds the answer to a status.
    fn expect(&self, bytes: &str, status: u16) -> Result<Reply, String> {
        let mut client = Http::new(self.place.server.address, "");
        let reply =
            client.send(bytes.as_bytes()).map_err(|error| format!("{bytes:.99?}: {error}"))?;
        if reply.status == status { Ok(reply) } else { Err(format!("{bytes:.99?}: {reply:?}")) }
    }

    fn malformed(&mut self) -> Result<(), String> {
        if self.chance.happens(30) {
            let head = HEADS[self.chance.below(HEADS.len())];
            let token = &self.place.tokens.owner;
            self.expect(&format!("{head}Authorization: Bearer {token}\r\n\r\n"), 400)?;
            return Ok(());
        }
        let body = BODIES[self.chance.below(BODIES.len())];
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head(), body.len());
        let reply = self.expect(&request, 400)?.json();
        let code = reply["error"]["code"].as_i64().unwrap_or_default();
        if (-32_700..=-32_600).contains(&code) { Ok(()) } else { Err(format!("{body}: {reply}")) }
    }

    fn unauthorised(&mut self) -> Result<(), String> {
        let tokens = &self.place.tokens;
        let cut = &tokens.owner[..tokens.owner.len() - 4];
        let (token, status) = [
            ("", 401),
            ("nothing", 401),
            (cut, 401),
            (&tokens.revoked, 401),
            (&tokens.narrow, 403),
        ][self.chance.below(5)];
        let path = self.any();
        let read = json!({ "name": "text.read", "arguments": { "path": path } });
        let reply = self.place.server.client(token).post("tools/call", read);
        let reply = reply.map_err(|error| error.to_string())?;
        self.assert_tells_nothing(&reply)?;
        if reply.status == status { Ok(()) } else { Err(format!("not {status}: {reply:?}")) }
    }

    fn oversize(&mut self) -> Result<(), String> {
        match self.chance.below(3) {
            0 => {
                let (head, bytes) = (self.head(), MOST_BODY + 1);
                let body = " ".repeat(bytes);
                self.expect(&format!("{head}Content-Length: {bytes}\r\n\r\n{body}"), 413)?
            }
            1 => self.expect(&format!("{}X: {}\r\n\r\n", self.head(), "x".repeat(20_000)), 431)?,
            _ => {
                let path = format!("/{}", "long/".repeat(1000));
                return self.refused("text.read", json!({ "path": path }), &["invalid_path"]);
            }
        };
        Ok(())
    }

    fn traversal(&mut self) -> Result<(), String> {
        let path = PATHS[self.chance.below(PATHS.len())];
        let codes = ["invalid_path", "symlink_refused", "not_found"];
        if self.chance.happens(50) {
            return self.refused("text.read", json!({ "path": path }), &codes);
        }
        let arguments = json!({ "path": path, "hash": "0".repeat(64), "content": "x" });
        self.refused("text.append", arguments, &codes)
    }

    fn stale(&mut self) -> Result<(), String> {
        let path = self.any();
        let hash = "0".repeat(64);
        if self.chance.happens(50) {
            return self.refused("file.remove", json!({ "path": path, "hash": hash }), &["stale"]);
        }
        let arguments = json!({ "path": path, "hash": hash, "content": "stale\n" });
        self.refused("text.append", arguments, &["stale"])
    }

    /// Calls a tool that must refuse with one of these codes, and show nothing.
    fn refused(&self, tool: &str, arguments: Value, codes: &[&str]) -> Result<(), String> {
        let mut client = self.place.server.client(&self.place.tokens.owner);
        let call = json!({ "name": tool, "arguments": arguments });
        let reply = client.post("tools/call", call).map_err(|error| error.to_string())?;
        self.assert_tells_nothing(&reply)?;
        let answer = reply.json();
        let code = answer.pointer("/result/structuredContent/error/code").and_then(Value::as_str);
        if reply.status == 200 && code.is_some_and(|code| codes.contains(&code)) {
            return Ok(());
        }
        Err(format!("{tool} {arguments}: {} {answer}", reply.status))
    }

    fn assert_tells_nothing(&self, reply: &Reply) -> Result<(), String> {
        let text = String::from_utf8_lossy(&reply.body);
        if text.contains(OUTSIDE) || text.contains(CANARY) {
            return Err(format!("content in a refusal: {text}"));
        }
        Ok(())
    }

    /// Sends a call, or a part of it, and hangs up before the answer.
    fn cancelled(&mut self) -> Result<(), String> {
        let path = self.any();
        let is_change = self.chance.happens(30) && !self.is_pending(&path);
        let (tool, arguments, new) = if is_change {
            let line = self.new_line();
            let (tool, arguments, new) = self.proposal(&path, &line);
            (tool, arguments, Some(new))
        } else {
            ("text.read", json!({ "path": path }), None)
        };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "soak", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let body = body.to_string();
        let request = format!(
            "{}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.head(),
            body.len()
        );
        let part =
            if self.chance.happens(30) { self.chance.below(request.len()) } else { request.len() };
        let sent = TcpStream::connect(self.place.server.address)
            .and_then(|mut stream| stream.write_all(&request.as_bytes()[..part]));
        sent.map_err(|error| error.to_string())?;
        if let Some(new) = new.filter(|_| part == request.len()) {
            self.leave_pending(&path, new);
        }
        Ok(())
    }
}
