//! Which published keys are used, and for which signatures.

use serde_json::json;

use super::*;
use crate::auth::samples::{SHORT_MODULUS, Sample, b64, document, with};

const MESSAGE: &[u8] = b"header.payload";

fn parse(keys: &[Value]) -> Result<KeySet, KeySetError> {
    KeySet::parse(&document(keys))
}

fn is_usable(key: Value) -> bool {
    parse(&[key]).is_ok()
}

#[test]
fn every_usual_form_of_a_key_is_usable() {
    for sample in [Sample::rsa("a"), Sample::ec("a")] {
        for changes in [
            json!({}),
            json!({ "use": null }),
            json!({ "alg": null }),
            json!({ "kid": null }),
            json!({ "kid": "" }),
            json!({ "use": null, "alg": null, "kid": null }),
            json!({ "key_ops": ["verify"] }),
            json!({ "use": null, "key_ops": ["sign", "verify"] }),
            json!({ "x5c": ["MIIB"], "x5t": "abc", "x5t#S256": "abc", "x5u": "https://id.example/c", "iat": 1 }),
        ] {
            let key = with(&sample.jwk(), &changes);
            let set =
                parse(std::slice::from_ref(&key)).unwrap_or_else(|why| panic!("{key}: {why}"));
            let algorithm = PublicKeyAlgorithm::parse(sample.algorithm()).unwrap();
            let kid = key["kid"].as_str();
            assert!(set.verifies(kid, algorithm, MESSAGE, &sample.signature(MESSAGE)), "{key}");
            assert!(!set.verifies(kid, algorithm, b"another", &sample.signature(MESSAGE)), "{key}");
        }
    }
}

#[test]
fn a_key_for_another_purpose_or_of_another_type_is_skipped() {
    for sample in [Sample::rsa("a"), Sample::ec("a")] {
        let other = if sample.algorithm() == "RS256" { "ES256" } else { "RS256" };
        for changes in [
            json!({ "use": "enc" }),
            json!({ "use": "SIG" }),
            json!({ "use": "" }),
            json!({ "use": ["sig"] }),
            json!({ "key_ops": [] }),
            json!({ "key_ops": ["sign"] }),
            json!({ "key_ops": ["encrypt", "wrapKey"] }),
            json!({ "key_ops": "verify" }),
            json!({ "key_ops": ["verify", 1] }),
            json!({ "alg": other }),
            json!({ "alg": "PS256" }),
            json!({ "alg": "RS512" }),
            json!({ "alg": "ES384" }),
            json!({ "alg": "HS256" }),
            json!({ "alg": "none" }),
            json!({ "alg": "RSA-OAEP" }),
            json!({ "alg": "ECDH-ES" }),
            json!({ "alg": "rs256" }),
            json!({ "alg": ["RS256", "ES256"] }),
            json!({ "kid": 1 }),
            json!({ "kty": null }),
            json!({ "kty": "oct" }),
            json!({ "kty": "OKP" }),
            json!({ "kty": "rsa" }),
            json!({ "kty": "ec" }),
            json!({ "kty": if other == "ES256" { "EC" } else { "RSA" } }),
            json!({ "d": "AQAB" }),
            json!({ "d": "" }),
            json!({ "d": 0 }),
            json!({ "p": "AQAB" }),
            json!({ "q": "AQAB" }),
            json!({ "dp": "AQAB" }),
            json!({ "dq": "AQAB" }),
            json!({ "qi": "AQAB" }),
            json!({ "oth": [] }),
            json!({ "k": "AQAB" }),
        ] {
            let key = with(&sample.jwk(), &changes);
            assert!(!is_usable(key.clone()), "{key}");
        }
        for name in ["use", "key_ops", "alg", "kid", "kty", "n", "e", "crv", "x", "y", "d"] {
            let mut key = sample.jwk();
            key[name] = Value::Null;
            assert!(!is_usable(key), "{name} is null");
        }
    }
    for key in [json!(null), json!("RSA"), json!([]), json!(["RSA", "sig"]), json!({})] {
        assert!(!is_usable(key.clone()), "{key}");
    }
}

#[test]
fn a_shared_secret_is_never_a_key_whatever_its_label() {
    for changes in
        [json!({}), json!({ "alg": "HS256" }), json!({ "alg": "RS256" }), json!({ "alg": "ES256" })]
    {
        let secret = json!({ "kty": "oct", "kid": "a", "k": b64([7; 32]) });
        assert!(!is_usable(with(&secret, &changes)), "{changes}");
    }
}

