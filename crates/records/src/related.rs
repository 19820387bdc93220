//! `view`, `expand` and `expand_limit`: named lists of fields, and records of other streams that
//! belong to one.
//!
//! For the owner alone: what is related is in another stream, which a grant may not name. A field
//! refers to the key that it is: a text is the key itself, a number or a boolean the key that is
//! written like it; `null` refers to nothing. One related record is found by its key. Many are
//! found by looking at the records of the other stream from its last on, until there are as many as
//! are shown, and one more.

use std::collections::{BTreeSet, HashMap};

use stile_domain::records::declaration::Relation;
use stile_domain::records::filter::{Condition, FieldTest};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_store::records::{RecordQuery, RecordRow, RecordSource, SortOrder};

use super::Reading;
use super::bounded::Cut;
use super::fields;
use super::parameters::Parameters;
use super::render::{Shown, put_record};
use super::sink::{ResponseSink, write_json_string};

/// What a request wants of each record.
pub(super) struct Wanted {
    /// Only these fields.
    pub(super) fields: Option<BTreeSet<String>>,
    /// These relations, each with how many of its records.
    relations: Vec<(Relation, usize)>,
}

/// Sources of related streams that were looked up before.
pub(super) type Streams = HashMap<(SourceName, SourceName), Vec<RecordSource>>;

/// That a client sends nothing that is the owner's. Before anything is looked up: the words are the
/// same whatever there is.
pub(super) fn owner_only(reading: Reading<'_>, parameters: &Parameters) -> Result<(), Problem> {
    if reading.view.grant().is_none() {
        return Ok(());
    }
    let sent = [
        ("view", parameters.text("view").is_some()),
        ("expand", parameters.names("expand").is_some()),
        ("expand_limit", !parameters.limits().is_empty()),
    ];
    match sent.into_iter().find(|(_, sent)| *sent) {
        None => Ok(()),
        Some((name, _)) => Err(Problem::invalid(
            name,
            format!("`{name}` is for the owner alone; send `fields`, or ask for each stream"),
        )),
    }
}

/// The fields of a request, by name or by view.
///
/// # Errors
/// [`Problem::InvalidRequest`] where both are sent, there is no such view, or the connections have
/// different ones; as [`fields::requested`].
pub(super) fn fields_of(
    reading: Reading<'_>,
    sources: &[RecordSource],
    parameters: &Parameters,
) -> Result<Option<BTreeSet<String>>, Problem> {
    let names = parameters.names("fields");
    let Some(view) = parameters.text("view") else {
        return fields::requested(reading, sources, names);
    };
    if names.is_some() {
        return Err(Problem::invalid(
            "view",
            "`view` and `fields` exclude each other; send one of them",
        ));
    }
    let mut found: Vec<Option<BTreeSet<String>>> = Vec::new();
    for source in sources {
        let declaration = reading.declarations.get(source)?;
        found.push(declaration.view(view).map(|names| names.iter().cloned().collect()));
    }
    match found.as_slice() {
        [Some(first), others @ ..] if others.iter().all(|other| other.as_ref() == Some(first)) => {
            let names: Vec<String> = first.iter().cloned().collect();
            fields::requested(reading, sources, Some(&names))
        }
        found if found.iter().all(Option::is_none) => Err(Problem::invalid(
            "view",
            "the stream declares no such view; `/v1/streams/{stream}` lists those that there are",
        )),
        _ => Err(Problem::invalid(
            "view",
            "connections declare this view differently; send `connection_id`",
        )),
    }
}

/// What a request wants, checked.
///
/// # Errors
/// As [`fields_of`]; [`Problem::InvalidExpand`].
pub(super) fn relations(
    reading: Reading<'_>,
    sources: &[RecordSource],
    parameters: &Parameters,
    fields: Option<BTreeSet<String>>,
) -> Result<Wanted, Problem> {
    let names = parameters.names("expand").unwrap_or_default();
    let limits = parameters.limits();
    if let Some((name, _)) = limits.iter().find(|(name, _)| !names.contains(name)) {
        return Err(invalid_limit(name, "is of a relation that `expand` does not name"));
    }
    let mut relations = Vec::new();
    for name in names {
        let relation = declared(reading, sources, name)?;
        let asked = limits.iter().find(|(own, _)| own == name).map(|(_, limit)| *limit);
        let limit = match (relation.many, asked) {
            (None, None) => 1,
            (None, Some(_)) => {
                return Err(invalid_limit(name, "is of a relation to one record; leave it out"));
            }
            (Some(limits), None) => limits.default,
            (Some(limits), Some(asked)) if asked <= limits.most => asked,
            (Some(limits), Some(_)) => {
                return Err(invalid_limit(name, &format!("is at most {}", limits.most)));
            }
        };
        relations.push((relation, usize::try_from(limit).unwrap_or(usize::MAX)));
    }
    Ok(Wanted { fields, relations })
}

