//! `stile completions` and `stile man`: what is generated from the declarations of the commands.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::cli::client_entry::cannot;
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::cli::{arguments, flags};
use crate::config::{Config, SettingsList as _};

fn command() -> Command {
    arguments::command(Config::DECLARATIONS)
}

/// Prints the script that completes commands and flags in a shell.
pub(super) fn completions(
    Invocation { matches, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some(shell) = matches.get_one::<Shell>("shell") else { return Ok(()) };
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut command(), "stile", &mut script);
    output.write_all(&script)?;
    Ok(())
}

/// Writes a manual page for each command into a folder. Packages contain these pages.
pub(super) fn man(Invocation { matches, .. }: Invocation<'_>) -> Result<(), Failure> {
    let folder = Path::new(flags::text(matches, "folder").unwrap_or_default());
    stile_store::state::create_space_folder(folder)
        .and_then(|()| clap_mangen::generate_to(command(), folder))
        .map_err(|error| cannot("write to", folder, &error))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    fn stile(arguments: &[&str]) -> String {
        let mut output = Vec::new();
        let words = std::iter::once("stile").chain(arguments.iter().copied()).map(OsString::from);
        crate::cli::commands::run(
            words,
            &|name| (name == "HOME").then(|| "/home/ann".to_owned()),
            &mut output,
        )
        .unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn each_shell_gets_a_script_that_knows_the_commands() {
        for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
            let script = stile(&["completions", shell]);
            assert!(script.contains("connect") && script.contains("public-url"), "{shell}");
        }
    }

    #[test]
    fn each_command_gets_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        stile(&["man", folder.path().join("man").to_str().unwrap()]);
        for page in ["stile.1", "stile-serve.1", "stile-token-revoke.1", "stile-doctor.1"] {
            let text = std::fs::read_to_string(folder.path().join("man").join(page)).unwrap();
            assert!(text.contains(".TH") && text.contains("Stile") || text.contains("stile"));
        }
    }
}
