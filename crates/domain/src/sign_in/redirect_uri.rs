//! Where the browser takes the answer to a client: redirect URIs, and which of them match.
//!
//! A redirect URI is accepted only in a form that every browser and every parser reads alike:
//! ASCII, a lower-case scheme and host, no user information, no fragment, no `.` or `..` segment,
//! and no backslash. So the host that the consent page shows is the host that receives the answer.
//! Two redirect URIs match if their texts are equal; at a loopback host over `http` the port may
//! differ, since a native client listens on any free port.
//!
//! *Source*: RFC 9700, section 2.1 (exact matching); RFC 8252, sections 7.1 and 7.3.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::percent;

/// The longest redirect URI, in bytes.
pub const MAX_REDIRECT_URI_BYTES: usize = 1024;

/// The hosts at which only the user's own computer listens. *Source*: RFC 8252, section 7.3; the
/// clients of the survey in the decision record use all three.
const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Parameters of an answer. A redirect URI that already has one would give the client two.
const ANSWER_PARAMETERS: [&str; 7] =
    ["code", "state", "iss", "error", "error_description", "error_uri", "response"];

/// The schemes that native clients own, each with the authority of the client within the program
/// that registered the scheme: an editor hands the rest to the extension that the authority names,
/// so another authority would be another extension.
///
/// *Sources*: Cursor registers `cursor://anysphere.cursor-mcp/oauth/callback`
/// (modelcontextprotocol/python-sdk #897). Cline registers
/// `vscode://saoudrizwan.claude-dev/mcp-auth/callback/…` (its `McpOAuthRedirectResolver`). Raycast
/// registers `raycast://oauth?package_name=…` (Raycast's guide to OAuth).
pub const NATIVE_AUTHORITIES: [(&str, &str); 3] = [
    ("cursor", "anysphere.cursor-mcp"),
    ("vscode", "saoudrizwan.claude-dev"),
    ("raycast", "oauth"),
];

/// An address that may receive the answer to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RedirectUri {
    text: String,
    kind: RedirectKind,
    /// The positions in `text` between which the host stands.
    host: (usize, usize),
    /// The position in `text` after the authority.
    rest: usize,
}

/// Who receives an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectKind {
    /// A website, over `https`.
    Web,
    /// A program that listens on the user's own computer, over `http`.
    Loopback,
    /// A program that has registered its own scheme on the user's computer.
    Native,
}

/// Why a text is not a redirect URI that this server accepts. Repeats nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRedirectUri {
    /// The text is empty or longer than [`MAX_REDIRECT_URI_BYTES`].
    #[error("a redirect URI has 1 to 1024 bytes")]
    Length,
    /// The text has a character that a URI cannot contain, or a malformed escape.
    #[error(
        "a redirect URI has the characters of RFC 3986 only, without `\\`; write a host outside \
         of ASCII in its `xn--` form"
    )]
    Character,
    /// The text has no scheme and authority.
    #[error("a redirect URI has the form `scheme://host/path`")]
    Form,
    /// The text has a fragment.
    #[error("a redirect URI has no fragment")]
    Fragment,
    /// The text has user information before the host.
    #[error("a redirect URI has no user information before its host")]
    UserInfo,
    /// The scheme is not `https`, nor `http` at a loopback host, nor in [`NATIVE_AUTHORITIES`].
    #[error(
        "a redirect URI has the scheme `https`, or `http` with the host `localhost`, `127.0.0.1` \
         or `[::1]`, or begins with one of `cursor://anysphere.cursor-mcp`, \
         `vscode://saoudrizwan.claude-dev` and `raycast://oauth`"
    )]
    Scheme,
    /// The host is not written in the one form that every parser reads alike.
    #[error(
        "the host of a redirect URI is a name in lower case without a dot at its end, or an \
         address in its usual form"
    )]
    Host,
    /// The port is not a number from 1 to 65,535 without leading zeros.
    #[error("the port of a redirect URI is a number from 1 to 65535")]
    Port,
    /// A segment of the path is `.` or `..`, in escapes or not.
    #[error("the path of a redirect URI has no `.` or `..` segment")]
    Dots,
    /// The query has a parameter of the answer.
    #[error("the query of a redirect URI has no parameter that the answer adds, such as `code`")]
    AnswerParameter,
}

