//! `stile cache clear`: servers forget what they remember of files.

use stile_store::state::cleared_caches::clear_caches;
use stile_store::state::running_servers;

use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings};

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some(("clear", matches)) = matches.subcommand() else { return Ok(()) };
    let home = Home::open_existing(&settings(matches, environment)?.config)?;
    clear_caches(home.state())?;
    writeln!(
        output,
        "On disk there is nothing to clear: words and texts of files are in memory alone."
    )?;
    let servers = match running_servers(home.state())?.len() {
        0 => "No server listens with this state folder. A client's own server".to_owned(),
        1 => "The server that listens with this state folder".to_owned(),
        count => format!("The {count} servers that listen with this state folder"),
    };
    writeln!(output, "{servers} will forget what it knows of files before its next answer.")?;
    Ok(())
}
