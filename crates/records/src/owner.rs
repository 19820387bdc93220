//! What the owner does with the database besides asking it: to declare a stream anew, to make
//! grants and take them back, and to make a copy.

use stile_domain::permit::Principal;
use stile_domain::records::declaration::{BadDeclaration, Declaration};
use stile_domain::records::grant::{BadGrant, Grant};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::infer::{Inference, InferredDeclaration, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::records::{
    GrantRecord, LoadedRecord, RecordRow, RecordSource, RecordsError, RecordsView,
};

use super::RecordService;
use crate::declarations::{DeclarationCache, describe_primary_key, indexed_fields, parse_stored};

/// Records whose keys are held at once.
const PAGE: usize = 256;
/// How much of a long text is looked at, in characters: more than a key or a time has.
const LOOKED_AT: u64 = 1024;

/// A stream, for the owner.
pub struct DeclaredStream {
    /// Of which connection.
    pub connection: SourceName,
    /// What it is called.
    pub stream: SourceName,
    /// What is declared of it.
    pub declaration: std::sync::Arc<Declaration>,
    /// How many records it has.
    pub records: u64,
    /// When the latest of them was first ingested.
    pub latest: Option<Instant>,
}

/// Why a declaration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// The database, or who asks.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// It does not fit together.
    #[error("{0}")]
    Invalid(#[from] BadDeclaration),
    /// Records are known by their keys.
    #[error(
        "the key of this stream is {is} and cannot change while it has records; keep `primary_key` as it is, or import into another stream"
    )]
    KeyChange {
        /// Which it is, in words.
        is: String,
    },
}

impl RecordService {
    /// Every stream, ordered by stream and connection.
    ///
    /// # Errors
    /// Where the caller is not the owner; what the database says.
    pub fn list_streams(
        &self,
        caller: &Principal,
        now: Instant,
    ) -> Result<Vec<DeclaredStream>, Problem> {
        let (_owner, permit) = (caller.gate().owner()?, caller.gate().records()?);
        self.records.read(&permit, now, |view| {
            view.sources()?.iter().map(|source| stream(view, source, &self.declarations)).collect()
        })
    }

    /// One stream.
    ///
    /// # Errors
    /// As [`RecordService::list_streams`], and where there is none.
    pub fn find_stream(
        &self,
        caller: &Principal,
        now: Instant,
        connection: &SourceName,
        name: &SourceName,
    ) -> Result<DeclaredStream, Problem> {
        let (_owner, permit) = (caller.gate().owner()?, caller.gate().records()?);
        self.records.read(&permit, now, |view| {
            let sources = view.sources_of(name.as_str(), Some(connection.as_str()))?;
            stream(view, sources.first().ok_or(Problem::NotFound)?, &self.declarations)
        })
    }

