//! The commands, with their arguments and their help.
//!
//! The arguments that are settings come from the declarations of these settings.

mod connect;
mod history;
mod journal;
mod owner;
mod people;
mod records;
mod upkeep;

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use crate::config::declarations::{PERSON, ROOT};
use crate::config::{CommandGroup, Declaration, Form};

type Settings<'a> = &'a [&'static Declaration];

const SOURCES: &str = "\
Every setting can also be given as an environment variable (STILE_LISTEN for --listen) or in \
stile.toml (listen = \"127.0.0.1:9999\"). A flag overrides a variable, and a variable overrides the \
file. `stile config` shows the values in force and where they come from.";

/// Returns the command line for these arguments. A client that starts `stile stdio` waits for it,
/// so that subcommand is declared without the others, which no message about it names.
pub(crate) fn command_for(settings: Settings<'_>, arguments: &[OsString]) -> Command {
    match arguments.get(1) {
        Some(name) if name == "stdio" => program().subcommand(stdio(settings)),
        _ => command(settings),
    }
}

fn program() -> Command {
    Command::new("stile")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Lets AI agents into a folder of yours, one authorized step at a time.")
        .after_help(
            "\
Examples:
  stile serve                       serve ~/stile over HTTP, and say how to connect a client
  stile serve notes                 serve the folder notes
  stile stdio notes                 what an MCP client starts by itself
  stile gateway --upstream URL      serve the structure of notes that another server has
  stile mcp --provider URL --token-file FILE
                                    read records that another server has
  stile note outline inbox/one.md   print the headings of a note
  stile search leaking roof         find files by what they say
  stile token --scope read:/        print a token that may read everything
  stile token list                  show all tokens
  stile connect cursor --write      add this server to Cursor, with a token of its own
  stile update                      say how this installation is updated
  stile doctor                      find out why a client does not connect
  stile service install ~/notes     keep the server running
  stile history --since 12h         show what agents changed
  stile undo --client cursor --since 12h
                                    show what it takes to undo that, and do it with --yes
  stile import messages.jsonl --connection mail --stream messages
                                    store records
  stile grant create --client cursor --stream messages --since 2026-01-01
                                    let a client see some of them
  stile audit --since 1d            tell what agents did since yesterday
  stile doctor --public URL         try whether clients reach a server
  stile config                      show all settings

Exit codes:
  0  done
  1  failed at run time
  2  wrong usage or configuration
  3  an import rejected some rows and stored the others, or a sync could not read some notes",
        )
        .subcommand_required(true)
        .max_term_width(100)
        .disable_help_subcommand(true)
}

pub(crate) fn command(settings: Settings<'_>) -> Command {
    program()
        .subcommand(serve(settings))
        .subcommand(stdio(settings))
        .subcommand(gateway(settings))
        .subcommand(mcp(settings))
        .subcommand(note(settings))
        .subcommand(search(settings))
        .subcommand(token(settings))
        .subcommand(sign_in(settings))
        .subcommand(client(settings))
        .subcommands(connect::commands(settings))
        .subcommands(upkeep::commands(settings))
        .subcommand(owner::command(settings))
        .subcommands(people::commands(settings))
        .subcommands(history::commands(settings))
        .subcommands(records::commands(settings))
        .subcommands(journal::commands(settings))
        .subcommand(config(settings))
}

fn serve(settings: Settings<'_>) -> Command {
    Command::new("serve")
        .about("Serves a folder to agents over HTTP, until it is interrupted.")
        .args(setting_arguments(settings, CommandGroup::Serve))
        .after_help(format!(
            "\
Without ROOT it serves ~/stile, and makes that folder on first use. Once it accepts connections it \
prints one line on standard error. If standard output is a terminal, it also prints a token and a \
block to paste into an MCP client.

{SOURCES}

Examples:
  stile serve
  stile serve ~/notes --listen 127.0.0.1:8080
  stile serve ~/notes --public-url https://notes.example.org --allowed-hosts notes.example.org"
        ))
}

fn stdio(settings: Settings<'_>) -> Command {
    Command::new("stdio")
        .about(
            "Serves a folder to the one MCP client that starts this command, over standard input \
             and output.",
        )
        .args(setting_arguments(settings, CommandGroup::Stdio))
        .arg(scope(
            "Let the client do only this, for example read:/notes/. May be repeated. \
             [default: write:/]",
        ))
        .arg(deny())
        .arg(unguard())
        .arg(
            grant("The grant that decides which records the client may see. [default: no records]")
                .conflicts_with("owner"),
        )
        .arg(flag("owner", "Let the client see and change all records, as their owner."))
        .arg(one(
            "client",
            "NAME",
            "The name of the client in the history, the journal and the lists. `stile connect` \
             writes it. [default: the name that the client gives itself, marked as such]",
        ))
        .after_help(format!(
            "\
The client acts for you, under its own name and with the scopes given here. No token is needed. \
`stile client list` shows what it may do, and `stile client end` ends that. The command ends when \
standard input ends.

{SOURCES}

Example, as most clients are configured:
  {{\"mcpServers\": {{\"stile\": {{\"command\": \"stile\", \
\"args\": [\"stdio\", \"/home/ann/notes\",
    \"--client\", \"cursor\"]}}}}}}"
        ))
}

fn gateway(settings: Settings<'_>) -> Command {
    Command::new("gateway")
        .about(
            "Serves the structure of notes that another server has, never their text, to agents \
             over HTTP.",
        )
        .args(setting_arguments(settings, CommandGroup::Gateway))
        .after_help(format!(
            "\
It offers the four note tools and nothing else, reads one note per call from the upstream, and \
keeps nothing. The vault of the caller's token chooses the upstream. It accepts tokens of an identity provider (--jwks, --issuer and --audience), or of \
the `stile serve` whose state folder --state names. docs/gateway.md shows a whole deployment.

{SOURCES}

Examples:
  stile gateway --upstream http://127.0.0.1:9999 --listen 127.0.0.1:9998
  stile gateway --upstream garden=http://127.0.0.1:9999 --upstream work=http://127.0.0.1:9997 \\
      --listen 127.0.0.1:9998
  stile gateway --upstream https://notes.example.org --jwks https://id.example.org/keys \\
      --issuer https://id.example.org --audience https://gateway.example.org/mcp"
        ))
}

fn mcp(settings: Settings<'_>) -> Command {
    // Help begins with the settings that no other command has.
    let (own, shared): (Vec<_>, Vec<_>) = settings_of(settings, CommandGroup::Mcp)
        .partition(|setting| setting.commands == [CommandGroup::Mcp]);
    Command::new("mcp")
        .about(
            "Serves records that another server has to the one MCP client that starts this command.",
        )
        .args(own.into_iter().map(setting_argument))
        .args(shared.into_iter().map(setting_argument))
        .after_help(format!(
            "\
It offers the tools about records and nothing else, over standard input and output, for any server \
that answers at /v1 as `stile serve` does. The token decides there what the client may see. No \
request is sent before the client calls a tool, and no file is written. docs/mcp-provider.md \
describes the requests and the servers.

{SOURCES}

Example, as most clients are configured:
  {{\"mcpServers\": {{\"records\": {{\"command\": \"stile\", \"args\": [\"mcp\",
    \"--provider\", \"https://records.example.org\", \
\"--token-file\", \"/home/ann/.records-token\"]}}}}}}"
        ))
}

fn search(settings: Settings<'_>) -> Command {
    Command::new("search")
        .about("Finds files by what they say, the best first.")
        .arg(
            positional("question", "QUESTION", "Words that you remember, or a question.")
                .num_args(1..)
                .allow_hyphen_values(true),
        )
        // Here the root is a flag, because the question is the argument.
        .arg(one(
            ROOT.declaration.key,
            "DIR",
            "The folder with the files. [default: the only folder that was served, or ~/stile]",
        ))
        .arg(one("in", "PATH", "Only files in this folder of the space."))
        .arg(one("since", "TIME", "Only files that changed since: a date, a time, or an age as in 7d."))
        .arg(one("limit", "COUNT", "How many files to show, 1 to 50. [default: 10]"))
        .args([json(), utc()])
        .args(setting_arguments(settings, CommandGroup::Note))
        .after_help(
            "\
Any of the words counts, in any order and form. \"two words\" in quotation marks must stand so, and \
-word must not occur. Flags stand before the question.

Examples:
  stile search leaking roof
  stile search --root ~/notes --since 30d 'invoice \"blue door\" -draft'",
        )
}

fn note(settings: Settings<'_>) -> Command {
    let read = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .arg(
                positional(
                    "path",
                    "PATH",
                    "The note: its path from where you are or from the root of the space, as in \
                     inbox/one.md.",
                )
                .allow_hyphen_values(true),
            )
            // Here the root is a flag, because the note is the argument.
            .arg(one(
                ROOT.declaration.key,
                "DIR",
                "The folder that holds the notes. [default: the only folder that was served, or \
                 ~/stile]",
            ))
            .args(setting_arguments(settings, CommandGroup::Note))
    };
    Command::new("note")
        .about(
            "Prints the structure of a Markdown note, without its body, as the tools for agents \
             return it.",
        )
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(read("outline", "Prints a note's headings (get_note_outline)."))
        .subcommand(read("tree", "Prints how a note's headings nest (get_document_tree)."))
        .subcommand(read("facets", "Prints what a note's front matter says (get_metadata_facets)."))
        .subcommand(read("sections", "Prints a note's sections (get_section_source)."))
        .after_help(
            "\
Prints one line of JSON. On failure it prints a sentence to a terminal, or else an object with \
`error` and `code` to standard error, and the exit code is not 0. It reads only this note, and writes only a line in the journal.

Examples:
  stile note outline inbox/one.md
  stile note sections projects/garden.md --root ~/notes",
        )
}

fn token(settings: Settings<'_>) -> Command {
    Command::new("token")
        .about("Mints a token for an agent, and prints it and nothing else.")
        .args(setting_arguments(settings, CommandGroup::Token).map(|arg| arg.global(true)))
        .arg(scope(
            "What the token allows with files. May be repeated; required unless the token is for \
             records.",
        ))
        .arg(deny())
        .arg(unguard())
        .arg(one(
            ROOT.declaration.key,
            "DIR",
            "The folder that the token is for. Needed if several folders were served with this \
             state. [default: the folder that was, or will be, served first]",
        ))
        .arg(
            one(
                "expires",
                "DURATION",
                "How long the token is valid, as in 45s, 90m, 12h or 30d; at most 366d.",
            )
            .default_value("30d"),
        )
        .arg(one(
            "user",
            "NAME",
            "Who the agent acts for. [default: your user name on this machine]",
        ))
        .arg(one(
            "client",
            "NAME",
            "The program that gets the token, so that tool names are spelled as that program \
             accepts them.",
        ))
        .arg(grant("Let the token see the records of this grant.").conflicts_with("owner"))
        .arg(flag(
            "owner",
            "Mint an owner's token. It may read, import and delete all records, declare \
                    streams, and make and revoke grants and their tokens.",
        ))
        .args_conflicts_with_subcommands(true)
        .subcommand(
            Command::new("list")
                .about("Shows the tokens: who they are for, what they allow, until when.")
                .arg(flag(
                    "all",
                    "Show every token: more than the latest 100 that ended, and those that clients \
                     renewed.",
                ))
                .args([json(), utc()])
                .after_help("With --json every token is shown."),
        )
        .subcommand(
            Command::new("revoke")
                .about("Revokes a token. Running servers refuse it from the next request on.")
                .arg(positional(
                    "jti",
                    "JTI",
                    "The token's identifier as in `stile token list`, or its beginning.",
                )),
        )
        .after_help(
            "\
A scope is a verb, a colon and a path from the root of the space, as you would type it:
  read:/              read everything
  read:/work/         read the folder /work and everything below it
  read:/work/*        read the files directly in /work
  write:/notes/a.md   read and change that one file
  append:/logs/       add lines to the files in /logs, and neither read nor change them

--deny takes a path away from all scopes, as in --scope read:/ --deny /secrets.

Whoever has the token can do what it allows, so treat it as a password.

Examples:
  stile token --scope read:/
  stile token --scope read:/ --scope \"write:/my notes/\" --expires 7d
  stile token --grant grt_4f0c9a1be2d84d7c8a3b6c5d7e8f9012
  stile token --scope write:/ --client cursor --state /var/lib/stile",
        )
}

fn sign_in(settings: Settings<'_>) -> Command {
    Command::new("sign-in")
        .visible_alias("page")
        .about("Opens your pages: prints a link for one use.")
        .args(setting_arguments(settings, CommandGroup::Token))
        .arg(one(
            "address",
            "URL",
            "The address of the server in your browser, as in https://notes.example.org. \
             [default: the address of the server that runs]",
        ))
        .arg(one(
            ROOT.declaration.key,
            "DIR",
            "The folder of the server. Needed if several servers run with this state.",
        ))
        .after_help(
            "\
Open the link in the browser in which an application asks for access, or paste the code, which is \
printed apart, into the page. At a terminal on a screen your browser opens the page, without the \
code, since others on the machine can see how a program was started. The link goes to standard output, all else to standard error. It \
works once and for ten minutes. Whoever has it can decide in your name, so give it to nobody.

Examples:
  stile page
  stile sign-in --root ~/notes
  stile sign-in --address http://localhost:9999",
        )
}

fn client(settings: Settings<'_>) -> Command {
    Command::new("client")
        .about("Shows, adds and ends the clients that you let in.")
        .args(setting_arguments(settings, CommandGroup::Token).map(|arg| arg.global(true)))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("list")
                .about("Shows all clients: what each may do, and when it was last at work.")
                .args([json(), utc()]),
        )
        .subcommand(
            Command::new("show")
                .about("Shows a client, with everything that you allowed it, as JSON.")
                .arg(
                    positional(
                        "id",
                        "ID",
                        "The client as in `stile client list`, by its name or the beginning of its \
                         identifier.",
                    )
                    .allow_hyphen_values(true),
                ),
        )
        .subcommand(
            Command::new("add")
                .about("Adds a client that cannot register itself, and prints its client_id.")
                .arg(one("name", "NAME", "The name that the consent page shows.").required(true))
                .arg(
                    many(
                        "redirect",
                        "URI",
                        "Where answers may go, as in https://app.example.org/callback. May be \
                         repeated.",
                    )
                    .required(true),
                ),
        )
        .subcommand(
            Command::new("end")
                .about("Ends a client: its approvals, tokens and sessions. Its registration stays.")
                .arg(
                    positional(
                        "id",
                        "ID",
                        "The client by its name or identifier, or one approval as `client show` has \
                         it, or the beginning of either.",
                    )
                    .required(false)
                    // One identifier in 64 begins with a hyphen.
                    .allow_hyphen_values(true)
                    .required_unless_present("all"),
                )
                .arg(flag("all", "End every client.").conflicts_with("id")),
        )
        .subcommand(
            Command::new("allow")
                .about("Lets a client in again that starts `stile stdio` and that you ended.")
                .arg(
                    positional(
                        "id",
                        "ID",
                        "The client by its name or identifier, or the beginning of either.",
                    )
                    .allow_hyphen_values(true),
                ),
        )
        .after_help(
            "\
A client is known from the moment it registers, and may do nothing before you allow it in a \
browser. After you restored the state from a backup, end all clients: what you ended since the \
backup was made is valid again.

Examples:
  stile client list
  stile client end 0c6e3a9e-6a0b-4c2e-9a55-3d8f4f1b2a01
  stile client end cursor
  stile client add --name Editor --redirect http://127.0.0.1/callback",
        )
}

fn config(settings: Settings<'_>) -> Command {
    Command::new("config")
        .about("Shows every setting, its value in force, and where it comes from.")
        .args(settings.iter().copied().map(setting_argument))
        .arg(json())
        .after_help(format!("{SOURCES}\n\nThe output is itself a valid stile.toml."))
}

fn settings_of(
    settings: Settings<'_>,
    command: CommandGroup,
) -> impl Iterator<Item = &'static Declaration> {
    settings.iter().copied().filter(move |setting| setting.commands.contains(&command))
}

fn setting_arguments(settings: Settings<'_>, command: CommandGroup) -> impl Iterator<Item = Arg> {
    settings_of(settings, command).map(setting_argument)
}

/// Returns the same for a command that is about no single person.
fn settings_of_nobody(settings: Settings<'_>, command: CommandGroup) -> impl Iterator<Item = Arg> {
    setting_arguments(settings, command)
        .filter(|argument| argument.get_id() != PERSON.declaration.key)
}

fn setting_argument(setting: &'static Declaration) -> Arg {
    let argument =
        Arg::new(setting.key).value_name(setting.value_name).help(setting.help_with_default());
    match setting.form {
        Form::Positional => argument,
        Form::Flag | Form::FlagOnly => argument.long(setting.flag()),
        Form::Repeated => argument.long(setting.flag()).action(ArgAction::Append),
        Form::Switch => argument
            .long(setting.flag())
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("yes"),
    }
}

fn grant(help: &'static str) -> Arg {
    one("grant", "ID", help)
}

fn scope(help: &'static str) -> Arg {
    many("scope", "SCOPE", help)
}

fn unguard() -> Arg {
    many(
        "unguard",
        "PATH",
        "Allow what the scopes say on guarded names too, on this path and below. May be repeated.",
    )
}

fn deny() -> Arg {
    many(
        "deny",
        "PATH",
        "Allow nothing on this path and below, whatever the scopes say. May be repeated.",
    )
}

/// Returns a flag with a value. Its name has dashes for the underscores of `name`.
fn one(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name.replace('_', "-")).value_name(value).help(help)
}

/// Returns a flag that may be repeated.
fn many(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    one(name, value, help).action(ArgAction::Append)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name.replace('_', "-")).action(ArgAction::SetTrue).help(help)
}

/// The flag of commands that show times to a person.
fn utc() -> Arg {
    flag("utc", "Show times in UTC. [default: in the zone of this machine]")
}

fn positional(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

fn json() -> Arg {
    flag("json", "Print JSON.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, SettingsList as _};

    #[test]
    fn the_command_line_is_consistent() {
        command(Config::DECLARATIONS).debug_assert();
    }

    #[test]
    fn the_identifier_of_a_client_may_begin_with_a_hyphen() {
        for (subcommand, id) in [("show", "-Vx_1"), ("end", "-Vx_1"), ("end", "--x")] {
            let words = ["stile", "client", subcommand, id, "--state", "/s"];
            let matches = command(Config::DECLARATIONS).try_get_matches_from(words).unwrap();
            let (_, matches) = matches.subcommand().unwrap().1.subcommand().unwrap();
            assert_eq!(matches.get_one::<String>("id").unwrap(), id);
        }
        let all = command(Config::DECLARATIONS)
            .try_get_matches_from(["stile", "client", "end", "--all"])
            .unwrap();
        let (_, all) = all.subcommand().unwrap().1.subcommand().unwrap();
        assert!(all.get_flag("all") && !all.contains_id("id"));
    }

    /// Collects the commands without subcommands, and whether each takes `--person`.
    fn leaves(command: &Command, above: &str, takes: bool, found: &mut Vec<(String, bool)>) {
        let name = format!("{above} {}", command.get_name()).trim().to_owned();
        let person = |argument: &Arg| argument.get_id() == PERSON.declaration.key;
        let takes = takes || command.get_arguments().any(person);
        if command.get_subcommands().next().is_none() || command.get_name() == "token" {
            found.push((name.clone(), takes));
        }
        let below = |command: &Command| leaves(command, &name, takes, found);
        command.get_subcommands().for_each(below);
    }

    #[test]
    fn every_command_takes_a_person_or_is_about_none() {
        // What serves, what is about this machine or the whole state, what the one owner of a space
        // has, and what names the person as an argument. `client add` and `token revoke` name what
        // belongs to nobody, or to exactly one person.
        const ABOUT_NOBODY: &[&str] = &[
            "serve", "stdio", "gateway", "mcp", "connect", "disconnect", "owner password",
            "owner passkeys", "owner sessions", "owner sign-out", "owner remove-passkey", "doctor",
            "service install", "service uninstall", "service status", "service logs", "update",
            "cache clear", "completions", "man", "person list", "person show", "person add",
            "person export", "person remove", "database prepare", "database restored", "backup",
            "restore-backup",
        ];
        // These have the flag in another meaning, as the identifier, or as a setting to show.
        const OTHERWISE: &[&str] = &["migrate-store", "config"];
        let mut found = Vec::new();
        let all = command(Config::DECLARATIONS);
        all.get_subcommands().for_each(|command| leaves(command, "", false, &mut found));
        for (name, takes) in found {
            let is_about_nobody = ABOUT_NOBODY.contains(&name.as_str());
            assert!(OTHERWISE.contains(&name.as_str()) || takes != is_about_nobody, "{name}");
        }
    }

    /// Collects the commands that show something and have no `--json`.
    fn without_json(command: &Command, found: &mut Vec<String>) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let shows = ["Shows", "Lists", "Tells", "Draws", "Checks"].iter();
        let has_json = about.contains("JSON")
            || command.get_arguments().any(|argument| argument.get_id() == "json");
        if shows.into_iter().any(|verb| about.starts_with(verb)) && !has_json {
            found.push(command.get_name().to_owned());
        }
        command.get_subcommands().for_each(|command| without_json(command, found));
    }

    #[test]
    fn every_listing_has_json() {
        let mut found = Vec::new();
        without_json(&command(Config::DECLARATIONS), &mut found);
        // Three show nothing themselves, a declaration is JSON as it is, a
        // difference is a text, and two print what the service manager says.
        assert_eq!(found, ["client", "status", "logs", "person", "diff", "records", "declare"]);
    }

    #[test]
    fn the_start_of_stdio_says_of_its_arguments_what_the_whole_command_line_says() {
        for words in [&["--help"][..], &["--nonsense"], &["/s", "/t"], &["--client"], &["/s"]] {
            let words: Vec<OsString> =
                ["stile", "stdio"].iter().chain(words).map(OsString::from).collect();
            let all = command(Config::DECLARATIONS).term_width(100);
            let alone = command_for(Config::DECLARATIONS, &words).term_width(100);
            assert_eq!(alone.get_subcommands().count(), 1);
            let said = |command: Command| match command.try_get_matches_from(&words) {
                Ok(matches) => format!("{:?}", matches.subcommand_name()),
                Err(error) => error.to_string(),
            };
            assert_eq!(said(alone), said(all));
        }
    }
}
