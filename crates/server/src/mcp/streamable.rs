//! The SDK's HTTP service, with the settings that our edge relies on.
//!
//! The edge and the endpoint check hosts, origins, callers, the owners of sessions and sizes before
//! a request gets here, so the SDK's own checks of hosts are off. The SDK keeps the sessions
//! themselves. No event store is installed: the SDK's would replay one caller's events to another.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    SessionId, SessionManager as _, SessionStore,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::handler::Handler;
use super::primed_sessions::PrimedSessions;

/// The SDK's service for MCP over HTTP, with its sessions.
pub struct Streamable {
    service: StreamableHttpService<Handler, PrimedSessions>,
    sessions: Arc<PrimedSessions>,
    session_idle: Duration,
}

impl Streamable {
    /// Creates the service. It closes sessions that get no message for `session_idle` and whose
    /// clients do not listen, and `ended`
    /// ends all streams. With `starts`, a session that another server opened goes on here.
    pub fn new(
        handler: Handler,
        session_idle: Duration,
        max_body_bytes: usize,
        ended: CancellationToken,
        starts: Option<Arc<dyn SessionStore>>,
    ) -> Self {
        let mut sessions = LocalSessionManager::default();
        // The SDK's idle timer also ends running calls, so it must be longer than any call. A
        // session that was idle for exactly the allowed time must still exist.
        sessions.session_config.keep_alive = Some(session_idle + session_idle / 10);
        let sessions = Arc::new(PrimedSessions::new(sessions));
        let mut config = StreamableHttpServerConfig::default()
            .with_cancellation_token(ended)
            .with_json_response(true)
            // `PrimedSessions` begins the streams.
            .with_sse_retry(None)
            .with_max_request_body_bytes(max_body_bytes)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        config.session_store = starts;
        let service =
            StreamableHttpService::new(move || Ok(handler.clone()), Arc::clone(&sessions), config);
        Self { service, sessions, session_idle }
    }

    /// Answers a request whose body was read and checked.
    ///
    /// The SDK answers 500 while it closes a session that was idle. Where the request changes
    /// nothing, `again` names its session: it is answered once more then, in the session as it is
    /// restored.
    pub async fn answer(&self, request: Request<Bytes>, again: Option<&str>) -> Response<Body> {
        let second = again.map(|session| (session, request.clone()));
        let first = self.service.handle(request.map(Full::new)).await.map(Body::new);
        match second {
            Some((session, request)) if first.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                self.close(session).await;
                self.service.handle(request.map(Full::new)).await.map(Body::new)
            }
            _ => first,
        }
    }

    /// Keeps a session in memory while its client listens, until the returned guard is dropped: the
    /// SDK counts messages alone.
    pub fn keep_while_heard(&self, session: &str) -> DropGuard {
        let (sessions, id) = (Arc::clone(&self.sessions), SessionId::from(session));
        let often = self.session_idle / 2;
        let end = CancellationToken::new();
        let dropped = end.clone();
        tokio::spawn(async move {
            while tokio::time::timeout(often, dropped.cancelled()).await.is_err() {
                if !sessions.touch(&id).await {
                    return;
                }
            }
        });
        end.drop_guard()
    }

    /// Closes a session and its streams.
    pub async fn close(&self, session: &str) {
        // The only error is that the session has ended already.
        let _ = self.sessions.close_session(&session.into()).await;
    }
}
