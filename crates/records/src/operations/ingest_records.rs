//! `POST /v1/ingest/{stream}`: stores records that arrive as JSON Lines.
//!
//! A line is a record's data, or an envelope `{key?, data, emitted_at?, op?, stream?}`: an object
//! with only these members whose `data` is an object. An envelope with `"op":"delete"` needs no
//! data, and a token for an import may not send one. Lines are stored in batches, as in an import.
//! If the sender disconnects, the complete batches remain and the rest is dropped. A sender can
//! repeat everything: records that are stored already do not change.
//!
//! If the stream does not exist, the first batch decides its declaration.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::blob;
use stile_domain::records::declaration::{Declaration, Semantics};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::records::{IncomingRecord, TargetStream, UpsertOutcome, WriteBatch};

use crate::batch::{BATCH_BYTES, store_record};
use crate::context::OwnerContext;
use crate::declarations::{indexed_fields, parse_stored};
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;
use crate::rows::json_lines::JsonLines;
use crate::rows::row_keys::RowKeys;
use crate::rows::{DecodedRow, RowDecoder as _};

/// The identifier of the operation, which tokens for an import may call.
pub(crate) const ID: &str = "ingestRecords";

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: ID,
    method: OperationMethod::Post,
    path: "/v1/ingest/{stream}",
    about: "Stores records that come as JSON Lines. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    body: Some(BodyDeclaration {
        media_type: "application/x-ndjson",
        about: "One record on each line. An empty body is valid.",
    }),
    response: ResponseDeclaration {
        status: 200,
        about: "The answer.",
        content: ResponseContent::Json {
            object: None,
            required: &["stream", "records_attempted", "records_accepted", "records_rejected"],
        },
    },
    other_responses: &[],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Store(ingest_records),
};

/// The greatest number of rows of a batch. Small, so that other writers do not wait long.
const BATCH_ROWS: usize = 1000;
/// The greatest number of rejections that an answer lists. The answer counts all of them.
const MAX_REJECTIONS: usize = 100;
/// The members of an envelope.
const ENVELOPE_MEMBERS: [&str; 5] = ["key", "data", "emitted_at", "op", "stream"];

struct IngestLine {
    number: u64,
    change: Result<RecordChange, Rejection>,
}

/// The change that a line asks for.
struct RecordChange {
    key: Option<String>,
    fields: RecordFields,
    emitted: Option<Instant>,
    operation: ChangeOperation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeOperation {
    Upsert,
    Delete,
}

impl RecordChange {
    fn is_delete(&self) -> bool {
        self.operation == ChangeOperation::Delete
    }
}

/// Why a line is not stored.
struct Rejection {
    code: &'static str,
    message: String,
}

fn rejected<T>(code: &'static str, message: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection { code, message: message.into() })
}

/// The state of an ingest between its batches.
struct Ingest<'a> {
    connection: SourceName,
    stream: &'a SourceName,
    now: Instant,
    plan: Option<IngestPlan>,
    counts: IngestCounts,
}

/// The stream as the first batch found or declared it.
struct IngestPlan {
    text: String,
    declaration: Declaration,
    keys: RowKeys,
}

#[derive(Clone, Default)]
struct IngestCounts {
    attempted: u64,
    rejected: u64,
    unchanged: u64,
    rejections: Vec<Json>,
}

/// Stores the lines of a body and reports how many were stored. A failure before the first batch is
/// an error. Later failures are in the answer, beside the counts of what was stored until then.
fn ingest_records(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let stream = SourceName::parse(&target.stream)
        .map_err(|bad| Problem::invalid("stream", bad.to_string()))?;
    let connection = context.target_connection(&stream, NamedConnection::of(parameters).name()?)?;
    let mut ingest = Ingest {
        connection,
        stream: &stream,
        now: context.now,
        plan: None,
        counts: IngestCounts::default(),
    };
    let mut lines = JsonLines::new(body);
    let mut errors = Vec::new();
    let mut stored = false;
    loop {
        let batch = match next_batch(&mut lines, &stream) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => batch,
            Err(()) => {
                errors.push(json!({
                    "code": "incomplete_body",
                    "message": "the body ended before it was whole; what came before its last batch is stored",
                }));
                break;
            }
        };
        let before = ingest.counts.clone();
        match ingest.store(context, &batch) {
            Ok(()) => stored = true,
            Err(problem) if !stored => return Err(problem),
            Err(problem) => {
                ingest.counts = before;
                errors.push(Json::Object(problem.to_json()));
                break;
            }
        }
    }
    let IngestCounts { attempted, rejected, unchanged, rejections } = ingest.counts;
    Ok(json!({
        "stream": stream, "connection_id": ingest.connection,
        "records_attempted": attempted, "records_accepted": attempted - rejected,
        "records_rejected": rejected, "records_unchanged": unchanged,
        "rejections": rejections, "errors": errors,
    }))
}

