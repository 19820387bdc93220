//! The settings, each declared once: help text, type, key, placeholder in help, parser, default and
//! the commands that take the setting.
//!
//! To add a setting, declare it here and add a line to [`Config`](super::Config). The flag, the
//! environment variable, the key in `stile.toml`, help and `stile config` follow from these two.
//! No setting is a secret, so `stile config` can show all of them.

use std::net::SocketAddr;
use std::path::PathBuf;

use stile_domain::path::SpacePath;
use stile_ladder::budget::Budgets;
use stile_store::space::SearchIgnore;

use super::database_address::{DatabaseAddress, database_address};
use super::network::{Network, networks};
use super::setting::CommandGroup::{
    Connect, Gateway, History, Mcp, Note, Records, Serve, Stdio, Token,
};
use super::setting::{CommandGroup, declare_settings};
use super::values::{
    AnswerForms, CredentialMode, HistoryMode, LogLevel, MIN_BYTES, ParseContext, SpaceRecords,
    ToolGroups, ToolNames, YesNo, address, bytes, bytes_within, count, count_or_ever, count_to,
    header_value, ignore_rules, list, loopback, optional_path, origin, path, paths_by_vault,
    space_paths, space_records, text, texts_by_vault, trusted_url, url, urls_by_vault, word,
};
use crate::by_vault::ByVault;

const SPACE: &[CommandGroup] = &[Serve, Stdio];
/// The commands that change files.
const CHANGES: &[CommandGroup] = &[Serve, Stdio, History];
const HTTP: &[CommandGroup] = &[Serve, Gateway];
/// The commands that need to know where a server is.
const ADDRESS: &[CommandGroup] = &[Serve, Gateway, Connect];
const RECORD_TOOLS: &[CommandGroup] = &[Serve, Stdio, Mcp];
/// The commands of an operator that are about one of several people.
const PEOPLE: &[CommandGroup] = &[Note, Token, Records, History];

