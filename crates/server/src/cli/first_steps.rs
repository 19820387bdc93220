//! What the command line says to somebody who does not know it yet: the three first steps, `stile
//! help` and `stile version` as other programs have them, and help of one screen for `-h`.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Command;

use crate::cli::installation::Installation;
use crate::config::declarations::{LISTEN, ROOT};
use crate::config::{Config, SettingsList as _};

/// The commands that `stile -h` lists.
const COMMON: &[&str] = &[
    "serve", "connect", "sign-in", "client", "token", "search", "history", "undo", "audit",
    "import", "grant", "service", "doctor",
];

/// Flags of several commands that a newcomer does not need.
const RARE: &[&str] = &[
    "unguard", "tool_names", "show_token", "name", "json", "utc", "delimiter", "encoding",
    "header", "skip", "rejected", "remove_all", "rows", "decimal", "watch", "transport", "user",
    "add_fields", "time_field",
];

/// The most values of a flag that short help lists.
const MOST_VALUES: usize = 4;

/// Prints the three first steps, for a program that was started without arguments.
pub(crate) fn write_first_steps(
    installation: Installation,
    output: &mut dyn Write,
) -> io::Result<()> {
    let stile = installation.command();
    let width = stile.len() + " connect cursor --write".len();
    for (command, what) in [
        ("serve ~/notes", "serves a folder to agents"),
        ("connect cursor --write", "connects a client, in another terminal"),
        ("sign-in", "leads to the page on which you decide who may do what"),
    ] {
        writeln!(output, "{:width$}   {what}", format!("{stile} {command}"))?;
    }
    writeln!(output, "\n`{stile} -h` shows the common commands, `{stile} --help` all of them.")
}

/// Returns the arguments with `stile help COMMAND` as `stile COMMAND --help`, and `stile version`
/// as `stile --version`.
pub(crate) fn as_flags(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let flag = match arguments.get(1).and_then(|word| word.to_str()) {
        Some("help") if arguments.get(2).is_some_and(|word| word == "version") => {
            arguments.truncate(2);
            "--help"
        }
        Some("help") => "--help",
        // There is one version, whatever a person names behind the word.
        Some("version") => {
            arguments.truncate(2);
            "--version"
        }
        _ => return arguments,
    };
    arguments.remove(1);
    arguments.push(flag.into());
    arguments
}

/// The words that are commands to a person and that [`as_flags`] takes away.
const WORDS: [&str; 2] = ["help", "version"];

/// Orders the commands that a mistyped one may have meant by how near they are, the nearest first,
/// and adds `help` and `version` where one of them is nearest.
pub(crate) fn with_nearest_first(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let typed = typed.clone();
    let edits = |word: &str| strsim::levenshtein(&typed, word);
    let mut similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) => similar.clone(),
        Some(ContextValue::String(similar)) => vec![similar.clone()],
        _ => Vec::new(),
    };
    let nearest = similar.iter().map(|word| edits(word)).min();
    let is_nearest = |word: &&str| {
        edits(word) <= 1 + word.len() / 4 && nearest.is_none_or(|nearest| edits(word) < nearest)
    };
    similar.extend(WORDS.into_iter().filter(is_nearest).map(str::to_owned));
    similar.sort_by_key(|word| edits(word));
    if !similar.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
    }
    error
}

/// Returns whether the arguments ask for short help.
pub(crate) fn wants_short_help(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "-h")
}

/// Returns the same commands with help that fits on a screen: without rare commands, without most
/// settings, and of each flag the first sentence alone, without its default and without a long
/// list of values.
pub(crate) fn shortened(command: Command) -> Command {
    let shown = [&ROOT.declaration, &LISTEN.declaration].map(|it| it.key);
    let hidden: Vec<&str> = Config::DECLARATIONS
        .iter()
        .map(|declaration| declaration.key)
        .filter(|key| !shown.contains(key))
        .chain(RARE.iter().copied())
        .collect();
    let command = command.mut_subcommands(|command| {
        let is_rare = !COMMON.contains(&command.get_name());
        command.hide(is_rare)
    });
    shortened_below(command, "", &hidden)
}

