//! What every request meets, whatever it asks for.
//!
//! First the shape: what two parsers could read differently gets no further. Then who sent it here:
//! the names and pages that are known. Then the routes. Nothing that goes wrong behind here takes
//! the connection or the server down with it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use http::{Method, Request, Response, StatusCode};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::connection::ConnectionState;
use super::origin_policy::{ForeignRequest, OriginPolicy};
use super::request_head::HeadVerdict;
use super::response_body::GuardedBody;
use super::responses;

/// The outermost layer of the server, shared by all connections.
pub struct Edge {
    origin_policy: OriginPolicy,
    routes: Router,
    in_flight: watch::Sender<usize>,
}

impl Edge {
    /// Stands before `routes`.
    pub fn new(origin_policy: OriginPolicy, routes: Router) -> Arc<Self> {
        Arc::new(Self { origin_policy, routes, in_flight: watch::Sender::new(0) })
    }

    /// Completes once no request is under way but the streams that only listen.
    pub async fn drained(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.in_flight.subscribe().wait_for(|requests| *requests == 0).await;
    }

    /// Answers one request of a connection.
    pub async fn answer<B>(
        self: Arc<Self>,
        link: Arc<ConnectionState>,
        request: Request<B>,
    ) -> Result<Response<Body>, Infallible>
    where
        B: http_body::Body<Data = axum::body::Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let answering = link.answering();
        let counted = (request.method() != Method::GET).then(|| self.count());
        let verdict = link.verdict();
        let response = match self.admit(verdict, &request) {
            Ok(()) => {
                let answer = self.routes.clone().oneshot(request.map(Body::new));
                match AssertUnwindSafe(answer).catch_unwind().await {
                    Ok(Ok(response)) => response,
                    Ok(Err(never)) => match never {},
                    Err(_) => responses::internal(),
                }
            }
            Err(refused) => responses::closing(*refused),
        };
        let response =
            if verdict == HeadVerdict::Last { responses::closing(response) } else { response };
        Ok(response.map(|body| GuardedBody::body(body, (answering, counted))))
    }

    /// Whether a request gets to the routes.
    fn admit<B>(
        &self,
        verdict: HeadVerdict,
        request: &Request<B>,
    ) -> Result<(), Box<Response<Body>>> {
        let refuse =
            |status, code, message: &str| Err(Box::new(responses::plain(status, code, message)));
        if let HeadVerdict::Refuse(why) = verdict {
            return refuse(StatusCode::BAD_REQUEST, "bad_request", why);
        }
        match self.origin_policy.check(request.headers()) {
            Ok(()) => Ok(()),
            Err(ForeignRequest::Host) => refuse(
                StatusCode::FORBIDDEN,
                "foreign_host",
                "the server does not answer to this Host",
            ),
            Err(ForeignRequest::Origin) => refuse(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "pages of this Origin may not call the server",
            ),
        }
    }

    fn count(self: &Arc<Self>) -> InFlight {
        self.in_flight.send_modify(|requests| *requests += 1);
        InFlight { edge: Arc::clone(self) }
    }
}

/// A request that a shutdown waits for.
struct InFlight {
    edge: Arc<Edge>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.edge.in_flight.send_modify(|requests| *requests -= 1);
    }
}
