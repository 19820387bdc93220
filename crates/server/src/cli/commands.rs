//! The list of commands, one file each, and how one of them is started.

mod activity;
mod audit;
mod backup;
mod cache;
mod client;
mod config;
mod connect;
mod connections;
mod database;
mod declare;
mod doctor;
mod export;
mod extract_text;
mod gateway;
mod generated;
mod grant;
mod history;
mod import;
mod mcp;
mod migrate_store;
mod note;
mod owner_account;
mod person;
mod records;
mod search;
mod serve;
mod service;
mod sign_in;
mod space;
mod stdio;
mod streams;
mod token;
mod undo;
mod update;

use std::ffi::OsString;
use std::io::Write;

use clap::ArgMatches;
use stile_import::attachment_text::child;
use stile_store::state::{StateDir, reserve};

use crate::cli::failure::Failure;
use crate::cli::installation::Installation;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::{Colours, local_time};
use crate::cli::{arguments, first_steps};
use crate::config::{Config, Environment, SettingsList as _};

#[cfg(test)]
pub(crate) use self::import::run_with as import_with;

/// What runs a command.
type Run = fn(Invocation<'_>) -> Result<(), Failure>;

/// The commands that `arguments` declares, in its order.
const COMMANDS: &[(&str, Run)] = &[
    ("serve", serve::run),
    ("stdio", stdio::run),
    ("gateway", gateway::run),
    ("mcp", mcp::run),
    ("config", config::run),
    ("note", note::run),
    ("token", token::run),
    ("connect", connect::connect),
    ("disconnect", connect::disconnect),
    ("doctor", doctor::run),
    ("service", service::run),
    ("completions", generated::completions),
    ("man", generated::man),
    ("owner", owner_account::run),
    ("import", import::run),
    ("connections", connections::run),
    ("streams", streams::run),
    ("records", records::run),
    ("declare", declare::run),
    ("export", export::run),
    ("backup", backup::run),
    ("restore-backup", backup::restore),
    ("migrate-store", migrate_store::run),
    ("grant", grant::run),
    ("audit", audit::run),
    ("activity", activity::run),
    ("sign-in", sign_in::run),
    ("client", client::run),
    ("search", search::run),
    ("history", history::list),
    ("show", history::show),
    ("diff", history::diff),
    ("restore", history::restore),
    ("undo", undo::run),
    ("space", space::run),
    ("cache", cache::run),
    ("person", person::run),
    ("database", database::run),
    ("update", update::run),
];

/// Runs the command that the arguments name. Help and errors of usage are failures.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // People have no use for this command, so it is not among those that help lists.
    if arguments.get(1).is_some_and(|name| name == child::COMMAND) {
        return extract_text::run(arguments.get(2));
    }
    if arguments.len() <= 1 {
        let (installation, _) = Installation::of_this_program();
        return Ok(first_steps::write_first_steps(installation, output)?);
    }
    let arguments = first_steps::as_flags(arguments);
    let command = arguments::command_for(Config::DECLARATIONS, &arguments);
    let is_short = first_steps::wants_short_help(&arguments);
    let command = if is_short { first_steps::shortened(command) } else { command };
    // Snapshots must not depend on the terminal that the tests run in.
    let command = if cfg!(test) { command.term_width(100) } else { command };
    let matches = command
        .try_get_matches_from(arguments)
        .map_err(|error| Failure::Arguments(first_steps::with_nearest_first(error)))?;
    local_time::choose(&matches);
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    // Clap refuses a name that is not in the list.
    let Some((_, run)) = COMMANDS.iter().find(|(listed, _)| *listed == name) else { return Ok(()) };
    // What tests compare must not depend on the terminal that they run in.
    let colours = if cfg!(test) { Colours::Plain } else { Colours::of_output(environment) };
    let done = run(Invocation { matches, environment, output, colours });
    done.map_err(|failure| with_full_disk(failure, matches, environment))
}

/// Adds to why a command failed that the disk of the state folder is full, if it is. SQLite reports
/// that as other errors.
fn with_full_disk(failure: Failure, matches: &ArgMatches, environment: Environment<'_>) -> Failure {
    const FULL: &str = "the disk of the state folder is full";
    let mut matches = matches;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    let is_full = || {
        let config = settings(matches, environment).ok()?.config;
        StateDir::open_existing(&config.state).ok().filter(reserve::is_disk_full)
    };
    match failure {
        Failure::Failed(why) if !why.contains(FULL) && is_full().is_some() => {
            Failure::Failed(format!("{why}; {FULL}: make room on it, then run the command again"))
        }
        failure => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_declared_command_is_run_by_one_function() {
        let declared = arguments::command(Config::DECLARATIONS);
        let mut declared: Vec<&str> =
            declared.get_subcommands().map(|command| command.get_name()).collect();
        let mut run: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
        declared.sort_unstable();
        run.sort_unstable();
        assert_eq!(declared, run);
    }
}
