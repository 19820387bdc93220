//! `GET /v1/grants`: the owner's grants, a page at a time.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::{AboveMax, Parameter, Parameters};
use stile_domain::records::request::shared_parameters::{CURSOR, DEFAULT_LIMIT, MAX_LIMIT, number};

use crate::context::OwnerContext;
use crate::grant_answers::grant_object;
use crate::list_response::{LIST_MEMBERS, page_limit};
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;

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
    for grant in rest.iter().take(page_limit(parameters.number("limit"))) {
        let object = Json::Object(grant_object(grant, context.now));
        bytes += object.to_string().len();
        if bytes > MAX_PAGE_BYTES && !data.is_empty() {
            break;
        }
        data.push(object);
    }
    let last = data.len().checked_sub(1).and_then(|last| rest.get(last));
    let next = last.filter(|_| data.len() < rest.len()).map(|last| last.id.as_str());
    let address = target.address();
    let mut list = json!({
        "object": "list", "url": address.path, "has_more": next.is_some(), "data": data,
        "links": {
            "self": address.target(),
            "next": next.map(|cursor| address.target_with_cursor(cursor)),
        },
        "meta": response_meta(&parameters.clamped, &NamedConnection::default()),
    });
    if let (Some(list), Some(next)) = (list.as_object_mut(), next) {
        list.insert("next_cursor".to_owned(), next.into());
    }
    Ok(list)
}
