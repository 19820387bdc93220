//! `stile config`: what is in force, and from where.

use std::io::Write;

use super::Failure;
use crate::config::{Given, Resolved, SETTINGS, Source};

/// Prints every setting as a line of TOML with its source.
pub(super) fn run(resolved: &Resolved, output: &mut dyn Write) -> Result<(), Failure> {
    output.write_all(shown(resolved).as_bytes())?;
    Ok(())
}

fn shown(resolved: &Resolved) -> String {
    let lines: Vec<(String, String)> = SETTINGS
        .iter()
        .map(|setting| {
            let line = match setting.show(&resolved.config) {
                // These two cannot stand in the file.
                Some(value) if setting.given == Given::NotInFile => {
                    format!("# {} = {value}", setting.name)
                }
                Some(value) => format!("{} = {value}", setting.name),
                None => format!("# {} is not set", setting.name),
            };
            (line, source(resolved.source(setting.name), &resolved.config.config.to_string_lossy()))
        })
        .collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    lines.iter().map(|(line, source)| format!("{line:width$}  # {source}\n")).collect()
}

fn source(source: &Source, file: &str) -> String {
    match source {
        Source::Flag => "command line".to_owned(),
        Source::Environment(variable) => variable.clone(),
        Source::File => file.to_owned(),
        Source::Default => "default".to_owned(),
    }
}