impl RedirectUri {
    /// Parses a redirect URI. A URI that is accepted is kept as it was written.
    ///
    /// # Errors
    /// Every [`BadRedirectUri`].
    pub fn parse(text: &str) -> Result<Self, BadRedirectUri> {
        if text.is_empty() || text.len() > MAX_REDIRECT_URI_BYTES {
            return Err(BadRedirectUri::Length);
        }
        check_characters(text)?;
        let (scheme, after) = text.split_once("://").ok_or(BadRedirectUri::Form)?;
        let authority = after.split(['/', '?']).next().unwrap_or_default();
        let rest = after.get(authority.len()..).unwrap_or_default();
        if authority.contains('@') {
            return Err(BadRedirectUri::UserInfo);
        }
        let kind = match scheme {
            "https" | "http" => {
                let (host, port) = split_port(authority)?;
                check_host(host)?;
                port.map_or(Ok(()), check_port)?;
                match scheme {
                    "https" => RedirectKind::Web,
                    _ if LOOPBACK_HOSTS.contains(&host) => RedirectKind::Loopback,
                    _ => return Err(BadRedirectUri::Scheme),
                }
            }
            _ if NATIVE_AUTHORITIES.contains(&(scheme, authority)) => RedirectKind::Native,
            _ => return Err(BadRedirectUri::Scheme),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if has_dot_segment(path) {
            return Err(BadRedirectUri::Dots);
        }
        if has_answer_parameter(query) {
            return Err(BadRedirectUri::AnswerParameter);
        }
        let start = text.len() - after.len();
        let host = match kind {
            RedirectKind::Native => authority,
            _ => split_port(authority)?.0,
        };
        Ok(Self {
            text: text.to_owned(),
            kind,
            host: (start, start + host.len()),
            rest: start + authority.len(),
        })
    }

    /// Returns the URI as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns who receives the answer.
    pub fn kind(&self) -> RedirectKind {
        self.kind
    }

    /// Returns the host as a person should see it: a name, an address, or the authority of a native
    /// client.
    pub fn host(&self) -> &str {
        self.text.get(self.host.0..self.host.1).unwrap_or_default()
    }

    /// Returns whether the answer stays on the user's own computer, where every program of the user
    /// may have asked for it.
    pub fn stays_on_this_computer(&self) -> bool {
        let host = self.host().trim_start_matches('[').trim_end_matches(']');
        let is_loopback_address = host.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback())
            || host.parse::<Ipv6Addr>().is_ok_and(|it| it.is_loopback());
        self.kind != RedirectKind::Web || host == "localhost" || is_loopback_address
    }

    /// Returns what the `form-action` directive of the consent page must name, so that the browser
    /// follows the redirect: an origin, or the scheme of a native client with a colon.
    pub fn form_action_source(&self) -> String {
        match self.kind {
            RedirectKind::Native => {
                format!("{}:", self.text.split("://").next().unwrap_or_default())
            }
            _ => self.text.get(..self.rest).unwrap_or_default().to_owned(),
        }
    }

    /// Returns whether this URI, which a client has registered, allows the URI of a request.
    ///
    /// The texts are equal, or both are loopback URIs that differ in nothing but the port.
    pub fn allows(&self, requested: &Self) -> bool {
        if self.kind != RedirectKind::Loopback || requested.kind != RedirectKind::Loopback {
            return self.text == requested.text;
        }
        self.host() == requested.host() && self.loopback_target() == requested.loopback_target()
    }

    /// Returns the path and the query. A program that listens sees an empty path as `/`.
    fn loopback_target(&self) -> (&str, Option<&str>) {
        let rest = self.text.get(self.rest..).unwrap_or_default();
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        (if path.is_empty() { "/" } else { path }, query)
    }

    /// Returns the address of an answer: this URI with the parameters added to its query.
    pub fn with_parameters(&self, parameters: &[(&str, &str)]) -> String {
        let mut address = self.text.clone();
        let mut separator = if address.contains('?') { '&' } else { '?' };
        for (name, value) in parameters {
            if !address.ends_with(['?', '&']) {
                address.push(separator);
            }
            separator = '&';
            address.push_str(&percent::encode_component(name));
            address.push('=');
            address.push_str(&percent::encode_component(value));
        }
        address
    }
}

impl fmt::Display for RedirectUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks that the text has the characters of RFC 3986 only, and only complete escapes of bytes
/// that are no control characters and no backslash.
pub(super) fn check_characters(text: &str) -> Result<(), BadRedirectUri> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'#' => return Err(BadRedirectUri::Fragment),
            b'%' => {
                let mut digit = || bytes.next().and_then(|it| char::from(it).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(BadRedirectUri::Character);
                };
                if matches!(high << 4 | low, 0..=0x1f | 0x5c | 0x7f) {
                    return Err(BadRedirectUri::Character);
                }
            }
            byte if byte.is_ascii_alphanumeric() => {}
            byte if b"-._~:/?[]@!$&'()*+,;=".contains(&byte) => {}
            _ => return Err(BadRedirectUri::Character),
        }
    }
    Ok(())
}

