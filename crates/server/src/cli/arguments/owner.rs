//! The arguments of `stile owner`.

use clap::Command;

use super::{Settings, flag, json, positional, utc};
use crate::config::CommandGroup;

pub(super) fn command(settings: Settings<'_>) -> Command {
    Command::new("owner")
        .about("Sets how you sign in to the pages of your server.")
        .args(super::settings_of_nobody(settings, CommandGroup::Token).map(|arg| arg.global(true)))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("password")
                .about(
                    "Sets your password. Asks for it on a terminal, or reads one line from \
                     standard input.",
                )
                .arg(flag("remove", "Remove the password, so that no password signs in."))
                .after_help(
                    "\
A password has 12 characters or more. It is never an argument, where other programs could read it. \
The state keeps a slow hash of it (argon2id).

Examples:
  stile owner password
  pass show stile | stile owner password",
                ),
        )
        .subcommand(
            Command::new("passkeys")
                .about(
                    "Lists your passkeys. You register a passkey on a page of the server, while \
                     signed in.",
                )
                .args([json(), utc()]),
        )
        .subcommand(
            Command::new("sessions")
                .about("Lists the browsers that are signed in.")
                .args([json(), utc()]),
        )
        .subcommand(
            Command::new("sign-out").about(
                "Signs every browser out. Running servers refuse it from the next request on.",
            ),
        )
        .subcommand(
            Command::new("remove-passkey")
                .about("Removes a passkey. It signs in no longer, from now on.")
                .arg(positional("id", "ID", "The beginning of its identifier, as listed.")),
        )
}
