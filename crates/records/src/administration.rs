//! What the owner does besides reading and storing records: lists and redeclares streams, manages
//! grants, and copies the database. The command line calls the functions of [`RecordService`], and
//! the operations of `/v1` those of [`OwnerContext`]; both are the same.

use std::sync::Arc;

use stile_domain::permit::Principal;
use stile_domain::records::declaration::{BadDeclaration, Declaration};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::infer::{Inference, InferredDeclaration, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::records::{
    GrantRecord, LoadedRecord, RecordRow, RecordSource, RecordsError, RecordsView,
};

use crate::RecordService;
use crate::context::{OwnerContext, ReadContext};
use crate::declarations::{DeclarationCache, describe_primary_key, indexed_fields, parse_stored};

/// The number of records that inference reads at once.
const PAGE_ROWS: usize = 256;
/// How much of a long text inference reads, in characters. No key and no time is longer.
const SAMPLE_CHARS: u64 = 1024;

/// A stream of one connection, as the owner sees it.
pub struct DeclaredStream {
    /// The connection that has the stream.
    pub connection: SourceName,
    /// The name of the stream.
    pub stream: SourceName,
    /// The current declaration of the stream.
    pub declaration: Arc<Declaration>,
    /// The number of records.
    pub records: u64,
    /// The latest time at which a record was first ingested; `None` if there is no record.
    pub latest: Option<Instant>,
}

/// Why a stream cannot get a declaration.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// The caller is not the owner, or the database failed.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// The declaration contradicts itself.
    #[error("{0}")]
    Invalid(#[from] BadDeclaration),
    /// The declaration changes the primary key of a stream that has records.
    #[error(
        "the key of this stream is {current} and cannot change while it has records; keep `primary_key` as it is, or import into another stream"
    )]
    KeyChange {
        /// The stream's key, described for a sentence.
        current: String,
    },
}

impl RecordService {
    /// Returns all streams, ordered by stream and connection.
    ///
    /// # Errors
    /// If the caller is not the owner; what the database reports.
    pub fn list_streams(
        &self,
        caller: &Principal,
        now: Instant,
    ) -> Result<Vec<DeclaredStream>, Problem> {
        self.run_as_owner(caller, now, |context| context.list_streams())
    }

    /// Returns one stream.
    ///
    /// # Errors
    /// As [`RecordService::list_streams`]; [`Problem::StreamNotFound`].
    pub fn find_stream(
        &self,
        caller: &Principal,
        now: Instant,
        connection: &SourceName,
        name: &SourceName,
    ) -> Result<DeclaredStream, Problem> {
        self.run_as_owner(caller, now, |context| context.find_stream(connection, name))
    }

    /// Infers a declaration of a stream from all of its records. The key stays as it is. Stores
    /// nothing.
    ///
    /// # Errors
    /// As [`RecordService::find_stream`].
    pub fn infer_declaration(
        &self,
        caller: &Principal,
        now: Instant,
        connection: &SourceName,
        name: &SourceName,
    ) -> Result<InferredDeclaration, DeclareError> {
        let (_owner, permit) = (caller.gate().owner()?, caller.gate().records()?);
        let (inference, key) = self.records.read(&permit, now, |view| {
            let sources = view.sources_of(name.as_str(), Some(connection.as_str()))?;
            let source = sources.first().ok_or(Problem::NotFound)?;
            let key = self.declarations.get(source)?.primary_key().to_vec();
            let mut inference = Inference::new();
            let mut after: Option<RecordRow> = None;
            loop {
                let rows = view.in_ingest_order(&sources, after.as_ref(), PAGE_ROWS)?;
                for row in &rows {
                    inference.observe(&sampled_fields(view, &view.load_fields(&sources, row)?)?);
                }
                match rows.into_iter().next_back() {
                    Some(last) => after = Some(last),
                    None => return Ok((inference, key)),
                }
            }
        })?;
        let stays = format!("the key stays: it is {}", describe_primary_key(&key));
        let mut inferred = inference.finish(KeyChoice::Given(key))?;
        inferred
            .reasons
            .iter_mut()
            .filter(|line| line.ends_with(": you chose it"))
            .for_each(|line| *line = stays.clone());
        Ok(inferred)
    }

