//! Keys and tokens of an identity provider for tests.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A key of 2,048 bits in PKCS #1, made for these tests and used for nothing else. `ring` cannot
/// generate RSA keys.
const FIRST: &str = "\
    MIIEpQIBAAKCAQEApGrsBqr9iLSy0XvJxIbPfT/4m5NiK2UTGs0cLr4pgmdYD4W8W6Yw/lARc0UnBytiANywG8C9\
    6NTrvS+Gd2CxysrSKIIdDNgh+DeTsMAaxU/cWEGJ9QFcLDyo0ODZnryogoMSMVySYTgNXYXQHpOpMvtDnN5RexCQ\
    6bp17bTxZ7YvRl5U0atMYBL0bqOS8x1Q3Zyu1UlXpoqtJjdAb1+9UHoWAc67LPcsI4E2+79OAsszwvxC04PftpGU\
    ViW1jDwYP2ixyV61FBMR68v8HL3wOh6wzRdji1RL8EDDkIurj2jaRTgSuxLpUHm8W2IrJNIoh25d92BIp5eLBcnj\
    ItM3CQIDAQABAoIBAB/ZADAIdgTBb7PJJRuWu2E4/3hvM4BRW0KBQXjCZ/r09qdHEeW0yt+v9blcx0MJwbmGBezS\
    SFbty14BcyvzhGzSHaQwE911jhrs9QQzKdxXbEiCJW1aXpbJBzAypaSsSX3CUsdR9Z60Q05+yYHqu0b/Saj8nU7X\
    tiI39njdaDdc0L4Ac6iLKjKb22qfSwN0FSO4V9c3Sd9DXVV5GLY/S4GE1oARDSe9Y0v3zjuUmA80OU9cpvmC52Gi\
    Pl75qr2uoBKc4LU3HYBdGmG0TC+5SYbdgqDNjSdkxr2qKvz10Px9iZhXgcVVXjhwgkQBo6gHik9WxhWLXQ6Z8xbi\
    orxl0QMCgYEA1dcZb3KO+MAsuGg+lB87O/x+SswtVabejPGJG4zN11U7dxnrKOSET5spYuu6ftu5PGTfmWqdQosO\
    H89IF2pNrUV2VOvs+KWqeqv3u8uPP+mgdLsc4boSSFtmjYIxb2lmFdu5tGQYkX2XpLPcdIKEbuYkwcjzgCDnww0X\
    hVqifMcCgYEAxNVgeFU5Aht05lv8XDuLrXNqNFTKZLOCh/Gt7bk4DYLOF8YhMeSIyAlat9oy2x2BdHT4m5zfImrf\
    i0pBYCecXdK8CeERU70ipkHC7kASZosYamK9mI5RSYTh8RruGD8WRr0ZxvSIooDNU7/YPYhQw2xUUeSG4uylmnrV\
    ubBXva8CgYEA0fyb+ZjhVNxCDgQwD3xryogz7Hd7vTRULsuw++DU8bO85UQKbOmaFCImDgG17YUO7YORHzJWo1Wx\
    1QLTpEq7ZH9lqBbVaYYlVrkwWLWYQgbFjluADRmPgoZeum8y5Fj36lcOkVoJ1jUiiJYm0jKooc5WIgWXOCcX764X\
    fth131kCgYEAivL2PvwqWkp3o4acB6AhYjhvaLHSjnQKWV1Kot51q1QDmNTM6iOiS1QPLmpiLDwP/t30AiYjfnBj\
    jjjFHdPYloMFKxQu3yZNJ4CU0wt38duPSMqbfO46g+PCfCm+mm8ukpE7eS92pQC38b8kL4vjN5FplMX2Uosr/Hlq\
    FsNdrRECgYEApcFNqTznb0lPb+afiwwEC6GWNXAEyc4rBUOsGBZGddOkzyt08X8HwYb6WSADYTmCQG3zAq7dbSvn\
    hsFkTYKujcTlmOGYkO+UskmqDXanLt6R/3dauo6yeG24vZAvHuDZTfIBPTjeDJrqKd/ZB/fibGP4TMrsl5xjJX4T\
    lWJ7SFk=";

