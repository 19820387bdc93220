//! Whoever starts this program in a state folder of theirs owns the records in it: what the
//! commands about records have in common.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ArgMatches;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::administration::DeclareError;
use stile_store::files;
use stile_store::records::{Records, RecordsError};
use stile_store::state::StateDir;

use super::{Failure, local_user, settings};
use crate::auth;
use crate::config::Environment;

/// The largest declaration or list of streams that is read from a file.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The owner and their records.
pub(super) struct Owner {
    pub(super) services: RecordService,
    pub(super) caller: Principal,
    pub(super) now: Instant,
}

/// Opens the records of the state folder.
pub(super) fn open(matches: &ArgMatches, environment: Environment<'_>) -> Result<Owner, Failure> {
    let state = StateDir::open(&settings(matches, environment)?.config.state)?;
    let caller = auth::local_user(&local_user(environment), Scopes::none(), RecordsClaim::Owner);
    Ok(Owner { services: RecordService::new(Records::open(&state, now())?), caller, now: now() })
}

/// The time.
pub(super) fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// In UTC, as a person reads it.
pub(super) fn minute(instant: Instant) -> String {
    let text = instant.to_rfc3339();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

/// A name that was given as a flag.
pub(super) fn name(matches: &ArgMatches, flag: &str) -> Result<SourceName, Failure> {
    let text = text(matches, flag).unwrap_or_default();
    SourceName::parse(text)
        .map_err(|bad| Failure::Usage(format!("--{flag}: `{}`: {bad}", text.escape_debug())))
}

/// What was given as a flag.
pub(super) fn text<'m>(matches: &'m ArgMatches, flag: &str) -> Option<&'m str> {
    matches.get_one::<String>(flag).map(String::as_str)
}

/// All that was given as a flag that may be repeated.
pub(super) fn texts(matches: &ArgMatches, flag: &str) -> Vec<String> {
    matches.get_many::<String>(flag).into_iter().flatten().cloned().collect()
}

/// A JSON file that was given as a flag.
pub(super) fn json_file(path: &str) -> Result<serde_json::Value, Failure> {
    let mut text = String::new();
    let read = files::open(Path::new(path))
        .and_then(|file| file.reader.take(MAX_FILE_BYTES).read_to_string(&mut text));
    read.map_err(|error| Failure::Failed(format!("cannot read {path}: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{path} is not JSON: {error}")))
}

/// Says something beside the output.
pub(super) fn aside(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Problem> for Failure {
    /// In the words of the command line, where those of a request name its parameters.
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::StreamNotFound { stream, connection } => {
                let of = connection
                    .map(|name| format!(" of the connection `{name}`"))
                    .unwrap_or_default();
                Self::Usage(format!(
                    "there is no stream `{stream}`{of}; `stile streams` lists those that there are"
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
