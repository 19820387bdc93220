//! The checks that every request passes before it is routed.
//!
//! A request that two parsers could read differently is refused. So is one from a foreign page or
//! for another host. A panic in a route becomes a 500 and ends neither the connection nor the
//! server.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use http::header::ORIGIN;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use maud::html;
use stile_domain::sign_in::source_network::source_network;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::accept::Accepted;
use super::connection::ConnectionState;
use super::cross_origin;
use super::origin_policy::{ForeignRequest, OriginPolicy};
use super::peer::{ConnectedPeer, PeerPolicy, PeerRefused, RequestOrigin};
use super::request_body::LeftBody;
use super::request_head::{HeadVerdict, MAX_HEAD_BYTES};
use super::response_body::GuardedBody;
use super::responses;
use super::stranger_places::WayIn;
use crate::pages::frame::PageFrame;

/// The outermost layer of the server, shared by all connections.
pub struct Edge {
    peers: PeerPolicy,
    origin_policy: OriginPolicy,
    routes: Router,
    in_flight: watch::Sender<usize>,
}

impl Edge {
    /// Checks requests for `routes`.
    pub fn new(peers: PeerPolicy, origin_policy: OriginPolicy, routes: Router) -> Arc<Self> {
        Arc::new(Self { peers, origin_policy, routes, in_flight: watch::Sender::new(0) })
    }

    /// Completes once no request is active but GET requests, which may be event streams.
    pub async fn drained(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.in_flight.subscribe().wait_for(|requests| *requests == 0).await;
    }

    /// Answers one request of a connection with `peer`.
    pub async fn answer<B>(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        peer: ConnectedPeer,
        request: Request<B>,
    ) -> Result<Response<Body>, Infallible>
    where
        B: http_body::Body<Data = axum::body::Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let active = connection.start_request();
        let mut request = request;
        request.extensions_mut().insert(Arc::clone(&connection));
        let counted = (request.method() != Method::GET).then(|| self.count());
        let verdict = connection.next_verdict();
        let origin = request.headers().get(ORIGIN).cloned();
        let checked = self.check(verdict, &peer, &request);
        let preflight = cross_origin::preflight(request.method(), request.headers());
        let response = match (checked, preflight) {
            (Ok(_), Some(answer)) => cross_origin::allow(answer, origin),
            (Ok(sender), None) => {
                connection.begin(source_network(sender.address), WayIn::of(request.uri().path()));
                request.extensions_mut().insert(sender);
                let (head, body) = request.into_parts();
                let (body, left) = LeftBody::of(Body::new(body), &connection);
                let request = Request::from_parts(head, body);
                let response = self.routes.clone().oneshot(request);
                let response = match AssertUnwindSafe(response).catch_unwind().await {
                    Ok(Ok(response)) => response,
                    Ok(Err(never)) => match never {},
                    Err(_) => responses::internal(),
                };
                let response = cross_origin::allow(response, origin);
                if left.reaches_its_end().await { response } else { responses::closing(response) }
            }
            (Err(refused), _) => responses::closing(*refused),
        };
        let response =
            if verdict == HeadVerdict::Last { responses::closing(response) } else { response };
        Ok(response.map(|body| GuardedBody::wrap(body, (active, counted))))
    }

    /// Refuses a request that must not reach the routes. Returns who sent another.
    fn check<B>(
        &self,
        verdict: HeadVerdict,
        peer: &ConnectedPeer,
        request: &Request<B>,
    ) -> Result<RequestOrigin, Box<Response<Body>>> {
        let refuse =
            |status, code, message: &str| Err(Box::new(responses::plain(status, code, message)));
        match verdict {
            HeadVerdict::Refuse(why) => return refuse(StatusCode::BAD_REQUEST, "bad_request", why),
            HeadVerdict::TooLarge => return Err(Box::new(too_large(request.headers()))),
            HeadVerdict::Keep | HeadVerdict::Last => {}
        }
        let sender = match self.peers.origin(peer, request.headers()) {
            Ok(sender) => sender,
            Err(PeerRefused::NotTheProxy) => {
                return refuse(
                    StatusCode::FORBIDDEN,
                    "not_the_proxy",
                    "the server answers other machines only through its proxy; call the \
                     proxy's address. Nothing was done. If a token was sent, it passed as plain \
                     text: the owner should revoke it",
                );
            }
            Err(PeerRefused::ForwardedHeaders) => {
                return refuse(
                    StatusCode::BAD_REQUEST,
                    "bad_request",
                    "X-Forwarded-Proto or X-Forwarded-For of the proxy has no one meaning; the \
                     operator must let the proxy replace what its clients send",
                );
            }
        };
        match self.origin_policy.check(request.headers()) {
            Ok(()) => Ok(sender),
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

/// Answers a request whose address and headers are too large: a browser with a page.
fn too_large(headers: &HeaderMap) -> Response<Body> {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let most = MAX_HEAD_BYTES / 1024;
    if Accepted::of(headers).page {
        let title = "The request is too large";
        let content = html! {
            h1 { (title) }
            p {
                "Its address and its headers have more than " (most) " KB together, so nothing was \
                 done. Most often that is cookies: all programs at one name, such as localhost, \
                 share theirs."
            }
            p {
                "Remove the cookies of this address in your browser, or open it in a private \
                 window."
            }
        };
        return PageFrame::new(title).respond(status, &content);
    }
    let message = format!(
        "the address and the headers of the request have more than {most} KiB together; nothing was \
         done. Send fewer or shorter headers, and what is long in the body"
    );
    responses::plain(status, "headers_too_large", &message)
}

/// A request that a shutdown waits for, until the value is dropped.
struct InFlight {
    edge: Arc<Edge>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.edge.in_flight.send_modify(|requests| *requests -= 1);
    }
}
