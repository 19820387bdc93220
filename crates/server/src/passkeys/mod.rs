//! Passkeys: registers public keys of the owner's devices, and verifies what those devices sign.
//!
//! Implements what a relying party does in Web Authentication Level 3, sections 7.1 and 7.2, for
//! passkeys that a device finds by itself and unlocks for a verified user. No statement about the
//! make of a device is asked for or verified. `docs/decisions/0031-own-passkey-verifier.md` says
//! why this is not a library.

mod authenticator_data;
mod ceremony;
mod client_data;
mod public_key;
mod relying_party;

pub use ceremony::{
    Assertion, PasskeyName, PasskeyRefused, Passkeys, Registration, RegistrationOptions,
};
pub use relying_party::RelyingParty;