#[test]
fn rsa_keys_are_of_2048_to_8192_bits_and_odd() {
    let sized = |bits: usize| {
        let mut modulus = vec![0xa5; bits.div_ceil(8)];
        let unused = modulus.len() * 8 - bits;
        modulus[0] = 0xff >> unused;
        modulus
    };
    let fits = |modulus: &[u8]| is_usable(json!({ "kty": "RSA", "n": b64(modulus), "e": "AQAB" }));
    for bits in [2048, 2049, 3072, 4096, 8192] {
        assert!(fits(&sized(bits)), "{bits}");
    }
    for bits in [8, 512, 1024, 2040, 2041, 2047, 8193, 8200, 16384] {
        assert!(!fits(&sized(bits)), "{bits}");
    }
    let (mut even, padded) = (sized(2048), [&[0], sized(2048).as_slice()].concat());
    even[255] = 0xa4;
    for modulus in [even.as_slice(), &padded, &[0; 256], &[]] {
        assert!(!fits(modulus));
    }
    let rsa = Sample::rsa("a").jwk();
    assert!(!is_usable(with(&rsa, &json!({ "n": SHORT_MODULUS }))));
    let modulus = rsa["n"].as_str().unwrap();
    for text in [
        format!("{modulus}="),
        format!("{modulus}\n"),
        modulus.replace(['-', '_'], "+"),
        "?".to_owned(),
    ] {
        assert!(!is_usable(with(&rsa, &json!({ "n": text }))), "{text}");
    }
    assert!(!is_usable(with(&rsa, &json!({ "n": 7 }))));
}

#[test]
fn rsa_exponents_are_odd_and_not_tiny() {
    let fits =
        |exponent: &[u8]| is_usable(with(&Sample::rsa("a").jwk(), &json!({ "e": b64(exponent) })));
    for exponent in [&[1, 0, 1][..], &[1, 0, 3], &[1, 0xff, 0xff, 0xff, 0xff]] {
        assert!(fits(exponent), "{exponent:?}");
    }
    for exponent in [
        &[][..],
        &[0],
        &[1],
        &[2],
        &[3],
        &[17],
        &[0xff, 0xff],
        &[1, 0, 0],
        &[1, 0, 2],
        &[0, 1, 0, 1],
        &[2, 0, 0, 0, 1],
        &[1, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0xff; 256],
    ] {
        assert!(!fits(exponent), "{exponent:?}");
    }
}

