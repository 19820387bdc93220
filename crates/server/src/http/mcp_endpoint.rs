//! `/mcp`: the checks of a request before the SDK gets it.
//!
//! In this order: the admission of the caller, the owner of the session, and the scopes for the
//! call. A refusal for scopes is HTTP 403, decided from the call's own arguments before anything is
//! read or written. Its body is JSON-RPC with the request's id, because clients can show that. A
//! request that cannot be understood is answered here and never passed on.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::body::{Body, Bytes};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, request::Parts,
};
use serde_json::{Value, json};

use super::accept::{self, Accepted};
use super::admission::{Admission, Admitted};
use super::challenge;
use super::headers::{self, RepeatedHeader};
use super::kept_sessions::NewSession;
use super::options::HttpOptions;
use super::request_body::{self, BodyError};
use super::response_body::{ExpiringBody, GuardedBody, UnansweredCall};
use super::responses;
use super::sessions::{PendingRequest, SessionOwner, Sessions};
use crate::auth::{LAST_ANSWER, VerifiedCaller};
use crate::fair_share::{Neighbour, PausedShare, Share};
use crate::mcp::client_names::spelling;
use crate::mcp::direct::{self, Call};
use crate::mcp::envelope::{self, Envelope, INITIALIZE};
use crate::mcp::handshake;
use crate::mcp::list_changes::ListListener;
use crate::mcp::presentation::{BadQuery, Presentation};
use crate::mcp::progress::JsonOnly;
use crate::mcp::revisions::FIRST_SESSIONLESS;
use crate::mcp::streamable::Streamable;
use crate::mcp::subscriptions::{OpenStream, Subscriptions, TokenExpiry};
use crate::people::{Person, Unavailable};
use crate::service::Service;
use stile_store::space::ThreadShare;
use stile_tools::tool::Denial;
use stile_tools::toolset::Caller;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The header that names a session.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names a revision of the protocol.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The request of the sessionless lifecycle that subscribes.
const LISTEN: &str = "subscriptions/listen";

/// The endpoint of MCP.
pub struct McpEndpoint {
    /// What every caller is offered who has no service of their own.
    everybody: Arc<Person>,
    admission: Arc<Admission>,
    streamable: Streamable,
    subscriptions: Arc<Subscriptions>,
    sessions: Sessions,
    options: HttpOptions,
}

/// The caller of a request, as the served tools and as the sessions know it.
struct Requester {
    caller: Caller,
    owner: SessionOwner,
    neighbour: Neighbour,
    person: Arc<Person>,
    /// When the token expires.
    expires: SystemTime,
}

/// The shares that a call holds until it ends: the bytes of its body, and what its tool works with.
type HeldShares = Arc<(Share, Option<Share>, Option<Arc<PausedShare>>)>;

type EarlyResponse = Box<Response<Body>>;

/// Marks the response to a request that lasts until the client ends it.
#[derive(Clone, Copy)]
struct LongRequest;

/// Marks the response to a request, with the id of the request.
#[derive(Clone)]
struct AnswersRequest(Value);

impl McpEndpoint {
    /// Serves `service` to callers that `admission` admits.
    pub fn new(
        service: Service,
        admission: Arc<Admission>,
        streamable: Streamable,
        subscriptions: Arc<Subscriptions>,
        options: HttpOptions,
    ) -> Self {
        let sessions = Sessions::new(options.sessions_per_subject, options.session_idle)
            .kept_by(options.kept_sessions.clone());
        let everybody = Arc::new(Person { service, owned: None, space: None, stays_open: true });
        Self { everybody, admission, streamable, subscriptions, sessions, options }
    }

