//! Where the browser takes the answer to a client: redirect URIs, and which of them match.
//!
//! A redirect URI is accepted only in a form that every browser and every parser reads alike:
//! ASCII, a lower-case host, no user information, no fragment, no `.` or `..` segment, and no
//! backslash. A scheme has no case. So the host that the consent page shows is the host that
//! receives the answer.
//!
//! An application on the user's computer may register a scheme that is the reversed name of a
//! domain, or one of [`NATIVE_AUTHORITIES`]. Any other scheme needs the owner's hand. Those of
//! `NEVER` are refused even then: a browser would run, show or fetch what such an address names.
//!
//! Two redirect URIs match if their texts are equal; at a loopback host over `http` the port may
//! differ, since a native client listens on any free port.
//!
//! *Source*: RFC 9700, section 2.1 (exact matching); RFC 3986, section 3.1 (schemes); RFC 8252,
//! sections 7.1 and 7.3.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::hash::hex_byte;
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
/// registers `raycast://oauth?package_name=…` (Raycast's guide to OAuth). Warp registers
/// `warp://mcp/oauth2callback` (actionhero/keryx #502).
pub const NATIVE_AUTHORITIES: [(&str, &str); 4] = [
    ("cursor", "anysphere.cursor-mcp"),
    ("vscode", "saoudrizwan.claude-dev"),
    ("raycast", "oauth"),
    ("warp", "mcp"),
];

