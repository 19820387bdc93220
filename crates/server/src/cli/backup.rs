//! `stile backup`: copies the database of records and grants to a new file.

use std::io::Write;
use std::path::Path;

use clap::ArgMatches;

use super::{Failure, owner};
use crate::config::Environment;

/// Copies the database, also while servers use it.
pub(super) fn run(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let file = owner::text(matches, "file").unwrap_or_default();
    owner.services.backup(&owner.caller, Path::new(file))??;
    writeln!(output, "copied all records and grants to {file}")?;
    Ok(())
}
