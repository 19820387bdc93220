//! Accepts connections, and stops gracefully.
//!
//! The HTTP library's own loop limits neither connections nor waits, so this module has one. It
//! stops in these steps: accept no more connections, let each one finish its response, wait for
//! running calls up to a limit, end the event streams, then drop the connections that are left.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use http::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::connection::{BoundedStream, ConnectionState};
use super::edge::Edge;
use super::gateway_notes::{self, GatewayNotes, NOTES_PATH};
use super::idle_connections::IdleConnections;
use super::mcp_endpoint::McpEndpoint;
use super::metadata::SupportedFeatures;
use super::options::{HttpOptions, Timeouts};
use super::origin_policy::OriginPolicy;
use super::rate_limit::RateLimit;
use super::v1::{self, OPENAPI_PATH, RECORDS_PATH, V1};
use super::{metadata, request_head};
use crate::auth::TokenVerifier;
use crate::mcp::handler::{CallerSource, Handler};
use crate::mcp::streamable::Streamable;
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::service::Service;

/// How long connections may take to close after the last response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a new connection waits for an idle one to close and make room.
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
    let origin_policy = OriginPolicy::new(
        address,
        options.public_url.as_deref(),
        &options.allowed_hosts,
        &options.allowed_origins,
    );
    let edge = Edge::new(origin_policy, routes(options, service, verifier, streams.clone()));
    on_listening(address);
    Acceptor::new(edge, max_connections, timeouts).serve(listener, shutdown, streams).await;
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
    let origin_policy = OriginPolicy::new(address, None, &[], &[]);
    let edge = Edge::new(origin_policy, Router::new().route("/metrics", get(scrape)));
    on_listening(address);
    Acceptor::new(edge, MAX_METRICS_CONNECTIONS, Timeouts::default())
        .serve(listener, shutdown, CancellationToken::new())
        .await;
    Ok(())
}

fn routes(
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn TokenVerifier>,
    streams: CancellationToken,
) -> Router {
    let handler = Handler::new(service.clone(), CallerSource::Request, options.tool_names);
    let streamable =
        Streamable::new(handler, options.session_idle, options.max_body_bytes, streams);
    let rate = RateLimit::new(options.rate_per_second, options.rate_burst);
    let shares = Arc::clone(service.shares());
    let space = service.space().cloned();
    let admission = Arc::new(Admission::new(verifier, rate, shares, options.public_url.clone()));
    // A gateway has no notes of its own.
    let notes = service.space().map(|tools| {
        let (admission, notes) = (Arc::clone(&admission), options.notes.clone());
        Arc::new(GatewayNotes::new(tools.clone(), admission, notes))
    });
    let supported =
        SupportedFeatures { scopes: notes.is_some(), records: service.records().is_some() };
    let records = service.records().map(|records| {
        Arc::new(V1::new(records.clone(), Arc::clone(&admission), options.timeouts))
    });
    let endpoint = Arc::new(McpEndpoint::new(service, admission, streamable, options.clone()));
    let protected_resource = {
        let options = Arc::new(options);
        move |request: Request| async move {
            let origin = metadata::origin(options.public_url.as_deref(), request.headers());
            metadata::protected_resource(&origin, &options.authorization_servers, supported)
        }
    };
    let mut router = Router::new()
        .route(metadata::MCP_PATH, any(mcp))
        .with_state(endpoint)
        .route("/health", get(move || metadata::health(space.clone())))
        .route(metadata::METADATA_PATH, get(protected_resource.clone()))
        .route(metadata::METADATA_PATH_OF_ORIGIN, get(protected_resource));
    if let Some(notes) = notes {
        let routes = Router::new().route(NOTES_PATH, get(gateway_notes::route)).with_state(notes);
        router = router.merge(routes);
    }
    if let Some(records) = records {
        let routes = Router::new().route(RECORDS_PATH, any(v1::route)).with_state(records);
        router = router.merge(routes).route(OPENAPI_PATH, get(v1::description));
    }
    router
}

async fn mcp(State(endpoint): State<Arc<McpEndpoint>>, request: Request) -> Response {
    endpoint.answer(request).await
}

async fn all_ended(mut connections: JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// The loop that accepts connections.
struct Acceptor {
    edge: Arc<Edge>,
    slots: Arc<Semaphore>,
    idle: IdleConnections,
    stop: CancellationToken,
    timeouts: Timeouts,
}

impl Acceptor {
    fn new(edge: Arc<Edge>, max_connections: usize, timeouts: Timeouts) -> Self {
        Self {
            edge,
            slots: Arc::new(Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            idle: IdleConnections::default(),
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
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return connections,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream, &mut connections).await,
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

    /// Serves a connection if there is room or an idle connection can be closed.
    async fn admit(&self, stream: TcpStream, connections: &mut JoinSet<()>) {
        // Without this, the second piece of every event stream waits 40 ms for the client's kernel.
        let _ = stream.set_nodelay(true);
        let Some(slot) = self.slot().await else {
            tracing::debug!(target: "stile::http", "a connection was turned away: all are busy");
            return;
        };
        let state = ConnectionState::new(self.idle.clone());
        connections.spawn(serve_connection(
            Arc::clone(&self.edge),
            stream,
            state,
            self.timeouts,
            self.stop.clone(),
            slot,
        ));
    }

    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        if !self.idle.close_longest_idle() {
            return None;
        }
        timeout(ROOM_TIMEOUT, Arc::clone(&self.slots).acquire_owned()).await.ok()?.ok()
    }
}

/// Serves one connection from its first byte to its last.
async fn serve_connection(
    edge: Arc<Edge>,
    stream: TcpStream,
    state: Arc<ConnectionState>,
    timeouts: Timeouts,
    stop: CancellationToken,
    slot: OwnedSemaphorePermit,
) {
    let service = {
        let state = Arc::clone(&state);
        service_fn(move |request| Arc::clone(&edge).answer(Arc::clone(&state), request))
    };
    let io = TokioIo::new(BoundedStream::new(stream, Arc::clone(&state), timeouts));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `BoundedStream` times heads and lets a connection idle longer than a head may take.
        .header_read_timeout(None)
        .max_header_size(request_head::MAX_HEAD_BYTES)
        .serve_connection(io, service);
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
    drop(slot);
}
