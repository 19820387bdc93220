//! The command line: what a person, a script or an MCP client starts.
//!
//! Each subcommand is a file. `arguments` declares them for clap. The other files hold what several
//! subcommands share. Standard output carries only what was asked for (a token, a list, the
//! protocol); everything else goes to standard error.

mod activity;
mod arguments;
mod audit;
mod backup;
mod beginning;
mod client;
mod client_entry;
mod clients;
mod colours;
mod config;
mod connect;
mod connections;
mod database;
mod declare;
mod doctor;
mod duration;
mod export;
mod extract_text;
mod first_steps;
mod found_server;
mod gateway;
mod generated;
mod grant;
mod history;
mod home;
mod http_server;
mod identity_provider;
mod import;
mod import_reading;
mod import_report;
mod import_sync;
mod interrupted;
mod local_time;
mod mcp;
mod migrate_store;
mod note;
mod notify;
mod open;
mod open_people;
mod owner;
mod owner_account;
mod person;
mod person_folder;
mod process;
mod progress;
mod records;
mod rejected;
mod removal;
mod search;
mod secret_input;
mod serve;
mod service;
mod service_files;
mod settings_files;
mod sign_in;
mod space;
mod stdio;
mod streams;
mod table;
mod token;
mod typed_path;
mod undo;
mod update;
mod welcome;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use stile_domain::unseen::shown_lines;
use stile_import::attachment_text::child;
use stile_store::state::StateError;

use self::colours::Colours;
use crate::config::{
    Config, ConfigError, Environment, Resolved, SettingsList as _, is_exposed, resolve,
};

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The arguments do not parse, or help or the version was asked for.
    Arguments(clap::Error),
    /// The usage or a setting is wrong; the message says what to change.
    Usage(String),
    /// The command failed at run time.
    Failed(String),
    /// The command failed; `text` is printed unchanged.
    Verbatim { text: String, code: u8 },
    /// Whoever read the output has seen enough, as `head` has after some lines.
    ReaderLeft,
}

impl Failure {
    /// Returns the text for standard error and the exit code. The code is 0 for help and the
    /// version, whose text goes to standard output.
    fn report(&self) -> (String, u8) {
        match self {
            Self::Arguments(error) => (error.to_string(), if error.use_stderr() { 2 } else { 0 }),
            Self::Usage(message) => (format!("error: {}\n", shown_lines(message)), 2),
            Self::Failed(message) => (format!("error: {}\n", shown_lines(message)), 1),
            Self::Verbatim { text, code } => (format!("{text}\n"), *code),
            Self::ReaderLeft => (String::new(), 0),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Overlap { .. } => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderLeft,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Runs the program with the arguments and the environment of the process.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Runs the program with the environment of the process, and with arguments of which the first is
/// the name of the program.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    process::hide_panic_messages();
    let environment = |name: &str| std::env::var(name).ok();
    let mut output = io::stdout();
    let ran = run(arguments, &environment, &mut output).and_then(|()| Ok(output.flush()?));
    match ran.map_err(|failure| failure.report()) {
        Ok(()) => ExitCode::SUCCESS,
        Err((text, 0)) => {
            let written = output.write_all(text.as_bytes());
            let reader_left =
                written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            ExitCode::from(u8::from(written.is_err() && !reader_left))
        }
        Err((text, code)) => {
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(code)
        }
    }
}

/// What a command was started with.
struct Invocation<'a> {
    matches: &'a ArgMatches,
    environment: Environment<'a>,
    /// Standard output; a buffer in tests.
    output: &'a mut dyn Write,
    /// Whether the output is coloured.
    colours: Colours,
}

fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // People have no use for this command, so it is not among those that help lists.
    if arguments.get(1).is_some_and(|name| name == child::COMMAND) {
        return extract_text::run(arguments.get(2));
    }
    if arguments.len() <= 1 {
        let (installation, _) = update::Installation::of_this_program();
        return Ok(first_steps::write_first_steps(installation, output)?);
    }
    let arguments = first_steps::as_flags(arguments);
    let command = arguments::command_for(Config::DECLARATIONS, &arguments);
    let is_short = first_steps::wants_short_help(&arguments);
    let command = if is_short { first_steps::shortened(command) } else { command };
    // Snapshots must not depend on the terminal that the tests run in.
    let command = if cfg!(test) { command.term_width(100) } else { command };
    let matches = command.try_get_matches_from(arguments).map_err(Failure::Arguments)?;
    local_time::choose(&matches);
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let settings = || settings(matches, environment);
    let run: fn(Invocation<'_>) -> Result<(), Failure> = match name {
        "serve" => return serve::run(&settings()?, environment),
        "stdio" => return stdio::run(&settings()?, matches, environment),
        "gateway" => return gateway::run(&settings()?),
        "mcp" => return mcp::run(&settings()?, environment),
        "config" => config::run,
        "note" => note::run,
        "token" => token::run,
        "connect" => connect::connect,
        "disconnect" => connect::disconnect,
        "doctor" => doctor::run,
        "service" => service::run,
        "completions" => generated::completions,
        "man" => generated::man,
        "owner" => owner_account::run,
        "import" => import::run,
        "connections" => connections::run,
        "streams" => streams::run,
        "records" => records::run,
        "declare" => declare::run,
        "export" => export::run,
        "backup" => backup::run,
        "restore-backup" => backup::restore,
        "migrate-store" => migrate_store::run,
        "grant" => grant::run,
        "audit" => audit::run,
        "activity" => activity::run,
        "sign-in" => sign_in::run,
        "client" => client::run,
        "search" => search::run,
        "history" => history::list,
        "show" => history::show,
        "diff" => history::diff,
        "restore" => history::restore,
        "undo" => undo::run,
        "space" => space::run,
        "person" => person::run,
        "database" => database::run,
        "update" => update::run,
        // Clap refuses every other command.
        _ => return Ok(()),
    };
    // What tests compare must not depend on the terminal that they run in.
    let colours = if cfg!(test) { Colours::Plain } else { Colours::of_output(environment) };
    run(Invocation { matches, environment, output, colours })
}

