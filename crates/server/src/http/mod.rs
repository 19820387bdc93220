//! Stile over HTTP/1.1: one origin, and everything that stands before the first tool.
//!
//! From the outside in: [`server`] accepts connections and bounds them in number; [`connection`]
//! bounds every wait on one and sees the raw head of each request ([`request_head`]); [`edge`] refuses
//! what two parsers might read differently and what comes from a foreign page ([`origin_policy`]), and
//! routes; [`mcp_endpoint`] is `/mcp`, with the caller's token, the rate, the session's owner and the
//! scopes decided before anything is touched.
//!
//! Every decision is a function of values; time and configuration are arguments. A route that comes
//! later is a `Router` handed to [`edge::Edge::new`], and calls [`bearer::authenticate`] like
//! `/mcp` does.

pub mod bearer;
pub mod connection;
pub mod edge;
pub mod gateway_notes;
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

/// How the server is to be reached.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The origin that clients use, such as `https://notes.example.org`, without a final slash.
    /// Where there is none, each request's own `Host` is used, over `http`.
    pub public_url: Option<String>,
    /// Names accepted in `Host` besides the loopback names and the address listened on.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call, besides those served from this machine.
    pub allowed_origins: Vec<String>,
    /// Who issues tokens, for the metadata; where there is none, this server names itself.
    pub authorization_servers: Vec<String>,
    /// The longest body of a request to `/mcp`.
    pub max_body_bytes: usize,
    /// Requests a second of one subject, over time.
    pub rate_per_second: u32,
    /// Requests of one subject at once.
    pub rate_burst: u32,
    /// Sessions of one subject; the idlest goes first.
    pub sessions_per_subject: usize,
    /// How long a session outlives its last message.
    pub session_idle: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// How tool names are spelled in lists.
    pub tool_names: ToolNames,
    /// What gateways that read notes must agree with.
    pub notes: GatewayNotesOptions,
    /// How long anyone is waited for.
    pub timeouts: Timeouts,
}

/// How long anyone is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last, and from connecting to the first head.
    pub head: Duration,
    /// Between two requests on one connection.
    pub idle: Duration,
    /// For the next piece of a body, and for a client to take the next piece of an answer.
    pub stall: Duration,
    /// For a whole body, however steadily it drips.
    pub body: Duration,
    /// For calls that run when the server is told to stop.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            // Longer than common clients keep a connection, so that they close it and not we.
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
