//! A grant as the owner requests it, completed from the current declarations and then frozen.
//!
//! A request may leave out the fields, the connections and the field for time limits. This module
//! fills them in and stores them with the grant, so that a later declaration does not widen the
//! grant. The error for an unknown name lists the names that exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use stile_domain::permit::Principal;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::grant::{
    BadGrant, Grant, Retention, StatedSource, StatedTerms, StreamGrant, TimeConstraint,
};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use crate::RecordService;
use crate::administration::DeclaredStream;
use crate::printable::printable;

/// A grant that the owner requests.
#[derive(Clone, Debug)]
pub struct GrantRequest {
    /// The client that gets the grant.
    pub client: String,
    /// The purpose, for the owner's own use; `None` if the owner states none.
    pub purpose: Option<String>,
    /// When the grant expires; `None` if it does not.
    pub expires: Option<Instant>,
    /// Whether only the first token that uses the grant may use it.
    pub single_use: bool,
    /// What the owner states beside that.
    pub stated: StatedTerms,
    /// The streams that the grant covers.
    pub streams: Vec<StreamGrantRequest>,
}

/// A grant that the owner requests, or that another program issued, as JSON.
///
/// *Shape*: that of a grant of the records interface. Of an issued grant, its own identifier, times
/// and subject are passed over: the new grant has its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantDocument {
    /// The version of the shape, `0.1.0`.
    #[serde(default)]
    pub version: Option<String>,
    /// The client that gets the grant.
    #[serde(default)]
    pub client: Option<ClientDocument>,
    /// The source of the records.
    #[serde(default)]
    pub source: Option<StatedSource>,
    /// The purpose as an absolute URI.
    #[serde(default)]
    pub purpose_code: Option<String>,
    /// The purpose in the owner's words.
    #[serde(default)]
    pub purpose_description: Option<String>,
    /// How often the grant may be used: `continuous` or `single_use`.
    #[serde(default)]
    pub access_mode: Option<String>,
    /// The streams that the grant covers.
    pub streams: Vec<StreamGrantRequest>,
    /// How long the client may keep what it read.
    #[serde(default)]
    pub retention: Option<Retention>,
    /// When the grant expires.
    #[serde(default)]
    pub expires_at: Option<String>,
    #[serde(default)]
    grant_id: Option<IgnoredAny>,
    #[serde(default)]
    issued_at: Option<IgnoredAny>,
    #[serde(default)]
    subject: Option<IgnoredAny>,
    #[serde(default)]
    source_declaration: Option<IgnoredAny>,
    #[serde(default)]
    selection_preset: Option<IgnoredAny>,
}

impl GrantDocument {
    /// Makes a document with these streams and nothing else.
    pub fn of_streams(streams: Vec<StreamGrantRequest>) -> Self {
        Self { streams, ..Self::default() }
    }

    /// Returns the members of an issued grant that a new one does not take over.
    pub fn passed_over(&self) -> Vec<&'static str> {
        let members = [
            ("grant_id", self.grant_id),
            ("issued_at", self.issued_at),
            ("subject", self.subject),
            ("source_declaration", self.source_declaration),
            ("selection_preset", self.selection_preset),
        ];
        members.into_iter().filter_map(|(name, value)| value.map(|_| name)).collect()
    }

    /// Returns whether the document names a source, and a stream without its connections. Which
    /// connections are of that source is not known, so a grant of all would be too broad.
    pub fn is_broader_than_its_source(&self) -> bool {
        let names_all = |stream: &StreamGrantRequest| stream.connection_ids.is_none();
        self.source.is_some() && self.streams.iter().any(names_all)
    }
}

/// The client of a grant, as JSON.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientDocument {
    /// The name of the client.
    pub client_id: String,
}