fn settings(matches: &ArgMatches, environment: Environment<'_>) -> Result<Resolved, Failure> {
    Ok(resolve(&|key| setting_argument(matches, key), environment)?)
}

/// Returns what the command line gave for a setting, with commas between the values of a repeated
/// flag; `None` if it gave nothing, or if the command does not take the setting.
fn setting_argument(matches: &ArgMatches, key: &str) -> Option<String> {
    let values: Vec<&str> =
        matches.try_get_many::<String>(key).ok()??.map(String::as_str).collect();
    Some(values.join(","))
}

/// Returns the value of a setting that a command cannot do without. `meaning` says what the value
/// of `flag` is.
fn required<'c, T>(value: &'c Option<T>, flag: &str, meaning: &str) -> Result<&'c T, Failure> {
    value.as_ref().ok_or_else(|| Failure::Usage(format!("{flag} is missing: {meaning}")))
}

/// Warns if requests to `url`, the value of `flag`, cross a network as plain text.
fn warn_if_exposed(url: &str, flag: &str, content: &str) -> io::Result<()> {
    if !is_exposed(url) {
        return Ok(());
    }
    writeln!(io::stderr(), "warning: {content} pass to and from {flag} as plain text; use https")
}

/// Returns the name of the user who started the program.
///
/// The name comes from the session's environment. Under a timer or a service, which has none, the
/// name comes from the system's records.
fn user_name(environment: Environment<'_>) -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter();
    let from_session = names.filter_map(environment).find(|name| !name.is_empty());
    from_session.or_else(stile_store::state::system_user_name).unwrap_or_else(|| "local".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Runs a command as a person with a home folder would, and returns its standard output, its
    /// standard error and its exit code.
    fn stile(line: &str) -> (String, String, u8) {
        let environment = |name: &str| match name {
            "HOME" => Some("/home/ann".to_owned()),
            "USER" => Some("ann".to_owned()),
            _ => None,
        };
        let mut output = Vec::new();
        let arguments =
            std::iter::once("stile").chain(line.split(' ').filter(|word| !word.is_empty()));
        let ran = run(arguments.map(OsString::from), &environment, &mut output);
        let (error, code) = ran.map_or_else(|failure| failure.report(), |()| (String::new(), 0));
        (String::from_utf8(output).unwrap(), error, code)
    }

    fn help(command: &str) -> String {
        let (output, help, code) = stile(&format!("{command} --help"));
        assert_eq!((output.as_str(), code), ("", 0));
        help
    }

    /// Help names the default state folder, which differs on other systems.
    #[cfg(not(any(target_os = "macos", windows)))]
    #[test]
    fn every_command_has_help() {
        insta::assert_snapshot!("help", help(""));
        let commands = "serve, stdio, gateway, mcp, note, note outline, search, token, token list, update, \
             token revoke, connect, disconnect, doctor, service, service install, service logs, \
             completions, import, connections, streams, records, records show, \
             records remove, records removed, records restore, records purge, declare, export, \
             backup, restore-backup, migrate-store, grant, grant create, grant list, grant show, grant revoke, \
             audit, audit verify, activity, history, show, diff, restore, undo, space, space adopt, sign-in, client, \
             client list, client show, client add, client end, owner, owner password, \
             owner passkeys, owner sessions, owner sign-out, owner remove-passkey, person, \
             person list, person show, person add, person export, person remove, database, \
             database restored, config";
        for command in commands.split(", ") {
            insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), help(command));
        }
    }

    #[test]
    fn config_prints_every_setting_and_its_source() {
        insta::assert_snapshot!(
            stile("config --listen 127.0.0.1:8080 --state /nonexistent/state /srv/notes").0
        );
    }

    #[test]
    fn config_is_json_too() {
        let listed = stile("config --listen 127.0.0.1:8080 --state /nonexistent/state --json").0;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let find = |key: &str| {
            listed.as_array().unwrap().iter().find(|row| row["setting"] == key).unwrap().clone()
        };
        let expected = |setting: &str, value, source: &str| json!({ "setting": setting, "value": value, "source": source });
        let listen = expected("listen", json!("127.0.0.1:8080"), "command line");
        assert_eq!(find("listen"), listen);
        assert_eq!(find("history_days"), expected("history_days", json!(30), "default"));
        assert_eq!(find("public_url"), expected("public_url", json!(null), "default"));
        let unseen = stile("config --state /nonexistent/\u{202e}state --json").0;
        assert!(unseen.contains(r"/nonexistent/\u202estate"), "{unseen}");
    }

    #[test]
    fn wrong_usage_says_what_to_do_and_exits_with_2() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().to_str().unwrap();
        std::fs::write(state.path().join("empty"), " \n").unwrap();
        std::fs::write(state.path().join("two-lines"), "one\ntwo\n").unwrap();
        let mut transcript = String::new();
        for line in [
            "sreve",
            "serve --lisen 1",
            "serve --listen here",
            "serve a b",
            "serve --listen 0.0.0.0:1 --state <state>/none",
            "serve --listen [::]:1 --state <state>/none",
            "serve --listen 192.0.2.1:1 --state <state>/none",
            "serve --tls-certificate <state>/empty --state <state>/none",
            "serve --tls-key <state>/empty --state <state>/none",
            "serve --tls-certificate <state>/none --tls-key <state>/none --state <state>/none",
            "serve --tls-certificate <state>/empty --tls-key <state>/empty --state <state>/none",
            "serve --behind-proxy proxy --state <state>/none",
            "serve --state <state> <state>/space",
            "stdio --scope notes --state <state>",
            "stdio --listen 127.0.0.1:1",
            "token --state <state>",
            "token --state <state> --scope notes",
            "token --state <state> --scope read:/../x",
            "token --state <state> --scope read:/ --expires 30",
            "token --state <state> --scope read:/ --expires 400d",
            "token --state <state> --scope read:/ --expires 0s",
            "token --state <state> --scope read:/ --user ",
            "token --state <state> --owner --grant g",
            "token --state <state> --grant a.b",
            "stdio --state <state> --grant ../g",
            "token --scope read:/ list",
            "token --state <state> list",
            "token revoke",
            "config --max-file-bytes big",
            "gateway --state <state>/none",
            "gateway --state <state>/none --upstream http://127.0.0.1:1",
            "gateway --state <state>/none --upstream ftp://127.0.0.1",
            "gateway --state <state>/none --upstream http://u:p@127.0.0.1:1",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 \
             --jwks http://id.example.org/keys",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 \
             --jwks https://id.example.org/keys",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --issuer i",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --upstream-credential mine",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --upstream-credential own",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --metrics-listen 0.0.0.0:1",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 \
             --gateway-secret-file <state>/none",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --trust-gateway g",
            "gateway --state <state>/none --upstream http://127.0.0.1:1 --listen 0.0.0.0:1",
            "serve <state>/space --state <state>/state --jwks http://127.0.0.1:1/keys",
            "serve --upstream http://127.0.0.1:1",
            "serve --provider http://127.0.0.1:1",
            "mcp",
            "mcp --provider http://127.0.0.1:1",
            "mcp --token-file <state>/empty",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/none",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/empty",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/two-lines",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/two-lines \
             --ca-file <state>/empty",
            "mcp --provider ftp://127.0.0.1 --token-file <state>/empty",
            "mcp --provider http://u:p@127.0.0.1:1 --token-file <state>/empty",
            "mcp --provider http://127.0.0.1:1/?token=x --token-file <state>/empty",
            "mcp --provider http://127.0.0.1:1/#x --token-file <state>/empty",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/empty \
             --provider-timeout-seconds 0",
            "mcp --provider http://127.0.0.1:1 --token-file <state>/empty --strict-schemas maybe",
            "mcp --provider http://127.0.0.1:1 --token t",
            "import --state <state>",
            "import a.jsonl --state <state>",
            "import a.jsonl --format csv --stream s --state <state>",
            "import a.txt --connection c --stream s --state <state>",
            "import a.jsonl --connection c --stream a/b --state <state>",
            "import a.jsonl --connection c --stream s --format xml --state <state>",
            "import a --connection c --format stile --state <state>",
            "records --state <state>",
            "records show s --state <state>",
            "records show s k --state <state>",
            "declare --connection c --stream s --state <state>",
            "declare --connection c --stream s --show --infer --state <state>",
            "declare --connection c --stream s --show --state <state>",
            "export --state <state>",
            "export --to <state> --state <state>",
            "export --to <state>/none --stream s --state <state>",
            "backup --state <state>",
            "grant --state <state>",
            "grant create --client c --state <state>",
            "grant create --client c --stream s --from f --state <state>",
            "grant create --client c --stream s --expires soon --state <state>",
            "grant create --client c --stream s --state <state>",
            "grant show --state <state>",
            "audit --since yesterday --state <state>",
            "audit --path ../x --state <state>",
            "activity --since 1 --state <state>",
            "show a.md --state <state>",
            "undo --state <state>",
            "undo --client c --state <state>",
            "undo 3 --client c --since 1h --state <state>",
            "serve --history some",
        ] {
            let (output, error, code) = stile(&line.replace("<state>", path));
            assert_eq!((output.as_str(), code), ("", 2), "{line}: {error}");
            transcript += &format!("$ stile {line}\n{}\n", error.replace(path, "<state>"));
        }
        insta::assert_snapshot!(transcript);
    }

    #[test]
    fn a_token_is_minted_listed_and_revoked() {
        let state = tempfile::tempdir().unwrap();
        let at = format!("--state {}", state.path().display());
        let (token, error, code) =
            stile(&format!("token {at} --scope read:/ --scope write:/notes/* --client editor"));
        assert_eq!((error.as_str(), code), ("", 0));
        assert_eq!(token.trim_end().split('.').count(), 3);
        assert_eq!(token.lines().count(), 1, "a token and nothing else");

        let (listed, ..) = stile(&format!("token list {at} --json"));
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let row = &listed[0];
        assert_eq!(row["user"], "ann");
        assert_eq!(row["client"], "editor");
        assert_eq!(row["scopes"], "read:/ write:/notes/*");
        assert_eq!(row["state"], "live");
        let jti = row["jti"].as_str().unwrap();

        let (output, _, code) = stile(&format!("token revoke {jti} {at}"));
        assert_eq!(
            (output, code),
            (
                format!(
                    "{jti} is revoked: it allowed editor read:/ write:/notes/*; every server \
                     refuses it from the next request on\n"
                ),
                0
            )
        );
        let (again, _, code) = stile(&format!("token revoke {jti} {at}"));
        assert!(again.contains("was revoked before") && code == 0, "{again}");
        let (table, ..) = stile(&format!("token list {at}"));
        assert!(table.lines().nth(1).unwrap().contains("revoked"), "{table}");

        let (_, error, code) = stile(&format!("token revoke nobody {at}"));
        assert_eq!(
            (error.as_str(), code),
            ("error: there is no token `nobody`; `stile token list` shows all of them\n", 1)
        );
    }

    #[test]
    fn a_token_for_records_needs_no_scope() {
        let state = tempfile::tempdir().unwrap();
        let at = format!("--state {}", state.path().display());
        let (_, error, code) = stile(&format!("token {at} --grant g-1"));
        assert_eq!(
            (error.as_str(), code),
            ("error: there is no grant `g-1`; `stile grant list` shows all of them\n", 1)
        );
        let file = state.path().join("a.csv");
        std::fs::write(&file, "id,day\n1,2026-01-01\n").unwrap();
        stile(&format!("import {at} {} --connection c --stream s", file.display()));
        let (grant, error, code) = stile(&format!("grant create {at} --client eve --stream s"));
        assert_eq!((grant.lines().count(), error.as_str(), code), (1, "", 0));
        let grant = grant.trim_end();
        let flag = format!("--grant {grant}");
        let cases =
            [("bob", "--owner", json!(null), true), ("eve", flag.as_str(), json!(grant), false)];
        for (user, flags, grant, is_owner) in cases {
            let (token, error, code) = stile(&format!("token {at} {flags} --user {user}"));
            assert_eq!((token.lines().count(), error.as_str(), code), (1, "", 0));
            let (listed, ..) = stile(&format!("token list {at} --json"));
            let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
            let row = listed.as_array().unwrap().iter().find(|row| row["user"] == user).unwrap();
            assert_eq!(
                (&row["grant"], &row["owner"], &row["scopes"]),
                (&grant, &json!(is_owner), &json!(""))
            );
        }
    }

    #[test]
    fn a_damaged_key_file_exits_with_1() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join("key.json"), "{}").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(state.path().join("key.json"), mode).unwrap();
        }
        let (output, error, code) =
            stile(&format!("token --scope read:/ --state {}", state.path().display()));
        assert!(output.is_empty() && code == 1 && error.contains("is damaged"), "{error}");
    }
}
