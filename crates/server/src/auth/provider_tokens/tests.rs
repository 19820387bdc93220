use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_domain::scope::Verb;

use super::*;
use crate::auth::jws::MAX_TOKEN_BYTES;
use crate::auth::samples::{Sample, b64, document, with};
use crate::auth::{IdentityClaims, KeyFetchError, KeySource, VaultClaim};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const ISSUER: &str = "https://id.example/";
const AUDIENCE: &str = "https://notes.example/mcp";

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW as u64)
}

struct Published(Vec<u8>);

impl KeySource for Published {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, KeyFetchError>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// A provider with one key of either kind.
struct Rig {
    rsa: Sample,
    ec: Sample,
    verifier: ProviderVerifier,
}

async fn rig() -> Rig {
    let (rsa, ec) = (Sample::rsa("rsa-1"), Sample::ec("ec"));
    let verifier = verifier(&[rsa.jwk(), ec.jwk()]).await;
    Rig { rsa, ec, verifier }
}

async fn verifier(keys: &[Value]) -> ProviderVerifier {
    let jwks = ProviderKeys::new(Published(document(keys)));
    jwks.refresh().await.unwrap();
    ProviderVerifier::new(jwks, ISSUER, AUDIENCE, clock)
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "iat": NOW, "exp": NOW + 100, "scope": "read:/" })
}

fn claims_with(changes: &Value) -> String {
    with(&claims(), changes).to_string()
}

/// The good claims with one more member, written after them.
fn claims_and(member: &str) -> String {
    format!("{},{member}}}", claims().to_string().trim_end_matches('}'))
}

fn good(sample: &Sample) -> String {
    sample.sign(&sample.header().to_string(), &claims().to_string())
}

impl Rig {
    async fn verifies(&self, token: &str) -> Result<VerifiedCaller, TokenRejected> {
        self.verifier.verify(token).await
    }

    async fn accepts_claims(&self, claims: &str) -> bool {
        self.verifies(&self.ec.sign(&self.ec.header().to_string(), claims)).await.is_ok()
    }

