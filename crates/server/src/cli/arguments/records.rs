//! The commands about records: arguments and help.

use clap::{Arg, ArgGroup, Command};

use super::{Settings, flag, json, many, one, positional, setting_arguments};
use crate::config::TakenBy;

/// The formats whose rows do not say themselves where they belong.
const NAMED: [(&str, &str); 7] = [
    ("format", "jsonl"),
    ("format", "json"),
    ("format", "csv"),
    ("format", "markdown"),
    ("format", "mbox"),
    ("format", "chatgpt"),
    ("format", "slack"),
];

/// Returns the commands about records, in the order of the help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 8] {
    let commands =
        [import(), connections(), streams(), records(), declare(), export(), backup(), grant()];
    commands.map(|command| match command.has_subcommands() {
        true => command.mut_subcommands(|command| with_settings(command, settings)),
        false => with_settings(command, settings),
    })
}

fn with_settings(command: Command, settings: Settings<'_>) -> Command {
    command.args(setting_arguments(settings, TakenBy::Records))
}

fn import() -> Command {
    Command::new("import")
        .about("Stores the rows of files as records of a stream.")
        .arg(Arg::new("file").value_name("FILE").required(true).num_args(1..).help(
            "JSON Lines, a JSON array, CSV, a folder of Markdown, a mailbox (mbox), a ChatGPT or Slack export, \
                     or what `stile export` wrote.",
        ))
        .arg(
            one("connection", "NAME", "Where the rows come from, for example gmail-work.")
                .required_if_eq_any(NAMED)
                .required_unless_present("format"),
        )
        .arg(one(
            "stream",
            "NAME",
            "What they are. [default: messages, for a mailbox and exports of ChatGPT and Slack]",
        ))
        .arg(many(
            "key",
            "FIELD",
            "A field that the key is made of. [default: as declared, or the one that looks like it]",
        ))
        .arg(
            one("format", "FORMAT", "What the files are. [default: by their names and what is in them]")
                .value_parser(["jsonl", "json", "csv", "markdown", "mbox", "chatgpt", "slack", "stile"]),
        )
        .arg(flag("strict", "Store all rows or, where one is bad, nothing."))
        .after_help(
            "\
A stream that is new is declared from what is in the first file: its key, the field that orders it, what can be \
searched and filtered. Standard error says what was chosen and why; `stile declare` changes it, and nothing else \
does. Running the same import again changes nothing.

Exports of ChatGPT and Slack are taken as they come, as a zip file or as the folder that was in it; files that \
messages name are stored with them, where the export has them.

Bad rows are passed over and told on standard error by line and reason. Rows are stored in batches, each whole or \
not at all.

Examples:
  stile import messages.jsonl --connection gmail-work --stream messages
  stile import 2025.csv 2026.csv --connection bank --stream transactions
  stile import people.json --connection crm --stream people --key email
  stile import ~/journal --connection notes --stream journal
  stile import mail.mbox --connection gmail-work
  stile import chatgpt-export.zip --connection chatgpt
  stile import backup/ --format stile",
        )
}

fn connections() -> Command {
    Command::new("connections")
        .about("Shows the connections, with their streams and how many records they have.")
        .arg(json())
        .after_help("Example:\n  stile connections --json")
}

fn streams() -> Command {
    Command::new("streams")
        .about("Shows the streams: their records, fields, order and times.")
        .arg(json())
        .after_help(
            "`stile declare --show` prints the whole declaration of a stream.\n\nExample:\n  \
             stile streams",
        )
}

fn records() -> Command {
    Command::new("records")
        .about("Shows a record.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("show")
                .about("Prints one record as JSON.")
                .arg(positional("stream", "STREAM", "The stream of the record."))
                .arg(positional("key", "KEY", "The key of the record.").allow_hyphen_values(true))
                .arg(one("connection", "NAME", "The connection, if several have the stream."))
                .arg(one("preview_chars", "N", "Cut longer values after this many characters."))
                .after_help("Example:\n  stile records show messages m-17 --preview-chars 200"),
        )
}

fn declare() -> Command {
    Command::new("declare")
        .about(
            "Shows or changes the declaration of a stream: its fields, order, times and search.",
        )
        .arg(one("connection", "NAME", "The connection of the stream.").required(true))
        .arg(one("stream", "NAME", "The stream.").required(true))
        .arg(flag("show", "Print the declaration as JSON, to be edited."))
        .arg(one("from", "FILE", "Declare the stream as this file says."))
        .arg(flag("infer", "Infer the declaration from all records of the stream. The key stays."))
        .group(ArgGroup::new("what").args(["show", "from", "infer"]).required(true))
        .after_help(
            "\
The declaration decides what a grant can name, what can be filtered and searched, and how lists are \
ordered. A declared stream changes only here. A stream with records keeps its key. Grants that were \
made before stay as they are.

Examples:
  stile declare --connection bank --stream transactions --show > transactions.json
  stile declare --connection bank --stream transactions --from transactions.json
  stile declare --connection bank --stream transactions --infer",
        )
}