/// Splits an authority without user information into the host and the port.
pub(super) fn split_port(authority: &str) -> Result<(&str, Option<&str>), BadRedirectUri> {
    let (host, after) = match authority.find(']') {
        Some(end) => authority.split_at(end + 1),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err(BadRedirectUri::Host),
    }
}

fn check_port(port: &str) -> Result<(), BadRedirectUri> {
    let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    let is_port = is_plain && port.parse::<u16>().is_ok();
    if is_port { Ok(()) } else { Err(BadRedirectUri::Port) }
}

/// Checks that a host is a name in lower case, or an address in the form in which it is printed.
///
/// A browser reads a name whose last label is a number as an IPv4 address, even `0x7f.1`, so such a
/// name must be one. *Source*: URL Standard, "ends in a number checker".
pub(super) fn check_host(host: &str) -> Result<(), BadRedirectUri> {
    let is_host = if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
        address.is_some_and(|address| format!("[{address}]") == host)
    } else {
        let last = host.rsplit('.').next().unwrap_or_default();
        let is_hexadecimal = last
            .strip_prefix("0x")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
            host.parse::<Ipv4Addr>().is_ok_and(|address| address.to_string() == host)
        } else {
            host.len() <= 253 && host.split('.').all(is_label)
        }
    };
    if is_host { Ok(()) } else { Err(BadRedirectUri::Host) }
}

/// Whether a text is a label of a host name: letters in lower case, digits, hyphens inside, and
/// underscores, which some hosts have.
fn is_label(label: &str) -> bool {
    let is_character =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=63).contains(&label.len())
        && label.bytes().all(is_character)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a segment of a path is `.` or `..`, also where a dot is written `%2e`.
pub(super) fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    })
}

