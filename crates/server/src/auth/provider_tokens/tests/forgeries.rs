//! Tokens that the identity provider did not sign, or signed with a header that is refused.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;

use super::*;
use crate::auth::jws::MAX_TOKEN_BYTES;

#[tokio::test(start_paused = true)]
async fn wrong_headers_are_refused_despite_a_valid_signature() {
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
    // A key in the header is not used, even the right one.
    let header = with(&rig.rsa.header(), &json!({ "jwk": rig.rsa.jwk() }));
    assert!(!rig.accepts_header(&header.to_string()).await);
}

/// The attack of RFC 8725, section 2.1: the attacker signs with HS256 and the public key.
#[tokio::test(start_paused = true)]
async fn a_public_key_is_never_used_as_a_secret() {
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
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// A set may publish a shared secret, which everybody then knows.
#[tokio::test(start_paused = true)]
async fn a_secret_in_the_key_set_verifies_nothing() {
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
async fn a_key_of_another_algorithm_is_not_used_whatever_its_name() {
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
async fn a_key_for_another_purpose_verifies_nothing() {
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
async fn a_signature_of_another_form_is_refused_under_the_right_algorithm() {
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
async fn a_token_of_exactly_eight_kilobytes_is_accepted() {
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
async fn the_reason_of_a_refusal_repeats_nothing_of_the_token() {
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

/// Flips every bit: about 5,000 for RS256.
#[tokio::test(start_paused = true)]
async fn a_token_with_any_single_bit_flipped_is_refused() {
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
async fn a_token_with_any_single_character_changed_is_refused() {
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
