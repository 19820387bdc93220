//! The commands that keep the program running and in order: arguments and help.

use clap::{Arg, Command, value_parser};
use clap_complete::Shell;

use super::{
    Settings, flag, json, one, positional, setting_argument, setting_arguments, settings_of_nobody,
};
use crate::config::CommandGroup;
use crate::config::declarations::{CONFIG, ROOT, SPACES, STATE};

/// Returns the commands, in the order of help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 8] {
    [
        doctor(settings),
        service(),
        update(),
        space(settings),
        cache(settings),
        migrate_store(),
        completions(),
        man(),
    ]
}

fn cache(settings: Settings<'_>) -> Command {
    Command::new("cache")
        .about("Clears what servers remember of files.")
        .args(settings_of_nobody(settings, CommandGroup::Token).map(|arg| arg.global(true)))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("clear")
                .about("Makes running servers forget the words, texts and hashes of files.")
                .after_help(
                    "\
To answer faster, a server keeps words of files, texts of documents, links of notes and hashes in \
memory, within stated bounds. Nothing of that is on disk, and it is gone when the server ends. With \
this command each server that runs with the state folder forgets it before its next answer. Answers \
stay the same; the next searches read the files again.",
                ),
        )
}

fn space(settings: Settings<'_>) -> Command {
    Command::new("space")
        .about("Says which folder a space is.")
        .args(setting_arguments(settings, CommandGroup::Token).map(|arg| arg.global(true)))
        .arg(
            one(
                SPACES.declaration.key,
                "DIR",
                "With --person: the folder in which servers keep the spaces of people.",
            )
            .global(true),
        )
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("adopt")
                .about(
                    "Makes a folder that was moved or restored the space that it was before: its \
                     tokens, approvals and history go on.",
                )
                .arg(positional("folder", "DIR", "The folder as it is now.").required(false))
                .arg(one(
                    "from",
                    "SPACE",
                    "The space that the folder was: the path at which it was served, or the \
                     identifier that the command shows. [default: the only space whose folder is \
                     not there any more]",
                ))
                .arg(flag("yes", "Do it. Without this flag the command asks on a terminal."))
                .after_help(
                    "\
A folder from a backup or on another disk is another folder to the server, so that no folder gets \
the tokens of another one by chance. This command shows both folders, the tokens and approvals that \
will open the new one, and those that ended. Stop the servers of both folders first. The old folder \
is a space of its own afterwards, which the tokens do not open.

With --person and --spaces it is the folder of that person among those of all people. Run that as the \
user of the servers. A server that runs finds the folder with the next request.

Examples:
  stile space adopt ~/notes
  stile space adopt --person ann --spaces /srv/people
  stile space adopt /mnt/disk/notes --from /home/ann/notes --yes",
                ),
        )
}

fn doctor(settings: Settings<'_>) -> Command {
    Command::new("doctor")
        .about("Checks what a client needs, and names the step that fails.")
        .arg(one(
            ROOT.declaration.key,
            "DIR",
            "The folder that is served. [default: as for `stile serve`]",
        ))
        .arg(
            one("name", "NAME", "The name of the entry in the files of clients.")
                .default_value("stile"),
        )
        .arg(flag("deep", "Check every page of the database of records, which may take long."))
        .arg(one(
            "public",
            "URL",
            "Check instead whether clients reach a server at this address, which is given \
             without /mcp.",
        ))
        .arg(one(
            "ca_file",
            "FILE",
            "With --public: certificates of authorities to trust besides the system's, in PEM.",
        ))
        .arg(json())
        .arg(one(
            SPACES.declaration.key,
            "DIR",
            "The folder of people's spaces, to check that each person has the folder that was \
             served.",
        ))
        .args(setting_arguments(settings, CommandGroup::Connect))
        .after_help(
            "\
It checks the folder, the state, the disk, the clock, the key, the tokens, the journal and the port. \
If a server runs, it sends what a client sends first: discovery, a request without a token, \
authentication, the list of tools, one read. It does the same with the entry of each client that \
`stile connect` knows; an entry with a command is started and ended.

With --public it resolves the name, connects, and reads what a client reads before anybody has \
signed in. It sends no token and changes nothing. What this machine can reach, another may not: a \
firewall between the two is not seen from here.

The exit code is 0 if every check passed, and 1 if one failed.

Examples:
  stile doctor
  stile doctor --public https://notes.example.org
  stile doctor --root ~/notes --json",
        )
}

