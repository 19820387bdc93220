//! `GET /v1/streams/{stream}/records/{id}`: one record.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadOperation;

use crate::connections::requested_connection;
use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::parameters::{Parameter, ParameterType, Parameters};
use crate::related::{self, RecordSelection};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;
use crate::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, EXPAND, EXPAND_LIMIT, FIELDS, MAX_CURSOR_BYTES, PREVIEW,
    PREVIEW_BYTES, VIEW,
};

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "One record, whole unless `preview_chars` is sent.",
    parameters: &[
        FIELDS,
        VIEW,
        EXPAND,
        EXPAND_LIMIT,
        PREVIEW,
        PREVIEW_BYTES,
        Parameter::optional(
            "fields_cursor",
            ParameterType::Text { max_bytes: MAX_CURSOR_BYTES },
            "Continues with the remaining fields, by the `next_cursor` of `more_fields`. Needs `preview_bytes`.",
        ),
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    response: ResponseDeclaration::json(
        "record",
        &["object", "id", "stream", "connection_id", "data", "emitted_at"],
    ),
    ..OperationDeclaration::read(
        ReadOperation::Record.id(),
        ReadOperation::Record.path(),
        get_record,
    )
};

fn get_record(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources = context.view.sources_of(&target.stream, requested_connection(parameters)?)?;
    related::refuse_owner_parameters(context, parameters)?;
    let limits = PreviewLimits::parse(parameters)?;
    let selection = RecordSelection::parse(context, &sources, parameters)?;
    let row = context.find_record(&sources, &target.key)?;
    let mut related = selection.find_related(context, &sources, std::slice::from_ref(&row))?;
    selection.read_page(context, &sources, (std::slice::from_ref(&row), &related), &limits)?;
    selection.write_record(context, &sources, &row, &limits, (&mut related, out))?;
    out.write(&format!(",\"meta\":{}}}", response_meta(parameters)));
    Ok(())
}
