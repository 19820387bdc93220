//! A note store that misbehaves on purpose: an HTTP server on loopback that records all it
//! receives.
//!
//! The server reads requests and writes replies as raw bytes, so that no library repairs a broken
//! reply or hides a part of a request. The server has its own thread and runtime, so that it serves
//! blocking and asynchronous tests alike, however busy the test is. [`faults`] lists what can go
//! wrong.

mod behaviour;
mod bomb;
pub mod faults;
pub mod oddities;
pub mod tls;
mod wire;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as Listening};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub use self::behaviour::{Behaviour, Received, Reply, ReplyFn, Script, Step};
use self::behaviour::{Shared, held};
use self::tls::{Certificate, Protocol};

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

    /// Starts with TLS and a good certificate for other names than those of this machine. Only
    /// clients that resolve such a name to [`address`](Self::address) by themselves find it.
    ///
    /// # Panics
    /// No port can be opened, or no certificate can be made.
    pub fn start_tls_named(names: &[&str], behaviour: Behaviour) -> Self {
        Self::open(Some(tls::Identity::named(Protocol::Http1, names)), behaviour)
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

    use serde_json::{Value, json};

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
