//! `POST /v1/ingest/{stream}`: records that come as JSON Lines, from a source that sends as it
//! goes.
//!
//! A line is a record's data, or an envelope `{key?, data, emitted_at?, op?, stream?}` around it:
//! an object all of whose members are among these and whose `data` is an object. An envelope with
//! `"op":"delete"` needs no data. Lines are stored in batches like those of an import. Where the
//! sender goes away in the middle, whole batches remain and the rest was never there; sending
//! everything again changes nothing that is stored already.
//!
//! A stream that there is not yet is declared by inference over the first batch.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::blob;
use stile_domain::records::declaration::{Declaration, Semantics};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::records::{IncomingRecord, TargetStream, UpsertOutcome, WriteBatch};

use super::RecordService;
use super::endpoints;
use super::parameters::Parameters;
use super::render::connection;
use crate::batch::{BATCH_BYTES, store_record};
use crate::declarations::{indexed_fields, parse_stored};
use crate::rows::json_lines::JsonLines;
use crate::rows::row_keys::RowKeys;
use crate::rows::{DecodedRow, RowDecoder as _};

/// Rejections that an answer lists; all are counted.
const REJECTIONS: usize = 100;
/// The members of an envelope.
const MEMBERS: [&str; 5] = ["key", "data", "emitted_at", "op", "stream"];

/// A line that was read.
struct Line {
    number: u64,
    sent: Result<Sent, Rejected>,
}

/// What a line says.
struct Sent {
    key: Option<String>,
    fields: RecordFields,
    emitted: Option<Instant>,
    delete: bool,
}

/// Why a line is not stored.
struct Rejected {
    code: &'static str,
    message: String,
}

fn rejected<T>(code: &'static str, message: impl Into<String>) -> Result<T, Rejected> {
    Err(Rejected { code, message: message.into() })
}

/// What an ingest goes on with.
struct Ingest<'a> {
    connection: SourceName,
    stream: &'a SourceName,
    now: Instant,
    plan: Option<Plan>,
    tally: Tally,
}

/// The stream, as it was at the first batch.
struct Plan {
    text: String,
    declaration: Declaration,
    keys: RowKeys,
}

#[derive(Clone, Default)]
struct Tally {
    attempted: u64,
    rejected: u64,
    unchanged: u64,
    rejections: Vec<Json>,
}

/// The most rows of a batch: few, so that others who write are not kept waiting.
const INGEST_ROWS: usize = 1000;

impl RecordService {
    /// Stores what comes, and says what became of it. Blocks, as long as the sender takes.
    ///
    /// # Errors
    /// Where the caller is not the owner; what the parameters say against it; what the database
    /// says before anything was stored. Later failures are in the answer, beside what was stored
    /// until then.
    pub fn ingest(
        &self,
        caller: &Principal,
        now: Instant,
        stream: &str,
        pairs: &[(String, String)],
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let outcome = self.ready().and_then(|()| self.take_in(caller, now, stream, pairs, body));
        self.tell(caller, endpoints::INGEST.id, outcome.as_ref().err());
        outcome
    }

    fn take_in(
        &self,
        caller: &Principal,
        now: Instant,
        stream: &str,
        pairs: &[(String, String)],
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let owner = caller.gate().owner()?;
        let parameters = Parameters::parse(endpoints::INGEST.parameters, pairs)?;
        let stream =
            SourceName::parse(stream).map_err(|bad| Problem::invalid("stream", bad.to_string()))?;
        let connection = self.connection_for(caller, now, &stream, connection(&parameters)?)?;
        let mut ingest =
            Ingest { connection, stream: &stream, now, plan: None, tally: Tally::default() };
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
            let before = ingest.tally.clone();
            match ingest.store(self, &owner, &batch) {
                Ok(()) => stored = true,
                Err(problem) if !stored => return Err(problem),
                Err(problem) => {
                    ingest.tally = before;
                    errors.push(Json::Object(problem.to_json()));
                    break;
                }
            }
        }
        let Tally { attempted, rejected, unchanged, rejections } = ingest.tally;
        Ok(json!({
            "stream": stream, "connection_id": ingest.connection,
            "records_attempted": attempted, "records_accepted": attempted - rejected,
            "records_rejected": rejected, "records_unchanged": unchanged,
            "rejections": rejections, "errors": errors,
        }))
    }

    /// The connection that was named, or the only one that has the stream.
    fn connection_for(
        &self,
        caller: &Principal,
        now: Instant,
        stream: &SourceName,
        named: Option<&str>,
    ) -> Result<SourceName, Problem> {
        if let Some(named) = named {
            return SourceName::parse(named)
                .map_err(|bad| Problem::invalid("connection_id", bad.to_string()));
        }
        let permit = caller.gate().records()?;
        self.records.read(&permit, now, |view| match view.sources_of(stream.as_str(), None) {
            Ok(sources) => match sources.as_slice() {
                [only] => Ok(only.connection().clone()),
                _ => Err(Problem::AmbiguousConnection { connections: super::render::connections(&sources) }),
            },
            Err(Problem::StreamNotFound { .. }) => {
                let message =
                    format!("there is no stream `{stream}` yet; send `connection_id` to declare it in that connection");
                Err(Problem::invalid("connection_id", message))
            }
            Err(problem) => Err(problem),
        })
    }
}

