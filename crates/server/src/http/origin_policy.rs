//! Decides which values of `Host` and `Origin` are allowed.
//!
//! A web page can make the user's browser call a server on the user's own machine, under a name
//! that resolves to that machine. So `Host` must be a name of this server, and `Origin`, which
//! names the page that makes a request, must be an allowed page. A client that is not a browser
//! sends no `Origin` and passes. *Source*: MCP transports, "DNS rebinding"; RFC 6454.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Scheme;

use super::headers::{self, RepeatedHeader};

/// The allowed values of `Host` and `Origin`.
pub struct OriginPolicy {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    /// The scheme of the server's own pages.
    scheme: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignRequest {
    /// `Host` is missing, repeated, or not a name of this server.
    Host,
    /// `Origin` is repeated, malformed, or not an allowed page.
    Origin,
}

/// `name` or `name:port`. A rule without a port allows every port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    name: String,
    port: Option<u16>,
}

/// `scheme://name[:port]`. A rule with the port `*`, or without a port that its scheme implies,
/// allows every port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    authority: Authority,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl OriginPolicy {
    /// Allows the loopback names, the address listened on, the public origin, and the configured
    /// hosts and origins. The server's own pages have `scheme`. A malformed entry allows nothing.
    pub fn new(
        listen: SocketAddr,
        scheme: &Scheme,
        public_url: Option<&str>,
        hosts: &[String],
        origins: &[String],
    ) -> Self {
        let public = public_url.and_then(|url| Origin::parse(url.trim_end_matches('/')));
        let listened = match listen.ip() {
            ip if ip.is_unspecified() => None,
            IpAddr::V4(ip) => Some(ip.to_string()),
            IpAddr::V6(ip) => Some(format!("[{ip}]")),
        };
        let own = LOOPBACK.into_iter().map(str::to_owned).chain(listened);
        let own: Vec<Authority> = own.map(|name| Authority { name, port: None }).collect();
        // A page that another program on this machine serves is foreign too, so the port counts.
        let own_pages = own.iter().map(|authority| Origin {
            scheme: scheme.to_string(),
            authority: Authority { name: authority.name.clone(), port: Some(listen.port()) },
        });
        Self {
            scheme: scheme.to_string(),
            origins: own_pages
                .chain(public.clone())
                .chain(origins.iter().filter_map(|text| Origin::parse_rule(text)))
                .collect(),
            hosts: own
                .iter()
                .cloned()
                .chain(public.map(|public| Authority { port: None, ..public.authority }))
                .chain(hosts.iter().filter_map(|text| Authority::parse(text)))
                .collect(),
        }
    }

    /// Refuses a request with another `Host` or `Origin`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        let host = headers::single(headers, &HOST).ok().flatten();
        let host = host.and_then(|host| Authority::parse(host.to_str().ok()?));
        let Some(host) = host.filter(|host| self.hosts.iter().any(|rule| rule.allows(host))) else {
            return Err(ForeignRequest::Host);
        };
        let origin = headers::single(headers, &ORIGIN);
        let Some(origin) = origin.map_err(|RepeatedHeader| ForeignRequest::Origin)? else {
            return Ok(());
        };
        let origin = origin.to_str().ok().and_then(Origin::parse);
        let is_allowed = origin.is_some_and(|origin| {
            self.is_own_page(&origin, host) || self.origins.iter().any(|rule| rule.allows(&origin))
        });
        if is_allowed { Ok(()) } else { Err(ForeignRequest::Origin) }
    }
}

