//! `stile note`: what is in a note, printed as the tool answers it.
//!
//! A caller of the tools like any client, and so journalled like one; it has no other way to a
//! note.

use std::io::Write;

use clap::ArgMatches;
use serde_json::json;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_tools::answer::Answer;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use super::{Failure, local_user, settings, start};
use crate::auth;
use crate::config::Environment;

/// The subcommands, and the tool that each calls.
pub(super) const TOOLS: &[(&str, &str)] = &[
    ("outline", "get_note_outline"),
    ("tree", "get_document_tree"),
    ("facets", "get_metadata_facets"),
    ("sections", "get_section_source"),
];

/// Prints an answer, or says why there is none as the tool says it.
pub(super) fn run(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let Some((_, tool)) = TOOLS.iter().find(|(name, _)| *name == command) else { return Ok(()) };
    let answer = call(tool, matches, environment).map_err(|failure| failure.into_json())?;
    match answer.failure {
        None => Ok(writeln!(output, "{}", answer.text)?),
        Some(_) => Err(Failure::Told { text: answer.text, code: 1 }),
    }
}

fn call(tool: &str, matches: &ArgMatches, environment: Environment<'_>) -> Result<Answer, Failure> {
    let path = matches.get_one::<String>("path").map(String::as_str).unwrap_or_default();
    let resolved = settings(matches, environment)?;
    let everything = Scopes::from_iter([Scope::everything(Verb::Read)]);
    let principal = auth::local_user(&local_user(environment), everything, RecordsClaim::None);
    start::log(resolved.config.log);
    let open = start::open_to_read(&resolved)?;
    let (tools, caller) = (open.tools(), Caller::local(principal));
    let called = start::runtime()?.block_on(async {
        let tool = tools.find(tool).ok_or(UnknownTool)?;
        tools.call(tool, json!({ "path": path }), &caller).await
    });
    open.journal.sync();
    called.map_err(|UnknownTool| Failure::Failed("this program has no such tool".to_owned()))
}

impl Failure {
    /// In the words of the tools, for a script that reads them.
    fn into_json(self) -> Self {
        let (message, code) = match self {
            Self::Usage(message) => (message, 2),
            Self::Failed(message) => (message, 1),
            other => return other,
        };
        Self::Told { text: json!({ "error": message, "code": "RUNTIME_ERROR" }).to_string(), code }
    }
}
