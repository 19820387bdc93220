//! Which commands there are, with their flags and their help.
//!
//! The flags of settings come from their declarations.

mod records;

use clap::{Arg, ArgAction, Command};

use crate::config::{Given, SETTINGS, Setting};

/// What stdio takes besides the folders; the rest is about HTTP.
const STDIO_SETTINGS: &[&str] = &[
    "state",
    "config",
    "root",
    "max_file_bytes",
    "max_read_bytes",
    "read_budget_bytes",
    "tool_names",
    "lock_wait_seconds",
    "log",
];

/// How much tools show of records.
const RECORD_SETTINGS: &[&str] = &[
    "record_text_bytes",
    "record_preview_chars",
    "record_structure_bytes",
    "record_document_bytes",
    "strict_schemas",
];

/// What reading one note takes; its root is a flag, since the note is the argument.
const NOTE_SETTINGS: &[&str] = &["state", "config", "log"];

const STATE_SETTINGS: &[&str] = &["state", "config"];

/// What only the gateway takes.
const UPSTREAM_SETTINGS: &[&str] = &[
    "upstream",
    "upstream_audience",
    "upstream_credential",
    "upstream_token_file",
    "upstream_connect_seconds",
    "upstream_timeout_seconds",
    "upstream_max_bytes",
];

/// What only `stile mcp` takes.
const PROVIDER_SETTINGS: &[&str] = &["provider", "token_file", "provider_timeout_seconds"];

/// What else it takes; it keeps nothing, and so has no state folder.
const MCP_SETTINGS: &[&str] = &["config", "ca_file", "log"];

/// What the gateway does not take: it has no files, and trusts no other gateway.
const SPACE_SETTINGS: &[&str] = &[
    "root",
    "read_budget_bytes",
    "max_file_bytes",
    "max_read_bytes",
    "lock_wait_seconds",
    "trust_gateway",
];

const SOURCES: &str = "\
Every setting can also be given as an environment variable (STILE_LISTEN for --listen) or in stile.toml \
(listen = \"127.0.0.1:9999\"). A flag goes before a variable, a variable before the file. \
`stile config` shows what is in force, and from where.";

/// The whole command line.
pub(super) fn command() -> Command {
    Command::new("stile")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Lets AI agents into a folder of yours, one bounded and authorized step at a time.")
        .after_help(
            "\
Examples:
  stile serve                       serve ~/stile over HTTP, and say how to connect a client
  stile serve notes                 serve the folder notes
  stile stdio notes                 what an MCP client starts by itself
  stile gateway --upstream URL      tell what is in notes that another server has
  stile mcp --provider URL --token-file FILE
                                    read records that another server has
  stile note outline inbox/one.md   print the headings of a note
  stile token --scope read:/        print a token that may read everything
  stile token list                  show all tokens
  stile import messages.jsonl --connection mail --stream messages
                                    store records
  stile grant create --client cursor --stream messages --since 2026-01-01
                                    let a client see some of them
  stile config                      show all settings

Exit codes:
  0  done
  1  failed at run time
  2  wrong usage or configuration",
        )
        .subcommand_required(true)
        .max_term_width(100)
        .disable_help_subcommand(true)
        .subcommand(serve())
        .subcommand(stdio())
        .subcommand(gateway())
        .subcommand(mcp())
        .subcommand(note())
        .subcommand(token())
        .subcommands(records::commands())
        .subcommand(config())
}

fn serve() -> Command {
    Command::new("serve")
        .about("Serves a folder to agents over HTTP, until it is interrupted.")
        .args(all_but(&[UPSTREAM_SETTINGS, PROVIDER_SETTINGS]))
        .after_help(format!(
            "\
Without ROOT it serves ~/stile, and makes that folder on first use. Once it accepts connections it prints one \
line on standard error. Where standard output is a terminal, it also prints a token and a block to paste into \
an MCP client.

{SOURCES}

Examples:
  stile serve
  stile serve ~/notes --listen 127.0.0.1:8080
  stile serve ~/notes --public-url https://notes.example.org --allowed-hosts notes.example.org"
        ))
}

