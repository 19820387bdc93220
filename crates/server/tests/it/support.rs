//! A server in this process, tokens that say what they are, tools that misbehave, and a client that
//! can send any bytes at all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Principal, Read, Walk};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_domain::scope::Scopes;
use stile_domain::tool_name::ShownTools;
use stile_server::auth::{
    IdentityClaims, TokenRejected, TokenVerifier, VaultClaim, VerifiedCaller,
};
use stile_server::http::{self, HttpOptions};
use stile_server::service::Service;
use stile_store::journal::Journal;
use stile_store::space::{SearchIgnore, Space, SpaceOptions};
use stile_store::state::StateDir;
use stile_tools::answer::Answer;
use stile_tools::space::SpaceTools;
use stile_tools::tool::{Output, Tool, ToolEntry};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here may take, on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An empty space, a journal, and the folder that holds them and goes with them.
pub struct Ground {
    pub tools: SpaceTools,
    folder: TempDir,
}

impl Ground {
    /// With the real tools and the misbehaving ones.
    pub fn new() -> Self {
        static MISBEHAVING: [ToolEntry<Space>; 4] = [
            ToolEntry::new::<Panics>(),
            ToolEntry::new::<Sleeps>(),
            ToolEntry::new::<Floods>(),
            ToolEntry::new::<Waits>(),
        ];
        Self::with_tools(&MISBEHAVING)
    }

    /// The folder of the space.
    pub fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("space")
    }

    /// With the real tools only.
    pub fn real() -> Self {
        Self::with_tools(&[])
    }

    /// With the real tools and others beside them.
    pub fn with_tools(others: &'static [ToolEntry<Space>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("space");
        stile_store::state::create_space_folder(&root).unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        let options = SpaceOptions {
            limits: FileLimits::default(),
            mounts: Vec::new(),
            search_ignore: SearchIgnore::default(),
            lock_wait: Duration::from_secs(10),
            events: Arc::new(|_| {}),
            appends_folder: None,
            cleared: None,
            documents: None,
        };
        let (space, _) = Space::open_ambient(&root, options).unwrap();
        let journal = Arc::new(Journal::open(&state).unwrap());
        let tools = SpaceTools::new(space, journal);
        let tools = tools.with_tools(SpaceTools::built_in().chain(others));
        Self { tools, folder }
    }
}

/// A caller with `scopes`, whose token is one of its client.
pub fn principal(subject: &str, client: Option<&str>, scopes: &str) -> Principal {
    Principal::assert_verified(
        subject,
        Some(client.unwrap_or("t1")),
        client,
        Scopes::parse_claim(scopes).unwrap(),
        RecordsClaim::None,
    )
}

/// Tokens that say what they are: `subject;client;scopes;seconds`, with `_` for spaces in the
/// scopes and `-` for no client.
pub struct Plain {
    start: SystemTime,
    rights: Rights,
}

/// What the owner changed since the tokens were made: the scopes of a subject.
pub type Rights = Arc<Mutex<HashMap<String, &'static str>>>;

impl TokenVerifier for Plain {
    fn verify<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        Box::pin(std::future::ready(self.verify_now(token)))
    }

    fn is_revoked(&self, caller: &Principal) -> bool {
        let now = self.current(caller);
        now.is_none_or(|now| caller.scopes().is_narrowed_by(now.scopes()))
    }

    fn current(&self, caller: &Principal) -> Option<Principal> {
        let rights = self.rights.lock().unwrap();
        let changed = rights
            .get(caller.subject())
            .map(|scopes| principal(caller.subject(), caller.client(), scopes));
        Some(changed.unwrap_or_else(|| caller.clone()))
    }
}

impl Plain {
    fn verify_now(&self, token: &str) -> Result<VerifiedCaller, TokenRejected> {
        let parts: Vec<&str> = token.split(';').collect();
        let [subject, client, scopes, seconds] = parts[..] else {
            return Err(TokenRejected("not of the test"));
        };
        let expires =
            self.start + Duration::from_millis((seconds.parse::<f64>().unwrap() * 1000.0) as u64);
        if expires <= SystemTime::now() {
            return Err(TokenRejected::EXPIRED);
        }
        let client = Some(client).filter(|client| *client != "-");
        let identity = IdentityClaims {
            issuer: None,
            actor: subject.into(),
            vault: VaultClaim::None,
            role: Role::Viewer,
            audiences: Vec::new(),
        };
        Ok(VerifiedCaller {
            principal: principal(subject, client, &scopes.replace('_', " ")),
            identity,
            expires,
        })
    }
}

pub const WRITE: &str = "ann;-;write:/;3600";
pub const READ: &str = "ann;-;read:/;3600";
pub const WORK: &str = "ann;-;read:/work/;3600";
pub const NOTHING: &str = "ann;-;;3600";
pub const BOB: &str = "bob;-;write:/;3600";

