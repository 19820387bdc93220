//! `POST /v1/grants/{grant_id}/tokens`: makes a token for the client of a grant.

use std::io::BufRead;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;
use stile_store::records::GrantStatus;

use crate::context::OwnerContext;
use crate::grant_answers::status_name;
use crate::json_body::{invalid_body, parse_object, read_body};
use crate::media_types;
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;
use crate::token_issuer::GrantTokenOrder;

/// The life of a token whose request names none: 30 days, as on the command line.
const DEFAULT_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "createGrantToken",
    method: OperationMethod::Post,
    path: "/v1/grants/{grant_id}/tokens",
    about: "Makes a token for the client of a grant. The token is in this answer and nowhere else; `jti` revokes it. It has no path scopes and is never the owner's. For the owner alone.",
    parameters: &[],
    body: Some(BodyDeclaration {
        media_type: media_types::JSON,
        about: "An object with `expires_in`, in seconds, at most 366 days, else 30 days; and `client`, the program that uses the token. Both may be left out.",
    }),
    response: ResponseDeclaration {
        status: 201,
        about: "The token is made.",
        content: ResponseContent::Json {
            object: Some("token"),
            required: &[
                "object", "access_token", "token_type", "expires_in", "expires_at", "jti",
                "grant_id",
            ],
        },
    },
    other_responses: &[],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Store(create_grant_token),
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    #[serde(default)]
    client: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

fn create_grant_token(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    _parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let request: TokenRequest = parse_object(&read_body(body)?)?;
    let grant = context.find_grant(&target.grant)?;
    let status = grant.status(context.now);
    if status != GrantStatus::Active {
        return Err(invalid_body(format!(
            "the grant is {}, so a token of it would be refused; no token was made",
            status_name(status)
        )));
    }
    let life = request.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs);
    let order = GrantTokenOrder {
        subject: context.subject,
        grant: &grant.id,
        client: request.client.as_deref(),
        life,
    };
    let token = context.tokens()?.mint(context.owner, &order)?;
    Ok(json!({
        "object": "token", "access_token": token.token, "token_type": "Bearer",
        "expires_in": life.as_secs(), "expires_at": token.expires.to_rfc3339(),
        "jti": token.jti, "grant_id": grant.id,
    }))
}
