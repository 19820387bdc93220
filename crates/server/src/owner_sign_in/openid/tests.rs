//! The whole flow against a provider of the test kit, honest and hostile.

use std::collections::HashMap;

use serde_json::json;
use stile_domain::percent::decode_form;
use stile_testkit::issuer::Issuer;
use stile_testkit::issuer::openid::CLIENT_ID;

use super::*;
use crate::auth::ProviderKeys;
use crate::clock::wall_clock;
use crate::outbound::KeySetUrl;

const CALLBACK: &str = "http://localhost:9999/sign-in/provider";
const BROWSER: &[u8] = b"browser";

fn sign_in(issuer: &Issuer, secret: Option<&str>) -> OpenIdSignIn {
    let outbound = OutboundClient::new(None, Duration::from_secs(5)).unwrap();
    let keys = KeySetUrl::new(outbound.clone(), &issuer.jwks_url()).unwrap();
    let verifier =
        ProviderVerifier::new(ProviderKeys::new(keys), &issuer.url(), CLIENT_ID, wall_clock);
    issuer.openid().secret = secret.map(str::to_owned);
    let client = OpenIdClient {
        issuer: issuer.url(),
        id: CLIENT_ID.to_owned(),
        secret: secret.map(str::to_owned),
    };
    OpenIdSignIn::new(client, outbound, Arc::new(verifier), Instant::now()).unwrap()
}

/// What a browser brings back, by name.
type Answer = HashMap<String, String>;

/// Goes to the provider and back as a browser does.
async fn visit(location: &str) -> Answer {
    let outbound = OutboundClient::new(None, Duration::from_secs(5)).unwrap();
    let response = outbound.exchange(location.parse().unwrap(), HeaderMap::new(), LIMITS).await;
    let response = response.unwrap();
    let back = response.headers.get("location").expect("the provider sends the browser back");
    let (address, query) = back.to_str().unwrap().split_once('?').unwrap();
    assert_eq!(address, CALLBACK);
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), decode_form(value).unwrap())).collect()
}

async fn finish(sign_in: &OpenIdSignIn, answer: &Answer) -> Result<SignedInPerson, OpenIdError> {
    let answer = OpenIdAnswer {
        state: answer.get("state").map(String::as_str).unwrap_or_default(),
        code: answer.get("code").map(String::as_str),
        iss: answer.get("iss").map(String::as_str),
    };
    sign_in.finish(CALLBACK, BROWSER, answer, Instant::now()).await
}

async fn answered(sign_in: &OpenIdSignIn) -> Answer {
    let location = sign_in.begin(CALLBACK, BROWSER, "/consent?id=7", Instant::now()).await;
    visit(&location.unwrap()).await
}

#[tokio::test]
async fn a_person_signs_in_with_a_role_and_comes_back_to_the_page_that_was_wanted() {
    let issuer = Issuer::start();
    for (secret, role, expected) in
        [(None, Some("admin"), Role::Admin), (Some("s3cret/+ %"), None, Role::Viewer)]
    {
        // The kit's provider reads the pair without decoding, so the secret is plain there.
        let secret = secret.map(|secret| secret.replace(['/', '+', ' ', '%'], "-"));
        let sign_in = sign_in(&issuer, secret.as_deref());
        issuer.openid().person("ann", role);
        let person = finish(&sign_in, &answered(&sign_in).await).await.unwrap();
        let wanted = SignedInPerson {
            subject: "ann".to_owned(),
            role: expected,
            return_to: "/consent?id=7".to_owned(),
        };
        assert_eq!(person, wanted);
    }
}

#[tokio::test]
async fn an_answer_counts_once_and_in_the_browser_that_asked() {
    let issuer = Issuer::start();
    let sign_in = sign_in(&issuer, None);
    let answer = answered(&sign_in).await;
    let changed = |name: &str, value: &str| {
        let mut changed = answer.clone();
        changed.insert(name.to_owned(), value.to_owned());
        changed
    };
    let foreign = OpenIdAnswer {
        state: &answer["state"],
        code: Some(&answer["code"]),
        iss: Some(&answer["iss"]),
    };
    let elsewhere = sign_in.finish(CALLBACK, b"another", foreign, Instant::now()).await;
    assert_eq!(elsewhere, Err(OpenIdError::State));
    let moved = sign_in.finish("http://evil.example/", BROWSER, foreign, Instant::now()).await;
    assert_eq!(moved, Err(OpenIdError::State));
    let late = Instant::now() + Duration::from_secs(301);
    assert_eq!(sign_in.finish(CALLBACK, BROWSER, foreign, late).await, Err(OpenIdError::State));
    let (challenge, _) = answer["state"].split_once('.').unwrap();
    let redirected = format!("{challenge}.{}", base64::url_safe("/elsewhere"));
    for (name, value, expected) in [
        ("state", "", OpenIdError::State),
        ("state", challenge, OpenIdError::State),
        ("state", redirected.as_str(), OpenIdError::State),
        ("iss", "https://evil.example", OpenIdError::OtherIssuer),
    ] {
        assert_eq!(finish(&sign_in, &changed(name, value)).await, Err(expected), "{name}");
    }
    let mut silent = answer.clone();
    silent.remove("iss");
    assert_eq!(finish(&sign_in, &silent).await, Err(OpenIdError::OtherIssuer));
    let mut declined = answer.clone();
    declined.remove("code");
    assert_eq!(finish(&sign_in, &declined).await, Err(OpenIdError::Refused));
    finish(&sign_in, &answer).await.unwrap();
    assert_eq!(finish(&sign_in, &answer).await, Err(OpenIdError::State));
}

