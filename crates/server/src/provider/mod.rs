//! A resource server that is elsewhere, asked over HTTP with a token from a file.
//!
//! Requests go to the one address that is configured, byte for byte as the ladder made them. What comes back is handed
//! on as it is; what is no answer becomes an error that says so ([`refusals`]). Servers differ: one that does not know
//! the parameters which shorten an answer is asked without them, and that is remembered while this process lives.
//!
//! Nothing is written down. What the ladder seals is sealed with a key that is made of the token.

mod refusals;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_store::sealer::{CannotSeal, Sealer};
use stile_tools::ladder::port::{Ask, Declined, RecordServer};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::outbound::{Answered, Bounds, Failed, Outbound};

/// Requests at once. Each may hold an answer of the greatest size, so this bounds memory; more wait their turn,
/// within their own time.
const MOST_ASKS: usize = 8;
/// What shortens an answer and what only this program's own servers are sure to know. An answer without them is longer
/// and says the same.
const OPTIONAL: [&str; 3] = ["preview_chars", "preview_bytes", "cursors"];
/// What the key is for, and of which generation: handles of another one do not open.
const PURPOSE: &str = "stile mcp handles 1";

/// Reads the token anew from where it is kept; none where that holds no token now.
pub type ReadToken = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A resource server at an address.
pub struct Provider {
    outbound: Outbound,
    /// Its address, without a slash at the end.
    base: String,
    bounds: Bounds,
    token: Mutex<Arc<str>>,
    read_token: ReadToken,
    sealer: Sealer,
    /// The endpoints, by name, that do not know [`OPTIONAL`].
    plain: Mutex<HashSet<&'static str>>,
    asks: Semaphore,
}

impl Provider {
    /// The server at `base`, an address of http or https without user, query and fragment, which a path may follow.
    /// `token` is what `read_token` gives now. Nothing is asked yet.
    ///
    /// # Errors
    /// [`CannotSeal`].
    pub fn new(
        outbound: Outbound,
        base: &str,
        token: &str,
        read_token: ReadToken,
        bounds: Bounds,
    ) -> Result<Self, CannotSeal> {
        let base = base.trim_end_matches('/').to_owned();
        // It stays this key when the token is renewed, so that handles do too.
        let sealer = Sealer::of_secret(token, &base, PURPOSE)?;
        let token = Mutex::new(token.into());
        let (plain, asks) = (Mutex::default(), Semaphore::new(MOST_ASKS));
        Ok(Self { outbound, base, bounds, token, read_token, sealer, plain, asks })
    }

    /// Asks, and where the server does not know what shortens its answers, asks without that.
    async fn answer(&self, ask: Ask) -> Result<String, Declined> {
        let mut plain = ask.clone();
        plain.pairs.retain(|(name, _)| !OPTIONAL.contains(&name.as_str()));
        let endpoint = ask.endpoint.id;
        if plain.pairs.len() == ask.pairs.len() || self.is_plain(endpoint) {
            return self.ask_once(&plain).await;
        }
        let first = match self.ask_once(&ask).await {
            Err(first) if refusals::is_of_parameters(&first) => first,
            other => return other,
        };
        match self.ask_once(&plain).await {
            Ok(answer) => {
                self.remember_plain(endpoint);
                Ok(answer)
            }
            Err(second) if second.status == 400 && !refusals::names_one(&first, &OPTIONAL) => Err(first),
            Err(second) => Err(second),
        }
    }

    fn is_plain(&self, endpoint: &str) -> bool {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(endpoint)
    }

    fn remember_plain(&self, endpoint: &'static str) {
        tracing::debug!(endpoint, "the resource server does not know previews and cursors for each item");
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint);
    }

    /// One request, and a second one where the token is refused that another program has renewed meanwhile.
    async fn ask_once(&self, ask: &Ask) -> Result<String, Declined> {
        let token = self.token();
        let mut answered = self.exchange(ask, &token).await?;
        let mut shown = token;
        if answered.status == StatusCode::UNAUTHORIZED
            && let Some(renewed) = self.renewed(&shown).await
        {
            answered = self.exchange(ask, &renewed).await?;
            shown = renewed;
        }
        if answered.status != StatusCode::OK {
            return Err(refusals::of_answer(&answered, &shown));
        }
        let text = String::from_utf8(answered.body).map_err(|_| refusals::not_json())?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|_| refusals::not_json())?;
        Ok(text)
    }

    async fn exchange(&self, ask: &Ask, token: &str) -> Result<Answered, Declined> {
        let uri = self.uri(ask)?;
        let headers = headers(token)?;
        let due = Instant::now() + self.bounds.total;
        let turn = timeout_at(due, self.asks.acquire()).await.map_err(|_| refusals::of_failure(Failed::Timeout))?;
        // Waiting for a turn is part of the time that a caller waits.
        let bounds = Bounds { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let answered = self.outbound.exchange(uri, headers, bounds).await.map_err(refusals::of_failure);
        drop(turn);
        answered
    }

    /// The address of a request. Nothing in it is resolved or encoded anew.
    fn uri(&self, ask: &Ask) -> Result<Uri, Declined> {
        let (path, query) = (ask.path(), ask.query());
        let mark = if query.is_empty() { "" } else { "?" };
        // Of the parts of an address only its length can be wrong by now.
        format!("{}{path}{mark}{query}", self.base).parse().map_err(|_| refusals::too_long())
    }

    fn token(&self) -> Arc<str> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The token that is in the file now, where it is another one.
    async fn renewed(&self, refused: &str) -> Option<Arc<str>> {
        let read = Arc::clone(&self.read_token);
        let token: Arc<str> = tokio::task::spawn_blocking(move || read()).await.ok()??.into();
        if *token == *refused {
            return None;
        }
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&token);
        Some(token)
    }
}

/// All headers but `Host`.
fn headers(token: &str) -> Result<HeaderMap, Declined> {
    let mut authorization =
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| refusals::of_failure(Failed::Unavailable))?;
    authorization.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (AUTHORIZATION, authorization),
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(concat!("stile/", env!("CARGO_PKG_VERSION")))),
    ]))
}

impl RecordServer for Provider {
    fn ask<'a>(&'a self, _: &'a Principal, ask: Ask) -> BoxFuture<'a, Result<String, Declined>> {
        self.answer(ask).boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, Declined> {
        self.sealer.seal(plain).map_err(|_| Problem::Internal { incident: stile_store::new_incident() }.into())
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.sealer.open(text)
    }

    /// There is no journal here: the resource server has its own. What it says is not logged.
    fn tell(&self, _: &Principal, tool: &'static str, outcome: Result<(), &Map<String, Json>>) {
        tracing::debug!(tool, is_ok = outcome.is_ok(), "a call was made");
    }
}
