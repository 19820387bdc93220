//! `/mcp`: everything that is decided about a request before the SDK sees it.
//!
//! In this order: whose token it is, whether that subject may ask again so soon, whether the
//! session is theirs, and whether their scopes allow the call. A refusal for scopes is HTTP 403,
//! decided from the call's own arguments before anything is touched, with a JSON-RPC body of the
//! request's id, because that is what clients can show. What cannot be understood is answered here
//! and not passed on.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, request::Parts,
};
use serde_json::{Value, json};

use super::bearer::{self, Unauthorized};
use super::body::{self, BadBody};
use super::rate::RateLimit;
use super::sessions::{Owner, Sessions, UnderWay};
use super::streams::{Expiring, Held};
use super::{HttpOptions, answers, metadata};
use crate::auth::{Verified, Verifier};
use crate::gateway::session_factory::InvalidVaultClaim;
use crate::mcp::direct::{self, Call};
use crate::mcp::envelope::{self, Envelope};
use crate::mcp::streamable::Streamable;
use crate::service::Service;
use stile_tools::tool::Denial;
use stile_tools::toolset::Caller;

/// The header that names a session.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names a revision of the protocol.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first revision without sessions.
const FIRST_SESSIONLESS: &str = "2026-07-28";

/// The endpoint and what it decides with.
pub struct Endpoint {
    service: Service,
    verifier: Arc<dyn Verifier>,
    streamable: Streamable,
    sessions: Sessions,
    rate: Arc<RateLimit>,
    options: HttpOptions,
}

/// Who sent a request.
struct Authenticated {
    caller: Caller,
    owner: Owner,
}

/// An answer that ends a request early.
type Early = Box<Response<Body>>;

impl Endpoint {
    /// Of `service`, for the callers that `verifier` knows.
    pub fn new(
        service: Service,
        verifier: Arc<dyn Verifier>,
        streamable: Streamable,
        rate: Arc<RateLimit>,
        options: HttpOptions,
    ) -> Self {
        Self {
            sessions: Sessions::new(options.sessions_per_subject, options.session_idle),
            rate,
            service,
            verifier,
            streamable,
            options,
        }
    }

