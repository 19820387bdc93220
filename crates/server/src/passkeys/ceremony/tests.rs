//! Both ceremonies with a software authenticator, honest and hostile.

use std::time::Duration;

use stile_store::state::{StateDir, TokenKey};
use stile_testkit::authenticator::{
    Authenticator, Ceremony as Asked, PasskeyAlgorithm, PasskeyAnswer as Answer, USER_PRESENT,
    USER_VERIFIED,
};

use super::*;

const ORIGIN: &str = "https://notes.example.org";
const DOMAIN: &str = "notes.example.org";
const SESSION: &[u8] = b"session";
const BROWSER: &[u8] = b"browser";

struct Site {
    _folder: tempfile::TempDir,
    tokens: Arc<TokenStore>,
    passkeys: Passkeys,
    site: RelyingParty,
    now: Instant,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let (tokens, key) = (TokenStore::open(&state).unwrap(), TokenKey::open(&state).unwrap());
        let (tokens, now) = (Arc::new(tokens), Instant::now());
        let passkeys = Passkeys::new(Arc::clone(&tokens), &key, b"the owner", now).unwrap();
        let site = RelyingParty::of_origin(ORIGIN).unwrap();
        Self { _folder: folder, tokens, passkeys, site, now }
    }

    fn registration_challenge(&self) -> String {
        self.passkeys.registration_options(&self.site, SESSION, self.now).unwrap().challenge
    }

    fn sign_in_challenge(&self) -> String {
        self.passkeys.sign_in_challenge(&self.site, BROWSER, self.now).unwrap()
    }

    fn register(&self, answer: &Answer) -> Result<(), PasskeyRefused> {
        let answer = Registration {
            client_data: &answer.client_data,
            authenticator_data: &answer.authenticator_data,
        };
        let name = PasskeyName::parse("phone").unwrap();
        self.passkeys.register(&self.site, (SESSION, "ann"), &answer, &name, (self.now, 100))
    }

    fn sign_in(&self, answer: &Answer) -> Result<String, PasskeyRefused> {
        let answer = Assertion {
            credential: &answer.credential,
            client_data: &answer.client_data,
            authenticator_data: &answer.authenticator_data,
            signature: &answer.signature,
            user_handle: &answer.user_handle,
        };
        self.passkeys.sign_in(&self.site, BROWSER, &answer, (self.now, 200))
    }

    /// Registers a passkey as an honest browser does.
    fn registered(&self, algorithm: PasskeyAlgorithm) -> Authenticator {
        let handle = base64::url_safe(b"the owner");
        let authenticator = Authenticator::new(algorithm, &handle);
        let asked = Asked::registration(&self.registration_challenge(), ORIGIN, DOMAIN);
        self.register(&authenticator.register(&asked)).unwrap();
        authenticator
    }

    fn asked(&self) -> Asked {
        Asked::sign_in(&self.sign_in_challenge(), ORIGIN, DOMAIN)
    }
}

#[test]
fn a_registered_passkey_of_each_algorithm_signs_in_again_and_again() {
    let site = Site::new();
    for algorithm in [PasskeyAlgorithm::Es256, PasskeyAlgorithm::Ed25519, PasskeyAlgorithm::Rs256] {
        let mut authenticator = site.registered(algorithm);
        for _ in 0..2 {
            authenticator.counter += 1;
            let user = site.sign_in(&authenticator.sign_in(&site.asked())).unwrap();
            assert_eq!(user, "ann");
        }
    }
    let stored = site.tokens.passkeys().unwrap();
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|passkey| passkey.counter == 2 && passkey.last_used == Some(200)));
    let options = site.passkeys.registration_options(&site.site, SESSION, site.now).unwrap();
    assert_eq!((options.domain.as_str(), options.known.len()), (DOMAIN, 3));
    assert_eq!(options.algorithms, [-7, -8, -257]);
}

