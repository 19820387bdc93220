//! What a caller may know of a stream: its declaration, limited to the fields of the grant.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::{Declaration, DeclaredField};
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::context::ReadContext;
use crate::field_selection::{may_see, operator_names};

/// Describes a stream by its declaration; for a client, only by the granted fields.
pub(crate) fn describe_stream(
    context: ReadContext<'_>,
    source: &RecordSource,
) -> Result<Map<String, Json>, Problem> {
    let declaration = context.declarations.get(source)?;
    let mut json = match source.fields() {
        None => declaration.to_json(),
        Some(_) => narrowed(&declaration, source),
    };
    let members = json.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut described = Map::new();
    described.insert("name".to_owned(), source.stream().as_str().into());
    described.insert("connection_id".to_owned(), source.connection().as_str().into());
    for (name, member) in members {
        // A declaration from a manifest may have a name of its own. The owner's name stays.
        described.entry(name).or_insert(member);
    }
    let capabilities = declaration.fields().iter().filter(|field| may_see(source, &field.name));
    let capabilities: Map<String, Json> = capabilities
        .map(|field| (field.name.clone(), field_capability(&declaration, field)))
        .collect();
    described.insert("field_capabilities".to_owned(), Json::Object(capabilities));
    described.insert("expand_capabilities".to_owned(), expand_capabilities(&declaration, source));
    Ok(described)
}

/// Returns a declaration without the fields that are not granted. No member names such a field.
fn narrowed(declaration: &Declaration, source: &RecordSource) -> Json {
    let granted = |name: &str| may_see(source, name);
    let visible = |names: &[String]| -> Vec<String> {
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
    let key = visible_primary_key(declaration, source);
    let visible_name =
        |name: Option<&str>| name.filter(|name| granted(name)).map_or(Json::Null, Json::from);
    let mut ranges = Map::new();
    let mut searched = Vec::new();
    let mut exact = Vec::new();
    for field in declaration.fields().iter().filter(|field| granted(&field.name)) {
        if field.is_range_filterable() {
            ranges.insert(field.name.clone(), operator_names(field).into());
        }
        if field.searchable {
            searched.push(field.name.clone());
        }
        if field.filterable {
            exact.push(field.name.clone());
        }
    }
    json!({
        "schema": { "type": "object", "properties": properties, "required": visible(declaration.required()) },
        "primary_key": key,
        "cursor_field": visible_name(declaration.cursor_field()),
        "consent_time_field": visible_name(declaration.consent_time_field()),
        "query": { "range_filters": ranges, "exact_filters": exact, "search": { "lexical_fields": searched } },
        "views": [],
        "relationships": [],
    })
}

/// Returns the relations that the caller may expand: all for the owner, else none.
pub(crate) fn expand_capabilities(declaration: &Declaration, source: &RecordSource) -> Json {
    let relations = declaration.relations().iter().filter(|_| source.fields().is_none());
    let capabilities = relations.map(|relation| {
        json!({
            "name": relation.name, "target_stream": relation.stream, "cardinality": relation.cardinality(),
            "foreign_key": relation.foreign_key, "default_limit": relation.many.map(|limits| limits.default),
            "max_limit": relation.many.map(|limits| limits.most), "granted": true, "usable": true,
        })
    });
    capabilities.collect()
}

/// Returns the primary key; empty if the caller may not see all of its fields.
pub(crate) fn visible_primary_key<'d>(
    declaration: &'d Declaration,
    source: &RecordSource,
) -> &'d [String] {
    let key = declaration.primary_key();
    if key.iter().all(|name| may_see(source, name)) { key } else { &[] }
}

fn field_capability(declaration: &Declaration, field: &DeclaredField) -> Json {
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
        "range_filter": { "declared": field.is_range_filterable(), "usable": field.is_range_filterable(), "operators": operator_names(field) },
        "lexical_search": { "declared": field.searchable, "usable": field.searchable },
        "aggregation": aggregation,
    })
}
