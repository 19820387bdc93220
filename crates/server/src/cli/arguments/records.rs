//! The commands about records: arguments and help.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgGroup, Command};
use stile_import::collections::COLLECTIONS;
use stile_import::importer::Importer;
use stile_import::importers::IMPORTERS;

use super::{
    Settings, flag, json, many, one, positional, setting_arguments, settings_of_nobody, utc,
};
use crate::cli::flags::import_reading::{DATE_ORDERS, DECIMALS, EXPORT_FORMAT, HEADERS};
use crate::config::CommandGroup;

/// Returns the commands about records, in the order of the help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 9] {
    let commands = [
        import(IMPORTERS),
        connections(),
        streams(),
        records(),
        declare(),
        export(),
        backup(),
        restore_backup(),
        grant(),
    ];
    // A copy of the state is of all people.
    let is_of_all = |command: &Command| command.get_name().contains("backup");
    commands.map(|command| match command.has_subcommands() {
        true => command.mut_subcommands(|command| with_settings(command, settings)),
        false if is_of_all(&command) => {
            command.args(settings_of_nobody(settings, CommandGroup::Records))
        }
        false => with_settings(command, settings),
    })
}

fn with_settings(command: Command, settings: Settings<'_>) -> Command {
    command.args(setting_arguments(settings, CommandGroup::Records))
}

/// `stile import`, with the formats of these importers.
fn import(importers: &[&'static Importer]) -> Command {
    let descriptions = importers.iter().map(|importer| importer.description);
    let names = COLLECTIONS.iter().map(|collection| collection.name);
    let names = names.chain(importers.iter().map(|importer| importer.name));
    let whole = COLLECTIONS.iter().map(|collection| collection.description);
    let formats = whole.chain(descriptions).collect::<Vec<_>>().join(", ");
    let streams = default_streams(importers);
    Command::new("import")
        .about("Stores the rows of files as records of a stream.")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .help("Files or folders: an export of a service, a mailbox, a table, notes."),
        )
        .arg(
            one("connection", "NAME", "Where the rows come from, for example gmail-work.")
                .required_if_eq_any(names.clone().map(|name| ("format", name)))
                .required_unless_present("format"),
        )
        .arg(one(
            "stream",
            "NAME",
            "What the rows are, for example transactions. [default: as the format has it, see below]",
        ))
        .arg(many(
            "key",
            "FIELD",
            "A field that the key is made of. May be repeated. [default: the declared key, or the field that \
             looks like a key]",
        ))
        .arg(
            one("format", "FORMAT", "The format of the files. [default: recognised by their names and contents]")
                .value_parser(PossibleValuesParser::new(names.chain([EXPORT_FORMAT]))),
        )
        .args(reading_arguments())
        .arg(flag(
            "sync",
            "Also remove the records of notes that are not in the folder any more. For one folder of Markdown.",
        ))
        .arg(flag("watch", "Sync, and then follow each change of the folder until interrupted.").conflicts_with("sync"))
        .arg(flag("remove_all", "Let a sync remove every record that was stored before."))
        .arg(flag("json", "Print what a sync did as JSON, one line for each."))
        .group(ArgGroup::new("syncing").args(["sync", "watch"]))
        .mut_arg("remove_all", |argument| argument.requires("syncing"))
        .mut_arg("json", |argument| argument.requires("syncing"))
        .arg(
            flag("strict", "Store all rows, or nothing if one of them is bad.").conflicts_with("syncing"),
        )
        .arg(one(
            "rejected",
            "FILE",
            "Keep the rejected rows in this new file, one line of JSON for each: file, line, code, reason, and the \
             row itself if rows are lines.",
        ).conflicts_with("syncing"))
        .after_help(format!(
            "\
FILE is {formats}, or what `stile export` wrote.

Default streams: {streams}.

A new stream is declared from the rows of the first file: its key, the field that orders it, what can be searched \
and filtered. Standard error says what was chosen and why. Only `stile declare` changes the declaration. Running \
the same import again changes nothing.

Exports of ChatGPT and Slack are imported as you get them, as a zip file or as the folder in it. Files that messages \
refer to are stored with them if the export has them.

An export of Google Takeout or Notion has several kinds of data. Each gets a stream of its own (mail, events, \
contacts, …), and --stream names the only one to import. Name all zip files of one export together.

CSV is read as banks and spreadsheets write it: the delimiter, the encoding, the lines around the table, the decimal \
mark and the order of dates are found by looking at the whole file. Standard error says what was found, --preview \
shows it first, and the flags for CSV decide it. What you say is remembered for the stream.

Bad rows are skipped and reported on standard error with line and reason; the exit code is then 3. Rows are stored \
in batches, each whole or not at all.

--sync and --watch make the records those of a fresh import of the folder. A note that is there but cannot be read \
keeps its record. A sync that would remove every record that was stored before changes nothing without --remove-all: \
the folder may be the wrong one, or its disk may not be mounted.

Examples:
  stile import messages.jsonl --connection gmail-work --stream messages
  stile import 2025.csv 2026.csv --connection bank --stream transactions
  stile import people.json --connection crm --stream people --key email
  stile import ~/journal --connection notes --stream journal
  stile import ~/journal --connection notes --stream journal --watch
  stile import mail.mbox --connection gmail-work
  stile import ~/Maildir --connection mail
  stile import chatgpt-export.zip --connection chatgpt
  stile import takeout-*.zip --connection google
  stile import backup/ --format stile",
        ))
}