fn stdio() -> Command {
    Command::new("stdio")
        .about("Serves a folder to the one MCP client that starts this command, over standard input and output.")
        .args(settings(&[STDIO_SETTINGS, RECORD_SETTINGS]))
        .arg(scope("Let the client do only this, for example read:/notes/. May be repeated. [default: write:/]"))
        .arg(grant("The grant that decides which records the client may see. [default: all records, as their owner]"))
        .after_help(format!(
            "\
The client acts as you, with the scopes given here. No token is needed. It ends when standard input ends.

{SOURCES}

Example, as most clients are configured:
  {{\"mcpServers\": {{\"stile\": {{\"command\": \"stile\", \"args\": [\"stdio\", \"/home/ann/notes\"]}}}}}}"
        ))
}

fn gateway() -> Command {
    Command::new("gateway")
        .about("Tells agents over HTTP what is in notes that another server has, and never what they say.")
        .args(all_but(&[SPACE_SETTINGS, RECORD_SETTINGS, PROVIDER_SETTINGS]))
        .after_help(format!(
            "\
It offers the four note tools and nothing else, reads one note per call from the upstream, and keeps nothing. \
Tokens are those of an identity provider (--jwks, --issuer and --audience), or of the `stile serve` whose state \
folder --state names. docs/gateway.md shows a whole deployment.

{SOURCES}

Examples:
  stile gateway --upstream http://127.0.0.1:9999 --listen 127.0.0.1:9998
  stile gateway --upstream https://notes.example.org --jwks https://id.example.org/keys \\
      --issuer https://id.example.org --audience https://gateway.example.org/mcp"
        ))
}

fn mcp() -> Command {
    Command::new("mcp")
        .about("Lets the one MCP client that starts this command read records that a server elsewhere has.")
        .args(settings(&[PROVIDER_SETTINGS]))
        .args(settings(&[MCP_SETTINGS, RECORD_SETTINGS]))
        .after_help(format!(
            "\
It offers the tools about records and nothing else, over standard input and output, for any server that answers at \
/v1 as `stile serve` does. What the client may see is what the token allows there. It asks nothing before the \
client does, and writes no file. docs/mcp-provider.md says what it asks, and of which servers.

{SOURCES}

Example, as most clients are configured:
  {{\"mcpServers\": {{\"records\": {{\"command\": \"stile\", \"args\": [\"mcp\",
    \"--provider\", \"https://records.example.org\", \"--token-file\", \"/home/ann/.records-token\"]}}}}}}"
        ))
}

fn note() -> Command {
    let read = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .arg(
                Arg::new("path")
                    .value_name("PATH")
                    .required(true)
                    .allow_hyphen_values(true)
                    .help("Which note, from the root of the space, as in inbox/one.md."),
            )
            .arg(
                Arg::new("root")
                    .long("root")
                    .value_name("DIR")
                    .help("The folder that holds the notes. [default: ~/stile]"),
            )
            .args(settings(&[NOTE_SETTINGS]))
    };
    Command::new("note")
        .about("Shows what is in a Markdown note without its body, as the tools for agents tell it.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(read("outline", "Prints a note's headings (get_note_outline)."))
        .subcommand(read("tree", "Prints how a note's headings nest (get_document_tree)."))
        .subcommand(read("facets", "Prints what a note's front matter says (get_metadata_facets)."))
        .subcommand(read("sections", "Prints a note's sections (get_section_source)."))
        .after_help(
            "\
Prints one line of JSON. Where there is none to print, standard error has an object with `error` and `code`, \
and the exit code is not 0. Only the one note is read and nothing is written but a line in the journal.

Examples:
  stile note outline inbox/one.md
  stile note sections projects/garden.md --root ~/notes",
        )
}

fn token() -> Command {
    Command::new("token")
        .about("Mints a token for an agent, and prints it and nothing else.")
        .args(settings(&[STATE_SETTINGS]).map(|arg| arg.global(true)))
        .arg(scope(
            "What the token allows with files. May be repeated; needed unless it is for records.",
        ))
        .arg(
            Arg::new("expires")
                .long("expires")
                .value_name("DURATION")
                .default_value("30d")
                .help("How long it lives, as in 45s, 90m, 12h or 30d; at most 366d."),
        )
        .arg(
            Arg::new("user")
                .long("user")
                .value_name("NAME")
                .help("Who the agent acts for. [default: your user name on this machine]"),
        )
        .arg(Arg::new("client").long("client").value_name("NAME").help(
            "The program that it is for, so that tool names are spelled as that one accepts them.",
        ))
        .arg(grant("Which records the token may see: those of this grant.").conflicts_with("owner"))
        .arg(Arg::new("owner").long("owner").action(ArgAction::SetTrue).help(
            "Make it the owner's: it may see, take in and delete all records, and make grants.",
        ))
        .args_conflicts_with_subcommands(true)
        .subcommand(
            Command::new("list")
                .about("Shows all tokens: who they are for, what they allow, until when.")
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON.")),
        )
        .subcommand(
            Command::new("revoke")
                .about("Ends a token. Running servers refuse it from the next request on.")
                .arg(
                    Arg::new("jti")
                        .value_name("JTI")
                        .required(true)
                        .help("Its identifier, as in `stile token list`."),
                ),
        )
        .after_help(
            "\
A scope is a verb, a colon and a path from the root of the space, as you would type it:
  read:/              read everything
  read:/work/         read the folder /work and everything below it
  read:/work/*        read the files directly in /work
  write:/notes/a.md   read and change that one file

Whoever has the token can do what it allows, so treat it as a password.

Examples:
  stile token --scope read:/
  stile token --scope read:/ --scope \"write:/my notes/\" --expires 7d
  stile token --grant 0c6e3a9e-6a0b-4c2e-9a55-3d8f4f1b2a01
  stile token --scope write:/ --client cursor --state /var/lib/stile",
        )
}

fn config() -> Command {
    Command::new("config")
        .about("Shows every setting, its value in force, and where it comes from.")
        .args(SETTINGS.iter().map(setting))
        .after_help(format!("{SOURCES}\n\nThe output is itself a valid stile.toml."))
}

fn settings(lists: &[&[&str]]) -> impl Iterator<Item = Arg> {
    SETTINGS.iter().filter(|setting| is_in(lists, setting)).map(setting)
}

/// All settings but those of these lists.
fn all_but(lists: &[&[&str]]) -> impl Iterator<Item = Arg> {
    SETTINGS.iter().filter(|setting| !is_in(lists, setting)).map(setting)
}

fn is_in(lists: &[&[&str]], setting: &Setting) -> bool {
    lists.iter().any(|names| names.contains(&setting.name))
}

fn setting(setting: &Setting) -> Arg {
    let default =
        setting.default_shown().map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let arg = Arg::new(setting.name).value_name(setting.value).help(setting.help() + &default);
    let arg = match setting.value {
        // The flag alone says yes.
        "yes|no" => arg.num_args(0..=1).require_equals(true).default_missing_value("yes"),
        _ => arg,
    };
    match setting.given {
        Given::Positional => arg,
        Given::Flag | Given::NotInFile => arg.long(setting.flag()),
    }
}

fn grant(help: &'static str) -> Arg {
    Arg::new("grant").long("grant").value_name("ID").help(help)
}

fn scope(help: &'static str) -> Arg {
    Arg::new("scope").long("scope").value_name("SCOPE").action(ArgAction::Append).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn settings_named_here_are_declared() {
        let lists = [
            STDIO_SETTINGS,
            RECORD_SETTINGS,
            NOTE_SETTINGS,
            STATE_SETTINGS,
            UPSTREAM_SETTINGS,
            SPACE_SETTINGS,
            PROVIDER_SETTINGS,
            MCP_SETTINGS,
        ];
        for name in lists.into_iter().flatten() {
            assert!(SETTINGS.iter().any(|setting| setting.name == *name), "{name}");
        }
    }
}
