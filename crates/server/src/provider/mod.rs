//! A resource server elsewhere, which answers requests about records over HTTP.
//!
//! Requests go to the one configured address, and are written as queries here and nowhere else. A
//! response is returned unchanged. `error_objects` maps everything that is not a success to an
//! error object. A server that does not know the parameters which shorten a response is asked
//! without these, and one that knows no windows of bytes is asked for its blobs (`blob_windows`).
//! That is remembered while this process lives. A window that a server does not have is cut from
//! the record (`value_windows`). The module writes no file. The key that seals handles is made from
//! the token.

mod blob_redirect;
mod blob_windows;
mod error_objects;
mod field_place;
mod value_windows;

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

use blob_windows::ByteWindowRequest;
use field_place::FieldPlace;

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
    /// Set once the server was seen to count other characters than Unicode scalar values.
    counts_otherwise: OnceLock<()>,
    /// Whether the server has windows of bytes, or blobs alone.
    has_byte_windows: OnceLock<bool>,
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
            counts_otherwise: OnceLock::new(),
            has_byte_windows: OnceLock::new(),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            token_reads: Arc::new(Semaphore::new(1)),
        })
    }

    /// Sends a request, and sends it again without what shortens the response if the server may
    /// have refused that. Both together have the time of one call.
    async fn send(&self, request: ReadRequest) -> Result<String, ErrorResponse> {
        let due = Instant::now() + self.bounds.total;
        let (reduced, endpoint) = (request.without_previews(), request.id());
        if reduced == request || lock(&self.without_optional).contains(endpoint) {
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

    /// Sends a request. Returns the JSON text of the response.
    async fn send_authorized(
        &self,
        request: &ReadRequest,
        due: Instant,
    ) -> Result<String, ErrorResponse> {
        let (path, query) = (request.path(), request.query());
        // Nothing in the request is resolved or encoded again.
        let mark = if query.is_empty() { "" } else { "?" };
        let target = format!("{path}{mark}{query}");
        let (response, token) = self.exchange(&target, None, due).await?;
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

    /// Sends a request, and sends it again if the server refuses the token and the file holds
    /// another token by then. Returns the token that the response is for.
    async fn exchange(
        &self,
        target: &str,
        range: Option<(u64, u64)>,
        due: Instant,
    ) -> Result<(OutboundResponse, Arc<str>), ErrorResponse> {
        let token = lock(&self.token).clone();
        let response = self.send_once(target, range, &token, due).await?;
        if response.status == StatusCode::UNAUTHORIZED
            && let Some(renewed) = self.renewed_token(&token, due).await
        {
            let response = self.send_once(target, range, &renewed, due).await?;
            return Ok((response, renewed));
        }
        Ok((response, token))
    }

    /// Answers a request for a window of bytes. A server that knows no such windows is asked for
    /// the blob that its record names.
    async fn send_for_bytes(&self, request: ReadRequest) -> Result<String, ErrorResponse> {
        let Some(wanted) = ByteWindowRequest::of(&request) else {
            return self.send_for_value(request).await;
        };
        let due = Instant::now() + self.bounds.total;
        let own = match self.has_byte_windows.get() {
            Some(false) => None,
            _ => Some(self.send_authorized(&request, due).await),
        };
        match &own {
            Some(Ok(window)) if blob_windows::is_byte_window(window) => {
                let _ = self.has_byte_windows.set(true);
                return own.unwrap_or_else(|| Err(error_objects::not_json()));
            }
            // Only a refusal of the request itself can be about its parameters or the path.
            Some(Err(error)) if !matches!(error.status, 400 | 403 | 404 | 422) => {
                return Err(error.clone());
            }
            Some(Err(_)) if self.has_byte_windows.get() == Some(&true) => {
                return own.unwrap_or_else(|| Err(error_objects::not_json()));
            }
            _ => {}
        }
        match self.blob_window(&wanted, due).await {
            Ok(Some(window)) => {
                let _ = self.has_byte_windows.set(false);
                Ok(window)
            }
            Ok(None) => own.unwrap_or_else(|| Err(Problem::BlobNotFound.into())),
            Err(error) => Err(error),
        }
    }

    /// Answers a request. A window that the server may have none of is cut from the record.
    async fn send_for_value(&self, request: ReadRequest) -> Result<String, ErrorResponse> {
        let due = Instant::now() + self.bounds.total;
        let own = self.send(request.clone()).await;
        let Some(place) = FieldPlace::of(&request) else { return own };
        if own.as_ref().is_ok_and(|window| value_windows::is_counted_otherwise(window)) {
            let _ = self.counts_otherwise.set(());
        }
        let is_own = match &own {
            Ok(_) => self.counts_otherwise.get().is_none(),
            Err(refused) => !value_windows::may_lack_window(refused, &place),
        };
        if is_own {
            return own;
        }
        let Ok(record) = self.send_authorized(&place.record().into(), due).await else {
            return own;
        };
        // A text that has no window is bytes, which the interface does not show as text.
        let is_text = place.json_in(&record).is_some_and(value_windows::is_text);
        if is_text && own.as_ref().is_err_and(|refused| refused.code() == "field_not_text") {
            return own;
        }
        value_windows::window(&place, &record).unwrap_or(own)
    }

    /// Returns the window of the blob that a record names. `None` if it names none, or if the
    /// server has no blobs.
    async fn blob_window(
        &self,
        wanted: &ByteWindowRequest<'_>,
        due: Instant,
    ) -> Result<Option<String>, ErrorResponse> {
        let record = self.send_authorized(&wanted.place.record().into(), due).await?;
        let Some(blob) = wanted.blob_in(&record) else { return Ok(None) };
        let target = wanted.target(&blob);
        let (response, token) = self.exchange(&target, Some(wanted.range()), due).await?;
        if blob_redirect::is_redirect(&response) {
            let next = blob_redirect::target_of(&self.base, &target, &response)
                .ok_or_else(error_objects::blob_elsewhere)?;
            let token = next.takes_token.then_some(&*token);
            let response = self.send_to(next.uri, Some(wanted.range()), token, due).await?;
            if blob_redirect::is_redirect(&response) {
                return Err(error_objects::blob_elsewhere());
            }
            let window = wanted.window(&blob, &response);
            return window.map(Some).ok_or_else(|| error_objects::no_redirected_blob(&response));
        }
        if let Some(window) = wanted.window(&blob, &response) {
            return Ok(Some(window));
        }
        if response.status.is_client_error() || response.status.is_server_error() {
            let refused = error_objects::from_response(&response, &token);
            // Any other 404 is that of a path which the server does not know.
            let has_blobs = refused.status != 404 || refused.code() == "blob_not_found";
            return if has_blobs { Err(refused) } else { Ok(None) };
        }
        Ok(None)
    }

    /// Sends a request to an address below the server's, for a range of bytes or for all.
    async fn send_once(
        &self,
        target: &str,
        range: Option<(u64, u64)>,
        token: &str,
        due: Instant,
    ) -> Result<OutboundResponse, ErrorResponse> {
        // The parts of the address were checked before, so only its length can be wrong.
        let uri: Uri = format!("{}{target}", self.base)
            .parse()
            .map_err(|_| error_objects::request_too_long())?;
        self.send_to(uri, range, Some(token), due).await
    }

    /// Sends a request to an address of the server's origin, with or without the token.
    async fn send_to(
        &self,
        uri: Uri,
        range: Option<(u64, u64)>,
        token: Option<&str>,
        due: Instant,
    ) -> Result<OutboundResponse, ErrorResponse> {
        let headers = headers(token)?;
        let permit = timeout_at(due, self.in_flight.acquire())
            .await
            .map_err(|_| error_objects::from_failure(OutboundError::Timeout))?;
        // The wait for a permit counts towards the time of the call.
        let bounds =
            OutboundLimits { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let response = match range {
            None => self.outbound.exchange(uri, headers, bounds).await,
            Some((start, count)) => {
                let body_bytes = usize::try_from(count).unwrap_or(bounds.body_bytes);
                let bounds = OutboundLimits { body_bytes, ..bounds };
                self.outbound.exchange_range(uri, headers, start, bounds).await
            }
        };
        drop(permit);
        response.map_err(error_objects::from_failure)
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
fn headers(token: Option<&str>) -> Result<HeaderMap, ErrorResponse> {
    let mut headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(concat!("stile/", env!("CARGO_PKG_VERSION")))),
    ]);
    if let Some(token) = token {
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| error_objects::from_failure(OutboundError::Unavailable))?;
        authorization.set_sensitive(true);
        headers.insert(AUTHORIZATION, authorization);
    }
    Ok(headers)
}

impl RecordServer for HttpRecordServer {
    fn send<'a>(
        &'a self,
        _: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        self.send_for_bytes(request).boxed()
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
