//! Bearer tokens: nothing but the token that was minted is accepted, and with our key nothing but
//! what the verifier is written down to accept.
//!
//! An input is a token, typed with the parts of the good one: `@h.@p.@s` is its header, payload and
//! signature, `@t` all of it, `@c` its claims, `@a` our audience, `@j` its identifier and `@r` that
//! of a revoked one. What stands in `<` and `>` is written in base64url: `<{"alg":"none"}>.@p.`

#![no_main]

use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use ring::hmac;
use serde_json::{Map, Value};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes};
use stile_fuzz::Shape;
use stile_server::auth::{
    LocalVerifier, MintRequest, MintedToken, Minter, TokenRejected, TokenVerifier as _,
    VerifiedCaller,
};
use stile_store::state::{StateDir, TokenKey, TokenStore};

const NOW: i64 = 1_800_000_000;
const LEEWAY: i64 = 5;
const LONGEST_LIFE: i64 = 366 * 24 * 60 * 60;
const MAX_TOKEN_BYTES: usize = 8192;
/// The `aud` of the one space whose tokens are accepted.
const AUDIENCE: &str = "stile:this-space";

struct Rig {
    verifier: LocalVerifier,
    secret: hmac::Key,
    good: MintedToken,
    revoked: MintedToken,
}

/// Its folder is gone once the database is open, so that nothing is left behind.
static RIG: LazyLock<Rig> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = StateDir::open(folder.path()).expect("a state folder");
    let key = TokenKey::open(&state).expect("a key");
    let tokens = Arc::new(TokenStore::open(&state).expect("a database"));
    let order = MintRequest {
        subject: "ann".to_owned(),
        records: RecordsClaim::None,
        scopes: [Scope::parse("write:/notes").expect("it is a scope")].into_iter().collect(),
        client: Some("editor".to_owned()),
        life: Duration::from_secs(3600),
    };
    let minter = Minter { key: &key, tokens: &tokens, audience: AUDIENCE };
    let [good, revoked] = [(); 2].map(|()| minter.mint(&order, clock()).expect("a token"));
    tokens.revoke(&revoked.jti, NOW).expect("it was minted");
    Rig {
        secret: hmac::Key::new(hmac::HMAC_SHA256, &key.secret),
        verifier: LocalVerifier::new(&key, AUDIENCE, tokens, clock),
        good,
        revoked,
    }
});

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs())
}

/// The verdict on a token, for which a local verifier waits for nothing.
fn verify(token: &str) -> Result<VerifiedCaller, TokenRejected> {
    match RIG.verifier.verify(token).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => panic!("it waits"),
    }
}

fuzz_target!(|input: &[u8]| {
    let text = RIG.expand(&String::from_utf8_lossy(input));
    assert_eq!(verify(&text).is_ok(), text == RIG.good.token, "{text:?}");
    a_changed_token_is_none(input);
    what_we_sign_is_judged_by_what_it_says(&text);
});

impl Rig {
    fn expand(&self, typed: &str) -> String {
        let mut parts = self.good.token.split('.');
        let [header, payload, signature] =
            [(); 3].map(|()| parts.next().expect("a token has three parts"));
        let claims = URL_SAFE_NO_PAD.decode(payload).expect("it is base64url");
        let claims = String::from_utf8(claims).expect("it is JSON");
        let words = [
            ("@h", header),
            ("@p", payload),
            ("@s", signature),
            ("@t", &self.good.token),
            ("@c", &claims),
            ("@a", AUDIENCE),
            ("@j", &self.good.jti),
            ("@r", &self.revoked.jti),
        ];
        let mut text = typed.to_owned();
        for (word, meaning) in words {
            if text.contains(word) {
                text = text.replace(word, meaning);
            }
        }
        let mut written = String::new();
        let mut rest = text.as_str();
        while let Some((before, (inside, after))) =
            rest.split_once('<').and_then(|(before, after)| Some((before, after.split_once('>')?)))
        {
            written.push_str(before);
            URL_SAFE_NO_PAD.encode_string(inside, &mut written);
            rest = after;
        }
        written + rest
    }
}

