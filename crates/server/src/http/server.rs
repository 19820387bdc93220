//! Accepting connections, and stopping.
//!
//! The HTTP library's ready-made loop has no bound on connections or waits, so this is our own. To
//! stop: accept no more, let every connection finish what it is answering, wait for the calls that
//! run (bounded), then end the streams that only listen, then let go of whoever still hangs on.

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

use super::doors::Doors;
use super::edge::Edge;
use super::endpoint::Endpoint;
use super::guarded::{Guarded, Link};
use super::notes::{self, NOTES_PATH, Notes};
use super::rate::RateLimit;
use super::v1::{self, OPENAPI_PATH, RECORDS_PATH, V1};
use super::waiting::WaitingLine;
use super::{HttpOptions, Timeouts, metadata, preamble};
use crate::auth::Verifier;
use crate::mcp::handler::{CallerSource, Handler};
use crate::mcp::streamable::Streamable;
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::service::Service;

/// How long connections may take to close once nothing is left to be said on them.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long a new connection waits for the one that makes room for it.
const MAKING_ROOM: Duration = Duration::from_millis(250);
/// How long accepting rests after an error, such as too many open files.
const REST: Duration = Duration::from_millis(50);
/// Connections of those who read metrics.
const SCRAPERS: usize = 64;

/// Serves until `shutdown` completes, then stops gracefully. `on_listening` is told the address
/// once connections are accepted.
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn serve(
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn Verifier>,
    shutdown: impl Future<Output = ()>,
    on_listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(options.listen).await?;
    let address = listener.local_addr()?;
    let streams = CancellationToken::new();
    let timeouts = options.timeouts;
    let most = options.max_connections;
    let doors = Doors::new(
        address,
        options.public_url.as_deref(),
        &options.allowed_hosts,
        &options.allowed_origins,
    );
    let edge = Edge::new(doors, routes(options, service, verifier, streams.clone()));
    on_listening(address);
    Accepting::new(edge, most, timeouts).serve(listener, shutdown, streams).await;
    Ok(())
}

/// Serves `/metrics` until `shutdown` completes. Whoever can connect may read it, so it is for an
/// address of this machine alone.
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn serve_metrics(
    listen: SocketAddr,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
    on_listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let told = move || async move { ([(CONTENT_TYPE, MEDIA_TYPE)], metrics.text()) };
    let doors = Doors::new(address, None, &[], &[]);
    let edge = Edge::new(doors, Router::new().route("/metrics", get(told)));
    on_listening(address);
    Accepting::new(edge, SCRAPERS, Timeouts::default())
        .serve(listener, shutdown, CancellationToken::new())
        .await;
    Ok(())
}

/// All routes of the server.
fn routes(
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn Verifier>,
    streams: CancellationToken,
) -> Router {
    let handler = Handler::new(service.clone(), CallerSource::Request, options.tool_names);
    let streamable =
        Streamable::new(handler, options.session_idle, options.max_body_bytes, streams);
    let rate = Arc::new(RateLimit::new(options.rate_per_second, options.rate_burst));
    // A gateway has no notes of its own to give.
    let notes = service.space().map(|services| {
        let (notes, public_url) = (options.notes.clone(), options.public_url.clone());
        Arc::new(Notes::new(
            services.clone(),
            Arc::clone(&verifier),
            Arc::clone(&rate),
            notes,
            public_url,
        ))
    });
    let (has_scopes, has_records) = (notes.is_some(), service.records().is_some());
    let records = service.records().map(|services| {
        let (verifier, rate) = (Arc::clone(&verifier), Arc::clone(&rate));
        Arc::new(V1::new(
            services.clone(),
            verifier,
            rate,
            options.public_url.clone(),
            options.timeouts,
        ))
    });
    let endpoint = Arc::new(Endpoint::new(service, verifier, streamable, rate, options.clone()));
    let protected_resource = {
        let options = Arc::new(options);
        move |request: Request| async move {
            let origin = metadata::origin(options.public_url.as_deref(), request.headers());
            metadata::protected_resource(
                &origin,
                &options.authorization_servers,
                has_scopes,
                has_records,
            )
        }
    };
    let router = Router::new()
        .route(metadata::MCP_PATH, any(mcp))
        .with_state(endpoint)
        .route("/health", get(|| async { metadata::health() }))
        .route(metadata::METADATA_PATH, get(protected_resource.clone()))
        .route(metadata::METADATA_PATH_OF_ORIGIN, get(protected_resource));
    let router = match notes {
        Some(notes) => {
            router.merge(Router::new().route(NOTES_PATH, get(notes::route)).with_state(notes))
        }
        None => router,
    };
    match records {
        Some(records) => {
            let routes = Router::new().route(RECORDS_PATH, any(v1::route)).with_state(records);
            router.merge(routes).route(OPENAPI_PATH, get(v1::description))
        }
        None => router,
    }
}

