//! Which tokens of this server are accepted, and which forgeries are refused.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::state::{StateDir, TokenKind, TokenRecord};

use super::*;
use crate::auth::jws::MAX_TOKEN_BYTES;
use crate::auth::samples::{b64, with};
use crate::auth::{IdentityClaims, MAX_LIFE, MintRequest, Minter, ShownToken, VaultClaim};

const NOW: i64 = 1_800_000_000;
/// The space of the tests.
const HERE: &str = "urn:uuid:7c0f4f0e-8d3b-4a0c-9f53-0d9f3f1a2b11";
const HEADER: &str = r#"{"typ":"JWT","alg":"HS256"}"#;

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW as u64)
}

struct Rig {
    _folder: tempfile::TempDir,
    key: TokenKey,
    tokens: Arc<TokenStore>,
    verifier: LocalVerifier,
}

fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let key = TokenKey::open(&state).unwrap();
    let tokens = Arc::new(TokenStore::open(&state).unwrap());
    let record = TokenRecord {
        jti: "t1".to_owned(),
        audience: Some(HERE.to_owned()),
        kind: TokenKind::Bearer,
        subject: "ann".to_owned(),
        client: None,
        grant: None,
        owner: false,
        scopes: String::new(),
        issued: NOW,
        expires: NOW + 100,
        revoked: None,
    };
    tokens.record(&record).unwrap();
    tokens
        .record(&TokenRecord { jti: "revoked".to_owned(), revoked: Some(NOW), ..record })
        .unwrap();
    let verifier = LocalVerifier::new(&key, HERE, Arc::clone(&tokens), clock);
    Rig { _folder: folder, key, tokens, verifier }
}

impl Rig {
    fn minter(&self) -> Minter<'_> {
        Minter { key: &self.key, tokens: &self.tokens, audience: HERE }
    }

    fn claims(&self) -> Value {
        json!({
            "sub": "ann",
            "aud": HERE,
            "jti": "t1",
            "iat": NOW,
            "exp": NOW + 100,
            "scope": "read:/",
        })
    }

    /// Good claims with some replaced; `null` removes one.
    fn claims_with(&self, changes: Value) -> String {
        with(&self.claims(), &changes).to_string()
    }

    fn sign(&self, header: &str, payload: &str) -> String {
        sign(hmac::HMAC_SHA256, &self.key.secret, header, payload)
    }

    fn good(&self) -> String {
        self.sign(HEADER, &self.claims().to_string())
    }

    fn accepts(&self, changes: Value) -> bool {
        self.verifier.verify_now(&self.sign(HEADER, &self.claims_with(changes))).is_ok()
    }
}

fn sign(algorithm: hmac::Algorithm, secret: &[u8], header: &str, payload: &str) -> String {
    let message = format!("{}.{}", b64(header), b64(payload));
    let tag = hmac::sign(&hmac::Key::new(algorithm, secret), message.as_bytes());
    format!("{message}.{}", b64(tag))
}

#[test]
fn a_minted_token_is_accepted_until_it_is_revoked() {
    let rig = rig();
    let request = MintRequest {
        subject: "ann".to_owned(),
        scopes: [Scope::parse_raw("write:/my notes/").unwrap()].into_iter().collect(),
        client: Some("editor".to_owned()),
        records: RecordsClaim::None,
        life: Duration::from_secs(60),
    };
    let minted = rig.minter().mint(&request, clock()).unwrap();
    let verified = rig.verifier.verify_now(&minted.token).unwrap();
    assert_eq!(verified.expires, clock() + request.life);
    let principal = verified.principal;
    assert_eq!((principal.subject(), principal.token()), ("ann", Some(minted.jti.as_str())));
    assert_eq!(principal.client(), Some("editor"));
    assert!(principal.scopes().cover(Verb::Write, &SpacePath::parse("/my notes/a").unwrap()));
    assert!(!principal.scopes().cover(Verb::Read, &SpacePath::parse("/other").unwrap()));
    rig.tokens.revoke(&minted.jti, NOW).unwrap();
    assert!(rig.verifier.verify_now(&minted.token).is_err());
}

