//! The site that a passkey is for: an origin and the domain of that origin.

use std::net::IpAddr;

/// An origin at which browsers allow passkeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingParty {
    /// The origin, without the port that its scheme implies: `https://notes.example.org`.
    pub(super) origin: String,
    /// The relying party identifier: the whole host of the origin, never a parent domain.
    pub(super) domain: String,
}

impl RelyingParty {
    /// Returns `None` if browsers allow no passkey at an origin: it is neither HTTPS nor
    /// `http://localhost`, or its host is an address and not a name.
    pub fn of_origin(origin: &str) -> Option<Self> {
        let origin = origin.to_ascii_lowercase();
        let (scheme, authority) = origin.split_once("://")?;
        let standard_port = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return None,
        };
        let authority = authority.strip_suffix(standard_port).unwrap_or(authority);
        let domain = authority.split(':').next().unwrap_or_default();
        let is_name =
            domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
                && domain.parse::<IpAddr>().is_err()
                && domain.split('.').all(|label| !label.is_empty());
        let is_allowed = scheme == "https" || domain == "localhost";
        (is_name && is_allowed)
            .then(|| Self { origin: format!("{scheme}://{authority}"), domain: domain.to_owned() })
    }

    /// Returns the domain, for the page that asks the browser for a passkey.
    pub fn domain(&self) -> &str {
        &self.domain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_need_a_name_and_https_or_localhost() {
        for (origin, expected) in [
            ("https://notes.example.org", Some(("https://notes.example.org", "notes.example.org"))),
            (
                "https://Notes.example.org:443",
                Some(("https://notes.example.org", "notes.example.org")),
            ),
            (
                "https://notes.example.org:8443",
                Some(("https://notes.example.org:8443", "notes.example.org")),
            ),
            ("http://localhost:9999", Some(("http://localhost:9999", "localhost"))),
            ("http://localhost:80", Some(("http://localhost", "localhost"))),
            ("https://localhost", Some(("https://localhost", "localhost"))),
            ("http://127.0.0.1:9999", None),
            ("https://127.0.0.1", None),
            ("https://[::1]:9999", None),
            ("http://notes.example.org", None),
            ("http://localhost.example.org", None),
            ("https://", None),
            ("https://.", None),
            ("notes.example.org", None),
            ("app://localhost", None),
        ] {
            let found = RelyingParty::of_origin(origin);
            let found = found.as_ref().map(|party| (party.origin.as_str(), party.domain.as_str()));
            assert_eq!(found, expected, "{origin}");
        }
    }
}