#[test]
fn an_rsa_modulus_with_the_structure_of_cve_2017_15361_is_refused() {
    // 65,537 to the 128th has 2,049 bits, and is a power of 65,537 modulo every prime.
    let mut number = vec![1_u8];
    for _ in 0..128 {
        // Little-endian: 65,537 times a number is the number plus the number shifted by two bytes.
        let mut product = [&[0, 0], number.as_slice()].concat();
        let mut carry = 0;
        for (at, byte) in product.iter_mut().enumerate() {
            let sum =
                u16::from(*byte) + u16::from(number.get(at).copied().unwrap_or_default()) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        number = product;
    }
    number.reverse();
    let fits = |modulus: &[u8]| is_usable(json!({ "kty": "RSA", "n": b64(modulus), "e": "AQAB" }));
    assert!(!fits(&number));
    *number.last_mut().unwrap() ^= 2;
    assert!(fits(&number));
}

#[test]
fn points_are_two_coordinates_of_32_bytes_on_p256() {
    let sample = Sample::ec("a");
    let good = sample.jwk();
    let x = good["x"].as_str().unwrap();
    for changes in [
        json!({ "crv": null }),
        json!({ "crv": "P-384" }),
        json!({ "crv": "secp256k1" }),
        json!({ "crv": "p-256" }),
        json!({ "x": null }),
        json!({ "y": null }),
        json!({ "x": "" }),
        json!({ "x": b64([0; 31]) }),
        json!({ "x": b64([0; 33]) }),
        json!({ "y": b64([4; 65]) }),
        json!({ "y": 7 }),
        json!({ "x": format!("{x}=") }),
    ] {
        assert!(!is_usable(with(&good, &changes)), "{changes}");
    }
    // `ring` checks at each use that a point is on the curve.
    for changes in [
        json!({ "x": b64([0; 32]), "y": b64([0; 32]) }),
        json!({ "x": good["y"], "y": good["x"] }),
        json!({ "y": b64([0xff; 32]) }),
        json!({ "y": b64([1; 32]) }),
    ] {
        let set = parse(&[with(&good, &changes)]).unwrap();
        for signature in [sample.signature(MESSAGE), vec![0; 64], vec![1; 64]] {
            assert!(
                !set.verifies(Some("a"), PublicKeyAlgorithm::Es256, MESSAGE, &signature),
                "{changes}"
            );
        }
    }
}

#[test]
fn a_key_that_cannot_be_used_does_not_spoil_the_others() {
    let (rsa, ec) = (Sample::rsa("a"), Sample::ec("b"));
    let junk = [
        json!(7),
        json!({ "kty": "oct", "k": "AQAB" }),
        with(&rsa.jwk(), &json!({ "use": "enc" })),
    ];
    let set = parse(&[&junk[..], &[rsa.jwk()], &junk, &[ec.jwk()]].concat()).unwrap();
    assert_eq!(set.len(), 2);
    assert!(set.verifies(Some("a"), PublicKeyAlgorithm::Rs256, MESSAGE, &rsa.signature(MESSAGE)));
    assert!(set.verifies(Some("b"), PublicKeyAlgorithm::Es256, MESSAGE, &ec.signature(MESSAGE)));
    assert_eq!(parse(&junk).err(), Some(KeySetError::NoUsableKey));
    assert_eq!(parse(&[]).err(), Some(KeySetError::NoUsableKey));
}

#[test]
fn a_document_that_two_parsers_could_read_differently_is_refused() {
    let key = Sample::rsa("a").jwk().to_string();
    let repeated = key.replacen('{', r#"{"kid":"b","#, 1);
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "\"keys\"",
        r#"{"keys":null}"#,
        r#"{"keys":{}}"#,
        r#"{"Keys":[]}"#,
        &format!("[{key}]"),
        &format!("[[{key}]]"),
        &format!(r#"{{"keys":{key}}}"#),
        &format!(r#"{{"keys":[{repeated}]}}"#),
        &format!(r#"{{"keys":[{key}],"keys":[{key}]}}"#),
        &format!(r#"{{"keys":[{key}],"\u006beys":[]}}"#),
        &format!(r#"{{"keys":[{key}],"x":{{"y":1,"y":2}}}}"#),
        &format!(r#"{{"keys":[{key}]}}]"#),
        &format!(r#"{{"keys":[{key},]}}"#),
        &format!("\u{feff}{{\"keys\":[{key}]}}"),
        &format!(r#"{{"keys":[{key}],"x":{}"#, "[".repeat(100_000)),
    ] {
        assert_eq!(KeySet::parse(text.as_bytes()).err(), Some(KeySetError::Malformed), "{text}");
    }
    assert!(KeySet::parse(&[0xff, 0xfe, 0]).is_err());
    assert!(KeySet::parse(format!(r#"{{"keys":[{key}],"issuer":"x"}}"#).as_bytes()).is_ok());
}

#[test]
fn a_document_is_bounded_in_bytes_and_in_keys() {
    let key = Sample::ec("a").jwk();
    let sized = |length: usize| {
        let mut text = document(std::slice::from_ref(&key));
        text.resize(length, b' ');
        KeySet::parse(&text)
    };
    assert!(sized(MAX_KEY_SET_BYTES).is_ok());
    assert_eq!(sized(MAX_KEY_SET_BYTES + 1).err(), Some(KeySetError::TooLong));
    assert_eq!(parse(&vec![key.clone(); 100]).unwrap().len(), 100);
    assert_eq!(parse(&vec![key; 101]).err(), Some(KeySetError::TooLong));
}

#[test]
fn a_named_key_is_the_one_of_that_name_and_algorithm() {
    let (first, second, ec) = (Sample::rsa("rsa-1"), Sample::rsa("rsa-2"), Sample::ec("ec"));
    let set = parse(&[first.jwk(), second.jwk(), ec.jwk()]).unwrap();
    let signature = first.signature(MESSAGE);
    let verifies = |kid| set.verifies(kid, PublicKeyAlgorithm::Rs256, MESSAGE, &signature);
    assert!(verifies(Some("rsa-1")));
    for kid in ["rsa-2", "ec", "", "RSA-1", "rsa-1 ", "rsa", "unknown"] {
        assert!(!verifies(Some(kid)), "{kid}");
    }
    assert!(!set.has(Some("ec"), PublicKeyAlgorithm::Rs256));
    assert!(!set.has(Some("rsa-1"), PublicKeyAlgorithm::Es256));
    assert!(!set.verifies(Some("rsa-1"), PublicKeyAlgorithm::Es256, MESSAGE, &signature));
}

#[test]
fn a_token_without_a_key_name_uses_the_only_key_that_fits() {
    let (first, second, ec) = (Sample::rsa("rsa-1"), Sample::rsa("rsa-2"), Sample::ec("ec"));
    let verifies = |set: &KeySet| {
        set.verifies(None, PublicKeyAlgorithm::Rs256, MESSAGE, &first.signature(MESSAGE))
    };
    assert!(verifies(&parse(&[first.jwk(), ec.jwk()]).unwrap()));
    assert!(verifies(&parse(&[with(&first.jwk(), &json!({ "kid": null })), ec.jwk()]).unwrap()));
    assert!(!verifies(&parse(&[first.jwk(), second.jwk()]).unwrap()));
    assert!(!verifies(&parse(&[second.jwk(), ec.jwk()]).unwrap()));
    assert!(!verifies(&parse(&[ec.jwk()]).unwrap()));
}

#[test]
fn two_keys_of_one_name_are_both_tried() {
    let (first, second) = (Sample::rsa("rsa-1"), Sample::rsa("rsa-2"));
    let ec = Sample::ec("rsa-1");
    let set = parse(&[
        second.jwk(),
        with(&second.jwk(), &json!({ "kid": "rsa-1" })),
        first.jwk(),
        ec.jwk(),
    ]);
    let set = set.unwrap();
    for sample in [&first, &second] {
        assert!(set.verifies(
            Some("rsa-1"),
            PublicKeyAlgorithm::Rs256,
            MESSAGE,
            &sample.signature(MESSAGE)
        ));
    }
    assert!(set.verifies(
        Some("rsa-1"),
        PublicKeyAlgorithm::Es256,
        MESSAGE,
        &ec.signature(MESSAGE)
    ));
}

#[test]
fn signatures_of_another_form_are_refused() {
    let (rsa, ec) = (Sample::rsa("rsa"), Sample::ec("ec"));
    let set = parse(&[rsa.jwk(), ec.jwk()]).unwrap();
    let good = ec.signature(MESSAGE);
    assert!(set.verifies(Some("ec"), PublicKeyAlgorithm::Es256, MESSAGE, &good));
    let (r, s) = good.split_at(32);
    // The order of the curve's group, the smallest number that is too large.
    let order = b"\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
                  \xbc\xe6\xfa\xad\xa7\x17\x9e\x84\xf3\xb9\xca\xc2\xfc\x63\x25\x51";
    let zero = [0; 32];
    for (what, signature) in [
        ("nothing", Vec::new()),
        ("DER", ec.der_signature(MESSAGE)),
        ("zeros", vec![0; 64]),
        ("zeros in DER", vec![0x30, 6, 2, 1, 0, 2, 1, 0]),
        ("r is zero", [&zero, s].concat()),
        ("s is zero", [r, &zero].concat()),
        ("r is the order", [order, s].concat()),
        ("s is the order", [r, order].concat()),
        ("both are the order", [&order[..], order].concat()),
        ("ones", vec![0xff; 64]),
        ("swapped", [s, r].concat()),
        ("short", good[..63].to_vec()),
        ("long", [&good[..], &[0]].concat()),
        ("padded", [&[0], r, &[0], s].concat()),
        ("twice", good.repeat(2)),
    ] {
        assert!(
            !set.verifies(Some("ec"), PublicKeyAlgorithm::Es256, MESSAGE, &signature),
            "{what}"
        );
    }

    let good = rsa.signature(MESSAGE);
    assert!(set.verifies(Some("rsa"), PublicKeyAlgorithm::Rs256, MESSAGE, &good));
    for (what, signature) in [
        ("nothing", Vec::new()),
        ("zeros", vec![0; 256]),
        ("a one", [vec![0; 255], vec![1]].concat()),
        ("ones", vec![0xff; 256]),
        ("PSS", rsa.pss_signature(MESSAGE)),
        ("SHA-512", rsa.sha512_signature(MESSAGE)),
        ("short", good[..255].to_vec()),
        ("long", [&good[..], &[0]].concat()),
        ("padded", [&[0], &good[..]].concat()),
        ("twice", good.repeat(2)),
    ] {
        assert!(
            !set.verifies(Some("rsa"), PublicKeyAlgorithm::Rs256, MESSAGE, &signature),
            "{what}"
        );
    }
}
