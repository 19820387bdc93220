//! `PUT /v1/streams/{stream}/declaration`: declares a stream of one connection.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};

use super::get_declaration::DECLARATION_MEMBERS;
use crate::administration::DeclareError;
use crate::context::OwnerContext;
use crate::json_body::{invalid_body, read_body};
use crate::media_types;
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "putDeclaration",
    method: OperationMethod::Put,
    path: "/v1/streams/{stream}/declaration",
    about: "Declares a stream of one connection, which may be new, and orders and indexes its records accordingly. The key of a stream with records cannot change. No grant becomes broader. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    body: Some(BodyDeclaration {
        media_type: media_types::JSON,
        about: "The declaration, alone or as the answer to `GET` has it.",
    }),
    response: ResponseDeclaration::json("declaration", DECLARATION_MEMBERS),
    other_responses: &[],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Store(put_declaration),
};

impl From<DeclareError> for Problem {
    fn from(error: DeclareError) -> Self {
        match error {
            DeclareError::Problem(problem) => problem,
            DeclareError::Invalid(_) | DeclareError::KeyChange { .. } => {
                Self::InvalidDeclaration { message: format!("{error}; nothing was changed") }
            }
        }
    }
}

fn put_declaration(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let stream = SourceName::parse(&target.stream)
        .map_err(|bad| Problem::invalid("stream", bad.to_string()))?;
    let connection = context.target_connection(&stream, NamedConnection::of(parameters).name()?)?;
    let json: Json = serde_json::from_slice(&read_body(body)?)
        .map_err(|error| invalid_body(format!("the body: {error}; nothing was changed")))?;
    let json = unwrapped(json, &stream, &connection)?;
    let declaration = Declaration::parse(&json).map_err(DeclareError::from)?;
    let is_new = context.declare(&connection, &stream, &declaration)?;
    Ok(json!({
        "object": "declaration", "stream": stream, "connection_id": connection,
        "is_new": is_new, "declaration": declaration.to_json(),
    }))
}

/// Takes the declaration out of what `GET` answers. Returns any other body as it is.
///
/// # Errors
/// `invalid_request` if the answer was about another stream or connection.
fn unwrapped(
    mut body: Json,
    stream: &SourceName,
    connection: &SourceName,
) -> Result<Json, Problem> {
    let is_answer = body.get("object").is_some_and(|object| object == "declaration")
        && body.get("schema").is_none();
    let Some(declaration) = body.get_mut("declaration").filter(|_| is_answer).map(Json::take)
    else {
        return Ok(body);
    };
    for (name, own) in [("stream", stream), ("connection_id", connection)] {
        if body.get(name).is_some_and(|said| said != own.as_str()) {
            let text = format!("the body: its `{name}` is not that of the address");
            return Err(invalid_body(format!("{text}; nothing was changed")));
        }
    }
    Ok(declaration)
}