#[test]
fn a_token_of_an_approval_allows_nothing_by_itself() {
    let rig = rig();
    // The state has this token, and no approval under which it was issued.
    assert!(rig.accepts(json!({})));
    assert!(!rig.accepts(json!({ "approval": "one" })));
    assert!(!rig.accepts(json!({ "approval": "" })));
}

#[test]
fn a_token_is_refused_for_every_other_space_and_says_so() {
    let rig = rig();
    let refused = |audience: &str| {
        rig.verifier
            .verify_now(&rig.sign(HEADER, &rig.claims_with(json!({ "aud": audience }))))
            .map(drop)
            .unwrap_err()
    };
    assert_eq!(
        refused("urn:uuid:00000000-0000-4000-8000-000000000000"),
        TokenRejected::OTHER_SPACE
    );
    assert_eq!(refused(&rig.key.audience), TokenRejected::OLD);
}

#[test]
fn a_terminal_shows_one_token_again_while_it_is_valid_for_another_day() {
    let rig = rig();
    let day = Duration::from_secs(24 * 60 * 60);
    let request = MintRequest {
        subject: "ann".to_owned(),
        scopes: [Scope::everything(Verb::Write)].into_iter().collect(),
        client: None,
        records: RecordsClaim::None,
        life: 30 * day,
    };
    let shown = |days: u32| rig.minter().mint_shown(&request, clock() + days * day).unwrap();
    let ShownToken::New(first) = shown(0) else { panic!("no token was shown before") };
    assert!(rig.verifier.verify_now(&first.token).is_ok());
    for days in [0, 1, 29] {
        let ShownToken::Again(again) = shown(days) else { panic!("a new token") };
        assert_eq!((again.token, again.expires), (first.token.clone(), first.expires));
    }
    let ShownToken::New(late) = shown(30) else { panic!("the token expires within a day") };
    rig.tokens.revoke(&late.jti, NOW).unwrap();
    assert!(matches!(shown(30), ShownToken::New(_)), "the last one was revoked");

    // A token that was handed out is nobody else's to show, and neither is one of another space.
    rig.minter().mint(&request, clock() + 60 * day).unwrap();
    assert!(matches!(shown(60), ShownToken::New(_)));
    let elsewhere = Minter { audience: "urn:uuid:else", ..rig.minter() };
    let other = elsewhere.mint_shown(&request, clock() + 60 * day).unwrap();
    assert!(matches!(other, ShownToken::New(_)));
}

#[test]
fn a_minted_token_carries_its_access_to_records() {
    let rig = rig();
    for records in [RecordsClaim::None, RecordsClaim::Owner, RecordsClaim::Grant("g-1".into())] {
        let subject = "ann".to_owned();
        let request =
            MintRequest { subject, scopes: Scopes::none(), client: None, records, life: MAX_LIFE };
        let minted = rig.minter().mint(&request, clock()).unwrap();
        assert_eq!(
            rig.verifier.verify_now(&minted.token).unwrap().principal.records(),
            &request.records
        );
        let recorded =
            rig.tokens.list().unwrap().into_iter().find(|token| token.jti == minted.jti).unwrap();
        let (grant, is_owner) = match &request.records {
            RecordsClaim::None | RecordsClaim::Import(_) => (None, false),
            RecordsClaim::Owner => (None, true),
            RecordsClaim::Grant(grant) => (Some(grant.to_string()), false),
        };
        assert_eq!((recorded.grant, recorded.owner), (grant, is_owner));
    }
}

