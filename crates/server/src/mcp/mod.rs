//! The Model Context Protocol, behind one adapter.
//!
//! [`envelope`] parses a client's message strictly before the SDK gets it. The SDK implements both
//! lifecycles of the protocol, and [`handler`] turns its calls into calls of
//! [`crate::service::Service`]. `direct` answers the plainest calls of the sessionless lifecycle
//! without the SDK, with the same bytes. Only this folder and `stdio.rs` know the SDK. Only
//! [`streamable`] knows HTTP here: it passes requests to the SDK's HTTP service.
//!
//! Sampling, roots, elicitation and tasks are left out on purpose, since Stile needs none of them.

pub mod client_names;
pub(crate) mod direct;
pub mod envelope;
pub mod handler;
pub(crate) mod handshake;
pub mod list_changes;
mod outlets;
pub mod presentation;
mod primed_sessions;
pub mod progress;
mod prompts;
pub mod resources;
pub mod revisions;
pub mod server_info;
pub mod streamable;
pub mod subscriptions;
pub mod tool_definitions;
mod unanswered;