impl Ingest<'_> {
    /// Stores one batch of lines in one transaction.
    fn store(&mut self, context: OwnerContext<'_>, lines: &[IngestLine]) -> Result<(), Problem> {
        context.records.write(context.owner, |batch| {
            let target = match (batch.target(&self.connection, self.stream)?, &self.plan) {
                (Some(target), Some(plan)) if plan.text == target.declaration => Some(target),
                (Some(_), Some(_)) => {
                    let message = "the stream was declared anew meanwhile; send what is left again";
                    return Err(Problem::InvalidDeclaration { message: message.to_owned() });
                }
                (Some(target), None) => {
                    self.plan = Some(IngestPlan::new(
                        target.declaration.clone(),
                        parse_stored(&target.declaration)?,
                    ));
                    Some(target)
                }
                (None, _) => self.declare(batch, lines)?,
            };
            for line in lines {
                self.counts.attempted += 1;
                let outcome = match (&line.change, &mut self.plan, &target) {
                    (Err(Rejection { code, message }), ..) => rejected(code, message.as_str()),
                    (Ok(change), ..) if change.is_delete() && !context.owner.may_delete() => {
                        rejected("insufficient_scope", "this token imports, and deletes no record")
                    }
                    (Ok(change), Some(plan), Some(target)) => {
                        apply(batch, target, plan, change, self.now)?
                    }
                    // Without a declaration there was no line with data. What remains are
                    // deletions, and the stream has nothing to delete.
                    (Ok(_), ..) => Ok(UpsertOutcome::Unchanged),
                };
                self.counts.add(line.number, outcome);
            }
            Ok(())
        })
    }

    /// Declares the stream by inference over these lines. Returns `None` if no line has data.
    fn declare(
        &mut self,
        batch: &mut WriteBatch<'_>,
        lines: &[IngestLine],
    ) -> Result<Option<TargetStream>, Problem> {
        let upserts = || {
            let changes = lines.iter().filter_map(|line| line.change.as_ref().ok());
            changes.filter(|change| !change.is_delete())
        };
        let infer = |choice| {
            let mut inference = Inference::new();
            upserts().for_each(|change| inference.observe(&change.fields));
            let inferred = inference.finish(choice);
            inferred.map_err(|bad| Problem::InvalidDeclaration { message: bad.to_string() })
        };
        if upserts().next().is_none() {
            return Ok(None);
        }
        let mut declaration = infer(KeyChoice::Infer)?.declaration;
        let keys = RowKeys::new(declaration.primary_key());
        let differs = |change: &RecordChange| {
            change.key.as_ref().is_some_and(|key| {
                keys.primary(&change.fields).is_ok_and(|own| own.as_str() != key)
            })
        };
        // The sender's keys take precedence over a field that was inferred to be the key.
        if !keys.are_from_content() && upserts().any(differs) {
            declaration = infer(KeyChoice::Given(Vec::new()))?.declaration;
        }
        let text = declaration.to_json().to_string();
        let target =
            batch.declare(&self.connection, self.stream, &text, &indexed_fields(&declaration))?;
        self.plan = Some(IngestPlan::new(text, declaration));
        Ok(Some(target))
    }
}

impl IngestPlan {
    fn new(text: String, declaration: Declaration) -> Self {
        let keys = RowKeys::of(&declaration);
        Self { text, declaration, keys }
    }

