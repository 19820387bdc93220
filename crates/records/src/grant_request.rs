//! A grant as the owner requests it, completed from the current declarations and then frozen.
//!
//! A request may leave out the fields, the connections and the field for time limits, or name a
//! view in place of fields. This module fills them in and stores them with the grant, so that a
//! later declaration does not widen the grant. The error for an unknown name lists the names that
//! exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use stile_domain::permit::Principal;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::grant::{BadGrant, Grant, StatedTerms, StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use crate::RecordService;
use crate::administration::DeclaredStream;
use crate::context::OwnerContext;
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
    /// The connections of a stream that names none.
    pub omitted_connections: OmittedConnections,
}

/// The connections that a request means for a stream that names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OmittedConnections {
    /// All connections that have the stream now.
    #[default]
    All,
    /// The one connection that has the stream. If several have it, the request is refused.
    OnlyOne,
}

/// The part of one stream that the owner requests a grant for.
///
/// *Shape*: that of a stored grant, whose members may be left out, or that of a client's request,
/// with `view` and `time_range`. An empty list and `null` are errors, so that a program which
/// computed an empty list does not grant everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the `name` of a stream")]
pub struct StreamGrantRequest {
    /// The name of the stream.
    pub name: String,
    /// The connections; `None` for all that have the stream.
    #[serde(default, deserialize_with = "not_null", alias = "instance_ids")]
    pub connection_ids: Option<Vec<String>>,
    /// The fields; `None` for those of the view, or for all declared ones.
    #[serde(default, deserialize_with = "not_null")]
    pub fields: Option<Vec<String>>,
    /// The declared view whose fields are granted. Excludes `fields`.
    #[serde(default, deserialize_with = "not_null")]
    pub view: Option<String>,
    /// The range of time on any field; `None` for all records.
    #[serde(default, deserialize_with = "not_null")]
    pub time_constraint: Option<TimeConstraintRequest>,
    /// The range of time on the declared consent-time field. Excludes `time_constraint`.
    #[serde(default, deserialize_with = "not_null")]
    pub time_range: Option<TimeRangeRequest>,
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

/// A range of time, as a client requests it. At least one end must be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `since` or `until`")]
pub struct TimeRangeRequest {
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

impl From<GrantRequestError> for Problem {
    fn from(error: GrantRequestError) -> Self {
        match error {
            GrantRequestError::Problem(problem) => problem,
            GrantRequestError::Invalid(why) => {
                Self::InvalidRequest { param: None, message: format!("{why}; no grant was made") }
            }
        }
    }
}

/// Deserializes a member that may be left out and must not be `null`.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

pub(crate) fn invalid<T>(why: impl Into<String>) -> Result<T, GrantRequestError> {
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
        self.run_as_owner(caller, now, |context| context.create_grant(request))
    }
}

impl OwnerContext<'_> {
    /// Completes and stores a grant.
    ///
    /// # Errors
    /// [`GrantRequestError`]; then no grant is stored.
    pub(crate) fn create_grant(
        &self,
        request: GrantRequest,
    ) -> Result<CreatedGrant, GrantRequestError> {
        let all = self.list_streams()?;
        let mut added = Vec::new();
        let omitted = request.omitted_connections;
        let streams =
            request.streams.iter().map(|stream| complete(stream, omitted, &all, &mut added));
        let grant = Grant {
            streams: streams.collect::<Result<_, _>>()?,
            client: request.client,
            purpose: request.purpose,
            issued: self.now,
            expires: request.expires,
            single_use: request.single_use,
            stated: request.stated,
        };
        let id = self.records.grant(self.owner, &grant)??;
        Ok(CreatedGrant { id, added })
    }
}

/// Completes what a request says of one stream. The fields that the declarations require and that
/// the request leaves out are granted too, and become part of `added`.
fn complete(
    request: &StreamGrantRequest,
    omitted: OmittedConnections,
    all: &[DeclaredStream],
    added: &mut Vec<(String, String)>,
) -> Result<StreamGrant, GrantRequestError> {
    let name = printable(&request.name);
    let chosen = chosen_streams(&name, request, omitted, all)?;
    let declarations: Vec<&Arc<Declaration>> =
        chosen.iter().map(|stream| &stream.declaration).collect();
    let mut fields = requested_fields(&name, request, &declarations)?;
    for field in declarations.iter().flat_map(|declaration| declaration.required()) {
        if fields.insert(field.clone()) {
            added.push((request.name.clone(), field.clone()));
        }
    }
    let time = match (&request.time_constraint, &request.time_range) {
        (Some(_), Some(_)) => {
            return invalid(format!(
                "`{name}`: `time_constraint` and `time_range` exclude each other; send one"
            ));
        }
        (Some(time), None) => Some(complete_time_constraint(&name, time, &declarations)?),
        (None, Some(range)) => Some(complete_time_range(&name, range, &declarations)?),
        (None, None) => None,
    };
    Ok(StreamGrant {
        stream: SourceName::parse(&request.name)
            .map_err(|bad| GrantRequestError::Invalid(bad.to_string()))?,
        connections: chosen.iter().map(|stream| stream.connection.clone()).collect(),
        fields,
        time,
        keys: request.resources.as_ref().map(|keys| keys.iter().cloned().collect()),
    })
}

