//! Decides which client sent a request, and over which scheme.
//!
//! A proxy says in `X-Forwarded-Proto` and `X-Forwarded-For` how its client reached it. Anyone can
//! write these headers, so they count only if a proxy that the operator named sent the request.
//! Where plain text may come from these proxies alone, other machines are refused.

use std::net::{IpAddr, SocketAddr};

use http::uri::Scheme;
use http::{HeaderMap, HeaderName};

use super::headers::{self, RepeatedHeader};
use crate::config::Network;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct ConnectedPeer {
    /// The address that connected.
    pub address: IpAddr,
    /// The scheme that the connection itself has.
    pub scheme: Scheme,
}

/// Who sent a request, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The address of the client.
    pub address: IpAddr,
    /// The scheme that the client used.
    pub scheme: Scheme,
}

/// What the server does with a plain request of another machine that is not a named proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectClients {
    /// The server answers it.
    #[default]
    Answered,
    /// The server refuses it.
    Refused,
}

/// Why a request is refused for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRefused {
    /// The peer is neither a named proxy nor this machine, and the request is plain text.
    NotTheProxy,
    /// A named proxy sent headers that have no one meaning.
    ForwardedHeaders,
}

/// The proxies that the operator named.
#[derive(Clone, Debug, Default)]
pub struct PeerPolicy {
    proxies: Vec<Network>,
    direct: DirectClients,
}

impl PeerPolicy {
    /// Believes the headers of `proxies`, and treats other machines as `direct` says.
    pub fn new(proxies: Vec<Network>, direct: DirectClients) -> Self {
        Self { proxies, direct }
    }

    /// Returns who sent a request that arrived from `peer`.
    ///
    /// # Errors
    /// [`PeerRefused`].
    pub fn origin(
        &self,
        peer: &ConnectedPeer,
        headers: &HeaderMap,
    ) -> Result<RequestOrigin, PeerRefused> {
        let address = peer.address.to_canonical();
        if self.is_proxy(address) {
            return self.forwarded(peer, headers).ok_or(PeerRefused::ForwardedHeaders);
        }
        let is_exposed = peer.scheme == Scheme::HTTP && !address.is_loopback();
        if is_exposed && self.direct == DirectClients::Refused {
            return Err(PeerRefused::NotTheProxy);
        }
        Ok(RequestOrigin { address, scheme: peer.scheme.clone() })
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|proxy| proxy.contains(address))
    }

    /// Returns what a proxy says; `None` if it can be read in two ways.
    fn forwarded(&self, peer: &ConnectedPeer, headers: &HeaderMap) -> Option<RequestOrigin> {
        let scheme = match headers::single(headers, &FORWARDED_PROTO) {
            Err(RepeatedHeader) => return None,
            Ok(None) => peer.scheme.clone(),
            Ok(Some(value)) if value.as_bytes().eq_ignore_ascii_case(b"https") => Scheme::HTTPS,
            Ok(Some(value)) if value.as_bytes().eq_ignore_ascii_case(b"http") => Scheme::HTTP,
            Ok(Some(_)) => return None,
        };
        // Each proxy adds the address of its own client at the right. What is left of the first
        // address that is not a proxy's was written by that client.
        let mut address = peer.address.to_canonical();
        for value in headers.get_all(FORWARDED_FOR).iter().rev() {
            for item in value.to_str().ok()?.rsplit(',') {
                address = parse_address(item.trim())?;
                if !self.is_proxy(address) {
                    return Some(RequestOrigin { address, scheme });
                }
            }
        }
        Some(RequestOrigin { address, scheme })
    }
}