    /// Answers a request to `/mcp`.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let mut response = match self.answer_or_refuse(parts, body).await {
            Ok(response) => response,
            Err(early) => *early,
        };
        // Whoever answered: what agents are told is not to be stored on the way.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn answer_or_refuse(
        &self,
        mut parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Early> {
        let (verified, token) = self.authenticate(&parts.headers).await?;
        self.rate
            .take(verified.principal.subject(), Instant::now())
            .map_err(|wait| Box::new(answers::too_many(wait)))?;
        let caller = self
            .service
            .caller(&verified, token)
            .map_err(|InvalidVaultClaim| Box::new(answers::no_vault()))?;
        // The token ends here but for what the gateway shows to its server: what follows knows the
        // caller, and could at worst log it.
        parts.headers.remove(AUTHORIZATION);
        let caller = Authenticated { owner: Owner::of(&verified), caller };
        parts.extensions.insert(caller.caller.clone());
        let response = if parts.method == Method::POST {
            self.post(parts, body, &caller).await?
        } else {
            self.other(parts, &caller).await?
        };
        Ok(ending_with_token(response, &verified))
    }

    async fn authenticate<'a>(&self, headers: &'a HeaderMap) -> Result<(Verified, &'a str), Early> {
        bearer::authenticate(headers, self.verifier.as_ref()).await.map_err(|why| {
            Box::new(answers::unauthorized(
                &self.metadata_url(headers),
                why == Unauthorized::Invalid,
            ))
        })
    }

    fn metadata_url(&self, headers: &HeaderMap) -> String {
        metadata::metadata_url(&metadata::origin(self.options.public_url.as_deref(), headers))
    }

    /// One message.
    async fn post(
        &self,
        mut parts: Parts,
        body: Body,
        caller: &Authenticated,
    ) -> Result<Response<Body>, Early> {
        if !is_json(&parts.headers) {
            let message = "Content-Type must be application/json";
            return Err(Box::new(answers::plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                message,
            )));
        }
        let bytes = body::read(body, self.options.max_body_bytes, &self.options.timeouts)
            .await
            .map_err(bad_body)?;
        let message = Envelope::parse(&bytes).map_err(|malformed| {
            Box::new(answers::json(StatusCode::BAD_REQUEST, &malformed.to_json()))
        })?;
        if has_no_session(&message, &parts.headers) {
            parts.headers.remove(SESSION_ID);
        }
        let session = self.enter(&parts.headers, &caller.owner)?;
        self.ask(&message, &parts.headers, &caller.caller)?;
        let under_way = self.begin(session.as_deref(), &message)?;
        if let Some(call) = Call::of(&message, &parts.headers)
            && let Some((status, text)) = direct::answer(call, &self.service, &caller.caller).await
        {
            return Ok(answers::json_text(status, text));
        }
        let response = self.streamable.answer(Request::from_parts(parts, bytes)).await;
        let response = match response.status() {
            // What the SDK cannot read as a message although it is JSON of the right shape.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => not_a_message(&message),
            StatusCode::NOT_FOUND => {
                self.forget_vanished(session.as_deref(), &message);
                response
            }
            _ => {
                self.remember_opened(&message, response.headers(), &caller.owner).await;
                response
            }
        };
        Ok(response.map(|body| Held::body(body, under_way)))
    }

    /// A stream that listens (GET), the end of a session (DELETE), or a method that there is not.
    async fn other(
        &self,
        mut parts: Parts,
        caller: &Authenticated,
    ) -> Result<Response<Body>, Early> {
        if names_sessionless(&parts.headers) {
            parts.headers.remove(SESSION_ID);
        }
        let session = self.enter(&parts.headers, &caller.owner)?;
        let deletes = parts.method == Method::DELETE;
        let mut response = self.streamable.answer(Request::from_parts(parts, Bytes::new())).await;
        let deleted = deletes && response.status() == StatusCode::ACCEPTED;
        if let Some(session) = &session
            && (deleted || response.status() == StatusCode::NOT_FOUND)
        {
            self.sessions.forget(session);
        }
        if deleted {
            // Nothing is left to be done, and clients take 202 for a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        Ok(response)
    }

    /// The session of a request, if it names one and it is the caller's.
    fn enter(&self, headers: &HeaderMap, owner: &Owner) -> Result<Option<String>, Early> {
        let mut named = headers.get_all(SESSION_ID).iter();
        let session = match (named.next(), named.next()) {
            (None, _) => return Ok(None),
            (Some(session), None) => session.to_str().unwrap_or_default(),
            (Some(_), Some(_)) => "",
        };
        if self.sessions.enter(session, owner, Instant::now()) {
            Ok(Some(session.to_owned()))
        } else {
            Err(Box::new(answers::no_such_session()))
        }
    }

    /// Refuses a call that the scopes do not allow.
    fn ask(&self, message: &Envelope, headers: &HeaderMap, caller: &Caller) -> Result<(), Early> {
        if !message.is_request() {
            return Ok(());
        }
        let text = |name| message.param(name).and_then(Value::as_str);
        let refusal = match message.method() {
            Some("tools/call") => text("name").and_then(|name| {
                let arguments = message.param("arguments").unwrap_or(&Value::Null);
                self.service.ask(name, arguments, caller).err()
            }),
            Some("resources/read") => {
                text("uri").and_then(|uri| self.service.ask_resource(uri, caller).err())
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => {
                Err(Box::new(forbidden(message, &refusal, &self.metadata_url(headers))))
            }
            None => Ok(()),
        }
    }

    fn begin(&self, session: Option<&str>, message: &Envelope) -> Result<Option<UnderWay>, Early> {
        let (Some(session), true, Some(id)) = (session, message.is_request(), message.id()) else {
            return Ok(None);
        };
        self.sessions.begin(session, id).map(Some).ok_or_else(|| {
            let text = "a request with this `id` is still being answered in this session";
            let body = envelope::error(Some(id), envelope::INVALID_REQUEST, text, None);
            Box::new(answers::json(StatusCode::BAD_REQUEST, &body))
        })
    }

    /// The SDK has closed a session by itself. (A 404 without a session is a method that there is
    /// not.)
    fn forget_vanished(&self, session: Option<&str>, message: &Envelope) {
        if let Some(session) = session
            && !message.is_sessionless()
        {
            self.sessions.forget(session);
        }
    }

    async fn remember_opened(&self, message: &Envelope, answered: &HeaderMap, owner: &Owner) {
        let opened = answered.get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(id) = opened
            && message.method() == Some("initialize")
        {
            for closed in self.sessions.open(id, owner.clone(), Instant::now()) {
                self.streamable.close(&closed).await;
            }
        }
    }
}

/// Whether a session named in the headers is to be ignored. A request says itself which lifecycle
/// it belongs to. Other messages cannot, and the SDK goes by their header, so it may; without a
/// session they reach nobody else's.
fn has_no_session(message: &Envelope, headers: &HeaderMap) -> bool {
    message.is_sessionless() || (!message.is_request() && names_sessionless(headers))
}

/// Whether the header names a revision without sessions. Revisions are dates and sort as text.
fn names_sessionless(headers: &HeaderMap) -> bool {
    headers
        .get(PROTOCOL_VERSION)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= FIRST_SESSIONLESS)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let essence = value.split_once(';').map_or(value, |(essence, _)| essence);
        essence.trim().eq_ignore_ascii_case("application/json")
    })
}

fn bad_body(why: BadBody) -> Early {
    let (status, code, message) = match why {
        BadBody::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the request is too large; make a large file with several `text.append`",
        ),
        BadBody::Stalled => {
            (StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")
        }
        BadBody::Broken => {
            (StatusCode::BAD_REQUEST, "bad_request", "the body did not arrive whole")
        }
    };
    Box::new(answers::closing(answers::plain(status, code, message)))
}

fn forbidden(message: &Envelope, denial: &Denial, metadata_url: &str) -> Response<Body> {
    let data = json!({ "code": denial.code, "requiredScopes": denial.scopes });
    let body =
        envelope::error(message.id(), envelope::INSUFFICIENT_SCOPE, &denial.message, Some(data));
    answers::insufficient_scope(metadata_url, &denial.scopes.join(" "), &body)
}

fn not_a_message(message: &Envelope) -> Response<Body> {
    let id = message.id().filter(|_| message.is_request());
    let body = envelope::error(
        id,
        envelope::INVALID_REQUEST,
        "the message is not one of the protocol's",
        None,
    );
    answers::json(StatusCode::BAD_REQUEST, &body)
}

/// An event stream does not outlive the token that it was opened with.
fn ending_with_token(response: Response<Body>, verified: &Verified) -> Response<Body> {
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if is_stream { response.map(|body| Expiring::body(body, verified.expires)) } else { response }
}
