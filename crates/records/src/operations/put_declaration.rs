//! `PUT /v1/streams/{stream}/declaration`: declares a stream of one connection.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::problem::Problem;

use super::get_declaration::DECLARATION_MEMBERS;
use crate::administration::DeclareError;
use crate::connections::requested_connection;
use crate::context::OwnerContext;
use crate::json_body::{invalid_body, read_body};
use crate::media_types;
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseDeclaration,
};
use crate::parameters::Parameters;
use crate::request_target::RequestTarget;
use crate::shared_parameters::{CONNECTION, CONNECTION_ALIAS};

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "putDeclaration",
    method: OperationMethod::Put,
    path: "/v1/streams/{stream}/declaration",
    about: "Declares a stream of one connection, which may be new, and orders and indexes its records accordingly. The key of a stream with records cannot change. No grant becomes broader. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    body: Some(BodyDeclaration { media_type: media_types::JSON, about: "The declaration." }),
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
    let connection = context.target_connection(&stream, requested_connection(parameters)?)?;
    let json: Json = serde_json::from_slice(&read_body(body)?)
        .map_err(|error| invalid_body(format!("the body: {error}; nothing was changed")))?;
    let declaration = Declaration::parse(&json).map_err(DeclareError::from)?;
    let is_new = context.declare(&connection, &stream, &declaration)?;
    Ok(json!({
        "object": "declaration", "stream": stream, "connection_id": connection,
        "is_new": is_new, "declaration": declaration.to_json(),
    }))
}
