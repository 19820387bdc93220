//! Keys and tokens of an identity provider that exists in tests only.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A key of 2,048 bits in PKCS #1, made for these tests and used for nothing else. `ring` does not
/// make RSA keys.
const FIRST: &str = "\
    MIIEpQIBAAKCAQEApGrsBqr9iLSy0XvJxIbPfT/4m5NiK2UTGs0cLr4pgmdYD4W8W6Yw/lARc0UnBytiANywG8C96NTrvS+Gd2CxysrSKIIdDNgh\
    +DeTsMAaxU/cWEGJ9QFcLDyo0ODZnryogoMSMVySYTgNXYXQHpOpMvtDnN5RexCQ6bp17bTxZ7YvRl5U0atMYBL0bqOS8x1Q3Zyu1UlXpoqtJjdA\
    b1+9UHoWAc67LPcsI4E2+79OAsszwvxC04PftpGUViW1jDwYP2ixyV61FBMR68v8HL3wOh6wzRdji1RL8EDDkIurj2jaRTgSuxLpUHm8W2IrJNIo\
    h25d92BIp5eLBcnjItM3CQIDAQABAoIBAB/ZADAIdgTBb7PJJRuWu2E4/3hvM4BRW0KBQXjCZ/r09qdHEeW0yt+v9blcx0MJwbmGBezSSFbty14B\
    cyvzhGzSHaQwE911jhrs9QQzKdxXbEiCJW1aXpbJBzAypaSsSX3CUsdR9Z60Q05+yYHqu0b/Saj8nU7XtiI39njdaDdc0L4Ac6iLKjKb22qfSwN0\
    FSO4V9c3Sd9DXVV5GLY/S4GE1oARDSe9Y0v3zjuUmA80OU9cpvmC52GiPl75qr2uoBKc4LU3HYBdGmG0TC+5SYbdgqDNjSdkxr2qKvz10Px9iZhX\
    gcVVXjhwgkQBo6gHik9WxhWLXQ6Z8xbiorxl0QMCgYEA1dcZb3KO+MAsuGg+lB87O/x+SswtVabejPGJG4zN11U7dxnrKOSET5spYuu6ftu5PGTf\
    mWqdQosOH89IF2pNrUV2VOvs+KWqeqv3u8uPP+mgdLsc4boSSFtmjYIxb2lmFdu5tGQYkX2XpLPcdIKEbuYkwcjzgCDnww0XhVqifMcCgYEAxNVg\
    eFU5Aht05lv8XDuLrXNqNFTKZLOCh/Gt7bk4DYLOF8YhMeSIyAlat9oy2x2BdHT4m5zfImrfi0pBYCecXdK8CeERU70ipkHC7kASZosYamK9mI5R\
    SYTh8RruGD8WRr0ZxvSIooDNU7/YPYhQw2xUUeSG4uylmnrVubBXva8CgYEA0fyb+ZjhVNxCDgQwD3xryogz7Hd7vTRULsuw++DU8bO85UQKbOma\
    FCImDgG17YUO7YORHzJWo1Wx1QLTpEq7ZH9lqBbVaYYlVrkwWLWYQgbFjluADRmPgoZeum8y5Fj36lcOkVoJ1jUiiJYm0jKooc5WIgWXOCcX764X\
    fth131kCgYEAivL2PvwqWkp3o4acB6AhYjhvaLHSjnQKWV1Kot51q1QDmNTM6iOiS1QPLmpiLDwP/t30AiYjfnBjjjjFHdPYloMFKxQu3yZNJ4CU\
    0wt38duPSMqbfO46g+PCfCm+mm8ukpE7eS92pQC38b8kL4vjN5FplMX2Uosr/HlqFsNdrRECgYEApcFNqTznb0lPb+afiwwEC6GWNXAEyc4rBUOs\
    GBZGddOkzyt08X8HwYb6WSADYTmCQG3zAq7dbSvnhsFkTYKujcTlmOGYkO+UskmqDXanLt6R/3dauo6yeG24vZAvHuDZTfIBPTjeDJrqKd/ZB/fi\
    bGP4TMrsl5xjJX4TlWJ7SFk=";