    /// Returns the key of a record: the sender's, or that of the primary key. If there are both,
    /// they must be equal.
    fn key(&mut self, change: &RecordChange) -> Result<RecordKey, Rejection> {
        let sent = match &change.key {
            None => None,
            Some(key) => match RecordKey::parse(key) {
                Ok(key) => Some(key),
                Err(bad) => return rejected("invalid_record_identity", format!("`key`: {bad}")),
            },
        };
        let own = if self.keys.are_from_content() {
            None
        } else {
            Some(self.keys.primary(&change.fields))
        };
        match (sent, own) {
            (Some(sent), Some(Ok(own))) if sent != own => rejected(
                "invalid_record_identity",
                "`key` differs from what the primary key of the stream says in `data`",
            ),
            (Some(sent), _) => Ok(sent),
            (None, Some(own)) => own.or_else(|error| rejected(error.code(), error.to_string())),
            (None, None) if change.is_delete() => {
                rejected("key_missing", "a record is deleted by its `key`")
            }
            (None, None) => self
                .keys
                .next_key(&change.fields)
                .or_else(|error| rejected(error.code(), error.to_string())),
        }
    }
}

impl IngestCounts {
    fn add(&mut self, line: u64, outcome: Result<UpsertOutcome, Rejection>) {
        let Rejection { code, message } = match outcome {
            Ok(UpsertOutcome::Added | UpsertOutcome::Changed) => return,
            Ok(UpsertOutcome::Unchanged) => {
                self.unchanged += 1;
                return;
            }
            Ok(UpsertOutcome::Refused(why)) => {
                Rejection { code: "not_stored", message: why.to_string() }
            }
            Err(rejection) => rejection,
        };
        self.rejected += 1;
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections.push(json!({ "line": line, "code": code, "message": message }));
        }
    }
}