/// A second key of 2,048 bits.
const SECOND: &str = "\
    MIIEowIBAAKCAQEAu+NVPHMReo38aH4H4DDvVZb+2XmjSmeC8ZmXQAsWFwgtsk80PKHMi08JSFB59xxubk8gCFnz\
    dVI6pQrWmaXHePfIMw2Xc7JDoCrfS89bZ366LZlN57e/Cukj7uwZZbhEkZLeVEsIWAcQ7c1aO9imhZYLFMAU+88k\
    WBwNnXb+z8jJfURkFfBEbXLqRUqQtddicFFlBa9S23FKlbBpYP2bw+mkE3ykIF8vCwMNBYKyX3pBAcedq1qkMwk+\
    YZh0Z8cuQitmXMMkosJxBxA9VVOqr7O4b8D+l9ierDnC5A29pqsUvcGk6xj/BMwoqrP77c42cZ48OYguIDjQjryg\
    rZuj8QIDAQABAoIBAA8vPbW/dPOrIvGM8fT/72/C3sDTsEs0l2QQLiWaX8QnwI2vEgEucFn33r+t5VV/wjr/AQ87\
    uc3LAftRp2tOdxMDL3ZUzF8o0odQv7AgR3pTRxelUqL9+h4XHnTSNvE+FaiQLpCwabG3jHozhO3eQgL8z9Ny/J8n\
    LABE8CLAObKwG2tWUMIjc6dl+aTnHqYD/nObE4f2ySGqVCz9MoDmN4MEuACYC6/TSUcgUv38WbB0V1wowf1Rq3pT\
    siMxev0Ati2eoF9FGVJ/9EL89J5p9rUWEK/IJY34I2TflAldMiMA+Ccq/MKXGqB3urq+jyZ03AmT1cj54JfccVoE\
    cTjISLMCgYEA7fV8aLoHLiDIHmag3BnfCH29eLJx0jy5W6kwaFnTFqLoSw3wdLmopZfuty17VpoirgSFr6IesoEN\
    Jprix4m0mhmLn/dUYIZ1sRxielOJHS2dZZBBIMj4cdwimS6v5tzSD6AqtKY+SECgm54pRfv8pzSsM7YYqcDETzyG\
    dV/ZaQ8CgYEAyiIG9MmwyctYBc3B6xMttqWhCgY6q5dTSSv+G3ZALYllJ/KfYmAd5M39ikuUDLr5Fy6mJI2KTZP2\
    B1kbaL3lkjvGFHXX6WtifLxKvqnLqJjKeYwn6CVcFdqOW8LKyItlNGEhGq2Zq5kD1dEZ+irBXjTbDqMDj2fW2qsI\
    8PpoIv8CgYEAyZhqF8dSge/f2nGT4iRA4c61EGYNK9GqL0985UsEHG9TYRKkHh+UEwZOhP2ROmNG8ip+n7c3Tn8q\
    hwQ9EFNHoC34LkO5RjVjy/KCM6RFy2RzrjGyG3ZnlP6siR4Wg/2cMQS+aWFV7pxh9LTfvpynBXkIUp748gePyJk8\
    SIA1jl0CgYA+4b8QP/6DiILlq1D8dIbwHy6uE6oE35rFVK5ElND6WZfiiZQT4prqJzsM3t47556+G4EMNgwkfjc3\
    qfzg5NKaX4YLr21v7DxDWcBW+DOnS4ERtwxjJ9wx4EARQ9QZ92OQm/bUedUokP2kctyF+u8VA5RyRTxCTKeGd1bc\
    wMnMuQKBgE6u3ICtEYYxU9rk0yAq01/jdrNK9ya5d+GVaZXvTQRrWpOa54Xp76lUVnpsieQ4bAkjDHFArePJdt5r\
    Y+xDZbvJLEjw6EW7tp7ZtQRypbi+3TIUN50mVyb2fKNKLgVkRa3VhUVmyR+kLPdoXF7SdzGniGAh4U+9fwa6XvDD\
    Fjs5";

/// The modulus of a key of 1,024 bits.
pub(super) const SHORT_MODULUS: &str = "\
    tbcmrxKNhhpMYaVlJZrAwedB9NfImrdud3ZN8MFEa0KSXG3Wes6g8pFtmh1jGYU_j4CB2I18Toeof-91BOCCVyst\
    D7vUP0weplgiqtaMOjZ7vNlkfrCVnAEIXYHN_Hyfvk6cEV49ZYEJ4Pz3HajZ1YPNhfcWNCBkxeWvAcE9yvk";

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A private key, and the identifier of its public key.
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

    /// The public key with only its required members.
    pub(super) fn bare_jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } =
                    RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": b64(n), "e": b64(e) })
            }
            Pair::Ec { pair, .. } => {
                let point = pair.public_key().as_ref();
                let (x, y) = (b64(&point[1..33]), b64(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
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

    /// Signs with the key's algorithm: RS256 or ES256.
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

    /// Signs as PS256 requires.
    pub(super) fn pss_signature(&self, message: &[u8]) -> Vec<u8> {
        self.rsa_signature(&RSA_PSS_SHA256, message)
    }

    pub(super) fn sha512_signature(&self, message: &[u8]) -> Vec<u8> {
        self.rsa_signature(&RSA_PKCS1_SHA512, message)
    }

    /// Signs with an ASN.1 signature, which X.509 uses and JWS does not.
    pub(super) fn der_signature(&self, message: &[u8]) -> Vec<u8> {
        let Pair::Ec { pkcs8, .. } = &self.pair else { panic!("not an EC key") };
        let (algorithm, random): (&EcdsaSigningAlgorithm, _) =
            (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).unwrap();
        pair.sign(&random, message).unwrap().as_ref().to_vec()
    }

    pub(super) fn header(&self) -> Value {
        json!({ "typ": "at+jwt", "alg": self.algorithm(), "kid": self.kid })
    }

    /// Signs a token with any header and payload.
    pub(super) fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", b64(header), b64(payload));
        format!("{message}.{}", b64(self.signature(message.as_bytes())))
    }
}

/// A key set as a provider publishes it.
pub(super) fn document(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

/// Copies an object with some members replaced; `null` removes a member.
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