fn invalid_limit(name: &str, message: &str) -> Problem {
    let param = format!("expand_limit[{name}]");
    Problem::InvalidExpand { message: format!("`{param}` {message}"), param }
}

/// A relation that every connection declares alike.
fn declared(
    reading: Reading<'_>,
    sources: &[RecordSource],
    name: &str,
) -> Result<Relation, Problem> {
    let mut found: Vec<Option<Relation>> = Vec::new();
    for source in sources {
        let declaration = reading.declarations.get(source)?;
        found.push(declaration.relations().iter().find(|relation| relation.name == name).cloned());
    }
    let invalid = |message: String| Problem::InvalidExpand { param: "expand".to_owned(), message };
    match found.as_slice() {
        [Some(first), others @ ..] if others.iter().all(|other| other.as_ref() == Some(first)) => {
            Ok(first.clone())
        }
        found if found.iter().all(Option::is_none) => Err(invalid(format!(
            "`{name}` is no relation of this stream; `expand_capabilities` of `/v1/streams/{{stream}}` lists those that there are"
        ))),
        _ => Err(invalid(format!(
            "connections declare the relation `{name}` differently; send `connection_id`"
        ))),
    }
}

impl Wanted {
    /// Puts a record with its related ones.
    ///
    /// # Errors
    /// What the database says.
    pub(super) fn put(
        &self,
        reading: Reading<'_>,
        sources: &[RecordSource],
        row: &RecordRow,
        cut: &Cut,
        (streams, out): (&mut Streams, &mut dyn ResponseSink),
    ) -> Result<(), Problem> {
        put_record(reading, sources, row, Shown { fields: self.fields.as_ref(), cut }, out)?;
        if self.relations.is_empty() {
            return Ok(());
        }
        let source = sources.get(row.source).ok_or(Problem::NotFound)?;
        let cut = cut.of_related();
        let shown = Shown { fields: None, cut: &cut };
        for (at, (relation, limit)) in self.relations.iter().enumerate() {
            out.write(if at == 0 { ",\"expanded\":{" } else { "," });
            write_json_string(out, &relation.name);
            let others = sources_of(reading, source, relation, streams)?;
            if relation.many.is_some() {
                put_many(reading, others, (relation, &row.key, *limit), shown, out)?;
            } else {
                let key = referred(reading, sources, row, &relation.foreign_key)?;
                let found = key.map(|key| reading.view.find_by_key(others, &key)).transpose()?;
                out.write(":");
                match found.and_then(|mut rows| rows.pop()) {
                    None => out.write("null"),
                    Some(other) => {
                        put_record(reading, others, &other, shown, out)?;
                        out.write("}");
                    }
                }
            }
        }
        out.write("}");
        Ok(())
    }
}

/// The other stream of a relation, in the same connection, if it is there.
fn sources_of<'s>(
    reading: Reading<'_>,
    source: &RecordSource,
    relation: &Relation,
    streams: &'s mut Streams,
) -> Result<&'s [RecordSource], Problem> {
    let key = (source.connection().clone(), relation.stream.clone());
    if !streams.contains_key(&key) {
        let found = match reading
            .view
            .sources_of(relation.stream.as_str(), Some(source.connection().as_str()))
        {
            Ok(found) => found,
            Err(Problem::StreamNotFound { .. }) => Vec::new(),
            Err(problem) => return Err(problem),
        };
        streams.insert(key.clone(), found);
    }
    Ok(streams.get(&key).map(Vec::as_slice).unwrap_or_default())
}

fn put_many(
    reading: Reading<'_>,
    others: &[RecordSource],
    (relation, key, limit): (&Relation, &str, usize),
    shown: Shown<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let refers =
        Condition { field: relation.foreign_key.clone(), test: FieldTest::Refers(key.to_owned()) };
    let query =
        RecordQuery { order: SortOrder::Descending, after: None, conditions: &[refers], limit };
    let page = reading.view.list(others, query)?;
    out.write(&format!(":{{\"object\":\"list\",\"has_more\":{},\"data\":[", page.has_more));
    for (at, other) in page.rows.iter().enumerate() {
        if at > 0 {
            out.write(",");
        }
        put_record(reading, others, other, shown, out)?;
        out.write("}");
        if out.is_closed() {
            break;
        }
    }
    out.write("]}");
    Ok(())
}

/// The key that a field of a record refers to.
fn referred(
    reading: Reading<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    field: &str,
) -> Result<Option<String>, Problem> {
    let loaded = reading.view.load_fields(sources, row)?;
    let entry = loaded.body().field(field).map_err(|_| Problem::Corrupt)?;
    Ok(match entry.map(|entry| entry.value) {
        Some(StoredValue::Text(text) | StoredValue::Number(text)) => Some(text.to_owned()),
        Some(StoredValue::Bool(value)) => Some(value.to_string()),
        // No key is as long as a text that is kept apart.
        _ => None,
    })
}