    /// Answers a request to `/mcp`.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let mut response = match self.answer_or_refuse(parts, body).await {
            Ok(response) => response,
            Err(early) => *early,
        };
        // No cache may store what agents receive.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn answer_or_refuse(
        &self,
        mut parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, EarlyResponse> {
        let Admitted { caller: verified, token, neighbour, call } =
            self.admission.admit(&parts).await.map_err(|why| {
                let metadata_url = self.admission.metadata_url(&parts);
                // In the gateway, roles decide instead of scopes.
                let scope = self.everybody.service.space().map(|_| challenge::LEAST_SCOPE);
                Box::new(challenge::not_admitted(&metadata_url, scope, why))
            })?;
        let person = self.person(&verified)?;
        let caller = person
            .service
            .caller(&verified, token)
            .map_err(|refused| Box::new(responses::vault_refused(refused)))?;
        // Only the gateway keeps the token, to send it to its server. The code that follows knows
        // the caller and cannot log the token.
        parts.headers.remove(AUTHORIZATION);
        self.read_carried_session(&mut parts.headers);
        let cancellation = caller.cancellation.clone();
        // Dropped if the client hangs up.
        let cancels = cancellation.on_drop();
        let (owner, expires) = (SessionOwner::new(&verified), verified.expires);
        let requester = Requester { owner, caller, neighbour, person, expires };
        parts.extensions.insert(requester.caller.clone());
        parts.extensions.insert(Arc::clone(&requester.person));
        parts.extensions.insert(TokenExpiry(verified.accepted_until()));
        let ended = CancellationToken::new();
        let mut unanswered = None;
        let response = if parts.method == Method::POST {
            let response = self.post(parts, body, requester).await?;
            // A subscription lasts as an event stream does, and is no call.
            let call = response.extensions().get::<LongRequest>().is_none().then_some(call);
            unanswered = response.extensions().get::<AnswersRequest>().map(|AnswersRequest(id)| {
                let last_event = format!("data: {}\n\n", envelope::ended(Some(id))).into();
                UnansweredCall { cancellation, last_event }
            });
            response.map(|body| GuardedBody::wrap(body, (call, cancels)))
        } else {
            // An event stream may last for hours; its connection is counted instead.
            self.get_or_delete(parts, &requester, ended.clone()).await?
        };
        Ok(self.ending_with_token(response, verified, ended, unanswered))
    }

    /// Returns what the caller is offered: a service of their own, or the one that all have.
    fn person(&self, verified: &VerifiedCaller) -> Result<Arc<Person>, EarlyResponse> {
        let Some(people) = &self.options.people else { return Ok(Arc::clone(&self.everybody)) };
        let subject = verified.principal.subject();
        people.of(subject).map_err(|Unavailable| Box::new(responses::person_unavailable()))
    }

    /// Ends an event stream when its token ends, by time or because the owner revoked it, and when
    /// its session has `ended`. A call ends also where its token allows less than before.
    fn ending_with_token(
        &self,
        response: Response<Body>,
        verified: VerifiedCaller,
        ended: CancellationToken,
        call: Option<UnansweredCall>,
    ) -> Response<Body> {
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            return response;
        }
        let until = verified.accepted_until();
        let VerifiedCaller { principal, .. } = verified;
        let admission = Arc::clone(&self.admission);
        let is_long = call.is_none() || response.extensions().get::<LongRequest>().is_some();
        let is_revoked = move || match is_long {
            true => ended.is_cancelled() || admission.current(&principal).is_none(),
            false => admission.is_revoked(&principal),
        };
        response.map(|body| ExpiringBody::wrap(body, until, is_revoked, call))
    }

    /// Reads a message, and the bytes of it for the SDK, which must read what is checked here.
    async fn read_message(
        &self,
        body: Body,
        held: &mut Share,
    ) -> Result<(Envelope, Bytes), EarlyResponse> {
        let HttpOptions { max_body_bytes, timeouts, .. } = &self.options;
        let read = request_body::read(body, *max_body_bytes, timeouts, held).await;
        let bytes = read.map_err(bad_body)?;
        let message = Envelope::parse(&bytes).map_err(|malformed| {
            Box::new(responses::json(StatusCode::BAD_REQUEST, &malformed.to_json()))
        })?;
        let bytes = match message.is_rewritten() {
            true => Bytes::from(message.clone().into_value().to_string()),
            false => bytes,
        };
        Ok((message, bytes))
    }

    /// Answers a POST, which carries one message.
    async fn post(
        &self,
        mut parts: Parts,
        body: Body,
        requester: Requester,
    ) -> Result<Response<Body>, EarlyResponse> {
        if !is_json(&parts.headers) {
            let message = "Content-Type must be application/json";
            return Err(Box::new(responses::plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                message,
            )));
        }
        let query = parts.uri.query().unwrap_or_default();
        let presentation = self.options.presentation.with_query(query).map_err(bad_query)?;
        let shares = self.admission.shares();
        let mut held = shares
            .body_bytes
            .try_take(&requester.neighbour, 0)
            .map_err(responses::share_used_up)?;
        let (message, bytes) = self.read_message(body, &mut held).await?;
        if !check_form(&message, &mut parts.headers)?.events {
            parts.extensions.insert(JsonOnly);
        }
        if ignores_session(&message, &parts.headers) {
            parts.headers.remove(SESSION_ID);
        }
        let session = self.enter_session(&parts.headers, &requester.owner).await?;
        let requester = self.named(requester, session.as_deref(), &message, presentation);
        self.check_scopes(&message, &parts, &requester)?;
        let pending = self.start_request(session.as_deref(), &message)?;
        // The call keeps its shares until it ends, even if its client hangs up.
        let walk = self.walk_share(&message, &requester).await?;
        let work = self.work_share(&message, &requester).await?;
        let work = work.map(|share| Arc::new(PausedShare::from(share)));
        let thread_share = work.clone().map(|share| share as Arc<dyn ThreadShare>);
        let caller = Caller { thread_share, ..requester.caller.clone() };
        let shares: HeldShares = Arc::new((held, walk, work));
        let answer = async {
            if let Some(call) = Call::of(&message, &parts.headers)
                && let Some((status, text)) = direct::answer(
                    call,
                    &requester.person.service,
                    &caller,
                    presentation.answers,
                    shares.clone(),
                )
                .await
            {
                return responses::json_text(status, text);
            }
            parts.extensions.insert(caller.clone());
            parts.extensions.insert(presentation);
            parts.extensions.insert(shares);
            // A call of a tool may have begun.
            let again = session.as_deref().filter(|_| message.method() != Some("tools/call"));
            self.streamable.answer(Request::from_parts(parts, bytes), again).await
        };
        let mut response = self.while_allowed(&message, &caller, answer).await;
        if let Some(id) = message.id().filter(|_| message.is_request()) {
            response.extensions_mut().insert(AnswersRequest(id.clone()));
        }
        if message.method() == Some(LISTEN) {
            response.extensions_mut().insert(LongRequest);
        }
        let response =
            self.follow_session(response, session.as_deref(), &message, &requester).await;
        Ok(response.map(|body| GuardedBody::wrap(body, pending)))
    }

    /// Adds to a requester what the client of the message calls itself, and which names of tools
    /// the client is told.
    fn named(
        &self,
        mut requester: Requester,
        session: Option<&str>,
        message: &Envelope,
        presentation: Presentation,
    ) -> Requester {
        let session_client = match session {
            Some(id) => self.sessions.client(id),
            None => handshake::agreed(message).map(|(_, client)| client),
        };
        let caller = &requester.caller;
        let client = caller.principal.client();
        let spelling = spelling(presentation.names, client, session_client.as_deref());
        requester.caller.names =
            requester.person.service.told_tools(caller, spelling, presentation.groups);
        let named = session_client.as_deref().or_else(|| handshake::calls_itself(message));
        if let Some(name) = named {
            self.admission.calls_itself(&requester.caller.principal, name);
            requester.caller.principal = requester.caller.principal.named_by_itself(name);
        }
        requester
    }

    /// Records what an answer of the SDK says of sessions: one that began, or one that has ended.
    /// Answers in place of the SDK where its answer would tell a client something else.
    async fn follow_session(
        &self,
        mut response: Response<Body>,
        session: Option<&str>,
        message: &Envelope,
        requester: &Requester,
    ) -> Response<Body> {
        match response.status() {
            // JSON of the right shape that the SDK cannot read as a message.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => not_a_message(message),
            // The SDK says this of a session that ended since it was looked up here.
            StatusCode::INTERNAL_SERVER_ERROR if session.is_some() => responses::no_such_session(),
            StatusCode::NOT_FOUND => {
                self.forget_closed_session(session, message).await;
                response
            }
            _ => {
                let sent = self.record_opened_session(message, response.headers(), requester).await;
                if let Some(sent) = sent.and_then(|sent| HeaderValue::try_from(sent).ok()) {
                    response.headers_mut().insert(SESSION_ID, sent);
                }
                response
            }
        }
    }

    /// Waits for the answer to a message. If the token of the caller is revoked meanwhile, or
    /// allows less, cancels the call, and returns what it answers to that, or an error.
    async fn while_allowed(
        &self,
        message: &Envelope,
        caller: &Caller,
        answer: impl Future<Output = Response<Body>>,
    ) -> Response<Body> {
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            response = &mut answer => return response,
            () = self.admission.revoked(&caller.principal) => caller.cancellation.cancel(),
        }
        let last = tokio::time::timeout(LAST_ANSWER, answer).await;
        last.unwrap_or_else(|_| responses::json(StatusCode::OK, &envelope::ended(message.id())))
    }

    /// Answers a GET, which opens an event stream, a DELETE, which ends a session, or a method that
    /// is not supported.
    async fn get_or_delete(
        &self,
        mut parts: Parts,
        requester: &Requester,
        ended: CancellationToken,
    ) -> Result<Response<Body>, EarlyResponse> {
        if names_sessionless(&parts.headers) {
            parts.headers.remove(SESSION_ID);
        }
        if Accepted::of(&parts.headers).events {
            accept::accept_stream(&mut parts.headers);
        }
        let session = self.enter_session(&parts.headers, &requester.owner).await?;
        let is_delete = parts.method == Method::DELETE;
        let open = session
            .as_deref()
            .filter(|_| parts.method == Method::GET)
            .map(|session| self.subscriptions.stream_opened(session, &requester.caller.principal));
        let again = session.as_deref().filter(|_| parts.method == Method::GET);
        let request = Request::from_parts(parts, Bytes::new());
        let mut response = self.streamable.answer(request, again).await;
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR && session.is_some() {
            // As for a message: the session ended since it was looked up here.
            response = responses::no_such_session();
        }
        let was_deleted = is_delete && response.status() == StatusCode::ACCEPTED;
        if let Some(session) = &session
            && (was_deleted || response.status() == StatusCode::NOT_FOUND)
        {
            self.forget(session).await;
            // A request that came in between may have brought the session back.
            self.streamable.close(session).await;
        }
        if let Some((session, open)) = session.zip(open).filter(|_| response.status().is_success())
        {
            let kept =
                (self.sessions.start_stream(&session), self.streamable.keep_while_heard(&session));
            let telling = self.tell_of_lists(session, requester, &open, ended);
            response = response.map(|body| GuardedBody::wrap(body, (open, telling, kept)));
        }
        if was_deleted {
            // The session has ended, and clients treat 202 as a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        Ok(response)
    }

    /// Tells the client of a session when its lists change, until the guard is dropped.
    fn tell_of_lists(
        &self,
        session: String,
        Requester { caller, person, expires, .. }: &Requester,
        open: &OpenStream,
        ended: CancellationToken,
    ) -> DropGuard {
        let rights = Arc::clone(self.subscriptions.rights());
        let (service, caller) = (person.service.clone(), caller.clone());
        let listener = ListListener::new(service, caller, Some(*expires), rights);
        let is_open = self.sessions.is_open(&session);
        self.subscriptions.tell_of_lists(open, listener.while_open(is_open), ended)
    }

    /// Returns the session that the headers name; `None` if they name none. Refuses a session of
    /// another caller, and one that has ended. A session whose rights were narrowed goes on if its
    /// client listens here: it is told.
    async fn enter_session(
        &self,
        headers: &HeaderMap,
        owner: &SessionOwner,
    ) -> Result<Option<String>, EarlyResponse> {
        let session = match headers::single(headers, &SESSION_ID) {
            Ok(None) => return Ok(None),
            Ok(Some(session)) => session.to_str().unwrap_or_default(),
            Err(RepeatedHeader) => "",
        };
        let enter = || self.sessions.enter(session, owner, Instant::now());
        let is_entered = enter()
            || self.subscriptions.has_stream(session)
                && self.sessions.take_up(session, owner).await
                && enter();
        match is_entered {
            true => Ok(Some(session.to_owned())),
            false => Err(Box::new(responses::no_such_session())),
        }
    }

    /// Refuses a call that the scopes do not allow.
    fn check_scopes(
        &self,
        message: &Envelope,
        parts: &Parts,
        Requester { caller, person, .. }: &Requester,
    ) -> Result<(), EarlyResponse> {
        let service = &person.service;
        if !message.is_request() {
            return Ok(());
        }
        let text = |name| message.param(name).and_then(Value::as_str);
        let refusal = match message.method() {
            Some("tools/call") => text("name").and_then(|name| {
                let arguments = message.param("arguments").unwrap_or(&Value::Null);
                service.check_permits(name, arguments, caller).err()
            }),
            Some("resources/read" | "resources/subscribe") => {
                text("uri").and_then(|uri| service.check_resource(uri, caller).err())
            }
            Some(LISTEN) => {
                listened(message).find_map(|uri| service.check_resource(uri, caller).err())
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => {
                Err(Box::new(forbidden(message, &refusal, &self.admission.metadata_url(parts))))
            }
            None => Ok(()),
        }
    }

    /// Takes the caller's share of what the tools behind a message work with.
    async fn work_share(
        &self,
        message: &Envelope,
        requester: &Requester,
    ) -> Result<Option<Share>, EarlyResponse> {
        let text = |name| message.param(name).and_then(Value::as_str);
        let resource = match message.method().filter(|_| message.is_request()) {
            Some("tools/call") => {
                text("name").and_then(|name| requester.person.service.works_with(name))
            }
            Some("resources/read") => {
                text("uri").and_then(|uri| requester.person.service.resource_works_with(uri))
            }
            Some("resources/list" | "prompts/list" | "prompts/get" | "completion/complete") => {
                requester.person.service.resource_list_works_with()
            }
            _ => None,
        };
        let shared = |resource| self.admission.shares().of(resource, &requester.caller);
        let Some(shared) = resource.and_then(shared) else { return Ok(None) };
        shared.take(&requester.neighbour, 1).await.map(Some).map_err(responses::share_used_up)
    }

    /// Takes the caller's share of the searches at once, if the message leads to one.
    async fn walk_share(
        &self,
        message: &Envelope,
        requester: &Requester,
    ) -> Result<Option<Share>, EarlyResponse> {
        let service = &requester.person.service;
        let walks = match message.method().filter(|_| message.is_request()) {
            Some("tools/call") => message
                .param("name")
                .and_then(Value::as_str)
                .is_some_and(|name| service.walks(name)),
            // The files that were changed last.
            Some("resources/list") => service.space().is_some(),
            _ => false,
        };
        if !walks {
            return Ok(None);
        }
        let share = self.admission.shares().walks.take(&requester.neighbour, 1).await;
        share.map(Some).map_err(responses::share_used_up)
    }

    /// Marks a request of a session as pending. Refuses one whose id is pending already.
    fn start_request(
        &self,
        session: Option<&str>,
        message: &Envelope,
    ) -> Result<Option<PendingRequest>, EarlyResponse> {
        let (Some(session), true, Some(id)) = (session, message.is_request(), message.id()) else {
            return Ok(None);
        };
        self.sessions.start_request(session, id).map(Some).ok_or_else(|| {
            let text = "a request with this `id` is still being answered in this session";
            let body = envelope::error(Some(id), envelope::INVALID_REQUEST, text, None);
            Box::new(responses::json(StatusCode::BAD_REQUEST, &body))
        })
    }

    /// Removes a session that the SDK has closed. (A 404 without a session is an unknown method.)
    async fn forget_closed_session(&self, session: Option<&str>, message: &Envelope) {
        if let Some(session) = session
            && !message.is_sessionless()
        {
            self.forget(session).await;
        }
    }

    /// Forgets a session that has ended, with its subscriptions.
    async fn forget(&self, session: &str) {
        self.sessions.forget(session).await;
        self.subscriptions.session_ended(session);
    }

    /// Records a session that the SDK has opened, and closes the sessions that exceed the limits.
    /// Returns the identifier that the client is to send, if it is another one.
    async fn record_opened_session(
        &self,
        message: &Envelope,
        response_headers: &HeaderMap,
        requester: &Requester,
    ) -> Option<String> {
        let opened = response_headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(id) = opened
            && let Some((revision, client)) = handshake::agreed(message)
        {
            let new = NewSession {
                id: id.to_owned(),
                principal: requester.caller.principal.clone(),
                revision,
                client,
            };
            self.subscriptions.session_opened(id);
            let owner = requester.owner.clone();
            let (closed, sent) = self.sessions.open(new, owner, Instant::now()).await;
            for closed in closed {
                self.streamable.close(&closed).await;
                self.subscriptions.session_ended(&closed);
            }
            return sent;
        }
        None
    }

    /// Puts the identifier of a session in place of one that carries it.
    fn read_carried_session(&self, headers: &mut HeaderMap) {
        let Ok(Some(sent)) = headers::single(headers, &SESSION_ID) else { return };
        let read = sent.to_str().ok().and_then(|sent| self.sessions.read_carried(sent));
        if let Some(read) = read.and_then(|read| HeaderValue::try_from(read).ok()) {
            headers.insert(SESSION_ID, read);
        }
    }
}

/// Returns the addresses that a `subscriptions/listen` names.
fn listened(message: &Envelope) -> impl Iterator<Item = &str> {
    let notifications = message.param("notifications");
    let uris = notifications.and_then(|wanted| wanted.get("resourceSubscriptions"));
    uris.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Refuses an `initialize` that does not fit, and a client that does not accept the form of the
/// answer. A session answers with events, a request without one with JSON unless it subscribes.
fn check_form(message: &Envelope, headers: &mut HeaderMap) -> Result<Accepted, EarlyResponse> {
    let refused = |status, body: &Value| Err(Box::new(responses::json(status, body)));
    if let Err(misfit) = handshake::check(message) {
        return refused(StatusCode::BAD_REQUEST, &misfit.to_json());
    }
    let accepted = Accepted::of(headers);
    let is_answered_as_json = message.is_sessionless() && message.method() != Some(LISTEN);
    if message.is_request() && !(accepted.json && (accepted.events || is_answered_as_json)) {
        let text = "`Accept` must cover `application/json` and `text/event-stream`";
        let body = envelope::error(message.id(), envelope::INVALID_REQUEST, text, None);
        return refused(StatusCode::NOT_ACCEPTABLE, &body);
    }
    accept::accept_both(headers);
    Ok(accepted)
}

/// Whether a session named in the headers is ignored. A request itself says which lifecycle it
/// belongs to, and `initialize` opens a session of its own. Other messages cannot say it, and for
/// those the SDK goes by the header. Without a session they cannot reach another caller's.
fn ignores_session(message: &Envelope, headers: &HeaderMap) -> bool {
    message.is_sessionless()
        || message.method() == Some(INITIALIZE)
        || (!message.is_request() && names_sessionless(headers))
}

/// Whether the header names a revision of MCP without sessions. Revisions are dates and sort as
/// text.
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

fn bad_query(why: BadQuery) -> EarlyResponse {
    Box::new(responses::plain(StatusCode::BAD_REQUEST, "bad_request", &why.to_string()))
}

fn bad_body(why: BodyError) -> EarlyResponse {
    let (status, code, message) = match why {
        BodyError::ShareUsedUp(used_up) => return responses::share_used_up(used_up),
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the request is too large; make a large file in parts, of which each is appended",
        ),
        BodyError::Stalled => {
            (StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")
        }
        BodyError::Broken => {
            (StatusCode::BAD_REQUEST, "bad_request", "the body did not arrive completely")
        }
    };
    Box::new(responses::closing(responses::plain(status, code, message)))
}

fn forbidden(message: &Envelope, denial: &Denial, metadata_url: &str) -> Response<Body> {
    let data = json!({ "code": denial.code, "requiredScopes": denial.scopes });
    let body =
        envelope::error(message.id(), envelope::INSUFFICIENT_SCOPE, &denial.message, Some(data));
    responses::insufficient_scope(metadata_url, &denial.scopes.join(" "), &body)
}

fn not_a_message(message: &Envelope) -> Response<Body> {
    let id = message.id().filter(|_| message.is_request());
    let body = envelope::error(
        id,
        envelope::INVALID_REQUEST,
        "the message is not one of the protocol's",
        None,
    );
    responses::json(StatusCode::BAD_REQUEST, &body)
}
