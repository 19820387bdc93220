//! A resource server that is elsewhere, asked over HTTP with a token from a file.
//!
//! Requests go to the one address that is configured, byte for byte as the ladder made them. What
//! comes back is handed on as it is; what is no answer becomes an error that says so (`error_objects`).
//! Servers differ: one that does not know the parameters which shorten an answer is asked without
//! them, and that is remembered while this process lives.
//!
//! Nothing is written down. What the ladder seals is sealed with a key that is made of the token.

mod error_objects;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Requests at once. Each may hold an answer of the greatest size, so this bounds memory; more wait
/// their turn, within their own time.
const MOST_ASKS: usize = 8;
/// What shortens an answer and what only this program's own servers are sure to know. An answer
/// without them is longer and says the same.
const OPTIONAL: [&str; 3] = ["preview_chars", "preview_bytes", "cursors"];
/// The most values of an answer, nested ones included. Each takes up to a kilobyte while an answer
/// is made of it, so that 16 MiB of small ones would take gigabytes. A record of a hundred thousand
/// fields still fits.
const MAX_VALUES: usize = 150_000;
/// What the key is for, and of which generation: handles of another one do not open.
const PURPOSE: &str = "stile mcp handles 1";

/// Reads the token anew from where it is kept; none where that holds no token now.
pub type TokenReader = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A resource server at an address.
pub struct HttpRecordServer {
    outbound: OutboundClient,
    /// Its address, without a slash at the end.
    base: String,
    bounds: OutboundLimits,
    token: Mutex<Arc<str>>,
    read_token: TokenReader,
    sealer: Sealer,
    /// The endpoints, by name, that do not know [`OPTIONAL`].
    plain: Mutex<HashSet<&'static str>>,
    asks: Semaphore,
    /// Of those who read the token anew.
    reading: Arc<Semaphore>,
}

impl HttpRecordServer {
    /// The server at `base`, an address of http or https without user, query and fragment, which a
    /// path may follow. `token` is what `read_token` gives now. Nothing is asked yet.
    ///
    /// # Errors
    /// [`SealerError`].
    pub fn new(
        outbound: OutboundClient,
        base: &str,
        token: &str,
        read_token: TokenReader,
        bounds: OutboundLimits,
    ) -> Result<Self, SealerError> {
        let base = base.trim_end_matches('/').to_owned();
        // It stays this key when the token is renewed, so that handles do too.
        let sealer = Sealer::from_secret(token, &base, PURPOSE)?;
        let token = Mutex::new(token.into());
        let (plain, asks) = (Mutex::default(), Semaphore::new(MOST_ASKS));
        let reading = Arc::new(Semaphore::new(1));
        Ok(Self { outbound, base, bounds, token, read_token, sealer, plain, asks, reading })
    }

    /// Asks, and where the server does not know what shortens its answers, asks without that.
    /// All of that is over when the time is that one call has.
    async fn answer(&self, ask: ReadRequest) -> Result<String, ErrorResponse> {
        let due = Instant::now() + self.bounds.total;
        let mut plain = ask.clone();
        plain.parameters.retain(|(name, _)| !OPTIONAL.contains(&name.as_str()));
        let endpoint = ask.operation.id();
        if plain.parameters.len() == ask.parameters.len() || self.is_plain(endpoint) {
            return self.ask_once(&plain, due).await;
        }
        let first = match self.ask_once(&ask, due).await {
            Err(first)
                if error_objects::is_of_parameters(&first)
                    && !error_objects::is_of_one(&first, &plain) =>
            {
                first
            }
            other => return other,
        };
        match self.ask_once(&plain, due).await {
            Ok(answer) => {
                self.remember_plain(endpoint);
                Ok(answer)
            }
            Err(second) if error_objects::names_one(&first, &OPTIONAL) => Err(second),
            Err(second) if error_objects::is_of_parameters(&second) => Err(first),
            Err(second)
                if error_objects::says_little(&first)
                    || error_objects::is_of_what_is_there(&second) =>
            {
                Err(second)
            }
            Err(_) => Err(first),
        }
    }

    fn is_plain(&self, endpoint: &str) -> bool {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(endpoint)
    }

