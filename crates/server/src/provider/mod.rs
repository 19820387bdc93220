//! A resource server elsewhere, which answers requests about records over HTTP.
//!
//! Requests go to the one configured address, byte for byte as the ladder made them. A response is
//! returned unchanged. `error_objects` maps everything that is not a success to an error object.
//! A server that does not know the parameters which shorten a response is asked without these. That
//! is remembered while this process lives. The module writes no file. The key that seals handles is
//! made from the token.

mod error_objects;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::de::IgnoredAny;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, RecordServer, too_large};
use stile_store::sealer::{Sealer, SealerError};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::outbound::{OutboundClient, OutboundError, OutboundLimits, OutboundResponse};

/// Requests in flight at once. Each may hold a response of the largest size, so the number bounds
/// memory. Further requests wait, within their own time.
const MAX_IN_FLIGHT: usize = 8;
/// The parameters that shorten a response. Only servers of this program are sure to know these. A
/// response without these parameters is longer and holds the same data.
const OPTIONAL_PARAMETERS: [&str; 3] = ["preview_chars", "preview_bytes", "cursors"];
/// The most JSON values of a response, nested values included. A value takes up to a kilobyte of
/// memory while the tool's answer is made, so 16 MiB of small values would take gigabytes. A record
/// of a hundred thousand fields still fits.
const MAX_VALUES: usize = 150_000;
/// The purpose and the generation of the key. A handle of another generation cannot be opened.
const KEY_PURPOSE: &str = "stile mcp handles 1";

/// Reads the token from its file again. Returns `None` if the file holds no token now.
pub type TokenReader = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A resource server at an address.
pub struct HttpRecordServer {
    outbound: OutboundClient,
    /// The server's address, without a slash at the end.
    base: String,
    bounds: OutboundLimits,
    token: Mutex<Arc<str>>,
    read_token: TokenReader,
    sealer: Sealer,
    /// The endpoints, by name, that reject [`OPTIONAL_PARAMETERS`].
    without_optional: Mutex<HashSet<&'static str>>,
    /// Whether the server finds values within fields.
    finds_inner_values: OnceLock<bool>,
    in_flight: Semaphore,
    /// Lets one caller at a time read the token again.
    token_reads: Arc<Semaphore>,
}

impl HttpRecordServer {
    /// Prepares requests to a server. The first call of a tool sends the first request.
    ///
    /// `base` is an http or https address without user, query and fragment, which a path may
    /// follow. `token` is what `read_token` returns now.
    ///
    /// # Errors
    /// [`SealerError`] if no key can be made from the token.
    pub fn new(
        outbound: OutboundClient,
        base: &str,
        token: &str,
        read_token: TokenReader,
        bounds: OutboundLimits,
    ) -> Result<Self, SealerError> {
        let base = base.trim_end_matches('/').to_owned();
        // The key stays the same when the token is renewed, so that handles stay valid.
        let sealer = Sealer::from_secret(token, &base, KEY_PURPOSE)?;
        Ok(Self {
            outbound,
            base,
            bounds,
            token: Mutex::new(token.into()),
            read_token,
            sealer,
            without_optional: Mutex::default(),
            finds_inner_values: OnceLock::new(),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            token_reads: Arc::new(Semaphore::new(1)),
        })
    }

    /// Sends a request, and sends it again without [`OPTIONAL_PARAMETERS`] if the server may have
    /// refused these. Both together have the time of one call.
    async fn send(&self, request: ReadRequest) -> Result<String, ErrorResponse> {
        let due = Instant::now() + self.bounds.total;
        let mut reduced = request.clone();
        reduced.parameters.retain(|(name, _)| !OPTIONAL_PARAMETERS.contains(&name.as_str()));
        let endpoint = request.operation.id();
        let is_reduced = reduced.parameters.len() < request.parameters.len();
        if !is_reduced || lock(&self.without_optional).contains(endpoint) {
            return self.send_authorized(&reduced, due).await;
        }
        let first = match self.send_authorized(&request, due).await {
            Err(first)
                if error_objects::may_be_about_parameters(&first)
                    && !error_objects::names_parameter_of(&first, &reduced) =>
            {
                first
            }
            other => return other,
        };
        match self.send_authorized(&reduced, due).await {
            Ok(body) => {
                self.remember_without_optional(endpoint);
                Ok(body)
            }
            Err(second) => Err(more_helpful(first, second)),
        }
    }

    fn remember_without_optional(&self, endpoint: &'static str) {
        tracing::debug!(
            endpoint,
            "the resource server does not know previews and cursors for each item"
        );
        lock(&self.without_optional).insert(endpoint);
    }

