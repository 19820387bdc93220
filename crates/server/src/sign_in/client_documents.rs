//! The documents at the addresses that clients have as identifiers: fetched, checked and kept in
//! memory.
//!
//! A document is fetched when somebody wants to sign in, and never while a token is made. Anybody
//! may ask for that, so the work is bounded: one fetch at a time for an address, a few at once, and
//! a rate for each source of requests and for all strangers together. What the owner asks for, and
//! the clients that the owner approved, have a rate of their own, which strangers cannot use up. A
//! document is used again without a fetch for as long as its host allows, within limits of our own;
//! so is the failure to fetch one, for a minute.
//!
//! The copy that was good last is the caller's to keep. Some hosts refuse the addresses of clouds,
//! so a fetch that fails does not end a client that is known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use stile_domain::sign_in::client_id_url::ClientIdUrl;
use stile_domain::sign_in::client_metadata::{BadClientMetadata, ClientMetadata};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::http::rate_limit::RateLimit;
use stile_domain::json::strict;

/// The shortest and the longest time that a document is used without a new fetch, whatever its host
/// says. The shortest holds for `no-store`, too: VS Code's document has it.
const KEPT_WITHIN: (Duration, Duration) =
    (Duration::from_secs(5 * 60), Duration::from_secs(24 * 60 * 60));
/// How long a document is used whose host says nothing about it.
const KEPT_BY_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// How long nothing is fetched from an address after a fetch has failed.
const PAUSE: Duration = Duration::from_secs(60);
/// The most documents in memory.
const MAX_DOCUMENTS: usize = 256;
/// The most fetches at once.
const MAX_FETCHES: usize = 4;
/// How many fetches all strangers together may start at once, and the reserve for others as many;
/// after that, one more may start in each interval.
const BURST: u32 = 20;
const INTERVAL: Duration = Duration::from_secs(3);
/// The same for one source of strangers.
const BURST_OF_SOURCE: u32 = 5;
const INTERVAL_OF_SOURCE: Duration = Duration::from_secs(12);
/// How long it is remembered whether the network reaches documents.
const REACHED_KEPT: Duration = Duration::from_secs(5 * 60);
/// The hosts of documents that many clients have. If one of these cannot be reached, the network of
/// this server is the reason. *Source*: the survey of decision 33.
const KNOWN_HOSTS: [&str; 5] = ["claude.ai", "chatgpt.com", "vscode.dev", "zed.dev", "opencode.ai"];

/// Where documents come from. An implementation limits time and size itself.
pub trait DocumentSource: Send + Sync + 'static {
    /// Fetches the document at an address.
    fn fetch<'a>(
        &'a self,
        url: &'a ClientIdUrl,
    ) -> BoxFuture<'a, Result<FetchedDocument, FetchError>>;

    /// Returns whether a host has a public address here. Connects to no host.
    fn finds<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool>;
}

/// Whose fetch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy<'a> {
    /// Somebody unknown, from this source.
    Stranger(&'a str),
    /// The owner, or a client that the owner has approved.
    Known,
}

/// A document as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedDocument {
    /// The bytes of the document.
    pub bytes: Vec<u8>,
    /// For how many seconds its host says that it may be kept.
    pub max_age: Option<u64>,
}

/// Why a document was not fetched. Repeats nothing that was received but the status, and no
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The host is unknown, does not answer, has no trusted certificate, or does not speak HTTP.
    #[error("the host of the client's document cannot be reached over HTTPS")]
    Unreachable,
    /// An address of the host is not public.
    #[error("the host of the client's document is not on the public network")]
    NotPublic,
    /// The response took too long.
    #[error("the host of the client's document did not answer in 5 s")]
    TimedOut,
    /// The response had this status instead of 200. A redirect is not followed.
    #[error("the host of the client's document answered with status {0}")]
    Status(u16),
    /// The response is not a JSON object, or says that it is something else.
    #[error("what is at the address of the client's document is not JSON")]
    NotJson,
    /// The document is longer than 64 KiB.
    #[error("the client's document is longer than 64 KiB")]
    TooLarge,
    /// Too many documents were asked for.
    #[error("too many documents of clients were asked for; try again in a minute")]
    TooMany,
}

