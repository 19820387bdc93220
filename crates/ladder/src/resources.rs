//! `pdpp://record/{handle}` and `pdpp://field-window/{handle}`: what the tools read, as resources.
//!
//! Resources are not listed; their addresses come from answers. A resource has what the tool
//! answers for the same record, field and window, with the same errors. `_meta` has the addresses
//! of the next and the previous part.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use stile_domain::journal::CallTrace;
use stile_domain::permit::Principal;
use stile_domain::records::handle::{FieldRange, Handle, HandleKind, RecordPart, parse_digest};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::selector::{MAX_CHARS, TextSelector};
use stile_tools::answer::ResourceLink;
use stile_tools::tool::{ToolError as _, guard};
use stile_tools::toolset::{ResourceBody, ResourceContent, ResourceKind};

use super::budget::{MAX_ANSWER_PART_BYTES, members_len};
use super::call_context::{CallContext, RECORD_URI, WINDOW_URI};
use super::continuation::MAX_BYTES_PART;
use super::error::LadderError;
use super::port::too_large;
use super::read_record_field::{field_request, not_text_error, read_window};
use super::record_reference::{fields_cursor, handle_record, open_handle};
use super::{Ladder, fetch, wire};

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
/// The member of `_meta` with links to the truncated fields of a record: `uri`, `name`,
/// `description` and `mimeType` of each.
pub const LINKS: &str = "pdpp/links";
/// The member of `_meta` with the bounds of this part and the size of the field.
pub const RANGE: &str = "pdpp/range";

/// A response with a window of bytes.
#[derive(Deserialize)]
struct WireByteWindow {
    field: WireByteField,
    window: WireBytes,
}

#[derive(Deserialize)]
struct WireByteField {
    mime_type: Option<String>,
    digest: Option<String>,
}

#[derive(Deserialize)]
struct WireBytes {
    base64: String,
    total_bytes: Option<u64>,
    start_bytes: u64,
    end_bytes: u64,
    next_offset_bytes: Option<u64>,
    previous_offset_bytes: Option<u64>,
    next_cursor: Option<String>,
    previous_cursor: Option<String>,
}