impl Ingest<'_> {
    fn store(
        &mut self,
        services: &RecordService,
        owner: &OwnerPermit,
        lines: &[Line],
    ) -> Result<(), Problem> {
        services.records.write(owner, |batch| {
            let target = match (batch.target(&self.connection, self.stream)?, &self.plan) {
                (Some(target), Some(plan)) if plan.text == target.declaration => Some(target),
                (Some(_), Some(_)) => {
                    let message = "the stream was declared anew meanwhile; send what is left again";
                    return Err(Problem::InvalidDeclaration { message: message.to_owned() });
                }
                (Some(target), None) => {
                    self.plan = Some(Plan::new(
                        target.declaration.clone(),
                        parse_stored(&target.declaration)?,
                    ));
                    Some(target)
                }
                (None, _) => self.declare(batch, lines)?,
            };
            for line in lines {
                self.tally.attempted += 1;
                let outcome = match (&line.sent, &mut self.plan, &target) {
                    (Err(Rejected { code, message }), ..) => rejected(code, message.as_str()),
                    (Ok(sent), Some(plan), Some(target)) => {
                        one(batch, target, plan, sent, self.now)?
                    }
                    // Nothing is declared because there was nothing to store: there is nothing to
                    // delete either.
                    (Ok(_), ..) => Ok(UpsertOutcome::Unchanged),
                };
                self.tally.count(line.number, outcome);
            }
            Ok(())
        })
    }

    /// Declares the stream as these lines look. None where no line has data.
    fn declare(
        &mut self,
        batch: &mut WriteBatch<'_>,
        lines: &[Line],
    ) -> Result<Option<TargetStream>, Problem> {
        let sent =
            || lines.iter().filter_map(|line| line.sent.as_ref().ok()).filter(|sent| !sent.delete);
        let infer = |choice| {
            let mut inference = Inference::new();
            sent().for_each(|sent| inference.observe(&sent.fields));
            let inferred = inference.finish(choice);
            inferred.map_err(|bad| Problem::InvalidDeclaration { message: bad.to_string() })
        };
        if sent().next().is_none() {
            return Ok(None);
        }
        let mut declaration = infer(KeyChoice::Infer)?.declaration;
        let keys = RowKeys::new(declaration.primary_key());
        let differs = |sent: &Sent| {
            sent.key
                .as_ref()
                .is_some_and(|key| keys.primary(&sent.fields).is_ok_and(|own| own.as_str() != key))
        };
        // The sender's own keys are the keys, so a field that only looks like one is none.
        if !keys.from_content() && sent().any(differs) {
            declaration = infer(KeyChoice::Given(Vec::new()))?.declaration;
        }
        let text = declaration.to_json().to_string();
        let target =
            batch.declare(&self.connection, self.stream, &text, &indexed_fields(&declaration))?;
        self.plan = Some(Plan::new(text, declaration));
        Ok(Some(target))
    }
}

impl Plan {
    fn new(text: String, declaration: Declaration) -> Self {
        let keys = RowKeys::new(declaration.primary_key());
        Self { text, declaration, keys }
    }

