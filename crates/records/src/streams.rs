//! `GET /v1/streams` and `GET /v1/streams/{stream}`: what there is, as far as it is granted.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::{Declaration, DeclaredField};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use super::Reading;
use super::fields::{may_see, operators};
use super::parameters::Parameters;
use super::render::{connection, connections, meta};
use super::sink::ResponseSink;

/// Puts all streams.
///
/// # Errors
/// What the grant, the parameters or the database say against it.
pub fn streams(
    reading: Reading<'_>,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let wanted = connection(parameters)?;
    let mut rows = Vec::new();
    for source in reading.view.sources()? {
        if wanted.is_some_and(|wanted| source.connection().as_str() != wanted) {
            continue;
        }
        let (count, latest) = reading.view.count(&source)?;
        rows.push(json!({
            "object": "stream",
            "name": source.stream(),
            "connection_id": source.connection(),
            "connector_instance_id": source.connection(),
            "record_count": count,
            "last_updated": latest.map(Instant::to_rfc3339),
        }));
    }
    let answer = json!({
        "object": "list", "url": "/v1/streams", "has_more": false, "data": rows,
        "links": { "self": "/v1/streams", "next": null }, "meta": meta(parameters),
    });
    out.write(&answer.to_string());
    Ok(())
}

/// Puts what is declared of one stream.
///
/// # Errors
/// What the grant, the parameters or the database say against it; [`Problem::AmbiguousConnection`]
/// where several connections have it.
pub fn metadata(
    reading: Reading<'_>,
    stream: &str,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources = reading.view.sources_of(stream, connection(parameters)?)?;
    let [source] = sources.as_slice() else {
        return Err(Problem::AmbiguousConnection { connections: connections(&sources) });
    };
    let mut answer = described(reading, source)?;
    answer.insert("object".to_owned(), "stream_metadata".into());
    out.write(&Json::Object(answer).to_string());
    Ok(())
}

/// A declaration as a caller may see it: of a client's, only the granted fields.
pub(super) fn described(
    reading: Reading<'_>,
    source: &RecordSource,
) -> Result<Map<String, Json>, Problem> {
    let declaration = reading.declarations.get(source)?;
    let mut shown = match source.fields() {
        None => declaration.to_json(),
        Some(_) => narrowed(&declaration, source),
    };
    let members = shown.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut described = Map::new();
    described.insert("name".to_owned(), source.stream().as_str().into());
    described.insert("connection_id".to_owned(), source.connection().as_str().into());
    for (name, member) in members {
        // A manifest that was taken for a declaration names its stream; here it is what the owner
        // calls it.
        described.entry(name).or_insert(member);
    }
    let capabilities = declaration.fields().iter().filter(|field| may_see(source, &field.name));
    let capabilities: Map<String, Json> =
        capabilities.map(|field| (field.name.clone(), capability(&declaration, field))).collect();
    described.insert("field_capabilities".to_owned(), Json::Object(capabilities));
    described.insert("expand_capabilities".to_owned(), expansions(&declaration, source));
    Ok(described)
}

/// What is left of a declaration where only some fields are granted. Nothing of it names another
/// field.
fn narrowed(declaration: &Declaration, source: &RecordSource) -> Json {
    let granted = |name: &str| may_see(source, name);
    let list = |names: &[String]| -> Vec<String> {
        names.iter().filter(|name| granted(name)).cloned().collect()
    };
    let properties: Map<String, Json> = declaration
        .schema()
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .filter(|(name, _)| granted(name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let key = declaration.primary_key();
    let key = if key.iter().all(|name| granted(name)) { key } else { &[] };
    let one = |name: Option<&str>| name.filter(|name| granted(name)).map_or(Json::Null, Json::from);
    let mut ranges = Map::new();
    let mut searched = Vec::new();
    let mut exact = Vec::new();
    for field in declaration.fields().iter().filter(|field| granted(&field.name)) {
        if field.is_range_filterable() {
            ranges.insert(field.name.clone(), operators(field).into());
        }
        if field.searchable {
            searched.push(field.name.clone());
        }
        if field.filterable {
            exact.push(field.name.clone());
        }
    }
    json!({
        "schema": { "type": "object", "properties": properties, "required": list(declaration.required()) },
        "primary_key": key,
        "cursor_field": one(declaration.cursor_field()),
        "consent_time_field": one(declaration.consent_time_field()),
        "query": { "range_filters": ranges, "exact_filters": exact, "search": { "lexical_fields": searched } },
        "views": [],
        "relationships": [],
    })
}

/// The relations that can be asked for: by the owner alone.
pub(super) fn expansions(declaration: &Declaration, source: &RecordSource) -> Json {
    let relations = declaration.relations().iter().filter(|_| source.fields().is_none());
    let told = relations.map(|relation| {
        json!({
            "name": relation.name, "target_stream": relation.stream, "cardinality": relation.cardinality(),
            "foreign_key": relation.foreign_key, "default_limit": relation.many.map(|limits| limits.default),
            "max_limit": relation.many.map(|limits| limits.most), "granted": true, "usable": true,
        })
    });
    told.collect()
}

fn capability(declaration: &Declaration, field: &DeclaredField) -> Json {
    let schema =
        declaration.schema().get("properties").and_then(|properties| properties.get(&field.name));
    let aggregation: Map<String, Json> = field
        .aggregations
        .iter()
        .map(|kind| (kind.name().to_owned(), json!({ "declared": true, "usable": true })))
        .collect();
    json!({
        "granted": true,
        "schema": schema,
        "exact_filter": { "declared": field.filterable, "usable": field.filterable },
        "range_filter": { "declared": field.is_range_filterable(), "usable": field.is_range_filterable(), "operators": operators(field) },
        "lexical_search": { "declared": field.searchable, "usable": field.searchable },
        "aggregation": aggregation,
    })
}
