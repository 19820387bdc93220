//! The settings, each declared once: key, placeholder in help, parser, help, default, commands.
//!
//! To add a setting, declare it here and add a line to [`Config`](super::Config). The flag, the
//! environment variable, the key in `stile.toml`, help and `stile config` follow from these two.
//! No setting is a secret, so `stile config` can show all of them.

use std::net::SocketAddr;
use std::path::PathBuf;

use stile_ladder::budget::Budgets;

use super::setting::TakenBy::{Gateway, Mcp, Note, Records, Serve, Stdio, Token};
use super::setting::{Form, Setting, TakenBy};
use super::values::{
    CredentialMode, LogLevel, MIN_BYTES, ParseContext, ToolNames, YesNo, address, bytes,
    bytes_within, count, count_to, header_value, list, loopback, optional_path, origin, path, text,
    trusted_url, url, word,
};

/// The commands that serve a folder.
const SPACE: &[TakenBy] = &[Serve, Stdio];
/// The commands that serve HTTP.
const HTTP: &[TakenBy] = &[Serve, Gateway];
/// The commands that serve the tools about records.
const RECORD_TOOLS: &[TakenBy] = &[Serve, Stdio, Mcp];

pub(crate) const STATE: Setting<PathBuf> = Setting::new(
    "state",
    "DIR",
    path,
    "Keep keys, tokens and the journal in this folder. It must lie outside the space.",
)
.form(Form::FlagOnly)
.computed_default(STATE_SHOWN, state_default)
.taken_by(&[Serve, Stdio, Gateway, Note, Token, Records]);

pub(crate) const CONFIG: Setting<PathBuf> =
    Setting::new("config", "FILE", path, "Read settings from this file.")
        .form(Form::FlagOnly)
        .computed_default("stile.toml in the state folder", config_default)
        .taken_by(&[Serve, Stdio, Gateway, Mcp, Note, Token, Records]);

pub(crate) const ROOT: Setting<PathBuf> =
    Setting::new("root", "ROOT", path, "The folder that agents are let into.")
        .form(Form::Positional)
        .default("~/stile")
        .taken_by(SPACE);

pub(crate) const LISTEN: Setting<SocketAddr> =
    Setting::new("listen", "ADDR:PORT", address, "Accept connections on this address and port.")
        .default("127.0.0.1:9999")
        .taken_by(HTTP);

pub(crate) const PUBLIC_URL: Setting<Option<String>> = Setting::new(
    "public_url",
    "URL",
    origin,
    "Name this origin in challenges and metadata, as in `https://notes.example.org`; left \
     out, the request's own Host is named.",
)
.taken_by(HTTP);

pub(crate) const ALLOWED_HOSTS: Setting<Vec<String>> = Setting::new(
    "allowed_hosts",
    "HOST,…",
    list,
    "Accept these names in the Host header besides localhost and the address listened on.",
)
.taken_by(HTTP);

pub(crate) const ALLOWED_ORIGINS: Setting<Vec<String>> = Setting::new(
    "allowed_origins",
    "ORIGIN,…",
    list,
    "Accept requests from web pages of these origins, as in `https://app.example.org`.",
)
.taken_by(HTTP);

pub(crate) const MAX_BODY_BYTES: Setting<usize> =
    Setting::new("max_body_bytes", "BYTES", bytes, "Refuse a request with a longer body.")
        .default("4MiB")
        .taken_by(HTTP);

pub(crate) const READ_BUDGET_BYTES: Setting<usize> = Setting::new(
    "read_budget_bytes",
    "BYTES",
    bytes,
    "Return at most this much text from one read.",
)
.default("64KiB")
.taken_by(SPACE);

pub(crate) const MAX_FILE_BYTES: Setting<u64> = Setting::new(
    "max_file_bytes",
    "BYTES",
    bytes,
    "Refuse a change that would leave a longer file.",
)
.default("64MiB")
.taken_by(SPACE);

pub(crate) const MAX_READ_BYTES: Setting<u64> =
    Setting::new("max_read_bytes", "BYTES", bytes, "Refuse to read a longer file.")
        .default("1GiB")
        .taken_by(SPACE);

pub(crate) const RATE_PER_SECOND: Setting<u32> = Setting::new(
    "rate_per_second",
    "COUNT",
    count,
    "Answer at most this many requests a second from one user, on average.",
)
.default("2000")
.taken_by(HTTP);

pub(crate) const RATE_BURST: Setting<u32> = Setting::new(
    "rate_burst",
    "COUNT",
    count,
    "Answer at most this many requests at once from one user.",
)
.default("5000")
.taken_by(HTTP);