    /// The key of what was sent: the sender's and that of the primary key, which must be one where
    /// both are there.
    fn key(&mut self, sent: &Sent) -> Result<RecordKey, Rejected> {
        let given = match &sent.key {
            None => None,
            Some(key) => match RecordKey::parse(key) {
                Ok(key) => Some(key),
                Err(bad) => return rejected("invalid_record_identity", format!("`key`: {bad}")),
            },
        };
        let own =
            if self.keys.from_content() { None } else { Some(self.keys.primary(&sent.fields)) };
        match (given, own) {
            (Some(given), Some(Ok(own))) if given != own => rejected(
                "invalid_record_identity",
                "`key` differs from what the primary key of the stream says in `data`",
            ),
            (Some(given), _) => Ok(given),
            (None, Some(own)) => own.or_else(|why| rejected(why.code(), why.to_string())),
            (None, None) if sent.delete => {
                rejected("key_missing", "a record is deleted by its `key`")
            }
            (None, None) => {
                self.keys.next(&sent.fields).or_else(|why| rejected(why.code(), why.to_string()))
            }
        }
    }
}

impl Tally {
    fn count(&mut self, line: u64, outcome: Result<UpsertOutcome, Rejected>) {
        let Rejected { code, message } = match outcome {
            Ok(UpsertOutcome::Added | UpsertOutcome::Changed) => return,
            Ok(UpsertOutcome::Unchanged) => {
                self.unchanged += 1;
                return;
            }
            Ok(UpsertOutcome::Refused(why)) => {
                Rejected { code: "not_stored", message: why.to_string() }
            }
            Err(rejected) => rejected,
        };
        self.rejected += 1;
        if self.rejections.len() < REJECTIONS {
            self.rejections.push(json!({ "line": line, "code": code, "message": message }));
        }
    }
}

/// Does what one line says.
fn one(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    plan: &mut Plan,
    sent: &Sent,
    now: Instant,
) -> Result<Result<UpsertOutcome, Rejected>, Problem> {
    let key = match plan.key(sent) {
        Ok(key) => key,
        Err(rejected) => return Ok(Err(rejected)),
    };
    if sent.delete {
        if plan.declaration.semantics() == Semantics::AppendOnly {
            return Ok(rejected("invalid_op", "records of this stream are only added"));
        }
        let was_there = batch.delete(target, key.as_str())?;
        return Ok(Ok(if was_there { UpsertOutcome::Changed } else { UpsertOutcome::Unchanged }));
    }
    let emitted = sent.emitted.unwrap_or(now);
    let incoming =
        IncomingRecord { key: &key, emitted, fields: &sent.fields, streamed: Vec::new() };
    store_record(batch, target, plan.declaration.semantics(), incoming).map(Ok)
}

/// The lines of the next batch; none at the end of the body.
fn next_batch(
    lines: &mut JsonLines<&mut dyn BufRead>,
    stream: &SourceName,
) -> Result<Vec<Line>, ()> {
    let mut batch = Vec::new();
    let begun = lines.consumed();
    while batch.len() < INGEST_ROWS && lines.consumed() - begun < BATCH_BYTES {
        let Some(DecodedRow { line, row }) = lines.next().map_err(drop)? else { break };
        let sent = match row {
            Ok(row) => sent(row.fields, stream).map(|mut sent| {
                blob::add_fetch_urls(&mut sent.fields);
                sent
            }),
            Err(bad) => rejected(bad.code(), bad.to_string()),
        };
        batch.push(Line { number: line, sent });
    }
    Ok(batch)
}