/// Returns the flags that say how files are read.
fn reading_arguments() -> [Arg; 9] {
    [
        flag(
            "preview",
            "Show how the files are read and the first rows as they would be stored. Store nothing.",
        )
        .conflicts_with_all(["sync", "watch", "rejected", "strict"]),
        flag("add_fields", "Add fields that the stream does not declare to its declaration."),
        one("decimal", "MARK", "The decimal mark of CSV. [default: found in its numbers]")
            .value_parser(PossibleValuesParser::new(DECIMALS)),
        one("dates", "ORDER", "The order of the dates of CSV and chats. [default: found in the dates]")
            .value_parser(PossibleValuesParser::new(DATE_ORDERS)),
        one("delimiter", "CHAR", "What separates the cells of CSV, or `tab`. [default: found]"),
        one("encoding", "NAME", "The encoding of CSV, such as windows-1252. [default: found]"),
        one("header", "YES", "Whether CSV begins with the names of its columns. [default: found]")
            .value_parser(PossibleValuesParser::new(HEADERS)),
        one(
            "rows",
            "PATH",
            "Where the rows of JSON are, such as messages or chats/list/*/messages. [default: found]",
        ),
        one("skip", "N", "How many lines are above the table of CSV. [default: found]"),
    ]
}

/// Lists the importers by their default streams: `messages, for mbox, chatgpt and slack`.
fn default_streams(importers: &[&Importer]) -> String {
    let mut by_stream: Vec<(&str, Vec<&str>)> = Vec::new();
    for importer in importers {
        let Some(stream) = importer.preset().map(|preset| preset.default_stream) else { continue };
        match by_stream.iter_mut().find(|(own, _)| *own == stream) {
            Some((_, names)) => names.push(importer.name),
            None => by_stream.push((stream, vec![importer.name])),
        }
    }
    let lines = by_stream
        .iter()
        .map(|(stream, names)| format!("{stream}, for {}", join_names(names, "and")));
    lines.collect::<Vec<_>>().join("; ")
}

