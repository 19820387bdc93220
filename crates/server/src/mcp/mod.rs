//! The Model Context Protocol, behind one adapter.
//!
//! What a client says is read strictly ([`envelope`]) before the SDK sees it; the SDK
//! then speaks both lifecycles of the protocol, and [`handler`] turns its calls into calls of
//! [`crate::service::Service`]. Nothing outside this folder and `stdio.rs` knows the SDK, and
//! nothing here knows HTTP but [`streamable`], which hands requests to the SDK's own HTTP service.
//!
//! `direct` answers the plainest calls of the sessionless lifecycle by itself, in the SDK's words.
//!
//! What is missing on purpose: sampling, roots, elicitation and tasks, none of which Stile needs;
//! and, until change notifications are built, `resources/subscribe` and `subscriptions/listen`.

pub mod client_names;
pub(crate) mod direct;
pub mod envelope;
pub mod handler;

pub mod resources;
pub mod server_info;
pub mod streamable;
pub mod tool_definitions;
