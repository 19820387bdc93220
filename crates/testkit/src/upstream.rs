//! A note store that misbehaves on purpose: an HTTP server on loopback that records all it
//! receives.
//!
//! The server reads requests and writes replies as raw bytes, so that no library repairs a broken
//! reply or hides a part of a request. The server has its own thread and runtime, so that it serves
//! blocking and asynchronous tests alike, however busy the test is. [`faults`] lists what can go
//! wrong.

mod bomb;
pub mod faults;
pub mod tls;
mod wire;

use std::fmt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as Listening};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use tls::{Certificate, Protocol};

/// A request, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which connection it came on; the first that was accepted is 1.
    pub connection: usize,
    /// The HTTP method of the request.
    pub method: String,
    /// The target exactly as on the wire, such as `/api/v1/notes/a%2Fb.md`.
    pub target: String,
    /// The version as on the wire, such as `HTTP/1.1`.
    pub version: String,
    /// Names as they were written and values without the space around them, in order. Over HTTP/2
    /// the first is `:authority`.
    pub headers: Vec<(String, String)>,
    /// The request line and the headers, byte for byte; empty over HTTP/2.
    pub head: Vec<u8>,
    /// The body, without chunk sizes.
    pub body: Vec<u8>,
}

impl Received {
    /// The first value of a header, in whichever case its name was written.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All values of a header, to see that it was sent once.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The names of all headers in lower case, in order.
    pub fn names(&self) -> Vec<String> {
        self.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
    }

    /// The path of the note that is asked for, decoded; nothing where the target is not a note's.
    pub fn note(&self) -> Option<String> {
        let segment = self.target.strip_prefix("/api/v1/notes/")?;
        if segment.contains(['/', '?', '#']) {
            return None;
        }
        let mut bytes = Vec::with_capacity(segment.len());
        let mut rest = segment.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let (high, low) = (rest.next()? as char, rest.next()? as char);
                    u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok()?
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).ok()
    }
}

/// A well-formed reply to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub status: u16,
    /// The words after it.
    pub reason: String,
    /// All headers except `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body, sent in one piece.
    pub body: Vec<u8>,
    /// How long the server thinks before it sends the first byte.
    pub after: Duration,
}

impl Reply {
    /// An answer in JSON with a status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// Any bytes, labelled as a type.
    pub fn bytes(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), media_type.to_owned())];
        Self {
            status,
            reason: "Answer".to_owned(),
            headers,
            body: body.into(),
            after: Duration::ZERO,
        }
    }

    /// A note, as the store answers one.
    pub fn note(frontmatter: &Value, body: &str) -> Self {
        Self::json(200, &json!({ "frontmatter": frontmatter, "body": body }))
    }

    /// The refusal that the store answers with a status.
    pub fn refusal(status: u16, error: &str) -> Self {
        Self::json(status, &json!({ "error": error, "code": status.to_string() }))
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, but later.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    fn wire(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = format!("{head}Content-Length: {}\r\n\r\n", self.body.len()).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// One action on a connection, instead of a reply.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Sends the same bytes again and again, with a pause before each time, until the client
    /// leaves.
    Repeat(Vec<u8>, Duration),
    /// Does nothing for a while.
    Pause(Duration),
    /// Sends nothing more and waits until the client leaves.
    Hang,
    /// Closes the connection properly.
    Close,
    /// Ends the connection with a reset, which may overtake bytes that were sent.
    Reset,
}

/// Computes a reply from the request.
pub type ReplyFn = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;
/// Computes the steps on the connection from the request.
pub type Script = Arc<dyn Fn(&Received) -> Vec<Step> + Send + Sync>;

/// How the server treats connections and requests. [`faults`] has the constructors.
#[derive(Clone)]
pub enum Behaviour {
    /// Sends well-formed replies, and keeps the connection.
    Notes(ReplyFn),
    /// Reads each request and then goes through steps. Where they do not end the connection, it is
    /// kept. Over HTTP/2 there are no raw bytes to send, and the stream is reset.
    Wire(Script),
    /// Reads requests and never answers.
    Silence,
    /// Accepts connections and reads nothing.
    Deaf,
    /// Accepts connections and closes them.
    CloseAtOnce,
    /// Has its port closed; connections that were open are cut.
    Refuse,
}

impl Behaviour {
    /// Sends well-formed replies that are computed from the request.
    pub fn notes(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::Notes(Arc::new(answer))
    }

    /// Sends the same reply to every request.
    pub fn always(reply: Reply) -> Self {
        Self::notes(move |_| reply.clone())
    }

    /// Goes through steps that are computed from the request.
    pub fn wire(script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::Wire(Arc::new(script))
    }

    /// Goes through the same steps for every request.
    pub fn steps(steps: Vec<Step>) -> Self {
        Self::wire(move |_| steps.clone())
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Notes(_) => "Notes",
            Self::Wire(_) => "Wire",
            Self::Silence => "Silence",
            Self::Deaf => "Deaf",
            Self::CloseAtOnce => "CloseAtOnce",
            Self::Refuse => "Refuse",
        })
    }
}

