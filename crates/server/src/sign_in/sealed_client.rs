//! The identifier of a client that registered itself: sealed, it carries what was registered.
//!
//! So a registration stores nothing that strangers could fill or push out, and it is good for as
//! long as the key of the state: after a day without a sign-in, a restart, a restored backup, and
//! after the owner has ended what the client was allowed. Nobody but this server can make one. It
//! allows nothing; an identifier under another key is unknown, and its client registers anew.

use serde::{Deserialize, Serialize};
use stile_domain::hash::hex;
use stile_store::sealer::{Sealer, SealerError};
use stile_store::state::{ClientKind, ClientRecord, TokenKey};

/// What the key is derived for. Another purpose opens none of the identifiers.
const PURPOSE: &str = "identifiers of clients";
/// The longest identifier, in bytes. It stands in addresses beside a redirect URI of at most 1024
/// bytes, and servers before this one may refuse a request line of more than 8 KiB.
const MAX_ID_BYTES: usize = 2048;

/// Makes and reads the identifiers of clients that register themselves.
pub struct ClientSeals(Sealer);

/// Why a client gets no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSealed {
    /// The name and the addresses do not fit into an identifier.
    #[error("the name and the redirect_uris are too long together; register fewer addresses")]
    TooLong,
    /// The system gives no random numbers.
    #[error(transparent)]
    Sealer(#[from] SealerError),
}

/// What an identifier carries.
#[derive(Serialize, Deserialize)]
struct Registration {
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "r")]
    redirects: Vec<String>,
    /// When the client registered, in UTC seconds since 1970.
    #[serde(rename = "t")]
    created: i64,
}

impl ClientSeals {
    /// Derives the key of the identifiers from the key of the state.
    ///
    /// # Errors
    /// [`SealerError`] if no key can be derived.
    pub fn new(key: &TokenKey) -> Result<Self, SealerError> {
        Sealer::from_secret(&hex(&key.secret), &key.audience, PURPOSE).map(Self)
    }

    /// Returns the client of a registration, with its identifier. Stores nothing.
    ///
    /// # Errors
    /// [`NotSealed`].
    pub fn register(
        &self,
        name: &str,
        redirects: Vec<String>,
        now: i64,
    ) -> Result<ClientRecord, NotSealed> {
        let registration = Registration { name: name.to_owned(), redirects, created: now };
        let plain = serde_json::to_vec(&registration).unwrap_or_default();
        let id = self.0.seal(&plain)?;
        if id.len() > MAX_ID_BYTES {
            return Err(NotSealed::TooLong);
        }
        Ok(registration.into_client(id))
    }

    /// Returns the client that registered under an identifier; `None` for any other text.
    pub fn open(&self, id: &str) -> Option<ClientRecord> {
        let plain = self.0.open(id)?;
        let registration: Registration = serde_json::from_slice(&plain).ok()?;
        Some(registration.into_client(id.to_owned()))
    }
}

impl Registration {
    fn into_client(self, id: String) -> ClientRecord {
        ClientRecord {
            id,
            kind: ClientKind::Registered,
            name: self.name,
            redirects: self.redirects,
            created: self.created,
            used: None,
            ended: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seals(secret: u8, audience: &str) -> ClientSeals {
        ClientSeals::new(&TokenKey { secret: [secret; 32], audience: audience.to_owned() }).unwrap()
    }

    #[test]
    fn an_identifier_carries_its_registration_and_opens_under_its_own_key_only() {
        let redirects = vec!["http://127.0.0.1/cb".to_owned(), "com.example.app:/cb".to_owned()];
        let client = seals(1, "urn:uuid:1").register("Editor", redirects, 7).unwrap();
        assert!(
            client.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        assert_eq!(seals(1, "urn:uuid:1").open(&client.id), Some(client.clone()));
        assert_eq!(seals(2, "urn:uuid:1").open(&client.id), None);
        assert_eq!(seals(1, "urn:uuid:2").open(&client.id), None);
        for other in ["", "editor", &client.id[1..], &client.id.to_lowercase()] {
            assert_eq!(seals(1, "urn:uuid:1").open(other), None, "{other}");
        }
    }

    #[test]
    fn an_identifier_that_would_be_too_long_for_an_address_is_not_made() {
        let register = |count: usize| {
            let redirects = vec![format!("https://a.example/{}", "a".repeat(200)); count];
            seals(1, "urn:uuid:1").register("Editor", redirects, 7)
        };
        assert!(register(6).unwrap().id.len() <= MAX_ID_BYTES);
        assert_eq!(register(7), Err(NotSealed::TooLong));
    }
}