/// Applies the change of one line.
fn apply(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    plan: &mut IngestPlan,
    change: &RecordChange,
    now: Instant,
) -> Result<Result<UpsertOutcome, Rejection>, Problem> {
    let key = match plan.key(change) {
        Ok(key) => key,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let semantics = plan.declaration.semantics();
    if change.is_delete() {
        if semantics == Semantics::AppendOnly {
            return Ok(rejected("invalid_op", "records of this stream are only added"));
        }
        let was_there = batch.delete(target, key.as_str())?;
        return Ok(Ok(if was_there { UpsertOutcome::Changed } else { UpsertOutcome::Unchanged }));
    }
    let incoming = IncomingRecord {
        key: &key,
        emitted: change.emitted.unwrap_or(now),
        fields: &change.fields,
        streamed: Vec::new(),
    };
    store_record(batch, target, semantics, incoming, None).map(Ok)
}

/// Reads the lines of the next batch; no line at the end of the body.
fn next_batch(
    lines: &mut JsonLines<&mut dyn BufRead>,
    stream: &SourceName,
) -> Result<Vec<IngestLine>, ()> {
    let mut batch = Vec::new();
    let start = lines.consumed();
    while batch.len() < BATCH_ROWS && lines.consumed() - start < BATCH_BYTES {
        let Some(DecodedRow { line, row }) = lines.next().map_err(drop)? else { break };
        let change = match row {
            Ok(row) => parse_change(row.fields, stream).map(|mut change| {
                blob::add_fetch_urls(&mut change.fields);
                change
            }),
            Err(error) => rejected(error.code(), error.to_string()),
        };
        batch.push(IngestLine { number: line, change });
    }
    Ok(batch)
}

/// Parses the change that a line asks for: an envelope, or the data of a record.
fn parse_change(mut fields: RecordFields, stream: &SourceName) -> Result<RecordChange, Rejection> {
    let member = |fields: &RecordFields, name: &str| -> Option<FieldValue> {
        let value =
            fields.iter().find(|(member, _)| member == name).map(|(_, value)| value.clone());
        value.filter(|value| *value != FieldValue::Null)
    };
    let has = |name: &str| fields.iter().any(|(member, _)| member == name);
    let is_delete =
        |fields: &RecordFields| member(fields, "op") == Some(FieldValue::Text("delete".to_owned()));
    let data = fields.iter().find(|(name, _)| name == "data").map(|(_, value)| value);
    let has_data = matches!(data, Some(FieldValue::Json(json)) if json.starts_with('{'));
    let known = fields.iter().all(|(name, _)| ENVELOPE_MEMBERS.contains(&name.as_str()));
    let without_data =
        has("key") && matches!(data, None | Some(FieldValue::Null)) && is_delete(&fields);
    if !known || !(has_data || without_data) {
        let operation = ChangeOperation::Upsert;
        return Ok(RecordChange { key: None, fields, emitted: None, operation });
    }
    let data =
        match fields.iter().position(|(name, _)| name == "data").map(|at| fields.swap_remove(at)) {
            Some((_, FieldValue::Json(json))) => match row::parse(json.as_bytes()) {
                Ok(row) => row.fields,
                Err(bad) => return rejected(bad.fault.code(), format!("`data`: {}", bad.fault)),
            },
            _ => RecordFields::new(),
        };
    if member(&fields, "stream").is_some_and(|named| named.scalar_text() != Some(stream.as_str())) {
        return rejected(
            "wrong_stream",
            format!("`stream` is not `{stream}`; send each stream to its own address"),
        );
    }
    let operation = match member(&fields, "op").as_ref().map(FieldValue::scalar_text) {
        None | Some(Some("upsert")) => ChangeOperation::Upsert,
        Some(Some("delete")) => ChangeOperation::Delete,
        _ => return rejected("invalid_op", "`op` must be `upsert` or `delete`"),
    };
    let emitted = match member(&fields, "emitted_at") {
        None => None,
        Some(FieldValue::Text(text)) if Instant::parse(&text).is_some() => Instant::parse(&text),
        _ => {
            return rejected(
                "invalid_emitted_at",
                "`emitted_at` must be a time such as 2026-01-31T12:00:00Z",
            );
        }
    };
    let key = match member(&fields, "key") {
        None => None,
        Some(FieldValue::Json(json)) if serde_json::from_str::<Vec<String>>(&json).is_ok() => {
            Some(json)
        }
        Some(FieldValue::Json(_)) => {
            return rejected("invalid_record_identity", "`key` must be a text or a list of texts");
        }
        Some(scalar) => scalar.scalar_text().map(str::to_owned),
    };
    Ok(RecordChange { key, fields: data, emitted, operation })
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read};
    use std::sync::Arc;

    use stile_domain::records::authority::{ImportClaim, RecordsClaim};

    use super::*;
    use crate::test_store::{TestStore, owner, principal};

    fn ingest(store: &TestStore, parameters: &[(&str, &str)], body: &str) -> Result<Json, String> {
        let answer = store.ingest(&owner(), "messages", parameters, &mut body.as_bytes());
        answer.map_err(|problem| format!("{}: {problem}", problem.code().0))
    }

    const MAIL: &[(&str, &str)] = &[("connection_id", "mail")];

    #[test]
    fn a_line_is_data_or_an_envelope() {
        let store = TestStore::new();
        let body = "{\"id\":\"a\",\"at\":\"2026-01-01\",\"text\":\"one\"}\n\n\
            {\"key\":\"b\",\"data\":{\"id\":\"b\",\"text\":\"two\"},\"emitted_at\":\"2026-01-02T00:00:00Z\",\"op\":\"upsert\",\"stream\":\"messages\"}\n\
            {\"data\":{\"id\":\"c\"}}\n";
        let answer = ingest(&store, MAIL, body).unwrap();
        assert_eq!(
            answer.to_string(),
            r#"{"stream":"messages","connection_id":"mail","records_attempted":3,"records_accepted":3,"records_rejected":0,"records_unchanged":0,"rejections":[],"errors":[]}"#
        );
        assert_eq!(
            ingest(&store, &[], body).unwrap()["records_unchanged"],
            3,
            "again, and without naming the connection"
        );
        let record = store.record("messages", "b");
        assert_eq!(
            (&record["emitted_at"], &record["data"]["text"]),
            (&"2026-01-02T00:00:00Z".into(), &"two".into())
        );
        let deleted = ingest(
            &store,
            MAIL,
            "{\"op\":\"delete\",\"key\":\"b\"}\n{\"op\":\"delete\",\"data\":{\"id\":\"c\"}}",
        )
        .unwrap();
        assert_eq!(
            (&deleted["records_accepted"], &deleted["records_unchanged"]),
            (&2.into(), &0.into())
        );
        assert_eq!(store.keys("messages"), ["a"]);
    }

    #[test]
    fn a_token_for_an_import_deletes_nothing() {
        let store = TestStore::new();
        ingest(&store, MAIL, "{\"id\":\"a\"}\n{\"id\":\"b\"}").unwrap();
        let name = |text: &str| SourceName::parse(text).unwrap();
        let import = ImportClaim { connection: name("mail"), stream: name("messages") };
        let importer = principal(RecordsClaim::Import(Arc::new(import)));
        let body = "{\"op\":\"delete\",\"key\":\"a\"}\n{\"id\":\"b\",\"text\":\"new\"}";
        let answer = store.ingest(&importer, "messages", MAIL, &mut body.as_bytes()).unwrap();
        let counts = (&answer["records_accepted"], &answer["records_rejected"]);
        assert_eq!(counts, (&1.into(), &1.into()));
        assert_eq!(answer["rejections"][0]["code"], "insufficient_scope");
        assert_eq!(store.keys("messages"), ["a", "b"]);
        assert_eq!(store.record("messages", "b")["data"]["text"], "new");
    }

    #[test]
    fn a_bad_line_is_rejected_and_the_others_are_stored() {
        let store = TestStore::new();
        ingest(&store, MAIL, "{\"id\":\"a\"}").unwrap();
        let lines = [
            r#"{"key":"x","data":{"id":"y"}}"#,
            r#"{"data":{"text":"no id"}}"#,
            r#"{"data":{"id":"z"},"op":"merge"}"#,
            r#"{"data":{"id":"z"},"emitted_at":"soon"}"#,
            r#"{"data":{"id":"z"},"stream":"others"}"#,
            r#"{"key":{},"data":{"id":"z"}}"#,
            r#"{"data":{"":1}}"#,
            r#"{"id":"z","id":"z"}"#,
            "nonsense",
            r#"{"id":"good"}"#,
        ];
        let answer = ingest(&store, MAIL, &lines.join("\n")).unwrap();
        let codes: Vec<String> = answer["rejections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rejection| {
                format!("{} {}", rejection["line"], rejection["code"].as_str().unwrap())
            })
            .collect();
        insta::assert_snapshot!(codes.join("\n"));
        assert_eq!(
            (&answer["records_accepted"], &answer["records_rejected"]),
            (&1.into(), &9.into())
        );
    }

    #[test]
    fn the_senders_keys_take_precedence_over_a_field_that_looks_like_a_key() {
        let store = TestStore::new();
        ingest(
            &store,
            MAIL,
            "{\"key\":\"k1\",\"data\":{\"id\":1}}\n{\"key\":\"k2\",\"data\":{\"id\":2}}",
        )
        .unwrap();
        assert_eq!(store.keys("messages"), ["k1", "k2"]);
    }

    #[test]
    fn a_wrong_request_stores_nothing() {
        let store = TestStore::new();
        assert!(
            ingest(&store, &[], "{}")
                .unwrap_err()
                .starts_with("invalid_request: there is no stream")
        );
        assert!(
            ingest(&store, &[("connection_id", "a/b")], "{}")
                .unwrap_err()
                .starts_with("invalid_request")
        );
        assert!(ingest(&store, &[("mode", "x")], "{}").unwrap_err().starts_with("invalid_request"));
        let client = principal(RecordsClaim::Grant("g".into()));
        let refused = store.ingest(&client, "messages", &[], &mut &b"{}"[..]);
        assert_eq!(refused.unwrap_err().code(), ("insufficient_scope", 403));
        let none = ingest(&store, MAIL, "{\"key\":\"k\",\"op\":\"delete\"}").unwrap();
        assert_eq!(none["records_unchanged"], 1);
        assert!(store.streams().is_empty(), "a deletion declares nothing");
    }

    /// A body of this many lines that then fails.
    struct InterruptedBody(usize);

    impl Read for InterruptedBody {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::ConnectionReset)?;
            let line = format!("{{\"id\":{}}}\n", self.0);
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    #[test]
    fn complete_batches_remain_when_the_sender_disconnects() {
        let store = TestStore::new();
        let mut body = BufReader::new(InterruptedBody(BATCH_ROWS + 50));
        let answer = store.ingest(&owner(), "messages", MAIL, &mut body).unwrap();
        assert_eq!(answer["records_accepted"], BATCH_ROWS);
        assert_eq!(answer["errors"][0]["code"], "incomplete_body");
        assert_eq!(store.count("messages"), BATCH_ROWS as u64);
    }
}
