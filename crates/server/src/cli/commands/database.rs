//! `stile database`: what an operator does to the whole database that servers share.

use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings};

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some(("restored", matches)) = matches.subcommand() else { return Ok(()) };
    let home = Home::open(&settings(matches, environment)?.config)?;
    let Some(database) = home.database() else {
        let why = "this is about a database that servers share; name it with --database";
        return Err(Failure::Usage(why.to_owned()));
    };
    let tenants = database.begin_lineages()?;
    writeln!(
        output,
        "the records of {tenants} tenants have another lineage: clients that follow their changes \
         begin anew, and none goes on from a moment that this database has never seen"
    )?;
    Ok(())
}