    /// Stores the declaration of a stream and orders and indexes its records accordingly. Returns
    /// whether the stream is new.
    ///
    /// # Errors
    /// [`DeclareError`]; then nothing has changed.
    pub fn declare(
        &self,
        caller: &Principal,
        connection: &SourceName,
        name: &SourceName,
        declaration: &Declaration,
    ) -> Result<bool, DeclareError> {
        // The time of a declaration is not stored.
        self.run_as_owner(caller, Instant(0), |context| {
            context.declare(connection, name, declaration)
        })
    }

    /// Returns all grants, in the order of their creation.
    ///
    /// # Errors
    /// If the caller is not the owner; what the database reports.
    pub fn grants(&self, caller: &Principal) -> Result<Vec<GrantRecord>, Problem> {
        self.records.grants(&caller.gate().owner()?)
    }

    /// Returns one grant; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`RecordService::grants`].
    pub fn find_grant(&self, caller: &Principal, id: &str) -> Result<Option<GrantRecord>, Problem> {
        self.records.find_grant(&caller.gate().owner()?, id)
    }

    /// Revokes a grant. Returns `None` if the grant does not exist, else the time of an earlier
    /// revocation if there was one.
    ///
    /// # Errors
    /// As [`RecordService::grants`].
    pub fn revoke_grant(
        &self,
        caller: &Principal,
        id: &str,
        now: Instant,
    ) -> Result<Option<Option<Instant>>, Problem> {
        self.records.revoke(&caller.gate().owner()?, id, now)
    }

    /// Writes a consistent copy of the database to a new file.
    ///
    /// # Errors
    /// As [`RecordService::grants`]; [`RecordsError`] within.
    pub fn backup(
        &self,
        caller: &Principal,
        to: &std::path::Path,
    ) -> Result<Result<(), RecordsError>, Problem> {
        Ok(self.records.backup(&caller.gate().owner()?, to))
    }

    /// Checks every page and index of the database. Blocks for long.
    ///
    /// # Errors
    /// As [`RecordService::grants`]; [`Problem::Corrupt`] if the check finds damage.
    pub fn check_database(&self, caller: &Principal) -> Result<(), Problem> {
        self.records.check(&caller.gate().owner()?)
    }
}

impl OwnerContext<'_> {
    /// Returns all streams, ordered by stream and connection.
    pub(crate) fn list_streams(&self) -> Result<Vec<DeclaredStream>, Problem> {
        self.read(|ReadContext { view, declarations }| {
            let sources = view.sources()?;
            sources.iter().map(|source| declared_stream(view, source, declarations)).collect()
        })
    }

    /// Returns one stream.
    pub(crate) fn find_stream(
        &self,
        connection: &SourceName,
        name: &SourceName,
    ) -> Result<DeclaredStream, Problem> {
        self.read(|ReadContext { view, declarations }| {
            let sources = view.sources_of(name.as_str(), Some(connection.as_str()))?;
            declared_stream(view, sources.first().ok_or(Problem::NotFound)?, declarations)
        })
    }

    /// Returns one grant.
    ///
    /// # Errors
    /// [`Problem::GrantNotFound`].
    pub(crate) fn find_grant(&self, id: &str) -> Result<GrantRecord, Problem> {
        self.records.find_grant(self.owner, id)?.ok_or(Problem::GrantNotFound)
    }

    /// Stores the declaration of a stream and orders and indexes its records accordingly. Returns
    /// whether the stream is new.
    pub(crate) fn declare(
        &self,
        connection: &SourceName,
        name: &SourceName,
        declaration: &Declaration,
    ) -> Result<bool, DeclareError> {
        let text = declaration.to_json().to_string();
        let indexed = indexed_fields(declaration);
        let mut current_key = None;
        let done = self.records.write(self.owner, |batch| {
            let Some(target) = batch.target(connection, name)? else {
                return batch.declare(connection, name, &text, &indexed).map(|_| true);
            };
            let before = parse_stored(&target.declaration)?;
            if before.primary_key() != declaration.primary_key() && batch.has_records(&target)? {
                current_key = Some(describe_primary_key(before.primary_key()));
                return Err(Problem::NotFound);
            }
            batch.redeclare(&target, &text, &indexed).map(|_| false)
        });
        match current_key {
            Some(current) => Err(DeclareError::KeyChange { current }),
            None => Ok(done?),
        }
    }
}

fn declared_stream(
    view: &RecordsView<'_>,
    source: &RecordSource,
    declarations: &DeclarationCache,
) -> Result<DeclaredStream, Problem> {
    let (records, latest) = view.count(source)?;
    let declaration = declarations.get(source)?;
    let (connection, stream) = (source.connection().clone(), source.stream().clone());
    Ok(DeclaredStream { connection, stream, declaration, records, latest })
}

