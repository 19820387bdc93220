//! `DELETE /v1/streams/{stream}/records`: removes all records of one connection's stream.
//!
//! The operation removes the records that the stream has when the request begins. They go in
//! several transactions. If one of them fails, the earlier ones stay, and the same request
//! continues where the first one stopped.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::{ListRecords, ReadOperation as _};

use super::delete_record;
use crate::connections::only_source;
use crate::context::OwnerContext;
use crate::operation_declaration::{OperationDeclaration, OperationHandler};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "deleteRecords",
    path: ListRecords::PATH,
    about: "Removes all records of one connection's stream. The stream stays declared. For the owner alone.",
    handler: OperationHandler::Remove(delete_records),
    ..delete_record::OPERATION
};

fn delete_records(
    context: OwnerContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
) -> Result<(), Problem> {
    let (connection, stream) = context.read(|read| {
        let sources =
            read.view.sources_of(&target.stream, NamedConnection::of(parameters).name()?)?;
        let source = only_source(&sources)?;
        Ok((source.connection().clone(), source.stream().clone()))
    })?;
    let last = context.records.write_at(context.owner, context.now, |batch| {
        match batch.target(&connection, &stream)? {
            Some(target) => batch.last_record(&target),
            None => Ok(None),
        }
    })?;
    let Some(last) = last else { return Ok(()) };
    loop {
        let more = context.records.write_at(context.owner, context.now, |batch| {
            match batch.target(&connection, &stream)? {
                Some(target) => batch.remove_up_to(&target, last),
                None => Ok(false),
            }
        })?;
        if !more {
            return Ok(());
        }
    }
}
