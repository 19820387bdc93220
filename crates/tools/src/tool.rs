//! One tool: what it declares, and the life of a call of it.
//!
//! A tool's input type *is* the tool. The doc comment is the description, the fields are the
//! schema, `permits` names the permits that the call needs, and `run` uses them. [`ToolEntry`] is a
//! tool without its type, as lists hold it. Every call of every tool runs through
//! [`ToolEntry::call`], whatever the tool works on.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::journal::{CallTrace, FileTrace};
use stile_domain::notes::answers::AnswerExtent;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permits};
use stile_domain::records::shown_records::StreamTally;
use stile_domain::scope::Scopes;
use stile_domain::tool_name::ShownTools;

use crate::answer::Answer;
use crate::arguments::{self, ArgumentError};
use crate::call_log::{CallLog, Unwritable};
use crate::caller::Caller;
use crate::definition::{self, ToolDefinition, ToolGroup, description, input_schema};

/// One thing that an agent can do.
///
/// The doc comment of the implementing type is the description that agents read.
pub trait Tool: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The canonical name of the tool.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;
    /// The group that shows the tool.
    const GROUP: ToolGroup = ToolGroup::Files;
    /// Whether the tool can destroy what is there. Clients ignore this for a tool that only reads.
    const DESTRUCTIVE: bool;
    /// Whether repeating a call changes nothing more.
    const IDEMPOTENT: bool;
    /// Which call continues from here. Follows the description.
    const NEXT: &'static str = "";
    /// What the tool works on, such as a space.
    type Context: Send + Sync + 'static;
    /// The permits that a call needs. `readOnlyHint` is computed from them and so cannot lie.
    type Permits: Permits + 'static;
    /// What a successful call answers.
    type Output: Output;
    /// Why a call fails.
    type Error: ToolError;

    /// Asks for the permits of exactly this call. Looks nothing up.
    ///
    /// # Errors
    /// If the caller's authority does not cover the call.
    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Self::Error>;

    /// Does the work.
    fn run(
        self,
        permits: Self::Permits,
        context: &Self::Context,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;

    /// Returns the file and the version that the journal records for this call.
    fn trace(&self) -> CallTrace {
        CallTrace::default()
    }
}

/// What a successful call answers. The output schema is derived from this type.
pub trait Output: JsonSchema + Send {
    /// Whether the answer may have members that the schema does not name.
    const IS_OPEN: bool = false;

    /// Renders the answer, with the tools that its own sentences name spelled as `names` says.
    ///
    /// # Errors
    /// If a value cannot be serialized.
    fn render(self, names: ShownTools) -> serde_json::Result<Answer>;

    /// Returns the versions that the journal records: read or replaced, and made.
    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (None, None)
    }

    /// Returns the files of a call that reads several, for the journal.
    fn files(&self) -> Vec<FileTrace> {
        Vec::new()
    }

    /// Returns how many lines the call added or changed, for the journal, if the answer knows it.
    fn changed_lines(&self) -> Option<u64> {
        None
    }

    /// Returns how many lines, passages or names a search of files shows, for the journal; `None`
    /// for no search.
    fn hits(&self) -> Option<usize> {
        None
    }

    /// Returns how many records of each stream the answer shows, for the journal.
    fn records(&self) -> Vec<StreamTally> {
        Vec::new()
    }

    /// Returns how much of a note's structure the answer holds, for the journal.
    fn extent(&self) -> Option<AnswerExtent> {
        None
    }
}

/// Why a call fails, and how the refusal reads.
pub trait ToolError: Send + Sized + 'static {
    /// Whether the log has a line with the number of an internal error. A gateway logs none, so
    /// that its log cannot be tied to a caller.
    const IS_LOGGED: bool = true;

    /// Converts an error of the arguments.
    fn from_arguments(error: ArgumentError, arguments: &Value) -> Self;

    /// Creates the error for a fault of the program. The log has the incident number.
    fn internal(incident: u64) -> Self;

    /// Creates the error for a change that did not begin, since the disk has no room to journal it.
    fn journal_full(incident: u64) -> Self {
        Self::internal(incident)
    }

    /// Creates the error for a change that may or may not have happened.
    fn unknown_outcome(_path: SpacePath, incident: u64) -> Self {
        Self::internal(incident)
    }

    /// Renders the answer to a failed call of `tool`, with the tools that its sentences name
    /// spelled as `names` says.
    fn into_answer(self, tool: &'static str, names: ShownTools) -> Answer;

    /// Returns the error as the denial of a call, for a transport that refuses before it runs
    /// anything; `None` if the call itself must say why, since no scope would help.
    fn into_denial(self, names: ShownTools) -> Option<Denial>;
}

