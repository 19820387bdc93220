//! `/v1`: a person's records over plain HTTP, within the grant of the token.
//!
//! The token is verified first. `stile_records::routing` finds the operation, which runs on a
//! thread that may block: `spool` sends what an operation writes, `request_body` passes it what a
//! client sends, and `blobs` sends bytes in parts. Every error has the same shape and the
//! identifier of its request, and names no address of this server.

mod blobs;
mod request_body;
mod spool;

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_RANGE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::operation_declaration::{
    OperationCall, OperationDeclaration, OperationHandler, RemoveHandler, StoreHandler,
};
use stile_records::operations::OPERATIONS;
use stile_records::routing::{RouteError, route as find_operation};
use stile_records::{RecordService, openapi};

use super::admission::{Admission, Admitted, NotAdmitted};
use super::challenge::{
    PROVIDER_UNAVAILABLE, TOKENS_UNAVAILABLE, unauthorized_message, with_challenge,
};
use super::options::Timeouts;
use super::response_body::GuardedBody;
use super::responses::{
    PERSON_UNAVAILABLE, WAIT, closing, json_text, with_header, with_retry_after,
};
use crate::clock;
use crate::fair_share::Neighbour;
use crate::mcp::server_info;
use crate::metrics::{CountedRequest, Metrics, Route};
use crate::people::{People, Unavailable};

/// The route of all operations on records.
pub const RECORDS_PATH: &str = "/v1/{*rest}";
/// The route of the OpenAPI document, which needs no token.
pub const OPENAPI_PATH: &str = "/v1/openapi.json";

/// The version of the protocol that this server implements.
const VERSION: &str = "2026-04-06";
/// How long a request may read the database.
pub(crate) const MAX_READ: Duration = Duration::from_secs(20);
const PDPP_VERSION: HeaderName = HeaderName::from_static("pdpp-version");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The name under which some clients look for the request's identifier.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NOSNIFF: (HeaderName, &str) = (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff");

/// The routes of `/v1` and what they depend on.
pub struct V1 {
    service: RecordService,
    people: Option<Arc<People>>,
    admission: Arc<Admission>,
    timeouts: Timeouts,
    metrics: Arc<Metrics>,
}

/// Runs an operation that takes a body: [`RecordService::store`] or [`RecordService::inspect`].
type BodyRun = fn(
    &RecordService,
    &Principal,
    Instant,
    &OperationCall<StoreHandler>,
    &mut dyn BufRead,
) -> Result<Value, Problem>;

/// The caller of a request.
struct Requester {
    principal: Principal,
    neighbour: Neighbour,
    service: RecordService,
}

enum RequestError {
    /// The caller has no valid token or sends too many requests.
    NotAdmitted(NotAdmitted),
    /// The records of the caller cannot be opened.
    NoPerson,
    /// No operation answers the request.
    Route(RouteError),
    /// The operation refuses the request.
    Problem(Problem),
}

impl From<Problem> for RequestError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl V1 {
    /// Serves the records of `service` to the callers that `admission` admits.
    pub fn new(service: RecordService, admission: Arc<Admission>, timeouts: Timeouts) -> Self {
        Self { service, people: None, admission, timeouts, metrics: Arc::default() }
    }

    /// Counts requests in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Answers each caller from records of their own, if there are such people.
    #[must_use]
    pub fn with_people(self, people: Option<Arc<People>>) -> Self {
        Self { people, ..self }
    }

    /// Returns the records of a caller.
    fn service_of(&self, caller: &Principal) -> Result<RecordService, RequestError> {
        let Some(people) = &self.people else { return Ok(self.service.clone()) };
        let person = people.of(caller.subject()).map_err(|Unavailable| RequestError::NoPerson)?;
        person.service.records().cloned().ok_or(RequestError::NoPerson)
    }

