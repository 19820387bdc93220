//! `GET /v1/schema`: everything that the caller can ask for, in one answer.
//!
//! A connector in this answer is a connection. The compact form is for language models: it has a
//! short list of words for each field, `t=` its types, `eq` an exact filter, `r=` range filters,
//! `lex` search, `a=` aggregations.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::DeclaredField;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::{GetSchema, ReadOperation as _};
use stile_store::records::RecordSource;

use crate::connections::connection_names;
use crate::context::ReadContext;
use crate::field_selection::{may_see, operator_names};
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestAddress;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;
use crate::stream_description::{describe_stream, expand_capabilities, visible_primary_key};

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "The connections, streams and fields that the caller may see, and the queries that each field allows.",
    response: ResponseDeclaration::json(
        "schema",
        &["object", "bearer", "connectors", "connector_count", "stream_count"],
    ),
    ..OperationDeclaration::of_requests::<GetSchema>()
};

impl AnsweredRequest for GetSchema {
    /// Answers with [`Problem::AmbiguousSchema`] if the request asks for the details of a stream
    /// that several connections have.
    fn answer(
        &self,
        context: ReadContext<'_>,
        _: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let view = context.view;
        let (stream, requested) = (self.stream.as_deref(), self.connection.name()?);
        let compact = self.view == Some("compact");
        let full = self.detail == Some("full");
        if compact && full {
            return Problem::refuse(
                "detail",
                "`view=compact` and `detail=full` exclude each other; send one of them",
            );
        }
        if full && stream.is_none() {
            return Problem::refuse("detail", "`detail=full` is of one stream; send `stream` too");
        }
        let sources = match stream {
            Some(stream) => view.sources_of(stream, requested)?,
            None => view.sources()?,
        };
        if full && sources.len() > 1 {
            return Err(Problem::AmbiguousSchema { connections: connection_names(&sources) });
        }
        let mut by_connection: BTreeMap<&str, Vec<&RecordSource>> = BTreeMap::new();
        for source in &sources {
            if requested.is_none_or(|requested| source.connection().as_str() == requested) {
                by_connection.entry(source.connection().as_str()).or_default().push(source);
            }
        }
        let mut connectors = Vec::new();
        let mut count = 0;
        for (name, sources) in by_connection {
            count += sources.len();
            let streams = sources.iter().map(|source| match compact {
                true => compact_stream(context, source),
                false => describe_stream(context, source).map(Json::Object),
            });
            let streams: Vec<Json> = streams.collect::<Result<_, _>>()?;
            connectors.push(json!({
                "object": "connector",
                "source": { "id": name, "kind": "connector" },
                "connector_key": name,
                "connector_id": name,
                "stream_count": streams.len(),
                "granted_connections": [{ "connection_id": name }],
                "streams": streams,
            }));
        }
        let bearer = match view.grant() {
            None => {
                json!({ "scope": "owner", "token_kind": "owner", "grant_id": null, "client_id": null })
            }
            Some(grant) => json!({
                "scope": "grant", "token_kind": "client", "grant_id": view.caller(), "client_id": grant.client,
            }),
        };
        let mut answer = json!({
            "object": "schema", "bearer": bearer, "connector_count": connectors.len(), "stream_count": count,
            "connectors": connectors, "links": { "self": Self::PATH }, "meta": response_meta(&self.clamped, &self.connection),
        });
        if let Some(answer) = answer.as_object_mut().filter(|_| compact) {
            answer.insert("detail".to_owned(), "compact".into());
        }
        out.write(&answer.to_string());
        Ok(())
    }
}

fn compact_stream(context: ReadContext<'_>, source: &RecordSource) -> Result<Json, Problem> {
    let declaration = context.declarations.get(source)?;
    let fields = declaration.fields().iter().filter(|field| may_see(source, &field.name));
    let fields: Map<String, Json> =
        fields.map(|field| (field.name.clone(), field_flags(field).into())).collect();
    let key = visible_primary_key(&declaration, source);
    let mut stream = json!({
        "name": source.stream(), "primary_key": key, "field_capabilities": fields,
        "expand_capabilities": expand_capabilities(&declaration, source),
    });
    if let (Some(stream), Some(cursor)) = (stream.as_object_mut(), source.ordered_by()) {
        stream.insert("cursor_field".to_owned(), cursor.into());
    }
    Ok(stream)
}

fn field_flags(field: &DeclaredField) -> String {
    let types: Vec<&str> = field.types.iter().map(|kind| kind.name()).collect();
    let mut flags = vec![format!("t={}", types.join("|"))];
    if field.filterable {
        flags.push("eq".to_owned());
    }
    if field.is_range_filterable() {
        flags.push(format!("r={}", operator_names(field).join("|")));
    }
    if field.searchable {
        flags.push("lex".to_owned());
    }
    if field.is_aggregatable() {
        let kinds: Vec<&str> = field.aggregations.iter().map(|kind| kind.name()).collect();
        flags.push(format!("a={}", kinds.join("|")));
    }
    flags.join(",")
}