#[tokio::test]
async fn a_code_of_another_sign_in_is_refused_by_pkce() {
    let issuer = Issuer::start();
    let sign_in = sign_in(&issuer, None);
    let (victims, mut attackers) = (answered(&sign_in).await, answered(&sign_in).await);
    attackers.insert("code".to_owned(), victims["code"].clone());
    assert_eq!(finish(&sign_in, &attackers).await, Err(OpenIdError::Refused));
}

#[tokio::test]
async fn an_identity_token_for_anything_else_signs_nobody_in() {
    let issuer = Issuer::start();
    let sign_in = sign_in(&issuer, None);
    for claims in [
        json!({ "aud": "another-client" }),
        json!({ "aud": "https://notes.example/mcp" }),
        json!({ "aud": [CLIENT_ID, "another-client"] }),
        json!({ "aud": [CLIENT_ID, "another-client"], "azp": "another-client" }),
        json!({ "azp": "another-client" }),
        json!({ "iss": "https://evil.example" }),
        json!({ "nonce": "another" }),
        json!({ "nonce": null }),
        json!({ "iat": null }),
        json!({ "exp": 1 }),
        json!({ "sub": "" }),
        json!({ "sub": null }),
    ] {
        issuer.openid().claims = claims.as_object().unwrap().clone();
        let answer = answered(&sign_in).await;
        assert_eq!(finish(&sign_in, &answer).await, Err(OpenIdError::Token), "{claims}");
    }
    issuer.openid().claims =
        json!({ "aud": [CLIENT_ID, "other"], "azp": CLIENT_ID }).as_object().unwrap().clone();
    finish(&sign_in, &answered(&sign_in).await).await.unwrap();
}

#[tokio::test]
async fn a_provider_that_cannot_be_asked_signs_nobody_in_and_recovers() {
    let issuer = Issuer::start();
    let sign_in = sign_in(&issuer, None);
    issuer.go_dead();
    let begun = sign_in.begin(CALLBACK, BROWSER, "/", Instant::now()).await;
    assert_eq!(begun, Err(OpenIdError::Provider));
    issuer.go_well();
    let answer = answered(&sign_in).await;
    issuer.go_dead();
    assert_eq!(finish(&sign_in, &answer).await, Err(OpenIdError::Provider));
    issuer.go_well();
    finish(&sign_in, &answered(&sign_in).await).await.unwrap();
}

#[test]
fn a_discovery_document_of_another_issuer_or_with_exposed_endpoints_is_refused() {
    let document = json!({
        "issuer": "https://id.example",
        "authorization_endpoint": "https://id.example/authorize",
        "token_endpoint": "https://id.example/token",
    });
    let parse = |name: &str, value: Value| {
        let mut document = document.clone();
        document[name] = value;
        ProviderMetadata::parse(document.to_string().as_bytes(), "https://id.example")
    };
    let plain = parse("x", json!(1)).unwrap();
    assert!(!plain.has_issuer_in_answers && !plain.secret_goes_into_form);
    let methods = "token_endpoint_auth_methods_supported";
    assert!(parse(methods, json!(["client_secret_post"])).unwrap().secret_goes_into_form);
    let both = parse(methods, json!(["client_secret_post", "client_secret_basic"])).unwrap();
    assert!(!both.secret_goes_into_form);
    for (name, value) in [
        ("issuer", json!("https://evil.example")),
        ("issuer", json!("https://id.example/")),
        ("token_endpoint", json!("http://id.example/token")),
        ("authorization_endpoint", json!("http://id.example/authorize")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("token_endpoint", json!(7)),
    ] {
        assert_eq!(parse(name, value.clone()), None, "{name} {value}");
    }
}
