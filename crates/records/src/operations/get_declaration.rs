//! `GET /v1/streams/{stream}/declaration`: the declaration of one connection's stream.

use std::io::BufRead;

use serde_json::{Value as Json, json};
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};

use crate::connections::only_source;
use crate::context::OwnerContext;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestTarget;

/// The members of an answer about a declaration.
pub(super) const DECLARATION_MEMBERS: &[&str] =
    &["object", "stream", "connection_id", "declaration"];

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "The declaration of one connection's stream, to be edited and sent back. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    response: ResponseDeclaration::json("declaration", DECLARATION_MEMBERS),
    ..OperationDeclaration::inspect(
        "getDeclaration",
        "/v1/streams/{stream}/declaration",
        get_declaration,
    )
};

fn get_declaration(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    _body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    context.read(|read| {
        let sources =
            read.view.sources_of(&target.stream, NamedConnection::of(parameters).name()?)?;
        let source = only_source(&sources)?;
        Ok(json!({
            "object": "declaration", "stream": source.stream(),
            "connection_id": source.connection(),
            "declaration": read.declarations.get(source)?.to_json(),
        }))
    })
}