impl OriginPolicy {
    /// Returns whether a page was served under the very `Host` that it calls. A port of another
    /// machine or of a container may lead here, so the port need not be the one listened on. A page
    /// of another program has another port.
    fn is_own_page(&self, page: &Origin, host: Authority) -> bool {
        page.scheme == self.scheme && *page == Origin::of(&self.scheme, host)
    }
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.rsplit_once(':') {
            // An IPv6 address has its colons in brackets.
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (text, None),
        };
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let sound = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            }
        };
        let port = match port {
            None => None,
            Some(digits)
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        sound.then(|| Self { name: name.to_ascii_lowercase(), port })
    }

    fn allows(&self, other: &Self) -> bool {
        self.name == other.name && (self.port.is_none() || self.port == other.port)
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        Some(Self::of(&scheme.to_ascii_lowercase(), Authority::parse(authority)?))
    }

    /// Returns an origin with the port that its scheme implies, if it names none.
    fn of(scheme: &str, Authority { name, port }: Authority) -> Self {
        let standard = match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        Self { scheme: scheme.to_owned(), authority: Authority { name, port: port.or(standard) } }
    }

    /// Parses an origin whose port may be `*`, for every port.
    fn parse_rule(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        match text.strip_suffix(":*") {
            Some(text) => {
                let mut rule = Self::parse(text)?;
                rule.authority.port = None;
                Some(rule)
            }
            None => Self::parse(text),
        }
    }

    fn allows(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority.allows(&other.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &[&str], origin: &[&str]) -> Result<(), ForeignRequest> {
        let policy = OriginPolicy::new(
            "127.0.0.2:9999".parse().unwrap(),
            &Scheme::HTTP,
            Some("https://notes.example.org"),
            &["nas.local".to_owned(), "nas:81".to_owned()],
            &[
                "https://app.example.org".to_owned(),
                "app://obsidian.md".to_owned(),
                "http://dev.test:*".to_owned(),
            ],
        );
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(HOST, host.parse().unwrap());
        }
        for origin in origin {
            headers.append(ORIGIN, origin.parse().unwrap());
        }
        policy.check(&headers)
    }

    #[test]
    fn a_host_that_is_not_a_name_of_the_server_is_refused() {
        for host in [
            "localhost", "localhost:9999", "127.0.0.1:1", "[::1]:9999", "[::1]", "LOCALHOST:9999",
            "127.0.0.2:9999", "notes.example.org", "notes.example.org:443", "nas.local:9999",
            "nas:81",
        ] {
            assert_eq!(check(&[host], &[]), Ok(()), "{host}");
        }
        for host in [
            "", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
            "evil.example:9999", "localhost:x", "localhost:", "localhost:99999999", "a@localhost",
            "localhost/", "localhost evil", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]",
            "::1", "nas", "nas:82", "localhost,evil.example",
        ] {
            assert_eq!(check(&[host], &[]), Err(ForeignRequest::Host), "{host}");
        }
        assert_eq!(check(&[], &[]), Err(ForeignRequest::Host));
        assert_eq!(check(&["localhost", "localhost"], &[]), Err(ForeignRequest::Host));
    }

    /// As with `ssh -L 8080:localhost:9999` and `docker run -p 8080:9999`.
    #[test]
    fn a_page_behind_a_forwarded_port_may_call_under_that_port_only() {
        for host in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost", "nas.local:1"] {
            assert_eq!(check(&[host], &[&format!("http://{host}")]), Ok(()), "{host}");
            for foreign in [
                "http://localhost:3000", "http://evil.example:8080", "http://evil.example",
                "https://localhost:8080", "null",
            ] {
                let refused = Err(ForeignRequest::Origin);
                assert_eq!(check(&[host], &[foreign]), refused, "{host} {foreign}");
            }
        }
        // A name of a stranger that resolves to this machine.
        let rebound = check(&["evil.example:9999"], &["http://evil.example:9999"]);
        assert_eq!(rebound, Err(ForeignRequest::Host));
    }

    #[test]
    fn an_origin_that_is_not_an_allowed_page_is_refused() {
        for origin in [
            "http://localhost:9999", "http://127.0.0.1:9999", "HTTP://LOCALHOST:9999",
            "http://[::1]:9999", "https://notes.example.org", "https://app.example.org",
            "https://app.example.org:443", "app://obsidian.md", "http://dev.test:8080",
        ] {
            assert_eq!(check(&["localhost"], &[origin]), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "",
            "*",
            "http://localhost:3000",
            "http://127.0.0.1",
            "https://localhost:9999",
            "http://evil.example",
            "http://127.0.0.1.evil",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://notes.example.org",
            "https://notes.example.org:8443",
            "http://app.example.org",
            "https://sub.app.example.org",
            "file://localhost",
            "http://localhost/",
            "https://app.example.org, https://evil.example",
        ] {
            assert_eq!(check(&["localhost"], &[origin]), Err(ForeignRequest::Origin), "{origin}");
        }
        assert_eq!(
            check(&["localhost"], &["http://localhost", "http://localhost"]),
            Err(ForeignRequest::Origin)
        );
    }
}
