//! When keys are fetched, and which requests wait. Time stands still until a test moves it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use stile_testkit::log::Log;
use tokio::time::advance;

use super::*;
use crate::auth::MAX_KEY_SET_BYTES;
use crate::auth::samples::{Sample, document};

const MESSAGE: &[u8] = b"header.payload";

#[derive(Clone)]
enum Answer {
    With(Vec<u8>),
    After(Duration, Vec<u8>),
    Fail(KeyFetchError),
    Never,
    Panic,
}

/// A provider whose answer a test can change, and which counts the fetches.
#[derive(Clone)]
struct Provider(Arc<(Mutex<Answer>, AtomicUsize)>);

impl KeySource for Provider {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, KeyFetchError>> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.0.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Answer::With(document) => Ok(document),
                Answer::After(wait, document) => {
                    tokio::time::sleep(wait).await;
                    Ok(document)
                }
                Answer::Fail(why) => Err(why),
                Answer::Never => std::future::pending().await,
                Answer::Panic => panic!("the source is broken"),
            }
        })
    }
}

impl Provider {
    fn answers(&self, answer: Answer) {
        *self.0.0.lock().unwrap() = answer;
    }

    fn publishes(&self, samples: &[&Sample]) {
        self.answers(Answer::With(published(samples)));
    }