/// Why there is no description of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The document could not be fetched. A copy from an earlier fetch may be used.
    #[error(transparent)]
    NotFetched(#[from] FetchError),
    /// The document is there and does not describe a client. No earlier copy may be used.
    #[error(transparent)]
    Refused(#[from] BadClientMetadata),
}

type Outcome = Result<Arc<ClientMetadata>, DocumentError>;

/// The documents of clients.
pub struct ClientDocuments {
    source: Box<dyn DocumentSource>,
    known: Mutex<HashMap<ClientIdUrl, Arc<tokio::sync::Mutex<Option<Known>>>>>,
    fetches: Semaphore,
    of_source: RateLimit,
    of_strangers: RateLimit,
    reserve: RateLimit,
    reached: Mutex<Option<Reached>>,
}

/// Whether the network reached documents when it was last seen.
#[derive(Clone, Copy)]
struct Reached {
    is_reached: bool,
    until: Instant,
}

/// What the last fetch of an address gave.
#[derive(Clone)]
struct Known {
    outcome: Outcome,
    until: Instant,
}

impl ClientDocuments {
    /// Documents from a source.
    pub fn new(source: impl DocumentSource) -> Self {
        Self {
            source: Box::new(source),
            known: Mutex::default(),
            fetches: Semaphore::new(MAX_FETCHES),
            of_source: RateLimit::one_in(INTERVAL_OF_SOURCE, BURST_OF_SOURCE),
            of_strangers: RateLimit::one_in(INTERVAL, BURST),
            reserve: RateLimit::one_in(INTERVAL, BURST),
            reached: Mutex::default(),
        }
    }

    /// Returns what the client at an address says about itself, from memory or newly fetched.
    ///
    /// # Errors
    /// Every [`DocumentError`].
    pub async fn look_up(&self, url: &ClientIdUrl, asked_by: AskedBy<'_>) -> Outcome {
        let entry = self.entry(url);
        // Whoever asks for the same address meanwhile waits here, and finds what was fetched.
        let mut known = entry.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return known.outcome.clone();
        }
        if !self.may_fetch(asked_by) {
            return Err(FetchError::TooMany.into());
        }
        let fetched = match self.fetches.acquire().await {
            Ok(_permit) => self.source.fetch(url).await,
            Err(_) => Err(FetchError::TooMany),
        };
        self.note_reached(url, fetched.as_ref().map(drop).map_err(|error| *error));
        let (outcome, kept) = match fetched {
            Ok(document) => match strict::parse_object(&document.bytes) {
                None => (Err(FetchError::NotJson.into()), PAUSE),
                Some(members) => match ClientMetadata::from_document(url, &members) {
                    Ok(metadata) => (Ok(Arc::new(metadata)), kept(document.max_age)),
                    Err(error) => (Err(error.into()), PAUSE),
                },
            },
            Err(error) => (Err(error.into()), PAUSE),
        };
        *known = Some(Known { outcome: outcome.clone(), until: Instant::now() + kept });
        outcome
    }

    /// Returns the entry of an address, and makes room for it.
    fn entry(&self, url: &ClientIdUrl) -> Arc<tokio::sync::Mutex<Option<Known>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_DOCUMENTS && !known.contains_key(url) {
            let now = Instant::now();
            // An entry that somebody holds is being fetched.
            let until = |entry: &Arc<tokio::sync::Mutex<Option<Known>>>| {
                entry.try_lock().ok().map(|known| known.as_ref().map_or(now, |known| known.until))
            };
            known.retain(|_, entry| until(entry).is_none_or(|until| until > now));
            let soonest = known.iter().filter_map(|(url, entry)| Some((until(entry)?, url)));
            let soonest = soonest.min().map(|(_, url)| url.clone());
            if let Some(soonest) = soonest.filter(|_| known.len() >= MAX_DOCUMENTS) {
                known.remove(&soonest);
            }
        }
        Arc::clone(known.entry(url.clone()).or_default())
    }

    /// Counts a fetch, and returns whether it may start.
    fn may_fetch(&self, asked_by: AskedBy<'_>) -> bool {
        let now = Instant::now().into_std();
        match asked_by {
            AskedBy::Known => self.reserve.take("", now).is_ok(),
            AskedBy::Stranger(source) => {
                self.of_source.take(source, now).is_ok() && self.of_strangers.take("", now).is_ok()
            }
        }
    }

    /// Returns whether the network of this server seems to reach documents. A client that learns
    /// that it does not registers instead.
    pub async fn are_reached(&self) -> bool {
        let now = Instant::now();
        let known = *self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.filter(|known| now < known.until) {
            return known.is_reached;
        }
        let is_reached = match KNOWN_HOSTS.first() {
            Some(host) => self.source.finds(host).await,
            None => true,
        };
        self.set_reached(is_reached);
        is_reached
    }

    /// Learns from a fetch whether the network reaches documents. A stranger chooses the address,
    /// so only the failure of a known host says something about the network.
    fn note_reached(&self, url: &ClientIdUrl, fetched: Result<(), FetchError>) {
        match fetched {
            Ok(()) | Err(FetchError::Status(_) | FetchError::NotJson) => self.set_reached(true),
            Err(FetchError::Unreachable | FetchError::TimedOut | FetchError::NotPublic)
                if KNOWN_HOSTS.contains(&url.host()) =>
            {
                self.set_reached(false);
            }
            Err(_) => {}
        }
    }

    fn set_reached(&self, is_reached: bool) {
        let reached = Reached { is_reached, until: Instant::now() + REACHED_KEPT };
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
    }
}

