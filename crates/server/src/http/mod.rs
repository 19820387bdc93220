//! Stile over HTTP/1.1: one origin, and every check before the first tool.
//!
//! From the outside in: [`server`] accepts connections and bounds their number, and
//! [`stranger_places`] those on which no token came. [`connection`]
//! bounds every wait on a connection and reads the raw head of each request ([`request_head`]).
//! [`edge`] refuses what two parsers might read differently and what comes from a foreign page
//! ([`origin_policy`]), and routes. [`admission`] verifies the token and limits the rate.
//! [`mcp_endpoint`] serves `/mcp`: it checks the session's owner and the scopes before anything is
//! read or written.
//!
//! A new route is part of the `Router` given to [`edge::Edge::new`]. If it needs a token, it calls
//! [`admission::Admission::admit`] first.

mod accept;
mod accept_pace;
pub mod admission;
pub mod carried_sessions;
pub mod challenge;
pub mod connection;
pub mod cross_origin;
pub mod edge;
pub mod gateway_notes;
mod headers;
pub mod kept_sessions;
pub mod mcp_endpoint;
pub mod metadata;
pub mod options;
pub mod origin_policy;
pub mod peer;
pub mod rate_limit;
pub mod request_body;
pub mod request_head;
pub mod response_body;
pub mod responses;
pub mod server;
mod session_starts;
pub mod sessions;
mod start_page;
pub mod stranger_places;
pub mod tls;
pub mod v1;

pub use crate::config::{Network, ToolNames};
pub use options::{GatewayNotesOptions, GatewaySecret, HttpOptions, Timeouts};
pub use server::{serve, serve_metrics};