/// What a line says: an envelope, or data.
fn sent(mut fields: RecordFields, stream: &SourceName) -> Result<Sent, Rejected> {
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
    let known = fields.iter().all(|(name, _)| MEMBERS.contains(&name.as_str()));
    let without_data =
        has("key") && matches!(data, None | Some(FieldValue::Null)) && is_delete(&fields);
    if !known || !(has_data || without_data) {
        return Ok(Sent { key: None, fields, emitted: None, delete: false });
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
    let delete = match member(&fields, "op").as_ref().map(FieldValue::scalar_text) {
        None | Some(Some("upsert")) => false,
        Some(Some("delete")) => true,
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
    Ok(Sent { key, fields: data, emitted, delete })
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read};

    use stile_domain::records::authority::RecordsClaim;

    use super::*;
    use crate::rig::{Rig, owner, principal, rig};

    fn ingest(rig: &Rig, pairs: &[(&str, &str)], body: &str) -> Result<Json, String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        let answer =
            rig.services.ingest(&owner(), Instant(7), "messages", &pairs, &mut body.as_bytes());
        answer.map_err(|problem| format!("{}: {problem}", problem.code().0))
    }

    const MAIL: &[(&str, &str)] = &[("connection_id", "mail")];

    #[test]
    fn lines_are_data_or_envelopes_around_it() {
        let rig = rig();
        let body = "{\"id\":\"a\",\"at\":\"2026-01-01\",\"text\":\"one\"}\n\n\
            {\"key\":\"b\",\"data\":{\"id\":\"b\",\"text\":\"two\"},\"emitted_at\":\"2026-01-02T00:00:00Z\",\"op\":\"upsert\",\"stream\":\"messages\"}\n\
            {\"data\":{\"id\":\"c\"}}\n";
        let answer = ingest(&rig, MAIL, body).unwrap();
        assert_eq!(
            answer.to_string(),
            r#"{"stream":"messages","connection_id":"mail","records_attempted":3,"records_accepted":3,"records_rejected":0,"records_unchanged":0,"rejections":[],"errors":[]}"#
        );
        assert_eq!(
            ingest(&rig, &[], body).unwrap()["records_unchanged"],
            3,
            "again, and without naming the connection"
        );
        let told = rig.record("messages", "b");
        assert_eq!(
            (&told["emitted_at"], &told["data"]["text"]),
            (&"2026-01-02T00:00:00Z".into(), &"two".into())
        );
        let gone = ingest(
            &rig,
            MAIL,
            "{\"op\":\"delete\",\"key\":\"b\"}\n{\"op\":\"delete\",\"data\":{\"id\":\"c\"}}",
        )
        .unwrap();
        assert_eq!((&gone["records_accepted"], &gone["records_unchanged"]), (&2.into(), &0.into()));
        assert_eq!(rig.keys("messages"), ["a"]);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_and_the_others_are_stored() {
        let rig = rig();
        ingest(&rig, MAIL, "{\"id\":\"a\"}").unwrap();
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
        let answer = ingest(&rig, MAIL, &lines.join("\n")).unwrap();
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
    fn the_senders_keys_go_before_a_field_that_looks_like_one() {
        let rig = rig();
        ingest(
            &rig,
            MAIL,
            "{\"key\":\"k1\",\"data\":{\"id\":1}}\n{\"key\":\"k2\",\"data\":{\"id\":2}}",
        )
        .unwrap();
        assert_eq!(rig.keys("messages"), ["k1", "k2"]);
    }

    #[test]
    fn a_request_that_is_wrong_stores_nothing() {
        let rig = rig();
        assert!(
            ingest(&rig, &[], "{}").unwrap_err().starts_with("invalid_request: there is no stream")
        );
        assert!(
            ingest(&rig, &[("connection_id", "a/b")], "{}")
                .unwrap_err()
                .starts_with("invalid_request")
        );
        assert!(ingest(&rig, &[("mode", "x")], "{}").unwrap_err().starts_with("invalid_request"));
        let client = principal(RecordsClaim::Grant("g".into()));
        let refused = rig.services.ingest(&client, Instant(0), "messages", &[], &mut &b"{}"[..]);
        assert_eq!(refused.unwrap_err().code(), ("insufficient_scope", 403));
        let none = ingest(&rig, MAIL, "{\"key\":\"k\",\"op\":\"delete\"}").unwrap();
        assert_eq!(none["records_unchanged"], 1);
        assert!(rig.streams().is_empty(), "a deletion declares nothing");
    }

    /// Lines, and then an error.
    struct Cut(usize);

    impl Read for Cut {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::ConnectionReset)?;
            let line = format!("{{\"id\":{}}}\n", self.0);
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    #[test]
    fn where_the_sender_goes_away_whole_batches_remain() {
        let rig = rig();
        let pairs = [("connection_id".to_owned(), "mail".to_owned())];
        let mut body = BufReader::new(Cut(INGEST_ROWS + 50));
        let answer =
            rig.services.ingest(&owner(), Instant(0), "messages", &pairs, &mut body).unwrap();
        assert_eq!(answer["records_accepted"], INGEST_ROWS);
        assert_eq!(answer["errors"][0]["code"], "incomplete_body");
        assert_eq!(rig.count("messages"), INGEST_ROWS as u64);
    }
}