    /// Sends a request, and sends it again if the server refuses the token and the file holds
    /// another token by then. Returns the JSON text of the response.
    async fn send_authorized(
        &self,
        request: &ReadRequest,
        due: Instant,
    ) -> Result<String, ErrorResponse> {
        let mut token = lock(&self.token).clone();
        let mut response = self.send_once(request, &token, due).await?;
        if response.status == StatusCode::UNAUTHORIZED
            && let Some(renewed) = self.renewed_token(&token, due).await
        {
            response = self.send_once(request, &renewed, due).await?;
            token = renewed;
        }
        if response.status != StatusCode::OK {
            return Err(error_objects::from_response(&response, &token));
        }
        if max_values(&response.body) > MAX_VALUES {
            return Err(too_large());
        }
        let text = String::from_utf8(response.body).map_err(|_| error_objects::not_json())?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|_| error_objects::not_json())?;
        Ok(text)
    }

    async fn send_once(
        &self,
        request: &ReadRequest,
        token: &str,
        due: Instant,
    ) -> Result<OutboundResponse, ErrorResponse> {
        let uri = self.uri(request)?;
        let headers = headers(token)?;
        let permit = timeout_at(due, self.in_flight.acquire())
            .await
            .map_err(|_| error_objects::from_failure(OutboundError::Timeout))?;
        // The wait for a permit counts towards the time of the call.
        let bounds =
            OutboundLimits { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let response =
            self.outbound.exchange(uri, headers, bounds).await.map_err(error_objects::from_failure);
        drop(permit);
        response
    }

    /// Returns the address of a request. Nothing in the request is resolved or encoded again.
    fn uri(&self, request: &ReadRequest) -> Result<Uri, ErrorResponse> {
        let (path, query) = (request.path(), request.query());
        let mark = if query.is_empty() { "" } else { "?" };
        // The parts of the address were checked before, so only its length can be wrong.
        format!("{}{path}{mark}{query}", self.base)
            .parse()
            .map_err(|_| error_objects::request_too_long())
    }

    /// Returns the token that the file holds now, if it differs from the refused one and can be
    /// read in time.
    ///
    /// The file may be a pipe that nobody writes to. A thread of its own reads the file, one at a
    /// time, and the end of the process does not wait for the thread.
    async fn renewed_token(&self, refused: &str, due: Instant) -> Option<Arc<str>> {
        let permit =
            timeout_at(due, Arc::clone(&self.token_reads).acquire_owned()).await.ok()?.ok()?;
        let current = lock(&self.token).clone();
        if *current != *refused {
            return Some(current);
        }
        let read = Arc::clone(&self.read_token);
        let (sender, receiver) = oneshot::channel();
        let read_file = move || {
            let token = read();
            drop(permit);
            // The receiver is gone if the call has run out of time.
            let _ = sender.send(token);
        };
        std::thread::Builder::new().name("token".to_owned()).spawn(read_file).ok()?;
        let token: Arc<str> = timeout_at(due, receiver).await.ok()?.ok()??.into();
        if *token == *refused {
            return None;
        }
        *lock(&self.token) = Arc::clone(&token);
        Some(token)
    }
}

/// Locks a value that a panic cannot leave half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chooses the error to return: `first` came with the optional parameters, `second` without.
fn more_helpful(first: ErrorResponse, second: ErrorResponse) -> ErrorResponse {
    if error_objects::names_any(&first, &OPTIONAL_PARAMETERS) {
        return second;
    }
    let is_second = !error_objects::may_be_about_parameters(&second)
        && (error_objects::is_unspecific(&first) || error_objects::is_about_access(&second));
    if is_second { second } else { first }
}

/// Returns an upper bound for the number of values of a JSON text, nested values included, without
/// parsing the text.
fn max_values(json: &[u8]) -> usize {
    let (mut count, mut is_in_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_text,
            b'"' => is_in_text = !is_in_text,
            b',' | b'[' | b'{' if !is_in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns all headers but `Host`.
fn headers(token: &str) -> Result<HeaderMap, ErrorResponse> {
    let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| error_objects::from_failure(OutboundError::Unavailable))?;
    authorization.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (AUTHORIZATION, authorization),
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(concat!("stile/", env!("CARGO_PKG_VERSION")))),
    ]))
}

impl RecordServer for HttpRecordServer {
    fn ask<'a>(
        &'a self,
        _: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        self.send(request).boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        self.sealer
            .seal(plain)
            .map_err(|_| Problem::Internal { incident: stile_store::new_incident() }.into())
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.sealer.open(text)
    }

    fn finds_inner_values(&self) -> Option<&OnceLock<bool>> {
        Some(&self.finds_inner_values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            any::<u8>().prop_map(Json::from),
            "[a,\\[{}\"\\\\]{0,9}".prop_map(Json::from)
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
                proptest::collection::btree_map("[a-c,\"\\\\]{0,4}", inner, 0..6)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Counts all values one by one.
    fn exact_count(value: &Json) -> usize {
        1 + match value {
            Json::Array(items) => items.iter().map(exact_count).sum(),
            Json::Object(members) => members.values().map(exact_count).sum(),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn the_estimated_number_of_values_is_never_too_low(value in json()) {
            let (estimate, exact) = (max_values(value.to_string().as_bytes()), exact_count(&value));
            // An empty array or object is counted as if it had a value.
            prop_assert!(exact <= estimate && estimate <= 2 * exact, "{exact} {estimate}");
        }
    }
}