/// A running server. Dropping it closes every connection and the port.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` only while it is dropped; the server ends when this does.
    orders: Option<UnboundedSender<SyncSender<()>>>,
    thread: Option<JoinHandle<()>>,
    /// The certificate of the authority in PEM; `None` without TLS.
    authority: Option<String>,
}

/// The state that the server shares with its handle.
#[derive(Debug)]
struct Shared {
    behaviour: Mutex<Behaviour>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    sent: AtomicU64,
}

impl Shared {
    fn behaviour(&self) -> Behaviour {
        held(&self.behaviour).clone()
    }

    fn refuses(&self) -> bool {
        matches!(*held(&self.behaviour), Behaviour::Refuse)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream {
    /// Starts on a free port of 127.0.0.1. The port is open, or refuses, when this returns.
    ///
    /// # Panics
    /// No port can be opened.
    pub fn start(behaviour: Behaviour) -> Self {
        Self::open(None, behaviour)
    }

    /// Starts with TLS, under an authority that only clients with [`authority`](Self::authority)
    /// trust. HTTP/1.1 over TLS can have all faults, HTTP/2 only well-formed replies.
    ///
    /// # Panics
    /// No port can be opened, or no certificate can be made.
    pub fn start_tls(protocol: Protocol, certificate: Certificate, behaviour: Behaviour) -> Self {
        Self::open(Some(tls::Identity::of(protocol, certificate)), behaviour)
    }

    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    fn open(identity: Option<tls::Identity>, behaviour: Behaviour) -> Self {
        let listening = Listening::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listening.set_nonblocking(true).expect("the port can be polled");
        let address = listening.local_addr().expect("the port has a number");
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour.clone()),
            received: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
        });
        let (acceptor, authority) =
            identity.map(|identity| (identity.acceptor, identity.authority)).unzip();
        let (orders, received) = unbounded_channel();
        let server = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .expect("a runtime can be made")
                .block_on(run(listening, address, acceptor, server, received));
        });
        let upstream =
            Self { address, shared, orders: Some(orders), thread: Some(thread), authority };
        upstream.set(behaviour);
        upstream
    }

    /// Returns the address, such as `http://127.0.0.1:40123`, without a slash at the end. A good
    /// certificate names `localhost` as well.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificate of the authority in PEM; empty without TLS.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap_or_default()
    }

    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, in the order in which they were complete. A request is here before it
    /// is answered.
    pub fn requests(&self) -> Vec<Received> {
        held(&self.shared.received).clone()
    }

    /// Forgets the requests so far and answers them.
    pub fn take_requests(&self) -> Vec<Received> {
        std::mem::take(&mut *held(&self.shared.received))
    }

    /// How many connections it has accepted, among them those that sent nothing.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open now. A client that leaves is seen when something is sent to it
    /// or read from it.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many bytes the system has taken from it to send, over TLS before they are encrypted:
    /// what a client read is less than this by what is in buffers. Over HTTP/2 it is the bodies
    /// alone.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Changes what it does with every request that is complete after this returns.
    ///
    /// # Panics
    /// The server has ended, which only a panic of the server causes.
    #[expect(clippy::expect_used, reason = "a rig that has broken should say so at once")]
    pub fn set(&self, behaviour: Behaviour) {
        *held(&self.shared.behaviour) = behaviour;
        let (done, wait) = sync_channel(1);
        self.orders.as_ref().and_then(|orders| orders.send(done).ok()).expect("the server runs");
        wait.recv().expect("the server runs");
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The port: open, or held without listening, so that the system refuses connections and nobody
/// else gets it.
enum Port {
    Open(TcpListener),
    Closed(TcpSocket),
}

impl Port {
    async fn accept(&self) -> Option<TcpStream> {
        match self {
            Self::Open(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
            Self::Closed(_) => std::future::pending().await,
        }
    }
}

/// Holds the port of an address without listening. A process that another thread is just starting
/// has a copy of the listening socket until it becomes its program, so the port may be in use for a
/// moment longer.
#[expect(clippy::expect_used, reason = "a rig that has broken should say so at once")]
fn hold(address: SocketAddr) -> TcpSocket {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.set_reuseaddr(true).expect("the port can be taken back");
        match socket.bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => {
                bound.expect("the port is still ours");
                return socket;
            }
        }
    }
}

