//! The settings of the HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ring::hmac;

use super::kept_sessions::KeptSessions;
use super::peer::PeerPolicy;
use super::tls::TlsIdentity;
use crate::fleet::Fleet;
use crate::mcp::presentation::Presentation;
use crate::people::People;

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address to listen on; port 0 takes any free port.
    pub listen: SocketAddr,
    /// The certificate and its key; if absent, connections are plain text.
    pub tls: Option<Arc<TlsIdentity>>,
    /// The proxies that are believed.
    pub peers: PeerPolicy,
    /// The origin that clients use, such as `https://notes.example.org`, without a final slash.
    /// If absent, each request's own `Host` is used, with the scheme that the client used.
    pub public_url: Option<String>,
    /// Names accepted in `Host` besides the loopback names and the address listened on.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call, besides those served from this machine.
    pub allowed_origins: Vec<String>,
    /// The issuers of tokens, for the metadata. If empty, the metadata names this server itself if
    /// it has an authorization server, and otherwise none.
    pub authorization_servers: Vec<String>,
    /// The routes of this server's own authorization server; `None` if it has none.
    pub sign_in: Option<Router>,
    /// The longest body of a request to `/mcp`, in bytes.
    pub max_body_bytes: usize,
    /// Requests per second that one subject may send over time.
    pub rate_per_second: u32,
    /// Requests that one subject may send at once.
    pub rate_burst: u32,
    /// The most sessions of one subject. Of the client that has most, the one idle for longest is
    /// closed first.
    pub sessions_per_subject: usize,
    /// How long a session is in memory after its last message.
    pub session_idle: Duration,
    /// The most connections at once.
    pub max_connections: usize,
    /// How tool names are spelled in lists.
    pub presentation: Presentation,
    /// Settings for gateways that read notes.
    pub notes: GatewayNotesOptions,
    /// The people who each have a service of their own; `None` if all callers have one service.
    pub people: Option<Arc<People>>,
    /// Where sessions outlive the process; `None` for a server without a state.
    pub kept_sessions: Option<Arc<KeptSessions>>,
    /// The other servers that use this server's database; `None` if the state is in a folder.
    pub fleet: Option<Arc<Fleet>>,
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
            tls: None,
            peers: PeerPolicy::default(),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            authorization_servers: Vec::new(),
            sign_in: None,
            max_body_bytes: 4 * 1024 * 1024,
            rate_per_second: 2000,
            rate_burst: 5000,
            sessions_per_subject: 64,
            session_idle: Duration::from_secs(3600),
            max_connections: 4096,
            presentation: Presentation::default(),
            notes: GatewayNotesOptions::default(),
            people: None,
            kept_sessions: None,
            fleet: None,
            timeouts: Timeouts::default(),
        }
    }
}

/// Settings that a gateway must agree with.
#[derive(Clone, Debug)]
pub struct GatewayNotesOptions {
    /// The name of the one vault that the space is.
    pub vault: String,
    /// The secret that every request must send; `None` if none is required.
    pub secret: Option<GatewaySecret>,
    /// The `sub` of the gateway that may read on behalf of another user.
    pub trusted_gateway: Option<String>,
}

impl Default for GatewayNotesOptions {
    fn default() -> Self {
        Self { vault: "default".to_owned(), secret: None, trusted_gateway: None }
    }
}

/// A secret that a server shares with its gateway, compared in constant time.
#[derive(Clone)]
pub struct GatewaySecret(hmac::Tag);

/// The message signed with each secret, so that signatures are compared and not secrets.
const COMPARED: &[u8] = b"the secret of a gateway";

impl GatewaySecret {
    /// Keeps only a signature made with `secret`.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), COMPARED))
    }

    pub(super) fn matches(&self, given: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, given), COMPARED, self.0.as_ref()).is_ok()
    }
}

impl std::fmt::Debug for GatewaySecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GatewaySecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_matches_only_itself_and_is_never_printed() {
        let secret = GatewaySecret::new(b"correct horse");
        assert!(secret.matches(b"correct horse"));
        for wrong in
            [&b""[..], b"correct hors", b"correct horse ", b"Correct horse", b"correct horse\0\0x"]
        {
            assert!(!secret.matches(wrong));
        }
        assert_eq!(format!("{secret:?}"), "GatewaySecret(…)");
    }
}
