//! Challenges: each is for one purpose of one browser at one site, for five minutes, once.
//!
//! A passkey signs a challenge, and an identity provider returns one as `state`. A challenge
//! carries its own proof, so a visitor who asks for many takes no memory. Only a challenge that was
//! answered rightly is remembered, so that it is not used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::error::Unspecified;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use stile_store::state::{ShortLived, TokenKey, TokenStore};

use stile_domain::base64;

use crate::clock::{unix_seconds, wall_clock};

/// The kind of the rows that say which challenges were used.
const KIND: &str = "challenge";

/// How long a person has to find the device and touch it.
const LIFE: Duration = Duration::from_secs(5 * 60);
const NONCE_BYTES: usize = 16;
const END_BYTES: usize = 8;

/// What a challenge is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The signed-in owner registers a passkey.
    PasskeyRegistration,
    /// A visitor signs in with a passkey.
    PasskeySignIn,
    /// A visitor signs in at an identity provider.
    OpenIdSignIn,
}

/// What makes and judges challenges. Those of another process, or of an earlier start, are refused.
#[derive(Debug)]
pub(crate) struct Challenges {
    key: hmac::Key,
    start: Instant,
    /// When each used challenge ends.
    used: Mutex<HashMap<Vec<u8>, Instant>>,
    /// Where the used ones are kept for all servers; `None` if this server is alone.
    shared: Option<Arc<TokenStore>>,
}

/// A challenge that is genuine and not too old. Nobody has used it if [`Challenges::spend`] says
/// so.
#[derive(Debug)]
#[must_use]
pub(crate) struct GenuineChallenge {
    nonce: Vec<u8>,
    end: Instant,
}

impl Challenges {
    pub(crate) fn new(start: Instant) -> Result<Self, Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        Ok(Self { key, start, used: Mutex::default(), shared: None })
    }

    /// Makes challenges that every server with this key and these tables can read. They go by the
    /// clock of the day, which the servers share.
    pub(crate) fn shared(key: &TokenKey, tokens: Arc<TokenStore>, start: Instant) -> Self {
        let key = derived(key, b"the challenges of browsers");
        Self { key, start, used: Mutex::default(), shared: Some(tokens) }
    }

    /// Makes challenges for the servers that share these tables, or for this server alone.
    pub(crate) fn of(
        key: &TokenKey,
        tokens: &Arc<TokenStore>,
        start: Instant,
    ) -> Result<Self, Unspecified> {
        match tokens.is_shared() {
            true => Ok(Self::shared(key, Arc::clone(tokens), start)),
            false => Self::new(start),
        }
    }

    /// Returns the seconds of the clock that challenges end by.
    fn seconds(&self, now: Instant) -> u64 {
        match &self.shared {
            Some(_) => unix_seconds(wall_clock()).unsigned_abs(),
            None => now.saturating_duration_since(self.start).as_secs(),
        }
    }

    /// Makes a challenge for the browser that `browser` identifies, in base64url.
    pub(crate) fn issue(
        &self,
        purpose: Purpose,
        domain: &str,
        browser: &[u8],
        now: Instant,
    ) -> Result<String, Unspecified> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce)?;
        let end = self.seconds(now) + LIFE.as_secs();
        let mut bytes = [&nonce[..], &end.to_be_bytes()].concat();
        let proof = hmac::sign(&self.key, &message(purpose, domain, browser, &bytes));
        bytes.extend_from_slice(proof.as_ref());
        Ok(base64::url_safe(bytes))
    }

    /// Returns the challenge in `text` if it was made here for this purpose, site and browser, and
    /// is not too old.
    pub(crate) fn read(
        &self,
        text: &str,
        purpose: Purpose,
        domain: &str,
        browser: &[u8],
        now: Instant,
    ) -> Option<GenuineChallenge> {
        let bytes = base64::from_url_safe(text)?;
        let (stated, proof) = bytes.split_at_checked(NONCE_BYTES + END_BYTES)?;
        hmac::verify(&self.key, &message(purpose, domain, browser, stated), proof).ok()?;
        let (nonce, end) = stated.split_at_checked(NONCE_BYTES)?;
        let end = u64::from_be_bytes(end.try_into().ok()?);
        let left = end.checked_sub(self.seconds(now)).filter(|left| *left > 0)?;
        let end = now + Duration::from_secs(left);
        Some(GenuineChallenge { nonce: nonce.to_vec(), end })
    }

    /// Returns whether this is the first use of a challenge.
    pub(crate) fn spend(&self, challenge: GenuineChallenge, now: Instant) -> bool {
        if let Some(tokens) = &self.shared {
            let at = unix_seconds(wall_clock());
            let key = base64::url_safe(&challenge.nonce);
            let ends = at.saturating_add(2 * LIFE.as_secs() as i64);
            let used = ShortLived { kind: KIND, key: &key, owner: "", value: "", ends };
            return tokens.keep_once(used).unwrap_or_else(|error| {
                error.log("a challenge was not spent");
                false
            });
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, end| now < *end);
        used.insert(challenge.nonce, challenge.end).is_none()
    }
}