    /// Answers a request to `/v1`, with an error object if it fails.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let id = uuid::Uuid::new_v4().to_string();
        let (parts, body) = request.into_parts();
        let metadata_url = self.admission.metadata_url(&parts);
        let counted = CountedRequest::begin(Arc::clone(&self.metrics), route_of(&parts));
        let response = match self.try_answer(parts, body).await {
            Ok(response) => response,
            Err(error) => error_response(error, &id, &metadata_url),
        };
        let counted = counted.answered(response.status().as_u16());
        let response = response.map(|body| GuardedBody::wrap(body, counted));
        with_common_headers(response, &id)
    }

    async fn try_answer(
        &self,
        mut parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, RequestError> {
        let Admitted { caller, neighbour, call: in_flight, .. } =
            self.admission.admit(&parts).await.map_err(RequestError::NotAdmitted)?;
        let service = self.service_of(&caller.principal)?;
        let caller = Requester { principal: caller.principal, neighbour, service };
        // Nothing after this point needs the token, and a log could leak it.
        parts.headers.remove(AUTHORIZATION);
        check_version(&parts.headers)?;
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let (operation, target) = find_operation(OPERATIONS, parts.method.as_str(), path, query)
            .map_err(RequestError::Route)?;
        let response = match operation.handler {
            OperationHandler::Read(handler) => {
                let call = OperationCall { operation, handler, target };
                spool::answer(self, caller, call).await
            }
            OperationHandler::Remove(handler) => {
                self.remove(caller, OperationCall { operation, handler, target }).await
            }
            OperationHandler::Inspect(handler) => {
                let call = OperationCall { operation, handler, target };
                self.take_body(caller, call, body, RecordService::inspect).await
            }
            OperationHandler::Store(handler) => {
                let call = OperationCall { operation, handler, target };
                self.take_body(caller, call, body, RecordService::store).await
            }
            OperationHandler::Blob(handler) => {
                let call = OperationCall { operation, handler, target };
                blobs::answer(self, caller, call, &parts.headers).await
            }
        };
        Ok(response?.map(|body| GuardedBody::wrap(body, in_flight)))
    }

    /// Runs a function that uses the database on a thread that may block, once the caller may use a
    /// database reader. Turns a panic into an incident.
    async fn blocking<T: Send + 'static>(
        &self,
        neighbour: &Neighbour,
        run: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let reader = self.admission.shares().database_readers.take(neighbour, 1).await?;
        blocking(move || {
            let outcome = run();
            drop(reader);
            outcome
        })
        .await
    }

    async fn remove(
        &self,
        Requester { principal, neighbour, service }: Requester,
        call: OperationCall<RemoveHandler>,
    ) -> Result<Response<Body>, Problem> {
        let status = success_status(call.operation);
        let run = move || service.remove(&principal, clock::now(), &call);
        self.blocking(&neighbour, run).await?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        Ok(response)
    }

    /// Runs an operation that takes the body of its request.
    async fn take_body(
        &self,
        Requester { principal, neighbour, service }: Requester,
        call: OperationCall<StoreHandler>,
        body: Body,
        run: BodyRun,
    ) -> Result<Response<Body>, Problem> {
        let status = success_status(call.operation);
        // The thread reads the body as it arrives, so it is one of the caller's for as long.
        let thread = self.admission.shares().threads.take(&neighbour, 1).await?;
        let answer = request_body::with_reader(body, self.timeouts.stall, move |body| {
            let answer = run(&service, &principal, clock::now(), &call, body);
            drop(thread);
            answer
        });
        Ok(json_text(status, answer.await?.to_string()))
    }
}

/// Returns the declared path of a request, which has nothing of what the request asks for.
fn route_of(parts: &Parts) -> Route {
    match find_operation(OPERATIONS, parts.method.as_str(), parts.uri.path(), "") {
        Ok((operation, _)) => Route { method: operation.method.name(), path: operation.path },
        Err(_) => Route::OTHER,
    }
}

fn success_status(operation: &OperationDeclaration) -> StatusCode {
    StatusCode::from_u16(operation.response.status).unwrap_or(StatusCode::OK)
}

/// Handles requests to [`RECORDS_PATH`].
pub async fn route(State(v1): State<Arc<V1>>, request: Request<Body>) -> Response<Body> {
    v1.answer(request).await
}

/// Handles requests to [`OPENAPI_PATH`].
pub async fn description() -> Response<Body> {
    let document = openapi::document(server_info::VERSION, OPERATIONS).to_string();
    with_common_headers(json_text(StatusCode::OK, document), &uuid::Uuid::new_v4().to_string())
}