/// The part of one stream that the owner requests a grant for.
///
/// *Shape*: that of a stored grant, whose members may be left out. An empty list and `null` are
/// errors, so that a program which computed an empty list does not grant everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamGrantRequest {
    /// The name of the stream.
    pub name: String,
    /// The connections; `None` for all that have the stream.
    #[serde(default, deserialize_with = "not_null", alias = "instance_ids")]
    pub connection_ids: Option<Vec<String>>,
    /// The fields; `None` for all declared ones.
    #[serde(default, deserialize_with = "not_null")]
    pub fields: Option<Vec<String>>,
    /// The range of time; `None` for all records.
    #[serde(default, deserialize_with = "not_null")]
    pub time_constraint: Option<TimeConstraintRequest>,
    /// The record keys; `None` for all.
    #[serde(default, deserialize_with = "not_null")]
    pub resources: Option<Vec<String>>,
}

/// A range of time. At least one end must be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `since` or `until`")]
pub struct TimeConstraintRequest {
    /// The field that holds the time; `None` for the declared one.
    #[serde(default)]
    pub field: Option<String>,
    /// The first time that is included.
    #[serde(default)]
    pub since: Option<String>,
    /// The first time that is excluded.
    #[serde(default)]
    pub until: Option<String>,
}

/// A grant that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedGrant {
    /// The identifier of the grant.
    pub id: String,
    /// Fields that were added because a schema requires them, each with its stream.
    pub added: Vec<(String, String)>,
}

/// Why a grant cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum GrantRequestError {
    /// The caller is not the owner, or the database failed.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// The request names something that does not exist, or leaves out something that a grant needs.
    #[error("{0}")]
    Invalid(String),
}

impl From<BadGrant> for GrantRequestError {
    fn from(BadGrant(why): BadGrant) -> Self {
        Self::Invalid(why)
    }
}

/// Deserializes a member that may be left out and must not be `null`.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn invalid<T>(why: impl Into<String>) -> Result<T, GrantRequestError> {
    Err(GrantRequestError::Invalid(why.into()))
}

impl RecordService {
    /// Completes and stores a grant.
    ///
    /// # Errors
    /// [`GrantRequestError`]; then no grant is stored.
    pub fn create_grant(
        &self,
        caller: &Principal,
        now: Instant,
        request: GrantRequest,
    ) -> Result<CreatedGrant, GrantRequestError> {
        let all = self.list_streams(caller, now)?;
        let mut added = Vec::new();
        let streams = request.streams.iter().map(|stream| complete(stream, &all, &mut added));
        let grant = Grant {
            streams: streams.collect::<Result<_, _>>()?,
            client: request.client,
            purpose: request.purpose,
            issued: now,
            expires: request.expires,
            single_use: request.single_use,
            stated: request.stated,
        };
        let id = self.store_grant(caller, &grant)??;
        Ok(CreatedGrant { id, added })
    }
}

