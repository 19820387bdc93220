//! `GET /v1/streams/{stream}`: the declaration of one stream.

use serde_json::Value as Json;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};

use crate::connections::only_source;
use crate::context::ReadContext;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestTarget;
use crate::response_sink::ResponseSink;
use crate::stream_description::describe_stream;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "The declaration of a stream, limited to the granted fields.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    response: ResponseDeclaration::json(
        "stream_metadata",
        &["object", "name", "schema", "primary_key", "field_capabilities"],
    ),
    ..OperationDeclaration::read("getStream", "/v1/streams/{stream}", get_stream)
};

fn get_stream(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources =
        context.view.sources_of(&target.stream, NamedConnection::of(parameters).name()?)?;
    let mut answer = describe_stream(context, only_source(&sources)?)?;
    answer.insert("object".to_owned(), "stream_metadata".into());
    out.write(&Json::Object(answer).to_string());
    Ok(())
}
