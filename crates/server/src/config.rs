//! The settings of an operator, and where their values come from.
//!
//! Each setting is declared once, in `declarations`, and listed once, in `Config`. A value comes
//! from a flag, an environment variable (`STILE_LISTEN` for `listen`), the file `stile.toml` or the
//! default, in this order. The file is never looked for in the space or in the current directory,
//! where an agent could have written it.

mod database_address;
pub(crate) mod declarations;
mod lookup;
mod network;
mod setting;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;
use stile_ladder::budget::Budgets;
use stile_store::space::SearchIgnore;

use crate::by_vault::ByVault;

pub(crate) use database_address::DatabaseAddress;
pub(crate) use lookup::{
    ConfigError, Lookup, ResolvedSetting, ResolvedSettings, SettingsList, Source, resolve,
    settings_list,
};
pub use network::Network;
pub(crate) use setting::{CommandGroup, Declaration, DefaultValue, Form, Setting};
pub use values::{AnswerForms, ToolGroups, ToolNames};
pub(crate) use values::{
    CredentialMode, Environment, HistoryMode, LogLevel, SpaceRecords, YesNo, is_exposed,
};
#[cfg(test)]
pub(crate) use {setting::declare_settings, values::count};

/// The settings in force, and where each value came from.
pub(crate) type Resolved = ResolvedSettings<Config>;

settings_list! {
    /// Every setting with the value in force, in the order of help and `stile config`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Config {
        state: PathBuf = declarations::STATE,
        config: PathBuf = declarations::CONFIG,
        database: Option<DatabaseAddress> = declarations::DATABASE,
        root: PathBuf = declarations::ROOT,
        spaces: Option<PathBuf> = declarations::SPACES,
        person: Option<String> = declarations::PERSON,
        journal_days: Option<u32> = declarations::JOURNAL_DAYS,
        listen: SocketAddr = declarations::LISTEN,
        tls_certificate: Option<PathBuf> = declarations::TLS_CERTIFICATE,
        tls_key: Option<PathBuf> = declarations::TLS_KEY,
        behind_proxy: Vec<Network> = declarations::BEHIND_PROXY,
        insecure_http: YesNo = declarations::INSECURE_HTTP,
        public_url: Option<String> = declarations::PUBLIC_URL,
        allowed_hosts: Vec<String> = declarations::ALLOWED_HOSTS,
        allowed_origins: Vec<String> = declarations::ALLOWED_ORIGINS,
        max_body_bytes: usize = declarations::MAX_BODY_BYTES,
        instructions: Option<PathBuf> = declarations::INSTRUCTIONS,
        prompts: Option<PathBuf> = declarations::PROMPTS,
        read_budget_bytes: usize = declarations::READ_BUDGET_BYTES,
        max_file_bytes: u64 = declarations::MAX_FILE_BYTES,
        max_read_bytes: u64 = declarations::MAX_READ_BYTES,
        rate_per_second: u32 = declarations::RATE_PER_SECOND,
        rate_burst: u32 = declarations::RATE_BURST,
        sessions_per_subject: usize = declarations::SESSIONS_PER_SUBJECT,
        session_idle_seconds: u64 = declarations::SESSION_IDLE_SECONDS,
        max_connections: usize = declarations::MAX_CONNECTIONS,
        tool_names: ToolNames = declarations::TOOL_NAMES,
        tools: ToolGroups = declarations::TOOLS,
        answers: AnswerForms = declarations::ANSWERS,
        record_text_bytes: usize = declarations::RECORD_TEXT_BYTES,
        record_preview_chars: usize = declarations::RECORD_PREVIEW_CHARS,
        record_structure_bytes: usize = declarations::RECORD_STRUCTURE_BYTES,
        record_document_bytes: usize = declarations::RECORD_DOCUMENT_BYTES,
        strict_schemas: YesNo = declarations::STRICT_SCHEMAS,
        lock_wait_seconds: u64 = declarations::LOCK_WAIT_SECONDS,
        mounts: Vec<SpacePath> = declarations::MOUNTS,
        history: HistoryMode = declarations::HISTORY,
        history_days: u64 = declarations::HISTORY_DAYS,
        history_bytes: u64 = declarations::HISTORY_BYTES,
        agent_undo: YesNo = declarations::AGENT_UNDO,
        search_ignore: SearchIgnore = declarations::SEARCH_IGNORE,
        records_of_space: SpaceRecords = declarations::RECORDS_OF_SPACE,
        jwks: Option<String> = declarations::JWKS,
        issuer: Option<String> = declarations::ISSUER,
        audience: Option<String> = declarations::AUDIENCE,
        sign_in: YesNo = declarations::SIGN_IN,
        sign_in_client: Option<String> = declarations::SIGN_IN_CLIENT,
        sign_in_secret_file: Option<PathBuf> = declarations::SIGN_IN_SECRET_FILE,
        client_documents: YesNo = declarations::CLIENT_DOCUMENTS,
        access_token_seconds: usize = declarations::ACCESS_TOKEN_SECONDS,
        vault: String = declarations::VAULT,
        gateway_secret_file: Option<PathBuf> = declarations::GATEWAY_SECRET_FILE,
        trust_gateway: Option<String> = declarations::TRUST_GATEWAY,
        ca_file: Option<PathBuf> = declarations::CA_FILE,
        upstream: ByVault<String> = declarations::UPSTREAM,
        upstream_audience: ByVault<String> = declarations::UPSTREAM_AUDIENCE,
        upstream_credential: CredentialMode = declarations::UPSTREAM_CREDENTIAL,
        upstream_token_file: ByVault<PathBuf> = declarations::UPSTREAM_TOKEN_FILE,
        upstream_path_scopes: YesNo = declarations::UPSTREAM_PATH_SCOPES,
        upstream_connect_seconds: u64 = declarations::UPSTREAM_CONNECT_SECONDS,
        upstream_timeout_seconds: u64 = declarations::UPSTREAM_TIMEOUT_SECONDS,
        upstream_max_bytes: usize = declarations::UPSTREAM_MAX_BYTES,
        provider: Option<String> = declarations::PROVIDER,
        token_file: Option<PathBuf> = declarations::TOKEN_FILE,
        provider_timeout_seconds: u64 = declarations::PROVIDER_TIMEOUT_SECONDS,
        metrics_listen: Option<SocketAddr> = declarations::METRICS_LISTEN,
        log: LogLevel = declarations::LOG,
    }
}

