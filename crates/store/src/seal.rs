//! Seals cursors, so that only this database can make or read them. [`crate::sealer`] does the same
//! with a key that is not stored.
//!
//! *Format*: base64url of the key's identifier (4 bytes), a nonce (12 random bytes, never used
//! twice), and the content encrypted with AES-256-GCM (NIST SP 800-38D). The database holds the
//! keys. After a restart, from a restored backup, or on a second server with the same database,
//! cursors can still be opened. If several people share a database, the identifier of the person is
//! authenticated too, so that no cursor of one person opens for another.

use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use stile_domain::base64;
use stile_domain::records::problem::Problem;

/// The size of a key's identifier in bytes.
const ID_BYTES: usize = 4;
/// The length of the longest text that is opened, in bytes.
const MAX_TEXT: usize = 4096;

/// A key and its identifier.
pub(crate) struct SealKey {
    pub(crate) id: [u8; ID_BYTES],
    pub(crate) secret: [u8; 32],
}

/// The error if the system gives no random bytes, or a key is damaged.
#[derive(Debug)]
pub(crate) struct SealError;

impl SealKey {
    /// Makes a random key.
    pub(crate) fn make() -> Result<Self, SealError> {
        let mut key = Self { id: [0; ID_BYTES], secret: [0; 32] };
        let random = SystemRandom::new();
        random
            .fill(&mut key.id)
            .and_then(|()| random.fill(&mut key.secret))
            .map_err(|_| SealError)?;
        Ok(key)
    }

    /// Derives a key from a secret and a salt, which always give the same key.
    ///
    /// HKDF (RFC 5869) with SHA-256. The identifier is derived as well, so that it reveals no more
    /// about the secret than the key does.
    pub(crate) fn derive(secret: &[u8], salt: &[u8], purpose: &[u8]) -> Result<Self, SealError> {
        let mut key = Self { id: [0; ID_BYTES], secret: [0; 32] };
        let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
        let fill = |part: &[u8], into: &mut [u8]| {
            let info = [purpose, part];
            extracted
                .expand(&info, Length(into.len()))
                .and_then(|expanded| expanded.fill(into))
                .map_err(|_| SealError)
        };
        fill(b" key", &mut key.secret)?;
        fill(b" id", &mut key.id)?;
        Ok(key)
    }
}

/// The number of bytes to derive.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Seals with the newest key and opens with all. Clones share the keys.
#[derive(Clone)]
pub(crate) struct Seals {
    keys: Arc<[([u8; ID_BYTES], LessSafeKey)]>,
    random: SystemRandom,
    /// Whose seals these are. Empty if the keys belong to one person.
    person: Arc<str>,
}

impl Seals {
    /// Takes the keys with the newest first.
    pub(crate) fn new(keys: impl IntoIterator<Item = SealKey>) -> Result<Self, SealError> {
        let keys = keys.into_iter().map(|key| {
            let unbound = UnboundKey::new(&AES_256_GCM, &key.secret).map_err(|_| SealError)?;
            Ok((key.id, LessSafeKey::new(unbound)))
        });
        let keys = keys.collect::<Result<_, _>>()?;
        Ok(Self { keys, random: SystemRandom::new(), person: "".into() })
    }

    /// Returns seals with the same keys that only open what the same person's seals sealed.
    pub(crate) fn bound_to(&self, person: &str) -> Self {
        Self { person: person.into(), ..self.clone() }
    }

    /// What is authenticated and not encrypted: the key, and whose seal it is.
    fn additional(&self, id: [u8; ID_BYTES]) -> Aad<Vec<u8>> {
        Aad::from([&id[..], self.person.as_bytes()].concat())
    }

    /// Encrypts and authenticates bytes, as a text.
    pub(crate) fn seal(&self, plain: &[u8]) -> Result<String, SealError> {
        let (id, key) = self.keys.first().ok_or(SealError)?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| SealError)?;
        let mut sealed = plain.to_vec();
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            self.additional(*id),
            &mut sealed,
        )
        .map_err(|_| SealError)?;
        Ok(base64::url_safe([&id[..], &nonce, &sealed].concat()))
    }

    pub(crate) fn seal_for_client(&self, plain: &[u8]) -> Result<String, Problem> {
        self.seal(plain).map_err(|_| Problem::Internal { incident: crate::new_incident() })
    }

    /// Opens what [`Seals::seal`] made. Returns `None` for every other text.
    pub(crate) fn open(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let bytes = base64::from_url_safe(text)?;
        let (id, rest) = bytes.split_at_checked(ID_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let (id, key) = self.keys.iter().find(|(known, _)| known == id)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        key.open_in_place(nonce, self.additional(*id), &mut sealed).ok().map(|plain| plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn a_cursor_with_one_flipped_bit_does_not_open() {
        let seals = Seals::new([SealKey::make().unwrap()]).unwrap();
        let text = seals.seal(b"cursor").unwrap();
        assert_eq!(seals.open(&text).as_deref(), Some(&b"cursor"[..]));
        assert_ne!(
            seals.seal(b"cursor").unwrap(),
            text,
            "sealing the same bytes again gives another text"
        );
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seals.open(&URL_SAFE_NO_PAD.encode(changed)), None, "bit {bit}");
        }
        for other in ["", "x", "!", &text[1..], &format!("{text}A"), &text.replace(&text[..1], "ä")]
        {
            assert_eq!(seals.open(other), None, "{other}");
        }
    }

    #[test]
    fn older_keys_open_cursors_and_keys_of_another_database_do_not() {
        let (old, new) = (SealKey::make().unwrap(), SealKey::make().unwrap());
        let copy = SealKey { ..old };
        let before = Seals::new([old]).unwrap();
        let text = before.seal(b"x").unwrap();
        assert_eq!(Seals::new([new, copy]).unwrap().open(&text).as_deref(), Some(&b"x"[..]));
        assert_eq!(Seals::new([SealKey::make().unwrap()]).unwrap().open(&text), None);
    }
    #[test]
    fn a_cursor_opens_only_for_the_person_it_was_sealed_for() {
        let seals = Seals::new([SealKey::make().unwrap()]).unwrap();
        let [ann, bob] = ["ann", "bob"].map(|person| seals.bound_to(person));
        let text = ann.seal(b"x").unwrap();
        assert_eq!(seals.bound_to("ann").open(&text).as_deref(), Some(&b"x"[..]));
        for other in [&bob, &seals, &ann.bound_to("")] {
            assert_eq!(other.open(&text), None);
        }
        assert_eq!(ann.open(&seals.seal(b"x").unwrap()), None);
    }
}
