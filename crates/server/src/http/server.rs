//! Accepts connections, and stops gracefully.
//!
//! The HTTP library's own loop limits neither connections nor waits, so this module has one. It
//! stops in these steps: accept no more connections, let each one finish its response, wait for
//! running calls up to a limit, end the event streams, then drop the connections that are left.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, any, get};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::uri::Scheme;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::SessionStore;
use stile_domain::permit::Principal;
use stile_domain::sign_in::source_network::source_network;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::accept_pace::AcceptPace;
use super::admission::Admission;
use super::connection::{BoundedStream, ConnectionState};
use super::edge::Edge;
use super::gateway_notes::{self, GatewayNotes, NOTES_PATH};
use super::mcp_endpoint::McpEndpoint;
use super::metadata::SupportedFeatures;
use super::options::{HttpOptions, Timeouts};
use super::origin_policy::OriginPolicy;
use super::peer::{ConnectedPeer, PeerPolicy};
use super::rate_limit::RateLimit;
use super::session_starts::SessionStarts;
use super::start_page::StartPage;
use super::stranger_places::StrangerPlaces;
use super::tls::TlsIdentity;
use super::v1::{self, OPENAPI_PATH, RECORDS_PATH, V1};
use super::{metadata, request_head, responses};
use crate::auth::TokenVerifier;
use crate::mcp::handler::{CallerSource, Handler};
use crate::mcp::streamable::Streamable;
use crate::mcp::subscriptions::Subscriptions;
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::pages::frame::{STYLE_PATH, style};
use crate::service::Service;

/// How long connections may take to close after the last response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a new connection waits for one of a stranger to close and make room.
const ROOM_TIMEOUT: Duration = Duration::from_millis(250);
/// How long accepting pauses after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const MAX_METRICS_CONNECTIONS: usize = 64;

/// Serves until `shutdown` completes, then stops gracefully. Calls `on_listening` with the address
/// once connections are accepted.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve(
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn TokenVerifier>,
    shutdown: impl Future<Output = ()>,
    on_listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(options.listen).await?;
    let address = listener.local_addr()?;
    let streams = CancellationToken::new();
    let timeouts = options.timeouts;
    let max_connections = options.max_connections;
    let tls = options.tls.clone();
    let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
    let origin_policy = OriginPolicy::new(
        address,
        &scheme,
        options.public_url.as_deref(),
        &options.allowed_hosts,
        &options.allowed_origins,
    );
    let peers = options.peers.clone();
    let stopping = CancellationToken::new();
    let ends = Ends { streams: streams.clone(), stopping: stopping.clone() };
    let routes = routes(options, service, verifier, ends);
    // Subscriptions are requests that last, and nobody waits for them.
    let shutdown = async {
        shutdown.await;
        stopping.cancel();
    };
    let edge = Edge::new(peers, origin_policy, routes);
    on_listening(address);
    Acceptor::new(edge, tls, max_connections, timeouts).serve(listener, shutdown, streams).await;
    Ok(())
}

/// Serves `/metrics` until `shutdown` completes. Every client that can connect may read the
/// metrics, so `listen` should be an address of this machine only.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve_metrics(
    listen: SocketAddr,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
    on_listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let scrape = move || async move { ([(CONTENT_TYPE, MEDIA_TYPE)], metrics.text()) };
    let origin_policy = OriginPolicy::new(address, &Scheme::HTTP, None, &[], &[]);
    let routes = Router::new().route("/metrics", get(scrape));
    let edge = Edge::new(PeerPolicy::default(), origin_policy, routes);
    on_listening(address);
    Acceptor::new(edge, None, MAX_METRICS_CONNECTIONS, Timeouts::default())
        .serve(listener, shutdown, CancellationToken::new())
        .await;
    Ok(())
}

/// What ends when the server stops.
struct Ends {
    /// All event streams, after the last response.
    streams: CancellationToken,
    /// All subscriptions, at once.
    stopping: CancellationToken,
}