#[expect(clippy::expect_used, reason = "a rig that has broken should say so at once")]
async fn run(
    listening: Listening,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    mut orders: UnboundedReceiver<SyncSender<()>>,
) {
    let mut port = Port::Open(TcpListener::from_std(listening).expect("the port can be polled"));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some(done) = order else { return };
                port = match (port, shared.refuses()) {
                    (Port::Open(listener), true) => {
                        drop(listener);
                        connections.shutdown().await;
                        Port::Closed(hold(address))
                    }
                    (Port::Closed(socket), false) => {
                        Port::Open(socket.listen(1024).expect("the port opens again"))
                    }
                    (port, _) => port,
                };
                let _ = done.send(());
            }
            stream = port.accept() => {
                let Some(stream) = stream else { continue };
                let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                connections.spawn(connection(stream, acceptor, number, shared));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Counts a connection as open for as long as this lives.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    number: usize,
    shared: Arc<Shared>,
) {
    shared.open.fetch_add(1, Ordering::SeqCst);
    let _open = Open(Arc::clone(&shared));
    let _ = stream.set_nodelay(true);
    match shared.behaviour() {
        Behaviour::CloseAtOnce => return,
        Behaviour::Deaf => std::future::pending().await,
        _ => {}
    }
    // How the client left is nothing that a server can do anything about.
    let _ = match acceptor {
        None => wire::serve(stream, number, &shared).await,
        Some(acceptor) => tls::serve(stream, &acceptor, number, shared).await,
    };
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as Stream;

    use super::*;
    use crate::client::Http;

    fn echo(received: &Received) -> Reply {
        let user = received.header("x-user-id").unwrap_or("nobody");
        Reply::note(
            &json!({}),
            &format!("{user} asked for {}", received.note().unwrap_or_default()),
        )
    }

    fn get(client: &mut Http, target: &str, headers: &str) -> Value {
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: store\r\n{headers}\r\n").as_bytes())
            .unwrap()
            .json()
    }

    #[test]
    fn requests_are_recorded_as_they_were_written() {
        let upstream = Upstream::start(Behaviour::notes(echo));
        let mut client = Http::new(upstream.address(), "");
        let answer = get(
            &mut client,
            "/api/v1/notes/a%2Fb%20%C3%A9.md",
            "X-USER-Id:  alice \r\nAccept: a\r\naccept: b\r\n",
        );
        assert_eq!(answer["body"], "alice asked for a/b é.md");
        let requests = upstream.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!((request.method.as_str(), request.version.as_str()), ("GET", "HTTP/1.1"));
        assert_eq!(request.target, "/api/v1/notes/a%2Fb%20%C3%A9.md");
        let headers = [("Host", "store"), ("X-USER-Id", "alice"), ("Accept", "a"), ("accept", "b")];
        assert_eq!(
            request.headers,
            headers.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(request.values("ACCEPT"), ["a", "b"]);
        assert!(request.head.ends_with(b"X-USER-Id:  alice \r\nAccept: a\r\naccept: b\r\n\r\n"));
    }

    #[test]
    fn bodies_are_read_and_pipelined_requests_stay_separate() {
        let upstream = Upstream::start(Behaviour::notes(echo));
        let mut stream = Stream::connect(upstream.address()).unwrap();
        let two = "POST /one HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
                   PUT /two HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nde";
        stream.write_all(two.as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200 Answer\r\n").count(), 2);
        let bodies: Vec<_> =
            upstream.requests().into_iter().map(|request| (request.target, request.body)).collect();
        assert_eq!(
            bodies,
            [("/one".to_owned(), b"abc".to_vec()), ("/two".to_owned(), b"de".to_vec())]
        );
    }

    #[test]
    fn the_server_records_reuse_of_a_connection() {
        let upstream = Upstream::start(Behaviour::notes(echo));
        let (mut one, mut other) =
            (Http::new(upstream.address(), ""), Http::new(upstream.address(), ""));
        get(&mut one, "/1", "");
        get(&mut other, "/2", "");
        get(&mut one, "/3", "");
        let on: Vec<_> =
            upstream.take_requests().iter().map(|request| request.connection).collect();
        assert_eq!(
            (on, upstream.connections(), upstream.open_connections()),
            (vec![1, 2, 1], 2, 2)
        );
        assert!(upstream.requests().is_empty());
    }

    #[test]
    fn a_fault_may_change_between_two_requests_and_a_closed_port_refuses() {
        let upstream = Upstream::start(Behaviour::Refuse);
        assert_eq!(
            Stream::connect(upstream.address()).unwrap_err().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
        upstream.set(Behaviour::notes(echo));
        let mut client = Http::new(upstream.address(), "");
        get(&mut client, "/1", "");
        upstream.set(Behaviour::always(Reply::refusal(403, "no")));
        assert_eq!(get(&mut client, "/2", "")["error"], "no");
        upstream.set(Behaviour::Refuse);
        assert!(client.send(b"GET / HTTP/1.1\r\n\r\n").is_err());
        assert!(Stream::connect(upstream.address()).is_err());
        assert_eq!((upstream.connections(), upstream.open_connections()), (1, 0));
        upstream.set(Behaviour::CloseAtOnce);
        assert!(client.send(b"GET / HTTP/1.1\r\n\r\n").is_err());
        assert_eq!((upstream.connections(), upstream.requests().len()), (2, 2));
    }

    #[tokio::test]
    async fn the_note_server_starts_and_stops_inside_a_runtime() {
        let upstream = Upstream::start(Behaviour::Silence);
        let address = upstream.address();
        drop(upstream);
        assert!(TcpStream::connect(address).await.is_err());
    }
}