fn complete(
    request: &StreamGrantRequest,
    all: &[DeclaredStream],
    added: &mut Vec<(String, String)>,
) -> Result<StreamGrant, GrantRequestError> {
    let name = printable(&request.name);
    let having: Vec<&DeclaredStream> =
        all.iter().filter(|stream| stream.stream.as_str() == request.name).collect();
    if having.is_empty() {
        let known: BTreeSet<&str> = all.iter().map(|stream| stream.stream.as_str()).collect();
        return invalid(format!(
            "there is no stream `{name}`; {}",
            describe_names(known, "streams")
        ));
    }
    for (member, list) in [("connection_ids", &request.connection_ids), ("fields", &request.fields)]
    {
        if list.as_ref().is_some_and(Vec::is_empty) {
            return invalid(format!(
                "`{name}`: `{member}` is an empty list; name what it is to be, or leave it out for all"
            ));
        }
    }
    for connection in request.connection_ids.iter().flatten() {
        if !having.iter().any(|stream| stream.connection.as_str() == connection) {
            let known = having.iter().map(|stream| stream.connection.as_str());
            let known_names = describe_names(known, "connections with it");
            return invalid(format!(
                "the connection `{}` has no stream `{name}`; {known_names}",
                printable(connection)
            ));
        }
    }
    let named = |stream: &&DeclaredStream| {
        let requested = request.connection_ids.as_ref();
        requested.is_none_or(|names| names.iter().any(|name| name == stream.connection.as_str()))
    };
    let chosen: Vec<&DeclaredStream> = having.into_iter().filter(named).collect();
    let declarations: Vec<&Arc<Declaration>> =
        chosen.iter().map(|stream| &stream.declaration).collect();
    let declared: BTreeSet<&str> = declarations
        .iter()
        .flat_map(|declaration| declaration.fields().iter().map(|field| field.name.as_str()))
        .collect();
    let mut fields: BTreeSet<String> = request.fields.iter().flatten().cloned().collect();
    if let Some(unknown) = fields.iter().find(|field| !declared.contains(field.as_str())) {
        let known_names = describe_names(declared, "fields");
        return invalid(format!(
            "the stream `{name}` declares no field `{}`; {known_names}",
            printable(unknown)
        ));
    }
    if fields.is_empty() {
        fields = declared.iter().map(|&field| field.to_owned()).collect();
    }
    for field in declarations.iter().flat_map(|declaration| declaration.required()) {
        if fields.insert(field.clone()) {
            added.push((request.name.clone(), field.clone()));
        }
    }
    let time = request
        .time_constraint
        .as_ref()
        .map(|time| complete_time_constraint(&name, time, &declarations))
        .transpose()?;
    Ok(StreamGrant {
        stream: SourceName::parse(&request.name)
            .map_err(|bad| GrantRequestError::Invalid(bad.to_string()))?,
        connections: chosen.iter().map(|stream| stream.connection.clone()).collect(),
        fields,
        time,
        keys: request.resources.as_ref().map(|keys| keys.iter().cloned().collect()),
    })
}

fn complete_time_constraint(
    name: &str,
    request: &TimeConstraintRequest,
    declarations: &[&Arc<Declaration>],
) -> Result<TimeConstraint, GrantRequestError> {
    if request.since.is_none() && request.until.is_none() {
        return invalid(
            "a time field alone limits nothing; say from when with --since, or until when with --until",
        );
    }
    let instant = |what: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match Instant::parse(text) {
            Some(instant) => Ok(Some(instant)),
            None => invalid(format!(
                "`{}` is not a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z ({what})",
                printable(text)
            )),
        },
    };
    let times = |declaration: &Declaration| -> BTreeSet<String> {
        let fields = declaration.fields().iter().filter(|field| field.format.is_some());
        fields.map(|field| field.name.clone()).collect()
    };
    let mut usable = declarations.iter().map(|declaration| times(declaration));
    let first = usable.next().unwrap_or_default();
    let usable = usable.fold(first, |all, these| all.intersection(&these).cloned().collect());
    let usual: BTreeSet<Option<&str>> =
        declarations.iter().map(|declaration| declaration.consent_time_field()).collect();
    let field = match (&request.field, usual.first()) {
        (Some(field), _) => field.clone(),
        (None, Some(Some(field))) if usual.len() == 1 => (*field).to_owned(),
        _ => {
            let known_names =
                describe_names(usable.iter().map(String::as_str), "fields with times");
            return invalid(format!(
                "`{name}` does not say which field tells when a record happened; name it with --time-field ({known_names}), or set `consent_time_field` with `stile declare`"
            ));
        }
    };
    if !usable.contains(&field) {
        let known_names = describe_names(usable.iter().map(String::as_str), "fields with times");
        return invalid(format!(
            "the field `{}` of `{name}` does not hold dates or times; {known_names}",
            printable(&field)
        ));
    }
    Ok(TimeConstraint {
        field,
        since: instant("since", &request.since)?,
        until: instant("until", &request.until)?,
    })
}

