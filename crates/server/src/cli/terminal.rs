//! What commands print, and how a person is shown times, tables, colours and progress.

pub(crate) mod colours;
pub(crate) mod local_time;
pub(crate) mod progress;
pub(crate) mod secret_input;
pub(crate) mod table;
pub(crate) mod unix_time;

pub(crate) use self::colours::{Colours, Meaning};
pub(crate) use self::progress::{Progress, Step, Unit};

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use stile_domain::json::text::with_escapes;

/// Returns a value as JSON in lines, in which characters that are not seen are escaped.
pub(crate) fn json_lines(value: &impl fmt::Display) -> String {
    with_escapes(&format!("{value:#}\n"))
}

/// Prints a value as [`json_lines`].
pub(crate) fn write_json(output: &mut dyn Write, value: &impl fmt::Display) -> io::Result<()> {
    output.write_all(json_lines(value).as_bytes())
}

/// Returns a table, or where it has no row, a sentence that says so and what would make one. A
/// program that reads the output gets the table without rows, and the sentence on standard error.
pub(crate) fn list(table: String, is_empty: bool, sentence: &str) -> io::Result<String> {
    if is_empty && io::stdout().is_terminal() {
        return Ok(format!("{sentence}\n"));
    }
    if is_empty {
        print_to_stderr(sentence)?;
    }
    Ok(table)
}

/// Prints a line to standard error in one write. A program that waits for the line never reads only
/// a part of it.
pub(crate) fn print_to_stderr(line: &str) -> io::Result<()> {
    io::stderr().write_all(format!("{line}\n").as_bytes())
}

/// Prints a line as [`print_to_stderr`], for a command that goes on if nobody can read it.
pub(crate) fn print_line(line: &str) {
    let _ = print_to_stderr(line);
}
