//! Scripted MCP clients over HTTP and over standard input and output.
//!
//! The clients follow the text of the protocol without the SDK that the server uses. Two halves of
//! one library that agree would prove little.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// An MCP client that sends requests and calls tools.
pub trait McpClient: Send {
    /// Calls a method and returns the JSON-RPC response.
    ///
    /// # Errors
    /// The error of the connection, if the server did not answer.
    fn request(&mut self, method: &str, params: Value) -> io::Result<Value>;

    /// Calls a tool and returns `structuredContent`.
    ///
    /// # Errors
    /// The server did not answer, or answered a JSON-RPC error.
    fn tool(&mut self, name: &str, arguments: Value) -> io::Result<Value> {
        let mut response =
            self.request("tools/call", json!({ "name": name, "arguments": arguments }))?;
        match response.pointer_mut("/result/structuredContent") {
            Some(content) => Ok(content.take()),
            None => Err(io::Error::other(response.to_string())),
        }
    }
}

const REVISION: &str = "2026-07-28";

fn message(id: u64, method: &str, mut params: Value) -> Value {
    if let Some(params) = params.as_object_mut() {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "testkit", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        params.insert("_meta".to_owned(), meta);
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A client over HTTP without sessions, on one kept connection.
#[derive(Debug)]
pub struct Http {
    address: SocketAddr,
    token: String,
    connection: Option<BufReader<TcpStream>>,
    next: u64,
}

/// An HTTP response, read to its end.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub status: u16,
    /// Header names in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// The body, without chunk sizes.
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns headers and body as text, for the leak check.
    pub fn bytes(&self) -> Vec<u8> {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        [headers.as_bytes(), &self.body].concat()
    }
}

impl Http {
    /// Makes a client that sends `token` to the server at `address`.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned(), connection: None, next: 0 }
    }

    /// Posts a method call and returns the reply.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn post(&mut self, method: &str, params: Value) -> io::Result<Reply> {
        self.next += 1;
        let name = params
            .get("name")
            .or_else(|| params.get("uri"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        let body = message(self.next, method, params).to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {REVISION}\r\nMcp-Method: {method}\r\nContent-Length: {}\r\n",
            self.address,
            self.token,
            body.len()
        );
        if let Some(name) = name {
            head.push_str(&format!("Mcp-Name: {name}\r\n"));
        }
        self.send(format!("{head}\r\n{body}").as_bytes())
    }

    /// Sends a request again on a new connection if the first fails, since a server may close a
    /// connection between two requests.
    ///
    /// # Errors
    /// The error of the second connection.
    pub fn twice(&mut self, send: impl Fn(&mut Self) -> io::Result<Reply>) -> io::Result<Reply> {
        send(self).or_else(|_| send(self))
    }

    /// Sends raw bytes and reads one reply. Opens a connection if none is open.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<Reply> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(Duration::from_secs(60)))?;
                BufReader::new(stream)
            }
        };
        connection.get_mut().write_all(bytes)?;
        // The reply to HEAD has no body, whatever its length says.
        let is_head = bytes.starts_with(b"HEAD ");
        let reply =
            if is_head { read_head(&mut connection)? } else { read_reply(&mut connection)? };
        if reply.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(reply)
    }
}

impl McpClient for Http {
    fn request(&mut self, method: &str, params: Value) -> io::Result<Value> {
        let reply = self.post(method, params)?;
        serde_json::from_slice(&reply.body).map_err(|_| {
            io::Error::other(format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body)))
        })
    }
}

/// Reads one HTTP/1.1 reply.
///
/// # Errors
/// The error of the connection, or `InvalidData`.
pub fn read_reply(connection: &mut impl io::BufRead) -> io::Result<Reply> {
    let mut reply = read_head(connection)?;
    if reply.header("transfer-encoding").is_some_and(|encoding| encoding.contains("chunked")) {
        loop {
            let size =
                usize::from_str_radix(line(connection)?.trim(), 16).map_err(|_| invalid())?;
            let mut chunk = vec![0; size + 2];
            connection.read_exact(&mut chunk)?;
            chunk.truncate(size);
            reply.body.extend(chunk);
            if size == 0 {
                return Ok(reply);
            }
        }
    }
    let length = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    connection.take(length).read_to_end(&mut reply.body)?;
    Ok(reply)
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn line(connection: &mut impl io::BufRead) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// Reads a reply up to its body.
fn read_head(connection: &mut impl io::BufRead) -> io::Result<Reply> {
    let status = line(connection)?
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(invalid)?;
    let mut headers = Vec::new();
    loop {
        let header = line(connection)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or_else(invalid)?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Reply { status, headers, body: Vec::new() })
}

/// A client over the standard input and output of a server that it started.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Stdio {
    /// Makes a client of a child process.
    ///
    /// # Panics
    /// Standard input or output of the child is not piped.
    #[expect(
        clippy::expect_used,
        reason = "a rig that is put together wrongly should say so at once"
    )]
    pub fn new(mut child: Child) -> Self {
        let input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        Self { child, input: Some(input), output: BufReader::new(output), next: 0 }
    }

    /// Sends one line unchanged.
    ///
    /// # Errors
    /// The error of the pipe.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(line)?;
        input.write_all(b"\n")?;
        input.flush()
    }

    /// Reads one line as JSON.
    ///
    /// # Errors
    /// The error of the pipe, or `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Closes the server's input and waits for the process.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish(mut self) -> io::Result<std::process::ExitStatus> {
        self.input = None;
        self.child.wait()
    }

    /// Returns the server's process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl McpClient for Stdio {
    fn request(&mut self, method: &str, params: Value) -> io::Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(message(id, method, params).to_string().as_bytes())?;
        loop {
            let response = self.receive()?;
            if response.get("id") == Some(&id.into()) {
                return Ok(response);
            }
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client over standard input and output that several threads share. Each call waits for the
/// answer with its id. Clones are clients of the same server.
#[derive(Clone, Debug)]
pub struct Lane(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    input: Mutex<Option<ChildStdin>>,
    /// The calls that wait, by id; `None` once no more answers can come.
    waiting: Mutex<Option<HashMap<u64, Sender<Value>>>>,
    next: AtomicU64,
}

impl Lane {
    /// Makes a client of a child's pipes, and starts a thread that reads its answers.
    pub fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let waiting = Mutex::new(Some(HashMap::new()));
        let lane = Self(Arc::new(Shared {
            input: Mutex::new(Some(input)),
            waiting,
            next: AtomicU64::new(0),
        }));
        let shared = Arc::clone(&lane.0);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines();
            while let Some(Ok(line)) = lines.next() {
                let response: Value = serde_json::from_str(&line).unwrap_or_default();
                let id = response.get("id").and_then(Value::as_u64);
                let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = id.and_then(|id| waiting.as_mut()?.remove(&id)) {
                    let _ = answer.send(response);
                }
            }
            // The calls that still wait see the end of their channels.
            shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        lane
    }

    /// Closes the server's input, which asks the server to stop.
    pub fn close(&self) {
        self.0.input.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl McpClient for Lane {
    fn request(&mut self, method: &str, params: Value) -> io::Result<Value> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = channel();
        let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .ok_or_else(gone)?
            .insert(id, answer);
        let line = message(id, method, params).to_string() + "\n";
        match self.0.input.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(input) => input.write_all(line.as_bytes())?,
            None => return Err(gone()),
        }
        answered.recv().map_err(|_| gone())
    }
}
