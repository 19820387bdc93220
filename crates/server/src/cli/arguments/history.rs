//! The commands about old versions of files: arguments and help.

use clap::{Arg, ArgGroup, Command};

use super::{Settings, flag, json, one, positional, setting_arguments, utc};
use crate::config::CommandGroup;
use crate::config::declarations::ROOT;

const PATH_HELP: &str = "The file, from where you are or from the root of the space, as in \
                         notes/plan.md, with @ and the number of a change for the version before \
                         that change, or @ and 8 or more digits of the hash of a version.";

/// Returns the commands about old versions, in the order of the help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 5] {
    [history(), show(), diff(), restore(), undo()].map(|command| {
        // Here the root is a flag, because the file is the argument.
        let root = one(
            ROOT.declaration.key,
            "DIR",
            "The folder with the files. [default: the only folder that was served, or ~/stile]",
        );
        command.arg(root).args(setting_arguments(settings, CommandGroup::History))
    })
}

fn optional(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    positional(name, value, help).required(false).allow_hyphen_values(true)
}

fn client(help: &'static str) -> Arg {
    one("client", "NAME", help)
}

fn since(help: &'static str) -> Arg {
    one("since", "TIME", help)
}

fn yes() -> Arg {
    flag("yes", "Do it. Without this flag the command only shows what it would do.")
}

fn history() -> Command {
    Command::new("history")
        .about("Shows what agents changed: when, who, and the old versions.")
        .arg(optional("path", "PATH", "Only changes of this file, or of files in this folder."))
        .arg(client("Only changes by tokens of this client."))
        .arg(since(
            "Only changes since then: a date such as 2026-01-31, a time such as \
             2026-01-31T08:00, or how long ago, as in 90m, 12h or 7d.",
        ))
        .arg(flag("all", "Show every change, and not only the latest 1,000."))
        .args([json(), utc()])
        .after_help(
            "\
The number of a change names the version before it: PATH@NUMBER. With --json every change is shown.

Examples:
  stile history notes/plan.md
  stile history --client cursor --since 12h --root ~/notes",
        )
}

fn show() -> Command {
    Command::new("show")
        .about("Prints an old version of a file.")
        .arg(positional("path", "PATH@VERSION", PATH_HELP).allow_hyphen_values(true))
        .after_help("Example:\n  stile show notes/plan.md@42 > plan-as-it-was.md")
}

fn diff() -> Command {
    Command::new("diff")
        .about("Shows what changed between two versions of a text file.")
        .arg(positional("path", "PATH[@VERSION]", PATH_HELP).allow_hyphen_values(true))
        .arg(optional(
            "other",
            "@VERSION",
            "The version to compare with. [default: the file as it is now]",
        ))
        .after_help(
            "\
Without a version it compares the version before the last change with the file as it is now.

Examples:
  stile diff notes/plan.md
  stile diff notes/plan.md@42 @57",
        )
}

fn restore() -> Command {
    Command::new("restore")
        .about("Gives a file an old version again, also if it was removed.")
        .arg(positional("path", "PATH[@VERSION]", PATH_HELP).allow_hyphen_values(true))
        .arg(yes())
        .after_help(
            "\
It first shows what it would do. Without a version the file becomes what it was before its last \
change. What the file holds now goes to the history, so the command can be taken back in the same \
way. It may run beside a server.

Examples:
  stile restore notes/plan.md
  stile restore notes/plan.md@42 --yes",
        )
}

fn undo() -> Command {
    Command::new("undo")
        .about("Takes back what one call, one client or everybody changed.")
        .arg(
            optional("call", "CALL", "The number of the call, as `stile audit` and `stile history` show it.")
                .conflicts_with_all(["client", "since", "until"]),
        )
        .arg(client("Take back what tokens of this client changed, as far as the history goes back."))
        .arg(since("Only changes since then, as in 2026-01-31T08:00, 90m, 12h or 7d."))
        .arg(one("until", "TIME", "Only changes before then."))
        .arg(one("path", "PATH", "Take back changes of this file or folder only."))
        .arg(yes())
        .arg(json().help("Print the plan as JSON.").conflicts_with("yes"))
        .arg(utc())
        .group(ArgGroup::new("what").args(["call", "client", "since"]).required(true).multiple(true))
        .after_help(
            "\
It first shows the plan. With `--client` alone it takes back all that the history keeps of the client, with `--since` alone what all clients changed since a time. A file that anybody changed since is left as it is. What is not \
taken back, that file too, is named, and the command ends with exit code 1 after the rest. Files that were moved go back, files that were created are removed; what they held stays in the history. An undo is a change \
like others, so `stile undo` takes it back too. After an interruption, run it again: it goes on.

Examples:
  stile undo 42
  stile undo --client cursor
  stile undo --client cursor --since 5h --yes
  stile undo --since 1h
  stile undo --since 2026-01-31 --until 2026-02-01",
        )
}
