//! The values of settings: parsed from the text of a flag, a variable or the file, and written as
//! TOML for `stile config`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use stile_domain::path::SpacePath;
use stile_domain::records::identifiers::SourceName;
use stile_store::space::SearchIgnore;
use stile_tools::definition::ToolGroup;

use crate::by_vault::ByVault;

/// The environment of the process, as a function so that tests can have their own.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a default or a parser may depend on.
pub(crate) struct ParseContext<'a> {
    pub(super) environment: Environment<'a>,
    /// The state folder; empty while it is being looked up.
    pub(super) state: PathBuf,
}

impl ParseContext<'_> {
    /// Returns an environment variable; `None` if it is empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    pub(super) fn home(&self) -> Option<String> {
        self.variable("HOME").or_else(|| self.variable("USERPROFILE"))
    }
}

/// Parses a path and makes it absolute. A leading `~` means the home folder.
pub(super) fn path(text: &str, context: &ParseContext<'_>) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let home = || context.home().ok_or("begins with `~`, but the home folder is not known");
    let path = match text.strip_prefix('~') {
        Some("") => PathBuf::from(home()?),
        Some(rest) if rest.starts_with('/') => {
            Path::new(&home()?).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    std::path::absolute(path).map_err(|error| format!("cannot be made absolute: {error}"))
}

/// Parses an IP address and port. The host may be `localhost`.
pub(super) fn address(text: &str, _: &ParseContext<'_>) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| "is not an address and port such as 127.0.0.1:9999".to_owned())
}

/// Parses a scheme, a host and perhaps a port, without a path.
pub(super) fn origin(text: &str, _: &ParseContext<'_>) -> Result<Option<String>, String> {
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

/// Parses an address that requests go to: an origin that a path may follow.
pub(super) fn url(text: &str, _: &ParseContext<'_>) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || "is not an address such as https://notes.example.org".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let is_http = uri.scheme_str().is_some_and(|scheme| matches!(scheme, "http" | "https"));
    let has_host = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if !is_http || !has_host || uri.query().is_some() || text.contains('#') {
        return Err(wrong());
    }
    Ok(Some(text.to_owned()))
}

/// Parses an address whose responses decide who gets in. Nobody between may change the responses,
/// so a network connection must use TLS.
pub(super) fn trusted_url(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<Option<String>, String> {
    let url = url(text, context)?;
    if url.as_deref().is_some_and(is_exposed) {
        return Err("must begin with https, unless it is on this machine".to_owned());
    }
    Ok(url)
}

/// Returns whether requests to an address cross a network as plain text.
pub(crate) fn is_exposed(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return true };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() != Some("https") && !is_local
}

/// Parses an address and port that only this machine can reach.
pub(super) fn loopback(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = address(text, context)?;
    if address.ip().is_loopback() {
        Ok(Some(address))
    } else {
        Err("is not an address of this machine alone".to_owned())
    }
}

pub(super) fn optional_path(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<Option<PathBuf>, String> {
    if text.is_empty() { Ok(None) } else { path(text, context).map(Some) }
}

#[expect(clippy::unnecessary_wraps, reason = "the parsers have one shape")]
pub(super) fn text(text: &str, _: &ParseContext<'_>) -> Result<Option<String>, String> {
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Parses a text that an HTTP header carries unchanged.
pub(super) fn header_value(text: &str, _: &ParseContext<'_>) -> Result<String, String> {
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

/// Parses texts between commas. Blanks around a text and empty texts are dropped.
#[expect(clippy::unnecessary_wraps, reason = "the parsers have one shape")]
pub(super) fn list(text: &str, _: &ParseContext<'_>) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

/// Parses values between commas, each for the vault before its first `=`, or else for every vault
/// that has none of its own.
///
/// What is before an `=` in a URL or in a path that begins with `/`, `.` or `~` is part of the
/// value. So a vault whose name begins so, or has a comma or an `=`, cannot be named.
fn by_vault<T>(
    text: &str,
    context: &ParseContext<'_>,
    parse: fn(&str, &ParseContext<'_>) -> Result<Option<T>, String>,
) -> Result<ByVault<T>, String> {
    let mut values = ByVault::default();
    for item in list(text, context)? {
        let named = item
            .split_once('=')
            .filter(|(before, _)| !before.contains("://") && !before.starts_with(['/', '.', '~']));
        let (vault, value) = match named {
            None => (None, item.as_str()),
            Some((vault, value)) => {
                let vault = header_value(vault, context)
                    .map_err(|why| format!("names a vault that {}", why))?;
                (Some(vault), value)
            }
        };
        let value = parse(value, context)?.ok_or("has an empty value")?;
        if !values.insert(vault.clone(), value) {
            return Err(match vault {
                Some(vault) => format!("names the vault `{vault}` twice"),
                None => "has two values for the vaults that it does not name".to_owned(),
            });
        }
    }
    Ok(values)
}

/// Parses addresses by vault.
pub(super) fn urls_by_vault(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<ByVault<String>, String> {
    by_vault(text, context, url)
}

/// Parses texts by vault.
pub(super) fn texts_by_vault(
    given: &str,
    context: &ParseContext<'_>,
) -> Result<ByVault<String>, String> {
    by_vault(given, context, text)
}

/// Parses paths by vault.
pub(super) fn paths_by_vault(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<ByVault<PathBuf>, String> {
    by_vault(text, context, optional_path)
}

/// Parses paths of the space, separated by commas.
pub(super) fn space_paths(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<Vec<SpacePath>, String> {
    let parse = |path: &String| match SpacePath::parse(path) {
        Ok(path) if path.is_root() => Err("names the root of the space".to_owned()),
        Ok(path) => Ok(path),
        Err(why) => Err(why.to_string()),
    };
    list(text, context)?.iter().map(parse).collect()
}

/// Parses rules of git's ignore files, separated by commas.
pub(super) fn ignore_rules(text: &str, context: &ParseContext<'_>) -> Result<SearchIgnore, String> {
    let rules = list(text, context)?;
    SearchIgnore::parse(rules.iter().map(String::as_str)).map_err(|error| error.to_string())
}

/// The smallest size that a setting accepts, in bytes. It leaves room for any one character.
pub(super) const MIN_BYTES: usize = 1024;

/// Parses a size of at least [`MIN_BYTES`].
pub(super) fn bytes<T: TryFrom<u64>>(text: &str, _: &ParseContext<'_>) -> Result<T, String> {
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
    if size < MIN_BYTES as u64 {
        return Err("is less than 1KiB".to_owned());
    }
    T::try_from(size).map_err(|_| wrong())
}

/// Parses a size from `MIN` to `MAX` bytes.
pub(super) fn bytes_within<const MIN: usize, const MAX: usize>(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<usize, String> {
    match bytes(text, context)? {
        size if size < MIN => Err(format!("is less than {}KiB", MIN >> 10)),
        size if size > MAX => Err(format!("is more than {}KiB", MAX >> 10)),
        size => Ok(size),
    }
}

/// Parses a number from 1 to `MAX`.
pub(super) fn count_to<const MAX: usize>(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<usize, String> {
    match count(text, context)? {
        number if number > MAX => Err(format!("is more than {MAX}")),
        number => Ok(number),
    }
}

/// Parses a whole number above zero.
pub(crate) fn count<T: FromStr + PartialEq + Default>(
    text: &str,
    _: &ParseContext<'_>,
) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if number != T::default() => Ok(number),
        _ => Err("is not a whole number above zero, or is too large".to_owned()),
    }
}

/// Parses a whole number above zero; `None` for the word `ever`.
pub(super) fn count_or_ever<T: FromStr + PartialEq + Default>(
    text: &str,
    context: &ParseContext<'_>,
) -> Result<Option<T>, String> {
    if text == "ever" { Ok(None) } else { count(text, context).map(Some) }
}

pub(super) fn word<T: FromStr<Err = String>>(
    text: &str,
    _: &ParseContext<'_>,
) -> Result<T, String> {
    text.parse()
}

/// Declares an enum that a setting spells as one of a few words.
macro_rules! words {
    ($(#[$doc:meta])+ $visibility:vis enum $type:ident {
        $( $(#[$variant_doc:meta])+ $variant:ident = $word:literal, )+
    } $wrong:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $type { $( $(#[$variant_doc])+ $variant, )+ }

        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err($wrong.to_owned()),
                }
            }
        }

        impl $type {
            /// Returns the word of the setting.
            $visibility fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl ToToml for $type {
            fn to_toml(&self) -> Option<String> {
                quoted(self.word())
            }
        }
    };
}

words! {
    /// How lists, and all texts for a caller, spell the names of tools.
    pub enum ToolNames {
        /// With underscores, unless the client is known to take dots.
        Auto = "auto",
        /// With dots, as in `file.create`.
        Dotted = "dotted",
        /// With underscores, as in `file_create`.
        Underscored = "underscored",
    } "is not auto, dotted or underscored"
}

/// The groups of tools that lists show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolGroups([bool; GROUPS.len()]);

/// The groups of tools with their words.
const GROUPS: [(ToolGroup, &str); 4] = [
    (ToolGroup::Files, "files"),
    (ToolGroup::Find, "find"),
    (ToolGroup::Notes, "notes"),
    (ToolGroup::Records, "records"),
];

impl ToolGroups {
    /// All groups of tools.
    pub const ALL: Self = Self([true; GROUPS.len()]);

    /// Whether lists show the tools of a group.
    pub fn show(self, group: ToolGroup) -> bool {
        GROUPS.iter().zip(self.0).any(|((each, _), shown)| *each == group && shown)
    }

    /// Returns the groups that are also in `other`.
    #[must_use]
    pub fn narrowed_to(self, other: Self) -> Self {
        let Self(mut shown) = self;
        shown.iter_mut().zip(other.0).for_each(|(shown, also)| *shown &= also);
        Self(shown)
    }
}

impl FromStr for ToolGroups {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut shown = [false; GROUPS.len()];
        for word in text.split(',').map(str::trim) {
            let known = GROUPS.iter().position(|(_, each)| *each == word);
            let place = known.and_then(|at| shown.get_mut(at));
            *place.ok_or("is not a list of files, find, notes or records, as in files,find")? =
                true;
        }
        Ok(Self(shown))
    }
}

impl ToToml for ToolGroups {
    fn to_toml(&self) -> Option<String> {
        let words = GROUPS.iter().zip(self.0).filter(|(_, shown)| *shown);
        quoted(&words.map(|((_, word), _)| *word).collect::<Vec<_>>().join(","))
    }
}

words! {
    /// Which form of an answer a client gets.
    pub enum AnswerForms {
        /// The one form that the client is known to show, and otherwise both.
        Auto = "auto",
        /// The text and the structured content.
        Both = "both",
        /// The text alone. Lists of tools have no output schemas then.
        Text = "text",
        /// The structured content alone; text only where a call failed.
        Structured = "structured",
    } "is not auto, text, structured or both"
}

impl AnswerForms {
    /// Whether an answer has its text. A failure always has: what went wrong must reach the model.
    pub(crate) fn has_text(self, is_failure: bool) -> bool {
        is_failure || self != Self::Structured
    }
}

words! {
    /// Whose token the gateway sends to the server that has the notes.
    pub(crate) enum CredentialMode {
        /// The token of the caller.
        Forward = "forward",
        /// The token of the gateway itself.
        Own = "own",
    } "is not forward or own"
}

words! {
    /// What to do with old versions of files.
    pub(crate) enum HistoryMode {
        /// Keep them; a change goes on if its old version cannot be kept.
        Keep = "keep",
        /// Keep them; a change is refused if its old version cannot be kept.
        Require = "require",
        /// Keep none.
        Off = "off",
    } "is not keep, require or off"
}

/// Whether a server keeps the notes of its space as records, and in which connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpaceRecords {
    /// A note is a file alone.
    Off,
    /// Each note is a record, too, in this connection.
    Connection(SourceName),
}

/// Parses the name of a connection, or `yes` for the connection `space`, or `no`.
pub(crate) fn space_records(text: &str, _: &ParseContext<'_>) -> Result<SpaceRecords, String> {
    let name = match text {
        "no" => return Ok(SpaceRecords::Off),
        "yes" => "space",
        name => name,
    };
    match SourceName::parse(name) {
        Ok(name) => Ok(SpaceRecords::Connection(name)),
        Err(bad) => Err(format!("is not yes, no or the name of a connection: {bad}")),
    }
}

impl ToToml for SpaceRecords {
    fn to_toml(&self) -> Option<String> {
        match self {
            Self::Off => quoted("no"),
            Self::Connection(name) => quoted(name.as_str()),
        }
    }
}

words! {
    /// Yes or no.
    pub(crate) enum YesNo {
        /// Yes.
        Yes = "yes",
        /// No.
        No = "no",
    } "is not yes or no"
}

words! {
    /// How much is logged. Each level includes those before it.
    pub(crate) enum LogLevel {
        /// What the operator must act on.
        Error = "error",
        /// What looks wrong.
        Warn = "warn",
        /// What happens seldom.
        Info = "info",
        /// Every call.
        Debug = "debug",
        /// The steps of every call.
        Trace = "trace",
    } "is not error, warn, info, debug or trace"
}

/// A value that can be written as TOML.
pub(crate) trait ToToml {
    /// Returns `None` if the setting is not set.
    fn to_toml(&self) -> Option<String>;
}

/// Returns a text as a TOML string. Every JSON string is one.
fn quoted(text: &str) -> Option<String> {
    Some(serde_json::Value::from(text).to_string())
}

impl ToToml for PathBuf {
    fn to_toml(&self) -> Option<String> {
        quoted(&self.to_string_lossy())
    }
}

impl ToToml for SocketAddr {
    fn to_toml(&self) -> Option<String> {
        quoted(&self.to_string())
    }
}

impl<T: ToToml> ToToml for Option<T> {
    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(ToToml::to_toml)
    }
}

impl ToToml for String {
    fn to_toml(&self) -> Option<String> {
        quoted(self)
    }
}

impl ToToml for Vec<String> {
    fn to_toml(&self) -> Option<String> {
        Some(serde_json::Value::from(self.clone()).to_string())
    }
}

impl ToToml for ByVault<String> {
    fn to_toml(&self) -> Option<String> {
        let texts: Vec<String> = self
            .iter()
            .map(|(vault, value)| match vault {
                Some(vault) => format!("{vault}={value}"),
                None => value.clone(),
            })
            .collect();
        match (self.other(), texts.as_slice()) {
            (_, []) => None,
            (Some(value), [_]) => value.to_toml(),
            _ => texts.to_toml(),
        }
    }
}

impl ToToml for ByVault<PathBuf> {
    fn to_toml(&self) -> Option<String> {
        let text = |(vault, path): (_, &PathBuf)| (vault, path.to_string_lossy().into_owned());
        self.iter().map(text).collect::<ByVault<String>>().to_toml()
    }
}

impl ToToml for Vec<SpacePath> {
    fn to_toml(&self) -> Option<String> {
        self.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>().to_toml()
    }
}

impl ToToml for SearchIgnore {
    fn to_toml(&self) -> Option<String> {
        self.rules().to_vec().to_toml()
    }
}

macro_rules! show_numbers {
    ($($type:ty)+) => { $( impl ToToml for $type {
        fn to_toml(&self) -> Option<String> {
            Some(self.to_string())
        }
    } )+ };
}
show_numbers!(u32 u64 usize);
