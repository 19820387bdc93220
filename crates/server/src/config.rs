//! What an operator can set, each declared once: its name, help, default and parser.
//!
//! A setting is looked up in four places: a flag, an environment variable (`STILE_LISTEN` for
//! `listen`), the file `stile.toml`, the default. The file is never looked for in the space or in
//! the current directory, where an agent could have written it. No setting is a secret, so all of
//! them can be shown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use stile_domain::limits::FileLimits;
use stile_ladder::budget::Budgets;

mod values;

pub use values::{CredentialMode, LogLevel, ToolNames, YesNo, is_exposed};
use values::{
    LEAST_BYTES, Show as _, address, bytes, bytes_within, count, count_to, header, list, loopback,
    optional_path, origin, path, text, trusted_url, url, word,
};

/// Declares the settings, in the order in which help and `stile config` show them.
macro_rules! settings {
    ($( $(#[doc = $help:literal])+ $name:ident: $type:ty = $given:ident $value:literal, $default:expr, $parse:expr; )+) => {
        /// Every setting with the value in force.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $( $(#[doc = $help])+ pub $name: $type, )+
        }

        /// Every setting, as it is declared.
        pub const SETTINGS: &[Setting] = &[
            $( Setting {
                name: stringify!($name),
                help: concat!($($help),+),
                value: $value,
                given: Given::$given,
                default: $default,
                show: |config| config.$name.show(),
            }, )+
        ];

        impl Config {
            fn assemble(lookup: &Lookup<'_>) -> Result<Resolved, ConfigError> {
                let mut sources = Vec::new();
                $(
                    let (text, source) = lookup.find(stringify!($name), $default)?;
                    let parse: fn(&str, &Surroundings<'_>) -> Result<$type, String> = $parse;
                    let $name = parse(&text, &lookup.surroundings)
                        .map_err(|reason| lookup.bad_value(stringify!($name), &source, text, reason))?;
                    sources.push(source);
                )+
                Ok(Resolved { config: Config { $($name),+ }, sources })
            }
        }
    };
}

settings! {
    /// Keep keys, tokens and the journal in this folder. It must lie outside the space.
    state: PathBuf = NotInFile "DIR", Fallback::Computed(STATE_SHOWN, state_default), path;
    /// Read settings from this file.
    config: PathBuf = NotInFile "FILE", Fallback::Computed("stile.toml in the state folder", config_default), path;
    /// The folder that agents are let into.
    root: PathBuf = Positional "ROOT", Fallback::Text("~/stile"), path;
    /// Accept connections on this address and port.
    listen: SocketAddr = Flag "ADDR:PORT", Fallback::Text("127.0.0.1:9999"), address;
    /// Call the server by this origin in challenges and metadata, as in
    /// `https://notes.example.org`; left out, the request's own Host is used.
    public_url: Option<String> = Flag "URL", Fallback::Text(""), origin;
    /// Accept these names in the Host header besides localhost and the address listened on.
    allowed_hosts: Vec<String> = Flag "HOST,…", Fallback::Text(""), list;
    /// Accept requests from web pages of these origins, as in `https://app.example.org`.
    allowed_origins: Vec<String> = Flag "ORIGIN,…", Fallback::Text(""), list;
    /// Refuse a request with a longer body.
    max_body_bytes: usize = Flag "BYTES", Fallback::Text("4MiB"), bytes;
    /// Answer one read with at most so much text.
    read_budget_bytes: usize = Flag "BYTES", Fallback::Text("64KiB"), bytes;
    /// Refuse a change that would leave a longer file.
    max_file_bytes: u64 = Flag "BYTES", Fallback::Text("64MiB"), bytes;
    /// Refuse to read a longer file.
    max_read_bytes: u64 = Flag "BYTES", Fallback::Text("1GiB"), bytes;
    /// Answer one user so many requests a second, over time.
    rate_per_second: u32 = Flag "COUNT", Fallback::Text("2000"), count;
    /// Answer one user so many requests at once.
    rate_burst: u32 = Flag "COUNT", Fallback::Text("5000"), count;
    /// Keep so many sessions of one user; the idlest goes first.
    sessions_per_subject: usize = Flag "COUNT", Fallback::Text("64"), count;
    /// Forget a session that was idle for so long.
    session_idle_seconds: u64 = Flag "SECONDS", Fallback::Text("3600"), count;
    /// Hold so many connections open.
    max_connections: usize = Flag "COUNT", Fallback::Text("4096"), count;
    /// Spell tool names in lists: auto, dotted (file.create) or underscored (file_create). Calls
    /// may use either.
    tool_names: ToolNames = Flag "SPELLING", Fallback::Text("auto"), word;
    /// Show at most so much text of records in an answer that lists them; the structure beside it
    /// may have more. No more than 128KiB.
    record_text_bytes: usize = Flag "BYTES", Fallback::Text("1800"), bytes_within::<LEAST_BYTES, { Budgets::MOST_BYTES }>;
    /// Show at most so many characters of a field where records are listed. No more than 2000.
    record_preview_chars: usize = Flag "COUNT", Fallback::Text("512"), count_to::<{ Budgets::MOST_PREVIEW_CHARS }>;
    /// Answer with at most so much structure about records. No less than 16KiB, and no more than
    /// 128KiB.
    record_structure_bytes: usize = Flag "BYTES", Fallback::Text("64KiB"),
        bytes_within::<{ Budgets::LEAST_STRUCTURED }, { Budgets::MOST_BYTES }>;
    /// Show at most so much text of one record, and no more than half of what the structure may
    /// have. No more than 128KiB.
    record_document_bytes: usize = Flag "BYTES", Fallback::Text("16KiB"),
        bytes_within::<LEAST_BYTES, { Budgets::MOST_BYTES }>;
    /// Say in a tool's schema, too, which arguments exclude each other (yes or no). Models'
    /// interfaces refuse such lists.
    strict_schemas: YesNo = Flag "yes|no", Fallback::Text("no"), word;
    /// Wait so long for another process that is changing the same file.
    lock_wait_seconds: u64 = Flag "SECONDS", Fallback::Text("10"), count;
    /// Accept tokens of an identity provider, whose keys are at this address, and no others.
    jwks: Option<String> = Flag "URL", Fallback::Text(""), trusted_url;
    /// The `iss` of such tokens.
    issuer: Option<String> = Flag "ISS", Fallback::Text(""), text;
    /// The `aud` of such tokens: this server's address, as in `https://notes.example.org/mcp`,
    /// which is taken from the public URL where it is left out.
    audience: Option<String> = Flag "AUD", Fallback::Text(""), text;
    /// The vault that the space is, or that the gateway takes for tokens which name none.
    vault: String = Flag "ID", Fallback::Text("default"), header;
    /// The secret that the gateway and the server with the notes share is in this file.
    gateway_secret_file: Option<PathBuf> = Flag "FILE", Fallback::Text(""), optional_path;
    /// Let the gateway whose own token has this subject read in its users' names.
    trust_gateway: Option<String> = Flag "ID", Fallback::Text(""), text;
    /// Trust these authorities too when connecting, certificates in PEM.
    ca_file: Option<PathBuf> = Flag "FILE", Fallback::Text(""), optional_path;
    /// Read notes from the server at this address.
    upstream: Option<String> = Flag "URL", Fallback::Text(""), url;
    /// Forward a token only where its `aud` has this too; left out, what the gateway itself is
    /// called.
    upstream_audience: Option<String> = Flag "AUD", Fallback::Text(""), text;
    /// Show the server with the notes the caller's token (forward), or the gateway's (own).
    upstream_credential: CredentialMode = Flag "WHOSE", Fallback::Text("forward"), word;
    /// The gateway's own token is in this file.
    upstream_token_file: Option<PathBuf> = Flag "FILE", Fallback::Text(""), optional_path;
    /// Wait so long for a connection to the server with the notes.
    upstream_connect_seconds: u64 = Flag "SECONDS", Fallback::Text("5"), count;
    /// Wait so long for a note, connecting included.
    upstream_timeout_seconds: u64 = Flag "SECONDS", Fallback::Text("30"), count;
    /// Read at most so much of an answer.
    upstream_max_bytes: usize = Flag "BYTES", Fallback::Text("4MiB"), bytes;
    /// Read records from the server at this address, which answers at `/v1` below it.
    provider: Option<String> = Flag "URL", Fallback::Text(""), url;
    /// The token for that server is in this file. It is read again when the server refuses it.
    token_file: Option<PathBuf> = Flag "FILE", Fallback::Text(""), optional_path;
    /// Wait so long for an answer about records, connecting included.
    provider_timeout_seconds: u64 = Flag "SECONDS", Fallback::Text("30"), count;
    /// Tell how many calls there were at `/metrics` on this address of this machine; left out,
    /// nowhere.
    metrics_listen: Option<SocketAddr> = Flag "ADDR:PORT", Fallback::Text(""), loopback;
    /// Write this much to the log on standard error: error, warn, info, debug or trace.
    log: LogLevel = Flag "LEVEL", Fallback::Text("info"), word;
}

impl Config {
    /// The ceilings of the tools about records.
    pub fn budgets(&self) -> Budgets {
        Budgets {
            text: self.record_text_bytes,
            preview_chars: self.record_preview_chars,
            structured: self.record_structure_bytes,
            // The structure of one record has its text too, and as much again of how it goes on.
            document: self.record_document_bytes.min(self.record_structure_bytes / 2),
            ..Budgets::default()
        }
    }

    /// The ceilings of the file tools.
    pub fn limits(&self) -> FileLimits {
        FileLimits {
            read_budget: self.read_budget_bytes,
            file_size: self.max_file_bytes,
            read_size: self.max_read_bytes,
        }
    }
}

/// One setting, as it is declared.
pub struct Setting {
    /// The name in `stile.toml`.
    pub name: &'static str,
    help: &'static str,
    /// What stands for the value in help.
    pub value: &'static str,
    /// Where it may be given.
    pub given: Given,
    default: Fallback,
    show: fn(&Config) -> Option<String>,
}

/// Where a setting may be given, besides its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// By a flag or in the file.
    Flag,
    /// As the argument of a command or in the file.
    Positional,
    /// By a flag only, since the file is found through it.
    NotInFile,
}

/// The value where nothing is given.
#[derive(Clone, Copy)]
enum Fallback {
    Text(&'static str),
    /// How help describes it, and what it is.
    Computed(&'static str, fn(&Surroundings<'_>) -> Option<String>),
}

impl Setting {
    /// What it does, as one sentence or two.
    pub fn help(&self) -> String {
        self.help.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The flag, without its dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("STILE_{}", self.name.to_uppercase())
    }

    /// How help describes the default; nothing where the default is to have none.
    pub fn default_shown(&self) -> Option<&'static str> {
        match self.default {
            Fallback::Text("") => None,
            Fallback::Text(text) | Fallback::Computed(text, _) => Some(text),
        }
    }

    /// The value in force as TOML; `None` where it is not set.
    pub fn show(&self, config: &Config) -> Option<String> {
        (self.show)(config)
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag or an argument.
    Flag,
    /// The environment variable of that name.
    Environment(String),
    /// The settings file.
    File,
    /// Nothing was given.
    Default,
}

/// The settings in force, and where each came from, in the order of [`SETTINGS`].
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values.
    pub config: Config,
    /// Their sources.
    pub sources: Vec<Source>,
}