declare_settings! {
    /// Keep keys, tokens and the journal in this folder. It must lie outside the space.
    STATE: PathBuf = FlagOnly("state", "DIR"), path,
        default Computed { shown: STATE_SHOWN, compute: state_default },
        for &[Serve, Stdio, Gateway, Note, Token, Connect, Records, History];

    /// Read settings from this file.
    CONFIG: PathBuf = FlagOnly("config", "FILE"), path,
        default Computed { shown: "stile.toml in the state folder", compute: config_default },
        for &[Serve, Stdio, Gateway, Mcp, Note, Token, Connect, Records, History];

    /// Share this database on PostgreSQL with other servers, as in `postgres://USER@HOST/NAME`: it
    /// holds the records, tokens and sign-in in place of the state folder. Name it in the
    /// environment where other users of the machine can see command lines.
    DATABASE: Option<DatabaseAddress> = Flag("database", "ADDRESS"), database_address,
        for &[Serve, Stdio, Gateway, Note, Token, Connect, Records, History];

    /// The folder that agents are let into.
    ROOT: PathBuf = Positional("root", "ROOT"), path, default Text("~/stile"), for SPACE;

    /// Give each person a space of their own in this folder, which all servers of `--database` can
    /// reach, in place of ROOT. A person is the verified subject of a token.
    SPACES: Option<PathBuf> = Flag("spaces", "DIR"), optional_path, for &[Serve, Note, History];

    /// The person of `--database` whom the command is about: the subject of the person's tokens, or
    /// the identifier that `stile person list` shows.
    PERSON: Option<String> = Flag("person", "NAME"), text, for PEOPLE;

    /// Keep the lines of the journal for this many days, or for `ever`. A file of the journal is
    /// removed when its last line is older.
    JOURNAL_DAYS: Option<u32> = Flag("journal_days", "DAYS"), count_or_ever, default Text("400"),
        for SPACE;

    /// Accept connections on this address and port.
    LISTEN: SocketAddr = Flag("listen", "ADDR:PORT"), address, default Text("127.0.0.1:9999"),
        for ADDRESS;

    /// Serve over TLS with the certificate in this PEM file, followed by those that lead to its
    /// authority. A change of the file takes effect without a restart.
    TLS_CERTIFICATE: Option<PathBuf> = Flag("tls_certificate", "FILE"), optional_path, for HTTP;

    /// The PEM file with the key of the certificate.
    TLS_KEY: Option<PathBuf> = Flag("tls_key", "FILE"), optional_path, for HTTP;

    /// Believe `X-Forwarded-Proto` and `X-Forwarded-For` of the proxies at these addresses or
    /// networks. Without TLS, other machines than these are refused.
    BEHIND_PROXY: Vec<Network> = Flag("behind_proxy", "ADDR,…"), networks, for HTTP;

    /// Serve other machines without TLS (yes or no). Whoever is on the network between can read
    /// and use their tokens.
    INSECURE_HTTP: YesNo = Switch("insecure_http", "yes|no"), word, default Text("no"), for HTTP;

    /// Name this origin in challenges and metadata, as in `https://notes.example.org`; left
    /// out, the request's own Host is named.
    PUBLIC_URL: Option<String> = Flag("public_url", "URL"), origin, for ADDRESS;

    /// Accept these names in the Host header besides localhost and the address listened on.
    ALLOWED_HOSTS: Vec<String> = Flag("allowed_hosts", "HOST,…"), list, for HTTP;

    /// Accept requests from web pages of these origins, as in `https://app.example.org`.
    ALLOWED_ORIGINS: Vec<String> = Flag("allowed_origins", "ORIGIN,…"), list, for HTTP;

    /// Refuse a request with a longer body.
    MAX_BODY_BYTES: usize = Flag("max_body_bytes", "BYTES"), bytes, default Text("4MiB"), for HTTP;

    /// Tell every agent the text of this file when it connects, before the program's own words: at
    /// most 2048 bytes, outside the space.
    INSTRUCTIONS: Option<PathBuf> = Flag("instructions", "FILE"), optional_path, for SPACE;

    /// Offer the Markdown files of this folder as prompts, beside the program's own. It must lie
    /// outside the space.
    PROMPTS: Option<PathBuf> = Flag("prompts", "DIR"), optional_path, for SPACE;

    /// Return at most this much text from one read.
    READ_BUDGET_BYTES: usize = Flag("read_budget_bytes", "BYTES"), bytes, default Text("64KiB"),
        for SPACE;

    /// Refuse a change that would leave a longer file.
    MAX_FILE_BYTES: u64 = Flag("max_file_bytes", "BYTES"), bytes, default Text("64MiB"),
        for CHANGES;

    /// Refuse to read a longer file.
    MAX_READ_BYTES: u64 = Flag("max_read_bytes", "BYTES"), bytes, default Text("1GiB"), for SPACE;

    /// Answer at most this many requests a second from one user, on average.
    RATE_PER_SECOND: u32 = Flag("rate_per_second", "COUNT"), count, default Text("2000"), for HTTP;

    /// Answer at most this many requests at once from one user.
    RATE_BURST: u32 = Flag("rate_burst", "COUNT"), count, default Text("5000"), for HTTP;

    /// Keep at most this many sessions of one user; of the client that has most, the one that was
    /// idle longest is dropped first.
    SESSIONS_PER_SUBJECT: usize = Flag("sessions_per_subject", "COUNT"), count, default Text("64"),
        for HTTP;

    /// Drop a session from memory after it was idle for this long.
    SESSION_IDLE_SECONDS: u64 = Flag("session_idle_seconds", "SECONDS"), count,
        default Text("3600"), for HTTP;

    /// Hold at most this many connections open.
    MAX_CONNECTIONS: usize = Flag("max_connections", "COUNT"), count, default Text("4096"),
        for HTTP;

    /// Spell tool names: dotted (file.create), underscored (file_create), or auto, which is
    /// underscored for all clients but those known to take dots. Calls may use either.
    TOOL_NAMES: ToolNames = Flag("tool_names", "SPELLING"), word, default Text("auto"),
        for &[Serve, Stdio, Gateway];

    /// Offer only these groups of tools: files, find, notes, records. Calls of others are refused.
    /// A client shortens its list, and nothing else, by its address: `/mcp?tools=files,find`.
    TOOLS: ToolGroups = Flag("tools", "GROUP,…"), word,
        default Text("files,find,notes,records"), for &[Serve, Stdio, Gateway];

    /// Answer calls with their text, their structured content, or both: text, structured, both, or
    /// auto, which is both for all clients but those known to show one of them. A client can
    /// choose by its address, as in `/mcp?answers=text`.
    ANSWERS: AnswerForms = Flag("answers", "FORM"), word, default Text("auto"),
        for &[Serve, Stdio, Gateway, Mcp];

    /// Show at most this much text in an answer that lists records; its structured content may
    /// have more. No more than 128KiB.
    RECORD_TEXT_BYTES: usize = Flag("record_text_bytes", "BYTES"), bytes_within::<MIN_BYTES, { Budgets::MOST_BYTES }>,
        default Text("1800"),
        for RECORD_TOOLS;

    /// Show at most this many characters of a field in a list of records. No more than 2000.
    RECORD_PREVIEW_CHARS: usize = Flag("record_preview_chars", "COUNT"), count_to::<{ Budgets::MOST_PREVIEW_CHARS }>,
        default Text("512"),
        for RECORD_TOOLS;

    /// Answer with at most this much structured content about records. No less than 16KiB, and
    /// no more than 128KiB.
    RECORD_STRUCTURE_BYTES: usize = Flag("record_structure_bytes", "BYTES"), bytes_within::<{ Budgets::LEAST_STRUCTURED }, { Budgets::MOST_BYTES }>,
        default Text("64KiB"),
        for RECORD_TOOLS;

    /// Show at most this much text of one record, and no more than half of the structured
    /// content. No more than 128KiB.
    RECORD_DOCUMENT_BYTES: usize = Flag("record_document_bytes", "BYTES"), bytes_within::<MIN_BYTES, { Budgets::MOST_BYTES }>,
        default Text("16KiB"),
        for RECORD_TOOLS;

    /// State in tool schemas, too, which arguments exclude each other (yes or no). The
    /// interfaces of models refuse tool lists with such schemas.
    STRICT_SCHEMAS: YesNo = Switch("strict_schemas", "yes|no"), word, default Text("no"),
        for RECORD_TOOLS;

    /// Wait this long for another process that is changing the same file.
    LOCK_WAIT_SECONDS: u64 = Flag("lock_wait_seconds", "SECONDS"), count, default Text("10"),
        for CHANGES;

    /// Enter these mount points inside the space, named from its root as in `/archive`. Calls at
    /// any other mount point are refused.
    MOUNTS: Vec<SpacePath> = Flag("mounts", "PATH,…"), space_paths, for CHANGES;

    /// What to do with the old versions of files that calls change: keep them; require to keep
    /// them, which refuses a change whose old version cannot be kept; or off.
    HISTORY: HistoryMode = Flag("history", "keep|require|off"), word, default Text("keep"),
        for CHANGES;

    /// Keep old versions for this many days.
    HISTORY_DAYS: u64 = Flag("history_days", "DAYS"), count, default Text("30"), for CHANGES;

    /// Keep at most this much of old versions, compressed, and no more than a tenth of the disk.
    /// What the agent made itself goes first.
    HISTORY_BYTES: u64 = Flag("history_bytes", "BYTES"), bytes, default Text("1GiB"), for CHANGES;

    /// Let agents see and take back their own changes, with file.history and file.restore (yes or
    /// no).
    AGENT_UNDO: YesNo = Switch("agent_undo", "yes|no"), word, default Text("no"), for SPACE;

    /// Leave these files and folders out of `file.list` and all finding and searching: patterns as
    /// in git's ignore files.
    SEARCH_IGNORE: SearchIgnore = Flag("search_ignore", "PATTERN,…"), ignore_rules,
        default Text(stile_store::space::SEARCH_IGNORE), for SPACE;

    /// Keep the notes of the space as records in this connection, stream `notes`, in step with
    /// every change (no, or yes for the connection `space`).
    RECORDS_OF_SPACE: SpaceRecords = Switch("records_of_space", "NAME"), space_records,
        default Text("no"), for &[Serve];

    /// Accept only tokens of the identity provider whose keys are at this address.
    JWKS: Option<String> = Flag("jwks", "URL"), trusted_url, for HTTP;

    /// The `iss` of the identity provider's tokens.
    ISSUER: Option<String> = Flag("issuer", "ISS"), text,
        for &[Serve, Gateway, Note, Token, Records, History];

    /// The `aud` of the identity provider's tokens: this server's address, as in
    /// `https://notes.example.org/mcp`; left out, it is made from the public URL.
    AUDIENCE: Option<String> = Flag("audience", "AUD"), text, for HTTP;

    /// Let clients ask for access by themselves: they register, and the owner decides in a browser
    /// (yes or no). With --jwks it needs --sign-in-client.
    SIGN_IN: YesNo = Switch("sign_in", "yes|no"), word, default Text("yes"), for &[Serve];

    /// With --jwks: let people sign in at the identity provider and decide about clients, as this
    /// client of OpenID Connect. The provider must send them back to `/sign-in/provider/callback`.
    SIGN_IN_CLIENT: Option<String> = Flag("sign_in_client", "ID"), text, for &[Serve];

    /// The file with the secret of that client. Without one, the client is public.
    SIGN_IN_SECRET_FILE: Option<PathBuf> = Flag("sign_in_secret_file", "FILE"), optional_path,
        for &[Serve];

    /// With --public-url: fetch what a client says about itself from the address that it names,
    /// over HTTPS from a public host (yes or no). With no, every client has to register.
    CLIENT_DOCUMENTS: YesNo = Switch("client_documents", "yes|no"), word, default Text("yes"),
        for &[Serve];

    /// How long an access token lives that a client got so. The client renews it by itself. What it
    /// allows is looked up for each request. No more than 86400, and with --jwks than 43200.
    ACCESS_TOKEN_SECONDS: usize = Flag("access_token_seconds", "SECONDS"), count_to::<86_400>,
        default Text("86400"), for &[Serve];

    /// The vault that the space is; for the gateway, the vault of tokens that name none.
    VAULT: String = Flag("vault", "ID"), header_value, default Text("default"), for HTTP;

    /// Read the secret that the gateway and the server with the notes share from this file.
    GATEWAY_SECRET_FILE: Option<PathBuf> = Flag("gateway_secret_file", "FILE"), optional_path,
        for HTTP;

    /// Let the gateway whose own token has this subject read notes in its users' names.
    TRUST_GATEWAY: Option<String> = Flag("trust_gateway", "ID"), text, for &[Serve];

    /// Trust the certificate authorities in this PEM file, too, when connecting to other
    /// servers.
    CA_FILE: Option<PathBuf> = Flag("ca_file", "FILE"), optional_path, for &[Serve, Gateway, Mcp];

    /// Read the notes of a vault from the server at this address. Without a vault, it is the server
    /// of every vault that has none of its own. May be repeated.
    UPSTREAM: ByVault<String> = Repeated("upstream", "[VAULT=]URL"), urls_by_vault,
        for &[Gateway];

    /// Forward a token to the server of the vault only if its `aud` also has this; left out, the
    /// gateway's own audience. May be repeated.
    UPSTREAM_AUDIENCE: ByVault<String> = Repeated("upstream_audience", "[VAULT=]AUD"),
        texts_by_vault, for &[Gateway];

    /// Send the server with the notes the caller's token (forward), or the gateway's own (own).
    UPSTREAM_CREDENTIAL: CredentialMode = Flag("upstream_credential", "WHOSE"), word,
        default Text("forward"), for &[Gateway];

    /// Read the gateway's own token for the server of the vault from this file. May be repeated.
    UPSTREAM_TOKEN_FILE: ByVault<PathBuf> = Repeated("upstream_token_file", "[VAULT=]FILE"),
        paths_by_vault, for &[Gateway];

    /// Where the gateway sends its own token, refuse the notes that the path scopes of the
    /// caller's token do not cover (yes or no).
    UPSTREAM_PATH_SCOPES: YesNo = Flag("upstream_path_scopes", "yes|no"), word,
        default Text("yes"), for &[Gateway];

    /// Wait this long for a connection to the server with the notes.
    UPSTREAM_CONNECT_SECONDS: u64 = Flag("upstream_connect_seconds", "SECONDS"), count,
        default Text("5"), for &[Gateway];

    /// Wait this long for a note, connecting included.
    UPSTREAM_TIMEOUT_SECONDS: u64 = Flag("upstream_timeout_seconds", "SECONDS"), count,
        default Text("30"), for &[Gateway];

    /// Read at most this much of a response from the server with the notes.
    UPSTREAM_MAX_BYTES: usize = Flag("upstream_max_bytes", "BYTES"), bytes, default Text("4MiB"),
        for &[Gateway];

    /// Read records from the server at this address, which answers at `/v1` below it.
    PROVIDER: Option<String> = Flag("provider", "URL"), url, for &[Mcp];

    /// Read the token for that server from this file, and again when the server refuses the
    /// token.
    TOKEN_FILE: Option<PathBuf> = Flag("token_file", "FILE"), optional_path, for &[Mcp];

    /// Wait this long for an answer about records, connecting included.
    PROVIDER_TIMEOUT_SECONDS: u64 = Flag("provider_timeout_seconds", "SECONDS"), count,
        default Text("30"), for &[Mcp];

    /// Serve the counts of calls at `/metrics` on this address of this machine; left out, they
    /// are not served.
    METRICS_LISTEN: Option<SocketAddr> = Flag("metrics_listen", "ADDR:PORT"), loopback, for HTTP;

    /// Log at this level to standard error: error, warn, info, debug or trace.
    LOG: LogLevel = Flag("log", "LEVEL"), word, default Text("info"),
        for &[Serve, Stdio, Gateway, Mcp, Note, History];
}

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
