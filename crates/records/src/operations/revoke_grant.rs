//! `DELETE /v1/grants/{grant_id}`: revokes a grant.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;

use super::delete_record;
use crate::context::OwnerContext;
use crate::operation_declaration::{
    OperationDeclaration, OperationHandler, ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "revokeGrant",
    path: "/v1/grants/{grant_id}",
    about: "Revokes a grant: no token may use it from the next request on. The grant stays in the list. Repeating the request changes nothing. For the owner alone.",
    parameters: &[],
    response: ResponseDeclaration {
        status: 204,
        about: "Revoked, now or before.",
        content: ResponseContent::Empty,
    },
    handler: OperationHandler::Remove(revoke_grant),
    ..delete_record::OPERATION
};

fn revoke_grant(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    _parameters: &Parameters,
) -> Result<(), Problem> {
    let revoked = context.records.revoke(context.owner, &target.grant, context.now)?;
    revoked.map(drop).ok_or(Problem::GrantNotFound)
}
