//! Published signatures and keys: the examples of the RFCs, and the test vectors of Wycheproof if a
//! copy is present.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::jws::CompactJws;
use super::key_set::KeySet;
use super::rejection::TokenRejected;
use super::samples::document;
use super::signature::PublicKeyAlgorithm;

/// The environment variable that names a folder with `json_web_signature_test.json`,
/// `json_web_key_test.json` and `json_web_crypto_test.json` of Wycheproof (`testvectors_v1`). The
/// repository has no copy.
const FOLDER: &str = "STILE_JOSE_VECTORS";

/// RFC 7515, appendices A.2 and A.3: the same claims, signed with either algorithm.
const RFC_PAYLOAD: &str = "\
    eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVl\
    fQ";
const RFC_RSA_MODULUS: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt\
    0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX\
    ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5\
    IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RFC_RSA_SIGNATURE: &str = "\
    cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W\
    2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkS\
    jtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnv\
    Wh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RFC_EC_SIGNATURE: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// Whether a provider's token would be accepted but for its claims.
fn accepts(set: &KeySet, token: &str) -> bool {
    let verifies = || {
        let jws = CompactJws::parse(token)?;
        let header = jws.provider_header()?;
        let kid = header.kid.as_deref();
        Ok::<_, TokenRejected>(
            set.verifies(kid, header.algorithm, jws.signing_input, &jws.signature),
        )
    };
    verifies().unwrap_or(false)
}

#[test]
fn the_examples_of_rfc_7515_verify() {
    let rsa = json!({ "kty": "RSA", "n": RFC_RSA_MODULUS, "e": "AQAB" });
    let ec = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let set = KeySet::parse(&document(&[rsa.clone(), ec.clone()])).unwrap();
    // {"alg":"RS256"} and {"alg":"ES256"}
    let rs256 = format!("eyJhbGciOiJSUzI1NiJ9.{RFC_PAYLOAD}.{RFC_RSA_SIGNATURE}");
    let es256 = format!("eyJhbGciOiJFUzI1NiJ9.{RFC_PAYLOAD}.{RFC_EC_SIGNATURE}");
    assert!(accepts(&set, &rs256));
    assert!(accepts(&set, &es256));
    assert!(!accepts(&set, &format!("eyJhbGciOiJFUzI1NiJ9.{RFC_PAYLOAD}.{RFC_RSA_SIGNATURE}")));
    assert!(!accepts(&set, &format!("eyJhbGciOiJSUzI1NiJ9.{RFC_PAYLOAD}.{RFC_EC_SIGNATURE}")));
    // Appendix A.5: no signature.
    assert!(!accepts(&set, &format!("eyJhbGciOiJub25lIn0.{RFC_PAYLOAD}.")));
    assert!(!accepts(&KeySet::parse(&document(&[ec])).unwrap(), &rs256));
    assert!(!accepts(&KeySet::parse(&document(&[rsa])).unwrap(), &es256));
}

/// RFC 7517, appendix A.1: the EC key is for encryption, so only the RSA key is usable.
#[test]
fn the_key_set_of_rfc_7517_has_one_key_for_signatures() {
    let ec = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        "use": "enc",
        "kid": "1",
    });
    let rsa = json!({
        "kty": "RSA",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhD\
              R1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6C\
              f0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1\
              n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1\
              jF44-csFCur-kEgU8awapJzKnqDKgw",
        "e": "AQAB",
        "alg": "RS256",
        "kid": "2011-04-29",
    });
    let set = KeySet::parse(&document(&[ec, rsa])).unwrap();
    assert_eq!(set.len(), 1);
    assert!(set.has(Some("2011-04-29"), PublicKeyAlgorithm::Rs256));
    assert!(!set.has(Some("1"), PublicKeyAlgorithm::Es256));
}

/// The outcomes of the cases of one file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// The key is for RS256 or ES256, so the verdict must be the published one.
    judged: usize,
    /// The key cannot be used, and the case is a forgery.
    forgeries_refused_with_their_key: usize,
    /// The key cannot be used although the token is valid; counted by the algorithm that the key
    /// names.
    valid_but_unsupported: BTreeMap<String, usize>,
    /// The token is encrypted and not signed.
    encrypted: usize,
}

fn judge(folder: &Path, name: &str) -> Tally {
    let text = std::fs::read(folder.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    let suite: Value = serde_json::from_slice(&text).unwrap();
    let mut tally = Tally::default();
    let list = |value: &Value| value.as_array().unwrap().clone();
    for group in list(&suite["testGroups"]) {
        let key = group.get("public").unwrap_or(&group["private"]);
        let keys = key.get("keys").map_or_else(|| vec![key.clone()], list);
        let set = KeySet::parse(&document(&keys));
        for case in list(&group["tests"]) {
            let what =
                format!("{name}, {}, {}: {}", group["comment"], case["tcId"], case["comment"]);
            let (is_encrypted, token) = match case.get("jws") {
                Some(token) => (false, token),
                None => (true, &case["jwe"]),
            };
            // Some have a JSON form, which cannot be a bearer token.
            let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
            let is_good = case["result"] == "valid";
            let is_accepted = set.as_ref().is_ok_and(|set| accepts(set, &token));
            if is_encrypted {
                assert!(!is_accepted, "{what}");
                tally.encrypted += 1;
            } else if set.is_ok() {
                assert_eq!(is_accepted, is_good, "{what}");
                tally.judged += 1;
            } else if is_good {
                let algorithm = keys[0]["alg"].as_str().unwrap_or_default();
                *tally.valid_but_unsupported.entry(algorithm.to_owned()).or_default() += 1;
            } else {
                tally.forgeries_refused_with_their_key += 1;
            }
        }
    }
    println!("{name}: {tally:?}");
    tally
}

/// Every verdict on a token whose key is for RS256 or ES256 is the published one. The other valid
/// tokens are refused only because their algorithm is not supported. (The suite labels ES512 as
/// `ES521`.)
#[test]
fn verdicts_match_wycheproof_if_a_copy_is_present() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let names =
        ["json_web_signature_test.json", "json_web_key_test.json", "json_web_crypto_test.json"];
    let tallies = names.map(|name| judge(folder, name));
    for (tally, at_least) in tallies.iter().zip([270, 1, 28]) {
        assert!(tally.judged >= at_least, "{tally:?}");
        for algorithm in tally.valid_but_unsupported.keys() {
            let is_unsupported =
                ["HS256", "HS384", "HS512", "RS384", "RS512", "PS256", "PS384", "PS512", "ES521"];
            assert!(is_unsupported.contains(&algorithm.as_str()), "{algorithm}");
        }
    }
}
