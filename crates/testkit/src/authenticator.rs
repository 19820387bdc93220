//! A software authenticator: makes passkeys, and signs with them what a test wants, right or wrong.
//!
//! Written from Web Authentication Level 3, sections 5.8.1 and 6, and shares no code with the
//! server. Each value that an attacker could choose is a public field of [`Ceremony`].

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};

/// The flag that a user was present.
pub const USER_PRESENT: u8 = 0x01;
/// The flag that the user was verified.
pub const USER_VERIFIED: u8 = 0x04;
const HAS_CREDENTIAL: u8 = 0x40;

/// The algorithm of a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyAlgorithm {
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// Ed25519, which COSE calls EdDSA.
    Ed25519,
    /// RSA with a key of 2048 bits and SHA-256.
    Rs256,
}

enum Secret {
    Es256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// A passkey in an authenticator.
pub struct Authenticator {
    secret: Secret,
    /// The identifier that the authenticator chose.
    pub credential: Vec<u8>,
    /// How often it signed. An authenticator that does not count keeps 0.
    pub counter: u32,
    /// The identifier of the owner, in base64url, from the registration.
    pub user_handle: String,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("counter", &self.counter).finish_non_exhaustive()
    }
}

/// What a browser asks an authenticator to sign. All fields may be changed to what is wrong.
#[derive(Clone, Debug)]
pub struct Ceremony {
    /// The kind of ceremony: `webauthn.create` or `webauthn.get`.
    pub kind: String,
    /// The challenge, in base64url.
    pub challenge: String,
    /// The origin of the page.
    pub origin: String,
    /// More members of the client data, each with a comma before it.
    pub more: String,
    /// The domain that the authenticator signs for.
    pub domain: String,
    /// The flags without the one that a credential follows.
    pub flags: u8,
}

impl Ceremony {
    /// A registration as an honest browser asks for it.
    pub fn registration(challenge: &str, origin: &str, domain: &str) -> Self {
        Self {
            kind: "webauthn.create".to_owned(),
            challenge: challenge.to_owned(),
            origin: origin.to_owned(),
            more: r#","crossOrigin":false"#.to_owned(),
            domain: domain.to_owned(),
            flags: USER_PRESENT | USER_VERIFIED,
        }
    }

    /// A sign-in as an honest browser asks for it.
    pub fn sign_in(challenge: &str, origin: &str, domain: &str) -> Self {
        let kind = "webauthn.get".to_owned();
        Self { kind, ..Self::registration(challenge, origin, domain) }
    }

    fn client_data(&self) -> Vec<u8> {
        let Self { kind, challenge, origin, more, .. } = self;
        format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}"{more}}}"#).into()
    }

    fn authenticator_data(&self, more_flags: u8, counter: u32) -> Vec<u8> {
        let domain = digest(&SHA256, self.domain.as_bytes());
        [domain.as_ref(), &[self.flags | more_flags], &counter.to_be_bytes()].concat()
    }
}

/// What a browser returns, each value in base64url.
#[derive(Clone, Debug)]
pub struct PasskeyAnswer {
    /// The identifier of the passkey.
    pub credential: String,
    /// The JSON that the browser made.
    pub client_data: String,
    /// The data that the authenticator made.
    pub authenticator_data: String,
    /// The signature; empty for a registration.
    pub signature: String,
    /// The identifier of the owner; empty for a registration.
    pub user_handle: String,
}

