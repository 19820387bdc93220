//! `GET /v1/streams`: the streams that the caller may see.

use serde_json::json;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::NamedConnection;
use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::shared_parameters::{CONNECTION, CONNECTION_ALIAS};

use crate::context::ReadContext;
use crate::list_response::LIST_MEMBERS;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;

const PATH: &str = "/v1/streams";

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "The streams that the caller may see, one row for each connection that has one.",
    parameters: &[CONNECTION, CONNECTION_ALIAS],
    response: ResponseDeclaration::json("list", LIST_MEMBERS),
    ..OperationDeclaration::read("listStreams", PATH, list_streams)
};

fn list_streams(
    context: ReadContext<'_>,
    _target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let named = NamedConnection::of(parameters);
    let requested = named.name()?;
    let mut rows = Vec::new();
    let mut sources = context.view.sources()?;
    sources.retain(|source| requested.is_none_or(|name| source.connection().as_str() == name));
    let counts = context.view.counts(&sources)?;
    for (source, (count, latest)) in sources.iter().zip(counts) {
        rows.push(json!({
            "object": "stream",
            "name": source.stream(),
            "connection_id": source.connection(),
            "connector_instance_id": source.connection(),
            "record_count": count,
            "last_updated": latest.map(Instant::to_rfc3339),
        }));
    }
    let answer = json!({
        "object": "list", "url": PATH, "has_more": false, "data": rows,
        "links": { "self": PATH, "next": null }, "meta": response_meta(&parameters.clamped, &named),
    });
    out.write(&answer.to_string());
    Ok(())
}
