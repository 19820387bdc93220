//! Client identifiers that are the address of a document about the client.
//!
//! The server fetches that address, so only an address that every parser reads alike is accepted:
//! `https`, a public name as host, no port, a path, and nothing after it.
//!
//! *Source*: draft-ietf-oauth-client-id-metadata-document-02, section 3, which also says that
//! identifiers are compared as texts, without any normalisation.

use std::fmt;
use std::net::Ipv4Addr;

use super::redirect_uri::{check_characters, check_host, has_dot_segment};

/// The longest identifier, in bytes.
pub const MAX_CLIENT_ID_URL_BYTES: usize = 512;

/// The address of a client's document, which is its identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientIdUrl {
    text: String,
    /// The position in `text` after the host.
    path: usize,
}

/// Why a text is not the address of a client's document. Repeats nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a `client_id` that is an address has the form `https://host/path` in at most 512 bytes, with \
     a host name in lower case and without a port, user information, query, fragment or dot \
     segment"
)]
pub struct BadClientIdUrl;

impl ClientIdUrl {
    /// Returns whether a client identifier is meant to be an address. An identifier that this
    /// server has made is not.
    pub fn is_address(client_id: &str) -> bool {
        client_id.contains("://")
    }

    /// Parses an address. An address that is accepted is kept as it was written.
    ///
    /// # Errors
    /// [`BadClientIdUrl`]. Addresses of the network as host are refused, too: no client has one,
    /// and a document at one belongs to nobody whom a person could recognise.
    pub fn parse(text: &str) -> Result<Self, BadClientIdUrl> {
        let after = text.strip_prefix("https://").ok_or(BadClientIdUrl)?;
        let (host, path) = after.split_at(after.find('/').ok_or(BadClientIdUrl)?);
        let is_name = host.contains('.')
            && host.parse::<Ipv4Addr>().is_err()
            && !host.starts_with('[')
            && check_host(host).is_ok();
        let fits = text.len() <= MAX_CLIENT_ID_URL_BYTES
            && check_characters(text).is_ok()
            && is_name
            && path.len() > 1
            && !path.contains('?')
            && !has_dot_segment(path);
        let path = text.len() - path.len();
        if fits { Ok(Self { text: text.to_owned(), path }) } else { Err(BadClientIdUrl) }
    }

    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name of the host.
    pub fn host(&self) -> &str {
        self.text.get("https://".len()..self.path).unwrap_or_default()
    }

    /// Returns the path, which begins with `/`.
    pub fn path(&self) -> &str {
        self.text.get(self.path..).unwrap_or_default()
    }
}

impl fmt::Display for ClientIdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifiers_of_real_clients_are_accepted() {
        for (text, host, path) in [
            (
                "https://claude.ai/oauth/mcp-oauth-client-metadata",
                "claude.ai",
                "/oauth/mcp-oauth-client-metadata",
            ),
            (
                "https://claude.ai/oauth/claude-code-client-metadata",
                "claude.ai",
                "/oauth/claude-code-client-metadata",
            ),
            ("https://chatgpt.com/oauth/client.json", "chatgpt.com", "/oauth/client.json"),
            (
                "https://chatgpt.com/oauth/kDmjx77UnKOM/client.json",
                "chatgpt.com",
                "/oauth/kDmjx77UnKOM/client.json",
            ),
            (
                "https://vscode.dev/oauth/client-metadata.json",
                "vscode.dev",
                "/oauth/client-metadata.json",
            ),
            (
                "https://opencode.ai/oauth/opencode/client.json",
                "opencode.ai",
                "/oauth/opencode/client.json",
            ),
        ] {
            let url = ClientIdUrl::parse(text).unwrap();
            assert_eq!((url.as_str(), url.host(), url.path()), (text, host, path));
            assert!(ClientIdUrl::is_address(text));
        }
    }

    #[test]
    fn addresses_that_could_lead_elsewhere_are_refused() {
        for text in [
            "",
            "claude.ai/oauth",
            "http://claude.ai/oauth",
            "HTTPS://claude.ai/oauth",
            "https://claude.ai",
            "https://claude.ai/",
            "https://claude.ai?a",
            "https://claude.ai/oauth?a=b",
            "https://claude.ai/oauth#a",
            "https://claude.ai:443/oauth",
            "https://claude.ai:8443/oauth",
            "https://me@claude.ai/oauth",
            "https://Claude.ai/oauth",
            "https://claude.ai./oauth",
            "https://claude.ai/a/../oauth",
            "https://claude.ai/%2e%2e/oauth",
            "https://claude.ai/a\\b",
            "https://claude.ai/a b",
            "https://claude.ai/%00",
            "https://clаude.ai/oauth",
            "https://localhost/oauth",
            "https://intranet/oauth",
            "https://127.0.0.1/oauth",
            "https://169.254.169.254/latest/meta-data",
            "https://0x7f.0.0.1/oauth",
            "https://2130706433/oauth",
            "https://[::1]/oauth",
            "https://[::ffff:10.0.0.1]/oauth",
            &format!("https://claude.ai/{}", "a".repeat(MAX_CLIENT_ID_URL_BYTES)),
        ] {
            assert_eq!(ClientIdUrl::parse(text), Err(BadClientIdUrl), "{text}");
        }
    }
}