/// Joins names as a sentence does: `a, b or c`.
fn join_names(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
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
        .about("Shows a record, removes records, and brings them back.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(removal())
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

/// Returns the commands about removed records.
fn removal() -> [Command; 4] {
    let id = || positional("id", "ID", "The removal, as in `stile records removed`.");
    [
        Command::new("remove")
            .about("Removes a connection, a stream or records. They can be restored for 30 days.")
            .arg(one("connection", "NAME", "The connection.").required(true))
            .arg(one("stream", "NAME", "The stream. [default: all streams of the connection]"))
            .arg(
                many("record", "KEY", "Remove only this record. May be repeated.")
                    .requires("stream"),
            )
            .arg(flag("purge", "Remove for good at once."))
            .arg(flag("yes", "Do it. Without this flag the command only shows what it would do."))
            .arg(json())
            .after_help(
                "\
Grants that name what is removed end, and stay ended. A stream that is made anew under the name is \
shown by no grant of the old one. Clients that keep a copy are told of the deletions.

Examples:
  stile records remove --connection bank --stream transactions
  stile records remove --connection bank --yes
  stile records remove --connection chat --stream messages --record m-001 --yes",
            ),
        Command::new("removed").about("Shows what can be restored.").args([json(), utc()]),
        Command::new("restore")
            .about("Brings removed records back. The grants that ended stay ended.")
            .arg(id())
            .arg(json())
            .after_help("Example:\n  stile records restore rm_0123456789ab"),
        Command::new("purge").about("Deletes removed records for good.").arg(id()),
    ]
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
        .arg(one("connection", "NAME", "Export only this connection."))
        .arg(one("stream", "NAME", "Export only this stream."))
        .after_help(
            "\
records.jsonl has a line for each stream and each record. Texts of more than 1 MiB are files of their own in texts/, \
and blobs are files in blobs/. Grants and tokens are not exported; `stile backup` copies records and grants.

Examples:
  stile export --to backup
  stile export --connection bank --to bank-records",
        )
}

fn backup() -> Command {
    Command::new("backup")
        .about(
            "Copies the whole state to a new archive, also while servers run: key, tokens, records, \
             attachments, journal.",
        )
        .arg(positional("file", "FILE", "The file to write. It must not exist yet."))
        .arg(flag("records_only", "Copy the database of records and grants alone, as a database."))
        .after_help(
            "\
The archive is a zip file with a checksum of each file. It holds the key, so whoever has it can make \
tokens. Your folder is not in it. `stile restore-backup` brings the state back.

To restore a copy of --records-only, stop every server, remove records.db, records.db-wal and \
records.db-shm from the state folder, and copy FILE there as records.db.

Example:
  stile backup /mnt/backup/stile-2026-07-01.zip",
        )
}

fn restore_backup() -> Command {
    Command::new("restore-backup")
        .about("Brings the state back from an archive of `stile backup`, and checks every file.")
        .arg(positional("file", "FILE", "The archive."))
        .arg(flag("replace", "Put a state folder that has files aside, under another name."))
        .after_help(
            "\
Everything is unpacked beside the state folder and checked first: size and SHA-256 of each file, \
every page of each database. Then the new folder gets the name of the state folder. If anything is \
wrong, nothing changes. A server that runs keeps to the state before until it is started again.

Example:
  stile restore-backup /mnt/backup/stile-2026-07-01.zip --replace",
        )
}

fn grant() -> Command {
    Command::new("grant")
        .about("Makes, shows and revokes grants: what a client sees of records.")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(grant_create())
        .subcommand(Command::new("list").about("Shows all grants.").args([json(), utc()]))
        .subcommand(Command::new("show").about("Prints what a grant allows, as JSON.").arg(
            positional(
                "id",
                "ID",
                "The grant's identifier as in `stile grant list`, or its beginning.",
            ),
        ))
        .subcommand(
            Command::new("revoke")
                .about("Revokes a grant. Running servers refuse it from the next request on.")
                .arg(positional(
                    "id",
                    "ID",
                    "The grant's identifier as in `stile grant list`, or its beginning.",
                )),
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
        .arg(
            one("client", "NAME", "The client that gets the grant. [default: the one that the \
                 file of --from names]").required_unless_present("from"),
        )
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
        .arg(one("from", "FILE", "Make the grant that this JSON file describes, or that a client \
                 requests in it, or grant the streams that it lists. `-` is standard input.").conflicts_with_all([
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
or a whole grant: an object with \"client\", \"streams\", \"access_mode\", \"expires_at\",
\"purpose_code\", \"purpose_description\", \"source\" and \"retention\".

Examples:
  stile grant create --client cursor --stream messages --field subject --field sent_at \\
      --since 2026-01-01
  stile grant create --client accountant --from streams.json --purpose \"tax return\" \\
      --expires 30d",
        )
}

#[cfg(test)]
mod tests {
    use stile_import::importer::{Contents, Recognition, StreamDeclaration};

    use super::*;
    use crate::cli::commands::import_with;

    static TOY: Importer = Importer {
        name: "toy",
        description: "a toy",
        recognition: Recognition {
            contents: |contents| matches!(contents, Contents::Beginning(b"!toy")),
            ..Recognition::NEVER
        },
        byte_count: |_| Ok(4),
        open: |_, _| Err(std::io::Error::other("it is a toy")),
        declaration: StreamDeclaration::Inferred,
    };

    #[test]
    fn the_command_line_knows_each_importer_of_the_list() {
        let importers: Vec<&'static Importer> = IMPORTERS.iter().copied().chain([&TOY]).collect();
        let help = import(&importers).term_width(100).render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in ["a Slack export, a toy, or what", "slack, toy,"] {
            assert!(help.contains(words), "{help}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let error = |file: &str, content: &str, more: &[&str]| {
            std::fs::write(path(file), content).unwrap();
            let (file, state) = (path(file), path("state"));
            let line = ["import", &file, "--connection", "c", "--stream", "s", "--state", &state];
            let command = with_settings(
                import(&importers),
                <crate::config::Config as crate::config::SettingsList>::DECLARATIONS,
            );
            let matches = command.try_get_matches_from(line.iter().chain(more)).unwrap();
            let home = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
            let ran = import_with(&importers, &matches, &home, &mut Vec::new());
            ran.unwrap_err().report().0
        };
        for (file, content, format) in
            [("recognised", "!toy", &[][..]), ("named", "", &["--format", "toy"])]
        {
            let error = error(file, content, format);
            assert!(error.ends_with(&format!("{file}: it is a toy\n")), "{error}");
        }
        let error = error("unknown", "?", &[]);
        assert!(error.contains("it looks like plain text"), "{error}");
    }
}