/// Returns the stream of each connection that a request names, or of all that have it.
fn chosen_streams<'a>(
    name: &str,
    request: &StreamGrantRequest,
    omitted: OmittedConnections,
    all: &'a [DeclaredStream],
) -> Result<Vec<&'a DeclaredStream>, GrantRequestError> {
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
            return invalid(format!(
                "the connection `{}` has no stream `{name}`; {}",
                printable(connection),
                describe_connections(&having)
            ));
        }
    }
    let named = |stream: &&DeclaredStream| {
        let requested = request.connection_ids.as_ref();
        requested.is_none_or(|names| names.iter().any(|name| name == stream.connection.as_str()))
    };
    let chosen: Vec<&DeclaredStream> = having.into_iter().filter(named).collect();
    if request.connection_ids.is_none()
        && omitted == OmittedConnections::OnlyOne
        && chosen.len() > 1
    {
        return invalid(format!(
            "`{name}`: the request names no connection, and several have the stream; name those that it may read as `instance_ids` ({})",
            describe_connections(&chosen)
        ));
    }
    Ok(chosen)
}

fn describe_connections(streams: &[&DeclaredStream]) -> String {
    let names = streams.iter().map(|stream| stream.connection.as_str());
    describe_names(names, "connections with it")
}

/// Returns the fields that a request names, by themselves or by a view; all if it names none.
fn requested_fields(
    name: &str,
    request: &StreamGrantRequest,
    declarations: &[&Arc<Declaration>],
) -> Result<BTreeSet<String>, GrantRequestError> {
    let fields: BTreeSet<String> = match (&request.view, &request.fields) {
        (Some(_), Some(_)) => {
            return invalid(format!("`{name}`: `view` and `fields` exclude each other; send one"));
        }
        (Some(view), None) => fields_of_view(name, view, declarations)?,
        (None, fields) => fields.iter().flatten().cloned().collect(),
    };
    let declared: BTreeSet<&str> = declarations
        .iter()
        .flat_map(|declaration| declaration.fields().iter().map(|field| field.name.as_str()))
        .collect();
    if let Some(unknown) = fields.iter().find(|field| !declared.contains(field.as_str())) {
        let known_names = describe_names(declared, "fields");
        return invalid(format!(
            "the stream `{name}` declares no field `{}`; {known_names}",
            printable(unknown)
        ));
    }
    Ok(match fields.is_empty() {
        true => declared.into_iter().map(str::to_owned).collect(),
        false => fields,
    })
}

/// Returns the fields of a declared view. Connections whose views of that name differ have no
/// common view: their fields together would be more than each view shows.
fn fields_of_view(
    name: &str,
    view: &str,
    declarations: &[&Arc<Declaration>],
) -> Result<BTreeSet<String>, GrantRequestError> {
    let views = declarations.iter().map(|declaration| {
        let fields = declaration.view(view).unwrap_or_default();
        fields.iter().cloned().collect::<BTreeSet<String>>()
    });
    let mut views: Vec<BTreeSet<String>> = views.collect();
    views.dedup();
    match views.pop() {
        Some(fields) if views.is_empty() && !fields.is_empty() => Ok(fields),
        _ if views.is_empty() => invalid(format!(
            "the stream `{name}` declares no view `{}`; name `fields`, or declare the view",
            printable(view)
        )),
        _ => invalid(format!(
            "the view `{}` of `{name}` differs between the connections; name one of them, or name `fields`",
            printable(view)
        )),
    }
}

