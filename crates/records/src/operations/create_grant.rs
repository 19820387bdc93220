//! `POST /v1/grants`: makes a grant.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;

use crate::context::OwnerContext;
use crate::grant_answers::{GRANT_MEMBERS, grant_object};
use crate::grant_document::GrantDocument;
use crate::json_body::read_body;
use crate::media_types;
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "createGrant",
    method: OperationMethod::Post,
    path: "/v1/grants",
    about: "Makes a grant. The answer names fields that a schema requires and that are granted too (`added_fields`), and members of the body that a new grant has of its own (`not_taken_over`). For the owner alone.",
    parameters: &[],
    body: Some(BodyDeclaration {
        media_type: media_types::JSON,
        about: "A grant with `client` and `streams`, or a client's request with `type`.",
    }),
    response: ResponseDeclaration {
        status: 201,
        about: "The grant is made.",
        content: ResponseContent::Json { object: Some("grant"), required: GRANT_MEMBERS },
    },
    other_responses: &[],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Store(create_grant),
};

fn create_grant(
    context: OwnerContext<'_>,
    _target: &RequestTarget,
    _parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let document = GrantDocument::parse(&read_body(body)?)?;
    let passed_over = document.passed_over();
    let created = context.create_grant(document.into_request(context.now)?)?;
    let mut grant = grant_object(&context.find_grant(&created.id)?, context.now);
    let added = created.added.iter();
    let added = added.map(|(stream, field)| json!({ "stream": stream, "field": field }));
    grant.insert("added_fields".to_owned(), added.collect());
    grant.insert("not_taken_over".to_owned(), passed_over.into());
    Ok(Json::Object(grant))
}
