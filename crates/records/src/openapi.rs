//! The OpenAPI document (version 3.1), made from [`super::endpoints`].

use serde_json::{Map, Value as Json, json};

use super::endpoints::{ENDPOINTS, Endpoint};
use super::parameters::{Parameter, Shape};

/// The document.
pub fn document(version: &str) -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for endpoint in ENDPOINTS {
        let item = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(endpoint.method.to_owned(), operation(endpoint));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stile records",
            "version": version,
            "description": "What a grant lets a client see of a person's records. Characters are Unicode scalar values; addresses in answers are relative.",
        },
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": error_schema() },
        },
    })
}

fn operation(endpoint: &Endpoint) -> Json {
    let mut parameters: Vec<Json> = variables(endpoint.path).map(in_path).collect();
    parameters.extend(endpoint.parameters.iter().map(|parameter| in_query(endpoint, parameter)));
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.about,
        "parameters": parameters,
        "responses": responses(endpoint),
    });
    if let Some(operation) = operation.as_object_mut().filter(|_| endpoint.method == "post") {
        let (about, kind) = match endpoint.id {
            "putBlob" => ("The bytes of the blob.", "application/octet-stream"),
            _ => ("One record on each line; none is no error.", "application/x-ndjson"),
        };
        let body = json!({ "description": about, "required": false, "content": { kind: { "schema": {} } } });
        operation.insert("requestBody".to_owned(), body);
    }
    operation
}

fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn in_path(name: &str) -> Json {
    let about = match name {
        "stream" => "The stream's name.",
        "blob_id" => "The blob's name, as records have it.",
        _ => "The record's canonical key, percent-encoded.",
    };
    json!({
        "name": name, "in": "path", "required": true, "description": about,
        "schema": { "type": "string", "minLength": 1 },
    })
}

/// Whether a request without this parameter is refused.
fn is_required(endpoint: &Endpoint, parameter: &Parameter) -> bool {
    matches!(
        (endpoint.id, parameter.name),
        ("getFieldWindow", "field") | ("aggregateRecords", "metric") | ("search", "q")
    )
}

fn in_query(endpoint: &Endpoint, parameter: &Parameter) -> Json {
    let Parameter { name, shape, about } = *parameter;
    let (schema, style) = match shape {
        Shape::Text { most } => (json!({ "type": "string", "maxLength": most }), None),
        Shape::OneOf(words) => (json!({ "type": "string", "enum": words }), None),
        Shape::Whole { least, most, clamped, .. } => {
            let most = if clamped { Json::Null } else { most.into() };
            let mut schema = json!({ "type": "integer", "minimum": least });
            if let Some(schema) = schema.as_object_mut().filter(|_| !most.is_null()) {
                schema.insert("maximum".to_owned(), most);
            }
            (schema, None)
        }
        Shape::Names => {
            let names = json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 });
            (names, Some(("form", false)))
        }
        Shape::Limits => {
            let limits = json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 } });
            (limits, Some(("deepObject", true)))
        }
        Shape::Conditions => {
            let value = json!({ "type": "object", "additionalProperties": { "type": "string" } });
            (value, Some(("deepObject", true)))
        }
    };
    let mut told = json!({
        "name": name, "in": "query", "required": is_required(endpoint, parameter), "description": about, "schema": schema,
    });
    if let (Some(told), Some((style, explode))) = (told.as_object_mut(), style) {
        told.insert("style".to_owned(), style.into());
        told.insert("explode".to_owned(), explode.into());
    }
    told
}

fn responses(endpoint: &Endpoint) -> Json {
    let mut responses = Map::new();
    let is_blob = endpoint.path.ends_with("{blob_id}");
    let mut add = |status: &str, about: &str, schema: Option<Json>| {
        let mut response = json!({ "description": about });
        let kind = if is_blob && status.starts_with('2') { "*/*" } else { "application/json" };
        if let (Some(response), Some(schema)) = (response.as_object_mut(), schema) {
            response.insert("content".to_owned(), json!({ kind: { "schema": schema } }));
        }
        responses.insert(status.to_owned(), response);
    };
    let error = || Some(json!({ "$ref": "#/components/schemas/Error" }));
    match endpoint.id {
        "deleteRecord" | "deleteRecords" => add("204", "Nothing of it is there any more.", None),
        "getBlob" => {
            add("200", "All bytes.", Some(json!({})));
            add("206", "The bytes that `Range` names.", Some(json!({})));
            add("416", "There are none of the bytes that `Range` names.", error());
        }
        "listRecords" => {
            add("200", "The answer.", Some(answer_schema(endpoint.id)));
            add("410", "`changes_since` is too old.", error());
        }
        "headBlob" => add("200", "There are such bytes.", None),
        "putBlob" => {
            add("201", "They are stored.", Some(answer_schema(endpoint.id)));
            add("413", "They are too many.", error());
        }
        _ => add("200", "The answer.", Some(answer_schema(endpoint.id))),
    }
    add("400", "A parameter is wrong.", error());
    add("401", "There is no valid token.", error());
    add("403", "The grant does not allow it.", error());
    add("404", "There is no such thing, or the grant hides it.", error());
    add("409", "Several connections have it.", error());
    add("422", "The field is binary, or is not, or has too many or too long values.", error());
    add("429", "Too many requests.", error());
    add("431", "The request is too long.", None);
    add("503", "The store is busy.", error());
    Json::Object(responses)
}

fn answer_schema(id: &str) -> Json {
    let object = |name: &str, required: &[&str]| {
        json!({
            "type": "object",
            "required": required,
            "properties": { "object": { "const": name } },
        })
    };
    match id {
        "listStreams" | "listRecords" | "search" => {
            object("list", &["object", "url", "has_more", "data", "links", "meta"])
        }
        "getStream" => object(
            "stream_metadata",
            &["object", "name", "schema", "primary_key", "field_capabilities"],
        ),
        "getSchema" => {
            object("schema", &["object", "bearer", "connectors", "connector_count", "stream_count"])
        }
        "aggregateRecords" => object(
            "aggregation",
            &[
                "object",
                "stream",
                "metric",
                "field",
                "filtered_record_count",
                "approximate",
                "meta",
            ],
        ),
        "getRecord" => {
            object("record", &["object", "id", "stream", "connection_id", "data", "emitted_at"])
        }
        "getFieldWindow" => object(
            "field_window",
            &["object", "stream", "record_id", "connection_id", "field", "window"],
        ),
        "putBlob" => object("blob", &["object", "blob_id", "size_bytes", "sha256", "fetch_url"]),
        _ => json!({
            "type": "object",
            "required": ["stream", "records_attempted", "records_accepted", "records_rejected"],
        }),
    }
}

fn error_schema() -> Json {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["type", "code", "message", "request_id"],
                "properties": {
                    "type": { "type": "string" },
                    "code": { "type": "string" },
                    "message": { "type": "string" },
                    "param": { "type": "string" },
                    "reason": { "enum": ["malformed", "mismatch", "stale"] },
                    "request_id": { "type": "string" },
                    "retry_with": { "type": "string" },
                    "available_connections": { "type": "array" },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document() {
        insta::assert_snapshot!(format!("{:#}", document("0.0.0")));
    }
}
