//! A grant as the owner asks for it, completed from what is declared at this moment and then
//! frozen.
//!
//! What is left out is filled in here and written down: all fields, all connections, the fields
//! that a schema requires, the field that times are looked up in. What there is not is refused by a
//! name that exists.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use stile_domain::permit::Principal;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::grant::{BadGrant, Grant, StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::RecordService;
use super::owner::DeclaredStream;
use crate::printable::printable;

/// A grant as it is asked for.
#[derive(Clone, Debug)]
pub struct GrantRequest {
    /// Who it is for.
    pub client: String,
    /// What for.
    pub purpose: Option<String>,
    /// When it ends by itself.
    pub expires: Option<Instant>,
    /// Whether it is for one token alone.
    pub single_use: bool,
    /// Of which streams.
    pub streams: Vec<StreamGrantRequest>,
}

/// What is asked for of one stream.
///
/// *Shape*: as a grant is written, but what is left out is filled in. A list that is there and
/// empty is an error: whoever computed it and found nothing must not give everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamGrantRequest {
    /// The stream.
    pub name: String,
    /// The connections; none means all that have the stream.
    #[serde(default, deserialize_with = "given")]
    pub connection_ids: Option<Vec<String>>,
    /// The fields; none means all that are declared.
    #[serde(default, deserialize_with = "given")]
    pub fields: Option<Vec<String>>,
    /// From when to when.
    #[serde(default, deserialize_with = "given")]
    pub time_constraint: Option<TimeConstraintRequest>,
    /// The keys; none means all.
    #[serde(default, deserialize_with = "given")]
    pub resources: Option<Vec<String>>,
}

/// From when to when.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeConstraintRequest {
    /// The field that says when; none means the declared one.
    #[serde(default)]
    pub field: Option<String>,
    /// From this time on.
    #[serde(default)]
    pub since: Option<String>,
    /// Before this time.
    #[serde(default)]
    pub until: Option<String>,
}

/// A grant that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedGrant {
    /// Its identifier.
    pub id: String,
    /// Fields that were added because a schema requires them: stream and field.
    pub added: Vec<(String, String)>,
}

/// Why a grant is not made.
#[derive(Debug, thiserror::Error)]
pub enum GrantRequestError {
    /// The database, or who asks.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// It names what there is not, or says less than a grant must.
    #[error("{0}")]
    Invalid(String),
}

impl From<BadGrant> for GrantRequestError {
    fn from(BadGrant(why): BadGrant) -> Self {
        Self::Invalid(why)
    }
}

/// What is there is there: `null` is not taken for what was left out.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn wrong<T>(why: impl Into<String>) -> Result<T, GrantRequestError> {
    Err(GrantRequestError::Invalid(why.into()))
}

impl RecordService {
    /// Makes a grant, durably.
    ///
    /// # Errors
    /// [`GrantRequestError`]; there is no grant then.
    pub fn create_grant(
        &self,
        caller: &Principal,
        now: Instant,
        wanted: GrantRequest,
    ) -> Result<CreatedGrant, GrantRequestError> {
        let all = self.list_streams(caller, now)?;
        let mut added = Vec::new();
        let streams = wanted.streams.iter().map(|share| complete(share, &all, &mut added));
        let grant = Grant {
            streams: streams.collect::<Result<_, _>>()?,
            client: wanted.client,
            purpose: wanted.purpose,
            issued: now,
            expires: wanted.expires,
            single_use: wanted.single_use,
        };
        let id = self.store_grant(caller, &grant)??;
        Ok(CreatedGrant { id, added })
    }
}

fn complete(
    wanted: &StreamGrantRequest,
    all: &[DeclaredStream],
    added: &mut Vec<(String, String)>,
) -> Result<StreamGrant, GrantRequestError> {
    let name = printable(&wanted.name);
    let having: Vec<&DeclaredStream> =
        all.iter().filter(|stream| stream.stream.as_str() == wanted.name).collect();
    if having.is_empty() {
        let known: BTreeSet<&str> = all.iter().map(|stream| stream.stream.as_str()).collect();
        return wrong(format!("there is no stream `{name}`; {}", there_are(known, "streams")));
    }
    for (member, list) in [("connection_ids", &wanted.connection_ids), ("fields", &wanted.fields)] {
        if list.as_ref().is_some_and(Vec::is_empty) {
            return wrong(format!(
                "`{name}`: `{member}` is an empty list; name what it is to be, or leave it out for all"
            ));
        }
    }
    for connection in wanted.connection_ids.iter().flatten() {
        if !having.iter().any(|stream| stream.connection.as_str() == connection) {
            let known = having.iter().map(|stream| stream.connection.as_str());
            let there = there_are(known, "connections with it");
            return wrong(format!(
                "the connection `{}` has no stream `{name}`; {there}",
                printable(connection)
            ));
        }
    }
    let named = |stream: &&DeclaredStream| {
        let wanted = wanted.connection_ids.as_ref();
        wanted.is_none_or(|names| names.iter().any(|name| name == stream.connection.as_str()))
    };
    let chosen: Vec<&DeclaredStream> = having.into_iter().filter(named).collect();
    let declarations: Vec<&Arc<Declaration>> =
        chosen.iter().map(|stream| &stream.declaration).collect();
    let declared: BTreeSet<&str> = declarations
        .iter()
        .flat_map(|declaration| declaration.fields().iter().map(|field| field.name.as_str()))
        .collect();
    let mut fields: BTreeSet<String> = wanted.fields.iter().flatten().cloned().collect();
    if let Some(unknown) = fields.iter().find(|field| !declared.contains(field.as_str())) {
        let there = there_are(declared, "fields");
        return wrong(format!(
            "the stream `{name}` declares no field `{}`; {there}",
            printable(unknown)
        ));
    }
    if fields.is_empty() {
        fields = declared.iter().map(|&field| field.to_owned()).collect();
    }
    for field in declarations.iter().flat_map(|declaration| declaration.required()) {
        if fields.insert(field.clone()) {
            added.push((wanted.name.clone(), field.clone()));
        }
    }
    let time = wanted
        .time_constraint
        .as_ref()
        .map(|time| constraint(&name, time, &declarations))
        .transpose()?;
    Ok(StreamGrant {
        stream: SourceName::parse(&wanted.name)
            .map_err(|bad| GrantRequestError::Invalid(bad.to_string()))?,
        connections: chosen.iter().map(|stream| stream.connection.clone()).collect(),
        fields,
        time,
        keys: wanted.resources.as_ref().map(|keys| keys.iter().cloned().collect()),
    })
}

