//! `DELETE /v1/grants/{grant_id}/tokens/{jti}`: revokes a token of a grant.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;

use super::revoke_grant;
use crate::context::OwnerContext;
use crate::operation_declaration::{OperationDeclaration, OperationHandler};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "revokeGrantToken",
    path: "/v1/grants/{grant_id}/tokens/{jti}",
    about: "Revokes a token of a grant, from the next request on. Other tokens of the grant stay valid. Repeating the request changes nothing. For the owner alone.",
    handler: OperationHandler::Remove(revoke_grant_token),
    ..revoke_grant::OPERATION
};

fn revoke_grant_token(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    _parameters: &Parameters,
) -> Result<(), Problem> {
    context.tokens()?.revoke(context.owner, &target.grant, &target.key)
}