pub(crate) const SESSIONS_PER_SUBJECT: Setting<usize> = Setting::new(
    "sessions_per_subject",
    "COUNT",
    count,
    "Keep at most this many sessions of one user; the session that was idle longest is \
     dropped first.",
)
.default("64")
.taken_by(HTTP);

pub(crate) const SESSION_IDLE_SECONDS: Setting<u64> = Setting::new(
    "session_idle_seconds",
    "SECONDS",
    count,
    "Drop a session that was idle for this long.",
)
.default("3600")
.taken_by(HTTP);

pub(crate) const MAX_CONNECTIONS: Setting<usize> =
    Setting::new("max_connections", "COUNT", count, "Hold at most this many connections open.")
        .default("4096")
        .taken_by(HTTP);

pub(crate) const TOOL_NAMES: Setting<ToolNames> = Setting::new(
    "tool_names",
    "SPELLING",
    word,
    "Spell tool names in lists: auto, dotted (file.create) or underscored (file_create). \
     Calls may use either.",
)
.default("auto")
.taken_by(&[Serve, Stdio, Gateway]);

pub(crate) const RECORD_TEXT_BYTES: Setting<usize> = Setting::new(
    "record_text_bytes",
    "BYTES",
    bytes_within::<MIN_BYTES, { Budgets::MOST_BYTES }>,
    "Show at most this much text in an answer that lists records; its structured content may \
     have more. No more than 128KiB.",
)
.default("1800")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_PREVIEW_CHARS: Setting<usize> = Setting::new(
    "record_preview_chars",
    "COUNT",
    count_to::<{ Budgets::MOST_PREVIEW_CHARS }>,
    "Show at most this many characters of a field in a list of records. No more than 2000.",
)
.default("512")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_STRUCTURE_BYTES: Setting<usize> = Setting::new(
    "record_structure_bytes",
    "BYTES",
    bytes_within::<{ Budgets::LEAST_STRUCTURED }, { Budgets::MOST_BYTES }>,
    "Answer with at most this much structured content about records. No less than 16KiB, and \
     no more than 128KiB.",
)
.default("64KiB")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_DOCUMENT_BYTES: Setting<usize> = Setting::new(
    "record_document_bytes",
    "BYTES",
    bytes_within::<MIN_BYTES, { Budgets::MOST_BYTES }>,
    "Show at most this much text of one record, and no more than half of the structured \
     content. No more than 128KiB.",
)
.default("16KiB")
.taken_by(RECORD_TOOLS);

pub(crate) const STRICT_SCHEMAS: Setting<YesNo> = Setting::new(
    "strict_schemas",
    "yes|no",
    word,
    "State in tool schemas, too, which arguments exclude each other (yes or no). The \
     interfaces of models refuse tool lists with such schemas.",
)
.form(Form::Switch)
.default("no")
.taken_by(RECORD_TOOLS);

pub(crate) const LOCK_WAIT_SECONDS: Setting<u64> = Setting::new(
    "lock_wait_seconds",
    "SECONDS",
    count,
    "Wait this long for another process that is changing the same file.",
)
.default("10")
.taken_by(SPACE);

pub(crate) const JWKS: Setting<Option<String>> = Setting::new(
    "jwks",
    "URL",
    trusted_url,
    "Accept only tokens of the identity provider whose keys are at this address.",
)
.taken_by(HTTP);

pub(crate) const ISSUER: Setting<Option<String>> =
    Setting::new("issuer", "ISS", text, "The `iss` of the identity provider's tokens.")
        .taken_by(HTTP);

pub(crate) const AUDIENCE: Setting<Option<String>> = Setting::new(
    "audience",
    "AUD",
    text,
    "The `aud` of the identity provider's tokens: this server's address, as in \
     `https://notes.example.org/mcp`; left out, it is made from the public URL.",
)
.taken_by(HTTP);

pub(crate) const VAULT: Setting<String> = Setting::new(
    "vault",
    "ID",
    header_value,
    "The vault that the space is; for the gateway, the vault of tokens that name none.",
)
.default("default")
.taken_by(HTTP);

pub(crate) const GATEWAY_SECRET_FILE: Setting<Option<PathBuf>> = Setting::new(
    "gateway_secret_file",
    "FILE",
    optional_path,
    "Read the secret that the gateway and the server with the notes share from this file.",
)
.taken_by(HTTP);

