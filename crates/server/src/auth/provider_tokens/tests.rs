//! Which claims of a provider's token are accepted, and what they say about the caller.

mod forgeries;

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::{Value, json};
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_domain::scope::Verb;

use super::*;
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

/// A provider with an RSA key and a P-256 key, and a verifier for its tokens.
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
    let keys = ProviderKeys::new(Published(document(keys)));
    keys.refresh().await.unwrap();
    ProviderVerifier::new(keys, ISSUER, AUDIENCE, clock)
}

fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "sub": "ann",
        "aud": AUDIENCE,
        "iat": NOW,
        "exp": NOW + 100,
        "scope": "read:/",
    })
}

fn claims_with(changes: &Value) -> String {
    with(&claims(), changes).to_string()
}

/// Good claims with one more member at the end.
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
async fn a_provider_token_identifies_the_caller() {
    let rig = rig().await;
    let claims = claims_with(&json!({
        "aud": ["other", AUDIENCE], "jti": "t1", "client": "editor", "scope": "write:/notes/",
        "act": { "sub": "bob" }, "vault": "v", "role": "editor",
        // In a token of this server, `records` would make the caller the owner.
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
async fn a_provider_token_never_makes_the_owner_of_records() {
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
async fn every_valid_form_is_accepted() {
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
async fn wrong_claims_are_refused_despite_a_valid_signature() {
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
async fn a_malformed_vault_is_reported_and_leaves_the_token_valid() {
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
    fn times_are_judged_by_the_stated_rules(
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