fn routes(
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn TokenVerifier>,
    ends: Ends,
) -> Router {
    let fleet = options.fleet.clone();
    let rate = RateLimit::new(options.rate_per_second, options.rate_burst).shared_by(fleet.clone());
    let starts = options.kept_sessions.clone().map(SessionStarts::new);
    let starts = starts.map(|starts| Arc::new(starts) as Arc<dyn SessionStore>);
    let shares = Arc::clone(service.shares());
    let space = service.space().cloned();
    let admission = Arc::new(Admission::new(verifier, rate, shares, options.public_url.clone()));
    let subscriptions = {
        let (revoked, current) = (Arc::clone(&admission), Arc::clone(&admission));
        let is_revoked = Arc::new(move |caller: &Principal| revoked.is_revoked(caller));
        let rights = Arc::new(move |caller: &Principal| current.current(caller));
        Arc::new(Subscriptions::new(is_revoked, rights, ends.stopping.clone()))
    };
    let handler = Handler::new(
        service.clone(),
        CallerSource::Request,
        options.presentation,
        Arc::clone(&subscriptions),
    );
    let streamable = Streamable::new(
        handler, options.session_idle, options.max_body_bytes, ends.streams, starts,
    );
    // A gateway has no notes of its own, and reads those of one person.
    let notes = service.space().filter(|_| options.people.is_none()).map(|tools| {
        let (admission, notes) = (Arc::clone(&admission), options.notes.clone());
        Arc::new(GatewayNotes::new(tools.clone(), admission, notes))
    });
    let supported = SupportedFeatures {
        scopes: service.space().is_some(),
        records: service.records().is_some(),
        record_requests: service.records().is_some() && options.sign_in.is_some(),
    };
    let records = service.records().map(|records| {
        let v1 = V1::new(records.clone(), Arc::clone(&admission), options.timeouts);
        let v1 = v1.with_metrics(Arc::clone(service.metrics()));
        Arc::new(v1.with_people(options.people.clone()))
    });
    let sign_in = options.sign_in.clone();
    let start_page = StartPage::new(&options, service.space().is_some());
    let endpoint =
        Arc::new(McpEndpoint::new(service, admission, streamable, subscriptions, options.clone()));
    let health = {
        let space = space.clone();
        move || metadata::health(space)
    };
    let ready = move || metadata::ready(space, fleet, ends.stopping);
    let nothing = nothing_here(start_page.clone());
    let protected_resource = protected_resource(options, supported);
    let mut router = Router::new()
        .route(metadata::MCP_PATH, any(mcp))
        .route(metadata::MCP_PATH_WITH_SLASH, any(mcp))
        .route(metadata::ROOT_PATH, any(mcp))
        .with_state((endpoint, start_page))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route(metadata::METADATA_PATH, protected_resource.clone())
        .route(metadata::METADATA_PATH_WITH_SLASH, protected_resource.clone())
        .route(metadata::METADATA_PATH_OF_ORIGIN, protected_resource.clone())
        .route(metadata::METADATA_PATH_OF_ROOT, protected_resource)
        .fallback_service(nothing);
    if let Some(notes) = notes {
        let routes = Router::new().route(NOTES_PATH, get(gateway_notes::route)).with_state(notes);
        router = router.merge(routes);
    }
    if let Some(records) = records {
        let routes = Router::new().route(RECORDS_PATH, any(v1::route)).with_state(records);
        router = router.merge(routes).route(OPENAPI_PATH, get(v1::description));
    }
    match sign_in {
        Some(sign_in) => router.merge(sign_in),
        None => router.route(STYLE_PATH, get(|| async { style() })),
    }
}

/// Returns the route of the metadata of every address.
fn protected_resource(options: HttpOptions, supported: SupportedFeatures) -> MethodRouter {
    let options = Arc::new(options);
    get(move |request: Request| async move {
        let (parts, _) = request.into_parts();
        let origin = metadata::origin(options.public_url.as_deref(), &parts);
        let itself = options.sign_in.is_some().then(|| origin.clone());
        let servers = options.authorization_servers.iter().cloned().chain(itself).collect();
        let query = metadata::shown_query(parts.uri.query());
        let path = format!("{}{query}", parts.uri.path());
        metadata::protected_resource(&origin, &path, servers, supported)
    })
}

/// Returns what answers at every other address.
fn nothing_here(start_page: StartPage) -> MethodRouter {
    any(move |request: Request| async move { start_page.nothing_here(request) })
}

/// Answers a client, or shows a person who opened the address what it is for.
async fn mcp(
    State((endpoint, start_page)): State<(Arc<McpEndpoint>, StartPage)>,
    request: Request,
) -> Response {
    if start_page.is_asked_for(&request) {
        return start_page.show(request);
    }
    endpoint.answer(request).await
}

