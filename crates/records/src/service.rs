//! The records service: runs an operation for a caller, whatever the transport is.
//!
//! For each request the service asks the caller's gate for permits, checks the parameters, runs the
//! operation's handler, and writes one line to the journal. No line names a stream, a record or a
//! parameter.

use std::io::{self, BufRead};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use stile_domain::journal::{CallTrace, JournalLine};
use stile_domain::permit::Principal;
use stile_domain::records::authority::{OwnerPermit, RecordsClaim, RecordsPermit};
use stile_domain::records::blob;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadRequest;
use stile_domain::records::request::parameters::Parameters;
use stile_store::journal::Journal;
use stile_store::read_limit::ReadLimit;
use stile_store::records::{Blob, Records, RecordsView};

use crate::connections::is_connection;
use crate::context::{OwnerContext, ReadContext};
use crate::declarations::DeclarationCache;
use crate::media_types;
use crate::operation_declaration::{
    BlobHandler, OperationAccess, OperationCall, OperationDeclaration, ReadHandler, RemoveHandler,
    StoreHandler,
};
use crate::operations::{self, INGEST_RECORDS};
use crate::response_sink::{CountingSink, ResponseSink};
use crate::token_issuer::TokenIssuer;

/// The operations on one database. A clone serves the same database.
#[derive(Clone)]
pub struct RecordService {
    /// The database of the records.
    pub records: Records,
    /// The declarations of its streams.
    pub(crate) declarations: Arc<DeclarationCache>,
    /// One line for each request, which the owner can read.
    journal: Option<Arc<Journal>>,
    /// What makes tokens of grants.
    tokens: Option<Arc<dyn TokenIssuer>>,
    limit: ReadLimit,
}

/// The facts about a blob that precede its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobHead {
    /// The size in bytes.
    pub bytes: u64,
    /// The media type on which the records agree, or `application/octet-stream`.
    pub media_type: String,
    /// Whether a browser may display the blob instead of saving it.
    pub is_safe_inline: bool,
}

impl RecordService {
    /// Serves this database without a journal.
    pub fn new(records: Records) -> Self {
        let (declarations, limit) = (Arc::default(), ReadLimit::none());
        Self { records, declarations, journal: None, tokens: None, limit }
    }

    /// Adds a journal, which gets a line for each request.
    #[must_use]
    pub fn with_journal(self, journal: Arc<Journal>) -> Self {
        Self { journal: Some(journal), ..self }
    }