/// Another one.
const SECOND: &str = "\
    MIIEowIBAAKCAQEAu+NVPHMReo38aH4H4DDvVZb+2XmjSmeC8ZmXQAsWFwgtsk80PKHMi08JSFB59xxubk8gCFnzdVI6pQrWmaXHePfIMw2Xc7JD\
    oCrfS89bZ366LZlN57e/Cukj7uwZZbhEkZLeVEsIWAcQ7c1aO9imhZYLFMAU+88kWBwNnXb+z8jJfURkFfBEbXLqRUqQtddicFFlBa9S23FKlbBp\
    YP2bw+mkE3ykIF8vCwMNBYKyX3pBAcedq1qkMwk+YZh0Z8cuQitmXMMkosJxBxA9VVOqr7O4b8D+l9ierDnC5A29pqsUvcGk6xj/BMwoqrP77c42\
    cZ48OYguIDjQjrygrZuj8QIDAQABAoIBAA8vPbW/dPOrIvGM8fT/72/C3sDTsEs0l2QQLiWaX8QnwI2vEgEucFn33r+t5VV/wjr/AQ87uc3LAftR\
    p2tOdxMDL3ZUzF8o0odQv7AgR3pTRxelUqL9+h4XHnTSNvE+FaiQLpCwabG3jHozhO3eQgL8z9Ny/J8nLABE8CLAObKwG2tWUMIjc6dl+aTnHqYD\
    /nObE4f2ySGqVCz9MoDmN4MEuACYC6/TSUcgUv38WbB0V1wowf1Rq3pTsiMxev0Ati2eoF9FGVJ/9EL89J5p9rUWEK/IJY34I2TflAldMiMA+Ccq\
    /MKXGqB3urq+jyZ03AmT1cj54JfccVoEcTjISLMCgYEA7fV8aLoHLiDIHmag3BnfCH29eLJx0jy5W6kwaFnTFqLoSw3wdLmopZfuty17VpoirgSF\
    r6IesoENJprix4m0mhmLn/dUYIZ1sRxielOJHS2dZZBBIMj4cdwimS6v5tzSD6AqtKY+SECgm54pRfv8pzSsM7YYqcDETzyGdV/ZaQ8CgYEAyiIG\
    9MmwyctYBc3B6xMttqWhCgY6q5dTSSv+G3ZALYllJ/KfYmAd5M39ikuUDLr5Fy6mJI2KTZP2B1kbaL3lkjvGFHXX6WtifLxKvqnLqJjKeYwn6CVc\
    FdqOW8LKyItlNGEhGq2Zq5kD1dEZ+irBXjTbDqMDj2fW2qsI8PpoIv8CgYEAyZhqF8dSge/f2nGT4iRA4c61EGYNK9GqL0985UsEHG9TYRKkHh+U\
    EwZOhP2ROmNG8ip+n7c3Tn8qhwQ9EFNHoC34LkO5RjVjy/KCM6RFy2RzrjGyG3ZnlP6siR4Wg/2cMQS+aWFV7pxh9LTfvpynBXkIUp748gePyJk8\
    SIA1jl0CgYA+4b8QP/6DiILlq1D8dIbwHy6uE6oE35rFVK5ElND6WZfiiZQT4prqJzsM3t47556+G4EMNgwkfjc3qfzg5NKaX4YLr21v7DxDWcBW\
    +DOnS4ERtwxjJ9wx4EARQ9QZ92OQm/bUedUokP2kctyF+u8VA5RyRTxCTKeGd1bcwMnMuQKBgE6u3ICtEYYxU9rk0yAq01/jdrNK9ya5d+GVaZXv\
    TQRrWpOa54Xp76lUVnpsieQ4bAkjDHFArePJdt5rY+xDZbvJLEjw6EW7tp7ZtQRypbi+3TIUN50mVyb2fKNKLgVkRa3VhUVmyR+kLPdoXF7SdzGn\
    iGAh4U+9fwa6XvDDFjs5";

