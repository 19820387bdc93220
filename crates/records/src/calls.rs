//! A request about records, from its parameters to its answer, for every way in.

use serde_json::{Map, Value as Json};
use stile_domain::error::Refusal;
use stile_domain::journal::JournalLine;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::endpoints::Endpoint;
use super::list::Address;
use super::parameters::Parameters;
use super::sink::ResponseSink;
use super::window::Field;
use super::{
    Reading, RecordService, aggregate, detail, list, render, schema, search, streams, window,
};

/// A request, as it was sent.
#[derive(Clone, Debug)]
pub struct Call {
    /// To which endpoint.
    pub endpoint: &'static Endpoint,
    /// The stream in its path, if that has one.
    pub stream: String,
    /// The record or the blob in its path, if that has one.
    pub key: String,
    /// Its parameters, decoded.
    pub pairs: Vec<(String, String)>,
    /// Where it was sent to.
    pub address: Address,
}

impl RecordService {
    /// Answers a request that reads. Blocks.
    ///
    /// # Errors
    /// What the token, the parameters, the grant or the database say against it. Where something
    /// was put before that, it is to be thrown away.
    pub fn answer(
        &self,
        caller: &Principal,
        now: Instant,
        call: &Call,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let outcome = self.read(caller, now, call, out);
        self.tell(caller, call.endpoint.id, outcome.as_ref().err());
        outcome
    }

    /// The same for a caller who writes the line in the journal itself, see
    /// [`RecordService::journal_tool_call`]. Blocks.
    ///
    /// # Errors
    /// As [`RecordService::answer`].
    pub fn ask(
        &self,
        caller: &Principal,
        now: Instant,
        call: &Call,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        self.read(caller, now, call, out)
    }

    fn read(
        &self,
        caller: &Principal,
        now: Instant,
        call: &Call,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let permit = caller.gate().records()?;
        let parameters = Parameters::parse(call.endpoint.parameters, &call.pairs);
        self.records.read(&permit, now, |view| {
            // A grant that has ended is said to have before anything else is.
            let parameters = &parameters?;
            let reading = Reading { view, declarations: &self.declarations };
            match call.endpoint.id {
                "listStreams" => streams::streams(reading, parameters, out),
                "getStream" => streams::metadata(reading, &call.stream, parameters, out),
                "getSchema" => schema::schema(reading, parameters, out),
                "search" => search::search(reading, parameters, &call.address, out),
                "listRecords" => list::list(reading, &call.stream, parameters, &call.address, out),
                "aggregateRecords" => aggregate::aggregate(reading, &call.stream, parameters, out),
                "getRecord" => detail::detail(reading, &call.stream, &call.key, parameters, out),
                "getFieldWindow" => {
                    let field = Field { stream: &call.stream, key: &call.key };
                    window::window(reading, field, parameters, &call.address.path, out)
                }
                _ => Err(Problem::NotFound),
            }
        })
    }

    /// Removes a record, or all of a stream; where nothing is there, nothing changes. Blocks.
    ///
    /// All of a stream are those that it has at the beginning. They go in several transactions;
    /// where one of them fails what went before is gone, and asking again goes on.
    ///
    /// # Errors
    /// Where the caller is not the owner; what the parameters or the database say against it.
    pub fn delete(&self, caller: &Principal, now: Instant, call: &Call) -> Result<(), Problem> {
        let outcome = self.ready().and_then(|()| match call.endpoint.id {
            "deleteRecords" => self.empty(caller, now, call),
            _ => self.remove(caller, now, call),
        });
        self.tell(caller, call.endpoint.id, outcome.as_ref().err());
        outcome
    }

    /// Whether a change could be journalled. It does not begin otherwise.
    pub(super) fn ready(&self) -> Result<(), Problem> {
        let ready = self.journal.as_ref().map_or(Ok(()), |journal| journal.check_writable());
        ready.map_err(|error| failed("journal", &error))
    }