    /// Adds what makes, revokes and judges tokens for the owner.
    #[must_use]
    pub fn with_token_issuer(self, tokens: Arc<dyn TokenIssuer>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Ends the reads of this value when `limit` is reached.
    #[must_use]
    pub fn within(self, limit: ReadLimit) -> Self {
        Self { limit, ..self }
    }

    /// Answers a request that reads, and writes its line in the journal. Blocks.
    ///
    /// # Errors
    /// What the token, the parameters, the grant or the database rule out. The parts that were
    /// written to `out` before an error are not an answer.
    pub fn answer(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<ReadHandler>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let mut counting = CountingSink::new(out);
        let outcome = self.read(caller, now, call, |context, parameters| {
            (call.handler)(context, &call.target, parameters, &mut counting)
        });
        let shown = counting.into_shown().tally();
        let trace = CallTrace::default().with_records(shown);
        self.journal_request_with(caller, call.operation, (trace, outcome.as_ref().err()));
        outcome
    }

    /// Answers a request from this process, such as one of a tool call. Writes no line in the
    /// journal: the tool's line comes from [`RecordService::journal_tool_call`]. Blocks.
    ///
    /// # Errors
    /// As [`RecordService::answer`].
    pub fn answer_unjournalled(
        &self,
        caller: &Principal,
        now: Instant,
        request: &ReadRequest,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let permit = caller.gate().records()?;
        self.records.read_within(&self.limit, &permit, now, |view| {
            let context = ReadContext { view, declarations: &self.declarations };
            operations::answer(context, request, out)
        })
    }

    /// Returns whether the caller may see at least one record. Looks for one record in one stream
    /// after the other, and writes no line in the journal. Blocks.
    ///
    /// # Errors
    /// If the token does not concern records or the grant has ended; the error of the database.
    pub fn shows_any_record(&self, caller: &Principal, now: Instant) -> Result<bool, Problem> {
        let permit = caller.gate().records()?;
        self.records.read_within(&self.limit, &permit, now, |view| view.shows_any_record())
    }

    /// Removes what a request names. If it is gone already, nothing changes. Blocks.
    ///
    /// # Errors
    /// If the caller is not the owner; what the parameters or the database rule out.
    pub fn remove(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<RemoveHandler>,
    ) -> Result<(), Problem> {
        self.write(caller, now, call, |context, parameters| {
            (call.handler)(context, &call.target, parameters)
        })
    }

    /// Stores the body of a request and returns the answer. Blocks as long as the sender takes.
    ///
    /// # Errors
    /// If the caller is not the owner; what the parameters, the body or the database rule out.
    pub fn store(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<StoreHandler>,
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        self.write(caller, now, call, |context, parameters| {
            (call.handler)(context, &call.target, parameters, body)
        })
    }

    /// Answers the owner, and changes nothing. Blocks as long as the sender of the body takes.
    ///
    /// # Errors
    /// As [`RecordService::store`].
    pub fn inspect(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<StoreHandler>,
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let outcome = self.run_as_owner(caller, now, |context| {
            let parameters = Parameters::parse(call.operation.parameters, &call.target.pairs)?;
            (call.handler)(context, &call.target, &parameters, body)
        });
        self.journal_request(caller, call.operation, outcome.as_ref().err());
        outcome
    }

    /// Returns the size and the type of a blob. Blocks.
    ///
    /// # Errors
    /// What the token, the parameters, the grant or the database rule out;
    /// [`Problem::BlobNotFound`].
    pub fn blob_head(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<BlobHandler>,
    ) -> Result<BlobHead, Problem> {
        let outcome = self.read_blob(caller, now, call, |_, blob| {
            let media_type =
                blob.media_type.unwrap_or_else(|| media_types::OCTET_STREAM.to_owned());
            let is_safe_inline = blob::is_safe_inline(&media_type);
            Ok(BlobHead { bytes: blob.bytes, media_type, is_safe_inline })
        });
        self.journal_request(caller, call.operation, outcome.as_ref().err());
        outcome
    }

    /// Returns at most `max` bytes of a blob from the offset `start` on; empty only at its end.
    /// Each part is authorised anew, so that a grant that ends meanwhile ends the reading. Blocks.
    ///
    /// # Errors
    /// As [`RecordService::blob_head`].
    pub fn blob_part(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<BlobHandler>,
        start: u64,
        max: u64,
    ) -> Result<Vec<u8>, Problem> {
        self.read_blob(caller, now, call, |view, blob| view.blob_bytes(&blob, start, max))
    }

    /// Writes the journal's line for a tool call, which may have made several requests.
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
        self.write_journal_line(caller, tool, CallTrace::default(), (code, incident));
    }

    fn read<H, T>(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<H>,
        read: impl FnOnce(ReadContext<'_>, &Parameters) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if call.operation.access == OperationAccess::OwnerOnly {
            let _owner = caller.gate().owner()?;
        }
        let permit = caller.gate().records()?;
        let parameters = Parameters::parse(call.operation.parameters, &call.target.pairs);
        self.records.read_within(&self.limit, &permit, now, |view| {
            // The error for a grant that has ended comes before any other.
            read(ReadContext { view, declarations: &self.declarations }, &parameters?)
        })
    }