pub(crate) const TRUST_GATEWAY: Setting<Option<String>> = Setting::new(
    "trust_gateway",
    "ID",
    text,
    "Let the gateway whose own token has this subject read notes in its users' names.",
)
.taken_by(&[Serve]);

pub(crate) const CA_FILE: Setting<Option<PathBuf>> = Setting::new(
    "ca_file",
    "FILE",
    optional_path,
    "Trust the certificate authorities in this PEM file, too, when connecting to other \
     servers.",
)
.taken_by(&[Serve, Gateway, Mcp]);

pub(crate) const UPSTREAM: Setting<Option<String>> =
    Setting::new("upstream", "URL", url, "Read notes from the server at this address.")
        .taken_by(&[Gateway]);

pub(crate) const UPSTREAM_AUDIENCE: Setting<Option<String>> = Setting::new(
    "upstream_audience",
    "AUD",
    text,
    "Forward a token only if its `aud` also has this; left out, the gateway's own audience.",
)
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_CREDENTIAL: Setting<CredentialMode> = Setting::new(
    "upstream_credential",
    "WHOSE",
    word,
    "Send the server with the notes the caller's token (forward), or the gateway's own (own).",
)
.default("forward")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_TOKEN_FILE: Setting<Option<PathBuf>> = Setting::new(
    "upstream_token_file",
    "FILE",
    optional_path,
    "Read the gateway's own token from this file.",
)
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_CONNECT_SECONDS: Setting<u64> = Setting::new(
    "upstream_connect_seconds",
    "SECONDS",
    count,
    "Wait this long for a connection to the server with the notes.",
)
.default("5")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_TIMEOUT_SECONDS: Setting<u64> = Setting::new(
    "upstream_timeout_seconds",
    "SECONDS",
    count,
    "Wait this long for a note, connecting included.",
)
.default("30")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_MAX_BYTES: Setting<usize> = Setting::new(
    "upstream_max_bytes",
    "BYTES",
    bytes,
    "Read at most this much of a response from the server with the notes.",
)
.default("4MiB")
.taken_by(&[Gateway]);

pub(crate) const PROVIDER: Setting<Option<String>> = Setting::new(
    "provider",
    "URL",
    url,
    "Read records from the server at this address, which answers at `/v1` below it.",
)
.taken_by(&[Mcp]);

pub(crate) const TOKEN_FILE: Setting<Option<PathBuf>> = Setting::new(
    "token_file",
    "FILE",
    optional_path,
    "Read the token for that server from this file, and again when the server refuses the \
     token.",
)
.taken_by(&[Mcp]);

pub(crate) const PROVIDER_TIMEOUT_SECONDS: Setting<u64> = Setting::new(
    "provider_timeout_seconds",
    "SECONDS",
    count,
    "Wait this long for an answer about records, connecting included.",
)
.default("30")
.taken_by(&[Mcp]);

pub(crate) const METRICS_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "metrics_listen",
    "ADDR:PORT",
    loopback,
    "Serve the counts of calls at `/metrics` on this address of this machine; left out, they \
     are not served.",
)
.taken_by(HTTP);

pub(crate) const LOG: Setting<LogLevel> = Setting::new(
    "log",
    "LEVEL",
    word,
    "Log at this level to standard error: error, warn, info, debug or trace.",
)
.default("info")
.taken_by(&[Serve, Stdio, Gateway, Mcp, Note]);

#[cfg(target_os = "macos")]
const STATE_SHOWN: &str = "~/Library/Application Support/stile";
#[cfg(windows)]
const STATE_SHOWN: &str = r"%LOCALAPPDATA%\stile";
#[cfg(not(any(target_os = "macos", windows)))]
const STATE_SHOWN: &str = "$XDG_STATE_HOME/stile, or ~/.local/state/stile";

fn state_default(context: &ParseContext<'_>) -> Option<String> {
    if cfg!(target_os = "macos") {
        return context.home().map(|home| format!("{home}/Library/Application Support/stile"));
    }
    if cfg!(windows) {
        return context.variable("LOCALAPPDATA").map(|folder| format!(r"{folder}\stile"));
    }
    // The XDG specification says to ignore a relative path.
    let xdg = context.variable("XDG_STATE_HOME").filter(|folder| folder.starts_with('/'));
    let folder = xdg.or_else(|| context.home().map(|home| format!("{home}/.local/state")));
    folder.map(|folder| format!("{folder}/stile"))
}

fn config_default(context: &ParseContext<'_>) -> Option<String> {
    context.state.join("stile.toml").to_str().map(str::to_owned)
}