    fn remember_plain(&self, endpoint: &'static str) {
        tracing::debug!(
            endpoint,
            "the resource server does not know previews and cursors for each item"
        );
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint);
    }

    /// One request, and a second one where the token is refused that another program has renewed
    /// meanwhile.
    async fn ask_once(&self, ask: &ReadRequest, due: Instant) -> Result<String, ErrorResponse> {
        let token = self.token();
        let mut answered = self.exchange(ask, &token, due).await?;
        let mut shown = token;
        if answered.status == StatusCode::UNAUTHORIZED
            && let Some(renewed) = self.renewed(&shown, due).await
        {
            answered = self.exchange(ask, &renewed, due).await?;
            shown = renewed;
        }
        if answered.status != StatusCode::OK {
            return Err(error_objects::of_answer(&answered, &shown));
        }
        if values(&answered.body) > MAX_VALUES {
            return Err(too_large());
        }
        let text = String::from_utf8(answered.body).map_err(|_| error_objects::not_json())?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|_| error_objects::not_json())?;
        Ok(text)
    }

    async fn exchange(
        &self,
        ask: &ReadRequest,
        token: &str,
        due: Instant,
    ) -> Result<OutboundResponse, ErrorResponse> {
        let uri = self.uri(ask)?;
        let headers = headers(token)?;
        let turn = timeout_at(due, self.asks.acquire())
            .await
            .map_err(|_| error_objects::of_failure(OutboundError::Timeout))?;
        // Waiting for a turn is part of the time that a caller waits.
        let bounds =
            OutboundLimits { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let answered =
            self.outbound.exchange(uri, headers, bounds).await.map_err(error_objects::of_failure);
        drop(turn);
        answered
    }

    /// The address of a request. Nothing in it is resolved or encoded anew.
    fn uri(&self, ask: &ReadRequest) -> Result<Uri, ErrorResponse> {
        let (path, query) = (ask.path(), ask.query());
        let mark = if query.is_empty() { "" } else { "?" };
        // Of the parts of an address only its length can be wrong by now.
        format!("{}{path}{mark}{query}", self.base).parse().map_err(|_| error_objects::too_long())
    }

    fn token(&self) -> Arc<str> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The token that is in the file now, where it is another one and can be read in time.
    ///
    /// A file may be a pipe that nobody writes to. It is read in a thread of its own, which the end
    /// of the process does not wait for, and by one at a time.
    async fn renewed(&self, refused: &str, due: Instant) -> Option<Arc<str>> {
        let turn = timeout_at(due, Arc::clone(&self.reading).acquire_owned()).await.ok()?.ok()?;
        let current = self.token();
        if *current != *refused {
            return Some(current);
        }
        let read = Arc::clone(&self.read_token);
        let (tell, told) = oneshot::channel();
        let reading = move || {
            let token = read();
            drop(turn);
            // Whoever asked may have gone.
            let _ = tell.send(token);
        };
        std::thread::Builder::new().name("token".to_owned()).spawn(reading).ok()?;
        let token: Arc<str> = timeout_at(due, told).await.ok()?.ok()??.into();
        if *token == *refused {
            return None;
        }
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&token);
        Some(token)
    }
}

/// How many values a JSON text has at most, nested ones included, without reading them.
fn values(json: &[u8]) -> usize {
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

/// All headers but `Host`.
fn headers(token: &str) -> Result<HeaderMap, ErrorResponse> {
    let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| error_objects::of_failure(OutboundError::Unavailable))?;
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
        ask: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        self.answer(ask).boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        self.sealer
            .seal(plain)
            .map_err(|_| Problem::Internal { incident: stile_store::new_incident() }.into())
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.sealer.open(text)
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

    /// All values, counted one by one.
    fn counted(value: &Json) -> usize {
        1 + match value {
            Json::Array(items) => items.iter().map(counted).sum(),
            Json::Object(members) => members.values().map(counted).sum(),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn security_values_are_counted_whatever_texts_hold(value in json()) {
            let (guess, exact) = (values(value.to_string().as_bytes()), counted(&value));
            // An empty array or object is taken for one that has a value.
            prop_assert!(exact <= guess && guess <= 2 * exact, "{exact} {guess}");
        }
    }
}
