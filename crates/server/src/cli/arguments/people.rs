//! The commands of the operator of several people: arguments and help.

use clap::{Arg, Command};

use super::{Settings, flag, json, one, positional, setting_argument, settings_of_nobody};
use crate::config::CommandGroup;
use crate::config::declarations::SPACES;

/// Returns the commands, in the order of help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 2] {
    [person(settings), database(settings)]
}

/// The settings of these commands, which name the person as an argument.
fn own_settings(settings: Settings<'_>) -> impl Iterator<Item = Arg> {
    settings_of_nobody(settings, CommandGroup::Token).map(|argument| argument.global(true))
}

fn person(settings: Settings<'_>) -> Command {
    let name = || {
        positional(
            "name",
            "NAME",
            "The subject of the person's tokens, or the identifier that the list shows.",
        )
    };
    Command::new("person")
        .about("Shows, adds, exports and removes people who each have a space and records.")
        .args(own_settings(settings))
        .arg(setting_argument(&SPACES.declaration).global(true))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("list")
                .about("Shows all people: when each was made and last used, and how much they have.")
                .arg(json()),
        )
        .subcommand(
            Command::new("show")
                .about("Shows one person as JSON, with the room that each table takes.")
                .arg(name()),
        )
        .subcommand(
            Command::new("add")
                .about("Makes a person who has not called yet, and prints the identifier.")
                .arg(positional("name", "NAME", "The subject of the person's tokens.")),
        )
        .subcommand(
            Command::new("export")
                .about("Writes everything of a person into a new folder.")
                .arg(name())
                .arg(one("to", "DIR", "The folder, which is new or empty.").required(true)),
        )
        .subcommand(
            Command::new("remove")
                .about("Removes a person with all records, files and tokens.")
                .arg(name())
                .arg(flag("yes", "Do it. Without this flag the command only shows what it would do.")),
        )
        .after_help(
            "\
People are those whom servers with `--spaces` give a space of their own. A name is known only while \
a token, an approval or a session names the person: the database has a hash of it.

Examples:
  stile person list --spaces /srv/people
  stile person export ann --spaces /srv/people --to /backup/ann
  stile person remove ann --spaces /srv/people --yes",
        )
}

fn database(settings: Settings<'_>) -> Command {
    Command::new("database")
        .about("Prepares the database that servers share, or says what happened to it.")
        .args(own_settings(settings))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("prepare")
                .about(
                    "Makes the tables, and lets the role of the servers read and write their rows.",
                )
                .arg(
                    one("servers_role", "ROLE", "The role that servers connect as.").required(true),
                ),
        )
        .subcommand(Command::new("restored").about(
            "Says that the database was restored from a backup, so that no client goes on from a \
             moment that it has never seen.",
        ))
        .after_help(
            "\
`prepare` connects as the role that owns the database. Run it before the first server starts, and \
before those of a new version do. `restored` is for once after a restore, before servers use the \
database. It changes no record.

Examples:
  stile database prepare --servers-role stile --database postgres://stile_owner@db.example/stile
  stile database restored --database postgres://stile@db.example/stile",
        )
}