    /// Writes the line of a request. Nothing of it names a stream, a record or a parameter.
    pub(super) fn tell(&self, caller: &Principal, operation: &str, problem: Option<&Problem>) {
        let incident = match problem {
            Some(Problem::Internal { incident }) => Some(*incident),
            _ => None,
        };
        self.write_line(
            caller,
            format!("v1.{operation}"),
            problem.map_or("ok", |problem| problem.code().0),
            incident,
        );
    }

    /// Writes the line of a tool's call, which may have been several requests.
    pub fn journal_tool_call(
        &self,
        caller: &Principal,
        tool: &str,
        outcome: Result<(), &Map<String, Json>>,
    ) {
        let (code, incident) = match outcome {
            Ok(()) => ("ok", None),
            Err(error) => {
                let code = error.get("code").and_then(Json::as_str).unwrap_or("error");
                (code, error.get("incident").and_then(Json::as_u64))
            }
        };
        self.write_line(caller, tool.to_owned(), code, incident);
    }

    fn write_line(&self, caller: &Principal, tool: String, outcome: &str, incident: Option<u64>) {
        let Some(journal) = &self.journal else { return };
        let line = JournalLine {
            at: String::new(),
            subject: Some(caller.subject().to_owned()),
            token: caller.token().map(str::to_owned),
            client: caller.client().map(str::to_owned),
            tool,
            path: None,
            before: None,
            after: None,
            sections: None,
            truncated: None,
            outcome: outcome.to_owned(),
            incident,
        };
        if let Err(error) = journal.append(line) {
            let _ = stile_store::incident("journal", &error);
        }
    }

    fn remove(&self, caller: &Principal, now: Instant, call: &Call) -> Result<(), Problem> {
        let (owner, permit) = (caller.gate().owner()?, caller.gate().records()?);
        let parameters = Parameters::parse(call.endpoint.parameters, &call.pairs)?;
        let found = self.records.read(&permit, now, |view| {
            let sources = view.sources_of(&call.stream, render::connection(&parameters)?)?;
            let reading = Reading { view, declarations: &self.declarations };
            match detail::the_one(reading, &sources, &call.key) {
                Ok(row) => Ok(sources
                    .get(row.source)
                    .map(|source| (source.connection().clone(), source.stream().clone()))),
                Err(Problem::NotFound) => Ok(None),
                Err(problem) => Err(problem),
            }
        })?;
        let Some((connection, stream)) = found else { return Ok(()) };
        self.records.write_at(&owner, now, |batch| match batch.target(&connection, &stream)? {
            Some(target) => batch.delete(&target, &call.key).map(drop),
            None => Ok(()),
        })
    }
}

impl RecordService {
    fn empty(&self, caller: &Principal, now: Instant, call: &Call) -> Result<(), Problem> {
        let (owner, permit) = (caller.gate().owner()?, caller.gate().records()?);
        let parameters = Parameters::parse(call.endpoint.parameters, &call.pairs)?;
        let (connection, stream) = self.records.read(&permit, now, |view| {
            let sources = view.sources_of(&call.stream, render::connection(&parameters)?)?;
            match sources.as_slice() {
                [source] => Ok((source.connection().clone(), source.stream().clone())),
                several => {
                    Err(Problem::AmbiguousConnection { connections: render::connections(several) })
                }
            }
        })?;
        let last = self.records.write_at(&owner, now, |batch| {
            match batch.target(&connection, &stream)? {
                Some(target) => batch.last_record(&target),
                None => Ok(None),
            }
        })?;
        let Some(last) = last else { return Ok(()) };
        loop {
            let more = self.records.write_at(&owner, now, |batch| {
                match batch.target(&connection, &stream)? {
                    Some(target) => batch.remove_up_to(&target, last),
                    None => Ok(false),
                }
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}

pub(super) fn failed(doing: &'static str, error: &std::io::Error) -> Problem {
    match stile_store::incident(doing, error) {
        Refusal::Internal { incident } => Problem::Internal { incident },
        _ => Problem::Busy,
    }
}
