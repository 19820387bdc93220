//! `GET /v1/grants`: the owner's grants, a page at a time.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::problem::{CursorProblem, Problem};

use crate::context::OwnerContext;
use crate::grant_answers::grant_object;
use crate::list_response::{DEFAULT_LIMIT, LIST_MEMBERS, MAX_LIMIT, page_limit};
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::parameters::{AboveMax, Parameter, Parameters};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;
use crate::shared_parameters::{CURSOR, number};

/// A page ends before the grant with which it would be longer, in bytes of JSON. A single grant may
/// be longer by itself.
const MAX_PAGE_BYTES: usize = 1 << 20;

const _: () = assert!(DEFAULT_LIMIT == 25);

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "All grants, the oldest first, with their terms and states. For the owner alone.",
    parameters: &[
        Parameter::optional(
            "limit",
            number(1, MAX_LIMIT, AboveMax::Clamped),
            "At most this many grants; the default is 25. A page may have fewer.",
        ),
        CURSOR,
    ],
    response: ResponseDeclaration::json("list", LIST_MEMBERS),
    ..OperationDeclaration::inspect("listGrants", "/v1/grants", list_grants)
};

fn list_grants(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    _body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let grants = context.records.grants(context.owner)?;
    // Grants are never deleted, so the identifier of the last one on a page finds its place again.
    let rest = match parameters.text("cursor") {
        None => grants.as_slice(),
        Some(cursor) => {
            let last = grants.iter().position(|grant| grant.id == cursor);
            let rest = last.and_then(|last| grants.get(last + 1..));
            rest.ok_or(Problem::InvalidCursor(CursorProblem::Malformed))?
        }
    };
    let (mut data, mut bytes) = (Vec::new(), 0);
    for grant in rest.iter().take(page_limit(parameters)) {
        let object = Json::Object(grant_object(grant, context.now));
        bytes += object.to_string().len();
        if bytes > MAX_PAGE_BYTES && !data.is_empty() {
            break;
        }
        data.push(object);
    }
    let last = data.len().checked_sub(1).and_then(|last| rest.get(last));
    let next = last.filter(|_| data.len() < rest.len()).map(|last| last.id.as_str());
    let mut list = json!({
        "object": "list", "url": target.path, "has_more": next.is_some(), "data": data,
        "links": {
            "self": target.address(),
            "next": next.map(|cursor| target.address_with_cursor(cursor)),
        },
        "meta": response_meta(parameters),
    });
    if let (Some(list), Some(next)) = (list.as_object_mut(), next) {
        list.insert("next_cursor".to_owned(), next.into());
    }
    Ok(list)
}