/// A call that the caller's token does not allow, whatever exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// The stable code of the denial.
    pub code: &'static str,
    /// What is wrong and what to do instead.
    pub message: String,
    /// The scopes that the call needs; empty if no scope would help.
    pub scopes: Vec<String>,
}

/// A denied call, with what the journal records of it.
type Denied = Box<(Denial, CallTrace)>;

/// A tool without its type, as a list holds it.
pub struct ToolEntry<C: 'static> {
    /// The canonical name of the tool.
    pub name: &'static str,
    /// Whether the tool's permits allow no change.
    pub read_only: bool,
    /// Whether each call goes through folders, which keeps a processor busy.
    pub walks: bool,
    /// Whether some call of the tool may be permitted with these scopes.
    pub may_be_granted: fn(&Scopes) -> bool,
    definition: fn() -> ToolDefinition,
    check_permits: fn(&Value, &Caller) -> Result<(), Denied>,
    run: for<'a> fn(Value, &'a Caller, &'a C) -> BoxFuture<'a, (Answer, CallTrace)>,
    internal: fn(u64, ShownTools) -> Answer,
    journal_full: fn(u64, ShownTools) -> Answer,
    unknown_outcome: fn(SpacePath, u64, ShownTools) -> Answer,
    is_logged: bool,
}

impl<C: Send + Sync + 'static> ToolEntry<C> {
    /// Erases the type of a tool.
    pub const fn new<T: Tool<Context = C>>() -> Self {
        Self {
            name: T::NAME,
            read_only: <T::Permits as Permits>::READ_ONLY,
            walks: <T::Permits as Permits>::WALKS,
            may_be_granted: <T::Permits as Permits>::may_be_granted,
            definition: definition::<T>,
            check_permits: check_permits::<T>,
            run: run::<T>,
            internal: |incident, names| T::Error::internal(incident).into_answer(T::NAME, names),
            journal_full: |incident, names| {
                T::Error::journal_full(incident).into_answer(T::NAME, names)
            },
            unknown_outcome: |path, incident, names| {
                T::Error::unknown_outcome(path, incident).into_answer(T::NAME, names)
            },
            is_logged: T::Error::IS_LOGGED,
        }
    }

    /// Derives the definition that clients see.
    pub fn definition(&self) -> ToolDefinition {
        (self.definition)()
    }

    /// Decides from the token alone whether `caller` may make exactly this call. A denial is
    /// journaled here, since the call ends here. Arguments that do not parse pass: the call itself
    /// explains them and touches nothing.
    pub fn check_permits(
        &self,
        arguments: &Value,
        caller: &Caller,
        log: &CallLog,
    ) -> Result<(), Denial> {
        (self.check_permits)(arguments, caller).map_err(|denied| {
            let (denial, trace) = *denied;
            log.record(self.name, &caller.principal, trace, denial.code, None);
            denial
        })
    }

    /// Makes a call: parses, asks for permits, runs, journals and renders. A change does not begin
    /// if it could not be journaled, and a panic becomes an internal error.
    pub async fn call(
        &self,
        arguments: Value,
        caller: &Caller,
        context: &C,
        log: &CallLog,
    ) -> Answer {
        let Caller { principal, names, .. } = caller;
        let names = *names;
        if !self.read_only
            && let Err(unwritable) = log.check_writable()
        {
            return match unwritable {
                Unwritable::DiskFull(incident) => (self.journal_full)(incident, names),
                Unwritable::Other(incident) => (self.internal)(incident, names),
            };
        }
        let running = AssertUnwindSafe((self.run)(arguments, caller, context)).catch_unwind();
        let (answer, trace) = running.await.unwrap_or_else(|_| {
            let incident = stile_store::new_incident();
            if self.is_logged {
                log_panic(self.name, incident);
            }
            ((self.internal)(incident, names), CallTrace::default())
        });
        let path = trace.path.clone();
        match log.record_answer(self.name, principal, trace, &answer) {
            Err(incident) if !self.read_only && answer.failure.is_none() => match path {
                Some(path) => (self.unknown_outcome)(path, incident, names),
                None => (self.internal)(incident, names),
            },
            _ => answer,
        }
    }
}