async fn all_ended(mut connections: JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// The loop that accepts connections.
struct Acceptor {
    edge: Arc<Edge>,
    tls: Option<Arc<TlsIdentity>>,
    slots: Arc<Semaphore>,
    places: StrangerPlaces,
    stop: CancellationToken,
    timeouts: Timeouts,
}

impl Acceptor {
    fn new(
        edge: Arc<Edge>,
        tls: Option<Arc<TlsIdentity>>,
        max_connections: usize,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            edge,
            tls,
            slots: Arc::new(Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            // The other half are the shares of verified callers.
            places: StrangerPlaces::new(max_connections - max_connections / 2),
            stop: CancellationToken::new(),
            timeouts,
        }
    }

    /// Accepts until `shutdown` completes, then stops gracefully. Cancels `streams` to end the
    /// event streams.
    async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
        streams: CancellationToken,
    ) {
        let connections = self.accept_until(listener, shutdown).await;
        self.stop.cancel();
        // Calls that run longer are cut off below.
        let _ = timeout(self.timeouts.drain, self.edge.drained()).await;
        streams.cancel();
        let _ = timeout(CLOSE_TIMEOUT, all_ended(connections)).await;
    }

    /// Accepts until `shutdown` completes. Returns the connections that are still open.
    async fn accept_until(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> JoinSet<()> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut connections = JoinSet::new();
        let mut pace = AcceptPace::new(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return connections,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        self.admit(stream, address.ip(), &mut connections).await;
                        match pace.pause(Instant::now()) {
                            Some(pause) => tokio::time::sleep(pause).await,
                            // Otherwise a burst of new connections puts a hundred of them at once
                            // before the requests that wait for this thread.
                            None => tokio::task::yield_now().await,
                        }
                    }
                    Err(error) => {
                        tracing::warn!(
                            target: "stile::http",
                            kind = ?error.kind(),
                            "could not accept a connection"
                        );
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    /// Serves a connection. It is a stranger's, and if strangers have too many, one of theirs is
    /// closed.
    async fn admit(&self, stream: TcpStream, address: IpAddr, connections: &mut JoinSet<()>) {
        // Without this, the second piece of every event stream waits 40 ms for the client's kernel.
        let _ = stream.set_nodelay(true);
        let place = self.places.take(source_network(address));
        let slot = timeout(ROOM_TIMEOUT, Arc::clone(&self.slots).acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            tracing::debug!(target: "stile::http", "a connection was turned away: all are busy");
            return;
        };
        let connection = Connection {
            edge: Arc::clone(&self.edge),
            address,
            state: ConnectionState::new(place),
            timeouts: self.timeouts,
            stop: self.stop.clone(),
        };
        let tls = self.tls.clone();
        connections.spawn(async move {
            match tls {
                Some(identity) => connection.serve_tls(stream, &identity).await,
                None => connection.serve_plain(stream).await,
            }
            drop(slot);
        });
    }
}

/// What serving one connection needs, from its first byte to its last.
struct Connection {
    edge: Arc<Edge>,
    address: IpAddr,
    state: Arc<ConnectionState>,
    timeouts: Timeouts,
    stop: CancellationToken,
}

impl Connection {
    async fn serve_plain(self, stream: TcpStream) {
        self.serve_routes(stream, Scheme::HTTP).await;
    }

    /// Shakes hands for as long as a head may take, then serves the connection. The connection is
    /// idle while it shakes hands, so it makes room for others.
    async fn serve_tls(self, stream: TcpStream, identity: &Arc<TlsIdentity>) {
        let state = Arc::clone(&self.state);
        let stop = self.stop.clone();
        let greeting = timeout(self.timeouts.head, shake_hands(stream, identity));
        let greeting = tokio::select! {
            greeting = greeting => greeting,
            () = state.must_close() => return,
            () = stop.cancelled() => return,
        };
        match greeting {
            Ok(Ok(Greeting::Tls(stream))) => self.serve_routes(*stream, Scheme::HTTPS).await,
            Ok(Ok(Greeting::Plain(stream))) => self.serve_refusals(stream).await,
            Ok(Err(error)) => tracing::debug!(
                target: "stile::http",
                kind = ?error.kind(),
                "a TLS handshake failed"
            ),
            Err(_) => {
                tracing::debug!(target: "stile::http", "a TLS handshake took too long");
            }
        }
    }

    async fn serve_routes(self, stream: impl AsyncRead + AsyncWrite + Unpin, scheme: Scheme) {
        let peer = ConnectedPeer { address: self.address, scheme };
        let (edge, state) = (Arc::clone(&self.edge), Arc::clone(&self.state));
        let stop = self.stop.clone();
        let answer = move |request| {
            let answer = Arc::clone(&edge).answer(Arc::clone(&state), peer.clone(), request);
            let stop = stop.clone();
            async move {
                let response = answer.await?;
                // A server that stops answers nothing more on this connection.
                Ok(match stop.is_cancelled() {
                    true => responses::closing(response),
                    false => response,
                })
            }
        };
        self.serve(stream, answer).await;
    }

    /// Answers plain text where TLS is spoken.
    async fn serve_refusals(self, stream: TcpStream) {
        let state = Arc::clone(&self.state);
        let answer = move |_: http::Request<Incoming>| {
            // The head was judged, but the answer is the same.
            let _ = state.next_verdict();
            let refusal = responses::plain(
                StatusCode::BAD_REQUEST,
                "https_only",
                "this port speaks https; nothing was done. If a token was sent, it passed as \
                 plain text: the owner should revoke it",
            );
            std::future::ready(Ok(responses::closing(refusal)))
        };
        self.serve(stream, answer).await;
    }

    async fn serve<F>(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        answer: impl Fn(http::Request<Incoming>) -> F,
    ) where
        F: Future<Output = Result<Response, Infallible>>,
    {
        let Self { state, timeouts, stop, .. } = self;
        let io = TokioIo::new(BoundedStream::new(stream, Arc::clone(&state), timeouts));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // `BoundedStream` times heads and lets a connection idle longer than a head may take.
            .header_read_timeout(None)
            .max_header_size(request_head::MAX_READ_HEAD_BYTES)
            .serve_connection(io, service_fn(answer));
        let mut connection = std::pin::pin!(connection);
        let outcome = tokio::select! {
            outcome = &mut connection => outcome,
            () = state.must_close() => Ok(()),
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(
                target: "stile::http",
                timeout = error.is_timeout(),
                incomplete = error.is_incomplete_message(),
                "a connection ended badly"
            );
        }
    }
}

/// What a client on a port with TLS speaks.
enum Greeting {
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
}

/// The first byte of every TLS handshake. *Source*: RFC 8446 §5.1.
const HANDSHAKE_RECORD: u8 = 22;

async fn shake_hands(stream: TcpStream, identity: &Arc<TlsIdentity>) -> io::Result<Greeting> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
        _ if first != [HANDSHAKE_RECORD] => return Ok(Greeting::Plain(stream)),
        _ => {}
    }
    let stream = identity.acceptor().await.accept(stream).await?;
    Ok(Greeting::Tls(Box::new(stream)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::http::peer::DirectClients;

    /// What a client at an address reads after one request.
    async fn answer(address: [u8; 4], scheme: Scheme, headers: &str) -> String {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let edge = Edge::new(
            PeerPolicy::new(proxies, DirectClients::Refused),
            OriginPolicy::new(([127, 0, 0, 1], 1).into(), &Scheme::HTTP, None, &[], &[]),
            Router::new().fallback(|| async { "served" }),
        );
        let connection = Connection {
            edge,
            address: IpAddr::V4(Ipv4Addr::from(address)),
            state: ConnectionState::new(StrangerPlaces::new(1).take(address.into())),
            timeouts: Timeouts::default(),
            stop: CancellationToken::new(),
        };
        let (mut client, server) = tokio::io::duplex(4096);
        let request =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        tokio::join!(connection.serve_routes(server, scheme), read).1.unwrap();
        answer
    }

    #[tokio::test]
    async fn another_machine_that_is_not_the_proxy_is_refused_without_tls() {
        let forged = "X-Forwarded-Proto: https\r\nX-Forwarded-For: 10.0.0.1\r\n";
        for headers in ["", forged] {
            let refused = answer([192, 0, 2, 1], Scheme::HTTP, headers).await;
            assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
            assert!(refused.contains("not_the_proxy"), "{refused}");
        }
        for (address, scheme) in [
            ([10, 0, 0, 1], Scheme::HTTP),
            ([127, 0, 0, 1], Scheme::HTTP),
            ([192, 0, 2, 1], Scheme::HTTPS),
        ] {
            let served = answer(address, scheme, "").await;
            assert!(served.ends_with("served"), "{served}");
        }
    }
}