/// Parses an address that a port may follow.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().ok().map(IpAddr::V6),
        None => text
            .parse::<IpAddr>()
            .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
            .ok(),
    };
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(
        peer: &str,
        scheme: Scheme,
        sent: &[(&'static str, &str)],
    ) -> Result<(String, String), PeerRefused> {
        let proxies = ["10.0.0.0/8", "::1"].map(|network| network.parse().unwrap()).to_vec();
        let policy = PeerPolicy::new(proxies, DirectClients::Refused);
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, value.parse().unwrap());
        }
        let peer = ConnectedPeer { address: peer.parse().unwrap(), scheme };
        let origin = policy.origin(&peer, &headers)?;
        Ok((origin.scheme.to_string(), origin.address.to_string()))
    }

    fn through_proxy(sent: &[(&'static str, &str)]) -> Result<(String, String), PeerRefused> {
        origin("10.0.0.1", Scheme::HTTP, sent)
    }

    const PROTO: &str = "x-forwarded-proto";
    const FOR: &str = "x-forwarded-for";

    #[test]
    fn only_a_named_proxy_is_believed() {
        let sent = [(PROTO, "https"), (FOR, "192.0.2.9")];
        let is = |scheme: &str, address: &str| Ok((scheme.to_owned(), address.to_owned()));
        assert_eq!(through_proxy(&sent), is("https", "192.0.2.9"));
        assert_eq!(origin("::1", Scheme::HTTP, &sent), is("https", "192.0.2.9"));
        assert_eq!(origin("::ffff:10.0.0.1", Scheme::HTTP, &sent), is("https", "192.0.2.9"));
        assert_eq!(origin("127.0.0.1", Scheme::HTTP, &sent), is("http", "127.0.0.1"));
        assert_eq!(origin("192.0.2.1", Scheme::HTTPS, &sent), is("https", "192.0.2.1"));
        let plain = [(PROTO, "http")];
        assert_eq!(origin("192.0.2.1", Scheme::HTTPS, &plain), is("https", "192.0.2.1"));
        for peer in ["192.0.2.1", "11.0.0.1", "fe80::1", "::ffff:192.0.2.1"] {
            assert_eq!(origin(peer, Scheme::HTTP, &sent), Err(PeerRefused::NotTheProxy), "{peer}");
        }
    }

    #[test]
    fn a_scheme_that_has_no_one_meaning_is_refused() {
        assert_eq!(through_proxy(&[]).unwrap().0, "http");
        assert_eq!(through_proxy(&[(PROTO, "HTTPS")]).unwrap().0, "https");
        assert_eq!(through_proxy(&[(PROTO, "http")]).unwrap().0, "http");
        for sent in [
            &[(PROTO, "https"), (PROTO, "https")][..],
            &[(PROTO, "http"), (PROTO, "https")],
            &[(PROTO, "https, http")],
            &[(PROTO, "https,https")],
            &[(PROTO, "ftp")],
            &[(PROTO, "")],
            &[(PROTO, "https://evil.example/")],
        ] {
            assert_eq!(through_proxy(sent), Err(PeerRefused::ForwardedHeaders), "{sent:?}");
        }
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_no_proxy() {
        for (sent, client) in [
            (&[][..], "10.0.0.1"),
            (&[(FOR, "192.0.2.9")], "192.0.2.9"),
            (&[(FOR, "198.51.100.1, 192.0.2.9")], "192.0.2.9"),
            (&[(FOR, "198.51.100.1, 192.0.2.9 ,10.2.3.4, ::1")], "192.0.2.9"),
            (&[(FOR, "not, an address, 192.0.2.9")], "192.0.2.9"),
            (&[(FOR, "198.51.100.1"), (FOR, "192.0.2.9,10.9.9.9")], "192.0.2.9"),
            (&[(FOR, "198.51.100.1"), (FOR, "10.9.9.9")], "198.51.100.1"),
            (&[(FOR, "10.7.7.7, 10.9.9.9")], "10.7.7.7"),
            (&[(FOR, "192.0.2.9:4711")], "192.0.2.9"),
            (&[(FOR, "[2001:db8::9]:4711")], "2001:db8::9"),
            (&[(FOR, "[2001:db8::9]")], "2001:db8::9"),
            (&[(FOR, "2001:db8::9")], "2001:db8::9"),
        ] {
            assert_eq!(through_proxy(sent).unwrap().1, client, "{sent:?}");
        }
        for value in
            ["", "unknown", "192.0.2.9,", "192.0.2.9, x", "192.0.2.9;10.0.0.1", "[192.0.2.9]"]
        {
            let refused = through_proxy(&[(FOR, value)]);
            assert_eq!(refused, Err(PeerRefused::ForwardedHeaders), "{value}");
        }
    }
}