    /// Infers what to declare of a stream from all records that it has. Its key stays. Changes
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
                let rows = view.in_ingest_order(&sources, after.as_ref(), PAGE)?;
                for row in &rows {
                    inference.observe(&beginnings(view, &view.load_fields(&sources, row)?)?);
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

    /// Declares a stream, for the first time or anew; its records then stand as that says. Says
    /// whether it is new.
    ///
    /// # Errors
    /// [`DeclareError`]; nothing is changed then.
    pub fn declare(
        &self,
        caller: &Principal,
        connection: &SourceName,
        name: &SourceName,
        declaration: &Declaration,
    ) -> Result<bool, DeclareError> {
        let owner = caller.gate().owner()?;
        let text = declaration.to_json().to_string();
        let terms = indexed_fields(declaration);
        let mut other = None;
        let done = self.records.write(&owner, |batch| {
            let Some(target) = batch.target(connection, name)? else {
                return batch.declare(connection, name, &text, &terms).map(|_| true);
            };
            let before = parse_stored(&target.declaration)?;
            if before.primary_key() != declaration.primary_key() && batch.has_records(&target)? {
                other = Some(describe_primary_key(before.primary_key()));
                return Err(Problem::NotFound);
            }
            batch.redeclare(&target, &text, &terms).map(|_| false)
        });
        match other {
            Some(is) => Err(DeclareError::KeyChange { is }),
            None => Ok(done?),
        }
    }

    /// Every grant, in the order in which they were made.
    ///
    /// # Errors
    /// Where the caller is not the owner; what the database says.
    pub fn grants(&self, caller: &Principal) -> Result<Vec<GrantRecord>, Problem> {
        self.records.grants(&caller.gate().owner()?)
    }

    /// Keeps a grant and names it.
    ///
    /// # Errors
    /// As [`RecordService::grants`]; [`BadGrant`] within.
    pub fn store_grant(
        &self,
        caller: &Principal,
        grant: &Grant,
    ) -> Result<Result<String, BadGrant>, Problem> {
        self.records.grant(&caller.gate().owner()?, grant)
    }

    /// Revokes a grant. Says when it was revoked before, and none where there is no such grant.
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
}

fn stream(
    view: &RecordsView<'_>,
    source: &RecordSource,
    declarations: &DeclarationCache,
) -> Result<DeclaredStream, Problem> {
    let (records, latest) = view.count(source)?;
    let declaration = declarations.get(source)?;
    let (connection, stream) = (source.connection().clone(), source.stream().clone());
    Ok(DeclaredStream { connection, stream, declaration, records, latest })
}

/// The fields of a record, long ones cut.
fn beginnings(view: &RecordsView<'_>, loaded: &LoadedRecord) -> Result<RecordFields, Problem> {
    let long = |entry: &BodyField<'_>| match loaded.long_value(entry) {
        Some(long) => view.long_text(long, 0, LOOKED_AT),
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
    use stile_domain::records::problem::CursorProblem;

    use super::*;
    use crate::endpoints::RECORDS;
    use crate::rig::{Rig, owner, rig};

    fn filled() -> Rig {
        let rig = rig();
        let body = "{\"id\":\"a\",\"day\":\"2026-01-01\",\"text\":\"one\"}\n{\"id\":\"b\",\"day\":\"2025-01-01\",\"text\":\"two\"}\n";
        let pairs = [("connection_id".to_owned(), "mail".to_owned())];
        rig.services
            .ingest(&owner(), Instant(7), "messages", &pairs, &mut body.as_bytes())
            .unwrap();
        rig
    }

    fn names() -> (SourceName, SourceName) {
        (SourceName::parse("mail").unwrap(), SourceName::parse("messages").unwrap())
    }

    #[test]
    fn a_declaration_that_the_owner_edits_orders_the_records_at_once() {
        let rig = filled();
        let (mail, messages) = names();
        assert_eq!(rig.keys("messages"), ["b", "a"]);
        let mut json = rig
            .services
            .find_stream(&owner(), Instant(1), &mail, &messages)
            .unwrap()
            .declaration
            .to_json();
        json["cursor_field"] = "text".into();
        let edited = Declaration::parse(&json).unwrap();
        assert!(!rig.services.declare(&owner(), &mail, &messages, &edited).unwrap());
        assert_eq!(rig.keys("messages"), ["a", "b"]);
        json["primary_key"] = serde_json::json!(["day"]);
        let other = Declaration::parse(&json).unwrap();
        let refused = rig.services.declare(&owner(), &mail, &messages, &other).unwrap_err();
        assert!(refused.to_string().starts_with("the key of this stream is `id`"), "{refused}");
        let inferred =
            rig.services.infer_declaration(&owner(), Instant(1), &mail, &messages).unwrap();
        assert_eq!(inferred.declaration.cursor_field(), Some("day"));
        assert_eq!(inferred.declaration.primary_key(), ["id"]);
        rig.services.declare(&owner(), &mail, &messages, &inferred.declaration).unwrap();
        assert_eq!(rig.keys("messages"), ["b", "a"]);
    }

    #[test]
    fn a_list_does_not_go_on_in_another_order() {
        let rig = filled();
        let (mail, messages) = names();
        let first = rig.ask(&RECORDS, "messages", "", &[("limit", "1")]);
        let cursor = first["next_cursor"].as_str().unwrap();
        let next = |rig: &Rig| {
            rig.try_ask(&RECORDS, "messages", "", &[("limit", "1"), ("cursor", cursor)])
        };
        let mut json = rig
            .services
            .find_stream(&owner(), Instant(1), &mail, &messages)
            .unwrap()
            .declaration
            .to_json();
        json["query"]["search"]["lexical_fields"] = serde_json::json!([]);
        rig.services
            .declare(&owner(), &mail, &messages, &Declaration::parse(&json).unwrap())
            .unwrap();
        assert_eq!(
            next(&rig).unwrap()["data"][0]["id"],
            "b",
            "what does not concern the order ends no list"
        );
        json["cursor_field"] = "text".into();
        rig.services
            .declare(&owner(), &mail, &messages, &Declaration::parse(&json).unwrap())
            .unwrap();
        assert_eq!(next(&rig).unwrap_err(), Problem::InvalidCursor(CursorProblem::Stale));
        json["cursor_field"] = serde_json::Value::Null;
        rig.services
            .declare(&owner(), &mail, &messages, &Declaration::parse(&json).unwrap())
            .unwrap();
        assert_eq!(next(&rig).unwrap_err(), Problem::InvalidCursor(CursorProblem::Stale));
    }
}