/// Lists at most 30 names, for the end of a sentence.
fn describe_names<'a>(names: impl IntoIterator<Item = &'a str>, what: &str) -> String {
    const MAX_NAMES: usize = 30;
    let names: Vec<String> = names.into_iter().map(printable).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    match names.get(..names.len() - more).unwrap_or_default() {
        [] => format!("there are no {what}"),
        first if more > 0 => format!("the {what} are {} and {more} more", first.join(", ")),
        first => format!("the {what} are {}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_store::{TestStore, owner};

    fn filled() -> TestStore {
        let store = TestStore::new();
        for (connection, stream, line) in [
            ("mail", "messages", r#"{"id":"a","sent_at":"2026-01-01","body":"x"}"#),
            ("work", "messages", r#"{"id":"b","sent_at":"2026-01-01","subject":"x"}"#),
            ("mail", "people", r#"{"id":"p","name":"Ann"}"#),
        ] {
            let parameters = [("connection_id", connection)];
            store.ingest(&owner(), stream, &parameters, &mut line.as_bytes()).unwrap();
        }
        let (mail, people) =
            (SourceName::parse("mail").unwrap(), SourceName::parse("people").unwrap());
        let mut json = store
            .service
            .find_stream(&owner(), Instant(1), &mail, &people)
            .unwrap()
            .declaration
            .to_json();
        json["schema"]["required"] = serde_json::json!(["id"]);
        store
            .service
            .declare(&owner(), &mail, &people, &Declaration::parse(&json).unwrap())
            .unwrap();
        store
    }

    fn make(
        store: &TestStore,
        streams: serde_json::Value,
    ) -> Result<(String, CreatedGrant), String> {
        let streams = serde_json::from_value(streams).map_err(|error| error.to_string())?;
        let request = GrantRequest {
            client: "Cursor".into(),
            purpose: None,
            expires: None,
            single_use: false,
            stated: StatedTerms::default(),
            streams,
        };
        let created = store
            .service
            .create_grant(&owner(), Instant(0), request)
            .map_err(|why| why.to_string())?;
        let grants = store.service.grants(&owner()).unwrap();
        let grant = grants.into_iter().find(|grant| grant.id == created.id).unwrap();
        Ok((grant.grant.unwrap().to_json().unwrap(), created))
    }

    #[test]
    fn members_that_are_left_out_are_filled_in_and_frozen() {
        let store = filled();
        let streams = serde_json::json!([
            { "name": "messages", "time_constraint": { "since": "2026-01-01" } },
            { "name": "people", "fields": ["name"], "resources": ["p"] },
        ]);
        let (grant, created) = make(&store, streams).unwrap();
        insta::assert_snapshot!(grant);
        assert_eq!(created.added, [("people".to_owned(), "id".to_owned())]);
    }

    #[test]
    fn an_error_for_an_unknown_name_lists_the_known_names() {
        let store = filled();
        let errors: Vec<String> = [
            r#"[{"name":"mesages"}]"#,
            r#"[{"name":"people","connection_ids":["work"]}]"#,
            r#"[{"name":"people","fields":["phone"]}]"#,
            r#"[{"name":"people","time_constraint":{"since":"2026-01-01"}}]"#,
            r#"[{"name":"messages","time_constraint":{"field":"id","since":"2026-01-01"}}]"#,
            r#"[{"name":"messages","time_constraint":{"field":"sent_at"}}]"#,
            r#"[{"name":"messages","time_constraint":{"since":"yesterday"}}]"#,
            r#"[{"name":"messages","resources":[]}]"#,
            r#"[{"name":"messages","fields":[]}]"#,
            r#"[{"name":"messages","connection_ids":[]}]"#,
            r#"[{"name":"messages","fields":null}]"#,
            r#"[{"name":"messages","resources":null}]"#,
            r#"[{"name":"messages","time_constraint":null}]"#,
            r#"[{"name":"messages","view":"all"}]"#,
            r#"[{"name":"messages"},{"name":"messages"}]"#,
            "[]",
        ]
        .into_iter()
        .map(|streams| make(&store, serde_json::from_str(streams).unwrap()).unwrap_err())
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
        assert!(store.service.grants(&owner()).unwrap().is_empty());
    }
}
