//! `stile note`: prints the structure of a note, as the tool of the same purpose answers it.
//!
//! The command calls the tools as a client does. Its calls are journalled like a client's, and it
//! has no other access to a note.

use clap::ArgMatches;
use serde_json::json;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_tools::answer::Answer;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use super::{Failure, Invocation, open, process, settings, user_name};
use crate::auth;
use crate::config::Environment;

/// The subcommands, each with the tool that it calls.
const TOOLS: &[(&str, &str)] = &[
    ("outline", "get_note_outline"),
    ("tree", "get_document_tree"),
    ("facets", "get_metadata_facets"),
    ("sections", "get_section_source"),
];

/// Prints the tool's answer. A failure is printed as the error object of a tool.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let Some((_, tool)) = TOOLS.iter().find(|(name, _)| *name == command) else { return Ok(()) };
    let answer = call(tool, matches, environment).map_err(|failure| failure.into_json())?;
    match answer.failure {
        None => Ok(writeln!(output, "{}", answer.text)?),
        Some(_) => Err(Failure::Verbatim { text: answer.text, code: 1 }),
    }
}

fn call(tool: &str, matches: &ArgMatches, environment: Environment<'_>) -> Result<Answer, Failure> {
    let path = matches.get_one::<String>("path").map(String::as_str).unwrap_or_default();
    let resolved = settings(matches, environment)?;
    let everything = Scopes::from_iter([Verb::Read, Verb::Unguard].map(Scope::everything));
    let principal = auth::command_line(&user_name(environment), everything, RecordsClaim::None);
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
}
