//! `POST /v1/introspect`: says whether a token is valid here, and for what.
//!
//! *Source*: RFC 7662. Of a token that is not valid here, the answer has `active` and nothing else,
//! so that it does not say why. Each answer is made from the list of tokens and the grant at that
//! moment, so a revocation is seen at once. Introspection never binds a grant for a single token.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::percent;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;
use stile_store::records::GrantStatus;

use crate::context::OwnerContext;
use crate::grant_answers::authorization_detail;
use crate::json_body::{invalid_body, read_body};
use crate::operation_declaration::{
    BodyDeclaration, OperationDeclaration, OperationMethod, ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;
use crate::token_issuer::VerifiedToken;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    method: OperationMethod::Post,
    about: "Says whether a token is valid here for records, whose it is (`pdpp_token_kind` is `owner` or `client`), when it ends, and what its grant allows (RFC 7662). For the owner's own servers, with the owner's token alone.",
    body: Some(BodyDeclaration {
        media_type: "application/x-www-form-urlencoded",
        about: "`token`, and perhaps `token_type_hint`, which changes nothing.",
    }),
    response: ResponseDeclaration {
        status: 200,
        about: "The answer.",
        content: ResponseContent::Json { object: None, required: &["active"] },
    },
    ..OperationDeclaration::inspect("introspectToken", "/v1/introspect", introspect_token)
};

fn introspect_token(
    context: OwnerContext<'_>,
    _target: &RequestTarget,
    _parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let token = token_of_form(&read_body(body)?)?;
    let verified = context.tokens()?.verify(context.owner, &token)?;
    let description = match &verified {
        Some(verified) => describe(context, verified)?,
        None => None,
    };
    Ok(description.unwrap_or_else(|| json!({ "active": false })))
}

/// Returns what is true of a token; `None` if it opens no records now.
fn describe(context: OwnerContext<'_>, token: &VerifiedToken) -> Result<Option<Json>, Problem> {
    // Verification allows for clocks that differ. A server that asks judges `exp` by its own.
    if token.expires <= context.now {
        return Ok(None);
    }
    let subject = token.caller.subject();
    let id = match token.caller.records() {
        RecordsClaim::None | RecordsClaim::Import(_) => return Ok(None),
        RecordsClaim::Owner => {
            return Ok(Some(json!({
                "active": true, "pdpp_token_kind": "owner", "subject_id": subject,
                "exp": token.expires.seconds(),
            })));
        }
        RecordsClaim::Grant(id) => id,
    };
    // The token may be of a grant that a restored database does not have.
    let Some(record) = context.records.find_grant(context.owner, id)? else { return Ok(None) };
    let is_bound_to_another =
        record.bound.is_some() && record.bound.as_deref() != token.caller.token();
    let (GrantStatus::Active, false, Some(grant)) =
        (record.status(context.now), is_bound_to_another, &record.grant)
    else {
        return Ok(None);
    };
    let Some(detail) = authorization_detail(grant) else { return Ok(None) };
    // A server may rely on this answer until `exp`, so the grant must not end before.
    let ends = grant.expires.map_or(token.expires, |expires| expires.min(token.expires));
    Ok(Some(json!({
        "active": true, "pdpp_token_kind": "client", "subject_id": subject,
        "grant_id": record.id, "client_id": grant.client, "exp": ends.seconds(),
        "authorization_details": [detail],
    })))
}

/// Returns the parameter `token` of a form. Other parameters are ignored.
fn token_of_form(form: &[u8]) -> Result<String, Problem> {
    let malformed = || invalid_body("the body is not a form: percent-encoded `token=…`");
    let form = std::str::from_utf8(form).map_err(|_| malformed())?;
    let mut token = None;
    for part in form.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let name = percent::decode_form(name).ok_or_else(malformed)?;
        if name != "token" {
            continue;
        }
        let value = percent::decode_form(value).ok_or_else(malformed)?;
        if token.replace(value).is_some() {
            return Err(invalid_body("the form has `token` twice; send one"));
        }
    }
    token
        .filter(|token| !token.is_empty())
        .ok_or_else(|| invalid_body("the form has no `token`; send the token to be judged"))
}