fn service() -> Command {
    Command::new("service")
        .about("Keeps `stile serve` running.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("install")
                .about("Makes a service of this user and starts it.")
                .arg(setting_argument(&ROOT.declaration))
                .arg(setting_argument(&STATE.declaration))
                .arg(setting_argument(&CONFIG.declaration))
                .arg(flag("no_start", "Only write the file."))
                .arg(flag("print", "Print the file and change nothing."))
                .arg(
                    one("for", "SYSTEM", "The system that the file is for. [default: this one]")
                        .value_parser(["linux", "macos", "windows"]),
                )
                .after_help(
                    "\
On Linux it is a unit of systemd for your user. The server says when it is ready, is started again \
when it fails or hangs, and can change nothing but the folder and the state. All other settings \
come from stile.toml in the state folder, since a service has no environment of yours.

The files for launchd and for Windows are written from documentation; nobody has tried them yet.

Examples:
  stile service install ~/notes
  stile service install ~/notes --print",
                ),
        )
        .subcommand(Command::new("uninstall").about("Stops the service and removes its file."))
        .subcommand(
            Command::new("status")
                .about("Shows which servers run with the state, and whether the service does.")
                .arg(setting_argument(&STATE.declaration))
                .arg(setting_argument(&CONFIG.declaration)),
        )
        .subcommand(
            Command::new("logs")
                .about("Shows what the service printed.")
                .arg(flag("follow", "Go on with what it prints from now on.")),
        )
}

fn migrate_store() -> Command {
    let place = |name, help| one(name, "STATE|ADDRESS", help).required(true);
    Command::new("migrate-store")
        .about("Copies all records, grants and tokens from SQLite to PostgreSQL, or back.")
        .arg(place(
            "from",
            "The state folder to copy from, or the address of a database on PostgreSQL. env:NAME \
             takes either from the environment.",
        ))
        .arg(place("to", "Where to copy to. It must have no records yet."))
        .arg(one(
            "user",
            "SUBJECT",
            "Copy only the records of this person, as their tokens name them, from or into a \
             database of several people.",
        ))
        .arg(
            one("issuer", "ISS", "The identity provider that issues the person's tokens.")
                .requires("user"),
        )
        .arg(
            one("person", "ID", "The same person by the name of their folder in `--spaces`.")
                .conflicts_with("user"),
        )
        .arg(json())
        .after_help(
            "\
Stop every server of both sides first, unless you copy one person (see below). The copy keeps the \
numbers of records and changes and the keys that seal cursors, so clients go on with the cursors \
that they have. The index of searches is made anew. At the end each side is read on its own, \
and the command prints a SHA-256 of each table that is the same on both.

A copy that was cut goes on where it stopped when you run the same command again. Until it is \
complete, no server opens the target. If the source was changed meanwhile, the command says so, \
and the next run copies what is new. The source stays as it is.

A database that serves people with a space each (`stile serve --spaces`) is copied one person at a \
time, with --user or --person: to a state folder, or into such a database, where the person may be \
new. Servers of such a database may go on and serve the other people. Until the copy is complete, \
servers of the target refuse to write the person's records. Stop what writes to them at the \
source. The person's records, attachments and grants are copied. Tokens and the keys that seal \
cursors belong to all people of the database and are not: the person's clients sign in again and \
read from the beginning. The files stay where they are.

Examples:
  STILE_TARGET=postgres://stile:…@db.example/stile \\
      stile migrate-store --from ~/.local/state/stile --to env:STILE_TARGET
  stile migrate-store --from postgres://stile@db.example/stile --to /var/lib/stile
  stile migrate-store --from env:STILE_SOURCE --user ann --to /var/lib/stile-of-ann",
        )
}

fn update() -> Command {
    Command::new("update").about("Says how this installation is updated, and downloads nothing.")
}

fn completions() -> Command {
    Command::new("completions")
        .about("Prints a script that completes commands and flags in a shell.")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(value_parser!(Shell))
                .help("The shell."),
        )
        .after_help(
            "\
Examples:
  stile completions bash > ~/.local/share/bash-completion/completions/stile
  stile completions fish > ~/.config/fish/completions/stile.fish",
        )
}

fn man() -> Command {
    Command::new("man")
        .hide(true)
        .about("Writes the manual pages into a folder.")
        .arg(positional("folder", "DIR", "The folder."))
}