#[test]
fn a_token_that_would_be_refused_is_not_minted() {
    let rig = rig();
    let good = MintRequest {
        subject: "ann".to_owned(),
        scopes: Scopes::none(),
        client: None,
        records: RecordsClaim::None,
        life: MAX_LIFE,
    };
    assert!(rig.minter().mint(&good, clock()).is_ok());
    let scope =
        Scope::parse_raw(&format!("read:/{}", vec!["x".repeat(200); 20].join("/"))).unwrap();
    for bad in [
        MintRequest { subject: String::new(), ..good.clone() },
        MintRequest { subject: "a\nb".to_owned(), ..good.clone() },
        MintRequest { client: Some("\u{1b}[2J".to_owned()), ..good.clone() },
        MintRequest { client: Some("Command  line".to_owned()), ..good.clone() },
        MintRequest { client: Some("stile-doctor".to_owned()), ..good.clone() },
        MintRequest { client: Some("x (self-named)".to_owned()), ..good.clone() },
        MintRequest { life: Duration::ZERO, ..good.clone() },
        MintRequest { records: RecordsClaim::Grant("a b".into()), ..good.clone() },
        MintRequest { life: MAX_LIFE + Duration::from_secs(1), ..good.clone() },
        MintRequest { scopes: [scope.clone(), scope].into_iter().collect(), ..good },
    ] {
        assert!(rig.minter().mint(&bad, clock()).is_err(), "{bad:?}");
    }
    assert_eq!(rig.tokens.list().unwrap().len(), 3, "nothing was recorded for what was not minted");
}