impl Resolved {
    /// Where the value of a setting came from.
    pub fn source(&self, name: &str) -> &Source {
        let at = SETTINGS.iter().position(|setting| setting.name == name);
        at.and_then(|at| self.sources.get(at)).unwrap_or(&Source::Default)
    }
}

/// Why the settings are not usable. The message says what to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value does not parse.
    #[error("{place}: `{value}` {reason}")]
    Value {
        /// The flag, variable or key as the person wrote it.
        place: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has a key that is no setting.
    #[error("{}: there is no setting `{key}`{}", .file.display(), suggestion(.nearest))]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The setting whose name is closest.
        nearest: Option<&'static str>,
    },
    /// The file has a key that only makes sense elsewhere.
    #[error("{}: `{key}` cannot be set in the file that is found through it; use --{key} or STILE_{}", .file.display(), .key.to_uppercase())]
    NotInFile {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML:\n{reason}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What the parser says, with the line.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read the settings file {}: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is no default on this machine.
    #[error("cannot tell where `{name}` should be, because the home folder is not known; give it with {}", .place)]
    NoDefault {
        /// The setting.
        name: &'static str,
        /// How to give it.
        place: String,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `stile config` shows all settings".to_owned(),
    }
}

/// The environment of the process, as a function so that tests can have their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks every setting up.
///
/// `flag` answers with what was given on the command line, by the name of the setting.
///
/// # Errors
/// [`ConfigError`], for the first thing that is wrong.
pub fn resolve(
    flag: &dyn Fn(&str) -> Option<String>,
    environment: Environment<'_>,
) -> Result<Resolved, ConfigError> {
    let mut lookup = Lookup {
        flag,
        file: PathBuf::new(),
        table: toml::Table::new(),
        surroundings: Surroundings { environment, state: PathBuf::new() },
    };
    lookup.surroundings.state = lookup.find_path("state")?.0;
    let (file, source) = lookup.find_path("config")?;
    lookup.table = read_file(&file, &source)?;
    lookup.file = file;
    lookup.check_keys()?;
    Config::assemble(&lookup)
}

