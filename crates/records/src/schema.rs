//! `GET /v1/schema`: everything a caller can ask for, in one answer.
//!
//! A connector here is a connection. The compact form, which a model reads, says of each field in
//! one short word list what can be done with it: `t=` its types, `eq` an exact filter, `r=` ranges,
//! `lex` search, `a=` sums.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::DeclaredField;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use super::Reading;
use super::fields::{may_see, operators};
use super::parameters::Parameters;
use super::render::{connection, connections, meta};
use super::sink::ResponseSink;
use super::streams::{described, expansions};

/// Puts the schema.
///
/// # Errors
/// What the grant, the parameters or the database say against it; [`Problem::AmbiguousSchema`]
/// where the details of a stream are asked for that several connections have.
pub fn schema(
    reading: Reading<'_>,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = reading.view;
    let (stream, wanted) = (parameters.text("stream"), connection(parameters)?);
    let compact = parameters.text("view") == Some("compact");
    let full = parameters.text("detail") == Some("full");
    if compact && full {
        return Err(Problem::invalid(
            "detail",
            "`view=compact` and `detail=full` exclude each other; send one of them",
        ));
    }
    if full && stream.is_none() {
        return Err(Problem::invalid(
            "detail",
            "`detail=full` is of one stream; send `stream` too",
        ));
    }
    let sources = match stream {
        Some(stream) => view.sources_of(stream, wanted)?,
        None => view.sources()?,
    };
    if full && sources.len() > 1 {
        return Err(Problem::AmbiguousSchema { connections: connections(&sources) });
    }
    let mut by_connection: BTreeMap<&str, Vec<&RecordSource>> = BTreeMap::new();
    for source in &sources {
        if wanted.is_none_or(|wanted| source.connection().as_str() == wanted) {
            by_connection.entry(source.connection().as_str()).or_default().push(source);
        }
    }
    let mut connectors = Vec::new();
    let mut count = 0;
    for (name, sources) in by_connection {
        count += sources.len();
        let streams = sources.iter().map(|source| match compact {
            true => in_short(reading, source),
            false => described(reading, source).map(Json::Object),
        });
        let streams: Vec<Json> = streams.collect::<Result<_, _>>()?;
        connectors.push(json!({
            "object": "connector",
            "source": { "id": name, "kind": "connector" },
            "connector_key": name,
            "connector_id": name,
            "stream_count": streams.len(),
            "granted_connections": [{ "connection_id": name }],
            "streams": streams,
        }));
    }
    let bearer = match view.grant() {
        None => {
            json!({ "scope": "owner", "token_kind": "owner", "grant_id": null, "client_id": null })
        }
        Some(grant) => json!({
            "scope": "grant", "token_kind": "client", "grant_id": view.caller(), "client_id": grant.client,
        }),
    };
    let mut answer = json!({
        "object": "schema", "bearer": bearer, "connector_count": connectors.len(), "stream_count": count,
        "connectors": connectors, "links": { "self": "/v1/schema" }, "meta": meta(parameters),
    });
    if let Some(answer) = answer.as_object_mut().filter(|_| compact) {
        answer.insert("detail".to_owned(), "compact".into());
    }
    out.write(&answer.to_string());
    Ok(())
}

fn in_short(reading: Reading<'_>, source: &RecordSource) -> Result<Json, Problem> {
    let declaration = reading.declarations.get(source)?;
    let fields = declaration.fields().iter().filter(|field| may_see(source, &field.name));
    let fields: Map<String, Json> =
        fields.map(|field| (field.name.clone(), flags(field).into())).collect();
    let key = declaration.primary_key();
    let key = if key.iter().all(|name| may_see(source, name)) { key } else { &[] };
    let mut stream = json!({
        "name": source.stream(), "primary_key": key, "field_capabilities": fields,
        "expand_capabilities": expansions(&declaration, source),
    });
    if let (Some(stream), Some(cursor)) = (stream.as_object_mut(), source.ordered_by()) {
        stream.insert("cursor_field".to_owned(), cursor.into());
    }
    Ok(stream)
}

/// What can be done with a field, for a model.
fn flags(field: &DeclaredField) -> String {
    let types: Vec<&str> = field.types.iter().map(|kind| kind.name()).collect();
    let mut flags = vec![format!("t={}", types.join("|"))];
    if field.filterable {
        flags.push("eq".to_owned());
    }
    if field.is_range_filterable() {
        flags.push(format!("r={}", operators(field).join("|")));
    }
    if field.searchable {
        flags.push("lex".to_owned());
    }
    if field.is_aggregatable() {
        let kinds: Vec<&str> = field.aggregations.iter().map(|kind| kind.name()).collect();
        flags.push(format!("a={}", kinds.join("|")));
    }
    flags.join(",")
}