#[test]
fn every_valid_form_is_accepted() {
    let rig = rig();
    assert!(rig.verifier.verify_now(&rig.good()).is_ok());
    assert!(
        rig.verifier.verify_now(&rig.sign(r#"{"alg":"HS256"}"#, &rig.claims().to_string())).is_ok()
    );
    let ours = HERE;
    for changes in [
        json!({ "aud": [ours] }),
        json!({ "aud": ["other", ours] }),
        json!({ "scope": null }),
        json!({ "client": "x" }),
        json!({ "nbf": NOW + 5 }),
        json!({ "iat": NOW + 5 }),
        json!({ "exp": NOW - 4, "iat": NOW - 100 }),
        json!({ "iat": NOW - 1000, "exp": NOW - 1000 + 366 * 86400 }),
        json!({ "iss": "whoever", "grant": "g", "act": { "sub": "x" } }),
    ] {
        assert!(rig.accepts(changes.clone()), "{changes}");
    }
}

#[test]
fn a_malformed_scope_grants_nothing_and_leaves_the_token_valid() {
    let rig = rig();
    let token = rig.sign(HEADER, &rig.claims_with(json!({ "scope": "read:/ openid" })));
    assert!(rig.verifier.verify_now(&token).unwrap().principal.scopes().is_empty());
}

#[test]
fn a_local_token_names_the_actor_the_vault_and_the_role() {
    let rig = rig();
    let identity = |changes: Value| {
        rig.verifier.verify_now(&rig.sign(HEADER, &rig.claims_with(changes))).unwrap().identity
    };
    let plain = IdentityClaims {
        issuer: None,
        actor: "ann".into(),
        vault: VaultClaim::None,
        role: Role::Viewer,
        audiences: vec![HERE.to_owned()],
    };
    assert_eq!(identity(json!({})), plain);
    // The issuer of a local token is this server, whatever the token says.
    let full = json!({ "iss": "x", "act": { "sub": "bob" }, "vault": "v", "role": "editor" });
    let vault = VaultClaim::One("v".into());
    assert_eq!(
        identity(full),
        IdentityClaims { actor: "bob".into(), vault, role: Role::Editor, ..plain.clone() }
    );
    let several = json!({ "vault": ["v", "w"], "role": "owner" });
    assert_eq!(identity(several), IdentityClaims { vault: VaultClaim::Malformed, ..plain });
}

#[test]
fn wrong_claims_are_refused_despite_a_valid_signature() {
    let rig = rig();
    for changes in [
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": 7 }),
        json!({ "sub": ["ann"] }),
        json!({ "aud": null }),
        json!({ "aud": "" }),
        json!({ "aud": "urn:uuid:00000000-0000-4000-8000-000000000000" }),
        json!({ "aud": 7 }),
        json!({ "aud": [] }),
        json!({ "aud": [1] }),
        json!({ "aud": [rig.key.audience, 1] }),
        json!({ "aud": { "0": rig.key.audience } }),
        json!({ "aud": format!("{} ", rig.key.audience) }),
        json!({ "jti": null }),
        json!({ "jti": "" }),
        json!({ "jti": 1 }),
        json!({ "jti": "unknown" }),
        json!({ "jti": "revoked" }),
        json!({ "jti": "T1" }),
        json!({ "exp": null }),
        json!({ "exp": NOW - 5, "iat": NOW - 100 }),
        json!({ "exp": NOW - 30, "iat": NOW - 100 }),
        json!({ "exp": "2000000000" }),
        json!({ "exp": NOW as f64 + 100.5 }),
        json!({ "exp": 1e308 }),
        json!({ "exp": -1 }),
        json!({ "exp": u64::MAX }),
        json!({ "exp": i64::MAX }),
        json!({ "exp": NOW + 50 * 366 * 86400 }),
        json!({ "exp": NOW + 366 * 86400 + 1 }),
        json!({ "iat": null }),
        json!({ "iat": NOW + 6 }),
        json!({ "iat": "1800000000" }),
        json!({ "iat": NOW + 200, "exp": NOW + 100 }),
        json!({ "iat": i64::MIN }),
        json!({ "nbf": NOW + 6 }),
        json!({ "nbf": NOW + 3600 }),
        json!({ "nbf": "1800000000" }),
        json!({ "nbf": [0] }),
        json!({ "scope": 7 }),
        json!({ "scope": ["read:/"] }),
        json!({ "client": 7 }),
        json!({ "client": ["x"] }),
        json!({ "grant": 7 }),
        json!({ "grant": ["g"] }),
        json!({ "grant": "" }),
        json!({ "grant": "a b" }),
        json!({ "grant": "g".repeat(65) }),
        json!({ "records": true }),
        json!({ "records": "Owner" }),
        json!({ "records": "" }),
        json!({ "records": ["owner"] }),
        json!({ "records": "owner", "grant": "g" }),
        json!({ "act": "bob" }),
        json!({ "act": {} }),
        json!({ "act": { "sub": "" } }),
    ] {
        assert!(!rig.accepts(changes.clone()), "{changes}");
    }
}

#[test]
fn foreign_headers_are_refused_despite_a_valid_signature() {
    let rig = rig();
    let claims = rig.claims().to_string();
    for header in [
        r#"{"typ":"JWT","alg":"none"}"#,
        r#"{"typ":"JWT","alg":"None"}"#,
        r#"{"typ":"JWT","alg":"nOnE"}"#,
        r#"{"typ":"JWT","alg":""}"#,
        r#"{"typ":"JWT","alg":"hs256"}"#,
        r#"{"typ":"JWT","alg":"HS384"}"#,
        r#"{"typ":"JWT","alg":"HS512"}"#,
        r#"{"typ":"JWT","alg":"RS256"}"#,
        r#"{"typ":"JWT","alg":"ES256"}"#,
        r#"{"typ":"JWT","alg":"EdDSA"}"#,
        r#"{"typ":"JWT","alg":["HS256"]}"#,
        r#"{"typ":"JWT","alg":null}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"typ":"at+jwt","alg":"HS256"}"#,
        r#"{"typ":"secevent+jwt","alg":"HS256"}"#,
        r#"{"typ":"jwt","alg":"HS256"}"#,
        r#"{"typ":7,"alg":"HS256"}"#,
        r#"{"typ":"JWT","alg":"HS256","alg":"HS256"}"#,
        r#"{"typ":"JWT","alg":"none","alg":"HS256"}"#,
        r#"{"typ":"JWT","typ":"JWT","alg":"HS256"}"#,
        r#"{"typ":"JWT","alg":"HS256","crit":["x"],"x":1}"#,
        r#"{"typ":"JWT","alg":"HS256","crit":[]}"#,
        r#"{"typ":"JWT","alg":"HS256","crit":null}"#,
        r#"{"typ":"JWT","alg":"HS256","b64":false,"crit":["b64"]}"#,
        r#"{"typ":"JWT","alg":"HS256","jku":"https://evil.example/keys"}"#,
        r#"{"typ":"JWT","alg":"HS256","x5u":"https://evil.example/cert"}"#,
        r#"{"typ":"JWT","alg":"HS256","x5c":["MIIB"]}"#,
        r#"{"typ":"JWT","alg":"HS256","jwk":{"kty":"oct","k":"AAAA"}}"#,
        r#"{"typ":"JWT","alg":"HS256","kid":"../../etc/passwd"}"#,
        r#"{"typ":"JWT","alg":"HS256","zip":"DEF"}"#,
        r#"["HS256"]"#,
        r#""HS256""#,
        "null",
        "",
        "\u{feff}{\"alg\":\"HS256\"}",
    ] {
        assert!(rig.verifier.verify_now(&rig.sign(header, &claims)).is_err(), "{header}");
    }
}

#[test]
fn tokens_that_this_server_did_not_sign_are_refused() {
    // One signature in four has the same spelling in both base64 alphabets. Find one that has not.
    let rigs = std::iter::repeat_with(rig).map(|rig| (rig.good(), rig));
    let differs = |good: &str| {
        good.rsplit('.').next().is_some_and(|signature| signature.contains(['-', '_']))
    };
    let (good, rig) = rigs.into_iter().find(|(good, _)| differs(good)).unwrap();

    let claims = rig.claims().to_string();
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let owned = rig.claims_with(json!({ "scope": "write:/" }));
    let repeated =
        |claim: &str| rig.sign(HEADER, &format!("{},{claim}}}", claims.trim_end_matches('}')));
    let none = r#"{"alg":"none"}"#;
    let listed = Value::Array(rig.claims().as_object().unwrap().values().cloned().collect());
    for (what, token) in [
        ("nothing", String::new()),
        ("dots", "..".to_owned()),
        ("two parts", message.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        (
            "five parts, as if encrypted",
            format!("{header}.{payload}.{signature}.{payload}.{signature}"),
        ),
        ("an empty signature", format!("{message}.")),
        ("none and an empty signature", format!("{}.{payload}.", b64(none))),
        ("none and no signature", format!("{}.{payload}", b64(none))),
        ("none and our signature", format!("{}.{payload}.{signature}", b64(none))),
        ("another payload", format!("{header}.{}.{signature}", b64(&owned))),
        ("another header", format!("{}.{payload}.{signature}", b64(r#"{"alg":"HS256"}"#))),
        ("an empty payload", format!("{header}..{signature}")),
        ("zeros for a signature", format!("{message}.{}", b64([0; 32]))),
        ("half a signature", format!("{message}.{}", &signature[..21])),
        ("padding", format!("{good}=")),
        ("a newline", format!("{good}\n")),
        ("a space", format!(" {good}")),
        ("the other alphabet", format!("{message}.{}", signature.replace(['-', '_'], "+"))),
        ("a NUL", format!("{good}\0")),
        ("text that is not ASCII", format!("é{good}")),
        ("another key", sign(hmac::HMAC_SHA256, &[7; 32], HEADER, &claims)),
        ("an empty key", sign(hmac::HMAC_SHA256, b"", HEADER, &claims)),
        (
            "the audience as key",
            sign(hmac::HMAC_SHA256, rig.key.audience.as_bytes(), HEADER, &claims),
        ),
        (
            "HS384",
            sign(hmac::HMAC_SHA384, &rig.key.secret, r#"{"typ":"JWT","alg":"HS384"}"#, &claims),
        ),
        (
            "HS512",
            sign(hmac::HMAC_SHA512, &rig.key.secret, r#"{"typ":"JWT","alg":"HS512"}"#, &claims),
        ),
        ("HS512 that says HS256", sign(hmac::HMAC_SHA512, &rig.key.secret, HEADER, &claims)),
        ("a repeated scope", repeated(r#""scope":"write:/""#)),
        ("a repeated exp", repeated(r#""exp":1800000100"#)),
        ("a repeated sub", repeated(r#""sub":"eve""#)),
        ("a repeated claim that nobody reads", repeated(r#""x":1,"x":2"#)),
        ("a repeated claim, escaped", repeated(r#""\u0073ub":"eve""#)),
        ("claims that are an empty list", rig.sign(HEADER, "[]")),
        ("the values of the claims in a list", rig.sign(HEADER, &listed.to_string())),
        ("claims that are no JSON", rig.sign(HEADER, "sub=ann")),
        ("claims twice", rig.sign(HEADER, &claims.repeat(2))),
        (
            "null claims",
            rig.sign(HEADER, &rig.claims_with(json!({})).replace("\"read:/\"", "null")),
        ),
        ("deep claims", rig.sign(HEADER, &"{\"a\":".repeat(800))),
        ("claims that are not UTF-8", format!("{header}.{}.{signature}", b64([0xff; 20]))),
        ("a megabyte", rig.sign(HEADER, &rig.claims_with(json!({ "x": "y".repeat(1 << 20) })))),
        (
            "over eight kilobytes",
            rig.sign(HEADER, &rig.claims_with(json!({ "x": "y".repeat(6200) }))),
        ),
        ("a megabyte of dots", ".".repeat(1 << 20)),
    ] {
        assert!(rig.verifier.verify_now(&token).is_err(), "{what}");
    }
}

/// The last character of 32 bytes in base64 has two unused bits.
#[test]
fn other_spellings_of_the_same_signature_are_refused() {
    let rig = rig();
    let good = rig.good();
    let (rest, last) = good.split_at(good.len() - 1);
    let accepted: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['-', '_'])
        .filter(|last| rig.verifier.verify_now(&format!("{rest}{last}")).is_ok())
        .collect();
    assert_eq!(accepted.iter().collect::<String>(), last);
}

#[test]
fn a_token_of_exactly_eight_kilobytes_is_accepted() {
    let rig = rig();
    let sized =
        |length: usize| rig.sign(HEADER, &rig.claims_with(json!({ "x": "y".repeat(length) })));
    let length = (5000..7000).rev().find(|length| sized(*length).len() <= MAX_TOKEN_BYTES).unwrap();
    assert!(rig.verifier.verify_now(&sized(length)).is_ok());
    assert_eq!(
        rig.verifier.verify_now(&sized(length + 2)).unwrap_err(),
        TokenRejected("the token is too long")
    );
}

#[test]
fn the_reason_of_a_refusal_repeats_nothing_of_the_token() {
    let rig = rig();
    let token = rig.sign(HEADER, &rig.claims_with(json!({ "sub": "canary", "jti": "canary" })));
    let reason = rig.verifier.verify_now(&token).unwrap_err();
    assert!(!format!("{reason} {reason:?}").contains("canary"));
}

#[test]
fn a_token_with_any_single_character_changed_is_refused() {
    let rig = rig();
    let good = rig.good();
    for at in 0..good.len() {
        for to in ['A', 'Q', 'z', '5', '-', '_', '.', '=', '+', ' '] {
            let mut changed = good.clone();
            changed.replace_range(at..=at, &to.to_string());
            assert_eq!(rig.verifier.verify_now(&changed).is_ok(), changed == good, "{at} {to}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_text_is_refused_without_a_panic(
        texts in proptest::collection::vec("\\PC{0,80}|[A-Za-z0-9_.-]{0,80}", 40),
    ) {
        let rig = rig();
        for text in texts {
            prop_assert!(rig.verifier.verify_now(&text).is_err());
        }
    }

    #[test]
    fn arbitrary_signed_bytes_never_panic(
        parts in proptest::collection::vec(any::<(Vec<u8>, Vec<u8>)>(), 40),
    ) {
        let rig = rig();
        for (header, payload) in parts {
            let message = format!("{}.{}", b64(header), b64(payload));
            let key = hmac::Key::new(hmac::HMAC_SHA256, &rig.key.secret);
            let tag = hmac::sign(&key, message.as_bytes());
            let token = format!("{message}.{}", b64(tag));
            prop_assert!(rig.verifier.verify_now(&token).is_err());
        }
    }
}