/// The modulus of a key of 1,024 bits.
pub(super) const SHORT_MODULUS: &str = "\
    tbcmrxKNhhpMYaVlJZrAwedB9NfImrdud3ZN8MFEa0KSXG3Wes6g8pFtmh1jGYU_j4CB2I18Toeof-91BOCCVystD7vUP0weplgiqtaMOjZ7vNlk\
    frCVnAEIXYHN_Hyfvk6cEV49ZYEJ4Pz3HajZ1YPNhfcWNCBkxeWvAcE9yvk";

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A private key, and the name under which its public half is published.
pub(super) struct Sample {
    pub(super) kid: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec { pkcs8: Vec<u8>, pair: EcdsaKeyPair },
}

impl Sample {
    /// One of two RSA keys, which are always the same.
    pub(super) fn rsa(kid: &'static str) -> Self {
        let der = STANDARD.decode(if kid == "rsa-2" { SECOND } else { FIRST }).unwrap();
        Self { kid, pair: Pair::Rsa(RsaKeyPair::from_der(&der).unwrap()) }
    }

    /// A new P-256 key.
    pub(super) fn ec(kid: &'static str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pkcs8 = pkcs8.as_ref().to_vec();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random).unwrap();
        Self { kid, pair: Pair::Ec { pkcs8, pair } }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec { .. } => "ES256",
        }
    }

    /// The public key as a provider publishes it.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = self.bare_jwk();
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm());
        jwk["kid"] = json!(self.kid);
        jwk
    }

    /// The public key with the members that it must have.
    pub(super) fn bare_jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } =
                    RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": b64(n), "e": b64(e) })
            }
            Pair::Ec { pair, .. } => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) })
            }
        }
    }

    /// The public key in DER: PKCS #1, or the point.
    pub(super) fn public_der(&self) -> &[u8] {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref(),
            Pair::Ec { pair, .. } => pair.public_key().as_ref(),
        }
    }

    /// The signature that belongs to the key.
    pub(super) fn signature(&self, message: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(_) => self.rsa_signature(&RSA_PKCS1_SHA256, message),
            Pair::Ec { pair, .. } => {
                pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
            }
        }
    }

    fn rsa_signature(&self, padding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
        let Pair::Rsa(pair) = &self.pair else { panic!("not an RSA key") };
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(padding, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    }

    /// As PS256 and RS512 want it.
    pub(super) fn pss_signature(&self, message: &[u8]) -> Vec<u8> {
        self.rsa_signature(&RSA_PSS_SHA256, message)
    }

    pub(super) fn sha512_signature(&self, message: &[u8]) -> Vec<u8> {
        self.rsa_signature(&RSA_PKCS1_SHA512, message)
    }

    /// As X.509 wants it, and not JWS.
    pub(super) fn der_signature(&self, message: &[u8]) -> Vec<u8> {
        let Pair::Ec { pkcs8, .. } = &self.pair else { panic!("not an EC key") };
        let (algorithm, random): (&EcdsaSigningAlgorithm, _) =
            (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).unwrap();
        pair.sign(&random, message).unwrap().as_ref().to_vec()
    }

    /// The header of a usual token.
    pub(super) fn header(&self) -> Value {
        json!({ "typ": "at+jwt", "alg": self.algorithm(), "kid": self.kid })
    }

    /// A token of these two texts, whatever they say.
    pub(super) fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", b64(header), b64(payload));
        format!("{message}.{}", b64(self.signature(message.as_bytes())))
    }
}

/// The document that a provider publishes.
pub(super) fn document(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

/// The good object with some members replaced; `null` takes one out.
pub(super) fn with(good: &Value, changes: &Value) -> Value {
    let mut changed = good.clone();
    let members = changed.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    changed
}
