//! `stile database`: what an operator does to the whole database that servers share.

use clap::ArgMatches;
use stile_store::postgresql::Database;

use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings};
use crate::config::Config;

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("prepare", matches)) => {
            let role = prepare(&settings(matches, environment)?.config, matches)?;
            writeln!(
                output,
                "the tables are there; the role `{role}` reads and writes their rows, and may \
                 change nothing else: give servers and other commands the address with that role"
            )?;
        }
        Some(("restored", matches)) => {
            let home = Home::open(&settings(matches, environment)?.config)?;
            let tenants = home.database().ok_or_else(no_database)?.begin_lineages()?;
            writeln!(
                output,
                "the records of {tenants} tenants have another lineage: clients that follow their \
                 changes begin anew, and none goes on from a moment that this database has never \
                 seen"
            )?;
        }
        _ => {}
    }
    Ok(())
}

/// Makes the tables as the role of the address, and lets the role of the servers use them.
fn prepare<'m>(config: &Config, matches: &'m ArgMatches) -> Result<&'m str, Failure> {
    let address = config.database.as_ref().ok_or_else(no_database)?;
    let role = matches.get_one::<String>("servers_role").map_or("", String::as_str);
    Database::prepare(address.reveal(), role)?;
    Ok(role)
}

fn no_database() -> Failure {
    let why = "this is about a database that servers share; name it with --database";
    Failure::Usage(why.to_owned())
}
