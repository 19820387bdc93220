//! `stile backup`: a copy of the database.

use std::io::Write;
use std::path::Path;

use clap::ArgMatches;

use super::{Failure, owner};
use crate::config::Environment;

/// Writes the copy.
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