/// Returns a text to its first period or semicolon, and without the default in brackets behind it.
fn first_sentence(text: &str) -> String {
    let first = [". ", "; "]
        .iter()
        .fold(text, |text, end| text.split_once(end).map_or(text, |(first, _)| first));
    let first = first.split_once(" [").map_or(first, |(first, _)| first);
    format!("{}.", first.trim_end_matches('.'))
}

fn shortened_below(command: Command, parents: &str, hidden: &[&str]) -> Command {
    let name = format!("{parents}{}", command.get_name());
    let more = format!("`{name} --help` shows everything, with examples.");
    let about = command.get_about().map(|about| first_sentence(&about.to_string()));
    let command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    command
        .mut_args(|argument| {
            let is_hidden = hidden.contains(&argument.get_id().as_str());
            let has_many = argument.get_possible_values().len() > MOST_VALUES;
            let first = argument.get_help().map(|help| first_sentence(&help.to_string()));
            let mut argument = argument.hide(is_hidden);
            if argument.get_action().takes_values() {
                argument = argument.hide_default_value(true).hide_possible_values(has_many);
            }
            match first {
                Some(first) => argument.help(first),
                None => argument,
            }
        })
        .mut_subcommands(|command| shortened_below(command, &format!("{name} "), hidden))
        .after_help(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_nearest_command_is_named_first() {
        for (typed, meant) in [
            ("serv", "serve"),
            ("versio", "version"),
            ("halp", "help"),
            ("conect", "connect"),
            ("tokn", "token"),
        ] {
            let command = crate::cli::arguments::command(Config::DECLARATIONS);
            let error = command.try_get_matches_from(["stile", typed]).unwrap_err();
            let text = with_nearest_first(error).to_string();
            let (_, similar) = text.split_once("exist").unwrap();
            assert_eq!(similar.split('\'').nth(1), Some(meant), "{text}");
        }
    }

    #[test]
    fn help_and_version_are_words_too() {
        for (typed, meant) in [
            ("stile help", "stile --help"),
            ("stile help version", "stile --help"),
            ("stile help token list", "stile token list --help"),
            ("stile version", "stile --version"),
            ("stile version server", "stile --version"),
            ("stile search version", "stile search version"),
            ("stile search help", "stile search help"),
        ] {
            assert_eq!(as_flags(words(typed)), words(meant), "{typed}");
        }
    }

    #[test]
    fn a_word_of_a_question_asks_for_no_help() {
        assert!(wants_short_help(&words("stile serve -h")));
        assert!(!wants_short_help(&words("stile search -- -h")));
    }

    /// Returns the paths of all commands, and of the program itself as an empty one.
    fn paths(command: &Command, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        for command in command.get_subcommands() {
            paths(command, format!("{path} {}", command.get_name()).trim(), found);
        }
    }

    #[test]
    fn short_help_fits_on_one_small_screen() {
        let command = || crate::cli::arguments::command(Config::DECLARATIONS).term_width(80);
        let mut all = Vec::new();
        paths(&command(), "", &mut all);
        for path in all {
            let line = format!("stile {path} -h").replace("  ", " ");
            let help = shortened(command()).try_get_matches_from(words(&line)).unwrap_err();
            let help = help.to_string();
            assert!(
                help.lines().count() <= 24,
                "`{line}` has {} lines:\n{help}",
                help.lines().count()
            );
            let full = line.replace(" -h", " --help");
            assert!(help.contains(&format!("`{full}`")), "{help}");
        }
    }

    #[test]
    fn three_lines_are_the_first_steps() {
        let said = |installation| {
            let mut output = Vec::new();
            write_first_steps(installation, &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        insta::assert_snapshot!(said(Installation::File), @r"
        stile serve ~/notes            serves a folder to agents
        stile connect cursor --write   connects a client, in another terminal
        stile sign-in                  leads to the page on which you decide who may do what

        `stile -h` shows the common commands, `stile --help` all of them.
        ");
        assert!(said(Installation::Npx).starts_with("npx --yes stile-mcp serve ~/notes "));
    }
}
