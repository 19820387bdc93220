//! The types of settings: how each is read from text, and shown as TOML.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Surroundings;

pub(super) fn path(text: &str, surroundings: &Surroundings<'_>) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let home = || surroundings.home().ok_or("begins with `~`, but the home folder is not known");
    let path = match text.strip_prefix('~') {
        Some("") => PathBuf::from(home()?),
        Some(rest) if rest.starts_with('/') => {
            Path::new(&home()?).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    std::path::absolute(path).map_err(|error| format!("cannot be made absolute: {error}"))
}

pub(super) fn address(text: &str, _: &Surroundings<'_>) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| "is not an address and port such as 127.0.0.1:9999".to_owned())
}

pub(super) fn origin(text: &str, _: &Surroundings<'_>) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || "is not an origin such as https://notes.example.org".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let scheme =
        uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or_else(wrong)?;
    let authority =
        uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
    if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
        return Err(wrong());
    }
    Ok(Some(format!("{scheme}://{authority}")))
}

/// An address that requests go to: an origin that a path may follow.
pub(super) fn url(text: &str, _: &Surroundings<'_>) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || "is not an address such as https://notes.example.org".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let is_http = uri.scheme_str().is_some_and(|scheme| matches!(scheme, "http" | "https"));
    let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if !is_http || !is_plain || uri.query().is_some() || text.contains('#') {
        return Err(wrong());
    }
    Ok(Some(text.to_owned()))
}

/// An address whose answers decide who gets in: nobody on the way may change them.
pub(super) fn trusted_url(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Option<String>, String> {
    let url = url(text, surroundings)?;
    if url.as_deref().is_some_and(is_exposed) {
        return Err("must begin with https, unless it is on this machine".to_owned());
    }
    Ok(url)
}

/// Whether what is said to an address passes over a network as plain text.
pub fn is_exposed(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return true };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() != Some("https") && !is_here
}

pub(super) fn loopback(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = address(text, surroundings)?;
    if address.ip().is_loopback() {
        Ok(Some(address))
    } else {
        Err("is not an address of this machine alone".to_owned())
    }
}

pub(super) fn optional_path(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Option<PathBuf>, String> {
    if text.is_empty() { Ok(None) } else { path(text, surroundings).map(Some) }
}

#[expect(clippy::unnecessary_wraps, reason = "the parsers have one shape")]
pub(super) fn text(text: &str, _: &Surroundings<'_>) -> Result<Option<String>, String> {
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// A name that an HTTP header can hold and hands on unchanged.
pub(super) fn header(text: &str, _: &Surroundings<'_>) -> Result<String, String> {
    let fits = !text.is_empty()
        && text.len() <= 256
        && text.trim() == text
        && text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if fits {
        Ok(text.to_owned())
    } else {
        Err("is not a name of 1 to 256 printable ASCII characters".to_owned())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the parsers have one shape")]
pub(super) fn list(text: &str, _: &Surroundings<'_>) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

/// The least that a size may be, so that no budget is too small for one character.
pub(super) const LEAST_BYTES: usize = 1024;

/// No less than [`LEAST_BYTES`].
pub(super) fn bytes<T: TryFrom<u64>>(text: &str, _: &Surroundings<'_>) -> Result<T, String> {
    let wrong = || "is not a size such as 65536, 64KiB, 4MiB or 1GiB".to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match text.get(digits.len()..).map(str::trim) {
        Some("") => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        _ => return Err(wrong()),
    };
    let size =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
    if size < LEAST_BYTES as u64 {
        return Err("is less than 1KiB".to_owned());
    }
    T::try_from(size).map_err(|_| wrong())
}

/// A size that is also within these bounds.
pub(super) fn bytes_within<const LEAST: usize, const MOST: usize>(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<usize, String> {
    match bytes(text, surroundings)? {
        size if size < LEAST => Err(format!("is less than {}KiB", LEAST >> 10)),
        size if size > MOST => Err(format!("is more than {}KiB", MOST >> 10)),
        size => Ok(size),
    }
}

/// A number that is also no more than this.
pub(super) fn count_to<const MOST: usize>(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<usize, String> {
    match count(text, surroundings)? {
        number if number > MOST => Err(format!("is more than {MOST}")),
        number => Ok(number),
    }
}

pub(super) fn count<T: FromStr + PartialEq + Default>(
    text: &str,
    _: &Surroundings<'_>,
) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if number != T::default() => Ok(number),
        _ => Err("is not a whole number above zero, or is too large".to_owned()),
    }
}

pub(super) fn word<T: FromStr<Err = String>>(
    text: &str,
    _: &Surroundings<'_>,
) -> Result<T, String> {
    text.parse()
}

/// Declares a setting that is one of a few words.
macro_rules! words {
    ($(#[$doc:meta])+ $type:ident { $( $(#[$variant_doc:meta])+ $variant:ident = $word:literal, )+ } $wrong:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $( $(#[$variant_doc])+ $variant, )+ }

        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err($wrong.to_owned()),
                }
            }
        }

        impl Show for $type {
            fn show(&self) -> Option<String> {
                quoted(match self { $( Self::$variant => $word, )+ })
            }
        }
    };
}

words! {
    /// How tool names are spelled in lists.
    ToolNames {
        /// With dots, unless the client is known to refuse them.
        Auto = "auto",
        /// `file.create`.
        Dotted = "dotted",
        /// `file_create`.
        Underscored = "underscored",
    } "is not auto, dotted or underscored"
}

words! {
    /// Whose token the gateway shows to the server that has the notes.
    CredentialMode {
        /// The caller's.
        Forward = "forward",
        /// The gateway's own.
        Own = "own",
    } "is not forward or own"
}

words! {
    /// Yes or no.
    YesNo {
        /// Yes.
        Yes = "yes",
        /// No.
        No = "no",
    } "is not yes or no"
}

words! {
    /// How much is logged.
    LogLevel {
        /// Only what the operator must act on.
        Error = "error",
        /// And what looks wrong.
        Warn = "warn",
        /// And what happens seldom.
        Info = "info",
        /// And every call.
        Debug = "debug",
        /// And its steps.
        Trace = "trace",
    } "is not error, warn, info, debug or trace"
}

/// A value as TOML.
pub(super) trait Show {
    /// `None` where it is not set.
    fn show(&self) -> Option<String>;
}

/// A JSON string is a TOML string.
fn quoted(text: &str) -> Option<String> {
    Some(serde_json::Value::from(text).to_string())
}

impl Show for PathBuf {
    fn show(&self) -> Option<String> {
        quoted(&self.to_string_lossy())
    }
}

impl Show for SocketAddr {
    fn show(&self) -> Option<String> {
        quoted(&self.to_string())
    }
}

impl Show for Option<String> {
    fn show(&self) -> Option<String> {
        self.as_deref().and_then(quoted)
    }
}

impl Show for String {
    fn show(&self) -> Option<String> {
        quoted(self)
    }
}

impl Show for Option<PathBuf> {
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(Show::show)
    }
}

impl Show for Option<SocketAddr> {
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(Show::show)
    }
}

impl Show for Vec<String> {
    fn show(&self) -> Option<String> {
        Some(serde_json::Value::from(self.clone()).to_string())
    }
}

macro_rules! show_numbers {
    ($($type:ty)+) => { $( impl Show for $type {
        fn show(&self) -> Option<String> {
            Some(self.to_string())
        }
    } )+ };
}
show_numbers!(u32 u64 usize);