/// Completes a range of time on the consent-time field that the stream declares.
fn complete_time_range(
    name: &str,
    range: &TimeRangeRequest,
    declarations: &[&Arc<Declaration>],
) -> Result<TimeConstraint, GrantRequestError> {
    let declared: BTreeSet<Option<&str>> =
        declarations.iter().map(|declaration| declaration.consent_time_field()).collect();
    let field = match declared.first() {
        Some(Some(field)) if declared.len() == 1 => (*field).to_owned(),
        _ => {
            return invalid(format!(
                "`{name}` has no `time_range`, because it declares no consent time field; name the field with `time_constraint`, or declare `consent_time_field`"
            ));
        }
    };
    let (since, until) = (range.since.clone(), range.until.clone());
    let request = TimeConstraintRequest { field: Some(field), since, until };
    complete_time_constraint(name, &request, declarations)
}

fn complete_time_constraint(
    name: &str,
    request: &TimeConstraintRequest,
    declarations: &[&Arc<Declaration>],
) -> Result<TimeConstraint, GrantRequestError> {
    if request.since.is_none() && request.until.is_none() {
        return invalid(format!(
            "`{name}`: a time field alone limits nothing; state the first time that is allowed as `since`, or the first that is not as `until`"
        ));
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
                "`{name}` does not say which field tells when a record happened; name the time field ({known_names}), or declare `consent_time_field`"
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
    let [since, until] = [instant("since", &request.since)?, instant("until", &request.until)?];
    Ok(TimeConstraint::new(field, since, until))
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
            omitted_connections: OmittedConnections::All,
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
    fn a_view_and_a_range_of_time_mean_what_every_connection_declares() {
        let store = filled();
        let messages = SourceName::parse("messages").unwrap();
        let declare = |connection: &str, change: &dyn Fn(&mut serde_json::Value)| {
            let connection = SourceName::parse(connection).unwrap();
            let found = store.service.find_stream(&owner(), Instant(1), &connection, &messages);
            let mut json = found.unwrap().declaration.to_json();
            change(&mut json);
            let declaration = Declaration::parse(&json).unwrap();
            store.service.declare(&owner(), &connection, &messages, &declaration).unwrap();
        };
        let views = |fields: [&str; 2]| serde_json::json!([{ "id": "brief", "fields": fields }]);
        declare("mail", &|json| json["views"] = views(["id", "body"]));
        let brief = |connections: &[&str]| {
            let streams = serde_json::json!([{
                "name": "messages", "view": "brief", "connection_ids": connections,
                "time_range": { "until": "2027-01-01" },
            }]);
            make(&store, streams)
        };
        assert!(brief(&["mail", "work"]).unwrap_err().contains("differs between the connections"));
        assert!(brief(&["work"]).unwrap_err().contains("declares no view `brief`"));
        declare("work", &|json| json["views"] = views(["id", "subject"]));
        assert!(brief(&["mail", "work"]).unwrap_err().contains("differs between the connections"));
        let (grant, _) = brief(&["work"]).unwrap();
        assert!(grant.contains(r#""fields":["id","subject"]"#), "{grant}");
        declare("mail", &|json| json["consent_time_field"] = serde_json::Value::Null);
        let ranged = serde_json::json!([{ "name": "messages", "time_range": { "since": "2026" } }]);
        assert!(make(&store, ranged).unwrap_err().contains("no consent time field"));
    }

    #[test]
    fn a_request_of_a_client_never_means_several_connections_by_itself() {
        let store = filled();
        let request = |connection_ids: Option<Vec<String>>| GrantRequest {
            client: "Cursor".into(),
            purpose: None,
            expires: None,
            single_use: false,
            stated: StatedTerms::default(),
            streams: ["messages", "people"]
                .map(|name| StreamGrantRequest {
                    name: name.into(),
                    connection_ids: connection_ids.clone().filter(|_| name == "messages"),
                    ..StreamGrantRequest::default()
                })
                .into(),
            omitted_connections: OmittedConnections::OnlyOne,
        };
        let made = store.service.create_grant(&owner(), Instant(0), request(None));
        let refused = made.unwrap_err().to_string();
        assert!(refused.contains("the connections with it are mail, work"), "{refused}");
        let both = Some(vec!["mail".to_owned(), "work".to_owned()]);
        store.service.create_grant(&owner(), Instant(0), request(both)).unwrap();
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
            r#"[{"name":"messages","view":null}]"#,
            r#"[{"name":"people","view":"basic","fields":["name"]}]"#,
            r#"[{"name":"people","time_range":{"since":"2026-01-01"}}]"#,
            r#"[{"name":"messages","time_range":{}}]"#,
            r#"[{"name":"messages","time_range":{"field":"sent_at","since":"2026-01-01"}}]"#,
            r#"[{"name":"messages","time_range":{"since":"2026-01-01"},"time_constraint":{"since":"2026-01-01"}}]"#,
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