fn has_answer_parameter(query: &str) -> bool {
    query.split('&').any(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        let name = percent::decode_form(name).unwrap_or_default();
        ANSWER_PARAMETERS.contains(&name.as_str())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uri(text: &str) -> RedirectUri {
        RedirectUri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn error(text: &str) -> BadRedirectUri {
        RedirectUri::parse(text).expect_err(text)
    }

    #[test]
    fn the_addresses_that_clients_really_use_are_accepted() {
        use RedirectKind::{Loopback, Native, Web};
        for (text, kind, host) in [
            ("https://claude.ai/api/mcp/auth_callback", Web, "claude.ai"),
            ("https://claude.com/api/mcp/auth_callback", Web, "claude.com"),
            ("http://localhost/callback", Loopback, "localhost"),
            ("http://127.0.0.1:53123/callback", Loopback, "127.0.0.1"),
            ("http://[::1]:53123/callback", Loopback, "[::1]"),
            ("https://chatgpt.com/connector_platform_oauth_redirect", Web, "chatgpt.com"),
            ("https://chatgpt.com/connector/oauth/kDmjx77UnKOM", Web, "chatgpt.com"),
            ("http://127.0.0.1:33418/", Loopback, "127.0.0.1"),
            ("http://127.0.0.1:33418", Loopback, "127.0.0.1"),
            ("https://vscode.dev/redirect", Web, "vscode.dev"),
            ("cursor://anysphere.cursor-mcp/oauth/callback", Native, "anysphere.cursor-mcp"),
            ("https://www.cursor.com/agents/mcp/oauth/callback", Web, "www.cursor.com"),
            ("http://localhost:8787/callback", Loopback, "localhost"),
            ("http://localhost:7777/oauth/callback", Loopback, "localhost"),
            (
                "vscode://saoudrizwan.claude-dev/mcp-auth/callback/a1",
                Native,
                "saoudrizwan.claude-dev",
            ),
            ("raycast://oauth?package_name=mcp_server_dust_(dev)", Native, "oauth"),
            ("https://127.0.0.1:8443/cb?from=a%20b", Web, "127.0.0.1"),
        ] {
            let parsed = uri(text);
            assert_eq!((parsed.as_str(), parsed.kind(), parsed.host()), (text, kind, host));
        }
    }

    #[test]
    fn whatever_two_parsers_may_read_differently_is_refused() {
        use BadRedirectUri::*;
        for (text, reason) in [
            ("", Length),
            ("javascript:alert(1)", Form),
            ("javascript://claude.ai/%0aalert(1)", Character),
            ("javascript://claude.ai/alert(1)", Scheme),
            ("data:text/html,hi", Form),
            ("file:///etc/passwd", Scheme),
            ("/callback", Form),
            ("//claude.ai/callback", Form),
            ("https:/claude.ai/callback", Form),
            ("https:///claude.ai/callback", Host),
            ("https://", Host),
            ("HTTPS://claude.ai/callback", Scheme),
            ("http://claude.ai/callback", Scheme),
            ("http://127.0.0.2/callback", Scheme),
            ("http://127.0.0.1.evil.example/callback", Scheme),
            ("http://localhost.evil.example/callback", Scheme),
            ("http://localhost@evil.example/callback", UserInfo),
            ("https://claude.ai@evil.example/callback", UserInfo),
            ("https://claude.ai%40evil.example/callback", Host),
            ("https://claude.ai\\@evil.example/callback", Character),
            ("https://evil.example\\.claude.ai/callback", Character),
            ("https://claude.ai/a\\b", Character),
            ("https://claude.ai/a%5Cb", Character),
            ("https://claude.ai/callback#", Fragment),
            ("https://claude.ai#@evil.example/", Fragment),
            ("https://claude.ai/call back", Character),
            (" https://claude.ai/callback", Character),
            ("https://claude.ai/callback\n", Character),
            ("https://claude.ai/%0d%0aSet-Cookie:a", Character),
            ("https://claude.ai/%zz", Character),
            ("https://claude.ai/%2", Character),
            ("https://Claude.ai/callback", Host),
            ("https://claude.ai./callback", Host),
            ("https://clаude.ai/callback", Character),
            ("https://-claude.ai/callback", Host),
            ("https://claude..ai/callback", Host),
            ("https://2130706433/callback", Host),
            ("https://0x7f.1/callback", Host),
            ("https://127.1/callback", Host),
            ("https://127.0.0.01/callback", Host),
            ("https://[::1/callback", Host),
            ("https://[::1]a/callback", Host),
            ("https://[0::1]/callback", Host),
            ("https://[fe80::1%25eth0]/callback", Host),
            ("http://localhost:/callback", Port),
            ("http://localhost:0/callback", Port),
            ("http://localhost:080/callback", Port),
            ("http://localhost:65536/callback", Port),
            ("http://localhost:8a/callback", Port),
            ("https://claude.ai/api/../callback", Dots),
            ("https://claude.ai/api/%2e%2E/callback", Dots),
            ("https://claude.ai/./callback", Dots),
            ("https://claude.ai/..", Dots),
            ("https://claude.ai/callback?code=mine", AnswerParameter),
            ("https://claude.ai/callback?a=b&st%61te=mine", AnswerParameter),
            ("cursor://evil.extension/oauth/callback", Scheme),
            ("cursor://anysphere.cursor-mcp:1/oauth/callback", Scheme),
            ("cursor://anysphere.cursor-mcp.evil/oauth/callback", Scheme),
            ("cursor:anysphere.cursor-mcp/oauth/callback", Form),
            ("CURSOR://anysphere.cursor-mcp/oauth/callback", Scheme),
            ("vscode://evil.extension/mcp-auth/callback", Scheme),
            ("myapp://oauth/callback", Scheme),
            ("com.example.app:/oauth/callback", Form),
        ] {
            assert_eq!(error(text), reason, "{text:?}");
        }
        let fits = format!("https://a.example/{}", "a".repeat(MAX_REDIRECT_URI_BYTES - 18));
        assert_eq!(uri(&fits).as_str().len(), MAX_REDIRECT_URI_BYTES);
        assert_eq!(error(&format!("{fits}a")), Length);
    }

    #[test]
    fn registered_addresses_allow_themselves_and_other_loopback_ports_only() {
        let allows = |registered: &str, sent: &str| uri(registered).allows(&uri(sent));
        for (registered, sent) in [
            ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback"),
            ("http://localhost/callback", "http://localhost:3118/callback"),
            ("http://127.0.0.1/callback", "http://127.0.0.1:65535/callback"),
            ("http://[::1]/callback", "http://[::1]:3118/callback"),
            ("http://localhost:8787/callback", "http://localhost:9/callback"),
            ("http://127.0.0.1:33418/", "http://127.0.0.1:41000"),
            ("http://127.0.0.1:9/cb?a=1", "http://127.0.0.1:10/cb?a=1"),
        ] {
            assert!(allows(registered, sent), "{registered} {sent}");
        }
        for (registered, sent) in [
            ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback/"),
            (
                "https://claude.ai/api/mcp/auth_callback",
                "https://claude.ai/api/mcp/auth_callback?a=b",
            ),
            (
                "https://claude.ai/api/mcp/auth_callback",
                "https://claude.ai:443/api/mcp/auth_callback",
            ),
            ("https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"),
            (
                "https://claude.ai/api/mcp/auth_callback",
                "https://a.claude.ai/api/mcp/auth_callback",
            ),
            ("https://localhost/callback", "https://localhost:3118/callback"),
            ("http://localhost/callback", "http://127.0.0.1:3118/callback"),
            ("http://127.0.0.1/callback", "http://[::1]:3118/callback"),
            ("http://localhost/callback", "https://localhost/callback"),
            ("http://localhost/callback", "http://localhost:3118/callback/"),
            ("http://localhost/callback", "http://localhost:3118/other"),
            ("http://localhost/callback", "http://localhost:3118/Callback"),
            ("http://localhost/callback", "http://localhost:3118/callback?a=b"),
            ("http://localhost/callback", "http://localhost:3118/callback?"),
            ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth"),
        ] {
            assert!(!allows(registered, sent), "{registered} {sent}");
        }
    }

    #[test]
    fn an_answer_is_added_to_the_query_and_encoded() {
        let answer = [("code", "a b&c"), ("iss", "https://stile.example")];
        let added = |text: &str| uri(text).with_parameters(&answer);
        let parameters = "code=a%20b%26c&iss=https%3A%2F%2Fstile.example";
        assert_eq!(added("https://a.example/cb"), format!("https://a.example/cb?{parameters}"));
        assert_eq!(added("http://localhost:1"), format!("http://localhost:1?{parameters}"));
        assert_eq!(added("https://a.example/?x=1"), format!("https://a.example/?x=1&{parameters}"));
        assert_eq!(added("https://a.example/?"), format!("https://a.example/?{parameters}"));
    }

    #[test]
    fn the_consent_page_may_lead_to_the_origin_of_the_client_and_nowhere_else() {
        let source = |text: &str| uri(text).form_action_source();
        assert_eq!(source("https://claude.ai/api/mcp/auth_callback"), "https://claude.ai");
        assert_eq!(source("http://127.0.0.1:33418/"), "http://127.0.0.1:33418");
        assert_eq!(source("cursor://anysphere.cursor-mcp/oauth/callback"), "cursor:");
    }

    #[test]
    fn an_answer_to_this_computer_is_recognised_in_every_form() {
        let stays = |text: &str| uri(text).stays_on_this_computer();
        assert!(stays("http://localhost/a") && stays("https://127.0.0.9/a"));
        assert!(stays("https://localhost/a") && stays("https://[::1]/a"));
        assert!(stays("cursor://anysphere.cursor-mcp/oauth/callback"));
        assert!(!stays("https://claude.ai/a") && !stays("https://localhost.example/a"));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_in_one_way(
            text in "(https|http|cursor|javascript)://[a-z0-9.:@%\\[\\]\\\\]{0,20}[/?#%a-z0-9.=&\\\\]{0,20}"
        ) {
            if let Ok(parsed) = RedirectUri::parse(&text) {
                prop_assert_eq!(parsed.as_str(), &text);
                prop_assert!(parsed.allows(&parsed));
                prop_assert!(text.contains(parsed.host()) && !parsed.host().contains('@'));
                let prefix = format!("://{}", parsed.host());
                let after = text.split_once(&prefix).map(|(_, after)| after).unwrap_or("none");
                prop_assert!(after.is_empty() || after.starts_with([':', '/', '?']), "{}", text);
            }
        }

        #[test]
        fn only_a_loopback_port_may_differ(
            host in "(localhost|127\\.0\\.0\\.1|\\[::1\\])",
            path in "/[a-z]{0,3}",
            ports in (1u16.., 1u16..),
            change in "[a-z]{1,2}",
        ) {
            let registered = uri(&format!("http://{host}:{}{path}", ports.0));
            let sent = format!("http://{host}:{}{path}", ports.1);
            prop_assert!(registered.allows(&uri(&sent)));
            let changed = format!("{sent}{change}");
            prop_assert!(!registered.allows(&uri(&changed)));
            let secure = |port: u16| uri(&format!("https://{host}:{port}{path}"));
            prop_assert_eq!(secure(ports.0).allows(&secure(ports.1)), ports.0 == ports.1);
        }
    }
}
