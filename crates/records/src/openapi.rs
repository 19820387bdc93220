//! The OpenAPI document (version 3.1), made from the declarations of the operations.

use serde_json::{Map, Value as Json, json};

use stile_domain::records::request::parameters::{
    AboveMax, Parameter, ParameterPresence, ParameterType,
};

use crate::operation_declaration::{
    OperationDeclaration, PathVariable, ResponseContent, ResponseDeclaration,
};

/// The answers that every operation may give besides its own.
const COMMON_RESPONSES: [ResponseDeclaration; 9] = [
    ResponseDeclaration::error(400, "A parameter is wrong."),
    ResponseDeclaration::error(401, "There is no valid token."),
    ResponseDeclaration::error(403, "The grant does not allow it."),
    ResponseDeclaration::error(404, "The named thing does not exist, or the grant hides it."),
    ResponseDeclaration::error(409, "Several connections have the named thing."),
    ResponseDeclaration::error(
        422,
        "The field is binary or not binary, or has too many or too long values.",
    ),
    ResponseDeclaration::error(429, "Too many requests."),
    ResponseDeclaration {
        status: 431,
        about: "The request is too long.",
        content: ResponseContent::Empty,
    },
    ResponseDeclaration::error(503, "The store is busy."),
];

/// Returns the document that describes `operations`.
pub fn document(version: &str, operations: &[&OperationDeclaration]) -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for operation in operations {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(operation.method.name().to_ascii_lowercase(), operation_object(operation));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stile records",
            "version": version,
            "description": "A person's records, limited to the grant of the client. Characters are Unicode scalar values; addresses in answers are relative.",
        },
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": error_schema() },
        },
    })
}

fn operation_object(operation: &OperationDeclaration) -> Json {
    let variables = operation.path.split('/').filter_map(PathVariable::parse);
    let mut parameters: Vec<Json> = variables.map(path_parameter).collect();
    parameters.extend(operation.parameters.iter().map(query_parameter));
    let responses: Map<String, Json> = std::iter::once(&operation.response)
        .chain(operation.other_responses)
        .chain(&COMMON_RESPONSES)
        .map(|response| (response.status.to_string(), response_object(response)))
        .collect();
    let mut object = json!({
        "operationId": operation.id,
        "summary": operation.about,
        "parameters": parameters,
        "responses": responses,
    });
    if let (Some(object), Some(body)) = (object.as_object_mut(), operation.body) {
        let content = json!({ body.media_type: { "schema": {} } });
        let body = json!({ "description": body.about, "required": false, "content": content });
        object.insert("requestBody".to_owned(), body);
    }
    object
}

fn path_parameter(variable: PathVariable) -> Json {
    json!({
        "name": variable.name(), "in": "path", "required": true, "description": variable.about(),
        "schema": { "type": "string", "minLength": 1 },
    })
}

fn query_parameter(parameter: &Parameter) -> Json {
    let Parameter { name, kind, presence, about } = *parameter;
    let (schema, style) = match kind {
        ParameterType::Text { max_bytes } => {
            (json!({ "type": "string", "maxLength": max_bytes }), None)
        }
        ParameterType::OneOf(words) => (json!({ "type": "string", "enum": words }), None),
        ParameterType::Integer { min, above_max: AboveMax::Clamped, .. } => {
            (json!({ "type": "integer", "minimum": min }), None)
        }
        ParameterType::Integer { min, max, above_max: AboveMax::Refused, .. } => {
            (json!({ "type": "integer", "minimum": min, "maximum": max }), None)
        }
        ParameterType::Names => {
            let names = json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 });
            (names, Some(("form", false)))
        }
        ParameterType::RepeatedName { max } => {
            let names = json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1, "maxItems": max });
            (names, Some(("form", true)))
        }
        ParameterType::RelationLimits => {
            let limits = json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 } });
            (limits, Some(("deepObject", true)))
        }
        ParameterType::Conditions | ParameterType::Alternatives => {
            let value = json!({ "type": "object", "additionalProperties": { "type": "string" } });
            (value, Some(("deepObject", true)))
        }
    };
    let mut object = json!({
        "name": name, "in": "query", "required": presence == ParameterPresence::Required,
        "description": about, "schema": schema,
    });
    if let (Some(object), Some((style, explode))) = (object.as_object_mut(), style) {
        object.insert("style".to_owned(), style.into());
        object.insert("explode".to_owned(), explode.into());
    }
    object
}

fn response_object(response: &ResponseDeclaration) -> Json {
    let content = match response.content {
        ResponseContent::Empty => return json!({ "description": response.about }),
        ResponseContent::Bytes => json!({ "*/*": { "schema": {} } }),
        ResponseContent::Error => {
            json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } })
        }
        ResponseContent::Json { object, required } => {
            let mut schema = json!({ "type": "object", "required": required });
            if let (Some(schema), Some(object)) = (schema.as_object_mut(), object) {
                let properties = json!({ "object": { "const": object } });
                schema.insert("properties".to_owned(), properties);
            }
            json!({ "application/json": { "schema": schema } })
        }
    };
    json!({ "description": response.about, "content": content })
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
    use crate::operations::OPERATIONS;

    #[test]
    fn the_document() {
        insta::assert_snapshot!(format!("{:#}", document("0.0.0", OPERATIONS)));
    }
}