/// One character of the good token replaced, and either side of it alone.
fn a_changed_token_is_none(input: &[u8]) {
    let byte = |index: usize| input.get(index).copied().unwrap_or_default();
    let good = &RIG.good.token;
    let at = (usize::from(byte(0)) << 8 | usize::from(byte(1))) % good.len();
    let mut changed = good.clone();
    changed.replace_range(at..=at, &char::from(byte(2)).to_string());
    assert_eq!(verify(&changed).is_ok(), changed == *good, "{at} {:?}", char::from(byte(2)));
    for part in [&good[..at], &good[at + 1..]] {
        assert!(verify(part).is_err(), "{at}");
    }
}

fn what_we_sign_is_judged_by_what_it_says(text: &str) {
    let message = text.rsplit_once('.').map_or(text, |(message, _)| message);
    let tag = hmac::sign(&RIG.secret, message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
    let verdict = verify(&token);
    match (slow_claims(&token), verdict) {
        (Some(claims), Ok(VerifiedCaller { principal, identity, expires })) => {
            let text = |name: &str| claims.get(name).and_then(Value::as_str);
            assert_eq!(Some(principal.subject()), text("sub"));
            assert_eq!(principal.token(), text("jti"));
            assert_eq!(principal.client(), text("client"));
            let actor = claims.get("act").map_or_else(|| text("sub"), |act| act["sub"].as_str());
            assert_eq!(Some(identity.actor.as_ref()), actor);
            assert_eq!(*principal.scopes(), Scopes::from_claim(text("scope").unwrap_or_default()));
            let since = expires.duration_since(UNIX_EPOCH).expect("it is later").as_secs();
            assert_eq!(Some(since), claims["exp"].as_u64());
        }
        (None, Err(_)) => {}
        (claims, verdict) => panic!("{:?} for {claims:?}", verdict.map(|_| "it is accepted")),
    }
}

/// What a token says that is to be accepted if its signature is right.
fn slow_claims(token: &str) -> Option<Map<String, Value>> {
    let parts: Vec<Vec<u8>> =
        token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok()).collect::<Option<_>>()?;
    let [header, claims, _] = parts.as_slice() else { return None };
    let (header, claims) = (object(header)?, object(claims)?);
    let is_ours = token.len() <= MAX_TOKEN_BYTES
        && header.keys().all(|name| matches!(name.as_str(), "alg" | "typ"))
        && header.get("alg")? == "HS256"
        && header.get("typ").is_none_or(|typ| typ.is_null() || typ == "JWT");

    let audience = claims.get("aud")?;
    let names: Vec<&str> = match audience {
        Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        name => vec![name.as_str()?],
    };
    let is_absent_or = |name: &str, fits: fn(&Value) -> bool| claims.get(name).is_none_or(fits);
    let (issued, expires) = (claims.get("iat")?.as_i64()?, claims.get("exp")?.as_i64()?);
    let life = i128::from(expires) - i128::from(issued);
    let holds = names.contains(&AUDIENCE)
        && !claims.get("sub")?.as_str()?.is_empty()
        && claims.get("jti")? == RIG.good.jti.as_str()
        && is_absent_or("act", |act| act.get("sub").and_then(Value::as_str).is_some_and(is_name))
        && is_absent_or("scope", Value::is_string)
        && is_absent_or("client", Value::is_string)
        && is_absent_or("nbf", |nbf| nbf.as_i64().is_some_and(|nbf| nbf <= NOW + LEEWAY))
        && (0..=NOW + LEEWAY).contains(&issued)
        && expires > NOW - LEEWAY
        && (1..=i128::from(LONGEST_LIFE)).contains(&life);
    (is_ours && holds).then_some(claims)
}

fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control) && name.trim() == name
}

/// An object in which no name is repeated at any depth.
fn object(text: &[u8]) -> Option<Map<String, Value>> {
    let Ok(Value::Object(object)) = serde_json::from_slice(text) else { return None };
    (!Shape::of(text).repeats).then_some(object)
}
