//! The rules of signing in a client: who the client is, where its answer may go, and what proves
//! that the client that asked is the one that redeems.
//!
//! A client is known by the address of its own document ([`client_id_url`]) or by a registration.
//! Both say the same things about it ([`client_metadata`]), above all where the browser takes the
//! answer ([`redirect_uri`]). A document is fetched from the public network only
//! ([`public_address`]). [`pkce`] ties a code to the client that asked for it. Limits count the
//! network that a request comes from ([`source_network`]).

pub mod asked_access;
pub mod browser_name;
pub mod client_id_url;
pub mod client_metadata;
pub mod folder_choices;
pub mod pkce;
pub mod public_address;
pub mod redirect_uri;
pub mod source_network;
