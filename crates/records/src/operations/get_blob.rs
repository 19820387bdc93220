//! `GET /v1/blobs/{blob_id}`: the bytes that records refer to.
//!
//! A caller sees a blob only through a record that exposes it. A blob that no such record exposes
//! gets the same error as a blob that does not exist.

use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};
use stile_store::records::Blob;

use crate::context::ReadContext;
use crate::operation_declaration::{
    OperationAccess, OperationDeclaration, OperationHandler, OperationMethod, ResponseContent,
    ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "getBlob",
    method: OperationMethod::Get,
    path: "/v1/blobs/{blob_id}",
    about: "The bytes of a blob that a record exposes in a granted field, or the one range of them that `Range` names.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    body: None,
    response: ResponseDeclaration {
        status: 200,
        about: "All bytes.",
        content: ResponseContent::Bytes,
    },
    other_responses: &[
        ResponseDeclaration {
            status: 206,
            about: "The bytes that `Range` names.",
            content: ResponseContent::Bytes,
        },
        ResponseDeclaration::error(416, "The blob has none of the bytes that `Range` names."),
    ],
    access: OperationAccess::Granted,
    handler: OperationHandler::Blob(find_blob),
};

fn find_blob(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
) -> Result<Blob, Problem> {
    let named = NamedConnection::of(parameters);
    let requested = named.name()?;
    let id = BlobId::parse(&target.key).ok_or(Problem::BlobNotFound)?;
    let mut sources = context.view.sources()?;
    sources.retain(|source| requested.is_none_or(|name| source.connection().as_str() == name));
    context.view.blob(&sources, &id)?.ok_or(Problem::BlobNotFound)
}
