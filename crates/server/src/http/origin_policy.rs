//! Which `Host` and `Origin` may come in.
//!
//! A web page that the user visits can make a browser call a server on the user's own machine,
//! under a name that resolves to it. So the name in `Host` must be one that this server is known
//! by, and a request that names the page it comes from must come from a page that is allowed. A
//! client that is no browser sends no `Origin` and passes. *Source*: MCP transports, "DNS
//! rebinding"; RFC 6454.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Who may come in.
pub struct OriginPolicy {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignRequest {
    /// The server is not known by that name.
    Host,
    /// That page is not allowed.
    Origin,
}

/// `name`, or `name:port`; without a port, any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    name: String,
    port: Option<u16>,
}

/// `scheme://name[:port]`, where in a rule no port or `*` means any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    authority: Authority,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl OriginPolicy {
    /// The loopback names, the address listened on, the public origin, and what is configured. An
    /// entry that cannot be read admits nobody.
    pub fn new(
        listen: SocketAddr,
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
        // A page that another program on this machine serves is as foreign as any.
        let own_pages = own.iter().map(|authority| Origin {
            scheme: "http".to_owned(),
            authority: Authority { name: authority.name.clone(), port: Some(listen.port()) },
        });
        Self {
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

    /// Lets a request in, or not.
    ///
    /// # Errors
    /// [`ForeignRequest`].
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        let host = only(headers, &HOST)
            .ok()
            .flatten()
            .and_then(Authority::parse)
            .ok_or(ForeignRequest::Host)?;
        if !self.hosts.iter().any(|rule| rule.admits(&host)) {
            return Err(ForeignRequest::Host);
        }
        match only(headers, &ORIGIN) {
            Ok(None) => Ok(()),
            Ok(Some(text)) => {
                let origin = Origin::parse(text).ok_or(ForeignRequest::Origin)?;
                let admitted = self.origins.iter().any(|rule| rule.admits(&origin));
                if admitted { Ok(()) } else { Err(ForeignRequest::Origin) }
            }
            Err(()) => Err(ForeignRequest::Origin),
        }
    }
}

/// The one value of a header; an error where there are several, or it is not text.
fn only<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address stand in brackets.
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

    fn admits(&self, other: &Self) -> bool {
        self.name == other.name && (self.port.is_none() || self.port == other.port)
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let mut authority = Authority::parse(authority)?;
        let standard = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        authority.port = authority.port.or(standard);
        Some(Self { scheme, authority })
    }

    /// The same, with `*` for any port.
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

    fn admits(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority.admits(&other.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &[&str], origin: &[&str]) -> Result<(), ForeignRequest> {
        let origin_policy = OriginPolicy::new(
            "127.0.0.2:9999".parse().unwrap(),
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
        origin_policy.check(&headers)
    }

    #[test]
    fn only_known_names_are_answered_to() {
        for host in [
            "localhost",
            "localhost:9999",
            "127.0.0.1:1",
            "[::1]:9999",
            "[::1]",
            "LOCALHOST:9999",
            "127.0.0.2:9999",
            "notes.example.org",
            "notes.example.org:443",
            "nas.local:9999",
            "nas:81",
        ] {
            assert_eq!(check(&[host], &[]), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example:9999",
            "localhost:x",
            "localhost:",
            "localhost:99999999",
            "a@localhost",
            "localhost/",
            "localhost evil",
            "127.1",
            "0x7f.1",
            "2130706433",
            "[::ffff:127.0.0.1]",
            "::1",
            "nas",
            "nas:82",
            "localhost,evil.example",
        ] {
            assert_eq!(check(&[host], &[]), Err(ForeignRequest::Host), "{host}");
        }
        assert_eq!(check(&[], &[]), Err(ForeignRequest::Host));
        assert_eq!(check(&["localhost", "localhost"], &[]), Err(ForeignRequest::Host));
    }

    #[test]
    fn only_pages_that_are_allowed_may_call() {
        for origin in [
            "http://localhost:9999",
            "http://127.0.0.1:9999",
            "HTTP://LOCALHOST:9999",
            "http://[::1]:9999",
            "https://notes.example.org",
            "https://app.example.org",
            "https://app.example.org:443",
            "app://obsidian.md",
            "http://dev.test:8080",
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