    async fn accepts_header(&self, header: &str) -> bool {
        self.verifies(&self.rsa.sign(header, &claims().to_string())).await.is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_provider_says_who_asks() {
    let rig = rig().await;
    let claims = claims_with(&json!({
        "aud": ["other", AUDIENCE], "jti": "t1", "client": "editor", "scope": "write:/notes/",
        "act": { "sub": "bob" }, "vault": "v", "role": "editor",
        // What makes an owner of a local token does not make one here.
        "owner": true, "records": "owner", "grant": "g",
    }));
    for sample in [&rig.rsa, &rig.ec] {
        let verified =
            rig.verifies(&sample.sign(&sample.header().to_string(), &claims)).await.unwrap();
        assert_eq!(verified.expires, clock() + Duration::from_secs(100));
        let principal = &verified.principal;
        assert_eq!(
            (principal.subject(), principal.token(), principal.client()),
            ("ann", Some("t1"), Some("editor"))
        );
        assert!(principal.scopes().cover(Verb::Write, &SpacePath::parse("/notes/a").unwrap()));
        assert!(!principal.scopes().cover(Verb::Read, &SpacePath::parse("/other").unwrap()));
        assert_eq!(principal.records(), &RecordsClaim::Grant("g".into()));
        let identity = IdentityClaims {
            issuer: Some(ISSUER.into()),
            actor: "bob".into(),
            vault: VaultClaim::One("v".into()),
            role: Role::Editor,
            audiences: vec!["other".to_owned(), AUDIENCE.to_owned()],
        };
        assert_eq!(verified.identity, identity);
    }
    let plain = rig.verifies(&good(&rig.rsa)).await.unwrap();
    assert_eq!((plain.principal.token(), plain.principal.client()), (None, None));
    assert_eq!(plain.identity.actor.as_ref(), "ann");
    assert_eq!((plain.identity.vault, plain.identity.role), (VaultClaim::None, Role::Viewer));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_the_owner_of_records_by_the_word_of_a_provider() {
    let rig = rig().await;
    for records in
        [json!("owner"), json!(["owner"]), json!(true), json!(null), json!({ "owner": true })]
    {
        let claims = claims_with(&json!({ "records": records, "owner": true, "role": "owner" }));
        let verified =
            rig.verifies(&rig.ec.sign(&rig.ec.header().to_string(), &claims)).await.unwrap();
        assert_eq!(verified.principal.records(), &RecordsClaim::None, "{claims}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_valid_shape_is_accepted() {
    let rig = rig().await;
    for changes in [
        json!({}),
        json!({ "aud": [AUDIENCE] }),
        json!({ "aud": ["other", AUDIENCE, AUDIENCE] }),
        json!({ "scope": null }),
        json!({ "client": "x" }),
        json!({ "jti": "x" }),
        json!({ "iat": null }),
        json!({ "iat": null, "exp": NOW + 366 * DAY }),
        json!({ "nbf": NOW + 5 }),
        json!({ "nbf": 0 }),
        json!({ "iat": NOW + 5 }),
        json!({ "iat": NOW + 5, "exp": NOW + 5 + 366 * DAY }),
        json!({ "exp": NOW - 4, "iat": NOW - 100 }),
        json!({ "iat": NOW - 1000, "exp": NOW - 1000 + 366 * DAY }),
        json!({ "exp": NOW as f64 + 100.5, "iat": NOW as f64 - 0.25, "nbf": 1.5 }),
        json!({ "sub": "a".repeat(255) }),
        json!({ "sub": "auth0|5f7c 8ec7" }),
        json!({ "sub": "Åsa" }),
        json!({ "records": 7, "grant": "g" }),
        json!({ "azp": "x", "auth_time": 1, "nonce": null, "groups": ["a"], "owner": true }),
    ] {
        assert!(rig.accepts_claims(&claims_with(&changes)).await, "{changes}");
    }
    for text in ["1.8000001e9", "1800000100.0", "18000001e2"] {
        let claims = claims().to_string().replace("1800000100", text);
        assert!(rig.accepts_claims(&claims).await, "{claims}");
    }
    for header in [
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"RS256","kid":"rsa-1"}"#,
        r#"{"alg":"RS256","typ":"JWT"}"#,
        r#"{"alg":"RS256","typ":"jwt"}"#,
        r#"{"alg":"RS256","typ":"at+jwt"}"#,
        r#"{"alg":"RS256","typ":"AT+JWT"}"#,
        r#"{"alg":"RS256","typ":"application/at+jwt"}"#,
        r#"{"alg":"RS256","typ":"Application/AT+JWT"}"#,
        r#"{"alg":"RS256","x5t":"x","x5t#S256":"x","x5c":["MIIB"],"cty":"JWT","iss":"x","nonce":"x"}"#,
        " { \"alg\" :\n\"RS256\" } ",
    ] {
        assert!(rig.accepts_header(header).await, "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_wrong_are_refused_though_signed() {
    let rig = rig().await;
    for changes in [
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": 7 }),
        json!({ "grant": 7 }),
        json!({ "grant": ["g"] }),
        json!({ "grant": "" }),
        json!({ "grant": "a b" }),
        json!({ "sub": ["ann"] }),
        json!({ "sub": { "id": "ann" } }),
        json!({ "sub": "a".repeat(256) }),
        json!({ "sub": "é".repeat(128) }),
        json!({ "sub": " ann" }),
        json!({ "sub": "ann\u{a0}" }),
        json!({ "sub": "ann\n" }),
        json!({ "sub": "ann\r\nX-User-Id: eve" }),
        json!({ "sub": "an\tn" }),
        json!({ "sub": "ann\u{0}" }),
        json!({ "sub": "a\u{7f}n" }),
        json!({ "sub": "a\u{9b}n" }),
        json!({ "iss": null }),
        json!({ "iss": "" }),
        json!({ "iss": 1 }),
        json!({ "iss": [ISSUER] }),
        json!({ "iss": "https://id.example" }),
        json!({ "iss": "https://id.example/ " }),
        json!({ "iss": "https://ID.example/" }),
        json!({ "iss": "https://evil.example/" }),
        json!({ "aud": null }),
        json!({ "aud": "" }),
        json!({ "aud": "https://notes.example/" }),
        json!({ "aud": "https://notes.example/mcp/" }),
        json!({ "aud": format!("{AUDIENCE} other") }),
        json!({ "aud": 7 }),
        json!({ "aud": [] }),
        json!({ "aud": [1] }),
        json!({ "aud": [AUDIENCE, 1] }),
        json!({ "aud": [[AUDIENCE]] }),
        json!({ "aud": { "0": AUDIENCE } }),
        json!({ "exp": null }),
        json!({ "exp": NOW - 5, "iat": NOW - 100 }),
        json!({ "exp": NOW - 30, "iat": NOW - 100 }),
        json!({ "exp": NOW as f64 - 4.5, "iat": NOW - 100 }),
        json!({ "exp": "2000000000" }),
        json!({ "exp": [NOW + 100] }),
        json!({ "exp": true }),
        json!({ "exp": 1e308 }),
        json!({ "exp": 1e16 }),
        json!({ "exp": -1 }),
        json!({ "exp": -0.5 }),
        json!({ "exp": 0 }),
        json!({ "exp": u64::MAX }),
        json!({ "exp": i64::MAX }),
        json!({ "exp": i64::MAX, "iat": null }),
        json!({ "exp": NOW + 366 * DAY + 1 }),
        json!({ "exp": NOW + 366 * DAY + 6, "iat": null }),
        json!({ "exp": NOW + 366 * DAY + 6, "iat": NOW + 5 }),
        json!({ "exp": NOW + 50 * 366 * DAY }),
        json!({ "iat": NOW + 6 }),
        json!({ "iat": "1800000000" }),
        json!({ "iat": -1 }),
        json!({ "iat": NOW + 4, "exp": NOW + 4 }),
        json!({ "iat": NOW + 4, "exp": NOW + 2 }),
        json!({ "iat": NOW - 366 * DAY, "exp": NOW + 100 }),
        json!({ "iat": [] }),
        json!({ "nbf": NOW + 6 }),
        json!({ "nbf": NOW + 3600 }),
        json!({ "nbf": "0" }),
        json!({ "nbf": -1 }),
        json!({ "nbf": -0.5 }),
        json!({ "nbf": [0] }),
        json!({ "nbf": u64::MAX }),
        json!({ "jti": "" }),
        json!({ "jti": 1 }),
        json!({ "jti": ["x"] }),
        json!({ "scope": 7 }),
        json!({ "scope": ["read:/"] }),
        json!({ "client": 7 }),
        json!({ "client": ["x"] }),
        json!({ "act": "bob" }),
        json!({ "act": {} }),
        json!({ "act": { "sub": "" } }),
        json!({ "act": [{ "sub": "bob" }] }),
    ] {
        assert!(!rig.accepts_claims(&claims_with(&changes)).await, "{changes}");
    }
    for name in ["sub", "iss", "aud", "exp", "iat", "nbf", "jti", "scope", "client", "act"] {
        let mut claims = claims();
        claims[name] = Value::Null;
        assert!(!rig.accepts_claims(&claims.to_string()).await, "{name} is null");
    }
    let listed = json!([
        "ann",
        ISSUER,
        AUDIENCE,
        NOW + 100,
        NOW,
        NOW,
        "t1",
        "read:/",
        "x",
        null,
        null,
        null
    ]);
    for (what, claims) in [
        ("a repeated scope", claims_and(r#""scope":"write:/""#)),
        ("a repeated exp", claims_and(r#""exp":1800000100"#)),
        ("a repeated sub", claims_and(r#""sub":"eve""#)),
        ("a repeated claim that nobody reads", claims_and(r#""x":1,"x":2"#)),
        ("a repeated claim, deep", claims_and(r#""x":[{"y":1,"y":2}]"#)),
        ("a repeated claim, escaped", claims_and(r#""\u0073ub":"eve""#)),
        ("a time too large for any number", claims_and(r#""nbf":1e400"#)),
        ("a list of claims", listed.to_string()),
        ("a list", "[]".to_owned()),
        ("no JSON", "sub=ann".to_owned()),
        ("twice", claims().to_string().repeat(2)),
        ("null", "null".to_owned()),
        ("nothing", String::new()),
        ("a byte order mark", format!("\u{feff}{}", claims())),
        ("deep", "{\"a\":".repeat(800)),
    ] {
        assert!(!rig.accepts_claims(&claims).await, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_vault_leaves_the_token_valid_and_is_told() {
    let rig = rig().await;
    for vault in ["null", "[\"v\"]", "\"\"", "7"] {
        let claims = claims_and(&format!(r#""vault":{vault},"role":null"#));
        let verified =
            rig.verifies(&rig.ec.sign(&rig.ec.header().to_string(), &claims)).await.unwrap();
        assert_eq!(
            (verified.identity.vault, verified.identity.role),
            (VaultClaim::Malformed, Role::Viewer)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_scope_grants_nothing_and_leaves_the_token_valid() {
    let rig = rig().await;
    let claims = claims_with(&json!({ "scope": "openid read:/" }));
    let verified = rig.verifies(&rig.ec.sign(&rig.ec.header().to_string(), &claims)).await.unwrap();
    assert!(verified.principal.scopes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn headers_that_are_wrong_are_refused_though_signed() {
    let rig = rig().await;
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"nOnE"}"#,
        r#"{"alg":""}"#,
        r#"{"alg":"rs256"}"#,
        r#"{"alg":"RS256 "}"#,
        r#"{"alg":"RS384"}"#,
        r#"{"alg":"RS512"}"#,
        r#"{"alg":"PS256"}"#,
        r#"{"alg":"HS256"}"#,
        r#"{"alg":"ES256"}"#,
        r#"{"alg":"ES384"}"#,
        r#"{"alg":"EdDSA"}"#,
        r#"{"alg":["RS256"]}"#,
        r#"{"alg":null}"#,
        r#"{}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":"RS256","typ":"secevent+jwt"}"#,
        r#"{"alg":"RS256","typ":"dpop+jwt"}"#,
        r#"{"alg":"RS256","typ":"application/jwt"}"#,
        r#"{"alg":"RS256","typ":""}"#,
        r#"{"alg":"RS256","typ":" JWT"}"#,
        r#"{"alg":"RS256","typ":null}"#,
        r#"{"alg":"RS256","typ":["JWT"]}"#,
        r#"{"alg":"RS256","kid":null}"#,
        r#"{"alg":"RS256","kid":7}"#,
        r#"{"alg":"RS256","kid":["rsa-1"]}"#,
        r#"{"alg":"RS256","kid":""}"#,
        r#"{"alg":"RS256","kid":"ec"}"#,
        r#"{"alg":"RS256","kid":"RSA-1"}"#,
        r#"{"alg":"RS256","kid":"rsa-1\u0000"}"#,
        r#"{"alg":"RS256","kid":"../../etc/passwd"}"#,
        r#"{"alg":"RS256","kid":"' OR 1=1 --"}"#,
        r#"{"alg":"RS256","alg":"RS256"}"#,
        r#"{"alg":"none","alg":"RS256"}"#,
        r#"{"alg":"RS256","\u0061lg":"RS256"}"#,
        r#"{"alg":"RS256","kid":"rsa-1","kid":"rsa-1"}"#,
        r#"{"alg":"RS256","x":{"y":1,"y":1}}"#,
        r#"{"alg":"RS256","crit":["x"],"x":1}"#,
        r#"{"alg":"RS256","crit":[]}"#,
        r#"{"alg":"RS256","crit":null}"#,
        r#"{"alg":"RS256","crit":["exp"],"exp":1}"#,
        r#"{"alg":"RS256","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"RS256","jku":"https://id.example/keys"}"#,
        r#"{"alg":"RS256","jku":null}"#,
        r#"{"alg":"RS256","x5u":"https://evil.example/cert"}"#,
        r#"{"alg":"RS256","jwk":{"kty":"oct","k":"AAAA"}}"#,
        r#"{"alg":"RS256","zip":"DEF"}"#,
        r#"{"alg":"RS256","enc":"A256GCM"}"#,
        r#"["RS256"]"#,
        r#"["RS256","JWT","rsa-1"]"#,
        r#""RS256""#,
        "null",
        "",
        "\u{feff}{\"alg\":\"RS256\"}",
        "{\"alg\":\"RS256\"}{}",
    ] {
        assert!(!rig.accepts_header(header).await, "{header}");
    }
    // A key in the header is not used, though it would fit.
    let header = with(&rig.rsa.header(), &json!({ "jwk": rig.rsa.jwk() }));
    assert!(!rig.accepts_header(&header.to_string()).await);
}

/// RFC 8725, section 2.1: what a provider publishes is no secret.
#[tokio::test(start_paused = true)]
async fn a_public_key_is_not_taken_for_a_secret() {
    let rig = rig().await;
    for sample in [&rig.rsa, &rig.ec] {
        let jwk = sample.jwk();
        let member = |name: &str| jwk[name].as_str().unwrap_or_default();
        let decoded = |name: &str| URL_SAFE_NO_PAD.decode(member(name)).unwrap();
        let der = sample.public_der().to_vec();
        let pem = pem("RSA PUBLIC KEY", &der);
        let secrets = [
            pem.trim_end().as_bytes().to_vec(),
            pem.as_bytes().to_vec(),
            pem.replace("RSA PUBLIC KEY", "PUBLIC KEY").into_bytes(),
            der,
            decoded("n"),
            decoded("x"),
            decoded("y"),
            member("n").as_bytes().to_vec(),
            member("x").as_bytes().to_vec(),
            jwk.to_string().into_bytes(),
            document(std::slice::from_ref(&jwk)),
            Vec::new(),
        ];
        for secret in secrets {
            for algorithm in ["HS256", "RS256", "ES256"] {
                for kid in [Some(sample.kid), None] {
                    let header = with(&json!({ "alg": algorithm }), &json!({ "kid": kid }));
                    let message =
                        format!("{}.{}", b64(header.to_string()), b64(claims().to_string()));
                    let tag =
                        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
                    assert!(
                        rig.verifies(&format!("{message}.{}", b64(tag))).await.is_err(),
                        "{header}"
                    );
                }
            }
        }
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// A set may say that it holds a shared secret. It is then public, and no key.
#[tokio::test(start_paused = true)]
async fn a_secret_in_the_set_signs_nothing() {
    let ec = Sample::ec("ec");
    let secret =
        json!({ "kty": "oct", "kid": "secret", "alg": "HS256", "use": "sig", "k": b64([7; 32]) });
    let verifier = verifier(&[secret, ec.jwk()]).await;
    for algorithm in ["HS256", "RS256", "ES256"] {
        let header = json!({ "alg": algorithm, "kid": "secret" });
        let message = format!("{}.{}", b64(header.to_string()), b64(claims().to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), message.as_bytes());
        assert!(verifier.verify(&format!("{message}.{}", b64(tag))).await.is_err(), "{algorithm}");
    }
    assert!(verifier.verify(&good(&ec)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_other_kind_is_not_used_whatever_its_name() {
    let rig = rig().await;
    let (rsa, ec, claims) = (&rig.rsa, &rig.ec, claims().to_string());
    for (signer, algorithm, kid) in [
        (rsa, "RS256", "ec"),
        (rsa, "ES256", "rsa-1"),
        (rsa, "ES256", "ec"),
        (ec, "ES256", "rsa-1"),
        (ec, "RS256", "ec"),
        (ec, "RS256", "rsa-1"),
    ] {
        let header = json!({ "alg": algorithm, "kid": kid }).to_string();
        assert!(rig.verifies(&signer.sign(&header, &claims)).await.is_err(), "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_not_for_this_sign_nothing() {
    let (rsa, other) = (Sample::rsa("rsa-1"), Sample::ec("ec"));
    let token = good(&rsa);
    for changes in [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["encrypt"] }),
        json!({ "alg": "PS256" }),
        json!({ "alg": "RS512" }),
        json!({ "d": "AQAB" }),
        json!({ "e": "Aw" }),
    ] {
        let verifier = verifier(&[with(&rsa.jwk(), &changes), other.jwk()]).await;
        assert!(verifier.verify(&token).await.is_err(), "{changes}");
    }
    assert!(verifier(&[rsa.jwk(), other.jwk()]).await.verify(&token).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn tokens_that_the_provider_did_not_sign_are_refused() {
    let rig = rig().await;
    let (second, stranger) = (Sample::rsa("rsa-2"), Sample::ec("ec"));
    let none = b64(r#"{"alg":"none"}"#);
    let claims = claims().to_string();
    for sample in [&rig.rsa, &rig.ec] {
        let token = good(sample);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, payload) = message.split_once('.').unwrap();
        let bytes = sample.signature(message.as_bytes());
        let sized = |length: usize| {
            sample.sign(
                &sample.header().to_string(),
                &claims_with(&json!({ "x": "y".repeat(length) })),
            )
        };
        for (what, token) in [
            ("nothing", String::new()),
            ("dots", "..".to_owned()),
            ("two parts", message.to_owned()),
            ("four parts", format!("{token}.{signature}")),
            (
                "five parts, as if encrypted",
                format!("{header}.{payload}.{signature}.{payload}.{signature}"),
            ),
            ("an empty signature", format!("{message}.")),
            ("none and an empty signature", format!("{none}.{payload}.")),
            ("none and no signature", format!("{none}.{payload}")),
            ("none and the signature", format!("{none}.{payload}.{signature}")),
            (
                "another payload",
                format!("{header}.{}.{signature}", b64(claims_with(&json!({ "sub": "eve" })))),
            ),
            (
                "another header",
                format!(
                    "{}.{payload}.{signature}",
                    b64(json!({ "alg": sample.algorithm() }).to_string())
                ),
            ),
            ("an empty payload", format!("{header}..{signature}")),
            ("zeros for a signature", format!("{message}.{}", b64(vec![0; bytes.len()]))),
            ("half a signature", format!("{message}.{}", b64(&bytes[..bytes.len() / 2]))),
            ("a longer signature", format!("{message}.{}", b64([&bytes[..], &[0]].concat()))),
            ("padding", format!("{token}=")),
            ("more padding", format!("{token}==")),
            ("a newline", format!("{token}\n")),
            ("a space", format!(" {token}")),
            ("a NUL", format!("{token}\0")),
            ("text that is not ASCII", format!("é{token}")),
            (
                "the JSON form",
                json!({ "protected": header, "payload": payload, "signature": signature })
                    .to_string(),
            ),
            ("another RSA key", second.sign(&rig.rsa.header().to_string(), &claims)),
            (
                "another RSA key that is not in the set",
                second.sign(&second.header().to_string(), &claims),
            ),
            (
                "another EC key of the same name",
                stranger.sign(&rig.ec.header().to_string(), &claims),
            ),
            ("claims that are not UTF-8", format!("{header}.{}.{signature}", b64([0xff; 20]))),
            ("a megabyte", sized(1 << 20)),
            ("over eight kilobytes", sized(6200)),
            ("a megabyte of dots", ".".repeat(1 << 20)),
        ] {
            assert!(rig.verifies(&token).await.is_err(), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn signatures_of_another_form_are_refused_with_their_right_name() {
    let rig = rig().await;
    let message = |sample: &Sample| {
        format!("{}.{}", b64(sample.header().to_string()), b64(claims().to_string()))
    };
    let (rsa, ec) = (message(&rig.rsa), message(&rig.ec));
    for token in [
        format!("{ec}.{}", b64(rig.ec.der_signature(ec.as_bytes()))),
        format!("{ec}.{}", b64([0; 64])),
        format!("{rsa}.{}", b64(rig.rsa.pss_signature(rsa.as_bytes()))),
        format!("{rsa}.{}", b64(rig.rsa.sha512_signature(rsa.as_bytes()))),
    ] {
        assert_eq!(
            rig.verifies(&token).await.unwrap_err(),
            TokenRejected("the signature is not right")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_just_eight_kilobytes_is_accepted() {
    let rig = rig().await;
    let sized = |length: usize| {
        rig.ec.sign(&rig.ec.header().to_string(), &claims_with(&json!({ "x": "y".repeat(length) })))
    };
    let length = (5000..7000).rev().find(|length| sized(*length).len() <= MAX_TOKEN_BYTES).unwrap();
    assert!(rig.verifies(&sized(length)).await.is_ok());
    assert_eq!(
        rig.verifies(&sized(length + 2)).await.unwrap_err(),
        TokenRejected("the token is too long")
    );
}

#[tokio::test(start_paused = true)]
async fn a_reason_holds_nothing_of_the_token() {
    let rig = rig().await;
    let header = json!({ "alg": "ES256", "kid": "canary" }).to_string();
    for token in [
        rig.ec.sign(&header, &claims().to_string()),
        rig.ec.sign(
            &rig.ec.header().to_string(),
            &claims_with(&json!({ "iss": "canary", "sub": "canary" })),
        ),
    ] {
        let reason = rig.verifies(&token).await.unwrap_err();
        assert!(!format!("{reason} {reason:?}").contains("canary"));
    }
}

/// All of them, since they are few: about 5,000 for RS256.
#[tokio::test(start_paused = true)]
async fn any_single_bit_flipped_in_any_part_is_refused() {
    let rig = rig().await;
    for sample in [&rig.rsa, &rig.ec] {
        let token = good(sample);
        let parts: Vec<Vec<u8>> =
            token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
        for (part, bytes) in parts.iter().enumerate() {
            for bit in 0..bytes.len() * 8 {
                let mut changed = parts.clone();
                changed[part][bit / 8] ^= 1 << (bit % 8);
                let changed: Vec<String> = changed.iter().map(b64).collect();
                assert!(rig.verifies(&changed.join(".")).await.is_err(), "part {part}, bit {bit}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_single_character_changed_anywhere_is_refused() {
    let rig = rig().await;
    let token = good(&rig.ec);
    for at in 0..token.len() {
        for to in ['A', 'Q', 'z', '5', '-', '_', '.', '=', '+', ' '] {
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to.to_string());
            assert_eq!(rig.verifies(&changed).await.is_ok(), changed == token, "{at} {to}");
        }
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_text_is_refused_without_a_panic(
        texts in proptest::collection::vec("\\PC{0,80}|[A-Za-z0-9_.-]{0,80}", 40),
    ) {
        now(async {
            let rig = rig().await;
            for text in texts {
                assert!(rig.verifies(&text).await.is_err(), "{text}");
            }
        });
    }

    #[test]
    fn arbitrary_bytes_that_the_provider_signed_never_panic(
        payloads in proptest::collection::vec(any::<Vec<u8>>(), 40),
    ) {
        now(async {
            let rig = rig().await;
            for payload in payloads {
                let message = format!("{}.{}", b64(rig.ec.header().to_string()), b64(payload));
                let token = format!("{message}.{}", b64(rig.ec.signature(message.as_bytes())));
                assert!(rig.verifies(&token).await.is_err());
            }
        });
    }

    #[test]
    fn times_are_judged_as_the_rules_say(
        exp in -10..400 * DAY,
        iat in proptest::option::of(-400 * DAY..10),
        nbf in proptest::option::of(-10..10_i64),
    ) {
        now(async {
            let rig = rig().await;
            let at = |time: Option<i64>| time.map(|time| NOW + time);
            let claims = claims_with(&json!({ "exp": NOW + exp, "iat": at(iat), "nbf": at(nbf) }));
            let is_right = exp > -5
                && exp <= 366 * DAY + 5
                && nbf.is_none_or(|nbf| nbf <= 5)
                && iat.is_none_or(|iat| iat <= 5 && iat < exp && exp - iat <= 366 * DAY);
            assert_eq!(rig.accepts_claims(&claims).await, is_right, "{claims}");
        });
    }
}
