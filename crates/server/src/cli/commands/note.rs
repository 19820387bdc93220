//! `stile note`: prints the structure of a note, as the tool of the same purpose answers it.
//!
//! The command calls the tools as a client does. Its calls are journalled like a client's, and it
//! has no other access to a note.

use std::io::{self, IsTerminal as _};

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_tools::answer::Answer;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use crate::auth;
use crate::cli::compose::{files_owner, open, owner, process};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, typed_path};
use crate::cli::invocation::{Invocation, settings};
use crate::config::Environment;

/// The subcommands, each with the tool that it calls.
const TOOLS: &[(&str, &str)] = &[
    ("outline", "get_note_outline"),
    ("tree", "get_document_tree"),
    ("facets", "get_metadata_facets"),
    ("sections", "get_section_source"),
];

/// Prints the tool's answer. A failure is printed as the error object of a tool, and to a person at
/// a terminal as a sentence.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let Some((_, tool)) = TOOLS.iter().find(|(name, _)| *name == command) else { return Ok(()) };
    let answer = call(tool, matches, environment).and_then(|answer| match answer.failure {
        None => Ok(answer.text),
        Some(_) => Err(Failure::Verbatim { text: answer.text, code: 1 }),
    });
    let failed = |failure: Failure| match io::stderr().is_terminal() {
        true => failure.into_sentence(),
        false => failure.into_json(),
    };
    Ok(writeln!(output, "{}", answer.map_err(failed)?)?)
}

fn call(tool: &str, matches: &ArgMatches, environment: Environment<'_>) -> Result<Answer, Failure> {
    let resolved = files_owner::with_served_root(settings(matches, environment)?)?;
    let typed = flags::text(matches, "path").unwrap_or_default();
    // A path that means another one as it is typed. The tool refuses what it refuses of the others.
    let path = match typed_path::parse(typed, &resolved.config.root) {
        Ok(path) if path.as_str() != typed => path.as_str().trim_start_matches('/').to_owned(),
        Err(elsewhere) if SpacePath::parse(typed).is_ok() => return Err(elsewhere),
        _ => typed.to_owned(),
    };
    let everything = Scopes::from_iter([Verb::Read, Verb::Unguard].map(Scope::everything));
    let user = owner::user(&resolved, environment)?;
    let principal = auth::command_line(&user, everything, RecordsClaim::None);
    process::log(resolved.config.log);
    let open_space = open::open_space_to_read(&resolved.config)?;
    let (tools, caller) = (open_space.tools(), Caller::local(principal));
    let answer = process::block_on(async {
        let unknown = |UnknownTool| Failure::Failed("this program has no such tool".to_owned());
        let tool = tools.find(tool).ok_or(UnknownTool).map_err(unknown)?;
        tools.call(tool, json!({ "path": path }), &caller).await.map_err(unknown)
    });
    open_space.journal.sync();
    answer
}

impl Failure {
    /// Returns the failure as the error object of a tool, for a script that reads these.
    fn into_json(self) -> Self {
        let (message, code) = match self {
            Self::Usage(message) => (message, 2),
            Self::Failed(message) => (message, 1),
            other => return other,
        };
        Self::Verbatim {
            text: json!({ "error": message, "code": "RUNTIME_ERROR" }).to_string(),
            code,
        }
    }

    /// Returns the failure in words, for a person: an error object gives its message.
    fn into_sentence(self) -> Self {
        let Self::Verbatim { text, code } = self else { return self };
        let object: Option<Value> = serde_json::from_str(&text).ok();
        let message = object.as_ref().and_then(|object| object.get("error")?.as_str());
        match (message, code) {
            (Some(message), 2) => Self::Usage(message.to_owned()),
            (Some(message), _) => Self::Failed(message.to_owned()),
            (None, _) => Self::Verbatim { text, code },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_a_sentence_and_a_script_an_object() {
        let refused = || Failure::Verbatim {
            text: json!({ "error": "Note not found: a.md", "code": "RUNTIME_ERROR" }).to_string(),
            code: 1,
        };
        let said = (String::from("error: Note not found: a.md\n"), 1);
        assert_eq!(refused().into_sentence().report(), said);
        assert!(refused().into_json().report().0.starts_with('{'));
        let usage = Failure::Usage("there is no home folder".to_owned());
        assert_eq!(usage.into_sentence().report().0, "error: there is no home folder\n");
    }
}
