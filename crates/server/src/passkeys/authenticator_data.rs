//! What an authenticator says and signs: for which site, how it checked the user, which key.
//!
//! *Source*: Web Authentication Level 3, section 6.1.

use ring::digest::{SHA256, digest};

use super::public_key::PasskeyPublicKey;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const HAS_CREDENTIAL: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;

/// The longest identifier of a credential, in bytes.
const MAX_CREDENTIAL_BYTES: usize = 1023;
/// The model of the authenticator, of which nothing is asked.
const MODEL_BYTES: usize = 16;

/// The parsed data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AuthenticatorData<'a> {
    domain_hash: &'a [u8],
    flags: u8,
    /// How often the authenticator signed; 0 if it does not count.
    pub(super) counter: u32,
    /// The new credential, at registration only.
    pub(super) credential: Option<NewCredential<'a>>,
}

/// A credential that the authenticator just made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewCredential<'a> {
    pub(super) id: &'a [u8],
    pub(super) public_key: PasskeyPublicKey,
}

impl<'a> AuthenticatorData<'a> {
    /// Parses the data. Extensions, which were not asked for, are skipped; nothing else may follow.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (domain_hash, rest) = bytes.split_at_checked(32)?;
        let (flags, rest) = rest.split_first()?;
        let (counter, mut rest) = rest.split_first_chunk::<4>()?;
        let mut credential = None;
        if flags & HAS_CREDENTIAL != 0 {
            let (_, after) = rest.split_at_checked(MODEL_BYTES)?;
            let (length, after) = after.split_first_chunk::<2>()?;
            let length = usize::from(u16::from_be_bytes(*length));
            if length == 0 || length > MAX_CREDENTIAL_BYTES {
                return None;
            }
            let (id, after) = after.split_at_checked(length)?;
            let (public_key, after) = PasskeyPublicKey::read(after)?;
            credential = Some(NewCredential { id, public_key });
            rest = after;
        }
        let may_follow = flags & HAS_EXTENSIONS != 0;
        (rest.is_empty() != may_follow).then_some(Self {
            domain_hash,
            flags: *flags,
            counter: u32::from_be_bytes(*counter),
            credential,
        })
    }

    /// Returns whether the data is for a domain.
    pub(super) fn is_for(&self, domain: &str) -> bool {
        self.domain_hash == digest(&SHA256, domain.as_bytes()).as_ref()
    }

    /// Returns whether a user was there and proved to be the device's user, by a finger or a PIN.
    pub(super) fn is_user_verified(&self) -> bool {
        self.flags & (USER_PRESENT | USER_VERIFIED) == USER_PRESENT | USER_VERIFIED
    }

    /// Returns whether the flags about backups contradict each other.
    pub(super) fn has_impossible_backup(&self) -> bool {
        self.flags & (BACKUP_ELIGIBLE | BACKED_UP) == BACKED_UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(flags: u8, rest: &[u8]) -> Vec<u8> {
        let domain = digest(&SHA256, b"localhost");
        [domain.as_ref(), &[flags], &[0, 0, 1, 2], rest].concat()
    }

    fn credential(length: u16, id: &[u8]) -> Vec<u8> {
        let key = PasskeyPublicKey::Ed25519(vec![3; 32]).encoded();
        [&[0; 16][..], &length.to_be_bytes(), id, &key].concat()
    }

    #[test]
    fn data_of_both_ceremonies_is_parsed() {
        let plain = data(0x05, &[]);
        let parsed = AuthenticatorData::parse(&plain).unwrap();
        assert_eq!((parsed.counter, parsed.credential.is_none()), (258, true));
        assert!(parsed.is_for("localhost") && !parsed.is_for("localhos"));
        let new = data(0x45, &credential(3, b"abc"));
        let parsed = AuthenticatorData::parse(&new).unwrap();
        assert_eq!(parsed.credential.unwrap().id, b"abc");
        let extended = data(0xc5, &[&credential(3, b"abc")[..], &[0xa0]].concat());
        assert!(AuthenticatorData::parse(&extended).is_some());
    }

    #[test]
    fn data_that_is_cut_or_longer_than_it_says_is_refused() {
        let new = data(0x45, &credential(3, b"abc"));
        for end in 0..new.len() {
            assert_eq!(AuthenticatorData::parse(&new[..end]), None, "{end}");
        }
        for (what, bytes) in [
            ("more than nothing", data(0x05, &[0])),
            ("more than a credential", data(0x45, &[&credential(3, b"abc")[..], &[0]].concat())),
            ("no extensions", data(0x85, &[])),
            ("no identifier", data(0x45, &credential(0, b""))),
            ("a long identifier", data(0x45, &credential(1024, &[7; 1024]))),
            ("a wrong length", data(0x45, &credential(4, b"abc"))),
            ("an unknown key", data(0x45, &[&[0; 16][..], &[0, 1, 7, 0xa0]].concat())),
        ] {
            assert_eq!(AuthenticatorData::parse(&bytes), None, "{what}");
        }
    }

    #[test]
    fn both_flags_about_the_user_are_needed() {
        for flags in 0..=0x1f_u8 {
            let bytes = data(flags, &[]);
            let parsed = AuthenticatorData::parse(&bytes).unwrap();
            assert_eq!(parsed.is_user_verified(), flags & 1 != 0 && flags & 4 != 0, "{flags}");
            assert_eq!(parsed.has_impossible_backup(), flags & 0x18 == 0x10, "{flags}");
        }
    }
}
