//! The command line: what a person, a script or an MCP client starts.
//!
//! `commands` lists the commands, each of which is a file. A command reads its `flags`, has
//! `compose` put together what it works on, and writes to the `terminal`. Standard output carries
//! only what was asked for (a token, a list, the protocol); everything else goes to standard error.

mod arguments;
mod client_entry;
mod clients;
mod commands;
mod compose;
mod failure;
mod first_steps;
mod flags;
mod installation;
mod invocation;
mod terminal;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use failure::Failure;

/// Runs the program with the arguments and the environment of the process.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Refuses an environment with a setting that cannot be read. Passing over it would choose another
/// folder than the one that was meant.
fn check_environment(
    mut variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), Failure> {
    let is_setting = |name: &str| {
        name.starts_with("STILE_")
            || ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].contains(&name)
    };
    let unreadable = variables.find_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| is_setting(name))?;
        value.to_str().is_none().then_some(name)
    });
    unreadable.map_or(Ok(()), |name| {
        Err(Failure::Usage(format!("the value of {name} is not valid UTF-8; nothing was done")))
    })
}

/// Runs the program with the environment of the process, and with arguments of which the first is
/// the name of the program.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    compose::process::hide_panic_messages();
    let environment = |name: &str| std::env::var(name).ok();
    let mut output = io::stdout();
    let ran = check_environment(std::env::vars_os())
        .and_then(|()| commands::run(arguments, &environment, &mut output))
        .and_then(|()| Ok(output.flush()?));
    match ran.map_err(|failure| failure.report()) {
        Ok(()) => ExitCode::SUCCESS,
        Err((text, 0)) => {
            let written = output.write_all(text.as_bytes());
            let reader_left =
                written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            ExitCode::from(u8::from(written.is_err() && !reader_left))
        }
        Err((text, code)) => {
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(code)
        }
    }
}
