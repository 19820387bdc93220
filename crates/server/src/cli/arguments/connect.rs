//! `stile connect` and `stile disconnect`: arguments and help.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};
use stile_domain::client_name::is_like_a_flag;

use super::{Settings, deny, flag, grant, json, one, scope, setting_arguments, unguard, utc};
use crate::cli::clients::{CLIENTS, HOSTED, other_words};
use crate::config::CommandGroup;
use crate::config::declarations::ROOT;

/// Returns the commands about clients, in the order of help.
pub(super) fn commands(settings: Settings<'_>) -> [Command; 2] {
    [connect(settings), disconnect(settings)]
}

/// The argument with the name of a client, which people also type as its title, in any case.
fn client() -> Arg {
    let values = CLIENTS.iter().map(|client| (client.name, client.title));
    let values = values.chain(HOSTED.iter().copied());
    let values =
        values.map(|(name, title)| PossibleValue::new(name).aliases(other_words(name, title)));
    Arg::new("client")
        .value_name("CLIENT")
        .ignore_case(true)
        .value_parser(PossibleValuesParser::new(values))
}

fn name() -> Arg {
    one("name", "NAME", "The name of the entry in the client's file.")
        .default_value("stile")
        .value_parser(parse_name)
}

/// Accepts names that every client takes as a part of the names of tools.
fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if (1..=32).contains(&text.len()) && text.chars().all(is_plain) && !is_like_a_flag(text) {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 32 of the characters A-Z a-z 0-9 _ -, and begins with no -".to_owned())
    }
}

fn connect(settings: Settings<'_>) -> Command {
    Command::new("connect")
        .about("Connects an MCP client: shows its entry, or writes it.")
        .arg(client().help("The client. Without one, all clients and their files are listed."))
        .arg(flag("write", "Change the client's file. A copy of the file is kept beside it."))
        .arg(scope("What the client may do with files. May be repeated. [default: write:/]"))
        .arg(deny())
        .arg(unguard())
        .arg(
            grant("Let the client see the records of this grant. [default: no records]")
                .conflicts_with("owner"),
        )
        .arg(flag("owner", "Let the client see and change all records, as their owner."))
        .arg(
            one("expires", "DURATION", "How long the client's token is valid; at most 366d.")
                .default_value("90d"),
        )
        .arg(one(
            ROOT.declaration.key,
            "DIR",
            "The folder that the client gets. Needed if several folders were served with this \
             state. [default: the folder that was, or will be, served first]",
        ))
        .arg(
            one(
                "transport",
                "TRANSPORT",
                "How the client reaches the server: http or stdio. [default: what that client \
                 does best]",
            )
            .value_parser(["http", "stdio"]),
        )
        .arg(one(
            "tool_names",
            "SPELLING",
            "Spell tool names dotted or underscored. [default: as the server does]",
        ))
        .arg(name())
        .arg(
            flag("show_token", "Show the entry with a new token, to paste it by hand.")
                .conflicts_with("write"),
        )
        .args([json(), utc()])
        .args(setting_arguments(settings, CommandGroup::Connect))
        .after_help(
            "\
Only the entry of this server changes. Comments, order and layout of everything else stay, and a \
file that cannot be changed so is left alone. Running the command again changes nothing while the \
client's token is valid for another day. A new entry ends the token of the old one.

A file that gets a token can then be read by its owner only.

Examples:
  stile connect
  stile connect cursor
  stile connect cursor --write
  stile connect chatgpt
  stile connect claude-code --scope read:/ --scope write:/journal/ --write
  stile connect codex --grant grt_4f0c9a1be2d84d7c8a3b6c5d7e8f9012 --write",
        )
}

fn disconnect(settings: Settings<'_>) -> Command {
    Command::new("disconnect")
        .about("Takes this server out of a client's file, and ends its access.")
        .arg(client().required(true).help("The client."))
        .arg(name())
        .args(
            setting_arguments(settings, CommandGroup::Connect)
                .filter(|setting| ["state", "config"].contains(&setting.get_id().as_str())),
        )
        .after_help(
            "\
If nothing else in the file changed since `stile connect`, the file is again what it was, byte for \
byte.

Example:
  stile disconnect cursor",
        )
}
