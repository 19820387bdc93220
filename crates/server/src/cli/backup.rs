//! `stile backup`: copies the database of records and grants to a new file.

use std::path::Path;

use super::{Failure, Invocation, owner};

/// Copies the database, also while servers use it.
pub(super) fn run(
    Invocation { matches, environment, output }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let file = owner::text(matches, "file").unwrap_or_default();
    owner.services.backup(&owner.caller, Path::new(file))??;
    writeln!(output, "copied all records and grants to {file}")?;
    Ok(())
}
