//! `GET /v1/grants/{grant_id}`: one grant of the owner's.

use std::io::BufRead;

use serde_json::Value as Json;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;

use crate::context::OwnerContext;
use crate::grant_answers::{GRANT_MEMBERS, grant_object};
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "One grant, with its terms and its state. For the owner alone.",
    response: ResponseDeclaration::json("grant", GRANT_MEMBERS),
    ..OperationDeclaration::inspect("getGrant", "/v1/grants/{grant_id}", get_grant)
};

fn get_grant(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    _parameters: &Parameters,
    _body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    Ok(Json::Object(grant_object(&context.find_grant(&target.grant)?, context.now)))
}