async fn mcp(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.answer(request).await
}

async fn all_ended(mut connections: JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// What the loop works with.
struct Accepting {
    edge: Arc<Edge>,
    slots: Arc<Semaphore>,
    line: WaitingLine,
    stop: CancellationToken,
    timeouts: Timeouts,
}

impl Accepting {
    fn new(edge: Arc<Edge>, most_connections: usize, timeouts: Timeouts) -> Self {
        Self {
            edge,
            slots: Arc::new(Semaphore::new(most_connections.clamp(1, Semaphore::MAX_PERMITS))),
            line: WaitingLine::default(),
            stop: CancellationToken::new(),
            timeouts,
        }
    }

    /// Accepts until `shutdown` completes, then stops gracefully; `streams` ends those that only
    /// listen.
    async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
        streams: CancellationToken,
    ) {
        let connections = self.run(listener, shutdown).await;
        self.stop.cancel();
        // Those that time out here are cut off below.
        let _ = timeout(self.timeouts.drain, self.edge.drained()).await;
        streams.cancel();
        let _ = timeout(GOODBYE, all_ended(connections)).await;
    }

    /// Accepts until `shutdown` completes; returns the connections that are open then.
    async fn run(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> JoinSet<()> {
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
                        tracing::warn!(target: "stile::http", kind = ?error.kind(), "could not accept a connection");
                        tokio::time::sleep(REST).await;
                    }
                },
            }
        }
    }

    /// Takes a connection in, if there is room or room can be made.
    async fn admit(&self, stream: TcpStream, connections: &mut JoinSet<()>) {
        // Without this, the second piece of every event stream waits 40 ms for the client's kernel.
        let _ = stream.set_nodelay(true);
        let Some(slot) = self.slot().await else {
            tracing::debug!(target: "stile::http", "a connection was turned away: all are busy");
            return;
        };
        let link = Link::new(self.line.clone());
        connections.spawn(converse(
            Arc::clone(&self.edge),
            stream,
            link,
            self.timeouts,
            self.stop.clone(),
            slot,
        ));
    }

    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        if !self.line.close_first() {
            return None;
        }
        timeout(MAKING_ROOM, Arc::clone(&self.slots).acquire_owned()).await.ok()?.ok()
    }
}

/// One connection, from its first byte to its last.
async fn converse(
    edge: Arc<Edge>,
    stream: TcpStream,
    link: Arc<Link>,
    timeouts: Timeouts,
    stop: CancellationToken,
    slot: OwnedSemaphorePermit,
) {
    let service = {
        let link = Arc::clone(&link);
        service_fn(move |request| Arc::clone(&edge).answer(Arc::clone(&link), request))
    };
    let io = TokioIo::new(Guarded::new(stream, Arc::clone(&link), timeouts));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Heads are timed by `Guarded`, which lets a connection idle longer than a head may take.
        .header_read_timeout(None)
        .max_header_size(preamble::MAX_HEAD_BYTES)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        () = link.closed() => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(target: "stile::http", timeout = error.is_timeout(), incomplete = error.is_incomplete_message(), "a connection ended badly");
    }
    drop(slot);
}