pub struct Server {
    pub address: SocketAddr,
    /// What the owner changes while the server runs.
    pub rights: Rights,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
    ground: TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        Self::on(Ground::new(), change).await
    }

    pub async fn on(ground: Ground, change: impl FnOnce(&mut HttpOptions)) -> Self {
        let mut options =
            HttpOptions { listen: ([127, 0, 0, 1], 0).into(), ..HttpOptions::default() };
        change(&mut options);
        let (stop, stopped) = oneshot::channel::<()>();
        let (listening, address) = oneshot::channel();
        let rights = Rights::default();
        let verifier = Plain { start: SystemTime::now(), rights: Arc::clone(&rights) };
        let verifier = Arc::new(verifier);
        let served = tokio::spawn(http::serve(
            options,
            Service::of_space(ground.tools),
            verifier,
            async move {
                let _ = stopped.await;
            },
            move |address| listening.send(address).unwrap(),
        ));
        Self {
            address: address.await.unwrap(),
            rights,
            stop: Some(stop),
            served,
            ground: ground.folder,
        }
    }

    /// The folder of the space.
    pub fn root(&self) -> std::path::PathBuf {
        self.ground.path().join("space")
    }

    pub async fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Tells the server to stop, without waiting for it.
    pub fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has stopped.
    pub async fn stopped(self) {
        timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
    }

    /// Sends one message on a connection of its own.
    pub async fn post(&self, token: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        self.connect().await.post(token, headers, body).await
    }

    /// Opens a session and returns its id.
    pub async fn open(&self, token: &str) -> String {
        let reply = self.post(token, &[], &initialize("2025-11-25", "test")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").unwrap().to_owned();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(token, &[("mcp-session-id", &session)], &done).await.status, 202);
        session
    }

    /// A request of a session.
    pub async fn in_session(&self, token: &str, session: &str, body: &Value) -> Reply {
        self.post(token, &[("mcp-session-id", session)], body).await
    }

    /// A request outside any session.
    pub async fn sessionless(&self, token: &str, method: &str, params: Value) -> Reply {
        let mut client = self.connect().await;
        client.sessionless(token, method, params).await
    }
}

pub fn initialize(version: &str, client: &str) -> Value {
    request(
        0,
        "initialize",
        json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": client, "version": "1" } }),
    )
}

pub fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn call(id: i64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// What every request of the sessionless lifecycle carries.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// One connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// One answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The message: the body itself, or the last event of a stream.
    pub fn json(&self) -> Value {
        let is_stream =
            self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .rfind(|data| !data.is_empty());
        let text = if is_stream {
            data.unwrap_or_else(|| panic!("no event in {self:?}"))
        } else {
            &self.body
        };
        serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON in {self:?}"))
    }
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub fn stream_mut(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).await.unwrap();
    }

    pub fn head(method: &str, target: &str, token: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: localhost\r\n");
        }
        if !token.is_empty() {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    pub fn post_bytes(token: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = Self::head("POST", "/mcp", token, headers);
        for (name, value) in [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ] {
            if !headers.iter().any(|(found, _)| *found == name) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        [head.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat()
    }

    pub async fn post(&mut self, token: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        self.post_text(token, headers, &body.to_string()).await
    }

    pub async fn post_text(&mut self, token: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send(Self::post_bytes(token, headers, body.as_bytes())).await;
        self.reply().await
    }

    pub async fn sessionless(&mut self, token: &str, method: &str, mut params: Value) -> Reply {
        params["_meta"] = meta();
        let name = params
            .get("name")
            .or_else(|| params.get("uri"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if let Some(name) = &name {
            headers.push(("mcp-name", name));
        }
        self.post(token, &headers, &request(1, method, params)).await
    }

    pub async fn get(&mut self, target: &str, token: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(format!("{}\r\n", Self::head("GET", target, token, headers))).await;
        self.reply().await
    }

    pub async fn delete(&mut self, token: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(format!("{}\r\n", Self::head("DELETE", "/mcp", token, headers))).await;
        self.reply().await
    }

    pub async fn reply(&mut self) -> Reply {
        timeout(PATIENCE, async {
            let mut reply = self.reply_head().await.expect("the connection was closed");
            if let Some(length) =
                reply.header("content-length").and_then(|length| length.parse().ok())
            {
                let mut body = vec![0; length];
                self.stream.read_exact(&mut body).await.unwrap();
                reply.body = String::from_utf8(body).unwrap();
            } else if reply.header("transfer-encoding") == Some("chunked") {
                while let Some(piece) = self.piece().await {
                    reply.body.push_str(&piece);
                }
            }
            reply
        })
        .await
        .expect("no reply in time")
    }

    /// The head of an answer whose body is not awaited; `None` if the connection was closed
    /// instead.
    pub async fn reply_head(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await.ok()?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
                None => return Some(Reply { status, headers, body: String::new() }),
            }
        }
    }

    /// One chunk of a chunked body; `None` at its end, or where the connection was cut.
    pub async fn piece(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut piece = vec![0; length + 2];
        self.stream.read_exact(&mut piece).await.ok()?;
        piece.truncate(length);
        (length > 0).then(|| String::from_utf8(piece).unwrap())
    }

    /// Waits until the server has closed the connection, whatever it sends before.
    pub async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, self.stream.read_to_end(&mut rest))
            .await
            .expect("the connection stays open");
    }
}

