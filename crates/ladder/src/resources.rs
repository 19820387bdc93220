//! `pdpp://record/{handle}` and `pdpp://field-window/{handle}`: what the tools read, as resources.
//!
//! Resources are not listed; their addresses come from answers. A resource has what the tool
//! answers for the same record, field and window, with the same errors. `_meta` has the addresses
//! of the next and the previous part.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};
use stile_domain::journal::CallTrace;
use stile_domain::permit::Principal;
use stile_domain::records::handle::HandleKind;
use stile_domain::records::problem::CursorProblem;
use stile_tools::answer::ResourceLink;
use stile_tools::tool::{ToolError as _, guard};
use stile_tools::toolset::{ResourceBody, ResourceContent, ResourceKind};

use super::budget::{MAX_ANSWER_PART_BYTES, members_len};
use super::call_context::{CallContext, RECORD_URI, WINDOW_URI};
use super::error::LadderError;
use super::field_part::{FieldPart, PartBody, PartForm};
use super::port::too_large;
use super::record_reference::{fields_cursor, handle_record, open_handle};
use super::{Ladder, fetch};

/// The operation name of resource reads in the journal and the metrics.
pub(super) const OPERATION: &str = "resource";

/// The templates of both kinds of resources.
pub const TEMPLATES: [ResourceKind; 2] = [
    ResourceKind {
        uri: Cow::Borrowed("pdpp://record/{handle}"),
        name: Cow::Borrowed("record"),
        title: "A record",
        description: "One record as `fetch` answers it. Its address comes from `search`, `query_records` or `fetch`.",
        mime_type: Some("application/json"),
    },
    ResourceKind {
        uri: Cow::Borrowed("pdpp://field-window/{handle}"),
        name: Cow::Borrowed("field-window"),
        title: "Part of a field",
        description: "Part of one field, as `read_record_field` reads it, or up to 64 KiB of its bytes. `_meta` has the \
                      addresses of the next and the previous part.",
        mime_type: None,
    },
];

/// The member of `_meta` with the address of the next part.
pub const NEXT_URI: &str = "pdpp/next_uri";
/// The member of `_meta` with the address of the previous part.
pub const PREVIOUS_URI: &str = "pdpp/previous_uri";
/// The member of `_meta` with links to the truncated fields of a record, and to the bytes that a
/// part of a field refers to: `uri`, `name`, `description` and `mimeType` of each.
pub const LINKS: &str = "pdpp/links";
/// The member of `_meta` with the bounds of this part and the size of the field.
pub const RANGE: &str = "pdpp/range";

/// Returns whether an address is that of a record or of a part of a field.
pub(super) fn is_record_uri(uri: &str) -> bool {
    uri.starts_with(RECORD_URI) || uri.starts_with(WINDOW_URI)
}

impl Ladder {
    /// Reads a resource.
    ///
    /// # Errors
    /// As the tool that reads the same; [`LadderError::Cursor`] if the handle is from another
    /// server, for another grant, or for an older version.
    pub(super) async fn read(
        &self,
        uri: &str,
        principal: &Principal,
    ) -> Result<ResourceContent, LadderError> {
        let context = self.context(principal, Json::Null);
        let read = guard(OPERATION, Self::read_unguarded(uri, &context, principal)).await;
        let read = read.unwrap_or_else(|incident| Err(LadderError::internal(incident)));
        let failure = read.as_ref().err().map(|error| error.failure(&error.to_json()));
        let outcome = failure.as_ref().map_or("ok", |failure| failure.code.as_ref());
        let incident = failure.as_ref().and_then(|failure| failure.incident);
        let shown = if failure.is_none() { context.shown() } else { Vec::new() };
        let trace = CallTrace::default().with_records(shown);
        self.log.record(OPERATION, principal, trace, outcome, incident);
        read
    }

    async fn read_unguarded(
        uri: &str,
        context: &CallContext,
        principal: &Principal,
    ) -> Result<ResourceContent, LadderError> {
        Self::authorize(principal)?;
        let content = match (uri.strip_prefix(RECORD_URI), uri.strip_prefix(WINDOW_URI)) {
            (Some(handle), _) => read_record(context, handle).await?,
            (_, Some(handle)) => read_field_part(context, handle).await?,
            _ => return Err(LadderError::Cursor(CursorProblem::Malformed)),
        };
        let (ResourceBody::Text(body) | ResourceBody::Base64(body)) = &content.body;
        if body.len() + content.mime_type.len() > MAX_ANSWER_PART_BYTES
            || members_len(&content.meta) > MAX_ANSWER_PART_BYTES
        {
            return Err(too_large().into());
        }
        Ok(content)
    }
}

async fn read_record(context: &CallContext, handle: &str) -> Result<ResourceContent, LadderError> {
    let handle = open_handle(context, handle, HandleKind::Record)?;
    let id = handle_record(&handle);
    let cursor = fields_cursor(handle.part.clone());
    let document = fetch::document(context, &id, &[], cursor.as_deref()).await?;
    handle.check(context.handle_binding(), None).map_err(LadderError::Cursor)?;
    let mut meta = Map::new();
    meta.extend(document.next_uri.map(|uri| (NEXT_URI.to_owned(), uri.into())));
    let links: Vec<Json> =
        document.links.iter().filter(|link| is_window_link(link)).map(link_json).collect();
    if !links.is_empty() {
        meta.insert(LINKS.to_owned(), links.into());
    }
    Ok(ResourceContent {
        body: ResourceBody::Text(document.text),
        mime_type: "application/json".to_owned(),
        meta,
    })
}

/// Returns whether a link leads to a part of a field. The remaining fields have their own member.
fn is_window_link(link: &ResourceLink) -> bool {
    link.uri.starts_with(WINDOW_URI)
}

fn link_json(link: &ResourceLink) -> Json {
    json!({ "uri": link.uri, "name": link.name, "description": link.description, "mimeType": link.mime_type })
}

async fn read_field_part(
    context: &CallContext,
    handle: &str,
) -> Result<ResourceContent, LadderError> {
    let FieldPart { body, mime_type, next, previous_uri, references, range, .. } =
        FieldPart::read(context, handle, PartForm::Resource).await?;
    let mut meta = Map::new();
    meta.extend(next.map(|next| (NEXT_URI.to_owned(), next.uri.into())));
    meta.extend(previous_uri.map(|uri| (PREVIOUS_URI.to_owned(), uri.into())));
    meta.insert(RANGE.to_owned(), Json::Object(range));
    if !references.is_empty() {
        let links = references.iter().map(|reference| link_json(&reference.link));
        meta.insert(LINKS.to_owned(), links.collect());
    }
    let body = match body {
        PartBody::Text(text) => ResourceBody::Text(text),
        PartBody::Base64(bytes) => ResourceBody::Base64(bytes),
    };
    Ok(ResourceContent { body, mime_type, meta })
}