/// A file that was not asked for may be absent.
fn read_file(file: &Path, source: &Source) -> Result<toml::Table, ConfigError> {
    let text = match stile_store::state::read_settings(file) {
        Ok(text) => text,
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && *source == Source::Default =>
        {
            String::new()
        }
        Err(error) => return Err(ConfigError::Unreadable { file: file.to_owned(), error }),
    };
    text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
        file: file.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

/// What a default or a path may depend on.
struct Surroundings<'a> {
    environment: Environment<'a>,
    state: PathBuf,
}

impl Surroundings<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<String> {
        self.variable("HOME").or_else(|| self.variable("USERPROFILE"))
    }
}

struct Lookup<'a> {
    flag: &'a dyn Fn(&str) -> Option<String>,
    file: PathBuf,
    table: toml::Table,
    surroundings: Surroundings<'a>,
}

impl Lookup<'_> {
    fn find(&self, name: &'static str, default: Fallback) -> Result<(String, Source), ConfigError> {
        let variable = format!("STILE_{}", name.to_uppercase());
        if let Some(text) = (self.flag)(name) {
            return Ok((text, Source::Flag));
        }
        if let Some(text) = self.surroundings.variable(&variable) {
            return Ok((text, Source::Environment(variable)));
        }
        if let Some(value) = self.table.get(name) {
            let text = plain_text(value).ok_or_else(|| {
                let reason = "is not a string, a number or a list of strings".to_owned();
                self.bad_value(name, &Source::File, value.type_str().to_owned(), reason)
            })?;
            return Ok((text, Source::File));
        }
        let text = match default {
            Fallback::Text(text) => Some(text.to_owned()),
            Fallback::Computed(_, compute) => compute(&self.surroundings),
        };
        let missing = || ConfigError::NoDefault {
            name,
            place: format!("--{} or {variable}", name.replace('_', "-")),
        };
        Ok((text.ok_or_else(missing)?, Source::Default))
    }

    fn find_path(&self, name: &'static str) -> Result<(PathBuf, Source), ConfigError> {
        let default =
            SETTINGS.iter().find(|setting| setting.name == name).map(|setting| setting.default);
        let (text, source) = self.find(name, default.unwrap_or(Fallback::Text("")))?;
        match path(&text, &self.surroundings) {
            Ok(path) => Ok((path, source)),
            Err(reason) => Err(self.bad_value(name, &source, text, reason)),
        }
    }

    fn bad_value(&self, name: &str, source: &Source, value: String, reason: String) -> ConfigError {
        let place = match source {
            Source::Flag if name == "root" => "ROOT".to_owned(),
            Source::Flag => format!("--{}", name.replace('_', "-")),
            Source::Environment(variable) => variable.clone(),
            Source::File => format!("{}: {name}", self.file.display()),
            Source::Default => format!("the default of {name}"),
        };
        ConfigError::Value { place, value, reason }
    }

    fn check_keys(&self) -> Result<(), ConfigError> {
        for key in self.table.keys() {
            match SETTINGS.iter().find(|setting| setting.name == key) {
                None => {
                    let (file, key) = (self.file.clone(), key.clone());
                    return Err(ConfigError::UnknownKey { file, nearest: nearest(&key), key });
                }
                Some(setting) if setting.given == Given::NotInFile => {
                    return Err(ConfigError::NotInFile {
                        file: self.file.clone(),
                        key: key.clone(),
                    });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// A value of the file as the text that a flag would have.
fn plain_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

/// The setting whose name is close enough to have been meant.
fn nearest(key: &str) -> Option<&'static str> {
    let close = SETTINGS.iter().map(|setting| (distance(key, setting.name), setting.name)).min()?;
    (close.0 <= 1 + close.1.len() / 4).then_some(close.1)
}

/// How many characters must be changed, added or left out.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(b.chars()) {
            left = (diagonal + usize::from(from != to)).min(*cell + 1).min(left + 1);
            diagonal = std::mem::replace(cell, left);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(target_os = "macos")]
const STATE_SHOWN: &str = "~/Library/Application Support/stile";
#[cfg(windows)]
const STATE_SHOWN: &str = r"%LOCALAPPDATA%\stile";
#[cfg(not(any(target_os = "macos", windows)))]
const STATE_SHOWN: &str = "$XDG_STATE_HOME/stile, or ~/.local/state/stile";

fn state_default(surroundings: &Surroundings<'_>) -> Option<String> {
    if cfg!(target_os = "macos") {
        return surroundings.home().map(|home| format!("{home}/Library/Application Support/stile"));
    }
    if cfg!(windows) {
        return surroundings.variable("LOCALAPPDATA").map(|folder| format!(r"{folder}\stile"));
    }
    // The XDG specification says to ignore a relative path.
    let xdg = surroundings.variable("XDG_STATE_HOME").filter(|folder| folder.starts_with('/'));
    let folder = xdg.or_else(|| surroundings.home().map(|home| format!("{home}/.local/state")));
    folder.map(|folder| format!("{folder}/stile"))
}

fn config_default(surroundings: &Surroundings<'_>) -> Option<String> {
    surroundings.state.join("stile.toml").to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/ann".to_owned())
    }

    fn with_flags(flags: &[(&str, &str)]) -> Result<Resolved, ConfigError> {
        let flag = |name: &str| {
            flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned())
        };
        resolve(&flag, &environment)
    }

    fn with_file(text: &str) -> Result<Resolved, String> {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join("stile.toml"), text).unwrap();
        let path = state.path().to_str().unwrap().to_owned();
        with_flags(&[("state", &path)]).map_err(|error| error.to_string().replace(&path, "<state>"))
    }

    #[test]
    fn defaults_are_what_the_contract_says() {
        let config = with_flags(&[]).unwrap().config;
        assert_eq!(config.listen.to_string(), "127.0.0.1:9999");
        assert_eq!(config.root, Path::new("/home/ann/stile"));
        assert_eq!(config.max_body_bytes, 4 * 1024 * 1024);
        assert_eq!(config.limits(), FileLimits::default());
        assert_eq!((config.rate_per_second, config.rate_burst), (2000, 5000));
        assert_eq!(config.public_url, None);
        assert_eq!(config.budgets(), Budgets::default());
    }

    #[test]
    fn the_text_of_a_record_has_room_in_the_structure() {
        let least =
            with_flags(&[("record_structure_bytes", "16KiB"), ("record_preview_chars", "2000")])
                .unwrap()
                .config;
        let Budgets { structured, document, preview_chars, .. } = least.budgets();
        assert_eq!((structured, document, preview_chars), (16384, 8192, 2000));
        let names = ["record_text_bytes", "record_structure_bytes", "record_document_bytes"];
        let most = with_flags(&names.map(|name| (name, "128KiB"))).unwrap().config.budgets();
        assert_eq!((most.text, most.structured, most.document), (128 << 10, 128 << 10, 64 << 10));
    }

    /// What help and documents say of the bounds is what they are.
    #[test]
    fn the_bounds_of_budgets_are_told() {
        let page = include_str!("../../../docs/ladder.md");
        for (name, bounds) in [
            ("record_text_bytes", "1KiB to 128KiB"),
            ("record_preview_chars", "1 to 2000"),
            ("record_structure_bytes", "16KiB to 128KiB"),
            ("record_document_bytes", "1KiB to 128KiB"),
        ] {
            assert!(page.contains(&format!("`{name}` | {bounds} |")), "{name}");
            let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            let (_, most) = bounds.split_once(" to ").unwrap();
            assert!(
                setting.help().ends_with(&format!("o more than {most}.")),
                "{}",
                setting.help()
            );
        }
    }

    #[test]
    fn the_examples_of_a_deployment_are_settings_that_fit_each_other() {
        let [origin, gateway] = [
            include_str!("../../../examples/gateway/origin.toml"),
            include_str!("../../../examples/gateway/gateway.toml"),
        ]
        .map(|text| {
            let state = tempfile::tempdir().unwrap();
            std::fs::write(state.path().join("stile.toml"), text).unwrap();
            with_flags(&[("state", state.path().to_str().unwrap())]).unwrap().config
        });
        assert_eq!(
            (&origin.vault, &origin.jwks, &origin.issuer),
            (&gateway.vault, &gateway.jwks, &gateway.issuer)
        );
        assert!(origin.jwks.is_some() && origin.issuer.is_some());
        assert!(
            origin.gateway_secret_file.is_some()
                && origin.gateway_secret_file == gateway.gateway_secret_file
        );
        assert_eq!(gateway.upstream, Some(format!("http://{}", origin.listen)));
        assert_eq!(gateway.upstream_audience, origin.audience);
        assert_ne!(gateway.audience, origin.audience);
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    #[test]
    fn the_state_folder_follows_the_platform() {
        assert_eq!(
            with_flags(&[]).unwrap().config.state,
            Path::new("/home/ann/.local/state/stile")
        );
        let xdg = |name: &str| {
            if name == "XDG_STATE_HOME" { Some("/xdg".to_owned()) } else { environment(name) }
        };
        let resolved = resolve(&|_| None, &xdg).unwrap();
        assert_eq!(resolved.config.state, Path::new("/xdg/stile"));
        assert_eq!(resolved.config.config, Path::new("/xdg/stile/stile.toml"));
    }

    #[test]
    fn a_flag_goes_before_a_variable_before_the_file_before_the_default() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(
            state.path().join("stile.toml"),
            "rate_burst = 1\nrate_per_second = 1\nlog = 'warn'",
        )
        .unwrap();
        let flag = |name: &str| match name {
            "state" => Some(state.path().to_str().unwrap().to_owned()),
            "rate_burst" => Some("3".to_owned()),
            _ => None,
        };
        let variables = |name: &str| match name {
            "STILE_RATE_BURST" | "STILE_RATE_PER_SECOND" => Some("2".to_owned()),
            _ => environment(name),
        };
        let resolved = resolve(&flag, &variables).unwrap();
        assert_eq!((resolved.config.rate_burst, resolved.config.rate_per_second), (3, 2));
        assert_eq!(resolved.config.log, LogLevel::Warn);
        assert_eq!(*resolved.source("rate_burst"), Source::Flag);
        assert_eq!(
            *resolved.source("rate_per_second"),
            Source::Environment("STILE_RATE_PER_SECOND".to_owned())
        );
        assert_eq!(*resolved.source("log"), Source::File);
        assert_eq!(*resolved.source("listen"), Source::Default);
    }

    #[test]
    fn lists_are_written_with_commas_or_as_arrays() {
        let hosts =
            with_flags(&[("allowed_hosts", "a.example, b.example")]).unwrap().config.allowed_hosts;
        assert_eq!(hosts, ["a.example", "b.example"]);
        assert_eq!(
            with_file("allowed_hosts = ['a.example', 'b.example']").unwrap().config.allowed_hosts,
            hosts
        );
    }

    #[test]
    fn what_config_shows_can_be_read_back() {
        let shown = with_flags(&[
            ("public_url", "https://a.example/"),
            ("allowed_hosts", "x,y"),
            ("log", "debug"),
        ]);
        let config = shown.unwrap().config;
        let text: String = SETTINGS
            .iter()
            .filter(|setting| setting.given != Given::NotInFile)
            .filter_map(|setting| {
                setting.show(&config).map(|value| format!("{} = {value}\n", setting.name))
            })
            .collect();
        let again = with_file(&text).unwrap().config;
        assert_eq!(
            Config { state: config.state.clone(), config: config.config.clone(), ..again },
            config
        );
    }

    #[test]
    fn errors_say_what_to_change() {
        let mut errors = String::new();
        for (name, value) in [
            ("listen", "9999"),
            ("max_body_bytes", "4MB"),
            ("max_body_bytes", "99999999999GiB"),
            ("read_budget_bytes", "10"),
            ("record_text_bytes", "1MiB"),
            ("record_preview_chars", "2001"),
            ("record_preview_chars", "0"),
            ("record_structure_bytes", "16383"),
            ("record_structure_bytes", "1MiB"),
            ("record_document_bytes", "131073"),
            ("rate_burst", "0"),
            ("rate_burst", "-1"),
            ("tool_names", "plain"),
            ("log", "loud"),
            ("public_url", "notes.example.org/x"),
            ("public_url", "https://me@notes.example.org"),
            ("root", ""),
            ("config", "/nonexistent/stile.toml"),
        ] {
            errors += &format!("{}\n", with_flags(&[(name, value)]).unwrap_err());
        }
        for text in [
            "lisen = '1'",
            "zzz = 1",
            "state = '/x'",
            "listen = ",
            "log = true",
            "log = 'warn'\nlog = 'info'",
        ] {
            errors += &format!("{}\n", with_file(text).unwrap_err());
        }
        errors += &format!("{}\n", resolve(&|_| None, &|_| None).unwrap_err());
        insta::assert_snapshot!(errors);
    }

    #[test]
    fn the_nearest_name_is_named_only_when_it_is_near() {
        assert_eq!(nearest("rate_brust"), Some("rate_burst"));
        assert_eq!(nearest("allowed_host"), Some("allowed_hosts"));
        assert_eq!(nearest("database"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