/// A tool whose handler panics, with something in the message that nobody may see.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Panics {}

/// A tool that takes its time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sleeps {
    milliseconds: u64,
}

/// A tool that works until its test calls [`end_waits`] with the same name. The tests of a process
/// run at once, so each has a name of its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    name: String,
}

/// The calls of [`Waits`] of one name: how many have begun, and whether they may end.
#[derive(Default)]
struct Waiting {
    begun: usize,
    may_end: bool,
}

static WAITING: LazyLock<watch::Sender<HashMap<String, Waiting>>> =
    LazyLock::new(|| watch::Sender::new(HashMap::new()));

async fn wait_until(name: &str, is_so: impl Fn(&Waiting) -> bool) {
    let mut waiting = WAITING.subscribe();
    let so = waiting.wait_for(|all| all.get(name).is_some_and(&is_so));
    timeout(PATIENCE, so).await.expect("the call of a test").unwrap();
}

/// Waits until so many calls of `test.waits` with this name have begun.
pub async fn waits_began(name: &str, calls: usize) {
    wait_until(name, |waiting| waiting.begun >= calls).await;
}

/// Lets the calls of `test.waits` with this name end.
pub fn end_waits(name: &str) {
    WAITING.send_modify(|all| all.entry(name.to_owned()).or_default().may_end = true);
}

/// A tool with a long answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floods {
    bytes: usize,
}

/// A tool that walks until [`WALKS_END`] is closed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walks {}

/// How many walks have begun.
pub static WALKS_BEGUN: AtomicUsize = AtomicUsize::new(0);
/// What the walks of one test wait for.
pub static WALKS_END: Semaphore = Semaphore::const_new(0);

#[derive(Debug, Serialize, JsonSchema)]
pub struct Flood {
    flood: String,
}

impl Output for Flood {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {
    done: bool,
}

impl Output for Done {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

fn root() -> &'static SpacePath {
    static ROOT: LazyLock<SpacePath> = LazyLock::new(SpacePath::root);
    &ROOT
}

impl Tool for Panics {
    const NAME: &'static str = "test.panics";
    const TITLE: &'static str = "Panic";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Read>;
    type Output = Done;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(root())
    }

    async fn run(self, _: Permit<Read>, _: &Space) -> Result<Done, Refusal> {
        panic!("the content of a note")
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(root(), None)
    }
}

impl Tool for Sleeps {
    const NAME: &'static str = "test.sleeps";
    const TITLE: &'static str = "Sleep";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Read>;
    type Output = Done;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(root())
    }

    async fn run(self, _: Permit<Read>, _: &Space) -> Result<Done, Refusal> {
        tokio::time::sleep(Duration::from_millis(self.milliseconds)).await;
        Ok(Done { done: true })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(root(), None)
    }
}

impl Tool for Waits {
    const NAME: &'static str = "test.waits";
    const TITLE: &'static str = "Wait";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Read>;
    type Output = Done;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(root())
    }

    async fn run(self, _: Permit<Read>, _: &Space) -> Result<Done, Refusal> {
        WAITING.send_modify(|all| all.entry(self.name.clone()).or_default().begun += 1);
        wait_until(&self.name, |waiting| waiting.may_end).await;
        Ok(Done { done: true })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(root(), None)
    }
}

impl Tool for Floods {
    const NAME: &'static str = "test.floods";
    const TITLE: &'static str = "Flood";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Read>;
    type Output = Flood;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(root())
    }

    async fn run(self, _: Permit<Read>, _: &Space) -> Result<Flood, Refusal> {
        Ok(Flood { flood: "x".repeat(self.bytes) })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(root(), None)
    }
}

impl Tool for Walks {
    const NAME: &'static str = "test.walks";
    const TITLE: &'static str = "Walk";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Walk>;
    type Output = Done;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Walk>, Refusal> {
        gate.permit(root())
    }

    async fn run(self, _: Permit<Walk>, _: &Space) -> Result<Done, Refusal> {
        WALKS_BEGUN.fetch_add(1, Ordering::SeqCst);
        let ended = WALKS_END.acquire().await;
        Ok(Done { done: ended.is_err() })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(root(), None)
    }
}