/// Runs a function on a thread that may block. Turns a panic into an incident.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(run).await.unwrap_or_else(|_| Err(panic_problem()))
}

fn panic_problem() -> Problem {
    let incident = stile_store::new_incident();
    tracing::error!(target: "stile::http", incident, "an operation on records panicked");
    Problem::Internal { incident }
}

/// Refuses a request for another version of the protocol, which this server would misunderstand.
fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(PDPP_VERSION) {
        Some(requested) if requested != VERSION => {
            Err(Problem::UnsupportedVersion { supported: VERSION })
        }
        _ => Ok(()),
    }
}

fn error_response(error: RequestError, id: &str, metadata_url: &str) -> Response<Body> {
    match error {
        RequestError::Problem(problem) | RequestError::Route(RouteError::Undecodable(problem)) => {
            let (_, status) = problem.code();
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let response = error_object(status, problem.to_json(), id);
            if let Problem::RangeNotSatisfiable { bytes } = problem {
                return with_header(response, CONTENT_RANGE, &format!("bytes */{bytes}"));
            }
            match status {
                StatusCode::SERVICE_UNAVAILABLE => with_header(response, RETRY_AFTER, "1"),
                StatusCode::TOO_MANY_REQUESTS => closing(with_header(response, RETRY_AFTER, "1")),
                _ => response,
            }
        }
        RequestError::NotAdmitted(NotAdmitted::Unauthorized(why)) => {
            let message = unauthorized_message(why);
            let error = error_members("authentication_error", "authentication_error", &message);
            let response = error_object(StatusCode::UNAUTHORIZED, error, id);
            with_challenge(response, metadata_url, None, why)
        }
        RequestError::NotAdmitted(NotAdmitted::TokensUnavailable) => {
            unavailable("tokens_unavailable", TOKENS_UNAVAILABLE, id)
        }
        RequestError::NotAdmitted(NotAdmitted::ProviderUnavailable) => {
            unavailable("provider_unavailable", PROVIDER_UNAVAILABLE, id)
        }
        RequestError::NoPerson => unavailable("space_unavailable", PERSON_UNAVAILABLE, id),
        RequestError::NotAdmitted(NotAdmitted::RateLimited(wait)) => {
            let error = error_members("rate_limit_error", "rate_limit_exceeded", WAIT);
            with_retry_after(error_object(StatusCode::TOO_MANY_REQUESTS, error, id), wait)
        }
        RequestError::NotAdmitted(NotAdmitted::ShareUsedUp(used_up)) => {
            error_response(RequestError::Problem(used_up.into()), id, metadata_url)
        }
        RequestError::Route(RouteError::UnknownPath) => {
            let message = "nothing has this path; `/v1/openapi.json` lists what there is";
            let error = error_members("not_found_error", "not_found", message);
            error_object(StatusCode::NOT_FOUND, error, id)
        }
        RequestError::Route(RouteError::MethodNotAllowed { allowed }) => {
            let message = format!("this path takes {allowed}");
            let error = error_members("invalid_request_error", "method_not_allowed", &message);
            let response = error_object(StatusCode::METHOD_NOT_ALLOWED, error, id);
            with_header(response, ALLOW, &allowed)
        }
    }
}

/// Returns 503 while a token cannot be judged.
fn unavailable(code: &str, message: &str, id: &str) -> Response<Body> {
    let error = error_members("api_error", code, message);
    with_header(error_object(StatusCode::SERVICE_UNAVAILABLE, error, id), RETRY_AFTER, "1")
}

fn error_members(kind: &str, code: &str, message: &str) -> Map<String, Value> {
    let pairs = [("type", kind), ("code", code), ("message", message)];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn error_object(status: StatusCode, mut error: Map<String, Value>, id: &str) -> Response<Body> {
    error.insert("request_id".to_owned(), id.into());
    json_text(status, json!({ "error": error }).to_string())
}

/// Adds the headers that every answer has.
fn with_common_headers(response: Response<Body>, id: &str) -> Response<Body> {
    let response = with_header(with_header(response, REQUEST_ID, id), X_REQUEST_ID, id);
    let response = with_header(response, CACHE_CONTROL, "private, no-store");
    with_header(with_header(response, PDPP_VERSION, VERSION), NOSNIFF.0, NOSNIFF.1)
}