fn constraint(
    name: &str,
    wanted: &TimeConstraintRequest,
    declarations: &[&Arc<Declaration>],
) -> Result<TimeConstraint, GrantRequestError> {
    if wanted.since.is_none() && wanted.until.is_none() {
        return wrong(
            "a time field alone limits nothing; say from when with --since, or until when with --until",
        );
    }
    let instant = |what: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match Instant::parse(text) {
            Some(instant) => Ok(Some(instant)),
            None => wrong(format!(
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
    let field = match (&wanted.field, usual.first()) {
        (Some(field), _) => field.clone(),
        (None, Some(Some(field))) if usual.len() == 1 => (*field).to_owned(),
        _ => {
            let there = there_are(usable.iter().map(String::as_str), "fields with times");
            return wrong(format!(
                "`{name}` does not say which field tells when a record happened; name it with --time-field ({there}), or set `consent_time_field` with `stile declare`"
            ));
        }
    };
    if !usable.contains(&field) {
        let there = there_are(usable.iter().map(String::as_str), "fields with times");
        return wrong(format!(
            "the field `{}` of `{name}` does not hold dates or times; {there}",
            printable(&field)
        ));
    }
    Ok(TimeConstraint {
        field,
        since: instant("since", &wanted.since)?,
        until: instant("until", &wanted.until)?,
    })
}

/// Names, for the end of a sentence.
fn there_are<'a>(names: impl IntoIterator<Item = &'a str>, what: &str) -> String {
    const MOST: usize = 30;
    let names: Vec<String> = names.into_iter().map(printable).collect();
    let more = names.len().saturating_sub(MOST);
    match names.get(..names.len() - more).unwrap_or_default() {
        [] => format!("there are no {what}"),
        first if more > 0 => format!("the {what} are {} and {more} more", first.join(", ")),
        first => format!("the {what} are {}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, owner, rig};

    fn filled() -> Rig {
        let rig = rig();
        for (connection, stream, line) in [
            ("mail", "messages", r#"{"id":"a","sent_at":"2026-01-01","body":"x"}"#),
            ("work", "messages", r#"{"id":"b","sent_at":"2026-01-01","subject":"x"}"#),
            ("mail", "people", r#"{"id":"p","name":"Ann"}"#),
        ] {
            let pairs = [("connection_id".to_owned(), connection.to_owned())];
            rig.services
                .ingest(&owner(), Instant(7), stream, &pairs, &mut line.as_bytes())
                .unwrap();
        }
        let (mail, people) =
            (SourceName::parse("mail").unwrap(), SourceName::parse("people").unwrap());
        let mut json = rig
            .services
            .find_stream(&owner(), Instant(1), &mail, &people)
            .unwrap()
            .declaration
            .to_json();
        json["schema"]["required"] = serde_json::json!(["id"]);
        rig.services
            .declare(&owner(), &mail, &people, &Declaration::parse(&json).unwrap())
            .unwrap();
        rig
    }

    fn make(rig: &Rig, streams: serde_json::Value) -> Result<(String, CreatedGrant), String> {
        let streams = serde_json::from_value(streams).map_err(|error| error.to_string())?;
        let wanted = GrantRequest {
            client: "Cursor".into(),
            purpose: None,
            expires: None,
            single_use: false,
            streams,
        };
        let made = rig
            .services
            .create_grant(&owner(), Instant(0), wanted)
            .map_err(|why| why.to_string())?;
        let grants = rig.services.grants(&owner()).unwrap();
        let grant = grants.into_iter().find(|grant| grant.id == made.id).unwrap();
        Ok((grant.grant.unwrap().to_json().unwrap(), made))
    }

    #[test]
    fn what_is_left_out_is_filled_in_and_frozen() {
        let rig = filled();
        let streams = serde_json::json!([
            { "name": "messages", "time_constraint": { "since": "2026-01-01" } },
            { "name": "people", "fields": ["name"], "resources": ["p"] },
        ]);
        let (grant, made) = make(&rig, streams).unwrap();
        insta::assert_snapshot!(grant);
        assert_eq!(made.added, [("people".to_owned(), "id".to_owned())]);
    }

    #[test]
    fn what_there_is_not_is_refused_by_what_there_is() {
        let rig = filled();
        let said: Vec<String> = [
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
        .map(|streams| make(&rig, serde_json::from_str(streams).unwrap()).unwrap_err())
        .collect();
        insta::assert_snapshot!(said.join("\n"));
        assert!(rig.services.grants(&owner()).unwrap().is_empty());
    }
}
