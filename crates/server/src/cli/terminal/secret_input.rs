//! Reads a secret that a person types, or that a program writes to standard input.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use crate::cli::failure::Failure;

/// The longest line that is read, in bytes.
const MAX_BYTES: u64 = 8 * 1024;

/// Asks for a new secret twice without showing it, or reads one line if standard input is not a
/// terminal.
pub(crate) fn read_new_secret(name: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let first = ask(&format!("New {name}: "))?;
    if ask(&format!("The same {name} again: "))? == first {
        Ok(first)
    } else {
        Err(Failure::Usage(format!("the two {name}s differ; nothing was changed")))
    }
}

/// Prints a question to standard error and reads a line while the terminal shows no input.
fn ask(question: &str) -> Result<String, Failure> {
    let hidden = HiddenInput::begin()?;
    io::stderr().write_all(question.as_bytes())?;
    let line = read_line();
    drop(hidden);
    // The terminal did not show the line break either.
    writeln!(io::stderr())?;
    line
}

/// Reads one line without its line break.
fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_BYTES).read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// A terminal that does not show what is typed, until the value is dropped.
#[cfg(unix)]
struct HiddenInput(rustix::termios::Termios);

#[cfg(unix)]
impl HiddenInput {
    fn begin() -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

#[cfg(unix)]
impl Drop for HiddenInput {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(windows)]
use stile_windows::machine::HiddenInput;
