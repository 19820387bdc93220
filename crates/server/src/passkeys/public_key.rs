//! The public key of a passkey, in the one byte form that an authenticator may write.
//!
//! Authenticators write keys as COSE in the canonical CBOR of CTAP2 and without optional members.
//! So the bytes around the numbers of a key are fixed for each algorithm, and comparing them
//! replaces a CBOR parser. *Source*: Web Authentication Level 3, section 6.5.1; RFC 9053, sections
//! 2 and 7; RFC 8230, section 4.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

/// `{1: 2, 3: -7, -1: 1, -2: x, -3: y}`: a key of P-256 for ES256.
const ES256_X: &[u8] = &[0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
const ES256_Y: &[u8] = &[0x22, 0x58, 0x20];
/// `{1: 1, 3: -8, -1: 6, -2: x}`: a key of Ed25519 for EdDSA.
const ED25519_X: &[u8] = &[0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
/// `{1: 3, 3: -257, -1: n, -2: e}`: an RSA key of 2048 bits for RS256, as Windows makes them.
const RS256_N: &[u8] = &[0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59, 0x01, 0x00];
/// The exponent 65537, which all such keys have.
const RS256_E: &[u8] = &[0x21, 0x43, 0x01, 0x00, 0x01];

const COORDINATE_BYTES: usize = 32;
const MODULUS_BYTES: usize = 256;

/// A public key with the algorithm that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PasskeyPublicKey {
    /// The uncompressed point. `ring` checks at each use that the point is on the curve.
    Es256(Vec<u8>),
    /// The encoded point of Ed25519.
    Ed25519(Vec<u8>),
    /// The modulus, big-endian. The exponent is 65537.
    Rs256(Vec<u8>),
}

impl PasskeyPublicKey {
    /// The COSE numbers of the algorithms, the preferred one first.
    pub(super) const ALGORITHMS: [i32; 3] = [-7, -8, -257];

    /// Reads a key at the beginning of `bytes`. Returns the key and the bytes after it, or `None`
    /// for another algorithm and for every other spelling.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        if let Some(rest) = bytes.strip_prefix(ES256_X) {
            let (x, rest) = rest.split_at_checked(COORDINATE_BYTES)?;
            let (y, rest) = rest.strip_prefix(ES256_Y)?.split_at_checked(COORDINATE_BYTES)?;
            return Some((Self::Es256([&[4], x, y].concat()), rest));
        }
        if let Some(rest) = bytes.strip_prefix(ED25519_X) {
            let (x, rest) = rest.split_at_checked(COORDINATE_BYTES)?;
            return Some((Self::Ed25519(x.to_vec()), rest));
        }
        let (modulus, rest) = bytes.strip_prefix(RS256_N)?.split_at_checked(MODULUS_BYTES)?;
        // A modulus that begins with a zero bit has fewer than 2048 bits.
        modulus.first().filter(|first| **first >= 0x80)?;
        Some((Self::Rs256(modulus.to_vec()), rest.strip_prefix(RS256_E)?))
    }

    /// Reads a key with nothing after it, as [`PasskeyPublicKey::encoded`] wrote it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read(bytes).and_then(|(key, rest)| rest.is_empty().then_some(key))
    }

    /// Returns the bytes from which [`PasskeyPublicKey::read`] reads this key.
    pub(super) fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Es256(point) => {
                let (x, y) = point.get(1..).unwrap_or_default().split_at(COORDINATE_BYTES);
                [ES256_X, x, ES256_Y, y].concat()
            }
            Self::Ed25519(x) => [ED25519_X, x].concat(),
            Self::Rs256(modulus) => [RS256_N, modulus, RS256_E].concat(),
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Es256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature)
            }
            Self::Ed25519(x) => UnparsedPublicKey::new(&ED25519, x).verify(message, signature),
            Self::Rs256(modulus) => {
                RsaPublicKeyComponents { n: modulus.as_slice(), e: [1, 0, 1].as_slice() }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        }
        .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [Vec<u8>; 3] {
        [
            [ES256_X, &[1; 32], ES256_Y, &[2; 32]].concat(),
            [ED25519_X, &[3; 32]].concat(),
            [RS256_N, &[0xff; 256], RS256_E].concat(),
        ]
    }

    #[test]
    fn a_key_is_read_from_its_only_spelling_and_written_back() {
        for bytes in keys() {
            let (key, rest) = PasskeyPublicKey::read(&bytes).unwrap();
            assert!(rest.is_empty());
            assert_eq!(key.encoded(), bytes);
            let longer = [bytes.as_slice(), &[0xa0]].concat();
            assert_eq!(PasskeyPublicKey::read(&longer).unwrap(), (key, &[0xa0][..]));
            assert_eq!(PasskeyPublicKey::decode(&longer), None);
            for end in 0..bytes.len() {
                assert_eq!(PasskeyPublicKey::read(&bytes[..end]), None, "{end}");
            }
        }
    }

    #[test]
    fn a_key_with_any_other_frame_is_refused() {
        for bytes in keys() {
            let key = PasskeyPublicKey::read(&bytes).unwrap().0;
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                // A changed number is another key; a changed frame is none.
                assert_ne!(PasskeyPublicKey::decode(&changed), Some(key.clone()), "{at}");
            }
            for at in 0..ES256_X.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x40;
                assert_eq!(PasskeyPublicKey::decode(&changed), None, "{at}");
            }
        }
        let short_modulus = [RS256_N, &[0x7f; 256], RS256_E].concat();
        assert_eq!(PasskeyPublicKey::decode(&short_modulus), None);
    }
}