impl Config {
    /// Returns the limits of the tools about records.
    pub(crate) fn budgets(&self) -> Budgets {
        Budgets {
            text: self.record_text_bytes,
            preview_chars: self.record_preview_chars,
            structured: self.record_structure_bytes,
            // The structured content of one record repeats its text, and says in about as many
            // bytes how to read on.
            document: self.record_document_bytes.min(self.record_structure_bytes / 2),
            ..Budgets::default()
        }
    }

    pub(crate) fn limits(&self) -> FileLimits {
        FileLimits {
            read_budget: self.read_budget_bytes,
            file_size: self.max_file_bytes,
            read_size: self.max_read_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
    fn documented_defaults_are_in_force() {
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
    fn record_text_is_at_most_half_of_the_structured_content() {
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

    #[test]
    fn help_and_docs_state_the_bounds_of_record_budgets() {
        let page = include_str!("../../../docs/ladder.md");
        for (name, bounds) in [
            ("record_text_bytes", "1KiB to 128KiB"),
            ("record_preview_chars", "1 to 2000"),
            ("record_structure_bytes", "16KiB to 128KiB"),
            ("record_document_bytes", "1KiB to 128KiB"),
        ] {
            assert!(page.contains(&format!("`{name}` | {bounds} |")), "{name}");
            let setting = Config::DECLARATIONS.iter().find(|setting| setting.key == name).unwrap();
            let (_, max) = bounds.split_once(" to ").unwrap();
            assert!(setting.help.ends_with(&format!("o more than {max}.")), "{}", setting.help);
        }
    }

    #[test]
    fn the_example_deployment_has_matching_settings() {
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
        assert_eq!(gateway.upstream, ByVault::one(format!("http://{}", origin.listen)));
        assert_eq!(gateway.upstream_audience.other(), origin.audience.as_ref());
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
        let resolved: Resolved = resolve(&|_| None, &xdg).unwrap();
        assert_eq!(resolved.config.state, Path::new("/xdg/stile"));
        assert_eq!(resolved.config.config, Path::new("/xdg/stile/stile.toml"));
    }

    #[test]
    fn a_flag_overrides_a_variable_and_a_variable_overrides_the_file() {
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
        let resolved: Resolved = resolve(&flag, &variables).unwrap();
        assert_eq!((resolved.config.rate_burst, resolved.config.rate_per_second), (3, 2));
        assert_eq!(resolved.config.log, LogLevel::Warn);
        assert_eq!(*resolved.source(&declarations::RATE_BURST), Source::Flag);
        assert_eq!(
            *resolved.source(&declarations::RATE_PER_SECOND),
            Source::Environment("STILE_RATE_PER_SECOND".to_owned())
        );
        assert_eq!(*resolved.source(&declarations::LOG), Source::File);
        assert_eq!(*resolved.source(&declarations::LISTEN), Source::Default);
    }

    #[test]
    fn a_list_is_text_with_commas_or_an_array() {
        let hosts =
            with_flags(&[("allowed_hosts", "a.example, b.example")]).unwrap().config.allowed_hosts;
        assert_eq!(hosts, ["a.example", "b.example"]);
        assert_eq!(
            with_file("allowed_hosts = ['a.example', 'b.example']").unwrap().config.allowed_hosts,
            hosts
        );
    }

    #[test]
    fn each_vault_has_an_upstream_of_its_own_or_that_of_the_others() {
        let upstream = |text: &str| Ok(with_flags(&[("upstream", text)])?.config.upstream);
        let expected = ByVault::from_iter(
            [
                (Some("a b"), "http://127.0.0.1:1"),
                (Some("c/d"), "https://x/y=z"),
                (None, "http://o"),
            ]
            .map(|(vault, url)| (vault, url.to_owned())),
        );
        let text = "a b=http://127.0.0.1:1, c/d=https://x/y=z,http://o";
        assert_eq!(upstream(text).map_err(|error: ConfigError| error.to_string()), Ok(expected));
        let list = "upstream = ['a b=http://127.0.0.1:1', 'c/d=https://x/y=z', 'http://o']";
        assert_eq!(with_file(list).unwrap().config.upstream, upstream(text).unwrap());
        for (text, why) in [
            ("a=http://x,a=http://y", "names the vault `a` twice"),
            ("http://x,http://y", "has two values for the vaults that it does not name"),
            ("a=", "has an empty value"),
            (
                "=http://x",
                "names a vault that is not a name of 1 to 256 printable ASCII characters",
            ),
            ("a=ftp://x", "is not an address such as https://notes.example.org"),
        ] {
            assert_eq!(
                upstream(text).unwrap_err().to_string(),
                format!("--upstream: `{text}` {why}")
            );
        }
        let files = [("upstream_token_file", "a=/x/a=b,/x=y")];
        let files = with_flags(&files).unwrap().config.upstream_token_file;
        assert_eq!(files.get("a"), Some(&PathBuf::from("/x/a=b")));
        assert_eq!(files.other(), Some(&PathBuf::from("/x=y")));
    }

    #[test]
    fn config_output_is_a_valid_settings_file() {
        let resolved = with_flags(&[
            ("public_url", "https://a.example/"),
            ("allowed_hosts", "x,y"),
            ("behind_proxy", "10.0.0.0/8,::1"),
            ("upstream", "garden=http://127.0.0.1:1,http://127.0.0.1:2"),
            ("upstream_audience", "https://a.example"),
            ("tls_key", "/k.pem"),
            ("log", "debug"),
        ]);
        let ResolvedSettings { config, settings } = resolved.unwrap();
        let in_file = settings.iter().filter(|setting| setting.declaration.form != Form::FlagOnly);
        let lines = in_file.filter_map(|setting| {
            let value = setting.toml.as_ref()?;
            Some(format!("{} = {value}\n", setting.declaration.key))
        });
        let text: String = lines.collect();
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
            ("behind_proxy", "10.0.0.1,proxy"),
            ("behind_proxy", "10.0.0.0/33"),
            ("insecure_http", "maybe"),
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
            "lisen = '1'", "zzz = 1", "state = '/x'", "listen = ", "log = true",
            "log = 'warn'\nlog = 'info'",
        ] {
            errors += &format!("{}\n", with_file(text).unwrap_err());
        }
        errors += &format!("{}\n", resolve::<Config>(&|_| None, &|_| None).unwrap_err());
        insta::assert_snapshot!(errors);
    }
}
