//! The two ceremonies: registration of a passkey, and sign-in with one.
//!
//! A ceremony begins with options, which the page gives to the browser, and ends with what the
//! browser returns. Each check of the standard is one line here, in its order.

use std::sync::Arc;
use std::time::Instant;

use ring::digest::{SHA256, digest};
use stile_store::state::{Passkey, PasskeyAdded, PasskeyUse, StateError, TokenKey, TokenStore};

use stile_domain::base64;

use super::authenticator_data::AuthenticatorData;
use super::client_data::ClientData;
use super::public_key::PasskeyPublicKey;
use super::relying_party::RelyingParty;
use crate::challenges::{Challenges, GenuineChallenge, Purpose};

/// The longest value that a browser returns, in characters of base64url. A registration with an RSA
/// key and the longest identifier has about 1,900.
const MAX_VALUE_CHARS: usize = 8192;

/// The passkeys of an owner.
#[derive(Debug)]
pub struct Passkeys {
    tokens: Arc<TokenStore>,
    challenges: Challenges,
    owner_handle: String,
}

/// What a page gives to the browser to register a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationOptions {
    /// The challenge, in base64url.
    pub challenge: String,
    /// The domain that the passkey will be for.
    pub domain: String,
    /// The identifier of the owner, in base64url. It says nothing about the owner.
    pub owner_handle: String,
    /// The COSE numbers of the algorithms that are verified, the preferred one first.
    pub algorithms: Vec<i32>,
    /// The identifiers of the passkeys that exist, in base64url, so that no device gets a second.
    pub known: Vec<String>,
}

/// What a browser returns after a registration. Values are in base64url.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// The JSON that the browser made: `clientDataJSON`.
    pub client_data: &'a str,
    /// The data that the authenticator made.
    pub authenticator_data: &'a str,
}

/// What a browser returns to sign in. Values are in base64url.
#[derive(Clone, Debug)]
pub struct Assertion<'a> {
    /// The identifier of the passkey.
    pub credential: &'a str,
    /// The JSON that the browser made: `clientDataJSON`.
    pub client_data: &'a str,
    /// The data that the authenticator signed.
    pub authenticator_data: &'a str,
    /// The signature over both.
    pub signature: &'a str,
    /// The identifier of the owner that the authenticator keeps.
    pub user_handle: &'a str,
}

/// The name that an owner gives to a passkey: 1 to 100 characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyName(String);

/// Why a ceremony failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyRefused {
    /// A value is missing, malformed, or too long.
    #[error("the browser returned what is not an answer of a passkey")]
    Malformed,
    /// The answer is for the other ceremony, or was made in a frame of another site.
    #[error("the browser answered another question")]
    OtherCeremony,
    /// The page that asked is not a page of this server.
    #[error("the passkey was used at another address; open this page at the server's own address")]
    OtherOrigin,
    /// The challenge is not one of this server, browser and ceremony, or was used, or is too old.
    #[error("the question to the passkey is too old or was answered before; load the page again")]
    Challenge,
    /// The authenticator answered for another domain.
    #[error("the passkey is for another site")]
    OtherSite,
    /// The authenticator did not verify its user.
    #[error("the device did not check who uses it; set a PIN or a fingerprint there")]
    UserNotVerified,
    /// The passkey is not one of the owner, or its signature is wrong.
    #[error("the passkey is not known here")]
    Unknown,
    /// The counter did not go up, so there may be a copy of the authenticator.
    #[error(
        "the passkey's counter went back, so there may be a copy of it; sign in with a link from \
         `stile sign-in` and remove the passkey"
    )]
    CounterWentBack,
    /// The passkey is registered already.
    #[error("this passkey is registered already")]
    Known,
    /// The owner has as many passkeys as are allowed.
    #[error("there are too many passkeys; remove one first")]
    TooMany,
    /// The database of the state, or the source of random bytes, fails.
    #[error(transparent)]
    State(#[from] StateError),
}

impl PasskeyName {
    /// Returns `None` for a name that is empty, too long, or could hide something from its reader.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }
}

impl Passkeys {
    /// The passkeys in `tokens`. The handle identifies the owner to authenticators, and must be the
    /// same at every start.
    ///
    /// # Errors
    /// [`PasskeyRefused::Malformed`] if the system has no random bytes.
    pub fn new(
        tokens: Arc<TokenStore>,
        key: &TokenKey,
        owner_handle: &[u8],
        now: Instant,
    ) -> Result<Self, PasskeyRefused> {
        let challenges =
            Challenges::of(key, &tokens, now).map_err(|_| PasskeyRefused::Malformed)?;
        Ok(Self { tokens, challenges, owner_handle: base64::url_safe(owner_handle) })
    }

    /// Returns what a page gives to the browser of the signed-in owner to register a passkey.
    /// `session` identifies the session.
    ///
    /// # Errors
    /// [`PasskeyRefused::State`] if the passkeys cannot be read.
    pub fn registration_options(
        &self,
        site: &RelyingParty,
        session: &[u8],
        now: Instant,
    ) -> Result<RegistrationOptions, PasskeyRefused> {
        let known = self.tokens.passkeys()?;
        let known = known.iter().filter(|passkey| passkey.domain == site.domain);
        Ok(RegistrationOptions {
            challenge: self.issue(Purpose::PasskeyRegistration, site, session, now)?,
            domain: site.domain.clone(),
            owner_handle: self.owner_handle.clone(),
            algorithms: PasskeyPublicKey::ALGORITHMS.to_vec(),
            known: known.map(|passkey| base64::url_safe(&passkey.credential)).collect(),
        })
    }

