//! Decides whether to follow the redirect with which a server answers a request for a blob.
//!
//! The interface lets a server answer a blob by a redirect to a short-lived address. One such
//! redirect is followed, and only to the origin that the user configured: a response must not make
//! this program contact another server. The token goes along only if the new address is below the
//! configured address, since other paths of the origin may belong to somebody else.

use http::header::LOCATION;
use http::uri::Scheme;
use http::{StatusCode, Uri};
use stile_domain::percent;

use crate::outbound::OutboundResponse;

/// An address of the configured origin that a redirect leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedirectTarget {
    pub(super) uri: Uri,
    /// Whether the request may carry the token.
    pub(super) takes_token: bool,
}

/// Returns whether a response redirects a `GET`.
pub(super) fn is_redirect(response: &OutboundResponse) -> bool {
    let statuses = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    statuses.contains(&response.status)
}

/// Returns where a redirect leads. `None` if it leads to another origin, or if two parsers could
/// read its address differently.
///
/// `base` is the configured address without a slash at the end, and `target` the path and the query
/// of the request below it.
pub(super) fn target_of(
    base: &str,
    target: &str,
    response: &OutboundResponse,
) -> Option<RedirectTarget> {
    let mut locations = response.headers.get_all(LOCATION).iter();
    let (location, None) = (locations.next()?.to_str().ok()?, locations.next()) else {
        return None;
    };
    let location = location.split('#').next().unwrap_or_default();
    if location.is_empty() || !location.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    {
        return None;
    }
    let base_uri: Uri = base.parse().ok()?;
    let origin = format!("{}://{}", base_uri.scheme_str()?, base_uri.authority()?);
    let asked: Uri = format!("{base}{target}").parse().ok()?;
    let absolute = if has_scheme(location) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{}:{location}", base_uri.scheme_str()?)
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else if location.starts_with('?') {
        format!("{origin}{}{location}", asked.path())
    } else {
        let (folder, _) = asked.path().rsplit_once('/')?;
        format!("{origin}{folder}/{location}")
    };
    let uri: Uri = absolute.parse().ok()?;
    if origin_of(&uri)? != origin_of(&base_uri)? || has_dot_segment(uri.path()) {
        return None;
    }
    let below = uri.path().strip_prefix(base_uri.path().trim_end_matches('/'));
    let takes_token = below.is_some_and(|rest| rest.starts_with('/'));
    Some(RedirectTarget { uri, takes_token })
}

/// Returns whether an address begins with a scheme (RFC 3986, section 3.1).
fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(is_of_scheme)
}

/// Returns the scheme, the host and the port of an http address without user information.
fn origin_of(uri: &Uri) -> Option<(Scheme, String, u16)> {
    let scheme = uri.scheme()?.clone();
    let usual = if scheme == Scheme::HTTP {
        80
    } else if scheme == Scheme::HTTPS {
        443
    } else {
        return None;
    };
    let authority = uri.authority()?;
    let port = authority.port_u16().unwrap_or(usual);
    let host = authority.host().to_ascii_lowercase();
    (!authority.as_str().contains('@')).then_some((scheme, host, port))
}

/// Returns whether a segment of a path is `.` or `..`, written plainly or encoded.
fn has_dot_segment(path: &str) -> bool {
    let is_dots =
        |segment: &str| percent::decode(segment).is_none_or(|plain| plain == "." || plain == "..");
    path.split('/').any(is_dots)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    const BASE: &str = "https://records.example.org/pre";

    fn redirect(location: &str) -> OutboundResponse {
        let location = HeaderValue::from_bytes(location.as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(LOCATION, location)]);
        OutboundResponse { status: StatusCode::FOUND, headers, body: Vec::new() }
    }

    fn leads_to(location: &str) -> Option<(String, bool)> {
        let target = target_of(BASE, "/v1/blobs/b1?connection_id=c", &redirect(location))?;
        Some((target.uri.to_string(), target.takes_token))
    }

    #[test]
    fn a_redirect_within_the_address_takes_the_token_along() {
        for (location, target) in [
            (
                "https://records.example.org/pre/raw/1?s=2",
                "https://records.example.org/pre/raw/1?s=2",
            ),
            ("https://RECORDS.example.org:443/pre/raw", "https://RECORDS.example.org:443/pre/raw"),
            ("//records.example.org/pre/raw", "https://records.example.org/pre/raw"),
            ("/pre/raw#part", "https://records.example.org/pre/raw"),
            ("b1-raw?s=2", "https://records.example.org/pre/v1/blobs/b1-raw?s=2"),
            ("?s=2", "https://records.example.org/pre/v1/blobs/b1?s=2"),
        ] {
            assert_eq!(leads_to(location), Some((target.to_owned(), true)), "{location}");
        }
    }

    #[test]
    fn a_redirect_beside_the_address_leaves_the_token_behind() {
        for path in ["/signed/1?s=2", "/preface/1", "/pre", "/"] {
            let target = format!("https://records.example.org{path}");
            assert_eq!(leads_to(path), Some((target, false)), "{path}");
        }
    }

    #[test]
    fn a_redirect_to_another_origin_or_to_an_ambiguous_address_leads_nowhere() {
        for location in [
            "https://elsewhere.example.org/pre/raw",
            "http://records.example.org/pre/raw",
            "https://records.example.org:8443/pre/raw",
            "//elsewhere.example.org/pre",
            "https://records.example.org@elsewhere.example.org/pre",
            "https://ann@records.example.org/pre/raw",
            "https://records.example.org.elsewhere.example.org/pre",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "/pre/../signed",
            "/pre/%2e%2E/signed",
            "../signed",
            "/pre\\..\\signed",
            "\\\\elsewhere.example.org/pre",
            "/pre/a b",
            "",
            "#part",
            "https:///pre",
        ] {
            assert_eq!(leads_to(location), None, "{location}");
        }
        let mut two = redirect("/pre/raw");
        two.headers.append(LOCATION, HeaderValue::from_static("/pre/other"));
        assert_eq!(target_of(BASE, "/v1/blobs/b1", &two), None);
    }
}