/// Schemes that nobody can register, the owner neither: a browser or the system runs, shows, reads
/// or fetches what their addresses name, or starts another program with it.
const NEVER: [&str; 40] = [
    "about", "android-app", "blob", "chrome", "chrome-extension", "content", "data", "edge",
    "feed", "file", "filesystem", "ftp", "intent", "jar", "javascript", "ldap", "livescript",
    "mailto", "mhtml", "mk", "moz-extension", "ms-msdt", "ms-officecmd", "ms-settings", "nfs",
    "res", "resource", "search-ms", "sftp", "shell", "smb", "sms", "ssh", "tel", "telnet",
    "vbscript", "view-source", "ws", "wss", "wyciwyg",
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

/// Who wrote a redirect URI down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenBy {
    /// A client, in a registration or a document. Anybody can be one.
    Client,
    /// The owner.
    Owner,
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
    /// The text has no scheme, or no authority and path in the form of its scheme.
    #[error(
        "a redirect URI has the form `scheme://host/path`, or `com.example.app:/path` for an \
         application"
    )]
    Form,
    /// The text has a fragment.
    #[error("a redirect URI has no fragment")]
    Fragment,
    /// The text has user information before the host.
    #[error("a redirect URI has no user information before its host")]
    UserInfo,
    /// The scheme is not `https`, nor `http` at a loopback host, nor the reversed name of a domain,
    /// nor in [`NATIVE_AUTHORITIES`].
    #[error(
        "a redirect URI has the scheme `https`, or `http` with the host `localhost`, `127.0.0.1` \
         or `[::1]`, or the reversed name of a domain as in `com.example.app:/path`, or begins \
         with one of {}; the owner can add another one with `stile client add`",
        native_forms()
    )]
    Scheme,
    /// The owner may not register this scheme either.
    #[error(
        "no client can have this scheme: a browser would run, show or fetch what the address \
         names; `http` is for `localhost`, `127.0.0.1` and `[::1]` only"
    )]
    Never,
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
    /// Parses a redirect URI that a client wrote. A URI that is accepted is kept as it was written.
    ///
    /// # Errors
    /// Every [`BadRedirectUri`] but [`BadRedirectUri::Never`].
    pub fn parse(text: &str) -> Result<Self, BadRedirectUri> {
        Self::parse_of(text, WrittenBy::Client)
    }

    /// Parses a redirect URI that the owner wrote. It may have any scheme that an application can
    /// own, since the owner knows the application.
    ///
    /// # Errors
    /// Every [`BadRedirectUri`] but [`BadRedirectUri::Scheme`].
    pub fn parse_of_owner(text: &str) -> Result<Self, BadRedirectUri> {
        Self::parse_of(text, WrittenBy::Owner)
    }

    fn parse_of(text: &str, written_by: WrittenBy) -> Result<Self, BadRedirectUri> {
        if text.is_empty() || text.len() > MAX_REDIRECT_URI_BYTES {
            return Err(BadRedirectUri::Length);
        }
        check_characters(text)?;
        let (scheme, after) = text.split_once(':').ok_or(BadRedirectUri::Form)?;
        let scheme = scheme.to_ascii_lowercase();
        let scheme = scheme.as_str();
        if scheme.is_empty() || !scheme.bytes().all(is_of_scheme) || !after.starts_with('/') {
            return Err(BadRedirectUri::Form);
        }
        let (authority, rest) = match after.strip_prefix("//") {
            Some(after) => after.split_at(after.find(['/', '?']).unwrap_or(after.len())),
            None if matches!(scheme, "https" | "http") => return Err(BadRedirectUri::Form),
            None => ("", after),
        };
        if authority.contains('@') {
            return Err(BadRedirectUri::UserInfo);
        }
        let kind = kind_of(scheme, authority, written_by)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if has_dot_segment(path) {
            return Err(BadRedirectUri::Dots);
        }
        if has_answer_parameter(query) {
            return Err(BadRedirectUri::AnswerParameter);
        }
        let rest = text.len() - rest.len();
        let start = rest - authority.len();
        let host = match kind {
            RedirectKind::Native if is_listed(scheme, authority) => (start, rest),
            RedirectKind::Native => (0, scheme.len()),
            _ => (start, start + split_port(authority)?.0.len()),
        };
        Ok(Self { text: text.to_owned(), kind, host, rest })
    }

    /// Returns the URI as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns who receives the answer.
    pub fn kind(&self) -> RedirectKind {
        self.kind
    }

    /// Returns the host as a person should see it: a name, an address, or of a native client the
    /// authority in [`NATIVE_AUTHORITIES`] or else the scheme.
    pub fn host(&self) -> &str {
        self.text.get(self.host.0..self.host.1).unwrap_or_default()
    }

    /// Returns the part before the path, as in `https://claude.ai`, `cursor://anysphere.cursor-mcp`
    /// or `com.example.app:`.
    pub fn beginning(&self) -> &str {
        self.text.get(..self.rest).unwrap_or_default()
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
                let scheme = self.text.split(':').next().unwrap_or_default();
                format!("{}:", scheme.to_ascii_lowercase())
            }
            _ => self.beginning().to_owned(),
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
        if !address.contains('?') {
            address.push('?');
        }
        for (name, value) in parameters {
            if !address.ends_with(['?', '&']) {
                address.push('&');
            }
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

/// Returns who receives the answer at an address of this scheme and authority.
fn kind_of(
    scheme: &str,
    authority: &str,
    written_by: WrittenBy,
) -> Result<RedirectKind, BadRedirectUri> {
    if matches!(scheme, "https" | "http") {
        let (host, port) = split_port(authority)?;
        check_host(host)?;
        port.map_or(Ok(()), check_port)?;
        return match (scheme, written_by) {
            ("https", _) => Ok(RedirectKind::Web),
            _ if LOOPBACK_HOSTS.contains(&host) => Ok(RedirectKind::Loopback),
            (_, WrittenBy::Client) => Err(BadRedirectUri::Scheme),
            (_, WrittenBy::Owner) => Err(BadRedirectUri::Never),
        };
    }
    let is_written_well = scheme.starts_with(|first: char| first.is_ascii_lowercase());
    let is_for_all = is_listed(scheme, authority) || is_reversed_domain(scheme);
    match written_by {
        WrittenBy::Client if is_written_well && is_for_all => Ok(RedirectKind::Native),
        WrittenBy::Client => Err(BadRedirectUri::Scheme),
        WrittenBy::Owner if is_written_well && !NEVER.contains(&scheme) => Ok(RedirectKind::Native),
        WrittenBy::Owner => Err(BadRedirectUri::Never),
    }
}

/// Whether a byte may stand in a scheme. *Source*: RFC 3986, section 3.1.
fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

fn is_listed(scheme: &str, authority: &str) -> bool {
    NATIVE_AUTHORITIES.contains(&(scheme, authority))
}

/// Whether a scheme is the reversed name of a domain, as in `com.example.app`, which only the owner
/// of the domain uses. *Source*: RFC 8252, section 7.1.
fn is_reversed_domain(scheme: &str) -> bool {
    scheme.contains('.') && scheme.split('.').all(is_label)
}

/// Returns the beginnings of the addresses of [`NATIVE_AUTHORITIES`], for an error.
fn native_forms() -> String {
    let all = NATIVE_AUTHORITIES.map(|(scheme, authority)| format!("`{scheme}://{authority}`"));
    all.join(", ")
}

/// Checks that the text has the characters of RFC 3986 only, and only complete escapes of bytes
/// that are no control characters and no backslash.
pub(super) fn check_characters(text: &str) -> Result<(), BadRedirectUri> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'#' => return Err(BadRedirectUri::Fragment),
            b'%' => {
                let digits = bytes.next().zip(bytes.next());
                let escaped = digits.and_then(|(high, low)| hex_byte(high, low));
                if matches!(escaped, None | Some(0..=0x1f | 0x5c | 0x7f)) {
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
mod tests;