    /// Returns the challenge for a browser that wants to sign in. `browser` identifies it.
    ///
    /// # Errors
    /// [`PasskeyRefused::Malformed`] if the system has no random bytes.
    pub fn sign_in_challenge(
        &self,
        site: &RelyingParty,
        browser: &[u8],
        now: Instant,
    ) -> Result<String, PasskeyRefused> {
        self.issue(Purpose::PasskeySignIn, site, browser, now)
    }

    /// Stores the passkey that the signed-in owner, `subject`, registered. `seconds` is the time in
    /// UTC seconds since 1970.
    ///
    /// # Errors
    /// [`PasskeyRefused`]; nothing was stored.
    pub fn register(
        &self,
        site: &RelyingParty,
        (session, subject): (&[u8], &str),
        answer: &Registration<'_>,
        name: &PasskeyName,
        (now, seconds): (Instant, i64),
    ) -> Result<(), PasskeyRefused> {
        let client_data = decode(answer.client_data)?;
        let data = decode(answer.authenticator_data)?;
        let challenge =
            self.check_client(&client_data, Purpose::PasskeyRegistration, site, session, now)?;
        let data = check_authenticator(&data, site)?;
        let new = data.credential.ok_or(PasskeyRefused::Malformed)?;
        if !self.challenges.spend(challenge, now) {
            return Err(PasskeyRefused::Challenge);
        }
        let added = self.tokens.add_passkey(&Passkey {
            credential: new.id.to_vec(),
            subject: subject.to_owned(),
            name: name.0.clone(),
            domain: site.domain.clone(),
            public_key: new.public_key.encoded(),
            counter: data.counter,
            created: seconds,
            last_used: None,
        })?;
        match added {
            PasskeyAdded::Added => Ok(()),
            PasskeyAdded::Known => Err(PasskeyRefused::Known),
            PasskeyAdded::TooMany => Err(PasskeyRefused::TooMany),
        }
    }

    /// Verifies that a browser has a passkey, and returns the user of the passkey. `seconds` is the
    /// time in UTC seconds since 1970.
    ///
    /// # Errors
    /// [`PasskeyRefused`]; the browser is not signed in.
    pub fn sign_in(
        &self,
        site: &RelyingParty,
        browser: &[u8],
        answer: &Assertion<'_>,
        (now, seconds): (Instant, i64),
    ) -> Result<String, PasskeyRefused> {
        let credential = decode(answer.credential)?;
        let client_data = decode(answer.client_data)?;
        let signed_data = decode(answer.authenticator_data)?;
        let signature = decode(answer.signature)?;
        let passkey = self.tokens.passkey(&credential)?.ok_or(PasskeyRefused::Unknown)?;
        // A passkey that the device found by itself always comes with its owner.
        if answer.user_handle != self.owner_handle {
            return Err(PasskeyRefused::Unknown);
        }
        let challenge =
            self.check_client(&client_data, Purpose::PasskeySignIn, site, browser, now)?;
        let data = check_authenticator(&signed_data, site)?;
        if data.credential.is_some() || passkey.domain != site.domain {
            return Err(PasskeyRefused::OtherSite);
        }
        let key = PasskeyPublicKey::decode(&passkey.public_key).ok_or(PasskeyRefused::Unknown)?;
        let mut message = signed_data.clone();
        message.extend_from_slice(digest(&SHA256, &client_data).as_ref());
        if !key.verifies(&message, &signature) {
            return Err(PasskeyRefused::Unknown);
        }
        if !self.challenges.spend(challenge, now) {
            return Err(PasskeyRefused::Challenge);
        }
        match self.tokens.use_passkey(&credential, data.counter, seconds)? {
            PasskeyUse::Accepted => Ok(passkey.subject),
            PasskeyUse::Refused => Err(PasskeyRefused::CounterWentBack),
        }
    }

    fn issue(
        &self,
        purpose: Purpose,
        site: &RelyingParty,
        browser: &[u8],
        now: Instant,
    ) -> Result<String, PasskeyRefused> {
        let issued = self.challenges.issue(purpose, &site.domain, browser, now);
        issued.map_err(|_| PasskeyRefused::Malformed)
    }

    fn check_client(
        &self,
        client_data: &[u8],
        purpose: Purpose,
        site: &RelyingParty,
        browser: &[u8],
        now: Instant,
    ) -> Result<GenuineChallenge, PasskeyRefused> {
        let client = ClientData::parse(client_data).ok_or(PasskeyRefused::Malformed)?;
        if !client.is_for(purpose) {
            return Err(PasskeyRefused::OtherCeremony);
        }
        if client.origin != site.origin {
            return Err(PasskeyRefused::OtherOrigin);
        }
        self.challenges
            .read(&client.challenge, purpose, &site.domain, browser, now)
            .ok_or(PasskeyRefused::Challenge)
    }
}

fn check_authenticator<'a>(
    data: &'a [u8],
    site: &RelyingParty,
) -> Result<AuthenticatorData<'a>, PasskeyRefused> {
    let data = AuthenticatorData::parse(data).ok_or(PasskeyRefused::Malformed)?;
    if !data.is_for(&site.domain) {
        return Err(PasskeyRefused::OtherSite);
    }
    if !data.is_user_verified() {
        return Err(PasskeyRefused::UserNotVerified);
    }
    if data.has_impossible_backup() {
        return Err(PasskeyRefused::Malformed);
    }
    Ok(data)
}

fn decode(value: &str) -> Result<Vec<u8>, PasskeyRefused> {
    if value.len() > MAX_VALUE_CHARS {
        return Err(PasskeyRefused::Malformed);
    }
    base64::from_url_safe(value).ok_or(PasskeyRefused::Malformed)
}

#[cfg(test)]
mod tests;