    fn read_blob<T>(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<BlobHandler>,
        read: impl FnOnce(&RecordsView<'_>, Blob) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.read(caller, now, call, |context, parameters| {
            let blob = (call.handler)(context, &call.target, parameters)?;
            read(context.view, blob)
        })
    }

    fn write<H, T>(
        &self,
        caller: &Principal,
        now: Instant,
        call: &OperationCall<H>,
        write: impl FnOnce(OwnerContext<'_>, &Parameters) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let run = || {
            self.check_journal()?;
            self.run_with(permits(caller, call)?, caller, now, |context| {
                let parameters = Parameters::parse(call.operation.parameters, &call.target.pairs)?;
                write(context, &parameters)
            })
        };
        let outcome = run();
        self.journal_request(caller, call.operation, outcome.as_ref().err());
        outcome
    }

    /// Runs what only the owner may do. Writes no line in the journal.
    pub(crate) fn run_as_owner<T, E: From<Problem>>(
        &self,
        caller: &Principal,
        now: Instant,
        run: impl FnOnce(OwnerContext<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let permits = (caller.gate().owner()?, caller.gate().records()?);
        self.run_with(permits, caller, now, run)
    }

    fn run_with<T, E: From<Problem>>(
        &self,
        (owner, reader): (OwnerPermit, RecordsPermit),
        caller: &Principal,
        now: Instant,
        run: impl FnOnce(OwnerContext<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        run(OwnerContext {
            records: &self.records,
            declarations: &self.declarations,
            owner: &owner,
            reader: &reader,
            subject: caller.subject(),
            tokens: self.tokens.as_deref(),
            now,
        })
    }

    /// Refuses a change that could not be journalled, before the change begins.
    fn check_journal(&self) -> Result<(), Problem> {
        let writable = self.journal.as_ref().map_or(Ok(()), |journal| journal.check_writable());
        writable.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::Full,
            _ => Problem::Internal { incident: stile_store::log_incident("journal", &error) },
        })
    }

    fn journal_request(
        &self,
        caller: &Principal,
        operation: &OperationDeclaration,
        problem: Option<&Problem>,
    ) {
        self.journal_request_with(caller, operation, (CallTrace::default(), problem));
    }

    fn journal_request_with(
        &self,
        caller: &Principal,
        operation: &OperationDeclaration,
        (trace, problem): (CallTrace, Option<&Problem>),
    ) {
        let incident = match problem {
            Some(Problem::Internal { incident }) => Some(*incident),
            _ => None,
        };
        let code = problem.map_or("ok", |problem| problem.code().0);
        let trace = if problem.is_none() { trace } else { CallTrace::default() };
        self.write_journal_line(caller, &format!("v1.{}", operation.id), trace, (code, incident));
    }

    fn write_journal_line(
        &self,
        caller: &Principal,
        tool: &str,
        trace: CallTrace,
        (outcome, incident): (&str, Option<u64>),
    ) {
        let Some(journal) = &self.journal else { return };
        let line = JournalLine::for_call(caller, tool, trace, outcome, incident);
        if let Err(error) = journal.append(line) {
            stile_store::log_incident("journal", &error);
        }
    }
}

/// Returns the permits of a request that writes: those of the owner, or those of a caller whose
/// token is for an import into the stream that the request names.
fn permits<H>(
    caller: &Principal,
    call: &OperationCall<H>,
) -> Result<(OwnerPermit, RecordsPermit), Problem> {
    let gate = caller.gate();
    if call.operation.id != INGEST_RECORDS || !matches!(caller.records(), RecordsClaim::Import(_)) {
        return Ok((gate.owner()?, gate.records()?));
    }
    let mut named = call.target.pairs.iter().filter(|(name, _)| is_connection(name));
    let connection = named.next().map_or("", |(_, value)| value.as_str());
    // Two names of the connection that differ would be refused as well, but later.
    let others = named.map(|(_, value)| value.as_str());
    others
        .chain([connection])
        .try_fold(None, |_, name| gate.import(name, &call.target.stream).map(Some))?
        .ok_or(Problem::NotFound)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operations::Operation;
    use crate::test_store::{TestStore, owner};
    use stile_store::cancellation::Cancellation;

    #[test]
    fn a_read_ends_when_its_time_is_over_or_its_client_has_gone() {
        let mut stored = TestStore::new();
        let rows: String = (0..3000)
            .map(|row| format!("{{\"data\":{{\"id\":\"r{row}\",\"n\":{row}}}}}\n"))
            .collect();
        let connection = [("connection_id", "test")];
        stored.ingest(&owner(), "rows", &connection, &mut rows.as_bytes()).unwrap();
        let past = ReadLimit::new(Duration::ZERO, Cancellation::default());
        let gone = Cancellation::default();
        drop(gone.on_drop());
        let left = ReadLimit::new(Duration::from_secs(3600), gone);
        let count = |store: &TestStore| {
            let parameters = [("metric", "count"), ("group_by", "n")];
            store.read(Operation::AggregateRecords, "rows", "", &parameters)
        };
        for limit in [past, left] {
            stored.service = stored.service.clone().within(limit);
            assert_eq!(count(&stored), Err(Problem::QueryTooBroad));
        }
        // The database serves other reads as before.
        stored.service = stored.service.clone().within(ReadLimit::none());
        assert!(
            stored.read(Operation::AggregateRecords, "rows", "", &[("metric", "count")]).is_ok()
        );
    }
}