/// Reads the fields of a record; of long texts only the beginning.
fn sampled_fields(view: &RecordsView<'_>, loaded: &LoadedRecord) -> Result<RecordFields, Problem> {
    let long = |entry: &BodyField<'_>| match loaded.long_value(entry) {
        Some(long) => view.long_text(long, 0, SAMPLE_CHARS),
        None => Err(Problem::Corrupt),
    };
    let fields = loaded.body().entries().map(|entry| {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        let value = match entry.value {
            StoredValue::Null => FieldValue::Null,
            StoredValue::Bool(value) => FieldValue::Bool(value),
            StoredValue::Number(digits) => FieldValue::Number(digits.into()),
            StoredValue::Text(text) => FieldValue::Text(text.to_owned()),
            StoredValue::Json(json) => FieldValue::Json(json.to_owned()),
            StoredValue::LongText(_) => FieldValue::Text(long(&entry)?),
            StoredValue::LongJson(_) => FieldValue::Json(long(&entry)?),
        };
        Ok((entry.name.to_owned(), value))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;
    use stile_domain::records::problem::CursorProblem;

    use super::*;
    use crate::operations::Operation;
    use crate::test_store::{TestStore, owner};

    fn filled() -> TestStore {
        let store = TestStore::new();
        let mut body = &b"{\"id\":\"a\",\"day\":\"2026-01-01\",\"text\":\"one\"}
            {\"id\":\"b\",\"day\":\"2025-01-01\",\"text\":\"two\"}
"[..];
        store.ingest(&owner(), "messages", &[("connection_id", "mail")], &mut body).unwrap();
        store
    }

    fn names() -> (SourceName, SourceName) {
        (SourceName::parse("mail").unwrap(), SourceName::parse("messages").unwrap())
    }

    fn declaration(store: &TestStore) -> Json {
        let (mail, messages) = names();
        let found = store.service.find_stream(&owner(), Instant(1), &mail, &messages).unwrap();
        found.declaration.to_json()
    }

    fn declare(store: &TestStore, json: &Json) -> Result<bool, DeclareError> {
        let (mail, messages) = names();
        store.service.declare(&owner(), &mail, &messages, &Declaration::parse(json).unwrap())
    }

    #[test]
    fn an_edited_declaration_reorders_the_records_at_once() {
        let store = filled();
        let (mail, messages) = names();
        assert_eq!(store.keys("messages"), ["b", "a"]);
        let mut json = declaration(&store);
        json["cursor_field"] = "text".into();
        assert!(!declare(&store, &json).unwrap());
        assert_eq!(store.keys("messages"), ["a", "b"]);
        json["primary_key"] = serde_json::json!(["day"]);
        let refused = declare(&store, &json).unwrap_err();
        assert!(refused.to_string().starts_with("the key of this stream is `id`"), "{refused}");
        let inferred =
            store.service.infer_declaration(&owner(), Instant(1), &mail, &messages).unwrap();
        assert_eq!(inferred.declaration.cursor_field(), Some("day"));
        assert_eq!(inferred.declaration.primary_key(), ["id"]);
        declare(&store, &inferred.declaration.to_json()).unwrap();
        assert_eq!(store.keys("messages"), ["b", "a"]);
    }

    #[test]
    fn a_cursor_is_stale_when_the_order_has_changed() {
        let store = filled();
        let first = store.read(Operation::ListRecords, "messages", "", &[("limit", "1")]).unwrap();
        let cursor = first["next_cursor"].as_str().unwrap();
        let next = |store: &TestStore| {
            let parameters = [("limit", "1"), ("cursor", cursor)];
            store.read(Operation::ListRecords, "messages", "", &parameters)
        };
        let mut json = declaration(&store);
        json["query"]["search"]["lexical_fields"] = serde_json::json!([]);
        declare(&store, &json).unwrap();
        assert_eq!(
            next(&store).unwrap()["data"][0]["id"],
            "b",
            "a change that leaves the order alone keeps the cursor valid"
        );
        json["cursor_field"] = "text".into();
        declare(&store, &json).unwrap();
        assert_eq!(next(&store).unwrap_err(), Problem::InvalidCursor(CursorProblem::Stale));
        json["cursor_field"] = Json::Null;
        declare(&store, &json).unwrap();
        assert_eq!(next(&store).unwrap_err(), Problem::InvalidCursor(CursorProblem::Stale));
    }
}