impl WireBytes {
    /// Returns whether the numbers fit the bytes and each other, and the window begins at the
    /// requested offset, if there was one.
    fn is_consistent(&self, requested: Option<u64>) -> bool {
        let Self { start_bytes: start, end_bytes: end, .. } = *self;
        // Four characters are three bytes, less the padding.
        let filled = self.base64.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
        let count = (self.base64.len() / 4 * 3)
            .checked_sub(filled)
            .and_then(|count| u64::try_from(count).ok());
        let total = self.total_bytes.unwrap_or(u64::MAX);
        self.base64.len().is_multiple_of(4)
            && count.is_some_and(|count| {
                count <= MAX_BYTES_PART && end.checked_sub(start) == Some(count)
            })
            && end <= total
            && i64::try_from(end).is_ok()
            && self.next_offset_bytes.is_none_or(|next| next == end && start < end)
            && self.previous_offset_bytes.is_none_or(|previous| previous < start)
            && requested.is_none_or(|requested| {
                start == requested.min(total) || (start < requested && start == end)
            })
    }
}

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
        let read = guard(OPERATION, self.read_unguarded(uri, principal)).await;
        let read = read.unwrap_or_else(|incident| Err(LadderError::internal(incident)));
        let failure = read.as_ref().err().map(|error| error.failure(&error.to_json()));
        let outcome = failure.as_ref().map_or("ok", |failure| failure.code.as_ref());
        let incident = failure.as_ref().and_then(|failure| failure.incident);
        self.log.record(OPERATION, principal, CallTrace::default(), outcome, incident);
        read
    }

    async fn read_unguarded(
        &self,
        uri: &str,
        principal: &Principal,
    ) -> Result<ResourceContent, LadderError> {
        Self::authorize(principal)?;
        let context = self.context(principal, Json::Null);
        let content = match (uri.strip_prefix(RECORD_URI), uri.strip_prefix(WINDOW_URI)) {
            (Some(handle), _) => read_record(&context, handle).await?,
            (_, Some(handle)) => read_field_part(&context, handle).await?,
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
    let handle = open_handle(context, handle, HandleKind::Field)?;
    match handle.part.clone() {
        RecordPart::Bytes { extent, cursor } => {
            read_bytes(context, &handle, extent, cursor.as_deref()).await
        }
        RecordPart::Window(extent) => read_text(context, &handle, extent).await,
        RecordPart::Fields { .. } => Err(LadderError::Cursor(CursorProblem::Mismatch)),
    }
}

async fn read_text(
    context: &CallContext,
    handle: &Handle,
    extent: FieldRange,
) -> Result<ResourceContent, LadderError> {
    let selector =
        TextSelector::At { start: extent.start, limit: extent.limit.clamp(1, MAX_CHARS) };
    let id = handle_record(handle);
    let window = match read_window(context, &id, &extent.field, &selector).await {
        Err(LadderError::Server { response, .. }) if response.code() == "field_not_text" => {
            handle.check(context.handle_binding(), None).map_err(LadderError::Cursor)?;
            // The field was a text when the handle was made, with a known digest, and is not a text
            // now.
            if extent.digest.is_some() {
                return Err(LadderError::Cursor(CursorProblem::Stale));
            }
            return Err(not_text_error(context, &id, &extent.field, response).await?.0.into());
        }
        other => other?,
    };
    window.check(context, handle)?;
    let mut meta = Map::new();
    meta.extend(window.next_uri(context)?.map(|uri| (NEXT_URI.to_owned(), uri.into())));
    meta.extend(window.previous_uri(context)?.map(|uri| (PREVIOUS_URI.to_owned(), uri.into())));
    let range = json!({ "start_chars": window.start, "end_chars": window.end, "size_chars": window.size_chars });
    meta.insert(RANGE.to_owned(), range);
    let mime_type = window.mime_type.unwrap_or_else(|| "text/plain".to_owned());
    Ok(ResourceContent { body: ResourceBody::Text(window.text), mime_type, meta })
}

async fn read_bytes(
    context: &CallContext,
    handle: &Handle,
    extent: FieldRange,
    cursor: Option<&str>,
) -> Result<ResourceContent, LadderError> {
    let id = handle_record(handle);
    let limit = extent.limit.clamp(1, MAX_BYTES_PART);
    let ask = field_request(&id, &extent.field)
        .with_some("cursor", cursor)
        .with_some("offset_bytes", cursor.is_none().then_some(extent.start))
        .with("limit_bytes", limit.to_string());
    let answer = context.ask(ask).await?;
    let response: WireByteWindow = wire::parse(&answer)?;
    let digest = response.field.digest.as_deref().and_then(parse_digest);
    handle.check(context.handle_binding(), digest).map_err(LadderError::Cursor)?;
    if !response.window.is_consistent(cursor.is_none().then_some(extent.start)) {
        return Err(LadderError::invalid_response());
    }
    let uri = |start: u64, limit: u64, cursor: Option<String>| {
        context.uri(
            &id,
            RecordPart::Bytes {
                extent: FieldRange { start, limit, digest, ..extent.clone() },
                cursor,
            },
        )
    };
    let mut meta = Map::new();
    if let Some(next) = response.window.next_offset_bytes {
        meta.insert(NEXT_URI.to_owned(), uri(next, limit, response.window.next_cursor)?.into());
    }
    if let Some(before) = response.window.previous_offset_bytes {
        let limit = response.window.start_bytes.saturating_sub(before);
        meta.insert(
            PREVIOUS_URI.to_owned(),
            uri(before, limit, response.window.previous_cursor)?.into(),
        );
    }
    let range = json!({
        "start_bytes": response.window.start_bytes, "end_bytes": response.window.end_bytes, "size_bytes": response.window.total_bytes,
    });
    meta.insert(RANGE.to_owned(), range);
    let mime_type =
        response.field.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    Ok(ResourceContent { body: ResourceBody::Base64(response.window.base64), mime_type, meta })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_windows_of_bytes_are_refused() {
        let bytes = |length: usize, start: u64, end: u64| WireBytes {
            base64: "A".repeat(length),
            total_bytes: None,
            start_bytes: start,
            end_bytes: end,
            next_offset_bytes: Some(end),
            previous_offset_bytes: start.checked_sub(1),
            next_cursor: None,
            previous_cursor: None,
        };
        assert!(bytes(8, 3, 9).is_consistent(Some(3)) && bytes(8, 3, 9).is_consistent(None));
        assert!(!bytes(8, 3, 9).is_consistent(Some(4)), "it begins elsewhere");
        assert!(WireBytes { base64: "AAA=".to_owned(), ..bytes(4, 0, 2) }.is_consistent(Some(0)));
        for (length, start, end) in
            [(8, 9, 3), (8, 3, 10), (7, 0, 5), (8, u64::MAX - 6, u64::MAX), (87_384, 0, 65_538)]
        {
            assert!(!bytes(length, start, end).is_consistent(None), "{length} {start} {end}");
        }
        for next in [0, 3, 10] {
            assert!(
                !WireBytes { next_offset_bytes: Some(next), ..bytes(8, 3, 9) }.is_consistent(None),
                "{next}"
            );
        }
        assert!(
            !WireBytes { previous_offset_bytes: Some(3), ..bytes(8, 3, 9) }.is_consistent(None)
        );
    }
}
