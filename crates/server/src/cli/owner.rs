//! What the commands about records share: the owner's session, arguments and errors.
//!
//! A user who starts this program in a state folder of their own owns the records in it.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};

use clap::ArgMatches;
use stile_domain::json_string::with_escapes;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::administration::DeclareError;
use stile_records::grant_document::MAX_DOCUMENT_BYTES;
use stile_store::files;
use stile_store::records::{Records, RecordsError};

use super::home::Home;
use super::{Failure, settings, user_name};
use crate::auth;
use crate::clock;
use crate::config::{Environment, Resolved};

/// The largest JSON file that is read, a declaration or a grant.
const MAX_FILE_BYTES: u64 = MAX_DOCUMENT_BYTES;

/// The owner's session: services, caller and the time of the command.
pub(super) struct Owner {
    pub(super) services: RecordService,
    pub(super) caller: Principal,
    pub(super) now: Instant,
}

/// Opens the records of the state folder.
pub(super) fn open(matches: &ArgMatches, environment: Environment<'_>) -> Result<Owner, Failure> {
    let resolved = settings(matches, environment)?;
    let records = Home::open(&resolved.config)?.records(clock::now())?;
    Ok(of_user(records, &user(&resolved, environment)?))
}

/// Makes the owner's session with a database of records.
pub(super) fn of_records(records: Records, environment: Environment<'_>) -> Owner {
    of_user(records, &user_name(environment))
}

fn of_user(records: Records, user: &str) -> Owner {
    let caller = auth::command_line(user, Scopes::none(), RecordsClaim::Owner);
    Owner { services: RecordService::new(records), caller, now: clock::now() }
}

/// Returns for whom a command acts: the person whom it names, or the user who started it.
pub(super) fn user(resolved: &Resolved, environment: Environment<'_>) -> Result<String, Failure> {
    match &resolved.config.person {
        None => Ok(user_name(environment)),
        // A person whom no token names yet is known by what the command calls them.
        Some(name) => {
            let subject = Home::open(&resolved.config)?.subject().ok().flatten();
            Ok(subject.unwrap_or_else(|| name.clone()))
        }
    }
}

/// Returns a value as JSON in lines, in which characters that are not seen are escaped.
pub(super) fn json_lines(value: &impl fmt::Display) -> String {
    with_escapes(&format!("{value:#}\n"))
}

/// Prints a value as [`json_lines`].
pub(super) fn write_json(output: &mut dyn Write, value: &impl fmt::Display) -> io::Result<()> {
    output.write_all(json_lines(value).as_bytes())
}

/// Parses the name that a flag gives.
pub(super) fn name(matches: &ArgMatches, flag: &str) -> Result<SourceName, Failure> {
    let text = text(matches, flag).unwrap_or_default();
    SourceName::parse(text)
        .map_err(|bad| Failure::Usage(format!("--{flag}: `{}`: {bad}", text.escape_debug())))
}

pub(super) fn text<'m>(matches: &'m ArgMatches, flag: &str) -> Option<&'m str> {
    matches.get_one::<String>(flag).map(String::as_str)
}

/// Returns all values of an argument that may be repeated.
pub(super) fn texts(matches: &ArgMatches, flag: &str) -> Vec<String> {
    matches.get_many::<String>(flag).into_iter().flatten().cloned().collect()
}

/// Reads a file, a pipe, or standard input if the path is `-`.
pub(super) fn file_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    let bytes = if path == "-" {
        files::read_short(&mut io::stdin().lock(), MAX_FILE_BYTES)
    } else {
        File::open(path).and_then(|mut file| files::read_short(&mut file, MAX_FILE_BYTES))
    };
    bytes.map_err(|error| Failure::Failed(format!("cannot read {path}: {error}")))
}

/// Reads JSON from a file, from a pipe, or from standard input if the path is `-`.
pub(super) fn json_file(path: &str) -> Result<serde_json::Value, Failure> {
    serde_json::from_slice(&file_bytes(path)?)
        .map_err(|error| Failure::Usage(format!("{path} is not JSON: {error}")))
}

/// Prints a line to standard error.
pub(super) fn print_to_stderr(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Problem> for Failure {
    /// Words the problem for the command line. The problem's own words name request parameters.
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::StreamNotFound { stream, connection } => {
                let connection = connection
                    .map(|name| format!(" of the connection `{name}`"))
                    .unwrap_or_default();
                Self::Usage(format!(
                    "there is no stream `{stream}`{connection}; `stile streams` lists all streams"
                ))
            }
            Problem::AmbiguousConnection { connections } => Self::Usage(format!(
                "several connections have this: {}; name one of them with --connection",
                connections.join(", ")
            )),
            Problem::InvalidRequest { message, .. } => Self::Usage(message),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<DeclareError> for Failure {
    fn from(error: DeclareError) -> Self {
        match error {
            DeclareError::Problem(problem) => problem.into(),
            DeclareError::Invalid(_) | DeclareError::KeyChange { .. } => {
                Self::Usage(error.to_string())
            }
        }
    }
}
