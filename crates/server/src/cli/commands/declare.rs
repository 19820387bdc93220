//! `stile declare`: shows or changes the declaration of a stream.

use stile_domain::records::declaration::Declaration;

use crate::cli::compose::owner;
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::cli::{flags, terminal};

/// Prints the declaration, or changes it.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let (connection, stream) =
        (flags::name(matches, "connection")?, flags::name(matches, "stream")?);
    // Before the database is opened, so that a bad file changes nothing in the state folder.
    let from = match flags::text(matches, "from") {
        Some(path) => Some((path, flags::json_file(path)?)),
        None => None,
    };
    let owner = owner::open(matches, environment)?;
    if matches.get_flag("show") {
        let found = owner.services.find_stream(&owner.caller, owner.now, &connection, &stream)?;
        terminal::write_json(output, &found.declaration.to_json())?;
        return Ok(());
    }
    let declaration = match from {
        Some((path, json)) => Declaration::parse(&json)
            .map_err(|bad| Failure::Usage(format!("{path}: {bad}; nothing was changed")))?,
        None => {
            let inferred =
                owner.services.infer_declaration(&owner.caller, owner.now, &connection, &stream)?;
            inferred.reasons.iter().try_for_each(|line| terminal::print_to_stderr(line))?;
            inferred.declaration
        }
    };
    let is_new = owner.services.declare(&owner.caller, &connection, &stream, &declaration)?;
    let again = if is_new { "" } else { " anew" };
    writeln!(output, "declared `{stream}` of `{connection}`{again}")?;
    Ok(())
}