fn export() -> Command {
    Command::new("export")
        .about("Writes records to a folder, from which `stile import --format stile` restores them.")
        .arg(one("to", "DIR", "A folder that is new or empty.").required(true))
        .arg(one("connection", "NAME", "Of this connection only."))
        .arg(one("stream", "NAME", "Of this stream only."))
        .after_help(
            "\
records.jsonl has a line for each stream and each record; texts of more than 1 MiB are files of their own in \
texts/. Grants and tokens are not exported; `stile backup` copies everything about records.

Examples:
  stile export --to backup
  stile export --connection bank --to bank-records",
        )
}

fn backup() -> Command {
    Command::new("backup")
        .about(
            "Writes a consistent copy of all records and grants to a new file, also while servers \
             run.",
        )
        .arg(positional("file", "FILE", "The file to write. It must not exist yet."))
        .after_help(
            "\
To restore the copy, stop every server, remove records.db, records.db-wal and records.db-shm from \
the state folder, and copy FILE there as records.db.

Example:
  stile backup /mnt/backup/records-2026-07-01.db",
        )
}

fn grant() -> Command {
    Command::new("grant")
        .about("Makes, shows and revokes grants: what one client may see of the records.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(grant_create())
        .subcommand(Command::new("list").about("Shows all grants.").arg(json()))
        .subcommand(
            Command::new("show").about("Prints what a grant allows, as JSON.").arg(positional(
                "id",
                "ID",
                "The grant's identifier, as in `stile grant list`.",
            )),
        )
        .subcommand(
            Command::new("revoke")
                .about("Revokes a grant. Running servers refuse it from the next request on.")
                .arg(positional("id", "ID", "The grant's identifier, as in `stile grant list`.")),
        )
        .after_help(
            "\
Examples:
  stile grant create --client cursor --stream messages --field subject --since 2026-01-01
  stile token --grant ID
  stile grant revoke ID",
        )
}

fn grant_create() -> Command {
    Command::new("create")
        .about("Makes a grant, and prints its identifier and nothing else.")
        .arg(one("client", "NAME", "The client that gets the grant.").required(true))
        .arg(one("stream", "NAME", "The stream to grant."))
        .arg(many(
            "connection",
            "NAME",
            "A connection of the stream. May be repeated. [default: all that have the stream now]",
        ))
        .arg(many("field", "FIELD", 
            "A field to grant. May be repeated. [default: all that are declared now]",
        ))
        .arg(
            one("time_field", "FIELD", "The field that --since and --until compare. \
                 [default: as declared]"),
        )
        .arg(one("since", "TIME", "Grant only records from this date or time on."))
        .arg(one("until", "TIME", "Grant only records before this date or time."))
        .arg(many("record", "KEY", "Grant only the record with this key. May be repeated."))
        .arg(one("from", "FILE", "Grant the streams that this JSON file lists.").conflicts_with_all([
            "stream",
            "connection",
            "field",
            "time_field",
            "since",
            "until",
            "record",
        ]))
        .arg(one("purpose", "TEXT", "The purpose, in your words."))
        .arg(
            flag("single_use", "Accept only the first token that is used with the grant."),
        )
        .arg(one("expires", "DURATION", 
            "How long the grant is valid, as in 12h or 30d. [default: until it is revoked]",
        ))
        .group(ArgGroup::new("streams").args(["stream", "from"]).required(true))
        .after_help(
            "\
What is not named is not granted, even if it is declared or stored later. Fields that the stream \
requires are added, and standard error names them. `stile token --grant ID` mints a token for the \
grant.

A file for --from has a list of streams:
  [{\"name\": \"messages\", \"connection_ids\": [\"gmail-work\"], \"fields\": [\"subject\"],
    \"time_constraint\": {\"field\": \"sent_at\", \"since\": \"2026-01-01\"}}, {\"name\": \"people\"}]

Examples:
  stile grant create --client cursor --stream messages --field subject --field sent_at \\
      --since 2026-01-01
  stile grant create --client accountant --from streams.json --purpose \"tax return\" \\
      --expires 30d",
        )
}
