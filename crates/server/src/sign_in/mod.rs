//! The authorization server of one owner: a client that knows nothing but the address of `/mcp`
//! finds it, registers, sends the owner's browser to it, and gets a token for what the owner
//! approved.
//!
//! A request is read whole ([`web_request`]) and answered by a function over values: [`authorize`]
//! and [`consent`] for the browser; [`register`], [`token`] and [`revoke`] for the
//! client's program. [`routes`] says which path has which. [`client_documents`] has what clients
//! publish about themselves, and [`sealed_client`] what those without a document said when they
//! registered. What the owner approved is an
//! authorization of the state; access tokens are those of `stile token` with a short life, so
//! scopes, grants and revocation work alike for both.
//!
//! *Source*: RFC 6749, 7009, 7591, 7636, 8252, 8414, 8707, 9207; docs/decisions/0030.

pub mod access_choices;
pub mod access_request;
pub mod authorize;
pub mod carried_ticks;
pub mod client_documents;
pub mod clients;
pub mod consent;
pub mod document_clients;
pub mod introspect;
pub mod oauth_error;
pub mod parameters;
pub mod pending;
pub mod push;
pub mod record_access;
pub mod record_choices;
pub mod record_sample;
pub mod register;
pub mod revoke;
pub mod routes;
pub mod sealed_client;
pub mod secret;
pub mod server_metadata;
pub mod settings;
pub mod token;
pub mod used_forms;
pub mod web_request;