impl Authenticator {
    /// Makes a passkey for an owner.
    ///
    /// # Panics
    /// The keys cannot be made.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn new(algorithm: PasskeyAlgorithm, user_handle: &str) -> Self {
        let random = SystemRandom::new();
        let secret = match algorithm {
            PasskeyAlgorithm::Es256 => {
                let signing = &ECDSA_P256_SHA256_ASN1_SIGNING;
                let document =
                    EcdsaKeyPair::generate_pkcs8(signing, &random).expect("a key can be made");
                let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random);
                Secret::Es256(pair.expect("the key is sound"))
            }
            PasskeyAlgorithm::Ed25519 => {
                let document = Ed25519KeyPair::generate_pkcs8(&random).expect("a key can be made");
                let pair = Ed25519KeyPair::from_pkcs8(document.as_ref());
                Secret::Ed25519(pair.expect("the key is sound"))
            }
            PasskeyAlgorithm::Rs256 => {
                let pem: String = include_str!("../keys/rsa-1.pem")
                    .lines()
                    .filter(|line| !line.starts_with("-----"))
                    .collect();
                let document = STANDARD.decode(pem).expect("the key is PEM");
                Secret::Rs256(RsaKeyPair::from_pkcs8(&document).expect("the key is sound"))
            }
        };
        let mut credential = vec![0; 24];
        ring::rand::SecureRandom::fill(&random, &mut credential).expect("there are random bytes");
        Self { secret, credential, counter: 0, user_handle: user_handle.to_owned() }
    }

    /// Registers the passkey as the ceremony asks.
    pub fn register(&self, ceremony: &Ceremony) -> PasskeyAnswer {
        let length = u16::try_from(self.credential.len()).unwrap_or(u16::MAX);
        let data = [
            &ceremony.authenticator_data(HAS_CREDENTIAL, self.counter)[..],
            &[0; 16],
            &length.to_be_bytes(),
            &self.credential,
            &self.cose_key(),
        ]
        .concat();
        PasskeyAnswer {
            credential: URL_SAFE_NO_PAD.encode(&self.credential),
            client_data: URL_SAFE_NO_PAD.encode(ceremony.client_data()),
            authenticator_data: URL_SAFE_NO_PAD.encode(data),
            signature: String::new(),
            user_handle: String::new(),
        }
    }

    /// Signs in, with the counter as it is.
    pub fn sign_in(&self, ceremony: &Ceremony) -> PasskeyAnswer {
        let client_data = ceremony.client_data();
        let data = ceremony.authenticator_data(0, self.counter);
        let message = [data.as_slice(), digest(&SHA256, &client_data).as_ref()].concat();
        PasskeyAnswer {
            credential: URL_SAFE_NO_PAD.encode(&self.credential),
            client_data: URL_SAFE_NO_PAD.encode(&client_data),
            authenticator_data: URL_SAFE_NO_PAD.encode(&data),
            signature: URL_SAFE_NO_PAD.encode(self.sign(&message)),
            user_handle: self.user_handle.clone(),
        }
    }

    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.secret {
            Secret::Es256(pair) => {
                pair.sign(&random, message).expect("a message can be signed").as_ref().to_vec()
            }
            Secret::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Secret::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("a message can be signed");
                signature
            }
        }
    }

    /// Writes the public key as CBOR: RFC 8949, sections 3.1 and 4.2.1.
    fn cose_key(&self) -> Vec<u8> {
        let bytes = |bytes: &[u8]| match u8::try_from(bytes.len()) {
            Ok(length) if length < 24 => [&[0x40 | length], bytes].concat(),
            Ok(length) => [&[0x58, length], bytes].concat(),
            Err(_) => {
                let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
                [&[0x59], &length[..], bytes].concat()
            }
        };
        match &self.secret {
            Secret::Es256(pair) => {
                let (x, y) = pair.public_key().as_ref().get(1..).unwrap_or_default().split_at(32);
                let head: &[u8] = &[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21];
                [head, &bytes(x), &[0x22], &bytes(y)].concat()
            }
            Secret::Ed25519(pair) => {
                let head: &[u8] = &[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21];
                [head, &bytes(pair.public_key().as_ref())].concat()
            }
            Secret::Rs256(pair) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(pair.public());
                let head: &[u8] = &[0xa4, 1, 3, 3, 0x39, 1, 0, 0x20];
                [head, &bytes(&n), &[0x21], &bytes(&e)].concat()
            }
        }
    }
}
