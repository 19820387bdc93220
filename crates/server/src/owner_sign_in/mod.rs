//! How the owner proves to be the owner: password, passkey, or the organisation's identity
//! provider.
//!
//! This module knows no page. The pages hand over what a browser sent, and get a verdict. What a
//! browser is signed in as, and until when, is in the store's table of browser sessions.

pub mod attempts;
pub mod methods;
pub mod openid;
pub mod password;