/// Returns how long a document is used without a new fetch.
fn kept(max_age: Option<u64>) -> Duration {
    let (least, most) = KEPT_WITHIN;
    max_age.map_or(KEPT_BY_DEFAULT, |seconds| Duration::from_secs(seconds).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use serde_json::json;
    use tokio::time::{advance, sleep};

    use super::*;

    /// Answers what it is told to, later, and counts.
    #[derive(Clone, Default)]
    struct Source(Arc<Inner>);

    #[derive(Default)]
    struct Inner {
        answer: Mutex<Option<Result<FetchedDocument, FetchError>>>,
        fetches: AtomicUsize,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
        lost: AtomicBool,
    }

    impl DocumentSource for Source {
        fn fetch<'a>(
            &'a self,
            url: &'a ClientIdUrl,
        ) -> BoxFuture<'a, Result<FetchedDocument, FetchError>> {
            async move {
                self.0.fetches.fetch_add(1, Ordering::SeqCst);
                let at_once = self.0.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                self.0.most_at_once.fetch_max(at_once, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                self.0.at_once.fetch_sub(1, Ordering::SeqCst);
                let answer = self.0.answer.lock().unwrap().clone();
                answer.unwrap_or_else(|| Ok(document(url.as_str(), "Claude", None)))
            }
            .boxed()
        }

        fn finds<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, bool> {
            let is_found = !self.0.lost.load(Ordering::SeqCst);
            std::future::ready(is_found).boxed()
        }
    }

    impl Source {
        fn answers(&self, answer: Result<FetchedDocument, FetchError>) {
            *self.0.answer.lock().unwrap() = Some(answer);
        }

        fn fetches(&self) -> usize {
            self.0.fetches.load(Ordering::SeqCst)
        }
    }

    fn document(client_id: &str, name: &str, max_age: Option<u64>) -> FetchedDocument {
        let document = json!({
            "client_id": client_id, "client_name": name,
            "redirect_uris": ["http://localhost/callback"],
        });
        FetchedDocument { bytes: document.to_string().into_bytes(), max_age }
    }

    fn url(path: &str) -> ClientIdUrl {
        ClientIdUrl::parse(&format!("https://client.example/{path}")).unwrap()
    }

    fn set_up() -> (Source, ClientDocuments) {
        let source = Source::default();
        (source.clone(), ClientDocuments::new(source))
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_is_fetched_again_when_its_time_is_over() {
        let minute = 60;
        for (max_age, kept) in [
            (None, 60 * minute),
            (Some(0), 5 * minute),
            (Some(10 * minute), 10 * minute),
            (Some(u64::MAX), 24 * 60 * minute),
        ] {
            let (source, documents) = set_up();
            let url = url("c.json");
            source.answers(Ok(document(url.as_str(), "Claude", max_age)));
            let first = documents.look_up(&url, AskedBy::Known).await.unwrap();
            advance(Duration::from_secs(kept - 1)).await;
            assert_eq!(documents.look_up(&url, AskedBy::Known).await, Ok(first));
            assert_eq!(source.fetches(), 1, "{max_age:?}");
            source.answers(Ok(document(url.as_str(), "Other", max_age)));
            advance(Duration::from_secs(1)).await;
            let second = documents.look_up(&url, AskedBy::Known).await.unwrap();
            assert_eq!(second.name.as_ref().unwrap().as_str(), "Other");
            assert_eq!(source.fetches(), 2, "{max_age:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_remembered_for_a_minute() {
        let (source, documents) = set_up();
        source.answers(Err(FetchError::Status(403)));
        for _ in 0..3 {
            let error = documents.look_up(&url("c.json"), AskedBy::Known).await.unwrap_err();
            assert_eq!(error, DocumentError::NotFetched(FetchError::Status(403)));
        }
        assert_eq!(source.fetches(), 1);
        source.answers(Ok(document(url("c.json").as_str(), "Claude", None)));
        advance(PAUSE).await;
        assert!(documents.look_up(&url("c.json"), AskedBy::Known).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_that_lies_is_refused_and_not_only_missing() {
        let (source, documents) = set_up();
        source.answers(Ok(document("https://claude.ai/oauth/c.json", "Claude", None)));
        let error = documents.look_up(&url("c.json"), AskedBy::Known).await.unwrap_err();
        assert_eq!(error, DocumentError::Refused(BadClientMetadata::OtherClientId));
        for (path, bytes) in [("a", "<html>"), ("b", "[]"), ("c", "{\"a\":1,\"a\":2}")] {
            source.answers(Ok(FetchedDocument { bytes: bytes.into(), max_age: None }));
            let error = documents.look_up(&url(path), AskedBy::Known).await.unwrap_err();
            assert_eq!(error, DocumentError::NotFetched(FetchError::NotJson), "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_for_one_document_cause_one_fetch() {
        let (source, documents) = set_up();
        let url = url("c.json");
        let all =
            futures::future::join_all((0..50).map(|_| documents.look_up(&url, AskedBy::Known)))
                .await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(source.fetches(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn fetches_are_bounded_at_once_and_over_time() {
        let (source, documents) = set_up();
        let urls: Vec<_> = (0..50).map(|number| url(&format!("{number}.json"))).collect();
        let all = futures::future::join_all(
            urls.iter().map(|url| documents.look_up(url, AskedBy::Known)),
        )
        .await;
        let too_many = Err(DocumentError::NotFetched(FetchError::TooMany));
        let refused = all.iter().filter(|outcome| **outcome == too_many).count();
        assert_eq!((source.fetches(), refused), (20, 30));
        assert_eq!(source.0.most_at_once.load(Ordering::SeqCst), MAX_FETCHES);
        // Five seconds have passed, in which one more became due, and one more does in the next.
        assert!(documents.look_up(&urls[49], AskedBy::Known).await.is_ok());
        assert!(documents.look_up(&urls[48], AskedBy::Known).await.is_ok());
        assert_eq!(documents.look_up(&urls[47], AskedBy::Known).await, too_many);
        advance(INTERVAL * 1000).await;
        let all = futures::future::join_all(
            urls[20..48].iter().map(|url| documents.look_up(url, AskedBy::Known)),
        );
        assert_eq!(all.await.iter().filter(|outcome| outcome.is_ok()).count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_uses_up_neither_the_fetches_of_other_strangers_nor_the_reserve() {
        let (_, documents) = set_up();
        let ask = async |source: &str, number: usize| {
            let url = url(&format!("{source}/{number}.json"));
            documents.look_up(&url, AskedBy::Stranger(source)).await.is_ok()
        };
        let mut fetched = 0;
        for number in 0..100 {
            fetched += usize::from(ask("greedy", number).await);
        }
        // Each fetch takes a second, and one more is due every twelve.
        assert!((5..=6).contains(&fetched), "{fetched}");
        assert!(ask("other", 0).await);
        // Many sources use up what strangers have, and the owner still signs a client in.
        for number in 0..100 {
            ask(&format!("source{number}"), 0).await;
        }
        assert!(!ask("late", 0).await);
        assert!(documents.look_up(&url("owner.json"), AskedBy::Known).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_network_reaches_documents_until_a_host_that_is_always_there_is_not() {
        let (source, documents) = set_up();
        assert!(documents.are_reached().await);
        source.answers(Err(FetchError::Unreachable));
        // A stranger who names a host that does not exist proves nothing.
        assert!(documents.look_up(&url("c.json"), AskedBy::Stranger("a")).await.is_err());
        assert!(documents.are_reached().await);
        let known = ClientIdUrl::parse("https://claude.ai/oauth/c.json").unwrap();
        assert!(documents.look_up(&known, AskedBy::Stranger("a")).await.is_err());
        assert!(!documents.are_reached().await);
        advance(REACHED_KEPT).await;
        assert!(documents.are_reached().await);
        advance(REACHED_KEPT).await;
        source.0.lost.store(true, Ordering::SeqCst);
        assert!(!documents.are_reached().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_who_names_many_addresses_fills_no_memory() {
        let (_, documents) = set_up();
        for number in 0..2 * MAX_DOCUMENTS {
            advance(INTERVAL).await;
            documents.look_up(&url(&format!("{number}.json")), AskedBy::Known).await.unwrap();
        }
        assert!(documents.known.lock().unwrap().len() <= MAX_DOCUMENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_its_caller_gave_up_does_not_block_the_next() {
        let (source, documents) = set_up();
        let url = url("c.json");
        let given_up =
            tokio::time::timeout(Duration::from_millis(5), documents.look_up(&url, AskedBy::Known));
        assert!(given_up.await.is_err());
        assert!(documents.look_up(&url, AskedBy::Known).await.is_ok());
        assert_eq!(source.fetches(), 2);
    }
}
