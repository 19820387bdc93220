//! Tokens of an identity provider, as both servers that stand behind one meet them.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use stile_testkit::hosted::{AUDIENCE, Lifecycle, Peer};
use stile_testkit::issuer::{Alg, Mint, Signature, now};

use crate::doors::{Doors, asked, bad_sets};

/// Longer than anything here may take, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn many_requests_cause_one_fetch_of_the_keys() {
    let doors = Doors::open();
    assert_eq!(doors.issuer().fetches(), 2, "each fetches once, before it lets anybody in");
    for (_, server) in &doors.doors {
        let mut peer = Peer::new(server.address, "", Lifecycle::Sessionless);
        for number in 0..500 {
            let mint = doors.mint().claim("sub", format!("user-{}", number % 50));
            peer.token = mint.token(if number % 2 == 0 { Alg::Es256 } else { Alg::Rs256 });
            assert_eq!(peer.post("tools/list", json!({})).unwrap().status, 200);
        }
    }
    assert_eq!(doors.issuer().fetches(), 2);
}

#[test]
fn every_claim_is_checked_exactly() {
    let doors = Doors::open();
    let mint = || doors.mint();
    let longest = 400 * 24 * 60 * 60;
    let provider = doors.issuer().url();
    let cases: Vec<(u16, &str, Mint<'_>)> = vec![
        (200, "as it is", mint()),
        (200, "one of several audiences", mint().claim("aud", json!(["https://else", AUDIENCE]))),
        (200, "without what is not required", mint().without("jti").without("iat")),
        (200, "what others know", mint().claim("groups", json!(["a"])).claim("azp", 7)),
        (200, "no type", mint().header("typ", Value::Null)),
        (200, "the type of an access token", mint().header("typ", "at+jwt")),
        (200, "within the leeway", mint().claim("iat", now() - 60).expires_in(-2)),
        (200, "nearly valid", mint().claim("nbf", now() + 2)),
        (401, "no audience", mint().without("aud")),
        (401, "another audience", mint().claim("aud", "https://else")),
        (401, "a longer audience", mint().claim("aud", format!("{AUDIENCE}/"))),
        (401, "an audience in other letters", mint().claim("aud", AUDIENCE.to_uppercase())),
        (
            401,
            "other audiences",
            mint().claim("aud", json!(["https://else", format!("{AUDIENCE}/")])),
        ),
        (401, "no audience in the list", mint().claim("aud", json!([]))),
        (401, "an audience in a list in a list", mint().claim("aud", json!([[AUDIENCE]]))),
        (401, "an audience among numbers", mint().claim("aud", json!([AUDIENCE, 7]))),
        (401, "an audience as an object", mint().claim("aud", json!({ "aud": AUDIENCE }))),
        (401, "no issuer", mint().without("iss")),
        (401, "another issuer", mint().claim("iss", "https://else")),
        (401, "a longer issuer", mint().claim("iss", format!("{provider}/"))),
        (401, "issuers", mint().claim("iss", json!([provider]))),
        (401, "no subject", mint().without("sub")),
        (401, "an empty subject", mint().claim("sub", "")),
        (401, "a subject with a line break", mint().claim("sub", "ann\r\nX-Vault-Id: b")),
        (401, "a subject that is a number", mint().claim("sub", 7)),
        (401, "no end", mint().without("exp")),
        (401, "an end in the past", mint().claim("iat", now() - 600).expires_in(-60)),
        (401, "an end in words", mint().claim("exp", (now() + 300).to_string())),
        (401, "no end for years", mint().expires_in(longest * 10)),
        (401, "valid later", mint().claim("nbf", now() + 60)),
        (401, "issued later", mint().claim("iat", now() + 60)),
        (401, "an actor without a name", mint().claim("act", json!({}))),
        (401, "null for an actor", mint().claim("act", Value::Null)),
        (401, "an extension", mint().header("crit", json!(["b64"]))),
        (401, "a key of its own", mint().header("jwk", json!({ "kty": "oct", "k": "AAAA" }))),
        (
            401,
            "a set of its own",
            mint().header("jku", format!("{provider}/.well-known/jwks.json")),
        ),
        (401, "certificates of its own", mint().header("x5u", "http://127.0.0.1/")),
        (401, "another type", mint().header("typ", "dpop+jwt")),
        (401, "another algorithm", mint().header("alg", "ES384")),
        (401, "an algorithm in other letters", mint().header("alg", "es256")),
        (401, "no algorithm", mint().header("alg", Value::Null)),
        (401, "another key's name", mint().header("kid", doors.issuer().kid(Alg::Rs256))),
        (401, "a kid that is a number", mint().header("kid", 1)),
        (401, "a token of more than 8 KiB", mint().claim("pad", "x".repeat(8 * 1024))),
        (401, "a broken signature", mint().signature(Signature::Broken)),
        (401, "no signature", mint().signature(Signature::Empty)),
        (401, "a hash under the public key", mint().signature(Signature::HashOfPublicKey)),
        (
            401,
            "no algorithm and no signature",
            mint().header("alg", "none").signature(Signature::Empty),
        ),
        (401, "None", mint().header("alg", "None").signature(Signature::Empty)),
        (401, "none, and a signature", mint().header("alg", "none")),
    ];
    for (status, what, mint) in cases {
        doors.assert_all(what, &mint.clone().token(Alg::Es256), status);
        // The name of the other key is its own there.
        if what != "another key's name" && what != "another algorithm" {
            doors.assert_all(what, &mint.token(Alg::Rs256), status);
        }
    }
    let good = doors.mint().token(Alg::Es256);
    for bent in [
        format!("{good}="),
        format!("{good}."),
        format!("{good}.a"),
        good.replacen('.', "..", 1),
        good[1..].to_owned(),
    ] {
        doors.assert_all("bent", &bent, 401);
    }
    for (name, server) in &doors.doors {
        let head =
            format!("POST /mcp?access_token={good} HTTP/1.1\r\nHost: {}\r\n", server.address);
        let reply =
            server.client("").send(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(reply.status, 401, "{name}: a token in the query is none");
    }
}

#[test]
fn local_and_hosted_tokens_never_replace_each_other() {
    let doors = Doors::open();
    let rig = doors.hosted.rig("origin");
    // The state folder has a key of its own, which a hosted server does not look at.
    let local = rig.serve(&[]);
    let own = rig.token(&["read:/"], &[]);
    assert_eq!(asked(&local, &own), 200);
    doors.assert_all("a token of the state folder", &own, 401);
    for alg in [Alg::Es256, Alg::Rs256] {
        assert_eq!(asked(&local, &doors.mint().token(alg)), 401);
        let claims: Value = serde_json::from_slice(
            &URL_SAFE_NO_PAD.decode(own.split('.').nth(1).unwrap()).unwrap(),
        )
        .unwrap();
        let addressed = doors.mint().claim("aud", claims["aud"].clone());
        assert_eq!(asked(&local, &addressed.token(alg)), 401, "nor one that is addressed to it");
    }
}

/// A token of the provider's claims that is signed with a shared secret.
fn hashed(doors: &Doors, kid: &str, algorithm: &str, secret: &[u8]) -> String {
    let claims = doors.mint().token(Alg::Es256).split('.').nth(1).unwrap().to_owned();
    let header = json!({ "typ": "JWT", "alg": algorithm, "kid": kid }).to_string();
    let message = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn weak_and_shared_keys_of_the_set_are_ignored() {
    let secret = b"thirty-two bytes of a shared key";
    let shared = |kid: &str, alg: Value| json!({ "kty": "oct", "kid": kid, "alg": alg, "use": "sig", "k": URL_SAFE_NO_PAD.encode(secret) });
    let doors = Doors::before(|issuer| {
        let mut set = issuer.jwks();
        let keys = set["keys"].as_array_mut().unwrap();
        let rsa = keys.iter().find(|key| key["kty"] == "RSA").unwrap().clone();
        let ec = keys.iter().find(|key| key["kty"] == "EC").unwrap().clone();
        let modulus = URL_SAFE_NO_PAD.decode(rsa["n"].as_str().unwrap()).unwrap();
        let with = |key: &Value, kid: &str, name: &str, value: Value| {
            let mut key = key.clone();
            key["kid"] = json!(kid);
            key[name] = value;
            key
        };
        // The good keys under other names, each with one thing wrong.
        keys.extend([
            with(&rsa, "short", "n", json!(URL_SAFE_NO_PAD.encode(&modulus[..128]))),
            with(&rsa, "encryption", "use", json!("enc")),
            with(&rsa, "padding", "alg", json!("PS256")),
            with(&rsa, "exponent", "e", json!("Aw")),
            with(&rsa, "private", "d", json!("AQAB")),
            with(&ec, "curve", "crv", json!("secp256k1")),
            with(&ec, "other-curve", "crv", json!("P-384")),
            with(&ec, "operations", "key_ops", json!(["sign"])),
            with(&ec, "disguised", "kty", json!("oct")),
            shared("shared", json!("HS256")),
            shared("shared-rs", json!("RS256")),
            shared("shared-none", Value::Null),
        ]);
        issuer.serve_raw(set.to_string());
    });
    doors.assert_all("the good keys of the set", &doors.mint().token(Alg::Rs256), 200);
    doors.assert_all("the good keys of the set", &doors.mint().token(Alg::Es256), 200);
    for kid in ["short", "encryption", "padding", "exponent", "private"] {
        doors.assert_all(kid, &doors.mint().header("kid", kid).token(Alg::Rs256), 401);
    }
    for kid in ["curve", "other-curve", "operations", "disguised"] {
        doors.assert_all(kid, &doors.mint().header("kid", kid).token(Alg::Es256), 401);
    }
    for kid in ["shared", "shared-rs", "shared-none"] {
        for algorithm in ["HS256", "RS256", "none"] {
            doors.assert_all(kid, &hashed(&doors, kid, algorithm, secret), 401);
        }
    }
}

#[test]
fn a_server_without_keys_starts_and_answers_503_without_hanging() {
    std::thread::scope(|scope| {
        for (name, behaviour) in bad_sets() {
            scope.spawn(move || {
                let began = Instant::now();
                let doors = Doors::before(|issuer| issuer.behave(behaviour));
                for alg in [Alg::Es256, Alg::Rs256] {
                    doors.assert_all(name, &doors.mint().token(alg), 503);
                }
                assert!(began.elapsed() < PATIENCE, "{name}");
                for (_, server) in &doors.doors {
                    let health =
                        format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
                    assert_eq!(server.client("").send(health.as_bytes()).unwrap().status, 200);
                }
                // A redirect is not followed, and each server probes at most once in a second.
                let asked = doors.issuer().requests();
                let allowed = 2 * (2 + began.elapsed().as_secs() as usize);
                assert!(asked.len() <= allowed, "{name}: {} requests", asked.len());
                assert!(
                    asked.iter().all(|request| request.target == "/.well-known/jwks.json"),
                    "{name}"
                );
            });
        }
    });
}

#[test]
fn a_provider_that_is_down_is_503_and_is_found_again_within_a_second() {
    let doors = Doors::open();
    let known = doors.mint().token(Alg::Es256);
    doors.issuer().go_dead();
    doors.issuer().rotate();
    let new = doors.mint().token(Alg::Es256);
    for _ in 0..3 {
        doors.assert_all("a key that cannot be fetched", &new, 503);
        doors.assert_all("a signature that a replaced key may have made", &broken(&doors), 503);
        doors.assert_all("a known key", &known, 200);
    }
    doors.issuer().go_well();
    let recovered = Instant::now();
    for (name, server) in &doors.doors {
        loop {
            let sent = Instant::now();
            match asked(server, &new) {
                200 => break,
                status => {
                    let late = sent.duration_since(recovered) >= Duration::from_secs(1);
                    assert!(status == 503 && !late, "{name}: {status} after {sent:?}");
                }
            }
        }
        assert_eq!(asked(server, &broken(&doors)), 401, "{name}");
    }
}

fn broken(doors: &Doors) -> String {
    doors.mint().signature(Signature::Broken).key("es256-1").token(Alg::Es256)
}

#[test]
fn a_key_replaced_under_its_name_is_fetched_once_before_a_refusal() {
    let doors = Doors::open();
    let began = Instant::now();
    for replacements in 1..4 {
        let old = doors.mint();
        let old = [old.clone().token(Alg::Es256), old.token(Alg::Rs256)];
        doors.issuer().replace();
        for alg in [Alg::Es256, Alg::Rs256] {
            doors.assert_all("a replaced key", &doors.mint().token(alg), 200);
        }
        assert_eq!(doors.issuer().fetches(), 2 * (1 + replacements), "one fetch each");
        if replacements == 3 {
            doors.assert_all("a token of the replaced key", &old[0], 401);
        }
    }
    for _ in 0..100 {
        doors.assert_all("a broken signature", &broken(&doors), 401);
    }
    let allowed = 2 * (5 + began.elapsed().as_secs() as usize / 10);
    let fetches = doors.issuer().fetches();
    assert!(fetches <= allowed, "{fetches} fetches, {allowed} allowed");
}