/// Derives a key for one purpose from the key that signs tokens.
pub(crate) fn derived(key: &TokenKey, purpose: &[u8]) -> hmac::Key {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.secret);
    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, purpose).as_ref())
}

/// Returns the bytes that a proof is over, in which no part can be taken for another.
fn message(purpose: Purpose, domain: &str, browser: &[u8], stated: &[u8]) -> Vec<u8> {
    let mut message = vec![match purpose {
        Purpose::PasskeyRegistration => 1,
        Purpose::PasskeySignIn => 2,
        Purpose::OpenIdSignIn => 3,
    }];
    for part in [domain.as_bytes(), browser, stated] {
        message.extend_from_slice(&(part.len() as u64).to_be_bytes());
        message.extend_from_slice(part);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_for_one_purpose_of_one_browser_at_one_site() {
        let now = Instant::now();
        let (challenges, others) = (Challenges::new(now).unwrap(), Challenges::new(now).unwrap());
        let text = challenges.issue(Purpose::PasskeySignIn, "localhost", b"browser", now).unwrap();
        let read = |purpose, domain, browser: &[u8], after| {
            challenges.read(&text, purpose, domain, browser, now + Duration::from_secs(after))
        };
        assert!(read(Purpose::PasskeySignIn, "localhost", b"browser", 0).is_some());
        assert!(read(Purpose::PasskeySignIn, "localhost", b"browser", 299).is_some());
        assert!(read(Purpose::PasskeySignIn, "localhost", b"browser", 300).is_none());
        assert!(read(Purpose::PasskeyRegistration, "localhost", b"browser", 0).is_none());
        assert!(read(Purpose::PasskeySignIn, "localhos", b"tbrowser", 0).is_none());
        assert!(read(Purpose::PasskeySignIn, "localhost", b"another", 0).is_none());
        assert!(others.read(&text, Purpose::PasskeySignIn, "localhost", b"browser", now).is_none());
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let read =
                challenges.read(&changed, Purpose::PasskeySignIn, "localhost", b"browser", now);
            assert!(read.is_none(), "{at}");
        }
        for text in ["", "AAAA", &text[..text.len() - 4], "é"] {
            let read = challenges.read(text, Purpose::PasskeySignIn, "localhost", b"browser", now);
            assert!(read.is_none(), "{text}");
        }
    }

    #[test]
    fn a_challenge_is_used_once_and_forgotten_when_it_is_too_old() {
        let now = Instant::now();
        let challenges = Challenges::new(now).unwrap();
        let text = challenges.issue(Purpose::PasskeySignIn, "localhost", b"", now).unwrap();
        let read =
            || challenges.read(&text, Purpose::PasskeySignIn, "localhost", b"", now).unwrap();
        assert!(challenges.spend(read(), now));
        assert!(!challenges.spend(read(), now));
        let later = now + LIFE;
        let next = challenges.issue(Purpose::PasskeySignIn, "localhost", b"", later).unwrap();
        let next = challenges.read(&next, Purpose::PasskeySignIn, "localhost", b"", later).unwrap();
        assert!(challenges.spend(next, later));
        assert_eq!(challenges.used.lock().unwrap().len(), 1);
    }
}
