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
    "Call the server by this origin in challenges and metadata, as in \
     `https://notes.example.org`; left out, the request's own Host is used.",
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

pub(crate) const READ_BUDGET_BYTES: Setting<usize> =
    Setting::new("read_budget_bytes", "BYTES", bytes, "Answer one read with at most so much text.")
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
    "Answer one user so many requests a second, over time.",
)
.default("2000")
.taken_by(HTTP);

pub(crate) const RATE_BURST: Setting<u32> =
    Setting::new("rate_burst", "COUNT", count, "Answer one user so many requests at once.")
        .default("5000")
        .taken_by(HTTP);

pub(crate) const SESSIONS_PER_SUBJECT: Setting<usize> = Setting::new(
    "sessions_per_subject",
    "COUNT",
    count,
    "Keep so many sessions of one user; the idlest goes first.",
)
.default("64")
.taken_by(HTTP);

pub(crate) const SESSION_IDLE_SECONDS: Setting<u64> = Setting::new(
    "session_idle_seconds",
    "SECONDS",
    count,
    "Forget a session that was idle for so long.",
)
.default("3600")
.taken_by(HTTP);

pub(crate) const MAX_CONNECTIONS: Setting<usize> =
    Setting::new("max_connections", "COUNT", count, "Hold so many connections open.")
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
    "Show at most so much text of records in an answer that lists them; the structure \
     beside it may have more. No more than 128KiB.",
)
.default("1800")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_PREVIEW_CHARS: Setting<usize> = Setting::new(
    "record_preview_chars",
    "COUNT",
    count_to::<{ Budgets::MOST_PREVIEW_CHARS }>,
    "Show at most so many characters of a field where records are listed. No more than \
     2000.",
)
.default("512")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_STRUCTURE_BYTES: Setting<usize> = Setting::new(
    "record_structure_bytes",
    "BYTES",
    bytes_within::<{ Budgets::LEAST_STRUCTURED }, { Budgets::MOST_BYTES }>,
    "Answer with at most so much structure about records. No less than 16KiB, and no more \
     than 128KiB.",
)
.default("64KiB")
.taken_by(RECORD_TOOLS);

pub(crate) const RECORD_DOCUMENT_BYTES: Setting<usize> = Setting::new(
    "record_document_bytes",
    "BYTES",
    bytes_within::<MIN_BYTES, { Budgets::MOST_BYTES }>,
    "Show at most so much text of one record, and no more than half of what the structure \
     may have. No more than 128KiB.",
)
.default("16KiB")
.taken_by(RECORD_TOOLS);

pub(crate) const STRICT_SCHEMAS: Setting<YesNo> = Setting::new(
    "strict_schemas",
    "yes|no",
    word,
    "Say in a tool's schema, too, which arguments exclude each other (yes or no). Models' \
     interfaces refuse such lists.",
)
.form(Form::Switch)
.default("no")
.taken_by(RECORD_TOOLS);

pub(crate) const LOCK_WAIT_SECONDS: Setting<u64> = Setting::new(
    "lock_wait_seconds",
    "SECONDS",
    count,
    "Wait so long for another process that is changing the same file.",
)
.default("10")
.taken_by(SPACE);

pub(crate) const JWKS: Setting<Option<String>> = Setting::new(
    "jwks",
    "URL",
    trusted_url,
    "Accept tokens of an identity provider, whose keys are at this address, and no others.",
)
.taken_by(HTTP);

pub(crate) const ISSUER: Setting<Option<String>> =
    Setting::new("issuer", "ISS", text, "The `iss` of such tokens.").taken_by(HTTP);

pub(crate) const AUDIENCE: Setting<Option<String>> = Setting::new(
    "audience",
    "AUD",
    text,
    "The `aud` of such tokens: this server's address, as in \
     `https://notes.example.org/mcp`, which is taken from the public URL where it is left \
     out.",
)
.taken_by(HTTP);

pub(crate) const VAULT: Setting<String> = Setting::new(
    "vault",
    "ID",
    header_value,
    "The vault that the space is, or that the gateway takes for tokens which name none.",
)
.default("default")
.taken_by(HTTP);

pub(crate) const GATEWAY_SECRET_FILE: Setting<Option<PathBuf>> = Setting::new(
    "gateway_secret_file",
    "FILE",
    optional_path,
    "The secret that the gateway and the server with the notes share is in this file.",
)
.taken_by(HTTP);

pub(crate) const TRUST_GATEWAY: Setting<Option<String>> = Setting::new(
    "trust_gateway",
    "ID",
    text,
    "Let the gateway whose own token has this subject read in its users' names.",
)
.taken_by(&[Serve]);

pub(crate) const CA_FILE: Setting<Option<PathBuf>> = Setting::new(
    "ca_file",
    "FILE",
    optional_path,
    "Trust these authorities too when connecting, certificates in PEM.",
)
.taken_by(&[Serve, Gateway, Mcp]);

pub(crate) const UPSTREAM: Setting<Option<String>> =
    Setting::new("upstream", "URL", url, "Read notes from the server at this address.")
        .taken_by(&[Gateway]);

pub(crate) const UPSTREAM_AUDIENCE: Setting<Option<String>> = Setting::new(
    "upstream_audience",
    "AUD",
    text,
    "Forward a token only where its `aud` has this too; left out, what the gateway itself \
     is called.",
)
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_CREDENTIAL: Setting<CredentialMode> = Setting::new(
    "upstream_credential",
    "WHOSE",
    word,
    "Show the server with the notes the caller's token (forward), or the gateway's (own).",
)
.default("forward")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_TOKEN_FILE: Setting<Option<PathBuf>> = Setting::new(
    "upstream_token_file",
    "FILE",
    optional_path,
    "The gateway's own token is in this file.",
)
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_CONNECT_SECONDS: Setting<u64> = Setting::new(
    "upstream_connect_seconds",
    "SECONDS",
    count,
    "Wait so long for a connection to the server with the notes.",
)
.default("5")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_TIMEOUT_SECONDS: Setting<u64> = Setting::new(
    "upstream_timeout_seconds",
    "SECONDS",
    count,
    "Wait so long for a note, connecting included.",
)
.default("30")
.taken_by(&[Gateway]);

pub(crate) const UPSTREAM_MAX_BYTES: Setting<usize> =
    Setting::new("upstream_max_bytes", "BYTES", bytes, "Read at most so much of an answer.")
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
    "The token for that server is in this file. It is read again when the server refuses \
     it.",
)
.taken_by(&[Mcp]);

pub(crate) const PROVIDER_TIMEOUT_SECONDS: Setting<u64> = Setting::new(
    "provider_timeout_seconds",
    "SECONDS",
    count,
    "Wait so long for an answer about records, connecting included.",
)
.default("30")
.taken_by(&[Mcp]);

pub(crate) const METRICS_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "metrics_listen",
    "ADDR:PORT",
    loopback,
    "Tell how many calls there were at `/metrics` on this address of this machine; left \
     out, nowhere.",
)
.taken_by(HTTP);

pub(crate) const LOG: Setting<LogLevel> = Setting::new(
    "log",
    "LEVEL",
    word,
    "Write this much to the log on standard error: error, warn, info, debug or trace.",
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