/// Runs `work`; if it panics, returns the number of the incident in the log. The panic's own words
/// are dropped, since they may hold content.
///
/// # Errors
/// The incident's number.
pub async fn guard<T>(name: &'static str, work: impl Future<Output = T>) -> Result<T, u64> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| {
        let incident = stile_store::new_incident();
        log_panic(name, incident);
        incident
    })
}

fn log_panic(name: &'static str, incident: u64) {
    tracing::error!(incident, tool = name, "a handler panicked");
}

/// Derives the definition of a tool from its types.
fn definition<T: Tool>() -> ToolDefinition {
    let next = if T::NEXT.is_empty() { String::new() } else { format!(" {}", T::NEXT) };
    ToolDefinition {
        name: T::NAME,
        title: T::TITLE,
        group: T::GROUP,
        description: description::<T>() + &next,
        input: input_schema::<T>(),
        output: output_schema::<T>,
        read_only: <T::Permits as Permits>::READ_ONLY,
        destructive: T::DESTRUCTIVE,
        idempotent: T::IDEMPOTENT,
    }
}

/// Returns the schema of a tool's structured answers: `type: object` at the root, for clients that
/// read no further, and beside it the output, or anything with the member `error`.
///
/// A client validates errors too. All tools have the same members in an error, so no list repeats
/// them.
fn output_schema<T: Tool>() -> Map<String, Value> {
    let mut success = definition::output_schema::<T::Output>();
    if !T::Output::IS_OPEN {
        success.insert("additionalProperties".to_owned(), false.into());
    }
    let failure = json!({ "required": ["error"] });
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("anyOf".to_owned(), json!([success, failure]));
    schema
}

fn check_permits<T: Tool>(arguments: &Value, caller: &Caller) -> Result<(), Denied> {
    let Ok(input) = arguments::parse::<T>(arguments) else { return Ok(()) };
    let permits = input.permits(caller.principal.gate());
    let Err(error) = permits.map(drop) else { return Ok(()) };
    match error.into_denial(caller.names) {
        Some(denial) => Err(Box::new((denial, input.trace()))),
        None => Ok(()),
    }
}

/// The only caller of [`Tool::run`].
fn run<'a, T: Tool>(
    arguments: Value,
    caller: &'a Caller,
    context: &'a T::Context,
) -> BoxFuture<'a, (Answer, CallTrace)> {
    let Caller { principal, names, .. } = caller;
    let names = *names;
    async move {
        let input = match arguments::parse::<T>(&arguments) {
            Ok(input) => input,
            Err(error) => {
                let error = T::Error::from_arguments(error, &arguments);
                return (error.into_answer(T::NAME, names), CallTrace::default());
            }
        };
        let mut trace = input.trace();
        let output = match input.permits(principal.gate()) {
            Ok(permits) => input.run(permits, context).await,
            Err(error) => Err(error),
        };
        let answer = output.and_then(|output| {
            let (before, after) = output.versions();
            trace.before = before.or(trace.before);
            trace.after = after.filter(|_| !trace.is_dry_run);
            trace.files = output.files();
            trace.hits = output.hits().filter(|hits| *hits > 0).map(|hits| hits as u64);
            trace.records = output.records();
            trace.changed_lines = output.changed_lines().or(trace.changed_lines);
            let extent = output.extent();
            trace.extent = extent;
            match output.render(names) {
                Ok(answer) => Ok(Answer { extent, ..answer }),
                Err(error) => {
                    Err(T::Error::internal(stile_store::log_incident("answer", &error.into())))
                }
            }
        });
        (answer.unwrap_or_else(|error| error.into_answer(T::NAME, names)), trace)
    }
    .boxed()
}
