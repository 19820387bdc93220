//! `stile update`: says how this installation is updated, and downloads nothing.

use crate::cli::failure::Failure;
use crate::cli::installation::Installation;
use crate::cli::invocation::Invocation;

/// Says how this installation is updated.
pub(super) fn run(Invocation { output, .. }: Invocation<'_>) -> Result<(), Failure> {
    let (installation, program) = Installation::of_this_program();
    let (found, how) = installation.advice();
    let place = program.map(|path| format!(" at {}", path.display())).unwrap_or_default();
    writeln!(output, "This is Stile {}{place}: {found}.", env!("CARGO_PKG_VERSION"))?;
    writeln!(output, "Update it with:\n\n  {how}\n")?;
    writeln!(
        output,
        "Then start your servers again. Tokens, history and records stay; a newer version copies a\n\
         database before it changes the tables. This command looked nowhere and changed nothing."
    )?;
    Ok(())
}