/// Something that an attacker changes in a ceremony, and the refusal.
type Change = (&'static str, fn(&mut Asked), fn(&PasskeyRefused) -> bool);

const CHANGES: [Change; 13] = [
    ("a phishing page", |asked| asked.origin = "https://notes.example.com".to_owned(), is_origin),
    ("plain http", |asked| asked.origin = "http://notes.example.org".to_owned(), is_origin),
    ("another port", |asked| asked.origin = format!("{ORIGIN}:8443"), is_origin),
    ("a sister site", |asked| asked.origin = "https://evil.example.org".to_owned(), is_origin),
    ("a parent domain", |asked| asked.domain = "example.org".to_owned(), is_site),
    ("another domain", |asked| asked.domain = "evil.example".to_owned(), is_site),
    ("nobody present", |asked| asked.flags = USER_VERIFIED, is_unverified),
    ("nobody verified", |asked| asked.flags = USER_PRESENT, is_unverified),
    ("no flags", |asked| asked.flags = 0, is_unverified),
    ("a frame", |asked| asked.more = r#","crossOrigin":true"#.to_owned(), is_ceremony),
    ("no challenge", |asked| asked.challenge = String::new(), is_challenge),
    ("an invented challenge", |asked| asked.challenge = "A".repeat(75), is_challenge),
    ("a repeated name", |asked| asked.more = format!(r#","origin":"{ORIGIN}""#), is_malformed),
];

fn is_origin(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::OtherOrigin)
}

fn is_site(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::OtherSite)
}

fn is_unverified(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::UserNotVerified)
}

fn is_ceremony(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::OtherCeremony)
}

fn is_challenge(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::Challenge)
}

fn is_malformed(refused: &PasskeyRefused) -> bool {
    matches!(refused, PasskeyRefused::Malformed)
}

#[test]
fn a_hostile_registration_is_refused_and_stores_nothing() {
    let site = Site::new();
    let authenticator = Authenticator::new(PasskeyAlgorithm::Es256, "");
    for (what, change, is_expected) in CHANGES {
        let mut asked = Asked::registration(&site.registration_challenge(), ORIGIN, DOMAIN);
        change(&mut asked);
        let refused = site.register(&authenticator.register(&asked)).unwrap_err();
        assert!(is_expected(&refused), "{what}: {refused:?}");
    }
    let asked = Asked::registration(&site.sign_in_challenge(), ORIGIN, DOMAIN);
    let refused = site.register(&authenticator.register(&asked)).unwrap_err();
    assert!(is_challenge(&refused), "the challenge of a sign-in: {refused:?}");
    let asked = site.asked();
    let refused = site.register(&authenticator.register(&asked)).unwrap_err();
    assert!(is_ceremony(&refused), "a sign-in: {refused:?}");
    assert_eq!(site.tokens.passkeys().unwrap(), []);
}

#[test]
fn a_hostile_sign_in_is_refused_and_changes_nothing() {
    let site = Site::new();
    let authenticator = site.registered(PasskeyAlgorithm::Es256);
    let before = site.tokens.passkeys().unwrap();
    for (what, change, is_expected) in CHANGES {
        let mut asked = site.asked();
        change(&mut asked);
        let refused = site.sign_in(&authenticator.sign_in(&asked)).unwrap_err();
        assert!(is_expected(&refused), "{what}: {refused:?}");
    }
    let asked = Asked::sign_in(&site.registration_challenge(), ORIGIN, DOMAIN);
    let refused = site.sign_in(&authenticator.sign_in(&asked)).unwrap_err();
    assert!(is_challenge(&refused), "the challenge of a registration: {refused:?}");
    assert_eq!(site.tokens.passkeys().unwrap(), before);
    site.sign_in(&authenticator.sign_in(&site.asked())).unwrap();
}

#[test]
fn an_answer_signs_in_once_and_not_in_another_browser() {
    let site = Site::new();
    let authenticator = site.registered(PasskeyAlgorithm::Es256);
    let answer = authenticator.sign_in(&site.asked());
    let elsewhere = Assertion {
        credential: &answer.credential,
        client_data: &answer.client_data,
        authenticator_data: &answer.authenticator_data,
        signature: &answer.signature,
        user_handle: &answer.user_handle,
    };
    let stolen = site.passkeys.sign_in(&site.site, b"thief", &elsewhere, (site.now, 200));
    assert!(is_challenge(&stolen.unwrap_err()));
    let late = site.now + Duration::from_secs(300);
    let late = site.passkeys.sign_in(&site.site, BROWSER, &elsewhere, (late, 500));
    assert!(is_challenge(&late.unwrap_err()));
    site.sign_in(&answer).unwrap();
    let replayed = site.sign_in(&answer).unwrap_err();
    assert!(is_challenge(&replayed), "{replayed:?}");
}

