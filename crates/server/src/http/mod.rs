//! Stile over HTTP/1.1: one origin, and every check before the first tool.
//!
//! From the outside in: [`server`] accepts connections and bounds their number. [`connection`]
//! bounds every wait on a connection and reads the raw head of each request ([`request_head`]).
//! [`edge`] refuses what two parsers might read differently and what comes from a foreign page
//! ([`origin_policy`]), and routes. [`admission`] verifies the token and limits the rate.
//! [`mcp_endpoint`] serves `/mcp`: it checks the session's owner and the scopes before anything is
//! read or written.
//!
//! A new route is part of the `Router` given to [`edge::Edge::new`]. If it needs a token, it calls
//! [`admission::Admission::admit`] first.

pub mod admission;
pub mod challenge;
pub mod connection;
pub mod cross_origin;
pub mod edge;
pub mod gateway_notes;
mod headers;
pub mod idle_connections;
pub mod mcp_endpoint;
pub mod metadata;
pub mod origin_policy;
pub mod rate_limit;
pub mod request_body;
pub mod request_head;
pub mod response_body;
pub mod responses;
pub mod server;
pub mod sessions;
pub mod v1;

use std::net::SocketAddr;
use std::time::Duration;

pub use crate::config::ToolNames;
pub use gateway_notes::{GatewayNotesOptions, GatewaySecret};
pub use server::{serve, serve_metrics};

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address to listen on; port 0 takes any free port.
    pub listen: SocketAddr,
    /// The origin that clients use, such as `https://notes.example.org`, without a final slash.
    /// If absent, each request's own `Host` is used, over `http`.
    pub public_url: Option<String>,
    /// Names accepted in `Host` besides the loopback names and the address listened on.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call, besides those served from this machine.
    pub allowed_origins: Vec<String>,
    /// The issuers of tokens, for the metadata. If empty, this server names itself.
    pub authorization_servers: Vec<String>,
    /// The longest body of a request to `/mcp`, in bytes.
    pub max_body_bytes: usize,
    /// Requests per second that one subject may send over time.
    pub rate_per_second: u32,
    /// Requests that one subject may send at once.
    pub rate_burst: u32,
    /// The most sessions of one subject. The one idle for longest is closed first.
    pub sessions_per_subject: usize,
    /// How long a session is kept after its last message.
    pub session_idle: Duration,
    /// The most connections at once.
    pub max_connections: usize,
    /// How tool names are spelled in lists.
    pub tool_names: ToolNames,
    /// Settings for gateways that read notes.
    pub notes: GatewayNotesOptions,
    /// The limit of each wait.
    pub timeouts: Timeouts,
}

/// The limit of each wait for a client.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last, and from connecting to the first byte.
    pub head: Duration,
    /// Between two requests on one connection.
    pub idle: Duration,
    /// For the next piece of a request body, and for a client to take the next piece of a response.
    pub stall: Duration,
    /// For a whole request body, however steadily its pieces arrive.
    pub body: Duration,
    /// For calls that run when the server stops.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            // Longer than common clients keep a connection, so that the client closes it first.
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(30),
            body: Duration::from_secs(120),
            drain: Duration::from_secs(3),
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9999)),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            authorization_servers: Vec::new(),
            max_body_bytes: 4 * 1024 * 1024,
            rate_per_second: 2000,
            rate_burst: 5000,
            sessions_per_subject: 64,
            session_idle: Duration::from_secs(3600),
            max_connections: 4096,
            tool_names: ToolNames::Auto,
            notes: GatewayNotesOptions::default(),
            timeouts: Timeouts::default(),
        }
    }
}
