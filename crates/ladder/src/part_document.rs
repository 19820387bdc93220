//! A part of a field as a document, for a client that opens an address with `fetch`.

use serde_json::Value as Json;

use super::budget::{Budgets, members_len, prefix_within};
use super::call_context::CallContext;
use super::continuation::{BytesContinuation, PreviewStatus, TextContinuation};
use super::document::{Document, DocumentParts, TITLE_CHARS};
use super::error::LadderError;
use super::field_part::{FieldPart, NextPart, PartBody, PartForm};
use super::json_members::members;

/// The most bytes of the names that the document of a part repeats. Longer names are left out.
const MAX_PART_NAMES: usize = 2048;
/// The least bytes of a part, whatever the budgets.
const LEAST_BYTES: usize = 256;

/// Reads the part of a field at an address, of which `handle` is the end: as much as fits.
pub(super) async fn read_part_document(
    context: &CallContext,
    uri: &str,
    handle: &str,
) -> Result<Document, LadderError> {
    /// Member names, numbers and the title.
    const FIXED: usize = 1536;
    /// How much longer the address of the next part may be: its place has a cursor.
    const CURSOR: usize = 768;
    let addresses = 3 * (uri.len() + CURSOR);
    let Budgets { document, structured, .. } = context.budgets;
    let room = document.min(structured).saturating_sub(FIXED + addresses + MAX_PART_NAMES);
    let mut max_bytes = room.max(LEAST_BYTES);
    loop {
        let part = FieldPart::read(context, handle, PartForm::Document { max_bytes }).await?;
        let made = part_document(uri.to_owned(), part);
        // The references to bytes that end in a part are not known before it is read.
        let excess = made.text.len().saturating_sub(document);
        if excess == 0 || max_bytes == LEAST_BYTES {
            return Ok(made);
        }
        max_bytes = max_bytes.saturating_sub(excess).max(LEAST_BYTES);
    }
}

/// Builds the document of a part of a field.
fn part_document(uri: String, part: FieldPart) -> Document {
    let FieldPart { id, field, body, mime_type, next, references, range, .. } = part;
    let (text, encoding) = match body {
        PartBody::Text(text) => (text, "utf-8"),
        PartBody::Base64(bytes) => (bytes, "base64"),
    };
    let number = |name: &str| range.get(name).and_then(Json::as_u64);
    let entry = next.map(|NextPart { uri, start }| {
        if range.contains_key("start_bytes") {
            let bytes = BytesContinuation {
                field: field.as_str().into(),
                mime_type: Some(&mime_type),
                size_bytes: number("size_bytes"),
                digest: None,
            };
            bytes.at(&id, uri).rendered()
        } else {
            let text = TextContinuation {
                field: &field,
                status: PreviewStatus::Truncated,
                shown: start,
                size: number("size_chars"),
                digest: None,
                start,
                find: None,
                looks_like: None,
            };
            text.at(&id, uri).rendered()
        }
    });
    let mut metadata = members([
        ("stream", id.stream.as_str().into()),
        ("connection_id", id.connection.clone().unwrap_or_default().into()),
        ("record_id", id.key.as_str().into()),
        ("field_path", field.as_str().into()),
    ]);
    if members_len(&metadata) > MAX_PART_NAMES {
        metadata.clear();
    }
    metadata.extend([
        ("mime_type".to_owned(), mime_type.as_str().into()),
        ("encoding".to_owned(), encoding.into()),
    ]);
    metadata.extend(range.clone());
    let title = format!("{} of {id}", Json::from(field.as_str()));
    let frame = DocumentParts {
        id: uri.clone(),
        url: uri,
        title: prefix_within(&title, TITLE_CHARS, 3 * TITLE_CHARS).0.to_owned(),
        metadata,
        entries: entry.into_iter().chain(references).collect(),
        more: None,
    };
    frame.document(text)
}