    fn fetches(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

fn published(samples: &[&Sample]) -> Vec<u8> {
    document(&samples.iter().map(|sample| sample.jwk()).collect::<Vec<_>>())
}

/// A provider that publishes `samples`, and the keys that come from it, not fetched yet.
fn unfetched(samples: &[&Sample]) -> (Provider, ProviderKeys) {
    let provider =
        Provider(Arc::new((Mutex::new(Answer::With(published(samples))), AtomicUsize::new(0))));
    (provider.clone(), ProviderKeys::new(provider))
}

async fn fetched(samples: &[&Sample]) -> (Provider, ProviderKeys) {
    let (provider, keys) = unfetched(samples);
    keys.refresh().await.unwrap();
    assert_eq!(provider.fetches(), 1);
    (provider, keys)
}

impl ProviderKeys {
    async fn accepts(&self, sample: &Sample) -> bool {
        self.verdict(sample).await.is_ok()
    }

    async fn verdict(&self, sample: &Sample) -> Result<(), TokenRejected> {
        let algorithm = PublicKeyAlgorithm::parse(sample.algorithm()).unwrap();
        self.verify(Some(sample.kid), algorithm, MESSAGE, &sample.signature(MESSAGE))
            .await
            .map(drop)
    }
}

/// Lets background tasks run while the clock stands still.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn known_keys_cause_no_fetch() {
    let (rsa, ec) = (Sample::rsa("rsa-1"), Sample::ec("ec"));
    let (provider, keys) = fetched(&[&rsa, &ec]).await;
    for _ in 0..100 {
        assert!(keys.accepts(&rsa).await && keys.accepts(&ec).await);
        advance(Duration::from_secs(5)).await;
    }
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_fetched_when_a_token_names_it() {
    let (old, new) = (Sample::rsa("rsa-1"), Sample::ec("new"));
    let (provider, keys) = fetched(&[&old]).await;
    provider.publishes(&[&old, &new]);
    advance(COOLDOWN).await;
    assert!(keys.accepts(&new).await);
    assert!(keys.accepts(&old).await);
    assert_eq!(provider.fetches(), 2);
    // The old key is withdrawn, and is accepted until the set is fetched again.
    provider.publishes(&[&new]);
    let newest = Sample::rsa("rsa-2");
    advance(COOLDOWN).await;
    assert!(!keys.accepts(&newest).await);
    assert!(!keys.accepts(&old).await);
    assert!(keys.accepts(&new).await);
    assert_eq!(provider.fetches(), 3);
}

#[tokio::test(start_paused = true)]
async fn key_rotation_refuses_no_valid_token() {
    let samples = ["1", "2", "3", "4"].map(Sample::ec);
    let (provider, keys) = fetched(&[&samples[0]]).await;
    for pair in samples.windows(2) {
        provider.answers(Answer::After(Duration::from_secs(1), published(&[&pair[0], &pair[1]])));
        advance(COOLDOWN).await;
        let verdicts = (0..50).map(|turn| keys.accepts(&pair[turn % 2]));
        assert!(join_all(verdicts).await.into_iter().all(|accepted| accepted));
    }
    assert_eq!(provider.fetches(), samples.len());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_with_unknown_keys_cause_one_fetch() {
    let known = Sample::ec("known");
    let (provider, keys) = fetched(&[&known]).await;
    advance(COOLDOWN).await;
    provider.answers(Answer::After(Duration::from_secs(2), published(&[&known])));
    let storm = |names: std::ops::Range<usize>| {
        let keys = keys.clone();
        join_all(names.map(move |name| {
            let keys = keys.clone();
            async move {
                keys.verify(Some(&name.to_string()), PublicKeyAlgorithm::Es256, MESSAGE, &[1; 64])
                    .await
            }
        }))
    };
    let began = Instant::now();
    let verdicts = storm(0..1000).await;
    assert!(
        verdicts
            .iter()
            .all(|verdict| *verdict == Err(TokenRejected("the identity provider has no such key")))
    );
    assert_eq!(
        (provider.fetches(), began.elapsed().as_secs()),
        (2, 2),
        "all waited for the one fetch"
    );
    // Until the next fetch may start, unknown keys are refused at once.
    let cooled = Instant::now();
    for second in 2..30 {
        assert!(storm(second * 1000..second * 1000 + 100).await.iter().all(Result::is_err));
        assert!(keys.accepts(&known).await);
        assert_eq!(cooled.elapsed().as_secs(), second as u64 - 2, "nobody waited");
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(provider.fetches(), 2);
    assert!(storm(0..1000).await.iter().all(Result::is_err));
    assert_eq!(provider.fetches(), 3);
}

#[tokio::test]
async fn a_thousand_requests_on_many_threads_cause_one_fetch() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let (provider, keys) = unfetched(&[&Sample::ec("known")]);
    let storm = (0..1000).map(|name| {
        let keys = keys.clone();
        runtime.spawn(async move {
            keys.verify(Some(&format!("x{name}")), PublicKeyAlgorithm::Es256, MESSAGE, &[1; 64])
                .await
                .is_err()
        })
    });
    assert!(join_all(storm).await.into_iter().all(|refused| refused.unwrap()));
    assert_eq!(provider.fetches(), 1);
    runtime.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn a_fetch_in_vain_is_repeated_after_its_cooldown() {
    let (known, other) = (Sample::ec("known"), Sample::ec("known"));
    let unknown = Sample::ec("unknown");
    for (token, cooldown) in [(&unknown, COOLDOWN), (&other, REPLACED_COOLDOWN)] {
        let (provider, keys) = fetched(&[&known]).await;
        for asked in 1..5 {
            let answer = published(&[&known]);
            provider.answers(Answer::After(Duration::from_secs(asked as u64), answer));
            let began = Instant::now();
            assert!(!keys.accepts(token).await);
            assert_eq!(provider.fetches(), asked + 1, "it is due");
            advance(cooldown - began.elapsed() - Duration::from_millis(1)).await;
            assert!(!keys.accepts(token).await);
            assert!(keys.accepts(&known).await);
            assert_eq!(provider.fetches(), asked + 1, "it is not due");
            advance(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bad_signatures_delay_no_new_key_and_unknown_keys_no_replaced_one() {
    let (known, unknown, replaced) =
        (Sample::ec("known"), Sample::ec("unknown"), Sample::ec("known"));
    let (provider, keys) = fetched(&[&known]).await;
    assert!(!keys.accepts(&replaced).await);
    provider.publishes(&[&known, &unknown]);
    assert!(keys.accepts(&unknown).await);
    let other = Sample::ec("other");
    assert!(!keys.accepts(&other).await);
    advance(REPLACED_COOLDOWN).await;
    provider.publishes(&[&replaced]);
    assert!(!keys.accepts(&other).await);
    assert!(keys.accepts(&replaced).await);
    assert!(!keys.accepts(&known).await);
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_repeated_after_the_probe_interval_and_refuses_no_token_as_invalid() {
    let (known, unknown, replaced) =
        (Sample::ec("known"), Sample::ec("unknown"), Sample::ec("known"));
    let down = Err(TokenRejected::PROVIDER_DOWN);
    for (token, invalid) in [
        (&unknown, "the identity provider has no such key"),
        (&replaced, "the signature is not right"),
    ] {
        let (provider, keys) = fetched(&[&known]).await;
        for answer in [
            Answer::Fail(KeyFetchError::Unreachable),
            Answer::Fail(KeyFetchError::Status(500)),
            Answer::With(b"no set".to_vec()),
            Answer::Never,
            Answer::Panic,
        ] {
            provider.answers(answer);
            let (fetches, began) = (provider.fetches(), Instant::now());
            assert_eq!(keys.verdict(token).await, down);
            assert_eq!(provider.fetches(), fetches + 1, "it is due");
            let to_next = PROBE_INTERVAL.saturating_sub(began.elapsed());
            if let Some(nearly) = to_next.checked_sub(Duration::from_millis(1)) {
                advance(nearly).await;
                assert_eq!(keys.verdict(token).await, down);
                assert_eq!(provider.fetches(), fetches + 1, "it is not due");
                advance(Duration::from_millis(1)).await;
            }
            assert!(keys.accepts(&known).await);
        }
        provider.publishes(&[&known]);
        assert_eq!(keys.verdict(token).await, Err(TokenRejected(invalid)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_failed_delays_no_key_that_is_published_later() {
    let (known, replaced) = (Sample::ec("known"), Sample::ec("known"));
    let (asked, later) = (Sample::ec("asked"), Sample::ec("later"));
    for failure in [Answer::Fail(KeyFetchError::Unreachable), Answer::Panic] {
        let (provider, keys) = fetched(&[&known]).await;
        provider.answers(failure);
        assert_eq!(keys.verdict(&asked).await, Err(TokenRejected::PROVIDER_DOWN));
        advance(PROBE_INTERVAL).await;
        // Another token finds the provider back.
        provider.publishes(&[&replaced]);
        assert!(keys.accepts(&replaced).await);
        provider.publishes(&[&replaced, &later]);
        assert!(keys.accepts(&later).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_fetch_found_lets_the_next_be_fetched_at_once() {
    for names in [["same"; 4], ["first", "second", "third", "fourth"]] {
        let (provider, keys) = fetched(&[&Sample::ec("same")]).await;
        for (fetched, name) in names.into_iter().enumerate() {
            let next = Sample::ec(name);
            provider.publishes(&[&next]);
            assert!(keys.accepts(&next).await);
            assert_eq!(provider.fetches(), fetched + 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_good_set_is_kept_while_the_source_fails() {
    let (known, unknown) = (Sample::rsa("rsa-1"), Sample::ec("unknown"));
    let (provider, keys) = fetched(&[&known]).await;
    for answer in [
        Answer::Fail(KeyFetchError::Unreachable),
        Answer::Fail(KeyFetchError::Status(503)),
        Answer::Fail(KeyFetchError::KeySet(KeySetError::TooLong)),
        Answer::With(Vec::new()),
        Answer::With(b"<html>".to_vec()),
        Answer::With(br#"{"keys":[]}"#.to_vec()),
        Answer::With(br#"{"keys":[{"kty":"oct","k":"AQAB","kid":"rsa-1"}]}"#.to_vec()),
        Answer::With(vec![b' '; MAX_KEY_SET_BYTES + 1]),
        Answer::Never,
        Answer::Panic,
    ] {
        provider.answers(answer);
        let asked = provider.fetches();
        advance(COOLDOWN).await;
        assert!(!keys.accepts(&unknown).await);
        assert_eq!(provider.fetches(), asked + 1);
        assert!(keys.accepts(&known).await);
        assert!(keys.refresh().await.is_err());
        assert!(keys.accepts(&known).await);
    }
    provider.publishes(&[&unknown]);
    advance(COOLDOWN).await;
    assert!(keys.accepts(&unknown).await);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_never_answers_is_waited_for_five_seconds() {
    let (provider, keys) = unfetched(&[]);
    provider.answers(Answer::Never);
    let began = Instant::now();
    assert_eq!(keys.refresh().await, Err(KeyFetchError::TimedOut));
    assert_eq!(began.elapsed().as_secs(), 5);
    // The next request probes again.
    let known = Sample::ec("a");
    assert_eq!(keys.verdict(&known).await, Err(TokenRejected::PROVIDER_DOWN));
    assert_eq!((provider.fetches(), began.elapsed().as_secs()), (2, 10));
    // A request that joins a fetch from before the recovery starts another when that fails.
    let early = tokio::spawn({
        let keys = keys.clone();
        async move { keys.verify(None, PublicKeyAlgorithm::Es256, MESSAGE, &[1; 64]).await }
    });
    settle().await;
    advance(Duration::from_secs(2)).await;
    provider.publishes(&[&known]);
    assert!(keys.accepts(&known).await);
    assert_eq!((provider.fetches(), began.elapsed().as_secs()), (4, 15));
    assert_eq!(early.await.unwrap().map(drop), Err(TokenRejected::PROVIDER_DOWN));
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_delays_only_requests_with_an_unknown_key() {
    let (known, new) = (Sample::ec("known"), Sample::ec("new"));
    let (provider, keys) = fetched(&[&known]).await;
    provider.answers(Answer::After(Duration::from_secs(4), published(&[&known, &new])));
    advance(COOLDOWN).await;
    let began = Instant::now();
    let waiting = async { (keys.accepts(&new).await, began.elapsed().as_secs()) };
    let passing = async { (keys.accepts(&known).await, began.elapsed().as_secs()) };
    assert_eq!(tokio::join!(waiting, passing), ((true, 4), (true, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_started_without_the_source_recovers() {
    let known = Sample::ec("known");
    let (provider, keys) = unfetched(&[&known]);
    provider.answers(Answer::Fail(KeyFetchError::Unreachable));
    assert_eq!(keys.refresh().await, Err(KeyFetchError::Unreachable));
    let unknown = Err(TokenRejected::PROVIDER_DOWN);
    assert_eq!(keys.verdict(&known).await, unknown);
    provider.publishes(&[&known]);
    assert_eq!(keys.verdict(&known).await, unknown, "the next fetch is not due");
    assert_eq!(provider.fetches(), 1);
    advance(COOLDOWN).await;
    assert!(keys.accepts(&known).await);
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_refresh_the_first_request_fetches_the_keys() {
    let known = Sample::ec("known");
    let (provider, keys) = unfetched(&[&known]);
    assert!(keys.accepts(&known).await);
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_key_is_forgotten_ten_minutes_after_the_last_fetch() {
    let (stays, goes) = (Sample::ec("stays"), Sample::ec("goes"));
    let (provider, keys) = fetched(&[&stays, &goes]).await;
    provider.publishes(&[&stays]);
    advance(REFETCH_AFTER).await;
    assert!(keys.accepts(&goes).await);
    settle().await;
    assert_eq!(provider.fetches(), 1, "until then nothing is fetched");
    advance(Duration::from_secs(1)).await;
    // The request that starts the fetch does not wait for its outcome.
    assert!(keys.accepts(&goes).await);
    settle().await;
    assert_eq!(provider.fetches(), 2);
    assert!(!keys.accepts(&goes).await);
    assert!(keys.accepts(&stays).await);
    assert_eq!(provider.fetches(), 3, "the name is unknown now, and asked for");
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_set_counts_from_the_request() {
    let known = Sample::ec("known");
    let (provider, keys) = unfetched(&[&known]);
    provider.answers(Answer::After(Duration::from_secs(4), published(&[&known])));
    let asked = Instant::now();
    keys.refresh().await.unwrap();
    advance(REFETCH_AFTER - asked.elapsed() + Duration::from_millis(1)).await;
    assert!(keys.accepts(&known).await);
    settle().await;
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_set_is_refetched_every_thirty_seconds_and_no_request_waits() {
    let known = Sample::ec("known");
    let (provider, keys) = fetched(&[&known]).await;
    provider.answers(Answer::Never);
    advance(REFETCH_AFTER + Duration::from_secs(1)).await;
    for minute in 1..=10 {
        for _ in 0..60 {
            let began = Instant::now();
            assert!(keys.accepts(&known).await);
            assert_eq!(began.elapsed(), Duration::ZERO);
            settle().await;
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(provider.fetches(), 1 + 2 * minute);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_a_day_old_is_not_used_until_it_is_fetched() {
    let known = Sample::ec("known");
    let (provider, keys) = fetched(&[&known]).await;
    provider.answers(Answer::Fail(KeyFetchError::Unreachable));
    let mut age = Duration::ZERO;
    while age < MAX_AGE {
        assert!(keys.accepts(&known).await, "{age:?}");
        settle().await;
        advance(Duration::from_secs(60 * 60)).await;
        age += Duration::from_secs(60 * 60);
    }
    assert!(keys.accepts(&known).await, "a day is not more than a day");
    settle().await;
    advance(Duration::from_millis(1)).await;
    let asked = provider.fetches();
    let unknown = Err(TokenRejected::PROVIDER_DOWN);
    assert_eq!(keys.verdict(&known).await, unknown);
    let verified =
        keys.verify(None, PublicKeyAlgorithm::Es256, MESSAGE, &known.signature(MESSAGE)).await;
    assert_eq!(verified.map(drop), unknown);
    assert_eq!(provider.fetches(), asked, "the last fetch failed just now");
    advance(PROBE_INTERVAL).await;
    assert_eq!(keys.verdict(&known).await, unknown);
    assert_eq!(provider.fetches(), asked + 1);
    provider.publishes(&[&known]);
    advance(PROBE_INTERVAL).await;
    assert!(keys.accepts(&known).await);
    assert_eq!(provider.fetches(), asked + 2);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_outlives_the_request_that_started_it() {
    let (known, new) = (Sample::ec("known"), Sample::ec("new"));
    let (provider, keys) = fetched(&[&known]).await;
    provider.answers(Answer::After(Duration::from_secs(3), published(&[&known, &new])));
    advance(COOLDOWN).await;
    let hangs_up = tokio::spawn({
        let keys = keys.clone();
        async move { keys.verify(Some("new"), PublicKeyAlgorithm::Es256, MESSAGE, &[1; 64]).await }
    });
    settle().await;
    assert_eq!(provider.fetches(), 2);
    hangs_up.abort();
    assert!(hangs_up.await.unwrap_err().is_cancelled());
    // The next request joins the same fetch.
    let began = Instant::now();
    assert!(keys.accepts(&new).await);
    assert_eq!((provider.fetches(), began.elapsed().as_secs()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_is_a_failed_fetch() {
    let known = Sample::ec("known");
    let (provider, keys) = unfetched(&[&known]);
    provider.answers(Answer::Panic);
    assert_eq!(keys.refresh().await, Err(KeyFetchError::Unreachable));
    provider.publishes(&[&known]);
    assert_eq!(keys.refresh().await, Ok(()));
    assert!(keys.accepts(&known).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_without_a_key_name_is_judged_by_the_only_key_that_fits() {
    let (one, other) = (Sample::rsa("rsa-1"), Sample::rsa("rsa-2"));
    let (provider, keys) = fetched(&[&one]).await;
    let verify = async |sample: &Sample| {
        keys.verify(None, PublicKeyAlgorithm::Rs256, MESSAGE, &sample.signature(MESSAGE))
            .await
            .is_ok()
    };
    assert!(verify(&one).await);
    assert_eq!(provider.fetches(), 1);
    assert!(!verify(&other).await);
    assert_eq!(provider.fetches(), 2, "the only key may have been replaced");
    provider.publishes(&[&one, &other]);
    advance(COOLDOWN).await;
    assert!(!verify(&other).await);
    assert!(!verify(&one).await, "two keys fit");
}

#[tokio::test(start_paused = true)]
async fn the_log_names_the_failure_and_repeats_nothing_received() {
    let log = Log::new();
    let (provider, keys) = unfetched(&[&Sample::ec("canary")]);
    provider.answers(Answer::With(br#"{"canary":"canary"}"#.to_vec()));
    assert_eq!(keys.refresh().await, Err(KeyFetchError::KeySet(KeySetError::Malformed)));
    provider.publishes(&[&Sample::ec("canary")]);
    advance(COOLDOWN).await;
    assert!(
        keys.verify(Some("canary-2"), PublicKeyAlgorithm::Es256, b"canary", b"canary")
            .await
            .is_err()
    );
    let text = log.text();
    assert!(text.contains(" WARN the keys of the identity provider were not fetched"), "{text}");
    assert!(text.contains("what was fetched is not a set of keys"), "{text}");
    assert!(text.contains("were fetched"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}
