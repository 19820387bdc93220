//! `DELETE /v1/streams/{stream}/records/{id}`: removes one record.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};
use stile_domain::records::request::{GetRecord, ReadOperation as _};

use crate::context::OwnerContext;
use crate::operation_declaration::{
    OperationAccess, OperationDeclaration, OperationHandler, OperationMethod, ResponseContent,
    ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "deleteRecord",
    method: OperationMethod::Delete,
    path: GetRecord::PATH,
    about: "Removes a record. Repeating the request changes nothing. For the owner alone.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    body: None,
    response: ResponseDeclaration {
        status: 204,
        about: "Removed, or already absent.",
        content: ResponseContent::Empty,
    },
    other_responses: &[],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Remove(delete_record),
};

fn delete_record(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
) -> Result<(), Problem> {
    let found = context.read(|read| {
        let sources =
            read.view.sources_of(&target.stream, NamedConnection::of(parameters).name()?)?;
        match read.find_record(&sources, &target.key) {
            Ok(row) => Ok(sources
                .get(row.source)
                .map(|source| (source.connection().clone(), source.stream().clone()))),
            Err(Problem::NotFound) => Ok(None),
            Err(problem) => Err(problem),
        }
    })?;
    let Some((connection, stream)) = found else { return Ok(()) };
    context.records.write_at(context.owner, context.now, |batch| {
        match batch.target(&connection, &stream)? {
            Some(found) => batch.delete(&found, &target.key).map(drop),
            None => Ok(()),
        }
    })
}
