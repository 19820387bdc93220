//! `/v1`: a person's records over plain HTTP, as far as the token's grant goes.
//!
//! Here a request becomes a call: the token is verified, the path and the query are taken apart
//! byte by byte and decoded once (`target`), and the operation runs on a thread that may block,
//! writing its answer as it reads (`spool`). What is refused is told in one shape, with the
//! request's id, and names no address of this server.

mod blobs;
mod ingest;
mod spool;
mod target;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::calls::Call;
use stile_records::openapi;

use super::bearer::{self, Unauthorized};
use super::rate_limit::RateLimit;
use super::{Timeouts, metadata};
use crate::auth::TokenVerifier;
use crate::clock::now;
use crate::mcp::server_info;

/// Everything below it is about records.
pub const RECORDS_PATH: &str = "/v1/{*rest}";
/// Where the interface is described, for anybody.
pub const OPENAPI_PATH: &str = "/v1/openapi.json";

/// The version of the protocol that is spoken.
const VERSION: &str = "2026-04-06";
const PDPP_VERSION: HeaderName = HeaderName::from_static("pdpp-version");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Some clients read this name.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NOSNIFF: (HeaderName, &str) = (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff");

/// The routes and what they decide with.
pub struct V1 {
    services: RecordService,
    verifier: Arc<dyn TokenVerifier>,
    rate: Arc<RateLimit>,
    public_url: Option<String>,
    timeouts: Timeouts,
}

/// Why a request is not answered.
enum Refused {
    /// There is no caller.
    Unauthorized(Unauthorized),
    /// The caller asks too often.
    TooMany(Duration),
    /// Nothing has that path.
    NoPath,
    /// The path is that of an endpoint with other methods.
    Method(&'static str),
    /// The operation says so.
    Problem(Problem),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl V1 {
    /// The records of `services`, for callers that `verifier` knows.
    pub fn new(
        services: RecordService,
        verifier: Arc<dyn TokenVerifier>,
        rate: Arc<RateLimit>,
        public_url: Option<String>,
        timeouts: Timeouts,
    ) -> Self {
        Self { services, verifier, rate, public_url, timeouts }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let id = uuid::Uuid::new_v4().to_string();
        let origin = metadata::origin(self.public_url.as_deref(), request.headers());
        let response = match self.answer_or_refuse(request).await {
            Ok(response) => response,
            Err(refused) => refusal(refused, &id, &metadata::metadata_url(&origin)),
        };
        marked(response, &id)
    }

    async fn answer_or_refuse(&self, request: Request<Body>) -> Result<Response<Body>, Refused> {
        let (mut parts, body) = request.into_parts();
        let authenticated = bearer::authenticate(&parts.headers, self.verifier.as_ref()).await;
        let (verified, _) = authenticated.map_err(Refused::Unauthorized)?;
        let caller = verified.principal;
        self.rate.take(caller.subject(), std::time::Instant::now()).map_err(Refused::TooMany)?;
        // The token ends here: what follows knows the caller, and could at worst log it.
        parts.headers.remove(AUTHORIZATION);
        check_version(&parts.headers)?;
        let found = target::find(&parts.method, &parts.uri);
        let call = found.map_err(|wrong| match wrong {
            target::Wrong::NoPath => Refused::NoPath,
            target::Wrong::Method(allowed) => Refused::Method(allowed),
            target::Wrong::Problem(problem) => Refused::Problem(problem),
        })?;
        match call.endpoint.id {
            "deleteRecord" | "deleteRecords" => self.delete(caller, call).await,
            "getBlob" | "headBlob" => {
                let answer = blobs::answer(self, caller, call, &parts.method, &parts.headers);
                answer.await.map_err(Refused::Problem)
            }
            "putBlob" => blobs::take(self, caller, call, body).await.map_err(Refused::Problem),
            "ingestRecords" => {
                ingest::answer(self, caller, call, body).await.map_err(Refused::Problem)
            }
            _ => {
                let answer =
                    spool::answer(self.services.clone(), caller, call, now(), self.timeouts.stall);
                answer.await.map_err(Refused::Problem)
            }
        }
    }

    async fn delete(&self, caller: Principal, call: Call) -> Result<Response<Body>, Refused> {
        let services = self.services.clone();
        blocking(move || services.delete(&caller, now(), &call)).await?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }
}

/// The route of all of `/v1`.
pub async fn route(State(v1): State<Arc<V1>>, request: Request<Body>) -> Response<Body> {
    v1.answer(request).await
}

/// The route that describes the others.
pub async fn description() -> Response<Body> {
    let document = openapi::document(server_info::VERSION).to_string();
    marked(json_answer(StatusCode::OK, document), &uuid::Uuid::new_v4().to_string())
}

/// Runs what may block. A panic is an incident.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(run).await.unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Problem {
    let incident = stile_store::new_incident();
    tracing::error!(target: "stile::http", incident, "an operation on records panicked");
    Problem::Internal { incident }
}

/// A client that asks for another version of the protocol is told so instead of being
/// misunderstood.
fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(PDPP_VERSION) {
        Some(wanted) if wanted != VERSION => {
            Err(Problem::UnsupportedVersion { supported: VERSION })
        }
        _ => Ok(()),
    }
}

fn refusal(refused: Refused, id: &str, metadata_url: &str) -> Response<Body> {
    match refused {
        Refused::Problem(problem) => {
            let (_, status) = problem.code();
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let response = error(status, problem.to_json(), id);
            if let Problem::RangeNotSatisfiable { bytes } = problem {
                return with(response, CONTENT_RANGE, &format!("bytes */{bytes}"));
            }
            if status == StatusCode::SERVICE_UNAVAILABLE {
                with(response, RETRY_AFTER, "1")
            } else {
                response
            }
        }
        Refused::Unauthorized(why) => {
            let message = "send a valid token as `Authorization: Bearer …`; the owner makes one with `stile token`";
            let sent = if why == Unauthorized::Invalid { "error=\"invalid_token\", " } else { "" };
            let challenge = format!("Bearer {sent}resource_metadata=\"{metadata_url}\"");
            let told = told("authentication_error", "authentication_error", message);
            with(error(StatusCode::UNAUTHORIZED, told, id), WWW_AUTHENTICATE, &challenge)
        }
        Refused::TooMany(wait) => {
            let told = told(
                "rate_limit_error",
                "rate_limit_exceeded",
                "wait a moment, then send it again",
            );
            let seconds = wait.as_millis().div_ceil(1000).max(1).to_string();
            with(error(StatusCode::TOO_MANY_REQUESTS, told, id), RETRY_AFTER, &seconds)
        }
        Refused::NoPath => {
            let message = "nothing has this path; `/v1/openapi.json` lists what there is";
            error(StatusCode::NOT_FOUND, told("not_found_error", "not_found", message), id)
        }
        Refused::Method(allowed) => {
            let message = format!("this path takes {allowed}");
            let told = told("invalid_request_error", "method_not_allowed", &message);
            with(error(StatusCode::METHOD_NOT_ALLOWED, told, id), ALLOW, allowed)
        }
    }
}

fn told(kind: &str, code: &str, message: &str) -> Map<String, Value> {
    let pairs = [("type", kind), ("code", code), ("message", message)];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn error(status: StatusCode, mut error: Map<String, Value>, id: &str) -> Response<Body> {
    error.insert("request_id".to_owned(), id.into());
    json_answer(status, json!({ "error": error }).to_string())
}

fn json_answer(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What every answer says beside its body.
fn marked(response: Response<Body>, id: &str) -> Response<Body> {
    let response = with(with(response, REQUEST_ID, id), X_REQUEST_ID, id);
    let response = with(response, CACHE_CONTROL, "private, no-store");
    with(with(response, PDPP_VERSION, VERSION), NOSNIFF.0, NOSNIFF.1)
}

/// A value that is no header value is left out; all that is put here is ASCII.
fn with(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The methods of HTTP that endpoints are declared with.
fn method_name(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET => Some("get"),
        Method::HEAD => Some("head"),
        Method::POST => Some("post"),
        Method::DELETE => Some("delete"),
        _ => None,
    }
}