#[test]
fn a_counter_that_goes_back_is_refused() {
    let site = Site::new();
    let mut authenticator = site.registered(PasskeyAlgorithm::Ed25519);
    authenticator.counter = 10;
    site.sign_in(&authenticator.sign_in(&site.asked())).unwrap();
    for counter in [10, 9, 0] {
        authenticator.counter = counter;
        let refused = site.sign_in(&authenticator.sign_in(&site.asked())).unwrap_err();
        assert!(matches!(refused, PasskeyRefused::CounterWentBack), "{refused:?}");
    }
    authenticator.counter = 11;
    site.sign_in(&authenticator.sign_in(&site.asked())).unwrap();
}

#[test]
fn only_the_owners_key_over_the_very_bytes_signs_in() {
    let site = Site::new();
    let authenticator = site.registered(PasskeyAlgorithm::Es256);
    let other = Authenticator::new(PasskeyAlgorithm::Es256, &authenticator.user_handle);
    let good = || authenticator.sign_in(&site.asked());
    let encode = |text: &str| base64::url_safe(text);
    for (what, answer) in [
        ("an unknown passkey", other.sign_in(&site.asked())),
        (
            "the signature of another key",
            Answer { signature: other.sign_in(&site.asked()).signature, ..good() },
        ),
        ("the signature of another answer", Answer { signature: good().signature, ..good() }),
        ("no signature", Answer { signature: String::new(), ..good() }),
        ("another owner", Answer { user_handle: encode("eve"), ..good() }),
        ("no owner", Answer { user_handle: String::new(), ..good() }),
        ("no passkey", Answer { credential: String::new(), ..good() }),
    ] {
        let refused = site.sign_in(&answer).unwrap_err();
        assert!(matches!(refused, PasskeyRefused::Unknown), "{what}: {refused:?}");
    }
    for (what, answer) in [
        ("not base64url", Answer { signature: "+/==".to_owned(), ..good() }),
        ("no client data", Answer { client_data: String::new(), ..good() }),
        ("no data", Answer { authenticator_data: String::new(), ..good() }),
        ("long data", Answer { authenticator_data: "A".repeat(8196), ..good() }),
    ] {
        let refused = site.sign_in(&answer).unwrap_err();
        assert!(is_malformed(&refused), "{what}: {refused:?}");
    }
    site.sign_in(&good()).unwrap();
}

#[test]
fn a_passkey_of_another_name_of_this_server_does_not_sign_in_here() {
    let site = Site::new();
    let mut authenticator = site.registered(PasskeyAlgorithm::Es256);
    let other = RelyingParty::of_origin("http://localhost:9999").unwrap();
    let challenge = site.passkeys.sign_in_challenge(&other, BROWSER, site.now).unwrap();
    authenticator.counter += 1;
    let asked = Asked::sign_in(&challenge, "http://localhost:9999", "localhost");
    let answer = authenticator.sign_in(&asked);
    let answer = Assertion {
        credential: &answer.credential,
        client_data: &answer.client_data,
        authenticator_data: &answer.authenticator_data,
        signature: &answer.signature,
        user_handle: &answer.user_handle,
    };
    let refused = site.passkeys.sign_in(&other, BROWSER, &answer, (site.now, 200)).unwrap_err();
    assert!(is_site(&refused), "{refused:?}");
}

#[test]
fn a_passkey_is_registered_once_and_its_challenge_too() {
    let site = Site::new();
    let authenticator = Authenticator::new(PasskeyAlgorithm::Es256, "");
    let asked = Asked::registration(&site.registration_challenge(), ORIGIN, DOMAIN);
    let answer = authenticator.register(&asked);
    site.register(&answer).unwrap();
    assert!(is_challenge(&site.register(&answer).unwrap_err()));
    let again = Asked::registration(&site.registration_challenge(), ORIGIN, DOMAIN);
    let refused = site.register(&authenticator.register(&again)).unwrap_err();
    assert!(matches!(refused, PasskeyRefused::Known), "{refused:?}");
}
