//! The commands about the journal: arguments and help.

use clap::Command;

use super::{Settings, flag, json, one, setting_arguments, utc};
use crate::config::CommandGroup;

pub(super) fn commands(settings: Settings<'_>) -> [Command; 2] {
    [audit(settings), activity(settings)]
}

/// `stile audit`, with the settings that say where the journal is.
fn audit(settings: Settings<'_>) -> Command {
    let verify = Command::new("verify")
        .about("Checks that nobody altered, removed, moved or cut off lines of the journal.")
        .arg(json())
        .after_help(
            "\
Each line carries a hash over itself and the line before it, and a database beside the files keeps \
how far each file had come, bound to a key. Prints the first fault of each file. The exit code is 1 \
if there is one. A change of the last second before a kill does not show, and neither does one by \
somebody who has the key.",
        );
    let remove = Command::new("remove")
        .about("Removes the lines of a user for good. Each leaves its number and its hash.")
        .arg(one("user", "NAME", "The user whose calls the lines are about.").required(true))
        .arg(flag("yes", "Remove the lines. Without it, their number is shown."))
        .after_help(
            "\
`stile audit verify` goes on to verify the journal, and counts the removed lines. Lines that \
servers share in a database stay.",
        );
    let arguments = setting_arguments(settings, CommandGroup::Records);
    Command::new("audit")
        .about("Tells in sentences what agents did, from the journal.")
        .args(arguments.map(|argument| argument.global(true)))
        .arg(
            one(
                "client",
                "NAME",
                "Only calls of this client, or of this user where a token names no client.",
            )
            .allow_hyphen_values(true),
        )
        .arg(one("path", "PATH", "Only calls about this file or folder and what is below."))
        .arg(one("tool", "NAME", "Only calls of this tool, as in text.edit."))
        .arg(since())
        .arg(flag("refused", "Only calls that were refused or failed."))
        .arg(flag(
            "follow",
            "Go on with new lines as they are written, until interrupted. Without --since, begin \
             with the next one.",
        ))
        .arg(json().help("Print the lines of the journal as they are, one JSON object each."))
        .arg(utc())
        .args_conflicts_with_subcommands(true)
        .subcommand(verify)
        .subcommand(remove)
        .after_help(
            "\
A change ends with the number of its call, which `stile undo` takes. The journal \
has no content of files or records.

Examples:
  stile audit --since 1d
  stile audit --follow
  stile audit --client cursor --path /work --since 2026-01-01
  stile audit verify",
        )
}

/// `stile activity`, with the settings that say where the journal is.
fn activity(settings: Settings<'_>) -> Command {
    Command::new("activity")
        .about("Draws how much each client did on each day.")
        .args(setting_arguments(settings, CommandGroup::Records))
        .arg(since().default_value("30d"))
        .args([json(), utc()])
        .after_help(
            "\
A full block stands for changes, a light one for reads, a cross for calls that were refused. Days \
are those of this machine's zone; with --json they are in UTC.

Examples:
  stile activity
  stile activity --since 7d --json",
        )
}

fn since() -> clap::Arg {
    one(
        "since",
        "TIME",
        "Only calls from this time on: a date such as 2026-01-31, a time such as \
         2026-01-31T08:00, or how long ago, as in 90m, 12h or 7d.",
    )
}
